"""Sentences of docs/reference/simulated-gpu.md: what each check and counter
of runtime/simgpu means. docs/tables.py refuses a row of the .def files that
has none here, and a sentence without a row."""

CHECKS = {
    "mem.bounds": "an access outside every live allocation, or past the end "
                  "of shared memory, local memory or parameters",
    "mem.freed": "memory that was freed, or not yet allocated in stream order",
    "mem.align": "an address that is no multiple of the access",
    "mem.space": "an address of another memory space than the instruction's",
    "mem.readonly": "a write to constants, parameters or read-only memory",
    "mem.peer": "memory of another device without peer access",
    "mem.nc": "a read through the read-only path of what the launch writes",
    "mem.leak": "an allocation that is left when its context ends",
    "mem.free": "freeing twice, or what is no start of an allocation",
    "init.use": "a value nobody wrote reaches a predicate, an address or the "
                "host; loading and copying it is allowed",
    "race.shared": "two accesses of a block to a shared word, one a write, "
                   "with no barrier or other order between them",
    "race.warp": "the same between lanes of a warp, or two lanes write "
                 "different values with one instruction",
    "race.global": "the same for global memory, between blocks",
    "bar.diverged": "a barrier for all that not all threads reach together",
    "bar.count": "a thread count that is no multiple of 32, differs, or a "
                 "barrier that does not exist",
    "bar.mix": "one barrier used in two ways at once",
    "bar.exit": "a thread ended while others wait for it at a barrier",
    "warp.mask": "a lane outside of its own mask, or masks that differ",
    "warp.inactive": "a shuffle from a lane that does not take part",
    "warp.matrix": "a matrix instruction without all 32 lanes together",
    "warp.regs": "setmaxnreg beyond the registers of the block, or not by "
                 "whole warpgroups",
    "wgmma.regs": "accumulator or A registers touched before the wait",
    "wgmma.fence": "registers given to wgmma.mma_async without wgmma.fence",
    "wgmma.desc": "descriptors that differ between the four warps, or are "
                  "none",
    "async.early": "the destination of a copy touched before its wait",
    "async.source": "a copy's source, or its tensor map, changed while in use",
    "async.exit": "a block ends with copies nobody waited for",
    "async.group": "a copy never committed, a pending one that only threads "
                   "which issued nothing have waited for, or two copies of a "
                   "group to one place",
    "proxy.fence": "generic accesses and copies of the async proxy to the "
                   "same memory without fence.proxy.async between",
    "mbar.init": "an mbarrier used before its initialisation, or initialised "
                 "while live",
    "mbar.arrive": "more arrivals than an mbarrier expects",
    "mbar.tx": "a transaction count out of range, or unmatched at the end",
    "mbar.phase": "a waiter two phases behind, or a phase nobody observed",
    "mbar.access": "an ordinary access to an mbarrier",
    "cluster.exit": "shared memory of a block that has ended, or a block that "
                    "ends while a peer's operation is outstanding",
    "cluster.phase": "barrier.cluster arrive and wait that do not alternate",
    "order.race": "two operations on streams touch the same bytes, one "
                  "writes, and nothing orders them",
    "order.lifetime": "memory or a module that ends before what "
                      "uses it",
    "order.host": "pinned memory used by the host while a copy is under way",
    "launch.geometry": "a grid or block beyond the machine's limits, or a "
                       "block that .maxntid or .reqntid does not allow",
    "launch.shared": "dynamic shared memory that the function did not opt in "
                     "to, or that the machine does not have",
    "launch.params": "a launch without all of its parameters",
    "launch.resources": "registers, threads or shared memory of one block do "
                        "not fit an SM",
    "launch.cluster": "a cluster shape that the machine, the function or the "
                      "grid does not allow",
    "launch.cooperative": "a cooperative grid that is not resident at once",
    "coll.mismatch": "ranks whose calls with one number differ in operation, "
                     "type, count, reduction or root; a send and its receive "
                     "of different counts",
    "coll.buffer": "a buffer outside every allocation, on another device, or "
                   "overlapping otherwise than in place",
    "coll.group": "a group ended that was not begun, or communicators begun "
                  "and used in one group",
    "coll.capture": "a collective that some ranks captured and others did "
                    "not",
    "coll.order": "communicators that share devices used in different orders "
                  "with nothing that orders them, or one used by two threads "
                  "at once",
    "coll.deadlock": "collectives that wait for one another in a circle, or "
                     "for ranks that ended or did not come in time",
    "num.div": "an integer division by zero",
    "num.shift": "a shift by the width or more; a note, on request",
    "num.convert": "a conversion out of range; a note, on request",
    "num.nan": "the first NaN or infinity made of finite values; a note, on "
               "request",
    "trap": "the kernel executed trap",
    "hang": "no warp can run; what each one waits for is told",
    "hang.grid": "blocks wait for others that cannot start until they end",
    "hang.budget": "more instructions than `budget` allows",
    "illegal": "an instruction that is not legal here, such as a barrier "
               "after exit",
}

# exact: follows from the instructions and their addresses alone. model: from
# a stated model. estimate: of what the assembler or the hardware decides.
COUNTERS = {
    "warp_inst": ("exact", "PTX instructions issued by a warp; not SASS, of "
                  "which there may be more or fewer"),
    "lane_inst": ("exact", "lanes of these whose guard is true"),
    "flop.f32": ("exact", "f32 operations of lanes: fma 2, add and mul 1"),
    "flop.f16": ("exact", "the same in f16 and bf16; packed forms count "
                 "twice"),
    "flop.f64": ("exact", "the same in f64"),
    "sfu": ("exact", "special functions of lanes, all kinds"),
    "sfu.rcp": ("exact", "reciprocals"),
    "sfu.sqrt": ("exact", "approximate square roots"),
    "sfu.rsqrt": ("exact", "reciprocal square roots"),
    "sfu.ex2": ("exact", "powers of two"),
    "sfu.lg2": ("exact", "logarithms to base two"),
    "sfu.sin": ("exact", "sines"),
    "sfu.cos": ("exact", "cosines"),
    "sfu.tanh": ("exact", "hyperbolic tangents"),
    "tensor_flop": ("exact", "2 * M * N * K of each matrix instruction"),
    "tensor_flop.f16": ("exact", "of these those with f16 operands"),
    "tensor_flop.bf16": ("exact", "those with bf16 operands"),
    "tensor_flop.tf32": ("exact", "those with tf32 operands"),
    "tensor_flop.f8": ("exact", "those with e4m3 or e5m2 operands"),
    "tensor_flop.f64": ("exact", "those with f64 operands"),
    "tensor_flop.i8": ("exact", "those with operands of 8 bits"),
    "tensor_flop.i4": ("exact", "those with operands of 4 bits"),
    "tensor_flop.b1": ("exact", "those with operands of 1 bit"),
    "tensor.open": ("exact", "matrix instructions whose arithmetic is not "
                    "known of hardware and was done exactly under arith:hw"),
    "global.requests": ("exact", "instructions of warps on global memory; "
                        "ptxas may merge or drop some"),
    "global.bytes_read": ("exact", "active lanes times the size of a load; of "
                          "bulk copies the bytes in bounds"),
    "global.bytes_written": ("exact", "the same for stores"),
    "global.sectors": ("exact", "distinct 32-byte sectors of each request"),
    "global.sectors_ideal": ("exact", "the fewest sectors that hold those "
                             "bytes"),
    "global.unique_read": ("exact", "distinct sectors read in the launch, in "
                           "bytes: what must come at least"),
    "global.unique_written": ("exact", "the same for writes"),
    "hbm.model_read": ("model", "bytes from device memory by the L2 model"),
    "hbm.model_written": ("model", "bytes to device memory by the L2 model"),
    "l2.hit": ("model", "sectors found in L2"),
    "l2.miss": ("model", "sectors not found there"),
    "shared.bytes_read": ("exact", "bytes loaded from shared memory"),
    "shared.bytes_written": ("exact", "bytes stored there"),
    "shared.wavefronts": ("exact", "passes through the 32 banks"),
    "shared.ideal": ("exact", "passes without any bank conflict"),
    "shared.conflicts": ("exact", "the difference"),
    "local.bytes": ("estimate", "accesses to local memory in the PTX; the "
                    "assembler's spills come on top"),
    "atomics": ("exact", "atomic operations of lanes"),
    "barriers": ("exact", "barrier instructions of warps"),
    "branches": ("exact", "branch instructions of warps"),
    "branches.diverged": ("exact", "those that split a warp"),
    "async.bytes": ("exact", "bytes of asynchronous copies"),
    "ctas": ("exact", "blocks that ran"),
    "warps": ("exact", "warps that ran"),
}
