/* Tuning files: what is refused, and that sizes of tiles change no bit. */
#include <tdsl/tdsl.h>

#include "driver/api_tuning.h"
#include "runtime/base/num.h"
#include "tests/unit/unit.h"

/* ---- files --------------------------------------------------------------- */

static drv_tuned_t row_of(uint64_t key, uint32_t mr, uint32_t nr,
                          const char *target) {
  return (drv_tuned_t){.key = {key, ~key}, .target = target,
                       .sizes = {mr, nr, mr * 10, nr * 4, 128},
                       .gain = 1100, .kernel = "k00_f_y"};
}

static td_str_t text_of(td_task_t *task, const drv_tuned_list_t *rows) {
  td_buf_t out;
  td_buf_init(&out, task);
  drv_tuning_print(&out, &task->arena, rows);
  size_t n = out.length;
  return td_str_n(td_buf_finish(&out, &task->arena), n);
}

static drv_tuned_list_t some_rows(td_task_t *task) {
  drv_tuned_list_t rows = {0};
  td_vec_push(&task->arena, &rows, row_of(9, 14, 32, "x86-64-v4"));
  td_vec_push(&task->arena, &rows, row_of(7, 6, 16, "x86-64-v3"));
  td_vec_push(&task->arena, &rows, row_of(3, 9, 48, "x86-64-v4"));
  td_vec_push(&task->arena, &rows, row_of(9, 6, 64, "x86-64-v4"));
  return rows;
}

/* Sorted, the later of two rows of one kernel; the same text again. */
TASK_TEST(round_trip) {
  UNUSED_ARG;
  drv_tuned_list_t rows = some_rows(task), read;
  td_str_t text = text_of(task, &rows);
  assert_true(drv_tuning_read(task, &task->arena, "t", text, &read));
  assert_int_equal(read.length, 3);
  assert_string_equal(read.data[0].target, "x86-64-v3");
  assert_int_equal(read.data[1].key.high, 3);
  assert_int_equal(read.data[2].sizes.nr, 64);
  assert_int_equal(read.data[2].sizes.kc, 128);
  assert_int_equal(read.data[2].gain, 1100);
  td_str_t again = text_of(task, &read);
  assert_int_equal(again.length, text.length);
  assert_memory_equal(again.data, text.data, text.length);
  drv_tuned_list_t none = {0};
  td_str_t empty = text_of(task, &none);
  assert_true(drv_tuning_read(task, &task->arena, "t", empty, &read));
  assert_int_equal(read.length, 0);
}

static bool is_refused(td_task_t *task, td_str_t text) {
  drv_tuned_list_t read;
  if (drv_tuning_read(task, &task->arena, "t", text, &read)) return false;
  assert_int_equal(read.length, 0);
  assert_true(task->diags.length > 0); /* equal ones are kept once */
  for (size_t i = 0; i < task->diags.length; i++) {
    assert_int_equal(task->diags.data[i]->id, TD_W07);
  }
  return true;
}

/* Cut anywhere, and each byte changed. */
TASK_TEST(every_defect_is_found) {
  UNUSED_ARG;
  drv_tuned_list_t rows = some_rows(task);
  td_str_t text = text_of(task, &rows);
  for (size_t n = 0; n < text.length; n++) {
    assert_true(is_refused(task, td_str_n(text.data, n)));
  }
  char *copy = td_arena_alloc(&task->arena, text.length + 1);
  memcpy(copy, text.data, text.length);
  for (size_t i = 0; i < text.length; i++) {
    copy[i] ^= 1;
    assert_true(is_refused(task, td_str_n(copy, text.length)));
    copy[i] ^= 1;
  }
  assert_false(is_refused(task, td_str_n(copy, text.length)));
}

/* A digest that is right does not make sizes right. */
TASK_TEST(sizes_have_to_fit) {
  UNUSED_ARG;
  static const pass_sizes_t bad[] = {
      {0, 32, 140, 128, 128},  {15, 32, 150, 128, 128}, /* registers */
      {14, 33, 140, 132, 128}, {14, 32, 13, 128, 128},
      {14, 32, 140, 100, 128}, {14, 32, 140, 128, 100},
      {14, 32, 140, 128, 0},   {14, 32, 140, 1u << 21, 128},
  };
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    drv_tuned_list_t rows = {0};
    drv_tuned_t row = row_of(1, 14, 32, "x86-64-v4");
    row.sizes = bad[i];
    td_vec_push(&task->arena, &rows, row);
    assert_true(is_refused(task, text_of(task, &rows)));
  }
  drv_tuned_list_t rows = {0};
  td_vec_push(&task->arena, &rows, row_of(1, 14, 32, "x86-64-v9"));
  assert_true(is_refused(task, text_of(task, &rows)));
  rows = (drv_tuned_list_t){0};
  td_vec_push(&task->arena, &rows, row_of(1, 14, 32, "sm_80"));
  assert_true(is_refused(task, text_of(task, &rows)));
}

#if TDSL_WITH_LLVM

/* ---- bits ---------------------------------------------------------------- */

/* Products in the forms that the tile passes know: rows of few and of many,
 * both operands turned, a tail behind, batches, a cascade, weights that are
 * laid out in front, a convolution. */
static const char programs[] =
    "import softmax (softmax)\n"
    "dyn M <= 200, N <= 200, K <= 700\n"
    "export fn mm(a: f32[M, K], b: f32[N, K], r: f32[N])\n"
    "    -> (c: f32[M, N], d: f64[N, M]) {\n"
    "  c[m, n] = max(sum[k] a[m, k] * b[n, k] + r[n], 0)\n"
    "  d[n, m] = sum[k] f64(a[m, k]) * f64(b[n, k])\n"
    "}\n"
    "export fn turned(a: f32[K, M], b: bf16[K, N]) -> c: f32[M, N] {\n"
    "  c[m, n] = sum[k] a[k, m] * b[k, n]\n"
    "}\n"
    "export fn attend(q: f32[3, M, 64], k: f32[3, N, 64], v: f32[3, N, 64])\n"
    "    -> o: f32[3, M, 64] {\n"
    "  s[h, m, n] = if n <= m + 3 then sum[d] q[h, m, d] * k[h, n, d]\n"
    "      else -inf\n"
    "  p[h, m, :] = softmax(s[h, m, :])\n"
    "  o[h, m, d] = sum[n] p[h, m, n] * v[h, n, d]\n"
    "}\n"
    "struct L { w: f32[96, 160] from \"w\" }\n"
    "export fn linear(x: f32[M, 160], l: L) -> y: f32[M, 96] {\n"
    "  y[m, n] = sum[k] x[m, k] * l.w[n, k]\n"
    "}\n"
    "export fn conv(x: f32[2, 9, 21, 17], w: f32[13, 9, 3, 3])\n"
    "    -> y: f32[2, 13, 19, 15] {\n"
    "  y[b, o, i, j] = sum[c, p, q] x[b, c, i + p, j + q] * w[o, c, p, q]\n"
    "}\n";

static const int64_t shapes[][3] = {{1, 1, 1}, {3, 200, 300}, {61, 33, 515},
                                    {200, 97, 700}, {0, 5, 3}};
enum {
  SHAPES = sizeof shapes / sizeof shapes[0],
  MOST_FORMS = 8,
  ENTRIES = 5
};

static void must(tdsl_status_t status, tdsl_error_t *error) {
  if (status != TDSL_STATUS_OK) {
    tdsl_string_t s = tdsl_error_get_message(error);
    print_error("%.*s\n", (int)s.length, s.data);
  }
  assert_int_equal(status, TDSL_STATUS_OK);
}

static tdsl_program_t *compile(tdsl_context_t *context, const char *device,
                               td_str_t tuning) {
  tdsl_compile_desc_t desc = TDSL_COMPILE_DESC_INIT;
  tdsl_program_t *p = NULL;
  tdsl_error_t *error = NULL;
  desc.file = td_str("t.tdsl");
  desc.text = td_str(programs);
  desc.device = td_str(device);
  desc.tuning_text = tuning;
  must(tdsl_program_compile(context, &desc, &p, &error), error);
  return p;
}

/* All results of an entry at one shape. */
static td_str_t results_of(td_task_t *task, tdsl_context_t *context,
                           tdsl_program_t *p, uint32_t number,
                           const int64_t shape[3]) {
  const tdsl_entry_t *e = tdsl_program_get_entry(p, number);
  tdsl_executable_t *exe = NULL;
  tdsl_run_t *run = NULL;
  tdsl_error_t *error = NULL;
  td_buf_t out;
  td_buf_init(&out, task);
  must(tdsl_executable_create(p, e, &exe, &error), error);
  must(tdsl_run_create(exe, &run, &error), error);
  for (uint32_t s = 0; s < e->slot_count; s++) {
    const plan_slot_t *slot = &p->plans[number].slots[s];
    tdsl_tensor_desc_t desc = {.dtype = slot->dtype, .rank = slot->rank};
    tdsl_buffer_t *b = NULL;
    if (slot->kind == PLAN_OUT) continue;
    for (uint32_t d = 0; d < slot->rank; d++) {
      plan_env_t env = {shape, NULL};
      int64_t vars[3];
      for (uint32_t v = 0; v < p->plans[number].dim_count; v++) {
        const char *name = p->plans[number].vars[v].name;
        vars[v] = shape[name[0] == 'M' ? 0 : name[0] == 'N' ? 1 : 2];
      }
      env.vars = vars;
      assert_true(plan_eval(&slot->dims[d], &env, &desc.dims[d]));
    }
    must(tdsl_buffer_create(context, &desc, &b, &error), error);
    char *data = tdsl_buffer_get_data(b);
    uint64_t n = tdsl_buffer_get_count(b);
    for (uint64_t i = 0; i < n; i++) {
      /* of many magnitudes, so that another order of sums would show */
      double v = (double)((i * 7919 + s * 131) % 1009) / 64.0 - 7.5;
      td_store_f64(slot->dtype, data + i * td_dtype_bytes(slot->dtype),
                   i % 13 == 0 ? v * 1000 : v);
    }
    must(tdsl_run_set_buffer(run, s, b, &error), error);
    tdsl_buffer_release(b);
  }
  must(tdsl_run_execute(run, &error), error);
  for (uint32_t s = 0; s < e->slot_count; s++) {
    const tdsl_buffer_t *b = tdsl_run_get_buffer(run, s);
    if (b == NULL || p->plans[number].slots[s].kind == PLAN_IN) continue;
    td_buf_put(&out, b->data, b->bytes);
  }
  tdsl_run_destroy(run);
  tdsl_executable_release(exe);
  size_t length = out.length;
  return td_str_n(td_buf_finish(&out, &task->arena), length);
}

/* Micro-kernels of every width, deep and shallow, small and large blocks. */
static uint32_t forms_of(const ir_target_t *t, pass_sizes_t out[MOST_FORMS]) {
  uint32_t n = 0;
  for (uint32_t wide = 1; wide <= 4; wide++) {
    uint32_t nr = wide * t->lanes, mr = (t->registers - 1 - wide) / wide;
    if (wide != 2) out[n++] = (pass_sizes_t){mr, nr, mr * 5, nr * 3, 112};
    else out[n++] = (pass_sizes_t){mr, nr, mr, nr, 16};
    if (wide == 3) out[n++] = (pass_sizes_t){1, nr, mr * 40, nr * 40, 1024};
  }
  return n;
}

TASK_TEST(no_bit_depends_on_sizes) {
  UNUSED_ARG;
  tdsl_context_t *context;
  tdsl_error_t *error;
  const ir_target_t *target = ir_target_host();
  pass_sizes_t forms[MOST_FORMS];
  td_str_t wanted[ENTRIES][SHAPES];
  must(tdsl_context_create(NULL, &context, &error), error);
  drv_tuned_list_t none = {0};
  tdsl_program_t *plain = compile(context, "cpu", text_of(task, &none));
  const drv_tuning_t *made = plain->tuning;
  assert_non_null(made);
  assert_int_equal(made->keys.length, plain->plan->kernel_count);
  tdsl_program_t *untuned = compile(context, "cpu", td_str_n("", 0));
  assert_null(untuned->tuning);
  bool has_panels = false;
  for (uint32_t k = 0; k < plain->plan->kernel_count; k++) {
    has_panels |= strstr(plain->plan->kernels[k].card, "as panels") != NULL;
  }
  assert_true(has_panels);
  for (uint32_t e = 0; e < ENTRIES; e++) {
    for (int s = 0; s < SHAPES; s++) {
      wanted[e][s] = results_of(task, context, untuned, e, shapes[s]);
    }
  }
  /* an empty file changes no kernel */
  for (uint32_t k = 0; k < plain->plan->kernel_count; k++) {
    assert_string_equal(plain->plan->kernels[k].symbol,
                        untuned->plan->kernels[k].symbol);
  }
  uint32_t count = forms_of(target, forms), others = 0;
  for (uint32_t f = 0; f < count; f++) {
    drv_tuned_list_t rows = {0};
    for (size_t k = 0; k < made->keys.length; k++) {
      drv_tuned_t row = {.key = made->keys.data[k], .target = target->name,
                         .sizes = forms[f], .kernel = "k"};
      td_vec_push(&task->arena, &rows, row);
    }
    tdsl_program_t *p = compile(context, "cpu", text_of(task, &rows));
    for (uint32_t k = 0; k < p->plan->kernel_count; k++) {
      others += strcmp(p->plan->kernels[k].symbol,
                       untuned->plan->kernels[k].symbol) != 0;
    }
    for (uint32_t e = 0; e < ENTRIES; e++) {
      for (int s = 0; s < SHAPES; s++) {
        td_str_t got = results_of(task, context, p, e, shapes[s]);
        if (got.length != wanted[e][s].length ||
            memcmp(got.data, wanted[e][s].data, got.length) != 0) {
          fail_msg("entry %u, shape %d: %ux%u, blocks %u x %u x %u", e, s,
                   forms[f].mr, forms[f].nr, forms[f].mc, forms[f].nc,
                   forms[f].kc);
        }
      }
    }
    tdsl_program_release(p);
  }
  /* they were other kernels: three products, at least */
  assert_true(others >= 3 * (count - 1));
  tdsl_program_release(plain);
  tdsl_program_release(untuned);
  tdsl_context_destroy(context);
}

#endif

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(round_trip),
      cmocka_unit_test(every_defect_is_found),
      cmocka_unit_test(sizes_have_to_fit),
#if TDSL_WITH_LLVM
      cmocka_unit_test(no_bit_depends_on_sizes),
#endif
  };
  return cmocka_run_group_tests_name("tuning", tests, NULL, NULL);
}
