/* cache.h: compiled kernels on disk, one file an entry.
 *
 * An entry is named by the hash of its fields: everything that decides what
 * the compiler makes (text, machine, options, versions), in clear, so that a
 * miss can be explained.  Its parts are what the compiler made.  A file is
 * read whole, hashed, and its fields compared with those wanted; any defect
 * is a miss with a warning (W06), and the file goes.
 *
 * Entries are executed: the folder has to belong to its user alone
 * (folder.h).  Where: TDSL_CACHE_DIR, XDG_CACHE_HOME/tdsl,
 * HOME/.cache/tdsl, else nowhere.
 *
 * Threads and processes may use one folder at the same time; an entry is
 * published by a rename.  An object of this type may be shared by threads. */
#ifndef TDSL_RUNTIME_HAL_CACHE_H
#define TDSL_RUNTIME_HAL_CACHE_H

#include "runtime/base/folder.h"
#include "runtime/base/task.h"

typedef struct hal_cache hal_cache_t;

typedef enum hal_cache_mode {
  HAL_CACHE_DEFAULT, /* what TDSL_CACHE says, else on */
  HAL_CACHE_ON,
  HAL_CACHE_OFF,
  HAL_CACHE_REQUIRE, /* a miss is an error (B12) */
} hal_cache_mode_t;

/* The part that lists what the code is of, for people. */
#define HAL_CACHE_SHOWN "of"

/* Order and names count: an entry is found by equal fields. */
typedef struct hal_field {
  const char *name;
  td_str_t value;
} hal_field_t;

typedef struct hal_part {
  const char *name;
  td_str_t data;
} hal_part_t;

typedef struct hal_entry {
  uint32_t field_count, part_count;
  hal_field_t *fields;
  hal_part_t *parts; /* data aligned to 16 */
} hal_entry_t;

/* folder NULL: by the knobs.  NULL if it is off or there is none, or after
 * W06 (B09 if entries are required) for a folder that cannot be used.  The
 * allocator hook of the task's host must outlive it. */
hal_cache_t *hal_cache_open(td_task_t *task, const char *folder,
                            hal_cache_mode_t mode);
void hal_cache_close(hal_cache_t *cache); /* accepts NULL */

/* False: a miss; B12 then, where entries are required.  cache NULL: a
 * miss. */
bool hal_cache_get(hal_cache_t *cache, td_task_t *task, td_arena_t *arena,
                   const hal_field_t *fields, uint32_t count,
                   hal_entry_t *out);
/* Data of a part, NULL if the entry has none of that name. */
const td_str_t *hal_entry_part(const hal_entry_t *entry, const char *name);
/* Keeps it, and then no more than the limit of all.  What fails is a warning
 * (W06), the first time. */
void hal_cache_put(hal_cache_t *cache, td_task_t *task,
                   const hal_field_t *fields, uint32_t count,
                   const hal_part_t *parts, uint32_t part_count);
/* The code of an entry was refused by who had to load it. */
void hal_cache_drop(hal_cache_t *cache, td_task_t *task,
                    const hal_field_t *fields, uint32_t count,
                    const char *reason);

/* 32 digits for a text that is too long to be a field. */
td_str_t hal_cache_digest(td_arena_t *arena, td_str_t text);

/* ---- looking after it (tdslc cache) -------------------------------------- */

typedef struct hal_cache_row {
  const char *name;   /* of the file: 32 digits and an ending */
  const char *defect; /* NULL: it is whole */
  uint64_t bytes;
  int64_t used_ns;
  hal_entry_t entry;  /* fields; parts without data, but for
                         HAL_CACHE_SHOWN.  None if defective */
} hal_cache_row_t;

typedef TD_VEC(hal_cache_row_t) hal_cache_rows_t;

/* The folder that hal_cache_open would use, or NULL. */
const char *hal_cache_folder(td_arena_t *arena, const char *folder);
uint64_t hal_cache_limit(void); /* bytes */
/* Opens the folder as it is: nothing is made.  False after B09; an absent
 * folder gives a closed one. */
bool hal_cache_look(td_task_t *task, td_arena_t *arena, const char *path,
                    td_folder_t *out);
/* All entries, the most recently used first; each is read and checked. */
void hal_cache_rows(td_task_t *task, td_arena_t *arena,
                    const td_folder_t *folder, hal_cache_rows_t *out);
/* Removes files of writers that are gone, then the entries that were not used
 * for longest, until no more than `limit` bytes are left.  Returns how many
 * files went. */
uint32_t hal_cache_prune(td_arena_t *arena, const td_folder_t *folder,
                         uint64_t limit);
uint32_t hal_cache_clear(td_arena_t *arena, const td_folder_t *folder);

#endif
