/* PTX text as a module: variables, functions, and each function's
   instructions with their operands resolved to registers, symbols and
   labels. Instruction names are only split here; decode.h gives them
   meaning.

   The text is hostile until parsed. Work is linear in its length: names live
   in one hash table keyed by (scope, name), scopes nest at most
   PTX_MAX_DEPTH deep, and nothing recurses. Everything lives in the arena
   that ptx_parse was given. */
#ifndef SIM_PTX_PARSE_H
#define SIM_PTX_PARSE_H

#include "runtime/base/task.h"

#define PTX_MAX_DEPTH    200 /* nested braces of one body */
#define PTX_MAX_OPERANDS 24  /* top level, of one instruction */
#define PTX_MAX_BYTES    ((uint64_t)1 << 40) /* of one variable */

typedef enum ptx_type_t {
#define PTX_TYPE(id, text, bytes, kind) PTX_##id,
#include "runtime/simgpu/ptx_types.def"
#undef PTX_TYPE
  PTX_TYPE_COUNT
} ptx_type_t;

/* How a type's bits are read. */
typedef enum ptx_kind_t {
  PTX_KIND_NONE,
  PTX_KIND_BITS,
  PTX_KIND_UNSIGNED,
  PTX_KIND_SIGNED,
  PTX_KIND_FLOAT,
  PTX_KIND_PRED
} ptx_kind_t;

typedef struct ptx_type_row_t {
  const char *text;
  uint8_t bytes; /* of one register: 4 for packed pairs of halves */
  uint8_t kind;
} ptx_type_row_t;

const ptx_type_row_t *ptx_type_row(ptx_type_t type);
/* PTX_NO_TYPE if the text (without its dot) names no type. */
ptx_type_t ptx_type_find(td_str_t text);

typedef enum ptx_space_t {
  PTX_SPACE_GENERIC,
  PTX_SPACE_REG,
  PTX_SPACE_GLOBAL,
  PTX_SPACE_SHARED,
  PTX_SPACE_CONST,
  PTX_SPACE_LOCAL,
  PTX_SPACE_PARAM
} ptx_space_t;

/* An address stored in an initialiser: the variable's address plus what is
   already there is added when the module is placed in memory. */
typedef struct ptx_fixup_t {
  uint64_t offset;
  td_str_t name;
  uint64_t addend;
  bool is_generic;
} ptx_fixup_t;

typedef struct ptx_var_t {
  const char *name;
  ptx_space_t space;
  ptx_type_t type;
  uint32_t align;
  bool is_extern;     /* dynamic shared memory, or another module's */
  bool is_visible;    /* found by cuModuleGetGlobal */
  uint64_t bytes;     /* 0 for an extern array */
  TD_VEC(uint8_t) init; /* the values given; zeros follow up to bytes */
  TD_VEC(ptx_fixup_t) fixups;
  uint32_t line;
  /* Filled by who places it: the offset in the frame (local, param), in
     shared memory, or the address (global, const). */
  uint64_t place;
  bool is_placed;
} ptx_var_t;

typedef enum ptx_operand_kind_t {
  PTX_OPERAND_NONE,
  PTX_OPERAND_REG,     /* reg */
  PTX_OPERAND_INT,     /* value */
  PTX_OPERAND_F32,     /* value holds the bits */
  PTX_OPERAND_F64,
  PTX_OPERAND_VAR,     /* var, value = offset to add */
  PTX_OPERAND_FUNC,    /* func */
  PTX_OPERAND_SPECIAL, /* reg = ptx_special_t */
  PTX_OPERAND_LABEL,   /* name; reg = instruction number once resolved */
  PTX_OPERAND_SINK,    /* _ */
  PTX_OPERAND_VECTOR,  /* {..}: pool[first .. first + count) */
  PTX_OPERAND_LIST,    /* (..) of a call, likewise */
  PTX_OPERAND_ADDRESS, /* [base + value {, vector}]: base in pool[first] */
  PTX_OPERAND_PAIR     /* a|b, likewise */
} ptx_operand_kind_t;

typedef enum ptx_special_t {
#define PTX_SPECIAL(id, text, bits) PTX_SREG_##id,
#include "runtime/simgpu/ptx_types.def"
#undef PTX_SPECIAL
  PTX_SREG_COUNT
} ptx_special_t;

typedef struct ptx_operand_t {
  uint8_t kind;
  bool is_negated; /* !p, or a leading minus before a register */
  uint16_t count;
  uint32_t first;
  uint32_t reg;
  uint64_t value;
  union {
    ptx_var_t *var;
    struct ptx_func_t *func;
    td_str_t name;
  } u;
} ptx_operand_t;

typedef struct ptx_ins_t {
  td_str_t op;      /* "ld.global.v2.f32" */
  uint32_t line;    /* of the PTX text, from 1 */
  uint32_t loc;     /* index into the module's locs, 0 = none */
  uint32_t first;   /* operands in the function's pool */
  uint16_t count;
  bool is_guarded, is_guard_negated;
  uint32_t guard;   /* register */
} ptx_ins_t;

typedef struct ptx_label_t {
  td_str_t name;
  uint32_t at; /* instruction number */
  TD_VEC(uint32_t) targets; /* of a .branchtargets list: pool indices */
} ptx_label_t;

typedef struct ptx_func_t {
  const char *name;
  bool is_entry, is_defined;
  TD_VEC(ptx_var_t *) params; /* with their places: offsets */
  TD_VEC(ptx_var_t *) results;
  uint32_t param_bytes;
  TD_VEC(ptx_ins_t) ins;
  TD_VEC(ptx_operand_t) pool;
  TD_VEC(uint8_t) regs; /* ptx_type_t of each register */
  TD_VEC(ptx_var_t *) vars; /* declared in the body: shared, local, param */
  TD_VEC(ptx_label_t) tables; /* .branchtargets */
  uint32_t max_threads[3], required_threads[3]; /* 0: not given */
  uint32_t cluster[3];
  uint32_t min_ctas, max_registers;
  bool is_cluster_explicit;
  uint32_t line;
} ptx_func_t;

typedef struct ptx_loc_t {
  uint32_t file; /* number of the .file directive */
  uint32_t line;
} ptx_loc_t;

typedef struct ptx_module_t {
  td_arena_t *arena;
  uint32_t version; /* 90 for 9.0 */
  uint32_t target;  /* 90 for sm_90 */
  char target_suffix; /* 'a', 'f' or 0 */
  TD_VEC(ptx_func_t *) funcs;
  TD_VEC(ptx_var_t *) vars;
  TD_VEC(ptx_loc_t) locs; /* entry 0 is "none" */
  td_map_t files;         /* number -> const char * */
  td_map_t names;         /* name -> ptx_symbol_t of the parser */
  uint32_t lines;
} ptx_module_t;

/* What was wrong, for the JIT log. */
typedef struct ptx_error_t {
  int code; /* driver result: 218, 222 or 209 */
  uint32_t line;
  char text[400];
} ptx_error_t;

/* NULL with *error filled if the text is no acceptable PTX. */
ptx_module_t *ptx_parse(td_task_t *task, td_arena_t *arena, td_str_t text,
                        ptx_error_t *error);

/* Function or variable by name; NULL if absent. */
ptx_func_t *ptx_find_func(const ptx_module_t *module, td_str_t name);
ptx_var_t *ptx_find_var(const ptx_module_t *module, td_str_t name);

/* Name of the source file of a .loc, "" if there is none. */
const char *ptx_file_name(const ptx_module_t *module, uint32_t loc);

#endif
