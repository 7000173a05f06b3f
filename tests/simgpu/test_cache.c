/* The cache of a device with 4 MiB of it and one block of 1024 threads an SM:
   40 blocks advance together. Blocks read 64 KiB each; which ones, decides
   what stays. Figures by hand from the rules of the model. */
#include "sim_lab.h"

static lab_t lab;

/* Block b reads chunk b mod n: 16 loads of 4 KiB. */
static const char text[] =
    PTX_HEAD("sm_75")
    ".visible .entry k(.param .u64 pin, .param .u32 pn) {\n"
    ".reg .pred %p; .reg .b32 %r<12>; .reg .b64 %d<8>;\n"
    "ld.param.u64 %d1, [pin]; ld.param.u32 %r1, [pn];\n"
    "mov.u32 %r2, %ctaid.x; rem.u32 %r2, %r2, %r1; mov.u32 %r3, %tid.x;\n"
    "mul.wide.u32 %d2, %r2, 65536; add.s64 %d1, %d1, %d2;\n"
    "mul.wide.u32 %d2, %r3, 4; add.s64 %d1, %d1, %d2; mov.u32 %r4, 0;\n"
    "L: ld.global.u32 %r5, [%d1]; add.s64 %d1, %d1, 4096;\n"
    "add.u32 %r4, %r4, 1; setp.lt.u32 %p, %r4, 16; @%p bra L; ret; }";

static void sizes(void **state) {
  (void)state;
  static const struct {
    uint32_t chunks, blocks;
    uint64_t fetched; /* in chunks */
  } rows[] = {
      {1, 8, 1},     {32, 64, 32},   /* all fits */
      {64, 128, 64},                 /* 4 MiB exactly */
      {128, 128, 128},               /* read once */
      {128, 256, 256},               /* too large, and least recently used
                                        goes: nothing is ever found again */
      {80, 160, 112}, /* two steps of 2.5 MiB in turn: of each the first
                         1 MiB has gone when it comes again */
  };
  size_t bytes = (size_t)128 << 16;
  uint64_t in = lab_alloc(&lab, bytes);
  assert_int_equal(lab.cuMemsetD32_v2(in, 1, bytes / 4), 0);
  rcuda_func_t *f = lab_func(&lab, lab_load(&lab, text), "k");
  static const char *const modes[] = {"threads:1", "threads:2,order:random"};
  for (size_t i = 0; i < 2 * sizeof rows / sizeof *rows; i++) {
    uint32_t n = rows[i / 2].chunks;
    void *params[] = {&in, &n};
    assert_int_equal(lab.simgpu_configure(modes[i % 2]), 0);
    assert_int_equal(lab_launch(&lab, f, rows[i / 2].blocks, 1024, 0, params),
                     0);
    uint64_t fetched = rows[i / 2].fetched << 16;
    uint64_t asked = (uint64_t)rows[i / 2].blocks << 16;
    assert_int_equal(lab_counter(&lab, "global.unique_read"),
                     (uint64_t)(n < rows[i / 2].blocks ? n
                                                       : rows[i / 2].blocks)
                         << 16);
    assert_int_equal(lab_counter(&lab, "hbm.model_read"), fetched);
    assert_int_equal(lab_counter(&lab, "l2.miss"), fetched / 32);
    assert_int_equal(lab_counter(&lab, "l2.hit"), (asked - fetched) / 32);
  }
}

static int setup(void **state) {
  (void)state;
  lab_open(&lab, "model:t4");
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(sizes)};
  return cmocka_run_group_tests_name("simgpu.cache", tests, setup, NULL);
}
