// Integers: every thread works on its own words of the input.
#define K extern "C" __global__ void
typedef unsigned u32;
typedef unsigned long long u64;
typedef long long s64;
#define I (blockIdx.x * blockDim.x + threadIdx.x)

K int_arith(const u32 *in, u32 *out) {
  u32 i = I, a = in[i], b = in[i + 512] | 1u;
  int x = (int)a, y = (int)b;
  u32 r = a + b;
  r = r * 31u + (a - b);
  r = r * 31u + a * b;
  r = r * 31u + a / b;
  r = r * 31u + a % b;
  if (!(x == (int)0x80000000 && y == -1)) {
    r = r * 31u + (u32)(x / y);
    r = r * 31u + (u32)(x % y);
  }
  r = r * 31u + (u32)min(x, y) + (u32)max(x, y) * 3u;
  r = r * 31u + min(a, b) + max(a, b) * 3u + (u32)abs(x >> 1);
  r = r * 31u + (u32)(x >> (b & 31u)) + (a >> (b & 31u)) + (a << (b & 31u));
  out[i] = r;
}

K int_high(const u32 *in, u32 *out) {
  u32 i = I, a = in[i], b = in[i + 512];
  u64 w = (u64)a << 32 | b, v = (u64)b * a + 7u;
  s64 sw = (s64)w, sv = (s64)v;
  out[4 * i] = __umulhi(a, b) ^ (u32)__mulhi((int)a, (int)b);
  out[4 * i + 1] = (u32)((u64)a * b >> 16) + (u32)((s64)(int)a * (int)b >> 9);
  out[4 * i + 2] = (u32)(__umul64hi(w, v) >> 3);
  out[4 * i + 3] = (u32)(__mul64hi(sw, sv) >> 5) + __umul24(a, b) +
                   (u32)__mul24((int)a, (int)b);
}

K int_bits(const u32 *in, u32 *out) {
  u32 i = I, a = in[i], b = in[i + 512], c = in[(i * 7) % 1024];
  u32 r = (u32)__popc(a) + 40u * (u32)__clz((int)b) +
          1600u * (u32)__ffs((int)(a & b));
  r = r * 31u + __brev(a);
  r = r * 31u + __byte_perm(a, b, c & 0x7777u);
  r = r * 31u + __funnelshift_l(a, b, c);
  r = r * 31u + __funnelshift_r(a, b, c);
  r = r * 31u + __funnelshift_lc(a, b, c & 63u);
  r = r * 31u + __funnelshift_rc(a, b, c & 63u);
  r = r * 31u + ((a & b) | (~c & a)) + (a ^ b ^ c);
  out[i] = r;
}

K int_long(const u32 *in, u32 *out) {
  u32 i = I;
  u64 a = (u64)in[i] << 32 | in[i + 512];
  u64 b = ((u64)in[(i * 5) % 1024] << 13 | in[(i * 3) % 1024]) | 1u;
  s64 x = (s64)a, y = (s64)(b >> 7 | 1);
  u64 r = a + b;
  r = r * 31u + (a - b);
  r = r * 31u + a * b;
  r = r * 31u + a / b;
  r = r * 31u + a % b;
  r = r * 31u + (u64)(x / y);
  r = r * 31u + (u64)(x % y);
  r = r * 31u + (u64)(x >> (b & 63u)) + (a >> (b & 63u)) + (a << (b & 63u));
  r = r * 31u + (u64)__popcll(a) + 70u * (u64)__clzll((s64)(b)) +
      4900u * (u64)__ffsll((s64)(a & b));
  r = r * 31u + __brevll(a);
  r = r * 31u + (x < y ? 5u : 9u) + (a < b ? 50u : 90u);
  r = r * 31u + (u64)llmin(x, y) + (u64)llmax(x, -y) + ullmin(a, b) +
      (u64)llabs(x >> 2);
  out[2 * i] = (u32)r;
  out[2 * i + 1] = (u32)(r >> 32);
}

// carry chains: sums and products of 128 bits
K int_carry(const u32 *in, u32 *out) {
  u32 i = I;
  unsigned __int128 a = 0, b = 0;
  for (u32 k = 0; k < 4; k++) {
    a = a << 32 | in[(i * 4 + k) % 1024];
    b = b << 32 | in[(i * 4 + k * 9 + 1) % 1024];
  }
  unsigned __int128 s = a + b, d = a - b, p = a * b;
  u64 r = (u64)(s >> 64) ^ (u64)s * 3u ^ (u64)(d >> 64) * 5u ^ (u64)d * 7u ^
          (u64)(p >> 64) * 9u ^ (u64)p * 11u;
  u32 lo, mid, hi; // a 96-bit sum by hand, then a 64-bit product
  asm("add.cc.u32 %0, %3, %6; addc.cc.u32 %1, %4, %7; addc.u32 %2, %5, %8;"
      : "=r"(lo), "=r"(mid), "=r"(hi)
      : "r"(in[i]), "r"(in[i + 1]), "r"(in[i + 2]), "r"(in[i + 3]),
        "r"(in[i + 4]), "r"(in[i + 5]));
  r = r * 31u + lo + 3u * mid + 5u * hi;
  asm("sub.cc.u32 %0, %3, %6; subc.cc.u32 %1, %4, %7; subc.u32 %2, %5, %8;"
      : "=r"(lo), "=r"(mid), "=r"(hi)
      : "r"(in[i]), "r"(in[i + 1]), "r"(in[i + 2]), "r"(in[i + 3]),
        "r"(in[i + 4]), "r"(in[i + 5]));
  r = r * 31u + lo + 3u * mid + 5u * hi;
  asm("mad.lo.cc.u32 %0, %2, %3, %4; madc.hi.u32 %1, %2, %3, %5;"
      : "=r"(lo), "=r"(hi)
      : "r"(in[i]), "r"(in[i + 1]), "r"(in[i + 2]), "r"(in[i + 3]));
  r = r * 31u + lo + 3u * hi;
  out[2 * i] = (u32)r;
  out[2 * i + 1] = (u32)(r >> 32);
}

K int_bytes(const u32 *in, u32 *out) {
  u32 i = I, a = in[i], b = in[i + 512], c = in[(i * 7) % 1024];
  u32 r = __dp4a(a, b, c);
  r = r * 31u + (u32)__dp4a((int)a, (int)b, (int)c);
  r = r * 31u + __usad(a, b, c) + __sad((int)a >> 1, (int)b >> 1, c);
  r = r * 31u + __vadd4(a, b) + __vmaxu4(a, b);
  r = r * 31u + __vmins2(a, b) + __vsub2(a, c);
  out[i] = r;
}

K int_short(const u32 *in, u32 *out) {
  u32 i = I;
  short a = (short)in[i], b = (short)in[i + 512];
  unsigned short x = (unsigned short)a, y = (unsigned short)(b | 1);
  signed char p = (signed char)in[i];
  unsigned char q = (unsigned char)in[i + 512];
  short s = (short)(a + b), m = (short)(a * b);
  unsigned short d = (unsigned short)(x / y), e = (unsigned short)(x % y);
  u32 r = (u32)(int)s;
  r = r * 31u + (u32)(int)m + d + e;
  r = r * 31u + (u32)(int)(a < b ? a : b) + (u32)(x > y ? x : y);
  r = r * 31u + (u32)(p * q) + (u32)(p >> 2) + (u32)(q >> 3);
  r = r * 31u + (u32)(short)(x << 3) + (u32)(unsigned short)~x;
  r = r * 31u + (u32)(p < 0) + (u32)(q > 200) + (u32)(a == b);
  out[i] = r;
}

// what the compiler seldom writes
K int_forms(const u32 *in, u32 *out) {
  u32 i = I, a = in[i], b = in[i + 512], c = in[(i * 7) % 1024], r = 0, t;
  u64 w = (u64)a << 32 | b, v;
  asm("bfe.u32 %0, %1, %2, %3;" : "=r"(t) : "r"(a), "r"(b & 63u), "r"(c & 63u));
  r = r * 31u + t;
  asm("bfe.s32 %0, %1, %2, %3;" : "=r"(t) : "r"(a), "r"(b & 63u), "r"(c & 63u));
  r = r * 31u + t;
  asm("bfi.b32 %0, %1, %2, %3, %4;"
      : "=r"(t) : "r"(a), "r"(b), "r"(c & 63u), "r"(b >> 3 & 63u));
  r = r * 31u + t;
  asm("bfe.u64 %0, %1, %2, %3;" : "=l"(v) : "l"(w), "r"(b & 127u), "r"(c & 127u));
  r = r * 31u + (u32)v + (u32)(v >> 32);
  asm("lop3.b32 %0, %1, %2, %3, 0xD8;" : "=r"(t) : "r"(a), "r"(b), "r"(c));
  r = r * 31u + t;
  asm("bfind.u32 %0, %1;" : "=r"(t) : "r"(a >> (b & 31u)));
  r = r * 31u + t;
  asm("bfind.shiftamt.s32 %0, %1;" : "=r"(t) : "r"((int)a >> (b & 31u)));
  r = r * 31u + t;
  asm("prmt.b32.f4e %0, %1, %2, %3;" : "=r"(t) : "r"(a), "r"(b), "r"(c));
  r = r * 31u + t;
  asm("prmt.b32.ecl %0, %1, %2, %3;" : "=r"(t) : "r"(a), "r"(b), "r"(c));
  r = r * 31u + t;
  asm("add.sat.s32 %0, %1, %2;" : "=r"(t) : "r"(a), "r"(b));
  r = r * 31u + t;
  asm("mad.hi.s32 %0, %1, %2, %3;" : "=r"(t) : "r"(a), "r"(b), "r"(c));
  r = r * 31u + t;
  asm("cnot.b32 %0, %1;" : "=r"(t) : "r"(a & (1u << (b & 31u))));
  r = r * 31u + t;
  asm("shl.b32 %0, %1, %2;" : "=r"(t) : "r"(a), "r"(b & 63u));
  r = r * 31u + t;
  asm("shr.s32 %0, %1, %2;" : "=r"(t) : "r"(a), "r"(b & 63u));
  r = r * 31u + t;
  out[i] = r;
}
