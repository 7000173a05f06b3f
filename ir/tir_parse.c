/* tir_parse.c: modules, functions and slots of the text form.
 *
 * The grammar is that of docs/tir.md, read by recursive descent that recurses
 * over loops only.  Names are looked up while reading, so an undefined one is
 * reported where it stands; types are left to the verifier, which has to
 * check them anyway.  The parser does not accept everything that it reads:
 * callers verify before they use a module. */
#include "ir/tir_parse.h"

#include "ir/dtype.h"

/* A reproducer is a few kilobytes; what is longer was not written by us. */
enum { MAX_TEXT_BYTES = 64 << 20 };

/* ---- functions ----------------------------------------------------------- */

typedef TD_VEC(tir_slot_t) slots_t;
typedef TD_VEC(const char *) names_t;

/* One string a dim, as the source declared it. */
static void parse_dim_texts(tir_parser_t *p, tir_slot_t *slot,
                            const tir_value_t *v) {
  tir_expect_punct(p, "(");
  for (uint32_t i = 0; i < v->rank && !p->failed; i++) {
    if (i > 0) tir_expect_punct(p, ",");
    slot->dim_text[i] = tir_expect_string(p);
  }
  tir_expect_punct(p, ")");
}

static void parse_default(tir_parser_t *p, tir_slot_t *slot,
                          const tir_value_t *v) {
  tir_expr_t *e = tir_parse_constant(p);
  slot->has_default = true;
  if (tir_dtype_class(e->type) != tir_dtype_class(v->dtype))
    tir_fail(p, "the default of %s has another type", slot->name);
  else if (tir_dtype_class(e->type) == TIR_CLASS_FLOAT)
    slot->default_f64 = e->u.f64;
  else
    slot->default_i64 = e->u.i64;
}

/* Attributes after the type, each at most meaningful once; the name of the
 * slot that stands in for an absent one comes back through `else_name`. */
static void parse_slot_attributes(tir_parser_t *p, tir_slot_t *slot,
                                  tir_value_t *v, const char **else_name) {
  bool has_range = false;
  for (;;) {
    if (tir_take_word(p, "in")) {
      tir_parse_range(p, &slot->lo, &slot->hi);
    } else if (tir_take_word(p, "range")) {
      tir_parse_range(p, &v->lo, &v->hi);
      has_range = true;
    } else if (tir_take_word(p, "as")) {
      parse_dim_texts(p, slot, v);
    } else if (tir_take_word(p, "default")) {
      parse_default(p, slot, v);
    } else if (tir_take_word(p, "weight")) {
      slot->is_weight = true;
    } else if (tir_take_word(p, "file")) {
      slot->file_pattern = tir_expect_string(p);
    } else if (tir_take_word(p, "stack")) {
      int64_t n = tir_expect_int(p);
      if (n > IX_MAX_RANK) tir_fail(p, "stack of more dims than a tensor has");
      slot->stack_count = (uint32_t)n;
    } else if (tir_take_word(p, "else")) {
      *else_name = tir_expect_name(p);
    } else {
      break;
    }
    if (p->failed) return;
  }
  if (!has_range) {
    v->lo = slot->lo;
    v->hi = slot->hi;
  }
}

/* `out` slots hold a value of their type until `return` names the real one,
 * so that the type in the signature can be compared with it. */
static void parse_slot(tir_parser_t *p, slots_t *slots, names_t *elses) {
  tir_slot_t slot = {.else_slot = -1, .loc = p->now.loc};
  const char *else_name = NULL;
  if (tir_take_word(p, "in"))
    slot.kind = TIR_IN;
  else if (tir_take_word(p, "inout"))
    slot.kind = TIR_INOUT;
  else if (tir_take_word(p, "out"))
    slot.kind = TIR_OUT;
  else
    tir_fail(p, "expected `in`, `out` or `inout`");
  td_loc_t here = p->now.loc;
  slot.name = tir_expect_name(p);
  td_str_t name = td_str(slot.name);
  if (p->now.token == TIR_T_VALUE) {
    name = p->now.word;
    tir_next(p);
  }
  tir_value_t *v = tir_new_value(p, name, here);
  tir_expect_punct(p, ":");
  tir_parse_type(p, v);
  parse_slot_attributes(p, &slot, v, &else_name);
  slot.loc = tir_parse_loc(p, here);
  if (p->failed) return;
  for (uint32_t i = 0; i < v->rank; i++)
    if (slot.dim_text[i] == NULL)
      slot.dim_text[i] = ix_text(p->arena, v->dims[i]);
  v->is_written = true;
  if (slot.kind == TIR_OUT) {
    slot.result = v; /* its type only, until `return` names the value */
  } else {
    slot.value = v;
    tir_give_symbol(p, v, IX_SYM_DATA);
    tir_declare(p, v);
  }
  td_vec_push(p->arena, slots, slot);
  td_vec_push(&p->scratch, elses, else_name);
}

/* Linear, and asked once for each `else` and result. */
static tir_slot_t *find_slot(slots_t *slots, const char *name) {
  for (size_t i = 0; i < slots->length; i++)
    if (strcmp(slots->data[i].name, name) == 0) return &slots->data[i];
  return NULL;
}

/* `else` may name a slot further down; all are known at the end. */
static void parse_slots(tir_parser_t *p, slots_t *slots) {
  names_t elses = {0};
  tir_expect_punct(p, "(");
  while (!p->failed && !tir_at_punct(p, ")")) {
    if (slots->length > 0) tir_expect_punct(p, ",");
    parse_slot(p, slots, &elses);
  }
  tir_expect_punct(p, ")");
  for (size_t i = 0; !p->failed && i < elses.length; i++) {
    if (elses.data[i] == NULL) continue;
    const tir_slot_t *to = find_slot(slots, elses.data[i]);
    if (to == NULL)
      tir_fail(p, "no slot is called %s", elses.data[i]);
    else
      slots->data[i].else_slot = (int32_t)(to - slots->data);
  }
}

/* Dynamic dims, in the order in which callers give their values. */
static void parse_dims(tir_parser_t *p) {
  TD_VEC(const ix_symbol_t *) dims = {0};
  if (!tir_take_word(p, "dims")) return;
  tir_expect_punct(p, "(");
  do {
    if (p->now.token != TIR_T_WORD || tir_is_reserved(p->now.word) ||
        td_map_get(&p->dims, p->now.word) != NULL) {
      tir_fail(p, "expected a new dim");
      return;
    }
    const char *name = td_str_cstr(p->arena, p->now.word);
    ix_symbol_t *dim =
        ix_symbol_create(p->module->pool, name, IX_SYM_DYN, p->now.loc);
    tir_next(p);
    if (tir_take_word(p, "in")) tir_parse_range(p, &dim->lo, &dim->hi);
    td_map_put(&p->dims, td_str(name), dim);
    td_vec_push(p->arena, &dims, dim);
  } while (tir_take_punct(p, ","));
  tir_expect_punct(p, ")");
  p->func->dims = dims.data;
  p->func->dim_count = (uint32_t)dims.length;
}

/* Dims are written after the slots that use them, but are read first. */
static void parse_signature(tir_parser_t *p, slots_t *slots) {
  tir_cursor_t start = p->now;
  int depth = 0;
  if (!tir_at_punct(p, "(")) tir_expect_punct(p, "(");
  do {
    depth += tir_at_punct(p, "(") ? 1 : tir_at_punct(p, ")") ? -1 : 0;
    tir_next(p);
  } while (depth > 0 && p->now.token != TIR_T_END);
  parse_dims(p);
  tir_cursor_t end = p->now;
  if (p->failed) return;
  p->now = start;
  parse_slots(p, slots);
  if (!p->failed) p->now = end;
}

/* Over dims and scalar slots; there are no indices. */
static void parse_requires(tir_parser_t *p) {
  TD_VEC(tir_require_t) requires = {0};
  while (!p->failed && tir_at_word(p, "require")) {
    tir_require_t r = {.loc = p->now.loc};
    tir_next(p);
    tir_parse_lets(p);
    r.cond = tir_parse_expr(p);
    if (p->now.token == TIR_T_STRING) r.text = tir_expect_string(p);
    r.loc = tir_parse_loc(p, r.loc);
    td_vec_push(p->arena, &requires, r);
  }
  p->func->requires = requires.data;
  p->func->require_count = (uint32_t)requires.length;
}

static bool same_type(const tir_value_t *a, const tir_value_t *b) {
  bool same = a->dtype == b->dtype && a->rank == b->rank;
  for (uint32_t i = 0; same && i < a->rank; i++)
    same = a->dims[i] == b->dims[i];
  return same;
}

/* Every inout and out slot exactly once, in any order. */
static void parse_returns(tir_parser_t *p, slots_t *slots) {
  bool *given = TD_NEW_ARRAY(&p->scratch, bool, slots->length);
  if (tir_take_word(p, "return")) {
    do {
      const char *name = tir_expect_name(p);
      tir_expect_punct(p, "=");
      tir_value_t *v = tir_parse_use(p);
      tir_slot_t *slot = find_slot(slots, name);
      if (p->failed) return;
      if (slot == NULL || slot->kind == TIR_IN ||
          given[slot - slots->data]) {
        tir_fail(p, "%s is no result, or is given twice", name);
        return;
      }
      if (slot->kind == TIR_OUT && !same_type(slot->result, v))
        tir_fail(p, "result %s has another type than %%%s", name, v->name);
      slot->result = v;
      given[slot - slots->data] = true;
    } while (!p->failed && tir_take_punct(p, ","));
  }
  for (size_t i = 0; !p->failed && i < slots->length; i++)
    if (slots->data[i].kind != TIR_IN && !given[i])
      tir_fail(p, "result %s is not returned", slots->data[i].name);
}

/* A function is added to the module only when all of it was read. */
static void parse_func(tir_parser_t *p) {
  slots_t slots = {0};
  td_loc_t here = p->now.loc;
  p->func = TD_NEW(p->arena, tir_func_t);
  p->func->is_test = tir_take_word(p, "test");
  p->indices.length = 0;
  p->declared.length = 0;
  td_map_init(&p->values, &p->scratch);
  td_map_init(&p->dims, &p->scratch);
  if (!tir_take_word(p, "func")) tir_fail(p, "expected `func`");
  if (p->now.token != TIR_T_FUNC) tir_fail(p, "expected a function name");
  if (p->now.word.length > 0) {
    p->func->name = td_str_cstr(p->arena, p->now.word);
    tir_next(p);
  } else {
    tir_next(p); /* @ and a string */
    p->func->name = tir_expect_string(p);
  }
  parse_signature(p, &slots);
  p->func->loc = tir_parse_loc(p, here);
  tir_expect_punct(p, "{");
  parse_requires(p);
  tir_parse_block(p, &p->func->nodes, 0);
  if (tir_at_word(p, "yield")) tir_fail(p, "yield outside a loop");
  parse_returns(p, &slots);
  tir_expect_punct(p, "}");
  p->func->slots = slots.data;
  p->func->slot_count = (uint32_t)slots.length;
  if (p->failed) return;
  tir_renumber(p->func);
  tir_module_add(p->module, p->func);
}

tir_module_t *tir_parse(td_task_t *task, td_arena_t *arena, uint32_t file) {
  const td_source_t *source = td_sources_get(task, file);
  tir_parser_t p = {.task = task,
                    .arena = arena,
                    .file = file,
                    .now = {.line = 1, .column = 1}};
  if (source == NULL || source->text == NULL) {
    (void)td_diag(task, TD_F70, TD_NO_LOC, "no text to parse");
    return NULL;
  }
  p.text = td_str_n(source->text, source->length);
  td_arena_init(&p.scratch, task);
  p.module = tir_module_create(arena);
  if (source->length > MAX_TEXT_BYTES)
    tir_fail(&p, "text is longer than %d MiB", MAX_TEXT_BYTES >> 20);
  tir_next(&p);
  while (!p.failed && p.now.token != TIR_T_END) parse_func(&p);
  td_arena_free_all(&p.scratch);
  return p.failed ? NULL : p.module;
}
