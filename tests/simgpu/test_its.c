/* diverge:its, lanes on their own: programs whose lanes wait for one another
   end there and hang with the stack; what is built on lanes meeting by
   themselves fails there; the same schedule gives the same in every respect.
   Values come from loops on the host. */
#include "cu_lab.h"

static lab_t lab;
static cu_nvrtc_t nvrtc;

#define STACK "diverge:stack"
#define ITS   "diverge:its"

/* -- in CUDA C (kernels/its.cu) -- */

typedef struct kernel_t {
  const char *name;
  unsigned grid, block;
  uint32_t words;
  void (*want)(const uint32_t *in, uint32_t *out);
  const char *stack; /* what the stack finds in it, or NULL */
  int mutant;        /* whose values are wrong, or that its finds; 0: none */
  const char *id;    /* what it finds, or NULL */
  bool sorts;        /* the order of out is not said */
} kernel_t;

static void want_lock(const uint32_t *in, uint32_t *out) {
  for (int i = 0; i < 128; i++) out[1] += in[i] & 255;
  out[2] = 128;
}
static void want_shared(const uint32_t *in, uint32_t *out) {
  for (int i = 0; i < 128; i++) out[0] += in[i] & 1023;
  out[1] = 128;
}
static void want_chain(const uint32_t *in, uint32_t *out) {
  for (int i = 0; i < 32; i++) out[i] = (i ? out[i - 1] * 3 : 0) + in[i];
}
static uint32_t steps_of(uint32_t a) {
  uint32_t n = 0;
  for (a |= 1; a > 1; n++) a = a & 1 ? a - 1 : a / 2;
  return n;
}
static void want_exchange(const uint32_t *in, uint32_t *out) {
  for (int i = 0; i < 128; i++)
    out[i] = (steps_of(in[i ^ 1]) + 100) * 2 + steps_of(in[i]);
}
static void want_sums(const uint32_t *in, uint32_t *out) {
  for (uint32_t i = 0; i < 128; i++)
    for (uint32_t k = 0; k < (in[i] & 63); k++)
      for (int l = 0; l < 32; l++)
        out[i / 32 * 32 + (uint32_t)l] += in[(i + k) & 1023] & 7;
}
static int ascending(const void *a, const void *b) {
  uint32_t x, y;
  memcpy(&x, a, 4);
  memcpy(&y, b, 4);
  return x < y ? -1 : x > y;
}
static void want_together(const uint32_t *in, uint32_t *out) {
  out[0] = 128;
  for (int i = 0; i < 128; i++) {
    uint32_t a = in[i], n = a & 15;
    for (uint32_t k = 0; k < n; k++) a = a * 5 + 1;
    out[1 + i] = a;
  }
}
static void want_callers(const uint32_t *in, uint32_t *out) {
  for (uint32_t i = 0; i < 128; i++) {
    uint32_t v = in[i / 32 * 32 + (i + 31) % 32];
    out[i] = v * (v & 1 ? 2 : 3) + (in[i] & 1 ? 0 : 1);
  }
}
static void want_thinning(const uint32_t *in, uint32_t *out) {
  for (uint32_t w = 0; w < 128; w += 32) {
    uint32_t v[32];
    memcpy(v, in + w, sizeof v);
    for (uint32_t k = 0; k < 31; k++) {
      uint32_t last = v[31];
      out[w + k] = v[k];
      for (uint32_t l = k + 1; l < 32; l++) v[l] = v[l] * 3 + last;
    }
    out[w + 31] = v[31];
  }
}

static const kernel_t kernels[] = {
    {"lane_lock", 2, 64, 3, want_lock, "hang", 0, NULL, false},
    {"lane_lock_shared", 1, 128, 2, want_shared, "hang", 0, NULL, false},
    {"lane_chain", 1, 32, 32, want_chain, "hang", 0, NULL, false},
    {"exchange", 2, 64, 128, want_exchange, NULL, 1, NULL, false},
    {"opportunist", 1, 128, 128, want_sums, NULL, 2, "warp.inactive", false},
    {"together", 2, 64, 129, want_together, NULL, 0, NULL, true},
    {"two_callers", 1, 128, 128, want_callers, "warp.mask", 0, NULL, false},
    {"thinning", 1, 128, 128, want_thinning, "warp.mask", 0, NULL, false}};
#define KERNELS (sizeof kernels / sizeof *kernels)

/* Runs one; true if its values are right. */
static bool run_cu(const kernel_t *k, const char *ptx, int *code) {
  uint32_t in[CU_IN], out[256], want[256] = {0};
  cu_row_t row = {.name = k->name, .grid = {k->grid, 1, 1},
                  .block = {k->block, 1, 1}, .words = k->words};
  lab_renew(&lab);
  *code = cu_launch(&lab, lab_load(&lab, ptx), &row, in, out);
  k->want(in, want);
  if (k->sorts) {
    qsort(out + 1, k->words - 1, 4, ascending);
    qsort(want + 1, k->words - 1, 4, ascending);
  }
  return memcmp(out, want, k->words * 4) == 0;
}

static void in_cuda(void **state) {
  (void)state;
  char report[8192], mode[64], quoted[64];
  if (!cu_nvrtc_open(&nvrtc) || !cu_include()) skip();
  char *ptx = cu_compile(&nvrtc, "its.cu", "compute_80");
  char *wrong[3] = {NULL,
                    cu_compile_with(&nvrtc, "its.cu", "compute_80",
                                    "-DMUTANT=1"),
                    cu_compile_with(&nvrtc, "its.cu", "compute_80",
                                    "-DMUTANT=2")};
  for (size_t n = 0; n < KERNELS; n++) {
    const kernel_t *k = &kernels[n];
    int code;
    for (int seed = 1; seed <= 4; seed++) {
      snprintf(mode, sizeof mode, ITS ",order:%s,seed:%d",
               seed % 2 ? "rr" : "random", seed);
      assert_int_equal(lab.simgpu_configure(mode), 0);
      bool right = run_cu(k, ptx, &code);
      lab_report(&lab, report, sizeof report);
      if (code || !right || report[0])
        fail_msg("%s, %s: result %d, values %s %s", k->name, mode, code,
                 right ? "right" : "wrong", report);
      if (!k->mutant) continue;
      right = run_cu(k, wrong[k->mutant], &code);
      lab_report(&lab, report, sizeof report);
      snprintf(quoted, sizeof quoted, "\"%s\"", k->id ? k->id : "-");
      if (k->id ? !strstr(report, quoted) : code || right)
        fail_msg("the mutant of %s, %s: result %d, values %s %s", k->name,
                 mode, code, right ? "right" : "wrong", report);
    }
    assert_int_equal(lab.simgpu_configure(STACK ",order:rr,seed:1"), 0);
    bool right = run_cu(k, k->mutant ? wrong[k->mutant] : ptx, &code);
    lab_report(&lab, report, sizeof report);
    /* the stack does not see the mutants, and hangs where its ends */
    if (k->stack ? !strstr(report, k->stack) : code || !right)
      fail_msg("%s with the stack: result %d, values %s %s", k->name, code,
               right ? "right" : "wrong", report);
  }
  free(ptx);
  free(wrong[1]);
  free(wrong[2]);
}

/* -- in PTX -- */

#define HEAD                                                                  \
  PTX_HEAD("sm_90")                                                           \
  ".visible .entry k(.param .u64 pin, .param .u64 pout) {\n"                  \
  ".shared .align 16 .b8 s[2048];\n"                                          \
  ".reg .pred %p, %q; .reg .b32 %r<24>; .reg .b64 %d<8>;\n"                   \
  "ld.param.u64 %d1, [pin]; ld.param.u64 %d2, [pout];\n"                      \
  "mov.u32 %r1, %tid.x; mul.wide.u32 %d3, %r1, 4;\n"                          \
  "add.s64 %d4, %d1, %d3; add.s64 %d5, %d2, %d3;\n"                           \
  "mov.u32 %r2, s; shl.b32 %r3, %r1, 2; add.u32 %r3, %r2, %r3;\n"             \
  "mov.u32 %r4, 0; setp.lt.u32 %p, %r1, 16;\n"
#define TAIL "st.global.u32 [%d5], %r4; ret; }"

/* Lane l has gone round a loop l / 8 times. */
#define LOOP                                                                  \
  "shr.u32 %r10, %r1, 3; mov.u32 %r11, 0;\n"                                  \
  "R: setp.ge.u32 %q, %r11, %r10; @%q bra D; add.u32 %r11, %r11, 1; bra R;\n" \
  "D:\n"

typedef struct case_t {
  const char *what;
  unsigned block;
  const char *stack, *its; /* findings; NULL: none, and right values */
  const char *text;
  uint32_t (*want)(uint32_t t);
} case_t;

static uint32_t minus_one(uint32_t t) {
  return t ? t - 1 : 31;
}
static uint32_t count_of_half(uint32_t t) {
  return t % 64 < 16 ? 24u : 24u + 100;
}
static uint32_t zero(uint32_t t) {
  (void)t;
  return 0;
}
static uint32_t chain(uint32_t t) {
  return t * (t + 1) / 2;
}
static uint32_t rounds(uint32_t t) {
  static const uint32_t sums[] = {1, 2 + 4, 2 * 4, 3 * 8};
  return sums[t % 4];
}
static uint32_t ones(uint32_t t) {
  (void)t;
  return 0xFFFFFFFFu;
}
static uint32_t swapped(uint32_t t) {
  return t ^ 1;
}
static uint32_t transposed(uint32_t t) {
  /* row t / 4, columns 2 (t % 4) and the next, of the matrix whose half at
     (r, c) is 8 r + c: its transpose */
  uint32_t r = t / 4, c = t % 4 * 2;
  return (8 * c + r) | (8 * (c + 1) + r) << 16;
}

static const case_t cases[] = {
    {"a shuffle waits for lanes that are still in a loop", 32, NULL, NULL,
     HEAD LOOP "add.u32 %r5, %r1, 31; and.b32 %r5, %r5, 31;\n"
          "shfl.sync.idx.b32 %r4, %r1, %r5, 31, -1;" TAIL,
     minus_one},
    {"two shuffles that each name the other's lanes", 32, "warp.mask",
     "warp.mask",
     HEAD "@%p bra A; shfl.sync.idx.b32 %r4, %r1, 31, 31, -1; bra E;\n"
          "A: shfl.sync.idx.b32 %r4, %r1, 0, 31, -1;\nE: " TAIL,
     NULL},
    {"masks that differ at one place", 32, "warp.mask", "warp.mask",
     HEAD LOOP "setp.lt.u32 %q, %r1, 9; selp.b32 %r6, -1, 0xFFFFFF00, %q;\n"
          "shfl.sync.idx.b32 %r4, %r1, 31, 31, %r6;" TAIL,
     NULL},
    {"a vote, a match and a reduction after a loop", 32, NULL, NULL,
     HEAD LOOP "setp.lt.u32 %q, %r1, 32; vote.sync.ballot.b32 %r4, %q, -1;\n"
          "match.any.sync.b32 %r5, %r2, -1; and.b32 %r4, %r4, %r5;\n"
          "redux.sync.or.b32 %r5, %r1, -1; elect.sync %r6|%q, -1;\n"
          "setp.ne.u32 %q, %r5, 31; @%q trap;" TAIL,
     ones},
    {"memory between lanes in order of bar.warp.sync", 32, NULL, NULL,
     HEAD LOOP "st.shared.u32 [%r3], %r1; bar.warp.sync -1;\n"
          "xor.b32 %r5, %r3, 4; ld.shared.u32 %r4, [%r5];" TAIL,
     swapped},
    {"the same without: seen by both, by order alone", 32, "race.warp",
     "race.warp",
     HEAD LOOP "st.shared.u32 [%r3], %r1;\n"
          "xor.b32 %r5, %r3, 4; ld.shared.u32 %r4, [%r5];" TAIL,
     NULL},
    {"a matrix instruction waits for all", 32, NULL, NULL,
     HEAD LOOP "shl.b32 %r5, %r1, 1; add.u32 %r6, %r5, 1; shl.b32 %r6, %r6,"
          "16; or.b32 %r5, %r5, %r6;\n"
          "movmatrix.sync.aligned.m8n8.trans.b16 %r4, %r5;" TAIL,
     transposed},
    {"a matrix instruction of half a warp", 32, "warp.matrix", "warp.matrix",
     HEAD "@!%p bra E; movmatrix.sync.aligned.m8n8.trans.b16 %r4, %r1;\n"
          "E: bar.warp.sync -1; " TAIL,
     NULL},
    {"a lane that exits is missed by a matrix instruction", 32,
     "warp.matrix", "warp.matrix",
     HEAD "@%p bra E; movmatrix.sync.aligned.m8n8.trans.b16 %r4, %r1;\n"
          "st.global.u32 [%d5], %r4;\nE: ret; }",
     NULL},
    {"a barrier for the whole block that half a warp skips", 64,
     "bar.diverged", "bar.diverged",
     HEAD "@!%p bra E; bar.sync 0;\nE: st.global.u32 [%d5], %r4; bar.sync 0;"
          "ret; }",
     NULL},
    {"lanes that exit before the barrier of the others", 64, NULL, NULL,
     HEAD "st.global.u32 [%d5], %r4; @%p exit; bar.sync 0; ret; }", zero},
    {"a barrier behind a loop", 64, NULL, NULL,
     HEAD LOOP "bar.sync 0; bar.sync 0;" TAIL, zero},
    {"one barrier in a function, called from two places", 64, "bar.diverged",
     NULL,
     PTX_HEAD("sm_90")
     ".func f(.param .b32 x) { .reg .b32 %a; ld.param.u32 %a, [x];\n"
     "bar.sync 0; ret; }\n"
     ".visible .entry k(.param .u64 pin, .param .u64 pout) {\n"
     ".reg .pred %p; .reg .b32 %r<8>; .reg .b64 %d<8>;\n"
     "ld.param.u64 %d2, [pout]; mov.u32 %r1, %tid.x; mov.u32 %r4, 0;\n"
     "mul.wide.u32 %d3, %r1, 4; add.s64 %d5, %d2, %d3;\n"
     "and.b32 %r5, %r1, 1; setp.eq.u32 %p, %r5, 0; @%p bra A;\n"
     "{ .param .b32 y; st.param.b32 [y], %r1; call f, (y); }\n"
     "bra E;\nA: { .param .b32 y; st.param.b32 [y], %r5; call f, (y); }\n"
     "E: " TAIL,
     zero},
    /* the stack lets a warp join once */
    {"a barrier that lanes join in two places", 64, "hang", NULL,
     HEAD "and.b32 %r5, %r1, 63; setp.lt.u32 %p, %r5, 16;\n"
          "and.b32 %r6, %r1, 7; setp.lt.u32 %q, %r6, 3;\n"
          "@%p bra A; barrier.red.popc.u32 %r4, 1, 64, %q;\n"
          "add.u32 %r4, %r4, 100; bra E;\n"
          "A: barrier.red.popc.u32 %r4, 1, 64, %q;\nE: " TAIL,
     count_of_half},
    {"lanes that arrive, and others that wait for them", 32, NULL, NULL,
     HEAD "@%p bra A; st.shared.u32 [%r3], %r1; barrier.arrive 2, 32; bra E;\n"
          "A: barrier.sync 2, 32;\nE: " TAIL,
     zero},
    {"lanes that wait for mbarriers of each other", 32, "hang", NULL,
     HEAD "shl.b32 %r5, %r1, 3; add.u32 %r5, %r2, %r5;\n"
          "mbarrier.init.shared.b64 [%r5], 1; bar.warp.sync -1;\n"
          "setp.eq.u32 %q, %r1, 0; @%q bra F;\n"
          "W: mbarrier.try_wait.parity.shared.b64 %q, [%r5+-8], 0;\n"
          "@!%q bra W; ld.shared.u32 %r4, [%r3+1020];\n"
          "F: add.u32 %r4, %r4, %r1; st.shared.u32 [%r3+1024], %r4;\n"
          "mbarrier.arrive.shared.b64 _, [%r5]; bar.warp.sync -1;\n"
          "mbarrier.inval.shared.b64 [%r5]; " TAIL,
     chain},
    {"lanes that sleep until another has spoken", 32, "hang", NULL,
     HEAD "st.shared.u32 [%r3], %r4; bar.warp.sync -1;\n"
          "setp.eq.u32 %q, %r1, 0; @%q bra F;\n"
          "W: ld.acquire.cta.shared.u32 %r5, [%r3+-4];\n"
          "setp.ne.u32 %q, %r5, 0; @%q bra X; nanosleep.u32 20; bra W;\n"
          "X: ld.shared.u32 %r4, [%r3+1020];\n"
          "F: add.u32 %r4, %r4, %r1; st.shared.u32 [%r3+1024], %r4;\n"
          "st.release.cta.shared.u32 [%r3], 1; " TAIL,
     chain},
    {"a wait that nobody ends", 32, "hang", "hang",
     HEAD "setp.eq.u32 %q, %r1, 0; @%q mbarrier.init.shared.b64 [s], 33;\n"
          "bar.warp.sync -1;\n"
          "mbarrier.arrive.shared.b64 _, [s];\n"
          "W: mbarrier.try_wait.parity.shared.b64 %q, [s], 0;\n"
          "@!%q bra W; " TAIL,
     NULL},
    {"a table of branches, forwards and back", 32, NULL, NULL,
     HEAD "mov.u32 %r6, 0;\nN: and.b32 %r5, %r1, 3;\n"
          "T: .branchtargets A, B, C, D;\n"
          "brx.idx %r5, T;\nA: add.u32 %r4, %r4, 1; bra M;\n"
          "B: add.u32 %r4, %r4, 2;\nC: add.u32 %r4, %r4, 4; bra M;\n"
          "D: add.u32 %r4, %r4, 8;\nM: add.u32 %r6, %r6, 1;\n"
          "setp.lt.u32 %q, %r6, %r5; @%q bra N; " TAIL,
     rounds},
};
#define CASES (sizeof cases / sizeof *cases)

static int run_case(const case_t *c, uint32_t out[64]) {
  lab_renew(&lab);
  uint64_t in = lab_alloc(&lab, 512), to = lab_alloc(&lab, 256);
  lab.cuMemsetD32_v2(in, 0, 128);
  lab.cuMemsetD32_v2(to, 0x55, 64);
  void *params[] = {&in, &to};
  int code = lab_launch(&lab, lab_func(&lab, lab_load(&lab, c->text), "k"), 1,
                        c->block, 0, params);
  if (!code) lab_copy_out(&lab, out, to, 256);
  return code;
}

static void judge(const case_t *c, const char *mode, const char *id) {
  uint32_t out[64] = {0};
  char report[8192];
  assert_int_equal(lab.simgpu_configure(mode), 0);
  int code = run_case(c, out);
  lab_report(&lab, report, sizeof report);
  if (id) {
    if (!code || !strstr(report, id))
      fail_msg("%s, %s: %s is not found: %d %s", c->what, mode, id, code,
               report);
    return;
  }
  if (code || report[0])
    fail_msg("%s, %s: %d %s", c->what, mode, code, report);
  for (uint32_t t = 0; c->want && t < c->block; t++)
    if (out[t] != c->want(t))
      fail_msg("%s, %s: thread %u has %u, not %u", c->what, mode, t, out[t],
               c->want(t));
}

static void in_ptx(void **state) {
  (void)state;
  static const char *const modes[] = {
      ITS ",seed:1", ITS ",seed:2,preempt:1", ITS ",seed:3,order:random",
      ITS ",seed:4,preempt:0"};
  for (size_t n = 0; n < CASES; n++) {
    for (size_t k = 0; k < 4; k++) judge(&cases[n], modes[k], cases[n].its);
    judge(&cases[n], STACK ",seed:1,order:rr", cases[n].stack);
  }
}

/* -- counters -- */

/* 9 instructions before the branch, 3 or 2 on its sides, 4 behind it. */
static void counted(void **state) {
  (void)state;
  static const struct {
    const char *mode, *middle;
    uint64_t warp_inst;
  } rows[] = {
      {STACK, "", 9 + 3 + 2 + 4},
      {ITS, "", 9 + 3 + 2 + 2 * 4},
      {STACK, "bar.warp.sync -1;", 9 + 3 + 2 + 5},
      {ITS, "bar.warp.sync -1;", 9 + 3 + 2 + 5},
      /* three rounds of three; %r4 is 9 before */
      {STACK, "Q: add.u32 %r4, %r4, 40; setp.lt.u32 %q, %r4, 90;@%q bra Q;",
       9 + 3 + 2 + 3 * 3 + 4},
      {ITS, "Q: add.u32 %r4, %r4, 40; setp.lt.u32 %q, %r4, 90;@%q bra Q;",
       9 + 3 + 2 + 2 * (3 * 3 + 4)},
  };
  char text[2048];
  for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
    assert_int_equal(lab.simgpu_configure(rows[n].mode), 0);
    lab_renew(&lab);
    snprintf(text, sizeof text,
             PTX_HEAD("sm_90")
             ".visible .entry k(.param .u64 pout) {\n"
             ".reg .pred %%p, %%q; .reg .b32 %%r<8>; .reg .b64 %%d<8>;\n"
             "ld.param.u64 %%d2, [pout]; mov.u32 %%r1, %%tid.x;\n"
             "mul.wide.u32 %%d3, %%r1, 4; add.s64 %%d5, %%d2, %%d3;\n"
             "mov.u32 %%r4, 7; mov.u32 %%r5, 8; mov.u32 %%r6, 9;\n"
             "setp.lt.u32 %%p, %%r1, 12; @%%p bra A;\n"
             "add.u32 %%r4, %%r4, 1; add.u32 %%r4, %%r4, 1; bra B;\n"
             "A: add.u32 %%r4, %%r4, 2; add.u32 %%r5, %%r5, 2;\n"
             "B: %s add.u32 %%r4, %%r4, %%r5; add.u32 %%r4, %%r4, %%r6;\n"
             "st.global.u32 [%%d5], %%r4; ret; }",
             rows[n].middle);
    uint64_t to = lab_alloc(&lab, 128);
    void *params[] = {&to};
    assert_int_equal(lab_launch(&lab,
                                lab_func(&lab, lab_load(&lab, text), "k"), 1,
                                32, 0, params),
                     0);
    if (lab_counter(&lab, "warp_inst") != rows[n].warp_inst)
      fail_msg("%s %s: %llu instructions", rows[n].mode, rows[n].middle,
               (unsigned long long)lab_counter(&lab, "warp_inst"));
    if (n < 4)
      assert_int_equal(lab_counter(&lab, "lane_inst"),
                       8 * 32 + 12 + 3 * 20 + 2 * 12 + 4 * 32 +
                           (rows[n].middle[0] ? 32 : 0));
    assert_int_equal(lab_counter(&lab, "branches.diverged"), 1);
    assert_int_equal(lab_counter(&lab, "global.bytes_written"), 128);
  }
}

/* -- the same schedule, the same everything -- */

/* Lanes write one word one after another, each in a strand of its own. */
static const char order_text[] =
    HEAD "shl.b32 %r5, %r1, 5; mov.u32 %r6, 0; setp.lt.u32 %p, %r1, 1;\n"
         "mov.u32 %r7, %lanemask_eq; brev.b32 %r7, %r7;\n"
         "L: setp.gt.u32 %q, %r7, 0x7FFFFFFF; @%q bra X; shl.b32 %r7, %r7, 1;"
         "bra L;\nX: add.u32 %r6, %r6, 1; setp.lt.u32 %q, %r6, 40; @%q bra X;\n"
         "atom.shared.add.u32 %r4, [s+1024], 1; st.global.u32 [%d5], %r4;"
         "ret; }";

static void repeats(void **state) {
  (void)state;
  static const char *const hosts[] = {"host:v2", "host:v3", "host:v4"};
  char first[16384] = "", text[16384], mode[96];
  uint32_t want[64], out[64];
  int differ = 0;
  for (int seed = 1; seed <= 3; seed++) {
    uint32_t before[64];
    memcpy(before, want, sizeof before);
    bool any = false;
    for (int n = 0; n < 12; n++) {
      snprintf(mode, sizeof mode, ITS ",%s,threads:%d,check:mem+bar,seed:%d",
               hosts[n % 3], 1 + n / 3 % 2, seed);
      if (lab.simgpu_configure(mode)) continue;
      case_t c = {.block = 64, .text = order_text};
      memset(out, 0, sizeof out);
      assert_int_equal(run_case(&c, out), 0);
      lab.counters_get(lab.counters_count() - 1, text, sizeof text);
      if (any) {
        assert_memory_equal(out, want, sizeof out);
        assert_string_equal(text, first);
      }
      any = true;
      memcpy(want, out, sizeof out);
      memcpy(first, text, sizeof text);
    }
    if (seed > 1 && memcmp(before, want, sizeof want) != 0) differ++;
  }
  /* who is first at one place is drawn */
  assert_true(differ > 0);
  assert_int_equal(lab.simgpu_configure("check:all,threads:2,seed:1"), 0);
}

/* A finding says in which schedule it was made. */
static void told(void **state) {
  (void)state;
  char report[4096];
  uint32_t out[64];
  assert_int_equal(lab.simgpu_configure(ITS ",order:reverse,seed:9"), 0);
  assert_int_not_equal(run_case(&cases[1], out), 0);
  lab_report(&lab, report, sizeof report);
  assert_non_null(strstr(
      report,
      "\"seed\":9,\"mode\":\"async:late,order:reverse,diverge:its\""));
  assert_int_not_equal(lab.simgpu_configure("diverge:both"), 0);
  assert_int_equal(lab.simgpu_configure(STACK ",order:rr,seed:1"), 0);
}

static int setup(void **state) {
  (void)state;
  lab_open(&lab, "model:h100,threads:2,budget:300000");
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(in_ptx), cmocka_unit_test(counted),
      cmocka_unit_test(repeats), cmocka_unit_test(told),
      cmocka_unit_test(in_cuda)};
  return cmocka_run_group_tests_name("simgpu.its", tests, setup, NULL);
}
