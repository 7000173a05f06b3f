/* Conformance: control flow and memory (kernels/flow.cu, memory.cu). The
   answers are worked out here thread by thread, with other algorithms where
   there is one: remainders for shifts, sorting by counting, sums in 64 bits. */
#include "cu_lab.h"

#define EACH for (uint32_t i = 0; i < 512; i++)

/* -- flow -- */

static void flow_nested(const uint32_t *in, uint32_t *out) {
  EACH {
    uint32_t a = in[i], r = 0, n = a % 16, limit = a / 16 % 16;
    for (uint32_t x = 0; x < n && r <= 150; x++) {
      if (!(a >> x & 1)) continue;
      for (uint32_t y = 0; y < 20 && y <= limit + x; y++)
        if ((y ^ x) % 4 < 2) r += y * x + 1;
    }
    out[i] = r;
  }
}

static void flow_return(const uint32_t *in, uint32_t *out) {
  EACH {
    uint32_t a = in[i] % 97, r = a;
    if (a >= 10) {
      /* the loop ends early at k = (a - 20) / 2, if that is whole */
      bool early = a >= 20 && (a - 20) % 2 == 0 && (a - 20) / 2 < 50;
      uint32_t k = early ? (a - 20) / 2 : 50;
      r = a * 3 + k * (k - 1) / 2;
      if (!early && a % 2 == 0) r ^= 0x55;
    }
    out[i] = r;
  }
}

static void flow_switch(const uint32_t *in, uint32_t *out) {
  EACH {
    uint32_t a = in[i], c = a % 12, r;
    if (c == 0) r = a / 8;
    else if (c == 1) r = a * 5 + 9;
    else if (c == 2) r = 16;
    else if (c == 3) r = 0xFFFFFFFFu - a;
    else if (c == 4) r = (7 ^ a) * 3 - a;
    else if (c == 5) r = 21 - a;
    else if (c == 6) r = 7 - a;
    else if (c == 9) r = a % 4096;
    else if (c == 10) r = a / 4096 * 4096 + 4095;
    else r = 1000 + c;
    out[i] = r;
  }
}

static void flow_collatz(const uint32_t *in, uint32_t *out) {
  EACH {
    uint64_t n = in[i] % 1000 + 1;
    uint32_t steps = 0;
    for (; n != 1; steps++) n = n % 2 ? 3 * n + 1 : n / 2;
    out[i] = steps;
  }
}

static void flow_goto(const uint32_t *in, uint32_t *out) {
  EACH { /* runs of ones: ones whose lower neighbour is none */
    uint32_t starts = in[i] & ~(in[i] << 1), n = 0;
    for (; starts; starts &= starts - 1) n++;
    out[i] = n;
  }
}

static void flow_short(const uint32_t *in, uint32_t *out) {
  EACH {
    uint32_t a = in[i], b = in[i + 512], r = 0;
    int a0 = a & 1, b1 = b >> 1 & 1, a2 = a >> 2 & 1, b3 = b >> 3 & 1,
        a4 = a >> 4 & 1;
    r += (uint32_t)(a0 * (b1 + a2 > 0) * (1 - b3 * a4));
    r += a / 32 % 2 ? b % 2 * 2 : a / 64 % 2 * 2;
    int p = a > b, q = (a + b) & 1, s = (p + q) & 1;
    r += (uint32_t)(s * (1 - q)) * 4 + (uint32_t)(p == s) * 8;
    out[i] = r;
  }
}

static uint32_t mix(uint32_t a, uint32_t b) {
  return (uint32_t)((uint64_t)(a ^ b) * 0x9E3779B1u);
}

static void flow_calls(const uint32_t *in, uint32_t *out) {
  EACH {
    uint32_t a = in[i], x = a, y = a / 128, tag = a, r;
    uint32_t n = a / 16 % 4 + a % 2;
    for (uint32_t k = 0; k < n; k++) {
      uint32_t step = a % 2 ? (k == 0 ? 5 : k - 1) : k, was = x;
      x = y + step;
      y = mix(was, step);
      tag++;
    }
    r = x + y * 3 + tag % 256;
    for (uint32_t k = 0; k < a / 256 % 8; k++) r = mix(r, k);
    out[i] = r;
  }
}

static void flow_uneven(const uint32_t *in, uint32_t *out) {
  EACH {
    uint32_t t = i % 128, r = 0;
    if (t % 3) {
      /* r = 5 r + 1 until it is congruent to t modulo 7 or large */
      for (r = 1; r % 7 != t % 7 && r < 100000; r = r * 5 + 1) continue;
    } else if (t / 32 % 2) {
      for (uint32_t k = 0; k < t; k++) r += in[(i + k) % 1024] % 4;
    } else if (t > 64) {
      r = in[i] / 3;
    }
    out[i] = r + t;
  }
}

static void flow_gcd(const uint32_t *in, uint32_t *out) {
  EACH {
    uint32_t a = in[i] % 5000, b = in[i + 512] % 3000, d;
    for (d = a > b ? a : b; d > 1 && (a % d || b % d); d--) continue;
    out[i] = a || b ? d : 0;
  }
}

static void flow_stack(const uint32_t *in, uint32_t *out) {
  EACH {
    uint32_t count[256] = {0}, n = 0;
    for (uint32_t k = 0; k < 24; k++)
      count[in[(i + k) % 1024] >> (k % 8) & 255]++;
    for (uint32_t v = 0; v < 256; v++)
      for (; count[v]; count[v]--, n++)
        out[6 * i + n / 4] |= v << (n % 4 * 8);
  }
}

/* -- memory -- */

static void mem_const(const uint32_t *in, uint32_t *out) {
  uint32_t prime[16], n = 0;
  static const int odd[3] = {-1, 2, -3};
  for (uint32_t v = 2; n < 16; v++) {
    bool is = true;
    for (uint32_t d = 2; d * d <= v; d++) is = is && v % d;
    if (is) prime[n++] = v;
  }
  EACH out[i] = prime[in[i] % 16] * prime[i % 16] +
                (uint32_t)odd[in[i] % 3] + 6 + 100000;
}

static void mem_globals(const uint32_t *in, uint32_t *out) {
  EACH {
    uint32_t v = 1;
    for (uint32_t k = 0; k < in[i] % 8; k++) v *= 10;
    out[i] = v + 1000;
  }
}

static void words_of(uint32_t *out, double d) { memcpy(out, &d, 8); }

static void mem_vectors(const uint32_t *in, uint32_t *out) {
  const uint8_t *byte = (const uint8_t *)in;
  for (uint32_t i = 0; i < 128; i++) {
    const uint32_t *q = in + 4 * i, *p = in + 128 + 2 * i;
    uint16_t s[4], r[4];
    memcpy(s, byte + 8 * (i + 128), 8);
    for (int k = 0; k < 4; k++) r[k] = s[3 - k];
    words_of(out + 4 * i, (double)q[0]);
    words_of(out + 4 * i + 2, (double)q[1]);
    float f[4] = {(float)(q[2] % 65536), (float)p[0], 2, 3};
    memcpy(out + 512 + 4 * i, f, 16);
    memcpy(out + 1024 + 2 * i, r, 8);
    const uint8_t *c = byte + 4 * (i + 300);
    out[1280 + i] = c[3] | (uint32_t)c[0] << 8 | (uint32_t)c[2] << 16 |
                    (uint32_t)c[1] << 24;
    out[1408 + 2 * i] = p[1], out[1409 + 2 * i] = q[3];
    uint64_t w = (uint64_t)q[0] * q[1];
    memcpy(out + 1664 + 2 * i, &w, 8);
  }
}

static uint32_t read_le(const uint8_t *p, int bytes, bool is_signed) {
  uint32_t v = 0;
  for (int k = bytes; k-- > 0;) v = v << 8 | p[k];
  if (is_signed && (p[bytes - 1] & 0x80)) v |= 0xFFFFFFFFu << (8 * bytes);
  return v;
}

static void mem_narrow(const uint32_t *in, uint32_t *out) {
  const uint8_t *p = (const uint8_t *)in;
  uint8_t *bytes = (uint8_t *)(out + 128);
  for (uint32_t i = 0; i < 128; i++) {
    uint32_t a = read_le(p + i, 1, true), b = read_le(p + 3 * i, 1, false);
    uint32_t c = read_le(p + 2 * (i + 9), 2, true);
    uint32_t d = read_le(p + 2 * (2 * i + 1), 2, false);
    uint32_t e = read_le(p + 2 * i + 1, 1, true);
    uint32_t f = read_le(p + 4 * i, 2, true);
    out[i] = a + b * 2 + c * 3 + d * 5 + e * 7 + f * 11;
    bytes[i] = (uint8_t)(a ^ b);
    bytes[256 + 2 * i] = (uint8_t)(c + d);
    bytes[257 + 2 * i] = (uint8_t)((c + d) >> 8);
  }
}

static void mem_caches(const uint32_t *in, uint32_t *out) {
  static const uint32_t weight[6] = {1, 3, 5, 7, 11, 13};
  EACH {
    const uint32_t *q = in + 4 * (i % 128);
    double d;
    memcpy(&d, in + 2 * (511 - i % 128), 8);
    uint32_t r = q[0] + q[3] + (isfinite(d) ? 1 : 2);
    for (uint32_t k = 0; k < 6; k++) r += weight[k] * in[i + k];
    for (uint32_t k = 0; k < 4; k++) out[4 * i + k] = r + k;
  }
}

static void mem_generic(const uint32_t *in, uint32_t *out) {
  EACH {
    uint32_t t = i % 128 % 3;
    if (t == 0) out[i] = (in[i] ^ 1) + 5 + 1000;
    if (t == 1) out[i] = in[i] + in[i] % 4 + 5 + 2000;
    if (t == 2) out[i] = 82 + 4000, out[512 + i] = 82;
  }
}

static void mem_dynamic(const uint32_t *in, uint32_t *out) {
  EACH {
    uint32_t t = i % 128, o = i - t + 127 - t;
    out[i] = in[o] + (uint32_t)((uint64_t)in[o] * 3 >> 32) +
             (127 - t) * 256 + (t % 32) * (t % 32) + 2000;
  }
}

static void mem_struct(const uint32_t *in, uint32_t *out) {
  EACH {
    uint32_t sum = in[i] >> 4 & 255, k = in[i] % 20;
    for (uint32_t n = 0; n < 20; n++) sum += in[(i + n) % 1024] % 65536;
    sum += in[i] % 256 * 2;
    out[i] = sum + 3 * (sum - in[(i + k) % 1024] % 65536 + 1);
  }
}

static void mem_local(const uint32_t *in, uint32_t *out) {
  EACH {
    uint32_t best = 0, most = 0;
    for (uint32_t v = 0; v < 32; v++) {
      uint32_t sum = 0;
      for (uint32_t k = 0; k < 64; k++)
        if (in[(i + k) % 1024] % 32 == v) sum += k;
      if (v == 0 || sum > most) best = v, most = sum;
    }
    out[i] = best << 16 | most;
  }
}

static void mem_volatile(const uint32_t *in, uint32_t *out) {
  EACH out[i] = in[i] + 1, out[i + 512] = (in[i] + 1) * 2;
}

/* -- atomics -- */

static void atom_integer(const uint32_t *in, uint32_t *out) {
  uint64_t sum = 0;
  int32_t low = 0, high = 0;
  EACH {
    int32_t s = (int32_t)in[i];
    sum += in[i];
    if (s < low) low = s;
    if (s > high) high = s;
    if (in[i] > out[4]) out[4] = in[i];
    out[6] |= in[i] & 0x0F0F0F0F;
    out[7] ^= in[i];
  }
  out[0] = (uint32_t)sum, out[1] = (uint32_t)(0 - sum);
  out[2] = (uint32_t)low, out[3] = (uint32_t)high;
  out[8] = 512 % 101;
  /* 0 wraps to 300, then down to 0, 301 steps a round */
  out[9] = (301 - 512 % 301) % 301;
  out[11] = 0xABCD;
}

static void atom_wide(const uint32_t *in, uint32_t *out) {
  uint64_t w[8] = {0};
  for (uint32_t i = 0; i < 512; i++) {
    uint64_t a = (uint64_t)in[i] << 20 ^ in[i + 512];
    w[0] += a;
    if (a > w[1]) w[1] = a;
    if ((int64_t)(0 - a) < (int64_t)w[2]) w[2] = 0 - a;
    w[3] |= a & UINT64_C(0x00FF00FF00FF00FF);
    w[4] ^= a;
    w[7] = w[7] == 0 ? 1 : w[7] * 3 % 1000003;
  }
  w[6] = 5;
  memcpy(out, w, sizeof w);
}

static void atom_float(const uint32_t *in, uint32_t *out) {
  int64_t sum = 0;
  EACH sum += (int64_t)(in[i] % 256) - 128;
  float f = (float)sum;
  double d = (double)sum / 2;
  memcpy(out, &f, 4);
  memcpy(out + 2, &d, 8);
  f = 512;
  memcpy(out + 4, &f, 4);
}

static void atom_shared(const uint32_t *in, uint32_t *out) {
  for (uint32_t b = 0; b < 4; b++) {
    uint32_t *o = out + b * 10;
    uint64_t sum = 0;
    o[1] = 0xFFFFFFFFu;
    for (uint32_t i = b * 128; i < b * 128 + 128; i++) {
      sum += in[i];
      if (in[i] < o[1]) o[1] = in[i];
      if ((int32_t)in[i] > (int32_t)o[2]) o[2] = in[i];
      o[3] ^= in[i];
      o[4] |= 1u << in[i] % 32;
    }
    o[0] = (uint32_t)sum, o[5] = 128 % 41, o[6] = 128, o[7] = 9;
    o[8] = (uint32_t)sum, o[9] = (uint32_t)(sum >> 32);
  }
  EACH out[40 + i] = 1;
}

static void atom_scopes(const uint32_t *in, uint32_t *out) {
  uint64_t sum = 0;
  EACH {
    uint32_t a = in[i] % 256, b = i / 128;
    out[b] += a;
    if (a > out[5 + b]) out[5 + b] = a;
    out[11] ^= a;
    sum += a;
  }
  float f = (float)sum;
  out[4] = out[9] = out[10] = out[12] = (uint32_t)sum;
  memcpy(out + 14, &f, 4);
}

static void atom_lock(const uint32_t *in, uint32_t *out) {
  for (uint32_t i = 0; i < 512; i += 32) out[1] += in[i] % 16;
}

static void atom_tickets(const uint32_t *in, uint32_t *out) {
  (void)in;
  out[0] = 512;
  EACH out[1 + i] = 1;
  for (uint32_t k = 0; k < 16; k++) out[601 + k] = 512 / 16;
}

#define ROW(file, name, words) \
  {file ".cu", #name, {4, 1, 1}, {128, 1, 1}, 0, words, name, CU_EXACT, 0, 0}
#define ONE(file, name, words) \
  {file ".cu", #name, {1, 1, 1}, {128, 1, 1}, 0, words, name, CU_EXACT, 0, 0}

static const cu_row_t rows[] = {
    ROW("flow", flow_nested, 512),
    ROW("flow", flow_return, 512),
    ROW("flow", flow_switch, 512),
    ROW("flow", flow_collatz, 512),
    ROW("flow", flow_goto, 512),
    ROW("flow", flow_short, 512),
    ROW("flow", flow_calls, 512),
    ROW("flow", flow_uneven, 512),
    ROW("flow", flow_gcd, 512),
    ROW("flow", flow_stack, 3072),
    ROW("memory", mem_const, 512),
    ROW("memory", mem_globals, 512),
    ONE("memory", mem_vectors, 1920),
    ONE("memory", mem_narrow, 256),
    ROW("memory", mem_caches, 2048),
    ROW("memory", mem_generic, 1024),
    {"memory.cu", "mem_dynamic", {4, 1, 1}, {128, 1, 1}, 2000, 512,
     mem_dynamic, CU_EXACT, 0, 0},
    ROW("memory", mem_struct, 512),
    ROW("memory", mem_local, 512),
    ROW("memory", mem_volatile, 1024),
    ROW("memory", atom_integer, 12),
    ROW("memory", atom_wide, 16),
    ROW("memory", atom_float, 5),
    ROW("memory", atom_shared, 552),
    ROW("memory", atom_scopes, 16),
    ROW("memory", atom_lock, 2),
    ROW("memory", atom_tickets, 617)};

static void conformance(void **state) {
  (void)state;
  cu_all(rows, sizeof rows / sizeof *rows);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(conformance)};
  return cmocka_run_group_tests_name("simgpu.cu_memory", tests, NULL, NULL);
}
