/* Notes, on request (check:note): values that PTX defines and that are seldom
   meant. A shift by its width or more, a conversion that clamps, and the
   first NaN or infinity that an instruction makes of finite operands. They
   fail no launch. */
#include "runtime/simgpu/notes.h"

#include <math.h>

static void note(sim_warp_t *w, const sim_ins_t *i, sim_check_t id,
                 uint32_t lane, const char *text, double value) {
  sim_find(w, i, id, lane, PTX_SPACE_REG, 0, 0, "%s: %s", text,
           isnan(value)  ? "NaN"
           : isinf(value) ? value > 0 ? "infinity" : "-infinity"
                          : "the value is out of range");
}

static bool is_shift(uint16_t h) {
  return (h >= SIM_H_shl_16 && h <= SIM_H_shl_64) ||
         (h >= SIM_H_shr_u16 && h <= SIM_H_shr_s64);
}

/* A float operand as double; false if the type is none that notes judge. */
static bool value_of(sim_warp_t *w, unsigned kind, uint32_t offset,
                     ptx_type_t type, uint32_t l, double *out) {
  if (type == PTX_F64 && kind == SIM_ROW_64) {
    uint64_t bits = sim_row64(w, offset)[l];
    memcpy(out, &bits, 8);
    return true;
  }
  if (type == PTX_F32 && kind == SIM_ROW_32) {
    float f;
    uint32_t bits = sim_row(w, offset)[l];
    memcpy(&f, &bits, 4);
    *out = (double)f;
    return true;
  }
  return false;
}

static bool is_out_of_range(double v, ptx_type_t type) {
  const ptx_type_row_t *row = ptx_type_row(type);
  int bits = row->bytes * 8;
  bool is_signed = row->kind == PTX_KIND_SIGNED;
  double high = ldexp(1.0, is_signed ? bits - 1 : bits);
  return !(v > (is_signed ? -high - 1 : -1.0) && v < high);
}

void sim_note_before(sim_warp_t *w, const sim_ins_t *i, uint32_t m) {
  if (is_shift(i->handler)) {
    for (uint32_t l = 0; l < 32; l++) {
      uint32_t n = sim_row(w, i->b)[l];
      if (!(m >> l & 1) || n < i->bytes * 8u) continue;
      sim_find(w, i, SIM_CHECK_NUM_SHIFT, l, PTX_SPACE_REG, 0, 0,
               "a shift of %u bits by %u", i->bytes * 8u, n);
      return;
    }
  }
  const ptx_type_row_t *to = ptx_type_row((ptx_type_t)i->type);
  if (i->handler != SIM_H_cvt ||
      (to->kind != PTX_KIND_SIGNED && to->kind != PTX_KIND_UNSIGNED))
    return;
  for (uint32_t l = 0; l < 32; l++) {
    double v;
    if (!(m >> l & 1) ||
        !value_of(w, sim_kind(i, 1), i->a, (ptx_type_t)i->type2, l, &v) ||
        !is_out_of_range(v, (ptx_type_t)i->type))
      continue;
    note(w, i, SIM_CHECK_NUM_CONVERT, l, "a conversion that clamps", v);
    return;
  }
}

void sim_note_after(sim_warp_t *w, const sim_ins_t *i, uint32_t m,
                    uint32_t finite) {
  ptx_type_t type = (ptx_type_t)i->type;
  double v;
  if (!(i->writes & SIM_WRITES_D)) return;
  for (uint32_t l = 0; l < 32; l++) {
    if (!(m & finite) || !((m & finite) >> l & 1) ||
        !value_of(w, sim_kind(i, 0), i->d, type, l, &v) || isfinite(v))
      continue;
    note(w, i, SIM_CHECK_NUM_NAN, l, "made of finite operands", v);
    return;
  }
}

uint32_t sim_note_finite(sim_warp_t *w, const sim_ins_t *i) {
  const uint32_t slots[] = {i->d, i->a, i->b, i->c};
  uint32_t out = 0;
  if (i->cls != SIM_CLASS_F32 && i->cls != SIM_CLASS_F64 &&
      i->cls != SIM_CLASS_SFU)
    return 0;
  for (uint32_t l = 0; l < 32; l++) {
    bool all = true;
    double v;
    for (int s = 1; s < 4; s++)
      if (value_of(w, sim_kind(i, s), slots[s], (ptx_type_t)i->type, l, &v))
        all = all && isfinite(v);
    out |= (uint32_t)all << l;
  }
  return out;
}
