/* cuda_sass.c: see cuda_sass.h. */
#include "runtime/cuda/cuda_sass.h"

#include <stdlib.h>
#include <unistd.h>

#include "runtime/base/process.h"
#include "runtime/cuda/cuda_find.h"

enum { TEXT_BYTES = 64 << 20, SAID_BYTES = 200 };

/* ---- which program ------------------------------------------------------- */

typedef struct tool {
  const char *path, *option;
} tool_t;

static bool find_tool(td_task_t *task, td_arena_t *arena, tool_t *out) {
  rcuda_attempts_t attempts = {0};
  *out = (tool_t){rcuda_tool_path(arena, "nvdisasm", &attempts), "-c"};
  if (out->path == NULL) {
    *out = (tool_t){rcuda_tool_path(arena, "cuobjdump", &attempts), "-sass"};
  }
  if (out->path != NULL) return true;
  td_diag_t *d = td_diag(task, TD_B05, TD_NO_LOC,
                         "no disassembler of GPU code is here: neither "
                         "nvdisasm nor cuobjdump");
  for (size_t i = 0; i < attempts.length; i++) {
    td_diag_note(d, "looked for %s: %s", attempts.data[i].name,
                 rcuda_attempt_text(&attempts.data[i]));
  }
  td_diag_help(d, "they come with the CUDA toolkit (packages cuda-nvdisasm, "
                  "cuda-cuobjdump); `dump ptx` needs neither");
  return false;
}

/* ---- its input ----------------------------------------------------------- */

/* The file is gone when the call ends, however it ends. */
typedef struct temporary {
  int fd;
  char path[4096];
} temporary_t;

static void drop_file(void *arg) {
  temporary_t *t = arg;
  if (t->fd < 0) return;
  close(t->fd);
  unlink(t->path);
}

static bool write_file(temporary_t *t, const void *data, size_t bytes) {
  const char *folder = getenv("TMPDIR");
  td_buf_t path;
  td_buf_init_fixed(&path, t->path, sizeof t->path);
  td_buf_printf(&path, "%s/tdsl-XXXXXX",
                folder != NULL && folder[0] == '/' ? folder : "/tmp");
  t->fd = mkstemp(t->path);
  for (size_t done = 0; t->fd >= 0 && done < bytes;) {
    ssize_t n = write(t->fd, (const char *)data + done, bytes - done);
    if (n <= 0) return false;
    done += (size_t)n;
  }
  return t->fd >= 0;
}

bool rcuda_disassemble(td_task_t *task, td_arena_t *arena, const void *cubin,
                       size_t bytes, td_buf_t *out) {
  tool_t tool;
  if (!find_tool(task, arena, &tool)) return false;
  temporary_t *t = TD_NEW(arena, temporary_t);
  t->fd = -1;
  td_defer(task, drop_file, t);
  bool ok = write_file(t, cubin, bytes);
  if (!ok) {
    td_raise(task, TDSL_STATUS_IO, "no temporary file for %s", tool.path);
  }
  const char *const argv[] = {tool.path, tool.option, t->path, NULL};
  int status = 0;
  td_buf_t text;
  td_buf_init(&text, task);
  ok = td_os_run(argv, TEXT_BYTES, &text, &status) && status == 0;
  if (ok) {
    td_buf_put(out, text.data, text.length);
  } else {
    td_diag_t *d = td_diag(task, TD_B06, TD_NO_LOC,
                           "%s ends with status %d", tool.path, status);
    size_t n = text.length < SAID_BYTES ? text.length : SAID_BYTES;
    if (n > 0) td_diag_note(d, "%.*s", (int)n, text.data);
  }
  td_buf_free(&text);
  td_undefer(task, true);
  return ok;
}
