/* Binding of checkpoints: the table of shapes of tests/vectors, names of
 * leaves, dims solved from element counts, and E13, E14, E15, W04. */
#include "tests/unit/unit.h"

#include <stdio.h>

#include "frontend/bind.h"
#include "frontend/parse.h"
#include "runtime/base/num.h"
#include "runtime/io/json.h"

/* ---- binding.json -------------------------------------------------------- */

typedef struct row {
  int64_t declared[16], file[16];
  uint32_t declared_rank, file_rank, group_count;
  bind_group_t groups[16];
  bool accept;
} row_t;

static uint32_t read_dims(io_json_t *j, int64_t *out) {
  uint32_t n = 0;
  assert_true(io_json_array(j));
  while (io_json_item(j)) {
    assert_true(n < 16 && io_json_int(j, &out[n]));
    n++;
  }
  return n;
}

static void read_row(io_json_t *j, row_t *r) {
  td_str_t key;
  assert_true(io_json_object(j));
  while (io_json_key(j, &key)) {
    if (td_str_eqc(key, "declared")) {
      r->declared_rank = read_dims(j, r->declared);
    } else if (td_str_eqc(key, "file")) {
      r->file_rank = read_dims(j, r->file);
    } else if (td_str_eqc(key, "accept")) {
      assert_true(io_json_bool(j, &r->accept));
    } else {
      assert_true(io_json_array(j));
      while (io_json_item(j)) {
        int64_t pair[16];
        assert_int_equal(read_dims(j, pair), 2);
        r->groups[r->group_count++] =
            (bind_group_t){(uint32_t)pair[0], (uint32_t)pair[1]};
      }
    }
  }
}

TASK_TEST(shapes_of_the_table) {
  (void)arg;
  td_str_t text = unit_file(task, "vectors/binding.json"), key;
  io_json_t j;
  int rows = 0;
  io_json_begin(&j, task, &task->arena, 0, text);
  assert_true(io_json_object(&j));
  while (io_json_key(&j, &key)) {
    if (!td_str_eqc(key, "binding")) {
      assert_true(io_json_skip(&j));
      continue;
    }
    assert_true(io_json_array(&j));
    while (io_json_item(&j)) {
      row_t r = {.declared_rank = 0};
      bind_group_t groups[16];
      uint32_t count = 0, at = 0;
      read_row(&j, &r);
      assert_int_equal(bind_match(r.declared, r.declared_rank, r.file,
                                  r.file_rank, groups, &count, &at),
                       r.accept);
      if (r.accept) {
        assert_int_equal(count, r.group_count);
        assert_memory_equal(groups, r.groups, count * sizeof *groups);
      }
      rows++;
    }
  }
  assert_true(io_json_end(&j));
  assert_int_equal(rows, 25);
}

/* A product past i64 is no match, and nothing overflows. */
TASK_TEST(shapes_that_overflow) {
  UNUSED_ARG;
  const int64_t big = INT64_C(1) << 40, one[] = {big, big}, two[] = {big * 2};
  uint32_t at = 9;
  assert_false(bind_match(one, 2, two, 1, NULL, NULL, &at));
  assert_false(bind_match(two, 1, one, 2, NULL, NULL, &at));
  const int64_t zero[] = {0, 4}, three[] = {3};
  assert_true(bind_match(zero, 2, zero, 2, NULL, NULL, &at));
  assert_false(bind_match(zero, 2, three, 1, NULL, NULL, &at));
}

/* ---- a checkpoint in memory ---------------------------------------------- */

typedef struct store {
  const bind_tensor_t *tensors;
  size_t count;
} store_t;

static const bind_tensor_t *get_tensor(void *user, size_t i) {
  const store_t *s = user;
  return &s->tensors[i];
}

static const bind_tensor_t *find_tensor(void *user, const char *name) {
  const store_t *s = user;
  for (size_t i = 0; i < s->count; i++) {
    if (strcmp(s->tensors[i].name, name) == 0) return &s->tensors[i];
  }
  return NULL;
}

#define DIMS(rank, ...) rank, (const int64_t[]){__VA_ARGS__}

static const char program_text[] =
    "dim L = 2, H = 2, K, D = 6, V\n"
    "struct Block {\n"
    "  wq: bf16[H, K, D] from \"attn.q.weight\"\n"
    "  n: f32[D] from \"norm\"\n"
    "}\n"
    "struct Net {\n"
    "  emb: bf16[V, D] from \"emb.weight\"\n"
    "  blk: [L] Block from \"layers.{}\"\n"
    "  own: f32[D]\n"
    "  flat: [L] Flat from \"\"\n"
    "  head: bf16[V, D] from \"head.weight\" else emb\n"
    "}\n"
    "struct Flat { b: f32[D] from \"stacked\" }\n"
    "struct State { s: f32[D] }\n"
    "export fn f(m: Net, c: inout State) -> y: f32[D] {\n"
    "  y[d] = m.own[d] + c.s[d]\n}\n";

static const bind_tensor_t whole[] = {
    {"emb.weight", TDSL_DTYPE_BF16, DIMS(2, 5, 6), "a"},
    {"layers.0.attn.q.weight", TDSL_DTYPE_BF16, DIMS(2, 8, 6), "a"},
    {"layers.0.norm", TDSL_DTYPE_BF16, DIMS(1, 6), "a"},
    {"layers.1.attn.q.weight", TDSL_DTYPE_BF16, DIMS(3, 2, 4, 6), "a"},
    {"layers.1.norm", TDSL_DTYPE_F32, DIMS(2, 6, 1), "a"},
    {"own", TDSL_DTYPE_F16, DIMS(1, 6), "b"},
    {"stacked", TDSL_DTYPE_F32, DIMS(2, 2, 6), "b"},
    {"s", TDSL_DTYPE_F32, DIMS(1, 6), "b"},
};

enum { WHOLE = sizeof whole / sizeof *whole };

static const sem_func_t *check_text(td_task_t *task, const char *text,
                                    const sem_dim_value_t *dims,
                                    uint32_t dim_count, td_arena_t *arena,
                                    sem_program_t **out) {
  sem_options_t o = {.dims = dims, .dim_count = dim_count};
  td_arena_init(arena, task);
  uint32_t file = td_sources_add(task, "net.tdsl", text, strlen(text));
  *out = sem_check(task, arena, file, &o);
  assert_int_equal(task->errors, 0);
  const sem_func_t *f = sem_find_entry(*out, "f");
  assert_non_null(f);
  return f;
}

static bind_place_t *bind_all(td_task_t *task, td_arena_t *arena,
                              store_t *store, const bind_options_t *options,
                              bind_leaf_t **out_leaves, bool *out_ok) {
  sem_program_t *program = NULL;
  const sem_dim_value_t dims[] = {{"K", 4}, {"V", 5}};
  const sem_func_t *f =
      check_text(task, program_text, dims, 2, arena, &program);
  bind_source_t source = {store->count, get_tensor, find_tensor, store};
  size_t count = 0;
  *out_leaves = bind_leaves(arena, f, &count);
  assert_int_equal(count, 7);
  bind_place_t *places = NULL;
  *out_ok = bind_check(task, arena, program, *out_leaves, count, &source,
                       options, &places);
  return places;
}

TASK_TEST(names_and_places) {
  (void)arg;
  store_t store = {whole, WHOLE};
  td_arena_t arena;
  bind_leaf_t *leaves = NULL;
  bool ok = false;
  bind_place_t *p = bind_all(task, &arena, &store, NULL, &leaves, &ok);
  assert_true(ok);
  assert_string_equal(leaves[1].path, "m.blk.wq");
  assert_string_equal(leaves[1].pattern, "layers.{}.attn.q.weight");
  assert_int_equal(leaves[1].rank, 4);
  assert_int_equal(p[1].tensor_count, 2);
  assert_string_equal(p[1].tensors[1]->name, "layers.1.attn.q.weight");
  assert_string_equal(leaves[3].pattern, "own");
  assert_string_equal(leaves[4].pattern, "stacked");
  assert_int_equal(p[4].tensor_count, 1); /* no {}: one tensor of all */
  assert_int_equal(p[5].alias, 0);        /* head is emb */
  assert_true(leaves[6].is_inout && !leaves[6].is_named);
  assert_int_equal(task->warnings, 0);
}

TASK_TEST(solved_dims) {
  (void)arg;
  store_t store = {whole, WHOLE};
  bind_source_t source = {store.count, get_tensor, find_tensor, &store};
  sem_program_t *program = NULL;
  td_arena_t arena;
  const sem_func_t *f =
      check_text(task, program_text, NULL, 0, &arena, &program);
  sem_dim_value_t *dims = NULL;
  uint32_t count = 0;
  assert_true(bind_solve(task, &arena, program, f, &source, &dims, &count));
  assert_int_equal(count, 2);
  assert_string_equal(dims[0].name, "V");
  assert_int_equal(dims[0].value, 5);
  assert_string_equal(dims[1].name, "K");
  assert_int_equal(dims[1].value, 4);
}

TASK_TEST(fields_that_disagree) {
  (void)arg;
  const bind_tensor_t two[] = {
      {"a", TDSL_DTYPE_F32, DIMS(2, 6, 6), NULL},
      {"b", TDSL_DTYPE_F32, DIMS(1, 5), NULL}};
  store_t store = {two, 2};
  bind_source_t source = {2, get_tensor, find_tensor, &store};
  sem_program_t *program = NULL;
  td_arena_t arena;
  const sem_func_t *f = check_text(
      task, "dim N\nstruct S { a: f32[N, N]; b: f32[N] }\n"
            "export fn f(s: S) -> y: f32 {\n  y = sum(s.b)\n}\n",
      NULL, 0, &arena, &program);
  sem_dim_value_t *dims = NULL;
  uint32_t count = 0;
  assert_false(bind_solve(task, &arena, program, f, &source, &dims, &count));
  assert_string_equal(unit_first_id(task), "E14");
}

/* One tensor of the whole checkpoint is replaced; NULL name leaves it out. */
static void expect(td_task_t *task, size_t at, bind_tensor_t tensor,
                   const bind_options_t *options, const char *id,
                   const char *part) {
  bind_tensor_t some[WHOLE];
  store_t store = {some, WHOLE};
  memcpy(some, whole, sizeof whole);
  some[at] = tensor;
  if (tensor.name == NULL) {
    some[at] = some[WHOLE - 1];
    store.count--;
  }
  td_arena_t arena;
  bind_leaf_t *leaves = NULL;
  bool ok = true;
  uint32_t errors = task->errors;
  bind_all(task, &arena, &store, options, &leaves, &ok);
  assert_false(ok);
  assert_int_equal(task->errors, errors + 1);
  const td_diag_t *d = task->diags.data[task->diags.length - 1];
  assert_string_equal(td_diag_name(d->id), id);
  if (strstr(d->text, part) == NULL) print_error("%s\n", d->text);
  assert_non_null(strstr(d->text, part));
  /* bind_all wants a task without errors. */
  task->errors = errors;
}

TASK_TEST(faults) {
  (void)arg;
  const bind_options_t convert = {.convert = true};
  const bind_tensor_t none = {NULL, TDSL_DTYPE_UNSET, 0, NULL, NULL};
  expect(task, 3, none, NULL, "E13", "layers.1.attn.q.weight");
  expect(task, 5, none, NULL, "E13", "own");
  expect(task, 1,
         (bind_tensor_t){"layers.0.attn.q.weight", TDSL_DTYPE_BF16,
                         DIMS(2, 6, 8), "a"},
         NULL, "E14", "is [6, 8], declared [H, K, D] = [2, 4, 6]");
  expect(task, 4,
         (bind_tensor_t){"layers.1.norm", TDSL_DTYPE_F64, DIMS(1, 6), "a"},
         NULL, "E15", "is f64, declared f32");
  expect(task, 0,
         (bind_tensor_t){"emb.weight", TDSL_DTYPE_F32, DIMS(2, 5, 6), "a"},
         NULL, "E15", "is f32, declared bf16");
  expect(task, 0,
         (bind_tensor_t){"emb.weight", TDSL_DTYPE_I32, DIMS(2, 5, 6), "a"},
         &convert, "E15", "is i32, declared bf16");
}

TASK_TEST(unused_tensors) {
  (void)arg;
  const bind_tensor_t extra = {"rotary.inv_freq", TDSL_DTYPE_F32, DIMS(1, 2),
                               "b"};
  bind_tensor_t some[WHOLE + 1];
  store_t store = {some, WHOLE + 1};
  memcpy(some, whole, sizeof whole);
  some[WHOLE] = extra;
  td_arena_t arena;
  bind_leaf_t *leaves = NULL;
  bool ok = false;
  const bind_options_t strict = {.strict = true};
  bind_all(task, &arena, &store, NULL, &leaves, &ok);
  assert_true(ok);
  assert_string_equal(unit_first_id(task), "W04");
  assert_int_equal(task->warnings, 1);
  assert_int_equal(task->errors, 0);
  bind_all(task, &arena, &store, &strict, &leaves, &ok);
  assert_false(ok);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(shapes_of_the_table),
      cmocka_unit_test(shapes_that_overflow),
      cmocka_unit_test(names_and_places),
      cmocka_unit_test(solved_dims),
      cmocka_unit_test(fields_that_disagree),
      cmocka_unit_test(faults),
      cmocka_unit_test(unused_tensors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
