/* Integer, logic and bit instructions against their definitions. */
#include "sim_lab.h"

__extension__ typedef unsigned __int128 u128;
__extension__ typedef __int128 s128;

static lab_t lab;

/* Results of 16 and 32 bits are zero-extended. */
#define OUT32 "; cvt.u64.u32 %r64, %x;"
#define OUT16 "; cvt.u64.u16 %r64, %h;"

#define A32 ((uint32_t)a)
#define B32 ((uint32_t)b)
#define C32 ((uint32_t)c)
#define AS  ((int32_t)a)
#define BS  ((int32_t)b)
#define AH  ((uint16_t)a)
#define BH  ((uint16_t)b)
#define CH  ((uint16_t)c)
#define AHS ((int16_t)a)
#define BHS ((int16_t)b)
#define AL  ((int64_t)a)
#define BL  ((int64_t)b)

#define CASE(id, body, expr)                                                  \
  static uint64_t ref_##id(uint64_t a, uint64_t b, uint64_t c) {              \
    (void)a, (void)b, (void)c;                                                \
    return (uint64_t)(expr);                                                  \
  }
#include "int_cases.def"
#undef CASE

static void all_cases(void **state) {
  (void)state;
#define CASE(id, body, expr) lab_case(&lab, body, LAB_BITS, ref_##id);
#include "int_cases.def"
#undef CASE
}

/* Division, with divisors that are never zero. */
static void divisions(void **state) {
  (void)state;
  static const char *const nonzero =
      "or.b64 %b64, %b64, 1; or.b32 %b, %b, 1; or.b16 %bh, %bh, 1; ";
  static const struct {
    const char *op;
    int kind; /* 0 u32 1 s32 2 u64 3 s64 4 u16 5 s16 */
    bool rem;
  } rows[] = {{"div.u32 %x, %a, %b" OUT32, 0, false},
              {"rem.u32 %x, %a, %b" OUT32, 0, true},
              {"div.s32 %x, %a, %b" OUT32, 1, false},
              {"rem.s32 %x, %a, %b" OUT32, 1, true},
              {"div.u64 %r64, %a64, %b64;", 2, false},
              {"rem.u64 %r64, %a64, %b64;", 2, true},
              {"div.s64 %r64, %a64, %b64;", 3, false},
              {"rem.s64 %r64, %a64, %b64;", 3, true},
              {"div.u16 %h, %ah, %bh" OUT16, 4, false},
              {"rem.u16 %h, %ah, %bh" OUT16, 4, true},
              {"div.s16 %h, %ah, %bh" OUT16, 5, false},
              {"rem.s16 %h, %ah, %bh" OUT16, 5, true}};
  for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
    uint64_t a[LAB_LANES], b[LAB_LANES], out[LAB_LANES], s = n + 1;
    char body[512];
    for (size_t i = 0; i < LAB_LANES; i++) {
      a[i] = lab_input(&s, i, LAB_BITS);
      b[i] = lab_input(&s, i + 3, LAB_BITS);
    }
    snprintf(body, sizeof body, "%s%s", nonzero, rows[n].op);
    lab_run(&lab, body, a, b, b, out);
    for (size_t i = 0; i < LAB_LANES; i++) {
      uint64_t d = b[i] | 1, want = 0;
      int64_t x = (int64_t)a[i], y = (int64_t)d;
      bool rem = rows[n].rem;
      switch (rows[n].kind) {
      case 0:
        want = rem ? (uint32_t)a[i] % (uint32_t)d
                   : (uint32_t)a[i] / (uint32_t)d;
        break;
      case 1: {
        int64_t p = (int32_t)a[i], q = (int32_t)d;
        want = (uint32_t)(rem ? p % q : p / q);
        break;
      }
      case 2: want = rem ? a[i] % d : a[i] / d; break;
      case 3:
        want = y == -1 ? (rem ? 0 : 0 - a[i]) : (uint64_t)(rem ? x % y
                                                               : x / y);
        break;
      case 4:
        want = rem ? (uint16_t)a[i] % (uint16_t)d
                   : (uint16_t)a[i] / (uint16_t)d;
        break;
      default: {
        int p = (int16_t)a[i], q = (int16_t)d;
        want = (uint16_t)(rem ? p % q : p / q);
        break;
      }
      }
      if (out[i] != want)
        fail_msg("%s: %016llx %016llx: %016llx, not %016llx", rows[n].op,
                 (unsigned long long)a[i], (unsigned long long)d,
                 (unsigned long long)out[i], (unsigned long long)want);
    }
  }
}

/* bfe, bfi: whole small domains of position and length, bit by bit. */
static uint64_t field(uint64_t a, unsigned pos, unsigned length,
                      unsigned bits, bool is_signed) {
  uint64_t out = 0;
  if (!length) return 0;
  unsigned top = pos + length - 1 < bits - 1 ? pos + length - 1 : bits - 1;
  uint64_t fill = is_signed ? a >> top & 1 : 0;
  for (unsigned k = 0; k < bits; k++) {
    uint64_t bit = k < length && pos + k < bits ? a >> (pos + k) & 1 : fill;
    out |= bit << k;
  }
  return out;
}

static uint64_t insert(uint64_t a, uint64_t b, unsigned pos, unsigned length,
                       unsigned bits) {
  for (unsigned k = 0; k < length && pos + k < bits; k++) {
    uint64_t one = UINT64_C(1) << (pos + k);
    b = (a >> k & 1) ? b | one : b & ~one;
  }
  return b;
}

static void fields(void **state) {
  (void)state;
  static const char *const bodies[] = {
      "cvt.u32.u64 %y, %c64; shr.u32 %z, %y, 8; and.b32 %y, %y, 255;"
      "bfe.u32 %x, %a, %y, %z" OUT32,
      "cvt.u32.u64 %y, %c64; shr.u32 %z, %y, 8; and.b32 %y, %y, 255;"
      "bfe.s32 %x, %a, %y, %z" OUT32,
      "cvt.u32.u64 %y, %c64; shr.u32 %z, %y, 8; and.b32 %y, %y, 255;"
      "bfe.u64 %r64, %a64, %y, %z;",
      "cvt.u32.u64 %y, %c64; shr.u32 %z, %y, 8; and.b32 %y, %y, 255;"
      "bfe.s64 %r64, %a64, %y, %z;",
      "cvt.u32.u64 %y, %c64; shr.u32 %z, %y, 8; and.b32 %y, %y, 255;"
      "bfi.b32 %x, %a, %b, %y, %z" OUT32,
      "cvt.u32.u64 %y, %c64; shr.u32 %z, %y, 8; and.b32 %y, %y, 255;"
      "bfi.b64 %r64, %a64, %b64, %y, %z;"};
  uint64_t a[LAB_LANES], b[LAB_LANES], c[LAB_LANES], out[LAB_LANES], s = 3;
  for (int n = 0; n < 6; n++) {
    unsigned bits = n == 2 || n == 3 || n == 5 ? 64 : 32;
    for (unsigned part = 0; part < 5; part++) {
      for (size_t i = 0; i < LAB_LANES; i++) {
        unsigned k = (unsigned)i + part * LAB_LANES;
        a[i] = lab_random(&s);
        b[i] = lab_random(&s);
        c[i] = (k % 70) | (k / 70 % 70) << 8; /* position, length */
      }
      lab_run(&lab, bodies[n], a, b, c, out);
      for (size_t i = 0; i < LAB_LANES; i++) {
        unsigned pos = c[i] & 255, length = (unsigned)(c[i] >> 8);
        uint64_t x = bits == 32 ? (uint32_t)a[i] : a[i];
        uint64_t y = bits == 32 ? (uint32_t)b[i] : b[i];
        uint64_t want = n < 4 ? field(x, pos, length, bits, n & 1)
                              : insert(x, y, pos, length, bits);
        if (out[i] != want)
          fail_msg("case %d: %llx pos %u length %u: %llx, not %llx", n,
                   (unsigned long long)x, pos, length,
                   (unsigned long long)out[i], (unsigned long long)want);
      }
    }
  }
}

/* lop3: all 256 tables, by the definition of the table. */
static void lop3_tables(void **state) {
  (void)state;
  uint64_t a[LAB_LANES], b[LAB_LANES], c[LAB_LANES], out[LAB_LANES], s = 9;
  for (size_t i = 0; i < LAB_LANES; i++) {
    a[i] = (uint32_t)lab_random(&s);
    b[i] = (uint32_t)lab_random(&s);
    c[i] = (uint32_t)lab_random(&s);
  }
  for (unsigned table = 0; table < 256; table += 5) {
    char body[128];
    snprintf(body, sizeof body,
             "lop3.b32 %%x, %%a, %%b, %%c, %u; cvt.u64.u32 %%r64, %%x;",
             table);
    lab_run(&lab, body, a, b, c, out);
    for (size_t i = 0; i < LAB_LANES; i++) {
      uint64_t want = 0;
      for (unsigned k = 0; k < 32; k++) {
        unsigned index = (unsigned)((a[i] >> k & 1) << 2 |
                                    (b[i] >> k & 1) << 1 | (c[i] >> k & 1));
        want |= (uint64_t)(table >> index & 1) << k;
      }
      assert_int_equal(out[i], want);
    }
  }
}

/* prmt: every selector nibble in every place, and the modes. */
static void permutations(void **state) {
  (void)state;
  uint64_t a[LAB_LANES], b[LAB_LANES], c[LAB_LANES], out[LAB_LANES], s = 5;
  for (unsigned part = 0; part < 64; part += 9) {
    for (size_t i = 0; i < LAB_LANES; i++) {
      a[i] = (uint32_t)lab_random(&s);
      b[i] = (uint32_t)lab_random(&s);
      c[i] = (uint32_t)(i + part * LAB_LANES);
    }
    lab_run(&lab, "prmt.b32 %x, %a, %b, %c" OUT32, a, b, c, out);
    for (size_t i = 0; i < LAB_LANES; i++) {
      uint32_t want = 0;
      for (unsigned k = 0; k < 4; k++) {
        unsigned n = (unsigned)(c[i] >> (4 * k)) & 15;
        uint64_t pair = b[i] << 32 | a[i];
        uint32_t byte = (uint32_t)(pair >> (8 * (n & 7))) & 0xFF;
        if (n & 8) byte = byte >> 7 ? 0xFF : 0;
        want |= byte << (8 * k);
      }
      assert_int_equal(out[i], want);
    }
  }
  /* f4e: four bytes from c & 3 upwards; b4e: downwards; rc8: one byte */
  for (size_t i = 0; i < LAB_LANES; i++) c[i] = i;
  static const char *const modes[] = {"f4e", "b4e", "rc8", "ecl", "ecr",
                                      "rc16"};
  for (int mode = 0; mode < 6; mode++) {
    char body[96];
    snprintf(body, sizeof body,
             "prmt.b32.%s %%x, %%a, %%b, %%c; cvt.u64.u32 %%r64, %%x;",
             modes[mode]);
    lab_run(&lab, body, a, b, c, out);
    for (size_t i = 0; i < LAB_LANES; i++) {
      unsigned k = c[i] & 3, at[4];
      for (unsigned n = 0; n < 4; n++) {
        at[n] = mode == 0   ? k + n
                : mode == 1 ? (k + 8 - n) % 8
                : mode == 2 ? k
                : mode == 3 ? (n > k ? n : k)
                : mode == 4 ? (n < k ? n : k)
                            : (k & 1) * 2 + (n & 1);
      }
      uint64_t pair = b[i] << 32 | a[i], want = 0;
      for (unsigned n = 0; n < 4; n++)
        want |= (pair >> (8 * at[n]) & 0xFF) << (8 * n);
      if (out[i] != want)
        fail_msg("%s %u: %llx, not %llx", modes[mode], k,
                 (unsigned long long)out[i], (unsigned long long)want);
    }
  }
}

static int setup(void **state) {
  (void)state;
  lab_open(&lab, "model:h100");
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_cases), cmocka_unit_test(divisions),
      cmocka_unit_test(fields), cmocka_unit_test(lop3_tables),
      cmocka_unit_test(permutations)};
  return cmocka_run_group_tests_name("simgpu.int", tests, setup, NULL);
}
