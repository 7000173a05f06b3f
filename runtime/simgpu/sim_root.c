#include "runtime/simgpu/sim_root.h"

#include <stdio.h>
#include <stdlib.h>

sim_state_t *sim_state(void) {
  static sim_state_t root = {.mutex = PTHREAD_MUTEX_INITIALIZER,
                             .report.mutex = PTHREAD_MUTEX_INITIALIZER};
  return &root;
}

/* Before the first call: options from the environment, one h100. */
void sim_first_time(void) {
  sim_state_t *s = sim_state();
  if (!s->has_key && pthread_key_create(&s->key, sim_thread_ended) == 0)
    __atomic_store_n(&s->has_key, true, __ATOMIC_RELEASE);
  if (s->has_options) return;
  sim_options_read(&s->options);
  s->row = sim_device_at(0);
  s->device_count = 1;
  s->queue.random = s->options.seed;
  s->memory.options = &s->options;
  s->has_options = true;
}

static int inject(sim_state_t *s, const char *name) {
  sim_options_t *o = &s->options;
  if (!o->fail[0] || strcmp(o->fail, name) != 0) return 0;
  return ++s->fail_seen == o->fail_call ? o->fail_code : 0;
}

bool sim_refuse_option(const char *format, ...) {
  sim_state_t *s = sim_state();
  td_buf_t buf;
  va_list args;
  td_buf_init_fixed(&buf, s->problem, sizeof s->problem);
  va_start(args, format);
  td_buf_vprintf(&buf, format, args);
  va_end(args);
  fprintf(stderr, "simgpu: %s\n", s->problem);
  return false;
}

bool sim_options_usable(void) {
  sim_options_t *o = &sim_state()->options;
  if (o->unknown[0])
    return sim_refuse_option("not an option: %s", o->unknown);
  if (o->fail[0] && !sim_call_name(o->fail, sizeof o->fail))
    return sim_refuse_option("no call is named %s", o->fail);
  if (!o->report[0]) return true;
  FILE *f = fopen(o->report, "ab");
  if (!f) return sim_refuse_option("cannot write %s", o->report);
  fclose(f);
  return true;
}

int sim_enter(const char *name, bool needs_init) {
  sim_state_t *s = sim_state();
  pthread_mutex_lock(&s->mutex);
  sim_first_time();
  s->calls++;
  sim_trace_begin(name);
  if (s->queue.in_host && pthread_equal(s->queue.runner, pthread_self()))
    return sim_leave(RCUDA_NOT_PERMITTED); /* inside a host function */
  int code = inject(s, name);
  if (!code && needs_init && !s->is_up) code = RCUDA_NOT_INITIALIZED;
  return code ? sim_leave(code) : 0;
}

int sim_enter_ctx(const char *name, sim_ctx_t **ctx) {
  int code = sim_enter(name, true);
  if (code) return code;
  *ctx = sim_current();
  if (!*ctx) return sim_leave(RCUDA_INVALID_CONTEXT);
  if ((*ctx)->sticky) return sim_leave((*ctx)->sticky);
  return 0;
}

int sim_leave(int result) {
  sim_trace_end(result);
  pthread_mutex_unlock(&sim_state()->mutex);
  return result;
}

/* -- handles: type in bits 44.., generation in 24.., index below; bit 60 is
   set so that no handle looks like a small number or a pointer -- */

uint64_t sim_handle_new(sim_type_t type, void *object) {
  sim_state_t *s = sim_state();
  size_t at = 0;
  while (at < s->slot_count && s->slots[at].object) at++;
  if (at == s->slot_count) {
    if (s->slot_count == s->slot_capacity) {
      size_t capacity = s->slot_capacity ? s->slot_capacity * 2 : 64;
      sim_slot_t *slots = capacity > (1u << 24)
                              ? NULL
                              : realloc(s->slots, capacity * sizeof *slots);
      if (!slots) return 0;
      memset(slots + s->slot_capacity, 0,
             (capacity - s->slot_capacity) * sizeof *slots);
      s->slots = slots;
      s->slot_capacity = capacity;
    }
    s->slot_count++;
  }
  sim_slot_t *slot = &s->slots[at];
  slot->object = object;
  slot->type = (uint8_t)type;
  slot->generation = (slot->generation + 1) & 0xFFFFF;
  return UINT64_C(1) << 60 | (uint64_t)type << 44 |
         (uint64_t)slot->generation << 24 | at;
}

void *sim_handle_number(sim_type_t type, uint64_t handle) {
  sim_state_t *s = sim_state();
  size_t at = handle & 0xFFFFFF;
  if (handle >> 60 != 1 || (handle >> 44 & 0xFFFF) != type ||
      at >= s->slot_count)
    return NULL;
  sim_slot_t *slot = &s->slots[at];
  return slot->type == type && slot->generation == (handle >> 24 & 0xFFFFF)
             ? slot->object
             : NULL;
}

void *sim_handle_get(sim_type_t type, const void *handle) {
  return sim_handle_number(type, (uint64_t)(uintptr_t)handle);
}

void sim_handle_drop(uint64_t handle) {
  sim_state_t *s = sim_state();
  size_t at = handle & 0xFFFFFF;
  if (at < s->slot_count) s->slots[at].object = NULL;
}

/* -- memory of devices -- */

uint64_t sim_device_bytes(void) {
  const sim_state_t *s = sim_state();
  return s->options.memory ? s->options.memory : s->row->memory;
}

sim_alloc_t *sim_device_alloc(sim_ctx_t *ctx, uint64_t bytes,
                              sim_alloc_kind_t kind) {
  sim_state_t *s = sim_state();
  uint64_t *live = &s->live_bytes[ctx->device];
  uint64_t limit = sim_device_bytes();
  uint64_t held = *live + s->cached_bytes[ctx->device];
  if (bytes > limit || held > limit - bytes) return NULL;
  sim_alloc_t *a = sim_alloc_new(&s->memory, ctx->device, bytes, kind, NULL);
  if (!a) return NULL;
  a->context = ctx->handle;
  a->made_by = s->calls;
  *live += bytes;
  if (*live > s->peak_bytes[ctx->device])
    s->peak_bytes[ctx->device] = *live;
  return a;
}

void sim_device_free(sim_alloc_t *a) {
  sim_state_t *s = sim_state();
  if (a->pool && !a->is_returned) sim_pool_give(a, 0, 0);
  if (a->kind != SIM_ALLOC_HOST && !a->is_returned)
    s->live_bytes[a->device] -= a->bytes;
  a->freed_by = s->calls;
  a->is_ending = false;
  sim_alloc_release(&s->memory, a);
}

/* -- reports -- */

static void append(const char *path, td_str_t text) {
  FILE *f = path[0] ? fopen(path, "ab") : stderr;
  if (!f) return;
  fwrite(text.data, 1, text.length, f);
  if (f == stderr)
    fflush(f);
  else
    fclose(f);
}

void sim_flush_report(void) {
  sim_state_t *s = sim_state();
  td_task_t task;
  td_task_init(&task, NULL);
  for (; s->printed < s->report.count; s->printed++) {
    const sim_finding_t *f = &s->report.list[s->printed];
    char storage[2048];
    td_buf_t buf;
    td_buf_init_fixed(&buf, storage, sizeof storage);
    if (s->options.report[0])
      sim_finding_json(&buf, f, &s->options);
    else
      sim_finding_text(&buf, f, &s->options);
    append(s->options.report, td_buf_view(&buf));
  }
  td_task_free(&task);
}

void sim_host_finding(sim_check_t id, const char *call, uint64_t address,
                      uint64_t bytes, const char *format, ...) {
  sim_state_t *s = sim_state();
  const sim_check_row_t *row = sim_check_row(id);
  if (row->family && !(s->options.checks & row->family)) return;
  sim_finding_t f = {.id = id, .address = address,
                     .bytes = (uint32_t)(bytes > UINT32_MAX ? UINT32_MAX
                                                            : bytes),
                     .lane = 32};
  td_buf_t buf;
  va_list args;
  td_buf_init_fixed(&buf, f.op, sizeof f.op);
  td_buf_puts(&buf, call);
  td_buf_init_fixed(&buf, f.space, sizeof f.space);
  td_buf_puts(&buf, "global");
  td_buf_init_fixed(&buf, f.text, sizeof f.text);
  va_start(args, format);
  td_buf_vprintf(&buf, format, args);
  va_end(args);
  /* calls have no line: told apart by their number */
  f.other_line = (uint32_t)s->calls;
  sim_report_add(&s->report, &f);
  if (row->family == SIM_CHECK_ORDER) s->order_findings++;
  sim_flush_report();
}
