/* Order between operations: two that nothing orders and that touch the same
   bytes, one of them writing, are a race, whatever this run did. Memory that
   begins or ends is a write of all its bytes.

   An operation is judged when it has run, against those that ran before it
   and are not ordered before it. Since operations run only when the host
   waits for them or for what follows them, all that may be unordered with one
   is known when it runs: what is still queued, and what ran unwaited for.
   Kernels whose company is all ordered note nothing. */
#define _DEFAULT_SOURCE 1 /* MAP_ANONYMOUS */

#include "runtime/simgpu/sim_cuda.h"

#include <stdlib.h>
#include <sys/mman.h>

#define MAX_PAST  4096u /* beyond, the oldest are forgotten */
#define MAX_EDGES 4096u

static sim_queue_t *queue(void) {
  return &sim_state()->queue;
}

/* Before all of it but, of a launch that may begin early, its beginning. */
static bool is_before(const sim_past_t *a, const sim_queued_t *b) {
  const sim_gap_t *g = &b->gap;
  if (a->lane == g->lane && a->seq > g->after && a->seq <= g->last)
    return false;
  return sim_clock_at(&b->clock, a->lane) >= a->seq;
}

static bool is_before_early(const sim_past_t *a, const sim_queued_t *b) {
  return !b->has_early || sim_clock_at(&b->early, a->lane) >= a->seq;
}

static bool is_checked(void) {
  return (sim_state()->options.checks & SIM_CHECK_ORDER) != 0;
}

/* Some queued operation begins before this one has completed. */
static bool is_overtaken(const sim_queued_t *b) {
  const sim_queue_t *q = queue();
  for (uint32_t i = 0; q->early && i < q->lane_count; i++)
    for (const sim_queued_t *p = q->lanes[i]->head; p; p = p->next)
      if (p->has_early && sim_clock_at(&p->early, b->lane) < b->seq)
        return true;
  return false;
}

bool sim_order_must_track(const sim_queued_t *b) {
  const sim_queue_t *q = queue();
  if (!is_checked()) return false;
  if (b->has_early || is_overtaken(b)) return true;
  for (size_t i = 0; i < q->past_count; i++)
    if (!is_before(&q->past[i], b)) return true;
  for (uint32_t i = 0; i < q->lane_count; i++) {
    /* of a lane, the oldest is unordered if any is */
    const sim_queued_t *head = q->lanes[i]->head;
    if (i != b->lane && head &&
        sim_clock_at(&head->clock, b->lane) < b->seq)
      return true;
  }
  return false;
}

/* -- what launches and collectives say to those queued behind them -- */

void sim_order_inform(const sim_queued_t *a) {
  const sim_queue_t *q = queue();
  if (!q->early) return;
  /* its beginning came after this, and after all it depends on if every block
     waited before it let others begin */
  bool is_late = !a->has_early || (a->has_waited && !a->has_early_trigger);
  const sim_clock_t *start = is_late ? &a->clock : &a->early;
  sim_queued_t *next = q->lanes[a->lane]->head;
  if (!next || next->depends != a->seq) return;
  uint64_t known = sim_clock_at(start, a->lane);
  if (is_late) known = a->seq - SIM_SEQ_STEP;
  uint64_t own = sim_clock_at(&next->early, a->lane);
  if (!sim_clock_join(&next->early, start)) return;
  if (a->lane < next->early.count)
    next->early.at[a->lane] = known > own ? known : own;
  /* that it completed says nothing about what it never waited for */
  next->gap = a->gap;
  if (a->has_early && !a->has_waited && a->depends) {
    if (!next->gap.last || next->gap.lane != a->lane)
      next->gap = (sim_gap_t){a->lane, known, 0};
    next->gap.last = a->depends;
  }
}

void sim_order_close(sim_clock_t *clock) {
  const sim_queue_t *q = queue();
  for (size_t i = 0; i < q->edge_count; i++) {
    const sim_edge_t *e = &q->edges[i];
    if (sim_clock_at(clock, e->lane) >= e->seq)
      sim_clock_join(clock, &e->clock);
  }
}

void sim_order_add_edge(const sim_queued_t *item, sim_clock_t *clock) {
  sim_queue_t *q = queue();
  if (!clock->count || !is_checked()) {
    sim_clock_free(clock);
    return;
  }
  if (q->edge_count == MAX_EDGES) {
    sim_clock_free(&q->edges[0].clock);
    memmove(q->edges, q->edges + 1, --q->edge_count * sizeof *q->edges);
  }
  if (q->edge_count == q->edge_capacity) {
    size_t capacity = q->edge_capacity ? q->edge_capacity * 2 : 16;
    sim_edge_t *edges = realloc(q->edges, capacity * sizeof *edges);
    if (!edges) {
      sim_clock_free(clock);
      return;
    }
    q->edges = edges;
    q->edge_capacity = capacity;
  }
  sim_order_close(clock);
  q->edges[q->edge_count++] =
      (sim_edge_t){.lane = item->lane, .seq = item->seq, .clock = *clock};
  *clock = (sim_clock_t){0};
}

static void prune_edges(uint64_t oldest) {
  sim_queue_t *q = queue();
  size_t kept = 0;
  for (size_t i = 0; i < q->edge_count; i++) {
    sim_edge_t *e = &q->edges[i];
    if (!e->safe && sim_clock_covers(&q->host, &e->clock))
      e->safe = q->issued + 1;
    if (e->safe && oldest >= e->safe)
      sim_clock_free(&e->clock);
    else
      q->edges[kept++] = *e;
  }
  q->edge_count = kept;
}

/* -- what was touched -- */

static size_t bit_bytes(uint64_t bytes) {
  return (size_t)((bytes + 63) / 64 * 8);
}

void sim_order_free(sim_past_t *p) {
  for (uint32_t i = 0; i < p->touched_count; i++)
    for (int k = 0; k < SIM_TOUCHES; k++)
      if (p->touched[i].bits[k])
        munmap(p->touched[i].bits[k], bit_bytes(p->touched[i].bytes));
  free(p->touched);
  free(p->ranges);
  p->touched = NULL;
  p->ranges = NULL;
  p->touched_count = p->range_count = 0;
}

static bool is_touched(const sim_alloc_t *a) {
  for (int k = 0; k < SIM_TOUCHES; k++)
    if (a->touched[k]) return true;
  return false;
}

/* Moves the bits out of the allocations. */
static void take_touched(sim_past_t *p) {
  sim_memory_t *m = &sim_state()->memory;
  size_t n = 0;
  for (size_t i = 0; i < m->count; i++) {
    const sim_alloc_t *a = m->list[i];
    n += is_touched(a);
  }
  if (!n) return;
  p->touched = calloc(n, sizeof *p->touched);
  for (size_t i = 0; i < m->count; i++) {
    sim_alloc_t *a = m->list[i];
    if (!is_touched(a)) continue;
    sim_touched_t one = {.address = a->address, .bytes = a->bytes};
    for (int k = 0; k < SIM_TOUCHES; k++) {
      one.bits[k] = a->touched[k];
      a->touched[k] = NULL;
      if (!p->touched && one.bits[k])
        munmap(one.bits[k], bit_bytes(one.bytes));
    }
    if (p->touched) p->touched[p->touched_count++] = one;
  }
}

/* Without memory the bytes are not judged. */
void sim_order_add_range(sim_past_t *p, uint64_t start, uint64_t bytes,
                      uint64_t rows, uint64_t pitch, char kind) {
  sim_range_t r = {start, bytes, rows, pitch ? pitch : bytes, kind};
  sim_range_t *ranges =
      realloc(p->ranges, (p->range_count + 1u) * sizeof *ranges);
  if (!ranges) return;
  p->ranges = ranges;
  p->ranges[p->range_count++] = r;
}

/* One range for each plane of a copy. */
static void add_planes(sim_past_t *p, const sim_op_run_t *op, char kind) {
  bool is_dst = kind == 'w';
  for (uint64_t z = 0; z < (op->planes ? op->planes : 1); z++)
    sim_order_add_range(p, is_dst ? op->dst + z * op->dst_plane
                        : op->src + z * op->src_plane,
              op->bytes, op->rows, is_dst ? op->dst_pitch : op->src_pitch,
              kind);
}

static void describe(sim_past_t *p, const sim_queued_t *q) {
  const sim_op_run_t *op = &q->op;
  memset(p, 0, sizeof *p);
  p->name = op->name;
  p->call = op->call;
  p->lane = q->lane;
  p->seq = q->seq;
  if (op->kind == SIM_RUN_LAUNCH) {
    const sim_func_t *f = sim_handle_number(SIM_TYPE_FUNC, op->launch.func);
    td_buf_t buf;
    td_buf_init_fixed(&buf, p->kernel, sizeof p->kernel);
    if (f) td_buf_puts(&buf, f->ptx->name);
  }
  switch (op->kind) {
  case SIM_RUN_COPY:
    if (!op->staged) add_planes(p, op, 'r');
    add_planes(p, op, 'w');
    break;
  case SIM_RUN_FILL:
    sim_order_add_range(p, op->dst, op->bytes, op->rows, op->dst_pitch, 'w');
    break;
  case SIM_RUN_ALLOC:
  case SIM_RUN_FREE:
  case SIM_RUN_UNMAP:
    sim_order_add_range(p, op->dst, op->bytes, 1, 0, 'l');
    break;
  case SIM_RUN_LAUNCH:
  case SIM_RUN_HOST:
  case SIM_RUN_EMPTY:
  case SIM_RUN_WAIT:
  case SIM_RUN_CHILD:
  case SIM_RUN_EVENT: break;
  case SIM_RUN_COLL: sim_coll_ranges(op, p); break;
  }
}

/* -- conflicts -- */

typedef struct conflict_t {
  uint64_t address, bytes;
  bool is_life; /* one of the two begins or ends the memory */
} conflict_t;

static bool conflicting(char a, char b) {
  if (a == 'a' && b == 'a') return false;
  return a != 'r' || b != 'r';
}

/* First overlap of two lists of rows. */
static bool ranges_meet(const sim_range_t *a, const sim_range_t *b,
                        conflict_t *out) {
  for (uint64_t i = 0; i < a->rows; i++) {
    uint64_t low = a->start + i * a->pitch, high = low + a->bytes;
    uint64_t k = low > b->start ? (low - b->start) / b->pitch : 0;
    for (; k < b->rows; k++) {
      uint64_t from = b->start + k * b->pitch, to = from + b->bytes;
      if (from >= high) break;
      if (to <= low) continue;
      out->address = from > low ? from : low;
      out->bytes = (to < high ? to : high) - out->address;
      return true;
    }
  }
  return false;
}

/* First bit set in [low, high); high if none. */
static uint64_t first_bit(const uint64_t *bits, uint64_t low,
                          uint64_t high) {
  while (low < high) {
    uint64_t word = bits[low / 64] >> (low % 64);
    if (word) {
      low += (uint64_t)__builtin_ctzll(word);
      return low < high ? low : high;
    }
    low = (low / 64 + 1) * 64;
  }
  return high;
}

static const char touch_kinds[] = "rwarwa";

static bool range_meets_bits(const sim_range_t *r, const sim_touched_t *t,
                             conflict_t *out) {
  for (int k = 0; k < SIM_TOUCHES; k++) {
    if (!t->bits[k] || !conflicting(r->kind, touch_kinds[k])) continue;
    for (uint64_t i = 0; i < r->rows; i++) {
      uint64_t low = r->start + i * r->pitch, high = low + r->bytes;
      if (low < t->address) low = t->address;
      if (high > t->address + t->bytes) high = t->address + t->bytes;
      if (low >= high) continue;
      low -= t->address;
      high -= t->address;
      uint64_t at = first_bit(t->bits[k], low, high);
      if (at == high) continue;
      out->address = t->address + at;
      out->bytes = 0;
      while (at < high && (t->bits[k][at / 64] >> (at % 64) & 1))
        at++, out->bytes++;
      return true;
    }
  }
  return false;
}

static bool bits_meet(const sim_touched_t *a, const sim_touched_t *b,
                      conflict_t *out) {
  if (a->address != b->address || a->bytes != b->bytes) return false;
  for (int i = 0; i < SIM_TOUCHES; i++) {
    for (int k = 0; k < SIM_TOUCHES; k++) {
      const uint64_t *x = a->bits[i], *y = b->bits[k];
      if (!x || !y || !conflicting(touch_kinds[i], touch_kinds[k])) continue;
      for (uint64_t w = 0; w < (a->bytes + 63) / 64; w++) {
        uint64_t both = x[w] & y[w];
        if (!both) continue;
        out->address = a->address + w * 64 +
                       (uint64_t)__builtin_ctzll(both);
        out->bytes = (uint64_t)__builtin_popcountll(both);
        return true;
      }
    }
  }
  return false;
}

static bool meet(const sim_past_t *a, const sim_past_t *b, conflict_t *out) {
  memset(out, 0, sizeof *out);
  for (uint32_t i = 0; i < a->range_count; i++) {
    for (uint32_t k = 0; k < b->range_count; k++) {
      const sim_range_t *x = &a->ranges[i], *y = &b->ranges[k];
      if (!conflicting(x->kind, y->kind) || !ranges_meet(x, y, out))
        continue;
      out->is_life = x->kind == 'l' || y->kind == 'l';
      return true;
    }
  }
  for (int turn = 0; turn < 2; turn++) {
    for (uint32_t i = 0; i < a->range_count; i++) {
      for (uint32_t k = 0; k < b->touched_count; k++) {
        if (!range_meets_bits(&a->ranges[i], &b->touched[k], out)) continue;
        out->is_life = a->ranges[i].kind == 'l';
        return true;
      }
    }
    const sim_past_t *swap = a;
    a = b;
    b = swap;
  }
  for (uint32_t i = 0; i < a->touched_count; i++)
    for (uint32_t k = 0; k < b->touched_count; k++)
      if (bits_meet(&a->touched[i], &b->touched[k], out)) return true;
  return false;
}

/* is_early: of b, what comes before its griddepcontrol.wait. */
static void report(const sim_past_t *a, const sim_past_t *b,
                   const conflict_t *c, bool is_early) {
  const sim_alloc_t *alloc =
      sim_alloc_find(&sim_state()->memory, c->address);
  sim_host_finding(
      c->is_life ? SIM_CHECK_ORDER_LIFETIME : SIM_CHECK_ORDER_RACE, b->name,
      c->address, c->bytes,
      "call %llu %s%s%s and %scall %llu %s%s%s are not ordered; both touch "
      "byte %llu of allocation %u",
      (unsigned long long)a->call, a->name, a->kernel[0] ? " " : "",
      a->kernel, is_early ? "the part before griddepcontrol.wait of " : "",
      (unsigned long long)b->call, b->name, b->kernel[0] ? " " : "",
      b->kernel,
      (unsigned long long)(alloc ? c->address - alloc->address
                                 : c->address),
      alloc ? alloc->id : 0);
}

/* What the operation touched before it waited: launches have bits for that,
   all else happens early. False without memory. */
static bool early_part(const sim_past_t *now, bool is_launch,
                       sim_past_t *out) {
  *out = *now;
  if (!is_launch) return true;
  out->range_count = 0;
  out->touched = malloc((now->touched_count + 1u) * sizeof *out->touched);
  if (!out->touched) return false;
  for (uint32_t i = 0; i < now->touched_count; i++) {
    out->touched[i] = now->touched[i];
    for (int k = 0; k < SIM_TOUCHES / 2; k++) out->touched[i].bits[k] = NULL;
  }
  return true;
}

static void judge(const sim_past_t *now, const sim_queued_t *item) {
  const sim_queue_t *q = queue();
  bool is_launch = item->op.kind == SIM_RUN_LAUNCH;
  conflict_t c;
  sim_past_t early = {0};
  bool has_early = item->has_early && early_part(now, is_launch, &early);
  for (size_t i = 0; i < q->past_count; i++) {
    const sim_past_t *a = &q->past[i];
    if (!is_before(a, item)) {
      if (meet(a, now, &c)) report(a, now, &c, false);
    } else if (has_early && !is_before_early(a, item)) {
      if (meet(a, &early, &c))
        report(a, now, &c, is_launch && item->has_waited);
    }
  }
  if (has_early && is_launch) free(early.touched);
}

/* Takes what past owns. */
static void keep(sim_past_t *now) {
  sim_queue_t *q = queue();
  if (q->past_count == MAX_PAST) {
    sim_order_free(&q->past[0]);
    memmove(q->past, q->past + 1, --q->past_count * sizeof *q->past);
  }
  if (q->past_count == q->past_capacity) {
    size_t capacity = q->past_capacity ? q->past_capacity * 2 : 64;
    sim_past_t *past = realloc(q->past, capacity * sizeof *past);
    if (!past) {
      sim_order_free(now);
      return;
    }
    q->past = past;
    q->past_capacity = capacity;
  }
  q->past[q->past_count++] = *now;
}

/* What a collective sends is read before it completes: SIM_SEQ_STEP. */
static void keep_sent(sim_past_t *now) {
  sim_past_t sent = *now;
  uint32_t kept = 0;
  sent.seq--;
  sent.ranges = NULL;
  sent.range_count = 0;
  for (uint32_t i = 0; i < now->range_count; i++) {
    const sim_range_t *r = &now->ranges[i];
    if (r->kind == 'r')
      sim_order_add_range(&sent, r->start, r->bytes, r->rows, r->pitch, 'r');
    else
      now->ranges[kept++] = *r;
  }
  now->range_count = kept;
  if (sent.range_count) keep(&sent);
}

void sim_order_executed(sim_queued_t *item, bool was_tracked) {
  sim_past_t now;
  describe(&now, item);
  if (was_tracked) take_touched(&now);
  if (!is_checked() || (!now.range_count && !now.touched_count)) {
    sim_order_free(&now);
    return;
  }
  if (queue()->edge_count) {
    sim_order_close(&item->clock);
    if (item->has_early) sim_order_close(&item->early);
  }
  judge(&now, item);
  if (item->op.kind == SIM_RUN_COLL) keep_sent(&now);
  keep(&now);
}

void sim_order_prune(void) {
  sim_queue_t *q = queue();
  uint64_t oldest = UINT64_MAX;
  size_t kept = 0;
  for (uint32_t i = 0; i < q->lane_count; i++) {
    const sim_queued_t *head = q->lanes[i]->head;
    if (head && head->issue < oldest) oldest = head->issue;
  }
  for (size_t i = 0; i < q->past_count; i++) {
    sim_past_t *p = &q->past[i];
    if (!p->safe && sim_clock_at(&q->host, p->lane) >= p->seq)
      p->safe = q->issued + 1;
    if (p->safe && oldest >= p->safe)
      sim_order_free(p);
    else
      q->past[kept++] = *p;
  }
  q->past_count = kept;
  prune_edges(oldest);
}

/* -- pinned memory -- */

static uint64_t hash_source(const sim_op_run_t *op) {
  uint64_t h = 0;
  for (uint64_t row = 0; row < sim_op_rows(op); row++) {
    const void *p = (const void *)(uintptr_t)sim_op_src(op, row);
    h = td_hash_bytes(p, (size_t)op->bytes, h);
  }
  return h;
}

void sim_order_hash(sim_op_run_t *op) {
  op->is_hashed = is_checked();
  if (op->is_hashed) op->hash = hash_source(op);
}

void sim_order_check_hash(const sim_op_run_t *op) {
  if (!op->is_hashed || hash_source(op) == op->hash) return;
  sim_host_finding(SIM_CHECK_ORDER_HOST, op->name, op->src, op->bytes,
                   "the host changed the pinned source of call %llu before "
                   "the copy ran",
                   (unsigned long long)op->call);
}

static bool reads_host(const sim_op_run_t *op, uint64_t address,
                       uint64_t bytes) {
  return op->is_hashed &&
         (!bytes || (op->src < address + bytes &&
                     address < sim_op_src_end(op)));
}

void sim_order_host_write(uint64_t address, uint64_t bytes, bool before) {
  sim_queue_t *q = queue();
  for (uint32_t i = 0; i < q->lane_count; i++) {
    for (sim_queued_t *p = q->lanes[i]->head; p; p = p->next) {
      if (!reads_host(&p->op, address, bytes)) continue;
      if (before)
        sim_order_check_hash(&p->op);
      else
        p->op.hash = hash_source(&p->op);
    }
  }
}
