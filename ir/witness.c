/* Assignments that refute: sample points within the ranges in force.
 *
 * A proof by steps 1 to 4 uses ranges, and facts between dims, only; so what it
 * proves is >= 0 at every point made here (is_valid).  A proof that subtracts
 * facts is >= 0 where all facts hold as well (is_full).  Points are drawn from
 * a hash, the same in every run; if none can be made nothing is refuted. */
#include "ir/shape_internal.h"

#include "runtime/base/num.h"

enum { PASSES = 6, DRAWS = 6 };

/* Larger steps are not worth a point. */
static const int64_t dim_limit = 1000000000;

static size_t place_of(const ix_witness_t *w, const ix_symbol_t *s) {
  size_t i = 0;
  while (i < w->symbol_count && w->symbols[i] != s) i++;
  return i;
}

typedef struct reader {
  const ix_witness_t *w;
  size_t point;
  bool made; /* all values are known */
} reader_t;

static bool read_value(void *user, const ix_symbol_t *s, int64_t *out) {
  const reader_t *r = user;
  size_t i = place_of(r->w, s);
  if (i == r->w->symbol_count || (!r->made && !r->w->is_known[i])) return false;
  *out = r->w->values[r->point][i];
  return true;
}

bool ix_witness_eval(const ix_witness_t *w, size_t point, const ix_poly_t *p,
                     int64_t *out) {
  reader_t reader = {w, point, true};
  return ix_eval(p, read_value, &reader, out);
}

/* While a point is being made: false if a symbol has no value yet. */
static bool eval_known(const ix_witness_t *w, size_t point, const ix_poly_t *p,
                       int64_t *out) {
  reader_t reader = {w, point, false};
  return ix_eval(p, read_value, &reader, out);
}

/* False once there are too many symbols to give values to. */
static bool collect(void *user, const ix_symbol_t *s) {
  ix_witness_t *w = user;
  if (place_of(w, s) < w->symbol_count) return true;
  if (w->symbol_count == IX_WITNESS_SYMBOLS) return false;
  w->symbols[w->symbol_count++] = s;
  return true;
}

static bool is_varying(const ix_symbol_t *s) {
  return (1u << s->kind & IX_HAS_VARYING) != 0;
}

/* The same number for the same place in every run. */
static uint64_t draw(size_t point, size_t symbol, size_t salt) {
  return td_hash_u64(symbol * 64 + salt, point * 2654435761u + 17) >> 11;
}

/* ---- dims -------------------------------------------------------------- */

/* The first points are small and tight, the later ones spread out. */
static void draw_dim(ix_witness_t *w, size_t point, size_t i) {
  static const uint64_t spans[IX_WITNESS_POINTS] = {
      1, 2, 2, 3, 3, 4, 5, 7, 9, 17, 40, 100, 1000, 100000};
  int64_t lo, hi;
  if (!w->lo[i] || !eval_known(w, point, w->lo[i], &lo)) lo = 0;
  w->values[point][i] = lo + (int64_t)(draw(point, i, 0) % spans[point]);
  if (w->hi[i] && eval_known(w, point, w->hi[i], &hi) &&
      w->values[point][i] > hi - 1)
    w->values[point][i] = hi - 1 > lo ? hi - 1 : lo;
  w->is_known[i] = true;
}

/* Moves a dim so that a fact that came out as v < 0 holds: one that it grows
 * with, else one that it falls with. */
static void repair(ix_witness_t *w, size_t point, const ix_poly_t *fact,
                   int64_t v) {
  for (int sign = 1; sign >= -1; sign -= 2) {
    for (uint32_t k = 0; k < fact->term_count; k++) {
      const ix_term_t *t = &fact->terms[k];
      int64_t c = t->coefficient, need;
      size_t i;
      if (t->atom_count != 1 || !t->atoms[0]->symbol || (c > 0) != (sign > 0))
        continue;
      if (c < -dim_limit || c > dim_limit || v < -dim_limit) continue;
      i = place_of(w, t->atoms[0]->symbol);
      need = (-v + (c < 0 ? -c : c) - 1) / (c < 0 ? -c : c);
      if (sign < 0 && w->values[point][i] < need) continue;
      w->values[point][i] += sign * need;
      return;
    }
  }
}

/* True if every fact among dims holds in the end. */
static bool make_dims(ix_witness_t *w, size_t point,
                      const ix_poly_t *const *facts, size_t fact_count) {
  for (size_t i = 0; i < w->symbol_count; i++)
    if (!is_varying(w->symbols[i])) draw_dim(w, point, i);
  for (int pass = 0; pass <= PASSES; pass++) {
    bool all = true;
    for (size_t i = 0; i < w->symbol_count; i++) {
      int64_t lo;
      if (!is_varying(w->symbols[i]) && w->lo[i] &&
          eval_known(w, point, w->lo[i], &lo) && w->values[point][i] < lo) {
        w->values[point][i] = lo;
        all = false;
      }
    }
    for (size_t i = 0; i < fact_count; i++) {
      int64_t v;
      if (facts[i]->below.has & IX_HAS_VARYING) continue;
      if (!eval_known(w, point, facts[i], &v)) return false;
      if (v >= 0) continue;
      all = false;
      repair(w, point, facts[i], v);
    }
    if (all) return true;
  }
  return false;
}

/* ---- indices, loop variables, data ------------------------------------- */

/* An end of the range as often as something inside: proofs fail at ends. */
static bool draw_varying(ix_witness_t *w, size_t point, size_t i, size_t salt) {
  static const int64_t far[] = {0, 1, 3, 1000};
  static const int64_t any[] = {-1000, -3, -1, 0, 1, 2, 5, 1000};
  uint64_t h = draw(point, i, salt);
  int64_t lo = 0, hi = 0, *out = &w->values[point][i];
  if (w->lo[i] && !eval_known(w, point, w->lo[i], &lo)) return false;
  if (w->hi[i] && !eval_known(w, point, w->hi[i], &hi)) return false;
  if (w->lo[i] && w->hi[i]) {
    int64_t size;
    /* an empty range leaves the symbol unknown and the point unmade */
    if (!td_sub_i64(hi, lo, &size) || size <= 0) return false;
    *out = h % 4 == 0   ? lo
           : h % 4 == 1 ? hi - 1
                        : lo + (int64_t)((h >> 2) % (uint64_t)size);
  } else if (w->lo[i]) {
    if (!td_add_i64(lo, far[h % 4], out)) return false;
  } else if (w->hi[i]) {
    if (!td_sub_i64(hi, 1 + far[h % 4], out)) return false;
  } else {
    *out = any[h % 8];
  }
  w->is_known[i] = true;
  return true;
}

static bool make_varying(ix_witness_t *w, size_t point, size_t salt) {
  size_t missing = 0;
  for (size_t i = 0; i < w->symbol_count; i++)
    if (is_varying(w->symbols[i])) w->is_known[i] = false;
  /* ranges of data may hold other data: as often as that nests */
  for (int pass = 0; pass < PASSES; pass++) {
    missing = 0;
    for (size_t i = 0; i < w->symbol_count; i++)
      if (!w->is_known[i] && !draw_varying(w, point, i, salt)) missing++;
    if (missing == 0) return true;
  }
  return false;
}

/* True at points where every fact, guards included, holds. */
static bool all_hold(const ix_witness_t *w, size_t point,
                     const ix_poly_t *const *facts, size_t fact_count) {
  for (size_t i = 0; i < fact_count; i++) {
    int64_t v;
    if (!eval_known(w, point, facts[i], &v) || v < 0) return false;
  }
  return true;
}

void ix_witness_make(ix_witness_t *w, ix_proof_t *proof, const ix_poly_t *p,
                     const ix_poly_t *const *facts, size_t fact_count) {
  bool fits = true;
  w->symbol_count = 0;
  fits = ix_each_symbol(p, collect, w);
  for (size_t i = 0; i < fact_count && fits; i++)
    fits = ix_each_symbol(facts[i], collect, w);
  for (size_t i = 0; i < w->symbol_count && fits; i++) {
    w->lo[i] = ix_symbol_lo(w->symbols[i], proof->facts);
    w->hi[i] = ix_symbol_hi(w->symbols[i], proof->facts);
    fits = ix_each_symbol(w->lo[i], collect, w) &&
           ix_each_symbol(w->hi[i], collect, w);
  }
  for (size_t k = 0; k < IX_WITNESS_POINTS; k++) {
    w->is_valid[k] = w->is_full[k] = false;
    for (size_t i = 0; i < w->symbol_count; i++) w->is_known[i] = false;
    if (!fits || !make_dims(w, k, facts, fact_count)) continue;
    for (size_t salt = 1; salt <= DRAWS && !w->is_full[k]; salt++) {
      bool made = make_varying(w, k, salt);
      w->is_valid[k] = made;
      w->is_full[k] = made && all_hold(w, k, facts, fact_count);
    }
  }
}
