/* find_cascades.c: chains of reductions over one axis become one sweep.
 *
 * Does: finds regions of reductions over one axis whose bodies read each
 *   other's results, splits the bodies, and replaces the reductions by the
 *   components of a state with their transports, and by maps that make the
 *   results of them (docs/cascades.md).
 * Needs: maps fused where that is free; dead nodes gone.
 * Guarantees: every result is a pointwise function of the components; nodes
 *   of a cascade are adjacent, maxima before the sums relative to them.
 * Class: reassociated.
 * Ends because: every node is a sink once, and a refusal removes one node
 *   from those that can be members.
 * Ledgers: values over rows and the axis that only the region reads stop
 *   crossing memory, if the region becomes one kernel. */
#include "passes/tensor/cascade.h"

#include "ir/dtype.h"
#include "passes/tensor/tensor.h"

static uint64_t key_of(const void *p) {
  return (uint64_t)(uintptr_t)p;
}

/* ---- the block ----------------------------------------------------------- */

typedef struct finder {
  pass_state_t *state;
  tir_module_t *module;
  tir_func_t *func;
  td_arena_t scratch;
  td_map_t broken; /* tir_node_t* -> itself: never a member again */
  td_map_t taken;  /* tir_node_t* -> itself: in a region, or remarked */
  uint32_t next;   /* number of the next cascade */
  bool can_stream; /* no plan was asked for that a sweep does not keep */
  bool has_changed;
} finder_t;

typedef TD_VEC(tir_node_t *) nodes_t;

/* ---- building ------------------------------------------------------------ */

typedef struct weights {
  cascade_region_t *r;
  uint32_t count;
  const cascade_sum_t *exps[CASCADE_MAX_COMPONENTS];
  tir_expr_t *lives[CASCADE_MAX_COMPONENTS];
  const cascade_atom_t *atoms[CASCADE_MAX_COMPONENTS];
  nodes_t nodes;
} weights_t;

/* A map over rows and the axis for the exponential part of a term: it is
 * evaluated once for all components. */
static const cascade_atom_t *weight_of(weights_t *w,
                                       const cascade_component_t *c,
                                       const cascade_sum_t *e) {
  cascade_region_t *r = w->r;
  td_arena_t *arena = r->module->arena;
  for (uint32_t i = 0; i < w->count; i++) {
    if (w->exps[i] == e && w->lives[i] == c->live) return w->atoms[i];
  }
  if (w->count == CASCADE_MAX_COMPONENTS) return NULL;
  tir_node_t *node = tir_node_create(arena, TIR_MAP, 1);
  const ix_poly_t *dims[2 * IX_MAX_RANK];
  tir_expr_t *subs[2 * IX_MAX_RANK];
  tir_index_t *to[IX_MAX_RANK];
  tir_expr_t *refs[IX_MAX_RANK];
  node->index_count = r->row_count + r->axis_count;
  node->indices = TD_NEW_ARRAY(arena, tir_index_t *, node->index_count);
  for (uint32_t i = 0; i < r->row_count; i++) {
    node->indices[i] = r->rows[i];
    subs[i] = tir_index_ref(arena, r->rows[i]);
  }
  for (uint32_t i = 0; i < r->axis_count; i++) {
    to[i] = tir_index_create(r->module, r->axis[i]->name, r->axis[i]->extent,
                             false);
    refs[i] = tir_index_ref(arena, to[i]);
    node->indices[r->row_count + i] = to[i];
    subs[r->row_count + i] = tir_index_ref(arena, r->axis[i]);
  }
  for (uint32_t i = 0; i < node->index_count; i++) {
    dims[i] = node->indices[i]->extent;
  }
  tir_expr_t *body = cascade_to_expr(&r->norm, e, c->type);
  if (c->live != NULL) {
    body = tir_op(arena, TIR_X_SELECT, c->type, 3,
                  (tir_expr_t *[]){c->live, body,
                                   tir_const_f(arena, c->type, 0)});
  }
  node->body = tir_replace_indices(arena, body, r->axis_count, r->axis, refs);
  node->loc = c->loc;
  node->outs[0] = tir_value_create(
      arena, td_arena_printf(arena, "%s.w", c->name), c->type,
      node->index_count, dims);
  node->outs[0]->loc = c->loc;
  node->outs[0]->def = node;
  td_vec_push(arena, &w->nodes, node);
  tir_expr_t *load = tir_load(arena, node->outs[0], node->index_count, subs);
  w->exps[w->count] = e;
  w->lives[w->count] = c->live;
  w->atoms[w->count] = cascade_leaf(&r->norm, load, CASCADE_U);
  return w->atoms[w->count++];
}

/* The sum with weights in place of exponentials; false if a weight depends on
 * an extra index. */
static tir_expr_t *body_of(weights_t *w, const cascade_component_t *c) {
  cascade_norm_t *n = &w->r->norm;
  const cascade_sum_t *s = cascade_of_terms(n, 0, NULL);
  if (c->sum == NULL) return c->body;
  for (uint32_t i = 0; i < c->sum->count; i++) {
    const cascade_term_t *t = &c->sum->terms[i];
    const cascade_sum_t *e = cascade_number(n, 1);
    const cascade_sum_t *rest = cascade_number(n, t->coefficient);
    for (uint32_t k = 0; k < t->count; k++) {
      const cascade_factor_t *f = &t->factors[k];
      const cascade_sum_t *one = cascade_of_atom(n, f->atom, f->power);
      if (cascade_is_exponential(f->atom)) e = cascade_mul(n, e, one);
      else rest = cascade_mul(n, rest, one);
    }
    if (e != cascade_number(n, 1)) {
      const cascade_atom_t *a = weight_of(w, c, e);
      if (a != NULL) e = cascade_of_atom(n, a, 1);
    }
    s = cascade_add(n, s, 1, cascade_mul(n, rest, e));
  }
  return cascade_to_expr(n, s, c->type);
}

/* Weight first: then lanes run over the other factor. */
static void order_product(tir_expr_t *e, const weights_t *w, td_arena_t *a) {
  if (e->op != TIR_X_MUL || e->args[1]->op != TIR_X_LOAD) return;
  for (size_t i = 0; i < w->nodes.length; i++) {
    if (e->args[1]->u.value != w->nodes.data[i]->outs[0]) continue;
    tir_expr_t **args = TD_NEW_ARRAY(a, tir_expr_t *, 2);
    args[0] = e->args[1];
    args[1] = e->args[0];
    e->args = args;
  }
}

/* Whether what a transport adds is of all elements, and not of a lane's. */
static bool adds_elements(cascade_region_t *r, const cascade_component_t *c) {
  for (uint32_t i = 0; c->transport != NULL && i < r->component_count; i++) {
    const cascade_component_t *g = r->components[i];
    if (g->is_gauge && g->reduce == TIR_REDUCE_SUM &&
        tir_mentions_value(r->scratch, c->transport, g->was)) {
      return true;
    }
  }
  return false;
}

static void build_component(cascade_region_t *r, weights_t *w,
                            cascade_component_t *c, uint32_t number) {
  td_arena_t *arena = r->module->arena;
  tir_node_t *node = tir_node_create(arena, TIR_MAP, 1);
  uint32_t par = r->row_count + c->extra_count;
  node->reduce = c->reduce;
  node->index_count = par + r->axis_count;
  node->indices = TD_NEW_ARRAY(arena, tir_index_t *, node->index_count);
  for (uint32_t i = 0; i < r->row_count; i++) node->indices[i] = r->rows[i];
  for (uint32_t i = 0; i < c->extra_count; i++) {
    node->indices[r->row_count + i] = c->extras[i];
  }
  for (uint32_t i = 0; i < r->axis_count; i++) {
    node->indices[par + i] = r->axis[i];
  }
  node->guard = c->live;
  node->body = body_of(w, c);
  if (c->reduce == TIR_REDUCE_SUM) {
    tir_expr_t *copy = TD_NEW(arena, tir_expr_t);
    *copy = *node->body;
    order_product(copy, w, arena);
    node->body = copy;
  }
  node->loc = c->loc;
  node->cascade = number;
  node->was = c->was;
  node->is_lazy = c->is_lazy;
  node->transport = c->transport;
  if (c->reduce == TIR_REDUCE_SUM && c->was != NULL &&
      c->transport == NULL && !c->is_gauge) {
    /* read by another's transport; without one it would be a gauge */
    node->transport = cascade_state_load(r, c, c->was);
  }
  node->outs[0] = c->value;
  c->value->def = node;
  tir_assign_plan(r->scratch, node);
  /* with lanes over an output index the terms go left to right */
  if (c->reduce == TIR_REDUCE_SUM && (c->is_gauge || adds_elements(r, c))) {
    node->plan = TIR_PLAN_SERIAL; /* wanted whole after each part */
  } else if (c->reduce == TIR_REDUCE_SUM && c->extra_count > 0) {
    node->plan = cascade_is_laned(r, c) ? TIR_PLAN_LANES : TIR_PLAN_SERIAL;
  }
  c->node = node;
}

/* The map that makes a member's result; its indices are the member's. */
static tir_node_t *build_result(cascade_region_t *r,
                                const cascade_member_t *m) {
  td_arena_t *arena = r->module->arena;
  tir_node_t *node = tir_node_create(arena, TIR_MAP, 1);
  node->index_count = m->parallel;
  node->indices = TD_NEW_ARRAY(arena, tir_index_t *, m->parallel);
  for (uint32_t i = 0; i < m->parallel; i++) node->indices[i] = m->indices[i];
  tdsl_dtype_t type = m->node->body->type;
  if (m->copied != NULL) {
    node->body = m->copied;
  } else if (m->node->reduce == TIR_REDUCE_SUM) {
    node->body = cascade_result_to_expr(&r->norm, m->result, type);
  } else {
    node->body = cascade_to_expr(&r->norm, m->result, type);
  }
  node->loc = m->node->loc;
  node->outs[0] = m->node->outs[0];
  node->outs[0]->def = node;
  return node;
}

/* Whether a component may be emitted: all that its transport and body read
 * has been. */
typedef struct ready {
  const td_map_t *pending; /* tir_value_t* of components not yet there */
  const tir_value_t *own;
  bool ok;
} ready_t;

static void note_pending(void *user, tir_expr_t *e) {
  ready_t *s = user;
  if (e->op == TIR_X_LOAD && e->u.value != s->own &&
      td_map_get_u64(s->pending, key_of(e->u.value)) != NULL) {
    s->ok = false;
  }
}

static bool is_ready(cascade_region_t *r, const td_map_t *pending,
                     tir_node_t *node) {
  ready_t s = {pending, node->was, true};
  tir_walk(r->scratch, node->body, note_pending, &s);
  if (node->transport != NULL) {
    tir_walk(r->scratch, node->transport, note_pending, &s);
  }
  return s.ok;
}

/* Components and weights, each after what it reads. */
static void order_nodes(cascade_region_t *r, const weights_t *w,
                        nodes_t *out) {
  nodes_t todo = {0};
  td_map_t pending;
  td_map_init(&pending, r->scratch);
  for (uint32_t i = 0; i < r->component_count; i++) {
    if (r->components[i]->stands_for != NULL) continue;
    td_vec_push(r->scratch, &todo, r->components[i]->node);
  }
  for (size_t i = 0; i < w->nodes.length; i++) {
    td_vec_push(r->scratch, &todo, w->nodes.data[i]);
  }
  for (size_t i = 0; i < todo.length; i++) {
    tir_node_t *n = todo.data[i];
    td_map_put_u64(&pending, key_of(n->outs[0]), n);
    if (n->was != NULL) td_map_put_u64(&pending, key_of(n->was), n);
  }
  for (size_t left = todo.length; left > 0;) {
    bool has_moved = false;
    for (size_t i = 0; i < todo.length; i++) {
      tir_node_t *n = todo.data[i];
      if (n == NULL || !is_ready(r, &pending, n)) continue;
      td_vec_push(r->scratch, out, n);
      td_map_put_u64(&pending, key_of(n->outs[0]), NULL);
      if (n->was != NULL) td_map_put_u64(&pending, key_of(n->was), NULL);
      todo.data[i] = NULL;
      left--;
      has_moved = true;
    }
    TD_CHECK(r->state->task, has_moved, "components depend on each other");
  }
}

/* The block anew: what does not depend on a member comes first, then the
 * cascade, then results and the rest in their order. */
static void replace(finder_t *f, cascade_region_t *r) {
  td_arena_t *arena = f->module->arena;
  weights_t w = {.r = r};
  nodes_t cascade = {0};
  size_t first = SIZE_MAX, last = 0;
  for (uint32_t i = 0; i < r->component_count; i++) {
    if (r->components[i]->stands_for != NULL) continue;
    build_component(r, &w, r->components[i], f->next);
  }
  for (size_t i = 0; i < w.nodes.length; i++) {
    w.nodes.data[i]->cascade = f->next;
    w.nodes.data[i]->is_tile = true;
  }
  order_nodes(r, &w, &cascade);
  for (uint32_t i = 0; i < r->member_count; i++) {
    if (r->members[i].at < first) first = r->members[i].at;
    if (r->members[i].at > last) last = r->members[i].at;
  }
  tir_node_t *tops[CASCADE_MAX_TOPS]; /* what makes their values, or NULL */
  for (uint32_t i = 0; i < r->top_count; i++) {
    if (r->tops[i].at < first) first = r->tops[i].at;
    if (r->tops[i].at > last) last = r->tops[i].at;
    tops[i] = cascade_take_top(r, &r->tops[i], f->next);
    td_vec_push(r->scratch, &cascade, r->tops[i].node);
  }
  tir_block_t block = {0};
  for (uint32_t i = 0; i < r->rewrite_count; i++) {
    r->rewrites[i].node->body = r->rewrites[i].body;
  }
  for (size_t i = 0; i < first; i++) {
    td_vec_push(arena, &block, r->block->data[i]);
  }
  for (size_t i = first; i <= last; i++) {
    tir_node_t *n = r->block->data[i];
    if (td_map_get_u64(&r->dependents, key_of(n)) != NULL) continue;
    td_vec_push(arena, &block, n);
  }
  for (uint32_t i = 0; i < r->pivot_count; i++) {
    r->pivots[i]->cascade = f->next;
    r->pivots[i]->is_first = true;
    td_vec_push(arena, &block, r->pivots[i]);
  }
  for (size_t i = 0; i < cascade.length; i++) {
    td_vec_push(arena, &block, cascade.data[i]);
  }
  for (uint32_t i = 0; i < r->component_count; i++) {
    if (r->components[i]->stands_for == NULL) continue;
    td_vec_push(arena, &block, cascade_dropped_node(r, r->components[i]));
  }
  for (size_t i = first; i < r->block->length; i++) {
    tir_node_t *n = r->block->data[i];
    bool depends = td_map_get_u64(&r->dependents, key_of(n)) != NULL;
    if (i <= last && !depends) continue;
    const cascade_member_t *member = NULL;
    for (uint32_t k = 0; k < r->member_count; k++) {
      if (r->members[k].node == n) member = &r->members[k];
    }
    uint32_t top = 0;
    while (top < r->top_count && r->tops[top].node != n) top++;
    if (top < r->top_count) {
      if (tops[top] != NULL) td_vec_push(arena, &block, tops[top]);
    } else if (member == NULL) {
      td_vec_push(arena, &block, n);
    } else if (member->result != NULL || member->copied != NULL) {
      td_vec_push(arena, &block, build_result(r, member));
    }
  }
  *r->block = block;
  f->next++;
  f->has_changed = true;
}

/* ---- the search ---------------------------------------------------------- */

static bool is_candidate(const finder_t *f, const tir_node_t *n) {
  return n->kind == TIR_MAP && n->reduce != TIR_REDUCE_NONE &&
         n->cascade == 0 &&
         td_map_get_u64(&f->taken, key_of(n)) == NULL &&
         td_map_get_u64(&f->broken, key_of(n)) == NULL;
}

/* Retries without the member at fault until the sink itself is at fault. */
static bool try_sink(finder_t *f, tir_block_t *block, tir_node_t *sink,
                     size_t at) {
  cascade_region_t *r = TD_NEW(&f->scratch, cascade_region_t);
  r->state = f->state;
  r->module = f->module;
  r->func = f->func;
  r->block = block;
  r->scratch = &f->scratch;
  for (;;) {
    bool ok = cascade_grow(r, sink, at, &f->broken) && cascade_split(r);
    if (ok) break;
    if (r->refused == NULL) {
      if (r->member_count == 1) cascade_remark_crossing(r);
      return false;
    }
    tir_node_t *n = r->refused->node;
    cascade_remark_refused(r);
    td_map_put_u64(&f->broken, key_of(n), n);
    if (n == sink) return false;
  }
  for (uint32_t i = 0; i < r->member_count; i++) {
    td_map_put_u64(&f->taken, key_of(r->members[i].node),
                   r->members[i].node);
  }
  cascade_remark_escapes(r);
  bool is_streamed = f->can_stream && cascade_fits(r) &&
                     (f->state->options->all_cascades || cascade_pays(r));
  cascade_remark_done(r, is_streamed);
  if (!is_streamed) return false;
  replace(f, r);
  return true;
}

static void search_block(finder_t *f, tir_block_t *block) {
  for (size_t i = 0; i < block->length; i++) {
    if (block->data[i]->kind == TIR_LOOP) {
      search_block(f, &block->data[i]->body_nodes);
    }
  }
  /* from the end: a sink is read by no later reduction of its axis. A
   * replaced block is looked at from its end again. */
  for (size_t i = block->length; i > 0;) {
    tir_node_t *n = block->data[i - 1];
    bool changed = is_candidate(f, n) && try_sink(f, block, n, i - 1);
    i = changed ? block->length : i - 1;
  }
}

bool pass_find_cascades(pass_state_t *state, tir_module_t *module) {
  bool changed = false;
  for (uint32_t i = 0; i < module->func_count; i++) {
    finder_t f = {.state = state, .module = module, .next = 1};
    f.func = module->funcs[i];
    f.can_stream = !state->options->plan_serial;
    td_arena_init(&f.scratch, state->task);
    td_map_init(&f.broken, &f.scratch);
    td_map_init(&f.taken, &f.scratch);
    if (f.can_stream && cascade_name_points(state, module, f.func)) {
      f.has_changed = true;
    }
    search_block(&f, &f.func->nodes);
    if (f.has_changed) tir_renumber(f.func);
    changed |= f.has_changed;
    td_arena_free_all(&f.scratch);
  }
  if (!changed) return false;
  (void)pass_eliminate_dead(state, module); /* readers that are gone */
  for (uint32_t i = 0; i < module->func_count; i++) {
    cascade_adopt_tiles(state, module, module->funcs[i]);
    (void)cascade_cut(state, module, module->funcs[i]);
    tir_renumber(module->funcs[i]);
  }
  for (uint32_t i = 0; i < module->func_count; i++) {
    cascade_inline_finish(state, module, module->funcs[i]);
    tir_renumber(module->funcs[i]);
  }
  (void)pass_eliminate_dead(state, module); /* gathers that were followed */
  return true;
}
