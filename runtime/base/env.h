/* Every knob that the environment can set, from one table. Names start with
   TDSL_; `tdslc doctor` lists them. Values are read when asked for, never
   cached, and an API setting or flag of the same meaning wins over them. */
#ifndef TD_ENV_H
#define TD_ENV_H

#include "runtime/base/str.h"

typedef enum td_env_id_t {
#define TD_ENV(id, type, fallback, level, affects, sentence) TD_ENV_##id,
#include "runtime/base/env.def"
#undef TD_ENV
  TD_ENV_COUNT
} td_env_id_t;

typedef enum td_env_type_t {
  TD_ENV_TEXT,
  TD_ENV_INT,
  TD_ENV_PATH,
  TD_ENV_LIST, /* comma-separated */
} td_env_type_t;

typedef struct td_env_row_t {
  const char *name; /* "TDSL_DEVICE" */
  td_env_type_t type;
  const char *fallback; /* the value when unset, as text; "" for none */
  const char *level;    /* "user", "developer" or "test" */
  bool affects_output;  /* part of the cache key */
  const char *sentence;
} td_env_row_t;

const td_env_row_t *td_env_row(td_env_id_t id);

/* The value set, else the fallback; never NULL. Borrowed from the process. */
const char *td_env_text(td_env_id_t id);
/* NULL if the variable is unset or empty. */
const char *td_env_set(td_env_id_t id);
/* As a decimal number; text that is none reads as the fallback. */
int64_t td_env_int(td_env_id_t id);
/* True if the list holds the item. */
bool td_env_list_has(td_env_id_t id, const char *item);

#endif
