/* api_variant.c: specialisations: one entry point compiled again with some
 * dynamic dims fixed, chosen at launch when they have these values.
 *
 * A variant is a program of its own, made from the sources that the first
 * compilation read, whatever the files say now.  It computes the same bits
 * (language.md 9.3) and accepts the same arguments: it is taken only for
 * values within the bounds. */
#include "driver/api.h"

/* Immutable once it is on the list of its executable. */
struct drv_variant {
  struct drv_variant *next;
  tdsl_program_t *program;
  uint32_t count;
  struct {
    uint32_t var; /* of the general entry */
    int64_t value;
  } fixed[];
};

static size_t variant_bytes(uint32_t count) {
  const drv_variant_t *v = NULL;
  return sizeof *v + count * sizeof v->fixed[0];
}

void drv_variants_release(tdsl_executable_t *exe) {
  tdsl_context_t *context = exe->program->context;
  drv_variant_t *v = atomic_load(&exe->variants);
  while (v != NULL) {
    drv_variant_t *next = v->next;
    tdsl_program_release(v->program);
    drv_free(context, v, variant_bytes(v->count));
    v = next;
  }
}

/* The most specific one that fits; of equals the newest. */
const tdsl_program_t *drv_variant_choose(const tdsl_executable_t *exe,
                                         const int64_t *dims,
                                         const bool *bound) {
  const drv_variant_t *best = NULL;
  for (const drv_variant_t *v = atomic_load(&exe->variants); v != NULL;
       v = v->next) {
    bool fits = true;
    for (uint32_t i = 0; i < v->count; i++) {
      uint32_t var = v->fixed[i].var;
      fits = fits && bound[var] && dims[var] == v->fixed[i].value;
    }
    if (fits && (best == NULL || v->count > best->count)) best = v;
  }
  return best != NULL ? best->program : NULL;
}

/* ---- making one --------------------------------------------------------- */

typedef struct variant_call {
  tdsl_executable_t *exe;
  uint32_t count;
  const tdsl_dim_value_t *dims;
  drv_variant_t *made;
} variant_call_t;

/* Numbers of the dims; R07 for a name that is none, R02 for a value that is
 * not accepted. */
static bool find_vars(td_task_t *task, variant_call_t *c) {
  const plan_entry_t *e = &c->exe->program->plans[c->exe->index];
  uint32_t before = td_task_errors(task);
  for (uint32_t i = 0; i < c->count; i++) {
    const tdsl_dim_value_t *d = &c->dims[i];
    uint32_t v = 0;
    while (v < e->dim_count && !td_str_eqc(d->name, e->vars[v].name)) v++;
    if (v == e->dim_count) {
      td_diag_t *diag =
          td_diag(task, TD_R07, e->loc, "%s has no dynamic dim '%.*s'",
                  e->name, TD_STR_ARG(d->name));
      td_nearest_t nearest = td_nearest_start(d->name);
      for (v = 0; v < e->dim_count; v++) {
        td_nearest_offer(&nearest, td_str(e->vars[v].name));
      }
      if (nearest.best.data != NULL) {
        td_diag_help(diag, "did you mean '%.*s'?", TD_STR_ARG(nearest.best));
      }
    } else if (d->value < 0 || d->value > e->vars[v].bound) {
      td_diag(task, TD_R02, e->vars[v].loc,
              "dim %s = %lld exceeds its bound %lld", e->vars[v].name,
              (long long)d->value, (long long)e->vars[v].bound);
    } else {
      c->made->fixed[i].var = v;
      c->made->fixed[i].value = d->value;
    }
  }
  return td_task_errors(task) == before;
}

static void find_work(td_task_t *task, void *arg) {
  variant_call_t *c = arg;
  tdsl_context_t *context = c->exe->program->context;
  c->made = drv_alloc(context, variant_bytes(c->count));
  if (c->made == NULL) {
    td_raise(task, TDSL_STATUS_OUT_OF_MEMORY, "out of memory");
  }
  c->made->count = c->count;
  (void)find_vars(task, c);
}

static tdsl_status_t compile(variant_call_t *c, tdsl_error_t **out_error) {
  tdsl_program_t *p = c->exe->program;
  uint32_t old = p->desc.dim_count;
  size_t bytes = (old + c->count) * sizeof(tdsl_dim_value_t);
  tdsl_dim_value_t *dims = drv_alloc(p->context, bytes);
  if (dims == NULL) {
    return drv_refuse(p->context, TDSL_STATUS_OUT_OF_MEMORY, "out of memory",
                      out_error);
  }
  for (uint32_t i = 0; i < old; i++) dims[i] = p->desc.dims[i];
  for (uint32_t i = 0; i < c->count; i++) dims[old + i] = c->dims[i];
  tdsl_compile_desc_t desc = p->desc;
  desc.entry = p->entries[c->exe->index].name;
  desc.dims = dims;
  desc.dim_count = old + c->count;
  tdsl_status_t status = drv_program_create(p->context, &desc, p,
                                            &c->made->program, out_error);
  drv_free(p->context, dims, bytes);
  return status;
}

/* A later version may offer fewer slots for a fixed dim; this one never
 * does. */
static bool is_alike(const variant_call_t *c) {
  const plan_entry_t *a = &c->exe->program->plans[c->exe->index];
  const plan_entry_t *b = &c->made->program->plans[0];
  bool same = c->made->program->entry_count == 1 &&
              a->slot_count == b->slot_count;
  for (uint32_t s = 0; same && s < a->slot_count; s++) {
    same = strcmp(a->slots[s].name, b->slots[s].name) == 0;
  }
  return same;
}

tdsl_status_t tdsl_executable_specialize(tdsl_executable_t *exe,
                                         uint32_t dim_count,
                                         const tdsl_dim_value_t *dims,
                                         tdsl_error_t **out_error) {
  tdsl_program_t *p = exe->program;
  variant_call_t c = {exe, dim_count, dims, NULL};
  drv_call_t call = {.context = p->context, .sources = &p->task};
  if (p->device.engine != DRV_PLAN || dim_count == 0) {
    if (out_error != NULL) *out_error = NULL;
    return TDSL_STATUS_OK; /* nothing to gain, nothing to refuse */
  }
  tdsl_status_t status = drv_call(&call, find_work, &c, out_error);
  if (status == TDSL_STATUS_OK) status = compile(&c, out_error);
  if (status == TDSL_STATUS_OK && !is_alike(&c)) {
    status = drv_refuse(p->context, TDSL_STATUS_INTERNAL,
                        "a specialisation has other slots", out_error);
  }
  if (status != TDSL_STATUS_OK) {
    if (c.made != NULL) {
      tdsl_program_release(c.made->program);
      drv_free(p->context, c.made, variant_bytes(dim_count));
    }
    return status;
  }
  c.made->next = atomic_load(&exe->variants);
  while (!atomic_compare_exchange_weak(&exe->variants, &c.made->next,
                                       c.made)) {
  }
  return status;
}
