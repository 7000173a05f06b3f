/* lower_to_tiles.c: one kernel for each group of TIR nodes.
 *
 * Does: chooses the template of each group and builds its KIR.
 * Needs: every MAP, UPDATE and TOPK node has a group; groups are adjacent.
 * Guarantees: kernels compute what the nodes say, with the accumulation
 *   plan of each reduction; parameters are the values that cross the group.
 * Class: bitwise (given the plans).
 * Ends because: one pass over the nodes.
 * Ledgers: bytes of values that stay in a block no longer cross memory. */
#include "passes/tile/tile.h"

#include "passes/remark.h"
#include "passes/tensor/cascade.h"
#include "passes/tensor/group_kernels.h"

/* ---- which values leave their group -------------------------------------- */

typedef struct escape {
  td_map_t escapes; /* tir_value_t* -> itself */
  td_map_t group;   /* tir_value_t* -> node that defines it */
  const tir_node_t *reader; /* NULL: outside of any group */
} escape_t;

static uint64_t key_of(const void *p) {
  return (uint64_t)(uintptr_t)p;
}

static void note_use(escape_t *e, const tir_value_t *v) {
  const tir_node_t *def = td_map_get_u64(&e->group, key_of(v));
  if (def == NULL) return;
  if (e->reader == NULL || e->reader->group != def->group) {
    td_map_put_u64(&e->escapes, key_of(v), (void *)(uintptr_t)key_of(v));
  }
}

static void note_load(void *user, tir_expr_t *x) {
  if (x->op == TIR_X_LOAD) note_use(user, x->u.value);
}

static void scan_block(escape_t *e, td_arena_t *scratch,
                       const tir_block_t *block) {
  for (size_t i = 0; i < block->length; i++) {
    tir_node_t *n = block->data[i];
    for (uint32_t k = 0; k < n->out_count; k++) {
      td_map_put_u64(&e->group, key_of(n->outs[k]), n);
    }
  }
  for (size_t i = 0; i < block->length; i++) {
    tir_node_t *n = block->data[i];
    e->reader = n->kind == TIR_LOOP || n->kind == TIR_ASSERT ? NULL : n;
    for (uint32_t k = 0; k < tir_node_expr_count(n); k++) {
      tir_walk(scratch, *tir_node_expr(n, k), note_load, e);
    }
    for (uint32_t k = 0; k < n->operand_count; k++) {
      note_use(e, n->operands[k]);
    }
    if (n->kind != TIR_LOOP) continue;
    scan_block(e, scratch, &n->body_nodes);
    e->reader = NULL;
    for (uint32_t k = 0; k < n->operand_count; k++) {
      note_use(e, n->yields[k]);
    }
  }
}

/* ---- one group ----------------------------------------------------------- */

typedef struct build {
  pass_state_t *state;
  td_arena_t *arena;
  const tir_module_t *module;
  const tir_func_t *func;
  const ir_target_t *target;
  escape_t *escapes;
  TD_VEC(kir_kernel_t *) kernels;
  TD_VEC(const tir_func_t *) funcs;
  TD_VEC(uint32_t) groups;
  TD_VEC(const tir_value_t **) params;
} build_t;

typedef struct inner {
  const tile_t *t;
  td_map_t read; /* tir_value_t* -> itself: read by a later node of the group */
} inner_t;

static void note_inner(void *user, tir_expr_t *e) {
  inner_t *in = user;
  if (e->op == TIR_X_LOAD) {
    td_map_put_u64(&in->read, key_of(e->u.value),
                   (void *)(uintptr_t)key_of(e->u.value));
  }
}

/* Values that the group reads again get a scratch home, filled in by the
 * template once the prefix is known; if others read them too they are stored
 * to memory as well. */
static void plan_homes(build_t *b, tile_t *t) {
  if (t->node_count < 2) return;
  inner_t in = {.t = t};
  td_map_init(&in.read, b->arena);
  for (uint32_t i = 0; i < t->node_count; i++) {
    for (uint32_t k = 0; k < tir_node_expr_count(t->nodes[i]); k++) {
      tir_walk(b->arena, *tir_node_expr(t->nodes[i], k), note_inner, &in);
    }
  }
  for (uint32_t i = 0; i < t->node_count; i++) {
    for (uint32_t k = 0; k < t->nodes[i]->out_count; k++) {
      const tir_value_t *v = t->nodes[i]->outs[k];
      if (td_map_get_u64(&in.read, key_of(v)) == NULL) continue;
      tile_set_home(t, v, NULL, 0);
    }
  }
}

/* The card is the remark, a place for each node of the group. */
static void report(const build_t *b, const tile_t *t) {
  remark_t *m = NULL;
  for (uint32_t i = 0; i < t->node_count; i++) {
    td_loc_t loc = t->nodes[i]->loc;
    if (i > 0) pass_remark_place(m, loc);
    else m = pass_remark(b->state, "lower-to-tiles", REMARK_CODE_TILE_CHOSEN,
                         loc, "kernel %s: %s", t->kernel->name, t->card);
  }
}

/* Wide places cost registers and instructions; bounds of dims decide. */
static void report_wide(const build_t *b, const tile_t *t) {
  const kir_kernel_t *k = t->kernel;
  for (uint32_t i = 0; t->target->warp > 0 && i < k->param_count; i++) {
    const kir_buffer_t *p = k->params[i];
    if (kir_is_int_sized(p)) continue;
    remark_t *m = pass_remark(
        b->state, "lower-to-tiles", REMARK_CODE_INDEX_64BIT, k->loc,
        "kernel %s: places in %s are 64 bits wide", k->name, p->name);
    if (m == NULL) return;
    const ix_poly_t *count = ix_const(k->pool, 1);
    for (uint32_t d = 0; d < p->rank && count != NULL; d++) {
      count = ix_mul(k->pool, count, p->dims[d]);
    }
    if (count != NULL) pass_remark_number(m, "elements", count);
    m->hint = "smaller bounds of its dims, for at most 2^30 elements, make "
              "them 32 bits wide";
  }
}

/* Of a product that is longer than a split: whether splits are blocks. */
static void report_split(const build_t *b, const tile_t *t) {
  const tile_split_t *s = t->wants;
  if (t->tiles == NULL) return;
  td_loc_t loc = t->nodes[0]->loc;
  const char *name = t->nodes[0]->outs[0]->name;
  const ix_poly_t *sms = ix_const(t->module->pool, t->target->sms);
  remark_t *m =
      s == NULL
          ? pass_remark(b->state, "lower-to-tiles", REMARK_CODE_SPLIT_REFUSED,
                        loc,
                        "blocks go through the whole depth of %s: its tiles "
                        "are half as many as multiprocessors, or more",
                        name)
          : pass_remark(b->state, "lower-to-tiles", REMARK_CODE_SPLIT_DONE,
                        loc, "splits of the depth of %s are blocks of their "
                             "own%s",
                        name, s->when == NULL ? "" : " where it has few tiles"
                                                     ", by dims at launch");
  if (m == NULL) return;
  pass_remark_number(m, "tiles", t->tiles);
  pass_remark_number(m, "multiprocessors", sms);
  if (s == NULL) return;
  pass_remark_number(m, "splits", s->count);
  pass_remark_number(m, "bytes_of_workspace", s->bytes);
}

static void report_sweep(const build_t *b, tir_node_t *const *nodes,
                         const tile_split_t *s, const ix_poly_t *rows) {
  remark_t *m = pass_remark(
      b->state, "lower-to-tiles", REMARK_CODE_SPLIT_DONE, nodes[0]->loc,
      "splits of the sweep for %s are blocks of their own where it has few "
      "rows, by dims at launch",
      s->merge_nodes[s->merge_count - 1]->outs[0]->name);
  if (m == NULL) return;
  ix_pool_t *pool = b->module->pool;
  pass_remark_number(m, "rows", rows);
  pass_remark_number(m, "multiprocessors", ix_const(pool, b->target->sms));
  pass_remark_number(m, "splits", s->count);
  pass_remark_number(m, "bytes_of_workspace", s->bytes);
}

static void complete(tile_t *t) {
  kir_kernel_t *k = t->kernel;
  k->param_count = (uint32_t)t->params.length;
  k->params = t->params.data;
  k->dim_count = (uint32_t)t->dims.length;
  k->dims = t->dims.data;
  k->card = t->card;
  kir_renumber(k);
}

static void keep(build_t *b, tile_t *t) {
  kir_kernel_t *k = t->kernel;
  report(b, t);
  report_wide(b, t);
  td_vec_push(b->arena, &b->kernels, k);
  td_vec_push(b->arena, &b->funcs, b->func);
  td_vec_push(b->arena, &b->groups, t->nodes[0]->group);
  td_vec_push(b->arena, &b->params, t->param_values.data);
}

/* What a group is lowered with: the machine row or a copy of it, and sizes
 * that were asked for. */
typedef struct sized {
  const ir_target_t *target;
  pass_sizes_t sizes;
  pass_splits_t splits;
} sized_t;

static tile_t *lower_for(build_t *b, tir_node_t **nodes, uint32_t count,
                         const sized_t *with, const tile_split_t *split,
                         tile_split_t *wants) {
  tile_t *t = TD_NEW(b->arena, tile_t);
  t->task = b->state->task;
  t->arena = b->arena;
  t->module = b->module;
  t->func = b->func;
  t->target = with->target;
  t->sizes = with->sizes;
  t->plan_serial = b->state->options->plan_serial;
  t->splits = with->splits;
  t->split = split;
  t->wants = wants;
  t->nodes = nodes;
  t->node_count = count;
  td_map_init(&t->homes, b->arena);
  td_map_init(&t->indices, b->arena);
  td_map_init(&t->elements, b->arena);
  td_map_init(&t->outputs, b->arena);
  t->escapes = &b->escapes->escapes;
  td_map_init(&t->done, b->arena);
  t->kernel = TD_NEW(b->arena, kir_kernel_t);
  t->kernel->arena = b->arena;
  t->kernel->pool = b->module->pool;
  t->kernel->name =
      td_arena_printf(b->arena, "k%02u_%s_%s", (unsigned)b->kernels.length,
                      b->func->name, nodes[count - 1]->outs[0]->name);
  t->kernel->loc = nodes[count - 1]->loc;
  bool merges = false;
  for (uint32_t i = 0; i < count; i++) merges |= nodes[i]->is_merge;
  if (nodes[0]->cascade != 0) {
    plan_homes(b, t);
    if (merges) tile_lower_merge(t);
    else tile_lower_cascade(t);
  } else if (nodes[0]->kind == TIR_UPDATE) {
    tile_lower_update(t, nodes[0]);
  } else if (nodes[0]->kind == TIR_TOPK) {
    tile_lower_topk(t, nodes[0]);
  } else if (!tile_lower_panels(t) && !tile_lower_map(t) &&
             !tile_lower_contraction(t)) {
    plan_homes(b, t);
    tile_lower_nest(t, group_nest_prefix(b->arena, nodes, count));
  }
  complete(t);
  return t;
}

/* On CPUs sizes are quantities of the row; templates of GPUs ask for them. */
static sized_t tuned(build_t *b, tir_node_t **nodes, uint32_t count) {
  const pass_options_t *o = b->state->options;
  struct pass_remarks *remarks = b->state->remarks;
  sized_t with = {.target = b->target, .splits = o->splits};
  if (o->sizes == NULL) return with;
  b->state->remarks = NULL; /* it is lowered once more */
  tile_t *t = lower_for(b, nodes, count, &with, NULL, NULL);
  b->state->remarks = remarks;
  pass_sizes_t sizes = {0};
  o->sizes(o->sizes_user, t->kernel, (uint32_t)b->kernels.length, &sizes);
  if (b->target->warp > 0) {
    with.sizes = sizes;
    if (sizes.splits > 0) with.splits = (pass_splits_t)(sizes.splits - 1);
    return with;
  }
  ir_target_t *row = TD_NEW(b->arena, ir_target_t);
  *row = *b->target;
  if (sizes.mr > 0) row->mr = sizes.mr;
  if (sizes.nr > 0) row->nr = sizes.nr;
  if (sizes.mc > 0) row->mc = sizes.mc;
  if (sizes.nc > 0) row->nc = sizes.nc;
  if (sizes.kc > 0) row->kc = sizes.kc;
  with.target = row;
  return with;
}

/* Halves of a sweep, where dims choose; NULL: there are none. */
static tile_split_t *cut_sweep(build_t *b, tir_node_t **nodes,
                               uint32_t count, pass_splits_t splits) {
  cascade_halves_t h;
  const pass_options_t *o = b->state->options;
  tir_module_t *module = (tir_module_t *)(uintptr_t)b->module;
  if (nodes[0]->cascade == 0 || b->target->warp == 0 || o->plan_serial ||
      splits == PASS_SPLITS_OFF ||
      !cascade_find_halves(b->state->task, module, b->target, nodes, count,
                           &h)) {
    return NULL;
  }
  tile_split_t *s = TD_NEW(b->arena, tile_split_t);
  *s = (tile_split_t){.when = h.when, .count = h.count, .index = h.split,
                      .part_count = h.part_count, .nodes = h.parts,
                      .merge_count = h.merge_count, .merge_nodes = h.merge,
                      .value_count = h.state_count, .values = h.states};
  int64_t lo, hi;
  s->bytes = tile_split_bytes(b->module->pool, s);
  bool has_room = s->bytes != NULL && ix_interval(s->bytes, &lo, &hi);
  for (uint32_t k = 0; k < s->value_count && has_room; k++) {
    td_map_put_u64(&b->escapes->escapes, key_of(s->values[k]), s->values[k]);
  }
  for (uint32_t i = 0; i < count; i++) { /* copies made themselves their own */
    for (uint32_t k = 0; k < nodes[i]->out_count; k++) {
      nodes[i]->outs[k]->def = nodes[i];
    }
  }
  if (has_room) report_sweep(b, nodes, s, h.rows);
  return has_room ? s : NULL;
}

/* Values between kernels of one group get numbers like all others. */
static void number_values(const build_t *b, const tile_split_t *s) {
  for (uint32_t f = 0; f < b->module->func_count; f++) {
    tir_func_t *func = b->module->funcs[f];
    if (func != b->func) continue;
    for (uint32_t k = 0; k < s->value_count; k++) {
      s->values[k]->id = func->value_count++;
    }
  }
}

/* One kernel, or the two halves, or all three and dims choose. */
static void lower_group(build_t *b, tir_node_t **nodes, uint32_t count) {
  sized_t with = tuned(b, nodes, count);
  tile_t *t = lower_for(b, nodes, count, &with, NULL,
                        cut_sweep(b, nodes, count, with.splits));
  report_split(b, t);
  tile_split_t *split = t->wants;
  if (split == NULL || split->when != NULL) keep(b, t);
  if (split == NULL) return;
  number_values(b, split);
  keep(b, lower_for(b, split->nodes, split->part_count, &with, split, NULL));
  tile_split_t *merge = TD_NEW(b->arena, tile_split_t);
  *merge = *split;
  merge->is_merge = true;
  if (merge->merge_count == 0) {
    keep(b, lower_for(b, nodes, count, &with, merge, NULL));
  } else {
    keep(b, lower_for(b, merge->merge_nodes, merge->merge_count, &with,
                      merge, NULL));
  }
}

static void lower_block(build_t *b, const tir_block_t *block) {
  for (size_t i = 0; i < block->length;) {
    tir_node_t *n = block->data[i];
    if (n->kind == TIR_LOOP) lower_block(b, &n->body_nodes);
    if (n->kind == TIR_LOOP || n->kind == TIR_ASSERT) {
      i++;
      continue;
    }
    TD_CHECK(b->state->task, n->group != 0, "node %s has no group",
             n->outs[0]->name);
    size_t end = i + 1;
    while (end < block->length && block->data[end]->group == n->group) end++;
    lower_group(b, &block->data[i], (uint32_t)(end - i));
    i = end;
  }
}

void pass_lower_to_tiles(pass_state_t *state, td_arena_t *arena,
                         const tir_module_t *module,
                         const ir_target_t *target, pass_kernels_t *out) {
  build_t b = {.state = state, .arena = arena, .module = module,
               .target = target};
  for (uint32_t f = 0; f < module->func_count; f++) {
    b.func = module->funcs[f];
    escape_t escapes = {0};
    td_map_init(&escapes.escapes, arena);
    td_map_init(&escapes.group, arena);
    scan_block(&escapes, arena, &b.func->nodes);
    escapes.reader = NULL;
    for (uint32_t s = 0; s < b.func->slot_count; s++) {
      if (b.func->slots[s].result != NULL) {
        note_use(&escapes, b.func->slots[s].result);
      }
    }
    b.escapes = &escapes;
    lower_block(&b, &b.func->nodes);
  }
  out->count = (uint32_t)b.kernels.length;
  out->kernels = b.kernels.data;
  out->funcs = b.funcs.data;
  out->groups = b.groups.data;
  out->param_values = b.params.data;
}
