/* llvm_divide.c: many quotients by one divisor.
 *
 * With y = RN(1/b), q = RN(a y), r = RN(a - q b) the sum RN(q + r y) is the
 * correctly rounded quotient (Markstein; Brisebarre, Muller and Raina,
 * "Accelerating correctly rounded floating-point division when the divisor
 * is known in advance"), as long as nothing over- or underflows on the way.
 * That is looked at for all lanes together; where one is outside, all take
 * the machine's division.  The signs are such that zeros keep theirs. */
#include "codegen/llvm/llvm_impl.h"

/* Bits of the limits: a divisor of 2^-20 .. 2^20 (positive) and dividends of
 * 2^-100 .. 2^100 or 0 leave the quotient normal, and the rest a multiple of
 * 2^-149. */
static const int64_t least_b = (127 - 20) << 23, most_b = (127 + 20) << 23;
static const int64_t least_a = (127 - 100) << 23;
static const int64_t most_a = (127LL + 100) << 23;

/* The extreme of 2^k lanes, as unsigned integers, down to `width` of them. */
static LLVMValueRef narrow(cgl_t *g, LLVMValueRef v, uint32_t width,
                           const char *how) {
  LLVMValueRef order[64];
  for (uint32_t n = LLVMGetVectorSize(LLVMTypeOf(v)); n > width; n /= 2) {
    LLVMValueRef half[2];
    for (uint32_t h = 0; h < 2; h++) {
      for (uint32_t i = 0; i < n / 2; i++) {
        order[i] = LLVMConstInt(g->i32, h * (n / 2) + i, 0);
      }
      half[h] = LLVMBuildShuffleVector(
          g->builder, v, LLVMGetPoison(LLVMTypeOf(v)),
          LLVMConstVector(order, n / 2), "");
    }
    v = cgl_intrinsic(g, how, half, 2);
  }
  return v;
}

static LLVMValueRef limit(cgl_t *g, int64_t v, LLVMValueRef like) {
  return cgl_const_int(g, g->i32, v, like);
}

/* Some lane of a, or b, is outside the limits. */
static LLVMValueRef is_outside(cgl_t *g, LLVMValueRef a, LLVMValueRef b) {
  LLVMBuilderRef at = g->builder;
  LLVMValueRef u = LLVMBuildBitCast(at, a, cgl_like(g->i32, a), "");
  u = LLVMBuildAdd(at, u, u, ""); /* without the sign */
  if (g->mask != NULL) {
    u = LLVMBuildSelect(at, g->mask, u, LLVMConstNull(LLVMTypeOf(u)), "");
  }
  /* 0 comes behind the largest */
  LLVMValueRef before = LLVMBuildSub(at, u, limit(g, 1, u), "");
  LLVMValueRef low = narrow(g, before, g->target->lanes, "llvm.umin");
  LLVMValueRef high = narrow(g, u, g->target->lanes, "llvm.umax");
  LLVMValueRef bad = LLVMBuildOr(
      at,
      LLVMBuildICmp(at, LLVMIntULT, low, limit(g, 2 * least_a - 1, low), ""),
      LLVMBuildICmp(at, LLVMIntUGT, high, limit(g, 2 * most_a, high), ""),
      "");
  LLVMValueRef bits = LLVMBuildBitCast(at, b, g->i32, "");
  LLVMValueRef off =
      LLVMBuildSub(at, bits, limit(g, least_b, bits), "");
  return LLVMBuildOr(
      at, cgl_any_lane(g, bad),
      LLVMBuildICmp(at, LLVMIntUGT, off, limit(g, most_b - least_b, off), ""),
      "");
}

LLVMValueRef cgl_divide_by_one(cgl_t *g, LLVMValueRef a, LLVMValueRef b) {
  LLVMBuilderRef at = g->builder;
  if (!g->target->has_fma || !cgl_is_vector(a) || cgl_is_vector(b) ||
      LLVMTypeOf(b) != g->f32) {
    return NULL;
  }
  uint32_t n = LLVMGetVectorSize(LLVMTypeOf(a));
  if (n < g->target->lanes || (n & (n - 1)) != 0) return NULL;
  LLVMValueRef many = cgl_splat(g, b, a);
  LLVMBasicBlockRef blocks[2] = {
      LLVMAppendBasicBlockInContext(g->context, g->function, "rest"),
      LLVMAppendBasicBlockInContext(g->context, g->function, "divide")};
  LLVMBasicBlockRef join =
      LLVMAppendBasicBlockInContext(g->context, g->function, "join");
  LLVMValueRef y = cgl_splat(
      g, LLVMBuildFDiv(at, LLVMConstReal(g->f32, 1), b, ""), a);
  LLVMBuildCondBr(at, is_outside(g, a, b), blocks[1], blocks[0]);
  LLVMPositionBuilderAtEnd(at, blocks[0]);
  LLVMValueRef q = LLVMBuildFMul(at, a, y, "");
  LLVMValueRef r = cgl_fma(g, q, many, LLVMBuildFNeg(at, a, ""));
  LLVMValueRef values[2] = {
      cgl_fma(g, LLVMBuildFNeg(at, r, ""), y, q), NULL};
  LLVMBuildBr(at, join);
  LLVMPositionBuilderAtEnd(at, blocks[1]);
  values[1] = LLVMBuildFDiv(at, a, many, "");
  LLVMBuildBr(at, join);
  LLVMPositionBuilderAtEnd(at, join);
  LLVMValueRef phi = LLVMBuildPhi(at, LLVMTypeOf(a), "");
  LLVMAddIncoming(phi, values, blocks, 2);
  return phi;
}
