/* llvm_masked.c: memory accesses of which only some lanes are made.
 *
 * Where the target has an instruction for it, LLVM's intrinsics are right.
 * Where it has none they become a branch for every lane, which for a row of
 * 16 is several hundred instructions at each tail.  There a small loop over
 * the lanes that count moves elements one by one through a stack buffer.
 * What the target has is read from the width of its vectors:
 *   16 f32   every row; gathers and scatters of 4 and 8 bytes
 *    8 f32   rows and gathers of 4 and 8 bytes
 *    4 f32   nothing */
#include "codegen/llvm/llvm_impl.h"

static bool is_native(const cgl_t *g, const cgl_place_t *p, bool is_store) {
  bool is_row = !cgl_is_vector(p->where);
  bool is_narrow = p->element == g->i8 || p->element == g->i16;
  if (g->target->lanes >= 16) return is_row || !is_narrow;
  return g->target->lanes >= 8 && !is_narrow && (is_row || !is_store);
}

static LLVMValueRef call(cgl_t *g, const char *name, LLVMTypeRef *overload,
                         LLVMValueRef *args, uint32_t count) {
  unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
  LLVMValueRef f = LLVMGetIntrinsicDeclaration(g->module, id, overload, 2);
  LLVMTypeRef signature = LLVMIntrinsicGetType(g->context, id, overload, 2);
  return LLVMBuildCall2(g->builder, signature, f, args, count, "");
}

/* Stack room for 64 elements of 8 bytes, shared by all accesses of the
 * kernel: each is done with it before the next begins. */
static LLVMValueRef room(cgl_t *g, LLVMValueRef *slot) {
  if (*slot != NULL) return *slot;
  LLVMBasicBlockRef here = LLVMGetInsertBlock(g->builder);
  LLVMPositionBuilderBefore(g->builder,
                            LLVMGetBasicBlockTerminator(g->entry));
  *slot = LLVMBuildAlloca(g->builder, LLVMArrayType2(g->i64, 64), "");
  LLVMSetAlignment(*slot, 64);
  LLVMPositionBuilderAtEnd(g->builder, here);
  return *slot;
}

static LLVMValueRef element_at(cgl_t *g, LLVMTypeRef type, LLVMValueRef base,
                               LLVMValueRef i) {
  return LLVMBuildGEP2(g->builder, type, base, &i, 1, "");
}

/* One turn: the element of lane i between memory and the stack. */
static void move_lane(cgl_t *g, const cgl_place_t *p, LLVMValueRef values,
                      LLVMValueRef i, bool is_store) {
  LLVMValueRef far = p->where;
  if (cgl_is_vector(far)) {
    far = LLVMBuildLoad2(g->builder, g->ptr,
                         element_at(g, g->ptr, g->lane_pointers, i), "");
  } else {
    far = element_at(g, p->element, far, i);
  }
  LLVMValueRef near = element_at(g, p->element, values, i);
  LLVMValueRef v = LLVMBuildLoad2(g->builder, p->element,
                                  is_store ? near : far, "");
  if (!is_store) LLVMSetAlignment(v, p->align);
  LLVMValueRef st = LLVMBuildStore(g->builder, v, is_store ? far : near);
  if (is_store) LLVMSetAlignment(st, p->align);
}

/* Turns for the set bits of the mask, lowest first, so that of two lanes
 * that store to one element the last one stays. */
static void each_lane(cgl_t *g, const cgl_place_t *p, LLVMValueRef values,
                      bool is_store) {
  LLVMBuilderRef at = g->builder;
  LLVMValueRef zero = LLVMConstInt(g->i64, 0, 0);
  LLVMValueRef one = LLVMConstInt(g->i64, 1, 0);
  LLVMValueRef bits = LLVMBuildBitCast(
      at, p->mask, LLVMIntTypeInContext(g->context, g->lanes), "");
  bits = LLVMBuildZExt(at, bits, g->i64, "");
  if (cgl_is_vector(p->where)) {
    LLVMBuildStore(at, p->where, room(g, &g->lane_pointers));
  }
  LLVMBasicBlockRef before = LLVMGetInsertBlock(at);
  LLVMBasicBlockRef turn =
      LLVMAppendBasicBlockInContext(g->context, g->function, "lane");
  LLVMBasicBlockRef done =
      LLVMAppendBasicBlockInContext(g->context, g->function, "lanes");
  LLVMBuildCondBr(at, LLVMBuildICmp(at, LLVMIntNE, bits, zero, ""), turn,
                  done);
  LLVMPositionBuilderAtEnd(at, turn);
  LLVMValueRef left = LLVMBuildPhi(at, g->i64, "");
  LLVMValueRef args[2] = {left, LLVMConstInt(g->i1, 1, 0)};
  LLVMValueRef i = cgl_intrinsic(g, "llvm.cttz", args, 2);
  move_lane(g, p, values, i, is_store);
  LLVMValueRef rest =
      LLVMBuildAnd(at, left, LLVMBuildSub(at, left, one, ""), "");
  LLVMValueRef from[2] = {bits, rest};
  LLVMBasicBlockRef blocks[2] = {before, turn};
  LLVMAddIncoming(left, from, blocks, 2);
  LLVMBuildCondBr(at, LLVMBuildICmp(at, LLVMIntNE, rest, zero, ""), turn,
                  done);
  LLVMPositionBuilderAtEnd(at, done);
}

LLVMValueRef cgl_masked_load(cgl_t *g, const cgl_place_t *p) {
  LLVMTypeRef wide = LLVMVectorType(p->element, g->lanes);
  LLVMValueRef zero = LLVMConstNull(wide);
  LLVMValueRef align = LLVMConstInt(g->i32, p->align, 0);
  /* a gather of all lanes is loads one after the other at worst */
  if (LLVMIsConstant(p->mask) || is_native(g, p, false)) {
    LLVMValueRef args[4] = {p->where, align, p->mask, zero};
    LLVMTypeRef overload[2] = {wide, LLVMTypeOf(p->where)};
    return call(g, cgl_is_vector(p->where) ? "llvm.masked.gather"
                                           : "llvm.masked.load",
                overload, args, 4);
  }
  LLVMValueRef values = room(g, &g->lane_values);
  LLVMBuildStore(g->builder, zero, values);
  each_lane(g, p, values, false);
  return LLVMBuildLoad2(g->builder, wide, values, "");
}

void cgl_masked_store(cgl_t *g, const cgl_place_t *p, LLVMValueRef bits) {
  LLVMValueRef align = LLVMConstInt(g->i32, p->align, 0);
  if (LLVMIsConstant(p->mask) || is_native(g, p, true)) {
    LLVMValueRef args[4] = {bits, p->where, align, p->mask};
    LLVMTypeRef overload[2] = {LLVMTypeOf(bits), LLVMTypeOf(p->where)};
    (void)call(g, cgl_is_vector(p->where) ? "llvm.masked.scatter"
                                          : "llvm.masked.store",
               overload, args, 4);
    return;
  }
  LLVMValueRef values = room(g, &g->lane_values);
  LLVMBuildStore(g->builder, bits, values);
  each_lane(g, p, values, true);
}
