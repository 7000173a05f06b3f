/* Order of the checks: frame (length, header within the file, UTF-8), the
   header's JSON entry by entry, then the byte ranges all together: sorted,
   they must follow one another from 0 to the end of the data. */
#include "runtime/io/safetensors.h"

#include "runtime/io/json.h"

#include <stdlib.h>

#define LONGEST_HEADER 100000000u

/* All dtypes of the format. Those without a counterpart are listed too: a
   checkpoint may hold them as long as the program does not ask for them. */
static const struct {
  const char *name;
  unsigned bits;
  tdsl_dtype_t dtype;
} types[] = {
    {"BOOL", 8, TDSL_DTYPE_BOOL},       {"U8", 8, TDSL_DTYPE_U8},
    {"I8", 8, TDSL_DTYPE_I8},           {"I16", 16, TDSL_DTYPE_UNSET},
    {"U16", 16, TDSL_DTYPE_UNSET},      {"I32", 32, TDSL_DTYPE_I32},
    {"U32", 32, TDSL_DTYPE_UNSET},      {"I64", 64, TDSL_DTYPE_I64},
    {"U64", 64, TDSL_DTYPE_UNSET},      {"F16", 16, TDSL_DTYPE_F16},
    {"BF16", 16, TDSL_DTYPE_BF16},      {"F32", 32, TDSL_DTYPE_F32},
    {"F64", 64, TDSL_DTYPE_F64},        {"C64", 64, TDSL_DTYPE_UNSET},
    {"F8_E5M2", 8, TDSL_DTYPE_F8E5M2},  {"F8_E4M3", 8, TDSL_DTYPE_F8E4M3},
    {"F8_E8M0", 8, TDSL_DTYPE_UNSET},   {"F8_E4M3FNUZ", 8, TDSL_DTYPE_UNSET},
    {"F8_E5M2FNUZ", 8, TDSL_DTYPE_UNSET}, {"F4", 4, TDSL_DTYPE_UNSET},
    {"F6_E2M3", 6, TDSL_DTYPE_UNSET},   {"F6_E3M2", 6, TDSL_DTYPE_UNSET},
};

#define TYPE_COUNT (sizeof types / sizeof *types)

/* Each of our types has one row. */
const char *io_st_dtype_name(tdsl_dtype_t dtype) {
  for (size_t i = 0; i < TYPE_COUNT; i++) {
    if (types[i].dtype == dtype) return types[i].name;
  }
  return "";
}

/* What is known of an entry while the header is read. */
typedef struct entry_t {
  td_str_t name;
  bool has_type, has_shape, has_range;
  unsigned bits;
  uint64_t begin, end;
} entry_t;

/* The range of tensor `index`, for the sort. */
typedef struct range_t {
  uint64_t begin, end;
  size_t index;
} range_t;

/* What the functions that read the header share. */
typedef struct reader_t {
  td_task_t *task;
  td_arena_t *arena;
  io_json_t *j;
  io_safetensors_t *out;
  TD_VEC(range_t) ranges;
} reader_t;

static bool fail(td_task_t *task, const io_safetensors_t *st,
                 td_diag_id_t id, const char *format, ...)
    TD_PRINTF(4, 5);

/* A fault of the file as a whole; faults in the header have a line and column
   and go through io_json_fail. */
static bool fail(td_task_t *task, const io_safetensors_t *st,
                 td_diag_id_t id, const char *format, ...) {
  td_loc_t loc = {st->file, 0, 0, 0, 0};
  va_list args;
  va_start(args, format);
  const char *text = td_arena_vprintf(&task->arena, format, args);
  va_end(args);
  td_diag(task, id, loc, "%s", text);
  return false;
}

/* -- the header -- */

/* F17 has its own id, so the token is looked at before it is a number. */
static bool read_count(reader_t *r, const entry_t *e, uint64_t *out) {
  if (io_json_peek(r->j) != IO_JSON_NUMBER) {
    return io_json_fail(r->j, TD_F25, "tensor \"%.*s\": a number is wanted",
                        TD_STR_ARG(e->name));
  }
  td_str_t text;
  if (!io_json_number_text(r->j, &text)) return false;
  uint64_t value = 0;
  for (size_t i = 0; i < text.length; i++) {
    char c = text.data[i];
    if (c < '0' || c > '9') {
      return io_json_fail(r->j, TD_F17,
                          "tensor \"%.*s\": %.*s is not a non-negative "
                          "integer",
                          TD_STR_ARG(e->name), TD_STR_ARG(text));
    }
    uint64_t digit = (uint64_t)(c - '0');
    if (value > ((uint64_t)INT64_MAX - digit) / 10) {
      return io_json_fail(r->j, TD_F18, "tensor \"%.*s\": %.*s overflows",
                          TD_STR_ARG(e->name), TD_STR_ARG(text));
    }
    value = value * 10 + digit;
  }
  *out = value;
  return true;
}

/* The kind is asked for before reading, so that F25 is reported and not the
   reader's own F07. */
static bool wrong_kind(reader_t *r, const entry_t *e, const char *key) {
  return io_json_fail(r->j, TD_F25, "tensor \"%.*s\": %s is malformed",
                      TD_STR_ARG(e->name), key);
}

/* Names are compared exactly: "f32" is not a dtype of the format. */
static bool read_type(reader_t *r, entry_t *e, io_st_tensor_t *t) {
  td_str_t text;
  if (io_json_peek(r->j) != IO_JSON_TEXT) return wrong_kind(r, e, "dtype");
  if (!io_json_text(r->j, &text)) return false;
  for (size_t i = 0; i < TYPE_COUNT; i++) {
    if (!td_str_eqc(text, types[i].name)) continue;
    t->dtype_name = types[i].name;
    t->dtype = types[i].dtype;
    t->bits = types[i].bits;
    e->has_type = true;
    return true;
  }
  return io_json_fail(r->j, TD_F16, "tensor \"%.*s\" has the unknown dtype "
                                    "\"%.*s\"",
                      TD_STR_ARG(e->name), TD_STR_ARG(text));
}

/* Any rank is legal in a file. The vector grows with the numbers that are
   there, at least two bytes of text each. */
static bool read_shape(reader_t *r, entry_t *e, io_st_tensor_t *t) {
  TD_VEC(int64_t) dims = {NULL, 0, 0};
  if (io_json_peek(r->j) != IO_JSON_ARRAY) return wrong_kind(r, e, "shape");
  if (!io_json_array(r->j)) return false;
  while (io_json_item(r->j)) {
    uint64_t dim;
    if (!read_count(r, e, &dim)) return false;
    td_vec_push(r->arena, &dims, (int64_t)dim);
  }
  if (dims.length > INT32_MAX) return wrong_kind(r, e, "shape");
  t->dims = dims.data;
  t->rank = (int)dims.length;
  e->has_shape = true;
  return !r->j->failed;
}

/* Exactly two numbers; their order and size are checked when the shape is
   known too. */
static bool read_range(reader_t *r, entry_t *e) {
  uint64_t ends[2];
  int count = 0;
  if (io_json_peek(r->j) != IO_JSON_ARRAY) {
    return wrong_kind(r, e, "data_offsets");
  }
  if (!io_json_array(r->j)) return false;
  while (io_json_item(r->j)) {
    if (count == 2) return wrong_kind(r, e, "data_offsets");
    if (!read_count(r, e, &ends[count++])) return false;
  }
  if (r->j->failed) return false;
  if (count != 2) return wrong_kind(r, e, "data_offsets");
  e->begin = ends[0];
  e->end = ends[1];
  e->has_range = true;
  return true;
}

/* The size that dtype and shape ask for, against the range. */
static bool check_size(reader_t *r, const entry_t *e,
                       const io_st_tensor_t *t) {
  size_t count = 1, bits;
  for (int i = 0; i < t->rank; i++) {
    if (!td_mul_size(count, (size_t)t->dims[i], &count)) {
      return io_json_fail(r->j, TD_F18,
                          "tensor \"%.*s\": the product of its shape "
                          "overflows",
                          TD_STR_ARG(e->name));
    }
  }
  if (!td_mul_size(count, t->bits, &bits)) {
    return io_json_fail(r->j, TD_F18, "tensor \"%.*s\": its size overflows",
                        TD_STR_ARG(e->name));
  }
  if (bits % 8) {
    return io_json_fail(r->j, TD_F23,
                        "tensor \"%.*s\": %zu elements of %u bits do not "
                        "fill whole bytes",
                        TD_STR_ARG(e->name), count, t->bits);
  }
  if (e->end < e->begin || bits / 8 != e->end - e->begin) {
    return io_json_fail(r->j, TD_F19,
                        "tensor \"%.*s\" needs %zu bytes, its data_offsets "
                        "are [%llu, %llu]",
                        TD_STR_ARG(e->name), bits / 8,
                        (unsigned long long)e->begin,
                        (unsigned long long)e->end);
  }
  return true;
}

/* The keys of an entry may come in any order, so what they say together is
   checked at its end. */
static bool read_entry(reader_t *r, td_str_t name) {
  entry_t e = {.name = name};
  io_st_tensor_t t = {0};
  td_str_t key;
  if (io_json_peek(r->j) != IO_JSON_OBJECT) {
    return wrong_kind(r, &e, "its entry");
  }
  if (!io_json_object(r->j)) return false;
  while (io_json_key(r->j, &key)) {
    bool ok;
    if (td_str_eqc(key, "dtype")) ok = read_type(r, &e, &t);
    else if (td_str_eqc(key, "shape")) ok = read_shape(r, &e, &t);
    else if (td_str_eqc(key, "data_offsets")) ok = read_range(r, &e);
    else ok = io_json_fail(r->j, TD_F25, "tensor \"%.*s\": unknown key "
                                         "\"%.*s\"",
                           TD_STR_ARG(name), TD_STR_ARG(key));
    if (!ok) return false;
  }
  if (r->j->failed) return false;
  if (!e.has_type || !e.has_shape || !e.has_range) {
    return io_json_fail(r->j, TD_F25, "tensor \"%.*s\" has no %s",
                        TD_STR_ARG(name),
                        !e.has_type    ? "dtype"
                        : !e.has_shape ? "shape"
                                       : "data_offsets");
  }
  if (!check_size(r, &e, &t)) return false;
  t.name = td_str_cstr(r->arena, name);
  t.bytes = (size_t)(e.end - e.begin);
  range_t range = {e.begin, e.end, r->out->tensors.length};
  td_vec_push(r->arena, &r->out->tensors, t);
  td_vec_push(r->arena, &r->ranges, range);
  return true;
}

/* Kept as it is; nothing in it is interpreted. */
static bool read_metadata(reader_t *r) {
  td_str_t key, value;
  if (io_json_peek(r->j) != IO_JSON_OBJECT) {
    return io_json_fail(r->j, TD_F24, "__metadata__ is not an object");
  }
  if (!io_json_object(r->j)) return false;
  while (io_json_key(r->j, &key)) {
    if (io_json_peek(r->j) != IO_JSON_TEXT) {
      return io_json_fail(r->j, TD_F24, "metadata \"%.*s\" is not text",
                          TD_STR_ARG(key));
    }
    if (!io_json_text(r->j, &value)) return false;
    io_st_text_t text = {td_str_cstr(r->arena, key),
                         td_str_cstr(r->arena, value)};
    td_vec_push(r->arena, &r->out->metadata, text);
  }
  return !r->j->failed;
}

/* Names and keys that occur twice are found by the reader, under F15. */
static bool read_header(reader_t *r, td_str_t text) {
  io_json_t *j = r->j;
  td_str_t name;
  io_json_begin(j, r->task, r->arena, r->out->file, text);
  j->not_json = TD_F14;
  j->duplicate = TD_F15;
  if (io_json_peek(j) != IO_JSON_OBJECT) {
    io_json_fail(j, TD_F14, "the header is not a JSON object");
  }
  if (io_json_object(j)) {
    while (io_json_key(j, &name)) {
      bool ok = td_str_eqc(name, "__metadata__") ? read_metadata(r)
                                                 : read_entry(r, name);
      if (!ok) break;
    }
  }
  return io_json_end(j);
}

/* -- the ranges -- */

/* Empty ranges sort before others that begin at the same byte, so that they
   do not look like overlaps. */
static int compare_ranges(const void *a, const void *b) {
  const range_t *x = a, *y = b;
  if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
  if (x->end != y->end) return x->end < y->end ? -1 : 1;
  return x->index < y->index ? -1 : x->index > y->index;
}

/* The one place where offsets become pointers. */
static bool check_ranges(reader_t *r, const unsigned char *data,
                         size_t length) {
  io_safetensors_t *st = r->out;
  size_t n = r->ranges.length;
  if (n) {
    qsort(r->ranges.data, n, sizeof *r->ranges.data, compare_ranges);
  }
  uint64_t at = 0;
  for (size_t i = 0; i < n; i++) {
    const range_t *range = &r->ranges.data[i];
    io_st_tensor_t *t = &st->tensors.data[range->index];
    if (range->begin > at) {
      return fail(r->task, st, TD_F20,
                  "bytes %llu to %llu of the data, before tensor \"%s\", "
                  "belong to no tensor",
                  (unsigned long long)at, (unsigned long long)range->begin,
                  t->name);
    }
    if (range->begin < at) {
      return fail(r->task, st, TD_F21,
                  "tensor \"%s\" begins at byte %llu of the data, inside "
                  "another that ends at %llu",
                  t->name, (unsigned long long)range->begin,
                  (unsigned long long)at);
    }
    if (range->end > length) {
      return fail(r->task, st, TD_F22,
                  "tensor \"%s\" ends at byte %llu of the data, the file "
                  "has %zu",
                  t->name, (unsigned long long)range->end, length);
    }
    if (t->bytes) t->data = data + range->begin;
    at = range->end;
  }
  if (at != length) {
    return fail(r->task, st, TD_F22,
                "the tensors end at byte %llu of the data, the file has %zu",
                (unsigned long long)at, length);
  }
  return true;
}

/* Everything but the mapping, so that tests and the fuzzer come without
   files. */
bool io_safetensors_parse(td_task_t *task, td_arena_t *arena, uint32_t file,
                          const void *data, size_t length,
                          io_safetensors_t *out) {
  const unsigned char *bytes = data;
  memset(out, 0, sizeof *out);
  out->file = file;
  const td_source_t *source = td_sources_get(task, file);
  out->path = source ? td_arena_strdup(arena, source->name) : "";
  td_map_init(&out->by_name, arena);
  if (length < 8) {
    return fail(task, out, TD_F10,
                "%zu bytes are too few for a safetensors file", length);
  }
  uint64_t header = 0;
  for (int i = 7; i >= 0; i--) header = header << 8 | bytes[i];
  if (header > LONGEST_HEADER) {
    return fail(task, out, TD_F11, "header of %llu bytes, at most %u allowed",
                (unsigned long long)header, LONGEST_HEADER);
  }
  if (header > length - 8) {
    return fail(task, out, TD_F12, "header of %llu bytes in a file of %zu",
                (unsigned long long)header, length);
  }
  td_str_t text = td_str_n((const char *)bytes + 8, (size_t)header);
  if (!td_utf8_valid(text.data, text.length)) {
    return fail(task, out, TD_F13, "the header is not UTF-8");
  }
  io_json_t j;
  reader_t r = {task, arena, &j, out, {NULL, 0, 0}};
  if (!read_header(&r, text)) return false;
  size_t start = 8 + (size_t)header;
  if (!check_ranges(&r, bytes + start, length - start)) return false;
  for (size_t i = 0; i < out->tensors.length; i++) {
    io_st_tensor_t *t = &out->tensors.data[i];
    td_map_put(&out->by_name, td_str(t->name), t);
  }
  return true;
}

/* A cleanup. */
static void unmap(void *arg) { td_os_unmap_file(arg); }

/* The file stays mapped only if all of it was accepted. */
bool io_safetensors_open(td_task_t *task, td_arena_t *arena,
                         const char *path, io_safetensors_t *out) {
  td_file_map_t map;
  memset(out, 0, sizeof *out);
  uint32_t file = td_sources_add_file(task, path);
  memset(&map, 0, sizeof map);
  td_defer(task, unmap, &map); /* may unwind, so before the map */
  bool ok = td_os_map_file(task, path, &map) &&
            io_safetensors_parse(task, arena, file, map.data, map.length,
                                 out);
  td_undefer(task, !ok);
  out->map = map; /* empty if it was unmapped */
  return ok;
}

void io_safetensors_close(io_safetensors_t *st) { td_os_unmap_file(&st->map); }

/* Names are compared as bytes; JSON escapes are decoded already. */
const io_st_tensor_t *io_safetensors_find(const io_safetensors_t *st,
                                          td_str_t name) {
  return td_map_get(&st->by_name, name);
}

/* -- writing -- */

/* Large elements first keeps every tensor aligned to its element without
   padding, for which the format has no place. */
static int compare_leaves(const void *a, const void *b) {
  const io_leaf_t *const *x = a, *const *y = b;
  size_t i = td_dtype_bytes((*x)->tensor.dtype);
  size_t j = td_dtype_bytes((*y)->tensor.dtype);
  if (i != j) return i > j ? -1 : 1;
  return strcmp((*x)->name, (*y)->name);
}

/* The header is built in the same builder as the data: its length goes into
   the first eight bytes once it is known. */
bool io_safetensors_write(td_task_t *task, const char *path,
                          const io_leaf_t *tensors, size_t count) {
  const io_leaf_t **order =
      TD_NEW_ARRAY(&task->arena, const io_leaf_t *, count);
  for (size_t i = 0; i < count; i++) order[i] = &tensors[i];
  if (count) qsort(order, count, sizeof *order, compare_leaves);
  td_buf_t buf;
  td_buf_init(&buf, task);
  td_buf_pad(&buf, '\0', 8);
  td_buf_putc(&buf, '{');
  size_t at = 0;
  for (size_t i = 0; i < count; i++) {
    const io_tensor_t *t = &order[i]->tensor;
    if (i) td_buf_putc(&buf, ',');
    td_buf_json(&buf, td_str(order[i]->name));
    td_buf_printf(&buf, ":{\"dtype\":\"%s\",\"shape\":[",
                  io_st_dtype_name(t->dtype));
    for (int d = 0; d < t->rank; d++) {
      td_buf_printf(&buf, "%s%lld", d ? "," : "", (long long)t->dims[d]);
    }
    td_buf_printf(&buf, "],\"data_offsets\":[%zu,%zu]}", at, at + t->bytes);
    at += t->bytes;
  }
  td_buf_putc(&buf, '}');
  while (buf.length % 8) td_buf_putc(&buf, ' ');
  uint64_t header = buf.length - 8;
  for (int i = 0; i < 8; i++) buf.data[i] = (char)(header >> 8 * i & 0xff);
  for (size_t i = 0; i < count; i++) {
    td_buf_put(&buf, order[i]->tensor.data, order[i]->tensor.bytes);
  }
  bool ok = td_os_write_atomic(task, path, buf.data, buf.length);
  td_buf_free(&buf);
  return ok;
}
