/* A pair of launches of which the second may begin before the first has
   completed. The second one's beginning loads weights, which nobody writes.
   MUTANT 1: the first does not wait for what it depends on.  2: the second
   never waits.  3: it reads what the first writes before its wait.  4: it
   writes there before its wait.  5: it writes what the first reads.  6: one
   warp waits, and no barrier tells the others.  7: the first lets the second
   begin before it has waited itself, and the second reads early what came
   before the first. */
#define WAIT()    asm volatile("griddepcontrol.wait;" ::: "memory")
#define TRIGGER() asm volatile("griddepcontrol.launch_dependents;")

extern "C" __global__ void zeroth(const int *in, int *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  TRIGGER();
  if (i < n) out[i] = in[i] * 3;
}

/* y = x + 1 */
extern "C" __global__ void first(const int *x, int *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
#if MUTANT == 7
  TRIGGER();
  WAIT();
#else
#if MUTANT != 1
  WAIT();
#endif
  TRIGGER();
#endif
  if (i < n) y[i] = x[i] + 1;
}

/* The same, and lets nobody begin early. */
extern "C" __global__ void closed(const int *x, int *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] + 1;
}

/* z = y * weight + what came before the first; x and y are the first one's. */
extern "C" __global__ void second(int *x, int *y, const int *weight,
                                  const int *before, int *z, int n) {
  __shared__ int kept[256];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  bool is_in = i < n;
  kept[threadIdx.x] = is_in ? weight[i] : 0;
  int early = 0;
#if MUTANT == 3
  if (is_in) early = y[i] < 0; /* never */
#elif MUTANT == 4
  if (is_in) y[i] = 7;
#elif MUTANT == 5
  if (is_in) x[i] = 7;
#endif
  int more = is_in ? before[i] : 0;
#if MUTANT == 6
  if (threadIdx.x < 32) WAIT();
#elif MUTANT != 2
  if (threadIdx.x < 32) WAIT();
  __syncthreads();
#endif
  TRIGGER();
  if (is_in) z[i] = y[i] * kept[threadIdx.x] + more + early;
}
