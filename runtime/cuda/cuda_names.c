/* cuda_names.c: which tensor a finding of the simulated GPU is about. The
 * simulator knows addresses; what lay there when a kernel was launched is
 * kept here, by kernel, since an arena holds many tensors in turn. Nothing is
 * kept for a real driver. */
#include "runtime/cuda/cuda_impl.h"

#include "runtime/base/map.h"
#include "runtime/base/num.h"

enum {
  MOST = 4096,      /* rows of the table, a power of two */
  PROBES = 16,
  SHOWN = 3,        /* tensors named when several come into question */
  FAR = 16 << 20,   /* bytes beside a tensor that still speak of it */
  GUARD = 1 << 16,  /* at least, around each allocation of the simulator */
  NAME_BYTES = 64,
  RANK = PLAN_MAX_RANK
};

/* A parameter of a launch, or an argument of a run. */
typedef struct row {
  uint64_t kernel; /* hash of its symbol, ARGUMENT; 0: the row is free */
  rcuda_ptr_t at;
  uint64_t bytes, width; /* of all and of an element; width > 0 */
  uint32_t rank;
  int64_t dims[RANK];
  char name[NAME_BYTES];
} row_t;

struct rcuda_told {
  row_t rows[MOST];
};

static const uint64_t ARGUMENT = 2; /* hashes of symbols are odd */

static uint64_t hash_of(const char *text, size_t length) {
  return td_hash_bytes(text, length, 1) | 1;
}

/* The row to write: of the same tensor, or free, or the first of its chain,
 * which goes. */
static row_t *row_of(rcuda_told_t *names, uint64_t kernel, rcuda_ptr_t at,
                     uint64_t bytes, const char *name) {
  uint64_t slot =
      td_hash_u64(at ^ td_hash_bytes(name, strlen(name), 1), kernel);
  row_t *row = NULL;
  for (uint32_t p = 0; p < PROBES && row == NULL; p++) {
    row_t *r = &names->rows[(slot + p) % MOST];
    bool is_it = r->kernel == kernel && r->at == at && r->bytes == bytes &&
                 strncmp(r->name, name, sizeof r->name - 1) == 0;
    if (r->kernel == 0 || is_it) row = r;
  }
  if (row == NULL) row = &names->rows[slot % MOST];
  td_buf_t text;
  td_buf_init_fixed(&text, row->name, sizeof row->name);
  td_buf_puts(&text, name);
  row->kernel = kernel;
  row->at = at;
  row->bytes = bytes;
  return row;
}

/* A layout that is not the dims in their order gets no coordinates. */
static void set_shape(row_t *row, tdsl_dtype_t dtype, uint32_t rank,
                      const plan_expr_t *dims, const int64_t *vars) {
  plan_env_t env = {vars, NULL};
  uint64_t count = 1;
  row->width = td_dtype_bytes(dtype);
  if (row->width == 0) row->width = 1;
  for (uint32_t i = 0; i < rank && i < RANK; i++) {
    int64_t n = 0;
    if (!plan_eval(&dims[i], &env, &n) || n <= 0) n = 0;
    row->dims[i] = n;
    count *= (uint64_t)n;
  }
  row->rank = count * row->width == row->bytes ? rank : 0;
}

static bool has_table(rcuda_gpu_t *d) {
  if (d->report_get == NULL) return false; /* a real driver */
  if (d->names != NULL) return true;
  d->names =
      d->allocator.function(NULL, 0, sizeof *d->names, d->allocator.user);
  if (d->names == NULL) return false; /* messages say less */
  memset(d->names, 0, sizeof *d->names);
  return true;
}

void rcuda_names_note(rcuda_gpu_t *d, const hal_launch_t *l) {
  if (l->entry == NULL || !has_table(d)) return;
  uint64_t kernel = hash_of(l->kernel->symbol, strlen(l->kernel->symbol));
  for (uint32_t i = 0; i < l->kernel->buffer_count; i++) {
    const plan_buffer_t *b = &l->entry->buffers[l->tensors[i]];
    row_t *row = row_of(d->names, kernel, rcuda_address(l->buffers[i]),
                        l->buffer_bytes[i], b->name);
    set_shape(row, b->dtype, b->rank, b->dims, l->vars);
  }
}

void rcuda_names_tell(hal_device_t *device, const plan_slot_t *slot,
                      const int64_t *vars, const void *data, size_t bytes) {
  rcuda_gpu_t *d = rcuda_self(device);
  td_mutex_lock(&d->lock);
  if (has_table(d)) {
    row_t *row = row_of(d->names, ARGUMENT, rcuda_address(data), bytes,
                        slot->name);
    set_shape(row, slot->dtype, slot->rank, slot->dims, vars);
  }
  td_mutex_unlock(&d->lock);
}

void rcuda_names_close(rcuda_gpu_t *d) {
  if (d->names == NULL) return;
  (void)d->allocator.function(d->names, sizeof *d->names, 0,
                              d->allocator.user);
  d->names = NULL;
}

/* The text behind "key":" up to the next quote. */
static td_str_t field_of(const char *json, const char *key) {
  const char *p = strstr(json, key);
  if (p == NULL) return td_str("");
  p += strlen(key);
  return td_str_n(p, strcspn(p, "\""));
}

static uint64_t number_of(td_str_t hex) {
  uint64_t value = 0;
  for (size_t i = 0; i < hex.length; i++) {
    char c = hex.data[i];
    value = value * 16 + (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
  }
  return value;
}

/* 0 inside, else how far beside the tensor. */
static uint64_t distance(const row_t *r, uint64_t at) {
  if (at < r->at) return r->at - at;
  return at - r->at < r->bytes ? 0 : at - r->at - r->bytes + 1;
}

static void describe(const row_t *r, uint64_t at, td_buf_t *out) {
  if (at < r->at) {
    td_buf_printf(out, "%llu bytes before the first element of %s",
                  (unsigned long long)(r->at - at), r->name);
    return;
  }
  uint64_t offset = at - r->at, element = offset / r->width;
  td_buf_printf(out, "element %llu of %s", (unsigned long long)element,
                r->name);
  if (offset >= r->bytes) {
    td_buf_printf(out, ", which has %llu",
                  (unsigned long long)(r->bytes / r->width));
    return;
  }
  if (r->rank < 2) return;
  int64_t index[RANK];
  for (uint32_t i = r->rank; i-- > 0;) {
    index[i] = (int64_t)(element % (uint64_t)r->dims[i]);
    element /= (uint64_t)r->dims[i];
  }
  td_buf_printf(out, ", %s[", r->name);
  for (uint32_t i = 0; i < r->rank; i++) {
    td_buf_printf(out, "%s%lld", i > 0 ? ", " : "", (long long)index[i]);
  }
  td_buf_putc(out, ']');
}

static bool is_known(const row_t *r, const row_t *const *found,
                     uint32_t count) {
  for (uint32_t k = 0; k < count; k++) {
    if (found[k]->at == r->at && strcmp(found[k]->name, r->name) == 0) {
      return true;
    }
  }
  return false;
}

/* The rows of the kernel at the address, or else beside it, on the side of
 * the nearest and of its allocation: guards lie around each. By distance, then
 * in the table's order. */
static uint32_t find_rows(const rcuda_told_t *names, uint64_t kernel,
                          uint64_t at, const row_t **found) {
  uint64_t limit = FAR;
  uint32_t count = 0;
  while (count < SHOWN) {
    const row_t *best = NULL;
    for (uint32_t i = 0; i < MOST; i++) {
      const row_t *r = &names->rows[i];
      if (r->kernel != kernel || distance(r, at) > limit ||
          (best != NULL && distance(r, at) >= distance(best, at)) ||
          (count > 0 && (at < r->at) != (at < found[0]->at)) ||
          is_known(r, found, count)) {
        continue;
      }
      best = r;
    }
    if (best == NULL) break;
    found[count++] = best;
    uint64_t far = distance(found[0], at);
    limit = far == 0 ? 0 : far + GUARD;
  }
  return count;
}

void rcuda_names_explain(const rcuda_gpu_t *d, size_t finding,
                         td_buf_t *out) {
  char text[2048] = "";
  const row_t *found[SHOWN];
  if (d->names == NULL) return;
  (void)d->report_get(finding, text, sizeof text);
  td_str_t space = field_of(text, "\"space\":\"");
  td_str_t symbol = field_of(text, "\"kernel\":\"");
  uint64_t at = number_of(field_of(text, "\"address\":\"0x"));
  td_str_t id = field_of(text, "\"id\":\"");
  if (!td_str_eq(space, td_str("global"))) return;
  uint64_t kernel =
      symbol.length > 0 ? hash_of(symbol.data, symbol.length) : ARGUMENT;
  uint32_t count = find_rows(d->names, kernel, at, found);
  if (count == 0) count = find_rows(d->names, ARGUMENT, at, found);
  for (uint32_t i = 0; i < count; i++) {
    if (i == 0) td_buf_printf(out, "  %.*s: ", TD_STR_ARG(id));
    else td_buf_puts(out, ", or ");
    describe(found[i], at, out);
  }
  if (count > 0) td_buf_putc(out, '\n');
}
