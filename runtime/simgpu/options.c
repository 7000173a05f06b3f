#include "runtime/simgpu/options.h"

#include "runtime/base/env.h"
#include "runtime/simgpu/decode.h"

/* Decimal; false if it is none. */
static bool read_number(td_str_t text, uint64_t *out) {
  uint64_t v = 0;
  if (text.length == 0 || text.length > 19) return false;
  for (size_t i = 0; i < text.length; i++) {
    if (text.data[i] < '0' || text.data[i] > '9') return false;
    v = v * 10 + (uint64_t)(text.data[i] - '0');
  }
  *out = v;
  return true;
}

static const struct {
  const char *name;
  uint32_t bits;
} families[] = {{"mem", SIM_CHECK_MEM},   {"init", SIM_CHECK_INIT},
                {"race", SIM_CHECK_RACE}, {"bar", SIM_CHECK_BAR},
                {"warp", SIM_CHECK_WARP}, {"async", SIM_CHECK_ASYNC},
                {"num", SIM_CHECK_NUM},   {"leak", SIM_CHECK_LEAK},
                {"order", SIM_CHECK_ORDER},
                {"launch", SIM_CHECK_LAUNCH},
                {"coll", SIM_CHECK_COLL},
                {"note", SIM_CHECK_NOTE},
                {"all", SIM_CHECK_ALL},   {"none", 0}};

/* "mem+race", "all", "none", "warn" */
static bool read_checks(sim_options_t *o, td_str_t text) {
  uint32_t bits = 0;
  bool is_warning = false, any = false;
  size_t at = 0;
  while (at <= text.length) {
    size_t start = at;
    bool found = false;
    while (at < text.length && text.data[at] != '+' && text.data[at] != ',')
      at++;
    td_str_t word = td_str_n(text.data + start, at - start);
    at++;
    if (td_str_eqc(word, "warn")) {
      is_warning = true;
      continue;
    }
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
      if (!td_str_eqc(word, families[i].name)) continue;
      bits |= families[i].bits;
      found = any = true;
    }
    if (!found) return false;
  }
  o->checks = any ? bits : SIM_CHECK_ALL;
  o->is_warning = is_warning;
  return true;
}

/* "all", or some of first, last and random:N joined by + */
static bool read_sample(sim_options_t *o, td_str_t text) {
  bool first = false, last = false;
  uint64_t random = 0;
  for (size_t at = 0; at < text.length;) {
    size_t start = at;
    while (at < text.length && text.data[at] != '+') at++;
    td_str_t word = td_str_n(text.data + start, at - start);
    at++;
    if (td_str_eqc(word, "first")) first = true;
    else if (td_str_eqc(word, "last")) last = true;
    else if (td_str_starts(word, "random:") &&
             read_number(td_str_n(word.data + 7, word.length - 7), &random) &&
             random <= SIM_MAX_SAMPLE) {}
    else if (td_str_eqc(word, "all") && word.length == text.length) {}
    else return false;
  }
  o->samples_first = first;
  o->samples_last = last;
  o->samples_random = (uint32_t)random;
  return true;
}

/* FUNCTION@N=CODE */
static bool read_failure(sim_options_t *o, td_str_t text) {
  size_t at = 0, eq = 0;
  uint64_t n, code;
  while (at < text.length && text.data[at] != '@') at++;
  eq = at;
  while (eq < text.length && text.data[eq] != '=') eq++;
  if (at == 0 || at >= sizeof o->fail || eq >= text.length ||
      !read_number(td_str_n(text.data + at + 1, eq - at - 1), &n) ||
      !read_number(td_str_n(text.data + eq + 1, text.length - eq - 1),
                   &code))
    return false;
  memcpy(o->fail, text.data, at);
  o->fail[at] = 0;
  o->fail_call = n;
  o->fail_code = (int)code;
  return true;
}

bool sim_options_set(sim_options_t *o, td_str_t item) {
  size_t at = 0;
  uint64_t n = 0;
  while (at < item.length && item.data[at] != ':') at++;
  td_str_t key = td_str_n(item.data, at);
  td_str_t value = at < item.length
                       ? td_str_n(item.data + at + 1, item.length - at - 1)
                       : td_str("");
  bool is_number = read_number(value, &n);
  if (td_str_eqc(key, "order")) {
    if (td_str_eqc(value, "rr")) o->order = SIM_ORDER_RR;
    else if (td_str_eqc(value, "reverse")) o->order = SIM_ORDER_REVERSE;
    else if (td_str_eqc(value, "random")) o->order = SIM_ORDER_RANDOM;
    else return false;
    return true;
  }
  if (td_str_eqc(key, "diverge")) {
    if (td_str_eqc(value, "stack")) o->diverge = SIM_DIVERGE_STACK;
    else if (td_str_eqc(value, "its")) o->diverge = SIM_DIVERGE_ITS;
    else return false;
    return true;
  }
  if (td_str_eqc(key, "async")) {
    if (td_str_eqc(value, "late")) o->async = SIM_ASYNC_LATE;
    else if (td_str_eqc(value, "immediate")) o->async = SIM_ASYNC_IMMEDIATE;
    else if (td_str_eqc(value, "random")) o->async = SIM_ASYNC_RANDOM;
    else return false;
    return true;
  }
  if (td_str_eqc(key, "streams")) {
    if (td_str_eqc(value, "issue")) o->streams = SIM_STREAMS_ISSUE;
    else if (td_str_eqc(value, "random")) o->streams = SIM_STREAMS_RANDOM;
    else return false;
    return true;
  }
  if (td_str_eqc(key, "arith")) {
    if (td_str_eqc(value, "exact")) o->arith = SIM_ARITH_EXACT;
    else if (td_str_eqc(value, "hw")) o->arith = SIM_ARITH_HW;
    else if (td_str_eqc(value, "perturbed")) o->arith = SIM_ARITH_PERTURBED;
    else return false;
    return true;
  }
  if (td_str_eqc(key, "reduce")) {
    if (td_str_eqc(value, "rank")) o->reduce = SIM_REDUCE_RANK;
    else if (td_str_eqc(value, "ring")) o->reduce = SIM_REDUCE_RING;
    else if (td_str_eqc(value, "random")) o->reduce = SIM_REDUCE_RANDOM;
    else return false;
    return true;
  }
  if (td_str_eqc(key, "count")) {
    if (td_str_eqc(value, "full")) o->count = SIM_COUNT_FULL;
    else if (td_str_eqc(value, "basic")) o->count = SIM_COUNT_BASIC;
    else if (td_str_eqc(value, "off")) o->count = SIM_COUNT_OFF;
    else return false;
    return true;
  }
  if (td_str_eqc(key, "l2")) {
    if (!td_str_eqc(value, "wave") && !td_str_eqc(value, "off")) return false;
    o->no_l2 = td_str_eqc(value, "off");
    return true;
  }
  if (td_str_eqc(key, "lines")) {
    if (!td_str_eqc(value, "on") && !td_str_eqc(value, "off")) return false;
    o->has_lines = td_str_eqc(value, "on");
    return true;
  }
  if (td_str_eqc(key, "poison")) {
    o->poison_is_random = td_str_eqc(value, "random");
    if (td_str_eqc(value, "ff") || o->poison_is_random) o->poison = 0xFF;
    else if (td_str_eqc(value, "00")) o->poison = 0;
    else return false;
    return true;
  }
  if (td_str_eqc(key, "ctas")) return read_sample(o, value);
  if (td_str_eqc(key, "check")) return read_checks(o, value);
  if (td_str_eqc(key, "fail")) return read_failure(o, value);
  if (td_str_eqc(key, "report")) {
    if (value.length >= sizeof o->report) return false;
    memcpy(o->report, value.data, value.length);
    o->report[value.length] = 0;
    return true;
  }
  if (td_str_eqc(key, "host") && value.length == 2 && value.data[0] == 'v') {
    uint32_t level = (uint32_t)(value.data[1] - '0');
    if (!sim_variant_exists(level)) return false;
    o->host = level;
    return true;
  }
  if (!is_number) return false;
  if (td_str_eqc(key, "seed")) o->seed = n;
  else if (td_str_eqc(key, "preempt") && n <= UINT32_MAX)
    o->preempt = (uint32_t)n;
  else if (td_str_eqc(key, "threads") && n <= UINT32_MAX)
    o->threads = (uint32_t)n;
  else if (td_str_eqc(key, "mem")) o->memory = n;
  else if (td_str_eqc(key, "budget")) o->budget = n;
  else if (td_str_eqc(key, "deadline")) o->deadline = n;
  else return false;
  return true;
}

void sim_options_mode(td_buf_t *out, const sim_options_t *o) {
  static const char *const orders[] = {"rr", "reverse", "random"};
  static const char *const moments[] = {"late", "immediate", "random"};
  td_buf_printf(out, "async:%s,order:%s,diverge:%s", moments[o->async],
                orders[o->order],
                o->diverge == SIM_DIVERGE_ITS ? "its" : "stack");
  if (o->preempt) td_buf_printf(out, ",preempt:%u", o->preempt);
}

/* The first one is kept. */
static void not_known(sim_options_t *o, td_env_id_t id, td_str_t word) {
  td_buf_t buf;
  if (o->unknown[0]) return;
  td_buf_init_fixed(&buf, o->unknown, sizeof o->unknown);
  td_buf_printf(&buf, "%s: %.*s", td_env_row(id)->name, TD_STR_ARG(word));
}

void sim_options_read(sim_options_t *o) {
  memset(o, 0, sizeof *o);
  o->checks = SIM_CHECK_ALL;
  o->poison = 0xFF;
  o->deadline = 60000;
  o->seed = (uint64_t)td_env_int(TD_ENV_SIM_SEED);
  const char *seed = td_env_set(TD_ENV_SIM_SEED);
  uint64_t value;
  if (seed && !read_number(td_str(seed + (*seed == '-')), &value))
    not_known(o, TD_ENV_SIM_SEED, td_str(seed));
  const char *check = td_env_set(TD_ENV_SIM_CHECK);
  if (check && !read_checks(o, td_str(check)))
    not_known(o, TD_ENV_SIM_CHECK, td_str(check));
  const char *report = td_env_set(TD_ENV_SIM_REPORT);
  if (report && strlen(report) < sizeof o->report)
    memcpy(o->report, report, strlen(report) + 1);
  else if (report)
    not_known(o, TD_ENV_SIM_REPORT, td_str(report));
  const char *mode = td_env_set(TD_ENV_SIM_MODE);
  for (const char *p = mode ? mode : ""; *p;) {
    const char *end = p;
    while (*end && *end != ',') end++;
    td_str_t item = td_str_n(p, (size_t)(end - p));
    if (!sim_options_set(o, item)) not_known(o, TD_ENV_SIM_MODE, item);
    p = *end ? end + 1 : end;
  }
}

void sim_poison_fill(const sim_options_t *o, void *to, size_t bytes,
                     uint64_t key) {
  if (!o || !o->poison_is_random) {
    memset(to, o ? o->poison : 0xFF, bytes);
    return;
  }
  uint64_t state = key * UINT64_C(0x9E3779B97F4A7C15) + o->seed;
  uint8_t *p = to;
  for (size_t at = 0; at < bytes; at += 8) {
    uint64_t z = state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    z ^= z >> 31;
    memcpy(p + at, &z, bytes - at < 8 ? bytes - at : 8);
  }
}
