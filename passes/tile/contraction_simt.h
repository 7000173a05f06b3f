/* contraction_simt.h: a matrix product of a block of warps as its files see it:
 * sizes and places (contraction_simt_size.c), which tile a block makes
 * (contraction_simt_grid.c), operands on their way (contraction_simt_move.c),
 * the sums (contraction_simt.c), and what is done with them
 * (contraction_simt_tail.c). */
#ifndef TDSL_PASSES_TILE_CONTRACTION_SIMT_H
#define TDSL_PASSES_TILE_CONTRACTION_SIMT_H

#include "passes/tile/contraction.h"
#include "passes/tile/tile_wide.h"

enum {
  SIMT_WARP = 32,
  SIMT_WARPS_A_SM = 8, /* of large tiles, as their registers have it */
};

/* warps along m and n, lanes of a warp along m and n, rows and columns of a
 * lane, depth at a time; ordered from large to small */
typedef struct shape {
  int64_t warps_m, warps_n, lanes_m, lanes_n, rows, columns, depth;
} shape_t;

/* How an operand's part of a stage lies in shared memory. */
typedef enum layout {
  LAYOUT_GROUPS, /* [stages * each]: places of the depth outside, in groups */
  LAYOUT_PLACES, /* [stages, depth, size]: as memory has it, along m or n */
  LAYOUT_ROWS,   /* [stages, size, depth] swizzled: as memory has it, along k */
} layout_t;

/* One operand on its way to shared memory. */
typedef struct operand {
  tir_expr_t *e;
  const flat_group_t *outer;  /* m or n */
  kir_expr_t *base;           /* of the tile */
  int64_t size;               /* rows (columns) of the tile */
  int64_t lanes, count;       /* of a warp along it, elements of each */
  bool is_deep;               /* neighbours along k, not along the outer one */
  bool is_async;              /* goes to shared memory by itself */
  layout_t layout;
  int64_t v;                  /* neighbours that a lane fetches at once */
  int64_t groups, slots;      /* of v elements in all; of a thread */
  int64_t each;               /* elements of a stage */
  tile_wides_t wides;
  kir_buffer_t *stage;        /* REGISTER [warps, slots, v, lanes] */
  kir_buffer_t *rows;         /* REGISTER [warps, slots, lanes]: of a list;
                                 NULL: there is none */
  kir_buffer_t *shared;
} operand_t;

/* Sides whose ends are common: a tile of each is made at a time. */
typedef struct unit {
  uint32_t lead, count;
  uint32_t sides[CONTRACTION_SIDES];
  kir_expr_t *first, *end;    /* columns of tiles of the kernel that it has */
} unit_t;

typedef struct simt {
  product_t *p;
  tile_t *t;
  shape_t shape;
  int64_t warps, v;           /* v: neighbours of 16 bytes */
  int64_t stages;             /* of the depth in shared memory */
  int64_t turns;              /* blocks that share the rows of a list */
  int64_t rows_at_a_time;     /* of tiles, 0: one; the order of blocks */
  int64_t at_once;            /* places of the depth read from ROWS */
  operand_t a;
  operand_t b[CONTRACTION_SIDES];
  uint32_t unit_count, members; /* members: most sides of a unit */
  unit_t units[CONTRACTION_SIDES];
  kir_expr_t *piece;          /* column of tiles; NULL: there is one unit */
  /* of each member; tail: SHARED, the epilogue's */
  kir_buffer_t *tail[CONTRACTION_SIDES], *acc[CONTRACTION_SIDES];
  int64_t stride;             /* epilogue: columns of a row in shared memory */
  /* The depth that a block goes through: where it begins, NULL: at 0; how
   * much it is. */
  kir_expr_t *origin, *length;
  bool has_splits;            /* a block may go through several of the plan */
  kir_buffer_t *total[CONTRACTION_SIDES]; /* of the splits before, as acc */
} simt_t;

/* ---- small expressions --------------------------------------------------- */

static inline kir_expr_t *add(simt_t *s, kir_expr_t *a, kir_expr_t *b) {
  return kir_add(s->t->arena, a, b);
}

static inline kir_expr_t *times(simt_t *s, kir_expr_t *a, int64_t n) {
  return kir_mul(s->t->arena, a, tile_int(s->t, n));
}

static inline kir_expr_t *quotient(simt_t *s, kir_expr_t *a, int64_t n) {
  if (n == 1) return a;
  if (a->op == KIR_X_CONST) return tile_int(s->t, a->u.i64 / n);
  return tile_op2(s->t, KIR_X_DIV, TDSL_DTYPE_I64, a, tile_int(s->t, n));
}

static inline kir_expr_t *rest(simt_t *s, kir_expr_t *a, int64_t n) {
  if (n == 1) return tile_int(s->t, 0);
  if (a->op == KIR_X_CONST) return tile_int(s->t, a->u.i64 % n);
  return tile_op2(s->t, KIR_X_MOD, TDSL_DTYPE_I64, a, tile_int(s->t, n));
}

static inline kir_expr_t *both(simt_t *s, kir_expr_t *a, kir_expr_t *b) {
  if (a == NULL || b == NULL) return a == NULL ? b : a;
  return tile_op2(s->t, KIR_X_AND, TDSL_DTYPE_BOOL, a, b);
}

static inline kir_block_t *warp_loop(simt_t *s, kir_block_t *block,
                                     kir_expr_t **w) {
  return tile_loop(s->t, block, KIR_LOOP_WARP, "warp", tile_int(s->t, 0),
                   tile_int(s->t, s->warps), 1, w);
}

static inline kir_block_t *unroll(simt_t *s, kir_block_t *block,
                                  const char *name, int64_t n,
                                  kir_expr_t **v) {
  if (n == 1) {
    *v = tile_int(s->t, 0);
    return block;
  }
  return tile_loop(s->t, block, KIR_LOOP_UNROLL, name, tile_int(s->t, 0),
                   tile_int(s->t, n), 1, v);
}

/* All lanes of a warp; the loop itself for its mask. */
static inline kir_block_t *lanes(simt_t *s, kir_block_t *block,
                                 kir_expr_t **l, kir_stmt_t **loop) {
  kir_block_t *body =
      tile_loop(s->t, block, KIR_LOOP_LANE, "l", tile_int(s->t, 0),
                tile_int(s->t, SIMT_WARP), 1, l);
  if (loop != NULL) *loop = td_vec_last(block);
  return body;
}

/* Places of rows are those of a list. */
static inline bool is_listed(const simt_t *s, const flat_group_t *g) {
  return s->p->key != NULL && g == &s->p->m;
}

/* i < extent, for a tile of `size` from a multiple of it on; NULL: always. */
static inline kir_expr_t *is_below(simt_t *s, kir_expr_t *i,
                                   const ix_poly_t *extent, int64_t size) {
  if (tile_is_multiple(extent, size)) return NULL;
  return tile_less(s->t, i, tile_dim(s->t, extent));
}

/* Rows (columns) of a lane: groups of `n` neighbours, those of the other lanes
 * between them. */
static inline int64_t in_group(const simt_t *s, int64_t count) {
  return count % s->v == 0 ? s->v : count % 2 == 0 ? 2 : 1;
}

/* Lanes that read rows share eight of them, after which a swizzle repeats. */
static inline int64_t neighbours(const simt_t *s, const operand_t *o) {
  int64_t n = in_group(s, o->count);
  while (o->layout == LAYOUT_ROWS && n > 1 && n * o->lanes > 8) n /= 2;
  return n;
}

/* Rows of a lane that go through the epilogue's place at a time. */
static inline int64_t tail_rows(const simt_t *s) {
  return s->shape.rows % 4 == 0 ? 4 : in_group(s, s->shape.rows);
}

/* i is one of the rows (columns) there are; NULL: always. */
static inline kir_expr_t *is_one(simt_t *s, kir_expr_t *i,
                                 const flat_group_t *g, int64_t size) {
  return is_listed(s, g) ? tile_less(s->t, i, s->p->count)
                         : is_below(s, i, g->extent, size);
}

/* Blocks of large tiles that run at a time. */
static inline int64_t slots_of(const simt_t *s) {
  return (int64_t)s->t->target->sms * SIMT_WARPS_A_SM / s->warps;
}

static inline void simple(simt_t *s, kir_block_t *block, kir_kind_t kind,
                          int64_t number) {
  kir_stmt_t *one = TD_NEW(s->t->arena, kir_stmt_t);
  one->kind = kind;
  one->step = number;
  tile_push(s->t, block, one);
}

/* ---- contraction_simt_size.c ---- */

/* Tile, units, operands, stages. p->nb and p->mb are set in between. */
void contraction_simt_choose(simt_t *s);
void contraction_simt_set_operands(simt_t *s);
void contraction_simt_alloc(simt_t *s, kir_block_t *block);

void contraction_simt_find_units(simt_t *s);
/* Tiles of all columns, rows and batches; NULL: more than there are numbers. */
const ix_poly_t *contraction_simt_tiles(simt_t *s);

/* ---- contraction_simt_grid.c ---- */

kir_block_t *contraction_simt_grid(simt_t *s, kir_block_t *block);
/* Calls `build` for each unit that has this member, where a block is of it. */
typedef void (*simt_unit_fn)(simt_t *s, kir_block_t *block,
                             const unit_t *unit, void *user);
void contraction_simt_each_unit(simt_t *s, kir_block_t *block,
                                uint32_t member, simt_unit_fn build,
                                void *user);
/* Where a block is of a unit that has this member; the block itself if all
 * have. */
kir_block_t *contraction_simt_where(simt_t *s, kir_block_t *block,
                                    uint32_t member);

/* ---- contraction_simt_move.c ---- */

/* Finds the rows of a list that an operand's slots have. */
void contraction_simt_find_rows(simt_t *s, operand_t *o, kir_block_t *block);

/* GROUPS: the gap behind a group, in elements. */
enum { SIMT_GAP = 8 };
/* Subscripts of place k = group * v + in_group of the depth, and of i; how
 * many there are. */
uint32_t contraction_simt_place(simt_t *s, const operand_t *o,
                                kir_expr_t *stage, kir_expr_t *group,
                                kir_expr_t *in_group, kir_expr_t *i,
                                kir_expr_t **subs);
/* Starts the copies of the depth from kb on, which are waited for later. */
void contraction_simt_start(simt_t *s, operand_t *o, kir_block_t *block,
                            kir_expr_t *kb, kir_expr_t *stage);
/* Starts what takes long, loads from memory, and puts what came into a
 * stage. */
void contraction_simt_fetch(simt_t *s, operand_t *o, kir_block_t *block,
                            kir_expr_t *kb);
void contraction_simt_put(simt_t *s, operand_t *o, kir_block_t *block,
                          kir_expr_t *kb, kir_expr_t *stage);

/* ---- contraction_split.c ---- */

/* A block may go through several splits of the depth. */
bool contraction_split_is_here(const simt_t *s);
/* Says in t->wants whether the depth of these tiles is shared out. */
void contraction_split_judge(simt_t *s);
/* Block loops around the grid: whether there is one, and which split. */
kir_block_t *contraction_split_grid(simt_t *s, kir_block_t *block);
/* For the card: how sums are made. */
void contraction_split_describe(simt_t *s);
/* Sets origin and length. */
void contraction_split_depth(simt_t *s, kir_block_t *block);

/* ---- contraction_simt_tail.c ---- */

/* From the sums of a unit to memory, by way of shared memory. */
void contraction_simt_finish(simt_t *s, kir_block_t *block,
                             const unit_t *unit, void *unused);
/* The same of rows that a tile has whole, each by a warp; their place. */
void contraction_simt_alloc_rows(simt_t *s, kir_block_t *block);
void contraction_simt_finish_rows(simt_t *s, kir_block_t *block);

#endif
