/* models.c: C11, whole models with random weights that are made when they are
 * measured: a checkpoint and its config.json in a folder, which the peers
 * read as well. Prefill is one call over a prompt; decode is one token at a
 * time behind a prompt of 128, the cache filling up to 256 and beginning
 * anew. Depth is reduced where the name says so. */
#define _GNU_SOURCE
#include "bench/matrix/matrix.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PROMPT = 128, LAST = 256, CACHE = 1024, MOST_TENSORS = 512 };

typedef struct tensor {
  char name[64];
  tdsl_dtype_t dtype;
  int rank;
  size_t dims[2], bytes;
} tensor_t;

typedef struct shape {
  const char *arch, *text;
  int layers, whole, width, inner, heads, groups, labels, places;
} shape_t;

/* Llama 3.2 1B has 16 layers; GPT-2 124M. */
static const shape_t shapes[] = {
    {"llama", "/examples/llama/llama_f32.tdsl", 4, 16, 2048, 8192, 32, 8,
     128256, 0},
    {"gpt2", "/bench/matrix/models/gpt2.tdsl", 12, 12, 768, 3072, 12, 12,
     50257, 1024},
};

static const shape_t *shape_of(const row_t *row) {
  return &shapes[strcmp(row->file, "gpt2") == 0];
}

/* ---- the checkpoint ------------------------------------------------------ */

typedef struct checkpoint {
  tensor_t all[MOST_TENSORS];
  int count;
  tdsl_dtype_t dtype;
  double matrix_bytes; /* what a token reads: all matrices, the head too */
  double matrix_elements;
} checkpoint_t;

static void add(checkpoint_t *c, tdsl_dtype_t dtype, const char *name,
                size_t rows, size_t columns) {
  tensor_t *t = &c->all[c->count++];
  (void)snprintf(t->name, sizeof t->name, "%s", name);
  t->dtype = dtype;
  t->rank = columns > 0 ? 2 : 1;
  t->dims[0] = rows;
  t->dims[1] = columns > 0 ? columns : 1;
  t->bytes = rows * t->dims[1] * tdsl_dtype_get_bytes(dtype);
}

/* A matrix and, for codes, the scale of each of its rows. */
static void add_matrix(checkpoint_t *c, const char *name, size_t rows,
                       size_t columns) {
  char full[64];
  (void)snprintf(full, sizeof full, "%s.weight", name);
  add(c, c->dtype, full, rows, columns);
  c->matrix_bytes += (double)c->all[c->count - 1].bytes;
  c->matrix_elements += (double)(rows * columns);
  if (c->dtype != TDSL_DTYPE_I8) return;
  (void)snprintf(full, sizeof full, "%s.scale", name);
  add(c, TDSL_DTYPE_F32, full, rows, 0);
}

static void add_llama(checkpoint_t *c, const shape_t *s) {
  char n[64];
  size_t d = (size_t)s->width, f = (size_t)s->inner;
  size_t kv = d / (size_t)s->heads * (size_t)s->groups;
  tdsl_dtype_t plain = c->dtype == TDSL_DTYPE_I8 ? TDSL_DTYPE_F32 : c->dtype;
  add_matrix(c, "model.embed_tokens", (size_t)s->labels, d);
  add(c, plain, "model.norm.weight", d, 0);
  for (int l = 0; l < s->layers; l++) {
    const struct {
      const char *name;
      size_t rows, columns;
    } parts[] = {{"self_attn.q_proj", d, d}, {"self_attn.k_proj", kv, d},
                 {"self_attn.v_proj", kv, d}, {"self_attn.o_proj", d, d},
                 {"mlp.gate_proj", f, d}, {"mlp.up_proj", f, d},
                 {"mlp.down_proj", d, f}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
      (void)snprintf(n, sizeof n, "model.layers.%d.%s", l, parts[i].name);
      add_matrix(c, n, parts[i].rows, parts[i].columns);
    }
    (void)snprintf(n, sizeof n, "model.layers.%d.input_layernorm.weight", l);
    add(c, plain, n, d, 0);
    (void)snprintf(n, sizeof n,
                   "model.layers.%d.post_attention_layernorm.weight", l);
    add(c, plain, n, d, 0);
  }
}

static void add_gpt2(checkpoint_t *c, const shape_t *s) {
  char n[64];
  size_t d = (size_t)s->width, f = (size_t)s->inner;
  add_matrix(c, "wte", (size_t)s->labels, d);
  add(c, c->dtype, "wpe.weight", (size_t)s->places, d);
  add(c, c->dtype, "ln_f.weight", d, 0);
  add(c, c->dtype, "ln_f.bias", d, 0);
  for (int l = 0; l < s->layers; l++) {
    const struct {
      const char *name;
      size_t rows, columns;
    } parts[] = {{"attn.q", d, d}, {"attn.k", d, d}, {"attn.v", d, d},
                 {"attn.c_proj", d, d}, {"mlp.c_fc", f, d},
                 {"mlp.c_proj", d, f}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
      (void)snprintf(n, sizeof n, "h.%d.%s", l, parts[i].name);
      add_matrix(c, n, parts[i].rows, parts[i].columns);
      (void)snprintf(n, sizeof n, "h.%d.%s.bias", l, parts[i].name);
      add(c, c->dtype, n, parts[i].rows, 0);
    }
    for (int i = 1; i <= 2; i++) {
      (void)snprintf(n, sizeof n, "h.%d.ln_%d.weight", l, i);
      add(c, c->dtype, n, d, 0);
      (void)snprintf(n, sizeof n, "h.%d.ln_%d.bias", l, i);
      add(c, c->dtype, n, d, 0);
    }
  }
}

/* Cut, not rounded; what is too small for a normal number is 0. */
static uint16_t half_of(float f) {
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  uint32_t exponent = u >> 23 & 255;
  if (exponent < 113) return 0;
  return (uint16_t)((u >> 16 & 0x8000) | (exponent - 112) << 10 |
                    (u >> 13 & 0x3ff));
}

/* Matrices of a deviation near 0.02, norms of 1, biases of 0. */
static void fill(const tensor_t *t, uint32_t seed, void *out) {
  size_t count = t->dims[0] * t->dims[1];
  int is_scale = strstr(t->name, ".scale") != NULL;
  int is_norm = t->rank == 1 && strstr(t->name, ".weight") != NULL;
  for (size_t i = 0; i < count; i++) {
    uint32_t h = ((uint32_t)i + seed) * 2654435761u;
    h = (h ^ h >> 15) * 2246822519u;
    float f = ((float)(h >> 8) / 16777216.0f - 0.5f) * 0.07f + 1e-5f;
    if (is_scale) f = 0.02f / 73;
    else if (t->rank == 1) f = is_norm ? 1 : 0;
    if (t->dtype == TDSL_DTYPE_F32) ((float *)out)[i] = f;
    else if (t->dtype == TDSL_DTYPE_I8) {
      ((int8_t *)out)[i] = (int8_t)((int)(h >> 24) - 128);
    } else ((uint16_t *)out)[i] = half_of(f);
  }
}

static const char *type_name(tdsl_dtype_t dtype) {
  return dtype == TDSL_DTYPE_F32 ? "F32"
         : dtype == TDSL_DTYPE_I8 ? "I8" : "F16";
}

static void die(const char *path) {
  (void)fprintf(stderr, "bench_matrix: cannot write %s\n", path);
  exit(1);
}

static void write_weights(const checkpoint_t *c, const char *path) {
  size_t room = 256 * (size_t)c->count + 64, n = 1, at = 0, most = 0;
  char *head = malloc(room);
  if (head == NULL) exit(1);
  head[0] = '{';
  for (int i = 0; i < c->count; i++) {
    const tensor_t *t = &c->all[i];
    char second[32] = "";
    if (t->rank == 2) {
      (void)snprintf(second, sizeof second, ",%zu", t->dims[1]);
    }
    n += (size_t)snprintf(
        head + n, room - n,
        "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%zu%s],\"data_offsets\":"
        "[%zu,%zu]}",
        i > 0 ? "," : "", t->name, type_name(t->dtype), t->dims[0], second,
        at, at + t->bytes);
    at += t->bytes;
    most = t->bytes > most ? t->bytes : most;
  }
  head[n++] = '}';
  while (n % 8 != 0) head[n++] = ' ';
  uint64_t length = n;
  FILE *f = fopen(path, "wb");
  void *data = malloc(most);
  if (f == NULL || data == NULL ||
      fwrite(&length, sizeof length, 1, f) != 1 ||
      fwrite(head, n, 1, f) != 1) {
    die(path);
  }
  for (int i = 0; i < c->count; i++) {
    fill(&c->all[i], (uint32_t)i * 7919u, data);
    if (fwrite(data, c->all[i].bytes, 1, f) != 1) die(path);
  }
  if (fclose(f) != 0) die(path);
  free(data);
  free(head);
}

static void write_config(const shape_t *s, const char *path) {
  FILE *f = fopen(path, "w");
  if (f == NULL) die(path);
  if (s->places > 0) {
    (void)fprintf(f,
                  "{\"n_layer\": %d, \"n_embd\": %d, \"n_head\": %d, "
                  "\"vocab_size\": %d, \"n_positions\": %d}\n",
                  s->layers, s->width, s->heads, s->labels, s->places);
  } else {
    (void)fprintf(
        f,
        "{\"hidden_size\": %d, \"intermediate_size\": %d, "
        "\"num_attention_heads\": %d, \"num_key_value_heads\": %d, "
        "\"num_hidden_layers\": %d, \"vocab_size\": %d, \"head_dim\": %d, "
        "\"rms_norm_eps\": 1e-05, \"rope_theta\": 500000.0}\n",
        s->width, s->inner, s->heads, s->groups, s->layers, s->labels,
        s->width / s->heads);
  }
  if (fclose(f) != 0) die(path);
}

/* ---- our model ----------------------------------------------------------- */

typedef struct model {
  session_t *session;
  const row_t *row;
  tdsl_program_t *program;
  tdsl_executable_t *exe;
  tdsl_run_t *run;
  tdsl_buffer_t *cache[2];
  uint32_t slots[5], result; /* keys, values, tokens, position, last */
  int position;
  _Alignas(16) int32_t tokens[CACHE]; /* buffers of the run */
  _Alignas(16) int32_t at;
  _Alignas(16) int32_t last;
} model_t;

static char *read_text(const char *path, const char *weights) {
  FILE *f = fopen(path, "rb");
  char *text = calloc(1, 1 << 16);
  char *out = calloc(1, 1 << 16);
  if (f == NULL || text == NULL || out == NULL) die(path);
  (void)fread(text, 1, (1 << 16) - 1, f);
  (void)fclose(f);
  size_t n = 0;
  for (const char *at = text; *at != '\0' && n + 8 < 1 << 16;) {
    if (strncmp(at, "bf16", 4) == 0) {
      n += (size_t)snprintf(out + n, 8, "%s", weights);
      at += 4;
    } else {
      out[n++] = *at++;
    }
  }
  free(text);
  return out;
}

static void bind(model_t *m, uint32_t slot, int32_t *data, uint32_t rank,
                 int64_t columns) {
  tdsl_error_t *error = NULL;
  tdsl_buffer_t *buffer = NULL;
  tdsl_tensor_desc_t t = {TDSL_DTYPE_I32, rank, {1, columns}};
  size_t count = rank == 2 ? (size_t)columns : 1;
  if (tdsl_buffer_wrap(m->session->context, &t, data, count * sizeof *data,
                       &buffer, &error) ||
      tdsl_run_set_buffer(m->run, slot, buffer, &error)) {
    job_fail(error);
  }
  tdsl_buffer_release(buffer);
}

static int is_decode(const row_t *row) { return row->m == 1; }

static void find_slots(model_t *m, const tdsl_entry_t *entry) {
  static const char *const names[] = {"c.k", "c.v", "tok", "pos", "last"};
  for (uint32_t s = 0; s < entry->slot_count; s++) {
    tdsl_string_t name = entry->slots[s].name;
    for (int i = 0; i < 5; i++) {
      if (name.length == strlen(names[i]) &&
          memcmp(name.data, names[i], name.length) == 0) {
        m->slots[i] = s;
      }
    }
    m->result = s;
  }
}

static void open_model(model_t *m, session_t *session, const row_t *row,
                       const char *folder) {
  const shape_t *s = shape_of(row);
  char weights[300], config[300], path[512];
  tdsl_error_t *error = NULL;
  tdsl_compile_desc_t desc = TDSL_COMPILE_DESC_INIT;
  tdsl_dim_value_t dims[3] = {{job_text("S"), CACHE}, {job_text("B"), 1},
                              {job_text("T"), row->m}};
  int is_coded = strcmp(row->dtype, "i8") == 0;
  memset(m, 0, sizeof *m);
  m->session = session;
  m->row = row;
  (void)snprintf(weights, sizeof weights, "%s/weights.safetensors", folder);
  (void)snprintf(config, sizeof config, "%s/config.json", folder);
  (void)snprintf(path, sizeof path, TDSL_SOURCE_DIR "%s",
                 is_coded ? "/bench/matrix/models/llama_i8.tdsl" : s->text);
  char *text = read_text(path, row->dtype);
  desc.file = job_text("model.tdsl");
  desc.text = job_text(text);
  desc.device = job_text("cpu");
  desc.config_file = job_text(config);
  desc.weights = job_text(weights);
  desc.dims = dims;
  desc.dim_count = 3;
  if (tdsl_program_compile(session->context, &desc, &m->program, &error)) {
    job_fail(error);
  }
  free(text);
  const tdsl_entry_t *entry = tdsl_program_find_entry(
      m->program, job_text(is_decode(row) ? "decode" : "prefill"));
  if (tdsl_executable_create(m->program, entry, &m->exe, &error) ||
      tdsl_executable_bind_weights(m->exe, job_text(weights), 0, 0,
                                   &error) ||
      tdsl_run_create(m->exe, &m->run, &error)) {
    job_fail(error);
  }
  find_slots(m, entry);
  for (int i = 0; i < 2; i++) {
    const tdsl_slot_t *slot = &entry->slots[m->slots[i]];
    tdsl_tensor_desc_t t = {.dtype = slot->dtype, .rank = slot->rank};
    memcpy(t.dims, slot->dim_value, sizeof t.dims);
    t.dims[1] = 1;
    if (tdsl_buffer_create(session->context, &t, &m->cache[i], &error) ||
        tdsl_run_set_buffer(m->run, m->slots[i], m->cache[i], &error)) {
      job_fail(error);
    }
  }
  for (int i = 0; i < CACHE; i++) m->tokens[i] = (i * 7919 + 13) % s->labels;
  m->last = row->m - 1;
  if (is_decode(row)) m->position = PROMPT;
  else bind(m, m->slots[4], &m->last, 1, 0);
  bind(m, m->slots[2], m->tokens, is_decode(row) ? 1 : 2, row->m);
  bind(m, m->slots[3], &m->at, 1, 0);
}

static void close_model(model_t *m) {
  tdsl_run_destroy(m->run);
  tdsl_executable_release(m->exe);
  tdsl_program_release(m->program);
  for (int i = 0; i < 2; i++) tdsl_buffer_release(m->cache[i]);
}

static double step(model_t *m) {
  tdsl_error_t *error = NULL;
  m->at = m->position;
  double start = job_now();
  if (tdsl_run_execute(m->run, &error)) job_fail(error);
  double seconds = job_now() - start;
  if (is_decode(m->row) && ++m->position == LAST) m->position = PROMPT;
  return seconds;
}

static double run_model(contender_t *c, double warm) {
  double end = job_now() + warm;
  do {
    (void)step(c->state);
  } while (job_now() < end);
  return step(c->state);
}

static double run_peer(contender_t *c, double warm) {
  return server_run(c->state, warm);
}

/* ---- the row ------------------------------------------------------------- */

static double largest_difference(const float *a, const float *b, size_t n) {
  double worst = 0, size = 0;
  for (size_t i = 0; i < n; i++) {
    double d = fabs((double)a[i] - (double)b[i]);
    if (!(d <= worst)) worst = d;
    size = fmax(size, fabs((double)b[i]));
  }
  return worst / size;
}

/* Logits behind the prompt; a peer with others ends the matrix. */
static void compare(const model_t *m, const char *folder,
                    const server_t *peer) {
  char path[300];
  tdsl_buffer_t *mine = tdsl_run_get_buffer(m->run, m->result);
  size_t n = tdsl_buffer_get_bytes(mine) / sizeof(float);
  float *theirs = malloc(n * sizeof *theirs);
  (void)snprintf(path, sizeof path, "%s/%s.out", folder, peer->engine);
  FILE *f = fopen(path, "rb");
  if (theirs == NULL || f == NULL || fread(theirs, sizeof *theirs, n, f) != n) {
    die(path);
  }
  (void)fclose(f);
  double d = largest_difference(tdsl_buffer_get_data(mine), theirs, n);
  free(theirs);
  if (d <= m->row->tolerance) return;
  (void)fprintf(stderr, "bench_matrix: %s: %s has other logits (%.2g)\n",
                m->row->name, peer->name, d);
  exit(1);
}

static void make_checkpoint(const row_t *row, const char *folder,
                            checkpoint_t *c) {
  const shape_t *s = shape_of(row);
  char path[300];
  memset(c, 0, sizeof *c);
  c->dtype = strcmp(row->dtype, "f32") == 0 ? TDSL_DTYPE_F32
             : strcmp(row->dtype, "i8") == 0 ? TDSL_DTYPE_I8
                                             : TDSL_DTYPE_F16;
  if (s->places > 0) add_gpt2(c, s);
  else add_llama(c, s);
  (void)snprintf(path, sizeof path, "%s/weights.safetensors", folder);
  write_weights(c, path);
  (void)snprintf(path, sizeof path, "%s/config.json", folder);
  write_config(s, path);
}

/* FLOP of all products, the head for one token; attention is little. */
static double work_of(const row_t *row, const checkpoint_t *c) {
  const shape_t *s = shape_of(row);
  double head = (double)s->labels * s->width;
  if (!is_decode(row)) {
    double scores = 2.0 * row->m * (row->m + 1.0) * s->width * s->layers;
    return 2.0 * (row->m * (c->matrix_elements - head) + head) + scores;
  }
  double kv = 2.0 * s->layers * s->width / s->heads * s->groups;
  return c->matrix_bytes + 4 * kv * (PROMPT + LAST) / 2;
}

static void make_folder(char *folder, size_t room) {
  (void)snprintf(folder, room, "%s/model_XXXXXX", job_folder(1));
  if (mkdtemp(folder) == NULL) die(folder);
}

static void remove_folder(const char *folder) {
  char command[300];
  (void)snprintf(command, sizeof command, "rm -r '%s'", folder);
  if (system(command) != 0) die(folder);
}

/* From text to the first token behind an empty prompt, the checkpoint made
 * before. */
static double start_once(const session_t *s, const row_t *row,
                         const char *folder) {
  session_t own = *s;
  tdsl_error_t *error = NULL;
  model_t m;
  double start = job_now();
  if (tdsl_context_create(NULL, &own.context, &error)) job_fail(error);
  open_model(&m, &own, row, folder);
  m.position = 0;
  (void)step(&m);
  double seconds = job_now() - start;
  close_model(&m);
  tdsl_context_destroy(own.context);
  return seconds;
}

void model_start(session_t *s, const row_t *row, result_t *r) {
  static checkpoint_t checkpoint;
  char folder[80];
  double best = HUGE_VAL;
  int is_cached = row->k > 0, times = is_cached ? 4 : 3;
  make_folder(folder, sizeof folder);
  make_checkpoint(row, folder, &checkpoint);
  (void)setenv("TDSL_CACHE", is_cached ? "on" : "off", 1);
  for (int i = 0; i < times; i++) {
    double seconds = start_once(s, row, folder);
    if (seconds < best) best = seconds;
  }
  (void)setenv("TDSL_CACHE", "off", 1);
  remove_folder(folder);
  *r = (result_t){.row = row, .threads = s->threads, .samples = times,
                  .ours = best, .ceiling = row->work};
  r->share = row->work / best;
  r->is_met = best <= row->work;
}

void model_measure(session_t *s, const row_t *row, result_t *r) {
  static checkpoint_t checkpoint;
  char folder[80], task[96];
  contender_t all[CONTENDER_MOST];
  row_t with_work = *row;
  model_t m;
  int count = 1;
  make_folder(folder, sizeof folder);
  make_checkpoint(row, folder, &checkpoint);
  with_work.work = work_of(row, &checkpoint);
  open_model(&m, s, row, folder);
  all[0] = (contender_t){"tdsl", run_model, &m};
  (void)step(&m);
  (void)snprintf(task, sizeof task, "model %s %s %d", row->file, row->dtype,
                 row->m);
  for (int i = 0; i < SERVER_MOST; i++) {
    server_t *peer = &s->servers[i];
    if (!server_open(peer, 1, folder, task)) continue;
    if (!is_decode(row)) compare(&m, folder, peer);
    all[count++] = (contender_t){peer->name, run_peer, peer};
  }
  contend(s, &with_work, all, count, r);
  r->row = row; /* the other one ends here */
  for (int i = 0; i < SERVER_MOST; i++) server_close(&s->servers[i]);
  close_model(&m);
  remove_folder(folder);
}
