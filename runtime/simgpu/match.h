/* Finds the row of ptx_ops.def for an instruction's name. */
#ifndef SIM_MATCH_H
#define SIM_MATCH_H

#include "runtime/simgpu/decode.h"

#define SIM_MAX_QUALIFIERS 16

typedef struct sim_op_t {
  const char *base, *types, *need, *may, *operands;
  uint16_t handler;
  uint8_t cls, flops;
  uint16_t target;
} sim_op_t;

/* An instruction's name, split and matched. */
typedef struct sim_form_t {
  const sim_op_t *op;
  td_str_t base;
  td_str_t qualifiers[SIM_MAX_QUALIFIERS]; /* types included */
  uint32_t count;
  ptx_type_t types[4]; /* those that are types, in order */
  uint32_t type_count;
  uint32_t shape[3]; /* m, n, k of a matrix instruction */
} sim_form_t;

/* False if no row matches: *near then names the nearest known form. */
bool sim_match(td_str_t name, sim_form_t *form, char *near_text,
               size_t near_bytes);

bool sim_form_has(const sim_form_t *form, const char *qualifier);

enum {
#define SIM_OP(base, types, need, may, operands, handler, cls, flops, target) \
  +1
  SIM_OP_COUNT = 0
#include "runtime/simgpu/ptx_ops.def"
#undef SIM_OP
};

/* Rows in order, for the lint that wants a test for each; NULL at the end. */
const sim_op_t *sim_op_at(size_t index);

#endif
