/* Exported simgpu_totals_get: what belongs to no launch. Bytes that devices
   hold, and bytes that were copied, by direction and by link. And
   simgpu_allocations_get: a launch's bytes by allocation. */
#include "runtime/simgpu/sim_cuda.h"

#include <stdlib.h>

void sim_count_copy(const sim_alloc_t *from, const sim_alloc_t *to,
                    uint64_t bytes) {
  sim_state_t *s = sim_state();
  if (!from && !to) return;
  sim_way_t kind = !from                      ? SIM_COPY_H2D
                         : !to                      ? SIM_COPY_D2H
                         : from->device == to->device ? SIM_COPY_D2D
                                                      : SIM_COPY_P2P;
  s->copied[kind] += bytes;
  if (kind == SIM_COPY_P2P) s->links[from->device][to->device] += bytes;
}

static void links_json(td_buf_t *buf, const char *name,
                       const uint64_t links[SIM_MAX_DEVICES]
                                           [SIM_MAX_DEVICES]) {
  bool is_first = true;
  td_buf_printf(buf, ",\"%s\":[", name);
  for (unsigned i = 0; i < SIM_MAX_DEVICES; i++) {
    for (unsigned k = 0; k < SIM_MAX_DEVICES; k++) {
      if (!links[i][k]) continue;
      td_buf_printf(buf, "%s{\"from\":%u,\"to\":%u,\"bytes\":%llu}",
                    is_first ? "" : ",", i, k,
                    (unsigned long long)links[i][k]);
      is_first = false;
    }
  }
  td_buf_puts(buf, "]");
}

SIM_EXPORT size_t simgpu_totals_get(char *out, size_t bytes) {
  if (sim_enter("simgpu_totals_get", false)) return 0;
  static const char *const kinds[] = {"copy.h2d", "copy.d2h", "copy.d2d",
                                      "copy.p2p"};
  const sim_state_t *s = sim_state();
  char storage[32768];
  td_buf_t buf;
  td_buf_init_fixed(&buf, storage, sizeof storage);
  td_buf_puts(&buf, "{\"kind\":\"totals\",\"devices\":[");
  for (uint32_t i = 0; i < s->device_count; i++)
    td_buf_printf(&buf,
                  "%s{\"device\":%u,\"device.live\":%llu,"
                  "\"device.peak\":%llu,\"device.cached\":%llu}",
                  i ? "," : "", i, (unsigned long long)s->live_bytes[i],
                  (unsigned long long)s->peak_bytes[i],
                  (unsigned long long)s->cached_bytes[i]);
  td_buf_puts(&buf, "]");
  for (unsigned i = 0; i < SIM_COPY_KINDS; i++)
    td_buf_printf(&buf, ",\"%s\":%llu", kinds[i],
                  (unsigned long long)s->copied[i]);
  links_json(&buf, "links", s->links);
  links_json(&buf, "coll.links", s->coll_links);
  sim_coll_json(&buf);
  td_buf_puts(&buf, "}\n");
  size_t n = sim_give_text(&buf, out, bytes);
  sim_leave(0);
  return n;
}

char *sim_allocations_text(sim_memory_t *m) {
  enum { ROW = 192 }; /* five numbers of up to 20 digits, and names */
  size_t n = 0;
  for (size_t i = 0; i < m->count; i++)
    n += m->list[i]->unique[0] || m->list[i]->unique[1];
  char *text = n ? malloc(n * ROW + 4) : NULL;
  td_buf_t buf;
  if (text) {
    td_buf_init_fixed(&buf, text, n * ROW + 4);
    td_buf_puts(&buf, "[");
  }
  bool is_first = true;
  for (size_t i = 0; i < m->count; i++) {
    sim_alloc_t *a = m->list[i];
    if (!a->unique[0] && !a->unique[1]) continue;
    if (text)
      td_buf_printf(&buf,
                    "%s{\"allocation\":%u,\"address\":%llu,\"bytes\":%llu,"
                    "\"unique_read\":%llu,\"unique_written\":%llu}",
                    is_first ? "" : ",", a->id,
                    (unsigned long long)a->address,
                    (unsigned long long)a->bytes,
                    (unsigned long long)a->unique[0],
                    (unsigned long long)a->unique[1]);
    is_first = false;
    a->unique[0] = a->unique[1] = 0;
  }
  if (text) td_buf_puts(&buf, "]\n");
  return text;
}

/* A JSON list of the launch's allocations; 0 if it touched none, or if
   sectors were not counted. */
SIM_EXPORT size_t simgpu_allocations_get(size_t index, char *out,
                                         size_t bytes) {
  if (sim_enter("simgpu_allocations_get", false)) return 0;
  const sim_state_t *s = sim_state();
  char *text = index < s->record_count ? s->records[index].allocations : NULL;
  size_t n = 0;
  if (text) {
    td_buf_t buf = {text, strlen(text), strlen(text) + 1, NULL};
    n = sim_give_text(&buf, out, bytes);
  }
  sim_leave(0);
  return n;
}
