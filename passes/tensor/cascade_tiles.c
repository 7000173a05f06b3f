/* cascade_tiles.c: what only a cascade reads, along its axis, becomes part of
 * it, so that it exists in tiles and never as a whole.
 *
 * Nodes move forward in their block to the cascade that reads them; nothing
 * in between reads them, and updates are not crossed. A map that only moves
 * elements, as pages of a cache to their places, is followed to what it
 * reads. */
#include "passes/tensor/cascade.h"

#include "passes/tensor/group_kernels.h"
#include "passes/tensor/tensor.h"

typedef struct cascade_place {
  const tir_func_t *func;
  tir_block_t *block;
  td_arena_t *scratch;
  uint32_t number, rows;
  const tir_node_t *first; /* its row indices stand for all */
  const ix_poly_t *axis;
} cascade_place_t;

typedef struct readers {
  const cascade_place_t *place;
  const tir_value_t *value;
  tir_node_t *node;      /* whose expressions are walked */
  bool is_read, is_free; /* read at all; read in another way */
} readers_t;

/* A read at the rows and the axis of a node of the cascade. */
static void note_reader(void *user, tir_expr_t *e) {
  readers_t *s = user;
  const tir_node_t *n = s->node;
  uint32_t rows = s->place->rows;
  if (e->op != TIR_X_LOAD || e->u.value != s->value) return;
  s->is_read = true;
  if (n->cascade != s->place->number || n->index_count <= rows ||
      n->is_first ||
      e->arg_count != rows + 1) {
    s->is_free = true;
    return;
  }
  uint32_t axis = n->is_tile ? rows : n->index_count - 1;
  for (uint32_t i = 0; i <= rows; i++) {
    const tir_index_t *want = n->indices[i == rows ? axis : i];
    s->is_free |= e->args[i]->op != TIR_X_INDEX || e->args[i]->u.index != want;
  }
}

static bool only_cascade_reads(const cascade_place_t *p,
                               const tir_value_t *v) {
  readers_t s = {.place = p, .value = v};
  for (uint32_t i = 0; i < p->func->slot_count; i++) {
    if (p->func->slots[i].result == v) return false;
  }
  for (size_t i = 0; i < p->block->length; i++) {
    s.node = p->block->data[i];
    /* what a loop's body reads is not looked at */
    if (s.node->kind == TIR_LOOP) return false;
    for (uint32_t k = 0; k < s.node->operand_count; k++) {
      if (s.node->operands[k] == v) return false;
    }
    for (uint32_t k = 0; k < tir_node_expr_count(s.node); k++) {
      tir_walk(p->scratch, *tir_node_expr(s.node, k), note_reader, &s);
    }
  }
  return s.is_read && !s.is_free;
}

/* Over the rows, in their order, and then the axis. */
static bool is_over_tile(const cascade_place_t *p, const tir_node_t *n) {
  if (n->kind != TIR_MAP || n->cascade != 0) return false;
  if (tensor_parallel(n) != p->rows + 1) return false;
  for (uint32_t i = 0; i < p->rows; i++) {
    if (n->indices[i]->extent != p->first->indices[i]->extent) return false;
  }
  return n->indices[p->rows]->extent == p->axis;
}

/* Last ones first, so that what they alone read follows. */
static void adopt(cascade_place_t *p, size_t begin) {
  tir_block_t *b = p->block;
  for (size_t i = begin; i-- > 0;) {
    tir_node_t *n = b->data[i];
    if (n->kind == TIR_UPDATE || n->kind == TIR_LOOP) return;
    if (!is_over_tile(p, n) || !only_cascade_reads(p, n->outs[0])) continue;
    n->cascade = p->number;
    n->is_tile = true;
    begin--;
    for (size_t k = i; k < begin; k++) b->data[k] = b->data[k + 1];
    b->data[begin] = n;
  }
}

/* ---- gathers ------------------------------------------------------------- */

/* A map that only moves elements, as pages of a cache to their places. */
static bool is_gather(const tir_node_t *n) {
  return n != NULL && n->kind == TIR_MAP && n->cascade == 0 &&
         n->reduce == TIR_REDUCE_NONE && n->guard == NULL &&
         n->body->op == TIR_X_LOAD && n->body->arg_count > 0 &&
         n->outs[0]->dtype == n->body->u.value->dtype;
}

typedef struct gather {
  const cascade_place_t *place;
  const tir_value_t *value;
  const tir_node_t *node;
  bool is_elsewhere;
} gather_t;

static void note_elsewhere(void *user, tir_expr_t *e) {
  gather_t *g = user;
  if (e->op != TIR_X_LOAD || e->u.value != g->value) return;
  g->is_elsewhere |= g->node->cascade != g->place->number;
}

static bool is_read_elsewhere(const cascade_place_t *p,
                              const tir_value_t *v) {
  gather_t g = {.place = p, .value = v};
  for (uint32_t i = 0; i < p->func->slot_count; i++) {
    if (p->func->slots[i].result == v) return true;
  }
  for (size_t i = 0; i < p->block->length; i++) {
    tir_node_t *n = p->block->data[i];
    g.node = n;
    if (n->kind == TIR_LOOP) return true;
    for (uint32_t k = 0; k < n->operand_count; k++) {
      if (n->operands[k] == v) return true;
    }
    for (uint32_t k = 0; k < tir_node_expr_count(n); k++) {
      tir_walk(p->scratch, *tir_node_expr(n, k), note_elsewhere, &g);
    }
  }
  return g.is_elsewhere;
}

typedef struct follow {
  const cascade_place_t *place;
  td_arena_t *arena;
  size_t first; /* of the cascade in the block */
} follow_t;

/* An update between the gather and the cascade may change what it reads. */
static bool is_stable(const follow_t *f, const tir_node_t *def) {
  const tir_block_t *b = f->place->block;
  for (size_t i = f->first; i-- > 0;) {
    if (b->data[i] == def) return true;
    if (b->data[i]->kind == TIR_UPDATE || b->data[i]->kind == TIR_LOOP) break;
  }
  return false;
}

static tir_expr_t *follow(void *user, tir_expr_t *e) {
  const follow_t *f = user;
  const tir_node_t *def = e->op == TIR_X_LOAD ? e->u.value->def : NULL;
  if (!is_gather(def) || !is_stable(f, def) ||
      is_read_elsewhere(f->place, e->u.value)) {
    return e;
  }
  return tir_replace_indices(f->arena, def->body, def->index_count,
                             def->indices, e->args);
}

/* What a gather names is read where the gather reads it. */
static void follow_gathers(cascade_place_t *p, size_t end,
                           td_arena_t *arena) {
  follow_t f = {p, arena, end};
  while (f.first > 0 &&
         p->block->data[f.first - 1]->cascade == p->number) {
    f.first--;
  }
  for (size_t i = f.first; i < end; i++) {
    tir_node_t *n = p->block->data[i];
    if (n->kind != TIR_MAP) continue;
    n->body = tir_rewrite(arena, n->body, follow, &f);
  }
}

static void adopt_block(pass_state_t *state, tir_module_t *module,
                        tir_func_t *func, tir_block_t *block) {
  for (size_t i = 0; i < block->length;) {
    const tir_node_t *n = block->data[i];
    if (n->kind == TIR_LOOP) {
      adopt_block(state, module, func, &block->data[i]->body_nodes);
    }
    size_t end = i + 1;
    if (n->cascade == 0) {
      i = end;
      continue;
    }
    while (end < block->length && block->data[end]->cascade == n->cascade) {
      end++;
    }
    td_arena_t scratch;
    td_arena_init(&scratch, state->task);
    cascade_place_t p = {.func = func, .block = block, .scratch = &scratch,
                         .number = n->cascade, .first = n};
    p.rows = group_cascade_rows(&block->data[i], (uint32_t)(end - i));
    for (size_t k = i; k < end; k++) {
      const tir_node_t *m = block->data[k];
      bool is_state =
          m->kind == TIR_MAP && !m->is_tile && !m->is_first;
      if (is_state) p.axis = m->indices[m->index_count - 1]->extent;
    }
    adopt(&p, i);
    follow_gathers(&p, end, module->arena);
    td_arena_free_all(&scratch);
    i = end;
  }
}

void cascade_adopt_tiles(pass_state_t *state, tir_module_t *module,
                         tir_func_t *func) {
  adopt_block(state, module, func, &func->nodes);
}
