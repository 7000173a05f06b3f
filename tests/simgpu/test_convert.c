/* Conversions between floating-point formats, exhaustively: every code of 16
   and 8 bits widened, and f32 narrowed at every representable value, every
   midpoint between two and both neighbours of each. The judge looks the
   nearest value up in a table of all values of the format, which it builds
   from the format's definition; it shares nothing with the simulator. */
#include "sim_lab.h"

static lab_t lab;

typedef struct format_t {
  const char *name;
  int exponent_bits, fraction_bits, bias;
  bool has_infinity; /* otherwise only the all-ones code is NaN */
} format_t;

static const format_t f16 = {"f16", 5, 10, 15, true};
static const format_t bf16 = {"bf16", 8, 7, 127, true};
static const format_t e4m3 = {"e4m3", 4, 3, 7, false};
static const format_t e5m2 = {"e5m2", 5, 2, 15, true};
static const format_t tf32 = {"tf32", 8, 10, 127, true};

static int bits_of(const format_t *f) {
  return 1 + f->exponent_bits + f->fraction_bits;
}

/* The value of a code, NaN included, from the definition. */
static double value_of(const format_t *f, uint32_t code) {
  uint32_t sign = code >> (bits_of(f) - 1) & 1;
  uint32_t field = code >> f->fraction_bits &
                   ((1u << f->exponent_bits) - 1);
  uint32_t fraction = code & ((1u << f->fraction_bits) - 1);
  uint32_t top = (1u << f->exponent_bits) - 1;
  double v;
  if (f->has_infinity && field == top)
    v = fraction ? (double)NAN : (double)INFINITY;
  else if (!f->has_infinity && field == top &&
           fraction == (1u << f->fraction_bits) - 1)
    v = (double)NAN;
  else if (field == 0)
    v = ldexp((double)fraction, 1 - f->bias - f->fraction_bits);
  else
    v = ldexp((double)(fraction | 1u << f->fraction_bits),
              (int)field - f->bias - f->fraction_bits);
  return sign ? -v : v;
}

/* Codes of finite values from 0 upwards are in order of value; this is how
   many there are. */
static uint32_t finite_codes(const format_t *f) {
  uint32_t fields = 1u << f->exponent_bits;
  return f->has_infinity ? (fields - 1) << f->fraction_bits
                         : (fields << f->fraction_bits) - 1;
}

typedef enum rounding_t { NEAREST, TO_ZERO, AWAY } rounding_t;

/* What x must become: by search in the table of values. */
static uint32_t narrow(const format_t *f, double x, rounding_t mode,
                       bool saturates) {
  uint32_t sign = signbit(x) ? 1u << (bits_of(f) - 1) : 0;
  uint32_t n = finite_codes(f), low = 0, high = n - 1;
  double m = fabs(x);
  if (x != x) return (1u << (bits_of(f) - 1)) - 1;
  double most = value_of(f, n - 1);
  /* the value that would follow the largest one ends its interval */
  double beyond = most + (most - value_of(f, n - 2));
  if (m >= most) {
    double middle = (most + beyond) / 2;
    bool over = isinf(m) || (mode == TO_ZERO ? false
                             : f->has_infinity || mode == AWAY
                                 ? m >= middle
                                 : m > middle);
    if (over && !saturates) return sign | n; /* infinity, or NaN */
    return sign | (n - 1);
  }
  while (high - low > 1) {
    uint32_t mid = (low + high) / 2;
    if (value_of(f, mid) <= m)
      low = mid;
    else
      high = mid;
  }
  double a = value_of(f, low), b = value_of(f, high);
  if (m == a) return sign | low;
  if (mode == TO_ZERO) return sign | low;
  double middle = a / 2 + b / 2; /* exact: one bit more than either */
  bool up = m > middle ||
            (m == middle && (mode == AWAY || (low & 1)));
  return sign | (up ? high : low);
}

static uint64_t f32_bits(float x) {
  uint32_t b;
  memcpy(&b, &x, 4);
  return b;
}

static bool is_nan_code(const format_t *f, uint32_t code) {
  double v = value_of(f, code);
  return v != v;
}

/* -- widening -- */

static void widen(const format_t *f, const char *body) {
  size_t n = (size_t)1 << bits_of(f);
  if (n < 128) n = 128;
  uint64_t *a = calloc(n, 8), *out = calloc(n, 8);
  for (size_t i = 0; i < n; i++) a[i] = i;
  lab_run_n(&lab, body, a, a, a, out, n);
  for (size_t i = 0; i < n; i++) {
    double want = value_of(f, (uint32_t)i);
    uint64_t bits = want != want ? 0x7FFFFFFF : f32_bits((float)want);
    if (out[i] != bits)
      fail_msg("%s 0x%zx: %08llx, not %08llx", f->name, i,
               (unsigned long long)out[i], (unsigned long long)bits);
  }
  free(a);
  free(out);
}

static void widen_16(void **state) {
  (void)state;
  widen(&f16, "cvt.f32.f16 %f, %ah; mov.b32 %x, %f; cvt.u64.u32 %r64, %x;");
  widen(&bf16, "cvt.f32.bf16 %f, %ah; mov.b32 %x, %f; cvt.u64.u32 %r64, %x;");
}

/* All pairs of two fp8 codes; the upper byte goes to the upper half. */
static void widen_8(void **state) {
  (void)state;
  static const struct {
    const format_t *f;
    const char *body;
  } rows[] = {
      {&e4m3, "cvt.rn.f16x2.e4m3x2 %x, %ah; cvt.u64.u32 %r64, %x;"},
      {&e5m2, "cvt.rn.f16x2.e5m2x2 %x, %ah; cvt.u64.u32 %r64, %x;"}};
  size_t n = 65536;
  uint64_t *a = calloc(n, 8), *out = calloc(n, 8);
  for (size_t r = 0; r < 2; r++) {
    for (size_t i = 0; i < n; i++) a[i] = i;
    lab_run_n(&lab, rows[r].body, a, a, a, out, n);
    for (size_t i = 0; i < n; i++) {
      for (int half = 0; half < 2; half++) {
        uint32_t code = (uint32_t)(i >> (8 * half)) & 255;
        uint32_t have = (uint32_t)(out[i] >> (16 * half)) & 0xFFFF;
        double want = value_of(rows[r].f, code), got = value_of(&f16, have);
        bool same = want != want ? got != got
                                 : got == want && signbit(got) ==
                                                      signbit(want);
        if (!same)
          fail_msg("%s 0x%x: 0x%x", rows[r].f->name, code, have);
      }
    }
  }
  free(a);
  free(out);
}

/* -- narrowing -- */

/* Values, midpoints and their neighbours in f32, both signs. */
static size_t points(const format_t *f, uint64_t **out) {
  uint32_t n = finite_codes(f);
  size_t capacity = ((size_t)n + 2) * 12 + 256, count = 0;
  uint64_t *a = calloc(capacity, 8);
  for (uint32_t k = 0; k <= n; k++) {
    double v = k < n ? value_of(f, k)
                     : 2 * value_of(f, n - 1) - value_of(f, n - 2);
    double next = k + 1 < n ? value_of(f, k + 1) : v;
    double at[2] = {v, v / 2 + next / 2};
    for (int p = 0; p < 2; p++) {
      if (!(at[p] < 3.4028234663852886e38)) continue;
      float x = (float)at[p];
      float near[3] = {x, nextafterf(x, INFINITY), nextafterf(x, -INFINITY)};
      for (int s = 0; s < 6; s++)
        a[count++] = f32_bits(s & 1 ? -near[s / 2] : near[s / 2]);
    }
  }
  a[count++] = f32_bits(INFINITY);
  a[count++] = f32_bits(-INFINITY);
  a[count++] = f32_bits(NAN);
  a[count++] = f32_bits(3.4028234663852886e38f);
  while (count % 128) a[count++] = 0;
  *out = a;
  return count;
}

typedef struct row_t {
  const format_t *f;
  rounding_t mode;
  bool saturates;
  int shift; /* where the code lies in the result */
  const char *body;
} row_t;

static void narrow_row(const row_t *r) {
  uint64_t *a;
  size_t n = points(r->f, &a);
  uint64_t *out = calloc(n, 8);
  uint32_t mask = (1u << bits_of(r->f)) - 1;
  if (n > 400000) n = 400000 / 128 * 128;
  lab_run_n(&lab, r->body, a, a, a, out, n);
  for (size_t i = 0; i < n; i++) {
    uint32_t bits = (uint32_t)a[i];
    float x;
    memcpy(&x, &bits, 4);
    uint32_t want = narrow(r->f, (double)x, r->mode, r->saturates);
    uint32_t have = (uint32_t)(out[i] >> r->shift) & mask;
    if (have != want &&
        !(is_nan_code(r->f, have) && is_nan_code(r->f, want)))
      fail_msg("%s: %a (%08x) gives 0x%x, not 0x%x", r->body, (double)x,
               bits, have, want);
  }
  free(a);
  free(out);
}

static void narrow_all(void **state) {
  (void)state;
  static const row_t rows[] = {
      {&f16, NEAREST, false, 0,
       "cvt.rn.f16.f32 %h, %fa; cvt.u64.u16 %r64, %h;"},
      {&f16, TO_ZERO, false, 0,
       "cvt.rz.f16.f32 %h, %fa; cvt.u64.u16 %r64, %h;"},
      {&f16, NEAREST, false, 16,
       "cvt.rn.f16x2.f32 %x, %fa, 0f3F800000; cvt.u64.u32 %r64, %x;"},
      {&f16, NEAREST, false, 0,
       "cvt.rn.f16x2.f32 %x, 0f3F800000, %fa; cvt.u64.u32 %r64, %x;"},
      {&bf16, NEAREST, false, 0,
       "cvt.rn.bf16.f32 %h, %fa; cvt.u64.u16 %r64, %h;"},
      {&bf16, TO_ZERO, false, 0,
       "cvt.rz.bf16.f32 %h, %fa; cvt.u64.u16 %r64, %h;"},
      {&bf16, NEAREST, false, 16,
       "cvt.rn.bf16x2.f32 %x, %fa, 0f3F800000; cvt.u64.u32 %r64, %x;"},
      {&bf16, NEAREST, false, 0,
       "cvt.rn.bf16x2.f32 %x, 0f3F800000, %fa; cvt.u64.u32 %r64, %x;"},
      {&e4m3, NEAREST, true, 8,
       "cvt.rn.satfinite.e4m3x2.f32 %h, %fa, 0f3F800000;"
       "cvt.u64.u16 %r64, %h;"},
      {&e4m3, NEAREST, true, 0,
       "cvt.rn.satfinite.e4m3x2.f32 %h, 0f3F800000, %fa;"
       "cvt.u64.u16 %r64, %h;"},
      {&e5m2, NEAREST, true, 8,
       "cvt.rn.satfinite.e5m2x2.f32 %h, %fa, 0f3F800000;"
       "cvt.u64.u16 %r64, %h;"},
      {&e5m2, NEAREST, true, 0,
       "cvt.rn.satfinite.e5m2x2.f32 %h, 0f3F800000, %fa;"
       "cvt.u64.u16 %r64, %h;"},
      {&tf32, AWAY, false, 13,
       "cvt.rna.tf32.f32 %x, %fa; cvt.u64.u32 %r64, %x;"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    narrow_row(&rows[i]);
}

/* -- half arithmetic: every operand against a few partners -- */

static uint32_t half_of(const format_t *f, double x) {
  return narrow(f, x, NEAREST, false);
}

static void half_arithmetic(void **state) {
  (void)state;
  static const struct {
    const char *text;
    char op;
  } ops[] = {{"add", '+'}, {"sub", '-'}, {"mul", '*'}, {"fma", 'f'}};
  static const format_t *const formats[] = {&f16, &bf16};
  size_t n = 65536;
  uint64_t *a = calloc(n, 8), *b = calloc(n, 8), *c = calloc(n, 8),
           *out = calloc(n, 8), s = 4;
  for (int t = 0; t < 2; t++) {
    const format_t *f = formats[t];
    for (size_t k = 0; k < 4; k++) {
      char body[256];
      snprintf(body, sizeof body,
               "%s.rn.%sx2 %%x, %%a, %%b%s; cvt.u64.u32 %%r64, %%x;",
               ops[k].text, f->name, ops[k].op == 'f' ? ", %c" : "");
      for (size_t i = 0; i < n; i++) {
        uint64_t r = lab_random(&s);
        a[i] = i | (r & 0xFFFF) << 16;
        b[i] = (r >> 16 & 0xFFFFFFFF);
        /* near exponents, where rounding matters */
        if (i % 2) b[i] = (b[i] & 0x80FF80FF) | (a[i] & 0x7F007F00);
        c[i] = lab_random(&s) & 0xFFFFFFFF;
      }
      lab_run_n(&lab, body, a, b, c, out, n);
      for (size_t i = 0; i < n; i++) {
        for (int half = 0; half < 2; half++) {
          double x = value_of(f, (uint32_t)(a[i] >> (16 * half)) & 0xFFFF);
          double y = value_of(f, (uint32_t)(b[i] >> (16 * half)) & 0xFFFF);
          double z = value_of(f, (uint32_t)(c[i] >> (16 * half)) & 0xFFFF);
          uint32_t have = (uint32_t)(out[i] >> (16 * half)) & 0xFFFF;
          double exact;
          if (ops[k].op == 'f') {
            /* skip sums that a double cannot hold exactly */
            double p = x * y;
            exact = p + z;
            double back = exact - p;
            if (isfinite(exact) &&
                (back != z || exact - back != p))
              continue;
          } else {
            exact = ops[k].op == '+' ? x + y : ops[k].op == '-' ? x - y
                                                                : x * y;
            double back = ops[k].op == '*' ? 0 : exact - x;
            if (ops[k].op != '*' && isfinite(exact) &&
                (ops[k].op == '+' ? back != y : back != -y))
              continue;
          }
          uint32_t want = half_of(f, exact);
          if (have != want &&
              !(is_nan_code(f, have) && is_nan_code(f, want)))
            fail_msg("%s: %a %a %a gives 0x%x, not 0x%x", body, x, y, z,
                     have, want);
        }
      }
    }
  }
  free(a);
  free(b);
  free(c);
  free(out);
}

static int setup(void **state) {
  (void)state;
  lab_open(&lab, "model:h100");
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(widen_16), cmocka_unit_test(widen_8),
      cmocka_unit_test(narrow_all), cmocka_unit_test(half_arithmetic)};
  return cmocka_run_group_tests_name("simgpu.convert", tests, setup, NULL);
}
