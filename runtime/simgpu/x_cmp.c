/* Comparisons, predicates, selections and moves. */
#include "runtime/simgpu/sfu.h"
#include "runtime/simgpu/x_half.h"

/* Writes the comparison's mask into d, its complement into e, each combined
   with the predicate c. */
static const sim_ins_t *put_compare(sim_warp_t *w, const sim_ins_t *i,
                                    uint32_t m, uint32_t r) {
  uint32_t s = ~r;
  if (i->sub2 != SIM_BOOL_NONE) {
    uint32_t c = sim_pred(w, i->c);
    if (i->mods & SIM_MOD_NEG_C) c = ~c;
    if (i->sub2 == SIM_BOOL_AND) r &= c, s &= c;
    if (i->sub2 == SIM_BOOL_OR) r |= c, s |= c;
    if (i->sub2 == SIM_BOOL_XOR) r ^= c, s ^= c;
  }
  if (i->mods & SIM_MOD_PAIR) sim_set_pred(w, i->e, s, m);
  sim_set_pred(w, i->d, r, m);
  return i + 1;
}

#define CASE(op, cond)                                                        \
  case op: SIM_LANES t[l] = (cond) ? 0xFF : 0; break;

#define COMPARE_INT(name, R, T)                                               \
  SIM_DEF(name) {                                                             \
    const R *a = (const R *)(const void *)(w->r + i->a);                      \
    const R *b = (const R *)(const void *)(w->r + i->b);                      \
    uint8_t t[32];                                                            \
    switch ((sim_compare_t)i->sub) {                                          \
      CASE(SIM_EQ, (T)a[l] == (T)b[l])                                        \
      CASE(SIM_NE, (T)a[l] != (T)b[l])                                        \
      CASE(SIM_LT, (T)a[l] < (T)b[l])                                         \
      CASE(SIM_LE, (T)a[l] <= (T)b[l])                                        \
      CASE(SIM_GT, (T)a[l] > (T)b[l])                                         \
      CASE(SIM_GE, (T)a[l] >= (T)b[l])                                        \
    default: memset(t, 0, sizeof t); break;                                   \
    }                                                                         \
    return put_compare(w, i, m, sim_mask_of(t));                              \
  }
COMPARE_INT(setp_u16, sim_u32, uint16_t)
COMPARE_INT(setp_s16, sim_u32, int16_t)
COMPARE_INT(setp_u32, sim_u32, uint32_t)
COMPARE_INT(setp_s32, sim_u32, int32_t)
COMPARE_INT(setp_u64, sim_u64, uint64_t)
COMPARE_INT(setp_s64, sim_u64, int64_t)

/* The forms with u hold for NaN operands as well. */
#define FLOAT_CASES(x, y)                                                     \
  CASE(SIM_EQ, (x) == (y))                                                    \
  CASE(SIM_NE, (x) < (y) || (x) > (y))                                        \
  CASE(SIM_LT, (x) < (y))                                                     \
  CASE(SIM_LE, (x) <= (y))                                                    \
  CASE(SIM_GT, (x) > (y))                                                     \
  CASE(SIM_GE, (x) >= (y))                                                    \
  CASE(SIM_EQU, !((x) < (y) || (x) > (y)))                                    \
  CASE(SIM_NEU, (x) != (y))                                                   \
  CASE(SIM_LTU, !((x) >= (y)))                                                \
  CASE(SIM_LEU, !((x) > (y)))                                                 \
  CASE(SIM_GTU, !((x) <= (y)))                                                \
  CASE(SIM_GEU, !((x) < (y)))                                                 \
  CASE(SIM_NUM, (x) == (x) && (y) == (y))                                     \
  CASE(SIM_ISNAN, (x) != (x) || (y) != (y))

static inline float ftz(float x) {
  uint32_t bits = sim_bits_f32(x);
  return (bits & 0x7F800000u) ? x : sim_as_f32(bits & 0x80000000u);
}

static uint32_t compare_f32(const sim_f32 *a, const sim_f32 *b,
                            sim_compare_t op) {
  uint8_t t[32];
  switch (op) { FLOAT_CASES(a[l], b[l]) }
  return sim_mask_of(t);
}

SIM_DEF(setp_f32) {
  const sim_f32 *a = (const sim_f32 *)(const void *)(w->r + i->a);
  const sim_f32 *b = (const sim_f32 *)(const void *)(w->r + i->b);
  if (i->mods & SIM_MOD_FTZ) {
    float x[32], y[32];
    SIM_LANES x[l] = ftz(a[l]), y[l] = ftz(b[l]);
    return put_compare(w, i, m, compare_f32(x, y, (sim_compare_t)i->sub));
  }
  return put_compare(w, i, m, compare_f32(a, b, (sim_compare_t)i->sub));
}

SIM_DEF(setp_f64) {
  const sim_f64 *a = (const sim_f64 *)(const void *)(w->r + i->a);
  const sim_f64 *b = (const sim_f64 *)(const void *)(w->r + i->b);
  uint8_t t[32];
  switch ((sim_compare_t)i->sub) { FLOAT_CASES(a[l], b[l]) }
  return put_compare(w, i, m, sim_mask_of(t));
}

static void widen_row(const sim_u32 *row, float *out, uint8_t type,
                      unsigned shift) {
  bool bf16 = sim_is_bf16(type);
  SIM_LANES {
    uint32_t h = row[l] >> shift & 0xFFFFu;
    out[l] = bf16 ? sim_bf16_f32(h) : sim_f16_f32(h);
  }
}

SIM_DEF(setp_f16) {
  float x[32], y[32];
  widen_row(sim_row(w, i->a), x, i->type, 0);
  widen_row(sim_row(w, i->b), y, i->type, 0);
  return put_compare(w, i, m, compare_f32(x, y, (sim_compare_t)i->sub));
}

/* p|q: the low and the high half. */
SIM_DEF(setp_f16x2) {
  float x[32], y[32];
  uint32_t r[2], c = SIM_FULL;
  for (unsigned half = 0; half < 2; half++) {
    widen_row(sim_row(w, i->a), x, i->type, 16 * half);
    widen_row(sim_row(w, i->b), y, i->type, 16 * half);
    r[half] = compare_f32(x, y, (sim_compare_t)i->sub);
    if (i->sub2 != SIM_BOOL_NONE) {
      c = sim_pred(w, i->c);
      if (i->mods & SIM_MOD_NEG_C) c = ~c;
      r[half] = i->sub2 == SIM_BOOL_AND  ? r[half] & c
                : i->sub2 == SIM_BOOL_OR ? r[half] | c
                                         : r[half] ^ c;
    }
  }
  if (i->mods & SIM_MOD_PAIR) sim_set_pred(w, i->e, r[1], m);
  sim_set_pred(w, i->d, r[0], m);
  return i + 1;
}

static bool holds(double x, double y, sim_compare_t op) {
  bool unordered = x != x || y != y;
  switch (op) {
  case SIM_EQ: return x == y;
  case SIM_NE: return !unordered && x != y;
  case SIM_LT: return x < y;
  case SIM_LE: return x <= y;
  case SIM_GT: return x > y;
  case SIM_GE: return x >= y;
  case SIM_EQU: return unordered || x == y;
  case SIM_NEU: return unordered || x != y;
  case SIM_LTU: return unordered || x < y;
  case SIM_LEU: return unordered || x <= y;
  case SIM_GTU: return unordered || x > y;
  case SIM_GEU: return unordered || x >= y;
  case SIM_NUM: return !unordered;
  case SIM_ISNAN: return unordered;
  }
  return false;
}

/* set: a comparison as a number. type2 of the operands, type of the result:
   all ones or 1.0. Integers of 32 bits and less fit a double. */
SIM_DEF(set) {
  sim_u32 *d = sim_row(w, i->d);
  const sim_u32 *a = sim_row(w, i->a), *b = sim_row(w, i->b);
  ptx_type_t from = (ptx_type_t)i->type2;
  unsigned halves = sim_is_pair(i->type2) ? 2 : 1;
  bool is_float_result = i->type == PTX_F32 || i->type == PTX_F16 ||
                         i->type == PTX_F16X2 || i->type == PTX_BF16 ||
                         i->type == PTX_BF16X2;
  for (uint32_t l = 0; l < 32; l++) {
    if (!SIM_BIT(m)) continue;
    uint32_t out = 0;
    for (unsigned half = 0; half < halves; half++) {
      double x, y;
      uint32_t p = a[l], q = b[l];
      if (sim_format_of(from) && from != PTX_F32) {
        p = p >> (16 * half) & 0xFFFFu, q = q >> (16 * half) & 0xFFFFu;
        x = sim_widen(sim_format_of(from), p);
        y = sim_widen(sim_format_of(from), q);
      } else if (from == PTX_F32) {
        x = (double)sim_as_f32(p), y = (double)sim_as_f32(q);
      } else if (ptx_type_row(from)->kind == PTX_KIND_SIGNED) {
        x = (double)(int32_t)p, y = (double)(int32_t)q;
      } else {
        x = (double)p, y = (double)q;
      }
      bool yes = holds(x, y, (sim_compare_t)i->sub);
      uint32_t value = 0;
      if (yes && is_float_result)
        value = i->type == PTX_F32           ? 0x3F800000u
                : sim_is_bf16(i->type) ? 0x3F80u
                                             : 0x3C00u;
      else if (yes)
        value = halves == 2 ? 0xFFFFu : 0xFFFFFFFFu;
      out |= halves == 2 ? value << (16 * half) : value;
    }
    d[l] = out;
  }
  return i + 1;
}

/* sub: 0 finite, 1 infinite, 2 number, 3 notanumber, 4 normal,
   5 subnormal */
SIM_DEF(testp) {
  uint32_t r = 0;
  for (uint32_t l = 0; l < 32; l++) {
    double x = i->type == PTX_F64
                   ? sim_as_f64(sim_row64(w, i->a)[l])
                   : (double)sim_as_f32(sim_row(w, i->a)[l]);
    double tiny = i->type == PTX_F64 ? 2.2250738585072014e-308
                                     : 1.1754943508222875e-38;
    double size = x < 0 ? -x : x;
    bool is_finite = x - x == 0, yes = false;
    switch (i->sub) {
    case 0: yes = is_finite; break;
    case 1: yes = x == x && !is_finite; break;
    case 2: yes = x == x; break;
    case 3: yes = x != x; break;
    case 4: yes = is_finite && size >= tiny; break;
    case 5: yes = is_finite && size != 0 && size < tiny; break;
    default: break;
    }
    r |= (uint32_t)yes << l;
  }
  sim_set_pred(w, i->d, r, m);
  return i + 1;
}

/* -- predicates; mods: NEG_A for !a, NEG_C for !b -- */
static uint32_t first(const sim_warp_t *w, const sim_ins_t *i) {
  uint32_t p = sim_pred(w, i->a);
  return i->mods & SIM_MOD_NEG_A ? ~p : p;
}
static uint32_t second(const sim_warp_t *w, const sim_ins_t *i) {
  uint32_t p = sim_pred(w, i->b);
  return i->mods & SIM_MOD_NEG_C ? ~p : p;
}
SIM_DEF(and_pred) {
  sim_set_pred(w, i->d, first(w, i) & second(w, i), m);
  return i + 1;
}
SIM_DEF(or_pred) {
  sim_set_pred(w, i->d, first(w, i) | second(w, i), m);
  return i + 1;
}
SIM_DEF(xor_pred) {
  sim_set_pred(w, i->d, first(w, i) ^ second(w, i), m);
  return i + 1;
}
SIM_DEF(not_pred) {
  sim_set_pred(w, i->d, ~first(w, i), m);
  return i + 1;
}
SIM_DEF(mov_pred) {
  sim_set_pred(w, i->d, first(w, i), m);
  return i + 1;
}

/* -- selections and moves -- */
SIM_DEF(selp_32) {
  sim_u32 *d = sim_row(w, i->d);
  const sim_u32 *a = sim_row(w, i->a), *b = sim_row(w, i->b);
  uint32_t p = sim_pred(w, i->c);
  if (i->mods & SIM_MOD_NEG_C) p = ~p;
  SIM_STORE(uint32_t, d, SIM_BIT(p) ? a[l] : b[l]);
  return i + 1;
}
SIM_DEF(selp_64) {
  sim_u64 *d = sim_row64(w, i->d);
  const sim_u64 *a = sim_row64(w, i->a), *b = sim_row64(w, i->b);
  uint32_t p = sim_pred(w, i->c);
  if (i->mods & SIM_MOD_NEG_C) p = ~p;
  SIM_STORE(uint64_t, d, SIM_BIT(p) ? a[l] : b[l]);
  return i + 1;
}
SIM_DEF(mov_32) {
  sim_u32 *d = sim_row(w, i->d);
  const sim_u32 *a = sim_row(w, i->a);
  SIM_STORE(uint32_t, d, a[l]);
  return i + 1;
}
SIM_DEF(mov_64) {
  sim_u64 *d = sim_row64(w, i->d);
  const sim_u64 *a = sim_row64(w, i->a);
  SIM_STORE(uint64_t, d, a[l]);
  return i + 1;
}
/* List entries, each i->bytes wide, into one register of bytes * count. */
SIM_DEF(pack) {
  uint64_t t[32] = {0};
  unsigned bits = i->bytes * 8u;
  for (uint32_t k = 0; k < i->count; k++) {
    uint32_t entry = sim_list(w, i, k);
    const sim_u32 *a = sim_row(w, entry & ~3u);
    uint64_t keep = bits == 64 ? ~UINT64_C(0) : (UINT64_C(1) << bits) - 1;
    SIM_LANES t[l] |= ((uint64_t)a[l] & keep) << (bits * k);
  }
  if (sim_kind(i, 0) == SIM_ROW_64) {
    sim_u64 *d = sim_row64(w, i->d);
    SIM_STORE(uint64_t, d, t[l]);
  } else {
    sim_u32 *d = sim_row(w, i->d);
    SIM_STORE(uint32_t, d, (uint32_t)t[l]);
  }
  return i + 1;
}

SIM_DEF(unpack) {
  uint64_t t[32];
  unsigned bits = i->bytes * 8u;
  uint32_t keep = bits == 32 ? SIM_FULL : (1u << bits) - 1;
  if (sim_kind(i, 1) == SIM_ROW_64) {
    const sim_u64 *a = sim_row64(w, i->a);
    SIM_LANES t[l] = a[l];
  } else {
    const sim_u32 *a = sim_row(w, i->a);
    SIM_LANES t[l] = a[l];
  }
  for (uint32_t k = 0; k < i->count; k++) {
    uint32_t entry = sim_list(w, i, k);
    if ((entry & 3u) == SIM_ROW_NONE) continue; /* a sink */
    sim_u32 *d = sim_row(w, entry & ~3u);
    SIM_STORE(uint32_t, d, (uint32_t)(t[l] >> (bits * k)) & keep);
  }
  return i + 1;
}

/* Instructions that the warp has executed: blocks are counted when they
   begin, so what follows in this one is taken away again. */
static uint64_t executed_until(const sim_warp_t *w, const sim_ins_t *i) {
  const sim_ins_t *p = i;
  while (!p->is_block) p--;
  const sim_block_t *b =
      &w->cta->launch->kernel->blocks.data[p->imm];
  return w->executed - b->count + (uint64_t)(i - p);
}

SIM_DEF(clock) {
  uint64_t done = executed_until(w, i), now = done * 4;
  if (i->sub) /* %globaltimer: nanoseconds, for the whole launch */
    now = __atomic_load_n(&w->cta->launch->clock, __ATOMIC_RELAXED) + done;
  if (sim_kind(i, 0) == SIM_ROW_64) {
    sim_u64 *d = sim_row64(w, i->d);
    SIM_STORE(uint64_t, d, now);
  } else {
    sim_u32 *d = sim_row(w, i->d);
    SIM_STORE(uint32_t, d, (uint32_t)(i->sub2 ? now >> 32 : now));
  }
  return i + 1;
}
