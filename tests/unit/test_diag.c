/* Diagnostics: the worked examples of the design, columns, bounds. */
#include "unit.h"

static td_loc_t at(uint32_t file, uint32_t line, uint32_t column,
                   uint32_t length) {
  return (td_loc_t){file, line, column, line, column + length};
}

/* The place of a text in a source, so that tests do not count columns. */
static td_loc_t find(td_task_t *task, uint32_t file, const char *what,
                     int which) {
  const td_source_t *s = td_sources_get(task, file);
  const char *p = strstr(s->text, what);
  while (p && which-- > 0) p = strstr(p + 1, what);
  assert_non_null(p);
  uint32_t line = 1;
  const char *start = s->text;
  for (const char *q = s->text; q < p; q++) {
    if (*q == '\n') line++, start = q + 1;
  }
  return at(file, line, (uint32_t)(p - start) + 1, (uint32_t)strlen(what));
}

static const char *render(td_task_t *task, const td_diag_t *d) {
  td_buf_t buf;
  td_buf_init(&buf, task);
  td_diag_render(&buf, task, d, false);
  return td_buf_finish(&buf, &task->arena);
}

static uint32_t add(td_task_t *task, const char *name, const char *text) {
  return td_sources_add(task, name, text, strlen(text));
}

TASK_TEST(spans_of_one_line) {
  (void)arg;
  uint32_t f =
      add(task, "mlp.tdsl",
          "1\n2\n3\n4\n5\n6\n7\n8\n"
          "  h[b, t, f]: bf16 = silu(sum[d] x[b, t, d] * w.w1[f, d])\n");
  td_diag_t *d = td_diag(task, TD_E20, find(task, f, "x[b, t, d]", 0),
                         "mesh axis tp cuts both t and f in this formula; "
                         "one must give way");
  td_diag_beside(d, "t@tp from x, line 8");
  td_diag_label(d, find(task, f, "w.w1[f, d]", 0),
                "f@tp from Mlp.w1, line 7");
  td_diag_help(d, "gather t first:  g[b, t@none, d] = x[b, t, d]\n"
                  "all-gather");
  assert_string_equal(
      render(task, d),
      "mlp.tdsl:9:34: error[E20]: mesh axis tp cuts both t and f in this "
      "formula; one must give way\n"
      " 9 |   h[b, t, f]: bf16 = silu(sum[d] x[b, t, d] * w.w1[f, d])\n"
      "   |                                  ^^^^^^^^^^   ---------- f@tp "
      "from Mlp.w1, line 7\n"
      "   |                                  t@tp from x, line 8\n"
      "help: gather t first:  g[b, t@none, d] = x[b, t, d]\n"
      "      all-gather\n");
}

TASK_TEST(spans_of_several_lines_and_files) {
  (void)arg;
  uint32_t f = add(task, "a.tdsl", "fn head(q, k)\n\n  o = head(x, y)\n");
  uint32_t g = add(task, "b.tdsl", "\ndyn T\n");
  td_diag_t *d = td_diag(task, TD_E06, find(task, f, "y", 0), "dims differ");
  td_diag_beside(d, "[T, K]");
  td_diag_label(d, find(task, f, "x", 0), "[S, K]");
  td_diag_note(d, "dim 0 differs");
  td_diag_label(d, find(task, f, "q", 0), "%s", "");
  td_diag_label(d, find(task, f, "k)", 0), "%s", "");
  td_diag_label(d, find(task, g, "T", 0), "bound here");
  assert_string_equal(render(task, d), "a.tdsl:3:15: error[E06]: dims differ\n"
                                       " 3 |   o = head(x, y)\n"
                                       "   |            -  ^ [T, K]\n"
                                       "   |            [S, K]\n"
                                       "   = dim 0 differs\n"
                                       " 1 | fn head(q, k)\n"
                                       "   |         -  --\n"
                                       "   --> b.tdsl:2\n"
                                       " 2 | dyn T\n"
                                       "   |     - bound here\n");
}

TASK_TEST(columns_are_those_shown) {
  (void)arg;
  /* A tab to the next multiple of 8, a wide character, a combining one, a
     CR before the LF, a byte that is no UTF-8, no newline at the end. */
  uint32_t f = add(task, "c.tdsl",
                   "\tx = 1\r\n/* \xe6\xbc\xa2 e\xcc\x81 \xff */ y = 2");
  td_diag_t *d = td_diag(task, TD_E01, find(task, f, "x", 0), "a");
  assert_string_equal(render(task, d), "c.tdsl:1:9: error[E01]: a\n"
                                       " 1 |         x = 1\n"
                                       "   |         ^\n");
  d = td_diag(task, TD_E01, find(task, f, "y", 0), "b");
  assert_string_equal(
      render(task, d),
      "c.tdsl:2:14: error[E01]: b\n"
      " 2 | /* \xe6\xbc\xa2 e\xcc\x81 ? */ y = 2\n"
      "   |              ^\n");
  d = td_diag(task, TD_P04, at(f, 2, 22, 0), "end of file");
  assert_string_equal(
      render(task, d),
      "c.tdsl:2:19: error[P04]: end of file\n"
      " 2 | /* \xe6\xbc\xa2 e\xcc\x81 ? */ y = 2\n"
      "   |                   ^\n");
  uint32_t bom = add(task, "d.tdsl", "\xef\xbb\xbfx = 1\n");
  d = td_diag(task, TD_E01, find(task, bom, "x", 0), "c");
  assert_string_equal(render(task, d), "d.tdsl:1:1: error[E01]: c\n"
                                       " 1 | \xef\xbb\xbfx = 1\n"
                                       "   | ^\n");
  uint32_t empty = add(task, "e.tdsl", "");
  d = td_diag(task, TD_P04, at(empty, 1, 1, 0), "d");
  assert_string_equal(render(task, d), "e.tdsl:1:1: error[P04]: d\n"
                                       " 1 |\n"
                                       "   | ^\n");
}

TASK_TEST(spans_over_lines_and_outside) {
  (void)arg;
  uint32_t f = add(task, "a.tdsl", "one (two\n three)\n");
  td_loc_t from = find(task, f, "(two", 0), to = find(task, f, "three)", 0);
  td_diag_t *d = td_diag(task, TD_P02, td_loc_join(from, to), "open");
  assert_string_equal(render(task, d), "a.tdsl:1:5: error[P02]: open\n"
                                       " 1 | one (two\n"
                                       "   |     ^^^^\n");
  d = td_diag(task, TD_E44, (td_loc_t){f, 0, 0, 0, 0}, "whole file");
  assert_string_equal(render(task, d), "a.tdsl: error[E44]: whole file\n");
  d = td_diag(task, TD_W02, TD_NO_LOC, "nowhere");
  assert_string_equal(render(task, d), "warning[W02]: nowhere\n");
  d = td_diag(task, TD_E01, at(f, 99, 5, 3), "past the end");
  assert_string_equal(render(task, d), "a.tdsl:99:2: error[E01]: past the end\n"
                                       "99 |\n"
                                       "   |  ^\n");
}

TASK_TEST(wide_gutters_and_colors) {
  (void)arg;
  td_buf_t text;
  td_buf_init(&text, task);
  for (int i = 1; i < 1000; i++) td_buf_puts(&text, "\n");
  td_buf_puts(&text, "x\n");
  uint32_t f = td_sources_add(task, "a.tdsl", text.data, text.length);
  td_diag_t *d = td_diag(task, TD_E01, find(task, f, "x", 0), "a");
  td_diag_note(d, "n");
  assert_string_equal(render(task, d), "a.tdsl:1000:1: error[E01]: a\n"
                                       "1000 | x\n"
                                       "     | ^\n"
                                       "     = n\n");
  td_buf_t colored;
  td_buf_init(&colored, task);
  td_diag_render(&colored, task, d, true);
  assert_non_null(strstr(colored.data, "\x1b[1;31m^\x1b[0m"));
}

TASK_TEST(as_json) {
  (void)arg;
  uint32_t f = add(task, "a.tdsl", "\tx = \"\"\n");
  td_diag_t *d =
      td_diag(task, TD_E01, find(task, f, "x", 0), "say \"%s\"", "x");
  td_diag_label(d, find(task, f, "=", 0), "l");
  td_diag_help(d, "h");
  td_diag_edit(d, find(task, f, "x", 0), "y");
  td_buf_t buf;
  td_buf_init(&buf, task);
  td_diag_json(&buf, task, d);
  assert_string_equal(
      buf.data,
      "{\"id\":\"E01\",\"severity\":\"error\",\"file\":\"a.tdsl\",\"line\":1,"
      "\"column\":9,\"end_line\":1,\"end_column\":10,\"text\":\"say "
      "\\\"x\\\"\",\"beside\":\"\",\"labels\":[{\"file\":\"a.tdsl\","
      "\"line\":1,\"column\":11,\"end_line\":1,\"end_column\":12,"
      "\"text\":\"l\"}],\"notes\":[],\"help\":[\"h\"],\"edits\":[{\"file\":"
      "\"a.tdsl\",\"line\":1,\"column\":9,\"end_line\":1,\"end_column\":10,"
      "\"replacement\":\"y\"}]}");
}

TASK_TEST(errors_are_bounded) {
  (void)arg;
  for (int i = 0; i < 50; i++) {
    td_diag_t *d = td_diag(task, TD_E01, TD_NO_LOC, "number %d", i);
    td_diag_note(d, "always usable");
  }
  td_diag(task, TD_W02, TD_NO_LOC, "warnings still come");
  td_diag(task, TD_E01, TD_NO_LOC, "number 3"); /* a repetition */
  assert_int_equal(task->diags.length, TD_MAX_ERRORS + 1);
  assert_int_equal(td_task_errors(task), 51);
}

/* Every id has its texts, and a page that says more than its title. */
TASK_TEST(the_index_is_complete) {
  UNUSED_ARG;
  for (int i = 1; i < TD_DIAG_COUNT; i++) {
    td_diag_id_t id = (td_diag_id_t)i;
    const char *name = td_diag_name(id), *page = td_diag_page(id);
    assert_int_equal(td_diag_find(td_str(name)), id);
    assert_non_null(strchr("PELRWBF", name[0]));
    assert_int_equal(strlen(name), 3);
    assert_true(strlen(td_diag_title(id)) > 10);
    if (strlen(page) < 30) print_error("%s has no page\n", name);
    assert_true(strlen(page) >= 30);
  }
  assert_int_equal(td_diag_find(td_str("E99")), TD_DIAG_NONE);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(spans_of_one_line),
      cmocka_unit_test(spans_of_several_lines_and_files),
      cmocka_unit_test(columns_are_those_shown),
      cmocka_unit_test(spans_over_lines_and_outside),
      cmocka_unit_test(wide_gutters_and_colors),
      cmocka_unit_test(as_json),
      cmocka_unit_test(errors_are_bounded),
      cmocka_unit_test(the_index_is_complete),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
