// Memory spaces, widths, caches, initialised variables, atomics.
#define K extern "C" __global__ void
typedef unsigned u32;
typedef unsigned long long u64;
#define I (blockIdx.x * blockDim.x + threadIdx.x)

__constant__ u32 primes[16] = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53};
__constant__ struct { float f; short s[3]; double d; } odds = {1.5f, {-1, 2, -3}, 0.1};
__device__ u32 table[8] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000};
__device__ const u32 *pointer = table + 3;
__device__ u32 counter;

K mem_const(const u32 *in, u32 *out) {
  u32 i = I, a = in[i];
  out[i] = primes[a & 15u] * primes[i & 15u] + (u32)(int)odds.s[a % 3u] +
           (u32)(odds.f * 4.0f) + (u32)(odds.d * 1e6);
}

K mem_globals(const u32 *in, u32 *out) {
  u32 i = I;
  out[i] = table[in[i] & 7u] + *pointer;
  if (i == 0) counter = 0;
}

K mem_vectors(const u32 *in, u32 *out) {
  u32 i = I;
  uint4 q = ((const uint4 *)in)[i];
  uint2 p = ((const uint2 *)in)[i + 64];
  ushort4 s = ((const ushort4 *)in)[i + 128];
  uchar4 c = ((const uchar4 *)in)[i + 300];
  double2 d = make_double2((double)q.x, (double)q.y);
  float4 f = make_float4((float)(q.z & 0xFFFFu), (float)p.x, 2.0f, 3.0f);
  ((double2 *)out)[i] = d;
  ((float4 *)(out + 512))[i] = f;
  ((ushort4 *)(out + 1024))[i] = make_ushort4(s.w, s.z, s.y, s.x);
  ((uchar4 *)(out + 1280))[i] = make_uchar4(c.w, c.x, c.z, c.y);
  ((uint2 *)(out + 1408))[i] = make_uint2(p.y, q.w);
  ((u64 *)(out + 1664))[i] = (u64)q.x * q.y;
}

K mem_narrow(const u32 *in, u32 *out) {
  u32 i = I;
  signed char a = ((const signed char *)in)[i];
  unsigned char b = ((const unsigned char *)in)[i * 3];
  short c = ((const short *)in)[i + 9];
  unsigned short d = ((const unsigned short *)in)[i * 2 + 1];
  char2 e = ((const char2 *)in)[i];
  short2 f = ((const short2 *)in)[i];
  out[i] = (u32)(int)a + b * 2u + (u32)(int)c * 3u + d * 5u +
           (u32)(int)e.y * 7u + (u32)(int)f.x * 11u;
  ((unsigned char *)(out + 128))[i] = (unsigned char)(a ^ b);
  ((short *)(out + 192))[i] = (short)(c + d);
}

K mem_caches(const u32 *in, u32 *out) {
  u32 i = I;
  u32 r = __ldg(in + i) + 3u * __ldcg(in + i + 1) + 5u * __ldcs(in + i + 2) +
          7u * __ldca(in + i + 3) + 11u * __ldlu(in + i + 4) + 13u * __ldcv(in + i + 5);
  int4 q = __ldg((const int4 *)in + (i & 127u));
  double d = __ldg((const double *)in + 511 - (i & 127u)) * 0.0;
  r += (u32)q.x + (u32)q.w + (d == 0.0 ? 1u : 2u);
  __stcg(out + 4 * i, r), __stcs(out + 4 * i + 1, r + 1);
  __stwb(out + 4 * i + 2, r + 2), __stwt(out + 4 * i + 3, r + 3);
}

// one pointer, three spaces
K mem_generic(const u32 *in, u32 *out) {
  __shared__ u32 s[128];
  u32 l[4], t = threadIdx.x, i = I;
  s[t] = in[i] ^ 1u;
  for (u32 k = 0; k < 4; k++) l[k] = in[i] + k;
  u32 *p = t % 3u == 0 ? &s[t] : t % 3u == 1 ? &l[in[i] & 3u] : out + 512 + i;
  if (t % 3u == 2) out[512 + i] = 77u;
  *p += 5u;
  out[i] = *p + (__isShared(p) ? 1000u : 0u) + (__isLocal(p) ? 2000u : 0u) +
           (__isGlobal(p) ? 4000u : 0u) + (__isConstant(p) ? 8000u : 0u) +
           (__isGlobal(in) ? 0u : 16000u);
}

extern __shared__ __align__(16) unsigned char dynamic[];
K mem_dynamic(const u32 *in, u32 *out) {
  __shared__ u32 fixed[32];
  u32 t = threadIdx.x, n = blockDim.x;
  u32 *a = (u32 *)dynamic;             // n words
  u64 *b = (u64 *)(dynamic + 4 * n);   // n double words
  unsigned char *c = dynamic + 12 * n; // n bytes
  a[t] = in[I], b[t] = (u64)in[I] * 3u, c[t] = (unsigned char)t;
  if (t < 32) fixed[t] = t * t;
  __syncthreads();
  u32 o = n - 1 - t, size;
  asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(size));
  out[I] = a[o] + (u32)(b[o] >> 32) + c[o] * 256u + fixed[t & 31u] + size;
}

struct big_t { u32 v[20]; double d; unsigned char c[5]; };
__device__ __noinline__ u32 total(big_t b) {
  u32 r = b.c[4];
  for (u32 i = 0; i < 20; i++) r += b.v[i];
  return r + (u32)b.d;
}
K mem_struct(const u32 *in, u32 *out) {
  big_t b;
  for (u32 i = 0; i < 20; i++) b.v[i] = in[(I + i) % 1024u] & 0xFFFFu;
  b.d = (double)(in[I] & 0xFFu) * 2.0;
  for (u32 i = 0; i < 5; i++) b.c[i] = (unsigned char)(in[I] >> i);
  big_t copy = b;
  copy.v[in[I] % 20u] = 1u;
  out[I] = total(b) + 3u * total(copy);
}

K mem_local(const u32 *in, u32 *out) {
  u32 count[32];
  for (u32 i = 0; i < 32; i++) count[i] = 0;
  for (u32 k = 0; k < 64; k++) count[in[(I + k) % 1024u] & 31u] += k;
  u32 best = 0;
  for (u32 i = 1; i < 32; i++)
    if (count[i] > count[best]) best = i;
  out[I] = best << 16 | count[best];
}

K mem_volatile(const u32 *in, u32 *out) {
  volatile u32 *v = out + I;
  *v = in[I];
  *v = *v + 1u;
  volatile __shared__ u32 s[128];
  s[threadIdx.x] = *v;
  out[I + 512] = s[threadIdx.x] * 2u;
}

// -- atomics: results that no order of the threads changes --

K atom_integer(const u32 *in, u32 *out) {
  u32 a = in[I];
  atomicAdd(out, a);
  atomicSub(out + 1, a);
  atomicMin((int *)out + 2, (int)a);
  atomicMax((int *)out + 3, (int)a);
  atomicMax(out + 4, a);
  atomicAnd(out + 5, a | 0xFFFF0000u); // 0 stays 0
  atomicOr(out + 6, a & 0x0F0F0F0Fu);
  atomicXor(out + 7, a);
  atomicInc(out + 8, 100u);
  atomicDec(out + 9, 300u);
  atomicMin(out + 10, a);
  atomicExch(out + 11, 0xABCDu);
}

K atom_wide(const u32 *in, u32 *out) {
  u64 a = (u64)in[I] << 20 ^ in[I + 512], *o = (u64 *)out;
  atomicAdd(o, a);
  atomicMax(o + 1, a);
  atomicMin((long long *)o + 2, -(long long)a);
  atomicOr(o + 3, a & 0x00FF00FF00FF00FFull);
  atomicXor(o + 4, a);
  atomicAnd(o + 5, a);
  atomicExch(o + 6, 5ull);
  u64 old = o[7], seen;
  do {
    seen = old;
    old = atomicCAS(o + 7, seen, seen * 3u % 1000003u + 0u + (seen == 0 ? 1u : 0u));
  } while (old != seen);
}

K atom_float(const u32 *in, u32 *out) {
  float f = (float)(int)(in[I] & 255u) - 128.0f; // sums are exact
  atomicAdd((float *)out, f);
  atomicAdd((double *)out + 1, (double)f * 0.5);
  atomicAdd((float *)out + 4, 1.0f);
}

K atom_shared(const u32 *in, u32 *out) {
  __shared__ u32 s[8];
  __shared__ u64 w;
  u32 t = threadIdx.x, a = in[I];
  if (t < 8) s[t] = t == 1 ? 0xFFFFFFFFu : 0u;
  if (t == 8) w = 0;
  __syncthreads();
  atomicAdd(&s[0], a), atomicMin(&s[1], a), atomicMax((int *)&s[2], (int)a);
  atomicXor(&s[3], a), atomicOr(&s[4], 1u << (a & 31u)), atomicInc(&s[5], 40u);
  u32 place = atomicAdd(&s[6], 1u);
  atomicAdd(&w, (u64)a);
  atomicCAS(&s[7], 0u, 9u);
  __syncthreads();
  if (t < 8) out[blockIdx.x * 10 + t] = s[t];
  if (t == 8) out[blockIdx.x * 10 + 8] = (u32)w, out[blockIdx.x * 10 + 9] = (u32)(w >> 32);
  out[40 + blockIdx.x * 128 + place] = 1u; // each place once
}

K atom_scopes(const u32 *in, u32 *out) {
  u32 a = in[I] & 0xFFu, r;
  atomicAdd_block(out + blockIdx.x, a);
  atomicAdd_system(out + 4, a);
  atomicMax_block((int *)out + 5 + blockIdx.x, (int)a);
  asm volatile("atom.global.acq_rel.gpu.add.u32 %0, [%1], %2;"
               : "=r"(r) : "l"(out + 9), "r"(a) : "memory");
  asm volatile("red.global.release.gpu.add.u32 [%0], %1;"
               :: "l"(out + 10), "r"(a) : "memory");
  asm volatile("red.global.relaxed.sys.xor.b32 [%0], %1;"
               :: "l"(out + 11), "r"(a) : "memory");
  asm volatile("red.global.add.u64 [%0], %1;"
               :: "l"(out + 12), "l"((u64)a) : "memory");
  asm volatile("red.global.add.f32 [%0], %1;"
               :: "l"(out + 14), "f"((float)a) : "memory");
  if (r > 0x7FFFFFFFu) out[15] = 1u;
}

// a lock: one thread of a warp takes it at a time
K atom_lock(const u32 *in, u32 *out) {
  if (threadIdx.x % 32u == 0) {
    while (atomicCAS(out, 0u, 1u)) { }
    __threadfence();
    volatile u32 *v = out + 1;
    u32 old = *v;
    *v = old + (in[I] & 15u);
    __threadfence();
    atomicExch(out, 0u);
  }
}

K atom_tickets(const u32 *in, u32 *out) {
  u32 n = atomicAdd(out, 1u);
  out[1 + n] = 1u;
  u32 old = atomicInc(out + 600, 15u); // a ring of 16 places
  atomicAdd(out + 601 + old, 1u);
  if (in[I] == 1u) out[599] = 1u;
}
