/* Every checker on a faulty kernel it must name, beside the correct kernel it
   must leave alone. Kernels are PTX text; {{X|Y}} in a text stands for X in
   the correct one and for Y in the mutant. */
#include "sim_lab.h"

static lab_t lab;

typedef struct mutant_t {
  const char *id; /* the check that must speak */
  int result;     /* of the launch */
  unsigned grid, block;
  const char *body; /* of kernel k(u64 in, u64 out); 64 KiB each */
  const char *where; /* must appear in the report too, or NULL */
} mutant_t;

/* Lanes that a mask names end elsewhere: with lanes on their own, they are
   then not waited for. */
#define LEAVES "does not take part"

#define HEAD                                                                  \
  PTX_HEAD("sm_90")                                                           \
  ".file 1 \"/tdsl/model.tdsl\"\n"                                            \
  ".visible .entry k(.param .u64 pin, .param .u64 pout) {\n"                  \
  ".shared .align 16 .b8 s[1024]; .local .align 16 .b8 l[64];\n"              \
  ".reg .pred %p, %q; .reg .b16 %h; .reg .b32 %r<16>; .reg .f32 %f<8>;\n"     \
  ".reg .b64 %d<16>;\n"                                                       \
  "ld.param.u64 %d1, [pin]; ld.param.u64 %d2, [pout];\n"                      \
  "mov.u32 %r1, %tid.x; mul.wide.u32 %d3, %r1, 4;\n"                          \
  "add.s64 %d4, %d1, %d3; add.s64 %d5, %d2, %d3;\n"                           \
  "mov.u32 %r2, s; shl.b32 %r3, %r1, 2; add.s32 %r3, %r2, %r3;\n"

static const mutant_t mutants[] = {
    /* memory */
    {"mem.bounds", 700, 1, 32,
     HEAD ".loc 1 7 3\n"
          "ld.global.u32 %r4, [%d4+{{65408|65412}}];\n"
          "st.global.u32 [%d5], %r4; ret; }",
     "model.tdsl:7"},
    {"mem.bounds", 700, 1, 32,
     HEAD "mov.u32 %r4, 1; st.global.u32 [%d5+{{0|-4}}], %r4; ret; }",
     "before allocation"},
    {"mem.bounds", 700, 1, 32,
     HEAD "mov.u32 %r4, 1; st.shared.u32 [%r3+{{0|1000}}], %r4; ret; }",
     "\"space\":\"shared\""},
    {"mem.bounds", 700, 1, 32,
     HEAD "mov.u64 %d6, l; mov.u32 %r4, 5; st.local.u32 [%d6+{{60|64}}], %r4;"
          " ret; }",
     "\"address\":\"0x40\""},
    {"mem.align", 716, 1, 32,
     HEAD "ld.global.v2.u32 {%r4, %r5}, [%d1+{{8|4}}];\n"
          "st.global.u32 [%d5], %r4; ret; }",
     "no multiple of 8"},
    {"mem.align", 716, 1, 32,
     HEAD "mov.u32 %r4, 1; add.s32 %r2, %r2, {{4|2}};"
          "st.shared.u32 [%r2], %r4; ret; }",
     NULL},
    {"mem.readonly", 700, 1, 32,
     HEAD "mov.u64 %d6, pin; cvta.param.u64 %d6, %d6;"
          "{{ld.u64 %d7, [%d6];|st.u64 [%d6], %d1;}} ret; }",
     "read-only"},
    /* undefined values; the input's second half is never written */
    {"init.use", 719, 1, 32,
     HEAD "ld.global.u32 %r4, [%d4+{{0|32768}}]; setp.eq.u32 %p, %r4, 5;\n"
          "@%p bra L; mov.u32 %r4, 0;\nL: st.global.u32 [%d5], %r4; ret; }",
     "guard"},
    {"init.use", 719, 1, 32,
     HEAD "{{st.shared.u32 [%r3], %r1;|}} bar.sync 0;\n"
          "ld.shared.u32 %r4, [%r3]; and.b32 %r4, %r4, 255;\n"
          "mul.wide.u32 %d6, %r4, 4; add.s64 %d6, %d1, %d6;\n"
          "ld.global.u32 %r5, [%d6]; st.global.u32 [%d5], %r5; ret; }",
     "address"},
    {"init.use", 719, 1, 32,
     HEAD "setp.lt.u32 %p, %r1, 16; {{mov.u32 %r6, 0;|}}\n"
          "@%p mov.u32 %r6, 3; setp.eq.u32 %q, %r6, 3;\n"
          "@%q st.global.u32 [%d5], %r6; ret; }",
     NULL},
    {"init.use", 719, 1, 32,
     HEAD "{{mov.u32 %r4, 9; st.local.u32 [l], %r4;|}}\n"
          "ld.local.u32 %r4, [l]; setp.eq.u32 %p, %r4, 9;\n"
          "@%p st.global.u32 [%d5], %r4; ret; }",
     NULL},
    /* races */
    {"race.shared", 719, 1, 64,
     HEAD "st.shared.u32 [%r3], %r1; {{bar.sync 0;|}}\n"
          "xor.b32 %r4, %r1, 63; shl.b32 %r4, %r4, 2; add.s32 %r4, %r2, %r4;"
          "ld.shared.u32 %r5, [%r4]; st.global.u32 [%d5], %r5; ret; }",
     "is not ordered before"},
    {"race.shared", 719, 1, 64,
     HEAD "st.shared.u32 [%r3], %r1; bar.sync 0;\n"
          "xor.b32 %r4, %r1, 32; shl.b32 %r4, %r4, 2; add.s32 %r4, %r2, %r4;"
          "ld.shared.u32 %r5, [%r4]; {{bar.sync 0;|}}\n"
          "st.shared.u32 [%r3], %r5; ret; }",
     "is not ordered before"},
    {"race.shared", 719, 1, 64,
     HEAD "and.b32 %r4, %r1, {{63|31}}; shl.b32 %r4, %r4, 2;"
          "add.s32 %r4, %r2, %r4; st.shared.u32 [%r4], %r1; ret; }",
     NULL},
    {"race.shared", 719, 1, 64,
     HEAD "{{atom.shared.add.u32 %r5, [s], 1;|st.shared.u32 [s], %r1;}}\n"
          "atom.shared.add.u32 %r5, [s], 1; ret; }"
          /* the correct one reads what nobody wrote: it is run with init
             checks off below */,
     NULL},
    {"race.warp", 719, 1, 32,
     HEAD "st.shared.u32 [%r3], %r1; {{bar.warp.sync 0xFFFFFFFF;|}}\n"
          "xor.b32 %r4, %r1, 1; shl.b32 %r4, %r4, 2; add.s32 %r4, %r2, %r4;"
          "ld.shared.u32 %r5, [%r4]; st.global.u32 [%d5], %r5; ret; }",
     NULL},
    /* a barrier of half the block does not order the other half */
    {"race.shared", 719, 1, 128,
     HEAD "shr.u32 %r6, %r1, 6; add.u32 %r6, %r6, 1; and.b32 %r7, %r1, 63;\n"
          "st.shared.u32 [%r3], %r1; bar.sync %r6, 64;\n"
          "xor.b32 %r4, %r1, {{32|64}}; shl.b32 %r4, %r4, 2;"
          "add.s32 %r4, %r2, %r4; ld.shared.u32 %r5, [%r4];\n"
          "st.global.u32 [%d5], %r5; ret; }",
     NULL},
    /* barriers */
    {"bar.diverged", 719, 1, 32,
     HEAD "setp.lt.u32 %p, %r1, {{32|16}}; @!%p bra L; bar.sync 0;\nL: ret; }",
     "does not take part"},
    {"bar.count", 719, 1, 64,
     HEAD "bar.sync 1, {{64|48}}; ret; }", "no multiple of 32"},
    {"bar.count", 719, 1, 32,
     HEAD "mov.u32 %r4, {{15|16}}; bar.sync %r4; ret; }", "above 15"},
    {"bar.mix", 719, 1, 64,
     HEAD "setp.lt.u32 %p, %r1, 32; setp.lt.u32 %q, %r1, 99;\n"
          "@%p bra L; {{bar.red.and.pred %q, 0, %q;|bar.sync 0;}} bra E;\n"
          "L: bar.red.and.pred %q, 0, %q;\nE: ret; }",
     NULL},
    {"hang", 702, 1, 64,
     HEAD "setp.lt.u32 %p, %r1, 32; @%p bra L; bar.sync 1, {{32|64}};\n"
          "L: ret; }",
     "waits for barrier 1"},
    /* warps */
    {"warp.mask", 719, 1, 32,
     HEAD "setp.lt.u32 %p, %r1, {{32|16}}; @!%p bra L;\n"
          "shfl.sync.idx.b32 %r4, %r1, 0, 31, 0xFFFFFFFF;\n"
          "st.global.u32 [%d5], %r4;\nL: ret; }",
     LEAVES},
    {"warp.mask", 719, 1, 32,
     HEAD "shfl.sync.idx.b32 %r4, %r1, 0, 31, {{0xFFFFFFFF|0xFFFFFFFE}};\n"
          "st.global.u32 [%d5], %r4; ret; }",
     "own mask"},
    /* each half by itself; a mask that names lanes of another one */
    {"warp.mask", 719, 1, 32,
     HEAD "setp.lt.u32 %p, %r1, 16;\n"
          "selp.b32 %r5, 0xFFFF, {{0xFFFF0000|0xFFFFFFFF}}, %p;\n"
          "shfl.sync.idx.b32 %r4, %r1, 0, 0x101F, %r5;\n"
          "st.global.u32 [%d5], %r4; ret; }",
     NULL},
    {"warp.inactive", 719, 1, 32,
     HEAD "setp.lt.u32 %p, %r1, 16; @!%p bra L;\n"
          "shfl.sync.idx.b32 %r4, %r1, {{3|19}}, 31, 0xFFFF;\n"
          "st.global.u32 [%d5], %r4;\nL: ret; }",
     "reads lane 19"},
    /* numbers, control */
    {"num.div", 719, 1, 32,
     HEAD "{{or.b32 %r4, %r1, 1;|mov.u32 %r4, %r1;}} div.u32 %r5, 100, %r4;\n"
          "st.global.u32 [%d5], %r5; ret; }",
     "by zero"},
    {"trap", 719, 1, 32,
     HEAD "setp.eq.u32 %p, %r1, {{77|7}}; @%p trap; ret; }", "trap"},
    {"hang.budget", 702, 1, 32,
     HEAD "mov.u32 %r4, 0;\nL: add.u32 %r4, %r4, 1;\n"
          "setp.lt.u32 %p, %r4, {{100|0xFFFFFFFF}}; @%p bra L; ret; }",
     NULL},
};

static void run(const mutant_t *m, bool mutant) {
  char text[8192], report[4096];
  lab_choose(text, sizeof text, m->body, mutant);
  lab_renew(&lab);
  size_t bytes = 65536;
  uint64_t in = lab_alloc(&lab, bytes), out = lab_alloc(&lab, bytes);
  assert_int_equal(lab.cuMemsetD32_v2(in, 5, bytes / 8), 0);
  /* the last words are read by the case at the very end */
  assert_int_equal(lab.cuMemsetD32_v2(in + bytes - 256, 5, 64), 0);
  rcuda_func_t *f = lab_func(&lab, lab_load(&lab, text), "k");
  void *params[] = {&in, &out};
  int code = lab_launch(&lab, f, m->grid, m->block, 0, params);
  lab_report(&lab, report, sizeof report);
  if (!mutant) {
    bool only_init = strstr(report, "\"init.use\"") &&
                     strcmp(m->id, "init.use") != 0 &&
                     strstr(m->body, "atom.shared");
    if (code && !only_init)
      fail_msg("the correct kernel of %s: %d %s\n%s", m->id, code, report,
               text);
    return;
  }
  char id[64];
  snprintf(id, sizeof id, "\"id\":\"%s\"", m->id);
  if (code != m->result || !strstr(report, id) ||
      (m->where && !strstr(report, m->where)))
    fail_msg("%s is not caught: result %d, report %s\n%s", m->id, code,
             report, text);
  /* the context stays broken until it ends */
  assert_int_equal(lab.cuCtxSynchronize(), m->result);
}

static void all_mutants(void **state) {
  (void)state;
  static const char *const modes[] = {"diverge:its,seed:4", "diverge:its",
                                      "diverge:stack,seed:1"};
  for (size_t n = 0; n < sizeof modes / sizeof *modes; n++) {
    assert_int_equal(lab.simgpu_configure(modes[n]), 0);
    for (size_t i = 0; i < sizeof mutants / sizeof *mutants; i++) {
      bool leaves = mutants[i].where && strcmp(mutants[i].where, LEAVES) == 0;
      run(&mutants[i], false);
      if (!leaves || n == 2) run(&mutants[i], true);
    }
  }
}

/* Freed memory, and memory of another device. */
static void freed_memory(void **state) {
  (void)state;
  char report[4096];
  lab_renew(&lab);
  uint64_t in = lab_alloc(&lab, 256), out = lab_alloc(&lab, 256);
  lab.cuMemsetD8_v2(in, 1, 256);
  rcuda_func_t *f = lab_func(
      &lab,
      lab_load(&lab, HEAD "ld.global.u32 %r4, [%d4];"
                          "st.global.u32 [%d5], %r4; ret; }"),
      "k");
  void *params[] = {&in, &out};
  assert_int_equal(lab_launch(&lab, f, 1, 32, 0, params), 0);
  lab.cuMemFree_v2(in);
  assert_int_equal(lab_launch(&lab, f, 1, 32, 0, params), 700);
  assert_non_null(strstr(lab_report(&lab, report, sizeof report),
                         "mem.freed"));
}

/* Undefined bytes travel through memory and copies, and the copy that brings
   them to the host fails; padding that nobody uses is no fault. */
static void undefined_copies(void **state) {
  (void)state;
  char report[4096];
  uint32_t host[32];
  lab_renew(&lab);
  uint64_t in = lab_alloc(&lab, 256), out = lab_alloc(&lab, 256);
  lab.cuMemsetD8_v2(in, 1, 128);
  rcuda_func_t *f = lab_func(
      &lab,
      lab_load(&lab,
               HEAD "shl.b32 %r5, %r1, 1; mul.wide.u32 %d6, %r5, 4;"
                    "add.s64 %d6, %d1, %d6; ld.global.v2.u32 {%r6, %r7},"
                    "[%d6]; setp.lt.u32 %p, %r1, 16;"
                    "selp.b32 %r6, %r6, 0, %p; st.global.u32 [%d5], %r6;"
                    "add.u32 %r7, %r7, 1; st.global.u32 [%d5+128], %r7;"
                    "ret; }"),
      "k");
  void *params[] = {&in, &out};
  assert_int_equal(lab_launch(&lab, f, 1, 32, 0, params), 0);
  lab_copy_out(&lab, host, out, 128);
  assert_int_equal(host[15], 0x01010101);
  assert_int_equal(host[31], 0);
  assert_int_equal(lab.report_count(), 0);
  /* the upper half of the second part came from bytes nobody wrote */
  lab_copy_out(&lab, host, out + 128, 64);
  assert_int_equal(lab.report_count(), 0);
  memset(host, 0, sizeof host);
  assert_int_equal(lab.cuMemcpyDtoH_v2(host, out + 192, 64), 719);
  assert_int_equal(host[0], 0); /* FFFFFFFF + 1: the bytes are copied */
  assert_int_equal(host[15], 0);
  assert_non_null(strstr(lab_report(&lab, report, sizeof report),
                         "init.use"));
  assert_int_equal(lab.cuMemcpyDtoH_v2(host, out, 64), 719); /* for good */
}

/* Leaks, double frees. */
static void host_faults(void **state) {
  (void)state;
  char report[4096];
  lab_renew(&lab);
  uint64_t p = lab_alloc(&lab, 100);
  assert_int_equal(lab.cuMemFree_v2(p + 1), 1);
  assert_int_equal(lab.cuMemFree_v2(p), 0);
  assert_int_equal(lab.cuMemFree_v2(p), 1);
  lab_report(&lab, report, sizeof report);
  assert_non_null(strstr(report, "inside allocation"));
  assert_non_null(strstr(report, "was freed by call"));
  lab.reset();
  lab_alloc(&lab, 1000);
  lab.cuDevicePrimaryCtxReset_v2(0);
  lab_report(&lab, report, sizeof report);
  assert_non_null(strstr(report, "mem.leak"));
  assert_non_null(strstr(report, "1000 bytes"));
  assert_int_equal(lab.cuDevicePrimaryCtxRetain(&lab.ctx, 0), 0);
  assert_int_equal(lab.cuCtxSetCurrent(lab.ctx), 0);
}

/* warn: the finding is kept, the launch goes on. */
static void warnings(void **state) {
  (void)state;
  char report[4096];
  uint32_t host[32];
  lab_renew(&lab);
  assert_int_equal(lab.simgpu_configure("check:warn"), 0);
  uint64_t in = lab_alloc(&lab, 64), out = lab_alloc(&lab, 128);
  lab.cuMemsetD8_v2(in, 2, 64);
  lab.cuMemsetD8_v2(out, 0, 128);
  rcuda_func_t *f = lab_func(
      &lab,
      lab_load(&lab, HEAD "ld.global.u32 %r4, [%d4];"
                          "st.global.u32 [%d5], 7; ret; }"),
      "k");
  void *params[] = {&in, &out};
  assert_int_equal(lab_launch(&lab, f, 1, 32, 0, params), 0);
  lab_copy_out(&lab, host, out, sizeof host);
  assert_int_equal(host[31], 7);
  lab_report(&lab, report, sizeof report);
  assert_non_null(strstr(report, "mem.bounds"));
  assert_int_equal(lab.simgpu_configure("check:all"), 0);
}

/* The same seed gives the same report; other orders and seeds find the same
   faults. */
static void repeatable(void **state) {
  (void)state;
  char first[4096], again[4096], text[8192];
  static const char *const modes[] = {"order:rr", "order:reverse",
                                      "order:random,seed:3",
                                      "order:random,seed:8"};
  const mutant_t *m = &mutants[0];
  for (size_t i = 0; i < sizeof mutants / sizeof *mutants; i++)
    if (strcmp(mutants[i].id, "race.shared") == 0) m = &mutants[i];
  lab_choose(text, sizeof text, m->body, true);
  for (size_t k = 0; k < sizeof modes / sizeof *modes; k++) {
    for (int turn = 0; turn < 2; turn++) {
      assert_int_equal(lab.simgpu_configure(modes[k]), 0);
      lab_renew(&lab);
      uint64_t in = lab_alloc(&lab, 65536), out = lab_alloc(&lab, 65536);
      void *params[] = {&in, &out};
      rcuda_func_t *f = lab_func(&lab, lab_load(&lab, text), "k");
      assert_int_equal(lab_launch(&lab, f, 1, m->block, 0, params), 719);
      lab_report(&lab, turn ? again : first, sizeof first);
      assert_non_null(strstr(turn ? again : first, m->id));
    }
    assert_string_equal(first, again);
  }
  lab.simgpu_configure("order:rr,seed:1");
}

static int setup(void **state) {
  (void)state;
  lab_open(&lab, "model:h100,devices:2,budget:3000000");
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_mutants),      cmocka_unit_test(freed_memory),
      cmocka_unit_test(undefined_copies), cmocka_unit_test(host_faults),
      cmocka_unit_test(warnings),         cmocka_unit_test(repeatable)};
  return cmocka_run_group_tests_name("simgpu.checks", tests, setup, NULL);
}
