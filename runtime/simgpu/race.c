#include "runtime/simgpu/race.h"

#include "runtime/simgpu/flags.h"
#include "runtime/simgpu/its.h"

#include <stdlib.h>

#define SIM_AGENT_MANY UINT32_MAX

/* -- barriers -- */

void sim_new_stamp(sim_cta_t *cta) {
  cta->stamp++;
  if (cta->stamp < SIM_STAMPS || !cta->tags) return;
  memset(cta->tags, 0, (cta->shared_bytes / 4 + 1) * sizeof *cta->tags);
  cta->stamp = 1;
}

void sim_warp_tick(sim_warp_t *w) {
  sim_cta_t *cta = w->cta;
  if ((++w->sync_clock & 255) != 0 || !cta->tags) return;
  const uint64_t who = UINT64_C(63) << 30, lane = UINT64_C(63) << 24;
  for (uint32_t k = 0; k < cta->shared_bytes / 4 + 1; k++) {
    uint64_t *tag = &cta->tags[k];
    if (*tag >> 44 == cta->stamp && (*tag & who) == (uint64_t)w->id << 30)
      *tag = (*tag & ~lane) | (uint64_t)SIM_TAG_MANY_LANES << 24;
  }
}

void sim_barrier_add(sim_barrier_t *b, const sim_ins_t *ins, uint32_t p,
                     uint32_t m) {
  if (b->kind == 0) b->reduction = ins->sub == SIM_ATOM_AND ? 1 : 0;
  if (ins->sub == SIM_ATOM_ADD)
    b->reduction += (uint32_t)__builtin_popcount(p);
  else if (ins->sub == SIM_ATOM_AND)
    b->reduction &= p == m;
  else
    b->reduction |= p != 0;
}

void sim_barrier_deliver(sim_warp_t *w, const sim_ins_t *ins, uint32_t value,
                         uint32_t m) {
  if (ins->handler != SIM_H_bar_red) return;
  if (sim_kind(ins, 0) == SIM_ROW_PRED) {
    sim_set_pred(w, ins->d, value ? SIM_FULL : 0, m);
    return;
  }
  for (uint32_t l = 0; l < 32; l++)
    if (m >> l & 1) sim_row(w, ins->d)[l] = value;
}

static bool is_complete(const sim_cta_t *cta, const sim_barrier_t *b) {
  if (!b->is_all) return b->arrived >= b->expected;
  for (uint32_t k = 0; k < cta->warp_count; k++)
    if (cta->warps[k].state != SIM_WARP_DONE && !(b->joined >> k & 1))
      return false;
  return true;
}

static void complete(sim_cta_t *cta, uint32_t id) {
  cta->worker->progress++;
  sim_barrier_t *b = &cta->barriers[id];
  uint32_t n = cta->warp_count, words = cta->clock_words;
  uint32_t *clocks = cta->barrier_clocks + (size_t)id * words;
  bool everyone = true;
  for (uint32_t k = 0; k < n; k++) {
    sim_warp_t *w = &cta->warps[k];
    if (w->state == SIM_WARP_DONE) continue;
    bool waits = b->waiting >> k & 1;
    everyone = everyone && waits;
    if (!waits) continue;
    sim_learn(w->clocks, clocks, words);
    w->sync_clock++;
    if (w->its && sim_its_release(w, id, b->reduction)) continue;
    if (w->state == SIM_WARP_BARRIER) w->state = SIM_WARP_READY;
    sim_barrier_deliver(w, w->ip - 1, b->reduction, w->active);
  }
  if (everyone) {
    cta->epoch++;
    sim_new_stamp(cta);
  }
  memset(clocks, 0, words * sizeof *clocks);
  memset(b, 0, sizeof *b);
}

const sim_ins_t *sim_barrier_join(sim_warp_t *w, const sim_ins_t *ins,
                                  uint32_t id, uint32_t count, uint8_t kind,
                                  bool waits) {
  sim_cta_t *cta = w->cta;
  sim_barrier_t *b = &cta->barriers[id];
  uint64_t me = UINT64_C(1) << w->id;
  if (b->kind == 0) {
    b->kind = kind;
    b->is_all = count == 0;
    b->expected = count;
  } else if (b->kind != kind) {
    if (!sim_find(w, ins, SIM_CHECK_BAR_MIX, 32, PTX_SPACE_REG, id, 0,
                  "bar.red mixed with bar.sync on barrier %u", id))
      return NULL;
  } else if (b->is_all != (count == 0) || b->expected != count) {
    if (!sim_find(w, ins, SIM_CHECK_BAR_COUNT, 32, PTX_SPACE_REG, id, 0,
                  "barrier %u is joined for %u threads and was begun for %u",
                  id, count ? count : cta->launch->threads,
                  b->is_all ? cta->launch->threads : b->expected))
      return NULL;
  }
  if (b->joined & me) {
    if (!sim_find(w, ins, SIM_CHECK_BAR_COUNT, 32, PTX_SPACE_REG, id, 0,
                  "the warp joins barrier %u again before it completed", id))
      return NULL;
  }
  b->joined |= me;
  b->arrived += 32;
  sim_learn(cta->barrier_clocks + (size_t)id * cta->clock_words, w->clocks,
            cta->clock_words);
  w->clocks[w->agent]++;
  if (waits) {
    b->waiting |= me;
    w->state = SIM_WARP_BARRIER;
    w->wait = (uint8_t)id;
    w->ip = ins + 1;
  }
  if (is_complete(cta, b)) complete(cta, id);
  return waits && w->state == SIM_WARP_BARRIER ? NULL : ins + 1;
}

void sim_barrier_exit(sim_warp_t *w) {
  sim_cta_t *cta = w->cta;
  for (uint32_t id = 0; id < SIM_BARRIERS; id++) {
    sim_barrier_t *b = &cta->barriers[id];
    if (b->kind && b->is_all && b->waiting && is_complete(cta, b))
      complete(cta, id);
  }
}

/* -- races -- */

static bool report(sim_warp_t *w, const sim_ins_t *ins, uint32_t lane,
                   uint32_t offset, uint32_t bytes, const char *what,
                   uint32_t other, uint32_t agent, uint32_t other_lane) {
  const sim_cta_t *cta = w->cta;
  uint32_t warps = cta->warp_count;
  bool many = agent == SIM_AGENT_MANY, same_warp = agent == w->agent;
  char place[128], who[64];
  td_buf_t buf;
  sim_place_text(cta->launch->kernel, other, place, sizeof place);
  td_buf_init_fixed(&buf, who, sizeof who);
  if (many) {
    td_buf_printf(&buf, "several warps, among them one's lane %u",
                  other_lane & 31);
  } else if (agent >= cta->reader_count) {
    td_buf_puts(&buf, "a copy whose mbarrier this thread did not wait for");
  } else if (agent >= warps * cta->cluster_count) {
    td_buf_puts(&buf, "an mma_async whose wait is not known here to be over");
  } else {
    td_buf_printf(&buf, "warp %u", agent % warps);
    if (cta->cluster_count > 1)
      td_buf_printf(&buf, " of CTA %u of the cluster", agent / warps);
    td_buf_printf(&buf, " lane %u", other_lane & 31);
  }
  return sim_find(w, ins,
                  same_warp ? SIM_CHECK_RACE_WARP : SIM_CHECK_RACE_SHARED,
                  lane, PTX_SPACE_SHARED,
                  offset - cta->launch->shared_start, bytes,
                  "%s by %s (%s) is not ordered before", what, who, place);
}

/* The bytes [offset, end) that lie in a word, as a mask. */
static uint8_t bytes_of(uint32_t word, uint32_t offset, uint32_t end) {
  uint32_t low = offset > word * 4 ? offset - word * 4 : 0;
  uint32_t high = end < word * 4 + 4 ? end - word * 4 : 4;
  return (uint8_t)((1u << high) - (1u << low));
}

static sim_race_word_t *record_of(sim_cta_t *cta, uint32_t word) {
  sim_race_word_t *r = &cta->races[word];
  if (r->generation != cta->generation) {
    memset(r, 0, sizeof *r);
    r->generation = cta->generation;
  }
  return r;
}

/* -- vectors: the clocks of all agents that read a word since its write -- */

void sim_race_restart(sim_cta_t *cta) {
  cta->vectors.count = cta->vectors.count ? 1 : 0;
  cta->vectors.free_list = 0;
}

static uint32_t *vector_at(const sim_cta_t *cta, uint32_t index) {
  return cta->vectors.data + (size_t)index * cta->reader_count;
}

/* A vector of zeros; 0 if the host has no memory, which loses readers. */
static uint32_t vector_new(sim_cta_t *cta) {
  sim_vectors_t *v = &cta->vectors;
  uint32_t index = v->free_list;
  size_t row = cta->reader_count * sizeof *v->data;
  if (index) {
    v->free_list = vector_at(cta, index)[0];
  } else {
    if (v->count == v->capacity) {
      uint32_t capacity = v->capacity ? v->capacity * 2 : 64;
      uint32_t *data = realloc(v->data, capacity * row);
      if (!data) return 0;
      v->data = data;
      v->capacity = capacity;
    }
    if (v->count == 0) v->count = 1;
    index = v->count++;
  }
  memset(vector_at(cta, index), 0, row);
  return index;
}

static void vector_drop(sim_cta_t *cta, sim_race_word_t *r) {
  if (!r->read_vector) return;
  vector_at(cta, r->read_vector)[0] = cta->vectors.free_list;
  cta->vectors.free_list = r->read_vector;
  r->read_vector = 0;
}

/* Adds a read; reads that are ordered before it need no memory. */
static void add_read(sim_warp_t *w, sim_cta_t *cta, sim_race_word_t *r,
                     uint32_t lane, uint32_t line, uint8_t mask) {
  uint32_t now = w->clocks[w->agent], me = w->agent;
  bool fresh = !r->read_clock ||
               (cta->cluster_count == 1 && r->read_epoch != cta->epoch);
  if (!fresh && !r->read_vector && r->read_agent != me)
    fresh = w->clocks[r->read_agent] >= r->read_clock;
  if (fresh) {
    vector_drop(cta, r);
    r->read_bytes = 0;
  }
  bool same = !fresh && r->read_agent == me && r->read_sync == w->sync_clock &&
              r->read_clock == now;
  if (!fresh && !r->read_vector && r->read_agent != me) {
    r->read_vector = vector_new(cta);
    if (r->read_vector)
      vector_at(cta, r->read_vector)[r->read_agent] = r->read_clock;
  }
  if (r->read_vector) vector_at(cta, r->read_vector)[me] = now;
  r->read_lane =
      (uint8_t)(same && r->read_lane != lane ? SIM_TAG_MANY_LANES : lane);
  r->read_agent = (uint16_t)me;
  r->read_clock = now;
  r->read_sync = w->sync_clock;
  r->read_line = line;
  r->read_epoch = cta->epoch;
  r->read_bytes |= mask;
}

/* A strong read, of which the last is remembered. */
static void add_flag(const sim_warp_t *w, sim_race_word_t *r, uint32_t line,
                     uint8_t mask, unsigned strength) {
  uint32_t now = w->clocks[w->agent];
  bool again = r->flag_bytes && r->flag_agent == w->agent &&
               r->flag_clock == now;
  r->flag_bytes = again ? (uint8_t)(r->flag_bytes | mask) : mask;
  r->flag_strength =
      (uint8_t)(again ? r->flag_strength & strength : strength);
  r->flag_agent = (uint16_t)w->agent;
  r->flag_clock = now;
  r->flag_line = line;
}

/* Two conflicting accesses that are no race although nothing orders them. */
static bool may_meet(const sim_cta_t *cta, uint32_t agent, uint32_t other,
                     unsigned strength, unsigned other_strength) {
  unsigned both = strength & other_strength, need = SIM_STRONG;
  if (agent == other)
    need = SIM_STRONG_LANE;
  else if (agent / cta->warp_count != other / cta->warp_count)
    need = SIM_STRONG | SIM_STRONG_WIDE;
  return (both & need) == need;
}

/* An agent whose read is not ordered before what the warp does now, or
   UINT32_MAX. */
static uint32_t unordered_reader(const sim_warp_t *w, const sim_cta_t *cta,
                                 const sim_race_word_t *r, uint32_t lane,
                                 bool is_atomic) {
  uint32_t me = w->agent;
  if (r->read_agent != me) {
    if (w->clocks[r->read_agent] < r->read_clock) return r->read_agent;
  } else if (r->read_lane != lane && r->read_clock == w->clocks[me] &&
             r->read_sync == w->sync_clock && !is_atomic) {
    return me;
  }
  if (!r->read_vector) return UINT32_MAX;
  const uint32_t *v = vector_at(cta, r->read_vector);
  for (uint32_t a = 0; a < cta->reader_count; a++)
    if (v[a] > w->clocks[a] && a != me) return a;
  return UINT32_MAX;
}

/* An ordered write: the async proxy sees it only after a fence. */
static bool judge_proxy(sim_warp_t *w, sim_cta_t *cta, const sim_ins_t *ins,
                        uint32_t lane, uint32_t offset, uint32_t bytes,
                        const sim_race_word_t *r) {
  char place[128];
  if (r->is_async ||
      w->clocks[cta->agent_count + r->write_agent] >= r->write_clock)
    return true;
  sim_place_text(cta->launch->kernel, r->write_line, place, sizeof place);
  return sim_find(w, ins, SIM_CHECK_PROXY_FENCE, lane, PTX_SPACE_SHARED,
                  offset - cta->launch->shared_start, bytes,
                  "was written by an ordinary access (%s), and no "
                  "fence.proxy.async comes in between",
                  place);
}

bool sim_race_access(sim_warp_t *w, sim_cta_t *cta, const sim_ins_t *ins,
                     uint32_t lane, uint32_t offset, uint32_t bytes,
                     unsigned flags) {
  uint32_t end = offset + bytes;
  uint32_t now = w->clocks[w->agent], me = w->agent;
  uint32_t line = (uint32_t)(ins - w->code);
  bool is_write = flags & SIM_RACE_WRITE;
  bool is_atomic = flags & SIM_RACE_ATOMIC;
  bool is_async = flags & SIM_RACE_ASYNC;
  unsigned strength = is_async ? 0 : sim_strength(ins, is_atomic);
  bool is_flag = w->fenced && strength && !is_write;
  for (uint32_t word = offset / 4; word * 4 < end; word++) {
    sim_race_word_t *r = record_of(cta, word);
    uint8_t mask = bytes_of(word, offset, end);
    if (r->write_clock && (r->write_bytes & mask) &&
        !may_meet(cta, me, r->write_agent, strength, r->write_strength)) {
      bool ordered =
          r->write_agent != me
              ? w->clocks[r->write_agent] >= r->write_clock
              : r->write_lane == lane || r->write_clock < now ||
                    r->write_sync != w->sync_clock ||
                    r->serial == w->serial ||
                    /* lanes that are apart write it one after another */
                    (w->its && is_write && r->write_line == line);
      if (!ordered) {
        if (!report(w, ins, lane, offset, bytes, "a write", r->write_line,
                    r->write_agent, r->write_lane))
          return false;
      } else if (is_async &&
                 !judge_proxy(w, cta, ins, lane, offset, bytes, r)) {
        return false;
      }
    }
    if (!is_write) {
      if (flags & SIM_RACE_JUDGE) continue;
      if (is_flag)
        add_flag(w, r, line, mask, strength);
      else
        add_read(w, cta, r, lane, line, mask);
      continue;
    }
    if (r->flag_bytes & mask && r->flag_agent != me &&
        w->clocks[r->flag_agent] < r->flag_clock &&
        !may_meet(cta, me, r->flag_agent, strength, r->flag_strength) &&
        !report(w, ins, lane, offset, bytes, "a read", r->flag_line,
                r->flag_agent, SIM_TAG_MANY_LANES))
      return false;
    if (r->read_clock && (r->read_bytes & mask)) {
      uint32_t agent = unordered_reader(w, cta, r, lane, is_atomic);
      if (agent != UINT32_MAX &&
          !report(w, ins, lane, offset, bytes, "a read", r->read_line, agent,
                  r->read_lane))
        return false;
    }
    if (flags & SIM_RACE_JUDGE) continue;
    bool again = r->write_agent == me && r->write_clock == now &&
                 r->serial == w->serial;
    r->write_bytes = again ? (uint8_t)(r->write_bytes | mask) : mask;
    r->write_clock = now;
    r->write_sync = w->sync_clock;
    r->write_line = line;
    r->write_agent = (uint16_t)me;
    r->write_lane = (uint8_t)lane;
    r->serial = w->serial;
    r->write_strength = (uint8_t)strength;
    r->is_async = is_async;
    r->read_clock = 0;
    r->flag_bytes = 0;
    vector_drop(cta, r);
  }
  return true;
}

void sim_race_stamp(sim_cta_t *cta, uint32_t offset, uint32_t bytes,
                    const sim_stamp_t *stamp) {
  uint32_t end = offset + bytes;
  for (uint32_t word = offset / 4; word * 4 < end; word++) {
    sim_race_word_t *r = record_of(cta, word);
    uint8_t mask = bytes_of(word, offset, end);
    bool again =
        r->write_agent == stamp->agent && r->write_clock == stamp->clock;
    r->write_bytes = again ? (uint8_t)(r->write_bytes | mask) : mask;
    r->write_clock = stamp->clock;
    r->write_sync = stamp->sync;
    r->write_line = stamp->line;
    r->write_agent = stamp->agent;
    r->write_lane = stamp->lane;
    r->serial = stamp->serial;
    r->write_strength = stamp->is_atomic ? SIM_STRONG_ALL : 0;
    r->flag_bytes = 0;
    r->is_async = stamp->is_async;
    r->read_clock = 0;
    vector_drop(cta, r);
  }
}

void sim_race_read_by(sim_cta_t *cta, uint32_t offset, uint32_t bytes,
                      uint32_t agent, uint32_t clock, uint32_t line) {
  uint32_t end = offset + bytes;
  for (uint32_t word = offset / 4; word * 4 < end; word++) {
    sim_race_word_t *r = record_of(cta, word);
    if (!r->read_clock ||
        (cta->cluster_count == 1 && r->read_epoch != cta->epoch)) {
      vector_drop(cta, r);
      r->read_bytes = 0;
    } else if (!r->read_vector && r->read_agent != agent) {
      r->read_vector = vector_new(cta);
      if (r->read_vector)
        vector_at(cta, r->read_vector)[r->read_agent] = r->read_clock;
    }
    if (r->read_vector) vector_at(cta, r->read_vector)[agent] = clock;
    r->read_agent = (uint16_t)agent;
    r->read_clock = clock;
    r->read_sync = 0;
    r->read_lane = SIM_TAG_MANY_LANES;
    r->read_line = line;
    r->read_epoch = cta->epoch;
    r->read_bytes |= bytes_of(word, offset, end);
  }
}

void sim_race_writers(const sim_cta_t *cta, uint32_t offset, uint32_t bytes,
                      sim_writers_t *out) {
  uint32_t end = offset + bytes;
  for (uint32_t word = offset / 4; word * 4 < end; word++) {
    const sim_race_word_t *r = &cta->races[word];
    if (r->generation != cta->generation || !r->write_clock) continue;
    uint32_t n = 0;
    while (n < out->count && n < SIM_MAX_WRITERS &&
           (out->list[n].agent != r->write_agent ||
            out->list[n].is_async != r->is_async))
      n++;
    if (n >= SIM_MAX_WRITERS) {
      out->count = SIM_MAX_WRITERS + 1;
      return;
    }
    if (n == out->count) {
      out->count++;
      out->list[n].agent = r->write_agent;
      out->list[n].is_async = r->is_async;
      out->list[n].clock = r->write_clock;
    } else if (r->write_clock > out->list[n].clock) {
      out->list[n].clock = r->write_clock;
    }
  }
}

bool sim_race_heard(const sim_warp_t *w, const sim_cta_t *cta,
                    const sim_writers_t *writers) {
  if (writers->count > SIM_MAX_WRITERS) return false;
  for (uint32_t n = 0; n < writers->count; n++) {
    uint32_t agent = writers->list[n].agent, clock = writers->list[n].clock;
    if (agent == w->agent ? clock >= w->clocks[agent]
                          : clock > w->clocks[agent])
      return false;
    if (!writers->list[n].is_async &&
        clock > w->clocks[cta->agent_count + agent])
      return false;
  }
  return true;
}

bool sim_tag_meet(sim_warp_t *w, const sim_ins_t *ins, uint64_t *tag,
                  uint64_t now, uint32_t lane, uint32_t offset,
                  uint32_t size) {
  uint64_t old = *tag;
  uint32_t old_warp = (uint32_t)(old >> 30) & 63;
  uint32_t old_lane = (uint32_t)(old >> 24) & 63;
  uint32_t old_bytes = (uint32_t)(old >> 20) & 15;
  uint32_t bytes = (uint32_t)(now >> 20) & 15;
  bool writes = now >> 19 & 1, wrote = old >> 19 & 1;
  bool both_atomic = (now >> 18 & 1) && (old >> 18 & 1);
  bool same_warp = old_warp == w->id;
  bool conflict = (writes || wrote) && !both_atomic && (bytes & old_bytes);
  if (conflict && same_warp) {
    /* lanes of one instruction, or ordered by bar.warp.sync */
    uint32_t line = (uint32_t)(now & 0x3FFFF);
    bool same_ins = wrote && writes && (old & 0x3FFFF) == line;
    conflict = old_lane != lane && old_lane != SIM_TAG_MANY_LANES &&
               !same_ins && (old >> 36 & 255) == (now >> 36 & 255);
  }
  /* several warps wrote parts of the word: which one is not known */
  if (old_warp == SIM_TAG_MANY_WARPS && wrote) conflict = false;
  if (conflict && !report(w, ins, lane, offset, size,
                          wrote ? "a write" : "a read",
                          (uint32_t)(old & 0x3FFFF),
                          old_warp == SIM_TAG_MANY_WARPS
                              ? SIM_AGENT_MANY
                              : w->agent - w->id + old_warp,
                          old_lane))
    return false;
  if (!writes && wrote) return true; /* the write says more */
  if (writes && !wrote) {
    *tag = now;
    return true;
  }
  /* two reads, or two writes to parts */
  uint64_t joined = now | (old & UINT64_C(15) << 20);
  if (!same_warp)
    joined = (joined & ~(UINT64_C(63) << 30)) |
             (uint64_t)SIM_TAG_MANY_WARPS << 30;
  if (!same_warp || old_lane != lane)
    joined = (joined & ~(UINT64_C(63) << 24)) |
             (uint64_t)SIM_TAG_MANY_LANES << 24;
  *tag = joined;
  return true;
}
