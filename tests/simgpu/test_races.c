/* Races between blocks in global memory, and loads through the read-only path
   of what the launch writes: mutants beside correct kernels, and correct
   kernels that share sectors in every lawful way. */
#include "sim_lab.h"

static lab_t lab;

#define HEAD                                                                  \
  PTX_HEAD("sm_90")                                                           \
  ".visible .entry k(.param .u64 pin, .param .u64 pout) {\n"                  \
  ".reg .pred %p; .reg .b16 %h; .reg .b32 %r<16>; .reg .b64 %d<16>;\n"        \
  "ld.param.u64 %d1, [pin]; ld.param.u64 %d2, [pout];\n"                      \
  "mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x;\n"       \
  "mad.lo.u32 %r4, %r2, %r3, %r1; mul.wide.u32 %d3, %r4, 4;\n"                \
  "add.s64 %d4, %d1, %d3; add.s64 %d5, %d2, %d3; mov.u32 %r6, 7;\n"

typedef struct case_t {
  const char *id;
  const char *body;
} case_t;

/* Block 0 writes data and raises a flag, the others wait and read. */
#define PRODUCE(store)                                                        \
  "setp.ne.u32 %p, %r2, 0; @%p bra C; st.global.u32 [%d5], %r4;\n"            \
  "bar.sync 0; setp.ne.u32 %p, %r1, 0; @%p ret;\n" store " ret;\nC:"
#define CONSUME                                                               \
  "mul.wide.u32 %d6, %r1, 4; add.s64 %d6, %d2, %d6;\n"                        \
  "ld.global.u32 %r5, [%d6]; ret; }"
#define WAIT(load)                                                            \
  "W: " load " setp.eq.u32 %p, %r7, 0; @%p nanosleep.u32 20;\n"               \
  "@%p bra W;\n"

static const case_t cases[] = {
    /* written, ordered by as many bar.warp.sync as a tag can tell apart,
       then read by another lane; at the end without one */
#define FROM_LANE_0(at)                                                       \
  "setp.eq.u32 %p, %r1, 0; @%p st.shared.u32 [s" at "], %r6;\n"
#define TO_LANE_1(at)                                                         \
  "setp.eq.u32 %p, %r1, 1; @%p ld.shared.u32 %r5, [s" at "];\n"
#define LONG_AGO(count)                                                       \
  {"race.warp", HEAD ".shared .b32 s[8];\n" FROM_LANE_0("")                   \
       "mov.u32 %r8, " count "; L: bar.warp.sync -1; sub.u32 %r8, %r8, 1;\n"  \
       "setp.ne.u32 %p, %r8, 0; @%p bra L;\n" TO_LANE_1("")                   \
       FROM_LANE_0("+4") "{{bar.warp.sync -1;|}}" TO_LANE_1("+4") "ret; }"}
    LONG_AGO("255"), LONG_AGO("256"), LONG_AGO("512"),
    /* every block its own words; all the same ones */
    {"race.global",
     HEAD "{{|add.s64 %d5, %d2, 64;}} st.global.u32 [%d5], %r4; ret; }"},
    /* a block reads what its neighbour writes */
    {"race.global",
     HEAD "ld.global.u32 %r5, [%d4]; st.global.u32 [%d5], %r5;\n"
          "ld.global.u32 %r5, [%d5+{{0|128}}]; ret; }"},
    /* halves of a sector belong to different blocks; one step too far */
    {"race.global",
     HEAD "mul.wide.u32 %d6, %r2, 48; mul.wide.u32 %d7, %r1, 2;\n"
          "add.s64 %d6, %d6, %d7; add.s64 %d6, %d2, %d6;\n"
          "setp.lt.u32 %p, %r1, {{24|25}}; cvt.u16.u32 %h, %r2;\n"
          "@%p st.global.u16 [%d6], %h; ret; }"},
    /* the same, read back and written again */
    {"race.global",
     HEAD "mul.wide.u32 %d6, %r2, 48; mul.wide.u32 %d7, %r1, 2;\n"
          "add.s64 %d6, %d6, %d7; add.s64 %d6, %d2, %d6;\n"
          "setp.lt.u32 %p, %r1, 24; cvt.u16.u32 %h, %r2;\n"
          "@%p st.global.u16 [%d6], %h; bar.sync 0;\n"
          "@%p ld.global.u16 %h, [%d6+{{0|2}}]; bar.sync 0;\n"
          "@%p st.global.u16 [%d6], %h; ret; }"},
    /* counting together; somebody sets the counter instead */
    {"race.global",
     HEAD "setp.eq.u32 %p, %r4, {{1000|70}};\n"
          "@!%p red.global.add.u32 [%d2], 1;\n"
          "@%p st.global.u32 [%d2], %r1; ret; }"},
    /* what all read, one writes */
    {"race.global",
     HEAD "ld.global.u32 %r5, [%d1+{{0|64}}]; setp.eq.u32 %p, %r4, 5;\n"
          "@%p st.global.u32 [%d1+64], %r5; ret; }"},
    /* in place, each its own; the neighbour's word of before */
    {"race.global",
     HEAD "ld.global.u32 %r5, [%d5+{{0|4}}]; bar.sync 0;\n"
          "st.global.u32 [%d5], %r5; ret; }"},
    /* a flag: released and acquired; fences around relaxed accesses */
    {"race.global",
     HEAD PRODUCE("st{{.release.gpu|.relaxed.gpu}}.global.u32 [%d2+4096], 1;")
         WAIT("ld.acquire.gpu.global.u32 %r7, [%d2+4096];") CONSUME},
    {"race.global",
     HEAD PRODUCE("st.release.gpu.global.u32 [%d2+4096], 1;")
         WAIT("ld{{.acquire|.relaxed}}.gpu.global.u32 %r7, [%d2+4096];")
             CONSUME},
    {"race.global",
     HEAD PRODUCE("{{membar.gl|membar.cta}};"
                  "st.volatile.global.u32 [%d2+4096], 1;")
         WAIT("ld.volatile.global.u32 %r7, [%d2+4096];")
             "membar.gl;" CONSUME},
    {"race.global",
     HEAD PRODUCE("membar.gl; st.volatile.global.u32 [%d2+4096], 1;")
         WAIT("ld.volatile.global.u32 %r7, [%d2+4096];") "{{membar.gl;|}}"
             CONSUME},
    /* the flag itself read weakly */
    {"race.global",
     HEAD PRODUCE("membar.gl; st.volatile.global.u32 [%d2+4096], 1;")
         WAIT("ld{{.volatile|}}.global.u32 %r7, [%d2+4096];"
              "membar.gl; ld.volatile.global.u32 %r8, [%d1];") CONSUME},
    /* the last block to count reads what all wrote, and resets the counter */
    {"race.global",
     HEAD "st.global.u32 [%d5], %r4; {{membar.gl;|}} bar.sync 0;\n"
          "setp.ne.u32 %p, %r1, 0; @%p ret;\n"
          "atom.global.add.u32 %r7, [%d2+4096], 1; membar.gl;\n"
          "setp.ne.u32 %p, %r7, 7; @%p ret; ld.global.u32 %r5, [%d2+256];\n"
          "st.global.u32 [%d2+4096], 0; ret; }"},
    {"race.global",
     HEAD "st.global.u32 [%d5], %r4; membar.gl; bar.sync 0;\n"
          "setp.ne.u32 %p, %r1, 0; @%p ret;\n"
          "atom.global.add.u32 %r7, [%d2+4096], 1; {{membar.gl;|}}\n"
          "setp.ne.u32 %p, %r7, 7; @%p ret; ld.global.u32 %r5, [%d2+256];\n"
          "ret; }"},
    {"race.global",
     HEAD "st.global.u32 [%d5], %r4; bar.sync 0;\n"
          "setp.ne.u32 %p, %r1, 0; @%p ret;\n"
          "atom{{.acq_rel|.relaxed}}.gpu.global.add.u32 %r7, [%d2+4096], 1;\n"
          "setp.ne.u32 %p, %r7, 7; @%p ret; ld.global.u32 %r5, [%d2+256];\n"
          "ret; }"},
    /* a scope that ends at the CTA orders nothing between CTAs */
    {"race.global",
     HEAD PRODUCE("st.release.{{gpu|cta}}.global.u32 [%d2+4096], 1;")
         WAIT("ld.acquire.gpu.global.u32 %r7, [%d2+4096];") CONSUME},
    {"race.global",
     HEAD PRODUCE("st.release.gpu.global.u32 [%d2+4096], 1;")
         WAIT("ld.acquire.{{gpu|cta}}.global.u32 %r7, [%d2+4096];") CONSUME},
    {"race.global",
     HEAD "red.relaxed.{{gpu|cta}}.global.add.u32 [%d2], 1; ret; }"},
    {"mem.nc",
     HEAD "ld.global.nc.u32 %r5, [{{%d4|%d5}}]; bar.sync 0;\n"
          "st.global.u32 [%d5], %r5; ret; }"},
    {"mem.nc",
     HEAD "st.global.u32 [%d5], %r4; bar.sync 0;\n"
          "ld.global{{|.nc}}.u32 %r5, [%d5]; ret; }"},
};

static void every_case(void **state) {
  (void)state;
  char text[4096], report[8192], id[64];
  static const char *const modes[] = {"threads:1,order:rr",
                                      "threads:1,order:reverse",
                                      "threads:2,order:random"};
  for (size_t i = 0; i < 3 * sizeof cases / sizeof *cases; i++) {
    const case_t *c = &cases[i / 3];
    assert_int_equal(lab.simgpu_configure(modes[i % 3]), 0);
    for (int mutant = 0; mutant < 2; mutant++) {
      lab_renew(&lab);
      uint64_t in = lab_alloc(&lab, 8192), out = lab_alloc(&lab, 8192);
      lab.cuMemsetD32_v2(in, 0, 2048);
      lab.cuMemsetD32_v2(out, 0, 2048);
      lab_choose(text, sizeof text, c->body, mutant != 0);
      rcuda_func_t *f = lab_func(&lab, lab_load(&lab, text), "k");
      void *params[] = {&in, &out};
      int code = lab_launch(&lab, f, 8, 64, 0, params);
      lab_report(&lab, report, sizeof report);
      snprintf(id, sizeof id, "\"id\":\"%s\"", c->id);
      if (!mutant && (code || report[0]))
        fail_msg("correct kernel %zu of %s: %d %s", i / 3, c->id, code,
                 report);
      if (mutant && (code != 719 || !strstr(report, id)))
        fail_msg("mutant %zu of %s: %d %s", i / 3, c->id, code, report);
    }
  }
}

static int setup(void **state) {
  (void)state;
  lab_open(&lab, "model:h100,budget:3000000");
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_case)};
  return cmocka_run_group_tests_name("simgpu.races", tests, setup, NULL);
}
