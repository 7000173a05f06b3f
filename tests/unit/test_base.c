/* Tasks, arenas, vectors, maps, text. */
#include "unit.h"

#include "runtime/base/env.h"
#include "runtime/base/num.h"

/* -- arenas -- */

TASK_TEST(arena_gives_zeroed_aligned_memory) {
  (void)arg;
  td_arena_t arena;
  td_arena_init(&arena, task);
  for (size_t n = 0; n < 3000; n += 7) {
    unsigned char *p = td_arena_alloc(&arena, n);
    assert_int_equal((uintptr_t)p % 16, 0);
    for (size_t i = 0; i < n; i++) assert_int_equal(p[i], 0);
    memset(p, 0xa5, n); /* the next one must still be zero */
  }
  unsigned char *large = td_arena_alloc(&arena, (size_t)5 << 20);
  large[((size_t)5 << 20) - 1] = 1;
  td_arena_free_all(&arena);
  assert_null(arena.top);
  assert_non_null(td_arena_alloc(&arena, 1));
}

TASK_TEST(arena_moves_between_tasks) {
  (void)task, (void)arg;
  td_task_t first, second;
  td_arena_t arena;
  td_task_init(&first, NULL);
  td_arena_init(&arena, &first);
  td_trap_t *trap = task->trap; /* allocation may unwind: lend the trap */
  first.trap = trap;
  const char *text = td_arena_strdup(&arena, "kept");
  td_arena_detach(&arena);
  first.trap = NULL;
  td_task_free(&first);
  assert_string_equal(text, "kept");
  td_task_init(&second, NULL);
  td_arena_attach(&arena, &second);
  td_arena_free_all(&arena);
  td_task_free(&second);
}

static void too_much(td_task_t *task, void *arg) {
  (void)arg;
  TD_NEW_ARRAY(&task->arena, uint64_t, SIZE_MAX / 4);
}

static void fill_some(td_task_t *task, void *arg) {
  (void)arg;
  td_arena_t arena;
  td_map_t map;
  td_buf_t buf;
  td_arena_init(&arena, task);
  td_map_init(&map, &arena);
  td_buf_init(&buf, task);
  for (int i = 0; i < 300; i++) {
    td_buf_clear(&buf);
    td_buf_printf(&buf, "key %d", i);
    td_map_put(&map, td_buf_view(&buf), (void *)"x");
    td_diag_t *d = td_diag(task, TD_E01, TD_NO_LOC, "number %d", i);
    td_diag_note(d, "note");
  }
  td_buf_pad(&buf, 'x', 100000);
  td_arena_free_all(&arena);
}

static void failures_unwind_without_leaks(void **state) {
  (void)state;
  td_task_t task;
  td_task_init(&task, NULL);
  assert_int_equal(td_task_run(&task, too_much, NULL), TDSL_STATUS_LIMIT);
  td_task_free(&task);
  unit_sweep(fill_some, NULL);
}

/* -- tasks -- */

static void note_call(void *arg) { ++*(int *)arg; }

static void breaks(td_task_t *task, void *arg) {
  task->stage = "unit";
  td_defer(task, note_call, arg);
  td_defer(task, note_call, arg);
  td_undefer(task, false);
  TD_CHECK(task, *(int *)arg > 5, "value %d", *(int *)arg);
  td_undefer(task, false);
}

static void outer(td_task_t *task, void *arg) {
  assert_int_equal(td_task_run(task, breaks, arg), TDSL_STATUS_INTERNAL);
  td_raise(task, TDSL_STATUS_LIMIT, "after %s", "that");
}

static void traps_nest_and_clean_up(void **state) {
  (void)state;
  int calls = 0;
  td_task_t task;
  td_task_init(&task, NULL);
  assert_int_equal(td_task_run(&task, breaks, &calls), TDSL_STATUS_INTERNAL);
  assert_int_equal(calls, 1);
  assert_non_null(strstr(task.message, "internal error in unit (breaks"));
  assert_non_null(strstr(task.message, "value 0"));
  assert_int_equal(td_task_run(&task, outer, &calls), TDSL_STATUS_LIMIT);
  assert_string_equal(task.message, "after that");
  assert_int_equal(calls, 2);
  assert_null(task.trap);
  td_task_free(&task);
}

static int always(void *user) {
  (void)user;
  return 1;
}

static void polls(td_task_t *task, void *arg) {
  (void)arg;
  td_task_poll(task);
}

static void cancel_stops(void **state) {
  (void)state;
  td_host_t host = {.cancel = {always, NULL}};
  td_task_t task;
  td_task_init(&task, &host);
  assert_int_equal(td_task_run(&task, polls, NULL), TDSL_STATUS_CANCELLED);
  td_task_free(&task);
}

static void keep_line(tdsl_severity_t level, tdsl_string_t category,
                      tdsl_string_t text, void *user) {
  td_buf_t *buf = user;
  td_buf_clear(buf);
  td_buf_printf(buf, "%d %.*s %.*s", (int)level, TD_STR_ARG(category),
                TD_STR_ARG(text));
}

TASK_TEST(log_goes_to_the_host) {
  (void)arg;
  td_buf_t buf;
  td_buf_init(&buf, task);
  task->host.log = (tdsl_log_t){keep_line, &buf};
  td_log(task, TDSL_SEVERITY_NOTE, "cache", "%d hits", 3);
  assert_string_equal(buf.data, "3 cache 3 hits");
}

TASK_TEST(status_follows_the_first_error) {
  (void)arg;
  assert_int_equal(td_task_status(task), TDSL_STATUS_OK);
  td_diag(task, TD_W02, TD_NO_LOC, "unused");
  assert_int_equal(td_task_status(task), TDSL_STATUS_OK);
  td_diag(task, TD_F20, TD_NO_LOC, "hole");
  td_diag(task, TD_E01, TD_NO_LOC, "name");
  assert_int_equal(td_task_status(task), TDSL_STATUS_INVALID_FILE);
  assert_int_equal(td_task_errors(task), 2);
}

/* -- vectors and maps -- */

TASK_TEST(vectors_grow) {
  (void)arg;
  TD_VEC(int) v = {0};
  TD_VEC(td_loc_t) locs = {0};
  for (int i = 0; i < 1000; i++) td_vec_push(&task->arena, &v, i);
  for (int i = 0; i < 1000; i++) assert_int_equal(v.data[i], i);
  td_vec_push(&task->arena, &locs, (td_loc_t){1, 2, 3, 4, 5});
  assert_int_equal(td_vec_last(&locs).end_column, 5);
  assert_int_equal(td_vec_pop(&v), 999);
  assert_int_equal(v.length, 999);
}

TASK_TEST(maps_find_what_was_put) {
  (void)arg;
  td_map_t map;
  char text[32];
  static int values[5000];
  td_map_init(&map, &task->arena);
  assert_null(td_map_get(&map, td_str("none")));
  for (int i = 0; i < 5000; i++) {
    td_buf_t buf;
    td_buf_init_fixed(&buf, text, sizeof text);
    td_buf_printf(&buf, "k%d", i * 7919 % 5000);
    assert_null(td_map_put(&map, td_buf_view(&buf), &values[i]));
  }
  assert_int_equal(map.length, 5000);
  for (int i = 0; i < 5000; i++) {
    td_buf_t buf;
    td_buf_init_fixed(&buf, text, sizeof text);
    td_buf_printf(&buf, "k%d", i * 7919 % 5000);
    assert_ptr_equal(td_map_get(&map, td_buf_view(&buf)), &values[i]);
    assert_ptr_equal(map.entries[i].value, &values[i]); /* in order */
  }
  assert_ptr_equal(td_map_put(&map, td_str("k0"), NULL), &values[0]);
  assert_null(td_map_get(&map, td_str("k0")));
  assert_true(td_map_has(&map, td_str("k0")));
  assert_false(td_map_has(&map, td_str("k5000")));
  assert_null(td_map_put(&map, td_str(""), &values[1]));
  assert_ptr_equal(td_map_get(&map, td_str_n(NULL, 0)), &values[1]);
}

TASK_TEST(number_maps) {
  (void)arg;
  td_map_t map;
  td_map_init(&map, &task->arena);
  for (uint64_t i = 0; i < 1000; i++) {
    td_map_put_u64(&map, i << 32, &map);
  }
  assert_ptr_equal(td_map_get_u64(&map, (uint64_t)999 << 32), &map);
  assert_null(td_map_get_u64(&map, 1));
}

TASK_TEST(interned_names_are_one) {
  (void)arg;
  const char *a = td_intern(task, td_str("head"));
  const char *b = td_intern(task, td_str_n("headless", 4));
  assert_ptr_equal(a, b);
  assert_string_equal(a, "head");
  for (int i = 0; i < 100; i++) {
    td_intern(task, td_str(td_arena_printf(&task->arena, "n%d", i)));
  }
  assert_ptr_equal(td_intern(task, td_str("head")), a);
}

/* -- text -- */

TASK_TEST(formatting) {
  (void)arg;
  td_buf_t b;
  td_buf_init(&b, task);
  td_buf_printf(&b, "%d %5d|%-5d|%05d %+d %u %x %X %08x %%", -7, 42, 42, -42,
                3, 7u, 255u, 255u, 0xbeefu);
  assert_string_equal(b.data,
                      "-7    42|42   |-0042 +3 7 ff FF 0000beef %");
  td_buf_clear(&b);
  td_buf_printf(&b, "%lld %llu %zu %ld %hhd %hx %jd", (long long)INT64_MIN,
                (unsigned long long)UINT64_MAX, (size_t)9, 5L, (signed char)44,
                (unsigned short)0x2345,
                (intmax_t)-1);
  assert_string_equal(
      b.data, "-9223372036854775808 18446744073709551615 9 5 44 2345 -1");
  td_buf_clear(&b);
  td_buf_printf(&b, "[%s|%6s|%-6s|%.2s|%.*s|%c|%*d]", "ab", "cd", "ef",
                "ghi", 1, "jk", 'l', 4, 5);
  assert_string_equal(b.data, "[ab|    cd|ef    |gh|j|l|   5]");
  td_buf_clear(&b);
  td_buf_printf(&b, "%g %g %.3d", 0.1, 1e300, 7);
  assert_string_equal(b.data, "0.1 1e+300 007");
}

static void bad_conversion(td_task_t *task, void *arg) {
  td_buf_t b;
  td_buf_init(&b, task);
  td_buf_printf(&b, (const char *)arg, 1);
}

static void unknown_conversions_are_our_fault(void **state) {
  (void)state;
  td_task_t task;
  td_task_init(&task, NULL);
  char format[] = "%o";
  assert_int_equal(td_task_run(&task, bad_conversion, format),
                   TDSL_STATUS_INTERNAL);
  td_task_free(&task);
}

TASK_TEST(fixed_storage_truncates) {
  UNUSED_ARG;
  char place[8];
  td_buf_t b;
  td_buf_init_fixed(&b, place, sizeof place);
  td_buf_printf(&b, "%d and %d", 12345, 67890);
  assert_string_equal(place, "12345 a");
  td_buf_putc(&b, 'x');
  assert_int_equal(b.length, 7);
}

TASK_TEST(json_text_is_escaped) {
  (void)arg;
  td_buf_t b;
  td_buf_init(&b, task);
  td_buf_json(&b, td_str("a\"b\\c\n\x01\xc3\xa9\xff"));
  assert_string_equal(b.data, "\"a\\\"b\\\\c\\n\\u0001\xc3\xa9\\ufffd\"");
}

TASK_TEST(edit_distances) {
  UNUSED_ARG;
  assert_int_equal(td_edit_distance(td_str("kitten"), td_str("sitting"), 9),
                   3);
  assert_int_equal(td_edit_distance(td_str("ab"), td_str("ba"), 9), 1);
  assert_int_equal(td_edit_distance(td_str(""), td_str("abc"), 9), 3);
  assert_int_equal(td_edit_distance(td_str("abc"), td_str("xyz"), 1), 2);
  td_nearest_t n = td_nearest_start(td_str("num_head"));
  td_nearest_offer(&n, td_str("hidden_size"));
  td_nearest_offer(&n, td_str("num_heads"));
  td_nearest_offer(&n, td_str("num_headz"));
  assert_true(td_str_eqc(n.best, "num_heads"));
  n = td_nearest_start(td_str("q"));
  td_nearest_offer(&n, td_str("k"));
  assert_null(n.best.data);
}

TASK_TEST(utf8) {
  UNUSED_ARG;
  static const char *const bad[] = {
      "\x80",         "\xc0\xaf",     "\xe0\x80\xaf",     "\xed\xa0\x80",
      "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80", "\xe2\x82", "\xc3(",
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_false(td_utf8_valid(bad[i], strlen(bad[i])));
  }
  uint32_t code;
  assert_int_equal(td_utf8_decode("\xf0\x9f\x98\x80", 4, &code), 4);
  assert_int_equal(code, 0x1f600);
  assert_int_equal(td_utf8_width(code), 2);
  assert_int_equal(td_utf8_width(0x301), 0);
  assert_int_equal(td_utf8_width('a'), 1);
}

TASK_TEST(knobs) {
  UNUSED_ARG;
  setenv("TDSL_VERIFY", "2", 1);
  setenv("TDSL_DEBUG", "much", 1);
  setenv("TDSL_DUMP_AFTER", "fuse,tile_loops", 1);
  unsetenv("TDSL_DEVICE");
  assert_int_equal(td_env_int(TD_ENV_VERIFY), 2);
  assert_int_equal(td_env_int(TD_ENV_DEBUG), 0);
  assert_string_equal(td_env_text(TD_ENV_DEVICE), "cpu");
  assert_null(td_env_set(TD_ENV_DEVICE));
  assert_true(td_env_list_has(TD_ENV_DUMP_AFTER, "tile_loops"));
  assert_false(td_env_list_has(TD_ENV_DUMP_AFTER, "tile"));
  for (int i = 0; i < TD_ENV_COUNT; i++) {
    const td_env_row_t *row = td_env_row((td_env_id_t)i);
    assert_int_equal(strncmp(row->name, "TDSL_", 5), 0);
    assert_true(row->sentence[0]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(arena_gives_zeroed_aligned_memory),
      cmocka_unit_test(arena_moves_between_tasks),
      cmocka_unit_test(failures_unwind_without_leaks),
      cmocka_unit_test(traps_nest_and_clean_up),
      cmocka_unit_test(cancel_stops),
      cmocka_unit_test(log_goes_to_the_host),
      cmocka_unit_test(status_follows_the_first_error),
      cmocka_unit_test(vectors_grow),
      cmocka_unit_test(maps_find_what_was_put),
      cmocka_unit_test(number_maps),
      cmocka_unit_test(interned_names_are_one),
      cmocka_unit_test(formatting),
      cmocka_unit_test(unknown_conversions_are_our_fault),
      cmocka_unit_test(fixed_storage_truncates),
      cmocka_unit_test(json_text_is_escaped),
      cmocka_unit_test(edit_distances),
      cmocka_unit_test(utf8),
      cmocka_unit_test(knobs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
