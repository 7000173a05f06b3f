/* cascade_tiles.c: what only a cascade reads, along its axis, becomes part of
 * it, so that it exists in tiles and never as a whole.
 *
 * Nodes move forward in their block to the cascade that reads them; nothing
 * in between reads them, and updates are not crossed. */
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

static void adopt_block(pass_state_t *state, tir_func_t *func,
                        tir_block_t *block) {
  for (size_t i = 0; i < block->length;) {
    const tir_node_t *n = block->data[i];
    if (n->kind == TIR_LOOP) {
      adopt_block(state, func, &block->data[i]->body_nodes);
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
      if (!m->is_tile) p.axis = m->indices[m->index_count - 1]->extent;
    }
    adopt(&p, i);
    td_arena_free_all(&scratch);
    i = end;
  }
}

void cascade_adopt_tiles(pass_state_t *state, tir_func_t *func) {
  adopt_block(state, func, &func->nodes);
}
