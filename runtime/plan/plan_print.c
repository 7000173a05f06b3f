/* plan_print.c: the text form of a plan; see docs/plan.md for its grammar.
 *
 * One line for each fact, in the order of the tables.  An index is a plain
 * number; expressions are written with signs and as few parentheses as keep
 * their tree. */
#include "runtime/plan/plan_text.h"

#include "runtime/base/num.h"

plan_sign_t plan_sign(plan_x_t op) {
  plan_sign_t s = {"?", 0, 0};
  switch (op) {
    case PLAN_X_OR: s = (plan_sign_t){"||", 1, 2}; break;
    case PLAN_X_AND: s = (plan_sign_t){"&&", 2, 2}; break;
    case PLAN_X_EQ: s = (plan_sign_t){"==", 3, 2}; break;
    case PLAN_X_NE: s = (plan_sign_t){"!=", 3, 2}; break;
    case PLAN_X_LT: s = (plan_sign_t){"<", 3, 2}; break;
    case PLAN_X_LE: s = (plan_sign_t){"<=", 3, 2}; break;
    case PLAN_X_GT: s = (plan_sign_t){">", 3, 2}; break;
    case PLAN_X_GE: s = (plan_sign_t){">=", 3, 2}; break;
    case PLAN_X_ADD: s = (plan_sign_t){"+", 4, 2}; break;
    case PLAN_X_SUB: s = (plan_sign_t){"-", 4, 2}; break;
    case PLAN_X_MUL: s = (plan_sign_t){"*", 5, 2}; break;
    case PLAN_X_DIV: s = (plan_sign_t){"/", 5, 2}; break;
    case PLAN_X_MOD: s = (plan_sign_t){"%", 5, 2}; break;
    case PLAN_X_MIN: s = (plan_sign_t){"min", 0, 2}; break;
    case PLAN_X_MAX: s = (plan_sign_t){"max", 0, 2}; break;
    case PLAN_X_NEG: s = (plan_sign_t){"neg", 0, 1}; break;
    case PLAN_X_NOT: s = (plan_sign_t){"not", 0, 1}; break;
    case PLAN_X_FLOAT: s = (plan_sign_t){"float", 0, 1}; break;
    case PLAN_X_CONST: case PLAN_X_REAL: case PLAN_X_VAR: case PLAN_X_SCALAR:
    case PLAN_X_COUNT:
      break;
  }
  return s;
}

/* ---- expressions --------------------------------------------------------- */

static bool is_word(const char *text) {
  static const char *const taken[] = {"min", "max", "neg", "not", "float",
                                      "real", "slot", "buffer"};
  if (text == NULL || *text == '\0' || (*text >= '0' && *text <= '9')) {
    return false;
  }
  for (const char *c = text; *c != '\0'; c++) {
    bool ok = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
              (*c >= '0' && *c <= '9') || *c == '_';
    if (!ok) return false;
  }
  for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) {
    if (strcmp(text, taken[i]) == 0) return false;
  }
  return true;
}

const char *plan_var_name(const plan_var_t *vars, uint32_t count,
                          uint64_t index, char storage[24]) {
  bool is_clear =
      vars != NULL && index < count && is_word(vars[index].name);
  for (uint32_t i = 0; is_clear && i < index; i++) {
    is_clear = strcmp(vars[i].name, vars[index].name) != 0;
  }
  if (is_clear) return vars[index].name;
  td_buf_t b;
  td_buf_init_fixed(&b, storage, 24);
  td_buf_printf(&b, "$%llu", (unsigned long long)index);
  return storage;
}

typedef struct printer {
  td_buf_t *out;
  const plan_var_t *vars;
  uint32_t var_count;
  int depth; /* of braces */
} printer_t;

/* What is still to be written of an expression: a text, or the operation of
 * a token in a place that wants at least `level`. */
typedef struct pending {
  const char *text;
  uint32_t token;
  int level;
} pending_t;

static void put_leaf(printer_t *p, const plan_token_t *t) {
  char storage[24];
  if (t->op == PLAN_X_CONST) {
    td_buf_printf(p->out, "%lld", (long long)t->value);
  } else if (t->op == PLAN_X_REAL) {
    td_buf_puts(p->out, "real(");
    td_buf_f64(p->out, t->real);
    td_buf_putc(p->out, ')');
  } else if (t->op == PLAN_X_SCALAR) {
    td_buf_printf(p->out, "slot(%lld)", (long long)t->value);
  } else {
    td_buf_puts(p->out, plan_var_name(p->vars, p->var_count,
                                      (uint64_t)t->value, storage));
  }
}

/* Positions of the last tokens of both operands of each token; false if the
 * program is malformed. */
static bool find_operands(const plan_expr_t *e, uint32_t *left,
                          uint32_t *right) {
  uint32_t stack[PLAN_STACK], depth = 0;
  for (uint32_t i = 0; i < e->count; i++) {
    uint32_t pops = plan_sign(e->tokens[i].op).pops;
    if (pops > depth) return false;
    if (pops == 2) right[i] = stack[depth - 1];
    if (pops > 0) left[i] = stack[depth - pops];
    depth -= pops;
    if (depth == PLAN_STACK) return false;
    stack[depth++] = i;
  }
  return depth == 1;
}

static void put_tree(printer_t *p, const plan_expr_t *e, const uint32_t *left,
                     const uint32_t *right, td_arena_t *scratch) {
  TD_VEC(pending_t) todo = {0};
  pending_t root = {NULL, e->count - 1, 0};
  td_vec_push(scratch, &todo, root);
  while (todo.length > 0) {
    pending_t now = td_vec_pop(&todo);
    if (now.text != NULL) {
      td_buf_puts(p->out, now.text);
      continue;
    }
    const plan_token_t *t = &e->tokens[now.token];
    plan_sign_t s = plan_sign(t->op);
    if (s.pops == 0) {
      put_leaf(p, t);
      continue;
    }
    bool is_infix = s.level > 0;
    bool has_parens = !is_infix || s.level < now.level;
    pending_t open = {"(", 0, 0}, close = {")", 0, 0};
    pending_t sign = {is_infix ? s.text : ", ", 0, 0}, gap = {" ", 0, 0};
    pending_t a = {NULL, left[now.token], is_infix ? s.level : 0};
    pending_t b = {NULL, right[now.token], is_infix ? s.level + 1 : 0};
    /* the last pushed is written first */
    if (has_parens) td_vec_push(scratch, &todo, close);
    if (s.pops == 2) {
      td_vec_push(scratch, &todo, b);
      if (is_infix) td_vec_push(scratch, &todo, gap);
      td_vec_push(scratch, &todo, sign);
      if (is_infix) td_vec_push(scratch, &todo, gap);
    }
    td_vec_push(scratch, &todo, a);
    if (has_parens) td_vec_push(scratch, &todo, open);
    if (!is_infix) td_buf_puts(p->out, s.text);
  }
}

void plan_print_expr(td_buf_t *out, const plan_expr_t *e,
                     const plan_var_t *vars, uint32_t var_count) {
  printer_t p = {.out = out, .vars = vars, .var_count = var_count};
  if (e->count == 0) {
    td_buf_putc(out, '0');
    return;
  }
  td_arena_t scratch;
  td_arena_init(&scratch, out->task);
  uint32_t *left = TD_NEW_ARRAY(&scratch, uint32_t, e->count);
  uint32_t *right = TD_NEW_ARRAY(&scratch, uint32_t, e->count);
  if (find_operands(e, left, right)) {
    put_tree(&p, e, left, right, &scratch);
  } else {
    td_buf_puts(out, "malformed");
  }
  td_arena_free_all(&scratch);
}

/* ---- lines --------------------------------------------------------------- */

static void put_indent(printer_t *p) {
  td_buf_pad(p->out, ' ', (size_t)p->depth * 2);
}

static void put_expr(printer_t *p, const plan_expr_t *e) {
  plan_print_expr(p->out, e, p->vars, p->var_count);
}

static void put_string(printer_t *p, const char *text) {
  td_buf_json(p->out, td_str(text));
}

static void put_loc(printer_t *p, td_loc_t l) {
  if (l.file == 0 && l.line == 0) return;
  td_buf_printf(p->out, " at %u:%u:%u-%u:%u", l.file, l.line, l.column,
                l.end_line, l.end_column);
}

static void put_named(printer_t *p, const char *word, const plan_expr_t *e) {
  put_indent(p);
  td_buf_printf(p->out, "%s ", word);
  put_expr(p, e);
  td_buf_putc(p->out, '\n');
}

/* "f32[4, T]" */
static void put_type(printer_t *p, tdsl_dtype_t dtype, uint32_t rank,
                     const plan_expr_t *dims) {
  td_buf_printf(p->out, "%s[", td_dtype_name(dtype));
  for (uint32_t d = 0; d < rank; d++) {
    if (d > 0) td_buf_puts(p->out, ", ");
    put_expr(p, &dims[d]);
  }
  td_buf_putc(p->out, ']');
}

uint64_t plan_payload_hash(const void *data, size_t bytes) {
  const unsigned char *b = data;
  uint64_t hash = 14695981039346656037u;
  for (size_t i = 0; i < bytes; i++) hash = (hash ^ b[i]) * 1099511628211u;
  return hash;
}

static void put_module(printer_t *p, const plan_module_t *m, bool with_data) {
  static const char *const kinds[] = {"object", "kir", "cuda"};
  td_buf_puts(p->out, "module ");
  put_string(p, m->name);
  td_buf_printf(p->out, " %s ", kinds[m->payload]);
  put_string(p, m->target != NULL ? m->target : "");
  td_buf_printf(p->out, " bytes %llu hash x%016llx",
                (unsigned long long)m->bytes,
                (unsigned long long)(m->data == NULL
                                         ? m->hash
                                         : plan_payload_hash(m->data,
                                                             m->bytes)));
  const unsigned char *data = m->data;
  with_data = with_data && data != NULL;
  if (with_data) td_buf_puts(p->out, " data {");
  for (size_t i = 0; with_data && i < m->bytes; i++) {
    if (i % 36 == 0) td_buf_puts(p->out, "\n  x");
    td_buf_printf(p->out, "%02x", data[i]);
  }
  td_buf_puts(p->out, with_data ? "\n}\n" : "\n");
}

static void put_kernel(printer_t *p, const plan_kernel_t *k) {
  td_buf_puts(p->out, "kernel ");
  put_string(p, k->name);
  td_buf_printf(p->out, " module %u symbol ", k->module);
  put_string(p, k->symbol);
  put_loc(p, k->loc);
  td_buf_puts(p->out, " {\n");
  p->depth++;
  for (uint32_t i = 0; i < k->buffer_count; i++) {
    put_indent(p);
    td_buf_printf(p->out, "param%s%s\n", k->is_read[i] ? " read" : "",
                  k->is_written[i] ? " write" : "");
  }
  put_indent(p);
  td_buf_printf(p->out, "scalars %u\n", k->scalar_count);
  put_named(p, "blocks", &k->block_count);
  put_named(p, "scratch", &k->scratch_bytes);
  put_named(p, "reads", &k->ledger.read_bytes);
  put_named(p, "writes", &k->ledger.written_bytes);
  put_named(p, "flops", &k->ledger.flops);
  if (k->threads > 0) {
    put_indent(p);
    td_buf_printf(p->out, "threads %u workers %u", k->threads, k->workers);
    if (k->shared_bytes > 0) {
      td_buf_printf(p->out, " shared %u", k->shared_bytes);
    }
    td_buf_putc(p->out, '\n');
  }
  put_indent(p);
  td_buf_puts(p->out, "card ");
  put_string(p, k->card != NULL ? k->card : "");
  p->depth--;
  td_buf_puts(p->out, "\n}\n");
}

/* ---- entries ------------------------------------------------------------- */

static void put_var(printer_t *p, const plan_var_t *v) {
  put_indent(p);
  td_buf_puts(p->out, v->is_loop ? "var " : "dim ");
  put_string(p, v->name);
  if (!v->is_loop) td_buf_printf(p->out, " <= %lld", (long long)v->bound);
  put_loc(p, v->loc);
  td_buf_putc(p->out, '\n');
}

static void put_slot(printer_t *p, uint32_t number, const plan_slot_t *s) {
  static const char *const kinds[] = {"in", "out", "inout"};
  put_indent(p);
  td_buf_printf(p->out, "slot %u %s ", number, kinds[s->kind]);
  put_string(p, s->name);
  td_buf_printf(p->out, " %s[", td_dtype_name(s->dtype));
  for (uint32_t d = 0; d < s->rank; d++) {
    if (d > 0) td_buf_puts(p->out, ", ");
    put_string(p, s->dim_text[d] != NULL ? s->dim_text[d] : "");
    td_buf_puts(p->out, " = ");
    put_expr(p, &s->dims[d]);
    td_buf_printf(p->out, " max %lld", (long long)s->dim_bound[d]);
  }
  td_buf_putc(p->out, ']');
  if (s->has_range) {
    td_buf_puts(p->out, " in ");
    put_expr(p, &s->lo);
    td_buf_puts(p->out, " .. ");
    put_expr(p, &s->hi);
  }
  if (s->has_default) {
    td_buf_printf(p->out, " default %lld real(", (long long)s->default_i64);
    td_buf_f64(p->out, s->default_f64);
    td_buf_putc(p->out, ')');
  }
  if (s->is_weight) td_buf_puts(p->out, " weight");
  if (s->file_pattern != NULL) {
    td_buf_puts(p->out, " file ");
    put_string(p, s->file_pattern);
  }
  if (s->stack_count > 0) td_buf_printf(p->out, " stack %u", s->stack_count);
  if (s->else_slot >= 0) td_buf_printf(p->out, " else %d", s->else_slot);
  td_buf_printf(p->out, " buffer %u", s->buffer);
  put_loc(p, s->loc);
  td_buf_putc(p->out, '\n');
}

static void put_interface(printer_t *p, const plan_entry_t *e) {
  char storage[24];
  for (uint32_t i = 0; i < e->var_count; i++) put_var(p, &e->vars[i]);
  for (uint32_t i = 0; i < e->slot_count; i++) put_slot(p, i, &e->slots[i]);
  for (uint32_t i = 0; i < e->bind_count; i++) {
    const plan_bind_t *b = &e->binds[i];
    put_indent(p);
    td_buf_printf(p->out, "bind %s slot %u dim %u scale %lld offset %lld\n",
                  plan_var_name(e->vars, e->var_count, b->var, storage),
                  b->slot, b->dim, (long long)b->scale,
                  (long long)b->offset);
  }
  for (uint32_t i = 0; i < e->require_count; i++) {
    const plan_require_t *r = &e->requires[i];
    put_indent(p);
    td_buf_puts(p->out, "require ");
    put_expr(p, &r->cond);
    td_buf_putc(p->out, ' ');
    put_string(p, r->text != NULL ? r->text : "");
    put_loc(p, r->loc);
    td_buf_putc(p->out, '\n');
  }
}

static void put_buffer(printer_t *p, uint32_t number,
                       const plan_buffer_t *b) {
  put_indent(p);
  td_buf_printf(p->out, "buffer %u ", number);
  put_string(p, b->name);
  td_buf_putc(p->out, ' ');
  put_type(p, b->dtype, b->rank, b->dims);
  td_buf_puts(p->out, " bytes ");
  put_expr(p, &b->bytes);
  if (b->place == PLAN_AT_SLOT) {
    td_buf_printf(p->out, " slot %u", b->slot);
  } else {
    td_buf_puts(p->out, " offset ");
    put_expr(p, &b->offset);
  }
  td_buf_printf(p->out, " life %u .. %u\n", b->first_step, b->last_step);
}

static void put_bound(printer_t *p, const plan_expr_t *e, int32_t buffer) {
  if (buffer >= 0) {
    td_buf_printf(p->out, "buffer(%d)", buffer);
  } else {
    put_expr(p, e);
  }
}

static void put_step(printer_t *p, const plan_entry_t *e,
                     const plan_step_t *s) {
  static const char *const words[] = {
#define PLAN_STEP(id, text, ...) text,
#include "runtime/plan/plan_ops.def"
  };
  char storage[24];
  if (s->kind == PLAN_STEP_END) p->depth--;
  put_indent(p);
  if (s->kind == PLAN_STEP_END) {
    td_buf_putc(p->out, '}');
  } else {
    td_buf_puts(p->out, words[s->kind]);
  }
  if (s->kind == PLAN_STEP_LAUNCH) {
    td_buf_printf(p->out, s->is_once ? " once %u" : " %u", s->kernel);
  }
  if (s->kind == PLAN_STEP_LOOP) {
    td_buf_printf(p->out, " %s in ",
                  plan_var_name(e->vars, e->var_count, s->var, storage));
    put_bound(p, &s->lo, s->lo_buffer);
    td_buf_puts(p->out, " .. ");
    put_bound(p, &s->hi, s->hi_buffer);
  }
  if (s->buffer_count > 0) {
    td_buf_puts(p->out, " (");
    for (uint32_t i = 0; i < s->buffer_count; i++) {
      td_buf_printf(p->out, i > 0 ? ", %u" : "%u", s->buffers[i]);
    }
    td_buf_putc(p->out, ')');
  }
  if (s->scalar_count > 0) {
    td_buf_puts(p->out, " [");
    for (uint32_t i = 0; i < s->scalar_count; i++) {
      if (i > 0) td_buf_puts(p->out, ", ");
      put_expr(p, &s->scalars[i]);
    }
    td_buf_putc(p->out, ']');
  }
  if (s->text != NULL) {
    td_buf_putc(p->out, ' ');
    put_string(p, s->text);
  }
  put_loc(p, s->loc);
  if (s->kind == PLAN_STEP_LOOP) {
    td_buf_puts(p->out, " {");
    p->depth++;
  }
  td_buf_putc(p->out, '\n');
}

static void put_entry(printer_t *p, const plan_entry_t *e) {
  td_buf_puts(p->out, "entry ");
  put_string(p, e->name);
  if (e->is_test) td_buf_puts(p->out, " test");
  put_loc(p, e->loc);
  td_buf_puts(p->out, " {\n");
  p->depth = 1;
  p->vars = e->vars;
  p->var_count = e->var_count;
  put_interface(p, e);
  for (uint32_t i = 0; i < e->buffer_count; i++) {
    put_buffer(p, i, &e->buffers[i]);
  }
  put_named(p, "arena", &e->arena_bytes);
  for (uint32_t i = 0; i < e->step_count; i++) put_step(p, e, &e->steps[i]);
  p->vars = NULL;
  p->var_count = 0;
  p->depth = 0;
  td_buf_puts(p->out, "}\n");
}

void plan_print(td_buf_t *out, const plan_t *plan, bool with_payload) {
  printer_t p = {.out = out};
  td_buf_puts(out, "plan 1\ntarget ");
  put_string(&p, plan->target != NULL ? plan->target : "");
  td_buf_putc(out, '\n');
  for (uint32_t i = 0; i < plan->file_count; i++) {
    td_buf_puts(out, "file ");
    put_string(&p, plan->files[i]);
    td_buf_putc(out, '\n');
  }
  for (uint32_t i = 0; i < plan->module_count; i++) {
    put_module(&p, &plan->modules[i], with_payload);
  }
  for (uint32_t i = 0; i < plan->kernel_count; i++) {
    put_kernel(&p, &plan->kernels[i]);
  }
  for (uint32_t i = 0; i < plan->entry_count; i++) {
    put_entry(&p, &plan->entries[i]);
  }
}
