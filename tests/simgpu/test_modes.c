/* Schedules, poison, host threads and host variants change nothing that a
   correct kernel shows: the same bits and the same counters in every
   combination. And the modes themselves: samples of a grid, notes, hangs. */
#include "sim_lab.h"

static lab_t lab;

typedef struct kernel_t {
  const char *name;
  unsigned grid, block, cluster;
  bool communicates; /* counters of the cache vary with the schedule */
  const char *text;
} kernel_t;

#define HEAD                                                                  \
  PTX_HEAD("sm_90")                                                           \
  ".visible .entry k(.param .u64 pin, .param .u64 pout) {\n"                  \
  ".shared .align 16 .b8 s[4096]; .local .align 16 .b8 q[64];\n"              \
  ".reg .pred %p, %z; .reg .b16 %h; .reg .b32 %r<24>; .reg .f32 %f<16>;\n"    \
  ".reg .b64 %d<16>;\n"                                                       \
  "ld.param.u64 %d1, [pin]; ld.param.u64 %d2, [pout];\n"                      \
  "mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x;\n"       \
  "mad.lo.u32 %r4, %r2, %r3, %r1; mul.wide.u32 %d3, %r4, 4;\n"                \
  "add.s64 %d4, %d1, %d3; add.s64 %d5, %d2, %d3; mov.u32 %r5, s;\n"           \
  "shl.b32 %r6, %r1, 2; add.u32 %r7, %r5, %r6;\n"

static const kernel_t kernels[] = {
    {"rows through shared memory, two barriers a step", 24, 128, 1, false,
     HEAD "mov.u32 %r8, 0; mov.f32 %f1, 0f00000000;\n"
          "L: ld.global.f32 %f2, [%d4]; add.rn.f32 %f2, %f2, %f1;\n"
          "st.shared.f32 [%r7], %f2; bar.sync 0;\n"
          "xor.b32 %r9, %r6, 252; add.u32 %r9, %r5, %r9;\n"
          "ld.shared.f32 %f3, [%r9]; bar.sync 0;\n"
          "fma.rn.f32 %f1, %f3, %f2, %f1; add.u32 %r8, %r8, 1;\n"
          "setp.lt.u32 %p, %r8, 9; @%p bra L; ex2.approx.f32 %f4, %f1;\n"
          "rcp.approx.f32 %f4, %f4; st.global.f32 [%d5], %f4; ret; }"},
    {"lanes that part and meet, shuffles, votes", 16, 96, 1, false,
     HEAD "ld.global.u32 %r8, [%d4]; mov.u32 %r9, 0;\n"
          "L: and.b32 %r10, %r8, 7; setp.eq.u32 %p, %r10, 0; @%p bra E;\n"
          "mad.lo.u32 %r8, %r8, 5, 3; add.u32 %r9, %r9, 1;\n"
          "setp.lt.u32 %p, %r9, 20; @%p bra L;\nE: bar.warp.sync -1;\n"
          "shfl.sync.bfly.b32 %r11, %r9, 5, 31, -1;\n"
          "setp.gt.u32 %p, %r9, 6; vote.sync.ballot.b32 %r12, %p, -1;\n"
          "xor.b32 %r11, %r11, %r12; add.u32 %r11, %r11, %r8;\n"
          "st.global.u32 [%d5], %r11; ret; }"},
    {"local memory, odd widths, strided rows", 12, 64, 1, false,
     HEAD "mul.lo.u32 %r8, %r4, 12; cvt.u64.u32 %d6, %r8;\n"
          "add.s64 %d6, %d1, %d6; ld.global.u16 %h, [%d6+2];\n"
          "ld.global.u8 %r9, [%d6+5]; ld.global.s8 %r10, [%d6+7];\n"
          "cvt.u32.u16 %r11, %h; st.local.u32 [q+8], %r11;\n"
          "ld.local.u32 %r12, [q+8]; mad.lo.u32 %r12, %r9, %r10, %r12;\n"
          "st.global.u32 [%d5], %r12; ret; }"},
    {"named barriers between producers and consumers", 8, 128, 1, false,
     HEAD "ld.global.u32 %r8, [%d4]; setp.ge.u32 %p, %r1, 64; @%p bra C;\n"
          "st.shared.u32 [%r7], %r8; bar.arrive 1, 128; bra E;\n"
          "C: bar.sync 1, 128; ld.shared.u32 %r9, [%r7+-256];\n"
          "add.u32 %r8, %r8, %r9;\nE: st.global.u32 [%d5], %r8; ret; }"},
    {"counting together", 32, 64, 1, false,
     HEAD "ld.global.u32 %r8, [%d4]; and.b32 %r8, %r8, 63; shl.b32 %r8, %r8,"
          "2; cvt.u64.u32 %d6, %r8; add.s64 %d6, %d2, %d6;\n"
          "red.global.add.u32 [%d6], %r4; red.global.max.u32 [%d6+1024], %r4;"
          "ret; }"},
    {"neighbours in a cluster", 16, 64, 4, false,
     HEAD "ld.global.u32 %r8, [%d4]; st.shared.u32 [%r7], %r8;\n"
          "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n"
          "mov.u32 %r9, %cluster_ctarank; xor.b32 %r9, %r9, 3;\n"
          "mapa.shared::cluster.u32 %r10, %r7, %r9;\n"
          "ld.shared::cluster.u32 %r11, [%r10]; st.global.u32 [%d5], %r11;\n"
          "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n"
          "ret; }"},
    {"the last block adds up", 24, 32, 1, true,
     HEAD "ld.global.u32 %r8, [%d4]; add.u32 %r8, %r8, %r4;\n"
          "st.global.u32 [%d5], %r8; membar.gl; bar.warp.sync -1;\n"
          "setp.eq.u32 %p, %r1, 0; mov.u32 %r9, 0;\n"
          "@%p atom.global.add.u32 %r9, [%d2+8192], 1;\n"
          "shfl.sync.idx.b32 %r9, %r9, 0, 31, -1;\n"
          "setp.ne.u32 %p, %r9, 23; @%p ret; membar.gl;\n"
          "mul.wide.u32 %d6, %r1, 4; add.s64 %d6, %d2, %d6; mov.u32 %r10, 0;"
          "mov.u32 %r11, 0;\nL: ld.global.cg.u32 %r12, [%d6];\n"
          "add.u32 %r10, %r10, %r12; add.s64 %d6, %d6, 128;\n"
          "add.u32 %r11, %r11, 1; setp.lt.u32 %p, %r11, 24; @%p bra L;\n"
          "mul.wide.u32 %d7, %r1, 4; add.s64 %d7, %d2, %d7;\n"
          "st.global.u32 [%d7+16384], %r10; ret; }"},
};

enum { WORDS = 8192 };

/* Runs a kernel as configured: its memory and its counters. */
static void run(const kernel_t *k, const char *mode, uint32_t *out,
                char *counters, size_t bytes) {
  static uint32_t in[WORDS];
  char report[4096];
  uint64_t state = 9;
  for (size_t i = 0; i < WORDS; i++)
    in[i] = 0x3F000000u + (uint32_t)(lab_random(&state) & 0xFFFFF);
  if (lab.simgpu_configure(mode)) {
    out[0] = 0;
    snprintf(counters, bytes, "no such mode");
    return;
  }
  lab_renew(&lab);
  uint64_t pin = lab_copy_in(&lab, in, sizeof in);
  uint64_t pout = lab_alloc(&lab, sizeof in);
  lab.cuMemsetD32_v2(pout, 0, WORDS);
  rcuda_module_t *m = lab_load(&lab, k->text);
  rcuda_launch_attr_t a = {.id = RCUDA_LAUNCH_CLUSTER,
                           .value.cluster = {k->cluster, 1, 1}};
  rcuda_launch_config_t c = {{k->grid, 1, 1}, {k->block, 1, 1}, 0, NULL, &a,
                             1};
  void *params[] = {&pin, &pout};
  int code = lab.cuLaunchKernelEx(&c, lab_func(&lab, m, "k"), params, NULL);
  if (!code) code = lab.cuCtxSynchronize();
  if (code || lab.report_count())
    fail_msg("%s, %s: %d %s", k->name, mode, code,
             lab_report(&lab, report, sizeof report));
  lab_copy_out(&lab, out, pout, sizeof in);
  lab.counters_get(lab.counters_count() - 1, counters, bytes);
  if (k->communicates) {
    /* how often lanes spin or find a sector there may vary */
    char *cache = strstr(counters, "\"hbm.model_read\"");
    char *after = cache ? strstr(cache, "\"shared.bytes_read\"") : NULL;
    if (after) memmove(cache, after, strlen(after) + 1);
  }
}

static void agreement(void **state) {
  (void)state;
  static const char *const orders[] = {
      "order:rr,preempt:0", "order:reverse,preempt:0",
      "order:random,preempt:0,seed:3", "order:random,preempt:5,seed:4"};
  static const char *const poisons[] = {"poison:ff", "poison:00",
                                        "poison:random"};
  static const char *const hosts[] = {"host:v2", "host:v3", "host:v4"};
  static uint32_t first[WORDS], again[WORDS];
  static char want[16384], have[16384];
  char mode[128];
  for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
    const kernel_t *k = &kernels[i];
    bool any = false;
    for (size_t n = 0; n < 4 * 3 * 3 * 2; n++) {
      snprintf(mode, sizeof mode, "%s,%s,%s,threads:%u", hosts[n % 3],
               poisons[n / 3 % 3], orders[n / 9 % 4], 1 + (unsigned)(n / 36));
      run(k, mode, any ? again : first, any ? have : want, sizeof want);
      if (strcmp(any ? have : want, "no such mode") == 0) continue;
      if (any && memcmp(first, again, sizeof first) != 0)
        fail_msg("%s: other bits with %s", k->name, mode);
      if (any && strcmp(want, have) != 0)
        fail_msg("%s: other counters with %s:\n%s\n%s", k->name, mode, want,
                 have);
      any = true;
    }
    assert_true(any);
  }
  lab.simgpu_configure("seed:1,order:rr,preempt:0,poison:ff,threads:2");
}

/* What poison is: the bytes of an undefined word, stored and copied. */
static void poison(void **state) {
  (void)state;
  static const char *const modes[] = {"poison:ff,check:none",
                                      "poison:00,check:none",
                                      "poison:random,check:none,seed:1",
                                      "poison:random,check:none,seed:2"};
  uint32_t got[4][32];
  for (size_t n = 0; n < 4; n++) {
    assert_int_equal(lab.simgpu_configure(modes[n]), 0);
    lab_renew(&lab);
    uint64_t in = lab_alloc(&lab, 4096), out = lab_alloc(&lab, 4096);
    rcuda_module_t *m = lab_load(
        &lab, HEAD "ld.global.u32 %r8, [%d4]; st.global.u32 [%d5], %r8;"
                   "ret; }");
    void *params[] = {&in, &out};
    assert_int_equal(
        lab_launch(&lab, lab_func(&lab, m, "k"), 1, 32, 0, params), 0);
    lab_copy_out(&lab, got[n], out, 128);
  }
  for (size_t i = 0; i < 32; i++) {
    assert_int_equal(got[0][i], 0xFFFFFFFFu);
    assert_int_equal(got[1][i], 0);
  }
  assert_memory_not_equal(got[2], got[3], 128);
  assert_memory_not_equal(got[2], got[0], 128);
  lab.simgpu_configure("poison:ff,check:all,seed:1");
}

/* Only some blocks of a large grid run. */
static void samples(void **state) {
  (void)state;
  static const struct {
    const char *mode;
    unsigned least, most;
    bool first, last;
  } rows[] = {{"ctas:first", 1, 1, true, false},
              {"ctas:first+last", 2, 2, true, true},
              {"ctas:random:5", 1, 5, false, false},
              {"ctas:first+last+random:6", 2, 8, true, true},
              {"ctas:all", 100, 100, true, true}};
  uint32_t host[3200];
  for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
    assert_int_equal(lab.simgpu_configure(rows[n].mode), 0);
    lab_renew(&lab);
    uint64_t in = lab_alloc(&lab, 64), out = lab_alloc(&lab, sizeof host);
    lab.cuMemsetD32_v2(out, 7, 3200);
    rcuda_module_t *m =
        lab_load(&lab, HEAD "st.global.u32 [%d5], 9; ret; }");
    void *params[] = {&in, &out};
    assert_int_equal(
        lab_launch(&lab, lab_func(&lab, m, "k"), 100, 32, 0, params), 0);
    lab_copy_out(&lab, host, out, sizeof host);
    unsigned count = 0;
    for (size_t b = 0; b < 100; b++) {
      for (size_t t = 1; t < 32; t++)
        assert_int_equal(host[32 * b + t], host[32 * b]);
      count += host[32 * b] == 9;
    }
    assert_in_range(count, rows[n].least, rows[n].most);
    assert_int_equal(lab_counter(&lab, "ctas"), count);
    if (rows[n].first) assert_int_equal(host[0], 9);
    if (rows[n].last) assert_int_equal(host[3199], 9);
  }
  assert_int_not_equal(lab.simgpu_configure("ctas:some"), 0);
}

/* Notes speak on request, name the lane, and fail nothing. */
static void notes(void **state) {
  (void)state;
  static const struct {
    const char *id, *body;
  } rows[] = {
      {"num.shift", "add.u32 %r8, %r1, {{0|1}}; shl.b32 %r9, %r3, %r8;"},
      {"num.convert",
       "mov.f32 %f1, {{0f4EFFFFFF|0f4F000000}}; cvt.rzi.s32.f32 %r9, %f1;"},
      {"num.convert",
       "mov.f32 %f1, {{0f3F000000|0fBF800000}}; cvt.rzi.u32.f32 %r9, %f1;"},
      {"num.nan",
       "mov.f32 %f1, {{0f40000000|0f7F000000}}; mul.rn.f32 %f2, %f1, %f1;"},
      {"num.nan",
       "mov.f32 %f1, {{0f40000000|0fBF800000}}; sqrt.rn.f32 %f2, %f1;"},
  };
  char body[1024], text[4096], report[4096], id[64];
  for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
    for (int mutant = 0; mutant < 3; mutant++) {
      /* 0 correct, 1 mutant with notes, 2 mutant without */
      assert_int_equal(
          lab.simgpu_configure(mutant == 2 ? "check:all" : "check:all+note"),
          0);
      lab_renew(&lab);
      uint64_t in = lab_alloc(&lab, 64), out = lab_alloc(&lab, 4096);
      lab_choose(body, sizeof body, rows[n].body, mutant != 0);
      snprintf(text, sizeof text, "%s%s ret; }", HEAD, body);
      void *params[] = {&in, &out};
      rcuda_module_t *m = lab_load(&lab, text);
      assert_int_equal(
          lab_launch(&lab, lab_func(&lab, m, "k"), 1, 32, 0, params), 0);
      lab_report(&lab, report, sizeof report);
      snprintf(id, sizeof id, "\"id\":\"%s\"", rows[n].id);
      if ((strstr(report, id) != NULL) != (mutant == 1))
        fail_msg("%s (%d): %s", rows[n].id, mutant, report);
    }
  }
  lab.simgpu_configure("check:all");
}

/* A block waits for one that can only start when it ends; and a barrier that
   waits for warps which have gone. */
static void hangs(void **state) {
  (void)state;
  char report[8192];
  lab_renew(&lab);
  uint64_t in = lab_alloc(&lab, 64), out = lab_alloc(&lab, 4096);
  lab.cuMemsetD32_v2(in, 0, 16);
  void *params[] = {&in, &out};
  /* 2 blocks of 1024 threads on each of 132 SMs are resident */
  static const char text[] =
      HEAD "setp.eq.u32 %p, %r2, 299; @%p bra S;\n"
           "L: ld.volatile.global.u32 %r8, [%d1]; setp.eq.u32 %p, %r8, 0;\n"
           "@%p nanosleep.u32 100; @%p bra L; ret;\n"
           "S: st.volatile.global.u32 [%d1], 1; ret; }";
  rcuda_func_t *f = lab_func(&lab, lab_load(&lab, text), "k");
  assert_int_equal(lab_launch(&lab, f, 264, 1024, 0, params), 702);
  assert_non_null(strstr(lab_report(&lab, report, sizeof report),
                         "\"hang\""));
  lab_renew(&lab);
  in = lab_alloc(&lab, 64);
  lab.cuMemsetD32_v2(in, 0, 16);
  f = lab_func(&lab, lab_load(&lab, text), "k");
  assert_int_equal(lab_launch(&lab, f, 300, 1024, 0, params), 702);
  assert_non_null(strstr(lab_report(&lab, report, sizeof report),
                         "\"hang.grid\""));
  lab_renew(&lab);
  f = lab_func(&lab,
               lab_load(&lab, HEAD "setp.lt.u32 %p, %r1, 32; @%p ret;\n"
                                   "bar.sync 1, 64; ret; }"),
               "k");
  assert_int_equal(lab_launch(&lab, f, 1, 64, 0, params), 702);
  assert_non_null(strstr(lab_report(&lab, report, sizeof report),
                         "\"bar.exit\""));
}

static int setup(void **state) {
  (void)state;
  lab_open(&lab, "model:h100,threads:2");
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(poison), cmocka_unit_test(samples),
      cmocka_unit_test(notes), cmocka_unit_test(hangs),
      cmocka_unit_test(agreement)};
  return cmocka_run_group_tests_name("simgpu.modes", tests, setup, NULL);
}
