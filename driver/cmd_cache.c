/* cmd_cache.c: tdslc cache ls|stat|verify|prune|clear */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "driver/options.h"

static const struct {
  const char *name;
  tdsl_cache_action_t action;
} actions[] = {{"ls", TDSL_CACHE_ACTION_LIST},
               {"stat", TDSL_CACHE_ACTION_STAT},
               {"verify", TDSL_CACHE_ACTION_VERIFY},
               {"prune", TDSL_CACHE_ACTION_PRUNE},
               {"clear", TDSL_CACHE_ACTION_CLEAR}};

/* MiB; 0: not given. False after a message. */
static bool read_limit(cli_t *cli, uint64_t *out) {
  const char *text = cli_value(cli, CLI_OPT_LIMIT);
  char *end;
  *out = 0;
  if (text == NULL) return true;
  errno = 0;
  long long mib = strtoll(text, &end, 10);
  if (errno == 0 && end != text && *end == '\0' && mib > 0 &&
      mib < 1 << 30) {
    *out = (uint64_t)mib << 20;
    return true;
  }
  cli_usage(cli, "--limit is a number of MiB, not '%s'", text);
  return false;
}

int cli_do_CACHE(cli_t *cli) {
  tdsl_cache_action_t action = TDSL_CACHE_ACTION_UNSET;
  uint64_t limit;
  tdsl_error_t *error;
  const char *name = cli->operand_count == 1 ? cli->operands[0] : "";
  for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++) {
    if (strcmp(name, actions[i].name) == 0) action = actions[i].action;
  }
  if (action == TDSL_CACHE_ACTION_UNSET) {
    return cli_usage(cli, "one of ls, stat, verify, prune, clear is wanted");
  }
  if (!read_limit(cli, &limit)) return CLI_USAGE;
  int code = cli_open(cli);
  if (code != CLI_OK) return code;
  tdsl_status_t status = tdsl_cache_maintain(
      cli->context, action, limit, cli_has(cli, CLI_OPT_JSON), cli_put,
      stdout, &error);
  return cli_end(cli, status, &error);
}
