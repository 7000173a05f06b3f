/* nest.h: a loop nest of lower_nest.c, between the files that build it. */
#ifndef TDSL_PASSES_TILE_NEST_H
#define TDSL_PASSES_TILE_NEST_H

#include "passes/tile/tile.h"

/* One node of the group. */
typedef struct nest {
  tir_node_t *node;
  uint32_t prefix, par;
  const uint32_t *places; /* dim of the output by index; NULL: in order */
  kir_expr_t *subs[IX_MAX_RANK]; /* output subscripts so far */
  kir_buffer_t *acc, *total;          /* total: of splits before, or NULL */
  kir_buffer_t *odd;                  /* of a choice: 1, or a NaN it met */
  int64_t lanes;                      /* of acc */
  tile_range_t last;                  /* of the last parallel index */
  /* nodes from this one on that go over a row together: 1, or 0 for one that
   * an earlier node counts */
  uint32_t joined;
  bool is_let; /* joined, and nobody else reads it: it has no place */
  tile_home_t *home;      /* of the output, as this row has it; NULL: none */
  struct nest *next_row;  /* the same node for the next row; NULL: last */
  struct nest *ahead;     /* what goes beside this pass (nest_carry.c) */
  /* of the next row, what passes ask for: all of it, those before this one,
   * and this one */
  int64_t all_work, work_before, work;
  int64_t lead; /* elements that these are further ahead */
} nest_t;

/* ---- lower_nest.c ---- */
void tile_nest_set(tile_t *t, nest_t *s, uint32_t i, kir_expr_t *v);
/* acc[at] = acc[at] OP body, where the guard holds. */
void tile_nest_add(tile_t *t, nest_t *s, kir_block_t *block,
                   kir_expr_t *const *at, uint32_t at_count);
/* An accumulator of s->lanes lanes with its identity in it. */
void tile_nest_begin(tile_t *t, nest_t *s, kir_block_t *block);
/* Its lanes folded into the node's output. */
void tile_nest_fold(tile_t *t, nest_t *s, kir_block_t *block);
/* Lanes run over the last index of its reduction. */
bool tile_nest_is_by_row(tile_t *t, const nest_t *s);
/* A sum whose lanes run over the only index behind the prefix. */
bool tile_nest_is_row_sum(tile_t *t, const nest_t *s);

/* The indices of the prefix and the homes of all nodes are those of the row
 * that s, of node k of the group, belongs to. */
void tile_nest_use_row(tile_t *t, nest_t *s, uint32_t k);

/* Serial loops over indices from .. to - 1; the block inside. */
kir_block_t *tile_nest_loops(tile_t *t, nest_t *s, kir_block_t *block,
                             uint32_t from, uint32_t to);

/* ---- nest_choice.c ---- */
/* The largest or smallest of floats, without a guard. */
bool tile_nest_is_choice(const nest_t *s);
/* Registers of `lanes` lanes as at the beginning of a row; what elements
 * base .. base + lanes - 1 add; the result. */
void tile_nest_choice_open(tile_t *t, nest_t *s, kir_block_t *block,
                           int64_t lanes);
void tile_nest_choice_step(tile_t *t, nest_t *s, kir_block_t *block,
                           kir_expr_t *base);
void tile_nest_choice_close(tile_t *t, nest_t *s, kir_block_t *block);

/* ---- nest_splits.c ---- */
/* Loops over what a sum adds, which restart its accumulator as its plan says;
 * then the accumulator is made all there is. */
kir_block_t *tile_nest_terms(tile_t *t, nest_t *s, kir_block_t *block);
void tile_nest_total(tile_t *t, nest_t *s, kir_block_t *block);

/* ---- nest_ahead.c ---- */
/* Where nothing depends on the number of lanes, several registers at a time
 * hide what one has to wait for; 0: the range is not known to be whole groups
 * of so many, or there is no CPU. */
int64_t tile_nest_wide(const tile_t *t, tile_range_t r);
/* What an element along the row costs, in additions. */
int64_t tile_nest_work(tile_t *t, const nest_t *s);
/* How much of the next row each pass over this one asks for.  With `carries`
 * the first pass goes over the next row itself, and what is asked for is
 * further ahead. */
void tile_nest_share_work(tile_t *t, nest_t *states, uint32_t count,
                          bool carries);
/* Behind the statement for elements base .. base + lanes - 1; of `rows` that
 * go together. */
void tile_nest_ahead(tile_t *t, const nest_t *s, kir_block_t *block,
                     kir_expr_t *base, int64_t lanes, int64_t rows);

/* ---- nest_place.c ---- */
/* An argmax or argmin by row. */
void tile_nest_place(tile_t *t, nest_t *s, kir_block_t *block);
/* Lanes of one over outputs base .. base + 15; user: the nest. */
void tile_nest_place_columns(tile_t *t, kir_block_t *block, kir_expr_t *base,
                             kir_expr_t *limit, void *user);

/* ---- nest_block.c ---- */
/* A group on a GPU whose rows are long, each by a block of warps; false, and
 * nothing made: it is another group. */
bool tile_lower_long_rows(tile_t *t, nest_t *states, uint32_t prefix);

/* ---- nest_join.c ---- */
void tile_nest_find_joined(tile_t *t, nest_t *states, uint32_t count);
/* Node k of the group and those joined to it. */
void tile_nest_joined(tile_t *t, nest_t *first, uint32_t k,
                      kir_block_t *block);
/* Sums of it as at the beginning of rows; elements base .. base + lanes - 1
 * of one row; what sums came to. */
void tile_nest_joined_open(tile_t *t, nest_t *first, kir_block_t *block);
void tile_nest_joined_step(tile_t *t, nest_t *row, uint32_t k,
                           kir_block_t *block, kir_expr_t *base,
                           int64_t lanes);
void tile_nest_joined_close(tile_t *t, nest_t *first, uint32_t k,
                            kir_block_t *block);
/* Elements of a row, each by itself. */
bool tile_nest_is_map(const nest_t *s);
/* How many rows go together. */
int64_t tile_nest_rows(tile_t *t, const nest_t *states, uint32_t count);

/* ---- nest_carry.c ---- */
/* The first pass over a row may go beside the last one over the row before:
 * the node that begins the last one, else 0. */
uint32_t tile_nest_find_carry(tile_t *t, const nest_t *states, uint32_t count,
                              int64_t rows);
/* In front the first pass over the first row of the block, then a serial
 * loop over its rows, whose body is returned.  The states are of the row of
 * that loop from here on, and node `last` knows what goes beside it. */
kir_block_t *tile_nest_carry_open(tile_t *t, nest_t *states, uint32_t last,
                                  int64_t rows, kir_block_t *block);
/* What goes beside a pass over row s, for elements from base on. */
void tile_nest_carry_step(tile_t *t, const nest_t *s, kir_block_t *block,
                          kir_expr_t *base);
/* At the end of the body: what the first pass over the next row came to. */
void tile_nest_carry_close(tile_t *t, nest_t *states, uint32_t last,
                           kir_block_t *block);
enum { TILE_CARRY_ROWS = 16 }; /* rows of a block */

#endif
