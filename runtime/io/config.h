/* config.json: the numbers and bools that config("a.b") reads. */
#ifndef IO_CONFIG_H
#define IO_CONFIG_H

#include "runtime/base/task.h"

typedef enum io_config_kind_t {
  IO_CONFIG_NULL,
  IO_CONFIG_BOOL,
  IO_CONFIG_INT,
  IO_CONFIG_REAL, /* also integers beyond 64 bits */
  IO_CONFIG_OTHER, /* text, array, object */
} io_config_kind_t;

typedef struct io_config_value_t {
  const char *path; /* "rope_scaling.factor" */
  io_config_kind_t kind;
  bool truth;
  int64_t integer;
  double real; /* of INT too */
  uint32_t line, column;
  bool used; /* asked for by io_config_get */
} io_config_value_t;

typedef struct io_config_t {
  uint32_t file;
  td_map_t values; /* dotted path to io_config_value_t * */
} io_config_t;

bool io_config_read(td_task_t *task, td_arena_t *arena, const char *path,
                    io_config_t *out);
bool io_config_parse(td_task_t *task, td_arena_t *arena, uint32_t file,
                     td_str_t text, io_config_t *out);

/* NULL if there is no such key. Marks it as used. */
const io_config_value_t *io_config_get(io_config_t *config, td_str_t path);

/* W05 for each key that changes what the model computes, has a value other
   than null and false, and was not asked for. */
void io_config_warn(td_task_t *task, const io_config_t *config);

#endif
