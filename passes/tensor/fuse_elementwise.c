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
 *   - it is read at one place of one reader that has one tuple for each of
 *     its elements (then nothing is computed twice), or it is cheap and all
 *     readers together cost less with it than with its value in memory;
 *   - what it reads keeps its value up to the reader: no update of a tensor
 *     that it loads lies between, and no loop begins or ends;
 *   - it is not the end of a matrix product, unless it is gone then: the
 *     product's kernel stores what is finished, and not the bare sum, which
 *     every reader would have to finish for itself.
 *
 * Maps over equal extents are first given the same index objects.  A body
 * then moves into its only reader as it is, without a copy, so that a chain
 * of any length is fused in linear time; the producer is dropped at once. */
#include "passes/remark.h"
#include "passes/tensor/group_kernels.h"
#include "passes/tensor/price.h"
#include "runtime/base/num.h"

enum {
  CHEAP_SIZE = 10,   /* operations that cost less than a load from memory */
  BODY_LIMIT = 300,  /* operations of a fused body */
};

/* The value of a matrix product, before anything is done with it. */
typedef struct bare_sum {
  const tir_node_t *node;
  size_t at;                /* position in its block */
  const tir_node_t *reader; /* the only one; NULL: not met yet */
  bool is_shared;           /* several, or what is no node of the block */
} bare_sum_t;

typedef struct producer {
  tir_node_t *node;
  size_t at;            /* position in its block */
  tir_block_t *block;
  uint32_t load_count;  /* places that read it, in all nodes */
  tir_node_t *reader;   /* the last one seen */
  bool is_read_elsewhere; /* operand, yield, result, or another block */
  bool is_costly, has_moved;
  size_t size;
  double reader_count;  /* nodes */
  double visits;        /* evaluations of all readers, in elements of it */
  bare_sum_t *ends;     /* the product whose kernel can finish it, or NULL */
  bool is_priced;
  int64_t moved_ns, stored_ns; /* all readers together */
} producer_t;

typedef struct fuse {
  pass_state_t *state;
  tir_module_t *module;
  tir_func_t *func;
  remark_names_t names; /* before anything moved */
  td_arena_t scratch;
  td_map_t producers; /* tir_value_t* -> producer_t* */
  td_map_t sums;      /* tir_value_t* -> bare_sum_t* */
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

static bare_sum_t *sum_of(const fuse_t *f, const tir_value_t *v) {
  return td_map_get_u64(&f->sums, key_of(v));
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
  bare_sum_t *s = sum_of(f, e->u.value);
  if (s != NULL) {
    s->is_shared |= s->reader != NULL && s->reader != f->reader;
    s->reader = f->reader;
  }
  producer_t *p = producer_of(f, e->u.value);
  if (p == NULL) return;
  p->load_count++;
  if (p->reader != f->reader) {
    p->reader_count += 1;
    p->visits +=
        tensor_visits(&f->scratch, tensor_target(f->state), f->reader,
                      e->u.value);
  }
  p->reader = f->reader;
  p->is_read_elsewhere |= p->block != f->block;
}

static void note_other(fuse_t *f, const tir_value_t *v) {
  producer_t *p = producer_of(f, v);
  bare_sum_t *s = sum_of(f, v);
  if (p != NULL) p->is_read_elsewhere = true;
  if (s != NULL) s->is_shared = true;
}

static void add_sum(fuse_t *f, const tir_node_t *n, size_t at) {
  if (!group_is_contraction(n)) return;
  bare_sum_t *s = TD_NEW(&f->scratch, bare_sum_t);
  s->node = n;
  s->at = at;
  td_map_put_u64(&f->sums, key_of(n->outs[0]), s);
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
    add_sum(f, n, i);
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

/* ---- the ends of products ------------------------------------------------ */

typedef struct ending {
  fuse_t *f;
  const tir_node_t *node;
  bare_sum_t *sum;  /* the last that the node reads at its own tuple */
  bool is_other;    /* reads one in another way */
} ending_t;

static void note_ending(void *user, tir_expr_t *e) {
  ending_t *d = user;
  bare_sum_t *s = e->op == TIR_X_LOAD ? sum_of(d->f, e->u.value) : NULL;
  if (s == NULL) return;
  const tir_node_t *n = d->node;
  bool is_own = e->arg_count == n->index_count && !s->is_shared &&
                s->reader == n;
  for (uint32_t i = 0; i < n->index_count && is_own; i++) {
    is_own = e->args[i]->op == TIR_X_INDEX &&
             e->args[i]->u.index == n->indices[i] &&
             s->node->indices[i]->extent == n->indices[i]->extent;
  }
  if (!is_own) d->is_other = true;
  else if (d->sum == NULL || s->at > d->sum->at) d->sum = s;
}

/* The product that a map finishes: only the map reads its sums, each at the
 * map's own tuple. */
static bare_sum_t *ended_sum(fuse_t *f, tir_node_t *n) {
  ending_t d = {.f = f, .node = n};
  if (n->reduce != TIR_REDUCE_NONE) return NULL;
  tir_walk(&f->scratch, n->body, note_ending, &d);
  return d.sum;
}

typedef struct reading {
  fuse_t *f;
  tir_node_t *node;
  size_t at;
  size_t size;      /* of the reader so far */
  bool is_costly;   /* what has moved into it */
  TD_VEC(producer_t *) moved; /* without repeats */
} reading_t;

/* Whether a cheap producer costs less with its value in memory: every reader
 * then loads one value, and else all that the producer reads. The answer is
 * one for all readers, or both would be paid. */
static bool is_dear(fuse_t *f, producer_t *p) {
  if (p->is_priced) return p->moved_ns > p->stored_ns;
  const tir_value_t *v = p->node->outs[0];
  const ir_target_t *target = tensor_target(f->state);
  double elements = tensor_elements(v);
  double bytes = elements * (double)td_dtype_bytes(v->dtype);
  tensor_price_t once = {0}, moved = {0}, stored = {0};
  tensor_price_loads(&f->scratch, p->node->body, elements, &once);
  tensor_price_add(&moved, &once, p->reader_count);
  tensor_price_body(&f->scratch, p->node->body, elements * p->visits, &moved);
  tensor_price_add(&stored, &once, 1);
  tensor_price_body(&f->scratch, p->node->body, elements, &stored);
  stored.bytes += bytes * (1 + p->reader_count);
  stored.launches += 1;
  if (p->is_read_elsewhere) { /* stored in both cases */
    tensor_price_add(&moved, &once, 1);
    moved.bytes += bytes;
    moved.launches += 1;
  }
  p->moved_ns = tensor_price_ns(target, &moved);
  p->stored_ns = tensor_price_ns(target, &stored);
  p->is_priced = true;
  return p->moved_ns > p->stored_ns;
}

/* The end of a product goes on only into what ends the same product, and
 * leaves nothing behind. */
static bool may_end_later(reading_t *r, const producer_t *p,
                          const tir_expr_t *load) {
  bare_sum_t *later = ended_sum(r->f, r->node);
  return is_same_tuple(r->node, p->node, load) &&
         (later == NULL || later->at <= p->ends->at);
}

static bool may_move(reading_t *r, producer_t *p, const tir_expr_t *load) {
  if (p->block != r->f->block || p->at >= r->at) return false;
  if (r->size + p->size > BODY_LIMIT) return false;
  bool is_cheap = !p->is_costly && p->size <= CHEAP_SIZE;
  bool is_only = p->load_count == 1 && !p->is_read_elsewhere &&
                 is_one_to_one(r->node, load);
  if (p->ends != NULL && !(is_only && may_end_later(r, p, load))) {
    return false;
  }
  if (!is_only && (!is_cheap || is_dear(r->f, p))) return false;
  if (crosses_update(p->block, p->at, r->at)) {
    stability_t s = {r->f, false};
    tir_walk(&r->f->scratch, p->node->body, note_unstable, &s);
    if (s.is_unstable) return false;
  }
  return true;
}

/* A copy reads what its original read. */
static void note_copied_load(void *user, tir_expr_t *e) {
  const fuse_t *f = user;
  producer_t *p = e->op == TIR_X_LOAD ? producer_of(f, e->u.value) : NULL;
  if (p != NULL) p->load_count++;
}

static void note_moved(reading_t *r, producer_t *p) {
  if (r->f->state->remarks == NULL) return;
  for (size_t i = 0; i < r->moved.length; i++) {
    if (r->moved.data[i] == p) return;
  }
  is_dear(r->f, p); /* what it is priced at, whether that mattered or not */
  td_vec_push(&r->f->scratch, &r->moved, p);
}

/* The value itself is gone, or is read by others still. */
static void report(const reading_t *r, const producer_t *p) {
  const tir_value_t *v = p->node->outs[0];
  const char *reader = pass_remark_reader(r->node);
  remark_t *m = pass_remark(r->f->state, "fuse-elementwise",
                            p->has_moved ? REMARK_CODE_FUSE_DONE
                                         : REMARK_CODE_RECOMPUTE_DONE,
                            r->node->loc, "%s is computed where %s reads it",
                            v->name, reader);
  pass_remark_place(m, p->node->loc);
  pass_remark_edge(m, &r->f->names, v, r->node);
  ix_pool_t *pool = r->f->module->pool;
  pass_remark_number(m, "bytes_not_loaded", tensor_bytes(pool, v));
  pass_remark_number(m, "price_ns", ix_const(pool, p->moved_ns));
  pass_remark_number(m, "price_ns_if_apart", ix_const(pool, p->stored_ns));
}

/* A reader that loads a value at one place still is reported for that. */
static void report_moved(const reading_t *r) {
  for (size_t i = 0; i < r->moved.length; i++) {
    const producer_t *p = r->moved.data[i];
    bool is_read = false;
    for (uint32_t k = 0; k < tir_node_expr_count(r->node); k++) {
      is_read |= tir_mentions_value(&r->f->scratch, *tir_node_expr(r->node, k),
                                    p->node->outs[0]);
    }
    if (!is_read) report(r, p);
  }
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
    if (p->ends != NULL) p->ends->reader = r->node;
  } else {
    body = tir_replace_indices(arena, n->body, n->index_count, n->indices,
                               e->args);
    tir_walk(&r->f->scratch, body, note_copied_load, r->f);
  }
  if (n->outs[0]->dtype != body->type) {
    body = tir_cast(arena, n->outs[0]->dtype, body);
  }
  note_moved(r, p);
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
    reading_t r = {.f = f, .node = n, .at = i};
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
    report_moved(&r);
    /* a producer that took others in is larger now */
    producer_t *self =
        n->out_count == 1 ? producer_of(f, n->outs[0]) : NULL;
    if (self != NULL && f->has_changed) {
      self->size = r.size;
      self->is_costly |= r.is_costly;
    }
    if (self != NULL) self->ends = ended_sum(f, n);
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
    pass_remark_names(state, module, f.func, &f.names);
    td_map_init(&f.producers, &f.scratch);
    td_map_init(&f.sums, &f.scratch);
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
