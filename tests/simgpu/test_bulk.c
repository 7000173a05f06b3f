/* Bulk copies without tensor maps: loads, stores, reductions, prefetches,
   st.async, red.async, multicast, and what goes wrong with them. */
#include "async_lab.h"

static lab_t lab;

#define INIT(at, count)                                                       \
  "@%t mbarrier.init.shared::cta.b64 [%r10+" at "], " count ";\n"
#define SYNC "bar.sync 0;\n"
#define MEET                                                                  \
  "barrier.cluster.arrive.release.aligned;\n"                                 \
  "barrier.cluster.wait.acquire.aligned;\n"
#define WAIT(at, parity)                                                      \
  "{ .reg .pred w; LW: mbarrier.try_wait.parity.shared::cta.b64 w, [%r10+"    \
  at "], " parity "; @!w bra LW; }\n"
#define EXPECT(at, bytes)                                                     \
  "@%t mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r10+" at "], " bytes    \
  ";\n"
#define LOAD(dst, src, bytes, at)                                             \
  "@%t cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes ["   \
  dst "], [" src "], " bytes ", [%r10+" at "];\n"
#define STORE(dst, src, bytes)                                                \
  "@%t cp.async.bulk.global.shared::cta.bulk_group [" dst "], [" src "], "    \
  bytes ";\n"
#define COMMIT "@%t cp.async.bulk.commit_group;\n"
#define DONE "@%t cp.async.bulk.wait_group 0;\n"
#define READ "@%t cp.async.bulk.wait_group.read 0;\n"
#define FENCE "fence.proxy.async.shared::cta;\n"
/* thread t: word 2 of its 16 bytes */
#define SHOW "ld.shared.u32 %r5, [%r3+8]; st.global.u32 [%d5], %r5;\n"
#define FILL                                                                  \
  "mul.lo.u32 %r6, %r1, 7; st.shared.v4.u32 [%r3], {%r1, %r6, %r1, %r6};\n"

static uint32_t third(const uint32_t *in, uint32_t i) {
  return in[i * 4 + 2];
}

/* FILL's pattern, 64 threads. */
static uint32_t filled(const uint32_t *in, uint32_t i) {
  (void)in;
  return i < 256 ? (i % 2 ? i / 4 * 7 : i / 4) : 0xEEEEEEEE;
}

/* The same added to what was there (memset to 0xEE). */
static uint32_t added(const uint32_t *in, uint32_t i) {
  return 0xEEEEEEEEu + (i < 256 ? filled(in, i) : 0);
}

static uint32_t ored(const uint32_t *in, uint32_t i) {
  return 0xEEEEEEEEu | (i < 256 ? filled(in, i) : 0);
}

static uint32_t least(const uint32_t *in, uint32_t i) {
  (void)in;
  /* s32: 0xEEEEEEEE is negative, what FILL writes is not */
  return i < 256 ? 0xEEEEEEEE : 0xEEEEEEEE;
}

static uint32_t greatest(const uint32_t *in, uint32_t i) {
  return i < 256 ? filled(in, i) : 0xEEEEEEEE;
}

/* out starts as in + 4096's floats; see the case. */
static uint32_t float_sums(const uint32_t *in, uint32_t i) {
  (void)in;
  float f = (float)(i / 4) + 1.0f;
  uint32_t bits;
  memcpy(&bits, &f, 4);
  return i < 256 ? bits : 0xEEEEEEEE;
}

/* f16: 1 + t mod 16 for each half */
static uint32_t half_sums(const uint32_t *in, uint32_t i) {
  (void)in;
  static const uint16_t halves[17] = {
      0,      0x3C00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600, 0x4700, 0x4800,
      0x4880, 0x4900, 0x4980, 0x4A00, 0x4A80, 0x4B00, 0x4B80, 0x4C00};
  uint32_t h = halves[i / 4 % 16 + 1];
  return i < 256 ? h | h << 16 : 0xEEEEEEEE;
}

/* The sum over 12 tiles of word 2 of the thread's 16 bytes; threads of warps
   1 and 2 only. */
static uint32_t twelve(const uint32_t *in, uint32_t i) {
  uint32_t sum = 0;
  if (i < 32) return 0xEEEEEEEE;
  for (uint32_t t = 0; t < 12; t++) sum += in[t * 256 + (i - 32) * 4 + 2];
  return sum;
}

/* Two CTAs show what both of them got; CTA 1 writes from word 64 on. */
static uint32_t both(const uint32_t *in, uint32_t i) {
  return in[i % 64 * 4 + 2];
}

static uint32_t rings(const uint32_t *in, uint32_t i) {
  (void)in;
  /* thread t of CTA c gets 1000 * (1 - c) + t from the other */
  return (i / 64 ? 0 : 1000) + i % 64;
}

static uint32_t ring_sums(const uint32_t *in, uint32_t i) {
  (void)in;
  /* 64 times 1 from the other CTA, on 5 */
  return i % 64 == 0 ? 69 : 0xEEEEEEEE;
}

/* A producer thread (warp 0) and two consumer warps; two stages of 1 KiB,
   full at b + 0 and b + 8, empty at b + 16 and b + 24. */
#define PIPE_INIT                                                             \
  INIT("0", "1") INIT("8", "1") INIT("16", "64") INIT("24", "64")             \
  "@%t fence.mbarrier_init.release.cluster;\n" SYNC                           \
  "mov.u32 %r7, 0; mov.u32 %r9, 0; setp.lt.u32 %p, %r1, 32;\n"
#define STAGE                                                                 \
  "and.b32 %r8, %r7, 1; shl.b32 %r11, %r8, 3; add.u32 %r11, %r10, %r11;\n"    \
  "shl.b32 %r12, %r8, 10; shr.u32 %r13, %r7, 1; and.b32 %r13, %r13, 1;\n"
#define WAIT_AT(at, parity)                                                   \
  "{ .reg .pred w; LW: mbarrier.try_wait.parity.shared::cta.b64 w, [" at      \
  "], " parity "; @!w bra LW; }\n"
#define NEXT(label)                                                           \
  "add.u32 %r7, %r7, 1; setp.lt.u32 %q, %r7, 12; @%q bra " label ";\n"
#define PRODUCE(wait, bytes)                                                  \
  "@!%p bra USE; @!%t bra END;\nPUT: " STAGE                                  \
  "xor.b32 %r14, %r13, 1;\n" wait                                             \
  "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r11], " bytes ";\n"         \
  "add.u32 %r15, %r2, %r12; mul.wide.u32 %d7, %r7, 1024;\n"                   \
  "add.s64 %d7, %d1, %d7;\n"                                                  \
  "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "        \
  "[%r15], [%d7], 1024, [%r11];\n" NEXT("PUT") "bra END;\n"
#define CONSUME(before, after)                                                \
  "USE: " STAGE WAIT_AT("%r11", "%r13") before                                \
  "add.u32 %r15, %r3, %r12; ld.shared.u32 %r16, [%r15+-504];\n"               \
  "add.u32 %r9, %r9, %r16;\n" after NEXT("USE")                               \
  "st.global.u32 [%d5], %r9;\nEND: ret; }"
#define RELEASE "mbarrier.arrive.shared::cta.b64 _, [%r11+16];\n"

static const async_case_t cases[] = {
    {"load", "async.early|race.shared", 64,
     ASYNC_HEAD INIT("0", "1") SYNC EXPECT("0", "1024")
     LOAD("%r2", "%d1", "1024", "0") "{{" WAIT("0", "0") "|}}" SHOW
     "ret; }",
     third, 64, 0},
    {"load to the own CTA", "async.early|race.shared", 64,
     ASYNC_HEAD INIT("0", "1") SYNC EXPECT("0", "1024")
     "@%t cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes "
     "[%r2], [%d1], 1024, [%r10];\n{{" WAIT("0", "0") "|}}" SHOW "ret; }",
     third, 64, 0},
    {"too few bytes expected", "mbar.tx", 64,
     ASYNC_HEAD INIT("0", "1") SYNC EXPECT("0", "{{1024|1008}}")
     LOAD("%r2", "%d1", "1024", "0") WAIT("0", "0") SHOW "ret; }",
     third, 64, 0},
    {"too many bytes expected", "hang", 64,
     ASYNC_HEAD INIT("0", "1") SYNC EXPECT("0", "{{1024|1040}}")
     LOAD("%r2", "%d1", "1024", "0") WAIT("0", "0") SHOW "ret; }",
     third, 64, 0},
    {"too many bytes, named", "mbar.tx", 64,
     ASYNC_HEAD INIT("0", "1") SYNC EXPECT("0", "{{1024|1040}}")
     LOAD("%r2", "%d1", "1024", "0") WAIT("0", "0") SHOW "ret; }",
     third, 64, 0},
    {"copy before expect_tx", "mbar.tx|hang|async.early|mbar.phase", 64,
     ASYNC_HEAD INIT("0", "1") SYNC LOAD("%r2", "%d1", "1024", "0")
     "{{" EXPECT("0", "1024") "|"
     "@%t mbarrier.arrive.shared::cta.b64 _, [%r10];\n}}"
     WAIT("0", "0") SHOW "ret; }",
     third, 64, 0},
    {"one thread waits, all read after a barrier", "race.shared", 64,
     ASYNC_HEAD INIT("0", "1") SYNC EXPECT("0", "1024")
     LOAD("%r2", "%d1", "1024", "0") "setp.lt.u32 %q, %r1, 32;\n"
     "@!%q bra B;\n" WAIT("0", "0") "B: {{" SYNC "|@%q bra X; "
     "nanosleep.u32 100; nanosleep.u32 100; nanosleep.u32 100;\n"
     "nanosleep.u32 100; nanosleep.u32 100; nanosleep.u32 100;\nX:}}" SHOW
     "ret; }",
     third, 64, 0},
    {"never waited for", "async.exit", 64,
     ASYNC_HEAD INIT("0", "1") SYNC "{{" EXPECT("0", "1024")
     LOAD("%r2", "%d1", "1024", "0") WAIT("0", "0") "|" EXPECT("0", "1024")
     LOAD("%r2", "%d1", "1024", "0") "}} ret; }",
     NULL, 0, 0},
    {"no barrier after init", "mbar.init", 64,
     ASYNC_HEAD INIT("0", "1") "{{" SYNC "|}}" EXPECT("0", "1024")
     LOAD("%r2", "%d1", "1024", "0") WAIT("0", "0") SHOW "ret; }",
     third, 64, 0},
    {"size", "mem.align", 64,
     ASYNC_HEAD INIT("0", "1") SYNC EXPECT("0", "{{1024|1032}}")
     LOAD("%r2", "%d1", "{{1024|1032}}", "0") WAIT("0", "0") SHOW "ret; }",
     third, 64, 0},
    {"source alignment", "mem.align", 64,
     ASYNC_HEAD INIT("0", "1") SYNC EXPECT("0", "1024")
     LOAD("%r2", "%d1+{{0|8}}", "1024", "0") WAIT("0", "0") SHOW "ret; }",
     third, 64, 0},
    {"source bounds", "mem.bounds", 64,
     ASYNC_HEAD INIT("0", "1") SYNC EXPECT("0", "1024")
     LOAD("%r2", "%d1+{{64512|64528}}", "1024", "0") WAIT("0", "0")
     "ret; }",
     NULL, 0, 0},
    {"destination bounds", "mem.bounds", 64,
     ASYNC_HEAD INIT("0", "1") SYNC EXPECT("0", "1024")
     LOAD("%r2+{{31744|32704}}", "%d1", "1024", "0") WAIT("0", "0")
     "ret; }",
     NULL, 0, 0},
    {"onto ordinary data", "proxy.fence", 64,
     ASYNC_HEAD INIT("0", "1") FILL "{{" FENCE "|}}" SYNC EXPECT("0", "1024")
     LOAD("%r2", "%d1", "1024", "0") WAIT("0", "0") SHOW "ret; }",
     third, 64, 0},
    {"load while others read", "race.shared|async.early", 64,
     ASYNC_HEAD INIT("0", "1") FILL FENCE SYNC
     "xor.b32 %r4, %r1, 63; shl.b32 %r4, %r4, 4; add.s32 %r4, %r2, %r4;\n"
     "ld.shared.u32 %r6, [%r4]; {{" SYNC "|}}" EXPECT("0", "1024")
     LOAD("%r2", "%d1", "1024", "0") WAIT("0", "0") SHOW "ret; }",
     third, 64, 0},

    {"store", "proxy.fence", 64,
     ASYNC_HEAD FILL "{{" FENCE "|}}" SYNC STORE("%d2", "%r2", "1024") COMMIT
     READ "ret; }",
     filled, 260, 0},
    {"fence by the issuer after the barrier", "proxy.fence", 64,
     ASYNC_HEAD FILL SYNC "{{fence.proxy.async;|fence.proxy.async.global;}}\n"
     STORE("%d2", "%r2", "1024") COMMIT READ "ret; }",
     filled, 260, 0},
    {"no barrier before the store", "race.shared", 64,
     ASYNC_HEAD FILL FENCE "{{" SYNC "|}}" STORE("%d2", "%r2", "1024") COMMIT
     READ "ret; }",
     filled, 260, 0},
    {"no last wait", "async.exit", 64,
     ASYNC_HEAD FILL FENCE SYNC STORE("%d2", "%r2", "1024") COMMIT "{{" READ
     "|}}ret; }",
     filled, 260, 0},
    {"no commit", "async.group", 64,
     ASYNC_HEAD FILL FENCE SYNC STORE("%d2", "%r2", "1024") "{{" COMMIT "|}}"
     READ "ret; }",
     filled, 260, 0},
    {"source overwritten", "async.source", 64,
     ASYNC_HEAD FILL FENCE SYNC STORE("%d2", "%r2", "1024") COMMIT "{{" READ
     SYNC "|}} @%t st.shared.u32 [%r3], %r2; " READ "ret; }",
     filled, 260, 0},
    {"source overwritten by another thread", "async.source|race.shared", 64,
     ASYNC_HEAD FILL FENCE SYNC STORE("%d2", "%r2", "1024") COMMIT READ
     "{{" SYNC "|}} setp.ge.u32 %p, %r1, 32; @%p st.shared.u32 [%r3], %r2;\n"
     "ret; }",
     filled, 260, 0},
    {"result read too soon", "async.early", 64,
     ASYNC_HEAD FILL FENCE SYNC STORE("%d2", "%r2", "1024") COMMIT
     "@%t cp.async.bulk.wait_group{{|.read}} 0;\n"
     "@%t ld.global.u32 %r4, [%d2+16]; @%t st.global.u32 [%d2+1024], %r4;\n"
     READ "ret; }",
     filled, 256, 0},
    {"two groups", "async.source", 64,
     ASYNC_HEAD FILL FENCE SYNC STORE("%d2", "%r2", "512") COMMIT
     STORE("%d2+512", "%r2+512", "512") COMMIT
     "@%t cp.async.bulk.wait_group.read {{1|2}};\n" SYNC
     "@%t st.shared.u32 [%r2+16], %r2;\n" READ "ret; }",
     filled, 260, 0},
    {"source of a load overwritten", "async.source", 64,
     ASYNC_HEAD INIT("0", "1") SYNC EXPECT("0", "1024")
     LOAD("%r2", "%d1", "1024", "0") "{{" WAIT("0", "0") "|}}"
     "@%t st.global.u32 [%d1+64], %r1;\n" WAIT("0", "0") SHOW "ret; }",
     third, 64, 0},

    {"add", "proxy.fence", 64,
     ASYNC_HEAD FILL "{{" FENCE "|}}" SYNC
     "@%t cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%d2], "
     "[%r2], 1024;\n" COMMIT READ "ret; }",
     added, 260, 0},
    {"or", NULL, 64,
     ASYNC_HEAD FILL FENCE SYNC
     "@%t cp.reduce.async.bulk.global.shared::cta.bulk_group.or.b32 [%d2], "
     "[%r2], 1024;\n" COMMIT READ "ret; }",
     ored, 260, 0},
    {"min", NULL, 64,
     ASYNC_HEAD FILL FENCE SYNC
     "@%t cp.reduce.async.bulk.global.shared::cta.bulk_group.min.s32 [%d2], "
     "[%r2], 1024;\n" COMMIT READ "ret; }",
     least, 260, 0},
    {"max", NULL, 64,
     ASYNC_HEAD FILL FENCE SYNC
     "@%t cp.reduce.async.bulk.global.shared::cta.bulk_group.max.s32 [%d2], "
     "[%r2], 1024;\n" COMMIT READ "ret; }",
     greatest, 260, 0},
    {"add f32", NULL, 64,
     ASYNC_HEAD
     "cvt.rn.f32.u32 %f1, %r1; st.shared.v4.f32 [%r3], {%f1, %f1, %f1, %f1};\n"
     "add.s64 %d7, %d2, %d3; mov.f32 %f2, 0f3F800000;\n"
     "st.global.v4.f32 [%d7], {%f2, %f2, %f2, %f2};\n" FENCE SYNC
     "@%t cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%d2], "
     "[%r2], 1024;\n" COMMIT READ "ret; }",
     float_sums, 260, 0},
    {"add f16", NULL, 64,
     ASYNC_HEAD
     "and.b32 %r4, %r1, 15; cvt.rn.f16.u32 %h, %r4; mov.b32 %r4, {%h, %h};\n"
     "st.shared.v4.b32 [%r3], {%r4, %r4, %r4, %r4};\n"
     "add.s64 %d7, %d2, %d3; mov.b32 %r5, 0x3C003C00;\n"
     "st.global.v4.b32 [%d7], {%r5, %r5, %r5, %r5};\n" FENCE SYNC
     "@%t cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.f16 "
     "[%d2], [%r2], 1024;\n" COMMIT READ "ret; }",
     half_sums, 260, 0},
    {"prefetch", NULL, 64,
     ASYNC_HEAD "cp.async.bulk.prefetch.L2.global [%d1], 1024;\n" INIT("0", "1")
     SYNC EXPECT("0", "1024") LOAD("%r2", "%d1", "1024", "0") WAIT("0", "0")
     SHOW "ret; }",
     third, 64, 0},

    {"pipeline", "race.shared|async.early|mbar.arrive|mbar.phase", 96,
     ASYNC_HEAD PIPE_INIT
     PRODUCE("{{" WAIT_AT("%r11+16", "%r14") "|}}", "1024")
     CONSUME("", RELEASE),
     twelve, 96, 0},
    {"pipeline, released too soon", "race.shared|async.early", 96,
     ASYNC_HEAD PIPE_INIT PRODUCE(WAIT_AT("%r11+16", "%r14"), "1024")
     CONSUME("{{|" RELEASE "}}", "{{" RELEASE "|}}"),
     twelve, 96, 0},
    {"pipeline, wrong bytes", "mbar.tx", 96,
     ASYNC_HEAD PIPE_INIT
     PRODUCE(WAIT_AT("%r11+16", "%r14"), "{{1024|2048}}")
     CONSUME("", RELEASE),
     twelve, 96, 0},
    {"pipeline, some consumers release", "race.shared|async.early", 96,
     ASYNC_HEAD INIT("0", "1") INIT("8", "1") INIT("16", "{{64|32}}")
     INIT("24", "{{64|32}}") SYNC
     "mov.u32 %r7, 0; mov.u32 %r9, 0; setp.lt.u32 %p, %r1, 32;\n"
     "{{setp.ge.u32 %t, %r1, 0;|setp.ge.u32 %t, %r1, 64;}}\n"
     "@%p setp.eq.u32 %t, %r1, 0;\n"
     PRODUCE(WAIT_AT("%r11+16", "%r14"), "1024") CONSUME("", "@%t " RELEASE),
     twelve, 96, 0},
};

static void copies(void **state) {
  (void)state;
  async_run(&lab, cases, sizeof cases / sizeof *cases, NULL);
}

/* Out of CTA 1 goes from word 64 on. */
#define CLUSTER                                                               \
  "mov.u32 %r20, %cluster_ctarank; xor.b32 %r21, %r20, 1;\n"                  \
  "mul.wide.u32 %d8, %r20, 256; add.s64 %d5, %d5, %d8;\n"                     \
  "mapa.shared::cluster.u32 %r22, %r2, %r21;\n"                               \
  "mapa.shared::cluster.u32 %r23, %r10, %r21;\n"

static const async_case_t clusters[] = {
    {"multicast", "mbar.tx|hang", 64,
     ASYNC_HEAD CLUSTER INIT("0", "1") "fence.mbarrier_init.release.cluster;\n"
     MEET EXPECT("0", "1024") "setp.eq.u32 %q, %r20, 0;\n"
     "and.pred %q, %q, %t; mov.u16 %h, {{3|2}};\n"
     "@%q cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes."
     "multicast::cluster [%r2], [%d1], 1024, [%r10], %h;\n"
     WAIT("0", "0") SHOW MEET "ret; }",
     both, 128, 2},
    {"exit before the multicast ends", "cluster.exit|async.exit|hang", 64,
     ASYNC_HEAD CLUSTER INIT("0", "1") "fence.mbarrier_init.release.cluster;\n"
     MEET EXPECT("0", "1024") "setp.eq.u32 %q, %r20, 0;\n"
     "and.pred %q, %q, %t; mov.u16 %h, 3;\n"
     "@%q cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes."
     "multicast::cluster [%r2], [%d1], 1024, [%r10], %h;\n"
     "{{|setp.eq.u32 %q, %r20, 1; @%q ret;}}" WAIT("0", "0") SHOW
     "{{" MEET "|}} ret; }",
     both, 128, 2},
    /* each CTA sends its 1 KiB to the other */
    {"shared to shared", "proxy.fence", 64,
     ASYNC_HEAD CLUSTER INIT("0", "1") "mad.lo.u32 %r6, %r20, 1000, %r1;\n"
     "st.shared.v4.u32 [%r3], {%r6, %r6, %r6, %r6};\n"
     "{{fence.proxy.async;|}}\n" MEET EXPECT("0", "1024")
     "add.u32 %r24, %r22, 4096;\n"
     "@%t cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::"
     "bytes [%r24], [%r2], 1024, [%r23];\n" WAIT("0", "0")
     "ld.shared.u32 %r5, [%r3+4104]; st.global.u32 [%d5], %r5;\n" MEET
     "ret; }",
     rings, 128, 2},
    {"st.async", "async.early|race.shared", 64,
     ASYNC_HEAD CLUSTER INIT("0", "1") MEET EXPECT("0", "512")
     "mad.lo.u32 %r6, %r20, 1000, %r1; shl.b32 %r4, %r1, 3;\n"
     "add.u32 %r24, %r22, %r4; add.u32 %r25, %r2, %r4;\n"
     "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.u32 "
     "[%r24], {%r1, %r6}, [%r23];\n{{" WAIT("0", "0") "|"
     MEET "}} ld.shared.u32 %r5, [%r25+4];\n"
     "st.global.u32 [%d5], %r5;\n" MEET "ret; }",
     rings, 128, 2},
    {"red.async", "hang|mbar.tx", 64,
     ASYNC_HEAD CLUSTER INIT("0", "1") "mov.u32 %r6, 5;\n"
     "@%t st.shared.u32 [%r2], %r6;\n" MEET EXPECT("0", "{{256|260}}")
     "mov.u32 %r6, 1;\n"
     "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes."
     "add.u32 [%r22], %r6, [%r23];\n" WAIT("0", "0")
     "@%t ld.shared.u32 %r5, [%r2]; @%t st.global.u32 [%d5], %r5;\n" MEET
     "ret; }",
     ring_sums, 128, 2},
    {"reduction in shared memory", "hang|mbar.tx", 64,
     ASYNC_HEAD CLUSTER INIT("0", "1") "mov.u32 %r6, 0;\n"
     "st.shared.v4.u32 [%r3], {%r6, %r6, %r6, %r6};\n"
     "mad.lo.u32 %r6, %r20, 1000, %r1;\n"
     "st.shared.v4.u32 [%r3+4096], {%r6, %r6, %r6, %r6};\n"
     "fence.proxy.async;\n" MEET EXPECT("0", "{{1024|1040}}")
     "add.u32 %r24, %r2, 4096;\n"
     "@%t cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::"
     "complete_tx::bytes.add.u32 [%r22], [%r24], 1024, [%r23];\n"
     WAIT("0", "0")
     "ld.shared.u32 %r5, [%r3+8]; st.global.u32 [%d5], %r5;\n" MEET "ret; }",
     rings, 128, 2},
    {"remote arrival", "hang", 64,
     ASYNC_HEAD CLUSTER INIT("0", "{{64|65}}") MEET
     "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r23];\n"
     WAIT("0", "0")
     "mad.lo.u32 %r6, %r21, 1000, %r1; st.global.u32 [%d5], %r6;\n" MEET
     "ret; }",
     rings, 128, 2},
};

static void between(void **state) {
  (void)state;
  async_run(&lab, clusters, sizeof clusters / sizeof *clusters, NULL);
}

/* Blocks that store to one place; reductions may meet there. */
static void blocks(void **state) {
  (void)state;
  static const struct {
    const char *op;
    bool same, is_race;
  } rows[] = {{"cp.async.bulk.global.shared::cta.bulk_group", false, false},
              {"cp.async.bulk.global.shared::cta.bulk_group", true, true},
              {"cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32",
               true, false}};
  char text[8192], report[4096];
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
    snprintf(text, sizeof text,
             "%s" "mul.lo.u32 %%r6, %%r1, 7;\n"
             "st.shared.v4.u32 [%%r3], {%%r1, %%r6, %%r1, %%r6};\n"
             "mov.u32 %%r4, %%ctaid.x; mul.wide.u32 %%d7, %%r4, %d;\n"
             "add.s64 %%d2, %%d2, %%d7; fence.proxy.async; bar.sync 0;\n"
             "@%%t %s [%%d2], [%%r2], 1024;\n" "%s%s ret; }",
             ASYNC_HEAD, rows[k].same ? 0 : 1024, rows[k].op, COMMIT, DONE);
    lab_renew(&lab);
    uint64_t in = lab_alloc(&lab, 64), out = lab_alloc(&lab, 4096);
    uint8_t map[128] = {0};
    uint32_t have[256];
    lab.cuMemsetD8_v2(out, 0, 4096);
    void *params[] = {&in, &out, map};
    int code = lab_launch(&lab, lab_func(&lab, lab_load(&lab, text), "k"), 4,
                          64, 0, params);
    lab_report(&lab, report, sizeof report);
    if (rows[k].is_race) {
      if (code != 719 || !strstr(report, "\"race.global\""))
        fail_msg("%s: %d %s", rows[k].op, code, report);
      continue;
    }
    if (code) fail_msg("%s: %d %s", rows[k].op, code, report);
    assert_int_equal(lab_counter(&lab, "global.unique_written"),
                     rows[k].same ? 1024 : 4096);
    lab_copy_out(&lab, have, out, sizeof have);
    for (uint32_t i = 0; i < 256; i++)
      assert_int_equal(have[i],
                       (i % 2 ? i / 4 * 7 : i / 4) * (rows[k].same ? 4 : 1));
  }
}

/* -- every reduction, element by element -- */

/* 0 to 16 as f16, and as bfloat16 */
static const uint16_t f16_of[17] = {
    0,      0x3C00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600, 0x4700, 0x4800,
    0x4880, 0x4900, 0x4980, 0x4A00, 0x4A80, 0x4B00, 0x4B80, 0x4C00};
static const uint16_t bf16_of[17] = {
    0,      0x3F80, 0x4000, 0x4040, 0x4080, 0x40A0, 0x40C0, 0x40E0, 0x4100,
    0x4110, 0x4120, 0x4130, 0x4140, 0x4150, 0x4160, 0x4170, 0x4180};

typedef enum kind_t { U, S, F16, BF16, F32, F64 } kind_t;

static const struct {
  const char *op; /* as the instruction ends */
  kind_t kind;
  unsigned bytes;
} reduces[] = {
    {"add.u32", U, 4},  {"add.s32", S, 4},  {"add.u64", U, 8},
    {"min.u32", U, 4},  {"max.u32", U, 4},  {"min.s32", S, 4},
    {"max.s32", S, 4},  {"min.u64", U, 8},  {"max.u64", U, 8},
    {"min.s64", S, 8},  {"max.s64", S, 8},  {"inc.u32", U, 4},
    {"dec.u32", U, 4},  {"and.b32", U, 4},  {"or.b32", U, 4},
    {"xor.b32", U, 4},  {"and.b64", U, 8},  {"or.b64", U, 8},
    {"xor.b64", U, 8},  {"add.f32", F32, 4}, {"add.f64", F64, 8},
    {"add.noftz.f16", F16, 2}, {"add.noftz.bf16", BF16, 2},
    {"min.f16", F16, 2}, {"max.f16", F16, 2}, {"min.bf16", BF16, 2},
    {"max.bf16", BF16, 2}};

static uint64_t make(uint64_t *state, kind_t kind, unsigned bytes) {
  uint64_t r = lab_random(state), v = 0;
  double d = (double)(r % 2000) * 0.25 - 100.0;
  float f = (float)d;
  switch (kind) {
  case F16: return f16_of[r % 9];
  case BF16: return bf16_of[r % 9];
  case F32: memcpy(&v, &f, 4); return v;
  case F64: memcpy(&v, &d, 8); return v;
  default: return r >> (r & 31) & (bytes == 8 ? ~UINT64_C(0) : 0xFFFFFFFF);
  }
}

static uint64_t small(const uint16_t *table, uint64_t bits) {
  uint64_t n = 0;
  while (table[n] != bits) n++;
  return n;
}

/* `old` at the place, b comes along. */
static uint64_t reduced(const char *op, kind_t kind, unsigned bytes,
                        uint64_t old, uint64_t b) {
  uint64_t all = bytes == 8 ? ~UINT64_C(0) : 0xFFFFFFFF, v = 0;
  bool add = op[0] == 'a' && op[1] == 'd', min = op[0] == 'm' && op[1] == 'i';
  if (kind == F16 || kind == BF16) {
    const uint16_t *t = kind == F16 ? f16_of : bf16_of;
    uint64_t x = small(t, old), y = small(t, b);
    return t[add ? x + y : min ? (x < y ? x : y) : (x > y ? x : y)];
  }
  if (kind == F32) {
    float x, y;
    memcpy(&x, &old, 4);
    memcpy(&y, &b, 4);
    x += y;
    memcpy(&v, &x, 4);
    return v;
  }
  if (kind == F64) {
    double x, y;
    memcpy(&x, &old, 8);
    memcpy(&y, &b, 8);
    x += y;
    memcpy(&v, &x, 8);
    return v;
  }
  bool less = kind == S && bytes == 8 ? (int64_t)b < (int64_t)old
              : kind == S             ? (int32_t)b < (int32_t)old
                                      : b < old;
  if (add) return (old + b) & all;
  if (op[0] == 'm') return less == min && old != b ? b : old;
  if (op[0] == 'i') return old >= b ? 0 : old + 1;
  if (op[0] == 'd') return old == 0 || old > b ? b : old - 1;
  return op[0] == 'a' ? old & b : op[0] == 'o' ? old | b : old ^ b;
}

#define SHOW_WHOLE                                                            \
  WAIT("0", "0")                                                              \
  "ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r3+1024];\n"                      \
  "st.global.v4.u32 [%d7], {%r4, %r5, %r6, %r7};\n"

/* Where the result lies, and who brings the operands. */
typedef enum how_t { TO_GLOBAL, TO_SHARED, BY_THREADS } how_t;

/* red.async: each thread the elements of its 16 bytes. */
static void by_threads(char *out, size_t bytes, const char *op,
                       unsigned width) {
  static const char *const values[] = {"%r4", "%r5", "%r6", "%r7", "%d8",
                                       "%d9"};
  out[0] = '\0';
  if (width < 4) return; /* no such form */
  size_t n = (size_t)snprintf(
      out, bytes,
      "@%%t mbarrier.arrive.expect_tx.shared::cta.b64 _, [%%r10], 1024;\n"
      "ld.global.v4.u32 {%%r4, %%r5, %%r6, %%r7}, [%%d6];\n"
      "mov.b64 %%d8, {%%r4, %%r5}; mov.b64 %%d9, {%%r6, %%r7};\n");
  for (unsigned e = 0; e < 16 / width; e++)
    n += (size_t)snprintf(
        out + n, bytes - n,
        "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::"
        "bytes.%s [%%r3+%u], %s, [%%r10];\n",
        op, 1024 + e * width, values[width == 8 ? 4 + e : e]);
}

static void one_reduction(size_t k, how_t how) {
  static char text[8192], threads[2048];
  bool in_shared = how != TO_GLOBAL;
  char report[4096];
  uint8_t in[2048], out[1024], map[128] = {0};
  uint64_t state = k + 5;
  unsigned bytes = reduces[k].bytes;
  for (unsigned e = 0; e < sizeof in; e += bytes) {
    uint64_t v = make(&state, reduces[k].kind, bytes);
    memcpy(in + e, &v, bytes);
  }
  by_threads(threads, sizeof threads, reduces[k].op, bytes);
  /* shared memory of the own CTA is a place in the cluster, too */
  snprintf(text, sizeof text,
           "%s" /* the second KiB is where the first one is added */
           "ld.global.v4.u32 {%%r4, %%r5, %%r6, %%r7}, [%%d6];\n"
           "st.shared.v4.u32 [%%r3], {%%r4, %%r5, %%r6, %%r7};\n"
           "ld.global.v4.u32 {%%r4, %%r5, %%r6, %%r7}, [%%d6+1024];\n"
           "add.s64 %%d7, %%d2, %%d3;\n"
           "st.global.v4.u32 [%%d7], {%%r4, %%r5, %%r6, %%r7};\n"
           "st.shared.v4.u32 [%%r3+1024], {%%r4, %%r5, %%r6, %%r7};\n"
           "%s fence.proxy.async; bar.sync 0;\n%s%s%s ret; }",
           ASYNC_HEAD, INIT("0", "1"),
           how == BY_THREADS ? threads
           : in_shared ? EXPECT("0", "1024")
                       "@%t cp.reduce.async.bulk.shared::cluster.shared::cta."
                       "mbarrier::complete_tx::bytes."
                     : "@%t cp.reduce.async.bulk.global.shared::cta."
                       "bulk_group.",
           how == BY_THREADS ? "" : reduces[k].op,
           how == BY_THREADS ? SHOW_WHOLE
           : in_shared ? " [%r2+1024], [%r2], 1024, [%r10];\n" SHOW_WHOLE
                     : " [%d2], [%r2], 1024;\n" COMMIT DONE);
  lab_renew(&lab);
  uint64_t pin = lab_copy_in(&lab, in, sizeof in);
  uint64_t pout = lab_alloc(&lab, sizeof out);
  void *params[] = {&pin, &pout, map};
  int code = lab_launch(&lab, lab_func(&lab, lab_load(&lab, text), "k"), 1, 64,
                        0, params);
  if (code)
    fail_msg("%s: %d %s", reduces[k].op, code,
             lab_report(&lab, report, sizeof report));
  lab_copy_out(&lab, out, pout, sizeof out);
  for (unsigned e = 0; e < sizeof out; e += bytes) {
    uint64_t old = 0, b = 0, have = 0;
    memcpy(&b, in + e, bytes);
    memcpy(&old, in + 1024 + e, bytes);
    memcpy(&have, out + e, bytes);
    uint64_t want = reduced(reduces[k].op, reduces[k].kind, bytes, old, b);
    if (have != want)
      fail_msg("%s of 0x%llx and 0x%llx is 0x%llx and must be 0x%llx",
               reduces[k].op, (unsigned long long)old, (unsigned long long)b,
               (unsigned long long)have, (unsigned long long)want);
  }
}

static void reductions(void **state) {
  (void)state;
  for (size_t k = 0; k < sizeof reduces / sizeof *reduces; k++) {
    one_reduction(k, TO_GLOBAL);
    /* integers of 32 bits, and add.u64 */
    if (reduces[k].kind <= S &&
        (reduces[k].bytes == 4 || strcmp(reduces[k].op, "add.u64") == 0)) {
      one_reduction(k, TO_SHARED);
      one_reduction(k, BY_THREADS);
    }
  }
}

/* Forms without an effect on results. */
static void hints(void **state) {
  (void)state;
  static const async_case_t c = {
      "hints", NULL, 64,
      ASYNC_HEAD "cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%d10, "
      "{%r1, %r1}];\ncp.async.bulk.prefetch.L2.global.L2::cache_hint [%d1], "
      "1024, %d1;\nprefetch.tensormap [%d10]; fence.proxy.alias;\n"
      "fence.proxy.tensormap::generic.release.gpu;\n"
      "fence.proxy.tensormap::generic.acquire.gpu [%d10], 128;\n"
      "fence.proxy.async.shared::cluster; fence.proxy.async;\n"
      INIT("0", "1") "fence.mbarrier_init.release.cluster;\n" SYNC
      EXPECT("0", "1024")
      "@%t cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes."
      "L2::cache_hint [%r2], [%d1], 1024, [%r10], %d1;\n" WAIT("0", "0") SHOW
      "ret; }",
      third, 64, 0};
  async_run_one(&lab, &c, false, "async:late", NULL);
}

static void counted(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    bool load = strcmp(cases[i].name, "load") == 0;
    if (!load && strcmp(cases[i].name, "store") != 0) continue;
    async_run_one(&lab, &cases[i], false, "async:late,order:rr", NULL);
    assert_int_equal(lab_counter(&lab, "async.bytes"), 1024);
    assert_int_equal(lab_counter(&lab, "global.bytes_read"), load * 1024);
    assert_int_equal(lab_counter(&lab, "global.bytes_written"),
                     load ? 256 : 1024);
    assert_int_equal(lab_counter(&lab, "global.sectors"), load ? 40 : 32);
  }
}

static int setup(void **state) {
  (void)state;
  lab_open(&lab, "model:h100,budget:3000000");
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(copies),
                                     cmocka_unit_test(between),
                                     cmocka_unit_test(blocks),
                                     cmocka_unit_test(reductions),
                                     cmocka_unit_test(hints),
                                     cmocka_unit_test(counted)};
  return cmocka_run_group_tests_name("simgpu.bulk", tests, setup, NULL);
}
