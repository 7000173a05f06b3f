/* Inside of the driver: the cache of kernels, keys, reports of failures. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "unit.h"

#include "driver/api_backend.h"

static const char program_text[] = "import softmax (softmax)\n"
                                   "dyn B <= 64\n"
                                   "export fn f(x: f32[B, 33]) -> y: f32[B, "
                                   "33] { y[b, :] = softmax(x[b, :]) }\n";

static tdsl_context_t *open_context(void) {
  tdsl_context_t *context = NULL;
  assert_int_equal(tdsl_context_create(NULL, &context, NULL), 0);
  return context;
}

static tdsl_compile_desc_t describe(void) {
  tdsl_compile_desc_t desc = TDSL_COMPILE_DESC_INIT;
  desc.file = td_str("rows.tdsl");
  desc.text = td_str(program_text);
  desc.device = td_str("cpu");
  return desc;
}

static tdsl_program_t *compile(tdsl_context_t *context,
                               const tdsl_compile_desc_t *desc) {
  tdsl_program_t *p = NULL;
  assert_int_equal(tdsl_program_compile(context, desc, &p, NULL), 0);
  return p;
}

/* ---- keys --------------------------------------------------------------- */

static bool same_key(cg_key_t a, cg_key_t b) {
  return a.high == b.high && a.low == b.low;
}

static void keys_hold_every_field(void **state) {
  (void)state;
  cg_key_t a = cg_kernel_key(td_str("kernel"), "v3", "llvm 19");
  assert_true(same_key(a, cg_kernel_key(td_str("kernel"), "v3", "llvm 19")));
  assert_false(same_key(a, cg_kernel_key(td_str("kernem"), "v3", "llvm 19")));
  assert_false(same_key(a, cg_kernel_key(td_str("kernel"), "v4", "llvm 19")));
  assert_false(same_key(a, cg_kernel_key(td_str("kernel"), "v3", "llvm 18")));
  /* fields do not run together */
  assert_false(same_key(cg_kernel_key(td_str(""), "b", "a"),
                        cg_kernel_key(td_str(""), "", "ab")));
  char hex[33];
  cg_key_text((cg_key_t){0x0123456789abcdefu, 0xf}, hex);
  assert_string_equal(hex, "0123456789abcdef000000000000000f");
}

/* ---- the cache ---------------------------------------------------------- */

static void objects_are_shared(void **state) {
  (void)state;
  tdsl_context_t *context = open_context();
  drv_cache_t *cache = drv_cache_create(context);
  assert_non_null(cache);
  cg_key_t keys[300];
  drv_object_t *found = NULL;
  for (uint64_t i = 0; i < 300; i++) keys[i] = (cg_key_t){i, i * 64};
  drv_object_t *a = drv_object_create(context, "code", 4);
  drv_object_t *b = drv_object_create(context, "more", 4);
  assert_false(drv_cache_get(cache, keys[0], &found));
  drv_cache_put(cache, keys, 200, a);
  for (int i = 0; i < 200; i++) {
    assert_true(drv_cache_get(cache, keys[i], &found));
    assert_ptr_equal(found, a);
    drv_object_release(context, found);
  }
  /* one of its kernels is known: the object stays out as a whole */
  drv_cache_put(cache, keys + 199, 2, b);
  assert_false(drv_cache_get(cache, keys[200], &found));
  drv_cache_put(cache, keys + 200, 100, b);
  assert_true(drv_cache_get(cache, keys[299], &found));
  assert_ptr_equal(found, b);
  assert_memory_equal(drv_object_data(found), "more", 4);
  assert_int_equal((uintptr_t)drv_object_data(found) % 16, 0);
  drv_object_release(context, found);
  assert_int_equal(atomic_load(&a->references), 201);
  drv_cache_destroy(cache);
  assert_int_equal(atomic_load(&a->references), 1);
  drv_object_release(context, a);
  drv_object_release(context, b);
  tdsl_context_destroy(context);
}

/* The second program runs the code of the first; another machine, another
 * pass list, another text do not. */
static void programs_share_code(void **state) {
  (void)state;
  tdsl_context_t *context = open_context();
  tdsl_compile_desc_t desc = describe();
  tdsl_program_t *a = compile(context, &desc), *b = compile(context, &desc);
  assert_true(a->plan->module_count >= 1);
  assert_int_equal(a->plan->module_count, b->plan->module_count);
  for (uint32_t m = 0; m < a->plan->module_count; m++) {
    assert_ptr_equal(a->plan->modules[m].data, b->plan->modules[m].data);
  }
  desc.device = td_str("cpu:x86-64-v2");
  tdsl_program_t *c = compile(context, &desc);
  if (strcmp(a->plan->target, "x86-64-v2") != 0) {
    assert_ptr_not_equal(a->plan->modules[0].data, c->plan->modules[0].data);
  }
  tdsl_program_release(a);
  tdsl_context_t *other = open_context();
  desc.device = td_str("cpu");
  tdsl_program_t *d = compile(other, &desc);
  assert_ptr_not_equal(b->plan->modules[0].data, d->plan->modules[0].data);
  assert_string_equal(b->plan->kernels[0].symbol, d->plan->kernels[0].symbol);
  assert_int_equal(b->plan->modules[0].bytes, d->plan->modules[0].bytes);
  assert_memory_equal(b->plan->modules[0].data, d->plan->modules[0].data,
                      b->plan->modules[0].bytes);
  tdsl_program_release(b);
  tdsl_program_release(c);
  tdsl_program_release(d);
  tdsl_context_destroy(context);
  tdsl_context_destroy(other);
}

/* ---- reports ------------------------------------------------------------ */

static bool exists(const char *folder, const char *name) {
  char path[256];
  (void)snprintf(path, sizeof path, "%s/%s", folder, name);
  return td_os_exists(path);
}

static void clean(const char *folder) {
  static const char *const names[] = {"README", "before.tir", "rows.tdsl",
                                      "softmax.tdsl"};
  char path[256];
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    (void)snprintf(path, sizeof path, "%s/%s", folder, names[i]);
    (void)remove(path);
  }
  (void)rmdir(folder);
}

static void read_back(td_task_t *task, void *arg) {
  td_str_t text;
  td_arena_t arena;
  td_arena_init(&arena, task);
  const char *path = td_os_join(&arena, arg, "before.tir");
  assert_true(td_os_read_file(task, path, 0, &arena, &text));
  uint32_t file = td_sources_add(task, path, text.data, text.length);
  tir_module_t *m = tir_parse(task, &arena, file);
  assert_non_null(m);
  assert_true(tir_verify(task, m, "report", true));
  /* the last pass that changed something has been through it */
  assert_true(m->funcs[0]->nodes.data[0]->group > 0);
}

static void a_report_can_be_replayed(void **state) {
  (void)state;
  const char *folder = "test-driver-report";
  tdsl_context_t *context = open_context();
  tdsl_compile_desc_t desc = describe();
  clean(folder);
  assert_true(drv_reproduce(context, &desc, folder, "something broke"));
  assert_true(exists(folder, "README"));
  assert_true(exists(folder, "rows.tdsl"));
  assert_true(exists(folder, "softmax.tdsl"));
  td_task_t task;
  td_task_init(&task, NULL);
  assert_int_equal(td_task_run(&task, read_back, (void *)(uintptr_t)folder),
                   TDSL_STATUS_OK);
  td_task_free(&task);
  clean(folder);
  /* nowhere to write is no second failure */
  assert_false(drv_reproduce(context, &desc, "/proc/no-such-folder", ""));
  tdsl_context_destroy(context);
}

int main(void) {
  /* the runner switches caches off, and these tests are about one */
  (void)setenv("TDSL_CACHE", "on", 1);
  (void)setenv("TDSL_CACHE_DIR", TDSL_BUILD_DIR "/test-cache", 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(keys_hold_every_field),
      cmocka_unit_test(objects_are_shared),
      cmocka_unit_test(programs_share_code),
      cmocka_unit_test(a_report_can_be_replayed),
  };
  return cmocka_run_group_tests_name("driver", tests, NULL, NULL);
}
