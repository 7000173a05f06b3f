/* tile_ask.c: memory that is asked for ahead of its use, on a CPU. */
#include "passes/tile/tile.h"

static void note_load(void *user, const kir_expr_t *e) {
  bool *reads = user;
  *reads |= e->op == KIR_X_LOAD;
}

bool tile_reads_memory(tile_t *t, const kir_expr_t *e) {
  bool reads = false;
  kir_walker_t walker;
  kir_walker_init(&walker, t->arena);
  kir_walk_into(&walker, e, note_load, &reads);
  return reads;
}

void tile_ask(tile_t *t, kir_block_t *block, const kir_expr_t *load) {
  if (load->op != KIR_X_LOAD || load->u.buffer->space != KIR_GLOBAL) return;
  kir_stmt_t *stmt = TD_NEW(t->arena, kir_stmt_t);
  stmt->kind = KIR_PREFETCH;
  stmt->buffer = (kir_buffer_t *)(uintptr_t)load->u.buffer;
  stmt->sub_count = load->arg_count;
  stmt->subs = TD_NEW_ARRAY(t->arena, kir_expr_t *, load->arg_count + 1);
  for (uint32_t i = 0; i < load->arg_count; i++) {
    stmt->subs[i] = load->args[i];
    if (tile_reads_memory(t, load->args[i])) {
      stmt->subs[i] = tile_let(t, block, "place", load->args[i]);
    }
  }
  tile_push(t, block, stmt);
}
