/* kir_interp_memory.c: loads, stores and folds of the interpreter.
 *
 * A checked run tests every subscript of every lane that counts against the
 * buffer's dims, and remembers which scratch elements were written since
 * their alloc.  Neighbours are tested and moved together; only where one of
 * them fails are they looked at one by one, for the report. */
#include "ir/kir_interp.h"

#include "runtime/base/num.h"

/* Scratch is one piece for the whole run, zeroed once: emitted code finds
 * what the block before left there, and neither may be relied on. */
kir_memory_t *kir_code_memory(kir_code_t *c, const kir_buffer_t *b,
                              void *data) {
  uint64_t key = (uint64_t)(uintptr_t)b;
  kir_memory_t *m = td_map_get_u64(&c->memories, key);
  if (m != NULL) return m;
  m = TD_NEW(c->arena, kir_memory_t);
  td_map_put_u64(&c->memories, key, m);
  m->buffer = b;
  m->bytes = td_dtype_bytes(b->dtype);
  size_t count = 1, bytes = 0;
  bool fits = true;
  for (uint32_t d = b->rank; d > 0; d--) {
    int64_t n = 0;
    if (!kir_code_dim(c, b->dims[d - 1], &n)) c->failed = true;
    m->dims[d - 1] = n < 0 ? 0 : n;
    m->strides[d - 1] = (int64_t)count;
    fits = fits && td_mul_size(count, (size_t)m->dims[d - 1], &count) &&
           count <= INT64_MAX;
  }
  fits = fits && td_mul_size(count, m->bytes, &bytes);
  if (!fits) {
    td_raise(c->task, TDSL_STATUS_LIMIT, "buffer %s is too large", b->name);
  }
  m->count = (int64_t)count;
  m->data = data;
  if (b->space == KIR_GLOBAL) return m;
  m->data = td_arena_alloc(c->arena, bytes);
  if (c->checks) m->defined = td_arena_alloc(c->arena, count);
  if (c->checks && b->space == KIR_SHARED) {
    m->meetings = TD_NEW_ARRAY(c->arena, kir_meeting_t, count);
    m->reads = TD_NEW_ARRAY(c->arena, uint32_t, count * KIR_WARPS);
  }
  return m;
}

/* What a former block or turn of a loop wrote counts as undefined again. */
void kir_run_alloc(kir_machine_t *m, const kir_step_t *s) {
  kir_memory_t *at = s->access->memory;
  (void)m;
  if (at->defined != NULL) memset(at->defined, 0, (size_t)at->count);
}

/* ---- addresses ------------------------------------------------------------*/

void kir_report(kir_machine_t *m, const kir_access_t *a, const char *what,
                int64_t value, uint32_t dim) {
  const kir_memory_t *at = a->memory;
  if (m->failed) return;
  m->failed = true;
  m->pc = UINT32_MAX;
  td_diag_t *d = td_diag(m->task, TD_R10, a->loc, "%s of %s", what,
                         at->buffer->name);
  if (dim < at->buffer->rank) {
    td_diag_note(d, "subscript %u is %lld, the dim has %lld", dim,
                 (long long)value, (long long)at->dims[dim]);
  }
}

/* One subscript as one lane sees it. */
static int64_t sub_of(const kir_access_t *a, uint32_t d, uint32_t lane) {
  int64_t v = a->subs[d][a->is_wide[d] ? lane : 0];
  return a->is_row && d + 1 == a->count ? v + lane : v;
}

int64_t kir_offset(kir_machine_t *m, const kir_access_t *a, uint32_t lane,
                   bool is_load) {
  const kir_memory_t *at = a->memory;
  int64_t offset = 0;
  for (uint32_t d = 0; d < a->count; d++) {
    int64_t v = sub_of(a, d, lane);
    if (m->checks && (v < 0 || v >= at->dims[d])) {
      kir_report(m, a, is_load ? "load out of range" : "store out of range", v,
             d);
      return -1;
    }
    offset += v * at->strides[d];
  }
  return offset;
}

/* Element of one lane, which is used; -1 after a report. */
static int64_t place(kir_machine_t *m, const kir_access_t *a, uint32_t lane,
                     bool is_load) {
  const kir_memory_t *at = a->memory;
  int64_t offset = kir_offset(m, a, lane, is_load);
  if (at->defined == NULL || offset < 0) return offset;
  if (at->defined[offset] == KIR_COMING) {
    kir_report(m, a, "a copy is on its way to an element", 0, UINT32_MAX);
    return -1;
  }
  if (at->meetings != NULL && !kir_meet(m, a, offset, is_load, false)) {
    return -1;
  }
  if (!is_load) {
    at->defined[offset] = KIR_DEFINED;
  } else if (at->defined[offset] == 0) {
    kir_report(m, a, "load of an undefined element", 0, UINT32_MAX);
    return -1;
  }
  return offset;
}

/* First element of n neighbours; -1 if a check might fail, which is then to
 * be found lane by lane. */
static int64_t start(const kir_machine_t *m, const kir_access_t *a, uint32_t n,
                     bool is_load) {
  const kir_memory_t *at = a->memory;
  int64_t offset = 0;
  for (uint32_t d = 0; d < a->count; d++) {
    int64_t v = a->subs[d][0], span = d + 1 == a->count ? n : 1;
    if (m->checks && (v < 0 || v > at->dims[d] - span)) return -1;
    offset += v * at->strides[d];
  }
  if (at->defined == NULL) return offset;
  if (at->meetings != NULL) return -1; /* one by one */
  uint8_t *defined = at->defined + offset;
  if (!is_load) {
    memset(defined, 1, n);
    return offset;
  }
  return memchr(defined, 0, n) == NULL ? offset : -1;
}

/* ---- elements -------------------------------------------------------------*/

static void read_one(const kir_memory_t *at, int64_t offset, kir_rep_t rep,
                     void *reg, uint32_t lane) {
  const unsigned char *from = at->data + (size_t)offset * at->bytes;
  tdsl_dtype_t dtype = at->buffer->dtype;
  switch (rep) {
    case KIR_REP_S:
      ((float *)reg)[lane] = (float)td_load_f64(dtype, from);
      break;
    case KIR_REP_D: ((double *)reg)[lane] = td_load_f64(dtype, from); break;
    case KIR_REP_I: ((int64_t *)reg)[lane] = td_load_i64(dtype, from); break;
    case KIR_REP_B: ((uint8_t *)reg)[lane] = *from != 0; break;
  }
}

/* Lanes that are not read hold 0, so that arithmetic on them is defined. */
static void clear_one(kir_rep_t rep, void *reg, uint32_t lane) {
  size_t bytes = kir_rep_bytes(rep);
  memset((unsigned char *)reg + lane * bytes, 0, bytes);
}

static void write_one(const kir_memory_t *at, int64_t offset, kir_rep_t rep,
                      const void *reg, uint32_t lane) {
  unsigned char *to = at->data + (size_t)offset * at->bytes;
  tdsl_dtype_t dtype = at->buffer->dtype;
  switch (rep) {
    case KIR_REP_S:
      td_store_f64(dtype, to, (double)((const float *)reg)[lane]);
      break;
    case KIR_REP_D:
      td_store_f64(dtype, to, ((const double *)reg)[lane]);
      break;
    case KIR_REP_I:
      td_store_wrap(dtype, to, ((const int64_t *)reg)[lane]);
      break;
    case KIR_REP_B: *to = ((const uint8_t *)reg)[lane]; break;
  }
}

/* Rows of the dtypes that matter for speed, elements being neighbours. */
static bool read_row(const kir_memory_t *at, int64_t offset, kir_rep_t rep,
                     void *reg, uint32_t n) {
  const unsigned char *from = at->data + (size_t)offset * at->bytes;
  tdsl_dtype_t dtype = at->buffer->dtype;
  if (dtype == TDSL_DTYPE_F32 || dtype == TDSL_DTYPE_F64 ||
      dtype == TDSL_DTYPE_I64) {
    memcpy(reg, from, n * at->bytes);
    return true;
  }
  if (dtype != TDSL_DTYPE_BF16 || rep != KIR_REP_S) return false;
  for (uint32_t l = 0; l < n; l++) {
    uint16_t bits;
    memcpy(&bits, from + 2 * l, sizeof bits);
    ((float *)reg)[l] = td_bf16_to_f32(bits);
  }
  return true;
}

static bool write_row(const kir_memory_t *at, int64_t offset, kir_rep_t rep,
                      const void *reg, uint32_t n) {
  unsigned char *to = at->data + (size_t)offset * at->bytes;
  tdsl_dtype_t dtype = at->buffer->dtype;
  if ((dtype == TDSL_DTYPE_F32 && rep == KIR_REP_S) ||
      (dtype == TDSL_DTYPE_F64 && rep == KIR_REP_D) ||
      dtype == TDSL_DTYPE_I64) {
    memcpy(to, reg, n * at->bytes);
    return true;
  }
  return false;
}

/* ---- steps ----------------------------------------------------------------*/

/* No mask means all lanes. */
static bool any_lane(const uint8_t *mask, uint32_t n) {
  if (mask == NULL) return true;
  uint8_t any = 0;
  for (uint32_t l = 0; l < n; l++) any |= mask[l];
  return any != 0;
}

void kir_run_load(kir_machine_t *m, const kir_step_t *s) {
  const kir_access_t *a = s->access;
  if (!a->any_wide && !a->is_row) {
    /* one element for all lanes: read if any of them counts */
    bool wanted = any_lane(s->mask, (uint32_t)s->number);
    int64_t at = wanted ? place(m, a, 0, true) : -1;
    if (at >= 0) {
      read_one(a->memory, at, s->rep, s->out, 0);
    } else {
      clear_one(s->rep, s->out, 0);
    }
    return;
  }
  if (a->is_row && !a->any_wide && s->mask == NULL) {
    int64_t at = start(m, a, s->n, true);
    if (at >= 0 && read_row(a->memory, at, s->rep, s->out, s->n)) return;
  }
  for (uint32_t l = 0; l < s->n; l++) {
    int64_t at = s->mask == NULL || s->mask[l] ? place(m, a, l, true) : -1;
    if (at >= 0) {
      read_one(a->memory, at, s->rep, s->out, l);
    } else {
      clear_one(s->rep, s->out, l);
    }
  }
}

/* Lanes store in their order, so of two that meet the last one stays. */
void kir_run_store(kir_machine_t *m, const kir_step_t *s) {
  const kir_access_t *a = s->access;
  if (a->is_row && !a->any_wide && s->mask == NULL) {
    int64_t at = start(m, a, s->n, false);
    if (at >= 0 && write_row(a->memory, at, s->rep, s->a, s->n)) return;
  }
  for (uint32_t l = 0; l < s->n; l++) {
    if (s->mask != NULL && !s->mask[l]) continue;
    int64_t at = place(m, a, l, false);
    if (at >= 0) write_one(a->memory, at, s->rep, s->a, l);
  }
}

void kir_run_aligned(kir_machine_t *m, const kir_step_t *s) {
  const kir_access_t *a = s->access;
  for (uint32_t l = 0; l < s->n; l++) {
    if (s->mask != NULL && !s->mask[l]) continue;
    int64_t offset = 0;
    for (uint32_t d = 0; d < a->count; d++) {
      offset += sub_of(a, d, l) * a->memory->strides[d];
    }
    if (offset % s->number == 0) continue;
    kir_report(m, a, "a copy from or to a place that is no multiple of it", 0,
           UINT32_MAX);
    return;
  }
}

/* Definedness moves with the elements. */
void kir_run_transpose(kir_machine_t *m, const kir_step_t *s) {
  kir_memory_t *at = s->access->memory;
  int64_t n = at->dims[0];
  (void)m;
  for (int64_t i = 0; i < n; i++) {
    for (int64_t j = 0; j < i; j++) {
      unsigned char keep[8];
      int64_t a = i * n + j, b = j * n + i;
      unsigned char *x = at->data + (size_t)a * at->bytes;
      unsigned char *y = at->data + (size_t)b * at->bytes;
      memcpy(keep, x, at->bytes);
      memcpy(x, y, at->bytes);
      memcpy(y, keep, at->bytes);
      if (at->defined == NULL) continue;
      uint8_t was = at->defined[a];
      at->defined[a] = at->defined[b];
      at->defined[b] = was;
    }
  }
}

/* By halves, as kir.h spells it: the order of additions is part of the
 * meaning. */
void kir_run_fold(kir_machine_t *m, const kir_step_t *s) {
  const kir_access_t *a = s->access;
  const kir_memory_t *at = a->memory;
  uint32_t n = (uint32_t)at->dims[at->buffer->rank - 1];
  double row[KIR_WIDTH], half[KIR_WIDTH]; /* any register fits */
  for (uint32_t l = 0; l < n; l++) {
    int64_t offset = place(m, a, 0, true);
    if (offset < 0) return;
    if (at->defined != NULL && at->defined[offset + l] == 0) {
      kir_report(m, a, "fold of an undefined element", 0, UINT32_MAX);
      return;
    }
    read_one(at, offset + l, s->rep, row, l);
  }
  for (; n > 1; n /= 2) {
    memcpy(half, (unsigned char *)row + n / 2 * kir_rep_bytes(s->rep),
           n / 2 * kir_rep_bytes(s->rep));
    kir_combine(s->fold, s->rep, row, row, half, n / 2);
  }
  memcpy(s->out, row, kir_rep_bytes(s->rep));
}
