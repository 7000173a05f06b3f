/* plan_parse.c: a plan from its text; see plan_parse.h. */
#include "runtime/plan/plan_parse.h"

/* Bytes in hexadecimal, in words that begin with an x. */
static void parse_data(plan_parser_t *p, plan_module_t *m) {
  plan_expect(p, "{");
  /* two digits a byte: the text left bounds what may be claimed */
  size_t left = p->text.length - p->at;
  if (!p->failed && m->bytes > left / 2) {
    plan_fail(p, "module %s claims more bytes than the text has", m->name);
    return;
  }
  unsigned char *data = td_arena_alloc(p->arena, m->bytes + 1);
  size_t filled = 0;
  while (p->lexeme == PLAN_T_WORD) {
    td_str_t w = p->word;
    bool ok = w.length % 2 == 1 && w.data[0] == 'x';
    for (size_t i = 1; ok && i < w.length; i += 2) {
      int pair = 0;
      for (size_t k = i; k < i + 2; k++) {
        char c = w.data[k];
        bool is_digit = c >= '0' && c <= '9';
        ok &= is_digit || (c >= 'a' && c <= 'f');
        pair = pair * 16 + (is_digit ? c - '0' : c - 'a' + 10);
      }
      ok = ok && filled < m->bytes;
      if (ok) data[filled++] = (unsigned char)pair;
    }
    if (!ok) {
      plan_fail(p, "malformed data of module %s", m->name);
      return;
    }
    plan_next(p);
  }
  plan_expect(p, "}");
  if (!p->failed && filled != m->bytes) {
    plan_fail(p, "module %s has %zu bytes, not %zu", m->name, filled,
              m->bytes);
  }
  m->data = data;
}

/* "x" and 16 digits, as printed. */
static bool read_hash(td_str_t word, uint64_t *out) {
  if (word.length != 17 || word.data[0] != 'x') return false;
  *out = 0;
  for (size_t i = 1; i < word.length; i++) {
    char c = word.data[i];
    bool is_digit = c >= '0' && c <= '9';
    if (!is_digit && (c < 'a' || c > 'f')) return false;
    *out = *out << 4 | (uint64_t)(is_digit ? c - '0' : c - 'a' + 10);
  }
  return true;
}

static plan_module_t parse_module(plan_parser_t *p) {
  plan_module_t m = {.name = plan_expect_string(p)};
  if (plan_take(p, "kir")) {
    m.payload = PLAN_PAYLOAD_KIR;
  } else if (plan_take(p, "cuda")) {
    m.payload = PLAN_PAYLOAD_CUDA;
  } else {
    plan_expect(p, "object");
  }
  m.target = plan_expect_string(p);
  if (*m.target == '\0') m.target = NULL;
  plan_expect(p, "bytes");
  int64_t bytes = plan_expect_int(p);
  if (bytes < 0) plan_fail(p, "negative size");
  m.bytes = (size_t)bytes;
  plan_expect(p, "hash");
  td_str_t hash = p->word;
  plan_next(p);
  if (!plan_take(p, "data")) {
    if (!read_hash(hash, &m.hash)) {
      plan_fail(p, "module %s has no hash of 16 hexadecimal digits", m.name);
    }
    return m;
  }
  parse_data(p, &m);
  if (p->failed) return m;
  char storage[32];
  td_buf_t text;
  td_buf_init_fixed(&text, storage, sizeof storage);
  td_buf_printf(&text, "x%016llx",
                (unsigned long long)plan_payload_hash(m.data, m.bytes));
  if (!td_str_eq(hash, td_buf_view(&text))) {
    plan_fail(p, "data of module %s has hash %s", m.name, storage);
  }
  return m;
}

static plan_kernel_t parse_kernel(plan_parser_t *p) {
  TD_VEC(bool) reads = {0}, writes = {0};
  plan_kernel_t k = {.name = plan_expect_string(p)};
  plan_expect(p, "module");
  k.module = plan_expect_index(p);
  plan_expect(p, "symbol");
  k.symbol = plan_expect_string(p);
  k.loc = plan_parse_loc(p);
  plan_expect(p, "{");
  while (plan_take(p, "param")) {
    td_vec_push(p->arena, &reads, plan_take(p, "read"));
    td_vec_push(p->arena, &writes, plan_take(p, "write"));
  }
  k.buffer_count = (uint32_t)reads.length;
  k.is_read = reads.data;
  k.is_written = writes.data;
  plan_expect(p, "scalars");
  k.scalar_count = plan_expect_index(p);
  plan_expect(p, "blocks");
  k.block_count = plan_parse_expr(p);
  plan_expect(p, "scratch");
  k.scratch_bytes = plan_parse_expr(p);
  plan_expect(p, "reads");
  k.ledger.read_bytes = plan_parse_expr(p);
  plan_expect(p, "writes");
  k.ledger.written_bytes = plan_parse_expr(p);
  plan_expect(p, "flops");
  k.ledger.flops = plan_parse_expr(p);
  if (plan_take(p, "threads")) {
    k.threads = plan_expect_index(p);
    plan_expect(p, "workers");
    k.workers = plan_expect_index(p);
    if (plan_take(p, "shared")) k.shared_bytes = plan_expect_index(p);
  }
  plan_expect(p, "card");
  k.card = plan_expect_string(p);
  plan_expect(p, "}");
  return k;
}

static void parse_plan(plan_parser_t *p) {
  TD_VEC(const char *) files = {0};
  TD_VEC(plan_module_t) modules = {0};
  TD_VEC(plan_kernel_t) kernels = {0};
  TD_VEC(plan_entry_t) entries = {0};
  plan_t *plan = p->plan;
  plan_expect(p, "plan");
  int64_t version = plan_expect_int(p);
  if (!p->failed && version != 1) {
    plan_fail(p, "version %lld of the form is not read here",
              (long long)version);
  }
  plan_expect(p, "target");
  plan->target = plan_expect_string(p);
  while (plan_take(p, "file")) {
    td_vec_push(p->arena, &files, plan_expect_string(p));
  }
  while (plan_take(p, "module")) {
    td_vec_push(p->arena, &modules, parse_module(p));
  }
  while (plan_take(p, "kernel")) {
    td_vec_push(p->arena, &kernels, parse_kernel(p));
  }
  while (plan_take(p, "entry")) {
    plan_entry_t e = {0};
    plan_parse_entry(p, &e);
    td_vec_push(p->arena, &entries, e);
  }
  if (!p->failed && p->lexeme != PLAN_T_END) {
    plan_fail(p, "expected an entry, got `%.*s`", TD_STR_ARG(p->word));
  }
  plan->files = files.data;
  plan->file_count = (uint32_t)files.length;
  plan->modules = modules.data;
  plan->module_count = (uint32_t)modules.length;
  plan->kernels = kernels.data;
  plan->kernel_count = (uint32_t)kernels.length;
  plan->entries = entries.data;
  plan->entry_count = (uint32_t)entries.length;
}

plan_t *plan_parse(td_task_t *task, td_arena_t *arena, uint32_t file) {
  const td_source_t *source = td_sources_get(task, file);
  if (source == NULL || source->text == NULL) {
    td_diag(task, TD_F70, TD_NO_LOC, "no text to parse");
    return NULL;
  }
  plan_parser_t p = {.task = task, .arena = arena, .file = file,
                     .line = 1, .column = 1};
  p.text = td_str_n(source->text, source->length);
  p.plan = TD_NEW(arena, plan_t);
  p.plan->arena = arena;
  plan_next(&p);
  parse_plan(&p);
  return p.failed ? NULL : p.plan;
}
