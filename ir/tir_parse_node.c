/* tir_parse_node.c: values, types and nodes of the text form.
 *
 * Every list that grows is bounded by the text that is being read, ranks and
 * indices by their caps, blocks by TIR_MAX_NESTING.  A node is appended to
 * its block only when it is complete, its outputs come into scope then. */
#include "ir/tir_parse.h"

#include "ir/dtype.h"

/* ---- small parts --------------------------------------------------------- */

/* `loc("name":line:column)`; without it the place in this text. */
td_loc_t tir_parse_loc(tir_parser_t *p, td_loc_t here) {
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
void tir_parse_range(tir_parser_t *p, const ix_poly_t **lo,
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
void tir_parse_type(tir_parser_t *p, tir_value_t *v) {
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
void tir_give_symbol(tir_parser_t *p, tir_value_t *v,
                        ix_symbol_kind_t kind) {
  if (v->rank != 0 || tir_dtype_class(v->dtype) != TIR_CLASS_INT) return;
  ix_symbol_t *symbol = ix_symbol_create(p->module->pool, v->name, kind,
                                         v->loc);
  symbol->lo = v->lo;
  symbol->hi = v->hi;
  v->symbol = symbol;
}

/* Into scope, to the end of the innermost open block. */
void tir_declare(tir_parser_t *p, tir_value_t *v) {
  if (td_map_get(&p->values, td_str(v->name)) != NULL)
    tir_fail(p, "%%%s is defined twice", v->name);
  td_map_put(&p->values, td_str(v->name), v);
  td_vec_push(&p->scratch, &p->declared, v->name);
}

tir_value_t *tir_new_value(tir_parser_t *p, td_str_t name, td_loc_t loc) {
  tir_value_t *v = tir_value_create(p->arena, td_str_cstr(p->arena, name),
                                    TDSL_DTYPE_UNSET, 0, NULL);
  v->loc = loc;
  return v;
}

/* `%x: f32[N] written in 0..9`; not yet in scope. */
static tir_value_t *parse_value(tir_parser_t *p) {
  if (p->now.token != TIR_T_VALUE) tir_fail(p, "expected a value");
  tir_value_t *v = tir_new_value(p, p->now.word, p->now.loc);
  tir_next(p);
  tir_expect_punct(p, ":");
  tir_parse_type(p, v);
  if (tir_take_word(p, "written")) v->is_written = true;
  if (tir_take_word(p, "in")) tir_parse_range(p, &v->lo, &v->hi);
  tir_give_symbol(p, v, IX_SYM_DATA);
  return v;
}

/* ---- nodes --------------------------------------------------------------- */

typedef TD_VEC(tir_value_t *) values_t;

/* Extents may name dims only, so the indices read so far do not matter. */
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

/* What is behind the `;` is reduced over. */
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

/* Numbered from 0 in order, and each may use those before it. */
void tir_parse_lets(tir_parser_t *p) {
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

/* `was %l.was`: of the output's type, in scope to the end of the block. */
static void parse_was(tir_parser_t *p, tir_node_t *node) {
  if (p->now.token != TIR_T_VALUE || node->out_count != 1 ||
      node->was != NULL || node->outs[0] == NULL) {
    tir_fail(p, "expected a value, once, of a node with one output");
    return;
  }
  const tir_value_t *out = node->outs[0];
  node->was = tir_new_value(p, p->now.word, p->now.loc);
  node->was->dtype = out->dtype;
  node->was->rank = out->rank;
  for (uint32_t i = 0; i < out->rank; i++) node->was->dims[i] = out->dims[i];
  tir_next(p);
  tir_declare(p, node->was);
}

/* In any order; whether a flag makes sense here is the verifier's question. */
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
    } else if (tir_take_word(p, "cascade")) {
      int64_t cascade = tir_expect_int(p);
      if (cascade > INT32_MAX) tir_fail(p, "cascade is too large");
      node->cascade = (uint32_t)cascade;
    } else if (tir_take_word(p, "tile")) {
      node->is_tile = true;
    } else if (tir_take_word(p, "first")) {
      node->is_first = true;
    } else if (tir_take_word(p, "merge")) {
      node->is_merge = true;
    } else if (tir_take_word(p, "lazy")) {
      node->is_lazy = true;
    } else if (tir_take_word(p, "was")) {
      parse_was(p, node);
    } else {
      return;
    }
  }
}

/* `%c[i, j] :=` or `+=`; a scalar target has empty brackets. */
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

/* The words of the indices end with the node, for a `require` or an assert
 * that follows has none. */
static void parse_formula(tir_parser_t *p, tir_node_t *node) {
  parse_flags(p, node);
  parse_indices(p, node);
  tir_parse_lets(p);
  if (tir_take_word(p, "where")) node->guard = tir_parse_expr(p);
  if (tir_take_word(p, "transport")) node->transport = tir_parse_expr(p);
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

/* Inits are read outside the region: a parameter cannot be one. */
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

/* Always i64; the text does not say so. */
static tir_value_t *parse_iv(tir_parser_t *p) {
  if (p->now.token != TIR_T_VALUE) tir_fail(p, "expected a loop variable");
  tir_value_t *iv = tir_new_value(p, p->now.word, p->now.loc);
  iv->dtype = TDSL_DTYPE_I64;
  tir_next(p);
  tir_give_symbol(p, iv, IX_SYM_LOOP);
  return iv;
}

/* The region sees its variable and parameters; all that it defines ends with
 * it. Recursion is capped by the depth of nesting. */
static void parse_loop(tir_parser_t *p, tir_node_t *node, int depth) {
  values_t params = {0}, inits = {0}, yields = {0};
  parse_flags(p, node);
  tir_parse_lets(p);
  node->iv = parse_iv(p);
  if (!tir_take_word(p, "in")) tir_fail(p, "expected `in`");
  node->lo = tir_parse_expr(p);
  tir_expect_punct(p, "..");
  node->hi = tir_parse_expr(p);
  parse_carry(p, &params, &inits);
  tir_expect_punct(p, "{");
  if (depth >= TIR_MAX_NESTING) tir_fail(p, "loops nest too deep");
  size_t outer = p->declared.length;
  if (!p->failed) tir_declare(p, node->iv);
  for (size_t i = 0; !p->failed && i < params.length; i++)
    tir_declare(p, params.data[i]);
  tir_parse_block(p, &node->body_nodes, depth + 1);
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
  tir_parse_lets(p);
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

/* Outputs come into scope after their node: no node reads what it defines. */
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
  node->loc = tir_parse_loc(p, here);
  for (uint32_t i = 0; !p->failed && i < node->out_count; i++)
    tir_declare(p, node->outs[i]);
  td_vec_push(p->arena, block, node);
}

/* Ends before the word or brace that its owner expects. */
void tir_parse_block(tir_parser_t *p, tir_block_t *block, int depth) {
  while (!p->failed && !tir_at_punct(p, "}") && !tir_at_word(p, "yield") &&
         !tir_at_word(p, "return"))
    parse_node(p, block, depth);
}
