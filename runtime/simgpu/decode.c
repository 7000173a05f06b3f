/* From parsed instructions to records. */
#include "runtime/simgpu/decoder.h"

static const struct {
  const char *name;
  sim_prop_t prop;
} handlers[] = {
#define SIM_HANDLER(name, propagation) {#name, SIM_PROP_##propagation},
#include "runtime/simgpu/handlers.def"
#undef SIM_HANDLER
};

const char *sim_handler_name(uint16_t handler) {
  return handlers[handler].name;
}

sim_prop_t sim_handler_prop(uint16_t handler) {
  return handlers[handler].prop;
}

const char *sim_class_name(unsigned cls) {
  static const char *const names[] = {
#define SIM_CLASS(id, text) text,
#include "runtime/simgpu/counters.def"
#undef SIM_CLASS
  };
  return names[cls];
}

bool sim_decode_fail(sim_decoder_t *d, const char *format, ...) {
  if (d->error->code) return false;
  td_buf_t buf;
  va_list args;
  td_buf_init_fixed(&buf, d->error->text, sizeof d->error->text);
  if (d->ptx) td_buf_printf(&buf, "%.*s: ", TD_STR_ARG(d->ptx->op));
  va_start(args, format);
  td_buf_vprintf(&buf, format, args);
  va_end(args);
  if (d->func) td_buf_printf(&buf, " (in %s)", d->func->name);
  d->error->code = 218;
  d->error->line = d->ptx ? d->ptx->line : d->func ? d->func->line : 0;
  return false;
}

/* -- rows and operands -- */

uint8_t sim_class_of(ptx_type_t type) {
  const ptx_type_row_t *row = ptx_type_row(type);
  if (row->kind == PTX_KIND_PRED) return SIM_ROW_PRED;
  return row->bytes == 8 ? SIM_ROW_64 : SIM_ROW_32;
}

static uint32_t add_row(sim_decoder_t *d, sim_row_t row) {
  row.start = row.end = UINT32_MAX;
  td_vec_push(d->scratch, &d->rows, row);
  return (uint32_t)(d->rows.length - 1) << 2 | row.cls;
}

uint32_t sim_const_row(sim_decoder_t *d, sim_const_kind_t source,
                       uint8_t cls, uint64_t value) {
  uint64_t key = td_hash_u64(value, (uint64_t)source * 4 + cls + 1);
  /* equal hashes of different values only cost a row */
  uintptr_t have = (uintptr_t)td_map_get_u64(&d->consts, key);
  if (have) {
    const sim_row_t *row = &d->rows.data[have - 1];
    if (row->value == value && row->source == source && row->cls == cls)
      return (uint32_t)(have - 1) << 2 | cls;
  }
  uint32_t out = add_row(
      d, (sim_row_t){.cls = cls, .kind = SIM_ROWKIND_CONST,
                     .source = (uint8_t)source, .value = value});
  td_map_put_u64(&d->consts, key, (void *)((uintptr_t)(out >> 2) + 1));
  return out;
}

uint32_t sim_scratch_row(sim_decoder_t *d, uint8_t cls) {
  return add_row(d, (sim_row_t){.cls = cls, .kind = SIM_ROWKIND_REG});
}

const ptx_operand_t *sim_operand(const sim_decoder_t *d, uint32_t n) {
  if (n >= d->ptx->count) return NULL;
  return &d->func->pool.data[d->ptx->first + n];
}

static uint32_t reg_row(const sim_decoder_t *d, uint32_t reg) {
  const sim_part_t *part = &d->parts.data[d->part];
  return (part->first_row + reg) << 2 |
         sim_class_of((ptx_type_t)d->func->regs.data[reg]);
}

/* The address of a variable as a constant row. */
static uint32_t var_row(sim_decoder_t *d, const ptx_operand_t *o,
                        uint8_t cls) {
  ptx_var_t *var = o->u.var;
  switch (var->space) {
  case PTX_SPACE_SHARED:
    return sim_const_row(d, var->is_extern ? SIM_CONST_DYNAMIC
                                           : SIM_CONST_SHARED,
                         cls, var->place + o->value);
  case PTX_SPACE_PARAM:
    if (d->func->is_entry && var->is_placed &&
        d->func->params.length > 0) {
      for (size_t i = 0; i < d->func->params.length; i++) {
        if (d->func->params.data[i] == var)
          return sim_const_row(d, SIM_CONST_PARAM, cls,
                               var->place + o->value);
      }
    }
    return sim_const_row(d, SIM_CONST_VALUE, cls, var->place + o->value);
  case PTX_SPACE_LOCAL:
    return sim_const_row(d, SIM_CONST_VALUE, cls, var->place + o->value);
  case PTX_SPACE_GLOBAL:
  case PTX_SPACE_CONST:
    if (!var->is_placed) {
      sim_decode_fail(d, "variable '%s' is not defined in this module",
                      var->name);
      return 0;
    }
    return sim_const_row(d, SIM_CONST_VALUE, cls, var->place + o->value);
  default: break;
  }
  sim_decode_fail(d, "'%s' has no address", var->name);
  return 0;
}

static uint32_t value_row(sim_decoder_t *d, const ptx_operand_t *o,
                          ptx_type_t type) {
  uint8_t cls = sim_class_of(type);
  unsigned bytes = ptx_type_row(type)->bytes;
  uint64_t value = o->value;
  if (o->kind == PTX_OPERAND_F64 && type == PTX_F32) {
    double wide; /* a decimal is an f64 and becomes what is asked for */
    memcpy(&wide, &value, sizeof wide);
    float narrow = (float)wide;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    return sim_const_row(d, SIM_CONST_VALUE, cls, bits);
  }
  if (o->kind == PTX_OPERAND_F64 && bytes != 8) {
    sim_decode_fail(d, "a 64-bit float constant does not fit");
    return 0;
  }
  if (o->kind == PTX_OPERAND_F32 && bytes == 8) {
    sim_decode_fail(d, "a 32-bit float constant does not fit");
    return 0;
  }
  if (bytes < 8) value &= (UINT64_C(1) << (8 * bytes)) - 1;
  return sim_const_row(d, SIM_CONST_VALUE, cls, value);
}

static const uint8_t special_bits[] = {
#define PTX_SPECIAL(id, text, bits) bits,
#include "runtime/simgpu/ptx_types.def"
#undef PTX_SPECIAL
};

uint32_t sim_source(sim_decoder_t *d, const ptx_operand_t *o,
                    ptx_type_t type) {
  if (!o) {
    sim_decode_fail(d, "an operand is missing");
    return 0;
  }
  switch (o->kind) {
  case PTX_OPERAND_REG: {
    ptx_type_t have = (ptx_type_t)d->func->regs.data[o->reg];
    if (sim_class_of(have) != sim_class_of(type) ||
        ptx_type_row(have)->bytes != ptx_type_row(type)->bytes) {
      sim_decode_fail(d, "a .%s register where .%s is meant",
               ptx_type_row(have)->text, ptx_type_row(type)->text);
      return 0;
    }
    if (o->is_negated) {
      sim_decode_fail(d, "'!' has no meaning here");
      return 0;
    }
    return reg_row(d, o->reg);
  }
  case PTX_OPERAND_INT:
  case PTX_OPERAND_F32:
  case PTX_OPERAND_F64: return value_row(d, o, type);
  case PTX_OPERAND_VAR: return var_row(d, o, sim_class_of(type));
  case PTX_OPERAND_SPECIAL: {
    uint8_t cls = special_bits[o->reg] == 64  ? SIM_ROW_64
                  : special_bits[o->reg] == 1 ? SIM_ROW_PRED
                                              : SIM_ROW_32;
    /* a 32-bit one may be read as 64 bits, and the other way round */
    if (cls != SIM_ROW_PRED) cls = sim_class_of(type);
    if (cls != sim_class_of(type)) {
      sim_decode_fail(d, "a special register of another width");
      return 0;
    }
    return sim_const_row(d, SIM_CONST_SPECIAL, cls, o->reg);
  }
  default: break;
  }
  sim_decode_fail(d, "an operand has a form that is not known here");
  return 0;
}

uint32_t sim_loose(sim_decoder_t *d, const ptx_operand_t *o,
                   ptx_type_t type) {
  if (o && o->kind == PTX_OPERAND_REG && !o->is_negated &&
      d->func->regs.data[o->reg] != PTX_PRED)
    return reg_row(d, o->reg);
  return sim_source(d, o, type);
}

uint32_t sim_dest(sim_decoder_t *d, const ptx_operand_t *o,
                  ptx_type_t type) {
  if (o && o->kind == PTX_OPERAND_SINK)
    return sim_scratch_row(d, sim_class_of(type));
  if (o && o->kind != PTX_OPERAND_REG) {
    sim_decode_fail(d, "the destination must be a register");
    return 0;
  }
  return sim_source(d, o, type);
}

uint32_t sim_pred_source(sim_decoder_t *d, const ptx_operand_t *o,
                         bool *negated) {
  *negated = false;
  /* compilers write true as 1 or as -1 */
  if (o && o->kind == PTX_OPERAND_INT &&
      (o->value <= 1 || o->value == UINT64_MAX))
    return sim_const_row(d, SIM_CONST_VALUE, SIM_ROW_PRED,
                         o->value ? UINT32_MAX : 0);
  if (!o || o->kind != PTX_OPERAND_REG ||
      d->func->regs.data[o->reg] != PTX_PRED) {
    sim_decode_fail(d, "expected a predicate");
    return 0;
  }
  *negated = o->is_negated;
  return reg_row(d, o->reg);
}

void sim_slot(sim_decoder_t *d, int slot, uint32_t encoded) {
  uint32_t *slots[] = {&d->ins.d, &d->ins.a, &d->ins.b, &d->ins.c,
                       &d->ins.e};
  *slots[slot] = encoded;
  d->ins.kinds = (uint16_t)(d->ins.kinds & ~(3u << (slot * 2)));
  d->ins.kinds = (uint16_t)(d->ins.kinds | (encoded & 3u) << (slot * 2));
}

void sim_list_push(sim_decoder_t *d, uint32_t value) {
  if (d->ins.count == 0)
    d->ins.list = (uint32_t)d->kernel->lists.length;
  td_vec_push(d->arena, &d->kernel->lists, value);
  d->ins.count++;
}

void sim_set_handler(sim_decoder_t *d, sim_handler_t handler) {
  d->ins.handler = (uint16_t)handler;
  d->ins.fn = d->variant[handler];
}

bool sim_address(sim_decoder_t *d, const ptx_operand_t *o) {
  if (!o || o->kind != PTX_OPERAND_ADDRESS)
    return SIM_FAIL(d, "expected an address in brackets");
  const ptx_operand_t *base = &d->func->pool.data[o->first];
  uint32_t row = 0;
  d->ins.imm = o->value;
  if (base->kind == PTX_OPERAND_REG) {
    ptx_type_t type = (ptx_type_t)d->func->regs.data[base->reg];
    if (type == PTX_PRED || ptx_type_row(type)->bytes < 4)
      return SIM_FAIL(d, "an address register of %u bits",
                      ptx_type_row(type)->bytes * 8u);
    row = reg_row(d, base->reg);
  } else if (base->kind == PTX_OPERAND_VAR) {
    row = var_row(d, base, SIM_ROW_64);
  } else if (base->kind == PTX_OPERAND_INT) {
    row = sim_const_row(d, SIM_CONST_VALUE, SIM_ROW_64, base->value);
  } else {
    return SIM_FAIL(d, "a base address of unknown form");
  }
  sim_slot(d, 1, row);
  if ((row & 3u) == SIM_ROW_64) d->ins.mods |= SIM_MOD_WIDE_ADDRESS;
  return row != 0;
}

/* -- functions and their frames -- */

bool sim_place_local(sim_decoder_t *d, ptx_var_t *var) {
  sim_kernel_t *k = d->kernel;
  uint32_t align = var->align < 16 ? 16 : var->align;
  uint64_t at = ((uint64_t)k->local_bytes + align - 1) & ~(uint64_t)(align -
                                                                     1);
  if (at + var->bytes > (512u << 10))
    return SIM_FAIL(d, "'%s' makes the frame larger than 512 KiB",
                    var->name);
  var->place = at;
  var->is_placed = true;
  /* frames are a multiple of 16, so every lane's is aligned */
  k->local_bytes = (uint32_t)((at + var->bytes + 15) & ~UINT64_C(15));
  return true;
}

uint32_t sim_part(sim_decoder_t *d, ptx_func_t *func) {
  uintptr_t have =
      (uintptr_t)td_map_get_u64(&d->part_of, (uint64_t)(uintptr_t)func);
  if (have) return (uint32_t)have - 1;
  sim_part_t part = {.func = func};
  part.first_row = (uint32_t)d->rows.length;
  for (size_t i = 0; i < func->regs.length; i++)
    add_row(d, (sim_row_t){.cls = sim_class_of(
                               (ptx_type_t)func->regs.data[i]),
                           .kind = SIM_ROWKIND_REG});
  if (!func->is_entry) {
    for (size_t i = 0; i < func->params.length; i++)
      sim_place_local(d, func->params.data[i]);
    for (size_t i = 0; i < func->results.length; i++)
      sim_place_local(d, func->results.data[i]);
  }
  td_vec_push(d->scratch, &d->parts, part);
  td_map_put_u64(&d->part_of, (uint64_t)(uintptr_t)func,
                 (void *)(uintptr_t)d->parts.length);
  return (uint32_t)d->parts.length - 1;
}

static void place_shared(sim_decoder_t *d, ptx_var_t *var) {
  sim_kernel_t *k = d->kernel;
  if (var->is_extern) {
    if (var->align > k->dynamic_align) k->dynamic_align = var->align;
    var->place = 0;
    var->is_placed = true;
    return;
  }
  uint64_t at = ((uint64_t)k->static_shared + var->align - 1) &
                ~((uint64_t)var->align - 1);
  if (var->align > k->shared_align) k->shared_align = var->align;
  if (at + var->bytes > (1u << 20)) {
    sim_decode_fail(d, "more than 1 MiB of static shared memory");
    return;
  }
  var->place = at;
  var->is_placed = true;
  k->static_shared = (uint32_t)(at + var->bytes);
}

/* -- instructions -- */

static bool has(const sim_form_t *f, const char *q) {
  return sim_form_has(f, q);
}

/* What the qualifiers say, as modifiers and sub-operation. */
static void read_qualifiers(sim_named_t *n) {
  static const struct {
    const char *text;
    uint32_t mods;
  } flags[] = {
      {"rz", SIM_RZ}, {"rm", SIM_RM}, {"rp", SIM_RP}, {"rna", SIM_RNA},
      {"rzi", SIM_RZ}, {"rmi", SIM_RM}, {"rpi", SIM_RP},
      {"ftz", SIM_MOD_FTZ}, {"sat", SIM_MOD_SAT}, {"NaN", SIM_MOD_NAN},
      {"relu", SIM_MOD_RELU}, {"satfinite", SIM_MOD_SATFINITE},
      {"approx", SIM_MOD_APPROX}, {"xorsign", SIM_MOD_XORSIGN},
      {"cc", SIM_MOD_CC}, {"wrap", SIM_MOD_WRAP}, {"trans", SIM_MOD_TRANS},
      {"nc", SIM_MOD_NC},
      {"volatile", SIM_MOD_STRONG | SIM_MOD_VOLATILE},
      {"cta", SIM_MOD_CTA_SCOPE},
      {"relaxed", SIM_MOD_STRONG}, {"mmio", SIM_MOD_STRONG},
      {"acquire", SIM_MOD_STRONG | SIM_MOD_ACQUIRE},
      {"release", SIM_MOD_STRONG | SIM_MOD_RELEASE},
      {"acq_rel", SIM_MOD_STRONG | SIM_MOD_ACQUIRE | SIM_MOD_RELEASE},
      {"aligned", SIM_MOD_ALIGNED}, {"shiftamt", SIM_MOD_SHIFTAMT},
      {"shared::cluster", SIM_MOD_CLUSTER}};
  static const struct {
    const char *text;
    uint8_t sub;
  } subs[] = {
      {"eq", SIM_EQ}, {"ne", SIM_NE}, {"lt", SIM_LT}, {"le", SIM_LE},
      {"gt", SIM_GT}, {"ge", SIM_GE}, {"ls", SIM_LE}, {"hs", SIM_GE},
      {"equ", SIM_EQU}, {"neu", SIM_NEU}, {"ltu", SIM_LTU},
      {"leu", SIM_LEU}, {"gtu", SIM_GTU}, {"geu", SIM_GEU},
      {"num", SIM_NUM}, {"nan", SIM_ISNAN},
      {"up", 0}, {"down", 1}, {"bfly", 2}, {"idx", 3},
      {"f4e", 1}, {"b4e", 2}, {"rc8", 3}, {"ecl", 4}, {"ecr", 5},
      {"rc16", 6}, {"finite", 0}, {"infinite", 1}, {"number", 2},
      {"notanumber", 3}, {"normal", 4}, {"subnormal", 5},
      {"add", SIM_ATOM_ADD}, {"min", SIM_ATOM_MIN}, {"max", SIM_ATOM_MAX},
      {"inc", SIM_ATOM_INC}, {"dec", SIM_ATOM_DEC}, {"exch", SIM_ATOM_EXCH},
      {"cas", SIM_ATOM_CAS}, {"popc", SIM_ATOM_ADD}};
  const sim_form_t *f = &n->form;
  const sim_op_t *op = f->op;
  for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
    if (has(f, flags[i].text)) n->mods |= flags[i].mods;
  }
  for (size_t i = 0; i < sizeof subs / sizeof *subs; i++) {
    if (has(f, subs[i].text)) n->sub = subs[i].sub;
  }
  bool is_compare = td_str_eqc(f->base, "setp") || td_str_eqc(f->base, "set");
  if (is_compare) {
    if (has(f, "lo")) n->sub = SIM_LT;
    if (has(f, "hi")) n->sub = SIM_GT;
    n->sub2 = has(f, "and")  ? SIM_BOOL_AND
              : has(f, "or") ? SIM_BOOL_OR
              : has(f, "xor") ? SIM_BOOL_XOR
                              : SIM_BOOL_NONE;
  } else if (td_str_eqc(f->base, "vote") || td_str_eqc(f->base, "match")) {
    bool is_vote = td_str_eqc(f->base, "vote");
    n->sub = has(f, "all") ? (is_vote ? 0 : 1)
             : has(f, "uni") ? 2
                             : (is_vote ? 1 : 0);
  } else if (!td_str_eqc(f->base, "and") && !td_str_eqc(f->base, "or") &&
             !td_str_eqc(f->base, "xor")) {
    if (has(f, "and")) n->sub = SIM_ATOM_AND;
    if (has(f, "or")) n->sub = SIM_ATOM_OR;
    if (has(f, "xor")) n->sub = SIM_ATOM_XOR;
  }
  if (td_str_eqc(f->base, "addc") || td_str_eqc(f->base, "subc") ||
      td_str_eqc(f->base, "madc"))
    n->sub = 1; /* takes the carry in */
  if (f->type_count &&
      ptx_type_row(f->types[f->type_count - 1])->kind == PTX_KIND_SIGNED)
    n->mods |= SIM_MOD_SIGNED;
  if (td_str_eqc(f->base, "fence") || td_str_eqc(f->base, "membar"))
    n->sub2 = has(f, "proxy") && !has(f, "tensormap::generic") ? SIM_FENCE_NONE
              : has(f, "cta")                                  ? SIM_FENCE_CTA
                                                               : 0;
  if (td_str_eqc(f->base, "griddepcontrol"))
    n->sub = has(f, "launch_dependents");
  if (td_str_eqc(f->base, "bar")) n->mods |= SIM_MOD_ALIGNED;
  if (td_str_eqc(f->base, "cvt"))
    n->sub = has(f, "rni") || has(f, "rzi") || has(f, "rmi") ||
             has(f, "rpi");
  /* approximate roots and reciprocals are computed to nearest */
  if (op->handler == SIM_H_rcp_f64) n->mods &= ~(uint32_t)SIM_MOD_FTZ;
}

/* What the text was written for decides, and never more than the machine. */
static bool has_target(sim_decoder_t *d, const sim_op_t *op) {
  static const char *const special[] = {"wgmma", "setmaxnreg"};
  if (op->target > d->cc) {
    sim_decode_fail(d, "needs compute capability %u.%u, this device has %u.%u",
                    op->target / 10, op->target % 10, d->cc / 10, d->cc % 10);
    return false;
  }
  uint32_t target = d->module->target;
  if (op->target > target) {
    sim_decode_fail(d, "needs sm_%u, the text's .target is sm_%u", op->target,
                    target);
    return false;
  }
  for (size_t i = 0; i < sizeof special / sizeof *special; i++) {
    if (strcmp(op->base, special[i]) != 0 || d->module->target_suffix)
      continue;
    sim_decode_fail(d, "needs sm_%ua, the text's .target is sm_%u", target,
                    target);
    return false;
  }
  return true;
}

static const sim_named_t *find_named(sim_decoder_t *d, td_str_t text) {
  sim_named_t *n = td_map_get(&d->named, text);
  if (n) return n;
  char near_text[160];
  n = TD_NEW(d->scratch, sim_named_t);
  if (!sim_match(text, &n->form, near_text, sizeof near_text)) {
    if (near_text[0])
      sim_decode_fail(d, "this form is not known; the nearest is %s",
                      near_text);
    else
      sim_decode_fail(d, "this instruction is not known");
    return NULL;
  }
  if (!has_target(d, n->form.op)) return NULL;
  read_qualifiers(n);
  td_vec_push(d->arena, &d->kernel->forms,
              (uint32_t)(n->form.op - sim_op_at(0)));
  n->name = (uint32_t)d->kernel->names.length;
  td_vec_push(d->arena, &d->kernel->names,
              td_str(td_arena_strndup(d->arena, text.data, text.length)));
  td_map_put(&d->named, text, n);
  return n;
}

static ptx_type_t wider(ptx_type_t type) {
  switch (type) {
  case PTX_U16: return PTX_U32;
  case PTX_S16: return PTX_S32;
  case PTX_U32: return PTX_U64;
  case PTX_S32: return PTX_S64;
  default: return type;
  }
}

/* "d0 a0 bu": slot and type of each operand. */
static bool simple_form(sim_decoder_t *d, const char *spec) {
  const sim_form_t *f = &d->op->form;
  uint32_t n = 0;
  for (const char *p = spec; *p; n++) {
    char role = p[0], kind = p[1];
    p += p[2] == ' ' ? 3 : 2;
    const ptx_operand_t *o = sim_operand(d, n);
    if (!o) return SIM_FAIL(d, "an operand is missing");
    ptx_type_t type = kind == '0'   ? f->types[0]
                      : kind == '1' ? f->types[1]
                      : kind == 'w' ? wider(f->types[0])
                      : kind == 'p' ? PTX_PRED
                                    : PTX_U32;
    if (role == 'i') {
      if (o->kind != PTX_OPERAND_INT)
        return SIM_FAIL(d, "operand %u must be a constant", n + 1);
      d->ins.imm = o->value;
    } else if (role == 'd') {
      sim_slot(d, 0, sim_dest(d, o, type));
      d->ins.writes |= SIM_WRITES_D;
    } else {
      int slot = role == 'a' ? 1 : role == 'b' ? 2 : role == 'c' ? 3 : 4;
      sim_slot(d, slot, kind == '?' ? sim_loose(d, o, PTX_U64)
                                    : sim_source(d, o, type));
    }
    if (d->error->code) return false;
  }
  if (n != d->ptx->count) return SIM_FAIL(d, "too many operands");
  return true;
}

static bool instruction(sim_decoder_t *d, const ptx_ins_t *ptx) {
  d->ptx = ptx;
  d->op = find_named(d, ptx->op);
  if (!d->op) return false;
  const sim_op_t *op = d->op->form.op;
  memset(&d->ins, 0, sizeof d->ins);
  sim_ins_t *i = &d->ins;
  sim_set_handler(d, (sim_handler_t)op->handler);
  i->cls = op->cls;
  i->mods = d->op->mods;
  i->sub = d->op->sub;
  i->sub2 = d->op->sub2;
  i->line = ptx->line;
  i->loc = ptx->loc;
  i->name = d->op->name;
  i->type = (uint8_t)d->op->form.types[0];
  i->type2 = (uint8_t)d->op->form.types[1];
  i->flops = (uint8_t)(op->flops * (i->type == PTX_F16X2 ||
                                            i->type == PTX_BF16X2
                                        ? 2
                                        : 1));
  i->bytes = ptx_type_row((ptx_type_t)i->type)->bytes;
  i->lanes = 1;
  i->guard = 0 << 2 | SIM_ROW_PRED;
  if (ptx->is_guarded) {
    i->guard = (d->parts.data[d->part].first_row + ptx->guard) << 2 |
               SIM_ROW_PRED;
    i->flip = ptx->is_guard_negated ? UINT32_MAX : 0;
    i->is_guarded = 1;
  }
  if (op->operands[0] == '!') {
    if (!sim_decode_form(d, op->operands + 1)) return false;
  } else if (!simple_form(d, op->operands)) {
    return false;
  }
  if (d->error->code) return false;
  td_vec_push(d->scratch, &d->code, d->ins);
  return true;
}

static void block_record(sim_decoder_t *d, sim_handler_t handler) {
  sim_ins_t i = {.guard = 0 << 2 | SIM_ROW_PRED,
                 .handler = (uint16_t)handler,
                 .fn = d->variant[handler],
                 .is_block = handler == SIM_H_block,
                 .line = d->ptx ? d->ptx->line : 0,
                 .loc = d->ptx ? d->ptx->loc : 0};
  if (handler == SIM_H_block) {
    i.imm = d->kernel->blocks.length;
    td_vec_push(d->arena, &d->kernel->blocks,
                (sim_block_t){.first = (uint32_t)d->code.length + 1});
  }
  td_vec_push(d->scratch, &d->code, i);
}

static bool function(sim_decoder_t *d, uint32_t number) {
  sim_part_t *part = &d->parts.data[number];
  ptx_func_t *f = part->func;
  d->part = number;
  d->func = f;
  d->ptx = NULL;
  if (!f->is_defined)
    return SIM_FAIL(d, "function '%s' has no body", f->name);
  for (size_t i = 0; i < f->vars.length; i++) {
    ptx_var_t *var = f->vars.data[i];
    if (var->space == PTX_SPACE_SHARED)
      place_shared(d, var);
    else
      sim_place_local(d, var);
    if (d->error->code) return false;
  }
  uint8_t *leaders = sim_leaders(d, f);
  part->code = (uint32_t)d->code.length;
  part->block = (uint32_t)d->kernel->blocks.length;
  for (uint32_t i = 0; i < f->ins.length; i++) {
    if (leaders[i]) {
      block_record(d, SIM_H_block);
      /* branch targets are instruction numbers until flow.c maps them */
      td_vec_last(&d->code).target = i;
    }
    if (!instruction(d, &f->ins.data[i])) return false;
    part = &d->parts.data[number]; /* a call may have added parts */
    td_vec_last(&d->kernel->blocks).count++;
  }
  block_record(d, SIM_H_block);
  td_vec_last(&d->code).target = (uint32_t)f->ins.length;
  block_record(d, SIM_H_end);
  td_vec_last(&d->kernel->blocks).count++;
  part->code_end = (uint32_t)d->code.length;
  part->block_end = (uint32_t)d->kernel->blocks.length;
  return true;
}

/* Functions have fixed frames: a cycle of calls has no meaning here. */
static bool no_recursion(sim_decoder_t *d) {
  size_t n = d->parts.length;
  uint32_t *pending = TD_NEW_ARRAY(d->scratch, uint32_t, n);
  uint32_t *order = TD_NEW_ARRAY(d->scratch, uint32_t, n + 1);
  size_t head = 0, tail = 0;
  for (size_t i = 0; i < n; i++)
    for (size_t j = 0; j < d->parts.data[i].calls.length; j++)
      pending[d->parts.data[i].calls.data[j]]++;
  for (uint32_t i = 0; i < n; i++)
    if (!pending[i]) order[tail++] = i;
  while (head < tail) {
    const sim_part_t *part = &d->parts.data[order[head++]];
    for (size_t j = 0; j < part->calls.length; j++)
      if (--pending[part->calls.data[j]] == 0)
        order[tail++] = part->calls.data[j];
  }
  /* and a warp has room for so many calls inside each other */
  uint32_t *depth = TD_NEW_ARRAY(d->scratch, uint32_t, n), deepest = 0;
  for (size_t i = 0; i < tail; i++) {
    const sim_part_t *part = &d->parts.data[order[i]];
    for (size_t j = 0; j < part->calls.length; j++) {
      uint32_t *at = &depth[part->calls.data[j]], now = depth[order[i]] + 1;
      if (now > *at) *at = now;
      if (*at > deepest) deepest = *at;
    }
  }
  d->ptx = NULL;
  if (tail == n && deepest <= SIM_MAX_CALLS) return true;
  if (tail == n)
    return SIM_FAIL(d, "calls are nested %u deep, more than %u", deepest,
                    (unsigned)SIM_MAX_CALLS);
  for (size_t i = 0; i < n; i++)
    if (pending[i]) d->func = d->parts.data[i].func;
  return SIM_FAIL(d, "recursive calls are not supported");
}

sim_kernel_t *sim_decode(td_task_t *task, td_arena_t *arena,
                         const ptx_module_t *module, const ptx_func_t *func,
                         uint32_t cc, const sim_fn_t *variant,
                         ptx_error_t *error) {
  td_arena_t scratch;
  td_arena_init(&scratch, task);
  sim_decoder_t d = {.task = task, .arena = arena, .scratch = &scratch,
                     .module = module, .cc = cc, .variant = variant,
                     .error = error};
  memset(error, 0, sizeof *error);
  d.kernel = TD_NEW(arena, sim_kernel_t);
  sim_kernel_t *k = d.kernel;
  k->name = func->name;
  k->module = module;
  k->func = func;
  k->arena = arena;
  k->shared_align = k->dynamic_align = 16;
  td_map_init(&d.consts, &scratch);
  td_map_init(&d.named, &scratch);
  td_map_init(&d.part_of, &scratch);
  add_row(&d, (sim_row_t){.cls = SIM_ROW_PRED, .kind = SIM_ROWKIND_CONST,
                          .value = UINT32_MAX, .is_used = true});
  td_vec_push(arena, &k->names, td_str(""));
  for (size_t i = 0; i < module->vars.length; i++) {
    if (module->vars.data[i]->space == PTX_SPACE_SHARED)
      place_shared(&d, module->vars.data[i]);
  }
  sim_part(&d, (ptx_func_t *)(uintptr_t)func);
  bool ok = error->code == 0;
  for (uint32_t i = 0; ok && i < d.parts.length; i++) ok = function(&d, i);
  if (ok) ok = no_recursion(&d) && sim_flow(&d);
  td_arena_free_all(&scratch);
  return ok ? k : NULL;
}
