/* api_weights.c: checkpoint tensors as arguments (language.md 11). */
#include "driver/api.h"

void drv_weights_release(tdsl_executable_t *exe) {
  const plan_entry_t *e = &exe->program->plans[exe->index];
  for (uint32_t s = 0; exe->weights != NULL && s < e->slot_count; s++) {
    tdsl_buffer_release(exe->weights[s]);
  }
  exe->weights = NULL;
  if (exe->checkpoint != NULL) io_checkpoint_close(exe->checkpoint);
  exe->checkpoint = NULL;
}

tdsl_status_t tdsl_executable_bind_weights(tdsl_executable_t *exe,
                                           tdsl_string_t path,
                                           uint32_t strict, uint32_t convert,
                                           tdsl_error_t **out_error) {
  (void)path;
  (void)strict;
  (void)convert;
  return drv_refuse(exe->program->context, TDSL_STATUS_UNAVAILABLE,
                    "weights are not bound yet", out_error);
}
