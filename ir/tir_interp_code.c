/* tir_interp_code.c: from the expressions of a node to a straight program.
 *
 * Compiled anew each time a node runs, which pays: by then dims, scalars and
 * loop variables are numbers, so that `w[l, o, i]` in a loop over layers is a
 * base offset and two strides.  A load goes one of three ways:
 *  1. every subscript is affine and in range over the whole iteration space:
 *     strides alone, no instruction for the subscripts, no check;
 *  2. some are not: those are computed in registers and checked lane by lane,
 *     the others still go into the strides;
 *  3. no subscript at all: one element for all lanes, loaded once. */
#include "ir/tir_interp.h"

#include "runtime/base/num.h"

/* ---- affine subscripts ------------------------------------------------------
 * An integer expression c0 + sum of c[i] * index i.  Dims and scalars have
 * their values by now, so far more is affine than in the text.  Arithmetic
 * that would wrap makes an expression not affine; it is then computed lane by
 * lane, where wrapping is defined. */
typedef struct affine {
  bool ok;
  int64_t c0;
  int64_t *c; /* NULL: all zero */
} affine_t;

static uint64_t key_of(const void *pointer) {
  return (uint64_t)(uintptr_t)pointer;
}

static affine_t affine_const(int64_t value) {
  affine_t f = {true, value, NULL};
  return f;
}

static bool is_const(const affine_t *f) { return f->ok && f->c == NULL; }

/* a + k * b */
static affine_t affine_sum(tir_code_t *code, const affine_t *a, int64_t k,
                           const affine_t *b) {
  affine_t f = {false, 0, NULL};
  int64_t t;
  if (!a->ok || !b->ok) return f;
  if (!td_mul_i64(k, b->c0, &t) || !td_add_i64(a->c0, t, &f.c0)) return f;
  if (a->c != NULL || b->c != NULL) {
    f.c = TD_NEW_ARRAY(code->arena, int64_t, code->axis_count);
    for (uint32_t i = 0; i < code->axis_count; i++) {
      int64_t x = a->c == NULL ? 0 : a->c[i], y = b->c == NULL ? 0 : b->c[i];
      if (!td_mul_i64(k, y, &t) || !td_add_i64(x, t, &f.c[i])) return f;
    }
  }
  f.ok = true;
  return f;
}

static bool dim_value(void *user, const ix_symbol_t *s, int64_t *out) {
  const tir_interp_t *in = user;
  for (uint32_t i = 0; i < in->func->dim_count; i++)
    if (in->func->dims[i] == s) {
      *out = in->dim_values[i];
      return true;
    }
  return false;
}

int64_t tir_dim_value(tir_interp_t *in, const ix_poly_t *p) {
  int64_t value = 0;
  if (!ix_eval(p, dim_value, in, &value))
    td_raise(in->task, TDSL_STATUS_LIMIT, "a dim of @%s has no value in i64",
             in->func->name);
  return value;
}

int64_t tir_extent(tir_interp_t *in, const ix_poly_t *p) {
  int64_t value = tir_dim_value(in, p);
  return value < 0 ? 0 : value;
}

/* Linear: an iteration space has a handful of indices. */
static uint32_t axis_of(const tir_code_t *code, const tir_index_t *index) {
  for (uint32_t i = 0; i < code->axis_count; i++)
    if (code->axes[i].index == index) return i;
  TD_ICE(code->interp->task, "index %s is not of its node", index->name);
}

static affine_t affine_index(tir_code_t *code, const tir_index_t *index) {
  affine_t f = {true, 0, NULL};
  f.c = TD_NEW_ARRAY(code->arena, int64_t, code->axis_count);
  f.c[axis_of(code, index)] = 1;
  return f;
}

/* A scalar that is in memory already. */
static affine_t affine_scalar(tir_code_t *code, const tir_expr_t *e) {
  affine_t f = {false, 0, NULL};
  const tir_cell_t *cell = tir_cell(code->interp, e->u.value);
  if (e->arg_count > 0 || cell == NULL || cell->memory == NULL) return f;
  return affine_const(td_load_i64(e->u.value->dtype, cell->tensor.data));
}

/* Quotients of constants only: h / 4 of an index is not affine, and is
 * computed as a lane of its own once per block. */
static affine_t affine_build(tir_code_t *code, const tir_expr_t *e,
                             const affine_t *a, const affine_t *b) {
  affine_t none = {false, 0, NULL}, zero = affine_const(0);
  switch (e->op) {
  case TIR_X_CONST: return affine_const(e->u.i64);
  case TIR_X_DIM: return affine_const(tir_dim_value(code->interp, e->u.dim));
  case TIR_X_INDEX: return affine_index(code, e->u.index);
  case TIR_X_LOAD: return affine_scalar(code, e);
  case TIR_X_NEG: return affine_sum(code, &zero, -1, a);
  case TIR_X_ADD: return affine_sum(code, a, 1, b);
  case TIR_X_SUB: return affine_sum(code, a, -1, b);
  case TIR_X_MUL:
    if (is_const(b)) return affine_sum(code, &zero, b->c0, a);
    if (is_const(a)) return affine_sum(code, &zero, a->c0, b);
    return none;
  case TIR_X_DIV: case TIR_X_MOD:
    if (!is_const(a) || !is_const(b) || b->c0 <= 0) return none;
    return affine_const(e->op == TIR_X_DIV ? td_floor_div(a->c0, b->c0)
                                           : td_floor_mod(a->c0, b->c0));
  case TIR_X_MIN: case TIR_X_MAX:
    if (!is_const(a) || !is_const(b)) return none;
    return (a->c0 < b->c0) == (e->op == TIR_X_MIN) ? *a : *b;
  case TIR_X_CAST:
    if (e->u.to != TDSL_DTYPE_I64 || e->args[0]->type != TDSL_DTYPE_I64)
      return none;
    return *a;
  default: return none;
  }
}

/* Operands first, so the forms of e's operands are known. */
static void affine_visit(void *user, tir_expr_t *e) {
  tir_code_t *code = user;
  affine_t none = {false, 0, NULL};
  const affine_t *args[2] = {&none, &none};
  if (e->type != TDSL_DTYPE_I64) return;
  if (td_map_get_u64(&code->affines, key_of(e)) != NULL) return;
  for (uint32_t i = 0; i < e->arg_count && i < 2; i++) {
    affine_t *f = td_map_get_u64(&code->affines, key_of(e->args[i]));
    if (f != NULL) args[i] = f;
  }
  affine_t *f = TD_NEW(code->arena, affine_t);
  *f = affine_build(code, e, args[0], args[1]);
  td_map_put_u64(&code->affines, key_of(e), f);
}

/* Whether 0 <= f < extent everywhere in the box of the axes. */
static bool is_inside(const tir_code_t *code, const affine_t *f,
                      int64_t extent) {
  int64_t lo = f->c0, hi = f->c0;
  for (uint32_t i = 0; f->c != NULL && i < code->axis_count; i++) {
    int64_t last = code->axes[i].extent - 1, t;
    if (f->c[i] == 0) continue;
    if (last < 0) return false; /* no tuple: never asked */
    if (!td_mul_i64(f->c[i], last, &t)) return false;
    if (!td_add_i64(t < 0 ? lo : hi, t, t < 0 ? &lo : &hi)) return false;
  }
  return lo >= 0 && hi < extent;
}

/* ---- instructions -------------------------------------------------------- */

tir_rep_t tir_rep_of(tir_mode_t mode, tdsl_dtype_t arithmetic) {
  switch (arithmetic) {
  case TDSL_DTYPE_F32: return mode == TIR_F32 ? TIR_REP_S : TIR_REP_D;
  case TDSL_DTYPE_F64: return TIR_REP_D;
  case TDSL_DTYPE_BOOL: return TIR_REP_B;
  default: return TIR_REP_I;
  }
}

static uint32_t level_of(const tir_code_t *code, uint32_t reg) {
  return code->instrs.data[reg].level;
}

static void raise_level(uint32_t *level, uint32_t other) {
  if (other > *level) *level = other;
}

/* A subscript that is affine but not provably in range, as in a padded
 * window, goes through a register and is checked in each lane instead. */
static const affine_t *as_stride(tir_code_t *code, const tir_expr_t *load,
                                 uint32_t dim) {
  const affine_t *f =
      td_map_get_u64(&code->affines, key_of(load->args[dim]));
  const tir_cell_t *cell = tir_cell(code->interp, load->u.value);
  if (f == NULL || !f->ok) return NULL;
  return is_inside(code, f, cell->tensor.dims[dim]) ? f : NULL;
}

/* Folds the affine subscripts into strides and leaves the others, in order,
 * to the registers that tir_code_add computed for them. */
static tir_access_t *make_access(tir_code_t *code, tir_instr_t *instr) {
  const tir_expr_t *e = instr->e;
  tir_access_t *access = TD_NEW(code->arena, tir_access_t);
  const tir_cell_t *cell = tir_cell(code->interp, e->u.value);
  access->cell = cell;
  access->value = e->u.value;
  access->strides = TD_NEW_ARRAY(code->arena, int64_t, code->axis_count);
  access->vectors = TD_NEW_ARRAY(code->arena, tir_vector_sub_t, e->arg_count);
  for (uint32_t d = 0; d < e->arg_count; d++) {
    const affine_t *f = as_stride(code, e, d);
    int64_t stride = cell->strides[d];
    if (f == NULL) {
      uint32_t reg = instr->args[access->vector_count];
      tir_vector_sub_t sub = {reg, d, cell->tensor.dims[d], stride};
      access->vectors[access->vector_count++] = sub;
      raise_level(&instr->level, level_of(code, reg));
      continue;
    }
    /* In range means within the tensor: the products cannot overflow. */
    access->base += f->c0 * stride;
    for (uint32_t i = 0; f->c != NULL && i < code->axis_count; i++)
      access->strides[i] += f->c[i] * stride;
  }
  for (uint32_t i = 0; i < code->axis_count; i++) {
    if (access->strides[i] == 0) continue;
    raise_level(&instr->level, code->axes[i].level);
    access->has_lanes |= code->axes[i].is_lane;
    access->has_loops |= !code->axes[i].is_lane;
  }
  access->scalar = access->base;
  td_vec_push(code->arena, &code->accesses, access);
  return access;
}

/* What can go wrong in a lane: a subscript, a wrap, a divisor. Floats
 * cannot. */
static bool is_checked_op(const tir_instr_t *instr) {
  if (instr->access != NULL) return instr->access->vector_count > 0;
  if (instr->rep != TIR_REP_I) return false;
  switch (instr->e->op) {
  case TIR_X_ADD: case TIR_X_SUB: case TIR_X_MUL: case TIR_X_NEG:
  case TIR_X_ABS: case TIR_X_DIV: case TIR_X_MOD: case TIR_X_POW: return true;
  default: return false;
  }
}

/* All needed operands are in registers. */
static uint32_t emit(tir_code_t *code, tir_expr_t *e, const uint32_t *args,
                     uint32_t count) {
  tir_mode_t mode = code->interp->mode;
  tir_instr_t instr = {.e = e, .rep = tir_rep_of(mode, e->type)};
  instr.arg_count = count;
  instr.args = TD_NEW_ARRAY(code->arena, uint32_t, count);
  for (uint32_t i = 0; i < count; i++) {
    instr.args[i] = args[i];
    raise_level(&instr.level, level_of(code, args[i]));
  }
  if (e->arg_count > 0) instr.arg_rep = tir_rep_of(mode, e->args[0]->type);
  if (e->op == TIR_X_INDEX) {
    instr.axis = axis_of(code, e->u.index);
    instr.level = code->axes[instr.axis].level;
  }
  if (e->op == TIR_X_LOAD) instr.access = make_access(code, &instr);
  uint32_t reg = (uint32_t)code->instrs.length;
  td_vec_push(code->arena, &code->instrs, instr);
  td_map_put_u64(&code->regs, key_of(e), (void *)(uintptr_t)(reg + 1));
  return reg;
}

/* Registers are numbered from 1 in the table, where NULL means none. */
static bool reg_of(const tir_code_t *code, const tir_expr_t *e,
                   uint32_t *out) {
  size_t found = (size_t)(uintptr_t)td_map_get_u64(&code->regs, key_of(e));
  *out = (uint32_t)(found - 1);
  return found != 0;
}

/* Subscripts that went into strides need no register. */
static bool is_wanted(tir_code_t *code, const tir_expr_t *e, uint32_t arg) {
  return e->op != TIR_X_LOAD || as_stride(code, e, arg) == NULL;
}

typedef struct frame {
  tir_expr_t *e;
  uint32_t next;
} frame_t;

/* Its own stack: a formula may be as deep as it is long. An expression
 * shared by several roots is computed once. */
uint32_t tir_code_add(tir_code_t *code, tir_expr_t *root) {
  TD_VEC(frame_t) stack = {0};
  TD_VEC(uint32_t) args = {0};
  uint32_t reg = 0;
  /* One look at all integer subexpressions, before any load asks. */
  tir_walk(code->arena, root, affine_visit, code);
  if (reg_of(code, root, &reg)) return reg;
  td_vec_push(code->arena, &stack, (frame_t){root, 0});
  while (stack.length > 0) {
    frame_t *top = &td_vec_last(&stack);
    tir_expr_t *e = top->e;
    if (top->next < e->arg_count) {
      uint32_t arg = top->next++;
      if (is_wanted(code, e, arg) && !reg_of(code, e->args[arg], &reg))
        td_vec_push(code->arena, &stack, (frame_t){e->args[arg], 0});
      continue;
    }
    (void)td_vec_pop(&stack);
    args.length = 0;
    for (uint32_t i = 0; i < e->arg_count; i++)
      if (is_wanted(code, e, i) && reg_of(code, e->args[i], &reg))
        td_vec_push(code->arena, &args, reg);
    reg = emit(code, e, args.data, (uint32_t)args.length);
  }
  return reg;
}

void tir_code_body(tir_code_t *code, const tir_node_t *node) {
  tir_expr_t *body = node->body;
  code->is_fused = node->is_fma && body->op == TIR_X_MUL;
  code->body_rep = tir_rep_of(code->interp->mode, body->type);
  if (code->is_fused) {
    code->factor_a = tir_code_add(code, body->args[0]);
    code->factor_b = tir_code_add(code, body->args[1]);
  } else {
    code->body = tir_code_add(code, body);
  }
}

/* ---- programs ------------------------------------------------------------ */

/* The levels are fixed here: 0 is run once, 1 once a block (or, with lanes
 * over reduction indices, once an output), 2 and up once a step. */
void tir_code_init(tir_code_t *code, tir_interp_t *in, td_arena_t *arena,
                   const tir_node_t *node, bool lane_reductions) {
  memset(code, 0, sizeof *code);
  code->interp = in;
  code->arena = arena;
  code->node = node;
  code->guard = code->body = TIR_NO_REG;
  code->factor_a = code->factor_b = TIR_NO_REG;
  td_map_init(&code->regs, arena);
  td_map_init(&code->affines, arena);
  code->level_count = 3;
  code->most = 1;
  if (node == NULL) return;
  code->axis_count = node->index_count;
  code->axes = TD_NEW_ARRAY(arena, tir_axis_t, node->index_count);
  uint32_t loops = 0;
  for (uint32_t i = 0; i < node->index_count; i++) {
    tir_axis_t *axis = &code->axes[i];
    axis->index = node->indices[i];
    axis->extent = tir_extent(in, axis->index->extent);
    axis->is_lane = axis->index->is_reduction == lane_reductions;
    if (axis->is_lane && code->most < TIR_WIDTH) code->most *= axis->extent;
    /* Loops over parallel indices are outside the blocks of lanes, loops
     * over reduction indices inside. */
    if (lane_reductions)
      axis->level = axis->is_lane ? 2 : 1;
    else
      axis->level = axis->is_lane ? 1 : 2 + loops++;
    if (!lane_reductions && !axis->is_lane) code->inner = axis;
  }
  if (loops > 1) code->level_count = 2 + loops;
}

/* Counting sort, stable, so operands still come before their uses: an
 * operand's level is never higher than that of its use. */
static void sort_by_level(tir_code_t *code) {
  uint32_t count = (uint32_t)code->instrs.length;
  code->order = TD_NEW_ARRAY(code->arena, uint32_t, count);
  code->level_first =
      TD_NEW_ARRAY(code->arena, uint32_t, code->level_count + 1);
  for (uint32_t i = 0; i < count; i++)
    code->level_first[code->instrs.data[i].level + 1]++;
  for (uint32_t i = 0; i < code->level_count; i++)
    code->level_first[i + 1] += code->level_first[i];
  uint32_t *next =
      TD_NEW_ARRAY(code->arena, uint32_t, code->level_count + 1);
  for (uint32_t i = 0; i < code->level_count; i++)
    next[i] = code->level_first[i];
  for (uint32_t i = 0; i < count; i++)
    code->order[next[code->instrs.data[i].level]++] = i;
}

/* Few lanes for long programs: all registers together stay within 4 MiB, or
 * have 8 lanes. No more than there are tuples. */
static uint32_t choose_width(size_t registers, int64_t most) {
  size_t width = ((size_t)4 << 20) / 8 / (registers + 1);
  if (width > TIR_WIDTH) width = TIR_WIDTH;
  if ((uint64_t)most < width) width = (size_t)most + 7;
  return width < 8 ? 8 : (uint32_t)(width / 8 * 8);
}

void tir_code_finish(tir_code_t *code) {
  size_t count = code->instrs.length;
  sort_by_level(code);
  code->width = choose_width(count, code->most);
  code->data = td_arena_alloc_array(code->arena, count, code->width * 8);
  for (size_t i = 0; i < code->accesses.length; i++) {
    tir_access_t *access = code->accesses.data[i];
    access->pattern = TIR_ONE;
    if (!access->has_lanes) continue;
    access->offsets = TD_NEW_ARRAY(code->arena, int64_t, code->width);
    access->has_strip =
        OPT_ONLY(access->vector_count == 0 && code->inner != NULL &&
                 code->inner->extent >= TIR_STRIP &&
                 access->strides[code->inner - code->axes] == 1);
    if (access->has_strip)
      access->strip =
          td_arena_alloc_array(code->arena, TIR_STRIP, code->width * 8);
  }
  for (uint32_t i = 0; i < code->axis_count; i++)
    if (code->axes[i].is_lane)
      code->axes[i].lanes = TD_NEW_ARRAY(code->arena, int64_t, code->width);
  if (code->interp->is_checked) {
    for (size_t i = 0; i < count; i++)
      if (is_checked_op(&code->instrs.data[i]))
        code->instrs.data[i].bad =
            TD_NEW_ARRAY(code->arena, uint8_t, code->width);
    code->need = td_arena_alloc_array(code->arena, count, code->width);
  }
  uint32_t end = code->level_first[1];
  for (uint32_t i = 0; i < end; i++)
    tir_exec(code, &code->instrs.data[code->order[i]], code->width);
}

void tir_code_run(tir_code_t *code, uint32_t level, uint32_t n) {
  uint32_t end = code->level_first[code->level_count];
  for (uint32_t i = code->level_first[level]; i < end; i++)
    tir_exec(code, &code->instrs.data[code->order[i]], n);
}

/* Offsets differ between blocks only by a shift in most programs, but
 * finding the pattern anew is cheap and needs no proof. */
static void fill_offsets(const tir_code_t *code, tir_access_t *access,
                         uint32_t n) {
  int64_t *to = access->offsets;
  memset(to, 0, n * sizeof *to);
  for (uint32_t i = 0; i < code->axis_count; i++) {
    const tir_axis_t *axis = &code->axes[i];
    int64_t stride = access->strides[i];
    if (!axis->is_lane || stride == 0) continue;
    for (uint32_t l = 0; l < n; l++) to[l] += stride * axis->lanes[l];
  }
  bool one = true, dense = true;
  for (uint32_t l = 1; l < n; l++) {
    one &= to[l] == to[0];
    dense &= to[l] == to[0] + (int64_t)l;
  }
  access->pattern = one ? TIR_ONE : dense ? TIR_DENSE : TIR_GATHER;
  access->strip_count = 0;
}

/* The first tuple by division, the others by counting up: index order is
 * that of an odometer whose last digit is the last lane axis. */
void tir_code_lanes(tir_code_t *code, int64_t first, uint32_t n) {
  int64_t rest = first;
  for (uint32_t i = code->axis_count; i-- > 0;) {
    tir_axis_t *axis = &code->axes[i];
    if (!axis->is_lane) continue;
    axis->lanes[0] = rest % axis->extent;
    rest /= axis->extent;
  }
  for (uint32_t l = 1; l < n; l++) {
    bool carry = true;
    for (uint32_t i = code->axis_count; i-- > 0;) {
      tir_axis_t *axis = &code->axes[i];
      if (!axis->is_lane) continue;
      axis->lanes[l] = axis->lanes[l - 1];
      if (!carry) continue;
      carry = ++axis->lanes[l] == axis->extent;
      if (carry) axis->lanes[l] = 0;
    }
  }
  for (size_t i = 0; i < code->accesses.length; i++)
    if (code->accesses.data[i]->has_lanes)
      fill_offsets(code, code->accesses.data[i], n);
}

void tir_code_loops(tir_code_t *code) {
  for (size_t i = 0; i < code->accesses.length; i++) {
    tir_access_t *access = code->accesses.data[i];
    if (!access->has_loops) continue;
    access->scalar = access->base;
    for (uint32_t k = 0; k < code->axis_count; k++)
      if (!code->axes[k].is_lane)
        access->scalar += access->strides[k] * code->axes[k].at;
  }
}

/* ---- scalars ------------------------------------------------------------- */

bool tir_eval_scalar(tir_interp_t *in, tir_expr_t *e, tir_scalar_t *out) {
  td_arena_t arena;
  tir_code_t code;
  td_arena_init(&arena, in->task);
  tir_code_init(&code, in, &arena, NULL, false);
  code.body = tir_code_add(&code, e);
  tir_code_finish(&code);
  bool ok = !in->is_checked || tir_code_check(&code, 1);
  const void *reg = tir_reg(&code, code.body);
  out->rep = code.instrs.data[code.body].rep;
  out->f64 = 0;
  out->i64 = 0;
  switch (out->rep) {
  case TIR_REP_S: out->f64 = (double)*(const float *)reg; break;
  case TIR_REP_D: out->f64 = *(const double *)reg; break;
  case TIR_REP_I: out->i64 = *(const int64_t *)reg; break;
  case TIR_REP_B: out->i64 = *(const uint8_t *)reg; break;
  }
  td_arena_free_all(&arena);
  return ok;
}
