/* cpu_orc.h: machine code of a plan, linked into the process by LLVM's ORC
 * JIT.  Objects see the helper table and nothing of the process. */
#ifndef TDSL_RUNTIME_CPU_ORC_H
#define TDSL_RUNTIME_CPU_ORC_H

#include "runtime/base/task.h"

typedef struct rcpu_code rcpu_code_t;

/* void kernel(buffers, scalars, scratch, block_begin, block_end) */
typedef void (*rcpu_kernel_fn)(void *const *buffers, const int64_t *scalars,
                               void *scratch, int64_t begin, int64_t end);

/* NULL after a diagnostic.  Independent of other instances. */
rcpu_code_t *rcpu_code_create(td_task_t *task);
/* Links one relocatable object; the bytes are copied. */
bool rcpu_code_add(rcpu_code_t *code, td_task_t *task, const void *object,
                   size_t bytes);
/* Address of a symbol of the objects added; NULL after a diagnostic. */
rcpu_kernel_fn rcpu_code_find(rcpu_code_t *code, td_task_t *task,
                              const char *symbol);
/* Unmaps everything; no kernel may be running. */
void rcpu_code_destroy(rcpu_code_t *code);

#endif
