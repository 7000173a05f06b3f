/* kir_print.c: kernels as text that kir_parse reads back.
 *
 * 1. Names are given in text order and are unique where they are visible, so
 *    the same kernel prints the same bytes whatever it was made from.
 * 2. An expression that occurs more than once in a statement is printed once,
 *    as `let $n = ...` above it, unless it is small (kir_text.h): the text
 *    stays linear in the size of the DAG.  Sharing between statements says
 *    nothing (each evaluates anew) and is not kept.
 * 3. Nothing recurses over expressions; blocks nest at most KIR_MAX_NESTING
 *    deep, as kir_verify sees to. */
#include "ir/kir_text.h"

#include "ir/tir_text.h"
#include "runtime/base/num.h"

/* A base name: whether it is in use now, and the last suffix tried. */
typedef struct word {
  bool is_taken;
  uint32_t suffix;
} word_t;

typedef struct undo {
  word_t *word;
  word_t before;
} undo_t;

typedef struct printer {
  td_buf_t *out;
  td_arena_t arena; /* names and tables, dropped at the end */
  const kir_kernel_t *kernel;
  td_map_t names;   /* buffer, variable, dim symbol -> const char * */
  td_map_t words;   /* text -> word_t */
  TD_VEC(undo_t) undos; /* of `words`, back to where a block began */
  td_map_t renamed; /* ix_symbol_t -> ix_poly_t, dims whose name changed */
  td_map_t lets;    /* of one statement: kir_expr_t -> number + 1 */
  int depth;        /* of indentation */
} printer_t;

/* ---- names ----------------------------------------------------------------*/

/* Keys of the name tables: identity of the thing named. */
static uint64_t key_of(const void *pointer) {
  return (uint64_t)(uintptr_t)pointer;
}

/* The name with every byte that cannot stand in a word replaced by `_`. */
static td_str_t clean(printer_t *p, const char *name) {
  if (name == NULL || name[0] == '\0') name = "_";
  char *text = td_arena_alloc(&p->arena, strlen(name) + 2);
  strcpy(text, name);
  size_t length = strlen(text);
  if (!tir_is_word(td_str_n(text, 1))) text[0] = '_';
  for (size_t at = 0; at < length;) {
    at += tir_word_length(td_str_n(text + at, length - at));
    if (at < length) text[at] = '_';
  }
  return td_str_n(text, length);
}

/* Words of the grammar count as taken from the start. */
static word_t *find_word(printer_t *p, td_str_t text) {
  word_t *word = td_map_get(&p->words, text);
  if (word != NULL) return word;
  word = TD_NEW(&p->arena, word_t);
  word->is_taken = kir_is_reserved(text);
  td_map_put(&p->words, text, word);
  return word;
}

/* Undone at the end of the block that gives a name. */
static void remember(printer_t *p, word_t *word) {
  td_vec_push(&p->arena, &p->undos, (undo_t){word, *word});
}

/* The suffix that was tried last is kept, so that many variables of one name
 * do not cost the square of their number. */
static const char *unique(printer_t *p, const char *name) {
  td_str_t base = clean(p, name);
  word_t *word = find_word(p, base);
  remember(p, word);
  if (!word->is_taken) {
    word->is_taken = true;
    return base.data;
  }
  for (;;) {
    const char *text =
        td_arena_printf(&p->arena, "%s.%u", base.data, ++word->suffix);
    word_t *other = find_word(p, td_str(text));
    if (other->is_taken) continue;
    remember(p, other);
    other->is_taken = true;
    return text;
  }
}

/* Names given since `mark` are free again. */
static void forget_names(printer_t *p, size_t mark) {
  while (p->undos.length > mark) {
    undo_t u = td_vec_pop(&p->undos);
    *u.word = u.before;
  }
}

static void give_name(printer_t *p, const void *of, const char *name) {
  if (of == NULL) return;
  td_map_put_u64(&p->names, key_of(of),
                 (void *)(uintptr_t)unique(p, name));
}

static void name(printer_t *p, const void *of) {
  const char *text = td_map_get_u64(&p->names, key_of(of));
  td_buf_puts(p->out, text == NULL ? "?" : text);
}

/* Polynomials print the names of their symbols, so a renamed dim needs a
 * symbol of the new name to stand in for it. */
static void name_dim(printer_t *p, const ix_symbol_t *dim) {
  give_name(p, dim, dim->name);
  const char *text = td_map_get_u64(&p->names, key_of(dim));
  if (strcmp(text, dim->name) == 0) return;
  ix_symbol_t *twin =
      ix_symbol_create(p->kernel->pool, td_arena_strdup(p->kernel->arena, text),
                       dim->kind, dim->loc);
  td_map_put_u64(&p->renamed, key_of(dim),
                 (void *)(uintptr_t)ix_sym(p->kernel->pool, twin));
}

static const ix_poly_t *rename_dim(void *user, const ix_symbol_t *s) {
  const printer_t *p = user;
  return td_map_get_u64(&p->renamed, key_of(s));
}

static void poly(printer_t *p, const ix_poly_t *dim) {
  if (dim != NULL && p->renamed.length > 0) {
    dim = ix_subst(p->kernel->pool, dim, rename_dim, p, NULL);
  }
  ix_print(p->out, dim);
}

/* ---- expressions ----------------------------------------------------------*/

/* Floats get a point, so that the parser knows them from integers; f64 says
 * so, since f32 is what kernels mostly hold. */
static void constant(printer_t *p, const kir_expr_t *e) {
  char text[TD_F64_TEXT];
  if (e->type == TDSL_DTYPE_BOOL) {
    td_buf_puts(p->out, e->u.i64 != 0 ? "true" : "false");
    return;
  }
  if (e->type == TDSL_DTYPE_I64) {
    td_buf_printf(p->out, "%lld", (long long)e->u.i64);
    return;
  }
  size_t n = e->type == TDSL_DTYPE_F32
                 ? td_format_f32(text, (float)e->u.f64)
                 : td_format_f64(text, e->u.f64);
  td_buf_put(p->out, text, n);
  bool is_plain = true; /* would read as an integer */
  for (size_t i = 0; i < n; i++) {
    if ((text[i] < '0' || text[i] > '9') && text[i] != '-') is_plain = false;
  }
  if (is_plain) td_buf_puts(p->out, ".0");
  if (e->type == TDSL_DTYPE_F64) td_buf_puts(p->out, ":f64");
}

/* The text before the operands; leaves are whole. */
static void open_expr(printer_t *p, const kir_expr_t *e) {
  switch (e->op) {
    case KIR_X_CONST: constant(p, e); return;
    case KIR_X_VAR: name(p, e->u.var); return;
    case KIR_X_DIM:
      if (e->u.dim != NULL && ix_as_symbol(e->u.dim) != NULL) {
        poly(p, e->u.dim);
        return;
      }
      td_buf_puts(p->out, "dim(");
      poly(p, e->u.dim);
      td_buf_putc(p->out, ')');
      return;
    case KIR_X_FOLD:
      td_buf_printf(p->out, "fold.%s ", kir_x_text(e->fold));
      name(p, e->u.buffer);
      td_buf_putc(p->out, '[');
      return;
    case KIR_X_LOAD:
      if (e->is_safe) td_buf_puts(p->out, "safe ");
      name(p, e->u.buffer);
      td_buf_putc(p->out, '[');
      return;
    case KIR_X_CAST:
      td_buf_printf(p->out, "cast.%s(", td_dtype_name(e->u.to));
      return;
    default: td_buf_printf(p->out, "%s(", kir_x_text(e->op)); return;
  }
}

/* What ends the text that open_expr began; infix operations have neither. */
static const char *close_text(const kir_expr_t *e) {
  switch (e->op) {
    case KIR_X_CONST: case KIR_X_VAR: case KIR_X_DIM: return "";
    case KIR_X_LOAD: case KIR_X_FOLD: return "]";
    default: return ")";
  }
}

typedef struct frame {
  const kir_expr_t *e;
  uint32_t next;
  int level; /* parentheses around what binds no tighter than this */
} frame_t;

/* `is_let`: e is being defined, so its own number must not stand for it. */
static void expr(printer_t *p, const kir_expr_t *root, bool is_let) {
  TD_VEC(frame_t) stack = {0};
  if (root == NULL) {
    td_buf_puts(p->out, "?");
    return;
  }
  td_vec_push(&p->arena, &stack, (frame_t){root, 0, 0});
  while (stack.length > 0) {
    frame_t *top = &td_vec_last(&stack);
    const kir_expr_t *e = top->e;
    int level = 0;
    const char *infix = kir_x_infix(e->op, &level);
    if (e->arg_count != 2) infix = NULL;
    bool in_parens = infix != NULL && level <= top->level;
    if (top->next == 0) {
      size_t n = (size_t)(uintptr_t)td_map_get_u64(&p->lets, key_of(e));
      if (n != 0 && !(is_let && e == root)) {
        td_buf_printf(p->out, "$%zu", n - 1);
        (void)td_vec_pop(&stack);
        continue;
      }
      if (in_parens) td_buf_putc(p->out, '(');
      if (infix == NULL) open_expr(p, e);
    }
    if (top->next == e->arg_count) {
      if (in_parens) td_buf_putc(p->out, ')');
      if (infix == NULL) td_buf_puts(p->out, close_text(e));
      (void)td_vec_pop(&stack);
      continue;
    }
    if (top->next > 0) {
      td_buf_printf(p->out, infix == NULL ? ", " : " %s ", infix);
    }
    /* left operands of one level need no parentheses, comparisons do not
     * chain */
    int limit = infix == NULL ? 0
                : top->next == 0 && level != 3 ? level - 1
                                               : level;
    const kir_expr_t *arg = e->args[top->next++]; /* the push moves top */
    td_vec_push(&p->arena, &stack, (frame_t){arg, 0, limit});
  }
}

static void expr_list(printer_t *p, kir_expr_t *const *list, uint32_t count) {
  td_buf_putc(p->out, '[');
  for (uint32_t i = 0; i < count; i++) {
    if (i > 0) td_buf_puts(p->out, ", ");
    expr(p, list[i], false);
  }
  td_buf_putc(p->out, ']');
}

/* ---- shared expressions of a statement ------------------------------------*/

typedef struct sharing {
  printer_t *p;
  td_map_t seen, shared;
  TD_VEC(const kir_expr_t *) order; /* operands first */
} sharing_t;

/* The second use of an expression makes it shared. */
static void use(sharing_t *s, const kir_expr_t *e) {
  if (kir_is_small(e)) return;
  if (td_map_get_u64(&s->seen, key_of(e)) != NULL) {
    td_map_put_u64(&s->shared, key_of(e), s);
  } else {
    td_map_put_u64(&s->seen, key_of(e), s);
  }
}

/* Operands come before what uses them, so `order` defines before use. */
static void count_uses(void *user, const kir_expr_t *e) {
  sharing_t *s = user;
  td_vec_push(&s->p->arena, &s->order, e);
  for (uint32_t i = 0; i < e->arg_count; i++) use(s, e->args[i]);
}

static void indent(printer_t *p) {
  td_buf_pad(p->out, ' ', 2 * (size_t)p->depth);
}

/* Above the statement; but those of a lane loop's mask, which mention its
 * variable, stand in the line, before `where`. */
static void lets(printer_t *p, const kir_stmt_t *stmt, bool in_line) {
  sharing_t s = {.p = p};
  kir_walker_t walker;
  td_map_init(&s.seen, &p->arena);
  td_map_init(&s.shared, &p->arena);
  td_map_init(&p->lets, &p->arena);
  kir_walker_init(&walker, &p->arena);
  for (uint32_t i = 0; i < kir_stmt_expr_count(stmt); i++) {
    const kir_expr_t *root = kir_stmt_expr(stmt, i);
    if (root == NULL) continue;
    kir_walk_into(&walker, root, count_uses, &s);
    use(&s, root);
  }
  size_t number = 0;
  for (size_t i = 0; i < s.order.length; i++) {
    const kir_expr_t *e = s.order.data[i];
    if (td_map_get_u64(&s.shared, key_of(e)) == NULL) continue;
    td_map_put_u64(&p->lets, key_of(e), (void *)(uintptr_t)++number);
    if (in_line) {
      td_buf_putc(p->out, ' ');
    } else {
      indent(p);
    }
    td_buf_printf(p->out, "let $%zu = ", number - 1);
    expr(p, e, true);
    if (!in_line) td_buf_putc(p->out, '\n');
  }
}

/* ---- statements -----------------------------------------------------------*/

/* A buffer gets its name where it is declared: `acc: f32[4, 16]`. */
static void buffer(printer_t *p, const kir_buffer_t *b) {
  give_name(p, b, b->name);
  name(p, b);
  td_buf_printf(p->out, ": %s", td_dtype_name(b->dtype));
  if (b->rank == 0) return;
  for (uint32_t i = 0; i < b->rank; i++) {
    td_buf_puts(p->out, i == 0 ? "[" : ", ");
    poly(p, b->dims[i]);
  }
  td_buf_putc(p->out, ']');
}

static void block(printer_t *p, const kir_block_t *stmts);

/* Names given inside are free again after the brace. */
static void body(printer_t *p, const kir_block_t *stmts) {
  size_t mark = p->undos.length;
  td_buf_puts(p->out, " {\n");
  p->depth++;
  block(p, stmts);
  p->depth--;
  forget_names(p, mark);
  indent(p);
  td_buf_putc(p->out, '}');
}

static void loop(printer_t *p, const kir_stmt_t *s) {
  size_t mark = p->undos.length;
  give_name(p, s->var, s->var->name);
  td_buf_printf(p->out, "%s ", kir_loop_text(s->loop));
  name(p, s->var);
  td_buf_puts(p->out, " in ");
  expr(p, s->lo, false);
  td_buf_puts(p->out, " .. ");
  expr(p, s->hi, false);
  if (s->step != 1) td_buf_printf(p->out, " step %lld", (long long)s->step);
  if (s->mask != NULL) {
    lets(p, s, true);
    td_buf_puts(p->out, " where ");
    expr(p, s->mask, false);
  }
  body(p, &s->body);
  forget_names(p, mark);
}

static void statement(printer_t *p, const kir_stmt_t *s) {
  if (s->kind == KIR_LOOP && s->mask != NULL) {
    td_map_init(&p->lets, &p->arena); /* its bounds are constants */
  } else {
    lets(p, s, false);
  }
  indent(p);
  switch (s->kind) {
    case KIR_LOOP: loop(p, s); break;
    case KIR_IF:
      td_buf_puts(p->out, "if ");
      expr(p, s->mask, false);
      body(p, &s->body);
      if (s->orelse.length == 0) break;
      td_buf_puts(p->out, " else");
      body(p, &s->orelse);
      break;
    case KIR_LET: {
      give_name(p, s->var, s->var->name);
      td_buf_puts(p->out, "let ");
      name(p, s->var);
      td_buf_printf(p->out, ": %s = ", td_dtype_name(s->var->type));
      expr(p, s->value, false);
      break;
    }
    case KIR_STORE:
      name(p, s->buffer);
      expr_list(p, s->subs, s->sub_count);
      td_buf_puts(p->out, " = ");
      expr(p, s->value, false);
      break;
    case KIR_COPY:
      td_buf_printf(p->out, "copy %lld ", (long long)s->step);
      name(p, s->buffer);
      expr_list(p, s->subs, s->sub_count);
      td_buf_puts(p->out, " = ");
      expr(p, s->value, false);
      break;
    case KIR_TRANSPOSE:
      td_buf_puts(p->out, "transpose ");
      name(p, s->buffer);
      break;
    case KIR_PREFETCH:
      td_buf_puts(p->out, "prefetch ");
      name(p, s->buffer);
      expr_list(p, s->subs, s->sub_count);
      break;
    case KIR_ASYNC:
      td_buf_printf(p->out, "copy.async %lld ", (long long)s->step);
      name(p, s->buffer);
      expr_list(p, s->subs, s->sub_count);
      td_buf_puts(p->out, " = ");
      expr(p, s->value, false);
      if (s->mask == NULL) break;
      td_buf_puts(p->out, " where ");
      expr(p, s->mask, false);
      break;
    case KIR_COMMIT: td_buf_puts(p->out, "copy.commit"); break;
    case KIR_WAIT:
      td_buf_printf(p->out, "copy.wait %lld", (long long)s->step);
      break;
    case KIR_BARRIER:
      td_buf_puts(p->out, "barrier");
      if (s->step == 0) break;
      td_buf_printf(p->out, " %lld of ", (long long)s->step);
      expr(p, s->lo, false);
      td_buf_puts(p->out, " .. ");
      expr(p, s->hi, false);
      break;
    case KIR_ALLOC:
      td_buf_printf(p->out, "alloc %s ", kir_space_text(s->buffer->space));
      if (s->buffer->is_swizzled) td_buf_puts(p->out, "swizzled ");
      buffer(p, s->buffer);
      break;
    case KIR_COMMENT:
      td_buf_puts(p->out, "note ");
      td_buf_json(p->out, td_str(s->text == NULL ? "" : s->text));
      break;
    case KIR_KIND_COUNT: break;
  }
  td_buf_putc(p->out, '\n');
}

static void block(printer_t *p, const kir_block_t *stmts) {
  for (size_t i = 0; i < stmts->length; i++) statement(p, stmts->data[i]);
}

/* ---- kernels --------------------------------------------------------------*/

/* Direction first: it is what a reader asks. */
static void params(printer_t *p) {
  const kir_kernel_t *k = p->kernel;
  td_buf_putc(p->out, '(');
  for (uint32_t i = 0; i < k->param_count; i++) {
    const kir_buffer_t *b = k->params[i];
    if (i > 0) td_buf_puts(p->out, ", ");
    if (!b->no_alias) td_buf_puts(p->out, "alias ");
    if (b->is_streamed) td_buf_puts(p->out, "stream ");
    td_buf_puts(p->out, b->is_read && b->is_written ? "inout "
                        : b->is_written             ? "out "
                                                    : "in ");
    buffer(p, b);
  }
  td_buf_putc(p->out, ')');
}

/* Kind and range are part of the meaning: they decide how polynomials
 * simplify when the text is read back. */
static void dims(printer_t *p) {
  const kir_kernel_t *k = p->kernel;
  for (uint32_t i = 0; i < k->dim_count; i++) {
    const ix_symbol_t *s = k->dims[i];
    td_buf_puts(p->out, i == 0 ? "\n    dims(" : ", ");
    if (s->kind != IX_SYM_DYN) {
      td_buf_printf(p->out, "%s ", kir_symbol_text(s->kind));
    }
    name(p, s);
    if (s->lo == NULL && s->hi == NULL) continue;
    td_buf_puts(p->out, " in ");
    if (s->lo != NULL) poly(p, s->lo);
    td_buf_puts(p->out, "..");
    if (s->hi != NULL) poly(p, s->hi);
  }
  if (k->dim_count > 0) td_buf_putc(p->out, ')');
}

/* One line of the card at a time, so that the text can be read. */
static void card(printer_t *p) {
  const char *at = p->kernel->card;
  while (at != NULL) {
    const char *end = strchr(at, '\n');
    size_t n = end == NULL ? strlen(at) : (size_t)(end - at);
    td_buf_puts(p->out, "  card ");
    td_buf_json(p->out, td_str_n(at, n));
    td_buf_putc(p->out, '\n');
    at = end == NULL ? NULL : end + 1;
  }
}

void kir_print(td_buf_t *out, const kir_kernel_t *kernel) {
  printer_t p = {.out = out, .kernel = kernel, .depth = 1};
  td_arena_init(&p.arena, out->task);
  td_map_init(&p.names, &p.arena);
  td_map_init(&p.words, &p.arena);
  td_map_init(&p.renamed, &p.arena);
  for (uint32_t i = 0; i < kernel->dim_count; i++) {
    name_dim(&p, kernel->dims[i]);
  }
  td_buf_puts(out, "kernel ");
  td_str_t text = td_str(kernel->name);
  if (tir_is_word(text)) {
    td_buf_str(out, text);
  } else {
    td_buf_json(out, text);
  }
  params(&p);
  dims(&p);
  td_buf_puts(out, " {\n");
  card(&p);
  block(&p, &kernel->body);
  td_buf_puts(out, "}\n");
  td_arena_free_all(&p.arena);
}
