/* api_kernels.c: kernels to payloads.
 *
 * Machine code is made from the KIR *text* of each kernel: it is what the
 * cache's key is taken of, and each compile thread reads its own kernels
 * from it, so that threads share nothing.  Kernels go into at most MAX_PARTS
 * modules; how many depends on the amount of text alone, so that a program
 * gives the same modules on every machine. */
#include "driver/api_backend.h"

#include "runtime/base/env.h"
#if TDSL_WITH_LLVM
#include "codegen/llvm/llvm.h"
#include "driver/emitter_id.h"
#endif

enum { MAX_PARTS = 4, PART_BYTES = 24 * 1024 };

static td_str_t kernel_text(drv_backend_t *b, const kir_kernel_t *k) {
  td_buf_t text;
  td_str_t edited;
  if (drv_debug_override(b, k, &edited) != NULL) return edited;
  td_buf_init(&text, b->c->task);
  kir_print(&text, k);
  size_t n = text.length;
  return td_str_n(td_buf_finish(&text, b->c->arena), n);
}

static plan_module_t *new_modules(drv_backend_t *b, drv_payloads_t *out,
                                  size_t count) {
  out->kernels =
      TD_NEW_ARRAY(b->c->arena, drv_payload_t, b->kernels.count + 1);
  out->modules = TD_NEW_ARRAY(b->c->arena, plan_module_t, count + 1);
  return out->modules;
}

void drv_payloads_kir(drv_backend_t *b, drv_payloads_t *out) {
  plan_module_t *m = new_modules(b, out, 1);
  td_buf_t text;
  td_buf_init(&text, b->c->task);
  for (uint32_t k = 0; k < b->kernels.count; k++) {
    const kir_kernel_t *kernel = b->kernels.kernels[k];
    td_buf_str(&text, kernel_text(b, kernel));
    out->kernels[k].symbol = kernel->name;
  }
  m->name = "kir";
  m->payload = PLAN_PAYLOAD_KIR;
  m->target = b->target->name;
  m->bytes = text.length;
  m->data = td_buf_finish(&text, b->c->arena);
  out->module_count = 1;
}

#if TDSL_WITH_LLVM

/* Of a part's entry in the cache on disk. */
enum { FIELDS = 4 };

/* One kernel on its way to code. */
typedef struct item {
  td_str_t text;
  cg_key_t key;
  const char *name; /* with its key: distinct in all objects of a context */
  uint32_t kernel;
} item_t;

/* The work of one thread. */
typedef struct part {
  tdsl_context_t *context;
  const ir_target_t *target;
  TD_VEC(item_t) items;
  size_t bytes;
  hal_field_t fields[FIELDS];
  drv_object_t *object;
  bool is_cached; /* object came from disk */
  tdsl_status_t status;
  char message[512];
  td_thread_t thread;
  bool is_started;
} part_t;

/* Reads one kernel of the part back; what we printed must parse. */
static const kir_kernel_t *reread(td_task_t *task, td_arena_t *arena,
                                  const item_t *item) {
  uint32_t file =
      td_sources_add(task, item->name, item->text.data, item->text.length);
  kir_kernel_t **read = kir_parse(task, arena, file);
  if (read == NULL || read[0] == NULL) {
    const char *why =
        task->diags.length > 0 ? task->diags.data[0]->text : "no reason";
    TD_ICE(task, "KIR text of %s cannot be read: %s", item->name, why);
  }
  read[0]->name = item->name;
  return read[0];
}

static void part_work(td_task_t *task, void *arg) {
  part_t *p = arg;
  td_arena_t arena;
  cgl_output_t code = {0};
  td_arena_init(&arena, task);
  task->stage = "llvm";
  const kir_kernel_t **kernels =
      TD_NEW_ARRAY(&arena, const kir_kernel_t *, p->items.length + 1);
  for (size_t i = 0; i < p->items.length; i++) {
    kernels[i] = reread(task, &arena, &p->items.data[i]);
  }
  cgl_compile(task, &arena, kernels, (uint32_t)p->items.length, p->target,
              CGL_OBJECT, &code);
  p->object = drv_object_create(p->context, code.data, code.bytes);
  if (p->object == NULL) {
    td_raise(task, TDSL_STATUS_OUT_OF_MEMORY, "out of memory: %zu bytes",
             code.bytes);
  }
}

static void run_part(void *arg) {
  part_t *p = arg;
  td_task_t task;
  td_task_init(&task, &p->context->host);
  p->status = td_task_run(&task, part_work, p);
  memcpy(p->message, task.message, sizeof p->message);
  td_task_free(&task);
}

/* ---- the cache on disk ------------------------------------------------- */

/* An object has the kernels of one part, so its entry is named by all of
 * their keys, in order. */
static void make_fields(drv_backend_t *b, part_t *p, const char *compiler) {
  td_buf_t keys;
  char hex[33];
  td_buf_init(&keys, b->c->task);
  for (size_t i = 0; i < p->items.length; i++) {
    cg_key_text(p->items.data[i].key, hex);
    td_buf_printf(&keys, "%s%s", hex, p->items.data[i].name);
  }
  td_str_t digest = hal_cache_digest(b->c->arena, td_buf_view(&keys));
  td_buf_free(&keys);
  p->fields[0] = (hal_field_t){"kind", td_str("cpu")};
  p->fields[1] = (hal_field_t){"compiler", td_str(compiler)};
  p->fields[2] = (hal_field_t){"target", td_str(b->target->name)};
  p->fields[3] = (hal_field_t){"kernels", digest};
}

/* False after B12: entries are required and one is missing. */
static bool read_parts(drv_backend_t *b, part_t *parts, uint32_t count) {
  td_task_t *task = b->c->task;
  for (uint32_t i = 0; i < count; i++) {
    td_arena_t arena;
    hal_entry_t entry;
    uint32_t before = td_task_errors(task);
    td_arena_init(&arena, task);
    bool found = hal_cache_get(b->c->context->disk, task, &arena,
                               parts[i].fields, FIELDS, &entry);
    const td_str_t *code = found ? hal_entry_part(&entry, "object") : NULL;
    if (code != NULL) {
      parts[i].object =
          drv_object_create(b->c->context, code->data, code->length);
      parts[i].is_cached = parts[i].object != NULL;
    }
    td_arena_free_all(&arena);
    if (td_task_errors(task) > before) return false;
  }
  return true;
}

static void write_part(drv_backend_t *b, const part_t *p) {
  td_buf_t names;
  td_buf_init(&names, b->c->task);
  for (size_t i = 0; i < p->items.length; i++) {
    const char *name = b->kernels.kernels[p->items.data[i].kernel]->name;
    td_buf_printf(&names, "%s%s", i > 0 ? " " : "", name);
  }
  const hal_part_t parts[] = {
      {HAL_CACHE_SHOWN, td_buf_view(&names)},
      {"object", td_str_n(drv_object_data(p->object), p->object->bytes)}};
  hal_cache_put(b->c->context->disk, b->c->task, p->fields, FIELDS, parts, 2);
  td_buf_free(&names);
}

/* ---- compiling ----------------------------------------------------------- */

/* The first part runs here; one whose thread cannot be made, too. */
static void run_parts(part_t *parts, uint32_t count) {
  for (uint32_t i = 1; i < count; i++) {
    parts[i].is_started =
        !parts[i].is_cached &&
        td_thread_start(&parts[i].thread, run_part, &parts[i], 0);
  }
  for (uint32_t i = 0; i < count; i++) {
    if (!parts[i].is_started && !parts[i].is_cached) run_part(&parts[i]);
  }
  for (uint32_t i = 1; i < count; i++) {
    if (parts[i].is_started) td_thread_join(&parts[i].thread);
  }
}

static uint32_t module_of(drv_backend_t *b, drv_payloads_t *out,
                          drv_object_t *object) {
  for (uint32_t m = 0; m < out->module_count; m++) {
    if (out->objects.data[m] == object) {
      drv_object_release(b->c->context, object);
      return m;
    }
  }
  uint32_t m = out->module_count;
  td_vec_push(b->c->arena, &out->objects, object);
  out->module_count++;
  out->modules[m] = (plan_module_t){
      .name = td_arena_printf(b->c->arena, "m%u", m),
      .payload = PLAN_PAYLOAD_OBJECT,
      .target = b->target->name,
      .bytes = object->bytes,
      .data = drv_object_data(object)};
  return m;
}

/* Spreads what the cache lacks over parts, the emptiest first. */
static void assign(drv_backend_t *b, part_t *parts, uint32_t count,
                   item_t item) {
  uint32_t best = 0;
  for (uint32_t i = 1; i < count; i++) {
    if (parts[i].bytes < parts[best].bytes) best = i;
  }
  parts[best].bytes += item.text.length;
  td_vec_push(b->c->arena, &parts[best].items, item);
}

/* TDSL_CACHE=off compiles everything anew. */
static bool uses_cache(void) {
  return strcmp(td_env_text(TD_ENV_CACHE), "off") != 0;
}

static void finish(drv_backend_t *b, drv_payloads_t *out, part_t *p) {
  td_arena_t *arena = b->c->arena;
  cg_key_t *keys = TD_NEW_ARRAY(arena, cg_key_t, p->items.length + 1);
  for (size_t i = 0; i < p->items.length; i++) keys[i] = p->items.data[i].key;
  if (uses_cache()) {
    drv_cache_put(b->c->context->cache, keys, p->items.length, p->object);
  }
  drv_object_t *object = p->object;
  p->object = NULL;
  uint32_t m = module_of(b, out, object);
  for (size_t i = 0; i < p->items.length; i++) {
    out->kernels[p->items.data[i].kernel].module = m;
  }
}

/* Objects that no payload has taken over yet. */
typedef struct kept {
  tdsl_context_t *context;
  part_t *parts;
  uint32_t count;
} kept_t;

static void drop_kept(void *arg) {
  const kept_t *k = arg;
  for (uint32_t i = 0; i < k->count; i++) {
    drv_object_release(k->context, k->parts[i].object);
    k->parts[i].object = NULL;
  }
}

static item_t make_item(drv_backend_t *b, uint32_t k, const char *compiler) {
  td_arena_t *arena = b->c->arena;
  const kir_kernel_t *kernel = b->kernels.kernels[k];
  char hex[33];
  item_t item = {.text = kernel_text(b, kernel), .kernel = k};
  item.key = cg_kernel_key(item.text, b->target->name, compiler);
  cg_key_text(item.key, hex);
  item.name = td_arena_printf(arena, "%s_%s", kernel->name, hex);
  return item;
}

static const char *symbol_of(drv_backend_t *b, const item_t *item) {
  kir_kernel_t named = {.name = item->name};
  return cgl_symbol(b->c->arena, &named);
}

void drv_payloads_object(drv_backend_t *b, drv_payloads_t *out) {
  td_arena_t *arena = b->c->arena;
  drv_cache_t *cache = b->c->context->cache;
  const char *compiler =
      td_arena_printf(arena, "llvm %s, emitter " TDSL_EMITTER_ID,
                      cgl_llvm_version(arena));
  TD_VEC(item_t) missing = {0};
  size_t bytes = 0;
  b->c->task->stage = "compile";
  new_modules(b, out, (size_t)b->kernels.count + MAX_PARTS);
  for (uint32_t k = 0; k < b->kernels.count; k++) {
    drv_object_t *object;
    item_t item = make_item(b, k, compiler);
    out->kernels[k].symbol = symbol_of(b, &item);
    td_vec_reserve(arena, &out->objects, 1);
    if (uses_cache() && drv_cache_get(cache, item.key, &object)) {
      out->kernels[k].module = module_of(b, out, object);
    } else {
      td_vec_push(arena, &missing, item);
      bytes += item.text.length;
    }
  }
  if (missing.length == 0) return;
  uint32_t count = (uint32_t)(bytes / PART_BYTES) + 1;
  if (count > MAX_PARTS) count = MAX_PARTS;
  if (count > missing.length) count = (uint32_t)missing.length;
  part_t *parts = TD_NEW_ARRAY(arena, part_t, count);
  for (uint32_t i = 0; i < count; i++) {
    parts[i].context = b->c->context;
    parts[i].target = b->target;
  }
  for (size_t i = 0; i < missing.length; i++) {
    assign(b, parts, count, missing.data[i]);
  }
  td_vec_reserve(arena, &out->objects, count);
  for (uint32_t i = 0; i < count; i++) make_fields(b, &parts[i], compiler);
  kept_t *kept = TD_NEW(arena, kept_t);
  *kept = (kept_t){b->c->context, parts, count};
  td_defer(b->c->task, drop_kept, kept);
  if (!read_parts(b, parts, count)) {
    td_raise(b->c->task, TDSL_STATUS_UNAVAILABLE, "a kernel is not cached");
  }
  run_parts(parts, count);
  const part_t *failed = NULL;
  for (uint32_t i = 0; i < count; i++) {
    if (parts[i].status != TDSL_STATUS_OK && failed == NULL) {
      failed = &parts[i];
    }
  }
  if (failed != NULL) {
    td_raise(b->c->task, failed->status, "%s", failed->message);
  }
  for (uint32_t i = 0; i < count; i++) {
    if (!parts[i].is_cached) write_part(b, &parts[i]);
  }
  for (uint32_t i = 0; i < count; i++) finish(b, out, &parts[i]);
  td_undefer(b->c->task, false);
}

#else

void drv_payloads_object(drv_backend_t *b, drv_payloads_t *out) {
  (void)out;
  td_raise(b->c->task, TDSL_STATUS_UNAVAILABLE,
           "this build has no CPU back end");
}

#endif
