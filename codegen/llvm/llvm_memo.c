/* llvm_memo.c: what has been emitted already, and what is known of an
 * expression wherever it stands. */
#include "codegen/llvm/llvm_impl.h"

/* ---- memo ----------------------------------------------------------------*/

/* An address for lane 0 is another value than the expression itself. */
static uint64_t key_of(const cgl_t *g, const kir_expr_t *e) {
  return (uint64_t)(uintptr_t)e | (g->at_lane0 ? 1u : 0u);
}

size_t cgl_memo_mark(const cgl_t *g) {
  return g->memo_log.length;
}

void cgl_memo_release(cgl_t *g, size_t mark) {
  while (g->memo_log.length > mark) {
    td_map_put_u64(g->memo, td_vec_pop(&g->memo_log), NULL);
  }
}

LLVMValueRef cgl_memo_find(const cgl_t *g, const kir_expr_t *e) {
  return td_map_get_u64(g->memo, key_of(g, e));
}

/* ---- what an expression needs --------------------------------------------*/

static uint64_t buffer_bit(cgl_t *g, const kir_buffer_t *b) {
  uint64_t key = (uint64_t)(uintptr_t)b;
  uintptr_t number = (uintptr_t)td_map_get_u64(g->buffer_bits, key);
  if (number == 0) {
    number = g->buffer_bits->length + 1;
    td_map_put_u64(g->buffer_bits, key, (void *)number);
  }
  return (uint64_t)1 << (number - 1) % 64; /* a shared bit costs a reload */
}

/* Division by 0, and of the smallest integer by -1, trap on x86. */
static bool is_faulty_divisor(const kir_expr_t *d) {
  return d->op != KIR_X_CONST || d->u.i64 == 0 || d->u.i64 == -1;
}

/* NULL for what trait_of has not been asked about. */
static const cgl_trait_t *known_trait(const cgl_t *g, const kir_expr_t *e) {
  return td_map_get_u64(g->traits, (uint64_t)(uintptr_t)e);
}

/* Operands come first.  A variable is a vector wherever it can be seen at
 * all, so that what is found once holds. */
static void find_trait(void *user, const kir_expr_t *e) {
  cgl_t *g = user;
  cgl_trait_t *t = TD_NEW(g->arena, cgl_trait_t);
  td_map_put_u64(g->traits, (uint64_t)(uintptr_t)e, t);
  for (uint32_t i = 0; i < e->arg_count; i++) {
    const cgl_trait_t *a = known_trait(g, e->args[i]);
    t->may_fault |= a->may_fault;
    t->is_varying |= a->is_varying;
    t->reads |= a->reads;
  }
  switch ((int)e->op) {
    case KIR_X_VAR:
      if (e->u.var == g->lane_var) {
        t->is_varying = true;
      } else if (g->lets[e->u.var->id] != NULL) {
        LLVMValueRef v = g->vars[e->u.var->id];
        t->is_varying = v != NULL && cgl_is_vector(v);
      }
      break;
    case KIR_X_LOAD:
      t->may_fault |= e->u.buffer->space != KIR_REGISTER && !e->is_safe;
      t->reads |= buffer_bit(g, e->u.buffer);
      break;
    case KIR_X_FOLD: t->reads |= buffer_bit(g, e->u.buffer); break;
    case KIR_X_DIV: case KIR_X_MOD:
      t->may_fault |= e->type == TDSL_DTYPE_I64 &&
                      is_faulty_divisor(e->args[1]);
      break;
    default: break;
  }
}

static const cgl_trait_t *trait_of(cgl_t *g, const kir_expr_t *e) {
  const cgl_trait_t *t = known_trait(g, e);
  if (t != NULL) return t;
  kir_walk_into(&g->trait_walker, e, find_trait, g);
  return known_trait(g, e);
}

bool cgl_is_varying(cgl_t *g, const kir_expr_t *e) {
  if (g->lanes == 0 || g->at_lane0) return false;
  return trait_of(g, e)->is_varying;
}

bool cgl_may_fault(cgl_t *g, const kir_expr_t *e) {
  return trait_of(g, e)->may_fault;
}

void cgl_memo_put(cgl_t *g, const kir_expr_t *e, LLVMValueRef v) {
  uint64_t key = key_of(g, e);
  g->emitted++;
  td_map_put_u64(g->memo, key, v);
  td_vec_push(g->arena, &g->memo_log, key);
  if (trait_of(g, e)->reads != 0) {
    td_vec_push(g->arena, &g->memo_loads, key);
  }
}

void cgl_memo_stale(cgl_t *g, const kir_buffer_t *b) {
  uint64_t bit = buffer_bit(g, b);
  size_t kept = 0;
  for (size_t i = 0; i < g->memo_loads.length; i++) {
    uint64_t key = g->memo_loads.data[i];
    if (td_map_get_u64(g->memo, key) == NULL) continue;
    const kir_expr_t *e = (const kir_expr_t *)(uintptr_t)(key & ~1ull);
    if (known_trait(g, e)->reads & bit) {
      td_map_put_u64(g->memo, key, NULL);
    } else {
      g->memo_loads.data[kept++] = key;
    }
  }
  g->memo_loads.length = kept;
}
