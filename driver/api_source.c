/* api_source.c: where the text of programs, modules and config.json comes
 * from.  The front end opens no file; these are its callbacks. */
#include "driver/api.h"

#include "driver/stdlib_embed.h"
#include "runtime/base/env.h"

/* The name that messages show for standard input. */
static const char stdin_name[] = "<stdin>";

/* Source texts are small; a program of this size is a mistake. */
static const size_t largest_source = (size_t)256 << 20;

static uint32_t known(drv_compile_t *c, const char *path) {
  return (uint32_t)(uintptr_t)td_map_get(&c->files, td_str(path));
}

static uint32_t remember(drv_compile_t *c, const char *path, td_str_t text) {
  uint32_t file = td_sources_add(c->task, path, text.data, text.length);
  td_map_put(&c->files, td_str(path), (void *)(uintptr_t)file);
  return file;
}

/* Source number `file` of the program that this one is a variant of. */
static uint32_t from_origin(drv_compile_t *c, uint32_t file) {
  const td_source_t *s = td_sources_get(&c->origin->task, file);
  if (s == NULL || s->text == NULL) return 0;
  uint32_t old = known(c, s->name);
  return old != 0 ? old : remember(c, s->name, td_str_n(s->text, s->length));
}

bool drv_compile_source(drv_compile_t *c) {
  const tdsl_compile_desc_t *d = c->desc;
  if (c->origin != NULL) {
    c->source = from_origin(c, c->origin->made->source);
    return c->source != 0;
  }
  const char *path = td_str_cstr(c->arena, d->file);
  td_str_t text = d->text;
  c->task->stage = "read";
  if (text.data == NULL) {
    if (path[0] == '\0') {
      td_raise(c->task, TDSL_STATUS_INVALID_ARGUMENT,
               "neither a file nor a text is given");
    }
    if (!td_os_read_file(c->task, path, largest_source, c->arena, &text)) {
      return false;
    }
    if (strcmp(path, "-") == 0) path = stdin_name;
  } else if (path[0] == '\0') {
    path = "<memory>";
  }
  c->source = remember(c, path, text);
  return true;
}

/* ---- imports ------------------------------------------------------------- */

/* 0: there is no such file; one that cannot be read is reported. */
static uint32_t from_folder(drv_compile_t *c, const char *folder,
                            const char *name) {
  const char *file = td_arena_printf(c->arena, "%s.tdsl", name);
  const char *path = td_os_join(c->arena, folder, file);
  td_str_t text;
  uint32_t old = known(c, path);
  if (old != 0) return old;
  if (!td_os_exists(path) || td_os_is_folder(path)) return 0;
  if (!td_os_read_file(c->task, path, largest_source, c->arena, &text)) {
    return 0;
  }
  return remember(c, path, text);
}

static uint32_t from_host(drv_compile_t *c, uint32_t from_file,
                          const char *name) {
  const tdsl_compile_desc_t *d = c->desc;
  const td_source_t *from = td_sources_get(c->task, from_file);
  tdsl_string_t path = {0}, text = {0};
  if (d->import == NULL) return 0;
  if (!d->import(td_str(name), td_str(from != NULL ? from->name : ""), &path,
                 &text, d->import_user)) {
    return 0;
  }
  const char *shown = path.length > 0
                          ? td_str_cstr(c->arena, path)
                          : td_arena_printf(c->arena, "%s.tdsl", name);
  uint32_t old = known(c, shown);
  return old != 0 ? old : remember(c, shown, text);
}

static uint32_t from_stdlib(drv_compile_t *c, const char *name) {
  const char *file = td_arena_printf(c->arena, "%s.tdsl", name);
  for (size_t i = 0; i < tdsl_stdlib_file_count; i++) {
    const tdsl_embedded_file_t *f = &tdsl_stdlib_files[i];
    if (strcmp(f->name, file) != 0) continue;
    const char *path = td_arena_printf(c->arena, "<stdlib>/%s", file);
    uint32_t old = known(c, path);
    if (old != 0) return old;
    return remember(c, path, td_str_n((const char *)f->data, f->length));
  }
  return 0;
}

/* Imports are remembered by the name of the importing file, which variants
 * number anew. */
static td_str_t import_key(drv_compile_t *c, const char *from,
                           const char *name) {
  return td_str(td_arena_printf(c->arena, "%s %s", name, from));
}

/* In order: the host's callback, the folder of the importing file, the
 * include folders, the folder of TDSL_LIB, the embedded library. */
static uint32_t find_module(drv_compile_t *c, uint32_t from_file,
                            const char *from, const char *name) {
  uint32_t file = from_host(c, from_file, name);
  if (file == 0 && from[0] != '<' && from[0] != '\0') {
    file = from_folder(c, td_os_folder_of(c->arena, from), name);
  }
  for (uint32_t i = 0; file == 0 && i < c->desc->library_count; i++) {
    file = from_folder(c, td_str_cstr(c->arena, c->desc->libraries[i]), name);
  }
  const char *folder = td_env_set(TD_ENV_LIB);
  if (file == 0 && folder != NULL) file = from_folder(c, folder, name);
  if (file == 0) file = from_stdlib(c, name);
  return file;
}

uint32_t drv_import(void *user, td_task_t *task, uint32_t from_file,
                    const char *name) {
  drv_compile_t *c = user;
  const td_source_t *source = td_sources_get(task, from_file);
  const char *from = source != NULL ? source->name : "";
  td_str_t key = import_key(c, from, name);
  if (c->origin != NULL) {
    void *file = td_map_get(&c->origin->made->imports, key);
    return from_origin(c, (uint32_t)(uintptr_t)file);
  }
  uint32_t file = find_module(c, from_file, from, name);
  td_map_put(&c->imports, key, (void *)(uintptr_t)file);
  return file;
}

/* ---- config.json --------------------------------------------------------- */

bool drv_config_read(drv_compile_t *c) {
  if (c->origin != NULL) {
    c->has_config = c->origin->made->has_config;
    return true;
  }
  if (c->desc->config_file.length == 0) return true;
  const char *path = td_str_cstr(c->arena, c->desc->config_file);
  c->has_config = io_config_read(c->task, c->arena, path, &c->config);
  return c->has_config;
}

bool drv_config(void *user, const char *key, bool *out_is_int,
                int64_t *out_int, double *out_float) {
  drv_compile_t *c = user;
  if (!c->has_config) return false;
  const io_config_value_t *v =
      c->origin != NULL /* only read: it is shared */
          ? td_map_get(&c->origin->made->config.values, td_str(key))
          : io_config_get(&c->config, td_str(key));
  if (v == NULL) return false;
  switch (v->kind) {
    case IO_CONFIG_BOOL:
    case IO_CONFIG_INT:
      *out_is_int = true;
      *out_int = v->kind == IO_CONFIG_BOOL ? v->truth : v->integer;
      *out_float = (double)*out_int;
      return true;
    case IO_CONFIG_REAL:
      *out_is_int = false;
      *out_float = v->real;
      return true;
    case IO_CONFIG_NULL:
    case IO_CONFIG_OTHER: break;
  }
  return false;
}
