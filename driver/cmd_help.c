/* cmd_help.c: tdslc help [COMMAND], and the completion script. */
#include <string.h>

#include "driver/options.h"

int cli_do_HELP(cli_t *cli) {
  if (cli->operand_count == 0) {
    cli_help_all(stdout);
    return CLI_OK;
  }
  const char *name = cli->operands[0];
  cli_command_t command = cli_find_command(name);
  if (command == CLI_NO_COMMAND) {
    const char *near = cli_nearest_command(name);
    return cli_usage(cli, "no subcommand is called '%s'%s%s%s", name,
                     near != NULL ? "; did you mean '" : "",
                     near != NULL ? near : "", near != NULL ? "'?" : "");
  }
  cli_help(stdout, command);
  return CLI_OK;
}

int cli_do_COMPLETE(cli_t *cli) {
  if (cli->operand_count != 1 || strcmp(cli->operands[0], "bash") != 0) {
    return cli_usage(cli, "the shell is wanted: bash");
  }
  cli_complete_bash(stdout);
  return CLI_OK;
}
