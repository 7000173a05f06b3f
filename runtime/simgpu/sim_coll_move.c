/* Collectives carried out: bytes of one rank's memory to another's. All ranks
   have arrived, so what a rank sends is complete; inputs are read before any
   output is written, which covers the in-place forms. */
#include "runtime/simgpu/sim_comm.h"

#include <stdlib.h>

/* Host pointer of bytes that must lie in a live allocation. */
static uint8_t *memory(uint64_t address, uint64_t bytes,
                       sim_alloc_t **out) {
  sim_alloc_t *a = sim_alloc_find(&sim_state()->memory, address);
  *out = a;
  if (a && a->is_live && address - a->address + bytes <= a->bytes)
    return a->host + (address - a->address);
  sim_coll_finding(a && !a->is_live ? SIM_CHECK_MEM_FREED
                                    : SIM_CHECK_MEM_BOUNDS,
                   "collective", "%llu bytes at a buffer that is no longer "
                   "there", (unsigned long long)bytes);
  return NULL;
}

/* What is sent must have been written. */
const uint8_t *sim_coll_source(uint64_t address, uint64_t bytes,
                             uint32_t rank) {
  sim_alloc_t *a;
  const uint8_t *p = memory(address, bytes, &a);
  if (!p) return NULL;
  uint64_t offset = address - a->address, at = 0;
  bool is_defined = sim_is_defined(a, offset, bytes);
  sim_poison_range(a, offset, bytes);
  if (is_defined || !(sim_state()->options.checks & SIM_CHECK_INIT)) return p;
  while (sim_is_defined(a, offset + at, 1)) at++;
  sim_coll_finding(SIM_CHECK_INIT_USE, "collective",
                   "rank %u sends byte %llu of allocation %u, which was "
                   "never written",
                   rank, (unsigned long long)(offset + at), a->id);
  return p;
}

bool sim_coll_deliver(uint64_t address, const uint8_t *from, uint64_t bytes) {
  sim_alloc_t *a;
  uint8_t *p = memory(address, bytes, &a);
  if (!p) return false;
  sim_poison_range(a, address - a->address, bytes);
  memcpy(p, from, bytes);
  sim_define(a, address - a->address, bytes);
  return true;
}

/* A scalar that lies on the rank's device. */
bool sim_coll_read_scalar(sim_part_t *p) {
  sim_alloc_t *a;
  if (!p->fold.where) return true;
  const uint8_t *from =
      memory(p->fold.where, sim_dtype_bytes(p->dtype), &a);
  if (from) memcpy(&p->fold.bits, from, sim_dtype_bytes(p->dtype));
  return from != NULL;
}

/* The k-th share of the result, folded into out. */
static void fold_share(uint8_t *out, const uint8_t *const *in,
                       sim_part_t *const *parts, uint32_t n, uint32_t share,
                       bool is_whole) {
  const sim_part_t *p = parts[0];
  const sim_fold_t *folds[SIM_MAX_DEVICES];
  uint64_t bytes = sim_dtype_bytes(p->dtype);
  const uint8_t *from[SIM_MAX_DEVICES];
  for (uint32_t r = 0; r < n; r++)
    from[r] = in[r] + (is_whole ? 0 : share * p->count * bytes);
  for (uint32_t r = 0; r < n; r++) folds[r] = &parts[r]->fold;
  /* a ring cuts a whole result in n chunks; a share is one */
  uint64_t chunk = is_whole ? (p->count + n - 1) / n : p->count;
  uint32_t first = p->op == SIM_COLL_REDUCE ? p->peer : share;
  if (p->op == SIM_COLL_REDUCE) chunk = p->count;
  sim_fold_elements(out, from, n, p->dtype, folds, p->count, chunk,
                    is_whole && p->op != SIM_COLL_REDUCE ? 0 : first);
}

void sim_coll_result(uint8_t *out, const uint8_t *const *in,
                     sim_part_t *const *parts, uint32_t n, uint32_t rank) {
  const sim_part_t *p = parts[rank];
  uint64_t bytes = p->count * sim_dtype_bytes(p->dtype);
  switch (p->op) {
  case SIM_COLL_ALL_REDUCE:
  case SIM_COLL_REDUCE: fold_share(out, in, parts, n, 0, true); break;
  case SIM_COLL_REDUCE_SCATTER:
    fold_share(out, in, parts, n, rank, false);
    break;
  case SIM_COLL_ALL_GATHER:
    for (uint32_t r = 0; r < n; r++) memcpy(out + r * bytes, in[r], bytes);
    break;
  case SIM_COLL_BROADCAST: memcpy(out, in[p->peer], bytes); break;
  case SIM_COLL_ALL_TO_ALL:
    for (uint32_t r = 0; r < n; r++)
      memcpy(out + r * bytes, in[r] + rank * bytes, bytes);
    break;
  case SIM_COLL_SEND:
  case SIM_COLL_RECV: memcpy(out, in[0], bytes); break;
  case SIM_COLL_OPS: break;
  }
}

int sim_coll_move(sim_clique_t *c, sim_part_t *const *parts) {
  uint32_t n = c->size;
  const sim_part_t *p = parts[0];
  uint64_t bytes = p->count * sim_dtype_bytes(p->dtype);
  const uint8_t *in[SIM_MAX_DEVICES] = {NULL};
  if (!bytes) return 0;
  bool ok = true;
  for (uint32_t r = 0; ok && r < n; r++) {
    uint64_t out = sim_part_send_bytes(parts[r], r, n);
    if (out) in[r] = sim_coll_source(parts[r]->send, out, r);
    ok = (!out || in[r]) && sim_coll_read_scalar(parts[r]);
  }
  if (!ok) return RCUDA_ILLEGAL_ADDRESS;
  uint8_t *tmp = malloc(n * bytes);
  if (!tmp) return RCUDA_OUT_OF_MEMORY;
  switch (p->op) {
  case SIM_COLL_ALL_REDUCE:
  case SIM_COLL_REDUCE:
    fold_share(tmp, in, parts, n, 0, true);
    for (uint32_t r = 0; ok && r < n; r++)
      if (p->op == SIM_COLL_ALL_REDUCE || r == p->peer)
        ok = sim_coll_deliver(parts[r]->recv, tmp, bytes);
    break;
  case SIM_COLL_REDUCE_SCATTER:
    for (uint32_t r = 0; r < n; r++)
      fold_share(tmp + r * bytes, in, parts, n, r, false);
    for (uint32_t r = 0; ok && r < n; r++)
      ok = sim_coll_deliver(parts[r]->recv, tmp + r * bytes, bytes);
    break;
  case SIM_COLL_ALL_GATHER:
    for (uint32_t r = 0; r < n; r++) memcpy(tmp + r * bytes, in[r], bytes);
    for (uint32_t r = 0; ok && r < n; r++)
      ok = sim_coll_deliver(parts[r]->recv, tmp, n * bytes);
    break;
  case SIM_COLL_BROADCAST:
    memcpy(tmp, in[p->peer], bytes);
    for (uint32_t r = 0; ok && r < n; r++)
      ok = sim_coll_deliver(parts[r]->recv, tmp, bytes);
    break;
  case SIM_COLL_ALL_TO_ALL: /* never in place */
    for (uint32_t r = 0; ok && r < n; r++) {
      for (uint32_t k = 0; k < n; k++)
        memcpy(tmp + k * bytes, in[k] + r * bytes, bytes);
      ok = sim_coll_deliver(parts[r]->recv, tmp, n * bytes);
    }
    break;
  case SIM_COLL_SEND:
  case SIM_COLL_RECV:
  case SIM_COLL_OPS: break;
  }
  free(tmp);
  return ok ? 0 : RCUDA_ILLEGAL_ADDRESS;
}

int sim_coll_transfer(sim_clique_t *c, const sim_coll_t *from,
                      const sim_part_t *send, const sim_coll_t *to,
                      const sim_part_t *recv) {
  uint64_t bytes = send->count * sim_dtype_bytes(send->dtype);
  (void)c, (void)to;
  if (!bytes) return 0;
  const uint8_t *p = sim_coll_source(send->send, bytes, from->rank);
  uint8_t *tmp = p ? malloc(bytes) : NULL;
  if (p && !tmp) return RCUDA_OUT_OF_MEMORY;
  if (p) memcpy(tmp, p, bytes); /* a rank may send to itself */
  bool ok = p && sim_coll_deliver(recv->recv, tmp, bytes);
  free(tmp);
  return ok ? 0 : RCUDA_ILLEGAL_ADDRESS;
}
