/* prelude.h: the files of stdlib/cuda as the build embeds them.
 * Written by cmake/EmbedFiles.cmake, read by cuda_prelude.c. */
#ifndef TDSL_CODEGEN_CUDA_PRELUDE_H
#define TDSL_CODEGEN_CUDA_PRELUDE_H

#include <stddef.h>

typedef struct cgc_prelude_file {
  const char *name;
  const unsigned char *data; /* a NUL follows */
  size_t length;
} cgc_prelude_file_t;

extern const cgc_prelude_file_t cgc_prelude_files[];
extern const size_t cgc_prelude_file_count;

#endif
