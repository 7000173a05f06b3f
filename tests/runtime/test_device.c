/* One suite over every device: what hal.h promises, by whatever means. */
#include "tests/unit/unit.h"

#include "runtime/base/num.h"
#include "runtime/cpu/cpu_device.h"
#include "runtime/hal/hal.h"
#include "runtime/null/null_device.h"

typedef struct device_row {
  const char *name;
  uint32_t threads;
} device_row_t;

static const device_row_t rows[] = {{"null", 0}, {"cpu", 1}, {"cpu", 3}};

static hal_device_t *open_device(td_task_t *task, const device_row_t *row) {
  hal_device_t *d = strcmp(row->name, "null") == 0
                        ? rnull_device_create(task)
                        : rcpu_device_create(task, row->threads);
  assert_non_null(d);
  assert_string_equal(d->vtable->name, row->name);
  return d;
}

#define EACH_DEVICE(d)                                                        \
  for (size_t row_ = 0; row_ < sizeof rows / sizeof rows[0]; row_++)          \
    for (hal_device_t *d = open_device(task, &rows[row_]); d != NULL;         \
         d->vtable->destroy(d), d = NULL)

TASK_TEST(required_slots) {
  UNUSED_ARG;
  EACH_DEVICE(d) {
    const hal_vtable_t *v = d->vtable;
    assert_true(v->alloc && v->free && v->copy && v->fill && v->load &&
                v->unload && v->launch && v->destroy);
  }
}

TASK_TEST(allocation) {
  UNUSED_ARG;
  static const size_t sizes[] = {0, 1, 63, 64, 65, 4096, 1000003};
  EACH_DEVICE(d) {
    void *blocks[7];
    for (size_t i = 0; i < 7; i++) {
      blocks[i] = d->vtable->alloc(d, sizes[i]);
      assert_non_null(blocks[i]);
      assert_int_equal((uintptr_t)blocks[i] % 64, 0);
      assert_true(d->vtable->fill(d, task, blocks[i], (int)i + 1, sizes[i]));
    }
    /* nobody wrote into a neighbour */
    for (size_t i = 0; i < 7; i++) {
      unsigned char *host = td_arena_alloc(&task->arena, sizes[i] + 1);
      assert_true(d->vtable->copy(d, task, host, blocks[i], sizes[i]));
      for (size_t k = 0; k < sizes[i]; k++) assert_int_equal(host[k], i + 1);
      assert_int_equal(host[sizes[i]], 0);
    }
    for (size_t i = 0; i < 7; i += 2) d->vtable->free(d, blocks[i]);
    for (size_t i = 1; i < 7; i += 2) d->vtable->free(d, blocks[i]);
    d->vtable->free(d, NULL);
    assert_null(d->vtable->alloc(d, SIZE_MAX - 8));
  }
}

TASK_TEST(copies) {
  UNUSED_ARG;
  EACH_DEVICE(d) {
    char host[100], back[100];
    for (int i = 0; i < 100; i++) host[i] = (char)i;
    char *a = d->vtable->alloc(d, 200), *b = d->vtable->alloc(d, 200);
    assert_true(d->vtable->copy(d, task, a, host, 100));
    assert_true(d->vtable->copy(d, task, b + 64, a, 100));
    assert_true(d->vtable->copy(d, task, back, b + 64, 100));
    assert_memory_equal(host, back, 100);
    assert_true(d->vtable->copy(d, task, back, a, 0));
    if (d->vtable->wait != NULL) assert_true(d->vtable->wait(d, task));
    d->vtable->free(d, a);
    d->vtable->free(d, b);
  }
}

/* A plan without kernels is a program, too; two may be loaded at once. */
TASK_TEST(programs) {
  UNUSED_ARG;
  EACH_DEVICE(d) {
    plan_t plan = {.arena = &task->arena};
    hal_program_t *p = d->vtable->load(d, task, &plan);
    hal_program_t *q = d->vtable->load(d, task, &plan);
    assert_non_null(p);
    assert_non_null(q);
    d->vtable->unload(d, p);
    d->vtable->unload(d, q);
    d->vtable->unload(d, NULL);
  }
}

/* Machine code that is none is refused with B06, and by its name. */
TASK_TEST(bad_payload) {
  UNUSED_ARG;
  hal_device_t *d = rcpu_device_create(task, 1);
  plan_kernel_t kernel = {.name = "k", .symbol = "k"};
  plan_module_t module = {.name = "m7", .payload = PLAN_PAYLOAD_KIR,
                          .bytes = 4, .data = "none"};
  plan_t plan = {.arena = &task->arena, .module_count = 1,
                 .modules = &module, .kernel_count = 1, .kernels = &kernel};
  assert_null(d->vtable->load(d, task, &plan));
  assert_string_equal(unit_first_id(task), "B06");
  assert_non_null(strstr(task->diags.data[0]->text, "m7"));
  module.payload = PLAN_PAYLOAD_OBJECT;
  assert_null(d->vtable->load(d, task, &plan));
  assert_int_equal(td_task_status(task), TDSL_STATUS_UNAVAILABLE);
  d->vtable->destroy(d);
}

/* Every byte that a device takes comes from the host's hook and goes back. */
static void use_memory(td_task_t *task, void *arg) {
  hal_device_t *d = open_device(task, arg);
  void *block = d->vtable->alloc(d, 1000);
  if (block != NULL) (void)d->vtable->fill(d, task, block, 0, 1000);
  d->vtable->free(d, block);
  d->vtable->destroy(d);
}

TASK_TEST(hooks) {
  UNUSED_ARG;
  for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
    device_row_t row = rows[r];
    unit_memory_t m = {0, 0, false, 0};
    td_host_t host = {.allocator = {unit_alloc, &m}};
    size_t count = 1;
    for (size_t n = 0; n <= count; n++) {
      td_task_t own;
      m = (unit_memory_t){0, n, true, 0};
      td_task_init(&own, &host);
      tdsl_status_t status = td_task_run(&own, use_memory, &row);
      if (n == 0) count = m.calls;
      assert_true(status == TDSL_STATUS_OK ||
                  (n > 0 && status == TDSL_STATUS_OUT_OF_MEMORY));
      td_task_free(&own);
      assert_int_equal(m.held, 0);
    }
    assert_true(count >= 2);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(required_slots), cmocka_unit_test(allocation),
      cmocka_unit_test(copies),         cmocka_unit_test(programs),
      cmocka_unit_test(bad_payload),    cmocka_unit_test(hooks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
