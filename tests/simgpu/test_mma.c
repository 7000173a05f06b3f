/* mma.sync in every form: where each element lies, by one-hot probes against
   the ISA manual's figures, and what is computed, against sums on the
   host. */
#include "matrix_lab.h"

static lab_t lab;

/* -- the figures, as the manual words them -- */
#define FRAGMENT(name, r, c)                                                  \
  static coord_t name(unsigned g, unsigned q, unsigned i) {                   \
    return (coord_t){(r), (c)};                                               \
  }
/* 16-bit */
FRAGMENT(a_k8_16, i < 2 ? g : g + 8, q * 2 + (i & 1))
FRAGMENT(b_k8_16, q * 2 + (i & 1), g + 0 * i)
FRAGMENT(a_k16_16, i < 2 || (i >= 4 && i < 6) ? g : g + 8,
         i < 4 ? q * 2 + (i & 1) : q * 2 + (i & 1) + 8)
FRAGMENT(b_k16_16, i < 2 ? q * 2 + (i & 1) : q * 2 + (i & 1) + 8, g)
FRAGMENT(c_m16n8, i < 2 ? g : g + 8, q * 2 + (i & 1))
/* tf32 */
FRAGMENT(a_k4_32, i == 0 ? g : g + 8, q)
FRAGMENT(b_k4_32, q, g + 0 * i)
FRAGMENT(a_k8_32, i == 0 || i == 2 ? g : g + 8, i < 2 ? q : q + 4)
FRAGMENT(b_k8_32, i == 0 ? q : q + 4, g)
/* 8-bit */
FRAGMENT(a_m8k16_8, g, q * 4 + i)
FRAGMENT(b_k16_8, q * 4 + i, g)
FRAGMENT(c_m8n8, g, q * 2 + i)
FRAGMENT(a_k16_8, i < 4 ? g : g + 8, q * 4 + (i & 3))
FRAGMENT(a_k32_8, i < 4 || (i >= 8 && i < 12) ? g : g + 8,
         i < 8 ? q * 4 + (i & 3) : q * 4 + (i & 3) + 16)
FRAGMENT(b_k32_8, i < 4 ? q * 4 + (i & 3) : q * 4 + (i & 3) + 16, g)
/* 4-bit */
FRAGMENT(a_m8k32_4, g, q * 8 + i)
FRAGMENT(b_k32_4, q * 8 + i, g)
FRAGMENT(a_k32_4, i < 8 ? g : g + 8, q * 8 + (i & 7))
FRAGMENT(a_k64_4, i < 8 || (i >= 16 && i < 24) ? g : g + 8,
         i < 16 ? q * 8 + (i & 7) : q * 8 + (i & 7) + 32)
FRAGMENT(b_k64_4, i < 8 ? q * 8 + (i & 7) : q * 8 + (i & 7) + 32, g)
/* 1-bit */
FRAGMENT(a_m8k128_1, g, q * 32 + i)
FRAGMENT(b_k128_1, q * 32 + i, g)
FRAGMENT(a_k128_1, i < 32 ? g : g + 8, q * 32 + (i & 31))
FRAGMENT(a_k256_1, i < 32 || (i >= 64 && i < 96) ? g : g + 8,
         i < 64 ? q * 32 + (i & 31) : q * 32 + (i & 31) + 128)
FRAGMENT(b_k256_1, i < 32 ? q * 32 + (i & 31) : q * 32 + (i & 31) + 128, g)
/* f64 */
FRAGMENT(a_m8k4_64, g, q + 0 * i)
FRAGMENT(b_k4_64, q, g + 0 * i)
FRAGMENT(a_k4_64, i == 0 ? g : g + 8, q)
FRAGMENT(a_k8_64, i == 0 || i == 2 ? g : g + 8, i < 2 ? q : q + 4)
FRAGMENT(b_k8_64, i == 0 ? q : q + 4, g)
FRAGMENT(a_k16_64, i % 2 == 0 ? g : g + 8, i / 2 * 4 + q)
FRAGMENT(b_k16_64, i * 4 + q, g)

static const form_t forms[] = {
    {"m16n8k8.row.col.f32.f16.f16.f32", "sm_75", 16, 8, 8, E_F16, E_F16,
     E_F32, a_k8_16, b_k8_16, c_m16n8, 0},
    {"m16n8k8.row.col.f16.f16.f16.f16", "sm_75", 16, 8, 8, E_F16, E_F16,
     E_F16, a_k8_16, b_k8_16, c_m16n8, 0},
    {"m16n8k16.row.col.f32.f16.f16.f32", "sm_80", 16, 8, 16, E_F16, E_F16,
     E_F32, a_k16_16, b_k16_16, c_m16n8, 0},
    {"m16n8k16.row.col.f16.f16.f16.f16", "sm_80", 16, 8, 16, E_F16, E_F16,
     E_F16, a_k16_16, b_k16_16, c_m16n8, 0},
    {"m16n8k8.row.col.f32.bf16.bf16.f32", "sm_80", 16, 8, 8, E_BF16, E_BF16,
     E_F32, a_k8_16, b_k8_16, c_m16n8, 0},
    {"m16n8k16.row.col.f32.bf16.bf16.f32", "sm_80", 16, 8, 16, E_BF16,
     E_BF16, E_F32, a_k16_16, b_k16_16, c_m16n8, 0},
    {"m16n8k4.row.col.f32.tf32.tf32.f32", "sm_80", 16, 8, 4, E_TF32, E_TF32,
     E_F32, a_k4_32, b_k4_32, c_m16n8, 0},
    {"m16n8k8.row.col.f32.tf32.tf32.f32", "sm_80", 16, 8, 8, E_TF32, E_TF32,
     E_F32, a_k8_32, b_k8_32, c_m16n8, 0},
    {"m16n8k16.row.col.f32.e4m3.e5m2.f32", "sm_89", 16, 8, 16, E_E4M3,
     E_E5M2, E_F32, a_k16_8, b_k16_8, c_m16n8, 0},
    {"m16n8k32.row.col.f32.e4m3.e4m3.f32", "sm_89", 16, 8, 32, E_E4M3,
     E_E4M3, E_F32, a_k32_8, b_k32_8, c_m16n8, 0},
    {"m16n8k32.row.col.f32.e5m2.e4m3.f32", "sm_89", 16, 8, 32, E_E5M2,
     E_E4M3, E_F32, a_k32_8, b_k32_8, c_m16n8, 0},
    {"m16n8k32.row.col.f16.e4m3.e5m2.f16", "sm_89", 16, 8, 32, E_E4M3,
     E_E5M2, E_F16, a_k32_8, b_k32_8, c_m16n8, 0},
    {"m16n8k16.row.col.f16.e5m2.e5m2.f16", "sm_89", 16, 8, 16, E_E5M2,
     E_E5M2, E_F16, a_k16_8, b_k16_8, c_m16n8, 0},
    {"m8n8k4.row.col.f64.f64.f64.f64", "sm_80", 8, 8, 4, E_F64, E_F64, E_F64,
     a_m8k4_64, b_k4_64, c_m8n8, 0},
    {"m16n8k4.row.col.f64.f64.f64.f64", "sm_90", 16, 8, 4, E_F64, E_F64,
     E_F64, a_k4_64, b_k4_64, c_m16n8, 0},
    {"m16n8k8.row.col.f64.f64.f64.f64", "sm_90", 16, 8, 8, E_F64, E_F64,
     E_F64, a_k8_64, b_k8_64, c_m16n8, 0},
    {"m16n8k16.row.col.f64.f64.f64.f64", "sm_90", 16, 8, 16, E_F64, E_F64,
     E_F64, a_k16_64, b_k16_64, c_m16n8, 0},
    {"m8n8k16.row.col.s32.s8.u8.s32", "sm_75", 8, 8, 16, E_S8, E_U8, E_S32,
     a_m8k16_8, b_k16_8, c_m8n8, 0},
    {"m16n8k16.row.col.s32.u8.s8.s32", "sm_80", 16, 8, 16, E_U8, E_S8, E_S32,
     a_k16_8, b_k16_8, c_m16n8, 0},
    {"m16n8k32.row.col.s32.s8.s8.s32", "sm_80", 16, 8, 32, E_S8, E_S8, E_S32,
     a_k32_8, b_k32_8, c_m16n8, 0},
    {"m16n8k32.row.col.satfinite.s32.u8.u8.s32", "sm_80", 16, 8, 32, E_U8,
     E_U8, E_S32, a_k32_8, b_k32_8, c_m16n8, 0},
    {"m8n8k32.row.col.s32.s4.u4.s32", "sm_75", 8, 8, 32, E_S4, E_U4, E_S32,
     a_m8k32_4, b_k32_4, c_m8n8, 0},
    {"m16n8k32.row.col.s32.s4.s4.s32", "sm_80", 16, 8, 32, E_S4, E_S4, E_S32,
     a_k32_4, b_k32_4, c_m16n8, 0},
    {"m16n8k64.row.col.s32.u4.s4.s32", "sm_80", 16, 8, 64, E_U4, E_S4, E_S32,
     a_k64_4, b_k64_4, c_m16n8, 0},
    {"m8n8k128.row.col.s32.b1.b1.s32.and.popc", "sm_80", 8, 8, 128, E_B1,
     E_B1, E_S32, a_m8k128_1, b_k128_1, c_m8n8, '&'},
    {"m8n8k128.row.col.s32.b1.b1.s32.xor.popc", "sm_75", 8, 8, 128, E_B1,
     E_B1, E_S32, a_m8k128_1, b_k128_1, c_m8n8, '^'},
    {"m16n8k128.row.col.s32.b1.b1.s32.and.popc", "sm_80", 16, 8, 128, E_B1,
     E_B1, E_S32, a_k128_1, b_k128_1, c_m16n8, '&'},
    {"m16n8k256.row.col.s32.b1.b1.s32.and.popc", "sm_80", 16, 8, 256, E_B1,
     E_B1, E_S32, a_k256_1, b_k256_1, c_m16n8, '&'},
    {"m16n8k256.row.col.s32.b1.b1.s32.xor.popc", "sm_80", 16, 8, 256, E_B1,
     E_B1, E_S32, a_k256_1, b_k256_1, c_m16n8, '^'}};
#define FORMS (sizeof forms / sizeof *forms)

typedef struct layout_t {
  unsigned na, nb, nc, word, a, b, c, in, out; /* registers, bytes */
} layout_t;

static layout_t layout_of(const form_t *f) {
  layout_t l = {.na = reg_count(f->a, f->m, f->k),
                .nb = reg_count(f->b, f->k, f->n),
                .nc = reg_count(f->c, f->m, f->n),
                .word = f->a == E_F64 ? 256 : 128};
  l.b = l.na * l.word;
  l.c = l.b + l.nb * l.word;
  l.out = l.nc * l.word;
  l.in = l.c + l.out;
  return l;
}

static void kernel_text(const form_t *f, char *out, size_t bytes) {
  text_t t = {out, 0, bytes};
  layout_t l = layout_of(f);
  bool wide = f->a == E_F64;
  const char *reg = wide ? "%d" : "%r";
  say_head(&t, f->target, l.in, l.out, "");
  say_load(&t, wide, 0, l.na, l.a);
  say_load(&t, wide, 16, l.nb, l.b);
  say_load(&t, wide, 32, l.nc, l.c);
  say(&t, "mma.sync.aligned.%s ", f->name);
  say_vector(&t, reg, 48, l.nc);
  say(&t, ", ");
  say_vector(&t, reg, 0, l.na);
  say(&t, ", ");
  say_vector(&t, reg, 16, l.nb);
  say(&t, ", ");
  say_vector(&t, reg, 32, l.nc);
  say(&t, ";\n");
  say_store(&t, wide, 48, l.nc);
  say(&t, "ret; }\n");
}

static void launch(const form_t *f, const uint8_t *in, uint8_t *out,
                   unsigned warps) {
  char text[8192], report[2048];
  layout_t l = layout_of(f);
  kernel_text(f, text, sizeof text);
  int code = matrix_launch(&lab, text, in, l.in, out, l.out, warps);
  if (code)
    fail_msg("%s: result %d %s", f->name, code,
             lab_report(&lab, report, sizeof report));
}

/* What tells k apart on one plane: ones, then its digits. */
static double digit(const form_t *f, unsigned k, unsigned plane) {
  unsigned bits = f->a == E_B1 ? 1 : 3;
  if (plane == 0) return 1;
  return (double)(k >> ((plane - 1) * bits) & ((1u << bits) - 1));
}

static void probe(const form_t *f) {
  layout_t l = layout_of(f);
  unsigned bits = f->a == E_B1 ? 1 : 3, planes = 1;
  for (unsigned k = f->k - 1; k; k >>= bits) planes++;
  unsigned ea = element_count(f->m, f->k), eb = element_count(f->k, f->n);
  unsigned ec = element_count(f->m, f->n);
  unsigned warps = 32 * ((ea + eb) * planes + ec);
  uint8_t *in = calloc(warps, l.in), *out = calloc(warps, l.out);
  static double a[16 * 256], b[256 * 8], d[16 * 8];
  assert_non_null(in);
  assert_non_null(out);
  unsigned w = 0;
  for (unsigned lane = 0; lane < 32; lane++) {
    for (unsigned i = 0; i < (ea + eb) * planes; i++, w++) {
      uint8_t *at = in + (size_t)w * l.in;
      unsigned plane = i % planes, e = i / planes;
      for (unsigned k = 0; k < f->k; k++) {
        for (unsigned r = 0; r < f->m; r++)
          a[r * f->k + k] = digit(f, k, plane);
        for (unsigned c = 0; c < f->n; c++)
          b[k * f->n + c] = digit(f, k, plane);
      }
      if (e < ea) {
        put_matrix(at + l.b, f->b, f->fb, f->k, f->n, b);
        put_element(at + l.a, f->a, lane, e, encode(f->a, 1));
      } else {
        put_matrix(at + l.a, f->a, f->fa, f->m, f->k, a);
        put_element(at + l.b, f->b, lane, e - ea, encode(f->b, 1));
      }
    }
    for (unsigned i = 0; i < ec; i++, w++)
      put_element(in + (size_t)w * l.in + l.c, f->c, lane, i,
                  encode(f->c, 1));
  }
  launch(f, in, out, warps);
  w = 0;
  for (unsigned lane = 0; lane < 32; lane++) {
    for (unsigned i = 0; i < (ea + eb) * planes + ec; i++, w++) {
      get_matrix(out + (size_t)w * l.out, f->c, f->fc, f->m, f->n, d);
      unsigned plane = i % planes, e = i / planes;
      coord_t at = {0, 0};
      bool is_a = e < ea, is_c = i >= (ea + eb) * planes;
      if (is_c) at = f->fc(lane / 4, lane % 4, i - (ea + eb) * planes);
      else if (is_a) at = f->fa(lane / 4, lane % 4, e);
      else at = f->fb(lane / 4, lane % 4, e - ea);
      for (unsigned r = 0; r < f->m; r++)
        for (unsigned c = 0; c < f->n; c++) {
          double want = 0;
          if (is_c)
            want = r == at.row && c == at.col;
          else if (is_a && r == at.row)
            want = digit(f, at.col, plane);
          else if (!is_a && c == at.col)
            want = digit(f, at.row, plane);
          if (f->op == '^' && !is_c) {
            /* all bits of the other operand count, less those in common */
            double all = 0;
            for (unsigned k = 0; k < f->k; k++) all += digit(f, k, plane);
            bool on = is_a ? r == at.row : c == at.col;
            double own = digit(f, is_a ? at.col : at.row, plane);
            want = on ? (own != 0 ? all - 1 : all + 1) : all;
          }
          double got = d[r * f->n + c];
          if (!(got == want))
            fail_msg("%s: lane %u element %u of %c: D[%u][%u] is %g, not %g",
                     f->name, lane, e, is_c ? 'C' : is_a ? 'A' : 'B', r, c,
                     got, want);
        }
    }
  }
  free(in);
  free(out);
}

static void probes(void **state) {
  (void)state;
  for (size_t n = 0; n < FORMS; n++) probe(&forms[n]);
}

/* -- random values against sums on the host -- */

static double random_value(uint64_t *state, element_t e, unsigned trial) {
  uint64_t r = lab_random(state);
  unsigned bits = element_bits(e);
  if (e == E_S32) return decode(e, trial % 4 ? r & 0xFFFFF : r & 0xFFFFFFFF);
  if (bits < 16 && e != E_E4M3 && e != E_E5M2)
    return decode(e, r & ((1u << bits) - 1));
  if (e == E_E4M3 || e == E_E5M2) {
    double v = decode(e, r & 0xFF);
    return v == v && fabs(v) < 1e9 ? v : 1;
  }
  /* few different exponents, or many, or subnormal ones */
  unsigned spread = trial % 3 == 0 ? 2 : trial % 3 == 1 ? 12 : 20;
  int low = e == E_F16 && trial % 3 == 2 ? -24 : -(int)spread / 2;
  double s = ldexp((double)(r >> 40 & ((UINT64_C(1) << fraction_bits(e)) - 1)),
                   -(int)fraction_bits(e)) + 1;
  double v = ldexp(s, low + (int)(r % spread));
  if (e == E_F16) /* what the type holds */
    v = ldexp(floor(ldexp(v, 24)), -24);
  if (e == E_F16 && fabs(v) > 1024) v = 1024;
  return r >> 63 ? -v : v;
}

/* Distance of neighbours of v in the type. */
static double spacing(element_t e, double v) {
  int x;
  frexp(v, &x);
  int emin = 2 - (1 << (exponent_bits(e) - 1));
  x--;
  if (x < emin || v == 0) x = emin;
  return ldexp(1, x - (int)fraction_bits(e));
}

static void random_one(const form_t *f, uint64_t *state) {
  enum { TRIALS = 64 };
  layout_t l = layout_of(f);
  static double a[TRIALS][16 * 256], b[TRIALS][256 * 8], c[TRIALS][128];
  static double d[128];
  uint8_t *in = calloc(TRIALS, l.in), *out = calloc(TRIALS, l.out);
  assert_non_null(in);
  assert_non_null(out);
  for (unsigned t = 0; t < TRIALS; t++) {
    uint8_t *at = in + (size_t)t * l.in;
    for (unsigned n = 0; n < f->m * f->k; n++)
      a[t][n] = random_value(state, f->a, t);
    for (unsigned n = 0; n < f->k * f->n; n++)
      b[t][n] = random_value(state, f->b, t);
    for (unsigned n = 0; n < f->m * f->n; n++)
      c[t][n] = random_value(state, f->c, t);
    put_matrix(at + l.a, f->a, f->fa, f->m, f->k, a[t]);
    put_matrix(at + l.b, f->b, f->fb, f->k, f->n, b[t]);
    put_matrix(at + l.c, f->c, f->fc, f->m, f->n, c[t]);
  }
  launch(f, in, out, TRIALS);
  bool is_float = f->c == E_F32 || f->c == E_F16 || f->c == E_F64;
  for (unsigned t = 0; t < TRIALS; t++) {
    get_matrix(out + (size_t)t * l.out, f->c, f->fc, f->m, f->n, d);
    for (unsigned r = 0; r < f->m; r++)
      for (unsigned n = 0; n < f->n; n++) {
        long double sum = (long double)c[t][r * f->n + n], size = fabsl(sum);
        for (unsigned k = 0; k < f->k; k++) {
          double x = a[t][r * f->k + k], y = b[t][k * f->n + n];
          long double p = f->op == '&'   ? (x != 0 && y != 0)
                          : f->op == '^' ? x != y
                                         : (long double)x * (long double)y;
          sum += p;
          size += fabsl(p);
        }
        double got = d[r * f->n + n], bound = 0;
        if (is_float) {
          bound = spacing(f->c, (double)sum) / 2 +
                  (double)size * ldexp(1, -48);
        } else if (strstr(f->name, "satfinite")) {
          if (sum > 2147483647.0L) sum = 2147483647.0L;
          if (sum < -2147483648.0L) sum = -2147483648.0L;
        } else {
          sum = (long double)(int32_t)(uint32_t)(int64_t)sum;
        }
        if (f->c == E_F16 && fabsl(sum) > 65519) continue;
        if (!(fabs(got - (double)sum) <= bound))
          fail_msg("%s: trial %u D[%u][%u] is %.17g, not %.17g", f->name, t,
                   r, n, got, (double)sum);
      }
  }
  free(in);
  free(out);
}

static void random_values(void **state) {
  (void)state;
  uint64_t seed = 77;
  for (size_t n = 0; n < FORMS; n++) random_one(&forms[n], &seed);
}

/* -- special values -- */

static void special_values(void **state) {
  (void)state;
  const form_t *f = &forms[5]; /* bf16 */
  layout_t l = layout_of(f);
  static double a[256], b[128], c[128], d[128];
  uint8_t in[4096] = {0}, out[4096];
  assert_string_equal(f->name, "m16n8k16.row.col.f32.bf16.bf16.f32");
  for (unsigned n = 0; n < 256; n++) a[n] = 0;
  for (unsigned n = 0; n < 128; n++) b[n] = 1, c[n] = 0.5;
  put_matrix(in + l.a, f->a, f->fa, 16, 16, a);
  put_matrix(in + l.b, f->b, f->fb, 16, 8, b);
  put_matrix(in + l.c, f->c, f->fc, 16, 8, c);
  /* lane 4g holds row g, k 0 and 1 in its first register */
  put_element(in, f->a, 4 * 1, 0, 0x7F80); /* row 1: infinity */
  put_element(in, f->a, 4 * 2, 0, 0x7F80); /* row 2: both infinities */
  put_element(in, f->a, 4 * 2, 1, 0xFF80);
  put_element(in, f->a, 4 * 3, 0, 0x7FC1); /* row 3: NaN */
  put_element(in, f->a, 4 * 4, 0, 0x7F80); /* row 4: infinity times 0 */
  for (unsigned lane = 0; lane < 4; lane++)
    put_element(in + l.b, f->b, lane, 0, lane ? 0x3F80 : 0);
  launch(f, in, out, 1);
  get_matrix(out, f->c, f->fc, 16, 8, d);
  assert_true(d[0] == 0.5 && isinf(d[1 * 8 + 1]) && d[9] > 0);
  assert_true(isnan(d[1 * 8]) && isnan(d[4 * 8])); /* inf times zero */
  assert_true(isnan(d[2 * 8 + 1]) && isnan(d[3 * 8 + 1]));
  assert_int_equal(get_element(out, E_F32, 4 * 3, 0), 0x7FFFFFFF);
}

/* D may be any registers: C's in another order, or those of A. */
static void shared_registers(void **state) {
  (void)state;
  const form_t *f = &forms[5];
  layout_t l = layout_of(f);
  static uint8_t in[4096], out[1024], first[1024];
  static const char *const dests[] = {"{%r48,%r49,%r50,%r51}",
                                      "{%r34,%r35,%r32,%r33}",
                                      "{%r33,%r32,%r35,%r34}",
                                      "{%r0,%r16,%r3,%r17}"};
  static const unsigned order[][4] = {{48, 49, 50, 51}, {34, 35, 32, 33},
                                      {33, 32, 35, 34}, {0, 16, 3, 17}};
  uint64_t seed = 4;
  for (unsigned n = 0; n < l.in; n += 2) { /* finite as bf16 and as f32 */
    uint16_t h = (uint16_t)(0x3E80 + (lab_random(&seed) & 0x81FF));
    memcpy(in + n, &h, 2);
  }
  for (unsigned n = 0; n < 4; n++) {
    char text[8192], report[2048];
    text_t t = {text, 0, sizeof text};
    say_head(&t, f->target, l.in, l.out, "");
    say_load(&t, false, 0, l.na, l.a);
    say_load(&t, false, 16, l.nb, l.b);
    say_load(&t, false, 32, l.nc, l.c);
    say(&t, "mma.sync.aligned.%s %s, {%%r0,%%r1,%%r2,%%r3}, {%%r16,%%r17}, "
            "{%%r32,%%r33,%%r34,%%r35};\n", f->name, dests[n]);
    for (unsigned k = 0; k < 4; k++)
      say(&t, "st.global.b32 [%%out+%u], %%r%u;\n", 128 * k, order[n][k]);
    say(&t, "ret; }\n");
    int code = matrix_launch(&lab, text, in, l.in, n ? out : first, l.out, 1);
    if (code)
      fail_msg("%d %s", code, lab_report(&lab, report, sizeof report));
    if (n) assert_memory_equal(first, out, l.out);
  }
}

/* 2 M N K a warp, as a whole and by the type of A. */
static void counts(void **state) {
  (void)state;
  static const char *const names[] = {
      [E_F16] = "f16", [E_BF16] = "bf16", [E_TF32] = "tf32",
      [E_E4M3] = "f8", [E_E5M2] = "f8",   [E_F64] = "f64",
      [E_S8] = "i8",   [E_U8] = "i8",     [E_S4] = "i4",
      [E_U4] = "i4",   [E_B1] = "b1"};
  static uint8_t in[8 * 8192], out[8 * 8192];
  for (size_t n = 0; n < FORMS; n++) {
    const form_t *f = &forms[n];
    char name[32];
    launch(f, in, out, 8);
    assert_true(layout_of(f).in <= 8192);
    snprintf(name, sizeof name, "tensor_flop.%s", names[f->a]);
    uint64_t want = 8ull * 2 * f->m * f->n * f->k;
    assert_int_equal(lab_counter(&lab, "tensor_flop"), want);
    assert_int_equal(lab_counter(&lab, name), want);
    assert_int_equal(lab_counter(&lab, "tensor"), 8); /* of the mix */
  }
}

/* Forms that do not exist are refused with their name. */
static void refusals(void **state) {
  (void)state;
  static const struct {
    const char *ins, *say;
  } bad[] = {
      {"mma.sync.aligned.m16n8k16.row.col.f32.f16.bf16.f32 {%r0,%r1,%r2,%r3},"
       "{%r0,%r1,%r2,%r3},{%r4,%r5},{%r0,%r1,%r2,%r3};",
       "not known"},
      {"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r0,%r1,%r2,%r3},"
       "{%r0,%r1,%r2},{%r4,%r5},{%r0,%r1,%r2,%r3};",
       "vector of 4"},
      {"mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%r0,%r1,%r2,"
       "%r3},{%r0,%r1,%r2,%r3},{%r4,%r5,%r6,%r7},{%r0,%r1,%r2,%r3},%r8,0;",
       "not known"},
      {"mma.sync.aligned.m8n8k4.row.col.f16.f16.f16.f16 {%r0,%r1,%r2,%r3},"
       "{%r0,%r1},{%r4,%r5},{%r0,%r1,%r2,%r3};",
       "not known"},
      {"wmma.load.a.sync.aligned.row.m16n16k16.f16 {%r0}, [%q0];",
       "not known"},
      {"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r0,%r1}, [%r2];",
       "vector of 4"},
      {"ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r0,%r1}, [%r2];",
       "not known"}};
  for (size_t n = 0; n < sizeof bad / sizeof *bad; n++) {
    char text[4096], log[1024];
    text_t t = {text, 0, sizeof text};
    say_head(&t, "sm_90", 128, 128, "");
    say(&t, "%s ret; }\n", bad[n].ins);
    rcuda_module_t *m = NULL;
    rcuda_func_t *func = NULL;
    int code = lab_refused(&lab, text, log, sizeof log);
    if (!code) { /* decoded when it is looked up */
      m = lab_load(&lab, text);
      code = lab.cuModuleGetFunction(&func, m, "k");
      lab.cuModuleUnload(m);
    } else if (!strstr(log, bad[n].say)) {
      fail_msg("%s: '%s' does not say '%s'", bad[n].ins, log, bad[n].say);
    }
    if (!code) fail_msg("%s is accepted", bad[n].ins);
  }
}

static int setup(void **state) {
  (void)state;
  lab_open(&lab, "model:h100");
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(probes),         cmocka_unit_test(random_values),
      cmocka_unit_test(special_values), cmocka_unit_test(counts),
      cmocka_unit_test(shared_registers),
      cmocka_unit_test(refusals)};
  return cmocka_run_group_tests_name("simgpu.mma", tests, setup, NULL);
}
