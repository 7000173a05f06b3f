/* api_trace.c: the folder of `--trace DIR`, which one attaches to a report.
 *
 *   manifest.json    versions, target, source and its hash, passes with times
 *   NN-PASS.tir|kir  the IR after each pass that changed it (api_debug.c)
 *   kernels/         NAME.kir, NAME.json (card and ledger), MODULE.cu
 *   plan.txt         the plan without machine code
 *   memory.json      where each buffer lies and from when to when it lives
 *   remarks.jsonl    what the passes decided
 *   report.html      all of it on a page (api_report.c)
 *   README           what each name means
 *
 * Weights and inputs never go there. Only the times differ between two
 * compiles of one text. */
#include "driver/api_report.h"
#include "passes/remark.h"
#include "runtime/base/env.h"

const char *drv_trace_folder(const drv_backend_t *b) {
  tdsl_string_t given = b->c->desc->trace_dir;
  return given.length > 0 ? td_str_cstr(b->c->arena, given)
                          : td_env_set(TD_ENV_DUMP_DIR);
}

void drv_trace_write(drv_backend_t *b, const char *name, const char *text,
                     size_t length) {
  td_arena_t *arena = b->c->arena;
  const char *path = td_os_join(arena, drv_trace_folder(b), name);
  if (td_os_make_folders(b->c->task, td_os_folder_of(arena, path))) {
    (void)td_os_write_atomic(b->c->task, path, text, length);
  }
}

/* Writes the text and frees it. */
static void put_file(drv_backend_t *b, const char *name, td_buf_t *text) {
  drv_trace_write(b, name, text->data, text->length);
  td_buf_free(text);
}

static void put_key(td_buf_t *out, const char *key, const char *text) {
  td_buf_printf(out, "\"%s\": ", key);
  if (text != NULL) td_buf_json(out, td_str(text));
  else td_buf_puts(out, "null");
}

/* ---- manifest ----------------------------------------------------------- */

static void put_passes(drv_backend_t *b, td_buf_t *out) {
  bool is_first = true;
  td_buf_puts(out, "  \"passes\": [");
  for (int i = 0; i < PASS_COUNT; i++) {
    const pass_timing_t *t = &b->state.timing[i];
    if (t->runs == 0) continue;
    td_buf_printf(out, "%s\n    {\"name\": \"%s\", \"runs\": %u, "
                  "\"changes\": %u, \"microseconds\": %lld}",
                  is_first ? "" : ",", pass_table[i].name, t->runs,
                  t->changes, (long long)(t->seconds * 1e6));
    is_first = false;
  }
  td_buf_puts(out, "\n  ]\n");
}

static void put_manifest(drv_backend_t *b) {
  drv_compile_t *c = b->c;
  const td_source_t *s = td_sources_get(c->task, c->source);
  td_buf_t out;
  td_buf_init(&out, c->task);
  td_buf_puts(&out, "{\n  \"schema\": 1,\n  \"tdsl\": ");
  td_buf_json(&out, tdsl_version_get_text());
  td_buf_puts(&out, ",\n  ");
  put_key(&out, "target", b->target->name);
  td_buf_puts(&out, ",\n  ");
  put_key(&out, "source", s->name);
  td_buf_printf(&out, ",\n  \"source_fnv1a\": \"%016llx\",\n",
                (unsigned long long)plan_payload_hash(s->text, s->length));
  td_buf_puts(&out, "  ");
  put_key(&out, "disabled_passes", b->options.disabled);
  td_buf_printf(&out, ",\n  \"kernels\": %u,\n", b->kernels.count);
  put_passes(b, &out);
  td_buf_puts(&out, "}\n");
  put_file(b, "manifest.json", &out);
}

/* ---- kernels ------------------------------------------------------------ */

/* Expressions over the kernel's scalars, which are dims and loop variables
 * of the program: so they are named. */
typedef struct named {
  td_buf_t out;
  plan_var_t *vars;
  uint32_t count;
} named_t;

static void put_expr(named_t *n, const char *key, const plan_expr_t *x) {
  td_buf_printf(&n->out, ", \"%s\": \"", key);
  plan_print_expr(&n->out, x, n->vars, n->count);
  td_buf_putc(&n->out, '"');
}

static void put_kernel(drv_backend_t *b, const plan_kernel_t *k,
                       const kir_kernel_t *made) {
  td_arena_t *arena = b->c->arena;
  named_t n = {.count = made->dim_count};
  td_buf_init(&n.out, b->c->task);
  n.vars = TD_NEW_ARRAY(arena, plan_var_t, n.count + 1);
  for (uint32_t i = 0; i < n.count; i++) n.vars[i].name = made->dims[i]->name;
  td_buf_puts(&n.out, "{");
  put_key(&n.out, "name", k->name);
  td_buf_puts(&n.out, ", ");
  put_key(&n.out, "card", k->card);
  td_buf_printf(&n.out, ", \"line\": %u", k->loc.line);
  put_expr(&n, "blocks", &k->block_count);
  put_expr(&n, "read_bytes", &k->ledger.read_bytes);
  put_expr(&n, "written_bytes", &k->ledger.written_bytes);
  put_expr(&n, "flops", &k->ledger.flops);
  td_buf_puts(&n.out, "}\n");
  put_file(b, td_arena_printf(arena, "kernels/%s.json", k->name), &n.out);
}

static void put_kernels(drv_backend_t *b) {
  for (uint32_t k = 0; k < b->plan->kernel_count; k++) {
    put_kernel(b, &b->plan->kernels[k], b->kernels.kernels[k]);
  }
  for (uint32_t m = 0; m < b->plan->module_count; m++) {
    const plan_module_t *module = &b->plan->modules[m];
    if (module->payload != PLAN_PAYLOAD_CUDA) continue;
    drv_trace_write(
        b, td_arena_printf(b->c->arena, "kernels/%s.cu", module->name),
        module->data, module->bytes);
  }
}

/* ---- memory ------------------------------------------------------------- */

static void put_buffer(td_buf_t *out, const plan_entry_t *e,
                       const plan_buffer_t *buffer, const plan_env_t *env) {
  int64_t bytes = 0, offset = 0;
  bool is_slot = buffer->place == PLAN_AT_SLOT;
  (void)plan_eval(&buffer->bytes, env, &bytes);
  if (!is_slot) (void)plan_eval(&buffer->offset, env, &offset);
  td_buf_puts(out, "    {");
  put_key(out, "name", buffer->name);
  td_buf_puts(out, ", ");
  put_key(out, "dtype", td_dtype_name(buffer->dtype));
  td_buf_printf(out, ", \"bytes\": %lld, ", (long long)bytes);
  if (is_slot) {
    put_key(out, "slot", e->slots[buffer->slot].name);
    td_buf_puts(out, "}");
  } else {
    td_buf_printf(out, "\"offset\": %lld, \"first_step\": %u, "
                  "\"last_step\": %u}",
                  (long long)offset, buffer->first_step, buffer->last_step);
  }
}

/* Every dim at its bound, as `dump memory` shows it. */
static void put_entry_memory(drv_backend_t *b, td_buf_t *out,
                             const plan_entry_t *e) {
  int64_t *dims = TD_NEW_ARRAY(b->c->arena, int64_t, e->var_count + 1);
  int64_t arena = 0;
  td_buf_puts(out, "  {");
  put_key(out, "entry", e->name);
  td_buf_puts(out, ", \"dims\": {");
  for (uint32_t v = 0; v < e->dim_count; v++) {
    dims[v] = e->vars[v].bound;
    td_buf_printf(out, "%s\"%s\": %lld", v > 0 ? ", " : "", e->vars[v].name,
                  (long long)dims[v]);
  }
  plan_env_t env = {dims, NULL};
  (void)plan_eval(&e->arena_bytes, &env, &arena);
  td_buf_printf(out, "}, \"arena_bytes\": %lld, \"steps\": %u, "
                "\"buffers\": [",
                (long long)arena, e->step_count);
  for (uint32_t i = 0; i < e->buffer_count; i++) {
    td_buf_puts(out, i > 0 ? ",\n" : "\n");
    put_buffer(out, e, &e->buffers[i], &env);
  }
  td_buf_puts(out, "\n  ]}");
}

static void put_memory(drv_backend_t *b) {
  td_buf_t out;
  td_buf_init(&out, b->c->task);
  td_buf_puts(&out, "{\"schema\": 1, \"entries\": [\n");
  for (uint32_t e = 0; e < b->plan->entry_count; e++) {
    if (e > 0) td_buf_puts(&out, ",\n");
    put_entry_memory(b, &out, &b->plan->entries[e]);
  }
  td_buf_puts(&out, "\n]}\n");
  put_file(b, "memory.json", &out);
}

/* ---- remarks, and the names --------------------------------------------- */

static const char readme[] =
    "What tdsl made of one program.\n"
    "\n"
    "manifest.json    versions, target, the source's hash, passes with times\n"
    "00-lowered.tir   the program as tensors, before all passes\n"
    "NN-PASS.tir      the same after each pass that changed it\n"
    "NN-PASS.kir      kernels after each pass that changed them\n"
    "kernels/         NAME.kir the kernels as they are compiled; NAME.json\n"
    "                 what each is and moves; NAME.cu CUDA C, for GPUs\n"
    "plan.txt         buffers and launches in order; `tdslc opt` reads it\n"
    "memory.json      offsets and lives of buffers, all dims at their bounds\n"
    "remarks.jsonl    what the passes decided, and the bytes it costs\n"
    "report.html      source, decisions, kernels and memory on one page\n"
    "\n"
    "No weights, no inputs. The texts name files and tensors of the program.\n";

void drv_trace_begin(drv_backend_t *b) {
  if (drv_trace_folder(b) == NULL) return;
  struct pass_remarks *remarks = TD_NEW(b->c->arena, struct pass_remarks);
  remarks->arena = b->c->arena;
  b->state.remarks = remarks;
}

void drv_trace_end(drv_backend_t *b) {
  if (drv_trace_folder(b) == NULL) return;
  td_buf_t out;
  td_buf_init(&out, b->c->task);
  pass_remarks_print(&out, b->c->task, b->state.remarks, b->c->source, 0,
                     true);
  put_file(b, "remarks.jsonl", &out);
  put_manifest(b);
  put_kernels(b);
  put_memory(b);
  drv_report_html(b, &out);
  put_file(b, "report.html", &out);
  drv_trace_write(b, "README", readme, sizeof readme - 1);
}
