/* fuse_elementwise.c
 *
 * Does: puts the body of an elementwise map in place of the loads that read
 *   it, so that the map is needed no more.
 * Needs: verified TIR.
 * Guarantees: the same bits: a rounding store becomes a cast.
 * Class: bitwise.
 * Ends because: producers are visited once, in text order; bodies are capped.
 * Ledgers: bandwidth and capacity down, compute up where a cheap body is
 *   evaluated more than once.
 *
 * A producer moves into a reader if
 *   - its dtype holds the body's value, or the store is a float rounding;
 *   - the reader's body stays below a size;
 *   - it is cheap, or read at one place of one reader that has one tuple for
 *     each of its elements (then nothing is computed twice);
 *   - what it reads keeps its value up to the reader: no update of a tensor
 *     that it loads lies between, and no loop begins or ends.
 *
 * Maps over equal extents are first given the same index objects.  A body
 * then moves into its only reader as it is, without a copy, so that a chain
 * of any length is fused in linear time; the producer is dropped at once. */
#include "passes/remark.h"
#include "passes/tensor/tensor.h"

enum {
  CHEAP_SIZE = 10,   /* operations that cost less than a load from memory */
  BODY_LIMIT = 300,  /* operations of a fused body */
};

typedef struct producer {
  tir_node_t *node;
  size_t at;            /* position in its block */
  tir_block_t *block;
  uint32_t load_count;  /* places that read it, in all nodes */
  tir_node_t *reader;   /* the last one seen */
  bool is_read_elsewhere; /* operand, yield, result, or another block */
  bool is_costly, has_moved;
  size_t size;
} producer_t;

typedef struct fuse {
  pass_state_t *state;
  tir_module_t *module;
  tir_func_t *func;
  td_arena_t scratch;
  td_map_t producers; /* tir_value_t* -> producer_t* */
  td_map_t unstable;  /* values that updates overwrite or loops carry */
  TD_VEC(tir_index_t *) shared; /* by position and extent */
  TD_VEC(uint32_t) positions;
  tir_block_t *block; /* being scanned */
  tir_node_t *reader;
  bool has_changed;
} fuse_t;

static uint64_t key_of(const void *p) {
  return (uint64_t)(uintptr_t)p;
}

static producer_t *producer_of(const fuse_t *f, const tir_value_t *v) {
  return td_map_get_u64(&f->producers, key_of(v));
}

/* ---- what may move ------------------------------------------------------ */

static bool is_exact_store(const tir_node_t *n) {
  tdsl_dtype_t to = n->outs[0]->dtype, type = n->body->type;
  if (to == type) return true;
  /* integers keep low bits when stored and saturate when cast */
  return type == TDSL_DTYPE_F32 || type == TDSL_DTYPE_F64;
}

static void note_cost(void *user, tir_expr_t *e) {
  producer_t *p = user;
  p->is_costly |= tensor_is_costly(e);
}

static void add_producer(fuse_t *f, tir_block_t *block, size_t at) {
  tir_node_t *n = block->data[at];
  if (n->kind != TIR_MAP || n->reduce != TIR_REDUCE_NONE ||
      !is_exact_store(n)) {
    return;
  }
  producer_t *p = TD_NEW(&f->scratch, producer_t);
  p->node = n;
  p->at = at;
  p->block = block;
  p->size = tir_expr_size(&f->scratch, n->body);
  tir_walk(&f->scratch, n->body, note_cost, p);
  td_map_put_u64(&f->producers, key_of(n->outs[0]), p);
}

static void note_load(void *user, tir_expr_t *e) {
  fuse_t *f = user;
  if (e->op != TIR_X_LOAD) return;
  producer_t *p = producer_of(f, e->u.value);
  if (p == NULL) return;
  p->load_count++;
  p->reader = f->reader;
  p->is_read_elsewhere |= p->block != f->block;
}

static void note_other(fuse_t *f, const tir_value_t *v) {
  producer_t *p = producer_of(f, v);
  if (p != NULL) p->is_read_elsewhere = true;
}

static void scan(fuse_t *f, tir_block_t *block) {
  for (size_t i = 0; i < block->length; i++) {
    tir_node_t *n = block->data[i];
    f->block = block;
    f->reader = n;
    for (uint32_t k = 0; k < tir_node_expr_count(n); k++) {
      tir_walk(&f->scratch, *tir_node_expr(n, k), note_load, f);
    }
    for (uint32_t k = 0; k < n->operand_count; k++) {
      note_other(f, n->operands[k]);
    }
    if (n->kind == TIR_UPDATE) {
      td_map_put_u64(&f->unstable, key_of(n->operands[0]), f);
      td_map_put_u64(&f->unstable, key_of(n->outs[0]), f);
    }
    if (n->kind == TIR_LOOP) {
      for (uint32_t k = 0; k < n->operand_count; k++) {
        td_map_put_u64(&f->unstable, key_of(n->params[k]), f);
        td_map_put_u64(&f->unstable, key_of(n->operands[k]), f);
      }
      scan(f, &n->body_nodes);
      for (uint32_t k = 0; k < n->operand_count; k++) {
        note_other(f, n->yields[k]);
      }
    }
    add_producer(f, block, i);
  }
}

/* ---- equal indices ------------------------------------------------------ */

static tir_index_t *shared_index(fuse_t *f, uint32_t position,
                                 tir_index_t *index) {
  for (size_t i = 0; i < f->shared.length; i++) {
    if (f->positions.data[i] == position &&
        f->shared.data[i]->extent == index->extent) {
      return f->shared.data[i];
    }
  }
  td_vec_push(&f->scratch, &f->shared, index);
  td_vec_push(&f->scratch, &f->positions, position);
  return index;
}

/* The first name that an index of this place and extent had is kept. */
static void share_indices(fuse_t *f, tir_block_t *block) {
  td_arena_t *arena = f->module->arena;
  for (size_t i = 0; i < block->length; i++) {
    tir_node_t *n = block->data[i];
    if (n->kind == TIR_LOOP) share_indices(f, &n->body_nodes);
    if (producer_of(f, n->out_count > 0 ? n->outs[0] : NULL) == NULL) {
      continue;
    }
    tir_expr_t *to[IX_MAX_RANK];
    tir_index_t *from[IX_MAX_RANK];
    bool differs = false;
    for (uint32_t k = 0; k < n->index_count; k++) {
      from[k] = n->indices[k];
      n->indices[k] = shared_index(f, k, from[k]);
      to[k] = tir_index_ref(arena, n->indices[k]);
      differs |= n->indices[k] != from[k];
    }
    if (!differs) continue;
    n->body = tir_replace_indices(arena, n->body, n->index_count, from, to);
  }
}

/* ---- whether it moves into a reader ------------------------------------- */

typedef struct stability {
  const fuse_t *f;
  bool is_unstable;
} stability_t;

static void note_unstable(void *user, tir_expr_t *e) {
  stability_t *s = user;
  if (e->op == TIR_X_LOAD && e->u.value->rank > 0 &&
      td_map_get_u64(&s->f->unstable, key_of(e->u.value)) != NULL) {
    s->is_unstable = true;
  }
}

static bool crosses_update(const tir_block_t *block, size_t from, size_t to) {
  for (size_t i = from + 1; i < to; i++) {
    if (block->data[i]->kind == TIR_UPDATE ||
        block->data[i]->kind == TIR_LOOP) {
      return true;
    }
  }
  return false;
}

/* Every subscript is another plain index of the reader, which is a plain
 * map: one evaluation for each element read. */
static bool is_one_to_one(const tir_node_t *reader, const tir_expr_t *load) {
  if (reader->kind != TIR_MAP || reader->reduce != TIR_REDUCE_NONE) {
    return false;
  }
  if (load->arg_count != reader->index_count) return false;
  for (uint32_t i = 0; i < load->arg_count; i++) {
    if (load->args[i]->op != TIR_X_INDEX) return false;
    for (uint32_t j = 0; j < i; j++) {
      if (load->args[j]->u.index == load->args[i]->u.index) return false;
    }
  }
  return true;
}

typedef struct reading {
  fuse_t *f;
  tir_node_t *node;
  size_t at;
  size_t size;      /* of the reader so far */
  bool is_costly;   /* what has moved into it */
} reading_t;

static bool may_move(reading_t *r, const producer_t *p,
                     const tir_expr_t *load) {
  if (p->block != r->f->block || p->at >= r->at) return false;
  if (r->size + p->size > BODY_LIMIT) return false;
  bool is_cheap = !p->is_costly && p->size <= CHEAP_SIZE;
  bool is_only = p->load_count == 1 && !p->is_read_elsewhere &&
                 is_one_to_one(r->node, load);
  if (!is_cheap && !is_only) return false;
  if (crosses_update(p->block, p->at, r->at)) {
    stability_t s = {r->f, false};
    tir_walk(&r->f->scratch, p->node->body, note_unstable, &s);
    if (s.is_unstable) return false;
  }
  return true;
}

/* The load reads the element of the reader's own tuple, and both have the
 * same index objects. */
static bool is_same_tuple(const tir_node_t *reader, const tir_node_t *n,
                          const tir_expr_t *load) {
  if (reader->index_count != n->index_count) return false;
  for (uint32_t i = 0; i < n->index_count; i++) {
    if (reader->indices[i] != n->indices[i] ||
        load->args[i]->op != TIR_X_INDEX ||
        load->args[i]->u.index != n->indices[i]) {
      return false;
    }
  }
  return true;
}

/* A copy reads what its original read. */
static void note_copied_load(void *user, tir_expr_t *e) {
  const fuse_t *f = user;
  producer_t *p = e->op == TIR_X_LOAD ? producer_of(f, e->u.value) : NULL;
  if (p != NULL) p->load_count++;
}

/* The value itself is gone, or is read by others still. */
static void report(const reading_t *r, const producer_t *p) {
  const tir_value_t *v = p->node->outs[0];
  const char *reader =
      r->node->out_count > 0 ? r->node->outs[0]->name : "an assertion";
  remark_t *m = pass_remark(r->f->state, "fuse-elementwise",
                            p->has_moved ? REMARK_CODE_FUSE_DONE
                                         : REMARK_CODE_RECOMPUTE_DONE,
                            r->node->loc, "%s is computed where %s reads it",
                            v->name, reader);
  pass_remark_place(m, p->node->loc);
  pass_remark_number(m, "bytes_not_loaded",
                     tensor_bytes(r->f->module->pool, v));
}

static tir_expr_t *replace_load(void *user, tir_expr_t *e) {
  reading_t *r = user;
  if (e->op != TIR_X_LOAD) return e;
  producer_t *p = producer_of(r->f, e->u.value);
  if (p == NULL || !may_move(r, p, e)) return e;
  tir_node_t *n = p->node;
  td_arena_t *arena = r->f->module->arena;
  tir_expr_t *body = n->body;
  if (p->load_count == 1 && !p->is_read_elsewhere &&
      is_same_tuple(r->node, n, e)) {
    p->has_moved = true;
  } else {
    body = tir_replace_indices(arena, n->body, n->index_count, n->indices,
                               e->args);
    tir_walk(&r->f->scratch, body, note_copied_load, r->f);
  }
  if (n->outs[0]->dtype != body->type) {
    body = tir_cast(arena, n->outs[0]->dtype, body);
  }
  report(r, p);
  r->size += p->size;
  r->is_costly |= p->is_costly;
  r->f->has_changed = true;
  return body;
}

static void fuse_block(fuse_t *f, tir_block_t *block) {
  for (size_t i = 0; i < block->length; i++) {
    tir_node_t *n = block->data[i];
    if (n->kind == TIR_LOOP) {
      fuse_block(f, &n->body_nodes);
      continue; /* its bounds read few scalars */
    }
    f->block = block;
    /* a product that comes in by a load was rounded when it was stored */
    if (n->is_fma && n->body->op != TIR_X_MUL) n->is_fma = false;
    reading_t r = {f, n, i, 0, false};
    for (uint32_t k = 0; k < tir_node_expr_count(n); k++) {
      r.size += tir_expr_size(&f->scratch, *tir_node_expr(n, k));
    }
    tir_rewriter_t rewriter;
    tir_rewriter_init(&rewriter, f->module->arena, replace_load, &r);
    bool before = f->has_changed;
    f->has_changed = false;
    for (uint32_t k = 0; k < tir_node_expr_count(n); k++) {
      tir_expr_t **slot = tir_node_expr(n, k);
      tir_expr_t *fresh = tir_rewrite_into(&rewriter, *slot);
      if (f->has_changed) *slot = fresh;
    }
    /* a producer that took others in is larger now */
    producer_t *self =
        n->out_count == 1 ? producer_of(f, n->outs[0]) : NULL;
    if (self != NULL && f->has_changed) {
      self->size = r.size;
      self->is_costly |= r.is_costly;
    }
    f->has_changed |= before;
  }
}

/* Producers whose body stands in their reader now. */
static void drop_moved(const fuse_t *f, tir_block_t *block) {
  size_t kept = 0;
  for (size_t i = 0; i < block->length; i++) {
    tir_node_t *n = block->data[i];
    if (n->kind == TIR_LOOP) drop_moved(f, &n->body_nodes);
    const producer_t *p =
        n->out_count == 1 ? producer_of(f, n->outs[0]) : NULL;
    if (p == NULL || !p->has_moved) block->data[kept++] = n;
  }
  block->length = kept;
}

bool pass_fuse_elementwise(pass_state_t *state, tir_module_t *module) {
  bool changed = false;
  for (uint32_t i = 0; i < module->func_count; i++) {
    fuse_t f = {.state = state, .module = module, .func = module->funcs[i]};
    td_arena_init(&f.scratch, state->task);
    td_map_init(&f.producers, &f.scratch);
    td_map_init(&f.unstable, &f.scratch);
    scan(&f, &f.func->nodes);
    for (uint32_t s = 0; s < f.func->slot_count; s++) {
      if (f.func->slots[s].result != NULL) {
        note_other(&f, f.func->slots[s].result);
      }
      if (f.func->slots[s].kind == TIR_INOUT) {
        td_map_put_u64(&f.unstable, key_of(f.func->slots[s].value), &f);
      }
    }
    share_indices(&f, &f.func->nodes);
    fuse_block(&f, &f.func->nodes);
    drop_moved(&f, &f.func->nodes);
    if (f.has_changed) tir_renumber(f.func);
    changed |= f.has_changed;
    td_arena_free_all(&f.scratch);
  }
  return changed;
}
