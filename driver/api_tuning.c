/* api_tuning.c: see api_tuning.h.
 *
 *   tdsl tuning 1
 *   sm_90a 07b3...a4 mc 32 nc 32 kc 0 stages 3 splits off gain 1204 k00_mm_c
 *   x86-64-v4 9f0c...e1 mr 9 nr 48 mc 162 nc 240 kc 256 gain 1083 k00_mm_c
 *   digest 5d1c...07
 *
 * The last line is a digest of all before it.  A file is taken whole or not
 * at all: W07 says why not. */
#include "driver/api_tuning.h"

#include "runtime/hal/cache.h"

enum { KEY_DIGITS = 32, MOST_SIZE = 1 << 20 };
static const char head[] = "tdsl tuning 1\n";
/* What makes the text of a kernel; sizes are judged by kernels, so that a
 * change there makes old rows miss. */
static const char keyed_by[] = "tuning 1";

/* By pass_sizes_t.splits. */
static const char *const split_names[] = {"rule", "pays", "all", "off"};
enum { SPLIT_NAMES = sizeof split_names / sizeof split_names[0] };

const char *drv_splits_name(uint32_t splits) {
  return split_names[splits < SPLIT_NAMES ? splits : 0];
}

/* Zeros leave the choice to the passes. */
static bool fits_gpu(const pass_sizes_t *s) {
  pass_sizes_t of = {0};
  uint32_t i = 0;
  while (s->mc + s->nc > 0 && (of.mc != s->mc || of.nc != s->nc)) {
    if (!pass_product_tile(i++, &of)) return false;
  }
  return s->mr == 0 && s->nr == 0 && (s->kc == 0 || s->kc == 16 ||
                                      s->kc == 32) &&
         (s->stages == 0 || (s->stages >= 2 && s->stages <= 4)) &&
         s->splits < SPLIT_NAMES;
}

bool drv_sizes_fit(const ir_target_t *t, const pass_sizes_t *s) {
  if (t->sm > 0) return fits_gpu(s);
  if (t->lanes == 0 || s->mr == 0 || s->nr == 0) return false;
  if (s->mr > 64 || s->nr > 64 * t->lanes || s->nr % t->lanes != 0) {
    return false;
  }
  uint32_t wide = s->nr / t->lanes;
  return s->mr * wide + wide + 1 <= t->registers && s->mc >= s->mr &&
         s->mc <= MOST_SIZE && s->nc >= s->nr && s->nc <= MOST_SIZE &&
         s->nc % s->nr == 0 && s->kc >= 16 && s->kc <= MOST_SIZE &&
         s->kc % 16 == 0;
}

static td_str_t digest_of(td_arena_t *arena, td_str_t text) {
  return td_str_n(hal_cache_digest(arena, text).data, KEY_DIGITS);
}

static bool is_same(const drv_tuned_t *a, cg_key_t key, const char *target) {
  return a->key.high == key.high && a->key.low == key.low &&
         strcmp(a->target, target) == 0;
}

/* ---- reading ------------------------------------------------------------- */

typedef struct reader {
  td_task_t *task;
  td_arena_t *arena;
  const char *name;
  td_str_t rest;
  uint32_t line;
} reader_t;

static bool refuse(const reader_t *r, const char *why) {
  td_diag_t *d = td_diag(r->task, TD_W07, TD_NO_LOC,
                         "%s is not used: %s", r->name, why);
  if (r->line > 0) td_diag_note(d, "line %u", r->line);
  td_diag_help(d, "`tdslc bench FILE --tune` writes it anew once it is gone");
  return false;
}

/* The next word of the line; empty at its end. */
static td_str_t word(td_str_t *line) {
  size_t n = 0;
  while (line->length > 0 && line->data[0] == ' ') {
    line->data++;
    line->length--;
  }
  while (n < line->length && line->data[n] != ' ') n++;
  td_str_t w = td_str_n(line->data, n);
  line->data += n;
  line->length -= n;
  return w;
}

static bool number(td_str_t *line, const char *name, uint32_t *out) {
  int64_t value = 0;
  if (!td_str_eqc(word(line), name) || !td_parse_i64(word(line), &value) ||
      value < 0 || value > MOST_SIZE) {
    return false;
  }
  *out = (uint32_t)value;
  return true;
}

static bool read_splits(td_str_t *line, uint32_t *out) {
  if (!td_str_eqc(word(line), "splits")) return false;
  td_str_t name = word(line);
  for (*out = 0; *out < SPLIT_NAMES; ++*out) {
    if (td_str_eqc(name, split_names[*out])) return true;
  }
  return false;
}

static bool read_sizes(td_str_t *line, bool is_gpu, pass_sizes_t *out) {
  if (!is_gpu && (!number(line, "mr", &out->mr) ||
                  !number(line, "nr", &out->nr))) {
    return false;
  }
  return number(line, "mc", &out->mc) && number(line, "nc", &out->nc) &&
         number(line, "kc", &out->kc) &&
         (!is_gpu || (number(line, "stages", &out->stages) &&
                      read_splits(line, &out->splits)));
}

static bool read_key(td_str_t w, cg_key_t *out) {
  uint64_t half[2] = {0};
  if (w.length != KEY_DIGITS) return false;
  for (size_t i = 0; i < KEY_DIGITS; i++) {
    const char *digits = "0123456789abcdef";
    const char *at = memchr(digits, w.data[i], 16);
    if (at == NULL) return false;
    half[i / 16] = half[i / 16] << 4 | (uint64_t)(at - digits);
  }
  *out = (cg_key_t){half[0], half[1]};
  return true;
}

static bool read_row(reader_t *r, td_str_t line, drv_tuned_t *out) {
  *out = (drv_tuned_t){.target = td_str_cstr(r->arena, word(&line))};
  const ir_target_t *target = ir_target_find(td_str(out->target));
  if (target == NULL) return refuse(r, "it has a machine that is not known");
  bool ok = read_key(word(&line), &out->key) &&
            read_sizes(&line, target->sm > 0, &out->sizes) &&
            number(&line, "gain", &out->gain);
  td_str_t kernel = word(&line);
  out->kernel = td_str_cstr(r->arena, kernel);
  if (!ok || kernel.length == 0 || line.length > 0) {
    return refuse(r, "a row is malformed");
  }
  if (!drv_sizes_fit(target, &out->sizes)) {
    return refuse(r, "its sizes do not fit the machine");
  }
  return true;
}

static bool take_line(reader_t *r, td_str_t *out) {
  const char *end = memchr(r->rest.data, '\n', r->rest.length);
  if (end == NULL) return false;
  *out = td_str_n(r->rest.data, (size_t)(end - r->rest.data));
  r->rest.data += out->length + 1;
  r->rest.length -= out->length + 1;
  r->line++;
  return true;
}

bool drv_tuning_read(td_task_t *task, td_arena_t *arena, const char *name,
                     td_str_t text, drv_tuned_list_t *out) {
  reader_t r = {.task = task, .arena = arena, .name = name, .rest = text};
  td_str_t line;
  *out = (drv_tuned_list_t){0};
  if (!td_str_starts(text, "tdsl tuning ")) {
    return refuse(&r, "it is no tuning file");
  }
  if (!td_str_starts(text, head)) {
    return refuse(&r, "it is of another version");
  }
  /* the last line, and what it is the digest of */
  size_t body = text.length;
  while (body > 0 && text.data[body - 1] == '\n') body--;
  while (body > 0 && text.data[body - 1] != '\n') body--;
  td_str_t digest = digest_of(arena, td_str_n(text.data, body));
  td_str_t last = td_str_n(text.data + body, text.length - body);
  if (last.length != digest.length + 8 ||
      !td_str_starts(last, "digest ") ||
      memcmp(last.data + 7, digest.data, digest.length) != 0 ||
      last.data[last.length - 1] != '\n') {
    return refuse(&r, "it is damaged, or was edited");
  }
  r.rest.length = body;
  (void)take_line(&r, &line);
  while (take_line(&r, &line)) {
    drv_tuned_t row;
    if (!read_row(&r, line, &row)) {
      *out = (drv_tuned_list_t){0};
      return false;
    }
    td_vec_push(arena, out, row);
  }
  return true;
}

/* ---- writing ------------------------------------------------------------- */

static int by_key(const drv_tuned_t *a, const drv_tuned_t *b) {
  int order = strcmp(a->target, b->target);
  if (order != 0) return order;
  if (a->key.high != b->key.high) return a->key.high < b->key.high ? -1 : 1;
  if (a->key.low != b->key.low) return a->key.low < b->key.low ? -1 : 1;
  return 0;
}

/* By insertion: a file has some tens of rows. */
void drv_tuning_print(td_buf_t *out, td_arena_t *arena,
                      const drv_tuned_list_t *rows) {
  drv_tuned_t *sorted = TD_NEW_ARRAY(arena, drv_tuned_t, rows->length + 1);
  size_t n = 0;
  for (size_t i = 0; i < rows->length; i++) {
    const drv_tuned_t *row = &rows->data[i];
    size_t at = n;
    while (at > 0 && by_key(&sorted[at - 1], row) > 0) at--;
    if (at > 0 && by_key(&sorted[at - 1], row) == 0) {
      sorted[at - 1] = *row;
      continue;
    }
    memmove(&sorted[at + 1], &sorted[at], (n - at) * sizeof *sorted);
    sorted[at] = *row;
    n++;
  }
  size_t start = out->length;
  td_buf_puts(out, head);
  for (size_t i = 0; i < n; i++) {
    const drv_tuned_t *row = &sorted[i];
    char key[33];
    cg_key_text(row->key, key);
    const pass_sizes_t *s = &row->sizes;
    const ir_target_t *target = ir_target_find(td_str(row->target));
    td_buf_printf(out, "%s %s", row->target, key);
    bool is_gpu = target != NULL && target->sm > 0;
    if (!is_gpu) td_buf_printf(out, " mr %u nr %u", s->mr, s->nr);
    td_buf_printf(out, " mc %u nc %u kc %u", s->mc, s->nc, s->kc);
    if (is_gpu) {
      td_buf_printf(out, " stages %u splits %s", s->stages,
                    drv_splits_name(s->splits));
    }
    td_buf_printf(out, " gain %u %s\n", row->gain, row->kernel);
  }
  td_str_t text = td_str_n(out->data + start, out->length - start);
  td_str_t digest = digest_of(arena, text);
  td_buf_printf(out, "digest %.*s\n", TD_STR_ARG(digest));
}

/* ---- a compilation ------------------------------------------------------- */

/* Of the text without the name, which says where in a program it is. */
static cg_key_t key_of(const drv_tuning_t *t, const kir_kernel_t *kernel) {
  kir_kernel_t plain = *kernel;
  td_buf_t text;
  plain.name = "k";
  td_buf_init(&text, t->task);
  kir_print(&text, &plain);
  cg_key_t key =
      cg_kernel_key(td_buf_view(&text), t->target->name, keyed_by);
  td_buf_free(&text);
  return key;
}

void drv_tuning_sizes(void *user, const kir_kernel_t *kernel,
                      uint32_t number_of, pass_sizes_t *out) {
  drv_tuning_t *t = user;
  cg_key_t key = key_of(t, kernel);
  td_vec_push(t->arena, &t->keys, key);
  td_vec_push(t->arena, &t->firsts, number_of);
  for (size_t i = 0; i < t->rows.length; i++) {
    if (is_same(&t->rows.data[i], key, t->target->name)) {
      *out = t->rows.data[i].sizes;
    }
  }
}
