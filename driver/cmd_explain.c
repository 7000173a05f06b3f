/* cmd_explain.c: tdslc explain ID, tdslc explain FILE[:LINE] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/options.h"

static void print_json_text(tdsl_string_t s) {
  (void)putchar('"');
  for (size_t i = 0; i < s.length; i++) {
    unsigned char c = (unsigned char)s.data[i];
    if (c == '"' || c == '\\') (void)printf("\\%c", c);
    else if (c < 0x20) (void)printf("\\u%04x", c);
    else (void)putchar(c);
  }
  (void)putchar('"');
}

static void print_page(const cli_t *cli, tdsl_string_t id) {
  tdsl_string_t title = tdsl_diagnostic_title(id);
  tdsl_string_t page = tdsl_diagnostic_explain(id);
  if (cli_has(cli, CLI_OPT_JSON)) {
    (void)printf("{\"schema\": 1, \"id\": ");
    print_json_text(id);
    (void)printf(", \"title\": ");
    print_json_text(title);
    (void)printf(", \"page\": ");
    print_json_text(page);
    (void)printf("}\n");
    return;
  }
  (void)printf("%.*s: %.*s\n\n%.*s\n", (int)id.length, id.data,
               (int)title.length, title.data, (int)page.length, page.data);
}

static void list(const cli_t *cli) {
  for (uint32_t i = 0;; i++) {
    tdsl_string_t id = tdsl_diagnostic_list(i);
    if (id.length == 0) return;
    tdsl_string_t title = tdsl_diagnostic_title(id);
    if (cli_has(cli, CLI_OPT_JSON)) print_page(cli, id);
    else (void)printf("%.*s  %.*s\n", (int)id.length, id.data,
                      (int)title.length, title.data);
  }
}

/* ---- what the passes decided --------------------------------------------- */

/* "F.tdsl:12" is a line of F.tdsl; 0: no line. Cuts it off. */
static long take_line(char *path) {
  char *colon = strrchr(path, ':');
  if (colon == NULL || colon[1] == '\0') return 0;
  size_t digits = strspn(colon + 1, "0123456789");
  if (colon[1 + digits] != '\0' || digits > 9) return 0;
  long line = strtol(colon + 1, NULL, 10);
  if (line > 0) *colon = '\0';
  return line;
}

static int print_remarks(cli_t *cli, const char *path, long line) {
  tdsl_compile_desc_t desc;
  cli_sink_t sink;
  cli_buffer_t text = {0};
  tdsl_error_t *error;
  char stage[40];
  const char *form = cli_has(cli, CLI_OPT_JSON) ? "remarks-json" : "remarks";
  if (line > 0) (void)snprintf(stage, sizeof stage, "%s=%ld", form, line);
  else (void)snprintf(stage, sizeof stage, "%s", form);
  if (!cli_desc(cli, &desc)) return CLI_USAGE;
  int code = cli_open(cli);
  if (code == CLI_OK && !cli_source(path, &desc, &text)) code = CLI_IO;
  if (code == CLI_OK &&
      !cli_sink_open(cli, &sink, cli_value(cli, CLI_OPT_OUTPUT))) {
    code = CLI_IO;
  } else if (code == CLI_OK) {
    tdsl_status_t status =
        tdsl_program_dump(cli->context, &desc, cli_text(stage), cli_text(NULL),
                          cli_put, sink.file, &error);
    code = cli_end(cli, status, &error);
    int closed = cli_sink_close(cli, &sink, code == CLI_OK);
    if (code == CLI_OK) code = closed;
  }
  free(text.data);
  cli_desc_free(&desc);
  return cli_verdict(cli, code);
}

static int explain_file(cli_t *cli, const char *given) {
  char *path = malloc(strlen(given) + 1);
  if (path == NULL) return CLI_LIMIT;
  strcpy(path, given);
  long line = take_line(path);
  int code = print_remarks(cli, path, line);
  free(path);
  return code;
}

/* A word without a point or a slash is no file. */
static bool names_file(const char *given) {
  return strcmp(given, "-") == 0 || strpbrk(given, "./") != NULL;
}

int cli_do_EXPLAIN(cli_t *cli) {
  if (cli_has(cli, CLI_OPT_LIST)) {
    list(cli);
    return CLI_OK;
  }
  if (cli->operand_count != 1) {
    return cli_usage(cli, "one id or one file is wanted");
  }
  if (names_file(cli->operands[0])) {
    return explain_file(cli, cli->operands[0]);
  }
  char upper[16] = "";
  const char *given = cli->operands[0];
  for (size_t i = 0; given[i] != '\0' && i + 1 < sizeof upper; i++) {
    bool is_lower = given[i] >= 'a' && given[i] <= 'z';
    upper[i] = (char)(is_lower ? given[i] - 'a' + 'A' : given[i]);
  }
  tdsl_string_t id = cli_text(upper);
  if (tdsl_diagnostic_title(id).length == 0) {
    return cli_usage(cli, "no diagnostic has the id '%s'; try --list", given);
  }
  print_page(cli, id);
  return CLI_OK;
}
