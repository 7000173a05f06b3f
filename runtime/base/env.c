/* The knobs' table and reading. getenv is asked every time: a host may change
   its environment between two calls, and we hold no state. */
#include "runtime/base/env.h"

#include "runtime/base/num.h"

#include <stdlib.h>

static const td_env_row_t rows[] = {
#define TD_ENV(id, type, fallback, level, affects, sentence)                  \
  {"TDSL_" #id, TD_ENV_##type, fallback, level, affects, sentence},
#include "runtime/base/env.def"
#undef TD_ENV
};

const td_env_row_t *td_env_row(td_env_id_t id) { return &rows[id]; }

/* An empty variable counts as unset: shells make it hard to tell the two
   apart, and no knob has a use for it. */
const char *td_env_set(td_env_id_t id) {
  const char *value = getenv(rows[id].name);
  return value && value[0] ? value : NULL;
}

const char *td_env_text(td_env_id_t id) {
  const char *value = td_env_set(id);
  return value ? value : rows[id].fallback;
}

/* A fallback that is no number ("") reads as 0. */
int64_t td_env_int(td_env_id_t id) {
  int64_t value;
  const char *set = td_env_set(id);
  if (set && td_parse_i64(td_str(set), &value)) return value;
  return td_parse_i64(td_str(rows[id].fallback), &value) ? value : 0;
}

/* Whole items only: "tile" is not in "tile_loops". */
bool td_env_list_has(td_env_id_t id, const char *item) {
  const char *p = td_env_text(id);
  size_t want = strlen(item);
  while (*p) {
    const char *comma = strchr(p, ',');
    size_t n = comma ? (size_t)(comma - p) : strlen(p);
    if (n == want && memcmp(p, item, n) == 0) return true;
    p += n + (comma != NULL);
  }
  return false;
}
