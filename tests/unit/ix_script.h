/* ix_script.h: declarations, facts and formulas for tests of ir/shape.h as
 * text, so that a case reads like the program it stands for:
 *
 *   run(&t, "gen N; index i in 0 .. N; guard i + 1 < N");
 *   assert_true(proved(&t, "i + 1 < N"));
 *
 * Statements: static A B | dyn B LIMIT | gen N M | index i in A .. B |
 * data k in A .. B | data k | require E OP E | guard E OP E | divides E by E.
 * Formulas: + - * / % ( ) min(,) max(,), names, numbers; / and % as ix_div and
 * ix_mod under the facts in force. */
#ifndef TDSL_TESTS_IX_SCRIPT_H
#define TDSL_TESTS_IX_SCRIPT_H

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "ir/shape.h"
#include "runtime/base/task.h"

enum { SCRIPT_NAMES = 40 };

typedef struct script {
  td_task_t task;
  td_arena_t arena;
  ix_pool_t *pool;
  ix_facts_t *facts;
  const ix_symbol_t *names[SCRIPT_NAMES];
  size_t name_count;
  const char *at; /* the rest of the text being read */
} script_t;

static inline void script_open(script_t *t) {
  memset(t, 0, sizeof *t);
  td_task_init(&t->task, NULL);
  td_arena_init(&t->arena, &t->task);
  t->pool = ix_pool_create(&t->arena);
  t->facts = ix_facts_create(t->pool);
}

static inline void script_close(script_t *t) {
  td_arena_free_all(&t->arena);
  td_task_free(&t->task);
}

static inline void skip_blanks(script_t *t) {
  while (*t->at == ' ' || *t->at == '\n') t->at++;
}

/* A word is taken whole only. */
static inline bool take(script_t *t, const char *token) {
  size_t n = strlen(token);
  skip_blanks(t);
  if (strncmp(t->at, token, n) != 0) return false;
  if (isalpha((unsigned char)*token) && isalnum((unsigned char)t->at[n]))
    return false;
  t->at += n;
  return true;
}

static inline void need(script_t *t, const char *token) {
  if (!take(t, token)) fail_msg("%s expected at: %s", token, t->at);
}

static inline const char *take_name(script_t *t) {
  size_t n = 0;
  const char *name;
  skip_blanks(t);
  while (isalnum((unsigned char)t->at[n]) || t->at[n] == '_') n++;
  if (n == 0) fail_msg("name expected at: %s", t->at);
  name = td_arena_strndup(&t->arena, t->at, n);
  t->at += n;
  return name;
}

static inline const ix_symbol_t *named(script_t *t, const char *name) {
  for (size_t i = 0; i < t->name_count; i++)
    if (strcmp(t->names[i]->name, name) == 0) return t->names[i];
  fail_msg("unknown name %s", name);
  return NULL;
}

static inline ix_symbol_t *declare(script_t *t, const char *name,
                                   ix_symbol_kind_t kind) {
  ix_symbol_t *s = ix_symbol_create(t->pool, name, kind, TD_NO_LOC);
  assert_true(t->name_count < SCRIPT_NAMES);
  t->names[t->name_count++] = s;
  return s;
}

static const ix_poly_t *read_sum(script_t *t);

static inline const ix_poly_t *read_factor(script_t *t) {
  bool is_min;
  skip_blanks(t);
  if (take(t, "-")) return ix_neg(t->pool, read_factor(t));
  if (take(t, "(")) {
    const ix_poly_t *p = read_sum(t);
    need(t, ")");
    return p;
  }
  if (isdigit((unsigned char)*t->at)) {
    char *end;
    long long v = strtoll(t->at, &end, 10);
    t->at = end;
    return ix_const(t->pool, v);
  }
  is_min = take(t, "min");
  if (is_min || take(t, "max")) {
    const ix_poly_t *a, *b;
    need(t, "(");
    a = read_sum(t);
    need(t, ",");
    b = read_sum(t);
    need(t, ")");
    return is_min ? ix_min(t->pool, a, b) : ix_max(t->pool, a, b);
  }
  return ix_sym(t->pool, named(t, take_name(t)));
}

static inline const ix_poly_t *read_product(script_t *t) {
  const ix_poly_t *p = read_factor(t);
  for (;;) {
    if (take(t, "*")) p = ix_mul(t->pool, p, read_factor(t));
    else if (take(t, "/"))
      p = ix_div(t->pool, p, read_factor(t), t->facts);
    else if (take(t, "%"))
      p = ix_mod(t->pool, p, read_factor(t), t->facts);
    else
      return p;
  }
}

static inline const ix_poly_t *read_sum(script_t *t) {
  const ix_poly_t *p = read_product(t);
  for (;;) {
    if (take(t, "+")) p = ix_add(t->pool, p, read_product(t));
    else if (take(t, "-"))
      p = ix_sub(t->pool, p, read_product(t));
    else
      return p;
  }
}

/* One formula; the whole text must be used. */
static inline const ix_poly_t *formula(script_t *t, const char *text) {
  const ix_poly_t *p;
  t->at = text;
  p = read_sum(t);
  skip_blanks(t);
  if (*t->at) fail_msg("left over: %s", t->at);
  return p;
}

/* A comparison as d >= 0 (GE), d == 0 or d != 0. */
typedef enum relation { REL_GE, REL_EQ, REL_NE } relation_t;

static inline relation_t read_relation(script_t *t, const ix_poly_t **out_d) {
  static const char *const ops[] = {"==", "!=", "<=", ">=", "<", ">"};
  const ix_poly_t *a = read_sum(t), *b, *d;
  size_t op = 0;
  while (op < 6 && !take(t, ops[op])) op++;
  if (op == 6) fail_msg("comparison expected at: %s", t->at);
  b = read_sum(t);
  d = op == 2 || op == 4 ? ix_sub(t->pool, b, a) : ix_sub(t->pool, a, b);
  if (op >= 4) d = ix_sub(t->pool, d, ix_const(t->pool, 1));
  *out_d = d;
  return op == 0 ? REL_EQ : op == 1 ? REL_NE : REL_GE;
}

static inline void read_range(script_t *t, ix_symbol_t *s) {
  s->lo = read_sum(t);
  need(t, "..");
  s->hi = read_sum(t);
}

static inline void run_guard(script_t *t, bool is_require) {
  const char *start = t->at;
  const ix_poly_t *d;
  switch (read_relation(t, &d)) {
  case REL_GE: ix_facts_guard(t->facts, d); break;
  case REL_NE: ix_facts_guard_nonzero(t->facts, d); break;
  case REL_EQ:
    if (is_require) {
      t->at = start;
      d = read_sum(t);
      need(t, "==");
      ix_facts_require_equal(t->facts, d, read_sum(t));
    } else {
      ix_facts_guard_zero(t->facts, d);
    }
    break;
  }
}

static inline void run_statement(script_t *t) {
  bool is_static = take(t, "static");
  if (is_static || take(t, "gen")) {
    do {
      declare(t, take_name(t), is_static ? IX_SYM_STATIC : IX_SYM_GENERIC);
      skip_blanks(t);
    } while (*t->at && *t->at != ';');
  } else if (take(t, "dyn")) {
    ix_symbol_t *s = declare(t, take_name(t), IX_SYM_DYN);
    s->hi = ix_add(t->pool, read_sum(t), ix_const(t->pool, 1));
  } else if (take(t, "index")) {
    ix_symbol_t *s = declare(t, take_name(t), IX_SYM_INDEX);
    need(t, "in");
    read_range(t, s);
    ix_facts_extent_nonempty(t->facts, t->pool, ix_sub(t->pool, s->hi, s->lo));
  } else if (take(t, "data")) {
    ix_symbol_t *s = declare(t, take_name(t), IX_SYM_DATA);
    if (take(t, "in")) read_range(t, s);
  } else if (take(t, "divides")) {
    const ix_poly_t *a = read_sum(t);
    need(t, "by");
    ix_facts_require_divides(t->facts, a, read_sum(t));
  } else if (take(t, "require")) {
    run_guard(t, true);
  } else if (take(t, "guard")) {
    run_guard(t, false);
  } else {
    fail_msg("statement expected at: %s", t->at);
  }
}

static inline void run(script_t *t, const char *text) {
  t->at = text;
  for (skip_blanks(t); *t->at; skip_blanks(t)) {
    run_statement(t);
    take(t, ";");
  }
}

/* Is the comparison (not !=) proved under the facts in force? */
static inline bool proved(script_t *t, const char *text) {
  const ix_poly_t *d;
  relation_t relation;
  t->at = text;
  relation = read_relation(t, &d);
  skip_blanks(t);
  if (*t->at) fail_msg("left over: %s", t->at);
  if (relation == REL_EQ)
    return ix_equal(t->pool, d, ix_const(t->pool, 0), t->facts);
  return ix_prove_nonnegative(t->pool, d, t->facts);
}

/* Is subscript s of a dim n in range? */
static inline bool in_range(script_t *t, const char *s, const char *n) {
  const ix_poly_t *p = formula(t, s), *dim = formula(t, n);
  const ix_poly_t *top = ix_sub(t->pool, dim, ix_const(t->pool, 1));
  return ix_prove_nonnegative(t->pool, p, t->facts) &&
         ix_prove_nonnegative(t->pool, ix_sub(t->pool, top, p), t->facts);
}

static inline const char *text_of(script_t *t, const ix_poly_t *p) {
  return ix_text(&t->arena, p);
}

/* Values of the declared names, in order, for ix_eval. */
typedef struct assignment {
  const script_t *t;
  int64_t values[SCRIPT_NAMES];
} assignment_t;

static inline bool value_of(void *user, const ix_symbol_t *s, int64_t *out) {
  const assignment_t *a = user;
  for (size_t i = 0; i < a->t->name_count; i++) {
    if (a->t->names[i] != s) continue;
    *out = a->values[i];
    return true;
  }
  return false;
}

#endif
