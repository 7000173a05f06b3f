/* cuda_graph.c: a step's launches as one CUDA graph, and marks in time.
 *
 * A capture is taken on a stream of its own, so that what other threads queue
 * meanwhile is run and not kept.  One thread captures at a time.  A graph has
 * the address of the scratch in it: when that moves, the graph is out of
 * date. */
#include "runtime/cuda/cuda_impl.h"

struct hal_graph {
  rcuda_exec_t *exec;
  uint64_t scratch_number;
};

bool rcuda_has_graphs(const rcuda_gpu_t *d) {
  const rcuda_driver_t *v = &d->driver;
  return v->capture_begin != NULL && v->capture_end != NULL &&
         v->graph_make != NULL && v->graph_launch != NULL &&
         v->graph_destroy != NULL && v->graph_end != NULL;
}

/* False: nothing is kept, and the caller runs the step. */
bool rcuda_capture_begin(hal_device_t *device, td_task_t *task) {
  rcuda_gpu_t *d = rcuda_self(device);
  int code = RCUDA_SUCCESS;
  (void)task;
  if (!rcuda_has_graphs(d)) return false;
  td_mutex_lock(&d->capture_lock);
  rcuda_enter(d);
  if (d->capture_stream == NULL) {
    code = d->driver.stream_create(&d->capture_stream,
                                   RCUDA_STREAM_NON_BLOCKING);
    if (code != RCUDA_SUCCESS) d->capture_stream = NULL;
  }
  if (code == RCUDA_SUCCESS) {
    code = d->driver.capture_begin(d->capture_stream,
                                   RCUDA_CAPTURE_THREAD_LOCAL);
  }
  d->is_capturing = code == RCUDA_SUCCESS;
  d->capturer = pthread_self();
  d->capture_has_failed = false;
  rcuda_leave(d);
  if (code != RCUDA_SUCCESS) td_mutex_unlock(&d->capture_lock);
  return code == RCUDA_SUCCESS;
}

hal_graph_t *rcuda_capture_end(hal_device_t *device, bool keep) {
  rcuda_gpu_t *d = rcuda_self(device);
  rcuda_graph_t *graph = NULL;
  hal_graph_t *out = NULL;
  rcuda_enter(d);
  int code = d->driver.capture_end(d->capture_stream, &graph);
  keep = keep && code == RCUDA_SUCCESS && graph != NULL &&
         !d->capture_has_failed;
  if (keep) {
    out = d->allocator.function(NULL, 0, sizeof *out, d->allocator.user);
  }
  if (out != NULL) {
    *out = (hal_graph_t){.scratch_number = d->scratch_number};
    if (d->driver.graph_make(&out->exec, graph, 0) != RCUDA_SUCCESS) {
      (void)d->allocator.function(out, sizeof *out, 0, d->allocator.user);
      out = NULL;
    }
  }
  if (graph != NULL) (void)d->driver.graph_destroy(graph);
  d->is_capturing = false;
  rcuda_leave(d);
  td_mutex_unlock(&d->capture_lock);
  return out;
}

bool rcuda_graph_launch(hal_device_t *device, td_task_t *task,
                        hal_graph_t *graph) {
  rcuda_gpu_t *d = rcuda_self(device);
  int code = RCUDA_SUCCESS;
  rcuda_enter(d);
  bool is_current = graph->scratch_number == d->scratch_number;
  if (is_current) code = d->driver.graph_launch(graph->exec, d->stream);
  return rcuda_end_call(d, task, code, "launching a graph") && is_current;
}

void rcuda_graph_free(hal_device_t *device, hal_graph_t *graph) {
  rcuda_gpu_t *d = rcuda_self(device);
  if (graph == NULL) return;
  rcuda_enter(d);
  (void)d->driver.stream_wait(d->stream);
  (void)d->driver.graph_end(graph->exec);
  rcuda_leave(d);
  (void)d->allocator.function(graph, sizeof *graph, 0, d->allocator.user);
}

/* ---- time ---------------------------------------------------------------- */

bool rcuda_mark(hal_device_t *device, td_task_t *task, int which) {
  rcuda_gpu_t *d = rcuda_self(device);
  int code = RCUDA_SUCCESS;
  if (d->driver.event_elapsed == NULL) return true;
  rcuda_enter(d);
  if (d->marks[which] == NULL) {
    code = d->driver.event_create(&d->marks[which], 0);
  }
  if (code == RCUDA_SUCCESS) {
    code = d->driver.event_record(d->marks[which], d->stream);
  }
  return rcuda_end_call(d, task, code, "marking the time");
}

bool rcuda_elapsed(hal_device_t *device, double *out_seconds) {
  rcuda_gpu_t *d = rcuda_self(device);
  float ms = 0;
  int code = RCUDA_INVALID_HANDLE;
  if (d->driver.event_elapsed == NULL) return false;
  rcuda_enter(d);
  if (d->marks[0] != NULL && d->marks[1] != NULL) {
    code = d->driver.event_wait(d->marks[1]);
    if (code == RCUDA_SUCCESS) {
      code = d->driver.event_elapsed(&ms, d->marks[0], d->marks[1]);
    }
  }
  rcuda_leave(d);
  *out_seconds = (double)ms * 1e-3;
  return code == RCUDA_SUCCESS;
}
