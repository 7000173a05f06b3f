/* matrix.h: the parts of bench_matrix: ceilings of the machine, peers that
 * are opened at run time, rows, and the three forms of the result. */
#ifndef TDSL_BENCH_MATRIX_H
#define TDSL_BENCH_MATRIX_H

#include <tdsl/tdsl.h>

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/* ---- ceilings ------------------------------------------------------------ */

/* Rates of this moment, over `threads` threads; each takes a few
 * milliseconds. */
double ceiling_fma(int threads);    /* FLOP/s of f32 multiply-adds         */
double ceiling_stream(int threads); /* bytes/s of reading 256 MiB          */
double ceiling_copy(int threads);   /* bytes/s, read + written past caches */
int ceiling_cores(void);            /* that this process may use           */

/* ---- peers in this process ----------------------------------------------- */

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

/* ---- peers in processes of their own (bench/peers) ----------------------- */

typedef struct server {
  const char *name, *engine, *install; /* what to type if it is absent */
  char version[160];          /* or why it is absent */
  pid_t pid;                  /* 0: absent */
  FILE *to, *from;
} server_t;

enum { SERVER_MOST = 5 };
/* Starts them; *out has all, also those that are absent. */
void server_start_all(server_t *out, int threads);
void server_stop_all(server_t *all);
/* Has `task` made ready with the operands in `folder`, where its result is
 * ENGINE.out then; 0: it cannot. */
int server_open(server_t *s, int sets, const char *folder, const char *task);
/* Seconds of one run behind others that take `warm` seconds; < 0: it went. */
double server_run(server_t *s, double warm);
void server_close(server_t *s);

/* ---- rows ---------------------------------------------------------------- */

/* OF_TIME, OF_MEMORY: less is better; the ceiling is the bar. */
typedef enum ceiling_kind {
  OF_FMA, OF_STREAM, OF_COPY, OF_TIME, OF_MEMORY
} ceiling_kind_t;

struct session;
struct result;

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
  unsigned rotating;  /* a bit for each slot that rotates */
  /* What the peer computes with the memory of the slots: NULL for none. */
  void (*peer)(const struct row *, const peer_t *, float **slots, float *out);
  const char *peer_note; /* "product only", or NULL */
  char task[96];      /* what processes are asked for (bench/peers); "": no */
  double tolerance;   /* against a peer, of the largest result; 0: 1e-4 */
  int m, n, k, batch, heads, is_causal;
  /* A row that is no program with one entry; else NULL. */
  void (*measure)(struct session *, const struct row *, struct result *);
  const char *file, *dtype; /* what such a row works with */
} row_t;

/* attend.c */
void row_masked(row_t *, const char *mask, int kv_heads, int length,
                int width);
void row_decode(row_t *, const char *dtype, int is_paged, int keys);

/* Fills rows of these ids ("C1,C4"; NULL: all); how many. */
int matrix_rows(const char *ids, row_t *out, int most);

/* ---- one program and its operands (job.c) -------------------------------- */

enum { JOB_SLOTS = 8, JOB_SETS = 4 };

typedef struct job {
  tdsl_context_t *context;
  tdsl_program_t *program;
  tdsl_executable_t *exe;
  tdsl_run_t *run;
  uint32_t slot_count;
  size_t bytes[JOB_SLOTS];
  void *data[JOB_SLOTS][JOB_SETS];
  tdsl_buffer_t *buffers[JOB_SLOTS][JOB_SETS];
  int set_count, next_set;
  unsigned rotating;
} job_t;

void job_open(tdsl_context_t *context, const row_t *row, job_t *j);
void job_close(job_t *j);
/* Seconds of one run with the next operand set. */
double job_run(job_t *j);
/* Operands of set 0 as files for the peers' processes. */
void job_write(const job_t *j, const char *folder);
const float *job_result(const job_t *j, size_t *count);
/* Prints what went wrong and ends the process. */
void job_fail(tdsl_error_t *error);
/* Where files of this run may lie, in memory or on disk; it goes with it. */
const char *job_folder(int on_disk);
double job_now(void); /* seconds of a steady clock */
tdsl_string_t job_text(const char *s);

/* ---- who is measured, in turns (contend.c) ------------------------------- */

typedef struct contender {
  const char *name;
  /* Seconds of one run behind others that take `warm` seconds; < 0: gone. */
  double (*run)(struct contender *, double warm);
  void *state;
} contender_t;

enum { CONTENDER_MOST = 1 + PEER_MOST + SERVER_MOST };

typedef struct result {
  const row_t *row;
  int threads, samples;
  double ours, ceiling, share;        /* rates, and ours / ceiling */
  const char *peer;                   /* the best one, or NULL */
  double peer_rate, ratio, low, high; /* pairs' median, 10 %, 90 % */
  int other_count;                    /* all peers, in the order measured */
  const char *others[CONTENDER_MOST];
  double other_rates[CONTENDER_MOST];
  int is_met, is_skipped;             /* no time was left */
} result_t;

/* One number of threads. */
typedef struct session {
  tdsl_context_t *context;
  int threads, samples, peer_count;
  peer_t peers[PEER_MOST];
  server_t servers[SERVER_MOST];
  double end;    /* of the time there is, by job_now; 0: no end */
  int rows_left; /* this one included */
} session_t;

/* Measures all of them, ours first in the array. */
void contend(const session_t *s, const row_t *row, contender_t *all,
             int count, result_t *r);
/* A row that is a program with one entry. */
void contend_row(session_t *s, const row_t *row, result_t *r);

/* ---- rows of other forms ------------------------------------------------- */

/* C12: from text to the first result. */
void start_measure(session_t *s, const row_t *row, result_t *r);
/* C11: a model of `file`'s shape, weights of `dtype`, m tokens (1: decode). */
void model_measure(session_t *s, const row_t *row, result_t *r);
/* C12: the same from text to the first token; k > 0: kernels on disk. */
void model_start(session_t *s, const row_t *row, result_t *r);
/* C7: intermediates of the plan. */
void memory_measure(session_t *s, const row_t *row, result_t *r);

/* ---- reports (report.c) -------------------------------------------------- */

/* The table goes to standard output and, if it is not NULL, to `copy`. */
void report_begin(FILE *copy, const session_t *s);
void report_row(FILE *copy, const result_t *);
/* Whole files; 0 if one cannot be written. */
int report_json(const char *path, const result_t *, int count);
int report_svg(const char *path, const result_t *, int count);

#endif
