/* cmd_check.c: tdslc check FILE... */
#include <stdlib.h>

#include "driver/options.h"

static int check(cli_t *cli, tdsl_compile_desc_t *desc, const char *path) {
  tdsl_error_t *error;
  cli_buffer_t text = {0};
  if (!cli_source(path, desc, &text)) return CLI_IO;
  tdsl_status_t status = tdsl_program_check(cli->context, desc, &error);
  free(text.data);
  return cli_end(cli, status, &error);
}

int cli_do_CHECK(cli_t *cli) {
  tdsl_compile_desc_t desc;
  if (cli->operand_count == 0) return cli_usage(cli, "no file is given");
  if (!cli_desc(cli, &desc)) return CLI_USAGE;
  int code = cli_open(cli);
  bool is_open = code == CLI_OK;
  for (int i = 0; i < cli->operand_count && is_open; i++) {
    int one = check(cli, &desc, cli->operands[i]);
    if (one > code) code = one;
    if (one == CLI_OK && cli_has(cli, CLI_OPT_VERBOSE)) {
      (void)fprintf(stderr, "%s: no errors\n", cli->operands[i]);
    }
  }
  cli_desc_free(&desc);
  return cli_verdict(cli, code);
}
