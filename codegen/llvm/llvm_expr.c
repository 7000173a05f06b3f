/* llvm_expr.c: scalar expressions of a kernel as LLVM values.
 *
 * In a lane loop of n lanes a value is a vector of n elements if it may
 * differ between lanes, else a scalar; cgl_widen bridges.  `mask` says which
 * lanes count; lanes that do not may hold anything, but nothing done for
 * them may trap or touch memory.
 *
 * Expressions are DAGs of any depth: operands are evaluated from an explicit
 * stack, and only choices and loads inside each other recurse. */
#include "codegen/llvm/llvm_impl.h"

#include "runtime/base/num.h"

/* Whether a value is one a lane; the type says so, nothing else records it. */
bool cgl_is_vector(LLVMValueRef v) {
  return LLVMGetTypeKind(LLVMTypeOf(v)) == LLVMVectorTypeKind;
}

/* Lets one text of arithmetic serve scalars and vectors. */
LLVMTypeRef cgl_like(LLVMTypeRef element, LLVMValueRef like) {
  if (!cgl_is_vector(like)) return element;
  return LLVMVectorType(element, LLVMGetVectorSize(LLVMTypeOf(like)));
}

/* A constant becomes a constant vector, which folds and needs no register. */
LLVMValueRef cgl_splat(cgl_t *g, LLVMValueRef scalar, LLVMValueRef like) {
  if (!cgl_is_vector(like) || cgl_is_vector(scalar)) return scalar;
  uint32_t n = LLVMGetVectorSize(LLVMTypeOf(like));
  LLVMTypeRef type = LLVMVectorType(LLVMTypeOf(scalar), n);
  if (LLVMIsConstant(scalar)) {
    LLVMValueRef items[64];
    TD_CHECK(g->task, n <= 64, "vector of %u lanes", n);
    for (uint32_t i = 0; i < n; i++) items[i] = scalar;
    return LLVMConstVector(items, n);
  }
  LLVMValueRef undef = LLVMGetPoison(type);
  LLVMValueRef zero = LLVMConstInt(g->i32, 0, 0);
  LLVMValueRef one =
      LLVMBuildInsertElement(g->builder, undef, scalar, zero, "");
  LLVMValueRef order = LLVMConstNull(LLVMVectorType(g->i32, n));
  return LLVMBuildShuffleVector(g->builder, one, undef, order, "");
}

/* At lane 0 addresses are computed, and those are scalars. */
LLVMValueRef cgl_widen(cgl_t *g, LLVMValueRef v) {
  if (g->lanes == 0 || g->at_lane0 || cgl_is_vector(v)) return v;
  LLVMValueRef like =
      LLVMGetUndef(LLVMVectorType(LLVMTypeOf(v), g->lanes));
  return cgl_splat(g, v, like);
}

LLVMValueRef cgl_const_f32(cgl_t *g, float v, LLVMValueRef like) {
  return cgl_splat(g, LLVMConstReal(g->f32, (double)v), like);
}

LLVMValueRef cgl_const_f64(cgl_t *g, double v, LLVMValueRef like) {
  return cgl_splat(g, LLVMConstReal(g->f64, v), like);
}

LLVMValueRef cgl_const_int(cgl_t *g, LLVMTypeRef element, int64_t v,
                           LLVMValueRef like) {
  return cgl_splat(g, LLVMConstInt(element, (unsigned long long)v, 1), like);
}

/* Arithmetic happens in four types; narrower ones exist in memory only. */
LLVMTypeRef cgl_value_type(cgl_t *g, tdsl_dtype_t type) {
  switch (type) {
    case TDSL_DTYPE_F32: return g->f32;
    case TDSL_DTYPE_F64: return g->f64;
    case TDSL_DTYPE_BOOL: return g->i1;
    case TDSL_DTYPE_I64: return g->i64;
    case TDSL_DTYPE_UNSET: case TDSL_DTYPE_F16: case TDSL_DTYPE_BF16:
    case TDSL_DTYPE_F8E4M3: case TDSL_DTYPE_F8E5M2: case TDSL_DTYPE_I32:
    case TDSL_DTYPE_I8: case TDSL_DTYPE_U8: case TDSL_DTYPE_FORCE32:
      break;
  }
  TD_ICE(g->task, "no arithmetic in dtype %d", (int)type);
}

/* ---- index arithmetic of dims -------------------------------------------- */

/* Dims are parameters of the function, so they dominate everything. */
static LLVMValueRef symbol_value(cgl_t *g, const ix_symbol_t *s) {
  for (uint32_t i = 0; i < g->kernel->dim_count; i++) {
    if (g->kernel->dims[i] == s) return g->dims[i];
  }
  TD_ICE(g->task, "kernel %s has no dim %s", g->kernel->name, s->name);
}

/* n if v, a constant or a vector of one constant, is 2^n; else -1. */
static int power_of_two(LLVMValueRef v) {
  if (cgl_is_vector(v)) {
    if (!LLVMIsConstant(v)) return -1;
    LLVMValueRef first = LLVMGetAggregateElement(v, 0);
    for (unsigned i = 1; i < LLVMGetVectorSize(LLVMTypeOf(v)); i++) {
      if (LLVMGetAggregateElement(v, i) != first) return -1;
    }
    v = first;
  }
  if (v == NULL || !LLVMIsAConstantInt(v)) return -1;
  int64_t n = LLVMConstIntGetSExtValue(v);
  return n > 0 && (n & (n - 1)) == 0 ? __builtin_ctzll((uint64_t)n) : -1;
}

/* Floor of a / b for b > 0, of scalars or vectors of i64. */
static LLVMValueRef floor_div(cgl_t *g, LLVMValueRef a, LLVMValueRef b,
                              bool want_mod) {
  int shift = power_of_two(b);
  if (shift >= 0 && want_mod) {
    int64_t mask = (int64_t)(((uint64_t)1 << shift) - 1);
    return LLVMBuildAnd(g->builder, a, cgl_const_int(g, g->i64, mask, a), "");
  }
  if (shift >= 0) {
    return LLVMBuildAShr(g->builder, a, cgl_const_int(g, g->i64, shift, a),
                         "");
  }
  LLVMValueRef zero = LLVMConstNull(LLVMTypeOf(a));
  LLVMValueRef r = LLVMBuildSRem(g->builder, a, b, "");
  /* the sign of the remainder is that of a; fix it up when it disagrees */
  LLVMValueRef wrong = LLVMBuildAnd(
      g->builder, LLVMBuildICmp(g->builder, LLVMIntNE, r, zero, ""),
      LLVMBuildICmp(g->builder, LLVMIntSLT,
                    LLVMBuildXor(g->builder, r, b, ""), zero, ""), "");
  if (want_mod) {
    return LLVMBuildSelect(g->builder, wrong,
                           LLVMBuildAdd(g->builder, r, b, ""), r, "");
  }
  LLVMValueRef q = LLVMBuildSDiv(g->builder, a, b, "");
  LLVMValueRef one = LLVMBuildZExt(g->builder, wrong, LLVMTypeOf(q), "");
  return LLVMBuildSub(g->builder, q, one, "");
}

/* Atoms nest IX_MAX_DEPTH deep at most, and cgl_poly with them. */
static LLVMValueRef atom_value(cgl_t *g, const ix_atom_t *a) {
  if (a->kind == IX_ATOM_SYMBOL) return symbol_value(g, a->symbol);
  LLVMValueRef p = cgl_poly(g, a->p), q = cgl_poly(g, a->q);
  if (a->kind == IX_ATOM_FLOOR) return floor_div(g, p, q, false);
  if (a->kind == IX_ATOM_MOD) return floor_div(g, p, q, true);
  LLVMIntPredicate less = a->kind == IX_ATOM_MIN ? LLVMIntSLT : LLVMIntSGT;
  LLVMValueRef first = LLVMBuildICmp(g->builder, less, p, q, "");
  return LLVMBuildSelect(g->builder, first, p, q, "");
}

/* Written out where it is needed; common parts and invariants are LLVM's. */
LLVMValueRef cgl_poly(cgl_t *g, const ix_poly_t *p) {
  LLVMValueRef sum = LLVMConstInt(g->i64, 0, 0);
  for (uint32_t t = 0; t < p->term_count; t++) {
    const ix_term_t *term = &p->terms[t];
    LLVMValueRef product =
        LLVMConstInt(g->i64, (unsigned long long)term->coefficient, 1);
    for (uint32_t i = 0; i < term->atom_count; i++) {
      product = LLVMBuildMul(g->builder, product,
                             atom_value(g, term->atoms[i]), "");
    }
    sum = LLVMBuildAdd(g->builder, sum, product, "");
  }
  return sum;
}

/* ---- operations ---------------------------------------------------------- */

/* No fast-math flag is ever set: each of these is one IEEE operation. */
static LLVMValueRef float_binary(cgl_t *g, kir_x_t op, LLVMValueRef a,
                                 LLVMValueRef b) {
  switch ((int)op) {
    case KIR_X_ADD: return LLVMBuildFAdd(g->builder, a, b, "");
    case KIR_X_SUB: return LLVMBuildFSub(g->builder, a, b, "");
    case KIR_X_MUL: return LLVMBuildFMul(g->builder, a, b, "");
    case KIR_X_DIV: return LLVMBuildFDiv(g->builder, a, b, "");
    case KIR_X_MIN: return cgl_max(g, a, b, true);
    case KIR_X_MAX: return cgl_max(g, a, b, false);
    case KIR_X_EQ: return LLVMBuildFCmp(g->builder, LLVMRealOEQ, a, b, "");
    case KIR_X_NE: return LLVMBuildFCmp(g->builder, LLVMRealUNE, a, b, "");
    case KIR_X_LT: return LLVMBuildFCmp(g->builder, LLVMRealOLT, a, b, "");
    case KIR_X_LE: return LLVMBuildFCmp(g->builder, LLVMRealOLE, a, b, "");
    case KIR_X_GT: return LLVMBuildFCmp(g->builder, LLVMRealOGT, a, b, "");
    case KIR_X_GE: return LLVMBuildFCmp(g->builder, LLVMRealOGE, a, b, "");
    case KIR_X_POW: return cgl_math(g, op, a, b);
    default: TD_ICE(g->task, "float operation %d", (int)op);
  }
}

/* x ^ n by repeated squaring, wrapping; n >= 0 as the checker proved. */
static LLVMValueRef int_power(cgl_t *g, LLVMValueRef a, LLVMValueRef n) {
  LLVMValueRef args[2] = {a, n};
  LLVMTypeRef type = cgl_is_vector(a) ? LLVMGetElementType(LLVMTypeOf(a))
                                      : LLVMTypeOf(a);
  return cgl_helper(g, "rcpu_ipow", type, args, 2, g->mask);
}

/* u + lane < v, or <= v, with u and v the same in all lanes: compares numbers
 * of lanes in 32 bits with how many of them are below.  NULL: not of this
 * form. */
static LLVMValueRef lane_below(cgl_t *g, const kir_expr_t *e) {
  bool is_le = e->op == KIR_X_LE;
  if (g->lanes == 0 || g->at_lane0 || (e->op != KIR_X_LT && !is_le) ||
      e->args[0]->type != TDSL_DTYPE_I64) {
    return NULL;
  }
  const kir_expr_t *sum = e->args[0], *limit = e->args[1];
  const kir_expr_t *base = NULL, *lane = sum;
  if (cgl_is_varying(g, limit)) return NULL;
  if (sum->op == KIR_X_ADD) {
    bool first = !cgl_is_varying(g, sum->args[0]);
    base = sum->args[first ? 0 : 1];
    lane = sum->args[first ? 1 : 0];
    if (cgl_is_varying(g, base)) return NULL;
  }
  if (lane->op != KIR_X_VAR || lane->u.var != g->lane_var) return NULL;
  LLVMValueRef left = cgl_expr(g, limit);
  if (base != NULL) {
    LLVMValueRef pair[2] = {left, cgl_expr(g, base)};
    left = cgl_intrinsic(g, "llvm.ssub.sat", pair, 2);
  }
  if (is_le) {
    LLVMValueRef next[2] = {left, LLVMConstInt(g->i64, 1, 0)};
    left = cgl_intrinsic(g, "llvm.sadd.sat", next, 2);
  }
  LLVMValueRef ends[2] = {left, LLVMConstInt(g->i64, g->lanes, 0)};
  left = cgl_intrinsic(g, "llvm.smin", ends, 2);
  ends[0] = left;
  ends[1] = LLVMConstInt(g->i64, 0, 0);
  left = cgl_intrinsic(g, "llvm.smax", ends, 2);
  left = LLVMBuildTrunc(g->builder, left, g->i32, "");
  LLVMValueRef numbers[64];
  for (uint32_t i = 0; i < g->lanes; i++) {
    numbers[i] = LLVMConstInt(g->i32, i, 0);
  }
  LLVMValueRef lanes = LLVMConstVector(numbers, g->lanes);
  return LLVMBuildICmp(g->builder, LLVMIntULT, lanes,
                       cgl_splat(g, left, lanes), "");
}

/* Without nsw: integers wrap. */
static LLVMValueRef int_binary(cgl_t *g, kir_x_t op, LLVMValueRef a,
                               LLVMValueRef b) {
  LLVMIntPredicate p = LLVMIntEQ;
  switch ((int)op) {
    case KIR_X_ADD:
      /* the first turn of an unrolled loop adds nothing */
      if (LLVMIsNull(a)) return b;
      if (LLVMIsNull(b)) return a;
      return LLVMBuildAdd(g->builder, a, b, "");
    case KIR_X_SUB: return LLVMBuildSub(g->builder, a, b, "");
    case KIR_X_MUL: return LLVMBuildMul(g->builder, a, b, "");
    case KIR_X_DIV: case KIR_X_MOD: {
      /* lanes that do not count must not trap */
      if (g->mask != NULL && !LLVMIsConstant(b)) {
        LLVMValueRef counts =
            cgl_is_vector(b) ? g->mask : cgl_any_lane(g, g->mask);
        b = LLVMBuildSelect(g->builder, counts, b,
                            cgl_const_int(g, g->i64, 1, b), "");
      }
      return floor_div(g, a, b, op == KIR_X_MOD);
    }
    case KIR_X_POW: return int_power(g, a, b);
    case KIR_X_MIN:
      return LLVMBuildSelect(
          g->builder, LLVMBuildICmp(g->builder, LLVMIntSLT, a, b, ""), a, b,
          "");
    case KIR_X_MAX:
      return LLVMBuildSelect(
          g->builder, LLVMBuildICmp(g->builder, LLVMIntSGT, a, b, ""), a, b,
          "");
    case KIR_X_EQ: p = LLVMIntEQ; break;
    case KIR_X_NE: p = LLVMIntNE; break;
    case KIR_X_LT: p = LLVMIntSLT; break;
    case KIR_X_LE: p = LLVMIntSLE; break;
    case KIR_X_GT: p = LLVMIntSGT; break;
    case KIR_X_GE: p = LLVMIntSGE; break;
    default: TD_ICE(g->task, "integer operation %d", (int)op);
  }
  return LLVMBuildICmp(g->builder, p, a, b, "");
}

/* What has an instruction or exact expansion is an intrinsic; roundeven and
 * not rint, since no rounding mode is assumed. */
static LLVMValueRef unary(cgl_t *g, const kir_expr_t *e, LLVMValueRef a) {
  bool is_float = e->type == TDSL_DTYPE_F32 || e->type == TDSL_DTYPE_F64;
  LLVMValueRef args[1] = {a};
  switch ((int)e->op) {
    case KIR_X_NOT: return LLVMBuildNot(g->builder, a, "");
    case KIR_X_NEG:
      return is_float ? LLVMBuildFNeg(g->builder, a, "")
                      : LLVMBuildNeg(g->builder, a, "");
    case KIR_X_ABS:
      if (is_float) return cgl_intrinsic(g, "llvm.fabs", args, 1);
      return LLVMBuildSelect(
          g->builder,
          LLVMBuildICmp(g->builder, LLVMIntSLT, a,
                        LLVMConstNull(LLVMTypeOf(a)), ""),
          LLVMBuildNeg(g->builder, a, ""), a, "");
    case KIR_X_FLOOR: return cgl_intrinsic(g, "llvm.floor", args, 1);
    case KIR_X_CEIL: return cgl_intrinsic(g, "llvm.ceil", args, 1);
    case KIR_X_ROUND: return cgl_intrinsic(g, "llvm.roundeven", args, 1);
    case KIR_X_SQRT: return cgl_intrinsic(g, "llvm.sqrt", args, 1);
    default: return cgl_math(g, e->op, a, NULL);
  }
}

/* Evaluates `e` in a block of its own that runs only where `cond` holds;
 * the other way gives `otherwise` (NULL: zero).  Scalar conditions only. */
static LLVMValueRef branch(cgl_t *g, LLVMValueRef cond, const kir_expr_t *yes,
                           const kir_expr_t *no, LLVMTypeRef type) {
  LLVMBasicBlockRef ends[2];
  LLVMValueRef values[2];
  LLVMBasicBlockRef then_block =
      LLVMAppendBasicBlockInContext(g->context, g->function, "then");
  LLVMBasicBlockRef else_block =
      LLVMAppendBasicBlockInContext(g->context, g->function, "else");
  LLVMBasicBlockRef join =
      LLVMAppendBasicBlockInContext(g->context, g->function, "join");
  LLVMBuildCondBr(g->builder, cond, then_block, else_block);
  LLVMBasicBlockRef starts[2] = {then_block, else_block};
  const kir_expr_t *arms[2] = {yes, no};
  /* a masked load of a uniform place may give a vector, so the values say
   * which type it is */
  bool is_vector = false;
  for (int i = 0; i < 2; i++) {
    LLVMPositionBuilderAtEnd(g->builder, starts[i]);
    size_t mark = cgl_memo_mark(g);
    values[i] = arms[i] == NULL ? LLVMConstNull(type) : cgl_expr(g, arms[i]);
    cgl_memo_release(g, mark);
    ends[i] = LLVMGetInsertBlock(g->builder);
    is_vector |= cgl_is_vector(values[i]);
  }
  if (is_vector) type = LLVMVectorType(type, g->lanes);
  for (int i = 0; i < 2; i++) {
    LLVMPositionBuilderAtEnd(g->builder, ends[i]);
    if (is_vector) values[i] = cgl_widen(g, values[i]);
    LLVMBuildBr(g->builder, join);
  }
  LLVMPositionBuilderAtEnd(g->builder, join);
  LLVMValueRef phi = LLVMBuildPhi(g->builder, type, "");
  LLVMAddIncoming(phi, values, ends, 2);
  return phi;
}

/* Evaluates under mask & cond (or & not cond); values of other lanes do not
 * matter. */
static LLVMValueRef masked(cgl_t *g, LLVMValueRef cond, bool negate,
                           const kir_expr_t *e) {
  if (!cgl_may_fault(g, e)) return cgl_expr_wide(g, e);
  LLVMValueRef before = g->mask;
  LLVMValueRef mask =
      negate ? LLVMBuildNot(g->builder, cond, "") : cond;
  if (before != NULL) mask = LLVMBuildAnd(g->builder, before, mask, "");
  size_t mark = cgl_memo_mark(g);
  g->mask = mask;
  LLVMValueRef v = cgl_expr_wide(g, e);
  g->mask = before;
  cgl_memo_release(g, mark);
  return v;
}

static uint32_t strict_count(cgl_t *g, const kir_expr_t *e);

/* What both arms need whatever they choose is evaluated before the choice,
 * or chains of choices would double it at every link. */
static void eval_common(cgl_t *g, const kir_expr_t *a, const kir_expr_t *b) {
  const kir_expr_t *roots[2] = {a, b};
  td_map_t seen[2];
  TD_VEC(const kir_expr_t *) stack = {0};
  for (int arm = 0; arm < 2; arm++) {
    td_map_init(&seen[arm], g->arena);
    td_vec_push(g->arena, &stack, roots[arm]);
    while (stack.length > 0) {
      const kir_expr_t *e = td_vec_pop(&stack);
      uint64_t key = (uint64_t)(uintptr_t)e;
      if (e->arg_count == 0) continue;
      if (arm == 1 && td_map_get_u64(&seen[0], key) != NULL) {
        (void)cgl_expr(g, e);
        continue;
      }
      if (td_map_get_u64(&seen[arm], key) != NULL) continue;
      td_map_put_u64(&seen[arm], key, g);
      for (uint32_t i = 0; i < strict_count(g, e); i++) {
        td_vec_push(g->arena, &stack, e->args[i]);
      }
    }
  }
}

/* select, and, or: chosen arms only.  `no` NULL stands for false, `yes` NULL
 * for true. */
static LLVMValueRef choose(cgl_t *g, const kir_expr_t *cond,
                           const kir_expr_t *yes, const kir_expr_t *no,
                           tdsl_dtype_t type) {
  LLVMValueRef c = cgl_expr(g, cond);
  if (yes != NULL && no != NULL && LLVMIsAConstantInt(c) != NULL) {
    return cgl_expr(g, LLVMIsNull(c) ? no : yes); /* of an unrolled loop */
  }
  LLVMTypeRef element = cgl_value_type(g, type);
  bool guard = (yes != NULL && cgl_may_fault(g, yes)) ||
               (no != NULL && cgl_may_fault(g, no));
  if (guard && yes != NULL && no != NULL) eval_common(g, yes, no);
  if (!cgl_is_vector(c) && guard) {
    if (yes == NULL) { /* or: true where c, else `no` */
      LLVMValueRef n = LLVMBuildNot(g->builder, c, "");
      LLVMValueRef v = branch(g, n, no, NULL, element);
      return LLVMBuildOr(g->builder, v, cgl_splat(g, c, v), "");
    }
    return branch(g, c, yes, no, element);
  }
  LLVMValueRef a, b;
  if (cgl_is_vector(c)) {
    LLVMTypeRef type_n = LLVMVectorType(element, g->lanes);
    a = yes != NULL ? masked(g, c, false, yes) : LLVMConstAllOnes(type_n);
    b = no != NULL ? masked(g, c, true, no) : LLVMConstNull(type_n);
  } else {
    a = yes != NULL ? cgl_expr(g, yes) : LLVMConstInt(g->i1, 1, 0);
    b = no != NULL ? cgl_expr(g, no) : LLVMConstInt(g->i1, 0, 0);
    if (cgl_is_vector(a)) b = cgl_splat(g, b, a);
    if (cgl_is_vector(b)) a = cgl_splat(g, a, b);
  }
  return LLVMBuildSelect(g->builder, c, a, b, "");
}

/* At lane 0 a vector let is its formula for that lane: an address must not
 * wait for the vector. */
static LLVMValueRef variable(cgl_t *g, const kir_var_t *var) {
  if (var == g->lane_var && g->at_lane0) return LLVMConstInt(g->i64, 0, 0);
  LLVMValueRef v = g->vars[var->id];
  TD_CHECK(g->task, v != NULL, "variable %s is used before it is set",
           var->name);
  if (g->at_lane0 && cgl_is_vector(v)) {
    return cgl_expr(g, g->lets[var->id]->value);
  }
  return v;
}

/* All strict operands are in the memo by now, so cgl_expr finds them without
 * recursing. */
static LLVMValueRef emit(cgl_t *g, const kir_expr_t *e) {
  LLVMValueRef a[8];
  int64_t lo;
  switch (e->op) {
    case KIR_X_CONST:
      if (e->type == TDSL_DTYPE_F32 || e->type == TDSL_DTYPE_F64) {
        return LLVMConstReal(cgl_value_type(g, e->type), e->u.f64);
      }
      return LLVMConstInt(cgl_value_type(g, e->type),
                          (unsigned long long)e->u.i64, 1);
    case KIR_X_VAR: return variable(g, e->u.var);
    case KIR_X_DIM: return cgl_poly(g, e->u.dim);
    case KIR_X_LOAD: return cgl_load(g, e);
    case KIR_X_FOLD: return cgl_fold(g, e);
    case KIR_X_SELECT:
      return choose(g, e->args[0], e->args[1], e->args[2], e->type);
    case KIR_X_AND: return choose(g, e->args[0], e->args[1], NULL, e->type);
    case KIR_X_OR: return choose(g, e->args[0], NULL, e->args[1], e->type);
    case KIR_X_CAST:
      a[0] = cgl_expr(g, e->args[0]);
      if (e->u.to == TDSL_DTYPE_F32 && g->target->has_avx512 &&
          cgl_is_one_of_16(e->args[0], &lo)) {
        a[1] = cgl_wide_f32_of_16(g, a[0], lo);
        if (a[1] != NULL) return a[1];
      }
      if (e->u.to == TDSL_DTYPE_F32 || e->u.to == TDSL_DTYPE_F64) {
        a[0] = cgl_narrow(g, e->args[0], a[0]);
      }
      return cgl_cast(g, e->u.to, a[0], e->args[0]->type);
    case KIR_X_ROUND_TF32:
      return cgl_round_tf32(g, cgl_expr(g, e->args[0]));
    case KIR_X_NEG: case KIR_X_NOT: case KIR_X_ABS: case KIR_X_FLOOR:
    case KIR_X_CEIL: case KIR_X_ROUND: case KIR_X_EXP: case KIR_X_EXP2:
    case KIR_X_LOG: case KIR_X_LOG2: case KIR_X_SQRT: case KIR_X_RSQRT:
    case KIR_X_SIN: case KIR_X_COS: case KIR_X_TANH: case KIR_X_ERF:
      return unary(g, e, cgl_expr(g, e->args[0]));
    case KIR_X_ADD: case KIR_X_SUB: case KIR_X_MUL: case KIR_X_DIV:
    case KIR_X_MOD: case KIR_X_POW: case KIR_X_MIN: case KIR_X_MAX:
    case KIR_X_EQ: case KIR_X_NE: case KIR_X_LT: case KIR_X_LE:
    case KIR_X_GT: case KIR_X_GE: case KIR_X_FMA: case KIR_X_UNIFORM: {
      bool any = false;
      LLVMValueRef below = lane_below(g, e);
      if (below != NULL) return below;
      TD_CHECK(g->task, e->arg_count <= 8, "%u operands", e->arg_count);
      for (uint32_t i = 0; i < e->arg_count; i++) {
        a[i] = cgl_expr(g, e->args[i]);
        any |= cgl_is_vector(a[i]);
      }
      if (e->op == KIR_X_DIV && any) {
        LLVMValueRef quotient = cgl_divide_by_one(g, a[0], a[1]);
        if (quotient != NULL) return quotient;
      }
      if (any) {
        for (uint32_t i = 0; i < e->arg_count; i++) a[i] = cgl_widen(g, a[i]);
      }
      if (e->op == KIR_X_FMA) return cgl_fma(g, a[0], a[1], a[2]);
      if (e->op == KIR_X_UNIFORM) {
        return cgl_uniform(g, a[0], a + 1, e->arg_count - 1);
      }
      tdsl_dtype_t t = e->args[0]->type;
      if (t == TDSL_DTYPE_F32 || t == TDSL_DTYPE_F64) {
        return float_binary(g, e->op, a[0], a[1]);
      }
      return int_binary(g, e->op, a[0], a[1]);
    }
    case KIR_X_COUNT: break;
  }
  TD_ICE(g->task, "kernel operation %d", (int)e->op);
}

static bool is_leaf(const kir_expr_t *e) {
  return e->op == KIR_X_CONST || e->op == KIR_X_VAR || e->op == KIR_X_DIM;
}

/* Choices whose arms can be evaluated in any case are a select instruction. */
static bool is_lazy(cgl_t *g, const kir_expr_t *e) {
  if (e->op != KIR_X_SELECT && e->op != KIR_X_AND && e->op != KIR_X_OR) {
    return false;
  }
  for (uint32_t i = 1; i < e->arg_count; i++) {
    if (cgl_may_fault(g, e->args[i])) return true;
  }
  return false;
}

/* Operands that are evaluated before e itself, whatever it chooses; loads
 * have their own way with subscripts. */
static uint32_t strict_count(cgl_t *g, const kir_expr_t *e) {
  if (e->op == KIR_X_LOAD || e->op == KIR_X_FOLD) return 0;
  return is_lazy(g, e) ? 1 : e->arg_count;
}

/* Depth is bounded by memory but for choices and loads inside each other. */
LLVMValueRef cgl_expr(cgl_t *g, const kir_expr_t *root) {
  typedef struct frame { const kir_expr_t *e; uint32_t next; } frame_t;
  enum { MAX_DEPTH = 255 };
  TD_VEC(frame_t) stack = {0};
  if (is_leaf(root)) return emit(g, root);
  LLVMValueRef v = cgl_memo_find(g, root);
  if (v != NULL) return v;
  if (++g->depth > MAX_DEPTH) {
    td_raise(g->task, TDSL_STATUS_LIMIT,
             "expressions nest too deep in kernel %s", g->kernel->name);
  }
  td_vec_push(g->arena, &stack, (frame_t){root, 0});
  while (stack.length > 0) {
    frame_t *top = &td_vec_last(&stack);
    const kir_expr_t *e = top->e;
    if (top->next == 0 && (v = cgl_memo_find(g, e)) != NULL) {
      (void)td_vec_pop(&stack);
    } else if (top->next < strict_count(g, e)) {
      const kir_expr_t *arg = e->args[top->next++]; /* the push moves top */
      if (!is_leaf(arg)) td_vec_push(g->arena, &stack, (frame_t){arg, 0});
    } else {
      v = emit(g, e);
      cgl_memo_put(g, e, v);
      (void)td_vec_pop(&stack);
    }
  }
  g->depth--;
  return v;
}

LLVMValueRef cgl_expr_wide(cgl_t *g, const kir_expr_t *e) {
  return cgl_widen(g, cgl_expr(g, e));
}

/* ---- calls --------------------------------------------------------------- */

/* For intrinsics overloaded on the type of their first argument alone. */
LLVMValueRef cgl_intrinsic(cgl_t *g, const char *name, LLVMValueRef *args,
                           uint32_t count) {
  unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
  TD_CHECK(g->task, id != 0, "no intrinsic %s", name);
  LLVMTypeRef type = LLVMTypeOf(args[0]);
  LLVMValueRef f =
      LLVMGetIntrinsicDeclaration(g->module, id, &type, 1);
  LLVMTypeRef signature =
      LLVMIntrinsicGetType(g->context, id, &type, 1);
  return LLVMBuildCall2(g->builder, signature, f, args, count, "");
}

/* Turns a mask into a condition for a branch. */
LLVMValueRef cgl_any_lane(cgl_t *g, LLVMValueRef c) {
  if (!cgl_is_vector(c)) return c;
  return cgl_intrinsic(g, "llvm.vector.reduce.or", &c, 1);
}

/* Functions of libm have one lane; vectors call them in a loop. */
LLVMValueRef cgl_helper(cgl_t *g, const char *name, LLVMTypeRef result,
                        LLVMValueRef *args, uint32_t count,
                        LLVMValueRef mask) {
  LLVMTypeRef types[3];
  TD_CHECK(g->task, count >= 1 && count <= 3, "%u arguments", count);
  bool is_vector = cgl_is_vector(args[0]);
  for (uint32_t i = 0; i < count; i++) {
    types[i] = LLVMTypeOf(args[i]);
    if (is_vector) types[i] = LLVMGetElementType(types[i]);
  }
  LLVMTypeRef signature = LLVMFunctionType(result, types, count, 0);
  LLVMValueRef f = LLVMGetNamedFunction(g->module, name);
  if (f == NULL) f = LLVMAddFunction(g->module, name, signature);
  if (!is_vector) {
    return LLVMBuildCall2(g->builder, signature, f, args, count, "");
  }
  if (mask == NULL) {
    uint32_t n = LLVMGetVectorSize(LLVMTypeOf(args[0]));
    mask = LLVMConstAllOnes(LLVMVectorType(g->i1, n));
  }
  return cgl_call_lanes(g, f, signature, result, args, count, mask);
}

/* NaN if either is NaN, and +0 above -0.  Where the operands are equal the
 * bits are combined: and for max (+0 wins), or for min (-0 wins). */
LLVMValueRef cgl_max(cgl_t *g, LLVMValueRef a, LLVMValueRef b, bool is_min) {
  LLVMBuilderRef at = g->builder;
  LLVMTypeRef scalar = cgl_is_vector(a) ? LLVMGetElementType(LLVMTypeOf(a))
                                        : LLVMTypeOf(a);
  if (g->target->has_avx512 && scalar == g->f32 && cgl_is_vector(a)) {
    return cgl_range_max(g, a, b, is_min);
  }
  LLVMTypeRef bits = cgl_like(scalar == g->f64 ? g->i64 : g->i32, a);
  LLVMValueRef less = LLVMBuildFCmp(
      at, is_min ? LLVMRealOLT : LLVMRealOGT, a, b, "");
  LLVMValueRef picked = LLVMBuildSelect(at, less, a, b, "");
  LLVMValueRef equal = LLVMBuildFCmp(at, LLVMRealOEQ, a, b, "");
  LLVMValueRef ai = LLVMBuildBitCast(at, a, bits, "");
  LLVMValueRef bi = LLVMBuildBitCast(at, b, bits, "");
  LLVMValueRef both = is_min ? LLVMBuildOr(at, ai, bi, "")
                             : LLVMBuildAnd(at, ai, bi, "");
  LLVMValueRef zero = LLVMBuildBitCast(at, both, LLVMTypeOf(a), "");
  picked = LLVMBuildSelect(at, equal, zero, picked, "");
  /* b was picked if it is NaN; a NaN has to be asked for */
  LLVMValueRef a_nan = LLVMBuildFCmp(at, LLVMRealUNO, a, a, "");
  return LLVMBuildSelect(at, a_nan, a, picked, "");
}
