/* The product of a tile in the block arithmetic of hardware, and moved within
   its bound. */
#include "runtime/simgpu/grid.h"
#include "runtime/simgpu/x_mma.h"

#define ZERO_EXPONENT (-100000) /* of terms that count for nothing */

/* Elements as +-significand * 2^(exponent - fraction). */
typedef struct parts_t {
  uint32_t significand;
  int32_t exponent;
  bool is_negative;
} parts_t;

static parts_t take_apart(double v, uint32_t fraction, int32_t emin) {
  uint64_t bits = sim_bits_f64(v);
  int32_t e = (int32_t)(bits >> 52 & 0x7FF) - 1023;
  parts_t p = {0, ZERO_EXPONENT, bits >> 63 != 0};
  uint64_t whole = (bits & UINT64_C(0xFFFFFFFFFFFFF)) | UINT64_C(1) << 52;
  if (v == 0) return p;
  /* narrow formats are all normal as doubles */
  p.exponent = e > emin ? e : emin;
  p.significand = (uint32_t)(whole >> (52 - fraction + (uint32_t)(p.exponent -
                                                                  e)));
  return p;
}

static bool is_finite(double v) {
  return (sim_bits_f64(v) >> 52 & 0x7FF) != 0x7FF;
}

static double round_result(double d, const sim_tensor_model_t *model) {
  if (model->is_nearest) {
    float f = (float)d;
    double size = d < 0 ? -d : d, back = (double)f;
    uint32_t bits = sim_bits_f32(f);
    bits -= (back < 0 ? -back : back) > size;
    bits |= back != d; /* to odd: the half's rounding is the only one */
    return (double)sim_f16_f32(sim_f32_f16(sim_as_f32(bits)));
  }
  float f = (float)d;
  double back = (double)f;
  uint32_t bits = sim_bits_f32(f);
  bits -= (back < 0 ? -back : back) > (d < 0 ? -d : d);
  if (model->keep) bits &= ~((1u << (23 - model->keep)) - 1);
  return (double)sim_as_f32(bits);
}

/* One row of results, all eight columns. */
static void block_row(const sim_tensor_model_t *model, double c[8],
                      const parts_t *a, const parts_t *b, uint32_t from,
                      uint32_t count, uint32_t fraction, uint32_t fraction_c,
                      int32_t emin_c) {
  int32_t top[8];
  int64_t sum[8];
  parts_t own[8];
  for (uint32_t n = 0; n < 8; n++) {
    own[n] = take_apart(c[n], fraction_c, emin_c);
    top[n] = own[n].exponent > model->least ? own[n].exponent : model->least;
  }
  for (uint32_t j = from; j < from + count; j++)
    for (uint32_t n = 0; n < 8; n++) {
      int32_t e = a[j].exponent + b[8 * j + n].exponent;
      top[n] = e > top[n] ? e : top[n];
    }
  for (uint32_t n = 0; n < 8; n++) {
    uint32_t shift = (uint32_t)(top[n] - own[n].exponent) + fraction_c;
    uint64_t term = (uint64_t)own[n].significand << model->fraction;
    int64_t size = (int64_t)(shift > 63 ? 0 : term >> shift);
    sum[n] = own[n].is_negative ? -size : size;
  }
  for (uint32_t j = from; j < from + count; j++)
    for (uint32_t n = 0; n < 8; n++) {
      const parts_t *y = &b[8 * j + n];
      uint64_t term = ((uint64_t)a[j].significand * y->significand)
                      << model->fraction;
      uint32_t shift =
          (uint32_t)(top[n] - a[j].exponent - y->exponent) + fraction;
      int64_t size = (int64_t)(shift > 63 ? 0 : term >> shift);
      sum[n] += a[j].is_negative != y->is_negative ? -size : size;
    }
  for (uint32_t n = 0; n < 8; n++) {
    /* a power of two as a double: the exponent stays far from its ends */
    int32_t e = top[n] - (int32_t)model->fraction;
    double scale = sim_as_f64((uint64_t)(e + 1023) << 52);
    c[n] = round_result((double)sum[n] * scale, model);
  }
}

static void by_blocks(const sim_tensor_model_t *model,
                      const sim_tensor_types_t *types, double acc[128],
                      const double *a, const double *b, uint32_t k) {
  parts_t pa[16 * 32], pb[8 * 32];
  double exact[128];
  uint32_t fa, fb, fc;
  int32_t ea, eb, ec;
  bool any_special = false, special[128] = {false};
  sim_tensor_format(types->a, &fa, &ea);
  sim_tensor_format(types->b, &fb, &eb);
  fc = types->d == PTX_F16 ? 10 : 23;
  ec = types->d == PTX_F16 ? -14 : -126;
  for (uint32_t n = 0; n < 16 * k; n++) pa[n] = take_apart(a[n], fa, ea);
  for (uint32_t n = 0; n < 8 * k; n++) pb[n] = take_apart(b[n], fb, eb);
  for (uint32_t r = 0; r < 16; r++) {
    bool bad_row = false;
    for (uint32_t j = 0; j < k; j++) bad_row |= !is_finite(a[r * k + j]);
    for (uint32_t n = 0; n < 8; n++) {
      bool bad = bad_row || !is_finite(acc[8 * r + n]);
      for (uint32_t j = 0; j < k; j++) bad |= !is_finite(b[8 * j + n]);
      special[8 * r + n] = bad;
      any_special |= bad;
    }
  }
  /* infinities and NaN follow the rules of ordinary arithmetic */
  if (any_special) {
    memcpy(exact, acc, sizeof exact);
    sim_tile_f64(exact, a, b, k);
  }
  for (uint32_t r = 0; r < 16; r++)
    for (uint32_t from = 0; from < k; from += model->block) {
      uint32_t count = k - from < model->block ? k - from : model->block;
      double c[8];
      memcpy(c, acc + 8 * r, sizeof c);
      for (uint32_t n = 0; n < 8; n++)
        if (special[8 * r + n]) c[n] = 0;
      block_row(model, c, pa + r * k, pb, from, count, fa + fb, fc, ec);
      memcpy(acc + 8 * r, c, sizeof c);
    }
  for (uint32_t n = 0; any_special && n < 128; n++)
    if (special[n]) acc[n] = exact[n];
}

/* The exact result, moved by up to what the blocks may lose. */
static void perturb(sim_warp_t *w, const sim_tensor_model_t *model,
                    double acc[128], const double *a, const double *b,
                    uint32_t k) {
  double before[128];
  uint64_t state = w->cta->launch->options->seed * UINT64_C(0x9E3779B97F4A7C15)
                   + w->cta->linear * 1315423911u + w->id * 2654435761u +
                   ++w->tensor_serial;
  memcpy(before, acc, sizeof before);
  sim_tile_f64(acc, a, b, k);
  double unit = sim_as_f64((uint64_t)(1023 - model->fraction) << 52);
  double blocks = (double)((k + model->block - 1) / model->block);
  for (uint32_t r = 0; r < 16; r++)
    for (uint32_t n = 0; n < 8; n++) {
      double top = before[8 * r + n] < 0 ? -before[8 * r + n]
                                         : before[8 * r + n];
      for (uint32_t j = 0; j < k; j++) {
        double p = a[r * k + j] * b[8 * j + n];
        p = p < 0 ? -p : p;
        top = p > top ? p : top;
      }
      double bound = blocks * unit * 2 * top;
      /* a number in [-1, 1) */
      int64_t draw = (int64_t)(sim_random(&state) >> 11) - (INT64_C(1) << 52);
      double move = bound * ((double)draw * 0x1p-52);
      if (is_finite(acc[8 * r + n]) && is_finite(move))
        acc[8 * r + n] += move;
    }
}

void sim_tile_other(sim_warp_t *w, const sim_tensor_types_t *types,
                    double acc[128], const double *a, const double *b,
                    uint32_t k) {
  const sim_launch_t *launch = w->cta->launch;
  sim_tensor_model_t model = sim_tensor_model(launch->row, types);
  if (launch->options->arith == SIM_ARITH_PERTURBED) {
    perturb(w, &model, acc, a, b, k);
    return;
  }
  bool is_open = model.is_open;
  for (uint32_t n = 0; model.is_open_with_c && n < 128; n++)
    is_open = is_open || acc[n] != 0;
  if (is_open) {
    w->worker->counters[SIM_COUNTER_TENSOR_OPEN]++;
    sim_tile_f64(acc, a, b, k);
    return;
  }
  by_blocks(&model, types, acc, a, b, k);
}
