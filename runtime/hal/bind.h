/* bind.h: an entry's arguments against its description.
 *
 * What every device needs before a run, and what the interpreters need too:
 * defaults and fallbacks filled in, dims bound from extents, and the checks
 * of an entry (R01 to R04, R07 to R09).  Nothing is written to an argument.
 * Only slots, binds and requires of the entry are looked at, so an entry
 * described without kernels will do.
 *
 * Lifetime: a binding's tables are in the arena it was made in and are used
 * again by each hal_bind; binding allocates nothing but messages. */
#ifndef TDSL_RUNTIME_HAL_BIND_H
#define TDSL_RUNTIME_HAL_BIND_H

#include "runtime/plan/plan.h"

typedef enum hal_checks {
  HAL_CHECKS_NONE,  /* shapes and types only: the caller vouches for the rest */
  HAL_CHECKS_ENTRY, /* all of language.md 14 */
  HAL_CHECKS_ALL,   /* the same, and asserts during the run */
} hal_checks_t;

/* One slot's argument.  Zero: none was given. */
typedef struct hal_arg {
  bool is_set;
  bool is_value;        /* rank 0, by value: `number`; data is not used */
  bool is_read_only;    /* refused for inout and out */
  bool is_checked;      /* integers are known to be in range (R04) */
  /* not 0: the contents at this address stay what they were whenever it was
   * given with this number before */
  uint64_t constant;
  plan_number_t number;
  tdsl_dtype_t dtype;
  uint32_t rank;
  int64_t dims[PLAN_MAX_RANK];
  void *data;           /* dense, row-major, aligned to 16 */
  void *device_data;    /* or NULL: memory of the device that has or gets the
                           contents in place of data; not copied */
} hal_arg_t;

typedef struct hal_binding {
  const plan_t *plan;
  const plan_entry_t *entry;
  int64_t *vars;          /* dims, then loop variables */
  int32_t *var_slots;     /* by dim: slot it came from; BOUND_BY_CALLER, NONE */
  plan_number_t *scalars; /* by slot: rank-0 inputs */
  hal_arg_t *args;        /* by slot: complete but for `data` of outputs that
                             the caller left out (is_set false) */
  size_t *bytes;          /* by slot */
} hal_binding_t;
enum { HAL_VAR_PRESET = -1, HAL_VAR_UNBOUND = -2 };

void hal_binding_init(hal_binding_t *binding, td_arena_t *arena,
                      const plan_t *plan, const plan_entry_t *entry);

/* `args` by slot.  `preset` by dim, -1 where open; NULL: all open.
 * `is_host`: argument memory may be read here (scalars, ranges).  False
 * after diagnostics. */
bool hal_bind(hal_binding_t *binding, td_task_t *task, const hal_arg_t *args,
              const int64_t *preset, hal_checks_t checks, bool is_host);

/* The place in the terms of `task`: a plan numbers its files by itself.
 * plan NULL, also in a binding: places are the task's already. */
td_loc_t hal_locate(td_task_t *task, const plan_t *plan, td_loc_t loc);

#endif
