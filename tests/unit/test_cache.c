/* The kernel cache: entries as bytes, hostile ones, folders of others, many
   writers. */
#include "unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/hal/cache_file.h"

enum { WRITERS = 8, ROUNDS = 40 };

/* ---- a folder for each test ---------------------------------------------- */

static const char *fresh_folder(td_task_t *task) {
  char place[] = "/tmp/tdsl-cache-XXXXXX";
  assert_non_null(mkdtemp(place));
  return td_arena_strdup(&task->arena, place);
}

static void remove_folder(td_task_t *task, const char *path) {
  const char *const argv[] = {"/bin/rm", "-rf", path, NULL};
  pid_t pid = fork();
  (void)task;
  if (pid == 0) {
    (void)execv(argv[0], (char *const *)(uintptr_t)argv);
    _exit(1);
  }
  (void)waitpid(pid, NULL, 0);
}

static const hal_field_t fields[] = {{"kind", {"test", 4}},
                                     {"arch", {"sm_90", 5}},
                                     {"text", {"a\0b", 3}}};
enum { FIELDS = 3 };

static hal_cache_t *open_cache(td_task_t *task, const char *path) {
  hal_cache_t *cache = hal_cache_open(task, path, HAL_CACHE_ON);
  assert_non_null(cache);
  return cache;
}

static const char *entry_path(td_task_t *task, const char *folder) {
  char name[HAL_CACHE_NAME_BYTES];
  hal_cache_name(task, fields, FIELDS, name);
  return td_os_join(&task->arena, folder, name);
}

static void put(hal_cache_t *cache, td_task_t *task, const char *code) {
  const hal_part_t parts[] = {{HAL_CACHE_SHOWN, {"k1 k2", 5}},
                              {"object", td_str(code)}};
  hal_cache_put(cache, task, fields, FIELDS, parts, 2);
}

static bool get(hal_cache_t *cache, td_task_t *task, hal_entry_t *out) {
  return hal_cache_get(cache, task, &task->arena, fields, FIELDS, out);
}

static bool has_code(hal_cache_t *cache, td_task_t *task, const char *code) {
  hal_entry_t e;
  if (!get(cache, task, &e)) return false;
  const td_str_t *part = hal_entry_part(&e, "object");
  return part != NULL && td_str_eqc(*part, code) &&
         (uintptr_t)part->data % 16 == 0;
}

static void write_bytes(const char *path, td_str_t bytes) {
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(bytes.data, 1, bytes.length, f), bytes.length);
  assert_int_equal(fclose(f), 0);
  assert_int_equal(chmod(path, 0600), 0);
}

/* ---- what it keeps ------------------------------------------------------- */

TASK_TEST(keeps_entries) {
  UNUSED_ARG;
  const char *path = fresh_folder(task);
  const char *inner = td_os_join(&task->arena, path, "a/b");
  hal_cache_t *cache = open_cache(task, inner);
  struct stat about;
  assert_int_equal(stat(inner, &about), 0);
  assert_int_equal(about.st_mode & 0777, 0700);
  hal_entry_t e;
  assert_false(get(cache, task, &e));
  put(cache, task, "first");
  assert_true(has_code(cache, task, "first"));
  put(cache, task, "second");
  assert_true(has_code(cache, task, "second"));
  assert_int_equal(stat(entry_path(task, inner), &about), 0);
  assert_int_equal(about.st_mode & 0777, 0600);
  /* another field is another entry */
  hal_field_t other[FIELDS];
  memcpy(other, fields, sizeof fields);
  other[2].value = td_str_n("a\0c", 3);
  assert_false(hal_cache_get(cache, task, &task->arena, other, FIELDS, &e));
  assert_false(hal_cache_get(cache, task, &task->arena, fields, 2, &e));
  assert_int_equal(task->diags.length, 0);
  hal_cache_close(cache);
  cache = open_cache(task, inner);
  assert_true(has_code(cache, task, "second"));
  hal_cache_close(cache);
  assert_false(get(NULL, task, &e));
  hal_cache_close(NULL);
  remove_folder(task, path);
}

/* Lengths keep fields apart that run together to the same text. */
TASK_TEST(fields_do_not_run_together) {
  UNUSED_ARG;
  const hal_field_t a[] = {{"x", {"ab", 2}}, {"y", {"c", 1}}};
  const hal_field_t b[] = {{"x", {"a", 1}}, {"y", {"bc", 2}}};
  char first[HAL_CACHE_NAME_BYTES], second[HAL_CACHE_NAME_BYTES];
  hal_cache_name(task, a, 2, first);
  hal_cache_name(task, b, 2, second);
  assert_string_not_equal(first, second);
}

/* ---- entries that are damaged -------------------------------------------- */

/* Any shorter file, any changed bit: refused, never a crash. */
TASK_TEST(every_defect_is_found) {
  UNUSED_ARG;
  td_buf_t file;
  hal_entry_t e;
  const hal_part_t parts[] = {{"ptx", {"// text", 7}}, {"cubin", {"", 0}}};
  td_buf_init(&file, task);
  hal_cache_encode(&file, fields, FIELDS, parts, 2);
  td_str_t whole = td_buf_view(&file);
  assert_null(hal_cache_decode(&task->arena, whole, true, &e));
  assert_int_equal(e.part_count, 2);
  for (size_t n = 0; n < whole.length; n++) {
    assert_non_null(hal_cache_decode(&task->arena,
                                     td_str_n(whole.data, n), true, &e));
  }
  for (size_t i = 0; i < whole.length * 8; i++) {
    file.data[i / 8] ^= (char)(1 << i % 8);
    assert_non_null(hal_cache_decode(&task->arena, whole, true, &e));
    file.data[i / 8] ^= (char)(1 << i % 8);
  }
  td_buf_free(&file);
}

/* Numbers that are wrong under a hash that is right. */
TASK_TEST(hostile_numbers) {
  UNUSED_ARG;
  static const struct {
    size_t at;
    uint32_t value;
  } faults[] = {{8, 0xFFFFFFFF}, {8, 65}, {8, 2}, {8, 4},   {12, 17},
                {12, 2},         {12, 0}, {24, 65}, {28, 0xFFFFFFF0},
                {24, 0xFFFFFFFF}};
  const hal_part_t parts[] = {{"ptx", {"// text", 7}}};
  for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
    td_buf_t file;
    hal_entry_t e;
    td_buf_init(&file, task);
    hal_cache_encode(&file, fields, FIELDS, parts, 1);
    file.length -= 16;
    for (int k = 0; k < 4; k++) {
      file.data[faults[i].at + (size_t)k] =
          (char)(faults[i].value >> (8 * k));
    }
    char hex[33];
    hal_cache_hex(td_buf_view(&file), hex);
    for (int k = 0; k < 16; k++) {
      char two[3] = {hex[2 * k], hex[2 * k + 1], '\0'};
      td_buf_putc(&file, (char)strtol(two, NULL, 16));
    }
    assert_non_null(
        hal_cache_decode(&task->arena, td_buf_view(&file), true, &e));
    td_buf_free(&file);
  }
}

static void expect_made_anew(hal_cache_t *cache, td_task_t *task,
                             const char *reason) {
  hal_entry_t e;
  task->diags.length = 0; /* repetitions are not kept */
  assert_false(get(cache, task, &e));
  assert_int_equal(task->diags.length, 1);
  const td_diag_t *d = task->diags.data[0];
  assert_string_equal(td_diag_name(d->id), "W06");
  if (strstr(d->text, reason) == NULL) fail_msg("%s", d->text);
  put(cache, task, "anew");
  assert_true(has_code(cache, task, "anew"));
}

TASK_TEST(damaged_files) {
  UNUSED_ARG;
  const char *path = fresh_folder(task);
  const char *file = entry_path(task, path);
  hal_cache_t *cache = open_cache(task, path);
  td_str_t bytes;
  put(cache, task, "code");
  assert_true(td_os_read_file(task, file, 0, &task->arena, &bytes));
  write_bytes(file, td_str(""));
  expect_made_anew(cache, task, "too short");
  write_bytes(file, td_str_n(bytes.data, bytes.length - 1));
  expect_made_anew(cache, task, "length");
  write_bytes(file, td_str("TDSLKC9\nand more than forty bytes of anything"));
  expect_made_anew(cache, task, "another form");
  /* a whole entry under the name of another one */
  td_buf_t other;
  td_buf_init(&other, task);
  hal_cache_encode(&other, fields, 2, NULL, 0);
  write_bytes(file, td_buf_view(&other));
  td_buf_free(&other);
  expect_made_anew(cache, task, "another kernel");
  /* what others may change */
  assert_int_equal(chmod(file, 0620), 0);
  expect_made_anew(cache, task, "others may change it");
  assert_int_equal(unlink(file), 0);
  assert_int_equal(symlink("/etc/passwd", file), 0);
  expect_made_anew(cache, task, "link");
  assert_int_equal(unlink(file), 0);
  assert_int_equal(mkfifo(file, 0600), 0);
  expect_made_anew(cache, task, "others may change it");
  hal_cache_drop(cache, task, fields, FIELDS, "the driver refuses it");
  hal_entry_t e;
  assert_false(get(cache, task, &e));
  hal_cache_close(cache);
  remove_folder(task, path);
}

/* ---- folders that are refused -------------------------------------------- */

static void expect_refused(td_task_t *task, const char *path,
                           const char *reason) {
  task->diags.length = 0; /* repetitions are not kept */
  assert_null(hal_cache_open(task, path, HAL_CACHE_ON));
  assert_int_equal(task->diags.length, 1);
  const td_diag_t *d = task->diags.data[0];
  assert_string_equal(td_diag_name(d->id), "W06");
  if (strstr(d->text, reason) == NULL) fail_msg("%s", d->text);
}

TASK_TEST(folders_of_others) {
  UNUSED_ARG;
  const char *path = fresh_folder(task);
  const char *open_to_all = td_os_join(&task->arena, path, "open");
  const char *link = td_os_join(&task->arena, path, "link");
  const char *file = td_os_join(&task->arena, path, "file");
  assert_int_equal(mkdir(open_to_all, 0700), 0);
  assert_int_equal(chmod(open_to_all, 0777), 0);
  expect_refused(task, open_to_all, "others may write");
  assert_int_equal(chmod(open_to_all, 0720), 0);
  expect_refused(task, open_to_all, "others may write");
  assert_int_equal(symlink(path, link), 0);
  expect_refused(task, link, "no folder of its own");
  write_bytes(file, td_str("x"));
  expect_refused(task, file, "no folder of its own");
  expect_refused(task, td_os_join(&task->arena, file, "below"), "folder");
  if (geteuid() == 0) { /* only root can give something away */
    const char *theirs = td_os_join(&task->arena, path, "theirs");
    assert_int_equal(mkdir(theirs, 0700), 0);
    assert_int_equal(chown(theirs, 12345, 12345), 0);
    expect_refused(task, theirs, "another user");
  }
  assert_null(hal_cache_open(task, open_to_all, HAL_CACHE_REQUIRE));
  assert_int_equal(task->errors, 1);
  assert_null(hal_cache_open(task, path, HAL_CACHE_OFF));
  remove_folder(task, path);
}

/* ---- entries that are required ------------------------------------------- */

TASK_TEST(a_miss_is_explained) {
  UNUSED_ARG;
  const char *path = fresh_folder(task);
  hal_cache_t *cache = open_cache(task, path);
  hal_entry_t e;
  put(cache, task, "code");
  hal_cache_close(cache);
  cache = hal_cache_open(task, path, HAL_CACHE_REQUIRE);
  assert_true(has_code(cache, task, "code"));
  hal_field_t other[FIELDS];
  memcpy(other, fields, sizeof fields);
  other[1].value = td_str("sm_80");
  assert_false(hal_cache_get(cache, task, &task->arena, other, FIELDS, &e));
  assert_string_equal(unit_first_id(task), "B12");
  assert_string_equal(task->diags.data[0]->notes.data[0],
                      "the nearest entry differs in arch: 'sm_90' there, "
                      "'sm_80' wanted");
  hal_cache_close(cache);
  remove_folder(task, path);
}

/* ---- its size ------------------------------------------------------------ */

TASK_TEST(the_longest_unused_go_first) {
  UNUSED_ARG;
  enum { ENTRIES = 10 };
  const char *path = fresh_folder(task);
  hal_cache_t *cache = open_cache(task, path);
  td_folder_t folder;
  const char *why;
  char *block = td_arena_alloc(&task->arena, 5000);
  assert_int_equal(td_folder_open(&folder, &task->arena, path, false, &why),
                   0);
  for (int i = 0; i < ENTRIES; i++) {
    const hal_field_t field = {"n", td_str_n(block, (size_t)i)};
    const hal_part_t part = {"p", td_str_n(block, 5000)};
    char name[HAL_CACHE_NAME_BYTES];
    hal_cache_put(cache, task, &field, 1, &part, 1);
    hal_cache_name(task, &field, 1, name);
    struct timespec times[2] = {{1000 + i, 0}, {1000 + i, 0}};
    assert_int_equal(utimensat(folder.fd, name, times, 0), 0);
  }
  /* number 0 is used, which makes it the newest */
  hal_entry_t e;
  const hal_field_t used = {"n", td_str_n(block, 0)};
  assert_true(hal_cache_get(cache, task, &task->arena, &used, 1, &e));
  assert_int_equal(hal_cache_prune(&task->arena, &folder, 16000), 7);
  for (int i = 0; i < ENTRIES; i++) {
    const hal_field_t field = {"n", td_str_n(block, (size_t)i)};
    bool is_kept = i == 0 || i >= 8;
    assert_int_equal(
        hal_cache_get(cache, task, &task->arena, &field, 1, &e), is_kept);
  }
  /* a writer that is gone; one that writes now; what is not ours */
  const char *old = td_os_join(&task->arena, path, ".tmp-1-a-b");
  write_bytes(old, td_str("x"));
  struct timespec times[2] = {{1000, 0}, {1000, 0}};
  assert_int_equal(utimensat(folder.fd, ".tmp-1-a-b", times, 0), 0);
  write_bytes(td_os_join(&task->arena, path, ".tmp-2-a-b"), td_str("x"));
  write_bytes(td_os_join(&task->arena, path, "README"), td_str("x"));
  assert_int_equal(hal_cache_prune(&task->arena, &folder, 1 << 20), 1);
  assert_int_equal(hal_cache_clear(&task->arena, &folder), 4);
  assert_true(td_os_exists(td_os_join(&task->arena, path, "README")));
  assert_int_equal(task->diags.length, 0);
  td_folder_close(&folder);
  hal_cache_close(cache);
  remove_folder(task, path);
}

/* ---- many at a time ------------------------------------------------------ */

/* Every writer writes the same entry with the code of its own; readers see
 * one of them, whole. */
static int write_and_read(const char *path, int number) {
  td_task_t task;
  int bad = 0;
  td_task_init(&task, NULL);
  hal_cache_t *cache = hal_cache_open(&task, path, HAL_CACHE_ON);
  if (cache == NULL) return 1;
  for (int r = 0; r < ROUNDS; r++) {
    size_t bytes = (size_t)(1000 + 777 * number);
    char *code = td_arena_alloc(&task.arena, bytes + 1);
    memset(code, 'a' + number, bytes);
    put(cache, &task, code);
    hal_entry_t e;
    const td_str_t *part =
        get(cache, &task, &e) ? hal_entry_part(&e, "object") : NULL;
    if (part == NULL || part->length < 1000) {
      bad = 1;
      continue;
    }
    int who = part->data[0] - 'a';
    bad |= part->length != (size_t)(1000 + 777 * who);
    for (size_t i = 0; i < part->length; i++) {
      bad |= part->data[i] != part->data[0];
    }
  }
  bad |= task.diags.length > 0;
  hal_cache_close(cache);
  td_task_free(&task);
  return bad;
}

TASK_TEST(many_processes) {
  UNUSED_ARG;
  const char *path = fresh_folder(task);
  pid_t children[WRITERS];
  for (int i = 0; i < WRITERS; i++) {
    children[i] = fork();
    assert_true(children[i] >= 0);
    if (children[i] == 0) _exit(write_and_read(path, i));
  }
  for (int i = 0; i < WRITERS; i++) {
    int status = 0;
    assert_int_equal(waitpid(children[i], &status, 0), children[i]);
    assert_int_equal(status, 0);
  }
  /* the entry, and nothing that a writer left */
  td_folder_t folder;
  td_folder_files_t files = {0};
  const char *why;
  assert_int_equal(td_folder_open(&folder, &task->arena, path, false, &why),
                   0);
  assert_int_equal(td_folder_list(&folder, &task->arena, &files), 0);
  assert_int_equal(files.length, 1);
  td_folder_close(&folder);
  remove_folder(task, path);
}

typedef struct worker {
  td_thread_t thread;
  const char *path;
  int number, bad;
} worker_t;

static void work(void *arg) {
  worker_t *w = arg;
  w->bad = write_and_read(w->path, w->number);
}

TASK_TEST(many_threads) {
  UNUSED_ARG;
  const char *path = fresh_folder(task);
  worker_t workers[4];
  for (int i = 0; i < 4; i++) {
    workers[i] = (worker_t){.path = path, .number = i};
    assert_true(td_thread_start(&workers[i].thread, work, &workers[i], 0));
  }
  for (int i = 0; i < 4; i++) {
    td_thread_join(&workers[i].thread);
    assert_int_equal(workers[i].bad, 0);
  }
  remove_folder(task, path);
}

/* ---- memory -------------------------------------------------------------- */

static void close_cache(void *arg) {
  hal_cache_t **cache = arg;
  hal_cache_close(*cache);
}

static void use_cache(td_task_t *task, void *arg) {
  hal_cache_t **cache = TD_NEW(&task->arena, hal_cache_t *);
  td_defer(task, close_cache, cache);
  *cache = hal_cache_open(task, arg, HAL_CACHE_ON);
  assert_non_null(*cache);
  put(*cache, task, "code");
  (void)has_code(*cache, task, "code");
  td_undefer(task, true);
}

TASK_TEST(failing_memory) {
  UNUSED_ARG;
  const char *path = fresh_folder(task);
  unit_sweep(use_cache, (void *)(uintptr_t)path);
  remove_folder(task, path);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(keeps_entries),
      cmocka_unit_test(fields_do_not_run_together),
      cmocka_unit_test(every_defect_is_found),
      cmocka_unit_test(hostile_numbers),
      cmocka_unit_test(damaged_files),
      cmocka_unit_test(folders_of_others),
      cmocka_unit_test(a_miss_is_explained),
      cmocka_unit_test(the_longest_unused_go_first),
      cmocka_unit_test(many_processes),
      cmocka_unit_test(many_threads),
      cmocka_unit_test(failing_memory),
  };
  return cmocka_run_group_tests_name("cache", tests, NULL, NULL);
}
