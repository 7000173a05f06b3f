/* tir_interp_assert.c: runs assert nodes and says why one failed.
 *
 * Of `and` the operand that is false is the culprit.  If that is a
 * comparison, both its sides are shown; if it is the result of a reduce.all,
 * the first tuple that failed is found again, and its sides are shown. */
#include "ir/tir_interp.h"

#include "ir/dtype.h"
#include "runtime/base/num.h"

static bool is_comparison(tir_x_t op) {
  return op >= TIR_X_EQ && op <= TIR_X_GE; /* ORDER TIR */
}
_Static_assert(TIR_X_GE == TIR_X_EQ + 5, "ORDER TIR: the six comparisons");

const tir_node_t *tir_asserted_all(const tir_expr_t *e) {
  if (e->op != TIR_X_LOAD || e->u.value->rank != 0) return NULL;
  const tir_node_t *def = e->u.value->def;
  bool is_all = def != NULL && def->kind == TIR_MAP &&
                def->reduce == TIR_REDUCE_ALL && def->outs[0] == e->u.value;
  return is_all ? def : NULL;
}

/* Registers of one formula whose lanes may be false. */
typedef struct culprit {
  tir_code_t code;
  tir_expr_t *e;
  uint32_t reg, left, right; /* left TIR_NO_REG: e has no two sides */
} culprit_t;

static void add_formula(culprit_t *c, tir_expr_t *e) {
  c->e = e;
  c->reg = c->code.body = tir_code_add(&c->code, e);
  c->left = c->right = TIR_NO_REG;
  if (!is_comparison(e->op)) return;
  c->left = tir_code_add(&c->code, e->args[0]);
  c->right = tir_code_add(&c->code, e->args[1]);
}

static void note_sides(td_diag_t *d, const culprit_t *c, uint32_t lane) {
  td_buf_t b;
  td_buf_init(&b, c->code.interp->task);
  for (uint32_t i = 0; i < c->code.axis_count; i++)
    td_buf_printf(&b, "%s%s = %lld", i == 0 ? "at " : ", ",
                  c->code.axes[i].index->name,
                  (long long)c->code.axes[i].lanes[lane]);
  if (c->left != TIR_NO_REG) {
    td_buf_puts(&b, c->code.axis_count > 0 ? ": left is " : "left is ");
    tir_put_lane(&b, &c->code, c->left, lane);
    td_buf_puts(&b, ", right is ");
    tir_put_lane(&b, &c->code, c->right, lane);
  }
  if (b.length > 0) td_diag_note(d, "%s", b.data);
  td_buf_free(&b);
}

/* The operand of a chain of `and`s that is false; lanes do not matter, for
 * the condition of an assert has no indices. */
static tir_expr_t *false_operand(tir_interp_t *in, tir_expr_t *e) {
  tir_scalar_t left;
  while (e->op == TIR_X_AND && tir_eval_scalar(in, e->args[0], &left))
    e = e->args[left.i64 == 0 ? 0 : 1];
  return e;
}

/* False as soon as a lane was found and explained. */
static bool explain_block(td_diag_t *d, const culprit_t *c, uint32_t n) {
  const uint8_t *holds = tir_reg(&c->code, c->reg);
  const uint8_t *guard = c->code.guard == TIR_NO_REG
                             ? NULL
                             : tir_reg(&c->code, c->code.guard);
  for (uint32_t l = 0; l < n; l++)
    if (!holds[l] && (guard == NULL || guard[l])) {
      note_sides(d, c, l);
      return false;
    }
  return true;
}

static void explain_all(td_diag_t *d, culprit_t *c, tir_interp_t *in,
                        td_arena_t *arena, const tir_node_t *all) {
  int64_t tuples = 1;
  tir_code_init(&c->code, in, arena, all, true);
  for (uint32_t i = 0; i < c->code.axis_count; i++)
    tuples *= c->code.axes[i].extent; /* it has run, so this fits */
  if (all->guard != NULL) c->code.guard = tir_code_add(&c->code, all->guard);
  add_formula(c, all->body);
  tir_code_finish(&c->code);
  int64_t width = c->code.width;
  for (int64_t first = 0; first < tuples; first += width) {
    uint32_t n = (uint32_t)(tuples - first < width ? tuples - first : width);
    tir_code_lanes(&c->code, first, n);
    tir_code_run(&c->code, 1, n);
    if (!explain_block(d, c, n)) return;
  }
}

typedef struct alive {
  tir_interp_t *in;
  bool all;
} alive_t;

static void note_dead(void *user, tir_expr_t *e) {
  alive_t *alive = user;
  if (e->op != TIR_X_LOAD) return;
  const tir_cell_t *cell = tir_cell(alive->in, e->u.value);
  alive->all &= cell != NULL && cell->memory != NULL;
}

/* A reduce.all of an outer block may read what is dead by now. */
static bool is_alive(tir_interp_t *in, tir_expr_t *e) {
  alive_t alive = {in, true};
  td_arena_t scratch;
  if (e == NULL) return true;
  td_arena_init(&scratch, in->task);
  tir_walk(&scratch, e, note_dead, &alive);
  td_arena_free_all(&scratch);
  return alive.all;
}

static void explain(td_diag_t *d, tir_interp_t *in, tir_expr_t *condition) {
  td_arena_t arena;
  culprit_t c;
  tir_expr_t *e = false_operand(in, condition);
  const tir_node_t *all = tir_asserted_all(e);
  td_arena_init(&arena, in->task);
  if (all != NULL && is_alive(in, all->body) && is_alive(in, all->guard)) {
    explain_all(d, &c, in, &arena, all);
  } else if (is_comparison(e->op)) {
    tir_code_init(&c.code, in, &arena, NULL, false);
    add_formula(&c, e);
    tir_code_finish(&c.code);
    note_sides(d, &c, 0);
  }
  td_arena_free_all(&arena);
}

bool tir_run_assert(tir_interp_t *in, const tir_node_t *node) {
  tir_scalar_t s;
  if (!tir_eval_scalar(in, node->body, &s)) return false;
  if (s.i64 != 0) return true;
  td_diag_t *d =
      node->text == NULL
          ? td_diag(in->task, TD_R06, node->loc, "assertion failed")
          : td_diag(in->task, TD_R06, node->loc, "assertion failed: %s",
                    node->text);
  explain(d, in, node->body);
  return false;
}
