/* api_cuda.h: CUDA C of a program, and where GPUs and their stand-in are. */
#ifndef DRIVER_API_CUDA_H
#define DRIVER_API_CUDA_H

#include "driver/api_backend.h"

/* CUDA C of kernels, as one module; `described` may be NULL. */
void drv_cuda_text(drv_backend_t *b, const kir_kernel_t *const *kernels,
                   uint32_t count, bool has_lines, td_buf_t *out,
                   struct cgc_kernel *described);
typedef enum drv_code {
  DRV_CODE_PTX,
  DRV_CODE_CUBIN,
  DRV_CODE_SASS, /* the cubin as text */
} drv_code_t;

/* What NVRTC makes of it. False after diagnostics. */
bool drv_cuda_code(drv_backend_t *b, const char *text, drv_code_t form,
                   td_buf_t *out);
/* CUDA C of all kernels, in a few modules, and how they are launched. */
void drv_payloads_cuda(drv_backend_t *b, drv_payloads_t *out);

/* The rest of a text that begins with cuda or sim; out->hal says which.
 * cuda, cuda:N, sim, sim:MACHINE, sim:MACHINE:COUNT.  B03 otherwise. */
bool drv_gpu_parse(td_task_t *task, td_str_t text, drv_device_t *out);
/* The device; NULL after diagnostics. */
hal_device_t *drv_gpu_create(td_task_t *task, const drv_device_t *device,
                             hal_cache_t *disk);
/* The machine row of a device that has been opened; B04: too old. */
bool drv_gpu_target(td_task_t *task, hal_device_t *device, drv_device_t *out);

#endif
