/* group_kernels.h: what the lowering of a group must know of grouping. */
#ifndef TDSL_PASSES_TENSOR_GROUP_KERNELS_H
#define TDSL_PASSES_TENSOR_GROUP_KERNELS_H

#include "ir/tir.h"

/* Elements of a split of a sweep's axis: of the accumulation plan, whatever
 * walks it. A multiple of what a sweep takes at a time. */
enum { GROUP_SPLIT = 1024 };
/* Tuples of a split of a sum of products on a target with warps: of its plan
 * as well. A multiple of what any kernel takes of the depth at a time. */
enum { GROUP_DEPTH = 1024 };

/* 1 where x <= most, else 0: a factor of a grid that dims decide at launch.
 * NULL: more than there are numbers. */
const ix_poly_t *group_at_most(ix_pool_t *pool, const ix_poly_t *x,
                               int64_t most);

/* Number of leading parallel indices that become the block loops of a group
 * of several nodes: all share them, and loads inside the group pass them on
 * unchanged. */
uint32_t group_prefix(tir_node_t *const *nodes, uint32_t count);
/* The same for a kernel that makes its nodes in nested loops: no longer than
 * what each node leaves as it is where it reads others of the group, so that
 * an iteration has all it reads. Groups of a product and what follows its rows
 * read their own row at other places. */
uint32_t group_nest_prefix(td_arena_t *scratch, tir_node_t *const *nodes,
                           uint32_t count);

/* A reduction whose terms lie in columns: neighbours in memory belong to
 * other results. It goes best over results side by side. */
bool group_is_column(td_arena_t *scratch, const tir_node_t *n);

/* Leading parallel indices that the nodes of a cascade share: its rows. */
uint32_t group_cascade_rows(tir_node_t *const *nodes, uint32_t count);

/* Where each row is among the parallel indices of a map that finishes what
 * the nodes before it computed; false if it reads another row, or nothing. */
bool group_row_places(td_arena_t *scratch, tir_node_t *const *nodes,
                      uint32_t count, tir_node_t *n, uint32_t rows,
                      uint32_t *places);

/* Whether a map, or a reduction of few terms, finishes rows of a cascade: at
 * its rows it reads no others. What it keeps of a row; INT64_MAX if that is
 * unknown, or if it reads what keeps more than `limit`. Without rows, and
 * behind a merge, it keeps nothing: it goes to memory alone, and its kernel
 * has blocks along it. */
bool group_is_finish(td_arena_t *scratch, tir_node_t *const *nodes,
                     uint32_t count, tir_node_t *n, int64_t limit,
                     int64_t *out_bytes);

/* The two factors of a matrix product: a float SUM that adds left to right
 * the product of two factors which mention different parallel indices. */
bool group_is_contraction(const tir_node_t *node);

#endif
