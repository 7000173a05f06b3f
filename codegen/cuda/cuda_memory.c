/* cuda_memory.c: buffers of a kernel: where they are, loads, stores, folds. */
#include "codegen/cuda/cuda_impl.h"

#include "runtime/base/num.h"

#define F(...) td_arena_printf(g->arena, __VA_ARGS__)

cgc_buffer_t *cgc_buffer(cgc_t *g, const kir_buffer_t *b) {
  cgc_buffer_t *c = td_map_get_u64(g->buffers, cgc_key(b));
  TD_CHECK(g->task, c != NULL, "buffer %s is not allocated", b->name);
  return c;
}

static uint64_t element_count(const kir_buffer_t *b, uint32_t first,
                              uint32_t rank) {
  uint64_t count = 1;
  for (uint32_t d = first; d < rank; d++) {
    int64_t n = 0;
    (void)ix_is_const(b->dims[d], &n);
    count *= (uint64_t)n;
  }
  return count;
}

/* Variables of a thread that hold its part of a row buffer. */
static uint64_t register_count(cgc_t *g, const kir_buffer_t *b) {
  uint32_t first = cgc_buffer(g, b)->has_warps;
  if (b->rank <= first) return 1;
  if (!g->is_warp) return element_count(b, 0, b->rank);
  int64_t row = 1;
  (void)ix_is_const(b->dims[b->rank - 1], &row);
  return element_count(b, first, b->rank - 1) *
         (uint64_t)((row + g->width - 1) / g->width);
}

static void alloc_registers(cgc_t *g, const cgc_buffer_t *c) {
  const char *type = cgc_type(g, kir_arithmetic(c->b->dtype));
  uint64_t count = register_count(g, c->b);
  if (!c->is_read) return;
  if (count == 1) {
    cg_line(&g->text, "%s %s = 0;", type, c->name);
  } else {
    cg_line(&g->text, "%s %s[%llu] = {};", type, c->name,
            (unsigned long long)count);
  }
}

void cgc_alloc(cgc_t *g, const kir_buffer_t *b) {
  const cgc_buffer_t *c = cgc_buffer(g, b);
  const char *type = cgc_storage_type(g, b->dtype);
  if (!c->is_read && !c->is_written) return;
  if (c->place == CGC_REGS) {
    alloc_registers(g, c);
  } else if (c->place == CGC_SHARED) {
    cgc_alloc_shared(g, c);
  } else {
    TD_CHECK(g->task, c->place == CGC_SCRATCH, "space of %s", b->name);
    ix_pool_t *pool = g->kernel->pool;
    cg_line(&g->text, "%s *const %s = (%s *)(slab + %s);", type, c->name, type,
            cgc_poly(g, g->scratch_used));
    const ix_poly_t *bytes = ix_const(pool, (int64_t)td_dtype_bytes(b->dtype));
    for (uint32_t d = 0; d < b->rank; d++) {
      bytes = ix_mul(pool, bytes, b->dims[d]);
    }
    const ix_poly_t *line = ix_const(pool, 64);
    bytes = ix_add(pool, bytes, ix_const(pool, 63));
    bytes = ix_mul(pool, ix_div(pool, bytes, line, NULL), line);
    g->scratch_used = ix_add(pool, g->scratch_used, bytes);
    TD_CHECK(g->task, g->scratch_used != NULL, "scratch of %s overflows",
             g->kernel->name);
  }
}

/* ---- elements ------------------------------------------------------------ */

bool cgc_is_own_lane(const cgc_t *g, const kir_buffer_t *b,
                     kir_expr_t *const *subs) {
  if (g->lanes == 0 || b->rank == 0) return false;
  const kir_expr_t *last = subs[b->rank - 1];
  return last->op == KIR_X_VAR && last->u.var == g->lane_var;
}

static bool is_zero(const char *text) {
  return text[0] == '0' && text[1] == '\0';
}

/* sum * n + s */
static const char *step_in(cgc_t *g, const char *sum, const char *n,
                           const char *s) {
  if (is_zero(sum)) return s;
  if (is_zero(s)) return F("(%s * %s)", sum, n);
  if (strcmp(n, "1") == 0) return F("(%s + %s)", sum, s);
  return F("(%s * %s + %s)", sum, n, s);
}

/* Row-major place of the first `count` subscripts, of a register buffer
 * without the one that names the warp. */
static const char *offset(cgc_t *g, const kir_buffer_t *b, uint32_t count,
                          kir_expr_t *const *subs) {
  bool is_int = kir_is_int_sized(b);
  uint32_t first = cgc_buffer(g, b)->has_warps;
  const char *sum = "0";
  int64_t known = 0, n = 0; /* the place so far, as long as it is a number */
  bool is_known = true;
  for (uint32_t d = first; d < count; d++) {
    const cgc_trait_t *t = cgc_trait(g, subs[d]);
    is_known = is_known && t->is_const && ix_is_const(b->dims[d], &n) &&
               !__builtin_mul_overflow(known, n, &known) &&
               !__builtin_add_overflow(known, t->value, &known);
    if (is_known) {
      sum = cgc_int(g, known);
      continue;
    }
    const char *s = cgc_expr(g, subs[d]);
    if (!is_int && !is_zero(sum)) sum = F("(long long)%s", sum);
    sum = d == first ? s : step_in(g, sum, cgc_poly(g, b->dims[d]), s);
  }
  return sum;
}

static const char *register_element(cgc_t *g, const cgc_buffer_t *c,
                                    kir_expr_t *const *subs) {
  const kir_buffer_t *b = c->b;
  if (register_count(g, b) == 1) return c->name;
  if (!g->is_warp) {
    return F("%s[%s]", c->name, cgc_bare(g, offset(g, b, b->rank, subs)));
  }
  const char *at = offset(g, b, b->rank - 1, subs);
  int64_t row = 1;
  (void)ix_is_const(b->dims[b->rank - 1], &row);
  uint32_t parts = ((uint32_t)row + g->width - 1) / g->width;
  if (parts > 1) {
    at = step_in(g, at, F("%u", parts), F("%u", g->part));
  }
  return F("%s[%s]", c->name, cgc_bare(g, at));
}

enum { PERIOD = 8, MAX_SUM = 64 }; /* rows after which a swizzle repeats */

/* e without addends that are whole periods; NULL: nothing is left. */
static kir_expr_t *within_period(cgc_t *g, kir_expr_t *e, int depth) {
  if (cgc_is_multiple(g, e, PERIOD)) return NULL;
  if (e->op != KIR_X_ADD || depth > MAX_SUM) return e;
  kir_expr_t *a = within_period(g, e->args[0], depth + 1);
  kir_expr_t *b = within_period(g, e->args[1], depth + 1);
  if (a == NULL || b == NULL) return a == NULL ? b : a;
  return kir_add(g->arena, a, b);
}

/* A row's number as far as the swizzle looks at it, so that a compiler sees
 * that it is the same for many rows. */
static kir_expr_t *swizzle_row(cgc_t *g, const kir_buffer_t *b,
                               kir_expr_t *const *subs) {
  kir_expr_t *sum = NULL;
  int64_t stride = 1, n = 1;
  for (uint32_t d = b->rank - 1; d > 0; d--) {
    kir_expr_t *each = kir_const_i(g->arena, TDSL_DTYPE_I64, stride);
    kir_expr_t *one = within_period(
        g, kir_mul(g->arena, subs[d - 1], each), 0);
    if (one != NULL) sum = sum == NULL ? one : kir_add(g->arena, sum, one);
    (void)ix_is_const(b->dims[d - 1], &n);
    stride *= n;
  }
  return sum;
}

/* Pieces of 16 bytes change places within the row: their number is taken
 * exclusive or some bits of the row's. */
static const char *swizzled_element(cgc_t *g, const cgc_buffer_t *c,
                                    kir_expr_t *const *subs) {
  const kir_buffer_t *b = c->b;
  int64_t n = 1;
  (void)ix_is_const(b->dims[b->rank - 1], &n);
  uint32_t bytes = (uint32_t)td_dtype_bytes(b->dtype);
  uint32_t pieces = (uint32_t)n * bytes / 16, piece = 16 / bytes;
  const char *row = offset(g, b, b->rank - 1, subs);
  const char *at = cgc_expr(g, subs[b->rank - 1]);
  kir_expr_t *low = swizzle_row(g, b, subs);
  if (low != NULL) {
    at = F("(%s ^ (int)((unsigned)%s / %u %% %u * %u))", at, cgc_expr(g, low),
           8 / pieces, pieces, piece);
  }
  return F("%s[%s * %lld + %s]", c->name, row, (long long)n, at);
}

const char *cgc_element(cgc_t *g, const kir_buffer_t *b, uint32_t count,
                        kir_expr_t *const *subs) {
  const cgc_buffer_t *c = cgc_buffer(g, b);
  if (c->place == CGC_REGS) return register_element(g, c, subs);
  if (b->is_swizzled) return swizzled_element(g, c, subs);
  return F("%s[%s]", c->name, cgc_bare(g, offset(g, b, count, subs)));
}

const char *cgc_load(cgc_t *g, const kir_expr_t *e) {
  const kir_buffer_t *b = e->u.buffer;
  const char *element = cgc_element(g, b, e->arg_count, e->args);
  if (cgc_buffer(g, b)->place == CGC_REGS) return element;
  return cgc_decode(g, b->dtype, element);
}

void cgc_put_store(cgc_t *g, const kir_stmt_t *s, const char *value) {
  const kir_buffer_t *b = s->buffer;
  tdsl_dtype_t type = s->value->type;
  const char *to = cgc_element(g, b, s->sub_count, s->subs);
  const char *v = cgc_buffer(g, b)->place == CGC_REGS
                      ? cgc_rounded(g, b->dtype, value, type)
                      : cgc_encode(g, b->dtype, value, type);
  cg_line(&g->text, "%s = %s;", to, cgc_bare(g, v));
}

/* ---- neighbours at once ------------------------------------------------- */

/* What holds n elements; they lie in words of 4 bytes or more. */
static const char *vector_type(cgc_t *g, tdsl_dtype_t dtype, int64_t n) {
  size_t bytes = td_dtype_bytes(dtype) * (size_t)n;
  if (dtype == TDSL_DTYPE_F32) return n == 2 ? "float2" : "float4";
  if (dtype == TDSL_DTYPE_F64) return "double2";
  if (dtype == TDSL_DTYPE_I64) return "longlong2";
  if (bytes == 16) return "uint4";
  if (bytes == 8) return "uint2";
  TD_CHECK(g->task, bytes == 4 || bytes == 2, "a copy of %zu bytes", bytes);
  return bytes == 4 ? "unsigned" : "unsigned short";
}

static size_t word_bytes(tdsl_dtype_t dtype, int64_t n) {
  size_t bytes = td_dtype_bytes(dtype);
  if (bytes >= 4) return bytes;
  return (size_t)n * bytes < 4 ? (size_t)n * bytes : 4;
}

/* Word of element i of a vector. */
static const char *word_of(cgc_t *g, tdsl_dtype_t dtype, int64_t n,
                           const char *vector, size_t word) {
  size_t bytes = td_dtype_bytes(dtype) * (size_t)n;
  if (bytes == word_bytes(dtype, n)) return vector;
  return F("%s.%c", vector, "xyzw"[word]);
}

/* Element i of a vector, in the storage type. */
static const char *take_element(cgc_t *g, tdsl_dtype_t dtype, int64_t n,
                                const char *vector, int64_t i) {
  size_t bytes = td_dtype_bytes(dtype), in_word = word_bytes(dtype, n) / bytes;
  const char *word = word_of(g, dtype, n, vector, (size_t)i / in_word);
  const char *type = cgc_storage_type(g, dtype);
  size_t shift = (size_t)i % in_word * bytes * 8;
  if (in_word == 1) return bytes == 4 && dtype == TDSL_DTYPE_I32
                               ? F("((int)%s)", word)
                               : word;
  if (shift == 0) return F("((%s)%s)", type, word);
  return F("((%s)(%s >> %zu))", type, word, shift);
}

static kir_expr_t **moved(cgc_t *g, const kir_buffer_t *b,
                          kir_expr_t *const *subs, int64_t i) {
  kir_expr_t **out = TD_NEW_ARRAY(g->arena, kir_expr_t *, b->rank);
  for (uint32_t d = 0; d < b->rank; d++) out[d] = subs[d];
  uint32_t along = kir_copy_dim(b);
  out[along] = kir_add(g->arena, out[along],
                       kir_const_i(g->arena, TDSL_DTYPE_I64, i));
  return out;
}

/* A vector of what registers hold. */
static const char *gather_vector(cgc_t *g, const kir_stmt_t *s,
                                 const char *type) {
  const kir_buffer_t *from = s->value->u.buffer;
  tdsl_dtype_t dtype = from->dtype;
  size_t bytes = td_dtype_bytes(dtype);
  size_t in_word = word_bytes(dtype, s->step) / bytes;
  const char *name = F("t%u", g->temps++);
  cg_line(&g->text, "%s %s;", type, name);
  for (int64_t i = 0; i < s->step; i += (int64_t)in_word) {
    const char *word = NULL;
    for (size_t k = 0; k < in_word; k++) {
      kir_expr_t **subs = moved(g, from, s->value->args, i + (int64_t)k);
      const char *v = cgc_element(g, from, from->rank, subs);
      v = cgc_encode(g, dtype, v, kir_arithmetic(dtype));
      if (in_word > 1) {
        v = F("(unsigned)(%s)%s",
              bytes == 1 ? "unsigned char" : "unsigned short", v);
      }
      if (k > 0) v = F("(%s) << %zu", v, k * bytes * 8);
      word = word == NULL ? v : F("%s | %s", word, v);
    }
    cg_line(&g->text, "%s = %s;",
            word_of(g, dtype, s->step, name, (size_t)i / in_word),
            cgc_bare(g, word));
  }
  return name;
}

void cgc_put_copy(cgc_t *g, const kir_stmt_t *s) {
  const kir_buffer_t *from = s->value->u.buffer, *to = s->buffer;
  bool is_from = cgc_buffer(g, from)->place != CGC_REGS;
  bool is_to = cgc_buffer(g, to)->place != CGC_REGS;
  const char *type = vector_type(g, from->dtype, s->step);
  const char *v = NULL;
  if (is_from) {
    v = F("*(const %s *)&%s", type,
          cgc_element(g, from, from->rank, s->value->args));
  } else if (is_to) {
    v = gather_vector(g, s, type);
  }
  if (is_to) {
    cg_line(&g->text, "*(%s *)&%s = %s;", type,
            cgc_element(g, to, to->rank, s->subs), v);
    return;
  }
  if (v != NULL) {
    uint32_t n = g->temps++;
    cg_line(&g->text, "const %s t%u = %s;", type, n, v);
    v = F("t%u", n);
  }
  for (int64_t i = 0; i < s->step; i++) {
    const char *e =
        v != NULL
            ? cgc_decode(g, from->dtype,
                         take_element(g, from->dtype, s->step, v, i))
            : cgc_element(g, from, from->rank,
                          moved(g, from, s->value->args, i));
    cg_line(&g->text, "%s = %s;",
            cgc_element(g, to, to->rank, moved(g, to, s->subs, i)),
            cgc_bare(g, e));
  }
}

void cgc_put_async(cgc_t *g, const kir_stmt_t *s) {
  const kir_buffer_t *from = s->value->u.buffer;
  size_t bytes = td_dtype_bytes(from->dtype) * (size_t)s->step;
  cgc_helper_t helper = bytes == 16  ? CGC_ASYNC_16
                        : bytes == 8 ? CGC_ASYNC_8
                                     : CGC_ASYNC_4;
  const char *is_there =
      s->mask == NULL ? "true" : cgc_bare(g, cgc_expr(g, s->mask));
  const char *source = cgc_element(g, from, from->rank, s->value->args);
  const char *to = cgc_element(g, s->buffer, s->buffer->rank, s->subs);
  cg_line(&g->text, "%s(&%s, &%s, %s);", cgc_call(g, helper), to, source,
          is_there);
}

/* ---- folds --------------------------------------------------------------- */

static const char *combine(cgc_t *g, kir_x_t op, tdsl_dtype_t type,
                           const char *a, const char *b) {
  bool is_int = type == TDSL_DTYPE_I64;
  switch ((int)op) {
    case KIR_X_ADD:
      return is_int ? F("%s(%s, %s)", cgc_call(g, CGC_ADD), a, b)
                    : F("%s + %s", a, b);
    case KIR_X_MUL:
      return is_int ? F("%s(%s, %s)", cgc_call(g, CGC_MUL), a, b)
                    : F("%s * %s", a, b);
    case KIR_X_MAX: case KIR_X_MIN:
      return cgc_extreme(g, op == KIR_X_MIN, type, a, b);
    case KIR_X_AND: return F("%s & %s", a, b);
    case KIR_X_OR: return F("%s | %s", a, b);
    default: TD_ICE(g->task, "fold by operation %d", (int)op);
  }
}

/* What thread `lane` holds of the row in a part. */
static const char *row_part(cgc_t *g, const kir_expr_t *e, int64_t n,
                            uint32_t part) {
  const kir_buffer_t *b = e->u.buffer;
  const cgc_buffer_t *c = cgc_buffer(g, b);
  if (c->place == CGC_REGS) {
    uint32_t before = g->part;
    g->part = part;
    const char *text = register_element(g, c, e->args);
    g->part = before;
    return text;
  }
  const char *lane = n < g->width ? F("(lane & %lld)", (long long)n - 1)
                     : part == 0  ? "lane"
                                  : F("(lane + %u)", part * g->width);
  const char *at = step_in(g, offset(g, b, b->rank - 1, e->args),
                           F("%lld", (long long)n), lane);
  return cgc_decode(g, b->dtype, F("%s[%s]", c->name, cgc_bare(g, at)));
}

/* Lane l takes lane l + n/2, then l + n/4, ...; by exclusive or, so that all
 * threads end with the same value. */
const char *cgc_fold(cgc_t *g, const kir_expr_t *e) {
  const kir_buffer_t *b = e->u.buffer;
  int64_t n = 0;
  TD_CHECK(g->task, b->rank > 0 && ix_is_const(b->dims[b->rank - 1], &n) &&
                        n > 0 && (n & (n - 1)) == 0,
           "fold of %s", b->name);
  bool is_bool = e->type == TDSL_DTYPE_BOOL;
  uint32_t t = g->temps++;
  const char *name = F("t%u", t);
  const char *v = row_part(g, e, n, 0);
  if (n > g->width) {
    v = combine(g, e->fold, e->type, v, row_part(g, e, n, 1));
    n = g->width;
  }
  cg_line(&g->text, "%s %s = %s;", is_bool ? "int" : cgc_type(g, e->type),
          name, cgc_bare(g, v));
  if (n < g->width && cgc_buffer(g, b)->place == CGC_REGS) {
    cg_line(&g->text, "%s = __shfl_sync(%s, %s, lane & %lld, %u);", name,
            cgc_mates(g), name, (long long)n - 1, g->width);
  }
  for (int64_t half = n / 2; half >= 1; half /= 2) {
    const char *other =
        F("__shfl_xor_sync(%s, %s, %lld)", cgc_mates(g), name,
          (long long)half);
    cg_line(&g->text, "%s = %s;", name,
            cgc_bare(g, combine(g, e->fold, e->type, name, other)));
  }
  return is_bool ? F("(%s != 0)", name) : name;
}
