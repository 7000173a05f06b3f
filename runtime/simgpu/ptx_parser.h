/* State shared by the two halves of the PTX parser: ptx_parse.c reads what
   stands at module level, ptx_body.c the bodies of functions. */
#ifndef SIM_PTX_PARSER_H
#define SIM_PTX_PARSER_H

#include "runtime/simgpu/ptx_lex.h"
#include "runtime/simgpu/ptx_parse.h"

typedef enum ptx_symbol_kind_t {
  PTX_SYMBOL_REG,    /* first = register number */
  PTX_SYMBOL_REGS,   /* name<count>: first .. first + count */
  PTX_SYMBOL_VAR,
  PTX_SYMBOL_FUNC,
  PTX_SYMBOL_LABEL,  /* first = instruction number */
  PTX_SYMBOL_TABLE   /* first = index into the function's tables */
} ptx_symbol_kind_t;

typedef struct ptx_symbol_t {
  uint32_t scope; /* 0: the module */
  uint32_t next;  /* in its bucket, 0 ends */
  uint64_t hash;
  td_str_t name;
  ptx_symbol_kind_t kind;
  uint32_t first, count;
  void *object; /* ptx_var_t or ptx_func_t */
} ptx_symbol_t;

/* A label named before its scope was complete. */
typedef struct ptx_ref_t {
  uint32_t operand; /* in the pool */
  uint32_t scope, line;
} ptx_ref_t;

typedef struct ptx_parser_t {
  ptx_lexer_t lex;
  td_task_t *task;
  td_arena_t *arena;
  ptx_module_t *module;
  ptx_error_t *error;
  TD_VEC(ptx_symbol_t) symbols; /* entry 0 unused */
  uint32_t *buckets;
  size_t bucket_count;
  TD_VEC(uint32_t) parents; /* of each scope */
  uint32_t scope;           /* the current one */
  uint32_t depth;
  /* Of the function being read. */
  ptx_func_t *func;
  TD_VEC(ptx_ref_t) refs;
  uint32_t loc;
  uint32_t table; /* pending label for .branchtargets: symbol, or 0 */
} ptx_parser_t;

/* Records the first error; always false (PTX_FAIL says so to compilers). */
bool ptx_fail(ptx_parser_t *p, int code, const char *format, ...)
    TD_PRINTF(3, 4);
#define PTX_INVALID 218
#define PTX_FAIL(p, ...)                                                      \
  (ptx_fail((p), PTX_INVALID, __VA_ARGS__), false)

bool ptx_expect(ptx_parser_t *p, char punct);
/* Passes over what nobody reads here, up to and over one character. A bad
   token does not move the lexer, so it ends the walk as the end of the text
   does; `what` names the thing that is unfinished then. */
bool ptx_skip_past(ptx_parser_t *p, char close, const char *what);
/* Takes a word that is a name. */
bool ptx_take_name(ptx_parser_t *p, td_str_t *out);
/* A constant: number with optional minus. */
bool ptx_take_int(ptx_parser_t *p, uint64_t *out);
bool ptx_take_u32(ptx_parser_t *p, uint32_t *out);

/* NULL if the name is taken in this scope (an error is recorded). */
ptx_symbol_t *ptx_define(ptx_parser_t *p, td_str_t name,
                         ptx_symbol_kind_t kind);
ptx_symbol_t *ptx_lookup_in(ptx_parser_t *p, td_str_t name, uint32_t scope);
/* From the current scope outwards; NULL if unknown. */
ptx_symbol_t *ptx_lookup(ptx_parser_t *p, td_str_t name);

/* The declaration after its state space: type, name, size, initialiser, up to
   and including the ';' if `ends` (a parameter ends at ',' or ')'). */
bool ptx_variable(ptx_parser_t *p, ptx_space_t space, bool is_extern,
                  bool is_param, ptx_var_t **out);

/* The body; the current token is its '{'. Ends after the matching '}'. */
bool ptx_body(ptx_parser_t *p);

/* .loc and .file, after the directive's word. */
bool ptx_loc(ptx_parser_t *p);
bool ptx_file(ptx_parser_t *p);

#endif
