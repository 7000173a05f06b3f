/* cuda_place.c: where the buffers of a kernel lie, and what of them is shared
 * memory.
 *
 * Buffers of a block with warp loops that are never used at one time share a
 * place: one is last used, a barrier comes, the other is first used, all in
 * the block of statements that both are made in; the end of a block iteration
 * is such a barrier too. */
#include "codegen/cuda/cuda_impl.h"

#include "runtime/base/num.h"

#define F(...) td_arena_printf(g->arena, __VA_ARGS__)

enum {
  THREADS = 128,     /* of a block, at most */
  BANKS_BYTES = 128, /* of all banks once */
};

/* ---- sizes ----------------------------------------------------------------*/

static uint32_t constant_bytes(const cgc_t *g, const kir_buffer_t *b) {
  uint64_t bytes = td_dtype_bytes(b->dtype);
  uint64_t most = g->options->target->shared_most;
  for (uint32_t d = 0; d < b->rank; d++) {
    int64_t n;
    if (!ix_is_const(b->dims[d], &n) || n < 0) return 0;
    if (n == 0) n = 1;
    if ((uint64_t)n > most) return 0;
    bytes *= (uint64_t)n;
    if (bytes > most) return 0;
  }
  return (uint32_t)((bytes + 15) / 16 * 16);
}

/* Of a swizzled buffer so that its pattern is one of addresses too. */
static uint32_t alignment(const kir_buffer_t *b) {
  int64_t n = 0;
  if (!b->is_swizzled || !ix_is_const(b->dims[b->rank - 1], &n)) return 16;
  return (uint32_t)n * (uint32_t)td_dtype_bytes(b->dtype) * 8;
}

static bool is_memory(const cgc_t *g, const cgc_buffer_t *c) {
  if (c->b->space == KIR_REGISTER) return c->is_exchanged && g->is_warp;
  return c->b->space != KIR_GLOBAL;
}

/* ---- one place for several ------------------------------------------------*/

/* When a buffer is used, counted in statements of the block that makes it. */
typedef struct life {
  cgc_buffer_t *c;
  const kir_block_t *block;
  size_t first, last;
  bool is_used;
} life_t;

typedef struct lives {
  cgc_t *g;
  TD_VEC(life_t) all;
  kir_walker_t walker;
  size_t now;           /* statement of the block looked at */
  const kir_block_t *block;
} lives_t;

static void see_buffer(lives_t *l, const kir_buffer_t *b) {
  for (size_t i = 0; i < l->all.length; i++) {
    life_t *one = &l->all.data[i];
    if (one->c->b != b || one->block != l->block) continue;
    if (!one->is_used) one->first = l->now;
    one->is_used = true;
    one->last = l->now;
  }
}

static void see_expr(void *user, const kir_expr_t *e) {
  if (e->op == KIR_X_LOAD || e->op == KIR_X_FOLD) see_buffer(user, e->u.buffer);
}

/* Statements nest as loops do (kir_verify caps them). */
static void see_stmt(lives_t *l, const kir_stmt_t *s) {
  for (uint32_t i = 0; i < kir_stmt_expr_count(s); i++) {
    kir_walk_into(&l->walker, kir_stmt_expr(s, i), see_expr, l);
  }
  if (s->buffer != NULL && s->kind != KIR_ALLOC) see_buffer(l, s->buffer);
  for (size_t i = 0; i < s->body.length; i++) see_stmt(l, s->body.data[i]);
  for (size_t i = 0; i < s->orelse.length; i++) see_stmt(l, s->orelse.data[i]);
}

static void find_lives(lives_t *l, const kir_block_t *block) {
  bool has_any = false;
  for (size_t i = 0; i < block->length; i++) {
    const kir_stmt_t *s = block->data[i];
    if (s->kind == KIR_ALLOC && s->buffer->space == KIR_SHARED) {
      life_t one = {.c = cgc_buffer(l->g, s->buffer), .block = block};
      td_vec_push(l->g->arena, &l->all, one);
      has_any = true;
    }
  }
  for (size_t i = 0; i < block->length && has_any; i++) {
    l->block = block;
    l->now = i;
    kir_walker_init(&l->walker, l->g->arena);
    see_stmt(l, block->data[i]);
  }
  for (size_t i = 0; i < block->length; i++) {
    find_lives(l, &block->data[i]->body);
    find_lives(l, &block->data[i]->orelse);
  }
}

/* a is done with, for all threads, before b begins. */
static bool is_before(const life_t *a, const life_t *b) {
  for (size_t i = a->last + 1; i < b->first; i++) {
    const kir_stmt_t *s = a->block->data[i];
    if (s->kind == KIR_BARRIER && s->step == 0) return true;
  }
  return false;
}

static bool may_share(const life_t *a, const life_t *b) {
  if (!a->is_used || !b->is_used || a->block != b->block) return false;
  return is_before(a, b) || is_before(b, a);
}

static uint32_t aligned(uint32_t at, uint32_t n) {
  return (at + n - 1) / n * n;
}

/* The first place that is free for all of a buffer's life. */
static uint32_t free_place(const lives_t *l, size_t number) {
  const life_t *mine = &l->all.data[number];
  uint32_t step = alignment(mine->c->b), at = 0;
  for (size_t i = 0; i < number; i++) {
    const life_t *other = &l->all.data[i];
    bool is_apart = at >= other->c->at + other->c->bytes ||
                    at + mine->c->bytes <= other->c->at;
    if (is_apart || may_share(mine, other)) continue;
    at = aligned(other->c->at + other->c->bytes, step);
    i = (size_t)-1; /* look again at all of them */
  }
  return at;
}

/* ---- a block that is one worker -------------------------------------------*/

/* What is shared is, and nothing else is memory. */
static void place_shared(cgc_t *g) {
  lives_t lives = {.g = g};
  uint32_t most = g->options->target->shared_most;
  find_lives(&lives, &g->kernel->body);
  for (size_t i = 0; i < lives.all.length; i++) {
    cgc_buffer_t *c = lives.all.data[i].c;
    if (c->place != CGC_SCRATCH) continue;
    if (c->bytes > 0) c->at = free_place(&lives, i);
    if (c->bytes == 0 || c->at + c->bytes > most) {
      cgc_refuse(g, "has no room for %s in the %u bytes of shared memory of "
                    "a block of %s", c->b->name, most,
                 g->options->target->name);
    }
    c->place = CGC_SHARED;
    if (c->at + c->bytes > g->shared_bytes) {
      g->shared_bytes = c->at + c->bytes;
    }
  }
  for (size_t i = 0; i < g->buffer_list.length; i++) {
    const cgc_buffer_t *c = g->buffer_list.data[i];
    TD_CHECK(g->task, c->place != CGC_SCRATCH, "%s is no shared memory",
             c->b->name);
  }
  g->workers = 1;
}

/* Two buffers lie in one place. */
static bool is_overlaid(const cgc_t *g) {
  uint64_t sum = 0;
  for (size_t i = 0; i < g->buffer_list.length; i++) {
    const cgc_buffer_t *c = g->buffer_list.data[i];
    if (c->place == CGC_SHARED) sum += c->bytes;
  }
  return sum > g->shared_bytes;
}

/* ---- several workers in a block -------------------------------------------*/

/* Two workers of half a warp run side by side: what the second one has begins
 * in the other half of the banks.  The few bytes that this takes may be more
 * than a kernel has without asking. */
static uint32_t gap(const cgc_buffer_t *c) {
  return (BANKS_BYTES * 3 / 2 - c->bytes % BANKS_BYTES) % BANKS_BYTES;
}

static void place_workers(cgc_t *g) {
  uint32_t gaps = 0;
  for (size_t i = 0; i < g->buffer_list.length; i++) {
    const cgc_buffer_t *c = g->buffer_list.data[i];
    if (c->place == CGC_SHARED) gaps += gap(c);
  }
  bool is_half = g->width == CGC_HALF && g->workers > 1 &&
                 g->workers * (g->shared_bytes + gaps) <=
                     g->options->target->shared_most;
  g->shared_bytes = 0;
  for (size_t i = 0; i < g->buffer_list.length; i++) {
    cgc_buffer_t *c = g->buffer_list.data[i];
    if (c->place != CGC_SHARED) continue;
    if (is_half) c->bytes += gap(c);
    c->at = g->shared_bytes * g->workers;
    g->shared_bytes += c->bytes;
  }
  g->is_one_piece = cgc_dynamic_shared(g) > 0;
}

/* The smallest buffers go to shared memory: they are the ones met most often
 * for their size, and most of them fit. */
void cgc_place_buffers(cgc_t *g) {
  size_t n = g->buffer_list.length;
  uint32_t most = g->options->target->shared;
  uint32_t of_worker = ir_target_worker_shared(g->options->target);
  for (size_t i = 0; i < n; i++) {
    cgc_buffer_t *c = g->buffer_list.data[i];
    if (!is_memory(g, c)) continue;
    c->place = CGC_SCRATCH;
    c->bytes = constant_bytes(g, c->b);
  }
  g->shared_bytes = 0;
  g->is_one_piece = false;
  g->workers = THREADS;
  if (!g->is_warp) return;
  if (g->warps > 0) {
    place_shared(g);
    g->is_one_piece = g->shared_bytes > most || is_overlaid(g);
    return;
  }
  for (;;) {
    cgc_buffer_t *best = NULL;
    for (size_t i = 0; i < n; i++) {
      cgc_buffer_t *c = g->buffer_list.data[i];
      if (c->place != CGC_SCRATCH || c->bytes == 0) continue;
      if (best == NULL || c->bytes < best->bytes) best = c;
    }
    if (best == NULL || g->shared_bytes + best->bytes > of_worker) break;
    best->place = CGC_SHARED;
    g->shared_bytes += best->bytes;
  }
  g->workers = THREADS / g->width;
  while (g->workers > 1 && g->workers * g->shared_bytes > most) g->workers--;
  place_workers(g);
}

/* ---- text -----------------------------------------------------------------*/

uint32_t cgc_block_shared(const cgc_t *g) {
  return g->is_warp ? g->shared_bytes * g->workers : 0;
}

uint32_t cgc_dynamic_shared(const cgc_t *g) {
  uint32_t bytes = cgc_block_shared(g);
  return bytes > g->options->target->shared ? bytes : 0;
}

/* A swizzle acts on bits of the address up to 1024 B; rows of workers begin in
 * a half of the banks. The assembler rounds what any kernel of the module has
 * up to the largest of these. */
static unsigned piece_alignment(const cgc_t *g) {
  return g->warps > 0 ? 1024 : BANKS_BYTES;
}

void cgc_declare_shared(cgc_t *g) {
  if (g->is_one_piece && cgc_dynamic_shared(g) > 0) {
    cg_line(&g->text, "extern __shared__ __align__(%u) unsigned char "
                      "shared[];", piece_alignment(g));
    return;
  }
  if (g->is_one_piece) {
    cg_line(&g->text,
            "__shared__ __align__(%u) unsigned char shared[%u];",
            piece_alignment(g), cgc_block_shared(g));
    return;
  }
  for (size_t i = 0; i < g->buffer_list.length; i++) {
    const cgc_buffer_t *c = g->buffer_list.data[i];
    if (c->place != CGC_SHARED || !(c->is_read || c->is_written)) continue;
    uint32_t count = c->bytes / (uint32_t)td_dtype_bytes(c->b->dtype);
    const char *type = cgc_storage_type(g, c->b->dtype);
    if (g->warps > 0) {
      cg_line(&g->text, "__shared__ __align__(%u) %s %s[%u];",
              alignment(c->b), type, c->name, count);
      continue;
    }
    cg_line(&g->text, "__shared__ __align__(16) %s s%s[%u][%u];", type,
            c->name, g->workers, count);
  }
}

void cgc_alloc_shared(cgc_t *g, const cgc_buffer_t *c) {
  const char *type = cgc_storage_type(g, c->b->dtype);
  if (g->is_one_piece && g->warps == 0) {
    cg_line(&g->text, "%s *const %s = (%s *)(shared + %u + threadIdx.y * %u);",
            type, c->name, type, c->at, c->bytes);
  } else if (g->is_one_piece) {
    cg_line(&g->text, "%s *const %s = (%s *)(shared + %u);", type, c->name,
            type, c->at);
  } else if (g->warps == 0) {
    cg_line(&g->text, "%s *const %s = s%s[threadIdx.y];", type, c->name,
            c->name);
  }
}
