/* cuda_estimate.c: about how many registers a thread of a kernel takes.
 *
 * Register buffers that are there at one time, and some for places, loops and
 * pointers. The assembler knows better, and says so where there is one; this
 * serves to say what a kernel is limited by before it is compiled. */
#include "codegen/cuda/cuda_impl.h"

#include "runtime/base/num.h"

enum {
  PLACES = 30,       /* of loops, and what is on its way */
  MOST_REGISTERS = 255,
};

/* Words of a thread: what is spread over lanes, or over warps, has a part in
 * each. */
static uint64_t words_of(const cgc_t *g, const kir_buffer_t *b,
                         bool in_warps) {
  uint64_t count = (td_dtype_bytes(b->dtype) + 3) / 4;
  for (uint32_t d = 0; d < b->rank; d++) {
    int64_t n = 1;
    (void)ix_is_const(b->dims[d], &n);
    if (n < 1) n = 1;
    bool is_lanes = d + 1 == b->rank && g->width > 1;
    bool is_warps = d == 0 && b->rank > 1 && g->warps > 0 && !in_warps;
    if (is_lanes) n = (n + g->width - 1) / g->width;
    if (!is_warps) count *= (uint64_t)n;
    if (count > MOST_REGISTERS) return MOST_REGISTERS;
  }
  return count;
}

/* Statements nest as loops do (kir_verify caps them). */
static uint64_t most_words(const cgc_t *g, const kir_block_t *block,
                           bool in_warps) {
  uint64_t own = 0, inner = 0;
  for (size_t i = 0; i < block->length; i++) {
    const kir_stmt_t *s = block->data[i];
    bool is_warps = s->kind == KIR_LOOP && s->loop == KIR_LOOP_WARP;
    if (s->kind == KIR_ALLOC && s->buffer->space == KIR_REGISTER) {
      own += words_of(g, s->buffer, in_warps);
    }
    uint64_t words = most_words(g, &s->body, in_warps || is_warps);
    uint64_t other = most_words(g, &s->orelse, in_warps);
    if (words > inner) inner = words;
    if (other > inner) inner = other;
  }
  return own + inner;
}

uint32_t cgc_registers(const cgc_t *g) {
  const kir_kernel_t *k = g->kernel;
  uint64_t all = PLACES + most_words(g, &k->body, false);
  all += k->param_count < 16 ? k->param_count : 16;
  return all < MOST_REGISTERS ? (uint32_t)all : MOST_REGISTERS;
}
