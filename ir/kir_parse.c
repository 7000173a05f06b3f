/* kir_parse.c: kernels and statements of the text form. */
#include "ir/kir_parse.h"

/* A kernel of text is a few kilobytes; what is longer was not written by
 * us. */
enum { MAX_TEXT_BYTES = 64 << 20 };

/* ---- names ----------------------------------------------------------------*/

/* Dims and names share one space: a word means one thing in a kernel. */
static bool is_known(kir_parser_t *p, td_str_t text) {
  return td_map_get(&p->names, text) != NULL ||
         td_map_get(&p->t.dims, text) != NULL;
}

/* A word that is not in use yet, copied and skipped; "" after a failure. */
static const char *new_name(kir_parser_t *p) {
  tir_parser_t *t = &p->t;
  if (t->now.token != TIR_T_WORD || kir_is_reserved(t->now.word) ||
      is_known(p, t->now.word)) {
    tir_fail(t, "expected a new name, got `%.*s`", TD_STR_ARG(t->now.word));
    return "";
  }
  const char *name = td_str_cstr(t->arena, t->now.word);
  tir_next(t);
  return name;
}

/* Visible to the end of the block, see forget. */
static void declare(kir_parser_t *p, const char *text, kir_buffer_t *buffer,
                    kir_var_t *var) {
  kir_name_t *name = TD_NEW(&p->t.scratch, kir_name_t);
  name->buffer = buffer;
  name->var = var;
  td_map_put(&p->names, td_str(text), name);
  td_vec_push(&p->t.scratch, &p->declared, text);
}

/* Entries read as absent once their value is NULL. */
static void forget(kir_parser_t *p, size_t mark) {
  while (p->declared.length > mark) {
    td_map_put(&p->names, td_str(td_vec_pop(&p->declared)), NULL);
  }
}

/* `x: bf16[R, 1024]` */
static kir_buffer_t *parse_buffer(kir_parser_t *p, kir_space_t space) {
  tir_parser_t *t = &p->t;
  td_loc_t loc = t->now.loc;
  const char *name = new_name(p);
  const ix_poly_t *dims[IX_MAX_RANK];
  uint32_t rank = 0;
  tir_expect_punct(t, ":");
  tdsl_dtype_t dtype = t->now.token == TIR_T_WORD
                           ? td_dtype_parse(t->now.word)
                           : TDSL_DTYPE_UNSET;
  if (dtype == TDSL_DTYPE_UNSET) {
    tir_fail(t, "expected a type, got `%.*s`", TD_STR_ARG(t->now.word));
  }
  tir_next(t);
  if (tir_take_punct(t, "[")) {
    do {
      if (rank == IX_MAX_RANK) {
        tir_fail(t, "rank above %d", IX_MAX_RANK);
        break;
      }
      dims[rank++] = tir_parse_poly(t);
    } while (!t->failed && tir_take_punct(t, ","));
    tir_expect_punct(t, "]");
  }
  kir_buffer_t *b =
      kir_buffer_create(p->kernel, name, dtype, space, rank, dims);
  b->loc = loc;
  if (!t->failed) declare(p, name, b, NULL);
  return b;
}

/* ---- statements -----------------------------------------------------------*/

static void parse_block(kir_parser_t *p, kir_block_t *block, int depth);

/* `{ ... }`; depth is counted here, before anything recurses. */
static void parse_body(kir_parser_t *p, kir_block_t *block, int depth) {
  size_t mark = p->declared.length;
  tir_expect_punct(&p->t, "{");
  if (depth >= KIR_MAX_NESTING) {
    tir_fail(&p->t, "statements nest deeper than %d", KIR_MAX_NESTING);
  }
  parse_block(p, block, depth + 1);
  tir_expect_punct(&p->t, "}");
  forget(p, mark);
}

/* After `let`: `$0 = expression` */
static void parse_shared(kir_parser_t *p) {
  int64_t number = -1;
  tir_parser_t *t = &p->t;
  if (!td_parse_i64(t->now.word, &number) ||
      number != (int64_t)p->lets.length) {
    tir_fail(t, "expected $%zu", p->lets.length);
  }
  tir_next(t);
  tir_expect_punct(t, "=");
  kir_expr_t *e = kir_parse_expr(p);
  td_vec_push(&t->scratch, &p->lets, e);
}

/* Loop words are looked for first: a buffer cannot be called so. */
static bool find_loop(kir_parser_t *p, kir_loop_t *out) {
  for (kir_loop_t kind = KIR_LOOP_BLOCK; kind <= KIR_LOOP_WARP; kind++) {
    if (!tir_at_word(&p->t, kir_loop_text(kind))) continue;
    *out = kind;
    return true;
  }
  return false;
}

/* The bounds are read before the variable exists, the mask after: only a
 * lane's mask may mention it. */
static kir_stmt_t *parse_loop(kir_parser_t *p, kir_loop_t kind, int depth) {
  tir_parser_t *t = &p->t;
  size_t mark = p->declared.length;
  tir_next(t);
  const char *name = new_name(p);
  if (!tir_take_word(t, "in")) tir_fail(t, "expected `in`");
  kir_expr_t *lo = kir_parse_expr(p);
  tir_expect_punct(t, "..");
  kir_expr_t *hi = kir_parse_expr(p);
  int64_t step = tir_take_word(t, "step") ? tir_expect_int(t) : 1;
  kir_var_t *var = kir_var_create(p->kernel, name, TDSL_DTYPE_I64);
  kir_stmt_t *s = kir_loop_stmt(p->kernel, kind, var, lo, hi, step);
  if (t->failed) return s;
  declare(p, name, NULL, var);
  while (tir_take_word(t, "let")) parse_shared(p);
  if (tir_take_word(t, "where")) s->mask = kir_parse_expr(p);
  p->lets.length = 0;
  parse_body(p, &s->body, depth);
  forget(p, mark);
  return s;
}

static kir_stmt_t *new_stmt(kir_parser_t *p, kir_kind_t kind) {
  kir_stmt_t *s = TD_NEW(p->t.arena, kir_stmt_t);
  s->kind = kind;
  return s;
}

/* Shared expressions belong to the condition alone. */
static kir_stmt_t *parse_if(kir_parser_t *p, int depth) {
  kir_stmt_t *s = new_stmt(p, KIR_IF);
  s->mask = kir_parse_expr(p);
  p->lets.length = 0;
  parse_body(p, &s->body, depth);
  if (tir_take_word(&p->t, "else")) parse_body(p, &s->orelse, depth);
  return s;
}

/* The variable is declared after its value, which cannot mention it. */
static kir_stmt_t *parse_let(kir_parser_t *p) {
  tir_parser_t *t = &p->t;
  kir_stmt_t *s = new_stmt(p, KIR_LET);
  const char *name = new_name(p);
  tir_expect_punct(t, ":");
  tdsl_dtype_t type = t->now.token == TIR_T_WORD ? td_dtype_parse(t->now.word)
                                                 : TDSL_DTYPE_UNSET;
  if (type == TDSL_DTYPE_UNSET) tir_fail(t, "expected a type");
  tir_next(t);
  tir_expect_punct(t, "=");
  s->value = kir_parse_expr(p);
  s->var = kir_var_create(p->kernel, name, type);
  if (!t->failed) declare(p, name, NULL, s->var);
  return s;
}

static kir_stmt_t *parse_alloc(kir_parser_t *p) {
  kir_stmt_t *s = new_stmt(p, KIR_ALLOC);
  for (kir_space_t space = KIR_LOCAL; space <= KIR_REGISTER; space++) {
    if (!tir_take_word(&p->t, kir_space_text(space))) continue;
    bool is_swizzled = tir_take_word(&p->t, "swizzled");
    s->buffer = parse_buffer(p, space);
    s->buffer->is_swizzled = is_swizzled;
    return s;
  }
  tir_fail(&p->t, "expected a memory space, got `%.*s`",
           TD_STR_ARG(p->t.now.word));
  return s;
}

static kir_stmt_t *parse_store(kir_parser_t *p) {
  kir_stmt_t *s = new_stmt(p, KIR_STORE);
  s->buffer = kir_parse_buffer(p);
  s->sub_count = kir_parse_subs(p, &s->subs);
  tir_expect_punct(&p->t, "=");
  s->value = kir_parse_expr(p);
  return s;
}

/* copy 4 r[0, l] = x[i + 4*l], copy.async 4 s[l * 4] = x[i + 4*l] where c */
static kir_stmt_t *parse_copy(kir_parser_t *p, kir_kind_t kind) {
  kir_stmt_t *s = new_stmt(p, kind);
  s->step = tir_expect_int(&p->t);
  s->buffer = kir_parse_buffer(p);
  s->sub_count = kir_parse_subs(p, &s->subs);
  tir_expect_punct(&p->t, "=");
  s->value = kir_parse_expr(p);
  if (kind == KIR_ASYNC && tir_take_word(&p->t, "where")) {
    s->mask = kir_parse_expr(p);
  }
  return s;
}

/* barrier, barrier 1 of 0 .. 4 */
static kir_stmt_t *parse_barrier(kir_parser_t *p) {
  kir_stmt_t *s = new_stmt(p, KIR_BARRIER);
  tir_parser_t *t = &p->t;
  if (t->now.token != TIR_T_INT) return s;
  s->step = tir_expect_int(t);
  if (s->step == 0) tir_fail(t, "barrier 0 is that of all threads");
  if (!tir_take_word(t, "of")) tir_fail(t, "expected `of`");
  s->lo = kir_parse_expr(p);
  tir_expect_punct(t, "..");
  s->hi = kir_parse_expr(p);
  return s;
}

/* One statement, or one `let $n` of the statement that follows. */
static void parse_stmt(kir_parser_t *p, kir_block_t *block, int depth) {
  tir_parser_t *t = &p->t;
  td_loc_t loc = t->now.loc;
  kir_loop_t kind;
  kir_stmt_t *s;
  if (find_loop(p, &kind)) {
    s = parse_loop(p, kind, depth);
  } else if (tir_take_word(t, "let")) {
    if (t->now.token == TIR_T_LET) {
      parse_shared(p);
      return; /* belongs to the statement that follows */
    }
    s = parse_let(p);
  } else if (tir_take_word(t, "if")) {
    s = parse_if(p, depth);
  } else if (tir_take_word(t, "alloc")) {
    s = parse_alloc(p);
  } else if (tir_take_word(t, "copy")) {
    s = parse_copy(p, KIR_COPY);
  } else if (tir_take_word(t, kir_kind_text(KIR_ASYNC))) {
    s = parse_copy(p, KIR_ASYNC);
  } else if (tir_take_word(t, kir_kind_text(KIR_COMMIT))) {
    s = new_stmt(p, KIR_COMMIT);
  } else if (tir_take_word(t, kir_kind_text(KIR_WAIT))) {
    s = new_stmt(p, KIR_WAIT);
    s->step = tir_expect_int(t);
  } else if (tir_take_word(t, "transpose")) {
    s = new_stmt(p, KIR_TRANSPOSE);
    s->buffer = kir_parse_buffer(p);
  } else if (tir_take_word(t, "prefetch")) {
    s = new_stmt(p, KIR_PREFETCH);
    s->buffer = kir_parse_buffer(p);
    s->sub_count = kir_parse_subs(p, &s->subs);
  } else if (tir_take_word(t, "barrier")) {
    s = parse_barrier(p);
  } else if (tir_take_word(t, "note")) {
    s = new_stmt(p, KIR_COMMENT);
    s->text = tir_expect_string(t);
  } else {
    s = parse_store(p);
  }
  s->loc = loc;
  p->lets.length = 0;
  td_vec_push(t->arena, block, s);
}

static void parse_block(kir_parser_t *p, kir_block_t *block, int depth) {
  while (!p->t.failed && !tir_at_punct(&p->t, "}") &&
         p->t.now.token != TIR_T_END) {
    parse_stmt(p, block, depth);
  }
  if (p->lets.length > 0) tir_fail(&p->t, "$0 belongs to no statement");
}

/* ---- kernels --------------------------------------------------------------*/

/* `loop i in 0..8`: the kind comes first where it is not dyn. A dim may be
 * called like a kind, so one word is looked ahead. */
static void parse_dim(kir_parser_t *p) {
  tir_parser_t *t = &p->t;
  ix_symbol_kind_t kind = IX_SYM_DYN;
  for (ix_symbol_kind_t k = IX_SYM_STATIC; k <= IX_SYM_DATA; k++) {
    tir_cursor_t before = t->now;
    if (k == IX_SYM_DYN || !tir_take_word(t, kir_symbol_text(k))) continue;
    if (t->now.token == TIR_T_WORD && !tir_at_word(t, "in")) {
      kind = k;
    } else {
      t->now = before; /* it is the name itself */
    }
    break;
  }
  td_loc_t loc = t->now.loc;
  const char *name = new_name(p);
  ix_symbol_t *dim = ix_symbol_create(p->kernel->pool, name, kind, loc);
  dim->lo = NULL;
  dim->hi = NULL;
  if (tir_take_word(t, "in")) {
    if (!tir_at_punct(t, "..")) dim->lo = tir_parse_poly(t);
    tir_expect_punct(t, "..");
    if (!tir_at_punct(t, ",") && !tir_at_punct(t, ")")) {
      dim->hi = tir_parse_poly(t);
    }
  }
  td_map_put(&t->dims, td_str(name), dim);
}

static void parse_dims(kir_parser_t *p) {
  TD_VEC(const ix_symbol_t *) dims = {0};
  tir_parser_t *t = &p->t;
  if (!tir_take_word(t, "dims")) return;
  tir_expect_punct(t, "(");
  do {
    parse_dim(p);
  } while (!t->failed && tir_take_punct(t, ","));
  tir_expect_punct(t, ")");
  for (size_t i = 0; i < t->dims.length; i++) {
    td_vec_push(t->arena, &dims, t->dims.entries[i].value);
  }
  p->kernel->dims = dims.data;
  p->kernel->dim_count = (uint32_t)dims.length;
}

/* Numbers are given in order, which is that of the buffers at launch. */
static void parse_params(kir_parser_t *p) {
  TD_VEC(kir_buffer_t *) params = {0};
  tir_parser_t *t = &p->t;
  tir_expect_punct(t, "(");
  while (!t->failed && !tir_at_punct(t, ")")) {
    if (params.length > 0) tir_expect_punct(t, ",");
    bool is_aliased = tir_take_word(t, "alias");
    bool is_streamed = tir_take_word(t, "stream");
    bool is_in = tir_at_word(t, "in"), is_out = tir_at_word(t, "out");
    bool is_inout = tir_at_word(t, "inout");
    if (!is_in && !is_out && !is_inout) {
      tir_fail(t, "expected `in`, `out` or `inout`");
    }
    tir_next(t);
    kir_buffer_t *b = parse_buffer(p, KIR_GLOBAL);
    b->id = (uint32_t)params.length;
    b->is_read = is_in || is_inout;
    b->is_written = is_out || is_inout;
    b->no_alias = !is_aliased;
    b->is_streamed = is_streamed;
    td_vec_push(t->arena, &params, b);
  }
  tir_expect_punct(t, ")");
  p->kernel->params = params.data;
  p->kernel->param_count = (uint32_t)params.length;
}

/* Dims are written after the parameters that use them, but are read first. */
static void parse_signature(kir_parser_t *p) {
  tir_parser_t *t = &p->t;
  tir_cursor_t start = t->now;
  int depth = 0;
  if (!tir_at_punct(t, "(")) tir_expect_punct(t, "(");
  do {
    depth += tir_at_punct(t, "(") ? 1 : tir_at_punct(t, ")") ? -1 : 0;
    tir_next(t);
  } while (depth > 0 && t->now.token != TIR_T_END);
  parse_dims(p);
  tir_cursor_t end = t->now;
  if (t->failed) return;
  t->now = start;
  parse_params(p);
  if (!t->failed) t->now = end;
}

/* Lines are joined again to the one text that passes made. */
static void parse_card(kir_parser_t *p) {
  td_buf_t text;
  td_buf_init(&text, p->t.task);
  bool any = false;
  while (!p->t.failed && tir_take_word(&p->t, "card")) {
    if (any) td_buf_putc(&text, '\n');
    any = true;
    td_buf_puts(&text, tir_expect_string(&p->t));
  }
  const char *card = td_buf_finish(&text, p->t.arena);
  if (any) p->kernel->card = card;
}

/* Kernels of one text share a pool, but no names. */
static kir_kernel_t *parse_kernel(kir_parser_t *p) {
  tir_parser_t *t = &p->t;
  kir_kernel_t *k = TD_NEW(t->arena, kir_kernel_t);
  p->kernel = k;
  k->arena = t->arena;
  k->pool = t->module->pool;
  k->loc = t->now.loc;
  td_map_init(&p->names, &t->scratch);
  td_map_init(&t->dims, &t->scratch);
  p->declared.length = 0;
  p->lets.length = 0;
  if (!tir_take_word(t, "kernel")) tir_fail(t, "expected `kernel`");
  k->name = tir_expect_name(t);
  parse_signature(p);
  tir_expect_punct(t, "{");
  parse_card(p);
  parse_block(p, &k->body, 0);
  tir_expect_punct(t, "}");
  return k;
}

kir_kernel_t **kir_parse(td_task_t *task, td_arena_t *arena, uint32_t file) {
  const td_source_t *source = td_sources_get(task, file);
  TD_VEC(kir_kernel_t *) kernels = {0};
  kir_parser_t p = {.t = {.task = task,
                          .arena = arena,
                          .file = file,
                          .now = {.line = 1, .column = 1}}};
  tir_parser_t *t = &p.t;
  if (source == NULL || source->text == NULL) {
    (void)td_diag(task, TD_F70, TD_NO_LOC, "no text to parse");
    return NULL;
  }
  t->text = td_str_n(source->text, source->length);
  td_arena_init(&t->scratch, task);
  t->module = tir_module_create(arena);
  if (source->length > MAX_TEXT_BYTES) {
    tir_fail(t, "text is longer than %d MiB", MAX_TEXT_BYTES >> 20);
  }
  tir_next(t);
  while (!t->failed && t->now.token != TIR_T_END) {
    kir_kernel_t *k = parse_kernel(&p);
    td_vec_push(arena, &kernels, k);
  }
  td_vec_push(arena, &kernels, NULL);
  td_arena_free_all(&t->scratch);
  return t->failed ? NULL : kernels.data;
}
