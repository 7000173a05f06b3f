/* dtype.c: the table of dtype.def. */
#include "ir/dtype.h"

#define TIR_DTYPE(id, text, bits, class_, arithmetic, accumulate, llvm, cuda) \
  [TDSL_DTYPE_##id] = {text, bits, TIR_CLASS_##class_,                        \
                       TDSL_DTYPE_##arithmetic, TDSL_DTYPE_##accumulate,      \
                       llvm, cuda},
static const tir_dtype_row_t rows[] = {
    [TDSL_DTYPE_UNSET] = {"unset", 0, TIR_CLASS_NONE, TDSL_DTYPE_UNSET,
                          TDSL_DTYPE_UNSET, "void", "void"},
#include "ir/dtype.def"
};

const tir_dtype_row_t *tir_dtype_row(tdsl_dtype_t dtype) {
  size_t count = sizeof rows / sizeof rows[0];
  size_t at = (size_t)dtype;
  return &rows[at < count ? at : 0];
}
