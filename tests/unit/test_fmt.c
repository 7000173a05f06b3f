/* fmt: the form of the result, and that it means the same, keeps comments
 * and formats to itself. */
#include "frontend/parse.h"
#include "runtime/base/os.h"
#include "runtime/base/task.h"

#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

static const struct {
  const char *before, *after;
} forms[] = {
    {"", ""},
    {"\n\n// c  \n", "// c\n"},
    {"dim A=1 ;dim B  = 2\n\n\n\ndim C", "dim A = 1; dim B = 2\n\ndim C\n"},
    /* Blanks. */
    {"fn  f [N ,...S , E :dtype] ( x:E [ N ] , c :inout C)->y :E[N]{y=x}",
     "fn f[N, ...S, E: dtype](x: E[N], c: inout C) -> y: E[N] { y = x }\n"},
    {"const A=-1, B=a- -b, C=not a, D=2^-3, E = a -b",
     "const A = -1, B = a - -b, C = not a, D = 2^-3, E = a - b\n"},
    {"const A = a*b+c / d % e, B = sum [i]-x[i], C=x [ :,i ]",
     "const A = a*b+c / d % e, B = sum[i] -x[i], C = x[:, i]\n"},
    {"import nn( a,b ); mesh( dp=2 ,tp )", "import nn (a, b); mesh (dp = 2, "
                                           "tp)\n"},
    {"struct S{a:[ L @ pp]B as f32 @ dp partial( tp )in 0..V from \"x\" else "
     "b}",
     "struct S { a: [L @pp] B as f32 @dp partial(tp) in 0 .. V from \"x\" "
     "else b }\n"},
    {"fn f() with test,p(2 , bf16){assert(a)<b,\"t\";x:=(y) [i|0]where c}",
     "fn f() with test, p(2, bf16) { assert (a) < b, \"t\"; x := (y)[i | "
     "0] where c }\n"},
    /* Blocks. */
    {"fn f() {\nfor i in N{ x:=i }\nfor i in N {\nx:=i }\ncheckpoint{}\n}",
     "fn f() {\n  for i in N { x := i }\n  for i in N {\n    x := i\n  }\n"
     "  checkpoint { }\n}\n"},
    {"fn f()\n{\n\n  // a\n\n\n  y = a\n\n}",
     "fn f() {\n  // a\n\n  y = a\n}\n"},
    /* A line that begins with ( needs the semicolon before it. */
    {"fn f() {\n  y = a;\n  (b)(c)\n  z = c;\n  w = d\n}",
     "fn f() {\n  y = a;\n  (b)(c)\n  z = c\n  w = d\n}\n"},
    /* Lines that go on keep their breaks. */
    {"fn f() {\n  y = if a\n then b +\n  c\n else g(d,\n e)\n}",
     "fn f() {\n  y = if a\n      then b +\n      c\n      else g(d,\n"
     "             e)\n}\n"},
    {"fn f(\na: f32,\nb: f32\n) -> y: f32 { y = a }",
     "fn f(\n    a: f32,\n    b: f32\n) -> y: f32 { y = a }\n"},
    /* Comments. */
    {"fn f() { // head\n  y = a   // one\n  long = b // two\n\n  z = c // three"
     "\n  // last\n}",
     "fn f() {    // head\n  y = a     // one\n  long = b  // two\n\n"
     "  z = c  // three\n  // last\n}\n"},
    {"fn f() {\n  y = g(a, // first\n  b) /* in */ + /* out */ c\n}",
     "fn f() {\n  y = g(a,  // first\n        b) /* in */ + /* out */ c\n}\n"},
    {"/* a\n   b */ dim A = 1", "/* a\n   b */ dim A = 1\n"},
    /* Fields of neighbouring lines. */
    {"struct S {\n  a: f32 from \"a\"\n  bcd: i32[N] from \"b\" // c\n"
     "  e: f32 // d\n\n  g: f32 from \"g\"\n  h: f32; i: f32\n}",
     "struct S {\n  a:   f32    from \"a\"\n  bcd: i32[N] from \"b\"  // c\n"
     "  e:   f32              // d\n\n  g: f32 from \"g\"\n"
     "  h: f32; i: f32\n}\n"},
    /* Bytes that have no say. */
    {"\xEF\xBB\xBF"
     "dim A = 1 // c\r\n\tdim B\r\n",
     "dim A = 1  // c\ndim B\n"},
    /* 100 columns and 101. */
    {"fn f() { y = aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa + "
     "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb * cccccccccccccccccc }",
     "fn f() {\n  y = aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa + "
     "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb * cccccccccccccccccc\n}\n"},
    {"fn f() { y = aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa + "
     "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb * ccccccccccccccccccc }",
     "fn f() {\n  y = aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n      + "
     "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb * ccccccccccccccccccc\n}\n"},
};

typedef struct job {
  const char *text;
  size_t length;
  const char *wanted; /* NULL: any form */
  const char *fault;  /* what is wrong with the result, or NULL */
  char *result;       /* malloced */
} job_t;

/* All comments of a text, without blanks around them and CR. */
static void comments(td_buf_t *out, const char *s, const char *end) {
  while (s < end) {
    if (*s == '"') { /* a text ends on its line */
      do s++;
      while (s < end && *s != '"' && *s != '\n');
      s++;
    } else if (s + 1 < end && s[0] == '/' && (s[1] == '/' || s[1] == '*')) {
      bool block = s[1] == '*';
      const char *from = s;
      if (block) {
        for (s += 2; s[0] != '*' || s[1] != '/'; s++) {}
        s += 2;
      } else {
        while (s < end && *s != '\n') s++;
      }
      const char *to = s;
      while (to[-1] == ' ' || to[-1] == '\r' || to[-1] == '\t') to--;
      for (; from < to; from++) {
        if (*from != '\r') td_buf_putc(out, *from);
      }
      td_buf_putc(out, '\n');
    } else {
      s++;
    }
  }
}

static void check(td_task_t *task, void *arg) {
  job_t *job = arg;
  td_arena_t arena;
  td_arena_init(&arena, task);
  td_buf_t once, twice, said, said_again;
  td_buf_init(&once, task);
  td_buf_init(&twice, task);
  td_buf_init(&said, task);
  td_buf_init(&said_again, task);
  uint32_t source = td_sources_add(task, "a.tdsl", job->text, job->length);
  if (!fmt_source(task, source, &once)) {
    job->fault = "it does not parse";
    return;
  }
  job->result = strdup(once.data);
  uint32_t again = td_sources_add(task, "b.tdsl", once.data, once.length);
  ast_file_t *a = ast_parse(task, &arena, source);
  ast_file_t *b = ast_parse(task, &arena, again);
  comments(&said, job->text, job->text + job->length);
  comments(&said_again, once.data, once.data + once.length);
  if (b->has_errors) {
    job->fault = "the result does not parse";
  } else if (!ast_equal(a, b)) {
    job->fault = "the tree changes";
  } else if (!fmt_source(task, again, &twice) ||
             strcmp(once.data, twice.data) != 0) {
    job->fault = "a second run changes it";
  } else if (strcmp(said.data, said_again.data) != 0) {
    job->fault = "comments change";
  } else if (job->wanted && strcmp(once.data, job->wanted) != 0) {
    job->fault = "the form";
  }
}

static size_t run(job_t *job, const char *name) {
  td_task_t task;
  td_task_init(&task, NULL);
  tdsl_status_t status = td_task_run(&task, check, job);
  if (status != TDSL_STATUS_OK) job->fault = "it unwinds";
  if (job->fault) {
    print_error("%s: %s\n--- result\n%s--- wanted\n%s", name, job->fault,
                job->result ? job->result : "", job->wanted ? job->wanted : "");
  }
  free(job->result);
  td_task_free(&task);
  return job->fault ? 1 : 0;
}

static void test_forms(void **state) {
  (void)state;
  size_t faults = 0;
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    job_t job = {.text = forms[i].before,
                 .length = strlen(forms[i].before),
                 .wanted = forms[i].after};
    faults += run(&job, forms[i].before);
  }
  assert_int_equal(faults, 0);
}

static char *read_all(const char *path, size_t *length) {
  FILE *f = fopen(path, "rb");
  assert_non_null(f);
  assert_int_equal(fseek(f, 0, SEEK_END), 0);
  *length = (size_t)ftell(f);
  rewind(f);
  char *text = malloc(*length + 1);
  assert_non_null(text);
  assert_int_equal(fread(text, 1, *length, f), *length);
  text[*length] = 0;
  fclose(f);
  return text;
}

/* Every program of the tree, as it is and with all blanks made one. */
static void test_programs(void **state) {
  (void)state;
  static const char *const patterns[] = {
      TDSL_SOURCE_DIR "/examples/*/*.tdsl", TDSL_SOURCE_DIR "/stdlib/*.tdsl",
      TDSL_SOURCE_DIR "/tests/exec/*.tdsl",
      TDSL_SOURCE_DIR "/tests/frontend/ok/*.tdsl"};
  size_t faults = 0, count = 0;
  for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
    glob_t found;
    if (glob(patterns[i], 0, NULL, &found) != 0) continue;
    for (size_t k = 0; k < found.gl_pathc; k++, count++) {
      size_t length;
      char *text = read_all(found.gl_pathv[k], &length);
      job_t job = {.text = text, .length = length};
      faults += run(&job, found.gl_pathv[k]);
      free(text);
    }
    globfree(&found);
  }
  assert_int_equal(faults, 0);
  assert_true(count >= 15);
}

static void refuse(td_task_t *task, void *arg) {
  bool *ok = arg;
  td_buf_t out;
  td_buf_init(&out, task);
  uint32_t source = td_sources_add(task, "a.tdsl", "dim A = = 1", 11);
  *ok = !fmt_source(task, source, &out) && out.length == 0 &&
        td_task_errors(task) == 1;
}

static void test_errors(void **state) {
  (void)state;
  td_task_t task;
  td_task_init(&task, NULL);
  bool ok = false;
  assert_int_equal(td_task_run(&task, refuse, &ok), TDSL_STATUS_OK);
  assert_true(ok);
  td_task_free(&task);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_forms),
      cmocka_unit_test(test_programs),
      cmocka_unit_test(test_errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
