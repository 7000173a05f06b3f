/* ast_print.c: syntax trees as text: `dump ast`, and expressions in messages.
 *
 * Chains are printed flat.  Indenting each link of a million-term sum under
 * the next would make the text quadratic, so a chain has one heading and its
 * links below it at one indentation:
 *
 *     chain 2:7-2:16
 *       name a 2:7-2:8
 *       + 2:9-2:10
 *         name b 2:11-2:12
 *       [] 2:12-2:15
 *         name i 2:13-2:14
 */
#include "frontend/ast.h"
#include "runtime/base/task.h"

typedef struct printer {
  td_buf_t *out;
  td_arena_t arena; /* spines; emptied after each declaration */
  unsigned depth;   /* of indentation; not used for text on one line */
} printer_t;

static void expr(printer_t *p, ast_expr_t *e);
static void block(printer_t *p, const ast_block_t *b);

/* Starts a line at the current indentation. */
static void word(printer_t *p, const char *text) {
  td_buf_pad(p->out, ' ', (size_t)p->depth * 2);
  td_buf_puts(p->out, text);
}

/* A further word of the line, if there is one. */
static void detail(printer_t *p, const char *text) {
  if (text) td_buf_printf(p->out, " %s", text);
}

/* Ends a line with the place: line and column of the first byte, and of the
 * byte behind the last. */
static void place(printer_t *p, td_loc_t loc) {
  td_buf_printf(p->out, " %u:%u-%u:%u\n", loc.line, loc.column, loc.end_line,
                loc.end_column);
}

static void line(printer_t *p, const char *w, const char *text, td_loc_t loc) {
  word(p, w);
  detail(p, text);
  place(p, loc);
}

static void names(printer_t *p, const char *w, const ast_name_t *n,
                  size_t count) {
  for (size_t i = 0; i < count; i++) line(p, w, n[i].text, n[i].loc);
}

static void range(printer_t *p, const ast_range_t *r) {
  if (!r) return;
  line(p, "range", NULL, r->loc);
  p->depth++;
  if (r->lo) expr(p, r->lo);
  expr(p, r->hi);
  p->depth--;
}

static void shard(printer_t *p, const ast_shard_t *s) {
  if (!s) return;
  line(p, "mark", s->fn.text, s->loc);
  p->depth++;
  names(p, "axis", s->axes, s->axis_count);
  p->depth--;
}

/* Subscripts in order; a lone expression needs no heading. */
static void subs(printer_t *p, const ast_expr_t *e) {
  for (size_t i = 0; i < e->sub_count; i++) {
    const ast_sub_t *s = &e->subs[i];
    switch (s->form) {
    case AST_SUB_EXPR: expr(p, s->expr); break;
    case AST_SUB_ALL: line(p, "all", NULL, s->loc); break;
    case AST_SUB_INDEX:
      line(p, "index", s->name.text, s->loc);
      p->depth++;
      range(p, s->range);
      shard(p, s->shard);
      p->depth--;
      break;
    }
  }
  if (!e->other) return;
  line(p, "otherwise", NULL, e->other->loc);
  p->depth++;
  expr(p, e->other);
  p->depth--;
}

/* Arguments of a call or attribute; only named ones have a heading. */
static void args(printer_t *p, const ast_arg_t *a, size_t count) {
  for (size_t i = 0; i < count; i++, a++) {
    if (a->dtype_text) {
      line(p, "dtype", a->dtype_text, a->loc);
    } else if (a->name.text) {
      line(p, "argument", a->name.text, a->loc);
      p->depth++;
      expr(p, a->value);
      p->depth--;
    } else {
      expr(p, a->value);
    }
  }
}

static void where(printer_t *p, ast_expr_t *e) {
  if (!e) return;
  line(p, "where", NULL, e->loc);
  p->depth++;
  expr(p, e);
  p->depth--;
}

/* The heading of a node that begins a spine, and what is below it. */
static void head(printer_t *p, ast_expr_t *e) {
  const char *w = ast_expr_word(e->kind), *text = e->text;
  switch (e->kind) {
  case AST_STRING:
    word(p, w);
    td_buf_printf(p->out, " \"%s\"", e->text);
    place(p, e->loc);
    return;
  case AST_BOOL: text = e->i64 ? "true" : "false"; break;
  case AST_UNARY:
  case AST_BINARY: text = ast_op_text(e->op); break;
  case AST_REDUCE:
  case AST_REDCALL: text = ast_reduce_text(e->reduce); break;
  case AST_NAME:
  case AST_INT:
  case AST_FLOAT:
  case AST_INF:
  case AST_IF:
  case AST_CAST:
  case AST_FIELD:
  case AST_CALL:
  case AST_SUBSCRIPT: break;
  }
  line(p, w, text, e->loc);
  p->depth++;
  for (size_t i = 0; i < e->binder_count; i++) {
    const ast_binder_t *b = &e->binders[i];
    line(p, "index", b->name.text, b->loc);
    p->depth++;
    range(p, b->range);
    p->depth--;
  }
  where(p, e->where);
  for (size_t i = 0; i < e->kid_count; i++) expr(p, e->kids[i]);
  p->depth--;
}

/* One link of a chain, without what is left of it. */
static void chain_link(printer_t *p, ast_expr_t *e) {
  td_loc_t at = e->op_loc;
  if (e->kind == AST_BINARY) {
    line(p, ast_op_text(e->op), NULL, at);
  } else if (e->kind == AST_FIELD) {
    line(p, ".", e->text, at);
  } else {
    line(p, e->kind == AST_CALL ? "()" : "[]", NULL, at);
  }
  p->depth++;
  for (size_t i = 1; i < e->kid_count; i++) expr(p, e->kids[i]);
  subs(p, e);
  args(p, e->args, e->arg_count);
  p->depth--;
}

static void expr(printer_t *p, ast_expr_t *e) {
  ast_spine_t spine = ast_spine(&p->arena, e);
  if (spine.count == 1) {
    head(p, e);
    return;
  }
  line(p, "chain", NULL, e->loc);
  p->depth++;
  head(p, spine.nodes[0]);
  for (size_t i = 1; i < spine.count; i++) chain_link(p, spine.nodes[i]);
  p->depth--;
}

static void exprs(printer_t *p, ast_expr_t *const *e, size_t count) {
  for (size_t i = 0; i < count; i++) expr(p, e[i]);
}

static void dims(printer_t *p, const char *w, const ast_dim_t *d,
                 size_t count) {
  for (size_t i = 0; i < count; i++, d++) {
    line(p, d->pack.text ? "pack" : w, d->pack.text, d->loc);
    p->depth++;
    if (d->expr) expr(p, d->expr);
    shard(p, d->shard);
    p->depth--;
  }
}

static void type(printer_t *p, const ast_type_t *t) {
  static const char *const forms[] = {"as", "layout", "partial", "in"};
  if (!t) return;
  line(p, "type", t->elem.text, t->loc);
  p->depth++;
  dims(p, "stack", t->stacks, t->stack_count);
  dims(p, "dim", t->dims, t->dim_count);
  for (size_t i = 0; i < t->suffix_count; i++) {
    const ast_suffix_t *s = &t->suffixes[i];
    line(p, forms[s->form], s->dtype_text, s->loc);
    p->depth++;
    shard(p, s->shard);
    names(p, "axis", s->axes, s->axis_count);
    range(p, s->range);
    p->depth--;
  }
  p->depth--;
}

static void attrs(printer_t *p, const ast_attr_t *a, size_t count) {
  for (size_t i = 0; i < count; i++, a++) {
    line(p, "with", a->name.text, a->loc);
    p->depth++;
    args(p, a->args, a->arg_count);
    p->depth--;
  }
}

/* One shape serves all kinds: what a kind does not have is empty. */
static void stmt(printer_t *p, const ast_stmt_t *s) {
  word(p, ast_stmt_word(s->kind));
  if (s->is_var) detail(p, "var");
  if (s->kind == AST_STMT_UPDATE) detail(p, s->is_add ? "+=" : ":=");
  place(p, s->loc);
  p->depth++;
  names(p, "name", s->names, s->name_count);
  for (size_t i = 0; i < s->lhs_count; i++) {
    expr(p, s->lhss[i].place);
    type(p, s->lhss[i].type);
  }
  range(p, s->range);
  exprs(p, s->exprs, s->expr_count);
  if (s->value) expr(p, s->value);
  if (s->text) {
    word(p, "text");
    td_buf_printf(p->out, " \"%s\"\n", s->text);
  }
  where(p, s->where);
  attrs(p, s->attrs, s->attr_count);
  block(p, s->body);
  p->depth--;
}

static void block(printer_t *p, const ast_block_t *b) {
  if (!b) return;
  line(p, "block", NULL, b->loc);
  p->depth++;
  for (size_t i = 0; i < b->count; i++) stmt(p, b->stmts[i]);
  p->depth--;
}

static void items(printer_t *p, const ast_decl_t *d) {
  for (size_t i = 0; i < d->item_count; i++) {
    line(p, "item", d->items[i].name.text, d->items[i].loc);
    p->depth++;
    if (d->items[i].value) expr(p, d->items[i].value);
    p->depth--;
  }
}

/* What stands between the name of a struct or function and its body. */
static void signature(printer_t *p, const ast_decl_t *d) {
  for (size_t i = 0; i < d->generic_count; i++) {
    const ast_generic_t *g = &d->generics[i];
    word(p, g->is_pack ? "pack" : "generic");
    detail(p, g->name.text);
    detail(p, g->what.text);
    place(p, g->loc);
  }
  for (size_t i = 0; i < d->field_count; i++) {
    const ast_field_t *f = &d->fields[i];
    line(p, "field", f->name.text, f->loc);
    p->depth++;
    type(p, f->type);
    if (f->from) {
      word(p, "from");
      td_buf_printf(p->out, " \"%s\"", f->from);
      place(p, f->from_loc);
    }
    if (f->other.text) line(p, "else", f->other.text, f->other.loc);
    p->depth--;
  }
  for (size_t i = 0; i < d->param_count; i++) {
    const ast_param_t *a = &d->params[i];
    line(p, a->is_inout ? "inout" : "param", a->name.text, a->loc);
    p->depth++;
    type(p, a->type);
    if (a->value) expr(p, a->value);
    p->depth--;
  }
  for (size_t i = 0; i < d->result_count; i++) {
    line(p, "result", d->results[i].name.text, d->results[i].loc);
    p->depth++;
    type(p, d->results[i].type);
    p->depth--;
  }
}

static void decl(printer_t *p, const ast_decl_t *d) {
  word(p, ast_decl_word(d->kind));
  if (d->is_export) detail(p, "export");
  detail(p, d->name.text);
  place(p, d->loc);
  p->depth++;
  names(p, "name", d->names, d->name_count);
  items(p, d);
  exprs(p, d->exprs, d->expr_count);
  signature(p, d);
  attrs(p, d->attrs, d->attr_count);
  block(p, d->body);
  if (d->value) expr(p, d->value);
  p->depth--;
}

void ast_print(td_task_t *task, td_buf_t *out, const ast_file_t *file) {
  printer_t p = {.out = out};
  td_arena_init(&p.arena, task);
  for (size_t i = 0; i < file->decl_count; i++) {
    decl(&p, file->decls[i]);
    td_arena_free_all(&p.arena);
  }
}

/* ---- expressions as text ----------------------------------------------
 * Parentheses come from levels alone, so a text made here parses to the tree
 * it was made from.  Where the grammar would also take a looser operand (an
 * `if` on the right of +), parentheses are put: the reader of a message
 * should not have to know how far such an operand reaches. */

/* Levels of the table of operators; PRIMARY binds tightest. */
enum {
  LOOSEST = 1,
  UNARY_NOT = 4,
  SUM = 6,
  BODY = 7,
  PRODUCT = 8,
  MINUS = 9,
  POWER = 10,
  PRIMARY = 11
};

static int level(const ast_expr_t *e) {
  switch (e->kind) {
  case AST_IF: return LOOSEST;
  case AST_REDUCE: return BODY;
  case AST_UNARY: return e->op == AST_OP_NOT ? UNARY_NOT : MINUS;
  case AST_BINARY:
    switch (e->op) {
    case AST_OP_OR: return 2;
    case AST_OP_AND: return 3;
    case AST_OP_NOT: return UNARY_NOT;
    case AST_OP_EQ:
    case AST_OP_NE:
    case AST_OP_LT:
    case AST_OP_GT:
    case AST_OP_LE:
    case AST_OP_GE: return 5;
    case AST_OP_ADD:
    case AST_OP_SUB: return SUM;
    case AST_OP_MUL:
    case AST_OP_DIV:
    case AST_OP_MOD: return PRODUCT;
    case AST_OP_NEG: return MINUS;
    case AST_OP_POW: return POWER;
    }
    return LOOSEST;
  case AST_NAME:
  case AST_INT:
  case AST_FLOAT:
  case AST_BOOL:
  case AST_INF:
  case AST_STRING:
  case AST_REDCALL:
  case AST_CAST:
  case AST_FIELD:
  case AST_CALL:
  case AST_SUBSCRIPT: return PRIMARY;
  }
  return LOOSEST;
}

/* The level that the left of a node must have to stand without ( ).  The
 * base of a field, call or subscript is a place or a value in ( ). */
static int left_level(const ast_expr_t *e) {
  int own = level(e);
  if (e->kind != AST_BINARY) return PRIMARY;
  return own == 5 ? SUM : own;
}

static bool is_post(const ast_expr_t *e) {
  return e->kind == AST_NAME || e->kind == AST_FIELD || e->kind == AST_CALL ||
         e->kind == AST_SUBSCRIPT;
}

static bool needs_parens(const ast_expr_t *left, const ast_expr_t *of) {
  if (of->kind != AST_BINARY) return !is_post(left);
  return level(left) < left_level(of);
}

static void text(printer_t *p, ast_expr_t *e, int least);

static void text_range(printer_t *p, const ast_range_t *r) {
  if (r->lo) {
    text(p, r->lo, LOOSEST);
    td_buf_puts(p->out, " .. ");
  }
  text(p, r->hi, LOOSEST);
}

static void text_shard(printer_t *p, const ast_shard_t *s) {
  td_buf_putc(p->out, '@');
  if (s->fn.text) td_buf_puts(p->out, s->fn.text);
  if (s->form != AST_SHARD_AXIS) td_buf_putc(p->out, '(');
  for (size_t i = 0; i < s->axis_count; i++) {
    if (i > 0) td_buf_puts(p->out, ", ");
    td_buf_puts(p->out, s->axes[i].text);
  }
  if (s->form != AST_SHARD_AXIS) td_buf_putc(p->out, ')');
}

static void text_subs(printer_t *p, const ast_expr_t *e) {
  td_buf_putc(p->out, '[');
  for (size_t i = 0; i < e->sub_count; i++) {
    const ast_sub_t *s = &e->subs[i];
    if (i > 0) td_buf_puts(p->out, ", ");
    switch (s->form) {
    case AST_SUB_EXPR: text(p, s->expr, LOOSEST); break;
    case AST_SUB_ALL: td_buf_putc(p->out, ':'); break;
    case AST_SUB_INDEX:
      td_buf_puts(p->out, s->name.text);
      if (s->range) {
        td_buf_puts(p->out, " in ");
        text_range(p, s->range);
        if (s->shard) td_buf_putc(p->out, ' ');
      }
      if (s->shard) text_shard(p, s->shard);
      break;
    }
  }
  if (e->other) {
    td_buf_puts(p->out, " | ");
    text(p, e->other, LOOSEST);
  }
  td_buf_putc(p->out, ']');
}

static void text_args(printer_t *p, const ast_expr_t *e) {
  td_buf_putc(p->out, '(');
  for (size_t i = 0; i < e->arg_count; i++) {
    const ast_arg_t *a = &e->args[i];
    if (i > 0) td_buf_puts(p->out, ", ");
    if (a->name.text) td_buf_printf(p->out, "%s = ", a->name.text);
    if (a->dtype_text) td_buf_puts(p->out, a->dtype_text);
    if (a->value) text(p, a->value, LOOSEST);
  }
  td_buf_putc(p->out, ')');
}

static void text_reduce(printer_t *p, const ast_expr_t *e) {
  td_buf_printf(p->out, "%s[", ast_reduce_text(e->reduce));
  for (size_t i = 0; i < e->binder_count; i++) {
    if (i > 0) td_buf_puts(p->out, ", ");
    td_buf_puts(p->out, e->binders[i].name.text);
    if (e->binders[i].range) {
      td_buf_puts(p->out, " in ");
      text_range(p, e->binders[i].range);
    }
  }
  if (e->where) {
    td_buf_puts(p->out, " where ");
    text(p, e->where, LOOSEST);
  }
  td_buf_puts(p->out, "] ");
  text(p, e->kids[0], BODY);
}

/* A node without a left; of what it holds only kids[0] can be long, and it
 * is a spine of its own. */
static void text_head(printer_t *p, const ast_expr_t *e) {
  td_buf_t *out = p->out;
  switch (e->kind) {
  case AST_NAME:
  case AST_INT:
  case AST_FLOAT: td_buf_puts(out, e->text); break;
  case AST_BOOL: td_buf_puts(out, e->i64 ? "true" : "false"); break;
  case AST_INF: td_buf_puts(out, "inf"); break;
  case AST_STRING: td_buf_printf(out, "\"%s\"", e->text); break;
  case AST_UNARY:
    td_buf_puts(out, e->op == AST_OP_NOT ? "not " : "-");
    text(p, e->kids[0], e->op == AST_OP_NOT ? UNARY_NOT : MINUS);
    break;
  case AST_BINARY: /* ^ only: the others have a left */
    text(p, e->kids[0], PRIMARY);
    td_buf_printf(out, " %s ", ast_op_text(e->op));
    text(p, e->kids[1], POWER);
    break;
  case AST_IF:
    td_buf_puts(out, "if ");
    text(p, e->kids[0], LOOSEST);
    td_buf_puts(out, " then ");
    text(p, e->kids[1], LOOSEST);
    td_buf_puts(out, " else ");
    text(p, e->kids[2], LOOSEST);
    break;
  case AST_REDUCE: text_reduce(p, e); break;
  case AST_REDCALL:
    td_buf_printf(out, "%s(", ast_reduce_text(e->reduce));
    for (size_t i = 0; i < e->kid_count; i++) {
      if (i > 0) td_buf_puts(out, ", ");
      text(p, e->kids[i], LOOSEST);
    }
    td_buf_putc(out, ')');
    break;
  case AST_CAST:
    td_buf_printf(out, "%s(", e->text);
    text(p, e->kids[0], LOOSEST);
    td_buf_putc(out, ')');
    break;
  case AST_FIELD:
  case AST_CALL:
  case AST_SUBSCRIPT: break; /* these have a left */
  }
}

/* Prints e, in ( ) if it binds more loosely than `least`.  All parentheses
 * that open before the leftmost link are counted off first, from the outside
 * in; each closes behind its own link. */
static void text(printer_t *p, ast_expr_t *e, int least) {
  ast_spine_t spine = ast_spine(&p->arena, e);
  size_t last = spine.count - 1;
  for (size_t i = last + 1; i-- > 0;) {
    bool open = i == last ? level(e) < least
                          : needs_parens(spine.nodes[i], spine.nodes[i + 1]);
    if (open) td_buf_putc(p->out, '(');
  }
  for (size_t i = 0; i <= last; i++) {
    ast_expr_t *x = spine.nodes[i];
    if (i == 0) {
      text_head(p, x);
    } else if (x->kind == AST_BINARY) {
      td_buf_printf(p->out, " %s ", ast_op_text(x->op));
      text(p, x->kids[1], level(x) + 1);
    } else if (x->kind == AST_FIELD) {
      td_buf_printf(p->out, ".%s", x->text);
    } else if (x->kind == AST_CALL) {
      text_args(p, x);
    } else {
      text_subs(p, x);
    }
    bool close =
        i == last ? level(e) < least : needs_parens(x, spine.nodes[i + 1]);
    if (close) td_buf_putc(p->out, ')');
  }
}

void ast_print_expr(td_task_t *task, td_buf_t *out, ast_expr_t *e) {
  printer_t p = {.out = out};
  td_arena_init(&p.arena, task);
  text(&p, e, LOOSEST);
  td_arena_free_all(&p.arena);
}
