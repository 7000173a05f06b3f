/* mma.sync: a 16x8 (or 8x8) tile of one warp, operands in registers. */
#include "runtime/simgpu/x_mma.h"

#if defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#endif

/* -- the product -- */

#if defined(__AVX512F__)
/* 8 rows at a time, one register each. */
void sim_tile_f64(double *acc, const double *a, const double *b, uint32_t k) {
  for (uint32_t r = 0; r < 16; r += 8) {
    __m512d s[8];
    for (uint32_t n = 0; n < 8; n++) s[n] = _mm512_loadu_pd(acc + 8 * (r + n));
    for (uint32_t j = 0; j < k; j++) {
      __m512d column = _mm512_loadu_pd(b + 8 * j);
      for (uint32_t n = 0; n < 8; n++)
        s[n] = _mm512_fmadd_pd(_mm512_set1_pd(a[(r + n) * k + j]), column,
                               s[n]);
    }
    for (uint32_t n = 0; n < 8; n++) _mm512_storeu_pd(acc + 8 * (r + n), s[n]);
  }
}
#elif defined(__AVX2__) && defined(__FMA__)
/* 4 rows at a time, two registers each. */
void sim_tile_f64(double *acc, const double *a, const double *b, uint32_t k) {
  for (uint32_t r = 0; r < 16; r += 4) {
    __m256d s[4][2];
    for (uint32_t n = 0; n < 4; n++) {
      s[n][0] = _mm256_loadu_pd(acc + 8 * (r + n));
      s[n][1] = _mm256_loadu_pd(acc + 8 * (r + n) + 4);
    }
    for (uint32_t j = 0; j < k; j++) {
      __m256d low = _mm256_loadu_pd(b + 8 * j);
      __m256d high = _mm256_loadu_pd(b + 8 * j + 4);
      for (uint32_t n = 0; n < 4; n++) {
        __m256d x = _mm256_broadcast_sd(a + (r + n) * k + j);
        s[n][0] = _mm256_fmadd_pd(x, low, s[n][0]);
        s[n][1] = _mm256_fmadd_pd(x, high, s[n][1]);
      }
    }
    for (uint32_t n = 0; n < 4; n++) {
      _mm256_storeu_pd(acc + 8 * (r + n), s[n][0]);
      _mm256_storeu_pd(acc + 8 * (r + n) + 4, s[n][1]);
    }
  }
}
#else
void sim_tile_f64(double *acc, const double *a, const double *b, uint32_t k) {
  for (uint32_t r = 0; r < 16; r++) {
    double s[8];
    memcpy(s, acc + 8 * r, sizeof s);
    for (uint32_t j = 0; j < k; j++) {
      double x = a[r * k + j];
      for (uint32_t n = 0; n < 8; n++) s[n] += x * b[8 * j + n];
    }
    memcpy(acc + 8 * r, s, sizeof s);
  }
}
#endif

#if defined(__AVX512F__) || (defined(__AVX2__) && defined(__FMA__))
/* Rows that are written while those of the other half are still to be read. */
static bool overlaps(const uint32_t *c, const uint32_t *d) {
  for (uint32_t j = 0; c && j < 2; j++)
    if (d[j] == c[2] || d[j] == c[3]) return true;
  return false;
}

static inline void store_4(sim_warp_t *w, uint32_t row, uint32_t at,
                           __m128 f) {
  __m128 canonical = _mm_castsi128_ps(_mm_set1_epi32((int)SIM_NAN_F32));
  f = _mm_blendv_ps(f, canonical, _mm_cmpunord_ps(f, f));
  _mm_storeu_ps((float *)(void *)(w->r + row) + at, f);
}

static inline __m128 load_4(const sim_warp_t *w, uint32_t row, uint32_t at) {
  return _mm_loadu_ps((const float *)(const void *)(w->r + row) + at);
}
#endif

#if defined(__AVX512F__)
bool sim_tile_direct(sim_warp_t *w, const uint32_t *c, const uint32_t *d,
                     const double *a, const double *b, uint32_t k) {
  if (overlaps(c, d)) return false;
  for (uint32_t half = 0; half < 2; half++) {
    const double *rows = a + (size_t)8 * half * k;
    __m512d s[8];
    for (uint32_t n = 0; n < 8; n++)
      s[n] = c ? _mm512_cvtps_pd(
                     _mm256_set_m128(load_4(w, c[2 * half + 1], 4 * n),
                                     load_4(w, c[2 * half], 4 * n)))
               : _mm512_setzero_pd();
    for (uint32_t j = 0; j < k; j++) {
      __m512d column = _mm512_loadu_pd(b + 8 * j);
      for (uint32_t n = 0; n < 8; n++)
        s[n] = _mm512_fmadd_pd(_mm512_set1_pd(rows[n * k + j]), column, s[n]);
    }
    for (uint32_t n = 0; n < 8; n++) {
      __m256 f = _mm512_cvtpd_ps(s[n]);
      store_4(w, d[2 * half], 4 * n, _mm256_castps256_ps128(f));
      store_4(w, d[2 * half + 1], 4 * n, _mm256_extractf128_ps(f, 1));
    }
  }
  return true;
}
#elif defined(__AVX2__) && defined(__FMA__)
bool sim_tile_direct(sim_warp_t *w, const uint32_t *c, const uint32_t *d,
                     const double *a, const double *b, uint32_t k) {
  if (overlaps(c, d)) return false;
  for (uint32_t r = 0; r < 16; r += 4) {
    uint32_t even = r / 8 * 2, odd = even + 1, g = r % 8;
    const double *rows = a + (size_t)r * k;
    __m256d s[4][2];
    for (uint32_t n = 0; n < 4; n++) {
      s[n][0] = c ? _mm256_cvtps_pd(load_4(w, c[even], 4 * (g + n)))
                  : _mm256_setzero_pd();
      s[n][1] = c ? _mm256_cvtps_pd(load_4(w, c[odd], 4 * (g + n)))
                  : _mm256_setzero_pd();
    }
    for (uint32_t j = 0; j < k; j++) {
      __m256d low = _mm256_loadu_pd(b + 8 * j);
      __m256d high = _mm256_loadu_pd(b + 8 * j + 4);
      for (uint32_t n = 0; n < 4; n++) {
        __m256d x = _mm256_broadcast_sd(rows + n * k + j);
        s[n][0] = _mm256_fmadd_pd(x, low, s[n][0]);
        s[n][1] = _mm256_fmadd_pd(x, high, s[n][1]);
      }
    }
    for (uint32_t n = 0; n < 4; n++) {
      store_4(w, d[even], 4 * (g + n), _mm256_cvtpd_ps(s[n][0]));
      store_4(w, d[odd], 4 * (g + n), _mm256_cvtpd_ps(s[n][1]));
    }
  }
  return true;
}
#else
bool sim_tile_direct(sim_warp_t *w, const uint32_t *c, const uint32_t *d,
                     const double *a, const double *b, uint32_t k) {
  (void)w, (void)c, (void)d, (void)a, (void)b, (void)k;
  return false;
}
#endif

void sim_tile_product(sim_warp_t *w, const sim_tensor_types_t *types,
                      double acc[128], const double *a, const double *b,
                      uint32_t k) {
  const sim_launch_t *launch = w->cta->launch;
  if (launch->options->arith == SIM_ARITH_EXACT)
    sim_tile_f64(acc, a, b, k);
  else
    sim_tile_other(w, types, acc, a, b, k);
}

/* -- accumulators -- */

/* A double to f32 so that a second rounding, to f16, is the only one: the
   last bit says whether anything was lost. */
static inline float to_odd(double d) {
  float f = (float)d;
  uint32_t bits = sim_bits_f32(f);
  double back = (double)f, size = d < 0 ? -d : d;
  double got = back < 0 ? -back : back;
  bits -= got > size;
  bits |= back != d;
  return sim_as_f32(bits);
}

void sim_tile_load(sim_warp_t *w, const uint32_t *rows, ptx_type_t type,
                   double acc[128]) {
  if (type == PTX_F32) {
    for (uint32_t half = 0; half < 2; half++) {
      const sim_f32 *even = (const sim_f32 *)(void *)(w->r + rows[2 * half]);
      const sim_f32 *odd =
          (const sim_f32 *)(void *)(w->r + rows[2 * half + 1]);
      double *out = acc + 64 * half;
      for (uint32_t g = 0; g < 8; g++) {
        for (uint32_t q = 0; q < 4; q++)
          out[8 * g + q] = (double)even[4 * g + q];
        for (uint32_t q = 0; q < 4; q++)
          out[8 * g + 4 + q] = (double)odd[4 * g + q];
      }
    }
    return;
  }
  for (uint32_t j = 0; j < 2; j++) {
    const sim_u32 *c = sim_row(w, rows[j]);
    for (uint32_t l = 0; l < 32; l++) {
      double *out = acc + 64 * j + 8 * (l / 4) + l % 4;
      out[0] = (double)sim_f16_f32(c[l] & 0xFFFFu);
      out[4] = (double)sim_f16_f32(c[l] >> 16);
    }
  }
}

void sim_tile_store(sim_warp_t *w, const uint32_t *rows, ptx_type_t type,
                    const double acc[128], uint32_t m) {
  if (type == PTX_F32) {
    for (uint32_t j = 0; j < 4; j++) {
      const double *in = acc + 64 * (j >> 1) + 4 * (j & 1);
      sim_u32 *d = sim_row(w, rows[j]);
      float value[32];
      for (uint32_t g = 0; g < 8; g++)
        for (uint32_t q = 0; q < 4; q++)
          value[4 * g + q] = (float)in[8 * g + q];
      uint32_t bits[32];
      for (uint32_t l = 0; l < 32; l++)
        bits[l] = value[l] == value[l] ? sim_bits_f32(value[l]) : SIM_NAN_F32;
      SIM_STORE(uint32_t, d, bits[l]);
    }
    return;
  }
  for (uint32_t j = 0; j < 2; j++) {
    const double *in = acc + 64 * j;
    sim_u32 *d = sim_row(w, rows[j]);
    uint32_t bits[64];
    for (uint32_t n = 0; n < 64; n++) bits[n] = sim_f32_f16(to_odd(in[n]));
    uint32_t value[32];
    for (uint32_t l = 0; l < 32; l++) {
      uint32_t at = 8 * (l / 4) + l % 4;
      value[l] = bits[at] | bits[at + 4] << 16;
    }
    SIM_STORE(uint32_t, d, value[l]);
  }
}

/* -- undefined values: D[r][c] depends on row r of A and column c of B -- */

typedef struct sim_spoilt_t {
  uint16_t rows;   /* bit r: some element of row r of A is undefined */
  uint8_t columns; /* of B */
} sim_spoilt_t;

static sim_spoilt_t spoilt(sim_warp_t *w, const uint32_t *a, uint32_t na,
                           const uint32_t *b, uint32_t nb, bool is_m16) {
  sim_spoilt_t out = {0, 0};
  for (uint32_t r = 0; r < na + nb; r++) {
    const uint8_t *s = sim_shadow(w, r < na ? a[r] : b[r - na]);
    for (uint32_t l = 0; l < 32; l++) {
      if (!s[l]) continue;
      if (r >= na)
        out.columns = (uint8_t)(out.columns | 1u << l / 4);
      else
        out.rows = (uint16_t)(out.rows |
                              1u << (l / 4 + (is_m16 ? 8 * (r & 1) : 0)));
    }
  }
  return out;
}

/* c and d: one row for each two columns of a lane, or packed pairs. */
static void spread(sim_warp_t *w, sim_spoilt_t s, const uint32_t *c,
                   const uint32_t *d, uint32_t n, bool is_packed,
                   uint8_t whole) {
  uint8_t out[4][32];
  for (uint32_t j = 0; j < n; j++) {
    const uint8_t *old = sim_shadow(w, c[j]);
    for (uint32_t l = 0; l < 32; l++) {
      uint32_t row = l / 4 + 8 * (is_packed ? j : j >> 1), q = 2 * (l % 4);
      bool bad_row = s.rows >> row & 1;
      if (is_packed) {
        bool low = bad_row || (s.columns >> q & 1) || (old[l] & 3);
        bool high = bad_row || (s.columns >> (q + 1) & 1) || (old[l] & 12);
        out[j][l] = (uint8_t)((low ? 3 : 0) | (high ? 12 : 0));
      } else {
        bool bad = bad_row || (s.columns >> (q + (j & 1)) & 1) || old[l];
        out[j][l] = bad ? whole : 0;
      }
    }
  }
  for (uint32_t j = 0; j < n; j++) memcpy(sim_shadow(w, d[j]), out[j], 32);
}

/* -- the instructions -- */

/* Rows of the operands, in the order d a b c of the list. */
typedef struct operands_t {
  uint32_t d[4], a[8], b[4], c[4];
  uint32_t nd, na, nb;
  uint32_t m, k;
  bool has_spoilt;
  sim_spoilt_t spoilt;
} operands_t;

static void read_operands(sim_warp_t *w, const sim_ins_t *i,
                          operands_t *o) {
  const uint32_t *list =
      w->cta->launch->kernel->lists.data + i->list;
  o->m = (uint32_t)i->imm & 0xFF;
  o->k = (uint32_t)(i->imm >> 16) & 0xFFFF;
  o->nd = i->list_writes;
  o->nb = (uint32_t)(i->imm >> 32) & 0xFF;
  o->na = i->count - 2 * o->nd - o->nb;
  for (uint32_t n = 0; n < o->nd; n++) o->d[n] = *list++ & ~3u;
  for (uint32_t n = 0; n < o->na; n++) o->a[n] = *list++ & ~3u;
  for (uint32_t n = 0; n < o->nb; n++) o->b[n] = *list++ & ~3u;
  for (uint32_t n = 0; n < o->nd; n++) o->c[n] = *list++ & ~3u;
  o->has_spoilt = w->is_tainted;
  if (w->is_tainted)
    o->spoilt = spoilt(w, o->a, o->na, o->b, o->nb, o->m == 16);
  sim_tensor_count(w->worker, (ptx_type_t)i->type2, i->imm >> 40);
}

/* Operands of elements of one width; a constant where it is called, so that
   the loops are straight vector code. */
static inline __attribute__((always_inline)) void widen(sim_warp_t *w,
                                                        const operands_t *o,
                                                        sim_tensor_types_t t,
                                                        uint32_t width,
                                                        double *a,
                                                        double *b) {
  float part[128];
  for (uint32_t r = 0; r < o->na; r++) {
    double *to = a + 8 * (r & 1) * o->k + (r >> 1) * width;
    sim_widen_register(t.a, w->r + o->a[r], part);
    for (size_t g = 0; g < 8; g++) {
      double *row = to + g * o->k;
      const float *from = part + g * width;
      for (uint32_t j = 0; j < width; j++) row[j] = (double)from[j];
    }
  }
  for (uint32_t r = 0; r < o->nb; r++) {
    double *to = b + 8 * r * width;
    sim_widen_register(t.b, w->r + o->b[r], part);
    for (uint32_t j = 0; j < width; j++) {
      float column[8];
      for (uint32_t n = 0; n < 4; n++) {
        column[n] = part[2 * n * width + j];
        column[n + 4] = part[(2 * n + 1) * width + j];
      }
      for (uint32_t n = 0; n < 8; n++) to[8 * j + n] = (double)column[n];
    }
  }
}

SIM_DEF(mma_float) {
  operands_t o;
  double a[16 * 32], b[8 * 32], acc[128];
  if (m == 0) return i + 1;
  if (!sim_converged(w, i, m)) return NULL;
  read_operands(w, i, &o);
  sim_tensor_types_t types = {(ptx_type_t)i->type, (ptx_type_t)i->type2,
                              (ptx_type_t)i->sub2};
  switch (types.a) {
  case PTX_F16:
    widen(w, &o, (sim_tensor_types_t){types.d, PTX_F16, PTX_F16}, 8, a, b);
    break;
  case PTX_BF16:
    widen(w, &o, (sim_tensor_types_t){types.d, PTX_BF16, PTX_BF16}, 8, a, b);
    break;
  case PTX_TF32:
    widen(w, &o, (sim_tensor_types_t){types.d, PTX_TF32, PTX_TF32}, 4, a, b);
    break;
  default: widen(w, &o, types, 16, a, b); break;
  }
  bool is_direct = types.d == PTX_F32 && m == SIM_FULL &&
                   w->cta->launch->options->arith == SIM_ARITH_EXACT &&
                   sim_tile_direct(w, o.c, o.d, a, b, o.k);
  if (!is_direct) {
    sim_tile_load(w, o.c, types.d, acc);
    sim_tile_product(w, &types, acc, a, b, o.k);
    sim_tile_store(w, o.d, types.d, acc, m);
  }
  if (o.has_spoilt)
    spread(w, o.spoilt, o.c, o.d, o.nd, types.d == PTX_F16, 15);
  return i + 1;
}

/* f64: every product is fused into the sum, in the order of k. */
SIM_DEF(mma_f64) {
  operands_t o;
  double a[16 * 16], b[8 * 16], acc[128];
  if (m == 0) return i + 1;
  if (!sim_converged(w, i, m)) return NULL;
  read_operands(w, i, &o);
  uint32_t halves = o.m / 8;
  for (uint32_t r = 0; r < o.na; r++) {
    const sim_f64 *in = (const sim_f64 *)(void *)(w->r + o.a[r]);
    uint32_t row = halves == 2 ? 8 * (r & 1) : 0;
    uint32_t k = 4 * (halves == 2 ? r >> 1 : r);
    for (uint32_t l = 0; l < 32; l++)
      a[(row + l / 4) * o.k + k + l % 4] = in[l];
  }
  for (uint32_t r = 0; r < o.nb; r++) {
    const sim_f64 *in = (const sim_f64 *)(void *)(w->r + o.b[r]);
    for (uint32_t l = 0; l < 32; l++) b[8 * (4 * r + l % 4) + l / 4] = in[l];
  }
  for (uint32_t j = 0; j < o.nd; j++) {
    const sim_f64 *in = (const sim_f64 *)(void *)(w->r + o.c[j]);
    for (uint32_t l = 0; l < 32; l++)
      acc[8 * (l / 4 + 8 * (j >> 1)) + 2 * (l % 4) + (j & 1)] = in[l];
  }
  for (uint32_t r = 0; r < o.m; r++)
    for (uint32_t n = 0; n < 8; n++)
      for (uint32_t k = 0; k < o.k; k++)
        acc[8 * r + n] =
            __builtin_fma(a[r * o.k + k], b[8 * k + n], acc[8 * r + n]);
  for (uint32_t j = 0; j < o.nd; j++) {
    sim_u64 *d = sim_row64(w, o.d[j]);
    uint64_t value[32];
    for (uint32_t l = 0; l < 32; l++) {
      double x = acc[8 * (l / 4 + 8 * (j >> 1)) + 2 * (l % 4) + (j & 1)];
      value[l] = x == x ? sim_bits_f64(x) : SIM_NAN_F64;
    }
    SIM_STORE(uint64_t, d, value[l]);
  }
  if (o.has_spoilt) spread(w, o.spoilt, o.c, o.d, o.nd, false, 0xFF);
  return i + 1;
}

/* The elements of a register as integers, in row order. */
static uint32_t widen_int(ptx_type_t type, const void *reg, int32_t *out) {
  uint8_t b[128];
  memcpy(b, reg, sizeof b);
  switch (type) {
  case PTX_S8:
    for (uint32_t j = 0; j < 128; j++) out[j] = (int8_t)b[j];
    return 16;
  case PTX_U8:
    for (uint32_t j = 0; j < 128; j++) out[j] = b[j];
    return 16;
  case PTX_S4:
    for (uint32_t j = 0; j < 128; j++) {
      out[2 * j] = (int8_t)(uint8_t)(b[j] << 4) / 16;
      out[2 * j + 1] = (int8_t)(b[j] & 0xF0u) / 16;
    }
    return 32;
  case PTX_U4:
    for (uint32_t j = 0; j < 128; j++) {
      out[2 * j] = b[j] & 15;
      out[2 * j + 1] = b[j] >> 4;
    }
    return 32;
  default: /* b1: words of 32 */
    memcpy(out, reg, 128);
    return 4;
  }
}

/* Integers: sums are exact; they wrap, or are clamped with .satfinite. */
SIM_DEF(mma_int) {
  operands_t o;
  int32_t a[16 * SIM_MAX_K], b[8 * SIM_MAX_K], part[256];
  int64_t acc[128];
  if (m == 0) return i + 1;
  if (!sim_converged(w, i, m)) return NULL;
  read_operands(w, i, &o);
  bool is_bits = i->type2 == PTX_B1;
  uint32_t halves = o.m / 8, k = is_bits ? o.k / 32 : o.k;
  for (uint32_t r = 0; r < o.na; r++) {
    uint32_t width =
        widen_int((ptx_type_t)i->type2, w->r + o.a[r], part);
    uint32_t row = halves == 2 ? 8 * (r & 1) : 0;
    uint32_t at = width * (halves == 2 ? r >> 1 : r);
    for (uint32_t g = 0; g < 8; g++)
      for (uint32_t j = 0; j < width; j++)
        a[(row + g) * k + at + j] = part[g * width + j];
  }
  for (uint32_t r = 0; r < o.nb; r++) {
    uint32_t width = widen_int((ptx_type_t)i->sub2, w->r + o.b[r], part);
    for (uint32_t g = 0; g < 8; g++)
      for (uint32_t j = 0; j < width; j++)
        b[8 * (r * width + j) + g] = part[g * width + j];
  }
  for (uint32_t j = 0; j < o.nd; j++) {
    const sim_u32 *in = sim_row(w, o.c[j]);
    for (uint32_t l = 0; l < 32; l++)
      acc[8 * (l / 4 + 8 * (j >> 1)) + 2 * (l % 4) + (j & 1)] =
          (int32_t)in[l];
  }
  for (uint32_t r = 0; r < o.m; r++) {
    int32_t sum[8] = {0};
    for (uint32_t j = 0; j < k; j++) {
      int32_t x = a[r * k + j];
      for (uint32_t n = 0; n < 8; n++) {
        int32_t y = b[8 * j + n];
        sum[n] += !is_bits ? x * y
                  : i->sub == SIM_ATOM_AND
                      ? __builtin_popcount((uint32_t)(x & y))
                      : __builtin_popcount((uint32_t)(x ^ y));
      }
    }
    for (uint32_t n = 0; n < 8; n++) acc[8 * r + n] += sum[n];
  }
  for (uint32_t j = 0; j < o.nd; j++) {
    sim_u32 *d = sim_row(w, o.d[j]);
    uint32_t value[32];
    for (uint32_t l = 0; l < 32; l++) {
      int64_t x = acc[8 * (l / 4 + 8 * (j >> 1)) + 2 * (l % 4) + (j & 1)];
      if (i->mods & SIM_MOD_SATFINITE)
        x = x > INT32_MAX ? INT32_MAX : x < INT32_MIN ? INT32_MIN : x;
      value[l] = (uint32_t)x;
    }
    SIM_STORE(uint32_t, d, value[l]);
  }
  if (o.has_spoilt) spread(w, o.spoilt, o.c, o.d, o.nd, false, 15);
  return i + 1;
}
