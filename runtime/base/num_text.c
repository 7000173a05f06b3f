/* Decimal text of floats, both ways, without libc, whose versions follow the
   locale and the rounding mode.

   1. Printing is Burger and Dybvig's free-format algorithm ("Printing
      floating-point numbers quickly and accurately", PLDI 1996) on exact
      integers: r / s is the value still to print, low and high are half the
      distances to the neighbours in the same unit. A digit ends the text as
      soon as what is printed lies nearer than a neighbour's midpoint, so the
      text is the shortest that reads back, and the nearest of those.
   2. Reading keeps the first 19 digits. With no other digit and a small
      power of ten the value is a quotient or product of machine integers,
      exact or with a remainder; else it is one of big integers. Either way
      64 leading bits and a sticky bit go to td_round_parts, which rounds
      once. */
#include "runtime/base/num.h"

#include "runtime/base/str.h"

/* -- natural numbers, little endian, no leading zero words -- */

/* 800 decimal digits over 10^1150, and 64 bits more, fit. */
#define MOST_WORDS 128

typedef struct big_t {
  int count;
  uint32_t word[MOST_WORDS];
} big_t;

/* Zero has no words. */
static void big_set(big_t *b, uint64_t value) {
  b->word[0] = (uint32_t)value;
  b->word[1] = (uint32_t)(value >> 32);
  b->count = b->word[1] ? 2 : b->word[0] ? 1 : 0;
}

static void big_copy(big_t *to, const big_t *from) {
  to->count = from->count;
  memcpy(to->word, from->word, (size_t)from->count * sizeof *from->word);
}

/* b = b * factor + addend; the carry never exceeds one word. */
static void big_mul_add(big_t *b, uint32_t factor, uint32_t addend) {
  uint64_t carry = addend;
  for (int i = 0; i < b->count; i++) {
    carry += (uint64_t)b->word[i] * factor;
    b->word[i] = (uint32_t)carry;
    carry >>= 32;
  }
  if (carry) b->word[b->count++] = (uint32_t)carry;
}

/* Nine digits at a time: 10^9 is the largest power in a word. */
static void big_mul_pow10(big_t *b, int n) {
  for (; n >= 9; n -= 9) big_mul_add(b, 1000000000u, 0);
  uint32_t rest = 1;
  for (; n > 0; n--) rest *= 10;
  if (rest > 1) big_mul_add(b, rest, 0);
}

/* Multiplies by a power of two: the odd bits first, then whole words. */
static void big_shift(big_t *b, int bits) {
  if (b->count == 0) return;
  int words = bits / 32, small = bits % 32;
  if (small) big_mul_add(b, 1u << small, 0);
  if (words) {
    memmove(b->word + words, b->word, (size_t)b->count * sizeof *b->word);
    memset(b->word, 0, (size_t)words * sizeof *b->word);
    b->count += words;
  }
}

/* Bits up to the highest that is set. */
static int big_bits(const big_t *b) {
  if (b->count == 0) return 0;
  return 32 * b->count - __builtin_clz(b->word[b->count - 1]);
}

static int big_cmp(const big_t *a, const big_t *b) {
  if (a->count != b->count) return a->count < b->count ? -1 : 1;
  for (int i = a->count - 1; i >= 0; i--) {
    if (a->word[i] != b->word[i]) return a->word[i] < b->word[i] ? -1 : 1;
  }
  return 0;
}

/* The sign of a + b - c. */
static int big_cmp_sum(const big_t *a, const big_t *b, const big_t *c) {
  big_t sum;
  const big_t *more = a->count >= b->count ? a : b;
  const big_t *less = more == a ? b : a;
  uint64_t carry = 0;
  for (int i = 0; i < more->count; i++) {
    carry += more->word[i];
    if (i < less->count) carry += less->word[i];
    sum.word[i] = (uint32_t)carry;
    carry >>= 32;
  }
  sum.count = more->count;
  if (carry) sum.word[sum.count++] = (uint32_t)carry;
  return big_cmp(&sum, c);
}

/* a -= b, a >= b. */
static void big_sub(big_t *a, const big_t *b) {
  uint64_t borrow = 0;
  for (int i = 0; i < a->count; i++) {
    uint64_t take = borrow + (i < b->count ? b->word[i] : 0);
    borrow = a->word[i] < take;
    a->word[i] = (uint32_t)(a->word[i] - take);
  }
  while (a->count && a->word[a->count - 1] == 0) a->count--;
}

/* -- printing -- */

/* Digits of m * 2^e, m > 0, into out (17 at most); the value is 0.DIGITS *
   10^*point. is_edge: the neighbour below is half as far as the one above. */
static int shortest(uint64_t m, int e, bool is_edge, char *out, int *point) {
  big_t r, s, low, high;
  int edge = is_edge ? 1 : 0;
  big_set(&r, m);
  big_set(&s, 1);
  big_set(&low, 1);
  if (e >= 0) {
    big_shift(&r, e + 1 + edge);
    big_shift(&s, 1 + edge);
    big_shift(&low, e);
  } else {
    big_shift(&r, 1 + edge);
    big_shift(&s, 1 + edge - e);
  }
  big_copy(&high, &low);
  if (edge) big_shift(&high, 1);
  /* floor(log10) of the leading power of two is never above that of the
     value, so the point starts right or too low. No product of an exponent
     and log10(2) comes nearer to an integer than binary64 resolves. */
  int binary = e + 63 - __builtin_clzll(m);
  double estimate = binary * 0.30102999566398120;
  int k = (int)estimate;
  if (estimate < k) k--;
  k++;
  if (k >= 0) {
    big_mul_pow10(&s, k);
  } else {
    big_mul_pow10(&r, -k);
    big_mul_pow10(&low, -k);
    big_mul_pow10(&high, -k);
  }
  /* An even significand is what a tie reads back as, so the midpoints
     themselves may be printed. */
  int inclusive = (m & 1) == 0;
  while (big_cmp_sum(&r, &high, &s) >= (inclusive ? 0 : 1)) {
    big_mul_add(&s, 10, 0);
    k++;
  }
  *point = k;
  for (int n = 0;;) {
    big_mul_add(&r, 10, 0);
    big_mul_add(&low, 10, 0);
    big_mul_add(&high, 10, 0);
    int digit = 0;
    while (big_cmp(&r, &s) >= 0) {
      big_sub(&r, &s);
      digit++;
    }
    bool below = big_cmp(&r, &low) < (inclusive ? 1 : 0);
    bool above = big_cmp_sum(&r, &high, &s) >= (inclusive ? 0 : 1);
    if (!below && !above) {
      out[n++] = (char)('0' + digit);
      continue;
    }
    /* Both digits would do: the nearer, of two as near the even one. */
    int half = below && above ? big_cmp_sum(&r, &r, &s) : 0;
    if (above && (!below || half > 0 || (half == 0 && digit % 2))) digit++;
    out[n++] = (char)('0' + digit);
    return n;
  }
}

/* Decimal digits of an exponent. */
static size_t put_int(char *out, unsigned value) {
  char digits[12];
  size_t n = 0, length = 0;
  do {
    digits[n++] = (char)('0' + value % 10);
    value /= 10;
  } while (value);
  while (n) out[length++] = digits[--n];
  return length;
}

/* Plain up to 16 places before the point and 4 zeros after it, else with an
   exponent, as most languages print. */
static size_t lay_out(char *out, bool negative, const char *digits, int n,
                      int point) {
  size_t at = 0;
  if (negative) out[at++] = '-';
  if (point > 16 || point < -3) {
    out[at++] = digits[0];
    if (n > 1) {
      out[at++] = '.';
      memcpy(out + at, digits + 1, (size_t)n - 1);
      at += (size_t)n - 1;
    }
    int exponent = point - 1;
    out[at++] = 'e';
    out[at++] = exponent < 0 ? '-' : '+';
    at += put_int(out + at,
                  (unsigned)(exponent < 0 ? -exponent : exponent));
  } else if (point <= 0) {
    out[at++] = '0';
    out[at++] = '.';
    for (int i = point; i < 0; i++) out[at++] = '0';
    memcpy(out + at, digits, (size_t)n);
    at += (size_t)n;
  } else {
    for (int i = 0; i < point; i++) out[at++] = i < n ? digits[i] : '0';
    if (n > point) {
      out[at++] = '.';
      memcpy(out + at, digits + point, (size_t)(n - point));
      at += (size_t)(n - point);
    }
  }
  out[at] = 0;
  return at;
}

/* A magnitude below infinity: field and fraction of a type with `bits`
   fraction bits and the least exponent of a unit. */
static size_t format_parts(char *out, bool negative, uint64_t field,
                           uint64_t fraction, int bits, int least_unit) {
  uint64_t m = fraction | (field ? 1ull << bits : 0);
  int e = least_unit + (field ? (int)field - 1 : 0);
  if (m == 0) {
    memcpy(out, negative ? "-0" : "0", negative ? 3 : 2);
    return negative ? 2 : 1;
  }
  char digits[20];
  int point;
  int n = shortest(m, e, fraction == 0 && field > 1, digits, &point);
  return lay_out(out, negative, digits, n, point);
}

/* With the NUL. */
static size_t put_text(char *out, const char *text) {
  size_t n = strlen(text);
  memcpy(out, text, n + 1);
  return n;
}

size_t td_format_f64(char out[TD_F64_TEXT], double value) {
  uint64_t bits = td_f64_bits(value);
  bool negative = bits >> 63;
  uint64_t field = bits >> 52 & 0x7ff, fraction = bits & 0xfffffffffffffu;
  if (field == 0x7ff) {
    return put_text(out, fraction ? "nan" : negative ? "-inf" : "inf");
  }
  return format_parts(out, negative, field, fraction, 52, -1074);
}

size_t td_format_f32(char out[TD_F64_TEXT], float value) {
  uint32_t bits = td_f32_bits(value);
  bool negative = bits >> 31;
  uint32_t field = bits >> 23 & 0xff, fraction = bits & 0x7fffffu;
  if (field == 0xff) {
    return put_text(out, fraction ? "nan" : negative ? "-inf" : "inf");
  }
  return format_parts(out, negative, field, fraction, 23, -149);
}

/* -- reading -- */

/* Digits beyond these only say whether something follows. No midpoint of two
   binary64 values has more than 767 significant digits. */
#define MOST_DIGITS 800

__extension__ typedef unsigned __int128 u128;

/* 5^27 is the largest that fits 64 bits. */
static const uint64_t powers_of_5[28] = {
    1ull, 5ull, 25ull, 125ull, 625ull, 3125ull, 15625ull, 78125ull,
    390625ull, 1953125ull, 9765625ull, 48828125ull, 244140625ull,
    1220703125ull, 6103515625ull, 30517578125ull, 152587890625ull,
    762939453125ull, 3814697265625ull, 19073486328125ull,
    95367431640625ull, 476837158203125ull, 2384185791015625ull,
    11920928955078125ull, 59604644775390625ull, 298023223876953125ull,
    1490116119384765625ull, 7450580596923828125ull};

/* 64 leading bits of v * 2^e (v != 0) to the type, the rest sticky. */
static uint64_t round_u128(tdsl_dtype_t dtype, bool negative, u128 v, int e,
                           bool sticky) {
  uint64_t high = (uint64_t)(v >> 64);
  if (high) {
    int drop = 64 - __builtin_clzll(high);
    if (v & (((u128)1 << drop) - 1)) sticky = true;
    v >>= drop;
    e += drop;
  }
  return td_round_parts(dtype, negative, (uint64_t)v, e, sticky);
}

/* digits * 10^exponent, digits != 0, |exponent| <= 27. */
static uint64_t round_small(tdsl_dtype_t dtype, bool negative,
                            uint64_t digits, int exponent) {
  if (exponent >= 0) {
    u128 product = (u128)digits * powers_of_5[exponent];
    return round_u128(dtype, negative, product, exponent, false);
  }
  /* Shifted left as far as it goes the quotient has 64 bits or more. */
  int shift = 64 + __builtin_clzll(digits);
  u128 dividend = (u128)digits << shift;
  uint64_t divisor = powers_of_5[-exponent];
  u128 quotient = dividend / divisor;
  bool sticky = quotient * divisor != dividend;
  return round_u128(dtype, negative, quotient, exponent - shift, sticky);
}

/* The same for digits in text, '.' skipped, of which `more` follow unread. */
static uint64_t round_big(tdsl_dtype_t dtype, bool negative,
                          const char *text, int count, int exponent,
                          bool more) {
  big_t n, d;
  big_set(&n, 0);
  for (int i = 0; i < count; text++) {
    if (*text == '.') continue;
    if (n.count == 0) big_set(&n, (uint64_t)(*text - '0'));
    else big_mul_add(&n, 10, (uint32_t)(*text - '0'));
    i++;
  }
  big_set(&d, 1);
  if (exponent >= 0) big_mul_pow10(&n, exponent);
  else big_mul_pow10(&d, -exponent);
  /* Scale so that the quotient has 64 or 65 bits, then divide by steps of one
     bit. */
  int shift = big_bits(&d) + 64 - big_bits(&n);
  if (shift >= 0) big_shift(&n, shift);
  else big_shift(&d, -shift);
  u128 quotient = 0;
  big_t part;
  for (int bit = 64; bit >= 0; bit--) {
    if (big_bits(&n) < big_bits(&d) + bit) continue;
    big_copy(&part, &d);
    big_shift(&part, bit);
    if (big_cmp(&n, &part) < 0) continue;
    big_sub(&n, &part);
    quotient |= (u128)1 << bit;
  }
  return round_u128(dtype, negative, quotient, -shift, more || n.count > 0);
}

/* -1 for any other character; isxdigit follows the locale. */
static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/* Reads [+-]digits from *at to the end of the text, cut at +-99999. */
static bool read_exponent(td_str_t text, size_t at, int *out) {
  bool negative = false;
  if (at < text.length && (text.data[at] == '+' || text.data[at] == '-')) {
    negative = text.data[at++] == '-';
  }
  if (at == text.length) return false;
  int value = 0;
  for (; at < text.length; at++) {
    if (text.data[at] < '0' || text.data[at] > '9') return false;
    value = value * 10 + (text.data[at] - '0');
    if (value > 99999) value = 99999;
  }
  *out = negative ? -value : value;
  return true;
}

/* After "0x": digits, maybe '.', digits, maybe p and an exponent. */
static bool read_hex(tdsl_dtype_t dtype, bool negative, td_str_t text,
                     size_t at, uint64_t *out) {
  uint64_t m = 0;
  int e = 0, exponent = 0;
  bool sticky = false, any = false, after = false;
  for (; at < text.length; at++) {
    char c = text.data[at];
    if (c == '.') {
      if (after) return false;
      after = true;
      continue;
    }
    int digit = hex_digit(c);
    if (digit < 0) break;
    any = true;
    if (m >> 60) {
      sticky |= digit != 0;
      if (!after && e < 100000) e += 4;
    } else {
      m = m << 4 | (uint64_t)digit;
      if (after) e -= 4;
    }
  }
  if (!any) return false;
  if (at < text.length) {
    if (text.data[at] != 'p' && text.data[at] != 'P') return false;
    if (!read_exponent(text, at + 1, &exponent)) return false;
  }
  if (m >> 60 == 0) sticky = false;
  if (m) { /* td_round_parts wants the sticky bit below 64 bits */
    int up = __builtin_clzll(m);
    m <<= up;
    e -= up;
  }
  *out = td_round_parts(dtype, negative, m, e + exponent, sticky);
  return true;
}

/* One pass collects the digits and where the point is; then the shortest way
   that is exact is taken. The text is checked completely before that. */
static bool read_float(tdsl_dtype_t dtype, td_str_t text, uint64_t *out) {
  size_t at = 0;
  bool negative = text.length && text.data[0] == '-';
  if (negative) at = 1;
  td_str_t rest = td_str_n(text.data + at, text.length - at);
  bool narrow = dtype == TDSL_DTYPE_F32;
  if (td_str_eqc(rest, "inf")) {
    *out = narrow ? 0x7f800000u : 0x7ff0000000000000u;
    *out |= (uint64_t)negative << (narrow ? 31 : 63);
    return true;
  }
  if (td_str_eqc(text, "nan")) {
    *out = narrow ? TD_F32_NAN : 0x7ff8000000000000u;
    return true;
  }
  if (td_str_starts(rest, "0x")) {
    return read_hex(dtype, negative, text, at + 2, out);
  }
  uint64_t digits = 0;  /* the first 19 significant ones */
  int taken = 0, count = 0; /* in digits; in all from the first non-zero */
  int solid = 0;            /* count up to the last digit that is not 0 */
  int exponent = 0, given = 0, run = 0;
  size_t first = 0;
  bool after = false, more = false;
  for (; at < text.length; at++) {
    char c = text.data[at];
    if (c == '.' && !after && run > 0) {
      after = true;
      run = 0;
      continue;
    }
    if (c < '0' || c > '9') break;
    run = 1;
    if (after && exponent > -1000000) exponent--;
    if (count == 0 && c == '0') continue;
    if (count == 0) first = at;
    if (count == MOST_DIGITS) { /* not kept: one place more */
      if (exponent < 1000000) exponent++;
      if (c != '0') more = true;
      continue;
    }
    count++;
    if (c != '0') solid = count;
    if (taken < 19) {
      digits = digits * 10 + (uint64_t)(c - '0');
      taken++;
    }
  }
  if (run == 0) return false;
  if (at < text.length) {
    if (text.data[at] != 'e' && text.data[at] != 'E') return false;
    if (!read_exponent(text, at + 1, &given)) return false;
  }
  if (!more) {
    exponent += count - solid;
    count = solid;
    for (; taken > count; taken--) digits /= 10;
  }
  exponent += given;
  if (count == 0) {
    *out = td_round_parts(dtype, negative, 0, 0, false);
  } else if (exponent + count > 400) {
    *out = td_round_parts(dtype, negative, 1, 100000, false);
  } else if (exponent + count < -400) {
    *out = td_round_parts(dtype, negative, 1, -100000, false);
  } else if (count == taken && exponent >= -27 && exponent <= 27) {
    *out = round_small(dtype, negative, digits, exponent);
  } else {
    *out = round_big(dtype, negative, text.data + first, count, exponent,
                     more);
  }
  return true;
}

/* The two types differ in the final rounding only, which is why binary32 is
   not read through binary64. */
bool td_parse_f64(td_str_t text, double *out) {
  uint64_t bits;
  if (!read_float(TDSL_DTYPE_F64, text, &bits)) return false;
  *out = td_f64_from_bits(bits);
  return true;
}

bool td_parse_f32(td_str_t text, float *out) {
  uint64_t bits;
  if (!read_float(TDSL_DTYPE_F32, text, &bits)) return false;
  *out = td_f32_from_bits((uint32_t)bits);
  return true;
}

bool td_parse_i64(td_str_t text, int64_t *out) {
  bool negative = text.length && text.data[0] == '-';
  size_t at = negative ? 1 : 0;
  if (at == text.length) return false;
  int64_t value = 0; /* counted downwards: the smallest has no opposite */
  for (; at < text.length; at++) {
    char c = text.data[at];
    if (c < '0' || c > '9') return false;
    if (!td_mul_i64(value, 10, &value)) return false;
    if (!td_sub_i64(value, c - '0', &value)) return false;
  }
  if (!negative && value == INT64_MIN) return false;
  *out = negative ? value : -value;
  return true;
}
