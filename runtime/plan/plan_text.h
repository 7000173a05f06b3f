/* plan_text.h: what printer and parser of plans agree on. */
#ifndef TDSL_RUNTIME_PLAN_TEXT_H
#define TDSL_RUNTIME_PLAN_TEXT_H

#include "runtime/plan/plan.h"

/* How an operation is written.  level: binding strength of a sign between
 * its operands, all left-associative; 0: a function of its operands. */
typedef struct plan_sign {
  const char *text;
  int level;
  uint32_t pops;
} plan_sign_t;
enum { PLAN_LEVEL_LEAF = 9 };

plan_sign_t plan_sign(plan_x_t op);

/* "T", or "$0" where names would be ambiguous; storage of 16 bytes for the
 * latter.  Index out of range and NULL vars: always "$N". */
const char *plan_var_name(const plan_var_t *vars, uint32_t count,
                          uint64_t index, char storage[24]);

/* An expression in source-like form; vars NULL: variables are "$N". */
void plan_print_expr(td_buf_t *out, const plan_expr_t *e,
                     const plan_var_t *vars, uint32_t var_count);

/* 64-bit FNV-1a of a payload, which stands for its bytes in dumps. */
uint64_t plan_payload_hash(const void *data, size_t bytes);

#endif
