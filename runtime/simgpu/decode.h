/* PTX made executable. Every instruction becomes one fixed record whose
   operands are byte offsets into the warp's register block, where 32 lanes
   lie side by side. Immediates and special registers are rows of that block
   too, so a handler never asks what kind of operand it has.

   A kernel owns the code of its entry and of everything it calls; calls have
   no recursion, so each function's registers and parameters have fixed
   places. Decoded kernels are immutable and shared by all host threads. */
#ifndef SIM_DECODE_H
#define SIM_DECODE_H

#include "runtime/simgpu/ptx_parse.h"

#define SIM_MAX_CALLS 32 /* nested calls; deeper ones are refused */

typedef struct sim_warp_t sim_warp_t;
typedef struct sim_ins_t sim_ins_t;

/* Executes one instruction for the lanes of mask; returns the next one, or
   NULL when the warp must stop (its own pc is then already set). */
typedef const sim_ins_t *(*sim_fn_t)(sim_warp_t *w, const sim_ins_t *ins,
                                     uint32_t mask);

/* Handlers, in the order of handlers.def. */
typedef enum sim_handler_t {
#define SIM_HANDLER(name, propagation) SIM_H_##name,
#include "runtime/simgpu/handlers.def"
#undef SIM_HANDLER
  SIM_HANDLER_COUNT
} sim_handler_t;

/* How undefinedness passes through an instruction; see undef.c. */
typedef enum sim_prop_t {
  SIM_PROP_none, /* no destination register */
  SIM_PROP_all,  /* any undefined bit of a source spoils the result */
  SIM_PROP_copy, /* byte by byte */
  SIM_PROP_and,
  SIM_PROP_or,
  SIM_PROP_shl,
  SIM_PROP_shr,
  SIM_PROP_prmt,
  SIM_PROP_funnel,
  SIM_PROP_bfe,
  SIM_PROP_bfi,
  SIM_PROP_select,
  SIM_PROP_halves, /* each 16-bit half on its own */
  SIM_PROP_pack,
  SIM_PROP_unpack,
  SIM_PROP_pred,   /* destination is a predicate */
  SIM_PROP_clear,  /* the result is defined whatever the sources */
  SIM_PROP_operands, /* as clear, and every source must be defined */
  SIM_PROP_exchange, /* between lanes: the handler does it */
  SIM_PROP_memory  /* likewise; operand a is an address */
} sim_prop_t;

/* Classes of the instruction mix. */
typedef enum sim_class_t {
#define SIM_CLASS(id, text) SIM_CLASS_##id,
#include "runtime/simgpu/counters.def"
#undef SIM_CLASS
  SIM_CLASS_COUNT
} sim_class_t;

/* Bits of sim_ins_t.mods, from the qualifiers. */
enum {
  SIM_ROUND_MASK = 7, /* sim_round_t */
  SIM_MOD_FTZ = 1 << 3,
  SIM_MOD_SAT = 1 << 4,
  SIM_MOD_NAN = 1 << 5,
  SIM_MOD_RELU = 1 << 6,
  SIM_MOD_SATFINITE = 1 << 7,
  SIM_MOD_APPROX = 1 << 8,
  SIM_MOD_XORSIGN = 1 << 9,
  SIM_MOD_CC = 1 << 10,
  SIM_MOD_WRAP = 1 << 11,
  SIM_MOD_TRANS = 1 << 12,
  SIM_MOD_NC = 1 << 13,     /* ld through the read-only path */
  SIM_MOD_STRONG = 1 << 14, /* volatile, relaxed, acquire, release */
  SIM_MOD_ACQUIRE = 1 << 15,
  SIM_MOD_RELEASE = 1 << 16,
  SIM_MOD_ALIGNED = 1 << 17,
  SIM_MOD_SHIFTAMT = 1 << 18,
  SIM_MOD_SIGNED = 1 << 19,
  SIM_MOD_UNI = 1 << 20,
  SIM_MOD_NEG_C = 1 << 21,  /* predicate operand c is negated */
  SIM_MOD_PAIR = 1 << 22,   /* second destination in e */
  SIM_MOD_FULL = 1 << 23,   /* div.full */
  SIM_MOD_NEG_A = 1 << 24,
  SIM_MOD_WIDE_ADDRESS = 1 << 25, /* the address row holds 64 bits */
  SIM_MOD_CLUSTER = 1 << 26,
  SIM_MOD_SHARED_SIDE = 1 << 27,
  SIM_MOD_VOLATILE = 1 << 28,
  SIM_MOD_CTA_SCOPE = 1 << 29 /* no wider than the CTA */
};

typedef enum sim_round_t {
  SIM_RN, /* to nearest, ties to even: the default */
  SIM_RZ,
  SIM_RM, /* down */
  SIM_RP, /* up */
  SIM_RNA /* to nearest, ties away */
} sim_round_t;

typedef enum sim_compare_t {
  SIM_EQ, SIM_NE, SIM_LT, SIM_LE, SIM_GT, SIM_GE,
  SIM_EQU, SIM_NEU, SIM_LTU, SIM_LEU, SIM_GTU, SIM_GEU,
  SIM_NUM, SIM_ISNAN
} sim_compare_t;

typedef enum sim_bool_t {
  SIM_BOOL_NONE, SIM_BOOL_AND, SIM_BOOL_OR, SIM_BOOL_XOR
} sim_bool_t;

typedef enum sim_atom_t {
  SIM_ATOM_ADD, SIM_ATOM_MIN, SIM_ATOM_MAX, SIM_ATOM_INC, SIM_ATOM_DEC,
  SIM_ATOM_AND, SIM_ATOM_OR, SIM_ATOM_XOR, SIM_ATOM_EXCH, SIM_ATOM_CAS
} sim_atom_t;

/* What a fence orders: 0 is everything, up to other CTAs. */
enum { SIM_FENCE_CTA = 1, SIM_FENCE_NONE = 2 /* proxies alone */ };

/* Width class of a row, in the low two bits of an operand while decoding and
   of entries of the operand lists always. */
enum {
  SIM_ROW_NONE = 0,
  SIM_ROW_32 = 1,  /* 128 bytes; also holds 8 and 16 bits */
  SIM_ROW_64 = 2,  /* 256 bytes */
  SIM_ROW_PRED = 3 /* one 32-bit mask */
};

/* Which slots an instruction writes. */
enum { SIM_WRITES_D = 1, SIM_WRITES_E = 2 };

struct sim_ins_t {
  sim_fn_t fn;
  uint32_t guard, flip;    /* lanes: active & (mask at guard ^ flip) */
  uint32_t d, a, b, c, e;  /* offsets into the register block */
  uint32_t list;           /* first entry in the kernel's lists */
  uint16_t count;          /* entries */
  uint16_t list_writes;    /* the first of them are destinations */
  uint32_t mods;
  uint32_t target, reconv; /* code indices of branches and calls */
  uint64_t imm;            /* address offset, sub-operation, ... */
  uint32_t line;           /* PTX line */
  uint32_t loc;            /* in the module's locs */
  uint32_t name;           /* index into the kernel's names: mnemonic */
  uint16_t handler;
  uint16_t kinds;          /* 2 bits a slot: d a b c e */
  uint8_t cls, flops;      /* for one lane */
  uint8_t is_guarded, writes;
  uint8_t bytes, lanes;    /* memory: of one element; elements of a vector */
  uint8_t type, type2;     /* ptx_type_t where the handler needs it */
  uint8_t space;           /* ptx_space_t */
  uint8_t sub;             /* sim_compare_t, sim_atom_t, ... */
  uint8_t sub2;            /* sim_bool_t, ... */
  uint8_t is_block;        /* starts a basic block */
  uint32_t memory;         /* number among the loads, stores and atomics */
};

static inline unsigned sim_kind(const sim_ins_t *ins, int slot) {
  return (unsigned)(ins->kinds >> (slot * 2)) & 3u;
}

/* A row filled when a launch prepares its register blocks. */
typedef enum sim_const_kind_t {
  SIM_CONST_VALUE,
  SIM_CONST_SHARED, /* value + start of shared memory */
  SIM_CONST_DYNAMIC, /* value + start of dynamic shared memory */
  SIM_CONST_PARAM,  /* value + address of the parameter copy */
  SIM_CONST_SPECIAL /* value = ptx_special_t */
} sim_const_kind_t;

typedef struct sim_const_t {
  uint32_t offset;
  uint8_t row; /* SIM_ROW_* */
  uint8_t kind;
  uint64_t value;
} sim_const_t;

/* A basic block: its instruction mix, counted when it is executed. */
typedef struct sim_block_t {
  uint32_t first, count;  /* code, without the record that starts it */
  uint32_t ipdom;         /* code index of the reconvergence point */
  uint16_t unguarded;     /* instructions that all active lanes execute */
  TD_VEC(uint32_t) mix;   /* class << 16 | count, of all instructions */
  uint32_t flops[3];      /* f32, f16, f64 of one lane, unguarded */
  uint16_t sfu[8];        /* in the order of counters.def */
} sim_block_t;

typedef struct sim_kernel_t {
  const char *name;
  const ptx_module_t *module;
  const ptx_func_t *func;
  td_arena_t *arena;
  sim_ins_t *code;
  uint32_t code_count;
  uint32_t entry;         /* code index of the first instruction */
  TD_VEC(uint32_t) lists;
  TD_VEC(td_str_t) names;
  TD_VEC(uint32_t) forms; /* rows of ptx_ops.def that it uses */
  TD_VEC(sim_const_t) consts;
  TD_VEC(sim_block_t) blocks;
  TD_VEC(uint32_t) undefined; /* rows that may be read before written:
                                 offset | class */
  uint32_t block_bytes;   /* register block */
  uint32_t pred_bytes;    /* of it, the masks at its start */
  uint32_t static_shared, shared_align, dynamic_align;
  uint32_t local_bytes;   /* of one lane */
  uint32_t registers;     /* of a thread */
  bool is_assembled;      /* as an assembler said; else estimated */
  uint32_t barriers;      /* mask of ids used; all of them if dynamic */
  uint32_t memory_count;
  bool is_communicating;  /* CTAs talk through global memory */
  bool has_partial_barrier; /* a barrier with a thread count */
  bool has_flags;         /* warps of a CTA may talk through memory */
  bool has_trigger;       /* lets launches that depend on it begin early */
  bool has_cluster;       /* touches another CTA */
  bool has_async;         /* copies that complete later */
  bool has_mbar;
  bool has_warpgroup;     /* wgmma, setmaxnreg */
  bool has_proxy;         /* some go through the async proxy */
} sim_kernel_t;

/* Decodes an entry of the module for a target of compute capability cc (90).
   variant: a table of SIM_HANDLER_COUNT functions. NULL with *error filled if
   something is not known or not legal there. */
sim_kernel_t *sim_decode(td_task_t *task, td_arena_t *arena,
                         const ptx_module_t *module, const ptx_func_t *func,
                         uint32_t cc, const sim_fn_t *variant,
                         ptx_error_t *error);

/* Handler tables by the host's instruction set: level 2, 3 or 4 of x86-64, or
   0 for the best one here. */
const sim_fn_t *sim_variant(unsigned wanted);
const char *sim_variant_name(unsigned wanted);
bool sim_variant_exists(unsigned wanted);

enum { SIM_MOST_REGISTERS = 255 }; /* of a thread, on all machines */

/* The most registers a thread may have by the kernel's directives. */
uint32_t sim_register_limit(const ptx_func_t *func);

const char *sim_handler_name(uint16_t handler);
/* Which special function, in the order of counters.def; -1: none. */
int sim_special_of(uint16_t handler);
sim_prop_t sim_handler_prop(uint16_t handler);
const char *sim_class_name(unsigned cls);

#endif
