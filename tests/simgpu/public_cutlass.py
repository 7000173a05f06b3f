"""Runs matrix products of CUTLASS for compute capability 8.0 on the simulated
GPU: the library's own kernel (cp.async in stages, ldmatrix, mma.sync, an
epilogue through shared memory), built by NVRTC, on ragged sizes, against sums
on the host. Right values and no finding in every mode are asked for.

    public_cutlass.py --build BUILD INCLUDE [VARIANT ...]

INCLUDE is the folder with cutlass/cutlass.h (the Python package
nvidia-cutlass holds one); nothing of it is kept here. NVRTC takes a minute
for each variant.

Exit: 0 all as expected, 1 not, 77 nothing to run."""
import argparse
import array
import ctypes
import os
import random
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import public_kernels as public  # noqa: E402

# element, layout of B, tile of a block, of a warp, stages
VARIANTS = {
    "bf16": ("bfloat16_t", "ColumnMajor", (128, 128, 32), (64, 64, 32), 3),
    "f16": ("half_t", "RowMajor", (64, 64, 64), (32, 32, 64), 4),
}
MODES = ["async:late", "async:immediate",
         "async:random,order:reverse,poison:random"]
SIZE = (200, 136, 88)
SOURCE = """
#include <cuda/std/cstdint>
#include <cuda/std/utility>
#include <cutlass/cutlass.h>
#include <cutlass/epilogue/thread/linear_combination.h>
#include <cutlass/gemm/kernel/default_gemm.h>
#include <cutlass/numeric_types.h>
using namespace cutlass;
using K = gemm::kernel::DefaultGemm<
    %(type)s, layout::RowMajor, 8, %(type)s, layout::%(layout)s, 8, float,
    layout::RowMajor, float, arch::OpClassTensorOp, arch::Sm80,
    gemm::GemmShape<%(tile)s>, gemm::GemmShape<%(warp)s>,
    gemm::GemmShape<16, 8, 16>,
    epilogue::thread::LinearCombination<float, 4, float, float>,
    gemm::threadblock::GemmIdentityThreadblockSwizzle<>, %(stages)d, false,
    arch::OpMultiplyAdd>::GemmKernel;
__global__ void product(%(type)s *a, %(type)s *b, float *c, float *d, int m,
                        int n, int k) {
  extern __shared__ __align__(16) char memory[];
  gemm::GemmCoord size(m, n, k), grid(gridDim.x, gridDim.y, 1);
  typename K::Params p(size, grid, {a, k}, {b, %(stride)s}, {c, n}, {d, n},
                       {1.0f, 0.0f});
  K kernel;
  kernel(p, *reinterpret_cast<typename K::SharedStorage *>(memory));
}
__global__ void needs(int *out) {
  out[0] = sizeof(typename K::SharedStorage);
  out[1] = K::kThreadCount;
}
"""


def of_f16(h):
    return struct.unpack("e", struct.pack("H", h))[0]


def launch(device, module, name, grid, threads, shared, args):
    func = ctypes.c_void_p()
    device.call("cuModuleGetFunction", ctypes.byref(func), module, name)
    if shared > 49152:
        device.call("cuFuncSetAttribute", func, 8, shared)
    params = (ctypes.c_void_p * len(args))(
        *[ctypes.cast(ctypes.pointer(x), ctypes.c_void_p) for x in args])
    device.call("cuLaunchKernel", func, grid[0], grid[1], 1, threads, 1, 1,
                shared, None, params, None)
    return device.lib.cuCtxSynchronize()


def run(device, name, ptx, entries):
    kind, layout, tile, _, _ = VARIANTS[name]
    m, n, depth = SIZE
    value = public.of_bf16 if kind == "bfloat16_t" else of_f16
    one = 0x3E80 if kind == "bfloat16_t" else 0x3400  # 0.25
    rng = random.Random(3)
    a, b = (array.array("H", (one + (rng.getrandbits(16) & 0x81FF)
                              for _ in range(rows * depth)))
            for rows in (m, n))
    module = ctypes.c_void_p()
    device.call("cuModuleLoadData", ctypes.byref(module), ptx)
    room = device.alloc(8)
    code = launch(device, module, entries[1], (1, 1), 1, 0,
                  [ctypes.c_uint64(room)])
    public.check(code, "needs")
    shared, threads = struct.unpack("2i", device.copy_out(room, 8))
    pa, pb = device.copy_in(a), device.copy_in(b)
    pc, pd = device.alloc(4 * m * n), device.alloc(4 * m * n)
    grid = -(-m // tile[0]), -(-n // tile[1])
    code = launch(device, module, entries[0], grid, threads, shared,
                  [ctypes.c_uint64(p) for p in (pa, pb, pc, pd)] +
                  [ctypes.c_int(x) for x in SIZE])
    reports = list(device.texts("report"))
    if code or reports:
        return "result %d, %s" % (code, reports[:1])
    out = struct.unpack("%df" % (m * n), device.copy_out(pd, 4 * m * n))
    x = [value(v) for v in a]
    y = [value(v) for v in b]
    at = (lambda j, k: j * depth + k) if layout == "ColumnMajor" else \
        (lambda j, k: k * n + j)
    worst = 0.0
    for i in range(0, m, 7):
        for j in range(0, n, 3):
            terms = [x[i * depth + k] * y[at(j, k)] for k in range(depth)]
            size = sum(abs(t) for t in terms)
            worst = max(worst, abs(sum(terms) - out[i * n + j]) / size)
    # f32 sums of 88 exact products
    return "" if worst < 88 * 2.0 ** -24 else "off by %g" % worst


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("include")
    parser.add_argument("variants", nargs="*", default=list(VARIANTS))
    options = parser.parse_args()
    if not os.path.exists(os.path.join(options.include,
                                       "cutlass/cutlass.h")):
        print("public_cutlass: no cutlass/cutlass.h there")
        sys.exit(77)
    # what the script leaves allocated is no news
    os.environ.setdefault("TDSL_SIM_REPORT", os.devnull)
    public.INCLUDE.append(options.include)
    device = public.Device(options.build, "model:a100")
    good = True
    for name in options.variants:
        kind, layout, tile, warp, stages = VARIANTS[name]
        source = SOURCE % {
            "type": kind, "layout": layout, "stages": stages,
            "tile": ", ".join(map(str, tile)),
            "warp": ", ".join(map(str, warp)),
            "stride": "k" if layout == "ColumnMajor" else "n"}
        ptx, entries = public.compile_ptx(
            source, "product", "needs", arch=b"compute_80",
            more=[b"-default-device"])
        for mode in MODES:
            public.check(device.lib.simgpu_configure(mode.encode()), mode)
            device.renew()
            trouble = run(device, name, ptx, entries)
            print("%s %s %s %s" % ("not ok" if trouble else "ok", name, mode,
                                   trouble), flush=True)
            good = good and not trouble
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
