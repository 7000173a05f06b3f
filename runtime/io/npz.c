/* .npz: a zip archive of .npy members. The central directory at the end is
   what counts; of a local header only the lengths before the data are used.
   64-bit extra fields are read, since NumPy writes them for large members. */
#include "runtime/base/os.h"
#include "runtime/io/inflate.h"
#include "runtime/io/npy.h"

#define DEFAULT_LIMIT ((uint64_t)4 << 30)
/* DEFLATE cannot do better: 258 bytes from one bit each of length and
   distance. A member that claims more is damaged, whatever it claims. */
#define BEST_RATIO 1040u

typedef struct zip_t {
  td_task_t *task;
  td_arena_t *arena;
  uint32_t file;
  const unsigned char *data;
  size_t length;
} zip_t;

/* A row of the directory. */
typedef struct member_t {
  td_str_t name;
  unsigned flags, method;
  uint32_t crc;
  uint64_t packed, size, offset;
} member_t;

static bool fail(const zip_t *z, td_diag_id_t id, const char *format, ...)
    TD_PRINTF(3, 4);

/* The archive as a whole is the place of every fault in it. */
static bool fail(const zip_t *z, td_diag_id_t id, const char *format, ...) {
  td_loc_t loc = {z->file, 0, 0, 0, 0};
  va_list args;
  va_start(args, format);
  const char *text = td_arena_vprintf(&z->task->arena, format, args);
  va_end(args);
  td_diag(z->task, id, loc, "%s", text);
  return false;
}

/* A little-endian number at any alignment; the caller has checked that the
   bytes are there. */
static uint64_t get(const unsigned char *p, int bytes) {
  uint64_t v = 0;
  for (int i = bytes - 1; i >= 0; i--) v = v << 8 | p[i];
  return v;
}

/* The end record: the last one, behind at most 64 KiB of comment. */
/* With 64 bits, a locator stands before the end record and points at a larger
   one. */
static bool find_directory(const zip_t *z, uint64_t *offset,
                           uint64_t *count) {
  if (z->length < 22) return fail(z, TD_F50, "too short for an archive");
  size_t at = z->length - 22;
  size_t least = at > 65535 ? at - 65535 : 0;
  while (get(z->data + at, 4) != 0x06054b50) {
    if (at == least) return fail(z, TD_F50, "it has no archive directory");
    at--;
  }
  const unsigned char *p = z->data + at;
  *count = get(p + 10, 2);
  *offset = get(p + 16, 4);
  if (*offset != 0xffffffff && *count != 0xffff) return true;
  if (at < 20 || get(p - 20, 4) != 0x07064b50) return true;
  uint64_t record = get(p - 20 + 8, 8);
  if (record > z->length || z->length - record < 56 ||
      get(z->data + record, 4) != 0x06064b50) {
    return fail(z, TD_F50, "its 64-bit directory is malformed");
  }
  *count = get(z->data + record + 32, 8);
  *offset = get(z->data + record + 48, 8);
  return true;
}

/* Sizes and offset that did not fit 32 bits, in this order. */
static bool read_extra(const zip_t *z, const unsigned char *p, size_t length,
                       member_t *m) {
  while (length >= 4) {
    size_t id = get(p, 2), size = get(p + 2, 2);
    if (size > length - 4) break;
    const unsigned char *q = p + 4, *end = q + size;
    uint64_t *const wide[3] = {&m->size, &m->packed, &m->offset};
    for (int i = 0; id == 1 && i < 3; i++) {
      if (*wide[i] != 0xffffffff) continue;
      if (end - q < 8) return fail(z, TD_F50, "a 64-bit field is cut off");
      *wide[i] = get(q, 8);
      q += 8;
    }
    p += 4 + size;
    length -= 4 + size;
  }
  return true;
}

/* The directory entry at *at, which is moved behind it. */
/* Name, extra fields and comment follow the fixed 46 bytes. */
static bool read_member(const zip_t *z, uint64_t *at, member_t *m) {
  if (*at > z->length || z->length - *at < 46 ||
      get(z->data + *at, 4) != 0x02014b50) {
    return fail(z, TD_F50, "its directory is malformed");
  }
  const unsigned char *p = z->data + *at;
  size_t name = get(p + 28, 2), extra = get(p + 30, 2);
  size_t comment = get(p + 32, 2);
  if (name + extra + comment > z->length - *at - 46) {
    return fail(z, TD_F50, "its directory is malformed");
  }
  m->flags = (unsigned)get(p + 8, 2);
  m->method = (unsigned)get(p + 10, 2);
  m->crc = (uint32_t)get(p + 16, 4);
  m->packed = get(p + 20, 4);
  m->size = get(p + 24, 4);
  m->offset = get(p + 42, 4);
  m->name = td_str_n((const char *)p + 46, name);
  *at += 46 + name + extra + comment;
  if (!td_utf8_valid(m->name.data, name)) {
    return fail(z, TD_F50, "a member's name is not UTF-8");
  }
  return read_extra(z, p + 46 + name, extra, m);
}

/* The local header repeats name and extra field, with lengths of its own. */
static const unsigned char *find_data(const zip_t *z, const member_t *m) {
  if (m->offset > z->length || z->length - m->offset < 30 ||
      get(z->data + m->offset, 4) != 0x04034b50) {
    fail(z, TD_F53, "member \"%.*s\" is not where the directory says",
         TD_STR_ARG(m->name));
    return NULL;
  }
  const unsigned char *p = z->data + m->offset;
  uint64_t start = m->offset + 30 + get(p + 26, 2) + get(p + 28, 2);
  if (start > z->length || m->packed > z->length - start) {
    fail(z, TD_F53, "member \"%.*s\" is cut off", TD_STR_ARG(m->name));
    return NULL;
  }
  return z->data + start;
}

static bool damaged(const zip_t *z, const member_t *m) {
  return fail(z, TD_F53, "member \"%.*s\" is damaged", TD_STR_ARG(m->name));
}

/* Packed members are unpacked into an arena of their own, which is dropped as
   soon as the array has been copied out. */
static bool read_tensor(const zip_t *z, const member_t *m,
                        io_tensor_t *out) {
  if (m->flags & 1) {
    return fail(z, TD_F51, "member \"%.*s\" is encrypted",
                TD_STR_ARG(m->name));
  }
  if (m->method != 0 && m->method != 8) {
    return fail(z, TD_F51, "member \"%.*s\" uses compression method %u",
                TD_STR_ARG(m->name), m->method);
  }
  const unsigned char *from = find_data(z, m);
  if (!from) return false;
  const unsigned char *bytes = from;
  td_arena_t scratch;
  td_arena_init(&scratch, z->task);
  bool ok = true;
  if (m->method == 0) {
    ok = m->packed == m->size;
  } else if (m->size / BEST_RATIO > m->packed) {
    ok = false;
  } else {
    unsigned char *to = td_arena_alloc(&scratch, (size_t)m->size);
    ok = io_inflate(from, (size_t)m->packed, to, (size_t)m->size);
    bytes = to;
  }
  if (ok) ok = io_crc32(bytes, (size_t)m->size) == m->crc;
  if (!ok) damaged(z, m);
  ok = ok && io_npy_parse(z->task, z->arena, z->file, bytes,
                          (size_t)m->size, out);
  td_arena_free_all(&scratch);
  return ok;
}

/* Members in the order of the directory. */
bool io_npz_parse(td_task_t *task, td_arena_t *arena, uint32_t file,
                  const void *data, size_t length, uint64_t limit,
                  io_leaves_t *out) {
  zip_t z = {task, arena, file, data, length};
  uint64_t at = 0, count = 0, total = 0, packed = 0;
  td_map_t names;
  td_map_init(&names, &task->arena);
  if (limit == 0) limit = DEFAULT_LIMIT;
  if (!find_directory(&z, &at, &count)) return false;
  for (uint64_t i = 0; i < count; i++) {
    member_t m;
    if (!read_member(&z, &at, &m)) return false;
    if (m.name.length && m.name.data[m.name.length - 1] == '/') continue;
    if (m.size > limit - total) {
      return fail(&z, TD_F52, "its members have more than %llu bytes",
                  (unsigned long long)limit);
    }
    total += m.size;
    /* Members that share their bytes would multiply what the file holds. */
    if (m.packed > length - packed) {
      return fail(&z, TD_F50, "its members overlap");
    }
    packed += m.packed;
    io_leaf_t leaf = {0};
    if (td_str_ends(m.name, ".npy")) m.name.length -= 4;
    leaf.name = td_str_cstr(arena, m.name);
    if (td_map_has(&names, m.name)) {
      return fail(&z, TD_F50, "member \"%s\" occurs twice", leaf.name);
    }
    td_map_put(&names, m.name, NULL);
    if (!read_tensor(&z, &m, &leaf.tensor)) return false;
    td_vec_push(arena, out, leaf);
  }
  return true;
}

/* A cleanup. */
static void unmap(void *arg) { td_os_unmap_file(arg); }

bool io_npz_read(td_task_t *task, td_arena_t *arena, const char *path,
                 uint64_t limit, io_leaves_t *out) {
  td_file_map_t map;
  uint32_t file = td_sources_add_file(task, path);
  memset(&map, 0, sizeof map);
  td_defer(task, unmap, &map); /* may unwind, so before the map */
  bool ok = td_os_map_file(task, path, &map) &&
            io_npz_parse(task, arena, file, map.data, map.length, limit,
                         out);
  td_undefer(task, true);
  return ok;
}
