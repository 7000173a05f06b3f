/* group_product.h: a sum of products as a matrix product, and which of them
 * may be made side by side.
 *
 *   sum over k of a(batch, m, k) * b(batch, k, n)
 *
 * n has the last parallel index.  Where b differs from row to row by one
 * number that is read from memory, the *key*, and only by it, it is
 *
 *   sum over k of a(batch, m, k) * b(key(m), batch, k, n)
 *  Products whose a, batch, m and k are equal
 * are sides of one: a kernel brings a once for all. */
#ifndef TDSL_PASSES_TENSOR_GROUP_PRODUCT_H
#define TDSL_PASSES_TENSOR_GROUP_PRODUCT_H

#include "ir/expr.h"
#include "ir/target.h"

/* Bytes of the sums of rows that a block keeps until their rows are complete:
 * half of a core's second cache. */
enum { GROUP_ROW_BYTES = 1024 * 1024 };
/* Bytes of columns that are brought again for each few rows at little cost: a
 * core's part of the last cache. */
enum { GROUP_COLUMN_BYTES = 4 * 1024 * 1024 };

/* Warps of a block that makes whole rows; the depth that it brings at a time,
 * of f32. */
enum { GROUP_ROW_WARPS = 4, GROUP_ROW_DEPTH = 16 };

typedef struct product_list {
  uint32_t count;
  tir_index_t *indices[IX_MAX_RANK];
} product_list_t;

typedef struct product_form {
  tir_node_t *node;
  uint32_t par;              /* parallel indices */
  tir_expr_t *a, *b;
  product_list_t batch, m, n, k;
  const tir_expr_t *key;     /* rows choose their b by it; NULL: all have one */
} product_form_t;

/* e is this key. */
bool group_product_is_key(const tir_expr_t *e, const tir_expr_t *key);

/* False if the node is none, or its factors share their indices otherwise. */
bool group_product_find_form(td_arena_t *scratch, tir_node_t *node,
                             product_form_t *out);
/* Large enough for tiles; smaller ones are nests. */
bool group_product_pays(const product_form_t *f);
/* f may be a side of `first`: neither is guarded, and a is the same. */
bool group_product_is_side(td_arena_t *scratch, const product_form_t *first,
                           const product_form_t *f);
/* e, which is of f's node, in the indices of `first`, its side; columns keep
 * their own unless all parallel extents are equal. */
tir_expr_t *group_product_adopt(td_arena_t *arena, const product_form_t *first,
                                const product_form_t *f, tir_expr_t *e);
/* Leading parallel indices that are rows and batch, in front of all columns,
 * which are known now like the depth; false: it is not so. */
bool group_product_row_prefix(const product_form_t *f, uint32_t *prefix);
/* On targets with warps: rows of a tile that has all `columns` of f32, of a
 * product of so much depth at most, beside which a row keeps `kept` bytes while
 * a warp finishes it; *out_width: columns that the tile has room for. 0: there
 * is no such tile. */
int64_t group_product_row_tile(const ir_target_t *target, int64_t columns,
                               int64_t depth, int64_t kept,
                               int64_t *out_width);
/* Most columns of it: totals of splits take registers too. */
int64_t group_product_row_columns(int64_t depth);
/* Of a group of products and what follows them: whether what follows is done
 * row by row, since it reads more than the element of its own tuple. */
bool group_product_has_rows(td_arena_t *scratch, tir_node_t *const *nodes,
                            uint32_t count);
/* Whether a node reads what the nodes before it make, and in another way than
 * at its own tuple. */
bool group_product_reads(td_arena_t *scratch, tir_node_t *const *nodes,
                         uint32_t count, tir_node_t *reader,
                         bool *is_elsewhere);
/* Equal parallel extents, in order: elements of one are beside those of the
 * other. */
bool group_product_is_parallel(const tir_node_t *x, const tir_node_t *y);

#endif
