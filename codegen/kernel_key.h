/* kernel_key.h: what names a compiled kernel in a cache.
 *
 * The key is a hash of everything that decides the machine code: the KIR
 * text, the machine row, the versions of emitter and compiler.  Never an
 * address, a time or a path. */
#ifndef TDSL_CODEGEN_KERNEL_KEY_H
#define TDSL_CODEGEN_KERNEL_KEY_H

#include <stdint.h>

#include "runtime/base/str.h"

typedef struct cg_key {
  uint64_t high, low;
} cg_key_t;

/* `compiler` names what turns KIR into code, with its version ("llvm
 * 19.1.7"). */
cg_key_t cg_kernel_key(td_str_t kir, const char *target,
                       const char *compiler);

/* 32 hexadecimal digits and a NUL. */
void cg_key_text(cg_key_t key, char out[33]);

#endif
