/* Plans made from the tensor IR, run on the CPU and compared with the
   interpreter: carried values and their copies, updates in place and not,
   results that alias, loops without trips, maps in place.  Every text is
   compiled in four ways and run on several dims with poisoned memory. */
#include "tests/unit/unit.h"

#include "tests/unit/road.h"

/* The same plan, from its text, with its machine code. */
static plan_t *through_text(td_task_t *task, const plan_t *plan) {
  td_buf_t first, second;
  td_buf_init(&first, task);
  td_buf_init(&second, task);
  plan_print(&first, plan, true);
  uint32_t file =
      td_sources_add(task, "road.plan", first.data, first.length);
  plan_t *again = plan_parse(task, &task->arena, file);
  if (again == NULL) road_report(task, plan);
  assert_non_null(again);
  assert_true(plan_verify(task, again, "test", true));
  plan_print(&second, again, true);
  assert_string_equal(first.data, second.data);
  td_buf_free(&first);
  td_buf_free(&second);
  return again;
}

/* All entries of a text, in all modes, at each of the dims (one value for
   all dims of the entry). */
static void want_road(td_task_t *task, const char *text) {
  static const int64_t values[] = {5, 0, 1, 97};
  hal_device_t *device = rcpu_device_create(task, 2);
  assert_non_null(device);
  for (int mode = 0; mode < 4; mode++) {
    road_mode_t m = {.separate = (mode & 1) != 0,
                     .no_passes = (mode & 2) != 0, .asserts = true};
    plan_t *plan = through_text(task, road_compile(task, text, m));
    for (uint32_t e = 0; e < plan->entry_count; e++) {
      uint32_t count = plan->entries[e].dim_count;
      for (size_t v = 0; v < (count > 0 ? 4 : 1); v++) {
        int64_t dims[8];
        for (uint32_t d = 0; d < count; d++) dims[d] = values[v];
        road_run(task, device, text, plan, e, dims);
      }
    }
  }
  device->vtable->destroy(device);
}

TASK_TEST(chain) {
  UNUSED_ARG;
  want_road(task,
    "func @f(in x: f32[T, 7], out y: f32[T])\n  dims(T in 0..100) {\n"
    "  %a: f32[T, 7] = map [t in T, i in 7] mul(%x[t, i], 2.0)\n"
    "  %s: f32[T] = reduce.sum lanes [t in T; i in 7] %a[t, i]\n"
    "  %b: f32[T, 7] = map [t in T, i in 7] add(%a[t, i], %s[t])\n"
    "  %c: f32[T] = reduce.max [t in T; i in 7] %b[t, i]\n"
    "  return y = %c\n}\n");
}

TASK_TEST(swap) {
  UNUSED_ARG;
  want_road(task,
    "func @f(in a: f32[T], in b: f32[T], in n: i64 in 0..6, out x: f32[T],"
    " out y: f32[T])\n  dims(T in 0..100) {\n"
    "  %x: f32[T], %y: f32[T] = loop %i in 0..%n "
    "carry(%p: f32[T] = %a, %q: f32[T] = %b) {\n"
    "    yield %q, %p\n  }\n"
    "  return x = %x, y = %y\n}\n"
    /* three in a ring, one of them changed on the way */
    "func @ring(in a: f32[T], in b: f32[T], in c: f32[T], out x: f32[T],"
    " out y: f32[T], out z: f32[T])\n  dims(T in 0..100) {\n"
    "  %x: f32[T], %y: f32[T], %z: f32[T] = loop %i in 0..4 "
    "carry(%p: f32[T] = %a, %q: f32[T] = %b, %r: f32[T] = %c) {\n"
    "    %s: f32[T] = map [t in T] add(%p[t], 1.0)\n"
    "    yield %q, %r, %s\n  }\n"
    "  return x = %x, y = %y, z = %z\n}\n");
}

TASK_TEST(yields_outer) {
  UNUSED_ARG;
  want_road(task,
    "func @f(in a: f32[T], in b: f32[T], out x: f32[T], out o: i64,"
    " out k: i64)\n  dims(T in 0..100) {\n"
    "  %w: f32[T] = map [t in T] add(%a[t], %b[t])\n"
    "  %six: i64 = map [] 6\n"
    "  %x: f32[T], %o: i64, %k: i64 = loop %i in 0..3 "
    "carry(%p: f32[T] = %b, %q: i64 = %six, %r: i64 = %six) {\n"
    "    %u: f32[T] = map [t in T] add(%p[t], %w[t])\n"
    "    yield %w, %q, %i\n  }\n"
    "  return x = %x, o = %o, k = %k\n}\n");
}

TASK_TEST(same_init) {
  UNUSED_ARG;
  want_road(task,
    "func @f(in a: f32[T], out x: f32[T], out y: f32[T], out z: f32[T])\n"
    "  dims(T in 0..100) {\n"
    "  %m: f32[T] = map [t in T] mul(%a[t], 3.0)\n"
    "  %x: f32[T], %y: f32[T] = loop %i in 0..3 "
    "carry(%p: f32[T] = %m, %q: f32[T] = %m) {\n"
    "    %u: f32[T] = map [t in T] add(%p[t], %q[t])\n"
    "    %v: f32[T] = map [t in T] sub(%u[t], cast.f32(%i))\n"
    "    yield %u, %v\n  }\n"
    "  return x = %x, y = %y, z = %m\n}\n");
}

TASK_TEST(updates) {
  UNUSED_ARG;
  want_road(task,
    "func @chain(in a: f32[T, 4], in at: i64 in 0..4, out x: f32[T, 4])\n"
    "  dims(T in 0..100) {\n"
    "  %m: f32[T, 4] = map [t in T, i in 4] mul(%a[t, i], 3.0)\n"
    "  %n: f32[T, 4] = update distinct [t in T] %m[t, %at] := 9.0\n"
    "  %o: f32[T, 4] = update distinct [t in T] %n[t, 1] += 0.5\n"
    "  %p: f32[T, 4] = update distinct [t in T, i in 4] %o[t, i] := "
    "mul(%o[t, i], 2.0)\n"
    "  return x = %p\n}\n"
    /* reads elsewhere: reverses */
    "func @reverse(in a: f32[T], out x: f32[T])\n  dims(T in 0..100) {\n"
    "  %m: f32[T] = map [t in T] mul(%a[t], 3.0)\n"
    "  %n: f32[T] = update distinct [i in T] "
    "%m[sub(sub(dim(T), 1), i)] := %m[i]\n"
    "  return x = %n\n}\n"
    /* an argument that is only read */
    "func @fixed(in a: f32[8], in at: i64 in 0..8, out x: f32[8])\n {\n"
    "  %n: f32[8] = update distinct [] %a[%at] += 7.0\n"
    "  return x = %n\n}\n"
    /* the old version is wanted later */
    "func @kept(in a: f32[8], in at: i64 in 0..8, out x: f32[8],"
    " out y: f32[8])\n {\n"
    "  %m: f32[8] = map [t in 8] mul(%a[t], 3.0)\n"
    "  %n: f32[8] = update distinct [] %m[%at] := 7.0\n"
    "  %o: f32[8] = map [t in 8] sub(%n[t], %m[t])\n"
    "  return x = %n, y = %o\n}\n"
    /* contributions to one element */
    "func @hits(in a: f32[T], in k: i64[T] in 0..5, out x: f32[5])\n"
    "  dims(T in 0..100) {\n"
    "  %m: f32[5] = map [t in 5] 1.0\n"
    "  %n: f32[5] = update [t in T] where gt(%a[t], -3.0) "
    "%m[%k[t]] += %a[t]\n"
    "  return x = %n\n}\n");
}

TASK_TEST(loop_updates) {
  UNUSED_ARG;
  want_road(task,
    "func @f(in a: f32[T, 4], out x: f32[T, 4])\n  dims(T in 0..100) {\n"
    "  %x: f32[T, 4] = loop %i in 0..4 carry(%p: f32[T, 4] = %a) {\n"
    "    %q: f32[T, 4] = update distinct [t in T] %p[t, %i] += "
    "cast.f32(%i)\n"
    "    yield %q\n  }\n"
    "  return x = %x\n}\n"
    /* reads elsewhere inside a loop */
    "func @reverse(in a: f32[T], out x: f32[T])\n  dims(T in 0..100) {\n"
    "  %x: f32[T] = loop %i in 0..3 carry(%p: f32[T] = %a) {\n"
    "    %q: f32[T] = update distinct [i in T] "
    "%p[sub(sub(dim(T), 1), i)] := add(%p[i], 1.0)\n"
    "    yield %q\n  }\n"
    "  return x = %x\n}\n"
    /* updates something from outside anew in each iteration */
    "func @anew(in a: f32[4], out x: f32[4], out y: f32[4])\n {\n"
    "  %m: f32[4] = map [t in 4] mul(%a[t], 3.0)\n"
    "  %x: f32[4] = loop %i in 0..3 carry(%p: f32[4] = %m) {\n"
    "    %q: f32[4] = update distinct [] %m[%i] := 50.0\n"
    "    %r: f32[4] = map [t in 4] add(%p[t], %q[t])\n"
    "    yield %r\n  }\n"
    "  return x = %x, y = %m\n}\n"
    /* two versions of the carried value are alive */
    "func @both(in a: f32[4], out x: f32[4])\n {\n"
    "  %x: f32[4] = loop %i in 0..4 carry(%p: f32[4] = %a) {\n"
    "    %q: f32[4] = update distinct [] %p[%i] += 1.0\n"
    "    %r: f32[4] = map [t in 4] add(%p[sub(3, t)], %q[t])\n"
    "    yield %r\n  }\n"
    "  return x = %x\n}\n");
}

TASK_TEST(inout) {
  UNUSED_ARG;
  want_road(task,
    "func @step(inout w: f32[T], in g: f32[T], out n: f32)\n"
    "  dims(T in 0..100) {\n"
    "  %v: f32[T] = map [t in T] sub(%w[t], mul(%g[t], 0.5))\n"
    "  %n: f32 = reduce.sum lanes [; t in T] %v[t]\n"
    "  return w = %v, n = %n\n}\n"
    "func @cache(inout c: f32[T, 3], in at: i64 in 0..3, in g: f32[T],"
    " out y: f32[T])\n  dims(T in 0..100) {\n"
    "  %d: f32[T, 3] = update distinct [t in T] %c[t, %at] := %g[t]\n"
    "  %y: f32[T] = reduce.sum lanes [t in T; i in 3] %d[t, i]\n"
    "  return c = %d, y = %y\n}\n"
    /* states exchanged, and the old one returned too */
    "func @exchange(inout a: f32[T], inout b: f32[T], out c: f32[T],"
    " out d: f32[T])\n  dims(T in 0..100) {\n"
    "  return a = %b, b = %a, c = %a, d = %a\n}\n"
    "func @ring(inout a: f32[T], inout b: f32[T], inout c: f32[T])\n"
    "  dims(T in 0..100) {\n"
    "  %e: f32[T] = map [t in T] add(%a[t], %b[t])\n"
    "  return a = %b, b = %c, c = %e\n}\n"
    "func @same(inout a: f32[T], inout b: f32[T])\n  dims(T in 0..100) {\n"
    "  %e: f32[T] = map [t in T] add(%a[t], %b[t])\n"
    "  return a = %e, b = %e\n}\n"
    "func @idle(inout a: f32[T], inout n: i64)\n  dims(T in 0..100) {\n"
    "  %m: i64 = map [] add(%n, 1)\n"
    "  return a = %a, n = %m\n}\n"
    "func @loop(inout a: f32[T], inout b: f32[T], in n: i64 in 0..4)\n"
    "  dims(T in 0..100) {\n"
    "  %x: f32[T], %y: f32[T] = loop %i in 0..%n "
    "carry(%p: f32[T] = %a, %q: f32[T] = %b) {\n"
    "    %r: f32[T] = map [t in T] add(%p[t], %q[t])\n"
    "    yield %q, %r\n  }\n"
    "  return a = %x, b = %y\n}\n");
}

TASK_TEST(results) {
  UNUSED_ARG;
  want_road(task,
    "func @alias(in a: f32[T], out x: f32[T], out y: f32[T], out z: f32[T])\n"
    "  dims(T in 0..100) {\n"
    "  %m: f32[T] = map [t in T] mul(%a[t], 3.0)\n"
    "  return x = %m, y = %m, z = %a\n}\n"
    "func @mixed(in a: i32[T], in b: bf16[T, 3], out x: i32[T],"
    " out y: bf16[T, 3], out z: u8[T])\n  dims(T in 0..100) {\n"
    "  %m: i32[T] = map [t in T] mul(%a[t], 3)\n"
    "  %n: bf16[T, 3] = map [t in T, i in 3] add(%b[t, i], 1.0)\n"
    "  %z: u8[T] = map [t in T] cast.u8(select(gt(%a[t], 0), 1, 0))\n"
    "  return x = %m, y = %n, z = %z\n}\n");
}

TASK_TEST(nested) {
  UNUSED_ARG;
  want_road(task,
    "func @f(in a: f32[T], out x: f32[T], out s: i64)\n"
    "  dims(T in 0..100) {\n"
    "  %zero: i64 = map [] 0\n"
    "  %x: f32[T], %s: i64 = loop %i in 0..3 "
    "carry(%p: f32[T] = %a, %c: i64 = %zero) {\n"
    "    %q: f32[T], %d: i64 = loop %j in 0..%i "
    "carry(%r: f32[T] = %p, %e: i64 = %c) {\n"
    "      %u: f32[T] = map [t in T] add(%r[t], %p[t])\n"
    "      %f: i64 = map [] add(%e, mul(%i, %j))\n"
    "      yield %u, %f\n    }\n"
    "    %v: f32[T] = map [t in T] sub(%q[t], 1.0)\n"
    "    yield %v, %d\n  }\n"
    "  return x = %x, s = %s\n}\n"
    /* bounds that are formulas, and the outer variable carried inside */
    "func @g(in a: i64 in 0..4, out y: i64)\n {\n"
    "  %one: i64 = map [] 1\n"
    "  %y: i64 = loop %i in sub(%a, 2)..add(%a, 1) carry(%p: i64 = %one) {\n"
    "    %q: i64 = loop %j in 0..3 carry(%r: i64 = %i) {\n"
    "      %u: i64 = map [] add(%r, %p)\n"
    "      yield %u\n    }\n"
    "    yield %q\n  }\n"
    "  return y = %y\n}\n");
}

TASK_TEST(zero_trips) {
  UNUSED_ARG;
  want_road(task,
    "func @f(in a: f32[T], in n: i64 in 0..1, out x: f32[T], out y: f32[T])\n"
    "  dims(T in 0..100) {\n"
    "  %m: f32[T] = map [t in T] mul(%a[t], 3.0)\n"
    "  %x: f32[T], %y: f32[T] = loop %i in 0..%n "
    "carry(%p: f32[T] = %a, %q: f32[T] = %m) {\n"
    "    %r: f32[T] = map [t in T] add(%p[t], %q[t])\n"
    "    yield %r, %p\n  }\n"
    "  return x = %x, y = %y\n}\n");
}

/* ---- what planning saves ------------------------------------------------- */

static uint32_t copies(const plan_entry_t *e) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < e->step_count; i++) {
    count += e->steps[i].kind == PLAN_STEP_COPY;
  }
  return count;
}

static int64_t arena(const plan_entry_t *e, int64_t dim) {
  int64_t dims[8] = {dim, dim, dim, dim, dim, dim, dim, dim}, bytes = -1;
  plan_env_t env = {dims, NULL};
  assert_true(plan_eval(&e->arena_bytes, &env, &bytes));
  return bytes;
}

/* State that is updated stays where it is, in the caller's memory. */
TASK_TEST(in_place) {
  UNUSED_ARG;
  static const char text[] =
    "func @step(inout w: f32[T], in g: f32[T])\n  dims(T in 0..1000) {\n"
    "  %v: f32[T] = map [t in T] sub(%w[t], mul(%g[t], 0.5))\n"
    "  return w = %v\n}\n"
    "func @cache(inout c: f32[T, 3], in at: i64 in 0..3, in g: f32[T])\n"
    "  dims(T in 0..1000) {\n"
    "  %x: f32[T, 3] = loop %i in 0..3 carry(%p: f32[T, 3] = %c) {\n"
    "    %d: f32[T, 3] = update distinct [t in T] %p[t, %i] := %g[t]\n"
    "    yield %d\n  }\n"
    "  return c = %x\n}\n"
    "func @layers(in a: f32[T], out x: f32[T])\n  dims(T in 0..1000) {\n"
    "  %m: f32[T] = map [t in T] mul(%a[t], 3.0)\n"
    "  %s: f32 = reduce.max [; t in T] %m[t]\n"
    "  %x: f32[T] = loop %i in 0..3 carry(%p: f32[T] = %m) {\n"
    "    %q: f32[T] = map [t in T] add(%p[t], %s)\n"
    "    yield %q\n  }\n"
    "  return x = %x\n}\n";
  plan_t *plan = road_compile(task, text, (road_mode_t){0});
  for (uint32_t e = 0; e < 3; e++) {
    if (copies(&plan->entries[e]) > 0) road_report(task, plan);
    assert_int_equal(copies(&plan->entries[e]), 0);
  }
  assert_int_equal(arena(&plan->entries[0], 100), 0);
  assert_int_equal(arena(&plan->entries[1], 100), 0);
  assert_int_equal(arena(&plan->entries[2], 100), 64); /* s alone */
  want_road(task, text);
}

/* What may not be in place is not: an operand that is read elsewhere, later,
   by a reduction, or that the caller keeps. */
TASK_TEST(not_in_place) {
  UNUSED_ARG;
  static const char text[] =
    "func @shifted(inout w: f32[T])\n  dims(T in 0..1000) {\n"
    "  %v: f32[T] = map [t in T] add(%w[t], %w[sub(sub(dim(T), 1), t)])\n"
    "  return w = %v\n}\n"
    "func @crossed(inout w: f32[T, T])\n  dims(T in 0..100) {\n"
    "  %v: f32[T, T] = map [t in T, u in T] add(%w[u, t], 1.0)\n"
    "  return w = %v\n}\n"
    "func @normed(inout w: f32[T, 5])\n  dims(T in 0..1000) {\n"
    "  %s: f32[T] = reduce.max [t in T; i in 5] %w[t, i]\n"
    "  %v: f32[T, 5] = map [t in T, i in 5] sub(%w[t, i], %s[t])\n"
    "  return w = %v\n}\n"
    "func @product(inout w: f32[5, 5])\n {\n"
    "  %v: f32[5, 5] = reduce.sum fma [t in 5, u in 5; i in 5] "
    "mul(%w[t, i], %w[i, u])\n"
    "  return w = %v\n}\n"
    "func @both(inout w: f32[T], out y: f32[T])\n  dims(T in 0..1000) {\n"
    "  %v: f32[T] = map [t in T] add(%w[t], 1.0)\n"
    "  return w = %v, y = %w\n}\n";
  want_road(task, text);
}

/* A residual is added where it lies, unless the product reads it too. */
TASK_TEST(residual) {
  UNUSED_ARG;
  static const char text[] =
    "func @plain(in a: f32[T, 40], in w: f32[40, 24], inout x: f32[T, 24])\n"
    "  dims(T in 0..1000) {\n"
    "  %d: f32[T, 24] = reduce.sum fma [t in T, o in 24; i in 40] "
    "mul(%a[t, i], %w[i, o])\n"
    "  %y: f32[T, 24] = map [t in T, o in 24] add(%x[t, o], %d[t, o])\n"
    "  return x = %y\n}\n"
    "func @own(in w: f32[24, 24], inout x: bf16[T, 24])\n"
    "  dims(T in 0..1000) {\n"
    "  %d: f32[T, 24] = reduce.sum fma [t in T, o in 24; i in 24] "
    "mul(%x[t, i], %w[i, o])\n"
    "  %y: bf16[T, 24] = map [t in T, o in 24] add(%x[t, o], %d[t, o])\n"
    "  return x = %y\n}\n"
    "func @layers(in w: f32[3, 24, 24], in a: f32[T, 24], "
    "out x: f32[T, 24])\n  dims(T in 0..1000) {\n"
    "  %x: f32[T, 24] = loop %l in 0..3 carry(%p: f32[T, 24] = %a) {\n"
    "    %d: f32[T, 24] = reduce.sum fma [t in T, o in 24; i in 24] "
    "mul(%a[t, i], %w[%l, i, o])\n"
    "    %q: f32[T, 24] = map [t in T, o in 24] "
    "select(gt(%p[t, o], 0.0), add(%p[t, o], %d[t, o]), %d[t, o])\n"
    "    %r: f32[T, 24] = map [t in T, o in 24] mul(%q[t, o], 0.5)\n"
    "    yield %r\n  }\n"
    "  return x = %x\n}\n";
  plan_t *plan = road_compile(task, text, (road_mode_t){0});
  assert_int_equal(copies(&plan->entries[0]), 0);
  assert_int_equal(copies(&plan->entries[1]), 1);
  assert_int_equal(copies(&plan->entries[2]), 1); /* the start: %a is kept */
  want_road(task, text);
}

/* A chain of layers needs two buffers, however long it is. */
TASK_TEST(reuse) {
  UNUSED_ARG;
  td_buf_t b;
  td_buf_init(&b, task);
  td_buf_puts(&b, "func @f(in x0: f32[T, 8], out y: f32[T, 8])\n"
                  "  dims(T in 0..1000) {\n");
  for (int i = 0; i < 20; i++) {
    td_buf_printf(&b, "  %%x%d: f32[T, 8] = reduce.sum fma [t in T, o in 8; "
                      "i in 8] mul(%%x%d[t, i], %%x%d[0, o])\n"
                      "  %%m%d: f32[T, 8] = map [t in T, o in 8] "
                      "max(min(%%x%d[t, o], 3.0), -3.0)\n"
                      "  %%x%d: f32[T, 8] = map [t in T, o in 8] "
                      "%%m%d[t, sub(7, o)]\n",
                  100 + i, i, i, i, 100 + i, i + 1, i);
  }
  td_buf_puts(&b, "  return y = %x20\n}\n");
  plan_t *plan = road_compile(task, b.data, (road_mode_t){0});
  if (arena(&plan->entries[0], 100) > 2 * 3200) road_report(task, plan);
  assert_true(arena(&plan->entries[0], 100) <= 2 * 3200);
  td_buf_free(&b);
}

/* Where everything runs, what was used is what was planned. */
TASK_TEST(peak) {
  UNUSED_ARG;
  static const char text[] =
    "func @f(in a: f32[T, 7], out y: f32[T])\n  dims(T in 0..1000) {\n"
    "  %s: f32[7] = reduce.max [i in 7; t in T] %a[t, i]\n"
    "  %b: f32[T, 7] = map [t in T, i in 7] add(%a[sub(sub(dim(T), 1), t), i],"
    " %s[i])\n"
    "  %r: f32[7] = reduce.max [i in 7; t in T] %b[t, i]\n"
    "  %y: f32[T] = reduce.sum lanes [t in T; i in 7] mul(%r[i], "
    "%b[sub(sub(dim(T), 1), t), i])\n"
    "  return y = %y\n}\n";
  hal_device_t *device = rcpu_device_create(task, 1);
  plan_t *plan = road_compile(task, text, (road_mode_t){0});
  hal_program_t *program = device->vtable->load(device, task, plan);
  hal_exec_t *x =
      hal_exec_create(task, &task->arena, device, program, plan, 0);
  for (int64_t t = 1; t < 1000; t = t * 3 + 1) {
    hal_arg_t *args = road_args(task, &plan->entries[0], &t);
    assert_true(hal_exec_run(x, task, args, NULL, NULL));
    const hal_stats_t *s = hal_exec_stats(x);
    assert_true(s->planned_bytes > 0);
    assert_int_equal(s->arena_bytes, s->planned_bytes);
    assert_int_equal(s->planned_bytes, arena(&plan->entries[0], t));
  }
  hal_exec_destroy(x);
  device->vtable->unload(device, program);
  device->vtable->destroy(device);
}

/* ---- threads ------------------------------------------------------------ */

typedef struct runner {
  td_thread_t thread;
  hal_device_t *device;
  hal_program_t *program;
  const plan_t *plan;
  int64_t rows;
  int bad; /* answers that were wrong */
} runner_t;

/* y[t] is 7 times the largest of row t; row t holds t + i. */
static void run_rows(td_task_t *task, void *arg) {
  runner_t *r = arg;
  const plan_entry_t *e = &r->plan->entries[0];
  hal_exec_t *x = hal_exec_create(task, &task->arena, r->device, r->program,
                                  r->plan, 0);
  hal_arg_t *args = road_args(task, e, &r->rows);
  float *in = args[0].data;
  for (int64_t i = 0; i < r->rows * 7; i++) {
    in[i] = (float)(i / 7 + i % 7);
  }
  for (int n = 0; n < 50; n++) {
    bool ok = hal_exec_run(x, task, args, NULL, NULL);
    const float *out = hal_exec_get(x, 1)->data;
    for (int64_t t = 0; t < r->rows; t++) {
      r->bad += !ok || out[t] != (float)(7 * (t + 6));
    }
  }
  hal_exec_destroy(x);
}

static void run_thread(void *arg) {
  runner_t *r = arg;
  td_task_t task;
  td_task_init(&task, NULL);
  if (td_task_run(&task, run_rows, r) != TDSL_STATUS_OK) r->bad++;
  td_task_free(&task);
}

/* One program, one device, an executor for each thread. */
TASK_TEST(threads) {
  UNUSED_ARG;
  static const char text[] =
    "func @f(in a: f32[T, 7], out y: f32[T])\n  dims(T in 0..1000) {\n"
    "  %s: f32[T] = reduce.max [t in T; i in 7] %a[t, i]\n"
    "  %b: f32[T, 7] = map [t in T, i in 7] mul(%s[t], cast.f32(add(i, 1)))\n"
    "  %y: f32[T] = reduce.max [t in T; i in 7] %b[t, i]\n"
    "  return y = %y\n}\n";
  hal_device_t *device = rcpu_device_create(task, 2);
  plan_t *plan = road_compile(task, text, (road_mode_t){.no_passes = true});
  hal_program_t *program = device->vtable->load(device, task, plan);
  runner_t runners[4];
  for (int i = 0; i < 4; i++) {
    runners[i] = (runner_t){.device = device, .program = program,
                            .plan = plan, .rows = 100 + 211 * i};
    assert_true(td_thread_start(&runners[i].thread, run_thread, &runners[i],
                                0));
  }
  for (int i = 0; i < 4; i++) {
    td_thread_join(&runners[i].thread);
    assert_int_equal(runners[i].bad, 0);
  }
  device->vtable->unload(device, program);
  device->vtable->destroy(device);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(chain),        cmocka_unit_test(swap),
      cmocka_unit_test(yields_outer), cmocka_unit_test(same_init),
      cmocka_unit_test(updates),      cmocka_unit_test(loop_updates),
      cmocka_unit_test(inout),        cmocka_unit_test(results),
      cmocka_unit_test(nested),       cmocka_unit_test(zero_trips),
      cmocka_unit_test(in_place),     cmocka_unit_test(not_in_place),
      cmocka_unit_test(reuse),        cmocka_unit_test(peak),
      cmocka_unit_test(residual),     cmocka_unit_test(threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
