/* Counts by source line, for launches under lines:on. */
#include "runtime/simgpu/sim_cuda.h"

#include <stdlib.h>

typedef struct place_t {
  const char *file;
  uint32_t line;
  sim_line_t sum;
} place_t;

static int by_place(const void *a, const void *b) {
  const place_t *x = a, *y = b;
  int order = strcmp(x->file, y->file);
  if (order) return order;
  return x->line < y->line ? -1 : x->line > y->line;
}

static void print(td_buf_t *buf, const place_t *p, bool is_first) {
  td_buf_puts(buf, is_first ? "{\"file\":" : ",\n{\"file\":");
  td_buf_json(buf, td_str(p->file));
  td_buf_printf(buf,
                ",\"line\":%u,\"warp_inst\":%llu,\"lane_inst\":%llu,"
                "\"global.sectors\":%llu,\"shared.wavefronts\":%llu}",
                p->line, (unsigned long long)p->sum.warp_inst,
                (unsigned long long)p->sum.lane_inst,
                (unsigned long long)p->sum.sectors,
                (unsigned long long)p->sum.wavefronts);
}

/* Sums up what belongs to one line; the number of lines. */
static size_t merge(const sim_kernel_t *k, const sim_line_t *lines,
                    place_t *out) {
  size_t n = 0, kept = 0;
  for (uint32_t i = 0; i < k->code_count; i++) {
    const sim_ins_t *ins = &k->code[i];
    if (!lines[i].warp_inst) continue;
    out[n++] = (place_t){ptx_file_name(k->module, ins->loc),
                         k->module->locs.data[ins->loc].line, lines[i]};
    /* without a source, PTX has lines too */
    if (!*out[n - 1].file) out[n - 1].line = ins->line;
  }
  qsort(out, n, sizeof *out, by_place);
  for (size_t i = 0; i < n; i++) {
    if (kept && by_place(&out[kept - 1], &out[i]) == 0) {
      sim_line_t *sum = &out[kept - 1].sum;
      sum->warp_inst += out[i].sum.warp_inst;
      sum->lane_inst += out[i].sum.lane_inst;
      sum->sectors += out[i].sum.sectors;
      sum->wavefronts += out[i].sum.wavefronts;
    } else {
      out[kept++] = out[i];
    }
  }
  return kept;
}

char *sim_lines_text(const sim_kernel_t *k, const sim_line_t *lines) {
  place_t *all = malloc((k->code_count + 1u) * sizeof *all);
  if (!all) return NULL;
  size_t count = merge(k, lines, all), bytes = 4;
  for (size_t n = 0; n < count; n++) bytes += 256 + 6 * strlen(all[n].file);
  char *text = malloc(bytes);
  if (text) {
    td_buf_t buf;
    td_buf_init_fixed(&buf, text, bytes);
    td_buf_putc(&buf, '[');
    for (size_t n = 0; n < count; n++) print(&buf, &all[n], n == 0);
    td_buf_puts(&buf, "]");
  }
  free(all);
  return text;
}

void sim_records_free(sim_state_t *s) {
  for (size_t n = 0; n < s->record_count; n++) {
    free(s->records[n].lines);
    free(s->records[n].allocations);
  }
  free(s->records);
  s->records = NULL;
  s->record_count = s->record_capacity = 0;
}

/* A JSON list of the record's lines, by file and line; 0 if they were not
   asked for. Truncates as simgpu_counters_get does. */
SIM_EXPORT size_t simgpu_lines_get(size_t index, char *out, size_t bytes) {
  if (sim_enter("simgpu_lines_get", false)) return 0;
  const sim_state_t *s = sim_state();
  const char *text =
      index < s->record_count ? s->records[index].lines : NULL;
  size_t length = text ? strlen(text) : 0;
  if (text && out && bytes) {
    size_t n = length < bytes - 1 ? length : bytes - 1;
    memcpy(out, text, n);
    out[n] = 0;
  }
  sim_leave(0);
  return length;
}
