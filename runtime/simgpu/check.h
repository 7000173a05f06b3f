/* Findings: what the checkers report, where it is kept and how it reads. One
   record for each (check, instruction, other instruction), with a count. */
#ifndef SIM_CHECK_H
#define SIM_CHECK_H

#include "runtime/base/os.h"
#include "runtime/simgpu/options.h"

typedef enum sim_check_t {
#define SIM_CHECK(id, text, code, family) SIM_CHECK_##id,
#include "runtime/simgpu/checks.def"
#undef SIM_CHECK
  SIM_CHECK_COUNT
} sim_check_t;

typedef enum sim_counter_t {
#define SIM_COUNTER(id, text) SIM_COUNTER_##id,
#include "runtime/simgpu/counters.def"
#undef SIM_COUNTER
  SIM_COUNTER_COUNT
} sim_counter_t;

typedef struct sim_check_row_t {
  const char *text; /* "mem.bounds" */
  int code;         /* driver result of the launch */
  uint32_t family;  /* bit of TDSL_SIM_CHECK */
} sim_check_row_t;

const sim_check_row_t *sim_check_row(sim_check_t id);
const char *sim_counter_name(unsigned counter);

typedef struct sim_finding_t {
  sim_check_t id;
  uint64_t launch;
  char kernel[96];
  char place[160];  /* "file:line" of the source, "" if unknown */
  char other[160];  /* of the other access of a race */
  uint32_t line, other_line; /* PTX lines */
  char op[64];
  uint32_t cta[3];
  uint32_t warp, lane;
  uint32_t thread[3];
  char space[12];
  uint64_t address;
  uint32_t bytes;
  char text[240];
  uint64_t count;
  uint64_t cta_linear; /* the smallest seen is the one shown */
} sim_finding_t;

/* Everything reported since the last reset. Guarded by its mutex. */
typedef struct sim_report_t {
  td_mutex_t mutex;
  sim_finding_t *list;
  size_t count, capacity;
  uint64_t dropped; /* beyond SIM_MAX_FINDINGS */
} sim_report_t;

#define SIM_MAX_FINDINGS 256

/* Adds or counts. */
void sim_report_add(sim_report_t *report, const sim_finding_t *finding);
void sim_report_clear(sim_report_t *report);

/* The finding as readable lines, and as one line of JSON. */
void sim_finding_text(td_buf_t *out, const sim_finding_t *f,
                      const sim_options_t *options);
void sim_finding_json(td_buf_t *out, const sim_finding_t *f,
                      const sim_options_t *options);

#endif
