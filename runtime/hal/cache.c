/* cache.c: see cache.h. */
#include "runtime/hal/cache.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "runtime/base/env.h"
#include "runtime/base/os.h"
#include "runtime/hal/cache_file.h"

/* A writer takes seconds; what is older than this was left behind. */
static const int64_t abandoned_ns = (int64_t)3600 * 1000000000;

struct hal_cache {
  tdsl_allocator_t allocator;
  td_folder_t folder;
  bool is_required;
  atomic_bool has_failed; /* a write: said once */
  char path[4096];        /* for messages */
};

/* ---- where --------------------------------------------------------------- */

const char *hal_cache_folder(td_arena_t *arena, const char *folder) {
  if (folder != NULL && folder[0] != '\0') return folder;
  const char *given = td_env_set(TD_ENV_CACHE_DIR);
  if (given != NULL) return given;
  const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  if (xdg != NULL && xdg[0] == '/') return td_os_join(arena, xdg, "tdsl");
  if (home != NULL && home[0] == '/') {
    return td_os_join(arena, home, ".cache/tdsl");
  }
  return NULL;
}

uint64_t hal_cache_limit(void) {
  int64_t mib = td_env_int(TD_ENV_CACHE_LIMIT);
  return mib < 1 ? (uint64_t)1 << 20 : (uint64_t)mib << 20;
}

static hal_cache_mode_t mode_of(td_task_t *task, hal_cache_mode_t mode) {
  const char *text = td_env_text(TD_ENV_CACHE);
  if (mode != HAL_CACHE_DEFAULT) return mode;
  if (strcmp(text, "off") == 0) return HAL_CACHE_OFF;
  if (strcmp(text, "require") == 0) return HAL_CACHE_REQUIRE;
  if (strcmp(text, "on") != 0) {
    td_diag(task, TD_W06, TD_NO_LOC,
            "TDSL_CACHE is on, off or require, not '%s'", text);
  }
  return HAL_CACHE_ON;
}

/* A warning, or an error where entries are required. */
static void refuse(td_task_t *task, bool is_required, const char *path,
                   const char *reason) {
  td_diag_t *d =
      is_required
          ? td_diag(task, TD_B09, TD_NO_LOC,
                    "the kernel cache %s cannot be used: %s", path, reason)
          : td_diag(task, TD_W06, TD_NO_LOC,
                    "the kernel cache %s is not used: %s", path, reason);
  td_diag_help(d, "TDSL_CACHE_DIR names another folder, TDSL_CACHE=off does "
                  "without");
}

hal_cache_t *hal_cache_open(td_task_t *task, const char *folder,
                            hal_cache_mode_t mode) {
  const tdsl_allocator_t *a = &task->host.allocator;
  mode = mode_of(task, mode);
  bool is_required = mode == HAL_CACHE_REQUIRE;
  if (mode == HAL_CACHE_OFF) return NULL;
  const char *path = hal_cache_folder(&task->arena, folder), *why = NULL;
  if (path == NULL) {
    if (is_required) refuse(task, true, "(nowhere)", "HOME is not set");
    return NULL;
  }
  td_folder_t opened = {-1};
  size_t n = strlen(path);
  int error = ENAMETOOLONG;
  hal_cache_t *cache = NULL;
  if (n < sizeof cache->path) {
    error = td_folder_open(&opened, &task->arena, path, true, &why);
  }
  if (error != 0) {
    refuse(task, is_required, path,
           why != NULL ? why : td_os_error_text(error));
    return NULL;
  }
  cache = a->function(NULL, 0, sizeof *cache, a->user);
  if (cache == NULL) {
    td_folder_close(&opened);
    td_raise(task, TDSL_STATUS_OUT_OF_MEMORY, "no memory for the cache");
  }
  memset(cache, 0, sizeof *cache);
  cache->allocator = *a;
  cache->is_required = is_required;
  cache->folder = opened;
  atomic_init(&cache->has_failed, false);
  memcpy(cache->path, path, n + 1);
  return cache;
}

void hal_cache_close(hal_cache_t *cache) {
  if (cache == NULL) return;
  tdsl_allocator_t a = cache->allocator;
  td_folder_close(&cache->folder);
  (void)a.function(cache, sizeof *cache, 0, a.user);
}

td_str_t hal_cache_digest(td_arena_t *arena, td_str_t text) {
  char hex[33];
  hal_cache_hex(text, hex);
  return td_str(td_arena_printf(arena, "%s, %zu bytes", hex, text.length));
}

/* ---- reading ------------------------------------------------------------- */

static bool same_fields(const hal_entry_t *e, const hal_field_t *fields,
                        uint32_t count) {
  bool same = e->field_count == count;
  for (uint32_t i = 0; same && i < count; i++) {
    same = strcmp(e->fields[i].name, fields[i].name) == 0 &&
           td_str_eq(e->fields[i].value, fields[i].value);
  }
  return same;
}

/* What is wrong with an entry's file, or NULL; *is_miss: it is not there. */
static const char *read_entry(const td_folder_t *folder, td_arena_t *arena,
                              const char *name, bool with_data,
                              hal_entry_t *out, bool *is_miss) {
  td_str_t file;
  int error =
      td_folder_read(folder, arena, name, HAL_CACHE_MOST_BYTES, &file);
  *is_miss = error == ENOENT;
  if (error == EPERM) return "others may change it";
  if (error == ELOOP) return "it is a link";
  if (error != 0) return td_os_error_text(error);
  return hal_cache_decode(arena, file, with_data, out);
}

static void remove_damaged(hal_cache_t *c, td_task_t *task, const char *name,
                           const char *reason) {
  (void)td_folder_remove(&c->folder, name);
  td_diag(task, TD_W06, TD_NO_LOC,
          "entry %s of the kernel cache is made anew: %s", name, reason);
}

/* The entry with the most equal fields, and the first that differs. */
static void explain_miss(hal_cache_t *c, td_task_t *task, td_arena_t *arena,
                         const hal_field_t *fields, uint32_t count) {
  hal_cache_rows_t rows = {0};
  const hal_field_t *differs = NULL;
  td_str_t wanted = {0};
  uint32_t best = 0;
  td_diag_t *d = td_diag(task, TD_B12, TD_NO_LOC,
                         "a kernel is not in the cache %s, which is required",
                         c->path);
  hal_cache_rows(task, arena, &c->folder, &rows);
  for (size_t r = 0; r < rows.length; r++) {
    const hal_entry_t *e = &rows.data[r].entry;
    const hal_field_t *first = NULL;
    td_str_t other = {0};
    uint32_t equal = 0;
    if (rows.data[r].defect != NULL || e->field_count != count) continue;
    for (uint32_t i = 0; i < count; i++) {
      if (strcmp(e->fields[i].name, fields[i].name) != 0) break;
      if (td_str_eq(e->fields[i].value, fields[i].value)) equal++;
      else if (first == NULL) first = &e->fields[i], other = fields[i].value;
    }
    if (equal <= best || first == NULL) continue;
    best = equal;
    differs = first;
    wanted = other;
  }
  if (differs == NULL) {
    td_diag_note(d, "no entry is like it");
  } else {
    td_diag_note(d, "the nearest entry differs in %s: '%.*s' there, '%.*s' "
                    "wanted", differs->name, TD_STR_ARG(differs->value),
                 TD_STR_ARG(wanted));
  }
  td_diag_help(d, "TDSL_CACHE=on compiles it");
}

bool hal_cache_get(hal_cache_t *c, td_task_t *task, td_arena_t *arena,
                   const hal_field_t *fields, uint32_t count,
                   hal_entry_t *out) {
  char name[HAL_CACHE_NAME_BYTES];
  bool is_miss = false;
  memset(out, 0, sizeof *out);
  if (c == NULL) return false;
  hal_cache_name(task, fields, count, name);
  const char *defect =
      read_entry(&c->folder, arena, name, true, out, &is_miss);
  if (defect == NULL && !same_fields(out, fields, count)) {
    defect = "it is that of another kernel";
  }
  if (defect == NULL) {
    td_folder_touch(&c->folder, name);
    return true;
  }
  memset(out, 0, sizeof *out);
  if (!is_miss) remove_damaged(c, task, name, defect);
  if (c->is_required) explain_miss(c, task, arena, fields, count);
  return false;
}

const td_str_t *hal_entry_part(const hal_entry_t *e, const char *name) {
  for (uint32_t i = 0; i < e->part_count; i++) {
    if (strcmp(e->parts[i].name, name) == 0) return &e->parts[i].data;
  }
  return NULL;
}

void hal_cache_drop(hal_cache_t *c, td_task_t *task,
                    const hal_field_t *fields, uint32_t count,
                    const char *reason) {
  char name[HAL_CACHE_NAME_BYTES];
  if (c == NULL) return;
  hal_cache_name(task, fields, count, name);
  remove_damaged(c, task, name, reason);
}

/* ---- writing ------------------------------------------------------------- */

void hal_cache_put(hal_cache_t *c, td_task_t *task,
                   const hal_field_t *fields, uint32_t count,
                   const hal_part_t *parts, uint32_t part_count) {
  char name[HAL_CACHE_NAME_BYTES];
  td_buf_t file;
  td_arena_t arena;
  if (c == NULL || atomic_load(&c->has_failed)) return;
  hal_cache_name(task, fields, count, name);
  td_buf_init(&file, task);
  hal_cache_encode(&file, fields, count, parts, part_count);
  int error = file.length <= HAL_CACHE_MOST_BYTES
                  ? td_folder_publish(&c->folder, name, file.data,
                                      file.length)
                  : EFBIG;
  td_buf_free(&file);
  if (error == EFBIG) return; /* of no use to a later run, and no fault */
  if (error != 0) {
    if (!atomic_exchange(&c->has_failed, true)) {
      td_diag(task, TD_W06, TD_NO_LOC,
              "the kernel cache %s cannot be written to: %s", c->path,
              td_os_error_text(error));
    }
    return;
  }
  td_arena_init(&arena, task);
  (void)hal_cache_prune(&arena, &c->folder, hal_cache_limit());
  td_arena_free_all(&arena);
}

/* ---- looking after it ---------------------------------------------------- */

bool hal_cache_look(td_task_t *task, td_arena_t *arena, const char *path,
                    td_folder_t *out) {
  const char *why = NULL;
  int error = td_folder_open(out, arena, path, false, &why);
  if (error == 0 || error == ENOENT) return true;
  refuse(task, true, path, why != NULL ? why : td_os_error_text(error));
  return false;
}

static int by_use(const void *a, const void *b) {
  const hal_cache_row_t *x = a, *y = b;
  if (x->used_ns != y->used_ns) return x->used_ns > y->used_ns ? -1 : 1;
  return strcmp(x->name, y->name);
}

static bool is_entry(const char *name) {
  return strlen(name) == 32 + sizeof HAL_CACHE_ENDING - 1 &&
         strcmp(name + 32, HAL_CACHE_ENDING) == 0;
}

static void entries(td_arena_t *arena, const td_folder_t *folder,
                    hal_cache_rows_t *out) {
  td_folder_files_t files = {0};
  if (folder->fd < 0 || td_folder_list(folder, arena, &files) != 0) return;
  for (size_t i = 0; i < files.length; i++) {
    const td_folder_file_t *f = &files.data[i];
    if (!is_entry(f->name)) continue;
    hal_cache_row_t row = {
        .name = f->name, .bytes = f->bytes, .used_ns = f->used_ns};
    td_vec_push(arena, out, row);
  }
  if (out->length > 0) {
    qsort(out->data, out->length, sizeof *out->data, by_use);
  }
}

void hal_cache_rows(td_task_t *task, td_arena_t *arena,
                    const td_folder_t *folder, hal_cache_rows_t *out) {
  entries(arena, folder, out);
  for (size_t i = 0; i < out->length; i++) {
    hal_cache_row_t *row = &out->data[i];
    char name[HAL_CACHE_NAME_BYTES];
    td_task_poll(task);
    td_arena_t scratch; /* a file is as large as its code */
    td_arena_init(&scratch, task);
    td_str_t file = {0};
    hal_entry_t *e = &row->entry;
    int error = td_folder_read(folder, &scratch, row->name,
                               HAL_CACHE_MOST_BYTES, &file);
    row->defect = error == 0 ? hal_cache_decode(arena, file, false, e)
                             : td_os_error_text(error);
    if (row->defect == NULL) {
      hal_cache_name(task, e->fields, e->field_count, name);
      if (strcmp(name, row->name) != 0) row->defect = "its name is another's";
    }
    if (row->defect != NULL) memset(e, 0, sizeof *e);
    td_arena_free_all(&scratch);
  }
}

uint32_t hal_cache_prune(td_arena_t *arena, const td_folder_t *folder,
                         uint64_t limit) {
  td_folder_files_t files = {0};
  hal_cache_rows_t rows = {0};
  uint64_t total = 0;
  uint32_t removed = 0;
  int64_t now = td_folder_now_ns();
  if (folder->fd < 0 || td_folder_list(folder, arena, &files) != 0) return 0;
  for (size_t i = 0; i < files.length; i++) {
    const td_folder_file_t *f = &files.data[i];
    if (td_folder_is_temporary(f->name) && now - f->used_ns > abandoned_ns) {
      removed += td_folder_remove(folder, f->name) == 0;
    }
  }
  entries(arena, folder, &rows);
  for (size_t i = 0; i < rows.length; i++) total += rows.data[i].bytes;
  for (size_t i = rows.length; i > 0 && total > limit; i--) {
    if (td_folder_remove(folder, rows.data[i - 1].name) != 0) continue;
    total -= rows.data[i - 1].bytes;
    removed++;
  }
  return removed;
}

uint32_t hal_cache_clear(td_arena_t *arena, const td_folder_t *folder) {
  td_folder_files_t files = {0};
  uint32_t removed = 0;
  if (folder->fd < 0 || td_folder_list(folder, arena, &files) != 0) return 0;
  for (size_t i = 0; i < files.length; i++) {
    const char *name = files.data[i].name;
    if (!is_entry(name) && !td_folder_is_temporary(name)) continue;
    removed += td_folder_remove(folder, name) == 0;
  }
  return removed;
}
