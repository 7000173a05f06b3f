/* sweep.h: a cascade in one kernel, between the files that build it. */
#ifndef TDSL_PASSES_TILE_SWEEP_H
#define TDSL_PASSES_TILE_SWEEP_H

#include "ir/expr.h"
#include "passes/tensor/group_kernels.h"
#include "passes/tile/contraction.h"

enum {
  SWEEP_TILE = 64,    /* elements of the axis: the chunk of the plan */
  SWEEP_LANES = 64,   /* of an accumulator in registers, at most */
  SWEEP_FACTOR = 256, /* widest row of a factor that is packed */
  SWEEP_ROWS = 64,    /* rows that share what was packed, on a GPU */
  SWEEP_GROUP = 6,    /* rows whose accumulators fit the registers of a CPU */
  SWEEP_SPREAD = 16384, /* elements of a block of maps behind a merge */
  SWEEP_SCANS = 8,    /* tensors of integers in masks that are remembered */
};

/* A product of a tile whose second factor is packed for all rows. */
typedef struct packed {
  tir_node_t *node;      /* NULL: not packed */
  product_t p;
  kir_buffer_t *columns; /* [depth][SWEEP_TILE] */
  bool is_along_depth;   /* columns are brought with lanes along the depth */
  bool is_bare;          /* of full tiles only: others have a condition */
  bool in_groups;        /* rows of a group are multiplied together */
  kir_buffer_t *rows;    /* [block_rows][depth]; NULL: read where it is */
} packed_t;

/* The values that an integer has over a tile or over a block's rows. */
typedef struct sweep_span {
  kir_expr_t *lo, *hi; /* both inclusive */
  kir_expr_t *count;   /* of them; of a tile or of rows */
} sweep_span_t;

/* `axis OP limit`; limit NULL: the condition has no such form. */
typedef struct sweep_bound {
  tir_x_t op;
  tir_expr_t *limit;
} sweep_bound_t;

/* What a tensor of integers holds over a span, once looked through. */
typedef struct sweep_scan {
  const tir_expr_t *load;
  const sweep_span_t *span;
  sweep_span_t values;
} sweep_scan_t;

/* Conditions that leave every state as it is where they fail. */
typedef struct sweep_masks {
  uint32_t count;
  tir_expr_t **conds; /* interned, in `rows` and `axis` */
  sweep_bound_t *bounds;
  bool is_bound; /* any */
  tir_expr_t *inside; /* those that no row changes; NULL: none */
  /* by node: as it is where all conditions hold, and where some may fail */
  tir_node_t **full, **partial;
  const tir_index_t *axis;
  tir_index_t *const *rows;
  tir_interner_t interner;
  uint32_t scan_count;
  sweep_scan_t scans[SWEEP_SCANS];
} sweep_masks_t;

/* Values and places of a row's k largest, [block_rows][k]. */
typedef struct sweep_pairs {
  kir_buffer_t *values, *places;
} sweep_pairs_t;

typedef struct sweep_top {
  tir_index_t *indices[IX_MAX_RANK]; /* the rows, and the axis */
  tir_expr_t *load;                  /* an element, at them */
  tdsl_dtype_t type;
  sweep_pairs_t state, total;        /* total: of a long axis */
} sweep_top_t;

typedef struct sweep {
  tile_t *t;
  uint32_t rows;          /* shared parallel indices */
  uint32_t blocked;       /* of these, the one a block has several of */
  int64_t block_rows;     /* 1: none */
  int64_t alike;          /* of these, neighbours that share what is packed */
  kir_expr_t *values[IX_MAX_RANK]; /* of the rows */
  kir_expr_t *from, *count; /* first row of the block, how many there are */
  const sweep_span_t *block; /* these rows; NULL: one */
  kir_expr_t *r;          /* row within the block */
  bool in_groups;         /* rows of a tile go `group` at a time */
  int64_t group;          /* SWEEP_GROUP at most */
  /* all rows that there are, so that what they share is used once, as fast as
   * memory brings it */
  bool is_few;
  kir_expr_t *group_begin, *group_count; /* first of them in the block; rows */
  kir_expr_t *group_end;  /* behind it no row of the group has an element */
  kir_expr_t *gr;         /* row within the group */
  /* of a sweep by turns (sweep_turns.c): begin of the tile whose scores are
   * there, and where the last tile ends; NULL: it is none */
  kir_buffer_t *ready;
  int64_t turn; /* elements of one */
  kir_expr_t *limit;
  bool is_full;           /* the tile has SWEEP_TILE elements, here */
  kir_expr_t *origin;     /* where the axis or its split begins */
  kir_expr_t *split_end;
  kir_expr_t *begin, *end; /* of the tile */
  kir_buffer_t **states;  /* by node; NULL: a tile or a finishing map */
  packed_t *packed;       /* by node */
  /* by node: the second factor of a sum over extras, [SWEEP_TILE][extra],
   * the same for all rows of the block; NULL: read where it is */
  kir_buffer_t **factors;
  bool *in_place;         /* by node: such a factor, but read where it is */
  /* of a long axis, by node: states of all splits so far, and of one with its
   * lanes folded; nodes whose sums have no lanes */
  kir_buffer_t **totals, **folded;
  tir_node_t **plain;
  /* of a merge: its maps over so many elements go over several blocks, each
   * of which merges for itself; NULL: there is one block */
  const ix_poly_t *spread;
  kir_expr_t *chunk;      /* where the block begins */
  uint32_t **places;      /* by node: where the rows are among its indices */
  bool *is_count; /* by node: the number of elements, which is no state */
  uint32_t *partners;     /* by node, of a place: its maximum */
  sweep_top_t **tops;     /* by node; NULL: it is no topk */
  sweep_masks_t masks;
} sweep_t;

static inline bool sweep_is_state(const tir_node_t *n) {
  return n->kind == TIR_MAP && n->cascade != 0 && !n->is_tile && !n->is_first;
}

static inline bool sweep_is_position(const tir_node_t *n) {
  return sweep_is_state(n) && (n->reduce == TIR_REDUCE_ARGMAX ||
                               n->reduce == TIR_REDUCE_ARGMIN);
}

static inline bool sweep_is_top(const tir_node_t *n) {
  return n->kind == TIR_TOPK && n->cascade != 0;
}

static inline tdsl_dtype_t sweep_type(const tir_node_t *n) {
  return sweep_is_position(n) ? TDSL_DTYPE_I64 : n->body->type;
}

static inline bool sweep_is_laned(const tir_node_t *n) {
  return n->reduce == TIR_REDUCE_SUM && n->plan == TIR_PLAN_LANES;
}

/* A maximum, a minimum, or a sum that others are relative to: has no
 * transport, and is wanted before any other state. */
static inline bool sweep_is_gauge(const tir_node_t *n) {
  if (!sweep_is_state(n) || sweep_is_position(n)) return false;
  return n->reduce != TIR_REDUCE_SUM ||
         (n->was != NULL && n->transport == NULL);
}

static inline bool sweep_is_sum(const tir_node_t *n) {
  return sweep_is_state(n) && n->reduce == TIR_REDUCE_SUM &&
         !sweep_is_gauge(n);
}


/* ---- lower_cascade.c ---- */

uint32_t tile_sweep_parallel(const tir_node_t *n);
/* The tables of a sweep, and where its rows are. */
void tile_sweep_open(sweep_t *s);
void tile_sweep_alloc(sweep_t *s, kir_block_t *block);
/* States to results, of the row that is set. */
void tile_sweep_finish_all(sweep_t *s, kir_block_t *block);
/* The rows' indices of all nodes are s->values from here on. */
void tile_sweep_set_rows(sweep_t *s);
/* One row of a tile: node k, which is a tile or a maximum; states as they
 * are seen from maxima that moved; all of it. */
void tile_sweep_before(sweep_t *s, uint32_t k, kir_block_t *block);
void tile_sweep_moves(sweep_t *s, kir_block_t *block);
void tile_sweep_one_row(sweep_t *s, kir_block_t *block);
/* Nodes without the conditions of the masks, or with them as a partial tile
 * needs them, until the second puts the first ones back. */
typedef struct sweep_nodes {
  tir_node_t **nodes;
  packed_t *packed;
} sweep_nodes_t;
sweep_nodes_t tile_sweep_take_nodes(sweep_t *s, bool is_full);
void tile_sweep_put_nodes(sweep_t *s, sweep_nodes_t was);

/* ---- sweep_state.c: one row's states ---- */

/* Where a statement about a state is built: fn is called for lanes over the
 * last extra index, in serial loops over the others; for a state of one
 * number, once; of a laned sum, for each element. */
typedef struct sweep_place {
  sweep_t *s;
  uint32_t k; /* number of the node */
  kir_expr_t *extras[IX_MAX_RANK];
  uint32_t extra_count;
  void (*fn)(struct sweep_place *, kir_block_t *block, kir_expr_t *base,
             kir_expr_t *limit, int64_t lanes);
  tir_expr_t **hoisted; /* of a transport, and their values */
  kir_expr_t **hoisted_values;
  uint32_t hoisted_count;
} sweep_place_t;

void tile_sweep_places(sweep_place_t *p, kir_block_t *block);
/* A lane loop over elements of the last extra (or over the lanes of a laned
 * sum); *subs is the element of the state there. */
kir_block_t *tile_sweep_lanes(sweep_place_t *p, kir_block_t *block,
                              kir_expr_t *base, kir_expr_t *limit,
                              int64_t lanes, kir_expr_t **lane,
                              kir_expr_t **subs, uint32_t *count);
/* Subscripts of a state's element: the row, the extras, and the lane of a
 * laned sum. */
uint32_t tile_sweep_subs(const sweep_t *s, kir_expr_t *const *extras,
                         uint32_t extra_count, kir_expr_t *lane,
                         kir_expr_t **out);
kir_buffer_t *tile_sweep_registers(tile_t *t, kir_block_t *block,
                                   tdsl_dtype_t type, int64_t lanes);
/* The identity; as seen from maxima that moved; with the terms of the tile. */
kir_expr_t *tile_sweep_span(tile_t *t, const tir_node_t *n, kir_expr_t *a,
                            kir_expr_t *b);
void tile_sweep_init(sweep_t *s, uint32_t k, kir_block_t *block);
void tile_sweep_move(sweep_t *s, uint32_t k, kir_block_t *block);
void tile_sweep_add(sweep_t *s, uint32_t k, kir_block_t *block);
/* Where the moves go: if maxima that stay leave every state as it is, in a
 * branch for those that did not. */
kir_block_t *tile_sweep_if_moved(sweep_t *s, kir_block_t *block);

/* ---- sweep_rows.c: which rows are a block ---- */

/* Which products are packed, and which row index a block has several of. */
void tile_sweep_find_products(sweep_t *s);
/* How many neighbours of an index e is the same for: INT64_MAX if it does not
 * mention it, the divisor if it mentions a quotient of it only, else 1. */
int64_t tile_sweep_rows_alike(const sweep_t *s, tir_expr_t *e,
                              const tir_index_t *index);

/* ---- sweep_pack.c: what rows of a block share ---- */

/* How columns are brought, when all that `block` keeps is made. */
void tile_sweep_choose_lanes(sweep_t *s, const kir_block_t *block);
bool tile_sweep_shares_factor(const sweep_t *s, const tir_node_t *n);
/* Columns and factors of the tile, for the rows that share them. */
void tile_sweep_pack(sweep_t *s, kir_block_t *block);
/* Side of the squares that columns are turned by, 0 if there are none: the
 * target has no shuffles, or the factor does not run along the depth. */
int64_t tile_sweep_square(const sweep_t *s, const packed_t *pk);
/* Of all rows of the group at once, elements c .. c + n - 1 of the tile:
 * acc[row][lane], stored where the tile is read. */
void tile_sweep_group_square(sweep_t *s, packed_t *pk, kir_block_t *block,
                             int64_t n, kir_expr_t *c);
/* A row of the product. */
void tile_sweep_product(sweep_t *s, packed_t *pk, kir_block_t *block);

/* ---- sweep_ahead.c: for sweeps of one row, or of a few ---- */

/* Whether e is more than what memory holds. */
bool tile_sweep_is_widened(const tir_expr_t *e);
/* Whether memory says where e is. */
bool tile_sweep_has_table(const sweep_t *s, tir_expr_t *e);
/* Lines that a square of n x n asks for; 0: none. */
int64_t tile_sweep_lines(const sweep_t *s, const packed_t *pk, int64_t n);
/* Line l of these, for the square at row c and depth i of a tile. */
void tile_sweep_ahead_of_square(sweep_t *s, packed_t *pk, kir_block_t *block,
                                int64_t n, kir_expr_t *c, kir_expr_t *i,
                                kir_expr_t *l);
/* In front of term u of a sum, elements base .. base + lanes - 1. */
void tile_sweep_ahead_of_terms(sweep_t *s, uint32_t k, kir_block_t *block,
                               kir_expr_t *u, kir_expr_t *base,
                               int64_t lanes);

/* ---- sweep_turns.c: keys of the next tile beside values of this one ---- */

/* Behind the masks and the range; `limit` is where the last tile ends. */
void tile_sweep_choose_turns(sweep_t *s, kir_block_t *block,
                             kir_expr_t *limit);
/* Rows whose accumulators are in registers together, of a sum over terms of
 * this many numbers; 0: not even one row's are. */
int64_t tile_sweep_turn_rows(const sweep_t *s, const tir_node_t *n);
/* The scores of the tile, unless they are there. */
void tile_sweep_first_scores(sweep_t *s, kir_block_t *block);
/* Behind the rows' states: sums and scores in turns. */
void tile_sweep_take_turns(sweep_t *s, kir_block_t *block);

/* ---- sweep_group.c: rows of a tile several at a time ---- */

/* Whether the sum's weight is read from where a tile left it. */
bool tile_sweep_is_whole_sum(const sweep_t *s, uint32_t k);
/* Terms from .. to - 1 of such a sum, for all rows of the group, `rows` of
 * them and nr numbers at a time. */
void tile_sweep_whole_sum(sweep_t *s, uint32_t k, kir_block_t *block,
                          kir_expr_t *from, kir_expr_t *to, int64_t rows,
                          int64_t nr);

/* Which factors are used where they are: those that lie as they would be
 * packed. After the masks. */
void tile_sweep_leave_in_place(sweep_t *s);
/* e is a number of memory, and `last` its last subscript. */
bool tile_sweep_is_plain(const sweep_t *s, const tir_expr_t *e,
                         const tir_index_t *last);
/* The first row of the block is the row of the statements built from here on:
 * what all of them share is read by it. */
void tile_sweep_set_first_row(sweep_t *s);
/* Row `gr` of the group is. */
void tile_sweep_set_group_row(sweep_t *s, kir_expr_t *gr);
/* Rows of a group where there are `most` in all, if that is few: a divisor. */
int64_t tile_sweep_few_rows(const sweep_t *s, const ix_poly_t *most);
/* Rows of a block, of an index of `most`. */
int64_t tile_sweep_block_rows(const sweep_t *s, int64_t most);
/* The row's first factor into pk->rows. */
void tile_sweep_pack_rows(sweep_t *s, packed_t *pk, kir_block_t *block);
/* All rows of the block in the tile. */
void tile_sweep_groups(sweep_t *s, kir_block_t *block,
                       const sweep_span_t *axis);

/* ---- sweep_finish.c: before the first tile, and behind the last ---- */

/* Where the rows are among the indices of each node: s->places. */
void tile_sweep_place_rows(sweep_t *s);
/* Maps and sums that are known before the first tile. */
void tile_sweep_firsts(sweep_t *s, kir_block_t *block);
/* The sum of a laned state's element, as the lanes are now. */
kir_expr_t *tile_sweep_fold(sweep_place_t *p, kir_block_t *block);
/* Lanes are folded; what others read goes to memory. */
void tile_sweep_finish(sweep_t *s, uint32_t k, kir_block_t *block);
/* Whether maps are spread over blocks, and which. */
void tile_sweep_find_spread(sweep_t *s);
bool tile_sweep_is_spread(const sweep_t *s, uint32_t k);
/* A map that finishes, with its rows in front. */
void tile_sweep_finish_map(sweep_t *s, uint32_t k, kir_block_t *block);

/* ---- sweep_merge.c: splits of a long axis ---- */

void tile_sweep_alloc_totals(sweep_t *s, kir_block_t *block);
/* A split's states into the totals, of the row that is set. */
void tile_sweep_merge(sweep_t *s, kir_block_t *block);
/* What reads a state reads the total from here on. */
void tile_sweep_use_totals(sweep_t *s);

/* ---- sweep_order.c: places and the k largest ---- */

/* After the rows are known. */
void tile_sweep_open_orders(sweep_t *s);
void tile_sweep_alloc_tops(sweep_t *s, kir_block_t *block);
void tile_sweep_alloc_total_tops(sweep_t *s, kir_block_t *block);
void tile_sweep_init_tops(sweep_t *s, bool of_totals, kir_block_t *block);
/* Of one row and tile, once the maxima have seen it. */
void tile_sweep_add_orders(sweep_t *s, kir_block_t *block);
/* The pairs that a split left, as a part. */
void tile_sweep_load_top(sweep_t *s, uint32_t k, kir_expr_t *split,
                         kir_block_t *block);
/* Parts into totals; `was`, by node: maxima of the totals before. */
void tile_sweep_merge_orders(sweep_t *s, kir_block_t *block,
                             kir_expr_t *const *was);
void tile_sweep_use_total_tops(sweep_t *s);
void tile_sweep_finish_order(sweep_t *s, uint32_t k, kir_block_t *block);

/* ---- sweep_masks.c: empty, full and partial tiles ---- */

/* After the scratch is there. */
void tile_sweep_find_masks(sweep_t *s);
/* The conditions that no row changes, in the axis of a node, or NULL. */
tir_expr_t *tile_sweep_inside(sweep_t *s, const tir_node_t *n);
/* The part of lo .. hi where elements may be live for the rows; lo stays a
 * place where a tile begins. */
void tile_sweep_range(sweep_t *s, kir_block_t *block, const sweep_span_t *row,
                      kir_expr_t **lo, kir_expr_t **hi);
/* Looks through what masks read along the axis of the tile or, with axis
 * NULL, along the rows. */
void tile_sweep_scan(sweep_t *s, kir_block_t *block, const sweep_span_t *axis,
                     const sweep_span_t *row);
/* Whether all conditions can hold (must: do hold) for some (each) element of
 * the tile and the rows; row NULL: the row that is set. NULL: not known. */
kir_expr_t *tile_sweep_judge(sweep_t *s, const sweep_span_t *axis,
                             const sweep_span_t *row, bool must);

#endif
