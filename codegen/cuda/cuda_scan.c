/* cuda_scan.c: what has to be known of a whole kernel before its text. */
#include "codegen/cuda/cuda_impl.h"

#include "runtime/base/num.h"

/* Rounds repeat until nothing falls idle any more: a variable that only an
 * idle statement uses is idle too, and an unused one would be a warning. */
typedef struct scan {
  cgc_t *g;
  kir_walker_t walker; /* of one statement */
  bool has_lanes, has_folds;
  int64_t lanes;       /* most of a loop, or of a row */
  uint32_t round;
  uint32_t idle;       /* statements that nobody needs */
  uint32_t *last_uses; /* var_uses of the round before */
} scan_t;

static cgc_buffer_t *add_buffer(cgc_t *g, const kir_buffer_t *b) {
  cgc_buffer_t *known = td_map_get_u64(g->buffers, cgc_key(b));
  if (known != NULL) return known;
  cgc_buffer_t *c = TD_NEW(g->arena, cgc_buffer_t);
  c->b = b;
  c->index = (uint32_t)g->buffer_list.length;
  c->place = b->space == KIR_GLOBAL ? CGC_PARAM : CGC_REGS;
  c->name = b->space == KIR_GLOBAL ? cg_name(g->arena, "p", b->id, b->name)
                                   : cg_name(g->arena, "m", c->index, b->name);
  c->has_warps = g->warps > 0 && !g->is_in_warp && b->space == KIR_REGISTER;
  td_map_put_u64(g->buffers, cgc_key(b), c);
  td_vec_push(g->arena, &g->buffer_list, c);
  return c;
}

static void note_row(cgc_t *g, cgc_buffer_t *c, kir_expr_t *const *subs) {
  if (c->b->space == KIR_REGISTER && c->b->rank > c->has_warps &&
      !cgc_is_own_lane(g, c->b, subs)) {
    c->is_exchanged = true;
  }
}

static void note_lanes(scan_t *s, int64_t lanes) {
  if (lanes > s->lanes) s->lanes = lanes;
}

/* Rows lie across the threads of a worker. */
static void note_width(scan_t *s, const kir_buffer_t *b) {
  int64_t n = 0;
  if (b->space != KIR_REGISTER || b->rank == 0) return;
  if (cgc_buffer(s->g, b)->has_warps && b->rank == 1) return;
  if (ix_is_const(b->dims[b->rank - 1], &n)) note_lanes(s, n);
}

static void see_expr(void *user, const kir_expr_t *e) {
  scan_t *s = user;
  if (e->op == KIR_X_VAR) s->g->var_uses[e->u.var->id]++;
  if (e->op != KIR_X_LOAD && e->op != KIR_X_FOLD) return;
  cgc_buffer_t *c = add_buffer(s->g, e->u.buffer);
  c->reads++;
  note_width(s, e->u.buffer);
  if (e->op == KIR_X_LOAD) note_row(s->g, c, e->args);
  else s->has_folds = true;
}

/* A let of an integer that is known stands where it is used. */
static bool is_needed(scan_t *s, const kir_stmt_t *stmt) {
  if (s->round == 0) return true;
  if (stmt->kind == KIR_LET) {
    const kir_expr_t *v = stmt->value;
    return s->last_uses[stmt->var->id] > 0 &&
           !(v->type == TDSL_DTYPE_I64 && cgc_trait(s->g, v)->is_const);
  }
  bool is_store = stmt->kind == KIR_STORE || stmt->kind == KIR_COPY;
  return !is_store || stmt->buffer->space != KIR_REGISTER ||
         cgc_buffer(s->g, stmt->buffer)->is_read;
}

/* Statements nest as loops do (kir_verify caps them), so recursion is
 * bounded. */
static void see_block(scan_t *s, const kir_block_t *block) {
  cgc_t *g = s->g;
  for (size_t i = 0; i < block->length; i++) {
    const kir_stmt_t *stmt = block->data[i];
    bool is_lane_loop = stmt->kind == KIR_LOOP && stmt->loop == KIR_LOOP_LANE;
    bool is_warp_loop = stmt->kind == KIR_LOOP && stmt->loop == KIR_LOOP_WARP;
    if (stmt->var != NULL) {
      g->defs[stmt->var->id] = stmt;
      g->lane_lets[stmt->var->id] =
          stmt->kind == KIR_LET && g->lane_var != NULL;
    }
    if (!is_needed(s, stmt)) {
      s->idle++;
      continue;
    }
    if (stmt->buffer != NULL) {
      cgc_buffer_t *c = add_buffer(g, stmt->buffer);
      if (stmt->kind != KIR_ALLOC) {
        c->is_written = true;
        note_width(s, stmt->buffer);
        note_row(g, c, stmt->subs);
      }
    }
    if (is_lane_loop) {
      s->has_lanes = true;
      note_lanes(s, stmt->hi->u.i64);
      g->lane_var = stmt->var;
      g->lanes = (uint32_t)stmt->hi->u.i64;
    }
    /* an expression that two statements share is met in both: a row may be
     * used by its own lane in one of them alone */
    kir_walker_init(&s->walker, g->arena);
    for (uint32_t k = 0; k < kir_stmt_expr_count(stmt); k++) {
      kir_walk_into(&s->walker, kir_stmt_expr(stmt, k), see_expr, s);
    }
    g->is_in_warp |= is_warp_loop;
    see_block(s, &stmt->body);
    if (is_warp_loop) g->is_in_warp = false;
    see_block(s, &stmt->orelse);
    if (is_lane_loop) {
      g->lane_var = NULL;
      g->lanes = 0;
    }
  }
}

void cgc_scan(cgc_t *g) {
  scan_t s = {.g = g};
  g->warps = kir_warp_count(g->kernel);
  g->is_in_warp = false;
  uint32_t n = g->kernel->var_count + 1;
  g->defs = TD_NEW_ARRAY(g->arena, const kir_stmt_t *, n);
  g->lane_lets = TD_NEW_ARRAY(g->arena, bool, n);
  g->var_names = TD_NEW_ARRAY(g->arena, const char *, n);
  for (uint32_t i = 0; i < g->kernel->param_count; i++) {
    (void)add_buffer(g, g->kernel->params[i]);
  }
  for (uint32_t idle = UINT32_MAX; idle != s.idle; s.round++) {
    idle = s.idle;
    s.idle = 0;
    s.has_folds = false;
    s.last_uses = g->var_uses;
    g->var_uses = TD_NEW_ARRAY(g->arena, uint32_t, n);
    see_block(&s, &g->kernel->body);
    for (size_t i = 0; i < g->buffer_list.length; i++) {
      cgc_buffer_t *c = g->buffer_list.data[i];
      c->is_read = c->reads > 0;
      c->reads = 0;
    }
  }
  g->is_warp = s.has_lanes || s.has_folds || g->warps > 0;
  bool is_half = g->warps == 0 && s.lanes <= CGC_HALF;
  g->width = !g->is_warp ? 1 : is_half ? CGC_HALF : CGC_WARP;
}
