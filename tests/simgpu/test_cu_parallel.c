/* Conformance: warps, blocks and grids (kernels/warp.cu, grid.cu). The host
   answers with plain loops over arrays. */
#include "cu_lab.h"

#define EACH for (uint32_t i = 0; i < 512; i++)

/* -- warps -- */

static void warp_shuffles(const uint32_t *in, uint32_t *out) {
  EACH {
    uint32_t base = i / 32 * 32, lane = i % 32, r = 0;
    for (uint32_t w = 2; w <= 32; w *= 2) {
      uint32_t seg = base + lane / w * w, at = lane % w, d = w / 2 - 1;
      r = r * 31 + in[seg + in[i] % w];
      r = r * 31 + (at >= w / 2 ? in[i - w / 2] : in[i]);
      r = r * 31 + (at + d < w ? in[i + d] : in[i]);
      r = r * 31 + in[seg + (w - 1 - at)];
    }
    uint32_t five = base + (lane ^ 5), three = lane + 3 < 32 ? i + 3 : i;
    out[i] = r + in[five] * 3 + (uint32_t)((uint64_t)in[three] * 512 / 128);
  }
}

static void warp_partial(const uint32_t *in, uint32_t *out) {
  EACH {
    uint32_t base = i / 32 * 32, lane = i % 32;
    if (lane % 3 == 0)
      out[i] = in[base + (lane + 6) % 30 / 3 * 3];
    else
      out[i] = in[base + (lane == 31 ? 1 : 31)];
  }
}

static void warp_votes(const uint32_t *in, uint32_t *out) {
  EACH {
    const uint32_t *w = in + i / 32 * 32;
    uint32_t odd = 0, second = 0, all = 1, any = 0;
    for (int k = 0; k < 32; k++) {
      odd |= w[k] % 2 << k;
      if (k < 20) second |= (w[k] / 2 % 2) << k;
      if (w[k] == 5) all = 0;
      if (w[k] % 256 == 17) any = 2;
    }
    out[i] = odd ^ all ^ any ^ 4;
    if (i % 32 < 20) out[i] += second * 8;
  }
}

static void warp_match(const uint32_t *in, uint32_t *out) {
  EACH {
    const uint32_t *w = in + i / 32 * 32;
    uint32_t a = 0, b = 0;
    for (int k = 0; k < 32; k++) {
      if (w[k] % 7 == in[i] % 7) a |= 1u << k;
      if (w[k] % 3 == in[i] % 3) b |= 1u << k;
    }
    out[4 * i] = a, out[4 * i + 1] = b;
    /* all ones plus one, and nothing: the input has no warp of one class */
    out[4 * i + 2] = out[4 * i + 3] = 0;
  }
}

static void warp_reduce(const uint32_t *in, uint32_t *out) {
  EACH {
    const uint32_t *w = in + i / 32 * 32;
    uint32_t *o = out + 8 * i;
    o[1] = o[3] = o[4] = w[0];
    o[5] = 0xFFFFFFFFu;
    for (int k = 0; k < 32; k++) {
      o[0] += w[k];
      if (w[k] < o[1]) o[1] = w[k];
      if (w[k] > o[2]) o[2] = w[k];
      if ((int32_t)w[k] < (int32_t)o[3]) o[3] = w[k];
      if ((int32_t)w[k] > (int32_t)o[4]) o[4] = w[k];
      o[5] &= w[k] | 0xFFFF0000u;
      o[6] ^= w[k];
      o[7] |= w[k] & 0xFF00FFu;
    }
  }
}

static void warp_active(const uint32_t *in, uint32_t *out) {
  EACH out[i] = in[i] % 2 ? 3 : 5;
}

static void warp_scan(const uint32_t *in, uint32_t *out) {
  EACH out[i] = in[i] + (i % 32 ? out[i - 1] : 0);
}

static int ascending(const void *a, const void *b) {
  uint32_t x, y;
  memcpy(&x, a, 4);
  memcpy(&y, b, 4);
  return x < y ? -1 : x > y;
}

static void warp_sort(const uint32_t *in, uint32_t *out) {
  memcpy(out, in, 2048);
  for (int w = 0; w < 16; w++) qsort(out + 32 * w, 32, 4, ascending);
}

static void warp_compact(const uint32_t *in, uint32_t *out) {
  uint32_t n = 0;
  EACH {
    if (i % 32 == 0) n = i;
    if (in[i] % 2) out[n++] = in[i];
  }
}

static void warp_memory(const uint32_t *in, uint32_t *out) {
  EACH {
    uint32_t sum = 0;
    for (uint32_t k = 0; k < 32; k++) sum += in[i / 32 * 32 + k];
    out[i] = i % 32 < 8 ? sum * 3 : sum;
  }
}

static void warp_registers(const uint32_t *in, uint32_t *out) {
  /* grid 2 x 3 x 2, blocks 8 x 6 x 4 */
  for (uint32_t b = 0; b < 12; b++) {
    for (uint32_t t = 0; t < 192; t++) {
      uint32_t lane = t % 32, bit = 1u << lane, below = bit - 1;
      uint32_t masks = bit + 3 * (bit | below) + 5 * below + 7 * ~below +
                       11 * ~(bit | below);
      uint32_t grid = 2 + 30 + 200 + 8000 + 600000 + 4000000;
      out[b * 192 + t] = lane ^ masks ^ grid ^
                         in[t / 48 * 100 + b / 2 % 3 * 10 + b / 6];
    }
  }
}

static void bar_named(const uint32_t *in, uint32_t *out) {
  for (uint32_t b = 0; b < 512; b += 128) {
    for (uint32_t t = 0; t < 64; t++) {
      uint32_t v = in[b + 63 - t], w = in[b + 127 - t];
      out[b + t] = v;
      for (uint32_t round = 0; round < 4; round++) w = w * 3 + v + round;
      out[b + 64 + t] = w;
    }
  }
}

static void bar_votes(const uint32_t *in, uint32_t *out) {
  EACH {
    const uint32_t *b = in + i / 128 * 128;
    uint32_t n = 0, all = 1;
    for (int k = 0; k < 128; k++) {
      n += b[k] % 2;
      if (b[k] == 3) all = 0;
    }
    out[i] = n * 4 + all + b[77] / 2 % 2 * 2;
  }
}

/* -- blocks and grids -- */

static void block_reduce(const uint32_t *in, uint32_t *out) {
  EACH out[i / 128] += in[i];
}

static void block_scan(const uint32_t *in, uint32_t *out) {
  EACH out[i] = in[i] + (i % 128 ? out[i - 1] : 0);
}

static void block_scan_tree(const uint32_t *in, uint32_t *out) {
  EACH out[i] = i % 128 ? out[i - 1] + in[i - 1] : 0;
}

static void block_transpose(const uint32_t *in, uint32_t *out) {
  for (int k = 0; k < 1024; k++) out[k] = in[k % 32 * 32 + k / 32];
}

static void block_histogram(const uint32_t *in, uint32_t *out) {
  for (int k = 0; k < 1024; k++) out[in[k] % 64]++;
}

static void block_sort(const uint32_t *in, uint32_t *out) {
  memcpy(out, in, 1024);
  qsort(out, 256, 4, ascending);
}

static void block_stencil(const uint32_t *in, uint32_t *out) {
  EACH for (uint32_t k = 0; k < 7; k++)
    if (i + k >= 3) out[i] += in[i + k - 3] * (k + 1);
}

static void block_matmul(const uint32_t *in, uint32_t *out) {
  for (int r = 0; r < 32; r++)
    for (int c = 0; c < 32; c++)
      for (int k = 0; k < 32; k++)
        out[r * 32 + c] += in[r * 32 + k] * in[c * 32 + k];
}

static void block_large(const uint32_t *in, uint32_t *out) {
  uint32_t v[1024];
  memcpy(v, in, sizeof v);
  for (uint32_t n = 512; n; n /= 2)
    for (uint32_t t = 0; t < n; t++) v[t] ^= v[t + n] * 3;
  for (uint32_t t = 0; t < 1024; t++) out[t] = v[0] + t;
}

static void grid_last_block(const uint32_t *in, uint32_t *out) {
  EACH out[2 + i / 128] += in[i], out[1] += in[i];
  out[0] = 4;
}

static void grid_chain(const uint32_t *in, uint32_t *out) {
  for (uint32_t b = 0; b < 16; b++) {
    out[b] = 1;
    out[16 + b] = in[b] + (b ? out[15 + b] : 0);
  }
}

static void grid_look_back(const uint32_t *in, uint32_t *out) {
  uint32_t sum = 0;
  for (uint32_t k = 0; k < 1024; k++) {
    sum += in[k];
    out[k] = sum;
    out[1040 + k / 64] += in[k];
    out[1056 + k / 64] = sum;
  }
  for (uint32_t b = 0; b < 16; b++) out[1024 + b] = 2;
  out[1072] = 16;
}

static void grid_barrier(const uint32_t *in, uint32_t *out) {
  out[0] = out[1] = 4;
  EACH {
    out[8 + i] = in[i];
    out[8 + 512 + i] = in[511 - i] * 3;
    out[8 + 1024 + i] = in[i] * 9 + 1;
  }
}

static void grid_queue(const uint32_t *in, uint32_t *out) {
  for (uint32_t k = 0; k < 1024; k++) out[8 + k] = in[k] + k / 64;
  out[0] = 16 + 5;
}

static void grid_stride(const uint32_t *in, uint32_t *out) {
  for (uint32_t k = 0; k < 1000; k++) out[k] = in[k] * in[999 - k];
}

#define ROW(file, name, words) \
  {file ".cu", #name, {4, 1, 1}, {128, 1, 1}, 0, words, name, CU_EXACT, 0, 0}
#define SHAPE(file, name, gx, gy, gz, bx, by, bz, shared, words, least)       \
  {file ".cu", #name, {gx, gy, gz}, {bx, by, bz}, shared, words, name,        \
   CU_EXACT, 0, least}

static const cu_row_t rows[] = {
    ROW("warp", warp_shuffles, 512),
    ROW("warp", warp_partial, 512),
    ROW("warp", warp_votes, 512),
    ROW("warp", warp_match, 2048),
    SHAPE("warp", warp_reduce, 4, 1, 1, 128, 1, 1, 0, 4096, 80),
    ROW("warp", warp_active, 512),
    ROW("warp", warp_scan, 512),
    ROW("warp", warp_sort, 512),
    ROW("warp", warp_compact, 512),
    ROW("warp", warp_memory, 512),
    SHAPE("warp", warp_registers, 2, 3, 2, 8, 6, 4, 0, 2304, 0),
    ROW("warp", bar_named, 512),
    ROW("warp", bar_votes, 512),
    ROW("grid", block_reduce, 4),
    ROW("grid", block_scan, 512),
    ROW("grid", block_scan_tree, 512),
    SHAPE("grid", block_transpose, 1, 1, 1, 32, 8, 1, 0, 1024, 0),
    ROW("grid", block_histogram, 64),
    SHAPE("grid", block_sort, 1, 1, 1, 128, 1, 1, 0, 256, 0),
    ROW("grid", block_stencil, 512),
    SHAPE("grid", block_matmul, 2, 2, 1, 16, 16, 1, 0, 1024, 0),
    SHAPE("grid", block_large, 1, 1, 1, 8, 16, 8, 4096, 1024, 0),
    ROW("grid", grid_last_block, 6),
    SHAPE("grid", grid_chain, 16, 1, 1, 32, 1, 1, 0, 32, 0),
    SHAPE("grid", grid_look_back, 16, 1, 1, 64, 1, 1, 0, 1073, 0),
    ROW("grid", grid_barrier, 1544),
    SHAPE("grid", grid_queue, 5, 1, 1, 64, 1, 1, 0, 1032, 0),
    SHAPE("grid", grid_stride, 3, 1, 1, 96, 1, 1, 0, 1000, 0)};

static void conformance(void **state) {
  (void)state;
  cu_all(rows, sizeof rows / sizeof *rows);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(conformance)};
  return cmocka_run_group_tests_name("simgpu.cu_parallel", tests, NULL, NULL);
}
