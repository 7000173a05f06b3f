/* lower.h: from the checked program to the tensor IR.
 *
 * Called by the driver after sem_check left no errors; the IR then goes to
 * the passes.  Every function is inlined, views become subscripts, state
 * becomes versions of values (tir.h, rules 1 to 7).
 *
 * What this version cannot compile (`grad`, mesh axes longer than 1) is
 * refused with B01 at its place in the text; the result is then NULL. */
#ifndef TDSL_FRONTEND_LOWER_H
#define TDSL_FRONTEND_LOWER_H

#include "frontend/sem.h"
#include "ir/tir.h"

/* The module of one entry point; with entry NULL of all exported functions
 * and tests, in the order of the program.  The module shares the program's
 * pool and names, so arena and those given to sem_check live equally long.
 * NULL after diagnostics. */
tir_module_t *lower_program(td_task_t *task, td_arena_t *arena,
                            const sem_program_t *program,
                            const sem_func_t *entry);

/* The same for a chosen list, for instance the tests of a file. */
tir_module_t *lower_funcs(td_task_t *task, td_arena_t *arena,
                          const sem_program_t *program, uint32_t count,
                          const sem_func_t *const *funcs);

#endif
