/* nest_carry.c: the first pass over the next row beside the last one over
 * this row, on a CPU.
 *
 * A pass by itself waits for what it is made of: one that only reads waits
 * for memory, the one that stores for the stores, and each for its own first
 * and last results.  A block has several rows here.  Sums and maxima of the
 * first pass are in registers while the pass goes on beside the last one, and
 * become numbers when that has ended.  Behind the last row of a block the
 * next one's pass is for nothing; behind all rows it is the last row's again.
 * Every sum has the order that it had.  Class: bitwise. */
#include "passes/tile/nest.h"

#include "ir/expr.h"

enum {
  LEAST_BLOCKS = 8,
  LEAST_WORK = 8, /* of an element, that hides a chain of additions */
  LEAST_REGISTERS = 32, /* hold what two passes have under way */
};

static bool is_number(const nest_t *s) {
  return s->node->reduce == TIR_REDUCE_NONE &&
         s->node->index_count == s->prefix;
}

static bool is_row_choice(tile_t *t, const nest_t *s) {
  return tile_nest_is_choice(s) && s->node->index_count == s->prefix + 1 &&
         s->par == s->prefix && tile_nest_is_by_row(t, s);
}

/* Lanes of a pass, 0: it has no whole ones. */
static int64_t lanes_of(tile_t *t, const nest_t *s) {
  tile_range_t r = {tile_int(t, 0),
                    tile_dim(t, s->node->indices[s->prefix]->extent)};
  return tile_nest_wide(t, r);
}

/* What it makes are numbers in registers that nobody else wants. */
static bool may_begin(tile_t *t, const nest_t *states) {
  const nest_t *s = states;
  if (is_number(s) || lanes_of(t, s) == 0) return false;
  for (; s < states + states->joined; s++) {
    const tir_value_t *out = s->node->outs[0];
    const tile_home_t *home =
        td_map_get_u64(&t->homes, (uint64_t)(uintptr_t)out);
    if (s->is_let) continue;
    if (tile_nest_is_map(s) || tile_escapes(t, out) || home == NULL ||
        home->buffer != NULL) {
      return false;
    }
  }
  return true;
}

uint32_t tile_nest_find_carry(tile_t *t, const nest_t *states, uint32_t count,
                              int64_t rows) {
  uint32_t prefix = states[0].prefix, last = 0;
  int64_t extent;
  if (t->target->warp != 0 || t->target->registers < LEAST_REGISTERS ||
      count < 2 || prefix == 0 ||
      !ix_is_const(states[0].node->indices[prefix - 1]->extent, &extent) ||
      extent < LEAST_BLOCKS * TILE_CARRY_ROWS || extent % rows != 0) {
    return 0;
  }
  for (uint32_t k = 0; k < count; k++) {
    const nest_t *s = &states[k];
    if (s->node->kind != TIR_MAP || s->node->out_count != 1 ||
        !(is_number(s) || tile_nest_is_map(s) || is_row_choice(t, s) ||
          tile_nest_is_row_sum(t, s))) {
      return 0;
    }
    if (s->joined > 0 && !is_number(s)) last = k;
  }
  bool is_same = last > 0 && !is_number(&states[0]) &&
                 states[last].node->indices[prefix]->extent ==
                     states[0].node->indices[prefix]->extent;
  if (!is_same || !may_begin(t, states) || is_row_choice(t, &states[last])) {
    return 0;
  }
  int64_t work = 0;
  for (uint32_t k = last; k < last + states[last].joined; k++) {
    work += tile_nest_work(t, &states[k]);
  }
  return tile_nest_is_choice(states) || work >= LEAST_WORK ? last : 0;
}

/* ---- the first pass ------------------------------------------------------ */

static void open(tile_t *t, nest_t *first, kir_block_t *block) {
  if (tile_nest_is_choice(first)) {
    tile_nest_choice_open(t, first, block, lanes_of(t, first));
  } else {
    tile_nest_joined_open(t, first, block);
  }
}

static void close(tile_t *t, nest_t *first, kir_block_t *block) {
  tile_nest_use_row(t, first, 0);
  if (tile_nest_is_choice(first)) tile_nest_choice_close(t, first, block);
  else tile_nest_joined_close(t, first, 0, block);
}

void tile_nest_carry_step(tile_t *t, const nest_t *s, kir_block_t *block,
                          kir_expr_t *base) {
  nest_t *row = s->ahead;
  tile_nest_use_row(t, row, 0);
  if (tile_nest_is_choice(row)) {
    tile_nest_choice_step(t, row, block, base);
  } else {
    tile_nest_joined_step(t, row, 0, block, base, lanes_of(t, row));
  }
}

/* The states of all rows, of rows that begin with `first`. */
static nest_t *copy_rows(tile_t *t, const nest_t *states, kir_expr_t *first) {
  nest_t *copies = NULL, **link = &copies;
  int64_t r = 0;
  for (const nest_t *row = states; row != NULL; row = row->next_row, r++) {
    nest_t *more = TD_NEW_ARRAY(t->arena, nest_t, t->node_count);
    for (uint32_t k = 0; k < t->node_count; k++) {
      more[k] = row[k];
      more[k].next_row = NULL;
      more[k].subs[row[k].prefix - 1] =
          kir_add(t->arena, first, tile_int(t, r));
    }
    *link = more;
    link = &more->next_row;
  }
  /* nodes behind the first one have their own links */
  for (nest_t *row = copies; row != NULL; row = row->next_row) {
    for (uint32_t k = 1; k < t->node_count && row->next_row != NULL; k++) {
      row[k].next_row = &row->next_row[k];
    }
  }
  return copies;
}

kir_block_t *tile_nest_carry_open(tile_t *t, nest_t *states, uint32_t last,
                                  int64_t rows, kir_block_t *block) {
  const tir_index_t *index = states->node->indices[states->prefix - 1];
  const tir_index_t *along = states->node->indices[states->prefix];
  kir_expr_t *begin = states->subs[states->prefix - 1], *base, *r;
  kir_expr_t *all = tile_dim(t, index->extent);
  nest_t *first = copy_rows(t, states, begin);
  open(t, first, block);
  kir_block_t *body = tile_loop(t, block, KIR_LOOP_SERIAL, along->name,
                                tile_int(t, 0), tile_dim(t, along->extent),
                                lanes_of(t, states), &base);
  for (nest_t *row = first; row != NULL; row = row->next_row) {
    nest_t by = {.ahead = row};
    tile_nest_carry_step(t, &by, body, base);
  }
  close(t, first, block);
  kir_expr_t *end =
      tile_min(t, kir_add(t->arena, begin, tile_int(t, TILE_CARRY_ROWS)), all);
  block = tile_loop(t, block, KIR_LOOP_SERIAL, index->name, begin, end, rows,
                    &r);
  kir_expr_t *next =
      tile_min(t, kir_add(t->arena, r, tile_int(t, rows)),
               tile_int(t, all->u.i64 - rows));
  nest_t *ahead = copy_rows(t, states, tile_let(t, block, "next", next));
  nest_t *made = first, *of = ahead;
  int64_t i = 0;
  for (nest_t *row = states; row != NULL; row = row->next_row, i++) {
    for (uint32_t k = 0; k < t->node_count; k++) {
      row[k].subs[states->prefix - 1] =
          kir_add(t->arena, r, tile_int(t, i));
    }
    for (uint32_t k = 0; k < states->joined; k++) {
      of[k].acc = made[k].acc;
      of[k].odd = made[k].odd;
    }
    row[last].ahead = of;
    made = made->next_row;
    of = of->next_row;
  }
  open(t, ahead, block);
  tile_nest_use_row(t, states, 0);
  return block;
}

void tile_nest_carry_close(tile_t *t, nest_t *states, uint32_t last,
                           kir_block_t *block) {
  close(t, states[last].ahead, block);
}
