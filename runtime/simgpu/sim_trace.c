/* The record of calls of the driver's and the collective library's interface:
   name, arguments by value (pointers as numbers) and result, in the order in
   which the calls took the driver's lock. Calls of simgpu_* are not in it. */
#include "runtime/simgpu/sim_cuda.h"

#include <stdlib.h>

#define MAX_CALLS 65536u /* beyond, the older half is forgotten */

sim_thread_t *sim_thread(void) {
  sim_state_t *s = sim_state();
  sim_thread_t *t = pthread_getspecific(s->key);
  if (t) return t;
  t = calloc(1, sizeof *t);
  if (t && pthread_setspecific(s->key, t)) {
    free(t);
    return NULL;
  }
  return t;
}

void sim_thread_free(void *thread) {
  sim_thread_t *t = thread;
  if (!t) return;
  sim_group_free(t->group);
  free(t->streams);
  free(t);
}

void sim_thread_ended(void *thread) {
  const sim_thread_t *t = thread;
  pthread_mutex_lock(&sim_state()->mutex);
  for (uint32_t i = 0; t && i < t->stream_count; i++) {
    sim_stream_t *s = sim_handle_number(SIM_TYPE_STREAM, t->streams[i]);
    if (!s) continue;
    sim_lane_close(s->lane);
    sim_stream_free(s);
  }
  pthread_mutex_unlock(&sim_state()->mutex);
  sim_thread_free(thread);
}

void sim_trace_args(const uint64_t *list, size_t count) {
  sim_state_t *s = sim_state();
  if (!__atomic_load_n(&s->has_key, __ATOMIC_ACQUIRE)) {
    pthread_mutex_lock(&s->mutex);
    sim_first_time();
    pthread_mutex_unlock(&s->mutex);
    if (!s->has_key) return;
  }
  sim_thread_t *t = sim_thread();
  if (!t) return;
  memcpy(t->args, list, count * sizeof *list);
  t->arg_count = (uint32_t)count;
}

/* Room for one more; false without memory. */
static bool reserve(sim_state_t *s) {
  if (s->trace_count < s->trace_capacity) return true;
  if (s->trace_capacity >= MAX_CALLS) {
    size_t half = s->trace_count / 2;
    memmove(s->trace, s->trace + half,
            (s->trace_count - half) * sizeof *s->trace);
    s->trace_count -= half;
    s->trace_dropped += half;
    return true;
  }
  size_t capacity = s->trace_capacity ? s->trace_capacity * 2 : 256;
  sim_traced_t *trace = realloc(s->trace, capacity * sizeof *trace);
  if (!trace) return false;
  s->trace = trace;
  s->trace_capacity = capacity;
  return true;
}

void sim_trace_begin(const char *name) {
  sim_state_t *s = sim_state();
  sim_thread_t *t = s->has_key ? sim_thread() : NULL;
  if (!t) return;
  t->call = 0;
  if (strncmp(name, "simgpu_", 7) != 0 && reserve(s)) {
    sim_traced_t *c = &s->trace[s->trace_count++];
    memset(c, 0, sizeof *c);
    if (!t->number) t->number = ++s->threads;
    c->name = name;
    c->thread = t->number;
    c->arg_count = t->arg_count;
    memcpy(c->args, t->args, t->arg_count * sizeof *c->args);
    t->call = s->trace_dropped + s->trace_count;
  }
  t->arg_count = 0;
}

void sim_trace_end(int result) {
  sim_state_t *s = sim_state();
  sim_thread_t *t = s->has_key ? pthread_getspecific(s->key) : NULL;
  if (!t || t->call <= s->trace_dropped) return;
  sim_traced_t *c = &s->trace[t->call - s->trace_dropped - 1];
  c->result = result;
  c->is_done = true;
  t->call = 0;
}

void sim_trace_free(sim_state_t *s) {
  free(s->trace);
  s->trace = NULL;
  s->trace_count = s->trace_capacity = 0;
  s->trace_dropped = 0;
}

SIM_EXPORT size_t simgpu_trace_count(void) {
  if (sim_enter("simgpu_trace_count", false)) return 0;
  size_t n = sim_state()->trace_count;
  sim_leave(0);
  return n;
}

/* {"call":3,"thread":1,"name":"cuMemAlloc_v2","args":[...],"result":0}; a call
   that another thread has not left yet has no result. */
SIM_EXPORT size_t simgpu_trace_get(size_t index, char *out, size_t bytes) {
  if (sim_enter("simgpu_trace_get", false)) return 0;
  const sim_state_t *s = sim_state();
  char storage[1024];
  td_buf_t buf;
  size_t n = 0;
  td_buf_init_fixed(&buf, storage, sizeof storage);
  if (index < s->trace_count) {
    const sim_traced_t *c = &s->trace[index];
    td_buf_printf(&buf,
                  "{\"call\":%llu,\"thread\":%u,\"name\":\"%s\","
                  "\"args\":[",
                  (unsigned long long)(s->trace_dropped + index + 1),
                  c->thread, c->name);
    for (uint32_t i = 0; i < c->arg_count; i++)
      td_buf_printf(&buf, "%s%llu", i ? "," : "",
                    (unsigned long long)c->args[i]);
    td_buf_puts(&buf, "]");
    if (c->is_done) td_buf_printf(&buf, ",\"result\":%d", c->result);
    td_buf_puts(&buf, "}\n");
    n = sim_give_text(&buf, out, bytes);
  }
  sim_leave(0);
  return n;
}
