/* Exported simgpu_* functions: options in, findings and counters out. Looked
   up by name and never linked; texts are JSON, one object each. */
#include "runtime/simgpu/match.h"
#include "runtime/simgpu/sim_cuda.h"

#include <stdio.h>
#include <stdlib.h>

SIM_EXPORT const char *simgpu_version(void) {
  return "1";
}

static bool set_model(sim_state_t *s, td_str_t value) {
  char key[16] = {0};
  const sim_device_row_t *row = NULL;
  if (value.length < sizeof key) {
    memcpy(key, value.data, value.length);
    row = sim_device_find(key);
  }
  if (!row)
    return sim_refuse_option("no machine is named %.*s", TD_STR_ARG(value));
  if (s->is_up && row != s->row)
    return sim_refuse_option("the machine is %s since cuInit", s->row->key);
  s->row = row;
  return true;
}

static bool set_devices(sim_state_t *s, td_str_t value) {
  uint32_t n = 0;
  for (size_t i = 0; i < value.length && n < 100; i++) {
    if (value.data[i] < '0' || value.data[i] > '9') n = 100;
    else n = n * 10 + (uint32_t)(value.data[i] - '0');
  }
  if (n == 0 || n > SIM_MAX_DEVICES)
    return sim_refuse_option("not a number of devices from 1 to %d: %.*s",
                             SIM_MAX_DEVICES, TD_STR_ARG(value));
  if (s->is_up && n != s->device_count)
    return sim_refuse_option("there are %u devices since cuInit",
                             s->device_count);
  s->device_count = n;
  return true;
}

static bool configure(sim_state_t *s, td_str_t item) {
  if (td_str_starts(item, "model:"))
    return set_model(s, td_str_n(item.data + 6, item.length - 6));
  if (td_str_starts(item, "devices:"))
    return set_devices(s, td_str_n(item.data + 8, item.length - 8));
  if (!sim_options_set(&s->options, item))
    return sim_refuse_option("not an option: %.*s", TD_STR_ARG(item));
  if (td_str_starts(item, "fail:")) s->fail_seen = 0;
  else if (!td_str_starts(item, "report:")) return true;
  return sim_options_usable();
}

/* "model:h100,devices:2,seed:7,..." : items of TDSL_SIM_MODE and the two
   that shape the machine, which must come before cuInit or say what it is. 0,
   or 1 for an item that is not known or comes too late: simgpu_problem then
   says which and why, and the modes stay what they were. */
SIM_EXPORT int simgpu_configure(const char *text) {
  int code = sim_enter("simgpu_configure", false);
  if (code) return code;
  sim_state_t *s = sim_state();
  sim_options_t before = s->options;
  for (const char *p = text ? text : ""; *p;) {
    const char *end = p;
    while (*end && *end != ',') end++;
    if (!configure(s, td_str_n(p, (size_t)(end - p)))) {
      s->options = before;
      return sim_leave(RCUDA_INVALID_VALUE);
    }
    p = *end ? end + 1 : end;
  }
  return sim_leave(0);
}

/* Copies with truncation; the length the whole text has, without its NUL. */
size_t sim_give_text(const td_buf_t *buf, char *out, size_t bytes) {
  size_t length = buf->length;
  if (out && bytes) {
    size_t n = length < bytes - 1 ? length : bytes - 1;
    memcpy(out, buf->data, n);
    out[n] = 0;
  }
  return length;
}

/* Why the last option that could not be had was refused, or "". */
SIM_EXPORT size_t simgpu_problem(size_t index, char *out, size_t bytes) {
  char storage[256];
  td_buf_t buf;
  if (index > 0 || sim_enter("simgpu_problem", false)) return 0;
  td_buf_init_fixed(&buf, storage, sizeof storage);
  td_buf_puts(&buf, sim_state()->problem);
  size_t n = sim_give_text(&buf, out, bytes);
  sim_leave(0);
  return n;
}

SIM_EXPORT size_t simgpu_report_count(void) {
  if (sim_enter("simgpu_report_count", false)) return 0;
  size_t n = sim_state()->report.count;
  sim_leave(0);
  return n;
}

static size_t give_finding(size_t index, char *out, size_t bytes,
                           bool is_text) {
  if (sim_enter("simgpu_report_get", false)) return 0;
  sim_state_t *s = sim_state();
  char storage[2048];
  td_buf_t buf;
  size_t n = 0;
  td_buf_init_fixed(&buf, storage, sizeof storage);
  if (index < s->report.count) {
    const sim_finding_t *f = &s->report.list[index];
    (is_text ? sim_finding_text : sim_finding_json)(&buf, f, &s->options);
    n = sim_give_text(&buf, out, bytes);
  }
  sim_leave(0);
  return n;
}

SIM_EXPORT size_t simgpu_report_get(size_t index, char *out, size_t bytes) {
  return give_finding(index, out, bytes, false);
}

/* The same for people to read. */
SIM_EXPORT size_t simgpu_report_text(size_t index, char *out, size_t bytes) {
  return give_finding(index, out, bytes, true);
}

/* -- counters -- */

static void print_three(td_buf_t *buf, const char *name,
                        const uint32_t v[3]) {
  td_buf_printf(buf, ",\"%s\":[%u,%u,%u]", name, v[0], v[1], v[2]);
}

static void record_json(td_buf_t *buf, const sim_record_t *r) {
  td_buf_printf(buf, "{\"kind\":\"launch\",\"launch\":%llu,\"kernel\":",
                (unsigned long long)r->number);
  td_buf_json(buf, td_str(r->kernel));
  td_buf_printf(buf, ",\"device\":%u,\"result\":%d", r->device, r->result);
  print_three(buf, "grid", r->grid);
  print_three(buf, "block", r->block);
  print_three(buf, "cluster", r->cluster);
  td_buf_printf(buf,
                ",\"registers%s\":%u,\"shared_static\":%u,"
                "\"shared_dynamic\":%u,\"local\":%u,\"occupancy\":"
                "{\"ctas\":%u,\"warps\":%u,\"limiter\":\"%s\"},"
                "\"device.live\":%llu,\"device.peak\":%llu,\"counters\":{",
                r->is_assembled ? "" : "_est", r->registers,
                r->shared_static, r->shared_dynamic, r->local,
                r->occupancy.ctas, r->occupancy.warps, r->occupancy.limiter,
                (unsigned long long)r->live_bytes,
                (unsigned long long)r->peak_bytes);
  for (unsigned i = 0; i < SIM_COUNTER_COUNT; i++)
    td_buf_printf(buf, "%s\"%s\":%llu", i ? "," : "", sim_counter_name(i),
                  (unsigned long long)r->totals.counters[i]);
  td_buf_puts(buf, "},\"mix\":{");
  bool first = true;
  for (unsigned i = 0; i < SIM_CLASS_COUNT; i++) {
    if (!r->totals.mix[i]) continue;
    td_buf_printf(buf, "%s\"%s\":%llu", first ? "" : ",", sim_class_name(i),
                  (unsigned long long)r->totals.mix[i]);
    first = false;
  }
  td_buf_puts(buf, "}}\n");
}

void sim_write_record(const sim_record_t *r) {
  char storage[4096];
  td_buf_t buf;
  td_buf_init_fixed(&buf, storage, sizeof storage);
  record_json(&buf, r);
  FILE *f = fopen(sim_state()->options.report, "ab");
  if (!f) return;
  fwrite(buf.data, 1, buf.length, f);
  fclose(f);
}

SIM_EXPORT size_t simgpu_counters_count(void) {
  if (sim_enter("simgpu_counters_count", false)) return 0;
  size_t n = sim_state()->record_count;
  sim_leave(0);
  return n;
}

SIM_EXPORT size_t simgpu_counters_get(size_t index, char *out,
                                      size_t bytes) {
  if (sim_enter("simgpu_counters_get", false)) return 0;
  sim_state_t *s = sim_state();
  char storage[4096];
  td_buf_t buf;
  size_t n = 0;
  td_buf_init_fixed(&buf, storage, sizeof storage);
  if (index < s->record_count) {
    record_json(&buf, &s->records[index]);
    n = sim_give_text(&buf, out, bytes);
  }
  sim_leave(0);
  return n;
}

/* -- instruction forms: for the test that wants each one exercised -- */

_Static_assert(SIM_OP_COUNT <= sizeof((sim_state_t *)0)->forms,
               "a mark for each form");

SIM_EXPORT size_t simgpu_forms_count(void) {
  return SIM_OP_COUNT;
}

/* "1 add f32" : whether a kernel loaded so far uses the form, its base, its
   types, and the qualifiers that it needs. */
SIM_EXPORT size_t simgpu_forms_get(size_t index, char *out, size_t bytes) {
  if (sim_enter("simgpu_forms_get", false)) return 0;
  char storage[256];
  td_buf_t buf;
  size_t n = 0;
  const sim_op_t *op = sim_op_at(index);
  td_buf_init_fixed(&buf, storage, sizeof storage);
  if (op) {
    td_buf_printf(&buf, "%d %s (%s) %s", sim_state()->forms[index], op->base,
                  op->types, op->need);
    n = sim_give_text(&buf, out, bytes);
  }
  sim_leave(0);
  return n;
}

/* Forgets findings and counters and numbers launches from 1 again, which
   repeats their schedules; objects and memory stay. */
SIM_EXPORT void simgpu_reset(void) {
  if (sim_enter("simgpu_reset", false)) return;
  sim_state_t *s = sim_state();
  sim_report_clear(&s->report);
  s->printed = 0;
  sim_records_free(s);
  memset(s->copied, 0, sizeof s->copied);
  memset(s->links, 0, sizeof s->links);
  sim_trace_free(s);
  sim_coll_reset();
  s->launches = 0;
  s->queue.random = s->options.seed;
  sim_leave(0);
}
