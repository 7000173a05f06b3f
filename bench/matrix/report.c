/* report.c: results as a table, as JSON lines and as a picture. */
#include "bench/matrix/matrix.h"

#include <stdio.h>

static const char *unit_of(const row_t *r) {
  return r->kind == OF_FMA ? "GFLOP/s" : "GB/s";
}

static const char *ceiling_of(const row_t *r) {
  static const char *const names[] = {"fma", "read", "copy"};
  return names[r->kind];
}

void report_head(void) {
  printf("%-3s %-30s %8s %-7s %6s %-5s %5s  %-9s %8s %6s  %-11s %s\n", "row",
         "shape", "ours", "unit", "share", "of", "bar", "peer", "peer's",
         "ratio", "10..90 %", "bar");
}

void report_row(const result_t *r) {
  char bar[16] = "-", ratio_bar[16] = "-";
  if (r->row->least_share > 0) {
    (void)snprintf(bar, sizeof bar, "%2.0f %%", 100 * r->row->least_share);
  }
  if (r->row->least_ratio > 0) {
    (void)snprintf(ratio_bar, sizeof ratio_bar, "%.2f", r->row->least_ratio);
  }
  printf("%-3s %-30s %8.1f %-7s %4.0f %% %-5s %5s  ", r->row->id,
         r->row->name, r->ours * 1e-9, unit_of(r->row), 100 * r->share,
         ceiling_of(r->row), bar);
  if (r->peer != NULL) {
    printf("%-9s %8.1f %6.2f  %4.2f..%4.2f  %s", r->peer,
           r->peer_rate * 1e-9, r->ratio, r->low, r->high, ratio_bar);
  } else {
    printf("%-9s %8s %6s  %-11s %s", "none", "-", "-", "-", ratio_bar);
  }
  printf("  %s\n", r->is_met ? "met" : "MISSED");
  (void)fflush(stdout);
}

int report_json(const char *path, const result_t *results, int count,
                int threads) {
  FILE *f = fopen(path, "w");
  if (f == NULL) return 0;
  for (int i = 0; i < count; i++) {
    const result_t *r = &results[i];
    (void)fprintf(f,
                  "{\"schema\": 1, \"row\": \"%s\", \"shape\": \"%s\", "
                  "\"threads\": %d, \"unit\": \"%s\", \"ours\": %.4g, "
                  "\"ceiling\": \"%s\", \"ceiling_rate\": %.4g, "
                  "\"share\": %.4f, ",
                  r->row->id, r->row->name, threads, unit_of(r->row),
                  r->ours * 1e-9, ceiling_of(r->row), r->ceiling * 1e-9,
                  r->share);
    if (r->peer != NULL) {
      (void)fprintf(f,
                    "\"peer\": \"%s\", \"peer_rate\": %.4g, \"ratio\": %.4f, "
                    "\"low\": %.4f, \"high\": %.4f, ",
                    r->peer, r->peer_rate * 1e-9, r->ratio, r->low, r->high);
    }
    (void)fprintf(f, "\"met\": %s}\n", r->is_met ? "true" : "false");
  }
  return fclose(f) == 0;
}

/* ---- the picture --------------------------------------------------------- */

enum { LEFT = 285, WIDTH = 460, LINE = 22, TOP = 54 };

static void bar(FILE *f, int y, double share, const char *colour) {
  double w = share > 1.2 ? 1.2 : share;
  (void)fprintf(f, "<rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\" "
                "fill=\"%s\"/>\n",
                LEFT, y, w * WIDTH / 1.2, LINE / 2 - 2, colour);
}

/* Ours and the peer's share of the ceiling, and the bar as a tick. */
int report_svg(const char *path, const result_t *results, int count) {
  FILE *f = fopen(path, "w");
  if (f == NULL) return 0;
  int height = TOP + count * LINE + 20;
  (void)fprintf(f, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" "
                "height=\"%d\" font-family=\"sans-serif\" "
                "font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" "
                "fill=\"#fff\"/>\n",
                LEFT + WIDTH + 90, height);
  (void)fprintf(f, "<text x=\"10\" y=\"20\" font-size=\"15\">share of the "
                "machine's ceiling, same run</text>\n"
                "<rect x=\"10\" y=\"30\" width=\"12\" height=\"9\" "
                "fill=\"#2563a8\"/><text x=\"28\" y=\"39\">tdsl</text>"
                "<rect x=\"80\" y=\"30\" width=\"12\" height=\"9\" "
                "fill=\"#b9bec7\"/><text x=\"98\" y=\"39\">best peer</text>"
                "<rect x=\"185\" y=\"29\" width=\"2\" height=\"11\" "
                "fill=\"#c0392b\"/><text x=\"193\" y=\"39\">bar</text>\n");
  for (int i = 0; i < count; i++) {
    const result_t *r = &results[i];
    int y = TOP + i * LINE;
    (void)fprintf(f, "<text x=\"10\" y=\"%d\">%s %s</text>\n", y + 12,
                  r->row->id, r->row->name);
    bar(f, y, r->share, "#2563a8");
    if (r->peer != NULL) {
      bar(f, y + LINE / 2 - 1, r->peer_rate / r->ceiling, "#b9bec7");
    }
    if (r->row->least_share > 0) {
      (void)fprintf(f, "<rect x=\"%.1f\" y=\"%d\" width=\"2\" height=\"%d\" "
                    "fill=\"#c0392b\"/>\n",
                    LEFT + r->row->least_share * WIDTH / 1.2, y - 1, LINE - 2);
    }
    (void)fprintf(f, "<text x=\"%d\" y=\"%d\">%.0f %%</text>\n",
                  LEFT + WIDTH + 20, y + 12, 100 * r->share);
  }
  (void)fprintf(f, "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" "
                "stroke=\"#888\" stroke-dasharray=\"3 3\"/>\n</svg>\n",
                LEFT + WIDTH / 1.2, TOP - 6, LEFT + WIDTH / 1.2, height - 12);
  return fclose(f) == 0;
}
