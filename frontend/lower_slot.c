/* lower_slot.c: the slots of an entry point (language, section 15), the
 * facts checked at its entry, and the dims it is called with. */
#include "frontend/lower_impl.h"

/* ---- names of leaves in a checkpoint ------------------------------------ */

typedef struct leaf_file {
  const char *pattern; /* NULL: a tensor that is no field */
  bool is_named;       /* some `from` is written on the way */
  uint32_t stack_count;
  int32_t other; /* leaf of the sibling named by `else`, or -1 */
} leaf_file_t;

typedef TD_VEC(leaf_file_t) leaf_files_t;

/* "" contributes nothing (language, 11.1). */
static const char *joined(lo_t *lo, const char *a, const char *b) {
  if (a == NULL || *a == '\0') return b;
  return *b == '\0' ? a : td_arena_printf(lo->arena, "%s.%s", a, b);
}

/* Same order as lo_leaves, which has checked the depth. */
static void name_files(lo_t *lo, const sem_type_t *type, leaf_file_t at,
                       leaf_files_t *out) {
  if (type->kind == SEM_TENSOR) {
    td_vec_push(lo->arena, out, at);
    return;
  }
  const sem_struct_t *record = type->record;
  at.stack_count += type->rank;
  size_t first = out->length;
  for (uint32_t i = 0; i < record->field_count; i++) {
    const sem_field_t *f = &record->fields[i];
    leaf_file_t below = at;
    below.pattern =
        joined(lo, at.pattern, f->from != NULL ? f->from : f->name);
    below.is_named = at.is_named || f->from != NULL;
    name_files(lo, &f->type, below, out);
  }
  /* Leaf by leaf: the types of a field and of its `else` are equal. */
  size_t here = first;
  for (uint32_t i = 0; i < record->field_count; i++) {
    const sem_field_t *f = &record->fields[i];
    uint32_t count = lo_leaf_count(&f->type);
    if (f->else_field >= 0) {
      size_t there = first;
      for (int32_t k = 0; k < f->else_field; k++)
        there += lo_leaf_count(&record->fields[k].type);
      for (uint32_t k = 0; k < count; k++)
        out->data[here + k].other = (int32_t)(there + k);
    }
    here += count;
  }
}

/* ---- parameters --------------------------------------------------------- */

static const ix_poly_t *range_end(lo_t *lo, const ix_poly_t *end) {
  if (end == NULL || ix_mentions_kind(end, IX_SYM_DATA)) return NULL;
  return lo_poly(lo, end);
}

/* Both forms are set; the slot's dtype says which one counts. */
static void set_default(tir_slot_t *slot, const sem_symbol_t *param) {
  const sem_expr_t *e = param->default_value;
  if (e == NULL) return;
  while (e->kind == SEM_WIDEN) e = e->args[0];
  bool is_float = td_dtype_is_float(e->type.dtype);
  slot->has_default = true;
  slot->default_f64 = is_float ? e->f64 : (double)e->i64;
  slot->default_i64 = is_float ? td_f64_to_i64(e->f64) : e->i64;
}

/* The value a leaf of a parameter comes in as. */
static tir_value_t *input_value(lo_t *lo, const sem_symbol_t *param,
                                const lo_leaf_t *leaf, const char *name) {
  const ix_poly_t *dims[IX_MAX_RANK];
  for (uint32_t k = 0; k < leaf->rank; k++)
    dims[k] = lo_poly(lo, leaf->dims[k]->size);
  tir_value_t *v =
      tir_value_create(lo->arena, name, leaf->dtype, leaf->rank, dims);
  v->loc = param->loc;
  v->is_written = true;
  if (td_dtype_is_int(v->dtype)) {
    v->lo = range_end(lo, leaf->type->lo);
    v->hi = range_end(lo, leaf->type->hi);
  }
  if (v->rank == 0 && td_dtype_is_int(v->dtype))
    v->symbol = param->value != NULL && param->type.kind == SEM_TENSOR
                    ? param->value
                    : ix_symbol_create(lo->pool, name, IX_SYM_DATA, v->loc);
  return v;
}

/* Dims and dtype of the cell are those of the slot, so the last version fits
 * the caller's buffer. */
static lo_cell_t *input_cell(lo_t *lo, tir_value_t *v) {
  lo_cell_t *cell = TD_NEW(lo->arena, lo_cell_t);
  cell->now = lo_view_of(lo, v, NULL);
  cell->name = v->name;
  cell->dtype = v->dtype;
  cell->rank = v->rank;
  cell->dims = v->dims;
  cell->is_written = true;
  cell->loc = v->loc;
  return cell;
}

/* One slot for each leaf.  By value, a name is bound to views of the inputs;
 * inout, to cells whose first version they are. */
static void add_param(lo_t *lo, const sem_symbol_t *param) {
  lo_leaves_t leaves = {0};
  leaf_files_t files = {0};
  lo_leaves(lo, &param->type, &leaves);
  name_files(lo, &param->type, (leaf_file_t){.other = -1}, &files);
  uint32_t count = (uint32_t)leaves.length;
  int32_t base = (int32_t)lo->slots.length;
  lo_binding_t *b = TD_NEW(lo->arena, lo_binding_t);
  bool is_inout = param->kind == SEM_INOUT;
  b->count = count;
  b->leaves = TD_NEW_ARRAY(lo->arena, const lo_view_t *, count);
  if (is_inout) b->cells = TD_NEW_ARRAY(lo->arena, lo_cell_t *, count);
  for (uint32_t i = 0; i < count; i++) {
    const lo_leaf_t *leaf = &leaves.data[i];
    const leaf_file_t *file = &files.data[i];
    const char *name =
        td_arena_printf(lo->arena, "%s%s", param->name, leaf->path);
    tir_value_t *v = input_value(lo, param, leaf, name);
    /* A field that is left out and is another would be updated once: state
     * has to be given whole. */
    bool has_other = file->other >= 0 && !is_inout;
    tir_slot_t slot = {.name = name,
                       .kind = is_inout ? TIR_INOUT : TIR_IN,
                       .value = v,
                       .lo = v->lo,
                       .hi = v->hi,
                       .stack_count = file->stack_count,
                       .else_slot = has_other ? base + file->other : -1,
                       .loc = param->loc};
    for (uint32_t k = 0; k < leaf->rank; k++)
      slot.dim_text[k] = leaf->dims[k]->text;
    /* Every field has a file name; state is looked up in a file only if the
     * text says where. */
    if (file->pattern != NULL && (!is_inout || file->is_named)) {
      slot.is_weight = true;
      slot.file_pattern = file->pattern;
    }
    if (count == 1) set_default(&slot, param);
    td_vec_push(lo->arena, &lo->slots, slot);
    b->leaves[i] = lo_view_of(lo, v, NULL);
    if (is_inout) b->cells[i] = input_cell(lo, v);
  }
  if (is_inout) b->leaves = NULL;
  lo_bind(lo, param, b);
}

void lo_param_slots(lo_t *lo, const sem_func_t *func) {
  for (uint32_t i = 0; i < func->param_count; i++)
    add_param(lo, func->params[i]);
}

/* ---- results ------------------------------------------------------------ */

/* Whether a value may not be left in a slot's buffer as it is: it is what
 * another slot came in as, or what another leaves. */
static bool is_claimed(const lo_t *lo, const tir_value_t *v, size_t slot) {
  for (size_t i = 0; i < lo->slots.length; i++) {
    if (i == slot) continue;
    if (lo->slots.data[i].value == v || lo->slots.data[i].result == v)
      return true;
  }
  return false;
}

/* The last version of a cell becomes what a slot leaves behind. */
static void leave(lo_t *lo, lo_cell_t *cell, size_t slot) {
  tir_value_t *v = lo_cell_value(lo, cell, 0, NULL);
  if (is_claimed(lo, v, slot)) v = lo_cell_copy(lo, cell, 0, NULL);
  lo->slots.data[slot].result = v;
}

/* A result is left through a cell of its own, which gives it the declared
 * dtype and order of dims if it is a view of something else. */
static void add_result(lo_t *lo, const sem_symbol_t *result) {
  const lo_binding_t *b = lo_lookup(lo, result);
  TD_CHECK(lo->task, b != NULL, "result %s is not defined", result->name);
  lo_leaves_t leaves = {0};
  lo_leaves(lo, &result->type, &leaves);
  for (uint32_t i = 0; i < leaves.length; i++) {
    const lo_leaf_t *leaf = &leaves.data[i];
    lo_cell_t cell = {
        .now = b->cells != NULL ? b->cells[i]->now : b->leaves[i],
        .name = td_arena_printf(lo->arena, "%s%s", result->name, leaf->path),
        .dtype = leaf->dtype,
        .rank = leaf->rank,
        .dims = TD_NEW_ARRAY(lo->arena, const ix_poly_t *, leaf->rank),
        .is_written = true,
        .loc = result->loc};
    tir_slot_t slot = {.name = cell.name,
                       .kind = TIR_OUT,
                       .lo = range_end(lo, leaf->type->lo),
                       .hi = range_end(lo, leaf->type->hi),
                       .else_slot = -1,
                       .loc = result->loc};
    for (uint32_t k = 0; k < leaf->rank; k++) {
      cell.dims[k] = lo_poly(lo, leaf->dims[k]->size);
      slot.dim_text[k] = leaf->dims[k]->text;
    }
    td_vec_push(lo->arena, &lo->slots, slot);
    leave(lo, &cell, lo->slots.length - 1);
  }
}

void lo_result_slots(lo_t *lo, const sem_func_t *func) {
  size_t slot = 0;
  for (uint32_t i = 0; i < func->param_count; i++) {
    const lo_binding_t *b = lo_lookup(lo, func->params[i]);
    for (uint32_t k = 0; k < b->count; k++, slot++)
      if (b->cells != NULL) leave(lo, b->cells[k], slot);
  }
  for (uint32_t i = 0; i < func->result_count; i++)
    add_result(lo, func->results[i]);
}

/* ---- requires ----------------------------------------------------------- */

/* The text of a place in the source, on one line. */
static const char *source_text(lo_t *lo, td_loc_t loc) {
  const td_source_t *src = td_sources_get(lo->task, loc.file);
  if (src == NULL || src->text == NULL || loc.line == 0) return "require";
  const char *p = src->text, *end = src->text + src->length;
  for (uint32_t line = 1; line < loc.line && p < end; p++)
    if (*p == '\n') line++;
  const char *q = p;
  for (uint32_t line = loc.line; line < loc.end_line && q < end; q++)
    if (*q == '\n') line++;
  const char *from = p + (loc.column - 1);
  const char *to = q + (loc.end_column > 0 ? loc.end_column - 1 : 0);
  if (from > end || to > end || to <= from) return "require";
  td_buf_t b;
  td_buf_init(&b, lo->task);
  for (; from < to; from++) {
    bool is_blank = *from == '\n' || *from == '\r' || *from == '\t';
    td_buf_putc(&b, is_blank ? ' ' : *from);
  }
  return td_buf_finish(&b, lo->arena);
}

typedef struct dims {
  lo_t *lo;
  TD_VEC(const ix_symbol_t *) candidates;
  bool *occurs;
  td_map_t seen; /* polynomials already looked at */
} dims_t;

/* Dims are few and polys are shared, so each poly is asked for each dim. */
static void see_poly(dims_t *d, const ix_poly_t *p) {
  uint64_t key = (uint64_t)(uintptr_t)p;
  if (p == NULL || td_map_get_u64(&d->seen, key) != NULL) return;
  td_map_put_u64(&d->seen, key, d);
  for (size_t i = 0; i < d->candidates.length; i++)
    if (!d->occurs[i] && ix_mentions(p, d->candidates.data[i]))
      d->occurs[i] = true;
}

static void see_value(dims_t *d, const tir_value_t *v) {
  for (uint32_t i = 0; i < v->rank; i++) see_poly(d, v->dims[i]);
}

static void see_expr(void *user, tir_expr_t *e) {
  if (e->op == TIR_X_DIM) see_poly(user, e->u.dim);
}

/* Loops nest as deep as the text does. */
static void see_block(dims_t *d, const tir_block_t *block) {
  for (size_t i = 0; i < block->length; i++) {
    tir_node_t *node = block->data[i];
    for (uint32_t k = 0; k < node->index_count; k++)
      see_poly(d, node->indices[k]->extent);
    for (uint32_t k = 0; k < node->out_count; k++)
      see_value(d, node->outs[k]);
    for (uint32_t k = 0; k < tir_node_expr_count(node); k++) {
      td_arena_t scratch;
      td_arena_init(&scratch, d->lo->task);
      tir_walk(&scratch, *tir_node_expr(node, k), see_expr, d);
      td_arena_free_all(&scratch);
    }
    see_block(d, &node->body_nodes);
  }
}

/* Candidates, and those that the slots already mention. */
static void start_dims(lo_t *lo, const sem_func_t *func, dims_t *d) {
  *d = (dims_t){.lo = lo};
  td_map_init(&d->seen, lo->arena);
  for (uint32_t i = 0; i < lo->program->dim_count; i++)
    if (lo->program->dims[i].is_dynamic)
      td_vec_push(lo->arena, &d->candidates, lo->program->dims[i].symbol);
  for (uint32_t i = 0; i < func->generic_count; i++)
    td_vec_push(lo->arena, &d->candidates, func->generics[i]);
  d->occurs = TD_NEW_ARRAY(lo->arena, bool, d->candidates.length);
  for (size_t i = 0; i < lo->slots.length; i++) {
    const tir_slot_t *slot = &lo->slots.data[i];
    if (slot->value != NULL) see_value(d, slot->value);
    if (slot->result != NULL) see_value(d, slot->result);
    see_poly(d, slot->lo);
    see_poly(d, slot->hi);
  }
}

/* Dims in the order of the program, then generics of a requested entry. */
void lo_func_dims(lo_t *lo, const sem_func_t *func) {
  dims_t d;
  start_dims(lo, func, &d);
  for (uint32_t i = 0; i < lo->func->require_count; i++)
    tir_walk(lo->arena, lo->func->requires[i].cond, see_expr, &d);
  see_block(&d, &lo->func->nodes);
  lo->func->dims = TD_NEW_ARRAY(lo->arena, const ix_symbol_t *,
                                d.candidates.length);
  for (size_t i = 0; i < d.candidates.length; i++)
    if (d.occurs[i])
      lo->func->dims[lo->func->dim_count++] = d.candidates.data[i];
}

typedef struct known {
  const dims_t *dims;
  bool ok;
} known_t;

static void see_unbound(void *user, tir_expr_t *e) {
  known_t *k = user;
  if (e->op != TIR_X_DIM) return;
  for (size_t i = 0; i < k->dims->candidates.length; i++)
    if (!k->dims->occurs[i] &&
        ix_mentions(e->u.dim, k->dims->candidates.data[i]))
      k->ok = false;
}

/* Facts of the file count where the function has all their dims. */
static void add_require(lo_t *lo, const sem_require_t *r, const dims_t *d,
                        bool of_file) {
  tir_expr_t *cond = lo_copy_expr(lo, lo_scalar(lo, r->cond));
  if (of_file) {
    known_t known = {d, true};
    tir_walk(lo->arena, cond, see_unbound, &known);
    if (!known.ok) return;
  }
  lo->func->requires[lo->func->require_count++] = (tir_require_t){
      .cond = cond, .text = source_text(lo, r->loc), .loc = r->loc};
}

void lo_requires(lo_t *lo, const sem_func_t *func) {
  dims_t d;
  start_dims(lo, func, &d);
  uint32_t count = lo->program->require_count + func->require_count;
  lo->func->requires = TD_NEW_ARRAY(lo->arena, tir_require_t, count);
  for (uint32_t i = 0; i < lo->program->require_count; i++)
    add_require(lo, &lo->program->requires[i], &d, true);
  for (uint32_t i = 0; i < func->require_count; i++)
    add_require(lo, &func->requires[i], &d, false);
}
