/* cuda_sass.h: machine code as text, by the toolkit's disassemblers. */
#ifndef TDSL_RUNTIME_CUDA_SASS_H
#define TDSL_RUNTIME_CUDA_SASS_H

#include "runtime/base/task.h"

/* Runs nvdisasm, or cuobjdump if there is none, on a temporary file and adds
 * what it prints.  False after B05 (neither is here) or B06. */
bool rcuda_disassemble(td_task_t *task, td_arena_t *arena, const void *cubin,
                       size_t bytes, td_buf_t *out);

#endif
