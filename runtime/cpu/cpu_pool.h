/* cpu_pool.h: threads that run the blocks of a kernel.
 *
 * One thread per usable core, the caller among them.  Workers spin briefly
 * and then park.  A pool is used by one caller at a time; callers from
 * several threads wait for each other. */
#ifndef TDSL_RUNTIME_CPU_POOL_H
#define TDSL_RUNTIME_CPU_POOL_H

#include <stddef.h>
#include <stdint.h>

typedef struct rcpu_pool rcpu_pool_t;

/* threads 0: the cores of the affinity mask.  NULL: no memory or threads. */
rcpu_pool_t *rcpu_pool_create(uint32_t threads);
/* Joins all workers. */
void rcpu_pool_destroy(rcpu_pool_t *pool);
uint32_t rcpu_pool_threads(const rcpu_pool_t *pool);

/* Runs fn(context, worker, begin, end) over pieces of 0 .. count; pieces are
 * handed out in order, so which thread runs what is open, and a kernel's
 * bits do not depend on it.  Returns when all are done. */
typedef void (*rcpu_work_fn)(void *context, uint32_t worker, int64_t begin,
                             int64_t end);
void rcpu_pool_run(rcpu_pool_t *pool, int64_t count, rcpu_work_fn fn,
                   void *context);

#endif
