/* Scanner, newline rule, parser: what comes out, where it says it stands,
 * and how it fails.  Expected values are written from the language text. */
#include "frontend/parse.h"
#include "runtime/base/task.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

/* One parse with everything a test may want of it. */
typedef struct parsed {
  td_task_t task;
  td_arena_t arena;
  const char *text;
  ast_file_t *file;
  td_buf_t out;
} parsed_t;

static void open_task(parsed_t *p) {
  td_task_init(&p->task, NULL);
  td_arena_init(&p->arena, &p->task);
  td_buf_init(&p->out, &p->task);
}

static void parse(parsed_t *p, const char *text) {
  open_task(p);
  p->text = text;
  uint32_t source = td_sources_add(&p->task, "t.tdsl", text, strlen(text));
  p->file = ast_parse(&p->task, &p->arena, source);
}

static void done(parsed_t *p) {
  td_task_free(&p->task);
}

/* ---- tokens and the newline rule -------------------------------------- */

/* The tokens of a text as one line: kinds, or texts where there are any. */
static void expect_tokens(const char *text, const char *wanted) {
  parsed_t p;
  open_task(&p);
  uint32_t source = td_sources_add(&p.task, "t.tdsl", text, strlen(text));
  td_buf_t words;
  td_buf_init(&words, &p.task);
  ast_dump_tokens(&p.task, source, &p.out);
  char *line = p.out.data;
  while (*line) {
    char *end = strchr(line, '\n');
    char *word = memchr(line, ' ', (size_t)(end - line));
    td_buf_printf(&words, "%.*s", (int)(end - word), word);
    line = end + 1;
  }
  assert_string_equal(words.data, wanted);
  done(&p);
}

static void test_tokens(void **state) {
  (void)state;
  expect_tokens("x1 _a 12 1.5 1e5 2.5e-3 \"t\" true inf sum bf16 fn",
                " IDENT x1 IDENT _a NUM 12 NUM 1.5 NUM 1e5 NUM 2.5e-3"
                " STR \"t\" LIT true LIT inf REDUCE sum DTYPE bf16 fn END");
  expect_tokens(":=+=->==!=<=>=....", " := += -> == != <= >= ... . END");
  /* A number starts and ends with a digit. */
  expect_tokens("0..N 1.", " NUM 0 .. IDENT N NUM 1 . END");
  expect_tokens("1e 1e+ 2x", " NUM 1 IDENT e NUM 1 IDENT e + NUM 2 IDENT x"
                             " NL end END");
  expect_tokens("", " END");
  expect_tokens("\xEF\xBB\xBF"
                "a",
                " IDENT a NL end END");
}

static void test_newlines(void **state) {
  (void)state;
  /* All three conditions hold. */
  expect_tokens("a\nb", " IDENT a NL line IDENT b NL end END");
  expect_tokens("]\nfor", " ] NL line for END");
  expect_tokens("\"s\"\nconst", " STR \"s\" NL line const END");
  expect_tokens("a\r\n\r\n b", " IDENT a NL line IDENT b NL end END");
  expect_tokens("a // c\nb", " IDENT a NL line IDENT b NL end END");
  /* Each one fails. */
  expect_tokens("(a\nb)", " ( IDENT a IDENT b ) NL end END");
  expect_tokens("[a\nb]", " [ IDENT a IDENT b ] NL end END");
  expect_tokens("a +\nb", " IDENT a + IDENT b NL end END");
  expect_tokens("a\n+ b", " IDENT a + IDENT b NL end END");
  expect_tokens("a\n(b)", " IDENT a ( IDENT b ) NL end END");
  expect_tokens("a\n[b]", " IDENT a [ IDENT b ] NL end END");
  expect_tokens("a\nthen\nelse\nwhere\nwith\nfrom\n{ }",
                " IDENT a then else where with from { } NL end END");
  expect_tokens("a\nif b", " IDENT a if IDENT b NL end END");
  expect_tokens("a\n12", " IDENT a NUM 12 NL end END");
  expect_tokens("a\nsum[i]", " IDENT a REDUCE sum [ IDENT i ] NL end END");
  /* A comment with a line break is one; one without is not. */
  expect_tokens("a /* \n */ b", " IDENT a NL line IDENT b NL end END");
  expect_tokens("a /* */ b", " IDENT a IDENT b NL end END");
  /* ; always, } and the end of the file behind what can end. */
  expect_tokens("a;;b", " IDENT a NL ; NL ; IDENT b NL end END");
  expect_tokens("(;)", " ( NL ; ) NL end END");
  expect_tokens("a }", " IDENT a NL } } NL end END");
  expect_tokens("{ }", " { } NL end END");
  expect_tokens("a;}", " IDENT a NL ; } NL end END");
}

/* ---- expressions ------------------------------------------------------ */

/* All structure shown: (+ a (* b c)). */
static void show(td_buf_t *out, const ast_expr_t *e) {
  switch (e->kind) {
  case AST_NAME:
  case AST_INT:
  case AST_FLOAT: td_buf_puts(out, e->text); return;
  case AST_BOOL: td_buf_puts(out, e->i64 ? "true" : "false"); return;
  case AST_INF: td_buf_puts(out, "inf"); return;
  case AST_STRING: td_buf_printf(out, "'%s'", e->text); return;
  case AST_UNARY:
  case AST_BINARY: td_buf_printf(out, "(%s", ast_op_text(e->op)); break;
  case AST_IF: td_buf_puts(out, "(if"); break;
  case AST_REDUCE:
    td_buf_printf(out, "(%s[", ast_reduce_text(e->reduce));
    for (size_t i = 0; i < e->binder_count; i++) {
      td_buf_printf(out, i ? " %s" : "%s", e->binders[i].name.text);
      if (e->binders[i].range) {
        td_buf_puts(out, " in ");
        show(out, e->binders[i].range->hi);
      }
    }
    if (e->where) {
      td_buf_puts(out, " where ");
      show(out, e->where);
    }
    td_buf_puts(out, "]");
    break;
  case AST_REDCALL:
    td_buf_printf(out, "(%s()", ast_reduce_text(e->reduce));
    break;
  case AST_CAST: td_buf_printf(out, "(%s", e->text); break;
  case AST_FIELD: td_buf_printf(out, "(.%s", e->text); break;
  case AST_CALL: td_buf_puts(out, "(call"); break;
  case AST_SUBSCRIPT: td_buf_puts(out, "(at"); break;
  }
  for (size_t i = 0; i < e->kid_count; i++) {
    td_buf_putc(out, ' ');
    show(out, e->kids[i]);
  }
  for (size_t i = 0; i < e->sub_count; i++) {
    td_buf_putc(out, ' ');
    if (e->subs[i].form == AST_SUB_ALL) {
      td_buf_putc(out, ':');
    } else if (e->subs[i].form == AST_SUB_INDEX) {
      td_buf_printf(out, "%s!", e->subs[i].name.text);
    } else {
      show(out, e->subs[i].expr);
    }
  }
  if (e->other) {
    td_buf_puts(out, " | ");
    show(out, e->other);
  }
  for (size_t i = 0; i < e->arg_count; i++) {
    const ast_arg_t *a = &e->args[i];
    td_buf_putc(out, ' ');
    if (a->name.text) td_buf_printf(out, "%s=", a->name.text);
    if (a->dtype_text) td_buf_puts(out, a->dtype_text);
    if (a->value) show(out, a->value);
  }
  td_buf_putc(out, ')');
}

static ast_expr_t *value_of(parsed_t *p, const char *expression) {
  open_task(p);
  const char *text = td_arena_printf(&p->arena, "const A = %s", expression);
  p->text = text;
  uint32_t source = td_sources_add(&p->task, "t.tdsl", text, strlen(text));
  p->file = ast_parse(&p->task, &p->arena, source);
  assert_false(p->file->has_errors);
  assert_int_equal(p->file->decl_count, 1);
  return p->file->decls[0]->items[0].value;
}

static const struct {
  const char *text, *tree;
  const char *printed; /* by ast_print_expr; NULL: text itself */
} expressions[] = {
    {"a + b * c", "(+ a (* b c))", NULL},
    {"(a + b) * c", "(* (+ a b) c)", NULL},
    {"a - b - c", "(- (- a b) c)", NULL},
    {"a - (b - c)", "(- a (- b c))", NULL},
    {"a / b * c % d", "(% (* (/ a b) c) d)", NULL},
    {"a / (b * c)", "(/ a (* b c))", NULL},
    {"a ^ b ^ c", "(^ a (^ b c))", NULL},
    {"(a ^ b) ^ c", "(^ (^ a b) c)", NULL},
    {"-x ^ 2", "(- (^ x 2))", NULL},
    {"(-x) ^ 2", "(^ (- x) 2)", NULL},
    {"-a / 2", "(/ (- a) 2)", NULL},
    {"-(a / 2)", "(- (/ a 2))", NULL},
    {"a - -b", "(- a (- b))", NULL},
    {"--a", "(- (- a))", NULL},
    {"2 ^ -x", "(^ 2 (- x))", "2 ^ (-x)"},
    {"not a and b or c", "(or (and (not a) b) c)", NULL},
    {"not (a and b)", "(not (and a b))", NULL},
    {"not a == b", "(not (== a b))", NULL},
    {"not a > b and c < d", "(and (not (> a b)) (< c d))", NULL},
    {"(not a) == b", "(== (not a) b)", NULL},
    {"a or b and c", "(or a (and b c))", NULL},
    {"a < b + c", "(< a (+ b c))", NULL},
    {"(a < b) == c", "(== (< a b) c)", NULL},
    {"sum[i] a[i] * b[i] + c", "(+ (sum[i] (* (at a i) (at b i))) c)", NULL},
    {"sum[i] x[i] / n", "(sum[i] (/ (at x i) n))", NULL},
    {"(sum[i] x[i]) / n", "(/ (sum[i] (at x i)) n)", NULL},
    {"sum[i] (x[i] + 1)", "(sum[i] (+ (at x i) 1))", NULL},
    {"sum[i] sum[j] x", "(sum[i] (sum[j] x))", NULL},
    {"any[i] x[i] > 0", "(> (any[i] (at x i)) 0)", NULL},
    {"a + max[i, j in 3 where i < j] -b",
     "(+ a (max[i j in 3 where (< i j)]"
     " (- b)))",
     NULL},
    {"a * sum[i] b * c", "(* a (sum[i] (* b c)))", "a * (sum[i] b * c)"},
    {"-sum[i] x * y", "(- (sum[i] (* x y)))", "-(sum[i] x * y)"},
    {"sum[i] if c then a else b + 1", "(sum[i] (if c a (+ b 1)))",
     "sum[i] (if c then a else b + 1)"},
    {"if a then b else if c then d else e", "(if a b (if c d e))", NULL},
    {"if a then if b then c else d else e", "(if a (if b c d) e)", NULL},
    {"(if a then b else c) + 1", "(+ (if a b c) 1)", NULL},
    {"1 + if a then b else c + 1", "(+ 1 (if a b (+ c 1)))",
     "1 + (if a then b else c + 1)"},
    {"sum(a)", "(sum() a)", NULL},
    {"max(a, min(b, c))", "(max() a (min() b c))", NULL},
    {"bf16(a + b)", "(bf16 (+ a b))", NULL},
    {"m.blk[l].wq[n, k]", "(at (.wq (at (.blk m) l)) n k)", NULL},
    {"f(x, 2, eps = 1e-5, f32)", "(call f x 2 eps=1e-5 f32)", NULL},
    {"f()(1)[2].g", "(.g (at (call (call f) 1) 2))", NULL},
    {"(a + b)[i]", "(at (+ a b) i)", NULL},
    {"x[t, :, i + 1]", "(at x t : (+ i 1))", NULL},
    {"x[i, j + 1 | -inf]", "(at x i (+ j 1) | (- inf))", NULL},
    {"x[t@none, b in 3, c in 1 .. 4 @(dp, tp), d@zigzag(cp)]",
     "(at x t! b! c! d!)", NULL},
    {"x[sum[i] y[i]]", "(at x (sum[i] (at y i)))", NULL},
    {"true and false", "(and true false)", NULL},
    {"config(\"a.b\", 1)", "(call config 'a.b' 1)", NULL},
    {"a\n  + b\n  * c", "(+ a (* b c))", "a + b * c"},
};

static void test_expressions(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof expressions / sizeof *expressions; i++) {
    parsed_t p;
    ast_expr_t *e = value_of(&p, expressions[i].text);
    show(&p.out, e);
    assert_string_equal(p.out.data, expressions[i].tree);
    const char *printed = expressions[i].printed;
    td_buf_clear(&p.out);
    ast_print_expr(&p.task, &p.out, e);
    assert_string_equal(p.out.data, printed ? printed : expressions[i].text);
    done(&p);
    /* The printed form means the same. */
    if (!printed) continue;
    e = value_of(&p, printed);
    show(&p.out, e);
    assert_string_equal(p.out.data, expressions[i].tree);
    done(&p);
  }
}

static void test_numbers(void **state) {
  (void)state;
  parsed_t p;
  ast_expr_t *e = value_of(&p, "9223372036854775807");
  assert_int_equal(e->kind, AST_INT);
  assert_true(e->i64 == INT64_MAX);
  done(&p);
  e = value_of(&p, "0.1");
  assert_int_equal(e->kind, AST_FLOAT);
  assert_true(e->f64 == 0.1);
  done(&p);
  e = value_of(&p, "1e3");
  assert_int_equal(e->kind, AST_FLOAT);
  assert_true(e->f64 == 1000.0);
  done(&p);
}

/* ---- places ----------------------------------------------------------- */

/* The text that a location spans. */
static const char *slice(parsed_t *p, td_loc_t loc) {
  const char *from = p->text, *to = p->text;
  for (uint32_t i = 1; i < loc.line; i++) from = strchr(from, '\n') + 1;
  for (uint32_t i = 1; i < loc.end_line; i++) to = strchr(to, '\n') + 1;
  from += loc.column - 1;
  to += loc.end_column - 1;
  return td_arena_strndup(&p->arena, from, (size_t)(to - from));
}

#define AT(loc_, text_) assert_string_equal(slice(&p, (loc_)), (text_))

static void test_places(void **state) {
  (void)state;
  parsed_t p;
  parse(&p, "dim N = 3 // c\n"
            "struct S { w: [L@pp] B as f32 @dp in 1 .. N from \"a\" else b }\n"
            "export fn f[...P, E: dtype](x: inout E[...P, N@tp])\n"
            "    -> (y: f32, z: f32) with tf32, p(2) {\n"
            "  y[i, :]: bf16 = (x[i] + g(2, k = 3)) * \n"
            "    sum[j in N where j > 1] x.a[j | 0]\n"
            "  x := y where true\n"
            "  assert a, \"t\"\n"
            "}\n");
  assert_false(p.file->has_errors);
  assert_int_equal(p.file->decl_count, 3);
  AT(p.file->decls[0]->loc, "dim N = 3");
  AT(p.file->decls[0]->items[0].loc, "N = 3");
  ast_field_t *f = &p.file->decls[1]->fields[0];
  AT(p.file->decls[1]->name.loc, "S");
  AT(f->loc, "w: [L@pp] B as f32 @dp in 1 .. N from \"a\" else b");
  AT(f->type->loc, "[L@pp] B as f32 @dp in 1 .. N");
  AT(f->type->stacks[0].loc, "L@pp");
  AT(f->type->stacks[0].shard->loc, "pp");
  AT(f->type->elem.loc, "B");
  assert_int_equal(f->type->suffix_count, 3);
  AT(f->type->suffixes[0].loc, "as f32");
  AT(f->type->suffixes[1].loc, "@dp");
  AT(f->type->suffixes[2].loc, "in 1 .. N");
  AT(f->from_loc, "\"a\"");
  assert_string_equal(f->from, "a");
  AT(f->other.loc, "b");
  ast_decl_t *d = p.file->decls[2];
  assert_true(d->is_export);
  AT(d->head_loc, "export fn f[...P, E: dtype](x: inout E[...P, N@tp])\n"
                  "    -> (y: f32, z: f32)");
  AT(d->generics[0].loc, "...P");
  AT(d->generics[1].what.loc, "dtype");
  AT(d->params[0].loc, "x: inout E[...P, N@tp]");
  assert_true(d->params[0].is_inout);
  AT(d->params[0].type->dims[0].loc, "...P");
  AT(d->results[1].loc, "z: f32");
  AT(d->attrs[0].loc, "tf32");
  AT(d->attrs[1].loc, "p(2)");
  ast_stmt_t *s = d->body->stmts[0];
  AT(s->lhss[0].loc, "y[i, :]: bf16");
  AT(s->lhss[0].type->loc, "bf16");
  AT(s->lhss[0].place->op_loc, "[i, :]");
  AT(s->lhss[0].place->subs[1].loc, ":");
  AT(s->value->loc, "(x[i] + g(2, k = 3)) * \n"
                    "    sum[j in N where j > 1] x.a[j | 0]");
  AT(s->value->op_loc, "*");
  AT(s->value->kids[0]->loc, "x[i] + g(2, k = 3)");
  assert_true(s->value->kids[0]->in_parens);
  AT(s->value->kids[0]->kids[1]->args[1].loc, "k = 3");
  ast_expr_t *r = s->value->kids[1];
  AT(r->loc, "sum[j in N where j > 1] x.a[j | 0]");
  AT(r->op_loc, "sum");
  AT(r->binders[0].loc, "j in N");
  AT(r->where->loc, "j > 1");
  AT(r->kids[0]->kids[0]->op_loc, "a");
  AT(d->body->stmts[1]->loc, "x := y where true");
  assert_string_equal(d->body->stmts[2]->text, "t");
  AT(d->body->loc, strchr(p.text, '4') ? "" : slice(&p, d->body->loc));
  assert_true(d->loc.line == 3 && d->loc.end_line == 9);
  done(&p);
}

/* ---- errors ----------------------------------------------------------- */

static const struct {
  const char *text, *errors; /* "ID line:column ..." */
} faults[] = {
    {"", ""},
    {"fn f() { }", ""},
    {"dim A = 3 dim B = 4", "P04 1:11"},
    {"dim A = ?\ndim B = &\ndim C = )", "P06 1:9 P06 2:9 P04 3:9"},
    {"fn f() {\n  y = a b\n  z = c d\n}\nfn g() { w = e f }",
     "P04 2:9 P04 3:9 P04 5:16"},
    /* What an earlier fault causes is not reported. */
    {"fn f(x: f32\n{\n  y = x\n}\nfn g() { y = a b }", "P04 2:1 P04 5:16"},
    {"fn f(x f32) {\n  y = x\n  for i in 3 { y = x }\n}", "P04 1:8"},
    {"fn f() {\n  for i 3 {\n    y = x\n    z = x\n  }\n  w = a\n}", "P04 2:9"},
    {"fn f() {\n  if a then b\n  y = c\n}", "P04 2:3"},
    {"y = 3\nz = 4\n}", "P04 1:1"},
    {"fn f() {\n  y = f(a b,\n        c)\n  z = d e\n}", "P04 2:11 P04 4:9"},
    {"fn f() {\n  y = (a b\n  z = c\n}\nfn g() { y = a b }",
     "P04 2:10 P04 5:16"},
    {"fn f() { y = x[i}] }\nfn g() { y = a b }", "P02 1:15 P04 2:16"},
    {"struct S {\n  a\n  b: f32\n  c: 3\n}", "P04 2:4 P04 4:6"},
    {"fn f() {\n  y = a\nexport fn g() { y = a b }", "P04 3:1 P04 3:23"},
    {"fn f() {\n  y = \"abc\n  z = a b\n}", "P05 2:7 P04 3:9"},
    {"fn f() {\n  y = 9999999999999999999999 a\n}", "P07 2:7 P04 2:30"},
    {"const A = .5 + 9999999999999999999", "P08 1:11 P07 1:16"},
    {"fn f() {\n  y = sum(i) x[i] + a b\n  z = prod(j, k) x\n}",
     "P01 2:7 P01 3:7"},
    {"fn f() { y = a < b < c; z = a == b }", "P03 1:20"},
    {"const A = sum(i)", ""},
    {"fn f() { x + 1 }", "P04 1:12"},
    {"dim tf32 = 1", "P04 1:5"},
    {"/* a", "P05 1:1"},
    {"fn f() { y = (a /* ) }", "P05 1:17"},
    {"\x01", "P06 1:1"},
    {"dim A = 1\xC3\xA9", "P06 1:10"},
};

static void test_faults(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
    parsed_t p;
    parse(&p, faults[i].text);
    for (size_t k = 0; k < p.task.diags.length; k++) {
      const td_diag_t *d = p.task.diags.data[k];
      td_buf_printf(&p.out, k ? " %s %u:%u" : "%s %u:%u", td_diag_name(d->id),
                    d->loc.line, d->loc.column);
    }
    assert_string_equal(p.out.data, faults[i].errors);
    assert_int_equal(p.file->has_errors, p.task.errors > 0);
    done(&p);
  }
}

/* A partial tree holds what was readable. */
static void test_partial(void **state) {
  (void)state;
  parsed_t p;
  parse(&p, "dim A = 3\ndim = 4\nfn f() { y = a b; z = c }\ndim C = 5\n"
            "fn g() { y = a");
  assert_true(p.file->has_errors);
  assert_int_equal(p.file->decl_count, 4);
  assert_int_equal(p.file->decls[1]->body->count, 1);
  assert_string_equal(p.file->decls[3]->name.text, "g");
  done(&p);
}

/* ---- size ------------------------------------------------------------- */

typedef struct big {
  const char *before, *unit, *after;
  size_t count;
  const char *errors; /* the id of the only error, or NULL; static text */
} big_t;

static const big_t bigs[] = {
    {"fn f() { y = a", " + a", " }", 1000000, NULL},
    {"fn f() { y = a", ".b[0](1)", " }", 200000, NULL},
    {"fn f() {\n", "  y = a\n", "}", 200000, NULL},
    {"dim A", ", A", "", 200000, NULL},
    {"fn f() { y = ", "(", "a", 20000, "L04"},
    {"fn f() { y = a", "[a", "]", 20000, "L04"},
    {"fn f() { y = ", "-", "a }", 255, NULL},
    {"fn f() { y = ", "-", "a }", 256, "L04"},
    {"fn f() { y = ", "-", "a }", 20000, "L04"},
    {"fn f() { y = ", "not ", "a }", 20000, "L04"},
    {"fn f() { y = a", " ^ a", " }", 256, "L04"},
    {"fn f() { y = ", "if a then b else ", "c }", 256, "L04"},
    {"fn f() { y = ", "if a then b else ", "c }", 20000, "L04"},
    {"fn f() { y = ", "sum[i] ", "c }", 256, "L04"},
    {"fn f() { ", "checkpoint { ", "", 20000, "L04"},
    {"fn f(x: ", "[N] ", "f32) { }", 100000, NULL},
};

static void *try_big(void *arg) {
  const big_t *big = arg;
  parsed_t p;
  open_task(&p);
  td_buf_t text;
  td_buf_init(&text, &p.task);
  td_buf_puts(&text, big->before);
  for (size_t i = 0; i < big->count; i++) td_buf_puts(&text, big->unit);
  td_buf_puts(&text, big->after);
  uint32_t source = td_sources_add(&p.task, "t.tdsl", text.data, text.length);
  p.file = ast_parse(&p.task, &p.arena, source);
  /* No assertions here: they would leave the thread by longjmp. */
  const char *found = NULL;
  if (p.task.errors > 0) found = td_diag_name(p.task.diags.data[0]->id);
  if (p.task.errors > 1) found = "several";
  ast_print(&p.task, &p.out, p.file);
  ast_dump_tokens(&p.task, source, &p.out);
  td_buf_clear(&p.out);
  if (!p.file->has_errors) fmt_source(&p.task, source, &p.out);
  done(&p);
  return (void *)found;
}

/* On a stack of 256 KiB (more under a sanitizer, whose frames are large). */
static void test_size(void **state) {
  (void)state;
#if defined(__SANITIZE_ADDRESS__)
  size_t stack = (size_t)2 << 20;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
  size_t stack = (size_t)2 << 20;
#else
  size_t stack = (size_t)256 << 10;
#endif
#else
  size_t stack = (size_t)256 << 10;
#endif
  for (size_t i = 0; i < sizeof bigs / sizeof *bigs; i++) {
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    assert_int_equal(pthread_attr_setstacksize(&attributes, stack), 0);
    assert_int_equal(
        pthread_create(&thread, &attributes, try_big, (void *)&bigs[i]), 0);
    void *found = NULL;
    pthread_join(thread, &found);
    pthread_attr_destroy(&attributes);
    if (bigs[i].errors) {
      assert_non_null(found);
      assert_string_equal(found, bigs[i].errors);
    } else {
      assert_null(found);
    }
  }
}

/* Visiting every node of a long chain reaches all of them, in order. */
static bool count_name(ast_expr_t *e, void *user) {
  size_t *count = user;
  if (e->kind == AST_NAME) ++*count;
  return true;
}

static void test_walks(void **state) {
  (void)state;
  parsed_t p;
  ast_expr_t *e = value_of(&p, "a + b[c, d in e | f] * g(h, i = j).k - "
                               "sum[l in m where n] (if o then p else q)");
  size_t count = 0;
  ast_visit(&p.task, e, count_name, &count);
  /* d, i, k and l are no expressions */
  assert_int_equal(count, 13);
  ast_spine_t spine = ast_spine(&p.arena, e);
  assert_int_equal(spine.count, 3);
  assert_ptr_equal(spine.nodes[2], e);
  assert_string_equal(spine.nodes[0]->text, "a");
  done(&p);
}

/* ---- memory ----------------------------------------------------------- */

typedef struct failing {
  size_t calls, fail_at; /* the number of the request that gets nothing */
} failing_t;

static void *failing_alloc(void *old, size_t old_bytes, size_t bytes,
                           void *user) {
  failing_t *f = user;
  (void)old_bytes;
  if (bytes == 0) {
    free(old);
    return NULL;
  }
  if (++f->calls == f->fail_at) return NULL;
  return realloc(old, bytes);
}

static void work(td_task_t *task, void *arg) {
  (void)arg;
  const char *text = "fn f[N](x: f32[N]) -> y: f32[N] {\n"
                     "  y[i] = ((((((((x[i]))))))))  // c\n  z = a b\n}\n";
  td_arena_t arena;
  td_arena_init(&arena, task);
  uint32_t source = td_sources_add(task, "t.tdsl", text, strlen(text));
  ast_parse(task, &arena, source);
}

/* Whatever request fails, the call ends with that status and no leak (the
 * sanitizer build looks). */
static void test_memory(void **state) {
  (void)state;
  tdsl_status_t status = TDSL_STATUS_OUT_OF_MEMORY;
  size_t n = 1;
  for (; status != TDSL_STATUS_OK; n++) {
    failing_t failing = {0, n};
    td_host_t host = {.allocator = {failing_alloc, &failing}};
    td_task_t task;
    td_task_init(&task, &host);
    status = td_task_run(&task, work, NULL);
    td_task_free(&task);
    assert_true(status == TDSL_STATUS_OK ||
                status == TDSL_STATUS_OUT_OF_MEMORY);
  }
  assert_true(n > 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_tokens),      cmocka_unit_test(test_newlines),
      cmocka_unit_test(test_expressions), cmocka_unit_test(test_numbers),
      cmocka_unit_test(test_places),      cmocka_unit_test(test_faults),
      cmocka_unit_test(test_partial),     cmocka_unit_test(test_size),
      cmocka_unit_test(test_walks),       cmocka_unit_test(test_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
