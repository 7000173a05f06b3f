/* mbarriers: phases, arrivals, transactions, waits, and each misuse. */
#include "async_lab.h"

static lab_t lab;

#define INIT(at, count)                                                       \
  "@%t mbarrier.init.shared::cta.b64 [%r10+" at "], " count ";\n"
#define SYNC "bar.sync 0;\n"
#define WAIT(at, parity)                                                      \
  "{ .reg .pred w; LW: mbarrier.try_wait.parity.shared::cta.b64 w, [%r10+"    \
  at "], " parity "; @!w bra LW; }\n"
#define WAIT_STATE(kind, at, state)                                           \
  "{ .reg .pred w; LW: mbarrier." kind ".shared::cta.b64 w, [%r10+" at "], "  \
  state "; @w bra LD; bra LW; LD: }\n"
#define ARRIVE(at) "mbarrier.arrive.shared::cta.b64 _, [%r10+" at "];\n"
/* a word a thread in shared memory: s + 4 tid, and the other warp's */
#define OWN "shl.b32 %r4, %r1, 2; add.s32 %r4, %r2, %r4;\n"
#define OTHER "xor.b32 %r5, %r1, 32; shl.b32 %r5, %r5, 2;\n"                  \
              "add.s32 %r5, %r2, %r5;\n"
#define WARP0 "setp.lt.u32 %p, %r1, 32;\n"

static uint32_t other_tid(const uint32_t *in, uint32_t i) {
  (void)in;
  return (i ^ 32) * 3;
}

/* What the consumer warp sums: 8 rounds of (round * 100 + lane). */
static uint32_t rounds(const uint32_t *in, uint32_t i) {
  (void)in;
  return i < 32 ? 0xEEEEEEEE : 8 * (i - 32) + 100 * 28;
}

static uint32_t counts(const uint32_t *in, uint32_t i) {
  (void)in;
  return i == 0 ? 5 : i == 1 ? 3 : 0xEEEEEEEE;
}

static uint32_t quads(const uint32_t *in, uint32_t i) {
  return i < 32 ? 0xEEEEEEEE : in[(i - 32) * 4 + 2];
}

static uint32_t quads_of_two(const uint32_t *in, uint32_t i) {
  return i < 32 ? 0xEEEEEEEE : in[i % 32 * 4 + 2];
}

#define MEET                                                                  \
  "mul.lo.u32 %r6, %r1, 3; st.shared.u32 [%r4], %r6;\n"
#define SHOW "ld.shared.u32 %r7, [%r5]; st.global.u32 [%d5], %r7;\n"

static const async_case_t cases[] = {
    {"try_wait by state", "race.shared", 64,
     ASYNC_HEAD INIT("0", "64") SYNC OWN OTHER MEET
     "mbarrier.arrive.shared::cta.b64 %d7, [%r10];\n"
     "{{" WAIT_STATE("try_wait", "0", "%d7") "|}}" SHOW "ret; }",
     other_tid, 64, 0},
    {"test_wait by state", "race.shared", 64,
     ASYNC_HEAD80 INIT("0", "64") SYNC OWN OTHER MEET
     "mbarrier.arrive.shared.b64 %d7, [%r10];\n"
     "{{" WAIT_STATE("test_wait", "0", "%d7") "|}}" SHOW "ret; }",
     other_tid, 64, 0},
    {"generic addresses", "hang", 64,
     ASYNC_HEAD "cvta.shared.u64 %d8, 0; mov.u64 %d8, b;\n"
     "cvta.shared.u64 %d8, %d8; @%t mbarrier.init.b64 [%d8], {{64|65}};\n" SYNC
     OWN OTHER MEET "mbarrier.arrive.b64 %d7, [%d8];\n"
     "{ .reg .pred w; LW: mbarrier.try_wait.b64 w, [%d8], %d7, 100;\n"
     "@!w bra LW; }\n" SHOW "ret; }",
     other_tid, 64, 0},
    {"no barrier after init", "mbar.init", 64,
     ASYNC_HEAD INIT("0", "64") "{{" SYNC "|}}" OWN OTHER MEET
     "mbarrier.arrive.shared::cta.b64 %d7, [%r10];\n"
     WAIT_STATE("try_wait", "0", "%d7") SHOW "ret; }",
     other_tid, 64, 0},
    {"one arrival too few", "hang", 64,
     ASYNC_HEAD INIT("0", "{{64|65}}") SYNC OWN OTHER MEET
     "mbarrier.arrive.shared::cta.b64 %d7, [%r10];\n"
     WAIT_STATE("try_wait", "0", "%d7") SHOW "ret; }",
     other_tid, 64, 0},
    {"one arrival too many", "mbar.phase|hang", 64,
     ASYNC_HEAD INIT("0", "{{64|63}}") SYNC OWN OTHER MEET
     "mbarrier.arrive.shared::cta.b64 %d7, [%r10];\n"
     WAIT_STATE("try_wait", "0", "%d7") SHOW "ret; }",
     other_tid, 64, 0},
    {"counted arrival", "mbar.arrive", 32,
     ASYNC_HEAD INIT("0", "3") SYNC
     "@%t mbarrier.arrive.shared::cta.b64 _, [%r10], {{3|4}};\n"
     WAIT("0", "0") "ret; }",
     NULL, 0, 0},
    {"relaxed arrival", "race.shared", 64,
     ASYNC_HEAD INIT("0", "64") SYNC OWN OTHER MEET
     "mbarrier.arrive.{{release|relaxed}}.cta.shared::cta.b64 %d7, [%r10];\n"
     WAIT_STATE("try_wait", "0", "%d7") SHOW "ret; }",
     other_tid, 64, 0},
    {"relaxed wait", "race.shared", 64,
     ASYNC_HEAD INIT("0", "64") SYNC OWN OTHER MEET
     "mbarrier.arrive.shared::cta.b64 %d7, [%r10];\n"
     WAIT_STATE("try_wait.{{acquire|relaxed}}.cta", "0", "%d7") SHOW "ret; }",
     other_tid, 64, 0},
    /* full at b, empty at b + 8: one word a lane goes from warp 0 to warp 1 */
    {"ping-pong", "race.shared|hang|mbar.phase|init.use", 64,
     ASYNC_HEAD INIT("0", "32") INIT("8", "32") SYNC WARP0
     "and.b32 %r6, %r1, 31; shl.b32 %r4, %r6, 2; add.s32 %r4, %r2, %r4;\n"
     "mov.u32 %r7, 0; mov.u32 %r9, 0; @!%p bra USE;\n"
     "PUT: and.b32 %r8, %r7, 1; xor.b32 %r8, %r8, 1;\n"
     WAIT("8", "%r8")
     "mad.lo.u32 %r11, %r7, 100, %r6; st.shared.u32 [%r4], %r11;\n"
     ARRIVE("0")
     "add.u32 %r7, %r7, 1; setp.lt.u32 %q, %r7, 8; @%q bra PUT; ret;\n"
     "USE: and.b32 %r8, %r7, 1; {{|xor.b32 %r8, %r8, 1;}}\n"
     WAIT("0", "%r8")
     "ld.shared.u32 %r11, [%r4]; add.u32 %r9, %r9, %r11;\n" ARRIVE("8")
     "add.u32 %r7, %r7, 1; setp.lt.u32 %q, %r7, 8; @%q bra USE;\n"
     "st.global.u32 [%d5], %r9; ret; }",
     rounds, 64, 0},
    {"producer's starting parity", "hang", 64,
     ASYNC_HEAD INIT("0", "32") INIT("8", "32") SYNC WARP0
     "and.b32 %r6, %r1, 31; shl.b32 %r4, %r6, 2; add.s32 %r4, %r2, %r4;\n"
     "mov.u32 %r7, 0; mov.u32 %r9, 0; @!%p bra USE;\n"
     "PUT: and.b32 %r8, %r7, 1; {{xor.b32 %r8, %r8, 1;|}}\n"
     WAIT("8", "%r8")
     "mad.lo.u32 %r11, %r7, 100, %r6; st.shared.u32 [%r4], %r11;\n"
     ARRIVE("0")
     "add.u32 %r7, %r7, 1; setp.lt.u32 %q, %r7, 8; @%q bra PUT; ret;\n"
     "USE: and.b32 %r8, %r7, 1;\n"
     WAIT("0", "%r8")
     "ld.shared.u32 %r11, [%r4]; add.u32 %r9, %r9, %r11;\n" ARRIVE("8")
     "add.u32 %r7, %r7, 1; setp.lt.u32 %q, %r7, 8; @%q bra USE;\n"
     "st.global.u32 [%d5], %r9; ret; }",
     rounds, 64, 0},
    {"released before the read", "race.shared", 64,
     ASYNC_HEAD INIT("0", "32") INIT("8", "32") SYNC WARP0
     "and.b32 %r6, %r1, 31; shl.b32 %r4, %r6, 2; add.s32 %r4, %r2, %r4;\n"
     "mov.u32 %r7, 0; mov.u32 %r9, 0; @!%p bra USE;\n"
     "PUT: and.b32 %r8, %r7, 1; xor.b32 %r8, %r8, 1;\n"
     WAIT("8", "%r8")
     "mad.lo.u32 %r11, %r7, 100, %r6; st.shared.u32 [%r4], %r11;\n"
     ARRIVE("0")
     "add.u32 %r7, %r7, 1; setp.lt.u32 %q, %r7, 8; @%q bra PUT; ret;\n"
     "USE: and.b32 %r8, %r7, 1;\n"
     WAIT("0", "%r8") "{{|" ARRIVE("8") "}}"
     "ld.shared.u32 %r11, [%r4]; add.u32 %r9, %r9, %r11;\n"
     "{{" ARRIVE("8") "|}}"
     "add.u32 %r7, %r7, 1; setp.lt.u32 %q, %r7, 8; @%q bra USE;\n"
     "st.global.u32 [%d5], %r9; ret; }",
     rounds, 64, 0},
    /* phases that run away from a waiter */
    {"two phases behind", "mbar.phase", 64,
     ASYNC_HEAD INIT("0", "1") SYNC WARP0 "@%t " ARRIVE("0") WAIT("0", "0")
     SYNC "@%t " ARRIVE("0") "@!%p bra S;\n" WAIT("0", "1")
     "{{|@%t " ARRIVE("0") WAIT("0", "0") "@%t " ARRIVE("0") WAIT("0", "1")
     "}}\nS: " SYNC WAIT("0", "1") "ret; }",
     NULL, 0, 0},
    {"state two phases old", "mbar.phase", 32,
     ASYNC_HEAD INIT("0", "1") SYNC
     "@%t mbarrier.arrive.shared::cta.b64 %d7, [%r10];\n" WAIT("0", "0")
     "{{|@%t " ARRIVE("0") WAIT("0", "1") "}}\n@!%t bra E;\n"
     WAIT_STATE("try_wait", "0", "%d7") "E: ret; }",
     NULL, 0, 0},
    {"phase nobody saw", "mbar.phase", 32,
     ASYNC_HEAD INIT("0", "1") SYNC "@%t " ARRIVE("0") "{{" WAIT("0", "0")
     "|}} @%t " ARRIVE("0") WAIT("0", "1") "ret; }",
     NULL, 0, 0},
    /* warp 1 arrives again before anybody has waited, but knows by another
       barrier that all have arrived */
    {"ahead of the waiter", "mbar.phase", 64,
     ASYNC_HEAD INIT("0", "64") INIT("8", "64") SYNC WARP0 ARRIVE("0")
     ARRIVE("8") "@%p bra A;\n{{" WAIT("8", "0") "|}}" ARRIVE("0")
     "bra B;\nA:" WAIT("0", "0") ARRIVE("0") "B:" WAIT("0", "1") "ret; }",
     NULL, 0, 0},
    {"used before init", "mbar.init", 32,
     ASYNC_HEAD "{{" INIT("0", "1") "|}}" SYNC "@%t " ARRIVE("0")
     WAIT("0", "0") "ret; }",
     NULL, 0, 0},
    {"initialised twice", "mbar.init", 32,
     ASYNC_HEAD INIT("0", "1") "{{@%t mbarrier.inval.shared.b64 [%r10];|}}\n"
     INIT("0", "1") SYNC "@%t " ARRIVE("0") WAIT("0", "0") "ret; }",
     NULL, 0, 0},
    {"used after inval", "mbar.init", 32,
     ASYNC_HEAD INIT("0", "1") SYNC "@%t " ARRIVE("0") WAIT("0", "0") SYNC
     "@%t mbarrier.inval.shared::cta.b64 [%r10];\n" SYNC
     "{{|@%t " ARRIVE("0") "}} @%t st.shared.u32 [%r10], %r1;\n"
     "@%t ld.shared.u32 %r4, [%r10]; ret; }",
     NULL, 0, 0},
    {"ordinary access", "mbar.access", 32,
     ASYNC_HEAD INIT("0", "1") SYNC "mov.u32 %r4, 1;\n"
     "@%t st.shared.u32 [%r10+{{8|4}}], %r4; ret; }",
     NULL, 0, 0},
    {"read as data", "mbar.access", 32,
     ASYNC_HEAD INIT("8", "1") "@%t st.shared.u32 [%r10], %r1;\n" SYNC
     "ld.shared.u32 %r4, [%r10+{{0|8}}]; ret; }",
     NULL, 0, 0},
    {"misaligned", "mem.align", 32,
     ASYNC_HEAD INIT("{{8|4}}", "1") "ret; }", NULL, 0, 0},
    {"count out of range", "mbar.init", 32,
     ASYNC_HEAD INIT("0", "{{1048575|1048576}}") "ret; }", NULL, 0, 0},
    {"transactions left", "mbar.tx", 32,
     ASYNC_HEAD INIT("0", "1") SYNC
     "@%t mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r10], 16;\n"
     "{{@%t mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r10], 16;|}}\n"
     "ret; }",
     NULL, 0, 0},
    {"transaction range", "mbar.tx", 32,
     ASYNC_HEAD INIT("0", "1") SYNC
     "@%t mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r10], "
     "{{1048575|1048576}};\n"
     "@%t mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r10], "
     "{{1048575|1048576}};\n ret; }",
     NULL, 0, 0},
    /* the first phase needs both warps' lanes 0, the next only one */
    {"drop", "hang", 64,
     ASYNC_HEAD INIT("0", "2") SYNC
     "setp.eq.u32 %q, %r1, 32; @%q mbarrier.arrive{{_drop|}}.shared::cta.b64 "
     "%d7, [%r10];\n@%t " ARRIVE("0") WAIT("0", "0") SYNC "@%t " ARRIVE("0")
     WAIT("0", "1") "ret; }",
     NULL, 0, 0},
    {"pending count", "mbar.arrive", 32,
     ASYNC_HEAD80 INIT("0", "5") SYNC "@!%t bra E;\n"
     "mbarrier.arrive.noComplete.shared.b64 %d7, [%r10], 2;\n"
     "mbarrier.pending_count.b64 %r4, %d7; st.global.u32 [%d2], %r4;\n"
     "mbarrier.arrive.noComplete.shared.b64 %d7, [%r10], {{2|3}};\n"
     "mbarrier.pending_count.b64 %r4, %d7; st.global.u32 [%d2+4], %r4;\n"
     "E: ret; }",
     counts, 8, 0},
    /* cp.async reports to an mbarrier, the other warp waits for it */
    {"cp.async to mbarrier", "async.early|init.use|race.shared", 64,
     ASYNC_HEAD INIT("0", "32") SYNC WARP0
     "and.b32 %r6, %r1, 31; shl.b32 %r4, %r6, 4; add.s32 %r4, %r2, %r4;\n"
     "@!%p bra USE; cp.async.cg.shared.global [%r4], [%d6], 16;\n"
     "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r10]; ret;\n"
     "USE: {{" WAIT("0", "0") "|}}"
     "ld.shared.u32 %r7, [%r4+8]; st.global.u32 [%d5], %r7; ret; }",
     quads, 64, 0},
    /* two stages are under way; each is ordered by its own mbarrier */
    {"two stages to two mbarriers", "async.early|race.shared", 64,
     ASYNC_HEAD INIT("0", "32") INIT("8", "32") SYNC WARP0
     "and.b32 %r6, %r1, 31; shl.b32 %r4, %r6, 4; add.s32 %r4, %r2, %r4;\n"
     "@!%p bra USE; cp.async.cg.shared.global [%r4], [%d6], 16;\n"
     "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r10];\n"
     "cp.async.cg.shared.global [%r4+512], [%d6+512], 16;\n"
     "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r10+8]; ret;\n"
     "USE: " WAIT("0", "0") "ld.shared.u32 %r7, [%r4+8];\n"
     "{{" WAIT("8", "0") "|}}"
     "ld.shared.u32 %r8, [%r4+520]; st.global.u32 [%d5], %r7;\n"
     "ret; }",
     quads, 64, 0},
    /* the second mbarrier hears of the first copy, too */
    {"two stages, the later one first", "async.early|race.shared", 96,
     ASYNC_HEAD INIT("0", "32") INIT("8", "32") SYNC WARP0
     "and.b32 %r6, %r1, 31; shl.b32 %r4, %r6, 4; add.s32 %r4, %r2, %r4;\n"
     "@!%p bra USE; cp.async.cg.shared.global [%r4], [%d6], 16;\n"
     "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r10];\n"
     "cp.async.cg.shared.global [%r4+512], [%d6+512], 16;\n"
     "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r10+8]; ret;\n"
     "USE: setp.ge.u32 %q, %r1, 64; @!%q bra ONE;\n{{" WAIT("8", "0") "|}}"
     "ld.shared.u32 %r7, [%r4+8]; st.global.u32 [%d5], %r7; ret;\n"
     "ONE: nanosleep.u32 20; nanosleep.u32 20; nanosleep.u32 20;\n"
     WAIT("0", "0") "ld.shared.u32 %r7, [%r4+8]; st.global.u32 [%d5], %r7;\n"
     "ret; }",
     quads_of_two, 96, 0},
    {"cp.async counted in", "hang", 64,
     ASYNC_HEAD INIT("0", "32") SYNC WARP0
     "and.b32 %r6, %r1, 31; shl.b32 %r4, %r6, 4; add.s32 %r4, %r2, %r4;\n"
     "@!%p bra USE; cp.async.cg.shared.global [%r4], [%d6], 16;\n"
     "cp.async.mbarrier.arrive.shared.b64 [%r10];\n{{" ARRIVE("0") "|}} ret;\n"
     "USE: " WAIT("0", "0")
     "ld.shared.u32 %r7, [%r4+8]; st.global.u32 [%d5], %r7; ret; }",
     quads, 64, 0},
    {"copy after the arrival", "async.group|race.shared|init.use",
     64,
     ASYNC_HEAD INIT("0", "32") SYNC WARP0
     "and.b32 %r6, %r1, 31; shl.b32 %r4, %r6, 4; add.s32 %r4, %r2, %r4;\n"
     "@!%p bra USE; {{cp.async.cg.shared.global [%r4], [%d6], 16;|}}\n"
     "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r10];\n"
     "{{|cp.async.cg.shared.global [%r4], [%d6], 16;}} ret;\n"
     "USE: " WAIT("0", "0")
     "ld.shared.u32 %r7, [%r4+8]; st.global.u32 [%d5], %r7; ret; }",
     quads, 64, 0},
};

static void barriers(void **state) {
  (void)state;
  async_run(&lab, cases, sizeof cases / sizeof *cases, NULL);
}

/* A wait may fail although the phase is complete: code must try again, and
   the simulated device makes it do so now and then. */
static void waits_fail(void **state) {
  (void)state;
  static const char text[] = ASYNC_HEAD INIT("0", "1") SYNC WARP0
      "@%t " ARRIVE("0") "@!%p bra L;\n" WAIT("0", "0") "ret;\nL: "
      "mov.u32 %r4, 0;\n"
      "LW: add.u32 %r4, %r4, 1;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 %q, [%r10], 0;\n"
      "@!%q bra LW; st.global.u32 [%d5], %r4; ret; }";
  unsigned seen[5] = {0}, kinds = 0;
  for (unsigned seed = 1; seed <= 24; seed++) {
    char mode[64];
    uint32_t tries = 0;
    uint8_t map[128] = {0};
    snprintf(mode, sizeof mode, "async:late,order:rr,seed:%u", seed);
    lab.simgpu_configure(mode);
    lab_renew(&lab);
    uint64_t in = lab_alloc(&lab, 65536), out = lab_alloc(&lab, 65536);
    void *params[] = {&in, &out, map};
    rcuda_func_t *f = lab_func(&lab, lab_load(&lab, text), "k");
    assert_int_equal(lab_launch(&lab, f, 1, 64, 0, params), 0);
    lab_copy_out(&lab, &tries, out + 32 * 4, 4);
    /* one before the arrival, two that fail although it is complete */
    assert_in_range(tries, 1, 4);
    kinds += seen[tries]++ == 0;
  }
  assert_true(kinds >= 3);
  lab.simgpu_configure("async:late,order:rr,seed:1");
}

/* The report of a hang tells what each warp waits for. */
static void hang_text(void **state) {
  (void)state;
  char report[4096];
  static const char text[] = ASYNC_HEAD INIT("0", "2") SYNC
      "@%t mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r10], 64;\n"
      WAIT("0", "0") "ret; }";
  uint8_t map[128] = {0};
  lab_renew(&lab);
  uint64_t in = lab_alloc(&lab, 64), out = lab_alloc(&lab, 64);
  void *params[] = {&in, &out, map};
  rcuda_func_t *f = lab_func(&lab, lab_load(&lab, text), "k");
  assert_int_equal(lab_launch(&lab, f, 1, 32, 0, params), 702);
  lab_report(&lab, report, sizeof report);
  assert_non_null(strstr(report, "\"hang\""));
  assert_non_null(strstr(report, "phase 0, 1 of 2 arrivals missing, 64 bytes"));
}

static int setup(void **state) {
  (void)state;
  lab_open(&lab, "model:h100,budget:3000000");
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(barriers),
                                     cmocka_unit_test(waits_fail),
                                     cmocka_unit_test(hang_text)};
  return cmocka_run_group_tests_name("simgpu.mbar", tests, setup, NULL);
}
