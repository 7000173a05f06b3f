/* cascade.h: regions of reductions over one axis, between the files of
 * find_cascades.
 *
 *   cascade_region.c  which reductions are members, with their bodies in one
 *                     space of indices
 *   cascade_split.c   bodies to components: normal forms, gauges, ranks
 *   find_cascades.c   the pass: components and finishing maps into the block
 *
 * Everything lies in the scratch arena of one function's pass, but for what
 * enters the module. */
#ifndef TDSL_PASSES_TENSOR_CASCADE_H
#define TDSL_PASSES_TENSOR_CASCADE_H

#include "passes/pass.h"
#include "passes/tensor/cascade_norm.h"

enum {
  CASCADE_MAX_MEMBERS = 32,
  CASCADE_MAX_COMPONENTS = 48,
  CASCADE_MAX_TOPS = 4,
  CASCADE_PIVOT_BOX = 32, /* elements an index gives to a pivot */
};

/* One reduction of the text. */
typedef struct cascade_member {
  tir_node_t *node;
  size_t at;              /* place in the block */
  uint32_t parallel;      /* its parallel indices, under which guard and body
                             are written: rows are the region's */
  tir_index_t *indices[IX_MAX_RANK];
  tir_expr_t *guard;      /* maps inlined; NULL: none */
  tir_expr_t *body;
  /* after the split */
  tir_expr_t *live;       /* the part of the guard along the axis, or NULL */
  const cascade_sum_t *factor; /* tests of the guard that do not vary */
  const cascade_sum_t *plain;  /* the body, no gauge */
  const cascade_sum_t *result; /* over the components' values */
  tir_expr_t *copied;          /* or a component's value as it is */
} cascade_member_t;

/* One accumulator of the state. */
typedef struct cascade_component {
  tir_reduce_t reduce;
  const cascade_sum_t *sum; /* of a SUM; NULL: body as it is */
  tir_expr_t *body, *live;
  tdsl_dtype_t type;        /* of the accumulator */
  const char *name;
  uint32_t extra_count;     /* parallel indices besides the rows */
  tir_index_t *extras[IX_MAX_RANK];
  bool is_gauge;
  bool is_lazy;     /* a gauge that need not be the maximum */
  tir_value_t *value, *was; /* was: before a part was merged, or NULL */
  const cascade_atom_t *atom;
  tir_expr_t *transport;    /* NULL: identity */
  tir_node_t *node;
  td_loc_t loc;
  /* a maximum that is no state: 0, and -inf where this sum is 0; or NULL */
  const struct cascade_component *stands_for;
} cascade_component_t;

typedef enum cascade_gauge_kind {
  CASCADE_NONE, CASCADE_PIVOT, CASCADE_RUNNING, CASCADE_SCALE,
  CASCADE_CONSTANT, CASCADE_MEAN, CASCADE_LAZY,
} cascade_gauge_kind_t;

/* A topk along the axis (cascade_top.c). */
typedef struct cascade_top {
  tir_node_t *node;
  size_t at;
  tir_value_t *from;      /* what it is taken on */
  tir_node_t *map;        /* the topk is of this function of it, or NULL */
  const tir_expr_t *load; /* of `from`, in the map */
} cascade_top_t;

/* A map behind the region that gets another body. */
typedef struct cascade_rewrite {
  tir_node_t *node;
  cascade_member_t *member; /* it is this one's result, or NULL */
  tir_expr_t *body;
} cascade_rewrite_t;

typedef struct cascade_region {
  pass_state_t *state;
  tir_module_t *module;
  tir_func_t *func;
  tir_block_t *block;
  td_arena_t *scratch;
  uint32_t row_count, axis_count;
  tir_index_t *rows[IX_MAX_RANK];
  tir_index_t *axis[IX_MAX_RANK]; /* one, once a region has grown */
  const char *axis_text;           /* as the text has it: `c, i, j` */
  uint32_t member_count;
  cascade_member_t members[CASCADE_MAX_MEMBERS];
  uint32_t top_count;
  cascade_top_t tops[CASCADE_MAX_TOPS];
  /* tir_node_t* -> itself: what depends on a member or is one of the tops */
  td_map_t dependents;
  td_map_t inlined;    /* tir_node_t* -> itself: maps put into bodies */
  cascade_norm_t norm;
  uint32_t component_count;
  cascade_component_t *components[CASCADE_MAX_COMPONENTS];
  uint32_t pivot_count;
  tir_node_t *pivots[CASCADE_MAX_COMPONENTS]; /* means of a first box */
  cascade_gauge_kind_t kind;
  uint32_t rewrite_count;
  cascade_rewrite_t rewrites[CASCADE_MAX_MEMBERS];
  /* the first refusal: which member, and why */
  cascade_member_t *refused;
  cascade_reason_t reason;
  const tir_expr_t *at;
} cascade_region_t;

/* ---- cascade_region.c ---- */

/* Grows a region from a sink. Nodes in `broken` are never members. False if
 * fewer than two members are left, or on a refusal (refused, reason, at). */
bool cascade_grow(cascade_region_t *r, tir_node_t *sink, size_t at,
                  const td_map_t *broken);
/* Whether an expression mentions an index of the axis. */
bool cascade_is_along(const cascade_region_t *r, tir_expr_t *e);

/* ---- cascade_top.c ---- */

/* Once the members are known; then what goes into the block: the node of the
 * top belongs to cascade `number`, and a map makes the values of the text, or
 * NULL. */
void cascade_find_tops(cascade_region_t *r);
tir_node_t *cascade_take_top(cascade_region_t *r, cascade_top_t *top,
                             uint32_t number);

/* ---- cascade_split.c ---- */

/* Normal forms, gauges, components, transports, results of all members.
 * False on a refusal. */
bool cascade_split(cascade_region_t *r);

/* Its parts, which gauges need too. */
bool cascade_refuse(cascade_region_t *r, cascade_member_t *m,
                    cascade_reason_t reason, const tir_expr_t *at);
/* NULL: there are too many. The caller names it, or gives it a value. */
cascade_component_t *cascade_new_component(cascade_region_t *r,
                                           const cascade_member_t *m,
                                           tir_reduce_t reduce,
                                           const cascade_sum_t *sum,
                                           tir_expr_t *body);
void cascade_name_component(cascade_region_t *r, cascade_component_t *c,
                            const cascade_member_t *m, const char *suffix);
/* A value over the rows and a component's extras, and its element. */
tir_value_t *cascade_state_value(cascade_region_t *r,
                                 const cascade_component_t *c,
                                 const char *name);
tir_expr_t *cascade_state_load(cascade_region_t *r,
                               const cascade_component_t *c,
                               const tir_value_t *v);
void cascade_need_was(cascade_region_t *r, cascade_component_t *c);
bool cascade_same_live(cascade_region_t *r, tir_expr_t *a, tir_expr_t *b);
/* The number of elements so far, which a sweep knows without a state. */
bool cascade_is_count(cascade_region_t *r, const cascade_component_t *c);

/* ---- cascade_gauge.c: after the bodies are in normal form ---- */

bool cascade_add_exponents(cascade_region_t *r, cascade_member_t *m);
void cascade_add_scales(cascade_region_t *r, const cascade_member_t *m);
bool cascade_add_pivots(cascade_region_t *r, cascade_member_t *m);

/* ---- cascade_constant.c: gauges that range facts make a constant ---- */

/* Whether exp(leaf)^power needs no gauge. */
bool cascade_is_bounded(const tir_expr_t *leaf, double power);
/* After the split: maxima that served only as gauges. */
void cascade_drop_maxima(cascade_region_t *r);
/* Whether nothing that leaves the region changes if the maximum is another
 * number, and what is relative to it with it. */
bool cascade_is_only_gauge(cascade_region_t *r, const cascade_component_t *c);
tir_node_t *cascade_dropped_node(cascade_region_t *r,
                                 const cascade_component_t *c);

/* ---- cascade_price.c ---- */

/* Whether lanes of a sum with extras run along the axis. */
bool cascade_is_laned(cascade_region_t *r, const cascade_component_t *c);
/* Whether a kernel can keep the state; whether one sweep is cheaper. */
bool cascade_fits(cascade_region_t *r);
bool cascade_pays(cascade_region_t *r);
/* Bytes that members read along the axis: in one sweep, each in a sweep of
 * its own, and those that one of them reads after others did. */
const ix_poly_t *cascade_bytes_once(const cascade_region_t *r);
const ix_poly_t *cascade_bytes_apart(const cascade_region_t *r);
const ix_poly_t *cascade_bytes_again(const cascade_region_t *r,
                                     const cascade_member_t *m);

/* ---- cascade_remark.c ---- */

void cascade_remark_done(cascade_region_t *r, bool is_streamed);
void cascade_remark_escapes(const cascade_region_t *r);
void cascade_remark_refused(const cascade_region_t *r);
void cascade_remark_crossing(const cascade_region_t *r);

/* ---- cascade_points.c: before regions are looked for ---- */

/* A point x[n, y[n]] of a value that is swept becomes a sum over the axis
 * that picks it; true if there was one. */
bool cascade_name_points(pass_state_t *state, tir_module_t *module,
                         tir_func_t *func);

/* ---- cascade_tiles.c ---- */

void cascade_adopt_tiles(pass_state_t *state, tir_module_t *module,
                         tir_func_t *func);

/* ---- cascade_finish.c: behind the sweeps ---- */

/* A map that a member and a result shared has the result as its only reader
 * now, and is computed there. */
void cascade_inline_finish(pass_state_t *state, tir_module_t *module,
                           tir_func_t *func);

/* ---- cascade_cut.c: last ---- */

/* Sweeps of few rows over a long axis become states of splits and their
 * merge; true if there was one. */
bool cascade_cut(pass_state_t *state, tir_module_t *module,
                 tir_func_t *func);

/* The two halves of a sweep whose number of rows, or length, only dims tell. */
typedef struct cascade_halves {
  const ix_poly_t *when;  /* 1 if they are few and it is long, else 0 */
  const ix_poly_t *rows, *count; /* of rows; of splits */
  tir_index_t *split;
  uint32_t part_count, merge_count, state_count;
  tir_node_t **parts;     /* the sweep of each split */
  tir_node_t **merge;     /* merge_count - the finishing maps behind it */
  tir_value_t **states;   /* what the one leaves to the other */
} cascade_halves_t;
/* For lowering: of a cascade of floats and the maps behind it, as a group has
 * them. Nodes are copies in the module's arena; outputs of the merge and of
 * the maps are those of the group. False: no dims would choose it. */
bool cascade_find_halves(td_task_t *task, tir_module_t *module,
                         const ir_target_t *target,
                         tir_node_t *const *nodes, uint32_t count,
                         cascade_halves_t *out);

#endif
