/* Clusters: each CTA reads, writes and counts in the shared memory of the
   others; every check of a cluster on a mutant it must name beside the
   correct kernel. Expected values are written down from the definition of
   ranks and addresses. */
#include "sim_lab.h"

static lab_t lab;

#define HEAD                                                                  \
  PTX_HEAD("sm_90")                                                           \
  ".visible .entry k(.param .u64 pout) {\n"                                   \
  ".shared .align 16 .b8 s[1024];\n"                                          \
  ".reg .pred %p, %q; .reg .b32 %r<24>; .reg .b64 %d<16>;\n"                  \
  "ld.param.u64 %d1, [pout]; mov.u32 %r1, %tid.x; mov.u32 %r2, s;\n"          \
  "mov.u32 %r3, %cluster_ctarank; mov.u32 %r4, %cluster_nctarank;\n"          \
  "mov.u32 %r5, %ctaid.x; mov.u32 %r6, %ntid.x;\n"                            \
  "mad.lo.u32 %r7, %r5, %r6, %r1; mul.wide.u32 %d2, %r7, 4;\n"                \
  "add.s64 %d2, %d1, %d2; shl.b32 %r8, %r1, 2; add.s32 %r8, %r2, %r8;\n"      \
  "add.u32 %r9, %r3, 1; rem.u32 %r9, %r9, %r4;\n"
#define ARRIVE "barrier.cluster.arrive.aligned;\n"
#define WAIT   "barrier.cluster.wait.aligned;\n"
#define SYNC   ARRIVE WAIT

/* Launches k as clusters of x CTAs; the result of launch or synchronising. */
static int launch(const char *text, unsigned grid, unsigned block,
                  unsigned cluster, uint64_t out) {
  rcuda_launch_attr_t a = {.id = RCUDA_LAUNCH_CLUSTER,
                           .value.cluster = {cluster, 1, 1}};
  rcuda_launch_config_t c = {{grid, 1, 1}, {block, 1, 1}, 0, NULL, &a, 1};
  rcuda_func_t *f = lab_func(&lab, lab_load(&lab, text), "k");
  void *params[] = {&out};
  int code = lab.cuLaunchKernelEx(&c, f, params, NULL);
  return code ? code : lab.cuCtxSynchronize();
}

typedef struct case_t {
  const char *id; /* the check that names the mutant */
  unsigned block;
  const char *body;
  const char *where;
} case_t;

/* Each thread publishes 1000 * rank + tid and reads its right neighbour's. */
#define PUBLISH                                                               \
  "mad.lo.u32 %r10, %r3, 1000, %r1; st.shared.u32 [%r8], %r10;\n"
#define FETCH                                                                 \
  "mapa.shared::cluster.u32 %r11, %r8, %r9;\n"                                \
  "ld.shared::cluster.u32 %r12, [%r11]; st.global.u32 [%d2], %r12;\n"

/* Rank 0 publishes and raises a flag in rank 1's word 255, which waits. */
#define FLAG(give, take, how)                                                 \
  "mov.u32 %r10, 0; setp.ne.u32 %q, %r1, 0;\n"                                \
  "@!%q st.shared.u32 [s+1020], %r10;\n" SYNC PUBLISH                         \
  "bar.sync 0; setp.ne.u32 %p, %r3, 0;\n"                                     \
  "mapa.shared::cluster.u32 %r11, %r2, 1; @%p bra C; @%q bra E;\n"            \
  "st.release." give ".shared::cluster.u32 [%r11+1020], 1; bra E;\n"          \
  "C: setp.ne.u32 %p, %r3, 1; @%p bra E; mapa.shared::cluster.u32 %r12,"      \
  " %r8, 0;\n"                                                                \
  "W: ld." how "." take ".shared.u32 %r13, [s+1020];\n"                       \
  "setp.eq.u32 %p, %r13, 0; @%p nanosleep.u32 20; @%p bra W;\n"              \
  "ld.shared::cluster.u32 %r14, [%r12]; st.global.u32 [%d2], %r14;\n"         \
  "E:" SYNC "ret; }"

static const case_t cases[] = {
    {"race.shared", 64, HEAD PUBLISH "{{" SYNC "|}}" FETCH SYNC "ret; }",
     "of CTA"},
    {"race.shared", 64,
     HEAD PUBLISH "barrier.cluster.arrive{{|.relaxed}}.aligned;\n" WAIT FETCH
         SYNC "ret; }",
     "is not ordered before"},
    {"race.shared", 64,
     HEAD PUBLISH SYNC FETCH "{{" SYNC "|}}"
         "st.shared.u32 [%r8], %r1; " SYNC "ret; }",
     "a read"},
    {"cluster.exit", 64, HEAD PUBLISH SYNC FETCH "{{" SYNC "|}} ret; }",
     NULL},
    {"cluster.phase", 64,
     HEAD PUBLISH SYNC FETCH ARRIVE "{{|" ARRIVE "}}" WAIT "ret; }",
     "arrives again"},
    {"cluster.phase", 64, HEAD PUBLISH SYNC FETCH ARRIVE "{{" WAIT "|}} ret; }",
     "exits without waiting"},
    {"cluster.phase", 64,
     HEAD "{{" ARRIVE "|}}" WAIT "st.global.u32 [%d2], %r1; ret; }",
     "without having arrived"},
    {"bar.diverged", 64,
     HEAD "setp.lt.u32 %p, %r1, {{64|16}}; @!%p bra L;\n" SYNC "L: ret; }",
     NULL},
    {"mem.bounds", 64,
     HEAD PUBLISH SYNC "add.u32 %r9, %r9, {{0|4}};\n" FETCH SYNC "ret; }",
     "of a cluster of 4"},
    {"mem.bounds", 64,
     HEAD PUBLISH SYNC "mapa.shared::cluster.u32 %r11, %r8, %r9;\n"
                       "ld.shared::cluster.u32 %r12, [%r11+{{0|1024}}];\n"
                       "st.global.u32 [%d2], %r12;" SYNC "ret; }",
     "outside the 1024 bytes"},
    {"mem.space", 64,
     HEAD PUBLISH SYNC "mapa.shared::cluster.u32 %r11, %r8, %r9;\n"
                       "ld.shared{{::cluster|}}.u32 %r12, [%r11];\n"
                       "st.global.u32 [%d2], %r12;" SYNC "ret; }",
     "its own CTA only"},
    /* a flag in another CTA: scopes that reach it, an acquire there */
    {"race.shared", 64, HEAD FLAG("cluster", "{{cluster|cta}}", "acquire"),
     "is not ordered before"},
    {"race.shared", 64, HEAD FLAG("{{cluster|cta}}", "cluster", "acquire"),
     "is not ordered before"},
    {"race.shared", 64, HEAD FLAG("cluster", "gpu", "{{acquire|relaxed}}"),
     "is not ordered before"},
    /* a peer that waits for an arrival which never comes */
    {"hang", 64,
     HEAD "setp.eq.u32 %p, %r3, {{9|0}}; @%p bra L;\n" SYNC "ret;\n"
          "L: bar.sync 1, 96; ret; }",
     "cluster's barrier"},
};

static void every_check(void **state) {
  (void)state;
  char text[4096], report[4096], id[64];
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const case_t *c = &cases[i];
    for (int mutant = 0; mutant < 2; mutant++) {
      lab_renew(&lab);
      uint64_t out = lab_alloc(&lab, 4096);
      lab_choose(text, sizeof text, c->body, mutant != 0);
      int code = launch(text, 8, c->block, 4, out);
      lab_report(&lab, report, sizeof report);
      snprintf(id, sizeof id, "\"id\":\"%s\"", c->id);
      if (!mutant && (code || report[0]))
        fail_msg("correct kernel %zu of %s: %d %s", i, c->id, code, report);
      if (mutant && (!code || !strstr(report, id) ||
                     (c->where && !strstr(report, c->where))))
        fail_msg("mutant %zu of %s: %d %s", i, c->id, code, report);
    }
  }
}

static void neighbours(void **state) {
  (void)state;
  static const char *const orders[] = {"order:reverse", "order:random,seed:5",
                                       "preempt:3,order:random",
                                       "preempt:0,order:rr,seed:1"};
  uint32_t host[8 * 64];
  for (size_t k = 0; k < 4; k++) {
    assert_int_equal(lab.simgpu_configure(orders[k]), 0);
    for (unsigned size = 1; size <= 8; size *= 2) {
      lab_renew(&lab);
      uint64_t out = lab_alloc(&lab, sizeof host);
      assert_int_equal(
          launch(HEAD PUBLISH SYNC FETCH SYNC "ret; }", 8, 64, size, out), 0);
      lab_copy_out(&lab, host, out, sizeof host);
      for (uint32_t i = 0; i < 8 * 64; i++)
        assert_int_equal(host[i], (i / 64 % size + 1) % size * 1000 + i % 64);
    }
  }
}

/* Lanes of one instruction go to different CTAs; atomics count in rank 2. */
static void scattered(void **state) {
  (void)state;
  uint32_t host[8 * 64];
  lab_renew(&lab);
  uint64_t out = lab_alloc(&lab, sizeof host);
  /* thread t of rank r writes word t of CTA (t mod 4), slot r */
  int code = launch(
      HEAD "and.b32 %r10, %r1, 3; shr.u32 %r11, %r1, 2;\n"
           "mad.lo.u32 %r12, %r3, 16, %r11; shl.b32 %r12, %r12, 2;\n"
           "add.s32 %r12, %r2, %r12; mapa.shared::cluster.u32 %r13, %r12,"
           "%r10; mad.lo.u32 %r14, %r3, 1000, %r1;\n" SYNC
           "st.shared::cluster.u32 [%r13], %r14;\n" SYNC
           "ld.shared.u32 %r15, [%r8]; st.global.u32 [%d2], %r15; ret; }",
      8, 64, 4, out);
  char report[4096];
  if (code) fail_msg("%s", lab_report(&lab, report, sizeof report));
  lab_copy_out(&lab, host, out, sizeof host);
  for (uint32_t i = 0; i < 8 * 64; i++) {
    uint32_t rank = i / 64 % 4, word = i % 64;
    assert_int_equal(host[i], word / 16 * 1000 + word % 16 * 4 + rank);
  }
  code = launch(
      HEAD "mov.u32 %r10, 0; st.shared.u32 [%r8], %r10;\n" SYNC
           "mapa.shared::cluster.u32 %r11, %r2, 2;\n"
           "atom.shared::cluster.add.u32 %r12, [%r11], %r1;\n" SYNC
           "ld.shared.u32 %r15, [%r8]; st.global.u32 [%d2], %r15; ret; }",
      8, 64, 4, out);
  if (code) fail_msg("%s", lab_report(&lab, report, sizeof report));
  lab_copy_out(&lab, host, out, sizeof host);
  for (uint32_t i = 0; i < 8 * 64; i++)
    assert_int_equal(host[i],
                     i / 64 % 4 == 2 && i % 64 == 0 ? 4 * (63 * 64 / 2) : 0);
}

/* Generic addresses, their ranks, and which window they lie in. */
static void generic(void **state) {
  (void)state;
  uint32_t host[8 * 32];
  char report[4096];
  lab_renew(&lab);
  uint64_t out = lab_alloc(&lab, sizeof host);
  int code = launch(
      HEAD PUBLISH "cvt.u64.u32 %d4, %r8; cvta.shared.u64 %d4, %d4;\n"
                   "mapa.u64 %d5, %d4, %r9; getctarank.u64 %r10, %d5;\n"
                   "isspacep.shared::cta %p, %d5;\n"
                   "isspacep.shared::cluster %q, %d5;\n"
                   "selp.u32 %r11, 1, 0, %p; selp.u32 %r12, 2, 0, %q;\n" SYNC
                   "ld.u32 %r13, [%d5]; " SYNC
                   "mad.lo.u32 %r13, %r13, 16, %r10;\n"
                   "mad.lo.u32 %r13, %r13, 4, %r11;\n"
                   "add.u32 %r13, %r13, %r12; st.global.u32 [%d2], %r13;\n"
                   "ret; }",
      8, 32, 2, out);
  if (code) fail_msg("%s", lab_report(&lab, report, sizeof report));
  lab_copy_out(&lab, host, out, sizeof host);
  for (uint32_t i = 0; i < 8 * 32; i++) {
    uint32_t other = (i / 32 + 1) % 2;
    assert_int_equal(host[i], ((other * 1000 + i % 32) * 16 + other) * 4 + 2);
  }
}

/* The shape: registers of a two-dimensional cluster, and what is refused. */
static void shapes(void **state) {
  (void)state;
  uint32_t host[24 * 8];
  lab_renew(&lab);
  uint64_t out = lab_alloc(&lab, sizeof host);
  rcuda_module_t *m = lab_load(
      &lab, PTX_HEAD("sm_90")
      ".visible .entry k(.param .u64 pout) .reqnctapercluster 2, 3, 1 {\n"
      ".reg .b32 %r<24>; .reg .b64 %d<4>; ld.param.u64 %d1, [pout];\n"
      "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ctaid.y; mov.u32 %r3, %nctaid.x;"
      "mad.lo.u32 %r4, %r2, %r3, %r1; mul.wide.u32 %d2, %r4, 32;\n"
      "add.s64 %d2, %d1, %d2; mov.u32 %r5, %cluster_ctaid.x;\n"
      "mov.u32 %r6, %cluster_ctaid.y; mov.u32 %r7, %cluster_ctarank;\n"
      "mov.u32 %r8, %clusterid.x; mov.u32 %r9, %clusterid.y;\n"
      "mov.u32 %r10, %nclusterid.x; mov.u32 %r11, %cluster_nctaid.y;\n"
      "mov.u32 %r12, %cluster_nctarank;\n"
      "st.global.v4.u32 [%d2], {%r5, %r6, %r7, %r8};\n"
      "st.global.v4.u32 [%d2+16], {%r9, %r10, %r11, %r12}; ret; }");
  rcuda_func_t *f = lab_func(&lab, m, "k");
  void *params[] = {&out};
  assert_int_equal(
      lab.cuLaunchKernel(f, 4, 6, 1, 1, 1, 1, 0, NULL, params, NULL), 0);
  lab_copy_out(&lab, host, out, sizeof host);
  for (uint32_t i = 0; i < 24; i++) {
    uint32_t x = i % 4, y = i / 4, *h = host + 8 * i;
    uint32_t want[] = {x % 2, y % 3, x % 2 + y % 3 * 2, x / 2,
                       y / 3, 2,     3,                 6};
    assert_memory_equal(h, want, sizeof want);
  }
  /* not divisible; another shape than the kernel demands; too large */
  assert_int_equal(
      lab.cuLaunchKernel(f, 3, 6, 1, 1, 1, 1, 0, NULL, params, NULL), 912);
  assert_int_equal(launch(HEAD "ret; }", 9, 32, 4, out), 912);
  assert_int_equal(launch(HEAD "ret; }", 16, 32, 16, out), 912);
}

static int setup(void **state) {
  (void)state;
  lab_open(&lab, "model:h100,budget:3000000");
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(neighbours), cmocka_unit_test(scattered),
      cmocka_unit_test(generic), cmocka_unit_test(shapes),
      cmocka_unit_test(every_check)};
  return cmocka_run_group_tests_name("simgpu.cluster", tests, setup, NULL);
}
