/* llvm_wide.c: functions of f32 with the instructions of AVX-512 that know
 * ends, zeros and NaN by themselves or look tables up in a register: sixteen
 * lanes, whatever the width of the code around.
 *
 * A scalar goes through one lane of sixteen, so that an element has the same
 * bits wherever it is computed.  Coefficients are minimax fits (Lawson's
 * iteration in 40 digits), relative errors as noted; with the roundings they
 * stay within ir/tolerance.def. */
#include <string.h>

#include "codegen/llvm/llvm_impl.h"

enum { SIXTEEN = 16, TO_NEAREST_AS_IS = 4 };

/* An intrinsic that has one type only. */
static LLVMValueRef special(cgl_t *g, const char *name, LLVMValueRef *args,
                            uint32_t count) {
  unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
  TD_CHECK(g->task, id != 0, "no intrinsic %s", name);
  LLVMValueRef f = LLVMGetIntrinsicDeclaration(g->module, id, NULL, 0);
  LLVMTypeRef signature = LLVMIntrinsicGetType(g->context, id, NULL, 0);
  return LLVMBuildCall2(g->builder, signature, f, args, count, "");
}

static LLVMValueRef table(cgl_t *g, const float *values) {
  LLVMValueRef items[SIXTEEN];
  for (int i = 0; i < SIXTEEN; i++) {
    items[i] = LLVMConstReal(g->f32, (double)values[i]);
  }
  return LLVMConstVector(items, SIXTEEN);
}

static LLVMValueRef fma16(cgl_t *g, LLVMValueRef a, LLVMValueRef b,
                          LLVMValueRef c) {
  LLVMValueRef args[3] = {a, b, c};
  return cgl_intrinsic(g, "llvm.fma", args, 3);
}

static LLVMValueRef number(cgl_t *g, double v, LLVMValueRef like) {
  return cgl_const_f32(g, (float)v, like);
}

static LLVMValueRef as_bits(cgl_t *g, LLVMValueRef v) {
  return LLVMBuildBitCast(g->builder, v, cgl_like(g->i32, v), "");
}

/* ---- sixteen at a time --------------------------------------------------- */

/* Of 16, 32, 48 or 64 lanes. */
typedef LLVMValueRef (*sixteen_fn)(cgl_t *g, LLVMValueRef a, LLVMValueRef b);

/* Lanes first .. first + 15 of v; those beyond its end are poison. */
static LLVMValueRef part_of(cgl_t *g, LLVMValueRef v, uint32_t first) {
  LLVMValueRef order[SIXTEEN];
  if (!cgl_is_vector(v)) {
    return LLVMBuildInsertElement(
        g->builder, LLVMGetPoison(LLVMVectorType(LLVMTypeOf(v), SIXTEEN)), v,
        LLVMConstInt(g->i32, 0, 0), "");
  }
  uint32_t n = LLVMGetVectorSize(LLVMTypeOf(v));
  if (n == SIXTEEN) return v;
  for (uint32_t i = 0; i < SIXTEEN; i++) {
    order[i] = first + i < n ? LLVMConstInt(g->i32, first + i, 0)
                             : LLVMGetPoison(g->i32);
  }
  return LLVMBuildShuffleVector(g->builder, v, LLVMGetPoison(LLVMTypeOf(v)),
                                LLVMConstVector(order, SIXTEEN), "");
}

/* Halves side by side, until there are all `n` lanes of them. */
static LLVMValueRef join_parts(cgl_t *g, LLVMValueRef *parts, uint32_t n) {
  LLVMValueRef order[64];
  uint32_t count = (n + SIXTEEN - 1) / SIXTEEN;
  for (uint32_t i = 0; i < 64; i++) order[i] = LLVMConstInt(g->i32, i, 0);
  for (uint32_t width = SIXTEEN; count > 1; count = (count + 1) / 2) {
    width *= 2;
    for (uint32_t i = 0; i < count; i += 2) {
      LLVMValueRef a = parts[i];
      LLVMValueRef b = i + 1 < count ? parts[i + 1]
                                     : LLVMGetPoison(LLVMTypeOf(a));
      parts[i / 2] = LLVMBuildShuffleVector(
          g->builder, a, b, LLVMConstVector(order, width), "");
    }
  }
  if (LLVMGetVectorSize(LLVMTypeOf(parts[0])) == n) return parts[0];
  return LLVMBuildShuffleVector(g->builder, parts[0],
                                LLVMGetPoison(LLVMTypeOf(parts[0])),
                                LLVMConstVector(order, n), "");
}

/* Lanes of v. */
static uint32_t lanes_of(LLVMValueRef v) {
  return LLVMGetVectorSize(LLVMTypeOf(v));
}

/* values[low four bits of each lane of `bits`]. */
static LLVMValueRef look_up(cgl_t *g, const float *values,
                            LLVMValueRef bits) {
  LLVMValueRef parts[64 / SIXTEEN];
  for (uint32_t i = 0; i < lanes_of(bits); i += SIXTEEN) {
    LLVMValueRef args[2] = {table(g, values), part_of(g, bits, i)};
    parts[i / SIXTEEN] =
        special(g, "llvm.x86.avx512.permvar.sf.512", args, 2);
  }
  return join_parts(g, parts, lanes_of(bits));
}

/* a * 2^floor(b), 0 in lanes that do not count; of a finite a, 0 and infinity
 * at the ends of b and NaN for its NaN. */
static LLVMValueRef scale(cgl_t *g, LLVMValueRef a, LLVMValueRef b,
                          LLVMValueRef counts) {
  LLVMValueRef parts[64 / SIXTEEN];
  for (uint32_t i = 0; i < lanes_of(a); i += SIXTEEN) {
    LLVMValueRef part = part_of(g, a, i);
    LLVMValueRef mask =
        LLVMBuildBitCast(g->builder, part_of(g, counts, i),
                         LLVMInt16TypeInContext(g->context), "");
    LLVMValueRef args[5] = {part, part_of(g, b, i),
                            LLVMConstNull(LLVMTypeOf(part)), mask,
                            LLVMConstInt(g->i32, TO_NEAREST_AS_IS, 0)};
    parts[i / SIXTEEN] =
        special(g, "llvm.x86.avx512.mask.scalef.ps.512", args, 5);
  }
  return join_parts(g, parts, lanes_of(a));
}

/* The operand that `how` names; the other one if one is NaN. */
enum { SMALLEST = 4, LARGEST = 5, NEAREST_TO_ZERO = 2 };
static LLVMValueRef range(cgl_t *g, LLVMValueRef a, LLVMValueRef b, int how) {
  LLVMValueRef parts[64 / SIXTEEN];
  for (uint32_t i = 0; i < lanes_of(a); i += SIXTEEN) {
    LLVMValueRef part = part_of(g, a, i);
    LLVMValueRef args[6] = {
        part, part_of(g, b, i), LLVMConstInt(g->i32, (unsigned)how, 0), part,
        LLVMConstAllOnes(LLVMInt16TypeInContext(g->context)),
        LLVMConstInt(g->i32, TO_NEAREST_AS_IS, 0)};
    parts[i / SIXTEEN] =
        special(g, "llvm.x86.avx512.mask.range.ps.512", args, 6);
  }
  return join_parts(g, parts, lanes_of(a));
}

/* Whole sixteens stay together: what can be said of all lanes is, so that
 * the operations of one sixteen stand between those of another, which are
 * not to wait for each other.  b: NULL, or of a's type. */
static LLVMValueRef by_sixteens(cgl_t *g, LLVMValueRef a, LLVMValueRef b,
                                sixteen_fn fn) {
  if (cgl_is_vector(a) && lanes_of(a) % SIXTEEN == 0) {
    TD_CHECK(g->task, lanes_of(a) <= 64, "vector of %u lanes", lanes_of(a));
    return fn(g, a, b);
  }
  if (!cgl_is_vector(a)) {
    return LLVMBuildExtractElement(
        g->builder,
        fn(g, part_of(g, a, 0), b == NULL ? NULL : part_of(g, b, 0)),
        LLVMConstInt(g->i32, 0, 0), "");
  }
  LLVMValueRef parts[64 / SIXTEEN];
  uint32_t n = lanes_of(a);
  TD_CHECK(g->task, n <= 64, "vector of %u lanes", n);
  for (uint32_t first = 0; first < n; first += SIXTEEN) {
    parts[first / SIXTEEN] =
        fn(g, part_of(g, a, first), b == NULL ? NULL : part_of(g, b, first));
  }
  return join_parts(g, parts, n);
}

/* ---- integers of four bits ----------------------------------------------- */

/* All lanes of c are one constant, *value. */
static bool is_splat(LLVMValueRef c, int64_t *value) {
  if (LLVMIsAConstantDataVector(c) == NULL) return false;
  uint32_t n = LLVMGetVectorSize(LLVMTypeOf(c));
  LLVMValueRef first = LLVMGetAggregateElement(c, 0);
  for (uint32_t i = 1; i < n; i++) {
    if (LLVMGetAggregateElement(c, i) != first) return false;
  }
  *value = LLVMConstIntGetSExtValue(first);
  return true;
}

/* What v is, modulo 16, but for a constant that is added to *more. */
static LLVMValueRef without_constants(LLVMValueRef v, uint64_t *more) {
  enum { MOST_STEPS = 4 };
  for (int step = 0; step < MOST_STEPS; step++) {
    int64_t c;
    if (LLVMIsAInstruction(v) == NULL) return v;
    LLVMOpcode how = LLVMGetInstructionOpcode(v);
    if ((how != LLVMAdd && how != LLVMSub && how != LLVMAnd) ||
        !is_splat(LLVMGetOperand(v, 1), &c) ||
        (how == LLVMAnd && (c & 15) != 15)) {
      return v;
    }
    if (how == LLVMAdd) *more += (uint64_t)c;
    if (how == LLVMSub) *more -= (uint64_t)c;
    v = LLVMGetOperand(v, 0);
  }
  return v;
}

/* v, and nothing is known of it: LLVM would shift bytes before it widens
 * them, which takes a mask, and widen what it shifted a second time. */
static LLVMValueRef opaque(cgl_t *g, LLVMValueRef v) {
  LLVMTypeRef own = LLVMTypeOf(v);
  LLVMTypeRef type = LLVMFunctionType(own, &own, 1, 0);
  LLVMValueRef nothing = LLVMGetInlineAsm(type, "", 0, "=v,0", 4, 0, 0,
                                          LLVMInlineAsmDialectATT, 0);
  return LLVMBuildCall2(g->builder, type, nothing, &v, 1, "");
}

/* How far *v is shifted down what it becomes, if four bits of the result are
 * within 32 of that; 0: it stays. */
static int64_t shift_of(LLVMValueRef *v) {
  int64_t down = 0;
  if (LLVMIsAInstruction(*v) == NULL) return 0;
  LLVMOpcode how = LLVMGetInstructionOpcode(*v);
  if ((how != LLVMLShr && how != LLVMAShr) ||
      !is_splat(LLVMGetOperand(*v, 1), &down) || down < 0 || down > 28) {
    return 0;
  }
  *v = LLVMGetOperand(*v, 0);
  return down;
}

/* The table is turned by the constant, and the instruction looks at four bits
 * of a lane: neither the sum nor the part costs anything. */
LLVMValueRef cgl_wide_f32_of_16(cgl_t *g, LLVMValueRef v, int64_t lo) {
  float values[SIXTEEN];
  LLVMValueRef parts[64 / SIXTEEN];
  uint64_t more = 0;
  if (!cgl_is_vector(v)) return NULL;
  LLVMValueRef of = without_constants(v, &more);
  uint32_t n = LLVMGetVectorSize(LLVMTypeOf(v));
  if (of == v || n > 64) return NULL;
  for (uint64_t i = 0; i < SIXTEEN; i++) {
    uint64_t above = (i + more - (uint64_t)lo) % SIXTEEN;
    values[i] = (float)(lo + (int64_t)above);
  }
  int64_t down = shift_of(&of);
  LLVMValueRef bits = LLVMBuildTrunc(g->builder, of, cgl_like(g->i32, of), "");
  for (uint32_t first = 0; first < n; first += SIXTEEN) {
    LLVMValueRef b = part_of(g, bits, first);
    if (down > 0) {
      b = opaque(g, b);
      b = LLVMBuildLShr(g->builder, b, cgl_const_int(g, g->i32, down, b), "");
    }
    parts[first / SIXTEEN] = look_up(g, values, b);
  }
  return join_parts(g, parts, n);
}

/* ---- exponentials -------------------------------------------------------- */

/* 2^(n + f), 0 where x is below lo.  An infinite n comes with an f that is no
 * number, and any number will do. */
static LLVMValueRef power_of_two(cgl_t *g, LLVMValueRef n, LLVMValueRef f,
                                 LLVMValueRef x, double lo) {
  f = range(g, f, number(g, 1, f), NEAREST_TO_ZERO);
  LLVMValueRef p = cgl_exp2_fraction(g, f);
  LLVMValueRef counts = LLVMBuildFCmp(g->builder, LLVMRealUGE, x,
                                      number(g, lo, x), "");
  return scale(g, p, n, counts);
}

/* The steps of exp_f32 (llvm_math.c), so that their bits are the same; what
 * is beyond the ends is the scaling's to know. */
static LLVMValueRef exp_of_16(cgl_t *g, LLVMValueRef x, LLVMValueRef unused) {
  (void)unused;
  LLVMValueRef log2e = number(g, 1.44269502, x);
  LLVMValueRef magic = number(g, 12582912.0, x);
  LLVMValueRef n = LLVMBuildFSub(g->builder, fma16(g, x, log2e, magic), magic,
                                 "");
  LLVMValueRef f =
      fma16(g, x, log2e, LLVMBuildFNeg(g->builder, n, ""));
  f = fma16(g, x, number(g, 1.92596299e-8, x), f);
  return power_of_two(g, n, f, x, -87.33654);
}

static LLVMValueRef exp2_of_16(cgl_t *g, LLVMValueRef x,
                               LLVMValueRef unused) {
  (void)unused;
  LLVMValueRef magic = number(g, 12582912.0, x);
  LLVMValueRef n = LLVMBuildFSub(
      g->builder, LLVMBuildFAdd(g->builder, x, magic, ""), magic, "");
  return power_of_two(g, n, LLVMBuildFSub(g->builder, x, n, ""), x, -126.0);
}

LLVMValueRef cgl_wide_exp(cgl_t *g, LLVMValueRef x) {
  return by_sixteens(g, x, NULL, exp_of_16);
}

LLVMValueRef cgl_wide_exp2(cgl_t *g, LLVMValueRef x) {
  return by_sixteens(g, x, NULL, exp2_of_16);
}

/* ---- error function ------------------------------------------------------ */

/* Sixteen pieces of 0 .. 4: erf(c + r) = v + r p(r) around centres c that
 * were chosen such that v = erf(c) is almost a number of 24 bits; relative
 * error 2.7e-8 at most, between 0.13 and 0.4.  At 3.999 it is 1. */
static LLVMValueRef erf_of_16(cgl_t *g, LLVMValueRef x, LLVMValueRef unused) {
  static const float centres[SIXTEEN] = {
      0.0f, 0.258532763f, 0.516189098f, 0.77393508f, 1.03180265f, 1.29065871f,
      1.54771376f, 1.80650115f, 2.06374645f, 2.32307649f, 2.57948637f,
      2.84009624f, 3.09644127f, 3.35514665f, 3.61433363f, 3.86953712f};
  static const float values[SIXTEEN] = {
      0.0f, 0.285351753f, 0.534610808f, 0.726268411f, 0.855486989f,
      0.932039261f, 0.971388459f, 0.989374459f, 0.996483684f, 0.998981357f,
      0.999735653f, 0.999940932f, 0.999988079f, 0.999997914f, 0.999999702f,
      0.99999994f};
  static const float p[5][SIXTEEN] = {
      {0.128379167f, 1.05542457f, 0.864443898f, 0.619902372f, 0.389132857f,
       0.213308096f, 0.102834366f, 0.0431676358f, 0.0159504656f,
       0.00511334185f, 0.00145468221f, 0.000354301563f, 7.73504507e-05f,
       1.45747435e-05f, 2.39254769e-06f, 3.5361964e-07f},
      {2.61567692e-07f, -0.272856981f, -0.446210623f, -0.479761362f,
       -0.401509225f, -0.275310576f, -0.159160271f, -0.0779831856f,
       -0.0329176188f, -0.0118783163f, -0.00375204301f, -0.00100609765f,
       -0.000239445653f, -4.88790938e-05f, -1.89064795e-05f, 5.81730274e-06f},
      {-0.37614128f, -0.304804862f, -0.134609923f, 0.0408947393f, 0.146470115f,
       0.165784091f, 0.129943639f, 0.0795294195f, 0.0399732143f, 0.0166921876f,
       0.00596790016f, 0.00178679277f, 0.000468563172f, 0.000104480678f,
       1.85144254e-05f, 2.3501218e-06f},
      {0.000283181405f, 0.129402161f, 0.182337999f, 0.143543318f,
       0.0584494844f, -0.0147063239f, -0.0470971838f, -0.0456848294f,
       -0.0302933566f, -0.0155008277f, -0.00650298502f, -0.00223185751f,
       -0.000657740864f, -0.00016288014f, 0.000580350053f, -0.000437058334f},
      {0.110975198f, 0.0790066198f, 0.00345088099f, -0.0561283492f,
       -0.0675569624f, -0.0419104993f, -0.00969704054f, 0.00907888636f,
       0.0129129626f, 0.00933351833f, 0.00486484589f, 0.00199478865f,
       0.000667680695f, 0.000186018209f, 0.000244632567f, 0.000149747837f}};
  const double to_pieces = 12582912.0; /* whole numbers in the low bits */
  (void)unused;
  LLVMBuilderRef at = g->builder;
  LLVMValueRef a = cgl_intrinsic(g, "llvm.fabs", &x, 1);
  /* a little before 4, which would be half way to a seventeenth piece; a NaN
   * stays */
  LLVMValueRef end = number(g, 3.999, x);
  a = LLVMBuildSelect(at, LLVMBuildFCmp(at, LLVMRealOLT, end, a, ""), end, a,
                      "");
  LLVMValueRef z = as_bits(g, fma16(g, a, number(g, 3.875, x),
                                    number(g, to_pieces, x)));
  LLVMValueRef r = LLVMBuildFSub(at, a, look_up(g, centres, z), "");
  LLVMValueRef sum = look_up(g, p[4], z);
  for (int i = 3; i >= 0; i--) sum = fma16(g, sum, r, look_up(g, p[i], z));
  /* in the first piece a + r p(r), of which p is small */
  LLVMValueRef is_first = LLVMBuildICmp(
      at, LLVMIntEQ, z, as_bits(g, number(g, to_pieces, x)), "");
  LLVMValueRef v =
      LLVMBuildSelect(at, is_first, a, look_up(g, values, z), "");
  LLVMValueRef signs[2] = {fma16(g, r, sum, v), x};
  return cgl_intrinsic(g, "llvm.copysign", signs, 2);
}

LLVMValueRef cgl_wide_erf(cgl_t *g, LLVMValueRef x) {
  return by_sixteens(g, x, NULL, erf_of_16);
}

/* ---- maxima -------------------------------------------------------------- */

static LLVMValueRef larger_of_16(cgl_t *g, LLVMValueRef a, LLVMValueRef b,
                                 int how) {
  LLVMValueRef sum = LLVMBuildFAdd(g->builder, a, b, "");
  LLVMValueRef nan = LLVMBuildFCmp(g->builder, LLVMRealUNO, a, b, "");
  return LLVMBuildSelect(g->builder, nan, sum, range(g, a, b, how), "");
}

static LLVMValueRef max_of_16(cgl_t *g, LLVMValueRef a, LLVMValueRef b) {
  return larger_of_16(g, a, b, LARGEST);
}

static LLVMValueRef min_of_16(cgl_t *g, LLVMValueRef a, LLVMValueRef b) {
  return larger_of_16(g, a, b, SMALLEST);
}

LLVMValueRef cgl_range_max(cgl_t *g, LLVMValueRef a, LLVMValueRef b,
                           bool is_min) {
  return by_sixteens(g, a, b, is_min ? min_of_16 : max_of_16);
}
