/* bind.h: fields of structs and tensors of a checkpoint (docs/language.md,
 * structs and checkpoints).
 *
 * No file is opened here: what the file holds comes through bind_source_t.
 * The driver calls bind_solve before compiling, to find static dims that
 * nothing else gives, and bind_check when weights are bound. */
#ifndef TDSL_FRONTEND_BIND_H
#define TDSL_FRONTEND_BIND_H

#include "frontend/sem.h"

/* A tensor of the checkpoint, as its header says; borrowed. */
typedef struct bind_tensor {
  const char *name;
  tdsl_dtype_t dtype;
  uint32_t rank;
  const int64_t *dims;
  const char *file; /* which of several files, or NULL */
} bind_tensor_t;

typedef struct bind_source {
  size_t count;
  const bind_tensor_t *(*get)(void *user, size_t i); /* i < count */
  const bind_tensor_t *(*find)(void *user, const char *name); /* or NULL */
  void *user;
} bind_source_t;

/* A leaf of a struct parameter.  Leading dims are those of stacks; the first
 * of them, one for each `{}` of the pattern, number tensors of the file, the
 * others are dims of each tensor. */
typedef struct bind_leaf {
  const char *path;    /* "m.blk.wq" */
  const char *pattern; /* "model.layers.{}.self_attn.q_proj.weight" */
  tdsl_dtype_t dtype;
  uint32_t rank;
  const ix_poly_t *polys[IX_MAX_RANK]; /* NULL where dims are given */
  int64_t dims[IX_MAX_RANK];           /* -1: not known */
  const char *dim_text[IX_MAX_RANK];   /* "H", "4*D", or NULL */
  int32_t else_leaf;   /* leaf that it stands for when absent, or -1 */
  bool is_inout;
  bool is_named;       /* some `from` is written on the way */
  td_loc_t loc;        /* of the field */
} bind_leaf_t;

/* The leaves of all struct parameters, depth first. */
bind_leaf_t *bind_leaves(td_arena_t *arena, const sem_func_t *func,
                         size_t *out_count);

/* Number of `{}`; the name with them replaced by positions. */
uint32_t bind_hole_count(const char *pattern);
const char *bind_name(td_arena_t *arena, const char *pattern,
                      const int64_t *positions);

/* A run of declared dims that equals a run of file dims; extents of 1 are in
 * no group. */
typedef struct bind_group {
  uint32_t declared, file;
} bind_group_t;

/* Adjacent dims split and merge, row-major order is kept, nothing moves.
 * groups (may be NULL) has room for declared_rank.  On failure *out_at is
 * the declared dim at fault (declared_rank: leftovers in the file). */
bool bind_match(const int64_t *declared, uint32_t declared_rank,
                const int64_t *file, uint32_t file_rank,
                bind_group_t *groups, uint32_t *out_group_count,
                uint32_t *out_at);

/* Values of static dims without value, each the only unknown of some field;
 * false after E14 (fields disagree).  Only what was found is in *out_dims;
 * give them to sem_check together with those of --dim. */
bool bind_solve(td_task_t *task, td_arena_t *arena,
                const sem_program_t *program, const sem_func_t *func,
                const bind_source_t *source, sem_dim_value_t **out_dims,
                uint32_t *out_count);

typedef struct bind_options {
  bool convert; /* narrowing is allowed (--convert) */
  bool strict;  /* unused tensors are an error (--strict) */
} bind_options_t;

/* Where a leaf comes from. */
typedef struct bind_place {
  uint32_t tensor_count;        /* product of the numbered stack dims */
  const bind_tensor_t **tensors;
  int32_t alias;                /* leaf whose storage it is, or -1 */
} bind_place_t;

/* Finds the tensors of all leaves: E13, E14, E15, W04.  program (may be NULL)
 * tells where values of dims come from.  False if an error was reported;
 * *out_places has one for each leaf. */
bool bind_check(td_task_t *task, td_arena_t *arena,
                const sem_program_t *program, const bind_leaf_t *leaves,
                size_t count, const bind_source_t *source,
                const bind_options_t *options, bind_place_t **out_places);

#endif
