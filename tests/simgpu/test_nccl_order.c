/* What a collective orders: the work of which ranks before it comes before the
   work of which ranks after it. Rank 0 works on memory of its device, then all
   ranks come to a collective, then rank 1 writes that memory. */
#include "nccl_lab.h"

#define F32 COLL_NCCL_F32
#define SUM COLL_NCCL_SUM
#define N   3

static const char kernel[] =
    PTX_HEAD("sm_80")
    ".visible .entry store(.param .u64 p) {\n"
    ".reg .b32 %r<2>; .reg .b64 %d<3>;\n"
    "ld.param.u64 %d1, [p]; mov.u32 %r1, %tid.x;\n"
    "mul.wide.u32 %d2, %r1, 4; add.s64 %d1, %d1, %d2;\n"
    "st.global.u32 [%d1], %r1; ret; }\n";

typedef enum op_t {
  NONE, ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, ALL_TO_ALL, FROM_0, FROM_2,
  TO_1, TO_0, SEND_0_1, SEND_1_0, OPS
} op_t;

static const bool is_ordered[OPS] = {
    [ALL_REDUCE] = true, [REDUCE_SCATTER] = true, [ALL_GATHER] = true,
    [ALL_TO_ALL] = true, [FROM_0] = true,         [TO_1] = true,
    [SEND_0_1] = true};

static void *stores[N];

static void open_world(world_t *w) {
  world_open(w, N);
  for (int r = 0; r < N; r++) {
    void *module = NULL;
    use(w, r);
    OK(cuModuleLoadData, (void **, const void *), &module, kernel);
    OK(cuModuleGetFunction, (void **, void *, const char *), &stores[r],
       module, "store");
  }
  use(w, 1);
  OK(cuCtxEnablePeerAccess, (rcuda_ctx_t *, unsigned), w->ctx[0], 0);
}

static void store(const world_t *w, int rank, vp stream, u64 p) {
  void *params[] = {&p};
  use(w, rank);
  OK(cuLaunchKernel, (vp, unsigned, unsigned, unsigned, unsigned, unsigned,
                      unsigned, unsigned, vp, void **, void **),
     stores[rank], 1, 1, 1, 32, 1, 1, 0, stream, params, NULL);
}

static u64 buffer(const world_t *w, int rank) {
  float x[64] = {0};
  return copied_to(w, rank, x, sizeof x);
}

static void call(const world_t *w, op_t op, int r, u64 in, u64 out) {
  comm_t c = w->comm[r];
  vp s = w->stream[r];
  int code = 0;
  switch (op) {
  case ALL_REDUCE: code = all_reduce(in, out, 8, F32, SUM, c, s); break;
  case REDUCE_SCATTER:
    code = reduce_scatter(in, out, 8, F32, SUM, c, s);
    break;
  case ALL_GATHER: code = all_gather(in, out, 8, F32, c, s); break;
  case ALL_TO_ALL: code = all_to_all(in, out, 8, F32, c, s); break;
  case FROM_0:
  case FROM_2:
    code = broadcast(in, out, 8, F32, op == FROM_0 ? 0 : 2, c, s);
    break;
  case TO_1:
  case TO_0:
    code = reduce_to(in, out, 8, F32, SUM, op == TO_1, c, s);
    break;
  case SEND_0_1:
    if (r == 0) code = send_to(in, 8, F32, 1, c, s);
    if (r == 1) code = receive(out, 8, F32, 0, c, s);
    break;
  case SEND_1_0:
    if (r == 1) code = send_to(in, 8, F32, 0, c, s);
    if (r == 0) code = receive(out, 8, F32, 1, c, s);
    break;
  case NONE:
  case OPS: break;
  }
  assert_int_equal(code, 0);
}

static void edges(void **state) {
  (void)state;
  for (int op = NONE; op < OPS; op++) {
    world_t w;
    u64 in[N], out[N];
    open_world(&w);
    u64 x = buffer(&w, 0);
    for (int r = 0; r < N; r++) {
      in[r] = buffer(&w, r);
      out[r] = buffer(&w, r);
    }
    store(&w, 0, w.stream[0], x);
    for (int r = 0; r < N; r++) call(&w, (op_t)op, r, in[r], out[r]);
    store(&w, 1, w.stream[1], x);
    for (int r = 0; r < N; r++) {
      use(&w, r);
      CALL(cuStreamSynchronize, (vp), w.stream[r]);
    }
    int races = findings("order.race");
    if ((races == 0) != is_ordered[op]) fail_msg("op %d: %d", op, races);
    world_close(&w);
  }
}

/* What a rank sends has been read when another one has the result; what it
   receives need not be written yet. */
static void buffers(void **state) {
  (void)state;
  for (int which = 0; which < 3; which++) {
    world_t w;
    u64 in[N], out[N];
    open_world(&w);
    for (int r = 0; r < N; r++) {
      in[r] = buffer(&w, r);
      out[r] = buffer(&w, r);
    }
    for (int r = 0; r < N; r++) call(&w, ALL_REDUCE, r, in[r], out[r]);
    if (which == 2) { /* a second one later: now it is */
      for (int r = 0; r < N; r++)
        call(&w, ALL_REDUCE, r, in[r], in[r]);
    }
    store(&w, 1, w.stream[1], which ? out[0] : in[0]);
    for (int r = 0; r < N; r++) {
      use(&w, r);
      CALL(cuStreamSynchronize, (vp), w.stream[r]);
    }
    assert_int_equal(findings("order.race") > 0, which == 1);
    world_close(&w);
  }
}

/* The edge goes on: along an event to another stream, and to the host, which
   has waited for rank 1 alone. */
static void further(void **state) {
  (void)state;
  for (int way = 0; way < 4; way++) {
    world_t w;
    u64 p[N];
    vp other = NULL, event = NULL;
    open_world(&w);
    u64 x = buffer(&w, 0);
    for (int r = 0; r < N; r++) p[r] = buffer(&w, r);
    use(&w, 1);
    OK(cuStreamCreate, (vp *, unsigned), &other, 1);
    OK(cuEventCreate, (vp *, unsigned), &event, 2);
    store(&w, 0, w.stream[0], x);
    if (way < 3)
      for (int r = 0; r < N; r++) call(&w, ALL_REDUCE, r, p[r], p[r]);
    use(&w, 1);
    if (way == 1) {
      OK(cuEventRecord, (vp, vp), event, w.stream[1]);
      OK(cuStreamWaitEvent, (vp, vp, unsigned), other, event, 0);
    }
    if (way >= 2) OK(cuStreamSynchronize, (vp), w.stream[1]);
    store(&w, 1, other, x);
    for (int r = 0; r < N; r++) {
      use(&w, r);
      ((int (*)(void))symbol("cuCtxSynchronize"))();
    }
    assert_int_equal(findings("order.race") > 0, way == 0 || way == 3);
    world_close(&w);
  }
}

static int setup(void **state) {
  (void)state;
  return driver_setup("model:h100,devices:3");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(edges),
                                     cmocka_unit_test(buffers),
                                     cmocka_unit_test(further)};
  return cmocka_run_group_tests_name("simgpu.nccl_order", tests, setup, NULL);
}
