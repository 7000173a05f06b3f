/* Atomic operations: the lanes one after another, in order. Host threads of a
   launch exclude each other by a lock for each neighbourhood of addresses. */
#include "runtime/simgpu/sfu.h"
#include "runtime/simgpu/x_atom.h"
#include "runtime/simgpu/x_half.h"
#include "runtime/simgpu/x_mem.h"

static inline float ftz(float x) {
  uint32_t bits = sim_bits_f32(x);
  return (bits & 0x7F800000u) ? x : sim_as_f32(bits & 0x80000000u);
}

static uint32_t add_half(uint32_t a, uint32_t b, bool bf16) {
  if (bf16) return sim_f32_bf16(sim_bf16_f32(a) + sim_bf16_f32(b));
  return sim_f32_f16(sim_f16_f32(a) + sim_f16_f32(b));
}

/* Global f32 additions flush subnormals, shared ones keep them. */
static uint64_t add_float(uint8_t type, uint64_t a, uint64_t b,
                          bool flushes) {
  bool bf16 = sim_is_bf16(type);
  if (type == PTX_F64) {
    double s = sim_as_f64(a) + sim_as_f64(b);
    return s != s ? SIM_NAN_F64 : sim_bits_f64(s);
  }
  if (type == PTX_F32) {
    float x = sim_as_f32((uint32_t)a), y = sim_as_f32((uint32_t)b);
    float s = flushes ? ftz(ftz(x) + ftz(y)) : x + y;
    return s != s ? SIM_NAN_F32 : sim_bits_f32(s);
  }
  uint32_t low = add_half((uint32_t)a & 0xFFFFu, (uint32_t)b & 0xFFFFu, bf16);
  if (!sim_is_pair(type)) return low;
  return low | add_half((uint32_t)a >> 16, (uint32_t)b >> 16 & 0xFFFFu, bf16)
                   << 16;
}

/* min and max of halves: NaN gives way, as in the plain instructions. */
static uint32_t pick_half(uint32_t a, uint32_t b, bool bf16, bool max) {
  float x = bf16 ? sim_bf16_f32(a) : sim_f16_f32(a);
  float y = bf16 ? sim_bf16_f32(b) : sim_f16_f32(b);
  if (x != x) return y != y ? 0x7FFFu : b;
  if (y != y) return a;
  if (x == y) return max ? a & b : a | b;
  return (max ? x > y : x < y) ? a : b;
}

uint64_t sim_atom_apply(const sim_ins_t *i, uint64_t old, uint64_t b,
                        uint64_t c, bool is_global) {
  unsigned bits = i->bytes * 8u;
  uint64_t all = bits == 64 ? ~UINT64_C(0) : (UINT64_C(1) << bits) - 1;
  bool is_signed = (i->mods & SIM_MOD_SIGNED) != 0;
  bool is_float = ptx_type_row((ptx_type_t)i->type)->kind == PTX_KIND_FLOAT;
  int64_t so = (int64_t)(old << (64 - bits)) >> (64 - bits);
  int64_t sb = (int64_t)(b << (64 - bits)) >> (64 - bits);
  b &= all;
  c &= all;
  if (is_float && (i->sub == SIM_ATOM_MIN || i->sub == SIM_ATOM_MAX)) {
    bool max = i->sub == SIM_ATOM_MAX, bf16 = sim_is_bf16(i->type);
    uint64_t low = pick_half((uint32_t)old & 0xFFFFu, (uint32_t)b & 0xFFFFu,
                             bf16, max);
    if (!sim_is_pair(i->type)) return low;
    return low | (uint64_t)pick_half((uint32_t)old >> 16,
                                     (uint32_t)b >> 16, bf16, max)
                     << 16;
  }
  switch ((sim_atom_t)i->sub) {
  case SIM_ATOM_ADD:
    return is_float ? add_float(i->type, old, b, is_global)
                    : (old + b) & all;
  case SIM_ATOM_MIN: return (is_signed ? sb < so : b < old) ? b : old;
  case SIM_ATOM_MAX: return (is_signed ? sb > so : b > old) ? b : old;
  case SIM_ATOM_INC: return old >= b ? 0 : old + 1;
  case SIM_ATOM_DEC: return old == 0 || old > b ? b : old - 1;
  case SIM_ATOM_AND: return old & b;
  case SIM_ATOM_OR: return old | b;
  case SIM_ATOM_XOR: return old ^ b;
  case SIM_ATOM_EXCH: return b;
  case SIM_ATOM_CAS: return old == b ? c : old;
  }
  return old;
}

/* The b operand of element e: the list holds results, then operands. */
static uint32_t operand_row(const sim_warp_t *w, const sim_ins_t *i,
                            uint32_t e) {
  if (i->lanes == 1) return i->b | sim_kind(i, 2);
  return sim_list(w, i, i->list_writes + e);
}

static uint64_t read_row(sim_warp_t *w, uint32_t row, uint32_t l) {
  return (row & 3u) == SIM_ROW_64 ? sim_row64(w, row & ~3u)[l]
                                  : sim_row(w, row & ~3u)[l];
}

static void write_row(sim_warp_t *w, uint32_t row, uint32_t l,
                      uint64_t value) {
  if ((row & 3u) == SIM_ROW_64)
    sim_row64(w, row & ~3u)[l] = value;
  else if ((row & 3u) == SIM_ROW_32)
    sim_row(w, row & ~3u)[l] = (uint32_t)value;
}

static bool atom_part(sim_warp_t *w, const sim_ins_t *i, uint32_t m,
                      const uint64_t *address, ptx_space_t space) {
  sim_access_t x;
  uint32_t size = (uint32_t)i->bytes * i->lanes;
  bool ok = space == PTX_SPACE_GLOBAL
                ? sim_global_access(w, i, m, address, size, 'a', &x)
                : sim_shared_access(w, i, m, address, size, 'a', &x);
  if (!ok) return false;
  w->worker->counters[SIM_COUNTER_ATOMICS]++;
  bool check = (w->cta->launch->options->checks & SIM_CHECK_INIT) != 0;
  for (uint32_t l = 0; l < 32; l++) {
    if (!(x.mask >> l & 1)) continue;
    bool joint = space == PTX_SPACE_GLOBAL && (x.is_run || x.is_same);
    uint64_t plus = joint && !x.is_same ? (uint64_t)(l - x.first) * size : 0;
    uint32_t at = joint ? x.first : l;
    uint8_t *p = x.host[at] + plus;
    bool defined = true;
    if (space == PTX_SPACE_GLOBAL) {
      sim_poison_range(x.alloc[at], x.offset[at] + plus, size);
      defined = sim_is_defined(x.alloc[at], x.offset[at] + plus, size);
    } else {
      for (uint32_t k = 0; k < size; k++)
        defined = defined && x.cta->shared_defined[x.offset[l] + k];
    }
    if (!defined && check && i->sub != SIM_ATOM_EXCH) {
      if (!sim_find(w, i, SIM_CHECK_INIT_USE, l, space, address[l], size,
                    "an atomic operation reads bytes never written"))
        return false;
    }
    volatile int *lock =
        &w->worker->launch->locks[(uintptr_t)p >> 4 & (SIM_LOCKS - 1)];
    while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE)) {}
    for (uint32_t e = 0; e < i->lanes; e++) {
      uint64_t old = sim_load_raw(p + e * i->bytes, i->bytes);
      uint64_t b = read_row(w, operand_row(w, i, e), l);
      uint64_t c = sim_kind(i, 3) ? read_row(w, i->c | sim_kind(i, 3), l) : 0;
      uint64_t now = sim_atom_apply(i, old, b, c, space == PTX_SPACE_GLOBAL);
      memcpy(p + e * i->bytes, &now, i->bytes);
      w->worker->progress += now != old;
      if (i->lanes == 1) {
        if (i->writes & SIM_WRITES_D)
          write_row(w, i->d | sim_kind(i, 0), l, old);
      } else if (e < i->list_writes) {
        write_row(w, sim_list(w, i, e), l, old);
      }
    }
    __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
    if (space == PTX_SPACE_GLOBAL)
      sim_define(x.alloc[at], x.offset[at] + plus, size);
    else
      memset(x.cta->shared_defined + x.offset[l], 1, size);
    if (w->is_tainted && i->lanes == 1 && (i->writes & SIM_WRITES_D))
      sim_shadow(w, i->d)[l] = 0;
  }
  return true;
}

static bool atom(sim_warp_t *w, const sim_ins_t *i, uint32_t m,
                 const uint64_t *address, ptx_space_t space) {
  while (m) {
    uint32_t part =
        space == PTX_SPACE_SHARED ? sim_one_cta(w, m, address) : m;
    if (!atom_part(w, i, part, address, space)) return false;
    m &= ~part;
  }
  return true;
}

#define ATOM(name, space)                                                     \
  SIM_DEF(name) {                                                             \
    uint64_t address[32];                                                     \
    sim_addresses(w, i, address);                                             \
    return atom(w, i, m, address, space) ? i + 1 : NULL;                      \
  }
ATOM(atom_global, PTX_SPACE_GLOBAL)
ATOM(atom_shared, PTX_SPACE_SHARED)

SIM_DEF(atom_generic) {
  uint64_t address[32];
  uint32_t shared = 0;
  if (m == 0) return i + 1;
  sim_addresses(w, i, address);
  for (uint32_t l = 0; l < 32; l++) {
    if (SIM_BIT(m) && address[l] - SIM_SHARED_BASE < SIM_SPACE_BYTES) {
      shared |= 1u << l;
      address[l] -= SIM_SHARED_BASE;
    }
  }
  bool ok = atom(w, i, m & ~shared, address, PTX_SPACE_GLOBAL) &&
            atom(w, i, shared, address, PTX_SPACE_SHARED);
  return ok ? i + 1 : NULL;
}
