/* llvm_func.h: one kernel into the module of `g`. */
#ifndef TDSL_CODEGEN_LLVM_FUNC_H
#define TDSL_CODEGEN_LLVM_FUNC_H

#include "codegen/llvm/llvm_impl.h"

void cgl_kernel(cgl_t *g, const kir_kernel_t *kernel);

#endif
