/* The end of decoding: slots of registers become offsets into a warp's block,
   records are made final, and what the kernel is like is noted. */
#include "runtime/simgpu/decoder.h"

static void place(const sim_decoder_t *d, uint32_t *encoded) {
  if (*encoded & 3u) *encoded = d->rows.data[*encoded >> 2].offset;
}

static void finish_ins(sim_decoder_t *d, sim_ins_t *i) {
  i->guard = d->rows.data[i->guard >> 2].offset;
  place(d, &i->d);
  place(d, &i->a);
  place(d, &i->b);
  place(d, &i->c);
  place(d, &i->e);
  if (i->handler == SIM_H_call || i->handler == SIM_H_brx) return;
  for (uint32_t n = 0; n < i->count; n++) {
    uint32_t *entry = &d->kernel->lists.data[i->list + n];
    if (*entry & 3u)
      *entry = d->rows.data[*entry >> 2].offset | (*entry & 3u);
  }
}

int sim_special_of(uint16_t handler) {
  switch (handler) {
  case SIM_H_rcp_f32:
  case SIM_H_rcp_f64: return 0;
  case SIM_H_sqrt_f32:
  case SIM_H_sqrt_f64: return 1;
  case SIM_H_rsqrt_f32:
  case SIM_H_rsqrt_f64: return 2;
  case SIM_H_ex2_f32:
  case SIM_H_ex2_h: return 3;
  case SIM_H_lg2_f32: return 4;
  case SIM_H_sin_f32: return 5;
  case SIM_H_cos_f32: return 6;
  case SIM_H_tanh_f32:
  case SIM_H_tanh_h: return 7;
  default: return -1;
  }
}

static void count_mix(sim_decoder_t *d, sim_block_t *b) {
  uint32_t mix[SIM_CLASS_COUNT] = {0};
  for (uint32_t k = 0; k < b->count; k++) {
    const sim_ins_t *i = &d->code.data[b->first + k];
    if (i->handler == SIM_H_end) {
      b->count--;
      break;
    }
    mix[i->cls]++;
    int special = sim_special_of(i->handler);
    if (special >= 0) b->sfu[special]++;
    if (i->is_guarded) continue;
    b->unguarded++;
    if (i->cls == SIM_CLASS_F32) b->flops[0] += i->flops;
    if (i->cls == SIM_CLASS_F16) b->flops[1] += i->flops;
    if (i->cls == SIM_CLASS_F64) b->flops[2] += i->flops;
  }
  for (uint32_t c = 0; c < SIM_CLASS_COUNT; c++) {
    if (mix[c]) td_vec_push(d->arena, &b->mix, c << 16 | (mix[c] & 0xFFFFu));
  }
}

typedef struct pinned_t {
  const sim_decoder_t *d;
  bool is_found;
} pinned_t;

static void find_pinned(void *arg, uint32_t encoded, bool is_write) {
  pinned_t *x = arg;
  (void)is_write;
  if (x->d->rows.data[encoded >> 2].is_pinned) x->is_found = true;
}

/* What else touches registers of a wgmma is judged before it is executed. */
static void watch(sim_decoder_t *d, sim_ins_t *i) {
  pinned_t x = {d, false};
  if (!d->kernel->has_warpgroup || i->handler == SIM_H_wgmma) return;
  sim_visit_rows(d, i, find_pinned, &x);
  if (x.is_found) i->fn = d->variant[SIM_H_watch];
}

/* What the declared limits leave of 65,536: an assembler spills to fit. */
uint32_t sim_register_limit(const ptx_func_t *f) {
  const uint32_t *most =
      f->required_threads[0] ? f->required_threads : f->max_threads;
  if (f->max_registers) return f->max_registers;
  if (!most[0]) return 255;
  uint64_t threads = most[0];
  for (int n = 1; n < 3; n++) threads *= most[n] ? most[n] : 1;
  if (f->min_ctas) threads *= f->min_ctas;
  uint32_t limit = (uint32_t)(65536 / threads) & ~7u;
  return limit > 255 ? 255 : limit < 24 ? 24 : limit;
}

/* Who talks to whom: an atomic whose old value is read, or that adds floats,
   orders CTAs; in shared memory, beside fences, warps of one. */
static void note_talk(sim_decoder_t *d) {
  sim_kernel_t *k = d->kernel;
  bool has_fence = false;
  for (size_t c = 0; c < d->code.length; c++) {
    const sim_ins_t *i = &d->code.data[c];
    has_fence = has_fence || (i->handler == SIM_H_fence &&
                              i->sub2 != SIM_FENCE_NONE);
    if (i->handler == SIM_H_griddep && i->sub) k->has_trigger = true;
  }
  for (size_t n = 0; n < d->atoms.length; n++) {
    const sim_ins_t *i = &d->code.data[d->atoms.data[n]];
    bool is_float =
        ptx_type_row((ptx_type_t)i->type)->kind == PTX_KIND_FLOAT;
    const sim_row_t *row = &d->rows.data[i->d >> 2];
    bool is_read = ((i->writes & SIM_WRITES_D) && row->is_read) ||
                   i->list_writes || i->sub == SIM_ATOM_EXCH ||
                   i->sub == SIM_ATOM_CAS;
    if (i->space != PTX_SPACE_SHARED && (is_float || is_read))
      k->is_communicating = true;
    if (i->space != PTX_SPACE_GLOBAL && is_read && has_fence)
      k->has_flags = true;
  }
}

/* Numbers of slots become offsets into the register block. */
static bool place_rows(sim_decoder_t *d, uint32_t slots[4]) {
  sim_kernel_t *k = d->kernel;
  /* constants and scratch rows lie behind; each has its own slot */
  for (uint32_t r = 1; r < d->rows.length; r++) {
    sim_row_t *row = &d->rows.data[r];
    bool in_part = false;
    for (size_t n = 0; n < d->parts.length && !in_part; n++)
      in_part = r - d->parts.data[n].first_row <
                d->parts.data[n].func->regs.length;
    if (!in_part && row->is_used) row->offset = slots[row->cls]++;
  }
  uint64_t pred_bytes = ((uint64_t)slots[SIM_ROW_PRED] * 4 + 255) & ~255ull;
  uint64_t wide = pred_bytes + (((uint64_t)slots[SIM_ROW_32] * 128 + 255) &
                                ~255ull);
  uint64_t total = wide + (uint64_t)slots[SIM_ROW_64] * 256;
  if (total > (16u << 20)) {
    d->ptx = NULL;
    return SIM_FAIL(d, "needs %llu bytes of registers a warp",
                    (unsigned long long)total);
  }
  for (uint32_t r = 0; r < d->rows.length; r++) {
    sim_row_t *row = &d->rows.data[r];
    uint64_t at = row->cls == SIM_ROW_PRED ? (uint64_t)row->offset * 4
                  : row->cls == SIM_ROW_32
                      ? pred_bytes + (uint64_t)row->offset * 128
                      : wide + (uint64_t)row->offset * 256;
    row->offset = (uint32_t)at;
    if (row->kind == SIM_ROWKIND_CONST && row->is_used)
      td_vec_push(d->arena, &k->consts,
                  (sim_const_t){row->offset, row->cls, row->source,
                                row->value});
  }
  k->block_bytes = (uint32_t)total;
  k->pred_bytes = (uint32_t)pred_bytes;
  return true;
}

bool sim_finish(sim_decoder_t *d, uint32_t slots[4]) {
  sim_kernel_t *k = d->kernel;
  if (!place_rows(d, slots)) return false;
  if (k->registers < 8) k->registers = 8;
  uint32_t limit = sim_register_limit(k->func);
  if (k->registers > limit) k->registers = limit;
  for (size_t n = 0; n < k->undefined.length; n++) {
    uint32_t *u = &k->undefined.data[n];
    *u = d->rows.data[*u >> 2].offset | (*u & 3u);
  }
  note_talk(d);
  for (size_t c = 0; c < d->code.length; c++) {
    sim_ins_t *i = &d->code.data[c];
    watch(d, i);
    finish_ins(d, i);
    if ((i->handler >= SIM_H_ld_global &&
         i->handler <= SIM_H_atom_generic) ||
        i->handler == SIM_H_ldmatrix || i->handler == SIM_H_stmatrix ||
        i->handler == SIM_H_cp_async)
      i->memory = k->memory_count++;
  }
  for (size_t b = 0; b < k->blocks.length; b++)
    count_mix(d, &k->blocks.data[b]);
  k->code_count = (uint32_t)d->code.length;
  k->code = TD_NEW_ARRAY(d->arena, sim_ins_t, d->code.length);
  memcpy(k->code, d->code.data, d->code.length * sizeof *k->code);
  k->entry = 0;
  return true;
}
