/* cmd_replay.c: tdslc replay LIST: many cases in one process. */
#include "driver/options.h"

int cli_do_REPLAY(cli_t *cli) {
  return cli_usage(cli, "not available");
}
