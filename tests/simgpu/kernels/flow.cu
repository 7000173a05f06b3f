// Control flow: divergence of every kind, calls, tables of cases.
#define K extern "C" __global__ void
typedef unsigned u32;
#define I (blockIdx.x * blockDim.x + threadIdx.x)

// nested loops that lanes leave at different times, in both ways
K flow_nested(const u32 *in, u32 *out) {
  u32 a = in[I], r = 0;
  for (u32 i = 0; i < (a & 15u); i++) {
    if ((a >> i & 1u) == 0) continue;
    for (u32 k = 0; k < 20; k++) {
      if (k > (a >> 4 & 15u) + i) break;
      if ((k ^ i) & 2u) continue;
      r += k * i + 1u;
    }
    if (r > 150u) break;
  }
  out[I] = r;
}

K flow_return(const u32 *in, u32 *out) {
  u32 i = I, a = in[i] % 97u;
  out[i] = a;
  if (a < 10) return;
  out[i] = a * 3u;
  for (u32 k = 0; k < 50; k++) {
    if (a == k * 2u + 20u) return;
    out[i] += k;
  }
  if (a & 1) return;
  out[i] ^= 0x55u;
}

K flow_switch(const u32 *in, u32 *out) {
  u32 a = in[I], r = 7;
  switch (a % 12u) {
  case 0: r = a >> 3; break;
  case 1: r = a * 5u; // and on
  case 2: r += 9; break;
  case 3: r = ~a; break;
  case 4: r ^= a; // and on
  case 5: r *= 3u; // and on
  case 6: r -= a; break;
  case 9: r = a & 0xFFFu; break;
  case 10: r = a | 0xFFFu; break;
  default: r = 1000u + a % 12u;
  }
  out[I] = r;
}

K flow_collatz(const u32 *in, u32 *out) {
  u32 n = in[I] % 1000u + 1u, steps = 0;
  while (n != 1u) {
    n = n & 1u ? 3u * n + 1u : n / 2u;
    steps++;
  }
  out[I] = steps;
}

// an automaton of gotos over the bits of a word
K flow_goto(const u32 *in, u32 *out) {
  u32 a = in[I], n = 0, words = 0;
outside:
  if (n == 32) goto done;
  if (!(a >> n++ & 1u)) goto outside;
  words++;
inside:
  if (n == 32) goto done;
  if (a >> n++ & 1u) goto inside;
  goto outside;
done:
  out[I] = words;
}

K flow_short(const u32 *in, u32 *out) {
  u32 a = in[I], b = in[I + 512], r = 0;
  if ((a & 1u) && ((b & 2u) || (a & 4u)) && !((b & 8u) && (a & 16u))) r |= 1u;
  if ((a & 32u) ? (b & 1u) : (a & 64u) != 0) r |= 2u;
  bool p = a > b, q = (a ^ b) & 1u, s = p ^ q;
  if (s && !q) r |= 4u;
  if (p == s) r |= 8u;
  out[I] = r;
}

struct pair_t { u32 x, y; unsigned char tag; };

__device__ __noinline__ u32 mix(u32 a, u32 b) { return (a ^ b) * 0x9E3779B1u; }
__device__ __noinline__ pair_t swapped(pair_t p, u32 k) {
  pair_t r = {p.y + k, mix(p.x, k), (unsigned char)(p.tag + 1)};
  return r;
}
__device__ __noinline__ void through(u32 *at, u32 n) {
  for (u32 i = 0; i < n; i++) *at = mix(*at, i);
}

K flow_calls(const u32 *in, u32 *out) {
  u32 a = in[I], r = 0;
  pair_t p = {a, a >> 7, (unsigned char)a};
  if (a & 1u) p = swapped(p, 5u); // lanes call on their own
  for (u32 i = 0; i < (a >> 4 & 3u); i++) p = swapped(p, i);
  r = p.x + p.y * 3u + p.tag;
  through(&r, a >> 8 & 7u);
  out[I] = r;
}

// only some lanes of only some warps go on; the rest waits at the end
K flow_uneven(const u32 *in, u32 *out) {
  u32 t = threadIdx.x, r = 0;
  if (t % 3u == 0) {
    if (t & 32u) {
      for (u32 i = 0; i < t; i++) r += in[(I + i) % 1024u] & 3u;
    } else if (t > 64) {
      r = in[I] / 3u;
    }
  } else {
    do r = r * 5u + 1u; while (r % 7u != t % 7u && r < 100000u);
  }
  out[I] = r + t;
}

// the greatest common divisor: a loop whose exit depends on data
K flow_gcd(const u32 *in, u32 *out) {
  u32 a = in[I] % 5000u, b = in[I + 512] % 3000u;
  while (b) {
    u32 t = a % b;
    a = b;
    b = t;
  }
  out[I] = a;
}

// a stack of its own in local memory: quicksort of 24 bytes, iterative
K flow_stack(const u32 *in, u32 *out) {
  unsigned char v[24];
  signed char stack[48];
  int top = 0;
  for (int k = 0; k < 24; k++) v[k] = (unsigned char)(in[(I + k) % 1024u] >> (k & 7));
  stack[top++] = 0, stack[top++] = 23;
  while (top) {
    int high = stack[--top], low = stack[--top], i = low, j = high;
    unsigned char pivot = v[(low + high) / 2];
    while (i <= j) {
      while (v[i] < pivot) i++;
      while (v[j] > pivot) j--;
      if (i > j) break;
      unsigned char t = v[i];
      v[i++] = v[j], v[j--] = t;
    }
    if (low < j) stack[top++] = (signed char)low, stack[top++] = (signed char)j;
    if (i < high) stack[top++] = (signed char)i, stack[top++] = (signed char)high;
  }
  for (int k = 0; k < 6; k++)
    out[6 * I + k] = v[4 * k] | v[4 * k + 1] << 8 | v[4 * k + 2] << 16 |
                     (u32)v[4 * k + 3] << 24;
}
