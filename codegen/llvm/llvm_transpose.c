/* llvm_transpose.c: a square of register rows turned by shuffles.
 *
 * Rows are pieces of 128 bits, inside of which interleaving is one cheap
 * instruction everywhere, and whole pieces are moved by another one.  First
 * every group of as many rows as a piece has elements is turned piece by
 * piece, then the pieces of all groups.  16 rows of 16 f32: 64 shuffles, and
 * as many of half the width if they are f16. */
#include "codegen/llvm/llvm_impl.h"

#include "runtime/base/num.h"

enum { MOST = 16 };

static LLVMValueRef shuffle(cgl_t *g, LLVMValueRef a, LLVMValueRef b,
                            const uint32_t *from, uint32_t n) {
  LLVMValueRef lanes[MOST];
  for (uint32_t i = 0; i < n; i++) lanes[i] = LLVMConstInt(g->i32, from[i], 0);
  return LLVMBuildShuffleVector(g->builder, a, b, LLVMConstVector(lanes, n),
                                "");
}

/* In each piece of `piece` lanes: element of a, of b, of a, ..., from the
 * lower or the upper half. */
static LLVMValueRef interleave(cgl_t *g, LLVMValueRef a, LLVMValueRef b,
                               uint32_t n, uint32_t piece, bool upper) {
  uint32_t from[MOST];
  for (uint32_t l = 0; l < n; l++) {
    uint32_t in = l % piece, at = l - in + in / 2 + (upper ? piece / 2 : 0);
    from[l] = in % 2 == 0 ? at : at + n;
  }
  return shuffle(g, a, b, from, n);
}

/* The even or the odd pieces of a, then those of b. */
static LLVMValueRef every_other(cgl_t *g, LLVMValueRef a, LLVMValueRef b,
                                uint32_t n, uint32_t piece, bool odd) {
  uint32_t from[MOST];
  for (uint32_t l = 0; l < n; l++) {
    from[l] = l / piece * 2 * piece + (odd ? piece : 0) + l % piece;
  }
  return shuffle(g, a, b, from, n);
}

void cgl_transpose(cgl_t *g, const kir_buffer_t *b) {
  LLVMValueRef row[MOST], next[MOST];
  int64_t size = 0;
  TD_CHECK(g->task, ix_is_const(b->dims[0], &size) && size <= MOST,
           "transpose of %s", b->name);
  uint32_t n = (uint32_t)size;
  uint32_t piece = 16 / (uint32_t)td_dtype_bytes(b->dtype);
  if (piece > n) piece = n;
  for (uint32_t i = 0; i < n; i++) row[i] = cgl_get_row(g, b, i);
  for (uint32_t done = 1; done < piece; done *= 2) {
    for (uint32_t base = 0; base < n; base += piece) {
      for (uint32_t i = 0; i < piece / 2; i++) {
        LLVMValueRef x = row[base + i], y = row[base + piece / 2 + i];
        next[base + 2 * i] = interleave(g, x, y, n, piece, false);
        next[base + 2 * i + 1] = interleave(g, x, y, n, piece, true);
      }
    }
    memcpy(row, next, sizeof row);
  }
  /* row base + i: column q * piece + i of this group's rows, piece by piece */
  uint32_t groups = n / piece;
  for (uint32_t i = 0; i < piece; i++) {
    LLVMValueRef now[MOST], then[MOST];
    for (uint32_t q = 0; q < groups; q++) now[q] = row[q * piece + i];
    for (uint32_t done = 1; done < groups; done *= 2) {
      for (uint32_t q = 0; q < groups / 2; q++) {
        LLVMValueRef x = now[2 * q], y = now[2 * q + 1];
        then[q] = every_other(g, x, y, n, piece, false);
        then[groups / 2 + q] = every_other(g, x, y, n, piece, true);
      }
      memcpy(now, then, sizeof now);
    }
    for (uint32_t q = 0; q < groups; q++) {
      cgl_put_row(g, b, q * piece + i, now[q]);
    }
  }
}
