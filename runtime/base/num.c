/* Element types and conversions. Every narrowing goes through
   td_round_parts, so that each is one rounding whatever it starts from. */
#include "runtime/base/num.h"

/* How a float type is laid out: significand bits without the hidden one, the
   exponent of the smallest normal, the largest finite pattern and what lies
   beyond it (infinity, or the largest again), the NaN. */
typedef struct format_t {
  int significand, least_exponent, sign_shift;
  uint64_t largest, beyond, nan;
} format_t;

/* Indexed by dtype. E4M3 has no infinity and its NaN is the one pattern above
   the largest; both 8-bit types saturate, so what is beyond is the largest
   itself. */
static const format_t formats[] = {
    [TDSL_DTYPE_F64] = {52, -1022, 63, 0x7fefffffffffffffu,
                        0x7ff0000000000000u, 0x7ff8000000000000u},
    [TDSL_DTYPE_F32] = {23, -126, 31, 0x7f7fffffu, 0x7f800000u, TD_F32_NAN},
    [TDSL_DTYPE_F16] = {10, -14, 15, 0x7bffu, 0x7c00u, TD_F16_NAN},
    [TDSL_DTYPE_BF16] = {7, -126, 15, 0x7f7fu, 0x7f80u, TD_BF16_NAN},
    [TDSL_DTYPE_F8E4M3] = {3, -6, 7, 0x7eu, 0x7eu, TD_F8E4M3_NAN},
    [TDSL_DTYPE_F8E5M2] = {2, -14, 7, 0x7bu, 0x7bu, TD_F8E5M2_NAN},
};

static const struct {
  const char *name;
  size_t bytes;
  int64_t least, largest;
} rows[] = {
    [TDSL_DTYPE_UNSET] = {"unset", 0, 0, 0},
    [TDSL_DTYPE_F64] = {"f64", 8, 0, 0},
    [TDSL_DTYPE_F32] = {"f32", 4, 0, 0},
    [TDSL_DTYPE_F16] = {"f16", 2, 0, 0},
    [TDSL_DTYPE_BF16] = {"bf16", 2, 0, 0},
    [TDSL_DTYPE_F8E4M3] = {"f8e4m3", 1, 0, 0},
    [TDSL_DTYPE_F8E5M2] = {"f8e5m2", 1, 0, 0},
    [TDSL_DTYPE_I64] = {"i64", 8, INT64_MIN, INT64_MAX},
    [TDSL_DTYPE_I32] = {"i32", 4, INT32_MIN, INT32_MAX},
    [TDSL_DTYPE_I8] = {"i8", 1, -128, 127},
    [TDSL_DTYPE_U8] = {"u8", 1, 0, 255},
    [TDSL_DTYPE_BOOL] = {"bool", 1, 0, 1},
};

#define ROW_COUNT (sizeof rows / sizeof *rows)

/* Values from outside may be no dtype at all; those read as row 0. */
static size_t row_of(tdsl_dtype_t dtype) {
  return (size_t)dtype < ROW_COUNT ? (size_t)dtype : 0;
}

size_t td_dtype_bytes(tdsl_dtype_t dtype) { return rows[row_of(dtype)].bytes; }
const char *td_dtype_name(tdsl_dtype_t dtype) {
  return rows[row_of(dtype)].name;
}
int64_t td_dtype_min(tdsl_dtype_t dtype) { return rows[row_of(dtype)].least; }
int64_t td_dtype_max(tdsl_dtype_t dtype) {
  return rows[row_of(dtype)].largest;
}

/* "unset" is no name: the search begins behind it. */
tdsl_dtype_t td_dtype_parse(td_str_t name) {
  for (size_t i = 1; i < ROW_COUNT; i++) {
    if (td_str_eqc(name, rows[i].name)) return (tdsl_dtype_t)i;
  }
  return TDSL_DTYPE_UNSET;
}

tdsl_string_t tdsl_dtype_get_name(tdsl_dtype_t dtype) {
  if (row_of(dtype) == 0) return td_str("unknown");
  return td_str(td_dtype_name(dtype));
}

size_t tdsl_dtype_get_bytes(tdsl_dtype_t dtype) {
  return td_dtype_bytes(dtype);
}

/* -- rounding -- */

uint64_t td_round_parts(tdsl_dtype_t dtype, bool negative, uint64_t m, int e,
                        bool sticky) {
  const format_t *f = &formats[dtype];
  uint64_t sign = (uint64_t)negative << f->sign_shift;
  if (m == 0) return sign;
  int top = 63 - __builtin_clzll(m); /* the value is in [2^(top+e), ...) */
  int exponent = top + e;
  bool normal = exponent >= f->least_exponent;
  int unit = (normal ? exponent : f->least_exponent) - f->significand;
  int shift = unit - e; /* one unit of the result is 2^shift of m */
  uint64_t r;
  if (shift <= 0) {
    /* Exact: m has few bits. Far above the range the check below sees the
       exponent, so cutting the shift does no harm. */
    r = m << -shift;
  } else if (shift > 64) {
    r = 0; /* below half a unit */
  } else {
    uint64_t half = 1ull << (shift - 1);
    uint64_t rest = shift == 64 ? m : m & ((half << 1) - 1);
    r = shift == 64 ? 0 : m >> shift;
    if (rest > half || (rest == half && (sticky || (r & 1)))) r++;
  }
  /* Adding the exponent field lets a carry out of the significand move to
     the next exponent, and a subnormal to the first normal. */
  uint64_t bits = r;
  if (normal) {
    uint64_t field = (uint64_t)(exponent - f->least_exponent + 1);
    if (field > 0x7ff) return sign | f->beyond;
    bits = (field << f->significand) + (r - (1ull << f->significand));
  }
  return sign | (bits > f->largest ? f->beyond : bits);
}

/* A binary64 taken apart. 1075 is its bias and the 52 bits of its fraction;
   subnormals have the exponent of field 1. */
static uint64_t narrow(tdsl_dtype_t dtype, double value) {
  uint64_t bits = td_f64_bits(value);
  bool negative = bits >> 63;
  int field = (int)(bits >> 52 & 0x7ff);
  uint64_t m = bits & 0xfffffffffffffu;
  const format_t *f = &formats[dtype];
  if (field == 0x7ff) {
    if (m) return f->nan;
    return (uint64_t)negative << f->sign_shift | f->beyond;
  }
  if (field) m |= 1ull << 52;
  return td_round_parts(dtype, negative, m, (field ? field : 1) - 1075,
                        false);
}

/* A narrow pattern as binary32, which holds all of them exactly. */
static float widen(tdsl_dtype_t dtype, uint32_t bits) {
  const format_t *f = &formats[dtype];
  bool negative = bits >> f->sign_shift & 1;
  uint32_t magnitude = bits & ((1u << f->sign_shift) - 1);
  float value;
  if (magnitude > f->largest) {
    bool is_infinity = magnitude == f->beyond ||
                       (dtype == TDSL_DTYPE_F8E5M2 && magnitude == 0x7c);
    value = td_f32_from_bits(is_infinity ? 0x7f800000u : TD_F32_NAN);
    if (!is_infinity) return value;
  } else {
    uint32_t m = magnitude & ((1u << f->significand) - 1);
    int field = (int)(magnitude >> f->significand);
    if (field) m |= 1u << f->significand;
    int e = (field ? field : 1) - 1 + f->least_exponent - f->significand;
    uint64_t wide = td_round_parts(TDSL_DTYPE_F32, false, m, e, false);
    value = td_f32_from_bits((uint32_t)wide);
  }
  return negative ? -value : value;
}

/* bf16 needs no arithmetic, only its bits in the upper half. */
float td_f16_to_f32(uint16_t bits) { return widen(TDSL_DTYPE_F16, bits); }
float td_bf16_to_f32(uint16_t bits) {
  if ((bits & 0x7fff) > 0x7f80) return td_f32_from_bits(TD_F32_NAN);
  return td_f32_from_bits((uint32_t)bits << 16);
}
float td_f8e4m3_to_f32(uint8_t bits) {
  return widen(TDSL_DTYPE_F8E4M3, bits);
}
float td_f8e5m2_to_f32(uint8_t bits) {
  return widen(TDSL_DTYPE_F8E5M2, bits);
}

uint16_t td_f64_to_f16(double value) {
  return (uint16_t)narrow(TDSL_DTYPE_F16, value);
}
uint16_t td_f64_to_bf16(double value) {
  return (uint16_t)narrow(TDSL_DTYPE_BF16, value);
}
uint8_t td_f64_to_f8e4m3(double value) {
  return (uint8_t)narrow(TDSL_DTYPE_F8E4M3, value);
}
uint8_t td_f64_to_f8e5m2(double value) {
  return (uint8_t)narrow(TDSL_DTYPE_F8E5M2, value);
}
uint16_t td_f32_to_f16(float value) { return td_f64_to_f16((double)value); }
uint16_t td_f32_to_bf16(float value) { return td_f64_to_bf16((double)value); }
uint8_t td_f32_to_f8e4m3(float value) {
  return td_f64_to_f8e4m3((double)value);
}
uint8_t td_f32_to_f8e5m2(float value) {
  return td_f64_to_f8e5m2((double)value);
}

float td_round_tf32(float value) {
  uint32_t bits = td_f32_bits(value);
  if ((bits & 0x7f800000u) == 0x7f800000u) return value;
  /* Half of the cut-off unit, less one when the kept part is even; a carry
     runs into the exponent and, at the top, to infinity. */
  bits += 0xfffu + (bits >> 13 & 1);
  return td_f32_from_bits(bits & ~0x1fffu);
}

/* The bounds are exact in binary64, and the conversion between them is
   defined. */
int64_t td_f64_to_i64(double value) {
  if (value != value) return 0;
  if (value >= 0x1p63) return INT64_MAX;
  if (value <= -0x1p63) return INT64_MIN;
  return (int64_t)value;
}

/* The common types first: interpreters call this for every operation. */
double td_round_to(tdsl_dtype_t dtype, double value) {
  switch (dtype) {
    case TDSL_DTYPE_F64: return value;
    case TDSL_DTYPE_F32: return (double)(float)value;
    default: break;
  }
  unsigned char place[8];
  td_store_f64(dtype, place, value);
  return td_load_f64(dtype, place);
}

/* -- elements in memory; memcpy, since files align nothing -- */

double td_load_f64(tdsl_dtype_t dtype, const void *element) {
  switch (dtype) {
    case TDSL_DTYPE_F64: {
      double v;
      memcpy(&v, element, sizeof v);
      return v;
    }
    case TDSL_DTYPE_F32: {
      float v;
      memcpy(&v, element, sizeof v);
      return (double)v;
    }
    case TDSL_DTYPE_F16: {
      uint16_t v;
      memcpy(&v, element, sizeof v);
      return (double)td_f16_to_f32(v);
    }
    case TDSL_DTYPE_BF16: {
      uint16_t v;
      memcpy(&v, element, sizeof v);
      return (double)td_bf16_to_f32(v);
    }
    case TDSL_DTYPE_F8E4M3:
      return (double)td_f8e4m3_to_f32(*(const uint8_t *)element);
    case TDSL_DTYPE_F8E5M2:
      return (double)td_f8e5m2_to_f32(*(const uint8_t *)element);
    default: return (double)td_load_i64(dtype, element);
  }
}

/* NaN is stored as one pattern, so that equal results have equal bytes. */
void td_store_f64(tdsl_dtype_t dtype, void *element, double value) {
  switch (dtype) {
    case TDSL_DTYPE_F64: memcpy(element, &value, sizeof value); return;
    case TDSL_DTYPE_F32: {
      float v = (float)value;
      if (v != v) v = td_f32_from_bits(TD_F32_NAN);
      memcpy(element, &v, sizeof v);
      return;
    }
    case TDSL_DTYPE_F16:
    case TDSL_DTYPE_BF16: {
      uint16_t v = (uint16_t)narrow(dtype, value);
      memcpy(element, &v, sizeof v);
      return;
    }
    case TDSL_DTYPE_F8E4M3:
    case TDSL_DTYPE_F8E5M2:
      *(uint8_t *)element = (uint8_t)narrow(dtype, value);
      return;
    case TDSL_DTYPE_BOOL: *(uint8_t *)element = value != 0; return;
    default: td_store_i64(dtype, element, td_f64_to_i64(value)); return;
  }
}

int64_t td_load_i64(tdsl_dtype_t dtype, const void *element) {
  switch (dtype) {
    case TDSL_DTYPE_I64: {
      int64_t v;
      memcpy(&v, element, sizeof v);
      return v;
    }
    case TDSL_DTYPE_I32: {
      int32_t v;
      memcpy(&v, element, sizeof v);
      return v;
    }
    case TDSL_DTYPE_I8: return *(const int8_t *)element;
    case TDSL_DTYPE_U8: return *(const uint8_t *)element;
    case TDSL_DTYPE_BOOL: return *(const uint8_t *)element != 0;
    case TDSL_DTYPE_UNSET: return 0;
    default: return td_f64_to_i64(td_load_f64(dtype, element));
  }
}

void td_store_i64(tdsl_dtype_t dtype, void *element, int64_t value) {
  if (td_dtype_is_float(dtype)) {
    /* From the integer's own bits: through f64 a large one would round
       twice on its way to a narrow type. */
    uint64_t m = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    uint64_t bits = td_round_parts(dtype, value < 0, m, 0, false);
    memcpy(element, &bits, td_dtype_bytes(dtype)); /* little endian */
    return;
  }
  if (dtype == TDSL_DTYPE_BOOL) {
    *(uint8_t *)element = value != 0;
    return;
  }
  if (value < td_dtype_min(dtype)) value = td_dtype_min(dtype);
  if (value > td_dtype_max(dtype)) value = td_dtype_max(dtype);
  td_store_wrap(dtype, element, value);
}

/* The low bytes of a little-endian number are its first. */
void td_store_wrap(tdsl_dtype_t dtype, void *element, int64_t value) {
  memcpy(element, &value, td_dtype_bytes(dtype)); /* little endian */
}

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "element storage is written for little-endian machines"
#endif

/* -- distance -- */

/* Patterns of a float type in the order of their values, both zeros at 0. */
static int64_t ordered(tdsl_dtype_t dtype, double value) {
  const format_t *f = &formats[dtype];
  uint64_t bits = narrow(dtype, value);
  int64_t magnitude = (int64_t)(bits & ((1ull << f->sign_shift) - 1));
  return bits >> f->sign_shift ? -magnitude : magnitude;
}

/* The difference of two 64-bit numbers of opposite sign still fits unsigned
   64 bits. */
uint64_t td_ulp_distance(tdsl_dtype_t dtype, double a, double b) {
  if (a != a || b != b) return a != a && b != b ? 0 : UINT64_MAX;
  if (!td_dtype_is_float(dtype)) {
    int64_t x = td_f64_to_i64(a), y = td_f64_to_i64(b);
    return x > y ? (uint64_t)x - (uint64_t)y : (uint64_t)y - (uint64_t)x;
  }
  int64_t x = ordered(dtype, a), y = ordered(dtype, b);
  return x > y ? (uint64_t)x - (uint64_t)y : (uint64_t)y - (uint64_t)x;
}
