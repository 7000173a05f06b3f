/* pack_operands.c
 *
 * Does: gives a product the weights it reads as panels, in the order in which
 *   its inner loop takes them: a map makes panels[.., p, k, j] of
 *   w[.., p * nr + j, k], and the product reads the panels.  The run time
 *   makes them once for weights that stay (runtime/hal/exec.c).  A large
 *   product gets its other operand so too, in each run, unless columns lie
 *   side by side: otherwise every block of its rows turns it again.
 * Needs: find-cascades is done; targets without warps.
 * Guarantees: a value with `panel` set has rows of as many columns; with
 *   is_kept it is computed from weights alone, by a node of the function's
 *   own block.
 * Class: bitwise.
 * Ends because: one pass over the nodes.
 * Ledgers: bandwidth and compute of each run, against the weights' bytes. */
#include "passes/tensor/price.h"

#include "passes/tensor/group_kernels.h"
#include "runtime/base/num.h"

enum { LEAST_ROWS = 17, LEAST_DEPTH = 64, LEAST_COLUMNS = 64 };
/* Weights of fewer bytes stay in a second cache from one run to the next. */
static const double cache_bytes = 1 << 20;
/* Of products whose operand is packed in each run: rows, multiply-adds, and
 * bytes of the arena that it may take. */
static const double large_rows = 512, large_work = 1 << 29,
                    most_bytes = 1 << 26;

typedef struct packed {
  const tir_value_t *from;
  const tir_expr_t *load;
  uint32_t k_dim, n_count, n_dims[IX_MAX_RANK];
  tir_value_t *panels;
} packed_t;

typedef struct place {
  tir_block_t *block;
  tir_node_t *product, *map;
} place_t;

typedef struct pack {
  pass_state_t *state;
  tir_module_t *module;
  tir_func_t *func;
  const ir_target_t *target;
  td_arena_t scratch;
  TD_VEC(packed_t) packed;   /* of this function */
  TD_VEC(tir_node_t *) maps; /* to be put in front of all */
  TD_VEC(place_t) places;    /* to be put in front of their product */
  tir_block_t *block;        /* of the node that is looked at */
} pack_t;

/* ---- what is read -------------------------------------------------------- */

static bool is_weight(const pack_t *s, const tir_value_t *v) {
  for (uint32_t i = 0; i < s->func->slot_count; i++) {
    const tir_slot_t *slot = &s->func->slots[i];
    if (slot->value == v) return slot->is_weight && slot->kind == TIR_IN;
  }
  return false;
}

static const tir_expr_t *load_of(const tir_expr_t *e) {
  while (e->op == TIR_X_CAST) e = e->args[0];
  return e->op == TIR_X_LOAD ? e : NULL;
}

static bool mentions_any(pack_t *s, tir_expr_t *e, const tir_node_t *n,
                         uint32_t from) {
  for (uint32_t i = from; i < n->index_count; i++) {
    if (tir_mentions_index(&s->scratch, e, n->indices[i])) return true;
  }
  return false;
}

static const ix_poly_t *number(pack_t *s, int64_t v) {
  return ix_const(s->module->pool, v);
}

/* The one reduction index, or so many of its values that share an element: a
 * scale, or what holds several codes. */
static bool is_depth(const tir_expr_t *sub, const tir_index_t *depth) {
  if (sub->op == TIR_X_DIV && sub->args[1]->op == TIR_X_CONST) {
    sub = sub->args[0];
  }
  return sub->op == TIR_X_INDEX && sub->u.index == depth;
}

/* Subscripts are the depth, the columns, each once and as they are, and what
 * has to do with neither. */
static bool sort_subscripts(pack_t *s, const tir_node_t *n, tir_expr_t *rows,
                            const tir_expr_t *load, packed_t *out) {
  uint32_t par = tensor_parallel(n);
  const tir_index_t *depth = n->indices[par];
  uint32_t columns = 0;
  bool has_depth = false;
  for (uint32_t i = 0; i < par; i++) {
    columns += tir_mentions_index(&s->scratch, (tir_expr_t *)(uintptr_t)load,
                                  n->indices[i]) &&
               !tir_mentions_index(&s->scratch, rows, n->indices[i]);
  }
  for (uint32_t d = 0; d < load->arg_count; d++) {
    tir_expr_t *sub = load->args[d];
    const tir_index_t *index = sub->op == TIR_X_INDEX ? sub->u.index : NULL;
    if (is_depth(sub, depth)) {
      if (has_depth) return false;
      has_depth = true;
      out->k_dim = d;
    } else if (index != NULL &&
               !tir_mentions_index(&s->scratch, rows, index)) {
      if (out->n_count > 0) {
        const tir_expr_t *before =
            load->args[out->n_dims[out->n_count - 1]];
        uint32_t a = 0, b = 0;
        while (n->indices[a] != before->u.index) a++;
        while (n->indices[b] != index) b++;
        if (a >= b) return false; /* not in the order of the output */
      }
      out->n_dims[out->n_count++] = d;
    } else if (mentions_any(s, sub, n, par)) {
      return false;
    } else {
      for (uint32_t i = 0; i < par; i++) {
        if (tir_mentions_index(&s->scratch, sub, n->indices[i]) &&
            !tir_mentions_index(&s->scratch, rows, n->indices[i])) {
          return false;
        }
      }
    }
  }
  return has_depth && out->n_count == columns && columns > 0;
}

/* ---- panels -------------------------------------------------------------- */

static bool is_column(const packed_t *p, uint32_t d) {
  for (uint32_t i = 0; i < p->n_count; i++) {
    if (p->n_dims[i] == d) return true;
  }
  return false;
}

static tir_expr_t *binary(pack_t *s, tir_x_t op, tir_expr_t *a,
                          tir_expr_t *b) {
  return tir_op(s->module->arena, op, TDSL_DTYPE_I64, 2,
                (tir_expr_t *[]){a, b});
}

static tir_expr_t *integer(pack_t *s, int64_t v) {
  return tir_const_i(s->module->arena, TDSL_DTYPE_I64, v);
}

/* Sizes of the dims of columns, and their product; 0: not known. */
static int64_t column_count(const packed_t *p) {
  int64_t all = 1, n;
  for (uint32_t i = 0; i < p->n_count; i++) {
    if (!ix_is_const(p->from->dims[p->n_dims[i]], &n) || n <= 0) return 0;
    if (__builtin_mul_overflow(all, n, &all)) return 0;
  }
  return all;
}

static tir_node_t *make_panels(pack_t *s, packed_t *p, int64_t columns,
                               int64_t nr, td_loc_t loc) {
  td_arena_t *arena = s->module->arena;
  const tir_value_t *v = p->from;
  const ix_poly_t *dims[IX_MAX_RANK];
  tir_expr_t *subs[IX_MAX_RANK];
  uint32_t rank = 0, leads = v->rank - p->n_count - 1;
  tir_node_t *n = tir_node_create(arena, TIR_MAP, 1);
  n->index_count = leads + 3;
  n->indices = TD_NEW_ARRAY(arena, tir_index_t *, n->index_count);
  for (uint32_t d = 0; d < v->rank; d++) {
    if (d == p->k_dim || is_column(p, d)) continue;
    n->indices[rank] = tir_index_create(s->module, "l", v->dims[d], false);
    subs[d] = tir_index_ref(arena, n->indices[rank]);
    dims[rank++] = v->dims[d];
  }
  static const char *const names[3] = {"p", "k", "j"};
  const ix_poly_t *last[3] = {number(s, (columns + nr - 1) / nr),
                              v->dims[p->k_dim], number(s, nr)};
  tir_expr_t *index[3];
  for (int i = 0; i < 3; i++) {
    n->indices[rank] = tir_index_create(s->module, names[i], last[i], false);
    index[i] = tir_index_ref(arena, n->indices[rank]);
    dims[rank++] = last[i];
  }
  subs[p->k_dim] = index[1];
  tir_expr_t *flat = binary(s, TIR_X_ADD,
                            binary(s, TIR_X_MUL, index[0], integer(s, nr)),
                            index[2]);
  /* past the end the last column again */
  if (columns % nr != 0) {
    flat = binary(s, TIR_X_MIN, flat, integer(s, columns - 1));
  }
  for (uint32_t i = p->n_count; i > 0; i--) {
    uint32_t d = p->n_dims[i - 1];
    int64_t size = 1;
    (void)ix_is_const(v->dims[d], &size);
    subs[d] = i == 1 ? flat : binary(s, TIR_X_MOD, flat, integer(s, size));
    flat = binary(s, TIR_X_DIV, flat, integer(s, size));
  }
  n->body = tir_load(arena, v, v->rank, subs);
  n->loc = n->body->loc = loc;
  const char *name = td_arena_printf(arena, "%s_panels", v->name);
  p->panels = tir_value_create(arena, name, v->dtype, rank, dims);
  p->panels->def = n;
  p->panels->loc = loc;
  p->panels->panel = (uint32_t)nr;
  n->outs[0] = p->panels;
  return n;
}

/* Of weights panels of the same kind that another product uses, or new
 * ones. */
static tir_value_t *panels_for(pack_t *s, packed_t *p, int64_t columns,
                               int64_t nr, tir_node_t *product) {
  if (!is_weight(s, p->from)) {
    place_t place = {s->block, product,
                     make_panels(s, p, columns, nr, product->loc)};
    td_vec_push(&s->scratch, &s->places, place);
    return p->panels;
  }
  for (size_t i = 0; i < s->packed.length; i++) {
    const packed_t *old = &s->packed.data[i];
    if (old->from == p->from && old->k_dim == p->k_dim &&
        old->n_count == p->n_count && old->panels->panel == nr &&
        memcmp(old->n_dims, p->n_dims, p->n_count * sizeof *p->n_dims) == 0) {
      return old->panels;
    }
  }
  tir_node_t *map = make_panels(s, p, columns, nr, product->loc);
  td_vec_push(s->module->arena, &s->maps, map);
  p->panels->is_kept = true;
  td_vec_push(&s->scratch, &s->packed, *p);
  return p->panels;
}

/* ---- products ------------------------------------------------------------ */

typedef struct swap {
  const tir_expr_t *load;
  tir_expr_t *by;
} swap_t;

static tir_expr_t *swap_load(void *user, tir_expr_t *e) {
  const swap_t *w = user;
  bool is_it = e->op == TIR_X_LOAD && e->u.value == w->load->u.value;
  return is_it ? w->by : e;
}

static tir_expr_t *read_panels(pack_t *s, const packed_t *p,
                               tir_value_t *panels) {
  const tir_expr_t *load = p->load;
  td_arena_t *arena = s->module->arena;
  tir_expr_t *subs[IX_MAX_RANK], *flat = NULL;
  uint32_t rank = 0;
  for (uint32_t d = 0; d < load->arg_count; d++) {
    if (is_column(p, d)) {
      int64_t size = 1;
      (void)ix_is_const(p->from->dims[d], &size);
      flat = flat == NULL
                 ? load->args[d]
                 : binary(s, TIR_X_ADD,
                          binary(s, TIR_X_MUL, flat, integer(s, size)),
                          load->args[d]);
    } else if (d != p->k_dim) {
      subs[rank++] = load->args[d];
    }
  }
  subs[rank++] = binary(s, TIR_X_DIV, flat, integer(s, panels->panel));
  subs[rank++] = load->args[p->k_dim];
  subs[rank++] = binary(s, TIR_X_MOD, flat, integer(s, panels->panel));
  tir_expr_t *out = tir_load(arena, panels, rank, subs);
  out->loc = load->loc;
  return out;
}

/* Weights that a cache holds are read well as they lie by few rows of floats;
 * turning narrow ones costs more than reading them, and what comes from memory
 * comes a quarter faster as one stream than as a row for each column.  Floats
 * side by side that are no weights are packed by the first rows that multiply
 * with them (passes/tile/contraction_pack.c), at no cost. */
static bool has_work(const pack_t *s, const tir_node_t *n, const packed_t *p,
                     int64_t columns, int64_t depth) {
  const tir_value_t *v = p->from;
  double elements = (double)columns * (double)depth;
  double work = tensor_tuples(n), rows = work / elements;
  double bytes = tensor_elements(v) * (double)td_dtype_bytes(v->dtype);
  if (!is_weight(s, v)) {
    if (is_column(p, v->rank - 1) && v->dtype == n->body->type) return false;
    return rows >= large_rows && work >= large_work && bytes <= most_bytes &&
           elements == tensor_elements(v);
  }
  return rows >= (double)LEAST_ROWS || bytes >= cache_bytes ||
         td_dtype_bytes(v->dtype) < td_dtype_bytes(TDSL_DTYPE_F32);
}

/* ---- what a column is made of -------------------------------------------- */

enum { MOST_LOADS = 4 };

/* One load, or codes of weights with their scales. */
typedef struct column {
  pack_t *pack;
  const tir_node_t *node;
  tir_expr_t *rows;
  packed_t all[MOST_LOADS];
  uint32_t count;
  bool is_other; /* too many, or one value is read in two ways */
} column_t;

static bool same_subscript(const tir_expr_t *a, const tir_expr_t *b) {
  if (a == b) return true;
  if (a->op != b->op) return false;
  if (a->op == TIR_X_INDEX) return a->u.index == b->u.index;
  return a->op == TIR_X_DIV && a->args[0]->op == TIR_X_INDEX &&
         b->args[0]->op == TIR_X_INDEX &&
         a->args[0]->u.index == b->args[0]->u.index &&
         a->args[1]->op == TIR_X_CONST && b->args[1]->op == TIR_X_CONST &&
         a->args[1]->u.i64 == b->args[1]->u.i64;
}

static bool mentions_columns(const column_t *c, tir_expr_t *e) {
  td_arena_t *scratch = &c->pack->scratch;
  for (uint32_t i = 0; i < tensor_parallel(c->node); i++) {
    if (tir_mentions_index(scratch, e, c->node->indices[i]) &&
        !tir_mentions_index(scratch, c->rows, c->node->indices[i])) {
      return true;
    }
  }
  return false;
}

/* What no column changes stays where it is. */
static void note_load(void *user, tir_expr_t *e) {
  column_t *c = user;
  if (e->op != TIR_X_LOAD || !mentions_columns(c, e)) return;
  for (uint32_t i = 0; i < c->count; i++) {
    if (c->all[i].from != e->u.value) continue;
    for (uint32_t d = 0; d < e->arg_count; d++) {
      c->is_other |= !same_subscript(e->args[d], c->all[i].load->args[d]);
    }
    return;
  }
  if (c->count == MOST_LOADS) {
    c->is_other = true;
    return;
  }
  c->all[c->count++] = (packed_t){.from = e->u.value, .load = e};
}

/* Static dims, and columns as many as there are. */
static bool is_whole(pack_t *s, const tir_node_t *n, tir_expr_t *rows,
                     packed_t *p, int64_t *columns) {
  int64_t lead, depth, elements, by = 1;
  const tir_expr_t *sub;
  if (p->from->panel != 0 || !sort_subscripts(s, n, rows, p->load, p)) {
    return false;
  }
  *columns = column_count(p);
  for (uint32_t i = 0; i < p->n_count; i++) {
    sub = p->load->args[p->n_dims[i]];
    if (sub->u.index->extent != p->from->dims[p->n_dims[i]]) return false;
  }
  for (uint32_t d = 0; d < p->from->rank; d++) {
    if (!ix_is_const(p->from->dims[d], &lead)) return false;
  }
  sub = p->load->args[p->k_dim];
  if (sub->op == TIR_X_DIV) by = sub->args[1]->u.i64;
  return ix_is_const(n->indices[tensor_parallel(n)]->extent, &depth) &&
         ix_is_const(p->from->dims[p->k_dim], &elements) && by > 0 &&
         depth % by == 0 && depth / by <= elements && depth >= LEAST_DEPTH &&
         *columns >= LEAST_COLUMNS;
}

/* All loads can come as panels, and it pays. */
static bool is_packable(pack_t *s, const tir_node_t *n, int b, column_t *c) {
  int64_t columns = 0, first = 0, depth = 0;
  const tir_expr_t *plain = load_of(n->body->args[b]);
  bool pays = false, is_narrow = false;
  (void)ix_is_const(n->indices[tensor_parallel(n)]->extent, &depth);
  for (uint32_t i = 0; i < c->count; i++) {
    packed_t *p = &c->all[i];
    if (!is_whole(s, n, n->body->args[1 - b], p, &columns)) return false;
    if (i == 0) first = columns;
    if (columns != first || (plain == NULL && !is_weight(s, p->from))) {
      return false;
    }
    is_narrow |= td_dtype_bytes(p->from->dtype) < sizeof(float);
    pays |= has_work(s, n, p, columns, depth);
  }
  return pays && (plain != NULL || is_narrow);
}

static void try_product(pack_t *s, tir_node_t *n) {
  uint32_t par = tensor_parallel(n);
  column_t c = {.pack = s, .node = n};
  if (!group_is_contraction(n) || n->cascade != 0 || n->guard != NULL ||
      n->index_count != par + 1) {
    return;
  }
  const tir_index_t *last = n->indices[par - 1];
  bool in[2];
  for (int i = 0; i < 2; i++) {
    in[i] = tir_mentions_index(&s->scratch, n->body->args[i], last);
  }
  if (in[0] == in[1]) return;
  int b = in[1] ? 1 : 0;
  c.rows = n->body->args[1 - b];
  tir_walk(&s->scratch, n->body->args[b], note_load, &c);
  if (c.count == 0 || c.is_other || !is_packable(s, n, b, &c)) return;
  int64_t nr = s->target->nr;
  if (n->body->type == TDSL_DTYPE_F64) nr /= 2;
  tir_expr_t *args[2] = {n->body->args[0], n->body->args[1]};
  for (uint32_t i = 0; i < c.count; i++) {
    packed_t *p = &c.all[i];
    tir_value_t *panels = panels_for(s, p, column_count(p), nr, n);
    swap_t w = {p->load, read_panels(s, p, panels)};
    args[b] = tir_rewrite(s->module->arena, args[b], swap_load, &w);
  }
  td_loc_t loc = n->body->loc;
  n->body = tir_op(s->module->arena, TIR_X_MUL, n->body->type, 2, args);
  n->body->loc = loc;
}

static void each_node(void *user, tir_func_t *func, tir_block_t *block,
                      tir_node_t *node) {
  pack_t *s = user;
  s->block = block;
  if (func == s->func && node->kind == TIR_MAP) try_product(s, node);
}

static void put_in_place(pack_t *s, const place_t *p) {
  tir_block_t *block = p->block;
  size_t at = 0;
  while (block->data[at] != p->product) at++;
  td_vec_push(s->module->arena, block, p->map);
  for (size_t i = block->length - 1; i > at; i--) {
    block->data[i] = block->data[i - 1];
  }
  block->data[at] = p->map;
}

static void put_in_front(pack_t *s) {
  tir_block_t all = {0};
  td_arena_t *arena = s->module->arena;
  for (size_t i = 0; i < s->places.length; i++) {
    put_in_place(s, &s->places.data[i]);
  }
  for (size_t i = 0; i < s->maps.length; i++) {
    td_vec_push(arena, &all, s->maps.data[i]);
  }
  for (size_t i = 0; i < s->func->nodes.length; i++) {
    td_vec_push(arena, &all, s->func->nodes.data[i]);
  }
  s->func->nodes = all;
  tir_renumber(s->func);
}

bool pass_pack_operands(pass_state_t *state, tir_module_t *module) {
  bool has_changed = false;
  const ir_target_t *target = tensor_target(state);
  if (target->warp > 0) return false;
  for (uint32_t f = 0; f < module->func_count; f++) {
    pack_t s = {.state = state, .module = module,
                .func = module->funcs[f], .target = target};
    td_arena_init(&s.scratch, state->task);
    tensor_each_node(module, each_node, &s);
    bool has_any = s.maps.length > 0 || s.places.length > 0;
    if (has_any) put_in_front(&s);
    has_changed |= has_any;
    td_arena_free_all(&s.scratch);
  }
  return has_changed;
}
