/* The library goes, or the process ends: everything the root holds is given
   back, nothing runs and nothing is reported. Calls that come later find a
   driver that was never initialised. */
#include "runtime/simgpu/sim_cuda.h"

#include <stdlib.h>

static void drop_contexts(sim_state_t *s) {
  for (size_t i = 0; i < s->slot_count; i++) {
    sim_ctx_t *ctx = s->slots[i].object;
    if (!ctx || s->slots[i].type != SIM_TYPE_CTX) continue;
    sim_queue_drop_ctx(ctx->handle);
    for (size_t n = 0; n < s->slot_count; n++)
      if (s->slots[n].object) sim_drop_object(&s->slots[n], ctx->handle);
    s->slots[i].object = NULL;
    free(ctx);
  }
  for (size_t i = 0; i < s->memory.count; i++) {
    sim_alloc_t *a = s->memory.list[i];
    if (a->is_live && a->kind == SIM_ALLOC_HOST && a->name) free(a->host);
  }
  sim_virtual_free(s);
  sim_pools_free(s);
  sim_memory_free(&s->memory);
}

static void drop_queue(sim_queue_t *q) {
  for (uint32_t i = 0; i < q->lane_count; i++) {
    sim_clock_free(&q->lanes[i]->clock);
    sim_clock_free(&q->lanes[i]->start);
    sim_clock_free(&q->lanes[i]->sure);
    free(q->lanes[i]);
  }
  free(q->lanes);
  sim_clock_free(&q->host);
  for (size_t i = 0; i < q->past_count; i++) sim_order_free(&q->past[i]);
  free(q->past);
  for (size_t i = 0; i < q->edge_count; i++)
    sim_clock_free(&q->edges[i].clock);
  free(q->edges);
  if (q->has_cond) pthread_cond_destroy(&q->idle);
  memset(q, 0, sizeof *q);
}

__attribute__((destructor)) static void sim_unload(void) {
  sim_state_t *s = sim_state();
  sim_remote_stop();
  /* another thread inside a call keeps what it uses */
  if (pthread_mutex_trylock(&s->mutex)) return;
  if (s->queue.is_running) {
    pthread_mutex_unlock(&s->mutex);
    return;
  }
  if (s->has_key) {
    sim_thread_free(pthread_getspecific(s->key));
    pthread_key_delete(s->key);
    s->has_key = false;
  }
  sim_libraries_free(s);
  drop_contexts(s);
  drop_queue(&s->queue);
  sim_comms_free(s);
  free(s->redops);
  free(s->meetings);
  sim_report_clear(&s->report);
  sim_trace_free(s);
  free(s->slots);
  sim_records_free(s);
  sim_registers_free(s);
  s->slots = NULL;
  s->slot_count = s->slot_capacity = 0;
  s->is_up = false;
  pthread_mutex_unlock(&s->mutex);
}
