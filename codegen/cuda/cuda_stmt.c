/* cuda_stmt.c: statements outside of lane loops: all threads of the worker
 * run them alike. */
#include "codegen/cuda/cuda_impl.h"

#define F(...) td_arena_printf(g->arena, __VA_ARGS__)

/* Statements that unrolling may make of a loop nest: compiling takes longer
 * than their number grows. */
enum {
  UNROLL_MOST = 512,
  COPY_MOST = 64,    /* a serial loop of more stays one */
};

void cgc_begin_stmt(cgc_t *g, const kir_stmt_t *s) {
  enum { MOST = IX_MAX_RANK + 4 };
  const kir_expr_t *roots[MOST];
  uint32_t n = kir_stmt_expr_count(s);
  TD_CHECK(g->task, n <= MOST, "%u expressions", n);
  for (uint32_t i = 0; i < n; i++) roots[i] = kir_stmt_expr(s, i);
  cgc_begin(g, roots, n);
  for (uint32_t i = 0; i < n; i++) cgc_hoist_folds(g, roots[i]);
}

bool cgc_is_idle(cgc_t *g, const kir_stmt_t *s) {
  if (s->kind == KIR_LET) {
    return g->var_uses[s->var->id] == 0 ||
           (s->value->type == TDSL_DTYPE_I64 &&
            cgc_trait(g, s->value)->is_const);
  }
  return (s->kind == KIR_STORE || s->kind == KIR_COPY) &&
         s->buffer->space == KIR_REGISTER &&
         !cgc_buffer(g, s->buffer)->is_read;
}

static const char *name_var(cgc_t *g, const kir_var_t *v) {
  g->var_names[v->id] = cg_name(g->arena, "v", v->id, v->name);
  return g->var_names[v->id];
}

void cgc_let(cgc_t *g, const kir_stmt_t *s) {
  const char *v = cgc_expr(g, s->value);
  cg_line(&g->text, "const %s %s = %s;", cgc_type_of(g, s->value),
          name_var(g, s->var), cgc_bare(g, v));
}

/* ---- loops --------------------------------------------------------------- */

/* A bound is evaluated once, before the loop. */
static const char *fixed(cgc_t *g, const kir_expr_t *e) {
  const char *text = cgc_expr(g, e);
  if (strpbrk(text, " (") == NULL || cgc_trait(g, e)->is_const) return text;
  uint32_t n = g->temps++;
  cg_line(&g->text, "const %s t%u = %s;", cgc_type_of(g, e), n,
          cgc_bare(g, text));
  return F("t%u", n);
}

static uint64_t copies(const kir_block_t *block) {
  uint64_t sum = 0;
  for (size_t i = 0; i < block->length; i++) {
    const kir_stmt_t *s = block->data[i];
    uint64_t times = 1;
    if (s->kind == KIR_LOOP && s->loop == KIR_LOOP_UNROLL) {
      times = (uint64_t)(s->hi->u.i64 - s->lo->u.i64) / (uint64_t)s->step + 1;
    }
    sum += times * (1 + copies(&s->body) + copies(&s->orelse));
  }
  return sum;
}

static cgc_touch_t *copy_of(cgc_t *g, const cgc_touch_t *t) {
  cgc_touch_t *copy = cgc_touches(g);
  cgc_add_touches(g, copy, t);
  return copy;
}

/* The loop is gone through at least once. */
static bool is_entered(cgc_t *g, const kir_stmt_t *s) {
  const cgc_trait_t *lo = cgc_trait(g, s->lo), *hi = cgc_trait(g, s->hi);
  return lo->is_const && hi->is_const && lo->value < hi->value;
}

static void counted_loop(cgc_t *g, const kir_stmt_t *s) {
  cgc_touch_t *bounds = cgc_touches(g);
  cgc_touch_expr(g, s->lo, CGC_BY_ANY, bounds);
  cgc_touch_expr(g, s->hi, CGC_BY_ANY, bounds);
  cgc_sync_before(g, bounds);
  cgc_begin_stmt(g, s);
  const char *hi = fixed(g, s->hi);
  const char *lo = cgc_bare(g, cgc_expr(g, s->lo));
  const char *v = name_var(g, s->var);
  /* waiting for what came before is done once, ahead of the loop; inside,
   * the iteration before counts as well */
  cgc_touch_t *inside = cgc_touches(g);
  cgc_touch_stmt(g, s, inside);
  cgc_touch_t *turn = cgc_touches(g);
  cgc_touch_turn(g, &s->body, turn);
  cgc_sync_loop(g, inside, turn);
  cgc_touch_t *pending = copy_of(g, g->pending);
  cgc_touch_t *carried = copy_of(g, g->carried);
  uint64_t once = copies(&s->body);
  if (s->loop == KIR_LOOP_UNROLL) {
    uint64_t span = (uint64_t)(s->hi->u.i64 - s->lo->u.i64);
    uint64_t times = span / (uint64_t)s->step + 1;
    if (times * once <= UNROLL_MOST) cg_line(&g->text, "#pragma unroll");
  } else if (once > COPY_MOST) {
    cg_line(&g->text, "#pragma unroll 1");
  }
  const char *step = s->step == 1 ? F("%s++", v)
                                  : F("%s += %s", v, cgc_int(g, s->step));
  cg_open(&g->text, "for (%s %s = %s; %s < %s; %s) {",
          cgc_type_of(g, kir_var_ref(g->arena, s->var)), v, lo, v, hi, step);
  cgc_block(g, &s->body);
  cg_close(&g->text, "}");
  if (is_entered(g, s)) return;
  cgc_add_touches(g, g->pending, pending);
  cgc_add_touches(g, g->carried, carried);
}

/* ---- conditions and stores ----------------------------------------------- */

static void emit_if(cgc_t *g, const kir_stmt_t *s) {
  cgc_touch_t *own = cgc_touches(g);
  cgc_touch_own(g, s, own);
  cgc_sync_before(g, own);
  cgc_begin_stmt(g, s);
  const char *c = cgc_bare(g, cgc_expr(g, s->mask));
  size_t bytes = g->buffer_list.length * sizeof *own;
  cgc_touch_t *before = copy_of(g, g->pending);
  cgc_touch_t *carried = copy_of(g, g->carried);
  cg_open(&g->text, "if (%s) {", c);
  cgc_block(g, &s->body);
  /* afterwards either arm may have been gone through */
  cgc_touch_t *after = copy_of(g, g->pending);
  memcpy(g->pending, before, bytes);
  memcpy(g->carried, carried, bytes);
  if (s->orelse.length > 0) {
    g->text.indent--;
    cg_open(&g->text, "} else {");
    cgc_block(g, &s->orelse);
  }
  cgc_add_touches(g, g->pending, after);
  cgc_add_touches(g, g->carried, carried);
  cg_close(&g->text, "}");
}

static void emit_store(cgc_t *g, const kir_stmt_t *s) {
  cgc_touch_t *own = cgc_touches(g);
  cgc_touch_own(g, s, own);
  cgc_sync_before(g, own);
  cgc_begin_stmt(g, s);
  bool by_zero = g->is_warp && cgc_buffer(g, s->buffer)->place != CGC_REGS;
  if (by_zero) cg_open(&g->text, "if (lane == 0) {");
  cgc_put_store(g, s, cgc_expr(g, s->value));
  if (by_zero) cg_close(&g->text, "}");
}

static void emit_copy(cgc_t *g, const kir_stmt_t *s) {
  cgc_touch_t *own = cgc_touches(g);
  cgc_touch_own(g, s, own);
  cgc_sync_before(g, own);
  cgc_begin_stmt(g, s);
  bool by_zero = g->is_warp && cgc_buffer(g, s->buffer)->place != CGC_REGS;
  cg_open(&g->text, by_zero ? "if (lane == 0) {" : "{");
  cgc_put_copy(g, s);
  cg_close(&g->text, "}");
}

/* Each warp takes its own iteration; those that have none go on, and what the
 * others have waited for says nothing about them. */
static void warp_loop(cgc_t *g, const kir_stmt_t *s) {
  const char *some = cgc_some_warps(g, s);
  cgc_touch_t *before = copy_of(g, g->pending);
  cgc_touch_t *carried = copy_of(g, g->carried);
  g->var_names[s->var->id] = "warp";
  if (some != NULL) cg_open(&g->text, "if (%s) {", some);
  else cg_open(&g->text, "{");
  cgc_block(g, &s->body);
  cg_close(&g->text, "}");
  if (some == NULL) return;
  cgc_add_touches(g, g->pending, before);
  cgc_add_touches(g, g->carried, carried);
}

static void emit_let(cgc_t *g, const kir_stmt_t *s) {
  cgc_touch_t *own = cgc_touches(g);
  cgc_touch_own(g, s, own);
  cgc_sync_before(g, own);
  cgc_begin_stmt(g, s);
  cgc_let(g, s);
}

static void emit_statement(cgc_t *g, const kir_stmt_t *s) {
  switch (s->kind) {
    case KIR_LOOP:
      if (s->loop == KIR_LOOP_LANE) {
        cgc_lane_loop(g, s);
      } else if (s->loop == KIR_LOOP_WARP) {
        warp_loop(g, s);
      } else {
        TD_CHECK(g->task,
                 s->loop == KIR_LOOP_SERIAL || s->loop == KIR_LOOP_UNROLL,
                 "loop kind %d inside a kernel", (int)s->loop);
        counted_loop(g, s);
      }
      return;
    case KIR_IF: emit_if(g, s); return;
    case KIR_LET: emit_let(g, s); return;
    case KIR_STORE: emit_store(g, s); return;
    case KIR_COPY: emit_copy(g, s); return;
    case KIR_BARRIER: cgc_put_barrier(g, s); return;
    case KIR_COMMIT:
      cg_line(&g->text,
              "asm volatile(\"cp.async.commit_group;\" ::: \"memory\");");
      return;
    case KIR_WAIT:
      cg_line(&g->text,
              "asm volatile(\"cp.async.wait_group %lld;\" ::: \"memory\");",
              (long long)s->step);
      return;
    case KIR_ASYNC: break; /* lanes' own */
    case KIR_ALLOC: cgc_alloc(g, s->buffer); return;
    case KIR_COMMENT: cg_comment(&g->text, td_str(s->text)); return;
    case KIR_TRANSPOSE: case KIR_PREFETCH: /* of kernels for a CPU */
    case KIR_KIND_COUNT: break;
  }
  TD_ICE(g->task, "kernel statement %d", (int)s->kind);
}

void cgc_block(cgc_t *g, const kir_block_t *block) {
  for (size_t i = 0; i < block->length; i++) {
    const kir_stmt_t *s = block->data[i];
    td_loc_t before = g->text.loc;
    if (s->loc.line > 0) g->text.loc = s->loc;
    if (!cgc_is_idle(g, s)) emit_statement(g, s);
    g->text.loc = before;
  }
}
