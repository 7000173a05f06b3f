/* cmd_run_out.c: what `tdslc run` gives back: a table, JSON, npy files. */
#include <stdlib.h>
#include <string.h>

#include "driver/run.h"

/* ---- the table ----------------------------------------------------------- */

enum { SHOWN = 6 };

static bool is_float(tdsl_dtype_t dtype) {
  return dtype >= TDSL_DTYPE_F64 && dtype <= TDSL_DTYPE_F8E5M2;
}

static void print_value(const tdsl_buffer_t *b, uint64_t i) {
  tdsl_dtype_t dtype = tdsl_buffer_get_desc(b)->dtype;
  if (is_float(dtype)) {
    (void)printf("%.6g", tdsl_buffer_read_float(b, i));
  } else if (dtype == TDSL_DTYPE_BOOL) {
    (void)printf("%s", tdsl_buffer_read_int(b, i) ? "true" : "false");
  } else {
    (void)printf("%lld", (long long)tdsl_buffer_read_int(b, i));
  }
}

/* Smallest and largest; numbers of NaN, which are neither. */
static void print_range(const tdsl_buffer_t *b) {
  uint64_t n = tdsl_buffer_get_count(b), low = n, high = n, nans = 0;
  for (uint64_t i = 0; i < n; i++) {
    double v = tdsl_buffer_read_float(b, i);
    if (v != v) {
      nans++;
      continue;
    }
    if (low == n || v < tdsl_buffer_read_float(b, low)) low = i;
    if (high == n || v > tdsl_buffer_read_float(b, high)) high = i;
  }
  if (low < n) {
    (void)printf("  min ");
    print_value(b, low);
    (void)printf("  max ");
    print_value(b, high);
  }
  if (nans > 0) (void)printf("  %llu NaN", (unsigned long long)nans);
}

static void print_slot(const cli_job_t *job, uint32_t s, int width) {
  const tdsl_slot_t *slot = &job->entry->slots[s];
  const tdsl_buffer_t *b = tdsl_run_get_buffer(job->run, s);
  if (b == NULL) return;
  const tdsl_tensor_desc_t *desc = tdsl_buffer_get_desc(b);
  tdsl_string_t type = tdsl_dtype_get_name(slot->dtype);
  uint64_t n = tdsl_buffer_get_count(b);
  (void)printf("%-*.*s  %.*s", width, (int)slot->name.length,
               slot->name.data, (int)type.length, type.data);
  for (uint32_t d = 0; d < desc->rank; d++) {
    (void)printf("%s%lld%s", d == 0 ? "[" : ", ", (long long)desc->dims[d],
                 d + 1 == desc->rank ? "]" : "");
  }
  if (n > 1 && desc->dtype != TDSL_DTYPE_BOOL) print_range(b);
  (void)printf("%s", n > 1 ? "  = " : n == 1 ? "  = " : "  empty");
  for (uint64_t i = 0; i < n && i < SHOWN; i++) {
    (void)printf("%s", i > 0 ? ", " : "");
    print_value(b, i);
  }
  (void)printf("%s\n", n > SHOWN ? ", ..." : "");
}

/* From the device, before anything is printed. */
static int fetch_all(cli_t *cli, const cli_job_t *job) {
  int code = CLI_OK;
  for (uint32_t s = 0; code == CLI_OK && s < job->entry->slot_count; s++) {
    tdsl_buffer_t *b = tdsl_run_get_buffer(job->run, s);
    tdsl_error_t *error;
    if (b == NULL) continue;
    code = cli_end(cli, tdsl_buffer_fetch(b, &error), &error);
  }
  return code;
}

int cli_print_table(cli_t *cli, const cli_job_t *job) {
  int width = 0;
  int code = fetch_all(cli, job);
  if (code != CLI_OK) return code;
  for (uint32_t s = 0; s < job->entry->slot_count; s++) {
    const tdsl_slot_t *slot = &job->entry->slots[s];
    if (slot->kind != TDSL_SLOT_IN && (int)slot->name.length > width) {
      width = (int)slot->name.length;
    }
  }
  for (uint32_t s = 0; s < job->entry->slot_count; s++) {
    if (job->entry->slots[s].kind != TDSL_SLOT_IN) {
      print_slot(job, s, width);
    }
  }
  return code;
}

/* ---- files --------------------------------------------------------------- */

static int write_json(cli_t *cli, const cli_job_t *job, const char *path) {
  cli_sink_t sink;
  tdsl_error_t *error;
  if (!cli_sink_open(cli, &sink, path)) return CLI_IO;
  tdsl_status_t status =
      tdsl_run_write_results(job->run, cli_put, sink.file, &error);
  int code = cli_end(cli, status, &error);
  int closed = cli_sink_close(cli, &sink, code == CLI_OK);
  return code != CLI_OK ? code : closed;
}

static int write_npy(cli_t *cli, const cli_job_t *job, const char *spec,
                     const char *equals) {
  size_t length = (size_t)(equals - spec);
  for (uint32_t s = 0; s < job->entry->slot_count; s++) {
    const tdsl_slot_t *slot = &job->entry->slots[s];
    bool is_meant = slot->name.length == length &&
                    memcmp(slot->name.data, spec, length) == 0;
    tdsl_buffer_t *b = tdsl_run_get_buffer(job->run, s);
    if (!is_meant || b == NULL) continue;
    tdsl_error_t *error;
    return cli_end(cli, tdsl_buffer_save_npy(b, cli_text(equals + 1), &error),
                   &error);
  }
  cli_usage(cli, "no result is called '%.*s'; results:", (int)length, spec);
  for (uint32_t s = 0; s < job->entry->slot_count; s++) {
    const tdsl_slot_t *slot = &job->entry->slots[s];
    if (slot->kind == TDSL_SLOT_IN) continue;
    (void)fprintf(stderr, "  %.*s\n", (int)slot->name.length,
                  slot->name.data);
  }
  return CLI_USAGE;
}

static bool ends(const char *text, const char *suffix) {
  size_t n = strlen(text), k = strlen(suffix);
  return n >= k && strcmp(text + n - k, suffix) == 0;
}

/* NAME=F.npy; the rest are JSON of all results. */
static bool is_npy(const char *spec) {
  return strchr(spec, '=') != NULL && ends(spec, ".npy");
}

int cli_check_outs(cli_t *cli) {
  for (int i = 0; i < cli_count(cli, CLI_OPT_OUT); i++) {
    const char *spec = cli_each(cli, CLI_OPT_OUT, i);
    bool is_json = ends(spec, ".json") || strcmp(spec, "-") == 0;
    if (is_json || (is_npy(spec) && spec[0] != '=')) continue;
    return cli_usage(cli, "--out is F.json, - or NAME=F.npy, not '%s'", spec);
  }
  return CLI_OK;
}

int cli_write_results(cli_t *cli, const cli_job_t *job) {
  int code = CLI_OK;
  for (int i = 0; i < cli_count(cli, CLI_OPT_OUT) && code == CLI_OK; i++) {
    const char *spec = cli_each(cli, CLI_OPT_OUT, i);
    code = is_npy(spec) ? write_npy(cli, job, spec, strchr(spec, '='))
                        : write_json(cli, job, spec);
  }
  return code;
}
