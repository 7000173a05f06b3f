/* llvm.h: KIR kernels to machine code through the LLVM C API.
 *
 * All kernels handed over at once go into one module.  Function of a kernel:
 *   void NAME(void *const *buffers, const int64_t *scalars, void *scratch,
 *             int64_t block_begin, int64_t block_end);
 * It runs the block iterations begin .. end - 1 of the linearised block
 * loops; scratch is 64-byte aligned and private to the caller's thread.
 * Unknown symbols that the code may call: cgl_symbols. */
#ifndef TDSL_CODEGEN_LLVM_H
#define TDSL_CODEGEN_LLVM_H

#include "ir/kir.h"
#include "ir/target.h"

typedef enum cgl_form {
  CGL_OBJECT, /* ELF relocatable */
  CGL_ASM,    /* assembler text */
  CGL_IR,     /* LLVM IR text, after optimisation */
} cgl_form_t;

typedef struct cgl_output {
  size_t bytes;
  const void *data; /* in the arena given */
} cgl_output_t;

/* Emits COUNT kernels.  A kernel that LLVM's verifier refuses is an internal
 * error.  Thread safe: each call has a context of its own. */
void cgl_compile(td_task_t *task, td_arena_t *arena,
                 const kir_kernel_t *const *kernels, uint32_t count,
                 const ir_target_t *target, cgl_form_t form,
                 cgl_output_t *out);

/* C symbol of a kernel: its name with anything but letters, digits and `_`
 * replaced, behind "tk_". */
const char *cgl_symbol(td_arena_t *arena, const kir_kernel_t *kernel);

/* "19.1.7" */
const char *cgl_llvm_version(td_arena_t *arena);

#endif
