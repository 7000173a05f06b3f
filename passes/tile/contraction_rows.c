/* contraction_rows.c: what follows a matrix product row by row.
 *
 *   y[m, n] = x[m, n] + sum over k of a(m, k) * b(k, n)
 *   r[m]    = sum over n of y[m, n]^2
 *   z[m, n] = y[m, n] * g(r[m])
 *
 * A block makes all columns of its rows. When their sums are complete, each
 * row of the tile is finished by the loops that a group of rows has
 * (lower_nest.c), with the tile in place of memory: the same statements in
 * the same order, so that no bit tells which it was.  On a GPU each warp of the
 * block does so with rows of its own (contraction_simt_tail.c). */
#include "passes/tile/contraction.h"

#include "ir/expr.h"
#include "passes/tensor/tensor.h"
#include "passes/tile/stage_rows.h"

bool contraction_has_rows(product_t *p) {
  const tile_t *t = p->t;
  for (uint32_t k = 0; k < t->node_count; k++) {
    tir_node_t *n = t->nodes[k];
    product_form_t form;
    uint32_t prefix = p->prefix;
    if (n->kind != TIR_MAP && n->kind != TIR_UPDATE) return false;
    if (group_product_find_form(t->arena, n, &form) &&
        !group_product_row_prefix(&form, &prefix)) {
      return false;
    }
    if (k == 0) p->prefix = prefix;
    if (prefix != p->prefix || tensor_parallel(n) < prefix) return false;
    for (uint32_t i = 0; i < prefix; i++) {
      if (n->indices[i]->extent != t->nodes[0]->indices[i]->extent) {
        return false;
      }
    }
  }
  return true;
}

static bool is_read(const product_t *p, const tir_value_t *v) {
  const tile_t *t = p->t;
  for (uint32_t k = 0; k < t->node_count; k++) {
    for (uint32_t i = 0; i < tir_node_expr_count(t->nodes[k]); i++) {
      if (tir_mentions_value(t->arena, *tir_node_expr(t->nodes[k], i), v)) {
        return true;
      }
    }
  }
  return false;
}

/* Its sums are read where they are: they are what the value is. */
static bool is_in_tile(const product_t *p, uint32_t k) {
  const tir_value_t *v = p->t->nodes[k]->outs[0];
  const product_side_t *side = &p->sides[p->side_of[k]];
  return v->dtype == p->type && side->form.n.count == 1 &&
         !tile_escapes(p->t, v);
}

void contraction_alloc_rows(product_t *p, kir_block_t *block) {
  tile_t *t = p->t;
  for (uint32_t k = 0; k < t->node_count; k++) {
    const tir_value_t *v = t->nodes[k]->outs[0];
    const ix_poly_t *dims[IX_MAX_RANK + 1];
    if (t->nodes[k]->kind == TIR_UPDATE || !is_read(p, v)) continue;
    if (p->side_of[k] >= 0 && is_in_tile(p, k)) {
      tile_set_home(t, v, p->sides[p->side_of[k]].tile, p->prefix);
      tile_set_lead(t, v, &p->row, NULL);
      continue;
    }
    if (v->rank == p->prefix) continue; /* a register of each row */
    uint32_t of_warp = p->abreast_rows > 0;
    dims[0] = ix_const(t->module->pool, p->abreast_rows);
    tile_stage_dims(t, v, p->prefix, dims + of_warp);
    tile_set_home(t, v,
                  tile_alloc(t, block, v->name, v->dtype,
                             of_warp ? KIR_SHARED : KIR_LOCAL,
                             v->rank - p->prefix + of_warp, dims),
                  p->prefix);
    if (of_warp) tile_set_lead(t, v, &p->row_warp, NULL);
  }
}

/* A row of sums from the tile to where the value is. */
static void put_row(product_t *p, uint32_t k, kir_block_t *block) {
  tile_t *t = p->t;
  const tir_node_t *n = t->nodes[k];
  const product_side_t *side = &p->sides[p->side_of[k]];
  kir_expr_t *subs[IX_MAX_RANK], *column = tile_int(t, 0), *j;
  uint32_t par = side->form.par;
  for (uint32_t i = 0; i < p->prefix; i++) subs[i] = p->row_subs[i];
  for (uint32_t i = p->prefix; i + 1 < par; i++) {
    kir_expr_t *extent = tile_dim(t, n->indices[i]->extent);
    block = tile_loop(t, block, KIR_LOOP_SERIAL, n->indices[i]->name,
                      tile_int(t, 0), extent, 1, &subs[i]);
    column = kir_add(t->arena, kir_mul(t->arena, column, extent), subs[i]);
  }
  kir_expr_t *extent = tile_dim(t, n->indices[par - 1]->extent);
  block = contraction_lane_steps(t, block, "j", extent, &j);
  subs[par - 1] = j;
  column = kir_add(t->arena, kir_mul(t->arena, column, extent), j);
  kir_expr_t *sum =
      kir_load(t->arena, side->tile, 2, (kir_expr_t *[]){p->row, column});
  sum->is_safe = true; /* scratch is as wide as the lanes */
  tile_store_value(t, block, n->outs[0], par, subs, sum);
}

static void set_row(product_t *p, kir_block_t *block, kir_expr_t *i) {
  tile_t *t = p->t;
  flat_group_t *groups[1] = {&p->m};
  p->row = p->is_shallow ? i : kir_add(t->arena, p->ib, i);
  tile_set_index(t, p->m.flat,
                 kir_add(t->arena, p->mb, kir_add(t->arena, p->ib, i)));
  for (uint32_t d = 0; d < p->prefix; d++) {
    tir_index_t *index = p->node->indices[d];
    tir_expr_t *at =
        flat_rewrite(t, groups, 1, tir_index_ref(t->arena, index));
    p->row_subs[d] =
        contraction_name(p, block, index->name, tile_expr(t, at));
  }
}

void contraction_finish_rows(product_t *p, kir_block_t *block) {
  tile_t *t = p->t;
  kir_expr_t *i;
  bool of_warp = p->abreast_rows > 0;
  block = tile_loop(t, block, KIR_LOOP_SERIAL, "i",
                    of_warp ? p->row_warp : tile_int(t, 0), p->mh,
                    of_warp ? p->abreast_rows : 1, &i);
  set_row(p, block, i);
  for (uint32_t k = 0; k < t->node_count; k++) {
    const tir_value_t *v = t->nodes[k]->outs[0];
    if (t->nodes[k]->kind == TIR_UPDATE || v->rank != p->prefix ||
        !is_read(p, v)) {
      continue;
    }
    tile_set_home(t, v,
                  tile_alloc(t, block, v->name, v->dtype, KIR_REGISTER, 0,
                             NULL),
                  p->prefix);
  }
  for (uint32_t k = 0; k < t->node_count; k++) {
    if (p->side_of[k] < 0) {
      tile_lower_one(t, t->nodes[k], p->prefix, p->row_subs, NULL, NULL,
                     block);
    } else if (!is_in_tile(p, k)) {
      put_row(p, k, block);
    }
  }
}
