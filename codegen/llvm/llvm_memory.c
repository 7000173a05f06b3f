/* llvm_memory.c: buffers of a kernel: where they are, loads, stores, folds.
 *
 * An access in a lane loop is one of
 *   uniform     no subscript moves with the lane: one scalar load, spread
 *   contiguous  only the last subscript moves, by one a lane
 *   strided     one subscript moves by a constant: gather of base + lane * k
 *   indexed     anything else: gather of computed offsets
 * Masks become masked loads and stores; REGISTER rows are whole vectors in
 * allocas that mem2reg dissolves. */
#include "codegen/llvm/llvm_impl.h"

#include "runtime/base/num.h"

/* ---- strides ------------------------------------------------------------- */

/* By how much e moves when the lane grows by one; false: not constant.
 * Subscripts nest a few levels; what nests deeper is not looked into. */
static bool lane_stride(cgl_t *g, const kir_expr_t *e, int depth,
                        int64_t *out) {
  enum { MAX_DEPTH = 64 };
  int64_t a, b;
  switch (depth < MAX_DEPTH ? (int)e->op : KIR_X_COUNT) {
    case KIR_X_VAR: {
      if (e->u.var == g->lane_var) {
        *out = 1;
        return true;
      }
      const kir_stmt_t *let = g->lets[e->u.var->id];
      if (let != NULL && cgl_is_varying(g, e)) {
        return lane_stride(g, let->value, depth + 1, out);
      }
      *out = 0;
      return true;
    }
    case KIR_X_ADD: case KIR_X_SUB:
      if (!lane_stride(g, e->args[0], depth + 1, &a) ||
          !lane_stride(g, e->args[1], depth + 1, &b)) {
        return false;
      }
      return e->op == KIR_X_ADD ? !__builtin_add_overflow(a, b, out)
                                : !__builtin_sub_overflow(a, b, out);
    case KIR_X_MUL:
      for (int i = 0; i < 2; i++) {
        const kir_expr_t *c = e->args[i];
        if (c->op != KIR_X_CONST) continue;
        return lane_stride(g, e->args[1 - i], depth + 1, &a) &&
               !__builtin_mul_overflow(a, c->u.i64, out);
      }
      break;
    default: break;
  }
  *out = 0;
  return !cgl_is_varying(g, e);
}

typedef enum access_kind {
  ACCESS_UNIFORM, ACCESS_CONTIGUOUS, ACCESS_STRIDED, ACCESS_INDEXED
} access_kind_t;

typedef struct access {
  access_kind_t kind;
  uint32_t dim;      /* STRIDED: the subscript that moves */
  int64_t stride;    /* STRIDED: by how much */
} access_t;

/* Chosen by how the subscripts move with the lane, see the top. */
static access_t classify(cgl_t *g, uint32_t count, kir_expr_t *const *subs) {
  access_t a = {ACCESS_UNIFORM, 0, 0};
  if (g->lanes == 0 || g->at_lane0) return a;
  for (uint32_t i = 0; i < count; i++) {
    int64_t stride;
    if (!cgl_is_varying(g, subs[i])) continue;
    if (!lane_stride(g, subs[i], 0, &stride) || a.kind != ACCESS_UNIFORM) {
      a.kind = ACCESS_INDEXED;
      return a;
    }
    if (stride == 0) continue;
    a.kind = i + 1 == count && stride == 1 ? ACCESS_CONTIGUOUS
                                           : ACCESS_STRIDED;
    a.dim = i;
    a.stride = stride;
  }
  return a;
}

/* ---- addresses ----------------------------------------------------------- */

static LLVMValueRef poly_value(cgl_t *g, const ix_poly_t *p) {
  int64_t constant;
  if (ix_is_const(p, &constant)) {
    return LLVMConstInt(g->i64, (unsigned long long)constant, 1);
  }
  uint64_t key = (uint64_t)(uintptr_t)p;
  LLVMValueRef known = td_map_get_u64(g->dim_values, key);
  if (known != NULL) return known;
  /* computed once, in the entry block, so that every use is dominated */
  LLVMBasicBlockRef here = LLVMGetInsertBlock(g->builder);
  LLVMPositionBuilderBefore(g->builder, LLVMGetBasicBlockTerminator(g->entry));
  LLVMValueRef v = cgl_poly(g, p);
  LLVMPositionBuilderAtEnd(g->builder, here);
  td_map_put_u64(g->dim_values, key, v);
  return v;
}

/* Row-major offset in elements; vectors where a subscript is one. */
static LLVMValueRef offset(cgl_t *g, const kir_buffer_t *b, uint32_t count,
                           kir_expr_t *const *subs) {
  LLVMValueRef sum = LLVMConstInt(g->i64, 0, 0);
  for (uint32_t d = 0; d < count; d++) {
    LLVMValueRef s = cgl_expr(g, subs[d]);
    if (d > 0) {
      LLVMValueRef n = poly_value(g, b->dims[d]);
      sum = LLVMBuildMul(g->builder, sum, cgl_splat(g, n, sum), "");
    }
    if (cgl_is_vector(s)) sum = cgl_splat(g, sum, s);
    if (cgl_is_vector(sum)) s = cgl_splat(g, s, sum);
    sum = LLVMBuildAdd(g->builder, sum, s, "");
  }
  return sum;
}

/* Elements from one step of subscript `dim` to the next. */
static LLVMValueRef pitch(cgl_t *g, const kir_buffer_t *b, uint32_t dim) {
  const ix_poly_t *p = ix_const(g->kernel->pool, 1);
  for (uint32_t d = dim + 1; d < b->rank; d++) {
    p = ix_mul(g->kernel->pool, p, b->dims[d]);
  }
  TD_CHECK(g->task, p != NULL, "dims of %s overflow", b->name);
  return poly_value(g, p);
}

/* Parameters, or what cgl_alloc made of a scratch buffer. */
static LLVMValueRef base_of(cgl_t *g, const kir_buffer_t *b) {
  if (b->space == KIR_GLOBAL) return g->params[b->id];
  LLVMValueRef base =
      td_map_get_u64(g->storage, (uint64_t)(uintptr_t)b);
  TD_CHECK(g->task, base != NULL, "buffer %s is not allocated", b->name);
  return base;
}

/* Of an element: tails begin anywhere, and unaligned vector moves cost
 * nothing where the data happen to be aligned. */
static uint32_t alignment(const kir_buffer_t *b) {
  return (uint32_t)td_dtype_bytes(b->dtype);
}

/* s = rest + n with a constant n, which is taken off (rest may be 0). */
static LLVMValueRef split_constant(cgl_t *g, LLVMValueRef s, int64_t *n) {
  *n = 0;
  while (LLVMIsAInstruction(s) && LLVMGetInstructionOpcode(s) == LLVMAdd) {
    LLVMValueRef a = LLVMGetOperand(s, 0), c = LLVMGetOperand(s, 1);
    if (LLVMIsAConstantInt(a)) {
      LLVMValueRef swap = a;
      a = c;
      c = swap;
    }
    if (!LLVMIsAConstantInt(c)) return s;
    *n = (int64_t)((uint64_t)*n + (uint64_t)LLVMConstIntGetSExtValue(c));
    s = a;
  }
  if (!LLVMIsAConstantInt(s)) return s;
  *n = (int64_t)((uint64_t)*n + (uint64_t)LLVMConstIntGetSExtValue(s));
  return LLVMConstInt(g->i64, 0, 0);
}

/* Not inbounds: lane 0 of a masked access may lie outside. */
static LLVMValueRef step_by(cgl_t *g, const kir_buffer_t *b, LLVMValueRef p,
                            LLVMValueRef elements) {
  if (LLVMIsNull(elements)) return p;
  return LLVMBuildGEP2(g->builder, cgl_storage_type(g, b->dtype), p, &elements,
                       1, "");
}

/* Address of one element, subscript by subscript from the outermost, which
 * moves least, and constants last: rows of an unrolled loop then share all
 * but a displacement, and loops keep what does not change out of them. */
static LLVMValueRef scalar_address(cgl_t *g, const kir_buffer_t *b,
                                   uint32_t count, kir_expr_t *const *subs) {
  LLVMValueRef p = base_of(g, b);
  uint64_t fixed = 0;
  for (uint32_t d = 0; d < count; d++) {
    LLVMValueRef s = cgl_expr(g, subs[d]), n = pitch(g, b, d);
    int64_t constant = 0;
    if (LLVMIsAConstantInt(n)) {
      s = split_constant(g, s, &constant);
      fixed += (uint64_t)constant * LLVMConstIntGetZExtValue(n);
    }
    if (!LLVMIsNull(s) && d + 1 < b->rank) {
      s = LLVMBuildMul(g->builder, s, n, "");
    }
    p = step_by(g, b, p, s);
  }
  return step_by(g, b, p, LLVMConstInt(g->i64, fixed, 0));
}

/* Address of lane 0's element, for contiguous and strided accesses. */
static LLVMValueRef lane0_address(cgl_t *g, const kir_buffer_t *b,
                                  uint32_t count, kir_expr_t *const *subs) {
  g->at_lane0 = true;
  LLVMValueRef p = scalar_address(g, b, count, subs);
  g->at_lane0 = false;
  return p;
}

/* Vector of addresses, one a lane. */
static LLVMValueRef lane_addresses(cgl_t *g, const kir_buffer_t *b,
                                   const access_t *a, uint32_t count,
                                   kir_expr_t *const *subs) {
  LLVMTypeRef type = cgl_storage_type(g, b->dtype);
  if (a->kind == ACCESS_STRIDED) {
    LLVMValueRef first = lane0_address(g, b, count, subs);
    LLVMValueRef step = LLVMBuildMul(
        g->builder, pitch(g, b, a->dim),
        LLVMConstInt(g->i64, (unsigned long long)a->stride, 1), "");
    LLVMValueRef lanes = g->vars[g->lane_var->id];
    LLVMValueRef at =
        LLVMBuildMul(g->builder, lanes, cgl_splat(g, step, lanes), "");
    return LLVMBuildGEP2(g->builder, type, first, &at, 1, "");
  }
  LLVMValueRef at = cgl_widen(g, offset(g, b, count, subs));
  return LLVMBuildGEP2(g->builder, type, base_of(g, b), &at, 1, "");
}

static LLVMValueRef no_mask(cgl_t *g) {
  return LLVMConstAllOnes(LLVMVectorType(g->i1, g->lanes));
}

/* ---- registers ----------------------------------------------------------- */

/* A REGISTER buffer is an array of rows; a row is a vector of the last dim
 * (a scalar when the rank is 0). */
static uint32_t row_lanes(cgl_t *g, const kir_buffer_t *b) {
  if (b->rank == 0) return 1;
  int64_t n = 0;
  TD_CHECK(g->task, ix_is_const(b->dims[b->rank - 1], &n) && n > 0 && n <= 64,
           "register row of %s is not constant", b->name);
  return (uint32_t)n;
}

/* A whole row is one value of this type, also where the target splits it. */
static LLVMTypeRef row_type(cgl_t *g, const kir_buffer_t *b) {
  LLVMTypeRef element = cgl_storage_type(g, b->dtype);
  uint32_t n = row_lanes(g, b);
  return b->rank == 0 ? element : LLVMVectorType(element, n);
}

/* Rows are constants once loops are unrolled, so the array dissolves. */
static LLVMValueRef row_address(cgl_t *g, const kir_buffer_t *b,
                                kir_expr_t *const *subs) {
  if (b->rank < 2) return base_of(g, b);
  bool before = g->at_lane0;
  g->at_lane0 = true;
  LLVMValueRef at = offset(g, b, b->rank - 1, subs);
  g->at_lane0 = before;
  return LLVMBuildGEP2(g->builder, row_type(g, b), base_of(g, b), &at, 1, "");
}

static LLVMValueRef numbered_row(cgl_t *g, const kir_buffer_t *b,
                                 uint32_t row) {
  LLVMValueRef at = LLVMConstInt(g->i64, row, 0);
  return LLVMBuildGEP2(g->builder, row_type(g, b), base_of(g, b), &at, 1, "");
}

LLVMValueRef cgl_get_row(cgl_t *g, const kir_buffer_t *b, uint32_t row) {
  return LLVMBuildLoad2(g->builder, row_type(g, b), numbered_row(g, b, row),
                        "");
}

void cgl_put_row(cgl_t *g, const kir_buffer_t *b, uint32_t row,
                 LLVMValueRef v) {
  LLVMBuildStore(g->builder, v, numbered_row(g, b, row));
}

/* The last subscript is the lane itself and the row is as wide. */
static bool is_whole_row(cgl_t *g, const kir_buffer_t *b,
                         kir_expr_t *const *subs) {
  if (g->lanes == 0 || g->at_lane0 || b->rank == 0) return false;
  const kir_expr_t *last = subs[b->rank - 1];
  return last->op == KIR_X_VAR && last->u.var == g->lane_var &&
         row_lanes(g, b) == g->lanes;
}

/* One element of a row is extracted from the whole row. */
static LLVMValueRef register_load(cgl_t *g, const kir_expr_t *e) {
  const kir_buffer_t *b = e->u.buffer;
  LLVMValueRef row = LLVMBuildLoad2(g->builder, row_type(g, b),
                                    row_address(g, b, e->args), "");
  if (b->rank == 0 || is_whole_row(g, b, e->args)) {
    return cgl_decode(g, b->dtype, row);
  }
  LLVMValueRef at = cgl_expr(g, e->args[b->rank - 1]);
  TD_CHECK(g->task, !cgl_is_vector(at), "register row %s is shuffled",
           b->name);
  LLVMValueRef bits = LLVMBuildExtractElement(g->builder, row, at, "");
  return cgl_decode(g, b->dtype, bits);
}

/* The bits of a value of `dtype` that has been widened only, as where a row
 * is brought to be turned before it is; a NaN keeps its own.  Or NULL. */
static LLVMValueRef as_it_was(cgl_t *g, tdsl_dtype_t dtype, LLVMValueRef v) {
  if (dtype != TDSL_DTYPE_F16 || LLVMIsAFPExtInst(v) == NULL) return NULL;
  LLVMValueRef half = LLVMGetOperand(v, 0);
  return LLVMBuildBitCast(g->builder, half, cgl_like(g->i16, half), "");
}

/* Masked lanes keep what they had; a single element is inserted. */
static void register_store(cgl_t *g, const kir_stmt_t *s) {
  const kir_buffer_t *b = s->buffer;
  LLVMValueRef address = row_address(g, b, s->subs);
  LLVMValueRef v = cgl_expr(g, s->value);
  bool whole = is_whole_row(g, b, s->subs);
  if (whole) v = cgl_widen(g, v);
  TD_CHECK(g->task, whole || !cgl_is_vector(v),
           "vector stored to one register of %s", b->name);
  LLVMValueRef bits = as_it_was(g, b->dtype, v);
  if (bits == NULL) bits = cgl_encode(g, b->dtype, v, s->value->type);
  if (whole && g->mask != NULL) {
    LLVMValueRef old =
        LLVMBuildLoad2(g->builder, row_type(g, b), address, "");
    bits = LLVMBuildSelect(g->builder, g->mask, bits, old, "");
  }
  if (b->rank > 0 && !whole) {
    LLVMValueRef at = cgl_expr(g, s->subs[b->rank - 1]);
    LLVMValueRef old =
        LLVMBuildLoad2(g->builder, row_type(g, b), address, "");
    bits = LLVMBuildInsertElement(g->builder, old, bits, at, "");
  }
  LLVMBuildStore(g->builder, bits, address);
}

/* ---- loads and stores ---------------------------------------------------- */

/* One element that all lanes share.  What does not vary is a scalar wherever
 * it stands, so a mask becomes a branch: the element is read if any lane
 * wants it. */
static LLVMValueRef uniform_load(cgl_t *g, const kir_expr_t *e,
                                 bool is_masked) {
  const kir_buffer_t *b = e->u.buffer;
  LLVMTypeRef type = cgl_storage_type(g, b->dtype);
  LLVMBasicBlockRef blocks[2] = {NULL, NULL}, join = NULL;
  if (is_masked) {
    LLVMValueRef any = cgl_any_lane(g, g->mask);
    blocks[0] = LLVMAppendBasicBlockInContext(g->context, g->function, "any");
    join = LLVMAppendBasicBlockInContext(g->context, g->function, "join");
    blocks[1] = LLVMGetInsertBlock(g->builder);
    LLVMBuildCondBr(g->builder, any, blocks[0], join);
    LLVMPositionBuilderAtEnd(g->builder, blocks[0]);
  }
  size_t mark = cgl_memo_mark(g);
  bool varies = false; /* as in l - l */
  for (uint32_t i = 0; i < e->arg_count; i++) {
    varies |= cgl_is_varying(g, e->args[i]);
  }
  LLVMValueRef p =
      varies ? lane0_address(g, b, e->arg_count, e->args)
             : scalar_address(g, b, e->arg_count, e->args);
  LLVMValueRef v = LLVMBuildLoad2(g->builder, type, p, "");
  LLVMSetAlignment(v, alignment(b));
  if (is_masked) {
    cgl_memo_release(g, mark);
    blocks[0] = LLVMGetInsertBlock(g->builder);
    LLVMBuildBr(g->builder, join);
    LLVMPositionBuilderAtEnd(g->builder, join);
    LLVMValueRef values[2] = {v, LLVMConstNull(type)};
    v = LLVMBuildPhi(g->builder, type, "");
    LLVMAddIncoming(v, values, blocks, 2);
  }
  v = cgl_decode(g, b->dtype, v);
  return varies ? cgl_widen(g, v) : v;
}

/* Masked unless it cannot fault: then the lanes that do not count read
 * something harmless, which is faster than masking. */
LLVMValueRef cgl_load(cgl_t *g, const kir_expr_t *e) {
  const kir_buffer_t *b = e->u.buffer;
  if (b->space == KIR_REGISTER) return register_load(g, e);
  access_t a = classify(g, e->arg_count, e->args);
  LLVMTypeRef type = cgl_storage_type(g, b->dtype);
  bool is_masked = g->mask != NULL && !e->is_safe && !g->at_lane0;
  if (a.kind == ACCESS_UNIFORM) return uniform_load(g, e, is_masked);
  cgl_place_t place = {.element = type, .align = alignment(b)};
  place.mask = is_masked ? g->mask : no_mask(g);
  if (a.kind == ACCESS_CONTIGUOUS) {
    place.where = lane0_address(g, b, e->arg_count, e->args);
    if (!is_masked) {
      LLVMTypeRef wide = LLVMVectorType(type, g->lanes);
      LLVMValueRef v = LLVMBuildLoad2(g->builder, wide, place.where, "");
      LLVMSetAlignment(v, place.align);
      return cgl_decode(g, b->dtype, v);
    }
  } else {
    place.where = lane_addresses(g, b, &a, e->arg_count, e->args);
  }
  return cgl_decode(g, b->dtype, cgl_masked_load(g, &place));
}

/* As metadata of a store: past the caches. */
static void mark_streamed(cgl_t *g, LLVMValueRef store) {
  static const char name[] = "nontemporal";
  LLVMMetadataRef one = LLVMValueAsMetadata(LLVMConstInt(g->i32, 1, 0));
  LLVMSetMetadata(
      store, LLVMGetMDKindIDInContext(g->context, name, sizeof name - 1),
      LLVMMetadataAsValue(g->context,
                          LLVMMDNodeInContext2(g->context, &one, 1)));
}

/* Neighbours in pieces that are loaded again as such: of one wide store, a
 * load of a part would be made out of integers by LLVM, bit by bit. */
enum { PIECE = 16 };
static uint32_t piece_of(const cgl_t *g) {
  return g->lanes > PIECE && g->lanes % PIECE == 0 ? PIECE : g->lanes;
}

static void store_pieces(cgl_t *g, LLVMValueRef bits, LLVMValueRef where,
                         uint32_t align, bool is_streamed) {
  uint32_t n = g->lanes, piece = piece_of(g);
  LLVMTypeRef element = LLVMGetElementType(LLVMTypeOf(bits));
  for (uint32_t first = 0; first < n; first += piece) {
    LLVMValueRef part = bits, to = where, order[PIECE];
    if (piece < n) {
      for (uint32_t i = 0; i < piece; i++) {
        order[i] = LLVMConstInt(g->i32, first + i, 0);
      }
      part = LLVMBuildShuffleVector(g->builder, bits,
                                    LLVMGetPoison(LLVMTypeOf(bits)),
                                    LLVMConstVector(order, piece), "");
      LLVMValueRef at = LLVMConstInt(g->i64, first, 0);
      to = LLVMBuildGEP2(g->builder, element, where, &at, 1, "");
    }
    LLVMValueRef s = LLVMBuildStore(g->builder, part, to);
    LLVMSetAlignment(s, is_streamed ? piece * align : align);
    if (is_streamed) mark_streamed(g, s);
  }
}

/* Past the caches, which takes whole vectors at multiples of their size: the
 * host's memory may begin anywhere. */
static void store_lanes(cgl_t *g, LLVMValueRef bits, LLVMValueRef where,
                        uint32_t align, bool is_streamed) {
  LLVMBuilderRef at = g->builder;
  if (!is_streamed) {
    store_pieces(g, bits, where, align, false);
    return;
  }
  uint64_t bytes = piece_of(g) * (uint64_t)align;
  LLVMValueRef low =
      LLVMBuildAnd(at, LLVMBuildPtrToInt(at, where, g->i64, ""),
                   LLVMConstInt(g->i64, bytes - 1, 0), "");
  LLVMValueRef is_even =
      LLVMBuildICmp(at, LLVMIntEQ, low, LLVMConstInt(g->i64, 0, 0), "");
  LLVMBasicBlockRef blocks[2], join;
  for (int i = 0; i < 2; i++) {
    blocks[i] = LLVMAppendBasicBlockInContext(g->context, g->function,
                                              i == 0 ? "past" : "through");
  }
  join = LLVMAppendBasicBlockInContext(g->context, g->function, "stored");
  LLVMBuildCondBr(at, is_even, blocks[0], blocks[1]);
  for (int i = 0; i < 2; i++) {
    LLVMPositionBuilderAtEnd(at, blocks[i]);
    store_pieces(g, bits, where, align, i == 0);
    LLVMBuildBr(at, join);
  }
  LLVMPositionBuilderAtEnd(at, join);
}

/* A scalar store in scalar code, else one for each lane: lanes that store to
 * one place do so in order. */
void cgl_store(cgl_t *g, const kir_stmt_t *s) {
  const kir_buffer_t *b = s->buffer;
  if (b->space == KIR_REGISTER) {
    register_store(g, s);
    return;
  }
  access_t a = classify(g, s->sub_count, s->subs);
  LLVMValueRef v = cgl_expr(g, s->value);
  if (g->lanes == 0) {
    LLVMValueRef bits = cgl_encode(g, b->dtype, v, s->value->type);
    LLVMValueRef st = LLVMBuildStore(
        g->builder, bits, scalar_address(g, b, s->sub_count, s->subs));
    LLVMSetAlignment(st, alignment(b));
    return;
  }
  LLVMValueRef bits =
      cgl_encode(g, b->dtype, cgl_widen(g, v), s->value->type);
  cgl_place_t place = {.element = cgl_storage_type(g, b->dtype),
                       .align = alignment(b)};
  place.mask = g->mask != NULL ? g->mask : no_mask(g);
  if (a.kind == ACCESS_CONTIGUOUS) {
    place.where = lane0_address(g, b, s->sub_count, s->subs);
    if (g->mask == NULL) {
      store_lanes(g, bits, place.where, place.align, b->is_streamed);
      return;
    }
  } else {
    place.where = lane_addresses(g, b, &a, s->sub_count, s->subs);
  }
  cgl_masked_store(g, &place, bits);
}

/* Into the second cache: what is on its way to the first one occupies the few
 * places that loads need for their own misses. */
void cgl_prefetch(cgl_t *g, const kir_stmt_t *s) {
  static const char name[] = "llvm.prefetch";
  unsigned id = LLVMLookupIntrinsicID(name, sizeof name - 1);
  LLVMTypeRef overload[1] = {g->ptr};
  LLVMValueRef f = LLVMGetIntrinsicDeclaration(g->module, id, overload, 1);
  LLVMTypeRef type = LLVMIntrinsicGetType(g->context, id, overload, 1);
  enum { READ = 0, SECOND_CACHE = 2, DATA = 1 };
  LLVMValueRef args[4] = {scalar_address(g, s->buffer, s->sub_count, s->subs),
                          LLVMConstInt(g->i32, READ, 0),
                          LLVMConstInt(g->i32, SECOND_CACHE, 0),
                          LLVMConstInt(g->i32, DATA, 0)};
  LLVMBuildCall2(g->builder, type, f, args, 4, "");
}

/* ---- fold: lane l takes lane l + n/2, then l + n/4, ... ------------------ */

static LLVMValueRef combine(cgl_t *g, kir_x_t op, tdsl_dtype_t type,
                            LLVMValueRef a, LLVMValueRef b) {
  bool is_float = type == TDSL_DTYPE_F32 || type == TDSL_DTYPE_F64;
  switch ((int)op) {
    case KIR_X_ADD:
      return is_float ? LLVMBuildFAdd(g->builder, a, b, "")
                      : LLVMBuildAdd(g->builder, a, b, "");
    case KIR_X_MUL:
      return is_float ? LLVMBuildFMul(g->builder, a, b, "")
                      : LLVMBuildMul(g->builder, a, b, "");
    case KIR_X_MAX: case KIR_X_MIN: {
      if (is_float) return cgl_max(g, a, b, op == KIR_X_MIN);
      LLVMValueRef c = LLVMBuildICmp(
          g->builder, op == KIR_X_MIN ? LLVMIntSLT : LLVMIntSGT, a, b, "");
      return LLVMBuildSelect(g->builder, c, a, b, "");
    }
    case KIR_X_AND: return LLVMBuildAnd(g->builder, a, b, "");
    case KIR_X_OR: return LLVMBuildOr(g->builder, a, b, "");
    default: TD_ICE(g->task, "fold by operation %d", (int)op);
  }
}

/* Lanes first .. first + n - 1. */
static LLVMValueRef lanes_from(cgl_t *g, LLVMValueRef v, uint32_t first,
                               uint32_t n) {
  LLVMValueRef order[64];
  for (uint32_t i = 0; i < n; i++) {
    order[i] = LLVMConstInt(g->i32, first + i, 0);
  }
  return LLVMBuildShuffleVector(g->builder, v, LLVMGetPoison(LLVMTypeOf(v)),
                                LLVMConstVector(order, n), "");
}

static LLVMValueRef lane_0(cgl_t *g, LLVMValueRef v) {
  return LLVMBuildExtractElement(g->builder, v, LLVMConstInt(g->i32, 0, 0),
                                 "");
}

/* Shuffles halve the vector, so the order of additions is the same for every
 * target, however wide its registers are. */
static LLVMValueRef fold_lanes(cgl_t *g, const kir_expr_t *e,
                               LLVMValueRef row) {
  for (uint32_t n = LLVMGetVectorSize(LLVMTypeOf(row)); n > 1; n /= 2) {
    row = combine(g, e->fold, e->type, lanes_from(g, row, 0, n / 2),
                  lanes_from(g, row, n / 2, n / 2));
  }
  return lane_0(g, row);
}

/* The largest or smallest by the machine's own instruction, which is right
 * unless there is a NaN or zeros of two signs: then once more, by the rules
 * of the language. */
static LLVMValueRef fold_floats(cgl_t *g, const kir_expr_t *e,
                                LLVMValueRef row) {
  LLVMBuilderRef at = g->builder;
  LLVMRealPredicate wins = e->fold == KIR_X_MIN ? LLVMRealOLT : LLVMRealOGT;
  LLVMValueRef v = row, odd = NULL;
  for (uint32_t n = LLVMGetVectorSize(LLVMTypeOf(row)); n > 1; n /= 2) {
    LLVMValueRef a = lanes_from(g, v, 0, n / 2);
    LLVMValueRef b = lanes_from(g, v, n / 2, n / 2);
    if (odd == NULL) {
      odd = cgl_any_lane(g, LLVMBuildFCmp(at, LLVMRealUNO, a, b, ""));
    }
    v = LLVMBuildSelect(at, LLVMBuildFCmp(at, wins, a, b, ""), a, b, "");
  }
  v = lane_0(g, v);
  LLVMValueRef zero = LLVMConstNull(LLVMTypeOf(v));
  odd = LLVMBuildOr(at, odd, LLVMBuildFCmp(at, LLVMRealOEQ, v, zero, ""), "");
  LLVMBasicBlockRef from[2] = {LLVMGetInsertBlock(at)};
  LLVMBasicBlockRef again =
      LLVMAppendBasicBlockInContext(g->context, g->function, "again");
  LLVMBasicBlockRef join =
      LLVMAppendBasicBlockInContext(g->context, g->function, "join");
  LLVMBuildCondBr(at, odd, again, join);
  LLVMPositionBuilderAtEnd(at, again);
  LLVMValueRef values[2] = {v, fold_lanes(g, e, row)};
  from[1] = LLVMGetInsertBlock(at);
  LLVMBuildBr(at, join);
  LLVMPositionBuilderAtEnd(at, join);
  v = LLVMBuildPhi(at, LLVMTypeOf(v), "");
  LLVMAddIncoming(v, values, from, 2);
  return v;
}

LLVMValueRef cgl_fold(cgl_t *g, const kir_expr_t *e) {
  const kir_buffer_t *b = e->u.buffer;
  TD_CHECK(g->task, b->space == KIR_REGISTER && b->rank >= 1,
           "fold of %s, which is no register row", b->name);
  LLVMValueRef row = LLVMBuildLoad2(g->builder, row_type(g, b),
                                    row_address(g, b, e->args), "");
  row = cgl_decode(g, b->dtype, row);
  uint32_t n = row_lanes(g, b);
  TD_CHECK(g->task, (n & (n - 1)) == 0, "fold of %u lanes", n);
  bool is_float = e->type == TDSL_DTYPE_F32 || e->type == TDSL_DTYPE_F64;
  bool is_choice = e->fold == KIR_X_MAX || e->fold == KIR_X_MIN;
  if (is_float && is_choice && n >= 8) return fold_floats(g, e, row);
  return fold_lanes(g, e, row);
}

/* ---- allocation ---------------------------------------------------------- */

/* Registers are allocas, which the first pass turns into values. Scratch is
 * laid out in the order of the text: kir_scratch_bytes adds up the same. */
void cgl_alloc(cgl_t *g, const kir_stmt_t *s) {
  const kir_buffer_t *b = s->buffer;
  LLVMValueRef base;
  /* in the copies of an unrolled loop it is one buffer */
  if (td_map_get_u64(g->storage, (uint64_t)(uintptr_t)b) != NULL) return;
  LLVMBasicBlockRef here = LLVMGetInsertBlock(g->builder);
  LLVMValueRef terminator = LLVMGetBasicBlockTerminator(g->entry);
  if (b->space == KIR_REGISTER) {
    LLVMPositionBuilderBefore(g->builder, terminator);
    uint64_t rows = 1;
    for (uint32_t d = 0; d + 1 < b->rank; d++) {
      int64_t n = 0;
      TD_CHECK(g->task, ix_is_const(b->dims[d], &n), "registers of %s",
               b->name);
      rows *= (uint64_t)n;
    }
    LLVMTypeRef type = row_type(g, b);
    base = LLVMBuildAlloca(
        g->builder, rows > 1 ? LLVMArrayType(type, (unsigned)rows) : type, "");
  } else {
    TD_CHECK(g->task, b->space == KIR_LOCAL, "space of %s", b->name);
    LLVMPositionBuilderBefore(g->builder, terminator);
    ix_pool_t *pool = g->kernel->pool;
    LLVMValueRef at = cgl_poly(g, g->scratch_used);
    base = LLVMBuildGEP2(g->builder, g->i8, g->scratch, &at, 1, b->name);
    const ix_poly_t *bytes =
        ix_const(pool, (int64_t)td_dtype_bytes(b->dtype));
    for (uint32_t d = 0; d < b->rank; d++) {
      bytes = ix_mul(pool, bytes, b->dims[d]);
    }
    bytes = ix_add(pool, bytes, ix_const(pool, 63));
    const ix_poly_t *line = ix_const(pool, 64);
    g->scratch_used = ix_add(
        pool, g->scratch_used,
        ix_mul(pool, ix_div(pool, bytes, line, NULL), line));
  }
  LLVMPositionBuilderAtEnd(g->builder, here);
  td_map_put_u64(g->storage, (uint64_t)(uintptr_t)b, base);
}
