/* tir_interp_map.c: runs map and reduce nodes, block of lanes by block.
 *
 * Lanes over parallel indices: for each block, loop over the reduction
 * tuples, each lane folding its own.  Lanes over reduction indices, where
 * there are few outputs: for each output, blocks of consecutive tuples are
 * folded one lane after the other.  Both are left to right.
 *
 * An iteration space without tuples never gets a program: its loads could
 * not be proved in range, and there is nothing to run.  No reduction tuple
 * means the identity, no parallel tuple an empty output. */
#include "ir/tir_interp.h"

#include "ir/dtype.h"

/* Fewer outputs than this, and more tuples to reduce: lanes reduce. */
enum { FEW_OUTPUTS = 8 };

typedef struct map_run {
  tir_interp_t *in;
  const tir_node_t *node;
  td_arena_t arena;
  tir_code_t code;
  tir_cell_t *out;
  size_t out_bytes; /* an element */
  int64_t parallel, reduced; /* numbers of tuples */
  tir_fold_t fold;
  int64_t *places; /* of the lanes, for positions */
  bool is_place;
  bool wrapped;
} map_run_t;

/* Number of tuples of the parallel or the reduction indices; 1 without any. */
static int64_t tuples(tir_interp_t *in, const tir_node_t *node,
                      bool reductions) {
  int64_t n = 1;
  for (uint32_t i = 0; i < node->index_count; i++) {
    if (node->indices[i]->is_reduction != reductions) continue;
    int64_t extent = tir_extent(in, node->indices[i]->extent);
    if (extent == 0) return 0;
    if (!td_mul_i64(n, extent, &n))
      td_raise(in->task, TDSL_STATUS_LIMIT, "iteration space of %s is too big",
               node->outs[0]->name);
  }
  return n;
}

/* Stores lanes of the accumulator or body from element `first` on. */
static bool put(map_run_t *r, int64_t first, tir_rep_t rep, const void *reg,
                uint32_t n) {
  tdsl_dtype_t dtype = r->out->tensor.dtype;
  unsigned char *to =
      (unsigned char *)r->out->tensor.data + (size_t)first * r->out_bytes;
  if (r->in->is_checked && rep == TIR_REP_I) {
    const int64_t *v = reg;
    for (uint32_t l = 0; l < n; l++)
      if (v[l] < td_dtype_min(dtype) || v[l] > td_dtype_max(dtype)) {
        (void)td_diag(r->in->task, TD_R10, r->node->loc,
                      "integer wrapped: %lld stored into %s of %s",
                      (long long)v[l], td_dtype_name(dtype),
                      r->node->outs[0]->name);
        return false;
      }
  }
  tir_store(r->in->mode, dtype, to, rep, reg, n);
  return true;
}

/* A wrap of one lane is reported for the block: which output it was is not
 * worth a flag a lane. */
static bool put_fold(map_run_t *r, int64_t first, uint32_t n) {
  if (r->wrapped) {
    (void)td_diag(r->in->task, TD_R10, r->node->loc,
                  "integer wrapped in the reduction of %s",
                  r->node->outs[0]->name);
    return false;
  }
  if (r->is_place) return put(r, first, TIR_REP_I, r->fold.places, n);
  return put(r, first, r->fold.rep, r->fold.acc, n);
}

static const uint8_t *guard_of(const tir_code_t *code) {
  return code->guard == TIR_NO_REG ? NULL : tir_reg(code, code->guard);
}

/* Runs the levels from `level` on and folds the lanes in. */
static bool step(map_run_t *r, uint32_t level, const int64_t *places,
                 uint32_t n) {
  tir_code_t *code = &r->code;
  tir_code_run(code, level, n);
  if (r->in->is_checked && !tir_code_check(code, n)) return false;
  const void *a = tir_reg(code, code->is_fused ? code->factor_a : code->body);
  const void *b = code->is_fused ? tir_reg(code, code->factor_b) : NULL;
  tir_fold_step(&r->fold, a, b, guard_of(code), places, n);
  return true;
}

/* Moves the innermost loop, and outer ones as they run out. The level to
 * rerun from, or 0 after the last tuple. */
static uint32_t advance(tir_code_t *code) {
  for (uint32_t i = code->axis_count; i-- > 0;) {
    tir_axis_t *axis = &code->axes[i];
    if (axis->is_lane) continue;
    if (++axis->at < axis->extent) {
      tir_code_loops(code);
      return axis->level;
    }
    axis->at = 0;
  }
  tir_code_loops(code);
  return 0;
}

/* All reduction tuples for one block of outputs, in index order. */
static bool reduce_block(map_run_t *r, uint32_t n) {
  uint32_t level = 1;
  uint32_t last = r->code.axis_count - 1; /* the reduction index of places */
  r->wrapped = false;
  tir_fold_start(&r->fold, n);
  do {
    for (uint32_t l = 0; r->is_place && l < n; l++)
      r->places[l] = r->code.axes[last].at;
    if (!step(r, level, r->places, n)) return false;
    level = advance(&r->code);
  } while (level != 0);
  return true;
}

/* Blocks are independent, so a reversed run takes them from the end. */
static bool by_outputs(map_run_t *r) {
  int64_t width = r->code.width;
  int64_t blocks = (r->parallel - 1) / width + 1;
  for (int64_t k = 0; k < blocks; k++) {
    int64_t first = (r->in->is_reversed ? blocks - 1 - k : k) * width;
    int64_t left = r->parallel - first;
    uint32_t n = (uint32_t)(left < width ? left : width);
    td_task_poll(r->in->task);
    tir_code_lanes(&r->code, first, n);
    if (r->node->reduce == TIR_REDUCE_NONE) {
      tir_code_run(&r->code, 1, n);
      if (r->in->is_checked && !tir_code_check(&r->code, n)) return false;
      if (!put(r, first, r->code.body_rep, tir_reg(&r->code, r->code.body), n))
        return false;
    } else if (!reduce_block(r, n) || !put_fold(r, first, n)) {
      return false;
    }
  }
  return true;
}

/* Every output by itself; the loops are over the parallel indices. */
static bool by_tuples(map_run_t *r) {
  int64_t width = r->code.width;
  uint32_t last = r->code.axis_count - 1;
  for (int64_t p = 0; p < r->parallel; p++) {
    r->wrapped = false;
    tir_fold_start(&r->fold, 1);
    for (int64_t first = 0; first < r->reduced; first += width) {
      int64_t left = r->reduced - first;
      td_task_poll(r->in->task);
      uint32_t n = (uint32_t)(left < width ? left : width);
      tir_code_lanes(&r->code, first, n);
      if (!step(r, first == 0 ? 1 : 2, r->code.axes[last].lanes, n))
        return false;
    }
    if (!put_fold(r, p, 1)) return false;
    (void)advance(&r->code);
  }
  return true;
}

/* Accumulators for the widest block; a lane of 8 bytes holds every type. */
static void start_fold(map_run_t *r, tir_rep_t rep) {
  tir_reduce_t reduce = r->node->reduce;
  r->is_place = reduce == TIR_REDUCE_ARGMAX || reduce == TIR_REDUCE_ARGMIN;
  r->fold.reduce = reduce;
  r->fold.rep = rep;
  r->fold.acc = TD_NEW_ARRAY(&r->arena, int64_t, TIR_WIDTH);
  r->fold.places = TD_NEW_ARRAY(&r->arena, int64_t, TIR_WIDTH);
  r->fold.seen = TD_NEW_ARRAY(&r->arena, uint8_t, TIR_WIDTH);
  r->places = TD_NEW_ARRAY(&r->arena, int64_t, TIR_WIDTH);
  if (r->in->is_checked && rep == TIR_REP_I &&
      (reduce == TIR_REDUCE_SUM || reduce == TIR_REDUCE_PROD))
    r->fold.wrapped = &r->wrapped;
}

/* No tuple to reduce: the identity everywhere. */
static bool all_identity(map_run_t *r) {
  tir_fold_start(&r->fold, TIR_WIDTH);
  for (int64_t first = 0; first < r->parallel; first += TIR_WIDTH) {
    int64_t left = r->parallel - first;
    if (!put_fold(r, first, (uint32_t)(left < TIR_WIDTH ? left : TIR_WIDTH)))
      return false;
  }
  return true;
}

/* Guard first, so that it is in the lowest registers of its level. */
static void compile(map_run_t *r, bool lane_reductions) {
  const tir_node_t *node = r->node;
  tir_code_t *code = &r->code;
  tir_code_init(code, r->in, &r->arena, node, lane_reductions);
  if (node->guard != NULL) code->guard = tir_code_add(code, node->guard);
  tir_code_body(code, node);
  tir_code_finish(code);
  r->fold.is_serial = lane_reductions;
}

/* Chooses the direction of the lanes. Either gives the same bits. */
static bool run(map_run_t *r) {
  const tir_node_t *node = r->node;
  r->parallel = tuples(r->in, node, false);
  r->reduced = tuples(r->in, node, true);
  if (r->parallel == 0) return true;
  bool reduces = node->reduce != TIR_REDUCE_NONE;
  if (reduces)
    start_fold(r, tir_rep_of(r->in->mode, node->body->type));
  if (r->reduced == 0) return all_identity(r);
  bool lane_reductions =
      reduces && r->parallel < FEW_OUTPUTS && r->reduced > r->parallel;
  compile(r, lane_reductions);
  return lane_reductions ? by_tuples(r) : by_outputs(r);
}

bool tir_run_map(tir_interp_t *in, const tir_node_t *node) {
  map_run_t r = {.in = in, .node = node};
  td_arena_init(&r.arena, in->task);
  tir_cell_allocate(in, node->outs[0]);
  r.out = tir_cell(in, node->outs[0]);
  r.out_bytes = tir_element_bytes(in->mode, node->outs[0]->dtype);
  bool ok = run(&r);
  td_arena_free_all(&r.arena);
  return ok;
}
