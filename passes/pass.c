/* pass.c: the runner behind pass.h. */
#include "passes/pass.h"

#include "runtime/base/os.h"

const pass_info_t pass_table[PASS_COUNT] = {
#define PASS(id, name, level, numerics, optional, sentence) \
  {name, PASS_##level, PASS_##numerics, optional, sentence},
#include "passes/passes.def"
};

pass_id_t pass_find(const char *name, size_t length) {
  for (int i = 0; i < PASS_COUNT; i++) {
    if (td_str_eq(td_str(pass_table[i].name), td_str_n(name, length))) {
      return (pass_id_t)i;
    }
  }
  return PASS_COUNT;
}

/* Next name of a comma-separated list; moves *at behind it. */
static td_str_t next_name(const char **at) {
  const char *begin = *at;
  while (**at != '\0' && **at != ',') (*at)++;
  td_str_t name = td_str_n(begin, (size_t)(*at - begin));
  if (**at == ',') (*at)++;
  return name;
}

bool pass_is_enabled(const pass_options_t *options, pass_id_t id) {
  if (!pass_table[id].is_optional || options->disabled == NULL) return true;
  const char *at = options->disabled;
  while (*at != '\0') {
    td_str_t name = next_name(&at);
    if (td_str_eqc(name, "all")) return false;
    if (td_str_eqc(name, pass_table[id].name)) return false;
  }
  return true;
}

bool pass_check_options(td_task_t *task, const pass_options_t *options) {
  uint32_t before = td_task_errors(task);
  td_loc_t none = {0};
  const char *at = options->disabled == NULL ? "" : options->disabled;
  while (*at != '\0') {
    td_str_t name = next_name(&at);
    pass_id_t id = pass_find(name.data, name.length);
    if (td_str_eqc(name, "all")) continue;
    if (id == PASS_COUNT) {
      td_diag_t *d = td_diag(task, TD_B11, none, "no pass is called `%.*s`",
                             TD_STR_ARG(name));
      td_nearest_t nearest = td_nearest_start(name);
      for (int i = 0; i < PASS_COUNT; i++) {
        td_nearest_offer(&nearest, td_str(pass_table[i].name));
      }
      if (nearest.best.data != NULL) {
        td_diag_help(d, "did you mean `%.*s`?", TD_STR_ARG(nearest.best));
      }
    } else if (!pass_table[id].is_optional) {
      td_diag(task, TD_B11, none, "pass `%s` cannot be switched off",
              pass_table[id].name);
    }
  }
  if (options->stop_after != NULL &&
      pass_find(options->stop_after, strlen(options->stop_after)) ==
          PASS_COUNT) {
    td_diag(task, TD_B11, none, "no pass is called `%s`",
            options->stop_after);
  }
  return td_task_errors(task) == before;
}

/* Bookkeeping around one run: false if the pass must not run. */
static bool begin(pass_state_t *state, pass_id_t id, double *out_start) {
  if (state->has_stopped || !pass_is_enabled(state->options, id)) {
    return false;
  }
  state->task->stage = pass_table[id].name;
  *out_start = (double)td_os_now_ns() * 1e-9;
  return true;
}

static void end(pass_state_t *state, pass_id_t id, double start,
                bool changed) {
  pass_timing_t *t = &state->timing[id];
  t->runs++;
  t->changes += changed;
  t->seconds += (double)td_os_now_ns() * 1e-9 - start;
  const char *stop = state->options->stop_after;
  if (stop != NULL && strcmp(stop, pass_table[id].name) == 0) {
    state->has_stopped = true;
  }
}

/* Prints through fn, reads back with verify 2, hands to the dump hook. */
static void inspect(pass_state_t *state, pass_id_t id,
                    void (*print)(td_buf_t *, const void *),
                    bool (*reread)(pass_state_t *, const char *, size_t,
                                   td_buf_t *),
                    const void *ir) {
  const pass_options_t *o = state->options;
  if (o->dump == NULL && o->verify < 2) return;
  td_buf_t text;
  td_buf_init(&text, state->task);
  print(&text, ir);
  if (o->dump != NULL) {
    o->dump(o->dump_user, pass_table[id].name, text.data, text.length);
  }
  if (o->verify >= 2) {
    td_buf_t again;
    td_buf_init(&again, state->task);
    bool ok = reread(state, text.data, text.length, &again);
    TD_CHECK(state->task,
             ok && td_str_eq(td_buf_view(&text), td_buf_view(&again)),
             "print, parse, print is not the identity after %s",
             pass_table[id].name);
    td_buf_free(&again);
  }
  td_buf_free(&text);
}

static void print_tir(td_buf_t *out, const void *ir) {
  tir_print(out, ir);
}

static bool reread_tir(pass_state_t *state, const char *text, size_t length,
                       td_buf_t *out) {
  td_arena_t arena;
  td_arena_init(&arena, state->task);
  uint32_t file = td_sources_add(state->task, "<tir>", text, length);
  tir_module_t *module = tir_parse(state->task, &arena, file);
  if (module != NULL) tir_print(out, module);
  td_arena_free_all(&arena);
  return module != NULL;
}

static void print_kir(td_buf_t *out, const void *ir) {
  kir_print(out, ir);
}

static bool reread_kir(pass_state_t *state, const char *text, size_t length,
                       td_buf_t *out) {
  td_arena_t arena;
  td_arena_init(&arena, state->task);
  uint32_t file = td_sources_add(state->task, "<kir>", text, length);
  kir_kernel_t **kernels = kir_parse(state->task, &arena, file);
  if (kernels != NULL && kernels[0] != NULL) kir_print(out, kernels[0]);
  td_arena_free_all(&arena);
  return kernels != NULL;
}

void pass_run_tir(pass_state_t *state, pass_id_t id, pass_tir_fn fn,
                  tir_module_t *module) {
  double start;
  if (!begin(state, id, &start)) return;
  td_task_poll(state->task);
  bool changed = fn(state, module);
  end(state, id, start, changed);
  if (!changed) return;
  if (state->options->verify >= 1) {
    tir_verify(state->task, module, pass_table[id].name, false);
  }
  inspect(state, id, print_tir, reread_tir, module);
}

void pass_run_kir(pass_state_t *state, pass_id_t id, pass_kir_fn fn,
                  kir_kernel_t **kernels, uint32_t kernel_count) {
  double start;
  if (!begin(state, id, &start)) return;
  bool any = false;
  for (uint32_t i = 0; i < kernel_count; i++) {
    td_task_poll(state->task);
    if (!fn(state, kernels[i])) continue;
    any = true;
    if (state->options->verify >= 1) {
      kir_verify(state->task, kernels[i], pass_table[id].name, false);
    }
    inspect(state, id, print_kir, reread_kir, kernels[i]);
  }
  end(state, id, start, any);
}
