/* ldmatrix, stmatrix, movmatrix: 8x8 matrices of 16-bit elements between
   shared memory and registers. A row in memory is 16 bytes; lane r of group k
   gives the address of row r of matrix k. */
#include "runtime/simgpu/x_matrix.h"

#include "runtime/simgpu/x_mem.h"

/* dest[c][r] = source[r][c] */
static void transpose(uint16_t dest[64], const uint16_t source[64]) {
  for (uint32_t r = 0; r < 8; r++)
    for (uint32_t c = 0; c < 8; c++) dest[8 * c + r] = source[8 * r + c];
}

/* Lanes whose addresses count: eight for each matrix. */
static uint32_t address_lanes(const sim_ins_t *i) {
  return i->lanes == 4 ? SIM_FULL : (1u << 8 * i->lanes) - 1;
}

/* Judges the rows and finds their storage; false if the launch must end. */
static bool rows(sim_warp_t *w, const sim_ins_t *i, uint32_t m, char kind,
                 sim_access_t *x) {
  uint64_t address[32];
  m &= address_lanes(i);
  x->mask = 0;
  if (m == 0) return true;
  sim_addresses(w, i, address);
  if (i->space == PTX_SPACE_GENERIC) {
    for (uint32_t l = 0; l < 32; l++) {
      if (!SIM_BIT(m)) continue;
      uint64_t given = address[l];
      address[l] -= SIM_SHARED_BASE;
      if (address[l] < SIM_SPACE_BYTES) continue;
      if (!sim_find(w, i, SIM_CHECK_MEM_SPACE, l, PTX_SPACE_GENERIC, given,
                    16, "a matrix row must lie in shared memory"))
        return false;
      m &= ~(1u << l);
    }
    if (m == 0) return true;
  }
  return sim_shared_access(w, i, m, address, 16, kind, x);
}

static void set_row(sim_warp_t *w, uint32_t row, uint32_t m,
                    const uint16_t halves[64]) {
  sim_u32 *d = sim_row(w, row);
  uint32_t value[32];
  memcpy(value, halves, sizeof value);
  SIM_STORE(uint32_t, d, value[l]);
}

/* A lane's shadow from a number a half: bits 0 and 1 its bytes. */
static void set_shadow(sim_warp_t *w, uint32_t row, uint32_t m,
                       const uint16_t bits[64]) {
  uint8_t *s = sim_shadow(w, row);
  for (uint32_t l = 0; l < 32; l++)
    if (SIM_BIT(m)) s[l] = (uint8_t)(bits[2 * l] | bits[2 * l + 1] << 2);
}

static void get_shadow(sim_warp_t *w, uint32_t row, uint16_t bits[64]) {
  const uint8_t *s = sim_shadow(w, row);
  for (uint32_t l = 0; l < 32; l++) {
    bits[2 * l] = s[l] & 3;
    bits[2 * l + 1] = s[l] >> 2 & 3;
  }
}

SIM_DEF(ldmatrix) {
  sim_access_t x;
  if (m == 0) return i + 1;
  if (!sim_converged(w, i, m) || !rows(w, i, m, 'r', &x)) return NULL;
  bool is_trans = (i->mods & SIM_MOD_TRANS) != 0;
  bool judges = sim_judges_init(w);
  for (uint32_t k = 0; k < i->lanes; k++) {
    uint32_t row = sim_list(w, i, k) & ~3u;
    uint16_t in[64], out[64];
    const uint64_t all = UINT64_C(0x0101010101010101);
    uint64_t known = all;
    for (uint32_t r = 0; r < 8; r++) {
      uint32_t l = 8 * k + r;
      if (!(x.mask >> l & 1)) { /* of a reported address */
        memset(in + 8 * r, SIM_POISON, 16);
        continue;
      }
      memcpy(in + 8 * r, x.host[l], 16);
      uint64_t part[2];
      memcpy(part, x.cta->shared_defined + x.offset[l], sizeof part);
      known &= part[0] & part[1];
    }
    bool undefined = known != all;
    if (is_trans) transpose(out, in);
    if (m == SIM_FULL)
      memcpy(sim_row(w, row), is_trans ? out : in, sizeof in);
    else
      set_row(w, row, m, is_trans ? out : in);
    if (!judges || (!undefined && !w->is_tainted)) continue;
    w->is_tainted = w->is_tainted || undefined;
    memset(in, 0, sizeof in);
    for (uint32_t n = 0; n < 64; n++) {
      uint32_t l = 8 * k + n / 8;
      if (!(x.mask >> l & 1)) continue;
      const uint8_t *d = x.cta->shared_defined + x.offset[l] + n % 8 * 2;
      in[n] = (uint16_t)((d[0] ^ 1u) | (d[1] ^ 1u) << 1);
    }
    if (is_trans) transpose(out, in);
    set_shadow(w, row, m, is_trans ? out : in);
  }
  return i + 1;
}

SIM_DEF(stmatrix) {
  sim_access_t x;
  if (m == 0) return i + 1;
  if (!sim_converged(w, i, m) || !rows(w, i, m, 'w', &x)) return NULL;
  bool is_trans = (i->mods & SIM_MOD_TRANS) != 0;
  for (uint32_t k = 0; k < i->lanes; k++) {
    uint32_t row = sim_list(w, i, k) & ~3u;
    uint16_t in[64], out[64], bits[64] = {0};
    memcpy(in, sim_row(w, row), sizeof in);
    if (is_trans) transpose(out, in);
    if (w->is_tainted) {
      uint16_t plain[64];
      get_shadow(w, row, plain);
      if (is_trans)
        transpose(bits, plain);
      else
        memcpy(bits, plain, sizeof bits);
    }
    for (uint32_t r = 0; r < 8; r++) {
      uint32_t l = 8 * k + r;
      if (!(x.mask >> l & 1)) continue;
      memcpy(x.host[l], (is_trans ? out : in) + 8 * r, 16);
      uint8_t *known = x.cta->shared_defined + x.offset[l];
      memset(known, 1, 16);
      if (!w->is_tainted) continue;
      for (uint32_t b = 0; b < 16; b++)
        known[b] = !(bits[8 * r + b / 2] >> (b & 1) & 1);
    }
  }
  return i + 1;
}

SIM_DEF(movmatrix) {
  uint16_t in[64], out[64];
  if (m == 0) return i + 1;
  if (!sim_converged(w, i, m)) return NULL;
  memcpy(in, sim_row(w, i->a), sizeof in);
  transpose(out, in);
  set_row(w, i->d, m, out);
  if (!w->is_tainted) return i + 1;
  get_shadow(w, i->a, in);
  transpose(out, in);
  set_shadow(w, i->d, m, out);
  return i + 1;
}
