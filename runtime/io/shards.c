/* The index is untrusted like the shards: it may name plain files of its own
   folder only, and what it promises must be there. */
#include "runtime/io/shards.h"

#include "runtime/io/json.h"

/* Index files of the largest published models have a few MB. */
#define LARGEST_INDEX ((size_t)100 << 20)

typedef struct opening_t {
  td_task_t *task;
  td_arena_t *arena;
  io_checkpoint_t *out;
  const char *folder;
  td_map_t shards; /* file name to io_safetensors_t * */
} opening_t;

/* Names are unique: within a file by its reader, across shards because the
   index is an object. */
static void add_tensor(opening_t *o, const io_st_tensor_t *t,
                       const io_safetensors_t *shard) {
  io_checkpoint_tensor_t *c = TD_NEW(o->arena, io_checkpoint_tensor_t);
  c->tensor = t;
  c->shard = shard;
  td_vec_push(o->arena, &o->out->tensors, c);
  td_map_put(&o->out->by_name, td_str(t->name), c);
}

static bool open_shard(opening_t *o, const char *path,
                       io_safetensors_t **out) {
  io_safetensors_t *st = TD_NEW(o->arena, io_safetensors_t);
  /* Room first: once the file is open, nothing may unwind before it is on
     the list that closes it. */
  td_vec_reserve(o->arena, &o->out->shards, 1);
  if (!io_safetensors_open(o->task, o->arena, path, st)) return false;
  td_vec_push(o->arena, &o->out->shards, st);
  *out = st;
  return true;
}

/* A lone file offers all of its tensors. */
static bool open_single(opening_t *o, const char *path) {
  io_safetensors_t *st;
  if (!open_shard(o, path, &st)) return false;
  for (size_t i = 0; i < st->tensors.length; i++) {
    add_tensor(o, &st->tensors.data[i], st);
  }
  return true;
}

/* -- the index -- */

/* The backslash too: a checkpoint should mean the same on every system. */
static bool is_plain(td_str_t name) {
  if (name.length == 0 || td_str_eqc(name, ".") || td_str_eqc(name, "..")) {
    return false;
  }
  return !memchr(name.data, '/', name.length) &&
         !memchr(name.data, '\\', name.length);
}

/* A symbolic link may point at a file of the same folder, nowhere else. */
static bool stays_inside(opening_t *o, const char *path) {
  const char *folder = o->folder[0] ? o->folder : ".";
  const char *real = td_os_real_path(&o->task->arena, path);
  const char *home = td_os_real_path(&o->task->arena, folder);
  if (!real || !home) return true; /* opening it will say why */
  return strcmp(td_os_folder_of(&o->task->arena, real), home) == 0;
}

/* The shard of this name, opened at its first mention. */
static bool get_shard(opening_t *o, io_json_t *j, td_str_t name,
                      io_safetensors_t **out) {
  *out = td_map_get(&o->shards, name);
  if (*out) return true;
  if (!is_plain(name)) {
    return io_json_fail(j, TD_F27, "shard \"%.*s\" is not a plain file name",
                        TD_STR_ARG(name));
  }
  const char *path =
      td_os_join(o->arena, o->folder, td_str_cstr(o->arena, name));
  if (!stays_inside(o, path)) {
    return io_json_fail(j, TD_F28,
                        "shard \"%.*s\" is a link that leads out of its "
                        "folder",
                        TD_STR_ARG(name));
  }
  if (!open_shard(o, path, out)) {
    j->failed = true; /* reported already */
    return false;
  }
  td_map_put(&o->shards, name, *out);
  return true;
}

/* Each tensor is looked up at once, so the message names the first that is
   missing and the place in the index that promised it. */
static bool read_weight_map(opening_t *o, io_json_t *j) {
  td_str_t name, file;
  if (io_json_peek(j) != IO_JSON_OBJECT) {
    return io_json_fail(j, TD_F26, "weight_map is not an object");
  }
  if (!io_json_object(j)) return false;
  while (io_json_key(j, &name)) {
    if (io_json_peek(j) != IO_JSON_TEXT) {
      return io_json_fail(j, TD_F26, "the shard of \"%.*s\" is not text",
                          TD_STR_ARG(name));
    }
    io_safetensors_t *shard;
    if (!io_json_text(j, &file) || !get_shard(o, j, file, &shard)) {
      return false;
    }
    const io_st_tensor_t *t = io_safetensors_find(shard, name);
    if (!t) {
      return io_json_fail(j, TD_F29,
                          "tensor \"%.*s\" is not in %.*s, where the index "
                          "puts it",
                          TD_STR_ARG(name), TD_STR_ARG(file));
    }
    add_tensor(o, t, shard);
  }
  return !j->failed;
}

/* Other keys ("metadata") are checked for form and ignored. */
static bool open_index(opening_t *o, const char *path) {
  td_str_t text, key;
  if (!td_os_read_file(o->task, path, LARGEST_INDEX, o->arena, &text)) {
    return false;
  }
  io_json_t j;
  bool found = false;
  io_json_begin(&j, o->task, o->arena, td_sources_add_file(o->task, path),
                text);
  if (io_json_peek(&j) != IO_JSON_OBJECT) {
    io_json_fail(&j, TD_F26, "the index is not an object");
  }
  if (io_json_object(&j)) {
    while (io_json_key(&j, &key)) {
      bool is_map = td_str_eqc(key, "weight_map");
      found |= is_map;
      if (is_map ? !read_weight_map(o, &j) : !io_json_skip(&j)) break;
    }
  }
  if (!found) io_json_fail(&j, TD_F26, "the index has no weight_map");
  return io_json_end(&j);
}

/* -- the whole -- */

static void close_all(void *arg) { io_checkpoint_close(arg); }

/* What a path stands for is decided by its kind and name, never by trying. */
static bool open_any(opening_t *o, const char *path) {
  td_arena_t *scratch = &o->task->arena;
  if (td_os_is_folder(path)) {
    const char *index =
        td_os_join(scratch, path, "model.safetensors.index.json");
    if (!td_os_exists(index)) {
      return open_single(o, td_os_join(scratch, path, "model.safetensors"));
    }
    path = index;
  }
  if (!td_str_ends(td_str(path), ".json")) return open_single(o, path);
  o->folder = td_os_folder_of(scratch, path);
  return open_index(o, path);
}

/* A fault in the last shard closes the first ones again. */
bool io_checkpoint_open(td_task_t *task, td_arena_t *arena, const char *path,
                        io_checkpoint_t *out) {
  memset(out, 0, sizeof *out);
  out->path = td_arena_strdup(arena, path);
  td_map_init(&out->by_name, arena);
  opening_t o = {.task = task, .arena = arena, .out = out, .folder = ""};
  td_map_init(&o.shards, &task->arena);
  td_defer(task, close_all, out);
  bool ok = open_any(&o, path);
  td_undefer(task, !ok);
  return ok;
}

/* Also the cleanup while opening; a second call does nothing. */
void io_checkpoint_close(io_checkpoint_t *checkpoint) {
  for (size_t i = 0; i < checkpoint->shards.length; i++) {
    io_safetensors_close(checkpoint->shards.data[i]);
  }
  checkpoint->shards.length = 0;
}

io_checkpoint_tensor_t *io_checkpoint_find(const io_checkpoint_t *checkpoint,
                                           td_str_t name) {
  return td_map_get(&checkpoint->by_name, name);
}

td_str_t io_checkpoint_nearest(const io_checkpoint_t *checkpoint,
                               td_str_t name) {
  td_nearest_t nearest = td_nearest_start(name);
  for (size_t i = 0; i < checkpoint->tensors.length; i++) {
    const char *text = checkpoint->tensors.data[i]->tensor->name;
    td_nearest_offer(&nearest, td_str(text));
  }
  return nearest.best;
}

/* For W04, and its error under --strict. */
size_t io_checkpoint_unused(const io_checkpoint_t *checkpoint) {
  size_t count = 0;
  for (size_t i = 0; i < checkpoint->tensors.length; i++) {
    count += !checkpoint->tensors.data[i]->used;
  }
  return count;
}
