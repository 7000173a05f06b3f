/* api_measure.h: what the measuring calls share: ceilings of the machine
 * (api_ceiling.c), samples of kernels (api_bench.c). */
#ifndef DRIVER_API_MEASURE_H
#define DRIVER_API_MEASURE_H

#include "driver/api.h"

/* What all threads of the CPU device reach together at this moment; 0: not
 * known. */
typedef struct drv_ceiling {
  double flops;  /* a second: multiply-adds of f32, each counted as two */
  double stream; /* bytes a second that are read from memory */
} drv_ceiling_t;

/* Takes some 60 ms. False: no memory or no threads for it. */
bool drv_ceiling_measure(tdsl_context_t *context, uint32_t threads,
                         drv_ceiling_t *out);

/* Seconds of one kernel in each of several runs, all its launches added. */
typedef struct drv_samples {
  double *seconds;     /* room for `most`, sorted by drv_samples_sort */
  uint32_t count, most;
  uint64_t launches;   /* of one run */
  double bytes, flops; /* of one run, by the plan */
} drv_samples_t;

/* One array for all kernels of the run's plan, NULL: out of memory; to be
 * given back with the same numbers. */
drv_samples_t *drv_samples_create(tdsl_run_t *run, uint32_t most);
void drv_samples_destroy(tdsl_run_t *run, drv_samples_t *samples,
                         uint32_t most);
/* One measured run, added to the samples. */
tdsl_status_t drv_samples_take(tdsl_run_t *run, drv_samples_t *samples,
                               tdsl_error_t **out_error);
void drv_samples_sort(tdsl_run_t *run, drv_samples_t *samples);
/* Of sorted ones, a fraction of the way up. */
double drv_samples_at(const drv_samples_t *s, double fraction);

/* Whether the run's device has a clock; B04 otherwise. */
bool drv_can_measure(td_task_t *task, const tdsl_run_t *run);

#endif
