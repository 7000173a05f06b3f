/* cuda_text.c: a kernel's frame and header card, and the module around. */
#include "codegen/cuda/cuda_impl.h"

#include <stdarg.h>

#include "codegen/kernel_key.h"
#include "runtime/base/num.h"

#define F(...) td_arena_printf(g->arena, __VA_ARGS__)

enum {
  OWN_ARGS = 4,       /* scratch and what counts block iterations */
  MAX_NEST = 16,
};

const char *cgc_symbol(td_task_t *task, td_arena_t *arena,
                       const kir_kernel_t *kernel) {
  td_buf_t text;
  char hex[33];
  td_buf_init(&text, task);
  kir_print(&text, kernel);
  cg_key_text(cg_kernel_key(td_buf_view(&text), "", "cuda"), hex);
  td_buf_free(&text);
  return td_arena_printf(arena, "tk_%s_%.8s", cg_ascii(arena, kernel->name),
                         hex);
}

/* ---- the card ------------------------------------------------------------ */

static void card_line(cgc_t *g, const char *text) {
  cg_comment(&g->text, td_str(text));
}

static const char *shape_text(cgc_t *g, const kir_buffer_t *b) {
  td_buf_t out;
  td_buf_init(&out, g->task);
  td_buf_puts(&out, td_dtype_name(b->dtype));
  for (uint32_t d = 0; d < b->rank; d++) {
    td_buf_puts(&out, d == 0 ? "[" : ", ");
    ix_print(&out, b->dims[d]);
  }
  if (b->rank > 0) td_buf_putc(&out, ']');
  return td_buf_finish(&out, g->arena);
}

static const char *bytes_text(cgc_t *g, bool of_written) {
  ix_pool_t *pool = g->kernel->pool;
  const ix_poly_t *sum = ix_const(pool, 0);
  for (uint32_t i = 0; i < g->kernel->param_count; i++) {
    const kir_buffer_t *b = g->kernel->params[i];
    if (of_written ? !b->is_written : !b->is_read) continue;
    const ix_poly_t *bytes = ix_const(pool, (int64_t)td_dtype_bytes(b->dtype));
    for (uint32_t d = 0; d < b->rank; d++) {
      bytes = ix_mul(pool, bytes, b->dims[d]);
    }
    sum = ix_add(pool, sum, bytes);
  }
  return sum != NULL ? ix_text(g->arena, sum) : "more than can be counted";
}

static void put_card(cgc_t *g, uint32_t registers) {
  const kir_kernel_t *k = g->kernel;
  const td_source_t *s = td_sources_get(g->task, k->loc.file);
  const char *place = "";
  if (s != NULL && k->loc.line > 0) {
    place = F(", %s:%u",
              cg_line_name(g->task, g->arena, k->loc.file) +
                  (sizeof CG_LINE_ROOT - 1),
              k->loc.line);
  }
  card_line(g, F("%s%s", k->name, place));
  for (const char *at = k->card; at != NULL && *at != '\0';) {
    const char *end = strchr(at, '\n');
    size_t n = end != NULL ? (size_t)(end - at) : strlen(at);
    cg_comment(&g->text, td_str_n(at, n));
    at = end != NULL ? end + 1 : NULL;
  }
  for (uint32_t i = 0; i < k->param_count; i++) {
    const kir_buffer_t *b = k->params[i];
    card_line(g, F("  %s %s: %s",
                   !b->is_written  ? "in   "
                   : b->is_read    ? "inout"
                                   : "out  ",
                   b->name, shape_text(g, b)));
  }
  card_line(g, F("  reads %s B, writes %s B", bytes_text(g, false),
                 bytes_text(g, true)));
  card_line(g, F("  blocks: %s; %s",
                 ix_text(g->arena, kir_block_count(k)),
                 g->warps > 0 ? F("a thread block of %u warps each", g->warps)
                 : g->is_warp ? F("%s warp each, %u in a thread block",
                                g->width == CGC_WARP ? "one" : "half a",
                                g->workers)
                            : "one thread each"));
  card_line(g, F("  shared %u B, scratch %s B each", g->shared_bytes,
                 ix_text(g->arena, g->scratch_used)));
  card_line(g, F("  about %u registers a thread", registers));
}

/* ---- block loops --------------------------------------------------------- */

static bool is_block_loop(const kir_block_t *block) {
  return block->length == 1 && block->data[0]->kind == KIR_LOOP &&
         block->data[0]->loop == KIR_LOOP_BLOCK;
}

/* The number of a block iteration is an int. */
static bool has_int_blocks(cgc_t *g) {
  int64_t lo, hi;
  const ix_poly_t *count = kir_block_count(g->kernel);
  return ix_interval(count, &lo, &hi) && hi <= CGC_INT_MOST;
}

static const char *block_type(cgc_t *g) {
  return has_int_blocks(g) ? "int" : "long long";
}

/* Variable of a block loop from `number`, which counts its iterations. */
static void block_var(cgc_t *g, const kir_stmt_t *s, const char *number) {
  if (g->var_uses[s->var->id] == 0) return;
  const char *lo = cgc_expr(g, s->lo);
  bool is_plain = s->step == 1 || strcmp(number, "0") == 0;
  bool from_zero = strcmp(lo, "0") == 0;
  const char *name = cg_name(g->arena, "v", s->var->id, s->var->name);
  g->var_names[s->var->id] = name;
  const char *type = cgc_type_of(g, kir_var_ref(g->arena, s->var));
  /* few iterations may still have a wide variable */
  bool is_grown = strcmp(type, "int") != 0 && has_int_blocks(g);
  const char *at = is_plain ? number
                            : F("%s%s * %s", is_grown ? "(long long)" : "",
                                number, cgc_int(g, s->step));
  if (strcmp(type, "int") == 0 && !has_int_blocks(g)) at = F("(int)(%s)", at);
  if (from_zero) cg_line(&g->text, "const %s %s = %s;", type, name, at);
  else cg_line(&g->text, "const %s %s = %s + %s;", type, name, lo, at);
}

static const char *trip_text(cgc_t *g, const kir_stmt_t *s) {
  const char *lo = cgc_expr(g, s->lo), *hi = cgc_expr(g, s->hi);
  const cgc_trait_t *a = cgc_trait(g, s->lo), *b = cgc_trait(g, s->hi);
  if (a->is_const && b->is_const && b->value > a->value) {
    return cgc_int(g, (b->value - a->value - 1) / s->step + 1);
  }
  const char *span = strcmp(lo, "0") == 0 ? hi : F("(%s - %s)", hi, lo);
  if (s->step == 1) return span;
  return F("((%s + %s) / %s)", span, cgc_int(g, s->step - 1),
           cgc_int(g, s->step));
}

static bool is_single(cgc_t *g, const kir_stmt_t *s) {
  const cgc_trait_t *a = cgc_trait(g, s->lo), *b = cgc_trait(g, s->hi);
  return a->is_const && b->is_const && b->value > a->value &&
         b->value - a->value <= s->step;
}

/* Sets the variables of the nest from the number of the block iteration: the
 * innermost loop varies fastest. Returns the innermost body. */
static const kir_block_t *block_vars(cgc_t *g) {
  const kir_stmt_t *nest[MAX_NEST];
  uint32_t depth = 0;
  const kir_block_t *body = &g->kernel->body;
  while (is_block_loop(body)) {
    TD_CHECK(g->task, depth < MAX_NEST, "%u block loops", depth);
    nest[depth++] = body->data[0];
    body = &body->data[0]->body;
  }
  const char *rest = "block";
  for (uint32_t i = depth; i > 0; i--) {
    const kir_stmt_t *s = nest[i - 1];
    cgc_begin_stmt(g, s);
    if (is_single(g, s)) {
      block_var(g, s, "0");
      continue;
    }
    if (i == 1) {
      block_var(g, s, rest);
      break;
    }
    const char *trips = trip_text(g, s);
    block_var(g, s, F("%s %% %s", rest, trips));
    bool is_last = true;
    for (uint32_t k = 0; k + 1 < i; k++) {
      is_last &= is_single(g, nest[k]) || g->var_uses[nest[k]->var->id] == 0;
    }
    if (is_last) continue; /* what is left has one turn, or no reader */
    uint32_t n = g->temps++;
    cg_line(&g->text, "const %s t%u = %s / %s;", block_type(g), n, rest,
            trips);
    rest = F("t%u", n);
  }
  return body;
}

/* A worker's iterations share its scratch, and nothing else. */
static void seed_pending(cgc_t *g, const kir_block_t *body) {
  g->pending = cgc_touches(g);
  g->carried = cgc_touches(g);
  for (size_t i = 0; i < body->length; i++) {
    cgc_touch_stmt(g, body->data[i], g->carried);
  }
  for (size_t i = 0; i < g->buffer_list.length; i++) {
    /* blocks meet between iterations */
    bool is_private = g->buffer_list.data[i]->place != CGC_PARAM;
    if (is_private && g->warps == 0) continue;
    g->carried[i] = (cgc_touch_t){0, 0};
  }
}

/* ---- kernels ------------------------------------------------------------- */

static uint32_t block_threads(const cgc_t *g) {
  return g->warps > 0 ? g->warps * CGC_WARP : g->workers * g->width;
}

static void put_signature(cgc_t *g, const char *symbol) {
  const kir_kernel_t *k = g->kernel;
  uint32_t threads = block_threads(g);
  /* one block is enough: the assembler else keeps registers for a second one
   * and spills */
  cg_line(&g->text,
          "extern \"C\" __global__ void __launch_bounds__(%u, 1) %s(", threads,
          symbol);
  g->text.indent += 2;
  for (uint32_t i = 0; i < k->param_count; i++) {
    const kir_buffer_t *b = k->params[i];
    cg_line(&g->text, "%s%s *%s%s,", b->is_written ? "" : "const ",
            cgc_storage_type(g, b->dtype), b->no_alias ? "__restrict__ " : "",
            cgc_buffer(g, b)->name);
  }
  for (uint32_t i = 0; i < k->dim_count; i++) {
    const ix_poly_t *dim = ix_sym(k->pool, k->dims[i]);
    cg_line(&g->text, "%s %s,", cgc_is_int_poly(dim) ? "int" : "long long",
            g->dim_names[i]);
  }
  cg_line(&g->text, "unsigned char *scratch, long long scratch_stride,");
  cg_line(&g->text, "%s workers, %s block_count) {", block_type(g),
          block_type(g));
  g->text.indent -= 1;
}

static void put_body(cgc_t *g, td_buf_t *body) {
  td_buf_t *before = g->text.out;
  uint32_t indent = g->text.indent;
  g->text.out = body;
  g->text.indent = 1;
  cg_open(&g->text, "for (%s block = worker; block < block_count; "
                    "block += workers) {", block_type(g));
  const kir_block_t *inner = block_vars(g);
  seed_pending(g, inner);
  g->text.loc = g->kernel->loc;
  cgc_block(g, inner);
  if (g->warps > 0 && g->shared_bytes > 0) cgc_barrier(g);
  cg_close(&g->text, "}");
  g->text.indent = indent;
  g->text.out = before;
}

static void reset(cgc_t *g, const kir_kernel_t *k) {
  g->kernel = k;
  td_map_t **maps[4] = {&g->buffers, &g->memo, &g->counts, &g->traits};
  for (int i = 0; i < 4; i++) {
    *maps[i] = TD_NEW(g->arena, td_map_t);
    td_map_init(*maps[i], g->arena);
  }
  kir_walker_init(&g->trait_walker, g->arena);
  g->buffer_list.length = 0;
  g->memo_log.length = 0;
  g->temps = 0;
  g->budget = CGC_MAX_EXPRS;
  g->scratch_used = ix_const(k->pool, 0);
  g->dim_names = TD_NEW_ARRAY(g->arena, const char *, k->dim_count + 1);
  for (uint32_t i = 0; i < k->dim_count; i++) {
    g->dim_names[i] = cg_name(g->arena, "d", i, k->dims[i]->name);
  }
  g->depth = g->lanes = g->part = g->parts = 0;
  g->lane_var = NULL;
  g->is_split = g->has_mates = false;
}

_Noreturn void cgc_refuse(cgc_t *g, const char *format, ...) {
  va_list args;
  va_start(args, format);
  const char *text = td_arena_vprintf(g->arena, format, args);
  va_end(args);
  (void)td_diag(g->task, TD_B13, g->kernel->loc, "kernel %s %s",
                g->kernel->name, text);
  td_raise(g->task, TDSL_STATUS_LIMIT, "kernel %s is beyond a limit of %s",
           g->kernel->name, g->options->target->name);
}

static void check_params(cgc_t *g) {
  const kir_kernel_t *k = g->kernel;
  uint64_t bytes = 8 * ((uint64_t)k->param_count + k->dim_count + OWN_ARGS);
  uint32_t most = g->options->target->param_bytes;
  if (bytes <= most) return;
  cgc_refuse(g, "needs %llu bytes of parameters, a kernel of %s has %u",
             (unsigned long long)bytes, g->options->target->name, most);
}

static void put_kernel(cgc_t *g, const kir_kernel_t *k, cgc_kernel_t *out) {
  reset(g, k);
  check_params(g);
  cgc_scan(g);
  cgc_place_buffers(g);
  td_buf_t body;
  td_buf_init(&body, g->task);
  put_body(g, &body);
  out->threads = block_threads(g);
  out->workers = g->workers;
  out->shared_bytes = cgc_block_shared(g);
  out->dynamic_bytes = cgc_dynamic_shared(g);
  out->registers = cgc_registers(g);
  out->scratch_bytes = g->scratch_used;

  g->text.loc = TD_NO_LOC;
  td_buf_putc(g->text.out, '\n');
  put_card(g, out->registers);
  g->text.loc = k->loc;
  put_signature(g, out->symbol);
  cgc_declare_shared(g);
  if (g->warps > 0) {
    cg_line(&g->text, "const int lane = threadIdx.x %% %u;", CGC_WARP);
    cg_line(&g->text, "const int warp = threadIdx.x / %u;", CGC_WARP);
  } else if (g->is_warp) {
    cg_line(&g->text, "const int lane = threadIdx.x;");
  }
  if (g->has_mates) {
    cg_line(&g->text, "const unsigned mates = 0x%xu << (threadIdx.y %% %u * "
                      "%u);",
            (1u << g->width) - 1, CGC_WARP / g->width, g->width);
  }
  if (g->warps > 0) {
    cg_line(&g->text, "const %s worker = blockIdx.x;", block_type(g));
  } else {
    cg_line(&g->text, "const %s worker = (%s)blockIdx.x * %u + threadIdx.y;",
            block_type(g), block_type(g), g->workers);
  }
  cg_line(&g->text, "if (worker >= workers) return;");
  if (g->scratch_used->term_count > 0) {
    cg_line(&g->text, "unsigned char *const slab = scratch + worker * "
                      "scratch_stride;");
  }
  td_buf_put(g->text.out, body.data, body.length);
  cg_close(&g->text, "}");
  td_buf_free(&body);
}

void cgc_emit(td_task_t *task, td_arena_t *arena,
              const kir_kernel_t *const *kernels, uint32_t count,
              const cgc_options_t *options, td_buf_t *out,
              cgc_kernel_t *described) {
  td_arena_t *scratch = TD_NEW(arena, td_arena_t);
  td_arena_init(scratch, task);
  cgc_t *g = TD_NEW(scratch, cgc_t);
  td_buf_t text;
  td_buf_init(&text, task);
  g->task = task;
  g->arena = scratch;
  g->options = options;
  g->text = (cg_text_t){.task = task, .out = &text,
                        .has_lines = options->has_lines};
  for (uint32_t i = 0; i < count; i++) {
    described[i].symbol = cgc_symbol(task, arena, kernels[i]);
    put_kernel(g, kernels[i], &described[i]);
  }
  td_buf_puts(out, "// CUDA C written by tdsl; flags: --fmad=false "
                   "-std=c++17\n\n");
  cgc_put_helpers(g, out);
  td_buf_put(out, text.data, text.length);
  td_buf_free(&text);
  td_arena_free_all(scratch);
}
