/* cmd_bench.c: tdslc bench FILE [--tune] */
#include <stdlib.h>

#include "driver/run.h"

/* Where the tuned sizes go: --tuning, then TDSL_TUNING; NULL: neither. */
static const char *tuning_path(const cli_t *cli) {
  const char *given = cli_value(cli, CLI_OPT_TUNING);
  if (given == NULL) given = getenv("TDSL_TUNING");
  return given != NULL && given[0] != '\0' ? given : NULL;
}

static int measure(cli_t *cli, cli_job_t *job, uint32_t repeat) {
  tdsl_error_t *error;
  tdsl_status_t status = tdsl_run_bench(
      job->run, repeat, cli_has(cli, CLI_OPT_JSON), cli_put, stdout, &error);
  return cli_end(cli, status, &error);
}

static int tune(cli_t *cli, cli_job_t *job, uint32_t repeat,
                const char *path) {
  tdsl_error_t *error;
  tdsl_status_t status = tdsl_run_tune(job->run, cli_text(path), repeat,
                                       cli_put, stdout, &error);
  return cli_end(cli, status, &error);
}

int cli_do_BENCH(cli_t *cli) {
  cli_job_t job = {0};
  bool is_tune = cli_has(cli, CLI_OPT_TUNE);
  const char *path = tuning_path(cli);
  if (is_tune && path == NULL) {
    return cli_usage(cli, "--tune wants a file for what it finds: --tuning F, "
                          "or TDSL_TUNING");
  }
  if (is_tune && cli_has(cli, CLI_OPT_JSON)) {
    return cli_usage(cli, "--tune prints no JSON");
  }
  int code = cli_job_open(cli, &job);
  /* a search starts from the machine's sizes, and makes the file */
  if (is_tune) job.desc.tuning_text = cli_text("");
  if (code == CLI_OK) code = cli_job_make(cli, &job);
  uint32_t repeat = cli_has(cli, CLI_OPT_REPEAT) ? (uint32_t)job.repeat : 0;
  if (code == CLI_OK) {
    code = is_tune ? tune(cli, &job, repeat, path)
                   : measure(cli, &job, repeat);
  }
  cli_clear(cli);
  cli_job_close(&job);
  return cli_verdict(cli, code);
}
