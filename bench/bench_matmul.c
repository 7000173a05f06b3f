/* A contraction kernel written by hand in the kernel IR, measured against
 * OpenBLAS (interleaved, so that both see the same machine) and against what
 * the FMA units can do.  It is the yardstick for the contraction template of
 * the tile passes: the same loops, packing and micro-kernel.
 *
 *   bench_matmul [TARGET [M N K [MC NC KC MR NR]]] */
#include "codegen/llvm/llvm.h"
#include "runtime/base/os.h"
#include "runtime/cpu/cpu_orc.h"
#include "runtime/cpu/cpu_pool.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#if TDSL_HAVE_OPENBLAS
#include <cblas.h>
void openblas_set_num_threads(int count);
char *openblas_get_config(void);
#endif

/* Block of rows, columns, depth; micro-tile. */
typedef struct shape {
  int mc, nc, kc, mr, nr;
} shape_t;

/* Loop order: columns of panels outside, rows of panels inside, so that a
 * B panel of KC x NR stays in L1 while A panels stream from L2.  Rows beyond
 * M and columns beyond N are packed as zeros and not stored. */
static void write_kernel(td_buf_t *out, shape_t s) {
  int lanes = s.nr > 32 ? 32 : s.nr;
  td_buf_printf(out,
      "kernel matmul(in a: f32[M, K], in b: f32[K, N], out c: f32[M, N])\n"
      "    dims(M in 1..100000, N in 1..100000, K in 1..100000) {\n"
      "  loop.block i0 in 0 .. M step %d { loop.block j0 in 0 .. N step %d {\n"
      "    alloc local bp: f32[%d, %d, %d]\n"
      "    alloc local ap: f32[%d, %d]\n"
      "    alloc local ct: f32[%d, %d, %d, %d]\n",
      s.mc, s.nc, s.nc / s.nr, s.kc, s.nr, s.mc, s.kc + 16, s.mc / s.mr,
      s.nc / s.nr, s.mr, s.nr);
  td_buf_printf(out,
      "    let rows: i64 = min(M - i0, %d)\n"
      "    let cols: i64 = min(N - j0, %d)\n"
      "    let ips: i64 = (rows + %d) / %d\n"
      "    let jps: i64 = (cols + %d) / %d\n"
      "    loop.serial k0 in 0 .. K step %d {\n"
      "      let depth: i64 = min(K - k0, %d)\n",
      s.mc, s.nc, s.mr - 1, s.mr, s.nr - 1, s.nr, s.kc, s.kc);
  /* pack B: whole panels without a mask, the last one with zeros */
  td_buf_printf(out,
      "      loop.serial jp in 0 .. jps {\n"
      "        if jp * %d + %d <= cols {\n"
      "          loop.serial k in 0 .. depth { loop.lane l in 0 .. %d {\n"
      "            bp[jp, k, l] = b[k0 + k, j0 + jp * %d + l]\n"
      "          } }\n"
      "        } else {\n"
      "          loop.serial k in 0 .. depth { loop.lane l in 0 .. %d {\n"
      "            bp[jp, k, l] = select(jp * %d + l < cols,\n"
      "                b[k0 + k, j0 + jp * %d + l], 0.0)\n"
      "          } }\n"
      "        }\n"
      "      }\n",
      s.nr, s.nr, lanes, s.nr, lanes, s.nr, s.nr);
  /* A stays in rows, 16 elements longer than the depth: rows that lie a
   * power of two apart would meet in one set of the cache */
  td_buf_printf(out,
      "      loop.serial i in 0 .. ips * %d {\n"
      "        if i < rows {\n"
      "          loop.serial k in 0 .. depth / 16 * 16 step 16 {\n"
      "            loop.lane l in 0 .. 16 {\n"
      "            ap[i, k + l] = a[i0 + i, k0 + k + l]\n"
      "          } }\n"
      "          loop.serial k in depth / 16 * 16 .. depth {\n"
      "            ap[i, k] = a[i0 + i, k0 + k]\n"
      "          }\n"
      "        } else {\n"
      "          loop.serial k in 0 .. depth { ap[i, k] = 0.0 }\n"
      "        }\n"
      "      }\n",
      s.mr);
  td_buf_printf(out,
      "      loop.serial jp in 0 .. jps { loop.serial ip in 0 .. ips {\n"
      "        alloc register acc: f32[%d, %d]\n"
      "        loop.unroll i in 0 .. %d { loop.lane l in 0 .. %d {\n"
      "          acc[i, l] = 0.0\n"
      "        } }\n"
      "        if k0 > 0 {\n"
      "          loop.unroll i in 0 .. %d { loop.lane l in 0 .. %d {\n"
      "            acc[i, l] = ct[ip, jp, i, l]\n"
      "          } }\n"
      "        }\n"
      "        loop.serial k in 0 .. depth {\n"
      "          loop.unroll i in 0 .. %d { loop.lane l in 0 .. %d {\n"
      "            acc[i, l] = fma(ap[ip * %d + i, k], bp[jp, k, l],\n"
      "                          acc[i, l])\n"
      "          } }\n"
      "        }\n"
      "        loop.unroll i in 0 .. %d { loop.lane l in 0 .. %d {\n"
      "          ct[ip, jp, i, l] = acc[i, l]\n"
      "        } }\n"
      "      } }\n"
      "    }\n",
      s.mr, lanes, s.mr, lanes, s.mr, lanes, s.mr, lanes, s.mr, s.mr, lanes);
  td_buf_printf(out,
      "    loop.serial i in 0 .. rows { loop.serial jp in 0 .. jps {\n"
      "      loop.lane l in 0 .. %d where jp * %d + l < cols {\n"
      "        c[i0 + i, j0 + jp * %d + l] = ct[i / %d, jp, i %% %d, l]\n"
      "      }\n"
      "    } }\n"
      "  } }\n"
      "}\n",
      lanes, s.nr, s.nr, s.mr, s.mr);
}

typedef struct job {
  rcpu_kernel_fn fn;
  void *buffers[3];
  int64_t dims[3];
  unsigned char *scratch;
  size_t scratch_bytes;
} job_t;

static void work(void *context, uint32_t worker, int64_t begin, int64_t end) {
  job_t *job = context;
  job->fn(job->buffers, job->dims, job->scratch + worker * job->scratch_bytes,
          begin, end);
}

static bool dim_value(void *user, const ix_symbol_t *s, int64_t *out) {
  void **pair = user;
  const kir_kernel_t *k = pair[0];
  for (uint32_t i = 0; i < k->dim_count; i++) {
    if (k->dims[i] == s) {
      *out = ((const int64_t *)pair[1])[i];
      return true;
    }
  }
  return false;
}

static double seconds(void) {
  return (double)td_os_now_ns() * 1e-9;
}

/* What one thread's FMA units give: `rows` rows of 32 independent
 * accumulators, as many as there are registers for. */
static void write_peak(td_buf_t *out, int rows) {
  td_buf_printf(out,
      "kernel peak(in x: f32[64], inout y: f32[%d, 32])\n"
      "    dims(N in 1..1000000000) {\n"
      "  alloc register acc: f32[%d, 32]\n"
      "  loop.unroll i in 0 .. %d { loop.lane l in 0 .. 32 {\n"
      "    acc[i, l] = y[i, l] } }\n"
      "  let f: f32 = x[0]\n"
      "  let g: f32 = x[1]\n"
      "  loop.serial n in 0 .. N {\n"
      "    loop.unroll i in 0 .. %d { loop.lane l in 0 .. 32 {\n"
      "      acc[i, l] = fma(acc[i, l], f, g) } }\n"
      "  }\n"
      "  loop.unroll i in 0 .. %d { loop.lane l in 0 .. 32 {\n"
      "    y[i, l] = acc[i, l] } }\n"
      "}\n", rows, rows, rows, rows, rows);
}

static kir_kernel_t *kernel_of(td_task_t *task, td_arena_t *arena,
                               const char *text) {
  uint32_t file = td_sources_add(task, "bench.kir", text, strlen(text));
  kir_kernel_t **kernels = kir_parse(task, arena, file);
  if (kernels == NULL || !kir_verify(task, kernels[0], "bench", true)) {
    for (size_t i = 0; i < task->diags.length; i++) {
      td_buf_t b;
      td_buf_init(&b, task);
      td_diag_render(&b, task, task->diags.data[i], false);
      fputs(b.data, stderr);
      td_buf_free(&b);
    }
    TD_ICE(task, "kernel text");
  }
  return kernels[0];
}

static rcpu_kernel_fn load(td_task_t *task, td_arena_t *arena,
                           rcpu_code_t *code, kir_kernel_t *kernel,
                           const ir_target_t *target, double *out_seconds) {
  cgl_output_t out;
  const kir_kernel_t *kernels[1] = {kernel};
  double start = seconds();
  cgl_compile(task, arena, kernels, 1, target, CGL_OBJECT, &out);
  *out_seconds = seconds() - start;
  if (!rcpu_code_add(code, task, out.data, out.bytes)) TD_ICE(task, "link");
  rcpu_kernel_fn fn = rcpu_code_find(code, task, cgl_symbol(arena, kernel));
  if (fn == NULL) TD_ICE(task, "symbol");
  return fn;
}

static double measure_peak(td_task_t *task, td_arena_t *arena,
                           rcpu_code_t *code, const ir_target_t *target) {
  enum { TURNS = 20000, SAMPLES = 300, MOST_ROWS = 16 };
  static const float x[64] = {0.5f};
  float y[MOST_ROWS * 32] = {0};
  int rows = (int)((target->registers - 4) * target->lanes / 32);
  if (rows > MOST_ROWS) rows = MOST_ROWS;
  double compile, best = 0;
  td_buf_t text;
  td_buf_init(&text, task);
  write_peak(&text, rows);
  rcpu_kernel_fn fn = load(task, arena, code,
                           kernel_of(task, arena, text.data), target,
                           &compile);
  td_buf_free(&text);
  void *buffers[2] = {(void *)(uintptr_t)x, y};
  int64_t n = TURNS;
  for (int r = 0; r < SAMPLES; r++) { /* short, so that some are undisturbed */
    double start = seconds();
    fn(buffers, &n, NULL, 0, 1);
    double rate = 2.0 * rows * 32 * TURNS / (seconds() - start);
    if (rate > best) best = rate;
  }
  return best;
}

typedef struct args {
  const char *target;
  int64_t m, n, k;
  shape_t shape; /* mc 0: that of the target */
} args_t;

static void fill(float *data, size_t count) {
  uint32_t x = 1;
  for (size_t i = 0; i < count; i++) {
    x = x * 1664525u + 1013904223u;
    data[i] = (float)(x >> 8) * 0x1p-24f - 0.5f;
  }
}

/* Largest difference from a sum in f64, over some rows. */
static double check(const job_t *job) {
  int64_t m = job->dims[0], n = job->dims[1], k = job->dims[2];
  const float *a = job->buffers[0], *b = job->buffers[1],
              *c = job->buffers[2];
  double worst = 0;
  for (int64_t i = 0; i < m; i += m / 3 + 1) {
    for (int64_t j = 0; j < n; j++) {
      double sum = 0;
      for (int64_t p = 0; p < k; p++) {
        sum += (double)a[i * k + p] * (double)b[p * n + j];
      }
      worst = fmax(worst, fabs(sum - (double)c[i * n + j]));
    }
  }
  return worst;
}

static void bench(td_task_t *task, void *arg) {
  const args_t *args = arg;
  td_arena_t arena;
  td_arena_init(&arena, task);
  const ir_target_t *target = args->target != NULL
                                  ? ir_target_find(td_str(args->target))
                                  : ir_target_host();
  if (target == NULL) TD_ICE(task, "no target %s", args->target);
  rcpu_code_t *code = rcpu_code_create(task);
  shape_t shape = {(int)target->mc, (int)target->nc, (int)target->kc,
                   (int)target->mr, (int)target->nr};
  if (args->shape.mc > 0) shape = args->shape;
  td_buf_t text;
  td_buf_init(&text, task);
  write_kernel(&text, shape);
  kir_kernel_t *kernel = kernel_of(task, &arena, text.data);
  double compile;
  job_t job = {.dims = {args->m, args->n, args->k}};
  job.fn = load(task, &arena, code, kernel, target, &compile);
  double peak = measure_peak(task, &arena, code, target);
  printf("%s: compiled in %.1f ms; peak of one thread %.1f GFLOP/s\n",
         target->name, compile * 1e3, peak * 1e-9);
  void *pair[2] = {kernel, job.dims};
  int64_t blocks = 0, bytes = 0;
  if (!ix_eval(kir_block_count(kernel), dim_value, pair, &blocks) ||
      !ix_eval(kir_scratch_bytes(kernel), dim_value, pair, &bytes)) {
    TD_ICE(task, "sizes");
  }
  job.scratch_bytes = (size_t)bytes;
  size_t sizes[3] = {(size_t)(args->m * args->k), (size_t)(args->k * args->n),
                     (size_t)(args->m * args->n)};
  for (int i = 0; i < 3; i++) {
    job.buffers[i] = aligned_alloc(64, (sizes[i] * 4 + 63) / 64 * 64);
    fill(job.buffers[i], sizes[i]);
  }
  double flops = 2.0 * (double)args->m * (double)args->n * (double)args->k;
  for (uint32_t threads = 1; threads <= 2; threads++) {
    rcpu_pool_t *pool = rcpu_pool_create(threads);
    job.scratch = aligned_alloc(64, job.scratch_bytes * threads);
    double ours = 1e30, theirs = 1e30;
    for (int r = 0; r < 30; r++) {
      double start = seconds();
      rcpu_pool_run(pool, blocks, work, &job);
      ours = fmin(ours, seconds() - start);
#if TDSL_HAVE_OPENBLAS
      float *other = malloc(sizes[2] * 4);
      openblas_set_num_threads((int)threads);
      start = seconds();
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)args->m,
                  (int)args->n, (int)args->k, 1.0f, job.buffers[0],
                  (int)args->k, job.buffers[1], (int)args->n, 0.0f, other,
                  (int)args->n);
      theirs = fmin(theirs, seconds() - start);
      free(other);
#endif
    }
    printf("%u threads, %lld x %lld x %lld: %.1f GFLOP/s (%.0f %% of peak), "
           "OpenBLAS %.1f; worst difference %.2g\n",
           threads, (long long)args->m, (long long)args->n,
           (long long)args->k, flops / ours * 1e-9,
           100 * flops / ours / (peak * threads), flops / theirs * 1e-9,
           check(&job));
    rcpu_pool_destroy(pool);
    free(job.scratch);
  }
  for (int i = 0; i < 3; i++) free(job.buffers[i]);
  rcpu_code_destroy(code);
  td_arena_free_all(&arena);
}

int main(int argc, char **argv) {
  args_t args = {argc > 1 ? argv[1] : NULL, 512, 512, 512, {0}};
  if (argc > 4) {
    args.m = atoll(argv[2]);
    args.n = atoll(argv[3]);
    args.k = atoll(argv[4]);
  }
  if (argc > 9) {
    shape_t s = {atoi(argv[5]), atoi(argv[6]), atoi(argv[7]), atoi(argv[8]),
                 atoi(argv[9])};
    args.shape = s;
  }
#if TDSL_HAVE_OPENBLAS
  printf("%s\n", openblas_get_config());
#endif
  td_task_t task;
  td_task_init(&task, NULL);
  tdsl_status_t status = td_task_run(&task, bench, &args);
  if (status != TDSL_STATUS_OK) fprintf(stderr, "%s\n", task.message);
  td_task_free(&task);
  return status == TDSL_STATUS_OK ? 0 : 1;
}
