/* main.c: tdslc. One file a subcommand; see options.def for the list. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver/options.h"

/* auto: a terminal on standard error, no NO_COLOR, TERM not dumb. */
static bool wants_color(const cli_t *cli, bool *out) {
  const char *how = cli_value(cli, CLI_OPT_COLOR);
  const char *term = getenv("TERM"), *none = getenv("NO_COLOR");
  if (how == NULL) how = getenv("TDSL_COLOR");
  if (how == NULL || how[0] == '\0' || strcmp(how, "auto") == 0) {
    *out = isatty(STDERR_FILENO) && (none == NULL || none[0] == '\0') &&
           (term == NULL || strcmp(term, "dumb") != 0);
    return true;
  }
  *out = strcmp(how, "always") == 0;
  return *out || strcmp(how, "never") == 0;
}

static int dispatch(cli_t *cli) {
  switch (cli->command) {
#define COMMAND(id, name, level, arguments, sentence) \
  case CLI_##id: return cli_do_##id(cli);
#include "driver/options.def"
    case CLI_NO_COMMAND:
    case CLI_COMMAND_COUNT: break;
  }
  return CLI_USAGE;
}

static int run(cli_t *cli) {
  if (cli_has(cli, CLI_OPT_HELP)) {
    cli_help(stdout, cli->command);
    return CLI_OK;
  }
  const char *form = cli_value(cli, CLI_OPT_DIAGNOSTICS);
  cli->as_json = form != NULL && strcmp(form, "json") == 0;
  if (form != NULL && !cli->as_json && strcmp(form, "text") != 0) {
    return cli_usage(cli, "--diagnostics is text or json, not '%s'", form);
  }
  if (!wants_color(cli, &cli->has_color)) {
    return cli_usage(cli, "--color is auto, always or never");
  }
  cli->is_quiet = cli_has(cli, CLI_OPT_QUIET);
  cli->start = cli_now();
  cli->has_progress = isatty(STDERR_FILENO) && !cli->as_json &&
                      !cli->is_quiet && !cli_has(cli, CLI_OPT_JSON);
  return dispatch(cli);
}

int main(int argc, char **argv) {
  cli_t cli;
  /* A reader that went away shows as EPIPE below. */
  (void)signal(SIGPIPE, SIG_IGN);
  int code = cli_parse(&cli, argc, argv) ? run(&cli) : CLI_USAGE;
  cli_clear(&cli);
  tdsl_context_destroy(cli.context);
  cli_free(&cli);
  errno = 0;
  if ((fflush(stdout) != 0 || ferror(stdout)) && errno != EPIPE &&
      code == CLI_OK && errno != 0) {
    (void)fprintf(stderr, "tdslc: standard output cannot be written\n");
    code = CLI_IO;
  }
  return code;
}
