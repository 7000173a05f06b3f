/* plan_parse_entry.c: an entry of a plan from its text. */
#include "runtime/plan/plan_parse.h"

enum { MAX_VARS = 4096 };

typedef TD_VEC(plan_step_t) steps_t;

typedef TD_VEC(plan_var_t) vars_t;

static void parse_var(plan_parser_t *p, plan_entry_t *e, vars_t *vars,
                      bool is_loop) {
  plan_var_t v = {.is_loop = is_loop, .bound = INT32_MAX};
  v.name = plan_expect_string(p);
  if (!is_loop) {
    plan_expect(p, "<=");
    v.bound = plan_expect_int(p);
    if (e->dim_count != vars->length) plan_fail(p, "a dim behind a variable");
  }
  v.loc = plan_parse_loc(p);
  /* names are looked up one by one */
  if (vars->length == MAX_VARS) plan_fail(p, "more than %d dims", MAX_VARS);
  td_vec_push(p->arena, vars, v);
  if (!is_loop) e->dim_count++;
  p->vars = vars->data;
  p->var_count = (uint32_t)vars->length;
}

static void parse_slot_dims(plan_parser_t *p, plan_slot_t *s) {
  plan_expect(p, "[");
  while (!p->failed && !plan_at(p, "]")) {
    if (s->rank > 0) plan_expect(p, ",");
    if (s->rank == PLAN_MAX_RANK) {
      plan_fail(p, "more than %d dims", PLAN_MAX_RANK);
      return;
    }
    s->dim_text[s->rank] = plan_expect_string(p);
    plan_expect(p, "=");
    s->dims[s->rank] = plan_parse_expr(p);
    plan_expect(p, "max");
    s->dim_bound[s->rank] = plan_expect_int(p);
    s->rank++;
  }
  plan_expect(p, "]");
}

static void expect_number(plan_parser_t *p, uint32_t want) {
  uint32_t number = plan_expect_index(p);
  if (!p->failed && number != want) {
    plan_fail(p, "number %u, expected %u", number, want);
  }
}

static plan_slot_t parse_slot(plan_parser_t *p, uint32_t number) {
  plan_slot_t s = {.else_slot = -1};
  expect_number(p, number);
  if (plan_take(p, "out")) {
    s.kind = PLAN_OUT;
  } else if (plan_take(p, "inout")) {
    s.kind = PLAN_INOUT;
  } else {
    plan_expect(p, "in");
  }
  s.name = plan_expect_string(p);
  s.dtype = plan_expect_dtype(p);
  parse_slot_dims(p, &s);
  if (plan_take(p, "in")) {
    s.has_range = true;
    s.lo = plan_parse_expr(p);
    plan_expect(p, "..");
    s.hi = plan_parse_expr(p);
  }
  if (plan_take(p, "default")) {
    s.has_default = true;
    s.default_i64 = plan_expect_int(p);
    s.default_f64 = plan_expect_real(p);
  }
  s.is_weight = plan_take(p, "weight");
  if (plan_take(p, "file")) s.file_pattern = plan_expect_string(p);
  if (plan_take(p, "stack")) s.stack_count = plan_expect_index(p);
  if (plan_take(p, "else")) s.else_slot = (int32_t)plan_expect_index(p);
  plan_expect(p, "buffer");
  s.buffer = plan_expect_index(p);
  s.loc = plan_parse_loc(p);
  return s;
}

/* A variable by its name or number. */
static uint32_t expect_var(plan_parser_t *p) {
  td_loc_t loc = p->loc;
  plan_expr_t e = plan_parse_expr(p);
  bool ok = !p->failed && e.count == 1 && e.tokens[0].op == PLAN_X_VAR &&
            e.tokens[0].value < (int64_t)p->var_count;
  if (ok) return (uint32_t)e.tokens[0].value;
  p->loc = loc;
  plan_fail(p, "expected a dim or loop variable");
  return 0;
}

static plan_bind_t parse_bind(plan_parser_t *p) {
  plan_bind_t b = {.var = expect_var(p)};
  plan_expect(p, "slot");
  b.slot = plan_expect_index(p);
  plan_expect(p, "dim");
  b.dim = plan_expect_index(p);
  plan_expect(p, "scale");
  b.scale = plan_expect_int(p);
  plan_expect(p, "offset");
  b.offset = plan_expect_int(p);
  return b;
}

static plan_buffer_t parse_buffer(plan_parser_t *p, uint32_t number) {
  plan_buffer_t b = {.place = PLAN_AT_ARENA};
  expect_number(p, number);
  b.name = plan_expect_string(p);
  b.dtype = plan_expect_dtype(p);
  plan_expect(p, "[");
  while (!p->failed && !plan_at(p, "]")) {
    if (b.rank > 0) plan_expect(p, ",");
    if (b.rank == PLAN_MAX_RANK) {
      plan_fail(p, "more than %d dims", PLAN_MAX_RANK);
      return b;
    }
    b.dims[b.rank++] = plan_parse_expr(p);
  }
  plan_expect(p, "]");
  plan_expect(p, "bytes");
  b.bytes = plan_parse_expr(p);
  if (plan_take(p, "slot")) {
    b.place = PLAN_AT_SLOT;
    b.slot = plan_expect_index(p);
  } else {
    plan_expect(p, "offset");
    b.offset = plan_parse_expr(p);
  }
  plan_expect(p, "life");
  b.first_step = plan_expect_index(p);
  plan_expect(p, "..");
  b.last_step = plan_expect_index(p);
  return b;
}

/* ---- steps --------------------------------------------------------------- */

static void parse_bound(plan_parser_t *p, plan_expr_t *e, int32_t *buffer) {
  *buffer = -1;
  if (!plan_take(p, "buffer")) {
    *e = plan_parse_expr(p);
    return;
  }
  plan_expect(p, "(");
  *buffer = (int32_t)plan_expect_index(p);
  plan_expect(p, ")");
}

static void parse_buffers(plan_parser_t *p, plan_step_t *s) {
  TD_VEC(uint32_t) list = {0};
  if (!plan_take(p, "(")) return;
  do {
    td_vec_push(p->arena, &list, plan_expect_index(p));
  } while (plan_take(p, ","));
  plan_expect(p, ")");
  s->buffers = list.data;
  s->buffer_count = (uint32_t)list.length;
}

static void parse_scalars(plan_parser_t *p, plan_step_t *s) {
  TD_VEC(plan_expr_t) list = {0};
  if (!plan_take(p, "[")) return;
  do {
    td_vec_push(p->arena, &list, plan_parse_expr(p));
  } while (plan_take(p, ","));
  plan_expect(p, "]");
  s->scalars = list.data;
  s->scalar_count = (uint32_t)list.length;
}

static plan_step_kind_t expect_kind(plan_parser_t *p) {
  static const char *const words[] = {
#define PLAN_STEP(id, text, ...) text,
#include "runtime/plan/plan_ops.def"
  };
  for (int i = 0; i < PLAN_STEP_COUNT; i++) {
    if (i != PLAN_STEP_END && plan_take(p, words[i])) {
      return (plan_step_kind_t)i;
    }
  }
  plan_fail(p, "expected a step, got `%.*s`", TD_STR_ARG(p->word));
  return PLAN_STEP_FILL;
}

static void parse_step(plan_parser_t *p, plan_step_t *s) {
  s->kind = expect_kind(p);
  s->lo_buffer = s->hi_buffer = -1;
  if (s->kind == PLAN_STEP_LAUNCH) {
    s->is_once = plan_take(p, "once");
    s->kernel = plan_expect_index(p);
  }
  if (s->kind == PLAN_STEP_LOOP) {
    s->var = expect_var(p);
    plan_expect(p, "in");
    parse_bound(p, &s->lo, &s->lo_buffer);
    plan_expect(p, "..");
    parse_bound(p, &s->hi, &s->hi_buffer);
  }
  parse_buffers(p, s);
  parse_scalars(p, s);
  if (p->lexeme == PLAN_T_STRING) s->text = plan_expect_string(p);
  s->loc = plan_parse_loc(p);
  if (s->kind == PLAN_STEP_LOOP) plan_expect(p, "{");
}

/* Up to the brace that closes the entry; braces in between close loops. */
static void parse_steps(plan_parser_t *p, plan_entry_t *e) {
  steps_t steps = {0};
  TD_VEC(uint32_t) open = {0};
  while (!p->failed) {
    plan_step_t s = {0};
    if (!plan_at(p, "}")) {
      parse_step(p, &s);
      if (s.kind == PLAN_STEP_LOOP) {
        td_vec_push(p->arena, &open, (uint32_t)steps.length);
      }
    } else {
      plan_next(p);
      if (open.length == 0) break;
      s.kind = PLAN_STEP_END;
      s.lo_buffer = s.hi_buffer = -1;
      s.other = td_vec_pop(&open);
      s.loc = plan_parse_loc(p);
      steps.data[s.other].other = (uint32_t)steps.length;
    }
    td_vec_push(p->arena, &steps, s);
  }
  e->steps = steps.data;
  e->step_count = (uint32_t)steps.length;
}

void plan_parse_entry(plan_parser_t *p, plan_entry_t *e) {
  TD_VEC(plan_slot_t) slots = {0};
  TD_VEC(plan_bind_t) binds = {0};
  TD_VEC(plan_require_t) requires = {0};
  TD_VEC(plan_buffer_t) buffers = {0};
  e->name = plan_expect_string(p);
  e->is_test = plan_take(p, "test");
  e->loc = plan_parse_loc(p);
  plan_expect(p, "{");
  p->vars = NULL;
  p->var_count = 0;
  vars_t vars = {0};
  while (plan_at(p, "dim") || plan_at(p, "var")) {
    bool is_loop = plan_at(p, "var");
    plan_next(p);
    parse_var(p, e, &vars, is_loop);
  }
  e->vars = vars.data;
  e->var_count = (uint32_t)vars.length;
  while (plan_take(p, "slot")) {
    plan_slot_t slot = parse_slot(p, (uint32_t)slots.length);
    td_vec_push(p->arena, &slots, slot);
  }
  while (plan_take(p, "bind")) {
    td_vec_push(p->arena, &binds, parse_bind(p));
  }
  while (plan_take(p, "require")) {
    plan_require_t r = {.cond = plan_parse_expr(p)};
    r.text = plan_expect_string(p);
    r.loc = plan_parse_loc(p);
    td_vec_push(p->arena, &requires, r);
  }
  while (plan_take(p, "buffer")) {
    plan_buffer_t buffer = parse_buffer(p, (uint32_t)buffers.length);
    td_vec_push(p->arena, &buffers, buffer);
  }
  plan_expect(p, "arena");
  e->arena_bytes = plan_parse_expr(p);
  e->slots = slots.data;
  e->slot_count = (uint32_t)slots.length;
  e->binds = binds.data;
  e->bind_count = (uint32_t)binds.length;
  e->requires = requires.data;
  e->require_count = (uint32_t)requires.length;
  e->buffers = buffers.data;
  e->buffer_count = (uint32_t)buffers.length;
  parse_steps(p, e);
  p->vars = NULL;
  p->var_count = 0;
}
