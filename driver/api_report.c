/* api_report.c: report.html of a trace folder, one file that loads nothing.
 *
 * The source with what the passes decided at each line; every kernel with its
 * card, ledger, kernel IR and, on GPUs, CUDA C; the arena over the steps.  A
 * click on a source line leaves what touches it; without scripts all is
 * shown.  Texts are escaped: names and strings of the program are data. */
#include "driver/api_report.h"

#include "passes/remark.h"

static const char style[] =
    "<style>\n"
    ":root{color-scheme:light dark;--fg:#1d2330;--bg:#fff;--dim:#667085;"
    "--line:#dfe3ea;--done:#1a7f4b;--refused:#b3401f;--note:#3b5fa8;"
    "--mark:#fff4cc}\n"
    "@media(prefers-color-scheme:dark){:root{--fg:#e3e7ee;--bg:#14171d;"
    "--dim:#98a2b3;--line:#2c3340;--done:#5fd39a;--refused:#f0916f;"
    "--note:#8fb0f5;--mark:#3a3416}}\n"
    "body{margin:0;font:14px/1.45 system-ui,sans-serif;color:var(--fg);"
    "background:var(--bg)}\n"
    "header,section{padding:12px 20px;border-bottom:1px solid var(--line)}\n"
    "h1{font-size:18px;margin:0}h2{font-size:15px;margin:0 0 8px}\n"
    "header p{margin:4px 0 0;color:var(--dim)}\n"
    ".pair{display:grid;grid-template-columns:minmax(0,1fr) minmax(0,1fr);"
    "gap:20px}\n"
    ".pair>div:first-child{position:sticky;top:0;align-self:start;"
    "max-height:100vh;overflow:auto}\n"
    "@media(max-width:900px){.pair{grid-template-columns:1fr}}\n"
    "pre{font:12px/1.5 ui-monospace,monospace;margin:0;overflow:auto}\n"
    ".src a{display:block;white-space:pre;color:inherit;"
    "text-decoration:none;border-left:3px solid transparent;"
    "padding-left:6px}\n"
    ".src a:hover,.src a.on{background:var(--mark)}\n"
    ".src .has{border-left-color:var(--note)}\n"
    ".src .cost{border-left-color:var(--refused)}\n"
    ".src i{color:var(--dim);font-style:normal;display:inline-block;"
    "width:3em;text-align:right;margin-right:1em}\n"
    "ul{list-style:none;margin:0;padding:0}\n"
    "li{border-left:3px solid;padding:2px 0 2px 8px;margin:0 0 8px}\n"
    ".done{border-color:var(--done)}.refused{border-color:var(--refused)}"
    ".note{border-color:var(--note)}\n"
    "li b{font:600 12px ui-monospace,monospace}li small,dd small{"
    "color:var(--dim);display:block;white-space:pre-line}\n"
    "details{margin:0 0 8px;border:1px solid var(--line);"
    "border-radius:6px;padding:6px 10px}summary{cursor:pointer}\n"
    "table{border-collapse:collapse;margin:6px 0}td,th{text-align:left;"
    "padding:1px 14px 1px 0;font-weight:400}th{color:var(--dim)}\n"
    ".off{display:none}svg text{font:11px ui-monospace,monospace;"
    "fill:var(--fg)}svg rect.b{fill:var(--note);fill-opacity:.35;"
    "stroke:var(--note)}\n"
    "</style>\n";

static const char script[] =
    "<script>\n"
    "(()=>{let on=0;const all=document.querySelectorAll('[data-lines]');\n"
    "document.querySelectorAll('.src a').forEach(a=>a.addEventListener("
    "'click',e=>{e.preventDefault();\n"
    "const n=a.dataset.n;on=on===n?0:n;\n"
    "document.querySelectorAll('.src a').forEach(x=>"
    "x.classList.toggle('on',x.dataset.n===on));\n"
    "all.forEach(x=>x.classList.toggle('off',!!on&&"
    "!x.dataset.lines.split(' ').includes(on)));\n"
    "}));})();\n"
    "</script>\n";

typedef struct report {
  drv_backend_t *b;
  td_buf_t out;
} report_t;

static void put(report_t *r, const char *text) {
  td_buf_puts(&r->out, text);
}

static void put_escaped_n(report_t *r, const char *text, size_t length) {
  for (size_t i = 0; i < length; i++) {
    switch (text[i]) {
      case '<': put(r, "&lt;"); break;
      case '>': put(r, "&gt;"); break;
      case '&': put(r, "&amp;"); break;
      case '"': put(r, "&quot;"); break;
      default: td_buf_putc(&r->out, text[i]); break;
    }
  }
}

static void put_escaped(report_t *r, const char *text) {
  put_escaped_n(r, text, strlen(text));
}

/* ---- source and remarks -------------------------------------------------- */

static uint32_t source_of(const report_t *r) {
  return r->b->c->source;
}

/* 0: nothing is said of the line, 1: something, 2: it costs bytes. */
static int weight_of(const report_t *r, uint32_t line) {
  int weight = 0;
  const struct pass_remarks *all = r->b->state.remarks;
  for (size_t i = 0; i < all->list.length; i++) {
    const remark_t *m = all->list.data[i];
    if (m->places[0].file != source_of(r) || m->places[0].line != line) {
      continue;
    }
    bool costs = pass_remark_table[m->code].kind == REMARK_REFUSED;
    if (costs) return 2;
    weight = 1;
  }
  return weight;
}

static void put_source(report_t *r) {
  static const char *const classes[] = {"", "has", "cost"};
  const td_source_t *s = td_sources_get(r->b->c->task, source_of(r));
  const char *at = s->text, *end = s->text + s->length;
  put(r, "<div><h2>Source</h2><pre class=\"src\">");
  for (uint32_t line = 1; at < end; line++) {
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    if (stop == NULL) stop = end;
    td_buf_printf(&r->out, "<a href=\"#\" data-n=\"%u\" class=\"%s\"><i>%u</i>",
                  line, classes[weight_of(r, line)], line);
    put_escaped_n(r, at, (size_t)(stop - at));
    put(r, "</a>");
    at = stop < end ? stop + 1 : end;
  }
  put(r, "</pre></div>\n");
}

static void put_lines(report_t *r, const td_loc_t *places, uint32_t count) {
  bool is_first = true;
  put(r, " data-lines=\"");
  for (uint32_t i = 0; i < count; i++) {
    uint32_t last = places[i].end_line;
    if (places[i].file != source_of(r)) continue;
    if (last < places[i].line) last = places[i].line;
    for (uint32_t n = places[i].line; n <= last; n++) {
      td_buf_printf(&r->out, is_first ? "%u" : " %u", n);
      is_first = false;
    }
  }
  put(r, "\"");
}

static void put_number(report_t *r, const remark_number_t *n) {
  td_buf_t text;
  td_buf_init(&text, r->b->c->task);
  pass_remark_number_print(&text, n);
  put(r, "<small>");
  put_escaped_n(r, text.data, text.length);
  put(r, "</small>");
  td_buf_free(&text);
}

static void put_remarks(report_t *r) {
  static const char *const kinds[] = {"done", "refused", "note"};
  const struct pass_remarks *all = r->b->state.remarks;
  put(r, "<div><h2>What the passes decided</h2><ul>\n");
  for (size_t i = 0; i < all->list.length; i++) {
    const remark_t *m = all->list.data[i];
    const remark_info_t *info = &pass_remark_table[m->code];
    td_buf_printf(&r->out, "<li class=\"%s\"", kinds[info->kind]);
    put_lines(r, m->places, m->place_count);
    td_buf_printf(&r->out, "><b>%s</b> ", info->name);
    if (m->places[0].file != source_of(r)) {
      const td_source_t *s =
          td_sources_get(r->b->c->task, m->places[0].file);
      put_escaped(r, s != NULL ? s->name : "?");
      put(r, " ");
    }
    td_buf_printf(&r->out, "line %u: ", m->places[0].line);
    const char *rest = strchr(m->text, '\n');
    put_escaped_n(r, m->text,
                  rest != NULL ? (size_t)(rest - m->text) : strlen(m->text));
    if (rest != NULL) {
      put(r, "<small>");
      put_escaped(r, rest + 1);
      put(r, "</small>");
    }
    for (uint32_t n = 0; n < m->number_count; n++) {
      put_number(r, &m->numbers[n]);
    }
    if (m->hint != NULL) {
      put(r, "<small>help: ");
      put_escaped(r, m->hint);
      put(r, "</small>");
    }
    put(r, "</li>\n");
  }
  put(r, "</ul></div>\n");
}

/* ---- kernels ------------------------------------------------------------- */

enum { MOST_PLACES = 64 };

/* Places of the nodes of a group, also inside loops. */
static void collect(const tir_block_t *block, uint32_t group,
                    td_loc_t *places, uint32_t *count) {
  for (size_t i = 0; i < block->length; i++) {
    const tir_node_t *n = block->data[i];
    if (n->kind == TIR_LOOP) collect(&n->body_nodes, group, places, count);
    if (n->group == group && *count < MOST_PLACES) {
      places[(*count)++] = n->loc;
    }
  }
}

static void put_row(report_t *r, const char *name, const plan_expr_t *x,
                    const plan_var_t *vars, uint32_t count) {
  td_buf_t text;
  td_buf_init(&text, r->b->c->task);
  plan_print_expr(&text, x, vars, count);
  td_buf_printf(&r->out, "<tr><th>%s</th><td>", name);
  put_escaped_n(r, text.data, text.length);
  put(r, "</td></tr>");
  td_buf_free(&text);
}

static void put_kernel(report_t *r, uint32_t k) {
  drv_backend_t *b = r->b;
  const plan_kernel_t *plan = &b->plan->kernels[k];
  const kir_kernel_t *kernel = b->kernels.kernels[k];
  td_loc_t places[MOST_PLACES];
  uint32_t count = 0, dims = kernel->dim_count;
  plan_var_t *vars = TD_NEW_ARRAY(b->c->arena, plan_var_t, dims + 1);
  for (uint32_t i = 0; i < dims; i++) vars[i].name = kernel->dims[i]->name;
  collect(&b->kernels.funcs[k]->nodes, b->kernels.groups[k], places, &count);
  put(r, "<details");
  put_lines(r, places, count);
  put(r, "><summary>");
  put_escaped(r, plan->name);
  put(r, "</summary><small>");
  if (plan->card != NULL) put_escaped(r, plan->card);
  put(r, "</small><table>");
  put_row(r, "blocks", &plan->block_count, vars, dims);
  put_row(r, "bytes read", &plan->ledger.read_bytes, vars, dims);
  put_row(r, "bytes written", &plan->ledger.written_bytes, vars, dims);
  put_row(r, "FLOP", &plan->ledger.flops, vars, dims);
  put(r, "</table><pre>");
  td_buf_t text;
  td_buf_init(&text, b->c->task);
  kir_print(&text, kernel);
  put_escaped_n(r, text.data, text.length);
  td_buf_free(&text);
  put(r, "</pre></details>\n");
}

static void put_kernels(report_t *r) {
  const plan_t *plan = r->b->plan;
  put(r, "<section><h2>Kernels</h2>\n");
  for (uint32_t k = 0; k < plan->kernel_count; k++) put_kernel(r, k);
  for (uint32_t m = 0; m < plan->module_count; m++) {
    const plan_module_t *module = &plan->modules[m];
    if (module->payload != PLAN_PAYLOAD_CUDA) continue;
    put(r, "<details><summary>CUDA C, as NVRTC compiles it</summary><pre>");
    put_escaped_n(r, module->data, module->bytes);
    put(r, "</pre></details>\n");
  }
  put(r, "</section>\n");
}

/* ---- memory -------------------------------------------------------------- */

enum { CHART_WIDTH = 720, CHART_HEIGHT = 240 };

static void put_box(report_t *r, const plan_buffer_t *buffer,
                    const plan_env_t *env, int64_t arena, uint32_t steps) {
  int64_t bytes = 0, offset = 0;
  (void)plan_eval(&buffer->bytes, env, &bytes);
  (void)plan_eval(&buffer->offset, env, &offset);
  double x = (double)buffer->first_step * CHART_WIDTH / steps;
  double w = (double)(buffer->last_step - buffer->first_step + 1) *
             CHART_WIDTH / steps;
  double y = (double)offset / (double)arena * CHART_HEIGHT;
  double h = (double)bytes / (double)arena * CHART_HEIGHT;
  td_buf_printf(&r->out, "<g><title>");
  put_escaped(r, buffer->name);
  td_buf_printf(&r->out, ": %lld bytes at %lld, steps %u to %u</title>"
                "<rect class=\"b\" x=\"%d\" y=\"%d\" width=\"%d\" "
                "height=\"%d\"/>",
                (long long)bytes, (long long)offset, buffer->first_step,
                buffer->last_step, (int)x, (int)y, (int)w, (int)(h + 1));
  if (h >= 12 && w >= 40) {
    td_buf_printf(&r->out, "<text x=\"%d\" y=\"%d\">", (int)x + 4,
                  (int)y + 11);
    put_escaped(r, buffer->name);
    put(r, "</text>");
  }
  put(r, "</g>\n");
}

/* Offsets downwards, steps to the right, every dim at its bound. */
static void put_chart(report_t *r, const plan_entry_t *e) {
  int64_t *dims = TD_NEW_ARRAY(r->b->c->arena, int64_t, e->var_count + 1);
  int64_t arena = 0;
  for (uint32_t v = 0; v < e->dim_count; v++) dims[v] = e->vars[v].bound;
  plan_env_t env = {dims, NULL};
  (void)plan_eval(&e->arena_bytes, &env, &arena);
  put(r, "<h2>");
  put_escaped(r, e->name);
  td_buf_printf(&r->out, ": %lld bytes of intermediates in %u steps",
                (long long)arena, e->step_count);
  for (uint32_t v = 0; v < e->dim_count; v++) {
    put(r, v == 0 ? " at " : ", ");
    put_escaped(r, e->vars[v].name);
    td_buf_printf(&r->out, " = %lld", (long long)dims[v]);
  }
  put(r, "</h2>\n");
  if (arena == 0 || e->step_count == 0) return;
  td_buf_printf(&r->out, "<svg width=\"%d\" height=\"%d\" role=\"img\">\n",
                CHART_WIDTH + 2, CHART_HEIGHT + 4);
  for (uint32_t i = 0; i < e->buffer_count; i++) {
    if (e->buffers[i].place == PLAN_AT_ARENA) {
      put_box(r, &e->buffers[i], &env, arena, e->step_count);
    }
  }
  put(r, "</svg>\n");
}

static void put_memory(report_t *r) {
  const plan_t *plan = r->b->plan;
  put(r, "<section><h2>Memory: offsets down, steps to the right</h2>\n");
  for (uint32_t e = 0; e < plan->entry_count; e++) {
    put_chart(r, &plan->entries[e]);
  }
  put(r, "<details><summary>Plan</summary><pre>");
  td_buf_t text;
  td_buf_init(&text, r->b->c->task);
  plan_print(&text, plan, false);
  put_escaped_n(r, text.data, text.length);
  td_buf_free(&text);
  put(r, "</pre></details></section>\n");
}

void drv_report_html(drv_backend_t *b, td_buf_t *out) {
  report_t r = {.b = b};
  const td_source_t *s = td_sources_get(b->c->task, b->c->source);
  td_buf_init(&r.out, b->c->task);
  put(&r, "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width\">\n"
          "<title>tdsl: ");
  put_escaped(&r, s->name);
  put(&r, "</title>\n");
  put(&r, style);
  put(&r, "<header><h1>");
  put_escaped(&r, s->name);
  td_buf_printf(&r.out, "</h1><p>%u kernels for %s; tdsl %s. A click on a "
                "line shows what touches it; a second one shows all "
                "again.</p></header>\n",
                b->plan->kernel_count, b->target->name,
                td_str_cstr(b->c->arena, tdsl_version_get_text()));
  put(&r, "<section class=\"pair\">\n");
  put_source(&r);
  put_remarks(&r);
  put(&r, "</section>\n");
  put_kernels(&r);
  put_memory(&r);
  put(&r, script);
  put(&r, "</html>\n");
  *out = r.out;
}
