/* From text to a program: contexts, errors and diagnostics, compilation,
   entry points, dumps.

   Ownership.  X_create and X_compile hand out an object that the caller ends
   with X_destroy or X_release; both accept NULL.  `get` lends: the result
   lives as long as what it was asked of.  Strings given in are copied.
   Threads.  A context may be used from many threads; a program is immutable
   and may be shared; an error belongs to whoever received it.  Two contexts
   share nothing.
   Errors.  A function that can fail returns a status and, when `out_error`
   is not NULL, an error object (NULL on success).  The library never exits,
   aborts, writes to a descriptor, installs a handler or changes the locale. */
#ifndef TDSL_COMPILE_H
#define TDSL_COMPILE_H

#include <tdsl/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tdsl_context tdsl_context_t;
typedef struct tdsl_program tdsl_program_t;
typedef struct tdsl_error tdsl_error_t;
typedef struct tdsl_inputs tdsl_inputs_t; /* runtime.h */

/* ---- diagnostics and errors ---------------------------------------------- */

/* A piece of source: file name, first and last position, 1-based, columns in
   bytes; line 0: the whole file. */
typedef struct tdsl_span_t {
  tdsl_string_t file;
  uint32_t line, column, end_line, end_column;
} tdsl_span_t;

/* One message.  Lives for the callback, or as long as its error. */
typedef struct tdsl_diagnostic_t {
  uint32_t struct_bytes;
  tdsl_severity_t severity;
  tdsl_string_t id;           /* "E06" */
  tdsl_string_t text;
  tdsl_span_t span;
  uint32_t label_count;       /* further places, each with a text */
  const tdsl_span_t *label_spans;
  const tdsl_string_t *label_texts;
  uint32_t note_count, help_count;
  const tdsl_string_t *notes;
  const tdsl_string_t *helps;
  tdsl_string_t rendered;     /* with excerpt and caret, no colour */
  tdsl_string_t rendered_color;
  tdsl_string_t json;         /* one object on one line */
} tdsl_diagnostic_t;

typedef void (*tdsl_diagnostic_fn_t)(const tdsl_diagnostic_t *diagnostic,
                                     void *user);

TDSL_API tdsl_status_t tdsl_error_get_status(const tdsl_error_t *error);
TDSL_API tdsl_string_t tdsl_error_get_message(const tdsl_error_t *error);
/* Folder with what a report of an internal error needs, or empty. */
TDSL_API tdsl_string_t tdsl_error_get_reproducer(const tdsl_error_t *error);
TDSL_API uint32_t tdsl_error_get_diagnostic_count(const tdsl_error_t *error);
TDSL_API const tdsl_diagnostic_t *
tdsl_error_get_diagnostic(const tdsl_error_t *error, uint32_t index);
TDSL_API void tdsl_error_release(tdsl_error_t *error);

/* The page of the error index for an id ("E06"), or an empty string. */
TDSL_API tdsl_string_t tdsl_diagnostic_explain(tdsl_string_t id);
/* Its title ("dims do not match"), and id number `index` in the order of the
   error index; empty past the last. */
TDSL_API tdsl_string_t tdsl_diagnostic_title(tdsl_string_t id);
TDSL_API tdsl_string_t tdsl_diagnostic_list(uint32_t index);

/* ---- context ----------------------------------------------------------- */

/* Compiled kernels on disk. */
typedef enum tdsl_cache_t {
  TDSL_CACHE_UNSET = 0,   /* what TDSL_CACHE says, else on */
  TDSL_CACHE_ON,
  TDSL_CACHE_OFF,
  TDSL_CACHE_REQUIRE,     /* compile nothing: a miss is an error (B12) */
  TDSL_CACHE_FORCE32 = 0x7FFFFFFF
} tdsl_cache_t;

typedef struct tdsl_context_desc_t {
  uint32_t struct_bytes;
  uint32_t thread_count;      /* of the CPU pool; 0: TDSL_THREADS, else the
                                 usable cores */
  tdsl_allocator_t allocator;
  tdsl_log_t log;
  tdsl_cancel_t cancel;
  tdsl_diagnostic_fn_t diagnostic; /* each message of a call, at its end */
  void *diagnostic_user;
  tdsl_cache_t cache;         /* since 0.1 */
  tdsl_string_t cache_folder; /* empty: TDSL_CACHE_DIR, XDG_CACHE_HOME/tdsl,
                                 HOME/.cache/tdsl, else none */
} tdsl_context_desc_t;

/* Descriptors: struct_bytes is set, all else zero, which means default. */
#ifdef __cplusplus
#define TDSL_CONTEXT_DESC_INIT tdsl_context_desc_init()
static inline tdsl_context_desc_t tdsl_context_desc_init() {
  tdsl_context_desc_t desc = tdsl_context_desc_t();
  desc.struct_bytes = sizeof desc;
  return desc;
}
#else
#define TDSL_CONTEXT_DESC_INIT { .struct_bytes = sizeof(tdsl_context_desc_t) }
#endif

/* desc may be NULL (all defaults). Fails with INVALID_ARGUMENT when
   struct_bytes is larger than this library knows. */
TDSL_API tdsl_status_t tdsl_context_create(const tdsl_context_desc_t *desc,
                                           tdsl_context_t **out_context,
                                           tdsl_error_t **out_error);
/* What was made from it may still be alive and stays usable; threads of the
   library end with the last of it. NULL is allowed, as everywhere. */
TDSL_API void tdsl_context_destroy(tdsl_context_t *context);

/* "0.1.0"; a constant text. */
TDSL_API tdsl_string_t tdsl_version_get_text(void);

/* Receives pieces of a text in order; each lives for the call. */
typedef void (*tdsl_text_fn_t)(tdsl_string_t text, void *user);

/* What this build is and what it finds here, as `tdslc version` shows it;
   where != 0 adds where each library was looked for and every knob with its
   value (`tdslc doctor`). as_json != 0: one JSON object. */
TDSL_API tdsl_status_t tdsl_system_describe(tdsl_context_t *context,
                                            uint32_t where, uint32_t as_json,
                                            tdsl_text_fn_t text, void *user,
                                            tdsl_error_t **out_error);

typedef enum tdsl_cache_action_t {
  TDSL_CACHE_ACTION_UNSET = 0,
  TDSL_CACHE_ACTION_LIST,   /* a line an entry, the last used first */
  TDSL_CACHE_ACTION_STAT,   /* folder, entries, bytes, limit */
  TDSL_CACHE_ACTION_VERIFY, /* reads all; INVALID_FILE if one is damaged */
  TDSL_CACHE_ACTION_PRUNE,  /* down to limit_bytes */
  TDSL_CACHE_ACTION_CLEAR,
  TDSL_CACHE_ACTION_FORCE32 = 0x7FFFFFFF
} tdsl_cache_action_t;

/* Looks after the context's kernel cache, also while others use it, and says
   what it did. limit_bytes 0: TDSL_CACHE_LIMIT. An entry that is removed is
   made again when it is needed. B09 if the folder cannot be used. */
TDSL_API tdsl_status_t tdsl_cache_maintain(tdsl_context_t *context,
                                           tdsl_cache_action_t action,
                                           uint64_t limit_bytes,
                                           uint32_t as_json,
                                           tdsl_text_fn_t text, void *user,
                                           tdsl_error_t **out_error);

/* ---- compilation --------------------------------------------------------- */

/* Text of module `name` imported by `from_file`: the callee stores text that
   lives until compilation returns, and returns 1; 0: not found. */
typedef int (*tdsl_import_fn_t)(tdsl_string_t name, tdsl_string_t from_file,
                                tdsl_string_t *out_file,
                                tdsl_string_t *out_text, void *user);

typedef struct tdsl_dim_value_t {
  tdsl_string_t name;
  int64_t value;
} tdsl_dim_value_t;

typedef enum tdsl_checks_t {
  TDSL_CHECKS_UNSET = 0,      /* entry */
  TDSL_CHECKS_NONE,           /* trust the caller */
  TDSL_CHECKS_ENTRY,          /* dims, bounds, require, `in` before a run */
  TDSL_CHECKS_ALL,            /* also subscripts, duplicate writes, assert */
  TDSL_CHECKS_FORCE32 = 0x7FFFFFFF
} tdsl_checks_t;

typedef struct tdsl_compile_desc_t {
  uint32_t struct_bytes;
  tdsl_checks_t checks;
  tdsl_string_t file;         /* path to read, or a name if text is given */
  tdsl_string_t text;         /* data NULL: read `file` */
  tdsl_string_t device;       /* "cpu", "interp", ...; empty: "cpu" */
  tdsl_string_t entry;        /* only this function; empty: all exported */
  tdsl_string_t config_file;  /* config.json, or empty */
  tdsl_string_t weights;      /* .safetensors or index.json: solves dims  */
  uint32_t library_count;
  const tdsl_string_t *libraries; /* include folders, searched in order */
  uint32_t dim_count;
  const tdsl_dim_value_t *dims;   /* as --dim */
  uint32_t axis_count;
  const tdsl_dim_value_t *axes;   /* mesh sizes, as --mesh */
  uint32_t mesh_none;         /* 1: all mesh axes are 1 */
  uint32_t plan_free;         /* 1: --plan=free; 2: --plan=serial */
  uint32_t tests;             /* 1: the functions `with test` as entries */
  tdsl_import_fn_t import;    /* asked before folders and the library */
  void *import_user;
  tdsl_diagnostic_fn_t diagnostic; /* each message as it is made */
  void *diagnostic_user;
  /* For an entry with generics: what its arguments are, by parameter. */
  uint32_t argument_count;
  const tdsl_dtype_t *argument_dtypes;
  const int32_t *argument_ranks;
  /* The same from values given as text; they win over the three above. */
  const tdsl_inputs_t *inputs;
  tdsl_string_t disable_passes; /* comma-separated, as TDSL_DISABLE_PASS */
  tdsl_string_t stop_after;   /* pass name, or empty: TDSL_STOP_AFTER */
  /* Where an internal error leaves sources, IR and a command that shows it;
     empty: TDSL_REPRO_DIR, or nowhere. */
  tdsl_string_t reproducer_dir;
  /* Folder that receives IR, kernels, plan, memory and remarks of the
     compile; empty: TDSL_DUMP_DIR, or nowhere. */
  tdsl_string_t trace_dir;
  /* File of measured tile sizes; empty: TDSL_TUNING, or none. Its contents
     instead if tuning_text.data is not NULL, none if they are empty. W07 if
     it cannot be used. It changes speed, never a bit. since 0.1 */
  tdsl_string_t tuning, tuning_text;
} tdsl_compile_desc_t;

#ifdef __cplusplus
#define TDSL_COMPILE_DESC_INIT tdsl_compile_desc_init()
static inline tdsl_compile_desc_t tdsl_compile_desc_init() {
  tdsl_compile_desc_t desc = tdsl_compile_desc_t();
  desc.struct_bytes = sizeof desc;
  return desc;
}
#else
#define TDSL_COMPILE_DESC_INIT { .struct_bytes = sizeof(tdsl_compile_desc_t) }
#endif

/* Parses and checks only; warnings and errors go to desc->diagnostic. */
TDSL_API tdsl_status_t tdsl_program_check(tdsl_context_t *context,
                                          const tdsl_compile_desc_t *desc,
                                          tdsl_error_t **out_error);
/* Functions of the file itself: name, whether it is exported and whether it
   is a test, in text order. Parses only. */
typedef void (*tdsl_function_fn_t)(tdsl_string_t name, uint32_t is_exported,
                                   uint32_t is_test, void *user);
TDSL_API tdsl_status_t tdsl_source_list(tdsl_context_t *context,
                                        const tdsl_compile_desc_t *desc,
                                        tdsl_function_fn_t function,
                                        void *user,
                                        tdsl_error_t **out_error);
/* All the way to a program that can be loaded on the device named. */
TDSL_API tdsl_status_t tdsl_program_compile(tdsl_context_t *context,
                                            const tdsl_compile_desc_t *desc,
                                            tdsl_program_t **out_program,
                                            tdsl_error_t **out_error);
TDSL_API void tdsl_program_retain(tdsl_program_t *program);
TDSL_API void tdsl_program_release(tdsl_program_t *program);

/* STAGE is one of the closed list that tdsl_stage_get_list returns ("tir",
   "tir-after=fuse", "kir", "llvm", ...); kernel may be empty. */
TDSL_API tdsl_status_t tdsl_program_dump(tdsl_context_t *context,
                                         const tdsl_compile_desc_t *desc,
                                         tdsl_string_t stage,
                                         tdsl_string_t kernel,
                                         tdsl_text_fn_t text, void *user,
                                         tdsl_error_t **out_error);
/* Names of the stages, one a line; PASS stands for the name of a pass. */
TDSL_API tdsl_string_t tdsl_stage_get_list(void);

/* Canonical layout of a source text; comments are kept. */
TDSL_API tdsl_status_t tdsl_source_format(tdsl_context_t *context,
                                          tdsl_string_t file,
                                          tdsl_string_t source,
                                          tdsl_text_fn_t text, void *user,
                                          tdsl_error_t **out_error);

/* ---- entry points -------------------------------------------------------- */

typedef enum tdsl_slot_kind_t {
  TDSL_SLOT_UNSET = 0,
  TDSL_SLOT_IN,
  TDSL_SLOT_OUT,
  TDSL_SLOT_INOUT,
  TDSL_SLOT_KIND_FORCE32 = 0x7FFFFFFF
} tdsl_slot_kind_t;

enum { TDSL_MAX_RANK = 12 };

/* One tensor or scalar of an entry point: parameters as declared, then
   results; structs are flattened to dotted leaves, stacks are leading dims.
   Borrowed from the program. */
typedef struct tdsl_slot_t {
  tdsl_string_t name;         /* "m.blk.wq" */
  tdsl_slot_kind_t kind;
  tdsl_dtype_t dtype;
  uint32_t rank;              /* 0: a scalar */
  uint32_t has_default;       /* may be left out */
  uint32_t is_weight;         /* has a checkpoint name */
  int32_t else_slot;          /* slot that serves when left out, or -1 */
  tdsl_string_t dim_text[TDSL_MAX_RANK]; /* "L", "T + 1" */
  int64_t dim_value[TDSL_MAX_RANK];      /* static value, or -1 */
  int64_t dim_bound[TDSL_MAX_RANK];      /* largest value */
  int64_t lo, hi;             /* integers: lo <= v < hi; lo = hi: no range */
  tdsl_string_t file_pattern; /* checkpoint name with {}, or empty */
} tdsl_slot_t;

typedef struct tdsl_entry_t {
  tdsl_string_t name;
  uint32_t index;
  uint32_t slot_count;
  const tdsl_slot_t *slots;
  uint32_t is_test;
} tdsl_entry_t;

TDSL_API uint32_t tdsl_program_get_entry_count(const tdsl_program_t *program);
TDSL_API const tdsl_entry_t *tdsl_program_get_entry(
    const tdsl_program_t *program, uint32_t index);
/* NULL if there is none of that name. */
TDSL_API const tdsl_entry_t *tdsl_program_find_entry(
    const tdsl_program_t *program, tdsl_string_t name);

#ifdef __cplusplus
}
#endif

#endif
