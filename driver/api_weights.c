/* api_weights.c: checkpoint tensors as arguments (language.md 11).
 *
 * A program opens each checkpoint once and keeps what it made of it, so that
 * entry points of one model share their weights.  A tensor of the file that
 * is the leaf as it stands is used where it is mapped; stacks, other types
 * and unaligned data are copied. */
#include "driver/api_weights.h"

#include "runtime/base/num.h"

/* ---- the checkpoint as the front end sees it ---------------------------- */

static const bind_tensor_t *get_tensor(void *user, size_t i) {
  const drv_source_t *s = user;
  return &s->tensors[i];
}

static const bind_tensor_t *find_tensor(void *user, const char *name) {
  const drv_source_t *s = user;
  return td_map_get(&s->by_name, td_str(name));
}

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash != NULL ? slash + 1 : path;
}

void drv_source_init(drv_source_t *s, td_arena_t *arena,
                     const io_checkpoint_t *checkpoint) {
  size_t n = checkpoint->tensors.length;
  memset(s, 0, sizeof *s);
  s->tensors = TD_NEW_ARRAY(arena, bind_tensor_t, n + 1);
  td_map_init(&s->by_name, arena);
  for (size_t i = 0; i < n; i++) {
    const io_checkpoint_tensor_t *t = checkpoint->tensors.data[i];
    s->tensors[i] = (bind_tensor_t){.name = t->tensor->name,
                                    .dtype = t->tensor->dtype,
                                    .rank = (uint32_t)t->tensor->rank,
                                    .dims = t->tensor->dims,
                                    .file = base_name(t->shard->path)};
    td_map_put(&s->by_name, td_str(t->tensor->name), &s->tensors[i]);
  }
  s->source = (bind_source_t){n, get_tensor, find_tensor, s};
}

/* ---- what a program keeps ----------------------------------------------- */

void drv_stores_close(tdsl_program_t *p) {
  for (drv_store_t *s = p->stores; s != NULL; s = s->next) {
    for (size_t i = 0; i < s->buffers.length; i++) {
      tdsl_buffer_release(s->buffers.data[i].buffer);
    }
    if (s->is_open) io_checkpoint_close(&s->checkpoint);
  }
  p->stores = NULL;
}

/* The store is in the program's arena, which the caller has attached. */
static drv_store_t *open_store(td_task_t *task, tdsl_program_t *p,
                               const char *path, bool convert) {
  drv_store_t *s = p->stores;
  while (s != NULL && (strcmp(s->path, path) != 0 || s->convert != convert)) {
    s = s->next;
  }
  if (s != NULL) return s;
  s = TD_NEW(&p->weights, drv_store_t);
  s->path = td_arena_strdup(&p->weights, path);
  s->convert = convert;
  if (!io_checkpoint_open(task, &p->weights, s->path, &s->checkpoint)) {
    return NULL;
  }
  s->is_open = true;
  s->next = p->stores;
  p->stores = s;
  return s;
}

/* ---- one leaf ----------------------------------------------------------- */

typedef struct binder {
  td_task_t *task;
  td_arena_t *arena; /* of the call */
  tdsl_executable_t *exe;
  const plan_entry_t *entry;
  drv_store_t *store;
  bool strict, convert;
} binder_t;

static const io_st_tensor_t *file_tensor(const binder_t *b,
                                         const bind_tensor_t *t) {
  return io_checkpoint_find(&b->store->checkpoint, td_str(t->name))->tensor;
}

/* Elements of the file in the slot's type: exact, or rounded once where that
 * was asked for. */
static void convert_data(tdsl_dtype_t to, char *out, const io_st_tensor_t *t,
                         size_t count) {
  size_t in_step = td_dtype_bytes(t->dtype), out_step = td_dtype_bytes(to);
  const char *in = (const char *)t->data;
  if (t->dtype == to) {
    if (t->bytes > 0) memcpy(out, in, t->bytes);
    return;
  }
  for (size_t i = 0; i < count; i++) {
    td_store_f64(to, out + i * out_step,
                 td_load_f64(t->dtype, in + i * in_step));
  }
}

/* Dims of the slot: as declared, or where that is open as in the file. */
static bool leaf_desc(const binder_t *b, const bind_leaf_t *leaf,
                      const bind_place_t *place, tdsl_tensor_desc_t *out) {
  uint32_t holes = bind_hole_count(leaf->pattern);
  const bind_tensor_t *t = place->tensors[0];
  bool is_open = false;
  (void)b;
  *out = (tdsl_tensor_desc_t){.dtype = leaf->dtype, .rank = leaf->rank};
  for (uint32_t d = 0; d < leaf->rank; d++) {
    out->dims[d] = leaf->dims[d];
    is_open |= leaf->dims[d] < 0;
  }
  if (!is_open) return true;
  if (t->rank + holes != leaf->rank) return false;
  for (uint32_t d = holes; d < leaf->rank; d++) {
    out->dims[d] = t->dims[d - holes];
  }
  return true;
}

static void wrong_count(const binder_t *b, const bind_leaf_t *leaf,
                        const bind_tensor_t *t) {
  td_diag(b->task, TD_E14, leaf->loc,
          "checkpoint tensor %s has another shape than %s", t->name,
          leaf->path);
}

/* True if the file's bytes are the leaf's. */
static bool is_in_place(const binder_t *b, const bind_leaf_t *leaf,
                        const bind_place_t *place,
                        const plan_slot_t *slot) {
  if (place->tensor_count != 1 || slot->kind != PLAN_IN) return false;
  const io_st_tensor_t *t = file_tensor(b, place->tensors[0]);
  return t->dtype == leaf->dtype && t->bytes > 0 &&
         ((uintptr_t)t->data & 15) == 0;
}

static tdsl_buffer_t *make_leaf(const binder_t *b, const bind_leaf_t *leaf,
                                const bind_place_t *place,
                                const plan_slot_t *slot) {
  tdsl_context_t *context = b->exe->program->context;
  tdsl_tensor_desc_t desc;
  size_t count, bytes;
  if (place->tensor_count == 0) return NULL; /* a stack of no layers */
  if (!leaf_desc(b, leaf, place, &desc) ||
      !drv_tensor_bytes(&desc, &count, &bytes)) {
    wrong_count(b, leaf, place->tensors[0]);
    return NULL;
  }
  size_t each = count / place->tensor_count;
  for (uint32_t i = 0; i < place->tensor_count; i++) {
    const io_st_tensor_t *t = file_tensor(b, place->tensors[i]);
    if (t->bytes == each * td_dtype_bytes(t->dtype)) continue;
    wrong_count(b, leaf, place->tensors[i]);
    return NULL;
  }
  if (is_in_place(b, leaf, place, slot)) {
    const io_st_tensor_t *t = file_tensor(b, place->tensors[0]);
    return drv_buffer_wrap(b->task, context, &desc,
                           (void *)(uintptr_t)t->data, DRV_MEMORY_MAPPED);
  }
  tdsl_buffer_t *made = drv_buffer_new(b->task, context, &desc);
  size_t step = each * td_dtype_bytes(leaf->dtype);
  for (uint32_t i = 0; i < place->tensor_count; i++) {
    convert_data(leaf->dtype, (char *)made->data + i * step,
                 file_tensor(b, place->tensors[i]), each);
  }
  return made;
}

static bool same_shape(const tdsl_buffer_t *b, const bind_leaf_t *leaf) {
  bool same = b->desc.dtype == leaf->dtype && b->desc.rank == leaf->rank;
  for (uint32_t d = 0; same && d < leaf->rank; d++) {
    same = leaf->dims[d] < 0 || b->desc.dims[d] == leaf->dims[d];
  }
  return same;
}

/* State is the executable's own; what is only read may be shared. */
static tdsl_buffer_t *take_leaf(binder_t *b, const bind_leaf_t *leaf,
                                const bind_place_t *place,
                                const plan_slot_t *slot) {
  drv_store_t *store = b->store;
  if (slot->kind != PLAN_IN) return make_leaf(b, leaf, place, slot);
  for (size_t i = 0; i < store->buffers.length; i++) {
    const drv_stored_t *old = &store->buffers.data[i];
    if (strcmp(old->path, leaf->path) == 0 &&
        strcmp(old->pattern, leaf->pattern) == 0 &&
        same_shape(old->buffer, leaf)) {
      tdsl_buffer_retain(old->buffer);
      return old->buffer;
    }
  }
  td_arena_t *keep = &b->exe->program->weights;
  drv_stored_t row = {td_arena_strdup(keep, leaf->path),
                      td_arena_strdup(keep, leaf->pattern), NULL};
  td_vec_reserve(keep, &store->buffers, 1);
  row.buffer = make_leaf(b, leaf, place, slot);
  if (row.buffer == NULL) return NULL;
  td_vec_push(keep, &store->buffers, row);
  tdsl_buffer_retain(row.buffer);
  return row.buffer;
}

/* ---- an entry's leaves -------------------------------------------------- */

static int64_t slot_of(const plan_entry_t *e, const char *path) {
  for (uint32_t s = 0; s < e->slot_count; s++) {
    const plan_slot_t *slot = &e->slots[s];
    if (slot->is_weight && slot->kind != PLAN_OUT &&
        strcmp(slot->name, path) == 0) {
      return s;
    }
  }
  return -1;
}

/* Those leaves of struct parameters that have a name in the file. */
static bind_leaf_t *weight_leaves(binder_t *b, size_t *out_count) {
  const tdsl_program_t *p = b->exe->program;
  size_t n = 0, kept = 0;
  bind_leaf_t *all = bind_leaves(b->arena, p->funcs[b->exe->index], &n);
  bind_leaf_t *out = TD_NEW_ARRAY(b->arena, bind_leaf_t, n + 1);
  int32_t *where = TD_NEW_ARRAY(b->arena, int32_t, n + 1);
  for (size_t i = 0; i < n; i++) {
    where[i] = -1;
    if (slot_of(b->entry, all[i].path) < 0) continue;
    where[i] = (int32_t)kept;
    out[kept++] = all[i];
  }
  for (size_t i = 0; i < kept; i++) {
    if (out[i].else_leaf >= 0) out[i].else_leaf = where[out[i].else_leaf];
  }
  *out_count = kept;
  return out;
}

static void bind_leaves_of(binder_t *b) {
  tdsl_executable_t *exe = b->exe;
  size_t count;
  bind_place_t *places;
  drv_source_t source;
  bind_options_t options = {.convert = b->convert, .strict = b->strict};
  bind_leaf_t *leaves = weight_leaves(b, &count);
  drv_source_init(&source, b->arena, &b->store->checkpoint);
  if (!bind_check(b->task, b->arena, exe->program->sem, leaves, count,
                  &source.source, &options, &places)) {
    return;
  }
  if (exe->weights == NULL) {
    exe->weights = TD_NEW_ARRAY(&exe->arena, tdsl_buffer_t *,
                                b->entry->slot_count + 1);
  }
  exe->weights_number++;
  for (size_t i = 0; i < count; i++) {
    int64_t s = slot_of(b->entry, leaves[i].path);
    if (places[i].alias >= 0) continue; /* the slot's `else` serves it */
    tdsl_buffer_t *made = take_leaf(b, &leaves[i], &places[i],
                                    &b->entry->slots[s]);
    tdsl_buffer_release(exe->weights[s]);
    exe->weights[s] = made;
  }
}

void drv_weights_release(tdsl_executable_t *exe) {
  const plan_entry_t *e = &exe->program->plans[exe->index];
  for (uint32_t s = 0; exe->weights != NULL && s < e->slot_count; s++) {
    tdsl_buffer_release(exe->weights[s]);
  }
  exe->weights = NULL;
}

/* ---- public ------------------------------------------------------------- */

typedef struct weights_call {
  tdsl_executable_t *exe;
  tdsl_string_t path;
  bool strict, convert;
} weights_call_t;

static void bind_work(td_task_t *task, void *arg) {
  weights_call_t *c = arg;
  tdsl_program_t *p = c->exe->program;
  td_arena_t arena;
  td_arena_init(&arena, task);
  const char *path = td_str_cstr(&arena, c->path);
  binder_t b = {.task = task,
                .arena = &arena,
                .exe = c->exe,
                .entry = &p->plans[c->exe->index],
                .strict = c->strict,
                .convert = c->convert};
  task->stage = "weights";
  b.store = open_store(task, p, path, c->convert);
  if (b.store != NULL) bind_leaves_of(&b);
}

/* Arenas that outlive the call are attached around the work, which may
 * unwind; the lock is over the program's stores. */
static void bind_frame(td_task_t *task, void *arg) {
  weights_call_t *c = arg;
  tdsl_program_t *p = c->exe->program;
  td_mutex_lock(&p->context->lock);
  td_arena_attach(&p->weights, task);
  td_arena_attach(&c->exe->arena, task);
  tdsl_status_t status = td_task_run(task, bind_work, arg);
  td_arena_detach(&c->exe->arena);
  td_arena_detach(&p->weights);
  td_mutex_unlock(&p->context->lock);
  if (status != TDSL_STATUS_OK) {
    char message[sizeof task->message];
    memcpy(message, task->message, sizeof message);
    td_raise(task, status, "%s", message);
  }
}

tdsl_status_t tdsl_executable_bind_weights(tdsl_executable_t *exe,
                                           tdsl_string_t path,
                                           uint32_t strict, uint32_t convert,
                                           tdsl_error_t **out_error) {
  weights_call_t c = {exe, path, strict != 0, convert != 0};
  const tdsl_program_t *p = exe->program;
  drv_call_t call = {.context = p->context, .sources = &p->task};
  return drv_call(&call, bind_frame, &c, out_error);
}
