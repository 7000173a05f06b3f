/* Warpgroup instructions, and what an entry of their queue computes. */
#include "runtime/simgpu/wgmma.h"
#include "runtime/simgpu/x_mma.h"

#define SIM_TABLE SIM_GLUE(sim_table, SIM_VARIANT)
extern const sim_fn_t SIM_TABLE[SIM_HANDLER_COUNT];

/* Operands of one entry: 32 bytes of K for each row of A and column of B. */
typedef struct operands_t {
  uint8_t a[64 * 32], b[256 * 32];
  bool spoilt_a[64], spoilt_b[256];
} operands_t;

/* A from registers: each is 8 rows of 16 bytes of K. */
static void read_registers(const sim_group_t *g, const sim_ins_t *i,
                           operands_t *o) {
  for (uint32_t k = 0; k < SIM_GROUP_WARPS; k++) {
    sim_warp_t *w = &g->cta->warps[g->first + k];
    for (uint32_t r = 0; r < 4; r++) {
      uint32_t row = sim_list(w, i, i->list_writes + r) & ~3u;
      const uint8_t *in = w->r + row, *shadow = sim_shadow(w, row);
      for (uint32_t n = 0; n < 8; n++) {
        uint32_t at = 16 * k + 8 * (r & 1) + n;
        memcpy(o->a + at * 32 + (r >> 1) * 16, in + 16 * n, 16);
        for (uint32_t q = 0; w->is_tainted && q < 4; q++)
          o->spoilt_a[at] = o->spoilt_a[at] || shadow[4 * n + q];
      }
    }
  }
}

static void read_operands(const sim_group_t *g, const sim_wgmma_t *op,
                          operands_t *o) {
  const sim_ins_t *i = op->ins;
  memset(o->spoilt_a, 0, sizeof o->spoilt_a);
  if (i->imm & SIM_WGMMA_REGISTERS) {
    read_registers(g, i, o);
  } else {
    sim_matrix_t m =
        sim_wgmma_matrix(op->a, (i->imm & SIM_WGMMA_TRANS_A) != 0);
    sim_wgmma_read(g->cta, &m, 0, 64, o->a, o->spoilt_a);
  }
  sim_matrix_t m =
      sim_wgmma_matrix(op->b, (i->imm & SIM_WGMMA_TRANS_B) != 0);
  sim_wgmma_read(g->cta, &m, 0, SIM_WGMMA_N(i->imm), o->b, o->spoilt_b);
}

/* D[r][c] depends on row r of A and column c of B, and on what was there. */
static void spread(sim_warp_t *w, const sim_wgmma_t *op, const operands_t *o,
                   uint32_t warp) {
  const sim_ins_t *i = op->ins;
  bool is_packed = i->type == PTX_F16, any = w->is_tainted;
  for (uint32_t r = 0; r < 16; r++) any = any || o->spoilt_a[16 * warp + r];
  for (uint32_t c = 0; c < SIM_WGMMA_N(i->imm); c++)
    any = any || o->spoilt_b[c];
  if (!any || !sim_judges_init(w)) return;
  w->is_tainted = true;
  uint32_t per = is_packed ? 2 : 4;
  for (uint32_t n = 0; n < i->list_writes; n++) {
    uint8_t *s = sim_shadow(w, sim_list(w, i, n) & ~3u);
    uint32_t j = n % per, column = n / per * 8;
    for (uint32_t l = 0; l < 32; l++) {
      uint32_t row = 16 * warp + l / 4 + 8 * (is_packed ? j : j >> 1);
      uint32_t c = column + 2 * (l % 4) + (is_packed ? 0 : j & 1);
      uint8_t old = op->adds ? s[l] : 0;
      bool low = o->spoilt_a[row] || o->spoilt_b[c];
      bool high = is_packed && (o->spoilt_a[row] || o->spoilt_b[c + 1]);
      if (is_packed)
        s[l] = (uint8_t)((low || (old & 3) ? 3 : 0) |
                         (high || (old & 12) ? 12 : 0));
      else
        s[l] = low || old ? 15 : 0;
    }
  }
}

/* -- floats -- */

/* 32-byte rows of K as doubles, [row][k] or, transposed, blocks of eight
   columns [k][8]; `sign` is 1 or -1. */
static void widen(ptx_type_t type, const uint8_t *in, uint32_t rows,
                  uint32_t k, bool is_b, float sign, double *out) {
  float part[128];
  uint32_t step = 128 / 32;
  for (uint32_t r = 0; r < rows; r += step) {
    sim_widen_register(type, in + 32 * r, part);
    for (uint32_t n = 0; n < step; n++) {
      const float *from = part + n * k;
      uint32_t row = r + n;
      if (!is_b) {
        for (uint32_t j = 0; j < k; j++)
          out[row * k + j] = (double)(from[j] * sign);
      } else {
        double *to = out + row / 8 * 8 * k + SIM_COLUMN(row % 8);
        for (uint32_t j = 0; j < k; j++)
          to[8 * j] = (double)(from[j] * sign);
      }
    }
  }
}

static void run_float(sim_group_t *g, const sim_wgmma_t *op,
                      const operands_t *o) {
  const sim_ins_t *i = op->ins;
  double a[64 * 32], b[256 * 32], acc[128];
  uint32_t k = SIM_WGMMA_K(i->imm), n = SIM_WGMMA_N(i->imm);
  sim_tensor_types_t types = {(ptx_type_t)i->type, (ptx_type_t)i->type2,
                              (ptx_type_t)i->sub2};
  uint32_t per = types.d == PTX_F16 ? 2 : 4;
  bool is_plain =
      types.d == PTX_F32 &&
      g->cta->launch->options->arith == SIM_ARITH_EXACT;
  widen(types.a, o->a, 64, k, false,
        i->imm & SIM_WGMMA_NEG_A ? -1.0f : 1.0f, a);
  widen(types.b, o->b, n, k, true, i->imm & SIM_WGMMA_NEG_B ? -1.0f : 1.0f,
        b);
  for (uint32_t warp = 0; warp < SIM_GROUP_WARPS; warp++) {
    sim_warp_t *w = &g->cta->warps[g->first + warp];
    for (uint32_t block = 0; block < n / 8; block++) {
      uint32_t rows[4] = {0};
      for (uint32_t j = 0; j < per; j++)
        rows[j] = sim_list(w, i, block * per + j) & ~3u;
      const double *part = b + (size_t)block * 8 * k;
      if (is_plain && sim_tile_direct(w, op->adds ? rows : NULL, rows,
                                      a + (size_t)warp * 16 * k, part, k))
        continue;
      if (op->adds)
        sim_tile_load(w, rows, types.d, acc);
      else
        memset(acc, 0, sizeof acc);
      sim_tile_product(w, &types, acc, a + (size_t)warp * 16 * k, part, k);
      sim_tile_store(w, rows, types.d, acc, SIM_FULL);
    }
  }
}

/* -- integers -- */

static int32_t element(ptx_type_t type, const uint8_t *row, uint32_t j) {
  uint32_t word;
  switch (type) {
  case PTX_S8: return (int8_t)row[j];
  case PTX_U8: return row[j];
  default: memcpy(&word, row + 4 * j, 4); return (int32_t)word; /* b1 */
  }
}

static void run_int(sim_group_t *g, const sim_wgmma_t *op,
                    const operands_t *o) {
  const sim_ins_t *i = op->ins;
  int32_t a[64 * 32], b[256 * 32];
  bool is_bits = i->type2 == PTX_B1;
  uint32_t k = is_bits ? 8 : 32, n = SIM_WGMMA_N(i->imm);
  for (uint32_t r = 0; r < 64; r++)
    for (uint32_t j = 0; j < k; j++)
      a[r * k + j] = element((ptx_type_t)i->type2, o->a + 32 * r, j);
  for (uint32_t c = 0; c < n; c++)
    for (uint32_t j = 0; j < k; j++)
      b[c * k + j] = element((ptx_type_t)i->sub2, o->b + 32 * c, j);
  for (uint32_t warp = 0; warp < SIM_GROUP_WARPS; warp++) {
    sim_warp_t *w = &g->cta->warps[g->first + warp];
    for (uint32_t e = 0; e < i->list_writes; e++) {
      sim_u32 *d = sim_row(w, sim_list(w, i, e) & ~3u);
      for (uint32_t l = 0; l < 32; l++) {
        const int32_t *x = a + (16 * warp + l / 4 + 8 * (e >> 1 & 1)) * k;
        const int32_t *y = b + (e / 4 * 8 + 2 * (l % 4) + (e & 1)) * k;
        int32_t sum = 0;
        for (uint32_t j = 0; j < k; j++)
          sum += is_bits ? __builtin_popcount((uint32_t)(x[j] & y[j]))
                         : x[j] * y[j];
        int64_t total = (op->adds ? (int64_t)(int32_t)d[l] : 0) + sum;
        if (i->mods & SIM_MOD_SATFINITE)
          total = total > INT32_MAX   ? INT32_MAX
                  : total < INT32_MIN ? INT32_MIN
                                      : total;
        d[l] = (uint32_t)total;
      }
    }
  }
}

#define run_entry SIM_X(wgmma_run)
static bool run_entry(sim_group_t *g, const sim_wgmma_t *op) {
  operands_t o;
  read_operands(g, op, &o);
  if (op->ins->type == PTX_S32)
    run_int(g, op, &o);
  else
    run_float(g, op, &o);
  for (uint32_t warp = 0; warp < SIM_GROUP_WARPS; warp++)
    spread(&g->cta->warps[g->first + warp], op, &o, warp);
  return true;
}

/* -- handlers -- */

/* After a finding in warn mode, the instruction is left out. */
#define GROUP_OR_LEAVE(g)                                                     \
  if (m == 0) return i + 1;                                                   \
  sim_group_t *g = sim_group_of(w, i, m);                                     \
  if (!g) return __atomic_load_n(&w->worker->launch->stop, __ATOMIC_ACQUIRE)  \
                     ? NULL                                                   \
                     : i + 1

SIM_DEF(wgmma_fence) {
  GROUP_OR_LEAVE(g);
  return sim_wgmma_fence(w, g) ? i + 1 : NULL;
}

SIM_DEF(wgmma) {
  GROUP_OR_LEAVE(g);
  return sim_wgmma_issue(w, g, i, run_entry) ? i + 1 : NULL;
}

SIM_DEF(wgmma_commit) {
  GROUP_OR_LEAVE(g);
  return sim_wgmma_commit(w, g, i, run_entry) ? i + 1 : NULL;
}

SIM_DEF(wgmma_wait) {
  GROUP_OR_LEAVE(g);
  return sim_wgmma_wait(w, g, i, (uint32_t)i->imm, run_entry);
}

SIM_DEF(setmaxnreg) {
  GROUP_OR_LEAVE(g);
  return sim_group_registers(w, g, i);
}

/* In front of an ordinary instruction that touches registers of a wgmma. */
SIM_DEF(watch) {
  if (m && !sim_wgmma_touch(w, i)) return NULL;
  return SIM_TABLE[i->handler](w, i, m);
}
