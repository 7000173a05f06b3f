/* cascade_top.c: the k largest as states of a sweep.
 *
 * A topk of x along the axis joins a region whose members read x there. So
 * does one of h(x), where h grows with x and else mentions results of the
 * region: it is taken on x, and
 *
 *     %val, %to = topk 2 %p        p[i] = exp(x[i] - l)
 *
 * becomes the topk of x and a map val[j] = exp(top[j] - l). Where h rounds two
 * numbers to one, the places may be others than those of the text: that is of
 * the class reassociated. */
#include "passes/tensor/cascade.h"

#include "passes/tensor/group_kernels.h"
#include "passes/tensor/tensor.h"

enum { DEPTH_LIMIT = 16 };

static bool is_float(tdsl_dtype_t type) {
  return type == TDSL_DTYPE_F32 || type == TDSL_DTYPE_F64;
}

/* ---- what grows ---------------------------------------------------------- */

typedef struct growth {
  td_arena_t *scratch;
  const tir_index_t *axis; /* of the map; only the load mentions it */
  const tir_expr_t *load;
} growth_t;

static bool is_positive(const tir_expr_t *e) {
  if (e->op == TIR_X_CONST) return is_float(e->type) && e->u.f64 > 0;
  return e->op == TIR_X_EXP || e->op == TIR_X_EXP2;
}

static tir_expr_t *mutable(const tir_expr_t *e) {
  return (tir_expr_t *)(uintptr_t)(const void *)e;
}

/* Whether e grows with the load, which becomes known at its first mention. */
static bool grows(growth_t *g, const tir_expr_t *e, int depth) {
  if (depth == DEPTH_LIMIT || !is_float(e->type)) return false;
  bool first = e->arg_count > 0 && tir_mentions_index(g->scratch,
                                                      mutable(e->args[0]),
                                                      g->axis);
  bool second = e->arg_count > 1 && tir_mentions_index(g->scratch,
                                                       mutable(e->args[1]),
                                                       g->axis);
  switch (e->op) {
    case TIR_X_LOAD:
      if (g->load != NULL || e->arg_count == 0) return false;
      g->load = e;
      return true;
    case TIR_X_EXP: case TIR_X_EXP2: case TIR_X_TANH:
      return grows(g, e->args[0], depth + 1);
    case TIR_X_ADD:
      if (first && second) return false;
      return grows(g, e->args[first ? 0 : 1], depth + 1);
    case TIR_X_SUB:
      return first && !second && grows(g, e->args[0], depth + 1);
    case TIR_X_MUL:
      if (first && second) return false;
      return is_positive(e->args[first ? 1 : 0]) &&
             grows(g, e->args[first ? 0 : 1], depth + 1);
    case TIR_X_DIV:
      return first && !second && is_positive(e->args[1]) &&
             grows(g, e->args[0], depth + 1);
    default:
      return false;
  }
}

/* ---- which belong to a region -------------------------------------------- */

typedef struct search {
  const cascade_region_t *r;
  const tir_value_t *value;
  bool found;
} search_t;

static void note_row(void *user, tir_expr_t *e) {
  search_t *s = user;
  const cascade_region_t *r = s->r;
  if (e->op != TIR_X_LOAD || e->u.value != s->value ||
      e->arg_count != r->row_count + 1) {
    return;
  }
  bool is_row = true;
  for (uint32_t i = 0; i < e->arg_count; i++) {
    const tir_index_t *want = i < r->row_count ? r->rows[i] : r->axis[0];
    is_row &= e->args[i]->op == TIR_X_INDEX && e->args[i]->u.index == want;
  }
  s->found |= is_row;
}

/* Whether a member reads the value at the rows and along the axis. */
static bool is_read(cascade_region_t *r, const tir_value_t *v) {
  search_t s = {r, v, false};
  for (uint32_t i = 0; i < r->member_count; i++) {
    tir_walk(r->scratch, r->members[i].body, note_row, &s);
  }
  return s.found;
}

static bool is_plain(const tir_expr_t *load, const tir_node_t *map) {
  if (load->arg_count != map->index_count) return false;
  for (uint32_t i = 0; i < load->arg_count; i++) {
    if (load->args[i]->op != TIR_X_INDEX ||
        load->args[i]->u.index != map->indices[i]) {
      return false;
    }
  }
  return true;
}

void cascade_find_tops(cascade_region_t *r) {
  r->top_count = 0;
  if (r->axis_count != 1) return;
  for (size_t i = 0; i < r->block->length; i++) {
    tir_node_t *n = r->block->data[i];
    if (n->kind != TIR_TOPK || n->cascade != 0 || n->k < 1 ||
        n->k > TIR_MAX_TOP || r->top_count == CASCADE_MAX_TOPS) {
      continue;
    }
    tir_value_t *v = n->operands[0];
    cascade_top_t top = {.node = n, .at = i, .from = v};
    if (v->rank != r->row_count + 1 || !is_float(v->dtype)) continue;
    if (v->dims[r->row_count] != r->axis[0]->extent) continue;
    if (!is_read(r, v)) {
      tir_node_t *map = v->def;
      if (map == NULL || map->kind != TIR_MAP ||
          map->reduce != TIR_REDUCE_NONE || map->cascade != 0) {
        continue;
      }
      growth_t g = {r->scratch, map->indices[r->row_count], NULL};
      if (!grows(&g, map->body, 0) || !is_plain(g.load, map)) continue;
      top.map = map;
      top.load = g.load;
      top.from = (tir_value_t *)(uintptr_t)(const void *)g.load->u.value;
      if (!is_float(top.from->dtype) || !is_read(r, top.from)) continue;
    }
    r->tops[r->top_count++] = top;
  }
}

/* ---- in the block -------------------------------------------------------- */

typedef struct putting {
  td_arena_t *arena;
  const cascade_top_t *top;
  const tir_value_t *value;
} putting_t;

static tir_expr_t *put_value(void *user, tir_expr_t *e) {
  const putting_t *p = user;
  if (e->op != TIR_X_LOAD || e->u.value != p->top->from) return e;
  return tir_load(p->arena, p->value, e->arg_count, e->args);
}

tir_node_t *cascade_take_top(cascade_region_t *r, cascade_top_t *top,
                             uint32_t number) {
  td_arena_t *arena = r->module->arena;
  tir_node_t *n = top->node;
  n->cascade = number;
  if (top->map == NULL) return NULL;
  tir_value_t *old = n->outs[0];
  tir_value_t *largest = tir_value_create(
      arena, td_arena_printf(arena, "%s.top", top->from->name),
      top->from->dtype, old->rank, old->dims);
  largest->loc = old->loc;
  largest->def = n;
  n->operands[0] = top->from;
  n->outs[0] = largest;
  tir_node_t *map = tir_node_create(arena, TIR_MAP, 1);
  tir_expr_t *to[IX_MAX_RANK];
  map->index_count = old->rank;
  map->indices = TD_NEW_ARRAY(arena, tir_index_t *, old->rank);
  for (uint32_t i = 0; i < old->rank; i++) {
    map->indices[i] = tir_index_create(
        r->module, i < r->row_count ? top->map->indices[i]->name : "j",
        old->dims[i], false);
    to[i] = tir_index_ref(arena, map->indices[i]);
  }
  putting_t p = {arena, top, largest};
  tir_expr_t *body = tir_rewrite(arena, top->map->body, put_value, &p);
  body = tir_replace_indices(arena, body, top->map->index_count,
                             top->map->indices, to);
  /* what p was rounded to */
  if (top->map->outs[0]->dtype != body->type) {
    body = tir_cast(arena, top->map->outs[0]->dtype, body);
  }
  map->body = body;
  map->loc = n->loc;
  map->outs[0] = old;
  old->def = map;
  return map;
}
