/* Tuning files: what is refused, and that sizes of tiles change no bit. */
#include <tdsl/tdsl.h>

#include "driver/api_tuning.h"
#include "runtime/base/num.h"
#include "runtime/cuda/cuda_nvrtc.h"
#include "tests/unit/unit.h"

/* ---- files --------------------------------------------------------------- */

static drv_tuned_t row_of(uint64_t key, uint32_t mr, uint32_t nr,
                          const char *target) {
  return (drv_tuned_t){.key = {key, ~key}, .target = target,
                       .sizes = {mr, nr, mr * 10, nr * 4, 128, 0, 0},
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
      {0, 32, 140, 128, 128, 0, 0},  {15, 32, 150, 128, 128, 0, 0},
      {14, 33, 140, 132, 128, 0, 0}, {14, 32, 13, 128, 128, 0, 0},
      {14, 32, 140, 100, 128, 0, 0}, {14, 32, 140, 128, 100, 0, 0},
      {14, 32, 140, 128, 0, 0, 0},   {14, 32, 140, 1u << 21, 128, 0, 0},
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

static bool gpu_reads(td_task_t *task, pass_sizes_t sizes,
                      drv_tuned_list_t *out) {
  drv_tuned_list_t rows = {0};
  drv_tuned_t row = row_of(1, 0, 0, "sm_80");
  row.sizes = sizes;
  td_vec_push(&task->arena, &rows, row);
  td_str_t text = text_of(task, &rows);
  return drv_tuning_read(task, &task->arena, "t", text, out);
}

/* Tiles that there are, and nothing beside them. */
TASK_TEST(rows_of_gpus) {
  UNUSED_ARG;
  static const pass_sizes_t bad[] = {
      {.mc = 128, .nc = 96}, {.mc = 128}, {.nc = 64},
      {.kc = 8}, {.kc = 64}, {.stages = 1}, {.stages = 5},
      {.mc = 64, .nc = 64, .kc = 48},
  };
  drv_tuned_list_t read;
  pass_sizes_t s = {0};
  uint32_t tiles = 0;
  for (; pass_product_tile(tiles, &s); tiles++) {
    s.kc = tiles % 3 * 16;
    s.stages = tiles % 4 == 0 ? 0 : 1 + tiles % 4;
    s.splits = tiles % 4;
    assert_true(gpu_reads(task, s, &read));
    assert_memory_equal(&read.data[0].sizes, &s, sizeof s);
  }
  assert_true(tiles >= 8);
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    assert_false(gpu_reads(task, bad[i], &read));
  }
}

/* ---- bits ---------------------------------------------------------------- */

#if TDSL_WITH_LLVM

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

#endif

static void must(tdsl_status_t status, tdsl_error_t *error) {
  if (status != TDSL_STATUS_OK) {
    tdsl_string_t s = tdsl_error_get_message(error);
    print_error("%.*s\n", (int)s.length, s.data);
  }
  assert_int_equal(status, TDSL_STATUS_OK);
}

static tdsl_program_t *compile(tdsl_context_t *context, const char *text,
                               const char *device, td_str_t tuning) {
  tdsl_compile_desc_t desc = TDSL_COMPILE_DESC_INIT;
  tdsl_program_t *p = NULL;
  tdsl_error_t *error = NULL;
  desc.file = td_str("t.tdsl");
  desc.text = td_str(text);
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

#if TDSL_WITH_LLVM

/* Micro-kernels of every width, deep and shallow, small and large blocks. */
static uint32_t forms_of(const ir_target_t *t, pass_sizes_t out[MOST_FORMS]) {
  uint32_t n = 0;
  for (uint32_t wide = 1; wide <= 4; wide++) {
    uint32_t nr = wide * t->lanes, mr = (t->registers - 1 - wide) / wide;
    if (wide != 2) out[n++] = (pass_sizes_t){mr, nr, mr * 5, nr * 3, 112, 0, 0};
    else out[n++] = (pass_sizes_t){mr, nr, mr, nr, 16, 0, 0};
    if (wide != 3) continue;
    out[n++] = (pass_sizes_t){1, nr, mr * 40, nr * 40, 1024, 0, 0};
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
  tdsl_program_t *plain =
      compile(context, programs, "cpu", text_of(task, &none));
  const drv_tuning_t *made = plain->tuning;
  assert_non_null(made);
  assert_int_equal(made->keys.length, plain->plan->kernel_count);
  tdsl_program_t *untuned = compile(context, programs, "cpu", td_str_n("", 0));
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
    tdsl_program_t *p = compile(context, programs, "cpu", text_of(task, &rows));
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

/* Products that come by themselves along the depth and across it, of dims
 * that are no multiple of anything, two at a time, in f64. */
static const char gpu_programs[] =
    "dyn M <= 200, N <= 200, K <= 2200\n"
    "export fn along(a: f32[M, 2112], b: f32[N, 2112], r: f32[N])\n"
    "    -> c: f32[M, N] {\n"
    "  c[m, n] = max(sum[k] a[m, k] * b[n, k] + r[n], 0)\n"
    "}\n"
    "export fn across(a: f32[K, 72], b: f32[K, 136]) -> c: f32[72, 136] {\n"
    "  c[m, n] = sum[k] a[k, m] * b[k, n]\n"
    "}\n"
    "export fn gate(a: f32[M, K], b: f32[N, K], w: f32[N, K])\n"
    "    -> c: f32[M, N] {\n"
    "  g[m, n] = sum[k] a[m, k] * b[n, k]\n"
    "  h[m, n] = sum[k] a[m, k] * w[n, k]\n"
    "  c[m, n] = g[m, n] / (1 + exp(-g[m, n])) * h[m, n]\n"
    "}\n"
    "export fn wide(a: f64[M, K], b: f64[K, N]) -> c: f64[M, N] {\n"
    "  c[m, n] = sum[k] a[m, k] * b[k, n]\n"
    "}\n";
static const int64_t gpu_shapes[][3] = {{37, 70, 1041}, {0, 5, 3}};
enum {
  GPU_SHAPES = sizeof gpu_shapes / sizeof gpu_shapes[0],
  GPU_ENTRIES = 4,
  GPU_FORM = 4, /* the one that is tried unless TDSL_TEST_FULL is set */
};

/* Sizes number `f` of a GPU: tiles, with other things beside them in turn. */
static bool gpu_form(uint32_t f, pass_sizes_t *out) {
  *out = (pass_sizes_t){.stages = 2 + f % 3, .splits = 1 + f % 3,
                        .kc = f % 2 == 0 ? 32 : 0};
  return pass_product_tile(f, out);
}

typedef struct said {
  uint32_t warnings, others;
} said_t;

static void count_said(const tdsl_diagnostic_t *d, void *user) {
  said_t *said = user;
  bool is_it = td_str_eqc(d->id, "W07") &&
               td_str_starts(d->text, "the tile that the tuning file has");
  if (is_it) said->warnings++;
  else said->others++;
}

static void drop_text(tdsl_string_t text, void *user) {
  (void)text;
  (void)user;
}

/* 128 x 128 sums are too many for two products, and for f64. */
static void misfits_are_said(td_task_t *task, tdsl_context_t *context,
                             const drv_tuning_t *made) {
  said_t said = {0, 0};
  drv_tuned_list_t rows = {0};
  tdsl_error_t *error = NULL;
  tdsl_compile_desc_t desc = TDSL_COMPILE_DESC_INIT;
  for (size_t k = 0; k < made->keys.length; k++) {
    drv_tuned_t row = {.key = made->keys.data[k], .kernel = "k",
                       .target = made->target->name,
                       .sizes = {.mc = 128, .nc = 128}};
    td_vec_push(&task->arena, &rows, row);
  }
  desc.file = td_str("t.tdsl");
  desc.text = td_str(gpu_programs);
  desc.device = td_str("sim");
  desc.tuning_text = text_of(task, &rows);
  desc.diagnostic = count_said;
  desc.diagnostic_user = &said;
  must(tdsl_program_dump(context, &desc, td_str("plan"), td_str(""),
                         drop_text, NULL, &error), error);
  assert_int_equal(said.others, 0);
  assert_in_range(said.warnings, 2, 2 * 3); /* of the halves of each, too */
}

TASK_TEST(no_bit_depends_on_tiles) {
  UNUSED_ARG;
  tdsl_context_t *context;
  tdsl_error_t *error;
  rcuda_nvrtc_t nvrtc;
  if (!rcuda_nvrtc_open(task, &task->arena, &nvrtc)) skip();
  rcuda_nvrtc_close(&nvrtc);
  bool is_full = getenv("TDSL_TEST_FULL") != NULL;
  td_str_t wanted[GPU_ENTRIES][GPU_SHAPES];
  must(tdsl_context_create(NULL, &context, &error), error);
  drv_tuned_list_t none = {0};
  tdsl_program_t *plain =
      compile(context, gpu_programs, "sim", text_of(task, &none));
  tdsl_program_t *untuned =
      compile(context, gpu_programs, "sim", td_str_n("", 0));
  const drv_tuning_t *made = plain->tuning;
  assert_true(made->keys.length >= GPU_ENTRIES);
  assert_true(made->keys.length < plain->plan->kernel_count);
  assert_int_equal(plain->plan->kernel_count, untuned->plan->kernel_count);
  for (uint32_t k = 0; k < plain->plan->kernel_count; k++) {
    assert_string_equal(plain->plan->kernels[k].symbol,
                        untuned->plan->kernels[k].symbol);
  }
  for (uint32_t e = 0; e < GPU_ENTRIES; e++) {
    for (int s = 0; s < GPU_SHAPES; s++) {
      wanted[e][s] = results_of(task, context, untuned, e, gpu_shapes[s]);
    }
  }
  pass_sizes_t sizes;
  uint32_t f = 0, done = 0;
  for (; gpu_form(f, &sizes); f++) {
    if (!is_full && f != GPU_FORM) continue;
    drv_tuned_list_t rows = {0};
    for (size_t k = 0; k < made->keys.length; k++) {
      drv_tuned_t row = {.key = made->keys.data[k],
                         .target = plain->plan->target, .sizes = sizes,
                         .kernel = "k"};
      td_vec_push(&task->arena, &rows, row);
    }
    tdsl_program_t *p =
        compile(context, gpu_programs, "sim", text_of(task, &rows));
    uint32_t others = 0;
    for (uint32_t k = 0; k < p->plan->kernel_count; k++) {
      others += k >= untuned->plan->kernel_count ||
                strcmp(p->plan->kernels[k].symbol,
                       untuned->plan->kernels[k].symbol) != 0;
    }
    assert_true(others >= 4);
    for (uint32_t e = 0; e < GPU_ENTRIES; e++) {
      for (int s = 0; s < GPU_SHAPES; s++) {
        td_str_t got = results_of(task, context, p, e, gpu_shapes[s]);
        if (got.length != wanted[e][s].length ||
            memcmp(got.data, wanted[e][s].data, got.length) != 0) {
          fail_msg("entry %u, shape %d: %ux%u, depth %u, %u stages, splits %s",
                   e, s, sizes.mc, sizes.nc, sizes.kc, sizes.stages,
                   drv_splits_name(sizes.splits));
        }
      }
    }
    tdsl_program_release(p);
    done++;
  }
  assert_true(is_full ? done > GPU_FORM : done == 1);
  misfits_are_said(task, context, made);
  tdsl_program_release(plain);
  tdsl_program_release(untuned);
  tdsl_context_destroy(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_of_gpus),
      cmocka_unit_test(round_trip),
      cmocka_unit_test(every_defect_is_found),
      cmocka_unit_test(sizes_have_to_fit),
#if TDSL_WITH_LLVM
      cmocka_unit_test(no_bit_depends_on_sizes),
#endif
      cmocka_unit_test(no_bit_depends_on_tiles),
  };
  return cmocka_run_group_tests_name("tuning", tests, NULL, NULL);
}
