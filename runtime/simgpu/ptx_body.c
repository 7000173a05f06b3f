/* PTX inside functions: scopes, registers, labels, instructions. */
#include "runtime/simgpu/ptx_parser.h"

static const struct {
  const char *text;
} specials[] = {
#define PTX_SPECIAL(id, text, bits) {text},
#include "runtime/simgpu/ptx_types.def"
#undef PTX_SPECIAL
};

/* -- operands -- */

/* "%r12" of a range "%r<100>": the number is the digits at the end, and when
   the range's own name ends in digits, a later part of them. */
static bool find_register(ptx_parser_t *p, td_str_t name, uint32_t *out) {
  ptx_symbol_t *s = ptx_lookup(p, name);
  if (s && s->kind == PTX_SYMBOL_REG) {
    *out = s->first;
    return true;
  }
  size_t digits = name.length;
  while (digits > 1 && name.data[digits - 1] >= '0' &&
         name.data[digits - 1] <= '9' && name.length - digits < 9)
    digits--;
  for (; digits < name.length; digits++) {
    uint32_t number = 0;
    for (size_t i = digits; i < name.length; i++)
      number = number * 10 + (uint32_t)(name.data[i] - '0');
    if (name.data[digits] == '0' && digits + 1 < name.length) continue;
    s = ptx_lookup(p, td_str_n(name.data, digits));
    if (s && s->kind == PTX_SYMBOL_REGS && number < s->count) {
      *out = s->first + number;
      return true;
    }
  }
  return false;
}

static bool find_special(ptx_parser_t *p, td_str_t name,
                         ptx_operand_t *out) {
  char text[40];
  if (name.length >= sizeof text - 4) return false;
  memcpy(text, name.data, name.length);
  text[name.length] = 0;
  if (p->lex.kind == PTX_TOKEN_DOT && p->lex.text.length == 2) {
    memcpy(text + name.length, p->lex.text.data, 2);
    text[name.length + 2] = 0;
  }
  for (uint32_t i = 0; i < PTX_SREG_COUNT; i++) {
    if (strcmp(text, specials[i].text) == 0) {
      if (strlen(text) > name.length) ptx_lex_next(&p->lex);
      out->kind = PTX_OPERAND_SPECIAL;
      out->reg = i;
      return true;
    }
  }
  return false;
}

/* A name, number, register or sink: whatever has no brackets. */
static bool simple_operand(ptx_parser_t *p, ptx_operand_t *out) {
  memset(out, 0, sizeof *out);
  bool is_minus = false;
  if (ptx_is_punct(&p->lex, '!')) {
    out->is_negated = true;
    ptx_lex_next(&p->lex);
  }
  while (ptx_is_punct(&p->lex, '-')) {
    is_minus = !is_minus;
    ptx_lex_next(&p->lex);
  }
  if (ptx_lex_has_point(&p->lex)) ptx_lex_decimal(&p->lex);
  if (p->lex.kind == PTX_TOKEN_NUMBER) {
    out->kind = PTX_OPERAND_INT;
    out->value = is_minus ? 0 - p->lex.value : p->lex.value;
    ptx_lex_next(&p->lex);
    return true;
  }
  if (p->lex.kind == PTX_TOKEN_F32 || p->lex.kind == PTX_TOKEN_F64) {
    bool wide = p->lex.kind == PTX_TOKEN_F64;
    out->kind = wide ? PTX_OPERAND_F64 : PTX_OPERAND_F32;
    out->value = p->lex.value;
    if (is_minus) out->value ^= (uint64_t)1 << (wide ? 63 : 31);
    ptx_lex_next(&p->lex);
    return true;
  }
  if (p->lex.kind != PTX_TOKEN_WORD || is_minus)
    return PTX_FAIL(p, "expected an operand and found '%.*s'",
                    (int)(p->lex.text.length > 40 ? 40
                                                  : p->lex.text.length),
                    p->lex.text.data);
  td_str_t name = p->lex.text;
  ptx_lex_next(&p->lex);
  if (td_str_eqc(name, "_")) {
    out->kind = PTX_OPERAND_SINK;
    return true;
  }
  if (find_register(p, name, &out->reg)) {
    out->kind = PTX_OPERAND_REG;
    return true;
  }
  if (name.data[0] == '%' && find_special(p, name, out)) return true;
  ptx_symbol_t *s = ptx_lookup(p, name);
  if (s && s->kind == PTX_SYMBOL_VAR) {
    out->kind = PTX_OPERAND_VAR;
    out->u.var = s->object;
    if (ptx_is_punct(&p->lex, '+') || ptx_is_punct(&p->lex, '-'))
      return ptx_take_int(p, &out->value);
    return true;
  }
  if (s && s->kind == PTX_SYMBOL_FUNC) {
    out->kind = PTX_OPERAND_FUNC;
    out->u.func = s->object;
    return true;
  }
  if (name.data[0] == '%')
    return PTX_FAIL(p, "register '%.*s' is not declared",
                    (int)(name.length > 60 ? 60 : name.length), name.data);
  out->kind = PTX_OPERAND_LABEL; /* resolved at the end of the body */
  out->u.name = name;
  return true;
}

/* Elements go into the pool one after another. */
static bool elements(ptx_parser_t *p, char close, ptx_operand_t *out,
                     uint8_t kind) {
  ptx_func_t *f = p->func;
  out->kind = kind;
  out->first = (uint32_t)f->pool.length;
  ptx_lex_next(&p->lex);
  while (!ptx_is_punct(&p->lex, close)) {
    ptx_operand_t element;
    if (!simple_operand(p, &element)) return false;
    if (element.kind == PTX_OPERAND_LABEL)
      return PTX_FAIL(p, "'%.*s' is not declared",
                      (int)(element.u.name.length > 60
                                ? 60
                                : element.u.name.length),
                      element.u.name.data);
    td_vec_push(p->arena, &f->pool, element);
    if (f->pool.length - out->first > 512)
      return PTX_FAIL(p, "too many elements");
    if (ptx_is_punct(&p->lex, ',')) {
      ptx_lex_next(&p->lex);
    } else if (!ptx_is_punct(&p->lex, close)) {
      return PTX_FAIL(p, "expected ',' or '%c'", close);
    }
  }
  ptx_lex_next(&p->lex);
  out->count = (uint16_t)(f->pool.length - out->first);
  return true;
}

/* [base], [base+n], [base, {c0, c1}]: pool[first] is the base, then the
   coordinates. */
static bool address(ptx_parser_t *p, ptx_operand_t *out) {
  ptx_func_t *f = p->func;
  ptx_operand_t base, vector = {0};
  memset(out, 0, sizeof *out);
  out->kind = PTX_OPERAND_ADDRESS;
  ptx_lex_next(&p->lex);
  if (!simple_operand(p, &base)) return false;
  if (base.kind == PTX_OPERAND_LABEL)
    return PTX_FAIL(p, "'%.*s' is not declared",
                    (int)(base.u.name.length > 60 ? 60
                                                  : base.u.name.length),
                    base.u.name.data);
  if (base.kind != PTX_OPERAND_VAR &&
      (ptx_is_punct(&p->lex, '+') || ptx_is_punct(&p->lex, '-'))) {
    if (!ptx_take_int(p, &out->value)) return false;
  }
  if (ptx_is_punct(&p->lex, ',')) {
    ptx_lex_next(&p->lex);
    if (!ptx_is_punct(&p->lex, '{'))
      return PTX_FAIL(p, "expected coordinates");
    if (!elements(p, '}', &vector, PTX_OPERAND_VECTOR)) return false;
  }
  out->first = (uint32_t)f->pool.length;
  td_vec_push(p->arena, &f->pool, base);
  if (vector.kind) td_vec_push(p->arena, &f->pool, vector);
  out->count = vector.kind ? 2 : 1;
  return ptx_expect(p, ']');
}

static bool operand(ptx_parser_t *p, ptx_operand_t *out) {
  memset(out, 0, sizeof *out);
  if (ptx_is_punct(&p->lex, '['))
    return address(p, out);
  if (ptx_is_punct(&p->lex, '{'))
    return elements(p, '}', out, PTX_OPERAND_VECTOR);
  if (ptx_is_punct(&p->lex, '('))
    return elements(p, ')', out, PTX_OPERAND_LIST);
  ptx_operand_t first;
  if (!simple_operand(p, &first)) return false;
  if (!ptx_is_punct(&p->lex, '|')) {
    *out = first;
    return true;
  }
  ptx_operand_t second;
  ptx_lex_next(&p->lex);
  if (!simple_operand(p, &second)) return false;
  if (first.kind == PTX_OPERAND_LABEL || second.kind == PTX_OPERAND_LABEL)
    return PTX_FAIL(p, "a pair of destinations needs registers");
  out->kind = PTX_OPERAND_PAIR;
  out->count = 2;
  out->first = (uint32_t)p->func->pool.length;
  td_vec_push(p->arena, &p->func->pool, first);
  td_vec_push(p->arena, &p->func->pool, second);
  return true;
}

/* -- statements -- */

static bool instruction(ptx_parser_t *p) {
  ptx_func_t *f = p->func;
  ptx_ins_t ins = {.line = p->lex.line, .loc = p->loc};
  if (ptx_is_punct(&p->lex, '@')) {
    ptx_operand_t guard;
    ptx_lex_next(&p->lex);
    if (!simple_operand(p, &guard)) return false;
    if (guard.kind != PTX_OPERAND_REG ||
        f->regs.data[guard.reg] != PTX_PRED)
      return PTX_FAIL(p, "a guard must be a predicate register");
    ins.is_guarded = true;
    ins.is_guard_negated = guard.is_negated;
    ins.guard = guard.reg;
  }
  if (p->lex.kind != PTX_TOKEN_WORD)
    return PTX_FAIL(p, "expected an instruction and found '%.*s'",
                    (int)(p->lex.text.length > 40 ? 40
                                                  : p->lex.text.length),
                    p->lex.text.data);
  ins.line = p->lex.line;
  ins.op = ptx_lex_mnemonic(&p->lex);
  if (ins.op.length > 200) return PTX_FAIL(p, "instruction name too long");
  ptx_lex_next(&p->lex);
  ptx_operand_t list[PTX_MAX_OPERANDS];
  uint32_t count = 0;
  while (!ptx_is_punct(&p->lex, ';')) {
    if (count == PTX_MAX_OPERANDS)
      return PTX_FAIL(p, "too many operands");
    if (!operand(p, &list[count++])) return false;
    if (ptx_is_punct(&p->lex, ',')) {
      ptx_lex_next(&p->lex);
    } else if (!ptx_is_punct(&p->lex, ';')) {
      return PTX_FAIL(p, "expected ',' or ';' in '%.*s'",
                      TD_STR_ARG(ins.op));
    }
  }
  ptx_lex_next(&p->lex);
  ins.first = (uint32_t)f->pool.length;
  ins.count = (uint16_t)count;
  for (uint32_t i = 0; i < count; i++) {
    if (list[i].kind == PTX_OPERAND_LABEL) {
      td_vec_push(p->arena, &p->refs,
                  (ptx_ref_t){(uint32_t)f->pool.length, p->scope,
                              ins.line});
    }
    td_vec_push(p->arena, &f->pool, list[i]);
  }
  if (f->ins.length >= (1u << 26)) return PTX_FAIL(p, "body too long");
  td_vec_push(p->arena, &f->ins, ins);
  return true;
}

/* .reg .b32 %r<10>, x; */
static bool registers(ptx_parser_t *p) {
  ptx_func_t *f = p->func;
  if (p->lex.kind != PTX_TOKEN_DOT)
    return PTX_FAIL(p, ".reg needs a type");
  ptx_type_t type = ptx_type_find(
      td_str_n(p->lex.text.data + 1, p->lex.text.length - 1));
  if (type == PTX_NO_TYPE)
    return PTX_FAIL(p, "'%.*s' is no register type",
                    (int)(p->lex.text.length > 40 ? 40
                                                  : p->lex.text.length),
                    p->lex.text.data);
  if (type == PTX_B128)
    return PTX_FAIL(p, "128-bit registers are not supported");
  ptx_lex_next(&p->lex);
  for (;;) {
    td_str_t name;
    if (!ptx_take_name(p, &name)) return false;
    uint32_t count = 1;
    bool is_range = ptx_is_punct(&p->lex, '<');
    if (is_range) {
      ptx_lex_next(&p->lex);
      if (!ptx_take_u32(p, &count)) return false;
      if (!ptx_expect(p, '>')) return false;
      if (count > (1u << 20) || f->regs.length + count > (1u << 22))
        return PTX_FAIL(p, "too many registers");
    }
    ptx_symbol_t *s =
        ptx_define(p, name, is_range ? PTX_SYMBOL_REGS : PTX_SYMBOL_REG);
    if (!s) return false;
    s->first = (uint32_t)f->regs.length;
    s->count = count;
    td_vec_reserve(p->arena, &f->regs, count);
    if (count) /* a range may be empty, before anything was reserved */
      memset(f->regs.data + f->regs.length, (int)type, count);
    f->regs.length += count;
    if (!ptx_is_punct(&p->lex, ',')) break;
    ptx_lex_next(&p->lex);
  }
  return ptx_expect(p, ';');
}

bool ptx_loc(ptx_parser_t *p) {
  uint32_t file, line, column;
  if (!ptx_take_u32(p, &file) || !ptx_take_u32(p, &line) ||
      !ptx_take_u32(p, &column))
    return false;
  /* ", function_name label, inlined_at file line column" */
  while (ptx_is_punct(&p->lex, ',')) {
    td_str_t word;
    ptx_lex_next(&p->lex);
    if (!ptx_take_name(p, &word)) return false;
    if (td_str_eqc(word, "inlined_at")) {
      if (!ptx_take_u32(p, &column) || !ptx_take_u32(p, &column) ||
          !ptx_take_u32(p, &column))
        return false;
    } else {
      if (!ptx_take_name(p, &word)) return false;
      if (ptx_is_punct(&p->lex, '+')) {
        uint64_t unused;
        if (!ptx_take_int(p, &unused)) return false;
      }
    }
  }
  ptx_loc_t last = td_vec_last(&p->module->locs);
  if (last.file != file || last.line != line || p->loc == 0)
    td_vec_push(p->arena, &p->module->locs, (ptx_loc_t){file, line});
  p->loc = (uint32_t)p->module->locs.length - 1;
  return true;
}

/* NAME: .branchtargets A, B; - the label just read becomes the table. */
static bool branch_targets(ptx_parser_t *p) {
  ptx_func_t *f = p->func;
  if (!p->table)
    return PTX_FAIL(p, ".branchtargets needs a label");
  ptx_label_t table = {.name = p->symbols.data[p->table].name};
  for (;;) {
    ptx_operand_t target = {.kind = PTX_OPERAND_LABEL};
    if (!ptx_take_name(p, &target.u.name)) return false;
    td_vec_push(p->arena, &p->refs,
                (ptx_ref_t){(uint32_t)f->pool.length, p->scope,
                            p->lex.line});
    td_vec_push(p->arena, &table.targets, (uint32_t)f->pool.length);
    td_vec_push(p->arena, &f->pool, target);
    if (!ptx_is_punct(&p->lex, ',')) break;
    ptx_lex_next(&p->lex);
  }
  ptx_symbol_t *s = &p->symbols.data[p->table];
  s->kind = PTX_SYMBOL_TABLE;
  s->first = (uint32_t)f->tables.length;
  td_vec_push(p->arena, &f->tables, table);
  return ptx_expect(p, ';');
}

static bool directive(ptx_parser_t *p) {
  td_str_t word = p->lex.text;
  ptx_space_t space = PTX_SPACE_GENERIC;
  bool is_extern = false;
  ptx_lex_next(&p->lex);
  if (td_str_eqc(word, ".reg")) return registers(p);
  if (td_str_eqc(word, ".loc")) return ptx_loc(p);
  if (td_str_eqc(word, ".file")) return ptx_file(p);
  if (td_str_eqc(word, ".branchtargets")) return branch_targets(p);
  if (td_str_eqc(word, ".pragma")) {
    while (p->lex.kind == PTX_TOKEN_STRING || ptx_is_punct(&p->lex, ','))
      ptx_lex_next(&p->lex);
    return ptx_expect(p, ';');
  }
  if (td_str_eqc(word, ".extern")) {
    is_extern = true;
    word = p->lex.text;
    ptx_lex_next(&p->lex);
  }
  if (td_str_eqc(word, ".shared")) space = PTX_SPACE_SHARED;
  if (td_str_eqc(word, ".local")) space = PTX_SPACE_LOCAL;
  if (td_str_eqc(word, ".param")) space = PTX_SPACE_PARAM;
  if (td_str_eqc(word, ".global")) space = PTX_SPACE_GLOBAL;
  if (td_str_eqc(word, ".const")) space = PTX_SPACE_CONST;
  if (space == PTX_SPACE_GENERIC)
    return PTX_FAIL(p, "directive '%.*s' is not known in a body",
                    (int)(word.length > 60 ? 60 : word.length), word.data);
  ptx_var_t *var;
  if (!ptx_variable(p, space, is_extern, false, &var)) return false;
  if (space == PTX_SPACE_GLOBAL || space == PTX_SPACE_CONST)
    td_vec_push(p->arena, &p->module->vars, var);
  else
    td_vec_push(p->arena, &p->func->vars, var);
  return true;
}

/* Labels were collected by scope; a name means the innermost one. */
static bool resolve(ptx_parser_t *p) {
  ptx_func_t *f = p->func;
  for (size_t i = 0; i < p->refs.length; i++) {
    ptx_ref_t *ref = &p->refs.data[i];
    ptx_operand_t *o = &f->pool.data[ref->operand];
    ptx_symbol_t *s = NULL;
    for (uint32_t scope = ref->scope;; scope = p->parents.data[scope]) {
      s = ptx_lookup_in(p, o->u.name, scope);
      if (s || scope == 0) break;
    }
    if (!s || (s->kind != PTX_SYMBOL_LABEL &&
               s->kind != PTX_SYMBOL_TABLE)) {
      p->lex.line = ref->line;
      return PTX_FAIL(p, "'%.*s' is not declared",
                      (int)(o->u.name.length > 60 ? 60
                                                  : o->u.name.length),
                      o->u.name.data);
    }
    o->reg = s->first;
    o->value = s->kind == PTX_SYMBOL_TABLE;
  }
  return true;
}

bool ptx_body(ptx_parser_t *p) {
  uint32_t depth = 0;
  p->refs.length = 0;
  p->loc = 0;
  p->table = 0;
  for (;;) {
    ptx_lexer_t *lex = &p->lex;
    if (lex->kind == PTX_TOKEN_END)
      return PTX_FAIL(p, "the body of '%s' does not end", p->func->name);
    if (lex->kind == PTX_TOKEN_BAD)
      return PTX_FAIL(p, "%.*s", TD_STR_ARG(lex->text));
    if (ptx_is_punct(lex, '{')) {
      if (++depth > PTX_MAX_DEPTH)
        return PTX_FAIL(p, "scopes nest too deep");
      if (depth > 1) {
        td_vec_push(p->arena, &p->parents, p->scope);
        p->scope = (uint32_t)p->parents.length - 1;
      }
      ptx_lex_next(lex);
    } else if (ptx_is_punct(lex, '}')) {
      ptx_lex_next(lex);
      if (--depth == 0) return resolve(p);
      p->scope = p->parents.data[p->scope];
    } else if (ptx_is_punct(lex, ';')) {
      ptx_lex_next(lex);
    } else if (lex->kind == PTX_TOKEN_DOT) {
      if (!directive(p)) return false;
      p->table = 0;
    } else if (lex->kind == PTX_TOKEN_WORD && ptx_lex_peek(lex, ':')) {
      ptx_symbol_t *s = ptx_define(p, lex->text, PTX_SYMBOL_LABEL);
      if (!s) return false;
      s->first = (uint32_t)p->func->ins.length;
      p->table = (uint32_t)p->symbols.length - 1;
      ptx_lex_next(lex);
      ptx_lex_next(lex);
    } else {
      if (!instruction(p)) return false;
      p->table = 0;
    }
  }
}
