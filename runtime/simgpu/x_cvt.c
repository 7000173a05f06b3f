/* cvt and cvta. The common conversions have loops of their own; all others
   go through one exact intermediate value and one rounding. */
#include "runtime/simgpu/sfu.h"
#include "runtime/simgpu/x_half.h"

static inline float ftz(float x) {
  uint32_t bits = sim_bits_f32(x);
  return (bits & 0x7F800000u) ? x : sim_as_f32(bits & 0x80000000u);
}

static uint64_t bits_of(unsigned bytes) {
  return bytes >= 8 ? ~UINT64_C(0) : (UINT64_C(1) << (8 * bytes)) - 1;
}

/* A lane's source value: integer (sign and magnitude) or double. */
typedef struct value_t {
  bool is_float, is_negative;
  uint64_t magnitude; /* of integers */
  double f;
} value_t;

static value_t read_value(const sim_ins_t *i, uint64_t raw) {
  ptx_type_t type = (ptx_type_t)i->type2;
  const ptx_type_row_t *row = ptx_type_row(type);
  value_t v = {0};
  raw &= bits_of(row->bytes);
  if (row->kind == PTX_KIND_FLOAT) {
    v.is_float = true;
    if (type == PTX_F64) {
      v.f = sim_as_f64(raw);
    } else if (type == PTX_F32) {
      float x = sim_as_f32((uint32_t)raw);
      v.f = (double)(i->mods & SIM_MOD_FTZ ? ftz(x) : x);
    } else {
      v.f = sim_widen(sim_format_of(type), (uint32_t)raw);
    }
    return v;
  }
  if (row->kind == PTX_KIND_SIGNED && (raw >> (8 * row->bytes - 1) & 1)) {
    v.is_negative = true;
    raw = (0 - raw) & bits_of(row->bytes);
  }
  v.magnitude = raw;
  return v;
}

/* Clamps to the range of the destination. NaN gives 0, or the top bit where
   64 bits are involved. */
static uint64_t to_integer(const sim_ins_t *i, double f) {
  const ptx_type_row_t *to = ptx_type_row((ptx_type_t)i->type);
  unsigned bits = to->bytes * 8u;
  if (f != f) {
    bool wide = bits == 64 || i->type2 == PTX_F64;
    return wide ? UINT64_C(1) << (bits - 1) : 0;
  }
  f = sim_round_integral(f, (sim_round_t)(i->mods & SIM_ROUND_MASK));
  double top = sim_exp2((double)(to->kind == PTX_KIND_SIGNED ? bits - 1
                                                             : bits));
  if (to->kind == PTX_KIND_SIGNED) {
    if (f >= top) return bits_of(to->bytes) >> 1;
    if (f < -top) return UINT64_C(1) << (bits - 1);
    return (uint64_t)(int64_t)f & bits_of(to->bytes);
  }
  if (f >= top) return bits_of(to->bytes);
  if (f <= 0) return 0;
  return (uint64_t)f;
}

static uint64_t integer_to_integer(const sim_ins_t *i, value_t v) {
  const ptx_type_row_t *to = ptx_type_row((ptx_type_t)i->type);
  uint64_t all = bits_of(to->bytes);
  uint64_t wrapped = v.is_negative ? 0 - v.magnitude : v.magnitude;
  if (!(i->mods & SIM_MOD_SAT)) return wrapped & all;
  if (to->kind == PTX_KIND_SIGNED) {
    uint64_t max = all >> 1;
    if (v.is_negative) return v.magnitude > max + 1 ? max + 1 : wrapped & all;
    return v.magnitude > max ? max : v.magnitude;
  }
  return v.is_negative ? 0 : v.magnitude > all ? all : v.magnitude;
}

static uint32_t to_narrow(const sim_ins_t *i, ptx_type_t type, double f) {
  const sim_format_t *format = sim_format_of(type);
  sim_round_t mode = (sim_round_t)(i->mods & SIM_ROUND_MASK);
  uint32_t code = sim_narrow(format, f, mode,
                             (i->mods & SIM_MOD_SATFINITE) != 0);
  if ((i->mods & SIM_MOD_RELU) && f == f && (code >> (format->bits - 1)))
    code = 0;
  if (type == PTX_TF32) code <<= 13;
  return code;
}

static uint64_t to_float(const sim_ins_t *i, value_t v) {
  ptx_type_t type = (ptx_type_t)i->type;
  sim_round_t mode = (sim_round_t)(i->mods & SIM_ROUND_MASK);
  if (!v.is_float) {
    if (type == PTX_F64)
      return sim_pack_f64(v.is_negative, v.magnitude, 0, mode);
    return sim_pack(sim_format_of(type), v.is_negative, v.magnitude, 0,
                    false, mode, false);
  }
  double f = v.f;
  if (i->sub) f = sim_round_integral(f, mode); /* .rni and its like */
  if (i->mods & SIM_MOD_SAT) f = f > 0 ? (f < 1 ? f : 1) : 0;
  if (type == PTX_F64) return f != f ? SIM_NAN_F64 : sim_bits_f64(f);
  uint32_t code = to_narrow(i, type, f);
  if (type == PTX_F32 && (i->mods & SIM_MOD_FTZ))
    code = sim_bits_f32(ftz(sim_as_f32(code)));
  return code;
}

SIM_DEF(cvt) {
  bool wide_in = sim_kind(i, 1) == SIM_ROW_64;
  bool wide_out = sim_kind(i, 0) == SIM_ROW_64;
  const ptx_type_row_t *to = ptx_type_row((ptx_type_t)i->type);
  for (uint32_t l = 0; l < 32; l++) {
    if (!SIM_BIT(m)) continue;
    value_t v = read_value(i, wide_in ? sim_row64(w, i->a)[l]
                                      : sim_row(w, i->a)[l]);
    uint64_t out;
    if (to->kind == PTX_KIND_FLOAT)
      out = to_float(i, v);
    else
      out = v.is_float ? to_integer(i, v.f) : integer_to_integer(i, v);
    /* a destination register may be wider: signed types extend */
    unsigned bits = to->bytes * 8u;
    unsigned row_bits = wide_out ? 64 : i->bytes * 8u;
    if (to->kind == PTX_KIND_SIGNED && row_bits > bits &&
        (out >> (bits - 1) & 1))
      out |= bits_of(row_bits / 8) & ~bits_of(to->bytes);
    if (wide_out)
      sim_row64(w, i->d)[l] = out;
    else
      sim_row(w, i->d)[l] = (uint32_t)out;
  }
  return i + 1;
}

/* Two f32 into one register: a above b. */
SIM_DEF(cvt_2to1) {
  sim_u32 *d = sim_row(w, i->d);
  const sim_u32 *a = sim_row(w, i->a), *b = sim_row(w, i->b);
  unsigned bits = (unsigned)sim_format_of((ptx_type_t)i->type)->bits;
  for (uint32_t l = 0; l < 32; l++) {
    if (!SIM_BIT(m)) continue;
    uint32_t high = to_narrow(i, (ptx_type_t)i->type,
                              (double)sim_as_f32(a[l]));
    uint32_t low = to_narrow(i, (ptx_type_t)i->type,
                             (double)sim_as_f32(b[l]));
    d[l] = high << bits | low;
  }
  return i + 1;
}

/* Pairs of halves to pairs of fp8 and back. */
SIM_DEF(cvt_1to2) {
  sim_u32 *d = sim_row(w, i->d);
  const sim_u32 *a = sim_row(w, i->a);
  const sim_format_t *from = sim_format_of((ptx_type_t)i->type2);
  const sim_format_t *to = sim_format_of((ptx_type_t)i->type);
  for (uint32_t l = 0; l < 32; l++) {
    if (!SIM_BIT(m)) continue;
    uint32_t out = 0;
    for (int k = 0; k < 2; k++) {
      uint32_t code = a[l] >> (k * from->bits) & ((1u << from->bits) - 1);
      out |= to_narrow(i, (ptx_type_t)i->type, sim_widen(from, code))
             << (k * to->bits);
    }
    d[l] = out;
  }
  return i + 1;
}

/* cvt.pack.sat: a and b saturated into the upper and lower part; for 8-bit
   types the lower half of c moves up. */
SIM_DEF(cvt_pack) {
  sim_u32 *d = sim_row(w, i->d);
  const sim_u32 *a = sim_row(w, i->a), *b = sim_row(w, i->b),
                *c = sim_row(w, i->c);
  const ptx_type_row_t *to = ptx_type_row((ptx_type_t)i->type);
  unsigned bits = to->bytes * 8u;
  for (uint32_t l = 0; l < 32; l++) {
    if (!SIM_BIT(m)) continue;
    int64_t low = to->kind == PTX_KIND_SIGNED ? -(INT64_C(1) << (bits - 1))
                                              : 0;
    int64_t high = low + (INT64_C(1) << bits) - 1;
    int64_t x = (int32_t)a[l], y = (int32_t)b[l];
    x = x < low ? low : x > high ? high : x;
    y = y < low ? low : y > high ? high : y;
    uint32_t mask = (1u << bits) - 1;
    uint32_t out = ((uint32_t)x & mask) << bits | ((uint32_t)y & mask);
    if (bits == 8) out |= c[l] << 16;
    d[l] = out;
  }
  return i + 1;
}

/* -- plain forms -- */
SIM_DEF(cvt_f32_s32) {
  sim_f32 *d = (sim_f32 *)(void *)(w->r + i->d);
  const sim_s32 *a = (const sim_s32 *)(const void *)(w->r + i->a);
  SIM_STORE(float, d, (float)a[l]);
  return i + 1;
}
SIM_DEF(cvt_f32_u32) {
  sim_f32 *d = (sim_f32 *)(void *)(w->r + i->d);
  const sim_u32 *a = sim_row(w, i->a);
  SIM_STORE(float, d, (float)a[l]);
  return i + 1;
}
SIM_DEF(cvt_f32_f16) {
  sim_u32 *d = sim_row(w, i->d);
  const sim_u32 *a = sim_row(w, i->a);
  SIM_STORE(uint32_t, d,
            (a[l] & 0x7FFFu) > 0x7C00u
                ? SIM_NAN_F32
                : sim_bits_f32(sim_f16_f32(a[l] & 0xFFFFu)));
  return i + 1;
}
SIM_DEF(cvt_f32_bf16) {
  sim_u32 *d = sim_row(w, i->d);
  const sim_u32 *a = sim_row(w, i->a);
  SIM_STORE(uint32_t, d,
            (a[l] & 0x7FFFu) > 0x7F80u ? SIM_NAN_F32 : a[l] << 16);
  return i + 1;
}
SIM_DEF(cvt_bf16_f32) {
  sim_u32 *d = sim_row(w, i->d);
  const sim_f32 *a = (const sim_f32 *)(const void *)(w->r + i->a);
  SIM_STORE(uint32_t, d, sim_f32_bf16(a[l]));
  return i + 1;
}
SIM_DEF(cvt_f16_f32) {
  sim_u32 *d = sim_row(w, i->d);
  const sim_f32 *a = (const sim_f32 *)(const void *)(w->r + i->a);
  SIM_STORE(uint32_t, d, sim_f32_f16(a[l]));
  return i + 1;
}
SIM_DEF(cvt_bf16x2_f32) {
  sim_u32 *d = sim_row(w, i->d);
  const sim_f32 *a = (const sim_f32 *)(const void *)(w->r + i->a);
  const sim_f32 *b = (const sim_f32 *)(const void *)(w->r + i->b);
  SIM_STORE(uint32_t, d, sim_f32_bf16(a[l]) << 16 | sim_f32_bf16(b[l]));
  return i + 1;
}
SIM_DEF(cvt_f16x2_f32) {
  sim_u32 *d = sim_row(w, i->d);
  const sim_f32 *a = (const sim_f32 *)(const void *)(w->r + i->a);
  const sim_f32 *b = (const sim_f32 *)(const void *)(w->r + i->b);
  SIM_STORE(uint32_t, d, sim_f32_f16(a[l]) << 16 | sim_f32_f16(b[l]));
  return i + 1;
}
SIM_DEF(cvt_64_u32) {
  sim_u64 *d = sim_row64(w, i->d);
  const sim_u32 *a = sim_row(w, i->a);
  SIM_STORE(uint64_t, d, a[l]);
  return i + 1;
}
SIM_DEF(cvt_64_s32) {
  sim_s64 *d = (sim_s64 *)(void *)(w->r + i->d);
  const sim_s32 *a = (const sim_s32 *)(const void *)(w->r + i->a);
  SIM_STORE(int64_t, d, (int64_t)a[l]);
  return i + 1;
}
SIM_DEF(cvt_32_64) {
  sim_u32 *d = sim_row(w, i->d);
  const sim_u64 *a = sim_row64(w, i->a);
  SIM_STORE(uint32_t, d, (uint32_t)a[l]);
  return i + 1;
}

/* -- addresses: generic ones have the window of shared and local added -- */
static uint64_t window_of(const sim_ins_t *i) {
  return i->space == PTX_SPACE_SHARED  ? SIM_SHARED_BASE
         : i->space == PTX_SPACE_LOCAL ? SIM_LOCAL_BASE
                                       : 0;
}

static uint64_t read_any(sim_warp_t *w, const sim_ins_t *i, uint32_t l) {
  return sim_kind(i, 1) == SIM_ROW_64 ? sim_row64(w, i->a)[l]
                                      : sim_row(w, i->a)[l];
}

static void write_any(sim_warp_t *w, const sim_ins_t *i, uint32_t l,
                      uint64_t value) {
  if (sim_kind(i, 0) == SIM_ROW_64)
    sim_row64(w, i->d)[l] = value;
  else
    sim_row(w, i->d)[l] = (uint32_t)value;
}

SIM_DEF(cvta_to) {
  uint64_t window = window_of(i);
  for (uint32_t l = 0; l < 32; l++) {
    if (SIM_BIT(m)) write_any(w, i, l, read_any(w, i, l) - window);
  }
  return i + 1;
}

SIM_DEF(cvta_from) {
  uint64_t window = window_of(i);
  for (uint32_t l = 0; l < 32; l++) {
    if (SIM_BIT(m)) write_any(w, i, l, read_any(w, i, l) + window);
  }
  return i + 1;
}

SIM_DEF(isspacep) {
  uint32_t r = 0;
  for (uint32_t l = 0; l < 32; l++) {
    uint64_t a = read_any(w, i, l);
    bool shared = a - SIM_SHARED_BASE < SIM_SPACE_BYTES, yes_own = true;
    bool local = a - SIM_LOCAL_BASE < SIM_SPACE_BYTES;
    uint64_t rank = a >> 24 & 0xFF; /* another CTA's is in the cluster only */
    if (!(i->mods & SIM_MOD_CLUSTER) && shared && rank)
      yes_own = rank - 1 == w->cta->cluster_rank;
    const sim_alloc_t *of =
        shared || local ? NULL
                        : sim_alloc_find(w->worker->launch->memory, a);
    bool constant = of && of->kind == SIM_ALLOC_CONST;
    bool yes = i->space == PTX_SPACE_SHARED  ? shared && yes_own
               : i->space == PTX_SPACE_LOCAL ? local
               : i->space == PTX_SPACE_CONST
                   ? constant
                   : !shared && !local && !constant;
    r |= (uint32_t)yes << l;
  }
  sim_set_pred(w, i->d, r, m);
  return i + 1;
}
