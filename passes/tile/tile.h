/* tile.h: state shared by the files that lower groups of TIR nodes to
 * kernels (lower_to_tiles.c and its templates). */
#ifndef TDSL_PASSES_TILE_H
#define TDSL_PASSES_TILE_H

#include "ir/target.h"
#include "passes/pass.h"

enum {
  TILE_LANES = TIR_LANES, /* f32 elements of one vector statement */
  TILE_CHUNK = 2048,      /* elements of a block of a one-dimensional map */
};

/* Where a TIR value lives inside the kernel: a parameter, or a scratch
 * buffer of the block, whose first `dropped` subscripts are the shared
 * prefix and fall away. */
typedef struct tile_home {
  kir_buffer_t *buffer;
  uint32_t dropped;
  uint32_t mask; /* if not 0: the subscripts that fall away, by bit */
  /* of a sweep: the row within the block, which comes first, and where the
   * tile begins, taken from the last subscript; what they point at changes
   * as statements are built. NULL: none */
  kir_expr_t *const *lead, *const *origin;
} tile_home_t;

/* A kernel's work shared out to blocks along what its nodes add up: one kernel
 * leaves parts, the next one adds them and does what follows
 * (contraction_split.c). */
typedef struct tile_split {
  bool is_merge;           /* the second of the two is made */
  const ix_poly_t *when;   /* 1 or 0 at launch: it is done so; NULL: always */
  const ix_poly_t *count;  /* of splits */
  tir_index_t *index;      /* which of them */
  uint32_t part_count;
  tir_node_t **nodes;      /* of the first kernel */
  uint32_t merge_count;    /* of the second one; 0: those of the whole */
  tir_node_t **merge_nodes;
  uint32_t value_count;
  tir_value_t **values;    /* between the two */
  const ix_poly_t *bytes;  /* of all these values */
} tile_split_t;

typedef struct tile {
  td_task_t *task;
  td_arena_t *arena;       /* of the kernels */
  const tir_module_t *module;
  const tir_func_t *func;
  const ir_target_t *target;
  bool plan_serial;
  pass_splits_t splits;
  pass_sizes_t sizes;        /* GPU: asked for; 0: as the template chooses */
  const tile_split_t *split; /* of which this kernel is one half; NULL: whole */
  tile_split_t *wants;       /* of a whole one: how it may be cut; or NULL */
  const ix_poly_t *tiles;    /* of a product whose depth is long, or NULL */
  kir_kernel_t *kernel;
  /* nodes of the group, in order */
  uint32_t node_count;
  tir_node_t **nodes;
  /* tir_value_t* -> tile_home_t* */
  td_map_t homes;
  TD_VEC(kir_buffer_t *) params;
  TD_VEC(const tir_value_t *) param_values;
  /* tir_value_t* -> kir_expr_t*: what a load of the value's element at the
   * present indices is (an epilogue reads the tile, not memory) */
  td_map_t elements;
  /* tir_value_t* -> kir_buffer_t*: parameter of a value that has a scratch
   * home as well */
  td_map_t outputs;
  /* tir_value_t* -> itself: read outside of the group */
  td_map_t *escapes;
  /* tir_index_t* -> kir_expr_t*: what an index is at this point */
  td_map_t indices;
  /* tir_expr_t* -> kir_expr_t* under the present indices */
  td_map_t done;
  TD_VEC(const ix_symbol_t *) dims;
  const char *card;        /* lines so far, NULL: none */
} tile_t;

/* Adds a line to the kernel's card: what it computes, and the schedule with
 * the reason. No places in the source: a card is part of the kernel's key. */
void tile_note(tile_t *t, const char *format, ...) TD_PRINTF(2, 3);
/* "y, 2 maps and a sum": the nodes of the group. */
const char *tile_describe(tile_t *t);

/* ---- tile_build.c ---- */

/* Parameter for a value (made on first mention). */
kir_buffer_t *tile_param(tile_t *t, const tir_value_t *value, bool is_read,
                         bool is_written);
/* A parameter with the memory of `value` and the dims of `view` (a value
 * made for the purpose, of equal size). */
kir_buffer_t *tile_view_param(tile_t *t, const tir_value_t *value,
                              const tir_value_t *view);
/* The parameter, written, of a value whose home is scratch. */
kir_buffer_t *tile_output(tile_t *t, const tir_value_t *value);
/* What loads of a value give from now on; NULL: memory again. */
void tile_set_element(tile_t *t, const tir_value_t *value, kir_expr_t *e);
bool tile_escapes(const tile_t *t, const tir_value_t *value);
/* Gives a value a scratch home; later mentions use it. */
void tile_set_home(tile_t *t, const tir_value_t *value, kir_buffer_t *buffer,
                   uint32_t dropped);
void tile_set_lead(tile_t *t, const tir_value_t *value,
                   kir_expr_t *const *lead, kir_expr_t *const *origin);
/* Says what an index stands for; forgets what was translated before. */
void tile_set_index(tile_t *t, const tir_index_t *index, kir_expr_t *value);
/* Translates an expression under the present indices. */
kir_expr_t *tile_expr(tile_t *t, tir_expr_t *e);
/* A dim of an index or buffer as an expression; records its symbols. */
kir_expr_t *tile_dim(tile_t *t, const ix_poly_t *p);
void tile_use_dims(tile_t *t, const ix_poly_t *p);

/* Short builders over t->arena. */
kir_expr_t *tile_int(tile_t *t, int64_t v);
kir_expr_t *tile_op2(tile_t *t, kir_x_t op, tdsl_dtype_t type, kir_expr_t *a,
                     kir_expr_t *b);
kir_expr_t *tile_less(tile_t *t, kir_expr_t *a, kir_expr_t *b);
kir_expr_t *tile_min(tile_t *t, kir_expr_t *a, kir_expr_t *b);
kir_stmt_t *tile_if(tile_t *t, kir_expr_t *cond);
kir_stmt_t *tile_push(tile_t *t, kir_block_t *block, kir_stmt_t *s);
/* A name for a value that several statements read. */
kir_expr_t *tile_let(tile_t *t, kir_block_t *block, const char *name,
                     kir_expr_t *e);
/* A loop pushed to `block`; *out_var is its variable as an expression. */
kir_block_t *tile_loop(tile_t *t, kir_block_t *block, kir_loop_t kind,
                       const char *name, kir_expr_t *lo, kir_expr_t *hi,
                       int64_t step, kir_expr_t **out_var);
/* Lane loop of TILE_LANES (of `lanes`); mask may be NULL. */
kir_block_t *tile_lanes(tile_t *t, kir_block_t *block, kir_expr_t *mask,
                        kir_expr_t **out_var);
kir_block_t *tile_lanes_of(tile_t *t, kir_block_t *block, int64_t lanes,
                           kir_expr_t **out_var);
/* A range of an index that lanes cover: lo is a multiple of TILE_LANES. */
typedef struct tile_range {
  kir_expr_t *lo, *hi;
} tile_range_t;
/* The largest multiple of TILE_LANES that is not above hi. */
kir_expr_t *tile_whole_part(tile_t *t, kir_expr_t *hi);
/* One group of lanes starting at `base`; `limit` NULL: all lanes count. */
typedef void (*tile_chunk_fn)(tile_t *t, kir_block_t *block, kir_expr_t *base,
                              kir_expr_t *limit, void *user);
/* Calls fn for the full groups in a loop and once for a masked tail. */
void tile_chunks(tile_t *t, kir_block_t *block, const char *name,
                 tile_range_t r, tile_chunk_fn fn, void *user);
/* Lane loop over base + l < limit; *out_index is base + l. */
kir_block_t *tile_lanes_at(tile_t *t, kir_block_t *block, kir_expr_t *base,
                           kir_expr_t *limit, kir_expr_t **out_index);
kir_buffer_t *tile_alloc(tile_t *t, kir_block_t *block, const char *name,
                         tdsl_dtype_t dtype, kir_space_t space, uint32_t rank,
                         const ix_poly_t *const *dims);
void tile_store(tile_t *t, kir_block_t *block, kir_buffer_t *buffer,
                uint32_t count, kir_expr_t *const *subs, kir_expr_t *value);
/* Where a node's output element goes: its home, prefix dropped. */
void tile_store_value(tile_t *t, kir_block_t *block, const tir_value_t *value,
                      uint32_t count, kir_expr_t *const *subs,
                      kir_expr_t *v);
/* Identity of a reduction in its accumulator's type. */
kir_expr_t *tile_identity(tile_t *t, tir_reduce_t reduce, tdsl_dtype_t type);
/* acc OP term; `product` non-NULL: the two factors, added by fma. */
kir_expr_t *tile_combine(tile_t *t, const tir_node_t *node, kir_expr_t *acc,
                         kir_expr_t *term);
kir_x_t tile_fold_op(tir_reduce_t reduce);

/* ---- contraction_split.c ---- */
/* Bytes between the two halves; NULL: more than there are numbers. */
const ix_poly_t *tile_split_bytes(ix_pool_t *pool, const tile_split_t *of);
/* Where dims choose between a whole kernel and its halves: the block loop that
 * has one turn if this kernel is chosen, else none. */
kir_block_t *tile_chosen(tile_t *t, kir_block_t *block);

/* ---- nest_splits.c ---- */
/* Sums of this node have splits in their plan, and may be longer than one. */
bool tile_has_splits(const tile_t *t, const tir_node_t *node);

/* ---- templates: each appends to the kernel's body ---- */

/* lower_nest.c: any group of maps and reductions that share the first
 * `prefix` parallel indices. */
void tile_lower_nest(tile_t *t, uint32_t prefix);
/* lower_map.c: a formula without sums on a GPU; false if it is none. */
bool tile_lower_map(tile_t *t);
/* One node of a group, within loops over its first `prefix` indices, whose
 * values are given; `last`: the range of its last parallel index, or NULL;
 * `places`: which dim of the output each index is, NULL: in order. */
void tile_lower_one(tile_t *t, tir_node_t *node, uint32_t prefix,
                    kir_expr_t *const *values, const tile_range_t *last,
                    const uint32_t *places, kir_block_t *block);
/* lower_cascade.c: a group that is one sweep over an axis. */
void tile_lower_cascade(tile_t *t);
/* sweep_merge.c: a group that merges what splits of one left. */
void tile_lower_merge(tile_t *t);
/* lower_panels.c: weights laid out for a product; false if it is not that. */
bool tile_lower_panels(tile_t *t);
/* lower_contraction.c: a matrix product and what is fused to it; false if
 * the group has none that pays, or a form it does not know. */
bool tile_lower_contraction(tile_t *t);
/* lower_update.c, lower_topk.c: groups of one node. */
void tile_lower_update(tile_t *t, tir_node_t *node);
void tile_lower_topk(tile_t *t, tir_node_t *node);
/* (v, i) stands before (w, j) in the order of a topk. */
kir_expr_t *tile_topk_before(tile_t *t, kir_expr_t *v, kir_expr_t *i,
                             kir_expr_t *w, kir_expr_t *j);

/* ---- tile_ask.c ---- */
bool tile_reads_memory(tile_t *t, const kir_expr_t *e);
/* A prefetch of what `load` reads, if that is memory of a parameter. Its
 * subscripts may read, if that is in bounds. */
void tile_ask(tile_t *t, kir_block_t *block, const kir_expr_t *load);

#endif
