/* posix_spawn and a pipe behind process.h. */
#include "runtime/base/process.h"

#include "runtime/base/task.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* The child's ends: /dev/null, and the pipe twice. The parent's end closes
   itself on exec. */
static bool spawn(const char *const *argv, char *const *environment,
                  int write_end, pid_t *pid) {
  posix_spawn_file_actions_t actions;
  if (posix_spawn_file_actions_init(&actions) != 0) return false;
  bool ok =
      posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY,
                                       0) == 0 &&
      posix_spawn_file_actions_adddup2(&actions, write_end, 1) == 0 &&
      posix_spawn_file_actions_adddup2(&actions, write_end, 2) == 0 &&
      posix_spawn(pid, argv[0], &actions, NULL, (char *const *)(uintptr_t)argv,
                  environment) == 0;
  posix_spawn_file_actions_destroy(&actions);
  return ok;
}

/* The environment with LC_ALL=C in front of what it says about locales. */
static char **c_locale(td_task_t *task) {
  static const char setting[] = "LC_ALL=C";
  size_t n = 0;
  while (environ != NULL && environ[n] != NULL) n++;
  char **out = TD_NEW_ARRAY(&task->arena, char *, n + 2);
  size_t kept = 0;
  out[kept++] = (char *)(uintptr_t)setting;
  for (size_t i = 0; i < n; i++) {
    if (strncmp(environ[i], "LC_ALL=", 7) != 0) out[kept++] = environ[i];
  }
  out[kept] = NULL;
  return out;
}

/* Waits for the child whatever happens to the pipe. */
static bool collect(int fd, pid_t pid, char *kept, size_t limit, size_t *used,
                    int *status) {
  char block[4096];
  bool ok = true;
  for (;;) {
    ssize_t n = read(fd, block, sizeof block);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      ok = n == 0;
      break;
    }
    size_t room = limit - *used;
    size_t take = (size_t)n < room ? (size_t)n : room;
    memcpy(kept + *used, block, take);
    *used += take;
  }
  int code = 0;
  pid_t done;
  do done = waitpid(pid, &code, 0);
  while (done < 0 && errno == EINTR);
  if (done != pid) return false; /* a host that reaps every child itself */
  *status = WIFEXITED(code) ? WEXITSTATUS(code) : 128 + WTERMSIG(code);
  return ok;
}

bool td_os_run(const char *const *argv, size_t limit, td_buf_t *out,
               int *status) {
  int ends[2];
  pid_t pid = 0;
  size_t used = 0;
  /* memory first: failing to get some must not leave a child behind */
  char *kept = td_arena_alloc(&out->task->arena, limit + 1);
  char **environment = c_locale(out->task);
  *status = -1;
  if (pipe(ends) != 0) return false;
  (void)fcntl(ends[0], F_SETFD, FD_CLOEXEC);
  (void)fcntl(ends[1], F_SETFD, FD_CLOEXEC);
  bool ok = spawn(argv, environment, ends[1], &pid);
  close(ends[1]);
  if (ok) ok = collect(ends[0], pid, kept, limit, &used, status);
  close(ends[0]);
  td_buf_put(out, kept, used);
  return ok;
}
