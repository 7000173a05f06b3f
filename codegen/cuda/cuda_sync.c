/* cuda_sync.c: where the threads of a warp have to wait for each other.
 *
 * Threads of a warp need not run in step.  Two accesses of one buffer, one of
 * them a store, need a __syncwarp in between unless one thread makes both:
 * thread 0 in scalar code, or the thread that the last subscript names.
 * Asynchronous copies touch nothing here: barriers stand on both sides.
 * `pending` holds what was touched since the last __syncwarp on the way here,
 * `carried` what iterations before may have touched.  What comes ahead of a
 * loop is waited for ahead of it. */
#include "codegen/cuda/cuda_impl.h"

cgc_touch_t *cgc_touches(cgc_t *g) {
  return TD_NEW_ARRAY(g->arena, cgc_touch_t, g->buffer_list.length + 1);
}

typedef struct collector {
  cgc_t *g;
  cgc_touch_t *out;
  uint8_t who; /* 0: by subscripts */
} collector_t;

static void collect(void *user, const kir_expr_t *e) {
  collector_t *c = user;
  if (e->op != KIR_X_LOAD && e->op != KIR_X_FOLD) return;
  const cgc_buffer_t *b = cgc_buffer(c->g, e->u.buffer);
  if (b->place == CGC_REGS) return;
  uint8_t who = c->who;
  if (e->op == KIR_X_FOLD) who = CGC_BY_ANY;
  if (who == 0) who = cgc_who(c->g, b->b, e->arg_count, e->args);
  c->out[b->index].read |= who;
}

void cgc_touch_expr(cgc_t *g, const kir_expr_t *e, uint8_t who,
                    cgc_touch_t *out) {
  if (e == NULL) return;
  collector_t c = {g, out, who};
  kir_walker_t walker;
  kir_walker_init(&walker, g->arena);
  kir_walk_into(&walker, e, collect, &c);
}

/* Neighbours belong to one thread if places are its own by as many. */
static uint8_t neighbours_of(const kir_stmt_t *s) {
  return s->step == 2   ? CGC_BY_TWOS
         : s->step == 4 ? CGC_BY_FOURS
         : s->step == 8 ? CGC_BY_EIGHTS
                        : 0;
}

static void touch_neighbours(cgc_t *g, const kir_stmt_t *s,
                             cgc_touch_t *out) {
  const cgc_buffer_t *from = cgc_buffer(g, s->value->u.buffer);
  if (from->place == CGC_REGS) return;
  if (out[from->index].read != neighbours_of(s)) {
    out[from->index].read |= CGC_BY_ANY;
  }
}

/* Scalar stores to memory are made, and their values computed, by thread 0
 * alone; everything else in scalar code by all threads. */
void cgc_touch_own(cgc_t *g, const kir_stmt_t *s, cgc_touch_t *out) {
  bool is_lanes = g->lanes > 0;
  uint8_t who = is_lanes ? 0 : CGC_BY_ANY;
  bool is_store = (s->kind == KIR_STORE || s->kind == KIR_COPY) &&
                  cgc_buffer(g, s->buffer)->place != CGC_REGS;
  if (is_store && !is_lanes) who = CGC_BY_ZERO;
  for (uint32_t i = 0; i < kir_stmt_expr_count(s); i++) {
    cgc_touch_expr(g, kir_stmt_expr(s, i), who, out);
  }
  if (s->kind == KIR_COPY) touch_neighbours(g, s, out);
  if (!is_store) return;
  const cgc_buffer_t *b = cgc_buffer(g, s->buffer);
  out[b->index].write |=
      is_lanes ? cgc_who(g, b->b, s->sub_count, s->subs) : CGC_BY_ZERO;
  uint8_t by = neighbours_of(s);
  if (s->kind == KIR_COPY && out[b->index].write != by) {
    out[b->index].write |= CGC_BY_ANY;
  }
}

void cgc_touch_turn(cgc_t *g, const kir_block_t *body, cgc_touch_t *out) {
  size_t first = 0;
  for (size_t i = 0; i < body->length; i++) {
    const kir_stmt_t *s = body->data[i];
    if (s->kind == KIR_BARRIER && s->step == 0) first = i + 1;
  }
  for (size_t i = first; i < body->length; i++) {
    cgc_touch_stmt(g, body->data[i], out);
  }
}

static void touch_block(cgc_t *g, const kir_block_t *block, cgc_touch_t *out) {
  for (size_t i = 0; i < block->length; i++) {
    cgc_touch_stmt(g, block->data[i], out);
  }
}

void cgc_touch_stmt(cgc_t *g, const kir_stmt_t *s, cgc_touch_t *out) {
  bool is_lane_loop = s->kind == KIR_LOOP && s->loop == KIR_LOOP_LANE;
  if (is_lane_loop) {
    g->lanes = (uint32_t)s->hi->u.i64;
    g->lane_var = s->var;
  }
  cgc_touch_own(g, s, out);
  touch_block(g, &s->body, out);
  touch_block(g, &s->orelse, out);
  if (is_lane_loop) {
    g->lanes = 0;
    g->lane_var = NULL;
  }
}

/* All of both by one thread an element. */
static bool is_apart(uint8_t a, uint8_t b) {
  if (a == 0 || b == 0) return true;
  unsigned both = (unsigned)a | b;
  return (both & CGC_BY_ANY) == 0 && (both & (both - 1)) == 0;
}

bool cgc_conflict(const cgc_t *g, const cgc_touch_t *before,
                  const cgc_touch_t *after) {
  for (size_t i = 0; i < g->buffer_list.length; i++) {
    /* of two stores to a shared element of a block with warp loops either
     * may stay until a barrier */
    bool is_free = g->warps > 0 && g->buffer_list.data[i]->place == CGC_SHARED;
    if (!is_apart(before[i].write, after[i].read) ||
        !is_apart(before[i].read, after[i].write) ||
        (!is_free && !is_apart(before[i].write, after[i].write))) {
      return true;
    }
  }
  return false;
}

void cgc_add_touches(const cgc_t *g, cgc_touch_t *to,
                     const cgc_touch_t *from) {
  for (size_t i = 0; i < g->buffer_list.length; i++) {
    to[i].read |= from[i].read;
    to[i].write |= from[i].write;
  }
}

const char *cgc_mates(cgc_t *g) {
  if (g->width == CGC_WARP) return "0xffffffffu";
  g->has_mates = true;
  return "mates";
}

void cgc_put_sync(cgc_t *g) {
  bool is_all = g->width == CGC_WARP;
  cg_line(&g->text, "__syncwarp(%s);", is_all ? "" : cgc_mates(g));
}

static void put_sync(cgc_t *g) {
  size_t bytes = g->buffer_list.length * sizeof *g->pending;
  cgc_put_sync(g);
  memset(g->pending, 0, bytes);
  memset(g->carried, 0, bytes);
}

void cgc_barrier(cgc_t *g) {
  size_t bytes = g->buffer_list.length * sizeof *g->pending;
  cg_line(&g->text, "__syncthreads();");
  memset(g->pending, 0, bytes);
  memset(g->carried, 0, bytes);
}

const char *cgc_some_warps(cgc_t *g, const kir_stmt_t *s) {
  int64_t lo = s->lo->u.i64, hi = s->hi->u.i64;
  bool is_last = hi == (int64_t)g->warps;
  if (hi - lo == 1 && g->warps > 1) {
    return td_arena_printf(g->arena, "warp == %lld", (long long)lo);
  }
  if (lo == 0 && is_last) return NULL;
  if (lo == 0) return td_arena_printf(g->arena, "warp < %lld", (long long)hi);
  if (is_last) return td_arena_printf(g->arena, "warp >= %lld", (long long)lo);
  return td_arena_printf(g->arena, "warp >= %lld && warp < %lld",
                         (long long)lo, (long long)hi);
}

/* Some warps' barrier does not end what is pending: others may not know. */
void cgc_put_barrier(cgc_t *g, const kir_stmt_t *s) {
  if (s->step == 0) {
    cgc_barrier(g);
    return;
  }
  const char *some = cgc_some_warps(g, s);
  if (some != NULL) cg_open(&g->text, "if (%s) {", some);
  cg_line(&g->text, "asm volatile(\"bar.sync %lld, %lld;\" ::: \"memory\");",
          (long long)s->step,
          (long long)(s->hi->u.i64 - s->lo->u.i64) * CGC_WARP);
  if (some != NULL) cg_close(&g->text, "}");
}

void cgc_sync_before(cgc_t *g, const cgc_touch_t *next) {
  if (!g->is_warp) return;
  if (cgc_conflict(g, g->pending, next) || cgc_conflict(g, g->carried, next)) {
    put_sync(g);
  }
  cgc_add_touches(g, g->pending, next);
}

void cgc_sync_loop(cgc_t *g, const cgc_touch_t *inside,
                   const cgc_touch_t *turn) {
  if (!g->is_warp) return;
  if (cgc_conflict(g, g->pending, inside)) put_sync(g);
  cgc_add_touches(g, g->carried, turn);
}
