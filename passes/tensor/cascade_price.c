/* cascade_price.c: whether a chain that can be one sweep should be one. */
#include "passes/tensor/cascade.h"

#include "ir/dtype.h"
#include "passes/tensor/tensor.h"

enum {
  STATE_LIMIT = 1024, /* floats of a row */
  LANE_LIMIT = 8192,  /* the same with every lane counted */
};

typedef struct reads {
  const cascade_region_t *r;
  int depth; /* maps between the member and what is read */
  bool has_contraction;
} reads_t;

/* Through maps: what they do to a sum does not matter. */
static void note_contraction(void *user, tir_expr_t *e) {
  reads_t *s = user;
  if (e->op != TIR_X_LOAD || e->u.value->def == NULL) return;
  const tir_node_t *def = e->u.value->def;
  if (def->kind != TIR_MAP || s->has_contraction) return;
  if (s->depth == 0 && !cascade_is_along(s->r, e)) return;
  if (def->reduce == TIR_REDUCE_NONE && s->depth < 8) {
    s->depth++;
    tir_walk(s->r->scratch, def->body, note_contraction, s);
    s->depth--;
  }
  if (def->reduce == TIR_REDUCE_SUM && def->is_fma &&
      def->plan == TIR_PLAN_SERIAL) {
    s->has_contraction = true;
  }
}

/* ---- lanes --------------------------------------------------------------- */

typedef struct layout {
  const tir_index_t *axis, *extra; /* the last extra */
  int along, across; /* loads whose last subscript is the one or the other */
} layout_t;

static void note_layout(void *user, tir_expr_t *e) {
  layout_t *s = user;
  if (e->op != TIR_X_LOAD || e->arg_count < 2) return;
  const tir_expr_t *last = e->args[e->arg_count - 1];
  if (last->op != TIR_X_INDEX) return;
  s->along += last->u.index == s->axis;
  s->across += last->u.index == s->extra;
}

/* A matrix w[o, i] is read by rows, as it lies. With rows of the sweep's own
 * it is packed instead, for all of them. */
bool cascade_is_laned(cascade_region_t *r, const cascade_component_t *c) {
  if (c->reduce != TIR_REDUCE_SUM) return false;
  if (c->extra_count == 0) return true;
  if (r->row_count > 0) return false;
  layout_t s = {r->axis[0], c->extras[c->extra_count - 1], 0, 0};
  tir_expr_t *e = c->sum == NULL ? c->body
                                 : cascade_to_expr(&r->norm, c->sum, c->type);
  tir_walk(r->scratch, e, note_layout, &s);
  return s.along > s.across;
}

/* ---- what fits ----------------------------------------------------------- */

/* Whether one kernel can keep the state: maxima, minima, their places and sums
 * of floats, and as many of them as stay in the first cache. */
bool cascade_fits(cascade_region_t *r) {
  int64_t floats = 0, lanes = 0;
  for (uint32_t i = 0; i < r->top_count; i++) floats += 2 * r->tops[i].node->k;
  if (r->axis_count != 1) return false;
  for (uint32_t i = 0; i < r->component_count; i++) {
    const cascade_component_t *c = r->components[i];
    bool is_order = c->reduce == TIR_REDUCE_MAX || c->reduce == TIR_REDUCE_MIN;
    int64_t lo, hi, size = 1;
    bool is_place =
        c->reduce == TIR_REDUCE_ARGMAX || c->reduce == TIR_REDUCE_ARGMIN;
    tdsl_dtype_t type = is_place ? c->body->type : c->type;
    if (!is_order && !is_place && c->reduce != TIR_REDUCE_SUM) return false;
    if ((is_order || is_place) && c->extra_count > 0) return false;
    if (type != TDSL_DTYPE_F32 && type != TDSL_DTYPE_F64) return false;
    for (uint32_t k = 0; k < c->extra_count; k++) {
      if (!ix_interval(c->extras[k]->extent, &lo, &hi) ||
          __builtin_mul_overflow(size, hi, &size)) {
        return false;
      }
    }
    if (size > STATE_LIMIT) return false;
    floats += size;
    lanes += size * (cascade_is_laned(r, c) ? TIR_LANES : 1);
  }
  return floats <= STATE_LIMIT && lanes <= LANE_LIMIT;
}

/* ---- columns of what is in memory anyway --------------------------------- */

/* Dims of a value that a reduction goes along. */
typedef struct uses {
  const cascade_region_t *r;
  const tir_value_t *value;
  tir_node_t *reader;
  uint32_t along;  /* of the region */
  bool is_column;  /* its last dim is one of the rows */
  bool is_kept;    /* somebody else needs all of it */
} uses_t;

static void note_column(void *user, tir_expr_t *e) {
  uses_t *u = user;
  if (e->op != TIR_X_LOAD || e->arg_count < 2 || u->is_column) return;
  uint32_t along = 0;
  for (uint32_t d = 0; d < e->arg_count; d++) {
    if (cascade_is_along(u->r, e->args[d])) along |= 1u << d;
  }
  const tir_expr_t *last = e->args[e->arg_count - 1];
  if (along == 0 || last->op != TIR_X_INDEX) return;
  for (uint32_t i = 0; i < u->r->row_count; i++) {
    u->is_column |= last->u.index == u->r->rows[i];
  }
  u->value = e->u.value;
  u->along = along;
}

/* A reduction along other dims, or a map over all of them. */
static void note_other_way(void *user, tir_expr_t *e) {
  uses_t *u = user;
  if (e->op != TIR_X_LOAD || e->u.value != u->value) return;
  uint32_t along = 0, own = 0;
  for (uint32_t d = 0; d < e->arg_count; d++) {
    if (e->args[d]->op != TIR_X_INDEX) continue;
    bool is_reduction = e->args[d]->u.index->is_reduction;
    if (is_reduction) along |= 1u << d;
    else own |= 1u << d;
  }
  bool is_map = u->reader->reduce == TIR_REDUCE_NONE;
  if (is_map) u->is_kept |= own == (1u << e->arg_count) - 1;
  else u->is_kept |= along != 0 && (along & u->along) == 0;
}

/* Columns of a value that is made as a whole for others: side by side they
 * are read as it lies, which a sweep for each of them cannot. */
static bool has_kept_columns(cascade_region_t *r, cascade_member_t *m) {
  uses_t u = {.r = r};
  tir_walk(r->scratch, m->body, note_column, &u);
  if (!u.is_column) return false;
  for (uint32_t i = 0; i < r->func->slot_count; i++) {
    u.is_kept |= r->func->slots[i].result == u.value;
  }
  for (size_t i = 0; i < r->block->length && !u.is_kept; i++) {
    u.reader = r->block->data[i];
    for (uint32_t k = 0; k < u.reader->operand_count; k++) {
      u.is_kept |= u.reader->operands[k] == u.value;
    }
    for (uint32_t k = 0; k < tir_node_expr_count(u.reader); k++) {
      tir_walk(r->scratch, *tir_node_expr(u.reader, k), note_other_way, &u);
    }
  }
  return u.is_kept;
}

/* ---- what pays ----------------------------------------------------------- */

/* One sweep pays where weights are exponentials of what is itself a sum,
 * computed for each row: then scores never have to exist as a whole. A norm
 * in front of a product is left alone: its row is there anyway. Where there
 * are no rows every link of the chain is a kernel of its own, and one sweep is
 * one. By the form of the bodies, so that no extent moves a bit. */
bool cascade_pays(cascade_region_t *r) {
  reads_t s = {r, 0, false};
  if (r->row_count == 0) return true;
  for (uint32_t i = 0; i < r->member_count; i++) {
    if (has_kept_columns(r, &r->members[i])) return false;
    tir_walk(r->scratch, r->members[i].body, note_contraction, &s);
  }
  return s.has_contraction && (r->kind == CASCADE_RUNNING ||
                               r->kind == CASCADE_LAZY ||
                               r->kind == CASCADE_CONSTANT);
}

/* ---- what it costs ------------------------------------------------------- */

typedef struct traffic {
  const cascade_region_t *r;
  td_map_t seen; /* tir_value_t* -> itself: counted */
  const td_map_t *only; /* count these alone; NULL: all */
  const ix_poly_t *bytes;
} traffic_t;

static void note_traffic(void *user, tir_expr_t *e) {
  traffic_t *t = user;
  if (e->op != TIR_X_LOAD || e->arg_count == 0) return;
  uint64_t key = (uint64_t)(uintptr_t)e->u.value;
  if (!cascade_is_along(t->r, e)) return;
  if (td_map_get_u64(&t->seen, key) != NULL) return;
  if (t->only != NULL && td_map_get_u64(t->only, key) == NULL) return;
  td_map_put_u64(&t->seen, key, t);
  ix_pool_t *pool = t->r->module->pool;
  t->bytes = ix_add(pool, t->bytes, tensor_bytes(pool, e->u.value));
}

static void open_traffic(traffic_t *t, const cascade_region_t *r) {
  *t = (traffic_t){.r = r, .bytes = ix_const(r->module->pool, 0)};
  td_map_init(&t->seen, r->scratch);
}

static void walk_traffic(traffic_t *t, const cascade_member_t *m) {
  if (m->guard != NULL) tir_walk(t->r->scratch, m->guard, note_traffic, t);
  tir_walk(t->r->scratch, m->body, note_traffic, t);
}

const ix_poly_t *cascade_bytes_once(const cascade_region_t *r) {
  traffic_t t;
  open_traffic(&t, r);
  for (uint32_t i = 0; i < r->member_count; i++) {
    walk_traffic(&t, &r->members[i]);
  }
  return t.bytes;
}

const ix_poly_t *cascade_bytes_apart(const cascade_region_t *r) {
  const ix_poly_t *sum = ix_const(r->module->pool, 0);
  for (uint32_t i = 0; i < r->member_count; i++) {
    traffic_t t;
    open_traffic(&t, r);
    walk_traffic(&t, &r->members[i]);
    sum = ix_add(r->module->pool, sum, t.bytes);
  }
  return sum;
}

const ix_poly_t *cascade_bytes_again(const cascade_region_t *r,
                                     const cascade_member_t *m) {
  traffic_t others, own;
  open_traffic(&others, r);
  open_traffic(&own, r);
  for (uint32_t i = 0; i < r->member_count; i++) {
    if (&r->members[i] != m) walk_traffic(&others, &r->members[i]);
  }
  own.only = &others.seen;
  walk_traffic(&own, m);
  return own.bytes;
}
