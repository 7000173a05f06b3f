/* job.c: one program of the matrix with operands for all of its slots. */
#define _GNU_SOURCE
#include "bench/matrix/matrix.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

double job_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

tdsl_string_t job_text(const char *s) {
  return (tdsl_string_t){s, strlen(s)};
}

void job_fail(tdsl_error_t *error) {
  tdsl_string_t m = tdsl_error_get_message(error);
  (void)fprintf(stderr, "bench_matrix: %.*s\n", (int)m.length, m.data);
  for (uint32_t i = 0; i < tdsl_error_get_diagnostic_count(error); i++) {
    const tdsl_diagnostic_t *d = tdsl_error_get_diagnostic(error, i);
    (void)fprintf(stderr, "%.*s\n", (int)d->rendered.length,
                  d->rendered.data);
  }
  exit(1);
}

/* ---- operands ------------------------------------------------------------ */

/* Large pages where there are any: whoever reads it, the table of pages is
 * not what is measured. */
static void *memory_of(size_t bytes) {
  enum { PAGE = 2 << 20 };
  size_t unit = bytes >= PAGE ? PAGE : 64;
  size_t room = (bytes + unit - 1) / unit * unit;
  void *data = aligned_alloc(unit, room);
  if (data == NULL) exit(1);
  if (unit == PAGE) (void)madvise(data, room, MADV_HUGEPAGE);
  return data;
}

/* Labels below `most`, floats around 0, halves between 0.5 and 1. */
static void *fill(tdsl_dtype_t dtype, size_t count, size_t bytes, int seed,
                  int most) {
  unsigned char *data = memory_of(bytes);
  for (size_t i = 0; i < count; i++) {
    uint32_t h = (uint32_t)(i + (size_t)seed * 977) * 2654435761u;
    float f = (float)(h >> 8 & 0xffff) / 65536 - 0.5f;
    switch (dtype) {
      case TDSL_DTYPE_F32: ((float *)(void *)data)[i] = f; break;
      case TDSL_DTYPE_I32:
        ((int32_t *)(void *)data)[i] =
            (int32_t)((uint64_t)h * (uint64_t)most >> 32);
        break;
      case TDSL_DTYPE_I8: data[i] = (unsigned char)(h >> 12 & 15); break;
      case TDSL_DTYPE_U8: data[i] = (unsigned char)(h >> 12); break;
      default:
        ((uint16_t *)(void *)data)[i] = (uint16_t)(0x3800 | (h >> 12 & 1023));
    }
  }
  return data;
}

static const char *type_in_file(tdsl_dtype_t dtype) {
  switch (dtype) {
    case TDSL_DTYPE_I8: return "I8";
    case TDSL_DTYPE_U8: return "U8";
    case TDSL_DTYPE_F16: return "F16";
    default: return "F32";
  }
}

static int put_tensor(char *head, size_t n, size_t room,
                      const tdsl_slot_t *slot, size_t from, size_t to) {
  const char *field = strrchr(slot->name.data, '.');
  size_t begin = n;
  n += (size_t)snprintf(
      head + n, room - n, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[",
      n > 1 ? "," : "", field != NULL ? field + 1 : slot->name.data,
      type_in_file(slot->dtype));
  for (uint32_t d = 0; d < slot->rank; d++) {
    n += (size_t)snprintf(head + n, room - n, d > 0 ? ",%lld" : "%lld",
                          (long long)slot->dim_value[d]);
  }
  n += (size_t)snprintf(head + n, room - n, "],\"data_offsets\":[%zu,%zu]}",
                        from, to);
  return (int)(n - begin);
}

/* Weights go the way of a checkpoint: a file of tensors, named as the fields
 * are, which is bound once and does not change. */
static void bind_weights(const tdsl_entry_t *entry, const job_t *j) {
  char path[] = "/tmp/bench_matrix_XXXXXX.safetensors", head[1024] = "{";
  tdsl_error_t *error = NULL;
  size_t n = 1, at = 0;
  for (uint32_t s = 0; s < entry->slot_count; s++) {
    if (!entry->slots[s].is_weight) continue;
    n += (size_t)put_tensor(head, n, sizeof head, &entry->slots[s], at,
                            at + j->bytes[s]);
    at += j->bytes[s];
  }
  if (n == 1) return;
  n += (size_t)snprintf(head + n, sizeof head - n, "}");
  while (n % 8 != 0) head[n++] = ' ';
  int file = mkstemps(path, (int)strlen(".safetensors"));
  FILE *out = file < 0 ? NULL : fdopen(file, "wb");
  uint64_t length = n;
  int ok = out != NULL && fwrite(&length, sizeof length, 1, out) == 1 &&
           fwrite(head, n, 1, out) == 1;
  for (uint32_t s = 0; s < entry->slot_count && ok; s++) {
    if (!entry->slots[s].is_weight) continue;
    ok = fwrite(j->data[s][0], j->bytes[s], 1, out) == 1;
  }
  if (out == NULL || fclose(out) != 0 || !ok) {
    (void)fprintf(stderr, "bench_matrix: cannot write %s\n", path);
    exit(1);
  }
  if (tdsl_executable_bind_weights(j->exe, job_text(path), 1, 0, &error)) {
    job_fail(error);
  }
  (void)remove(path); /* it stays mapped */
}

/* ---- the program --------------------------------------------------------- */

static void open_slot(job_t *j, const tdsl_slot_t *slot, uint32_t s,
                      const row_t *row) {
  tdsl_error_t *error = NULL;
  tdsl_tensor_desc_t t = {slot->dtype, slot->rank, {0}};
  size_t count = 1;
  for (uint32_t d = 0; d < slot->rank; d++) {
    t.dims[d] = slot->dim_value[d];
    count *= (size_t)t.dims[d];
  }
  size_t bytes = j->bytes[s] = count * tdsl_dtype_get_bytes(slot->dtype);
  int sets = (row->rotating >> s & 1) != 0 ? row->sets : 1;
  for (int i = 0; i < sets; i++) {
    j->data[s][i] = fill(slot->dtype, count, bytes, (int)s * 7 + i, row->n);
    if (slot->is_weight) continue;
    if (tdsl_buffer_wrap(j->context, &t, j->data[s][i], bytes,
                         &j->buffers[s][i], &error)) {
      job_fail(error);
    }
    if (i == 0 &&
        tdsl_run_set_buffer(j->run, s, j->buffers[s][i], &error)) {
      job_fail(error);
    }
  }
}

void job_open(tdsl_context_t *context, const row_t *row, job_t *j) {
  tdsl_error_t *error = NULL;
  tdsl_compile_desc_t desc = TDSL_COMPILE_DESC_INIT;
  memset(j, 0, sizeof *j);
  j->context = context;
  desc.file = job_text("bench.tdsl");
  desc.text = job_text(row->source);
  desc.device = job_text("cpu");
  if (tdsl_program_compile(context, &desc, &j->program, &error)) {
    job_fail(error);
  }
  const tdsl_entry_t *entry = tdsl_program_get_entry(j->program, 0);
  if (tdsl_executable_create(j->program, entry, &j->exe, &error)) {
    job_fail(error);
  }
  if (tdsl_run_create(j->exe, &j->run, &error)) job_fail(error);
  j->slot_count = entry->slot_count;
  j->rotating = row->rotating;
  j->set_count = row->sets;
  for (uint32_t s = 0; s < entry->slot_count && s < JOB_SLOTS; s++) {
    open_slot(j, &entry->slots[s], s, row);
  }
  bind_weights(entry, j);
}

void job_close(job_t *j) {
  tdsl_run_destroy(j->run);
  tdsl_executable_release(j->exe);
  tdsl_program_release(j->program);
  for (int s = 0; s < JOB_SLOTS; s++) {
    for (int i = 0; i < JOB_SETS; i++) {
      tdsl_buffer_release(j->buffers[s][i]);
      free(j->data[s][i]);
    }
  }
}

double job_run(job_t *j) {
  tdsl_error_t *error = NULL;
  if (j->set_count > 1) {
    j->next_set = (j->next_set + 1) % j->set_count;
    for (uint32_t s = 0; s < j->slot_count; s++) {
      if ((j->rotating >> s & 1) == 0) continue;
      if (tdsl_run_set_buffer(j->run, s, j->buffers[s][j->next_set],
                              &error)) {
        job_fail(error);
      }
    }
  }
  double start = job_now();
  if (tdsl_run_execute(j->run, &error)) job_fail(error);
  return job_now() - start;
}

void job_write(const job_t *j, const char *folder) {
  for (uint32_t s = 0; s + 1 < j->slot_count; s++) {
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%u.bin", folder, s);
    FILE *f = fopen(path, "wb");
    if (f == NULL || fwrite(j->data[s][0], j->bytes[s], 1, f) != 1 ||
        fclose(f) != 0) {
      (void)fprintf(stderr, "bench_matrix: cannot write %s\n", path);
      exit(1);
    }
  }
}

const float *job_result(const job_t *j, size_t *count) {
  *count = j->bytes[j->slot_count - 1] / sizeof(float);
  return j->data[j->slot_count - 1][0];
}
