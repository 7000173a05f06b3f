/* exec_separate.c: see exec_state.h. TDSL_PLAN_ALLOC=separate: a buffer has
 * memory of its own from the step that first writes it to the one that last
 * uses it, so that whatever judges memory (the simulated GPU, a sanitizer)
 * sees bounds, life and first writes of each tensor, not of the arena.
 * Buffers that overlap in the plan, because they must or because the program
 * was compiled to share, stay together. */
#include "runtime/hal/exec_state.h"

#include <stdlib.h>

enum { LEAST = 64 };

static int by_offset(const void *a, const void *b) {
  const hal_region_t *x = a, *y = b;
  if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
  if (x->end != y->end) return x->end < y->end ? -1 : 1;
  return x->buffer < y->buffer ? -1 : x->buffer > y->buffer;
}

void hal_exec_divide(hal_exec_t *x, uint32_t count) {
  uint32_t out = 0;
  qsort(x->regions, count, sizeof *x->regions, by_offset);
  for (uint32_t i = 0; i < count; i++) {
    const hal_region_t r = x->regions[i];
    hal_region_t *last = out > 0 ? &x->regions[out - 1] : NULL;
    if (last == NULL || r.offset >= last->end) {
      x->regions[out++] = r;
    } else {
      if (r.end > last->end) last->end = r.end;
      if (r.first < last->first) last->first = r.first;
      if (r.last > last->last) last->last = r.last;
    }
    x->buffer_regions[r.buffer] = out - 1;
    x->buffer_offsets[r.buffer] = r.offset - x->regions[out - 1].offset;
    x->places[r.buffer] = NULL;
  }
  x->region_count = out;
}

/* Addresses of the buffers in the region, or none. */
static void set_places(hal_exec_t *x, uint32_t region) {
  const plan_entry_t *e = x->entry;
  char *data = x->regions[region].data;
  for (uint32_t i = 0; i < e->buffer_count; i++) {
    if (e->buffers[i].place != PLAN_AT_ARENA ||
        x->buffer_regions[i] != region) {
      continue;
    }
    x->places[i] = data == NULL ? NULL : data + x->buffer_offsets[i];
  }
}

static void release(hal_exec_t *x, uint32_t region) {
  const hal_vtable_t *v = x->device->vtable;
  hal_region_t *r = &x->regions[region];
  (v->free_queued != NULL ? v->free_queued : v->free)(x->device, r->data);
  r->data = NULL;
  set_places(x, region);
}

bool hal_exec_begin_step(hal_exec_t *x, td_task_t *task, uint32_t step) {
  const hal_vtable_t *v = x->device->vtable;
  for (uint32_t i = 0; i < x->region_count; i++) {
    hal_region_t *r = &x->regions[i];
    if (r->data != NULL || r->first > step || r->last < step) continue;
    size_t bytes = r->end - r->offset;
    r->data = (v->alloc_queued != NULL ? v->alloc_queued : v->alloc)(
        x->device, bytes == 0 ? LEAST : bytes);
    if (r->data == NULL) {
      td_raise(task, TDSL_STATUS_OUT_OF_MEMORY,
               "no memory on %s for %s: %zu bytes", v->name,
               x->entry->buffers[r->buffer].name, bytes);
    }
    set_places(x, i);
    if (x->poisons && bytes > 0 &&
        !v->fill(x->device, task, r->data, 0xFF, bytes)) {
      return false;
    }
  }
  return true;
}

void hal_exec_end_step(hal_exec_t *x, uint32_t next) {
  for (uint32_t i = 0; i < x->region_count; i++) {
    if (x->regions[i].data != NULL && x->regions[i].last < next) {
      release(x, i);
    }
  }
}

void hal_exec_drop_regions(hal_exec_t *x) {
  hal_exec_end_step(x, UINT32_MAX);
  x->region_count = 0;
}
