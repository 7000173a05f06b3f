/* kir_interp_async.c: what orders the warps of a block in the interpreter:
 * barriers, and copies that come later.
 *
 * Each warp counts the barriers that it has passed, and knows up to which of
 * the others' counts it has met them.  What somebody did at a count is seen by
 * those who have met it. */
#include "ir/kir_interp.h"

/* ---- barriers -------------------------------------------------------------*/

static bool has_met(const kir_machine_t *m, int16_t other, uint32_t time) {
  return m->met[m->warp][other] >= time;
}

static bool fault(kir_machine_t *m, const kir_access_t *a) {
  kir_report(m, a, "two warps without a barrier between them at an element", 0,
             UINT32_MAX);
  return false;
}

bool kir_meet(kir_machine_t *m, const kir_access_t *a, int64_t offset,
              bool is_load, bool is_async) {
  kir_meeting_t *e = &a->memory->meetings[offset];
  uint32_t *reads = a->memory->reads + offset * KIR_WARPS;
  bool is_other = e->writer != m->warp || e->is_async || is_async;
  if (e->time > 0 && is_other && !has_met(m, e->writer, e->time)) {
    return fault(m, a);
  }
  if (is_load) {
    reads[m->warp] = m->time[m->warp];
    return true;
  }
  for (int16_t w = 0; w < (int16_t)m->warps; w++) {
    is_other = w != m->warp || is_async;
    if (reads[w] > 0 && is_other && !has_met(m, w, reads[w])) {
      return fault(m, a);
    }
  }
  *e = (kir_meeting_t){m->time[m->warp], m->warp, is_async};
  return true;
}

static void meet(kir_machine_t *m, uint32_t lo, uint32_t hi) {
  uint32_t all[KIR_WARPS] = {0};
  for (uint32_t w = lo; w < hi; w++) {
    m->met[w][w] = m->time[w]++;
    for (uint32_t u = 0; u < m->warps; u++) {
      if (m->met[w][u] > all[u]) all[u] = m->met[w][u];
    }
  }
  for (uint32_t w = lo; w < hi; w++) {
    memcpy(m->met[w], all, m->warps * sizeof *all);
  }
}

void kir_run_barrier(kir_machine_t *m, const kir_step_t *s) {
  meet(m, (uint32_t)s->number, s->n);
}

void kir_begin_block(kir_machine_t *m) {
  for (uint32_t w = 0; w < m->warps; w++) {
    if (m->time[w] == 0) m->time[w] = 1;
  }
  meet(m, 0, m->warps);
}

/* ---- copies on their way --------------------------------------------------*/

/* Elements are taken when the copy starts, or as late as may be in a run that
 * goes backwards: nobody may tell. */
static void take(const kir_memory_t *from, int64_t offset, uint32_t elements,
                 unsigned char *out) {
  memcpy(out, from->data + (size_t)offset * from->bytes,
         elements * from->bytes);
}

/* All n neighbours lie in one row, from a multiple of n on. */
static bool is_whole(kir_machine_t *m, const kir_access_t *a, int64_t offset,
                     uint32_t n) {
  int64_t row = a->memory->dims[a->count - 1];
  if (!m->checks || (offset % n == 0 && offset % row + n <= row)) return true;
  kir_report(m, a, "a copy from or to a place that is no multiple of it", 0,
             UINT32_MAX);
  return false;
}

static void start_one(kir_machine_t *m, const kir_step_t *s, uint32_t lane) {
  const kir_memory_t *to = s->access->memory, *from = s->from->memory;
  uint32_t n = (uint32_t)s->number;
  kir_coming_t c = {.to = s->access, .group = m->groups, .elements = n,
                    .warp = m->warp};
  c.to_offset = kir_offset(m, s->access, lane, false);
  if (c.to_offset < 0 || !is_whole(m, s->access, c.to_offset, n)) return;
  const uint8_t *is_there = s->b;
  if (is_there == NULL || is_there[lane]) {
    c.from = from;
    c.from_offset = kir_offset(m, s->from, lane, true);
    if (c.from_offset < 0 || !is_whole(m, s->from, c.from_offset, n)) return;
    if (!m->reversed) take(from, c.from_offset, n, c.bytes);
  }
  for (uint32_t i = 0; i < n && to->defined != NULL; i++) {
    int64_t at = c.to_offset + i;
    if (to->defined[at] == KIR_COMING) {
      kir_report(m, s->access, "a copy is on its way to an element", 0,
                 UINT32_MAX);
      return;
    }
    if (!kir_meet(m, s->access, at, false, true)) return;
    to->defined[at] = KIR_COMING;
  }
  td_vec_push(m->arena, &m->coming, c);
}

void kir_run_async(kir_machine_t *m, const kir_step_t *s) {
  for (uint32_t l = 0; l < s->n && !m->failed; l++) {
    if (s->mask == NULL || s->mask[l]) start_one(m, s, l);
  }
}

void kir_run_commit(kir_machine_t *m, const kir_step_t *s) {
  (void)s;
  m->groups++;
}

static void land(kir_machine_t *m, kir_coming_t *c) {
  const kir_memory_t *to = c->to->memory;
  if (m->reversed && c->from != NULL) {
    take(c->from, c->from_offset, c->elements, c->bytes);
  }
  memcpy(to->data + (size_t)c->to_offset * to->bytes, c->bytes,
         c->elements * to->bytes);
  if (to->defined == NULL) return;
  memset(to->defined + c->to_offset, KIR_DEFINED, c->elements);
  for (uint32_t i = 0; i < c->elements; i++) {
    to->meetings[c->to_offset + i] =
        (kir_meeting_t){m->time[c->warp], c->warp, true};
  }
}

void kir_run_wait(kir_machine_t *m, const kir_step_t *s) {
  size_t kept = 0;
  for (size_t i = 0; i < m->coming.length; i++) {
    kir_coming_t *c = &m->coming.data[i];
    if (c->group + s->number < m->groups) {
      land(m, c);
    } else {
      m->coming.data[kept++] = *c;
    }
  }
  m->coming.length = kept;
}

void kir_end_block(kir_machine_t *m) {
  if (m->coming.length > 0 && m->checks) {
    kir_report(m, m->coming.data[0].to,
               "nobody waits for the copy to an element", 0, UINT32_MAX);
  }
  m->coming.length = 0;
}
