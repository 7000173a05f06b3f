/* tir_parse.c: functions, slots and nodes of the text form. */
#include "ir/tir_parse.h"

#include "ir/dtype.h"

/* A reproducer is a few kilobytes; what is longer was not written by us. */
enum { MAX_TEXT_BYTES = 64 << 20 };

/* ---- small parts --------------------------------------------------------- */

/* `loc("name":line:column)`; without it the place in this text. */
static td_loc_t parse_loc(tir_parser_t *p, td_loc_t here) {
  if (!tir_take_word(p, "loc")) return here;
  td_loc_t loc = TD_NO_LOC;
  tir_expect_punct(p, "(");
  const char *name = tir_expect_string(p);
  for (uint32_t i = 1; td_sources_get(p->task, i) != NULL; i++)
    if (strcmp(td_sources_get(p->task, i)->name, name) == 0) loc.file = i;
  if (loc.file == 0 && !p->failed)
    loc.file = td_sources_add_file(p->task, name);
  tir_expect_punct(p, ":");
  int64_t line = tir_expect_int(p);
  tir_expect_punct(p, ":");
  int64_t column = tir_expect_int(p);
  tir_expect_punct(p, ")");
  if (line < 1 || line > INT32_MAX || column < 0 || column > INT32_MAX)
    tir_fail(p, "malformed location");
  loc.line = (uint32_t)line;
  loc.column = (uint32_t)column;
  return loc;
}

/* ` in A..B`, either end may be missing. */
static void parse_range(tir_parser_t *p, const ix_poly_t **lo,
                        const ix_poly_t **hi) {
  if (!tir_at_punct(p, "..")) *lo = tir_parse_poly(p);
  tir_expect_punct(p, "..");
  bool has_hi = p->now.token == TIR_T_INT || tir_at_punct(p, "-") ||
                tir_at_punct(p, "(") || tir_at_word(p, "min") ||
                tir_at_word(p, "max") ||
                (p->now.token == TIR_T_WORD &&
                 td_map_get(&p->dims, p->now.word) != NULL);
  if (has_hi) *hi = tir_parse_poly(p);
}

/* `bf16[R, 1024]` into a value that already has its name. */
static void parse_type(tir_parser_t *p, tir_value_t *v) {
  v->dtype = p->now.token == TIR_T_WORD ? td_dtype_parse(p->now.word)
                                    : TDSL_DTYPE_UNSET;
  if (v->dtype == TDSL_DTYPE_UNSET)
    tir_fail(p, "expected a type, got `%.*s`", TD_STR_ARG(p->now.word));
  tir_next(p);
  v->is_written = !tir_is_arithmetic(v->dtype);
  if (!tir_take_punct(p, "[")) return;
  do {
    if (v->rank == IX_MAX_RANK) {
      tir_fail(p, "rank above %d", IX_MAX_RANK);
      return;
    }
    v->dims[v->rank] = tir_parse_poly(p);
    v->rank += p->failed ? 0 : 1;
  } while (tir_take_punct(p, ","));
  tir_expect_punct(p, "]");
}

/* Scalars of integer type stand for themselves in polynomials. */
static void give_symbol(tir_parser_t *p, tir_value_t *v,
                        ix_symbol_kind_t kind) {
  if (v->rank != 0 || tir_dtype_class(v->dtype) != TIR_CLASS_INT) return;
  ix_symbol_t *symbol = ix_symbol_create(p->module->pool, v->name, kind,
                                         v->loc);
  symbol->lo = v->lo;
  symbol->hi = v->hi;
  v->symbol = symbol;
}

static void declare(tir_parser_t *p, tir_value_t *v) {
  if (td_map_get(&p->values, td_str(v->name)) != NULL)
    tir_fail(p, "%%%s is defined twice", v->name);
  td_map_put(&p->values, td_str(v->name), v);
  td_vec_push(&p->scratch, &p->declared, v->name);
}

static tir_value_t *new_value(tir_parser_t *p, td_str_t name, td_loc_t loc) {
  tir_value_t *v = tir_value_create(p->arena, td_str_cstr(p->arena, name),
                                    TDSL_DTYPE_UNSET, 0, NULL);
  v->loc = loc;
  return v;
}

/* `%x: f32[N] written in 0..9`; not yet in scope. */
static tir_value_t *parse_value(tir_parser_t *p) {
  if (p->now.token != TIR_T_VALUE) tir_fail(p, "expected a value");
  tir_value_t *v = new_value(p, p->now.word, p->now.loc);
  tir_next(p);
  tir_expect_punct(p, ":");
  parse_type(p, v);
  if (tir_take_word(p, "written")) v->is_written = true;
  if (tir_take_word(p, "in")) parse_range(p, &v->lo, &v->hi);
  give_symbol(p, v, IX_SYM_DATA);
  return v;
}

/* ---- nodes --------------------------------------------------------------- */

typedef TD_VEC(tir_value_t *) values_t;

static void parse_index(tir_parser_t *p, bool is_reduction) {
  if (p->now.token != TIR_T_WORD || tir_is_reserved(p->now.word))
    tir_fail(p, "expected an index");
  td_loc_t loc = p->now.loc;
  const char *name = td_str_cstr(p->arena, p->now.word);
  for (size_t i = 0; i < p->indices.length; i++)
    if (strcmp(p->indices.data[i]->name, name) == 0)
      tir_fail(p, "index %s occurs twice", name);
  if (p->indices.length == 4 * IX_MAX_RANK) tir_fail(p, "too many indices");
  tir_next(p);
  if (!tir_take_word(p, "in")) tir_fail(p, "expected `in`");
  const ix_poly_t *extent = tir_parse_poly(p);
  tir_index_t *index = tir_index_create(p->module, name, extent, is_reduction);
  index->loc = loc;
  td_vec_push(p->arena, &p->indices, index);
}

static void parse_indices(tir_parser_t *p, tir_node_t *node) {
  bool is_reduction = false;
  p->indices.length = 0;
  p->indices.capacity = 0; /* the storage of the last node is its own */
  p->indices.data = NULL;
  tir_expect_punct(p, "[");
  while (!p->failed && !tir_at_punct(p, "]")) {
    if (tir_take_punct(p, ";")) {
      if (is_reduction) tir_fail(p, "one `;` only");
      is_reduction = true;
    } else if (p->indices.length > 0) {
      tir_expect_punct(p, ",");
    }
    parse_index(p, is_reduction);
  }
  tir_expect_punct(p, "]");
  node->index_count = (uint32_t)p->indices.length;
  node->indices = p->indices.data;
}

static void parse_lets(tir_parser_t *p) {
  p->lets.length = 0;
  while (tir_take_word(p, "let")) {
    int64_t number = -1;
    if (p->now.token != TIR_T_LET || !td_parse_i64(p->now.word, &number) ||
        number != (int64_t)p->lets.length)
      tir_fail(p, "expected $%zu", p->lets.length);
    tir_next(p);
    tir_expect_punct(p, "=");
    tir_expr_t *e = tir_parse_expr(p);
    td_vec_push(&p->scratch, &p->lets, e);
  }
}

static void parse_flags(tir_parser_t *p, tir_node_t *node) {
  for (;;) {
    if (tir_take_word(p, "fma")) {
      node->is_fma = true;
    } else if (tir_take_word(p, "lanes")) {
      node->plan = TIR_PLAN_LANES;
    } else if (tir_take_word(p, "distinct")) {
      node->is_distinct = true;
    } else if (tir_take_word(p, "tf32")) {
      node->uses_tf32 = true;
    } else if (tir_take_word(p, "approx")) {
      node->is_approx = true;
    } else if (tir_take_word(p, "group")) {
      int64_t group = tir_expect_int(p);
      if (group > INT32_MAX) tir_fail(p, "group is too large");
      node->group = (uint32_t)group;
    } else {
      return;
    }
  }
}

static void parse_target(tir_parser_t *p, tir_node_t *node) {
  TD_VEC(tir_expr_t *) subs = {0};
  node->operands = TD_NEW_ARRAY(p->arena, tir_value_t *, 1);
  node->operands[0] = tir_parse_use(p);
  node->operand_count = 1;
  tir_expect_punct(p, "[");
  if (!tir_at_punct(p, "]")) {
    do {
      tir_expr_t *e = tir_parse_expr(p);
      td_vec_push(p->arena, &subs, e);
    } while (tir_take_punct(p, ","));
  }
  tir_expect_punct(p, "]");
  node->subs = subs.data;
  node->sub_count = (uint32_t)subs.length;
  node->is_accumulate = tir_take_punct(p, "+=");
  if (!node->is_accumulate) tir_expect_punct(p, ":=");
}

static void parse_formula(tir_parser_t *p, tir_node_t *node) {
  parse_flags(p, node);
  parse_indices(p, node);
  parse_lets(p);
  if (tir_take_word(p, "where")) node->guard = tir_parse_expr(p);
  if (node->kind == TIR_UPDATE) parse_target(p, node);
  node->body = tir_parse_expr(p);
  p->indices.length = 0;
}

static void parse_topk(tir_parser_t *p, tir_node_t *node) {
  parse_flags(p, node);
  node->k = tir_expect_int(p);
  node->operands = TD_NEW_ARRAY(p->arena, tir_value_t *, 1);
  node->operands[0] = tir_parse_use(p);
  node->operand_count = 1;
}

static void parse_block(tir_parser_t *p, tir_block_t *block, int depth);

static void parse_carry(tir_parser_t *p, values_t *params, values_t *inits) {
  if (!tir_take_word(p, "carry")) return;
  tir_expect_punct(p, "(");
  do {
    tir_value_t *param = parse_value(p);
    tir_expect_punct(p, "=");
    tir_value_t *init = tir_parse_use(p);
    td_vec_push(p->arena, params, param);
    td_vec_push(p->arena, inits, init);
  } while (!p->failed && tir_take_punct(p, ","));
  tir_expect_punct(p, ")");
}

static tir_value_t *parse_iv(tir_parser_t *p) {
  if (p->now.token != TIR_T_VALUE) tir_fail(p, "expected a loop variable");
  tir_value_t *iv = new_value(p, p->now.word, p->now.loc);
  iv->dtype = TDSL_DTYPE_I64;
  tir_next(p);
  give_symbol(p, iv, IX_SYM_LOOP);
  return iv;
}

static void parse_loop(tir_parser_t *p, tir_node_t *node, int depth) {
  values_t params = {0}, inits = {0}, yields = {0};
  parse_flags(p, node);
  parse_lets(p);
  node->iv = parse_iv(p);
  if (!tir_take_word(p, "in")) tir_fail(p, "expected `in`");
  node->lo = tir_parse_expr(p);
  tir_expect_punct(p, "..");
  node->hi = tir_parse_expr(p);
  parse_carry(p, &params, &inits);
  tir_expect_punct(p, "{");
  if (depth >= TIR_MAX_NESTING) tir_fail(p, "loops nest too deep");
  size_t outer = p->declared.length;
  if (!p->failed) declare(p, node->iv);
  for (size_t i = 0; !p->failed && i < params.length; i++)
    declare(p, params.data[i]);
  parse_block(p, &node->body_nodes, depth + 1);
  if (tir_take_word(p, "yield")) {
    do {
      tir_value_t *v = tir_parse_use(p);
      td_vec_push(p->arena, &yields, v);
    } while (!p->failed && tir_take_punct(p, ","));
  }
  tir_expect_punct(p, "}");
  if (yields.length != params.length)
    tir_fail(p, "%zu values are carried, %zu yielded", params.length,
             yields.length);
  while (p->declared.length > outer)
    td_map_put(&p->values, td_str(td_vec_pop(&p->declared)), NULL);
  node->operand_count = (uint32_t)params.length;
  node->operands = inits.data;
  node->params = params.data;
  node->yields = yields.data;
}

static void parse_assert(tir_parser_t *p, tir_node_t *node) {
  parse_lets(p);
  node->body = tir_parse_expr(p);
  if (p->now.token == TIR_T_STRING) node->text = tir_expect_string(p);
}

/* The word of a node, with what is in it. */
static void parse_kind(tir_parser_t *p, tir_node_t *node) {
  node->kind = TIR_MAP;
  for (tir_reduce_t r = TIR_REDUCE_SUM; r <= TIR_REDUCE_ARGMIN; r++)
    if (td_str_starts(p->now.word, "reduce.") &&
        td_str_eqc(td_str_n(p->now.word.data + 7, p->now.word.length - 7),
                   tir_reduce_text(r)))
      node->reduce = r;
  if (node->reduce == TIR_REDUCE_NONE) {
    while (node->kind < TIR_KIND_COUNT &&
           !td_str_eqc(p->now.word, tir_kind_text(node->kind)))
      node->kind++;
  }
  if (p->now.token != TIR_T_WORD || node->kind == TIR_KIND_COUNT)
    tir_fail(p, "expected a node, got `%.*s`", TD_STR_ARG(p->now.word));
  tir_next(p);
}

static void parse_node(tir_parser_t *p, tir_block_t *block, int depth) {
  values_t outs = {0};
  td_loc_t here = p->now.loc;
  if (p->now.token == TIR_T_VALUE) {
    do {
      tir_value_t *v = parse_value(p);
      td_vec_push(p->arena, &outs, v);
    } while (!p->failed && tir_take_punct(p, ","));
    tir_expect_punct(p, "=");
  }
  tir_node_t *node =
      tir_node_create(p->arena, TIR_MAP, (uint32_t)outs.length);
  for (uint32_t i = 0; i < node->out_count; i++) {
    node->outs[i] = outs.data[i];
    if (outs.data[i] != NULL) outs.data[i]->def = node;
  }
  parse_kind(p, node);
  if (p->failed) return;
  switch (node->kind) {
  case TIR_MAP: case TIR_UPDATE: parse_formula(p, node); break;
  case TIR_TOPK: parse_topk(p, node); break;
  case TIR_LOOP: parse_loop(p, node, depth); break;
  case TIR_ASSERT: parse_assert(p, node); break;
  case TIR_KIND_COUNT: break;
  }
  node->loc = parse_loc(p, here);
  for (uint32_t i = 0; !p->failed && i < node->out_count; i++)
    declare(p, node->outs[i]);
  td_vec_push(p->arena, block, node);
}

static void parse_block(tir_parser_t *p, tir_block_t *block, int depth) {
  while (!p->failed && !tir_at_punct(p, "}") && !tir_at_word(p, "yield") &&
         !tir_at_word(p, "return"))
    parse_node(p, block, depth);
}

/* ---- functions ----------------------------------------------------------- */

typedef TD_VEC(tir_slot_t) slots_t;
typedef TD_VEC(const char *) names_t;

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
      parse_range(p, &slot->lo, &slot->hi);
    } else if (tir_take_word(p, "range")) {
      parse_range(p, &v->lo, &v->hi);
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
  tir_value_t *v = new_value(p, name, here);
  tir_expect_punct(p, ":");
  parse_type(p, v);
  parse_slot_attributes(p, &slot, v, &else_name);
  slot.loc = parse_loc(p, here);
  if (p->failed) return;
  for (uint32_t i = 0; i < v->rank; i++)
    if (slot.dim_text[i] == NULL)
      slot.dim_text[i] = ix_text(p->arena, v->dims[i]);
  v->is_written = true;
  if (slot.kind == TIR_OUT) {
    slot.result = v; /* its type only, until `return` names the value */
  } else {
    slot.value = v;
    give_symbol(p, v, IX_SYM_DATA);
    declare(p, v);
  }
  td_vec_push(p->arena, slots, slot);
  td_vec_push(&p->scratch, elses, else_name);
}

static tir_slot_t *find_slot(slots_t *slots, const char *name) {
  for (size_t i = 0; i < slots->length; i++)
    if (strcmp(slots->data[i].name, name) == 0) return &slots->data[i];
  return NULL;
}

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
    if (tir_take_word(p, "in")) parse_range(p, &dim->lo, &dim->hi);
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

static void parse_requires(tir_parser_t *p) {
  TD_VEC(tir_require_t) requires = {0};
  while (!p->failed && tir_at_word(p, "require")) {
    tir_require_t r = {.loc = p->now.loc};
    tir_next(p);
    parse_lets(p);
    r.cond = tir_parse_expr(p);
    if (p->now.token == TIR_T_STRING) r.text = tir_expect_string(p);
    r.loc = parse_loc(p, r.loc);
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
  p->func->loc = parse_loc(p, here);
  tir_expect_punct(p, "{");
  parse_requires(p);
  parse_block(p, &p->func->nodes, 0);
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
