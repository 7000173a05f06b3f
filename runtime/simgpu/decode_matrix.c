/* The forms of matrix instructions: their operands are vectors of registers,
   whose number follows from the shape and the element types. */
#include "runtime/simgpu/decoder.h"
#include "runtime/simgpu/tensor.h"
#include "runtime/simgpu/wgmma.h"

static bool has(const sim_decoder_t *d, const char *qualifier) {
  return sim_form_has(&d->op->form, qualifier);
}

static bool count_is(sim_decoder_t *d, uint32_t count) {
  if (d->ptx->count == count) return true;
  return SIM_FAIL(d, "%u operands where %u are meant", d->ptx->count, count);
}

/* A vector of exactly `count` registers of the type, into the list. */
static bool vector(sim_decoder_t *d, const ptx_operand_t *o, uint32_t count,
                   ptx_type_t type, bool is_dest) {
  if (!o || o->kind != PTX_OPERAND_VECTOR || o->count != count)
    return SIM_FAIL(d, "expected a vector of %u registers", count);
  for (uint32_t n = 0; n < count; n++) {
    const ptx_operand_t *e = &d->func->pool.data[o->first + n];
    sim_list_push(d, is_dest ? sim_dest(d, e, type)
                             : sim_source(d, e, type));
    if (d->error->code) return false;
  }
  if (is_dest) d->ins.list_writes = d->ins.count;
  return true;
}

static uint32_t matrices(const sim_decoder_t *d) {
  return has(d, "x4") ? 4 : has(d, "x2") ? 2 : 1;
}

static void matrix_space(sim_decoder_t *d) {
  bool named = has(d, "shared") || has(d, "shared::cta");
  d->ins.space = (uint8_t)(named ? PTX_SPACE_SHARED : PTX_SPACE_GENERIC);
  d->ins.lanes = (uint8_t)matrices(d);
  d->ins.bytes = 4;
}

static bool form_ldmatrix(sim_decoder_t *d) {
  if (!count_is(d, 2)) return false;
  matrix_space(d);
  return vector(d, sim_operand(d, 0), matrices(d), PTX_B32, true) &&
         sim_address(d, sim_operand(d, 1));
}

static bool form_stmatrix(sim_decoder_t *d) {
  if (!count_is(d, 2)) return false;
  matrix_space(d);
  return sim_address(d, sim_operand(d, 0)) &&
         vector(d, sim_operand(d, 1), matrices(d), PTX_B32, false);
}

/* d, a, b, c: the list holds them in this order. */
static bool form_mma(sim_decoder_t *d) {
  const sim_form_t *f = &d->op->form;
  uint32_t m = f->shape[0], n = f->shape[1], k = f->shape[2];
  uint32_t bits = sim_element_bits(f->types[1]);
  bool is_f64 = bits == 64;
  ptx_type_t type = is_f64 ? PTX_B64 : PTX_B32;
  uint32_t word = is_f64 ? 64 : 32;
  uint32_t nd = m * n / 32 / (f->types[0] == PTX_F16 ? 2 : 1);
  uint32_t na = m * k * bits / word / 32, nb = n * k * bits / word / 32;
  if (!count_is(d, 4)) return false;
  d->ins.type = (uint8_t)f->types[0];
  d->ins.type2 = (uint8_t)f->types[1];
  d->ins.sub2 = (uint8_t)f->types[2];
  d->ins.imm = m | n << 8 | (uint64_t)k << 16 | (uint64_t)nb << 32 |
               (uint64_t)(2 * m * n * k) << 40;
  return vector(d, sim_operand(d, 0), nd, type, true) &&
         vector(d, sim_operand(d, 1), na, type, false) &&
         vector(d, sim_operand(d, 2), nb, type, false) &&
         vector(d, sim_operand(d, 3), nd, type, false);
}

/* Warpgroup instructions exist in sm_90a alone. */
static bool is_hopper(sim_decoder_t *d) {
  if (d->module->target == 90 && d->module->target_suffix == 'a') return true;
  return SIM_FAIL(d, "needs .target sm_90a");
}

/* fence, commit_group; wait_group and setmaxnreg with a constant. */
static bool form_warpgroup(sim_decoder_t *d) {
  bool is_wait = d->ins.handler == SIM_H_wgmma_wait;
  bool is_regs = d->ins.handler == SIM_H_setmaxnreg;
  if (!is_hopper(d)) return false;
  d->kernel->has_warpgroup = true;
  if (!is_wait && !is_regs) return count_is(d, 0);
  const ptx_operand_t *o = sim_operand(d, 0);
  if (!count_is(d, 1)) return false;
  if (o->kind != PTX_OPERAND_INT || (is_wait && o->value > 1 << 20))
    return SIM_FAIL(d, "expected a constant");
  if (is_regs && (o->value < 24 || o->value > 256 || o->value % 8))
    return SIM_FAIL(d, "%llu registers: a multiple of 8 from 24 to 256 is "
                       "meant", (unsigned long long)o->value);
  d->ins.imm = o->value;
  return true;
}

/* A sign, 1 or -1, or a flag, 0 or 1. */
static bool constant(sim_decoder_t *d, const ptx_operand_t *o, bool is_sign,
                     uint64_t bit) {
  bool is_set = is_sign ? o && o->value == UINT64_MAX : o && o->value == 1;
  bool is_clear = is_sign ? o && o->value == 1 : o && o->value == 0;
  if (!o || o->kind != PTX_OPERAND_INT || (!is_set && !is_clear))
    return SIM_FAIL(d, is_sign ? "expected 1 or -1" : "expected 0 or 1");
  if (is_set) d->ins.imm |= bit;
  return true;
}

/* d, A in registers or as a descriptor, B's descriptor, scale-d; for floats
   the signs of A and B; for 16-bit ones whether each that is in shared memory
   is transposed. The list holds D as destinations, A, and D once more as
   sources unless scale-d is the constant 0. */
static bool form_wgmma(sim_decoder_t *d) {
  const sim_form_t *f = &d->op->form;
  const ptx_operand_t *to = sim_operand(d, 0), *a = sim_operand(d, 1);
  uint32_t n = f->shape[1], k = f->shape[2], at = 4;
  uint32_t bits = sim_element_bits(f->types[1]);
  bool is_int = f->types[0] == PTX_S32, negated = false;
  bool in_registers = a && a->kind == PTX_OPERAND_VECTOR;
  uint32_t count = n / 2 / (f->types[0] == PTX_F16 ? 2 : 1);
  if (!is_hopper(d) ||
      !count_is(d, 4u + (is_int ? 0u : 2u) +
                       (bits == 16 ? (in_registers ? 1u : 2u) : 0u)))
    return false;
  d->kernel->has_warpgroup = d->kernel->has_async = true;
  d->kernel->has_proxy = true;
  d->ins.type = (uint8_t)f->types[0];
  d->ins.type2 = (uint8_t)f->types[1];
  d->ins.sub2 = (uint8_t)f->types[2];
  d->ins.imm = n | k << 12 | (in_registers ? SIM_WGMMA_REGISTERS : 0);
  if (!vector(d, to, count, PTX_B32, true)) return false;
  if (in_registers ? !vector(d, a, 4, PTX_B32, false)
                   : (sim_slot(d, 1, sim_source(d, a, PTX_B64)), false))
    return false;
  sim_slot(d, 2, sim_source(d, sim_operand(d, 2), PTX_B64));
  const ptx_operand_t *scale = sim_operand(d, 3);
  sim_slot(d, 3, sim_pred_source(d, scale, &negated));
  if (negated) d->ins.mods |= SIM_MOD_NEG_C;
  if (d->error->code) return false;
  if (!(scale->kind == PTX_OPERAND_INT && scale->value == 0) &&
      !vector(d, to, count, PTX_B32, false))
    return false;
  for (uint32_t e = 0; e < d->ins.count; e++) {
    sim_row_t *row =
        &d->rows.data[d->kernel->lists.data[d->ins.list + e] >> 2];
    row->is_pinned = row->kind == SIM_ROWKIND_REG;
  }
  if (!is_int) {
    if (!constant(d, sim_operand(d, at++), true, SIM_WGMMA_NEG_A) ||
        !constant(d, sim_operand(d, at++), true, SIM_WGMMA_NEG_B))
      return false;
  }
  if (bits != 16) return true;
  if (!in_registers &&
      !constant(d, sim_operand(d, at++), false, SIM_WGMMA_TRANS_A))
    return false;
  return constant(d, sim_operand(d, at), false, SIM_WGMMA_TRANS_B);
}

bool sim_decode_matrix(sim_decoder_t *d, const char *name, bool *known) {
  static const struct {
    const char *name;
    bool (*fn)(sim_decoder_t *d);
  } forms[] = {{"ldmatrix", form_ldmatrix}, {"stmatrix", form_stmatrix},
               {"mma", form_mma}, {"wgmma", form_wgmma},
               {"warpgroup", form_warpgroup}};
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    *known = strcmp(forms[i].name, name) == 0;
    if (*known) return forms[i].fn(d);
  }
  return false;
}
