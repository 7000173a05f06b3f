/* Kernels with asynchronous copies: each is run right and wrong, in all three
   modes and several orders of its warps. The right one must give the values
   of a formula and no finding, the wrong one the named finding. */
#ifndef ASYNC_LAB_H
#define ASYNC_LAB_H

#include "sim_lab.h"

#define ASYNC_BYTES 65536u
#define ASYNC_WORDS (ASYNC_BYTES / 4)

/* Parameters: in, out (64 KiB each); shared memory s with 1024-byte
   alignment, mbarriers at b. */
#define ASYNC_HEAD                                                            \
  ".version 8.6\n.target sm_90a\n.address_size 64\n" ASYNC_ENTRY
#define ASYNC_HEAD80 PTX_HEAD("sm_80") ASYNC_ENTRY
#define ASYNC_ENTRY                                                           \
  ".visible .entry k(.param .u64 pin, .param .u64 pout,\n"                    \
  " .param .align 64 .b8 pm[128]) {\n"                                        \
  ".shared .align 1024 .b8 s[32768]; .shared .align 8 .b8 b[64];\n"           \
  ".reg .pred %p, %q, %t; .reg .b16 %h; .reg .b32 %r<32>;\n"                  \
  ".reg .f32 %f<8>; .reg .b64 %d<16>;\n"                                      \
  "ld.param.u64 %d1, [pin]; ld.param.u64 %d2, [pout];\n"                      \
  "mov.u32 %r1, %tid.x; mul.wide.u32 %d3, %r1, 4;\n"                          \
  "add.s64 %d4, %d1, %d3; add.s64 %d5, %d2, %d3;\n"                           \
  "mul.wide.u32 %d3, %r1, 16; add.s64 %d6, %d1, %d3;\n"                       \
  "mov.u32 %r2, s; shl.b32 %r3, %r1, 4; add.s32 %r3, %r2, %r3;\n"             \
  "mov.u32 %r10, b; mov.u64 %d10, pm; setp.eq.u32 %t, %r1, 0;\n"

typedef struct async_case_t {
  const char *name;
  const char *id;    /* finding of the mutant; alternatives with | */
  unsigned block;
  const char *body;  /* {{right|wrong}} */
  /* What out[i] must be; NULL: not looked at. */
  uint32_t (*value)(const uint32_t *in, uint32_t i);
  uint32_t count;    /* words of out that have a value */
  unsigned cluster;  /* CTAs, 0: one */
} async_case_t;

static inline void async_input(uint32_t *in) {
  for (uint32_t i = 0; i < ASYNC_WORDS; i++) in[i] = i * 2654435761u ^ 0x5A5A;
}

/* "a|b": any of them in the report. */
static inline bool async_found(const char *report, const char *ids) {
  char id[64];
  while (*ids) {
    size_t n = strcspn(ids, "|");
    snprintf(id, sizeof id, "\"id\":\"%.*s\"", (int)n, ids);
    if (strstr(report, id)) return true;
    ids += n + (ids[n] == '|');
  }
  return false;
}

/* Optional tensor map of a case, as parameter 3. */
typedef void (*async_map_t)(lab_t *lab, const async_case_t *c, uint64_t in,
                            uint64_t out, void *map);

static inline void async_run_one(lab_t *lab, const async_case_t *c,
                                 bool mutant, const char *mode,
                                 async_map_t make_map) {
  static char text[32768], report[8192];
  static uint32_t in[ASYNC_WORDS], out[ASYNC_WORDS];
  _Alignas(64) uint8_t map[128] = {0};
  lab_choose(text, sizeof text, c->body, mutant);
  assert_int_equal(lab->simgpu_configure(mode), 0);
  lab_renew(lab);
  async_input(in);
  uint64_t pin = lab_copy_in(lab, in, sizeof in);
  uint64_t pout = lab_alloc(lab, sizeof out);
  assert_int_equal(lab->cuMemsetD8_v2(pout, 0xEE, sizeof out), 0);
  if (make_map) make_map(lab, c, pin, pout, map);
  rcuda_func_t *f = lab_func(lab, lab_load(lab, text), "k");
  void *params[] = {&pin, &pout, map};
  int code;
  if (c->cluster > 1) {
    rcuda_launch_attr_t a = {.id = RCUDA_LAUNCH_CLUSTER,
                             .value.cluster = {c->cluster, 1, 1}};
    rcuda_launch_config_t config = {{c->cluster, 1, 1}, {c->block, 1, 1}, 0,
                                    NULL, &a, 1};
    code = lab->cuLaunchKernelEx(&config, f, params, NULL);
    if (!code) code = lab->cuCtxSynchronize();
  } else {
    code = lab_launch(lab, f, 1, c->block, 0, params);
  }
  lab_report(lab, report, sizeof report);
  if (mutant) {
    if (!code || !async_found(report, c->id))
      fail_msg("%s, %s: %s is not caught: result %d, report %s\n%s", c->name,
               mode, c->id, code, report, text);
    return;
  }
  if (code || report[0])
    fail_msg("%s, %s: the right kernel: %d %s\n%s", c->name, mode, code,
             report, text);
  lab_copy_out(lab, out, pout, sizeof out);
  for (uint32_t i = 0; c->value && i < c->count; i++) {
    uint32_t want = c->value(in, i);
    if (out[i] != want)
      fail_msg("%s, %s: out[%u] is 0x%08x and must be 0x%08x\n%s", c->name,
               mode, i, out[i], want, text);
  }
}

static inline void async_run(lab_t *lab, const async_case_t *cases,
                             size_t count, async_map_t make_map) {
  static const char *const modes[] = {
      "async:late,order:rr", "async:immediate,order:rr",
      "async:random,order:rr,seed:5", "async:late,order:reverse",
      "async:random,order:random,seed:9"};
  for (size_t k = 0; k < count; k++) {
    for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
      async_run_one(lab, &cases[k], false, modes[m], make_map);
      if (strstr(cases[k].body, "{{"))
        async_run_one(lab, &cases[k], true, modes[m], make_map);
    }
  }
  lab->simgpu_configure("async:late,order:rr,seed:1");
}

#endif
