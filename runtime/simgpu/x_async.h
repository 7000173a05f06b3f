/* What sub2 of asynchronous instructions says, and their list operands. */
#ifndef SIM_X_ASYNC_H
#define SIM_X_ASYNC_H

/* cp.async: what the third operand is. */
enum { SIM_CP_SIZE = 1, SIM_CP_IGNORE, SIM_CP_UNLESS };

enum {
  SIM_MBAR_GENERIC = 1, /* the address is generic */
  SIM_MBAR_RELAXED = 2,
  SIM_MBAR_EXPECT = 4,
  SIM_MBAR_DROP = 8,
  SIM_MBAR_PARTIAL = 16, /* .noComplete */
  SIM_MBAR_PARITY = 32,
  SIM_MBAR_TRY = 64,
  SIM_MBAR_NOINC = 128
};

/* Bulk copies: direction in the low bits. */
enum {
  SIM_BULK_LOAD = 0,
  SIM_BULK_SHARED = 1,
  SIM_BULK_STORE = 2,
  SIM_BULK_KIND = 3,
  SIM_BULK_REDUCE = 4,
  SIM_BULK_MULTICAST = 8,
  SIM_BULK_READ = 16 /* wait_group.read */
};

#endif
