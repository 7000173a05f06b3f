/* The library files of stdlib/, embedded at build time, so that an installed
 * tdslc or a host program needs no folder beside it. The arrays are written
 * by cmake/EmbedFiles.cmake; driver/api.c serves imports from them after the
 * include folders were searched. */
#ifndef DRIVER_STDLIB_EMBED_H
#define DRIVER_STDLIB_EMBED_H

#include <stddef.h>

typedef struct tdsl_embedded_file_t {
  const char *name;          /* "nn.tdsl" */
  const unsigned char *data; /* UTF-8, followed by one zero byte */
  size_t length;             /* without the zero byte */
} tdsl_embedded_file_t;

/* In the order of their names; the last row has a NULL name. */
extern const tdsl_embedded_file_t tdsl_stdlib_files[];
extern const size_t tdsl_stdlib_file_count;

#endif
