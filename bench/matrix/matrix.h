/* matrix.h: the parts of bench_matrix: ceilings of the machine, peers that
 * are opened at run time, rows, and the three forms of the result. */
#ifndef TDSL_BENCH_MATRIX_H
#define TDSL_BENCH_MATRIX_H

#include <stddef.h>
#include <stdint.h>

/* ---- ceilings ------------------------------------------------------------ */

/* Rates of this moment, over `threads` threads; each takes a few
 * milliseconds. */
double ceiling_fma(int threads);    /* FLOP/s of f32 multiply-adds         */
double ceiling_stream(int threads); /* bytes/s of reading 256 MiB          */
double ceiling_copy(int threads);   /* bytes/s, read + written past caches */
int ceiling_cores(void);            /* that this process may use           */

/* ---- peers --------------------------------------------------------------- */

/* C = A B with A m x k, B k x n, or with B given as n x k; all row-major. */
typedef struct peer {
  const char *name;
  char version[80];
  void *library;
  void (*gemm)(const struct peer *, int b_is_nk, int m, int n, int k,
               const float *a, const float *b, float *c);
  void *sgemm; /* its entry point */
} peer_t;

enum { PEER_MOST = 3 };
/* Opens what is installed: OpenBLAS, BLIS, oneDNN. Returns how many. Thread
 * counts are those of the environment. */
int peer_open(peer_t *out);

/* ---- rows ---------------------------------------------------------------- */

typedef enum ceiling_kind { OF_FMA, OF_STREAM, OF_COPY } ceiling_kind_t;

/* One shape of one row of the matrix. */
typedef struct row {
  const char *id;     /* "C1" */
  char name[48];      /* "1024 x 1024 x 1024" */
  char source[1200];  /* a program with one entry, dims static */
  double work;        /* FLOP, or bytes that must move, of one run */
  ceiling_kind_t kind;
  double least_share; /* bar: share of the ceiling, 0 for none */
  double least_ratio; /* bar: against the best peer, 0 for none */
  int sets;           /* operand sets that rotate; 1: warm */
  int rotating_slot;  /* which slot rotates */
  /* What the peer computes with the memory of the slots: NULL for none. */
  void (*peer)(const struct row *, const peer_t *, float **slots, float *out);
  const char *peer_note; /* "product only", or NULL */
  int m, n, k, batch, heads, is_causal;
} row_t;

/* Fills rows of these ids ("C1,C4"; NULL: all); how many. */
int matrix_rows(const char *ids, row_t *out, int most);

/* ---- results ------------------------------------------------------------- */

typedef struct result {
  const row_t *row;
  double ours, ceiling, share;        /* rates, and ours / ceiling */
  const char *peer;                   /* the best one, or NULL */
  double peer_rate, ratio, low, high; /* pairs' median, 10 %, 90 % */
  int is_met;
} result_t;

void report_head(void);
void report_row(const result_t *);
/* Whole files; 0 if one cannot be written. */
int report_json(const char *path, const result_t *, int count, int threads);
int report_svg(const char *path, const result_t *, int count);

#endif
