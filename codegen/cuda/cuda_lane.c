/* cuda_lane.c: lane loops: lane l is thread l of the worker, and thread l - 32
 * in a second part.
 *
 * All lanes execute a statement before the next one starts.  Where no lane
 * sees what another one does, a thread may run through the body by itself:
 * the loop is one `if`.  Otherwise each statement is written for all parts
 * under conditions onN_P, with a __syncwarp where it is needed. */
#include "codegen/cuda/cuda_impl.h"

#define F(...) td_arena_printf(g->arena, __VA_ARGS__)

enum { MOST_PARTS = 2 };

/* ---- which form ---------------------------------------------------------- */

static bool meets_itself(cgc_t *g, const cgc_touch_t *own) {
  cgc_touch_t *reads = cgc_touches(g), *writes = cgc_touches(g);
  for (size_t i = 0; i < g->buffer_list.length; i++) {
    reads[i].read = own[i].read;
    writes[i].write = own[i].write;
  }
  return cgc_conflict(g, reads, writes);
}

static bool has_fold(cgc_t *g, const kir_stmt_t *s) {
  for (uint32_t i = 0; i < kir_stmt_expr_count(s); i++) {
    if (cgc_trait(g, kir_stmt_expr(s, i))->has_fold) return true;
  }
  return false;
}

static bool needs_steps(cgc_t *g, const kir_block_t *block,
                        cgc_touch_t *before) {
  for (size_t i = 0; i < block->length; i++) {
    const kir_stmt_t *s = block->data[i];
    cgc_touch_t *own = cgc_touches(g);
    cgc_touch_own(g, s, own);
    if (has_fold(g, s) || meets_itself(g, own) ||
        cgc_conflict(g, before, own)) {
      return true;
    }
    cgc_add_touches(g, before, own);
    if (needs_steps(g, &s->body, before) ||
        needs_steps(g, &s->orelse, before)) {
      return true;
    }
  }
  return false;
}

/* ---- threads by themselves ----------------------------------------------- */

static void free_block(cgc_t *g, const kir_block_t *block);

static void free_statement(cgc_t *g, const kir_stmt_t *s) {
  if (s->kind == KIR_COMMENT) {
    cg_comment(&g->text, td_str(s->text));
    return;
  }
  cgc_begin_stmt(g, s);
  switch ((int)s->kind) {
    case KIR_LET: cgc_let(g, s); return;
    case KIR_STORE: cgc_put_store(g, s, cgc_expr(g, s->value)); return;
    case KIR_COPY: cgc_put_copy(g, s); return;
    case KIR_ASYNC: cgc_put_async(g, s); return;
    case KIR_IF:
      cg_open(&g->text, "if (%s) {", cgc_bare(g, cgc_expr(g, s->mask)));
      free_block(g, &s->body);
      if (s->orelse.length > 0) {
        g->text.indent--;
        cg_open(&g->text, "} else {");
        free_block(g, &s->orelse);
      }
      cg_close(&g->text, "}");
      return;
    default: TD_ICE(g->task, "statement %d in a lane loop", (int)s->kind);
  }
}

static void free_block(cgc_t *g, const kir_block_t *block) {
  for (size_t i = 0; i < block->length; i++) {
    const kir_stmt_t *s = block->data[i];
    td_loc_t before = g->text.loc;
    if (s->loc.line > 0) g->text.loc = s->loc;
    if (!cgc_is_idle(g, s)) free_statement(g, s);
    g->text.loc = before;
  }
}

/* lane < c, which says more than that the lane exists. */
static bool is_bound(const cgc_t *g, const kir_expr_t *e) {
  return e != NULL && e->op == KIR_X_LT && e->args[0]->op == KIR_X_VAR &&
         e->args[0]->u.var == g->lane_var && e->args[1]->op == KIR_X_CONST &&
         e->args[1]->u.i64 <= (int64_t)g->lanes;
}

static bool has_let(const kir_block_t *block) {
  for (size_t i = 0; i < block->length; i++) {
    if (block->data[i]->kind == KIR_LET) return true;
  }
  return false;
}

/* The mask may need lines of its own, which only lanes that exist may run. */
static void free_loop(cgc_t *g, const kir_stmt_t *s) {
  bool is_part = g->lanes < g->width && !is_bound(g, s->mask);
  const char *mask = NULL;
  uint32_t open = 0;
  td_buf_t lines, *before = g->text.out;
  td_buf_init(&lines, g->task);
  cgc_begin_stmt(g, s);
  if (s->mask != NULL) {
    g->text.out = &lines;
    g->text.indent += is_part;
    mask = cgc_bare(g, cgc_expr(g, s->mask));
    g->text.indent -= is_part;
    g->text.out = before;
  }
  if (is_part && mask != NULL && lines.length == 0) {
    cg_open(&g->text, "if (lane < %u && %s) {", g->lanes,
            strpbrk(mask, "&|?") != NULL ? F("(%s)", mask) : mask);
    open = 1;
  } else {
    if (is_part) {
      cg_open(&g->text, "if (lane < %u) {", g->lanes);
      open++;
    }
    td_buf_put(g->text.out, lines.data, lines.length);
    if (mask != NULL) {
      cg_open(&g->text, "if (%s) {", mask);
      open++;
    } else if (!is_part && has_let(&s->body)) {
      cg_open(&g->text, "{");
      open++;
    }
  }
  td_buf_free(&lines);
  free_block(g, &s->body);
  while (open-- > 0) cg_close(&g->text, "}");
}

/* ---- statement by statement ---------------------------------------------- */

/* Names of the conditions of the parts. */
typedef struct on {
  const char *part[MOST_PARTS];
} on_t;

static void step_block(cgc_t *g, const kir_block_t *block, const on_t *on);

/* bool NAME = false; if (ON) NAME = COND; */
static on_t narrow(cgc_t *g, const kir_stmt_t *s, const on_t *on) {
  on_t out;
  uint32_t n = g->temps++;
  for (g->part = 0; g->part < g->parts; g->part++) {
    const char *name = F("on%u_%u", n, g->part);
    out.part[g->part] = name;
    cgc_begin_stmt(g, s);
    cg_line(&g->text, "bool %s = false;", name);
    cg_open(&g->text, "if (%s) {", on->part[g->part]);
    cg_line(&g->text, "%s = %s;", name, cgc_bare(g, cgc_expr(g, s->mask)));
    cg_close(&g->text, "}");
  }
  return out;
}

static on_t others(cgc_t *g, const on_t *on, const on_t *not) {
  on_t out;
  uint32_t n = g->temps++;
  for (uint32_t p = 0; p < g->parts; p++) {
    out.part[p] = F("on%u_%u", n, p);
    cg_line(&g->text, "const bool %s = %s && !%s;", out.part[p], on->part[p],
            not->part[p]);
  }
  return out;
}

static void step_let(cgc_t *g, const kir_stmt_t *s, const on_t *on) {
  const char *name = cg_name(g->arena, "v", s->var->id, s->var->name);
  g->var_names[s->var->id] = name;
  for (g->part = 0; g->part < g->parts; g->part++) {
    cgc_begin_stmt(g, s);
    cg_line(&g->text, "%s %s_%u = 0;", cgc_type_of(g, s->value), name,
            g->part);
    cg_open(&g->text, "if (%s) {", on->part[g->part]);
    cg_line(&g->text, "%s_%u = %s;", name, g->part,
            cgc_bare(g, cgc_expr(g, s->value)));
    cg_close(&g->text, "}");
  }
}

static void step_store(cgc_t *g, const kir_stmt_t *s, const on_t *on,
                       bool apart) {
  uint32_t n = apart ? g->temps++ : 0;
  for (g->part = 0; g->part < g->parts; g->part++) {
    cgc_begin_stmt(g, s);
    if (apart) {
      cg_line(&g->text, "%s t%u_%u = 0;", cgc_type(g, s->value->type), n,
              g->part);
    }
    cg_open(&g->text, "if (%s) {", on->part[g->part]);
    const char *v = cgc_expr(g, s->value);
    if (apart) {
      cg_line(&g->text, "t%u_%u = %s;", n, g->part, cgc_bare(g, v));
    } else {
      cgc_put_store(g, s, v);
    }
    cg_close(&g->text, "}");
  }
  if (!apart) return;
  cgc_put_sync(g);
  for (g->part = 0; g->part < g->parts; g->part++) {
    cgc_begin_stmt(g, s);
    cg_open(&g->text, "if (%s) {", on->part[g->part]);
    cgc_put_store(g, s, F("t%u_%u", n, g->part));
    cg_close(&g->text, "}");
  }
}

static void step_copy(cgc_t *g, const kir_stmt_t *s, const on_t *on) {
  void (*put)(cgc_t *, const kir_stmt_t *) =
      s->kind == KIR_ASYNC ? cgc_put_async : cgc_put_copy;
  for (g->part = 0; g->part < g->parts; g->part++) {
    cgc_begin_stmt(g, s);
    cg_open(&g->text, "if (%s) {", on->part[g->part]);
    put(g, s);
    cg_close(&g->text, "}");
  }
}

static void step_statement(cgc_t *g, const kir_stmt_t *s, const on_t *on) {
  cgc_touch_t *own = cgc_touches(g);
  if (s->kind == KIR_COMMENT) {
    cg_comment(&g->text, td_str(s->text));
    return;
  }
  cgc_touch_own(g, s, own);
  cgc_sync_before(g, own);
  switch ((int)s->kind) {
    case KIR_LET: step_let(g, s, on); break;
    case KIR_STORE: step_store(g, s, on, meets_itself(g, own)); break;
    case KIR_COPY: case KIR_ASYNC: step_copy(g, s, on); break;
    case KIR_IF: {
      on_t yes = narrow(g, s, on);
      step_block(g, &s->body, &yes);
      if (s->orelse.length > 0) {
        on_t no = others(g, on, &yes);
        step_block(g, &s->orelse, &no);
      }
      break;
    }
    default: TD_ICE(g->task, "statement %d in a lane loop", (int)s->kind);
  }
  g->part = 0;
}

static void step_block(cgc_t *g, const kir_block_t *block, const on_t *on) {
  for (size_t i = 0; i < block->length; i++) {
    const kir_stmt_t *s = block->data[i];
    td_loc_t before = g->text.loc;
    if (s->loc.line > 0) g->text.loc = s->loc;
    if (!cgc_is_idle(g, s)) step_statement(g, s, on);
    g->text.loc = before;
  }
}

static void step_loop(cgc_t *g, const kir_stmt_t *s) {
  on_t on;
  uint32_t n = g->temps++;
  cg_open(&g->text, "{");
  for (uint32_t p = 0; p < g->parts; p++) {
    uint32_t left = g->lanes - p * g->width;
    on.part[p] = "true";
    if (left >= g->width) continue;
    on.part[p] = F("on%u_%u", n, p);
    cg_line(&g->text, "const bool %s = lane < %u;", on.part[p], left);
  }
  if (s->mask != NULL) {
    cgc_touch_t *own = cgc_touches(g);
    cgc_touch_own(g, s, own);
    cgc_sync_before(g, own);
    on = narrow(g, s, &on);
    g->part = 0;
  }
  step_block(g, &s->body, &on);
  cg_close(&g->text, "}");
}

void cgc_lane_loop(cgc_t *g, const kir_stmt_t *s) {
  TD_CHECK(g->task, g->lanes == 0 && s->hi->op == KIR_X_CONST,
           "lane loop over %s", s->var->name);
  g->lanes = (uint32_t)s->hi->u.i64;
  g->lane_var = s->var;
  g->parts = (g->lanes + g->width - 1) / g->width;
  g->part = 0;
  TD_CHECK(g->task, g->parts <= MOST_PARTS, "%u lanes", g->lanes);
  cgc_touch_t *own = cgc_touches(g);
  cgc_touch_own(g, s, own);
  g->is_split = g->parts > 1 || has_fold(g, s) ||
                needs_steps(g, &s->body, own);
  if (g->is_split) {
    step_loop(g, s);
  } else {
    cgc_touch_t *all = cgc_touches(g);
    uint32_t lanes = g->lanes;
    cgc_touch_stmt(g, s, all);
    g->lanes = lanes;
    g->lane_var = s->var;
    cgc_sync_before(g, all);
    free_loop(g, s);
  }
  g->is_split = false;
  g->lanes = 0;
  g->parts = g->part = 0;
  g->lane_var = NULL;
}
