/* api_dump.c: texts of the stages. Nothing here looks into the cache: what
 * is printed was made for it. */
#include "driver/api_cuda.h"
#include "passes/remark.h"

#if TDSL_WITH_LLVM
#include "codegen/llvm/llvm.h"
#endif

/* The closed list, in the order of compilation. `=` takes a pass's name. */
static const char stages[] = "tokens\nast\ntir\ntir-after=PASS\ntir-all\n"
                             "kir\nkir-after=PASS\nkir-all\nllvm\nasm\n"
                             "cuda\nptx\ncubin\nsass\nplan\nmemory\n"
                             "remarks\nremarks=LINE\nremarks-json\n"
                             "remarks-json=LINE\n";

tdsl_string_t tdsl_stage_get_list(void) {
  return td_str(stages);
}

typedef struct dump_call {
  tdsl_context_t *context;
  tdsl_compile_desc_t desc;
  tdsl_string_t stage, kernel;
  tdsl_text_fn_t text;
  void *user;
} dump_call_t;

typedef struct dump {
  const dump_call_t *call;
  td_task_t *task;
  drv_compile_t c;
  drv_backend_t b;
  td_buf_t out;
  bool prints_kir; /* *-all: which level goes out */
} dump_t;

/* ---- names -------------------------------------------------------------- */

static void unknown_stage(td_task_t *task, tdsl_string_t stage) {
  td_diag_t *d = td_diag(task, TD_B11, TD_NO_LOC, "no stage is called '%.*s'",
                         TD_STR_ARG(stage));
  td_nearest_t nearest = td_nearest_start(stage);
  for (const char *at = stages; *at != '\0'; at = strchr(at, '\n') + 1) {
    td_nearest_offer(&nearest,
                     td_str_n(at, (size_t)(strchr(at, '\n') - at)));
  }
  if (nearest.best.data != NULL) {
    td_diag_help(d, "did you mean '%.*s'?", TD_STR_ARG(nearest.best));
  }
}

/* "fuse" of "tir-after=fuse"; NULL if the stage is not of this form. */
static const char *pass_of(dump_t *d, const char *prefix) {
  tdsl_string_t stage = d->call->stage;
  if (!td_str_starts(stage, prefix)) return NULL;
  size_t n = strlen(prefix);
  return td_str_cstr(d->c.arena, td_str_n(stage.data + n, stage.length - n));
}

/* A pass of that level; B11 otherwise. */
static bool check_pass(dump_t *d, const char *name, pass_level_t level) {
  pass_id_t id = pass_find(name, strlen(name));
  if (id != PASS_COUNT && pass_table[id].level == level) return true;
  td_diag_t *diag =
      td_diag(d->task, TD_B11, TD_NO_LOC, "no %s pass is called '%s'",
              level == PASS_TIR ? "tensor" : "tile", name);
  td_nearest_t nearest = td_nearest_start(td_str(name));
  for (int i = 0; i < PASS_COUNT; i++) {
    if (pass_table[i].level != level) continue;
    td_nearest_offer(&nearest, td_str(pass_table[i].name));
    td_diag_note(diag, "%s", pass_table[i].name);
  }
  if (nearest.best.data != NULL) {
    td_diag_help(diag, "did you mean '%.*s'?", TD_STR_ARG(nearest.best));
  }
  return false;
}

/* ---- texts -------------------------------------------------------------- */

/* The name with or without the number in front, or that of the function. */
static bool is_wanted(const dump_t *d, uint32_t k) {
  tdsl_string_t want = d->call->kernel;
  const char *name = d->b.kernels.kernels[k]->name;
  const char *rest = strchr(name, '_');
  return want.length == 0 || td_str_eqc(want, name) ||
         (rest != NULL && td_str_eqc(want, rest + 1)) ||
         td_str_eqc(want, d->b.kernels.funcs[k]->name);
}

static uint32_t wanted(dump_t *d, const kir_kernel_t **out) {
  uint32_t n = 0;
  for (uint32_t k = 0; k < d->b.kernels.count; k++) {
    if (is_wanted(d, k)) out[n++] = d->b.kernels.kernels[k];
  }
  if (n > 0 || d->call->kernel.length == 0) return n;
  td_diag_t *diag =
      td_diag(d->task, TD_B11, TD_NO_LOC, "no kernel is called '%.*s'",
              TD_STR_ARG(d->call->kernel));
  for (uint32_t k = 0; k < d->b.kernels.count; k++) {
    td_diag_note(diag, "%s", d->b.kernels.kernels[k]->name);
  }
  return 0;
}

static const kir_kernel_t **kernel_room(dump_t *d) {
  return TD_NEW_ARRAY(d->c.arena, const kir_kernel_t *,
                      d->b.kernels.count + 1);
}

static void print_kernels(dump_t *d) {
  const kir_kernel_t **list = kernel_room(d);
  uint32_t n = wanted(d, list);
  for (uint32_t k = 0; k < n; k++) {
    if (k > 0) td_buf_putc(&d->out, '\n');
    kir_print(&d->out, list[k]);
  }
}

static void print_code(dump_t *d, bool is_asm) {
#if TDSL_WITH_LLVM
  const kir_kernel_t **list = kernel_room(d);
  uint32_t n = wanted(d, list);
  cgl_output_t code = {0};
  if (n == 0) return;
  if (d->b.target->sm > 0) {
    td_diag(d->task, TD_B11, TD_NO_LOC, "%s is no CPU: it has no such stage",
            d->b.target->name);
    return;
  }
  d->task->stage = "llvm";
  cgl_compile(d->task, d->c.arena, list, n, d->b.target,
              is_asm ? CGL_ASM : CGL_IR, &code);
  td_buf_put(&d->out, code.data, code.bytes);
#else
  (void)is_asm;
  td_diag(d->task, TD_B02, TD_NO_LOC, "this build has no CPU back end");
#endif
}

/* cuda, ptx, cubin, sass */
static bool is_gpu_stage(tdsl_string_t stage) {
  return td_str_eqc(stage, "cuda") || td_str_eqc(stage, "ptx") ||
         td_str_eqc(stage, "cubin") || td_str_eqc(stage, "sass");
}

static void print_cuda(dump_t *d) {
  const kir_kernel_t **list = kernel_room(d);
  uint32_t n = wanted(d, list);
  td_buf_t text;
  if (n == 0) return;
  td_buf_init(&text, d->task);
  drv_cuda_text(&d->b, list, n, d->c.device.hal == DRV_HAL_SIM, &text, NULL);
  if (td_str_eqc(d->call->stage, "cuda")) {
    td_buf_put(&d->out, text.data, text.length);
  } else {
    tdsl_string_t stage = d->call->stage;
    drv_code_t form = td_str_eqc(stage, "ptx")     ? DRV_CODE_PTX
                      : td_str_eqc(stage, "cubin") ? DRV_CODE_CUBIN
                                                   : DRV_CODE_SASS;
    (void)drv_cuda_code(&d->b, text.data, form, &d->out);
  }
  td_buf_free(&text);
}

/* The plan as it would run: on a GPU as it is, on the CPU with KIR text in
 * place of machine code. */
static void make_plan(dump_t *d) {
  drv_payloads_t payloads = {0};
  if (d->b.target->sm > 0) drv_payloads_cuda(&d->b, &payloads);
  else drv_payloads_kir(&d->b, &payloads);
  drv_backend_plan(&d->b, &payloads);
}

/* How much of a block a multiprocessor holds is known when the assembler has
 * seen it; until then the scratch is what it can be at most. */
static void print_device_memory(dump_t *d, const plan_entry_t *entry,
                                const int64_t *dims) {
  plan_machine_t machine = {.sms = d->b.target->sms};
  plan_memory_t m;
  plan_memory_sum(d->task, d->b.plan, entry, dims, NULL, &machine, &m);
  td_buf_printf(&d->out,
                "on the device: arguments %llu, results %llu, intermediates "
                "%llu, scalars %llu, scratch at most %llu: at most %llu "
                "bytes\n",
                (unsigned long long)m.arguments,
                (unsigned long long)m.results, (unsigned long long)m.arena,
                (unsigned long long)m.scalars, (unsigned long long)m.scratch,
                (unsigned long long)m.all);
}

/* Charts of the entries' arenas with every dim at its bound. */
static void print_memory(dump_t *d) {
  const plan_t *plan = d->b.plan;
  for (uint32_t e = 0; e < plan->entry_count; e++) {
    const plan_entry_t *entry = &plan->entries[e];
    int64_t *dims =
        TD_NEW_ARRAY(d->c.arena, int64_t, entry->var_count + 1);
    for (uint32_t v = 0; v < entry->dim_count; v++) {
      dims[v] = entry->vars[v].bound;
    }
    if (e > 0) td_buf_putc(&d->out, '\n');
    plan_print_memory(&d->out, entry, dims);
    if (d->b.target->sm > 0) print_device_memory(d, entry, dims);
  }
}

/* ---- stages ------------------------------------------------------------- */

/* Text of a level after each pass that changed something. */
static void see_pass(void *user, const char *pass, const char *text,
                     size_t length) {
  dump_t *d = user;
  pass_id_t id = pass_find(pass, strlen(pass));
  bool is_kir = id != PASS_COUNT && pass_table[id].level == PASS_KIR;
  if (is_kir != d->prints_kir) return;
  td_buf_printf(&d->out, "// after %s\n", pass);
  td_buf_put(&d->out, text, length);
  td_buf_putc(&d->out, '\n');
}

static bool front_end(dump_t *d) {
  if (!drv_device_parse(d->task, d->c.arena, d->call->desc.device,
                        &d->c.device)) {
    return false;
  }
  bool is_gpu =
      d->c.device.hal == DRV_HAL_CUDA || d->c.device.hal == DRV_HAL_SIM;
  if (is_gpu_stage(d->call->stage) && !is_gpu &&
      !drv_device_parse(d->task, d->c.arena, td_str("cuda"), &d->c.device)) {
    return false;
  }
  return drv_compile_all(&d->c) && drv_backend_init(&d->b, &d->c);
}

/* tir-after=PASS, tir-all, kir, kir-after=PASS, kir-all. */
static void dump_ir(dump_t *d, bool is_kir) {
  const char *pass = pass_of(d, is_kir ? "kir-after=" : "tir-after=");
  tdsl_string_t stage = d->call->stage;
  if (pass != NULL) {
    if (!check_pass(d, pass, is_kir ? PASS_KIR : PASS_TIR)) return;
    d->b.options.stop_after = pass;
  }
  if (td_str_ends(stage, "-all")) {
    d->b.options.dump = see_pass;
    d->b.options.dump_user = d;
    d->prints_kir = is_kir;
  }
  if (!is_kir && pass == NULL) {
    td_buf_puts(&d->out, "// lowered\n");
    tir_print(&d->out, d->c.tir);
    td_buf_putc(&d->out, '\n');
  }
  drv_backend_tensor(&d->b);
  if (!is_kir) {
    if (pass != NULL) tir_print(&d->out, d->c.tir);
    return;
  }
  drv_backend_kernels(&d->b);
  if (d->b.options.dump == NULL) print_kernels(d);
}

static bool is_remarks(tdsl_string_t stage) {
  return td_str_starts(stage, "remarks");
}

/* remarks, remarks-json, and either with =LINE. */
static bool remark_form(dump_t *d, bool *as_json, uint32_t *line) {
  static const char *const forms[] = {"remarks", "remarks-json"};
  tdsl_string_t stage = d->call->stage;
  for (int i = 0; i < 2; i++) {
    size_t n = strlen(forms[i]);
    int64_t value = 0;
    if (!td_str_starts(stage, forms[i])) continue;
    tdsl_string_t rest = td_str_n(stage.data + n, stage.length - n);
    bool is_line = rest.length > 1 && rest.data[0] == '=' &&
                   td_parse_i64(td_str_n(rest.data + 1, rest.length - 1),
                                &value) &&
                   value > 0 && value <= UINT32_MAX;
    if (rest.length > 0 && !is_line) continue;
    *as_json = i == 1;
    *line = (uint32_t)value;
    return true;
  }
  unknown_stage(d->task, stage);
  return false;
}

static void dump_remarks(dump_t *d) {
  bool as_json;
  uint32_t line;
  if (!remark_form(d, &as_json, &line)) return;
  struct pass_remarks remarks = {.arena = d->c.arena};
  d->b.state.remarks = &remarks;
  drv_backend_tensor(&d->b);
  drv_backend_kernels(&d->b);
  drv_payloads_t payloads = {0};
  if (d->b.target->sm > 0) drv_payloads_cuda(&d->b, &payloads);
  d->b.state.remarks = NULL;
  pass_remarks_print(&d->out, d->task, &remarks, d->c.source, line, as_json);
}

/* Stages behind the kernels. */
static void dump_late(dump_t *d) {
  tdsl_string_t stage = d->call->stage;
  drv_backend_tensor(&d->b);
  drv_backend_kernels(&d->b);
  drv_backend_memory(&d->b);
  if (td_str_eqc(stage, "llvm") || td_str_eqc(stage, "asm")) {
    print_code(d, td_str_eqc(stage, "asm"));
  } else if (is_gpu_stage(stage)) {
    print_cuda(d);
  } else {
    make_plan(d);
    if (td_str_eqc(stage, "plan")) plan_print(&d->out, d->b.plan, false);
    else print_memory(d);
  }
}

static void dump_stage(dump_t *d) {
  tdsl_string_t stage = d->call->stage;
  bool is_source = td_str_eqc(stage, "tokens") || td_str_eqc(stage, "ast");
  bool is_tir = td_str_eqc(stage, "tir-all") ||
                td_str_starts(stage, "tir-after=");
  bool is_kir = td_str_eqc(stage, "kir") || td_str_eqc(stage, "kir-all") ||
                td_str_starts(stage, "kir-after=");
  bool is_late = is_gpu_stage(stage) || td_str_eqc(stage, "llvm") ||
                 td_str_eqc(stage, "asm") ||
                 td_str_eqc(stage, "plan") || td_str_eqc(stage, "memory");
  if (is_source) {
    if (!drv_compile_source(&d->c)) return;
    if (td_str_eqc(stage, "tokens")) {
      ast_dump_tokens(d->task, d->c.source, &d->out);
    } else if (drv_compile_parse(&d->c)) {
      ast_print(d->task, &d->out, d->c.ast);
    }
  } else if (td_str_eqc(stage, "tir")) {
    if (drv_compile_all(&d->c)) tir_print(&d->out, d->c.tir);
  } else if (is_tir || is_kir) {
    if (front_end(d)) dump_ir(d, is_kir);
  } else if (is_late) {
    if (front_end(d)) dump_late(d);
  } else if (is_remarks(stage)) {
    if (front_end(d)) dump_remarks(d);
  } else {
    unknown_stage(d->task, stage);
  }
}

static void dump_work(td_task_t *task, void *arg) {
  dump_call_t *call = arg;
  td_arena_t arena;
  td_arena_init(&arena, task);
  dump_t *d = TD_NEW(&arena, dump_t);
  d->call = call;
  d->task = task;
  td_buf_init(&d->out, task);
  drv_compile_init(&d->c, task, &arena, call->context, &call->desc);
  dump_stage(d);
  if (d->out.length > 0) call->text(td_buf_view(&d->out), call->user);
  td_buf_free(&d->out);
}

tdsl_status_t tdsl_program_dump(tdsl_context_t *context,
                                const tdsl_compile_desc_t *desc,
                                tdsl_string_t stage, tdsl_string_t kernel,
                                tdsl_text_fn_t text, void *user,
                                tdsl_error_t **out_error) {
  dump_call_t work = {.context = context, .stage = stage, .kernel = kernel,
                      .text = text, .user = user};
  if (!drv_desc_read(desc, &work.desc)) {
    return drv_refuse(context, TDSL_STATUS_INVALID_ARGUMENT,
                      "the descriptor is of another version", out_error);
  }
  drv_call_t call = {context, desc->diagnostic, desc->diagnostic_user, NULL};
  return drv_call(&call, dump_work, &work, out_error);
}
