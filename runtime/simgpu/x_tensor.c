/* The product of a tile in the block arithmetic of hardware, and moved within
   its bound. */
#include "runtime/simgpu/grid.h"
#include "runtime/simgpu/x_mma.h"

#define ZERO_EXPONENT (-100000) /* of terms that count for nothing */

/* Elements as +-significand * 2^(exponent - fraction bits); sign is 0 or -1.
   `from` to `to` of them, narrow formats, which are all normal as doubles. */
typedef struct parts_t {
  uint64_t significand[16 * 32];
  int64_t sign[16 * 32];
  int32_t exponent[16 * 32];
} parts_t;

static void take_apart(parts_t *p, const double *v, uint32_t count,
                       uint32_t fraction, int32_t emin) {
  for (uint32_t n = 0; n < count; n++) {
    uint64_t bits = sim_bits_f64(v[n]);
    int32_t e = (int32_t)(bits >> 52 & 0x7FF) - 1023;
    int32_t used = e > emin ? e : emin;
    uint64_t whole = (bits & UINT64_C(0xFFFFFFFFFFFFF)) | UINT64_C(1) << 52;
    /* of a zero, nothing is left after the shift */
    uint32_t shift = 52 - fraction + (uint32_t)(used - e);
    p->significand[n] = whole >> (shift < 63 ? shift : 63);
    p->exponent[n] = bits << 1 ? used : ZERO_EXPONENT;
    p->sign[n] = (int64_t)bits >> 63;
  }
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

/* One row of results, all eight columns: c, and products from on. */
static void block_row(const sim_tensor_model_t *model, double c[8],
                      const parts_t *a, uint32_t at, const parts_t *b,
                      uint32_t from, uint32_t count, uint32_t fraction,
                      uint32_t fraction_c, int32_t emin_c) {
  static const uint32_t most = 63; /* shifts everything out */
  int32_t top[8];
  int64_t sum[8];
  parts_t own;
  take_apart(&own, c, 8, fraction_c, emin_c);
  for (uint32_t n = 0; n < 8; n++)
    top[n] = own.exponent[n] > model->least ? own.exponent[n] : model->least;
  for (uint32_t j = from; j < from + count; j++) {
    const int32_t *eb = b->exponent + 8 * j;
    int32_t ea = a->exponent[at + j];
    for (uint32_t n = 0; n < 8; n++) {
      int32_t e = ea + eb[n];
      top[n] = e > top[n] ? e : top[n];
    }
  }
  for (uint32_t n = 0; n < 8; n++) {
    uint32_t shift = (uint32_t)(top[n] - own.exponent[n]) + fraction_c;
    uint64_t term = own.significand[n] << model->fraction;
    int64_t size = (int64_t)(term >> (shift < most ? shift : most));
    sum[n] = (size ^ own.sign[n]) - own.sign[n];
  }
  for (uint32_t j = from; j < from + count; j++) {
    const int32_t *eb = b->exponent + 8 * j;
    const uint64_t *sb = b->significand + 8 * j;
    const int64_t *nb = b->sign + 8 * j;
    uint64_t sa = a->significand[at + j] << model->fraction;
    int64_t na = a->sign[at + j];
    int32_t ea = a->exponent[at + j] - (int32_t)fraction;
    uint64_t shift[8];
    for (uint32_t n = 0; n < 8; n++) {
      uint32_t by = (uint32_t)(top[n] - ea - eb[n]);
      shift[n] = by < most ? by : most;
    }
    for (uint32_t n = 0; n < 8; n++) {
      /* both factors are below 2^37: the product of the low words is it */
      int64_t size = (int64_t)((sa * sb[n]) >> shift[n]), sign = na ^ nb[n];
      sum[n] += (size ^ sign) - sign;
    }
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
  parts_t pa, pb;
  double exact[128];
  uint32_t fa, fb, fc;
  int32_t ea, eb, ec;
  bool bad_row[16] = {false}, bad_column[8] = {false}, any = false;
  bool special[128];
  sim_tensor_format(types->a, &fa, &ea);
  sim_tensor_format(types->b, &fb, &eb);
  fc = types->d == PTX_F16 ? 10 : 23;
  ec = types->d == PTX_F16 ? -14 : -126;
  take_apart(&pa, a, 16 * k, fa, ea);
  take_apart(&pb, b, 8 * k, fb, eb);
  for (uint32_t n = 0; n < 16 * k; n++) any |= !is_finite(a[n]);
  for (uint32_t n = 0; n < 8 * k; n++) any |= !is_finite(b[n]);
  for (uint32_t n = 0; n < 128; n++) any |= !is_finite(acc[n]);
  /* infinities and NaN follow the rules of ordinary arithmetic */
  if (any) {
    for (uint32_t n = 0; n < 16 * k; n++) bad_row[n / k] |= !is_finite(a[n]);
    for (uint32_t n = 0; n < 8 * k; n++)
      bad_column[n % 8] |= !is_finite(b[n]);
    memcpy(exact, acc, sizeof exact);
    sim_tile_f64(exact, a, b, k);
    for (uint32_t n = 0; n < 128; n++) {
      special[n] = bad_row[n / 8] || bad_column[n % 8] || !is_finite(acc[n]);
      if (special[n]) acc[n] = 0;
    }
  }
  for (uint32_t r = 0; r < 16; r++)
    for (uint32_t from = 0; from < k; from += model->block) {
      uint32_t count = k - from < model->block ? k - from : model->block;
      block_row(model, acc + 8 * r, &pa, r * k, &pb, from, count, fa + fb,
                fc, ec);
    }
  for (uint32_t n = 0; any && n < 128; n++)
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
