/* Undefined values in registers. A byte of memory that nothing was written to
   may be loaded; undefinedness then travels with the value, bit by byte of
   each lane, until it reaches a guard, a branch or an address, where it is
   reported, or memory, where it stays. A warp that holds none of it never
   comes here. */
#include "runtime/simgpu/warp.h"

/* Undefined bytes of each lane of an operand; predicates: all or nothing. */
static void read_shadow(sim_warp_t *w, unsigned kind, uint32_t offset,
                        uint32_t mask, uint8_t out[32]) {
  memset(out, 0, 32);
  if (kind == SIM_ROW_NONE) return;
  if (kind == SIM_ROW_PRED) {
    uint32_t p = *sim_pred_shadow(w, offset) & mask;
    for (uint32_t l = 0; l < 32; l++) out[l] = (p >> l & 1) ? 0xFF : 0;
    return;
  }
  memcpy(out, sim_shadow(w, offset), 32);
  for (uint32_t l = 0; l < 32; l++)
    if (!(mask >> l & 1)) out[l] = 0;
}

static void write_shadow(sim_warp_t *w, unsigned kind, uint32_t offset,
                         uint32_t mask, const uint8_t in[32]) {
  if (kind == SIM_ROW_NONE) return;
  if (kind == SIM_ROW_PRED) {
    sim_u32 *p = sim_pred_shadow(w, offset);
    for (uint32_t l = 0; l < 32; l++)
      if (mask >> l & 1)
        *p = (*p & ~(1u << l)) | (uint32_t)(in[l] != 0) << l;
    return;
  }
  uint8_t *s = sim_shadow(w, offset);
  for (uint32_t l = 0; l < 32; l++)
    if (mask >> l & 1) s[l] = in[l];
}

static uint64_t value_of(sim_warp_t *w, unsigned kind, uint32_t offset,
                         uint32_t l) {
  if (kind == SIM_ROW_64) return sim_row64(w, offset)[l];
  if (kind == SIM_ROW_32) return sim_row(w, offset)[l];
  return sim_pred(w, offset) >> l & 1;
}

/* Any undefined byte of any source makes the whole lane undefined. */
static void any_source(sim_warp_t *w, const sim_ins_t *i, uint32_t mask,
                       uint8_t out[32]) {
  const uint32_t slots[] = {i->d, i->a, i->b, i->c, i->e};
  uint8_t one[32];
  memset(out, 0, 32);
  for (int s = 1; s < 5; s++) {
    if (s == 4 && (i->writes & SIM_WRITES_E)) continue;
    read_shadow(w, sim_kind(i, s), slots[s], mask, one);
    for (uint32_t l = 0; l < 32; l++) out[l] |= one[l];
  }
  for (uint32_t n = i->list_writes; n < i->count; n++) {
    uint32_t entry = sim_list(w, i, n);
    read_shadow(w, entry & 3u, entry & ~3u, mask, one);
    for (uint32_t l = 0; l < 32; l++) out[l] |= one[l];
  }
  for (uint32_t l = 0; l < 32; l++) out[l] = out[l] ? 0xFF : 0;
}

/* A shift by whole bytes moves bits of the shadow; others smear one byte. */
static uint8_t shift(uint8_t bits, uint64_t amount, bool left,
                     unsigned bytes) {
  uint64_t n = amount / 8;
  uint32_t x = bits, all = (1u << bytes) - 1;
  if (!bits) return 0;
  if (n >= bytes) return left ? 0 : (bits >> (bytes - 1) & 1) ? 0xFF : 0;
  uint32_t moved = left ? x << n : x >> n;
  if (amount % 8) moved |= left ? x << (n + 1) : n ? x >> (n - 1) : x << 0;
  if (!left && amount % 8) moved |= x >> (n + 1);
  /* a signed shift spreads the top byte */
  if (!left && (x >> (bytes - 1) & 1)) moved |= all & ~(all >> n);
  return (uint8_t)(moved & all);
}

static void spread(sim_warp_t *w, const sim_ins_t *i, uint32_t mask,
                   sim_prop_t prop, uint8_t out[32]) {
  uint8_t a[32], b[32], c[32];
  unsigned ka = sim_kind(i, 1), kb = sim_kind(i, 2), kc = sim_kind(i, 3);
  unsigned bytes = i->bytes ? i->bytes : ka == SIM_ROW_64 ? 8u : 4u;
  read_shadow(w, ka, i->a, mask, a);
  read_shadow(w, kb, i->b, mask, b);
  read_shadow(w, kc, i->c, mask, c);
  for (uint32_t l = 0; l < 32; l++) {
    uint64_t x = value_of(w, ka, i->a, l), y = 0;
    if (kb) y = value_of(w, kb, i->b, l);
    out[l] = 0;
    if (!(a[l] | b[l] | c[l])) continue;
    switch (prop) {
    case SIM_PROP_copy: out[l] = a[l] | b[l]; break;
    case SIM_PROP_and:
    case SIM_PROP_or:
      for (unsigned k = 0; k < 8; k++) {
        uint8_t xa = (uint8_t)(x >> (8 * k)), yb = (uint8_t)(y >> (8 * k));
        bool ua = a[l] >> k & 1, ub = b[l] >> k & 1;
        /* a defined operand may decide the byte alone */
        uint8_t fixed = prop == SIM_PROP_and ? 0x00 : 0xFF;
        bool undefined =
            (ua && ub) || (ua && yb != fixed) || (ub && xa != fixed);
        out[l] |= (uint8_t)((unsigned)undefined << k);
      }
      break;
    case SIM_PROP_shl:
    case SIM_PROP_shr:
      out[l] = b[l] ? 0xFF
                    : shift(a[l], y, prop == SIM_PROP_shl, bytes);
      break;
    case SIM_PROP_prmt: {
      uint64_t select = value_of(w, kc, i->c, l);
      uint32_t both = (uint32_t)(a[l] & 15u) | (uint32_t)(b[l] & 15u) << 4;
      if (c[l] || i->sub) {
        out[l] = 0xFF;
        break;
      }
      for (unsigned k = 0; k < 4; k++)
        out[l] |= (uint8_t)((both >> (select >> (4 * k) & 7) & 1) << k);
      break;
    }
    case SIM_PROP_select: {
      bool p = sim_pred(w, i->c) >> l & 1;
      if (i->mods & SIM_MOD_NEG_C) p = !p;
      out[l] = c[l] ? 0xFF : p ? a[l] : b[l];
      break;
    }
    case SIM_PROP_halves: {
      uint8_t all = a[l] | b[l] | c[l];
      out[l] = (uint8_t)((all & 3 ? 3 : 0) | (all & 12 ? 12 : 0));
      break;
    }
    default: out[l] = 0xFF; break;
    }
  }
}

static void pack(sim_warp_t *w, const sim_ins_t *i, uint32_t mask) {
  uint8_t out[32] = {0}, one[32];
  for (uint32_t n = 0; n < i->count; n++) {
    uint32_t entry = sim_list(w, i, n);
    read_shadow(w, entry & 3u, entry & ~3u, mask, one);
    for (uint32_t l = 0; l < 32; l++) {
      uint32_t part = one[l] & ((1u << i->bytes) - 1);
      out[l] |= (uint8_t)(part << (n * i->bytes));
    }
  }
  write_shadow(w, sim_kind(i, 0), i->d, mask, out);
}

static void unpack(sim_warp_t *w, const sim_ins_t *i, uint32_t mask) {
  uint8_t a[32], out[32];
  read_shadow(w, sim_kind(i, 1), i->a, mask, a);
  for (uint32_t n = 0; n < i->count; n++) {
    uint32_t entry = sim_list(w, i, n);
    for (uint32_t l = 0; l < 32; l++)
      out[l] = (uint8_t)(a[l] >> (n * i->bytes) & ((1u << i->bytes) - 1));
    write_shadow(w, entry & 3u, entry & ~3u, mask, out);
  }
}

static bool judge_guard(sim_warp_t *w, const sim_ins_t *i) {
  uint32_t bad = *sim_pred_shadow(w, i->guard) & w->active;
  if (!bad) return true;
  return sim_find(w, i, SIM_CHECK_INIT_USE, (unsigned)__builtin_ctz(bad),
                  PTX_SPACE_REG, 0, 0,
                  "the guard depends on a value that was never written");
}

static bool judge_address(sim_warp_t *w, const sim_ins_t *i, uint32_t mask) {
  uint8_t a[32];
  read_shadow(w, sim_kind(i, 1), i->a, mask, a);
  for (uint32_t l = 0; l < 32; l++) {
    if (!a[l]) continue;
    return sim_find(w, i, SIM_CHECK_INIT_USE, l, PTX_SPACE_REG, 0, 0,
                    "the address depends on a value that was never written");
  }
  return true;
}

bool sim_undef_step(sim_warp_t *w, const sim_ins_t *i, uint32_t mask) {
  sim_prop_t prop = sim_handler_prop(i->handler);
  uint8_t out[32];
  if (i->is_block) {
    if ((++w->serial & 31) == 0) sim_undef_settle(w);
    return true;
  }
  if (i->is_guarded && !judge_guard(w, i)) return false;
  if (mask == 0) return true;
  switch (prop) {
  case SIM_PROP_operands:
    any_source(w, i, mask, out);
    for (uint32_t l = 0; l < 32; l++) {
      if (out[l] &&
          !sim_find(w, i, SIM_CHECK_INIT_USE, l, PTX_SPACE_REG, 0, 0,
                    "an operand depends on a value that was never written"))
        return false;
    }
    /* fallthrough */
  case SIM_PROP_none:
  case SIM_PROP_clear:
    memset(out, 0, sizeof out);
    if (i->writes & SIM_WRITES_D)
      write_shadow(w, sim_kind(i, 0), i->d, mask, out);
    if (i->writes & SIM_WRITES_E)
      write_shadow(w, sim_kind(i, 4), i->e, mask, out);
    return true;
  case SIM_PROP_exchange: return true;
  case SIM_PROP_memory:
    /* of x1 and x2, only the first lanes give addresses */
    if ((i->handler == SIM_H_ldmatrix || i->handler == SIM_H_stmatrix) &&
        i->lanes < 4)
      mask &= (1u << 8 * i->lanes) - 1;
    return judge_address(w, i, mask);
  case SIM_PROP_pack: pack(w, i, mask); return true;
  case SIM_PROP_unpack: unpack(w, i, mask); return true;
  case SIM_PROP_all:
  case SIM_PROP_pred: any_source(w, i, mask, out); break;
  default: spread(w, i, mask, prop, out); break;
  }
  if (i->writes & SIM_WRITES_D)
    write_shadow(w, sim_kind(i, 0), i->d, mask, out);
  if (i->writes & SIM_WRITES_E)
    write_shadow(w, sim_kind(i, 4), i->e, mask, out);
  for (uint32_t n = 0; n < i->list_writes && n < i->count; n++) {
    uint32_t entry = sim_list(w, i, n);
    write_shadow(w, entry & 3u, entry & ~3u, mask, out);
  }
  return true;
}

void sim_undef_settle(sim_warp_t *w) {
  const sim_kernel_t *k = w->cta->launch->kernel;
  size_t bytes = k->block_bytes / 4 + k->pred_bytes;
  for (size_t n = 0; n + 8 <= bytes; n += 8) {
    uint64_t x;
    memcpy(&x, w->u + n, 8);
    if (x) return;
  }
  w->is_tainted = false;
}
