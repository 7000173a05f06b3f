/* server.c: peers in processes of their own. Each reads commands and answers
 * them, a line each; bench/peers/peer.py says which. One that does not answer
 * in time is ended, and the matrix goes on without it. */
#define _GNU_SOURCE
#include "bench/matrix/matrix.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { PATIENCE_MS = 240 * 1000 };

static const struct {
  const char *name, *engine, *install;
} known[SERVER_MOST] = {
    {"PyTorch", "torch", "apt-get install python3-torch"},
    {"ONNX Runtime", "onnxruntime", "bench/peers/install.sh"},
    {"OpenVINO", "openvino", "bench/peers/install.sh"},
    {"JAX", "jax", "bench/peers/install.sh"},
    {"llama.cpp", "ggml", "bench/peers/install.sh"},
};

/* ---- lines --------------------------------------------------------------- */

static void end(server_t *s) {
  if (s->pid == 0) return;
  (void)kill(s->pid, SIGKILL);
  (void)waitpid(s->pid, NULL, 0);
  (void)fclose(s->to);
  (void)fclose(s->from);
  s->pid = 0;
}

/* 0: no answer, and the process is gone. */
static int hear(server_t *s, char *line, size_t room) {
  struct pollfd p = {fileno(s->from), POLLIN, 0};
  if (poll(&p, 1, PATIENCE_MS) == 1 &&
      fgets(line, (int)room, s->from) != NULL) {
    line[strcspn(line, "\n")] = '\0';
    return 1;
  }
  (void)snprintf(line, room, "no answer");
  end(s);
  return 0;
}

static int ask(server_t *s, const char *question, char *line, size_t room) {
  if (s->pid == 0) {
    (void)snprintf(line, room, "absent");
    return 0;
  }
  (void)fprintf(s->to, "%s\n", question);
  (void)fflush(s->to);
  return hear(s, line, room);
}

/* ---- processes ----------------------------------------------------------- */

static int spawn(server_t *s, const char *python, int threads) {
  int to[2], from[2];
  char number[16];
  if (pipe2(to, O_CLOEXEC) != 0) return 0;
  if (pipe2(from, O_CLOEXEC) != 0) {
    (void)close(to[0]);
    (void)close(to[1]);
    return 0;
  }
  (void)snprintf(number, sizeof number, "%d", threads);
  char script[] = TDSL_SOURCE_DIR "/bench/peers/peer.py";
  char *argv[] = {(char *)(uintptr_t)python, script,
                  (char *)(uintptr_t)s->engine, number, NULL};
  posix_spawn_file_actions_t files;
  (void)posix_spawn_file_actions_init(&files);
  (void)posix_spawn_file_actions_adddup2(&files, to[0], 0);
  (void)posix_spawn_file_actions_adddup2(&files, from[1], 1);
  (void)posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
  int bad = posix_spawnp(&s->pid, python, &files, NULL, argv, environ);
  (void)posix_spawn_file_actions_destroy(&files);
  (void)close(to[0]);
  (void)close(from[1]);
  s->to = fdopen(to[1], "w");
  s->from = fdopen(from[0], "r");
  if (bad != 0 || s->to == NULL || s->from == NULL) {
    s->pid = 0;
    return 0;
  }
  return 1;
}

/* The first Python that has the engine. */
static void start(server_t *s, int threads) {
  const char *given = getenv("TDSL_PEERS_PYTHON");
  const char *const pythons[] = {
      given != NULL ? given : TDSL_BUILD_DIR "/peers/bin/python3",
      "/usr/bin/python3", "python3"};
  char line[512];
  (void)snprintf(s->version, sizeof s->version, "no Python to run it");
  for (size_t i = 0; i < sizeof pythons / sizeof pythons[0]; i++) {
    if (!spawn(s, pythons[i], threads)) continue;
    if (hear(s, line, sizeof line) && strncmp(line, "ready ", 6) == 0) {
      (void)snprintf(s->version, sizeof s->version, "%.150s", line + 6);
      return;
    }
    if (strncmp(line, "absent ", 7) == 0) {
      (void)snprintf(s->version, sizeof s->version, "%.150s", line + 7);
    }
    end(s);
  }
}

/* Large pages, and results of a run in the memory of the run before: what an
 * eager library returns is new each time. */
static void set_malloc(void) {
  (void)setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1", 1);
  (void)setenv("MALLOC_MMAP_THRESHOLD_", "8589934592", 1);
  (void)setenv("MALLOC_TRIM_THRESHOLD_", "34359738368", 1);
}

void server_start_all(server_t *out, int threads) {
  (void)signal(SIGPIPE, SIG_IGN);
  set_malloc();
  for (int i = 0; i < SERVER_MOST; i++) {
    out[i] = (server_t){.name = known[i].name, .engine = known[i].engine,
                        .install = known[i].install};
    start(&out[i], threads);
  }
}

void server_stop_all(server_t *all) {
  for (int i = 0; i < SERVER_MOST; i++) end(&all[i]);
}

/* ---- rows ---------------------------------------------------------------- */

/* "no" is an answer that a peer may give; anything else is told. */
int server_open(server_t *s, int sets, const char *folder, const char *task) {
  char question[512], line[512];
  if (s->pid == 0) return 0;
  (void)snprintf(question, sizeof question, "open %d %s %s", sets, folder,
                 task);
  if (ask(s, question, line, sizeof line) && strcmp(line, "ok") == 0) {
    return 1;
  }
  if (strncmp(line, "no ", 3) != 0) {
    (void)fprintf(stderr, "bench_matrix: %s, %s: %.300s\n", s->name, task,
                  line);
  }
  return 0;
}

double server_run(server_t *s, double warm) {
  char question[64], line[512], *last;
  (void)snprintf(question, sizeof question, "run %.6f", warm);
  if (!ask(s, question, line, sizeof line)) return -1;
  double seconds = strtod(line, &last);
  return last == line ? -1 : seconds;
}

void server_close(server_t *s) {
  char line[512];
  (void)ask(s, "close", line, sizeof line);
}
