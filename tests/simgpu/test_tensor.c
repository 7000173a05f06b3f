/* Tensor copies: every element of random boxes, loads, stores and reductions,
   against formulas. The swizzles are the tables of the ISA's figures: which
   16-byte chunk of a 128-byte line goes where, for lines counted from the
   start of shared memory. */
#include "async_lab.h"

static lab_t lab;

static const uint8_t figure[8][8] = {
    {0, 1, 2, 3, 4, 5, 6, 7}, {1, 0, 3, 2, 5, 4, 7, 6},
    {2, 3, 0, 1, 6, 7, 4, 5}, {3, 2, 1, 0, 7, 6, 5, 4},
    {4, 5, 6, 7, 0, 1, 2, 3}, {5, 4, 7, 6, 1, 0, 3, 2},
    {6, 7, 4, 5, 2, 3, 0, 1}, {7, 6, 5, 4, 3, 2, 1, 0}};
/* lines after which the figure of each mode repeats */
static const uint32_t lines[4] = {1, 2, 4, 8};

static uint32_t swizzled(uint32_t address, int mode) {
  uint32_t line = address / 128, chunk = address / 16 % 8;
  return line * 128 + figure[line % lines[mode]][chunk] * 16u + address % 16;
}

typedef struct shape_t {
  int type, swizzle, fill;
  unsigned rank, bytes;
  uint64_t dims[5], strides[4];
  unsigned box[5], steps[5];
  int32_t at[5];
  uint32_t dst; /* offset in s, a multiple of 128 */
} shape_t;

#define SHARED 8192u
#define GLOBAL 65536u

/* Fills shared memory from `fill` (8 KiB), moves the box, shows it all. */
static void kernel_text(char *out, size_t bytes, const shape_t *s,
                        const char *how) {
  char coords[128] = "", loads[512] = "", body[1024];
  size_t at = 0, n = 0;
  for (unsigned d = 0; d < s->rank; d++) {
    at += (size_t)snprintf(coords + at, sizeof coords - at, "%s%%r%u",
                           d ? ", " : "", 20 + d);
    n += (size_t)snprintf(loads + n, sizeof loads - n, "mov.s32 %%r%u, %d;\n",
                          20 + d, (int)s->at[d]);
  }
  if (strcmp(how, "load") == 0)
    snprintf(body, sizeof body,
             "@%%t mbarrier.arrive.expect_tx.shared::cta.b64 _, [%%r10], "
             "%%r12;\n@%%t cp.async.bulk.tensor.%ud.shared::cluster.global."
             "tile.mbarrier::complete_tx::bytes [%%r11], [%%d10, {%s}], "
             "[%%r10];\n"
             "{ .reg .pred w; LW: mbarrier.try_wait.parity.shared::cta.b64 w,"
             " [%%r10], 0; @!w bra LW; }\n",
             s->rank, coords);
  else
    snprintf(body, sizeof body,
             "@%%t cp.%sasync.bulk.tensor.%ud.global.shared::cta%s%s.tile."
             "bulk_group [%%d10, {%s}], [%%r11];\n"
             "@%%t cp.async.bulk.commit_group;\n"
             "@%%t cp.async.bulk.wait_group 0;\n",
             strcmp(how, "store") == 0 ? "" : "reduce.", s->rank,
             strcmp(how, "store") == 0 ? "" : ".",
             strcmp(how, "store") == 0 ? "" : how, coords);
  uint32_t total = s->bytes;
  for (unsigned d = 0; d < s->rank; d++)
    total *= d ? (s->box[d] + s->steps[d] - 1) / s->steps[d] : s->box[0];
  snprintf(out, bytes,
           "%s"
           "cvta.param.u64 %%d10, %%d10; %s add.u32 %%r11, %%r2, %u;\n"
           "mov.u32 %%r12, %u; mov.u32 %%r13, 0;\n"
           "@%%t mbarrier.init.shared::cta.b64 [%%r10], 1;\n"
           "L: mad.lo.u32 %%r14, %%r13, 1024, 0; mul.wide.u32 %%d11, %%r13, "
           "1024;\n"
           "add.s64 %%d12, %%d6, %%d11; add.u32 %%r15, %%r3, %%r14;\n"
           "ld.global.v4.u32 {%%r16, %%r17, %%r18, %%r19}, [%%d12];\n"
           "st.shared.v4.u32 [%%r15], {%%r16, %%r17, %%r18, %%r19};\n"
           "add.u32 %%r13, %%r13, 1; setp.lt.u32 %%p, %%r13, 8; @%%p bra L;\n"
           "fence.proxy.async.shared::cta; bar.sync 0;\n%s bar.sync 0;\n"
           "mov.u32 %%r13, 0; add.s64 %%d6, %%d2, %%d3;\n"
           "M: mad.lo.u32 %%r14, %%r13, 1024, 0; mul.wide.u32 %%d11, %%r13, "
           "1024;\n"
           "add.s64 %%d12, %%d6, %%d11; add.u32 %%r15, %%r3, %%r14;\n"
           "ld.shared.v4.u32 {%%r16, %%r17, %%r18, %%r19}, [%%r15];\n"
           "st.global.v4.u32 [%%d12], {%%r16, %%r17, %%r18, %%r19};\n"
           "add.u32 %%r13, %%r13, 1; setp.lt.u32 %%p, %%r13, 8; @%%p bra M;\n"
           "ret; }",
           ASYNC_HEAD, loads, s->dst, total, body);
}

/* A random shape whose tensor lies inside GLOBAL bytes. */
static void make_shape(shape_t *s, uint64_t *state) {
  static const struct {
    int type;
    unsigned bytes;
  } types[] = {{RCUDA_TENSOR_U8, 1},  {RCUDA_TENSOR_U16, 2},
               {RCUDA_TENSOR_F16, 2}, {RCUDA_TENSOR_BF16, 2},
               {RCUDA_TENSOR_U32, 4}, {RCUDA_TENSOR_F32, 4},
               {RCUDA_TENSOR_I64, 8}, {RCUDA_TENSOR_F64, 8}};
  for (;;) {
    memset(s, 0, sizeof *s);
    size_t t = lab_random(state) % (sizeof types / sizeof *types);
    s->type = types[t].type;
    s->bytes = types[t].bytes;
    s->rank = 1 + (unsigned)(lab_random(state) % 5);
    s->swizzle = (int)(lab_random(state) % 4);
    s->fill = s->type >= RCUDA_TENSOR_F16 && lab_random(state) % 2;
    uint64_t span = 0, stride = s->bytes;
    uint32_t total = s->bytes;
    unsigned chunks =
        1 + (unsigned)(lab_random(state) %
                       (s->swizzle ? (1u << s->swizzle) : 12));
    for (unsigned d = 0; d < s->rank; d++) {
      s->dims[d] = 1 + lab_random(state) % (d ? 6 : 70);
      s->steps[d] = d && lab_random(state) % 3 == 0
                        ? 1 + (unsigned)(lab_random(state) % 3)
                        : 1;
      s->box[d] = d ? 1 + (unsigned)(lab_random(state) % 6)
                    : chunks * 16 / s->bytes;
      s->at[d] = (int32_t)(lab_random(state) % (s->dims[d] + 4)) - 3;
      if (d == 0) {
        span = stride * s->dims[0];
        stride = (span + 15) / 16 * 16 + lab_random(state) % 3 * 16;
      } else {
        s->strides[d - 1] = stride;
        span = stride * s->dims[d];
        stride = span + lab_random(state) % 2 * 16;
      }
      total *= d ? (s->box[d] + s->steps[d] - 1) / s->steps[d] : s->box[0];
    }
    s->dst = 128 * (uint32_t)(lab_random(state) % 12);
    if (span <= GLOBAL && s->dst + total + 128 <= SHARED && s->box[0] <= 256)
      return;
  }
}

static int encode(const shape_t *s, uint64_t address, void *map) {
  return lab.cuTensorMapEncodeTiled(map, s->type, s->rank,
                                    (void *)(uintptr_t)address, s->dims,
                                    s->strides, s->box, s->steps, 0,
                                    s->swizzle, 2, s->fill);
}

typedef void (*element_t)(void *arg, uint32_t shared, int64_t global,
                          unsigned bytes);

/* Each element of the box: where it lies in shared memory, and in the tensor
   (-1 outside). */
static void elements(const shape_t *s, uint32_t start, element_t fn,
                     void *arg) {
  unsigned n[5] = {1, 1, 1, 1, 1}, total = 1;
  for (unsigned d = 0; d < s->rank; d++) {
    n[d] = d ? (s->box[d] + s->steps[d] - 1) / s->steps[d] : s->box[0];
    total *= n[d];
  }
  for (unsigned e = 0; e < total; e++) {
    unsigned left = e;
    int64_t global = 0;
    for (unsigned d = 0; d < s->rank; d++) {
      int64_t x = (int64_t)(left % n[d]) * (d ? s->steps[d] : 1) + s->at[d];
      left /= n[d];
      if (x < 0 || x >= (int64_t)s->dims[d]) global = INT64_MIN;
      if (global >= 0)
        global += x * (int64_t)(d ? s->strides[d - 1] : s->bytes);
    }
    uint32_t address = start + s->dst + e * s->bytes;
    fn(arg, swizzled(address, s->swizzle) - start, global < 0 ? -1 : global,
       s->bytes);
  }
}

typedef struct expect_t {
  const shape_t *s;
  uint8_t shared[SHARED], *global;
  const char *how;
} expect_t;

static void expect_load(void *arg, uint32_t shared, int64_t global,
                        unsigned bytes) {
  expect_t *x = arg;
  for (unsigned k = 0; k < bytes; k++) {
    uint8_t v = global >= 0 ? x->global[global + k] : 0;
    if (global < 0 && x->s->fill) v = k == bytes - 1 ? 0x7F : 0xFF;
    x->shared[shared + k] = v;
  }
}

static void expect_store(void *arg, uint32_t shared, int64_t global,
                         unsigned bytes) {
  expect_t *x = arg;
  if (global < 0) return;
  if (strcmp(x->how, "store") == 0) {
    memcpy(x->global + global, x->shared + shared, bytes);
    return;
  }
  uint32_t a, b, r;
  memcpy(&a, x->global + global, 4);
  memcpy(&b, x->shared + shared, 4);
  if (x->s->type == RCUDA_TENSOR_F32) {
    float fa, fb;
    memcpy(&fa, &a, 4);
    memcpy(&fb, &b, 4);
    fa += fb;
    memcpy(&r, &fa, 4);
  } else {
    r = strcmp(x->how, "add") == 0   ? a + b
        : strcmp(x->how, "max") == 0 ? (a > b ? a : b)
                                     : (a ^ b);
  }
  memcpy(x->global + global, &r, 4);
}

static void one_shape(const shape_t *s, const char *how, const char *mode) {
  static expect_t x;
  static uint8_t before[GLOBAL], in[SHARED], out[SHARED], after[GLOBAL];
  static char text[16384];
  char report[4096];
  _Alignas(64) uint8_t map[128];
  uint64_t state = 77;
  assert_int_equal(lab.simgpu_configure(mode), 0);
  lab_renew(&lab);
  for (uint32_t k = 0; k < GLOBAL; k++)
    before[k] = (uint8_t)(lab_random(&state) >> 9);
  for (uint32_t k = 0; k < SHARED; k++)
    in[k] = (uint8_t)(lab_random(&state) >> 9);
  if (s->type == RCUDA_TENSOR_F32 && strcmp(how, "load") != 0) {
    /* ordinary numbers, so that sums are exact to compare */
    for (uint32_t k = 0; k < GLOBAL / 4; k++) {
      float f = (float)(k % 1000) * 0.5f;
      memcpy(before + 4 * k, &f, 4);
      if (4 * k < SHARED) memcpy(in + 4 * k, &f, 4);
    }
  }
  uint64_t pin = lab_copy_in(&lab, in, sizeof in);
  uint64_t pout = lab_alloc(&lab, SHARED);
  uint64_t tensor = lab_copy_in(&lab, before, sizeof before);
  assert_int_equal(encode(s, tensor, map), 0);
  kernel_text(text, sizeof text, s, how);
  rcuda_func_t *f = lab_func(&lab, lab_load(&lab, text), "k");
  void *params[] = {&pin, &pout, map};
  int code = lab_launch(&lab, f, 1, 64, 0, params);
  if (code || lab.report_count())
    fail_msg("%s, %s: %d %s\n%s", how, mode, code,
             lab_report(&lab, report, sizeof report), text);
  lab_copy_out(&lab, out, pout, SHARED);
  lab_copy_out(&lab, after, tensor, GLOBAL);
  memcpy(x.shared, in, SHARED);
  x.s = s;
  x.how = how;
  x.global = before;
  /* s starts at a multiple of 1024, where every figure starts too */
  elements(s, 0, strcmp(how, "load") == 0 ? expect_load : expect_store, &x);
  for (uint32_t k = 0; k < SHARED; k++)
    if (out[k] != x.shared[k])
      fail_msg("%s, %s: shared byte %u is %02x and must be %02x\n%s", how,
               mode, k, out[k], x.shared[k], text);
  for (uint32_t k = 0; k < GLOBAL; k++)
    if (after[k] != before[k])
      fail_msg("%s, %s: byte %u of the tensor is %02x and must be %02x\n%s",
               how, mode, k, after[k], before[k], text);
  lab.cuMemFree_v2(pin);
  lab.cuMemFree_v2(pout);
  lab.cuMemFree_v2(tensor);
}

static void boxes(void **state_) {
  (void)state_;
  static const char *const modes[] = {"async:late", "async:immediate",
                                      "async:random"};
  uint64_t state = 4711;
  for (int k = 0; k < 90; k++) {
    shape_t s;
    make_shape(&s, &state);
    one_shape(&s, k % 2 ? "store" : "load", modes[k % 3]);
  }
}

static void reductions(void **state_) {
  (void)state_;
  static const char *const how[] = {"add", "max", "xor"};
  uint64_t state = 99;
  for (int k = 0; k < 24;) {
    shape_t s;
    make_shape(&s, &state);
    bool is_float = s.type == RCUDA_TENSOR_F32;
    if (s.type != RCUDA_TENSOR_U32 && !is_float) continue;
    one_shape(&s, is_float ? "add" : how[k % 3],
              k % 2 ? "async:late" : "async:immediate");
    k++;
  }
}

/* Each argument of the driver's function at and beyond its limits. */
static void arguments(void **state) {
  (void)state;
  _Alignas(64) uint8_t map[192];
  shape_t good = {.type = RCUDA_TENSOR_BF16, .rank = 3, .swizzle = 3,
                  .bytes = 2, .dims = {64, 64, 4}, .strides = {128, 8192},
                  .box = {64, 64, 1}, .steps = {1, 1, 1}};
  uint64_t p = lab_alloc(&lab, GLOBAL);
  assert_int_equal(encode(&good, p, map), 0);
  assert_int_equal(encode(&good, p, map + 32), 1);
  assert_int_equal(encode(&good, p + 8, map), 1);
  assert_int_equal(encode(&good, 0, map), 1);
#define BAD(code, change)                                                     \
  do {                                                                        \
    shape_t s = good;                                                         \
    change;                                                                   \
    assert_int_equal(encode(&s, p, map), code);                               \
  } while (0)
  BAD(1, s.rank = 0);
  BAD(1, s.rank = 6);
  BAD(1, s.dims[1] = 0);
  BAD(0, s.dims[1] = UINT64_C(1) << 32);
  BAD(1, s.dims[1] = (UINT64_C(1) << 32) + 1);
  BAD(1, s.strides[0] = 136);
  BAD(0, s.strides[1] = (UINT64_C(1) << 40) - 16);
  BAD(1, s.strides[1] = UINT64_C(1) << 40);
  BAD(1, s.box[1] = 0);
  BAD(0, s.box[1] = 256);
  BAD(1, s.box[1] = 257);
  BAD(1, s.box[0] = 4);   /* 8 bytes */
  BAD(1, s.box[0] = 72);  /* wider than the swizzle */
  BAD(0, s.box[0] = 72; s.swizzle = 0);
  BAD(1, s.swizzle = 2);
  BAD(0, s.box[0] = 32; s.swizzle = 2);
  BAD(1, s.box[0] = 32; s.swizzle = 1);
  BAD(0, s.box[0] = 16; s.swizzle = 1);
  BAD(1, s.steps[2] = 0);
  BAD(0, s.steps[2] = 8);
  BAD(1, s.steps[2] = 9);
  BAD(0, s.fill = 1);
  BAD(1, s.fill = 2);
  BAD(1, s.fill = 1; s.type = RCUDA_TENSOR_U16);
  BAD(1, s.swizzle = 7);
  BAD(1, s.swizzle = -1);
  BAD(801, s.swizzle = 4); /* atoms that this device does not have */
  BAD(1, s.type = 13);
  BAD(801, s.type = RCUDA_TENSOR_TF32; s.box[0] = 32);
#undef BAD
  /* interleaving, promotion */
  unsigned box[] = {64, 64, 1}, steps[] = {1, 1, 1};
  struct {
    unsigned rank;
    int interleave, swizzle, promotion, code;
  } more[] = {{3, 0, 3, 3, 0},   {3, 0, 3, 4, 1},   {3, 0, 3, -1, 1},
              {3, 1, 0, 0, 801}, {3, 2, 1, 0, 801}, {3, 2, 0, 0, 1},
              {2, 1, 0, 0, 1},   {3, 3, 0, 0, 1}};
  for (size_t k = 0; k < sizeof more / sizeof *more; k++) {
    int code = lab.cuTensorMapEncodeTiled(
        (rcuda_tensor_map_t *)(void *)map, RCUDA_TENSOR_BF16, more[k].rank,
        (void *)(uintptr_t)p, good.dims, good.strides, box, steps,
        more[k].interleave, more[k].swizzle, more[k].promotion, 0);
    if (code != more[k].code) fail_msg("row %zu gives %d", k, code);
  }
  rcuda_tensor_map_t *object = (rcuda_tensor_map_t *)(void *)map;
  assert_int_equal(encode(&good, p, map), 0);
  assert_int_equal(lab.cuTensorMapReplaceAddress(object,
                                                 (void *)(uintptr_t)(p + 16)),
                   0);
  assert_int_equal(lab.cuTensorMapReplaceAddress(object,
                                                 (void *)(uintptr_t)(p + 8)),
                   1);
  map[20] ^= 1;
  assert_int_equal(lab.cuTensorMapReplaceAddress(object,
                                                 (void *)(uintptr_t)p),
                   1);
  lab.cuMemFree_v2(p);
}

/* -- misuse and pipelines -- */

#define INIT(at, count)                                                       \
  "@%t mbarrier.init.shared::cta.b64 [%r10+" at "], " count ";\n"
#define SYNC "bar.sync 0;\n"
#define MEET                                                                  \
  "barrier.cluster.arrive.release.aligned;\n"                                 \
  "barrier.cluster.wait.acquire.aligned;\n"
#define WAIT(at, parity)                                                      \
  "{ .reg .pred w; LW: mbarrier.try_wait.parity.shared::cta.b64 w, [" at      \
  "], " parity "; @!w bra LW; }\n"
#define EXPECT(bytes)                                                         \
  "@%t mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r10], " bytes ";\n"
#define LOAD2(dst, x, y, extra)                                               \
  "@%t cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::"             \
  "complete_tx::bytes" extra " [" dst "], [%d10, {" x ", " y "}], [%r10]"
#define MAP "cvta.param.u64 %d10, %d10; prefetch.tensormap [%d10];\n"
#define ZERO "mov.u32 %r20, 0; mov.u32 %r21, 0;\n"
/* thread t: word 2 of row t of 128 bytes, 128-byte swizzle, s at 1024 */
#define ROW                                                                   \
  "and.b32 %r6, %r1, 31; shl.b32 %r5, %r6, 7; and.b32 %r7, %r6, 7;\n"         \
  "shl.b32 %r7, %r7, 4; add.u32 %r5, %r5, %r7; add.u32 %r5, %r2, %r5;\n"
#define SHOW ROW "ld.shared.u32 %r8, [%r5+8]; st.global.u32 [%d5], %r8;\n"

/* in as rows of 32 words; box of 32 rows of 32 words */
static uint32_t row_word(const uint32_t *in, uint32_t i) {
  return in[i % 32 * 32 + 2];
}

/* 8 tiles of 32 rows; consumers of warps 1 and 2 add word 2 of their row. */
static uint32_t tiles(const uint32_t *in, uint32_t i) {
  uint32_t sum = 0;
  if (i < 32 || i >= 96) return 0xEEEEEEEE;
  for (uint32_t t = 0; t < 8; t++) sum += in[(t * 32 + i % 32) * 32 + 2];
  return sum;
}

/* Two CTAs, each loads half of every tile for both. */
static uint32_t halves(const uint32_t *in, uint32_t i) {
  return tiles(in, i % 96);
}

static uint32_t stored(const uint32_t *in, uint32_t i) {
  (void)in;
  return i < 32 * 32 && i % 32 == 2 ? i / 32 * 5 : i % 32 == 2 ? 0xEEEEEEEE
         : i < 32 * 32              ? i / 32 * 5
                                    : 0xEEEEEEEE;
}

static void map_of(lab_t *l, const async_case_t *c, uint64_t in,
                   uint64_t out, void *map) {
  shape_t s = {.type = RCUDA_TENSOR_U32, .rank = 2, .swizzle = 3, .bytes = 4,
               .dims = {32, 512}, .strides = {128}, .box = {32, 32},
               .steps = {1, 1}};
  (void)l;
  if (strstr(c->name, "half")) s.box[1] = 16;
  if (strstr(c->name, "liar")) s.dims[1] = 600;
  if (strstr(c->name, "store")) s.swizzle = 0;
  assert_int_equal(encode(&s, strstr(c->name, "store") ? out : in, map), 0);
}

/* Producer: thread 0 of warp 0; consumers: warps 1 and 2. Stages of 4 KiB,
   full at b, empty at b + 16. */
#define PIPE(init, before_put, bytes, load, consume)                          \
  MAP init                                                                    \
  "mov.u32 %r7, 0; mov.u32 %r9, 0; setp.lt.u32 %p, %r1, 32;\n" ROW            \
  "mov.u32 %r7, 0; mov.u32 %r20, 0; @!%p bra USE; @!%t bra END;\n"            \
  "PUT: and.b32 %r8, %r7, 1; shl.b32 %r11, %r8, 3;\n"                         \
  "add.u32 %r11, %r10, %r11; shl.b32 %r12, %r8, 12; shr.u32 %r13, %r7, 1;\n"  \
  "and.b32 %r13, %r13, 1; xor.b32 %r14, %r13, 1;\n" before_put                \
  "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r11], " bytes ";\n"         \
  "add.u32 %r15, %r2, %r12; shl.b32 %r21, %r7, 5;\n" load                     \
  "add.u32 %r7, %r7, 1; setp.lt.u32 %q, %r7, 8; @%q bra PUT; bra END;\n"      \
  "USE: and.b32 %r8, %r7, 1; shl.b32 %r11, %r8, 3;\n"                         \
  "add.u32 %r11, %r10, %r11; shl.b32 %r12, %r8, 12; shr.u32 %r13, %r7, 1;\n"  \
  "and.b32 %r13, %r13, 1;\n" consume                                          \
  "add.u32 %r7, %r7, 1; setp.lt.u32 %q, %r7, 8; @%q bra USE;\n"               \
  "st.global.u32 [%d5], %r9;\nEND: "
#define TAKE                                                                  \
  "add.u32 %r15, %r5, %r12; ld.shared.u32 %r16, [%r15+8];\n"                  \
  "add.u32 %r9, %r9, %r16;\n"
#define RELEASE "mbarrier.arrive.shared::cta.b64 _, [%r11+16];\n"
#define PIPE_INIT_WITH(meet)                                                  \
  INIT("0", "1") INIT("8", "1") INIT("16", "64") INIT("24", "64")             \
  "@%t fence.mbarrier_init.release.cluster;\n" meet
#define PIPE_INIT PIPE_INIT_WITH(SYNC)
#define PIPE_LOAD                                                             \
  "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::"    \
  "bytes.L2::cache_hint [%r15], [%d10, {%r20, %r21}], [%r11], %d9;\n"

static const async_case_t cases[] = {
    {"load", "async.early|race.shared", 32,
     ASYNC_HEAD MAP ZERO INIT("0", "1") SYNC EXPECT("4096")
     LOAD2("%r2", "%r20", "%r21", "") ";\n{{" WAIT("%r10", "0") "|}}" SHOW
     "ret; }",
     row_word, 32, 0},
    {"bytes of another tile", "mbar.tx", 32,
     ASYNC_HEAD MAP ZERO INIT("0", "1") SYNC EXPECT("{{4096|2048}}")
     LOAD2("%r2", "%r20", "%r21", "") ";\n" WAIT("%r10", "0") SHOW "ret; }",
     row_word, 32, 0},
    {"destination alignment", "mem.align", 32,
     ASYNC_HEAD MAP ZERO INIT("0", "1") SYNC EXPECT("4096")
     LOAD2("%r2+{{0|64}}", "%r20", "%r21", "") ";\n" WAIT("%r10", "0") SHOW
     "ret; }",
     row_word, 32, 0},
    {"destination bounds", "mem.bounds", 32,
     ASYNC_HEAD MAP ZERO INIT("0", "1") SYNC EXPECT("4096")
     LOAD2("%r2+{{0|29696}}", "%r20", "%r21", "") ";\n" WAIT("%r10", "0")
     "ret; }",
     NULL, 0, 0},
    {"other dimensions", "illegal", 32,
     ASYNC_HEAD MAP ZERO INIT("0", "1") SYNC EXPECT("4096")
     "{{" LOAD2("%r2", "%r20", "%r21", "") ";|"
     "@%t cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::"
     "complete_tx::bytes [%r2], [%d10, {%r20}], [%r10];}}\n"
     WAIT("%r10", "0") "ret; }",
     NULL, 0, 0},
    {"no tensor map", "illegal", 32,
     ASYNC_HEAD MAP ZERO INIT("0", "1") SYNC EXPECT("4096")
     "{{|add.s64 %d10, %d1, 0;}}\n"
     LOAD2("%r2", "%r20", "%r21", "") ";\n" WAIT("%r10", "0") "ret; }",
     NULL, 0, 0},
    {"liar", "mem.bounds", 32,
     ASYNC_HEAD MAP "mov.u32 %r20, 0; mov.u32 %r21, {{480|500}};\n"
     INIT("0", "1") SYNC EXPECT("4096") LOAD2("%r2", "%r20", "%r21", "") ";\n"
     WAIT("%r10", "0") "ret; }",
     NULL, 0, 0},
    {"onto ordinary data", "proxy.fence", 32,
     ASYNC_HEAD MAP ZERO INIT("0", "1") "st.shared.u32 [%r3], %r1;\n"
     "{{fence.proxy.async;|}}\n" SYNC EXPECT("4096")
     LOAD2("%r2", "%r20", "%r21", "") ";\n" WAIT("%r10", "0") SHOW "ret; }",
     row_word, 32, 0},
    /* a map in global memory that is changed before the copy is over */
    {"map overwritten", "async.source", 32,
     ASYNC_HEAD MAP ZERO INIT("0", "1")
     "ld.param.u64 %d7, [pm]; add.s64 %d9, %d2, 4096; and.b64 %d9, %d9, -64;\n"
     "shl.b32 %r4, %r1, 2; cvt.u64.u32 %d8, %r4; add.s64 %d7, %d10, %d8;\n"
     "ld.u32 %r6, [%d7]; add.s64 %d8, %d9, %d8; st.global.u32 [%d8], %r6;\n"
     "mov.u64 %d10, %d9; fence.proxy.async;\n" SYNC EXPECT("4096")
     LOAD2("%r2", "%r20", "%r21", "") ";\n"
     "{{" WAIT("%r10", "0") "|}} @%t st.global.u32 [%d9+16], %r1;\n"
     WAIT("%r10", "0") SHOW "ret; }",
     row_word, 32, 0},
    {"store", "proxy.fence", 32,
     ASYNC_HEAD MAP ZERO "mul.lo.u32 %r6, %r1, 5; shl.b32 %r5, %r1, 7;\n"
     "add.u32 %r5, %r2, %r5; mov.u32 %r7, 0;\n"
     "L: st.shared.v4.u32 [%r5], {%r6, %r6, %r6, %r6}; add.u32 %r5, %r5, 16;\n"
     "add.u32 %r7, %r7, 1; setp.lt.u32 %p, %r7, 8; @%p bra L;\n"
     "{{fence.proxy.async.shared::cta;|}}\n" SYNC
     "@%t cp.async.bulk.tensor.2d.global.shared::cta.bulk_group "
     "[%d10, {%r20, %r21}], [%r2]; @%t cp.async.bulk.commit_group;\n"
     "@%t cp.async.bulk.wait_group.read 0; ret; }",
     stored, 1100, 0},
    {"store, no wait", "async.exit", 32,
     ASYNC_HEAD MAP ZERO "mul.lo.u32 %r6, %r1, 5; shl.b32 %r5, %r1, 7;\n"
     "add.u32 %r5, %r2, %r5; mov.u32 %r7, 0;\n"
     "L: st.shared.v4.u32 [%r5], {%r6, %r6, %r6, %r6}; add.u32 %r5, %r5, 16;\n"
     "add.u32 %r7, %r7, 1; setp.lt.u32 %p, %r7, 8; @%p bra L;\n"
     "fence.proxy.async.shared::cta;\n" SYNC
     "@%t cp.async.bulk.tensor.2d.global.shared::cta.bulk_group "
     "[%d10, {%r20, %r21}], [%r2]; @%t cp.async.bulk.commit_group;\n"
     "{{@%t cp.async.bulk.wait_group.read 0;|}} ret; }",
     stored, 1100, 0},
    {"pipeline", "mbar.arrive|race.shared|async.early|mbar.phase", 96,
     ASYNC_HEAD "mov.u64 %d9, 0;\n"
     PIPE(PIPE_INIT, "{{" WAIT("%r11+16", "%r14") "|}}", "4096", PIPE_LOAD,
          WAIT("%r11", "%r13") TAKE RELEASE) "ret; }",
     tiles, 96, 0},
    {"pipeline, released too soon", "race.shared|async.early", 96,
     ASYNC_HEAD "mov.u64 %d9, 0;\n"
     PIPE(PIPE_INIT, WAIT("%r11+16", "%r14"), "4096", PIPE_LOAD,
          WAIT("%r11", "%r13") "{{|" RELEASE "}}" TAKE "{{" RELEASE "|}}")
     "ret; }",
     tiles, 96, 0},
    {"pipeline, consumers' parity",
     "race.shared|async.early|init.use|hang|mbar.phase", 96,
     ASYNC_HEAD "mov.u64 %d9, 0;\n"
     PIPE(PIPE_INIT, WAIT("%r11+16", "%r14"), "4096", PIPE_LOAD,
          "{{|xor.b32 %r13, %r13, 1;}}\n" WAIT("%r11", "%r13") TAKE RELEASE)
     "ret; }",
     tiles, 96, 0},
    {"pipeline, producer's parity", "hang", 96,
     ASYNC_HEAD "mov.u64 %d9, 0;\n"
     PIPE(PIPE_INIT, WAIT("%r11+16", "{{%r14|%r13}}"), "4096", PIPE_LOAD,
          WAIT("%r11", "%r13") TAKE RELEASE) "ret; }",
     tiles, 96, 0},
    {"pipeline, bytes", "mbar.tx", 96,
     ASYNC_HEAD "mov.u64 %d9, 0;\n"
     PIPE(PIPE_INIT, WAIT("%r11+16", "%r14"), "{{4096|4608}}", PIPE_LOAD,
          WAIT("%r11", "%r13") TAKE RELEASE) "ret; }",
     tiles, 96, 0},
    {"pipeline, one arrival too many", "mbar.arrive|mbar.phase|race.shared",
     96,
     ASYNC_HEAD "mov.u64 %d9, 0;\n"
     PIPE(PIPE_INIT, WAIT("%r11+16", "%r14"), "4096", PIPE_LOAD,
          WAIT("%r11", "%r13") TAKE "{{|" RELEASE "}}" RELEASE) "ret; }",
     tiles, 96, 0},
    {"pipeline, no barrier after init", "mbar.init", 96,
     ASYNC_HEAD "mov.u64 %d9, 0;\n"
     PIPE(PIPE_INIT_WITH("{{" SYNC "|}}"), WAIT("%r11+16", "%r14"), "4096",
          PIPE_LOAD, WAIT("%r11", "%r13") TAKE RELEASE) "ret; }",
     tiles, 96, 0},
    /* each CTA of two loads one half of a tile for both: empties count the
       consumers of both */
    {"half tiles for two", "cluster.exit|hang|mbar.arrive|race.shared|"
     "async.early|mbar.phase",
     96,
     ASYNC_HEAD MAP "mov.u64 %d9, 0; mov.u32 %r24, %cluster_ctarank;\n"
     "mul.wide.u32 %d8, %r24, 384; add.s64 %d5, %d5, %d8;\n"
     "xor.b32 %r25, %r24, 1; mapa.shared::cluster.u32 %r26, %r10, %r25;\n"
     "mov.u16 %h, 3; shl.b32 %r27, %r24, 4; shl.b32 %r28, %r24, 11;\n"
     INIT("0", "1") INIT("8", "1") INIT("16", "128") INIT("24", "128")
     "@%t fence.mbarrier_init.release.cluster;\n" MEET
     "mov.u32 %r9, 0; setp.lt.u32 %p, %r1, 32;\n" ROW
     "mov.u32 %r7, 0; mov.u32 %r20, 0; @!%p bra USE; @!%t bra END;\n"
     "PUT: and.b32 %r8, %r7, 1; shl.b32 %r11, %r8, 3;\n"
     "add.u32 %r11, %r10, %r11; shl.b32 %r12, %r8, 12; shr.u32 %r13, %r7, 1;\n"
     "and.b32 %r13, %r13, 1; xor.b32 %r14, %r13, 1;\n"
     WAIT("%r11+16", "%r14")
     "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r11], 4096;\n"
     "add.u32 %r15, %r2, %r12; add.u32 %r15, %r15, %r28;\n"
     "shl.b32 %r21, %r7, 5; add.u32 %r21, %r21, %r27;\n"
     "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::"
     "bytes.multicast::cluster [%r15], [%d10, {%r20, %r21}], [%r11], %h;\n"
     "add.u32 %r7, %r7, 1; setp.lt.u32 %q, %r7, 8; @%q bra PUT; bra END;\n"
     "USE: and.b32 %r8, %r7, 1; shl.b32 %r11, %r8, 3;\n"
     "add.u32 %r29, %r26, %r11; add.u32 %r11, %r10, %r11;\n"
     "shl.b32 %r12, %r8, 12; shr.u32 %r13, %r7, 1; and.b32 %r13, %r13, 1;\n"
     WAIT("%r11", "%r13") TAKE RELEASE
     "{{mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r29+16];|"
     RELEASE "}}\n"
     "add.u32 %r7, %r7, 1; setp.lt.u32 %q, %r7, 8; @%q bra USE;\n"
     "st.global.u32 [%d5], %r9;\nEND: " MEET "ret; }",
     halves, 192, 2},
};

static void misuse(void **state) {
  (void)state;
  async_run(&lab, cases, sizeof cases / sizeof *cases, map_of);
}

/* In-bounds bytes, and sectors row by row. */
static void counted(void **state) {
  (void)state;
  async_run_one(&lab, &cases[0], false, "async:late,order:rr", map_of);
  assert_int_equal(lab_counter(&lab, "async.bytes"), 4096);
  assert_int_equal(lab_counter(&lab, "global.bytes_read"), 4096);
  /* 32 rows of 4 sectors, 128 bytes of results */
  assert_int_equal(lab_counter(&lab, "global.sectors"), 128 + 4);
}

static int setup(void **state) {
  (void)state;
  lab_open(&lab, "model:h100,budget:3000000");
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(boxes), cmocka_unit_test(reductions),
      cmocka_unit_test(arguments), cmocka_unit_test(misuse),
      cmocka_unit_test(counted)};
  return cmocka_run_group_tests_name("simgpu.tensor", tests, setup, NULL);
}
