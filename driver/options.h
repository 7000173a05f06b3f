/* options.h: the command line of tdslc, parsed by one table (options.def).
 *
 * A word that begins with `-` is an option: --name VALUE, --name=VALUE, -o
 * VALUE, -oVALUE; `-` alone is standard input or output, and `--` ends
 * options.  Everything else is an operand.  Includes the public headers
 * alone: tdslc is a host like any other. */
#ifndef DRIVER_OPTIONS_H
#define DRIVER_OPTIONS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

#include <tdsl/tdsl.h>

typedef enum cli_command {
  CLI_NO_COMMAND = 0,
#define COMMAND(id, name, level, arguments, sentence) CLI_##id,
#include "driver/options.def"
  CLI_COMMAND_COUNT
} cli_command_t;

typedef enum cli_option {
#define OPTION(id, long, short, value, commands, sentence) CLI_OPT_##id,
#include "driver/options.def"
  CLI_OPTION_COUNT
} cli_option_t;

/* Exit codes (docs/cli.md). */
enum {
  CLI_OK = 0,
  CLI_WRONG = 1,
  CLI_USAGE = 2,
  CLI_IO = 3,
  CLI_MISSING = 4,
  CLI_LIMIT = 5,
  CLI_INTERNAL = 70,
  CLI_INTERRUPTED = 130
};

/* The parsed command line and what a subcommand needs to report. Texts are
 * those of argv. */
typedef struct cli {
  cli_command_t command;
  int operand_count;
  const char **operands;
  int given_count; /* options in the order given */
  struct cli_given {
    cli_option_t option;
    const char *value; /* "" for a switch */
  } *given;
  tdsl_context_t *context;
  bool as_json;        /* diagnostics */
  bool has_color;      /* of standard error */
  bool is_quiet;
  bool has_progress;   /* standard error is a terminal, texts are drawn */
  double start;        /* of the command, seconds */
  atomic_int shown;    /* seconds last shown; 0: the line is clear */
  unsigned warnings, errors; /* diagnostics seen */
} cli_t;

/* False after a message: exit with CLI_USAGE. */
bool cli_parse(cli_t *cli, int argc, char **argv);
void cli_free(cli_t *cli);

/* Last value of an option, NULL if it was not given. */
const char *cli_value(const cli_t *cli, cli_option_t option);
bool cli_has(const cli_t *cli, cli_option_t option);
/* Value number `index` of an option that may be repeated, or NULL. */
const char *cli_each(const cli_t *cli, cli_option_t option, int index);
int cli_count(const cli_t *cli, cli_option_t option);

const char *cli_command_name(cli_command_t command);
/* CLI_NO_COMMAND if there is none of that name. */
cli_command_t cli_find_command(const char *name);
/* The nearest name of a subcommand, or NULL. */
const char *cli_nearest_command(const char *name);

void cli_help_all(FILE *to);
void cli_help(FILE *to, cli_command_t command);
void cli_complete_bash(FILE *to);

/* "tdslc run: text" and the hint to help; returns CLI_USAGE. */
int cli_usage(const cli_t *cli, const char *format, ...);

/* ---- shared by the subcommands (cli.c) ---------------------------------- */

static inline tdsl_string_t cli_text(const char *text) {
  tdsl_string_t s = {text, 0};
  while (text != NULL && text[s.length] != '\0') s.length++;
  return s;
}

double cli_now(void); /* seconds of a clock that only goes forward */
/* Clears the progress line, before anything else is printed. */
void cli_clear(cli_t *cli);
/* Makes cli->context; its diagnostics go to standard error. An exit code. */
int cli_open(cli_t *cli);
/* Exit code of a call; prints what its diagnostics did not say. Releases the
 * error. It is passed by its address since the call that sets it usually
 * stands beside it in one argument list. */
int cli_end(cli_t *cli, tdsl_status_t status, tdsl_error_t **error);
/* CLI_WRONG in place of CLI_OK if warnings count. */
int cli_verdict(const cli_t *cli, int code);

/* The options that describe a compilation. False after a usage message.
 * cli_desc_free gives back its lists. */
bool cli_desc(cli_t *cli, tdsl_compile_desc_t *out);
void cli_desc_free(tdsl_compile_desc_t *desc);

/* The values of a NAME=INTEGER option, to be freed; NULL after a message. */
tdsl_dim_value_t *cli_dims(cli_t *cli, cli_option_t option,
                           const char *name);

/* A growing text; the owner frees data. */
typedef struct cli_buffer {
  char *data;
  size_t length, capacity;
  bool has_failed; /* out of memory: data is what there was */
} cli_buffer_t;
void cli_buffer_take(tdsl_string_t text, void *user); /* a tdsl_text_fn_t */
/* A whole file; `-` is standard input. */
bool cli_read_all(const char *path, cli_buffer_t *out);
/* Sets file, and text for standard input, which then lies in `out`. False
 * after a message: CLI_IO. */
bool cli_source(const char *path, tdsl_compile_desc_t *desc,
                cli_buffer_t *out);

/* A text sink: standard output, or a file written when it is complete. */
typedef struct cli_sink {
  FILE *file;
  char *path;      /* NULL: standard output */
  char *temporary;
} cli_sink_t;
bool cli_sink_open(cli_t *cli, cli_sink_t *sink, const char *path);
/* A tdsl_text_fn_t; user is the FILE. */
void cli_put(tdsl_string_t text, void *user);
/* keep false: the file is not made. */
int cli_sink_close(cli_t *cli, cli_sink_t *sink, bool keep);

/* One function a subcommand; returns the exit code. */
#define COMMAND(id, name, level, arguments, sentence) int cli_do_##id(cli_t *);
#include "driver/options.def"

#endif
