/* cmd_run.c: tdslc run FILE and tdslc run --tests FILE */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "driver/run.h"

void cli_job_close(cli_job_t *job) {
  tdsl_run_destroy(job->run);
  tdsl_executable_release(job->exe);
  tdsl_program_release(job->program);
  tdsl_inputs_destroy(job->inputs);
  free(job->text.data);
  cli_desc_free(&job->desc);
}

/* ---- which function ------------------------------------------------------ */

typedef struct choice {
  tdsl_string_t only; /* points into text */
  char text[256];
  int exported, functions;
} choice_t;

static void see_function(tdsl_string_t name, uint32_t is_exported,
                         uint32_t is_test, void *user) {
  choice_t *c = user;
  if (is_test) return;
  c->functions++;
  if (!is_exported) return;
  c->exported++;
  if (name.length < sizeof c->text) {
    memcpy(c->text, name.data, name.length);
    c->only = (tdsl_string_t){c->text, name.length};
  }
}

static void print_function(tdsl_string_t name, uint32_t is_exported,
                           uint32_t is_test, void *user) {
  (void)user;
  if (is_test) return;
  (void)fprintf(stderr, "  %.*s%s\n", (int)name.length, name.data,
                is_exported ? "" : " (not exported)");
}

/* The exported function if there is one only. */
static int choose_entry(cli_t *cli, cli_job_t *job, choice_t *c) {
  tdsl_error_t *error;
  if (job->desc.entry.length > 0) return CLI_OK;
  tdsl_status_t status = tdsl_source_list(cli->context, &job->desc,
                                          see_function, c, &error);
  int code = cli_end(cli, status, &error);
  if (code != CLI_OK) return code;
  if (c->exported == 1) {
    job->desc.entry = c->only;
    return CLI_OK;
  }
  cli_usage(cli, c->exported > 1 ? "several functions are exported: --entry "
                                   "NAME"
                                 : "no function is exported: --entry NAME");
  (void)tdsl_source_list(cli->context, &job->desc, print_function, NULL,
                         NULL);
  return CLI_USAGE;
}

/* ---- one run ------------------------------------------------------------- */

static int check_ins(cli_t *cli) {
  for (int i = 0; i < cli_count(cli, CLI_OPT_IN); i++) {
    const char *spec = cli_each(cli, CLI_OPT_IN, i);
    const char *equals = strchr(spec, '=');
    if (equals != NULL && equals != spec && equals[1] != '\0') continue;
    return cli_usage(cli, "--in is NAME=VALUE, not '%s'; VALUE is a number, "
                          "true, false, F.npy, F.json or random:SEED",
                     spec);
  }
  return CLI_OK;
}

static int read_inputs(cli_t *cli, cli_job_t *job) {
  tdsl_error_t *error;
  int code = cli_end(
      cli, tdsl_inputs_create(cli->context, &job->inputs, &error), &error);
  for (int i = 0; i < cli_count(cli, CLI_OPT_IN) && code == CLI_OK; i++) {
    tdsl_string_t spec = cli_text(cli_each(cli, CLI_OPT_IN, i));
    code = cli_end(cli, tdsl_inputs_add(job->inputs, spec, &error), &error);
  }
  job->desc.inputs = job->inputs;
  return code;
}

static int compile(cli_t *cli, cli_job_t *job) {
  tdsl_error_t *error;
  double start = cli_now();
  tdsl_status_t status = tdsl_program_compile(cli->context, &job->desc,
                                              &job->program, &error);
  int code = cli_end(cli, status, &error);
  job->compile_seconds = cli_now() - start;
  return code;
}

static int prepare(cli_t *cli, cli_job_t *job) {
  tdsl_error_t *error;
  job->entry = tdsl_program_find_entry(job->program, job->desc.entry);
  if (job->entry == NULL) return CLI_WRONG; /* was reported */
  int code = cli_end(cli, tdsl_executable_create(job->program, job->entry,
                                                 &job->exe, &error),
                     &error);
  if (code == CLI_OK && job->desc.weights.length > 0) {
    code = cli_end(cli, tdsl_executable_bind_weights(
                            job->exe, job->desc.weights,
                            cli_has(cli, CLI_OPT_STRICT),
                            cli_has(cli, CLI_OPT_CONVERT), &error),
                   &error);
  }
  if (code == CLI_OK) {
    code = cli_end(cli, tdsl_run_create(job->exe, &job->run, &error), &error);
  }
  if (code == CLI_OK) {
    code = cli_end(cli, tdsl_run_set_inputs(job->run, job->inputs, &error),
                   &error);
  }
  if (code == CLI_OK && cli_has(cli, CLI_OPT_PROFILE)) {
    code = cli_end(cli, tdsl_run_set_trace(job->run, 1, &error), &error);
  }
  if (code == CLI_OK && cli_has(cli, CLI_OPT_COUNTERS)) {
    code = cli_end(cli, tdsl_run_set_counters(job->run, &error), &error);
  }
  return code;
}

static int specialize(cli_t *cli, cli_job_t *job) {
  tdsl_error_t *error;
  int n = cli_count(cli, CLI_OPT_SPECIALIZE);
  if (n == 0) return CLI_OK;
  tdsl_dim_value_t *dims =
      cli_dims(cli, CLI_OPT_SPECIALIZE, "--specialize");
  if (dims == NULL) return CLI_USAGE;
  tdsl_status_t status =
      tdsl_executable_specialize(job->exe, (uint32_t)n, dims, &error);
  free(dims);
  return cli_end(cli, status, &error);
}

static int execute(cli_t *cli, cli_job_t *job) {
  for (long i = 0; i < job->repeat; i++) {
    tdsl_error_t *error;
    tdsl_run_stats_t stats = {.struct_bytes = sizeof stats};
    int code = cli_end(cli, tdsl_run_execute(job->run, &error), &error);
    if (code != CLI_OK) return code;
    (void)tdsl_run_get_stats(job->run, &stats);
    job->total_seconds += stats.seconds;
    if (i == 0 || stats.seconds < job->best_seconds) {
      job->best_seconds = stats.seconds;
    }
  }
  return CLI_OK;
}

static void print_time(FILE *to, double seconds) {
  if (seconds < 1e-3) (void)fprintf(to, "%.1f us", seconds * 1e6);
  else if (seconds < 1) (void)fprintf(to, "%.2f ms", seconds * 1e3);
  else (void)fprintf(to, "%.3f s", seconds);
}

static void print_times(const cli_job_t *job, FILE *to) {
  (void)fprintf(to, "compiled in ");
  print_time(to, job->compile_seconds);
  (void)fprintf(to, ", ran in ");
  print_time(to, job->best_seconds);
  if (job->repeat > 1) {
    (void)fprintf(to, " (best of %ld, mean ", job->repeat);
    print_time(to, job->total_seconds / (double)job->repeat);
    (void)fprintf(to, ")");
  }
  (void)fprintf(to, "\n");
}

static bool read_repeat(cli_t *cli, cli_job_t *job) {
  const char *text = cli_value(cli, CLI_OPT_REPEAT);
  char *end;
  job->repeat = 1;
  if (text == NULL) return true;
  errno = 0;
  job->repeat = strtol(text, &end, 10);
  if (errno == 0 && *end == '\0' && job->repeat > 0) return true;
  cli_usage(cli, "--repeat is a positive integer, not '%s'", text);
  return false;
}

int cli_job_make(cli_t *cli, cli_job_t *job) {
  choice_t choice = {0};
  int code = check_ins(cli);
  if (code == CLI_OK) code = cli_check_outs(cli);
  if (code == CLI_OK) code = choose_entry(cli, job, &choice);
  if (code == CLI_OK) code = read_inputs(cli, job);
  if (code == CLI_OK) code = compile(cli, job);
  if (code == CLI_OK) code = prepare(cli, job);
  return code;
}

static int run_entry(cli_t *cli, cli_job_t *job) {
  int code = cli_job_make(cli, job);
  if (code == CLI_OK) code = specialize(cli, job);
  if (code == CLI_OK) code = execute(cli, job);
  cli_clear(cli);
  if (code != CLI_OK) return code;
  const char *device = cli_value(cli, CLI_OPT_DEVICE);
  bool is_null = device != NULL && strcmp(device, "null") == 0;
  if (cli_has(cli, CLI_OPT_OUT)) {
    code = cli_write_results(cli, job);
    if (job->repeat > 1) print_times(job, stdout);
  } else if (!is_null && !cli_has(cli, CLI_OPT_JSON)) {
    code = cli_print_table(cli, job);
    if (code == CLI_OK) print_times(job, stdout);
  }
  /* the device null computes nothing: its record is the result */
  if (code == CLI_OK && (is_null || cli_has(cli, CLI_OPT_PROFILE))) {
    tdsl_error_t *error;
    tdsl_status_t status =
        tdsl_run_write_trace(job->run, cli_put, stdout, &error);
    code = cli_end(cli, status, &error);
  }
  if (code == CLI_OK && cli_has(cli, CLI_OPT_COUNTERS)) {
    tdsl_error_t *error;
    tdsl_status_t status = tdsl_run_write_counters(
        job->run, cli_has(cli, CLI_OPT_JSON), cli_put, stdout, &error);
    code = cli_end(cli, status, &error);
  }
  return code;
}

/* ---- tests --------------------------------------------------------------- */

static int run_test(cli_t *cli, cli_job_t *job, const tdsl_entry_t *entry) {
  tdsl_executable_t *exe = NULL;
  tdsl_run_t *run = NULL;
  tdsl_error_t *error;
  int code = cli_end(
      cli, tdsl_executable_create(job->program, entry, &exe, &error), &error);
  if (code == CLI_OK) {
    code = cli_end(cli, tdsl_run_create(exe, &run, &error), &error);
  }
  if (code == CLI_OK) {
    code = cli_end(cli, tdsl_run_execute(run, &error), &error);
  }
  tdsl_run_destroy(run);
  tdsl_executable_release(exe);
  return code;
}

/* Each on its own: one that fails does not stop the others. */
static int run_tests(cli_t *cli, cli_job_t *job) {
  job->desc.tests = 1;
  job->desc.checks = TDSL_CHECKS_ALL;
  int code = compile(cli, job), passed = 0, failed = 0;
  if (code != CLI_OK) return code;
  uint32_t count = tdsl_program_get_entry_count(job->program);
  for (uint32_t i = 0; i < count; i++) {
    const tdsl_entry_t *entry = tdsl_program_get_entry(job->program, i);
    if (!entry->is_test) continue;
    int one = run_test(cli, job, entry);
    (void)printf("%s %.*s\n", one == CLI_OK ? "ok" : "FAILED",
                 (int)entry->name.length, entry->name.data);
    if (one == CLI_OK) passed++;
    else failed++;
    if (one > code) code = one;
  }
  (void)printf("%d passed, %d failed\n", passed, failed);
  return code;
}

int cli_job_open(cli_t *cli, cli_job_t *job) {
  if (cli->operand_count != 1) return cli_usage(cli, "one file is wanted");
  if (!cli_desc(cli, &job->desc)) {
    job->desc = (tdsl_compile_desc_t)TDSL_COMPILE_DESC_INIT;
    return CLI_USAGE;
  }
  if (!read_repeat(cli, job)) return CLI_USAGE;
  int code = cli_open(cli);
  if (code == CLI_OK &&
      !cli_source(cli->operands[0], &job->desc, &job->text)) {
    code = CLI_IO;
  }
  return code;
}

int cli_do_RUN(cli_t *cli) {
  cli_job_t job = {0};
  int code = cli_job_open(cli, &job);
  if (code == CLI_OK) {
    code = cli_has(cli, CLI_OPT_TESTS) ? run_tests(cli, &job)
                                       : run_entry(cli, &job);
  }
  cli_job_close(&job);
  return cli_verdict(cli, code);
}
