/* plan_offsets.c: buffers to places in the arena.
 *
 * The arena is a row of regions, each used by buffers that live one after
 * another.  Buffers are taken by falling size (at sample dims), so that a
 * region is opened by its largest buffer; one joins a region if it provably
 * fits for all dims and nobody there lives at the same time.  Sizes are
 * polynomials of dims, so offsets and the total are too. */
#include "passes/plan/planner.h"

#include "runtime/base/num.h"

enum { SAMPLE = 777 }; /* value of every dynamic dim, when sizes are ranked */

static const ix_poly_t *align_up(planner_t *p, const ix_poly_t *bytes) {
  const ix_poly_t *line = ix_const(p->pool, 64);
  const ix_poly_t *sum = ix_add(p->pool, bytes, ix_const(p->pool, 63));
  return ix_mul(p->pool, ix_div(p->pool, sum, line, NULL), line);
}

uint32_t planner_add_buffer(planner_t *p, const tir_value_t *v, int32_t slot,
                            planner_span_t span) {
  mem_buffer_t b = {.name = v->name, .dtype = v->dtype, .rank = v->rank,
                    .slot = slot, .is_used = true};
  const ix_poly_t *bytes =
      ix_const(p->pool, (int64_t)td_dtype_bytes(v->dtype));
  for (uint32_t d = 0; d < v->rank; d++) {
    b.dims[d] = v->dims[d];
    bytes = ix_mul(p->pool, bytes, v->dims[d]);
  }
  b.bytes = bytes;
  if (align_up(p, bytes) == NULL) {
    td_raise(p->task, TDSL_STATUS_LIMIT, "the size of %s leaves 64 bits",
             v->name);
  }
  td_vec_push(p->arena, &p->buffers, b);
  td_vec_push(p->arena, &p->spans, span);
  return (uint32_t)p->buffers.length - 1;
}

typedef struct region {
  const ix_poly_t *bytes; /* of its largest buffer, not rounded */
  TD_VEC(planner_span_t) busy;
} region_t;

typedef TD_VEC(region_t) regions_t;

typedef struct ranked {
  uint32_t buffer;
  int64_t size;
} ranked_t;

static bool sample_value(void *user, const ix_symbol_t *s, int64_t *out) {
  (void)user;
  int64_t hi;
  *out = SAMPLE;
  if (s->hi != NULL && ix_is_const(s->hi, &hi) && *out >= hi) *out = hi - 1;
  return true;
}

static int64_t sample_size(const ix_poly_t *bytes) {
  int64_t n;
  return ix_eval(bytes, sample_value, NULL, &n) ? n : INT64_MAX;
}

/* Larger first; of equal ones the one that is born first. */
static bool goes_before(const planner_t *p, ranked_t a, ranked_t b) {
  if (a.size != b.size) return a.size > b.size;
  uint32_t x = p->spans.data[a.buffer].first;
  uint32_t y = p->spans.data[b.buffer].first;
  return x != y ? x < y : a.buffer < b.buffer;
}

/* Merge sort: stable order, no recursion. */
static void rank(const planner_t *p, ranked_t *items, ranked_t *spare,
                 size_t count) {
  for (size_t width = 1; width < count; width *= 2) {
    for (size_t lo = 0; lo < count; lo += 2 * width) {
      size_t mid = lo + width < count ? lo + width : count;
      size_t hi = mid + width < count ? mid + width : count;
      size_t i = lo, j = mid;
      for (size_t k = lo; k < hi; k++) {
        bool left = j >= hi ||
                    (i < mid && !goes_before(p, items[j], items[i]));
        spare[k] = left ? items[i++] : items[j++];
      }
    }
    for (size_t k = 0; k < count; k++) items[k] = spare[k];
  }
}

static bool is_free(const region_t *r, planner_span_t span) {
  for (size_t i = 0; i < r->busy.length; i++) {
    planner_span_t other = r->busy.data[i];
    if (span.first <= other.last && other.first <= span.last) return false;
  }
  return true;
}

static bool fits(planner_t *p, const ix_poly_t *bytes, const ix_poly_t *room) {
  if (bytes == room) return true;
  const ix_poly_t *rest = ix_sub(p->pool, room, bytes);
  return rest != NULL && ix_prove_nonnegative(p->pool, rest, NULL);
}

/* The smallest region, as far as the order of opening tells, that has room
 * and time for the buffer. */
static uint32_t find_region(planner_t *p, const regions_t *regions,
                            const ix_poly_t *bytes, planner_span_t span) {
  for (size_t r = regions->length; r > 0 && !p->separate; r--) {
    const region_t *region = &regions->data[r - 1];
    if (is_free(region, span) && fits(p, bytes, region->bytes)) {
      return (uint32_t)r - 1;
    }
  }
  return PLANNER_NONE;
}

static void assign(planner_t *p, const ranked_t *items, size_t count) {
  regions_t regions = {0};
  uint32_t *where = TD_NEW_ARRAY(p->arena, uint32_t, p->buffers.length + 1);
  for (size_t i = 0; i < count; i++) {
    uint32_t b = items[i].buffer;
    planner_span_t span = p->spans.data[b];
    const ix_poly_t *bytes = p->buffers.data[b].bytes;
    uint32_t r = find_region(p, &regions, bytes, span);
    if (r == PLANNER_NONE) {
      region_t fresh = {.bytes = bytes};
      r = (uint32_t)regions.length;
      td_vec_push(p->arena, &regions, fresh);
    }
    td_vec_push(p->arena, &regions.data[r].busy, span);
    where[b] = r;
  }
  const ix_poly_t **starts =
      TD_NEW_ARRAY(p->arena, const ix_poly_t *, regions.length + 1);
  const ix_poly_t *at = ix_const(p->pool, 0);
  for (size_t r = 0; r < regions.length; r++) {
    starts[r] = at;
    at = ix_add(p->pool, at, align_up(p, regions.data[r].bytes));
  }
  if (at == NULL) {
    td_raise(p->task, TDSL_STATUS_LIMIT,
             "the intermediates of %s leave 64 bits", p->func->name);
  }
  for (size_t i = 0; i < count; i++) {
    uint32_t b = items[i].buffer;
    p->buffers.data[b].offset = starts[where[b]];
  }
  p->layout->arena_bytes = at;
}

void planner_place_buffers(planner_t *p) {
  size_t count = 0;
  ranked_t *items = TD_NEW_ARRAY(p->arena, ranked_t, p->buffers.length + 1);
  ranked_t *spare = TD_NEW_ARRAY(p->arena, ranked_t, p->buffers.length + 1);
  for (size_t b = 0; b < p->buffers.length; b++) {
    const mem_buffer_t *buffer = &p->buffers.data[b];
    if (buffer->slot >= 0) continue;
    items[count++] = (ranked_t){(uint32_t)b, sample_size(buffer->bytes)};
  }
  rank(p, items, spare, count);
  assign(p, items, count);
  p->layout->buffers = p->buffers.data;
  p->layout->buffer_count = (uint32_t)p->buffers.length;
}
