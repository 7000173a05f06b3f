/* cuda_nvrtc.c: see cuda_nvrtc.h.
 *
 * Flags are few and fixed: the text defines the arithmetic, so products and
 * sums are not contracted and nothing is approximated behind its back.  The
 * log of a success is kept too: for text that we wrote it has to be empty. */
#include "runtime/cuda/cuda_nvrtc.h"

#include "runtime/hal/bind.h"

enum { MOST_ARCHS = 64, MOST_NOTES = 12, MOST_OPTIONS = 8 };
/* what NVRTC returns */
enum { OUT_OF_MEMORY = 1, COMPILATION = 6, BUILTINS = 7 };

/* ---- architectures ------------------------------------------------------- */

/* "sm_90a" -> 90 */
static int number_of(const char *arch) {
  int n = 0;
  for (const char *at = arch; *at != '\0'; at++) {
    if (*at >= '0' && *at <= '9') n = n * 10 + (*at - '0');
  }
  return n;
}

/* `want`, or the newest architecture known that is not newer. */
static const char *pick_arch(td_arena_t *arena, const rcuda_nvrtc_t *nvrtc,
                             const char *want) {
  int count = 0, list[MOST_ARCHS] = {0}, best = 0, n = number_of(want);
  if (nvrtc->arch_count(&count) != 0 || count < 1 || count > MOST_ARCHS ||
      nvrtc->archs(list) != 0) {
    return want;
  }
  for (int i = 0; i < count; i++) {
    if (list[i] == n) return want;
    if (list[i] < n && list[i] > best) best = list[i];
  }
  return best == 0 ? want : td_arena_printf(arena, "sm_%d", best);
}

/* All but the architecture. */
static int list_options(const rcuda_source_t *source,
                        const char *out[MOST_OPTIONS]) {
  int n = 0;
  out[n++] = "-std=c++17";
  out[n++] = "--fmad=false";
  if (source->has_lines) out[n++] = "-lineinfo";
  return n;
}

/* The version, and the name of the file: updates of one version differ in
 * it. */
void rcuda_code_fields(td_arena_t *arena, const rcuda_nvrtc_t *nvrtc,
                       const rcuda_source_t *source,
                       hal_field_t out[RCUDA_CODE_FIELDS]) {
  const char *list[MOST_OPTIONS];
  int major = 0, minor = 0, count = list_options(source, list);
  void *at = NULL;
  memcpy(&at, &nvrtc->version, sizeof at);
  const char *file = rcuda_library_file(arena, at, nvrtc->path);
  const char *slash = strrchr(file, '/');
  if (nvrtc->version(&major, &minor) != 0) major = minor = 0;
  out[0] = (hal_field_t){
      "nvrtc", td_str(td_arena_printf(arena, "%d.%d %s", major, minor,
                                      slash != NULL ? slash + 1 : file))};
  out[1] =
      (hal_field_t){"arch", td_str(pick_arch(arena, nvrtc, source->arch))};
  const char *text = "";
  for (int i = 0; i < count; i++) {
    text = td_arena_printf(arena, "%s%s%s", text, i > 0 ? " " : "", list[i]);
  }
  out[2] = (hal_field_t){"options", td_str(text)};
}

/* ---- the log ------------------------------------------------------------- */

/* The file and line in "/tdsl/llama.tdsl(12): error: ...". */
static td_loc_t place_of(const rcuda_source_t *source, td_str_t line) {
  static const char root[] = "/tdsl/";
  td_loc_t none = {0};
  size_t start = sizeof root - 1, end = start;
  if (source->plan == NULL || !td_str_starts(line, root)) return none;
  while (end < line.length && line.data[end] != '(') end++;
  td_str_t name = td_str_n(line.data + start, end - start);
  uint32_t number = 0;
  for (size_t i = end + 1; i < line.length && line.data[i] != ')'; i++) {
    if (line.data[i] < '0' || line.data[i] > '9' || number > 1u << 24) {
      return none;
    }
    number = number * 10 + (uint32_t)(line.data[i] - '0');
  }
  for (uint32_t f = 0; f < source->plan->file_count; f++) {
    td_str_t path = td_str(source->plan->files[f]);
    if (path.length >= name.length && name.length > 0 &&
        memcmp(path.data + path.length - name.length, name.data,
               name.length) == 0) {
      td_loc_t loc = {.file = f + 1, .line = number, .column = 1,
                      .end_line = number, .end_column = 1};
      return loc;
    }
  }
  return none;
}

static td_str_t next_line(const char **at) {
  const char *end = strchr(*at, '\n');
  size_t n = end != NULL ? (size_t)(end - *at) : strlen(*at);
  td_str_t line = td_str_n(*at, n);
  *at += n + (end != NULL);
  return line;
}

/* The first line that says what is wrong, else the first one. */
static td_str_t main_line(const char *log) {
  td_str_t first = {0};
  for (const char *at = log; *at != '\0';) {
    td_str_t line = next_line(&at);
    if (line.length > 0 && first.length == 0) first = line;
    for (size_t i = 0; i + 7 <= line.length; i++) {
      if (memcmp(line.data + i, "error: ", 7) == 0) return line;
    }
  }
  return first;
}

/* Text that does not compile is our fault: told at the line that it was made
 * of, and an internal error, for which the caller keeps what a report needs.
 * Whatever else NVRTC says is about itself. */
static void report(td_task_t *task, const rcuda_nvrtc_t *nvrtc,
                   const rcuda_source_t *source, int code, const char *log) {
  td_loc_t loc = {0};
  for (const char *at = log; *at != '\0' && loc.line == 0;) {
    loc = place_of(source, next_line(&at));
  }
  if (loc.line > 0) loc = hal_locate(task, source->plan, loc);
  if (code == OUT_OF_MEMORY) {
    td_raise(task, TDSL_STATUS_OUT_OF_MEMORY, "no memory for NVRTC");
  }
  td_diag_t *d =
      td_diag(task, TD_B06, loc, "NVRTC refuses module %s for %s: %s (%d)",
              source->name, source->arch, nvrtc->error_text(code), code);
  if (code == COMPILATION) {
    td_str_t line = main_line(log);
    TD_ICE(task, "NVRTC refuses module %s: %.*s", source->name,
           TD_STR_ARG(line));
  }
  if (code == BUILTINS) {
    td_diag_note(d, "libnvrtc-builtins, which belongs to %s, was not loaded",
                 nvrtc->path);
    td_diag_help(d, "install all of NVRTC, or add its folder to "
                    "LD_LIBRARY_PATH");
  }
  uint32_t notes = 0;
  for (const char *at = log; *at != '\0' && notes < MOST_NOTES;) {
    td_str_t line = next_line(&at);
    if (line.length == 0) continue;
    td_diag_note(d, "%.*s", TD_STR_ARG(line));
    notes++;
  }
}

/* ---- compiling ----------------------------------------------------------- */

typedef struct job {
  const rcuda_nvrtc_t *nvrtc;
  rcuda_program_t *program;
} job_t;

static void drop_program(void *arg) {
  job_t *j = arg;
  if (j->program != NULL) (void)j->nvrtc->destroy(&j->program);
}

static const char *read_log(td_arena_t *arena, job_t *j) {
  size_t bytes = 0;
  if (j->nvrtc->log_bytes(j->program, &bytes) != 0 || bytes <= 1) return "";
  char *log = td_arena_alloc(arena, bytes + 1);
  if (j->nvrtc->log(j->program, log) != 0) return "";
  return log;
}

static int read_code(td_arena_t *arena, job_t *j, rcuda_code_t *out) {
  int code = j->nvrtc->ptx_bytes(j->program, &out->ptx_bytes);
  if (code != 0) return code;
  char *ptx = td_arena_alloc(arena, out->ptx_bytes + 1);
  code = j->nvrtc->ptx(j->program, ptx);
  if (code != 0) return code;
  if (out->ptx_bytes > 0) out->ptx_bytes--; /* its NUL */
  out->ptx = ptx;
  code = j->nvrtc->cubin_bytes(j->program, &out->cubin_bytes);
  if (code != 0 || out->cubin_bytes == 0) return code;
  void *cubin = td_arena_alloc(arena, out->cubin_bytes);
  out->cubin = cubin;
  return j->nvrtc->cubin(j->program, cubin);
}

bool rcuda_compile(td_task_t *task, td_arena_t *arena,
                   const rcuda_nvrtc_t *nvrtc, const rcuda_source_t *source,
                   rcuda_code_t *out) {
  job_t *j = TD_NEW(arena, job_t);
  memset(out, 0, sizeof *out);
  out->log = "";
  out->arch = pick_arch(arena, nvrtc, source->arch);
  j->nvrtc = nvrtc;
  const char *options[MOST_OPTIONS];
  int count = list_options(source, options);
  options[count++] = td_arena_printf(arena, "-arch=%s", out->arch);
  td_defer(task, drop_program, j);
  int code = nvrtc->create(&j->program, source->text, source->name, 0, NULL,
                           NULL);
  if (code == 0) {
    code = nvrtc->compile(j->program, count, options);
    out->log = read_log(arena, j);
    if (code == 0) code = read_code(arena, j, out);
  }
  td_undefer(task, true);
  if (code == 0) return true;
  report(task, nvrtc, source, code, out->log);
  return false;
}
