/* tir_print.c: TIR as text that tir_parse reads back.
 *
 * 1. Names are given once per function, in text order, so the same module
 *    prints the same bytes whatever it was made from.
 * 2. An expression that occurs more than once in a node is printed once, as
 *    `let $n = ...`, unless it is a leaf or a load with plain subscripts:
 *    the text stays linear in the size of the DAG.
 * 3. Nothing recurses over expressions; blocks nest at most
 *    TIR_MAX_NESTING deep. */
#include "ir/tir_print.h"

#include "ir/dtype.h"

/* ---- types, locations ---------------------------------------------------- */

/* Dtype and dims; scalars have no brackets. */
static void type(tir_printer_t *p, const tir_value_t *v) {
  td_buf_puts(p->out, td_dtype_name(v->dtype));
  if (v->rank == 0) return;
  td_buf_putc(p->out, '[');
  for (uint32_t i = 0; i < v->rank; i++) {
    if (i > 0) td_buf_puts(p->out, ", ");
    tir_put_poly(p, v->dims[i]);
  }
  td_buf_putc(p->out, ']');
}

static void range(tir_printer_t *p, const char *word, const ix_poly_t *lo,
                  const ix_poly_t *hi) {
  if (lo == NULL && hi == NULL) return;
  td_buf_printf(p->out, " %s ", word);
  if (lo != NULL) tir_put_poly(p, lo);
  td_buf_puts(p->out, "..");
  if (hi != NULL) tir_put_poly(p, hi);
}

/* Only the start: the end of a span is of use while the source is at hand. */
static void loc(tir_printer_t *p, td_loc_t at) {
  if (!p->with_locs) return;
  const td_source_t *source = td_sources_get(p->out->task, at.file);
  if (at.line == 0) return;
  td_buf_puts(p->out, " loc(");
  td_buf_json(p->out, td_str(source == NULL ? "" : source->name));
  td_buf_printf(p->out, ":%u:%u)", at.line, at.column);
}

/* A value with all that is known of it, where it is defined. */
static void declare(tir_printer_t *p, const tir_value_t *v) {
  tir_name_value(p, v);
  tir_put_value(p, v);
  td_buf_puts(p->out, ": ");
  type(p, v);
  if (v->is_written && tir_is_arithmetic(v->dtype))
    td_buf_puts(p->out, " written");
  range(p, "in", v->lo, v->hi);
}

/* After lets a new line, else a blank. */
static void sep(tir_printer_t *p, bool has_lets) {
  if (!has_lets) {
    td_buf_putc(p->out, ' ');
    return;
  }
  td_buf_puts(p->out, "\n");
  tir_put_indent(p);
  td_buf_puts(p->out, "    ");
}

/* ---- nodes --------------------------------------------------------------- */

/* Indices are named per node; their words are free again after it. */
static void indices(tir_printer_t *p, const tir_node_t *node) {
  bool reduction = false;
  td_buf_puts(p->out, " [");
  for (uint32_t i = 0; i < node->index_count; i++) {
    tir_index_t *index = node->indices[i];
    tir_name_index(p, index);
    if (index->is_reduction && !reduction)
      td_buf_puts(p->out, "; ");
    else if (i > 0)
      td_buf_puts(p->out, ", ");
    reduction = index->is_reduction;
    td_buf_printf(p->out, "%s in ",
                  tir_name_of(&p->word_names, index));
    tir_put_poly(p, index->extent);
  }
  td_buf_puts(p->out, "]");
}

static void outs(tir_printer_t *p, const tir_node_t *node) {
  for (uint32_t i = 0; i < node->out_count; i++) {
    if (i > 0) td_buf_puts(p->out, ", ");
    declare(p, node->outs[i]);
  }
  if (node->out_count > 0) td_buf_puts(p->out, " = ");
}

/* The word of a node and its flags, in the order that the parser documents. */
static void head(tir_printer_t *p, const tir_node_t *node) {
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
  if (node->cascade != 0)
    td_buf_printf(p->out, " cascade %u", node->cascade);
  if (node->is_tile) td_buf_puts(p->out, " tile");
  if (node->is_first) td_buf_puts(p->out, " first");
  if (node->is_merge) td_buf_puts(p->out, " merge");
  if (node->is_lazy) td_buf_puts(p->out, " lazy");
  if (node->was != NULL) {
    td_buf_puts(p->out, " was ");
    tir_name_value(p, node->was);
    tir_put_value(p, node->was);
  }
}

static void block(tir_printer_t *p, const tir_block_t *nodes);

/* Indices, shared expressions, guard and body of a map or an update. */
static void formula(tir_printer_t *p, tir_node_t *node) {
  uint32_t count = tir_node_expr_count(node);
  tir_expr_t **roots = TD_NEW_ARRAY(&p->arena, tir_expr_t *, count + 1);
  for (uint32_t i = 0; i < count; i++) roots[i] = *tir_node_expr(node, i);
  if (node->transport != NULL) roots[count++] = node->transport;
  indices(p, node);
  bool has_lets = tir_put_lets(p, roots, count);
  if (node->guard != NULL) {
    sep(p, has_lets);
    td_buf_puts(p->out, "where ");
    tir_put_expr(p, node->guard, false);
  }
  if (node->transport != NULL) {
    sep(p, has_lets);
    td_buf_puts(p->out, "transport ");
    tir_put_expr(p, node->transport, false);
  }
  sep(p, has_lets);
  if (node->kind == TIR_UPDATE) {
    tir_put_value(p, node->operand_count > 0 ? node->operands[0] : NULL);
    td_buf_puts(p->out, "[");
    for (uint32_t i = 0; i < node->sub_count; i++) {
      if (i > 0) td_buf_puts(p->out, ", ");
      tir_put_expr(p, node->subs[i], false);
    }
    td_buf_puts(p->out, node->is_accumulate ? "] += " : "] := ");
  }
  tir_put_expr(p, node->body, false);
}

/* Bounds are over no indices, so their lets stand before the variable. */
static void loop(tir_printer_t *p, const tir_node_t *node) {
  tir_expr_t *roots[2] = {node->lo, node->hi};
  bool has_lets = tir_put_lets(p, roots, 2);
  sep(p, has_lets);
  tir_name_value(p, node->iv);
  tir_put_value(p, node->iv);
  td_buf_puts(p->out, " in ");
  tir_put_expr(p, node->lo, false);
  td_buf_puts(p->out, "..");
  tir_put_expr(p, node->hi, false);
  if (node->operand_count > 0) td_buf_puts(p->out, " carry(");
  for (uint32_t i = 0; i < node->operand_count; i++) {
    if (i > 0) td_buf_puts(p->out, ", ");
    declare(p, node->params[i]);
    td_buf_puts(p->out, " = ");
    tir_put_value(p, node->operands[i]);
  }
  td_buf_puts(p->out, node->operand_count > 0 ? ") {\n" : " {\n");
  p->depth++;
  block(p, &node->body_nodes);
  if (node->operand_count > 0) {
    tir_put_indent(p);
    td_buf_puts(p->out, "yield ");
    for (uint32_t i = 0; i < node->operand_count; i++) {
      if (i > 0) td_buf_puts(p->out, ", ");
      tir_put_value(p, node->yields[i]);
    }
    td_buf_puts(p->out, "\n");
  }
  p->depth--;
  tir_put_indent(p);
  td_buf_puts(p->out, "}");
}

/* Words of indices are free again after the node: a copy of the taken words
 * is used for it, which is short, for it starts with the dims alone. */
static void print_node(tir_printer_t *p, tir_node_t *node) {
  td_map_t outer = p->taken_words; /* indices below are of this node only */
  td_map_t words;
  tir_put_indent(p);
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
    tir_put_value(p, node->operand_count > 0 ? node->operands[0] : NULL);
    break;
  case TIR_LOOP: loop(p, node); break;
  case TIR_ASSERT: {
    sep(p, tir_put_lets(p, &node->body, 1));
    tir_put_expr(p, node->body, false);
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

static void block(tir_printer_t *p, const tir_block_t *nodes) {
  for (size_t i = 0; i < nodes->length; i++) print_node(p, nodes->data[i]);
}

/* ---- functions ----------------------------------------------------------- */

/* Names of slots and functions are those of the C API and keep every byte. */
static void word_or_string(tir_printer_t *p, const char *name) {
  if (tir_is_word(td_str(name)))
    td_buf_puts(p->out, name);
  else
    td_buf_json(p->out, td_str(name));
}

/* Text as declared is only printed where the polynomial would not say it. */
static bool has_own_dim_text(tir_printer_t *p, const tir_slot_t *slot,
                             const tir_value_t *v) {
  for (uint32_t i = 0; i < v->rank; i++)
    if (slot->dim_text[i] != NULL &&
        (v->dims[i] == NULL ||
         strcmp(slot->dim_text[i], ix_text(&p->arena, v->dims[i])) != 0))
      return true;
  return false;
}

static void slot_default(tir_printer_t *p, const tir_slot_t *slot) {
  tir_expr_t e = {.op = TIR_X_CONST};
  e.type = tir_arithmetic(slot->value->dtype);
  if (tir_dtype_class(e.type) == TIR_CLASS_FLOAT)
    e.u.f64 = slot->default_f64;
  else
    e.u.i64 = slot->default_i64;
  td_buf_puts(p->out, " default ");
  tir_put_constant(p, &e);
}

/* `%name` is left out where it is the slot's own, as it nearly always is. */
static void print_slot(tir_printer_t *p, const tir_func_t *func, uint32_t at) {
  static const char *const kinds[] = {"in", "out", "inout"};
  const tir_slot_t *slot = &func->slots[at];
  const tir_value_t *v = slot->kind == TIR_OUT ? slot->result : slot->value;
  td_buf_printf(p->out, "%s ", kinds[slot->kind]);
  word_or_string(p, slot->name);
  if (slot->kind != TIR_OUT) {
    tir_name_value(p, v);
    const char *name = tir_name_of(&p->value_names, v);
    if (name == NULL || strcmp(name, slot->name) != 0) {
      td_buf_putc(p->out, ' ');
      tir_put_value(p, v);
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

/* Results are named last, when the values they name have been printed. */
static void returns(tir_printer_t *p, const tir_func_t *func) {
  const char *before = "  return ";
  bool any = false;
  for (uint32_t i = 0; i < func->slot_count; i++) {
    const tir_slot_t *slot = &func->slots[i];
    if (slot->kind == TIR_IN) continue;
    td_buf_puts(p->out, any ? ", " : before);
    word_or_string(p, slot->name);
    td_buf_puts(p->out, " = ");
    tir_put_value(p, slot->result);
    any = true;
  }
  if (any) td_buf_puts(p->out, "\n");
}

static void print_func(tir_printer_t *p, const tir_func_t *func) {
  td_map_init(&p->value_names, &p->arena);
  td_map_init(&p->word_names, &p->arena);
  td_map_init(&p->taken_values, &p->arena);
  td_map_init(&p->taken_words, &p->arena);
  td_map_init(&p->renamed, &p->arena);
  td_map_init(&p->lets, &p->arena);
  for (uint32_t i = 0; i < func->dim_count; i++) tir_name_dim(p, func->dims[i]);
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
    td_buf_puts(p->out, tir_name_of(&p->word_names, dim));
    range(p, "in", dim->lo, dim->hi);
  }
  td_buf_puts(p->out, func->dim_count > 0 ? ")" : "");
  loc(p, func->loc);
  td_buf_puts(p->out, " {\n");
  p->depth = 1;
  for (uint32_t i = 0; i < func->require_count; i++) {
    tir_require_t *r = &func->requires[i];
    td_buf_puts(p->out, "  require");
    sep(p, tir_put_lets(p, &r->cond, 1));
    tir_put_expr(p, r->cond, false);
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
  tir_printer_t p = {.out = out,
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

void tir_print_names(td_arena_t *arena, const tir_module_t *module,
                     const tir_func_t *func, td_map_t *names) {
  td_buf_t text; /* names are made as they are printed */
  td_buf_init(&text, arena->task);
  tir_printer_t p = {
      .out = &text, .module_arena = module->arena, .pool = module->pool};
  td_arena_init(&p.arena, arena->task);
  print_func(&p, func);
  td_map_init(names, arena);
  for (size_t i = 0; i < p.value_names.length; i++) {
    const char *name = p.value_names.entries[i].value;
    td_map_put_u64(names, p.value_names.entries[i].number,
                   (void *)(uintptr_t)td_arena_strdup(arena, name));
  }
  td_arena_free_all(&p.arena);
  td_buf_free(&text);
}

void tir_print(td_buf_t *out, const tir_module_t *module) {
  print_module(out, module, false);
}

void tir_print_locs(td_buf_t *out, const tir_module_t *module) {
  print_module(out, module, true);
}
