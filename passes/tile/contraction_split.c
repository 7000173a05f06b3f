/* contraction_split.c: the depth of a product shared out to blocks of warps.
 *
 * On targets with warps the plan of a sum of products has splits of
 * GROUP_DEPTH tuples: each is a chain that starts from zero, and splits are
 * added left to right.  Two realisations have these bits:
 *   - a block goes through the whole depth, and its accumulators begin anew
 *     with each split (contraction_simt.c);
 *   - each split of a tile is a block of its own, which leaves its sums in a
 *     workspace; a second kernel adds them in order and does what follows the
 *     product (here).
 * The second is for few tiles of a long depth, as in decoding: there would be
 * fewer blocks than half of the multiprocessors.  Where the number of tiles
 * depends on dims both are made, and the dims of a call say which has a grid:
 * the other has none, and neither has its workspace bytes.
 * Class: bitwise (given the plan). */
#include "passes/tile/contraction_simt.h"

#include "ir/expr.h"
#include "passes/tensor/group_kernels.h"
#include "runtime/base/num.h"

enum {
  LEAST_SPLITS = 2, /* whole ones; a shorter depth is not worth a launch */
  MERGED = SIMT_WARP, /* columns of a warp that merges */
};
/* Of a workspace, by what is known of dims: no more than a GPU may have. */
static const int64_t MOST_BYTES = (int64_t)1 << 38;

/* ---- whether ------------------------------------------------------------- */

static const ix_poly_t *product_of(ix_pool_t *pool, const ix_poly_t *a,
                                   const ix_poly_t *b) {
  return a == NULL || b == NULL ? NULL : ix_mul(pool, a, b);
}

/* 1 or 0 for every call; const where it is one for all calls. NULL: it has no
 * such form. */
static const ix_poly_t *when_of(const simt_t *s, const ix_poly_t *tiles) {
  ix_pool_t *pool = s->t->module->pool;
  int64_t most = ((int64_t)s->t->target->sms - 1) / 2, lo, hi;
  const ix_poly_t *few = ix_const(pool, 1), *is_long = few;
  if (!ix_interval(tiles, &lo, &hi) || hi > most) {
    few = ix_interval(tiles, &lo, &hi) && lo > most
              ? ix_const(pool, 0)
              : group_at_most(pool, tiles, most);
  }
  int64_t least = LEAST_SPLITS * GROUP_DEPTH;
  if (!ix_interval(s->p->k.extent, &lo, &hi) || lo < least) {
    const ix_poly_t *shorter = group_at_most(pool, s->p->k.extent, least - 1);
    is_long = shorter == NULL ? NULL
                              : ix_sub(pool, ix_const(pool, 1), shorter);
    if (contraction_upper(s->p->k.extent) < least) is_long = ix_const(pool, 0);
  }
  return product_of(pool, few, is_long);
}

/* What a split leaves of one product. */
static tir_value_t *part_of(const tile_t *t, tir_node_t *n,
                            const ix_poly_t *count) {
  const ix_poly_t *dims[IX_MAX_RANK];
  uint32_t rank = 0;
  dims[rank++] = count;
  while (rank <= n->index_count && !n->indices[rank - 1]->is_reduction) {
    dims[rank] = n->indices[rank - 1]->extent;
    rank++;
  }
  tir_value_t *v = tir_value_create(
      t->arena, td_arena_printf(t->arena, "%s.parts", n->outs[0]->name),
      n->body->type, rank, dims);
  v->loc = n->loc;
  return v;
}

/* The products alone, each with a part in place of its output. */
static tile_split_t *make_split(const simt_t *s, const ix_poly_t *when) {
  tile_t *t = s->t;
  const product_t *p = s->p;
  ix_pool_t *pool = t->module->pool;
  int64_t is_fixed, lo, hi;
  tile_split_t *of = TD_NEW(t->arena, tile_split_t);
  /* of no depth there is one split, with nothing in it */
  const ix_poly_t *depth = p->k.extent;
  if (!ix_interval(depth, &lo, &hi) || lo < 1) {
    depth = ix_max(pool, depth, ix_const(pool, 1));
  }
  of->count = depth == NULL
                  ? NULL
                  : ix_div(pool, ix_add(pool, depth,
                                        ix_const(pool, GROUP_DEPTH - 1)),
                           ix_const(pool, GROUP_DEPTH), NULL);
  of->when = ix_is_const(when, &is_fixed) ? NULL : when;
  const ix_poly_t *count =
      of->when == NULL ? of->count : product_of(pool, of->count, of->when);
  if (of->count == NULL || count == NULL) return NULL;
  of->index = tir_index_create((tir_module_t *)(uintptr_t)t->module, "split",
                               of->count, false);
  of->nodes = TD_NEW_ARRAY(t->arena, tir_node_t *, p->side_count);
  of->values = TD_NEW_ARRAY(t->arena, tir_value_t *, p->side_count);
  for (uint32_t k = 0; k < t->node_count; k++) {
    if (p->side_of[k] < 0) continue;
    if (t->nodes[k]->outs[0]->rank + 1 >= IX_MAX_RANK) return NULL;
    tir_node_t *n = TD_NEW(t->arena, tir_node_t);
    *n = *t->nodes[k];
    n->out_count = 1;
    n->outs = TD_NEW_ARRAY(t->arena, tir_value_t *, 1);
    n->outs[0] = part_of(t, t->nodes[k], count);
    of->values[of->part_count] = n->outs[0];
    of->nodes[of->part_count++] = n;
  }
  of->value_count = of->part_count;
  of->bytes = tile_split_bytes(pool, of);
  bool has_room = of->bytes != NULL && ix_interval(of->bytes, &lo, &hi) &&
                  hi <= MOST_BYTES;
  return has_room ? of : NULL;
}

bool contraction_split_is_here(const simt_t *s) {
  return s->t->split == NULL &&
         contraction_upper(s->p->k.extent) > GROUP_DEPTH;
}

void contraction_split_judge(simt_t *s) {
  tile_t *t = s->t;
  const product_t *p = s->p;
  ix_pool_t *pool = t->module->pool;
  int64_t chosen;
  t->wants = NULL;
  if (!s->has_splits || p->key != NULL || p->is_rows ||
      t->splits == PASS_SPLITS_OFF) {
    return;
  }
  t->tiles = contraction_simt_tiles(s);
  const ix_poly_t *when = t->splits == PASS_SPLITS_ALL ? ix_const(pool, 1)
                          : t->tiles == NULL           ? NULL
                                             : when_of(s, t->tiles);
  if (when == NULL || (ix_is_const(when, &chosen) && chosen == 0)) return;
  t->wants = make_split(s, when);
}

/* ---- halves of any kind -------------------------------------------------- */

const ix_poly_t *tile_split_bytes(ix_pool_t *pool, const tile_split_t *of) {
  const ix_poly_t *sum = ix_const(pool, 0);
  for (uint32_t k = 0; k < of->value_count && sum != NULL; k++) {
    const tir_value_t *v = of->values[k];
    const ix_poly_t *all =
        ix_const(pool, (int64_t)td_dtype_bytes(v->dtype));
    for (uint32_t d = 0; d < v->rank; d++) {
      all = product_of(pool, all, v->dims[d]);
    }
    sum = all == NULL ? NULL : ix_add(pool, sum, all);
  }
  return sum;
}

kir_block_t *tile_chosen(tile_t *t, kir_block_t *block) {
  const ix_poly_t *when = NULL;
  kir_expr_t *v;
  if (t->split != NULL) {
    when = t->split->when;
  } else if (t->wants != NULL && t->wants->when != NULL) {
    ix_pool_t *pool = t->module->pool;
    when = ix_sub(pool, ix_const(pool, 1), t->wants->when);
  }
  if (when == NULL) return block;
  return tile_loop(t, block, KIR_LOOP_BLOCK, "chosen", tile_int(t, 0),
                   tile_dim(t, when), 1, &v);
}

/* ---- each split by a block of its own ------------------------------------ */

kir_block_t *contraction_split_grid(simt_t *s, kir_block_t *block) {
  tile_t *t = s->t;
  const tile_split_t *of = t->split;
  kir_expr_t *v;
  block = tile_chosen(t, block);
  if (of == NULL || of->is_merge) return block;
  block = tile_loop(t, block, KIR_LOOP_BLOCK, "split", tile_int(t, 0),
                    tile_dim(t, of->count), 1, &v);
  tile_set_index(t, of->index, v);
  s->origin = times(s, v, GROUP_DEPTH);
  return block;
}

void contraction_split_depth(simt_t *s, kir_block_t *block) {
  tile_t *t = s->t;
  s->length = tile_dim(t, s->p->k.extent);
  if (s->origin == NULL) return;
  s->origin = contraction_name(s->p, block, "origin", s->origin);
  if (tile_is_multiple(s->p->k.extent, GROUP_DEPTH)) {
    s->length = tile_int(t, GROUP_DEPTH);
    int64_t depth;
    if (ix_is_const(s->p->k.extent, &depth) && depth > 0) return;
  }
  kir_expr_t *left = tile_op2(t, KIR_X_SUB, TDSL_DTYPE_I64,
                              tile_dim(t, s->p->k.extent), s->origin);
  s->length = contraction_name(s->p, block, "depth",
                               tile_min(t, left, tile_int(t, GROUP_DEPTH)));
}

void contraction_split_describe(simt_t *s) {
  tile_t *t = s->t;
  if (t->split != NULL) {
    tile_note(t, "a block has %d of the depth, one split: sums go to a "
                 "workspace, which the next kernel adds up",
              GROUP_DEPTH);
  } else if (s->has_splits) {
    tile_note(t, "sums begin anew with each %d of the depth, and what they "
                 "gave is added left to right",
              GROUP_DEPTH);
  }
  if (t->split == NULL && t->wants != NULL && t->wants->when != NULL) {
    tile_note(t, "this kernel if there are many tiles or the depth is short, "
                 "else the next two: by dims, at launch");
  }
  tile_note(t, "each sum adds its products left to right, with one rounding");
}

/* The element of a part at the product's indices, over flat ones. */
static tir_expr_t *part_load(product_t *p, uint32_t node,
                             const tir_value_t *part) {
  tile_t *t = p->t;
  flat_group_t *groups[3] = {&p->m, &p->sides[p->leads[node]].n, &p->k};
  tir_expr_t *subs[IX_MAX_RANK];
  subs[0] = tir_index_ref(t->arena, t->split->index);
  for (uint32_t i = 1; i < part->rank; i++) {
    tir_index_t *index = t->nodes[node]->indices[i - 1];
    subs[i] = contraction_adopt(p, node, tir_index_ref(t->arena, index));
  }
  return flat_rewrite(t, groups, 3, tir_load(t->arena, part, part->rank, subs));
}

void contraction_split_prepare(product_t *p) {
  for (uint32_t k = 0; k < p->t->node_count; k++) {
    p->places[k] = part_load(p, k, p->t->nodes[k]->outs[0]);
  }
}

/* ---- the merge ----------------------------------------------------------- */

/* Of each side, over flat indices. */
typedef struct merge {
  tir_expr_t *parts[CONTRACTION_SIDES];
} merge_t;

static kir_block_t *columns(simt_t *s, kir_block_t *block, kir_expr_t **l) {
  product_t *p = s->p;
  kir_stmt_t *loop;
  kir_block_t *body = lanes(s, block, l, &loop);
  kir_expr_t *column = add(s, p->nb, *l);
  loop->mask = is_below(s, column, p->n.extent, MERGED);
  if (p->m.count > 0) tile_set_index(s->t, p->m.flat, p->mb);
  tile_set_index(s->t, p->n.flat, column);
  return body;
}

static void merge_unit(simt_t *s, kir_block_t *block, const unit_t *unit,
                       void *user) {
  const merge_t *m = user;
  tile_t *t = s->t;
  product_t *p = s->p;
  const ix_poly_t *dims[1] = {ix_const(t->module->pool, MERGED)};
  kir_buffer_t *sum[CONTRACTION_SIDES];
  kir_expr_t *l, *split;
  for (uint32_t c = 0; c < unit->count; c++) {
    sum[c] = tile_alloc(t, block, "sum", p->type, KIR_REGISTER, 1, dims);
  }
  kir_block_t *body = lanes(s, block, &l, NULL);
  for (uint32_t c = 0; c < unit->count; c++) {
    tile_store(t, body, sum[c], 1, &l,
               kir_const_f(t->arena, p->type, -0.0));
  }
  kir_block_t *each =
      tile_loop(t, block, KIR_LOOP_SERIAL, "split", tile_int(t, 0),
                tile_dim(t, t->split->count), 1, &split);
  body = columns(s, each, &l);
  tile_set_index(t, t->split->index, split);
  for (uint32_t c = 0; c < unit->count; c++) {
    tile_store(t, body, sum[c], 1, &l,
               tile_op2(t, KIR_X_ADD, p->type,
                        kir_load(t->arena, sum[c], 1, &l),
                        tile_expr(t, m->parts[unit->sides[c]])));
  }
  body = columns(s, block, &l);
  for (uint32_t c = 0; c < unit->count; c++) {
    p->sums[unit->sides[c]] = kir_load(t->arena, sum[c], 1, &l);
  }
  contraction_put(p, body, NULL);
}

void contraction_build_merge(product_t *p) {
  tile_t *t = p->t;
  simt_t s = {.p = p, .t = t, .warps = 1};
  merge_t m = {{NULL}};
  for (uint32_t k = 0; k < t->node_count; k++) {
    if (p->side_of[k] < 0) continue;
    uint32_t side = (uint32_t)p->side_of[k];
    TD_CHECK(t->task, side < t->split->part_count, "side %u has no part",
             side);
    m.parts[side] = part_load(p, k, t->split->nodes[side]->outs[0]);
  }
  contraction_simt_find_units(&s);
  p->mc = 1;
  p->nc = MERGED;
  for (uint32_t k = 0; k < p->side_count; k++) p->sides[k].nc = MERGED;
  tile_note(t, "merge of splits of the depth, and what follows: %s",
            tile_describe(t));
  tile_note(t, "rows %s, columns %s, %s splits of %d, added left to right",
            ix_text(t->arena, p->m.extent), contraction_columns_text(p),
            ix_text(t->arena, t->split->count), GROUP_DEPTH);
  kir_block_t *block = contraction_simt_grid(&s, &t->kernel->body);
  for (uint32_t k = 0; k < p->side_count; k++) p->sides[k].nb = p->nb;
  contraction_simt_each_unit(&s, block, 0, merge_unit, &m);
}
