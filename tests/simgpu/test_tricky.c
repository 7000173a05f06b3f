/* Correct kernels that a careless checker would accuse, each beside the edit
   that makes it wrong (kernels/tricky.cu): no finding in any schedule for the
   first, the named check for the second. */
#include "cu_lab.h"

typedef void (*want_t)(const uint32_t *in, uint32_t *out);

typedef struct tricky_t {
  const char *name;
  unsigned grid, block;
  uint32_t words; /* of out, which is exactly as large */
  want_t want;
  struct {
    int number;
    const char *id; /* NULL: the values differ */
  } mutants[3];
} tricky_t;

#define EACH for (uint32_t t = 0; t < 128; t++)

static void tile_loop(const uint32_t *in, uint32_t *out) {
  EACH for (uint32_t k = 0; k < 4; k++)
    out[t] = out[t] * 3 + in[k * 128 + 127 - t];
}
static void two_buffers(const uint32_t *in, uint32_t *out) {
  EACH for (uint32_t k = 0; k < 6; k++)
    out[t] = out[t] * 3 + in[k * 128 + (t + 64) % 128];
}
static void same(const uint32_t *in, uint32_t *out) {
  memcpy(out, in, 512);
}
static void tail(const uint32_t *in, uint32_t *out) {
  for (int i = 0; i < 1000; i++) out[i] = in[i] + 1;
}
static void rows(const uint32_t *in, uint32_t *out) {
  for (uint32_t i = 0; i < 1024; i++) out[i / 32 * 4 + i % 4] += in[i];
}
static void accumulators(const uint32_t *in, uint32_t *out) {
  EACH out[in[t] % 16]++;
}
static uint32_t half_of(uint32_t n) { /* an integer below 2048 */
  uint32_t e = 25;
  if (!n) return 0;
  for (; n < 1024; n *= 2) e--;
  return e << 10 | (n & 1023);
}
static void pack(const uint32_t *in, uint32_t *out) {
  EACH out[t] = half_of(in[t] % 512) | half_of(in[t] / 512 % 512) << 16;
}
static void vectors(const uint32_t *in, uint32_t *out) {
  EACH out[t] = in[4 * t] ^ in[4 * t + 3];
}
static void warp_exchange(const uint32_t *in, uint32_t *out) {
  uint32_t v[128];
  same(in, out);
  for (int k = 0; k < 3; k++) {
    memcpy(v, out, sizeof v);
    EACH out[t] = v[t] * 3 + v[t % 2 ? t - 1 : t + 1];
  }
}
static void shuffles(const uint32_t *in, uint32_t *out) {
  EACH out[t] = in[t / 32 * 32 + (t % 32 < 16 ? 3 : 19)];
}
static void chain(const uint32_t *in, uint32_t *out) {
  for (uint32_t b = 0; b < 16; b++) {
    out[b] = 1;
    out[16 + b] = in[b] + (b ? out[15 + b] : 0);
  }
}
static void no_coherence(const uint32_t *in, uint32_t *out) {
  EACH out[t] = in[t] * 2, out[128 + t] = in[(t + 64) % 128];
}
static void pipeline(const uint32_t *in, uint32_t *out) {
  for (uint32_t t = 0; t < 64; t++)
    out[64 + t] = in[t] + in[64 + t] + in[128 + t];
}
static void divisions(const uint32_t *in, uint32_t *out) {
  EACH out[t] = in[t] / (t + 1);
}
static void own_array(const uint32_t *in, uint32_t *out) {
  EACH {
    static const uint32_t weight[8] = {1, 0, 0, 3, 0, 0, 0, 5};
    out[t] = in[t] + 3 * (in[t] / 8) + 5 * (in[t] / 128) +
             weight[in[t] % 8];
  }
}
static void last_block(const uint32_t *in, uint32_t *out) {
  for (uint32_t i = 0; i < 256; i++) out[1] += in[i], out[2 + i / 32] += in[i];
  out[0] = 8;
}
static void holes(const uint32_t *in, uint32_t *out) {
  EACH {
    uint32_t o = t % 2 ? t - 1 : t + 1;
    out[t] = in[o] + o + in[o] + 1 + 1;
  }
}
static void partly_set(const uint32_t *in, uint32_t *out) {
  EACH out[t] = in[t / 2 * 2 + 1] > 1000 ? 5 : 9;
}
static void bytes(const uint32_t *in, uint32_t *out) {
  EACH out[t] = in[t / 4 * 4 + 3 - t % 4] % 256;
}
static void neighbours(const uint32_t *in, uint32_t *out) {
  for (uint32_t b = 0; b < 16; b++) out[b / 2] |= in[b] % 65536 << b % 2 * 16;
}

static void shared_flag(const uint32_t *in, uint32_t *out) {
  EACH out[t] = in[t % 32] * 3;
}
static void shared_fences(const uint32_t *in, uint32_t *out) {
  for (uint32_t t = 32; t < 64; t++)
    for (uint32_t k = 0; k < 3; k++)
      out[t] = out[t] * 5 + in[32 * k + (t ^ 33)];
}
static void shared_lock(const uint32_t *in, uint32_t *out) {
  for (uint32_t w = 0; w < 4; w++) {
    out[0] += in[32 * w];
    out[1] += in[32 * w + 1] * (w ? 2 * w + 1 : 1);
  }
}

static const tricky_t table[] = {
    {"tile_loop", 1, 128, 128, tile_loop,
     {{1, "race.shared"}, {2, "race.shared"}, {0, NULL}}},
    {"two_buffers", 1, 128, 128, two_buffers, {{3, "race.shared"}}},
    {"early_exit", 1, 128, 128, same, {{4, "bar.diverged"}}},
    {"tail", 8, 128, 1000, tail, {{5, "mem.bounds"}}},
    {"rows", 1, 128, 128, rows, {{6, "mem.bounds"}}},
    {"accumulators", 1, 128, 16, accumulators, {{7, "init.use"}}},
    {"pack", 1, 128, 128, pack, {{8, NULL}}},
    {"vectors", 1, 128, 128, vectors, {{9, "mem.align"}}},
    {"warp_exchange", 1, 128, 128, warp_exchange, {{10, "race.warp"}}},
    {"shuffles", 1, 128, 128, shuffles,
     {{11, "warp.mask"}, {12, "warp.inactive"}}},
    {"chain", 16, 32, 32, chain, {{0, NULL}}},
    {"no_coherence", 1, 128, 256, no_coherence, {{14, "mem.nc"}}},
    {"pipeline", 1, 128, 128, pipeline, {{15, "hang"}}},
    {"divisions", 1, 128, 128, divisions, {{16, "num.div"}}},
    {"own_array", 1, 128, 128, own_array, {{17, "mem.bounds"}}},
    {"last_block", 8, 32, 10, last_block, {{0, NULL}}},
    {"holes", 1, 128, 128, holes, {{19, "init.use"}}},
    {"partly_set", 1, 128, 128, partly_set, {{20, "init.use"}}},
    {"bytes", 1, 128, 128, bytes, {{21, "race.shared"}}},
    {"neighbours", 16, 32, 8, neighbours, {{22, "race.global"}}},
    {"dead_path", 1, 128, 128, same, {{24, "mem.bounds"}}},
    {"shared_flag", 1, 128, 128, shared_flag,
     {{25, "race.shared"}, {26, "race.shared"}, {27, "race.shared"}}},
    {"shared_fences", 1, 128, 64, shared_fences,
     {{28, "race.shared"}, {29, "race.shared"}, {30, NULL}}},
    {"shared_lock", 1, 128, 2, shared_lock,
     {{31, "race.shared"}, {32, "race.shared"}}}};
#define ROWS (sizeof table / sizeof *table)

static lab_t lab;
static cu_nvrtc_t nvrtc;
static bool has_nvrtc;

static int setup(void **state) {
  (void)state;
  has_nvrtc = cu_nvrtc_open(&nvrtc) && cu_include();
  lab_open(&lab, "model:a100,budget:3000000");
  return 0;
}

/* Runs one kernel; true if its values are right. */
static bool run(const tricky_t *k, rcuda_module_t *m, int *code) {
  uint32_t in[CU_IN], out[1024] = {0}, want[1024] = {0};
  uint64_t state = 5;
  for (size_t i = 0; i < CU_IN; i++) in[i] = (uint32_t)lab_random(&state);
  uint64_t pin = lab_copy_in(&lab, in, sizeof in);
  uint64_t pout = lab_copy_in(&lab, out, k->words * 4);
  void *params[] = {&pin, &pout};
  *code = lab_launch(&lab, lab_func(&lab, m, k->name), k->grid, k->block, 0,
                     params);
  if (!*code) *code = lab.cuMemcpyDtoH_v2(out, pout, k->words * 4);
  k->want(in, want);
  return memcmp(out, want, k->words * 4) == 0;
}

static void correct_ones(void **state) {
  (void)state;
  static const char *const modes[] = {
      "order:rr,preempt:0", "order:reverse", "order:random,seed:3",
      "preempt:3,order:rr", "order:random,preempt:11,seed:8",
      "order:rr,preempt:0,diverge:its,seed:1", "diverge:its,seed:2",
      "diverge:its,order:random,preempt:7,seed:3"};
  char report[4096];
  if (!has_nvrtc) skip();
  char *ptx = cu_compile(&nvrtc, "tricky.cu", "compute_80");
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
    assert_int_equal(lab.simgpu_configure(modes[i]), 0);
    lab_renew(&lab);
    rcuda_module_t *m = lab_load(&lab, ptx);
    for (size_t k = 0; k < ROWS; k++) {
      int code;
      bool right = run(&table[k], m, &code);
      lab_report(&lab, report, sizeof report);
      if (code || !right || report[0])
        fail_msg("%s, %s: result %d, values %s %s", table[k].name, modes[i],
                 code, right ? "right" : "wrong", report);
    }
    lab_renew(&lab);
  }
  free(ptx);
  lab.simgpu_configure("order:rr,preempt:0,diverge:stack,seed:1");
}

static void mutants(void **state) {
  (void)state;
  static const char *const modes[] = {"diverge:its,seed:1",
                                      "diverge:its,seed:2",
                                      "diverge:stack,seed:1"};
  char report[8192], id[64], define[32];
  int seen = 0, missed = 0;
  if (!has_nvrtc) skip();
  for (size_t k = 0; k < ROWS; k++) {
    for (int n = 0; n < 3 && table[k].mutants[n].number; n++) {
      const char *check = table[k].mutants[n].id;
      int code;
      snprintf(define, sizeof define, "-DMUTANT=%d",
               table[k].mutants[n].number);
      char *ptx = cu_compile_with(&nvrtc, "tricky.cu", "compute_80", define);
      for (size_t d = 0; d < sizeof modes / sizeof *modes; d++) {
        assert_int_equal(lab.simgpu_configure(modes[d]), 0);
        lab_renew(&lab);
        bool right = run(&table[k], lab_load(&lab, ptx), &code);
        lab_report(&lab, report, sizeof report);
        snprintf(id, sizeof id, "\"id\":\"%s\"", check ? check : "none");
        if (check ? strstr(report, id) != NULL : !code && !right) continue;
        missed++;
        print_error("mutant %d of %s is not caught by %s in %s: result %d, "
                    "values %s %s\n", table[k].mutants[n].number,
                    table[k].name, check ? check : "its values", modes[d],
                    code, right ? "right" : "wrong", report);
      }
      free(ptx);
      seen++;
    }
  }
  assert_int_equal(missed, 0);
  assert_int_equal(seen, 29);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(correct_ones),
                                     cmocka_unit_test(mutants)};
  return cmocka_run_group_tests_name("simgpu.tricky", tests, setup, NULL);
}
