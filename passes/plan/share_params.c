/* share_params.c
 *
 * Does: where memory planning put an operand and the output of a map into
 *   one buffer, makes their two kernel parameters one.
 * Needs: kernels with the values behind their parameters, memory layouts.
 * Guarantees: no kernel gets one buffer through two parameters, one of which
 *   it writes.  Two that see it with different dims see one dim afterwards.
 * Class: bitwise: a map reads an element before it writes it.
 * Ends because: each step drops a parameter.
 * Ledgers: none. */
#include "passes/plan/plan_memory.h"

typedef struct replace {
  const kir_buffer_t *from;
  kir_buffer_t *to;
  kir_walker_t walker;
} replace_t;

/* ---- one dim for all ---------------------------------------------------- */

typedef struct flat {
  kir_kernel_t *kernel;
  const kir_buffer_t *buffer;
  kir_walker_t walker;
} flat_t;

/* Row-major position of the element at `subs`. */
static kir_expr_t *position(const flat_t *f, uint32_t count,
                            kir_expr_t *const *subs) {
  td_arena_t *arena = f->kernel->arena;
  kir_expr_t *at = kir_const_i(arena, TDSL_DTYPE_I64, 0);
  for (uint32_t d = 0; d < count; d++) {
    at = kir_mul(arena, at, kir_dim(arena, f->buffer->dims[d]));
    at = kir_add(arena, at, subs[d]);
  }
  return at;
}

static void flatten_load(void *user, const kir_expr_t *e) {
  const flat_t *f = user;
  if (e->op != KIR_X_LOAD || e->u.buffer != f->buffer) return;
  kir_expr_t *load = (kir_expr_t *)(uintptr_t)e; /* this pass's alone */
  kir_expr_t **subs = TD_NEW_ARRAY(f->kernel->arena, kir_expr_t *, 1);
  subs[0] = position(f, e->arg_count, e->args);
  load->args = subs;
  load->arg_count = 1;
}

static void flatten_block(flat_t *f, const kir_block_t *block) {
  for (size_t i = 0; i < block->length; i++) {
    kir_stmt_t *s = block->data[i];
    for (uint32_t k = 0; k < kir_stmt_expr_count(s); k++) {
      kir_walk_into(&f->walker, kir_stmt_expr(s, k), flatten_load, f);
    }
    if (s->kind != KIR_ALLOC && s->buffer == f->buffer) {
      kir_expr_t *at = position(f, s->sub_count, s->subs);
      s->subs = TD_NEW_ARRAY(f->kernel->arena, kir_expr_t *, 1);
      s->subs[0] = at;
      s->sub_count = 1;
    }
    flatten_block(f, &s->body);
    flatten_block(f, &s->orelse);
  }
}

static void flatten(kir_kernel_t *kernel, kir_buffer_t *b) {
  if (b->rank == 1) return;
  flat_t f = {.kernel = kernel, .buffer = b};
  kir_walker_init(&f.walker, kernel->arena);
  flatten_block(&f, &kernel->body);
  const ix_poly_t *size = ix_const(kernel->pool, 1);
  for (uint32_t d = 0; d < b->rank; d++) {
    size = ix_mul(kernel->pool, size, b->dims[d]);
  }
  b->rank = 1;
  b->dims[0] = size;
}

static bool is_same_view(const kir_buffer_t *a, const kir_buffer_t *b) {
  if (a->rank != b->rank) return false;
  for (uint32_t d = 0; d < a->rank; d++) {
    if (a->dims[d] != b->dims[d]) return false;
  }
  return true;
}

/* ---- two parameters to one ---------------------------------------------- */

/* Expressions are shared and otherwise immutable; the kernel is this pass's
 * alone, and every mention changes. */
static void replace_load(void *user, const kir_expr_t *e) {
  replace_t *r = user;
  if (e->op != KIR_X_LOAD || e->u.buffer != r->from) return;
  ((kir_expr_t *)(uintptr_t)e)->u.buffer = r->to;
}

static void replace_block(replace_t *r, const kir_block_t *block) {
  for (size_t i = 0; i < block->length; i++) {
    kir_stmt_t *s = block->data[i];
    for (uint32_t k = 0; k < kir_stmt_expr_count(s); k++) {
      kir_walk_into(&r->walker, kir_stmt_expr(s, k), replace_load, r);
    }
    if (s->buffer == r->from) s->buffer = r->to;
    replace_block(r, &s->body);
    replace_block(r, &s->orelse);
  }
}

static void drop_param(pass_kernels_t *kernels, uint32_t k, uint32_t i) {
  kir_kernel_t *kernel = kernels->kernels[k];
  for (uint32_t j = i + 1; j < kernel->param_count; j++) {
    kernel->params[j - 1] = kernel->params[j];
    kernels->param_values[k][j - 1] = kernels->param_values[k][j];
  }
  kernel->param_count--;
}

static void share_pair(td_arena_t *arena, pass_kernels_t *kernels, uint32_t k,
                       uint32_t kept, uint32_t dropped) {
  kir_kernel_t *kernel = kernels->kernels[k];
  const tir_value_t **values = kernels->param_values[k];
  if (!is_same_view(kernel->params[kept], kernel->params[dropped])) {
    flatten(kernel, kernel->params[kept]);
    flatten(kernel, kernel->params[dropped]);
  }
  /* what comes from outside stands for both: its contents are read */
  const tir_node_t *def = values[kept]->def;
  if (def != NULL && def->group == kernels->groups[k]) {
    values[kept] = values[dropped];
  }
  replace_t r = {.from = kernel->params[dropped],
                 .to = kernel->params[kept]};
  kir_walker_init(&r.walker, arena);
  replace_block(&r, &kernel->body);
  r.to->is_read |= r.from->is_read;
  r.to->is_written |= r.from->is_written;
  drop_param(kernels, k, dropped);
  kir_renumber(kernel);
}

static void share_kernel(td_arena_t *arena, pass_kernels_t *kernels,
                         uint32_t k, const mem_layout_t *layout) {
  kir_kernel_t *kernel = kernels->kernels[k];
  const tir_value_t *const *values = kernels->param_values[k];
  for (uint32_t i = 0; i < kernel->param_count; i++) {
    for (uint32_t j = kernel->param_count; j > i + 1; j--) {
      bool writes = kernel->params[i]->is_written ||
                    kernel->params[j - 1]->is_written;
      if (writes && layout->value_buffer[values[i]->id] ==
                        layout->value_buffer[values[j - 1]->id]) {
        share_pair(arena, kernels, k, i, j - 1);
      }
    }
  }
}

void pass_share_params(td_task_t *task, td_arena_t *arena,
                       const tir_module_t *module, pass_kernels_t *kernels,
                       mem_layout_t *const *layouts) {
  task->stage = "share-params";
  for (uint32_t f = 0; f < module->func_count; f++) {
    for (uint32_t k = 0; k < kernels->count; k++) {
      if (kernels->funcs[k] != module->funcs[f]) continue;
      share_kernel(arena, kernels, k, layouts[f]);
    }
  }
}
