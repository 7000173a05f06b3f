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

/* Bytes of the shadow, a byte of bits each, so that shifts move bits. */
static uint64_t widen(uint8_t bits) {
  uint64_t out = 0;
  for (unsigned k = 0; k < 8; k++)
    if (bits >> k & 1) out |= UINT64_C(0xFF) << (8 * k);
  return out;
}

static uint8_t narrow(uint64_t wide) {
  uint8_t out = 0;
  for (unsigned k = 0; k < 8; k++)
    out |= (uint8_t)((wide >> (8 * k) & 0xFF ? 1u : 0u) << k);
  return out;
}

static uint8_t shift(uint8_t bits, uint64_t n, bool left, bool is_signed,
                     unsigned bytes) {
  unsigned width = bytes * 8;
  uint64_t all = ~UINT64_C(0) >> (64 - width), x = widen(bits) & all;
  uint64_t fill = is_signed && (x >> (width - 1) & 1) ? all : 0;
  if (n >= width) return narrow(left ? 0 : fill);
  if (left) return narrow(x << n & all);
  return narrow(x >> n | (fill & ~(all >> n)));
}

/* A field of `count` bits from bit `at` on. */
static uint8_t extract(uint8_t bits, uint32_t at, uint32_t count,
                       bool is_signed, unsigned width) {
  uint64_t all = ~UINT64_C(0) >> (64 - width), x = widen(bits) & all;
  uint64_t field = count < width ? ((UINT64_C(1) << count) - 1) : all;
  uint64_t out = at < width ? x >> at & field : 0;
  uint32_t last = at + count > width ? width - 1 : at + count - 1;
  if (is_signed && count && (x >> last & 1)) out |= all & ~field;
  return narrow(out);
}

static uint8_t insert(uint8_t from, uint8_t into, uint32_t at,
                      uint32_t count, unsigned width) {
  uint64_t all = ~UINT64_C(0) >> (64 - width);
  uint64_t field = count < width ? ((UINT64_C(1) << count) - 1) : all;
  if (at >= width) return into;
  field = field << at & all;
  return narrow((widen(into) & ~field) | (widen(from) << at & field));
}

/* shf: one word of a 64-bit value b:a shifted. */
static uint8_t funnel(const sim_ins_t *i, uint8_t a, uint8_t b,
                      uint64_t n) {
  uint64_t x = widen((uint8_t)((a & 15u) | (b & 15u) << 4));
  n = i->mods & SIM_MOD_WRAP ? n & 31 : n > 32 ? 32 : n;
  bool left = i->handler == SIM_H_shf_l;
  return narrow(left ? x << n >> 32 : x >> n & UINT32_MAX);
}

static void spread(sim_warp_t *w, const sim_ins_t *i, uint32_t mask,
                   sim_prop_t prop, uint8_t out[32]) {
  uint8_t a[32], b[32], c[32], e[32];
  unsigned ka = sim_kind(i, 1), kb = sim_kind(i, 2), kc = sim_kind(i, 3);
  unsigned ke = i->writes & SIM_WRITES_E ? 0 : sim_kind(i, 4);
  unsigned bytes = i->bytes ? i->bytes : ka == SIM_ROW_64 ? 8u : 4u;
  read_shadow(w, ka, i->a, mask, a);
  read_shadow(w, kb, i->b, mask, b);
  read_shadow(w, kc, i->c, mask, c);
  read_shadow(w, ke, i->e, mask, e);
  for (uint32_t l = 0; l < 32; l++) {
    uint64_t x = value_of(w, ka, i->a, l), y = 0;
    if (kb) y = value_of(w, kb, i->b, l);
    out[l] = 0;
    if (!(a[l] | b[l] | c[l] | e[l])) continue;
    switch (prop) {
    case SIM_PROP_copy: out[l] = a[l] | b[l] | c[l]; break;
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
                    : shift(a[l], y, prop == SIM_PROP_shl,
                            (i->mods & SIM_MOD_SIGNED) != 0, bytes);
      break;
    case SIM_PROP_funnel:
      out[l] = c[l] ? 0xFF
                    : funnel(i, a[l], b[l], value_of(w, kc, i->c, l));
      break;
    case SIM_PROP_bfe:
      out[l] = b[l] | c[l]
                   ? 0xFF
                   : extract(a[l], y & 255,
                             value_of(w, kc, i->c, l) & 255,
                             (i->mods & SIM_MOD_SIGNED) != 0, bytes * 8);
      break;
    case SIM_PROP_bfi:
      out[l] = c[l] | e[l]
                   ? 0xFF
                   : insert(a[l], b[l], value_of(w, kc, i->c, l) & 255,
                            value_of(w, ke, i->e, l) & 255, bytes * 8);
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
