// The counter-based generator of the language: Philox 4x32, 10 rounds.

//: td_uniform
// c1, c2, c3: the counters before the last one, nearest first; absent: 0.
__device__ __forceinline__ float td_uniform(long long seed, long long last,
                                            long long c1, long long c2,
                                            long long c3) {
  unsigned a = (unsigned)((unsigned long long)last >> 2);
  unsigned b = (unsigned)c1, c = (unsigned)c2, d = (unsigned)c3;
  unsigned k0 = (unsigned)seed;
  unsigned k1 = (unsigned)((unsigned long long)seed >> 32);
  for (int round = 0; round < 10; round++) {
    unsigned long long p = 0xd2511f53ULL * a;
    unsigned long long q = 0xcd9e8d57ULL * c;
    a = (unsigned)(q >> 32) ^ b ^ k0;
    b = (unsigned)q;
    c = (unsigned)(p >> 32) ^ d ^ k1;
    d = (unsigned)p;
    k0 += 0x9e3779b9u;
    k1 += 0xbb67ae85u;
  }
  unsigned which = (unsigned)last & 3u;
  unsigned word = which == 0 ? a : which == 1 ? b : which == 2 ? c : d;
  return (float)(word >> 8) * 0x1p-24f;
}
