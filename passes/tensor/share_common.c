/* share_common.c
 *
 * Does: replaces a map or reduction by an earlier one that computes the same
 *   (up to the names of its indices).
 * Needs: verified TIR.
 * Guarantees: the survivor is defined before every use of both.
 * Class: bitwise (plans of both are equal).
 * Ends because: one pass over the nodes.
 * Ledgers: compute, bandwidth, capacity. */
#include "passes/tensor/tensor.h"

#include "runtime/base/num.h"

/* Canonical indices: one for each (position, extent, kind). */
typedef struct canon {
  uint32_t position;
  const ix_poly_t *extent;
  bool is_reduction;
  tir_index_t *index;
} canon_t;

typedef struct seen {
  tir_node_t *node;
  tir_expr_t *body, *guard; /* interned, over canonical indices */
} seen_t;

typedef struct share {
  tir_module_t *module;
  td_arena_t *scratch;
  tir_interner_t interner;
  TD_VEC(canon_t) canons;
  TD_VEC(seen_t) seen; /* visible in the present block */
  tensor_replacements_t replacements;
  bool has_changed;
} share_t;

static tir_index_t *canonical(share_t *s, uint32_t position,
                              const tir_index_t *index) {
  for (size_t i = 0; i < s->canons.length; i++) {
    const canon_t *c = &s->canons.data[i];
    if (c->position == position && c->extent == index->extent &&
        c->is_reduction == index->is_reduction) {
      return c->index;
    }
  }
  canon_t c = {position, index->extent, index->is_reduction, NULL};
  c.index = tir_index_create(s->module, index->name, index->extent,
                             index->is_reduction);
  td_vec_push(s->scratch, &s->canons, c);
  return c.index;
}


static tir_expr_t *see_through(void *user, tir_expr_t *e) {
  share_t *s = user;
  if (e->op != TIR_X_LOAD) return e;
  tir_value_t *to = td_map_get_u64(&s->replacements.map,
                                   (uint64_t)(uintptr_t)e->u.value);
  if (to != NULL) e->u.value = to;
  return e;
}

static tir_expr_t *canonical_expr(share_t *s, tir_node_t *n, tir_expr_t *e) {
  if (e == NULL) return NULL;
  tir_expr_t **to = TD_NEW_ARRAY(s->scratch, tir_expr_t *,
                                 n->index_count + 1);
  for (uint32_t i = 0; i < n->index_count; i++) {
    to[i] = tir_index_ref(s->scratch, canonical(s, i, n->indices[i]));
  }
  e = tir_rewrite(s->scratch, e, see_through, s);
  e = tir_replace_indices(s->scratch, e, n->index_count, n->indices, to);
  return tir_intern(&s->interner, e);
}

static bool is_same(const seen_t *a, const seen_t *b) {
  const tir_node_t *x = a->node, *y = b->node;
  if (a->body != b->body || a->guard != b->guard ||
      x->index_count != y->index_count || x->reduce != y->reduce ||
      x->plan != y->plan || x->is_fma != y->is_fma ||
      x->uses_tf32 != y->uses_tf32 || x->is_approx != y->is_approx ||
      x->outs[0]->dtype != y->outs[0]->dtype) {
    return false;
  }
  for (uint32_t i = 0; i < x->index_count; i++) {
    if (x->indices[i]->extent != y->indices[i]->extent ||
        x->indices[i]->is_reduction != y->indices[i]->is_reduction) {
      return false;
    }
  }
  return true;
}

static void share_block(share_t *s, tir_block_t *block) {
  size_t visible = s->seen.length;
  for (size_t i = 0; i < block->length; i++) {
    tir_node_t *n = block->data[i];
    if (n->kind == TIR_LOOP) share_block(s, &n->body_nodes);
    if (n->kind != TIR_MAP) continue;
    seen_t item = {n, canonical_expr(s, n, n->body),
                   canonical_expr(s, n, n->guard)};
    const seen_t *twin = NULL;
    for (size_t k = 0; k < s->seen.length && twin == NULL; k++) {
      if (is_same(&s->seen.data[k], &item)) twin = &s->seen.data[k];
    }
    if (twin == NULL) {
      td_vec_push(s->scratch, &s->seen, item);
      continue;
    }
    tensor_replace(&s->replacements, n->outs[0], twin->node->outs[0]);
    s->has_changed = true;
  }
  s->seen.length = visible;
}

bool pass_share_common(pass_state_t *state, tir_module_t *module) {
  bool changed = false;
  for (uint32_t f = 0; f < module->func_count; f++) {
    td_arena_t scratch;
    td_arena_init(&scratch, state->task);
    share_t s = {.module = module, .scratch = &scratch};
    tir_interner_init(&s.interner, &scratch);
    tensor_replacements_init(&s.replacements, &scratch);
    share_block(&s, &module->funcs[f]->nodes);
    if (s.has_changed) {
      tensor_apply_replacements(module, module->funcs[f], &s.replacements);
      changed = true;
    }
    td_arena_free_all(&scratch);
  }
  return changed;
}
