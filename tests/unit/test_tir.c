/* The tensor IR: built by hand, printed, read back, verified, interpreted.
 *
 * tests/ir/interp: functions whose asserts state values from mathematics;
 *   they run in both modes, with all checks, tuples forwards and backwards.
 *   @NAME_f32 and @NAME_f64 hold in that mode only; @fail_R10_NAME must
 *   report R10.
 * tests/ir/roundtrip: texts in the form that the printer gives them.
 * tests/ir/verify: texts that must be refused with the message in their
 *   CHECK line. */
#include "tests/unit/unit.h"

#include <dirent.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>

#include "ir/dtype.h"
#include "ir/expr.h"
#include "ir/tir.h"
#include "runtime/base/num.h"

/* ---- files --------------------------------------------------------------- */

static int by_name(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Names of the .tir files of a folder, sorted. */
static size_t list_files(td_task_t *task, const char *folder,
                         const char *out[128]) {
  DIR *dir = opendir(td_os_join(&task->arena, TDSL_TESTS_DIR, folder));
  size_t count = 0;
  assert_non_null(dir);
  for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir))
    if (td_str_ends(td_str(e->d_name), ".tir")) {
      assert_true(count < 128);
      out[count++] =
          td_arena_printf(&task->arena, "%s/%s", folder, e->d_name);
    }
  closedir(dir);
  qsort(out, count, sizeof out[0], by_name);
  assert_true(count > 0);
  return count;
}

static const char *print(td_task_t *task, const tir_module_t *m) {
  td_buf_t b;
  td_buf_init(&b, task);
  tir_print(&b, m);
  return td_buf_finish(&b, &task->arena);
}

static tir_module_t *parse(td_task_t *task, td_arena_t *arena,
                           const char *name, td_str_t text) {
  return tir_parse(task, arena,
                   td_sources_add(task, name, text.data, text.length));
}

/* Prints, parses and prints again. */
static void want_identity(td_task_t *task, td_arena_t *arena,
                          const tir_module_t *m) {
  const char *once = print(task, m);
  tir_module_t *again = parse(task, arena, "again", td_str(once));
  assert_non_null(again);
  assert_true(tir_verify(task, again, "again", true));
  assert_string_equal(print(task, again), once);
}

/* Without comment lines, which is how the printer would give it. */
static const char *without_comments(td_task_t *task, td_str_t text) {
  td_buf_t b;
  td_buf_init(&b, task);
  for (size_t i = 0; i < text.length;) {
    size_t end = i;
    while (end < text.length && text.data[end] != '\n') end++;
    if (!td_str_starts(td_str_n(text.data + i, text.length - i), "//"))
      td_buf_put(&b, text.data + i, end + 1 - i);
    i = end + 1;
  }
  return td_buf_finish(&b, &task->arena);
}

TASK_TEST(canonical_texts) {
  const char *files[128];
  size_t count = list_files(task, "ir/roundtrip", files);
  (void)arg;
  for (size_t i = 0; i < count; i++) {
    td_str_t text = unit_file(task, files[i]);
    tir_module_t *m = parse(task, &task->arena, files[i], text);
    if (m == NULL) print_error("%s: %s\n", files[i], task->diags.data[0]->text);
    assert_non_null(m);
    assert_true(tir_verify(task, m, "test", true));
    assert_string_equal(print(task, m), without_comments(task, text));
  }
}

/* ---- verify -------------------------------------------------------------- */

TASK_TEST(refused_texts) {
  const char *files[128];
  size_t count = list_files(task, "ir/verify", files);
  static const char mark[] = "// CHECK: error[F70]: ";
  (void)arg;
  for (size_t i = 0; i < count; i++) {
    td_str_t text = unit_file(task, files[i]);
    const char *at = strstr(td_str_cstr(&task->arena, text), mark);
    assert_non_null(at);
    at += strlen(mark);
    const char *want =
        td_arena_strndup(&task->arena, at, strcspn(at, "\n"));
    size_t before = task->diags.length;
    tir_module_t *m = parse(task, &task->arena, files[i], text);
    if (m != NULL) assert_false(tir_verify(task, m, "test", true));
    if (task->diags.length == before)
      fail_msg("%s is accepted", files[i]);
    assert_string_equal(task->diags.data[before]->text, want);
    assert_true(task->diags.data[before]->loc.line > 0);
    task->diags.length = 0;
    task->errors = 0;
  }
}

/* ---- interpreter on files ------------------------------------------------ */

static void run_function(td_task_t *task, const tir_module_t *m,
                     const tir_func_t *f, tir_mode_t mode, bool reversed) {
  tir_interp_options_t options = {mode, 2, reversed};
  td_str_t name = td_str(f->name);
  if (td_str_ends(name, "_f32") && mode != TIR_F32) return;
  if (td_str_ends(name, "_f64") && mode != TIR_F64) return;
  const char *want = "";
  if (td_str_starts(name, "fail_"))
    want = td_arena_strndup(&task->arena, f->name + 5, 3);
  td_arena_t arena;
  td_arena_init(&arena, task);
  task->diags.length = 0;
  task->errors = 0;
  bool ok = tir_interpret(task, &arena, m, f, NULL, NULL, &options);
  if (strcmp(unit_first_id(task), want) != 0)
    fail_msg("@%s in mode %d%s: %s", f->name, (int)mode,
             reversed ? " reversed" : "",
             task->diags.length ? task->diags.data[0]->text : "no report");
  assert_int_equal(ok, want[0] == '\0');
  td_arena_free_all(&arena);
}

TASK_TEST(semantics) {
  const char *files[128];
  size_t count = list_files(task, "ir/interp", files), run = 0;
  (void)arg;
  for (size_t i = 0; i < count; i++) {
    tir_module_t *m =
        parse(task, &task->arena, files[i], unit_file(task, files[i]));
    if (m == NULL) print_error("%s: %s\n", files[i], task->diags.data[0]->text);
    assert_non_null(m);
    assert_true(tir_verify(task, m, "test", true));
    want_identity(task, &task->arena, m);
    for (uint32_t k = 0; k < m->func_count; k++, run++)
      for (int way = 0; way < 4; way++)
        run_function(task, m, m->funcs[k], way & 1 ? TIR_F64 : TIR_F32,
                     way >= 2);
  }
  assert_true(run > 50);
}

/* A failure shows both sides of the comparison at fault. */
TASK_TEST(explained_failures) {
  static const char text[] =
      "test func @a() {\n"
      "  %x: f32[300] = map [i in 300] mul(0.5, cast.f32(i))\n"
      "  %ok: bool = reduce.all [; i in 300, j in 2] where gt(i, 250) "
      "lt(%x[i], add(140.0, cast.f32(j)))\n"
      "  assert and(true, %ok) \"small\"\n"
      "}\n"
      "test func @b() {\n"
      "  %n: i64 = map [] 7\n"
      "  assert and(eq(%n, 7), ge(%n, 8))\n"
      "}\n"
      "test func @c() {\n"
      "  assert not(true)\n"
      "}\n";
  static const char *const texts[] = {"assertion failed: small",
                                      "assertion failed", "assertion failed"};
  /* 0.5 * 280 is the first that is not below 140. */
  static const char *const notes[] = {
      "at i = 280, j = 0: left is 140, right is 140",
      "left is 7, right is 8", NULL};
  (void)arg;
  tir_module_t *m = parse(task, &task->arena, "text", td_str(text));
  assert_non_null(m);
  for (uint32_t i = 0; i < m->func_count; i++) {
    tir_interp_options_t options = {TIR_F32, 1, false};
    assert_false(tir_interpret(task, &task->arena, m, m->funcs[i], NULL, NULL,
                               &options));
    const td_diag_t *d = task->diags.data[i];
    assert_int_equal(d->id, TD_R06);
    assert_string_equal(d->text, texts[i]);
    assert_int_equal(d->notes.length, notes[i] != NULL ? 1 : 0);
    if (notes[i] != NULL) assert_string_equal(d->notes.data[0], notes[i]);
  }
}

/* ---- modules by hand ----------------------------------------------------- */

typedef struct hand {
  td_task_t *task;
  td_arena_t *arena;
  tir_module_t *m;
  tir_func_t *f;
  ix_symbol_t *n; /* dyn N <= 8 */
} hand_t;

static hand_t hand_start(td_task_t *task, const char *name) {
  hand_t h = {.task = task, .arena = &task->arena};
  h.m = tir_module_create(h.arena);
  h.f = TD_NEW(h.arena, tir_func_t);
  h.f->name = name;
  h.n = ix_symbol_create(h.m->pool, "N", IX_SYM_DYN, TD_NO_LOC);
  h.n->lo = ix_const(h.m->pool, 0);
  h.n->hi = ix_const(h.m->pool, 9);
  h.f->dims = TD_NEW_ARRAY(h.arena, const ix_symbol_t *, 1);
  h.f->dims[0] = h.n;
  h.f->dim_count = 1;
  tir_module_add(h.m, h.f);
  return h;
}

static tir_value_t *vector(hand_t *h, const char *name, tdsl_dtype_t dtype) {
  const ix_poly_t *dim = ix_sym(h->m->pool, h->n);
  tir_value_t *v = tir_value_create(h->arena, name, dtype, 1, &dim);
  v->is_written = true;
  return v;
}

static void slots(hand_t *h, uint32_t count, const char *const *names,
                  const tir_slot_kind_t *kinds, tir_value_t *const *values,
                  tir_value_t *const *results) {
  h->f->slots = TD_NEW_ARRAY(h->arena, tir_slot_t, count);
  h->f->slot_count = count;
  for (uint32_t i = 0; i < count; i++) {
    tir_slot_t *s = &h->f->slots[i];
    s->name = names[i];
    s->kind = kinds[i];
    s->value = values[i];
    s->result = results[i];
    s->else_slot = -1;
    s->dim_text[0] = "N";
  }
}

/* out[i] = body(i) over N */
static tir_value_t *map_node(hand_t *h, const char *name, tdsl_dtype_t dtype,
                             tir_index_t *i, tir_expr_t *body) {
  tir_node_t *node = tir_node_create(h->arena, TIR_MAP, 1);
  node->index_count = 1;
  node->indices = TD_NEW_ARRAY(h->arena, tir_index_t *, 1);
  node->indices[0] = i;
  node->body = body;
  node->outs[0] = vector(h, name, dtype);
  td_vec_push(h->arena, &h->f->nodes, node);
  return node->outs[0];
}

static tir_index_t *index_n(hand_t *h, const char *name, bool reduction) {
  return tir_index_create(h->m, name, ix_sym(h->m->pool, h->n), reduction);
}

static tir_expr_t *at(hand_t *h, const tir_value_t *v, const tir_index_t *i) {
  tir_expr_t *sub = tir_index_ref(h->arena, i);
  return tir_load(h->arena, v, v->rank, &sub);
}

static tir_expr_t *two(hand_t *h, tir_x_t op, tdsl_dtype_t type,
                       tir_expr_t *a, tir_expr_t *b) {
  tir_expr_t *args[2] = {a, b};
  return tir_op(h->arena, op, type, 2, args);
}

/* y = x * x + x * x with one shared product, stored as bf16. */
TASK_TEST(build_print_run) {
  hand_t h = hand_start(task, "square");
  (void)arg;
  tir_value_t *x = vector(&h, "x", TDSL_DTYPE_F32);
  tir_index_t *i = index_n(&h, "i", false);
  tir_expr_t *xi = at(&h, x, i);
  tir_expr_t *p = two(&h, TIR_X_MUL, TDSL_DTYPE_F32, xi, xi);
  tir_value_t *y = map_node(&h, "x", TDSL_DTYPE_BF16, i,
                            two(&h, TIR_X_ADD, TDSL_DTYPE_F32, p, p));
  static const char *const names[] = {"x", "y"};
  static const tir_slot_kind_t kinds[] = {TIR_IN, TIR_OUT};
  tir_value_t *values[] = {x, NULL}, *results[] = {NULL, y};
  slots(&h, 2, names, kinds, values, results);
  tir_renumber(h.f);
  assert_true(tir_verify(task, h.m, "test", false));
  assert_string_equal(print(task, h.m),
                      "func @square(\n"
                      "    in x: f32[N],\n"
                      "    out y: bf16[N])\n"
                      "  dims(N in 0..9) {\n"
                      "  %x.1: bf16[N] = map [i in N]\n"
                      "      let $0 = mul(%x[i], %x[i])\n"
                      "      add($0, $0)\n"
                      "  return y = %x.1\n"
                      "}\n");
  want_identity(task, h.arena, h.m);
  float in32[3] = {1.0f, -3.0f, 11.1875f};
  double in64[3] = {1.0, -3.0, 11.1875};
  for (int mode = 0; mode < 2; mode++) {
    tir_tensor_t t[2] = {{TDSL_DTYPE_F32, 1, {3}, NULL}, {0}};
    tir_interp_options_t options = {mode ? TIR_F64 : TIR_F32, 1, false};
    int64_t n = 3;
    t[0].data = mode ? (void *)in64 : (void *)in32;
    assert_true(tir_interpret(task, h.arena, h.m, h.f, &n, t, &options));
    assert_int_equal(t[1].dtype, TDSL_DTYPE_BF16);
    assert_int_equal(t[1].dims[0], 3);
    const uint16_t *out = t[1].data;
    /* 2 * 11.1875^2 = 250.3203125, of which bf16 keeps 250. */
    assert_true(td_bf16_to_f32(out[0]) == 2.0f);
    assert_true(td_bf16_to_f32(out[1]) == 18.0f);
    assert_true(td_bf16_to_f32(out[2]) == 250.0f);
  }
  tir_tensor_t none[2] = {{TDSL_DTYPE_F32, 1, {0}, NULL}, {0}};
  tir_interp_options_t options = {TIR_F32, 2, false};
  int64_t zero = 0;
  assert_true(tir_interpret(task, h.arena, h.m, h.f, &zero, none, &options));
  assert_int_equal(none[1].dims[0], 0);
}

/* The results of two inout buffers are each other's old values. */
TASK_TEST(swapped_state) {
  hand_t h = hand_start(task, "swap");
  (void)arg;
  tir_value_t *a = vector(&h, "a", TDSL_DTYPE_I32);
  tir_value_t *b = vector(&h, "b", TDSL_DTYPE_I32);
  static const char *const names[] = {"a", "b"};
  static const tir_slot_kind_t kinds[] = {TIR_INOUT, TIR_INOUT};
  tir_value_t *values[] = {a, b}, *results[] = {b, a};
  slots(&h, 2, names, kinds, values, results);
  tir_renumber(h.f);
  assert_true(tir_verify(task, h.m, "test", false));
  int32_t x[3] = {1, 2, 3}, y[3] = {-1, -2, -3};
  tir_tensor_t t[2] = {{TDSL_DTYPE_I32, 1, {3}, x},
                       {TDSL_DTYPE_I32, 1, {3}, y}};
  tir_interp_options_t options = {TIR_F32, 0, false};
  int64_t n = 3;
  assert_true(tir_interpret(task, h.arena, h.m, h.f, &n, t, &options));
  for (int i = 0; i < 3; i++) {
    assert_int_equal(x[i], -1 - i);
    assert_int_equal(y[i], 1 + i);
  }
  assert_ptr_equal(t[0].data, x);
}

/* An old version that is still read keeps its value, though the target of
 * the update is the caller's buffer. */
TASK_TEST(state_in_place) {
  static const char text[] =
      "func @f(inout c: f32[4], out old: f32, out new: f32) {\n"
      "  %c1: f32[4] = update distinct [i in 2] %c[mul(i, 2)] := 7.0\n"
      "  %old: f32 = map [] %c[2]\n"
      "  %c2: f32[4] = update distinct [] %c1[3] += 1.0\n"
      "  %new: f32 = map [] %c2[3]\n"
      "  return c = %c2, old = %old, new = %new\n"
      "}\n";
  (void)arg;
  tir_module_t *m = parse(task, &task->arena, "text", td_str(text));
  assert_non_null(m);
  assert_true(tir_verify(task, m, "test", true));
  float c[4] = {1, 2, 3, 4};
  tir_tensor_t t[3] = {{TDSL_DTYPE_F32, 1, {4}, c}, {0}, {0}};
  tir_interp_options_t options = {TIR_F32, 2, false};
  assert_true(tir_interpret(task, &task->arena, m, m->funcs[0], NULL, t,
                            &options));
  assert_true(c[0] == 7 && c[1] == 2 && c[2] == 7 && c[3] == 5);
  assert_true(*(float *)t[1].data == 3 && *(float *)t[2].data == 5);
}

/* ---- expressions --------------------------------------------------------- */

static void count_visits(void *user, tir_expr_t *e) {
  (void)e;
  ++*(int *)user;
}

static tir_expr_t *add_to_mul(void *user, tir_expr_t *e) {
  (void)user;
  if (e->op == TIR_X_ADD) e->op = TIR_X_MUL;
  return e;
}

TASK_TEST(walks_share) {
  hand_t h = hand_start(task, "walks");
  (void)arg;
  tir_value_t *x = vector(&h, "x", TDSL_DTYPE_F32);
  tir_index_t *i = index_n(&h, "i", false), *j = index_n(&h, "j", false);
  tir_expr_t *p = at(&h, x, i);
  tir_expr_t *root = p;
  /* 40 doublings: a tree would have 2^40 leaves. */
  for (int k = 0; k < 40; k++)
    root = two(&h, TIR_X_ADD, TDSL_DTYPE_F32, root, root);
  int visits = 0;
  tir_walk(h.arena, root, count_visits, &visits);
  assert_int_equal(visits, 42);
  assert_int_equal(tir_expr_size(h.arena, root), 40);
  tir_expr_t *other = tir_rewrite(h.arena, root, add_to_mul, NULL);
  assert_int_equal(other->op, TIR_X_MUL);
  assert_ptr_equal(other->args[0], other->args[1]);
  assert_int_equal(root->op, TIR_X_ADD);
  tir_expr_t *to = tir_index_ref(h.arena, j);
  other = tir_replace_indices(h.arena, root, 1, &i, &to);
  assert_true(tir_mentions_index(h.arena, other, j));
  assert_false(tir_mentions_index(h.arena, other, i));
  assert_true(tir_mentions_value(h.arena, other, x));
  /* Equal structure, built apart. */
  tir_interner_t in;
  tir_interner_init(&in, h.arena);
  tir_expr_t *a = two(&h, TIR_X_MUL, TDSL_DTYPE_F32, at(&h, x, i),
                      tir_const_f(h.arena, TDSL_DTYPE_F32, 0.0));
  tir_expr_t *b = two(&h, TIR_X_MUL, TDSL_DTYPE_F32, at(&h, x, i),
                      tir_const_f(h.arena, TDSL_DTYPE_F32, 0.0));
  tir_expr_t *c = two(&h, TIR_X_MUL, TDSL_DTYPE_F32, at(&h, x, i),
                      tir_const_f(h.arena, TDSL_DTYPE_F32, -0.0));
  assert_ptr_equal(tir_intern(&in, a), tir_intern(&in, b));
  assert_ptr_not_equal(tir_intern(&in, a), tir_intern(&in, c));
}

static const ix_poly_t *opaque(void *user, const tir_expr_t *e) {
  (void)e;
  return user;
}

TASK_TEST(polynomials) {
  hand_t h = hand_start(task, "polys");
  ix_pool_t *pool = h.m->pool;
  (void)arg;
  tir_value_t *x = vector(&h, "x", TDSL_DTYPE_I32);
  tir_index_t *i = index_n(&h, "i", false);
  tir_expr_t *ei = tir_index_ref(h.arena, i);
  tir_expr_t *n = tir_dim(h.arena, ix_sym(pool, h.n));
  tir_expr_t *three = tir_const_i(h.arena, TDSL_DTYPE_I64, 3);
  tir_expr_t *e = two(&h, TIR_X_ADD, TDSL_DTYPE_I64,
                      two(&h, TIR_X_MUL, TDSL_DTYPE_I64, three, ei),
                      two(&h, TIR_X_SUB, TDSL_DTYPE_I64, n, three));
  const ix_poly_t *p = tir_expr_poly(pool, h.arena, e, NULL, NULL);
  const ix_poly_t *want =
      ix_add(pool, ix_mul(pool, ix_const(pool, 3), ix_sym(pool, i->symbol)),
             ix_sub(pool, ix_sym(pool, h.n), ix_const(pool, 3)));
  assert_ptr_equal(p, want);
  tir_expr_t *load = at(&h, x, i);
  e = two(&h, TIR_X_ADD, TDSL_DTYPE_I64, load, three);
  assert_null(tir_expr_poly(pool, h.arena, e, NULL, NULL));
  ix_poly_t *seven = (ix_poly_t *)(uintptr_t)ix_const(pool, 7);
  assert_ptr_equal(tir_expr_poly(pool, h.arena, e, opaque, seven),
                   ix_const(pool, 10));
}

TASK_TEST(plans) {
  static const char text[] =
      "func @f(in a: f32[3, 4], in b: f32[4, 5], in n: i64[3]) {\n"
      "  %0: f32[3, 5] = reduce.sum [m in 3, n in 5; k in 4] "
      "mul(%a[m, k], %b[k, n])\n"
      "  %1: f32[3] = reduce.sum [m in 3; k in 4] mul(%a[m, k], %a[m, k])\n"
      "  %2: f32[3] = reduce.sum [m in 3; k in 4] %a[m, k]\n"
      "  %3: f32[3] = reduce.prod [m in 3; k in 4] %a[m, k]\n"
      "  %4: f32[3] = reduce.max [m in 3; k in 4] %a[m, k]\n"
      "  %5: i64 = reduce.sum [; m in 3] mul(%n[m], %n[m])\n"
      "}\n";
  static const struct {
    bool is_fma;
    tir_plan_t plan;
  } want[] = {{true, TIR_PLAN_SERIAL},  {true, TIR_PLAN_LANES},
              {false, TIR_PLAN_LANES},  {false, TIR_PLAN_LANES},
              {false, TIR_PLAN_SERIAL}, {false, TIR_PLAN_SERIAL}};
  (void)arg;
  tir_module_t *m = parse(task, &task->arena, "text", td_str(text));
  assert_non_null(m);
  for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
    tir_node_t *node = m->funcs[0]->nodes.data[i];
    tir_assign_plan(&task->arena, node);
    assert_int_equal(node->is_fma, want[i].is_fma);
    assert_int_equal(node->plan, want[i].plan);
  }
  assert_true(tir_verify(task, m, "test", true));
}

TASK_TEST(dtypes) {
  (void)arg;
  (void)task;
  assert_int_equal(tir_arithmetic(TDSL_DTYPE_BF16), TDSL_DTYPE_F32);
  assert_int_equal(tir_arithmetic(TDSL_DTYPE_F64), TDSL_DTYPE_F64);
  assert_int_equal(tir_arithmetic(TDSL_DTYPE_U8), TDSL_DTYPE_I64);
  assert_int_equal(tir_arithmetic(TDSL_DTYPE_BOOL), TDSL_DTYPE_BOOL);
  assert_int_equal(tir_arithmetic(TDSL_DTYPE_UNSET), TDSL_DTYPE_UNSET);
  for (int d = TDSL_DTYPE_F64; d <= TDSL_DTYPE_BOOL; d++) {
    const tir_dtype_row_t *row = tir_dtype_row((tdsl_dtype_t)d);
    assert_int_equal(row->bits, 8 * td_dtype_bytes((tdsl_dtype_t)d));
    assert_string_equal(row->text, td_dtype_name((tdsl_dtype_t)d));
    assert_int_equal(row->type_class == TIR_CLASS_FLOAT,
                     td_dtype_is_float((tdsl_dtype_t)d));
  }
}

/* ---- size and depth ------------------------------------------------------ */

enum { TERMS = 200000 };

/* ((x0 + 1) + 1) + ..., through every stage. */
static void deep_body(td_task_t *task, void *arg) {
  td_buf_t b;
  (void)arg;
  td_buf_init(&b, task);
  td_buf_puts(&b, "test func @deep() {\n  %x: i64[3] = map [i in 3] ");
  for (int i = 0; i < TERMS; i++) td_buf_puts(&b, "add(");
  td_buf_puts(&b, "i");
  for (int i = 0; i < TERMS; i++) td_buf_puts(&b, ", 1)");
  td_buf_printf(&b, "\n  assert eq(%%x[2], %d)\n}\n", TERMS + 2);
  td_arena_t arena;
  td_arena_init(&arena, task);
  tir_module_t *m = parse(task, &arena, "deep", td_buf_view(&b));
  assert_non_null(m);
  assert_true(tir_verify(task, m, "test", true));
  assert_string_equal(print(task, m), b.data);
  tir_interp_options_t options = {TIR_F32, 2, false};
  assert_true(tir_interpret(task, &arena, m, m->funcs[0], NULL, NULL,
                            &options));
  assert_int_equal(task->diags.length, 0);
  tir_interner_t in;
  tir_interner_init(&in, &arena);
  tir_expr_t *body = m->funcs[0]->nodes.data[0]->body;
  assert_non_null(tir_intern(&in, body));
  assert_non_null(tir_expr_poly(m->pool, &arena, body, NULL, NULL));
}

static void *deep_thread(void *arg) {
  *(tdsl_status_t *)arg = TDSL_STATUS_INTERNAL;
  td_task_t task;
  td_task_init(&task, NULL);
  *(tdsl_status_t *)arg = td_task_run(&task, deep_body, NULL);
  td_task_free(&task);
  return NULL;
}

static void deep_formula(void **state) {
  pthread_attr_t attributes;
  pthread_t thread;
  tdsl_status_t status;
  (void)state;
  pthread_attr_init(&attributes);
  assert_int_equal(pthread_attr_setstacksize(&attributes, 256 << 10), 0);
  assert_int_equal(pthread_create(&thread, &attributes, deep_thread, &status),
                   0);
  pthread_join(thread, NULL);
  assert_int_equal(status, TDSL_STATUS_OK);
}

/* Text that would make a careless reader recurse, allocate or loop. */
TASK_TEST(hostile_texts) {
  static const struct {
    const char *before, *repeat, *after;
    int count;
  } texts[] = {
      {"func @f(in x: f32[", "(", "", 100000},
      {"func @f(in x: f32[", "-", "1]) {}", 100000},
      {"func @f(in x: f32[1", "/2/3", "]) {}", 100000},
      {"func @f(in x: f32[", "min(1,", "", 100000},
      {"func @f(in x: f32[(A+B+C+D)", "*(A+B+C+D)", "]) dims(A, B, C, D) {}",
       100},
      {"func @f() {", "%x: i64 = loop %i in 0..1 carry(%p: i64 = %x) {", "",
       1000},
      {"func @f() { ", "loop %i in 0..1 { ", "", 1000},
      {"func @f() { %x: f32[2", ", 2", "] = map [] 1.0 }", 1000},
      {"func @f() { %x: f32 = map [a in 1", ", a in 1", "] 1.0 }", 10},
      {"", "(", "", 1000},
      {"func @f() { assert ", "not(", "", 1000},
      {"func @f() { assert true \"", "\\u0000", "\" }", 10},
      {"func @f() { assert true \"", "\xff", "\" }", 1},
      {"func @f() {} loc(\"", "x", "\":1:1)", 10},
      {"func @f(in x: i64 stack 4294967297) {}", "", "", 0},
      {"func @f(in x: f32 in 0..9223372036854775807*9223372036854775807) {}",
       "", "", 0},
      {"func @f() { %x: i64 = map [] $99999999999999999999 }", "", "", 0},
      {"\x01", "", "", 0},
  };
  (void)arg;
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    td_buf_t b;
    td_buf_init(&b, task);
    td_buf_puts(&b, texts[i].before);
    for (int k = 0; k < texts[i].count; k++) td_buf_puts(&b, texts[i].repeat);
    td_buf_puts(&b, texts[i].after);
    task->diags.length = 0;
    task->errors = 0;
    td_arena_t arena;
    td_arena_init(&arena, task);
    tir_module_t *m = parse(task, &arena, "hostile", td_buf_view(&b));
    if (m != NULL) fail_msg("text %zu is accepted", i);
    assert_int_equal(task->diags.length, 1);
    assert_string_equal(unit_first_id(task), "F70");
    td_arena_free_all(&arena);
    td_buf_free(&b);
  }
}

/* What verification refuses of a module that was built and not read is our
 * own fault. */
static void broken_body(td_task_t *task, void *arg) {
  hand_t h = hand_start(task, "broken");
  (void)arg;
  tir_index_t *i = index_n(&h, "i", false), *j = index_n(&h, "j", false);
  (void)map_node(&h, "y", TDSL_DTYPE_I64, i, tir_index_ref(h.arena, j));
  (void)tir_verify(task, h.m, "some pass", false);
}

static void broken_module(void **state) {
  td_task_t task;
  (void)state;
  td_task_init(&task, NULL);
  assert_int_equal(td_task_run(&task, broken_body, NULL),
                   TDSL_STATUS_INTERNAL);
  assert_non_null(strstr(task.message, "some pass"));
  assert_non_null(strstr(task.message, "@broken"));
  td_task_free(&task);
}

static void locations_body(td_task_t *task, void *arg) {
  static const char text[] =
      "func @f(\n"
      "    in x: f32 loc(\"a.tdsl\":2:5))\n"
      "  dims(N in 0..9) loc(\"a.tdsl\":1:1) {\n"
      "  require gt(N, 1) loc(\"b.tdsl\":9:3)\n"
      "  %y: f32 = map [] %x loc(\"a.tdsl\":3:7)\n"
      "}\n";
  td_buf_t b;
  (void)arg;
  tir_module_t *m = parse(task, &task->arena, "text", td_str(text));
  assert_non_null(m);
  td_buf_init(&b, task);
  tir_print_locs(&b, m);
  assert_string_equal(b.data, text);
}

static void locations(void **state) {
  (void)state;
  unit_run(locations_body);
}

/* Nothing leaks, and nothing is read that failed to be allocated. */
static void memory_body(td_task_t *task, void *arg) {
  static const char text[] =
      "test func @f() {\n"
      "  %x: f32[9] = map [i in 9] cast.f32(i)\n"
      "  %s: f32 = reduce.sum lanes [; i in 9] mul(%x[i], %x[i])\n"
      "  %y: f32[9] = loop %k in 0..3 carry(%p: f32[9] = %x) {\n"
      "    %q: f32[9] = update [i in 9] %p[div(i, 2)] += %x[i]\n"
      "    yield %q\n"
      "  }\n"
      "  %v: f32[2], %w: i64[2] = topk 2 %y\n"
      "  assert gt(%s, 1.0)\n"
      "}\n";
  td_arena_t arena;
  (void)arg;
  td_arena_init(&arena, task);
  tir_module_t *m = parse(task, &arena, "text", td_str(text));
  if (m == NULL) return;
  (void)tir_verify(task, m, "test", true);
  (void)print(task, m);
  tir_interp_options_t options = {TIR_F32, 2, false};
  (void)tir_interpret(task, &arena, m, m->funcs[0], NULL, NULL, &options);
}

static void failing_memory(void **state) {
  (void)state;
  unit_sweep(memory_body, NULL);
}

/* Iteration spaces near 2^63 begin, and end when the host asks. */
static int few_polls(void *user) {
  return --*(int *)user < 0;
}

static void endless_body(td_task_t *task, void *arg) {
  static const char text[] =
      "test func @map() {\n"
      "  %s: i64 = reduce.sum [; i in 9223372036854775807] 1\n"
      "}\n"
      "test func @update() {\n"
      "  %x: f32[1] = map [i in 1] 0.0\n"
      "  %y: f32[1] = update [i in 9223372036854775807] %x[0] += 1.0\n"
      "}\n"
      "test func @loop() {\n"
      "  loop %i in 0..9223372036854775807 {\n"
      "    assert ge(%i, 0)\n"
      "  }\n"
      "}\n";
  tir_module_t *m = parse(task, &task->arena, "text", td_str(text));
  tir_interp_options_t options = {TIR_F32, 0, false};
  assert_non_null(m);
  (void)tir_interpret(task, &task->arena, m, m->funcs[*(int *)arg], NULL,
                      NULL, &options);
}

static void endless(void **state) {
  (void)state;
  for (int i = 0; i < 3; i++) {
    int polls = 100;
    td_host_t host = {.cancel = {few_polls, &polls}};
    td_task_t task;
    td_task_init(&task, &host);
    assert_int_equal(td_task_run(&task, endless_body, &i),
                     TDSL_STATUS_CANCELLED);
    td_task_free(&task);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(canonical_texts), cmocka_unit_test(refused_texts),
      cmocka_unit_test(semantics),       cmocka_unit_test(build_print_run),
      cmocka_unit_test(explained_failures),
      cmocka_unit_test(swapped_state),   cmocka_unit_test(state_in_place),
      cmocka_unit_test(walks_share),     cmocka_unit_test(polynomials),
      cmocka_unit_test(plans),           cmocka_unit_test(dtypes),
      cmocka_unit_test(deep_formula),    cmocka_unit_test(hostile_texts),
      cmocka_unit_test(broken_module),   cmocka_unit_test(locations),
      cmocka_unit_test(failing_memory),  cmocka_unit_test(endless),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
