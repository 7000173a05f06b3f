/* llvm_math.c: functions of f32 and f64 values, in line and lane-parallel.
 *
 * f32 exp, exp2, tanh and erf are polynomials in f32; log, log2, pow, sin
 * and cos go through f64 polynomials and round once at the end, so that they
 * are within about half a unit in the last place.  Coefficients are minimax
 * fits (weighted least squares with Lawson's iteration, relative error as
 * noted).  Stated accuracy: ir/tolerance.def.  With AVX-512 exp and exp2
 * are made by other instructions, with equal bits, and erf by a table
 * (llvm_wide.c).  f64 functions call the helper library lane by lane.
 *
 * Special cases: language.md 7.  A subnormal result may be 0. */
#include "codegen/llvm/llvm_impl.h"

static LLVMValueRef fmul(cgl_t *g, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildFMul(g->builder, a, b, "");
}

static LLVMValueRef fsub(cgl_t *g, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildFSub(g->builder, a, b, "");
}

static LLVMValueRef fadd(cgl_t *g, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildFAdd(g->builder, a, b, "");
}

static LLVMValueRef fdiv(cgl_t *g, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildFDiv(g->builder, a, b, "");
}

/* On a target without FMA instructions llvm.fma would call a library
 * function; polynomials here do not need its single rounding. */
static LLVMValueRef mad(cgl_t *g, LLVMValueRef a, LLVMValueRef b,
                        LLVMValueRef c) {
  if (!g->target->has_fma) {
    return fadd(g, fmul(g, a, b), c);
  }
  LLVMValueRef args[3] = {a, b, c};
  return cgl_intrinsic(g, "llvm.fma", args, 3);
}

/* The product of two f32 is exact in f64, and so is its sum with a third but
 * for one rounding.  TwoSum finds what that lost; if anything, the sum is
 * moved to the odd neighbour on that side, from where rounding to f32 cannot
 * see a tie that is none (rounding to odd). */
static LLVMValueRef fma_f32_by_f64(cgl_t *g, LLVMValueRef a, LLVMValueRef b,
                                   LLVMValueRef c) {
  LLVMBuilderRef at = g->builder;
  LLVMTypeRef wide = cgl_like(g->f64, a), bits = cgl_like(g->i64, a);
  LLVMValueRef p = fmul(g, LLVMBuildFPExt(at, a, wide, ""),
                        LLVMBuildFPExt(at, b, wide, ""));
  LLVMValueRef z = LLVMBuildFPExt(at, c, wide, "");
  LLVMValueRef s = fadd(g, p, z);
  LLVMValueRef part = fsub(g, s, p);
  LLVMValueRef lost =
      fadd(g, fsub(g, p, fsub(g, s, part)), fsub(g, z, part));
  LLVMValueRef u = LLVMBuildBitCast(at, s, bits, "");
  LLVMValueRef one = cgl_const_int(g, g->i64, 1, u);
  LLVMValueRef zero = LLVMConstNull(LLVMTypeOf(u));
  LLVMValueRef is_even = LLVMBuildICmp(at, LLVMIntEQ,
                                       LLVMBuildAnd(at, u, one, ""), zero, "");
  LLVMValueRef moves = LLVMBuildAnd(
      at, is_even,
      LLVMBuildFCmp(at, LLVMRealONE, lost, LLVMConstNull(wide), ""), "");
  LLVMValueRef signs =
      LLVMBuildXor(at, u, LLVMBuildBitCast(at, lost, bits, ""), "");
  LLVMValueRef outward = LLVMBuildICmp(at, LLVMIntSGE, signs, zero, "");
  LLVMValueRef moved =
      LLVMBuildSelect(at, outward, LLVMBuildAdd(at, u, one, ""),
                      LLVMBuildSub(at, u, one, ""), "");
  u = LLVMBuildSelect(at, moves, moved, u, "");
  return LLVMBuildFPTrunc(at, LLVMBuildBitCast(at, u, wide, ""),
                          LLVMTypeOf(a), "");
}

/* The above for four lanes as a function of the module: some thirty
 * instructions are too many to repeat in every corner of a micro-kernel. */
static LLVMValueRef fma_function(cgl_t *g, LLVMTypeRef four,
                                 LLVMTypeRef *signature) {
  LLVMTypeRef types[3] = {four, four, four};
  *signature = LLVMFunctionType(four, types, 3, 0);
  LLVMValueRef f = LLVMGetNamedFunction(g->module, "fma.four");
  if (f != NULL) return f;
  LLVMBasicBlockRef here = LLVMGetInsertBlock(g->builder);
  f = LLVMAddFunction(g->module, "fma.four", *signature);
  LLVMSetLinkage(f, LLVMInternalLinkage);
  cgl_set_target(g, f);
  LLVMPositionBuilderAtEnd(
      g->builder, LLVMAppendBasicBlockInContext(g->context, f, "entry"));
  LLVMBuildRet(g->builder,
               fma_f32_by_f64(g, LLVMGetParam(f, 0), LLVMGetParam(f, 1),
                              LLVMGetParam(f, 2)));
  LLVMPositionBuilderAtEnd(g->builder, here);
  return f;
}

/* Lanes first .. first + n - 1 of v; those beyond its end are poison. */
static LLVMValueRef lanes_of(cgl_t *g, LLVMValueRef v, uint32_t first,
                             uint32_t n) {
  LLVMValueRef order[64];
  uint32_t have = LLVMGetVectorSize(LLVMTypeOf(v));
  for (uint32_t i = 0; i < n; i++) {
    order[i] = first + i < have ? LLVMConstInt(g->i32, first + i, 0)
                                : LLVMGetPoison(g->i32);
  }
  return LLVMBuildShuffleVector(g->builder, v, LLVMGetPoison(LLVMTypeOf(v)),
                                LLVMConstVector(order, n), "");
}

static LLVMValueRef fma_by_fours(cgl_t *g, LLVMValueRef *args) {
  LLVMTypeRef signature, four = LLVMVectorType(g->f32, 4);
  LLVMValueRef f = fma_function(g, four, &signature);
  uint32_t n = LLVMGetVectorSize(LLVMTypeOf(args[0]));
  LLVMValueRef out = LLVMGetPoison(LLVMTypeOf(args[0])), order[64];
  for (uint32_t first = 0; first < n; first += 4) {
    LLVMValueRef part[3];
    for (int k = 0; k < 3; k++) part[k] = lanes_of(g, args[k], first, 4);
    LLVMValueRef v =
        LLVMBuildCall2(g->builder, signature, f, part, 3, "");
    for (uint32_t i = 0; i < n; i++) {
      bool is_new = i >= first && i < first + 4;
      order[i] = LLVMConstInt(g->i32, is_new ? n + i - first : i, 0);
    }
    out = LLVMBuildShuffleVector(g->builder, out, lanes_of(g, v, 0, n),
                                 LLVMConstVector(order, n), "");
  }
  return out;
}

LLVMValueRef cgl_fma(cgl_t *g, LLVMValueRef a, LLVMValueRef b,
                     LLVMValueRef c) {
  LLVMValueRef args[3] = {a, b, c};
  if (g->target->has_fma) return cgl_intrinsic(g, "llvm.fma", args, 3);
  LLVMTypeRef type = LLVMTypeOf(a);
  if (cgl_is_vector(a)) type = LLVMGetElementType(type);
  if (type == g->f64) return cgl_helper(g, "fma", g->f64, args, 3, g->mask);
  return cgl_is_vector(a) ? fma_by_fours(g, args)
                          : fma_f32_by_f64(g, a, b, c);
}

static LLVMValueRef pick(cgl_t *g, LLVMValueRef c, LLVMValueRef a,
                         LLVMValueRef b) {
  return LLVMBuildSelect(g->builder, c, a, b, "");
}

static bool is_f64(cgl_t *g, LLVMValueRef v) {
  LLVMTypeRef t = LLVMTypeOf(v);
  if (cgl_is_vector(v)) t = LLVMGetElementType(t);
  return t == g->f64;
}

/* Of the type of `like`; f32 constants are rounded here, once. */
static LLVMValueRef constant(cgl_t *g, double v, LLVMValueRef like) {
  return is_f64(g, like) ? cgl_const_f64(g, v, like)
                         : cgl_const_f32(g, (float)v, like);
}

/* Comparison with a number; the predicate decides what a NaN does. */
static LLVMValueRef test(cgl_t *g, LLVMRealPredicate p, LLVMValueRef a,
                         double limit) {
  return LLVMBuildFCmp(g->builder, p, a, constant(g, limit, a), "");
}

/* c[0] + c[1] x + ... by Horner's rule. */
static LLVMValueRef polynomial(cgl_t *g, const double *c, int count,
                               LLVMValueRef x) {
  LLVMValueRef r = constant(g, c[count - 1], x);
  for (int i = count - 2; i >= 0; i--) {
    r = mad(g, r, x, constant(g, c[i], x));
  }
  return r;
}

static LLVMValueRef absolute(cgl_t *g, LLVMValueRef v) {
  return cgl_intrinsic(g, "llvm.fabs", &v, 1);
}

static LLVMValueRef copysign_of(cgl_t *g, LLVMValueRef v, LLVMValueRef sign) {
  LLVMValueRef args[2] = {v, sign};
  return cgl_intrinsic(g, "llvm.copysign", args, 2);
}

static LLVMValueRef to_f64(cgl_t *g, LLVMValueRef v) {
  return LLVMBuildFPExt(g->builder, v, cgl_like(g->f64, v), "");
}

static LLVMValueRef to_f32(cgl_t *g, LLVMValueRef v) {
  return LLVMBuildFPTrunc(g->builder, v, cgl_like(g->f32, v), "");
}

/* ---- exponentials, f32 --------------------------------------------------- */

/* 2^f for |f| <= 1/2; relative error 1.9e-9. */
static const double exp2_f32[] = {1.0,           0.693147206,   0.240226469,
                                  0.0555032878,  0.00961848899, 0.00133999311,
                                  0.00015345802};

LLVMValueRef cgl_exp2_fraction(cgl_t *g, LLVMValueRef f) {
  return polynomial(g, exp2_f32, 7, f);
}

/* 2^(n + f): adds n to the exponent of 2^f; z holds n in its low bits.  0
 * where x is below lo: chosen between integers, which is one instruction with
 * the addition where additions have masks. */
static LLVMValueRef scale_by_bits(cgl_t *g, LLVMValueRef p, LLVMValueRef z,
                                  LLVMValueRef x, double lo) {
  LLVMTypeRef bits = cgl_like(g->i32, p);
  LLVMValueRef zi = LLVMBuildBitCast(g->builder, z, bits, "");
  LLVMValueRef pi = LLVMBuildBitCast(g->builder, p, bits, "");
  LLVMValueRef n = LLVMBuildShl(g->builder, zi,
                                cgl_const_int(g, g->i32, 23, zi), "");
  LLVMValueRef sum = LLVMBuildAdd(g->builder, pi, n, "");
  sum = pick(g, test(g, LLVMRealOLT, x, lo), LLVMConstNull(bits), sum);
  return LLVMBuildBitCast(g->builder, sum, LLVMTypeOf(p), "");
}

/* Above hi the result is infinity; NaN stays.  x + inf is the infinity above
 * hi and the NaN of a NaN, in one masked addition. */
static LLVMValueRef exp_end(cgl_t *g, LLVMValueRef x, LLVMValueRef r,
                            double hi) {
  LLVMValueRef end = fadd(g, x, constant(g, (double)__builtin_inf(), x));
  return pick(g, test(g, LLVMRealUGT, x, hi), end, r);
}

static LLVMValueRef exp2_core(cgl_t *g, LLVMValueRef t);

/* Adding 1.5 * 2^23 rounds to the nearest integer and leaves it in the low
 * bits; the rest f is exact up to the second constant of log2 e. */
static LLVMValueRef exp_f32(cgl_t *g, LLVMValueRef x) {
  if (g->target->has_avx512) return cgl_wide_exp(g, x);
  if (!g->target->has_fma) { /* the rest would not be exact */
    LLVMValueRef wide = to_f64(g, x);
    LLVMValueRef t = fmul(g, wide, constant(g, 1.4426950408889634, wide));
    LLVMValueRef r = to_f32(g, exp2_core(g, t));
    return pick(g, LLVMBuildFCmp(g->builder, LLVMRealUNO, x, x, ""), x, r);
  }
  const double magic = 12582912.0, hi = 1.44269502, lo = 1.92596299e-8;
  LLVMValueRef m = constant(g, magic, x);
  LLVMValueRef z = mad(g, x, constant(g, hi, x), m);
  LLVMValueRef n = fsub(g, z, m);
  LLVMValueRef minus_n = LLVMBuildFNeg(g->builder, n, "");
  LLVMValueRef f = mad(g, x, constant(g, hi, x), minus_n);
  f = mad(g, x, constant(g, lo, x), f);
  LLVMValueRef p = cgl_exp2_fraction(g, f);
  return exp_end(g, x, scale_by_bits(g, p, z, x, -87.33654), 88.72283);
}

static LLVMValueRef exp2_of_f32(cgl_t *g, LLVMValueRef x) {
  if (g->target->has_avx512) return cgl_wide_exp2(g, x);
  LLVMValueRef m = constant(g, 12582912.0, x);
  LLVMValueRef z = fadd(g, x, m);
  LLVMValueRef f = fsub(g, x, fsub(g, z, m));
  LLVMValueRef p = cgl_exp2_fraction(g, f);
  /* up to 127.5 n is 127; above it is 128 and 2^f < 1 keeps it finite */
  return exp_end(g, x, scale_by_bits(g, p, z, x, -126.0), 127.9999962);
}

/* |x| < 0.7: x + x p(x^2), relative error 1.4e-8; else 1 - 2/(e^2x + 1). */
static LLVMValueRef tanh_f32(cgl_t *g, LLVMValueRef x) {
  static const double c[] = {0.999999986 - 1, -0.33333122,  0.133282269,
                             -0.0535124742,   0.0199865136, -0.00505227268};
  LLVMValueRef a = absolute(g, x);
  LLVMValueRef s = fmul(g, x, x);
  LLVMValueRef small = mad(g, x, polynomial(g, c, 6, s), x);
  LLVMValueRef e = exp_f32(g, fadd(g, a, a));
  LLVMValueRef one = constant(g, 1, x);
  LLVMValueRef large =
      fsub(g, one, fdiv(g, constant(g, 2, x), fadd(g, e, one)));
  large = copysign_of(g, large, x);
  LLVMValueRef r = pick(g, test(g, LLVMRealOLT, a, 0.7), small, large);
  return pick(g, LLVMBuildFCmp(g->builder, LLVMRealUNO, x, x, ""), x, r);
}

/* |x| < 1: x + x p(x^2), relative error 3.2e-11 before rounding; else
 * 1 - exp(-x q(x)) with q fitted on 0.95 .. 4.1; beyond, 1. */
static LLVMValueRef erf_f32(cgl_t *g, LLVMValueRef x) {
  if (g->target->has_avx512) return cgl_wide_erf(g, x);
  static const double near_zero[] = {
      1.12837917 - 1, -0.376126385,   0.112837827,    -0.0268654458,
      0.00522107486, -0.000848471121, 0.000112705427, -9.68013123e-06};
  static const double far[] = {1.1286657,       0.635082016,  0.106350593,
                               -0.0238592964,   0.00368811987,
                               -0.000333963196, 1.23397517e-05};
  LLVMValueRef a = absolute(g, x);
  LLVMValueRef s = fmul(g, x, x);
  LLVMValueRef small = mad(g, x, polynomial(g, near_zero, 8, s), x);
  LLVMValueRef limit = constant(g, 4.1, x);
  LLVMValueRef t =
      pick(g, test(g, LLVMRealOLT, a, 4.1), a, limit);
  LLVMValueRef q = fmul(g, t, polynomial(g, far, 7, t));
  LLVMValueRef e = exp_f32(g, LLVMBuildFNeg(g->builder, q, ""));
  LLVMValueRef large = copysign_of(g, fsub(g, constant(g, 1, x), e), x);
  LLVMValueRef r = pick(g, test(g, LLVMRealOLT, a, 1.0), small, large);
  return pick(g, LLVMBuildFCmp(g->builder, LLVMRealUNO, x, x, ""), x, r);
}

/* ---- logarithms and powers, through f64 ---------------------------------- */

/* log2 of a positive finite normal f64: x = 2^e m with m in sqrt(1/2) ..
 * sqrt(2); log2 m = 2/ln 2 atanh((m-1)/(m+1)); relative error 3.6e-15. */
static LLVMValueRef log2_core(cgl_t *g, LLVMValueRef x) {
  static const double c[] = {2.8853900817779281,  0.96179669392261702,
                             0.577078018124623,   0.41219826989495689,
                             0.32062493322571683, 0.26119384357733083,
                             0.24565029694332458};
  LLVMBuilderRef at = g->builder;
  LLVMTypeRef bits = cgl_like(g->i64, x);
  LLVMValueRef u = LLVMBuildBitCast(at, x, bits, "");
  /* move the range so that the exponent field changes at sqrt(1/2) */
  const int64_t half = 0x3fe6a09e667f3bcd;
  LLVMValueRef moved =
      LLVMBuildSub(at, u, cgl_const_int(g, g->i64, half, u), "");
  LLVMValueRef e =
      LLVMBuildAShr(at, moved, cgl_const_int(g, g->i64, 52, u), "");
  LLVMValueRef back =
      LLVMBuildShl(at, e, cgl_const_int(g, g->i64, 52, u), "");
  LLVMValueRef m = LLVMBuildBitCast(at, LLVMBuildSub(at, u, back, ""),
                                    LLVMTypeOf(x), "");
  LLVMValueRef one = constant(g, 1, x);
  LLVMValueRef s = fdiv(g, fsub(g, m, one), fadd(g, m, one));
  LLVMValueRef l = fmul(g, s, polynomial(g, c, 7, fmul(g, s, s)));
  LLVMValueRef n = LLVMBuildSIToFP(at, e, LLVMTypeOf(x), "");
  return fadd(g, n, l);
}

/* Zero gives -inf, infinity itself, negatives and NaN a NaN. */
static LLVMValueRef log_ends(cgl_t *g, LLVMValueRef x, LLVMValueRef r) {
  double inf = (double)__builtin_inf();
  r = pick(g, test(g, LLVMRealOEQ, x, inf), x, r);
  r = pick(g, test(g, LLVMRealOEQ, x, 0), constant(g, -inf, x), r);
  return pick(g, test(g, LLVMRealULT, x, 0),
              constant(g, (double)__builtin_nan(""), x), r);
}

/* In f64 all the way: the last rounding to f32 is the only error. */
static LLVMValueRef log_of_f32(cgl_t *g, LLVMValueRef x, double factor) {
  LLVMValueRef r = log2_core(g, to_f64(g, x));
  if (factor != 1.0) r = fmul(g, r, constant(g, factor, r));
  return log_ends(g, x, to_f32(g, r));
}

/* 2^t in f64, relative error 2e-14; t beyond -1100 .. 1100 is clamped, which
 * is beyond f32 on both sides. */
static LLVMValueRef exp2_core(cgl_t *g, LLVMValueRef t) {
  static const double c[] = {
      1.0000000000000093,    0.69314718055989322,   0.24022650695675313,
      0.055504108667269778,  0.0096181291879563983, 0.0013333557819389321,
      0.00015403437170210166, 1.5252880835443957e-05, 1.3259011422694585e-06,
      1.0168213626716384e-07};
  LLVMBuilderRef at = g->builder;
  t = pick(g, test(g, LLVMRealOLT, t, -1000), constant(g, -1000, t), t);
  t = pick(g, test(g, LLVMRealOGT, t, 1000), constant(g, 1000, t), t);
  LLVMValueRef magic = constant(g, 6755399441055744.0, t);
  LLVMValueRef z = fadd(g, t, magic);
  LLVMValueRef f = fsub(g, t, fsub(g, z, magic));
  LLVMValueRef p = polynomial(g, c, 10, f);
  LLVMTypeRef bits = cgl_like(g->i64, t);
  LLVMValueRef n = LLVMBuildShl(at, LLVMBuildBitCast(at, z, bits, ""),
                                cgl_const_int(g, g->i64, 52, t), "");
  LLVMValueRef sum =
      LLVMBuildAdd(at, LLVMBuildBitCast(at, p, bits, ""), n, "");
  return LLVMBuildBitCast(at, sum, LLVMTypeOf(t), "");
}

/* x ^ y with the special cases of IEEE pow.  An integer exponent (`is_whole`)
 * takes negative bases; a float one gives NaN for them. */
static LLVMValueRef pow_f32(cgl_t *g, LLVMValueRef x, LLVMValueRef y,
                            LLVMValueRef whole) {
  LLVMBuilderRef at = g->builder;
  double inf = (double)__builtin_inf();
  LLVMValueRef a = absolute(g, x);
  LLVMValueRef y64 = whole != NULL
                         ? LLVMBuildSIToFP(at, whole, cgl_like(g->f64, x), "")
                         : to_f64(g, y);
  LLVMValueRef a64 = to_f64(g, a);
  LLVMValueRef l = log_ends(g, a64, log2_core(g, a64));
  LLVMValueRef t = fmul(g, y64, l);
  LLVMValueRef r = to_f32(g, exp2_core(g, t));
  r = pick(g, LLVMBuildFCmp(at, LLVMRealUNO, t, t, ""),
           constant(g, (double)__builtin_nan(""), x), r);
  LLVMValueRef unit =
      LLVMBuildOr(at, test(g, LLVMRealOEQ, y64, 0),
                  test(g, LLVMRealOEQ, a64, 1), "");
  r = pick(g, unit, constant(g, 1, x), r);
  if (whole == NULL) {
    LLVMValueRef bad = LLVMBuildAnd(at, test(g, LLVMRealOLT, x, 0),
                                    test(g, LLVMRealUNE, y64, 0), "");
    r = pick(g, bad, constant(g, (double)__builtin_nan(""), x), r);
    r = pick(g, LLVMBuildAnd(at, test(g, LLVMRealOEQ, x, -inf),
                             test(g, LLVMRealOEQ, y64, 0), ""),
             constant(g, 1, x), r);
    /* -0 to an odd power keeps its sign; an odd f32 is below 2^24 */
    LLVMValueRef n = cgl_float_to_int(g, y, g->i32);
    LLVMValueRef back = LLVMBuildSIToFP(at, n, LLVMTypeOf(x), "");
    LLVMValueRef is_odd = LLVMBuildAnd(
        at, LLVMBuildTrunc(at, n, cgl_like(g->i1, n), ""),
        LLVMBuildFCmp(at, LLVMRealOEQ, back, y, ""), "");
    LLVMValueRef matters =
        LLVMBuildAnd(at, test(g, LLVMRealOEQ, x, 0),
                     test(g, LLVMRealOLT, absolute(g, y), 0x1p24), "");
    return pick(g, LLVMBuildAnd(at, matters, is_odd, ""),
                copysign_of(g, r, x), r);
  }
  LLVMValueRef odd = LLVMBuildTrunc(at, whole, cgl_like(g->i1, whole), "");
  return pick(g, odd, copysign_of(g, r, x), r);
}

/* ---- sine and cosine, through f64 ---------------------------------------- */

/* Beyond this the two-part pi/2 loses the last bits: the helper takes over. */
static const double sine_limit = 1e6;

static LLVMValueRef sine_core(cgl_t *g, LLVMValueRef x, bool is_cosine) {
  static const double sines[] = {0.99999999999999556,   -0.16666666666615132,
                                 0.0083333333236049415, -0.00019841263141634968,
                                 2.7555237101205446e-06,
                                 -2.4753944825400265e-08};
  static const double cosines[] = {
      0.99999999999994249,  -0.49999999999319811,   0.041666666539187276,
      -0.0013888880149285851, 2.4798877901359704e-05, -2.7169772943921464e-07};
  LLVMBuilderRef at = g->builder;
  LLVMValueRef magic = constant(g, 6755399441055744.0, x);
  LLVMValueRef z = mad(g, x, constant(g, 0.63661977236758134, x), magic);
  LLVMValueRef n = fsub(g, z, magic);
  /* pi/2 = 33 bits + rest, so that n * first part is exact for n < 2^20 */
  LLVMValueRef r = fsub(g, x, fmul(g, n, constant(g, 1.5707963267341256, x)));
  r = fsub(g, r, fmul(g, n, constant(g, 6.0771005065061922e-11, x)));
  LLVMValueRef s2 = fmul(g, r, r);
  LLVMValueRef s = fmul(g, r, polynomial(g, sines, 6, s2));
  LLVMValueRef c = polynomial(g, cosines, 6, s2);
  LLVMValueRef q = LLVMBuildBitCast(at, z, cgl_like(g->i64, x), "");
  if (is_cosine) {
    q = LLVMBuildAdd(at, q, cgl_const_int(g, g->i64, 1, q), "");
  }
  LLVMTypeRef bit = cgl_like(g->i1, q);
  LLVMValueRef use_c = LLVMBuildTrunc(at, q, bit, "");
  LLVMValueRef flip = LLVMBuildTrunc(
      at, LLVMBuildLShr(at, q, cgl_const_int(g, g->i64, 1, q), ""), bit, "");
  LLVMValueRef v = pick(g, use_c, c, s);
  return pick(g, flip, LLVMBuildFNeg(at, v, ""), v);
}

/* Large arguments are rare, so they cost a branch and not every lane. */
static LLVMValueRef sine_f32(cgl_t *g, LLVMValueRef x, bool is_cosine) {
  LLVMBuilderRef at = g->builder;
  LLVMValueRef x64 = to_f64(g, x);
  LLVMValueRef fast = to_f32(g, sine_core(g, x64, is_cosine));
  /* -0 stays -0 for the sine */
  if (!is_cosine) fast = pick(g, test(g, LLVMRealOEQ, x, 0), x, fast);
  LLVMValueRef large = test(g, LLVMRealUGT, absolute(g, x), sine_limit);
  LLVMBasicBlockRef before = LLVMGetInsertBlock(at);
  LLVMBasicBlockRef slow =
      LLVMAppendBasicBlockInContext(g->context, g->function, "large");
  LLVMBasicBlockRef join =
      LLVMAppendBasicBlockInContext(g->context, g->function, "join");
  LLVMBuildCondBr(at, cgl_any_lane(g, large), slow, join);
  LLVMPositionBuilderAtEnd(at, slow);
  LLVMValueRef exact = to_f32(
      g, cgl_helper(g, is_cosine ? "rcpu_cos" : "rcpu_sin", g->f64, &x64, 1,
                    cgl_is_vector(large) ? large : NULL));
  LLVMValueRef mixed = pick(g, large, exact, fast);
  LLVMBasicBlockRef slow_end = LLVMGetInsertBlock(at);
  LLVMBuildBr(at, join);
  LLVMPositionBuilderAtEnd(at, join);
  LLVMValueRef phi = LLVMBuildPhi(at, LLVMTypeOf(fast), "");
  LLVMValueRef values[2] = {fast, mixed};
  LLVMBasicBlockRef blocks[2] = {before, slow_end};
  LLVMAddIncoming(phi, values, blocks, 2);
  return phi;
}

/* ---- the table ----------------------------------------------------------- */

/* Two roundings; rsqrt(-0) is -inf, as IEEE has it. */
static LLVMValueRef rsqrt(cgl_t *g, LLVMValueRef a) {
  LLVMValueRef root = cgl_intrinsic(g, "llvm.sqrt", &a, 1);
  return fdiv(g, constant(g, 1, a), root);
}

/* f64 is for references and statistics, not for speed. */
static LLVMValueRef math_f64(cgl_t *g, kir_x_t op, LLVMValueRef a) {
  const char *name = NULL;
  switch ((int)op) {
    case KIR_X_EXP: name = "rcpu_exp"; break;
    case KIR_X_EXP2: name = "rcpu_exp2"; break;
    case KIR_X_LOG: name = "rcpu_log"; break;
    case KIR_X_LOG2: name = "rcpu_log2"; break;
    case KIR_X_SIN: name = "rcpu_sin"; break;
    case KIR_X_COS: name = "rcpu_cos"; break;
    case KIR_X_TANH: name = "rcpu_tanh"; break;
    case KIR_X_ERF: name = "rcpu_erf"; break;
    default: TD_ICE(g->task, "f64 function %d", (int)op);
  }
  return cgl_helper(g, name, g->f64, &a, 1, g->mask);
}

/* The integer exponent of a power, or NULL if it is a float. */
static LLVMValueRef whole_exponent(cgl_t *g, LLVMValueRef b) {
  LLVMTypeRef t = LLVMTypeOf(b);
  if (cgl_is_vector(b)) t = LLVMGetElementType(t);
  return t == g->i64 ? b : NULL;
}

/* `b`: second operand of pow, else NULL. */
LLVMValueRef cgl_math(cgl_t *g, kir_x_t op, LLVMValueRef a, LLVMValueRef b) {
  if (op == KIR_X_RSQRT) return rsqrt(g, a);
  if (op == KIR_X_POW) {
    LLVMValueRef whole = whole_exponent(g, b);
    if (!is_f64(g, a)) return pow_f32(g, a, b, whole);
    LLVMValueRef args[2] = {a, b};
    return cgl_helper(g, whole != NULL ? "rcpu_powi" : "rcpu_pow", g->f64,
                      args, 2, g->mask);
  }
  if (is_f64(g, a)) return math_f64(g, op, a);
  switch ((int)op) {
    case KIR_X_EXP: return exp_f32(g, a);
    case KIR_X_EXP2: return exp2_of_f32(g, a);
    case KIR_X_LOG: return log_of_f32(g, a, 0.69314718055994531);
    case KIR_X_LOG2: return log_of_f32(g, a, 1.0);
    case KIR_X_SIN: return sine_f32(g, a, false);
    case KIR_X_COS: return sine_f32(g, a, true);
    case KIR_X_TANH: return tanh_f32(g, a);
    case KIR_X_ERF: return erf_f32(g, a);
    default: TD_ICE(g->task, "f32 function %d", (int)op);
  }
}

/* ---- uniform: Philox 4x32, 10 rounds, in 64-bit lanes -------------------- */

static LLVMValueRef low32(cgl_t *g, LLVMValueRef v) {
  return LLVMBuildAnd(g->builder, v,
                      cgl_const_int(g, g->i64, 0xffffffffLL, v), "");
}

static LLVMValueRef high32(cgl_t *g, LLVMValueRef v) {
  return LLVMBuildLShr(g->builder, v, cgl_const_int(g, g->i64, 32, v), "");
}

static LLVMValueRef xor3(cgl_t *g, LLVMValueRef a, LLVMValueRef b,
                         LLVMValueRef c) {
  return LLVMBuildXor(g->builder, LLVMBuildXor(g->builder, a, b, ""), c, "");
}

LLVMValueRef cgl_uniform(cgl_t *g, LLVMValueRef seed, LLVMValueRef *counters,
                         uint32_t count) {
  LLVMBuilderRef at = g->builder;
  LLVMValueRef last = counters[count - 1];
  LLVMValueRef c[4], key[2] = {low32(g, seed), high32(g, seed)};
  c[0] = low32(g, LLVMBuildLShr(at, last,
                                cgl_const_int(g, g->i64, 2, last), ""));
  for (uint32_t i = 1; i < 4; i++) {
    c[i] = i < count ? low32(g, counters[count - 1 - i])
                     : LLVMConstNull(LLVMTypeOf(last));
  }
  for (int round = 0; round < 10; round++) {
    LLVMValueRef p0 = LLVMBuildMul(
        at, c[0], cgl_const_int(g, g->i64, 0xd2511f53LL, last), "");
    LLVMValueRef p2 = LLVMBuildMul(
        at, c[2], cgl_const_int(g, g->i64, 0xcd9e8d57LL, last), "");
    LLVMValueRef n0 = xor3(g, high32(g, p2), c[1], key[0]);
    LLVMValueRef n2 = xor3(g, high32(g, p0), c[3], key[1]);
    c[0] = n0;
    c[1] = low32(g, p2);
    c[2] = n2;
    c[3] = low32(g, p0);
    key[0] = low32(g, LLVMBuildAdd(
                          at, key[0],
                          cgl_const_int(g, g->i64, 0x9e3779b9LL, last), ""));
    key[1] = low32(g, LLVMBuildAdd(
                          at, key[1],
                          cgl_const_int(g, g->i64, 0xbb67ae85LL, last), ""));
  }
  LLVMValueRef which =
      LLVMBuildAnd(at, last, cgl_const_int(g, g->i64, 3, last), "");
  LLVMValueRef word = c[0];
  for (int i = 1; i < 4; i++) {
    LLVMValueRef is_i = LLVMBuildICmp(at, LLVMIntEQ, which,
                                      cgl_const_int(g, g->i64, i, last), "");
    word = pick(g, is_i, c[i], word);
  }
  word = LLVMBuildLShr(at, word, cgl_const_int(g, g->i64, 8, last), "");
  LLVMValueRef narrow = LLVMBuildTrunc(at, word, cgl_like(g->i32, word), "");
  LLVMValueRef f =
      LLVMBuildUIToFP(at, narrow, cgl_like(g->f32, narrow), "");
  return fmul(g, f, cgl_const_f32(g, 0x1p-24f, f));
}
