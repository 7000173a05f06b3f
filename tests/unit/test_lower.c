/* What lowering makes of small programs: which nodes, over which indices,
 * with which guards, and what it refuses.  Values are the business of
 * test_vectors_interp.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "frontend/lower.h"
#include "runtime/base/num.h"
#include "runtime/base/os.h"

typedef struct program {
  td_task_t task;
  td_arena_t arena;
  const char *text, *fn;
  bool use_mesh; /* else all axes are 1 */
  tir_module_t *module;
  tdsl_status_t status;
} program_t;

static uint32_t import_module(void *user, td_task_t *task, uint32_t from,
                              const char *name) {
  program_t *p = user;
  td_str_t text;
  const char *path = td_arena_printf(&p->arena, "%s/stdlib/%s.tdsl",
                                     TDSL_SOURCE_DIR, name);
  (void)from;
  if (!td_os_read_file(task, path, 0, &p->arena, &text)) return 0;
  return td_sources_add(task, path, text.data, text.length);
}

static void work(td_task_t *task, void *arg) {
  program_t *p = arg;
  td_arena_init(&p->arena, task);
  uint32_t file =
      td_sources_add(task, "test.tdsl", p->text, strlen(p->text));
  sem_options_t o = {.import = import_module,
                     .user = p,
                     .mesh_none = !p->use_mesh,
                     .need_values = true,
                     .entry = p->fn};
  sem_program_t *program = sem_check(task, &p->arena, file, &o);
  for (size_t i = 0; i < task->diags.length; i++)
    if (task->diags.data[i]->severity == TDSL_SEVERITY_ERROR)
      (void)fprintf(stderr, "%s\n", task->diags.data[i]->text);
  if (td_task_errors(task) > 0) return;
  p->module = lower_program(task, &p->arena, program,
                            sem_find_entry(program, p->fn));
  if (p->module != NULL) tir_verify(task, p->module, "lower", false);
}

static void lower(program_t *p, const char *fn, const char *text) {
  *p = (program_t){.text = text, .fn = fn, .use_mesh = p->use_mesh};
  td_task_init(&p->task, NULL);
  p->status = td_task_run(&p->task, work, p);
  assert_int_equal(p->status, TDSL_STATUS_OK);
}

static const tir_func_t *lowered(program_t *p, const char *text) {
  p->use_mesh = false;
  lower(p, "f", text);
  assert_non_null(p->module);
  assert_int_equal(p->module->func_count, 1);
  return p->module->funcs[0];
}

static void drop(program_t *p) {
  td_task_free(&p->task);
}

/* The node that defines a value of this name, or NULL. */
static const tir_node_t *find_in(const tir_block_t *block,
                                 const char *name) {
  for (size_t i = 0; i < block->length; i++) {
    const tir_node_t *n = block->data[i];
    for (uint32_t k = 0; k < n->out_count; k++)
      if (strcmp(n->outs[k]->name, name) == 0) return n;
    const tir_node_t *inside = find_in(&n->body_nodes, name);
    if (inside != NULL) return inside;
  }
  return NULL;
}

static const tir_node_t *find(const tir_func_t *f, const char *name) {
  const tir_node_t *n = find_in(&f->nodes, name);
  if (n == NULL) fail_msg("no node defines %s", name);
  return n;
}

/* Index names in order, reductions behind a semicolon: "bt;d". */
static void check_indices(const tir_node_t *n, const char *want) {
  char got[64] = "";
  size_t length = 0;
  bool reduction = false;
  for (uint32_t i = 0; i < n->index_count; i++) {
    if (n->indices[i]->is_reduction && !reduction) got[length++] = ';';
    reduction = n->indices[i]->is_reduction;
    got[length++] = n->indices[i]->name[0];
  }
  got[length] = '\0';
  assert_string_equal(got, want);
}

/* ---- definitions and calls ---------------------------------------------- */

static void one_node_a_definition(void **state) {
  (void)state;
  program_t p = {0};
  const tir_func_t *f = lowered(
      &p, "dyn R <= 64\n"
          "dim C = 5\n"
          "export fn f(x: f32[R, C], w: f32[C]) -> y: f32[R] {\n"
          "  d[r, c] = x[r, c] * w[c]\n"
          "  y[r] = sum[c] d[r, c]\n"
          "}\n");
  assert_int_equal(f->nodes.length, 2);
  check_indices(find(f, "d"), "rc");
  /* The reduction is the result itself, without a copy. */
  const tir_node_t *y = find(f, "y");
  check_indices(y, "r;c");
  assert_int_equal(y->reduce, TIR_REDUCE_SUM);
  assert_ptr_equal(f->slots[2].result, y->outs[0]);
  drop(&p);
}

static void reduction_that_misses_an_index_stands_alone(void **state) {
  (void)state;
  program_t p = {0};
  const tir_func_t *f = lowered(
      &p, "dim N = 3, M = 4\n"
          "export fn f(x: f32[N, M]) -> (y: f32[N, M], z: f32[N]) {\n"
          "  y[n, m] = sum[k] x[n, k]\n"
          "  z[n] = 1 + sum[k] x[n, k]\n"
          "}\n");
  check_indices(find(f, "y_sum"), "n;k");
  check_indices(find(f, "y"), "nm");
  check_indices(find(f, "z_sum"), "n;k");
  drop(&p);
}

static void only_outer_indices_that_occur(void **state) {
  (void)state;
  program_t p = {0};
  const tir_func_t *f = lowered(
      &p, "import nn (rope)\n"
          "dim B = 2, T = 3, H = 4, K = 6\n"
          "export fn f(q: f32[B, T, H, K], at: i32[B] in 9)\n"
          "    -> r: f32[B, T, H, K]"
          " {\n"
          "  r[b, t, h, :] = rope(q[b, t, h, :], at[b] + t, 10000.0)\n"
          "}\n");
  /* The angles depend on the position alone, not on the head. */
  check_indices(find(f, "r.a"), "bti");
  check_indices(find(f, "r"), "bthi");
  assert_int_equal(f->nodes.length, 2);
  drop(&p);
}

static void arguments_are_views(void **state) {
  (void)state;
  program_t p = {0};
  const tir_func_t *f = lowered(
      &p, "dim B = 2, T = 3, H = 4, K = 6\n"
          "fn dots[N, D](q: f32[N, D], k: f32[N, D]) -> s: f32[N, N] {\n"
          "  s[i, j] = sum[d] q[i, d] * k[j, d]\n"
          "}\n"
          "export fn f(q: f32[B, T, H, K], k: f32[B, T, 2, K])\n"
          "    -> o: f32[B, H, T, T] {\n"
          "  o[b, h, :, :] = dots(q[b, :, h, :], k[b, :, h / 2, :])\n"
          "}\n");
  assert_int_equal(f->nodes.length, 1);
  check_indices(find(f, "o"), "bhij;d");
  drop(&p);
}

static void results_in_the_order_of_the_caller(void **state) {
  (void)state;
  program_t p = {0};
  const tir_func_t *f = lowered(
      &p, "dim B = 2, T = 3, H = 4\n"
          "fn double[N](x: f32[N]) -> y: f32[N] { y[i] = 2 * x[i] }\n"
          "fn heads(x: f32[H, T]) -> y: f32[T, H] {\n"
          "  y[:, h] = double(x[h, :])\n"
          "}\n"
          "export fn f(x: f32[B, H, T]) -> y: f32[B, T, H] {\n"
          "  y[b, :, :] = heads(x[b, :, :])\n"
          "}\n");
  assert_int_equal(f->nodes.length, 1);
  check_indices(find(f, "y"), "bih");
  drop(&p);
}

static void scalar_functions_are_formulas(void **state) {
  (void)state;
  program_t p = {0};
  const tir_func_t *f = lowered(
      &p, "import nn (silu, gelu)\n"
          "dim N = 3\n"
          "export fn f(x: f32[N]) -> y: f32[N] {\n"
          "  y[n] = silu(gelu(x[n])) * silu(x[n])\n"
          "}\n");
  assert_int_equal(f->nodes.length, 1);
  drop(&p);
}

static void results_round_at_their_own_store(void **state) {
  (void)state;
  program_t p = {0};
  const tir_func_t *f = lowered(
      &p, "import nn (rmsnorm)\n"
          "dim B = 2, D = 3\n"
          "export fn f(x: f32[B, D], w: f32[D]) -> y: f32[B, D] {\n"
          "  h[b, :]: bf16 = rmsnorm(x[b, :], w, 1e-5)\n"
          "  y[b, d] = h[b, d]\n"
          "}\n");
  assert_int_equal(find(f, "h")->outs[0]->dtype, TDSL_DTYPE_BF16);
  assert_int_equal(f->nodes.length, 4); /* r_sum, r, h, y */
  drop(&p);
}

/* ---- laziness ----------------------------------------------------------- */

static void guards_reach_reductions(void **state) {
  (void)state;
  program_t p = {0};
  const tir_func_t *f = lowered(
      &p, "dim N = 3, M = 4\n"
          "export fn f(x: f32[M, N], k: i32[N]) -> y: f32[N] {\n"
          "  y[n] = if k[n] >= 0 and k[n] < M\n"
          "      then 2 * sum[j where j != n] x[k[n], j] else 0\n"
          "}\n");
  const tir_node_t *sum = find(f, "y_sum");
  assert_non_null(sum->guard);
  assert_int_equal(sum->guard->op, TIR_X_AND);
  assert_int_equal(sum->guard->args[0]->op, TIR_X_AND); /* the `if` */
  assert_int_equal(sum->guard->args[1]->op, TIR_X_NE);  /* `where` */
  assert_int_equal(find(f, "y")->body->op, TIR_X_SELECT);
  drop(&p);
}

static void guards_reach_into_calls(void **state) {
  (void)state;
  program_t p = {0};
  const tir_func_t *f = lowered(
      &p, "dim N = 3, M = 4\n"
          "fn twice[K](x: f32[K]) -> y: f32 {\n"
          "  t[i] = 2 * x[i]\n"
          "  y = max[i] t[i]\n"
          "}\n"
          "export fn f(x: f32[M, N]) -> y: f32[M] {\n"
          "  y[m] = if m > 0 then twice(x[m - 1, :]) else 0\n"
          "}\n");
  assert_int_equal(find(f, "y.twice.t")->body->op, TIR_X_SELECT);
  assert_non_null(find(f, "y.twice")->guard);
  drop(&p);
}

static void padding_tests_what_may_be_out(void **state) {
  (void)state;
  program_t p = {0};
  const tir_func_t *f = lowered(
      &p, "dim N = 3, M = 4\n"
          "export fn f(x: f32[N, M]) -> y: f32[N, M] {\n"
          "  y[n, m] = x[n, m + 1 | -1]\n"
          "}\n");
  const tir_expr_t *body = find(f, "y")->body;
  assert_int_equal(body->op, TIR_X_SELECT);
  assert_int_equal(body->args[0]->op, TIR_X_AND);
  assert_int_equal(body->args[0]->args[0]->op, TIR_X_GE);
  assert_int_equal(body->args[0]->args[1]->op, TIR_X_LT);
  drop(&p);
}

/* ---- state -------------------------------------------------------------- */

static void loops_carry_what_they_assign(void **state) {
  (void)state;
  program_t p = {0};
  const tir_func_t *f = lowered(
      &p, "dim L = 3, N = 4\n"
          "struct S { k: f32[L, N]; v: f32[L, N]; idle: f32[N] }\n"
          "fn put(s: inout S, x: f32[N], l: i32 in L) {\n"
          "  s.k[l, n] := x[n]\n"
          "}\n"
          "export fn f(s: inout S, x: f32[N]) -> y: f32[N] {\n"
          "  var a = x\n"
          "  var b: f32 = 0\n"
          "  for l in L {\n"
          "    put(s, a, l)\n"
          "    a := a + s.v[l, :]\n"
          "  }\n"
          "  y[n] = a[n] + b\n"
          "}\n");
  const tir_node_t *loop = NULL;
  for (size_t i = 0; i < f->nodes.length; i++)
    if (f->nodes.data[i]->kind == TIR_LOOP) loop = f->nodes.data[i];
  assert_non_null(loop);
  assert_int_equal(loop->operand_count, 2);
  assert_string_equal(loop->params[0]->name, "s.k");
  assert_string_equal(loop->params[1]->name, "a");
  assert_int_equal(loop->body_nodes.data[0]->kind, TIR_UPDATE);
  assert_true(loop->body_nodes.data[0]->is_distinct);
  /* What was not written leaves as it came. */
  assert_ptr_equal(f->slots[0].result, loop->outs[0]);
  assert_ptr_equal(f->slots[1].result, f->slots[1].value);
  assert_ptr_equal(f->slots[2].result, f->slots[2].value);
  drop(&p);
}

static void results_are_buffers_of_their_own(void **state) {
  (void)state;
  program_t p = {0};
  const tir_func_t *f = lowered(
      &p, "dim N = 4\n"
          "export fn f(x: f32[N], c: inout f32[N]) -> (y: f32[N], z: f32[N])"
          " {\n"
          "  y = x\n"
          "  z = y\n"
          "  c := x\n"
          "}\n");
  for (uint32_t i = 0; i < f->slot_count; i++) {
    const tir_value_t *a = f->slots[i].result;
    if (a == NULL) continue;
    assert_non_null(a->def);
    for (uint32_t k = 0; k < f->slot_count; k++) {
      assert_ptr_not_equal(a, f->slots[k].value);
      if (k != i) assert_ptr_not_equal(a, f->slots[k].result);
    }
  }
  drop(&p);
}

/* ---- slots -------------------------------------------------------------- */

static void slots_of_structs(void **state) {
  (void)state;
  program_t p = {0};
  const tir_func_t *f = lowered(
      &p, "dim L = 2, D = 3\n"
          "dyn B <= 8\n"
          "require B >= 1\n"
          "struct Inner { w: bf16[D] from \"weight\"; b: f32[D] }\n"
          "struct Layer { a: Inner from \"attn\"; n: Inner from \"\" }\n"
          "struct Net { emb: bf16[D, D] from \"e.weight\"\n"
          "  lay: [L] Layer from \"layers.{}\"\n"
          "  head: bf16[D, D] from \"head\" else emb }\n"
          "struct State { k: bf16[L, B + 1] }\n"
          "export fn f(m: Net, s: inout State, t: i32[B] in -1 .. D,\n"
          "            eps: f32 = 0.25, n: i32 = 3) -> y: f32[B] {\n"
          "  y[b] = f32(t[b]) + eps\n"
          "}\n");
  static const struct {
    const char *name, *file;
    uint32_t stacks;
  } want[] = {{"m.emb", "e.weight", 0},
              {"m.lay.a.w", "layers.{}.attn.weight", 1},
              {"m.lay.a.b", "layers.{}.attn.b", 1},
              {"m.lay.n.w", "layers.{}.weight", 1},
              {"m.lay.n.b", "layers.{}.b", 1},
              {"m.head", "head", 0},
              {"s.k", NULL, 0},
              {"t", NULL, 0},
              {"eps", NULL, 0},
              {"n", NULL, 0},
              {"y", NULL, 0}};
  assert_int_equal(f->slot_count, sizeof want / sizeof want[0]);
  for (uint32_t i = 0; i < f->slot_count; i++) {
    const tir_slot_t *s = &f->slots[i];
    assert_string_equal(s->name, want[i].name);
    assert_int_equal(s->is_weight, want[i].file != NULL);
    assert_int_equal(s->stack_count, want[i].stacks);
    if (want[i].file == NULL)
      assert_null(s->file_pattern);
    else
      assert_string_equal(s->file_pattern, want[i].file);
  }
  assert_int_equal(f->slots[5].else_slot, 0);
  assert_int_equal(f->slots[0].else_slot, -1);
  assert_int_equal(f->slots[6].kind, TIR_INOUT);
  assert_string_equal(f->slots[6].dim_text[1], "B + 1");
  int64_t lo, hi;
  assert_true(ix_is_const(f->slots[7].lo, &lo));
  assert_true(ix_is_const(f->slots[7].hi, &hi));
  assert_int_equal(lo, -1);
  assert_int_equal(hi, 3);
  assert_true(f->slots[8].has_default);
  assert_true(f->slots[8].default_f64 == 0.25);
  assert_int_equal(f->slots[9].default_i64, 3);
  assert_int_equal(f->dim_count, 1);
  assert_int_equal(f->require_count, 1);
  assert_string_equal(f->requires[0].text, "B >= 1");
  drop(&p);
}

/* ---- refusals ----------------------------------------------------------- */

static void check_refused(program_t *p, td_diag_id_t id, uint32_t line) {
  assert_null(p->module);
  assert_int_equal(td_task_errors(&p->task), 1);
  const td_diag_t *d = td_vec_last(&p->task.diags);
  assert_int_equal(d->id, id);
  assert_int_equal(d->loc.line, line);
  drop(p);
}

static void grad_is_refused(void **state) {
  (void)state;
  program_t p = {0};
  lower(&p, "f",
        "dim N = 3\n"
        "export fn f(w: f32[N]) -> g: f32[N] {\n"
        "  loss = sum[n] w[n] * w[n]\n"
        "  g = grad(loss, w)\n"
        "}\n");
  check_refused(&p, TD_B01, 4);
}

static void meshes_are_refused(void **state) {
  (void)state;
  static const char text[] = "mesh (dp = 2)\n"
                             "dim N = 4\n"
                             "export fn f(x: f32[N@dp]) -> y: f32[N@dp] {\n"
                             "  y[n] = 2 * x[n]\n"
                             "}\n";
  program_t p = {.use_mesh = true};
  lower(&p, "f", text);
  check_refused(&p, TD_B01, 3);
  /* Without one the marks mean nothing. */
  (void)lowered(&p, text);
  drop(&p);
}

/* ---- deep and wide programs --------------------------------------------- */

static void check_deep(td_task_t *task, void *arg) {
  program_t *p = arg;
  td_buf_t b;
  td_buf_init(&b, task);
  td_buf_puts(&b, "export fn f(a: f32[4]) -> y: f32[4] {\n  y[i] = a[i]");
  for (int i = 0; i < 200000; i++) td_buf_puts(&b, " + a[i]");
  td_buf_puts(&b, "\n}\n");
  p->text = td_buf_finish(&b, &task->arena);
  p->fn = "f";
  work(task, p);
}

static void deep_thread(void *arg) {
  program_t *p = arg;
  td_task_init(&p->task, NULL);
  p->status = td_task_run(&p->task, check_deep, p);
}

/* A sum of 200,001 terms, from text to a verified node, in 256 KiB. */
static void chains_take_no_stack(void **state) {
  (void)state;
  program_t p = {0};
  td_thread_t thread;
  assert_true(td_thread_start(&thread, deep_thread, &p, 256 * 1024));
  td_thread_join(&thread);
  assert_int_equal(p.status, TDSL_STATUS_OK);
  assert_non_null(p.module);
  assert_int_equal(p.module->funcs[0]->nodes.length, 1);
  drop(&p);
}

static void calls_that_double_are_refused(void **state) {
  (void)state;
  program_t p = {0};
  td_task_t scratch;
  td_task_init(&scratch, NULL);
  td_buf_t b;
  td_buf_init(&b, &scratch);
  for (int i = 0; i < 24; i++)
    td_buf_printf(&b,
                  "fn g%d[N](x: f32[N]) -> y: f32[N] { y = g%d(g%d(x)) }\n",
                  i, i + 1, i + 1);
  td_buf_puts(&b, "fn g24[N](x: f32[N]) -> y: f32[N] { y = x + 1 }\n"
                  "export fn f(x: f32[2]) -> y: f32[2] { y = g0(x) }\n");
  lower(&p, "f", b.data);
  /* half of all calls are those of g24, which stand in line 24 */
  check_refused(&p, TD_B01, 24);
  td_task_free(&scratch);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_node_a_definition),
      cmocka_unit_test(reduction_that_misses_an_index_stands_alone),
      cmocka_unit_test(only_outer_indices_that_occur),
      cmocka_unit_test(arguments_are_views),
      cmocka_unit_test(results_in_the_order_of_the_caller),
      cmocka_unit_test(scalar_functions_are_formulas),
      cmocka_unit_test(results_round_at_their_own_store),
      cmocka_unit_test(guards_reach_reductions),
      cmocka_unit_test(guards_reach_into_calls),
      cmocka_unit_test(padding_tests_what_may_be_out),
      cmocka_unit_test(loops_carry_what_they_assign),
      cmocka_unit_test(results_are_buffers_of_their_own),
      cmocka_unit_test(slots_of_structs),
      cmocka_unit_test(grad_is_refused),
      cmocka_unit_test(meshes_are_refused),
      cmocka_unit_test(chains_take_no_stack),
      cmocka_unit_test(calls_that_double_are_refused),
  };
  return cmocka_run_group_tests_name("lower", tests, NULL, NULL);
}
