/* bind.c: see bind.h.
 *
 * Order matters for messages: what is missing or of the wrong kind first
 * (R07, R08), then shapes (R01), bounds (R02), conditions (R03), contents
 * (R04) and overlap (R09).  A later step runs only if the earlier ones found
 * nothing, since its own findings would be echoes. */
#include "runtime/hal/bind.h"

#include "runtime/base/num.h"

enum { ALIGNMENT = 16 };

void hal_binding_init(hal_binding_t *b, td_arena_t *arena, const plan_t *plan,
                      const plan_entry_t *entry) {
  memset(b, 0, sizeof *b);
  b->plan = plan;
  b->entry = entry;
  b->vars = TD_NEW_ARRAY(arena, int64_t, entry->var_count + 1);
  b->var_slots = TD_NEW_ARRAY(arena, int32_t, entry->var_count + 1);
  b->scalars = TD_NEW_ARRAY(arena, plan_number_t, entry->slot_count + 1);
  b->args = TD_NEW_ARRAY(arena, hal_arg_t, entry->slot_count + 1);
  b->bytes = TD_NEW_ARRAY(arena, size_t, entry->slot_count + 1);
}

td_loc_t hal_locate(td_task_t *task, const plan_t *plan, td_loc_t loc) {
  if (plan == NULL) return loc;
  if (loc.file == 0 || loc.file > plan->file_count) return TD_NO_LOC;
  const char *name = plan->files[loc.file - 1];
  for (size_t i = 0; i < task->sources.length; i++) {
    if (strcmp(task->sources.data[i].name, name) == 0) {
      loc.file = (uint32_t)i + 1;
      return loc;
    }
  }
  loc.file = td_sources_add_file(task, name);
  return loc;
}

/* ---- messages ------------------------------------------------------------ */

static void put_shape(td_buf_t *out, uint32_t rank, const int64_t *dims) {
  td_buf_putc(out, '[');
  for (uint32_t d = 0; d < rank; d++) {
    td_buf_printf(out, "%s%lld", d > 0 ? ", " : "", (long long)dims[d]);
  }
  td_buf_putc(out, ']');
}

static bool is_var_bound(const hal_binding_t *b, const plan_expr_t *e) {
  for (uint32_t i = 0; i < e->count; i++) {
    const plan_token_t *t = &e->tokens[i];
    if (t->op == PLAN_X_VAR && b->var_slots[t->value] == HAL_VAR_UNBOUND) {
      return false;
    }
  }
  return true;
}

/* Value of an expression of dims; false if one of them is still open. */
static bool dim_value(const hal_binding_t *b, const plan_expr_t *e,
                      int64_t *out) {
  plan_env_t env = {b->vars, NULL};
  return is_var_bound(b, e) && plan_eval(e, &env, out);
}

/* "[B, T + 1]", and " = [2, 9]" if that says more. */
static void put_wanted(td_buf_t *out, const hal_binding_t *b,
                       const plan_slot_t *s) {
  int64_t dims[PLAN_MAX_RANK] = {0};
  bool is_known = true, has_names = false;
  td_buf_putc(out, '[');
  for (uint32_t d = 0; d < s->rank; d++) {
    const char *text = s->dim_text[d] != NULL ? s->dim_text[d] : "?";
    td_buf_printf(out, "%s%s", d > 0 ? ", " : "", text);
    is_known &= dim_value(b, &s->dims[d], &dims[d]);
    for (const char *c = text; *c != '\0'; c++) {
      has_names |= *c < '0' || *c > '9';
    }
  }
  td_buf_putc(out, ']');
  if (!is_known || !has_names) return;
  td_buf_puts(out, " = ");
  put_shape(out, s->rank, dims);
}

/* Where the dims that occur in an expression got their values. */
static void put_origins(td_buf_t *out, const hal_binding_t *b,
                        const plan_expr_t *e) {
  const char *before = ": ";
  for (uint32_t v = 0; v < b->entry->dim_count; v++) {
    bool occurs = false;
    for (uint32_t i = 0; i < e->count; i++) {
      occurs |= e->tokens[i].op == PLAN_X_VAR && e->tokens[i].value == v;
    }
    if (!occurs || b->var_slots[v] == HAL_VAR_UNBOUND) continue;
    td_buf_printf(out, "%sdim %s = %lld", before, b->entry->vars[v].name,
                  (long long)b->vars[v]);
    if (b->var_slots[v] >= 0) {
      td_buf_printf(out, " from %s", b->entry->slots[b->var_slots[v]].name);
    }
    before = ", ";
  }
}

static const char *text_of(td_task_t *task, td_buf_t *buf) {
  return td_buf_finish(buf, &task->arena);
}

static void shape_fault(hal_binding_t *b, td_task_t *task, uint32_t slot,
                        const plan_expr_t *e, const char *more) {
  const plan_slot_t *s = &b->entry->slots[slot];
  td_buf_t text;
  td_buf_init(&text, task);
  td_buf_printf(&text, "%s has shape ", s->name);
  put_shape(&text, s->rank, b->args[slot].dims);
  td_buf_puts(&text, ", wanted ");
  put_wanted(&text, b, s);
  put_origins(&text, b, e);
  td_buf_puts(&text, more);
  td_diag(task, TD_R01, hal_locate(task, b->plan, s->loc), "%s",
          text_of(task, &text));
}

/* ---- presence and kind --------------------------------------------------- */

static void set_default(hal_arg_t *a, const plan_slot_t *s) {
  a->is_set = true;
  a->is_value = true;
  a->dtype = s->dtype;
  a->number.is_real = td_dtype_is_float(s->dtype);
  a->number.i = s->default_i64;
  a->number.r = s->default_f64;
}

/* A number given by value, as the slot's dtype holds it. */
static bool settle_number(hal_binding_t *b, td_task_t *task, uint32_t slot) {
  const plan_slot_t *s = &b->entry->slots[slot];
  hal_arg_t *a = &b->args[slot];
  td_loc_t loc = hal_locate(task, b->plan, s->loc);
  if (s->rank != 0) {
    td_diag(task, TD_R07, loc, "%s is a tensor of rank %u and was given a "
            "number", s->name, s->rank);
    return false;
  }
  a->dtype = s->dtype;
  if (td_dtype_is_float(s->dtype)) {
    double r = a->number.is_real ? a->number.r : (double)a->number.i;
    a->number = (plan_number_t){.is_real = true,
                                .r = td_round_to(s->dtype, r)};
    return true;
  }
  if (a->number.is_real) {
    td_diag(task, TD_R07, loc, "%s is %s and was given a float", s->name,
            td_dtype_name(s->dtype));
    return false;
  }
  if (a->number.i < td_dtype_min(s->dtype) ||
      a->number.i > td_dtype_max(s->dtype)) {
    td_diag(task, TD_R04, loc, "%s = %lld is not in %lld .. %lld: it is %s",
            s->name, (long long)a->number.i,
            (long long)td_dtype_min(s->dtype),
            (long long)td_dtype_max(s->dtype), td_dtype_name(s->dtype));
    return false;
  }
  return true;
}

/* Dtype, rank, alignment, and a size that fits memory. */
static bool check_tensor(hal_binding_t *b, td_task_t *task, uint32_t slot) {
  const plan_slot_t *s = &b->entry->slots[slot];
  hal_arg_t *a = &b->args[slot];
  td_loc_t loc = hal_locate(task, b->plan, s->loc);
  if (a->dtype != s->dtype) {
    td_diag(task, TD_R08, loc, "%s has dtype %s, wanted %s", s->name,
            td_dtype_name(a->dtype), td_dtype_name(s->dtype));
    return false;
  }
  if (a->rank != s->rank) {
    td_diag(task, TD_R08, loc, "%s has rank %u, wanted %u", s->name, a->rank,
            s->rank);
    return false;
  }
  size_t bytes = td_dtype_bytes(s->dtype);
  bool is_empty = false, fits = true;
  for (uint32_t d = 0; d < s->rank; d++) {
    if (a->dims[d] < 0) {
      td_diag(task, TD_R08, loc, "%s has a negative extent", s->name);
      return false;
    }
    is_empty |= a->dims[d] == 0;
    fits = fits && td_mul_size(bytes, (size_t)a->dims[d], &bytes);
  }
  if (is_empty) {
    bytes = 0;
  } else if (!fits || bytes > PTRDIFF_MAX) {
    td_diag(task, TD_R08, loc, "%s is larger than memory can be", s->name);
    return false;
  }
  b->bytes[slot] = bytes;
  if (bytes > 0 && a->data == NULL) {
    td_diag(task, TD_R07, loc, "%s has no memory", s->name);
    return false;
  }
  if (bytes > 0 && (uintptr_t)a->data % ALIGNMENT != 0) {
    td_diag(task, TD_R08, loc, "%s is not aligned to %d bytes", s->name,
            ALIGNMENT);
    return false;
  }
  if (a->is_read_only && s->kind != PLAN_IN) {
    td_diag(task, TD_R08, loc, "%s is written and its memory is read-only",
            s->name);
    return false;
  }
  return true;
}

static bool settle_args(hal_binding_t *b, td_task_t *task,
                        const hal_arg_t *args) {
  bool ok = true;
  for (uint32_t s = 0; s < b->entry->slot_count; s++) {
    const plan_slot_t *slot = &b->entry->slots[s];
    hal_arg_t *a = &b->args[s];
    *a = args[s];
    b->bytes[s] = td_dtype_bytes(slot->dtype);
    /* a chain of fallbacks is finite: as many steps as there are slots */
    int32_t other = slot->else_slot;
    for (uint32_t n = 0; !a->is_set && other >= 0 && n <= s + 1; n++) {
      *a = args[other];
      other = b->entry->slots[other].else_slot;
    }
    if (!a->is_set && slot->kind == PLAN_OUT) continue;
    if (!a->is_set && slot->has_default) set_default(a, slot);
    if (!a->is_set) {
      td_diag_t *d = td_diag(task, TD_R07, hal_locate(task, b->plan, slot->loc),
                             "argument %s is missing", slot->name);
      if (slot->is_weight) {
        td_diag_note(d, "it has a checkpoint name: --weights gives it a value");
      }
      ok = false;
    } else if (a->is_value) {
      ok &= settle_number(b, task, s);
    } else {
      ok &= check_tensor(b, task, s);
    }
  }
  return ok;
}

/* ---- dims ---------------------------------------------------------------- */

static bool bind_dims(hal_binding_t *b, td_task_t *task,
                      const int64_t *preset) {
  const plan_entry_t *e = b->entry;
  for (uint32_t v = 0; v < e->var_count; v++) {
    bool is_given = preset != NULL && v < e->dim_count && preset[v] >= 0;
    b->vars[v] = is_given ? preset[v] : 0;
    b->var_slots[v] = is_given ? HAL_VAR_PRESET : HAL_VAR_UNBOUND;
  }
  for (uint32_t i = 0; i < e->bind_count; i++) {
    const plan_bind_t *rule = &e->binds[i];
    if (b->var_slots[rule->var] != HAL_VAR_UNBOUND) continue;
    int64_t rest;
    if (!td_sub_i64(b->args[rule->slot].dims[rule->dim], rule->offset,
                    &rest) ||
        rest < 0 || rest % rule->scale != 0) {
      shape_fault(b, task, rule->slot, &e->slots[rule->slot].dims[rule->dim],
                  rest < 0 ? ": too small" : ": not divisible");
      return false;
    }
    b->vars[rule->var] = rest / rule->scale;
    b->var_slots[rule->var] = (int32_t)rule->slot;
  }
  for (uint32_t v = 0; v < e->dim_count; v++) {
    if (b->var_slots[v] != HAL_VAR_UNBOUND) continue;
    td_diag(task, TD_R07, hal_locate(task, b->plan, e->vars[v].loc),
            "no argument gives dim %s a value", e->vars[v].name);
    return false;
  }
  return true;
}

static bool is_name(const char *text) {
  for (const char *c = text; *c != '\0'; c++) {
    bool is_letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
                     *c == '_';
    if (!is_letter && (c == text || *c < '0' || *c > '9')) return false;
  }
  return text[0] != '\0';
}

/* `require N == M` makes one dim of two names; an extent declared by the
 * other name that differs is that condition failing. */
static bool require_fault(hal_binding_t *b, td_task_t *task, uint32_t slot,
                          uint32_t d, int64_t want) {
  const plan_slot_t *s = &b->entry->slots[slot];
  const plan_expr_t *e = &s->dims[d];
  if (e->count != 1 || e->tokens[0].op != PLAN_X_VAR) return false;
  int32_t from = b->var_slots[e->tokens[0].value];
  if (from < 0 || s->dim_text[d] == NULL) return false;
  const plan_slot_t *by = &b->entry->slots[from];
  const char *other = NULL;
  for (uint32_t k = 0; k < by->rank; k++) {
    const plan_expr_t *x = &by->dims[k];
    if (x->count == 1 && x->tokens[0].op == PLAN_X_VAR &&
        x->tokens[0].value == e->tokens[0].value) {
      other = by->dim_text[k];
      break;
    }
  }
  if (other == NULL || !is_name(other) || !is_name(s->dim_text[d]) ||
      strcmp(other, s->dim_text[d]) == 0) {
    return false;
  }
  td_diag(task, TD_R03, hal_locate(task, b->plan, s->loc),
          "require %s == %s fails: %s = %lld from %s, %s = %lld from %s",
          other, s->dim_text[d], other, (long long)want, by->name,
          s->dim_text[d], (long long)b->args[slot].dims[d], s->name);
  return true;
}

/* Every dim of every argument; outputs that were left out get theirs. */
static bool check_dims(hal_binding_t *b, td_task_t *task) {
  bool ok = true;
  for (uint32_t s = 0; s < b->entry->slot_count; s++) {
    const plan_slot_t *slot = &b->entry->slots[s];
    hal_arg_t *a = &b->args[s];
    size_t bytes = td_dtype_bytes(slot->dtype);
    bool fits = true, is_empty = false;
    for (uint32_t d = 0; d < slot->rank; d++) {
      int64_t want;
      if (!dim_value(b, &slot->dims[d], &want) || want < 0) {
        td_diag(task, TD_R01, hal_locate(task, b->plan, slot->loc),
                "dim %s of %s has no value here",
                slot->dim_text[d] != NULL ? slot->dim_text[d] : "?",
                slot->name);
        ok = false;
        break;
      }
      if (a->is_set && a->dims[d] != want) {
        if (!require_fault(b, task, s, d, want)) {
          shape_fault(b, task, s, &slot->dims[d], "");
        }
        ok = false;
        break;
      }
      a->dims[d] = want;
      is_empty |= want == 0;
      fits = fits && td_mul_size(bytes, (size_t)want, &bytes);
    }
    if (a->is_set || !ok) continue;
    a->dtype = slot->dtype;
    a->rank = slot->rank;
    b->bytes[s] = is_empty ? 0 : bytes;
    if (!is_empty && (!fits || bytes > PTRDIFF_MAX)) {
      td_diag(task, TD_R08, hal_locate(task, b->plan, slot->loc),
              "%s is larger than memory can be", slot->name);
      ok = false;
    }
  }
  return ok;
}

static bool check_bounds(hal_binding_t *b, td_task_t *task) {
  bool ok = true;
  for (uint32_t v = 0; v < b->entry->dim_count; v++) {
    const plan_var_t *var = &b->entry->vars[v];
    if (b->vars[v] <= var->bound) continue;
    ok = false;
    td_loc_t loc = hal_locate(task, b->plan, var->loc);
    if (b->var_slots[v] >= 0) {
      td_diag(task, TD_R02, loc, "dim %s = %lld from %s exceeds its bound "
              "%lld", var->name, (long long)b->vars[v],
              b->entry->slots[b->var_slots[v]].name, (long long)var->bound);
    } else {
      td_diag(task, TD_R02, loc, "dim %s = %lld exceeds its bound %lld",
              var->name, (long long)b->vars[v], (long long)var->bound);
    }
  }
  return ok;
}

/* ---- conditions ---------------------------------------------------------- */

static void read_scalars(hal_binding_t *b, bool is_host) {
  for (uint32_t s = 0; s < b->entry->slot_count; s++) {
    const plan_slot_t *slot = &b->entry->slots[s];
    hal_arg_t *a = &b->args[s];
    if (slot->rank != 0 || slot->kind == PLAN_OUT) continue;
    if (!a->is_value && is_host) {
      bool is_real = td_dtype_is_float(slot->dtype);
      a->number.is_real = is_real;
      if (is_real) {
        a->number.r = td_load_f64(slot->dtype, a->data);
      } else {
        a->number.i = td_load_i64(slot->dtype, a->data);
      }
    }
    b->scalars[s] = a->number;
  }
}

static void put_number(td_buf_t *out, plan_number_t n) {
  if (n.is_real) {
    td_buf_f64(out, n.r);
  } else {
    td_buf_printf(out, "%lld", (long long)n.i);
  }
}

/* "N = 3, s = 0.5": each name once, in the order of mention. */
static void put_values(td_buf_t *out, const hal_binding_t *b,
                       const plan_expr_t *e) {
  const char *before = "";
  for (uint32_t i = 0; i < e->count; i++) {
    const plan_token_t *t = &e->tokens[i];
    if (t->op != PLAN_X_VAR && t->op != PLAN_X_SCALAR) continue;
    bool was_said = false;
    for (uint32_t k = 0; k < i; k++) {
      was_said |= e->tokens[k].op == t->op && e->tokens[k].value == t->value;
    }
    if (was_said) continue;
    bool is_var = t->op == PLAN_X_VAR;
    td_buf_printf(out, "%s%s = ", before,
                  is_var ? b->entry->vars[t->value].name
                         : b->entry->slots[t->value].name);
    plan_number_t n = {.i = is_var ? b->vars[t->value] : 0};
    put_number(out, is_var ? n : b->scalars[t->value]);
    before = ", ";
  }
}

static bool check_requires(hal_binding_t *b, td_task_t *task) {
  bool ok = true;
  plan_env_t env = {b->vars, b->scalars};
  for (uint32_t r = 0; r < b->entry->require_count; r++) {
    const plan_require_t *rule = &b->entry->requires[r];
    plan_number_t n;
    bool has_value = plan_eval_number(&rule->cond, &env, &n);
    if (has_value && (n.is_real ? n.r != 0 : n.i != 0)) continue;
    ok = false;
    td_buf_t text;
    td_buf_init(&text, task);
    td_buf_printf(&text, "require %s ", rule->text);
    td_buf_puts(&text, has_value ? "fails: " : "leaves the integers: ");
    put_values(&text, b, &rule->cond);
    td_diag(task, TD_R03, hal_locate(task, b->plan, rule->loc), "%s",
            text_of(task, &text));
  }
  return ok;
}

/* ---- contents ------------------------------------------------------------ */

enum { RANGE_BLOCK = 512 }; /* elements judged at a time, without branches */

/* Number of the first element outside lo .. hi, or count. */
#define FIRST_OUTSIDE(type)                                                   \
  do {                                                                        \
    const type *v = data;                                                     \
    size_t i = 0;                                                             \
    for (; i + RANGE_BLOCK <= count; i += RANGE_BLOCK) {                      \
      int outside = 0;                                                        \
      for (size_t k = 0; k < RANGE_BLOCK; k++) {                              \
        outside |= ((int64_t)v[i + k] < lo) | ((int64_t)v[i + k] >= hi);      \
      }                                                                       \
      if (outside) break;                                                     \
    }                                                                         \
    for (; i < count; i++) {                                                  \
      if ((int64_t)v[i] < lo || (int64_t)v[i] >= hi) return i;                \
    }                                                                         \
  } while (0)

/* No value of the dtype can be outside. */
static bool covers_all(tdsl_dtype_t dtype, int64_t lo, int64_t hi) {
  switch (dtype) {
    case TDSL_DTYPE_I8: return lo <= INT8_MIN && hi > INT8_MAX;
    case TDSL_DTYPE_U8: return lo <= 0 && hi > UINT8_MAX;
    case TDSL_DTYPE_I32: return lo <= INT32_MIN && hi > INT32_MAX;
    default: return false;
  }
}

static size_t first_outside(tdsl_dtype_t dtype, const void *data,
                            size_t count, int64_t lo, int64_t hi) {
  if (dtype == TDSL_DTYPE_I64) FIRST_OUTSIDE(int64_t);
  if (dtype == TDSL_DTYPE_I32) FIRST_OUTSIDE(int32_t);
  if (dtype == TDSL_DTYPE_I8) FIRST_OUTSIDE(int8_t);
  if (dtype == TDSL_DTYPE_U8) FIRST_OUTSIDE(uint8_t);
  return count;
}

static void range_fault(hal_binding_t *b, td_task_t *task, uint32_t slot,
                        size_t at, int64_t value, int64_t lo, int64_t hi) {
  const plan_slot_t *s = &b->entry->slots[slot];
  const hal_arg_t *a = &b->args[slot];
  int64_t subs[PLAN_MAX_RANK] = {0};
  for (uint32_t d = s->rank; d > 0; d--) {
    subs[d - 1] = (int64_t)(at % (size_t)a->dims[d - 1]);
    at /= (size_t)a->dims[d - 1];
  }
  td_buf_t text;
  td_buf_init(&text, task);
  td_buf_puts(&text, s->name);
  if (s->rank > 0) put_shape(&text, s->rank, subs);
  td_buf_printf(&text, " = %lld is not in %lld .. %lld", (long long)value,
                (long long)lo, (long long)hi);
  td_diag(task, TD_R04, hal_locate(task, b->plan, s->loc), "%s",
          text_of(task, &text));
}

static bool check_ranges(hal_binding_t *b, td_task_t *task, bool is_host) {
  bool ok = true;
  for (uint32_t s = 0; s < b->entry->slot_count; s++) {
    const plan_slot_t *slot = &b->entry->slots[s];
    const hal_arg_t *a = &b->args[s];
    int64_t lo, hi;
    if (!slot->has_range || slot->kind == PLAN_OUT || a->is_checked) continue;
    if (!a->is_value && !is_host) continue;
    if (!dim_value(b, &slot->lo, &lo) || !dim_value(b, &slot->hi, &hi)) {
      continue;
    }
    if (a->is_value) {
      if (a->number.i >= lo && a->number.i < hi) continue;
      range_fault(b, task, s, 0, a->number.i, lo, hi);
      ok = false;
      continue;
    }
    if (covers_all(slot->dtype, lo, hi)) continue;
    size_t width = td_dtype_bytes(slot->dtype);
    size_t count = b->bytes[s] / width;
    size_t at = first_outside(slot->dtype, a->data, count, lo, hi);
    if (at == count) continue;
    int64_t value =
        td_load_i64(slot->dtype, (const char *)a->data + at * width);
    range_fault(b, task, s, at, value, lo, hi);
    ok = false;
  }
  return ok;
}

/* ---- overlap ------------------------------------------------------------- */

static bool overlap(const hal_binding_t *b, uint32_t s, uint32_t t) {
  const hal_arg_t *x = &b->args[s], *y = &b->args[t];
  if (!x->is_set || !y->is_set || x->is_value || y->is_value) return false;
  if (b->bytes[s] == 0 || b->bytes[t] == 0) return false;
  uintptr_t p = (uintptr_t)x->data, q = (uintptr_t)y->data;
  return p < q + b->bytes[t] && q < p + b->bytes[s];
}

static bool check_overlap(hal_binding_t *b, td_task_t *task) {
  const plan_entry_t *e = b->entry;
  for (uint32_t s = 0; s < e->slot_count; s++) {
    if (e->slots[s].kind == PLAN_IN) continue;
    for (uint32_t t = 0; t < e->slot_count; t++) {
      bool is_second = t < s && e->slots[t].kind != PLAN_IN;
      if (t == s || is_second || !overlap(b, s, t)) continue;
      td_diag(task, TD_R09, hal_locate(task, b->plan, e->slots[s].loc),
              "%s is written and overlaps %s", e->slots[s].name,
              e->slots[t].name);
      return false;
    }
  }
  return true;
}

bool hal_bind(hal_binding_t *b, td_task_t *task, const hal_arg_t *args,
              const int64_t *preset, hal_checks_t checks, bool is_host) {
  if (!settle_args(b, task, args)) return false;
  if (!bind_dims(b, task, preset) || !check_bounds(b, task)) return false;
  if (!check_dims(b, task)) return false;
  read_scalars(b, is_host);
  if (checks == HAL_CHECKS_NONE) return true;
  return check_requires(b, task) && check_ranges(b, task, is_host) &&
         check_overlap(b, task);
}
