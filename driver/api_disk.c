/* api_disk.c: looking after the kernel cache on disk. */
#include "driver/api.h"

typedef struct disk_call {
  tdsl_context_t *context;
  tdsl_cache_action_t action;
  uint64_t limit;
  bool as_json;
  tdsl_text_fn_t text;
  void *user;
} disk_call_t;

static void close_folder(void *folder) {
  td_folder_close(folder);
}

/* ---- texts --------------------------------------------------------------- */

/* KEY  BYTES  kind=..., arch=..., of KERNEL KERNEL */
static void put_row(td_buf_t *out, const hal_cache_row_t *row) {
  td_buf_printf(out, "%.32s %10llu ", row->name,
                (unsigned long long)row->bytes);
  if (row->defect != NULL) {
    td_buf_printf(out, " damaged: %s", row->defect);
  }
  for (uint32_t i = 0; i < row->entry.field_count; i++) {
    const hal_field_t *f = &row->entry.fields[i];
    td_buf_printf(out, " %s=%.*s,", f->name, TD_STR_ARG(f->value));
  }
  const td_str_t *names = hal_entry_part(&row->entry, HAL_CACHE_SHOWN);
  if (names != NULL && names->data != NULL) {
    td_buf_printf(out, " of %.*s", TD_STR_ARG(*names));
  }
  td_buf_putc(out, '\n');
}

static void put_row_json(td_buf_t *out, const hal_cache_row_t *row) {
  td_buf_printf(out, "{\"key\": \"%.32s\", \"bytes\": %llu, \"defect\": ",
                row->name, (unsigned long long)row->bytes);
  if (row->defect == NULL) td_buf_puts(out, "null");
  else td_buf_json(out, td_str(row->defect));
  td_buf_puts(out, ", \"fields\": {");
  for (uint32_t i = 0; i < row->entry.field_count; i++) {
    if (i > 0) td_buf_puts(out, ", ");
    td_buf_json(out, td_str(row->entry.fields[i].name));
    td_buf_puts(out, ": ");
    td_buf_json(out, row->entry.fields[i].value);
  }
  td_buf_puts(out, "}, \"parts\": {");
  for (uint32_t i = 0; i < row->entry.part_count; i++) {
    if (i > 0) td_buf_puts(out, ", ");
    td_buf_json(out, td_str(row->entry.parts[i].name));
    td_buf_printf(out, ": %zu", row->entry.parts[i].data.length);
  }
  td_buf_puts(out, "}}");
}

static void put_list(td_buf_t *out, const disk_call_t *c,
                     const hal_cache_rows_t *rows) {
  if (c->as_json) td_buf_puts(out, "{\"schema\": 1, \"entries\": [");
  for (size_t i = 0; i < rows->length; i++) {
    if (c->as_json && i > 0) td_buf_puts(out, ", ");
    (c->as_json ? put_row_json : put_row)(out, &rows->data[i]);
  }
  if (c->as_json) td_buf_puts(out, "]}\n");
}

typedef struct sums {
  uint64_t bytes;
  uint32_t damaged, cpu, cuda;
} sums_t;

static sums_t sum_up(const hal_cache_rows_t *rows) {
  sums_t s = {0};
  for (size_t i = 0; i < rows->length; i++) {
    const hal_cache_row_t *row = &rows->data[i];
    s.bytes += row->bytes;
    s.damaged += row->defect != NULL;
    if (row->entry.field_count == 0) continue;
    s.cpu += td_str_eqc(row->entry.fields[0].value, "cpu");
    s.cuda += td_str_eqc(row->entry.fields[0].value, "cuda");
  }
  return s;
}

static void put_stat(td_buf_t *out, const disk_call_t *c, const char *path,
                     const hal_cache_rows_t *rows) {
  sums_t s = sum_up(rows);
  unsigned long long bytes = s.bytes, limit = c->limit;
  if (!c->as_json) {
    td_buf_printf(out,
                  "folder   %s\nentries  %zu (%u cpu, %u cuda, %u damaged)\n"
                  "bytes    %llu\nlimit    %llu\n",
                  path, rows->length, s.cpu, s.cuda, s.damaged, bytes, limit);
    return;
  }
  td_buf_puts(out, "{\"schema\": 1, \"folder\": ");
  td_buf_json(out, td_str(path));
  td_buf_printf(out, ", \"entries\": %zu, \"cpu\": %u, \"cuda\": %u, "
                "\"damaged\": %u, \"bytes\": %llu, \"limit\": %llu}\n",
                rows->length, s.cpu, s.cuda, s.damaged, bytes, limit);
}

static void put_removed(td_buf_t *out, const disk_call_t *c,
                        uint32_t removed) {
  td_buf_printf(out, c->as_json ? "{\"schema\": 1, \"removed\": %u}\n"
                                : "%u files removed\n", removed);
}

/* A diagnostic for each damaged entry; the call then fails. */
static void verify(td_task_t *task, td_buf_t *out, const disk_call_t *c,
                   const hal_cache_rows_t *rows) {
  uint32_t damaged = 0;
  for (size_t i = 0; i < rows->length; i++) {
    const hal_cache_row_t *row = &rows->data[i];
    if (row->defect == NULL) continue;
    damaged++;
    td_loc_t loc = {td_sources_add_file(task, row->name), 0, 0, 0, 0};
    td_diag(task, TD_F72, loc, "the entry is damaged: %s", row->defect);
  }
  td_buf_printf(out, c->as_json ? "{\"schema\": 1, \"entries\": %zu, "
                                  "\"damaged\": %u}\n"
                                : "%zu entries, %u damaged\n",
                rows->length, damaged);
}

/* ---- the call ------------------------------------------------------------ */

/* Damaged entries go first, so that whole ones may stay. */
static uint32_t prune(td_arena_t *arena, const disk_call_t *c,
                      const td_folder_t *folder,
                      const hal_cache_rows_t *rows) {
  uint32_t removed = 0;
  for (size_t i = 0; i < rows->length; i++) {
    if (rows->data[i].defect == NULL) continue;
    removed += td_folder_remove(folder, rows->data[i].name) == 0;
  }
  return removed + hal_cache_prune(arena, folder, c->limit);
}

static void maintain_work(td_task_t *task, void *arg) {
  disk_call_t *c = arg;
  td_arena_t arena;
  td_arena_init(&arena, task);
  const char *path = hal_cache_folder(&arena, c->context->disk_folder);
  if (path == NULL) {
    td_raise(task, TDSL_STATUS_UNAVAILABLE,
             "there is no cache folder: HOME and TDSL_CACHE_DIR are not set");
  }
  td_folder_t *folder = TD_NEW(&arena, td_folder_t);
  folder->fd = -1;
  if (c->limit == 0) c->limit = hal_cache_limit();
  td_defer(task, close_folder, folder);
  hal_cache_rows_t rows = {0};
  td_buf_t out;
  td_buf_init(&out, task);
  if (hal_cache_look(task, &arena, path, folder)) {
    if (c->action != TDSL_CACHE_ACTION_CLEAR) {
      hal_cache_rows(task, &arena, folder, &rows);
    }
    switch (c->action) {
      case TDSL_CACHE_ACTION_LIST: put_list(&out, c, &rows); break;
      case TDSL_CACHE_ACTION_STAT: put_stat(&out, c, path, &rows); break;
      case TDSL_CACHE_ACTION_VERIFY: verify(task, &out, c, &rows); break;
      case TDSL_CACHE_ACTION_PRUNE:
        put_removed(&out, c, prune(&arena, c, folder, &rows));
        break;
      case TDSL_CACHE_ACTION_CLEAR:
        put_removed(&out, c, hal_cache_clear(&arena, folder));
        break;
      case TDSL_CACHE_ACTION_UNSET:
      case TDSL_CACHE_ACTION_FORCE32:
        td_raise(task, TDSL_STATUS_INVALID_ARGUMENT,
                 "no such action on the cache");
    }
    if (out.length > 0) c->text(td_buf_view(&out), c->user);
  }
  td_buf_free(&out);
  td_undefer(task, true);
  td_arena_free_all(&arena);
}

tdsl_status_t tdsl_cache_maintain(tdsl_context_t *context,
                                  tdsl_cache_action_t action,
                                  uint64_t limit_bytes, uint32_t as_json,
                                  tdsl_text_fn_t text, void *user,
                                  tdsl_error_t **out_error) {
  disk_call_t c = {context, action, limit_bytes, as_json != 0, text, user};
  drv_call_t call = {.context = context};
  return drv_call(&call, maintain_work, &c, out_error);
}
