#include "runtime/simgpu/match.h"

static const sim_op_t ops[] = {
#define SIM_OP(base, types, need, may, operands, handler, cls, flops, target) \
  {base, types, need, may, operands, SIM_H_##handler, SIM_CLASS_##cls, flops, \
   target},
#include "runtime/simgpu/ptx_ops.def"
#undef SIM_OP
};
#define OP_COUNT (sizeof ops / sizeof *ops)

const sim_op_t *sim_op_at(size_t index) {
  return index < OP_COUNT ? &ops[index] : NULL;
}

bool sim_form_has(const sim_form_t *form, const char *qualifier) {
  for (uint32_t i = 0; i < form->count; i++) {
    if (td_str_eqc(form->qualifiers[i], qualifier)) return true;
  }
  return false;
}

/* "m16n8k16" */
static bool read_shape(td_str_t text, uint32_t shape[3]) {
  static const char letters[] = "mnk";
  uint32_t part = 0, values[3] = {0};
  for (size_t i = 0; i < text.length;) {
    if (part == 3 || text.data[i] != letters[part]) return false;
    size_t start = ++i;
    while (i < text.length && text.data[i] >= '0' && text.data[i] <= '9' &&
           i - start < 4)
      values[part] = values[part] * 10 + (uint32_t)(text.data[i++] - '0');
    if (i == start) return false;
    part++;
  }
  if (part < 2) return false;
  memcpy(shape, values, sizeof values);
  return true;
}

static bool split(td_str_t name, sim_form_t *form) {
  size_t at = 0;
  memset(form, 0, sizeof *form);
  while (at < name.length && name.data[at] != '.') at++;
  form->base = td_str_n(name.data, at);
  while (at < name.length) {
    size_t start = ++at;
    while (at < name.length && name.data[at] != '.') at++;
    td_str_t q = td_str_n(name.data + start, at - start);
    if (q.length == 0 || form->count == SIM_MAX_QUALIFIERS) return false;
    form->qualifiers[form->count++] = q;
    ptx_type_t type = ptx_type_find(q);
    if (type != PTX_NO_TYPE) {
      if (form->type_count == 4) return false;
      form->types[form->type_count++] = type;
    } else if (q.data[0] == 'm' && q.length > 2) {
      read_shape(q, form->shape);
    }
  }
  return true;
}

/* True if the word is one of "a|b|c" (up to `end`). */
static bool among(td_str_t word, const char *list, const char *end,
                  char separator) {
  while (list < end) {
    const char *stop = list;
    while (stop < end && *stop != separator) stop++;
    if ((size_t)(stop - list) == word.length &&
        memcmp(list, word.data, word.length) == 0)
      return true;
    list = stop + (stop < end);
  }
  return false;
}

static bool types_match(const sim_form_t *form, const char *types) {
  uint32_t n = 0;
  if (!*types) return form->type_count == 0;
  while (*types) {
    const char *end = types;
    while (*end && *end != ',') end++;
    if (n == form->type_count ||
        !among(td_str(ptx_type_row(form->types[n])->text), types, end, '|'))
      return false;
    n++;
    types = *end ? end + 1 : end;
  }
  return n == form->type_count;
}

/* Every needed group names exactly one qualifier; all others are allowed. */
static bool qualifiers_match(const sim_form_t *form, const sim_op_t *op) {
  bool used[SIM_MAX_QUALIFIERS] = {false};
  for (const char *p = op->need; *p;) {
    const char *end = p;
    bool found = false;
    while (*end && *end != ' ') end++;
    for (uint32_t i = 0; i < form->count && !found; i++) {
      if (!used[i] && among(form->qualifiers[i], p, end, '|'))
        used[i] = found = true;
    }
    if (!found) return false;
    p = *end ? end + 1 : end;
  }
  const char *may_end = op->may + strlen(op->may);
  for (uint32_t i = 0; i < form->count; i++) {
    if (used[i] || ptx_type_find(form->qualifiers[i]) != PTX_NO_TYPE)
      continue;
    if (!among(form->qualifiers[i], op->may, may_end, ' ')) return false;
    for (uint32_t j = 0; j < i; j++) { /* none twice */
      if (td_str_eq(form->qualifiers[i], form->qualifiers[j])) return false;
    }
  }
  return true;
}

bool sim_match(td_str_t name, sim_form_t *form, char *near_text,
               size_t near_bytes) {
  const sim_op_t *nearest = NULL;
  uint32_t best = 0;
  near_text[0] = 0;
  if (!split(name, form)) return false;
  for (size_t i = 0; i < OP_COUNT; i++) {
    const sim_op_t *op = &ops[i];
    if (!td_str_eqc(form->base, op->base)) continue;
    bool types = types_match(form, op->types);
    bool rest = qualifiers_match(form, op);
    if (types && rest) {
      form->op = op;
      return true;
    }
    uint32_t score = 1u + (types ? 2u : 0u) + (rest ? 1u : 0u);
    if (score > best) {
      best = score;
      nearest = op;
    }
  }
  if (nearest) {
    td_buf_t buf;
    td_buf_init_fixed(&buf, near_text, near_bytes);
    td_buf_printf(&buf, "%s", nearest->base);
    if (*nearest->need) td_buf_printf(&buf, " .{%s}", nearest->need);
    if (*nearest->types) td_buf_printf(&buf, " .{%s}", nearest->types);
  }
  return false;
}
