/* Which block and which warp runs next, and when nothing can: a warp runs until
   it blocks or its slice ends, then the next by the launch's order. */
#ifndef SIM_SCHEDULE_H
#define SIM_SCHEDULE_H

#include "runtime/simgpu/warp.h"

/* The body of a host thread: arg is a sim_worker_t, whose blocks it starts and
   runs until the grid is used up or the launch ends. */
void sim_schedule_run(void *arg);

#endif
