/* bind.c: names of leaves, matching of dims, dims solved from a checkpoint. */
#include "frontend/bind.h"

#include "runtime/base/num.h"
#include "runtime/base/vec.h"

/* ---- names and leaves ---------------------------------------------------- */

typedef TD_VEC(bind_leaf_t) leaves_t;

typedef struct walk {
  td_arena_t *arena;
  leaves_t out;
} walk_t;

/* A part that is "" contributes nothing, not even a dot. */
static const char *joined(td_arena_t *arena, const char *a, const char *b) {
  if (a == NULL || *a == '\0') return b;
  return *b == '\0' ? a : td_arena_printf(arena, "%s.%s", a, b);
}

/* Dims of stacks come first, outermost first. */
static void add_dims(bind_leaf_t *leaf, const sem_type_t *type) {
  for (uint32_t i = 0; i < type->rank && leaf->rank < IX_MAX_RANK; i++) {
    uint32_t k = leaf->rank++;
    int64_t value = -1;
    leaf->polys[k] = type->dims[i].size;
    leaf->dim_text[k] = type->dims[i].text;
    leaf->dims[k] = ix_is_const(leaf->polys[k], &value) ? value : -1;
  }
}

/* `else` pairs leaves of two fields one to one, since their types are equal. */
static void walk_type(walk_t *w, const sem_type_t *type, bind_leaf_t at) {
  add_dims(&at, type);
  if (type->kind == SEM_TENSOR) {
    at.dtype = type->dtype;
    td_vec_push(w->arena, &w->out, at);
    return;
  }
  const sem_struct_t *s = type->record;
  size_t *starts = TD_NEW_ARRAY(w->arena, size_t, s->field_count + 1);
  for (uint32_t i = 0; i < s->field_count; i++) {
    const sem_field_t *f = &s->fields[i];
    bind_leaf_t below = at;
    starts[i] = w->out.length;
    below.path = td_arena_printf(w->arena, "%s.%s", at.path, f->name);
    below.pattern =
        joined(w->arena, at.pattern, f->from != NULL ? f->from : f->name);
    below.is_named = at.is_named || f->from != NULL;
    below.loc = f->loc;
    walk_type(w, &f->type, below);
  }
  starts[s->field_count] = w->out.length;
  for (uint32_t i = 0; i < s->field_count; i++) {
    int32_t other = s->fields[i].else_field;
    if (other < 0) continue;
    for (size_t k = starts[i]; k < starts[i + 1]; k++) {
      w->out.data[k].else_leaf =
          (int32_t)(starts[other] + (k - starts[i]));
    }
  }
}

/* Tensors and scalars are passed by the caller; structs come from
 * checkpoints. */
bind_leaf_t *bind_leaves(td_arena_t *arena, const sem_func_t *func,
                         size_t *out_count) {
  walk_t w = {.arena = arena};
  for (uint32_t i = 0; i < func->param_count; i++) {
    const sem_symbol_t *p = func->params[i];
    if (p->type.kind != SEM_STRUCT) continue;
    bind_leaf_t at = {.path = p->name, .else_leaf = -1,
                      .is_inout = p->kind == SEM_INOUT, .loc = p->loc};
    walk_type(&w, &p->type, at);
  }
  *out_count = w.out.length;
  return w.out.data;
}

/* One for each numbered stack dim. */
uint32_t bind_hole_count(const char *pattern) {
  uint32_t n = 0;
  for (const char *p = strstr(pattern, "{}"); p != NULL;
       p = strstr(p + 2, "{}")) {
    n++;
  }
  return n;
}

/* Positions from the outermost stack inwards. */
const char *bind_name(td_arena_t *arena, const char *pattern,
                      const int64_t *positions) {
  td_buf_t out;
  td_buf_init(&out, arena->task);
  for (const char *p = pattern; *p != '\0'; p++) {
    if (p[0] == '{' && p[1] == '}') {
      td_buf_printf(&out, "%lld", (long long)*positions++);
      p++;
    } else {
      td_buf_putc(&out, *p);
    }
  }
  return td_buf_finish(&out, arena);
}

/* ---- adjacent dims split and merge --------------------------------------- */

/* Extents of 1 pair with nothing. */
static uint32_t skip_ones(const int64_t *dims, uint32_t rank, uint32_t at) {
  while (at < rank && dims[at] == 1) at++;
  return at;
}

/* From the left; of the two sides one stays a single dim while the other
 * grows. */
bool bind_match(const int64_t *declared, uint32_t declared_rank,
                const int64_t *file, uint32_t file_rank,
                bind_group_t *groups, uint32_t *out_group_count,
                uint32_t *out_at) {
  uint32_t d = 0, f = 0, count = 0, at = 0;
  bool ok = true;
  for (;;) {
    d = skip_ones(declared, declared_rank, d);
    f = skip_ones(file, file_rank, f);
    at = d;
    if (d == declared_rank || f == file_rank) break;
    int64_t x = declared[d++], y = file[f++];
    bind_group_t group = {1, 1};
    /* One side grows until it equals the other, which stays one dim. */
    while (ok && x < y) {
      d = skip_ones(declared, declared_rank, d);
      ok = group.file == 1 && d < declared_rank &&
           td_mul_i64(x, declared[d], &x);
      if (ok) {
        d++;
        group.declared++;
      }
    }
    while (ok && y < x) {
      f = skip_ones(file, file_rank, f);
      ok = group.declared == 1 && f < file_rank && td_mul_i64(y, file[f], &y);
      if (ok) {
        f++;
        group.file++;
      }
    }
    if (!ok || x != y) {
      ok = false;
      break;
    }
    if (groups != NULL) groups[count] = group;
    count++;
  }
  ok = ok && d == declared_rank && f == file_rank;
  if (out_group_count != NULL) *out_group_count = count;
  if (out_at != NULL) *out_at = at;
  return ok;
}

/* ---- dims from element counts -------------------------------------------- */

typedef struct found {
  const sem_global_dim_t *dim;
  int64_t value;
  const bind_leaf_t *leaf;
  const char *tensor;
} found_t;

typedef struct solver {
  td_task_t *task;
  td_arena_t *arena;
  const sem_program_t *program;
  TD_VEC(found_t) found;
  const ix_symbol_t *trial; /* being tried */
  int64_t value;
  const ix_symbol_t *missing;
  uint32_t missing_count;
} solver_t;

/* What an earlier field has shown. */
static const found_t *known(const solver_t *s, const ix_symbol_t *symbol) {
  for (size_t i = 0; i < s->found.length; i++) {
    if (s->found.data[i].dim->symbol == symbol) return &s->found.data[i];
  }
  return NULL;
}

/* Numbers for ix_eval: what was found, and the value being tried. */
static bool value_of(void *user, const ix_symbol_t *symbol, int64_t *out) {
  const solver_t *s = user;
  const found_t *f = known(s, symbol);
  if (f == NULL && symbol != s->trial) return false;
  *out = f != NULL ? f->value : s->value;
  return true;
}

/* Different symbols without value, counted. */
static bool visit_missing(void *user, const ix_symbol_t *symbol) {
  solver_t *s = user;
  if (known(s, symbol) != NULL || symbol == s->missing) return true;
  s->missing = symbol;
  s->missing_count++;
  return true;
}

/* Dims of one file tensor of the leaf: those behind the numbered ones. */
static bool product_at(solver_t *s, const bind_leaf_t *leaf, uint32_t first,
                       int64_t value, int64_t *out) {
  s->value = value;
  *out = 1;
  for (uint32_t i = first; i < leaf->rank; i++) {
    int64_t d = 0;
    if (!ix_eval(leaf->polys[i], value_of, s, &d) || d < 0) return false;
    if (!td_mul_i64(*out, d, out)) {
      *out = INT64_MAX; /* larger than any file */
      return true;
    }
  }
  return true;
}

/* All positions of a stack have one shape, so the first serves. */
static const bind_tensor_t *first_tensor(const solver_t *s,
                                         const bind_leaf_t *leaf,
                                         const bind_source_t *source) {
  int64_t zeros[IX_MAX_RANK] = {0};
  if (bind_hole_count(leaf->pattern) > IX_MAX_RANK) return NULL;
  const char *name = bind_name(s->arena, leaf->pattern, zeros);
  return source->find(source->user, name);
}

/* -1 for a header that cannot be true. */
static int64_t element_count(const bind_tensor_t *t) {
  int64_t n = 1;
  for (uint32_t i = 0; i < t->rank; i++) {
    if (t->dims[i] < 0 || !td_mul_i64(n, t->dims[i], &n)) return -1;
  }
  return n;
}

/* Dynamic dims are bound by arguments, never by a checkpoint. */
static const sem_global_dim_t *dim_of(const solver_t *s,
                                      const ix_symbol_t *symbol) {
  for (uint32_t i = 0; i < s->program->dim_count; i++) {
    const sem_global_dim_t *d = &s->program->dims[i];
    if (d->symbol == symbol && !d->is_dynamic) return d;
  }
  return NULL;
}

/* Products grow with a dim, so the value is found by halving; it counts only
 * if no other value gives the same number of elements. */
static bool solve_leaf(solver_t *s, const bind_leaf_t *leaf,
                       const bind_source_t *source) {
  uint32_t first = bind_hole_count(leaf->pattern);
  s->missing = NULL;
  s->missing_count = 0;
  for (uint32_t i = first; i < leaf->rank; i++) {
    if (leaf->polys[i] == NULL) return false;
    ix_each_symbol(leaf->polys[i], visit_missing, s);
  }
  if (s->missing_count != 1) return false;
  const sem_global_dim_t *dim = dim_of(s, s->missing);
  const bind_tensor_t *t = first_tensor(s, leaf, source);
  int64_t count = t == NULL ? -1 : element_count(t), n = 0;
  if (dim == NULL || count <= 0) return false;
  s->trial = s->missing;
  int64_t lo = 1, hi = 2147483647;
  while (lo < hi) {
    int64_t middle = lo + (hi - lo) / 2;
    if (!product_at(s, leaf, first, middle, &n)) return false;
    if (n >= count) hi = middle;
    else lo = middle + 1;
  }
  bool ok = product_at(s, leaf, first, lo, &n) && n == count;
  ok = ok && product_at(s, leaf, first, lo + 1, &n) && n != count;
  s->trial = NULL;
  if (!ok) return false;
  td_vec_push(s->arena, &s->found, (found_t){dim, lo, leaf, t->name});
  return true;
}

/* All fields agree: each leaf whose dims are now numbers has its count. */
static bool check_leaf(solver_t *s, const bind_leaf_t *leaf,
                       const bind_source_t *source) {
  const bind_tensor_t *t = first_tensor(s, leaf, source);
  uint32_t first = bind_hole_count(leaf->pattern);
  int64_t n = 0;
  const found_t *used = NULL;
  for (size_t i = 0; i < s->found.length && used == NULL; i++) {
    for (uint32_t k = first; k < leaf->rank && used == NULL; k++) {
      if (ix_mentions(leaf->polys[k], s->found.data[i].dim->symbol)) {
        used = &s->found.data[i];
      }
    }
  }
  if (t == NULL || used == NULL || used->leaf == leaf) return true;
  if (!product_at(s, leaf, first, 0, &n) || n == element_count(t)) {
    return true;
  }
  td_diag_t *d = td_diag(s->task, TD_E14, leaf->loc,
                         "checkpoint tensor %s has %lld elements, declared "
                         "%lld", t->name, (long long)element_count(t),
                         (long long)n);
  td_diag_note(d, "%s = %lld from tensor %s", used->dim->name,
               (long long)used->value, used->tensor);
  td_diag_label(d, used->leaf->loc, "%s is the only unknown of this field",
                used->dim->name);
  return false;
}

/* Until nothing new is found; then every field is asked to agree. */
bool bind_solve(td_task_t *task, td_arena_t *arena,
                const sem_program_t *program, const sem_func_t *func,
                const bind_source_t *source, sem_dim_value_t **out_dims,
                uint32_t *out_count) {
  solver_t s = {.task = task, .arena = arena, .program = program};
  size_t count = 0;
  bind_leaf_t *leaves = bind_leaves(arena, func, &count);
  for (bool progress = true; progress;) {
    progress = false;
    for (size_t i = 0; i < count; i++) {
      progress = solve_leaf(&s, &leaves[i], source) || progress;
    }
  }
  bool ok = true;
  for (size_t i = 0; i < count && ok; i++) {
    ok = check_leaf(&s, &leaves[i], source);
  }
  *out_count = (uint32_t)s.found.length;
  *out_dims = TD_NEW_ARRAY(arena, sem_dim_value_t, s.found.length);
  for (size_t i = 0; i < s.found.length; i++) {
    (*out_dims)[i] =
        (sem_dim_value_t){s.found.data[i].dim->name, s.found.data[i].value};
  }
  return ok;
}
