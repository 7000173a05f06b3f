/* target.h: machine rows.  Passes read quantities from a row and never test
 * an architecture by name. */
#ifndef TDSL_IR_TARGET_H
#define TDSL_IR_TARGET_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/str.h"

typedef struct ir_target {
  const char *name;      /* "x86-64-v3" */
  const char *triple;    /* of LLVM; GPU: "" */
  const char *llvm_cpu;  /* -mcpu of the emitter */
  const char *features;
  uint32_t lanes, registers;
  bool has_fma, has_f16c, has_avx512;
  uint32_t mr, nr, mc, nc, kc;
  uint32_t sm;           /* GPU: ten times the compute capability; CPU: 0 */
  uint32_t warp;         /* GPU: lanes of a warp; CPU: 0 */
  uint32_t shared, sms;  /* GPU: bytes of a block, multiprocessors */
  uint32_t shared_most;  /* GPU: bytes of a block that asks for them */
  uint32_t param_bytes;  /* GPU: of a kernel's arguments */
  bool has_async;        /* GPU: copies that a thread does not wait for */
  /* GPU: of a multiprocessor, of all its blocks; `reserve` of each */
  uint32_t sm_warps, sm_blocks, sm_registers, sm_shared, reserve;
  /* GB/s, 10^9 operations a second, the same of functions, ns */
  uint32_t stream, flops, special, launch;
} ir_target_t;

/* NULL if there is no row of that name. */
const ir_target_t *ir_target_find(td_str_t name);
/* Row for this host: the widest whose instructions the CPU has. */
const ir_target_t *ir_target_host(void);
/* The newest GPU row not above `sm`; NULL: older than all. */
const ir_target_t *ir_target_gpu(uint32_t sm);
/* Row by number, NULL past the last; for listings. */
const ir_target_t *ir_target_get(uint32_t index);
/* GPU: shared bytes that one worker may have for itself: those that a block
 * has without asking, or more where three such blocks fit a multiprocessor. */
uint32_t ir_target_worker_shared(const ir_target_t *target);

typedef enum ir_limit {
  IR_LIMIT_REGISTERS, IR_LIMIT_SHARED, IR_LIMIT_WARPS, IR_LIMIT_BLOCKS,
} ir_limit_t;

/* GPU: blocks of a kernel that a multiprocessor holds at a time, and what
 * there would have to be more of; 0: none fits. */
uint32_t ir_target_resident(const ir_target_t *target, uint32_t threads,
                            uint32_t registers, uint32_t shared,
                            ir_limit_t *limit);

#endif
