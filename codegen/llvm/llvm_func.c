/* llvm_func.c: one kernel as one function: block loops, statements.
 *
 * A kernel is two functions: NAME unpacks the argument arrays and calls
 * NAME.body, whose pointer parameters carry noalias and alignment, which a
 * loaded pointer cannot. */
#include "codegen/llvm/llvm_func.h"

#include "runtime/base/num.h"

/* Statements nest as loops do: a few dozen levels at most (kir_verify caps
 * them), so recursion over blocks is bounded. */
static void emit_block(cgl_t *g, const kir_block_t *block);

/* Names are for those who read CGL_IR. */
static LLVMBasicBlockRef new_block(cgl_t *g, const char *name) {
  return LLVMAppendBasicBlockInContext(g->context, g->function, name);
}

/* Rotated by hand: tested once before and then at the end, so that passes
 * see a loop that runs and may move what does not change in front of it. */
static void counted_loop(cgl_t *g, const kir_stmt_t *s) {
  LLVMValueRef lo = cgl_expr(g, s->lo), hi = cgl_expr(g, s->hi);
  LLVMBasicBlockRef before = LLVMGetInsertBlock(g->builder);
  LLVMBasicBlockRef body = new_block(g, "loop");
  LLVMBasicBlockRef after = new_block(g, "done");
  LLVMValueRef enters = LLVMBuildICmp(g->builder, LLVMIntSLT, lo, hi, "");
  LLVMBuildCondBr(g->builder, enters, body, after);
  LLVMPositionBuilderAtEnd(g->builder, body);
  LLVMValueRef i = LLVMBuildPhi(g->builder, g->i64, s->var->name);
  g->vars[s->var->id] = i;
  size_t mark = cgl_memo_mark(g);
  emit_block(g, &s->body);
  cgl_memo_release(g, mark);
  LLVMValueRef step = LLVMConstInt(g->i64, (unsigned long long)s->step, 1);
  LLVMValueRef next = LLVMBuildNSWAdd(g->builder, i, step, "");
  LLVMValueRef again = LLVMBuildICmp(g->builder, LLVMIntSLT, next, hi, "");
  LLVMValueRef values[2] = {lo, next};
  LLVMBasicBlockRef blocks[2] = {before, LLVMGetInsertBlock(g->builder)};
  LLVMAddIncoming(i, values, blocks, 2);
  LLVMBuildCondBr(g->builder, again, body, after);
  LLVMPositionBuilderAtEnd(g->builder, after);
  g->vars[s->var->id] = NULL;
}

/* The variable is a constant in each copy; the copies are what the text
 * asks for, so no pass is left to decide about them. */
static void unrolled_loop(cgl_t *g, const kir_stmt_t *s) {
  TD_CHECK(g->task, s->lo->op == KIR_X_CONST && s->hi->op == KIR_X_CONST,
           "unrolled loop over %s has no constant bounds", s->var->name);
  if (cgl_unroll_abreast(g, s)) return;
  for (int64_t i = s->lo->u.i64; i < s->hi->u.i64; i += s->step) {
    g->vars[s->var->id] = LLVMConstInt(g->i64, (unsigned long long)i, 1);
    size_t mark = cgl_memo_mark(g);
    emit_block(g, &s->body);
    cgl_memo_release(g, mark);
  }
  g->vars[s->var->id] = NULL;
}

/* Statements of the body become vector statements under g->mask. */
static void lane_loop(cgl_t *g, const kir_stmt_t *s) {
  TD_CHECK(g->task, g->lanes == 0 && s->hi->op == KIR_X_CONST,
           "lane loop over %s", s->var->name);
  LLVMValueRef numbers[64];
  g->lanes = (uint32_t)s->hi->u.i64;
  g->lane_var = s->var;
  TD_CHECK(g->task, g->lanes >= 2 && g->lanes <= 64, "%u lanes", g->lanes);
  for (uint32_t i = 0; i < g->lanes; i++) {
    numbers[i] = LLVMConstInt(g->i64, i, 0);
  }
  g->vars[s->var->id] = LLVMConstVector(numbers, g->lanes);
  size_t mark = cgl_memo_mark(g);
  g->mask = NULL;
  if (s->mask != NULL) g->mask = cgl_expr_wide(g, s->mask);
  emit_block(g, &s->body);
  cgl_memo_release(g, mark);
  g->mask = NULL;
  g->lanes = 0;
  g->lane_var = NULL;
  g->vars[s->var->id] = NULL;
}

/* Lanes that differ get masks, one condition for all a branch. A masked arm
 * runs even if no lane is left: it then does nothing. */
static void emit_if(cgl_t *g, const kir_stmt_t *s) {
  LLVMValueRef c = cgl_expr(g, s->mask);
  if (cgl_is_vector(c)) {
    LLVMValueRef before = g->mask;
    const kir_block_t *arms[2] = {&s->body, &s->orelse};
    for (int i = 0; i < 2; i++) {
      if (arms[i]->length == 0) continue;
      LLVMValueRef m = i == 0 ? c : LLVMBuildNot(g->builder, c, "");
      g->mask =
          before == NULL ? m : LLVMBuildAnd(g->builder, before, m, "");
      size_t mark = cgl_memo_mark(g);
      emit_block(g, arms[i]);
      cgl_memo_release(g, mark);
    }
    g->mask = before;
    return;
  }
  LLVMBasicBlockRef yes = new_block(g, "then"), no = new_block(g, "else");
  LLVMBasicBlockRef join = new_block(g, "join");
  LLVMBuildCondBr(g->builder, c, yes, no);
  LLVMBasicBlockRef starts[2] = {yes, no};
  const kir_block_t *arms[2] = {&s->body, &s->orelse};
  for (int i = 0; i < 2; i++) {
    LLVMPositionBuilderAtEnd(g->builder, starts[i]);
    size_t mark = cgl_memo_mark(g);
    emit_block(g, arms[i]);
    cgl_memo_release(g, mark);
    LLVMBuildBr(g->builder, join);
  }
  LLVMPositionBuilderAtEnd(g->builder, join);
}

/* Serial and thread loops differ on a GPU only. */
static void emit_statement(cgl_t *g, const kir_stmt_t *s) {
  switch (s->kind) {
    case KIR_LOOP:
      if (s->loop == KIR_LOOP_LANE) {
        lane_loop(g, s);
      } else if (s->loop == KIR_LOOP_UNROLL) {
        unrolled_loop(g, s);
      } else {
        TD_CHECK(g->task, s->loop == KIR_LOOP_SERIAL,
                 "loop kind %d inside a kernel", (int)s->loop);
        counted_loop(g, s);
      }
      return;
    case KIR_IF: emit_if(g, s); return;
    case KIR_LET:
      g->lets[s->var->id] = s;
      g->vars[s->var->id] = cgl_expr(g, s->value);
      return;
    case KIR_STORE:
      cgl_store(g, s);
      cgl_memo_stale(g, s->buffer);
      return;
    case KIR_TRANSPOSE:
      cgl_transpose(g, s->buffer);
      cgl_memo_stale(g, s->buffer);
      return;
    case KIR_PREFETCH: cgl_prefetch(g, s); return;
    case KIR_ALLOC: cgl_alloc(g, s); return;
    case KIR_COMMENT: return;
    case KIR_COPY: case KIR_ASYNC: case KIR_COMMIT: case KIR_WAIT:
    case KIR_BARRIER: /* of kernels with warps */
    case KIR_KIND_COUNT: break;
  }
  TD_ICE(g->task, "kernel statement %d", (int)s->kind);
}

static void emit_block(cgl_t *g, const kir_block_t *block) {
  for (size_t i = 0; i < block->length; i++) {
    emit_statement(g, block->data[i]);
  }
}

/* ---- block loops --------------------------------------------------------- */

static bool is_block_loop(const kir_block_t *block) {
  return block->length == 1 && block->data[0]->kind == KIR_LOOP &&
         block->data[0]->loop == KIR_LOOP_BLOCK;
}

/* Sets the variables of the nest from the linear block number: the innermost
 * loop varies fastest. Returns the innermost body. */
static const kir_block_t *set_block_vars(cgl_t *g, LLVMValueRef number) {
  enum { MAX_NEST = 16 };
  const kir_stmt_t *nest[MAX_NEST];
  uint32_t depth = 0;
  const kir_block_t *body = &g->kernel->body;
  while (is_block_loop(body)) {
    TD_CHECK(g->task, depth < MAX_NEST, "%u block loops", depth);
    nest[depth++] = body->data[0];
    body = &body->data[0]->body;
  }
  LLVMValueRef rest = number;
  for (uint32_t i = depth; i > 0; i--) {
    const kir_stmt_t *s = nest[i - 1];
    LLVMValueRef lo = cgl_expr(g, s->lo), hi = cgl_expr(g, s->hi);
    LLVMValueRef step = LLVMConstInt(g->i64, (unsigned long long)s->step, 0);
    LLVMValueRef index = rest;
    if (i > 1) {
      LLVMValueRef trips = LLVMBuildSub(g->builder, hi, lo, "");
      trips = LLVMBuildAdd(
          g->builder, trips,
          LLVMConstInt(g->i64, (unsigned long long)(s->step - 1), 0), "");
      trips = LLVMBuildUDiv(g->builder, trips, step, "");
      index = LLVMBuildURem(g->builder, rest, trips, "");
      rest = LLVMBuildUDiv(g->builder, rest, trips, "");
    }
    LLVMValueRef v = LLVMBuildAdd(
        g->builder, lo, LLVMBuildMul(g->builder, index, step, ""), "");
    g->vars[s->var->id] = v;
  }
  return body;
}

/* begin .. end come from the run time, which divides the launch. */
static void emit_blocks(cgl_t *g, LLVMValueRef begin, LLVMValueRef end) {
  LLVMBasicBlockRef before = LLVMGetInsertBlock(g->builder);
  LLVMBasicBlockRef body = new_block(g, "block");
  LLVMBasicBlockRef after = new_block(g, "end");
  LLVMValueRef enters =
      LLVMBuildICmp(g->builder, LLVMIntSLT, begin, end, "");
  LLVMBuildCondBr(g->builder, enters, body, after);
  LLVMPositionBuilderAtEnd(g->builder, body);
  LLVMValueRef i = LLVMBuildPhi(g->builder, g->i64, "b");
  size_t mark = cgl_memo_mark(g);
  emit_block(g, set_block_vars(g, i));
  cgl_memo_release(g, mark);
  LLVMValueRef next = LLVMBuildNSWAdd(g->builder, i,
                                      LLVMConstInt(g->i64, 1, 0), "");
  LLVMValueRef again = LLVMBuildICmp(g->builder, LLVMIntSLT, next, end, "");
  LLVMValueRef values[2] = {begin, next};
  LLVMBasicBlockRef blocks[2] = {before, LLVMGetInsertBlock(g->builder)};
  LLVMAddIncoming(i, values, blocks, 2);
  LLVMBuildCondBr(g->builder, again, body, after);
  LLVMPositionBuilderAtEnd(g->builder, after);
}

/* ---- functions ----------------------------------------------------------- */

/* By name: the numbers of attributes change between versions. */
static void add_attribute(cgl_t *g, LLVMValueRef f, uint32_t index,
                          const char *name, uint64_t value) {
  unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
  LLVMAttributeRef a = LLVMCreateEnumAttribute(g->context, kind, value);
  LLVMAddAttributeAtIndex(f, index, a);
}

static void add_text_attribute(cgl_t *g, LLVMValueRef f, const char *name,
                               const char *value) {
  LLVMAttributeRef a = LLVMCreateStringAttribute(
      g->context, name, (unsigned)strlen(name), value,
      (unsigned)strlen(value));
  LLVMAddAttributeAtIndex(f, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                          a);
}

/* Without the two width attributes LLVM uses half of a 512-bit register. */
void cgl_set_target(cgl_t *g, LLVMValueRef f) {
  add_text_attribute(g, f, "target-cpu", g->target->llvm_cpu);
  if (g->target->features[0] != '\0') {
    add_text_attribute(g, f, "target-features", g->target->features);
  }
  if (g->target->lanes >= 16) {
    add_text_attribute(g, f, "prefer-vector-width", "512");
    add_text_attribute(g, f, "min-legal-vector-width", "512");
  }
  add_attribute(g, f, (uint32_t)LLVMAttributeFunctionIndex, "nounwind", 0);
}

/* NAME.body(buffers..., dims..., scratch, begin, end) */
static LLVMValueRef declare_body(cgl_t *g, const char *symbol) {
  const kir_kernel_t *k = g->kernel;
  uint32_t count = k->param_count + k->dim_count + 3;
  LLVMTypeRef *types = TD_NEW_ARRAY(g->arena, LLVMTypeRef, count);
  uint32_t n = 0;
  for (uint32_t i = 0; i < k->param_count; i++) types[n++] = g->ptr;
  for (uint32_t i = 0; i < k->dim_count; i++) types[n++] = g->i64;
  types[n++] = g->ptr;
  types[n++] = g->i64;
  types[n++] = g->i64;
  LLVMTypeRef signature = LLVMFunctionType(g->nothing, types, count, 0);
  const char *name = td_arena_printf(g->arena, "%s.body", symbol);
  LLVMValueRef f = LLVMAddFunction(g->module, name, signature);
  LLVMSetLinkage(f, LLVMInternalLinkage);
  cgl_set_target(g, f);
  add_attribute(g, f, (uint32_t)LLVMAttributeFunctionIndex, "noinline", 0);
  for (uint32_t i = 0; i < k->param_count; i++) {
    add_attribute(g, f, i + 1, "noalias", 0);
    add_attribute(g, f, i + 1, "align", 16);
    if (!k->params[i]->is_written) add_attribute(g, f, i + 1, "readonly", 0);
  }
  uint32_t scratch = k->param_count + k->dim_count + 1;
  add_attribute(g, f, scratch, "noalias", 0);
  add_attribute(g, f, scratch, "align", 64);
  return f;
}

/* What the run time calls: one signature for all kernels. */
static void emit_wrapper(cgl_t *g, const char *symbol, LLVMValueRef body) {
  const kir_kernel_t *k = g->kernel;
  LLVMTypeRef types[5] = {g->ptr, g->ptr, g->ptr, g->i64, g->i64};
  LLVMTypeRef signature = LLVMFunctionType(g->nothing, types, 5, 0);
  LLVMValueRef f = LLVMAddFunction(g->module, symbol, signature);
  cgl_set_target(g, f);
  LLVMBasicBlockRef entry =
      LLVMAppendBasicBlockInContext(g->context, f, "entry");
  LLVMPositionBuilderAtEnd(g->builder, entry);
  uint32_t count = k->param_count + k->dim_count + 3;
  LLVMValueRef *args = TD_NEW_ARRAY(g->arena, LLVMValueRef, count);
  uint32_t n = 0;
  for (uint32_t i = 0; i < k->param_count + k->dim_count; i++) {
    bool is_buffer = i < k->param_count;
    LLVMValueRef from = LLVMGetParam(f, is_buffer ? 0 : 1);
    LLVMTypeRef type = is_buffer ? g->ptr : g->i64;
    LLVMValueRef at =
        LLVMConstInt(g->i64, is_buffer ? i : i - k->param_count, 0);
    LLVMValueRef p = LLVMBuildGEP2(g->builder, type, from, &at, 1, "");
    args[n++] = LLVMBuildLoad2(g->builder, type, p, "");
  }
  for (uint32_t i = 2; i < 5; i++) args[n++] = LLVMGetParam(f, i);
  LLVMBuildCall2(g->builder, LLVMGlobalGetValueType(body), body, args, count,
                 "");
  LLVMBuildRetVoid(g->builder);
}

/* Entry holds allocas and what must dominate everything; the code begins in
 * a block of its own, so that more can be put there at any time. */
void cgl_kernel(cgl_t *g, const kir_kernel_t *kernel) {
  g->kernel = kernel;
  const char *symbol = cgl_symbol(g->arena, kernel);
  LLVMValueRef f = declare_body(g, symbol);
  g->function = f;
  g->entry = LLVMAppendBasicBlockInContext(g->context, f, "entry");
  LLVMBasicBlockRef start =
      LLVMAppendBasicBlockInContext(g->context, f, "start");
  LLVMPositionBuilderAtEnd(g->builder, g->entry);
  LLVMBuildBr(g->builder, start); /* allocas are put before this */
  LLVMPositionBuilderAtEnd(g->builder, start);

  g->params = TD_NEW_ARRAY(g->arena, LLVMValueRef, kernel->param_count + 1);
  g->dims = TD_NEW_ARRAY(g->arena, LLVMValueRef, kernel->dim_count + 1);
  for (uint32_t i = 0; i < kernel->param_count; i++) {
    g->params[i] = LLVMGetParam(f, i);
  }
  for (uint32_t i = 0; i < kernel->dim_count; i++) {
    g->dims[i] = LLVMGetParam(f, kernel->param_count + i);
  }
  uint32_t n = kernel->param_count + kernel->dim_count;
  g->scratch = LLVMGetParam(f, n);
  g->scratch_used = ix_const(kernel->pool, 0);
  g->vars = TD_NEW_ARRAY(g->arena, LLVMValueRef, kernel->var_count + 1);
  g->lets = TD_NEW_ARRAY(g->arena, const kir_stmt_t *, kernel->var_count + 1);
  td_map_t **maps[5] = {&g->storage, &g->dim_values, &g->memo, &g->traits,
                        &g->buffer_bits};
  for (int i = 0; i < 5; i++) {
    *maps[i] = TD_NEW(g->arena, td_map_t);
    td_map_init(*maps[i], g->arena);
  }
  kir_walker_init(&g->trait_walker, g->arena);
  g->memo_log.length = 0;
  g->memo_loads.length = 0;
  g->depth = 0;
  g->lane_values = NULL;
  g->lane_pointers = NULL;
  g->lane_thirds = NULL;
  g->lanes = 0;
  g->lane_var = NULL;
  g->mask = NULL;
  g->at_lane0 = false;

  if (is_block_loop(&kernel->body)) {
    emit_blocks(g, LLVMGetParam(f, n + 1), LLVMGetParam(f, n + 2));
  } else {
    emit_block(g, &kernel->body); /* one block: begin 0, end 1 */
  }
  /* what went past the caches is there before anyone is told */
  bool is_streamed = false;
  for (uint32_t i = 0; i < kernel->param_count; i++) {
    is_streamed |= kernel->params[i]->is_streamed;
  }
  if (is_streamed) {
    (void)LLVMBuildFence(g->builder,
                         LLVMAtomicOrderingSequentiallyConsistent, 0, "");
  }
  LLVMBuildRetVoid(g->builder);
  emit_wrapper(g, symbol, f);
}
