/* Exchanges between lanes, barriers, atomics, memory spaces, calls: against
   values worked out here lane by lane. */
#include "sim_lab.h"

static lab_t lab;

#define HEAD                                                                  \
  PTX_HEAD("sm_90")                                                           \
  ".visible .entry k(.param .u64 pin, .param .u64 pout) {\n"                  \
  ".shared .align 16 .b8 s[4096]; .local .align 16 .b8 l[64];\n"              \
  ".reg .pred %p, %q; .reg .b16 %h<8>; .reg .b32 %r<32>; .reg .f32 %f<8>;\n"  \
  ".reg .b64 %d<16>; .reg .f64 %e<4>;\n"                                      \
  "ld.param.u64 %d1, [pin]; ld.param.u64 %d2, [pout];\n"                      \
  "mov.u32 %r1, %tid.x; mov.u32 %r8, %ctaid.x; mov.u32 %r9, %ntid.x;\n"       \
  "mad.lo.u32 %r10, %r8, %r9, %r1; mul.wide.u32 %d3, %r10, 4;\n"              \
  "add.s64 %d4, %d1, %d3; add.s64 %d5, %d2, %d3;\n"                           \
  "mov.u32 %r2, s; shl.b32 %r3, %r1, 2; add.s32 %r3, %r2, %r3;\n"             \
  "ld.global.u32 %r4, [%d4];\n"
#define TAIL "\nst.global.u32 [%d5], %r5; ret; }"

/* Runs the body over n threads; in and out are words. */
static void run(const char *body, unsigned grid, unsigned block,
                const uint32_t *in, uint32_t *out, size_t words) {
  char text[8192];
  snprintf(text, sizeof text, "%s%s%s", HEAD, body, TAIL);
  rcuda_module_t *m = lab_load(&lab, text);
  uint64_t pin = lab_copy_in(&lab, in, words * 4);
  uint64_t pout = lab_copy_in(&lab, out, words * 4);
  void *params[] = {&pin, &pout};
  int code = lab_launch(&lab, lab_func(&lab, m, "k"), grid, block, 0, params);
  if (code) {
    char report[2048];
    fail_msg("%s: %d %s", body, code, lab_report(&lab, report,
                                                 sizeof report));
  }
  lab_copy_out(&lab, out, pout, words * 4);
  lab.cuMemFree_v2(pin);
  lab.cuMemFree_v2(pout);
  lab.cuModuleUnload(m);
}

static void fill(uint32_t *in, size_t n) {
  uint64_t s = 11;
  for (size_t i = 0; i < n; i++) in[i] = (uint32_t)lab_random(&s);
}

/* shfl: all modes, every pair of operand b and control c of a whole small
   domain (clamp 0..31 by segment sizes). */
static void shuffles(void **state) {
  (void)state;
  static const char *const modes[] = {"up", "down", "bfly", "idx"};
  uint32_t in[32], out[32];
  fill(in, 32);
  for (int mode = 0; mode < 4; mode++) {
    for (uint32_t width = 1; width <= 32; width *= 2) {
      for (uint32_t b = 0; b < 32; b += width > 8 ? 1 : 3) {
        uint32_t seg = (32 - width) & 31;
        uint32_t c = seg << 8 | (mode == 0 ? 0 : 31);
        char body[256];
        memset(out, 0, sizeof out);
        snprintf(body, sizeof body,
                 "shfl.sync.%s.b32 %%r5|%%p, %%r4, %u, %u, -1;\n"
                 "@!%%p xor.b32 %%r5, %%r5, 0x55555555;",
                 modes[mode], b, c);
        run(body, 1, 32, in, out, 32);
        for (uint32_t lane = 0; lane < 32; lane++) {
          /* in words: a segment of `width` lanes, positions inside it */
          uint32_t base = lane / width * width, at = lane % width, j = 0;
          bool valid = false;
          uint32_t k = mode == 3 ? b % width : b;
          if (mode == 0) valid = at >= k, j = lane - k;
          if (mode == 1) valid = at + k < width, j = lane + k;
          if (mode == 2) valid = (lane ^ k) < base + width, j = lane ^ k;
          if (mode == 3) valid = true, j = base + k;
          uint32_t want = valid ? in[j] : in[lane] ^ 0x55555555;
          if (out[lane] != want)
            fail_msg("%s b %u width %u lane %u: %x, not %x", modes[mode], b,
                     width, lane, out[lane], want);
        }
      }
    }
  }
}

static void votes(void **state) {
  (void)state;
  uint32_t in[32], out[32], ballot = 0;
  fill(in, 32);
  for (int i = 0; i < 32; i++) ballot |= (in[i] & 1) << i;
  static const char odd[] = "and.b32 %r6, %r4, 1; setp.eq.u32 %p, %r6, 1;\n";
  char body[512];
  snprintf(body, sizeof body, "%svote.sync.ballot.b32 %%r5, %%p, -1;", odd);
  run(body, 1, 32, in, out, 32);
  for (int i = 0; i < 32; i++) assert_int_equal(out[i], ballot);
  snprintf(body, sizeof body, "%svote.sync.ballot.b32 %%r5, !%%p, -1;", odd);
  run(body, 1, 32, in, out, 32);
  for (int i = 0; i < 32; i++) assert_int_equal(out[i], ~ballot);
  snprintf(body, sizeof body,
           "%svote.sync.any.pred %%q, %%p, -1; selp.u32 %%r5, 1, 0, %%q;\n"
           "vote.sync.all.pred %%q, %%p, -1; @%%q add.u32 %%r5, %%r5, 2;\n"
           "vote.sync.uni.pred %%q, %%p, -1; @%%q add.u32 %%r5, %%r5, 4;",
           odd);
  run(body, 1, 32, in, out, 32);
  for (int i = 0; i < 32; i++) assert_int_equal(out[i], 1);
  for (int i = 0; i < 32; i++) in[i] |= 1;
  run(body, 1, 32, in, out, 32);
  for (int i = 0; i < 32; i++) assert_int_equal(out[i], 7);
  /* a half of the warp votes alone */
  snprintf(body, sizeof body,
           "mov.u32 %%r5, 0; setp.lt.u32 %%q, %%r1, 12; @!%%q bra E;\n"
           "%svote.sync.ballot.b32 %%r5, %%p, 0xFFF;\n"
           "activemask.b32 %%r7; sub.u32 %%r7, %%r7, 0xFFF;\n"
           "add.u32 %%r5, %%r5, %%r7;\nE:", odd);
  run(body, 1, 32, in, out, 32);
  for (int i = 0; i < 32; i++)
    assert_int_equal(out[i], i < 12 ? 0xFFF : 0);
}

static void matches(void **state) {
  (void)state;
  uint32_t in[32], out[32];
  for (uint32_t i = 0; i < 32; i++) in[i] = i * i % 7;
  run("match.any.sync.b32 %r5, %r4, -1;", 1, 32, in, out, 32);
  for (int i = 0; i < 32; i++) {
    uint32_t want = 0;
    for (int j = 0; j < 32; j++) want |= (uint32_t)(in[j] == in[i]) << j;
    assert_int_equal(out[i], want);
  }
  run("match.all.sync.b32 %r5|%p, %r4, -1; @%p mov.u32 %r5, 3;", 1, 32, in,
      out, 32);
  assert_int_equal(out[0], 0);
  for (int i = 0; i < 32; i++) in[i] = 9;
  run("match.all.sync.b32 %r5|%p, %r4, -1; @!%p mov.u32 %r5, 3;", 1, 32, in,
      out, 32);
  assert_int_equal(out[31], UINT32_MAX);
  run("elect.sync %r5|%p, -1; @%p add.u32 %r5, %r5, 100;", 1, 32, in, out,
      32);
  assert_int_equal(out[0], 100);
  assert_int_equal(out[1], 0);
}

/* elect: one lane of the mask, told to all, the same for the same mask; in
   order the lowest, in a drawn order one that depends on the seed. */
static void elections(void **state) {
  (void)state;
  static const char *const masks[] = {"-1", "0xf0f0", "0x80000000"};
  static const uint32_t bits[] = {UINT32_MAX, 0xf0f0, 0x80000000};
  uint32_t in[32] = {0}, out[32], seen[3] = {0};
  for (unsigned seed = 0; seed < 40; seed++) {
    char mode[64];
    snprintf(mode, sizeof mode, "order:%s,seed:%u",
             seed ? "random" : "reverse", seed);
    assert_int_equal(lab.simgpu_configure(mode), 0);
    for (int k = 0; k < 3; k++) {
      char body[512];
      /* who is elected, twice; lanes outside the mask say 99 */
      snprintf(body, sizeof body,
               "mov.u32 %%r5, 99; mov.u32 %%r11, 1; shl.b32 %%r11, %%r11, "
               "%%r1; and.b32 %%r11, %%r11, %s; setp.ne.u32 %%q, %%r11, 0;\n"
               "@!%%q bra DONE;\n"
               "elect.sync %%r5|%%p, %s; @%%p add.u32 %%r5, %%r5, 1000;\n"
               "elect.sync %%r6|%%p, %s; @%%p add.u32 %%r5, %%r5, 2000;\n"
               "DONE:", masks[k], masks[k], masks[k]);
      run(body, 1, 32, in, out, 32);
      uint32_t lane = 99;
      for (uint32_t l = 0; l < 32; l++)
        if (out[l] >= 1000 && out[l] != 99) lane = l;
      assert_in_range(lane, 0, 31);
      assert_true(bits[k] >> lane & 1);
      if (seed == 0) assert_int_equal(lane, __builtin_ctz(bits[k]));
      seen[k] |= 1u << lane;
      for (uint32_t l = 0; l < 32; l++)
        assert_int_equal(out[l], bits[k] >> l & 1
                                     ? lane + (l == lane ? 3000 : 0)
                                     : 99);
    }
  }
  lab.simgpu_configure("order:rr,seed:1");
  assert_true(__builtin_popcount(seen[0]) > 10);
  assert_int_equal(seen[1], 0xf0f0);
}

static void reductions(void **state) {
  (void)state;
  uint32_t in[32], out[32], sum = 0, low = UINT32_MAX, all = UINT32_MAX,
                            any = 0, odd = 0;
  int32_t top = INT32_MIN;
  fill(in, 32);
  for (int i = 0; i < 32; i++) {
    sum += in[i];
    if (in[i] < low) low = in[i];
    if ((int32_t)in[i] > top) top = (int32_t)in[i];
    all &= in[i];
    any |= in[i];
    odd ^= in[i];
  }
  static const char *const bodies[] = {"add.u32", "min.u32", "max.s32",
                                       "and.b32", "or.b32", "xor.b32"};
  uint32_t wants[] = {sum, low, (uint32_t)top, all, any, odd};
  for (int k = 0; k < 6; k++) {
    char body[64];
    snprintf(body, sizeof body, "redux.sync.%s %%r5, %%r4, -1;", bodies[k]);
    run(body, 1, 32, in, out, 32);
    for (int i = 0; i < 32; i++) assert_int_equal(out[i], wants[k]);
  }
}

/* A block's reduction by a tree in shared memory, under every order. */
static void barriers(void **state) {
  (void)state;
  static const char tree[] =
      "st.shared.u32 [%r3], %r4; mov.u32 %r6, 128;\n"
      "L: bar.sync 0; setp.lt.u32 %p, %r1, %r6; @!%p bra N;\n"
      "shl.b32 %r7, %r6, 2; add.u32 %r7, %r3, %r7;\n"
      "ld.shared.u32 %r11, [%r3]; ld.shared.u32 %r12, [%r7];\n"
      "add.u32 %r11, %r11, %r12; st.shared.u32 [%r3], %r11;\n"
      "N: shr.u32 %r6, %r6, 1; setp.ne.u32 %q, %r6, 0; @%q bra L;\n"
      "bar.sync 0; ld.shared.u32 %r5, [%r2];";
  static const char *const modes[] = {
      "order:rr", "order:reverse", "order:random,seed:2", "preempt:3",
      "order:random,preempt:1,seed:5", "threads:1", "threads:2"};
  uint32_t in[1024], out[1024];
  fill(in, 1024);
  for (size_t k = 0; k < sizeof modes / sizeof *modes; k++) {
    assert_int_equal(lab.simgpu_configure(modes[k]), 0);
    memset(out, 0, sizeof out);
    run(tree, 4, 256, in, out, 1024);
    for (int b = 0; b < 4; b++) {
      uint32_t sum = 0;
      for (int i = 0; i < 256; i++) sum += in[b * 256 + i];
      for (int i = 0; i < 256; i++) assert_int_equal(out[b * 256 + i], sum);
    }
  }
  lab.simgpu_configure("order:rr,preempt:0,threads:0,seed:1");
  /* producer and consumer halves with two named barriers */
  run("setp.lt.u32 %p, %r1, 64; @!%p bra C;\n"
      "st.shared.u32 [%r3], %r4; bar.arrive 1, 128; mov.u32 %r5, %r4;"
      "bra.uni E;\n"
      "C: bar.sync 1, 128; ld.shared.u32 %r5, [%r3+-256];\nE:",
      1, 128, in, out, 128);
  for (int i = 0; i < 128; i++) assert_int_equal(out[i], in[i % 64]);
  /* threads that left do not count */
  run("setp.lt.u32 %p, %r1, 32; mov.u32 %r5, 1; @%p bra E;\n"
      "bar.sync 0; mov.u32 %r5, 2;\nE:",
      1, 96, in, out, 96);
  assert_int_equal(out[0], 1);
  assert_int_equal(out[95], 2);
  run("and.b32 %r6, %r4, 1; setp.eq.u32 %p, %r6, 1;\n"
      "barrier.red.popc.aligned.u32 %r5, 3, %p;\n"
      "bar.red.or.pred %q, 0, %p; @%q add.u32 %r5, %r5, 1000;\n"
      "bar.red.and.pred %q, 0, !%p; @%q add.u32 %r5, %r5, 5000;",
      1, 128, in, out, 128);
  uint32_t odd = 0;
  for (int i = 0; i < 128; i++) odd += in[i] & 1;
  for (int i = 0; i < 128; i++) assert_int_equal(out[i], odd + 1000);
}

/* Atomics: sums and extremes over many threads, counters that wrap, compare
   and swap; old values are a permutation where they must be. */
static void atomics(void **state) {
  (void)state;
  uint32_t in[512], out[512];
  fill(in, 512);
  memset(out, 0, sizeof out);
  /* out[0..5] are targets; threads 8.. store nothing */
  static const char body[] =
      "mov.u32 %r5, 0; and.b32 %r6, %r4, 1023;\n"
      "red.global.add.u32 [%d2], %r6; red.global.max.u32 [%d2+4], %r4;\n"
      "red.global.or.b32 [%d2+8], %r4; red.global.xor.b32 [%d2+12], %r4;\n"
      "atom.global.inc.u32 %r7, [%d2+16], 99;\n"
      "red.global.max.s32 [%d2+20], %r4;\n"
      "cvt.u64.u32 %d6, %r6; red.global.add.u64 [%d2+24], %d6; ret;";
  run(body, 4, 128, in, out, 512);
  uint32_t sum = 0, top = 0, any = 0, odd = 0;
  int32_t stop = 0;
  for (int i = 0; i < 512; i++) {
    sum += in[i] & 1023;
    if (in[i] > top) top = in[i];
    any |= in[i];
    odd ^= in[i];
    if ((int32_t)in[i] > stop) stop = (int32_t)in[i];
  }
  assert_int_equal(out[0], sum);
  assert_int_equal(out[1], top);
  assert_int_equal(out[2], any);
  assert_int_equal(out[3], odd);
  assert_int_equal(out[4], 512 % 100);
  assert_int_equal(out[5], (uint32_t)stop);
  assert_int_equal(out[6], sum);
}

static void tickets(void **state) {
  (void)state;
  uint32_t in[256], out[256];
  bool seen[256] = {false};
  fill(in, 256);
  run("setp.eq.u32 %p, %r1, 0; @%p st.shared.u32 [s], 0; bar.sync 0;\n"
      "atom.shared.add.u32 %r5, [s], 1;",
      1, 256, in, out, 256);
  for (int i = 0; i < 256; i++) {
    assert_true(out[i] < 256 && !seen[out[i]]);
    seen[out[i]] = true;
  }
  /* a lock-free maximum by compare and swap, and exchange */
  memset(out, 0, sizeof out);
  run("mov.u32 %r5, 0;\nL: ld.volatile.global.u32 %r6, [%d2];\n"
      "max.u32 %r7, %r6, %r4; atom.global.cas.b32 %r11, [%d2], %r6, %r7;\n"
      "setp.ne.u32 %p, %r11, %r6; @%p bra L;\n"
      "atom.global.exch.b32 %r12, [%d2+4], %r1; ret;",
      2, 128, in, out, 256);
  uint32_t top = 0;
  for (int i = 0; i < 256; i++) top = in[i] > top ? in[i] : top;
  assert_int_equal(out[0], top);
  assert_true(out[1] < 128);
  /* floating-point sums of small integers are exact in any order */
  memset(out, 0, sizeof out);
  run("and.b32 %r6, %r4, 63; cvt.rn.f32.u32 %f1, %r6; mov.b16 %h3, 0x3F80;\n"
      "red.global.add.f32 [%d2], %f1; cvt.f64.f32 %e1, %f1;\n"
      "red.global.add.f64 [%d2+8], %e1;\n"
      "cvt.rn.f16.f32 %h1, 0f3F800000; mov.b32 %r7, {%h1, %h1};\n"
      "red.global.add.noftz.f16x2 [%d2+16], %r7;\n"
      "setp.lt.u32 %p, %r10, 200; @%p atom.global.add.noftz.bf16 %h2,"
      "[%d2+20], %h3; ret;",
      2, 128, in, out, 256);
  uint32_t sum = 0;
  float f;
  double g;
  for (int i = 0; i < 256; i++) sum += in[i] & 63;
  memcpy(&f, &out[0], 4);
  memcpy(&g, &out[2], 8);
  assert_true(f == (float)sum && g == (double)sum);
  assert_int_equal(out[4], 0x5C005C00); /* 256 in f16 */
  assert_int_equal(out[5] & 0xFFFF, 0x4348); /* 200 in bf16 */
}

/* Spaces and widths: a value goes out and comes back through each. */
static void spaces(void **state) {
  (void)state;
  uint32_t in[256], out[256];
  fill(in, 256);
  static const char *const bodies[] = {
      /* shared, 1, 2, 4, 8 and 16 bytes, sign and zero extension */
      "cvt.u16.u32 %h1, %r4; shl.b32 %r6, %r1, 4; add.u32 %r6, %r2, %r6;\n"
      "st.shared.v4.u32 [%r6], {%r4, %r1, %r4, %r10};\n"
      "ld.shared.u8 %r11, [%r6+3]; ld.shared.s8 %r12, [%r6+3];\n"
      "ld.shared.u16 %h2, [%r6+2]; ld.shared.s16 %r13, [%r6+2];\n"
      "ld.shared.b64 %d6, [%r6+8]; mov.b64 {%r14, %r15}, %d6;\n"
      "ld.shared.v2.u32 {%r16, %r17}, [%r6]; cvt.u32.u16 %r18, %h2;\n"
      "shr.s32 %r19, %r4, 24; sub.u32 %r12, %r12, %r19;\n"
      "shr.s32 %r19, %r4, 16; sub.u32 %r13, %r13, %r19;\n"
      "shr.u32 %r19, %r4, 24; sub.u32 %r11, %r11, %r19;\n"
      "shr.u32 %r19, %r4, 16; sub.u32 %r18, %r18, %r19;\n"
      "or.b32 %r5, %r11, %r12; or.b32 %r5, %r5, %r13;\n"
      "or.b32 %r5, %r5, %r18; sub.u32 %r14, %r14, %r4;\n"
      "sub.u32 %r15, %r15, %r10; or.b32 %r5, %r5, %r14;\n"
      "or.b32 %r5, %r5, %r15; sub.u32 %r17, %r17, %r1;\n"
      "or.b32 %r5, %r5, %r17; add.u32 %r5, %r5, %r16;",
      /* local, through a generic address */
      "mov.u64 %d6, l; cvta.local.u64 %d6, %d6; st.u32 [%d6+8], %r4;\n"
      "cvta.to.local.u64 %d7, %d6; ld.local.u32 %r6, [%d7+8];\n"
      "isspacep.local %p, %d6; selp.u32 %r5, %r6, 0, %p;",
      /* shared, through a generic address, back through atom */
      "cvt.u64.u32 %d6, %r3; cvta.shared.u64 %d6, %d6; st.u32 [%d6], %r4;\n"
      "atom.add.u32 %r6, [%d6], 5; ld.u32 %r5, [%d6];\n"
      "sub.u32 %r5, %r5, 5; isspacep.global %p, %d6;\n"
      "@%p mov.u32 %r5, 0;",
      /* lanes of one instruction in different spaces */
      "and.b32 %r6, %r1, 1; setp.eq.u32 %p, %r6, 0;\n"
      "st.shared.u32 [%r3], %r4; cvt.u64.u32 %d6, %r3;\n"
      "cvta.shared.u64 %d6, %d6; selp.b64 %d7, %d6, %d4, %p;\n"
      "ld.u32 %r5, [%d7];",
      /* global: vector of two halves, cache hints */
      "and.b64 %d6, %d3, -8; add.s64 %d6, %d1, %d6;\n"
      "ld.global.nc.L1::no_allocate.v2.u32 {%r6, %r7}, [%d6];\n"
      "and.b32 %r11, %r10, 1; setp.eq.u32 %p, %r11, 0;\n"
      "selp.u32 %r5, %r6, %r7, %p;",
      /* bytes of global memory put together again */
      "ld.global.u8 %r6, [%d4]; ld.global.u8 %r7, [%d4+1];\n"
      "ld.global.u16 %r11, [%d4+2]; shl.b32 %r7, %r7, 8;\n"
      "shl.b32 %r11, %r11, 16; or.b32 %r5, %r6, %r7; or.b32 %r5, %r5, %r11;"};
  for (size_t k = 0; k < sizeof bodies / sizeof *bodies; k++) {
    memset(out, 0, sizeof out);
    run(bodies[k], 2, 128, in, out, 256);
    for (int i = 0; i < 256; i++) {
      if (out[i] != in[i])
        fail_msg("%s\nthread %d: %x, not %x", bodies[k], i, out[i], in[i]);
    }
  }
}

/* Special registers over a grid of three dimensions. */
static void special(void **state) {
  (void)state;
  static const char text[] =
      PTX_HEAD("sm_80")
      ".visible .entry k(.param .u64 pout) { .reg .b32 %r<24>;\n"
      ".reg .b64 %d<4>; ld.param.u64 %d1, [pout];\n"
      "mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %tid.z;\n"
      "mov.u32 %r4, %ntid.x; mov.u32 %r5, %ntid.y; mov.u32 %r6, %ntid.z;\n"
      "mov.u32 %r7, %ctaid.x; mov.u32 %r8, %ctaid.y;\n"
      "mov.u32 %r9, %ctaid.z; mov.u32 %r10, %nctaid.x;\n"
      "mov.u32 %r11, %nctaid.y; mad.lo.u32 %r12, %r9, %r11, %r8;\n"
      "mad.lo.u32 %r12, %r12, %r10, %r7; mul.lo.u32 %r13, %r4, %r5;\n"
      "mul.lo.u32 %r14, %r13, %r6; mad.lo.u32 %r15, %r3, %r13, %r1;\n"
      "mad.lo.u32 %r15, %r2, %r4, %r15; mad.lo.u32 %r16, %r12, %r14, %r15;\n"
      "mul.wide.u32 %d2, %r16, 8; add.s64 %d2, %d1, %d2;\n"
      "mov.u32 %r17, %laneid; mov.u32 %r18, %lanemask_lt;\n"
      "shl.b32 %r17, %r17, 16; or.b32 %r17, %r17, %r15;\n"
      "st.global.v2.u32 [%d2], {%r17, %r18}; ret; }";
  lab_renew(&lab);
  uint32_t out[2 * 3 * 4 * 5 * 30];
  memset(out, 0xEE, sizeof out);
  uint64_t p = lab_copy_in(&lab, out, sizeof out);
  void *params[] = {&p};
  rcuda_func_t *f = lab_func(&lab, lab_load(&lab, text), "k");
  assert_int_equal(lab.cuLaunchKernel(f, 3, 4, 5, 5, 3, 2, 0, NULL, params,
                                      NULL),
                   0);
  lab_copy_out(&lab, out, p, sizeof out);
  for (uint32_t i = 0; i < 60 * 30; i++) {
    uint32_t thread = i % 30, lane = thread % 32;
    assert_int_equal(out[2 * i], lane << 16 | thread);
    assert_int_equal(out[2 * i + 1], (1u << lane) - 1);
  }
}

/* Calls: arguments and results through parameters, nested, divergent. */
static void calls(void **state) {
  (void)state;
  static const char text[] =
      PTX_HEAD("sm_80")
      ".func (.param .b32 r) twice(.param .b32 a) { .reg .b32 %r<4>;\n"
      " ld.param.b32 %r1, [a]; shl.b32 %r2, %r1, 1;\n"
      " st.param.b32 [r], %r2; ret; }\n"
      ".func (.param .b32 r) odd(.param .b32 a, .param .b64 b) {\n"
      " .reg .b32 %r<8>; .reg .b64 %d<2>; .reg .pred %p;\n"
      " ld.param.b32 %r1, [a]; ld.param.b64 %d1, [b];\n"
      " and.b32 %r2, %r1, 1; setp.eq.u32 %p, %r2, 0; @%p bra L;\n"
      " { .param .b32 x; .param .b32 y; st.param.b32 [x+0], %r1;\n"
      "   call.uni (y), twice, (x); ld.param.b32 %r3, [y+0]; }\n"
      " cvt.u32.u64 %r4, %d1; add.u32 %r3, %r3, %r4;\n"
      " st.param.b32 [r], %r3; ret;\n"
      "L: add.u32 %r3, %r1, 1000; st.param.b32 [r], %r3; ret; }\n"
      ".visible .entry k(.param .u64 pout) { .reg .b32 %r<8>;\n"
      ".reg .b64 %d<4>; .reg .pred %p; ld.param.u64 %d1, [pout];\n"
      "mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 4;\n"
      "add.s64 %d1, %d1, %d2; mov.u32 %r3, 7;\n"
      "setp.ge.u32 %p, %r1, 48; @%p bra E;\n"
      "{ .param .b32 x; .param .b64 z; .param .b32 y;\n"
      " st.param.b32 [x], %r1; mov.b64 %d3, 100000; st.param.b64 [z], %d3;\n"
      " call (y), odd, (x, z); ld.param.b32 %r3, [y]; }\n"
      "E: st.global.u32 [%d1], %r3; ret; }";
  uint32_t out[64];
  lab_renew(&lab);
  uint64_t p = lab_alloc(&lab, sizeof out);
  void *params[] = {&p};
  assert_int_equal(lab_launch(&lab,
                              lab_func(&lab, lab_load(&lab, text), "k"), 1,
                              64, 0, params),
                   0);
  lab_copy_out(&lab, out, p, sizeof out);
  for (uint32_t i = 0; i < 64; i++)
    assert_int_equal(out[i], i >= 48 ? 7
                             : i % 2 ? 2 * i + 100000
                                     : i + 1000);
}

/* n functions that call each other in a row, each adding its number. */
static void chain_text(char *out, size_t bytes, unsigned n) {
  size_t at = (size_t)snprintf(out, bytes, PTX_HEAD("sm_80"));
  for (unsigned k = 1; k <= n; k++) {
    at += (size_t)snprintf(
        out + at, bytes - at,
        ".func (.param .b32 r) f%u(.param .b32 a) { .reg .b32 %%x;\n"
        "ld.param.b32 %%x, [a]; add.u32 %%x, %%x, %u;\n", k, k);
    if (k > 1)
      at += (size_t)snprintf(
          out + at, bytes - at,
          "{ .param .b32 y; .param .b32 z; st.param.b32 [y], %%x;\n"
          "call (z), f%u, (y); ld.param.b32 %%x, [z]; }\n", k - 1);
    at += (size_t)snprintf(out + at, bytes - at,
                           "st.param.b32 [r], %%x; ret; }\n");
  }
  snprintf(out + at, bytes - at,
           ".visible .entry k(.param .u64 pout) { .reg .b32 %%r<4>;\n"
           ".reg .b64 %%d<4>; ld.param.u64 %%d1, [pout];\n"
           "mov.u32 %%r1, %%tid.x; mul.wide.u32 %%d2, %%r1, 4;\n"
           "add.s64 %%d1, %%d1, %%d2;\n"
           "{ .param .b32 y; .param .b32 z; st.param.b32 [y], %%r1;\n"
           "call (z), f%u, (y); ld.param.b32 %%r1, [z]; }\n"
           "st.global.u32 [%%d1], %%r1; ret; }", n);
}

/* A warp has room for 32 calls inside each other. */
static void deep_calls(void **state) {
  (void)state;
  static char text[16384];
  char log[512];
  uint32_t out[32];
  lab_renew(&lab);
  chain_text(text, sizeof text, 32);
  uint64_t p = lab_alloc(&lab, sizeof out);
  void *params[] = {&p};
  assert_int_equal(lab_launch(&lab,
                              lab_func(&lab, lab_load(&lab, text), "k"), 1,
                              32, 0, params),
                   0);
  lab_copy_out(&lab, out, p, sizeof out);
  for (uint32_t i = 0; i < 32; i++)
    assert_int_equal(out[i], i + 32 * 33 / 2);
  chain_text(text, sizeof text, 33);
  assert_int_equal(lab_refused(&lab, text, log, sizeof log), 218);
  assert_non_null(strstr(log, "nested 33 deep"));
}

static int setup(void **state) {
  (void)state;
  lab_open(&lab, "model:h100");
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(shuffles),   cmocka_unit_test(votes),
      cmocka_unit_test(matches),    cmocka_unit_test(elections),
      cmocka_unit_test(reductions),
      cmocka_unit_test(barriers),   cmocka_unit_test(atomics),
      cmocka_unit_test(tickets),    cmocka_unit_test(spaces),
      cmocka_unit_test(special),    cmocka_unit_test(calls),
      cmocka_unit_test(deep_calls)};
  return cmocka_run_group_tests_name("simgpu.warp", tests, setup, NULL);
}
