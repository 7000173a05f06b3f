/* Starting another program and reading what it prints. */
#ifndef TD_PROCESS_H
#define TD_PROCESS_H

#include "runtime/base/str.h"

/* Runs argv[0], a path, with the arguments that follow it up to NULL, in the
   C locale and with nothing on its standard input. At most limit bytes of
   standard output and error are added to `out`; the rest is read and dropped.
   False if it could not be started or read; *status is its exit status, 128
   and the signal's number if one ended it. Nothing unwinds while it runs. */
bool td_os_run(const char *const *argv, size_t limit, td_buf_t *out,
               int *status);

#endif
