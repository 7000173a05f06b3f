/* llama.c -- prefill and decode with llama.tdsl, compared with Hugging Face.

   An example of embedding: one program with two entry points that share
   weights and a key-value cache which the host owns. Public header alone.

     example_llama [--dir FOLDER] [--device NAME]

   FOLDER holds the files of this example (default: the current one). For
   llama.tdsl and for llama_f32.tdsl it checks that
   1. logits at the end of three sequences agree with the stored ones,
   2. so do those of prompts of unequal lengths in one padded batch, of a
      second chunk that starts at a different position in each, and of every
      step of decoding up to the end,
   3. `decode` picks the best token of the stored logits and leaves the same
      cache, bit for bit, as a prefill of one token,
   4. after all steps logits and cache equal those of 1 bit for bit, and so
      do the logits of one sequence alone,
   5. the same weights in two shards give the same bits.
   Exit code 0: all hold; 1: one does not, or something failed; 2: usage. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tdsl/tdsl.h>

enum { ROWS = 3, LENGTH = 24, CACHE = 64, CHUNK = 4 };
static const double TOLERANCE = 1e-4;

/* One entry point made ready, with the numbers of its slots. */
typedef struct entry_t {
  tdsl_executable_t *exe;
  tdsl_run_t *run;
  uint32_t keys, values, tokens, positions, last, result;
} entry_t;

/* A compiled program with its two entry points. */
typedef struct model_t {
  tdsl_program_t *program;
  entry_t prefill, decode;
} model_t;

typedef struct cache_t {
  tdsl_buffer_t *keys, *values;
} cache_t;

typedef struct host_t {
  tdsl_context_t *context;
  tdsl_error_t *error;
  const char *dir, *device;
  tdsl_buffer_t *tokens, *wanted; /* of all sequences; wanted[b][n][v] */
  int64_t vocabulary;
  int failures;
} host_t;

static tdsl_string_t text(const char *s) {
  return (tdsl_string_t){s, strlen(s)};
}

/* True if the call failed; says why. */
static int failed(host_t *host, tdsl_status_t status) {
  uint32_t count = 0;
  tdsl_string_t s = tdsl_status_get_name(status);

  if (status == TDSL_STATUS_OK) return 0;
  if (host->error) {
    count = tdsl_error_get_diagnostic_count(host->error);
    s = tdsl_error_get_message(host->error);
  }
  fprintf(stderr, "llama: %.*s\n", (int)s.length, s.data);
  for (uint32_t i = 0; i < count; i++) {
    s = tdsl_error_get_diagnostic(host->error, i)->rendered;
    fprintf(stderr, "%.*s\n", (int)s.length, s.data);
  }
  tdsl_error_release(host->error);
  host->error = NULL;
  host->failures++;
  return 1;
}

static void check(host_t *host, const char *what, int good) {
  if (!good) host->failures++;
  printf("  %-56s %s\n", what, good ? "equal bits" : "DIFFERENT BITS");
}

static void check_close(host_t *host, const char *what, double difference) {
  int good = difference <= TOLERANCE; /* false for NaN */
  if (!good) host->failures++;
  printf("  %-56s %.1e%s\n", what, difference, good ? "" : "  FAILED");
}

/* ---- the program ---- */

static uint32_t slot_of(const tdsl_entry_t *entry, const char *name) {
  uint32_t i = 0;
  for (; i < entry->slot_count; i++) {
    tdsl_string_t s = entry->slots[i].name;
    if (s.length == strlen(name) && !memcmp(s.data, name, s.length)) break;
  }
  return i; /* slot_count if there is none, which the library refuses */
}

static int open_entry(host_t *host, tdsl_program_t *program, const char *name,
                      const char *result, const char *weights, entry_t *out) {
  const tdsl_entry_t *entry = tdsl_program_find_entry(program, text(name));
  if (!entry) {
    fprintf(stderr, "llama: no entry point '%s'\n", name);
    host->failures++;
    return 1;
  }
  out->keys = slot_of(entry, "c.k");
  out->values = slot_of(entry, "c.v");
  out->tokens = slot_of(entry, "tok");
  out->positions = slot_of(entry, "pos");
  out->last = slot_of(entry, "last");
  out->result = slot_of(entry, result);
  return failed(host, tdsl_executable_create(program, entry, &out->exe,
                                             &host->error)) ||
         failed(host, tdsl_executable_bind_weights(out->exe, text(weights), 1,
                                                   0, &host->error)) ||
         failed(host, tdsl_run_create(out->exe, &out->run, &host->error));
}

static void close_model(model_t *model) {
  tdsl_run_destroy(model->prefill.run);
  tdsl_run_destroy(model->decode.run);
  tdsl_executable_release(model->prefill.exe);
  tdsl_executable_release(model->decode.exe);
  tdsl_program_release(model->program);
}

/* Sizes come from config.json; the cache is shorter than the text's 8192. */
static int open_model(host_t *host, const char *name, const char *checkpoint,
                      model_t *out) {
  char file[2048], config[2048], weights[2048];
  tdsl_dim_value_t dim = {text("S"), CACHE};
  tdsl_compile_desc_t desc = TDSL_COMPILE_DESC_INIT;

  memset(out, 0, sizeof *out);
  snprintf(file, sizeof file, "%s/%s", host->dir, name);
  snprintf(config, sizeof config, "%s/tiny/config.json", host->dir);
  snprintf(weights, sizeof weights, "%s/%s", host->dir, checkpoint);
  desc.file = text(file);
  desc.device = text(host->device);
  desc.config_file = text(config);
  desc.weights = text(weights);
  desc.dims = &dim;
  desc.dim_count = 1;
  if (failed(host, tdsl_program_compile(host->context, &desc, &out->program,
                                        &host->error)))
    return 1;
  return open_entry(host, out->program, "prefill", "logits", weights,
                    &out->prefill) ||
         open_entry(host, out->program, "decode", "next", weights,
                    &out->decode);
}

/* ---- the cache: the host's, zero at first ---- */

static void free_cache(cache_t *cache) {
  tdsl_buffer_release(cache->keys);
  tdsl_buffer_release(cache->values);
  memset(cache, 0, sizeof *cache);
}

/* The slot tells type and static dims; the batch is dim 1. */
static int make_cache(host_t *host, const model_t *model, int64_t rows,
                      cache_t *out) {
  const tdsl_slot_t *slot =
      &tdsl_program_find_entry(model->program, text("prefill"))
           ->slots[model->prefill.keys];
  tdsl_tensor_desc_t desc = {.dtype = slot->dtype, .rank = slot->rank};

  memset(out, 0, sizeof *out);
  memcpy(desc.dims, slot->dim_value, sizeof desc.dims);
  desc.dims[1] = rows;
  return failed(host, tdsl_buffer_create(host->context, &desc, &out->keys,
                                         &host->error)) ||
         failed(host, tdsl_buffer_create(host->context, &desc, &out->values,
                                         &host->error));
}

static void copy_cache(const cache_t *from, cache_t *to) {
  memcpy(tdsl_buffer_get_data(to->keys), tdsl_buffer_get_data(from->keys),
         tdsl_buffer_get_bytes(from->keys));
  memcpy(tdsl_buffer_get_data(to->values), tdsl_buffer_get_data(from->values),
         tdsl_buffer_get_bytes(from->values));
}

/* Whether the first `length` positions of every layer and row are equal. */
static int same_half(tdsl_buffer_t *a, tdsl_buffer_t *b, int64_t length) {
  const tdsl_tensor_desc_t *desc = tdsl_buffer_get_desc(a);
  size_t outer = (size_t)(desc->dims[0] * desc->dims[1]);
  size_t stride = tdsl_buffer_get_bytes(a) / outer;
  size_t bytes = stride / (size_t)desc->dims[2] * (size_t)length;
  const char *p = tdsl_buffer_get_data(a), *q = tdsl_buffer_get_data(b);
  for (size_t i = 0; i < outer; i++)
    if (memcmp(p + i * stride, q + i * stride, bytes)) return 0;
  return 1;
}

static int same_cache(const cache_t *a, const cache_t *b, int64_t length) {
  return same_half(a->keys, b->keys, length) &&
         same_half(a->values, b->values, length);
}

/* ---- calls ---- */

/* Wraps `data`, binds it and lets the run keep the only reference. */
static int bind(host_t *host, entry_t *entry, uint32_t slot, int32_t *data,
                int64_t rows, int64_t columns) {
  tdsl_tensor_desc_t desc = {.dtype = TDSL_DTYPE_I32,
                             .rank = columns ? 2 : 1,
                             .dims = {rows, columns}};
  size_t count = (size_t)(columns ? rows * columns : rows);
  tdsl_buffer_t *buffer = NULL;
  int bad =
      failed(host,
             tdsl_buffer_wrap(host->context, &desc, data, count * sizeof *data,
                              &buffer, &host->error)) ||
      failed(host, tdsl_run_set_buffer(entry->run, slot, buffer, &host->error));
  tdsl_buffer_release(buffer);
  return bad;
}

/* Runs entry on `rows` sequences; columns == 0: one token each, no `last`.
   The result is lent until the next call of this entry. */
static tdsl_buffer_t *call(host_t *host, entry_t *entry, const cache_t *cache,
                           int64_t rows, int64_t columns, int32_t *tokens,
                           int32_t *positions, int32_t *last) {
  if (failed(host, tdsl_run_set_buffer(entry->run, entry->keys, cache->keys,
                                       &host->error)) ||
      failed(host, tdsl_run_set_buffer(entry->run, entry->values, cache->values,
                                       &host->error)) ||
      bind(host, entry, entry->tokens, tokens, rows, columns) ||
      bind(host, entry, entry->positions, positions, rows, 0) ||
      (columns && bind(host, entry, entry->last, last, rows, 0)) ||
      failed(host, tdsl_run_execute(entry->run, &host->error)))
    return NULL;
  return tdsl_run_get_buffer(entry->run, entry->result);
}

/* The logits of `rows` sequences as binary64, which keeps every bit: the
   device interp:f64 computes f32 results in f64 and hands them out so. */
static int read_logits(host_t *host, tdsl_buffer_t *from, size_t rows,
                       double *to) {
  size_t count = rows * (size_t)host->vocabulary;
  tdsl_dtype_t dtype = tdsl_buffer_get_desc(from)->dtype;
  const float *narrow = tdsl_buffer_get_data(from);

  if (tdsl_buffer_get_bytes(from) != count * tdsl_dtype_get_bytes(dtype) ||
      (dtype != TDSL_DTYPE_F32 && dtype != TDSL_DTYPE_F64)) {
    fprintf(stderr, "llama: logits of an unexpected shape\n");
    host->failures++;
    return 1;
  }
  if (dtype == TDSL_DTYPE_F64) memcpy(to, narrow, count * sizeof *to);
  else
    for (size_t i = 0; i < count; i++) to[i] = (double)narrow[i];
  return 0;
}

static int32_t token_at(const host_t *host, int64_t row, int64_t position) {
  const int32_t *tokens = tdsl_buffer_get_data(host->tokens);
  return position < LENGTH ? tokens[row * LENGTH + position] : 0;
}

static const float *wanted_at(const host_t *host, int64_t row,
                              int64_t position) {
  const float *wanted = tdsl_buffer_get_data(host->wanted);
  return wanted + (row * LENGTH + position) * host->vocabulary;
}

/* The larger of two, NaN if either is: a NaN must not get lost. */
static double larger(double a, double b) {
  return isnan(a) || a > b ? a : b;
}

/* Largest difference of one row of logits from the stored one. */
static double difference(const host_t *host, const double *got, int64_t row,
                         int64_t position) {
  const float *want = wanted_at(host, row, position);
  double worst = 0;
  for (int64_t v = 0; v < host->vocabulary; v++) {
    worst = larger(worst, fabs(got[v] - (double)want[v]));
  }
  return worst;
}

/* Prefill of `columns` tokens that start at positions[b]; only the first
   counts[b] of a row are tokens of its sequence, the rest is padding.
   Returns the largest difference of the logits after the last of them, which
   are stored in `logits`. */
static double prefill(host_t *host, model_t *model, const cache_t *cache,
                      int64_t columns, int32_t *positions,
                      const int32_t *counts, double *logits) {
  _Alignas(16) int32_t tokens[ROWS * LENGTH], last[ROWS];
  size_t width = (size_t)host->vocabulary;
  tdsl_buffer_t *got;
  double worst = 0;

  for (int64_t b = 0; b < ROWS; b++) {
    for (int64_t t = 0; t < columns; t++)
      tokens[b * columns + t] =
          t < counts[b] ? token_at(host, b, positions[b] + t) : 0;
    last[b] = counts[b] - 1;
  }
  got = call(host, &model->prefill, cache, ROWS, columns, tokens, positions,
             last);
  if (!got || read_logits(host, got, ROWS, logits)) return (double)NAN;
  for (int64_t b = 0; b < ROWS; b++)
    worst = larger(worst, difference(host, logits + (size_t)b * width, b,
                                     positions[b] + counts[b] - 1));
  return worst;
}

/* ---- the comparisons ---- */

/* One token of each sequence through `decode`, on a copy of the cache, and
   through `prefill`; true if both agree with each other and decode with the
   stored logits. */
static int step(host_t *host, model_t *model, const cache_t *cache,
                cache_t *spare, int32_t *positions, double *logits,
                double *worst) {
  static const int32_t one[ROWS] = {1, 1, 1};
  _Alignas(16) int32_t tokens[ROWS];
  tdsl_buffer_t *result;
  const int32_t *next;
  int good = 1;

  for (int64_t b = 0; b < ROWS; b++)
    tokens[b] = token_at(host, b, positions[b]);
  copy_cache(cache, spare);
  result = call(host, &model->decode, spare, ROWS, 0, tokens, positions, NULL);
  *worst =
      larger(*worst, prefill(host, model, cache, 1, positions, one, logits));
  if (!result) return 0;
  next = tdsl_buffer_get_data(result);
  for (int64_t b = 0; b < ROWS; b++) {
    const float *want = wanted_at(host, b, positions[b]);
    int64_t best = 0;
    for (int64_t v = 1; v < host->vocabulary; v++)
      if (want[v] > want[best]) best = v;
    if (next[b] != best) good = 0;
  }
  return good && same_cache(cache, spare, CACHE);
}

/* Comparisons 2 to 4, against the logits and cache of whole prefills. */
static void by_steps(host_t *host, model_t *model, const cache_t *whole,
                     const double *end, cache_t *cache, cache_t *spare,
                     double *logits) {
  static const int32_t prompt[ROWS] = {13, 5, 9}, chunk[ROWS] = {4, 1, 3};
  _Alignas(16) int32_t positions[ROWS] = {0};
  size_t bytes = ROWS * (size_t)host->vocabulary * sizeof *logits;
  double worst = 0;
  int good = 1, moving = 1, steps = 0;
  char what[80];

  check_close(host, "three prompts of 13, 5 and 9 tokens in a batch",
              prefill(host, model, cache, 13, positions, prompt, logits));
  memcpy(positions, prompt, sizeof positions);
  check_close(host, "then 4, 1 and 3 more from there",
              prefill(host, model, cache, CHUNK, positions, chunk, logits));
  for (int b = 0; b < ROWS; b++) positions[b] += chunk[b];
  for (; moving && !host->failures; steps++) {
    good = step(host, model, cache, spare, positions, logits, &worst) && good;
    /* A sequence at its end does its last step again. */
    moving = 0;
    for (int b = 0; b < ROWS; b++)
      if (positions[b] < LENGTH - 1) {
        positions[b]++;
        moving = 1;
      }
  }
  snprintf(what, sizeof what, "then %d steps of decoding", steps);
  check_close(host, what, worst);
  check(host, "decode: best token, and the cache of a prefill of one", good);
  check(host, "logits at the end, in steps and in one prefill",
        !memcmp(logits, end, bytes));
  check(host, "cache at the end, in steps and in one prefill",
        same_cache(cache, whole, LENGTH));
}

/* The second sequence without the others. */
static void alone(host_t *host, model_t *model, const double *end,
                  double *logits) {
  _Alignas(16) int32_t tokens[LENGTH], position[1] = {0},
                                       last[1] = {LENGTH - 1};
  size_t width = (size_t)host->vocabulary;
  tdsl_buffer_t *got = NULL;
  cache_t cache;

  for (int t = 0; t < LENGTH; t++) tokens[t] = token_at(host, 1, t);
  if (!make_cache(host, model, 1, &cache))
    got =
        call(host, &model->prefill, &cache, 1, LENGTH, tokens, position, last);
  check(host, "one sequence alone and in the batch",
        got && !read_logits(host, got, 1, logits) &&
            !memcmp(logits, end + width, width * sizeof *end));
  free_cache(&cache);
}

static void compare(host_t *host, const char *name) {
  static const int32_t all[ROWS] = {LENGTH, LENGTH, LENGTH};
  _Alignas(16) int32_t start[ROWS] = {0};
  size_t count = ROWS * (size_t)host->vocabulary;
  double *end = calloc(count, sizeof *end);
  double *logits = calloc(count, sizeof *logits);
  cache_t whole = {0}, cache = {0}, spare = {0};
  model_t model = {0}, sharded = {0};

  printf("%s on %s\n", name, host->device);
  if (!end || !logits) {
    fprintf(stderr, "llama: out of memory\n");
    host->failures++;
  } else if (!open_model(host, name, "tiny/model.safetensors", &model) &&
             !make_cache(host, &model, ROWS, &whole) &&
             !make_cache(host, &model, ROWS, &cache) &&
             !make_cache(host, &model, ROWS, &spare)) {
    check_close(host, "three sequences of 24 tokens, one prefill",
                prefill(host, &model, &whole, LENGTH, start, all, end));
    if (!host->failures)
      by_steps(host, &model, &whole, end, &cache, &spare, logits);
    if (!host->failures) alone(host, &model, end, logits);
    if (!open_model(host, name, "sharded/model.safetensors.index.json",
                    &sharded)) {
      prefill(host, &sharded, &cache, LENGTH, start, all, logits);
      check(host, "weights in two shards and in one file",
            !memcmp(logits, end, count * sizeof *end));
    }
  }
  close_model(&sharded);
  close_model(&model);
  free_cache(&whole);
  free_cache(&cache);
  free_cache(&spare);
  free(end);
  free(logits);
}

static int load(host_t *host, const char *name, tdsl_dtype_t dtype,
                tdsl_buffer_t **out) {
  char file[2048];
  const tdsl_tensor_desc_t *desc;

  snprintf(file, sizeof file, "%s/%s", host->dir, name);
  if (failed(host, tdsl_buffer_load_npy(host->context, text(file), dtype, out,
                                        &host->error)))
    return 1;
  desc = tdsl_buffer_get_desc(*out);
  if (desc->rank < 2 || desc->dims[0] != ROWS || desc->dims[1] != LENGTH) {
    fprintf(stderr, "llama: %s does not have the expected shape\n", file);
    host->failures++;
    return 1;
  }
  host->vocabulary = desc->rank == 3 ? desc->dims[2] : 0;
  return 0;
}

int main(int argc, char **argv) {
  static const char *const names[2][2] = {{"llama.tdsl", "rounded.npy"},
                                          {"llama_f32.tdsl", "exact.npy"}};
  host_t host = {.dir = ".", .device = "cpu"};

  for (int i = 1; i < argc; i += 2) {
    const char **to = !strcmp(argv[i], "--dir")      ? &host.dir
                      : !strcmp(argv[i], "--device") ? &host.device
                                                     : NULL;
    if (!to || i + 1 == argc) {
      fprintf(stderr, "usage: example_llama [--dir FOLDER] [--device NAME]\n");
      return 2;
    }
    *to = argv[i + 1];
  }
  if (!failed(&host, tdsl_context_create(NULL, &host.context, &host.error)) &&
      !load(&host, "tokens.npy", TDSL_DTYPE_I32, &host.tokens)) {
    for (int i = 0; i < 2; i++) {
      if (!load(&host, names[i][1], TDSL_DTYPE_F32, &host.wanted))
        compare(&host, names[i][0]);
      tdsl_buffer_release(host.wanted);
      host.wanted = NULL;
    }
  }
  tdsl_buffer_release(host.tokens);
  tdsl_context_destroy(host.context);
  printf("llama: %s\n", host.failures ? "FAILED" : "all comparisons hold");
  return host.failures ? 1 : 0;
}
