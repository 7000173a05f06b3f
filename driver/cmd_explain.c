/* cmd_explain.c: tdslc explain ID */
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

int cli_do_EXPLAIN(cli_t *cli) {
  if (cli_has(cli, CLI_OPT_LIST)) {
    list(cli);
    return CLI_OK;
  }
  if (cli->operand_count != 1) return cli_usage(cli, "one id is wanted");
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
