/* options.c: the table behind the command line: parsing, help, completion. */
#include "driver/options.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define USER false
#define DEVELOPER true
static const struct {
  const char *name;
  bool is_developer;
  const char *arguments, *sentence;
} commands[] = {
    {"", false, "", ""},
#define COMMAND(id, name, level, arguments, sentence) \
  {name, level, arguments, sentence},
#include "driver/options.def"
};
#undef USER
#undef DEVELOPER

static const struct {
  cli_command_t command;
  const char *text;
} examples[] = {
#define EXAMPLE(id, text) {CLI_##id, text},
#include "driver/options.def"
};

static const struct option_row {
  const char *name;
  char letter;
  const char *value, *commands, *sentence;
} options[] = {
#define OPTION(id, long, short, value, commands, sentence) \
  {long, short, value, commands, sentence},
#include "driver/options.def"
};

/* ---- names --------------------------------------------------------------- */

/* Edits between two short names; a row of the usual table at a time. */
static size_t distance(const char *a, const char *b) {
  size_t row[64], n = strlen(b);
  if (n >= 63) return 99;
  for (size_t j = 0; j <= n; j++) row[j] = j;
  for (size_t i = 0; a[i] != '\0'; i++) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < n; j++) {
      size_t replace = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      size_t insert = (row[j] < row[j + 1] ? row[j] : row[j + 1]) + 1;
      row[j + 1] = replace < insert ? replace : insert;
    }
  }
  return row[n];
}

/* Near enough to be meant: a third of the letters, or a beginning. */
static bool is_near(const char *want, const char *name, size_t *best) {
  size_t d = distance(want, name), n = strlen(want);
  if (n >= 2 && strncmp(want, name, n) == 0) d = 0;
  if (d >= *best || d > (n + 2) / 3) return false;
  *best = d;
  return true;
}

const char *cli_command_name(cli_command_t command) {
  return commands[command].name;
}

cli_command_t cli_find_command(const char *name) {
  for (int i = 1; i < CLI_COMMAND_COUNT; i++) {
    if (strcmp(commands[i].name, name) == 0) return (cli_command_t)i;
  }
  return CLI_NO_COMMAND;
}

const char *cli_nearest_command(const char *name) {
  const char *found = NULL;
  size_t best = 99;
  for (int i = 1; i < CLI_COMMAND_COUNT; i++) {
    if (is_near(name, commands[i].name, &best)) found = commands[i].name;
  }
  return found;
}

/* The word is in the list of words, or the list is "*". */
static bool takes(const struct option_row *row, cli_command_t command) {
  const char *name = commands[command].name, *at = row->commands;
  size_t n = strlen(name);
  if (strcmp(at, "*") == 0) return true;
  while ((at = strstr(at, name)) != NULL) {
    bool starts = at == row->commands || at[-1] == ' ';
    if (starts && (at[n] == '\0' || at[n] == ' ')) return true;
    at += n;
  }
  return false;
}

/* ---- parsing ------------------------------------------------------------- */

int cli_usage(const cli_t *cli, const char *format, ...) {
  va_list args;
  const char *name = commands[cli->command].name;
  (void)fprintf(stderr, "tdslc%s%s: ", name[0] ? " " : "", name);
  va_start(args, format);
  (void)vfprintf(stderr, format, args);
  va_end(args);
  (void)fprintf(stderr, "\nSee `tdslc help%s%s`.\n", name[0] ? " " : "", name);
  return CLI_USAGE;
}

static int find_long(const char *name, size_t length) {
  for (int i = 0; i < CLI_OPTION_COUNT; i++) {
    if (strlen(options[i].name) == length &&
        strncmp(options[i].name, name, length) == 0) {
      return i;
    }
  }
  return -1;
}

static bool unknown_option(const cli_t *cli, const char *word,
                           const char *name) {
  const char *found = NULL;
  size_t best = 99;
  for (int i = 0; i < CLI_OPTION_COUNT; i++) {
    if (!takes(&options[i], cli->command)) continue;
    if (is_near(name, options[i].name, &best)) found = options[i].name;
  }
  if (found != NULL) {
    cli_usage(cli, "no option is called %s; did you mean --%s?", word, found);
  } else {
    cli_usage(cli, "no option is called %s", word);
  }
  return false;
}

static bool add(cli_t *cli, int option, const char *word, const char *value) {
  if (!takes(&options[option], cli->command)) {
    cli_usage(cli, "%s belongs to: %s", word, options[option].commands);
    return false;
  }
  cli->given[cli->given_count].option = (cli_option_t)option;
  cli->given[cli->given_count].value = value;
  cli->given_count++;
  return true;
}

/* Takes the option at argv[i]; returns how many words it used, 0 on error. */
static int take_option(cli_t *cli, int argc, char **argv, int i) {
  const char *word = argv[i], *value = NULL;
  int option = -1;
  if (word[1] == '-') {
    const char *name = word + 2, *equals = strchr(name, '=');
    size_t length = equals != NULL ? (size_t)(equals - name) : strlen(name);
    char text[48];
    if (length < sizeof text) {
      option = find_long(name, length);
      memcpy(text, name, length);
      text[length] = '\0';
    } else {
      text[0] = '\0';
    }
    if (option < 0) return unknown_option(cli, word, text), 0;
    if (equals != NULL) value = equals + 1;
  } else {
    for (int k = 0; k < CLI_OPTION_COUNT; k++) {
      if (options[k].letter == word[1]) option = k;
    }
    if (option < 0) return unknown_option(cli, word, word + 1), 0;
    if (word[2] != '\0') value = word + 2;
  }
  bool is_switch = options[option].value[0] == '\0';
  if (is_switch && value != NULL) {
    cli_usage(cli, "--%s takes no value", options[option].name);
    return 0;
  }
  if (is_switch || value != NULL) {
    return add(cli, option, word, is_switch ? "" : value) ? 1 : 0;
  }
  if (i + 1 >= argc) {
    cli_usage(cli, "--%s needs a value: %s", options[option].name,
              options[option].value);
    return 0;
  }
  return add(cli, option, word, argv[i + 1]) ? 2 : 0;
}

static bool take_words(cli_t *cli, int argc, char **argv, int i) {
  bool has_options = true;
  while (i < argc) {
    const char *word = argv[i];
    if (has_options && strcmp(word, "--") == 0) {
      has_options = false;
      i++;
    } else if (has_options && word[0] == '-' && word[1] != '\0') {
      int used = take_option(cli, argc, argv, i);
      if (used == 0) return false;
      i += used;
    } else {
      cli->operands[cli->operand_count++] = word;
      i++;
    }
  }
  return true;
}

/* `tdslc FILE` is check; --help and --version stand for subcommands. */
static int find_first(cli_t *cli, int argc, char **argv) {
  if (argc < 2) {
    cli->command = CLI_HELP;
    return 1;
  }
  const char *word = argv[1];
  cli->command = cli_find_command(word);
  if (cli->command != CLI_NO_COMMAND) return 2;
  if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
    cli->command = CLI_HELP;
    return 2;
  }
  if (strcmp(word, "--version") == 0) {
    cli->command = CLI_VERSION;
    return 2;
  }
  bool is_file = strchr(word, '.') != NULL || strchr(word, '/') != NULL ||
                 word[0] == '-';
  if (is_file) {
    cli->command = CLI_CHECK;
    return 1;
  }
  const char *near = cli_nearest_command(word);
  if (near != NULL) {
    cli_usage(cli, "no subcommand is called '%s'; did you mean '%s'?", word,
              near);
  } else {
    cli_usage(cli, "no subcommand is called '%s'", word);
  }
  return 0;
}

bool cli_parse(cli_t *cli, int argc, char **argv) {
  memset(cli, 0, sizeof *cli);
  size_t room = (size_t)(argc > 0 ? argc : 0) + 1;
  cli->operands = calloc(room, sizeof *cli->operands);
  cli->given = calloc(room, sizeof *cli->given);
  if (cli->operands == NULL || cli->given == NULL) {
    (void)fprintf(stderr, "tdslc: out of memory\n");
    return false;
  }
  int first = find_first(cli, argc, argv);
  return first > 0 && take_words(cli, argc, argv, first);
}

void cli_free(cli_t *cli) {
  free(cli->operands);
  free(cli->given);
}

/* ---- reading ------------------------------------------------------------- */

const char *cli_each(const cli_t *cli, cli_option_t option, int index) {
  for (int i = 0; i < cli->given_count; i++) {
    if (cli->given[i].option == option && index-- == 0) {
      return cli->given[i].value;
    }
  }
  return NULL;
}

int cli_count(const cli_t *cli, cli_option_t option) {
  int n = 0;
  while (cli_each(cli, option, n) != NULL) n++;
  return n;
}

const char *cli_value(const cli_t *cli, cli_option_t option) {
  return cli_each(cli, option, cli_count(cli, option) - 1);
}

bool cli_has(const cli_t *cli, cli_option_t option) {
  return cli_value(cli, option) != NULL;
}

/* ---- help ---------------------------------------------------------------- */

void cli_help_all(FILE *to) {
  (void)fprintf(to, "tdslc compiles and runs programs of the tensor language "
                    "tdsl.\n\n  tdslc FILE is tdslc check FILE.\n\n");
  for (int level = 0; level < 2; level++) {
    if (level > 0) (void)fprintf(to, "\nfor developers:\n");
    for (int i = 1; i < CLI_COMMAND_COUNT; i++) {
      if (commands[i].is_developer != (level > 0)) continue;
      (void)fprintf(to, "  %-9s %s\n", commands[i].name,
                    commands[i].sentence);
    }
  }
  (void)fprintf(to, "\n`tdslc help COMMAND` has examples and options.\n");
}

void cli_help(FILE *to, cli_command_t command) {
  for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
    if (examples[i].command != command) continue;
    (void)fprintf(to, "  %s\n", examples[i].text);
  }
  (void)fprintf(to, "\ntdslc %s [OPTIONS] %s\n  %s\n\n",
                commands[command].name, commands[command].arguments,
                commands[command].sentence);
  for (int i = 0; i < CLI_OPTION_COUNT; i++) {
    const struct option_row *o = &options[i];
    char left[64];
    if (!takes(o, command)) continue;
    (void)snprintf(left, sizeof left, "%s%c%s--%s%s%s",
                   o->letter ? "-" : " ", o->letter ? o->letter : ' ',
                   o->letter ? ", " : "  ", o->name, o->value[0] ? " " : "",
                   o->value);
    if (strlen(left) > 26) {
      (void)fprintf(to, "  %s\n  %-26s %s\n", left, "", o->sentence);
    } else {
      (void)fprintf(to, "  %-26s %s\n", left, o->sentence);
    }
  }
}

/* Words by subcommand; files everywhere else. */
void cli_complete_bash(FILE *to) {
  (void)fprintf(to, "_tdslc() {\n  local cur=${COMP_WORDS[COMP_CWORD]} words\n"
                    "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n    words='");
  for (int i = 1; i < CLI_COMMAND_COUNT; i++) {
    (void)fprintf(to, "%s%s", i > 1 ? " " : "", commands[i].name);
  }
  (void)fprintf(to, "'\n  else\n    case ${COMP_WORDS[1]} in\n");
  for (int i = 1; i < CLI_COMMAND_COUNT; i++) {
    (void)fprintf(to, "    %s) words='", commands[i].name);
    for (int k = 0; k < CLI_OPTION_COUNT; k++) {
      if (!takes(&options[k], (cli_command_t)i)) continue;
      (void)fprintf(to, "--%s ", options[k].name);
    }
    (void)fprintf(to, "' ;;\n");
  }
  (void)fprintf(to, "    esac\n  fi\n  COMPREPLY=($(compgen -W \"$words\" -- "
                    "\"$cur\") $(compgen -f -- \"$cur\"))\n}\n"
                    "complete -o filenames -F _tdslc tdslc\n");
}
