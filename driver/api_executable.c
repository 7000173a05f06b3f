/* api_executable.c: one entry point made ready to run, with its weights. */
#include "driver/api.h"

typedef struct exe_call {
  tdsl_executable_t *exe;
  tdsl_program_t *program;
  const tdsl_entry_t *entry;
} exe_call_t;

static void create_work(td_task_t *task, void *arg) {
  exe_call_t *c = arg;
  if (c->entry == NULL) {
    td_raise(task, TDSL_STATUS_INVALID_ARGUMENT,
             "no entry: the program has none of that name");
  }
  uint32_t index = c->entry->index;
  if (index >= c->program->entry_count ||
      c->entry != &c->program->entries[index]) {
    td_raise(task, TDSL_STATUS_INVALID_ARGUMENT,
             "the entry is not one of this program");
  }
  tdsl_executable_t *exe = drv_alloc(c->program->context, sizeof *exe);
  if (exe == NULL) td_raise(task, TDSL_STATUS_OUT_OF_MEMORY, "out of memory");
  atomic_init(&exe->references, 1);
  exe->program = c->program;
  exe->index = index;
  tdsl_program_retain(c->program);
  c->exe = exe;
}

tdsl_status_t tdsl_executable_create(tdsl_program_t *program,
                                     const tdsl_entry_t *entry,
                                     tdsl_executable_t **out_exe,
                                     tdsl_error_t **out_error) {
  exe_call_t c = {NULL, program, entry};
  drv_call_t call = {.context = program->context, .sources = &program->task};
  tdsl_status_t status = drv_call(&call, create_work, &c, out_error);
  if (status != TDSL_STATUS_OK) {
    tdsl_executable_release(c.exe);
    c.exe = NULL;
  }
  *out_exe = c.exe;
  return status;
}

void tdsl_executable_retain(tdsl_executable_t *exe) {
  if (exe != NULL) atomic_fetch_add(&exe->references, 1);
}

void tdsl_executable_release(tdsl_executable_t *exe) {
  if (exe == NULL || atomic_fetch_sub(&exe->references, 1) != 1) return;
  tdsl_program_t *program = exe->program;
  tdsl_context_t *context = program->context;
  td_task_t task;
  drv_weights_release(exe);
  drv_variants_release(exe);
  td_task_init(&task, &context->host);
  td_arena_attach(&exe->arena, &task);
  td_task_free(&task);
  drv_context_retain(context);
  tdsl_program_release(program);
  drv_free(context, exe, sizeof *exe);
  drv_context_release(context);
}
