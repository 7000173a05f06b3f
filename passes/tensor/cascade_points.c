/* cascade_points.c: a point x[n, y[n]] of scores that are swept otherwise.
 *
 * If scores, which are sums computed for each row, are read by reductions
 * along an index and by a point of the same rows, the point becomes
 *
 *     x.at[n] = sum[v where v == y[n]] x[n, v]
 *
 * which joins the sweep, and the scores need not exist. The one element that
 * passes is added to +0: the value is the same, and -0 becomes +0. */
#include "passes/tensor/cascade.h"

#include "passes/tensor/tensor.h"

enum { DEPTH_LIMIT = 8 };

typedef struct points {
  tir_module_t *module;
  tir_func_t *func;
  td_arena_t *scratch;
  tir_interner_t interner;
  tir_block_t *block;
  tir_value_t *value;     /* the scores */
  const tir_node_t *node; /* whose expressions are walked */
  uint32_t axis;          /* dim of the scores that reductions run along */
  const char *axis_name;
  bool is_swept, is_free, has_point;
  uint32_t made;
  const tir_expr_t *wheres[DEPTH_LIMIT]; /* interned, of points made */
  tir_node_t *nodes[DEPTH_LIMIT];
  size_t at; /* where new nodes go */
} points_t;

/* ---- sums of products ---------------------------------------------------- */

typedef struct seen {
  td_arena_t *scratch;
  int depth;
  bool found;
} seen_t;

/* Through maps. */
static void note_sum(void *user, tir_expr_t *e) {
  seen_t *s = user;
  const tir_node_t *n = e->op == TIR_X_LOAD ? e->u.value->def : NULL;
  if (n == NULL || n->kind != TIR_MAP || s->found) return;
  if (n->reduce != TIR_REDUCE_NONE) {
    s->found = n->reduce == TIR_REDUCE_SUM && n->is_fma &&
               n->plan == TIR_PLAN_SERIAL;
  } else if (s->depth < DEPTH_LIMIT) {
    s->depth++;
    tir_walk(s->scratch, n->body, note_sum, s);
    s->depth--;
  }
}

static bool is_contraction(points_t *p, tir_value_t *v) {
  seen_t s = {p->scratch, 0, false};
  tir_expr_t load = {.op = TIR_X_LOAD};
  load.u.value = v;
  note_sum(&s, &load);
  return s.found;
}

/* ---- how the scores are read --------------------------------------------- */

/* Subscripts but for `skip` are indices, each once. */
static bool is_plain(const tir_expr_t *load, uint32_t skip) {
  for (uint32_t i = 0; i < load->arg_count; i++) {
    if (i == skip) continue;
    if (load->args[i]->op != TIR_X_INDEX) return false;
    for (uint32_t k = 0; k < i; k++) {
      if (k != skip && load->args[k]->u.index == load->args[i]->u.index) {
        return false;
      }
    }
  }
  return true;
}

static void note_sweep(void *user, tir_expr_t *e) {
  points_t *p = user;
  uint32_t count = 0, at = 0;
  if (e->op != TIR_X_LOAD || e->u.value != p->value) return;
  if (!is_plain(e, UINT32_MAX)) return;
  for (uint32_t i = 0; i < e->arg_count; i++) {
    if (!e->args[i]->u.index->is_reduction) continue;
    at = i;
    count++;
  }
  if (count != 1) return;
  p->is_free |= p->is_swept && p->axis != at;
  p->is_swept = true;
  p->axis = at;
  p->axis_name = e->args[at]->u.index->name;
}

typedef struct inside {
  const tir_expr_t *load;
  uint32_t axis;
  bool ok;
} inside_t;

static void note_inside(void *user, tir_expr_t *e) {
  inside_t *s = user;
  if (e->op != TIR_X_INDEX) return;
  bool is_row = false;
  for (uint32_t i = 0; i < s->load->arg_count; i++) {
    is_row |= i != s->axis && s->load->args[i]->u.index == e->u.index;
  }
  s->ok &= is_row;
}

static bool is_point(points_t *p, const tir_expr_t *e) {
  if (is_plain(e, UINT32_MAX) || !is_plain(e, p->axis)) return false;
  inside_t s = {e, p->axis, true};
  tir_walk(p->scratch, e->args[p->axis], note_inside, &s);
  return s.ok;
}

static void note_read(void *user, tir_expr_t *e) {
  points_t *p = user;
  if (e->op != TIR_X_LOAD || e->u.value != p->value) return;
  if (is_plain(e, UINT32_MAX)) return;
  bool is_one = p->node->kind == TIR_MAP && is_point(p, e);
  p->has_point |= is_one;
  p->is_free |= !is_one;
}

static void each_read(points_t *p, tir_visit_fn fn) {
  for (size_t i = 0; i < p->block->length; i++) {
    p->node = p->block->data[i];
    for (uint32_t k = 0; k < tir_node_expr_count(p->node); k++) {
      tir_walk(p->scratch, *tir_node_expr(p->block->data[i], k), fn, p);
    }
  }
}

static bool is_candidate(points_t *p) {
  tir_value_t *v = p->value;
  if (v->rank == 0 || !is_contraction(p, v)) return false;
  for (uint32_t i = 0; i < p->func->slot_count; i++) {
    if (p->func->slots[i].result == v) return false;
  }
  for (size_t i = 0; i < p->block->length; i++) {
    const tir_node_t *n = p->block->data[i];
    if (n->kind == TIR_LOOP) return false; /* its body is not looked at */
    for (uint32_t k = 0; k < n->operand_count; k++) {
      if (n->operands[k] == v) return false;
    }
  }
  p->is_swept = p->is_free = p->has_point = false;
  each_read(p, note_sweep);
  if (!p->is_swept) return false;
  each_read(p, note_read);
  return p->has_point && !p->is_free;
}

/* ---- the sums that pick -------------------------------------------------- */

static tir_node_t *make_point(points_t *p, const tir_expr_t *load) {
  td_arena_t *arena = p->module->arena;
  tir_value_t *v = p->value;
  tir_node_t *n = tir_node_create(arena, TIR_MAP, 1);
  tir_index_t *from[IX_MAX_RANK];
  tir_expr_t *to[IX_MAX_RANK], *subs[IX_MAX_RANK];
  const ix_poly_t *dims[IX_MAX_RANK];
  uint32_t rows = 0;
  n->index_count = v->rank;
  n->indices = TD_NEW_ARRAY(arena, tir_index_t *, v->rank);
  for (uint32_t i = 0; i < v->rank; i++) {
    if (i == p->axis) continue;
    const tir_index_t *old = load->args[i]->u.index;
    from[rows] = (tir_index_t *)(uintptr_t)(const void *)old;
    n->indices[rows] =
        tir_index_create(p->module, old->name, v->dims[i], false);
    to[rows] = subs[i] = tir_index_ref(arena, n->indices[rows]);
    dims[rows++] = v->dims[i];
  }
  n->indices[rows] =
      tir_index_create(p->module, p->axis_name, v->dims[p->axis], true);
  subs[p->axis] = tir_index_ref(arena, n->indices[rows]);
  tir_expr_t *where = tir_replace_indices(arena, load->args[p->axis], rows,
                                          from, to);
  n->guard = tir_op(arena, TIR_X_EQ, TDSL_DTYPE_BOOL, 2,
                    (tir_expr_t *[]){subs[p->axis], where});
  n->body = tir_load(arena, v, v->rank, subs);
  n->reduce = TIR_REDUCE_SUM;
  n->loc = load->loc.line != 0 ? load->loc : p->node->loc;
  tir_assign_plan(p->scratch, n);
  n->outs[0] = tir_value_create(
      arena, td_arena_printf(arena, "%s.at", v->name), n->body->type, rows,
      dims);
  n->outs[0]->def = n;
  n->outs[0]->loc = n->loc;
  return n;
}

static tir_expr_t *pick(void *user, tir_expr_t *e) {
  points_t *p = user;
  if (e->op != TIR_X_LOAD || e->u.value != p->value || !is_point(p, e)) {
    return e;
  }
  const tir_expr_t *key = tir_intern(&p->interner, e);
  uint32_t k = 0;
  while (k < p->made && p->wheres[k] != key) k++;
  if (k == DEPTH_LIMIT) return e;
  if (k == p->made) {
    p->wheres[k] = key;
    p->nodes[k] = make_point(p, e);
    p->made++;
    td_vec_push(p->module->arena, p->block, p->nodes[k]);
    for (size_t i = p->block->length - 1; i > p->at; i--) {
      p->block->data[i] = p->block->data[i - 1];
    }
    p->block->data[p->at++] = p->nodes[k];
  }
  tir_expr_t *subs[IX_MAX_RANK];
  uint32_t count = 0;
  for (uint32_t i = 0; i < e->arg_count; i++) {
    if (i != p->axis) subs[count++] = e->args[i];
  }
  tir_expr_t *load = tir_load(p->module->arena, p->nodes[k]->outs[0], count,
                              subs);
  load->loc = e->loc;
  return load;
}

static bool name_points(points_t *p) {
  bool changed = false;
  for (size_t x = 0; x < p->block->length; x++) {
    tir_node_t *def = p->block->data[x];
    if (def->kind != TIR_MAP || def->out_count != 1) continue;
    p->value = def->outs[0];
    if (!is_candidate(p)) continue;
    changed = true;
    p->made = 0;
    for (p->at = x + 1; p->at < p->block->length; p->at++) {
      tir_node_t *n = p->block->data[p->at];
      p->node = n;
      for (uint32_t k = 0; k < tir_node_expr_count(n); k++) {
        tir_expr_t **e = tir_node_expr(n, k);
        *e = tir_rewrite(p->module->arena, *e, pick, p);
      }
    }
  }
  return changed;
}

bool cascade_name_points(pass_state_t *state, tir_module_t *module,
                         tir_func_t *func) {
  td_arena_t scratch;
  td_arena_init(&scratch, state->task);
  points_t p = {.module = module, .func = func, .scratch = &scratch,
                .block = &func->nodes};
  tir_interner_init(&p.interner, &scratch);
  bool changed = name_points(&p);
  td_arena_free_all(&scratch);
  return changed;
}
