/* What is asked of a finished polynomial: parts, substitution, values,
 * intervals, text.  Recursion follows the nesting of atoms, which
 * IX_MAX_DEPTH caps, and the ranges of symbols, capped here. */
#include "ir/shape_internal.h"

#include "runtime/base/num.h"

static const int64_t dim_max = 2147483647; /* L01 */

/* ---- parts ------------------------------------------------------------ */

/* Without atoms there is at most the constant term. */
bool ix_is_const(const ix_poly_t *p, int64_t *out_value) {
  if (!p || p->below.has != 0) return false;
  *out_value = p->term_count ? p->terms[0].coefficient : 0;
  return true;
}

const ix_symbol_t *ix_as_symbol(const ix_poly_t *p) {
  if (!p || p->term_count != 1 || p->terms[0].coefficient != 1 ||
      p->terms[0].atom_count != 1)
    return NULL;
  return p->terms[0].atoms[0]->symbol; /* NULL for the other atoms */
}

bool ix_each_symbol(const ix_poly_t *p, ix_symbol_fn fn, void *user) {
  if (!p) return true;
  for (uint32_t i = 0; i < p->term_count; i++) {
    for (uint32_t k = 0; k < p->terms[i].atom_count; k++) {
      const ix_atom_t *a = p->terms[i].atoms[k];
      if (a->kind == IX_ATOM_SYMBOL) {
        if (!fn(user, a->symbol)) return false;
      } else if (!ix_each_symbol(a->p, fn, user) ||
                 !ix_each_symbol(a->q, fn, user)) {
        return false;
      }
    }
  }
  return true;
}

/* For ix_mentions: goes on while the symbol is another one. */
static bool is_other(void *user, const ix_symbol_t *s) {
  return user != s;
}

bool ix_mentions(const ix_poly_t *p, const ix_symbol_t *s) {
  if (!p || !ix_may_mention(&p->below, s)) return false;
  return !ix_each_symbol(p, is_other, (void *)(uintptr_t)s);
}

bool ix_mentions_kind(const ix_poly_t *p, ix_symbol_kind_t kind) {
  return p && (p->below.has >> kind & 1) != 0;
}

/* Sums up the terms that hold s once; whatever else holds s is then still in
 * one of the two parts, and is found there. */
bool ix_split_linear(ix_pool_t *pool, const ix_poly_t *p, const ix_symbol_t *s,
                     const ix_poly_t **out_coefficient,
                     const ix_poly_t **out_rest) {
  const ix_poly_t *coefficient = pool->zero, *rest = p;
  if (!p) return false;
  for (uint32_t i = 0; i < p->term_count; i++) {
    const ix_term_t *t = &p->terms[i];
    for (uint32_t k = 0; k < t->atom_count; k++) {
      if (t->atoms[k]->symbol != s) continue;
      coefficient = ix_add(pool, coefficient, ix_term_poly(pool, t, k));
      rest = ix_sub(pool, rest, ix_term_poly(pool, t, t->atom_count));
      break; /* a second factor s shows in the coefficient */
    }
  }
  *out_coefficient = coefficient;
  *out_rest = rest;
  return coefficient && rest && !ix_mentions(coefficient, s) &&
         !ix_mentions(rest, s);
}

/* ---- substitution ----------------------------------------------------- */

/* The atom after replacement, ix_of_atom of it if nothing changed. */
static const ix_poly_t *rebuild_atom(ix_proof_t *proof, const ix_atom_t *atom,
                                     ix_atom_map_fn map, void *user) {
  const ix_poly_t *p = map(user, atom), *q;
  if (p || atom->kind == IX_ATOM_SYMBOL)
    return p ? p : ix_of_atom(proof->pool, atom);
  p = ix_rebuild(proof, atom->p, map, user);
  q = ix_rebuild(proof, atom->q, map, user);
  switch (atom->kind) {
  case IX_ATOM_SYMBOL: break;
  case IX_ATOM_FLOOR: return ix_divide(proof, p, q);
  case IX_ATOM_MOD: return ix_modulo(proof, p, q);
  case IX_ATOM_MIN: return ix_min(proof->pool, p, q);
  case IX_ATOM_MAX: return ix_max(proof->pool, p, q);
  }
  return NULL;
}

const ix_poly_t *ix_rebuild(ix_proof_t *proof, const ix_poly_t *p,
                            ix_atom_map_fn map, void *user) {
  ix_pool_t *pool = proof->pool;
  const ix_poly_t *sum = p;
  if (!p || p->below.has == 0) return p;
  /* Only terms that change are touched, so that a long sum is not built anew
   * for each of its terms. */
  for (uint32_t i = 0; i < p->term_count && sum; i++) {
    const ix_term_t *t = &p->terms[i];
    const ix_poly_t *product = ix_const(pool, t->coefficient);
    bool changed = false;
    for (uint32_t k = 0; k < t->atom_count && product; k++) {
      const ix_poly_t *factor = rebuild_atom(proof, t->atoms[k], map, user);
      if (factor != ix_of_atom(pool, t->atoms[k])) changed = true;
      product = ix_mul(pool, product, factor);
    }
    if (!product) return NULL;
    /* bounded by the weight of p: counted, never refused */
    (void)ix_spend(proof, 1 + (int32_t)t->atom_count);
    if (changed) {
      sum = ix_sub(pool, sum, ix_term_poly(pool, t, t->atom_count));
      sum = ix_add(pool, sum, product);
    }
  }
  return sum;
}

typedef struct subst {
  ix_subst_fn map;
  void *user;
} subst_t;

/* Symbols are replaced; all other atoms are rebuilt from their operands. */
static const ix_poly_t *subst_atom(void *user, const ix_atom_t *atom) {
  const subst_t *s = user;
  return atom->symbol ? s->map(s->user, atom->symbol) : NULL;
}

const ix_poly_t *ix_subst(ix_pool_t *pool, const ix_poly_t *p, ix_subst_fn map,
                          void *user, const ix_facts_t *facts) {
  ix_proof_t proof = ix_proof_start(pool, facts);
  subst_t s = {map, user};
  proof.budget = IX_REBUILD_BUDGET;
  return ix_apply_facts(pool, ix_rebuild(&proof, p, subst_atom, &s), facts);
}

/* ---- values ----------------------------------------------------------- */

/* A divisor <= 0 has no quotient: the caller asked outside the ranges under
 * which the form was made. */
static bool eval_atom(const ix_atom_t *a, ix_value_fn value, void *user,
                      int64_t *out) {
  int64_t p, q;
  if (a->kind == IX_ATOM_SYMBOL) return value(user, a->symbol, out);
  if (!ix_eval(a->p, value, user, &p) || !ix_eval(a->q, value, user, &q))
    return false;
  switch (a->kind) {
  case IX_ATOM_SYMBOL: break;
  case IX_ATOM_FLOOR:
    if (q <= 0) return false;
    *out = td_floor_div(p, q);
    return true;
  case IX_ATOM_MOD:
    if (q <= 0) return false;
    *out = td_floor_mod(p, q);
    return true;
  case IX_ATOM_MIN: *out = p < q ? p : q; return true;
  case IX_ATOM_MAX: *out = p > q ? p : q; return true;
  }
  return false;
}

bool ix_eval(const ix_poly_t *p, ix_value_fn value, void *user, int64_t *out) {
  int64_t sum = 0;
  if (!p) return false;
  for (uint32_t i = 0; i < p->term_count; i++) {
    int64_t product = p->terms[i].coefficient;
    for (uint32_t k = 0; k < p->terms[i].atom_count; k++) {
      int64_t factor;
      if (!eval_atom(p->terms[i].atoms[k], value, user, &factor) ||
          !td_mul_i64(product, factor, &product))
        return false;
    }
    if (!td_add_i64(sum, product, &sum)) return false;
  }
  *out = sum;
  return true;
}

/* ---- intervals -------------------------------------------------------- */

typedef struct interval {
  int64_t lo, hi; /* both included */
} interval_t;

/* Ranges have ends that have ranges: nesting and total work are capped. */
enum { RANGE_DEPTH = 24, RANGE_WORK = 20000 };

typedef struct walk {
  uint32_t depth, work;
} walk_t;

static bool poly_interval(const ix_poly_t *p, walk_t *walk, interval_t *out);

/* A dim always has an interval; an index, loop variable or datum needs both
 * ends.  Ends that are formulas count with their own intervals. */
static bool symbol_interval(const ix_symbol_t *s, walk_t *walk,
                            interval_t *out) {
  bool is_dim = !(1u << s->kind & IX_HAS_VARYING);
  interval_t end;
  out->lo = s->kind == IX_SYM_STATIC;
  out->hi = dim_max;
  if (!is_dim && (!s->lo || !s->hi)) return false;
  walk->depth++;
  if (s->lo) {
    if (!poly_interval(s->lo, walk, &end)) return false;
    out->lo = end.lo;
  }
  if (s->hi) {
    if (!poly_interval(s->hi, walk, &end) || end.hi == INT64_MIN) return false;
    if (!is_dim || end.hi - 1 < dim_max) out->hi = end.hi - 1;
  }
  walk->depth--;
  if (out->hi < out->lo) out->hi = out->lo; /* empty: any value will do */
  return true;
}

static void widen(interval_t *i, int64_t value) {
  if (value < i->lo) i->lo = value;
  if (value > i->hi) i->hi = value;
}

static bool atom_interval(const ix_atom_t *a, walk_t *walk, interval_t *out) {
  interval_t p, q;
  if (a->kind == IX_ATOM_SYMBOL) return symbol_interval(a->symbol, walk, out);
  if (!poly_interval(a->p, walk, &p) || !poly_interval(a->q, walk, &q))
    return false;
  switch (a->kind) {
  case IX_ATOM_SYMBOL: break;
  case IX_ATOM_FLOOR:
  case IX_ATOM_MOD:
    /* a divisor is positive wherever the quotient is formed */
    if (q.hi < 1) return false;
    if (q.lo < 1) q.lo = 1;
    if (a->kind == IX_ATOM_MOD) {
      out->lo = 0;
      out->hi = p.lo >= 0 && p.hi < q.hi ? p.hi : q.hi - 1;
      return true;
    }
    out->lo = out->hi = td_floor_div(p.lo, q.lo);
    widen(out, td_floor_div(p.lo, q.hi));
    widen(out, td_floor_div(p.hi, q.lo));
    widen(out, td_floor_div(p.hi, q.hi));
    return true;
  case IX_ATOM_MIN:
    out->lo = p.lo < q.lo ? p.lo : q.lo;
    out->hi = p.hi < q.hi ? p.hi : q.hi;
    return true;
  case IX_ATOM_MAX:
    out->lo = p.lo > q.lo ? p.lo : q.lo;
    out->hi = p.hi > q.hi ? p.hi : q.hi;
    return true;
  }
  return false;
}

/* The extremes of a product lie at the ends of its factors. */
static bool multiply(interval_t *a, interval_t b) {
  int64_t w, x, y, z;
  if (!td_mul_i64(a->lo, b.lo, &w) || !td_mul_i64(a->lo, b.hi, &x) ||
      !td_mul_i64(a->hi, b.lo, &y) || !td_mul_i64(a->hi, b.hi, &z))
    return false;
  a->lo = a->hi = w;
  widen(a, x);
  widen(a, y);
  widen(a, z);
  return true;
}

static bool poly_interval(const ix_poly_t *p, walk_t *walk, interval_t *out) {
  out->lo = out->hi = 0;
  if (walk->depth > RANGE_DEPTH || walk->work++ > RANGE_WORK) return false;
  for (uint32_t i = 0; i < p->term_count; i++) {
    const ix_term_t *t = &p->terms[i];
    interval_t product = {t->coefficient, t->coefficient}, factor;
    for (uint32_t k = 0; k < t->atom_count; k++)
      if (!atom_interval(t->atoms[k], walk, &factor) ||
          !multiply(&product, factor))
        return false;
    if (!td_add_i64(out->lo, product.lo, &out->lo) ||
        !td_add_i64(out->hi, product.hi, &out->hi))
      return false;
  }
  return true;
}

bool ix_interval(const ix_poly_t *p, int64_t *out_lo, int64_t *out_hi) {
  walk_t walk = {0, 0};
  interval_t i;
  if (!p || !poly_interval(p, &walk, &i)) return false;
  *out_lo = i.lo;
  *out_hi = i.hi;
  return true;
}

/* ---- text ------------------------------------------------------------- */

/* A name such as the quotient `H/G` reads as a formula when it is a factor; an
 * operator inside brackets (`pos[b + 1]`) does not count. */
static bool is_formula(const char *name) {
  int open = 0;
  for (const char *c = name; *c; c++) {
    if (*c == '[' || *c == '(') open++;
    if (*c == ']' || *c == ')') open--;
    if (open == 0 && strchr("+-*/% ", *c)) return true;
  }
  return false;
}

/* alone: nothing binds tighter than / and % beside it. */
static void print_atom(td_buf_t *out, const ix_atom_t *a, bool alone);

/* An operand of / or %. */
static void print_operand(td_buf_t *out, const ix_poly_t *p) {
  const ix_term_t *t = p->terms;
  bool is_number =
      p->below.has == 0 && (p->term_count == 0 || t->coefficient > 0);
  bool is_atom =
      p->term_count == 1 && t->coefficient == 1 && t->atom_count == 1;
  if (is_atom) {
    print_atom(out, t->atoms[0], false);
  } else if (is_number) {
    ix_print(out, p);
  } else {
    td_buf_putc(out, '(');
    ix_print(out, p);
    td_buf_putc(out, ')');
  }
}

static void print_atom(td_buf_t *out, const ix_atom_t *a, bool alone) {
  bool bare = true;
  switch (a->kind) {
  case IX_ATOM_SYMBOL: bare = !is_formula(a->symbol->name); break;
  case IX_ATOM_FLOOR:
  case IX_ATOM_MOD: bare = false; break;
  case IX_ATOM_MIN:
  case IX_ATOM_MAX: break;
  }
  if (alone) bare = true;
  if (!bare) td_buf_putc(out, '(');
  switch (a->kind) {
  case IX_ATOM_SYMBOL: td_buf_puts(out, a->symbol->name); break;
  case IX_ATOM_FLOOR:
  case IX_ATOM_MOD:
    print_operand(out, a->p);
    td_buf_puts(out, a->kind == IX_ATOM_FLOOR ? "/" : " % ");
    print_operand(out, a->q);
    break;
  case IX_ATOM_MIN:
  case IX_ATOM_MAX:
    td_buf_puts(out, a->kind == IX_ATOM_MIN ? "min(" : "max(");
    ix_print(out, a->p);
    td_buf_puts(out, ", ");
    ix_print(out, a->q);
    td_buf_putc(out, ')');
    break;
  }
  if (!bare) td_buf_putc(out, ')');
}

/* The sign is printed here: `-a / 2` is (-a) / 2, hence the parentheses in
 * `-(a/2)` at the start of a text. */
static void print_term(td_buf_t *out, const ix_term_t *t, bool first) {
  bool negative = t->coefficient < 0;
  uint64_t size =
      negative ? 0 - (uint64_t)t->coefficient : (uint64_t)t->coefficient;
  bool alone = size == 1 && t->atom_count == 1 && !(first && negative);
  if (first) td_buf_puts(out, negative ? "-" : "");
  else
    td_buf_puts(out, negative ? " - " : " + ");
  if (size != 1 || t->atom_count == 0)
    td_buf_printf(out, "%llu", (unsigned long long)size);
  for (uint32_t k = 0; k < t->atom_count; k++) {
    if (k > 0 || size != 1) td_buf_putc(out, '*');
    print_atom(out, t->atoms[k], alone);
  }
}

/* A missing form prints as `?`, so that messages need no case for it. */
void ix_print(td_buf_t *out, const ix_poly_t *p) {
  uint32_t lead = 0;
  if (!p || p->term_count == 0) {
    td_buf_puts(out, p ? "0" : "?");
    return;
  }
  while (lead < p->term_count && p->terms[lead].coefficient < 0) lead++;
  if (lead == p->term_count) lead = 0;
  print_term(out, &p->terms[lead], true);
  for (uint32_t i = 0; i < p->term_count; i++)
    if (i != lead) print_term(out, &p->terms[i], false);
}

const char *ix_text(td_arena_t *arena, const ix_poly_t *p) {
  td_buf_t buf;
  td_buf_init(&buf, arena->task);
  ix_print(&buf, p);
  return td_buf_finish(&buf, arena);
}
