/* The forms of matrix instructions: their operands are vectors of registers,
   whose number follows from the shape and the element types. */
#include "runtime/simgpu/decoder.h"
#include "runtime/simgpu/tensor.h"

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

bool sim_decode_matrix(sim_decoder_t *d, const char *name, bool *known) {
  static const struct {
    const char *name;
    bool (*fn)(sim_decoder_t *d);
  } forms[] = {{"ldmatrix", form_ldmatrix}, {"stmatrix", form_stmatrix},
               {"mma", form_mma}};
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    *known = strcmp(forms[i].name, name) == 0;
    if (*known) return forms[i].fn(d);
  }
  return false;
}
