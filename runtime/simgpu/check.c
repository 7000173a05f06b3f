#include "runtime/simgpu/check.h"

#include "runtime/simgpu/warp.h"

#include <stdlib.h>

static const sim_check_row_t rows[] = {
#define SIM_CHECK(id, text, code, family) {text, code, family},
#include "runtime/simgpu/checks.def"
#undef SIM_CHECK
};

const sim_check_row_t *sim_check_row(sim_check_t id) {
  return &rows[id];
}

const char *sim_counter_name(unsigned counter) {
  static const char *const names[] = {
#define SIM_COUNTER(id, text) text,
#include "runtime/simgpu/counters.def"
#undef SIM_COUNTER
  };
  return counter < SIM_COUNTER_COUNT ? names[counter] : "";
}

static const char *space_name(ptx_space_t space) {
  switch (space) {
  case PTX_SPACE_GLOBAL: return "global";
  case PTX_SPACE_SHARED: return "shared";
  case PTX_SPACE_LOCAL: return "local";
  case PTX_SPACE_CONST: return "const";
  case PTX_SPACE_PARAM: return "param";
  default: return "";
  }
}

/* Text into a fixed array, cut if too long. */
static void put(char *out, size_t bytes, const char *format, ...)
    TD_PRINTF(3, 4);
static void put(char *out, size_t bytes, const char *format, ...) {
  td_buf_t buf;
  va_list args;
  td_buf_init_fixed(&buf, out, bytes);
  va_start(args, format);
  td_buf_vprintf(&buf, format, args);
  va_end(args);
}

void sim_report_add(sim_report_t *report, const sim_finding_t *f) {
  td_mutex_lock(&report->mutex);
  for (size_t i = 0; i < report->count; i++) {
    sim_finding_t *have = &report->list[i];
    if (have->id != f->id || have->line != f->line ||
        have->other_line != f->other_line ||
        strcmp(have->kernel, f->kernel) != 0)
      continue;
    uint64_t count = have->count + 1;
    /* the smallest block, warp and lane is the one shown, so that a report
       does not depend on the host's threads */
    bool earlier = f->launch == have->launch &&
                   (f->cta_linear < have->cta_linear ||
                    (f->cta_linear == have->cta_linear &&
                     f->warp * 33 + f->lane < have->warp * 33 + have->lane));
    if (earlier) *have = *f;
    have->count = count;
    td_mutex_unlock(&report->mutex);
    return;
  }
  if (report->count == report->capacity &&
      report->capacity < SIM_MAX_FINDINGS) {
    size_t capacity = report->capacity ? report->capacity * 2 : 16;
    sim_finding_t *list =
        realloc(report->list, capacity * sizeof *report->list);
    if (list) {
      report->list = list;
      report->capacity = capacity;
    }
  }
  if (report->count < report->capacity) {
    report->list[report->count] = *f;
    report->list[report->count++].count = 1;
  } else {
    report->dropped++;
  }
  td_mutex_unlock(&report->mutex);
}

void sim_report_clear(sim_report_t *report) {
  td_mutex_lock(&report->mutex);
  free(report->list);
  report->list = NULL;
  report->count = report->capacity = 0;
  report->dropped = 0;
  td_mutex_unlock(&report->mutex);
}

void sim_place_text(const sim_kernel_t *k, uint32_t at, char *out,
                    size_t bytes) {
  const sim_ins_t *ins = &k->code[at < k->code_count ? at : 0];
  const char *file = ptx_file_name(k->module, ins->loc);
  td_buf_t buf;
  td_buf_init_fixed(&buf, out, bytes);
  td_buf_printf(&buf, "%.*s, ", TD_STR_ARG(k->names.data[ins->name]));
  if (*file)
    td_buf_printf(&buf, "%s:%u", file, k->module->locs.data[ins->loc].line);
  else
    td_buf_printf(&buf, "PTX line %u", ins->line);
}

bool sim_find(sim_warp_t *w, const sim_ins_t *ins, sim_check_t id,
              unsigned lane, ptx_space_t space, uint64_t address,
              uint32_t bytes, const char *format, ...) {
  sim_launch_t *launch = w->worker->launch;
  const sim_kernel_t *k = launch->kernel;
  const sim_check_row_t *row = sim_check_row(id);
  const sim_options_t *options = launch->options;
  if (row->family && !(options->checks & row->family)) return true;
  sim_finding_t f = {.id = id, .launch = launch->number,
                     .line = ins->line, .warp = w->id, .lane = lane,
                     .address = address, .bytes = bytes,
                     .cta_linear = w->cta->linear};
  td_buf_t buf;
  va_list args;
  put(f.kernel, sizeof f.kernel, "%s", k->name);
  put(f.op, sizeof f.op, "%.*s", TD_STR_ARG(k->names.data[ins->name]));
  put(f.space, sizeof f.space, "%s", space_name(space));
  const char *file = ptx_file_name(k->module, ins->loc);
  if (*file)
    put(f.place, sizeof f.place, "%s:%u", file,
        k->module->locs.data[ins->loc].line);
  memcpy(f.cta, w->cta->index, sizeof f.cta);
  if (lane < 32) {
    uint32_t thread = w->id * 32u + lane;
    f.thread[0] = thread % launch->block[0];
    f.thread[1] = thread / launch->block[0] % launch->block[1];
    f.thread[2] = thread / launch->block[0] / launch->block[1];
  }
  td_buf_init_fixed(&buf, f.text, sizeof f.text);
  va_start(args, format);
  td_buf_vprintf(&buf, format, args);
  va_end(args);
  sim_report_add(launch->report, &f);
  if (row->code == 0) return true; /* a note */
  bool go_on = options->is_warning && id != SIM_CHECK_TRAP &&
               id != SIM_CHECK_HANG && id != SIM_CHECK_BUDGET &&
               id != SIM_CHECK_HANG_GRID &&
               id != SIM_CHECK_ILLEGAL;
  if (go_on) return true;
  td_mutex_lock(&launch->mutex);
  if (launch->result == 0) launch->result = row->code;
  td_mutex_unlock(&launch->mutex);
  __atomic_store_n(&launch->stop, 1, __ATOMIC_RELEASE);
  w->ip = NULL;
  return false;
}

void sim_finding_text(td_buf_t *out, const sim_finding_t *f,
                      const sim_options_t *options) {
  td_buf_printf(out, "simgpu: %s", sim_check_row(f->id)->text);
  if (f->kernel[0]) td_buf_printf(out, "  kernel %s", f->kernel);
  if (f->place[0]) td_buf_printf(out, "  %s", f->place);
  td_buf_putc(out, '\n');
  if (f->op[0]) {
    td_buf_printf(out, "  %s", f->op);
    if (f->bytes) td_buf_printf(out, "  %u B", f->bytes);
    if (f->space[0])
      td_buf_printf(out, "  %s+0x%llx", f->space,
                    (unsigned long long)f->address);
    if (f->launch) /* not of a call of the host */
      td_buf_printf(out, "  block (%u,%u,%u) warp %u", f->cta[0], f->cta[1],
                    f->cta[2], f->warp);
    if (f->lane < 32)
      td_buf_printf(out, " lane %u thread (%u,%u,%u)", f->lane, f->thread[0],
                    f->thread[1], f->thread[2]);
    td_buf_putc(out, '\n');
  }
  td_buf_printf(out, "  %s\n  seed %llu  mode ", f->text,
                (unsigned long long)options->seed);
  sim_options_mode(out, options);
  td_buf_printf(out, "  seen %llu times", (unsigned long long)f->count);
  if (f->line) td_buf_printf(out, "  PTX line %u", f->line);
  td_buf_putc(out, '\n');
}

void sim_finding_json(td_buf_t *out, const sim_finding_t *f,
                      const sim_options_t *options) {
  td_buf_puts(out, "{\"kind\":\"finding\",\"id\":");
  td_buf_json(out, td_str(sim_check_row(f->id)->text));
  td_buf_puts(out, ",\"kernel\":");
  td_buf_json(out, td_str(f->kernel));
  td_buf_puts(out, ",\"place\":");
  td_buf_json(out, td_str(f->place));
  td_buf_puts(out, ",\"instruction\":");
  td_buf_json(out, td_str(f->op));
  td_buf_printf(out,
                ",\"ptx_line\":%u,\"launch\":%llu,\"block\":[%u,%u,%u],"
                "\"warp\":%u,\"lane\":%u,\"thread\":[%u,%u,%u],\"space\":",
                f->line, (unsigned long long)f->launch, f->cta[0], f->cta[1],
                f->cta[2], f->warp, f->lane, f->thread[0], f->thread[1],
                f->thread[2]);
  td_buf_json(out, td_str(f->space));
  td_buf_printf(out, ",\"address\":\"0x%llx\",\"bytes\":%u,\"text\":",
                (unsigned long long)f->address, f->bytes);
  td_buf_json(out, td_str(f->text));
  td_buf_printf(out, ",\"count\":%llu,\"seed\":%llu,\"mode\":\"",
                (unsigned long long)f->count,
                (unsigned long long)options->seed);
  sim_options_mode(out, options);
  td_buf_puts(out, "\"}\n");
}
