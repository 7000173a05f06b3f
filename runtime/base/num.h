/* Numbers as the language defines them (language sections 4 and 8.4): exact
   conversions with one rounding, exact decimal text, checked sizes.
   The interpreters round by these; generated code and cpu_helpers.c do not,
   so that the two can be compared. Nothing here looks at the locale. */
#ifndef TD_NUM_H
#define TD_NUM_H

#include "runtime/base/str.h"

/* -- element types -- */
size_t td_dtype_bytes(tdsl_dtype_t dtype);     /* 0 for UNSET */
const char *td_dtype_name(tdsl_dtype_t dtype); /* "bf16"; "unset" */
tdsl_dtype_t td_dtype_parse(td_str_t name);    /* UNSET if unknown */

static inline bool td_dtype_is_float(tdsl_dtype_t d) {
  return d >= TDSL_DTYPE_F64 && d <= TDSL_DTYPE_F8E5M2;
}
static inline bool td_dtype_is_int(tdsl_dtype_t d) {
  return d >= TDSL_DTYPE_I64 && d <= TDSL_DTYPE_U8;
}
static inline bool td_dtype_is_bool(tdsl_dtype_t d) {
  return d == TDSL_DTYPE_BOOL;
}
/* Smallest and largest value of an integer type or bool. */
int64_t td_dtype_min(tdsl_dtype_t dtype);
int64_t td_dtype_max(tdsl_dtype_t dtype);

/* The one NaN that a conversion to a narrower type gives. */
#define TD_F32_NAN 0x7fc00000u
#define TD_F16_NAN 0x7e00u
#define TD_BF16_NAN 0x7fc0u
#define TD_F8E4M3_NAN 0x7fu
#define TD_F8E5M2_NAN 0x7eu

/* -- conversions; to nearest even, one rounding, NaN to one quiet pattern;
   f16 and bf16 overflow to infinity, f8 saturate (infinity included) -- */
float td_f16_to_f32(uint16_t bits);
float td_bf16_to_f32(uint16_t bits);
float td_f8e4m3_to_f32(uint8_t bits);
float td_f8e5m2_to_f32(uint8_t bits);
uint16_t td_f32_to_f16(float value);
uint16_t td_f32_to_bf16(float value);
uint8_t td_f32_to_f8e4m3(float value);
uint8_t td_f32_to_f8e5m2(float value);
uint16_t td_f64_to_f16(double value);
uint16_t td_f64_to_bf16(double value);
uint8_t td_f64_to_f8e4m3(double value);
uint8_t td_f64_to_f8e5m2(double value);

/* The value a place of this type would hold, as binary64. Integers and bool:
   as a cast to the type (bool: value != 0). */
double td_round_to(tdsl_dtype_t dtype, double value);

/* f32 value with its significand cut to 10 bits, nearest even (section 8.5).
   Infinity and NaN stay. */
float td_round_tf32(float value);

/* Float to integer: toward zero, saturating, NaN to 0. */
int64_t td_f64_to_i64(double value);

/* One element at any alignment. Integers are read exactly by load_i64; an
   i64 read by load_f64 rounds once. Stores convert: store_f64 as a cast from
   float, store_i64 as a cast from integer (saturating; floats round once). */
double td_load_f64(tdsl_dtype_t dtype, const void *element);
void td_store_f64(tdsl_dtype_t dtype, void *element, double value);
int64_t td_load_i64(tdsl_dtype_t dtype, const void *element);
void td_store_i64(tdsl_dtype_t dtype, void *element, int64_t value);

/* Wrapping store: keeps the low bits (a plain store of i32, section 8.4). */
void td_store_wrap(tdsl_dtype_t dtype, void *element, int64_t value);

/* The sign, then m * 2^e plus something below one unit of m if sticky (m then
   has all 64 bits significant), rounded once to the type's bit pattern.
   The one rounding that everything above is made of. */
uint64_t td_round_parts(tdsl_dtype_t dtype, bool negative, uint64_t m, int e,
                        bool sticky);

static inline uint64_t td_f64_bits(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
static inline double td_f64_from_bits(uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
static inline uint32_t td_f32_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
static inline float td_f32_from_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* -- integer arithmetic of the language -- */
/* Floor division and remainder, b > 0. */
static inline int64_t td_floor_div(int64_t a, int64_t b) {
  return a / b - (a % b < 0);
}
static inline int64_t td_floor_mod(int64_t a, int64_t b) {
  int64_t r = a % b;
  return r < 0 ? r + b : r;
}
/* 64-bit wrapping, defined for all operands. */
static inline int64_t td_wrap_add(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)a + (uint64_t)b);
}
static inline int64_t td_wrap_sub(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)a - (uint64_t)b);
}
static inline int64_t td_wrap_mul(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)a * (uint64_t)b);
}
/* False on overflow; *out is then unspecified. */
static inline bool td_add_i64(int64_t a, int64_t b, int64_t *out) {
  return !__builtin_add_overflow(a, b, out);
}
static inline bool td_sub_i64(int64_t a, int64_t b, int64_t *out) {
  return !__builtin_sub_overflow(a, b, out);
}
static inline bool td_mul_i64(int64_t a, int64_t b, int64_t *out) {
  return !__builtin_mul_overflow(a, b, out);
}
static inline bool td_add_size(size_t a, size_t b, size_t *out) {
  return !__builtin_add_overflow(a, b, out);
}
static inline bool td_mul_size(size_t a, size_t b, size_t *out) {
  return !__builtin_mul_overflow(a, b, out);
}

/* -- decimal text -- */
/* Long enough for any text of td_format_f64, with its NUL. */
#define TD_F64_TEXT 32

/* Shortest decimal that reads back as the same binary64 (binary32) value:
   "0.1", "-0", "1e+30", "inf", "-inf", "nan". Always has a digit before and
   after a '.', none when the value is an integer below 1e16. Returns the
   length; out is NUL-terminated. */
size_t td_format_f64(char out[TD_F64_TEXT], double value);
size_t td_format_f32(char out[TD_F64_TEXT], float value);

/* The whole text as a decimal or hexadecimal ("0x1.8p3") float, correctly
   rounded, or inf, -inf, nan. False if it is not one. Overflow gives
   infinity, underflow the nearest subnormal or zero. */
bool td_parse_f64(td_str_t text, double *out);
bool td_parse_f32(td_str_t text, float *out);
/* Decimal digits with an optional '-'; false on anything else or overflow. */
bool td_parse_i64(td_str_t text, int64_t *out);

/* Distance in representable values of the type between two values that the
   type holds; NaN against NaN is 0, NaN against a number UINT64_MAX. */
uint64_t td_ulp_distance(tdsl_dtype_t dtype, double a, double b);

#endif
