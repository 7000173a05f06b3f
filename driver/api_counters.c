/* api_counters.c: what the simulated GPU counted, kernel by kernel.
 *
 * It gives a line of JSON a launch.  Names of counters are its own: whatever
 * it counts is summed over the launches of a kernel and printed, so that a
 * new one needs no line here.  A few that people look at first stand in a
 * table in front. */
#include "driver/api_cuda.h"

#include "runtime/cuda/cuda_device.h"
#include "runtime/io/json.h"

enum { LINE_BYTES = 16384, SHAPES = 3 };

typedef struct counter {
  const char *name;
  uint64_t value;
} counter_t;

typedef TD_VEC(counter_t) counters_t;

/* The launches of one kernel. Numbers that are not summed are of the last. */
typedef struct kernel_row {
  const char *symbol;
  const plan_kernel_t *kernel; /* NULL: none of the program's */
  uint64_t launches, failed;
  uint64_t shapes[SHAPES][3];  /* grid, block, cluster */
  uint64_t registers, shared_static, shared_dynamic, local;
  bool is_assembled; /* registers are the assembler's */
  uint64_t blocks, warps;      /* resident on a multiprocessor */
  const char *limiter;
  counters_t counters, mix;
} kernel_row_t;

typedef struct table {
  td_task_t *task;
  td_arena_t *arena;
  const plan_t *plan;
  TD_VEC(kernel_row_t) rows;
  uint64_t launches, peak_bytes;
  const tdsl_run_stats_t *stats; /* of the last run */
} table_t;

static const char *const shape_names[SHAPES] = {"grid", "block", "cluster"};

/* ---- reading ------------------------------------------------------------- */

static void add(td_arena_t *arena, counters_t *to, td_str_t name,
                uint64_t value) {
  for (size_t i = 0; i < to->length; i++) {
    if (!td_str_eqc(name, to->data[i].name)) continue;
    to->data[i].value += value;
    return;
  }
  counter_t c = {td_str_cstr(arena, name), value};
  td_vec_push(arena, to, c);
}

static uint64_t take(io_json_t *j) {
  int64_t value = 0;
  (void)io_json_int(j, &value);
  return value < 0 ? 0 : (uint64_t)value;
}

static void read_counters(td_arena_t *arena, io_json_t *j, counters_t *to) {
  td_str_t key;
  if (!io_json_object(j)) return;
  while (io_json_key(j, &key)) add(arena, to, key, take(j));
}

static void read_shape(io_json_t *j, uint64_t out[3]) {
  if (!io_json_array(j)) return;
  for (int i = 0; io_json_item(j); i++) {
    uint64_t value = take(j);
    if (i < 3) out[i] = value;
  }
}

static void read_occupancy(td_arena_t *arena, io_json_t *j,
                           kernel_row_t *row) {
  td_str_t key, text;
  if (!io_json_object(j)) return;
  while (io_json_key(j, &key)) {
    if (td_str_eqc(key, "ctas")) row->blocks = take(j);
    else if (td_str_eqc(key, "warps")) row->warps = take(j);
    else if (td_str_eqc(key, "limiter") && io_json_text(j, &text)) {
      row->limiter = td_str_cstr(arena, text);
    } else {
      (void)io_json_skip(j);
    }
  }
}

static kernel_row_t *row_of(table_t *t, td_str_t symbol) {
  for (size_t i = 0; i < t->rows.length; i++) {
    if (td_str_eqc(symbol, t->rows.data[i].symbol)) return &t->rows.data[i];
  }
  kernel_row_t row = {.symbol = td_str_cstr(t->arena, symbol),
                      .limiter = "unknown"};
  for (uint32_t k = 0; k < t->plan->kernel_count; k++) {
    if (td_str_eqc(symbol, t->plan->kernels[k].symbol)) {
      row.kernel = &t->plan->kernels[k];
    }
  }
  td_vec_push(t->arena, &t->rows, row);
  return &td_vec_last(&t->rows);
}

/* The name comes before what belongs to it. */
static bool read_launch(table_t *t, io_json_t *j) {
  td_str_t key, name;
  kernel_row_t none = {0}, *row = &none;
  if (!io_json_object(j)) return false;
  while (io_json_key(j, &key)) {
    if (td_str_eqc(key, "kernel") && io_json_text(j, &name)) {
      row = row_of(t, name);
      row->launches++;
      t->launches++;
    } else if (td_str_eqc(key, "result")) {
      row->failed += take(j) != 0;
    } else if (td_str_eqc(key, "registers_est") ||
               td_str_eqc(key, "registers")) {
      row->is_assembled = td_str_eqc(key, "registers");
      row->registers = take(j);
    } else if (td_str_eqc(key, "shared_static")) {
      row->shared_static = take(j);
    } else if (td_str_eqc(key, "shared_dynamic")) {
      row->shared_dynamic = take(j);
    } else if (td_str_eqc(key, "local")) {
      row->local = take(j);
    } else if (td_str_eqc(key, "occupancy")) {
      read_occupancy(t->arena, j, row);
    } else if (td_str_eqc(key, "device.peak")) {
      uint64_t peak = take(j);
      if (peak > t->peak_bytes) t->peak_bytes = peak;
    } else if (td_str_eqc(key, "counters")) {
      read_counters(t->arena, j, &row->counters);
    } else if (td_str_eqc(key, "mix")) {
      read_counters(t->arena, j, &row->mix);
    } else {
      int shape = 0;
      while (shape < SHAPES && !td_str_eqc(key, shape_names[shape])) shape++;
      if (shape < SHAPES) read_shape(j, row->shapes[shape]);
      else (void)io_json_skip(j);
    }
  }
  return true;
}

/* ---- printing ------------------------------------------------------------ */

static uint64_t value_of(const kernel_row_t *row, const char *name) {
  for (size_t i = 0; i < row->counters.length; i++) {
    if (strcmp(row->counters.data[i].name, name) == 0) {
      return row->counters.data[i].value;
    }
  }
  return 0;
}

static const char *name_of(const kernel_row_t *row) {
  return row->kernel != NULL ? row->kernel->name : row->symbol;
}

/* "x1.25", or "-" where there was nothing to do. */
static const char *ratio(td_arena_t *arena, uint64_t is, uint64_t ideal) {
  if (ideal == 0) return "-";
  uint64_t hundredths = (is * 100 + ideal / 2) / ideal;
  return td_arena_printf(arena, "x%llu.%02llu",
                         (unsigned long long)(hundredths / 100),
                         (unsigned long long)(hundredths % 100));
}

static void put_overview(td_buf_t *out, const table_t *t) {
  size_t width = 6;
  for (size_t i = 0; i < t->rows.length; i++) {
    size_t n = strlen(name_of(&t->rows.data[i]));
    if (n > width) width = n;
  }
  td_buf_printf(out, "%-*s %8s %12s %12s %12s %12s %12s %8s %8s\n", (int)width,
                "kernel", "launches", "warp inst", "flops", "tensor",
                "read", "written", "sectors", "banks");
  for (size_t i = 0; i < t->rows.length; i++) {
    const kernel_row_t *row = &t->rows.data[i];
    uint64_t flops = value_of(row, "flop.f32") + value_of(row, "flop.f16") +
                     value_of(row, "flop.f64");
    td_buf_printf(
        out, "%-*s %8llu %12llu %12llu %12llu %12llu %12llu %8s %8s\n",
        (int)width, name_of(row), (unsigned long long)row->launches,
        (unsigned long long)value_of(row, "warp_inst"),
        (unsigned long long)flops,
        (unsigned long long)value_of(row, "tensor_flop"),
        (unsigned long long)value_of(row, "global.bytes_read"),
        (unsigned long long)value_of(row, "global.bytes_written"),
        ratio(t->arena, value_of(row, "global.sectors"),
              value_of(row, "global.sectors_ideal")),
        ratio(t->arena, value_of(row, "shared.wavefronts"),
              value_of(row, "shared.ideal")));
  }
}

static void put_list(td_buf_t *out, const char *title,
                     const counters_t *list) {
  size_t column = 0;
  for (size_t i = 0; i < list->length; i++) {
    const counter_t *c = &list->data[i];
    if (c->value == 0) continue;
    if (column == 0 || column > 60) {
      td_buf_printf(out, "%s  %-9s", column > 0 ? "\n" : "",
                    column == 0 ? title : "");
      column = 11;
    }
    size_t before = out->length;
    td_buf_printf(out, " %s %llu", c->name, (unsigned long long)c->value);
    column += out->length - before;
  }
  if (column > 0) td_buf_putc(out, '\n');
}

static void put_kernel(td_buf_t *out, const table_t *t,
                       const kernel_row_t *row) {
  td_buf_printf(out, "\n%s", name_of(row));
  td_loc_t loc = row->kernel != NULL ? row->kernel->loc : TD_NO_LOC;
  if (loc.line > 0 && loc.file > 0 && loc.file <= t->plan->file_count) {
    td_buf_printf(out, " (%s:%u)", t->plan->files[loc.file - 1], loc.line);
  }
  td_buf_putc(out, '\n');
  for (int s = 0; s < SHAPES; s++) {
    const uint64_t *v = row->shapes[s];
    if (s == 2 && v[0] * v[1] * v[2] <= 1) continue;
    td_buf_printf(out, "  %-9s %llu x %llu x %llu\n", shape_names[s],
                  (unsigned long long)v[0], (unsigned long long)v[1],
                  (unsigned long long)v[2]);
  }
  td_buf_printf(out,
                "  resources registers %llu%s shared %llu local "
                "%llu\n  resident  blocks %llu warps %llu, limited by %s\n",
                (unsigned long long)row->registers,
                row->is_assembled ? "" : " (estimated)",
                (unsigned long long)(row->shared_static +
                                     row->shared_dynamic),
                (unsigned long long)row->local,
                (unsigned long long)row->blocks,
                (unsigned long long)row->warps, row->limiter);
  if (row->failed > 0) {
    td_buf_printf(out, "  failed    launches %llu\n",
                  (unsigned long long)row->failed);
  }
  put_list(out, "counters", &row->counters);
  put_list(out, "mix", &row->mix);
}

static void put_table(td_buf_t *out, const table_t *t) {
  td_buf_printf(out,
                "%llu launches, at most %llu bytes of device memory; the plan "
                "says %llu, of them %llu scratch\n\n",
                (unsigned long long)t->launches,
                (unsigned long long)t->peak_bytes,
                (unsigned long long)t->stats->predicted_device_bytes,
                (unsigned long long)t->stats->scratch_bytes);
  if (t->rows.length == 0) return;
  put_overview(out, t);
  for (size_t i = 0; i < t->rows.length; i++) {
    put_kernel(out, t, &t->rows.data[i]);
  }
}

/* ---- calls --------------------------------------------------------------- */

typedef struct counters_call {
  tdsl_run_t *run;
  bool as_json;
  tdsl_text_fn_t text;
  void *user;
} counters_call_t;

/* B04 for a device that counts nothing. */
static hal_device_t *counting_device(td_task_t *task, const tdsl_run_t *run) {
  const tdsl_program_t *p = run->exe->program;
  bool is_sim = p->device.engine == DRV_PLAN && p->device.hal == DRV_HAL_SIM;
  if (is_sim) return p->hal;
  td_diag_t *d = td_diag(task, TD_B04, TD_NO_LOC,
                         "this device has no counters");
  td_diag_help(d, "the simulated GPU counts: --device sim; --profile measures "
                  "time on every device that runs kernels");
  return NULL;
}

static void set_work(td_task_t *task, void *arg) {
  counters_call_t *c = arg;
  hal_device_t *device = counting_device(task, c->run);
  if (device == NULL) return;
  c->run->first_launch = rcuda_counters_count(device);
  c->run->has_counters = true;
}

tdsl_status_t tdsl_run_set_counters(tdsl_run_t *run,
                                    tdsl_error_t **out_error) {
  counters_call_t c = {.run = run};
  drv_call_t call = {.context = run->exe->program->context};
  return drv_call(&call, set_work, &c, out_error);
}

static void write_work(td_task_t *task, void *arg) {
  counters_call_t *c = arg;
  td_arena_t arena;
  td_arena_init(&arena, task);
  table_t t = {task, &arena, c->run->exe->program->plan, {0}, 0, 0,
               &c->run->stats};
  hal_device_t *device = counting_device(task, c->run);
  if (device == NULL) return;
  if (!c->run->has_counters) {
    td_raise(task, TDSL_STATUS_INVALID_ARGUMENT, "nothing was counted");
  }
  char *line = td_arena_alloc(&arena, LINE_BYTES);
  size_t count = rcuda_counters_count(device);
  td_buf_t out;
  td_buf_init(&out, task);
  if (c->as_json) {
    td_buf_printf(&out,
                  "{\"schema\": 1, \"predicted_device_bytes\": %llu, "
                  "\"scratch_bytes\": %llu, \"launches\": [",
                  (unsigned long long)t.stats->predicted_device_bytes,
                  (unsigned long long)t.stats->scratch_bytes);
  }
  for (size_t i = c->run->first_launch; i < count; i++) {
    size_t n = rcuda_counters_get(device, i, line, LINE_BYTES);
    if (n >= LINE_BYTES) {
      td_raise(task, TDSL_STATUS_INTERNAL, "the simulator's line is too long");
    }
    while (n > 0 && line[n - 1] == '\n') n--;
    if (c->as_json) {
      td_buf_printf(&out, "%s\n%.*s", i > c->run->first_launch ? "," : "",
                    (int)n, line);
      continue;
    }
    io_json_t j;
    uint32_t file = td_sources_add(task, "<simulator>", line, n);
    io_json_begin(&j, task, &arena, file, td_str_n(line, n));
    (void)read_launch(&t, &j);
    if (!io_json_end(&j)) break;
  }
  if (c->as_json) td_buf_puts(&out, "]}\n");
  else put_table(&out, &t);
  c->text(td_buf_view(&out), c->user);
  td_buf_free(&out);
  td_arena_free_all(&arena);
}

tdsl_status_t tdsl_run_write_counters(tdsl_run_t *run, uint32_t as_json,
                                      tdsl_text_fn_t text, void *user,
                                      tdsl_error_t **out_error) {
  counters_call_t c = {run, as_json != 0, text, user};
  drv_call_t call = {.context = run->exe->program->context};
  return drv_call(&call, write_work, &c, out_error);
}
