/* PTX at module level: header, names, function heads. */
#include "runtime/simgpu/ptx_parser.h"

static const ptx_type_row_t type_rows[] = {
#define PTX_TYPE(id, text, bytes, kind) {text, bytes, kind},
#include "runtime/simgpu/ptx_types.def"
#undef PTX_TYPE
};

const ptx_type_row_t *ptx_type_row(ptx_type_t type) {
  return &type_rows[type];
}

ptx_type_t ptx_type_find(td_str_t text) {
  for (int i = 1; i < PTX_TYPE_COUNT; i++) {
    if (td_str_eqc(text, type_rows[i].text)) return (ptx_type_t)i;
  }
  return PTX_NO_TYPE;
}

bool ptx_fail(ptx_parser_t *p, int code, const char *format, ...) {
  if (p->error->code) return false;
  td_buf_t buf;
  td_buf_init_fixed(&buf, p->error->text, sizeof p->error->text);
  va_list args;
  va_start(args, format);
  td_buf_vprintf(&buf, format, args);
  va_end(args);
  p->error->code = code;
  p->error->line = p->lex.line;
  return false;
}

bool ptx_expect(ptx_parser_t *p, char punct) {
  if (!ptx_is_punct(&p->lex, punct))
    return PTX_FAIL(p, "expected '%c' and found '%.*s'", punct,
                    (int)(p->lex.text.length > 40 ? 40
                                                  : p->lex.text.length),
                    p->lex.text.data);
  ptx_lex_next(&p->lex);
  return true;
}

bool ptx_take_name(ptx_parser_t *p, td_str_t *out) {
  if (p->lex.kind != PTX_TOKEN_WORD)
    return PTX_FAIL(p, "expected a name");
  *out = p->lex.text;
  ptx_lex_next(&p->lex);
  return true;
}

bool ptx_take_int(ptx_parser_t *p, uint64_t *out) {
  bool is_negative = false;
  while (ptx_is_punct(&p->lex, '-') || ptx_is_punct(&p->lex, '+')) {
    is_negative ^= p->lex.punct == '-';
    ptx_lex_next(&p->lex);
  }
  if (p->lex.kind != PTX_TOKEN_NUMBER)
    return PTX_FAIL(p, "expected an integer");
  *out = is_negative ? 0 - p->lex.value : p->lex.value;
  ptx_lex_next(&p->lex);
  return true;
}

bool ptx_take_u32(ptx_parser_t *p, uint32_t *out) {
  uint64_t value;
  if (!ptx_take_int(p, &value)) return false;
  if (value > UINT32_MAX) return PTX_FAIL(p, "number out of range");
  *out = (uint32_t)value;
  return true;
}

bool ptx_skip_past(ptx_parser_t *p, char close,
                   const char *what) {
  while (!ptx_is_punct(&p->lex, close)) {
    if (p->lex.kind == PTX_TOKEN_END)
      return PTX_FAIL(p, "unfinished %s", what);
    if (p->lex.kind == PTX_TOKEN_BAD)
      return PTX_FAIL(p, "%.*s", TD_STR_ARG(p->lex.text));
    ptx_lex_next(&p->lex);
  }
  ptx_lex_next(&p->lex);
  return true;
}

/* -- names -- */

static uint64_t name_hash(td_str_t name, uint32_t scope) {
  return td_hash_bytes(name.data, name.length,
                       0x9E3779B97F4A7C15u * (scope + 1u));
}

static void rehash(ptx_parser_t *p, size_t count) {
  p->buckets = TD_NEW_ARRAY(p->arena, uint32_t, count);
  p->bucket_count = count;
  for (uint32_t i = 1; i < p->symbols.length; i++) {
    ptx_symbol_t *s = &p->symbols.data[i];
    uint32_t *slot = &p->buckets[s->hash & (count - 1)];
    s->next = *slot;
    *slot = i;
  }
}

ptx_symbol_t *ptx_lookup_in(ptx_parser_t *p, td_str_t name,
                            uint32_t scope) {
  uint64_t hash = name_hash(name, scope);
  uint32_t i = p->buckets[hash & (p->bucket_count - 1)];
  for (; i; i = p->symbols.data[i].next) {
    ptx_symbol_t *s = &p->symbols.data[i];
    if (s->hash == hash && s->scope == scope && td_str_eq(s->name, name))
      return s;
  }
  return NULL;
}

ptx_symbol_t *ptx_lookup(ptx_parser_t *p, td_str_t name) {
  for (uint32_t scope = p->scope;; scope = p->parents.data[scope]) {
    ptx_symbol_t *s = ptx_lookup_in(p, name, scope);
    if (s || scope == 0) return s;
  }
}

ptx_symbol_t *ptx_define(ptx_parser_t *p, td_str_t name,
                         ptx_symbol_kind_t kind) {
  if (ptx_lookup_in(p, name, p->scope)) {
    ptx_fail(p, PTX_INVALID, "'%.*s' is declared twice",
             (int)(name.length > 200 ? 200 : name.length), name.data);
    return NULL;
  }
  if (p->symbols.length >= p->bucket_count)
    rehash(p, p->bucket_count * 2);
  ptx_symbol_t s = {.scope = p->scope, .name = name, .kind = kind,
                    .hash = name_hash(name, p->scope)};
  uint32_t *slot = &p->buckets[s.hash & (p->bucket_count - 1)];
  s.next = *slot;
  *slot = (uint32_t)p->symbols.length;
  td_vec_push(p->arena, &p->symbols, s);
  return &td_vec_last(&p->symbols);
}

/* -- functions -- */

static bool parameters(ptx_parser_t *p, ptx_func_t *func, bool is_result) {
  if (!ptx_expect(p, '(')) return false;
  while (!ptx_is_punct(&p->lex, ')')) {
    if (p->lex.kind != PTX_TOKEN_DOT ||
        !td_str_eqc(p->lex.text, ".param"))
      return PTX_FAIL(p, "only .param parameters are supported");
    ptx_lex_next(&p->lex);
    ptx_var_t *var;
    if (!ptx_variable(p, PTX_SPACE_PARAM, false, true, &var)) return false;
    if (is_result) {
      td_vec_push(p->arena, &func->results, var);
    } else {
      uint64_t at = (func->param_bytes + (uint64_t)var->align - 1) &
                    ~((uint64_t)var->align - 1);
      if (at + var->bytes > 32764)
        return PTX_FAIL(p, "more than 32764 bytes of parameters");
      if (func->is_entry) {
        var->place = at;
        var->is_placed = true;
      }
      func->param_bytes = (uint32_t)(at + var->bytes);
      td_vec_push(p->arena, &func->params, var);
    }
    if (ptx_is_punct(&p->lex, ',')) {
      ptx_lex_next(&p->lex);
    } else if (!ptx_is_punct(&p->lex, ')')) {
      return PTX_FAIL(p, "expected ',' or ')' among the parameters");
    }
  }
  ptx_lex_next(&p->lex);
  return true;
}

static bool up_to_three(ptx_parser_t *p, uint32_t *out) {
  for (int i = 0; i < 3; i++) out[i] = 1;
  for (int i = 0; i < 3; i++) {
    if (!ptx_take_u32(p, &out[i])) return false;
    if (!ptx_is_punct(&p->lex, ',')) break;
    ptx_lex_next(&p->lex);
  }
  return true;
}

/* The directives between a function's head and its body. */
static bool tuning(ptx_parser_t *p, ptx_func_t *func) {
  while (p->lex.kind == PTX_TOKEN_DOT) {
    td_str_t word = p->lex.text;
    uint32_t number;
    ptx_lex_next(&p->lex);
    if (td_str_eqc(word, ".maxntid")) {
      if (!up_to_three(p, func->max_threads)) return false;
    } else if (td_str_eqc(word, ".reqntid")) {
      if (!up_to_three(p, func->required_threads)) return false;
    } else if (td_str_eqc(word, ".reqnctapercluster")) {
      if (!up_to_three(p, func->cluster)) return false;
    } else if (td_str_eqc(word, ".minnctapersm")) {
      if (!ptx_take_u32(p, &func->min_ctas)) return false;
    } else if (td_str_eqc(word, ".maxnreg")) {
      if (!ptx_take_u32(p, &func->max_registers)) return false;
    } else if (td_str_eqc(word, ".maxclusterrank") ||
               td_str_eqc(word, ".maxnctapersm")) {
      if (!ptx_take_u32(p, &number)) return false;
    } else if (td_str_eqc(word, ".explicitcluster")) {
      func->is_cluster_explicit = true;
    } else if (td_str_eqc(word, ".pragma")) {
      while (p->lex.kind == PTX_TOKEN_STRING || ptx_is_punct(&p->lex, ','))
        ptx_lex_next(&p->lex);
      if (!ptx_expect(p, ';')) return false;
    } else if (!td_str_eqc(word, ".noreturn")) {
      return PTX_FAIL(p, "directive '%.*s' is not known here",
                      (int)(word.length > 60 ? 60 : word.length),
                      word.data);
    }
  }
  return true;
}

static bool function(ptx_parser_t *p, bool is_entry) {
  ptx_func_t *func = TD_NEW(p->arena, ptx_func_t);
  td_str_t name;
  func->is_entry = is_entry;
  func->line = p->lex.line;
  /* parameters live in the scope of the body */
  td_vec_push(p->arena, &p->parents, 0);
  p->scope = (uint32_t)p->parents.length - 1;
  if (!is_entry && ptx_is_punct(&p->lex, '(') && !parameters(p, func, true))
    return false;
  if (!ptx_take_name(p, &name)) return false;
  func->name = td_str_cstr(p->arena, name);
  if (ptx_is_punct(&p->lex, '(') && !parameters(p, func, false))
    return false;
  if (!tuning(p, func)) return false;
  uint32_t inner = p->scope;
  p->scope = 0;
  ptx_symbol_t *s = ptx_lookup_in(p, name, 0);
  bool has_body = ptx_is_punct(&p->lex, '{');
  if (s && s->kind == PTX_SYMBOL_FUNC &&
      !((ptx_func_t *)s->object)->is_defined &&
      ((ptx_func_t *)s->object)->is_entry == is_entry) {
    /* calls may point at the declaration already: fill it in place */
    ptx_func_t *declared = s->object;
    if (declared->params.length != func->params.length ||
        declared->results.length != func->results.length)
      return PTX_FAIL(p, "'%s' is declared differently before",
                      func->name);
    *declared = *func;
    func = declared;
  } else {
    s = ptx_define(p, name, PTX_SYMBOL_FUNC);
    if (!s) return false;
    s->object = func;
    td_vec_push(p->arena, &p->module->funcs, func);
  }
  if (!has_body) return ptx_expect(p, ';');
  func->is_defined = true;
  p->func = func;
  p->scope = inner;
  bool ok = ptx_body(p);
  p->scope = 0;
  p->func = NULL;
  return ok;
}

bool ptx_file(ptx_parser_t *p) {
  uint32_t number;
  if (!ptx_take_u32(p, &number)) return false;
  if (p->lex.kind != PTX_TOKEN_STRING)
    return PTX_FAIL(p, ".file needs a name");
  td_map_put_u64(&p->module->files, number,
                 (void *)(uintptr_t)td_str_cstr(p->arena, p->lex.text));
  ptx_lex_next(&p->lex);
  while (ptx_is_punct(&p->lex, ',')) {
    uint64_t unused;
    ptx_lex_next(&p->lex);
    if (!ptx_take_int(p, &unused)) return false;
  }
  return true;
}

/* Debug sections hold data that nobody reads here. */
static bool section(ptx_parser_t *p) {
  return ptx_skip_past(p, '{', ".section") &&
         ptx_skip_past(p, '}', ".section");
}

static bool header(ptx_parser_t *p) {
  ptx_module_t *m = p->module;
  ptx_lex_next(&p->lex);
  if (p->lex.kind != PTX_TOKEN_DOT || !td_str_eqc(p->lex.text, ".version"))
    return PTX_FAIL(p, "PTX starts with .version");
  ptx_lex_next(&p->lex);
  uint32_t major = 0, minor = 0;
  if (!ptx_take_u32(p, &major)) return false;
  /* ".0" reads as a dotted word */
  if (p->lex.kind != PTX_TOKEN_DOT || p->lex.text.length != 2 ||
      p->lex.text.data[1] < '0' || p->lex.text.data[1] > '9')
    return PTX_FAIL(p, "malformed .version");
  minor = (uint32_t)(p->lex.text.data[1] - '0');
  if (major > 99) return PTX_FAIL(p, "malformed .version");
  m->version = major * 10 + minor;
  ptx_lex_next(&p->lex);
  if (m->version > 90)
    return ptx_fail(p, 222, ".version %u.%u is newer than 9.0", major,
                    minor);
  if (p->lex.kind != PTX_TOKEN_DOT || !td_str_eqc(p->lex.text, ".target"))
    return PTX_FAIL(p, ".target must follow .version");
  ptx_lex_next(&p->lex);
  td_str_t target;
  if (!ptx_take_name(p, &target)) return false;
  if (!td_str_starts(target, "sm_"))
    return PTX_FAIL(p, "malformed .target");
  for (size_t i = 3; i < target.length; i++) {
    char c = target.data[i];
    if (c >= '0' && c <= '9' && m->target < 1000) {
      m->target = m->target * 10 + (uint32_t)(c - '0');
    } else if (i + 1 == target.length && (c == 'a' || c == 'f')) {
      m->target_suffix = c;
    } else {
      return PTX_FAIL(p, "malformed .target");
    }
  }
  while (ptx_is_punct(&p->lex, ',')) { /* "debug", texture modes */
    ptx_lex_next(&p->lex);
    if (!ptx_take_name(p, &target)) return false;
  }
  if (p->lex.kind == PTX_TOKEN_DOT &&
      td_str_eqc(p->lex.text, ".address_size")) {
    uint32_t bits;
    ptx_lex_next(&p->lex);
    if (!ptx_take_u32(p, &bits)) return false;
    if (bits != 64) return PTX_FAIL(p, "only 64-bit addresses");
  }
  return true;
}

static bool module_item(ptx_parser_t *p) {
  bool is_extern = false, is_visible = false;
  for (;;) {
    if (p->lex.kind != PTX_TOKEN_DOT)
      return PTX_FAIL(p, "expected a directive and found '%.*s'",
                      (int)(p->lex.text.length > 40 ? 40
                                                    : p->lex.text.length),
                      p->lex.text.data);
    td_str_t word = p->lex.text;
    ptx_space_t space = PTX_SPACE_GENERIC;
    ptx_lex_next(&p->lex);
    if (td_str_eqc(word, ".visible") || td_str_eqc(word, ".weak") ||
        td_str_eqc(word, ".common")) {
      is_visible = true;
      continue;
    }
    if (td_str_eqc(word, ".extern")) {
      is_extern = true;
      continue;
    }
    if (td_str_eqc(word, ".entry")) return function(p, true);
    if (td_str_eqc(word, ".func")) return function(p, false);
    if (td_str_eqc(word, ".file")) return ptx_file(p);
    if (td_str_eqc(word, ".section")) return section(p);
    if (td_str_eqc(word, ".pragma")) {
      while (p->lex.kind == PTX_TOKEN_STRING || ptx_is_punct(&p->lex, ','))
        ptx_lex_next(&p->lex);
      return ptx_expect(p, ';');
    }
    if (td_str_eqc(word, ".global")) space = PTX_SPACE_GLOBAL;
    if (td_str_eqc(word, ".const")) space = PTX_SPACE_CONST;
    if (td_str_eqc(word, ".shared")) space = PTX_SPACE_SHARED;
    if (space == PTX_SPACE_GENERIC)
      return PTX_FAIL(p, "directive '%.*s' is not known",
                      (int)(word.length > 60 ? 60 : word.length),
                      word.data);
    ptx_var_t *var;
    if (!ptx_variable(p, space, is_extern, false, &var)) return false;
    var->is_visible = is_visible;
    td_vec_push(p->arena, &p->module->vars, var);
    return true;
  }
}

ptx_module_t *ptx_parse(td_task_t *task, td_arena_t *arena, td_str_t text,
                        ptx_error_t *error) {
  ptx_parser_t p = {.task = task, .arena = arena, .error = error};
  memset(error, 0, sizeof *error);
  ptx_module_t *m = TD_NEW(arena, ptx_module_t);
  p.module = m;
  m->arena = arena;
  td_map_init(&m->files, arena);
  td_map_init(&m->names, arena);
  td_vec_push(arena, &m->locs, (ptx_loc_t){0, 0});
  td_vec_push(arena, &p.symbols, (ptx_symbol_t){0});
  td_vec_push(arena, &p.parents, 0);
  rehash(&p, 1024);
  ptx_lex_start(&p.lex, text);
  bool ok = header(&p);
  while (ok && p.lex.kind != PTX_TOKEN_END) {
    if (p.lex.kind == PTX_TOKEN_BAD)
      ok = PTX_FAIL(&p, "%.*s", TD_STR_ARG(p.lex.text));
    else
      ok = module_item(&p);
  }
  m->lines = p.lex.line;
  if (!ok) return NULL;
  for (size_t i = 0; i < m->funcs.length; i++) {
    td_map_put(&m->names, td_str(m->funcs.data[i]->name), m->funcs.data[i]);
  }
  return m;
}

ptx_func_t *ptx_find_func(const ptx_module_t *module, td_str_t name) {
  return td_map_get(&module->names, name);
}

ptx_var_t *ptx_find_var(const ptx_module_t *module, td_str_t name) {
  ptx_var_t *found = NULL;
  for (size_t i = 0; i < module->vars.length; i++) {
    if (td_str_eqc(name, module->vars.data[i]->name))
      found = module->vars.data[i];
  }
  return found;
}

const char *ptx_file_name(const ptx_module_t *module, uint32_t loc) {
  if (loc == 0 || loc >= module->locs.length) return "";
  const char *name =
      td_map_get_u64(&module->files, module->locs.data[loc].file);
  return name ? name : "";
}
