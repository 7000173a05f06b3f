/* Forms of asynchronous copies and mbarriers. Their operands go into the list
   in the order of the handlers' comments (x_async.c, x_mbar.c, x_bulk.c); an
   address is two entries, a base and a constant. */
#include "runtime/simgpu/decoder.h"

#include "runtime/simgpu/x_async.h"

static bool has(const sim_decoder_t *d, const char *qualifier) {
  return sim_form_has(&d->op->form, qualifier);
}

static bool push(sim_decoder_t *d, uint32_t row) {
  if (d->error->code) return false;
  sim_list_push(d, row);
  return true;
}

static bool push_source(sim_decoder_t *d, uint32_t n, ptx_type_t type) {
  return push(d, sim_source(d, sim_operand(d, n), type));
}

static bool push_loose(sim_decoder_t *d, uint32_t n, ptx_type_t type) {
  return push(d, sim_loose(d, sim_operand(d, n), type));
}

static bool push_address(sim_decoder_t *d, uint32_t n) {
  const ptx_operand_t *o = sim_operand(d, n);
  if (!sim_address(d, o)) return false;
  uint32_t base = d->ins.a;
  uint64_t plus = d->ins.imm;
  sim_slot(d, 1, 0);
  d->ins.imm = 0;
  d->ins.mods &= ~(uint32_t)SIM_MOD_WIDE_ADDRESS;
  return push(d, base) &&
         push(d, sim_const_row(d, SIM_CONST_VALUE, SIM_ROW_64, plus));
}

/* Operands without the cache policy, which has no effect on results. */
static uint32_t count_of(const sim_decoder_t *d) {
  uint32_t n = d->ptx->count;
  return n && has(d, "L2::cache_hint") ? n - 1 : n;
}

static bool count_is(sim_decoder_t *d, uint32_t low, uint32_t high) {
  uint32_t n = count_of(d);
  if (n >= low && n <= high) return true;
  return SIM_FAIL(d, "%u operands where %u are meant", n, low);
}

static bool constant(sim_decoder_t *d, uint32_t n, uint64_t *out) {
  const ptx_operand_t *o = sim_operand(d, n);
  if (!o || o->kind != PTX_OPERAND_INT)
    return SIM_FAIL(d, "operand %u must be a constant", n + 1);
  *out = o->value;
  return true;
}

/* dst, src, [bytes read, or predicate] */
static bool form_cp_async(sim_decoder_t *d) {
  uint64_t size = 0;
  d->kernel->has_async = true;
  d->ins.space = PTX_SPACE_SHARED;
  if (!count_is(d, 3, 4) || !push_address(d, 0) || !push_address(d, 1) ||
      !constant(d, 2, &size))
    return false;
  if (!(size == 16 || (has(d, "ca") && (size == 4 || size == 8))))
    return SIM_FAIL(d, "a copy of %llu bytes", (unsigned long long)size);
  d->ins.imm = size;
  if (count_of(d) == 3) return true;
  const ptx_operand_t *o = sim_operand(d, 3);
  bool is_pred = o->kind == PTX_OPERAND_REG &&
                 d->func->regs.data[o->reg] == PTX_PRED;
  if (!is_pred) {
    d->ins.sub2 = SIM_CP_SIZE;
    return push_source(d, 3, PTX_U32);
  }
  bool negated;
  uint32_t row = sim_pred_source(d, o, &negated);
  d->ins.sub2 = negated ? SIM_CP_UNLESS : SIM_CP_IGNORE;
  return push(d, row);
}

/* No operands, or a constant in imm. */
static bool form_async_n(sim_decoder_t *d) {
  bool waits = has(d, "wait_group");
  d->kernel->has_async = true;
  if (!count_is(d, waits, waits)) return false;
  if (has(d, "read")) d->ins.sub2 = SIM_BULK_READ;
  return !waits || constant(d, 0, &d->ins.imm);
}

static bool is_generic(const sim_decoder_t *d) {
  return !has(d, "shared") && !has(d, "shared::cta") &&
         !has(d, "shared::cluster");
}

static void note_mbar(sim_decoder_t *d) {
  d->kernel->has_async = d->kernel->has_mbar = true;
  if (is_generic(d)) d->ins.sub2 |= SIM_MBAR_GENERIC;
  if (has(d, "relaxed")) d->ins.sub2 |= SIM_MBAR_RELAXED;
}

/* mbarrier, [count or bytes] */
static bool form_mbar(sim_decoder_t *d) {
  bool takes_value = has(d, "init") || has(d, "expect_tx") ||
                     has(d, "complete_tx");
  note_mbar(d);
  if (has(d, "noinc")) d->ins.sub2 |= SIM_MBAR_NOINC;
  return count_is(d, 1u + takes_value, 1u + takes_value) &&
         push_address(d, 0) && (!takes_value || push_source(d, 1, PTX_U32));
}

/* state or _, mbarrier, [count or bytes] */
static bool form_mbar_arrive(sim_decoder_t *d) {
  const ptx_operand_t *o = sim_operand(d, 0);
  bool expects = has(d, "expect_tx"), is_partial = has(d, "noComplete");
  note_mbar(d);
  if (expects) d->ins.sub2 |= SIM_MBAR_EXPECT;
  if (has(d, "arrive_drop")) d->ins.sub2 |= SIM_MBAR_DROP;
  if (is_partial) d->ins.sub2 |= SIM_MBAR_PARTIAL;
  if (!count_is(d, expects || is_partial ? 3 : 2, 3)) return false;
  if (d->ptx->count == 3 && !is_partial && d->cc < 90)
    return SIM_FAIL(d, "an arrival count needs compute capability 9.0");
  if (o->kind != PTX_OPERAND_SINK) {
    if (has(d, "shared::cluster"))
      return SIM_FAIL(d, "an arrival at another CTA gives no state: the "
                         "destination must be '_'");
    sim_slot(d, 0, sim_dest(d, o, PTX_B64));
    d->ins.writes |= SIM_WRITES_D;
  }
  return push_address(d, 1) &&
         (d->ptx->count == 2 || push_source(d, 2, PTX_U32));
}

/* predicate, mbarrier, state or parity; a time limit is not read */
static bool form_mbar_test(sim_decoder_t *d) {
  bool is_parity = has(d, "parity"), tries = has(d, "try_wait");
  note_mbar(d);
  if (is_parity) d->ins.sub2 |= SIM_MBAR_PARITY;
  if (tries) d->ins.sub2 |= SIM_MBAR_TRY;
  if (!count_is(d, 3, 3u + tries)) return false;
  sim_slot(d, 0, sim_dest(d, sim_operand(d, 0), PTX_PRED));
  d->ins.writes |= SIM_WRITES_D;
  return push_address(d, 1) &&
         push_source(d, 2, is_parity ? PTX_U32 : PTX_B64);
}

static bool form_mbar_count(sim_decoder_t *d) {
  if (!count_is(d, 2, 2)) return false;
  d->kernel->has_async = d->kernel->has_mbar = true;
  sim_slot(d, 0, sim_dest(d, sim_operand(d, 0), PTX_U32));
  d->ins.writes |= SIM_WRITES_D;
  return push_source(d, 1, PTX_B64);
}

static void note_bulk(sim_decoder_t *d) {
  d->kernel->has_async = d->kernel->has_mbar = d->kernel->has_proxy = true;
  if (has(d, "multicast::cluster")) d->ins.sub2 |= SIM_BULK_MULTICAST;
  if (has(d, "reduce")) d->ins.sub2 |= SIM_BULK_REDUCE;
  /* the order of float additions shows in the result */
  if ((d->ins.sub2 & SIM_BULK_REDUCE) && has(d, "bulk_group") &&
      (has(d, "tensor") ||
       ptx_type_row(d->op->form.types[0])->kind == PTX_KIND_FLOAT))
    d->kernel->is_communicating = true;
}

/* dst, src, bytes, [mbarrier], [mask of CTAs] */
static bool form_bulk(sim_decoder_t *d) {
  bool stores = has(d, "bulk_group"), multicast = has(d, "multicast::cluster");
  note_bulk(d);
  d->ins.sub2 |= stores               ? SIM_BULK_STORE
                 : has(d, "global")   ? SIM_BULK_LOAD
                                      : SIM_BULK_SHARED;
  uint32_t want = (stores ? 3u : 4u) + multicast;
  return count_is(d, want, want) && push_address(d, 0) &&
         push_address(d, 1) && push_source(d, 2, PTX_U32) &&
         (stores || push_address(d, 3)) &&
         (!multicast || push_loose(d, 4, PTX_U16));
}

/* map, coordinates, shared, [mbarrier], [mask of CTAs] */
static bool form_tensor(sim_decoder_t *d) {
  static const char *const ranks[] = {"1d", "2d", "3d", "4d", "5d"};
  bool stores = has(d, "bulk_group"), multicast = has(d, "multicast::cluster");
  uint32_t rank = 0, map = stores ? 0 : 1;
  note_bulk(d);
  d->ins.sub2 |= stores ? SIM_BULK_STORE : SIM_BULK_LOAD;
  for (uint32_t n = 0; n < 5; n++)
    if (has(d, ranks[n])) rank = n + 1;
  d->ins.lanes = (uint8_t)rank;
  uint32_t want = (stores ? 2u : 3u) + multicast;
  if (!count_is(d, want, want) || !push_address(d, map)) return false;
  const ptx_operand_t *o = sim_operand(d, map);
  const ptx_operand_t *at =
      o->count == 2 ? &d->func->pool.data[o->first + 1] : NULL;
  if (!at || at->count != rank)
    return SIM_FAIL(d, "%u coordinates where %u are meant",
                    at ? at->count : 0u, rank);
  for (uint32_t n = 0; n < rank; n++)
    if (!push(d, sim_source(d, &d->func->pool.data[at->first + n], PTX_S32)))
      return false;
  return push_address(d, stores ? 1 : 0) && (stores || push_address(d, 2)) &&
         (!multicast || push_loose(d, 3, PTX_U16));
}

/* address, mbarrier, values */
static bool form_st_async(sim_decoder_t *d) {
  ptx_type_t type = d->op->form.types[0];
  const ptx_operand_t *o = sim_operand(d, 1);
  uint32_t lanes = has(d, "v4") ? 4 : has(d, "v2") ? 2 : 1;
  d->kernel->has_async = d->kernel->has_mbar = true;
  if (td_str_eqc(d->op->form.base, "red")) d->ins.sub2 |= SIM_BULK_REDUCE;
  if (!count_is(d, 3, 3) || !push_address(d, 0) || !push_address(d, 2))
    return false;
  if (lanes * d->ins.bytes > 16)
    return SIM_FAIL(d, "more than 16 bytes for each lane");
  d->ins.lanes = (uint8_t)lanes;
  if (lanes == 1) return push_loose(d, 1, type);
  if (o->kind != PTX_OPERAND_VECTOR || o->count != lanes)
    return SIM_FAIL(d, "expected a vector of %u", lanes);
  for (uint32_t n = 0; n < lanes; n++)
    if (!push(d, sim_loose(d, &d->func->pool.data[o->first + n], type)))
      return false;
  return true;
}

static bool form_proxy(sim_decoder_t *d) {
  /* a fence for global memory alone says nothing of shared memory */
  if (has(d, "global")) sim_set_handler(d, SIM_H_fence);
  return true;
}

bool sim_async_form(sim_decoder_t *d, const char *name, bool *known) {
  static const struct {
    const char *name;
    bool (*fn)(sim_decoder_t *d);
  } forms[] = {
      {"cp_async", form_cp_async},     {"async_n", form_async_n},
      {"mbar", form_mbar},             {"mbar_arrive", form_mbar_arrive},
      {"mbar_test", form_mbar_test},   {"mbar_count", form_mbar_count},
      {"bulk", form_bulk},             {"tensor", form_tensor},
      {"st_async", form_st_async},     {"proxy", form_proxy}};
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    *known = strcmp(forms[i].name, name) == 0;
    if (*known) return forms[i].fn(d);
  }
  return false;
}
