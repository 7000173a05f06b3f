/* report.c: results as a table, as JSON lines and as a picture. */
#include "bench/matrix/matrix.h"

#include <stdarg.h>
#include <stdio.h>

static const char *unit_of(const row_t *r) {
  switch (r->kind) {
    case OF_FMA: return "GFLOP/s";
    case OF_TIME: return "s";
    case OF_MEMORY: return "MiB";
    default: return "GB/s";
  }
}

static const char *ceiling_of(const row_t *r) {
  static const char *const names[] = {"fma", "read", "copy", "bar", "bar"};
  return names[r->kind];
}

static double in_unit(const row_t *r, double value) {
  switch (r->kind) {
    case OF_TIME: return value;
    case OF_MEMORY: return value / (1 << 20);
    default: return value * 1e-9;
  }
}

/* ---- the table ----------------------------------------------------------- */

static void put(FILE *copy, const char *format, ...) {
  char line[1024];
  va_list args;
  va_start(args, format);
  (void)vsnprintf(line, sizeof line, format, args);
  va_end(args);
  (void)fputs(line, stdout);
  (void)fflush(stdout);
  if (copy == NULL) return;
  (void)fputs(line, copy);
  (void)fflush(copy);
}

void report_begin(FILE *copy, const session_t *s) {
  put(copy, "%d thread%s, at most %d samples\n", s->threads,
      s->threads > 1 ? "s" : "", s->samples);
  for (int p = 0; p < s->peer_count; p++) {
    put(copy, "peer %s: %s\n", s->peers[p].name, s->peers[p].version);
  }
  for (int i = 0; i < SERVER_MOST; i++) {
    const server_t *peer = &s->servers[i];
    if (peer->pid != 0) {
      put(copy, "peer %s: %s\n", peer->name, peer->version);
    } else {
      put(copy, "peer %s: absent (%s); %s\n", peer->name, peer->version,
          peer->install);
    }
  }
  put(copy,
      "ceilings now: fma %.1f GFLOP/s, read %.1f GB/s, copy %.1f GB/s\n\n",
      ceiling_fma(s->threads) * 1e-9, ceiling_stream(s->threads) * 1e-9,
      ceiling_copy(s->threads) * 1e-9);
  put(copy, "%-3s %-30s %8s %-7s %6s %-5s %5s  %-12s %8s %6s  %-11s %s\n",
      "row", "shape", "ours", "unit", "share", "of", "bar", "best peer",
      "peer's", "ratio", "10..90 %", "bar");
}

/* The others, best or not. */
static void put_others(FILE *copy, const result_t *r) {
  if (r->other_count < 2) return;
  put(copy, "      ");
  for (int i = 0; i < r->other_count; i++) {
    put(copy, "%s%s %.1f", i > 0 ? ", " : "", r->others[i],
        in_unit(r->row, r->other_rates[i]));
  }
  put(copy, "\n");
}

void report_row(FILE *copy, const result_t *r) {
  char bar[16] = "-", ratio_bar[16] = "-";
  if (r->is_skipped) {
    put(copy, "%-3s %-30s not measured: no time was left\n", r->row->id,
        r->row->name);
    return;
  }
  if (r->row->least_share > 0) {
    (void)snprintf(bar, sizeof bar, "%2.0f %%", 100 * r->row->least_share);
  }
  if (r->row->least_ratio > 0) {
    (void)snprintf(ratio_bar, sizeof ratio_bar, "%.2f", r->row->least_ratio);
  }
  put(copy, "%-3s %-30s %8.*f %-7s %4.0f %% %-5s %5s  ", r->row->id,
      r->row->name, r->row->kind == OF_TIME ? 3 : 1,
      in_unit(r->row, r->ours), unit_of(r->row), 100 * r->share,
      ceiling_of(r->row), bar);
  if (r->peer != NULL) {
    put(copy, "%-12s %8.1f %6.2f  %4.2f..%4.2f  %s", r->peer,
        in_unit(r->row, r->peer_rate), r->ratio, r->low, r->high, ratio_bar);
  } else {
    put(copy, "%-12s %8s %6s  %-11s %s", "none", "-", "-", "-", ratio_bar);
  }
  put(copy, "  %s\n", r->is_met ? "met" : "MISSED");
  put_others(copy, r);
}

/* ---- a line of JSON each ------------------------------------------------- */

int report_json(const char *path, const result_t *results, int count) {
  FILE *f = fopen(path, "w");
  if (f == NULL) return 0;
  for (int i = 0; i < count; i++) {
    const result_t *r = &results[i];
    if (r->is_skipped) continue;
    (void)fprintf(f,
                  "{\"schema\": 2, \"row\": \"%s\", \"shape\": \"%s\", "
                  "\"threads\": %d, \"samples\": %d, \"unit\": \"%s\", "
                  "\"ours\": %.4g, \"ceiling\": \"%s\", "
                  "\"ceiling_rate\": %.4g, \"share\": %.4f, ",
                  r->row->id, r->row->name, r->threads, r->samples,
                  unit_of(r->row), in_unit(r->row, r->ours),
                  ceiling_of(r->row), in_unit(r->row, r->ceiling), r->share);
    if (r->peer != NULL) {
      (void)fprintf(f,
                    "\"peer\": \"%s\", \"peer_rate\": %.4g, "
                    "\"ratio\": %.4f, \"low\": %.4f, \"high\": %.4f, "
                    "\"peers\": {",
                    r->peer, in_unit(r->row, r->peer_rate), r->ratio, r->low,
                    r->high);
      for (int p = 0; p < r->other_count; p++) {
        (void)fprintf(f, "%s\"%s\": %.4g", p > 0 ? ", " : "", r->others[p],
                      in_unit(r->row, r->other_rates[p]));
      }
      (void)fprintf(f, "}, ");
    }
    (void)fprintf(f, "\"met\": %s}\n", r->is_met ? "true" : "false");
  }
  return fclose(f) == 0;
}

/* ---- the picture --------------------------------------------------------- */

enum { LEFT = 285, WIDTH = 460, LINE = 22, TOP = 54, NAMES = 110 };

static void bar(FILE *f, int y, double share, const char *colour) {
  double w = share > 1.2 ? 1.2 : share;
  (void)fprintf(f, "<rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\" "
                "fill=\"%s\"/>\n",
                LEFT, y, w * WIDTH / 1.2, LINE / 2 - 2, colour);
}

static void head(FILE *f, int height) {
  (void)fprintf(f, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" "
                "height=\"%d\" font-family=\"sans-serif\" "
                "font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" "
                "fill=\"#fff\"/>\n",
                LEFT + WIDTH + NAMES + 60, height);
  (void)fprintf(f, "<text x=\"10\" y=\"20\" font-size=\"15\">share of the "
                "machine's ceiling, same run</text>\n"
                "<rect x=\"10\" y=\"30\" width=\"12\" height=\"9\" "
                "fill=\"#2563a8\"/><text x=\"28\" y=\"39\">tdsl</text>"
                "<rect x=\"80\" y=\"30\" width=\"12\" height=\"9\" "
                "fill=\"#b9bec7\"/><text x=\"98\" y=\"39\">best peer</text>"
                "<rect x=\"185\" y=\"29\" width=\"2\" height=\"11\" "
                "fill=\"#c0392b\"/><text x=\"193\" y=\"39\">bar</text>\n");
}

/* Ours and the peer's share of the ceiling, the bar as a tick, and the name
 * of the peer. */
static void line(FILE *f, const result_t *r, int y) {
  (void)fprintf(f, "<text x=\"10\" y=\"%d\">%s %s</text>\n", y + 12,
                r->row->id, r->row->name);
  bar(f, y, r->share, "#2563a8");
  if (r->peer != NULL) {
    bar(f, y + LINE / 2 - 1, r->peer_rate / r->ceiling, "#b9bec7");
    (void)fprintf(f, "<text x=\"%d\" y=\"%d\" fill=\"#777\">%s</text>\n",
                  LEFT + WIDTH + 62, y + 12, r->peer);
  }
  if (r->row->least_share > 0) {
    (void)fprintf(f, "<rect x=\"%.1f\" y=\"%d\" width=\"2\" height=\"%d\" "
                  "fill=\"#c0392b\"/>\n",
                  LEFT + r->row->least_share * WIDTH / 1.2, y - 1, LINE - 2);
  }
  (void)fprintf(f, "<text x=\"%d\" y=\"%d\" fill=\"%s\">%.0f %%</text>\n",
                LEFT + WIDTH + 15, y + 12, r->is_met ? "#000" : "#c0392b",
                100 * r->share);
}

int report_svg(const char *path, const result_t *results, int count) {
  FILE *f = fopen(path, "w");
  int lines = 0, threads = 0;
  if (f == NULL) return 0;
  for (int i = 0; i < count; i++) {
    if (results[i].is_skipped) continue;
    lines += 1 + (results[i].threads != threads);
    threads = results[i].threads;
  }
  int height = TOP + lines * LINE + 20, y = TOP;
  head(f, height);
  threads = 0;
  for (int i = 0; i < count; i++) {
    const result_t *r = &results[i];
    if (r->is_skipped) continue;
    if (r->threads != threads) {
      threads = r->threads;
      (void)fprintf(f, "<text x=\"10\" y=\"%d\" font-weight=\"bold\">"
                    "%d thread%s</text>\n", y + 14, threads,
                    threads > 1 ? "s" : "");
      y += LINE;
    }
    line(f, r, y);
    y += LINE;
  }
  (void)fprintf(f, "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" "
                "stroke=\"#888\" stroke-dasharray=\"3 3\"/>\n</svg>\n",
                LEFT + WIDTH / 1.2, TOP - 6, LEFT + WIDTH / 1.2, height - 12);
  return fclose(f) == 0;
}
