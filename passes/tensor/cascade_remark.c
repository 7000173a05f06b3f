/* cascade_remark.c: what is said of a region: that it became one sweep, with
 * its state and gauge, or which expression keeps which member from it. */
#include "passes/remark.h"
#include "passes/tensor/cascade.h"

static uint64_t key_of(const void *p) {
  return (uint64_t)(uintptr_t)p;
}

/* ---- the state ----------------------------------------------------------- */

typedef struct reads {
  const cascade_region_t *r;
  td_map_t data; /* tir_value_t* -> itself: read along the axis by statistics */
  bool is_asking, is_data, is_along;
} reads_t;

static void note_read(void *user, tir_expr_t *e) {
  reads_t *s = user;
  if (e->op != TIR_X_LOAD || !cascade_is_along(s->r, e)) return;
  s->is_along = true;
  if (s->is_asking) {
    s->is_data |= td_map_get_u64(&s->data, key_of(e->u.value)) != NULL;
  } else {
    td_map_put_u64(&s->data, key_of(e->u.value), e);
  }
}

/* The tensors of members that other members read the results of. */
static void find_data(const cascade_region_t *r, reads_t *s) {
  *s = (reads_t){.r = r};
  td_map_init(&s->data, r->scratch);
  for (uint32_t i = 0; i < r->member_count; i++) {
    const cascade_member_t *m = &r->members[i];
    bool is_statistic = false;
    for (size_t k = 0; k < r->block->length && !is_statistic; k++) {
      tir_node_t *n = r->block->data[k];
      if (n == m->node || td_map_get_u64(&r->dependents, key_of(n)) == NULL) {
        continue;
      }
      for (uint32_t x = 0; x < tir_node_expr_count(n); x++) {
        is_statistic |= tir_mentions_value(r->scratch, *tir_node_expr(n, x),
                                           m->node->outs[0]);
      }
    }
    if (!is_statistic || m->parallel > r->row_count) continue;
    if (m->guard != NULL) tir_walk(r->scratch, m->guard, note_read, s);
    tir_walk(r->scratch, m->body, note_read, s);
  }
  s->is_asking = true;
}

/* A sum over tensors that no statistic is of: one for all rows, and for all
 * runs with the same weights. */
static bool is_of_weights(cascade_region_t *r, reads_t *s,
                          const cascade_component_t *c) {
  if (c->reduce != TIR_REDUCE_SUM || c->sum == NULL || s->data.length == 0) {
    return false;
  }
  s->is_data = s->is_along = false;
  tir_expr_t *e = cascade_to_expr(&r->norm, c->sum, c->type);
  if (c->live != NULL) tir_walk(r->scratch, c->live, note_read, s);
  tir_walk(r->scratch, e, note_read, s);
  return s->is_along && !s->is_data;
}

static const char *plus(td_arena_t *arena, const char *a, const char *b) {
  return a == NULL ? b : td_arena_printf(arena, "%s + %s", a, b);
}

/* Floats of state a row holds during the sweep, as `2 + 64`; sums of weights
 * behind them, as ` and 8 + 8 of weights`. */
static const char *state_size(cascade_region_t *r) {
  td_arena_t *arena = r->scratch;
  uint32_t scalars = r->pivot_count / 3;
  for (uint32_t i = 0; i < r->top_count; i++) {
    scalars += 2 * (uint32_t)r->tops[i].node->k;
  }
  const char *wide = NULL, *weights = NULL;
  reads_t reads;
  find_data(r, &reads);
  for (uint32_t i = 0; i < r->component_count; i++) {
    const cascade_component_t *c = r->components[i];
    bool is_weights = is_of_weights(r, &reads, c);
    if (c->stands_for != NULL || cascade_is_count(r, c)) continue;
    if (c->extra_count == 0 && !is_weights) {
      scalars++;
      continue;
    }
    const char *one = c->extra_count == 0 ? "1" : "";
    for (uint32_t k = 0; k < c->extra_count; k++) {
      one = td_arena_printf(arena, "%s%s%s", one, k == 0 ? "" : "*",
                            ix_text(arena, c->extras[k]->extent));
    }
    if (is_weights) weights = plus(arena, weights, one);
    else wide = plus(arena, wide, one);
  }
  const char *text = td_arena_printf(arena, "%u", scalars);
  if (wide != NULL) text = plus(arena, text, wide);
  text = td_arena_printf(arena, "%s floats a row", text);
  if (weights == NULL) return text;
  return td_arena_printf(arena, "%s and %s of weights", text, weights);
}

/* ---- what became one sweep ----------------------------------------------- */

/* What makes the results of a rounding other than those of the text. */
static const char *rounding_note(const cascade_region_t *r) {
  for (uint32_t i = 0; i < r->component_count; i++) {
    const cascade_sum_t *s = r->components[i]->sum;
    for (uint32_t t = 0; s != NULL && t < s->count; t++) {
      for (uint32_t k = 0; k < s->terms[t].count; k++) {
        if (s->terms[t].factors[k].atom->kind == CASCADE_ROUND) {
          return ", weights rounded as seen from it";
        }
      }
    }
  }
  return "";
}

void cascade_remark_done(cascade_region_t *r, bool is_streamed) {
  static const char *const kinds[] = {
      [CASCADE_NONE] = "none", [CASCADE_PIVOT] = "pivot",
      [CASCADE_RUNNING] = "running", [CASCADE_SCALE] = "scale",
      [CASCADE_CONSTANT] = "constant", [CASCADE_MEAN] = "running",
      [CASCADE_LAZY] = "lazy"};
  const char *names = "";
  for (uint32_t i = 0; i < r->member_count; i++) {
    names = td_arena_printf(r->scratch, "%s%s%s", names, i == 0 ? "" : ", ",
                            r->members[i].node->outs[0]->name);
  }
  remark_t *remark = pass_remark(
      r->state, "find-cascades",
      REMARK_CODE_FUSE_CASCADE, r->members[0].node->loc,
      "one sweep over %s for %s: state of %s, gauge %s%s, %s",
      r->axis_text, names, state_size(r), kinds[r->kind], rounding_note(r),
      is_streamed ? "plan stream"
                  : "not taken: the sweeps of the text cost no more here");
  if (remark == NULL) return;
  for (uint32_t i = 1; i < r->member_count; i++) {
    pass_remark_place(remark, r->members[i].node->loc);
  }
  pass_remark_number(remark, "bytes_in_one_sweep", cascade_bytes_once(r));
  pass_remark_number(remark, "bytes_as_written",
                     cascade_bytes_apart(r));
}

/* What a map along the axis is needed for besides: a second sweep. */
void cascade_remark_escapes(const cascade_region_t *r) {
  for (size_t i = 0; i < r->inlined.length; i++) {
    const tir_node_t *n = r->inlined.entries[i].value;
    bool is_result = false;
    for (uint32_t s = 0; s < r->func->slot_count; s++) {
      is_result |= r->func->slots[s].result == n->outs[0];
    }
    if (!is_result) continue;
    (void)pass_remark(r->state, "find-cascades",
                      REMARK_CODE_FUSE_OTHER_CONSUMER, n->loc,
                      "a second sweep over %s for %s, which is a result "
                      "(reason: escape)",
                      r->axis_text, n->outs[0]->name);
  }
}

/* ---- what did not -------------------------------------------------------- */

static remark_code_t code_of(cascade_reason_t reason) {
  if (reason == CASCADE_SIGN) return REMARK_CODE_FUSE_SIGN_UNKNOWN;
  if (reason == CASCADE_CLASS) return REMARK_CODE_FUSE_CLASS;
  return REMARK_CODE_FUSE_UNSPLITTABLE;
}

typedef struct sources {
  const cascade_region_t *r;
  const char *text;
} sources_t;

/* `m of line 4`: what an expression reads that depends on a member. */
static void note_source(void *user, tir_expr_t *e) {
  sources_t *s = user;
  const tir_node_t *def = e->op == TIR_X_LOAD ? e->u.value->def : NULL;
  if (def == NULL ||
      td_map_get_u64(&s->r->dependents, key_of(def)) == NULL) {
    return;
  }
  s->text = td_arena_printf(s->r->scratch, "%s%s%s of line %u", s->text,
                            s->text[0] == '\0' ? "" : ", ",
                            e->u.value->name, def->loc.line);
}

void cascade_remark_refused(const cascade_region_t *r) {
  const cascade_member_t *m = r->refused;
  td_buf_t at;
  td_buf_init(&at, r->state->task);
  cascade_print_expr(&at, r->at);
  const char *expr = td_buf_finish(&at, r->scratch);
  td_loc_t loc = r->at->loc.line != 0 ? r->at->loc : m->node->loc;
  sources_t s = {r, ""};
  tir_walk(r->scratch, (tir_expr_t *)(uintptr_t)key_of(r->at), note_source,
           &s);
  remark_t *remark = pass_remark(
      r->state, "find-cascades", code_of(r->reason), loc,
      "a sweep of its own over %s for %s: `%s` mixes what varies along it "
      "with %s (reason: %s)",
      r->axis_text, m->node->outs[0]->name, expr,
      s.text[0] == '\0' ? "a result" : s.text,
      cascade_reason_text(r->reason));
  if (remark == NULL) return;
  for (uint32_t i = 0; i < r->member_count; i++) {
    if (&r->members[i] == m) continue;
    pass_remark_place(remark, r->members[i].node->loc);
  }
  pass_remark_number(remark, "bytes_read_again", cascade_bytes_again(r, m));
}

typedef struct crossing {
  const cascade_region_t *r;
  const tir_expr_t *inner;  /* a reduction read along the axis */
  const tir_value_t *tensor; /* what both it and the sink read */
  td_map_t loads;
  bool is_inner;
} crossing_t;

static void note_crossing(void *user, tir_expr_t *e) {
  crossing_t *c = user;
  if (e->op != TIR_X_LOAD || e->arg_count == 0) return;
  if (!c->is_inner) {
    td_map_put_u64(&c->loads, key_of(e->u.value), e);
  } else if (td_map_get_u64(&c->loads, key_of(e->u.value)) != NULL) {
    c->tensor = e->u.value;
  }
}

/* A lone reduction that reads, along its axis, another one over the same
 * tensor: two sweeps, whatever the bodies. */
void cascade_remark_crossing(const cascade_region_t *r) {
  const cascade_member_t *m = &r->members[0];
  crossing_t c = {.r = r};
  td_map_init(&c.loads, r->scratch);
  tir_walk(r->scratch, m->body, note_crossing, &c);
  c.is_inner = true;
  for (size_t i = 0; i < c.loads.length && c.tensor == NULL; i++) {
    tir_expr_t *load = c.loads.entries[i].value;
    const tir_node_t *def = load->u.value->def;
    if (def == NULL || def->kind != TIR_MAP ||
        def->reduce == TIR_REDUCE_NONE || !cascade_is_along(r, load)) {
      continue;
    }
    c.inner = load;
    tir_walk(r->scratch, def->body, note_crossing, &c);
  }
  if (c.tensor == NULL) return;
  (void)pass_remark(
      r->state, "find-cascades", REMARK_CODE_FUSE_UNSPLITTABLE,
      c.inner->loc.line != 0 ? c.inner->loc : m->node->loc,
      "a sweep of its own over %s for %s: %s of line %u is a reduction over "
      "another axis of %s, read along this one (reason: axis)",
      r->axis_text, m->node->outs[0]->name, c.inner->u.value->name,
      c.inner->u.value->def->loc.line, c.tensor->name);
}
