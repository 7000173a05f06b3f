/* Files, libraries, clock and threads. */
#include "unit.h"

#include <sys/stat.h>
#include <unistd.h>

static const char *scratch(td_task_t *task) {
  const char *folder = td_arena_printf(&task->arena, "unit_os_%d.tmp/a/b",
                                       (int)getpid());
  assert_true(td_os_make_folders(task, folder));
  assert_true(td_os_is_folder(folder));
  return folder;
}

static void remove_scratch(td_task_t *task, const char *folder) {
  rmdir(folder);
  folder = td_os_folder_of(&task->arena, folder);
  rmdir(folder);
  rmdir(td_os_folder_of(&task->arena, folder));
}

TASK_TEST(files_are_written_whole) {
  (void)arg;
  const char *folder = scratch(task);
  const char *path = td_os_join(&task->arena, folder, "f");
  td_str_t got;
  assert_true(td_os_write_atomic(task, path, "one", 3));
  assert_true(td_os_write_atomic(task, path, "second", 6));
  assert_true(td_os_read_file(task, path, 0, &task->arena, &got));
  assert_true(td_str_eqc(got, "second"));
  assert_int_equal(got.data[got.length], 0);
  td_file_map_t map;
  assert_true(td_os_map_file(task, path, &map));
  assert_int_equal(map.length, 6);
  assert_memory_equal(map.data, "second", 6);
  td_os_unmap_file(&map);
  td_os_unmap_file(&map); /* twice is harmless */
  assert_true(td_os_write_atomic(task, path, "", 0));
  assert_true(td_os_map_file(task, path, &map));
  assert_int_equal(map.length, 0);
  td_os_unmap_file(&map);
  assert_true(td_os_read_file(task, path, 0, &task->arena, &got));
  assert_int_equal(got.length, 0);
  assert_int_equal(td_task_errors(task), 0);
  unlink(path);
  /* Nothing but the file was left: the folder can go. */
  assert_int_equal(rmdir(folder), 0);
  remove_scratch(task, folder);
}

TASK_TEST(refusals_name_file_and_reason) {
  (void)arg;
  td_str_t got;
  td_file_map_t map;
  td_buf_t buf;
  td_buf_init(&buf, task);
  assert_false(td_os_read_file(task, "no/such", 0, &task->arena, &got));
  td_diag_render(&buf, task, task->diags.data[0], false);
  assert_string_equal(
      buf.data, "no/such: error[F01]: cannot open: no such file or folder\n");
  assert_int_equal(td_task_status(task), TDSL_STATUS_IO);
  assert_false(td_os_map_file(task, ".", &map));
  assert_false(td_os_write_atomic(task, "no/such/file", "x", 1));
  assert_string_equal(td_diag_name(task->diags.data[2]->id), "F02");
  const char *folder = scratch(task);
  const char *path = td_os_join(&task->arena, folder, "f");
  assert_true(td_os_write_atomic(task, path, "12345", 5));
  assert_false(td_os_read_file(task, path, 4, &task->arena, &got));
  assert_string_equal(td_diag_name(task->diags.data[3]->id), "F03");
  assert_true(td_os_read_file(task, path, 5, &task->arena, &got));
  assert_false(td_os_make_folders(task, td_os_join(&task->arena, path, "x")));
  unlink(path);
  remove_scratch(task, folder);
}

TASK_TEST(pipes_are_read) {
  (void)arg;
  const char *folder = scratch(task);
  const char *path = td_os_join(&task->arena, folder, "pipe");
  td_str_t got;
  /* What is no regular file has no length to trust. */
  assert_true(td_os_read_file(task, "/dev/null", 0, &task->arena, &got));
  assert_int_equal(got.length, 0);
  assert_false(td_os_read_file(task, "/dev/zero", 10000, &task->arena, &got));
  assert_string_equal(unit_first_id(task), "F03");
  assert_true(td_os_write_atomic(task, "/dev/null", "x", 1));
  unlink(path);
  remove_scratch(task, folder);
}

TASK_TEST(paths) {
  (void)arg;
  td_arena_t *a = &task->arena;
  assert_string_equal(td_os_join(a, "a", "b"), "a/b");
  assert_string_equal(td_os_join(a, "a/", "b"), "a/b");
  assert_string_equal(td_os_join(a, "", "b"), "b");
  assert_string_equal(td_os_join(a, "a", "/b"), "/b");
  assert_string_equal(td_os_folder_of(a, "a/b/c"), "a/b");
  assert_string_equal(td_os_folder_of(a, "c"), "");
  assert_string_equal(td_os_folder_of(a, "/c"), "/");
  assert_null(td_os_real_path(a, "no/such"));
  assert_string_equal(td_os_real_path(a, "/"), "/");
}

TASK_TEST(libraries) {
  (void)arg;
  const char *reason = NULL;
  assert_null(td_os_dlopen(&task->arena, "libno_such_thing.so", &reason));
  assert_non_null(reason);
  void *self = td_os_dlopen(&task->arena, NULL, &reason);
  assert_non_null(self);
  assert_non_null(td_os_dlsym(self, "malloc"));
  assert_null(td_os_dlsym(self, "no_such_symbol_at_all"));
  td_os_dlclose(self);
}

typedef struct shared_t {
  td_mutex_t mutex;
  td_cond_t changed;
  int count;
} shared_t;

static void add_many(void *arg) {
  shared_t *s = arg;
  for (int i = 0; i < 1000; i++) {
    td_mutex_lock(&s->mutex);
    s->count++;
    td_mutex_unlock(&s->mutex);
  }
  td_cond_broadcast(&s->changed);
}

TASK_TEST(threads_and_clock) {
  UNUSED_ARG;
  shared_t s = {.count = 0};
  td_thread_t threads[3];
  uint64_t before = td_os_now_ns();
  assert_true(td_mutex_init(&s.mutex) && td_cond_init(&s.changed));
  for (int i = 0; i < 3; i++) {
    assert_true(td_thread_start(&threads[i], add_many, &s, i ? 0 : 256 << 10));
  }
  for (int i = 0; i < 3; i++) td_thread_join(&threads[i]);
  assert_int_equal(s.count, 3000);
  assert_true(td_os_now_ns() >= before);
  assert_true(td_os_cpu_count() >= 1);
  td_cond_free(&s.changed);
  td_mutex_free(&s.mutex);
}

static void read_and_map(td_task_t *task, void *arg) {
  td_str_t got;
  td_file_map_t map;
  td_os_read_file(task, arg, 0, &task->arena, &got);
  if (td_os_map_file(task, arg, &map)) td_os_unmap_file(&map);
  td_os_read_file(task, "/dev/null", 0, &task->arena, &got);
}

/* A file opened when memory runs out is closed again: after the sweep the
   next file gets the same descriptor as before it. */
static void no_descriptor_is_left(void **state) {
  (void)state;
  char name[] = TDSL_TESTS_DIR "/formats/manifest.txt";
  int before = dup(0);
  close(before);
  unit_sweep(read_and_map, name);
  int after = dup(0);
  close(after);
  assert_int_equal(after, before);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(files_are_written_whole),
      cmocka_unit_test(refusals_name_file_and_reason),
      cmocka_unit_test(pipes_are_read),
      cmocka_unit_test(paths),
      cmocka_unit_test(libraries),
      cmocka_unit_test(threads_and_clock),
      cmocka_unit_test(no_descriptor_is_left),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
