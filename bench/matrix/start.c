/* start.c: rows that measure no rate. */
#define _GNU_SOURCE
#include "bench/matrix/matrix.h"

#include <stdlib.h>
#include <string.h>

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* From nothing to the first result, with a cache of kernels of its own. */
static double start_once(const row_t *row) {
  tdsl_error_t *error = NULL;
  tdsl_context_t *context = NULL;
  job_t j;
  double start = job_now();
  if (tdsl_context_create(NULL, &context, &error)) job_fail(error);
  job_open(context, row, &j);
  (void)job_run(&j);
  double seconds = job_now() - start;
  job_close(&j);
  tdsl_context_destroy(context);
  return seconds;
}

void start_measure(session_t *s, const row_t *row, result_t *r) {
  enum { TIMES = 5 };
  double seconds[TIMES];
  int is_cached = strcmp(row->dtype, "cached") == 0;
  (void)setenv("TDSL_CACHE", is_cached ? "on" : "off", 1);
  if (is_cached) (void)start_once(row);
  for (int i = 0; i < TIMES; i++) seconds[i] = start_once(row);
  (void)setenv("TDSL_CACHE", "off", 1);
  qsort(seconds, TIMES, sizeof seconds[0], ascending);
  *r = (result_t){.row = row, .threads = s->threads, .samples = TIMES};
  r->ours = seconds[TIMES / 2];
  r->ceiling = row->work;
  r->share = row->work / r->ours;
  r->is_met = r->ours <= row->work;
}

/* Intermediates of a run, against a quarter of the logits. */
void memory_measure(session_t *s, const row_t *row, result_t *r) {
  tdsl_run_stats_t stats = {.struct_bytes = sizeof stats};
  job_t j;
  job_open(s->context, row, &j);
  (void)job_run(&j);
  if (tdsl_run_get_stats(j.run, &stats)) {
    (void)fprintf(stderr, "bench_matrix: no figures of the run\n");
    exit(1);
  }
  job_close(&j);
  *r = (result_t){.row = row, .threads = s->threads, .samples = 1};
  r->ours = (double)(stats.arena_bytes + stats.scratch_bytes);
  r->ceiling = row->work;
  /* nothing at all counts as a thousandth of the bar */
  r->share = row->work / (r->ours > row->work / 1000 ? r->ours
                                                     : row->work / 1000);
  r->is_met = r->ours <= row->work;
}
