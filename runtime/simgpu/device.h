/* The simulated machines: one row a model. */
#ifndef SIM_DEVICE_H
#define SIM_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct sim_device_row_t {
  const char *key;  /* "h100" */
  const char *name; /* as the driver reports it */
  uint32_t cc;      /* 90 for 9.0 */
  uint32_t targets; /* highest .target without a suffix */
  uint32_t suffix;  /* the one .target whose 'a' form is accepted, or 0 */
  uint32_t sms;
  uint32_t warps, ctas;            /* of an SM */
  uint32_t registers;              /* of an SM */
  uint32_t shared_sm, shared_optin; /* bytes */
  uint32_t l2;                     /* bytes */
  uint64_t memory;                 /* bytes */
  uint32_t max_cluster;            /* 0: none */
  uint32_t copy_engines;
  uint32_t clock_khz, memory_khz, bus_bits;
} sim_device_row_t;

/* NULL if there is no such machine. Row 0 is the default. */
const sim_device_row_t *sim_device_find(const char *key);
const sim_device_row_t *sim_device_at(unsigned index);

/* CTAs of this shape that fit an SM, and what limits them. */
typedef struct sim_occupancy_t {
  uint32_t ctas, warps;
  const char *limiter; /* "warps", "ctas", "registers" or "shared" */
} sim_occupancy_t;

sim_occupancy_t sim_occupancy(const sim_device_row_t *row, uint32_t threads,
                              uint32_t registers, uint32_t shared_bytes);

#endif
