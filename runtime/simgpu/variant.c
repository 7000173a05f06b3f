/* Picks the handlers built for the best instruction set of this host. All
   variants give the same bits; TDSL_SIM_VARIANTS says which were built. */
#include "runtime/simgpu/decode.h"

#ifdef SIM_HAVE_X86
extern const sim_fn_t sim_table_v2[SIM_HANDLER_COUNT];
extern const sim_fn_t sim_table_v3[SIM_HANDLER_COUNT];
extern const sim_fn_t sim_table_v4[SIM_HANDLER_COUNT];

static int level(void) {
  __builtin_cpu_init();
  bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
            __builtin_cpu_supports("bmi2");
  bool v4 = v3 && __builtin_cpu_supports("avx512f") &&
            __builtin_cpu_supports("avx512bw") &&
            __builtin_cpu_supports("avx512dq") &&
            __builtin_cpu_supports("avx512vl");
  return v4 ? 4 : v3 ? 3 : 2;
}

const sim_fn_t *sim_variant(unsigned wanted) {
  int n = wanted ? (int)wanted : level();
  return n == 4 ? sim_table_v4 : n == 3 ? sim_table_v3 : sim_table_v2;
}

bool sim_variant_exists(unsigned wanted) {
  return wanted >= 2 && wanted <= (unsigned)level();
}

const char *sim_variant_name(unsigned wanted) {
  int n = wanted ? (int)wanted : level();
  return n == 4 ? "x86-64-v4" : n == 3 ? "x86-64-v3" : "x86-64-v2";
}
#else
extern const sim_fn_t sim_table_base[SIM_HANDLER_COUNT];

const sim_fn_t *sim_variant(unsigned wanted) {
  (void)wanted;
  return sim_table_base;
}

bool sim_variant_exists(unsigned wanted) {
  (void)wanted;
  return false;
}

const char *sim_variant_name(unsigned wanted) {
  (void)wanted;
  return "base";
}
#endif
