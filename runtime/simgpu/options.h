/* The simulator's knobs, read from the environment and changed by
   simgpu_configure. */
#ifndef SIM_OPTIONS_H
#define SIM_OPTIONS_H

#include "runtime/base/str.h"

typedef enum sim_order_t {
  SIM_ORDER_RR,
  SIM_ORDER_REVERSE,
  SIM_ORDER_RANDOM
} sim_order_t;

/* How the lanes of a warp go apart and meet again. */
typedef enum sim_diverge_t {
  SIM_DIVERGE_STACK, /* at post-dominators, see warp.c */
  SIM_DIVERGE_ITS    /* where .sync makes them, see its.h */
} sim_diverge_t;

typedef enum sim_async_mode_t {
  SIM_ASYNC_LATE,
  SIM_ASYNC_IMMEDIATE,
  SIM_ASYNC_RANDOM
} sim_async_mode_t;

typedef enum sim_streams_t {
  SIM_STREAMS_ISSUE,
  SIM_STREAMS_RANDOM
} sim_streams_t;

/* In which order collectives fold their ranks; see sim_reduce.c. */
typedef enum sim_reduce_t {
  SIM_REDUCE_RANK,
  SIM_REDUCE_RING,
  SIM_REDUCE_RANDOM
} sim_reduce_t;

/* How matrix instructions add; see tensor.h. */
typedef enum sim_arith_t {
  SIM_ARITH_EXACT,
  SIM_ARITH_HW,
  SIM_ARITH_PERTURBED
} sim_arith_t;

typedef enum sim_count_t {
  SIM_COUNT_FULL,
  SIM_COUNT_BASIC, /* no sectors, no conflicts, no cache */
  SIM_COUNT_OFF
} sim_count_t;

typedef struct sim_options_t {
  uint64_t seed;
  uint32_t checks;  /* bits of families; see checks.def */
  bool is_warning;  /* report and go on */
  sim_order_t order;
  sim_diverge_t diverge;
  sim_async_mode_t async;
  sim_streams_t streams; /* order of unordered operations */
  sim_arith_t arith;
  sim_reduce_t reduce;
  uint64_t deadline; /* milliseconds that ranks wait for each other */
  uint32_t preempt; /* instructions between switches, 0: none */
  uint32_t threads; /* host threads, 0: one for each CPU */
  uint64_t memory;  /* bytes a device has, 0: the row's */
  uint64_t budget;  /* warp instructions a launch may take, 0: no limit */
  uint32_t host;    /* level of x86-64 to run on, 0: the best */
  sim_count_t count;
  bool no_l2;       /* without the model of the cache */
  bool has_lines;   /* counts by source line too, slowly */
  uint8_t poison;
  bool poison_is_random;
  bool samples_first, samples_last; /* blocks to run; none set: all */
  uint32_t samples_random;
  char report[512]; /* path of the JSON lines file, "" for none */
  char unknown[96]; /* "VARIABLE: word" of the environment that is no option;
                       cuInit says so and fails */
  char fail[64];    /* function of an injected failure */
  uint64_t fail_call;
  int fail_code;
} sim_options_t;

#define SIM_MAX_SAMPLE 100000u

/* What bytes hold that nobody wrote; key: of the place, for random ones. */
void sim_poison_fill(const sim_options_t *options, void *to, size_t bytes,
                     uint64_t key);

#define SIM_CHECK_MEM  1u
#define SIM_CHECK_INIT 2u
#define SIM_CHECK_RACE 4u
#define SIM_CHECK_BAR  8u
#define SIM_CHECK_WARP 16u
#define SIM_CHECK_ASYNC 32u
#define SIM_CHECK_NUM  64u
#define SIM_CHECK_LEAK 128u
#define SIM_CHECK_ORDER 256u
#define SIM_CHECK_NOTE 512u /* on request only */
#define SIM_CHECK_LAUNCH 1024u
#define SIM_CHECK_COLL 2048u
#define SIM_CHECK_ALL  (511u | SIM_CHECK_LAUNCH | SIM_CHECK_COLL)

/* The schedule as items of TDSL_SIM_MODE. */
void sim_options_mode(td_buf_t *out, const sim_options_t *options);
/* Defaults, then TDSL_SIM_SEED, _CHECK, _MODE and _REPORT; what cannot be
   understood is kept in `unknown`. */
void sim_options_read(sim_options_t *options);
/* One "key:value" item of TDSL_SIM_MODE, or "seed:N", "check:LIST". False if
   it is not known. */
bool sim_options_set(sim_options_t *options, td_str_t item);

#endif
