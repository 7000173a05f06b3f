/* cpu_pool.c: see cpu_pool.h.
 *
 * A job is a generation number, a function and a shared counter.  Workers
 * watch the generation (spinning for a few microseconds, then waiting on a
 * condition variable), enter the job and take pieces from the counter.  The
 * caller works too.  When no piece is left it closes the job and waits for
 * those that are inside; a worker that is still waking up finds it closed and
 * costs nobody time.
 *
 * A worker counts itself in before it looks whether the job is open, and the
 * caller closes it before it looks whether anybody is inside, both in one
 * total order: so either the worker sees it closed or the caller sees it. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "runtime/cpu/cpu_pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

enum { SPIN = 2000, MAX_THREADS = 256 };

struct rcpu_pool {
  uint32_t threads;           /* the caller included */
  pthread_t *handles;
  struct rcpu_worker *workers;
  pthread_mutex_t callers;    /* one job at a time */
  pthread_mutex_t lock;
  pthread_cond_t wake;        /* generation moved or stop was set */
  pthread_cond_t done;        /* inside reached 0 */
  atomic_uint_fast64_t generation;
  atomic_uint parked;         /* workers that wait for `wake` */
  atomic_uint inside;         /* workers that may look at the job */
  atomic_bool is_open;        /* the job below may be entered */
  atomic_bool stop;
  /* the job */
  rcpu_work_fn fn;
  void *context;
  int64_t count, piece;
  int core;                   /* where its caller began */
  _Atomic int64_t next;
};

typedef struct rcpu_worker {
  rcpu_pool_t *pool;
  uint32_t number;
} rcpu_worker_t;

static void work(rcpu_pool_t *pool, uint32_t worker) {
  for (;;) {
    int64_t begin = atomic_fetch_add(&pool->next, pool->piece);
    if (begin >= pool->count) return;
    int64_t end = begin + pool->piece;
    if (end > pool->count) end = pool->count;
    pool->fn(pool->context, worker, begin, end);
  }
}

static void relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/* A worker that wakes up on the core of its caller would take turns with it.
 * The scheduler moves it away where another core is idle; where all are busy
 * that takes it tens of milliseconds, although this job may count for more
 * than what runs there. */
static void leave_core(int core) {
  cpu_set_t all, others;
  pthread_t self = pthread_self();
  if (core < 0 || sched_getcpu() != core ||
      pthread_getaffinity_np(self, sizeof all, &all) != 0) {
    return;
  }
  others = all;
  CPU_CLR((size_t)core, &others);
  if (CPU_COUNT(&others) > 0 &&
      pthread_setaffinity_np(self, sizeof others, &others) == 0) {
    (void)pthread_setaffinity_np(self, sizeof all, &all);
  }
}

static void *worker_main(void *arg) {
  rcpu_worker_t *self = arg;
  rcpu_pool_t *pool = self->pool;
  uint_fast64_t seen = 0;
  for (;;) {
    for (int i = 0; i < SPIN; i++) {
      if (atomic_load(&pool->generation) != seen) break;
      relax();
    }
    if (atomic_load(&pool->generation) == seen) {
      pthread_mutex_lock(&pool->lock);
      atomic_fetch_add(&pool->parked, 1);
      while (atomic_load(&pool->generation) == seen &&
             !atomic_load(&pool->stop)) {
        pthread_cond_wait(&pool->wake, &pool->lock);
      }
      atomic_fetch_sub(&pool->parked, 1);
      pthread_mutex_unlock(&pool->lock);
    }
    if (atomic_load(&pool->stop)) return NULL;
    seen = atomic_load(&pool->generation);
    atomic_fetch_add(&pool->inside, 1);
    if (atomic_load(&pool->is_open)) {
      leave_core(pool->core);
      work(pool, self->number);
    }
    if (atomic_fetch_sub(&pool->inside, 1) == 1 &&
        !atomic_load(&pool->is_open)) {
      pthread_mutex_lock(&pool->lock);
      pthread_cond_signal(&pool->done);
      pthread_mutex_unlock(&pool->lock);
    }
  }
}

static uint32_t usable_cores(void) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  int n = CPU_COUNT(&set);
  return n < 1 ? 1 : n > MAX_THREADS ? MAX_THREADS : (uint32_t)n;
}

rcpu_pool_t *rcpu_pool_create(uint32_t threads) {
  rcpu_pool_t *pool = calloc(1, sizeof *pool);
  if (pool == NULL) return NULL;
  uint32_t wanted = threads == 0 ? usable_cores() : threads;
  if (wanted > MAX_THREADS) wanted = MAX_THREADS;
  pool->handles = calloc(wanted, sizeof *pool->handles);
  pool->workers = calloc(wanted, sizeof *pool->workers);
  if (pool->handles == NULL || pool->workers == NULL) {
    free(pool->handles);
    free(pool->workers);
    free(pool);
    return NULL;
  }
  pthread_mutex_init(&pool->callers, NULL);
  pthread_mutex_init(&pool->lock, NULL);
  pthread_cond_init(&pool->wake, NULL);
  pthread_cond_init(&pool->done, NULL);
  pool->threads = 1;
  for (uint32_t i = 1; i < wanted; i++) {
    rcpu_worker_t *w = &pool->workers[i];
    w->pool = pool;
    w->number = i;
    /* fewer threads than wished for is slower, not wrong */
    if (pthread_create(&pool->handles[i], NULL, worker_main, w) != 0) break;
    pool->threads++;
  }
  return pool;
}

void rcpu_pool_destroy(rcpu_pool_t *pool) {
  if (pool == NULL) return;
  pthread_mutex_lock(&pool->lock);
  atomic_store(&pool->stop, true);
  atomic_fetch_add(&pool->generation, 1);
  pthread_cond_broadcast(&pool->wake);
  pthread_mutex_unlock(&pool->lock);
  for (uint32_t i = 1; i < pool->threads; i++) {
    pthread_join(pool->handles[i], NULL);
  }
  pthread_mutex_destroy(&pool->callers);
  pthread_mutex_destroy(&pool->lock);
  pthread_cond_destroy(&pool->wake);
  pthread_cond_destroy(&pool->done);
  free(pool->handles);
  free(pool->workers);
  free(pool);
}

uint32_t rcpu_pool_threads(const rcpu_pool_t *pool) {
  return pool->threads;
}

void rcpu_pool_run(rcpu_pool_t *pool, int64_t count, rcpu_work_fn fn,
                   void *context) {
  if (count <= 0) return;
  pthread_mutex_lock(&pool->callers);
  if (count == 1 || pool->threads == 1) {
    fn(context, 0, 0, count);
    pthread_mutex_unlock(&pool->callers);
    return;
  }
  pool->fn = fn;
  pool->context = context;
  pool->count = count;
  /* about eight pieces a thread balance uneven blocks at little cost */
  pool->piece = count / ((int64_t)pool->threads * 8);
  if (pool->piece < 1) pool->piece = 1;
  pool->core = sched_getcpu();
  atomic_store(&pool->next, 0);
  atomic_store(&pool->is_open, true);
  atomic_fetch_add(&pool->generation, 1);
  if (atomic_load(&pool->parked) > 0) {
    pthread_mutex_lock(&pool->lock);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
  }
  work(pool, 0);
  atomic_store(&pool->is_open, false);
  for (int i = 0; i < SPIN && atomic_load(&pool->inside) != 0; i++) relax();
  if (atomic_load(&pool->inside) != 0) {
    pthread_mutex_lock(&pool->lock);
    while (atomic_load(&pool->inside) != 0) {
      pthread_cond_wait(&pool->done, &pool->lock);
    }
    pthread_mutex_unlock(&pool->lock);
  }
  pthread_mutex_unlock(&pool->callers);
}
