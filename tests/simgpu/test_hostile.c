/* Hostile and damaged modules: refused with an error that names a line, or
   loaded and run to an end; never a crash, and in bounded time and memory.
   Damage is seeded, so a failure repeats. tests/fuzz/fuzz_ptx.c goes on where
   this ends. */
#include "cu_lab.h"

#include <sys/resource.h>
#include <time.h>

static lab_t lab;

/* A module with a little of everything. */
static const char whole[] =
    PTX_HEAD("sm_80")
    ".file 1 \"/x/y.tdsl\"\n"
    ".const .align 4 .b32 table[4] = {1, 2, 3, 0x4};\n"
    ".visible .global .align 8 .u64 at[2] = {table, generic(table)};\n"
    ".global .attribute(.managed) .align 4 .b8 far[8] = {1};\n"
    ".extern .shared .align 16 .b8 dynamic[];\n"
    ".pragma \"nounroll\";\n"
    ".section .debug_str { .b8 65, 0\n .b32 .debug_str /* + */ }\n"
    ".func (.param .b32 r) twice(.param .b32 a) {\n"
    " .reg .b32 %r<3>; ld.param.u32 %r1, [a]; add.u32 %r2, %r1, %r1;\n"
    " st.param.b32 [r], %r2; ret; }\n"
    ".visible .entry k(.param .u64 p, .param .align 4 .b8 s[12])\n"
    ".maxntid 64, 1, 1 .minnctapersm 2 {\n"
    " .reg .pred %p<4>; .reg .b32 %r<20>; .reg .b64 %d<8>; .reg .f32 %f<4>;\n"
    " .shared .align 16 .b8 sm[256]; .local .align 8 .b8 l[32];\n"
    " .loc 1 3 5\n"
    " ld.param.u64 %d1, [p]; ld.param.v2.u32 {%r1, %r2}, [s+4];\n"
    " mov.u32 %r3, %tid.x; mul.wide.u32 %d2, %r3, 4; add.s64 %d3, %d1, %d2;\n"
    " cvt.rn.f32.u32 %f1, %r3; fma.rn.f32 %f2, %f1, 0f3F800000, %f1;\n"
    " setp.gt.f32 %p1|%p2, %f2, 0f41000000; and.pred %p3, %p1, !%p2;\n"
    " { .reg .b32 t; mov.b32 t, %f2; mov.u32 %r4, t; }\n"
    " mov.u32 %r5, sm; st.shared.v2.u32 [%r5+8], {%r4, %r3}; bar.sync 0;\n"
    " ld.shared.u32 %r6, [%r5+12]; st.local.u32 [l+4], %r6;\n"
    " { .param .b32 x; st.param.b32 [x+0], %r6; .param .b32 y;\n"
    "   call.uni (y), twice, (x); ld.param.b32 %r7, [y+0]; }\n"
    " shfl.sync.bfly.b32 %r8|%p1, %r7, 1, 31, -1; vote.sync.ballot.b32 %r9,\n"
    "  %p3, 0xFFFFFFFF; lop3.b32 %r10, %r8, %r9, %r4, 0x96;\n"
    "L: sub.u32 %r3, %r3, 8; setp.lt.s32 %p2, %r3, 0; @!%p2 bra L;\n"
    " @%p1 bra $end; atom.global.add.u32 %r11, [%d1+512], 1;\n"
    "$end: prmt.b32 %r12, %r10, %r4, 0x5410; st.global.u32 [%d3], %r12;\n"
    " ret;\n}\n";

static void expect_life(void) {
  /* the driver still works */
  rcuda_module_t *m = lab_load(&lab, whole);
  assert_int_equal(lab.cuModuleUnload(m), 0);
}

/* Arguments for whatever parameters the damage left: a pointer and zeros. */
typedef struct args {
  uint64_t first[4096], rest[4096]; /* above the 32764 bytes of all */
  void *list[64];
} args_t;

static bool make_args(args_t *a, rcuda_func_t *f, uint64_t pointer) {
  size_t at, bytes;
  memset(a, 0, sizeof *a);
  a->first[0] = pointer;
  for (size_t i = 0; i < 64; i++) {
    if (lab.cuFuncGetParamInfo(f, i, &at, &bytes)) return true;
    a->list[i] = i ? a->rest : a->first;
  }
  return false;
}

/* Loads, and if that works runs; every outcome but a crash is fine. */
static int try_one(const char *text) {
  char log[512] = "";
  int options[] = {RCUDA_JIT_ERROR_LOG, RCUDA_JIT_ERROR_LOG_BYTES};
  void *values[] = {log, (void *)(uintptr_t)sizeof log};
  rcuda_module_t *m = NULL;
  rcuda_func_t *f = NULL;
  int code = lab.cuModuleLoadDataEx(&m, text, 2, options, values);
  if (code) {
    if (!log[0]) fail_msg("refused without a word: %d\n%s", code, text);
    if (code != 218 && code != 222 && code != 209 && code != 2)
      fail_msg("result %d: %s\n%s", code, log, text);
    return code;
  }
  if (lab.cuModuleGetFunction(&f, m, "k") == 0) {
    uint64_t p = lab_alloc(&lab, 4096);
    args_t args;
    lab.cuMemsetD32_v2(p, 1, 1024);
    if (make_args(&args, f, p) &&
        lab_launch(&lab, f, 1, 64, 0, args.list) == 0) {
      lab.cuMemFree_v2(p);
      lab.cuModuleUnload(m);
      return 0;
    }
  }
  lab_renew(&lab); /* after a fault, or with a module nobody can use */
  return 0;
}

static void cut_anywhere(void **state) {
  (void)state;
  size_t n = strlen(whole);
  char *text = malloc(n + 1);
  for (size_t k = 0; k < n; k++) {
    memcpy(text, whole, k);
    text[k] = 0;
    int code = try_one(text);
    /* after the header and between two top-level things it may be whole */
    if (code == 0 && k > 300 && k + 2 < n &&
        strchr(text + 100, '{') && text[k - 1] != '\n' && text[k - 1] != '}')
      fail_msg("cut after %zu bytes and accepted:\n%s", k, text);
  }
  free(text);
  lab_renew(&lab);
  expect_life();
}

static void damaged(void **state) {
  (void)state;
  static const char *const pieces[] = {
      "%r1",      "%d1",   "%p1",     "%f1",   "0x7FFFFFFFFFFFFFFF", "-1",
      "{",        "}",     "[",       "]",     ".u64",               ".f32",
      ".shared",  "@%p1 ", "bra L",   ";",     "4294967296",         "%rzz",
      ".param",   "ret;",  "0f",      "//",    "/*",                 ".v4",
      "call",     "k",     "twice",   "table", "sm",                 "l",
      ".reg .b32 %r<999999999>;", ".align 3", ".loc 9 9 9",
      "bar.sync 99;", "trap;", "exit;", ".b8 z[99999999999];", "\"", "\\"};
  uint64_t seed = 99;
  size_t n = strlen(whole);
  char *text = malloc(2 * n + 100);
  for (int round = 0; round < 10000; round++) {
    size_t length = n;
    memcpy(text, whole, n + 1);
    for (uint64_t edits = 1 + lab_random(&seed) % 4; edits; edits--) {
      size_t at = lab_random(&seed) % length;
      size_t count = lab_random(&seed) % 12;
      if (at + count > length) count = length - at;
      switch (lab_random(&seed) % 5) {
      case 0: text[at] = (char)(lab_random(&seed) % 255 + 1); break;
      case 1: /* a stretch is lost */
        memmove(text + at, text + at + count, length - at - count + 1);
        length -= count;
        break;
      case 2: { /* something is put in */
        const char *p =
            pieces[lab_random(&seed) % (sizeof pieces / sizeof *pieces)];
        size_t m = strlen(p);
        if (length + m >= 2 * n) break;
        memmove(text + at + m, text + at, length - at + 1);
        memcpy(text + at, p, m);
        length += m;
        break;
      }
      case 3: { /* a stretch comes twice */
        if (length + count >= 2 * n) break;
        memmove(text + at + count, text + at, length - at + 1);
        length += count;
        break;
      }
      default: { /* two stretches change places */
        size_t other = lab_random(&seed) % length;
        char c = text[at];
        text[at] = text[other];
        text[other] = c;
      }
      }
    }
    text[length] = 0;
    try_one(text);
  }
  free(text);
  lab_renew(&lab);
  expect_life();
}

/* A text of `head`, then `count` times `piece`, then `tail`. */
static char *repeated(const char *head, const char *piece, size_t count,
                      const char *tail) {
  size_t h = strlen(head), p = strlen(piece), t = strlen(tail);
  char *text = malloc(h + p * count + t + 1), *at = text + h;
  assert_non_null(text);
  memcpy(text, head, h);
  for (size_t k = 0; k < count; k++, at += p) memcpy(at, piece, p);
  memcpy(at, tail, t + 1);
  return text;
}

#define ENTRY PTX_HEAD("sm_80") ".visible .entry k(.param .u64 p) {\n"

static void extremes(void **state) {
  (void)state;
  static const struct {
    const char *head, *piece;
    size_t count;
    const char *tail;
    int code; /* -1: any */
  } rows[] = {
      {ENTRY, "{", 100000, "", 218},
      {ENTRY, "{", 200, "", 218},
      {ENTRY "ret; ", "}", 100000, "", 218},
      {ENTRY, "(", 100000, "", 218},
      {ENTRY ".reg .b32 %r1; mov.u32 %r1, ", "-", 100000, "1; ret; }", -1},
      {ENTRY ".reg .b32 %r<99999999>; ret; }", "", 0, "", -1},
      {ENTRY ".reg .pred %p<0>; ret; }", "", 0, "", 0},
      {ENTRY ".reg .b32 %r<999999999999999999999>; ret; }", "", 0, "", 218},
      {ENTRY ".shared .b8 s[99999999999999]; ret; }", "", 0, "", -1},
      {ENTRY ".local .b8 l[4294967295]; ret; }", "", 0, "", -1},
      {ENTRY ".shared .align 1073741824 .b8 s[4]; ret; }", "", 0, "", -1},
      {PTX_HEAD("sm_80") ".global .b8 g[9223372036854775807];", "", 0, "",
       -1},
      {PTX_HEAD("sm_80") ".global .b32 g[4] = {", "1,", 100000, "1};", 218},
      {PTX_HEAD("sm_80") ".visible .entry ", "k", 1000000,
       "() { ret; }", -1},
      {PTX_HEAD("sm_80") ".visible .entry k(", ".param .u64 a,", 20000,
       ".param .u64 b) { ret; }", -1},
      {ENTRY "ret; }", "\n// nothing", 200000, "", 0},
      {ENTRY "ret; }", "/*", 1, "", 218},
      {ENTRY, "bra L;", 20000, "L: ret; }", 0},
      {ENTRY, "L: bra L;", 2, "ret; }", 218},
      {ENTRY ".reg .f32 %f<2>; mov.f32 %f1, 0f", "F", 100000, "; ret; }",
       218},
      {ENTRY, ".reg .b32 %a;", 2, "ret; }", -1},
      {ENTRY, "add.u32 x, y, z;", 1, "ret; }", 218},
      {ENTRY, "bar.sync 0;", 100000, "ret; }", 0},
      {".version 9.0", "\n", 1000000, "", 218},
      {"", "\n", 1000000, "", 218},
      {"\x80\xFF\xFE", "", 0, "", 218},
      {ENTRY ".pragma \"", "x", 100000, "", 218},
      /* what is passed over ends at what is no token, too */
      {PTX_HEAD("sm_80") ".section .debug {", ".b8 1", 1, "\x01 }", 218},
      {PTX_HEAD("sm_80") ".section .debug", "\"", 1, "\n { }", 218},
      {PTX_HEAD("sm_80") ".section .debug {", "0f1 ", 1, "}", 218},
      {PTX_HEAD("sm_80") ".global .attribute(", "\x80", 1, ") .b8 g;", 218},
      {PTX_HEAD("sm_80") ".section .debug {", "/*", 500000, "}", 218},
      /* memory follows the values that are there */
      {PTX_HEAD("sm_80") ".global .b8 a[1073741824] = {1};"
       ".global .b8 b[1073741824] = {1}; .global .b8 c[1073741824] = {1};",
       "!", 1, "", 218}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char *text = repeated(rows[i].head, rows[i].piece, rows[i].count,
                          rows[i].tail);
    struct timespec a, b;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
    int code = try_one(text);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
    double s = (double)(b.tv_sec - a.tv_sec) +
               (double)(b.tv_nsec - a.tv_nsec) * 1e-9;
    if (rows[i].code >= 0 && code != rows[i].code)
      fail_msg("row %zu: result %d, not %d", i, code, rows[i].code);
    if (s > 60) fail_msg("row %zu took %.1f s", i, s);
    free(text);
    lab_renew(&lab);
  }
  struct rusage use;
  getrusage(RUSAGE_SELF, &use);
  assert_true(use.ru_maxrss < 2048 * 1024);
  expect_life();
}

/* What exists in PTX and not here is refused by its name. */
static void refused_by_name(void **state) {
  (void)state;
  static const struct {
    const char *text, *word;
  } rows[] = {
      {"vabsdiff4.u32.u32.u32.add %r1, %r1, %r1, %r1;", "vabsdiff4"},
      {"tex.2d.v4.f32.f32 {%f1,%f1,%f1,%f1}, [%d1, {%f1, %f1}];", "tex"},
      {"suld.b.1d.b32.trap %r1, [%d1, {%r1}];", "suld"},
      {"tcgen05.alloc.cta_group::1.sync.aligned.b32 [%r1], 32;", "tcgen05"},
      {"add.f31 %f1, %f1, %f1;", "add.f31"},
      {"frobnicate %r1;", "frobnicate"},
      {"call (%r1), nobody, (%r1);", "nobody"},
      {"bra NOWHERE;", "NOWHERE"},
      {"mov.u32 %r9, %r1;", "%r9"},
      {"mov.u32 %r1, %d1;", "mov.u32"},
      {"ld.global.u32 %r1, [nothing];", "nothing"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char text[1024], log[512];
    snprintf(text, sizeof text,
             ENTRY ".reg .b32 %%r<3>; .reg .f32 %%f<3>; .reg .b64 %%d<3>;\n"
                   "\n%s\nret; }\n",
             rows[i].text);
    int code = lab_refused(&lab, text, log, sizeof log);
    if (code != 218 || !strstr(log, rows[i].word) || !strstr(log, "line 7"))
      fail_msg("%s: result %d, %s", rows[i].text, code, log);
  }
}

/* What an architecture lacks: refused for the one before, with the target in
   the log, and taken for the first that has it (the ISA's "target" notes). */
static void targets(void **state) {
  (void)state;
  static const struct {
    const char *text, *word, *before, *first;
  } rows[] = {
      {"cp.async.ca.shared.global [%r1], [%d1], 4;", "cp.async", "sm_75",
       "sm_80"},
      {"mbarrier.init.shared.b64 [%r1], 1;", "mbarrier.init", "sm_75",
       "sm_80"},
      {"redux.sync.add.s32 %r1, %r1, -1;", "redux", "sm_75", "sm_80"},
      {"mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r1], 4;",
       "mbarrier.expect_tx", "sm_89", "sm_90"},
      {"barrier.cluster.arrive;", "barrier.cluster", "sm_89", "sm_90"},
      {"elect.sync _|%p1, -1;", "elect", "sm_86", "sm_90"},
      {"mapa.shared::cluster.u32 %r1, %r1, 0;", "mapa", "sm_80", "sm_90"},
      {"cp.async.bulk.commit_group;", "cp.async.bulk", "sm_89", "sm_90"},
      {"wgmma.fence.sync.aligned;", "wgmma", "sm_90", "sm_90a"},
      {"setmaxnreg.inc.sync.aligned.u32 40;", "setmaxnreg", "sm_90",
       "sm_90a"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char text[1024], log[512];
    for (int is_first = 0; is_first < 2; is_first++) {
      snprintf(text, sizeof text,
               ".version 8.5\n.target %s\n.address_size 64\n"
               ".visible .entry k(.param .u64 p) {\n"
               ".reg .pred %%p<3>; .reg .b32 %%r<3>; .reg .b64 %%d<3>;\n"
               "%s\nret; }\n",
               is_first ? rows[i].first : rows[i].before, rows[i].text);
      if (is_first) {
        rcuda_module_t *m = lab_load(&lab, text);
        assert_non_null(lab_func(&lab, m, "k"));
        lab.cuModuleUnload(m);
        continue;
      }
      int code = lab_refused(&lab, text, log, sizeof log);
      if (code != 218 || !strstr(log, rows[i].word))
        fail_msg("%s for %s: result %d, %s", rows[i].text, rows[i].before,
                 code, log);
    }
  }
}

/* Kernels of CUDA C that use what is not simulated, damaged binaries, and the
   forms that stop a program. */
static void cuda_limits(void **state) {
  (void)state;
  cu_nvrtc_t n = {0};
  char log[512];
  if (!cu_nvrtc_open(&n) || !cu_include()) skip();
  for (int k = 1; k <= 5; k++) {
    char define[32];
    snprintf(define, sizeof define, "-DCASE=%d", k);
    char *ptx = cu_compile_with(&n, "limits.cu", "compute_80", define);
    lab_renew(&lab);
    if (k <= 3) { /* printf, recursion, a function pointer */
      static const char *const words[] = {"vprintf", "fib", ""};
      int code = lab_refused(&lab, ptx, log, sizeof log);
      if (code != 218 || !strstr(log, words[k - 1]))
        fail_msg("case %d: result %d, %s", k, code, log);
    } else { /* assert, trap */
      rcuda_module_t *m = NULL;
      int code = lab.cuModuleLoadData(&m, ptx);
      if (k == 5) assert_int_equal(code, 0);
      if (code == 0) {
        uint32_t one[CU_IN] = {0};
        uint64_t in = lab_copy_in(&lab, one, sizeof one);
        uint64_t out = lab_copy_in(&lab, one, sizeof one);
        void *params[] = {&in, &out};
        assert_int_equal(
            lab_launch(&lab, lab_func(&lab, m, "k"), 1, 32, 0, params), 719);
      } else {
        lab_refused(&lab, ptx, log, sizeof log);
        assert_non_null(strstr(log, "__assertfail"));
      }
    }
    free(ptx);
  }
  lab_renew(&lab);
}

static void binaries(void **state) {
  (void)state;
  rcuda_module_t *m = NULL;
  uint8_t image[4096];
  uint64_t seed = 4;
  static const uint8_t heads[3][4] = {{0x7F, 'E', 'L', 'F'},
                                      {0x50, 0xED, 0x55, 0xBA},
                                      {0xB1, 0x43, 0x62, 0x46}};
  for (int round = 0; round < 300; round++) {
    for (size_t k = 0; k < sizeof image; k++)
      image[k] = (uint8_t)lab_random(&seed);
    memcpy(image, heads[round % 3], 4);
    assert_int_equal(lab.cuModuleLoadData(&m, image), 209);
  }
  /* four bytes that only begin like one, and nothing at all */
  char tiny[] = "\x7F"
                "EL";
  assert_int_equal(lab.cuModuleLoadData(&m, tiny), 218);
  assert_int_equal(lab.cuModuleLoadData(&m, ""), 218);
  assert_int_equal(lab.cuModuleLoadData(&m, NULL), 1);
}

static int setup(void **state) {
  (void)state;
  lab_open(&lab, "model:h100,budget:20000,mem:1073741824");
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(cut_anywhere),    cmocka_unit_test(damaged),
      cmocka_unit_test(extremes),        cmocka_unit_test(refused_by_name),
      cmocka_unit_test(targets),
      cmocka_unit_test(cuda_limits),     cmocka_unit_test(binaries)};
  return cmocka_run_group_tests_name("simgpu.hostile", tests, setup, NULL);
}
