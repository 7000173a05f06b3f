/* api_cache.c: compiled kernels of a context, kept in memory.
 *
 * An object holds the machine code of one or more kernels and is shared by
 * the programs that use it.  The table maps a kernel's key to the object that
 * has it.  A module is entered only if none of its kernels is there already,
 * so two objects of the table never define one symbol.  When the table grows
 * beyond its limit it is emptied; objects in use stay with their programs. */
#include "driver/api_cache.h"

/* Bytes of machine code: thousands of kernels. */
static const size_t limit_bytes = (size_t)256 << 20;

struct drv_cache {
  tdsl_context_t *context;
  td_mutex_t lock;
  drv_cached_t *rows; /* open addressing; object NULL: free */
  size_t count, capacity, bytes;
};

/* ---- objects ------------------------------------------------------------ */

drv_object_t *drv_object_create(tdsl_context_t *context, const void *data,
                                size_t bytes) {
  drv_object_t *o = drv_alloc(context, sizeof *o + bytes);
  if (o == NULL) return NULL;
  atomic_init(&o->references, 1);
  o->bytes = bytes;
  memcpy(o + 1, data, bytes);
  return o;
}

const void *drv_object_data(const drv_object_t *o) {
  return o + 1;
}

void drv_object_retain(drv_object_t *o) {
  atomic_fetch_add(&o->references, 1);
}

void drv_object_release(tdsl_context_t *context, drv_object_t *o) {
  if (o == NULL || atomic_fetch_sub(&o->references, 1) != 1) return;
  drv_free(context, o, sizeof *o + o->bytes);
}

/* ---- the table ---------------------------------------------------------- */

drv_cache_t *drv_cache_create(tdsl_context_t *context) {
  drv_cache_t *c = drv_alloc(context, sizeof *c);
  if (c == NULL) return NULL;
  c->context = context;
  if (td_mutex_init(&c->lock)) return c;
  drv_free(context, c, sizeof *c);
  return NULL;
}

static void clear(drv_cache_t *c) {
  for (size_t i = 0; i < c->capacity; i++) {
    drv_object_release(c->context, c->rows[i].object);
  }
  drv_free(c->context, c->rows, c->capacity * sizeof *c->rows);
  c->rows = NULL;
  c->count = c->capacity = c->bytes = 0;
}

void drv_cache_destroy(drv_cache_t *c) {
  if (c == NULL) return;
  clear(c);
  td_mutex_free(&c->lock);
  drv_free(c->context, c, sizeof *c);
}

/* The row of a key, or the free one where it would go. */
static drv_cached_t *find(const drv_cache_t *c, cg_key_t key) {
  size_t i = (size_t)key.low & (c->capacity - 1);
  while (c->rows[i].object != NULL &&
         (c->rows[i].key.high != key.high || c->rows[i].key.low != key.low)) {
    i = (i + 1) & (c->capacity - 1);
  }
  return &c->rows[i];
}

bool drv_cache_get(drv_cache_t *c, cg_key_t key, drv_object_t **out) {
  *out = NULL;
  td_mutex_lock(&c->lock);
  if (c->capacity > 0) *out = find(c, key)->object;
  if (*out != NULL) drv_object_retain(*out);
  td_mutex_unlock(&c->lock);
  return *out != NULL;
}

static bool grow(drv_cache_t *c, size_t more) {
  size_t capacity = c->capacity > 0 ? c->capacity : 64;
  while ((c->count + more) * 2 > capacity) capacity *= 2;
  if (capacity == c->capacity) return true;
  drv_cached_t *rows = drv_alloc(c->context, capacity * sizeof *rows);
  if (rows == NULL) return false;
  drv_cache_t old = *c;
  c->rows = rows;
  c->capacity = capacity;
  for (size_t i = 0; i < old.capacity; i++) {
    if (old.rows[i].object != NULL) *find(c, old.rows[i].key) = old.rows[i];
  }
  drv_free(c->context, old.rows, old.capacity * sizeof *old.rows);
  return true;
}

void drv_cache_put(drv_cache_t *c, const cg_key_t *keys, size_t count,
                   drv_object_t *object) {
  td_mutex_lock(&c->lock);
  if (c->bytes + object->bytes > limit_bytes) clear(c);
  bool is_new = count > 0 && grow(c, count);
  for (size_t i = 0; i < count && is_new; i++) {
    is_new = find(c, keys[i])->object == NULL;
  }
  for (size_t i = 0; i < count && is_new; i++) {
    *find(c, keys[i]) = (drv_cached_t){keys[i], object};
    drv_object_retain(object);
    c->count++;
  }
  if (is_new) c->bytes += object->bytes;
  td_mutex_unlock(&c->lock);
}
