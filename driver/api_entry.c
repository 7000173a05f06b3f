/* api_entry.c: dims of an entry from the shapes known so far.
 *
 * hal_bind checks the arguments of a run; the rules of a plan bind a dim from
 * an extent that is linear in it alone.  Two further needs are met here: the
 * dims of random inputs, before all arguments are there, and an extent such
 * as B*T, which binds T once B is known. */
#include "driver/api.h"

#include "runtime/base/num.h"

/* A dim that no argument binds reads as unknown while it is sought. */
typedef struct binder {
  const plan_entry_t *entry;
  int64_t *dims;
  bool *bound;
} binder_t;

/* The one unbound variable of e, or NONE; MANY if there are several. */
enum { NONE = -1, MANY = -2 };

static int64_t unknown_of(const binder_t *b, const plan_expr_t *e) {
  int64_t found = NONE;
  for (uint32_t i = 0; i < e->count; i++) {
    if (e->tokens[i].op != PLAN_X_VAR) continue;
    int64_t v = e->tokens[i].value;
    if (b->bound[v] || v == found) continue;
    if (found != NONE) return MANY;
    found = v;
  }
  return found;
}

static bool value_at(const binder_t *b, const plan_expr_t *e, int64_t var,
                     int64_t value, int64_t *out) {
  int64_t old = b->dims[var];
  plan_env_t env = {.vars = b->dims};
  b->dims[var] = value;
  bool ok = plan_eval(e, &env, out);
  b->dims[var] = old;
  return ok;
}

/* Solves e(var) = size for a linear e; the caller compares afterwards. */
static bool solve(const binder_t *b, const plan_expr_t *e, int64_t var,
                  int64_t size, int64_t *out) {
  int64_t at0, at1, slope, rest;
  if (!value_at(b, e, var, 0, &at0) || !value_at(b, e, var, 1, &at1) ||
      !td_sub_i64(at1, at0, &slope) || slope == 0 ||
      !td_sub_i64(size, at0, &rest)) {
    return false;
  }
  if (slope == -1 && rest == INT64_MIN) return false;
  *out = rest / slope;
  return *out >= 0;
}

static bool bind_slot(const binder_t *b, uint32_t s,
                      const hal_arg_t *arg) {
  const plan_slot_t *slot = &b->entry->slots[s];
  bool any = false;
  if (arg->is_value || arg->rank != slot->rank) return false;
  for (uint32_t d = 0; d < slot->rank; d++) {
    int64_t value, var = unknown_of(b, &slot->dims[d]);
    if (var < 0 || !solve(b, &slot->dims[d], var, arg->dims[d], &value)) {
      continue;
    }
    b->dims[var] = value;
    b->bound[var] = true;
    any = true;
  }
  return any;
}

static void bind_all(const binder_t *b, const hal_arg_t *args) {
  bool again = true;
  while (again) {
    again = false;
    for (uint32_t s = 0; s < b->entry->slot_count; s++) {
      bool is_input = b->entry->slots[s].kind != PLAN_OUT;
      if (!is_input || !args[s].is_set) continue;
      again |= bind_slot(b, s, &args[s]);
    }
  }
}

void drv_entry_bind(const plan_entry_t *entry, const hal_arg_t *args,
                    int64_t *dims, bool *bound) {
  binder_t b = {entry, dims, bound};
  bind_all(&b, args);
}

bool drv_slot_dims(const plan_entry_t *entry, const plan_slot_t *slot,
                   const int64_t *dims, const bool *bound,
                   tdsl_tensor_desc_t *out) {
  binder_t b = {entry, NULL, (bool *)bound};
  plan_env_t env = {.vars = dims};
  memset(out, 0, sizeof *out);
  out->dtype = slot->dtype;
  out->rank = slot->rank;
  for (uint32_t d = 0; d < slot->rank; d++) {
    if (bound != NULL && unknown_of(&b, &slot->dims[d]) != NONE) return false;
    if (!plan_eval(&slot->dims[d], &env, &out->dims[d])) return false;
    if (out->dims[d] < 0) return false;
  }
  return true;
}

/* ---- presets ------------------------------------------------------------- */

const int64_t *drv_entry_preset(td_arena_t *arena, const plan_entry_t *entry,
                                const hal_arg_t *args) {
  bool *ruled = TD_NEW_ARRAY(arena, bool, entry->var_count + 1);
  bool any = false;
  for (uint32_t i = 0; i < entry->bind_count; i++) {
    ruled[entry->binds[i].var] = true;
  }
  for (uint32_t v = 0; v < entry->dim_count; v++) any |= !ruled[v];
  if (!any) return NULL;
  int64_t *dims = TD_NEW_ARRAY(arena, int64_t, entry->var_count + 1);
  bool *bound = TD_NEW_ARRAY(arena, bool, entry->var_count + 1);
  drv_entry_bind(entry, args, dims, bound);
  for (uint32_t v = 0; v < entry->dim_count; v++) {
    if (ruled[v] || !bound[v]) dims[v] = -1;
  }
  return dims;
}
