/* Bulk and tensor copies, st.async and red.async. Every lane is a thread that
   issues a copy of its own. */
#include "runtime/simgpu/tensor_map.h"
#include "runtime/simgpu/x_async.h"
#include "runtime/simgpu/x_atom.h"
#include "runtime/simgpu/x_list.h"

#include "runtime/cuda/cuda_types.h"

static sim_copy_t begin(sim_warp_t *w, const sim_ins_t *i, uint32_t l) {
  sim_copy_t c = {.ins = i, .warp = w, .lane = l, .element = *i};
  if (i->sub2 & SIM_BULK_REDUCE) c.apply = sim_atom_apply;
  return c;
}

/* The mbarrier at entry n of the list, or that of another CTA at the same
   offset; NULL as in x_mbar.c. */
static sim_mbar_t *mbar_of(sim_warp_t *w, const sim_ins_t *i, uint32_t l,
                           uint32_t n, sim_cta_t **cta, uint32_t *offset,
                           bool *go_on) {
  *go_on = sim_async_place(w, i, l, sim_item_address(w, i, n, l), 8, 8, false,
                           cta, offset);
  return *go_on && *cta ? sim_mbar_at(w, i, l, *cta, *offset, go_on) : NULL;
}

/* Issues a load to its CTA, or to each CTA of the mask: the same offsets
   there. False if the launch ended. */
static bool issue_load(sim_copy_t *c, uint32_t mbar_entry,
                       uint32_t mask_entry) {
  sim_warp_t *w = c->warp;
  const sim_ins_t *i = c->ins;
  uint32_t offset, l = c->lane;
  sim_cta_t *cta;
  bool go_on;
  sim_mbar_t *b = mbar_of(w, i, l, mbar_entry, &cta, &offset, &go_on);
  if (!b) return go_on;
  c->mbar = b;
  if (!(i->sub2 & SIM_BULK_MULTICAST)) {
    if (cta != c->cta &&
        !sim_find(w, i, SIM_CHECK_MBAR_ACCESS, l, PTX_SPACE_SHARED, offset, 8,
                  "the mbarrier and the destination lie in different CTAs"))
      return false;
    return sim_copy_issue(c);
  }
  uint32_t mask = (uint32_t)sim_item(w, i, mask_entry, l) & 0xFFFFu;
  for (uint32_t r = 0; r < 16; r++) {
    if (!(mask >> r & 1)) continue;
    if (r >= w->cta->cluster_count)
      return sim_find(w, i, SIM_CHECK_MEM_BOUNDS, l, PTX_SPACE_REG, mask, 0,
                      "the mask names CTA %u of a cluster of %u", r,
                      w->cta->cluster_count);
    sim_cta_t *to = w->cta->cluster[r];
    if (to != w->cta && sim_cluster_is_gone(to))
      return sim_find(w, i, SIM_CHECK_CLUSTER_EXIT, l, PTX_SPACE_SHARED,
                      c->shared, c->bytes, "CTA %u of the cluster has exited",
                      r);
    if (to != w->cta) sim_cluster_touch(w, to);
    c->cta = to;
    c->mbar = sim_mbar_at(w, i, l, to, offset, &go_on);
    if (!go_on) return false;
    if (c->mbar && !sim_copy_issue(c)) return false;
  }
  return true;
}

/* dst, src, bytes, [mbarrier], [mask] */
static bool bulk(sim_warp_t *w, const sim_ins_t *i, uint32_t l) {
  sim_copy_t c = begin(w, i, l);
  uint32_t kind = i->sub2 & SIM_BULK_KIND;
  uint64_t dst = sim_item_address(w, i, 0, l);
  uint64_t src = sim_item_address(w, i, 2, l);
  c.bytes = (uint32_t)sim_item(w, i, 4, l);
  c.kind = kind == SIM_BULK_LOAD     ? SIM_COPY_LOAD
           : kind == SIM_BULK_SHARED ? SIM_COPY_SHARED
                                     : SIM_COPY_STORE;
  if (c.bytes % 16)
    return sim_find(w, i, SIM_CHECK_MEM_ALIGN, l, PTX_SPACE_REG, 0, c.bytes,
                    "%u bytes: a bulk copy moves multiples of 16", c.bytes);
  if (kind == SIM_BULK_STORE) {
    c.global = dst;
    if (!sim_async_place(w, i, l, src, c.bytes, 16, false, &c.cta,
                         &c.shared))
      return false;
    return !c.cta || sim_copy_issue(&c);
  }
  if (!sim_async_place(w, i, l, dst, c.bytes, 16, false, &c.cta, &c.shared))
    return false;
  if (!c.cta) return true;
  if (kind == SIM_BULK_LOAD) {
    c.global = src;
  } else {
    if (!sim_async_place(w, i, l, src, c.bytes, 16, false, &c.from,
                         &c.from_offset))
      return false;
    if (!c.from) return true;
  }
  return issue_load(&c, 5, 7);
}

SIM_DEF(bulk_copy) {
  for (uint32_t l = 0; l < 32; l++)
    if (SIM_BIT(m) && !bulk(w, i, l)) return NULL;
  return i + 1;
}

/* The instruction that a reduction of a tensor's elements would be. */
static bool element_of(sim_copy_t *c) {
  static const struct {
    uint8_t map, type, bytes;
  } types[] = {{RCUDA_TENSOR_U32, PTX_U32, 4}, {RCUDA_TENSOR_I32, PTX_S32, 4},
               {RCUDA_TENSOR_U64, PTX_U64, 8}, {RCUDA_TENSOR_I64, PTX_S64, 8},
               {RCUDA_TENSOR_F16, PTX_F16, 2}, {RCUDA_TENSOR_F32, PTX_F32, 4},
               {RCUDA_TENSOR_F64, PTX_F64, 8},
               {RCUDA_TENSOR_BF16, PTX_BF16, 2},
               {RCUDA_TENSOR_F32_FTZ, PTX_F32, 4}};
  for (size_t n = 0; n < sizeof types / sizeof *types; n++) {
    if (types[n].map != c->map.type) continue;
    c->element.type = types[n].type;
    c->element.bytes = types[n].bytes;
    if (types[n].type == PTX_S32 || types[n].type == PTX_S64)
      c->element.mods |= SIM_MOD_SIGNED;
    return true;
  }
  return false;
}

/* map, coordinates, shared, [mbarrier], [mask] */
static bool tensor(sim_warp_t *w, const sim_ins_t *i, uint32_t l) {
  sim_copy_t c = begin(w, i, l);
  uint32_t rank = i->lanes, at = 2 + rank;
  bool stores = (i->sub2 & SIM_BULK_KIND) == SIM_BULK_STORE;
  sim_alloc_t *alloc;
  c.kind = stores ? SIM_COPY_STORE : SIM_COPY_LOAD;
  c.is_tensor = true;
  c.map_address = sim_item_address(w, i, 0, l);
  if (!sim_async_global_place(w, i, l, c.map_address, 128, 64, 'm', &alloc))
    return false;
  if (!alloc) return true;
  memcpy(c.map_bytes, alloc->host + (c.map_address - alloc->address), 128);
  if (!sim_map_decode(c.map_bytes, &c.map))
    return sim_find(w, i, SIM_CHECK_ILLEGAL, l, PTX_SPACE_GLOBAL,
                    c.map_address, 128,
                    "is no tensor map of this driver, or a damaged one");
  if (c.map.rank != rank)
    return sim_find(w, i, SIM_CHECK_ILLEGAL, l, PTX_SPACE_GLOBAL,
                    c.map_address, 128,
                    "%u coordinates for a tensor map of %u dimensions", rank,
                    c.map.rank);
  if (c.apply && !element_of(&c))
    return sim_find(w, i, SIM_CHECK_ILLEGAL, l, PTX_SPACE_GLOBAL,
                    c.map_address, 128,
                    "the tensor's elements have no reduction");
  for (uint32_t n = 0; n < rank; n++)
    c.at[n] = (int32_t)(uint32_t)sim_item(w, i, 2 + n, l);
  c.bytes = c.map.box_bytes;
  if (!sim_async_place(w, i, l, sim_item_address(w, i, at, l), c.bytes, 128,
                       false, &c.cta, &c.shared))
    return false;
  if (!c.cta) return true;
  return stores ? sim_copy_issue(&c) : issue_load(&c, at + 2, at + 4);
}

SIM_DEF(bulk_tensor) {
  for (uint32_t l = 0; l < 32; l++)
    if (SIM_BIT(m) && !tensor(w, i, l)) return NULL;
  return i + 1;
}

SIM_DEF(bulk_commit) {
  sim_async_tick(w->cta);
  for (uint32_t l = 0; l < 32; l++) w->queue->bulk_commits[l] += SIM_BIT(m);
  return i + 1;
}

SIM_DEF(bulk_wait) {
  if (m == 0) return i + 1;
  sim_async_tick(w->cta);
  uint32_t n = i->imm > UINT32_MAX ? UINT32_MAX : (uint32_t)i->imm;
  return sim_copy_wait(w, m, n, i->sub2 & SIM_BULK_READ) ? i + 1 : NULL;
}

/* address, mbarrier, values */
SIM_DEF(st_async) {
  for (uint32_t l = 0; l < 32; l++) {
    if (!SIM_BIT(m)) continue;
    sim_copy_t c = begin(w, i, l);
    bool go_on;
    sim_cta_t *cta;
    uint32_t offset;
    c.kind = SIM_COPY_VALUE;
    c.bytes = (uint32_t)i->bytes * i->lanes;
    if (!sim_async_place(w, i, l, sim_item_address(w, i, 0, l), c.bytes,
                         c.bytes, false, &c.cta, &c.shared))
      return NULL;
    if (!c.cta) continue;
    for (uint32_t e = 0; e < i->lanes; e++) {
      uint64_t value = sim_item(w, i, 4 + e, l);
      uint32_t row = sim_list(w, i, 4 + e) & ~3u;
      uint32_t bad = w->is_tainted ? sim_shadow(w, row)[l] : 0;
      memcpy(c.value + e * i->bytes, &value, i->bytes);
      for (uint32_t k = 0; k < i->bytes; k++)
        c.value_defined[e * i->bytes + k] = !(bad >> k & 1);
    }
    c.mbar = mbar_of(w, i, l, 2, &cta, &offset, &go_on);
    if (!go_on) return NULL;
    if (c.mbar && cta != c.cta &&
        !sim_find(w, i, SIM_CHECK_MBAR_ACCESS, l, PTX_SPACE_SHARED, offset, 8,
                  "the mbarrier and the destination lie in different CTAs"))
      return NULL;
    if (c.mbar && !sim_copy_issue(&c)) return NULL;
  }
  return i + 1;
}
