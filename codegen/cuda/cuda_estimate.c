/* cuda_estimate.c: about how many registers a thread of a kernel takes.
 *
 * Register buffers that are there at one time, places of parameters, and what
 * is on its way: the assembler starts loads of a stretch of statements without
 * a loop as early as it can, so that a long stretch takes many. The weights
 * are a fit to what ptxas 13.0 made of some 700 kernels of the tests and
 * examples for sm_80 and sm_90a: half of them are within 8 registers, nine of
 * ten within 28. The assembler knows better, and says so where there is one;
 * this serves to say what a kernel is limited by before it is compiled. */
#include "codegen/cuda/cuda_impl.h"

#include "runtime/base/num.h"

enum {
  PLACES = 8,          /* of loops and the thread */
  PARAM = 4,           /* of a parameter: its address and a place in it */
  MOST_PARAMS = 16,    /* the others are fetched when they are used */
  SCRATCH = 16,        /* addresses in global memory of a worker's own */
  OPERATIONS = 12,     /* of a stretch, for a register more */
  MOST_OPERATIONS = 512,
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

/* ---- the longest stretch ------------------------------------------------- */

typedef struct stretch {
  const cgc_t *g;
  kir_walker_t walker; /* of one statement */
  uint64_t own;        /* operations of that */
  uint64_t now, most;  /* of the stretch so far; of the longest */
} stretch_t;

static void count_operation(void *user, const kir_expr_t *e) {
  (void)e;
  ((stretch_t *)user)->own++;
}

static void end_stretch(stretch_t *t) {
  if (t->now > t->most) t->most = t->now;
  t->now = 0;
}

/* How often a thread has the body written out, at most MOST_OPERATIONS; 0: it
 * is a loop. */
static uint64_t copies_of(const cgc_t *g, const kir_stmt_t *s) {
  if (s->kind != KIR_LOOP || s->loop == KIR_LOOP_WARP) return 1;
  bool is_const = s->lo->op == KIR_X_CONST && s->hi->op == KIR_X_CONST;
  int64_t n;
  if (s->loop != KIR_LOOP_UNROLL && s->loop != KIR_LOOP_LANE) return 0;
  if (!is_const || s->step < 1 ||
      __builtin_sub_overflow(s->hi->u.i64, s->lo->u.i64, &n)) {
    return 1;
  }
  n = n < 1 ? 1 : (n - 1) / s->step + 1;
  if (s->loop == KIR_LOOP_LANE) n = (n - 1) / g->width + 1;
  return n < MOST_OPERATIONS ? (uint64_t)n : MOST_OPERATIONS;
}

/* The block is written out `times` over, at most MOST_OPERATIONS, which is
 * also what a stretch counts. Statements nest as loops do. */
static void measure(stretch_t *t, const kir_block_t *block, uint64_t times) {
  for (size_t i = 0; i < block->length; i++) {
    const kir_stmt_t *s = block->data[i];
    uint64_t copies = copies_of(t->g, s);
    if (s->kind == KIR_BARRIER || copies == 0) end_stretch(t);
    t->own = 0;
    kir_walker_init(&t->walker, t->g->arena);
    for (uint32_t k = 0; k < kir_stmt_expr_count(s); k++) {
      kir_walk_into(&t->walker, kir_stmt_expr(s, k), count_operation, t);
    }
    t->now += t->own * times;
    if (t->now > MOST_OPERATIONS) t->now = MOST_OPERATIONS;
    uint64_t inner = copies == 0 ? 1 : times * copies;
    if (inner > MOST_OPERATIONS) inner = MOST_OPERATIONS;
    measure(t, &s->body, inner);
    measure(t, &s->orelse, times);
    if (copies == 0) end_stretch(t);
  }
}

uint32_t cgc_registers(const cgc_t *g) {
  const kir_kernel_t *k = g->kernel;
  stretch_t t = {.g = g};
  measure(&t, &k->body, 1);
  end_stretch(&t);
  uint32_t params = k->param_count < MOST_PARAMS ? k->param_count
                                                 : MOST_PARAMS;
  uint64_t all = PLACES + PARAM * params + t.most / OPERATIONS;
  /* not all are live at once */
  all += most_words(g, &k->body, false) * 3 / 4;
  if (g->scratch_used->term_count > 0) all += SCRATCH;
  return all < MOST_REGISTERS ? (uint32_t)all : MOST_REGISTERS;
}
