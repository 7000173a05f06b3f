/* exec_memory.c: see exec_state.h. Arguments get addresses on the device,
 * intermediates their place in the arena that the plan has laid out; memory
 * grows and never shrinks. */
#include "runtime/hal/exec_state.h"

#include "runtime/base/num.h"

enum { LINE = 64, CELL = PLAN_CELL_BYTES };

static void grow(hal_exec_t *x, td_task_t *task, hal_block_t *block,
                 size_t bytes, const char *what) {
  if (block->data != NULL && block->bytes >= bytes) return;
  const hal_vtable_t *v = x->device->vtable;
  if (block->data != NULL) v->free(x->device, block->data);
  x->has_kept = false; /* another block may come to lie where it was */
  block->bytes = 0;
  block->data = v->alloc(x->device, bytes == 0 ? LINE : bytes);
  if (block->data == NULL) {
    td_raise(task, TDSL_STATUS_OUT_OF_MEMORY, "no memory on %s for %s: %zu "
             "bytes", v->name, what, bytes);
  }
  block->bytes = bytes;
}

/* An evaluated size or offset; the verifier has seen that it is one. */
static size_t size_of(hal_exec_t *x, td_task_t *task, const plan_expr_t *e,
                      const char *what) {
  plan_env_t env = {x->binding.vars, NULL};
  int64_t n = 0;
  if (!plan_eval(e, &env, &n) || n < 0) {
    td_raise(task, TDSL_STATUS_LIMIT, "the size of %s leaves 64 bits", what);
  }
  return (size_t)n;
}

/* Host to device and back; one copy where they share memory. */
static bool upload(hal_exec_t *x, td_task_t *task, void *to, const void *from,
                   size_t bytes) {
  const hal_vtable_t *v = x->device->vtable;
  x->stats.upload_bytes += bytes;
  return (v->shares_host_memory ? v->copy : v->upload)(x->device, task, to,
                                                       from, bytes);
}

bool hal_exec_download(hal_exec_t *x, td_task_t *task, void *to,
                       const void *from, size_t bytes) {
  const hal_vtable_t *v = x->device->vtable;
  x->stats.download_bytes += bytes;
  return (v->shares_host_memory ? v->copy : v->download)(x->device, task, to,
                                                         from, bytes);
}

/* Rank-0 slots given by value get a cell; outputs left out get memory, as all
 * tensors do on a device that has its own. */
static bool place_slots(hal_exec_t *x, td_task_t *task, bool poison) {
  const hal_vtable_t *v = x->device->vtable;
  grow(x, task, &x->cells, (size_t)x->entry->slot_count * CELL + LINE,
       "scalars");
  for (uint32_t s = 0; s < x->entry->slot_count; s++) {
    const plan_slot_t *slot = &x->entry->slots[s];
    hal_arg_t *a = &x->binding.args[s];
    size_t bytes = x->binding.bytes[s];
    if (a->is_value) {
      uint64_t bits[2] = {0};
      if (a->number.is_real) {
        td_store_f64(slot->dtype, bits, a->number.r);
      } else {
        td_store_i64(slot->dtype, bits, a->number.i);
      }
      a->data = (char *)x->cells.data + (size_t)s * CELL;
      if (!upload(x, task, a->data, bits, sizeof bits)) return false;
    } else if (!a->is_set) {
      grow(x, task, &x->outputs[s], bytes, slot->name);
      a->data = x->outputs[s].data;
      if (poison && !v->fill(x->device, task, a->data, 0xFF, bytes)) {
        return false;
      }
    } else if (a->device_data != NULL) {
      x->slot_places[s] = a->device_data;
      continue;
    } else if (!v->shares_host_memory) {
      grow(x, task, &x->outputs[s], bytes, slot->name);
      x->slot_places[s] = x->outputs[s].data;
      if (slot->kind != PLAN_OUT && bytes > 0 &&
          !upload(x, task, x->slot_places[s], a->data, bytes)) {
        return false;
      }
      continue;
    }
    /* an empty tensor may have no memory, and a kernel wants an address */
    if (a->data == NULL) a->data = x->cells.data;
    x->slot_places[s] = a->data;
  }
  return true;
}

bool hal_exec_fetch(hal_exec_t *x, td_task_t *task) {
  if (x->device->vtable->shares_host_memory) return true;
  for (uint32_t s = 0; s < x->entry->slot_count; s++) {
    const hal_arg_t *a = &x->binding.args[s];
    if (x->entry->slots[s].kind == PLAN_IN || a->is_value ||
        a->data == x->slot_places[s] || a->device_data != NULL ||
        x->binding.bytes[s] == 0) {
      continue;
    }
    if (!hal_exec_download(x, task, a->data, x->slot_places[s],
                  x->binding.bytes[s])) {
      return false;
    }
  }
  return true;
}

_Noreturn void hal_exec_misfit(td_task_t *task, const char *name) {
  td_raise(task, TDSL_STATUS_INTERNAL,
           "the memory plan does not hold for %s at these dims", name);
}

static bool place_buffers(hal_exec_t *x, td_task_t *task, bool poison) {
  const plan_entry_t *e = x->entry;
  const hal_vtable_t *v = x->device->vtable;
  size_t planned = size_of(x, task, &e->arena_bytes, "the arena");
  uint32_t regions = 0;
  if (!x->is_separate) grow(x, task, &x->arena, planned, "intermediates");
  if (poison && planned > 0 && !x->is_separate &&
      !v->fill(x->device, task, x->arena.data, 0xFF, planned)) {
    return false;
  }
  x->stats.planned_bytes = planned;
  for (uint32_t i = 0; i < e->buffer_count; i++) {
    const plan_buffer_t *b = &e->buffers[i];
    x->sizes[i] = size_of(x, task, &b->bytes, b->name);
    x->ends[i] = 0;
    if (b->place == PLAN_AT_SLOT) {
      if (x->sizes[i] != x->binding.bytes[b->slot]) {
        hal_exec_misfit(task, b->name);
      }
      x->places[i] = x->slot_places[b->slot];
      continue;
    }
    size_t offset = size_of(x, task, &b->offset, b->name), end, lines;
    if (!td_add_size(offset, x->sizes[i], &end) ||
        !td_add_size(end, LINE - 1, &lines) || end > planned) {
      hal_exec_misfit(task, b->name);
    }
    x->ends[i] = lines / LINE * LINE;
    if (x->is_separate) {
      x->regions[regions++] =
          (hal_region_t){.offset = offset, .end = end, .buffer = i,
                         .first = b->first_step, .last = b->last_step};
    } else {
      x->places[i] = (char *)x->arena.data + offset;
    }
  }
  if (x->is_separate) hal_exec_divide(x, regions);
  return true;
}

static void count_memory(hal_exec_t *x) {
  uint64_t sum = x->arena.bytes + x->cells.bytes;
  for (uint32_t s = 0; s < x->entry->slot_count; s++) {
    sum += x->outputs[s].bytes;
  }
  x->stats.device_bytes = sum;
}

static void tell_slots(hal_exec_t *x) {
  const hal_vtable_t *v = x->device->vtable;
  for (uint32_t s = 0; v->tell != NULL && s < x->entry->slot_count; s++) {
    v->tell(x->device, &x->entry->slots[s], x->binding.vars,
            x->slot_places[s], x->binding.bytes[s]);
  }
}

bool hal_exec_place(hal_exec_t *x, td_task_t *task, bool poison) {
  if (!place_slots(x, task, poison)) return false;
  tell_slots(x);
  if (!place_buffers(x, task, poison)) return false;
  count_memory(x);
  return true;
}

/* ---- what is made once --------------------------------------------------- */

bool hal_exec_is_kept(const hal_exec_t *x) {
  const plan_entry_t *e = x->entry;
  bool has_any = false;
  if (!x->has_kept) return false;
  for (uint32_t i = 0; i < e->step_count; i++) {
    const plan_step_t *s = &e->steps[i];
    if (!s->is_once) continue;
    has_any = true;
    for (uint32_t k = 0; k < s->buffer_count; k++) {
      uint32_t b = s->buffers[k];
      if (x->kept_places[b] != x->places[b]) return false;
      if (e->buffers[b].place != PLAN_AT_SLOT) continue;
      uint64_t now = x->binding.args[e->buffers[b].slot].constant;
      if (now == 0 || now != x->kept_constants[e->buffers[b].slot]) {
        return false;
      }
    }
  }
  return has_any;
}

void hal_exec_keep(hal_exec_t *x) {
  const plan_entry_t *e = x->entry;
  for (uint32_t s = 0; s < e->slot_count; s++) {
    x->kept_constants[s] = x->binding.args[s].constant;
  }
  memcpy(x->kept_places, x->places, e->buffer_count * sizeof *x->places);
}
