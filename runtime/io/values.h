/* Tensors, structs and whole cases in JSON, random inputs, and the forms that
   `tdslc run --in` takes. A TENSOR is {"dtype": "bf16", "shape": [2, 3],
   "data": [...]} in row-major order, with "inf", "-inf" and "nan" for
   themselves, or with "uniform": {"seed": s, "lo": a, "hi": b} instead of
   data; a struct is an object of its fields. Structs are flattened to leaves
   with dotted names. */
#ifndef IO_VALUES_H
#define IO_VALUES_H

#include "runtime/io/json.h"
#include "runtime/io/tensor.h"

/* One tensor or struct named `name`, appended to out as leaves; "" makes the
   fields themselves the names (an object of arguments). */
bool io_values_parse(td_task_t *task, td_arena_t *arena, uint32_t file,
                     td_str_t text, const char *name, io_leaves_t *out);
/* The same inside a document that is being read. */
bool io_values_next(io_json_t *j, const char *name, io_leaves_t *out);

/* -- inputs of the command line -- */

typedef enum io_input_kind_t {
  IO_INPUT_SCALAR, /* text: a number, true, false, inf, -inf, nan */
  IO_INPUT_LEAVES, /* from a file */
  IO_INPUT_RANDOM, /* seed */
} io_input_kind_t;

typedef struct io_input_t {
  io_input_kind_t kind;
  const char *name; /* "*": every parameter without a value; "@": the leaves'
                       names begin with parameters */
  const char *text;
  int64_t seed;
  io_leaves_t leaves;
} io_input_t;

/* NAME=VALUE, VALUE one of a scalar, F.npy, F.npz, F.json, an object in
   place, random:SEED; '@=case.json' reads a whole "args" object or the args
   of a case. A malformed form is R07. */
bool io_input_read(td_task_t *task, td_arena_t *arena, const char *spec,
                   io_input_t *out);

/* A scalar of rank 0 in this type; R07 names the parameter if the text does
   not fit it. */
bool io_scalar_parse(td_task_t *task, td_arena_t *arena, const char *name,
                     td_str_t text, tdsl_dtype_t dtype, io_tensor_t *out);

/* random:SEED for leaf number `leaf` of parameter number `param` (both from
   0); the tensor is allocated. The range is that of `in`, lo <= v < hi, used
   for integers only; an empty one is R04 unless the tensor is empty. */
bool io_random_fill(td_task_t *task, const char *name, io_tensor_t *tensor,
                    int64_t seed, int64_t param, int64_t leaf,
                    bool has_range, int64_t lo, int64_t hi);

/* -- results -- */

/* {"format": 1, "fn": F, "results": {...}, "state": {...}}; numbers have as
   many digits as identify the binary64 value. Leaves with a common prefix
   must be neighbours, as flattening leaves them. */
void io_results_put(td_buf_t *buf, const char *fn, const io_leaf_t *results,
                    size_t result_count, const io_leaf_t *state,
                    size_t state_count);
/* One TENSOR. */
void io_tensor_put(td_buf_t *buf, const io_leaf_t *leaf);

/* -- cases -- */

typedef struct io_named_int_t {
  const char *name;
  int64_t value;
} io_named_int_t;

/* |got - want| <= absolute + relative * |want| for the leaf of this path. */
typedef struct io_tolerance_t {
  const char *path;
  double absolute, relative;
} io_tolerance_t;

typedef struct io_case_t {
  const char *name, *fn;
  TD_VEC(io_named_int_t) dims;
  td_str_t config; /* JSON text; empty if there is none */
  io_leaves_t args, results, state;
  io_leaves_t sequence; /* f64 vectors: element i is the result of call i */
  TD_VEC(io_tolerance_t) tolerances;
} io_case_t;

typedef struct io_cases_t {
  const char *source; /* name of the program's file */
  TD_VEC(io_case_t) cases;
} io_cases_t;

/* A file of cases ("format": 1); the text must outlive the result. */
bool io_cases_parse(td_task_t *task, td_arena_t *arena, uint32_t file,
                    td_str_t text, io_cases_t *out);

#endif
