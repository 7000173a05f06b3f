/* llvm_convert.c: between the bits in memory and arithmetic values.
 *
 * Narrow floats live as integers: LLVM's bfloat and, without F16C, half
 * would call library functions that need not exist.  From f32 one rounding
 * is enough; from f64 the value is first cut to f32 with a sticky last bit
 * (round to odd), which keeps what the second rounding must know. */
#include "codegen/llvm/llvm_impl.h"

LLVMTypeRef cgl_storage_type(cgl_t *g, tdsl_dtype_t dtype) {
  switch (dtype) {
    case TDSL_DTYPE_F64: return g->f64;
    case TDSL_DTYPE_F32: return g->f32;
    case TDSL_DTYPE_F16: case TDSL_DTYPE_BF16: return g->i16;
    case TDSL_DTYPE_I64: return g->i64;
    case TDSL_DTYPE_I32: return g->i32;
    case TDSL_DTYPE_F8E4M3: case TDSL_DTYPE_F8E5M2: case TDSL_DTYPE_I8:
    case TDSL_DTYPE_U8: case TDSL_DTYPE_BOOL:
      return g->i8;
    case TDSL_DTYPE_UNSET: case TDSL_DTYPE_FORCE32: break;
  }
  TD_ICE(g->task, "no storage for dtype %d", (int)dtype);
}

/* ---- short names for what this file does all the time -------------------- */

static LLVMValueRef k32(cgl_t *g, uint32_t v, LLVMValueRef like) {
  return cgl_const_int(g, g->i32, (int64_t)v, like);
}

static LLVMValueRef and_(cgl_t *g, LLVMValueRef a, uint32_t mask) {
  return LLVMBuildAnd(g->builder, a, k32(g, mask, a), "");
}

static LLVMValueRef shl(cgl_t *g, LLVMValueRef a, uint32_t n) {
  return LLVMBuildShl(g->builder, a, k32(g, n, a), "");
}

static LLVMValueRef shr(cgl_t *g, LLVMValueRef a, uint32_t n) {
  return LLVMBuildLShr(g->builder, a, k32(g, n, a), "");
}

static LLVMValueRef or_(cgl_t *g, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildOr(g->builder, a, b, "");
}

static LLVMValueRef add32(cgl_t *g, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildAdd(g->builder, a, b, "");
}

static LLVMValueRef pick(cgl_t *g, LLVMValueRef c, LLVMValueRef a,
                         LLVMValueRef b) {
  return LLVMBuildSelect(g->builder, c, a, b, "");
}

static LLVMValueRef above(cgl_t *g, LLVMValueRef a, uint32_t limit) {
  return LLVMBuildICmp(g->builder, LLVMIntUGT, a, k32(g, limit, a), "");
}

static LLVMValueRef to_bits(cgl_t *g, LLVMValueRef v) {
  return LLVMBuildBitCast(g->builder, v, cgl_like(g->i32, v), "");
}

static LLVMValueRef from_bits(cgl_t *g, LLVMValueRef v) {
  return LLVMBuildBitCast(g->builder, v, cgl_like(g->f32, v), "");
}

static LLVMValueRef zext32(cgl_t *g, LLVMValueRef v) {
  return LLVMBuildZExt(g->builder, v, cgl_like(g->i32, v), "");
}

static LLVMValueRef trunc_to(cgl_t *g, LLVMValueRef v, LLVMTypeRef element) {
  return LLVMBuildTrunc(g->builder, v, cgl_like(element, v), "");
}

/* ---- reading ------------------------------------------------------------- */

/* Exponent and fraction of a narrow float, put at the same place of an f32
 * and scaled by a power of two, which is exact and turns its subnormals into
 * ordinary numbers.  `special` is the first pattern of infinity and NaN. */
static LLVMValueRef decode_small(cgl_t *g, LLVMValueRef u, uint32_t sign_bit,
                                 uint32_t shift, float scale,
                                 uint32_t special, bool keeps_fraction) {
  LLVMValueRef magnitude = and_(g, u, sign_bit - 1);
  LLVMValueRef moved = shl(g, magnitude, shift);
  LLVMValueRef value =
      LLVMBuildFMul(g->builder, from_bits(g, moved),
                    cgl_const_f32(g, scale, moved), "");
  LLVMValueRef bits = to_bits(g, value);
  LLVMValueRef wild =
      keeps_fraction
          ? or_(g, moved, k32(g, 0x7f800000u, moved))
          : k32(g, 0x7fc00000u, moved);
  bits = pick(g, above(g, magnitude, special - 1), wild, bits);
  uint32_t up = sign_bit == 0x80u ? 24 : 16;
  LLVMValueRef sign = shl(g, and_(g, u, sign_bit), up);
  return from_bits(g, or_(g, bits, sign));
}

/* With F16C one instruction for eight; else integer operations. */
static LLVMValueRef decode_f16(cgl_t *g, LLVMValueRef bits) {
  if (g->target->has_f16c) {
    LLVMTypeRef half = LLVMHalfTypeInContext(g->context);
    LLVMValueRef h =
        LLVMBuildBitCast(g->builder, bits, cgl_like(half, bits), "");
    return LLVMBuildFPExt(g->builder, h, cgl_like(g->f32, h), "");
  }
  return decode_small(g, zext32(g, bits), 0x8000u, 13, 0x1p112f, 0x7c00u,
                      true);
}

/* Exact in every case: all narrow values exist in the arithmetic type. */
LLVMValueRef cgl_decode(cgl_t *g, tdsl_dtype_t dtype, LLVMValueRef bits) {
  switch (dtype) {
    case TDSL_DTYPE_F64: case TDSL_DTYPE_F32: case TDSL_DTYPE_I64:
      return bits;
    case TDSL_DTYPE_F16: return decode_f16(g, bits);
    case TDSL_DTYPE_BF16: return from_bits(g, shl(g, zext32(g, bits), 16));
    case TDSL_DTYPE_F8E4M3:
      return decode_small(g, zext32(g, bits), 0x80u, 20, 0x1p120f, 0x7fu,
                          false);
    case TDSL_DTYPE_F8E5M2:
      return decode_small(g, zext32(g, bits), 0x80u, 21, 0x1p112f, 0x7cu,
                          true);
    case TDSL_DTYPE_I32: case TDSL_DTYPE_I8:
      return LLVMBuildSExt(g->builder, bits, cgl_like(g->i64, bits), "");
    case TDSL_DTYPE_U8:
      return LLVMBuildZExt(g->builder, bits, cgl_like(g->i64, bits), "");
    case TDSL_DTYPE_BOOL:
      return LLVMBuildICmp(g->builder, LLVMIntNE, bits,
                           LLVMConstNull(LLVMTypeOf(bits)), "");
    case TDSL_DTYPE_UNSET: case TDSL_DTYPE_FORCE32: break;
  }
  TD_ICE(g->task, "no load of dtype %d", (int)dtype);
}

/* ---- writing ------------------------------------------------------------- */

/* The only value that differs from itself. */
static LLVMValueRef is_nan(cgl_t *g, LLVMValueRef v) {
  return LLVMBuildFCmp(g->builder, LLVMRealUNO, v, v, "");
}

/* Upper half of an f32, to nearest even. */
static LLVMValueRef encode_bf16(cgl_t *g, LLVMValueRef v) {
  LLVMValueRef u = to_bits(g, v);
  LLVMValueRef odd = and_(g, shr(g, u, 16), 1);
  LLVMValueRef rounded =
      shr(g, add32(g, add32(g, u, k32(g, 0x7fffu, u)), odd), 16);
  rounded = pick(g, is_nan(g, v), k32(g, 0x7fc0u, u), rounded);
  return trunc_to(g, rounded, g->i16);
}

/* Rounds an f32 magnitude to a format with `fraction` bits and exponents
 * from `least` (that of its smallest normal number).  Normal results: carry
 * into the kept bits.  Subnormal ones: adding a power of two aligns the last
 * kept bit with the last bit of the sum, so the hardware rounds. */
static LLVMValueRef round_magnitude(cgl_t *g, LLVMValueRef magnitude,
                                    uint32_t fraction, int least) {
  uint32_t cut = 23 - fraction;
  LLVMValueRef odd = and_(g, shr(g, magnitude, cut), 1);
  uint32_t half = (1u << (cut - 1)) - 1;
  LLVMValueRef normal =
      shr(g, add32(g, add32(g, magnitude, k32(g, half, magnitude)), odd),
          cut);
  /* exponent field of f32 is biased by 127, of the format by 1 - least */
  uint32_t rebias = (uint32_t)(127 + least - 1) << fraction;
  normal = LLVMBuildSub(g->builder, normal, k32(g, rebias, normal), "");
  uint32_t magic = (uint32_t)(127 + least + (int)cut) << 23;
  LLVMValueRef aligned = LLVMBuildFAdd(
      g->builder, from_bits(g, magnitude),
      from_bits(g, k32(g, magic, magnitude)), "");
  LLVMValueRef subnormal = LLVMBuildSub(g->builder, to_bits(g, aligned),
                                        k32(g, magic, magnitude), "");
  LLVMValueRef is_normal =
      above(g, magnitude, ((uint32_t)(127 + least) << 23) - 1);
  return pick(g, is_normal, normal, subnormal);
}

/* One NaN pattern, as num.h has it; the hardware would keep the payload. */
static LLVMValueRef encode_f16(cgl_t *g, LLVMValueRef v) {
  if (g->target->has_f16c) {
    LLVMTypeRef half = LLVMHalfTypeInContext(g->context);
    LLVMValueRef h = LLVMBuildFPTrunc(g->builder, v, cgl_like(half, v), "");
    LLVMValueRef bits =
        LLVMBuildBitCast(g->builder, h, cgl_like(g->i16, h), "");
    return pick(g, is_nan(g, v), cgl_const_int(g, g->i16, 0x7e00, bits),
                bits);
  }
  LLVMValueRef u = to_bits(g, v);
  LLVMValueRef magnitude = and_(g, u, 0x7fffffffu);
  LLVMValueRef sign = and_(g, shr(g, u, 16), 0x8000u);
  LLVMValueRef r = round_magnitude(g, magnitude, 10, -14);
  r = pick(g, above(g, r, 0x7c00u), k32(g, 0x7c00u, r), r);
  r = pick(g, above(g, magnitude, 0x7f7fffffu), k32(g, 0x7c00u, r), r);
  r = or_(g, r, sign);
  r = pick(g, is_nan(g, v), k32(g, 0x7e00u, r), r);
  return trunc_to(g, r, g->i16);
}

/* Saturating: everything beyond the largest finite value becomes it. */
static LLVMValueRef encode_f8(cgl_t *g, LLVMValueRef v, uint32_t fraction,
                              int least, uint32_t largest, uint32_t nan) {
  LLVMValueRef u = to_bits(g, v);
  LLVMValueRef magnitude = and_(g, u, 0x7fffffffu);
  LLVMValueRef sign = and_(g, shr(g, u, 24), 0x80u);
  LLVMValueRef r = round_magnitude(g, magnitude, fraction, least);
  r = pick(g, above(g, r, largest), k32(g, largest, r), r);
  r = pick(g, above(g, magnitude, 0x7f7fffffu), k32(g, largest, r), r);
  r = or_(g, r, sign);
  r = pick(g, is_nan(g, v), k32(g, nan, r), r);
  return trunc_to(g, r, g->i8);
}

/* f64 to f32, toward zero, last bit set if anything was lost. */
static LLVMValueRef round_to_odd(cgl_t *g, LLVMValueRef v) {
  LLVMBuilderRef at = g->builder;
  LLVMValueRef t = LLVMBuildFPTrunc(at, v, cgl_like(g->f32, v), "");
  LLVMValueRef back = LLVMBuildFPExt(at, t, LLVMTypeOf(v), "");
  LLVMValueRef inexact = LLVMBuildFCmp(at, LLVMRealONE, back, v, "");
  LLVMValueRef a[1] = {back}, b[1] = {v};
  LLVMValueRef too_far = LLVMBuildFCmp(
      at, LLVMRealOGT, cgl_intrinsic(g, "llvm.fabs", a, 1),
      cgl_intrinsic(g, "llvm.fabs", b, 1), "");
  LLVMValueRef u = to_bits(g, t);
  LLVMValueRef nearer = LLVMBuildSub(at, u, k32(g, 1, u), "");
  LLVMValueRef cut = pick(g, too_far, nearer, u);
  LLVMValueRef sticky = or_(g, cut, k32(g, 1, cut));
  return from_bits(g, pick(g, inexact, sticky, u));
}

/* Of a value in f32 or f64 one rounding to the storage type; integers keep
 * their low bits. */
LLVMValueRef cgl_encode(cgl_t *g, tdsl_dtype_t dtype, LLVMValueRef value,
                        tdsl_dtype_t type) {
  LLVMBuilderRef at = g->builder;
  bool is_float = type == TDSL_DTYPE_F32 || type == TDSL_DTYPE_F64;
  switch (dtype) {
    case TDSL_DTYPE_F64:
      if (type == TDSL_DTYPE_F32) {
        return LLVMBuildFPExt(at, value, cgl_like(g->f64, value), "");
      }
      return value;
    case TDSL_DTYPE_F32:
      if (type == TDSL_DTYPE_F64) {
        return LLVMBuildFPTrunc(at, value, cgl_like(g->f32, value), "");
      }
      return value;
    case TDSL_DTYPE_F16: case TDSL_DTYPE_BF16: case TDSL_DTYPE_F8E4M3:
    case TDSL_DTYPE_F8E5M2:
      TD_CHECK(g->task, is_float, "store of a non-float as a float");
      if (type == TDSL_DTYPE_F64) value = round_to_odd(g, value);
      if (dtype == TDSL_DTYPE_F16) return encode_f16(g, value);
      if (dtype == TDSL_DTYPE_BF16) return encode_bf16(g, value);
      if (dtype == TDSL_DTYPE_F8E4M3) {
        return encode_f8(g, value, 3, -6, 0x7eu, 0x7fu);
      }
      return encode_f8(g, value, 2, -14, 0x7bu, 0x7eu);
    case TDSL_DTYPE_I64: return value;
    case TDSL_DTYPE_I32: return trunc_to(g, value, g->i32);
    case TDSL_DTYPE_I8: case TDSL_DTYPE_U8:
      return trunc_to(g, value, g->i8);
    case TDSL_DTYPE_BOOL:
      return LLVMBuildZExt(at, value, cgl_like(g->i8, value), "");
    case TDSL_DTYPE_UNSET: case TDSL_DTYPE_FORCE32: break;
  }
  TD_ICE(g->task, "no store as dtype %d", (int)dtype);
}

/* ---- casts --------------------------------------------------------------- */

/* i64 needs no clamping. */
static void int_range(tdsl_dtype_t to, int64_t *lo, int64_t *hi) {
  *lo = to == TDSL_DTYPE_I32 ? INT32_MIN : to == TDSL_DTYPE_I8 ? -128 : 0;
  *hi = to == TDSL_DTYPE_I32 ? INT32_MAX : to == TDSL_DTYPE_I8 ? 127 : 255;
}

LLVMValueRef cgl_float_to_int(cgl_t *g, LLVMValueRef v, LLVMTypeRef to) {
  LLVMTypeRef overload[2] = {cgl_like(to, v), LLVMTypeOf(v)};
  unsigned id = LLVMLookupIntrinsicID("llvm.fptosi.sat", 15);
  LLVMValueRef f = LLVMGetIntrinsicDeclaration(g->module, id, overload, 2);
  LLVMTypeRef signature = LLVMIntrinsicGetType(g->context, id, overload, 2);
  return LLVMBuildCall2(g->builder, signature, f, &v, 1, "");
}

/* Casts saturate where stores wrap (language.md 8.4). */
static LLVMValueRef cast_to_int(cgl_t *g, tdsl_dtype_t to, LLVMValueRef v,
                                tdsl_dtype_t from) {
  LLVMBuilderRef at = g->builder;
  if (from == TDSL_DTYPE_BOOL) {
    return LLVMBuildZExt(at, v, cgl_like(g->i64, v), "");
  }
  if (from == TDSL_DTYPE_F32 || from == TDSL_DTYPE_F64) {
    v = cgl_float_to_int(g, v, g->i64);
  }
  if (to == TDSL_DTYPE_I64) return v;
  int64_t lo, hi;
  int_range(to, &lo, &hi);
  LLVMValueRef l = cgl_const_int(g, g->i64, lo, v);
  LLVMValueRef h = cgl_const_int(g, g->i64, hi, v);
  v = pick(g, LLVMBuildICmp(at, LLVMIntSLT, v, l, ""), l, v);
  return pick(g, LLVMBuildICmp(at, LLVMIntSGT, v, h, ""), h, v);
}

/* ---- small integers ------------------------------------------------------ */

typedef struct span {
  int64_t lo, hi; /* inclusive, within 32 bits */
} span_t;

static const span_t any_span = {INT64_MIN, INT64_MAX};

static span_t span_of_type(tdsl_dtype_t dtype) {
  span_t s = any_span;
  if (dtype == TDSL_DTYPE_I8 || dtype == TDSL_DTYPE_U8 ||
      dtype == TDSL_DTYPE_I32) {
    int_range(dtype, &s.lo, &s.hi);
  }
  return s;
}

static bool is_small(span_t s) {
  return s.lo >= INT32_MIN && s.hi <= INT32_MAX;
}

static span_t join(span_t a, span_t b) {
  return (span_t){a.lo < b.lo ? a.lo : b.lo, a.hi > b.hi ? a.hi : b.hi};
}

static span_t products(span_t a, span_t b) {
  int64_t p[4] = {a.lo * b.lo, a.lo * b.hi, a.hi * b.lo, a.hi * b.hi};
  span_t s = {p[0], p[0]};
  for (int i = 1; i < 4; i++) s = join(s, (span_t){p[i], p[i]});
  return s;
}

/* Division rounds down, and what it leaves has the sign of the divisor. */
static span_t quotient(const kir_expr_t *e, span_t a, span_t b) {
  if (b.lo != b.hi || b.lo <= 0) return any_span;
  if (e->op == KIR_X_DIV) {
    int64_t by = b.lo, lo = a.lo / by;
    return (span_t){a.lo % by < 0 ? lo - 1 : lo, a.hi / by};
  }
  bool is_part = a.lo >= 0 && a.hi < b.lo;
  return is_part ? a : (span_t){0, b.lo - 1};
}

/* Values of an integer expression as far as its types and constants tell;
 * any_span if some part of it may leave 32 bits. */
static span_t span_of(const kir_expr_t *e, int depth) {
  enum { MOST_DEPTH = 12 };
  span_t a, b, s = any_span;
  if (depth == MOST_DEPTH || e->type != TDSL_DTYPE_I64) return any_span;
  switch (e->op) {
    case KIR_X_CONST: s = (span_t){e->u.i64, e->u.i64}; break;
    case KIR_X_LOAD: s = span_of_type(e->u.buffer->dtype); break;
    case KIR_X_CAST: s = span_of_type(e->u.to); break;
    case KIR_X_SELECT:
      s = join(span_of(e->args[1], depth + 1), span_of(e->args[2], depth + 1));
      break;
    case KIR_X_ADD: case KIR_X_SUB: case KIR_X_MUL: case KIR_X_DIV:
    case KIR_X_MOD: case KIR_X_MIN: case KIR_X_MAX:
      a = span_of(e->args[0], depth + 1);
      b = span_of(e->args[1], depth + 1);
      if (!is_small(a) || !is_small(b)) return any_span;
      if (e->op == KIR_X_ADD) s = (span_t){a.lo + b.lo, a.hi + b.hi};
      else if (e->op == KIR_X_SUB) s = (span_t){a.lo - b.hi, a.hi - b.lo};
      else if (e->op == KIR_X_MUL) s = products(a, b);
      else if (e->op == KIR_X_MIN || e->op == KIR_X_MAX) s = join(a, b);
      else s = quotient(e, a, b);
      break;
    default: break;
  }
  return is_small(s) ? s : any_span;
}

/* Integers of 32 bits become floats twice as many at a time, and LLVM carries
 * the cut back to where they were read. */
LLVMValueRef cgl_narrow(cgl_t *g, const kir_expr_t *e, LLVMValueRef v) {
  if (!cgl_is_vector(v) || !is_small(span_of(e, 0))) return v;
  return trunc_to(g, v, g->i32);
}

bool cgl_is_one_of_16(const kir_expr_t *e, int64_t *lo) {
  span_t s = span_of(e, 0);
  *lo = s.lo;
  return is_small(s) && s.hi - s.lo < 16;
}

/* Through the storage type and back to the arithmetic type of it. */
LLVMValueRef cgl_cast(cgl_t *g, tdsl_dtype_t to, LLVMValueRef v,
                      tdsl_dtype_t from) {
  LLVMBuilderRef at = g->builder;
  switch (to) {
    case TDSL_DTYPE_BOOL:
      if (from == TDSL_DTYPE_BOOL) return v;
      if (from == TDSL_DTYPE_I64) {
        return LLVMBuildICmp(at, LLVMIntNE, v, LLVMConstNull(LLVMTypeOf(v)),
                             "");
      }
      return LLVMBuildFCmp(at, LLVMRealUNE, v, LLVMConstNull(LLVMTypeOf(v)),
                           "");
    case TDSL_DTYPE_I64: case TDSL_DTYPE_I32: case TDSL_DTYPE_I8:
    case TDSL_DTYPE_U8:
      return cast_to_int(g, to, v, from);
    case TDSL_DTYPE_F64:
      if (from == TDSL_DTYPE_F64) return v;
      if (from == TDSL_DTYPE_F32) {
        return LLVMBuildFPExt(at, v, cgl_like(g->f64, v), "");
      }
      if (from == TDSL_DTYPE_BOOL) {
        return LLVMBuildUIToFP(at, v, cgl_like(g->f64, v), "");
      }
      return LLVMBuildSIToFP(at, v, cgl_like(g->f64, v), "");
    case TDSL_DTYPE_F32:
      if (from == TDSL_DTYPE_F32) return v;
      if (from == TDSL_DTYPE_F64) {
        return LLVMBuildFPTrunc(at, v, cgl_like(g->f32, v), "");
      }
      if (from == TDSL_DTYPE_BOOL) {
        return LLVMBuildUIToFP(at, v, cgl_like(g->f32, v), "");
      }
      return LLVMBuildSIToFP(at, v, cgl_like(g->f32, v), "");
    case TDSL_DTYPE_F16: case TDSL_DTYPE_BF16: case TDSL_DTYPE_F8E4M3:
    case TDSL_DTYPE_F8E5M2: {
      tdsl_dtype_t type = from;
      if (from != TDSL_DTYPE_F32 && from != TDSL_DTYPE_F64) {
        v = cgl_cast(g, TDSL_DTYPE_F64, v, from);
        type = TDSL_DTYPE_F64;
      }
      return cgl_decode(g, to, cgl_encode(g, to, v, type));
    }
    case TDSL_DTYPE_UNSET: case TDSL_DTYPE_FORCE32: break;
  }
  TD_ICE(g->task, "cast to dtype %d", (int)to);
}

/* f32 with the last 13 fraction bits rounded away, to nearest even. */
LLVMValueRef cgl_round_tf32(cgl_t *g, LLVMValueRef v) {
  LLVMValueRef u = to_bits(g, v);
  LLVMValueRef odd = and_(g, shr(g, u, 13), 1);
  LLVMValueRef r = add32(g, add32(g, u, k32(g, 0xfffu, u)), odd);
  r = and_(g, r, 0xffffe000u);
  LLVMValueRef finite = LLVMBuildICmp(
      g->builder, LLVMIntULT, and_(g, u, 0x7fffffffu),
      k32(g, 0x7f800000u, u), "");
  return from_bits(g, pick(g, finite, r, u));
}
