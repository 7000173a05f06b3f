/* wgmma: every type and N, operands in registers and in shared memory in
   every layout, exactly on small integers; the rules of its queue, by mutants
   of a correct kernel. One warpgroup a launch. */
#include "matrix_lab.h"

static lab_t lab;

#define IMAGE   49152u /* bytes of shared memory, B from PLACE_B on */
#define PLACE_B 16384u

typedef struct kind_t {
  const char *types; /* behind the shape */
  element_t d, a, b;
  unsigned k;
} kind_t;

static const kind_t kinds[] = {
    {"f32.bf16.bf16", E_F32, E_BF16, E_BF16, 16},
    {"f32.f16.f16", E_F32, E_F16, E_F16, 16},
    {"f16.f16.f16", E_F16, E_F16, E_F16, 16},
    {"f32.tf32.tf32", E_F32, E_TF32, E_TF32, 8},
    {"f32.e4m3.e5m2", E_F32, E_E4M3, E_E5M2, 32},
    {"f32.e5m2.e5m2", E_F32, E_E5M2, E_E5M2, 32},
    {"f16.e4m3.e4m3", E_F16, E_E4M3, E_E4M3, 32},
    {"s32.s8.u8", E_S32, E_S8, E_U8, 32},
    {"s32.u8.s8.satfinite", E_S32, E_U8, E_S8, 32},
    {"s32.b1.b1.and.popc", E_S32, E_B1, E_B1, 256}};
#define KINDS (sizeof kinds / sizeof *kinds)

/* How an operand lies in shared memory. */
typedef struct store_t {
  unsigned width; /* of the swizzle, 0: none */
  bool is_mn;     /* M or N runs fastest */
  unsigned skip;  /* elements of K before it in the swizzled rows */
} store_t;

typedef struct case_t {
  const kind_t *kind;
  unsigned n;
  store_t a, b;
  bool in_registers, adds, neg_a, neg_b;
} case_t;

/* The manual's canonical layouts, element by element. */
static unsigned place_of(const store_t *s, element_t e, unsigned rows,
                         unsigned mn, unsigned k, unsigned *lbo,
                         unsigned *sbo) {
  unsigned bits = element_bits(e), per = 128 / bits, w = s->width;
  unsigned at;
  if (!s->is_mn && !w) {
    *lbo = 128 * (rows / 8);
    *sbo = 128;
    at = mn % 8 * 16 + mn / 8 * *sbo + k / per * *lbo + k % per * bits / 8;
  } else if (!s->is_mn) {
    *lbo = 16;
    *sbo = 8 * w;
    k += s->skip;
    at = mn % 8 * w + mn / 8 * *sbo + k * bits / 8;
  } else if (!w) {
    *lbo = 128 * (rows / 8);
    *sbo = 128;
    at = mn % 8 * 2 + mn / 8 * *sbo + k % 8 * 16 + k / 8 * *lbo;
  } else {
    *sbo = 8 * w;
    *lbo = 16 * w;
    at = mn % (w / 2) * 2 + mn / (w / 2) * *lbo + k % 8 * w + k / 8 * *sbo;
  }
  return at;
}

static unsigned swizzled(unsigned at, unsigned width) {
  if (width == 128) return at ^ (at >> 7 & 7) << 4;
  if (width == 64) return at ^ (at >> 7 & 3) << 4;
  if (width == 32) return at ^ (at >> 7 & 1) << 4;
  return at;
}

static uint64_t code_of(unsigned width) {
  return width == 128 ? 1 : width == 64 ? 2 : width == 32 ? 3 : 0;
}

/* Writes the operand and returns its descriptor less the start of s. */
static uint64_t place_operand(uint8_t *image, unsigned start,
                              const store_t *s, element_t e, unsigned rows,
                              unsigned cols, const double *matrix) {
  unsigned lbo = 0, sbo = 0, bits = element_bits(e);
  for (unsigned r = 0; r < rows; r++)
    for (unsigned k = 0; k < cols; k++) {
      unsigned at = start + place_of(s, e, rows, r, k, &lbo, &sbo);
      at = swizzled(at, s->width);
      uint64_t code = encode(e, matrix[r * cols + k]);
      if (bits >= 8)
        memcpy(image + at, &code, bits / 8);
      else
        image[at] |= (uint8_t)(code << k % 8);
    }
  start += s->skip * bits / 8;
  return (uint64_t)(start >> 4) | (uint64_t)(lbo >> 4) << 16 |
         (uint64_t)(sbo >> 4) << 32 | code_of(s->width) << 62;
}

/* D: row 16w + g + 8 (i / 2 % 2), column 2q + i % 2 + 8 (i / 4). */
static coord_t d_at(unsigned thread, unsigned i) {
  unsigned w = thread / 32, g = thread % 32 / 4, q = thread % 4;
  return (coord_t){16 * w + g + (i / 2 % 2 ? 8 : 0),
                   8 * (i / 4) + 2 * q + i % 2};
}

/* A in registers, by element size. */
static coord_t a_at(element_t e, unsigned thread, unsigned i) {
  unsigned w = thread / 32, g = thread % 32 / 4, q = thread % 4;
  switch (element_bits(e)) {
  case 16:
    return (coord_t){16 * w + g + (i / 2 % 2 ? 8 : 0),
                     2 * q + i % 2 + 8 * (i / 4)};
  case 8:
    return (coord_t){16 * w + g + (i / 4 % 2 ? 8 : 0),
                     4 * q + i % 4 + 16 * (i / 8)};
  case 32:
    return (coord_t){16 * w + g + (i % 2 ? 8 : 0), q + 4 * (i / 2)};
  default: /* b1 */
    return (coord_t){16 * w + g + (i / 32 % 2 ? 8 : 0),
                     32 * q + i % 32 + 128 * (i / 64)};
  }
}

/* The parts of the kernel that mutants replace. */
typedef struct parts_t {
  const char *before, *fence, *after_issue, *commit, *wait, *after;
} parts_t;

static const parts_t correct = {
    "", "wgmma.fence.sync.aligned;\n", "",
    "wgmma.commit_group.sync.aligned;\n",
    "wgmma.wait_group.sync.aligned 0;\n", ""};

/* Bytes of shared memory that are written. */
static unsigned filled = IMAGE;

static unsigned d_count(const case_t *c) {
  return c->n / (c->kind->d == E_F16 ? 4 : 2);
}

/* %f0.. is A, %r0.. is D; %q1, %q2 the descriptors. */
static void say_wgmma(text_t *t, const case_t *c) {
  char shape[32];
  snprintf(shape, sizeof shape, "m64n%uk%u", c->n, c->kind->k);
  say(t, "wgmma.mma_async.sync.aligned.%s.%s ", shape, c->kind->types);
  say_vector(t, "%r", 0, d_count(c));
  say(t, ", ");
  if (c->in_registers)
    say_vector(t, "%a", 0, 4);
  else
    say(t, "%%q1");
  say(t, ", %%q2, %%p");
  if (c->kind->d != E_S32)
    say(t, ", %d, %d", c->neg_a ? -1 : 1, c->neg_b ? -1 : 1);
  if (element_bits(c->kind->a) == 16) {
    if (!c->in_registers) say(t, ", %d", c->a.is_mn);
    say(t, ", %d", c->b.is_mn);
  }
  say(t, ";\n");
}

static void kernel_text(text_t *t, const case_t *c, uint64_t da, uint64_t db,
                        const parts_t *parts) {
  unsigned nd = d_count(c);
  say(t,
      ".version 8.7\n.target sm_90a\n.address_size 64\n"
      ".visible .entry k(.param .u64 pin, .param .u64 pout) {\n"
      ".shared .align 1024 .b8 s[%u];\n"
      ".reg .b32 %%r<300>, %%a<4>, %%t, %%s, %%x, %%v;\n"
      ".reg .b64 %%in, %%out, %%o, %%q<16>; .reg .pred %%p, %%z;\n"
      "ld.param.u64 %%in, [pin]; ld.param.u64 %%out, [pout];\n"
      "mov.u32 %%t, %%tid.x; mov.u32 %%s, s; mul.wide.u32 %%o, %%t, 4;\n"
      "add.s64 %%in, %%in, %%o; add.s64 %%out, %%out, %%o;\n"
      "mad.lo.u32 %%x, %%t, 4, %%s; mov.u64 %%q0, %%in; mov.u32 %%v, 0;\n"
      "LOOP: ld.global.b32 %%r0, [%%q0]; st.shared.b32 [%%x], %%r0;\n"
      "add.s64 %%q0, %%q0, 512; add.u32 %%x, %%x, 512;\n"
      "add.u32 %%v, %%v, 1; setp.lt.u32 %%z, %%v, %u; @%%z bra LOOP;\n",
      IMAGE, filled / 512);
  say(t, "add.s64 %%q0, %%in, %u;\n", IMAGE);
  for (unsigned n = 0; n < 4; n++)
    say(t, "ld.global.b32 %%a%u, [%%q0+%u];\n", n, 512 * n);
  for (unsigned n = 0; n < nd; n++)
    say(t, "ld.global.b32 %%r%u, [%%q0+%u];\n", n, 512 * (n + 4));
  say(t,
      "shr.u32 %%v, %%s, 4; cvt.u64.u32 %%q3, %%v;\n"
      "add.s64 %%q1, %%q3, 0x%llx; add.s64 %%q2, %%q3, 0x%llx;\n"
      "mov.u32 %%v, %u; setp.ne.u32 %%p, %%v, 0;\n"
      "setp.lt.u32 %%z, %%t, 7;\n"
      "%sfence.proxy.async; bar.sync 0;\n%s",
      (unsigned long long)da, (unsigned long long)db, c->adds,
      parts->before, parts->fence);
  say_wgmma(t, c);
  say(t, "%s%s%s%s", parts->after_issue, parts->commit, parts->wait,
      parts->after);
  for (unsigned n = 0; n < nd; n++)
    say(t, "st.global.b32 [%%out+%u], %%r%u;\n", 512 * n, n);
  say(t, "ret; }\n");
}

static double small(uint64_t *state, element_t e) {
  double v = (double)(lab_random(state) % 15) - 7;
  if (e == E_B1) return (double)(lab_random(state) & 1);
  if (e == E_U8) return v + 7;
  return v;
}

typedef struct operands_t {
  double a[64 * 256], b[256 * 256], d[64 * 256];
} operands_t;
static operands_t x;
static uint8_t in[IMAGE + 512 * 132], out[512 * 128];

/* Fills the input; the descriptors come back. */
static void fill(const case_t *c, uint64_t seed, uint64_t *da, uint64_t *db) {
  const kind_t *kind = c->kind;
  uint64_t state = seed;
  memset(in, 0, sizeof in);
  for (unsigned n = 0; n < 64 * kind->k; n++)
    x.a[n] = small(&state, kind->a);
  for (unsigned n = 0; n < c->n * kind->k; n++)
    x.b[n] = small(&state, kind->b);
  for (unsigned n = 0; n < 64 * c->n; n++) x.d[n] = small(&state, E_S32);
  *da = place_operand(in, 0, &c->a, kind->a, 64, kind->k, x.a);
  *db = place_operand(in, PLACE_B, &c->b, kind->b, c->n, kind->k, x.b);
  uint8_t *regs = in + IMAGE;
  unsigned abits = element_bits(kind->a), dbits = element_bits(kind->d);
  for (unsigned thread = 0; thread < 128; thread++) {
    for (unsigned i = 0; i < 64 * kind->k / 128; i++) {
      coord_t at = a_at(kind->a, thread, i);
      uint64_t code = encode(kind->a, x.a[at.row * kind->k + at.col]);
      uint8_t *p = regs + 512 * (i * abits / 32) + 4 * thread;
      uint32_t word;
      memcpy(&word, p, 4);
      word |= (uint32_t)(code << i * abits % 32);
      memcpy(p, &word, 4);
    }
    for (unsigned i = 0; i < c->n / 2; i++) {
      coord_t at = d_at(thread, i);
      uint64_t code = encode(kind->d, x.d[at.row * c->n + at.col]);
      uint8_t *p = regs + 2048 + 512 * (i * dbits / 32) + 4 * thread;
      uint32_t word;
      memcpy(&word, p, 4);
      word |= (uint32_t)(code << i * dbits % 32);
      memcpy(p, &word, 4);
    }
  }
}

static int launch(const char *text) {
  rcuda_module_t *module = lab_load(&lab, text);
  uint64_t din = lab_copy_in(&lab, in, sizeof in);
  uint64_t dout = lab_alloc(&lab, sizeof out);
  lab.cuMemsetD8_v2(dout, 0, sizeof out);
  void *params[] = {&din, &dout};
  int code =
      lab_launch(&lab, lab_func(&lab, module, "k"), 1, 128, 0, params);
  if (code) return code;
  lab_copy_out(&lab, out, dout, sizeof out);
  lab.cuMemFree_v2(din);
  lab.cuMemFree_v2(dout);
  lab.cuModuleUnload(module);
  return 0;
}

/* How many elements of D differ from the product on the host. */
static unsigned wrong(const case_t *c, char *say_what, size_t bytes) {
  unsigned count = 0, dbits = element_bits(c->kind->d);
  for (unsigned thread = 0; thread < 128; thread++)
    for (unsigned i = 0; i < c->n / 2; i++) {
      coord_t at = d_at(thread, i);
      double want = c->adds ? x.d[at.row * c->n + at.col] : 0;
      double sign = c->neg_a != c->neg_b ? -1 : 1;
      for (unsigned k = 0; k < c->kind->k; k++)
        want += sign * x.a[at.row * c->kind->k + k] *
                x.b[at.col * c->kind->k + k];
      uint32_t word;
      memcpy(&word, out + 512 * (i * dbits / 32) + 4 * thread, 4);
      double got = decode(c->kind->d, dbits == 32 ? word
                                      : i % 2     ? word >> 16
                                                  : word & 0xFFFF);
      if (got == want) continue;
      if (!count++)
        snprintf(say_what, bytes, "D[%u][%u] is %g, not %g", at.row, at.col,
                 got, want);
    }
  return count;
}

static char text_space[1 << 16];

static void run(const case_t *c, uint64_t seed) {
  char what[128] = "", report[2048];
  uint64_t da, db;
  text_t t = {text_space, 0, sizeof text_space};
  fill(c, seed, &da, &db);
  kernel_text(&t, c, da, db, &correct);
  int code = launch(text_space);
  if (code || wrong(c, what, sizeof what))
    fail_msg("m64n%uk%u.%s A %s%u%s B %u%s: result %d %s %s", c->n,
             c->kind->k, c->kind->types, c->in_registers ? "registers " : "",
             c->a.width, c->a.is_mn ? " MN" : "", c->b.width,
             c->b.is_mn ? " MN" : "", code, what,
             lab_report(&lab, report, sizeof report));
}

/* Every type, A from both places. */
static void types(void **state) {
  (void)state;
  for (unsigned n = 0; n < KINDS; n++)
    for (unsigned r = 0; r < 2; r++) {
      case_t c = {.kind = &kinds[n], .n = 32, .a = {.width = 128},
                  .b = {.width = 128}, .in_registers = r, .adds = true};
      run(&c, n * 2 + r + 1);
    }
}

static void every_n(void **state) {
  (void)state;
  for (unsigned n = 8; n <= 256; n += 8) {
    case_t c = {.kind = &kinds[n / 8 % 3], .n = n, .a = {.width = 64},
                .b = {.width = 32}, .adds = n % 16 != 0};
    run(&c, n);
    bool is_int = n <= 24 || n % 16 == 0; /* a subset */
    c.kind = &kinds[n / 8 % 2 ? 4 : is_int ? 7 : 3];
    run(&c, n + 1);
  }
}

/* Every swizzle, both orders of A and of B, steps along K inside the
   swizzled rows. */
static void layouts(void **state) {
  (void)state;
  static const unsigned widths[] = {0, 32, 64, 128};
  for (unsigned n = 0; n < 64; n++) {
    case_t c = {.kind = &kinds[n % 2], .n = 128,
                .a = {.width = widths[n % 4], .is_mn = n / 4 % 2},
                .b = {.width = widths[n / 8 % 4], .is_mn = n / 32 % 2},
                .adds = n % 3 != 0, .neg_a = n % 5 == 0,
                .neg_b = n % 7 == 0};
    run(&c, 100 + n);
    if (n % 4 == 0) {
      c.in_registers = true;
      run(&c, 200 + n);
    }
  }
  for (unsigned n = 0; n < KINDS; n++)
    for (unsigned w = 0; w < 4; w++) {
      unsigned bits = element_bits(kinds[n].a);
      unsigned step = 256 / bits; /* elements of 32 bytes */
      case_t c = {.kind = &kinds[n], .n = 64, .a = {.width = widths[w]},
                  .b = {.width = widths[3 - w]}, .adds = true};
      if (widths[w] > 32) c.a.skip = step * (widths[w] / 64);
      if (widths[3 - w] > 32) c.b.skip = step;
      run(&c, 300 + n * 4 + w);
    }
}

/* The three moments at which the queue may run give equal results. */
static void modes(void **state) {
  (void)state;
  static const char *const names[] = {"async:late", "async:immediate",
                                      "async:random,seed:3",
                                      "async:random,seed:4,order:random"};
  for (unsigned n = 0; n < 4; n++) {
    assert_int_equal(lab.simgpu_configure(names[n]), 0);
    case_t c = {.kind = &kinds[0], .n = 64, .a = {.width = 128},
                .b = {.width = 128}, .adds = true};
    run(&c, 9);
  }
  lab.simgpu_configure("async:late,seed:1,order:rr");
}

/* -- mutants -- */

typedef struct mutant_t {
  const char *id; /* the check, or "values" */
  parts_t parts;
  uint64_t flip_a, flip_b; /* of the descriptors */
} mutant_t;

#define FENCE  "wgmma.fence.sync.aligned;\n"
#define COMMIT "wgmma.commit_group.sync.aligned;\n"
#define WAIT   "wgmma.wait_group.sync.aligned 0;\n"

static const mutant_t mutants[] = {
    {"wgmma.fence", {"", "", "", COMMIT, WAIT, ""}, 0, 0},
    {"wgmma.fence", {"", FENCE "add.u32 %r3, %r3, 0;\n", "", COMMIT, WAIT,
                     ""}, 0, 0},
    {"wgmma.regs", {"", FENCE, "", COMMIT, "", "mov.b32 %v, %r0;\n" WAIT}, 0,
     0},
    {"wgmma.regs", {"", FENCE, "", COMMIT, "wgmma.wait_group.sync.aligned 1;"
                    "\n", "mov.b32 %v, %r0;\n" WAIT}, 0, 0},
    {"wgmma.regs", {"", FENCE, "mov.b32 %r1, 0;\n", COMMIT, WAIT, ""}, 0, 0},
    {"wgmma.regs", {"", FENCE, "", "", WAIT, ""}, 0, 0},
    {"async.exit", {"", FENCE, "", COMMIT, "", "exit;\n"}, 0, 0},
    {"warp.matrix", {"", FENCE "@%z bra L;\n", "L:\n", COMMIT, WAIT, ""}, 0,
     0},
    {"warp.matrix", {"", "@%z exit;\n" FENCE, "", COMMIT, WAIT, ""}, 0, 0},
    {"wgmma.desc", {"setp.lt.u32 %z, %t, 32; @%z add.s64 %q2, %q2, 2;\n",
                    FENCE, "", COMMIT, WAIT, ""}, 0, 0},
    {"wgmma.desc", {"setp.eq.u32 %z, %t, 5; @%z add.s64 %q2, %q2, 2;\n",
                    FENCE, "", COMMIT, WAIT, ""}, 0, 0},
    /* an atom that starts in its third row */
    {"wgmma.desc", {"add.s64 %q2, %q2, 16;\n", FENCE, "", COMMIT, WAIT, ""},
     0, 0},
    {"wgmma.desc", {"", FENCE, "", COMMIT, WAIT, ""}, 1u << 14, 0},
    {"mem.bounds", {"", FENCE, "", COMMIT, WAIT, ""}, 0, (uint64_t)0x1000
                                                            << 32},
    {"values", {"", FENCE, "", COMMIT, WAIT, ""}, 0, UINT64_C(3) << 62},
    {"values", {"", FENCE, "", COMMIT, WAIT, ""}, (uint64_t)192 << 32, 0},
    /* what depends on undefined bytes: rows of A, and B as a whole */
    {"init.use", {"", FENCE, "", COMMIT, WAIT, "setp.eq.u32 %z, %r0, 7;"
                  "@%z st.global.b32 [%out], %r0;\n"},
     (uint64_t)0x800, 0},
    {"init.use", {"", FENCE, "", COMMIT, WAIT, "setp.eq.u32 %z, %r0, 7;"
                  "@%z st.global.b32 [%out], %r0;\n"},
     0, (uint64_t)0xC00},
    {"async.source", {"", FENCE, "", COMMIT,
                      "bar.sync 0; st.shared.b32 [s+16384], %t;\n" WAIT, ""},
     0, 0},
    {"race.shared", {"st.shared.b32 [s+16384], %t;\n", FENCE, "", COMMIT,
                     WAIT, ""}, 0, 0}};

static void run_mutant(const mutant_t *m, bool is_wrong) {
  char what[128] = "", report[4096], id[64];
  uint64_t da, db;
  text_t t = {text_space, 0, sizeof text_space};
  case_t c = {.kind = &kinds[0], .n = 32, .a = {.width = 128},
              .b = {.width = 128}, .adds = true};
  lab_renew(&lab);
  fill(&c, 77, &da, &db);
  if (is_wrong) {
    da ^= m->flip_a;
    db ^= m->flip_b;
  }
  kernel_text(&t, &c, da, db, is_wrong ? &m->parts : &correct);
  int code = launch(text_space);
  lab_report(&lab, report, sizeof report);
  snprintf(id, sizeof id, "\"id\":\"%s\"", m->id);
  if (!is_wrong) {
    if (code || wrong(&c, what, sizeof what))
      fail_msg("the correct one: %d %s %s", code, report, what);
  } else if (strcmp(m->id, "values") == 0) {
    if (code || !wrong(&c, what, sizeof what))
      fail_msg("values are right: %d %s", code, report);
  } else if (!code || !strstr(report, id)) {
    fail_msg("%s (%d) is not caught: %d %s", m->id, (int)(m - mutants), code,
             report);
  }
}

static void all_mutants(void **state) {
  (void)state;
  filled = 32768;
  for (unsigned n = 0; n < sizeof mutants / sizeof *mutants; n++)
    run_mutant(&mutants[n], true);
  run_mutant(&mutants[0], false);
  filled = IMAGE;
}

/* Two groups on their way: the older one's D may be read after wait_group 1,
   the newer one's may not; D need not be defined where scale-d is 0. */
static void pipelined(void **state) {
  (void)state;
  for (unsigned n = 0; n < 4; n++) {
    char report[4096];
    uint64_t da, db;
    text_t t = {text_space, 0, sizeof text_space};
    case_t c = {.kind = &kinds[0], .n = 8, .a = {.width = 128},
                .b = {.width = 128}};
    lab_renew(&lab);
    fill(&c, 50 + n, &da, &db);
    parts_t parts = correct;
    char after[2048], *p = after;
    p += sprintf(p, "%s", FENCE "wgmma.mma_async.sync.aligned.m64n8k16.f32."
                          "bf16.bf16 {%r100,%r101,%r102,%r103}, %q1, %q2, "
                          "0, 1, 1, 0, 0;\n" COMMIT
                          "wgmma.wait_group.sync.aligned 1;\n");
    p += sprintf(p, n == 1 ? "add.u32 %%r100, %%r100, 0;\n" : "");
    p += sprintf(p, "add.u32 %%r0, %%r0, 0; %s", WAIT);
    if (n == 2) /* used without a fence once more, and a wait in vain */
      p += sprintf(p, "add.u32 %%r100, %%r100, 0;\n" FENCE
                      "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 "
                      "{%%r100,%%r101,%%r102,%%r103}, %%q1, %%q2, 0, 1, 1, "
                      "0, 0;\n" COMMIT "wgmma.wait_group.sync.aligned 7;\n"
                      WAIT WAIT);
    if (n == 3) /* the registers of D hold nothing at first */
      p += sprintf(p, "mov.b32 %%r0, %%r100; mov.b32 %%r1, %%r101;"
                      "mov.b32 %%r2, %%r102; mov.b32 %%r3, %%r103;\n");
    parts.wait = "";
    parts.after = after;
    kernel_text(&t, &c, da, db, &parts);
    int code = launch(text_space);
    char what[128] = "";
    lab_report(&lab, report, sizeof report);
    if (n == 1 ? !code || !strstr(report, "wgmma.regs")
               : code || report[0] || wrong(&c, what, sizeof what))
      fail_msg("case %u: %d %s %s", n, code, what, report);
  }
  lab_renew(&lab);
}

/* Without checks, what a missing wait leaves behind is wrong. */
static void unwaited_values(void **state) {
  (void)state;
  char what[128];
  uint64_t da, db;
  text_t t = {text_space, 0, sizeof text_space};
  parts_t parts = {"", FENCE, "", COMMIT, "", ""};
  case_t c = {.kind = &kinds[0], .n = 32, .a = {.width = 128},
              .b = {.width = 128}, .adds = true};
  lab_renew(&lab);
  lab.simgpu_configure("check:none");
  fill(&c, 78, &da, &db);
  kernel_text(&t, &c, da, db, &parts);
  assert_int_equal(launch(text_space), 0);
  assert_true(wrong(&c, what, sizeof what) > 1000);
  lab.simgpu_configure("check:all");
}

static void counts(void **state) {
  (void)state;
  case_t c = {.kind = &kinds[0], .n = 128, .a = {.width = 128},
              .b = {.width = 128}, .adds = true};
  lab_renew(&lab);
  run(&c, 5);
  assert_int_equal(lab_counter(&lab, "tensor_flop"), 2 * 64 * 128 * 16);
}

/* setmaxnreg: three warpgroups of 168 registers a thread. */
static void registers(void **state) {
  (void)state;
  static const struct {
    const char *id, *first, *others;
  } cases[] = {
      {NULL, "dec.sync.aligned.u32 24", "inc.sync.aligned.u32 240"},
      {NULL, "dec.sync.aligned.u32 40", "inc.sync.aligned.u32 232"},
      {"hang", "dec.sync.aligned.u32 24", "inc.sync.aligned.u32 248"},
      {"warp.regs", "dec.sync.aligned.u32 176", "dec.sync.aligned.u32 24"},
      {"warp.regs", "inc.sync.aligned.u32 160", "dec.sync.aligned.u32 24"},
      {"warp.regs", "dec.sync.aligned.u32 24; B:", "inc.sync.aligned.u32 "
                                                   "240; @%z bra B"}};
  for (unsigned n = 0; n < sizeof cases / sizeof *cases; n++) {
    char report[4096], id[64];
    text_t t = {text_space, 0, sizeof text_space};
    lab_renew(&lab);
    say(&t,
        ".version 8.7\n.target sm_90a\n.address_size 64\n"
        ".visible .entry k() .maxntid 384 {\n.reg .pred %%p, %%z;\n"
        ".reg .b32 %%t; mov.u32 %%t, %%tid.x;\n"
        "setp.lt.u32 %%p, %%t, 128; setp.ge.u32 %%z, %%t, 500;\n"
        "@%%p bra A; setmaxnreg.%s; bra E;\n"
        "A: %s setmaxnreg.%s;\nE: ret; }\n",
        cases[n].others, n == 5 ? "setp.ge.u32 %p, %t, 96; @%p bra B;" : "",
        cases[n].first);
    int code = lab_launch(&lab, lab_func(&lab, lab_load(&lab, text_space),
                                         "k"), 1, 384, 0, NULL);
    lab_report(&lab, report, sizeof report);
    snprintf(id, sizeof id, "\"id\":\"%s\"", cases[n].id ? cases[n].id : "");
    if (cases[n].id ? !code || !strstr(report, id) : code)
      fail_msg("case %u: %d %s\n%s", n, code, report, text_space);
  }
  lab_renew(&lab);
}

static void refusals(void **state) {
  (void)state;
  static const struct {
    const char *target, *ins;
  } bad[] = {
      {"sm_90", "wgmma.fence.sync.aligned;"},
      {"sm_90a", "setmaxnreg.dec.sync.aligned.u32 44;"},
      {"sm_90a", "setmaxnreg.inc.sync.aligned.u32 264;"},
      {"sm_90a", "wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 "
                 "{%r0,%r1,%r2,%r3}, %q1, %q2, %p, 1, 1, 0, 1;"},
      {"sm_90a", "wgmma.mma_async.sync.aligned.m64n12k16.f32.bf16.bf16 "
                 "{%r0,%r1,%r2,%r3}, %q1, %q2, %p, 1, 1, 0, 1;"},
      {"sm_90a", "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 "
                 "{%r0,%r1,%r2,%r3}, %q1, %q2, %p, 2, 1, 0, 1;"},
      {"sm_90a", "wgmma.mma_async.sync.aligned.m64n40k32.s32.s8.s8 "
                 "{%r0,%r1,%r2,%r3}, %q1, %q2, %p;"}};
  lab_renew(&lab);
  for (unsigned n = 0; n < sizeof bad / sizeof *bad; n++) {
    char log[1024];
    text_t t = {text_space, 0, sizeof text_space};
    say_head(&t, bad[n].target, 128, 128, "");
    say(&t, "%s ret; }\n", bad[n].ins);
    int code = lab_refused(&lab, text_space, log, sizeof log);
    if (!code) {
      rcuda_func_t *func = NULL;
      rcuda_module_t *m = lab_load(&lab, text_space);
      code = lab.cuModuleGetFunction(&func, m, "k");
      lab.cuModuleUnload(m);
    }
    if (!code) fail_msg("%s is accepted for %s", bad[n].ins, bad[n].target);
  }
}

static int setup(void **state) {
  (void)state;
  lab_open(&lab, "model:h100");
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(types),       cmocka_unit_test(every_n),
      cmocka_unit_test(layouts),     cmocka_unit_test(modes),
      cmocka_unit_test(all_mutants), cmocka_unit_test(unwaited_values),
      cmocka_unit_test(counts),      cmocka_unit_test(registers),
      cmocka_unit_test(pipelined),
      cmocka_unit_test(refusals)};
  return cmocka_run_group_tests_name("simgpu.wgmma", tests, setup, NULL);
}
