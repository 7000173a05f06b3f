#include "runtime/simgpu/wgmma.h"

#include "runtime/simgpu/async.h"
#include "runtime/simgpu/grid.h"
#include "runtime/simgpu/tensor.h"

#include <stdlib.h>

#define MAX_PENDING 4096u

/* -- lifetime -- */

static uint32_t row_count(const sim_cta_t *cta) {
  return cta->launch->kernel->block_bytes / 128 + 1;
}

bool sim_groups_new(sim_cta_t *cta) {
  if (!cta->launch->kernel->has_warpgroup) return true;
  uint32_t rows = row_count(cta);
  cta->group_count = (cta->warp_count + 3) / SIM_GROUP_WARPS;
  cta->groups = calloc(cta->group_count, sizeof *cta->groups);
  if (!cta->groups) return false;
  for (uint32_t n = 0; n < cta->group_count; n++) {
    sim_group_t *g = &cta->groups[n];
    g->cta = cta;
    g->first = n * SIM_GROUP_WARPS;
    for (uint32_t k = 0; k < SIM_GROUP_WARPS; k++) {
      g->touched[k] = calloc(rows, sizeof **g->touched);
      g->pending[k] = calloc(rows, 1);
      if (!g->touched[k] || !g->pending[k]) return false;
    }
  }
  return true;
}

void sim_groups_free(sim_cta_t *cta) {
  for (uint32_t n = 0; cta->groups && n < cta->group_count; n++) {
    sim_group_t *g = &cta->groups[n];
    for (uint32_t k = 0; k < SIM_GROUP_WARPS; k++) {
      free(g->touched[k]);
      free(g->pending[k]);
    }
    free(g->ops);
  }
  free(cta->groups);
}

void sim_groups_start(sim_cta_t *cta) {
  uint32_t rows = cta->groups ? row_count(cta) : 0;
  const sim_launch_t *launch = cta->launch;
  /* a kernel that moves registers between warps is given all there are */
  uint32_t all = launch->row->registers / launch->threads & ~7u;
  uint32_t limit = sim_register_limit(launch->kernel->func);
  cta->free_registers = 0;
  for (uint32_t n = 0; cta->groups && n < cta->group_count; n++) {
    sim_group_t *g = &cta->groups[n];
    g->base = g->count = 0;
    g->waiting = 0;
    g->clock = 0;
    for (uint32_t k = 0; k < SIM_GROUP_WARPS; k++) {
      g->issued[k] = g->committed[k] = g->commits[k] = g->changes[k] = 0;
      g->registers[k] = limit < all ? limit : all;
      memset(g->pending[k], 0, rows);
      for (uint32_t r = 0; r < rows; r++) g->touched[k][r] = SIM_TOUCHED;
    }
  }
}

static uint32_t number_of(const sim_warp_t *w) {
  return w->id % SIM_GROUP_WARPS;
}

/* The entry's register rows: D first, then those of A. */
static uint32_t d_count(const sim_ins_t *ins) {
  return ins->list_writes;
}

static uint32_t a_count(const sim_ins_t *ins) {
  return ins->imm & SIM_WGMMA_REGISTERS ? 4 : 0;
}

static uint32_t row_at(const sim_warp_t *w, const sim_ins_t *ins,
                       uint32_t n) {
  return sim_list(w, ins, n) / 128;
}

static void mark_pending(sim_group_t *g, const sim_warp_t *w,
                         const sim_ins_t *ins) {
  uint8_t *pending = g->pending[number_of(w)];
  for (uint32_t n = 0; n < d_count(ins) + a_count(ins); n++)
    pending[row_at(w, ins, n)] |=
        n < d_count(ins) ? SIM_PENDING_D : SIM_PENDING_A;
}

bool sim_group_exit(sim_warp_t *w) {
  if (!w->cta->groups) return true;
  sim_group_t *g = &w->cta->groups[w->id / SIM_GROUP_WARPS];
  uint32_t me = number_of(w);
  for (uint32_t n = 0; n < g->count; n++) {
    const sim_wgmma_t *op = &g->ops[n];
    if (!(op->arrived >> me & 1)) continue;
    return sim_find(w, op->ins, SIM_CHECK_ASYNC_EXIT, 32, PTX_SPACE_REG, 0,
                    0, op->group == SIM_NO_COMMIT
                              ? "is pending when the warp exits: no "
                                "commit_group closed its group"
                              : "is pending when the warp exits: no "
                                "wait_group covers it");
  }
  for (uint32_t k = 0; k < SIM_GROUP_WARPS; k++) {
    uint32_t id = g->first + k;
    if (id >= w->cta->warp_count || w->cta->warps[id].state != SIM_WARP_DONE)
      continue;
    if (g->changes[k] == g->changes[me]) continue;
    return sim_find(w, w->code, SIM_CHECK_WARP_REGS, 32, PTX_SPACE_REG, 0, 0,
                    "warp %u executed setmaxnreg %u times, warp %u of its "
                    "warpgroup %u times", w->id, g->changes[me], id,
                    g->changes[k]);
  }
  return true;
}

sim_group_t *sim_group_of(sim_warp_t *w, const sim_ins_t *ins, uint32_t m) {
  sim_group_t *g = &w->cta->groups[w->id / SIM_GROUP_WARPS];
  uint32_t away = ~m;
  if (away) {
    sim_find(w, ins, SIM_CHECK_WARP_MATRIX, (unsigned)__builtin_ctz(away),
             PTX_SPACE_REG, 0, 0,
             "lane does not take part in its warp's matrix instruction");
    return NULL;
  }
  for (uint32_t k = 0; k < SIM_GROUP_WARPS; k++) {
    uint32_t id = g->first + k;
    /* one that has ended must have executed as many matrix instructions */
    if (id < w->cta->warp_count &&
        (w->cta->warps[id].state != SIM_WARP_DONE ||
         ins->handler != SIM_H_wgmma ||
         g->issued[k] > g->issued[number_of(w)]))
      continue;
    sim_find(w, ins, SIM_CHECK_WARP_MATRIX, 32, PTX_SPACE_REG, 0, 0,
             "warp %u of the warpgroup %s", id,
             id < w->cta->warp_count ? "has exited" : "does not exist");
    return NULL;
  }
  return g;
}

/* -- registers -- */

static uint16_t shape_of(const sim_ins_t *ins) {
  uint32_t k = SIM_WGMMA_K(ins->imm);
  uint32_t code = k == 8 ? 0 : k == 16 ? 1 : k == 32 ? 2 : 3;
  return (uint16_t)(2 + (SIM_WGMMA_N(ins->imm) / 8 << 2 | code));
}

static bool judge_registers(sim_warp_t *w, sim_group_t *g,
                            const sim_ins_t *ins) {
  uint16_t *touched = g->touched[number_of(w)];
  const uint8_t *pending = g->pending[number_of(w)];
  uint16_t shape = shape_of(ins);
  for (uint32_t n = 0; n < d_count(ins) + a_count(ins); n++) {
    uint32_t row = row_at(w, ins, n);
    bool is_d = n < d_count(ins);
    uint32_t number = is_d ? n : n - d_count(ins);
    if ((is_d ? pending[row] & SIM_PENDING_A : pending[row] & SIM_PENDING_D) &&
        !sim_find(w, ins, SIM_CHECK_WGMMA_REGS, 32, PTX_SPACE_REG, 0, 0,
                  "register %u of %s belongs to an mma_async that no "
                  "wait_group has covered", number, is_d ? "D" : "A"))
      return false;
    if (touched[row] == 0 || (is_d && touched[row] == shape)) continue;
    if (!sim_find(w, ins, SIM_CHECK_WGMMA_FENCE, 32, PTX_SPACE_REG, 0, 0,
                  "register %u of %s was used by %s, and no wgmma.fence "
                  "comes in between", number, is_d ? "D" : "A",
                  touched[row] == SIM_TOUCHED ? "other instructions"
                                              : "an mma_async of another "
                                                "shape or as accumulator"))
      return false;
    break; /* one report an instruction */
  }
  for (uint32_t n = 0; n < d_count(ins); n++)
    touched[row_at(w, ins, n)] = shape;
  return true;
}

bool sim_wgmma_touch(sim_warp_t *w, const sim_ins_t *ins) {
  if (!w->cta->groups) return true;
  sim_group_t *g = &w->cta->groups[w->id / SIM_GROUP_WARPS];
  uint16_t *touched = g->touched[number_of(w)];
  const uint8_t *pending = g->pending[number_of(w)];
  const uint32_t slots[] = {ins->d, ins->a, ins->b, ins->c, ins->e};
  uint32_t total = 5u + ins->count;
  for (uint32_t n = 0; n < total; n++) {
    uint32_t entry = n < 5 ? slots[n] | sim_kind(ins, (int)n)
                           : sim_list(w, ins, n - 5);
    bool is_write = n >= 5   ? n - 5 < ins->list_writes
                    : n == 0 ? (ins->writes & SIM_WRITES_D) != 0
                             : n == 4 && (ins->writes & SIM_WRITES_E);
    if ((entry & 3u) != SIM_ROW_32) continue;
    uint32_t row = entry / 128;
    bool bad = (pending[row] & SIM_PENDING_D) ||
               (is_write && (pending[row] & SIM_PENDING_A));
    if (bad && !sim_find(w, ins, SIM_CHECK_WGMMA_REGS, 32, PTX_SPACE_REG, 0,
                         0, "%s a register of %s of an mma_async that no "
                         "wait_group has covered",
                         is_write ? "writes" : "reads",
                         pending[row] & SIM_PENDING_D ? "D" : "A"))
      return false;
    touched[row] = SIM_TOUCHED;
  }
  return true;
}

bool sim_wgmma_fence(sim_warp_t *w, sim_group_t *g) {
  memset(g->touched[number_of(w)], 0,
         row_count(w->cta) * sizeof **g->touched);
  return true;
}

/* -- the queue -- */

/* Carries out what all warps have issued, up to a number of entries. */
static bool run_some(sim_group_t *g, uint32_t limit, sim_wgmma_run_t run) {
  for (uint32_t n = 0; n < g->count && limit; n++) {
    sim_wgmma_t *op = &g->ops[n];
    if (op->is_done) continue;
    if (op->arrived != SIM_ALL_WARPS) return true;
    op->is_done = true;
    limit--;
    if (!run(g, op)) return false;
  }
  return true;
}

/* Something happened: what the mode lets complete now does. */
static bool tick(sim_group_t *g, sim_wgmma_run_t run) {
  switch (g->cta->launch->options->async) {
  case SIM_ASYNC_IMMEDIATE: return run_some(g, UINT32_MAX, run);
  case SIM_ASYNC_RANDOM:
    return run_some(g, (uint32_t)(sim_random(&g->cta->random) % 3), run);
  default: return true;
  }
}

static sim_wgmma_t *new_entry(sim_group_t *g) {
  if (g->count == g->capacity) {
    uint32_t capacity = g->capacity ? g->capacity * 2 : 32;
    sim_wgmma_t *ops = capacity > MAX_PENDING
                           ? NULL
                           : realloc(g->ops, capacity * sizeof *ops);
    if (!ops) return NULL;
    g->ops = ops;
    g->capacity = capacity;
  }
  return &g->ops[g->count++];
}

/* One value for the whole warp. */
static bool uniform(sim_warp_t *w, const sim_ins_t *ins, uint32_t offset,
                    const char *what, uint64_t *out) {
  const sim_u64 *v = sim_row64(w, offset);
  *out = v[0];
  for (uint32_t l = 0; l < 32; l++) {
    if (w->is_tainted && sim_shadow(w, offset)[l] &&
        !sim_find(w, ins, SIM_CHECK_INIT_USE, l, PTX_SPACE_REG, 0, 0,
                  "the descriptor of %s depends on a value that was never "
                  "written", what))
      return false;
    if (v[l] != *out)
      return sim_find(w, ins, SIM_CHECK_WGMMA_DESC, l, PTX_SPACE_REG, 0, 0,
                      "the descriptor of %s differs between lanes: 0x%llx, "
                      "0x%llx", what, (unsigned long long)*out,
                      (unsigned long long)v[l]);
  }
  uint64_t reserved = *out & UINT64_C(0x3FF1C000C000C000);
  if (reserved)
    return sim_find(w, ins, SIM_CHECK_WGMMA_DESC, 32, PTX_SPACE_REG, 0, 0,
                    "the descriptor of %s, 0x%llx, has bits that mean "
                    "nothing", what, (unsigned long long)*out);
  return true;
}

bool sim_wgmma_issue(sim_warp_t *w, sim_group_t *g, const sim_ins_t *ins,
                     sim_wgmma_run_t run) {
  uint32_t me = number_of(w), at = g->issued[me] - g->base;
  bool has_a = !(ins->imm & SIM_WGMMA_REGISTERS);
  uint32_t n = SIM_WGMMA_N(ins->imm);
  uint64_t a = 0, b = 0;
  if (has_a && !uniform(w, ins, ins->a, "A", &a)) return false;
  if (!uniform(w, ins, ins->b, "B", &b)) return false;
  uint32_t p = sim_pred(w, ins->c);
  if (ins->mods & SIM_MOD_NEG_C) p = ~p;
  if (p != 0 && p != SIM_FULL &&
      !sim_find(w, ins, SIM_CHECK_WGMMA_DESC, 32, PTX_SPACE_REG, 0, 0,
                "scale-d differs between lanes"))
    return false;
  if (w->is_tainted && *sim_pred_shadow(w, ins->c) &&
      !sim_find(w, ins, SIM_CHECK_INIT_USE, 32, PTX_SPACE_REG, 0, 0,
                "scale-d depends on a value that was never written"))
    return false;
  bool is_first = at == g->count;
  if (is_first) {
    sim_wgmma_t *op = new_entry(g);
    if (!op) {
      sim_find(w, ins, SIM_CHECK_ILLEGAL, 32, PTX_SPACE_REG, 0, 0,
               "more than %u matrix instructions are pending", MAX_PENDING);
      return false;
    }
    *op = (sim_wgmma_t){.ins = ins, .a = a, .b = b, .adds = p != 0,
                        .group = SIM_NO_COMMIT};
    sim_wgmma_mark(w->cta, op, true);
  } else {
    const sim_wgmma_t *op = &g->ops[at];
    if (op->ins != ins &&
        !sim_find(w, ins, SIM_CHECK_WARP_MATRIX, 32, PTX_SPACE_REG, 0, 0,
                  "another warp of the warpgroup executes the one at PTX "
                  "line %u instead", op->ins->line))
      return false;
    if ((op->a != a || op->b != b || op->adds != (p != 0)) &&
        !sim_find(w, ins, SIM_CHECK_WGMMA_DESC, 32, PTX_SPACE_REG, 0, 0,
                  "%s differs between warps: 0x%llx, 0x%llx",
                  op->a != a   ? "the descriptor of A"
                  : op->b != b ? "the descriptor of B"
                               : "scale-d",
                  (unsigned long long)(op->a != a ? op->a : op->b),
                  (unsigned long long)(op->a != a ? a : b)))
      return false;
  }
  g->ops[at].arrived |= (uint8_t)(1u << me);
  g->issued[me]++;
  if (!judge_registers(w, g, ins)) return false;
  if (has_a) {
    sim_writers_t own;
    sim_matrix_t m =
        sim_wgmma_matrix(a, (ins->imm & SIM_WGMMA_TRANS_A) != 0);
    if (!sim_wgmma_judge(w, ins, &m, 'A', 16 * me, 16, true, &own))
      return false;
  }
  sim_matrix_t m = sim_wgmma_matrix(b, (ins->imm & SIM_WGMMA_TRANS_B) != 0);
  if (!sim_wgmma_judge(w, ins, &m, 'B', 0, n, is_first,
                       &g->ops[at].writers)) return false;
  mark_pending(g, w, ins);
  sim_tensor_count(w->worker, (ptx_type_t)ins->type2,
                   (uint64_t)2 * 16 * n * SIM_WGMMA_K(ins->imm));
  return tick(g, run);
}

bool sim_wgmma_commit(sim_warp_t *w, sim_group_t *g, const sim_ins_t *ins,
                      sim_wgmma_run_t run) {
  uint32_t me = number_of(w);
  for (uint32_t n = g->committed[me]; n < g->issued[me]; n++) {
    sim_wgmma_t *op = &g->ops[n - g->base];
    if (op->group == SIM_NO_COMMIT) op->group = g->commits[me];
    if (op->group != g->commits[me] &&
        !sim_find(w, ins, SIM_CHECK_WARP_MATRIX, 32, PTX_SPACE_REG, 0, 0,
                  "the mma_async of PTX line %u is in group %u here and in "
                  "group %u in another warp of the warpgroup",
                  op->ins->line, g->commits[me], op->group))
      return false;
  }
  g->committed[me] = g->issued[me];
  g->commits[me]++;
  return tick(g, run);
}

/* Entries that every warp may forget, and what is still pending. */
static void retire(sim_group_t *g, uint32_t target) {
  uint32_t gone = 0;
  while (gone < g->count && g->ops[gone].group < target)
    sim_wgmma_mark(g->cta, &g->ops[gone++], false);
  for (uint32_t n = gone; n < g->count; n++)
    sim_wgmma_mark(g->cta, &g->ops[n], true);
  g->count -= gone;
  g->base += gone;
  memmove(g->ops, g->ops + gone, g->count * sizeof *g->ops);
  for (uint32_t k = 0; k < SIM_GROUP_WARPS; k++) {
    memset(g->pending[k], 0, row_count(g->cta));
    for (uint32_t n = 0; n < g->count; n++)
      if (g->ops[n].arrived >> k & 1)
        mark_pending(g, &g->cta->warps[g->first + k], g->ops[n].ins);
  }
}

/* What completes at a wait was read until now; the four warps know of it, and
   who has not heard of one of them since must not write there. */
static void note_reads(sim_group_t *g, uint32_t target) {
  sim_cta_t *cta = g->cta;
  uint32_t agent = cta->group_agents + g->first / SIM_GROUP_WARPS;
  if (!cta->races) return;
  g->clock++;
  for (uint32_t e = 0; e < g->count && g->ops[e].group < target; e++) {
    sim_matrix_t m[2];
    uint32_t rows[2];
    uint32_t line = (uint32_t)(g->ops[e].ins - cta->launch->kernel->code);
    for (uint32_t k = sim_wgmma_matrices(&g->ops[e], m, rows); k-- > 0;)
      for (uint32_t n = 0; n < 2 * rows[k]; n++) {
        uint32_t at = sim_wgmma_piece(&m[k], n);
        if (at >= cta->launch->shared_start &&
            at + 16 <= cta->launch->shared_end)
          sim_race_read_by(cta, at, 16, agent, g->clock, line);
      }
  }
  for (uint32_t k = 0; k < SIM_GROUP_WARPS; k++)
    cta->warps[g->first + k].clocks[agent] = g->clock;
}

const sim_ins_t *sim_wgmma_wait(sim_warp_t *w, sim_group_t *g,
                                const sim_ins_t *ins, uint32_t n,
                                sim_wgmma_run_t run) {
  uint32_t me = number_of(w);
  uint32_t target = g->commits[me] > n ? g->commits[me] - n : 0;
  if (!tick(g, run)) return NULL;
  if (g->count == 0 || g->ops[0].group >= target) return ins + 1;
  g->target[me] = target;
  g->waiting |= (uint8_t)(1u << me);
  w->ip = ins + 1;
  if (g->waiting != SIM_ALL_WARPS) {
    w->state = SIM_WARP_GROUP;
    return NULL;
  }
  g->waiting = 0;
  for (uint32_t k = 0; k < SIM_GROUP_WARPS; k++) {
    sim_warp_t *other = &g->cta->warps[g->first + k];
    if (other->state == SIM_WARP_GROUP) other->state = SIM_WARP_READY;
    if (g->target[k] == target) continue;
    if (!sim_find(w, ins, SIM_CHECK_WARP_MATRIX, 32, PTX_SPACE_REG, 0, 0,
                  "the warps of the warpgroup wait for different groups"))
      return NULL;
  }
  for (uint32_t k = 0; k < g->count && g->ops[k].group < target; k++) {
    sim_wgmma_t *op = &g->ops[k];
    if (op->is_done) continue;
    if (op->arrived != SIM_ALL_WARPS &&
        !sim_find(w, op->ins, SIM_CHECK_WARP_MATRIX, 32, PTX_SPACE_REG, 0, 0,
                  "warp %u of the warpgroup did not execute it",
                  g->first +
                      (uint32_t)__builtin_ctz((uint8_t)~op->arrived)))
      return NULL;
    op->is_done = true;
    if (!run(g, op)) return NULL;
  }
  note_reads(g, target);
  retire(g, target);
  return ins + 1;
}

/* -- setmaxnreg -- */

const sim_ins_t *sim_group_registers(sim_warp_t *w, sim_group_t *g,
                                     const sim_ins_t *ins) {
  uint32_t me = number_of(w), want = (uint32_t)ins->imm;
  uint32_t have = g->registers[me];
  bool gives = ins->sub == SIM_ATOM_DEC;
  if (gives ? want > have : want < have)
    return sim_find(w, ins, SIM_CHECK_WARP_REGS, 32, PTX_SPACE_REG, 0, 0,
                    "the warp has %u registers a thread: %s to %u has no "
                    "meaning", have, gives ? "a decrease" : "an increase",
                    want)
               ? ins + 1
               : NULL;
  if (!gives && (want - have) * 32 > w->cta->free_registers) {
    w->ip = ins; /* others must give some back first */
    w->state = SIM_WARP_SPIN;
    return NULL;
  }
  w->cta->free_registers += 32 * have;
  w->cta->free_registers -= 32 * want;
  g->registers[me] = want;
  g->changes[me]++;
  return ins + 1;
}
