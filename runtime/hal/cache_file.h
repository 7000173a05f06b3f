/* cache_file.h: the bytes of an entry of the kernel cache.
 *
 *   0   8   magic
 *   8   4   number of fields      12  4  number of parts
 *   16  8   bytes of the file
 *   24      fields: u32 length of name, u32 of value, name, value
 *           parts:  u32 length of name, u32 zero, u64 length of data, name,
 *                   data
 *   end-16  XXH3-128 of all before, high half first
 *
 * Numbers are little-endian.  Read with no trust in any of them. */
#ifndef TDSL_RUNTIME_HAL_CACHE_FILE_H
#define TDSL_RUNTIME_HAL_CACHE_FILE_H

#include "runtime/hal/cache.h"

enum { HAL_CACHE_NAME_BYTES = 40 };
#define HAL_CACHE_ENDING ".tdk"
/* No module of ours is near it. */
#define HAL_CACHE_MOST_BYTES ((size_t)256 << 20)

/* NULL, or what is wrong with it.  with_data false: parts have names and
 * lengths, and data NULL but for a short HAL_CACHE_SHOWN.  Texts and data are
 * in the arena. */
const char *hal_cache_decode(td_arena_t *arena, td_str_t file, bool with_data,
                             hal_entry_t *out);
void hal_cache_encode(td_buf_t *out, const hal_field_t *fields,
                      uint32_t count, const hal_part_t *parts,
                      uint32_t part_count);
/* The name of its file. */
void hal_cache_name(td_task_t *task, const hal_field_t *fields,
                    uint32_t count, char out[HAL_CACHE_NAME_BYTES]);
/* 32 digits of the XXH3-128. */
void hal_cache_hex(td_str_t data, char out[33]);

#endif
