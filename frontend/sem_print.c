/* sem_print.c: the checked tree as text, for tests and for looking at.
 *
 * One statement a line.  A value of other than its operands' type carries it:
 * `(x[i] * w[i]):f32`.  The same tree gives the same bytes: names, never
 * addresses; polys print sorted. */
#include "frontend/sem.h"
#include "runtime/base/num.h"

typedef struct printer {
  td_buf_t *out;
  td_arena_t arena;
  uint32_t indent;
} printer_t;

static void put_expr(printer_t *p, const sem_expr_t *e);

/* Never NULL in a finished tree; shown if it is. */
static void put_poly(printer_t *p, const ix_poly_t *q) {
  if (q == NULL) {
    td_buf_putc(p->out, '?');
  } else {
    ix_print(p->out, q);
  }
}

/* Values, not the text of the author: the tree is what lowering reads. */
static void put_dims(printer_t *p, const sem_type_t *t) {
  if (t->rank == 0) return;
  td_buf_putc(p->out, '[');
  for (uint32_t i = 0; i < t->rank; i++) {
    if (i > 0) td_buf_puts(p->out, ", ");
    put_poly(p, t->dims[i].size);
  }
  td_buf_putc(p->out, ']');
}

/* In the syntax of the language. */
static void put_type(printer_t *p, const sem_type_t *t) {
  if (t->kind == SEM_STRUCT) {
    put_dims(p, t);
    if (t->rank > 0) td_buf_putc(p->out, ' ');
    td_buf_puts(p->out, t->record->name);
    if (t->dtype != TDSL_DTYPE_UNSET) {
      td_buf_printf(p->out, " as %s", td_dtype_name(t->dtype));
    }
    return;
  }
  td_buf_puts(p->out, td_dtype_name(t->dtype));
  put_dims(p, t);
  if (t->lo != NULL || t->hi != NULL) {
    td_buf_puts(p->out, " in ");
    put_poly(p, t->lo);
    td_buf_puts(p->out, " .. ");
    put_poly(p, t->hi);
  }
}

/* ---- expressions --------------------------------------------------------- */

/* Functions by name, operators as written. */
static const char *op_text(sem_op_t op) {
  switch (op) {
  case SEM_OP_NONE: return "";
  case SEM_OP_NEG: return "-";
  case SEM_OP_NOT: return "not ";
  case SEM_OP_ABS: return "abs";
  case SEM_OP_FLOOR: return "floor";
  case SEM_OP_CEIL: return "ceil";
  case SEM_OP_ROUND: return "round";
  case SEM_OP_EXP: return "exp";
  case SEM_OP_EXP2: return "exp2";
  case SEM_OP_LOG: return "log";
  case SEM_OP_LOG2: return "log2";
  case SEM_OP_SQRT: return "sqrt";
  case SEM_OP_RSQRT: return "rsqrt";
  case SEM_OP_SIN: return "sin";
  case SEM_OP_COS: return "cos";
  case SEM_OP_TANH: return "tanh";
  case SEM_OP_ERF: return "erf";
  case SEM_OP_ADD: return "+";
  case SEM_OP_SUB: return "-";
  case SEM_OP_MUL: return "*";
  case SEM_OP_DIV: return "/";
  case SEM_OP_MOD: return "%";
  case SEM_OP_POW: return "^";
  case SEM_OP_MIN: return "min";
  case SEM_OP_MAX: return "max";
  case SEM_OP_EQ: return "==";
  case SEM_OP_NE: return "!=";
  case SEM_OP_LT: return "<";
  case SEM_OP_LE: return "<=";
  case SEM_OP_GT: return ">";
  case SEM_OP_GE: return ">=";
  case SEM_OP_AND: return "and";
  case SEM_OP_OR: return "or";
  }
  return "";
}

const char *sem_reduce_text(sem_reduce_t op) {
  switch (op) {
  case SEM_SUM: return "sum";
  case SEM_PROD: return "prod";
  case SEM_MAX: return "max";
  case SEM_MIN: return "min";
  case SEM_ANY: return "any";
  case SEM_ALL: return "all";
  case SEM_ARGMAX: return "argmax";
  case SEM_ARGMIN: return "argmin";
  }
  return "";
}

/* Floats with their dtype: it says to what they are rounded. */
static void put_const(printer_t *p, const sem_expr_t *e) {
  if (e->is_unknown) {
    td_buf_putc(p->out, '?');
  } else if (e->type.dtype == TDSL_DTYPE_BOOL) {
    td_buf_puts(p->out, e->i64 ? "true" : "false");
  } else if (td_dtype_is_int(e->type.dtype)) {
    td_buf_printf(p->out, "%lld", (long long)e->i64);
  } else {
    td_buf_f64(p->out, e->f64);
    td_buf_printf(p->out, ":%s", td_dtype_name(e->type.dtype));
  }
}

/* Operands in order. */
static void put_args(printer_t *p, const sem_expr_t *e) {
  td_buf_putc(p->out, '(');
  for (uint32_t i = 0; i < e->arg_count; i++) {
    if (i > 0) td_buf_puts(p->out, ", ");
    put_expr(p, e->args[i]);
  }
  td_buf_putc(p->out, ')');
}

/* A range from 0 by its extent. */
static void put_index(printer_t *p, const sem_index_t *i) {
  int64_t zero = 1;
  td_buf_printf(p->out, "%s in ", i->name);
  if (ix_is_const(i->lo, &zero) && zero == 0) {
    put_poly(p, i->extent);
    return;
  }
  put_poly(p, i->lo);
  td_buf_puts(p->out, " + 0 .. ");
  put_poly(p, i->extent);
}

/* With the guard, as in a reduction. */
static void put_indices(printer_t *p, uint32_t count,
                        sem_index_t *const *indices,
                        const sem_expr_t *guard) {
  td_buf_putc(p->out, '[');
  for (uint32_t i = 0; i < count; i++) {
    if (i > 0) td_buf_puts(p->out, ", ");
    put_index(p, indices[i]);
  }
  if (guard != NULL) {
    td_buf_puts(p->out, count > 0 ? " where " : "where ");
    put_expr(p, guard);
  }
  td_buf_putc(p->out, ']');
}

/* With what every generic stands for. */
static void put_call(printer_t *p, const sem_expr_t *e) {
  td_buf_puts(p->out, e->callee->name);
  if (e->binding_count > 0) {
    td_buf_putc(p->out, '[');
    for (uint32_t i = 0; i < e->binding_count; i++) {
      if (i > 0) td_buf_puts(p->out, ", ");
      td_buf_printf(p->out, "%s = ", e->bindings[i].generic->name);
      put_poly(p, e->bindings[i].value);
    }
    td_buf_putc(p->out, ']');
  }
  put_args(p, e);
}

/* In brackets, `|` included. */
static void put_subs(printer_t *p, const sem_expr_t *e) {
  td_buf_putc(p->out, '[');
  for (uint32_t i = 0; i < e->sub_count; i++) {
    if (i > 0) td_buf_puts(p->out, ", ");
    if (e->subs[i].expr == NULL) {
      td_buf_putc(p->out, ':');
    } else {
      put_expr(p, e->subs[i].expr);
    }
  }
  if (e->otherwise != NULL) {
    td_buf_puts(p->out, " | ");
    put_expr(p, e->otherwise);
  }
  td_buf_putc(p->out, ']');
}

/* What stands behind the left operand of a chain. */
static void put_rest(printer_t *p, const sem_expr_t *e) {
  if (e->kind == SEM_FIELD) {
    const sem_struct_t *s = e->args[0]->type.record;
    td_buf_printf(p->out, ".%s", s->fields[e->field].name);
  } else if (e->kind == SEM_SUBSCRIPT) {
    put_subs(p, e);
  } else {
    td_buf_printf(p->out, " %s ", op_text(e->op));
    put_expr(p, e->args[1]);
    td_buf_putc(p->out, ')');
    if (e->type.dtype != e->args[0]->type.dtype &&
        e->type.dtype != TDSL_DTYPE_BOOL) {
      td_buf_printf(p->out, ":%s", td_dtype_name(e->type.dtype));
    }
  }
}

/* What nests to the left without limit. */
static bool is_chain(const sem_expr_t *e) {
  return e->kind == SEM_FIELD || e->kind == SEM_SUBSCRIPT ||
         e->kind == SEM_BINARY;
}

/* Everything else; nesting here is capped by the parser. */
static void put_leaf(printer_t *p, const sem_expr_t *e) {
  switch (e->kind) {
  case SEM_CONST: put_const(p, e); return;
  case SEM_DIM: {
    bool is_bare = ix_as_symbol(e->poly) != NULL || e->poly->term_count == 0;
    if (!is_bare) td_buf_putc(p->out, '(');
    put_poly(p, e->poly);
    if (!is_bare) td_buf_putc(p->out, ')');
    return;
  }
  case SEM_INDEX: td_buf_puts(p->out, e->index->name); return;
  case SEM_NAME: td_buf_puts(p->out, e->symbol->name); return;
  case SEM_UNARY:
    td_buf_puts(p->out, op_text(e->op));
    put_args(p, e);
    return;
  case SEM_SELECT:
    td_buf_puts(p->out, "if");
    put_args(p, e);
    return;
  case SEM_CAST:
    td_buf_puts(p->out, td_dtype_name(e->type.dtype));
    put_args(p, e);
    return;
  case SEM_WIDEN:
    td_buf_printf(p->out, "widen.%s", td_dtype_name(e->type.dtype));
    put_args(p, e);
    return;
  case SEM_REDUCE:
    td_buf_puts(p->out, sem_reduce_text(e->reduce));
    put_indices(p, e->index_count, e->indices, e->guard);
    put_args(p, e);
    return;
  case SEM_REDUCE_ALL:
    td_buf_puts(p->out, sem_reduce_text(e->reduce));
    put_args(p, e);
    return;
  case SEM_UNIFORM:
    td_buf_puts(p->out, "uniform");
    put_args(p, e);
    return;
  case SEM_CALL: put_call(p, e); return;
  case SEM_TOPK:
    td_buf_puts(p->out, "topk[");
    put_poly(p, e->poly);
    td_buf_putc(p->out, ']');
    put_args(p, e);
    return;
  case SEM_GRAD:
    td_buf_puts(p->out, "grad");
    put_args(p, e);
    return;
  case SEM_FIELD:
  case SEM_SUBSCRIPT:
  case SEM_BINARY: return; /* chains */
  }
}

/* Left chains in a loop: first every opening parenthesis, then outwards. */
static void put_expr(printer_t *p, const sem_expr_t *e) {
  size_t length = 0;
  const sem_expr_t *leaf = e;
  for (; is_chain(leaf); leaf = leaf->args[0]) length++;
  const sem_expr_t **chain =
      TD_NEW_ARRAY(&p->arena, const sem_expr_t *, length);
  size_t n = length;
  for (const sem_expr_t *x = e; is_chain(x); x = x->args[0]) {
    chain[--n] = x;
    if (x->kind == SEM_BINARY) td_buf_putc(p->out, '(');
  }
  put_leaf(p, leaf);
  for (size_t i = 0; i < length; i++) put_rest(p, chain[i]);
}

/* ---- statements ---------------------------------------------------------- */

static void put_block(printer_t *p, const sem_block_t *b);

/* Two blanks for each block. */
static void start_line(printer_t *p) {
  td_buf_pad(p->out, ' ', (size_t)p->indent * 2);
}

/* unwritten: the name holds what the formula gives. */
static void put_target(printer_t *p, const sem_target_t *t) {
  td_buf_puts(p->out, t->symbol->name);
  if (t->sub_count > 0) {
    td_buf_putc(p->out, '[');
    for (uint32_t i = 0; i < t->sub_count; i++) {
      if (i > 0) td_buf_puts(p->out, ", ");
      td_buf_puts(p->out, t->subs[i] == NULL ? ":" : t->subs[i]->name);
    }
    td_buf_putc(p->out, ']');
  }
  td_buf_puts(p->out, t->symbol->is_written ? ": " : ": unwritten ");
  put_type(p, &t->symbol->type);
}

/* Bounds as they are read. */
static void put_for(printer_t *p, const sem_stmt_t *s) {
  td_buf_printf(p->out, "for %s in ", s->loop->name);
  put_expr(p, s->lo);
  td_buf_puts(p->out, " .. ");
  put_expr(p, s->hi);
  td_buf_puts(p->out, " {\n");
  put_block(p, s->body);
  start_line(p);
  td_buf_puts(p->out, "}\n");
}

/* One block for each leaf, with the extents of its loops. */
static void put_each(printer_t *p, const sem_stmt_t *s) {
  td_buf_puts(p->out, "each {\n");
  p->indent++;
  for (uint32_t i = 0; i < s->leaf_count; i++) {
    start_line(p);
    td_buf_puts(p->out, "leaf");
    for (uint32_t k = 0; k < s->leaves[i].loop_count; k++) {
      td_buf_puts(p->out, k > 0 ? ", " : " in ");
      put_poly(p, s->leaves[i].extents[k]);
    }
    td_buf_puts(p->out, " {\n");
    put_block(p, s->leaves[i].body);
    start_line(p);
    td_buf_puts(p->out, "}\n");
  }
  p->indent--;
  start_line(p);
  td_buf_puts(p->out, "}\n");
}

/* `may meet`: two tuples may write one element. */
static void put_update(printer_t *p, const sem_stmt_t *s) {
  if (s->index_count > 0 || s->guard != NULL) {
    td_buf_puts(p->out, "all");
    put_indices(p, s->index_count, s->indices, s->guard);
    td_buf_putc(p->out, ' ');
  }
  put_expr(p, s->place);
  if (s->sub_count > 0) {
    td_buf_putc(p->out, '[');
    for (uint32_t i = 0; i < s->sub_count; i++) {
      if (i > 0) td_buf_puts(p->out, ", ");
      if (s->subs[i] == NULL) td_buf_putc(p->out, ':');
      else put_expr(p, s->subs[i]);
    }
    td_buf_putc(p->out, ']');
  }
  td_buf_puts(p->out, s->is_accumulate ? " += " : " := ");
  put_expr(p, s->value);
  td_buf_puts(p->out, s->is_distinct ? "\n" : " // may meet\n");
}

/* One line, or a block. */
static void put_stmt(printer_t *p, const sem_stmt_t *s) {
  start_line(p);
  switch (s->kind) {
  case SEM_DEFINE:
    for (uint32_t i = 0; i < s->target_count; i++) {
      if (i > 0) td_buf_puts(p->out, ", ");
      if (s->targets[i].symbol->is_var) td_buf_puts(p->out, "var ");
      put_target(p, &s->targets[i]);
    }
    td_buf_puts(p->out, " = ");
    put_expr(p, s->value);
    if (s->index_count > 0) {
      td_buf_puts(p->out, " for ");
      put_indices(p, s->index_count, s->indices, NULL);
    }
    td_buf_putc(p->out, '\n');
    return;
  case SEM_UPDATE: put_update(p, s); return;
  case SEM_CALL_STMT:
    put_expr(p, s->value);
    td_buf_putc(p->out, '\n');
    return;
  case SEM_FOR: put_for(p, s); return;
  case SEM_EACH: put_each(p, s); return;
  case SEM_SCOPE:
    td_buf_puts(p->out, "checkpoint {\n");
    put_block(p, s->body);
    start_line(p);
    td_buf_puts(p->out, "}\n");
    return;
  case SEM_ASSERT:
    td_buf_puts(p->out, "assert ");
    put_expr(p, s->value);
    if (s->text != NULL) td_buf_printf(p->out, ", \"%s\"", s->text);
    td_buf_putc(p->out, '\n');
    return;
  }
}

/* In order. */
static void put_block(printer_t *p, const sem_block_t *b) {
  p->indent++;
  for (uint32_t i = 0; i < b->stmt_count; i++) put_stmt(p, b->stmts[i]);
  p->indent--;
}

/* ---- functions and dims -------------------------------------------------- */

/* Parameters and results alike. */
static void put_symbols(printer_t *p, uint32_t count,
                        sem_symbol_t *const *symbols) {
  for (uint32_t i = 0; i < count; i++) {
    if (i > 0) td_buf_puts(p->out, ", ");
    td_buf_printf(p->out, "%s: %s", symbols[i]->name,
                  symbols[i]->kind == SEM_INOUT ? "inout " : "");
    put_type(p, &symbols[i]->type);
    if (symbols[i]->default_value != NULL) {
      td_buf_puts(p->out, " = ");
      put_expr(p, symbols[i]->default_value);
    }
  }
}

/* Head, conditions, body. */
static void put_func(printer_t *p, const sem_func_t *f) {
  td_buf_printf(p->out, "%sfn %s", f->is_entry ? "entry " : "", f->name);
  if (f->generic_count > 0) {
    td_buf_putc(p->out, '[');
    for (uint32_t i = 0; i < f->generic_count; i++) {
      td_buf_printf(p->out, "%s%s", i > 0 ? ", " : "", f->generics[i]->name);
    }
    td_buf_putc(p->out, ']');
  }
  td_buf_putc(p->out, '(');
  put_symbols(p, f->param_count, f->params);
  td_buf_puts(p->out, ")");
  if (f->result_count > 0) {
    td_buf_puts(p->out, " -> (");
    put_symbols(p, f->result_count, f->results);
    td_buf_puts(p->out, ")");
  }
  td_buf_printf(p->out, "%s%s%s%s {\n", f->is_test ? " test" : "",
                f->is_tf32 ? " tf32" : "", f->is_approx ? " approx" : "",
                f->has_grad ? " grad" : "");
  for (uint32_t i = 0; i < f->require_count; i++) {
    td_buf_puts(p->out, "  require ");
    put_expr(p, f->requires[i].cond);
    td_buf_putc(p->out, '\n');
  }
  if (f->body != NULL) put_block(p, f->body);
  td_buf_puts(p->out, "}\n");
}

/* A static dim without value has none. */
static void put_dim(printer_t *p, const sem_global_dim_t *d) {
  td_buf_printf(p->out, "%s %s", d->is_dynamic ? "dyn" : "dim", d->name);
  if (d->is_dynamic) {
    td_buf_puts(p->out, " <= ");
    put_poly(p, d->bound);
  } else if (d->value >= 0) {
    td_buf_printf(p->out, " = %lld", (long long)d->value);
  }
  if (d->config_key != NULL) {
    td_buf_printf(p->out, " config \"%s\"", d->config_key);
  }
  td_buf_putc(p->out, '\n');
}

/* Scratch memory is freed at the end; the text is the caller's. */
void sem_print(td_buf_t *out, const sem_program_t *program) {
  printer_t p = {.out = out};
  td_arena_init(&p.arena, out->task);
  for (uint32_t i = 0; i < program->dim_count; i++) {
    put_dim(&p, &program->dims[i]);
  }
  for (uint32_t i = 0; i < program->axis_count; i++) {
    td_buf_printf(out, "axis %s = %lld\n", program->axis_names[i],
                  (long long)program->axis_sizes[i]);
  }
  for (uint32_t i = 0; i < program->require_count; i++) {
    td_buf_puts(out, "require ");
    put_expr(&p, program->requires[i].cond);
    td_buf_putc(out, '\n');
  }
  for (uint32_t i = 0; i < program->func_count; i++) {
    put_func(&p, program->funcs[i]);
  }
  td_arena_free_all(&p.arena);
}
