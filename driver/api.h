/* api.h: what the files behind the public API share.
 *
 * One file a noun: api_context, api_error, api_source, api_compile,
 * api_program, api_buffer, api_inputs, api_executable, api_run, ...  Every
 * public function that can fail goes through drv_call, which owns the task of
 * the call and is the only place that unwinding reaches.
 *
 * Objects are counted; each keeps its context alive, so the order in which a
 * host lets go of them does not matter.  What an object owns lies in an arena
 * of its own that is detached between calls, or in loose memory of the host's
 * allocator. */
#ifndef DRIVER_API_H
#define DRIVER_API_H

#include <stdatomic.h>

#include <tdsl/tdsl.h>

#include "frontend/parse.h"
#include "frontend/sem.h"
#include "ir/tir.h"
#include "runtime/base/os.h"
#include "runtime/hal/cache.h"
#include "runtime/hal/exec.h"
#include "runtime/hal/trace.h"
#include "runtime/io/config.h"
#include "runtime/io/shards.h"
#include "runtime/io/values.h"
#include "runtime/plan/plan.h"

/* Devices of runtime/hal that a context may have. */
typedef enum drv_hal {
  DRV_HAL_CPU,
  DRV_HAL_KIR,
  DRV_HAL_NULL,
  DRV_HAL_CUDA,
  DRV_HAL_SIM, /* the same on a simulated driver */
  DRV_HAL_COUNT,
} drv_hal_t;

typedef struct drv_cache drv_cache_t;   /* api_cache.h */
typedef struct drv_object drv_object_t; /* the same */
typedef struct drv_store drv_store_t;   /* api_weights.h */
typedef struct drv_variant drv_variant_t; /* api_variant.c */
struct drv_tuning;                        /* api_tuning.h */

/* ---- context ------------------------------------------------------------ */

struct tdsl_context {
  atomic_uint references; /* the host's, and one of each object */
  td_host_t host;
  uint32_t thread_count;
  tdsl_diagnostic_fn_t diagnostic;
  void *diagnostic_user;
  td_mutex_t lock; /* over the two below */
  hal_device_t *devices[DRV_HAL_COUNT]; /* made on first use */
  const char *gpu_machine; /* DRV_HAL_SIM and DRV_HAL_CUDA: which one it is */
  uint32_t gpu_count, gpu_ordinal;
  drv_cache_t *cache;
  hal_cache_mode_t disk_mode; /* of the kernel cache on disk */
  char *disk_folder;          /* the host's choice, or NULL */
  size_t disk_folder_bytes;
  hal_cache_t *disk;          /* opened with the first device, or NULL */
  bool has_disk;              /* it was tried */
};

void drv_context_retain(tdsl_context_t *context);
void drv_context_release(tdsl_context_t *context);

/* Memory outside arenas, zeroed, for objects; NULL when there is none. */
void *drv_alloc(tdsl_context_t *context, size_t bytes);
void drv_free(tdsl_context_t *context, void *data, size_t bytes);

/* One public call. diagnostic NULL: the context's. */
typedef struct drv_call {
  tdsl_context_t *context;
  tdsl_diagnostic_fn_t diagnostic;
  void *diagnostic_user;
  /* Sources that reports of this call point into, or NULL. */
  const td_task_t *sources;
} drv_call_t;

typedef void (*drv_work_fn)(td_task_t *task, void *arg);

/* Runs work on a task of its own; delivers diagnostics; the status is that of
 * the unwinding or of the first error reported.  out_error may be NULL. */
tdsl_status_t drv_call(const drv_call_t *call, drv_work_fn work, void *arg,
                       tdsl_error_t **out_error);
/* The same on a task that outlives the call (a program's). */
tdsl_status_t drv_call_on(td_task_t *task, const drv_call_t *call,
                          drv_work_fn work, void *arg,
                          tdsl_error_t **out_error);
/* A refused argument where there is no task: status and message. */
tdsl_status_t drv_refuse(tdsl_context_t *context, tdsl_status_t status,
                         const char *message, tdsl_error_t **out_error);
/* The folder that an error's report was written to. */
void drv_error_note(tdsl_error_t *error, const char *folder);
/* Writes what a report of an internal error needs; false if it could not. */
bool drv_reproduce(tdsl_context_t *context, const tdsl_compile_desc_t *desc,
                   const char *folder, const char *message);
/* struct_bytes of a descriptor is one that this library knows. */
bool drv_is_known(uint32_t struct_bytes, size_t known);

/* ---- sources and compilation -------------------------------------------- */

typedef enum drv_engine {
  DRV_INTERP, /* TIR interpreter; mode says f32 or f64 */
  DRV_PLAN,   /* a PLAN on a device of runtime/hal */
} drv_engine_t;

/* A device string taken apart. */
typedef struct drv_device {
  drv_engine_t engine;
  tir_mode_t mode;
  drv_hal_t hal;      /* DRV_PLAN */
  const char *target; /* machine row, or "" for the host's */
  uint32_t ordinal;   /* DRV_HAL_CUDA */
  uint32_t count;     /* DRV_HAL_SIM: devices, and of which kind */
  const char *machine;
} drv_device_t;

/* B03 for an unknown one, B02 and B04 for one that is not here. */
bool drv_device_parse(td_task_t *task, td_arena_t *arena, td_str_t text,
                      drv_device_t *out);

/* State of one compilation; its texts live in `arena`. */
typedef struct drv_compile {
  tdsl_context_t *context;
  const tdsl_compile_desc_t *desc; /* complete: of this library's size */
  td_task_t *task;
  td_arena_t *arena;
  drv_device_t device;
  tdsl_checks_t checks;
  td_map_t files;       /* path -> number of the source (as pointer) */
  io_config_t config;
  bool has_config;
  uint32_t source;
  const ast_file_t *ast;
  /* A variant is made of what this program was made of, or NULL. */
  const tdsl_program_t *origin;
  td_map_t imports;     /* "FILE NAME" -> number of the source */
  uint32_t arg_count;   /* what the entry's arguments are, by parameter */
  const tdsl_dtype_t *arg_dtypes;
  const int32_t *arg_ranks;
  uint32_t dim_count;   /* of desc, then those solved from the weights */
  const sem_dim_value_t *dims;
  sem_program_t *sem;
  const sem_func_t *const *funcs; /* of the module's functions */
  tir_module_t *tir;
} drv_compile_t;

/* The descriptor as one of this library's size; false: unknown size. */
bool drv_desc_read(const tdsl_compile_desc_t *desc, tdsl_compile_desc_t *out);
void drv_compile_init(drv_compile_t *c, td_task_t *task, td_arena_t *arena,
                      tdsl_context_t *context,
                      const tdsl_compile_desc_t *desc);
/* Each step needs the ones before; false after diagnostics. */
bool drv_compile_source(drv_compile_t *c);  /* c->source */
bool drv_compile_parse(drv_compile_t *c);   /* c->ast */
bool drv_compile_check(drv_compile_t *c, bool need_values); /* c->sem */
bool drv_compile_lower(drv_compile_t *c);   /* c->tir */
/* All of them. */
bool drv_compile_all(drv_compile_t *c);
/* Gives static dims without value those that the weights decide. */
bool drv_compile_solve(drv_compile_t *c);

/* Callbacks of sem_check; user is the drv_compile_t. */
uint32_t drv_import(void *user, td_task_t *task, uint32_t from_file,
                    const char *name);
bool drv_config(void *user, const char *key, bool *out_is_int,
                int64_t *out_int, double *out_float);
bool drv_config_read(drv_compile_t *c);

/* ---- programs ------------------------------------------------------------ */

struct tdsl_program {
  atomic_uint references;
  tdsl_context_t *context;
  /* Alive as long as the program: names of the IR are interned in it. */
  td_task_t task;
  td_arena_t arena;
  drv_device_t device;
  tdsl_checks_t checks;
  tdsl_compile_desc_t desc;  /* what a variant needs of it, in the arena */
  const drv_compile_t *made; /* the compilation, for its sources */
  tir_module_t *tir;   /* DRV_INTERP, and checked programs */
  const plan_t *plan;  /* DRV_PLAN, and what follows */
  const struct drv_tuning *tuning; /* what it was compiled with, or NULL */
  hal_device_t *hal;
  hal_program_t *loaded;
  uint32_t object_count;
  drv_object_t **objects; /* machine code of the plan */
  const sem_program_t *sem;     /* for checkpoint fields */
  const sem_func_t *const *funcs; /* by entry */
  td_arena_t weights;  /* detached; checkpoints */
  drv_store_t *stores; /* checkpoints opened so far; context lock */
  uint32_t entry_count;
  const plan_entry_t *plans; /* interface of each entry, for any engine */
  tdsl_entry_t *entries;
};

/* tdsl_program_compile for a descriptor that is complete; origin may be
 * NULL. */
tdsl_status_t drv_program_create(tdsl_context_t *context,
                                 const tdsl_compile_desc_t *desc,
                                 const tdsl_program_t *origin,
                                 tdsl_program_t **out_program,
                                 tdsl_error_t **out_error);
/* Makes the program from what was compiled, for its device. */
void drv_program_build(tdsl_program_t *program, drv_compile_t *c);
/* The part of it for plans; false after diagnostics. */
bool drv_program_load(tdsl_program_t *program, drv_compile_t *c);
void drv_program_unload(tdsl_program_t *program);
/* NULL after diagnostics. */
hal_device_t *drv_device_open(td_task_t *task, tdsl_context_t *context,
                              const drv_device_t *device);
/* At the end of a context. */
void drv_devices_close(tdsl_context_t *context);
hal_checks_t drv_hal_checks(tdsl_checks_t checks);
/* Public descriptions from the interfaces. */
void drv_program_describe(tdsl_program_t *program);

/* ---- buffers ------------------------------------------------------------- */

typedef enum drv_memory {
  DRV_MEMORY_OWN,    /* drv_alloc'ed */
  DRV_MEMORY_HOST,   /* the caller's */
  DRV_MEMORY_DLPACK, /* kept by a managed tensor */
  DRV_MEMORY_MAPPED, /* inside a file that something else keeps mapped */
} drv_memory_t;

struct tdsl_buffer {
  atomic_uint references;
  tdsl_context_t *context;
  tdsl_tensor_desc_t desc;
  tdsl_dtype_t declared; /* of a result that is held wider, else UNSET */
  void *data;            /* 16-aligned */
  size_t bytes;
  drv_memory_t memory;
  void *owned;           /* what to free; DLPACK: the managed tensor */
  size_t owned_bytes;
  bool is_versioned, is_readonly;
  /* api_mirror.c */
  hal_device_t *device;  /* where device_data is */
  void *device_data;     /* or NULL */
  bool device_is_current;
  atomic_bool host_is_old;
  bool is_exposed;       /* a host has a pointer to data */
  bool is_resident;      /* and has promised to ask for it anew */
};

/* data made current; false if the device has failed.  Whoever reads data
 * calls it first. */
bool drv_buffer_fetch(tdsl_buffer_t *buffer);
/* The same; unwinds with the device's words. */
void drv_buffer_bring(td_task_t *task, tdsl_buffer_t *buffer);
/* The same for the library to write to before the next run; NULL: it failed. */
void *drv_buffer_open(tdsl_buffer_t *buffer);
/* data for somebody who may keep the pointer; NULL if the device failed. */
void *drv_buffer_expose(tdsl_buffer_t *buffer);
/* Ends the copy on a device. */
void drv_buffer_unplace(tdsl_buffer_t *buffer);
/* Before a run on the device (NULL: an interpreter): sets arg->device_data
 * where the contents stay there, else makes data current.  on_host: data is
 * looked at besides.  Returns how many bytes were copied to the device. */
size_t drv_buffer_use(td_task_t *task, tdsl_buffer_t *buffer,
                      hal_device_t *device, const plan_slot_t *slot,
                      bool on_host, hal_arg_t *arg);
/* After it. */
void drv_buffer_used(tdsl_buffer_t *buffer, const plan_slot_t *slot,
                     bool is_good);

/* False if the size overflows. */
bool drv_tensor_bytes(const tdsl_tensor_desc_t *desc, size_t *out_count,
                      size_t *out_bytes);
/* Zeroed, 64-aligned; out of memory unwinds. */
tdsl_buffer_t *drv_buffer_new(td_task_t *task, tdsl_context_t *context,
                              const tdsl_tensor_desc_t *desc);
tdsl_buffer_t *drv_buffer_wrap(td_task_t *task, tdsl_context_t *context,
                               const tdsl_tensor_desc_t *desc, void *data,
                               drv_memory_t memory);
/* Calls the deleter of the managed tensor behind a DLPack buffer. */
void drv_dlpack_drop(tdsl_buffer_t *buffer);
/* As formats see it; borrows the data, which is fetched. */
void drv_buffer_tensor(td_task_t *task, tdsl_buffer_t *buffer,
                       io_tensor_t *out);

/* ---- inputs -------------------------------------------------------------- */

struct tdsl_inputs {
  tdsl_context_t *context;
  td_arena_t arena;
  TD_VEC(io_input_t) list;
};

/* What is known of parameter NAME without running anything: its dtype (UNSET
 * unknown) and rank (-1 unknown). */
void drv_inputs_kind(const tdsl_inputs_t *inputs, td_str_t name,
                     tdsl_dtype_t *out_dtype, int32_t *out_rank);

/* ---- executables, runs --------------------------------------------------- */

struct tdsl_executable {
  atomic_uint references;
  tdsl_program_t *program;
  uint32_t index;        /* of the entry */
  td_arena_t arena;      /* detached */
  tdsl_buffer_t **weights; /* by slot; NULL before any are bound */
  uint64_t weights_number; /* of the binding: 1, 2, ...; 0: none */
  _Atomic(drv_variant_t *) variants; /* newest first; only ever added to */
};

/* One argument: a buffer, or a scalar by value. */
typedef struct drv_arg {
  tdsl_buffer_t *buffer;
  bool is_value;
  plan_number_t number;
} drv_arg_t;

/* Takes the caller's reference of buffer, which may be NULL. */
void drv_arg_set(drv_arg_t *arg, tdsl_buffer_t *buffer);
void drv_weights_release(tdsl_executable_t *exe);
void drv_stores_close(tdsl_program_t *program);

/* The executor of the general program or of a variant. */
typedef struct drv_exec {
  struct drv_exec *next;
  const tdsl_program_t *program;
  hal_exec_t *exec;
} drv_exec_t;
void drv_execs_release(tdsl_run_t *run);

void drv_variants_release(tdsl_executable_t *exe);
/* The variant for these dims of the general entry, NULL if there is none. */
const tdsl_program_t *drv_variant_choose(const tdsl_executable_t *exe,
                                         const int64_t *dims,
                                         const bool *bound);

struct tdsl_run {
  tdsl_executable_t *exe;
  td_arena_t arena;      /* detached; args and tables */
  drv_arg_t *args;       /* by slot, as the host set them */
  tdsl_buffer_t **results; /* OUT made by us; INOUT of interp:f64 */
  hal_binding_t binding; /* DRV_INTERP: tables of the entry check */
  drv_exec_t *execs;     /* DRV_PLAN; one for each program used so far */
  hal_trace_t *trace;    /* NULL: not measured */
  bool has_counters;     /* of the launches from first_launch on */
  size_t first_launch;
  bool has_run;
  size_t placed_bytes;   /* copied to the device for what stays there */
  tdsl_run_stats_t stats;
};

/* Arguments as set, then weights; by slot. */
void drv_run_args(tdsl_run_t *run, hal_arg_t *args);
/* Buffers stay on the device where they may: before the run, when results
 * have memory, and after it. */
void drv_run_place(td_task_t *task, tdsl_run_t *run, hal_arg_t *args);
void drv_run_placed(tdsl_run_t *run, const hal_arg_t *args, bool is_good);
/* Memory for result s, that of the last run if nobody else holds it. */
tdsl_buffer_t *drv_run_result(td_task_t *task, tdsl_run_t *run, uint32_t s,
                              const tdsl_tensor_desc_t *desc);
bool drv_run_interp(td_task_t *task, td_arena_t *arena, tdsl_run_t *run,
                    const hal_arg_t *args);
/* Completes args by memory for results. */
bool drv_run_plan(td_task_t *task, td_arena_t *arena, tdsl_run_t *run,
                  hal_arg_t *args);
/* Checked programs: keeps the tensor IR and lowers anew for the passes; runs
 * the interpreter's checks in front of compiled code.  Both do nothing under
 * other checks. */
bool drv_checked_keep(tdsl_program_t *program, drv_compile_t *c);
bool drv_checked_run(td_task_t *task, tdsl_run_t *run, const hal_arg_t *args,
                     const int64_t *preset);

/* Binds what the arguments given so far determine; bound says which.
 * Reports nothing. */
void drv_entry_bind(const plan_entry_t *entry, const hal_arg_t *args,
                    int64_t *dims, bool *bound);
/* Values of dims that no rule of the entry binds, for hal_bind; NULL: rules
 * bind all of them. */
const int64_t *drv_entry_preset(td_arena_t *arena, const plan_entry_t *entry,
                                const hal_arg_t *args);
/* Dims of a slot under bound dims; false if one is unknown. */
bool drv_slot_dims(const plan_entry_t *entry, const plan_slot_t *slot,
                   const int64_t *dims, const bool *bound,
                   tdsl_tensor_desc_t *out);

#endif
