// One program a CASE: what the simulator refuses at load, and what ends one.
#define K extern "C" __global__ void
typedef unsigned u32;
#if CASE == 1
K k(const u32 *in, u32 *out) { printf("%u\n", in[0]); out[0] = 1; }
#elif CASE == 2
__device__ __noinline__ u32 fib(u32 n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
K k(const u32 *in, u32 *out) { out[0] = fib(in[0] & 7u); }
#elif CASE == 3
__device__ __noinline__ u32 one(u32 a) { return a + 1; }
__device__ __noinline__ u32 two(u32 a) { return a * 2; }
typedef u32 (*fn_t)(u32);
__device__ fn_t table[2] = {one, two};
K k(const u32 *in, u32 *out) { out[0] = table[in[0] & 1u](in[1]); }
#elif CASE == 4
extern "C" __device__ void __assertfail(const char *, const char *, unsigned,
                                        const char *, unsigned long);
K k(const u32 *in, u32 *out) { 
  if (in[0] != 1u) __assertfail("in", "limits.cu", 1, "k", 1);
  out[0] = 1;
}
#else
K k(const u32 *in, u32 *out) { if (in[0] != 1u) __trap(); out[0] = 1; }
#endif
