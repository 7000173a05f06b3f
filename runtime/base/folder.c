/* POSIX *at calls behind folder.h. */
#include "runtime/base/folder.h"

#include "runtime/base/os.h"
#include "runtime/base/task.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char temporary[] = ".tmp-";

/* Whoever may write to it may decide what we execute. */
static bool is_ours(const struct stat *about) {
  return about->st_uid == geteuid() && (about->st_mode & 022) == 0;
}

static int make_folders(td_arena_t *arena, const char *path) {
  size_t length = strlen(path);
  for (size_t i = 1; i <= length; i++) {
    if (i < length && path[i] != '/') continue;
    const char *part = td_arena_strndup(arena, path, i);
    if (mkdir(part, 0700) != 0 && errno != EEXIST) {
      int error = errno; /* of a parent on a read-only system: it may exist */
      if (!td_os_is_folder(part)) return error;
    }
  }
  return 0;
}

int td_folder_open(td_folder_t *folder, td_arena_t *arena, const char *path,
                   bool create, const char **why) {
  struct stat about;
  folder->fd = -1;
  *why = NULL;
  int error = create ? make_folders(arena, path) : 0;
  if (error != 0) return error;
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) {
    if (errno == ELOOP || errno == ENOTDIR) *why = "it is no folder of its own";
    return errno;
  }
  if (fstat(fd, &about) != 0) {
    error = errno;
  } else if (about.st_uid != geteuid()) {
    *why = "it belongs to another user";
    error = EPERM;
  } else if (!is_ours(&about)) {
    *why = "others may write to it (chmod 700 makes it yours)";
    error = EPERM;
  }
  if (error != 0) close(fd);
  else folder->fd = fd;
  return error;
}

void td_folder_close(td_folder_t *folder) {
  if (folder->fd >= 0) close(folder->fd);
  folder->fd = -1;
}

static int64_t ns_of(struct timespec t) {
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t td_folder_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return ns_of(now);
}

static int by_name(const void *a, const void *b) {
  const td_folder_file_t *x = a, *y = b;
  return strcmp(x->name, y->name);
}

/* Names first, into memory of fixed size a step, so that running out of
   memory cannot leave the stream open. */
typedef struct batch_t {
  char names[64][256];
  size_t count;
} batch_t;

static bool read_batch(DIR *stream, batch_t *batch) {
  const struct dirent *entry = NULL;
  batch->count = 0;
  while (batch->count < 64 && (entry = readdir(stream)) != NULL) {
    size_t n = strlen(entry->d_name);
    if (n >= sizeof batch->names[0]) continue;
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
      continue;
    }
    memcpy(batch->names[batch->count++], entry->d_name, n + 1);
  }
  return batch->count > 0;
}

/* The place of a stream, known before there is one: noting the cleanup takes
   memory, too. */
static void close_stream(void *place) {
  DIR **stream = place;
  if (*stream != NULL) (void)closedir(*stream);
}

int td_folder_list(const td_folder_t *folder, td_arena_t *arena,
                   td_folder_files_t *out) {
  batch_t *batch = TD_NEW(arena, batch_t);
  DIR **stream = TD_NEW(arena, DIR *);
  td_defer(arena->task, close_stream, stream);
  int fd = openat(folder->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  *stream = fd >= 0 ? fdopendir(fd) : NULL;
  if (*stream == NULL) {
    int error = errno;
    if (fd >= 0) close(fd);
    td_undefer(arena->task, false);
    return error;
  }
  while (read_batch(*stream, batch)) {
    for (size_t i = 0; i < batch->count; i++) {
      struct stat about;
      if (fstatat(folder->fd, batch->names[i], &about,
                  AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(about.st_mode)) {
        continue;
      }
      td_folder_file_t file = {td_arena_strdup(arena, batch->names[i]),
                               (uint64_t)about.st_size,
                               ns_of(about.st_mtim)};
      td_vec_push(arena, out, file);
    }
  }
  td_undefer(arena->task, true);
  if (out->length > 0) {
    qsort(out->data, out->length, sizeof *out->data, by_name);
  }
  return 0;
}

static int read_open(int fd, td_arena_t *arena, size_t limit,
                     td_str_t *out) {
  struct stat about;
  if (fstat(fd, &about) != 0) return errno;
  if (!S_ISREG(about.st_mode) || !is_ours(&about)) return EPERM;
  if ((uint64_t)about.st_size > limit) return EFBIG;
  size_t want = (size_t)about.st_size, done = 0;
  char *data = td_arena_alloc(arena, want + 1);
  while (done < want) {
    ssize_t n = read(fd, data + done, want - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    if (n == 0) break;
    done += (size_t)n;
  }
  *out = td_str_n(data, done);
  return 0;
}

static void close_fd(void *arg) {
  const int *fd = arg;
  if (*fd >= 0) close(*fd);
}

int td_folder_read(const td_folder_t *folder, td_arena_t *arena,
                   const char *name, size_t limit, td_str_t *out) {
  int *fd = TD_NEW(arena, int);
  *fd = -1;
  *out = td_str_n(NULL, 0);
  td_defer(arena->task, close_fd, fd);
  /* no waiting on a pipe that somebody put there */
  *fd = openat(folder->fd, name,
               O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  int error = *fd < 0 ? errno : read_open(*fd, arena, limit, out);
  td_undefer(arena->task, true);
  return error;
}

static int write_all(int fd, const char *from, size_t count) {
  while (count > 0) {
    ssize_t n = write(fd, from, count);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    from += n;
    count -= (size_t)n;
  }
  return fsync(fd) == 0 ? 0 : errno;
}

/* Process, thread and time make the temporary name; O_EXCL makes sure. */
int td_folder_publish(const td_folder_t *folder, const char *name,
                      const void *data, size_t bytes) {
  char place[96];
  const char local = 0;
  (void)snprintf(place, sizeof place, "%s%ld-%llx-%llx", temporary,
                 (long)getpid(), (unsigned long long)(uintptr_t)&local,
                 (unsigned long long)td_folder_now_ns());
  int fd = openat(folder->fd, place,
                  O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return errno;
  int error = write_all(fd, data, bytes);
  if (close(fd) != 0 && error == 0 && errno != EINTR) error = errno;
  if (error == 0 && renameat(folder->fd, place, folder->fd, name) != 0) {
    error = errno;
  }
  if (error != 0) (void)unlinkat(folder->fd, place, 0);
  return error;
}

int td_folder_remove(const td_folder_t *folder, const char *name) {
  return unlinkat(folder->fd, name, 0) == 0 ? 0 : errno;
}

void td_folder_touch(const td_folder_t *folder, const char *name) {
  (void)utimensat(folder->fd, name, NULL, AT_SYMLINK_NOFOLLOW);
}

bool td_folder_is_temporary(const char *name) {
  return strncmp(name, temporary, sizeof temporary - 1) == 0;
}
