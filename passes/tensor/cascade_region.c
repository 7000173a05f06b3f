/* cascade_region.c: which reductions form a region, and their bodies.
 *
 * 1. Grow: from a sink back through maps.  A reduction over equal ranges that
 *    is read without the axis, at plain parallel indices, is a member; then
 *    what it reads is looked at in turn.
 * 2. Join: a reduction over equal ranges and rows that reads a member or
 *    shares a load along the axis becomes a member too.
 * 3. Rows are the parallel indices that all members have.
 * 4. Inline: a map that depends on a member and is read along the axis is
 *    put into the body, on a copy.  What does not depend on a member is a
 *    leaf, whatever it costs: its node stays.
 * 5. Flatten: several indices of the axis become one over the product of
 *    their ranges, which counts tuples in index order.
 * Maps are inlined through an explicit depth cap; a program that nests
 * deeper is left as it is. */
#include "passes/tensor/cascade.h"

#include "passes/tensor/tensor.h"

enum {
  DEPTH_LIMIT = 32,
  INLINE_LIMIT = 2000, /* maps put into bodies while a region grows */
};

static uint64_t key_of(const void *p) {
  return (uint64_t)(uintptr_t)p;
}

/* ---- small questions ----------------------------------------------------- */

typedef struct along {
  const cascade_region_t *r;
  bool found;
} along_t;

static void note_axis(void *user, tir_expr_t *e) {
  along_t *a = user;
  if (e->op != TIR_X_INDEX) return;
  for (uint32_t i = 0; i < a->r->axis_count; i++) {
    a->found |= e->u.index == a->r->axis[i];
  }
}

bool cascade_is_along(const cascade_region_t *r, tir_expr_t *e) {
  along_t a = {r, false};
  tir_walk(r->scratch, e, note_axis, &a);
  return a.found;
}

static bool args_along(const cascade_region_t *r, const tir_expr_t *load) {
  for (uint32_t i = 0; i < load->arg_count; i++) {
    if (cascade_is_along(r, load->args[i])) return true;
  }
  return false;
}

/* Place of a node of this block + 1, or 0. */
static size_t place_of(const cascade_region_t *r, const tir_node_t *n) {
  for (size_t i = 0; n != NULL && i < r->block->length; i++) {
    if (r->block->data[i] == n) return i + 1;
  }
  return 0;
}

static bool has_same_axis(const cascade_region_t *r, const tir_node_t *n) {
  uint32_t par = tensor_parallel(n);
  if (n->kind != TIR_MAP || n->index_count - par != r->axis_count) {
    return false;
  }
  if (n->reduce == TIR_REDUCE_NONE) return false;
  for (uint32_t i = 0; i < r->axis_count; i++) {
    if (n->indices[par + i]->extent != r->axis[i]->extent) return false;
  }
  return true;
}

static cascade_member_t *member_of(cascade_region_t *r, const tir_node_t *n) {
  for (uint32_t i = 0; i < r->member_count; i++) {
    if (r->members[i].node == n) return &r->members[i];
  }
  return NULL;
}

/* ---- members ------------------------------------------------------------- */

/* The body of a node in the region's indices: its parallel ones become
 * `indices`, its reduction indices the axis. */
static tir_expr_t *in_region(const cascade_region_t *r, const tir_node_t *n,
                             tir_index_t *const *indices, tir_expr_t *e) {
  uint32_t par = tensor_parallel(n);
  tir_expr_t *to[2 * IX_MAX_RANK + 1];
  if (e == NULL) return NULL;
  for (uint32_t i = 0; i < n->index_count; i++) {
    to[i] = tir_index_ref(r->module->arena, i < par ? indices[i]
                                              : r->axis[i - par]);
  }
  return tir_replace_indices(r->module->arena, e, n->index_count, n->indices,
                             to);
}

static bool add_member(cascade_region_t *r, tir_node_t *n, size_t at,
                       tir_index_t *const *indices) {
  if (r->member_count == CASCADE_MAX_MEMBERS) return false;
  cascade_member_t *m = &r->members[r->member_count++];
  *m = (cascade_member_t){.node = n, .at = at};
  m->parallel = tensor_parallel(n);
  for (uint32_t i = 0; i < m->parallel; i++) m->indices[i] = indices[i];
  m->guard = in_region(r, n, indices, n->guard);
  m->body = in_region(r, n, indices, n->body);
  return true;
}

/* In the order of the member with the fewest indices: what it and the tiles
 * have in front, others may have anywhere. */
static void find_rows(cascade_region_t *r) {
  const cascade_member_t *sink = &r->members[0];
  for (uint32_t k = 1; k < r->member_count; k++) {
    if (r->members[k].parallel < sink->parallel) sink = &r->members[k];
  }
  r->row_count = 0;
  for (uint32_t i = 0; i < sink->parallel; i++) {
    bool in_all = true;
    for (uint32_t k = 0; k < r->member_count; k++) {
      bool found = false;
      for (uint32_t j = 0; j < r->members[k].parallel; j++) {
        found |= r->members[k].indices[j] == sink->indices[i];
      }
      in_all &= found;
    }
    if (in_all) r->rows[r->row_count++] = sink->indices[i];
  }
}

/* ---- growing ------------------------------------------------------------- */

typedef struct grow {
  cascade_region_t *r;
  const td_map_t *broken;
  cascade_member_t *reader; /* whose operands are walked */
  int depth;
  uint32_t inlined;
  uint32_t known; /* members that were there before */
  bool reads_known;
} grow_t;

static tir_expr_t *body_of_map(const cascade_region_t *r, const tir_node_t *n,
                               const tir_expr_t *load) {
  td_arena_t *arena = r->module->arena;
  tir_expr_t *body = tir_replace_indices(arena, n->body, n->index_count,
                                         n->indices, load->args);
  if (n->outs[0]->dtype != body->type) {
    body = tir_cast(arena, n->outs[0]->dtype, body);
    body->loc = n->body->loc;
  }
  return body;
}

/* The reader's parallel indices that a load passes on, or false. */
static bool plain_indices(const cascade_member_t *reader,
                          const tir_expr_t *load, tir_index_t **out) {
  for (uint32_t i = 0; i < load->arg_count; i++) {
    const tir_expr_t *a = load->args[i];
    bool is_own = false;
    if (a->op != TIR_X_INDEX) return false;
    for (uint32_t k = 0; k < reader->parallel; k++) {
      is_own |= reader->indices[k] == a->u.index;
    }
    for (uint32_t k = 0; k < i; k++) {
      if (load->args[k]->u.index == a->u.index) return false;
    }
    if (!is_own) return false;
    out[i] = (tir_index_t *)(uintptr_t)key_of(a->u.index);
  }
  return true;
}

static tir_expr_t *grow_load(void *user, tir_expr_t *e) {
  grow_t *g = user;
  cascade_region_t *r = g->r;
  if (e->op != TIR_X_LOAD) return e;
  tir_node_t *def = e->u.value->def;
  size_t place = place_of(r, def);
  if (place == 0 || def->kind != TIR_MAP) return e;
  if (def->reduce == TIR_REDUCE_NONE) {
    if (g->depth == DEPTH_LIMIT || g->inlined == INLINE_LIMIT) return e;
    g->inlined++;
    g->depth++;
    tir_expr_t *body = tir_rewrite(r->scratch, body_of_map(r, def, e),
                                   grow_load, g);
    g->depth--;
    return body;
  }
  tir_index_t *indices[IX_MAX_RANK];
  if (td_map_get_u64(g->broken, key_of(def)) != NULL) return e;
  if (def->cascade != 0) return e; /* a sweep of its own already */
  if (!has_same_axis(r, def) || args_along(r, e)) return e;
  if (!plain_indices(g->reader, e, indices)) return e;
  const cascade_member_t *member = member_of(r, def);
  if (member != NULL) {
    g->reads_known |= member < r->members + g->known;
    return e;
  }
  if (!add_member(r, def, place - 1, indices)) return e;
  find_rows(r);
  /* rows are what the smallest member has: statistics of t and statistics of
   * u are no states of one row */
  uint32_t least = UINT32_MAX;
  for (uint32_t i = 0; i < r->member_count; i++) {
    if (r->members[i].parallel < least) least = r->members[i].parallel;
  }
  if (r->row_count < least) {
    r->member_count--;
    find_rows(r);
  }
  return e;
}

static void grow_member(grow_t *g, cascade_member_t *m) {
  g->reader = m;
  if (m->guard != NULL) {
    (void)tir_rewrite(g->r->scratch, m->guard, grow_load, g);
  }
  (void)tir_rewrite(g->r->scratch, m->body, grow_load, g);
}

/* ---- joining ------------------------------------------------------------- */

typedef struct shared {
  const cascade_region_t *r;
  td_map_t loads; /* tir_value_t* -> its dims that go along the axis */
  bool is_asking, found;
} shared_t;

/* Rows and columns of one matrix are no shared load. */
static void note_shared(void *user, tir_expr_t *e) {
  shared_t *s = user;
  uintptr_t dims = 0;
  if (e->op != TIR_X_LOAD) return;
  for (uint32_t d = 0; d < e->arg_count; d++) {
    if (cascade_is_along(s->r, e->args[d])) dims |= (uintptr_t)1 << d;
  }
  if (dims == 0) return;
  uint64_t key = key_of(e->u.value);
  uintptr_t known = (uintptr_t)td_map_get_u64(&s->loads, key);
  s->found |= s->is_asking && (known & dims) != 0;
  if (!s->is_asking) td_map_put_u64(&s->loads, key, (void *)(known | dims));
}

static void walk_member(const cascade_member_t *m, tir_visit_fn fn,
                        shared_t *s) {
  if (m->guard != NULL) tir_walk(s->r->scratch, m->guard, fn, s);
  tir_walk(s->r->scratch, m->body, fn, s);
}

/* Another reduction over the same ranges, by position. */
static void try_join(grow_t *g, tir_node_t *n, size_t at) {
  cascade_region_t *r = g->r;
  uint32_t par = tensor_parallel(n), count = r->member_count;
  tir_index_t *indices[IX_MAX_RANK];
  if (!has_same_axis(r, n) || par < r->row_count || n->cascade != 0) return;
  for (uint32_t i = 0; i < par; i++) {
    bool is_row = i < r->row_count;
    if (is_row && n->indices[i]->extent != r->rows[i]->extent) return;
    indices[i] = is_row ? r->rows[i] : n->indices[i];
  }
  shared_t s = {.r = r};
  td_map_init(&s.loads, r->scratch);
  for (uint32_t k = 0; k < count; k++) {
    walk_member(&r->members[k], note_shared, &s);
  }
  if (!add_member(r, n, at, indices)) return;
  s.is_asking = true;
  g->known = count;
  g->reads_known = false;
  for (uint32_t k = count; k < r->member_count; k++) {
    walk_member(&r->members[k], note_shared, &s);
    grow_member(g, &r->members[k]);
  }
  if (!s.found && !g->reads_known) r->member_count = count;
}

/* ---- dependence and inlining --------------------------------------------- */

static void note_dependent(void *user, tir_expr_t *e) {
  along_t *a = user;
  if (e->op != TIR_X_LOAD || e->u.value->def == NULL) return;
  a->found |= td_map_get_u64(&a->r->dependents,
                             key_of(e->u.value->def)) != NULL;
}

static void find_dependents(cascade_region_t *r) {
  td_map_init(&r->dependents, r->scratch);
  for (size_t i = 0; i < r->block->length; i++) {
    tir_node_t *n = r->block->data[i];
    along_t a = {r, member_of(r, n) != NULL};
    for (uint32_t k = 0; k < r->top_count; k++) {
      a.found |= r->tops[k].node == n;
    }
    for (uint32_t k = 0; k < tir_node_expr_count(n); k++) {
      tir_walk(r->scratch, *tir_node_expr(n, k), note_dependent, &a);
    }
    for (uint32_t k = 0; k < n->operand_count; k++) {
      const tir_node_t *def = n->operands[k]->def;
      a.found |= def != NULL &&
                 td_map_get_u64(&r->dependents, key_of(def)) != NULL;
    }
    if (a.found) td_map_put_u64(&r->dependents, key_of(n), n);
  }
}

typedef struct inline_state {
  cascade_region_t *r;
  int depth;
  const tir_expr_t *axis_at; /* a result read along the axis */
} inline_state_t;

static tir_expr_t *inline_load(void *user, tir_expr_t *e) {
  inline_state_t *s = user;
  cascade_region_t *r = s->r;
  if (e->op != TIR_X_LOAD || e->u.value->def == NULL) return e;
  tir_node_t *def = e->u.value->def;
  if (td_map_get_u64(&r->dependents, key_of(def)) == NULL) return e;
  if (!args_along(r, e)) return e;
  bool is_map = def->kind == TIR_MAP && def->reduce == TIR_REDUCE_NONE;
  if (!is_map || s->depth == DEPTH_LIMIT) {
    if (s->axis_at == NULL) s->axis_at = e;
    return e;
  }
  s->depth++;
  td_map_put_u64(&r->inlined, key_of(def), def);
  tir_expr_t *body =
      tir_rewrite(r->module->arena, body_of_map(r, def, e), inline_load, s);
  s->depth--;
  return body;
}

static bool inline_members(cascade_region_t *r) {
  td_map_init(&r->inlined, r->scratch);
  for (uint32_t i = 0; i < r->member_count; i++) {
    cascade_member_t *m = &r->members[i];
    inline_state_t s = {r, 0, NULL};
    m->body = tir_rewrite(r->module->arena, m->body, inline_load, &s);
    if (m->guard != NULL) {
      m->guard = tir_rewrite(r->module->arena, m->guard, inline_load, &s);
    }
    if (s.axis_at != NULL) {
      r->refused = m;
      r->reason = CASCADE_AXIS;
      r->at = s.axis_at;
      return false;
    }
  }
  return true;
}

/* An update between the first and the last member of something that members
 * read: the sweep cannot see both versions. */
static bool has_update(cascade_region_t *r) {
  size_t first = SIZE_MAX, last = 0;
  for (uint32_t i = 0; i < r->member_count; i++) {
    if (r->members[i].at < first) first = r->members[i].at;
    if (r->members[i].at > last) last = r->members[i].at;
  }
  for (size_t i = first; i <= last; i++) {
    tir_kind_t kind = r->block->data[i]->kind;
    if (kind != TIR_UPDATE && kind != TIR_LOOP) continue;
    for (uint32_t k = 0; k < r->member_count; k++) {
      if (r->members[k].at != last) continue;
      r->refused = &r->members[k];
      r->reason = CASCADE_UPDATE;
      r->at = r->members[k].node->body;
    }
    return true;
  }
  return false;
}

/* Members in text order; the sink's indices stay those of the region. */
static void sort_members(cascade_region_t *r) {
  for (uint32_t i = 1; i < r->member_count; i++) {
    cascade_member_t m = r->members[i];
    uint32_t k = i;
    for (; k > 0 && r->members[k - 1].at > m.at; k--) {
      r->members[k] = r->members[k - 1];
    }
    r->members[k] = m;
  }
}

/* ---- several indices ----------------------------------------------------- */

static void name_axis(cascade_region_t *r) {
  r->axis_text = r->axis[0]->name;
  for (uint32_t i = 1; i < r->axis_count; i++) {
    r->axis_text = td_arena_printf(r->scratch, "%s, %s", r->axis_text,
                                   r->axis[i]->name);
  }
}

/* False: the product of the ranges is no number of 64 bits. */
static bool flatten_axis(cascade_region_t *r) {
  td_arena_t *arena = r->module->arena;
  const ix_poly_t *extent = ix_const(r->module->pool, 1);
  tir_expr_t *to[IX_MAX_RANK];
  if (r->axis_count == 1) return true;
  for (uint32_t i = 0; i < r->axis_count; i++) {
    extent = ix_mul(r->module->pool, extent, r->axis[i]->extent);
    if (extent == NULL) return false;
  }
  tir_index_t *flat =
      tir_index_create(r->module, r->axis[0]->name, extent, true);
  tir_expr_t *rest = tir_index_ref(arena, flat);
  for (uint32_t i = r->axis_count; i-- > 0;) {
    tir_expr_t *args[2] = {rest, tir_dim(arena, r->axis[i]->extent)};
    to[i] = rest;
    if (i == 0) break;
    to[i] = tir_op(arena, TIR_X_MOD, TDSL_DTYPE_I64, 2, args);
    rest = tir_op(arena, TIR_X_DIV, TDSL_DTYPE_I64, 2, args);
  }
  for (uint32_t k = 0; k < r->member_count; k++) {
    cascade_member_t *m = &r->members[k];
    m->body = tir_replace_indices(arena, m->body, r->axis_count, r->axis, to);
    if (m->guard == NULL) continue;
    m->guard =
        tir_replace_indices(arena, m->guard, r->axis_count, r->axis, to);
  }
  r->axis_count = 1;
  r->axis[0] = flat;
  return true;
}

bool cascade_grow(cascade_region_t *r, tir_node_t *sink, size_t at,
                  const td_map_t *broken) {
  uint32_t par = tensor_parallel(sink);
  r->member_count = 0;
  r->refused = NULL;
  r->axis_count = sink->index_count - par;
  for (uint32_t i = 0; i < r->axis_count; i++) {
    r->axis[i] = sink->indices[par + i];
  }
  name_axis(r);
  (void)add_member(r, sink, at, sink->indices);
  grow_t g = {.r = r, .broken = broken};
  for (uint32_t i = 0; i < r->member_count; i++) {
    grow_member(&g, &r->members[i]);
  }
  find_rows(r);
  for (uint32_t before = 0; before != r->member_count;) {
    before = r->member_count;
    for (size_t i = at; i-- > 0;) {
      tir_node_t *n = r->block->data[i];
      if (member_of(r, n) != NULL) continue;
      if (td_map_get_u64(broken, key_of(n)) != NULL) continue;
      try_join(&g, n, i);
    }
  }
  sort_members(r);
  if (r->member_count < 2) return false;
  cascade_find_tops(r);
  find_dependents(r);
  return !has_update(r) && inline_members(r) && flatten_axis(r);
}
