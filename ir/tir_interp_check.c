/* tir_interp_check.c: what checked runs report of a program.
 *
 * All lanes compute everything, so an instruction may go wrong in a lane
 * that the text would never have evaluated: the arm not chosen, the term
 * whose guard is false.  Instructions therefore only mark lanes (`bad`), and
 * when some are marked the program is walked backwards from its roots to
 * find the lanes whose value was wanted.  Conditions are all known by then,
 * which is what makes this one pass. */
#include "ir/tir_interp.h"

#include "ir/tir_text.h"

/* Marks the lanes of an operand that are wanted because lane l of the result
 * is (`when`: and this register holds `is`). */
static void want(tir_code_t *code, uint32_t reg, const uint8_t *need,
                 const uint8_t *when, uint8_t is, uint32_t n) {
  uint8_t *to = code->need + (size_t)reg * code->width;
  for (uint32_t l = 0; l < n; l++)
    to[l] |= need[l] & (when == NULL || when[l] == is);
}

/* Laziness, after the fact: the arms of a select are wanted where it was
 * decided for them, the right side of `and` where the left is true, of `or`
 * where it is false. */
static void want_operands(tir_code_t *code, const tir_instr_t *instr,
                          const uint8_t *need, uint32_t n) {
  const uint8_t *left =
      instr->arg_count > 0 ? tir_reg(code, instr->args[0]) : NULL;
  for (uint32_t i = 0; i < instr->arg_count; i++) {
    const uint8_t *when = NULL;
    uint8_t is = 0;
    if (i > 0 && (instr->e->op == TIR_X_SELECT || instr->e->op == TIR_X_AND ||
                  instr->e->op == TIR_X_OR)) {
      when = left;
      is = instr->e->op == TIR_X_AND ||
                   (instr->e->op == TIR_X_SELECT && i == 1)
               ? 1
               : 0;
    }
    want(code, instr->args[i], need, when, is, n);
  }
}

/* A body counts only where the guard holds; the guard itself everywhere. */
static void want_root(tir_code_t *code, uint32_t reg, const uint8_t *guard,
                      uint32_t n) {
  if (reg == TIR_NO_REG) return;
  uint8_t *to = code->need + (size_t)reg * code->width;
  for (uint32_t l = 0; l < n; l++) to[l] |= guard == NULL || guard[l] != 0;
}

void tir_put_lane(td_buf_t *b, const tir_code_t *code, uint32_t reg,
                  uint32_t lane) {
  const void *data = tir_reg(code, reg);
  switch (code->instrs.data[reg].rep) {
  case TIR_REP_S: td_buf_f32(b, ((const float *)data)[lane]); break;
  case TIR_REP_D: td_buf_f64(b, ((const double *)data)[lane]); break;
  case TIR_REP_I:
    td_buf_printf(b, "%lld", (long long)((const int64_t *)data)[lane]);
    break;
  case TIR_REP_B:
    td_buf_puts(b, ((const uint8_t *)data)[lane] ? "true" : "false");
    break;
  }
}

/* Names the subscript or the operation, with the values that made it fail. */
static void report(tir_code_t *code, const tir_instr_t *instr,
                   uint32_t lane) {
  tir_interp_t *in = code->interp;
  td_loc_t loc = instr->e->loc;
  if (loc.line == 0 && code->node != NULL) loc = code->node->loc;
  const tir_access_t *access = instr->access;
  for (uint32_t i = 0; access != NULL && i < access->vector_count; i++) {
    const tir_vector_sub_t *sub = &access->vectors[i];
    int64_t at = ((const int64_t *)tir_reg(code, sub->reg))[lane];
    if (at >= 0 && at < sub->extent) continue;
    (void)td_diag(in->task, TD_R10, loc,
                  "subscript %u of %s is %lld where the dim has %lld",
                  sub->dim + 1, access->value->name, (long long)at,
                  (long long)sub->extent);
    return;
  }
  td_buf_t b;
  td_buf_init(&b, in->task);
  for (uint32_t i = 0; i < instr->arg_count; i++) {
    if (i > 0) td_buf_puts(&b, ", ");
    tir_put_lane(&b, code, instr->args[i], lane);
  }
  bool divides = instr->e->op == TIR_X_DIV || instr->e->op == TIR_X_MOD;
  const char *name = tir_x_text(instr->e->op);
  if (divides)
    (void)td_diag(in->task, TD_R10, loc, "divisor of %s(%s) is not positive",
                  name, b.data);
  else
    (void)td_diag(in->task, TD_R10, loc, "integer wrapped: %s(%s)", name,
                  b.data);
  td_buf_free(&b);
}

/* Nearly always nothing is marked and this is one loop over flags. */
bool tir_code_check(tir_code_t *code, uint32_t n) {
  size_t count = code->instrs.length;
  bool any = false;
  for (size_t i = 0; i < count; i++) any |= code->instrs.data[i].any_bad;
  if (!any) return true;
  memset(code->need, 0, count * code->width);
  const uint8_t *guard =
      code->guard == TIR_NO_REG ? NULL : tir_reg(code, code->guard);
  want_root(code, code->guard, NULL, n);
  want_root(code, code->body, guard, n);
  want_root(code, code->factor_a, guard, n);
  want_root(code, code->factor_b, guard, n);
  for (uint32_t i = 0; i < code->sub_count; i++)
    want_root(code, code->subs[i], guard, n);
  for (size_t i = count; i-- > 0;) {
    tir_instr_t *instr = &code->instrs.data[i];
    const uint8_t *need = code->need + i * code->width;
    want_operands(code, instr, need, n);
    if (!instr->any_bad) continue;
    for (uint32_t l = 0; l < n; l++)
      if (need[l] != 0 && instr->bad[l] != 0) {
        report(code, instr, l);
        return false;
      }
  }
  return true;
}
