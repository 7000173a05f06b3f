/* cli.c: what the subcommands of tdslc share: context, messages, the
 * description of a compilation, output files. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "driver/options.h"

/* ---- progress ------------------------------------------------------------ */

double cli_now(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void cli_clear(cli_t *cli) {
  if (atomic_exchange(&cli->shown, 0) != 0) {
    (void)fputs("\r\033[K", stderr);
  }
}

/* The library asks here whether to go on, from any thread: a clock for
 * whoever watches, from the second second on. */
static int tick(void *user) {
  cli_t *cli = user;
  int seconds = (int)(cli_now() - cli->start);
  int shown = atomic_load(&cli->shown);
  if (seconds > shown &&
      atomic_compare_exchange_strong(&cli->shown, &shown, seconds)) {
    (void)fprintf(stderr, "\r%s: %d s ",
                  cli->operand_count > 0 ? cli->operands[0] : "tdslc",
                  seconds);
  }
  return 0;
}

/* ---- messages ------------------------------------------------------------ */

static void put_text(tdsl_string_t s) {
  (void)fwrite(s.data, 1, s.length, stderr);
}

static void show(const tdsl_diagnostic_t *d, void *user) {
  cli_t *cli = user;
  bool is_warning = d->severity == TDSL_SEVERITY_WARNING;
  if (is_warning) cli->warnings++;
  else cli->errors++;
  if (is_warning && cli->is_quiet) return;
  cli_clear(cli);
  (void)fflush(stdout);
  if (cli->as_json) {
    put_text(d->json);
    (void)fputc('\n', stderr);
  } else {
    put_text(cli->has_color ? d->rendered_color : d->rendered);
  }
}

static void show_log(tdsl_severity_t level, tdsl_string_t category,
                     tdsl_string_t text, void *user) {
  const cli_t *cli = user;
  /* what a knob asked for comes as debug lines */
  if (level == TDSL_SEVERITY_NOTE && !cli_has(cli, CLI_OPT_VERBOSE)) return;
  put_text(category);
  (void)fputs(": ", stderr);
  put_text(text);
  (void)fputc('\n', stderr);
}

int cli_open(cli_t *cli) {
  tdsl_context_desc_t desc = TDSL_CONTEXT_DESC_INIT;
  tdsl_error_t *error;
  desc.diagnostic = show;
  desc.diagnostic_user = cli;
  desc.log.function = show_log;
  desc.log.user = cli;
  const char *cache = cli_value(cli, CLI_OPT_CACHE);
  if (cache != NULL) {
    desc.cache = strcmp(cache, "on") == 0        ? TDSL_CACHE_ON
                 : strcmp(cache, "off") == 0     ? TDSL_CACHE_OFF
                 : strcmp(cache, "require") == 0 ? TDSL_CACHE_REQUIRE
                                                 : TDSL_CACHE_UNSET;
    if (desc.cache == TDSL_CACHE_UNSET) {
      return cli_usage(cli, "--cache is on, off or require, not '%s'", cache);
    }
  }
  if (cli->has_progress) {
    desc.cancel.function = tick;
    desc.cancel.user = cli;
  }
  return cli_end(cli, tdsl_context_create(&desc, &cli->context, &error),
                 &error);
}

static int code_of(tdsl_status_t status) {
  switch (status) {
    case TDSL_STATUS_OK: return CLI_OK;
    case TDSL_STATUS_INVALID_PROGRAM:
    case TDSL_STATUS_INVALID_ARGUMENT: return CLI_WRONG;
    case TDSL_STATUS_INVALID_FILE:
    case TDSL_STATUS_IO: return CLI_IO;
    case TDSL_STATUS_UNAVAILABLE: return CLI_MISSING;
    case TDSL_STATUS_OUT_OF_MEMORY:
    case TDSL_STATUS_LIMIT: return CLI_LIMIT;
    case TDSL_STATUS_CANCELLED: return CLI_INTERRUPTED;
    case TDSL_STATUS_INTERNAL:
    case TDSL_STATUS_FORCE32: break;
  }
  return CLI_INTERNAL;
}

/* Devices, stages and passes are words of the command line: one that does
 * not exist is a slip of the user's and no missing part. */
static bool names_nothing(tdsl_string_t id) {
  static const char *const ids[] = {"B03", "B11"};
  for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
    if (id.length == strlen(ids[i]) && memcmp(id.data, ids[i], id.length) == 0)
      return true;
  }
  return false;
}

/* The library keeps this many of one call. */
enum { CLI_MOST_ERRORS = 20 };

/* Diagnostics have been shown; a failure without any has its message. */
int cli_end(cli_t *cli, tdsl_status_t status, tdsl_error_t **error) {
  bool is_ours = status == TDSL_STATUS_INTERNAL;
  bool is_usage = false;
  uint32_t told = 0, count = tdsl_error_get_diagnostic_count(*error);
  for (uint32_t i = 0; i < count; i++) {
    const tdsl_diagnostic_t *d = tdsl_error_get_diagnostic(*error, i);
    if (d->severity != TDSL_SEVERITY_ERROR) continue;
    is_usage |= told == 0 && names_nothing(d->id);
    told++;
  }
  if (status != TDSL_STATUS_OK) cli_clear(cli);
  if (status != TDSL_STATUS_OK && (told == 0 || is_ours)) {
    tdsl_string_t text = tdsl_error_get_message(*error);
    if (text.length == 0) text = tdsl_status_get_name(status);
    cli->errors++;
    (void)fprintf(stderr, "tdslc: %.*s\n", (int)text.length, text.data);
  }
  if (told >= CLI_MOST_ERRORS) {
    (void)fprintf(stderr, "tdslc: there may be more; %d errors are shown\n",
                  CLI_MOST_ERRORS);
  }
  tdsl_string_t folder = tdsl_error_get_reproducer(*error);
  if (folder.length > 0) {
    (void)fprintf(stderr, "tdslc: this is a fault of the compiler; %.*s holds "
                          "what a report needs\n",
                  (int)folder.length, folder.data);
  }
  tdsl_error_release(*error);
  *error = NULL;
  return is_usage ? CLI_USAGE : code_of(status);
}

int cli_verdict(const cli_t *cli, int code) {
  bool fails = cli->warnings > 0 && cli_has(cli, CLI_OPT_WERROR);
  return code == CLI_OK && fails ? CLI_WRONG : code;
}

/* ---- the description of a compilation ------------------------------------ */

static bool parse_int(const char *text, int64_t *out) {
  char *end;
  errno = 0;
  long long v = strtoll(text, &end, 10);
  *out = v;
  return errno == 0 && end != text && *end == '\0';
}

/* NAME=INTEGER of `length` bytes. */
static bool parse_pair(const char *text, size_t length,
                       tdsl_dim_value_t *out) {
  char number[32];
  const char *equals = memchr(text, '=', length);
  if (equals == NULL || equals == text) return false;
  size_t rest = length - (size_t)(equals - text) - 1;
  if (rest == 0 || rest >= sizeof number) return false;
  memcpy(number, equals + 1, rest);
  number[rest] = '\0';
  out->name.data = text;
  out->name.length = (size_t)(equals - text);
  return parse_int(number, &out->value);
}

tdsl_dim_value_t *cli_dims(cli_t *cli, cli_option_t option,
                           const char *name) {
  int n = cli_count(cli, option);
  tdsl_dim_value_t *dims = calloc((size_t)n + 1, sizeof *dims);
  for (int i = 0; dims != NULL && i < n; i++) {
    const char *text = cli_each(cli, option, i);
    if (!parse_pair(text, strlen(text), &dims[i])) {
      cli_usage(cli, "%s is NAME=INTEGER, not '%s'", name, text);
      free(dims);
      return NULL;
    }
  }
  return dims;
}

static bool read_dims(cli_t *cli, tdsl_compile_desc_t *out) {
  out->dims = cli_dims(cli, CLI_OPT_DIM, "--dim");
  out->dim_count = (uint32_t)cli_count(cli, CLI_OPT_DIM);
  return out->dims != NULL;
}

/* none, or dp=2,tp=4 */
static bool read_mesh(cli_t *cli, tdsl_compile_desc_t *out) {
  const char *text = cli_value(cli, CLI_OPT_MESH);
  if (text == NULL) return true;
  if (strcmp(text, "none") == 0) {
    out->mesh_none = 1;
    return true;
  }
  tdsl_dim_value_t *axes = calloc(strlen(text) + 1, sizeof *axes);
  out->axes = axes;
  while (axes != NULL) {
    const char *comma = strchr(text, ',');
    size_t length = comma != NULL ? (size_t)(comma - text) : strlen(text);
    if (!parse_pair(text, length, &axes[out->axis_count])) {
      cli_usage(cli, "--mesh is none or AXIS=SIZE,..., not '%s'",
                cli_value(cli, CLI_OPT_MESH));
      return false;
    }
    out->axis_count++;
    if (comma == NULL) return true;
    text = comma + 1;
  }
  return false;
}

static bool read_choices(cli_t *cli, tdsl_compile_desc_t *out) {
  const char *checks = cli_value(cli, CLI_OPT_CHECKS);
  const char *plan = cli_value(cli, CLI_OPT_PLAN);
  if (checks != NULL) {
    out->checks = strcmp(checks, "none") == 0    ? TDSL_CHECKS_NONE
                  : strcmp(checks, "entry") == 0 ? TDSL_CHECKS_ENTRY
                  : strcmp(checks, "all") == 0   ? TDSL_CHECKS_ALL
                                                 : TDSL_CHECKS_UNSET;
    if (out->checks == TDSL_CHECKS_UNSET) {
      cli_usage(cli, "--checks is none, entry or all, not '%s'", checks);
      return false;
    }
  }
  if (plan != NULL) {
    out->plan_free = strcmp(plan, "free") == 0     ? 1
                     : strcmp(plan, "serial") == 0 ? 2
                                                   : 0;
    if (out->plan_free == 0) {
      cli_usage(cli, "--plan is serial or free, not '%s'", plan);
      return false;
    }
  }
  return true;
}

bool cli_desc(cli_t *cli, tdsl_compile_desc_t *out) {
  tdsl_compile_desc_t desc = TDSL_COMPILE_DESC_INIT;
  int n = cli_count(cli, CLI_OPT_LIB);
  tdsl_string_t *libraries = calloc((size_t)n + 1, sizeof *libraries);
  for (int i = 0; libraries != NULL && i < n; i++) {
    libraries[i] = cli_text(cli_each(cli, CLI_OPT_LIB, i));
  }
  desc.libraries = libraries;
  desc.library_count = (uint32_t)n;
  desc.device = cli_text(cli_value(cli, CLI_OPT_DEVICE));
  desc.entry = cli_text(cli_value(cli, CLI_OPT_ENTRY));
  desc.config_file = cli_text(cli_value(cli, CLI_OPT_CONFIG));
  desc.weights = cli_text(cli_value(cli, CLI_OPT_WEIGHTS));
  desc.disable_passes = cli_text(cli_value(cli, CLI_OPT_DISABLE));
  desc.tuning = cli_text(cli_value(cli, CLI_OPT_TUNING));
  desc.trace_dir = cli_text(cli_value(cli, CLI_OPT_TRACE));
  desc.stop_after = cli_text(cli_value(cli, CLI_OPT_STOP_AFTER));
  if (getenv("TDSL_REPRO_DIR") == NULL) {
    desc.reproducer_dir = cli_text("tdsl-reproducer");
  }
  bool ok = libraries != NULL && read_dims(cli, &desc) &&
            read_mesh(cli, &desc) && read_choices(cli, &desc);
  *out = desc;
  if (!ok) cli_desc_free(out);
  return ok;
}

void cli_desc_free(tdsl_compile_desc_t *desc) {
  free((void *)desc->libraries);
  free((void *)desc->dims);
  free((void *)desc->axes);
  desc->libraries = NULL;
  desc->dims = NULL;
  desc->axes = NULL;
}

/* ---- input -------------------------------------------------------------- */

static void append(cli_buffer_t *t, const char *data, size_t length) {
  if (t->length + length + 1 > t->capacity) {
    size_t capacity = (t->length + length + 1) * 2;
    char *grown = realloc(t->data, capacity);
    if (grown == NULL) {
      t->has_failed = true;
      return;
    }
    t->data = grown;
    t->capacity = capacity;
  }
  memcpy(t->data + t->length, data, length);
  t->length += length;
}

void cli_buffer_take(tdsl_string_t text, void *user) {
  if (text.length > 0) append(user, text.data, text.length);
}

bool cli_read_all(const char *path, cli_buffer_t *out) {
  char block[65536];
  bool is_stdin = strcmp(path, "-") == 0;
  FILE *file = is_stdin ? stdin : fopen(path, "rb");
  size_t n;
  if (file == NULL) return false;
  while ((n = fread(block, 1, sizeof block, file)) > 0) append(out, block, n);
  bool ok = ferror(file) == 0 && !out->has_failed;
  if (!is_stdin) (void)fclose(file);
  return ok;
}

/* Standard input can be read once only, and a program is read twice. */
bool cli_source(const char *path, tdsl_compile_desc_t *desc,
                cli_buffer_t *out) {
  desc->file = cli_text(path);
  desc->text.data = NULL;
  if (strcmp(path, "-") != 0) return true;
  if (!cli_read_all(path, out)) {
    (void)fprintf(stderr, "tdslc: standard input cannot be read\n");
    return false;
  }
  desc->file = cli_text("<stdin>");
  desc->text.data = out->data != NULL ? out->data : "";
  desc->text.length = out->length;
  return true;
}

/* ---- output -------------------------------------------------------------- */

void cli_put(tdsl_string_t text, void *user) {
  if (text.length > 0) (void)fwrite(text.data, 1, text.length, user);
}

/* Into a file beside the target, so that readers see the old one or the new
 * one. */
bool cli_sink_open(cli_t *cli, cli_sink_t *sink, const char *path) {
  memset(sink, 0, sizeof *sink);
  sink->file = stdout;
  (void)cli;
  if (path == NULL || strcmp(path, "-") == 0) return true;
  size_t n = strlen(path);
  sink->path = malloc(n + 1);
  sink->temporary = malloc(n + 24);
  if (sink->path == NULL || sink->temporary == NULL) return false;
  memcpy(sink->path, path, n + 1);
  (void)snprintf(sink->temporary, n + 24, "%s.%ld.tmp", path, (long)getpid());
  sink->file = fopen(sink->temporary, "wb");
  if (sink->file == NULL) {
    (void)fprintf(stderr, "tdslc: %s cannot be written\n", path);
    free(sink->path);
    free(sink->temporary);
    return false;
  }
  return true;
}

int cli_sink_close(cli_t *cli, cli_sink_t *sink, bool keep) {
  int code = CLI_OK;
  (void)cli;
  if (sink->path == NULL) return code;
  bool ok = ferror(sink->file) == 0;
  ok = fclose(sink->file) == 0 && ok;
  if (!keep) {
    (void)remove(sink->temporary);
  } else if (!ok || rename(sink->temporary, sink->path) != 0) {
    (void)remove(sink->temporary);
    (void)fprintf(stderr, "tdslc: %s cannot be written\n", sink->path);
    code = CLI_IO;
  }
  free(sink->path);
  free(sink->temporary);
  return code;
}
