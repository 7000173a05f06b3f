/* Operands of warpgroup instructions in shared memory: where their pieces lie,
   what is judged about them, and that they are in use. */
#include "runtime/simgpu/async.h"
#include "runtime/simgpu/wgmma.h"

sim_matrix_t sim_wgmma_matrix(uint64_t d, bool is_mn) {
  static const uint32_t widths[] = {0, 128, 64, 32};
  return (sim_matrix_t){.start = (uint32_t)(d & 0x3FFF) << 4,
                        .lbo = (uint32_t)(d >> 16 & 0x3FFF) << 4,
                        .sbo = (uint32_t)(d >> 32 & 0x3FFF) << 4,
                        .base = (uint32_t)(d >> 49 & 7),
                        .width = widths[d >> 62],
                        .is_mn = is_mn};
}

uint32_t sim_wgmma_piece(const sim_matrix_t *m, uint32_t n) {
  uint32_t off, w = m->width;
  if (!m->is_mn) {
    uint32_t row = n / 2, half = n % 2;
    off = row / 8 * m->sbo +
          (w ? row % 8 * w + half * 16 : row % 8 * 16 + half * m->lbo);
  } else {
    uint32_t row = n / 16 * 8, k = n % 16;
    off = w ? row % (w / 2) * 2 + row / (w / 2) * m->lbo + k % 8 * w +
                  k / 8 * m->sbo
            : row / 8 * m->sbo + k % 8 * 16 + k / 8 * m->lbo;
  }
  uint32_t x = m->start + off;
  if (w) x ^= (x >> 7 & (w / 16 - 1)) << 4;
  return x;
}

void sim_wgmma_read(const sim_cta_t *cta, const sim_matrix_t *m,
                    uint32_t first, uint32_t rows, uint8_t *out,
                    bool *is_undefined) {
  uint32_t low = cta->launch->shared_start, high = cta->launch->shared_end;
  memset(is_undefined, 0, rows);
  for (uint32_t n = 2 * first; n < 2 * (first + rows); n++) {
    uint32_t at = sim_wgmma_piece(m, n);
    uint8_t piece[16];
    uint64_t known[2] = {0, 0}, all = UINT64_C(0x0101010101010101);
    if (at >= low && at + 16 <= high) {
      memcpy(piece, cta->shared + at, 16);
      memcpy(known, cta->shared_defined + at, 16);
    } else {
      memset(piece, SIM_POISON, sizeof piece);
    }
    bool bad = (known[0] & known[1]) != all;
    if (!m->is_mn) {
      memcpy(out + (size_t)(n - 2 * first) * 16, piece, 16);
      if (bad) is_undefined[n / 2 - first] = true;
      continue;
    }
    uint32_t row = n / 16 * 8 - first, k = n % 16;
    for (uint32_t r = 0; r < 8; r++)
      memcpy(out + (row + r) * 32 + k * 2, piece + 2 * r, 2);
    for (uint32_t r = 0; bad && r < 8; r++) is_undefined[row + r] = true;
  }
}

bool sim_wgmma_judge(sim_warp_t *w, const sim_ins_t *ins,
                     const sim_matrix_t *m, char name, uint32_t first,
                     uint32_t rows, bool is_first, sim_writers_t *writers) {
  sim_cta_t *cta = w->cta;
  const sim_launch_t *launch = cta->launch;
  uint32_t low = launch->shared_start, high = launch->shared_end;
  if (m->width) {
    uint32_t atom = 8 * m->width, inside = m->start & (atom - 1);
    bool fits = m->base ? (m->start >> 7 & 7) == m->base : inside < m->width;
    if (!fits && !sim_find(w, ins, SIM_CHECK_WGMMA_DESC, 32,
                           PTX_SPACE_SHARED, m->start - low, 0,
                           "the %u-byte swizzle pattern of %c starts at no "
                           "multiple of %u", m->width, name, atom))
      return false;
  }
  uint8_t pending = SIM_MARK_DEST | SIM_MARK_MBAR;
  if (is_first) writers->count = 0;
  for (uint32_t n = 2 * first; is_first && n < 2 * (first + rows); n++) {
    uint32_t at = sim_wgmma_piece(m, n);
    if (at < low || at + 16 > high)
      return sim_find(w, ins, SIM_CHECK_MEM_BOUNDS, 32, PTX_SPACE_SHARED,
                      (uint64_t)at - low, 16,
                      "of matrix %c, is outside the %u bytes of shared "
                      "memory", name, high - low);
    const uint8_t *marks = cta->marks ? cta->marks + at / 4 : NULL;
    if (marks && ((marks[0] | marks[1] | marks[2] | marks[3]) & pending) &&
        !sim_async_touch(w, cta, ins, 0, at, 16, false))
      return false;
    if (cta->races) sim_race_writers(cta, at, 16, writers);
  }
  if (!cta->races || sim_race_heard(w, cta, writers)) return true;
  for (uint32_t n = 2 * first; n < 2 * (first + rows); n++) {
    uint32_t at = sim_wgmma_piece(m, n);
    if (at >= low && at + 16 <= high &&
        !sim_race_access(w, cta, ins, 0, at, 16,
                         SIM_RACE_ASYNC | SIM_RACE_JUDGE))
      return false;
  }
  return true;
}

uint32_t sim_wgmma_matrices(const sim_wgmma_t *op, sim_matrix_t out[2],
                            uint32_t rows[2]) {
  uint64_t imm = op->ins->imm;
  uint32_t n = 0;
  if (!(imm & SIM_WGMMA_REGISTERS)) {
    rows[n] = 64;
    out[n++] = sim_wgmma_matrix(op->a, (imm & SIM_WGMMA_TRANS_A) != 0);
  }
  rows[n] = SIM_WGMMA_N(imm);
  out[n++] = sim_wgmma_matrix(op->b, (imm & SIM_WGMMA_TRANS_B) != 0);
  return n;
}

void sim_wgmma_mark(sim_cta_t *cta, const sim_wgmma_t *op, bool is_used) {
  sim_matrix_t m[2];
  uint32_t rows[2], low = cta->launch->shared_start;
  uint32_t high = cta->launch->shared_end;
  if (!cta->marks) return;
  for (uint32_t k = sim_wgmma_matrices(op, m, rows); k-- > 0;)
    for (uint32_t n = 0; n < 2 * rows[k]; n++) {
      uint32_t at = sim_wgmma_piece(&m[k], n);
      if (at < low || at + 16 > high) continue;
      for (uint32_t word = at / 4; word < at / 4 + 4; word++) {
        if (is_used) cta->marks[word] |= SIM_MARK_OPERAND;
        else cta->marks[word] &= (uint8_t)~SIM_MARK_OPERAND;
      }
    }
}

bool sim_wgmma_touched(sim_warp_t *w, sim_cta_t *cta, const sim_ins_t *ins,
                       uint32_t lane, uint32_t offset, uint32_t bytes) {
  for (uint32_t n = 0; n < cta->group_count; n++) {
    const sim_group_t *g = &cta->groups[n];
    for (uint32_t e = 0; e < g->count; e++) {
      sim_matrix_t m[2];
      uint32_t rows[2];
      for (uint32_t k = sim_wgmma_matrices(&g->ops[e], m, rows); k-- > 0;)
        for (uint32_t p = 0; p < 2 * rows[k]; p++) {
          uint32_t at = sim_wgmma_piece(&m[k], p);
          if (at + 16 <= offset || offset + bytes <= at) continue;
          return sim_find(w, ins, SIM_CHECK_ASYNC_SOURCE, lane,
                          PTX_SPACE_SHARED, offset - cta->launch->shared_start,
                          bytes, "is still read by the mma_async of PTX line "
                          "%u, which no wait_group has covered",
                          g->ops[e].ins->line);
        }
    }
  }
  return true;
}
