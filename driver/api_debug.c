/* api_debug.c: what developers' knobs ask for while a program is compiled.
 *
 *   TDSL_DEBUG        a ladder: 1 plans, 2 times of passes, 3 kernel cards,
 *                     4 kernel text, 5 IR after each pass that changed it
 *   TDSL_DUMP_AFTER   the IR after these passes
 *   TDSL_DUMP_DIR     all of it as files (api_trace.c); --trace DIR is the
 *                     same
 *   TDSL_OVERRIDE_DIR NAME.kir there replaces that kernel, mN.cu the CUDA C
 *                     of a module, both under the names that DUMP_DIR gives
 *
 * Texts go to the host's log. */
#include "driver/api_backend.h"

#include "runtime/base/env.h"

/* ---- during the passes -------------------------------------------------- */

static void see_pass(void *user, const char *pass, const char *text,
                     size_t length) {
  drv_backend_t *b = user;
  pass_id_t id = pass_find(pass, strlen(pass));
  bool is_kir = id != PASS_COUNT && pass_table[id].level == PASS_KIR;
  if (td_env_int(TD_ENV_DEBUG) >= 5 ||
      td_env_list_has(TD_ENV_DUMP_AFTER, pass)) {
    td_log(b->c->task, TDSL_SEVERITY_DEBUG, pass, "\n%.*s", (int)length,
           text);
  }
  if (drv_trace_folder(b) == NULL) return;
  b->dump_count++;
  drv_trace_write(b,
             td_arena_printf(b->c->arena, "%02u-%s.%s", b->dump_count, pass,
                             is_kir ? "kir" : "tir"),
             text, length);
}

void drv_debug_begin(drv_backend_t *b) {
  bool wants = td_env_int(TD_ENV_DEBUG) >= 5 ||
               td_env_set(TD_ENV_DUMP_AFTER) != NULL ||
               drv_trace_folder(b) != NULL;
  drv_trace_begin(b);
  if (!wants || b->options.dump != NULL) return;
  b->options.dump = see_pass;
  b->options.dump_user = b;
  if (drv_trace_folder(b) == NULL) return;
  td_buf_t text;
  td_buf_init(&text, b->c->task);
  tir_print(&text, b->c->tir);
  drv_trace_write(b, "00-lowered.tir", text.data, text.length);
  td_buf_free(&text);
}

/* ---- afterwards --------------------------------------------------------- */

static void log_times(drv_backend_t *b) {
  for (int i = 0; i < PASS_COUNT; i++) {
    const pass_timing_t *t = &b->state.timing[i];
    if (t->runs == 0) continue;
    td_log(b->c->task, TDSL_SEVERITY_DEBUG, "passes",
           "%s: %u runs, %u changes, %u us", pass_table[i].name, t->runs,
           t->changes, (unsigned)(t->seconds * 1e6));
  }
}

static void kernel_texts(drv_backend_t *b, int64_t level) {
  for (uint32_t k = 0; k < b->kernels.count; k++) {
    const kir_kernel_t *kernel = b->kernels.kernels[k];
    td_buf_t text;
    td_buf_init(&text, b->c->task);
    if (level >= 3 && kernel->card != NULL) {
      td_log(b->c->task, TDSL_SEVERITY_DEBUG, kernel->name, "\n%s",
             kernel->card);
    }
    kir_print(&text, kernel);
    if (level >= 4) {
      td_log(b->c->task, TDSL_SEVERITY_DEBUG, kernel->name, "\n%s",
             text.data);
    }
    if (drv_trace_folder(b) != NULL) {
      drv_trace_write(b,
                 td_arena_printf(b->c->arena, "kernels/%s.kir", kernel->name),
                 text.data, text.length);
    }
    td_buf_free(&text);
  }
}

void drv_debug_end(drv_backend_t *b) {
  int64_t level = td_env_int(TD_ENV_DEBUG);
  bool has_folder = drv_trace_folder(b) != NULL;
  if (level < 1 && !has_folder) return;
  drv_trace_end(b);
  if (level >= 2) log_times(b);
  kernel_texts(b, level);
  td_buf_t text;
  td_buf_init(&text, b->c->task);
  plan_print(&text, b->plan, false);
  if (level >= 1) {
    td_log(b->c->task, TDSL_SEVERITY_DEBUG, "plan", "\n%s", text.data);
  }
  if (has_folder) drv_trace_write(b, "plan.txt", text.data, text.length);
  td_buf_free(&text);
}

/* ---- texts edited by hand ----------------------------------------------- */

/* The plan keeps the launch geometry of the kernel it was made with, so an
 * edited one must have the same. */
static bool same_frame(drv_backend_t *b, const kir_kernel_t *mine,
                       const kir_kernel_t *edited) {
  td_arena_t *arena = b->c->arena;
  return mine->param_count == edited->param_count &&
         mine->dim_count == edited->dim_count &&
         strcmp(ix_text(arena, kir_block_count(mine)),
                ix_text(arena, kir_block_count(edited))) == 0 &&
         strcmp(ix_text(arena, kir_scratch_bytes(mine)),
                ix_text(arena, kir_scratch_bytes(edited))) == 0;
}

bool drv_debug_override_text(drv_backend_t *b, const char *name,
                             td_str_t *out) {
  const char *folder = td_env_set(TD_ENV_OVERRIDE_DIR);
  if (folder == NULL) return false;
  const char *path = td_os_join(b->c->arena, folder, name);
  if (!td_os_exists(path)) return false;
  if (td_os_read_file(b->c->task, path, 0, b->c->arena, out)) return true;
  td_raise(b->c->task, TDSL_STATUS_IO, "%s cannot be read", path);
}

kir_kernel_t *drv_debug_override(drv_backend_t *b, const kir_kernel_t *kernel,
                                 td_str_t *out) {
  drv_compile_t *c = b->c;
  const char *name = td_arena_printf(c->arena, "%s.kir", kernel->name);
  if (!drv_debug_override_text(b, name, out)) return NULL;
  uint32_t file = td_sources_add(c->task, name, out->data, out->length);
  kir_kernel_t **read = kir_parse(c->task, c->arena, file);
  bool ok = read != NULL && read[0] != NULL &&
            kir_verify(c->task, read[0], "override", true);
  if (ok && !same_frame(b, kernel, read[0])) {
    td_loc_t loc = {file, 1, 1, 0, 0};
    td_diag(c->task, TD_F70, loc,
            "the edited kernel has other parameters, blocks or scratch");
    ok = false;
  }
  if (!ok) {
    td_raise(c->task, TDSL_STATUS_INVALID_FILE,
             "%s does not fit the kernel %s", name, kernel->name);
  }
  return read[0];
}
