/* kir.c: building kernels.  See kir.h for what each part means. */
#include "ir/kir.h"

#include "runtime/base/num.h"

/* Operands are copied: callers build them on the stack. The place in the
 * source is that of the first operand until somebody knows better. */
static kir_expr_t *expr_new(td_arena_t *arena, kir_x_t op, tdsl_dtype_t type,
                            uint32_t count, kir_expr_t *const *args) {
  kir_expr_t *e = TD_NEW(arena, kir_expr_t);
  e->op = op;
  e->type = type;
  e->arg_count = count;
  if (count > 0) {
    kir_expr_t **copy = TD_NEW_ARRAY(arena, kir_expr_t *, count);
    for (uint32_t i = 0; i < count; i++) copy[i] = args[i];
    e->args = copy;
    e->loc = args[0]->loc;
  }
  return e;
}

kir_expr_t *kir_const_f(td_arena_t *arena, tdsl_dtype_t type, double v) {
  kir_expr_t *e = expr_new(arena, KIR_X_CONST, type, 0, NULL);
  e->u.f64 = v;
  return e;
}

kir_expr_t *kir_const_i(td_arena_t *arena, tdsl_dtype_t type, int64_t v) {
  kir_expr_t *e = expr_new(arena, KIR_X_CONST, type, 0, NULL);
  e->u.i64 = v;
  return e;
}

kir_expr_t *kir_var_ref(td_arena_t *arena, const kir_var_t *var) {
  kir_expr_t *e = expr_new(arena, KIR_X_VAR, var->type, 0, NULL);
  e->u.var = var;
  return e;
}

kir_expr_t *kir_dim(td_arena_t *arena, const ix_poly_t *dim) {
  int64_t value;
  if (ix_is_const(dim, &value)) {
    return kir_const_i(arena, TDSL_DTYPE_I64, value);
  }
  kir_expr_t *e = expr_new(arena, KIR_X_DIM, TDSL_DTYPE_I64, 0, NULL);
  e->u.dim = dim;
  return e;
}

/* Narrow floats are computed in f32 and integers in i64, whatever they are
 * stored as (language.md 8.4). */
tdsl_dtype_t kir_arithmetic(tdsl_dtype_t dtype) {
  if (td_dtype_is_float(dtype)) {
    return dtype == TDSL_DTYPE_F64 ? TDSL_DTYPE_F64 : TDSL_DTYPE_F32;
  }
  return dtype == TDSL_DTYPE_BOOL ? TDSL_DTYPE_BOOL : TDSL_DTYPE_I64;
}

kir_expr_t *kir_load(td_arena_t *arena, const kir_buffer_t *buffer,
                     uint32_t count, kir_expr_t *const *subs) {
  kir_expr_t *e = expr_new(arena, KIR_X_LOAD, kir_arithmetic(buffer->dtype),
                           count, subs);
  e->u.buffer = buffer;
  return e;
}

kir_expr_t *kir_op(td_arena_t *arena, kir_x_t op, tdsl_dtype_t type,
                   uint32_t count, kir_expr_t *const *args) {
  return expr_new(arena, op, type, count, args);
}

/* A number of type I64; floats are never folded here, since a fold would
 * have to round as the engines do. */
static bool const_i64(const kir_expr_t *e, int64_t *out) {
  if (e->op != KIR_X_CONST || e->type != TDSL_DTYPE_I64) return false;
  *out = e->u.i64;
  return true;
}

/* Index expressions are sums of products with many zeros and ones (the first
 * tile, a unit stride); dropping them here keeps every later reader short. */
kir_expr_t *kir_add(td_arena_t *arena, kir_expr_t *a, kir_expr_t *b) {
  int64_t x = 0, y = 0, sum;
  bool has_x = const_i64(a, &x), has_y = const_i64(b, &y);
  if (has_x && has_y && !__builtin_add_overflow(x, y, &sum)) {
    return kir_const_i(arena, TDSL_DTYPE_I64, sum);
  }
  if (has_x && x == 0) return b;
  if (has_y && y == 0) return a;
  return kir_op(arena, KIR_X_ADD, a->type, 2, (kir_expr_t *[]){a, b});
}

kir_expr_t *kir_mul(td_arena_t *arena, kir_expr_t *a, kir_expr_t *b) {
  int64_t x = 0, y = 0, product;
  bool has_x = const_i64(a, &x), has_y = const_i64(b, &y);
  if (has_x && has_y && !__builtin_mul_overflow(x, y, &product)) {
    return kir_const_i(arena, TDSL_DTYPE_I64, product);
  }
  if (has_x && x == 1) return b;
  if (has_y && y == 1) return a;
  if ((has_x && x == 0) || (has_y && y == 0)) {
    return kir_const_i(arena, TDSL_DTYPE_I64, 0);
  }
  return kir_op(arena, KIR_X_MUL, a->type, 2, (kir_expr_t *[]){a, b});
}

/* An integer variable also gets a symbol, so that passes can reason about
 * subscripts as polynomials. The number is dense until kir_renumber. */
kir_var_t *kir_var_create(kir_kernel_t *kernel, const char *name,
                          tdsl_dtype_t type) {
  kir_var_t *var = TD_NEW(kernel->arena, kir_var_t);
  var->name = name;
  var->type = type;
  var->id = kernel->var_count++;
  if (type == TDSL_DTYPE_I64) {
    td_loc_t none = {0};
    var->symbol = ix_symbol_create(kernel->pool, name, IX_SYM_INDEX, none);
  }
  return var;
}

kir_buffer_t *kir_buffer_create(kir_kernel_t *kernel, const char *name,
                                tdsl_dtype_t dtype, kir_space_t space,
                                uint32_t rank, const ix_poly_t *const *dims) {
  kir_buffer_t *buffer = TD_NEW(kernel->arena, kir_buffer_t);
  buffer->name = name;
  buffer->dtype = dtype;
  buffer->space = space;
  buffer->rank = rank;
  for (uint32_t i = 0; i < rank; i++) buffer->dims[i] = dims[i];
  return buffer;
}

kir_stmt_t *kir_loop_stmt(kir_kernel_t *kernel, kir_loop_t loop,
                          kir_var_t *var, kir_expr_t *lo, kir_expr_t *hi,
                          int64_t step) {
  kir_stmt_t *s = TD_NEW(kernel->arena, kir_stmt_t);
  s->kind = KIR_LOOP;
  s->loop = loop;
  s->var = var;
  s->lo = lo;
  s->hi = hi;
  s->step = step;
  return s;
}

kir_stmt_t *kir_store_stmt(kir_kernel_t *kernel, kir_buffer_t *buffer,
                           uint32_t count, kir_expr_t *const *subs,
                           kir_expr_t *value) {
  kir_stmt_t *s = TD_NEW(kernel->arena, kir_stmt_t);
  s->kind = KIR_STORE;
  s->buffer = buffer;
  s->sub_count = count;
  s->subs = TD_NEW_ARRAY(kernel->arena, kir_expr_t *, count);
  for (uint32_t i = 0; i < count; i++) s->subs[i] = subs[i];
  s->value = value;
  s->loc = value->loc;
  return s;
}

kir_stmt_t *kir_copy_stmt(kir_kernel_t *kernel, int64_t elements,
                          kir_buffer_t *buffer, uint32_t count,
                          kir_expr_t *const *subs, kir_expr_t *load) {
  kir_stmt_t *s = kir_store_stmt(kernel, buffer, count, subs, load);
  s->kind = KIR_COPY;
  s->step = elements;
  return s;
}

bool kir_is_int_sized(const kir_buffer_t *b) {
  int64_t count = 1;
  for (uint32_t d = 0; d < b->rank; d++) {
    int64_t lo, hi;
    if (!ix_interval(b->dims[d], &lo, &hi) ||
        __builtin_mul_overflow(count, hi, &count)) {
      return false;
    }
  }
  return count <= KIR_INT_MOST;
}

uint32_t kir_copy_dim(const kir_buffer_t *b) {
  bool has_rows = b->space == KIR_REGISTER && b->rank > 1;
  return b->rank - (has_rows ? 2 : 1);
}

/* Nesting is capped by the verifier. */
static uint32_t warps_of(const kir_block_t *block) {
  uint32_t most = 0;
  for (size_t i = 0; i < block->length; i++) {
    const kir_stmt_t *s = block->data[i];
    if (s->kind == KIR_LOOP && s->loop == KIR_LOOP_WARP) {
      bool is_const = s->hi != NULL && s->hi->op == KIR_X_CONST &&
                      s->hi->u.i64 > 0 && s->hi->u.i64 <= UINT32_MAX;
      uint32_t here = is_const ? (uint32_t)s->hi->u.i64 : 0;
      if (here > most) most = here;
      continue;
    }
    uint32_t inner = warps_of(&s->body), other = warps_of(&s->orelse);
    if (inner > most) most = inner;
    if (other > most) most = other;
  }
  return most;
}

uint32_t kir_warp_count(const kir_kernel_t *kernel) {
  return warps_of(&kernel->body);
}

/* Statements nest a few dozen deep at most (loops of tile passes), so plain
   recursion over blocks is bounded; expressions are never walked here. */
static void renumber_block(const kir_block_t *block, uint32_t *next) {
  for (size_t i = 0; i < block->length; i++) {
    kir_stmt_t *s = block->data[i];
    if (s->var != NULL) s->var->id = (*next)++;
    renumber_block(&s->body, next);
    renumber_block(&s->orelse, next);
  }
}

void kir_renumber(kir_kernel_t *kernel) {
  uint32_t next = 0;
  renumber_block(&kernel->body, &next);
  kernel->var_count = next;
  for (uint32_t i = 0; i < kernel->param_count; i++) {
    kernel->params[i]->id = i;
  }
}

/* ---- walking --------------------------------------------------------------*/

void kir_walker_init(kir_walker_t *w, td_arena_t *scratch) {
  td_map_init(&w->seen, scratch);
}

typedef struct walk_frame {
  const kir_expr_t *e;
  uint32_t next;
} walk_frame_t;

void kir_walk_into(kir_walker_t *w, const kir_expr_t *root,
                   kir_visit_fn visit, void *user) {
  TD_VEC(walk_frame_t) stack = {0};
  td_arena_t *arena = w->seen.arena;
  if (root == NULL) return;
  td_vec_push(arena, &stack, (walk_frame_t){root, 0});
  while (stack.length > 0) {
    walk_frame_t *top = &td_vec_last(&stack);
    const kir_expr_t *e = top->e;
    uint64_t key = (uint64_t)(uintptr_t)e;
    if (top->next == 0 && td_map_get_u64(&w->seen, key) != NULL) {
      (void)td_vec_pop(&stack);
    } else if (top->next < e->arg_count) {
      const kir_expr_t *arg = e->args[top->next++]; /* the push moves top */
      td_vec_push(arena, &stack, (walk_frame_t){arg, 0});
    } else {
      td_map_put_u64(&w->seen, key, w);
      (void)td_vec_pop(&stack);
      visit(user, e);
    }
  }
}

/* In the order in which they are evaluated and printed. */
uint32_t kir_stmt_expr_count(const kir_stmt_t *s) {
  return s->sub_count + (s->lo != NULL) + (s->hi != NULL) +
         (s->mask != NULL) + (s->value != NULL);
}

const kir_expr_t *kir_stmt_expr(const kir_stmt_t *s, uint32_t i) {
  const kir_expr_t *first[3] = {s->lo, s->hi, s->mask};
  for (int k = 0; k < 3; k++) {
    if (first[k] == NULL) continue;
    if (i == 0) return first[k];
    i--;
  }
  return i < s->sub_count ? s->subs[i] : s->value;
}

/* ---- sizes ----------------------------------------------------------------*/

static bool is_block_loop(const kir_stmt_t *s) {
  return s->kind == KIR_LOOP && s->loop == KIR_LOOP_BLOCK;
}

/* ceil(max(hi - lo, 0) / step); the bounds of block loops are dims only. */
static const ix_poly_t *trip_count(const kir_kernel_t *kernel,
                                   const kir_stmt_t *s) {
  ix_pool_t *pool = kernel->pool;
  const ix_poly_t *end[2];
  const kir_expr_t *bound[2] = {s->lo, s->hi};
  for (int i = 0; i < 2; i++) {
    end[i] = bound[i]->op == KIR_X_DIM ? bound[i]->u.dim
                                       : ix_const(pool, bound[i]->u.i64);
  }
  const ix_poly_t *span =
      ix_max(pool, ix_sub(pool, end[1], end[0]), ix_const(pool, 0));
  if (s->step == 1) return span;
  return ix_div(pool, ix_add(pool, span, ix_const(pool, s->step - 1)),
                ix_const(pool, s->step), NULL);
}

/* What a launch is divided by: the run time hands out ranges of it. */
const ix_poly_t *kir_block_count(const kir_kernel_t *kernel) {
  const ix_poly_t *count = ix_const(kernel->pool, 1);
  const kir_block_t *block = &kernel->body;
  while (block->length == 1 && is_block_loop(block->data[0])) {
    count = ix_mul(kernel->pool, count, trip_count(kernel, block->data[0]));
    block = &block->data[0]->body;
  }
  return count;
}

/* Buffers of all branches and loops count as live at once: offsets are then
 * fixed when a kernel is emitted, and a block needs no allocator. */
static const ix_poly_t *block_scratch(const kir_kernel_t *kernel,
                                      const kir_block_t *block) {
  ix_pool_t *pool = kernel->pool;
  const ix_poly_t *line = ix_const(pool, 64);
  const ix_poly_t *sum = ix_const(pool, 0);
  for (size_t i = 0; i < block->length; i++) {
    const kir_stmt_t *s = block->data[i];
    if (s->kind == KIR_ALLOC && s->buffer->space == KIR_LOCAL) {
      const ix_poly_t *bytes =
          ix_const(pool, (int64_t)td_dtype_bytes(s->buffer->dtype));
      for (uint32_t d = 0; d < s->buffer->rank; d++) {
        bytes = ix_mul(pool, bytes, s->buffer->dims[d]);
      }
      bytes = ix_add(pool, bytes, ix_const(pool, 63));
      sum = ix_add(pool, sum, ix_mul(pool, ix_div(pool, bytes, line, NULL),
                                     line));
    }
    sum = ix_add(pool, sum, block_scratch(kernel, &s->body));
    sum = ix_add(pool, sum, block_scratch(kernel, &s->orelse));
  }
  return sum;
}

const ix_poly_t *kir_scratch_bytes(const kir_kernel_t *kernel) {
  return block_scratch(kernel, &kernel->body);
}
