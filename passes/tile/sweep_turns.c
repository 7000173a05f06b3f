/* sweep_turns.c: keys of the next tile beside values of this one, on a CPU.
 *
 * A sweep of few rows is as fast as memory.  A whole tile of keys and then one
 * of values is two streams, neither of which lasts: each time the hardware
 * has to find out anew that there is one, and memory waits.  So a tile is cut
 * into parts of a square's side, and the two streams go in turns of one part:
 *
 *   scores of the first tile
 *   for each tile:
 *     maxima, weights and states of the tile
 *     for each part of it:
 *       its terms of the sums, by whole rows of values
 *       scores of the same part of the next tile
 *
 * Both ask for memory two turns ahead, and again one turn ahead, since it
 * forgets what it is asked for while it has no place (sweep_ahead.c).  Narrow
 * numbers, which are widened, stay with tiles: there are as many of them to
 * multiply and fewer bytes to wait for, and turns store sums more often.
 *
 * Sums have the same terms in the same order as tile by tile.  Which tile's
 * scores are there is a number that each tile looks at, since masks leave
 * tiles out and a tile that is not complete goes row by row. */
#include "passes/tile/sweep.h"

#include "runtime/base/num.h"

enum { NEVER = -1 };

/* The product of tiles, if there is one and it is made of squares whose memory
 * is known ahead; NULL: no. */
static packed_t *product_of(const sweep_t *s) {
  packed_t *found = NULL;
  for (uint32_t k = 0; k < s->t->node_count; k++) {
    packed_t *pk = &s->packed[k];
    if (pk->node == NULL) continue;
    if (found != NULL || !pk->in_groups) return NULL;
    found = pk;
  }
  if (found == NULL || tile_sweep_is_widened(found->p.b) ||
      tile_sweep_has_table(s, found->p.b)) {
    return NULL;
  }
  int64_t n = tile_sweep_square(s, found);
  return n > 0 && tile_sweep_lines(s, found, n) > 0 ? found : NULL;
}

int64_t tile_sweep_turn_rows(const sweep_t *s, const tir_node_t *n) {
  const ir_target_t *target = s->t->target;
  int64_t width = 0, lanes = (int64_t)target->lanes;
  if (n->body->type == TDSL_DTYPE_F64) lanes /= 2;
  if (!ix_is_const(n->indices[s->rows]->extent, &width) || width <= 0 ||
      width % lanes != 0) {
    return 0;
  }
  /* the other half is factors, and what the machine puts aside */
  int64_t rows = (int64_t)target->registers / 2 / (width / lanes);
  if (rows > s->group) rows = s->group;
  while (rows > 0 && s->group % rows != 0) rows--;
  return rows;
}

void tile_sweep_choose_turns(sweep_t *s, kir_block_t *block,
                             kir_expr_t *limit) {
  tile_t *t = s->t;
  bool any = false;
  if (!s->is_few || !s->in_groups || s->block_rows != s->group ||
      product_of(s) == NULL) {
    return;
  }
  for (uint32_t k = 0; k < t->node_count; k++) {
    if (!tile_sweep_is_whole_sum(s, k)) continue;
    if (!s->in_place[k] || tile_sweep_turn_rows(s, t->nodes[k]) == 0 ||
        tile_sweep_is_widened(t->nodes[k]->body->args[1]) ||
        tile_sweep_has_table(s, t->nodes[k]->body->args[1])) {
      return;
    }
    any = true;
  }
  if (!any) return;
  s->ready = tile_alloc(t, block, "ready", TDSL_DTYPE_I64, KIR_REGISTER, 0,
                        NULL);
  tile_store(t, block, s->ready, 0, NULL, tile_int(t, NEVER));
  s->turn = tile_sweep_square(s, product_of(s));
  s->limit = limit;
  tile_note(t, "keys of the next tile and values of this one in turns");
}

void tile_sweep_first_scores(sweep_t *s, kir_block_t *block) {
  tile_t *t = s->t;
  packed_t *pk = product_of(s);
  int64_t n = tile_sweep_square(s, pk);
  kir_expr_t *c, *ready = kir_load(t->arena, s->ready, 0, NULL);
  block = &tile_push(t, block,
                     tile_if(t, tile_op2(t, KIR_X_NE, TDSL_DTYPE_BOOL, ready,
                                         s->begin)))
               ->body;
  block = tile_loop(t, block, KIR_LOOP_SERIAL, "c", tile_int(t, 0),
                    tile_int(t, SWEEP_TILE), n, &c);
  tile_sweep_group_square(s, pk, block, n, c);
}

void tile_sweep_take_turns(sweep_t *s, kir_block_t *block) {
  tile_t *t = s->t;
  packed_t *pk = product_of(s);
  int64_t n = tile_sweep_square(s, pk), width = 0;
  kir_expr_t *begin = s->begin, *c;
  kir_expr_t *next = tile_let(t, block, "next",
                              kir_add(t->arena, begin,
                                      tile_int(t, SWEEP_TILE)));
  kir_expr_t *end = kir_add(t->arena, next, tile_int(t, SWEEP_TILE));
  kir_expr_t *is_whole = tile_let(
      t, block, "goes_on",
      tile_op2(t, KIR_X_LE, TDSL_DTYPE_BOOL, end, s->limit));
  kir_block_t *turn = tile_loop(t, block, KIR_LOOP_SERIAL, "c",
                                tile_int(t, 0), tile_int(t, SWEEP_TILE), n,
                                &c);
  kir_expr_t *from = kir_add(t->arena, begin, c);
  kir_expr_t *to = tile_min(t, kir_add(t->arena, from, tile_int(t, n)),
                            s->group_end);
  for (uint32_t k = 0; k < t->node_count; k++) {
    const tir_node_t *node = t->nodes[k];
    if (!tile_sweep_is_whole_sum(s, k)) continue;
    (void)ix_is_const(node->indices[s->rows]->extent, &width);
    tile_sweep_whole_sum(s, k, turn, from, to, tile_sweep_turn_rows(s, node),
                         width);
  }
  s->begin = next;
  tile_sweep_group_square(s, pk,
                          &tile_push(t, turn, tile_if(t, is_whole))->body, n,
                          c);
  s->begin = begin;
  block = &tile_push(t, block, tile_if(t, is_whole))->body;
  tile_store(t, block, s->ready, 0, NULL, next);
}
