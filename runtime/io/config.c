/* Objects are flattened to dotted paths; a key that holds a point itself
   cannot be asked for and is passed over. */
#include "runtime/io/config.h"

#include "runtime/base/num.h"
#include "runtime/base/os.h"
#include "runtime/io/json.h"

/* Real ones have a few KB. */
#define LARGEST_CONFIG ((size_t)16 << 20)

/* Keys of the model families whose value changes the result, not only its
   size. */
static const char *const meaningful[] = {
    "attention_bias", "attn_logit_softcapping", "final_logit_softcapping",
    "hidden_act", "hidden_activation", "logit_scale", "mlp_bias",
    "no_repeat_ngram_size", "partial_rotary_factor", "position_embedding_type",
    "qk_norm", "query_pre_attn_scalar", "residual_multiplier", "rope_scaling",
    "rope_theta", "rotary_pct", "scale_attn_by_inverse_layer_idx",
    "sliding_window", "tie_word_embeddings", "use_sliding_window",
};

/* INT where the text is an integer of 64 bits; real is set for both. */
static bool read_number(io_json_t *j, io_config_value_t *v) {
  td_str_t text;
  if (!io_json_number_text(j, &text)) return false;
  v->kind = td_parse_i64(text, &v->integer) ? IO_CONFIG_INT : IO_CONFIG_REAL;
  return td_parse_f64(text, &v->real);
}

/* Arrays hold nothing that config() could name. */
static bool read_scalar(io_json_t *j, io_config_value_t *v) {
  switch (io_json_peek(j)) {
    case IO_JSON_NUMBER: return read_number(j, v);
    case IO_JSON_BOOL:
      v->kind = IO_CONFIG_BOOL;
      return io_json_bool(j, &v->truth);
    case IO_JSON_NULL: v->kind = IO_CONFIG_NULL; return io_json_null(j);
    case IO_JSON_TEXT:
    case IO_JSON_ARRAY:
      v->kind = IO_CONFIG_OTHER;
      return io_json_skip(j);
    case IO_JSON_OBJECT:
    case IO_JSON_NONE: break;
  }
  return false;
}

/* Iterative: prefix[d] is the path of the object that is open at depth d,
   and each turn reads one key of the innermost one. */
bool io_config_parse(td_task_t *task, td_arena_t *arena, uint32_t file,
                     td_str_t text, io_config_t *out) {
  io_json_t j;
  const char *prefix[IO_JSON_MAX_DEPTH + 1] = {""};
  out->file = file;
  td_map_init(&out->values, arena);
  io_json_begin(&j, task, arena, file, text);
  const char *path = "";
  bool open = io_json_object(&j);
  while (open && !j.failed) {
    prefix[j.depth] = path;
    td_str_t key;
    while (j.depth && !io_json_key(&j, &key) && !j.failed) {}
    if (j.failed || j.depth == 0) break;
    const char *around = prefix[j.depth];
    path = around;
    if (memchr(key.data, '.', key.length)) {
      if (!io_json_skip(&j)) break;
      continue;
    }
    const char *name =
        td_arena_printf(arena, "%s%s%.*s", around, around[0] ? "." : "",
                        TD_STR_ARG(key));
    io_config_value_t *v = TD_NEW(arena, io_config_value_t);
    v->path = name;
    bool is_object = io_json_peek(&j) == IO_JSON_OBJECT;
    io_json_place(&j, &v->line, &v->column);
    v->kind = IO_CONFIG_OTHER;
    if (is_object ? !io_json_object(&j) : !read_scalar(&j, v)) break;
    if (is_object) path = name;
    td_map_put(&out->values, td_str(name), v);
  }
  return io_json_end(&j);
}

bool io_config_read(td_task_t *task, td_arena_t *arena, const char *path,
                    io_config_t *out) {
  td_str_t text;
  if (!td_os_read_file(task, path, LARGEST_CONFIG, arena, &text)) {
    return false;
  }
  return io_config_parse(task, arena, td_sources_add_file(task, path), text,
                         out);
}

/* The map holds pointers, so marking does not touch it. */
const io_config_value_t *io_config_get(io_config_t *config, td_str_t path) {
  io_config_value_t *v = td_map_get(&config->values, path);
  if (v) v->used = true;
  return v;
}

/* A key below was asked for: the object is not ignored. */
static bool is_read_below(const io_config_t *config, const char *path) {
  size_t n = strlen(path);
  for (size_t i = 0; i < config->values.length; i++) {
    const io_config_value_t *v = config->values.entries[i].value;
    if (v->used && strncmp(v->path, path, n) == 0 && v->path[n] == '.') {
      return true;
    }
  }
  return false;
}

/* In the order of the table, not of the file: the same for every file. */
void io_config_warn(td_task_t *task, const io_config_t *config) {
  for (size_t i = 0; i < sizeof meaningful / sizeof *meaningful; i++) {
    const io_config_value_t *v =
        td_map_get(&config->values, td_str(meaningful[i]));
    if (!v || v->used || v->kind == IO_CONFIG_NULL) continue;
    if (v->kind == IO_CONFIG_BOOL && !v->truth) continue;
    if (is_read_below(config, v->path)) continue;
    td_loc_t loc = {config->file, v->line, v->column, 0, 0};
    td_diag_t *d = td_diag(task, TD_W05, loc,
                           "the program does not read \"%s\", which changes "
                           "what the model computes",
                           v->path);
    td_diag_help(d, "read it with config(\"%s\"), or make sure that the text "
                    "does what its value says",
                 v->path);
  }
}
