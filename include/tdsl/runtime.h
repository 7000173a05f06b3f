/* From a program to results: buffers, weights, executables, runs.

   Ownership and errors as in compile.h.  Threads: an executable is immutable
   once its weights are bound and may be shared; a run state belongs to one
   thread at a time; buffers are not locked by the library. */
#ifndef TDSL_RUNTIME_H
#define TDSL_RUNTIME_H

#include <tdsl/compile.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tdsl_buffer tdsl_buffer_t;
typedef struct tdsl_executable tdsl_executable_t;
typedef struct tdsl_run tdsl_run_t;

/* ---- buffers: dense, row-major, base aligned to 16 bytes ----------------- */

typedef struct tdsl_tensor_desc_t {
  tdsl_dtype_t dtype;
  uint32_t rank;
  int64_t dims[TDSL_MAX_RANK];
} tdsl_tensor_desc_t;

/* Zeroed memory of the library. */
TDSL_API tdsl_status_t tdsl_buffer_create(tdsl_context_t *context,
                                          const tdsl_tensor_desc_t *desc,
                                          tdsl_buffer_t **out_buffer,
                                          tdsl_error_t **out_error);
/* The caller's memory, which must outlive the buffer.  data_bytes must be
   exactly the tensor's; a misaligned base is R08. */
TDSL_API tdsl_status_t tdsl_buffer_wrap(tdsl_context_t *context,
                                        const tdsl_tensor_desc_t *desc,
                                        void *data, size_t data_bytes,
                                        tdsl_buffer_t **out_buffer,
                                        tdsl_error_t **out_error);
/* A DLManagedTensor* or DLManagedTensorVersioned* (versioned != 0), taken
   over: its deleter runs exactly once, also on failure.  Strided or
   misaligned tensors are refused (R08) by name and rule. */
TDSL_API tdsl_status_t tdsl_buffer_import_dlpack(tdsl_context_t *context,
                                                 void *managed, int versioned,
                                                 tdsl_buffer_t **out_buffer,
                                                 tdsl_error_t **out_error);
/* A new DLManagedTensorVersioned* that keeps the buffer alive. */
TDSL_API tdsl_status_t tdsl_buffer_export_dlpack(tdsl_buffer_t *buffer,
                                                 void **out_managed,
                                                 tdsl_error_t **out_error);
TDSL_API void tdsl_buffer_retain(tdsl_buffer_t *buffer);
TDSL_API void tdsl_buffer_release(tdsl_buffer_t *buffer);
TDSL_API const tdsl_tensor_desc_t *
tdsl_buffer_get_desc(const tdsl_buffer_t *buffer);
/* The host's memory, current.  From then on the buffer is copied to and from
   a device with memory of its own in every run, since the pointer may be used
   at any time. NULL if that device has failed, and of NULL, which is the
   result of a run that failed. */
TDSL_API void *tdsl_buffer_get_data(tdsl_buffer_t *buffer);
/* Contents brought to the host, for the readers below, where a device that
   failed gives NaN or 0. */
TDSL_API tdsl_status_t tdsl_buffer_fetch(tdsl_buffer_t *buffer,
                                         tdsl_error_t **out_error);
/* on != 0: contents may stay on the device between runs. The host promises
   to call tdsl_buffer_get_data anew before it reads after a run or writes
   before one. Buffers of the library that nobody has asked the data of stay
   there anyway: weights, state, inputs given as text. */
TDSL_API tdsl_status_t tdsl_buffer_set_resident(tdsl_buffer_t *buffer,
                                                uint32_t on,
                                                tdsl_error_t **out_error);
TDSL_API size_t tdsl_buffer_get_bytes(const tdsl_buffer_t *buffer);

/* Element number `index` in row-major order, as binary64 or truncated to an
   integer; 0 past the end. */
TDSL_API double tdsl_buffer_read_float(const tdsl_buffer_t *buffer,
                                       uint64_t index);
TDSL_API int64_t tdsl_buffer_read_int(const tdsl_buffer_t *buffer,
                                      uint64_t index);
TDSL_API uint64_t tdsl_buffer_get_count(const tdsl_buffer_t *buffer);

/* .npy in and out; wanted != UNSET converts where every element is exactly
   representable, else R08. */
TDSL_API tdsl_status_t tdsl_buffer_load_npy(tdsl_context_t *context,
                                            tdsl_string_t path,
                                            tdsl_dtype_t wanted,
                                            tdsl_buffer_t **out_buffer,
                                            tdsl_error_t **out_error);
TDSL_API tdsl_status_t tdsl_buffer_save_npy(const tdsl_buffer_t *buffer,
                                            tdsl_string_t path,
                                            tdsl_error_t **out_error);

/* ---- inputs given as text ------------------------------------------------ */

/* A list of values in the forms of `tdslc run --in`:
     NAME=VALUE   VALUE a number, true, false, F.npy, F.npz, F.json,
                  random:SEED or a JSON object in place
     @=case.json  a whole object of arguments
     *=random:SEED  every parameter that has neither value nor default
   NAME is a parameter, or a leaf of one ("m.blk.wq"). */
TDSL_API tdsl_status_t tdsl_inputs_create(tdsl_context_t *context,
                                          tdsl_inputs_t **out_inputs,
                                          tdsl_error_t **out_error);
/* Reads the files at once. R07 for a malformed form. */
TDSL_API tdsl_status_t tdsl_inputs_add(tdsl_inputs_t *inputs,
                                       tdsl_string_t spec,
                                       tdsl_error_t **out_error);
TDSL_API void tdsl_inputs_destroy(tdsl_inputs_t *inputs);

/* ---- executables --------------------------------------------------------- */

/* Loads one entry point on the device that the program was compiled for.
   NULL, as from a name that was not found, is refused. */
TDSL_API tdsl_status_t tdsl_executable_create(tdsl_program_t *program,
                                              const tdsl_entry_t *entry,
                                              tdsl_executable_t **out_exe,
                                              tdsl_error_t **out_error);
TDSL_API void tdsl_executable_retain(tdsl_executable_t *exe);
TDSL_API void tdsl_executable_release(tdsl_executable_t *exe);

/* A variant of the entry compiled for these values of dynamic dims; runs
   whose arguments have them use it. It changes speed, never a bit and never
   what is accepted. From any thread, at any time. */
TDSL_API tdsl_status_t tdsl_executable_specialize(
    tdsl_executable_t *exe, uint32_t dim_count, const tdsl_dim_value_t *dims,
    tdsl_error_t **out_error);

/* Binds all slots with checkpoint names from a .safetensors file or an
   index.json (E13, E14, E15; W04 for what is left over).  The file is mapped
   and stays so while the executable lives; exact widening copies.  Before
   the first run only. */
TDSL_API tdsl_status_t tdsl_executable_bind_weights(
    tdsl_executable_t *exe, tdsl_string_t path, uint32_t strict,
    uint32_t convert, tdsl_error_t **out_error);

/* ---- runs ---------------------------------------------------------------- */

/* The state of one caller: arguments and the arena of intermediates, kept
   from run to run. */
TDSL_API tdsl_status_t tdsl_run_create(tdsl_executable_t *exe,
                                       tdsl_run_t **out_run,
                                       tdsl_error_t **out_error);
TDSL_API void tdsl_run_destroy(tdsl_run_t *run);

/* Binds slot number `slot` (retains the buffer until rebound).  IN and
   INOUT must be bound unless they are weights or have defaults; an OUT slot
   left unbound is allocated by the run. */
TDSL_API tdsl_status_t tdsl_run_set_buffer(tdsl_run_t *run, uint32_t slot,
                                           tdsl_buffer_t *buffer,
                                           tdsl_error_t **out_error);
/* Scalars of rank 0, by value. */
TDSL_API tdsl_status_t tdsl_run_set_int(tdsl_run_t *run, uint32_t slot,
                                        int64_t value,
                                        tdsl_error_t **out_error);
TDSL_API tdsl_status_t tdsl_run_set_float(tdsl_run_t *run, uint32_t slot,
                                          double value,
                                          tdsl_error_t **out_error);
/* Everything that the inputs name: parameters, leaves of structs; then
   random values where they say '*=random:SEED'. Values are converted where
   every element is exactly representable. */
TDSL_API tdsl_status_t tdsl_run_set_inputs(tdsl_run_t *run,
                                           const tdsl_inputs_t *inputs,
                                           tdsl_error_t **out_error);

/* Checks entry conditions, then runs to the end.  Nothing is written if a
   check fails (R ids); after a failure during the run INOUT and OUT contents
   are unspecified. */
TDSL_API tdsl_status_t tdsl_run_execute(tdsl_run_t *run,
                                        tdsl_error_t **out_error);
/* Result of an OUT or INOUT slot after a run; borrowed until the next run,
   NULL before the first and after one that failed. On the device interp:f64
   results of type f32 are f64 here, unrounded. */
TDSL_API tdsl_buffer_t *tdsl_run_get_buffer(tdsl_run_t *run, uint32_t slot);

/* All results of the last run, then the state (INOUT), as one JSON object
   in the format of docs/cli.md. */
TDSL_API tdsl_status_t tdsl_run_write_results(tdsl_run_t *run,
                                              tdsl_text_fn_t text, void *user,
                                              tdsl_error_t **out_error);

/* What the last run did, in seconds and bytes. */
typedef struct tdsl_run_stats_t {
  uint32_t struct_bytes;
  uint32_t launch_count;
  double seconds;
  uint64_t arena_bytes;       /* high-water mark of intermediates, measured */
  uint64_t planned_bytes;     /* what the plan predicted for these dims */
  /* Ledgers of the kernels launched: unique bytes of their buffers, and
     floating-point operations.  0 on devices that run no kernels. */
  uint64_t read_bytes, written_bytes, flops;
  /* Copies between host and device during the run, its arguments' included;
     what the run state holds on the device. since 0.1 */
  uint64_t upload_bytes, download_bytes, device_bytes;
  uint32_t is_replayed;       /* the steps were launched as one graph */
  uint32_t reserved;
  /* On a device with memory of its own: what the plan predicts that the run
     holds there (arguments, results, intermediates, scalars, scratch of its
     kernels), the scratch alone, and the most that the device had in use at a
     time since the context opened it, for whatever run. since 0.1 */
  uint64_t predicted_device_bytes, scratch_bytes, peak_device_bytes;
} tdsl_run_stats_t;

/* on != 0: later runs of a plan measure each kernel, which costs a little. */
TDSL_API tdsl_status_t tdsl_run_set_trace(tdsl_run_t *run, uint32_t on,
                                          tdsl_error_t **out_error);
/* Measured kernels, slowest first, beside the bytes and operations that the
   plan predicts; on the device null the calls of the last run in order. */
TDSL_API tdsl_status_t tdsl_run_write_trace(tdsl_run_t *run,
                                            tdsl_text_fn_t text, void *user,
                                            tdsl_error_t **out_error);

/* Counters of the simulated GPU's launches from here on; B04 on any other
   device. Runs of other threads on the same context are counted with it. */
TDSL_API tdsl_status_t tdsl_run_set_counters(tdsl_run_t *run,
                                             tdsl_error_t **out_error);
/* They, summed for each kernel; as_json != 0: an object with each launch. */
TDSL_API tdsl_status_t tdsl_run_write_counters(tdsl_run_t *run,
                                               uint32_t as_json,
                                               tdsl_text_fn_t text,
                                               void *user,
                                               tdsl_error_t **out_error);


/* Runs `repeat` times (0: 20; once more before) and prints what each kernel
   took, slowest first: median, least, spread, rates by the plan's bytes and
   operations, and the time that the machine's ceilings, measured before and
   after, allow.  State advances with each run.  B04 on devices without a
   clock. since 0.1 */
TDSL_API tdsl_status_t tdsl_run_bench(tdsl_run_t *run, uint32_t repeat,
                                      uint32_t as_json, tdsl_text_fn_t text,
                                      void *user, tdsl_error_t **out_error);
/* Searches the sizes of tiles of each kernel among forms of equal bits, with
   the arguments of this run, and adds what is faster to the tuning file at
   `path`, which later compilations name (tdsl_compile_desc_t.tuning).
   `repeat` runs for each form, 0: 7.  Prints a line a kernel.  State is left
   as it was.  B04 on devices without a clock. since 0.1 */
TDSL_API tdsl_status_t tdsl_run_tune(tdsl_run_t *run, tdsl_string_t path,
                                     uint32_t repeat, tdsl_text_fn_t text,
                                     void *user, tdsl_error_t **out_error);

TDSL_API tdsl_status_t tdsl_run_get_stats(const tdsl_run_t *run,
                                          tdsl_run_stats_t *out_stats);

#ifdef __cplusplus
}
#endif

#endif
