/* api_solve.c: static dims that nothing but the checkpoint decides. */
#include "driver/api_weights.h"

static bool has_unknown(const sem_program_t *p) {
  for (uint32_t i = 0; i < p->dim_count; i++) {
    if (!p->dims[i].is_dynamic && p->dims[i].value < 0) return true;
  }
  return false;
}

static bool is_known(const drv_compile_t *c, const char *name) {
  for (uint32_t i = 0; i < c->dim_count; i++) {
    if (strcmp(c->dims[i].name, name) == 0) return true;
  }
  return false;
}

static void add_dims(drv_compile_t *c, const sem_dim_value_t *found,
                     uint32_t count) {
  sem_dim_value_t *dims =
      TD_NEW_ARRAY(c->arena, sem_dim_value_t, c->dim_count + count);
  for (uint32_t i = 0; i < c->dim_count; i++) dims[i] = c->dims[i];
  uint32_t n = c->dim_count;
  for (uint32_t i = 0; i < count; i++) {
    if (!is_known(c, found[i].name)) dims[n++] = found[i];
  }
  c->dims = dims;
  c->dim_count = n;
}

static void close_checkpoint(void *arg) {
  io_checkpoint_close(arg);
}

static bool solve(drv_compile_t *c, const bind_source_t *source) {
  for (uint32_t i = 0; i < c->sem->func_count; i++) {
    const sem_func_t *f = c->sem->funcs[i];
    sem_dim_value_t *found;
    uint32_t count;
    if (!f->is_entry) continue;
    if (!bind_solve(c->task, c->arena, c->sem, f, source, &found, &count)) {
      return false;
    }
    add_dims(c, found, count);
  }
  return true;
}

/* The first check is there to learn what the fields look like; where it
 * finds nothing open, the second one is all there is to do. */
bool drv_compile_solve(drv_compile_t *c) {
  if (c->desc->weights.length == 0) return true;
  if (!drv_compile_check(c, false)) return false;
  if (!has_unknown(c->sem)) return true;
  io_checkpoint_t *checkpoint = TD_NEW(c->arena, io_checkpoint_t);
  drv_source_t *source = TD_NEW(c->arena, drv_source_t);
  const char *path = td_str_cstr(c->arena, c->desc->weights);
  if (!io_checkpoint_open(c->task, c->arena, path, checkpoint)) return false;
  td_defer(c->task, close_checkpoint, checkpoint);
  drv_source_init(source, c->arena, checkpoint);
  bool ok = solve(c, &source->source);
  td_undefer(c->task, true);
  return ok;
}
