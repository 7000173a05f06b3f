/* cmd_dump.c: tdslc dump STAGE FILE */
#include <stdlib.h>

#include "driver/options.h"

int cli_do_DUMP(cli_t *cli) {
  if (cli_has(cli, CLI_OPT_LIST)) {
    cli_put(tdsl_stage_get_list(), stdout);
    return CLI_OK;
  }
  if (cli->operand_count != 2) {
    return cli_usage(cli, "a stage and a file are wanted");
  }
  tdsl_compile_desc_t desc;
  cli_sink_t sink;
  tdsl_error_t *error;
  if (!cli_desc(cli, &desc)) return CLI_USAGE;
  cli_buffer_t text = {0};
  int code = cli_open(cli);
  if (code == CLI_OK && !cli_source(cli->operands[1], &desc, &text)) {
    code = CLI_IO;
  }
  if (code == CLI_OK &&
      !cli_sink_open(cli, &sink, cli_value(cli, CLI_OPT_OUTPUT))) {
    code = CLI_IO;
  } else if (code == CLI_OK) {
    tdsl_status_t status = tdsl_program_dump(
        cli->context, &desc, cli_text(cli->operands[0]),
        cli_text(cli_value(cli, CLI_OPT_KERNEL)), cli_put, sink.file, &error);
    code = cli_end(cli, status, &error);
    int closed = cli_sink_close(cli, &sink, code == CLI_OK);
    if (code == CLI_OK) code = closed;
  }
  free(text.data);
  cli_desc_free(&desc);
  return cli_verdict(cli, code);
}
