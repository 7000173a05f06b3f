/* TDSL_PLAN_ALLOC=separate, on the device that records calls: each buffer has
   memory from its first step to its last, those that overlap in the plan have
   it together, and a loop keeps what it uses. */
#include "tests/unit/unit.h"

#include "runtime/hal/exec.h"
#include "runtime/null/null_device.h"

#include <stdlib.h>

/* a lives in steps 0 and 1, b from 1 to 5, c in the loop and in b's place. */
static const char text[] =
    "plan 1\ntarget \"\"\nfile \"a.tdsl\"\n"
    "module \"m\" kir \"\" bytes 1 hash xaf63dc4c8601ec8c data { x61 }\n"
    "kernel \"k\" module 0 symbol \"k\" { param read param write scalars 1 "
    "blocks $0 scratch 0 reads 0 writes 0 flops 0 card \"\" }\n"
    "entry \"f\" {\nvar \"i\"\n"
    "slot 0 in \"x\" f32[\"8\" = 8 max 8] buffer 0\n"
    "slot 1 out \"y\" f32[\"8\" = 8 max 8] buffer 1\n"
    "buffer 0 \"x\" f32[8] bytes 32 slot 0 life 0 .. 0\n"
    "buffer 1 \"y\" f32[8] bytes 32 slot 1 life 5 .. 5\n"
    "buffer 2 \"a\" f32[8] bytes 32 offset 0 life 0 .. 1\n"
    "buffer 3 \"b\" f32[8] bytes 32 offset 64 life 1 .. 5\n"
    "buffer 4 \"c\" f32[4] bytes 16 offset 64 life 2 .. 4\n"
    "buffer 5 \"e\" f32[0] bytes 0 offset 128 life 0 .. 0\n"
    "arena 128\n"
    "launch 0 (0, 2) [8]\n"
    "launch 0 (2, 3) [8]\n"
    "loop i in 0 .. 2 {\nlaunch 0 (3, 4) [4]\n}\n"
    "copy (1, 3)\n"
    "}\n";

TASK_TEST(lives) {
  UNUSED_ARG;
  uint32_t file = td_sources_add(task, "a.plan", text, strlen(text));
  plan_t *plan = plan_parse(task, &task->arena, file);
  if (plan == NULL) print_error("%s\n", task->diags.data[0]->text);
  assert_non_null(plan);
  hal_device_t *device = rnull_device_create(task);
  hal_program_t *program = device->vtable->load(device, task, plan);
  hal_exec_t *exec = hal_exec_create(task, &task->arena, device, program,
                                     plan, 0);
  hal_arg_t args[2] = {{.is_set = true, .dtype = TDSL_DTYPE_F32, .rank = 1,
                        .dims = {8}}};
  args[0].data = td_arena_alloc(&task->arena, 64);
  setenv("TDSL_PLAN_ALLOC", "separate", 1);
  assert_true(hal_exec_run(exec, task, args, NULL, NULL));
  assert_string_equal(rnull_device_record(device),
                      "load 1 kernels\n"
                      "alloc m1 96\n" /* cells */
                      "alloc m2 32\n" /* y */
                      "alloc m3 32\n" /* a */
                      "alloc m4 64\n" /* e, empty */
                      "launch k h1+0:32 m3+0:32 scalars 8 blocks 8 scratch 0\n"
                      "free m4\n"
                      "alloc m5 32\n" /* b and c */
                      "launch k m3+0:32 m5+0:32 scalars 8 blocks 8 scratch 0\n"
                      "free m3\n"
                      "launch k m5+0:32 m5+0:16 scalars 4 blocks 4 scratch 0\n"
                      "launch k m5+0:32 m5+0:16 scalars 4 blocks 4 scratch 0\n"
                      "copy m2+0:32 m5+0:32\n"
                      "free m5\n"
                      "wait\n");
  /* poison comes with the memory; every run makes it anew */
  rnull_device_clear(device);
  hal_exec_options_t poison = {.poison = true};
  assert_true(hal_exec_run(exec, task, args, NULL, &poison));
  const char *record = rnull_device_record(device);
  assert_non_null(strstr(record, "alloc m6 32\nfill m6+0:32"));
  assert_non_null(strstr(record, "free m8\nwait\n"));
  /* and the arena again */
  unsetenv("TDSL_PLAN_ALLOC");
  rnull_device_clear(device);
  assert_true(hal_exec_run(exec, task, args, NULL, NULL));
  record = rnull_device_record(device);
  assert_non_null(strstr(record, "alloc m9 128\n"));
  assert_null(strstr(record, "free"));
  hal_exec_destroy(exec);
  device->vtable->unload(device, program);
  device->vtable->destroy(device);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(lives)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
