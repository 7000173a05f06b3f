/* Any bytes as kernels.  What parses prints to a text that parses to the
 * same; what also verifies runs under all checks, where nothing it does may
 * leave its buffers; endless loops end when the host asks. */
#include "ir/kir.h"
#include "runtime/base/num.h"
#include "tests/fuzz/fuzz.h"

enum { ALL_DIMS = 3, MOST_ELEMENTS = 4096, MOST_POLLS = 20 };

static bool dim_value(void *user, const ix_symbol_t *s, int64_t *out) {
  (void)user;
  (void)s;
  *out = ALL_DIMS;
  return true;
}

/* Elements of a parameter, 0 if there are too many. */
static size_t count_of(const kir_buffer_t *b) {
  size_t count = 1;
  for (uint32_t d = 0; d < b->rank; d++) {
    int64_t n = 0;
    if (!ix_eval(b->dims[d], dim_value, NULL, &n)) return 0;
    if (n < 0) n = 0;
    if (n > MOST_ELEMENTS || count * (size_t)n > MOST_ELEMENTS) return 0;
    count *= (size_t)n;
  }
  return count + 1;
}

static void interpret(td_task_t *task, td_arena_t *arena,
                      const kir_kernel_t *k) {
  void **buffers = TD_NEW_ARRAY(arena, void *, k->param_count + 1u);
  int64_t *dims = TD_NEW_ARRAY(arena, int64_t, k->dim_count + 1u);
  for (uint32_t i = 0; i < k->param_count; i++) {
    size_t count = count_of(k->params[i]);
    if (count == 0) return;
    buffers[i] =
        td_arena_alloc(arena, count * td_dtype_bytes(k->params[i]->dtype));
  }
  for (uint32_t i = 0; i < k->dim_count; i++) dims[i] = ALL_DIMS;
  (void)kir_interpret(task, k, buffers, dims, true, false);
}

static void print_all(td_buf_t *out, kir_kernel_t *const *kernels) {
  for (; *kernels != NULL; kernels++) kir_print(out, *kernels);
}

static void work(td_task_t *task, void *arg) {
  const fuzz_input_t *in = arg;
  td_arena_t arena;
  td_arena_init(&arena, task);
  td_buf_t once, twice;
  td_buf_init(&once, task);
  td_buf_init(&twice, task);
  uint32_t file = td_sources_add(task, "in.kir", in->data, in->size);
  kir_kernel_t **kernels = kir_parse(task, &arena, file);
  fuzz_demand((kernels == NULL) == (td_task_errors(task) > 0),
              "silent failure");
  if (kernels == NULL) return;
  print_all(&once, kernels);
  uint32_t again = td_sources_add(task, "once.kir", once.data, once.length);
  kir_kernel_t **second = kir_parse(task, &arena, again);
  fuzz_demand(second != NULL, "what was printed does not parse");
  print_all(&twice, second);
  fuzz_demand(td_str_eq(td_buf_view(&once), td_buf_view(&twice)),
              "print, parse, print is not the identity");
  for (; *kernels != NULL; kernels++) {
    if (kir_verify(task, *kernels, "fuzz", true)) {
      interpret(task, &arena, *kernels);
    }
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_input_t in = {(const char *)data, size};
  fuzz_run(&(fuzz_job_t){.work = work, .arg = &in, .polls = MOST_POLLS});
  return 0;
}
