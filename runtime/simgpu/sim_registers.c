/* Exported simgpu_registers: what an assembler said of a kernel. Whoever has
   compiled a kernel for the machine knows how many registers its threads
   take; of PTX alone they can only be estimated. */
#include "runtime/simgpu/sim_cuda.h"

#include <stdlib.h>

static sim_given_t *find(const char *kernel) {
  const sim_state_t *s = sim_state();
  for (size_t i = 0; i < s->given_count; i++)
    if (strcmp(s->given[i].kernel, kernel) == 0) return &s->given[i];
  return NULL;
}

static bool add(const char *kernel, uint32_t count) {
  sim_state_t *s = sim_state();
  if (s->given_count == s->given_capacity) {
    size_t capacity = s->given_capacity ? s->given_capacity * 2 : 32;
    sim_given_t *more = realloc(s->given, capacity * sizeof *more);
    if (!more) return false;
    s->given = more;
    s->given_capacity = capacity;
  }
  char *name = strdup(kernel);
  if (!name) return false;
  s->given[s->given_count++] = (sim_given_t){name, count};
  return true;
}

/* Kernels of this name that are loaded from now on take so many registers a
   thread; 0: as many as are estimated again. Not 0 if that is no name or no
   number of registers. Unlike findings, it outlives simgpu_reset. */
SIM_EXPORT int simgpu_registers(const char *kernel, unsigned count) {
  int code = sim_enter("simgpu_registers", false);
  if (code) return code;
  if (!kernel || !kernel[0] || count > SIM_MOST_REGISTERS)
    return sim_leave(RCUDA_INVALID_VALUE);
  sim_given_t *known = find(kernel);
  if (known) known->count = count;
  else if (count && !add(kernel, count)) code = RCUDA_OUT_OF_MEMORY;
  return sim_leave(code);
}

uint32_t sim_registers_given(const char *kernel) {
  const sim_given_t *known = find(kernel);
  return known ? known->count : 0;
}

void sim_registers_free(sim_state_t *s) {
  for (size_t i = 0; i < s->given_count; i++) free(s->given[i].kernel);
  free(s->given);
  s->given = NULL;
  s->given_count = s->given_capacity = 0;
}
