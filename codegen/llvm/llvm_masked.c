/* llvm_masked.c: memory accesses and calls of which only some lanes are made.
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

/* Stack room for 64 elements of 8 bytes, shared by all accesses and calls of
 * the kernel: each is done with it before the next begins. */
static LLVMValueRef room(cgl_t *g, LLVMValueRef *slot) {
  if (*slot != NULL) return *slot;
  LLVMBasicBlockRef here = LLVMGetInsertBlock(g->builder);
  LLVMPositionBuilderBefore(g->builder,
                            LLVMGetBasicBlockTerminator(g->entry));
  *slot = LLVMBuildAlloca(g->builder, LLVMArrayType(g->i64, 64), "");
  LLVMSetAlignment(*slot, 64);
  LLVMPositionBuilderAtEnd(g->builder, here);
  return *slot;
}

static LLVMValueRef element_at(cgl_t *g, LLVMTypeRef type, LLVMValueRef base,
                               LLVMValueRef i) {
  return LLVMBuildGEP2(g->builder, type, base, &i, 1, "");
}

/* A loop over the lanes of a mask: `head` opens it, what is emitted then is
 * done for lane i, `close` ends it. Lowest lane first, so that of two lanes
 * that store to one element the last one stays. */
typedef struct lane_loop {
  LLVMBasicBlockRef before, turn, done;
  LLVMValueRef bits, left, i;
} lane_loop_t;

static lane_loop_t open_lanes(cgl_t *g, LLVMValueRef mask) {
  LLVMBuilderRef at = g->builder;
  uint32_t n = LLVMGetVectorSize(LLVMTypeOf(mask));
  lane_loop_t l = {NULL, NULL, NULL, NULL, NULL, NULL};
  l.bits = LLVMBuildBitCast(at, mask,
                            LLVMIntTypeInContext(g->context, n), "");
  l.bits = LLVMBuildZExt(at, l.bits, g->i64, "");
  l.before = LLVMGetInsertBlock(at);
  l.turn = LLVMAppendBasicBlockInContext(g->context, g->function, "lane");
  l.done = LLVMAppendBasicBlockInContext(g->context, g->function, "lanes");
  LLVMValueRef any = LLVMBuildICmp(at, LLVMIntNE, l.bits,
                                   LLVMConstInt(g->i64, 0, 0), "");
  LLVMBuildCondBr(at, any, l.turn, l.done);
  LLVMPositionBuilderAtEnd(at, l.turn);
  l.left = LLVMBuildPhi(at, g->i64, "");
  LLVMValueRef args[2] = {l.left, LLVMConstInt(g->i1, 1, 0)};
  l.i = cgl_intrinsic(g, "llvm.cttz", args, 2);
  return l;
}

static void close_lanes(cgl_t *g, const lane_loop_t *l) {
  LLVMBuilderRef at = g->builder;
  LLVMValueRef one = LLVMConstInt(g->i64, 1, 0);
  LLVMValueRef rest =
      LLVMBuildAnd(at, l->left, LLVMBuildSub(at, l->left, one, ""), "");
  LLVMValueRef from[2] = {l->bits, rest};
  LLVMBasicBlockRef blocks[2] = {l->before, LLVMGetInsertBlock(at)};
  LLVMAddIncoming(l->left, from, blocks, 2);
  LLVMValueRef again = LLVMBuildICmp(at, LLVMIntNE, rest,
                                     LLVMConstInt(g->i64, 0, 0), "");
  LLVMBuildCondBr(at, again, l->turn, l->done);
  LLVMPositionBuilderAtEnd(at, l->done);
}

/* The elements of the lanes that count, between memory and the stack. */
static void move_lanes(cgl_t *g, const cgl_place_t *p, LLVMValueRef values,
                       bool is_store) {
  LLVMValueRef far = p->where;
  bool is_row = !cgl_is_vector(far);
  if (!is_row) LLVMBuildStore(g->builder, far, room(g, &g->lane_pointers));
  lane_loop_t l = open_lanes(g, p->mask);
  if (is_row) {
    far = element_at(g, p->element, far, l.i);
  } else {
    far = LLVMBuildLoad2(g->builder, g->ptr,
                         element_at(g, g->ptr, g->lane_pointers, l.i), "");
  }
  LLVMValueRef near = element_at(g, p->element, values, l.i);
  LLVMValueRef v = LLVMBuildLoad2(g->builder, p->element,
                                  is_store ? near : far, "");
  if (!is_store) LLVMSetAlignment(v, p->align);
  LLVMValueRef st = LLVMBuildStore(g->builder, v, is_store ? far : near);
  if (is_store) LLVMSetAlignment(st, p->align);
  close_lanes(g, &l);
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
  move_lanes(g, p, values, false);
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
  move_lanes(g, p, values, true);
}

LLVMValueRef cgl_call_lanes(cgl_t *g, LLVMValueRef f, LLVMTypeRef signature,
                            LLVMTypeRef result, LLVMValueRef *args,
                            uint32_t count, LLVMValueRef mask) {
  LLVMValueRef *slots[3] = {&g->lane_values, &g->lane_pointers,
                            &g->lane_thirds};
  LLVMTypeRef types[3];
  LLVMValueRef one_lane[3];
  TD_CHECK(g->task, count >= 1 && count <= 3, "%u arguments", count);
  for (uint32_t k = 0; k < count; k++) {
    types[k] = LLVMGetElementType(LLVMTypeOf(args[k]));
    LLVMBuildStore(g->builder, args[k], room(g, slots[k]));
  }
  LLVMValueRef values = room(g, &g->lane_values);
  lane_loop_t l = open_lanes(g, mask);
  for (uint32_t k = 0; k < count; k++) {
    one_lane[k] = LLVMBuildLoad2(
        g->builder, types[k], element_at(g, types[k], *slots[k], l.i), "");
  }
  LLVMValueRef v =
      LLVMBuildCall2(g->builder, signature, f, one_lane, count, "");
  LLVMBuildStore(g->builder, v, element_at(g, result, values, l.i));
  close_lanes(g, &l);
  return LLVMBuildLoad2(g->builder, cgl_like(result, args[0]), values, "");
}
