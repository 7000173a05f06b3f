/* What collectives cost, by the formulas that a ring has: bytes that each rank
   sends, to whom, and in how many steps; and the record of calls. */
#include "runtime/simgpu/sim_comm.h"

#include <stdlib.h>

#define MAX_RECORDS 16384u

const char *sim_coll_name(sim_coll_op_t op) {
  static const char *const names[SIM_COLL_OPS] = {
      "all_reduce", "reduce_scatter", "all_gather", "broadcast",
      "reduce",     "all_to_all",     "send",       "recv"};
  return names[op];
}

static uint64_t least(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}

/* Bytes of the k-th of n chunks, all but the last of equal size. */
static uint64_t chunk_bytes(const sim_part_t *p, uint32_t n, uint32_t k) {
  uint64_t each = (p->count + n - 1) / n;
  uint64_t before = least(p->count, each * k);
  return (least(p->count, before + each) - before) *
         sim_dtype_bytes(p->dtype);
}

static void sent(const sim_clique_t *c, uint32_t from, uint32_t to,
                 uint64_t bytes) {
  sim_state()->coll_links[c->devices[from]][c->devices[to]] += bytes;
}

/* b is what a rank holds before. A ring of n: all-gather sends (n-1) b in n-1
   steps, reduce-scatter (n-1)/n b in n-1, all-reduce both of its halves; an
   exchange sends each other rank its share. What passes on a broadcast is
   charged to its root, and a reduction's to every rank but the root. */
void sim_coll_count_part(const sim_clique_t *c, uint32_t rank,
                         const sim_part_t *p) {
  sim_comm_t *comm = sim_handle_number(SIM_TYPE_COMM, c->comms[rank]);
  uint32_t n = c->size, next = (rank + 1) % n;
  uint64_t each = p->count * sim_dtype_bytes(p->dtype);
  uint64_t bytes = 0, steps = n - 1;
  switch (p->op) {
  case SIM_COLL_ALL_REDUCE:
    /* every chunk but the one that ends here, then every one but the next
       rank's, which that has already */
    bytes = 2 * each - chunk_bytes(p, n, rank) - chunk_bytes(p, n, next);
    steps = 2 * (uint64_t)(n - 1);
    break;
  case SIM_COLL_ALL_GATHER:
  case SIM_COLL_REDUCE_SCATTER: bytes = (n - 1) * each; break;
  case SIM_COLL_BROADCAST:
    bytes = n > 1 && rank == p->peer ? each : 0;
    break;
  case SIM_COLL_REDUCE: bytes = n > 1 && rank != p->peer ? each : 0; break;
  case SIM_COLL_ALL_TO_ALL:
    for (uint32_t k = 0; k < n; k++)
      if (k != rank) sent(c, rank, k, each);
    bytes = (n - 1) * each;
    break;
  case SIM_COLL_SEND:
    bytes = p->peer == rank ? 0 : each;
    steps = 1;
    sent(c, rank, p->peer, bytes);
    break;
  case SIM_COLL_RECV: steps = 1; break;
  case SIM_COLL_OPS: break;
  }
  if (p->op != SIM_COLL_ALL_TO_ALL && p->op != SIM_COLL_SEND)
    sent(c, rank, next, bytes);
  if (!comm) return;
  comm->stats[p->op].calls++;
  comm->stats[p->op].bytes += bytes;
  comm->stats[p->op].steps += steps;
}

void sim_coll_json(td_buf_t *buf) {
  const sim_state_t *s = sim_state();
  bool is_first = true;
  td_buf_puts(buf, ",\"coll\":[");
  for (uint32_t i = 0; i < s->clique_count; i++) {
    const sim_clique_t *c = s->cliques[i];
    for (uint32_t r = 0; r < c->size; r++) {
      const sim_comm_t *comm =
          sim_handle_number(SIM_TYPE_COMM, c->comms[r]);
      for (int op = 0; comm && op < SIM_COLL_OPS; op++) {
        const sim_coll_stats_t *t = &comm->stats[op];
        if (!t->calls) continue;
        td_buf_printf(buf,
                      "%s{\"comm\":%u,\"rank\":%u,\"device\":%u,\"op\":"
                      "\"%s\",\"coll.calls\":%llu,\"coll.bytes\":%llu,"
                      "\"coll.steps\":%llu}",
                      is_first ? "" : ",", c->number, r, comm->device,
                      sim_coll_name((sim_coll_op_t)op),
                      (unsigned long long)t->calls,
                      (unsigned long long)t->bytes,
                      (unsigned long long)t->steps);
        is_first = false;
      }
    }
  }
  td_buf_puts(buf, "]");
}

void sim_coll_reset(void) {
  sim_state_t *s = sim_state();
  for (uint32_t i = 0; i < s->clique_count; i++) {
    for (uint32_t r = 0; r < s->cliques[i]->size; r++) {
      sim_comm_t *comm =
          sim_handle_number(SIM_TYPE_COMM, s->cliques[i]->comms[r]);
      if (comm) memset(comm->stats, 0, sizeof comm->stats);
    }
  }
  memset(s->coll_links, 0, sizeof s->coll_links);
  free(s->coll_records);
  s->coll_records = NULL;
  s->coll_record_count = s->coll_record_capacity = 0;
}

/* -- the record: what each call asked for, as it was made -- */

static void place_json(td_buf_t *buf, const char *name, uint64_t address) {
  const sim_alloc_t *a = sim_alloc_find(&sim_state()->memory, address);
  if (!address || !a) return;
  td_buf_printf(buf, ",\"%s\":{\"allocation\":%u,\"offset\":%llu}", name,
                a->id, (unsigned long long)(address - a->address));
}

void sim_coll_record(const sim_comm_t *comm, const sim_part_t *p,
                     const void *stream, uint32_t depth) {
  static const char *const folds[] = {"sum", "prod", "max",
                                      "min", "avg",  "premulsum"};
  sim_state_t *s = sim_state();
  if (s->coll_record_count == s->coll_record_capacity) {
    size_t capacity =
        s->coll_record_capacity ? s->coll_record_capacity * 2 : 64;
    char(*list)[512] = capacity > MAX_RECORDS
                           ? NULL
                           : realloc(s->coll_records, capacity * 512);
    if (!list) return;
    s->coll_records = list;
    s->coll_record_capacity = capacity;
  }
  sim_stream_t *st;
  td_buf_t buf;
  td_buf_init_fixed(&buf, s->coll_records[s->coll_record_count++], 512);
  td_buf_printf(&buf,
                "{\"comm\":%u,\"rank\":%u,\"number\":%llu,\"op\":\"%s\","
                "\"dtype\":\"%s\",\"count\":%llu",
                comm->clique->number, comm->rank,
                (unsigned long long)p->number, sim_coll_name(p->op),
                sim_dtype_name(p->dtype), (unsigned long long)p->count);
  if (p->op == SIM_COLL_ALL_REDUCE || p->op == SIM_COLL_REDUCE ||
      p->op == SIM_COLL_REDUCE_SCATTER)
    td_buf_printf(&buf, ",\"fold\":\"%s\"", folds[p->fold.kind]);
  if (p->op == SIM_COLL_SEND || p->op == SIM_COLL_RECV)
    td_buf_printf(&buf, ",\"peer\":%u", p->peer);
  if (p->op == SIM_COLL_BROADCAST || p->op == SIM_COLL_REDUCE)
    td_buf_printf(&buf, ",\"root\":%u", p->peer);
  sim_stream_of(stream, &st);
  td_buf_printf(&buf, ",\"stream\":%llu,\"group\":%u,\"thread\":%u",
                (unsigned long long)(st ? st->id : 0), depth,
                sim_thread() ? sim_thread()->number : 0);
  place_json(&buf, "send", p->send);
  place_json(&buf, "recv", p->recv);
  td_buf_puts(&buf, "}\n");
}

SIM_EXPORT size_t simgpu_coll_count(void) {
  if (sim_enter("simgpu_coll_count", false)) return 0;
  size_t n = sim_state()->coll_record_count;
  sim_leave(0);
  return n;
}

SIM_EXPORT size_t simgpu_coll_get(size_t index, char *out, size_t bytes) {
  if (sim_enter("simgpu_coll_get", false)) return 0;
  sim_state_t *s = sim_state();
  size_t n = 0;
  if (index < s->coll_record_count) {
    char *text = s->coll_records[index];
    td_buf_t buf = {text, strlen(text), 512, NULL};
    n = sim_give_text(&buf, out, bytes);
  }
  sim_leave(0);
  return n;
}
