/* cmd_opt.c: tdslc opt FILE: reads a text form, verifies it, runs passes,
 * prints it.  A developers' command: it alone, with replay, knows the
 * compiler's inside.
 *
 *   f.tir   tensor passes in the order given; `lower-to-tiles` turns what is
 *           left into kernels, to which tile passes may follow
 *   f.kir   tile passes
 *   f.plan  none */
#include <string.h>

#include "driver/options.h"
#include "ir/tir.h"
#include "passes/pass.h"
#include "runtime/base/os.h"
#include "runtime/base/task.h"
#include "runtime/plan/plan.h"

typedef struct opt {
  cli_t *cli;
  const char *path;
  td_task_t *task;
  td_arena_t arena;
  pass_options_t options;
  pass_state_t state;
  const ir_target_t *target;
  tir_module_t *module;  /* until it is lowered */
  pass_kernels_t kernels;
  FILE *out;
} opt_t;

/* By pass_id_t; the field of the pass's level is set. */
static const struct {
  pass_tir_fn tir;
  pass_kir_fn kir;
} functions[PASS_COUNT] = {
#define PASS(id, name, level, numerics, optional, sentence) PASS_FN_##level(id)
#define PASS_FN_TIR(id) {pass_##id, NULL},
#define PASS_FN_KIR(id) {NULL, pass_##id},
#include "passes/passes.def"
};

/* ---- passes ------------------------------------------------------------- */

static bool unknown_pass(opt_t *o, td_str_t name) {
  td_diag_t *d = td_diag(o->task, TD_B11, TD_NO_LOC,
                         "no pass is called '%.*s', or none that takes this",
                         TD_STR_ARG(name));
  td_nearest_t nearest = td_nearest_start(name);
  for (int i = 0; i < PASS_COUNT; i++) {
    td_nearest_offer(&nearest, td_str(pass_table[i].name));
  }
  if (nearest.best.data != NULL) {
    td_diag_help(d, "did you mean '%.*s'?", TD_STR_ARG(nearest.best));
  }
  return false;
}

static bool run_pass(opt_t *o, td_str_t name) {
  pass_id_t id = pass_find(name.data, name.length);
  if (td_str_eqc(name, "lower-to-tiles") && o->module != NULL) {
    for (uint32_t f = 0; f < o->module->func_count; f++) {
      tir_renumber(o->module->funcs[f]);
    }
    pass_lower_to_tiles(&o->state, &o->arena, o->module, o->target,
                        &o->kernels);
    o->module = NULL;
    return true;
  }
  if (id == PASS_COUNT) return unknown_pass(o, name);
  if (functions[id].tir != NULL && o->module != NULL) {
    pass_run_tir(&o->state, id, functions[id].tir, o->module);
  } else if (functions[id].kir != NULL && o->module == NULL) {
    pass_run_kir(&o->state, id, functions[id].kir, o->kernels.kernels,
                 o->kernels.count);
  } else {
    return unknown_pass(o, name);
  }
  return true;
}

/* "all": the tensor passes in their order, as a compilation runs them. */
static bool run_passes(opt_t *o) {
  const char *list = cli_value(o->cli, CLI_OPT_PASSES);
  if (list == NULL) return true;
  if (strcmp(list, "all") == 0 && o->module != NULL) {
    pass_tensor_pipeline(&o->state, o->module);
    return true;
  }
  while (*list != '\0') {
    size_t n = strcspn(list, ",");
    if (n > 0 && !run_pass(o, td_str_n(list, n))) return false;
    list += n + (list[n] == ',');
  }
  return true;
}

/* ---- files -------------------------------------------------------------- */

static bool read_tir(opt_t *o, uint32_t file) {
  o->module = tir_parse(o->task, &o->arena, file);
  return o->module != NULL && tir_verify(o->task, o->module, "opt", true);
}

static bool read_kir(opt_t *o, uint32_t file) {
  o->kernels.kernels = kir_parse(o->task, &o->arena, file);
  if (o->kernels.kernels == NULL) return false;
  bool ok = true;
  while (o->kernels.kernels[o->kernels.count] != NULL) {
    ok &= kir_verify(o->task, o->kernels.kernels[o->kernels.count], "opt",
                     true);
    o->kernels.count++;
  }
  return ok;
}

static void put(opt_t *o, td_buf_t *text) {
  (void)fwrite(text->data, 1, text->length, o->out);
  td_buf_free(text);
}

static void print_ir(opt_t *o) {
  td_buf_t text;
  td_buf_init(&text, o->task);
  if (o->module != NULL) {
    tir_print(&text, o->module);
  } else {
    for (uint32_t k = 0; k < o->kernels.count; k++) {
      if (k > 0) td_buf_putc(&text, '\n');
      kir_print(&text, o->kernels.kernels[k]);
    }
  }
  put(o, &text);
}

static void plan_work(opt_t *o, uint32_t file) {
  td_buf_t text;
  const plan_t *plan = plan_parse(o->task, &o->arena, file);
  if (plan == NULL || !plan_verify(o->task, plan, "opt", true)) return;
  td_buf_init(&text, o->task);
  plan_print(&text, plan, true);
  put(o, &text);
}

static bool set_options(opt_t *o) {
  const char *device = cli_value(o->cli, CLI_OPT_TARGET);
  o->target = device != NULL ? ir_target_find(td_str(device))
                             : ir_target_host();
  if (o->target == NULL) {
    td_diag(o->task, TD_B03, TD_NO_LOC, "no machine is called '%s'",
            device != NULL ? device : "");
    return false;
  }
  o->options.target = o->target->name;
  o->options.disabled = cli_value(o->cli, CLI_OPT_DISABLE);
  o->options.stop_after = cli_value(o->cli, CLI_OPT_STOP_AFTER);
  o->options.verify = 1;
  o->options.checks = 1;
  o->state.task = o->task;
  o->state.options = &o->options;
  return pass_check_options(o->task, &o->options);
}

static void work(td_task_t *task, void *arg) {
  opt_t *o = arg;
  td_str_t text;
  o->task = task;
  td_arena_init(&o->arena, task);
  if (!set_options(o)) return;
  if (!td_os_read_file(task, o->path, 0, &o->arena, &text)) return;
  uint32_t file = td_sources_add(task, o->path, text.data, text.length);
  if (td_str_ends(td_str(o->path), ".plan")) {
    plan_work(o, file);
    return;
  }
  bool is_kir = td_str_ends(td_str(o->path), ".kir");
  if (!(is_kir ? read_kir(o, file) : read_tir(o, file))) return;
  if (run_passes(o)) print_ir(o);
}

static void show(opt_t *o, td_task_t *task) {
  for (size_t i = 0; i < task->diags.length; i++) {
    td_buf_t text;
    td_buf_init(&text, task);
    if (o->cli->as_json) {
      td_diag_json(&text, task, task->diags.data[i]);
      td_buf_putc(&text, '\n');
    } else {
      td_diag_render(&text, task, task->diags.data[i], o->cli->has_color);
    }
    (void)fwrite(text.data, 1, text.length, stderr);
    td_buf_free(&text);
  }
}

/* A text that is refused is a wrong program here, not a wrong data file. */
int cli_do_OPT(cli_t *cli) {
  if (cli->operand_count != 1) return cli_usage(cli, "one file is wanted");
  td_task_t task;
  cli_sink_t sink;
  opt_t o = {.cli = cli, .path = cli->operands[0]};
  if (!cli_sink_open(cli, &sink, cli_value(cli, CLI_OPT_OUTPUT))) {
    return CLI_IO;
  }
  o.out = sink.file;
  td_task_init(&task, NULL);
  tdsl_status_t status = td_task_run(&task, work, &o);
  show(&o, &task);
  if (status != TDSL_STATUS_OK) {
    (void)fprintf(stderr, "tdslc opt: %s\n", task.message);
  }
  bool is_wrong = td_task_errors(&task) > 0 || status != TDSL_STATUS_OK;
  td_task_free(&task);
  int code = cli_sink_close(cli, &sink, !is_wrong);
  if (status == TDSL_STATUS_INTERNAL) return CLI_INTERNAL;
  return is_wrong ? CLI_WRONG : code;
}
