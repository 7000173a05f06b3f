/* api_entry.c: what is asked of the arguments before anything runs
 * (language.md 14 and 15), the same for every device.
 *
 *   1. presence and kind (R07), dtype and rank (R08), overlap (R09);
 *   2. dims from extents, in order: an extent with exactly one unknown dim,
 *      linearly, binds it; then every extent is compared (R01);
 *   3. bounds (R02), requires (R03), ranges of integers (R04). */
#include "driver/api.h"

#include "runtime/base/num.h"

/* A dim that no argument binds reads as unknown while it is sought. */
typedef struct binder {
  const plan_entry_t *entry;
  int64_t *dims;
  bool *bound;
  uint32_t *from; /* slot that bound a dim; NULL: not wanted */
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
                      const tdsl_tensor_desc_t *desc) {
  const plan_slot_t *slot = &b->entry->slots[s];
  bool any = false;
  if (desc->rank != slot->rank) return false;
  for (uint32_t d = 0; d < slot->rank; d++) {
    int64_t value, var = unknown_of(b, &slot->dims[d]);
    if (var < 0 || !solve(b, &slot->dims[d], var, desc->dims[d], &value)) {
      continue;
    }
    b->dims[var] = value;
    b->bound[var] = true;
    if (b->from != NULL) b->from[var] = s;
    any = true;
  }
  return any;
}

static void bind_all(const binder_t *b, const drv_value_t *values) {
  bool again = true;
  while (again) {
    again = false;
    for (uint32_t s = 0; s < b->entry->slot_count; s++) {
      bool is_input = b->entry->slots[s].kind != PLAN_OUT;
      if (!is_input || !values[s].is_bound) continue;
      again |= bind_slot(b, s, &values[s].desc);
    }
  }
}

void drv_entry_bind(const plan_entry_t *entry, const drv_value_t *values,
                    int64_t *dims, bool *bound) {
  binder_t b = {entry, dims, bound, NULL};
  bind_all(&b, values);
}

bool drv_slot_dims(const plan_entry_t *entry, const plan_slot_t *slot,
                   const int64_t *dims, const bool *bound,
                   tdsl_tensor_desc_t *out) {
  binder_t b = {entry, NULL, (bool *)bound, NULL};
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

/* ---- the check ------------------------------------------------------------ */

typedef struct checker {
  td_task_t *task;
  td_arena_t *arena;
  const plan_entry_t *entry;
  drv_value_t *values;
  binder_t binder;
  plan_number_t *scalars; /* by slot */
} checker_t;

static td_diag_t *report(checker_t *k, td_diag_id_t id, const plan_slot_t *s,
                         const char *text) {
  return td_diag(k->task, id, s->loc, "%s: %s", s->name, text);
}

static const char *shape_text(td_arena_t *arena, uint32_t rank,
                              const int64_t *dims) {
  td_buf_t text;
  td_buf_init(&text, arena->task);
  io_put_dims(&text, dims, (int)rank);
  return td_buf_finish(&text, arena);
}

static const char *declared_text(td_arena_t *arena, const plan_slot_t *s) {
  td_buf_t text;
  td_buf_init(&text, arena->task);
  td_buf_putc(&text, '[');
  for (uint32_t d = 0; d < s->rank; d++) {
    td_buf_printf(&text, "%s%s", d > 0 ? ", " : "", s->dim_text[d]);
  }
  td_buf_putc(&text, ']');
  return td_buf_finish(&text, arena);
}

/* A default, the sibling of `else`, or nothing. */
static void complete(checker_t *k, uint32_t s) {
  const plan_slot_t *slot = &k->entry->slots[s];
  drv_value_t *v = &k->values[s];
  v->from_slot = -1;
  if (v->is_bound || slot->kind == PLAN_OUT) return;
  if (slot->else_slot >= 0 && k->values[slot->else_slot].is_bound) {
    *v = k->values[slot->else_slot];
    v->from_slot = slot->else_slot;
    return;
  }
  if (slot->has_default && slot->rank == 0) {
    void *data = td_arena_alloc(k->arena, 16);
    if (td_dtype_is_float(slot->dtype)) {
      td_store_f64(slot->dtype, data, slot->default_f64);
    } else {
      td_store_i64(slot->dtype, data, slot->default_i64);
    }
    *v = (drv_value_t){.desc = {.dtype = slot->dtype},
                       .data = data,
                       .count = 1,
                       .bytes = td_dtype_bytes(slot->dtype),
                       .is_bound = true,
                       .from_slot = -1};
    return;
  }
  td_diag_t *d = report(k, TD_R07, slot, "no value is given");
  if (slot->is_weight) {
    td_diag_note(d, "it is read from a checkpoint: --weights FILE");
  }
}

static void check_kind(checker_t *k, uint32_t s) {
  const plan_slot_t *slot = &k->entry->slots[s];
  const drv_value_t *v = &k->values[s];
  if (!v->is_bound) return;
  if (v->desc.dtype != slot->dtype) {
    report(k, TD_R08, slot,
           td_arena_printf(k->arena, "is %s, wanted %s",
                           td_dtype_name(v->desc.dtype),
                           td_dtype_name(slot->dtype)));
  } else if (v->desc.rank != slot->rank) {
    td_diag_t *d =
        report(k, TD_R08, slot,
               td_arena_printf(
                   k->arena, "has %s of rank %u, wanted %s of rank %u",
                   shape_text(k->arena, v->desc.rank, v->desc.dims),
                   v->desc.rank, declared_text(k->arena, slot), slot->rank));
    (void)d;
  } else if (v->count > 0 && ((uintptr_t)v->data & 15) != 0 &&
             slot->rank > 0) {
    report(k, TD_R08, slot, "its base is not aligned to 16 bytes");
  } else if (slot->kind != PLAN_IN && v->is_readonly) {
    report(k, TD_R08, slot, "it is updated, but its memory is read-only");
  }
}

/* Named dims of a slot with their values and where each came from. */
static void note_dims(checker_t *k, td_diag_t *d, const plan_slot_t *slot,
                      uint32_t dim) {
  const plan_expr_t *e = &slot->dims[dim];
  for (uint32_t i = 0; i < e->count; i++) {
    if (e->tokens[i].op != PLAN_X_VAR) continue;
    int64_t v = e->tokens[i].value;
    const plan_slot_t *by = &k->entry->slots[k->binder.from[v]];
    td_diag_note(d, "dim %s = %lld from %s", k->entry->vars[v].name,
                 (long long)k->binder.dims[v], by->name);
    td_diag_label(d, by->loc, "%s is declared here", by->name);
  }
}

static void check_shape(checker_t *k, uint32_t s) {
  const plan_slot_t *slot = &k->entry->slots[s];
  const drv_value_t *v = &k->values[s];
  tdsl_tensor_desc_t want;
  if (!v->is_bound) return;
  if (!drv_slot_dims(k->entry, slot, k->binder.dims, NULL, &want)) {
    report(k, TD_R01, slot, "its declared shape has no value here");
    return;
  }
  for (uint32_t d = 0; d < slot->rank; d++) {
    if (want.dims[d] == v->desc.dims[d]) continue;
    td_diag_t *diag = report(
        k, TD_R01, slot,
        td_arena_printf(k->arena, "has %s, wanted %s = %s",
                        shape_text(k->arena, v->desc.rank, v->desc.dims),
                        declared_text(k->arena, slot),
                        shape_text(k->arena, want.rank, want.dims)));
    td_diag_note(diag, "dim %u differs: %s = %lld against %lld", d,
                 slot->dim_text[d], (long long)want.dims[d],
                 (long long)v->desc.dims[d]);
    note_dims(k, diag, slot, d);
    return;
  }
}

static void check_unbound(checker_t *k) {
  for (uint32_t v = 0; v < k->entry->dim_count; v++) {
    if (k->binder.bound[v]) continue;
    td_diag(k->task, TD_R07, k->entry->vars[v].loc,
            "no argument tells the dim %s", k->entry->vars[v].name);
  }
}

static void check_bounds(checker_t *k) {
  for (uint32_t v = 0; v < k->entry->dim_count; v++) {
    const plan_var_t *var = &k->entry->vars[v];
    if (k->binder.dims[v] <= var->bound) continue;
    const plan_slot_t *by = &k->entry->slots[k->binder.from[v]];
    td_diag_t *d = td_diag(k->task, TD_R02, var->loc,
                           "dim %s = %lld exceeds its bound %lld", var->name,
                           (long long)k->binder.dims[v],
                           (long long)var->bound);
    td_diag_note(d, "%s = %lld from %s with %s", var->name,
                 (long long)k->binder.dims[v], by->name,
                 shape_text(k->arena, by->rank,
                            k->values[k->binder.from[v]].desc.dims));
  }
}

/* ---- conditions and ranges -------------------------------------------------- */

static void read_scalars(checker_t *k) {
  k->scalars =
      TD_NEW_ARRAY(k->arena, plan_number_t, k->entry->slot_count + 1);
  for (uint32_t s = 0; s < k->entry->slot_count; s++) {
    const plan_slot_t *slot = &k->entry->slots[s];
    const drv_value_t *v = &k->values[s];
    if (slot->rank > 0 || slot->kind == PLAN_OUT || v->data == NULL) continue;
    k->scalars[s].is_real = td_dtype_is_float(slot->dtype);
    if (k->scalars[s].is_real) {
      k->scalars[s].r = td_load_f64(slot->dtype, v->data);
    } else {
      k->scalars[s].i = td_load_i64(slot->dtype, v->data);
    }
  }
}

/* Values of the names that a condition mentions, each once. */
static void note_values(checker_t *k, td_diag_t *d, const plan_expr_t *e) {
  for (uint32_t i = 0; i < e->count; i++) {
    const plan_token_t *t = &e->tokens[i];
    bool is_old = false;
    for (uint32_t j = 0; j < i; j++) {
      is_old |= e->tokens[j].op == t->op && e->tokens[j].value == t->value;
    }
    if (is_old) continue;
    if (t->op == PLAN_X_VAR) {
      const plan_slot_t *by = &k->entry->slots[k->binder.from[t->value]];
      td_diag_note(d, "%s = %lld from %s", k->entry->vars[t->value].name,
                   (long long)k->binder.dims[t->value], by->name);
    } else if (t->op == PLAN_X_SCALAR) {
      const plan_number_t *n = &k->scalars[t->value];
      const char *name = k->entry->slots[t->value].name;
      if (n->is_real) td_diag_note(d, "%s = %g", name, n->r);
      else td_diag_note(d, "%s = %lld", name, (long long)n->i);
    }
  }
}

static void check_requires(checker_t *k) {
  plan_env_t env = {k->binder.dims, k->scalars};
  for (uint32_t r = 0; r < k->entry->require_count; r++) {
    const plan_require_t *require = &k->entry->requires[r];
    plan_number_t value;
    bool ok = plan_eval_number(&require->cond, &env, &value);
    if (ok && (value.is_real ? value.r != 0 : value.i != 0)) continue;
    td_diag_t *d = td_diag(k->task, TD_R03, require->loc,
                           "require %s is false",
                           require->text != NULL ? require->text : "");
    note_values(k, d, &require->cond);
  }
}

/* "[2, 3]" of element number i; a scalar's is empty. */
static const char *place_text(td_arena_t *arena,
                              const tdsl_tensor_desc_t *desc, size_t i) {
  int64_t at[TDSL_MAX_RANK];
  for (uint32_t d = desc->rank; d > 0; d--) {
    at[d - 1] = (int64_t)(i % (size_t)desc->dims[d - 1]);
    i /= (size_t)desc->dims[d - 1];
  }
  return desc->rank > 0 ? shape_text(arena, desc->rank, at) : "";
}

static void check_range(checker_t *k, uint32_t s) {
  const plan_slot_t *slot = &k->entry->slots[s];
  const drv_value_t *v = &k->values[s];
  plan_env_t env = {k->binder.dims, k->scalars};
  int64_t lo, hi;
  if (!slot->has_range || slot->kind == PLAN_OUT || v->count == 0) return;
  if (!plan_eval(&slot->lo, &env, &lo) || !plan_eval(&slot->hi, &env, &hi)) {
    report(k, TD_R04, slot, "its declared range has no value here");
    return;
  }
  size_t step = td_dtype_bytes(slot->dtype);
  for (size_t i = 0; i < v->count; i++) {
    int64_t x = td_load_i64(slot->dtype, (const char *)v->data + i * step);
    if (lo <= x && x < hi) continue;
    td_diag(k->task, TD_R04, slot->loc, "%s%s = %lld is not in %lld .. %lld",
            slot->name, place_text(k->arena, &v->desc, i), (long long)x,
            (long long)lo, (long long)hi);
    return;
  }
}

/* Written memory may be part of no other argument. */
static void check_overlap(checker_t *k) {
  for (uint32_t a = 0; a < k->entry->slot_count; a++) {
    const drv_value_t *x = &k->values[a];
    if (k->entry->slots[a].kind == PLAN_IN || x->bytes == 0) continue;
    if (x->data == NULL) continue;
    for (uint32_t b = 0; b < k->entry->slot_count; b++) {
      const drv_value_t *y = &k->values[b];
      bool is_pair = a != b && y->data != NULL && y->bytes > 0 &&
                     (k->entry->slots[b].kind == PLAN_IN || b > a);
      const char *p = x->data, *q = y->data;
      if (!is_pair || p >= q + y->bytes || q >= p + x->bytes) continue;
      report(k, TD_R09, &k->entry->slots[a],
             td_arena_printf(k->arena, "its memory overlaps that of %s",
                             k->entry->slots[b].name));
      break;
    }
  }
}

bool drv_entry_check(td_task_t *task, td_arena_t *arena,
                     const plan_entry_t *entry, tdsl_checks_t checks,
                     drv_value_t *values, int64_t *dims) {
  uint32_t before = td_task_errors(task), n = entry->slot_count;
  checker_t k = {.task = task, .arena = arena, .entry = entry,
                 .values = values};
  k.binder.entry = entry;
  k.binder.dims = dims;
  k.binder.bound = TD_NEW_ARRAY(arena, bool, entry->var_count + 1);
  k.binder.from = TD_NEW_ARRAY(arena, uint32_t, entry->var_count + 1);
  for (uint32_t s = 0; s < n; s++) complete(&k, s);
  for (uint32_t s = 0; s < n; s++) check_kind(&k, s);
  check_overlap(&k);
  if (td_task_errors(task) > before) return false;
  bind_all(&k.binder, values);
  check_unbound(&k);
  if (td_task_errors(task) > before) return false;
  for (uint32_t s = 0; s < n; s++) check_shape(&k, s);
  if (td_task_errors(task) > before) return false;
  if (checks == TDSL_CHECKS_NONE) return true;
  check_bounds(&k);
  read_scalars(&k);
  check_requires(&k);
  for (uint32_t s = 0; s < n; s++) check_range(&k, s);
  return td_task_errors(task) == before;
}
