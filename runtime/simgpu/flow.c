/* Basic blocks, reconvergence points, live ranges and final offsets.

   1. A block ends at a branch and before a label. The reconvergence point of
      a branch is the immediate post-dominator of its block, computed by the
      iterative algorithm of Cooper, Harvey and Kennedy on the reversed graph.
   2. Liveness is per lane: a value belongs to one lane's own path, and stores
      into a row are masked, so the ordinary analysis holds although lanes
      diverge. A guarded write keeps what was there, and so is also a read.
   3. Registers are packed by linear scan over ranges from first to last
      position. A range that reaches the entry may be read before it was
      written; such registers start out undefined. */
#include "runtime/simgpu/decoder.h"

#include <stdlib.h>

uint8_t *sim_leaders(sim_decoder_t *d, const ptx_func_t *f) {
  uint8_t *leaders = TD_NEW_ARRAY(d->scratch, uint8_t, f->ins.length + 1);
  leaders[0] = 1;
  for (uint32_t i = 0; i < f->ins.length; i++) {
    const ptx_ins_t *ins = &f->ins.data[i];
    td_str_t op = ins->op;
    bool is_branch = td_str_starts(op, "bra") || td_str_starts(op, "brx");
    bool ends = is_branch || td_str_starts(op, "ret") ||
                td_str_starts(op, "exit") || td_str_starts(op, "trap") ||
                td_str_starts(op, "call");
    if (ends) leaders[i + 1] = 1;
    if (!is_branch) continue;
    for (uint32_t n = 0; n < ins->count; n++) {
      const ptx_operand_t *o = &f->pool.data[ins->first + n];
      if (o->kind != PTX_OPERAND_LABEL) continue;
      if (!o->value) {
        leaders[o->reg] = 1;
        continue;
      }
      const ptx_label_t *table = &f->tables.data[o->reg];
      for (size_t t = 0; t < table->targets.length; t++)
        leaders[f->pool.data[table->targets.data[t]].reg] = 1;
    }
  }
  return leaders;
}

typedef struct graph_t {
  uint32_t count;       /* blocks; the last is the exit */
  uint32_t first_block; /* number of the first in the kernel */
  uint32_t *start;      /* successors of block b: edges[start[b]..start[b+1]) */
  uint32_t *edges;
  uint32_t *pred_start, *preds;
  uint32_t *ipdom;
} graph_t;

/* Block of an instruction number: branch targets are always leaders. */
typedef struct block_map_t {
  uint32_t *code; /* instruction number -> code of its block's record */
} block_map_t;

typedef TD_VEC(uint32_t) edges_t;

static void add_edge(sim_decoder_t *d, edges_t *edges, uint32_t to) {
  td_vec_push(d->scratch, edges, to);
}

static uint32_t block_at(const sim_decoder_t *d, const block_map_t *map,
                         const graph_t *g, uint32_t ins) {
  return (uint32_t)d->code.data[map->code[ins]].imm - g->first_block;
}

static void successors(sim_decoder_t *d, const sim_part_t *part,
                       const block_map_t *map, graph_t *g) {
  edges_t edges = {0};
  g->count = part->block_end - part->block;
  g->first_block = part->block;
  g->start = TD_NEW_ARRAY(d->scratch, uint32_t, g->count + 2);
  uint32_t exit_block = g->count - 1;
  for (uint32_t b = 0; b < g->count; b++) {
    const sim_block_t *block = &d->kernel->blocks.data[part->block + b];
    g->start[b] = (uint32_t)edges.length;
    if (b == exit_block) continue;
    bool falls = true;
    if (block->count) {
      const sim_ins_t *last = &d->code.data[block->first + block->count - 1];
      switch (last->handler) {
      case SIM_H_bra:
        add_edge(d, &edges, block_at(d, map, g, last->target));
        falls = last->is_guarded;
        break;
      case SIM_H_brx:
        for (uint32_t n = 0; n < last->count; n++)
          add_edge(d, &edges,
                   block_at(d, map, g,
                            d->kernel->lists.data[last->list + n]));
        falls = false;
        break;
      case SIM_H_ret:
      case SIM_H_exit:
      case SIM_H_trap:
        add_edge(d, &edges, exit_block);
        falls = last->is_guarded;
        break;
      default: break;
      }
    }
    if (falls) add_edge(d, &edges, b + 1);
  }
  g->start[g->count] = (uint32_t)edges.length;
  g->edges = edges.data;
  /* predecessors, by counting */
  g->pred_start = TD_NEW_ARRAY(d->scratch, uint32_t, g->count + 2);
  g->preds = TD_NEW_ARRAY(d->scratch, uint32_t, edges.length + 1);
  for (size_t i = 0; i < edges.length; i++)
    g->pred_start[edges.data[i] + 1]++;
  for (uint32_t b = 0; b < g->count; b++)
    g->pred_start[b + 1] += g->pred_start[b];
  uint32_t *fill = TD_NEW_ARRAY(d->scratch, uint32_t, g->count + 1);
  for (uint32_t b = 0; b < g->count; b++)
    for (uint32_t e = g->start[b]; e < g->start[b + 1]; e++) {
      uint32_t to = g->edges[e];
      g->preds[g->pred_start[to] + fill[to]++] = b;
    }
}

#define NONE UINT32_MAX

/* Immediate post-dominators; blocks from which the exit cannot be reached
   reconverge at the exit, that is never. */
static void post_dominators(sim_decoder_t *d, graph_t *g) {
  uint32_t n = g->count, exit_block = n - 1;
  uint32_t *order = TD_NEW_ARRAY(d->scratch, uint32_t, n);  /* postorder */
  uint32_t *number = TD_NEW_ARRAY(d->scratch, uint32_t, n);
  uint32_t *stack = TD_NEW_ARRAY(d->scratch, uint32_t, n + 1);
  uint32_t *next = TD_NEW_ARRAY(d->scratch, uint32_t, n);
  uint8_t *seen = TD_NEW_ARRAY(d->scratch, uint8_t, n);
  uint32_t count = 0, depth = 0;
  g->ipdom = TD_NEW_ARRAY(d->scratch, uint32_t, n);
  for (uint32_t b = 0; b < n; b++) g->ipdom[b] = NONE;
  stack[depth++] = exit_block;
  seen[exit_block] = 1;
  while (depth) {
    uint32_t b = stack[depth - 1];
    if (next[b] < g->pred_start[b + 1] - g->pred_start[b]) {
      uint32_t p = g->preds[g->pred_start[b] + next[b]++];
      if (!seen[p]) {
        seen[p] = 1;
        stack[depth++] = p;
      }
    } else {
      number[b] = count;
      order[count++] = b;
      depth--;
    }
  }
  g->ipdom[exit_block] = exit_block;
  for (bool changed = true; changed;) {
    changed = false;
    for (uint32_t k = count; k-- > 0;) {
      uint32_t b = order[k], best = NONE;
      if (b == exit_block) continue;
      for (uint32_t e = g->start[b]; e < g->start[b + 1]; e++) {
        uint32_t s = g->edges[e];
        if (!seen[s] || g->ipdom[s] == NONE) continue;
        if (best == NONE) {
          best = s;
          continue;
        }
        uint32_t x = s, y = best;
        while (x != y) {
          while (number[x] < number[y]) x = g->ipdom[x];
          while (number[y] < number[x]) y = g->ipdom[y];
        }
        best = x;
      }
      if (best != NONE && g->ipdom[b] != best) {
        g->ipdom[b] = best;
        changed = true;
      }
    }
  }
  for (uint32_t b = 0; b < n; b++)
    if (g->ipdom[b] == NONE) g->ipdom[b] = exit_block;
}

/* -- live ranges -- */

typedef struct live_t {
  uint32_t first, count; /* rows of the part: first .. first + count */
  uint32_t words;
  uint64_t *in; /* count of blocks * words */
} live_t;

void sim_visit_rows(const sim_decoder_t *d, const sim_ins_t *i, sim_visit_t fn,
                    void *arg) {
  const uint32_t *slots[] = {&i->d, &i->a, &i->b, &i->c, &i->e};
  bool has_list = i->count && i->handler != SIM_H_call &&
                  i->handler != SIM_H_brx;
  if (i->is_guarded) fn(arg, i->guard, false);
  for (int s = 0; s < 5; s++) {
    bool writes = (s == 0 && (i->writes & SIM_WRITES_D)) ||
                  (s == 4 && (i->writes & SIM_WRITES_E));
    if (sim_kind(i, s) && (!writes || i->is_guarded))
      fn(arg, *slots[s], false);
  }
  if (has_list) {
    for (uint32_t n = 0; n < i->count; n++) {
      uint32_t entry = d->kernel->lists.data[i->list + n];
      if ((entry & 3u) && (n >= i->list_writes || i->is_guarded))
        fn(arg, entry, false);
    }
  }
  if (i->writes & SIM_WRITES_D) fn(arg, i->d, true);
  if (i->writes & SIM_WRITES_E) fn(arg, i->e, true);
  if (has_list) {
    for (uint32_t n = 0; n < i->list_writes && n < i->count; n++) {
      uint32_t entry = d->kernel->lists.data[i->list + n];
      if (entry & 3u) fn(arg, entry, true);
    }
  }
}

typedef struct transfer_t {
  const live_t *live;
  uint64_t *set;
} transfer_t;

/* Backwards: writes end a range, reads begin one. sim_visit_rows reports
   reads first, so the two are applied from two walks. */
static void apply_writes(void *arg, uint32_t encoded, bool is_write) {
  transfer_t *t = arg;
  uint32_t row = (encoded >> 2) - t->live->first;
  if (is_write && row < t->live->count)
    t->set[row / 64] &= ~(UINT64_C(1) << (row % 64));
}
static void apply_reads(void *arg, uint32_t encoded, bool is_write) {
  transfer_t *t = arg;
  uint32_t row = (encoded >> 2) - t->live->first;
  if (!is_write && row < t->live->count)
    t->set[row / 64] |= UINT64_C(1) << (row % 64);
}

static void live_out(const graph_t *g, const live_t *live, uint32_t b,
                     uint64_t *set) {
  memset(set, 0, live->words * sizeof *set);
  for (uint32_t e = g->start[b]; e < g->start[b + 1]; e++) {
    const uint64_t *in = live->in + (size_t)g->edges[e] * live->words;
    for (uint32_t k = 0; k < live->words; k++) set[k] |= in[k];
  }
}

static bool liveness(sim_decoder_t *d, const sim_part_t *part,
                     const graph_t *g, live_t *live) {
  live->words = (live->count + 63) / 64;
  if ((uint64_t)live->words * g->count > (64u << 20))
    return SIM_FAIL(d, "too many registers for the number of blocks");
  live->in = TD_NEW_ARRAY(d->scratch, uint64_t,
                          (size_t)live->words * g->count + 1);
  uint64_t *set = TD_NEW_ARRAY(d->scratch, uint64_t, live->words + 1);
  for (bool changed = true; changed;) {
    changed = false;
    for (uint32_t b = g->count; b-- > 0;) {
      const sim_block_t *block = &d->kernel->blocks.data[part->block + b];
      transfer_t t = {live, set};
      live_out(g, live, b, set);
      for (uint32_t k = block->count; k-- > 0;) {
        const sim_ins_t *i = &d->code.data[block->first + k];
        sim_visit_rows(d, i, apply_writes, &t);
        sim_visit_rows(d, i, apply_reads, &t);
      }
      uint64_t *in = live->in + (size_t)b * live->words;
      if (memcmp(in, set, live->words * sizeof *set) != 0) {
        memcpy(in, set, live->words * sizeof *set);
        changed = true;
      }
    }
  }
  return true;
}

typedef struct extend_t {
  sim_decoder_t *d;
  uint32_t position;
} extend_t;

static void extend_row(sim_row_t *row, uint32_t from, uint32_t to) {
  if (row->start == UINT32_MAX || from < row->start) row->start = from;
  if (row->end == UINT32_MAX || to > row->end) row->end = to;
}

/* Reads at 2p, writes at 2p + 1, a write that nobody reads until 2p + 2. */
static void extend(void *arg, uint32_t encoded, bool is_write) {
  extend_t *x = arg;
  sim_row_t *row = &x->d->rows.data[encoded >> 2];
  uint32_t p = x->position * 2;
  row->is_used = true;
  row->is_read = row->is_read || !is_write;
  if (row->kind != SIM_ROWKIND_REG) return;
  extend_row(row, is_write ? p + 1 : p, is_write ? p + 2 : p);
}

static void ranges(sim_decoder_t *d, const sim_part_t *part,
                   const graph_t *g, const live_t *live) {
  uint64_t *set = TD_NEW_ARRAY(d->scratch, uint64_t, live->words + 1);
  for (uint32_t b = 0; b < g->count; b++) {
    const sim_block_t *block = &d->kernel->blocks.data[part->block + b];
    uint32_t from = block->first - 1, to = block->first + block->count;
    const uint64_t *in = live->in + (size_t)b * live->words;
    live_out(g, live, b, set);
    for (uint32_t r = 0; r < live->count; r++) {
      uint64_t bit = UINT64_C(1) << (r % 64);
      if (in[r / 64] & bit)
        extend_row(&d->rows.data[live->first + r], 2 * from, 2 * from);
      if (set[r / 64] & bit)
        extend_row(&d->rows.data[live->first + r], 2 * to, 2 * to);
    }
    for (uint32_t k = 0; k < block->count; k++) {
      extend_t x = {d, block->first + k};
      sim_visit_rows(d, &d->code.data[block->first + k], extend, &x);
    }
  }
}

/* -- packing -- */

typedef struct item_t {
  uint32_t row, start, end;
} item_t;

static int by_start(const void *a, const void *b) {
  const item_t *x = a, *y = b;
  if (x->start != y->start) return x->start < y->start ? -1 : 1;
  return x->row < y->row ? -1 : x->row > y->row;
}

/* A heap of slots by the end of who holds them. */
typedef struct heap_t {
  item_t *items; /* row = slot */
  size_t count;
} heap_t;

static void heap_push(heap_t *h, item_t item) {
  size_t i = h->count++;
  while (i && h->items[(i - 1) / 2].end > item.end) {
    h->items[i] = h->items[(i - 1) / 2];
    i = (i - 1) / 2;
  }
  h->items[i] = item;
}

static item_t heap_pop(heap_t *h) {
  item_t top = h->items[0], last = h->items[--h->count];
  size_t i = 0;
  for (;;) {
    size_t c = 2 * i + 1;
    if (c >= h->count) break;
    if (c + 1 < h->count && h->items[c + 1].end < h->items[c].end) c++;
    if (h->items[c].end >= last.end) break;
    h->items[i] = h->items[c];
    i = c;
  }
  h->items[i] = last;
  return top;
}

/* Gives every register of the class a slot from base on; returns how many.
   Parts follow each other, so a callee never shares with its callers. */
static uint32_t pack(sim_decoder_t *d, const live_t *live, uint8_t cls,
                     uint32_t base) {
  size_t capacity = live->count;
  item_t *items = TD_NEW_ARRAY(d->scratch, item_t, capacity + 1);
  heap_t heap = {TD_NEW_ARRAY(d->scratch, item_t, capacity + 1), 0};
  uint32_t *free_slots = TD_NEW_ARRAY(d->scratch, uint32_t, capacity + 1);
  size_t n = 0, free_count = 0;
  uint32_t slots = 0;
  for (uint32_t r = live->first; r < live->first + live->count; r++) {
    const sim_row_t *row = &d->rows.data[r];
    if (row->cls == cls && row->start != UINT32_MAX)
      items[n++] = (item_t){r, row->start, row->end};
  }
  qsort(items, n, sizeof *items, by_start);
  for (size_t k = 0; k < n; k++) {
    while (heap.count && heap.items[0].end < items[k].start)
      free_slots[free_count++] = heap_pop(&heap).row;
    uint32_t slot = free_count ? free_slots[--free_count] : slots++;
    d->rows.data[items[k].row].offset = base + slot;
    heap_push(&heap, (item_t){slot, items[k].start, items[k].end});
  }
  return slots;
}

/* Places of branches and calls as code indices, reconvergence points. */
static void resolve(sim_decoder_t *d, const sim_part_t *part,
                    const graph_t *g, const block_map_t *map) {
  sim_kernel_t *k = d->kernel;
  for (uint32_t b = 0; b < g->count; b++) {
    sim_block_t *block = &k->blocks.data[part->block + b];
    block->ipdom = k->blocks.data[part->block + g->ipdom[b]].first - 1;
    for (uint32_t c = block->first; c < block->first + block->count; c++) {
      sim_ins_t *i = &d->code.data[c];
      i->reconv = block->ipdom;
      if (i->handler == SIM_H_bra || i->handler == SIM_H_ret)
        i->target = map->code[i->target];
      if (i->handler == SIM_H_call)
        i->target = d->parts.data[i->target].code;
      if (i->handler == SIM_H_brx)
        for (uint32_t t = 0; t < i->count; t++)
          k->lists.data[i->list + t] =
              map->code[k->lists.data[i->list + t]];
    }
  }
}

/* Gives the registers of a part their places; slots: taken so far by class. */
static void place_part(sim_decoder_t *d, live_t *live, uint32_t slots[4]) {
  sim_kernel_t *k = d->kernel;
  for (uint32_t r = 0; r < live->count; r++) {
    if (live->words && (live->in[r / 64] >> (r % 64) & 1)) {
      /* may be read before it is written: its row is nobody else's */
      sim_row_t *row = &d->rows.data[live->first + r];
      row->start = 0;
      row->end = UINT32_MAX - 1;
    }
  }
  k->registers += pack(d, live, SIM_ROW_32, 0) +
                  2 * pack(d, live, SIM_ROW_64, 0);
  for (uint32_t r = 0; r < live->count; r++) {
    sim_row_t *row = &d->rows.data[live->first + r];
    if (!row->is_pinned || row->start == UINT32_MAX) continue;
    /* a wgmma uses it for longer than the text shows */
    row->start = 0;
    row->end = UINT32_MAX - 1;
  }
  for (uint8_t cls = 1; cls < 4; cls++)
    slots[cls] += pack(d, live, cls, slots[cls]);
  for (uint32_t r = 0; r < live->count; r++) {
    if (live->words && (live->in[r / 64] >> (r % 64) & 1))
      td_vec_push(d->arena, &k->undefined,
                  (live->first + r) << 2 |
                      d->rows.data[live->first + r].cls);
  }
}

static bool flow_part(sim_decoder_t *d, const sim_part_t *part,
                      uint32_t slots[4]) {
  graph_t g = {0};
  block_map_t map = {
      TD_NEW_ARRAY(d->scratch, uint32_t, part->func->ins.length + 1)};
  live_t live = {.first = part->first_row,
                 .count = (uint32_t)part->func->regs.length};
  for (uint32_t c = part->code; c < part->code_end; c++)
    if (d->code.data[c].is_block) map.code[d->code.data[c].target] = c;
  successors(d, part, &map, &g);
  post_dominators(d, &g);
  resolve(d, part, &g, &map);
  if (!liveness(d, part, &g, &live)) return false;
  ranges(d, part, &g, &live);
  place_part(d, &live, slots);
  return true;
}

bool sim_flow(sim_decoder_t *d) {
  uint32_t slots[4] = {0};
  slots[SIM_ROW_PRED] = 1; /* offset 0: all lanes */
  for (size_t n = 0; n < d->parts.length; n++)
    if (!flow_part(d, &d->parts.data[n], slots)) return false;
  return sim_finish(d, slots);
}
