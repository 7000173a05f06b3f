/* cuda_prelude.c: the device helpers of stdlib/cuda, by name. */
#include "codegen/cuda/cuda_impl.h"
#include "codegen/cuda/prelude.h"

static const char *const names[CGC_HELPER_COUNT] = {
#define CGC_HELPER(id, name) [CGC_##id] = name,
#include "codegen/cuda/prelude.def"
};

static const char mark[] = "//: ";

/* Text of a helper from behind its mark line, and that line's rest. */
typedef struct piece {
  td_str_t needs, text;
} piece_t;

static const char *line_end(const char *at, const char *end) {
  while (at < end && *at != '\n') at++;
  return at;
}

/* Marks stand at the beginning of a line. */
static const char *next_mark(const char *at, const char *end) {
  size_t n = sizeof mark - 1;
  while (at < end) {
    if ((size_t)(end - at) >= n && memcmp(at, mark, n) == 0) return at;
    at = line_end(at, end);
    if (at < end) at++;
  }
  return end;
}

static bool find_in(const char *at, const char *end, const char *name,
                    piece_t *out) {
  size_t n = strlen(name);
  for (at = next_mark(at, end); at < end;) {
    const char *words = at + sizeof mark - 1, *eol = line_end(at, end);
    const char *text = eol < end ? eol + 1 : end;
    const char *stop = next_mark(text, end);
    if ((size_t)(eol - words) >= n && memcmp(words, name, n) == 0 &&
        (words + n == eol || words[n] == ' ')) {
      out->needs = td_str_n(words + n, (size_t)(eol - words) - n);
      out->text = td_str_n(text, (size_t)(stop - text));
      return true;
    }
    at = stop;
  }
  return false;
}

static bool find_piece(const char *name, piece_t *out) {
  for (size_t i = 0; i < cgc_prelude_file_count; i++) {
    const char *data = (const char *)cgc_prelude_files[i].data;
    if (find_in(data, data + cgc_prelude_files[i].length, name, out)) {
      return true;
    }
  }
  return false;
}

const char *cgc_call(cgc_t *g, cgc_helper_t helper) {
  g->uses[helper] = true;
  return names[helper];
}

static bool is_word(td_str_t words, const char *name) {
  size_t n = strlen(name);
  for (size_t i = 0; i + n <= words.length; i++) {
    bool starts = i == 0 || words.data[i - 1] == ' ';
    bool ends = i + n == words.length || words.data[i + n] == ' ';
    if (starts && ends && memcmp(words.data + i, name, n) == 0) return true;
  }
  return false;
}

/* Needs are spelled out in full on each mark line, and a helper stands behind
 * what it needs in its file, so that one pass in table order is enough. */
void cgc_put_helpers(const cgc_t *g, td_buf_t *out) {
  bool wanted[CGC_HELPER_COUNT];
  memcpy(wanted, g->uses, sizeof wanted);
  for (int round = 0; round < 4; round++) {
    for (int h = 0; h < CGC_HELPER_COUNT; h++) {
      piece_t p;
      if (!wanted[h] || !find_piece(names[h], &p)) continue;
      for (int n = 0; n < CGC_HELPER_COUNT; n++) {
        wanted[n] |= is_word(p.needs, names[n]);
      }
    }
  }
  for (int h = 0; h < CGC_HELPER_COUNT; h++) {
    piece_t p;
    if (!wanted[h]) continue;
    if (!find_piece(names[h], &p)) {
      TD_ICE(g->task, "stdlib/cuda has no helper %s", names[h]);
    }
    td_buf_str(out, p.text);
  }
}
