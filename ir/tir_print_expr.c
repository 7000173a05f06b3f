/* tir_print_expr.c: names, polynomials and expressions as text.
 *
 * A name is that of the source, cleaned of bytes that are not part of words,
 * with `.1`, `.2` ... where it is taken.  Values have a space of their own
 * (they carry a %), dims and the indices of one node share another.  Printing
 * a module that was parsed finds every name free, which is why printing twice
 * gives the same text. */
#include "ir/tir_print.h"

#include "runtime/base/num.h"

/* ---- names --------------------------------------------------------------- */

/* The name with every byte that cannot stand in a word replaced by `_`. Dims
 * and indices must not begin with a digit; after a % anything may. */
static td_str_t clean(tir_printer_t *p, const char *name, bool is_word) {
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
static const char *unique(tir_printer_t *p, td_map_t *taken, const char *name,
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

/* Tables are keyed by address and only ever looked up: nothing printed
 * depends on where something lies. */
static uint64_t key_of(const void *pointer) {
  return (uint64_t)(uintptr_t)pointer;
}

static void put_name(td_map_t *names, const void *of, const char *name) {
  td_map_put_u64(names, key_of(of), (void *)(uintptr_t)name);
}

const char *tir_name_of(const td_map_t *names, const void *of) {
  return td_map_get_u64(names, key_of(of));
}

void tir_name_index(tir_printer_t *p, const tir_index_t *index) {
  put_name(&p->word_names, index,
           unique(p, &p->taken_words, index->name, true));
}

/* The first mention is the definition, since nodes are in text order. */
void tir_name_value(tir_printer_t *p, const tir_value_t *v) {
  if (v == NULL || td_map_get_u64(&p->value_names, key_of(v)) != NULL) return;
  put_name(&p->value_names, v, unique(p, &p->taken_values, v->name, false));
}

/* A dim whose name had to change gets a twin with the new name, and
 * polynomials are rewritten to it before they are printed. */
void tir_name_dim(tir_printer_t *p, const ix_symbol_t *dim) {
  const char *name = unique(p, &p->taken_words, dim->name, true);
  put_name(&p->word_names, dim, name);
  if (strcmp(name, dim->name) == 0) return;
  ix_symbol_t *twin = ix_symbol_create(
      p->pool, td_arena_strdup(p->module_arena, name), dim->kind, dim->loc);
  td_map_put_u64(&p->renamed, key_of(dim),
                 (void *)(uintptr_t)ix_sym(p->pool, twin));
}

static const ix_poly_t *rename_dim(void *user, const ix_symbol_t *s) {
  const tir_printer_t *p = user;
  return td_map_get_u64(&p->renamed, key_of(s));
}

/* Missing ones print as `?`, which does not parse: such a module is a
 * reproducer of a fault, to be read by people. */
void tir_put_poly(tir_printer_t *p, const ix_poly_t *dim) {
  if (dim == NULL) {
    td_buf_puts(p->out, "?");
    return;
  }
  if (p->renamed.length > 0)
    dim = ix_subst(p->pool, dim, rename_dim, p, NULL);
  ix_print(p->out, dim);
}

void tir_put_value(tir_printer_t *p, const tir_value_t *v) {
  const char *name =
      v == NULL ? NULL : tir_name_of(&p->value_names, v);
  td_buf_printf(p->out, "%%%s", name == NULL ? "?" : name);
}

/* ---- expressions --------------------------------------------------------- */

void tir_put_constant(tir_printer_t *p, const tir_expr_t *e) {
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

/* Leaves and plain loads read better where they are used, and repeating them
 * costs a constant factor at most. */
static bool is_small(const tir_expr_t *e) {
  if (e->op != TIR_X_LOAD) return e->arg_count == 0;
  for (uint32_t i = 0; i < e->arg_count; i++)
    if (e->args[i]->arg_count > 0) return false;
  return true;
}

/* The text before the operands; "" has none to follow. */
static void open_expr(tir_printer_t *p, const tir_expr_t *e) {
  const ix_symbol_t *s;
  const char *name;
  switch (e->op) {
  case TIR_X_CONST: tir_put_constant(p, e); return;
  case TIR_X_INDEX:
    name = tir_name_of(&p->word_names, e->u.index);
    td_buf_puts(p->out, name == NULL ? "?" : name);
    return;
  case TIR_X_DIM:
    s = e->u.dim == NULL ? NULL : ix_as_symbol(e->u.dim);
    if (s == NULL) td_buf_puts(p->out, "dim(");
    tir_put_poly(p, e->u.dim);
    if (s == NULL) td_buf_puts(p->out, ")");
    return;
  case TIR_X_LOAD:
    tir_put_value(p, e->u.value);
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
void tir_put_expr(tir_printer_t *p, const tir_expr_t *root, bool is_let) {
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
  tir_printer_t *p;
  td_map_t seen;            /* expression used at least once */
  TD_VEC(tir_expr_t *) order; /* operands first */
  td_map_t shared;
} sharing_t;

/* The second use makes it shared. */
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

void tir_put_indent(tir_printer_t *p) {
  td_buf_pad(p->out, ' ', 2 * (size_t)p->depth);
}

/* Prints `let` lines for the given roots; true if there were any. */
bool tir_put_lets(tir_printer_t *p, tir_expr_t *const *roots, uint32_t count) {
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
    tir_put_indent(p);
    td_buf_printf(p->out, "    let $%zu = ", number - 1);
    tir_put_expr(p, e, true);
  }
  return number > 0;
}
