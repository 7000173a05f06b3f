/* remark.h: what passes say of their decisions, for `tdslc explain FILE`.
 *
 * A remark is data: a code of remarks.def, the places of the program it is
 * about, one sentence, numbers by name, and a cure if there is one.  Nothing
 * is recorded unless somebody asked (pass_state_t.remarks), so a compile pays
 * one test a decision. */
#ifndef TDSL_PASSES_REMARK_H
#define TDSL_PASSES_REMARK_H

#include "passes/pass.h"

typedef enum remark_kind {
  REMARK_DONE,    /* made */
  REMARK_REFUSED, /* looked at and not made */
  REMARK_NOTE,    /* a choice among equals */
} remark_kind_t;

typedef enum remark_code {
#define REMARK(id, name, kind, sentence) REMARK_CODE_##id,
#include "passes/remarks.def"
  REMARK_CODE_COUNT
} remark_code_t;

typedef struct remark_info {
  const char *name; /* "fuse.done" */
  remark_kind_t kind;
  const char *sentence;
} remark_info_t;

extern const remark_info_t pass_remark_table[REMARK_CODE_COUNT];

typedef struct remark_number {
  const char *name;       /* "bytes" */
  const ix_poly_t *value; /* over the dims of the program */
} remark_number_t;

enum { REMARK_PLACES = 4, REMARK_NUMBERS = 6 };

typedef struct remark {
  const char *pass; /* as listings spell it */
  remark_code_t code;
  uint32_t place_count, number_count;
  td_loc_t places[REMARK_PLACES]; /* the first is the one it stands at */
  remark_number_t numbers[REMARK_NUMBERS];
  const char *text; /* one sentence without a stop */
  const char *hint; /* a cure, or NULL */
  /* of an edge: the function, the value, and the first value that its reader
   * makes, by their names in dumps; NULL: of none */
  const char *func, *from, *to;
} remark_t;

/* All remarks of one compile, in the order of passes and of the program.
 * Texts and polys belong to the arena, which outlives the list. */
struct pass_remarks {
  td_arena_t *arena;
  TD_VEC(remark_t *) list;
};

/* NULL where nobody listens; callers go on only with one. `loc` is the first
 * place. The text is formatted into the list's arena. */
TD_PRINTF(5, 6)
remark_t *pass_remark(pass_state_t *state, const char *pass,
                      remark_code_t code, td_loc_t loc, const char *format,
                      ...);
void pass_remark_place(remark_t *remark, td_loc_t loc);
void pass_remark_number(remark_t *remark, const char *name,
                        const ix_poly_t *value);
/* Names of the values of a function, as its dump now has them. */
typedef struct remark_names {
  const char *func;
  td_map_t of; /* tir_value_t* -> const char * */
} remark_names_t;
void pass_remark_names(const pass_state_t *state, const tir_module_t *module,
                       const tir_func_t *func, remark_names_t *names);
/* The remark is about what `reader` reads of `value`. */
void pass_remark_edge(remark_t *remark, const remark_names_t *names,
                      const tir_value_t *value, const tir_node_t *reader);
/* What a node is called in texts. */
const char *pass_remark_reader(const tir_node_t *reader);

/* "bytes kept: 4*N, at most 4096", without a line's end. */
void pass_remark_number_print(td_buf_t *out, const remark_number_t *number);

/* FILE:LINE:COLUMN: remark[CODE]: TEXT, then further places, numbers and the
 * hint, each on a line of its own; or one JSON object a line with the keys
 * pass, kind, where, code, text, numbers, hint, and edge if it is about
 * one. `line` > 0 keeps those that
 * touch that line of source `file` only. */
void pass_remarks_print(td_buf_t *out, td_task_t *task,
                        const struct pass_remarks *remarks, uint32_t file,
                        uint32_t line, bool as_json);

#endif
