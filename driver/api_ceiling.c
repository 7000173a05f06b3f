/* api_ceiling.c: what the processor reaches when nothing stands in its way:
 * independent chains of multiply-adds, and a pass over more memory than its
 * caches hold.  Bounds beside a measurement are of the same minute, since a
 * machine that is busy or hot reaches less. */
#include "driver/api_measure.h"
#include "driver/fma_chains.h"

enum {
  MOST_THREADS = 64,
  ROUNDS = 2000,   /* of the chains between two looks at the clock */
  SLICES = 3,
  SLICE_NS = 4000000,
  PASSES = 2,
};
static const size_t stream_bytes = (size_t)96 << 20;

typedef struct part {
  td_thread_t thread;
  bool is_started;
  const float *memory; /* NULL: multiply-adds */
  size_t count;        /* floats of memory */
  double rate;         /* found */
  volatile float sink;
} part_t;

/* ---- multiply-adds ------------------------------------------------------- */

/* The best slice: an interruption makes no machine slower. */
static void add_up(part_t *p) {
  float sink = 0;
  for (int s = 0; s < SLICES; s++) {
    uint64_t start = td_os_now_ns(), now = start;
    double amount = 0;
    while (now - start < SLICE_NS) {
      double done = fma_chains_run(ROUNDS, &sink);
      if (done == 0) return;
      amount += done;
      now = td_os_now_ns();
    }
    double rate = amount / (double)(now - start) * 1e9;
    if (rate > p->rate) p->rate = rate;
  }
  p->sink = sink;
}

/* ---- memory -------------------------------------------------------------- */

typedef float wide_t __attribute__((vector_size(64)));

static void read_all(part_t *p) {
  const wide_t *from = (const wide_t *)(const void *)p->memory;
  size_t n = p->count / 16;
  for (int pass = 0; pass < PASSES; pass++) {
    wide_t sum[4] = {{0}};
    uint64_t start = td_os_now_ns();
    for (size_t i = 0; i + 4 <= n; i += 4) {
      for (int c = 0; c < 4; c++) sum[c] += from[i + (size_t)c];
    }
    double ns = (double)(td_os_now_ns() - start);
    sum[0] += sum[1] + sum[2] + sum[3];
    p->sink = sum[0][0];
    double rate = ns > 0 ? (double)(n * sizeof(wide_t)) / ns * 1e9 : 0;
    if (rate > p->rate) p->rate = rate;
  }
}

/* ---- all threads --------------------------------------------------------- */

static void run_part(void *arg) {
  part_t *p = arg;
  if (p->memory != NULL) read_all(p);
  else add_up(p);
}

/* The sum of what the parts reach side by side. */
static double run_parts(part_t *parts, uint32_t count) {
  double sum = 0;
  for (uint32_t i = 1; i < count; i++) {
    parts[i].is_started =
        td_thread_start(&parts[i].thread, run_part, &parts[i], 0);
  }
  run_part(&parts[0]);
  for (uint32_t i = 1; i < count; i++) {
    if (parts[i].is_started) td_thread_join(&parts[i].thread);
  }
  for (uint32_t i = 0; i < count; i++) sum += parts[i].rate;
  return sum;
}

bool drv_ceiling_measure(tdsl_context_t *context, uint32_t threads,
                         drv_ceiling_t *out) {
  part_t parts[MOST_THREADS];
  memset(out, 0, sizeof *out);
  if (threads == 0) threads = (uint32_t)td_os_cpu_count();
  if (threads > MOST_THREADS) threads = MOST_THREADS;
  memset(parts, 0, sizeof parts);
  out->flops = run_parts(parts, threads);
  char *memory = drv_alloc(context, stream_bytes + 64);
  if (memory == NULL) return false;
  memset(memory, 1, stream_bytes + 64); /* pages of its own */
  float *first = (float *)(void *)(memory + (64 - (uintptr_t)memory % 64) % 64);
  size_t each = stream_bytes / sizeof(float) / threads / 64 * 64;
  memset(parts, 0, sizeof parts);
  for (uint32_t i = 0; i < threads; i++) {
    parts[i].memory = first + each * i;
    parts[i].count = each;
  }
  out->stream = run_parts(parts, threads);
  drv_free(context, memory, stream_bytes + 64);
  return true;
}
