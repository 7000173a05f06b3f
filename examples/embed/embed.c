/* embed.c: tdsl inside a host program, from a text to a result.

   The shortest complete use of the public interface: a program held in
   memory is compiled for the CPU and called with the host's own arrays.
   Everything that can fail gives a status and, if asked, an error object;
   nothing prints, exits or keeps a pointer of the host after the call.

     example_embed            prints a table and checks it; exit code 0 or 1 */
#include <stdio.h>
#include <string.h>

#include <tdsl/tdsl.h>

/* A row of scores becomes a distribution, and state counts the calls. */
static const char program_text[] =
    "import softmax (softmax)\n"
    "dyn B <= 64\n"
    "export fn choose(x: f32[B, 4], temperature: f32 = 1.0, calls: inout i64)"
    " -> p: f32[B, 4] {\n"
    "  p[b, :] = softmax(x[b, :] / temperature)\n"
    "  calls := calls + 1\n"
    "}\n";

static tdsl_string_t text(const char *s) {
  return (tdsl_string_t){s, strlen(s)};
}

/* Objects in the order of their making; all may be NULL. */
typedef struct host_t {
  tdsl_context_t *context;
  tdsl_program_t *program;
  tdsl_executable_t *exe;
  tdsl_run_t *run;
  tdsl_buffer_t *x, *calls;
  tdsl_error_t *error;
} host_t;

/* Says what went wrong: the drawn diagnostics, or the message alone. */
static int failed(host_t *host, tdsl_status_t status) {
  if (status == TDSL_STATUS_OK) return 0;
  tdsl_string_t s = tdsl_error_get_message(host->error);
  fprintf(stderr, "embed: %.*s\n", (int)s.length, s.data);
  for (uint32_t i = 0; i < tdsl_error_get_diagnostic_count(host->error); i++) {
    s = tdsl_error_get_diagnostic(host->error, i)->rendered;
    fprintf(stderr, "%.*s", (int)s.length, s.data);
  }
  return 1;
}

/* Once for each program: compile, pick the entry point, load it. */
static int prepare(host_t *host) {
  tdsl_compile_desc_t desc = TDSL_COMPILE_DESC_INIT;
  desc.file = text("choose.tdsl"); /* a name for messages */
  desc.text = text(program_text);
  return failed(host, tdsl_context_create(NULL, &host->context,
                                          &host->error)) ||
         failed(host, tdsl_program_compile(host->context, &desc,
                                           &host->program, &host->error)) ||
         failed(host, tdsl_executable_create(
                          host->program,
                          tdsl_program_find_entry(host->program,
                                                  text("choose")),
                          &host->exe, &host->error)) ||
         failed(host, tdsl_run_create(host->exe, &host->run, &host->error));
}

/* Slots are the parameters in order, then the results: x, temperature,
   calls, p. The arrays stay the host's; the state is updated in place. */
static int bind(host_t *host, float *x, int64_t rows, int64_t *calls) {
  tdsl_tensor_desc_t rows_of_4 = {TDSL_DTYPE_F32, 2, {rows, 4}};
  tdsl_tensor_desc_t scalar = {TDSL_DTYPE_I64, 0, {0}};
  return failed(host, tdsl_buffer_wrap(host->context, &rows_of_4, x,
                                       (size_t)rows * 4 * sizeof *x, &host->x,
                                       &host->error)) ||
         failed(host, tdsl_buffer_wrap(host->context, &scalar, calls,
                                       sizeof *calls, &host->calls,
                                       &host->error)) ||
         failed(host, tdsl_run_set_buffer(host->run, 0, host->x,
                                          &host->error)) ||
         failed(host, tdsl_run_set_buffer(host->run, 2, host->calls,
                                          &host->error));
}

/* One call. The result is lent until the next one. */
static int call(host_t *host, double temperature, const float **out) {
  if (failed(host, tdsl_run_set_float(host->run, 1, temperature,
                                      &host->error)) ||
      failed(host, tdsl_run_execute(host->run, &host->error)))
    return 1;
  *out = tdsl_buffer_get_data(tdsl_run_get_buffer(host->run, 3));
  return 0;
}

static int check(const float *p, int rows) {
  int good = 1;
  for (int b = 0; b < rows; b++) {
    double sum = 0;
    for (int i = 0; i < 4; i++) {
      printf(" %.4f", (double)p[b * 4 + i]);
      sum += (double)p[b * 4 + i];
    }
    printf("\n");
    good = good && sum > 0.999 && sum < 1.001;
  }
  return good;
}

int main(void) {
  _Alignas(16) float x[2][4] = {{1, 2, 3, 4}, {0, 0, 0, 0}};
  _Alignas(16) int64_t calls = 0;
  const float *p = NULL;
  host_t host = {0};
  int good = 0;

  if (!prepare(&host) && !bind(&host, &x[0][0], 2, &calls) &&
      !call(&host, 1.0, &p)) {
    good = check(p, 2) && p[3] > 0.64f && p[3] < 0.65f && p[4] == 0.25f;
    good = !call(&host, 0.1, &p) && check(p, 2) && good && p[3] > 0.99f;
    printf("%lld calls\n", (long long)calls);
    good = good && calls == 2;
  }
  tdsl_error_release(host.error);
  tdsl_run_destroy(host.run);
  tdsl_buffer_release(host.x);
  tdsl_buffer_release(host.calls);
  tdsl_executable_release(host.exe);
  tdsl_program_release(host.program);
  tdsl_context_destroy(host.context);
  return good ? 0 : 1;
}
