/* Sizes with overflow checks, exact conversion. */
#include "runtime/io/tensor.h"

/* Lists are short (the parameters of a function), so a walk does. */
const io_leaf_t *io_leaves_find(const io_leaves_t *leaves, td_str_t name) {
  for (size_t i = 0; i < leaves->length; i++) {
    if (td_str_eqc(name, leaves->data[i].name)) return &leaves->data[i];
  }
  return NULL;
}

/* An extent of 0 makes the tensor empty even beside extents whose product
   would overflow. */
bool io_tensor_size(io_tensor_t *t) {
  bool is_empty = false;
  t->count = 1;
  for (int i = 0; i < t->rank; i++) {
    if (t->dims[i] < 0) return false;
    if (t->dims[i] == 0) is_empty = true;
  }
  if (is_empty) t->count = 0; /* whatever the other dims multiply to */
  for (int i = 0; i < t->rank && !is_empty; i++) {
    if (!td_mul_size(t->count, (size_t)t->dims[i], &t->count)) return false;
  }
  return td_mul_size(t->count, td_dtype_bytes(t->dtype), &t->bytes) &&
         t->bytes <= (size_t)1 << 62;
}

/* The caller has made sure that the memory is worth taking. */
bool io_tensor_alloc(io_tensor_t *t, td_arena_t *arena) {
  if (!io_tensor_size(t)) return false;
  t->data = td_arena_alloc(arena, t->bytes);
  return true;
}

/* Whether place i of the new tensor holds the value of place i of the old. */
static bool is_exact(const io_tensor_t *a, const io_tensor_t *b, size_t i) {
  const char *x = (const char *)a->data + i * td_dtype_bytes(a->dtype);
  const char *y = (const char *)b->data + i * td_dtype_bytes(b->dtype);
  if (td_dtype_is_int(a->dtype)) {
    return td_load_i64(a->dtype, x) == td_load_i64(b->dtype, y);
  }
  double u = td_load_f64(a->dtype, x), v = td_load_f64(b->dtype, y);
  return u == v || (u != u && v != v);
}

/* Integers go through 64-bit integers and floats through binary64, which hold
   every value of their kinds; the comparison afterwards is the judge. */
bool io_tensor_convert(td_task_t *task, td_arena_t *arena, uint32_t file,
                       const io_tensor_t *from, tdsl_dtype_t dtype,
                       io_tensor_t *out) {
  *out = *from;
  if (from->dtype == dtype) return true;
  td_loc_t loc = {file, 0, 0, 0, 0};
  bool both = (td_dtype_is_float(from->dtype) && td_dtype_is_float(dtype)) ||
              (td_dtype_is_int(from->dtype) && td_dtype_is_int(dtype));
  out->dtype = dtype;
  if (!both || !io_tensor_alloc(out, arena)) {
    td_diag(task, TD_F62, loc, "elements are %s, wanted %s",
            td_dtype_name(from->dtype), td_dtype_name(dtype));
    return false;
  }
  size_t step_in = td_dtype_bytes(from->dtype);
  size_t step_out = td_dtype_bytes(dtype);
  for (size_t i = 0; i < out->count; i++) {
    const char *x = (const char *)from->data + i * step_in;
    char *y = (char *)out->data + i * step_out;
    if (td_dtype_is_int(dtype)) {
      td_store_i64(dtype, y, td_load_i64(from->dtype, x));
    } else {
      td_store_f64(dtype, y, td_load_f64(from->dtype, x));
    }
    if (is_exact(from, out, i)) continue;
    td_diag_t *d =
        td_diag(task, TD_F62, loc,
                "element %zu of the %s data is %g, which %s cannot hold", i,
                td_dtype_name(from->dtype), td_load_f64(from->dtype, x),
                td_dtype_name(dtype));
    td_diag_note(d, "a file of another width is taken only if every element "
                    "is exactly representable");
    return false;
  }
  return true;
}

/* As messages and files show a shape. */
void io_put_dims(td_buf_t *buf, const int64_t *dims, int rank) {
  td_buf_putc(buf, '[');
  for (int i = 0; i < rank; i++) {
    td_buf_printf(buf, "%s%lld", i ? ", " : "", (long long)dims[i]);
  }
  td_buf_putc(buf, ']');
}
