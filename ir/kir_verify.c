/* kir_verify.c: checks the rules at the top of kir.h.
 *
 * Run on what passes make, where a failure is our fault, and on text read
 * back, where it is a diagnostic.  The first failure ends the check. */
#include "ir/kir_verify.h"

#include "ir/dtype.h"
#include "runtime/base/num.h"

enum {
  MAX_COPIES = 1 << 16, /* of statements, that unrolling may make */
  MAX_WARPS = 32,
  MAX_GROUPS = 15,      /* of copies that a wait leaves on their way */
  MAX_BLOCK_LOOPS = 16,
};

/* ---- statements -----------------------------------------------------------*/

/* What the run time can evaluate before a launch. */
static bool is_dim_only(const kir_expr_t *e) {
  return e->op == KIR_X_CONST || e->op == KIR_X_DIM;
}

static bool is_const_i64(const kir_expr_t *e) {
  return e->op == KIR_X_CONST && e->type == TDSL_DTYPE_I64;
}

/* One variable a number and one definition at a time, so that emitters may
 * keep values in an array. */
static void define(kir_verifier_t *v, const kir_var_t *var,
                   kir_visible_t state) {
  if (var == NULL || var->name == NULL || !tir_is_arithmetic(var->type) ||
      var->id >= v->kernel->var_count) {
    kir_fail(v, v->loc, "a variable is missing or has no name, type or number");
    return;
  }
  if (v->known[var->id] != NULL && v->known[var->id] != var) {
    kir_fail(v, v->loc, "variables %s and %s have one number", var->name,
             v->known[var->id]->name);
    return;
  }
  if (v->vars[var->id] != KIR_HIDDEN) {
    kir_fail(v, v->loc, "variable %s is set inside its own scope", var->name);
    return;
  }
  v->known[var->id] = var;
  v->vars[var->id] = state;
}

/* Copies one loop makes of its body. */
static int64_t copies_of(kir_verifier_t *v, const kir_stmt_t *s,
                         int64_t around) {
  int64_t span;
  if (__builtin_sub_overflow(s->hi->u.i64, s->lo->u.i64, &span) ||
      span > MAX_COPIES) {
    kir_fail(v, v->loc, "loop over %s is too long to unroll", s->var->name);
    return around;
  }
  if (span <= 0) return around;
  int64_t trips = (span - 1) / s->step + 1;
  if (trips > MAX_COPIES / around) {
    kir_fail(v, v->loc, "unrolling makes more than %d copies", MAX_COPIES);
    return around;
  }
  return around * trips;
}

/* `block_loops` is passed on while the block is one statement, so that block
 * loops nest directly in each other. */
static void check_block(kir_verifier_t *v, const kir_block_t *block, int depth,
                        int64_t copies, uint32_t block_loops);

/* `block_loops`: block loops around, if this may be one more; else
 * UINT32_MAX. */
static void check_loop(kir_verifier_t *v, const kir_stmt_t *s, int depth,
                       int64_t copies, uint32_t block_loops) {
  kir_visible_t state = KIR_VISIBLE;
  uint32_t inner = UINT32_MAX;
  kir_check_expr(v, s->lo, TDSL_DTYPE_I64, "the lower bound");
  kir_check_expr(v, s->hi, TDSL_DTYPE_I64, "the upper bound");
  if (s->step < 1) kir_fail(v, v->loc, "the step is not positive");
  if (v->lane != NULL) kir_fail(v, v->loc, "a loop inside a lane loop");
  if (s->loop == KIR_LOOP_LANE && v->warps > 0 && v->warp == NULL) {
    kir_fail(v, v->loc, "a lane loop beside warp loops");
  }
  if (s->mask != NULL && s->loop != KIR_LOOP_LANE) {
    kir_fail(v, v->loc, "only lane loops have a mask");
  }
  if (s->var == NULL || s->var->type != TDSL_DTYPE_I64) {
    kir_fail(v, v->loc, "the loop variable is no integer");
  }
  if (!v->ok) return;
  bool is_const = is_const_i64(s->lo) && is_const_i64(s->hi);
  switch (s->loop) {
    case KIR_LOOP_BLOCK:
      if (block_loops >= MAX_BLOCK_LOOPS) {
        kir_fail(v, v->loc, "a block loop that is not outermost");
      }
      if (!is_dim_only(s->lo) || !is_dim_only(s->hi)) {
        kir_fail(v, v->loc, "bounds of a block loop are not dims");
      }
      inner = block_loops + 1;
      break;
    case KIR_LOOP_UNROLL:
      state = KIR_FIXED;
      if (is_const) {
        copies = copies_of(v, s, copies);
      } else {
        kir_fail(v, v->loc, "bounds of an unrolled loop are not constants");
      }
      break;
    case KIR_LOOP_LANE:
      state = KIR_LANE;
      if (!is_const || s->lo->u.i64 != 0 || s->hi->u.i64 < 2 ||
          s->hi->u.i64 > KIR_MAX_LANES || s->step != 1) {
        kir_fail(v, v->loc, "lanes are not 0 .. n, 2 <= n <= %d",
                 KIR_MAX_LANES);
      }
      break;
    case KIR_LOOP_WARP:
      if (!is_const || s->lo->u.i64 < 0 || s->step != 1 ||
          s->hi->u.i64 <= s->lo->u.i64 || v->warps > MAX_WARPS ||
          v->warp != NULL) {
        kir_fail(v, v->loc, "warps are not some of 0 .. n, n <= %d", MAX_WARPS);
      }
      break;
    case KIR_LOOP_SERIAL: break;
  }
  define(v, s->var, state);
  if (!v->ok) return;
  if (s->loop == KIR_LOOP_LANE) {
    v->lane = s->var;
    v->lanes = s->hi->u.i64;
    if (s->mask != NULL) {
      kir_check_expr(v, s->mask, TDSL_DTYPE_BOOL, "the mask");
    }
  }
  if (s->loop == KIR_LOOP_WARP) v->warp = s->var;
  check_block(v, &s->body, depth + 1, copies, inner);
  if (s->loop == KIR_LOOP_LANE) v->lane = NULL;
  if (s->loop == KIR_LOOP_WARP) v->warp = NULL;
  v->vars[s->var->id] = KIR_HIDDEN;
}

/* Floats round and integers keep low bits; nothing else converts itself. */
static bool value_fits(const kir_buffer_t *b, const kir_expr_t *value) {
  tir_class_t c = tir_dtype_class(b->dtype);
  return c == tir_dtype_class(value->type);
}

/* In a lane loop registers change only lane by lane: lanes that all store to
 * one register would need an order that vectors do not have. */
static void check_store(kir_verifier_t *v, const kir_stmt_t *s) {
  const kir_buffer_t *b = s->buffer;
  if (!kir_is_usable(v, b)) return;
  if (v->warps > 0 && v->warp == NULL) {
    kir_fail(v, v->loc, "a store beside warp loops");
  }
  kir_check_expr(v, s->value, TDSL_DTYPE_UNSET, "the value");
  if (s->sub_count != b->rank) {
    kir_fail(v, v->loc, "%u subscripts on %s of rank %u", s->sub_count, b->name,
             b->rank);
  }
  for (uint32_t i = 0; i < s->sub_count; i++) {
    kir_check_expr(v, s->subs[i], TDSL_DTYPE_I64, "a subscript");
  }
  if (!v->ok) return;
  if (!value_fits(b, s->value)) {
    kir_fail(v, v->loc, "the value of %s is of another class", b->name);
  }
  if (b->space == KIR_GLOBAL && !b->is_written) {
    kir_fail(v, v->loc, "%s is written but not declared so", b->name);
  }
  if (b->space != KIR_REGISTER) return;
  kir_check_register(v, b, s->sub_count, s->subs);
  if (v->lane != NULL &&
      (b->rank == 0 || !kir_is_lane(v, s->subs[b->rank - 1]))) {
    kir_fail(v, v->loc, "lanes store to one register of %s", b->name);
  }
}

/* At most 16 bytes, which every memory moves at once. */
static void check_copy(kir_verifier_t *v, const kir_stmt_t *s) {
  const kir_expr_t *from = s->value;
  int64_t n = s->step;
  if (from == NULL || from->op != KIR_X_LOAD) {
    kir_fail(v, v->loc, "a copy is not from a place");
    return;
  }
  check_store(v, s);
  if (!v->ok) return;
  int64_t bytes = n * (int64_t)td_dtype_bytes(s->buffer->dtype);
  if (from->u.buffer->dtype != s->buffer->dtype) {
    kir_fail(v, v->loc, "a copy between dtypes");
  } else if (s->buffer->rank == 0 || from->u.buffer->rank == 0 || n < 2 ||
             !kir_is_power_of_two(n) || bytes > 16) {
    kir_fail(v, v->loc, "a copy of %lld elements", (long long)n);
  }
}

/* A square of 2^n floats, whole: what shuffles of a few vectors do. */
static void check_transpose(kir_verifier_t *v, const kir_stmt_t *s) {
  const kir_buffer_t *b = s->buffer;
  int64_t rows = 0, lanes = 0;
  if (!kir_is_usable(v, b)) return;
  if (v->lane != NULL || v->warps > 0) {
    kir_fail(v, v->loc, "transpose of %s in a lane loop or beside warp loops",
             b->name);
  } else if (b->space != KIR_REGISTER || b->rank != 2 ||
             (b->dtype != TDSL_DTYPE_F32 && b->dtype != TDSL_DTYPE_F64 &&
              b->dtype != TDSL_DTYPE_F16) ||
             !ix_is_const(b->dims[0], &rows) ||
             !ix_is_const(b->dims[1], &lanes) || rows != lanes || rows < 2 ||
             rows > 16 || !kir_is_power_of_two(rows)) {
    kir_fail(v, v->loc, "%s is no square of up to 16 registers of floats",
             b->name);
  }
}

static void note_load(void *user, const kir_expr_t *e) {
  bool *found = user;
  *found |= e->op == KIR_X_LOAD || e->op == KIR_X_FOLD;
}

/* A place outside of the buffer is no fault, so its subscripts must be none
 * either. */
static void check_prefetch(kir_verifier_t *v, const kir_stmt_t *s) {
  const kir_buffer_t *b = s->buffer;
  if (!kir_is_usable(v, b)) return;
  if ((b->space != KIR_GLOBAL && b->space != KIR_LOCAL) || v->lane != NULL ||
      v->warps > 0) {
    kir_fail(v, v->loc,
             "prefetch of %s, which is no memory, in a lane loop or beside "
             "warp loops", b->name);
    return;
  }
  if (s->sub_count != b->rank) {
    kir_fail(v, v->loc, "%u subscripts on %s of rank %u", s->sub_count, b->name,
             b->rank);
  }
  for (uint32_t i = 0; i < s->sub_count; i++) {
    bool reads = false;
    kir_walker_t walker;
    kir_check_expr(v, s->subs[i], TDSL_DTYPE_I64, "a subscript");
    kir_walker_init(&walker, &v->arena);
    kir_walk_into(&walker, s->subs[i], note_load, &reads);
    if (reads) kir_fail(v, v->loc, "prefetch of %s reads its place", b->name);
  }
}

/* From memory that stays as it is to memory that all see. */
static void check_async(kir_verifier_t *v, const kir_stmt_t *s) {
  const kir_expr_t *from = s->value;
  if (from == NULL || from->op != KIR_X_LOAD || v->lane == NULL ||
      v->warp == NULL) {
    kir_fail(v, v->loc, "a copy on its way is not from a place, or no lane's");
    return;
  }
  if (s->mask != NULL) {
    kir_check_expr(v, s->mask, TDSL_DTYPE_BOOL, "the condition");
  }
  check_store(v, s);
  if (!v->ok) return;
  int64_t bytes = s->step * (int64_t)td_dtype_bytes(s->buffer->dtype);
  if (from->u.buffer->dtype != s->buffer->dtype) {
    kir_fail(v, v->loc, "a copy between dtypes");
  } else if (s->buffer->space != KIR_SHARED ||
             from->u.buffer->space != KIR_GLOBAL ||
             from->u.buffer->is_written) {
    kir_fail(v, v->loc, "a copy on its way is not from a parameter that stays "
                    "to shared memory");
  } else if (s->buffer->rank == 0 || from->u.buffer->rank == 0 ||
             s->step < 1 || s->step > 16 ||
             (bytes != 4 && bytes != 8 && bytes != 16)) {
    kir_fail(v, v->loc, "a copy on its way of %lld elements, not of 4, 8 or 16 "
                    "bytes", (long long)s->step);
  }
}

/* All threads, or some warps that always meet under this number. */
static void check_barrier(kir_verifier_t *v, const kir_stmt_t *s) {
  if (v->warps == 0 || v->warp != NULL || v->lane != NULL) {
    kir_fail(v, v->loc, "a barrier in a warp or lane loop, or without any");
  }
  if (s->step == 0 || !v->ok) return;
  if (s->step < 1 || s->step > KIR_MAX_BARRIERS || s->lo == NULL ||
      s->hi == NULL || !is_const_i64(s->lo) || !is_const_i64(s->hi) ||
      s->lo->u.i64 < 0 || s->hi->u.i64 <= s->lo->u.i64 ||
      s->hi->u.i64 > v->warps) {
    kir_fail(v, v->loc,
             "barrier %lld is not of some of the warps, or no number "
             "of 1 .. %d", (long long)s->step, KIR_MAX_BARRIERS);
    return;
  }
  int64_t *met = v->meets[s->step];
  if (met[1] > 0 && (met[0] != s->lo->u.i64 || met[1] != s->hi->u.i64)) {
    kir_fail(v, v->loc, "barrier %lld is of other warps elsewhere",
             (long long)s->step);
  }
  met[0] = s->lo->u.i64;
  met[1] = s->hi->u.i64;
}

static void check_stmt(kir_verifier_t *v, const kir_stmt_t *s, int depth,
                       int64_t copies, uint32_t block_loops) {
  switch (s->kind) {
    case KIR_LOOP: check_loop(v, s, depth, copies, block_loops); return;
    case KIR_IF:
      kir_check_expr(v, s->mask, TDSL_DTYPE_BOOL, "the condition");
      check_block(v, &s->body, depth + 1, copies, UINT32_MAX);
      check_block(v, &s->orelse, depth + 1, copies, UINT32_MAX);
      return;
    case KIR_LET: {
      kir_check_expr(v, s->value,
                     s->var == NULL ? TDSL_DTYPE_UNSET : s->var->type,
                     "the value");
      if (!v->ok) return;
      kir_trait_t t = kir_trait_of(v, s->value);
      define(v, s->var,
             t.fixed ? KIR_FIXED : t.varying ? KIR_LANE : KIR_VISIBLE);
      return;
    }
    case KIR_STORE: check_store(v, s); return;
    case KIR_COPY: check_copy(v, s); return;
    case KIR_TRANSPOSE: check_transpose(v, s); return;
    case KIR_PREFETCH: check_prefetch(v, s); return;
    case KIR_ASYNC: check_async(v, s); return;
    case KIR_BARRIER: check_barrier(v, s); return;
    case KIR_COMMIT: case KIR_WAIT:
      if (v->warps == 0 || v->warp != NULL || v->lane != NULL) {
        kir_fail(v, v->loc, "%s in a warp or lane loop, or without any",
                 kir_kind_text(s->kind));
      }
      if (s->kind == KIR_WAIT && (s->step < 0 || s->step > MAX_GROUPS)) {
        kir_fail(v, v->loc, "a wait leaves %lld groups, not 0 .. %d",
                 (long long)s->step, MAX_GROUPS);
      }
      return;
    case KIR_ALLOC:
      kir_check_buffer(v, s->buffer);
      if (v->ok && s->buffer->is_swizzled) kir_check_swizzle(v, s->buffer);
      if (!v->ok) return;
      if (v->lane != NULL || s->buffer->space == KIR_GLOBAL) {
        kir_fail(v, v->loc, "alloc of %s in a lane loop or of a parameter",
                 s->buffer->name);
      }
      if (s->buffer->space == KIR_SHARED &&
          (v->warps == 0 || v->warp != NULL)) {
        kir_fail(v, v->loc, "shared %s is not of a block with warp loops",
                 s->buffer->name);
      }
      if (s->buffer->space == KIR_LOCAL && v->warps > 0) {
        kir_fail(v, v->loc, "local %s in a block with warp loops",
                 s->buffer->name);
      }
      if (td_map_get_u64(&v->buffers, (uint64_t)(uintptr_t)s->buffer)) {
        kir_fail(v, v->loc, "%s is allocated twice", s->buffer->name);
      }
      kir_set_usable(v, s->buffer, true);
      return;
    case KIR_COMMENT: return;
    case KIR_KIND_COUNT: break;
  }
  kir_fail(v, v->loc, "no statement has number %d", (int)s->kind);
}

static void check_block(kir_verifier_t *v, const kir_block_t *block, int depth,
                        int64_t copies, uint32_t block_loops) {
  if (depth > KIR_MAX_NESTING) {
    kir_fail(v, v->loc, "statements nest deeper than %d", KIR_MAX_NESTING);
  }
  if (block->length != 1) block_loops = UINT32_MAX;
  for (size_t i = 0; i < block->length && v->ok; i++) {
    const kir_stmt_t *s = block->data[i];
    if (s->loc.line != 0) v->loc = s->loc;
    check_stmt(v, s, depth, copies, block_loops);
  }
  /* what the block made is gone after it */
  for (size_t i = 0; i < block->length && v->ok; i++) {
    const kir_stmt_t *s = block->data[i];
    if (s->kind == KIR_LET) v->vars[s->var->id] = KIR_HIDDEN;
    if (s->kind == KIR_ALLOC) kir_set_usable(v, s->buffer, false);
  }
}

bool kir_verify(td_task_t *task, const kir_kernel_t *kernel,
                const char *stage, bool from_text) {
  kir_verifier_t v = {.task = task,
                  .kernel = kernel,
                  .stage = stage,
                  .from_text = from_text,
                  .ok = true,
                  .loc = kernel->loc};
  td_arena_init(&v.arena, task);
  td_map_init(&v.buffers, &v.arena);
  v.vars = TD_NEW_ARRAY(&v.arena, kir_visible_t, kernel->var_count + 1u);
  v.known = TD_NEW_ARRAY(&v.arena, const kir_var_t *, kernel->var_count + 1u);
  if (kernel->name == NULL || kernel->name[0] == '\0') {
    kir_fail(&v, v.loc, "a kernel has no name");
  }
  for (uint32_t i = 0; i < kernel->param_count && v.ok; i++) {
    const kir_buffer_t *b = kernel->params[i];
    kir_check_buffer(&v, b);
    if (!v.ok) break;
    if (b->space != KIR_GLOBAL || b->id != i) {
      kir_fail(&v, v.loc, "parameter %s is not number %u", b->name, i);
    }
    kir_set_usable(&v, b, true);
  }
  if (v.ok) {
    v.warps = kir_warp_count(kernel);
    check_block(&v, &kernel->body, 0, 1, 0);
  }
  td_arena_free_all(&v.arena);
  return v.ok;
}
