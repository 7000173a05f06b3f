/* Every file of tests/formats, and what the good ones hold. The files come
   from tests/formats/make_hostile.py; the manifest says what must be found
   in each and why it exists. */
#include "unit.h"

#include "runtime/base/rng.h"
#include "runtime/io/config.h"
#include "runtime/io/inflate.h"
#include "runtime/io/npy.h"
#include "runtime/io/shards.h"
#include "runtime/io/values.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

static const char *path_of(td_task_t *task, const char *name) {
  return td_os_join(&task->arena, TDSL_TESTS_DIR "/formats/files", name);
}

/* -- the manifest -- */

typedef struct attempt_t {
  const char *name;
  bool ok;
} attempt_t;

static void read_any(td_task_t *task, void *arg) {
  attempt_t *a = arg;
  td_str_t name = td_str(a->name);
  const char *path = path_of(task, a->name);
  td_arena_t arena;
  td_arena_init(&arena, task);
  if (td_str_ends(name, ".safetensors")) {
    io_safetensors_t st;
    a->ok = io_safetensors_open(task, &arena, path, &st);
    if (a->ok) io_safetensors_close(&st);
  } else if (td_str_ends(name, ".index.json")) {
    io_checkpoint_t c;
    a->ok = io_checkpoint_open(task, &arena, path, &c);
    if (a->ok) io_checkpoint_close(&c);
  } else if (td_str_ends(name, ".npy")) {
    io_tensor_t t;
    a->ok = io_npy_read(task, &arena, path, &t);
  } else if (td_str_ends(name, ".npz")) {
    io_leaves_t leaves = {0};
    a->ok = io_npz_read(task, &arena, path, 0, &leaves);
  } else {
    io_leaves_t leaves = {0};
    td_str_t text;
    a->ok = td_os_read_file(task, path, 0, &arena, &text) &&
            io_values_parse(task, &arena, td_sources_add_file(task, path),
                            text, "x", &leaves);
  }
  td_arena_free_all(&arena);
}

TASK_TEST(every_file_of_the_manifest) {
  (void)arg;
  td_str_t manifest = unit_file(task, "formats/manifest.txt");
  const char *p = manifest.data;
  int count = 0;
  while (*p) {
    const char *tab = strchr(p, '\t'), *next = strchr(tab + 1, '\t');
    const char *end = strchr(next, '\n');
    attempt_t a = {td_arena_strndup(&task->arena, p, (size_t)(tab - p)),
                   false};
    td_str_t want = td_str_n(tab + 1, (size_t)(next - tab - 1));
    bool is_ok = td_str_eqc(want, "ok");
    td_task_t inner;
    td_task_init(&inner, NULL);
    assert_int_equal(td_task_run(&inner, read_any, &a), TDSL_STATUS_OK);
    const char *got = a.ok ? "ok" : unit_first_id(&inner);
    if (!td_str_eqc(want, got)) {
      print_error("%s: wanted %.*s, got %s: %.*s\n", a.name,
                  TD_STR_ARG(want), got, (int)(end - next), next);
    }
    assert_true(td_str_eqc(want, got));
    assert_int_equal(td_task_errors(&inner), is_ok ? 0 : 1);
    td_task_free(&inner);
    count++;
    p = end + 1;
  }
  assert_true(count > 150);
}

/* The same files with every allocation failing in turn, and cut at every
   length: never a crash, and the whole is the only length that is read. */
static void sweep_one(const char *name) {
  attempt_t a = {name, false};
  unit_sweep(read_any, &a);
}

static void allocations_may_fail(void **state) {
  (void)state;
  sweep_one("ok_all_types.safetensors");
  sweep_one("ok_two.index.json");
  sweep_one("ok_packed.npz");
  sweep_one("ok_struct.json");
  sweep_one("bad_hole.safetensors");
}

typedef struct cut_t {
  const char *data;
  size_t length;
  int kind;
  bool ok;
} cut_t;

static void read_cut(td_task_t *task, void *arg) {
  cut_t *c = arg;
  io_safetensors_t st;
  io_tensor_t t;
  io_leaves_t leaves = {0};
  uint32_t file = td_sources_add_file(task, "cut");
  if (c->kind == 0) {
    c->ok = io_safetensors_parse(task, &task->arena, file, c->data, c->length,
                                 &st);
  } else if (c->kind == 1) {
    c->ok = io_npy_parse(task, &task->arena, file, c->data, c->length, &t);
  } else {
    c->ok = io_npz_parse(task, &task->arena, file, c->data, c->length, 0,
                         &leaves);
  }
  assert_true(c->ok == (td_task_errors(task) == 0));
}

static void cut_everywhere(td_task_t *task, const char *name, int kind) {
  td_str_t whole;
  assert_true(td_os_read_file(task, path_of(task, name), 0, &task->arena,
                              &whole));
  for (size_t n = 0; n <= whole.length; n++) {
    /* A copy of exactly n bytes, so that a checker sees any step beyond. */
    char *copy = malloc(n ? n : 1);
    memcpy(copy, whole.data, n);
    cut_t c = {copy, n, kind, false};
    td_task_t inner;
    td_task_init(&inner, NULL);
    assert_int_equal(td_task_run(&inner, read_cut, &c), TDSL_STATUS_OK);
    td_task_free(&inner);
    free(copy);
    assert_true(c.ok == (n == whole.length));
  }
}

TASK_TEST(cut_files_are_refused) {
  (void)arg;
  cut_everywhere(task, "ok_all_types.safetensors", 0);
  cut_everywhere(task, "ok_plain.npy", 1);
  cut_everywhere(task, "ok_packed.npz", 2);
}

/* -- contents -- */

TASK_TEST(safetensors_contents) {
  (void)arg;
  io_safetensors_t st;
  assert_true(io_safetensors_open(task, &task->arena,
                                  path_of(task, "ok_all_types.safetensors"),
                                  &st));
  assert_int_equal(st.tensors.length, 22);
  const io_st_tensor_t *t = io_safetensors_find(&st, td_str("BF16"));
  assert_non_null(t);
  assert_int_equal(t->dtype, TDSL_DTYPE_BF16);
  assert_int_equal(t->rank, 1);
  assert_int_equal(t->dims[0], 4);
  assert_int_equal(t->bytes, 8);
  t = io_safetensors_find(&st, td_str("F6_E2M3"));
  assert_int_equal(t->dtype, TDSL_DTYPE_UNSET);
  assert_string_equal(t->dtype_name, "F6_E2M3");
  assert_int_equal(t->bytes, 3);
  assert_null(io_safetensors_find(&st, td_str("F7")));
  io_safetensors_close(&st);
  assert_true(io_safetensors_open(task, &task->arena,
                                  path_of(task, "ok_metadata.safetensors"),
                                  &st));
  assert_string_equal(st.metadata.data[0].key, "format");
  assert_string_equal(st.metadata.data[0].value, "pt");
  io_safetensors_close(&st);
  assert_true(io_safetensors_open(
      task, &task->arena, path_of(task, "ok_escaped_name.safetensors"), &st));
  assert_non_null(io_safetensors_find(&st, td_str("\xc3\xa9\"")));
  io_safetensors_close(&st);
}

static const char *make_folder(td_task_t *task) {
  const char *name = td_arena_printf(&task->arena, "unit_formats_%d.tmp",
                                     (int)getpid());
  assert_true(td_os_make_folders(task, name));
  return name;
}

TASK_TEST(safetensors_writing) {
  (void)arg;
  const char *folder = make_folder(task);
  const char *path = td_os_join(&task->arena, folder, "out.safetensors");
  io_leaf_t leaves[3] = {{.name = "z"}, {.name = "a\"b"}, {.name = "m"}};
  leaves[0].tensor = (io_tensor_t){TDSL_DTYPE_U8, 1, {3}, 0, 0, NULL};
  leaves[1].tensor = (io_tensor_t){TDSL_DTYPE_F32, 2, {2, 2}, 0, 0, NULL};
  leaves[2].tensor = (io_tensor_t){TDSL_DTYPE_F64, 0, {0}, 0, 0, NULL};
  for (int i = 0; i < 3; i++) {
    assert_true(io_tensor_alloc(&leaves[i].tensor, &task->arena));
    memset(leaves[i].tensor.data, 0x11 * (i + 1), leaves[i].tensor.bytes);
  }
  assert_true(io_safetensors_write(task, path, leaves, 3));
  io_checkpoint_t c;
  assert_true(io_checkpoint_open(task, &task->arena, path, &c));
  for (int i = 0; i < 3; i++) {
    const io_checkpoint_tensor_t *t =
        io_checkpoint_find(&c, td_str(leaves[i].name));
    assert_non_null(t);
    assert_int_equal(t->tensor->dtype, leaves[i].tensor.dtype);
    assert_int_equal(t->tensor->rank, leaves[i].tensor.rank);
    assert_memory_equal(t->tensor->data, leaves[i].tensor.data,
                        leaves[i].tensor.bytes);
    assert_int_equal((uintptr_t)t->tensor->data %
                         td_dtype_bytes(t->tensor->dtype),
                     0);
  }
  io_checkpoint_close(&c);
  unlink(path);
  rmdir(folder);
}

TASK_TEST(shards_are_one_checkpoint) {
  (void)arg;
  io_checkpoint_t c;
  assert_true(io_checkpoint_open(task, &task->arena,
                                 path_of(task, "ok_two.index.json"), &c));
  assert_int_equal(c.tensors.length, 2);
  io_checkpoint_tensor_t *a = io_checkpoint_find(&c, td_str("a"));
  float values[2];
  memcpy(values, a->tensor->data, sizeof values);
  assert_true(values[0] == 1.5f && values[1] == -2.0f);
  assert_true(td_str_ends(td_str(a->shard->path), "shard_1.safetensors"));
  a->used = true;
  assert_int_equal(io_checkpoint_unused(&c), 1);
  io_checkpoint_close(&c);
  assert_int_equal(td_task_errors(task), 0);
}

TASK_TEST(shard_links_stay_in_the_folder) {
  (void)arg;
  const char *folder = make_folder(task);
  const char *inside = td_os_join(&task->arena, folder, "in.safetensors");
  const char *index = td_os_join(&task->arena, folder,
                                 "model.safetensors.index.json");
  const char *link = td_os_join(&task->arena, folder, "link.safetensors");
  td_str_t shard;
  td_str_t text = td_str("{\"weight_map\":{\"a\":\"link.safetensors\"}}");
  assert_true(td_os_read_file(task, path_of(task, "shard_1.safetensors"), 0,
                              &task->arena, &shard));
  assert_true(td_os_write_atomic(task, inside, shard.data, shard.length));
  assert_true(td_os_write_atomic(task, index, text.data, text.length));
  assert_int_equal(symlink("in.safetensors", link), 0);
  io_checkpoint_t c;
  assert_true(io_checkpoint_open(task, &task->arena, folder, &c));
  assert_non_null(io_checkpoint_find(&c, td_str("a")));
  io_checkpoint_close(&c);
  unlink(link);
  assert_int_equal(symlink(path_of(task, "shard_1.safetensors"), link), 0);
  assert_false(io_checkpoint_open(task, &task->arena, folder, &c));
  assert_string_equal(unit_first_id(task), "F28");
  unlink(link);
  unlink(inside);
  unlink(index);
  rmdir(folder);
}

TASK_TEST(nearest_tensor_names) {
  (void)arg;
  io_checkpoint_t c;
  assert_true(io_checkpoint_open(
      task, &task->arena, path_of(task, "ok_all_types.safetensors"), &c));
  assert_true(td_str_eqc(io_checkpoint_nearest(&c, td_str("F8_E5M3")),
                         "F8_E5M2"));
  assert_null(io_checkpoint_nearest(&c, td_str("lm_head.weight")).data);
  io_checkpoint_close(&c);
}

TASK_TEST(npy_contents) {
  (void)arg;
  static const char *const names[] = {"ok_plain.npy", "ok_fortran.npy",
                                      "ok_version_2.npy"};
  io_tensor_t t;
  for (int n = 0; n < 3; n++) {
    assert_true(io_npy_read(task, &task->arena, path_of(task, names[n]), &t));
    assert_int_equal(t.rank, 2);
    assert_int_equal(t.dims[0], 2);
    assert_int_equal(t.dims[1], 3);
    for (int i = 0; i < 6; i++) {
      assert_true(((float *)t.data)[i] == (float)(i + 1));
    }
  }
  assert_true(io_npy_read(task, &task->arena, path_of(task, "ok_bf16.npy"),
                          &t));
  assert_int_equal(t.dtype, TDSL_DTYPE_BF16);
  assert_true(td_load_f64(t.dtype, t.data) == 1);
  io_leaves_t leaves = {0};
  assert_true(io_npz_read(task, &task->arena,
                          path_of(task, "ok_packed.npz"), 0, &leaves));
  assert_int_equal(leaves.length, 2);
  assert_string_equal(leaves.data[0].name, "a");
  assert_true(((float *)leaves.data[0].tensor.data)[5] == 6);
  assert_int_equal(leaves.data[1].tensor.count, 1000);
  leaves.length = 0;
  assert_false(io_npz_read(task, &task->arena, path_of(task, "ok_packed.npz"),
                           1000, &leaves));
  assert_string_equal(unit_first_id(task), "F52");
}

TASK_TEST(npy_writing) {
  (void)arg;
  for (int d = 1; d <= TDSL_DTYPE_BOOL; d++) {
    io_tensor_t t = {.dtype = (tdsl_dtype_t)d, .rank = 1, .dims = {2}}, back;
    assert_true(io_tensor_alloc(&t, &task->arena));
    td_store_f64(t.dtype, (char *)t.data + td_dtype_bytes(t.dtype), 1);
    td_buf_t buf;
    td_buf_init(&buf, task);
    io_npy_put(&buf, &t);
    assert_true(io_npy_parse(task, &task->arena, 0, buf.data, buf.length,
                             &back));
    bool is_f8 = d == TDSL_DTYPE_F8E4M3 || d == TDSL_DTYPE_F8E5M2;
    assert_int_equal(back.dtype, is_f8 ? TDSL_DTYPE_F32 : d);
    assert_true(td_load_f64(back.dtype, back.data) == 0);
    assert_true(td_load_f64(back.dtype, (char *)back.data +
                                            td_dtype_bytes(back.dtype)) == 1);
    assert_int_equal((buf.length - back.bytes) % 64, 0);
    td_buf_free(&buf);
  }
}

TASK_TEST(other_widths_are_taken_if_exact) {
  (void)arg;
  io_tensor_t t = {.dtype = TDSL_DTYPE_F64, .rank = 1, .dims = {2}}, out;
  assert_true(io_tensor_alloc(&t, &task->arena));
  double *v = t.data;
  v[0] = 1.5;
  v[1] = (double)NAN;
  assert_true(io_tensor_convert(task, &task->arena, 0, &t, TDSL_DTYPE_BF16,
                                &out));
  assert_true(td_load_f64(TDSL_DTYPE_BF16, out.data) == 1.5);
  v[1] = 1.001;
  assert_false(io_tensor_convert(task, &task->arena, 0, &t, TDSL_DTYPE_BF16,
                                 &out));
  assert_string_equal(unit_first_id(task), "F62");
  assert_false(io_tensor_convert(task, &task->arena, 0, &t, TDSL_DTYPE_I32,
                                 &out));
}

static void known_streams(void **state) {
  (void)state;
  /* RFC 1951 by hand: a stored block, and "aaaaa" as one literal and a copy
     of length 4 from distance 1 with the fixed codes. */
  static const unsigned char stored[] = {1, 3, 0, 0xfc, 0xff, 'a', 'b', 'c'};
  static const unsigned char fixed[] = {0x4b, 0x04, 0x01, 0x00};
  unsigned char out[8];
  assert_true(io_inflate(stored, sizeof stored, out, 3));
  assert_memory_equal(out, "abc", 3);
  assert_false(io_inflate(stored, sizeof stored, out, 4));
  assert_true(io_inflate(fixed, sizeof fixed, out, 5));
  assert_memory_equal(out, "aaaaa", 5);
  assert_false(io_inflate(fixed, 2, out, 5));
  /* The check value of CRC-32/ISO-HDLC. */
  assert_true(io_crc32((const unsigned char *)"123456789", 9) == 0xcbf43926);
}

/* -- values -- */

static const io_leaf_t *leaf_of(td_task_t *task, const char *file,
                                const char *name, io_leaves_t *leaves) {
  td_str_t text;
  assert_true(td_os_read_file(task, path_of(task, file), 0, &task->arena,
                              &text));
  memset(leaves, 0, sizeof *leaves);
  assert_true(io_values_parse(task, &task->arena, 0, text, "x", leaves));
  return io_leaves_find(leaves, td_str(name));
}

TASK_TEST(values_contents) {
  (void)arg;
  io_leaves_t leaves;
  const io_leaf_t *leaf = leaf_of(task, "ok_tensor.json", "x", &leaves);
  const float *f = leaf->tensor.data;
  assert_true(f[0] == 1.5f && isinf(f[1]) && f[1] > 0 && isinf(f[2]) &&
              f[2] < 0 && isnan(f[3]));
  leaf = leaf_of(task, "ok_late.json", "x", &leaves);
  assert_int_equal(((int8_t *)leaf->tensor.data)[1], 2);
  leaf = leaf_of(task, "ok_uniform.json", "x", &leaves);
  /* vectors/uniform.json: seed 1, counters 0 and 1 */
  f = leaf->tensor.data;
  assert_true((double)f[0] == 0.8902591466903687);
  assert_true((double)f[1] == 0.8946846723556519);
  leaf = leaf_of(task, "ok_struct.json", "x.b.c", &leaves);
  assert_int_equal(leaves.length, 2);
  assert_string_equal(leaves.data[0].name, "x.a");
  assert_int_equal(*(int32_t *)leaves.data[0].tensor.data, 7);
  assert_memory_equal(leaf->tensor.data, "\1\0", 2);
}

TASK_TEST(results_are_nested_again) {
  (void)arg;
  static float f[2] = {0.5f, INFINITY};
  static int32_t n[1] = {-3};
  io_tensor_t t = {TDSL_DTYPE_F32, 1, {2}, 2, 8, f};
  io_tensor_t s = {TDSL_DTYPE_I32, 0, {0}, 1, 4, n};
  io_leaf_t results[] = {{"o", t, TDSL_DTYPE_UNSET},
                         {"c.k.a", s, TDSL_DTYPE_UNSET},
                         {"c.k.b", s, TDSL_DTYPE_UNSET},
                         {"c.v", t, TDSL_DTYPE_BF16},
                         {"ca", s, TDSL_DTYPE_UNSET}};
  td_buf_t buf;
  td_buf_init(&buf, task);
  io_results_put(&buf, "f", results, 5, NULL, 0);
  const char *i32 = "{\"dtype\": \"i32\", \"shape\": [], \"data\": [-3]}";
  const char *want = td_arena_printf(
      &task->arena,
      "{\"format\": 1, \"fn\": \"f\",\n \"results\": {\"o\": {\"dtype\": "
      "\"f32\", \"shape\": [2], \"data\": [0.5, \"inf\"]}, \"c\": {\"k\": "
      "{\"a\": %s, \"b\": %s}, \"v\": {\"dtype\": \"bf16\", \"shape\": [2], "
      "\"data\": [0.5, \"inf\"]}}, \"ca\": %s},\n \"state\": {}}\n",
      i32, i32, i32);
  assert_string_equal(buf.data, want);
}

/* The formulas of tests/oracle/README.md over the generator, which test_num
   compares with its known answers. */
TASK_TEST(random_inputs) {
  (void)arg;
  int64_t at[3] = {2, 1, 0};
  io_tensor_t t = {.dtype = TDSL_DTYPE_I32, .rank = 1, .dims = {100}};
  assert_true(io_tensor_alloc(&t, &task->arena));
  assert_true(io_random_fill(task, "x", &t, 5, 2, 1, true, -3, 4));
  const int32_t *n = t.data;
  for (int i = 0; i < 100; i++) {
    at[2] = i;
    double u = (double)td_uniform(5, at, 3);
    assert_int_equal(n[i], -3 + (int)floor(u * 7));
  }
  t = (io_tensor_t){.dtype = TDSL_DTYPE_BF16, .rank = 1, .dims = {3}};
  assert_true(io_tensor_alloc(&t, &task->arena));
  assert_true(io_random_fill(task, "x", &t, 5, 2, 1, false, 0, 0));
  at[2] = 2;
  double want = 2 * (double)td_uniform(5, at, 3) - 1;
  assert_true(td_load_f64(t.dtype, (char *)t.data + 4) ==
              td_round_to(TDSL_DTYPE_BF16, want));
  t = (io_tensor_t){.dtype = TDSL_DTYPE_I64, .rank = 0};
  assert_true(io_tensor_alloc(&t, &task->arena));
  assert_false(io_random_fill(task, "x", &t, 5, 0, 0, true, 3, 3));
  assert_string_equal(unit_first_id(task), "R04");
}

TASK_TEST(input_forms) {
  (void)arg;
  io_input_t in;
  io_tensor_t t;
  assert_true(io_input_read(task, &task->arena, "eps=1e-5", &in));
  assert_int_equal(in.kind, IO_INPUT_SCALAR);
  assert_string_equal(in.name, "eps");
  assert_true(io_scalar_parse(task, &task->arena, in.name, td_str(in.text),
                              TDSL_DTYPE_F64, &t));
  assert_true(*(double *)t.data == 1e-5);
  assert_true(io_input_read(task, &task->arena, "*=random:-7", &in));
  assert_int_equal(in.kind, IO_INPUT_RANDOM);
  assert_true(in.seed == -7);
  assert_true(io_input_read(
      task, &task->arena,
      td_arena_printf(&task->arena, "p=%s", path_of(task, "ok_struct.json")),
      &in));
  assert_string_equal(in.leaves.data[1].name, "p.b.c");
  assert_true(io_input_read(
      task, &task->arena,
      td_arena_printf(&task->arena, "@=%s", path_of(task, "ok_struct.json")),
      &in));
  assert_string_equal(in.leaves.data[1].name, "b.c");
  assert_true(io_input_read(task, &task->arena,
                            "@={\"n\": {\"dtype\": \"i8\", \"shape\": [], "
                            "\"data\": [4]}}",
                            &in));
  assert_string_equal(in.leaves.data[0].name, "n");
  assert_int_equal(td_task_errors(task), 0);
  static const char *const bad[] = {"x", "=1", "x=", "*=3", "@=3",
                                    "x=random:1.5", "@=random:1", "x={}}"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_false(io_input_read(task, &task->arena, bad[i], &in));
    assert_int_equal(td_task_errors(task), i + 1);
  }
  assert_false(io_scalar_parse(task, &task->arena, "n", td_str("300"),
                               TDSL_DTYPE_U8, &t));
  assert_false(io_scalar_parse(task, &task->arena, "n", td_str("yes"),
                               TDSL_DTYPE_BOOL, &t));
}

/* The reference cases themselves: all are read, and one is looked at. */
TASK_TEST(reference_cases) {
  (void)arg;
  static const char *const files[] = {
      "attention", "bert",     "conv",  "gpt_train", "llama",
      "losses",    "moe",      "nn",    "pipeline",  "quant",
      "softmax",   "variants", "tp_mlp", "ring_attention"};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    io_cases_t cases;
    td_str_t text = unit_file(
        task, td_arena_printf(&task->arena, "vectors/%s.json", files[i]));
    assert_true(io_cases_parse(task, &task->arena, 0, text, &cases));
    assert_true(cases.cases.length > 0);
    for (size_t c = 0; c < cases.cases.length; c++) {
      const io_case_t *k = &cases.cases.data[c];
      assert_true(k->args.length > 0);
      assert_true(k->results.length + k->sequence.length + k->state.length);
    }
    if (i != 4) continue;
    const io_case_t *k = &cases.cases.data[0];
    io_config_t config;
    assert_true(io_config_parse(task, &task->arena, 0, k->config, &config));
    assert_true(io_config_get(&config, td_str("head_dim"))->integer == 4);
    assert_true(io_config_get(&config, td_str("rms_norm_eps"))->real == 1e-5);
    assert_non_null(io_leaves_find(&k->args, td_str("m.blk.n1")));
  }
}

/* -- config -- */

TASK_TEST(config_contents) {
  (void)arg;
  static const char text[] =
      "{\"n\": 3, \"eps\": 1e-05, \"big\": 99999999999999999999,\n"
      " \"rope_scaling\": {\"factor\": 8.0, \"deep\": {\"x\": true}},\n"
      " \"none\": null, \"list\": [1, {\"y\": 2}], \"hidden_act\": \"silu\",\n"
      " \"sliding_window\": null, \"tie_word_embeddings\": false,\n"
      " \"a.b\": 1, \"after\": -1}";
  io_config_t c;
  uint32_t file = td_sources_add_file(task, "config.json");
  assert_true(io_config_parse(task, &task->arena, file, td_str(text), &c));
  assert_true(io_config_get(&c, td_str("n"))->integer == 3);
  assert_int_equal(io_config_get(&c, td_str("eps"))->kind, IO_CONFIG_REAL);
  assert_int_equal(io_config_get(&c, td_str("big"))->kind, IO_CONFIG_REAL);
  assert_int_equal(io_config_get(&c, td_str("none"))->kind, IO_CONFIG_NULL);
  assert_int_equal(io_config_get(&c, td_str("list"))->kind, IO_CONFIG_OTHER);
  assert_true(io_config_get(&c, td_str("after"))->integer == -1);
  assert_null(io_config_get(&c, td_str("a.b")));
  assert_null(io_config_get(&c, td_str("y")));
  io_config_warn(task, &c);
  assert_int_equal(task->warnings, 2); /* hidden_act, rope_scaling */
  assert_int_equal(td_task_errors(task), 0);
  td_buf_t buf;
  td_buf_init(&buf, task);
  td_diag_render(&buf, task, task->diags.data[1], false);
  assert_int_equal(
      strncmp(buf.data, "config.json:2:18: warning[W05]: the program does "
                        "not read \"rope_scaling\"", 70), 0);
  task->warnings = 0;
  io_config_get(&c, td_str("hidden_act"));
  assert_true(io_config_get(&c, td_str("rope_scaling.deep.x"))->truth);
  io_config_warn(task, &c);
  assert_int_equal(task->warnings, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_file_of_the_manifest),
      cmocka_unit_test(allocations_may_fail),
      cmocka_unit_test(cut_files_are_refused),
      cmocka_unit_test(safetensors_contents),
      cmocka_unit_test(safetensors_writing),
      cmocka_unit_test(shards_are_one_checkpoint),
      cmocka_unit_test(shard_links_stay_in_the_folder),
      cmocka_unit_test(nearest_tensor_names),
      cmocka_unit_test(npy_contents),
      cmocka_unit_test(npy_writing),
      cmocka_unit_test(other_widths_are_taken_if_exact),
      cmocka_unit_test(known_streams),
      cmocka_unit_test(values_contents),
      cmocka_unit_test(results_are_nested_again),
      cmocka_unit_test(random_inputs),
      cmocka_unit_test(input_forms),
      cmocka_unit_test(reference_cases),
      cmocka_unit_test(config_contents),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
