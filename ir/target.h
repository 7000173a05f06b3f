/* target.h: machine rows.  Passes read quantities from a row and never test
 * an architecture by name. */
#ifndef TDSL_IR_TARGET_H
#define TDSL_IR_TARGET_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/str.h"

typedef struct ir_target {
  const char *name;      /* "x86-64-v3" */
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

#endif
