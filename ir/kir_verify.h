/* kir_verify.h: what the files of the KIR verifier share (kir_verify.c for
 * statements, kir_verify_expr.c for what they mention).
 *
 * Each check reports at most one fault and leaves `ok` false; whoever called
 * then stops. Lifetime: one call of kir_verify. */
#ifndef TDSL_IR_KIR_VERIFY_H
#define TDSL_IR_KIR_VERIFY_H

#include "ir/kir_text.h"

enum {
  KIR_MAX_LANES = 64,
  KIR_MAX_BARRIERS = 15, /* of some warps; number 0 is that of all */
};

/* What is known of a variable while it can be used. */
typedef enum kir_visible {
  KIR_HIDDEN = 0,
  KIR_VISIBLE,
  KIR_FIXED, /* a constant once loops are unrolled */
  KIR_LANE,  /* differs between lanes */
} kir_visible_t;

typedef struct kir_verifier {
  td_task_t *task;
  td_arena_t arena;
  const kir_kernel_t *kernel;
  const char *stage;
  bool from_text, ok;
  kir_visible_t *vars;     /* by id */
  const kir_var_t **known; /* by id: the variable of that number */
  td_map_t buffers;        /* kir_buffer_t -> non-NULL while allocated */
  const kir_var_t *lane;   /* of the lane loop around, or NULL */
  int64_t lanes;
  const kir_var_t *warp;   /* of the warp loop around, or NULL */
  int64_t warps;           /* of the kernel; 0: no warp loops */
  /* warps of a barrier; hi 0: not met */
  int64_t meets[KIR_MAX_BARRIERS + 1][2];
  td_loc_t loc;            /* of the statement looked at */
} kir_verifier_t;

/* Marks of an expression: constant after unrolling, or lane-varying. Of a
 * load nothing is known beyond its subscripts. */
typedef struct kir_trait {
  bool fixed, varying;
} kir_trait_t;

/* Counts once, while ok. A diagnostic for text, our fault otherwise, which
 * does not return. */
TD_PRINTF(3, 4)
void kir_fail(kir_verifier_t *v, td_loc_t loc, const char *format, ...);

bool kir_is_power_of_two(int64_t n);

/* ---- buffers: dims, register rows, where they may be named ---- */
void kir_check_buffer(kir_verifier_t *v, const kir_buffer_t *b);
void kir_check_swizzle(kir_verifier_t *v, const kir_buffer_t *b);
/* Reports what is not there. */
bool kir_is_usable(kir_verifier_t *v, const kir_buffer_t *b);
void kir_set_usable(kir_verifier_t *v, const kir_buffer_t *b, bool is);
/* Subscripts of a register that is loaded or stored. */
void kir_check_register(kir_verifier_t *v, const kir_buffer_t *b,
                        uint32_t count, kir_expr_t *const *subs);

/* ---- expressions ---- */
/* `type` UNSET: any. `what` names the operand in messages. */
void kir_check_expr(kir_verifier_t *v, const kir_expr_t *e, tdsl_dtype_t type,
                    const char *what);
kir_trait_t kir_trait_of(kir_verifier_t *v, const kir_expr_t *e);
/* Exactly the lane of the loop around: `l + 0` would have to be understood by
 * every emitter. */
bool kir_is_lane(const kir_verifier_t *v, const kir_expr_t *e);

#endif
