/* Counters against counts by hand: what one warp's access of a given pattern
   moves, how many sectors and wavefronts it takes, and what the model of the
   cache fetches. Every figure here was worked out on paper from the rules of
   docs/simulated-gpu.md. Each pattern runs twice: by a clean warp, and by one
   that holds an undefined value and so goes another way. */
#include "sim_lab.h"

static lab_t lab;

/* One access of 32 lanes; %r10 is the lane's offset in bytes, %r1 the lane;
   $ stands for an undefined load or nothing. */
#define HEAD                                                                  \
  PTX_HEAD("sm_90")                                                           \
  ".visible .entry k(.param .u64 pin, .param .u64 pout) {\n"                  \
  ".shared .align 128 .b8 s[8192];\n"                                         \
  ".reg .pred %p; .reg .b16 %h; .reg .b32 %r<24>; .reg .b64 %d<16>;\n"        \
  "ld.param.u64 %d1, [pin]; ld.param.u64 %d2, [pout];\n"                      \
  "mov.u32 %r1, %tid.x; mov.u32 %r2, s; setp.lt.u32 %p, %r1, 32;\n"

typedef struct pattern_t {
  const char *access;  /* instruction, without guard, address %d3 or %r3 */
  const char *offset;  /* leaves it in %r10 */
  const char *guard;   /* sets %p */
  uint64_t bytes, first, ideal, unique; /* sectors or wavefronts first */
} pattern_t;

#define ALL   ""
#define LD32  "ld.global.u32 %r11, [%d3];"
#define LDV2  "ld.global.v2.u32 {%r11, %r12}, [%d3];"
#define LDV4  "ld.global.v4.u32 {%r11, %r12, %r13, %r14}, [%d3];"
#define LD64  "ld.global.u64 %d4, [%d3];"
#define LD8   "ld.global.u8 %r11, [%d3];"
#define LD16  "ld.global.u16 %h, [%d3];"
#define ST32  "st.global.u32 [%d3], %r1;"
#define MUL(n) "mul.lo.u32 %r10, %r1, " #n ";"

static const pattern_t global[] = {
    {LD32, MUL(4), ALL, 128, 4, 4, 128},
    {LD32, MUL(4) "add.u32 %r10, %r10, 4;", ALL, 128, 5, 4, 160},
    {LD32, MUL(4) "add.u32 %r10, %r10, 128;", ALL, 128, 4, 4, 128},
    {LD32, MUL(0), ALL, 128, 1, 1, 32},
    {LD32, MUL(8), ALL, 128, 8, 4, 256},
    {LD32, MUL(12), ALL, 128, 12, 4, 384},
    {LD32, MUL(32), ALL, 128, 32, 4, 1024},
    {LD32, MUL(100), ALL, 128, 32, 4, 1024},
    {LD32, MUL(128), ALL, 128, 32, 4, 1024},
    {LD32, "xor.b32 %r10, %r1, 31; shl.b32 %r10, %r10, 2;", ALL, 128, 4, 4,
     128},
    {LD32, "xor.b32 %r10, %r1, 5; shl.b32 %r10, %r10, 2;", ALL, 128, 4, 4,
     128},
    {LD32, "shr.u32 %r10, %r1, 1; shl.b32 %r10, %r10, 2;", ALL, 128, 2, 2,
     64},
    {LD32, "and.b32 %r10, %r1, 7; shl.b32 %r10, %r10, 2;", ALL, 128, 1, 1,
     32},
    {LD32,
     "shr.u32 %r10, %r1, 4; shl.b32 %r10, %r10, 12; and.b32 %r11, %r1, 15;"
     "mad.lo.u32 %r10, %r11, 4, %r10;",
     ALL, 128, 4, 4, 128},
    {LD32, MUL(4), "setp.lt.u32 %p, %r1, 16;", 64, 2, 2, 64},
    {LD32, MUL(4), "setp.ge.u32 %p, %r1, 28;", 16, 1, 1, 32},
    {LD32, MUL(4), "setp.eq.u32 %p, %r1, 9;", 4, 1, 1, 32},
    {LD32, MUL(4), "and.b32 %r9, %r1, 1; setp.eq.u32 %p, %r9, 1;", 64, 4, 2,
     128},
    {LDV2, MUL(8), ALL, 256, 8, 8, 256},
    {LDV4, MUL(16), ALL, 512, 16, 16, 512},
    {LDV4, MUL(32), ALL, 512, 32, 16, 1024},
    {LD64, MUL(8), ALL, 256, 8, 8, 256},
    {LD64, MUL(8) "add.u32 %r10, %r10, 8;", ALL, 256, 9, 8, 288},
    {LD8, MUL(1), ALL, 32, 1, 1, 32},
    {LD8, MUL(1) "add.u32 %r10, %r10, 16;", ALL, 32, 2, 1, 64},
    {LD16, MUL(2), ALL, 64, 2, 2, 64},
    {ST32, MUL(4), ALL, 128, 4, 4, 128},
    {ST32, MUL(8), ALL, 128, 8, 4, 256},
};

#define SL32 "ld.shared.u32 %r11, [%r3];"
#define SLV2 "ld.shared.v2.u32 {%r11, %r12}, [%r3];"
#define SLV4 "ld.shared.v4.u32 {%r11, %r12, %r13, %r14}, [%r3];"
#define SL64 "ld.shared.u64 %d4, [%r3];"
#define SL8  "ld.shared.u8 %r11, [%r3];"
#define SL16 "ld.shared.u16 %h, [%r3];"
#define SS32 "st.shared.u32 [%r3], %r1;"

/* bytes, wavefronts, ideal */
static const pattern_t shared[] = {
    {SL32, MUL(4), ALL, 128, 1, 1, 0},
    {SL32, MUL(4) "add.u32 %r10, %r10, 20;", ALL, 128, 1, 1, 0},
    {SL32, MUL(0), ALL, 128, 1, 1, 0},
    {SL32, MUL(8), ALL, 128, 2, 1, 0},
    {SL32, MUL(12), ALL, 128, 1, 1, 0},
    {SL32, MUL(16), ALL, 128, 4, 1, 0},
    {SL32, MUL(128), ALL, 128, 32, 1, 0},
    {SL32, MUL(132), ALL, 128, 1, 1, 0},
    {SL32, MUL(136), ALL, 128, 2, 1, 0},
    {SL32, MUL(128), "setp.lt.u32 %p, %r1, 16;", 64, 16, 1, 0},
    {SL32, "and.b32 %r10, %r1, 15; shl.b32 %r10, %r10, 2;", ALL, 128, 1, 1,
     0},
    {SLV2, MUL(8), ALL, 256, 2, 2, 0},
    {SLV2, MUL(16), ALL, 256, 4, 2, 0},
    {SLV4, MUL(16), ALL, 512, 4, 4, 0},
    {SLV4, MUL(32), ALL, 512, 8, 4, 0},
    {SLV4, MUL(0), ALL, 512, 1, 1, 0},
    {SLV4, "shr.u32 %r10, %r1, 4; shl.b32 %r10, %r10, 4;", ALL, 512, 4, 1,
     0},
    {SL64, MUL(8), ALL, 256, 2, 2, 0},
    {SL8, MUL(1), ALL, 32, 1, 1, 0},
    {SL8, MUL(128), ALL, 32, 32, 1, 0},
    {SL16, MUL(2), ALL, 64, 1, 1, 0},
    {SS32, MUL(4), ALL, 128, 1, 1, 0},
    {SS32, MUL(64), ALL, 128, 16, 1, 0},
};

static uint64_t in, out;

static void run(const char *text, unsigned grid, unsigned block) {
  char report[4096];
  rcuda_module_t *m = lab_load(&lab, text);
  void *params[] = {&in, &out};
  int code = lab_launch(&lab, lab_func(&lab, m, "k"), grid, block, 0, params);
  if (code)
    fail_msg("%d %s\n%s", code, lab_report(&lab, report, sizeof report), text);
  lab.cuModuleUnload(m);
}

static void expect(const char *name, uint64_t want, const char *text) {
  uint64_t have = lab_counter(&lab, name);
  if (have != want)
    fail_msg("%s is %llu, not %llu\n%s", name, (unsigned long long)have,
             (unsigned long long)want, text);
}

static void fresh(void) {
  lab_renew(&lab);
  in = lab_alloc(&lab, 1 << 16);
  out = lab_alloc(&lab, 1 << 16);
  assert_int_equal(lab.cuMemsetD32_v2(in, 3, (1 << 16) / 4), 0);
}

/* What the undefined load adds: one request for one sector of `out`. */
#define TAINT "ld.global.u32 %r20, [%d2];\n"

static void global_patterns(void **state) {
  (void)state;
  char text[4096];
  for (size_t i = 0; i < sizeof global / sizeof *global; i++) {
    const pattern_t *p = &global[i];
    bool is_store = strncmp(p->access, "st", 2) == 0;
    for (uint64_t taint = 0; taint < 2; taint++) {
      fresh();
      snprintf(text, sizeof text,
               "%s%s %s %s cvt.u64.u32 %%d3, %%r10;\n"
               "add.s64 %%d3, %%d1, %%d3; @%%p %s\nret; }",
               HEAD, taint ? TAINT : "", p->offset, p->guard, p->access);
      run(text, 1, 32);
      expect("global.requests", 1 + taint, text);
      expect("global.bytes_read", (is_store ? 0 : p->bytes) + 128 * taint,
             text);
      expect("global.bytes_written", is_store ? p->bytes : 0, text);
      expect("global.sectors", p->first + taint, text);
      expect("global.sectors_ideal", p->ideal + taint, text);
      expect("global.unique_read", (is_store ? 0 : p->unique) + 32 * taint,
             text);
      expect("global.unique_written", is_store ? p->unique : 0, text);
      expect("hbm.model_read", (is_store ? 0 : p->unique) + 32 * taint, text);
      expect("hbm.model_written", is_store ? p->unique : 0, text);
    }
  }
}

static void shared_patterns(void **state) {
  (void)state;
  char text[4096];
  for (size_t i = 0; i < sizeof shared / sizeof *shared; i++) {
    const pattern_t *p = &shared[i];
    bool is_store = strncmp(p->access, "st", 2) == 0;
    for (int taint = 0; taint < 2; taint++) {
      fresh();
      snprintf(text, sizeof text,
               "%s%s %s %s add.u32 %%r3, %%r2, %%r10;\n"
               "@%%p %s\nret; }",
               HEAD, taint ? TAINT : "", p->offset, p->guard, p->access);
      run(text, 1, 32);
      expect("shared.bytes_read", is_store ? 0 : p->bytes, text);
      expect("shared.bytes_written", is_store ? p->bytes : 0, text);
      expect("shared.wavefronts", p->first, text);
      expect("shared.ideal", p->ideal, text);
      expect("shared.conflicts", p->first - p->ideal, text);
    }
  }
}

/* A pattern that comes back counts again; one that moves counts as it lies. */
static void loops(void **state) {
  (void)state;
  static const char text[] =
      HEAD "mov.u32 %r9, 0; mul.lo.u32 %r10, %r1, 12;\n"
           "L: cvt.u64.u32 %d3, %r10; add.s64 %d3, %d1, %d3;\n"
           "ld.global.u32 %r11, [%d3]; add.u32 %r10, %r10, 16;\n"
           "add.u32 %r3, %r2, %r10; st.shared.u32 [%r3], %r9;\n"
           "add.u32 %r9, %r9, 1; setp.lt.u32 %p, %r9, 40; @%p bra L; ret; }";
  uint64_t sectors = 0;
  for (uint32_t n = 0; n < 40; n++) {
    uint32_t last = UINT32_MAX;
    for (uint32_t l = 0; l < 32; l++) {
      if ((l * 12 + n * 16) / 32 != last) sectors++;
      last = (l * 12 + n * 16) / 32;
    }
  }
  fresh();
  run(text, 1, 32);
  expect("global.requests", 40, text);
  expect("global.sectors", sectors, text);
  expect("shared.wavefronts", 40, text);
  /* bytes 0 .. 39 * 16 + 31 * 12 + 4 are touched without a gap of a sector */
  expect("global.unique_read", (39 * 16 + 31 * 12 + 4 + 31) / 32 * 32, text);
}

/* Classes, operations, barriers and atomics of a small block. */
static void classes(void **state) {
  (void)state;
  static const char text[] =
      HEAD ".reg .f32 %f<4>; .reg .f64 %e<3>;\n"
           "mov.f32 %f1, 0f3F800000; mov.f64 %e1, 0d3FF0000000000000;\n"
           "fma.rn.f32 %f2, %f1, %f1, %f1; add.rn.f32 %f2, %f2, %f1;\n"
           "ex2.approx.f32 %f3, %f2; rsqrt.approx.f32 %f3, %f3;\n"
           "fma.rn.f64 %e2, %e1, %e1, %e1; bar.sync 0; bar.sync 0;\n"
           "red.global.add.u32 [%d1], 1; setp.lt.u32 %p, %r1, 8;\n"
           "@%p add.rn.f32 %f2, %f2, %f1; ret; }";
  fresh();
  run(text, 3, 64);
  expect("flop.f32", 3 * (64 * 3 + 8), text);
  expect("flop.f64", 3 * 64 * 2, text);
  expect("sfu", 3 * 2 * 2, text);
  expect("sfu.ex2", 3 * 2, text);
  expect("sfu.rsqrt", 3 * 2, text);
  expect("barriers", 3 * 2 * 2, text);
  expect("atomics", 3 * 2, text);
  expect("ctas", 3, text);
  expect("warps", 6, text);
  expect("global.unique_read", 32, text);
  expect("global.unique_written", 32, text);
  /* 18 instructions; in the second warp of a block none adds */
  expect("warp_inst", 3 * 2 * 18, text);
  expect("lane_inst", 3 * (64 * 17 + 8), text);
}

/* Every special function once, halves, local memory, branches. */
static void one_of_each(void **state) {
  (void)state;
  static const char text[] =
      HEAD ".reg .f32 %f<4>; .local .align 4 .b8 q[8];\n"
           "mov.f32 %f1, 0f3F800000; rcp.approx.f32 %f2, %f1;\n"
           "sqrt.approx.f32 %f2, %f1; lg2.approx.f32 %f2, %f1;\n"
           "sin.approx.f32 %f2, %f1; cos.approx.f32 %f2, %f1;\n"
           "tanh.approx.f32 %f2, %f1; mov.b32 %r3, 0x3C003C00;\n"
           "fma.rn.f16x2 %r4, %r3, %r3, %r3; mov.b16 %h, 0x3C00;\n"
           "add.rn.f16 %h, %h, %h; st.local.u32 [q], %r1;\n"
           "ld.local.u32 %r5, [q]; setp.lt.u32 %p, %r1, 40; @%p bra A;\n"
           "mov.u32 %r6, 1; A: ret; }";
  static const char *const functions[] = {"rcp", "sqrt", "lg2",
                                          "sin", "cos",  "tanh"};
  char name[32];
  fresh();
  run(text, 2, 64);
  for (size_t n = 0; n < 6; n++) {
    snprintf(name, sizeof name, "sfu.%s", functions[n]);
    expect(name, 2 * 2, text);
  }
  /* two halves of 2, and 1 */
  expect("flop.f16", 2 * 64 * (4 + 1), text);
  expect("local.bytes", 2 * 64 * 4 * 2, text);
  expect("branches", 2 * 2, text);
  expect("branches.diverged", 2, text);
}

/* What all blocks read is fetched once; what is written leaves at the end. */
static void cache(void **state) {
  (void)state;
  static const char text[] =
      HEAD "mul.wide.u32 %d5, %r1, 4; mov.u32 %r4, %ctaid.x;\n"
           "mul.wide.u32 %d6, %r4, 512; add.s64 %d6, %d6, %d5;\n"
           "add.s64 %d6, %d2, %d6; add.s64 %d5, %d1, %d5;\n"
           "ld.global.u32 %r5, [%d5]; st.global.u32 [%d6], %r5; ret; }";
  fresh();
  run(text, 64, 128);
  expect("global.bytes_read", 64 * 512, text);
  expect("global.unique_read", 512, text);
  expect("hbm.model_read", 512, text);
  expect("l2.miss", 16, text);
  expect("l2.hit", 64 * 16 - 16, text);
  expect("hbm.model_written", 64 * 512, text);
  assert_int_equal(lab.simgpu_configure("l2:off"), 0);
  run(text, 64, 128);
  expect("hbm.model_read", 0, text);
  expect("global.unique_read", 512, text);
  assert_int_equal(lab.simgpu_configure("l2:wave"), 0);
}

/* Bulk copies: bytes, sectors and what the cache fetches, once a block. */
static void bulk(void **state) {
  (void)state;
  static const char text[] =
      HEAD ".reg .pred %w; .reg .b32 %m; .shared .align 8 .b8 bar[8];\n"
           "mov.u32 %m, bar; setp.eq.u32 %p, %r1, 0;\n"
           "@%p mbarrier.init.shared::cta.b64 [%m], 1; bar.sync 0;\n"
           "@%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%m], 4096;\n"
           "@%p cp.async.bulk.shared::cluster.global"
           ".mbarrier::complete_tx::bytes [%r2], [%d1+16], 4096, [%m];\n"
           "W: mbarrier.try_wait.parity.shared::cta.b64 %w, [%m], 0;\n"
           "@!%w bra W; mov.u32 %r4, %ctaid.x; mul.wide.u32 %d3, %r4, 1024;\n"
           "add.s64 %d3, %d2, %d3;\n"
           "@%p cp.async.bulk.global.shared::cta.bulk_group [%d3], [%r2],"
           " 1024;\n@%p cp.async.bulk.commit_group;\n"
           "@%p cp.async.bulk.wait_group 0; ret; }";
  fresh();
  run(text, 3, 32);
  expect("global.requests", 3 * 2, text);
  expect("global.bytes_read", 3 * 4096, text);
  expect("global.bytes_written", 3 * 1024, text);
  expect("global.sectors", 3 * (129 + 32), text);
  expect("global.unique_read", 129 * 32, text);
  expect("global.unique_written", 3 * 1024, text);
  expect("hbm.model_read", 129 * 32, text);
  expect("hbm.model_written", 3 * 1024, text);
  expect("async.bytes", 3 * (4096 + 1024), text);
}

/* By source line: each block's three lines, and a loop of five turns. */
static void lines(void **state) {
  (void)state;
  static const char text[] =
      PTX_HEAD("sm_90") ".file 1 \"/tdsl/a.tdsl\"\n"
      ".visible .entry k(.param .u64 pin, .param .u64 pout) {\n"
      ".shared .align 128 .b8 s[8192]; .reg .pred %p; .reg .b32 %r<9>;\n"
      ".reg .b64 %d<4>;\n.loc 1 3 1\n"
      "ld.param.u64 %d1, [pin]; mov.u32 %r1, %tid.x;\n"
      "mul.wide.u32 %d2, %r1, 32; add.s64 %d1, %d1, %d2;\n.loc 1 4 1\n"
      "ld.global.u32 %r2, [%d1]; mov.u32 %r3, s;\n"
      "mad.lo.u32 %r3, %r1, 8, %r3; mov.u32 %r4, 0;\n.loc 1 5 1\n"
      "L: st.shared.u32 [%r3], %r2; add.u32 %r4, %r4, 1;\n"
      "setp.lt.u32 %p, %r4, 5; @%p bra L;\n.loc 1 6 1\nret; }";
  static const char want[] =
      "[{\"file\":\"/tdsl/a.tdsl\",\"line\":3,\"warp_inst\":8,"
      "\"lane_inst\":256,\"global.sectors\":0,\"shared.wavefronts\":0},\n"
      "{\"file\":\"/tdsl/a.tdsl\",\"line\":4,\"warp_inst\":8,"
      "\"lane_inst\":256,\"global.sectors\":64,\"shared.wavefronts\":0},\n"
      "{\"file\":\"/tdsl/a.tdsl\",\"line\":5,\"warp_inst\":40,"
      "\"lane_inst\":1216,\"global.sectors\":0,"
      "\"shared.wavefronts\":20},\n"
      "{\"file\":\"/tdsl/a.tdsl\",\"line\":6,\"warp_inst\":2,"
      "\"lane_inst\":64,\"global.sectors\":0,\"shared.wavefronts\":0}]";
  char have[4096];
  fresh();
  assert_int_equal(lab.simgpu_configure("lines:on"), 0);
  run(text, 2, 32);
  assert_int_equal(lab.lines_get(lab.counters_count() - 1, have, sizeof have),
                   strlen(want));
  assert_string_equal(have, want);
  expect("warp_inst", 58, text);
  assert_int_equal(lab.simgpu_configure("lines:off"), 0);
  run(text, 2, 32);
  assert_int_equal(lab.lines_get(lab.counters_count() - 1, have, sizeof have),
                   0);
}

/* CTAs of an SM, and what limits them (performance.md 1.2 by hand). */
static void occupancy(void **state) {
  (void)state;
  static const struct {
    unsigned block;
    const char *want;
  } rows[] = {{32, "\"ctas\":25,\"warps\":25,\"limiter\":\"shared\""},
              {256, "\"ctas\":8,\"warps\":64,\"limiter\":\"warps\""},
              {1024, "\"ctas\":2,\"warps\":64,\"limiter\":\"warps\""}};
  char text[16384];
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    fresh();
    /* 8192 static bytes and 1024 of the system: 233472 / 9216 = 25 */
    run(HEAD "ret; }", 1, rows[i].block);
    lab.counters_get(lab.counters_count() - 1, text, sizeof text);
    if (!strstr(text, rows[i].want))
      fail_msg("%u threads: %s not in %s", rows[i].block, rows[i].want, text);
  }
}

static int setup(void **state) {
  (void)state;
  lab_open(&lab, "model:h100,threads:2");
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(global_patterns), cmocka_unit_test(shared_patterns),
      cmocka_unit_test(loops),           cmocka_unit_test(classes),
      cmocka_unit_test(one_of_each),
      cmocka_unit_test(cache),           cmocka_unit_test(occupancy),
      cmocka_unit_test(bulk),            cmocka_unit_test(lines)};
  return cmocka_run_group_tests_name("simgpu.counters", tests, setup, NULL);
}
