/* The counter-based generator of language section 7.1, shared by every
   engine that does not generate its own code for it. A pure function. */
#ifndef TD_RNG_H
#define TD_RNG_H

#include <stdint.h>

/* Philox 4x32, 10 rounds. */
void td_philox(const uint32_t counter[4], const uint32_t key[2],
               uint32_t out[4]);

/* uniform(seed, counters[0], ..., counters[n-1]), 1 <= n <= 4: a multiple of
   2^-24 in [0, 1), exact in binary32. */
float td_uniform(int64_t seed, const int64_t *counters, int n);

#endif
