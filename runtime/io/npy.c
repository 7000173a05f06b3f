/* The header is a Python dict literal with exactly three keys:
     {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
   Nothing else of Python is read. */
#include "runtime/io/npy.h"

#include "runtime/base/os.h"

typedef struct npy_t {
  td_task_t *task;
  uint32_t file;
  const char *at, *end; /* of the literal */
  td_str_t descr;
  bool fortran, has_descr, has_order, has_shape;
  io_tensor_t *out;
} npy_t;

static bool fail(const npy_t *n, td_diag_id_t id, const char *format, ...)
    TD_PRINTF(3, 4);

/* The header is one line, so the file is place enough. */
static bool fail(const npy_t *n, td_diag_id_t id, const char *format, ...) {
  td_loc_t loc = {n->file, 0, 0, 0, 0};
  va_list args;
  va_start(args, format);
  const char *text = td_arena_vprintf(&n->task->arena, format, args);
  va_end(args);
  td_diag(n->task, id, loc, "%s", text);
  return false;
}

/* -- the literal -- */

/* The next character that is no blank; NUL at the end. */
static char look(npy_t *n) {
  while (n->at < n->end && (*n->at == ' ' || *n->at == '\n' ||
                            *n->at == '\t' || *n->at == '\r')) {
    n->at++;
  }
  return n->at < n->end ? *n->at : '\0';
}

/* Consumes the character if it comes next. */
static bool eat(npy_t *n, char c) {
  if (look(n) != c) return false;
  n->at++;
  return true;
}

/* True and False are the only words of the grammar. */
static bool eat_word(npy_t *n, const char *word) {
  size_t length = strlen(word);
  look(n);
  if ((size_t)(n->end - n->at) < length ||
      memcmp(n->at, word, length) != 0) {
    return false;
  }
  n->at += length;
  return true;
}

/* '...' or "..." of printable ASCII without backslashes. */
static bool eat_text(npy_t *n, td_str_t *out) {
  char quote = look(n);
  if (quote != '\'' && quote != '"') return false;
  const char *start = ++n->at;
  while (n->at < n->end && *n->at != quote) {
    if (*n->at < ' ' || *n->at > '~' || *n->at == '\\') return false;
    n->at++;
  }
  if (n->at == n->end) return false;
  *out = td_str_n(start, (size_t)(n->at++ - start));
  return true;
}

/* F43 with what is wrong. */
static bool malformed(npy_t *n, const char *what) {
  return fail(n, TD_F43, "npy header: %s", what);
}

/* (), (3,), (2, 3) and (2, 3,). (3) is a number in Python and refused. */
static bool read_shape(npy_t *n) {
  if (!eat(n, '(')) return malformed(n, "shape is not a tuple");
  io_tensor_t *t = n->out;
  t->rank = 0;
  bool comma = true;
  while (!eat(n, ')')) {
    if (!comma) return malformed(n, "',' is missing in the shape");
    int64_t dim = 0;
    const char *start = n->at;
    while (n->at < n->end && *n->at >= '0' && *n->at <= '9') {
      if (!td_mul_i64(dim, 10, &dim) ||
          !td_add_i64(dim, *n->at - '0', &dim)) {
        return fail(n, TD_F46, "a dim of the shape overflows");
      }
      n->at++;
    }
    if (n->at == start) return malformed(n, "a dim is not a number");
    if (t->rank == IO_MAX_RANK) {
      return fail(n, TD_F46, "shape has more than %d dims", IO_MAX_RANK);
    }
    t->dims[t->rank++] = dim;
    comma = eat(n, ',');
  }
  if (t->rank == 1 && !comma) return malformed(n, "shape is not a tuple");
  n->has_shape = true;
  return true;
}

/* A list describes a structure, which has no tensor for it. */
static bool read_descr(npy_t *n) {
  if (look(n) == '[') {
    return fail(n, TD_F44, "structured element types are not supported");
  }
  if (!eat_text(n, &n->descr)) return malformed(n, "descr is not a text");
  n->has_descr = true;
  return true;
}

/* Python also takes 0 and 1 as bools; numpy never writes them. */
static bool read_order(npy_t *n) {
  n->has_order = true;
  n->fortran = eat_word(n, "True");
  if (n->fortran || eat_word(n, "False")) return true;
  return malformed(n, "fortran_order is neither True nor False");
}

/* The keys in any order, each exactly once. */
static bool read_literal(npy_t *n) {
  if (!eat(n, '{')) return malformed(n, "it is not a dict");
  while (!eat(n, '}')) {
    td_str_t key;
    if (!eat_text(n, &key)) return malformed(n, "a key is not a text");
    if (!eat(n, ':')) return malformed(n, "':' must follow a key");
    bool *seen = td_str_eqc(key, "descr")           ? &n->has_descr
                 : td_str_eqc(key, "fortran_order") ? &n->has_order
                 : td_str_eqc(key, "shape")         ? &n->has_shape
                                                    : NULL;
    if (!seen) return malformed(n, "unknown key");
    if (*seen) return malformed(n, "a key occurs twice");
    bool ok = seen == &n->has_descr   ? read_descr(n)
              : seen == &n->has_order ? read_order(n)
                                      : read_shape(n);
    if (!ok) return false;
    if (!eat(n, ',') && look(n) != '}') {
      return malformed(n, "',' or '}' is missing");
    }
  }
  if (look(n)) return malformed(n, "something follows the dict");
  if (n->has_descr && n->has_order && n->has_shape) return true;
  return malformed(n, "descr, fortran_order or shape is missing");
}

/* -- element types -- */

/* What follows the byte order mark of a descr. */
static const struct {
  const char *code;
  tdsl_dtype_t dtype;
} types[] = {
    {"f8", TDSL_DTYPE_F64}, {"f4", TDSL_DTYPE_F32}, {"f2", TDSL_DTYPE_F16},
    {"i8", TDSL_DTYPE_I64}, {"i4", TDSL_DTYPE_I32}, {"i1", TDSL_DTYPE_I8},
    {"u1", TDSL_DTYPE_U8},  {"b1", TDSL_DTYPE_BOOL}, {"u2", TDSL_DTYPE_BF16},
};

/* The order mark is required, as numpy writes it; '|' means that order does
   not matter. Objects are told apart from other unknown types because the
   cure differs. */
static bool find_type(npy_t *n) {
  td_str_t d = n->descr;
  char order = d.length ? d.data[0] : '\0';
  if (order == '>' && d.length >= 2 && d.data[d.length - 1] != '1') {
    return fail(n, TD_F48, "elements of type '%.*s' are big-endian",
                TD_STR_ARG(d));
  }
  bool has_order = order == '<' || order == '>' || order == '=' ||
                   order == '|';
  td_str_t code = has_order ? td_str_n(d.data + 1, d.length - 1) : d;
  if (td_str_starts(code, "O")) {
    td_loc_t loc = {n->file, 0, 0, 0, 0};
    td_diag_t *diag = td_diag(n->task, TD_F45, loc,
                              "the elements are pickled Python objects");
    td_diag_help(diag, "save numbers: numpy.save(path, array.astype("
                       "\"float32\"), allow_pickle=False)");
    return false;
  }
  for (size_t i = 0; has_order && i < sizeof types / sizeof *types; i++) {
    if (td_str_eqc(code, types[i].code)) {
      n->out->dtype = types[i].dtype;
      return true;
    }
  }
  td_loc_t loc = {n->file, 0, 0, 0, 0};
  td_diag_t *diag =
      td_diag(n->task, TD_F44, loc, "element type '%.*s' is not supported",
              TD_STR_ARG(d));
  td_diag_note(diag, "supported: f8 f4 f2 i8 i4 i1 u1 b1, and u2 for the bit "
                     "patterns of bf16");
  return false;
}

/* -- the data -- */

/* Column-major source: walk the row-major places and keep the source offset
   by its strides. */
static void copy_fortran(const io_tensor_t *t, const char *from) {
  size_t size = td_dtype_bytes(t->dtype);
  size_t stride[IO_MAX_RANK];
  int64_t index[IO_MAX_RANK] = {0};
  size_t step = size;
  for (int d = 0; d < t->rank; d++) {
    stride[d] = step;
    step *= (size_t)t->dims[d];
  }
  size_t at = 0;
  for (size_t i = 0; i < t->count; i++) {
    memcpy((char *)t->data + i * size, from + at, size);
    for (int d = t->rank - 1; d >= 0; d--) {
      at += stride[d];
      if (++index[d] < t->dims[d]) break;
      at -= stride[d] * (size_t)t->dims[d];
      index[d] = 0;
    }
  }
}

/* A bool that is neither 0 nor 1 would read differently on each engine. */
static bool check_bools(const npy_t *n) {
  const unsigned char *p = n->out->data;
  for (size_t i = 0; i < n->out->count; i++) {
    if (p[i] > 1) {
      return fail(n, TD_F62, "element %zu is %u, which is no bool", i, p[i]);
    }
  }
  return true;
}

/* The data must be there, to the byte, before any of it is allocated for. */
bool io_npy_parse(td_task_t *task, td_arena_t *arena, uint32_t file,
                  const void *data, size_t length, io_tensor_t *out) {
  const unsigned char *p = data;
  npy_t n = {.task = task, .file = file, .out = out};
  memset(out, 0, sizeof *out);
  if (length < 10 || memcmp(p, "\x93NUMPY", 6) != 0) {
    return fail(&n, TD_F40, "it does not begin with \\x93NUMPY");
  }
  if (p[6] < 1 || p[6] > 3 || p[7] != 0) {
    return fail(&n, TD_F41, "npy version %u.%u; known are 1.0, 2.0, 3.0",
                p[6], p[7]);
  }
  size_t start = p[6] == 1 ? 10 : 12;
  size_t header = p[8] | (size_t)p[9] << 8;
  if (p[6] > 1) {
    if (length < 12) return fail(&n, TD_F42, "the file ends in its header");
    header |= (size_t)p[10] << 16 | (size_t)p[11] << 24;
  }
  if (header > length - start) {
    return fail(&n, TD_F42, "header of %zu bytes in a file of %zu", header,
                length);
  }
  n.at = (const char *)p + start;
  n.end = n.at + header;
  if (!read_literal(&n) || !find_type(&n)) return false;
  size_t have = length - start - header;
  if (!io_tensor_size(out)) {
    return fail(&n, TD_F46, "the size of the shape overflows");
  }
  if (out->bytes != have) {
    return fail(&n, TD_F47, "the shape needs %zu bytes of data, the file "
                            "has %zu",
                out->bytes, have);
  }
  const char *from = (const char *)p + start + header;
  out->data = td_arena_alloc(arena, out->bytes);
  if (n.fortran && out->rank > 1) copy_fortran(out, from);
  else if (out->bytes) memcpy(out->data, from, out->bytes);
  return out->dtype != TDSL_DTYPE_BOOL || check_bools(&n);
}


/* A cleanup. */
static void unmap(void *arg) { td_os_unmap_file(arg); }

/* Mapped and copied: the tensor outlives the file. */
bool io_npy_read(td_task_t *task, td_arena_t *arena, const char *path,
                 io_tensor_t *out) {
  td_file_map_t map;
  uint32_t file = td_sources_add_file(task, path);
  memset(&map, 0, sizeof map);
  td_defer(task, unmap, &map); /* may unwind, so before the map */
  bool ok = td_os_map_file(task, path, &map) &&
            io_npy_parse(task, arena, file, map.data, map.length, out);
  td_undefer(task, true);
  return ok;
}

/* -- writing -- */

/* Version 1.0 holds any header of 12 dims; blanks pad it so that the data
   begins at a multiple of 64. */
void io_npy_put(td_buf_t *buf, const io_tensor_t *t) {
  const char *code = NULL;
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    if (types[i].dtype == t->dtype) code = types[i].code;
  }
  bool widen = !code; /* 8-bit floats */
  if (widen) code = "f4";
  size_t start = buf->length;
  td_buf_put(buf, "\x93NUMPY\x01\x00\x00\x00", 10);
  td_buf_printf(buf, "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
                code[1] == '1' ? '|' : '<', code);
  for (int d = 0; d < t->rank; d++) {
    td_buf_printf(buf, "%s%lld", d ? ", " : "", (long long)t->dims[d]);
  }
  td_buf_puts(buf, t->rank == 1 ? ",)}" : ")}");
  while ((buf->length - start) % 64 != 63) td_buf_putc(buf, ' ');
  td_buf_putc(buf, '\n');
  size_t header = buf->length - start - 10;
  buf->data[start + 8] = (char)(header & 0xff);
  buf->data[start + 9] = (char)(header >> 8);
  if (!widen) {
    td_buf_put(buf, t->data, t->bytes);
    return;
  }
  for (size_t i = 0; i < t->count; i++) {
    float v = (float)td_load_f64(t->dtype, (const char *)t->data + i);
    td_buf_put(buf, (const char *)&v, sizeof v);
  }
}

bool io_npy_write(td_task_t *task, const char *path,
                  const io_tensor_t *tensor) {
  td_buf_t buf;
  td_buf_init(&buf, task);
  io_npy_put(&buf, tensor);
  bool ok = td_os_write_atomic(task, path, buf.data, buf.length);
  td_buf_free(&buf);
  return ok;
}
