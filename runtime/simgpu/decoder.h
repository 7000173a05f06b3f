/* State of one decoding, shared by decode.c (names, operands, simple forms),
   decode_forms.c (forms with a function of their own) and flow.c (blocks,
   live ranges, final offsets).

   While decoding, an operand is `row number << 2 | class`: rows are the
   registers of all functions, constants and special registers. flow.c turns
   them into byte offsets. */
#ifndef SIM_DECODER_H
#define SIM_DECODER_H

#include "runtime/simgpu/match.h"

typedef enum sim_row_kind_t {
  SIM_ROWKIND_REG,
  SIM_ROWKIND_CONST
} sim_row_kind_t;

typedef struct sim_row_t {
  uint8_t cls;    /* SIM_ROW_* */
  uint8_t kind;   /* sim_row_kind_t */
  uint8_t source; /* sim_const_kind_t of constants */
  bool is_used;
  bool is_read;   /* by some instruction */
  bool is_pinned; /* of a wgmma: shares its place with no other */
  uint64_t value;
  uint32_t offset; /* final */
  uint32_t start, end; /* live range in positions, UINT32_MAX: none */
} sim_row_t;

/* A function whose code the kernel holds. */
typedef struct sim_part_t {
  ptx_func_t *func;
  uint32_t first_row; /* of its registers */
  uint32_t code, code_end;
  uint32_t block, block_end; /* its blocks */
  TD_VEC(uint32_t) calls;    /* parts it calls */
} sim_part_t;

typedef struct sim_named_t {
  sim_form_t form;
  uint32_t mods;
  uint8_t sub, sub2;
  uint32_t name; /* in the kernel's names */
} sim_named_t;

typedef struct sim_decoder_t {
  td_task_t *task;
  td_arena_t *arena;   /* of the kernel */
  td_arena_t *scratch; /* dropped afterwards */
  sim_kernel_t *kernel;
  const ptx_module_t *module;
  uint32_t cc;
  const sim_fn_t *variant;
  ptx_error_t *error;
  TD_VEC(sim_row_t) rows;
  td_map_t consts; /* (source, class, value) -> row + 1 */
  td_map_t named;  /* mnemonic -> sim_named_t */
  TD_VEC(sim_part_t) parts;
  td_map_t part_of; /* function -> part + 1 */
  TD_VEC(sim_ins_t) code;
  /* The instruction at hand. */
  uint32_t part;
  ptx_func_t *func;
  const ptx_ins_t *ptx;
  const sim_named_t *op;
  sim_ins_t ins;
  TD_VEC(uint32_t) atoms; /* code of atomics whose result may matter */
} sim_decoder_t;

bool sim_decode_fail(sim_decoder_t *d, const char *format, ...)
    TD_PRINTF(2, 3);
#define SIM_FAIL(d, ...) (sim_decode_fail((d), __VA_ARGS__), false)

/* Top-level operand n of the instruction, or NULL. */
const ptx_operand_t *sim_operand(const sim_decoder_t *d, uint32_t n);
/* Encodes a source of the type; 0 with an error on a mismatch. */
uint32_t sim_source(sim_decoder_t *d, const ptx_operand_t *o,
                    ptx_type_t type);
/* The same for a destination; a sink gives a row that nobody reads. */
uint32_t sim_dest(sim_decoder_t *d, const ptx_operand_t *o, ptx_type_t type);
/* A register of any width, or a constant of the type. */
uint32_t sim_loose(sim_decoder_t *d, const ptx_operand_t *o,
                   ptx_type_t type);
uint32_t sim_const_row(sim_decoder_t *d, sim_const_kind_t source,
                       uint8_t cls, uint64_t value);
/* A predicate source; *negated tells of a '!'. */
uint32_t sim_pred_source(sim_decoder_t *d, const ptx_operand_t *o,
                         bool *negated);
/* Row for results that nobody reads. */
uint32_t sim_scratch_row(sim_decoder_t *d, uint8_t cls);
/* Address operand into slot a and imm. */
bool sim_address(sim_decoder_t *d, const ptx_operand_t *o);
void sim_slot(sim_decoder_t *d, int slot, uint32_t encoded);
void sim_list_push(sim_decoder_t *d, uint32_t value);
void sim_set_handler(sim_decoder_t *d, sim_handler_t handler);
uint8_t sim_class_of(ptx_type_t type);
/* The part of a function, decoded later if new. */
uint32_t sim_part(sim_decoder_t *d, ptx_func_t *func);
/* Gives a frame variable its place. */
bool sim_place_local(sim_decoder_t *d, ptx_var_t *var);

/* mapa, getctarank; barrier.cluster. */
bool sim_form_mapa(sim_decoder_t *d);
bool sim_form_cluster(sim_decoder_t *d);

/* Runs the function of a "!name" form. */
bool sim_decode_form(sim_decoder_t *d, const char *name);
/* The same for asynchronous forms; *known tells whether it is one. */
bool sim_async_form(sim_decoder_t *d, const char *name, bool *known);

/* Matrix instructions; *known tells whether the form is one. */
bool sim_decode_matrix(sim_decoder_t *d, const char *name, bool *known);

/* Blocks, reconvergence, live ranges, slots of registers; then sim_finish. */
bool sim_flow(sim_decoder_t *d);
/* Offsets and the kernel's properties; slots: how many of each class. */
bool sim_finish(sim_decoder_t *d, uint32_t slots[4]);
/* Every row an instruction touches, reads before writes. */
typedef void (*sim_visit_t)(void *arg, uint32_t encoded, bool is_write);
void sim_visit_rows(const sim_decoder_t *d, const sim_ins_t *i,
                    sim_visit_t fn, void *arg);
/* Starts of blocks of a part's function: n + 1 flags. */
uint8_t *sim_leaders(sim_decoder_t *d, const ptx_func_t *func);

#endif
