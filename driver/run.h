/* run.h: what the files of `tdslc run` share. */
#ifndef DRIVER_RUN_H
#define DRIVER_RUN_H

#include "driver/options.h"

/* Everything that must be given back, in the order of its making. */
typedef struct cli_job {
  tdsl_compile_desc_t desc;
  cli_buffer_t text; /* of a program on standard input */
  tdsl_inputs_t *inputs;
  tdsl_program_t *program;
  const tdsl_entry_t *entry;
  tdsl_executable_t *exe;
  tdsl_run_t *run;
  double compile_seconds, best_seconds, total_seconds;
  long repeat;
} cli_job_t;

/* From the command line to a run with its arguments set (`tdslc run` and
 * `tdslc bench`). An exit code; cli_job_close gives everything back. */
int cli_job_open(cli_t *cli, cli_job_t *job);
int cli_job_make(cli_t *cli, cli_job_t *job);
void cli_job_close(cli_job_t *job);

/* One line an output: name, type, shape, range, first values. */
int cli_print_table(cli_t *cli, const cli_job_t *job);
/* --out: F.json and NAME=F.npy, an exit code. */
/* The forms of --out, before anything is computed. */
int cli_check_outs(cli_t *cli);
int cli_write_results(cli_t *cli, const cli_job_t *job);

#endif
