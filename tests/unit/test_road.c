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
  static const int64_t values[] = {5, 0, 1, 33};
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(chain),        cmocka_unit_test(swap),
      cmocka_unit_test(yields_outer), cmocka_unit_test(same_init),
      cmocka_unit_test(updates),      cmocka_unit_test(loop_updates),
      cmocka_unit_test(inout),        cmocka_unit_test(results),
      cmocka_unit_test(nested),       cmocka_unit_test(zero_trips),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
