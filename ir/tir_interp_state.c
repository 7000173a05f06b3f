/* tir_interp_state.c: runs update and topk nodes. */
#include "ir/tir_interp.h"

#include "ir/dtype.h"
#include "ir/expr.h"

/* ---- update -----------------------------------------------------------------
 * Reads of the statement come before its writes: if the formula reads the
 * target, the new version is a copy and reads go to the old one.  Otherwise
 * nothing tells a copy from the target itself, and if the old version dies
 * here there is no copy.
 *
 * `:=` writes tuples in index order.  `+=` first sums what is added to each
 * element, by the rules of a reduction, and adds the sums at the end: one
 * addition and one rounding an element, however many contributions it has. */

typedef struct update_run {
  tir_interp_t *in;
  const tir_node_t *node;
  td_arena_t arena;
  tir_code_t code;
  const tir_cell_t *out;
  size_t bytes; /* an element of the target */
  /* +=: the sum of the contributions to each element, 8 bytes each, and
   * which elements are hit.  := in checked runs: which are written. */
  unsigned char *sums;
  uint8_t *hit;
  unsigned char *staged; /* lanes of a block as stored elements */
} update_run_t;

/* Also as a subscript or in the guard: any read must see the old version. */
static bool reads_target(const tir_node_t *node, td_arena_t *scratch) {
  tir_node_t *n = (tir_node_t *)(uintptr_t)node; /* read only */
  for (uint32_t i = 0; i < tir_node_expr_count(node); i++)
    if (tir_mentions_value(scratch, *tir_node_expr(n, i), node->operands[0]))
      return true;
  return false;
}

/* The target's own storage if nobody can tell: it dies here, nothing else
 * shares it, and it is ours or an inout buffer. */
static void make_output(update_run_t *r) {
  const tir_node_t *node = r->node;
  tir_cell_t *from = tir_cell(r->in, node->operands[0]);
  tir_cell_t *out = tir_cell(r->in, node->outs[0]);
  bool may_reuse = from->last_user == node && from->memory->references == 1 &&
                   (!from->memory->is_borrowed || from->memory->is_writable);
  r->bytes = tir_element_bytes(r->in->mode, from->tensor.dtype);
  if (may_reuse && !reads_target(node, &r->arena)) {
    tir_cell_share(r->in, out, from);
  } else {
    tir_cell_allocate(r->in, node->outs[0]);
    if (from->count > 0)
      memcpy(out->tensor.data, from->tensor.data,
             (size_t)from->count * r->bytes);
  }
  r->out = out;
}

static int64_t lane_sub(const update_run_t *r, uint32_t dim, uint32_t lane) {
  return ((const int64_t *)tir_reg(&r->code, r->code.subs[dim]))[lane];
}

/* Offset of the element that a lane writes; -1 after R10. */
static int64_t offset_of(const update_run_t *r, uint32_t lane) {
  const tir_tensor_t *t = &r->out->tensor;
  int64_t at = 0;
  for (uint32_t d = 0; d < t->rank; d++) {
    int64_t s = lane_sub(r, d, lane);
    if (s < 0 || s >= t->dims[d]) {
      (void)td_diag(r->in->task, TD_R10, r->node->loc,
                    "subscript %u of %s is %lld where the dim has %lld", d + 1,
                    r->node->operands[0]->name, (long long)s,
                    (long long)t->dims[d]);
      return -1;
    }
    at += s * r->out->strides[d];
  }
  return at;
}

/* With the subscripts of the element, which is what the user can look up. */
static bool report_twice(const update_run_t *r, uint32_t lane) {
  td_buf_t b;
  td_buf_init(&b, r->in->task);
  for (uint32_t d = 0; d < r->out->tensor.rank; d++)
    td_buf_printf(&b, "%s%lld", d > 0 ? ", " : "",
                  (long long)lane_sub(r, d, lane));
  (void)td_diag(r->in->task, TD_R05, r->node->loc,
                "two tuples write the same element %s[%s]",
                r->node->operands[0]->name, b.data);
  td_buf_free(&b);
  return false;
}

/* A store that loses bits is a wrap; only checked runs look. */
static bool fits(const update_run_t *r, int64_t value) {
  tdsl_dtype_t dtype = r->out->tensor.dtype;
  if (!r->in->is_checked || (value >= td_dtype_min(dtype) &&
                             value <= td_dtype_max(dtype)))
    return true;
  (void)td_diag(r->in->task, TD_R10, r->node->loc,
                "integer wrapped: %lld stored into %s of %s",
                (long long)value, td_dtype_name(dtype),
                r->node->operands[0]->name);
  return false;
}

/* Without checks the last tuple in index order wins; the language leaves
 * open which one does. */
static bool assign_lane(update_run_t *r, uint32_t lane, int64_t at) {
  const tir_code_t *code = &r->code;
  if (r->hit != NULL) {
    if (r->hit[at]) return report_twice(r, lane);
    r->hit[at] = 1;
  }
  if (code->body_rep == TIR_REP_I &&
      !fits(r, ((const int64_t *)tir_reg(code, code->body))[lane]))
    return false;
  memcpy((unsigned char *)r->out->tensor.data + (size_t)at * r->bytes,
         r->staged + lane * r->bytes, r->bytes);
  return true;
}

/* An accumulator of its own for each element that is hit. */
static void contribute(update_run_t *r, uint32_t lane, int64_t at) {
  const tir_code_t *code = &r->code;
  size_t lane_bytes = code->body_rep == TIR_REP_S ? 4 : 8;
  const unsigned char *a =
      tir_reg(code, code->is_fused ? code->factor_a : code->body);
  const unsigned char *b =
      code->is_fused ? tir_reg(code, code->factor_b) : NULL;
  bool wrapped = false;
  tir_fold_t fold = {.reduce = TIR_REDUCE_SUM,
                     .rep = code->body_rep,
                     .is_serial = true,
                     .acc = r->sums + (size_t)at * 8};
  if (r->in->is_checked && fold.rep == TIR_REP_I) fold.wrapped = &wrapped;
  if (!r->hit[at]) tir_fold_start(&fold, 1);
  r->hit[at] = 1;
  tir_fold_step(&fold, a + lane * lane_bytes,
                b == NULL ? NULL : b + lane * lane_bytes, NULL, NULL, 1);
  if (wrapped)
    (void)td_diag(r->in->task, TD_R10, r->node->loc,
                  "integer wrapped in the sum into %s",
                  r->node->operands[0]->name);
}

/* Subscripts are always checked here, in every mode: a stray write would not
 * stay inside the interpreter. */
static bool write_block(update_run_t *r, uint32_t n) {
  const tir_code_t *code = &r->code;
  const uint8_t *guard =
      code->guard == TIR_NO_REG ? NULL : tir_reg(code, code->guard);
  if (!r->node->is_accumulate)
    tir_store(r->in->mode, r->out->tensor.dtype, r->staged, code->body_rep,
              tir_reg(code, code->body), n);
  for (uint32_t l = 0; l < n; l++) {
    if (guard != NULL && !guard[l]) continue;
    int64_t at = offset_of(r, l);
    if (at < 0) return false;
    if (r->node->is_accumulate)
      contribute(r, l, at);
    else if (!assign_lane(r, l, at))
      return false;
  }
  return true;
}

/* Adds the sums to what was there, one addition and one rounding each. */
static bool add_sums(update_run_t *r) {
  tdsl_dtype_t dtype = r->out->tensor.dtype;
  tir_rep_t own = tir_rep_of(r->in->mode, tir_arithmetic(dtype));
  tir_rep_t rep = r->code.body_rep;
  unsigned char *data = r->out->tensor.data;
  for (int64_t at = 0; at < r->out->count; at++) {
    if (!r->hit[at]) continue;
    unsigned char *element = data + (size_t)at * r->bytes;
    tir_lane_t old = {.i = 0}, sum;
    memcpy(&sum, r->sums + (size_t)at * 8, sizeof sum);
    tir_fetch(r->in->mode, dtype, element, &old);
    if (rep == TIR_REP_I) {
      int64_t exact;
      if (r->in->is_checked &&
          __builtin_add_overflow(old.i, sum.i, &exact)) {
        (void)td_diag(r->in->task, TD_R10, r->node->loc,
                      "integer wrapped: %lld added to %lld of %s",
                      (long long)sum.i, (long long)old.i,
                      r->node->operands[0]->name);
        return false;
      }
      old.i = td_wrap_add(old.i, sum.i);
      if (!fits(r, old.i)) return false;
    } else if (rep == TIR_REP_S && own == TIR_REP_S) {
      old.s = old.s + sum.s;
    } else {
      /* One of the two is binary64, so the sum is. */
      double x = own == TIR_REP_S ? (double)old.s : old.d;
      old.d = x + (rep == TIR_REP_S ? (double)sum.s : sum.d);
    }
    tir_store(r->in->mode, dtype, element,
              rep == TIR_REP_S && own == TIR_REP_D ? TIR_REP_D : rep, &old,
              1);
  }
  return true;
}

/* Sums must take contributions in index order, so only updates whose
 * elements are distinct may run backwards. */
static bool run_blocks(update_run_t *r, int64_t tuples) {
  const tir_node_t *node = r->node;
  tir_code_t *code = &r->code;
  tir_code_init(code, r->in, &r->arena, node, false);
  if (node->guard != NULL) code->guard = tir_code_add(code, node->guard);
  code->sub_count = node->sub_count;
  code->subs = TD_NEW_ARRAY(&r->arena, uint32_t, node->sub_count);
  for (uint32_t i = 0; i < node->sub_count; i++)
    code->subs[i] = tir_code_add(code, node->subs[i]);
  tir_code_body(code, node);
  tir_code_finish(code);
  r->staged = td_arena_alloc_array(&r->arena, code->width, r->bytes);
  int64_t width = code->width;
  int64_t blocks = (tuples - 1) / width + 1;
  bool reversed = r->in->is_reversed && node->is_distinct;
  for (int64_t k = 0; k < blocks; k++) {
    int64_t first = (reversed ? blocks - 1 - k : k) * width;
    int64_t left = tuples - first;
    uint32_t n = (uint32_t)(left < width ? left : width);
    td_task_poll(r->in->task);
    tir_code_lanes(code, first, n);
    tir_code_run(code, 1, n);
    if (r->in->is_checked && !tir_code_check(code, n)) return false;
    uint32_t errors = td_task_errors(r->in->task);
    if (!write_block(r, n) || td_task_errors(r->in->task) != errors)
      return false;
  }
  return !node->is_accumulate || add_sums(r);
}

bool tir_run_update(tir_interp_t *in, const tir_node_t *node) {
  update_run_t r = {.in = in, .node = node};
  int64_t tuples = 1;
  td_arena_init(&r.arena, in->task);
  make_output(&r);
  for (uint32_t i = 0; i < node->index_count; i++) {
    int64_t extent = tir_extent(in, node->indices[i]->extent);
    if (extent == 0) tuples = 0;
    if (!td_mul_i64(tuples, extent, &tuples))
      td_raise(in->task, TDSL_STATUS_LIMIT, "update of %s is too big",
               node->outs[0]->name);
  }
  bool ok = true;
  if (tuples > 0) {
    size_t count = (size_t)r.out->count;
    if (node->is_accumulate || in->is_checked)
      r.hit = TD_NEW_ARRAY(&r.arena, uint8_t, count);
    if (node->is_accumulate)
      r.sums = td_arena_alloc_array(&r.arena, count, 8);
    ok = run_blocks(&r, tuples);
  }
  td_arena_free_all(&r.arena);
  return ok;
}

/* ---- topk ---------------------------------------------------------------- */

typedef struct topk_row {
  const double *values; /* of a float vector, else NULL */
  const int64_t *integers;
} topk_row_t;

/* Whether position a comes before position b: NaN first, then by falling
 * value, then by rising position (-0 and +0 are one value). */
static bool comes_first(const topk_row_t *row, int64_t a, int64_t b) {
  if (row->integers != NULL) {
    int64_t x = row->integers[a], y = row->integers[b];
    return x != y ? x > y : a < b;
  }
  double x = row->values[a], y = row->values[b];
  bool nan_x = x != x, nan_y = y != y;
  if (nan_x != nan_y) return nan_x;
  if (!nan_x && x != y) return x > y;
  return a < b;
}

/* Bottom-up merge sort of 0 .. n-1 in `order`; the order is total, so any
 * method gives the same. Returns whichever of the two arrays it ended in. */
static int64_t *sort_row(const topk_row_t *row, int64_t n, int64_t *order,
                         int64_t *other) {
  for (int64_t i = 0; i < n; i++) order[i] = i;
  for (int64_t run = 1; run < n; run *= 2) {
    for (int64_t lo = 0; lo < n; lo += 2 * run) {
      int64_t mid = lo + run < n ? lo + run : n;
      int64_t hi = mid + run < n ? mid + run : n;
      int64_t a = lo, b = mid;
      for (int64_t to = lo; to < hi; to++)
        other[to] = b >= hi || (a < mid && !comes_first(row, order[b],
                                                        order[a]))
                        ? order[a++]
                        : order[b++];
    }
    int64_t *t = order;
    order = other;
    other = t;
  }
  return order;
}

/* One row of the operand, exactly: every float type fits a double. */
static void read_row(tir_interp_t *in, const tir_tensor_t *t, int64_t first,
                     int64_t n, double *values, int64_t *integers) {
  size_t bytes = tir_element_bytes(in->mode, t->dtype);
  tdsl_dtype_t held = bytes == 8 && t->dtype == TDSL_DTYPE_F32
                          ? TDSL_DTYPE_F64
                          : t->dtype;
  const unsigned char *at =
      (const unsigned char *)t->data + (size_t)first * bytes;
  for (int64_t i = 0; i < n; i++, at += bytes) {
    if (values != NULL)
      values[i] = td_load_f64(held, at);
    else
      integers[i] = td_load_i64(held, at);
  }
}

/* The first k in order. The values are the operand's own, so storing them
 * back in its type is exact. */
static void put_row(tir_interp_t *in, const tir_node_t *node, int64_t row,
                    const topk_row_t *from, const int64_t *order) {
  tir_cell_t *values = tir_cell(in, node->outs[0]);
  tir_cell_t *places = tir_cell(in, node->outs[1]);
  size_t bytes = tir_element_bytes(in->mode, values->tensor.dtype);
  unsigned char *to = (unsigned char *)values->tensor.data +
                      (size_t)(row * node->k) * bytes;
  int64_t *place = (int64_t *)places->tensor.data + row * node->k;
  for (int64_t i = 0; i < node->k; i++, to += bytes) {
    place[i] = order[i];
    if (from->values != NULL)
      tir_store(in->mode, values->tensor.dtype, to, TIR_REP_D,
                &from->values[order[i]], 1);
    else
      tir_store(in->mode, values->tensor.dtype, to, TIR_REP_I,
                &from->integers[order[i]], 1);
  }
}

bool tir_run_topk(tir_interp_t *in, const tir_node_t *node) {
  const tir_cell_t *from = tir_cell(in, node->operands[0]);
  int64_t n = from->tensor.dims[from->tensor.rank - 1];
  bool is_float = tir_dtype_class(from->tensor.dtype) == TIR_CLASS_FLOAT;
  if (node->k > n) {
    (void)td_diag(in->task, TD_R10, node->loc,
                  "topk takes %lld of %lld elements", (long long)node->k,
                  (long long)n);
    return false;
  }
  tir_cell_allocate(in, node->outs[0]);
  tir_cell_allocate(in, node->outs[1]);
  if (node->k == 0 || from->count == 0) return true;
  td_arena_t arena;
  td_arena_init(&arena, in->task);
  double *values = is_float ? TD_NEW_ARRAY(&arena, double, n) : NULL;
  int64_t *integers = is_float ? NULL : TD_NEW_ARRAY(&arena, int64_t, n);
  int64_t *order = TD_NEW_ARRAY(&arena, int64_t, n);
  int64_t *other = TD_NEW_ARRAY(&arena, int64_t, n);
  topk_row_t row = {values, integers};
  for (int64_t i = 0; i < from->count / n; i++) {
    td_task_poll(in->task);
    read_row(in, &from->tensor, i * n, n, values, integers);
    put_row(in, node, i, &row, sort_row(&row, n, order, other));
  }
  td_arena_free_all(&arena);
  return true;
}
