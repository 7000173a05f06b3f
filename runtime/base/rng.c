/* Philox 4x32-10 (Salmon et al., SC11) as language section 7.1 keys it. */
#include "runtime/base/rng.h"

/* Each round multiplies two words and exchanges; the key advances by Weyl
   constants. The loop is short enough for compilers to unroll. */
void td_philox(const uint32_t counter[4], const uint32_t key[2],
               uint32_t out[4]) {
  uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2];
  uint32_t c3 = counter[3], k0 = key[0], k1 = key[1];
  for (int round = 0; round < 10; round++) {
    uint64_t a = (uint64_t)0xd2511f53u * c0;
    uint64_t b = (uint64_t)0xcd9e8d57u * c2;
    uint32_t n0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
    uint32_t n2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
    c1 = (uint32_t)b;
    c3 = (uint32_t)a;
    c0 = n0;
    c2 = n2;
    k0 += 0x9e3779b9u;
    k1 += 0xbb67ae85u;
  }
  out[0] = c0;
  out[1] = c1;
  out[2] = c2;
  out[3] = c3;
}

/* 24 bits fit binary32 exactly, and the factor is a power of two. */
float td_uniform(int64_t seed, const int64_t *counters, int n) {
  uint64_t last = (uint64_t)counters[n - 1];
  uint32_t counter[4] = {(uint32_t)(last / 4), 0, 0, 0};
  for (int i = 1; i < n; i++) {
    counter[i] = (uint32_t)(uint64_t)counters[n - 1 - i];
  }
  uint32_t key[2] = {(uint32_t)(uint64_t)seed,
                     (uint32_t)((uint64_t)seed >> 32)};
  uint32_t words[4];
  td_philox(counter, key, words);
  return (float)(words[last % 4] >> 8) * 0x1p-24f;
}
