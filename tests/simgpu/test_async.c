/* cp.async: sizes, zero fill, groups, and what goes wrong with them. */
#include "async_lab.h"

static lab_t lab;

#define CP16 "cp.async.cg.shared.global [%r3], [%d6], 16;\n"
#define COMMIT "cp.async.commit_group;\n"
/* reads the first word of the other half of 64 threads, writes it */
#define READ_OTHER                                                            \
  "xor.b32 %r4, %r1, 32; shl.b32 %r4, %r4, 4; add.s32 %r4, %r2, %r4;\n"       \
  "ld.shared.u32 %r5, [%r4]; st.global.u32 [%d5], %r5;\n"

static uint32_t other_first(const uint32_t *in, uint32_t i) {
  return in[(i ^ 32) * 4];
}

/* 64 threads copy 4, 8 and 16 bytes each, of which fewer may be read. */
static uint32_t sizes(const uint32_t *in, uint32_t i) {
  uint32_t t = i / 16, k = i % 16;
  /* a: 16 bytes whole; b: 8 of 16 bytes; c: 4 bytes or none by parity;
     d: 5 bytes of 8, then nothing was written for the rest */
  if (k < 4) return in[t * 4 + k];
  if (k < 8) return k < 6 ? in[t * 4 + k - 4] : 0;
  if (k == 8) return t % 2 ? 0 : in[t * 4];
  if (k == 9) return t % 2 ? in[t * 4 + 1] : 0;
  if (k < 12) return k == 10 ? in[t * 4 + 2] : in[t * 4 + 3] & 0xFF;
  return k < 14 ? in[t * 4 + k - 12] : 0xEEEEEEEE;
}

#define LOOP3                                                                 \
  "mov.u32 %r20, 0;\n" /* next tile to load */                                \
  "mov.u32 %r21, 0;\n" /* tile to use */                                      \
  "mov.u32 %r22, 0;\n" /* sum */

/* Sum over 12 tiles of 64 * 4 words: thread t adds word (t ^ 32) * 4. */
static uint32_t tiles(const uint32_t *in, uint32_t i) {
  uint32_t sum = 0;
  for (uint32_t t = 0; t < 12; t++) sum += in[t * 256 + (i ^ 32) * 4];
  return sum;
}

static const async_case_t cases[] = {
    {"sizes", NULL, 64,
     ASYNC_HEAD80
     "shl.b32 %r4, %r1, 6; add.s32 %r4, %r2, %r4;\n"
     "mov.u32 %r5, 8; and.b32 %r6, %r1, 1; setp.ne.u32 %p, %r6, 0;\n"
     "cp.async.cg.shared.global.L2::128B [%r4], [%d6], 16;\n"
     "cp.async.ca.shared.global [%r4+16], [%d6], 16, %r5;\n"
     "cp.async.ca.shared.global [%r4+32], [%d6], 4, %p;\n"
     "cp.async.ca.shared.global [%r4+36], [%d6+4], 4, !%p;\n"
     "mov.u32 %r5, 5;\n"
     "cp.async.ca.shared::cta.global [%r4+40], [%d6+8], 8, %r5;\n"
     "cp.async.ca.shared.global [%r4+48], [%d6], 8;\n"
     "cp.async.wait_all;\n"
     "shl.b32 %r7, %r1, 6; cvt.u64.u32 %d7, %r7; add.s64 %d7, %d2, %d7;\n"
     "ld.shared.v4.u32 {%r8, %r9, %r10, %r11}, [%r4];\n"
     "st.global.v4.u32 [%d7], {%r8, %r9, %r10, %r11};\n"
     "ld.shared.v4.u32 {%r8, %r9, %r10, %r11}, [%r4+16];\n"
     "st.global.v4.u32 [%d7+16], {%r8, %r9, %r10, %r11};\n"
     "ld.shared.v4.u32 {%r8, %r9, %r10, %r11}, [%r4+32];\n"
     "st.global.v4.u32 [%d7+32], {%r8, %r9, %r10, %r11};\n"
     "ld.shared.v2.u32 {%r8, %r9}, [%r4+48];\n"
     "st.global.v2.u32 [%d7+48], {%r8, %r9}; ret; }",
     sizes, 1024, 0},
    {"no wait", "async.early", 64,
     ASYNC_HEAD80 CP16 COMMIT "{{cp.async.wait_group 0;|}}\n"
                              "bar.sync 0;" READ_OTHER
                              "cp.async.wait_all; ret; }",
     other_first, 64, 0},
    {"no commit", "async.group", 64,
     ASYNC_HEAD80 CP16 "{{" COMMIT "|}} cp.async.wait_group 0;\n"
                       "bar.sync 0;" READ_OTHER "ret; }",
     other_first, 64, 0},
    {"no barrier", "race.shared|async.early|async.group", 64,
     ASYNC_HEAD80 CP16 COMMIT "cp.async.wait_group 0; {{bar.sync 0;|}}"
                              READ_OTHER "ret; }",
     other_first, 64, 0},
    {"one group too many", "async.early", 64,
     ASYNC_HEAD80 CP16 COMMIT
     "cp.async.cg.shared.global [%r3+4096], [%d6], 16;\n" COMMIT
     "cp.async.wait_group {{1|2}}; bar.sync 0;" READ_OTHER
     "cp.async.wait_group 0; ret; }",
     other_first, 64, 0},
    {"one address twice", "async.group", 64,
     ASYNC_HEAD80 CP16 "cp.async.cg.shared.global [%r3+{{1024|0}}], [%d6], "
                       "16;\n" COMMIT "cp.async.wait_group 0; bar.sync 0;"
                       READ_OTHER "ret; }",
     other_first, 64, 0},
    {"lanes to one address", "async.group|race.shared", 64,
     ASYNC_HEAD80 "and.b32 %r4, %r1, {{63|62}}; shl.b32 %r4, %r4, 4;\n"
                  "add.s32 %r4, %r2, %r4;\n"
                  "cp.async.cg.shared.global [%r4], [%d6], 16;\n" COMMIT
                  "cp.async.wait_group 0; bar.sync 0;" READ_OTHER "ret; }",
     other_first, 64, 0},
    {"never waited for", "async.exit", 64,
     ASYNC_HEAD80 CP16 COMMIT "cp.async.wait_group 0; bar.sync 0;" READ_OTHER
     "cp.async.cg.shared.global [%r3+4096], [%d6], 16;\n" COMMIT
     "{{cp.async.wait_group 0;|}} ret; }",
     other_first, 64, 0},
    {"never committed", "async.group", 64,
     ASYNC_HEAD80 CP16 "{{cp.async.wait_all;|}} ret; }", NULL, 0, 0},
    {"undefined group and tail commits", NULL, 64,
     ASYNC_HEAD80 CP16 COMMIT COMMIT COMMIT
     "cp.async.wait_group 2; bar.sync 0;" READ_OTHER "ret; }",
     other_first, 64, 0},
    {"misaligned", "mem.align", 64,
     ASYNC_HEAD80 "cp.async.cg.shared.global [%r3], [%d6+{{0|4}}], 16;\n"
                  "cp.async.wait_all; bar.sync 0;" READ_OTHER "ret; }",
     other_first, 64, 0},
    {"beyond the allocation", "mem.bounds", 64,
     ASYNC_HEAD80 "mov.u32 %r5, {{12|16}};\n"
                  "cp.async.cg.shared.global [%r3], [%d1+65520], 16, %r5;\n"
                  "cp.async.wait_all; bar.sync 0;" READ_OTHER "bar.sync 0;\n"
     "cp.async.ca.shared.global [%r3], [%d1+{{65532|65536}}], 4;\n"
     "cp.async.wait_all; ret; }",
     NULL, 0, 0},
    /* the source is not read beyond src-size, whatever lies there */
    {"three stages", "async.early", 64,
     ASYNC_HEAD80 LOOP3
     /* two tiles ahead */
     "PRE: mad.lo.s32 %r4, %r20, 1024, %r3; mul.wide.u32 %d7, %r20, 1024;\n"
     "add.s64 %d7, %d6, %d7; cp.async.cg.shared.global [%r4], [%d7], 16;\n"
     COMMIT "add.u32 %r20, %r20, 1; setp.lt.u32 %p, %r20, 2; @%p bra PRE;\n"
     "TILE: cp.async.wait_group {{1|2}}; bar.sync 0;\n"
     "setp.ge.u32 %p, %r20, 12; @%p bra NONE;\n"
     "rem.u32 %r5, %r20, 3; mad.lo.s32 %r4, %r5, 1024, %r3;\n"
     "mul.wide.u32 %d7, %r20, 1024; add.s64 %d7, %d6, %d7;\n"
     "cp.async.cg.shared.global [%r4], [%d7], 16;\n"
     "NONE: " COMMIT "add.u32 %r20, %r20, 1;\n"
     "rem.u32 %r5, %r21, 3; xor.b32 %r4, %r1, 32; shl.b32 %r4, %r4, 4;\n"
     "mad.lo.s32 %r4, %r5, 1024, %r4; add.s32 %r4, %r2, %r4;\n"
     "ld.shared.u32 %r6, [%r4]; add.u32 %r22, %r22, %r6;\n"
     "add.u32 %r21, %r21, 1; setp.lt.u32 %p, %r21, 12; @%p bra TILE;\n"
     "st.global.u32 [%d5], %r22; ret; }",
     tiles, 64, 0},
    /* in use until the wait, even where the data have moved */
    {"source overwritten", "async.source", 64,
     ASYNC_HEAD80 CP16 COMMIT "{{cp.async.wait_group 0;|}}\n"
     "mov.u32 %r4, 7; st.global.u32 [%d6], %r4;\n"
     "cp.async.wait_group 0; bar.sync 0;" READ_OTHER "ret; }",
     other_first, 64, 0},
    /* the same with two stages: a barrier before the refill is needed */
    {"refill too soon", "race.shared|async.early", 64,
     ASYNC_HEAD80 LOOP3
     "cp.async.cg.shared.global [%r3], [%d6], 16;\n" COMMIT
     "mov.u32 %r20, 1;\n"
     "TILE: setp.ge.u32 %p, %r20, 12; @%p bra NONE;\n"
     "and.b32 %r5, %r20, 1; mad.lo.s32 %r4, %r5, 1024, %r3;\n"
     "mul.wide.u32 %d7, %r20, 1024; add.s64 %d7, %d6, %d7;\n"
     "cp.async.cg.shared.global [%r4], [%d7], 16;\n"
     "NONE: " COMMIT "add.u32 %r20, %r20, 1;\n"
     "cp.async.wait_group 1; bar.sync 0;\n"
     "and.b32 %r5, %r21, 1; xor.b32 %r4, %r1, 32; shl.b32 %r4, %r4, 4;\n"
     "mad.lo.s32 %r4, %r5, 1024, %r4; add.s32 %r4, %r2, %r4;\n"
     "ld.shared.u32 %r6, [%r4]; add.u32 %r22, %r22, %r6; {{bar.sync 0;|}}\n"
     "add.u32 %r21, %r21, 1; setp.lt.u32 %p, %r21, 12; @%p bra TILE;\n"
     "st.global.u32 [%d5], %r22; ret; }",
     tiles, 64, 0},
};

static void copies(void **state) {
  (void)state;
  async_run(&lab, cases, sizeof cases / sizeof *cases, NULL);
}

/* Which fault is named depends on who comes first: here the issuer does not. */
static const async_case_t others[] = {
    {"waited for by others", "async.group", 64,
     ASYNC_HEAD80 "setp.lt.u32 %p, %r1, 32; @!%p bra L;\n" CP16
     "cp.async.cg.shared.global [%r3+512], [%d6+512], 16;\n" COMMIT
     "{{cp.async.wait_group 0;|}}\nbra M;\nL: cp.async.wait_group 0;\n"
     "M: bar.sync 0;" READ_OTHER "cp.async.wait_all; ret; }",
     other_first, 64, 0},
};

static void waits_of_others(void **state) {
  (void)state;
  async_run_one(&lab, &others[0], false, "async:late,order:rr", NULL);
  async_run_one(&lab, &others[0], true, "async:late,order:rr", NULL);
}

/* Late copies without a wait leave what was there: the values show it even
   where nothing is judged. */
static void late_values(void **state) {
  (void)state;
  uint32_t out[64], wrong = 0;
  static uint32_t in[ASYNC_WORDS];
  char text[8192];
  static const char body[] = ASYNC_HEAD80
      "mov.u32 %r4, 5; st.shared.u32 [%r3], %r4; bar.sync 0;\n" CP16 COMMIT
      "bar.sync 0;" READ_OTHER "ret; }";
  async_input(in);
  snprintf(text, sizeof text, "%s", body);
  static const char *const modes[] = {"check:none,async:late",
                                      "check:none,async:immediate"};
  for (int k = 0; k < 2; k++) {
    lab.simgpu_configure(modes[k]);
    lab_renew(&lab);
    uint64_t pin = lab_copy_in(&lab, in, sizeof in);
    uint64_t pout = lab_alloc(&lab, 65536);
    uint8_t map[128] = {0};
    void *params[] = {&pin, &pout, map};
    rcuda_func_t *f = lab_func(&lab, lab_load(&lab, text), "k");
    assert_int_equal(lab_launch(&lab, f, 1, 64, 0, params), 0);
    lab_copy_out(&lab, out, pout, sizeof out);
    for (uint32_t i = 0; i < 64; i++) {
      if (k == 0) assert_int_equal(out[i], 5);
      /* the second barrier comes after every copy was issued */
      wrong += k == 1 && out[i] != other_first(in, i);
    }
  }
  assert_int_equal(wrong, 0);
  lab.simgpu_configure("check:all,async:late");
}

/* Bytes of asynchronous copies, and the global traffic they are. */
static void counted(void **state) {
  (void)state;
  async_case_t c = cases[1];
  async_run_one(&lab, &c, false, "async:late", NULL);
  assert_int_equal(lab_counter(&lab, "async.bytes"), 64 * 16);
  assert_int_equal(lab_counter(&lab, "global.bytes_read"), 64 * 16);
  /* 1024 bytes in, 256 bytes of results out */
  assert_int_equal(lab_counter(&lab, "global.sectors"), 32 + 8);
  assert_int_equal(lab_counter(&lab, "shared.bytes_written"), 64 * 16);
  assert_int_equal(lab_counter(&lab, "shared.bytes_read"), 64 * 4);
}

/* What older devices do not have, and forms that do not exist. */
static void refused(void **state) {
  (void)state;
  static const struct {
    const char *text, *why;
  } bad[] = {
      {"cp.async.cg.shared.global [%r3], [%d6], 8;", "a copy of 8 bytes"},
      {"cp.async.ca.shared.global [%r3], [%d6], 12;", "a copy of 12 bytes"},
      {"cp.async.ca.global.shared.cta [%r3], [%d6], 4;", "not known"},
      {"cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::"
       "complete_tx::bytes [%r3], [%d6, {%r1, %r1, %r1, %r1}], [%r10], "
       "{%h, %h};",
       "not known"},
      {"cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4."
       "mbarrier::complete_tx::bytes [%r3], [%d6, {%r1, %r1}], [%r10];",
       "not known"},
      {"cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::"
       "complete_tx::bytes [%r3], [%d6, {%r1, %r1}], [%r10];",
       "2 coordinates where 3 are meant"},
      {"mbarrier.arrive.shared::cluster.b64 %d7, [%r10];", "must be '_'"},
      {"mbarrier.try_wait.shared::cluster.b64 %p, [%r10], %d7;",
       "not known"}};
  char text[8192], log[2048];
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    snprintf(text, sizeof text, "%s%s ret; }", ASYNC_HEAD, bad[i].text);
    rcuda_module_t *m = NULL;
    rcuda_func_t *f = NULL;
    int options[] = {RCUDA_JIT_ERROR_LOG, RCUDA_JIT_ERROR_LOG_BYTES};
    void *values[] = {log, (void *)(uintptr_t)sizeof log};
    log[0] = 0;
    lab_renew(&lab);
    int code = lab.cuModuleLoadDataEx(&m, text, 2, options, values);
    if (!code) code = lab.cuModuleGetFunction(&f, m, "k");
    if (!code || (log[0] && !strstr(log, bad[i].why)))
      fail_msg("%s: result %d, log %s", bad[i].text, code, log);
  }
}

static int setup(void **state) {
  (void)state;
  lab_open(&lab, "model:h100,budget:3000000");
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(copies), cmocka_unit_test(waits_of_others),
      cmocka_unit_test(late_values), cmocka_unit_test(counted),
      cmocka_unit_test(refused)};
  return cmocka_run_group_tests_name("simgpu.async", tests, setup, NULL);
}
