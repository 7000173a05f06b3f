/* While ranks of other processes may wait for this one, a thread looks once a
   millisecond whether they do, and then carries out what the stream holds up
   to the collective: the host here may be busy with anything, as it could be
   beside a real device. It ends with the last such communicator. */
#include "runtime/simgpu/sim_comm.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

/* An operation that ranks elsewhere have come to; NULL if there is none. */
static sim_coll_t *wanted(bool *is_idle) {
  const sim_state_t *s = sim_state();
  *is_idle = true;
  for (uint32_t i = 0; i < s->clique_count; i++) {
    const sim_clique_t *c = s->cliques[i];
    if (!c->shm || !c->is_shared) continue;
    *is_idle = false;
    /* the oldest hold back the others */
    for (uint32_t k = 0; k < c->queued_count && k < 8; k++)
      if (sim_remote_is_wanted(c->queued[k])) return c->queued[k];
  }
  return NULL;
}

static void *look(void *arg) {
  sim_state_t *s = arg;
  bool is_over = false;
  while (!is_over && !__atomic_load_n(&s->remote_stop, __ATOMIC_ACQUIRE)) {
    struct timespec pause = {0, 1000000};
    nanosleep(&pause, NULL);
    /* whoever ends the process may hold the lock and wait for this thread */
    if (pthread_mutex_trylock(&s->mutex)) continue;
    const sim_coll_t *coll = wanted(&is_over);
    if (coll) sim_queue_push(&coll->item->clock);
    if (is_over) s->is_remote_over = true;
    pthread_mutex_unlock(&s->mutex);
  }
  return NULL;
}

void sim_remote_start(void) {
  sim_state_t *s = sim_state();
  sigset_t all, old;
  if (s->has_remote && !s->is_remote_over) return;
  if (s->has_remote) pthread_join(s->remote, NULL);
  s->is_remote_over = false;
  s->remote_stop = 0;
  s->remote_process = getpid();
  sigfillset(&all); /* signals are the program's */
  pthread_sigmask(SIG_SETMASK, &all, &old);
  s->has_remote = pthread_create(&s->remote, NULL, look, s) == 0;
  pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void sim_remote_stop(void) {
  sim_state_t *s = sim_state();
  /* a child that was forked has no such thread */
  if (!s->has_remote || s->remote_process != getpid()) return;
  __atomic_store_n(&s->remote_stop, 1, __ATOMIC_RELEASE);
  pthread_join(s->remote, NULL);
  s->has_remote = false;
}
