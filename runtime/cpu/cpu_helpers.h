/* cpu_helpers.h: functions that generated code may call, and nothing else.
 * The JIT resolves each symbol from this table; none is found by accident. */
#ifndef TDSL_RUNTIME_CPU_HELPERS_H
#define TDSL_RUNTIME_CPU_HELPERS_H

#include <stddef.h>
#include <stdint.h>

typedef struct rcpu_symbol {
  const char *name;
  uint64_t address;
} rcpu_symbol_t;

/* COUNT gets the number of rows; the table is filled at each call, since an
 * address is no constant expression as an integer. */
enum { RCPU_SYMBOL_MAX = 48 };
uint32_t rcpu_symbols(rcpu_symbol_t out[RCPU_SYMBOL_MAX]);

#endif
