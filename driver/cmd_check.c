/* cmd_check.c: tdslc check FILE... */
#include "driver/options.h"

int cli_do_CHECK(cli_t *cli) {
  tdsl_compile_desc_t desc;
  if (cli->operand_count == 0) return cli_usage(cli, "no file is given");
  if (!cli_desc(cli, &desc)) return CLI_USAGE;
  int code = cli_open(cli);
  bool is_open = code == CLI_OK;
  for (int i = 0; i < cli->operand_count && is_open; i++) {
    tdsl_error_t *error;
    desc.file = cli_text(cli->operands[i]);
    tdsl_status_t status = tdsl_program_check(cli->context, &desc, &error);
    int one = cli_end(cli, status, &error);
    if (one > code) code = one;
    if (one == CLI_OK && cli_has(cli, CLI_OPT_VERBOSE)) {
      (void)fprintf(stderr, "%s: no errors\n", cli->operands[i]);
    }
  }
  cli_desc_free(&desc);
  return cli_verdict(cli, code);
}
