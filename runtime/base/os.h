/* The system below libc: files, dynamic libraries, clock, threads. Failures
   of file functions are diagnostics F01 and F02 that name the path and the
   reason in our own words (strerror follows the locale). */
#ifndef TD_OS_H
#define TD_OS_H

#include "runtime/base/str.h"

#include <pthread.h>

/* Text of an errno value, in English and the same everywhere. */
const char *td_os_error_text(int error);

/* -- files -- */
/* Reads a whole file of at most limit bytes (0: 1 GiB) into the arena;
   NUL-terminated. The file's length is known before memory is taken; pipes
   are read in steps. "-" is standard input. */
bool td_os_read_file(td_task_t *task, const char *path, size_t limit,
                     td_arena_t *arena, td_str_t *out);

/* A file mapped read-only and private. Whoever maps unmaps. */
typedef struct td_file_map_t {
  const unsigned char *data;
  size_t length;
} td_file_map_t;

bool td_os_map_file(td_task_t *task, const char *path, td_file_map_t *out);
void td_os_unmap_file(td_file_map_t *map);
/* Asks for large pages under a block of memory of some size: what sweeps over
   it does not wait for the table of pages. Contents stay. */
void td_os_use_large_pages(void *data, size_t bytes);

/* Writes to a temporary file in the same folder, syncs, renames: readers see
   the old file or the new one. "-" is standard output. */
bool td_os_write_atomic(td_task_t *task, const char *path, const void *data,
                        size_t length);

bool td_os_exists(const char *path);
bool td_os_is_folder(const char *path);
/* Creates the folder and its parents (mode 0777 less umask). */
bool td_os_make_folders(td_task_t *task, const char *path);

/* "a/b" of folder a and name b; name alone if it is absolute or folder is
   empty. The part of a path before its last '/', "" if there is none. */
const char *td_os_join(td_arena_t *arena, const char *folder,
                       const char *name);
const char *td_os_folder_of(td_arena_t *arena, const char *path);

/* The absolute path with all links followed; NULL if it does not exist. */
const char *td_os_real_path(td_arena_t *arena, const char *path);

/* -- dynamic libraries; NULL on failure, *reason then set (arena text) -- */
void *td_os_dlopen(td_arena_t *arena, const char *name, const char **reason);
void *td_os_dlsym(void *library, const char *name);
void td_os_dlclose(void *library);

/* -- clock -- */
uint64_t td_os_now_ns(void); /* monotonic */

/* -- threads -- */
typedef struct td_thread_t {
  pthread_t handle;
  void (*function)(void *arg);
  void *arg;
} td_thread_t;

typedef pthread_mutex_t td_mutex_t;
typedef pthread_cond_t td_cond_t;

int td_os_cpu_count(void); /* usable by this process, at least 1 */

/* stack_bytes 0: the default. The struct must stay in place until the join.
   False if no thread could be made. */
bool td_thread_start(td_thread_t *thread, void (*function)(void *arg),
                     void *arg, size_t stack_bytes);
void td_thread_join(td_thread_t *thread);

static inline bool td_mutex_init(td_mutex_t *m) {
  return pthread_mutex_init(m, NULL) == 0;
}
static inline void td_mutex_free(td_mutex_t *m) {
  pthread_mutex_destroy(m);
}
static inline void td_mutex_lock(td_mutex_t *m) { pthread_mutex_lock(m); }
static inline void td_mutex_unlock(td_mutex_t *m) { pthread_mutex_unlock(m); }
static inline bool td_cond_init(td_cond_t *c) {
  return pthread_cond_init(c, NULL) == 0;
}
static inline void td_cond_free(td_cond_t *c) { pthread_cond_destroy(c); }
static inline void td_cond_wait(td_cond_t *c, td_mutex_t *m) {
  pthread_cond_wait(c, m);
}
static inline void td_cond_signal(td_cond_t *c) { pthread_cond_signal(c); }
static inline void td_cond_broadcast(td_cond_t *c) {
  pthread_cond_broadcast(c);
}

#endif
