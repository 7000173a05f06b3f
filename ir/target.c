/* target.c: finding machine rows. */
#include "ir/target.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

enum {
#define CPU(id, ...)
#define GPU(id, ...)
#define RESIDENT(id, warps, blocks, registers, shared, reserve) \
  WARPS_##id = warps, BLOCKS_##id = blocks, REGISTERS_##id = registers, \
  SHARED_##id = shared, RESERVE_##id = reserve,
#define RATES(id, stream, flops, special, launch) \
  STREAM_##id = stream, FLOPS_##id = flops, SPECIAL_##id = special, \
  LAUNCH_##id = launch,
#include "ir/target.def"
};

#define X86_64 "x86_64-unknown-linux-gnu"
#define AARCH64 "aarch64-unknown-linux-gnu"
#define RATES(id, ...)
#define RESIDENT(id, ...)
#define RESIDENT_OF(id) \
  WARPS_##id, BLOCKS_##id, REGISTERS_##id, SHARED_##id, RESERVE_##id
#define RATES_OF(id) STREAM_##id, FLOPS_##id, SPECIAL_##id, LAUNCH_##id
static const ir_target_t rows[] = {
#define CPU(id, name, triple, cpu, features, lanes, registers, fma, f16c,     \
            avx512, mr, nr, mc, nc, kc)                                       \
  {name, triple, cpu, features, lanes, registers, fma, f16c, avx512, mr, nr,  \
   mc, nc, kc, 0, 0, 0, 0, 0, 0, false, 0, 0, 0, 0, 0, RATES_OF(id)},
#define GPU(id, name, sm, warp, shared, sms, most, params, async)             \
  {name, "",   "",     "",  warp,   255,    1, 1, 0, 0, 0, 0, 0, 0,            \
   sm,   warp, shared, sms,  most, params, async, RESIDENT_OF(id),             \
   RATES_OF(id)},
#include "ir/target.def"
};

enum { ROW_COUNT = sizeof rows / sizeof rows[0] };

const ir_target_t *ir_target_get(uint32_t index) {
  return index < ROW_COUNT ? &rows[index] : NULL;
}

uint32_t ir_target_worker_shared(const ir_target_t *target) {
  uint32_t third = target->shared_most / 3;
  return third > target->shared ? third / 16 * 16 : target->shared;
}

/* A warp has registers of one thread by eights, of all its lanes. */
uint32_t ir_target_resident(const ir_target_t *target, uint32_t threads,
                            uint32_t registers, uint32_t shared,
                            ir_limit_t *limit) {
  uint32_t warps = (threads + target->warp - 1) / target->warp;
  uint32_t of_warp = (registers + 7) / 8 * 8 * target->warp;
  uint32_t most[4] = {
      [IR_LIMIT_REGISTERS] = of_warp == 0
                                 ? target->sm_blocks
                                 : target->sm_registers / of_warp / warps,
      [IR_LIMIT_SHARED] = target->sm_blocks,
      [IR_LIMIT_WARPS] = target->sm_warps / warps,
      [IR_LIMIT_BLOCKS] = target->sm_blocks};
  if (shared + target->reserve > 0) {
    most[IR_LIMIT_SHARED] = target->sm_shared / (shared + target->reserve);
  }
  *limit = IR_LIMIT_BLOCKS;
  for (int i = IR_LIMIT_REGISTERS; i < IR_LIMIT_BLOCKS; i++) {
    if (most[i] < most[*limit]) *limit = (ir_limit_t)i;
  }
  return most[*limit];
}

const ir_target_t *ir_target_gpu(uint32_t sm) {
  const ir_target_t *best = NULL;
  for (uint32_t i = 0; i < ROW_COUNT; i++) {
    if (rows[i].sm == 0 || rows[i].sm > sm) continue;
    if (best == NULL || rows[i].sm > best->sm) best = &rows[i];
  }
  return best;
}

const ir_target_t *ir_target_find(td_str_t name) {
  for (uint32_t i = 0; i < ROW_COUNT; i++) {
    if (td_str_eqc(name, rows[i].name)) return &rows[i];
  }
  return NULL;
}

#if defined(__x86_64__)
/* clang 14 has no __builtin_cpu_supports("f16c"). */
static bool has_f16c(void) {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

const ir_target_t *ir_target_host(void) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512cd")) {
    return ir_target_find(td_str("x86-64-v4"));
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("bmi2") && has_f16c()) {
    return ir_target_find(td_str("x86-64-v3"));
  }
  return ir_target_find(td_str("x86-64-v2"));
#else
  return ir_target_find(td_str("arm64"));
#endif
}
