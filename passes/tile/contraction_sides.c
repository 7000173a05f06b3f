/* contraction_sides.c: products of one kernel that share their rows.
 *
 *   q[m, i] = sum over k of a(m, k) * wq(k, i)
 *   v[m, j] = sum over k of a(m, k) * wv(k, j)
 *
 * A block iteration makes the same rows of all sides: a is brought once, the
 * columns of each side are packed and multiplied one side after the other.
 * Sides with equal columns (a gate and what it gates) have one *lead*, the
 * first of them, and are finished together, so that what follows may read
 * both. Sides with other columns are cut into equally many pieces, in
 * proportion: no block has more to do than another. */
#include "passes/tile/contraction.h"

#include "ir/expr.h"
#include "passes/tensor/group_kernels.h"

/* Replaces the indices of a side: rows, batch and depth are those of the
 * first, columns those of its lead. */
static tir_expr_t *adopt(const product_t *p, uint32_t side, tir_expr_t *e) {
  const product_form_t *f = &p->sides[side].form;
  const product_form_t *to[2] = {&p->sides[0].form,
                                 &p->sides[p->sides[side].lead].form};
  const product_list_t *pairs[4][2] = {{&f->batch, &to[0]->batch},
                                       {&f->m, &to[0]->m},
                                       {&f->k, &to[0]->k},
                                       {&f->n, &to[1]->n}};
  tir_index_t *from[2 * IX_MAX_RANK];
  tir_expr_t *refs[2 * IX_MAX_RANK];
  uint32_t count = 0;
  for (int l = 0; l < 4; l++) {
    for (uint32_t i = 0; i < pairs[l][0]->count; i++) {
      from[count] = pairs[l][0]->indices[i];
      refs[count++] = tir_index_ref(p->t->arena, pairs[l][1]->indices[i]);
    }
  }
  return tir_replace_indices(p->t->arena, e, count, from, refs);
}

tir_expr_t *contraction_adopt(product_t *p, uint32_t node, tir_expr_t *e) {
  tile_t *t = p->t;
  const tir_node_t *n = t->nodes[node];
  uint32_t side = p->leads[node];
  const product_form_t *f = &p->sides[side].form;
  tir_expr_t *to[IX_MAX_RANK];
  for (uint32_t i = 0; i < f->par; i++) {
    to[i] = tir_index_ref(t->arena, f->node->indices[i]);
  }
  if (n != f->node) {
    e = tir_replace_indices(t->arena, e, f->par, n->indices, to);
  }
  return adopt(p, side, e);
}

static void add_side(product_t *p, uint32_t node) {
  tile_t *t = p->t;
  uint32_t s = p->side_count++;
  product_side_t *side = &p->sides[s];
  TD_CHECK(t->task, s < CONTRACTION_SIDES, "%u products in a kernel", s + 1);
  TD_CHECK(t->task,
           group_product_find_form(t->arena, t->nodes[node], &side->form),
           "%s is no side of a product", t->nodes[node]->outs[0]->name);
  side->lead = s;
  for (uint32_t i = 0; i < s && side->lead == s; i++) {
    if (group_product_is_parallel(p->sides[i].form.node, side->form.node)) {
      side->lead = p->sides[i].lead;
    }
  }
  contraction_fill_group(&side->n, &side->form.n);
  p->side_of[node] = (int32_t)s;
}

/* ---- leads on a GPU ------------------------------------------------------ */

typedef struct reading {
  product_t *p;
  uint32_t node;
} reading_t;

static void join_leads(product_t *p, uint32_t a, uint32_t b) {
  uint32_t from = a > b ? a : b, to = a > b ? b : a;
  for (uint32_t s = 0; s < p->side_count; s++) {
    if (p->sides[s].lead == from) p->sides[s].lead = to;
  }
  for (uint32_t k = 0; k < p->t->node_count; k++) {
    if (p->leads[k] == from) p->leads[k] = to;
  }
}

static void note_read(void *user, tir_expr_t *e) {
  reading_t *r = user;
  product_t *p = r->p;
  if (e->op != TIR_X_LOAD) return;
  for (uint32_t k = 0; k < r->node; k++) {
    if (p->t->nodes[k]->outs[0] != e->u.value) continue;
    if (p->leads[r->node] == CONTRACTION_SIDES) {
      p->leads[r->node] = p->leads[k];
    } else {
      join_leads(p, p->leads[k], p->leads[r->node]);
    }
  }
}

/* Blocks of warps make the sides apart that no end reads together. */
static void split_leads(product_t *p) {
  tile_t *t = p->t;
  for (uint32_t k = 0; k < t->node_count; k++) {
    p->leads[k] = CONTRACTION_SIDES;
    if (p->side_of[k] >= 0) {
      p->leads[k] = (uint32_t)p->side_of[k];
      p->sides[p->leads[k]].lead = p->leads[k];
    }
  }
  for (uint32_t k = 0; k < t->node_count; k++) {
    reading_t r = {p, k};
    if (p->side_of[k] >= 0) continue;
    for (uint32_t i = 0; i < tir_node_expr_count(t->nodes[k]); i++) {
      tir_walk(t->arena, *tir_node_expr(t->nodes[k], i), note_read, &r);
    }
    TD_CHECK(t->task, p->leads[k] < CONTRACTION_SIDES,
             "%s is the end of no product", t->nodes[k]->outs[0]->name);
  }
}

void contraction_find_sides(product_t *p) {
  tile_t *t = p->t;
  TD_CHECK(t->task, t->node_count <= CONTRACTION_NODES, "%u nodes",
           t->node_count);
  for (uint32_t k = 0; k < t->node_count; k++) {
    p->side_of[k] = -1;
    if (group_is_contraction(t->nodes[k])) add_side(p, k);
    uint32_t s = 0;
    if (p->is_rows && p->side_of[k] < 0) continue;
    while (!group_product_is_parallel(p->sides[s].form.node, t->nodes[k])) s++;
    p->leads[k] = p->sides[s].lead;
  }
  if (t->target->warp > 0) split_leads(p);
  contraction_find_group(p);
  flat_finish(t, &p->m, "m");
  flat_finish(t, &p->k, "k");
  for (uint32_t s = 0; s < p->side_count; s++) {
    product_side_t *side = &p->sides[s];
    if (side->lead == s) flat_finish(t, &side->n, "n");
    else side->n = p->sides[side->lead].n;
    flat_group_t *groups[3] = {&p->m, &side->n, &p->k};
    tir_expr_t *b =
        contraction_group_columns(p, adopt(p, s, side->form.b));
    side->b = flat_rewrite(t, groups, 3, b);
  }
  flat_group_t *groups[3] = {&p->m, &p->sides[0].n, &p->k};
  if (p->key != NULL) {
    p->flat_key = flat_rewrite(t, groups, 3, (tir_expr_t *)(uintptr_t)p->key);
  }
  p->a = flat_rewrite(t, groups, 3, p->a);
  contraction_select(p, 0);
}

void contraction_select(product_t *p, uint32_t side) {
  const product_side_t *s = &p->sides[side], *lead = &p->sides[s->lead];
  p->side = side;
  p->lead = s->lead;
  p->b = s->b;
  p->packed = s->packed;
  p->is_made = s->is_made;
  p->is_along = s->is_along;
  p->n = s->n;
  p->nc = lead->nc;
  p->nb = lead->nb;
  p->nh = lead->nh;
  p->panels = s->panels;
  p->tile = s->tile;
}

int64_t contraction_columns(const product_t *p) {
  int64_t all = 0;
  for (uint32_t s = 0; s < p->side_count; s++) {
    int64_t n = contraction_upper(p->sides[s].n.extent);
    if (__builtin_add_overflow(all, n, &all)) return INT64_MAX;
  }
  return all;
}

/* ---- pieces of columns --------------------------------------------------- */

static bool has_one_lead(const product_t *p) {
  for (uint32_t s = 0; s < p->side_count; s++) {
    if (p->sides[s].lead != 0) return false;
  }
  return true;
}

static int64_t round_up(int64_t v, int64_t to) {
  return (v + to - 1) / to * to;
}

/* nc columns of all sides together, shared out in multiples of `unit`. */
void contraction_share_columns(product_t *p, int64_t unit) {
  int64_t all = contraction_columns(p), count = p->side_count;
  int64_t pieces = (all - 1) / p->nc + 1;
  for (uint32_t s = 0; s < p->side_count; s++) {
    product_side_t *side = &p->sides[s];
    int64_t n = contraction_upper(side->n.extent);
    side->nc = count == 1 ? p->nc
               : has_one_lead(p)
                   ? round_up((p->nc + count - 1) / count, unit)
                   : round_up((n - 1) / pieces + 1, unit);
  }
  contraction_select(p, 0);
}

kir_block_t *contraction_side_grid(product_t *p, kir_block_t *block) {
  tile_t *t = p->t;
  kir_expr_t *piece;
  if (has_one_lead(p)) {
    product_side_t *first = &p->sides[0];
    block = tile_loop(t, block, KIR_LOOP_BLOCK, "nb", tile_int(t, 0),
                      tile_dim(t, p->n.extent), first->nc, &first->nb);
    contraction_select(p, 0);
    return block;
  }
  int64_t pieces = 1;
  for (uint32_t s = 0; s < p->side_count; s++) {
    int64_t n = contraction_upper(p->sides[s].n.extent);
    int64_t of_side = (n - 1) / p->sides[s].nc + 1;
    if (of_side > pieces) pieces = of_side;
  }
  block = tile_loop(t, block, KIR_LOOP_BLOCK, "piece", tile_int(t, 0),
                    tile_int(t, pieces), 1, &piece);
  for (uint32_t s = 0; s < p->side_count; s++) {
    product_side_t *side = &p->sides[s];
    if (side->lead != s) continue;
    side->nb = contraction_name(
        p, block, "nb",
        kir_mul(t->arena, piece, tile_int(t, side->nc)));
    int64_t n = contraction_upper(side->n.extent);
    if (n == pieces * side->nc) {
      side->nh = tile_int(t, side->nc);
      continue;
    }
    /* the last pieces of a side may have nothing to do */
    kir_expr_t *left = tile_op2(t, KIR_X_SUB, TDSL_DTYPE_I64,
                                tile_int(t, n), side->nb);
    kir_expr_t *some = tile_min(t, left, tile_int(t, side->nc));
    side->nh = contraction_name(p, block, "nh",
                                tile_op2(t, KIR_X_MAX, TDSL_DTYPE_I64, some,
                                         tile_int(t, 0)));
  }
  contraction_select(p, 0);
  return block;
}
