/* digits.c -- reads handwritten digits with the net of digits.tdsl.

   An example of embedding: compile a program at run time, bind a checkpoint,
   hand over inputs, run, read results. It uses the public header alone.

     example_digits [--dir FOLDER] [--device NAME] [--checks none|entry|all]
                    [--plan serial|free] [--images N] [--repeat N]

   FOLDER holds the files of this example (default: the current one). Exit
   code 0: at least 97 % of the held-out images were read right; 1: fewer, or
   something failed; 2: usage. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tdsl/tdsl.h>

enum { SIDE = 8, PIXELS = SIDE * SIDE, SHOWN = 8, A_ROW = 4 };

typedef struct options_t {
  const char *dir;
  const char *device;
  tdsl_checks_t checks;
  uint32_t plan_free; /* as in tdsl_compile_desc_t */
  long images;        /* how many; 0: all */
  long repeat;
} options_t;

/* Everything that must be given back, in the order of its making. */
typedef struct job_t {
  tdsl_context_t *context;
  tdsl_program_t *program;
  tdsl_executable_t *exe;
  tdsl_run_t *run;
  tdsl_buffer_t *images, *batch, *labels;
  tdsl_error_t *error;
} job_t;

static tdsl_string_t text(const char *s) {
  return (tdsl_string_t){s, strlen(s)};
}

/* FOLDER/NAME in a buffer of the caller; empty if it does not fit. */
static tdsl_string_t path(char *to, size_t size, const char *dir,
                          const char *name) {
  int n = snprintf(to, size, "%s/%s", dir, name);
  if (n < 0 || (size_t)n >= size) to[0] = '\0';
  return text(to);
}

/* Prints what went wrong: the drawn diagnostics of a program that does not
   compile, the message of anything else. */
static int failed(const job_t *job, tdsl_status_t status) {
  const tdsl_error_t *error = job->error;
  uint32_t count = 0;
  tdsl_string_t s = tdsl_status_get_name(status);

  if (status == TDSL_STATUS_OK) return 0;
  if (error) {
    count = tdsl_error_get_diagnostic_count(error);
    s = tdsl_error_get_message(error);
  }
  fprintf(stderr, "digits: %.*s\n", (int)s.length, s.data);
  for (uint32_t i = 0; i < count; i++) {
    s = tdsl_error_get_diagnostic(error, i)->rendered;
    fprintf(stderr, "%.*s\n", (int)s.length, s.data);
  }
  return 1;
}

static uint32_t slot_of(const tdsl_entry_t *entry, const char *name) {
  uint32_t i = 0;
  for (; i < entry->slot_count; i++) {
    tdsl_string_t s = entry->slots[i].name;
    if (s.length == strlen(name) && !memcmp(s.data, name, s.length)) break;
  }
  return i; /* slot_count if there is none, which the library refuses */
}

/* Element i of a tensor of floats: the device interp:f64 computes f32
   results in f64 and hands them out so. */
static double number(tdsl_buffer_t *buffer, long i) {
  size_t width = tdsl_dtype_get_bytes(tdsl_buffer_get_desc(buffer)->dtype);
  const char *data = tdsl_buffer_get_data(buffer);
  float narrow;
  double wide;

  if (i < 0 || (size_t)i >= tdsl_buffer_get_bytes(buffer) / width) return 0;
  if (width == sizeof wide) {
    memcpy(&wide, data + (size_t)i * width, sizeof wide);
    return wide;
  }
  memcpy(&narrow, data + (size_t)i * width, sizeof narrow);
  return (double)narrow;
}

/* Draws images side by side, two characters a pixel, with a line of text
   below each. */
static void draw(const uint8_t *pixels, const int32_t *labels,
                 const int32_t *digits, tdsl_buffer_t *p, const long *which,
                 long count) {
  static const char ink[] = " .:-=+*#%@";
  for (int row = 0; row < SIDE; row++) {
    for (long k = 0; k < count; k++) {
      const uint8_t *line = pixels + which[k] * PIXELS + row * SIDE;
      for (int col = 0; col < SIDE; col++) {
        int v = line[col] > 16 ? 16 : line[col];
        char c = ink[v * 9 / 16];
        printf("%c%c", c, c);
      }
      if (k + 1 < count) printf("  ");
    }
    printf("\n");
  }
  for (long k = 0; k < count; k++) {
    int32_t d = digits[which[k]], is = labels[which[k]];
    char line[64];
    int n = snprintf(line, sizeof line, "%d (%.0f%%)", (int)d,
                     100 * number(p, which[k] * 10 + d));
    if (d != is)
      snprintf(line + n, sizeof line - (size_t)n, ", not %d", (int)is);
    printf("%-*s", k + 1 < count ? 2 * SIDE + 2 : 0, line);
  }
  printf("\n\n");
}

/* Shows the first images and those that were read wrongly, counts, and says
   whether the net is as good as it should be. */
static int report(const job_t *job, const tdsl_entry_t *entry,
                  const options_t *o, long count, double seconds) {
  tdsl_buffer_t *digit = tdsl_run_get_buffer(job->run, slot_of(entry, "digit"));
  tdsl_buffer_t *p = tdsl_run_get_buffer(job->run, slot_of(entry, "p"));
  const uint8_t *x = tdsl_buffer_get_data(job->images);
  const int32_t *want = tdsl_buffer_get_data(job->labels);
  const int32_t *got;
  long shown[SHOWN], wrong[SHOWN], right = 0, n_shown = 0, n_wrong = 0;

  if (!digit || !p) {
    fprintf(stderr, "digits: the run left no results\n");
    return 1;
  }
  got = tdsl_buffer_get_data(digit);
  for (long n = 0; n < count; n++) {
    if (n_shown < SHOWN) shown[n_shown++] = n;
    if (got[n] == want[n]) right++;
    else if (n_wrong < SHOWN)
      wrong[n_wrong++] = n;
  }
  for (long k = 0; k < n_shown; k += A_ROW)
    draw(x, want, got, p, shown + k, n_shown - k < A_ROW ? n_shown - k : A_ROW);
  if (n_wrong > 0) printf("Read wrongly:\n\n");
  for (long k = 0; k < n_wrong; k += A_ROW)
    draw(x, want, got, p, wrong + k, n_wrong - k < A_ROW ? n_wrong - k : A_ROW);

  printf("digits: %ld of %ld held-out images right, %.1f %% (wanted: 97 %%);"
         " %s, %.2f ms\n",
         right, count, 100.0 * (double)right / (double)count, o->device,
         1000 * seconds);
  return right * 100 >= count * 97 ? 0 : 1;
}

/* From text to something that can run: program, weights, run state. */
static int prepare(job_t *job, const options_t *o,
                   const tdsl_entry_t **out_entry) {
  char file[4096], weights[4096];
  tdsl_compile_desc_t desc = TDSL_COMPILE_DESC_INIT;

  if (failed(job, tdsl_context_create(NULL, &job->context, &job->error)))
    return 1;
  desc.file = path(file, sizeof file, o->dir, "digits.tdsl");
  desc.weights = path(weights, sizeof weights, o->dir, "digits.safetensors");
  desc.device = text(o->device);
  desc.checks = o->checks;
  desc.plan_free = o->plan_free;
  if (failed(job, tdsl_program_compile(job->context, &desc, &job->program,
                                       &job->error)))
    return 1;
  *out_entry = tdsl_program_find_entry(job->program, text("classify"));
  if (!*out_entry) {
    fprintf(stderr, "digits: digits.tdsl has no entry point 'classify'\n");
    return 1;
  }
  if (failed(job, tdsl_executable_create(job->program, *out_entry, &job->exe,
                                         &job->error)))
    return 1;
  if (failed(job, tdsl_executable_bind_weights(job->exe, desc.weights, 1, 0,
                                               &job->error)))
    return 1;
  return failed(job, tdsl_run_create(job->exe, &job->run, &job->error));
}

/* Loads images and labels; job->batch is a view of the first `images`. */
static int load(job_t *job, const options_t *o, long *out_count) {
  char file[4096];
  tdsl_tensor_desc_t desc;
  size_t bytes;

  if (failed(job,
             tdsl_buffer_load_npy(job->context,
                                  path(file, sizeof file, o->dir, "images.npy"),
                                  TDSL_DTYPE_U8, &job->images, &job->error)) ||
      failed(job,
             tdsl_buffer_load_npy(job->context,
                                  path(file, sizeof file, o->dir, "labels.npy"),
                                  TDSL_DTYPE_I32, &job->labels, &job->error)))
    return 1;
  desc = *tdsl_buffer_get_desc(job->images);
  if (desc.rank != 3 || desc.dims[1] != SIDE || desc.dims[2] != SIDE ||
      desc.dims[0] < 1 || tdsl_buffer_get_desc(job->labels)->rank != 1 ||
      tdsl_buffer_get_desc(job->labels)->dims[0] != desc.dims[0]) {
    fprintf(stderr, "digits: images.npy and labels.npy do not fit\n");
    return 1;
  }
  if (o->images > 0 && o->images < desc.dims[0]) desc.dims[0] = o->images;
  bytes = (size_t)desc.dims[0] * PIXELS;
  *out_count = (long)desc.dims[0];
  return failed(job, tdsl_buffer_wrap(job->context, &desc,
                                      tdsl_buffer_get_data(job->images), bytes,
                                      &job->batch, &job->error));
}

static int work(job_t *job, const options_t *o) {
  const tdsl_entry_t *entry = NULL;
  tdsl_run_stats_t stats = {.struct_bytes = sizeof stats};
  double best = 0;
  long count = 0;

  if (prepare(job, o, &entry) || load(job, o, &count)) return 1;
  if (failed(job, tdsl_run_set_buffer(job->run, slot_of(entry, "x"), job->batch,
                                      &job->error)))
    return 1;
  for (long i = 0; i < o->repeat; i++) {
    if (failed(job, tdsl_run_execute(job->run, &job->error)) ||
        failed(job, tdsl_run_get_stats(job->run, &stats)))
      return 1;
    if (i == 0 || stats.seconds < best) best = stats.seconds;
  }
  return report(job, entry, o, count, best);
}

static int usage(const char *about) {
  fprintf(stderr,
          "digits: %s\nusage: example_digits [--dir FOLDER] [--device NAME] "
          "[--checks none|entry|all]\n       [--plan serial|free] "
          "[--images N] [--repeat N]\n",
          about);
  return 2;
}

static int set_option(options_t *o, const char *name, const char *value) {
  long number = strtol(value, NULL, 10);
  if (!strcmp(name, "--dir")) o->dir = value;
  else if (!strcmp(name, "--device"))
    o->device = value;
  else if (!strcmp(name, "--images") && number > 0)
    o->images = number;
  else if (!strcmp(name, "--repeat") && number > 0)
    o->repeat = number;
  else if (!strcmp(name, "--plan") && !strcmp(value, "free"))
    o->plan_free = 1;
  else if (!strcmp(name, "--plan") && !strcmp(value, "serial"))
    o->plan_free = 2;
  else if (!strcmp(name, "--checks") && !strcmp(value, "none"))
    o->checks = TDSL_CHECKS_NONE;
  else if (!strcmp(name, "--checks") && !strcmp(value, "entry"))
    o->checks = TDSL_CHECKS_ENTRY;
  else if (!strcmp(name, "--checks") && !strcmp(value, "all"))
    o->checks = TDSL_CHECKS_ALL;
  else
    return 0;
  return 1;
}

int main(int argc, char **argv) {
  options_t o = {.dir = ".", .device = "cpu", .repeat = 1};
  job_t job = {0};
  int code;

  for (int i = 1; i < argc; i++) {
    /* --name=value and --name value */
    char name[32];
    char *equals = strchr(argv[i], '=');
    size_t length = equals ? (size_t)(equals - argv[i]) : strlen(argv[i]);
    const char *value = equals ? equals + 1 : i + 1 < argc ? argv[i + 1] : "";
    if (length >= sizeof name) return usage(argv[i]);
    memcpy(name, argv[i], length);
    name[length] = '\0';
    if (!set_option(&o, name, value)) return usage(argv[i]);
    if (!equals) i++;
  }
  code = work(&job, &o);
  tdsl_error_release(job.error);
  tdsl_run_destroy(job.run);
  tdsl_buffer_release(job.batch);
  tdsl_buffer_release(job.images);
  tdsl_buffer_release(job.labels);
  tdsl_executable_release(job.exe);
  tdsl_program_release(job.program);
  tdsl_context_destroy(job.context);
  return code;
}
