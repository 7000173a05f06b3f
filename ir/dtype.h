/* dtype.h: what the compiler knows about an element type beyond its bytes:
 * class, the type its formulas are computed in, and its spelling in emitted
 * code.  One row each in dtype.def; values and rounding are runtime/base/num.
 */
#ifndef TDSL_IR_DTYPE_H
#define TDSL_IR_DTYPE_H

#include "runtime/base/num.h"

typedef enum tir_class {
  TIR_CLASS_NONE = 0,
  TIR_CLASS_FLOAT,
  TIR_CLASS_INT,
  TIR_CLASS_BOOL
} tir_class_t;

typedef struct tir_dtype_row {
  const char *text;
  uint32_t bits;
  tir_class_t type_class;
  tdsl_dtype_t arithmetic; /* F32, F64, I64 or BOOL */
  tdsl_dtype_t accumulate;
  const char *llvm;
  const char *cuda;
} tir_dtype_row_t;

/* The row of a type; for TDSL_DTYPE_UNSET and unknown numbers a row of
 * class NONE with the text "unset". Never NULL. */
const tir_dtype_row_t *tir_dtype_row(tdsl_dtype_t dtype);

static inline tir_class_t tir_dtype_class(tdsl_dtype_t dtype) {
  return tir_dtype_row(dtype)->type_class;
}

/* F32, F64, I64 and BOOL are what scalar expressions may have. */
static inline bool tir_is_arithmetic(tdsl_dtype_t dtype) {
  return dtype == TDSL_DTYPE_F32 || dtype == TDSL_DTYPE_F64 ||
         dtype == TDSL_DTYPE_I64 || dtype == TDSL_DTYPE_BOOL;
}

#endif
