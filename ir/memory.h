/* memory.h: where the values of a function live at run time.
 *
 * Made by passes/plan/plan_memory.c, read by codegen/build_plan.c.  Values
 * that share storage (versions of one tensor updated in place, carried
 * values of a loop) are one buffer.  Lifetime: the arena of the compile. */
#ifndef TDSL_IR_MEMORY_H
#define TDSL_IR_MEMORY_H

#include "ir/tir.h"

typedef struct mem_buffer {
  const char *name;
  tdsl_dtype_t dtype;
  uint32_t rank;
  const ix_poly_t *dims[IX_MAX_RANK];
  const ix_poly_t *bytes;
  int32_t slot;            /* the caller's memory of this slot; -1: arena */
  const ix_poly_t *offset; /* arena: a multiple of 64 */
  bool is_used;
} mem_buffer_t;

/* One copy that the plan must make: of values whose storage could not be
 * shared. */
typedef struct mem_copy {
  uint32_t to, from; /* buffers */
} mem_copy_t;

typedef TD_VEC(mem_copy_t) mem_copies_t;

typedef struct mem_loop {
  const tir_node_t *node;
  mem_copies_t before; /* init values, in order */
  mem_copies_t after;  /* at the end of each iteration, in order */
} mem_loop_t;

typedef struct mem_layout {
  const tir_func_t *func;
  uint32_t buffer_count;
  mem_buffer_t *buffers;
  uint32_t *value_buffer;  /* by tir_value id; UINT32_MAX: none */
  td_map_t update_copy;    /* UPDATE node -> mem_copy_t*, absent: in place */
  td_map_t loops;          /* LOOP node -> mem_loop_t* */
  mem_copies_t last;       /* into result slots, after everything */
  const ix_poly_t *arena_bytes;
} mem_layout_t;

#endif
