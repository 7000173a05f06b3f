/* Exported nccl* functions: made operators, memory and registered buffers. */
#include "runtime/simgpu/sim_comm.h"

#include <stdlib.h>

/* An operator's number holds its slot, above those of the vendor. */
#define FIRST_MADE 1024

/* Multiplies each rank's values by its scalar, which is read now or, on the
   device, when the collective runs, and sums. */
SIM_EXPORT int ncclRedOpCreatePreMulSum(int *out, void *scalar, int dtype,
                                        int residence,
                                        coll_nccl_comm_t *handle) {
  SIM_ARGS(out, scalar, dtype, residence, handle);
  sim_comm_t *comm;
  int code = sim_enter_comm("ncclRedOpCreatePreMulSum", handle, &comm);
  if (code) return code;
  sim_state_t *s = sim_state();
  if (!out || !scalar || dtype < 0 || dtype >= COLL_NCCL_DTYPES ||
      (residence != COLL_NCCL_SCALAR_DEVICE &&
       residence != COLL_NCCL_SCALAR_HOST))
    return sim_leave(COLL_NCCL_INVALID_ARGUMENT);
  sim_redop_t *list =
      realloc(s->redops, (s->redop_count + 1u) * sizeof *list);
  if (!list) return sim_leave(COLL_NCCL_SYSTEM_ERROR);
  s->redops = list;
  sim_redop_t *op = &list[s->redop_count++];
  memset(op, 0, sizeof *op);
  op->comm = comm->handle;
  op->dtype = dtype;
  if (residence == COLL_NCCL_SCALAR_HOST)
    memcpy(&op->bits, scalar, sim_dtype_bytes(dtype));
  else
    op->where = (uint64_t)(uintptr_t)scalar;
  *out = FIRST_MADE + (int)s->redop_count - 1;
  return sim_leave(0);
}

static sim_redop_t *made(int number, uint64_t comm) {
  sim_state_t *s = sim_state();
  uint32_t at = (uint32_t)(number - FIRST_MADE);
  return number >= FIRST_MADE && at < s->redop_count &&
                 s->redops[at].comm == comm
             ? &s->redops[at]
             : NULL;
}

SIM_EXPORT int ncclRedOpDestroy(int number, coll_nccl_comm_t *handle) {
  SIM_ARGS(number, handle);
  sim_comm_t *comm;
  int code = sim_enter_comm("ncclRedOpDestroy", handle, &comm);
  if (code) return code;
  sim_redop_t *op = made(number, comm->handle);
  if (!op) return sim_leave(COLL_NCCL_INVALID_ARGUMENT);
  op->comm = 0; /* queued collectives have their own copy */
  return sim_leave(0);
}

bool sim_fold_of(const sim_comm_t *comm, int number, int dtype,
                 sim_fold_t *out) {
  memset(out, 0, sizeof *out);
  out->kind = number;
  if (number >= 0 && number < COLL_NCCL_OPS) return true;
  const sim_redop_t *op = made(number, comm->handle);
  if (!op || op->dtype != dtype) return false;
  out->kind = COLL_NCCL_OPS;
  out->bits = op->bits;
  out->where = op->where;
  return true;
}

/* -- memory -- */

static int driver(int code) {
  return code ? COLL_NCCL_CUDA_ERROR : 0;
}

SIM_EXPORT int ncclMemAlloc(void **out, size_t bytes) {
  SIM_ARGS(out, bytes);
  int code = sim_enter("ncclMemAlloc", false);
  if (code) return code;
  sim_ctx_t *ctx = sim_current();
  if (!out || !bytes) return sim_leave(COLL_NCCL_INVALID_ARGUMENT);
  if (!ctx || ctx->sticky) return sim_leave(COLL_NCCL_CUDA_ERROR);
  const sim_alloc_t *a = sim_device_alloc(ctx, bytes, SIM_ALLOC_DEVICE);
  if (a) *out = (void *)(uintptr_t)a->address;
  return sim_leave(driver(a ? 0 : RCUDA_OUT_OF_MEMORY));
}

SIM_EXPORT int ncclMemFree(void *p) {
  SIM_ARGS(p);
  int code = sim_enter("ncclMemFree", false);
  if (code) return code;
  sim_ctx_t *ctx = sim_current();
  if (!ctx || ctx->sticky) return sim_leave(COLL_NCCL_CUDA_ERROR);
  if (!p) return sim_leave(0);
  uint64_t address = (uint64_t)(uintptr_t)p;
  const sim_alloc_t *a = sim_to_release("ncclMemFree", address);
  if (!a) return sim_leave(COLL_NCCL_INVALID_ARGUMENT);
  return sim_leave(driver(sim_end_now(ctx, SIM_RUN_FREE, "ncclMemFree",
                                      address, a->bytes)));
}

/* Registration changes nothing here but must name memory that is there. */
SIM_EXPORT int ncclCommRegister(const coll_nccl_comm_t *handle, void *p,
                                size_t bytes, void **out) {
  SIM_ARGS(handle, p, bytes, out);
  sim_comm_t *comm;
  int code = sim_enter_comm("ncclCommRegister", handle, &comm);
  if (code) return code;
  const sim_alloc_t *a =
      sim_alloc_find(&sim_state()->memory, (uint64_t)(uintptr_t)p);
  if (!out || !bytes || !a || !a->is_live ||
      (uint64_t)(uintptr_t)p - a->address + bytes > a->bytes)
    return sim_leave(COLL_NCCL_INVALID_ARGUMENT);
  comm->registered++;
  *out = (void *)(uintptr_t)a->address;
  return sim_leave(0);
}

SIM_EXPORT int ncclCommDeregister(const coll_nccl_comm_t *handle,
                                  void *registered) {
  SIM_ARGS(handle, registered);
  sim_comm_t *comm;
  int code = sim_enter_comm("ncclCommDeregister", handle, &comm);
  if (code) return code;
  if (!registered || !comm->registered)
    return sim_leave(COLL_NCCL_INVALID_ARGUMENT);
  comm->registered--;
  return sim_leave(0);
}

SIM_NCCL_ALIAS(RedOpCreatePreMulSum)
SIM_NCCL_ALIAS(RedOpDestroy)
SIM_NCCL_ALIAS(MemAlloc)
SIM_NCCL_ALIAS(MemFree)
SIM_NCCL_ALIAS(CommRegister)
SIM_NCCL_ALIAS(CommDeregister)
