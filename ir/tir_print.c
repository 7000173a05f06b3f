/* tir_print.c: TIR as text that tir_parse reads back.
 *
 * 1. Names are given once per function, in text order, so the same module
 *    prints the same bytes whatever it was made from.
 * 2. An expression that occurs more than once in a node is printed once, as
 *    `let $n = ...`, unless it is a leaf or a load with plain subscripts:
 *    the text stays linear in the size of the DAG.
 * 3. Nothing recurses over expressions; blocks nest at most
 *    TIR_MAX_NESTING deep. */
#include "ir/tir_text.h"

#include "ir/dtype.h"

typedef struct printer {
  td_buf_t *out;
  td_arena_t arena; /* names and tables, dropped at the end */
  td_arena_t *module_arena; /* names of renamed dims live with the pool */
  ix_pool_t *pool;
  bool with_locs;
  td_map_t value_names; /* tir_value_t -> const char * */
  td_map_t word_names;  /* ix_symbol_t of a dim, tir_index_t -> name */
  td_map_t taken_values, taken_words; /* text -> non-NULL */
  td_map_t renamed; /* ix_symbol_t -> ix_poly_t, dims whose name changed */
  td_map_t lets;    /* of one node: tir_expr_t -> number + 1 */
  int depth;        /* of indentation */
} printer_t;

/* ---- names --------------------------------------------------------------- */

/* The name with every byte that cannot stand in a word replaced by `_`. Dims
 * and indices must not begin with a digit; after a % anything may. */
static td_str_t clean(printer_t *p, const char *name, bool is_word) {
  char *text = td_arena_alloc(&p->arena, strlen(name) + 2);
  strcpy(text, name[0] == '\0' ? "_" : name);
  size_t length = strlen(text);
  if (text[0] == '.' || (is_word && !tir_is_word(td_str_n(text, 1))))
    text[0] = '_';
  for (size_t at = 0; at < length;) {
    at += tir_word_length(td_str_n(text + at, length - at));
    if (at < length) text[at] = '_';
  }
  return td_str_n(text, length);
}

/* The entry of a taken name counts the suffixes tried, so that a thousand
 * values of one name do not cost a million look-ups. */
static const char *unique(printer_t *p, td_map_t *taken, const char *name,
                          bool is_word) {
  td_str_t base = clean(p, name, is_word);
  bool reserved = is_word && tir_is_reserved(base);
  size_t *count = td_map_get(taken, base);
  if (count == NULL) {
    count = TD_NEW(&p->arena, size_t);
    td_map_put(taken, base, count);
    if (!reserved) return base.data;
  }
  for (;;) {
    const char *text =
        td_arena_printf(&p->arena, "%s.%zu", base.data, ++*count);
    if (td_map_get(taken, td_str(text)) != NULL) continue;
    td_map_put(taken, td_str(text), TD_NEW(&p->arena, size_t));
    return text;
  }
}

static uint64_t key_of(const void *pointer) {
  return (uint64_t)(uintptr_t)pointer;
}

static void put_name(td_map_t *names, const void *of, const char *name) {
  td_map_put_u64(names, key_of(of), (void *)(uintptr_t)name);
}

static void name_value(printer_t *p, const tir_value_t *v) {
  if (v == NULL || td_map_get_u64(&p->value_names, key_of(v)) != NULL) return;
  put_name(&p->value_names, v, unique(p, &p->taken_values, v->name, false));
}

static void name_dim(printer_t *p, const ix_symbol_t *dim) {
  const char *name = unique(p, &p->taken_words, dim->name, true);
  put_name(&p->word_names, dim, name);
  if (strcmp(name, dim->name) == 0) return;
  ix_symbol_t *twin = ix_symbol_create(
      p->pool, td_arena_strdup(p->module_arena, name), dim->kind, dim->loc);
  td_map_put_u64(&p->renamed, key_of(dim),
                 (void *)(uintptr_t)ix_sym(p->pool, twin));
}

static const ix_poly_t *rename_dim(void *user, const ix_symbol_t *s) {
  const printer_t *p = user;
  return td_map_get_u64(&p->renamed, key_of(s));
}

static void poly(printer_t *p, const ix_poly_t *dim) {
  if (dim == NULL) {
    td_buf_puts(p->out, "?");
    return;
  }
  if (p->renamed.length > 0)
    dim = ix_subst(p->pool, dim, rename_dim, p, NULL);
  ix_print(p->out, dim);
}

static void value(printer_t *p, const tir_value_t *v) {
  const char *name =
      v == NULL ? NULL : td_map_get_u64(&p->value_names, key_of(v));
  td_buf_printf(p->out, "%%%s", name == NULL ? "?" : name);
}

/* ---- expressions --------------------------------------------------------- */

static void constant(printer_t *p, const tir_expr_t *e) {
  char text[TD_F64_TEXT];
  if (e->type == TDSL_DTYPE_BOOL) {
    td_buf_puts(p->out, e->u.i64 != 0 ? "true" : "false");
    return;
  }
  if (e->type == TDSL_DTYPE_I64) {
    td_buf_printf(p->out, "%lld", (long long)e->u.i64);
    return;
  }
  /* All digits, also of an f32: it has not been rounded yet (tir.h). */
  size_t n = td_format_f64(text, e->u.f64);
  td_buf_put(p->out, text, n);
  bool is_plain = true; /* would read as an integer */
  for (size_t i = 0; i < n; i++)
    if ((text[i] < '0' || text[i] > '9') && text[i] != '-') is_plain = false;
  if (is_plain) td_buf_puts(p->out, ".0");
  if (e->type == TDSL_DTYPE_F64) td_buf_puts(p->out, ":f64");
}

static bool is_small(const tir_expr_t *e) {
  if (e->op != TIR_X_LOAD) return e->arg_count == 0;
  for (uint32_t i = 0; i < e->arg_count; i++)
    if (e->args[i]->arg_count > 0) return false;
  return true;
}

/* The text before the operands; "" has none to follow. */
static void open_expr(printer_t *p, const tir_expr_t *e) {
  const ix_symbol_t *s;
  const char *name;
  switch (e->op) {
  case TIR_X_CONST: constant(p, e); return;
  case TIR_X_INDEX:
    name = td_map_get_u64(&p->word_names, key_of(e->u.index));
    td_buf_puts(p->out, name == NULL ? "?" : name);
    return;
  case TIR_X_DIM:
    s = e->u.dim == NULL ? NULL : ix_as_symbol(e->u.dim);
    if (s == NULL) td_buf_puts(p->out, "dim(");
    poly(p, e->u.dim);
    if (s == NULL) td_buf_puts(p->out, ")");
    return;
  case TIR_X_LOAD:
    value(p, e->u.value);
    if (e->arg_count > 0) td_buf_puts(p->out, "[");
    return;
  case TIR_X_CAST:
    td_buf_printf(p->out, "cast.%s(", td_dtype_name(e->u.to));
    return;
  default: td_buf_printf(p->out, "%s(", tir_x_text(e->op)); return;
  }
}

typedef struct frame {
  const tir_expr_t *e;
  uint32_t next;
} frame_t;

/* `is_let`: e is being defined, so its own number must not stand for it. */
static void expr(printer_t *p, const tir_expr_t *root, bool is_let) {
  TD_VEC(frame_t) stack = {0};
  if (root == NULL) {
    td_buf_puts(p->out, "?");
    return;
  }
  td_vec_push(&p->arena, &stack, (frame_t){root, 0});
  while (stack.length > 0) {
    frame_t *top = &td_vec_last(&stack);
    const tir_expr_t *e = top->e;
    if (top->next == 0) {
      size_t n = (size_t)(uintptr_t)td_map_get_u64(&p->lets, key_of(e));
      if (n != 0 && !(is_let && e == root)) {
        td_buf_printf(p->out, "$%zu", n - 1);
        (void)td_vec_pop(&stack);
        continue;
      }
      open_expr(p, e);
    }
    if (top->next == e->arg_count) {
      if (e->arg_count > 0)
        td_buf_putc(p->out, e->op == TIR_X_LOAD ? ']' : ')');
      (void)td_vec_pop(&stack);
      continue;
    }
    if (top->next > 0) td_buf_puts(p->out, ", ");
    const tir_expr_t *arg = e->args[top->next++]; /* the push moves top */
    td_vec_push(&p->arena, &stack, (frame_t){arg, 0});
  }
}

/* ---- shared expressions of a node ---------------------------------------- */

typedef struct sharing {
  printer_t *p;
  td_map_t seen;            /* expression used at least once */
  TD_VEC(tir_expr_t *) order; /* operands first */
  td_map_t shared;
} sharing_t;

static void use(sharing_t *s, const tir_expr_t *e) {
  if (is_small(e)) return;
  if (td_map_get_u64(&s->seen, key_of(e)) != NULL)
    td_map_put_u64(&s->shared, key_of(e), s);
  else
    td_map_put_u64(&s->seen, key_of(e), s);
}

static void count_uses(void *user, tir_expr_t *e) {
  sharing_t *s = user;
  td_vec_push(&s->p->arena, &s->order, e);
  for (uint32_t i = 0; i < e->arg_count; i++) use(s, e->args[i]);
}

static void indent(printer_t *p) {
  td_buf_pad(p->out, ' ', 2 * (size_t)p->depth);
}

/* Prints `let` lines for the given roots; true if there were any. */
static bool lets(printer_t *p, tir_expr_t *const *roots, uint32_t count) {
  sharing_t s = {.p = p};
  tir_walker_t walker;
  td_map_init(&s.seen, &p->arena);
  td_map_init(&s.shared, &p->arena);
  td_map_init(&p->lets, &p->arena);
  tir_walker_init(&walker, &p->arena);
  for (uint32_t i = 0; i < count; i++) {
    if (roots[i] == NULL) continue;
    tir_walk_into(&walker, roots[i], count_uses, &s);
    use(&s, roots[i]);
  }
  size_t number = 0;
  for (size_t i = 0; i < s.order.length; i++) {
    tir_expr_t *e = s.order.data[i];
    if (td_map_get_u64(&s.shared, key_of(e)) == NULL) continue;
    td_map_put_u64(&p->lets, key_of(e), (void *)(uintptr_t)++number);
    td_buf_puts(p->out, "\n");
    indent(p);
    td_buf_printf(p->out, "    let $%zu = ", number - 1);
    expr(p, e, true);
  }
  return number > 0;
}

/* After lets a new line, else a blank. */
static void sep(printer_t *p, bool has_lets) {
  if (!has_lets) {
    td_buf_putc(p->out, ' ');
    return;
  }
  td_buf_puts(p->out, "\n");
  indent(p);
  td_buf_puts(p->out, "    ");
}

/* ---- types, locations ---------------------------------------------------- */

static void type(printer_t *p, const tir_value_t *v) {
  td_buf_puts(p->out, td_dtype_name(v->dtype));
  if (v->rank == 0) return;
  td_buf_putc(p->out, '[');
  for (uint32_t i = 0; i < v->rank; i++) {
    if (i > 0) td_buf_puts(p->out, ", ");
    poly(p, v->dims[i]);
  }
  td_buf_putc(p->out, ']');
}

static void range(printer_t *p, const char *word, const ix_poly_t *lo,
                  const ix_poly_t *hi) {
  if (lo == NULL && hi == NULL) return;
  td_buf_printf(p->out, " %s ", word);
  if (lo != NULL) poly(p, lo);
  td_buf_puts(p->out, "..");
  if (hi != NULL) poly(p, hi);
}

static void loc(printer_t *p, td_loc_t at) {
  if (!p->with_locs) return;
  const td_source_t *source = td_sources_get(p->out->task, at.file);
  if (at.line == 0) return;
  td_buf_puts(p->out, " loc(");
  td_buf_json(p->out, td_str(source == NULL ? "" : source->name));
  td_buf_printf(p->out, ":%u:%u)", at.line, at.column);
}

static void declare(printer_t *p, const tir_value_t *v) {
  name_value(p, v);
  value(p, v);
  td_buf_puts(p->out, ": ");
  type(p, v);
  if (v->is_written && tir_is_arithmetic(v->dtype))
    td_buf_puts(p->out, " written");
  range(p, "in", v->lo, v->hi);
}

/* ---- nodes --------------------------------------------------------------- */

/* Indices are named per node; their words are free again after it. */
static void indices(printer_t *p, const tir_node_t *node) {
  bool reduction = false;
  td_buf_puts(p->out, " [");
  for (uint32_t i = 0; i < node->index_count; i++) {
    tir_index_t *index = node->indices[i];
    put_name(&p->word_names, index,
             unique(p, &p->taken_words, index->name, true));
    if (index->is_reduction && !reduction)
      td_buf_puts(p->out, "; ");
    else if (i > 0)
      td_buf_puts(p->out, ", ");
    reduction = index->is_reduction;
    td_buf_printf(p->out, "%s in ",
                  (const char *)td_map_get_u64(&p->word_names, key_of(index)));
    poly(p, index->extent);
  }
  td_buf_puts(p->out, "]");
}

static void outs(printer_t *p, const tir_node_t *node) {
  for (uint32_t i = 0; i < node->out_count; i++) {
    if (i > 0) td_buf_puts(p->out, ", ");
    declare(p, node->outs[i]);
  }
  if (node->out_count > 0) td_buf_puts(p->out, " = ");
}

static void head(printer_t *p, const tir_node_t *node) {
  if (node->kind == TIR_MAP && node->reduce != TIR_REDUCE_NONE)
    td_buf_printf(p->out, "reduce.%s", tir_reduce_text(node->reduce));
  else
    td_buf_puts(p->out, tir_kind_text(node->kind));
  if (node->is_fma) td_buf_puts(p->out, " fma");
  if (node->plan == TIR_PLAN_LANES) td_buf_puts(p->out, " lanes");
  if (node->is_distinct) td_buf_puts(p->out, " distinct");
  if (node->uses_tf32) td_buf_puts(p->out, " tf32");
  if (node->is_approx) td_buf_puts(p->out, " approx");
  if (node->group != 0) td_buf_printf(p->out, " group %u", node->group);
}

static void block(printer_t *p, const tir_block_t *nodes);

static void formula(printer_t *p, tir_node_t *node) {
  uint32_t count = tir_node_expr_count(node);
  tir_expr_t **roots = TD_NEW_ARRAY(&p->arena, tir_expr_t *, count);
  for (uint32_t i = 0; i < count; i++) roots[i] = *tir_node_expr(node, i);
  indices(p, node);
  bool has_lets = lets(p, roots, count);
  if (node->guard != NULL) {
    sep(p, has_lets);
    td_buf_puts(p->out, "where ");
    expr(p, node->guard, false);
  }
  sep(p, has_lets);
  if (node->kind == TIR_UPDATE) {
    value(p, node->operand_count > 0 ? node->operands[0] : NULL);
    td_buf_puts(p->out, "[");
    for (uint32_t i = 0; i < node->sub_count; i++) {
      if (i > 0) td_buf_puts(p->out, ", ");
      expr(p, node->subs[i], false);
    }
    td_buf_puts(p->out, node->is_accumulate ? "] += " : "] := ");
  }
  expr(p, node->body, false);
}

static void loop(printer_t *p, const tir_node_t *node) {
  tir_expr_t *roots[2] = {node->lo, node->hi};
  bool has_lets = lets(p, roots, 2);
  sep(p, has_lets);
  name_value(p, node->iv);
  value(p, node->iv);
  td_buf_puts(p->out, " in ");
  expr(p, node->lo, false);
  td_buf_puts(p->out, "..");
  expr(p, node->hi, false);
  if (node->operand_count > 0) td_buf_puts(p->out, " carry(");
  for (uint32_t i = 0; i < node->operand_count; i++) {
    if (i > 0) td_buf_puts(p->out, ", ");
    declare(p, node->params[i]);
    td_buf_puts(p->out, " = ");
    value(p, node->operands[i]);
  }
  td_buf_puts(p->out, node->operand_count > 0 ? ") {\n" : " {\n");
  p->depth++;
  block(p, &node->body_nodes);
  if (node->operand_count > 0) {
    indent(p);
    td_buf_puts(p->out, "yield ");
    for (uint32_t i = 0; i < node->operand_count; i++) {
      if (i > 0) td_buf_puts(p->out, ", ");
      value(p, node->yields[i]);
    }
    td_buf_puts(p->out, "\n");
  }
  p->depth--;
  indent(p);
  td_buf_puts(p->out, "}");
}

static void print_node(printer_t *p, tir_node_t *node) {
  td_map_t outer = p->taken_words; /* indices below are of this node only */
  td_map_t words;
  indent(p);
  outs(p, node);
  head(p, node);
  switch (node->kind) {
  case TIR_MAP: case TIR_UPDATE:
    td_map_init(&words, &p->arena);
    for (size_t i = 0; i < outer.length; i++)
      td_map_put(&words, outer.entries[i].key, TD_NEW(&p->arena, size_t));
    p->taken_words = words;
    formula(p, node);
    p->taken_words = outer;
    break;
  case TIR_TOPK:
    td_buf_printf(p->out, " %lld ", (long long)node->k);
    value(p, node->operand_count > 0 ? node->operands[0] : NULL);
    break;
  case TIR_LOOP: loop(p, node); break;
  case TIR_ASSERT: {
    sep(p, lets(p, &node->body, 1));
    expr(p, node->body, false);
    if (node->text != NULL) {
      td_buf_putc(p->out, ' ');
      td_buf_json(p->out, td_str(node->text));
    }
    break;
  }
  case TIR_KIND_COUNT: break;
  }
  loc(p, node->loc);
  td_buf_puts(p->out, "\n");
}

static void block(printer_t *p, const tir_block_t *nodes) {
  for (size_t i = 0; i < nodes->length; i++) print_node(p, nodes->data[i]);
}

/* ---- functions ----------------------------------------------------------- */

static void word_or_string(printer_t *p, const char *name) {
  if (tir_is_word(td_str(name)))
    td_buf_puts(p->out, name);
  else
    td_buf_json(p->out, td_str(name));
}

static bool has_own_dim_text(printer_t *p, const tir_slot_t *slot,
                             const tir_value_t *v) {
  for (uint32_t i = 0; i < v->rank; i++)
    if (slot->dim_text[i] != NULL &&
        (v->dims[i] == NULL ||
         strcmp(slot->dim_text[i], ix_text(&p->arena, v->dims[i])) != 0))
      return true;
  return false;
}

static void slot_default(printer_t *p, const tir_slot_t *slot) {
  tir_expr_t e = {.op = TIR_X_CONST};
  e.type = tir_arithmetic(slot->value->dtype);
  if (tir_dtype_class(e.type) == TIR_CLASS_FLOAT)
    e.u.f64 = slot->default_f64;
  else
    e.u.i64 = slot->default_i64;
  td_buf_puts(p->out, " default ");
  constant(p, &e);
}

static void print_slot(printer_t *p, const tir_func_t *func, uint32_t at) {
  static const char *const kinds[] = {"in", "out", "inout"};
  const tir_slot_t *slot = &func->slots[at];
  const tir_value_t *v = slot->kind == TIR_OUT ? slot->result : slot->value;
  td_buf_printf(p->out, "%s ", kinds[slot->kind]);
  word_or_string(p, slot->name);
  if (slot->kind != TIR_OUT) {
    name_value(p, v);
    const char *name = td_map_get_u64(&p->value_names, key_of(v));
    if (name == NULL || strcmp(name, slot->name) != 0) {
      td_buf_putc(p->out, ' ');
      value(p, v);
    }
  }
  td_buf_puts(p->out, ": ");
  if (v == NULL) {
    td_buf_puts(p->out, "?");
    return;
  }
  type(p, v);
  range(p, "in", slot->lo, slot->hi);
  if (slot->kind != TIR_OUT && (v->lo != slot->lo || v->hi != slot->hi))
    range(p, "range", v->lo, v->hi);
  if (has_own_dim_text(p, slot, v)) {
    td_buf_puts(p->out, " as (");
    for (uint32_t i = 0; i < v->rank; i++) {
      if (i > 0) td_buf_puts(p->out, ", ");
      td_buf_json(p->out,
                  td_str(slot->dim_text[i] == NULL ? "" : slot->dim_text[i]));
    }
    td_buf_putc(p->out, ')');
  }
  if (slot->has_default && slot->value != NULL) slot_default(p, slot);
  if (slot->is_weight) td_buf_puts(p->out, " weight");
  if (slot->file_pattern != NULL) {
    td_buf_puts(p->out, " file ");
    td_buf_json(p->out, td_str(slot->file_pattern));
  }
  if (slot->stack_count > 0)
    td_buf_printf(p->out, " stack %u", slot->stack_count);
  if (slot->else_slot >= 0 && (uint32_t)slot->else_slot < func->slot_count) {
    td_buf_puts(p->out, " else ");
    word_or_string(p, func->slots[slot->else_slot].name);
  }
  loc(p, slot->loc);
}

static void returns(printer_t *p, const tir_func_t *func) {
  const char *before = "  return ";
  bool any = false;
  for (uint32_t i = 0; i < func->slot_count; i++) {
    const tir_slot_t *slot = &func->slots[i];
    if (slot->kind == TIR_IN) continue;
    td_buf_puts(p->out, any ? ", " : before);
    word_or_string(p, slot->name);
    td_buf_puts(p->out, " = ");
    value(p, slot->result);
    any = true;
  }
  if (any) td_buf_puts(p->out, "\n");
}

static void print_func(printer_t *p, const tir_func_t *func) {
  td_map_init(&p->value_names, &p->arena);
  td_map_init(&p->word_names, &p->arena);
  td_map_init(&p->taken_values, &p->arena);
  td_map_init(&p->taken_words, &p->arena);
  td_map_init(&p->renamed, &p->arena);
  td_map_init(&p->lets, &p->arena);
  for (uint32_t i = 0; i < func->dim_count; i++) name_dim(p, func->dims[i]);
  td_buf_puts(p->out, func->is_test ? "test func @" : "func @");
  word_or_string(p, func->name);
  td_buf_putc(p->out, '(');
  for (uint32_t i = 0; i < func->slot_count; i++) {
    td_buf_puts(p->out, i > 0 ? ",\n    " : "\n    ");
    print_slot(p, func, i);
  }
  td_buf_putc(p->out, ')');
  for (uint32_t i = 0; i < func->dim_count; i++) {
    const ix_symbol_t *dim = func->dims[i];
    td_buf_puts(p->out, i == 0 ? "\n  dims(" : ", ");
    td_buf_puts(p->out, td_map_get_u64(&p->word_names, key_of(dim)));
    range(p, "in", dim->lo, dim->hi);
  }
  td_buf_puts(p->out, func->dim_count > 0 ? ")" : "");
  loc(p, func->loc);
  td_buf_puts(p->out, " {\n");
  p->depth = 1;
  for (uint32_t i = 0; i < func->require_count; i++) {
    tir_require_t *r = &func->requires[i];
    td_buf_puts(p->out, "  require");
    sep(p, lets(p, &r->cond, 1));
    expr(p, r->cond, false);
    if (r->text != NULL) {
      td_buf_putc(p->out, ' ');
      td_buf_json(p->out, td_str(r->text));
    }
    loc(p, r->loc);
    td_buf_puts(p->out, "\n");
  }
  block(p, &func->nodes);
  returns(p, func);
  td_buf_puts(p->out, "}\n");
}

static void print_module(td_buf_t *out, const tir_module_t *module,
                         bool with_locs) {
  printer_t p = {.out = out,
                 .module_arena = module->arena,
                 .pool = module->pool,
                 .with_locs = with_locs};
  td_arena_init(&p.arena, out->task);
  for (uint32_t i = 0; i < module->func_count; i++) {
    if (i > 0) td_buf_puts(out, "\n");
    print_func(&p, module->funcs[i]);
  }
  td_arena_free_all(&p.arena);
}

void tir_print(td_buf_t *out, const tir_module_t *module) {
  print_module(out, module, false);
}

void tir_print_locs(td_buf_t *out, const tir_module_t *module) {
  print_module(out, module, true);
}
