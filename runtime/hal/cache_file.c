/* cache_file.c: see cache_file.h. */
#include "runtime/hal/cache_file.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

enum {
  HEAD = 24,
  HASH = 16,
  MOST_FIELDS = 64,
  MOST_PARTS = 16,
  MOST_NAME = 64,
  MOST_VALUE = 1 << 20,
  MOST_SHOWN = 4096,
};

static const char magic[8] = {'T', 'D', 'S', 'L', 'K', 'C', '1', '\n'};

/* ---- numbers ------------------------------------------------------------- */

static void put_number(td_buf_t *out, uint64_t v, int bytes) {
  for (int i = 0; i < bytes; i++) td_buf_putc(out, (char)(v >> (8 * i)));
}

static uint64_t get_number(const char *at, int bytes) {
  uint64_t v = 0;
  for (int i = 0; i < bytes; i++) {
    v |= (uint64_t)(unsigned char)at[i] << (8 * i);
  }
  return v;
}

static void put_hash(td_buf_t *out, td_str_t data) {
  XXH128_hash_t h = XXH3_128bits(data.data, data.length);
  XXH128_canonical_t text;
  XXH128_canonicalFromHash(&text, h);
  td_buf_put(out, (const char *)text.digest, HASH);
}

void hal_cache_hex(td_str_t data, char out[33]) {
  static const char digits[] = "0123456789abcdef";
  XXH128_canonical_t text;
  XXH128_canonicalFromHash(&text, XXH3_128bits(data.data, data.length));
  for (int i = 0; i < HASH; i++) {
    out[2 * i] = digits[text.digest[i] >> 4];
    out[2 * i + 1] = digits[text.digest[i] & 15];
  }
  out[32] = '\0';
}

/* ---- writing ------------------------------------------------------------- */

static void put_fields(td_buf_t *out, const hal_field_t *fields,
                       uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    td_str_t name = td_str(fields[i].name);
    put_number(out, name.length, 4);
    put_number(out, fields[i].value.length, 4);
    td_buf_str(out, name);
    td_buf_str(out, fields[i].value);
  }
}

void hal_cache_name(td_task_t *task, const hal_field_t *fields,
                    uint32_t count, char out[HAL_CACHE_NAME_BYTES]) {
  td_buf_t text;
  td_buf_init(&text, task);
  put_fields(&text, fields, count);
  hal_cache_hex(td_buf_view(&text), out);
  memcpy(out + 32, HAL_CACHE_ENDING, sizeof HAL_CACHE_ENDING);
  td_buf_free(&text);
}

void hal_cache_encode(td_buf_t *out, const hal_field_t *fields,
                      uint32_t count, const hal_part_t *parts,
                      uint32_t part_count) {
  td_buf_put(out, magic, sizeof magic);
  put_number(out, count, 4);
  put_number(out, part_count, 4);
  size_t total = HEAD + HASH;
  for (uint32_t i = 0; i < count; i++) {
    total += 8 + strlen(fields[i].name) + fields[i].value.length;
  }
  for (uint32_t i = 0; i < part_count; i++) {
    total += 16 + strlen(parts[i].name) + parts[i].data.length;
  }
  put_number(out, total, 8);
  put_fields(out, fields, count);
  for (uint32_t i = 0; i < part_count; i++) {
    td_str_t name = td_str(parts[i].name);
    put_number(out, name.length, 4);
    put_number(out, 0, 4);
    put_number(out, parts[i].data.length, 8);
    td_buf_str(out, name);
    td_buf_str(out, parts[i].data);
  }
  put_hash(out, td_buf_view(out));
}

/* ---- reading ------------------------------------------------------------- */

typedef struct reader {
  td_arena_t *arena;
  const char *at, *end; /* end: where the hash begins */
} reader_t;

static size_t left(const reader_t *r) {
  return (size_t)(r->end - r->at);
}

/* `length` bytes as a text with a NUL; false if they are not there. */
static bool take(reader_t *r, uint64_t length, const char **out) {
  if (length > left(r)) return false;
  *out = td_arena_strndup(r->arena, r->at, (size_t)length);
  r->at += length;
  return true;
}

static bool read_field(reader_t *r, hal_field_t *out) {
  const char *value;
  if (left(r) < 8) return false;
  uint64_t name = get_number(r->at, 4), length = get_number(r->at + 4, 4);
  r->at += 8;
  if (name > MOST_NAME || length > MOST_VALUE) return false;
  if (!take(r, name, &out->name) || !take(r, length, &value)) return false;
  out->value = td_str_n(value, (size_t)length);
  return true;
}

static bool read_part(reader_t *r, bool with_data, hal_part_t *out) {
  if (left(r) < 16) return false;
  uint64_t name = get_number(r->at, 4), length = get_number(r->at + 8, 8);
  bool is_good = get_number(r->at + 4, 4) == 0 && name <= MOST_NAME;
  r->at += 16;
  if (!is_good || !take(r, name, &out->name)) return false;
  if (length > left(r)) return false;
  out->data = td_str_n(NULL, (size_t)length);
  bool is_shown = strcmp(out->name, HAL_CACHE_SHOWN) == 0;
  if (with_data || (is_shown && length <= MOST_SHOWN)) {
    const char *data;
    if (!take(r, length, &data)) return false;
    out->data.data = data;
  } else {
    r->at += length;
  }
  return true;
}

const char *hal_cache_decode(td_arena_t *arena, td_str_t file, bool with_data,
                             hal_entry_t *out) {
  memset(out, 0, sizeof *out);
  if (file.length < HEAD + HASH) return "it is too short";
  if (memcmp(file.data, magic, sizeof magic) != 0) {
    return "it is of another form or version";
  }
  if (get_number(file.data + 16, 8) != file.length) {
    return "its length is not the one it states";
  }
  size_t body = file.length - HASH;
  XXH128_canonical_t stored;
  memcpy(&stored, file.data + body, HASH);
  XXH128_hash_t made = XXH3_128bits(file.data, body);
  if (!XXH128_isEqual(XXH128_hashFromCanonical(&stored), made)) {
    return "its hash does not match";
  }
  uint64_t fields = get_number(file.data + 8, 4);
  uint64_t parts = get_number(file.data + 12, 4);
  if (fields > MOST_FIELDS || parts > MOST_PARTS) return "it has no such form";
  reader_t r = {arena, file.data + HEAD, file.data + body};
  out->fields = TD_NEW_ARRAY(arena, hal_field_t, fields + 1);
  out->parts = TD_NEW_ARRAY(arena, hal_part_t, parts + 1);
  for (; out->field_count < fields; out->field_count++) {
    if (!read_field(&r, &out->fields[out->field_count])) {
      return "a field leaves the file";
    }
  }
  for (; out->part_count < parts; out->part_count++) {
    if (!read_part(&r, with_data, &out->parts[out->part_count])) {
      return "a part leaves the file";
    }
  }
  return left(&r) == 0 ? NULL : "bytes are left over";
}
