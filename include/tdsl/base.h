/* The floor of the public interface: status codes, strings, element types
   and the hooks through which a host lends memory, a log and a way to stop.
   Compiles as C11 and as C++17 and needs nothing but libc. */
#ifndef TDSL_BASE_H
#define TDSL_BASE_H

#include <stddef.h>
#include <stdint.h>

/* The version of these headers. A library of another major refuses them. */
#define TDSL_VERSION_MAJOR 0
#define TDSL_VERSION_MINOR 1
#define TDSL_VERSION_PATCH 0

/* Marks the functions that the shared library exports. */
#if defined(__GNUC__)
#define TDSL_API __attribute__((visibility("default")))
#else
#define TDSL_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* A view of UTF-8 text or bytes. Not NUL-terminated; length is in bytes.
   Passed by value; what it points at belongs to whoever the function that
   takes or returns it names. {NULL, 0} is the empty text. */
typedef struct tdsl_string_t {
  const char *data;
  size_t length;
} tdsl_string_t;

/* What a call came to. Details are in the error object and diagnostics. */
typedef enum tdsl_status_t {
  TDSL_STATUS_OK = 0,
  TDSL_STATUS_INVALID_PROGRAM,  /* the program has errors (ids P, E, L) */
  TDSL_STATUS_INVALID_FILE,     /* a data file is malformed (ids F) */
  TDSL_STATUS_INVALID_ARGUMENT, /* a value given does not fit (ids R) */
  TDSL_STATUS_IO,               /* the system refused to read or write */
  TDSL_STATUS_UNAVAILABLE,      /* a back end or library is missing (B) */
  TDSL_STATUS_OUT_OF_MEMORY,    /* the allocator hook returned NULL */
  TDSL_STATUS_LIMIT,            /* a resource limit was reached */
  TDSL_STATUS_CANCELLED,        /* the cancel hook asked to stop */
  TDSL_STATUS_INTERNAL,         /* our fault; the message says where */
  TDSL_STATUS_FORCE32 = 0x7FFFFFFF
} tdsl_status_t;

/* Element types, in memory as language section 4 defines them. */
typedef enum tdsl_dtype_t {
  TDSL_DTYPE_UNSET = 0,
  TDSL_DTYPE_F64,
  TDSL_DTYPE_F32,
  TDSL_DTYPE_F16,
  TDSL_DTYPE_BF16,   /* the upper half of binary32 */
  TDSL_DTYPE_F8E4M3, /* OCP E4M3: no infinity, largest 448 */
  TDSL_DTYPE_F8E5M2, /* OCP E5M2 */
  TDSL_DTYPE_I64,
  TDSL_DTYPE_I32,
  TDSL_DTYPE_I8,
  TDSL_DTYPE_U8,
  TDSL_DTYPE_BOOL, /* one byte, 0 or 1 */
  TDSL_DTYPE_FORCE32 = 0x7FFFFFFF
} tdsl_dtype_t;

/* How grave a log line or a diagnostic is. */
typedef enum tdsl_severity_t {
  TDSL_SEVERITY_UNSET = 0,
  TDSL_SEVERITY_ERROR,
  TDSL_SEVERITY_WARNING,
  TDSL_SEVERITY_NOTE,
  TDSL_SEVERITY_DEBUG,
  TDSL_SEVERITY_FORCE32 = 0x7FFFFFFF
} tdsl_severity_t;

/* One function for all memory: old == NULL allocates new_bytes, new_bytes ==
   0 frees old and returns NULL, otherwise old (of old_bytes) is resized.
   Results are aligned to 16 bytes; NULL means out of memory and leaves old
   as it was. Called from any thread that is inside a call of the library. */
typedef void *(*tdsl_alloc_fn_t)(void *old, size_t old_bytes,
                                 size_t new_bytes, void *user);

/* Receives one line without a newline. The texts live for the call only.
   Must not call back into the library. */
typedef void (*tdsl_log_fn_t)(tdsl_severity_t level, tdsl_string_t category,
                              tdsl_string_t text, void *user);

/* Asked now and then during long work: non-zero stops it, and the running
   call returns TDSL_STATUS_CANCELLED. */
typedef int (*tdsl_cancel_fn_t)(void *user);

/* A hook is a function and the pointer handed back to it. A NULL function
   means the default: malloc, silence, never. The user pointer must outlive
   the context it was given to. */
typedef struct tdsl_allocator_t {
  tdsl_alloc_fn_t function;
  void *user;
} tdsl_allocator_t;

typedef struct tdsl_log_t {
  tdsl_log_fn_t function;
  void *user;
} tdsl_log_t;

typedef struct tdsl_cancel_t {
  tdsl_cancel_fn_t function;
  void *user;
} tdsl_cancel_t;

/* Text of a status ("invalid program") and of an element type ("bf16").
   Constant strings, never freed; "unknown" for other values. */
TDSL_API tdsl_string_t tdsl_status_get_name(tdsl_status_t status);
TDSL_API tdsl_string_t tdsl_dtype_get_name(tdsl_dtype_t dtype);

/* Bytes of one element; 0 for TDSL_DTYPE_UNSET. */
TDSL_API size_t tdsl_dtype_get_bytes(tdsl_dtype_t dtype);

#ifdef __cplusplus
}
#endif

#endif
