/* split_bodies.c
 *
 * Does: cuts a formula that is too long for one kernel into several nodes,
 *   each of which computes a part for all tuples of the formula.
 * Needs: verified TIR.
 * Guarantees: no body of more than BODY_LIMIT operations; a part under a
 *   condition is computed where the condition holds, and is zero elsewhere.
 *   A formula of more than TEXT_LIMIT operations is refused with B01.
 * Class: bitwise: a value in its arithmetic type is the same in memory.
 * Ends because: each expression is visited once for each condition it is
 *   under.
 * Ledgers: bandwidth and capacity up by the parts.
 *
 * Emitted code of one block costs more than linear time in its length, and a
 * kernel has only so many parameters, so that long chains are cheaper in
 * pieces. */
#include "passes/tensor/tensor.h"

enum {
  PIECE = 200,        /* operations and loads of a part */
  BODY_LIMIT = 600,   /* above it a body is cut */
  VALUE_LIMIT = 300,  /* values it reads: a kernel has so many parameters */
  TEXT_LIMIT = 50000, /* compile time stays in minutes */
};

/* What is evaluated under one condition. */
typedef struct region {
  tir_expr_t *path; /* NULL: always */
  td_map_t done;    /* old expression -> result_t */
} region_t;

typedef struct result {
  tir_expr_t *e;
  uint32_t weight;
} result_t;

/* An expression whose operands are being visited. */
typedef struct frame {
  tir_expr_t *e;
  region_t *region;
  uint32_t next;
  uint32_t weight;
  tir_expr_t **args;
} frame_t;

typedef struct split {
  tir_module_t *module;
  td_arena_t *scratch;
  tir_node_t *node;
  TD_VEC(frame_t) stack;
  TD_VEC(tir_node_t *) parts;
} split_t;

static uint64_t key_of(const void *p) {
  return (uint64_t)(uintptr_t)p;
}

static tir_expr_t *both(split_t *s, tir_expr_t *a, tir_expr_t *b) {
  if (a == NULL) return b;
  tir_expr_t *args[2] = {a, b};
  return tir_op(s->module->arena, TIR_X_AND, TDSL_DTYPE_BOOL, 2, args);
}

static region_t *region_of(split_t *s, tir_expr_t *path) {
  region_t *r = TD_NEW(s->scratch, region_t);
  r->path = path;
  td_map_init(&r->done, s->scratch);
  return r;
}

/* ---- cutting ------------------------------------------------------------ */

static tir_expr_t *zero_of(split_t *s, tdsl_dtype_t type) {
  bool is_float = type == TDSL_DTYPE_F32 || type == TDSL_DTYPE_F64;
  return is_float ? tir_const_f(s->module->arena, type, 0.0)
                  : tir_const_i(s->module->arena, type, 0);
}

/* A node of its own for e, over the indices that it mentions; what stands in
 * its place.  NULL: e has too many. */
static tir_expr_t *cut(split_t *s, tir_expr_t *e, tir_expr_t *path) {
  td_arena_t *arena = s->module->arena;
  tir_expr_t *body = e;
  if (path != NULL) {
    tir_expr_t *args[3] = {path, e, zero_of(s, e->type)};
    body = tir_op(arena, TIR_X_SELECT, e->type, 3, args);
    body->loc = e->loc;
  }
  const tir_node_t *n = s->node;
  tir_node_t *part = tir_node_create(arena, TIR_MAP, 1);
  const ix_poly_t *dims[IX_MAX_RANK];
  tir_expr_t *subs[IX_MAX_RANK], *to[IX_MAX_RANK];
  tir_index_t *from[IX_MAX_RANK];
  uint32_t count = 0;
  part->indices = TD_NEW_ARRAY(arena, tir_index_t *, n->index_count + 1);
  for (uint32_t i = 0; i < n->index_count; i++) {
    if (!tir_mentions_index(s->scratch, body, n->indices[i])) continue;
    if (count == IX_MAX_RANK) return NULL;
    tir_index_t *index = tir_index_create(s->module, n->indices[i]->name,
                                          n->indices[i]->extent, false);
    index->loc = n->indices[i]->loc;
    dims[count] = index->extent;
    subs[count] = tir_index_ref(arena, n->indices[i]);
    from[count] = n->indices[i];
    to[count] = tir_index_ref(arena, index);
    part->indices[count++] = index;
  }
  part->index_count = count;
  part->loc = e->loc.line != 0 ? e->loc : n->loc;
  part->body = tir_replace_indices(arena, body, count, from, to);
  tir_value_t *v = tir_value_create(
      arena, n->out_count > 0 ? n->outs[0]->name : "part", e->type, count,
      dims);
  v->def = part;
  v->loc = part->loc;
  part->outs[0] = v;
  td_vec_push(s->scratch, &s->parts, part);
  tir_expr_t *load = tir_load(arena, v, count, subs);
  load->loc = e->loc;
  return load;
}

/* ---- the walk ----------------------------------------------------------- */

static const result_t *known(const region_t *r, const tir_expr_t *e) {
  return td_map_get_u64(&r->done, key_of(e));
}

static void enter(split_t *s, tir_expr_t *e, region_t *region) {
  frame_t f = {.e = e, .region = region};
  f.args = TD_NEW_ARRAY(s->scratch, tir_expr_t *, e->arg_count + 1);
  td_vec_push(s->scratch, &s->stack, f);
}

/* Region of operand i, once the operands before it are done. */
static region_t *operand_region(split_t *s, const frame_t *f, uint32_t i) {
  tir_expr_t *path = f->region->path;
  if (i == 0) return f->region;
  if (f->e->op == TIR_X_AND || (f->e->op == TIR_X_SELECT && i == 1)) {
    return region_of(s, both(s, path, f->args[0]));
  }
  if (f->e->op == TIR_X_OR || f->e->op == TIR_X_SELECT) {
    tir_expr_t *other = tir_op(s->module->arena, TIR_X_NOT, TDSL_DTYPE_BOOL,
                               1, &f->args[0]);
    return region_of(s, both(s, path, other));
  }
  return f->region;
}

static void leave(split_t *s, bool is_root) {
  frame_t f = td_vec_pop(&s->stack);
  bool changed = false;
  for (uint32_t i = 0; i < f.e->arg_count; i++) {
    changed |= f.args[i] != f.e->args[i];
  }
  tir_expr_t *e = f.e;
  if (changed) {
    e = TD_NEW(s->module->arena, tir_expr_t);
    *e = *f.e;
    tir_expr_t **args =
        TD_NEW_ARRAY(s->module->arena, tir_expr_t *, e->arg_count + 1);
    for (uint32_t i = 0; i < e->arg_count; i++) args[i] = f.args[i];
    e->args = args;
  }
  uint32_t weight = f.weight + (e->arg_count > 0 || e->op == TIR_X_LOAD);
  if (weight > PIECE && !is_root && e->op != TIR_X_LOAD) {
    tir_expr_t *load = cut(s, e, f.region->path);
    if (load != NULL) {
      e = load;
      weight = 1;
    }
  }
  result_t *r = TD_NEW(s->scratch, result_t);
  r->e = e;
  r->weight = weight;
  td_map_put_u64(&f.region->done, key_of(f.e), r);
}

static tir_expr_t *shorten(split_t *s, tir_expr_t *root, tir_expr_t *path) {
  region_t *region = region_of(s, path);
  size_t base = s->stack.length;
  region_t *lazy = NULL; /* of the operand whose frame was pushed last */
  enter(s, root, region);
  while (s->stack.length > base) {
    frame_t *f = &td_vec_last(&s->stack);
    if (f->next == f->e->arg_count) {
      lazy = f->region;
      leave(s, s->stack.length == base + 1);
      if (s->stack.length == base) break;
      f = &td_vec_last(&s->stack);
      const result_t *r = known(lazy, f->e->args[f->next]);
      f->args[f->next++] = r->e;
      f->weight += r->weight;
      continue;
    }
    tir_expr_t *arg = f->e->args[f->next];
    region_t *at = operand_region(s, f, f->next);
    const result_t *r = known(at, arg);
    if (r == NULL) {
      enter(s, arg, at);
      continue;
    }
    f->args[f->next++] = r->e;
    f->weight += 1; /* evaluated once */
  }
  return known(region, root)->e;
}

static void split_node(split_t *s) {
  tir_node_t *n = s->node;
  tir_expr_t *path = NULL;
  if (n->guard != NULL) path = n->guard = shorten(s, n->guard, NULL);
  for (uint32_t i = 0; i < n->sub_count; i++) {
    n->subs[i] = shorten(s, n->subs[i], path);
  }
  if (n->is_fma && n->body->op == TIR_X_MUL) {
    /* the product itself belongs to the sum */
    tir_expr_t *factors[2] = {shorten(s, n->body->args[0], path),
                              shorten(s, n->body->args[1], path)};
    td_loc_t loc = n->body->loc;
    n->body = tir_op(s->module->arena, TIR_X_MUL, n->body->type, 2, factors);
    n->body->loc = loc;
  } else {
    n->body = shorten(s, n->body, path);
  }
}

/* ---- the module --------------------------------------------------------- */

static void refuse(pass_state_t *state, const tir_node_t *n, size_t size) {
  td_diag_t *d = td_diag(state->task, TD_B01, n->loc,
                         "this version cannot compile a formula of %zu "
                         "operations; the limit is %d",
                         size, TEXT_LIMIT);
  td_diag_help(d, "give parts of it names and an index");
  td_raise(state->task, TDSL_STATUS_UNAVAILABLE, "a formula is too long");
}

static size_t size_of(td_arena_t *scratch, tir_node_t *n) {
  size_t size = 0;
  for (uint32_t i = 0; i < tir_node_expr_count(n); i++) {
    size += tir_expr_size(scratch, *tir_node_expr(n, i));
  }
  return size;
}

typedef struct values {
  td_map_t seen; /* tir_value_t* */
  size_t count;
} values_t;

static void count_value(void *user, tir_expr_t *e) {
  values_t *v = user;
  if (e->op != TIR_X_LOAD) return;
  uint64_t key = (uint64_t)(uintptr_t)e->u.value;
  v->count += td_map_get_u64(&v->seen, key) == NULL;
  td_map_put_u64(&v->seen, key, v);
}

static size_t values_of(td_arena_t *scratch, tir_node_t *n) {
  values_t v = {.count = 0};
  td_map_init(&v.seen, scratch);
  for (uint32_t i = 0; i < tir_node_expr_count(n); i++) {
    tir_walk(scratch, *tir_node_expr(n, i), count_value, &v);
  }
  return v.count;
}

static bool split_block(pass_state_t *state, tir_module_t *module,
                        tir_block_t *block) {
  bool changed = false;
  tir_block_t fresh = {0};
  for (size_t i = 0; i < block->length; i++) {
    tir_node_t *n = block->data[i];
    if (n->kind == TIR_LOOP) {
      changed |= split_block(state, module, &n->body_nodes);
    }
    td_arena_t scratch;
    td_arena_init(&scratch, state->task);
    split_t s = {.module = module, .scratch = &scratch, .node = n};
    bool is_formula = n->kind == TIR_MAP || n->kind == TIR_UPDATE;
    size_t size = is_formula ? size_of(&scratch, n) : 0;
    if (size > TEXT_LIMIT) refuse(state, n, size);
    bool is_long = size > BODY_LIMIT;
    if (is_long || (is_formula && values_of(&scratch, n) > VALUE_LIMIT)) {
      split_node(&s);
    }
    changed |= s.parts.length > 0;
    for (size_t k = 0; k < s.parts.length; k++) {
      td_vec_push(module->arena, &fresh, s.parts.data[k]);
    }
    td_vec_push(module->arena, &fresh, n);
    td_arena_free_all(&scratch);
  }
  if (fresh.length != block->length) *block = fresh;
  return changed;
}

bool pass_split_bodies(pass_state_t *state, tir_module_t *module) {
  bool changed = false;
  for (uint32_t f = 0; f < module->func_count; f++) {
    if (!split_block(state, module, &module->funcs[f]->nodes)) continue;
    tir_renumber(module->funcs[f]);
    changed = true;
  }
  return changed;
}
