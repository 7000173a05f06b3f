/* cuda_trait.c: what is known of an expression wherever it stands.
 *
 * Integers are sorted into tame ones, made of loop variables, dims and small
 * integers from memory, whose sums and products cannot overflow in a program
 * whose tensors exist, and wild ones, where C++ must be kept from assuming
 * that they do not. */
#include "codegen/cuda/cuda_impl.h"

static const cgc_trait_t *known(const cgc_t *g, const kir_expr_t *e) {
  return td_map_get_u64(g->traits, cgc_key(e));
}

static bool fold_ints(kir_x_t op, int64_t a, int64_t b, int64_t *out) {
  switch ((int)op) {
    case KIR_X_ADD: return !__builtin_add_overflow(a, b, out);
    case KIR_X_SUB: return !__builtin_sub_overflow(a, b, out);
    case KIR_X_MUL: return !__builtin_mul_overflow(a, b, out);
    case KIR_X_MIN: *out = a < b ? a : b; return true;
    case KIR_X_MAX: *out = a > b ? a : b; return true;
    case KIR_X_DIV: case KIR_X_MOD: {
      if (b <= 0) return false;
      int64_t r = a % b;
      if (r < 0) r += b;
      *out = op == KIR_X_MOD ? r : (a - r) / b;
      return op == KIR_X_MOD || a >= INT64_MIN + b;
    }
    default: return false;
  }
}

/* ---- ranges -------------------------------------------------------------- */

static void set_range(cgc_trait_t *t, int64_t lo, int64_t hi) {
  t->has_range = lo <= hi;
  t->lo = lo;
  t->hi = hi;
}

static void range_of_product(const cgc_trait_t *a, const cgc_trait_t *b,
                             cgc_trait_t *t) {
  int64_t lo = INT64_MAX, hi = INT64_MIN;
  const int64_t x[2] = {a->lo, a->hi}, y[2] = {b->lo, b->hi};
  for (int i = 0; i < 4; i++) {
    int64_t v;
    if (__builtin_mul_overflow(x[i / 2], y[i % 2], &v)) return;
    if (v < lo) lo = v;
    if (v > hi) hi = v;
  }
  set_range(t, lo, hi);
}

static int64_t floor_of(int64_t a, int64_t b) {
  return a / b - (a % b < 0);
}

/* Of an operation on integers with ranges. */
static void find_range(const kir_expr_t *e, const cgc_trait_t *const *a,
                       cgc_trait_t *t) {
  uint32_t first = e->op == KIR_X_SELECT ? 1 : 0;
  int64_t lo, hi;
  for (uint32_t i = first; i < e->arg_count; i++) {
    if (!a[i]->has_range) {
      bool has_divisor = e->op == KIR_X_MOD && a[1]->has_range &&
                         a[1]->lo > 0;
      if (has_divisor) set_range(t, 0, a[1]->hi - 1);
      return;
    }
  }
  const cgc_trait_t *x = a[first], *y = a[e->arg_count - 1];
  switch ((int)e->op) {
    case KIR_X_ADD:
      if (!__builtin_add_overflow(x->lo, y->lo, &lo) &&
          !__builtin_add_overflow(x->hi, y->hi, &hi)) {
        set_range(t, lo, hi);
      }
      return;
    case KIR_X_SUB:
      if (!__builtin_sub_overflow(x->lo, y->hi, &lo) &&
          !__builtin_sub_overflow(x->hi, y->lo, &hi)) {
        set_range(t, lo, hi);
      }
      return;
    case KIR_X_MUL: range_of_product(x, y, t); return;
    case KIR_X_DIV:
      if (y->lo <= 0) return;
      set_range(t, floor_of(x->lo, x->lo < 0 ? y->lo : y->hi),
                floor_of(x->hi, x->hi < 0 ? y->hi : y->lo));
      return;
    case KIR_X_MOD:
      if (y->lo > 0) set_range(t, 0, y->hi - 1);
      return;
    case KIR_X_MIN:
      set_range(t, x->lo < y->lo ? x->lo : y->lo,
                x->hi < y->hi ? x->hi : y->hi);
      return;
    case KIR_X_MAX:
      set_range(t, x->lo > y->lo ? x->lo : y->lo,
                x->hi > y->hi ? x->hi : y->hi);
      return;
    case KIR_X_SELECT:
      set_range(t, x->lo < y->lo ? x->lo : y->lo,
                x->hi > y->hi ? x->hi : y->hi);
      return;
    default: return;
  }
}

/* What a stored integer can be. */
static void range_of_dtype(tdsl_dtype_t dtype, cgc_trait_t *t) {
  switch ((int)dtype) {
    case TDSL_DTYPE_I32: set_range(t, INT32_MIN, INT32_MAX); return;
    case TDSL_DTYPE_I8: set_range(t, -128, 127); return;
    case TDSL_DTYPE_U8: set_range(t, 0, 255); return;
    case TDSL_DTYPE_BOOL: set_range(t, 0, 1); return;
    default: return;
  }
}

bool cgc_is_int(cgc_t *g, const kir_expr_t *e) {
  const cgc_trait_t *t = cgc_trait(g, e);
  return e->type == TDSL_DTYPE_I64 && t->has_range &&
         t->lo >= -CGC_INT_MOST && t->hi <= CGC_INT_MOST;
}

const char *cgc_type_of(cgc_t *g, const kir_expr_t *e) {
  return cgc_is_int(g, e) ? "int" : cgc_type(g, e->type);
}

/* ---- variables and loads ------------------------------------------------- */

static void trait_of_var(cgc_t *g, const kir_expr_t *e, cgc_trait_t *t) {
  const kir_stmt_t *def = g->defs[e->u.var->id];
  const kir_expr_t *from =
      def == NULL ? NULL : def->kind == KIR_LOOP ? def->lo : def->value;
  if (from == NULL || e->type != TDSL_DTYPE_I64) return;
  const cgc_trait_t *a = cgc_trait(g, from);
  t->is_positive = a->is_positive;
  t->is_wild = a->is_wild;
  t->has_data = a->has_data;
  if (def->kind == KIR_LET && a->has_range) set_range(t, a->lo, a->hi);
  if (def->kind == KIR_LOOP && a->has_range) {
    const cgc_trait_t *end = cgc_trait(g, def->hi);
    /* a loop that is not run has no value at all */
    int64_t last = end->hi - 1 < a->lo ? a->lo : end->hi - 1;
    if (end->has_range && end->hi > INT64_MIN) set_range(t, a->lo, last);
  }
  if (def->kind == KIR_LET && a->is_const) {
    t->is_const = true;
    t->value = a->value;
  }
}

static void trait_of_load(const kir_expr_t *e, cgc_trait_t *t) {
  tdsl_dtype_t dtype = e->u.buffer->dtype;
  if (e->op == KIR_X_LOAD) {
    t->may_fault |= e->u.buffer->space != KIR_REGISTER && !e->is_safe;
  }
  t->is_const = t->is_positive = t->is_wild = false;
  t->has_data = e->type == TDSL_DTYPE_I64;
  t->is_wild = dtype == TDSL_DTYPE_I64;
  t->has_range = false;
  if (e->type == TDSL_DTYPE_I64) range_of_dtype(dtype, t);
  t->is_positive = dtype == TDSL_DTYPE_U8;
}

/* x - x % c, with the same x */
static bool is_rest_taken(const kir_expr_t *e) {
  return e->op == KIR_X_SUB && e->args[1]->op == KIR_X_MOD &&
         e->args[1]->args[0] == e->args[0];
}

static void trait_of_int(const kir_expr_t *e, const cgc_trait_t *const *a,
                         cgc_trait_t *t) {
  uint32_t n = e->arg_count;
  bool all_positive = n > 0, any_positive = false;
  for (uint32_t i = 0; i < n; i++) {
    all_positive &= a[i]->is_positive;
    any_positive |= a[i]->is_positive;
  }
  switch ((int)e->op) {
    case KIR_X_ADD: case KIR_X_MIN: t->is_positive = all_positive; break;
    case KIR_X_MUL:
      t->is_positive = all_positive;
      t->is_wild |= a[0]->has_data && a[1]->has_data;
      break;
    case KIR_X_DIV:
      t->is_positive = a[0]->is_positive && a[1]->is_const && a[1]->value > 0;
      break;
    case KIR_X_MOD: t->is_positive = a[1]->is_const && a[1]->value > 0; break;
    case KIR_X_MAX: t->is_positive = any_positive; break;
    case KIR_X_SUB:
      t->is_positive = is_rest_taken(e) && a[0]->is_positive;
      break;
    case KIR_X_SELECT:
      t->is_positive = a[1]->is_positive && a[2]->is_positive;
      break;
    case KIR_X_CAST:
      t->is_wild |= e->u.to == TDSL_DTYPE_I64 &&
                    e->args[0]->type != TDSL_DTYPE_BOOL &&
                    e->args[0]->type != TDSL_DTYPE_I64;
      t->has_data = true;
      t->is_positive = e->u.to == TDSL_DTYPE_U8;
      break;
    case KIR_X_POW: t->is_wild = true; break;
    default: break;
  }
  if (e->op == KIR_X_CAST) range_of_dtype(e->u.to, t);
  else if (!t->is_wild) find_range(e, a, t);
  if (n == 2 && a[0]->is_const && a[1]->is_const && !t->is_wild) {
    t->is_const = fold_ints(e->op, a[0]->value, a[1]->value, &t->value);
    if (t->is_const) {
      t->is_positive = t->value >= 0;
      set_range(t, t->value, t->value);
    }
  }
}

/* Operands come first. */
static void find_trait(void *user, const kir_expr_t *e) {
  cgc_t *g = user;
  enum { MOST = 8 };
  const cgc_trait_t *a[MOST];
  cgc_trait_t *t = TD_NEW(g->arena, cgc_trait_t);
  for (uint32_t i = 0; i < e->arg_count; i++) {
    const cgc_trait_t *k = known(g, e->args[i]);
    if (i < MOST) a[i] = k;
    t->may_fault |= k->may_fault;
    t->has_fold |= k->has_fold;
    if (e->args[i]->type == TDSL_DTYPE_I64) {
      t->has_data |= k->has_data;
      t->is_wild |= k->is_wild;
    }
  }
  switch ((int)e->op) {
    case KIR_X_CONST:
      if (e->type != TDSL_DTYPE_I64) break;
      t->is_const = true;
      t->value = e->u.i64;
      t->is_positive = e->u.i64 >= 0;
      set_range(t, e->u.i64, e->u.i64);
      break;
    case KIR_X_VAR: trait_of_var(g, e, t); break;
    case KIR_X_DIM: {
      int64_t lo = 0, hi = 0;
      bool is_bounded = ix_interval(e->u.dim, &lo, &hi);
      t->is_positive = is_bounded && lo >= 0;
      if (is_bounded) set_range(t, lo, hi);
      t->is_const = ix_is_const(e->u.dim, &t->value);
      break;
    }
    case KIR_X_FOLD: t->has_fold = true; trait_of_load(e, t); break;
    case KIR_X_LOAD: trait_of_load(e, t); break;
    default:
      if (e->type == TDSL_DTYPE_I64 && e->arg_count <= MOST) {
        trait_of_int(e, a, t);
      }
      break;
  }
  td_map_put_u64(g->traits, cgc_key(e), t);
}

const cgc_trait_t *cgc_trait(cgc_t *g, const kir_expr_t *e) {
  const cgc_trait_t *t = known(g, e);
  if (t != NULL) return t;
  kir_walk_into(&g->trait_walker, e, find_trait, g);
  return known(g, e);
}

/* ---- who touches what ---------------------------------------------------- */

static bool is_int_atom(const ix_atom_t *a, int64_t *out_most) {
  int64_t lo, hi;
  if (a->kind == IX_ATOM_SYMBOL) {
    const ix_symbol_t *s = a->symbol;
    if (s->lo == NULL || s->hi == NULL || !ix_interval(s->lo, &lo, &hi) ||
        lo < -CGC_INT_MOST) {
      return false;
    }
    int64_t least = lo;
    if (!ix_interval(s->hi, &lo, &hi) || hi > CGC_INT_MOST) return false;
    *out_most = hi > -least ? hi : -least;
    return true;
  }
  if (!cgc_is_int_poly(a->p) || !cgc_is_int_poly(a->q)) return false;
  *out_most = CGC_INT_MOST;
  if (ix_interval(a->p, &lo, &hi) && hi <= CGC_INT_MOST && hi > -lo) {
    *out_most = hi;
    if (ix_interval(a->q, &lo, &hi) && hi > *out_most) *out_most = hi;
  }
  return true;
}

/* Depth of polys is bounded (IX_MAX_DEPTH), so recursion is. */
bool cgc_is_int_poly(const ix_poly_t *p) {
  int64_t sum = 0;
  for (uint32_t t = 0; t < p->term_count; t++) {
    const ix_term_t *term = &p->terms[t];
    if (term->coefficient == INT64_MIN) return false;
    int64_t most = term->coefficient < 0 ? -term->coefficient
                                         : term->coefficient;
    for (uint32_t i = 0; i < term->atom_count; i++) {
      int64_t m;
      if (!is_int_atom(term->atoms[i], &m) ||
          __builtin_mul_overflow(most, m, &most)) {
        return false;
      }
    }
    if (most > CGC_INT_MOST || __builtin_add_overflow(sum, most, &sum)) {
      return false;
    }
  }
  return sum <= CGC_INT_MOST;
}

static bool is_multiple_poly(const ix_poly_t *p, int64_t n) {
  for (uint32_t i = 0; i < p->term_count; i++) {
    if (p->terms[i].coefficient % n != 0) return false;
  }
  return true;
}

/* Subscripts are shallow; past the depth the answer is no. */
static bool is_multiple(cgc_t *g, const kir_expr_t *e, int64_t n,
                        uint32_t depth) {
  if (depth > 24) return false;
  const cgc_trait_t *t = cgc_trait(g, e);
  if (t->is_const) return t->value % n == 0;
  switch ((int)e->op) {
    case KIR_X_DIM: return is_multiple_poly(e->u.dim, n);
    case KIR_X_VAR: {
      const kir_stmt_t *def = g->defs[e->u.var->id];
      if (def == NULL) return false;
      if (def->kind == KIR_LET) {
        return is_multiple(g, def->value, n, depth + 1);
      }
      return def->loop != KIR_LOOP_LANE && def->step % n == 0 &&
             is_multiple(g, def->lo, n, depth + 1);
    }
    case KIR_X_SUB:
      if (is_rest_taken(e)) {
        const cgc_trait_t *c = cgc_trait(g, e->args[1]->args[1]);
        if (c->is_const && c->value > 0 && c->value % n == 0) return true;
      }
      return is_multiple(g, e->args[0], n, depth + 1) &&
             is_multiple(g, e->args[1], n, depth + 1);
    case KIR_X_ADD:
      return is_multiple(g, e->args[0], n, depth + 1) &&
             is_multiple(g, e->args[1], n, depth + 1);
    case KIR_X_MUL:
      return is_multiple(g, e->args[0], n, depth + 1) ||
             is_multiple(g, e->args[1], n, depth + 1);
    default: return false;
  }
}

bool cgc_is_multiple(cgc_t *g, const kir_expr_t *e, int64_t n) {
  return is_multiple(g, e, n, 0);
}

/* base + lane with base a multiple of n. */
static bool is_lane_form(cgc_t *g, const kir_expr_t *e, int64_t n,
                         uint32_t depth) {
  if (depth > 24) return false;
  if (e->op == KIR_X_VAR) {
    if (e->u.var == g->lane_var) return true;
    const kir_stmt_t *def = g->defs[e->u.var->id];
    return def != NULL && def->kind == KIR_LET &&
           is_lane_form(g, def->value, n, depth + 1);
  }
  if (e->op != KIR_X_ADD) return false;
  for (int i = 0; i < 2; i++) {
    if (is_lane_form(g, e->args[i], n, depth + 1) &&
        cgc_is_multiple(g, e->args[1 - i], n)) {
      return true;
    }
  }
  return false;
}

uint8_t cgc_who(cgc_t *g, const kir_buffer_t *b, uint32_t count,
                kir_expr_t *const *subs) {
  (void)b;
  if (g->lanes == 0 || count == 0) return CGC_BY_ANY;
  int64_t n = g->lanes == 16 ? 16 : g->lanes % CGC_WARP == 0 ? CGC_WARP : 0;
  const kir_expr_t *last = subs[count - 1];
  if (n == CGC_WARP && last->op == KIR_X_MUL &&
      is_lane_form(g, last->args[0], n, 0)) {
    const cgc_trait_t *times = cgc_trait(g, last->args[1]);
    if (times->is_const && times->value == 2) return CGC_BY_TWOS;
    if (times->is_const && times->value == 4) return CGC_BY_FOURS;
    if (times->is_const && times->value == 8) return CGC_BY_EIGHTS;
  }
  if (n == 0 || !is_lane_form(g, subs[count - 1], n, 0)) return CGC_BY_ANY;
  return n == 16 ? CGC_BY_16 : CGC_BY_32;
}
