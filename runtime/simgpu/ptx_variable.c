/* A PTX variable: type, extents, initial values. */
#include "runtime/simgpu/ptx_parser.h"

/* As ptxas stores them: the bits of a single, and a double rounded where
   there are four bytes for it. */
static bool init_float(ptx_parser_t *p, const ptx_type_row_t *type,
                       bool is_minus, uint64_t *out) {
  bool is_wide = p->lex.kind == PTX_TOKEN_F64;
  *out = p->lex.value;
  if (type->bytes < 4 ||
      (type->kind != PTX_KIND_FLOAT && type->kind != PTX_KIND_BITS) ||
      (is_minus && !is_wide))
    return PTX_FAIL(p, "this value is none of type .%s", type->text);
  ptx_lex_next(&p->lex);
  if (!is_wide) return true;
  if (is_minus) *out ^= UINT64_C(1) << 63;
  if (type->bytes == 4) {
    double wide;
    memcpy(&wide, out, sizeof wide);
    float narrow = (float)wide;
    *out = 0;
    memcpy(out, &narrow, sizeof narrow);
  }
  return true;
}

static bool init_value(ptx_parser_t *p, ptx_var_t *var) {
  const ptx_type_row_t *type = ptx_type_row(var->type);
  size_t size = type->bytes, at = var->init.length;
  if (at + size > var->bytes)
    return PTX_FAIL(p, "too many values for '%s'", var->name);
  uint64_t value = 0;
  bool is_minus = false;
  while (ptx_is_punct(&p->lex, '-') || ptx_is_punct(&p->lex, '+')) {
    is_minus ^= p->lex.punct == '-';
    ptx_lex_next(&p->lex);
  }
  if (ptx_lex_has_point(&p->lex)) ptx_lex_decimal(&p->lex);
  if (p->lex.kind == PTX_TOKEN_F32 || p->lex.kind == PTX_TOKEN_F64) {
    if (!init_float(p, type, is_minus, &value)) return false;
  } else if (p->lex.kind == PTX_TOKEN_WORD && !is_minus) {
    ptx_fixup_t fix = {.offset = at, .name = p->lex.text};
    ptx_lex_next(&p->lex);
    if (td_str_eqc(fix.name, "generic") && ptx_is_punct(&p->lex, '(')) {
      ptx_lex_next(&p->lex);
      fix.is_generic = true;
      if (!ptx_take_name(p, &fix.name) || !ptx_expect(p, ')')) return false;
    }
    if (ptx_is_punct(&p->lex, '+') || ptx_is_punct(&p->lex, '-')) {
      if (!ptx_take_int(p, &fix.addend)) return false;
    }
    if (size != 8)
      return PTX_FAIL(p, "an address needs 8 bytes in '%s'", var->name);
    td_vec_push(p->arena, &var->fixups, fix);
  } else {
    if (type->kind == PTX_KIND_FLOAT && p->lex.kind == PTX_TOKEN_NUMBER)
      return PTX_FAIL(p, "this value is none of type .%s", type->text);
    if (!ptx_take_int(p, &value)) return false;
    if (is_minus) value = 0 - value;
  }
  for (size_t i = 0; i < size; i++) {
    uint8_t byte = i < 8 ? (uint8_t)(value >> (8 * i)) : 0;
    td_vec_push(p->arena, &var->init, byte);
  }
  return true;
}

/* Nested braces are read as if they were flat: rows must be complete, which
   is what compilers write. */
static bool initialiser(ptx_parser_t *p, ptx_var_t *var) {
  uint32_t depth = 0;
  if (!ptx_is_punct(&p->lex, '{')) return init_value(p, var);
  for (;;) {
    if (ptx_is_punct(&p->lex, '{')) {
      depth++;
    } else if (ptx_is_punct(&p->lex, '}')) {
      if (--depth == 0) break;
    } else if (!ptx_is_punct(&p->lex, ',')) {
      if (!init_value(p, var)) return false;
      continue;
    }
    ptx_lex_next(&p->lex);
    if (p->lex.kind == PTX_TOKEN_END)
      return PTX_FAIL(p, "unfinished initialiser");
  }
  ptx_lex_next(&p->lex);
  return true;
}

bool ptx_variable(ptx_parser_t *p, ptx_space_t space, bool is_extern,
                  bool is_param, ptx_var_t **out) {
  ptx_var_t *var = TD_NEW(p->arena, ptx_var_t);
  uint32_t lanes = 1;
  var->space = space;
  var->is_extern = is_extern;
  var->line = p->lex.line;
  while (p->lex.kind == PTX_TOKEN_DOT) {
    td_str_t word = td_str_n(p->lex.text.data + 1, p->lex.text.length - 1);
    ptx_type_t type = ptx_type_find(word);
    ptx_lex_next(&p->lex);
    if (td_str_eqc(word, "align")) {
      uint32_t align;
      if (!ptx_take_u32(p, &align)) return false;
      if (align == 0 || (align & (align - 1)) || align > 4096)
        return PTX_FAIL(p, "bad alignment");
      /* .ptr .align speaks of what the parameter points at */
      if (!is_param || var->type == PTX_NO_TYPE) var->align = align;
    } else if (type != PTX_NO_TYPE) {
      var->type = type;
    } else if (td_str_eqc(word, "v2") || td_str_eqc(word, "v4")) {
      lanes = word.data[1] == '2' ? 2 : 4;
    } else if (td_str_eqc(word, "attribute")) {
      if (!ptx_expect(p, '(') || !ptx_skip_past(p, ')', "attribute"))
        return false;
    } else if (!(is_param && (td_str_eqc(word, "ptr") ||
                              td_str_eqc(word, "global") ||
                              td_str_eqc(word, "shared") ||
                              td_str_eqc(word, "const") ||
                              td_str_eqc(word, "local")))) {
      return PTX_FAIL(p, "'.%.*s' is not known in a declaration",
                      (int)(word.length > 60 ? 60 : word.length),
                      word.data);
    }
  }
  td_str_t name;
  if (var->type == PTX_NO_TYPE || ptx_type_row(var->type)->kind ==
                                      PTX_KIND_PRED)
    return PTX_FAIL(p, "a variable needs a type");
  if (!ptx_take_name(p, &name)) return false;
  var->name = td_str_cstr(p->arena, name);
  uint64_t count = lanes;
  bool is_array = false;
  while (ptx_is_punct(&p->lex, '[')) {
    uint64_t extent = 0;
    ptx_lex_next(&p->lex);
    is_array = true;
    if (!ptx_is_punct(&p->lex, ']') && !ptx_take_int(p, &extent))
      return false;
    if (!ptx_expect(p, ']')) return false;
    if (extent > PTX_MAX_BYTES || count > PTX_MAX_BYTES ||
        (extent && count > PTX_MAX_BYTES / extent))
      return PTX_FAIL(p, "'%s' is too large", var->name);
    count *= extent;
  }
  uint32_t size = ptx_type_row(var->type)->bytes;
  if (count > PTX_MAX_BYTES / size)
    return PTX_FAIL(p, "'%s' is too large", var->name);
  var->bytes = count * size;
  if (is_array && count == 0 && !(is_extern || is_param))
    return PTX_FAIL(p, "'%s' has no size", var->name);
  if (var->align < size * (is_array && lanes == 1 ? 1 : lanes))
    var->align = size * lanes;
  ptx_symbol_t *s = ptx_lookup_in(p, name, p->scope);
  if (s && s->kind == PTX_SYMBOL_VAR && p->scope == 0 &&
      ((ptx_var_t *)s->object)->is_extern) {
    s->object = var; /* the definition after a declaration */
  } else {
    s = ptx_define(p, name, PTX_SYMBOL_VAR);
    if (!s) return false;
    s->object = var;
  }
  if (ptx_is_punct(&p->lex, '=')) {
    ptx_lex_next(&p->lex);
    if (space != PTX_SPACE_GLOBAL && space != PTX_SPACE_CONST)
      return PTX_FAIL(p, "'%s' cannot be initialised", var->name);
    if (!initialiser(p, var)) return false;
  }
  *out = var;
  return is_param || ptx_expect(p, ';');
}
