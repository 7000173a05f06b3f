/* Orders of communicators. Two that share two devices and are used in one
   order on the one and in the other on the other may hold each other up: the
   device is free to start either first unless an edge (a stream, an event, the
   host) forbids it. */
#include "runtime/simgpu/sim_comm.h"

#include <stdlib.h>

#define MAX_MEETINGS 4096u

/* An operation, as it was queued. */
typedef struct sim_meeting_t {
  const sim_clique_t *clique;
  uint64_t number; /* of its first collective */
  uint32_t device, lane;
  uint64_t seq;
  /* the earlier operation of another communicator on this device, if nothing
     orders the two; 0: none */
  const sim_clique_t *before;
  uint64_t before_number;
} sim_meeting_t;

static bool is_reported(const sim_meeting_t *list, uint32_t count,
                        const sim_meeting_t *now) {
  for (uint32_t i = 0; i < count; i++) {
    const sim_meeting_t *m = &list[i];
    if (m->before && m->device != now->device && m->clique == now->before &&
        m->number == now->before_number && m->before == now->clique &&
        m->before_number == now->number)
      return true;
  }
  return false;
}

static bool push(const sim_meeting_t *m) {
  sim_state_t *s = sim_state();
  if (s->meeting_count == MAX_MEETINGS) {
    s->meeting_count /= 2; /* the older half is forgotten */
    memmove(s->meetings, s->meetings + s->meeting_count,
            s->meeting_count * sizeof *m);
  }
  if ((s->meeting_count & (s->meeting_count - 1)) == 0) {
    uint32_t capacity = s->meeting_count ? s->meeting_count * 2 : 1;
    sim_meeting_t *list = realloc(s->meetings, capacity * sizeof *list);
    if (!list) return false;
    s->meetings = list;
  }
  s->meetings[s->meeting_count++] = *m;
  return true;
}

void sim_coll_judge_order(const sim_coll_t *coll) {
  sim_state_t *s = sim_state();
  const sim_part_t *first = NULL;
  for (uint32_t i = 0; !first && i < coll->count; i++)
    if (coll->parts[i].op < SIM_COLL_SEND) first = &coll->parts[i];
  if (!first || !(s->options.checks & SIM_CHECK_COLL)) return;
  const sim_queued_t *item = coll->item;
  sim_meeting_t now = {.clique = coll->clique, .number = first->number,
                       .device = coll->clique->devices[coll->rank],
                       .lane = item->lane, .seq = item->seq};
  uint32_t count = s->meeting_count;
  for (uint32_t i = 0; i < count; i++) {
    const sim_meeting_t *m = &s->meetings[i];
    if (m->before || m->device != now.device || m->clique == now.clique)
      continue;
    if (sim_clock_at(&item->clock, m->lane) >= m->seq) continue;
    sim_meeting_t pair = now;
    pair.before = m->clique;
    pair.before_number = m->number;
    if (is_reported(s->meetings, count, &pair))
      sim_coll_finding(SIM_CHECK_COLL_ORDER, item->op.name,
                       "device %u uses communicator %u before %u, another "
                       "device the other way round, and nothing orders them",
                       now.device, m->clique->number, now.clique->number);
    if (!push(&pair)) return;
  }
  push(&now);
}
