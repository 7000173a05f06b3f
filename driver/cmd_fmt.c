/* cmd_fmt.c: tdslc fmt FILE */
#include <stdlib.h>
#include <string.h>

#include "driver/options.h"

typedef struct text {
  char *data;
  size_t length, capacity;
  bool failed;
} text_t;

static void append(text_t *t, const char *data, size_t length) {
  if (t->length + length + 1 > t->capacity) {
    size_t capacity = (t->length + length + 1) * 2;
    char *grown = realloc(t->data, capacity);
    if (grown == NULL) {
      t->failed = true;
      return;
    }
    t->data = grown;
    t->capacity = capacity;
  }
  memcpy(t->data + t->length, data, length);
  t->length += length;
}

static void take(tdsl_string_t text, void *user) {
  append(user, text.data, text.length);
}

static bool read_all(const char *path, text_t *out) {
  char block[65536];
  bool is_stdin = strcmp(path, "-") == 0;
  FILE *file = is_stdin ? stdin : fopen(path, "rb");
  size_t n;
  if (file == NULL) return false;
  while ((n = fread(block, 1, sizeof block, file)) > 0) append(out, block, n);
  bool ok = ferror(file) == 0 && !out->failed;
  if (!is_stdin) (void)fclose(file);
  return ok;
}

static int format(cli_t *cli, const char *path, const text_t *in) {
  tdsl_error_t *error;
  text_t out = {0};
  bool is_stdin = strcmp(path, "-") == 0;
  tdsl_string_t source = {in->data != NULL ? in->data : "", in->length};
  tdsl_status_t status =
      tdsl_source_format(cli->context, cli_text(is_stdin ? "<stdin>" : path),
                         source, take, &out, &error);
  int code = cli_end(cli, status, &error);
  bool same = out.length == in->length &&
              (out.length == 0 || memcmp(out.data, in->data, out.length) == 0);
  if (code == CLI_OK && cli_has(cli, CLI_OPT_FMT_CHECK)) {
    if (!same) (void)printf("%s\n", path);
    code = same ? CLI_OK : CLI_WRONG;
  } else if (code == CLI_OK) {
    cli_sink_t sink;
    if (!cli_sink_open(cli, &sink, cli_value(cli, CLI_OPT_OUTPUT))) {
      code = CLI_IO;
    } else {
      if (out.length > 0) (void)fwrite(out.data, 1, out.length, sink.file);
      code = cli_sink_close(cli, &sink, true);
    }
  }
  free(out.data);
  return code;
}

int cli_do_FMT(cli_t *cli) {
  if (cli->operand_count != 1) return cli_usage(cli, "one file is wanted");
  text_t in = {0};
  int code = cli_open(cli);
  if (code == CLI_OK && !read_all(cli->operands[0], &in)) {
    (void)fprintf(stderr, "tdslc: %s cannot be read\n", cli->operands[0]);
    code = CLI_IO;
  }
  if (code == CLI_OK) code = format(cli, cli->operands[0], &in);
  free(in.data);
  return code;
}
