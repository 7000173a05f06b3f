/* contraction.h: a matrix product as its files see it: what is multiplied and
 * in what tiles (contraction_form.c), operands made ready
 * (contraction_pack.c), the two CPU forms (lower_contraction.c with
 * contraction_micro.c, contraction_thin.c) and the one for warps
 * (contraction_simt.c). */
#ifndef TDSL_PASSES_TILE_CONTRACTION_H
#define TDSL_PASSES_TILE_CONTRACTION_H

#include "passes/tensor/group_product.h"
#include "passes/tile/flatten.h"

enum {
  CONTRACTION_NODES = 32, /* more than a group has */
  CONTRACTION_SIDES = 4,  /* as many products as a group has */
  CONTRACTION_NEXT = 8,   /* depths for a row of the next of a batch */
};

/* One of the products of a kernel (contraction_sides.c). */
typedef struct product_side {
  product_form_t form;
  tir_expr_t *b;            /* over flat indices */
  const tir_expr_t *packed; /* of b: a load of panels; NULL: packed here */
  bool is_made;             /* packed here from panels: see is_costly */
  bool is_along;            /* packed by the first rows that multiply with it */
  flat_group_t n;
  uint32_t lead;            /* the first side with the same columns */
  int64_t nc;               /* columns of a block */
  kir_expr_t *nb, *nh;      /* of a lead: where they begin, how many */
  kir_buffer_t *panels, *tile, *acc;
} product_side_t;

/* b, packed, is_made, is_along, n, nc, nb, nh, panels and tile are those of
 * the side at work. */
typedef struct product {
  tile_t *t;
  tir_node_t *node;
  uint32_t par;
  tir_expr_t *a, *b;        /* over flat indices */
  flat_group_t batch, m, n, k;
  /* rows that choose their columns: contraction_group.c */
  const tir_expr_t *key;    /* by this; NULL: all have the same */
  tir_expr_t *flat_key;
  tir_index_t *group;       /* its value in a block */
  int64_t range;            /* rows among which a block finds its own */
  kir_expr_t *first, *count; /* where they begin; how many are its own */
  kir_buffer_t *list;       /* which; mb, ib and their like are places in it */
  bool has_guard;           /* of parallel indices; applied at the end */
  bool is_shallow;          /* one block holds all of the depth */
  bool is_direct;           /* sums go to memory as they are: no tile */
  bool is_narrow;           /* the tile has one panel: its sums are complete */
  bool is_thin;             /* a few rows: contraction_thin.c */
  bool is_rows;             /* what follows goes by rows: contraction_rows.c */
  const tir_expr_t *packed; /* of b: a load of panels; NULL: b is packed here */
  bool is_made;             /* then packed from panels */
  bool is_along;            /* or while the first rows use it */
  /* Depths that share an element of a panel, the most of all; 1: none.  Depth
   * is group * period + within where it is more (contraction_set_depth). */
  int64_t period;
  tir_index_t *group_index, *within;
  bool a_lies, b_lies;      /* small enough to be read where it is */
  bool asks_next;           /* for the operands of the next of a batch */
  kir_expr_t *batch_at;     /* the innermost batch index of a block */
  /* A block iteration makes bm x nc, mc rows at a time; all mc if is_even. */
  int64_t mr, nr, mc, nc, kc, bm;
  bool is_even;
  int64_t rest;             /* so few columns more in the last block of a row */
  int64_t width;            /* columns of the micro-kernel: nr, or a part */
  int64_t abreast;          /* panels of it; more than 1 for a few rows */
  kir_buffer_t *rows, *panels, *tile;
  kir_expr_t *mb, *nb, *kb; /* where the block and the depth block begin */
  kir_expr_t *ib;           /* of the block: where these mc rows begin */
  kir_expr_t *mh, *nh, *kh; /* how much of each is there; mh: of mc */
  tdsl_dtype_t type;
  uint32_t side_count, side, lead;
  product_side_t sides[CONTRACTION_SIDES];
  int32_t side_of[CONTRACTION_NODES]; /* of a node of the group; -1: none */
  uint32_t leads[CONTRACTION_NODES];  /* side whose columns a node has */
  kir_expr_t *sums[CONTRACTION_SIDES]; /* at the indices set */
  /* of contraction_rows.c: leading indices of a row, what they are for the
   * row at work, and where it lies in the tiles */
  uint32_t prefix;
  kir_expr_t *row_subs[IX_MAX_RANK], *row;
  /* rows that are finished side by side, each by a warp: 0, there are none;
   * the one at work */
  int64_t abreast_rows;
  kir_expr_t *row_warp;
  /* over flat indices; see contraction_prepare */
  tir_expr_t *guard;
  tir_expr_t *tails[CONTRACTION_NODES];  /* bodies of the maps behind it */
  tir_expr_t *places[CONTRACTION_NODES]; /* of what leaves the group, as load */
} product_t;

/* Sorts the indices of p->node into batch, rows, columns and depth; false if
 * it is no product that pays, or one of another form. */
bool contraction_analyse(product_t *p);
/* Tile sizes of the target, no larger than what there is. */
void contraction_choose_sizes(product_t *p);
/* Columns of the micro-kernel that what is left behind the last whole panel
 * fits, half of one or, where two narrow registers are used in the time of a
 * wide one, a quarter; 0: nothing is, or it takes all of a panel. */
int64_t contraction_width_of_rest(const product_t *p);
/* Panels at work have all their columns. */
bool contraction_is_whole(const product_t *p);
void contraction_fill_group(flat_group_t *g, const product_list_t *l);
/* ---- contraction_group.c ---- */
/* Where rows choose their columns, by what. */
void contraction_find_group(product_t *p);
/* b of the value that a block has. */
tir_expr_t *contraction_group_columns(product_t *p, tir_expr_t *b);
/* Rows that a tile may be for: as many as a value of the key may well have. */
int64_t contraction_group_rows(const product_t *p);
/* Block loops over values and ranges of rows. */
kir_block_t *contraction_group_grid(product_t *p, kir_block_t *block);
/* Lists the rows of a block, by one thread or by those of `warps` warps, with
 * `size` of any rows behind them; what is done if there is one. */
kir_block_t *contraction_group(product_t *p, kir_block_t *block,
                               int64_t warps, int64_t size);
/* The row at a place of the list; the place itself where there is none. */
kir_expr_t *contraction_row_at(product_t *p, kir_expr_t *at);
/* ---- contraction_sides.c ---- */
/* Fills the sides of an analysed product; all is over flat indices then. */
void contraction_find_sides(product_t *p);
/* Sets the fields of the side at work. */
void contraction_select(product_t *p, uint32_t side);
/* An expression of a node of the group, over the product's indices. */
tir_expr_t *contraction_adopt(product_t *p, uint32_t node, tir_expr_t *e);
/* Most columns of all sides. */
int64_t contraction_columns(const product_t *p);
/* Shares nc columns out to the sides, each a multiple of `unit`. */
void contraction_share_columns(product_t *p, int64_t unit);
/* Columns of all sides, for a card. */
const char *contraction_columns_text(const product_t *p);
/* Block loop over pieces of the columns of several sides. */
kir_block_t *contraction_side_grid(product_t *p, kir_block_t *block);
/* ---- contraction_ends.c ---- */
kir_expr_t *contraction_zero(product_t *p);
/* Most loads of e move along memory with this index. */
bool contraction_runs_along(product_t *p, tir_expr_t *e,
                            const flat_group_t *g);
/* How many elements lie side by side in most loads of e where this index
 * moves: all there are (INT64_MAX), a row of a picture, every other one of it;
 * 0: none. */
int64_t contraction_run(product_t *p, tir_expr_t *e, const flat_group_t *g);
/* Block loops over tiles of `rows` x nc; sets mb and nb. */
kir_block_t *contraction_grid(product_t *p, kir_block_t *block, int64_t rows);
/* Row mb + ib + i, column nb + j: what the indices are from here on. */
void contraction_set_place(product_t *p, kir_expr_t *i, kir_expr_t *j);
/* Calls contraction_finish with plain stores. `sum` NULL: p->sums says. */
void contraction_put(product_t *p, kir_block_t *lanes, kir_expr_t *sum);
/* Block loops over the batch. */
kir_block_t *contraction_batch(product_t *p, kir_block_t *block);
/* min(size, extent - from), a number if it is one. */
kir_expr_t *contraction_part(product_t *p, kir_expr_t *from,
                             const ix_poly_t *extent, int64_t size);
kir_expr_t *contraction_name(product_t *p, kir_block_t *block,
                             const char *name, kir_expr_t *e);
/* Where an output element goes. */
typedef void (*contraction_store_fn)(product_t *p, kir_block_t *block,
                                     kir_buffer_t *b, uint32_t count,
                                     kir_expr_t *const *subs, kir_expr_t *v,
                                     void *user);
/* Fills guard, tails and places. */
void contraction_prepare(product_t *p);
/* From the sums of the lead at work to all that is stored, at the indices
 * set; `sum` is the only one, or NULL if p->sums has them. */
void contraction_finish(product_t *p, kir_block_t *block, kir_expr_t *sum,
                        contraction_store_fn store, void *user);

/* ---- contraction_pack.c ---- */
/* Elements of b for lanes along its depth: as many as a register has. */
int64_t contraction_turn_lanes(const product_t *p);
/* The type of squares that are turned: f16 that is only widened is turned
 * before, by shuffles of half the width. */
tdsl_dtype_t contraction_turn_type(const product_t *p);
/* b's depth lies along memory and its columns do not. */
bool contraction_turns(product_t *p);
/* turned[i][l, j] = b at depth kb + k + i * lanes + l, column nb + column + j,
 * row by row for all `count` of them; zeros where the depth ends at kh (NULL:
 * it does not), any element past the columns. */
void contraction_turn(product_t *p, kir_block_t *block,
                      kir_buffer_t *const *turned, uint32_t count,
                      kir_expr_t *column, kir_expr_t *k, kir_expr_t *kh);
void contraction_pack_b(product_t *p, kir_block_t *block);
/* Asks memory for what e loads at the indices set. */
void contraction_ask(product_t *p, kir_block_t *block, tir_expr_t *e);
/* A panel's place: there is one for all where each is used up at once. */
kir_expr_t *contraction_panel(const product_t *p, kir_expr_t *panel);
int64_t contraction_panel_count(const product_t *p, int64_t nc);
/* is_along: depth k of a panel in a register row, and in the panel for the
 * rows that follow if `is_kept`. */
kir_buffer_t *contraction_bring(product_t *p, kir_block_t *block,
                                kir_expr_t *panel, kir_expr_t *k,
                                bool is_kept);
/* Where the panel begins that is used behind this one: all but the last of
 * `subs`. */
kir_buffer_t *contraction_next_panel(product_t *p, kir_block_t *block,
                                     kir_expr_t *panel, kir_expr_t **subs);
/* a at row i of the rows at work, depth k of the block. */
kir_expr_t *contraction_row(product_t *p, kir_expr_t *i, kir_expr_t *k);
/* b at lane j of depth k of a panel of the block. */
kir_expr_t *contraction_column(product_t *p, kir_expr_t *panel, kir_expr_t *k,
                               kir_expr_t *j);
/* Depth loop over 0 .. kh; sets *k, and the indices that b is over. */
kir_block_t *contraction_depth(product_t *p, kir_block_t *block,
                               bool is_from_panels, kir_expr_t **k);
/* Finds the loads of panels as wide as the micro-kernel, of each side. */
void contraction_find_panels(product_t *p);
void contraction_copy_a(product_t *p, kir_block_t *block);
/* Loop in steps of TILE_LANES from 0 to `count`, lanes masked at the end;
 * *out_at is the lane's position. */
kir_block_t *contraction_lane_steps(tile_t *t, kir_block_t *block,
                                    const char *name, kir_expr_t *count,
                                    kir_expr_t **out_at);

/* ---- contraction_micro.c ---- */
/* All rows at work of the panels at work. */
void contraction_sweep_rows(product_t *p, kir_block_t *block,
                            kir_expr_t *panel);
/* Row i of those at work, in the tile; column j of the panel at `base`. */
kir_expr_t *contraction_tile_row(product_t *p, kir_expr_t *i);
kir_expr_t *contraction_tile_column(product_t *p, kir_expr_t *base,
                                    kir_expr_t *j);
/* This is the last depth block. */
kir_expr_t *contraction_is_last(product_t *p);

/* ---- contraction_rows.c ---- */
/* Sets p->prefix; false: some node of the group has other rows. */
bool contraction_has_rows(product_t *p);
/* Scratch of one row. */
void contraction_alloc_rows(product_t *p, kir_block_t *block);
/* All that follows the sums of mh rows from ib on. */
void contraction_finish_rows(product_t *p, kir_block_t *block);

/* contraction_thin.c: few rows; b is read once and never stored. */
void contraction_build_thin(product_t *p);

/* contraction_simt.c: the form for blocks of warps. */
void contraction_build_simt(product_t *p);
/* contraction_simt_size.c: a tile has whole rows, and what is kept of those at
 * work. */
bool contraction_simt_has_rows(product_t *p);

/* ---- contraction_split.c ---- */
/* In place of contraction_prepare: sums go to parts. */
void contraction_split_prepare(product_t *p);
/* The kernel that adds up what splits of the depth left. */
void contraction_build_merge(product_t *p);

/* Largest value of a dim; INT64_MAX if there is none. */
int64_t contraction_upper(const ix_poly_t *p);

#endif
