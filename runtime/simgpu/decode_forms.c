/* The instruction forms whose operands need more than a slot each. */
#include "runtime/simgpu/decoder.h"

static bool has(const sim_decoder_t *d, const char *qualifier) {
  return sim_form_has(&d->op->form, qualifier);
}

static bool count_is(sim_decoder_t *d, uint32_t low, uint32_t high) {
  if (d->ptx->count >= low && d->ptx->count <= high) return true;
  return SIM_FAIL(d, "%u operands where %u are meant", d->ptx->count, low);
}

/* d or d|p: the first into slot 0, the second returned (0: none). */
static bool dest_pair(sim_decoder_t *d, const ptx_operand_t *o,
                      ptx_type_t type, uint32_t *second) {
  const ptx_operand_t *first = o;
  *second = 0;
  if (o && o->kind == PTX_OPERAND_PAIR) {
    first = &d->func->pool.data[o->first];
    *second = sim_dest(d, &d->func->pool.data[o->first + 1], PTX_PRED);
    d->ins.mods |= SIM_MOD_PAIR;
  }
  sim_slot(d, 0, sim_dest(d, first, type));
  d->ins.writes |= SIM_WRITES_D;
  return d->error->code == 0;
}

static void pred_slot(sim_decoder_t *d, int slot, const ptx_operand_t *o,
                      uint32_t negated_mod) {
  bool negated;
  sim_slot(d, slot, sim_pred_source(d, o, &negated));
  if (negated) d->ins.mods |= negated_mod;
}

static bool form_logic(sim_decoder_t *d) {
  bool is_not = d->ins.handler == SIM_H_not_pred;
  if (!count_is(d, is_not ? 2 : 3, is_not ? 2 : 3)) return false;
  sim_slot(d, 0, sim_dest(d, sim_operand(d, 0), PTX_PRED));
  d->ins.writes |= SIM_WRITES_D;
  pred_slot(d, 1, sim_operand(d, 1), SIM_MOD_NEG_A);
  if (!is_not) pred_slot(d, 2, sim_operand(d, 2), SIM_MOD_NEG_C);
  return true;
}

static bool form_minmax(sim_decoder_t *d) {
  if (!count_is(d, 3, 3)) return false;
  ptx_type_t type = d->op->form.types[0];
  sim_slot(d, 0, sim_dest(d, sim_operand(d, 0), type));
  d->ins.writes |= SIM_WRITES_D;
  sim_slot(d, 1, sim_source(d, sim_operand(d, 1), type));
  sim_slot(d, 2, sim_source(d, sim_operand(d, 2), type));
  d->ins.sub = (uint8_t)(td_str_eqc(d->op->form.base, "max") |
                         (type == PTX_S16X2) << 1);
  return true;
}

/* mov: register, packs and unpacks, addresses, clocks. */
static bool pack_elements(sim_decoder_t *d, const ptx_operand_t *o,
                          ptx_type_t whole, bool is_dest) {
  unsigned total = ptx_type_row(whole)->bytes;
  if (o->count == 0 || total % o->count)
    return SIM_FAIL(d, "%u elements for %u bytes", o->count, total);
  unsigned part = total / o->count;
  ptx_type_t type = part == 1   ? PTX_B8
                    : part == 2 ? PTX_B16
                    : part == 4 ? PTX_B32
                                : PTX_NO_TYPE;
  if (type == PTX_NO_TYPE || o->count < 2)
    return SIM_FAIL(d, "%u elements for %u bytes", o->count, total);
  d->ins.bytes = (uint8_t)part;
  for (uint32_t i = 0; i < o->count; i++) {
    const ptx_operand_t *e = &d->func->pool.data[o->first + i];
    uint32_t row = is_dest && e->kind == PTX_OPERAND_SINK
                       ? 0
                   : is_dest ? sim_dest(d, e, type)
                             : sim_source(d, e, type);
    if (d->error->code) return false;
    sim_list_push(d, row);
  }
  if (is_dest) d->ins.list_writes = d->ins.count;
  return true;
}

static bool form_mov(sim_decoder_t *d) {
  ptx_type_t type = d->op->form.types[0];
  const ptx_operand_t *to = sim_operand(d, 0), *from = sim_operand(d, 1);
  if (!count_is(d, 2, 2)) return false;
  if (to->kind == PTX_OPERAND_VECTOR) {
    sim_set_handler(d, SIM_H_unpack);
    sim_slot(d, 1, sim_source(d, from, type));
    return pack_elements(d, to, type, true);
  }
  sim_slot(d, 0, sim_dest(d, to, type));
  d->ins.writes |= SIM_WRITES_D;
  if (type == PTX_PRED) {
    pred_slot(d, 1, from, SIM_MOD_NEG_A);
    return true;
  }
  if (from->kind == PTX_OPERAND_VECTOR) {
    sim_set_handler(d, SIM_H_pack);
    return pack_elements(d, from, type, false);
  }
  if (from->kind == PTX_OPERAND_SPECIAL) {
    bool clock = from->reg == PTX_SREG_CLOCK || from->reg == PTX_SREG_CLOCK64;
    bool high = from->reg == PTX_SREG_CLOCK_HI ||
                from->reg == PTX_SREG_GLOBALTIMER_HI;
    bool timer = from->reg == PTX_SREG_GLOBALTIMER ||
                 from->reg == PTX_SREG_GLOBALTIMER_LO ||
                 from->reg == PTX_SREG_GLOBALTIMER_HI;
    if (clock || timer || high) {
      sim_set_handler(d, SIM_H_clock);
      d->ins.sub = timer;
      d->ins.sub2 = high;
      return true;
    }
  }
  sim_slot(d, 1, sim_source(d, from, type));
  return true;
}

static bool form_selp(sim_decoder_t *d) {
  ptx_type_t type = d->op->form.types[0];
  if (!count_is(d, 4, 4)) return false;
  sim_slot(d, 0, sim_dest(d, sim_operand(d, 0), type));
  d->ins.writes |= SIM_WRITES_D;
  sim_slot(d, 1, sim_source(d, sim_operand(d, 1), type));
  sim_slot(d, 2, sim_source(d, sim_operand(d, 2), type));
  pred_slot(d, 3, sim_operand(d, 3), SIM_MOD_NEG_C);
  return true;
}

static bool form_setp(sim_decoder_t *d) {
  ptx_type_t type = d->op->form.types[0];
  uint32_t second, want = d->ins.sub2 == SIM_BOOL_NONE ? 3 : 4;
  if (!count_is(d, want, want)) return false;
  if (!dest_pair(d, sim_operand(d, 0), PTX_PRED, &second)) return false;
  if (second) {
    sim_slot(d, 4, second);
    d->ins.writes |= SIM_WRITES_E;
  }
  sim_slot(d, 1, sim_source(d, sim_operand(d, 1), type));
  sim_slot(d, 2, sim_source(d, sim_operand(d, 2), type));
  if (want == 4) pred_slot(d, 3, sim_operand(d, 3), SIM_MOD_NEG_C);
  return true;
}

static bool form_set(sim_decoder_t *d) {
  if (!count_is(d, 3, 3)) return false;
  sim_slot(d, 0, sim_dest(d, sim_operand(d, 0), d->op->form.types[0]));
  d->ins.writes |= SIM_WRITES_D;
  sim_slot(d, 1, sim_source(d, sim_operand(d, 1), d->op->form.types[1]));
  sim_slot(d, 2, sim_source(d, sim_operand(d, 2), d->op->form.types[1]));
  return true;
}

static bool form_testp(sim_decoder_t *d) {
  if (!count_is(d, 2, 2)) return false;
  sim_slot(d, 0, sim_dest(d, sim_operand(d, 0), PTX_PRED));
  d->ins.writes |= SIM_WRITES_D;
  sim_slot(d, 1, sim_source(d, sim_operand(d, 1), d->op->form.types[0]));
  return true;
}

/* Narrow and wide registers may hold any type: cvt.u16.u8 from a .b32. */
static bool form_cvt(sim_decoder_t *d) {
  ptx_type_t to = d->op->form.types[0], from = d->op->form.types[1];
  const ptx_operand_t *o = sim_operand(d, 0);
  if (!count_is(d, 2, 2)) return false;
  if (!o || o->kind != PTX_OPERAND_REG)
    return SIM_FAIL(d, "the destination must be a register");
  sim_slot(d, 0, sim_loose(d, o, to));
  d->ins.writes |= SIM_WRITES_D;
  sim_slot(d, 1, sim_loose(d, sim_operand(d, 1), from));
  if (d->error->code) return false;
  unsigned out = ptx_type_row((ptx_type_t)d->func->regs.data[o->reg])->bytes;
  unsigned in = ptx_type_row(from)->bytes;
  const ptx_operand_t *s = sim_operand(d, 1);
  unsigned have = s->kind == PTX_OPERAND_REG
                      ? ptx_type_row((ptx_type_t)d->func->regs.data[s->reg])
                            ->bytes
                      : in;
  if (out < ptx_type_row(to)->bytes || have < in)
    return SIM_FAIL(d, "a register is narrower than its type");
  d->ins.bytes = (uint8_t)out;
  /* loops of their own for the common conversions */
  bool plain = (d->ins.mods & ~(uint32_t)SIM_MOD_SIGNED) == 0 &&
               !d->ins.sub && out == ptx_type_row(to)->bytes && have == in;
  if (!plain) return true;
  if (to == PTX_F32 && from == PTX_S32) sim_set_handler(d, SIM_H_cvt_f32_s32);
  if (to == PTX_F32 && from == PTX_U32) sim_set_handler(d, SIM_H_cvt_f32_u32);
  if (to == PTX_F32 && from == PTX_F16) sim_set_handler(d, SIM_H_cvt_f32_f16);
  if (to == PTX_F32 && from == PTX_BF16)
    sim_set_handler(d, SIM_H_cvt_f32_bf16);
  if (to == PTX_BF16 && from == PTX_F32)
    sim_set_handler(d, SIM_H_cvt_bf16_f32);
  if (to == PTX_F16 && from == PTX_F32) sim_set_handler(d, SIM_H_cvt_f16_f32);
  bool wide = to == PTX_U64 || to == PTX_S64;
  if (wide && from == PTX_U32) sim_set_handler(d, SIM_H_cvt_64_u32);
  if (wide && from == PTX_S32) sim_set_handler(d, SIM_H_cvt_64_s32);
  if ((to == PTX_U32 || to == PTX_S32) &&
      (from == PTX_U64 || from == PTX_S64))
    sim_set_handler(d, SIM_H_cvt_32_64);
  return true;
}

static bool form_cvt2(sim_decoder_t *d) {
  ptx_type_t to = d->op->form.types[0];
  if (!count_is(d, 3, 3)) return false;
  sim_slot(d, 0, sim_dest(d, sim_operand(d, 0), to));
  d->ins.writes |= SIM_WRITES_D;
  sim_slot(d, 1, sim_source(d, sim_operand(d, 1), PTX_F32));
  sim_slot(d, 2, sim_source(d, sim_operand(d, 2), PTX_F32));
  if (d->ins.mods == 0 && to == PTX_BF16X2)
    sim_set_handler(d, SIM_H_cvt_bf16x2_f32);
  if (d->ins.mods == 0 && to == PTX_F16X2)
    sim_set_handler(d, SIM_H_cvt_f16x2_f32);
  return true;
}

/* -- memory -- */

static ptx_space_t space_of(const sim_decoder_t *d) {
  if (has(d, "global")) return PTX_SPACE_GLOBAL;
  if (has(d, "shared") || has(d, "shared::cta") || has(d, "shared::cluster"))
    return PTX_SPACE_SHARED;
  if (has(d, "local")) return PTX_SPACE_LOCAL;
  if (has(d, "const")) return PTX_SPACE_CONST;
  if (has(d, "param") || has(d, "param::entry") || has(d, "param::func"))
    return PTX_SPACE_PARAM;
  return PTX_SPACE_GENERIC;
}

/* The data operand of ld, st, atom: one register or a vector; destinations
   into the list or slot `slot`. */
static bool data_operand(sim_decoder_t *d, const ptx_operand_t *o, int slot,
                         bool is_dest) {
  ptx_type_t type = d->op->form.types[0];
  unsigned want = has(d, "v8") ? 8 : has(d, "v4") ? 4 : has(d, "v2") ? 2 : 1;
  if (!o) return SIM_FAIL(d, "an operand is missing");
  d->ins.lanes = (uint8_t)want;
  if (want == 1 && o->kind == PTX_OPERAND_VECTOR && o->count == 1)
    o = &d->func->pool.data[o->first];
  if (want > 1 && (o->kind != PTX_OPERAND_VECTOR || o->count != want))
    return SIM_FAIL(d, "expected a vector of %u", want);
  if (want > 1 && d->ins.bytes * want > 16 &&
      !(d->ins.bytes * want <= 16))
    return SIM_FAIL(d, "more than 16 bytes for each lane");
  for (unsigned n = 0; n < want; n++) {
    const ptx_operand_t *e =
        want > 1 ? &d->func->pool.data[o->first + n] : o;
    uint32_t row;
    if (is_dest && e->kind == PTX_OPERAND_SINK)
      row = sim_scratch_row(d, sim_class_of(type));
    else if (is_dest && e->kind != PTX_OPERAND_REG)
      return SIM_FAIL(d, "the destination must be a register");
    else
      row = sim_loose(d, e, type);
    if (d->error->code) return false;
    if (e->kind == PTX_OPERAND_REG) {
      unsigned bytes =
          ptx_type_row((ptx_type_t)d->func->regs.data[e->reg])->bytes;
      if (bytes < d->ins.bytes)
        return SIM_FAIL(d, "a register is narrower than its type");
      if (is_dest && bytes == 2 && d->ins.bytes == 1) d->ins.sub2 = 1;
    }
    if (want > 1) {
      sim_list_push(d, row);
    } else {
      sim_slot(d, slot, row);
      if (is_dest) d->ins.writes |= SIM_WRITES_D;
    }
  }
  if (want > 1 && is_dest) d->ins.list_writes = d->ins.count;
  return true;
}

/* The base of an address operand, when it is a variable. */
static const ptx_var_t *base_var(const sim_decoder_t *d,
                                 const ptx_operand_t *o) {
  const ptx_operand_t *base = &d->func->pool.data[o->first];
  return base->kind == PTX_OPERAND_VAR ? base->u.var : NULL;
}

static bool is_entry_param(const sim_decoder_t *d, const ptx_var_t *var) {
  for (size_t i = 0; d->func->is_entry && i < d->func->params.length; i++) {
    if (d->func->params.data[i] == var) return true;
  }
  return false;
}

static bool form_ld(sim_decoder_t *d) {
  const ptx_operand_t *from = sim_operand(d, 1);
  ptx_space_t space = space_of(d);
  if (!count_is(d, 2, has(d, "L2::cache_hint") ? 3 : 2)) return false;
  if (!data_operand(d, sim_operand(d, 0), 0, true)) return false;
  if (!sim_address(d, from)) return false;
  d->ins.space = (uint8_t)space;
  const ptx_var_t *var = base_var(d, from);
  switch (space) {
  case PTX_SPACE_PARAM:
    d->ins.cls = SIM_CLASS_LD_PARAM;
    if (var && is_entry_param(d, var)) {
      uint64_t at = var->place + from->value;
      const ptx_operand_t *base = &d->func->pool.data[from->first];
      at += base->value;
      uint64_t size = (uint64_t)d->ins.bytes * d->ins.lanes;
      if (at > d->func->param_bytes || at + size > d->func->param_bytes)
        return SIM_FAIL(d, "outside the kernel's parameters");
      d->ins.imm = at;
      sim_slot(d, 1, 0);
      sim_set_handler(d, SIM_H_ld_param);
    } else if (d->func->is_entry && !var) {
      sim_set_handler(d, SIM_H_ld_global);
    } else {
      sim_set_handler(d, SIM_H_ld_local);
    }
    return true;
  case PTX_SPACE_GLOBAL:
  case PTX_SPACE_CONST:
    d->ins.cls = SIM_CLASS_LD_GLOBAL;
    sim_set_handler(d, SIM_H_ld_global);
    if (d->ins.mods & SIM_MOD_STRONG) d->kernel->is_communicating = true;
    return true;
  case PTX_SPACE_SHARED:
    d->ins.cls = SIM_CLASS_LD_SHARED;
    sim_set_handler(d, SIM_H_ld_shared);
    if (d->ins.mods & SIM_MOD_STRONG) d->kernel->has_flags = true;
    if (d->ins.mods & SIM_MOD_CLUSTER) d->kernel->has_cluster = true;
    return true;
  case PTX_SPACE_LOCAL:
    d->ins.cls = SIM_CLASS_LD_LOCAL;
    sim_set_handler(d, SIM_H_ld_local);
    return true;
  default:
    if (d->ins.mods & SIM_MOD_STRONG)
      d->kernel->is_communicating = d->kernel->has_flags = true;
    return true;
  }
}

static bool form_st(sim_decoder_t *d) {
  ptx_space_t space = space_of(d);
  if (!count_is(d, 2, has(d, "L2::cache_hint") ? 3 : 2)) return false;
  if (!sim_address(d, sim_operand(d, 0))) return false;
  if (!data_operand(d, sim_operand(d, 1), 0, false)) return false;
  d->ins.space = (uint8_t)space;
  switch (space) {
  case PTX_SPACE_PARAM: {
    const ptx_var_t *var = base_var(d, sim_operand(d, 0));
    if (d->func->is_entry && (!var || is_entry_param(d, var)))
      return SIM_FAIL(d, "kernel parameters are read-only");
    d->ins.cls = SIM_CLASS_ST_LOCAL;
    sim_set_handler(d, SIM_H_st_local);
    return true;
  }
  case PTX_SPACE_GLOBAL:
    d->ins.cls = SIM_CLASS_ST_GLOBAL;
    sim_set_handler(d, SIM_H_st_global);
    if (d->ins.mods & SIM_MOD_STRONG) d->kernel->is_communicating = true;
    return true;
  case PTX_SPACE_SHARED:
    d->ins.cls = SIM_CLASS_ST_SHARED;
    sim_set_handler(d, SIM_H_st_shared);
    if (d->ins.mods & SIM_MOD_STRONG) d->kernel->has_flags = true;
    if (d->ins.mods & SIM_MOD_CLUSTER) d->kernel->has_cluster = true;
    return true;
  case PTX_SPACE_LOCAL:
    d->ins.cls = SIM_CLASS_ST_LOCAL;
    sim_set_handler(d, SIM_H_st_local);
    return true;
  case PTX_SPACE_CONST: return SIM_FAIL(d, "constant memory is read-only");
  default:
    if (d->ins.mods & SIM_MOD_STRONG)
      d->kernel->is_communicating = d->kernel->has_flags = true;
    return true;
  }
}

static void atom_space(sim_decoder_t *d) {
  ptx_space_t space = space_of(d);
  d->ins.space = (uint8_t)space;
  if (space == PTX_SPACE_GLOBAL) sim_set_handler(d, SIM_H_atom_global);
  if (space == PTX_SPACE_SHARED) sim_set_handler(d, SIM_H_atom_shared);
  if ((d->ins.mods & SIM_MOD_CLUSTER) && space == PTX_SPACE_SHARED)
    d->kernel->has_cluster = true;
}

/* Integer reductions whose old value nobody reads commute; everything else
   on global memory makes the blocks talk to each other. */
static void note_atom(sim_decoder_t *d) {
  if (d->ins.space != PTX_SPACE_GLOBAL &&
      d->ins.mods & (SIM_MOD_ACQUIRE | SIM_MOD_RELEASE))
    d->kernel->has_flags = true;
  td_vec_push(d->scratch, &d->atoms, (uint32_t)d->code.length);
}

static bool form_atom(sim_decoder_t *d) {
  ptx_type_t type = d->op->form.types[0];
  bool is_cas = d->ins.sub == SIM_ATOM_CAS;
  uint32_t want = is_cas ? 4 : 3;
  if (!count_is(d, want, want + has(d, "L2::cache_hint"))) return false;
  if (!data_operand(d, sim_operand(d, 0), 0, true)) return false;
  if (!sim_address(d, sim_operand(d, 1))) return false;
  if (d->ins.lanes > 1) {
    uint16_t writes = d->ins.list_writes;
    if (!data_operand(d, sim_operand(d, 2), 2, false)) return false;
    d->ins.list_writes = writes;
  } else {
    sim_slot(d, 2, sim_source(d, sim_operand(d, 2), type));
    if (is_cas) sim_slot(d, 3, sim_source(d, sim_operand(d, 3), type));
  }
  atom_space(d);
  note_atom(d);
  return true;
}

static bool form_red(sim_decoder_t *d) {
  if (!count_is(d, 2, 2u + has(d, "L2::cache_hint"))) return false;
  if (!sim_address(d, sim_operand(d, 0))) return false;
  if (!data_operand(d, sim_operand(d, 1), 2, false)) return false;
  atom_space(d);
  note_atom(d);
  return true;
}

static bool form_cvta(sim_decoder_t *d) {
  ptx_type_t type = d->op->form.types[0];
  ptx_space_t space = space_of(d);
  if (!count_is(d, 2, 2)) return false;
  sim_slot(d, 0, sim_dest(d, sim_operand(d, 0), type));
  d->ins.writes |= SIM_WRITES_D;
  sim_slot(d, 1, sim_source(d, sim_operand(d, 1), type));
  if (space == PTX_SPACE_PARAM && !d->func->is_entry)
    space = PTX_SPACE_LOCAL;
  d->ins.space = (uint8_t)space;
  if (space != PTX_SPACE_SHARED && space != PTX_SPACE_LOCAL)
    sim_set_handler(d, type == PTX_U64 ? SIM_H_mov_64 : SIM_H_mov_32);
  else if (has(d, "to"))
    sim_set_handler(d, SIM_H_cvta_to);
  return true;
}

static bool form_isspacep(sim_decoder_t *d) {
  if (!count_is(d, 2, 2)) return false;
  sim_slot(d, 0, sim_dest(d, sim_operand(d, 0), PTX_PRED));
  d->ins.writes |= SIM_WRITES_D;
  sim_slot(d, 1, sim_loose(d, sim_operand(d, 1), PTX_U64));
  d->ins.space = (uint8_t)space_of(d);
  return true;
}

static bool form_policy(sim_decoder_t *d) {
  if (!count_is(d, 1, 3)) return false;
  sim_slot(d, 0, sim_dest(d, sim_operand(d, 0), PTX_B64));
  d->ins.writes |= SIM_WRITES_D;
  sim_slot(d, 1, sim_const_row(d, SIM_CONST_VALUE, SIM_ROW_64, 0));
  return true;
}

/* -- control -- */

static bool form_bra(sim_decoder_t *d) {
  const ptx_operand_t *o = sim_operand(d, 0);
  if (!count_is(d, 1, 1)) return false;
  if (o->kind != PTX_OPERAND_LABEL || o->value)
    return SIM_FAIL(d, "expected a label");
  d->ins.target = o->reg;
  return true;
}

static bool form_brx(sim_decoder_t *d) {
  const ptx_operand_t *o = sim_operand(d, 1);
  if (!count_is(d, 2, 2)) return false;
  if (d->ins.is_guarded) return SIM_FAIL(d, "a guard is not supported");
  sim_slot(d, 1, sim_source(d, sim_operand(d, 0), PTX_U32));
  if (!o || o->kind != PTX_OPERAND_LABEL || !o->value)
    return SIM_FAIL(d, "expected a table of branch targets");
  const ptx_label_t *table = &d->func->tables.data[o->reg];
  if (table->targets.length == 0 || table->targets.length > 4096)
    return SIM_FAIL(d, "a table of %zu targets", table->targets.length);
  for (size_t i = 0; i < table->targets.length; i++) {
    const ptx_operand_t *t = &d->func->pool.data[table->targets.data[i]];
    if (t->value) return SIM_FAIL(d, "a table names a table");
    sim_list_push(d, t->reg);
  }
  return true;
}

/* Copies between frames as triples (from, to, bytes): arguments first, then
   results. */
static bool copies(sim_decoder_t *d, const ptx_operand_t *list,
                   ptx_var_t *const *formals, size_t count, bool is_result) {
  if ((list ? list->count : 0u) != count)
    return SIM_FAIL(d, "the callee has %zu %s", count,
                    is_result ? "results" : "parameters");
  for (size_t i = 0; i < count; i++) {
    const ptx_operand_t *o = &d->func->pool.data[list->first + i];
    if (o->kind != PTX_OPERAND_VAR || o->u.var->space != PTX_SPACE_PARAM)
      return SIM_FAIL(d, "arguments must be .param variables");
    const ptx_var_t *mine = o->u.var, *theirs = formals[i];
    if (mine->bytes != theirs->bytes || !mine->is_placed)
      return SIM_FAIL(d, "argument %zu has another size", i + 1);
    sim_list_push(d, (uint32_t)(is_result ? theirs->place : mine->place));
    sim_list_push(d, (uint32_t)(is_result ? mine->place : theirs->place));
    sim_list_push(d, (uint32_t)mine->bytes);
  }
  return true;
}

static bool form_call(sim_decoder_t *d) {
  const ptx_operand_t *results = NULL, *args = NULL, *target = NULL;
  for (uint32_t i = 0; i < d->ptx->count; i++) {
    const ptx_operand_t *o = sim_operand(d, i);
    if (o->kind == PTX_OPERAND_LIST && !target) results = o;
    else if (o->kind == PTX_OPERAND_LIST) args = o;
    else if (!target) target = o;
    else return SIM_FAIL(d, "indirect calls are not supported");
  }
  if (!target || target->kind != PTX_OPERAND_FUNC)
    return SIM_FAIL(d, "indirect calls are not supported");
  ptx_func_t *f = target->u.func;
  if (f->is_entry) return SIM_FAIL(d, "a kernel cannot be called");
  uint32_t part = sim_part(d, f);
  if (d->error->code) return false;
  td_vec_push(d->scratch, &d->parts.data[d->part].calls, part);
  d->ins.target = part;
  if (!copies(d, args, f->params.data, f->params.length, false))
    return false;
  d->ins.list_writes = d->ins.count; /* here: where results begin */
  return copies(d, results, f->results.data, f->results.length, true);
}

static bool form_ret(sim_decoder_t *d) {
  if (!count_is(d, 0, 0)) return false;
  d->ins.sub = d->func->is_entry;
  d->ins.target = (uint32_t)d->func->ins.length;
  return true;
}

/* -- warps and blocks -- */

static bool form_shfl(sim_decoder_t *d) {
  uint32_t second;
  if (!count_is(d, 5, 5)) return false;
  if (!dest_pair(d, sim_operand(d, 0), PTX_B32, &second)) return false;
  if (second) {
    sim_list_push(d, second);
    d->ins.list_writes = 1;
  }
  for (int i = 1; i < 5; i++)
    sim_slot(d, i, sim_source(d, sim_operand(d, (uint32_t)i), PTX_B32));
  return true;
}

static bool form_vote(sim_decoder_t *d) {
  bool is_ballot = d->ins.handler == SIM_H_ballot;
  if (!count_is(d, 3, 3)) return false;
  sim_slot(d, 0,
           sim_dest(d, sim_operand(d, 0), is_ballot ? PTX_B32 : PTX_PRED));
  d->ins.writes |= SIM_WRITES_D;
  pred_slot(d, 1, sim_operand(d, 1), SIM_MOD_NEG_A);
  sim_slot(d, 2, sim_source(d, sim_operand(d, 2), PTX_B32));
  return true;
}

static bool form_match(sim_decoder_t *d) {
  uint32_t second;
  if (!count_is(d, 3, 3)) return false;
  if (!dest_pair(d, sim_operand(d, 0), PTX_B32, &second)) return false;
  if (second) {
    sim_slot(d, 4, second);
    d->ins.writes |= SIM_WRITES_E;
  }
  sim_slot(d, 1, sim_source(d, sim_operand(d, 1), d->op->form.types[0]));
  sim_slot(d, 2, sim_source(d, sim_operand(d, 2), PTX_B32));
  return true;
}

static bool form_elect(sim_decoder_t *d) {
  uint32_t second;
  if (!count_is(d, 2, 2)) return false;
  if (!dest_pair(d, sim_operand(d, 0), PTX_B32, &second)) return false;
  if (second) {
    sim_slot(d, 4, second);
    d->ins.writes |= SIM_WRITES_E;
  }
  sim_slot(d, 1, sim_source(d, sim_operand(d, 1), PTX_B32));
  return true;
}

static void note_barrier(sim_decoder_t *d, const ptx_operand_t *id,
                         bool has_count) {
  if (id && id->kind == PTX_OPERAND_INT && id->value < 16)
    d->kernel->barriers |= 1u << id->value;
  else
    d->kernel->barriers = 0xFFFF;
  if (has_count) d->kernel->has_partial_barrier = true;
}

static bool form_bar(sim_decoder_t *d) {
  bool arrives = d->ins.handler == SIM_H_bar_arrive;
  if (!count_is(d, arrives ? 2 : 1, 2)) return false;
  sim_slot(d, 1, sim_source(d, sim_operand(d, 0), PTX_U32));
  if (d->ptx->count == 2)
    sim_slot(d, 2, sim_source(d, sim_operand(d, 1), PTX_U32));
  note_barrier(d, sim_operand(d, 0), d->ptx->count == 2);
  return true;
}

static bool form_barred(sim_decoder_t *d) {
  bool is_count = d->op->form.types[0] == PTX_U32;
  uint32_t last = d->ptx->count - 1;
  if (!count_is(d, 3, 4)) return false;
  sim_slot(d, 0,
           sim_dest(d, sim_operand(d, 0), is_count ? PTX_U32 : PTX_PRED));
  d->ins.writes |= SIM_WRITES_D;
  sim_slot(d, 1, sim_source(d, sim_operand(d, 1), PTX_U32));
  if (last == 3) sim_slot(d, 2, sim_source(d, sim_operand(d, 2), PTX_U32));
  pred_slot(d, 3, sim_operand(d, last), SIM_MOD_NEG_C);
  note_barrier(d, sim_operand(d, 1), last == 3);
  return true;
}

/* Hints without effect on results; their operands are not read. */
static bool form_none(sim_decoder_t *d) {
  (void)d;
  return true;
}

bool sim_decode_form(sim_decoder_t *d, const char *name) {
  static const struct {
    const char *name;
    bool (*fn)(sim_decoder_t *d);
  } forms[] = {
      {"logic", form_logic}, {"minmax", form_minmax}, {"mov", form_mov},
      {"selp", form_selp},   {"setp", form_setp},     {"set", form_set},
      {"testp", form_testp}, {"cvt", form_cvt},       {"cvt2", form_cvt2},
      {"ld", form_ld},       {"st", form_st},         {"atom", form_atom},
      {"red", form_red},     {"cvta", form_cvta},     {"policy", form_policy},
      {"bra", form_bra},     {"brx", form_brx},       {"call", form_call},
      {"ret", form_ret},     {"shfl", form_shfl},     {"vote", form_vote},
      {"match", form_match}, {"elect", form_elect},   {"bar", form_bar},
      {"barred", form_barred}, {"none", form_none},
      {"isspacep", form_isspacep},
      {"mapa", sim_form_mapa}, {"cluster", sim_form_cluster}};
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    if (strcmp(forms[i].name, name) == 0) return forms[i].fn(d);
  }
  bool known = false, ok = sim_decode_matrix(d, name, &known);
  if (known) return ok;
  ok = sim_async_form(d, name, &known);
  if (known) return ok;
  return SIM_FAIL(d, "form '%s' has no decoder", name);
}
