/* cmd_version.c: tdslc version and doctor */
#include "driver/options.h"

static int describe(cli_t *cli, uint32_t where) {
  tdsl_error_t *error;
  int code = cli_open(cli);
  if (code != CLI_OK) return code;
  tdsl_status_t status = tdsl_system_describe(
      cli->context, where, cli_has(cli, CLI_OPT_JSON), cli_put, stdout,
      &error);
  return cli_end(cli, status, &error);
}

int cli_do_VERSION(cli_t *cli) {
  return describe(cli, 0);
}

int cli_do_DOCTOR(cli_t *cli) {
  return describe(cli, 1);
}
