/* planner.h: what the files of the memory planner share (plan_memory.c
 * plan_lives.c plan_copies.c plan_offsets.c).
 *
 * Positions number the steps in text order; a loop has one for its head and
 * one for its end, nodes of one kernel have one together.  A value lives from
 * the position that defines it to the last that reads it; a read inside a
 * loop of a value from outside lasts to the loop's end, for the next
 * iteration reads it again. */
#ifndef TDSL_PASSES_PLANNER_H
#define TDSL_PASSES_PLANNER_H

#include "passes/plan/plan_memory.h"

#define PLANNER_NONE UINT32_MAX

typedef struct planner_life {
  const tir_value_t *value; /* NULL: has no storage of its own */
  uint32_t first, last;
  bool is_stored;           /* exists in memory between kernels */
} planner_life_t;

/* Values that share storage.  Sets are merged, never split. */
typedef struct planner_set {
  TD_VEC(uint32_t) members; /* value ids; empty: merged into another */
  int32_t slot;             /* the caller's memory; -1: the arena */
  bool is_fixed;            /* an IN slot: must not be written */
} planner_set_t;

/* A stretch of positions in which a buffer is in use. */
typedef struct planner_span {
  uint32_t first, last;
} planner_span_t;

typedef struct planner {
  td_task_t *task;
  td_arena_t *arena;
  ix_pool_t *pool;
  const tir_func_t *func;
  uint32_t count;           /* of values */
  planner_life_t *lives;    /* by value id */
  planner_set_t *sets;      /* by id of the set's first value */
  uint32_t *set_of;         /* by value id */
  TD_VEC(uint32_t) order;   /* value ids by definition */
  TD_VEC(mem_buffer_t) buffers;
  TD_VEC(planner_span_t) spans; /* by buffer */
  td_map_t node_position;   /* node -> its position (loop: of its end) */
  td_map_t group_position;  /* group -> that of its nodes */
  td_map_t loop_head;       /* loop -> position of its head */
  uint32_t position;        /* the last one given out */
  mem_layout_t *layout;
  bool separate;
} planner_t;

/* ---- plan_lives.c ---- */
void planner_find_lives(planner_t *p, const pass_kernels_t *kernels);
uint32_t planner_position(const planner_t *p, const tir_node_t *n);
uint32_t planner_head(const planner_t *p, const tir_node_t *loop);

/* ---- plan_copies.c ---- */
/* Fills the copies of loops and results; may add buffers. */
void planner_make_copies(planner_t *p);

/* ---- plan_offsets.c ---- */
/* A buffer of a value's type; returns its number. */
uint32_t planner_add_buffer(planner_t *p, const tir_value_t *v, int32_t slot,
                            planner_span_t span);
void planner_place_buffers(planner_t *p);
/* report_large.c: W03 for large values without a written type. */
void planner_report_large(planner_t *p);

#endif
