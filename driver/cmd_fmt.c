/* cmd_fmt.c: tdslc fmt FILE */
#include <stdlib.h>
#include <string.h>

#include "driver/options.h"

static int format(cli_t *cli, const char *path, const cli_buffer_t *in) {
  tdsl_error_t *error;
  cli_buffer_t out = {0};
  bool is_stdin = strcmp(path, "-") == 0;
  tdsl_string_t source = {in->data != NULL ? in->data : "", in->length};
  tdsl_status_t status =
      tdsl_source_format(cli->context, cli_text(is_stdin ? "<stdin>" : path),
                         source, cli_buffer_take, &out, &error);
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
  cli_buffer_t in = {0};
  int code = cli_open(cli);
  if (code == CLI_OK && !cli_read_all(cli->operands[0], &in)) {
    (void)fprintf(stderr, "tdslc: %s cannot be read\n", cli->operands[0]);
    code = CLI_IO;
  }
  if (code == CLI_OK) code = format(cli, cli->operands[0], &in);
  free(in.data);
  return code;
}
