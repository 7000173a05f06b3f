/* POSIX calls behind os.h. EINTR is retried everywhere; every failure names
   the path and the reason. */
#define _GNU_SOURCE /* sched_getaffinity; harmless elsewhere */

#include "runtime/base/os.h"

#include "runtime/base/task.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* The values that files and folders give; others are rare enough for a
   general word. */
const char *td_os_error_text(int error) {
  switch (error) {
    case 0: return "no error";
    case EACCES: return "permission denied";
    case EBUSY: return "busy";
    case EEXIST: return "exists already";
    case EFBIG: return "file too large";
    case EINTR: return "interrupted";
    case EINVAL: return "invalid argument";
    case EIO: return "input or output error";
    case EISDIR: return "is a folder";
    case ELOOP: return "too many links";
    case EMFILE: return "too many open files";
    case ENAMETOOLONG: return "name too long";
    case ENFILE: return "too many open files in the system";
    case ENOENT: return "no such file or folder";
    case ENOMEM: return "out of memory";
    case ENOSPC: return "no space left";
    case ENOTDIR: return "part of the path is not a folder";
    case EPERM: return "not permitted";
    case EPIPE: return "closed by the reader";
    case EROFS: return "read-only file system";
    default: return "system error";
  }
}

/* A diagnostic at the file as a whole. Always false, so that callers can
   return it. errno is passed in: anything in between may change it. */
static bool fail(td_task_t *task, td_diag_id_t id, const char *path,
                 const char *verb, int error) {
  td_loc_t loc = {td_sources_add_file(task, path), 0, 0, 0, 0};
  td_diag(task, id, loc, "cannot %s: %s", verb, td_os_error_text(error));
  return false;
}

/* O_CLOEXEC: a host that starts processes must not hand our files on. */
static int open_again(const char *path, int flags, mode_t mode) {
  int fd;
  do fd = open(path, flags | O_CLOEXEC, mode);
  while (fd < 0 && errno == EINTR);
  return fd;
}

/* Opens a regular file (or a pipe) and says how long it is. */
static int open_to_read(td_task_t *task, const char *path,
                        struct stat *about) {
  int fd = open_again(path, O_RDONLY, 0);
  if (fd < 0) {
    fail(task, TD_F01, path, "open", errno);
    return -1;
  }
  int error = fstat(fd, about) != 0         ? errno
              : S_ISDIR(about->st_mode) ? EISDIR
                                            : 0;
  if (error) {
    close(fd);
    fail(task, TD_F01, path, "open", error);
    return -1;
  }
  return fd;
}

/* Reads until count bytes or the end; -1 on error. */
static ssize_t read_all(int fd, char *to, size_t count) {
  size_t done = 0;
  while (done < count) {
    ssize_t n = read(fd, to + done, count - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return -1;
    if (n == 0) break;
    done += (size_t)n;
  }
  return (ssize_t)done;
}

/* Beyond a limit is the file's fault, not the system's. */
static bool too_large(td_task_t *task, const char *path, size_t limit) {
  td_loc_t loc = {td_sources_add_file(task, path), 0, 0, 0, 0};
  td_diag(task, TD_F03, loc, "file is larger than %zu bytes", limit);
  return false;
}

/* A pipe has no length: doubling steps up to the limit. */
static bool read_stream(td_task_t *task, int fd, const char *path,
                        size_t limit, td_arena_t *arena, td_str_t *out) {
  td_buf_t buf;
  td_buf_init(&buf, task);
  char part[4096];
  for (;;) {
    ssize_t n = read_all(fd, part, sizeof part);
    if (n < 0) {
      int error = errno;
      td_buf_free(&buf);
      return fail(task, TD_F01, path, "read", error);
    }
    td_buf_put(&buf, part, (size_t)n);
    if (buf.length > limit) {
      td_buf_free(&buf);
      return too_large(task, path, limit);
    }
    if ((size_t)n < sizeof part) break;
  }
  out->length = buf.length;
  out->data = td_buf_finish(&buf, arena);
  return true;
}

static void close_fd(void *arg) {
  int fd = *(int *)arg;
  if (fd >= 0) close(fd);
}

/* The length is asked for before memory is taken; a file that shrinks
   meanwhile comes back shorter, one that grows is cut. */
bool td_os_read_file(td_task_t *task, const char *path, size_t limit,
                     td_arena_t *arena, td_str_t *out) {
  if (limit == 0) limit = (size_t)1 << 30;
  if (strcmp(path, "-") == 0) {
    return read_stream(task, STDIN_FILENO, "<stdin>", limit, arena, out);
  }
  struct stat about;
  int fd = -1;
  bool ok;
  td_defer(task, close_fd, &fd); /* may unwind, so before the open */
  fd = open_to_read(task, path, &about);
  if (fd < 0) {
    ok = false;
  } else if (!S_ISREG(about.st_mode)) {
    ok = read_stream(task, fd, path, limit, arena, out);
  } else if ((uint64_t)about.st_size > limit) {
    ok = too_large(task, path, limit);
  } else {
    char *data = td_arena_alloc(arena, (size_t)about.st_size + 1);
    ssize_t n = read_all(fd, data, (size_t)about.st_size);
    ok = n >= 0 || fail(task, TD_F01, path, "read", errno);
    *out = td_str_n(data, n < 0 ? 0 : (size_t)n);
  }
  td_undefer(task, true);
  return ok;
}

/* MAP_PRIVATE and read-only: nothing we do can reach the file. Truncating it
   while it is mapped would still end the process, which is why the writers of
   this project rename instead. The descriptor is not needed once mapped. */
bool td_os_map_file(td_task_t *task, const char *path, td_file_map_t *out) {
  *out = (td_file_map_t){NULL, 0};
  struct stat about;
  int fd = open_to_read(task, path, &about);
  if (fd < 0) return false;
  size_t length = S_ISREG(about.st_mode) ? (size_t)about.st_size : 0;
  if (length == 0) { /* mmap refuses empty files */
    close(fd);
    if (S_ISREG(about.st_mode)) return true;
    return fail(task, TD_F01, path, "map", EINVAL);
  }
  void *data = mmap(NULL, length, PROT_READ, MAP_PRIVATE, fd, 0);
  int error = errno;
  close(fd);
  if (data == MAP_FAILED) return fail(task, TD_F01, path, "map", error);
  out->data = data;
  out->length = length;
  return true;
}

/* Harmless when nothing is mapped, so it serves as a cleanup. */
void td_os_unmap_file(td_file_map_t *map) {
  if (map->data) munmap((void *)(uintptr_t)map->data, map->length);
  map->data = NULL;
  map->length = 0;
}

/* Whole large pages inside the block; a system without them says no, which
   is no matter. */
void td_os_use_large_pages(void *data, size_t bytes) {
#ifdef MADV_HUGEPAGE
  enum { PAGE = 2 << 20 };
  size_t skip = (PAGE - (uintptr_t)data % PAGE) % PAGE;
  if (bytes < 2 * (size_t)PAGE || skip > bytes) return;
  size_t length = (bytes - skip) / PAGE * PAGE;
  (void)madvise((char *)data + skip, length, MADV_HUGEPAGE);
#else
  (void)data, (void)bytes;
#endif
}

/* 0 or the errno value. */
static int write_all(int fd, const char *from, size_t count) {
  while (count) {
    ssize_t n = write(fd, from, count);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    from += n;
    count -= (size_t)n;
  }
  return 0;
}

/* The temporary name carries process and time, so that two writers of one
   file do not meet; O_EXCL makes sure. The rename comes after the sync, or a
   crash could leave an empty file under the final name. */
bool td_os_write_atomic(td_task_t *task, const char *path, const void *data,
                        size_t length) {
  if (strcmp(path, "-") == 0) {
    int error = write_all(STDOUT_FILENO, data, length);
    return error == 0 || fail(task, TD_F02, "<stdout>", "write", error);
  }
  /* What is no regular file (a terminal, /dev/null) is written to. */
  struct stat about;
  bool direct = stat(path, &about) == 0 && !S_ISREG(about.st_mode);
  const char *name = path;
  if (!direct) {
    name = td_arena_printf(&task->arena, "%s.tmp%ld.%llx", path,
                           (long)getpid(),
                           (unsigned long long)td_os_now_ns());
  }
  int flags = O_WRONLY | (direct ? 0 : O_CREAT | O_EXCL);
  int fd = open_again(name, flags, 0666);
  if (fd < 0) return fail(task, TD_F02, path, "create", errno);
  int error = write_all(fd, data, length);
  if (!error && !direct && fsync(fd) != 0) error = errno;
  if (close(fd) != 0 && !error && errno != EINTR) error = errno;
  if (!error && !direct && rename(name, path) != 0) error = errno;
  if (!error) return true;
  if (!direct) unlink(name);
  return fail(task, TD_F02, path, "write", error);
}

/* Questions, not promises: the answer may be old at once. Whoever opens the
   file afterwards still handles failure. */
bool td_os_exists(const char *path) {
  struct stat about;
  return stat(path, &about) == 0;
}

bool td_os_is_folder(const char *path) {
  struct stat about;
  return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

/* Each prefix in turn. A folder that exists already is no error, whoever made
   it. */
bool td_os_make_folders(td_task_t *task, const char *path) {
  size_t length = strlen(path);
  for (size_t i = 1; i <= length; i++) {
    if (i < length && path[i] != '/') continue;
    const char *part = td_arena_strndup(&task->arena, path, i);
    if (mkdir(part, 0777) != 0 && !td_os_is_folder(part)) {
      return fail(task, TD_F02, part, "create the folder", errno);
    }
  }
  return true;
}

const char *td_os_join(td_arena_t *arena, const char *folder,
                       const char *name) {
  size_t n = strlen(folder);
  if (n == 0 || name[0] == '/') return td_arena_strdup(arena, name);
  const char *slash = folder[n - 1] == '/' ? "" : "/";
  return td_arena_printf(arena, "%s%s%s", folder, slash, name);
}

const char *td_os_folder_of(td_arena_t *arena, const char *path) {
  const char *slash = strrchr(path, '/');
  if (!slash) return "";
  size_t n = slash == path ? 1 : (size_t)(slash - path);
  return td_arena_strndup(arena, path, n);
}

/* realpath allocates with malloc whatever hook the host gave; the text is
   copied and freed at once. */
const char *td_os_real_path(td_arena_t *arena, const char *path) {
  char *found = realpath(path, NULL); /* malloc's, whatever the hook */
  if (!found) return NULL;
  char place[4097];
  size_t n = strlen(found);
  bool fits = n < sizeof place;
  if (fits) memcpy(place, found, n + 1);
  free(found); /* before the arena, which may unwind */
  return fits ? td_arena_strndup(arena, place, n) : NULL;
}

/* -- dynamic libraries -- */

/* RTLD_LOCAL: the library's symbols must not shadow the host's. dlerror's text
   is the loader's and names what was missing. */
void *td_os_dlopen(td_arena_t *arena, const char *name,
                   const char **reason) {
  void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library) return library;
  const char *text = dlerror();
  if (reason) *reason = td_arena_strdup(arena, text ? text : "unknown");
  return NULL;
}

void *td_os_dlsym(void *library, const char *name) {
  return dlsym(library, name);
}

void td_os_dlclose(void *library) {
#if defined(__SANITIZE_ADDRESS__)
  /* a leak report needs the library's names, and what its own state still
   * refers to is no leak */
  (void)library;
#else
  if (library) dlclose(library);
#endif
}

/* -- clock and threads -- */

/* Monotonic: unaffected by a clock that is set back. */
uint64_t td_os_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Affinity first: containers and batch systems grant fewer than there are. */
int td_os_cpu_count(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    int n = CPU_COUNT(&set);
    if (n > 0) return n;
  }
  long n = sysconf(_SC_NPROCESSORS_ONLN);
  return n > 0 ? (int)n : 1;
}

/* pthread's entry returns a pointer, ours nothing. */
static void *enter_thread(void *arg) {
  td_thread_t *thread = arg;
  thread->function(thread->arg);
  return NULL;
}

/* Attributes are released whether or not a thread came of them. */
bool td_thread_start(td_thread_t *thread, void (*function)(void *arg),
                     void *arg, size_t stack_bytes) {
  thread->function = function;
  thread->arg = arg;
  pthread_attr_t attr;
  if (pthread_attr_init(&attr) != 0) return false;
  bool ok = stack_bytes == 0 ||
            pthread_attr_setstacksize(&attr, stack_bytes) == 0;
  ok = ok && pthread_create(&thread->handle, &attr, enter_thread,
                            thread) == 0;
  pthread_attr_destroy(&attr);
  return ok;
}

void td_thread_join(td_thread_t *thread) {
  pthread_join(thread->handle, NULL);
}
