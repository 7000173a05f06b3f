/* cascade_finish.c: maps behind the sweeps.
 *
 * In softmax, e[i] = exp(x[i] - m) is read by the sum and by the result. The
 * sum has weights of its own now, so that e has one reader at its own tuple:
 * then it need not be stored. Bitwise: a store that rounds is left alone. */
#include "passes/tensor/cascade.h"

#include "passes/tensor/tensor.h"

typedef struct finish {
  td_arena_t *scratch;
  tir_block_t *block;
  const tir_node_t *node;   /* whose expressions are walked */
  td_map_t readers; /* tir_value_t* -> its only reader; or `several` */
} finish_t;

static uint64_t key_of(const void *p) {
  return (uint64_t)(uintptr_t)p;
}

static void note_reader(finish_t *f, const tir_value_t *v,
                        const tir_node_t *reader) {
  bool is_new = td_map_get_u64(&f->readers, key_of(v)) == NULL;
  td_map_put_u64(&f->readers, key_of(v),
                 is_new && reader != NULL
                     ? (void *)(uintptr_t)key_of(reader)
                     : (void *)f);
}

static void note_load(void *user, tir_expr_t *e) {
  finish_t *f = user;
  if (e->op == TIR_X_LOAD) note_reader(f, e->u.value, f->node);
}

static void note_block(finish_t *f, const tir_block_t *block) {
  for (size_t i = 0; i < block->length; i++) {
    tir_node_t *n = block->data[i];
    /* what a loop reads is not looked at twice */
    f->node = block == f->block && n->kind == TIR_MAP ? n : NULL;
    for (uint32_t k = 0; k < tir_node_expr_count(n); k++) {
      tir_walk(f->scratch, *tir_node_expr(n, k), note_load, f);
    }
    if (n->transport != NULL) {
      f->node = NULL;
      tir_walk(f->scratch, n->transport, note_load, f);
    }
    for (uint32_t k = 0; k < n->operand_count; k++) {
      note_reader(f, n->operands[k], NULL);
    }
    if (n->kind != TIR_LOOP) continue;
    note_block(f, &n->body_nodes);
    for (uint32_t k = 0; k < n->operand_count; k++) {
      note_reader(f, n->yields[k], NULL);
    }
  }
}

static bool is_plain_map(const tir_node_t *n) {
  return n->kind == TIR_MAP && n->reduce == TIR_REDUCE_NONE &&
         n->cascade == 0 && n->index_count > 0;
}

typedef struct meeting {
  const tir_node_t *node, *reader;
  const tir_expr_t *load;
  uint32_t count;
} meeting_t;

static void note_meeting(void *user, tir_expr_t *e) {
  meeting_t *m = user;
  if (e->op != TIR_X_LOAD || e->u.value != m->node->outs[0]) return;
  m->load = e;
  m->count++;
}

/* One load, at the reader's own tuple, whatever the order of its indices. */
static bool is_own_tuple(finish_t *f, meeting_t *m, tir_node_t *reader) {
  tir_walk(f->scratch, reader->body, note_meeting, m);
  if (m->count != 1 || m->load->arg_count != reader->index_count) return false;
  for (uint32_t i = 0; i < m->load->arg_count; i++) {
    if (m->load->args[i]->op != TIR_X_INDEX) return false;
    for (uint32_t k = 0; k < i; k++) {
      if (m->load->args[k]->u.index == m->load->args[i]->u.index) return false;
    }
  }
  return true;
}

static bool has_update(const finish_t *f, size_t at, const tir_node_t *to) {
  for (size_t i = at + 1; f->block->data[i] != to; i++) {
    tir_kind_t kind = f->block->data[i]->kind;
    if (kind == TIR_UPDATE || kind == TIR_LOOP) return true;
  }
  return false;
}

typedef struct place {
  td_arena_t *arena;
  const tir_node_t *node;
} place_t;

static tir_expr_t *put_body(void *user, tir_expr_t *e) {
  const place_t *p = user;
  const tir_node_t *n = p->node;
  if (e->op != TIR_X_LOAD || e->u.value != n->outs[0]) return e;
  return tir_replace_indices(p->arena, n->body, n->index_count, n->indices,
                             e->args);
}

void cascade_inline_finish(pass_state_t *state, tir_module_t *module,
                           tir_func_t *func) {
  enum { BODY_LIMIT = 300 };
  td_arena_t scratch;
  td_arena_init(&scratch, state->task);
  finish_t f = {.scratch = &scratch, .block = &func->nodes};
  td_map_init(&f.readers, &scratch);
  bool has_cascade = false;
  note_block(&f, &func->nodes);
  for (uint32_t i = 0; i < func->slot_count; i++) {
    if (func->slots[i].result != NULL) {
      note_reader(&f, func->slots[i].result, NULL);
    }
  }
  for (size_t i = 0; i < func->nodes.length; i++) {
    tir_node_t *n = func->nodes.data[i];
    has_cascade |= n->cascade != 0;
    if (!has_cascade || !is_plain_map(n) ||
        n->outs[0]->dtype != n->body->type) {
      continue;
    }
    tir_node_t *reader = td_map_get_u64(&f.readers, key_of(n->outs[0]));
    if (reader == NULL || (void *)reader == (void *)&f ||
        !is_plain_map(reader)) {
      continue;
    }
    meeting_t m = {.node = n, .reader = reader};
    size_t size = tir_expr_size(&scratch, n->body) +
                  tir_expr_size(&scratch, reader->body);
    if (size > BODY_LIMIT || !is_own_tuple(&f, &m, reader) ||
        has_update(&f, i, reader)) {
      continue;
    }
    place_t p = {module->arena, n};
    reader->body = tir_rewrite(module->arena, reader->body, put_body, &p);
  }
  td_arena_free_all(&scratch);
}
