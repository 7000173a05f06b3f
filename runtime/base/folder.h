/* A folder that belongs to its user alone, and the files in it. What is kept
   there is executed later, so everything goes through the open folder: a name
   that is swapped for a link, or a file that somebody else put there, is not
   read. Functions return 0 or an errno value and report nothing. */
#ifndef TD_FOLDER_H
#define TD_FOLDER_H

#include "runtime/base/str.h"
#include "runtime/base/vec.h"

typedef struct td_folder_t {
  int fd; /* -1: closed */
} td_folder_t;

/* Opens it; `create` makes it and missing parents with mode 0700. *why is a
   constant text when it is refused: a link, another owner, or others may
   write to it (EPERM). */
int td_folder_open(td_folder_t *folder, td_arena_t *arena, const char *path,
                   bool create, const char **why);
void td_folder_close(td_folder_t *folder);

typedef struct td_folder_file_t {
  const char *name;
  uint64_t bytes;
  int64_t used_ns; /* time of the last change or touch */
} td_folder_file_t;

typedef TD_VEC(td_folder_file_t) td_folder_files_t;

/* All regular files, by name. */
int td_folder_list(const td_folder_t *folder, td_arena_t *arena,
                   td_folder_files_t *out);
/* The whole file, at most `limit` bytes (EFBIG). EPERM for one of somebody
   else, or that others may change. */
int td_folder_read(const td_folder_t *folder, td_arena_t *arena,
                   const char *name, size_t limit, td_str_t *out);
/* Under a temporary name (see td_folder_is_temporary), synced, renamed:
   readers see the old file or all of the new one. Mode 0600. */
int td_folder_publish(const td_folder_t *folder, const char *name,
                      const void *data, size_t bytes);
int td_folder_remove(const td_folder_t *folder, const char *name);
/* Its time becomes now. */
void td_folder_touch(const td_folder_t *folder, const char *name);
/* Left behind by a writer that ended early, or being written. */
bool td_folder_is_temporary(const char *name);
int64_t td_folder_now_ns(void); /* the clock of used_ns */

#endif
