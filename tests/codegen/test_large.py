"""The generated CUDA C of whole programs over tensors of more than 2^31
elements, on the simulated GPU, which is driven here as any driver would be.
Memory there costs what is touched, and a kernel's workers take block
iterations in turn: with a stride of a sixth of all iterations, a thread block
walks over the whole tensor in seven steps. Around each step the input holds
the code of its position and the output a mark; what was computed must be
right, and something must have been."""
import array
import ctypes
import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(TESTS, "harness"))
import environment  # noqa: E402
import nvrtc  # noqa: E402
from report import expect, finish, need, skip  # noqa: E402

BUILD = os.environ["TDSL_TEST_BUILD"]
MARK = -5.0
STEPS = 6


def code(at):
    return float((at * 2654435761 >> 7) % 1000)


class Driver:
    """libtdsl_simgpu.so as an H100; a call that fails ends the test."""

    def __init__(self):
        self.library = ctypes.CDLL(os.path.join(BUILD, "libtdsl_simgpu.so"))
        self.library.simgpu_configure(b"model:h100,devices:1")
        self.context = ctypes.c_void_p()
        self("cuInit", 0)
        self("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), 0)
        self("cuCtxSetCurrent", self.context)

    def __call__(self, name, *args):
        result = getattr(self.library, name)(*args)
        if result != 0:
            raise RuntimeError("%s gives %d" % (name, result))

    def alloc(self, size):
        address = ctypes.c_uint64()
        self("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address.value

    def put(self, address, values):
        self("cuMemcpyHtoD_v2", ctypes.c_uint64(address),
             ctypes.c_void_p(values.buffer_info()[0]),
             ctypes.c_size_t(4 * len(values)))

    def get(self, address, count):
        values = array.array("f", bytes(4 * count))
        self("cuMemcpyDtoH_v2", ctypes.c_void_p(values.buffer_info()[0]),
             ctypes.c_uint64(address), ctypes.c_size_t(4 * count))
        return values


class Kernel:
    """The one kernel of a program: its text, and what the card says."""

    def __init__(self, source, dims):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "large.tdsl")
            with open(path, "w", encoding="utf-8") as f:
                f.write(source)
            self.text = subprocess.run(
                [os.environ["TDSLC"], "dump", "cuda", path, "--device",
                 "sim:h100"], capture_output=True, text=True,
                check=True).stdout
        found = re.findall(r"__launch_bounds__\((\d+)(?:, \d+)?\)\s+"
                           r"(\w+)\((.*?)\) \{", self.text, re.S)
        if len(found) != 1:
            raise RuntimeError("%d kernels" % len(found))
        self.threads, self.symbol, params = found[0]
        self.threads = int(self.threads)
        params = re.sub(r"#line[^\n]*\n", "", params)
        self.params = [" ".join(p.split()) for p in params.split(",")]
        card = re.search(r"//   blocks: (.*); (.*)\n", self.text)
        count = card.group(1).replace("/", "//")
        self.blocks = eval(count, {"max": max, "min": min}, dict(dims))
        many = re.search(r"(\d+) in a thread block", card.group(2))
        alone = re.search(r"thread block of (\d+) warps", card.group(2))
        self.workers = int(many.group(1)) if many else (
            1 if alone else self.threads)
        half = "half a warp" in card.group(2)
        lanes = 16 if half else 32
        if alone:
            self.block = (32, int(alone.group(1)))
        elif self.threads == self.workers:
            self.block = (self.threads, 1)
        else:
            self.block = (lanes, self.workers)

    def launch(self, driver, buffers, dims):
        code_, log, ptx = nvrtc.library().compile(self.text, "sm_90a")
        if code_ != 0 or log:
            raise RuntimeError(log)
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        driver("cuModuleLoadData", ctypes.byref(module), ptx.encode())
        driver("cuModuleGetFunction", ctypes.byref(function), module,
               self.symbol.encode())
        stride = max((self.blocks - self.workers) // STEPS, 1)
        values, pointers = [], list(buffers)
        for param in self.params:
            name = param.split()[-1].lstrip("*")
            if "*" in param:
                values.append(ctypes.c_uint64(
                    pointers.pop(0) if name != "scratch" else 0))
                continue
            number = {"scratch_stride": 0, "workers": stride,
                      "block_count": self.blocks}.get(name)
            if number is None:
                number = dims[name.split("_", 1)[1]]
            kind = ctypes.c_int if param.startswith("int ") else (
                ctypes.c_longlong)
            if kind is ctypes.c_int and number >= 2 ** 31:
                raise RuntimeError("%s does not hold %d" % (param, number))
            values.append(kind(number))
        args = (ctypes.c_void_p * len(values))(
            *[ctypes.cast(ctypes.byref(v), ctypes.c_void_p) for v in values])
        driver("cuLaunchKernel", function, 1, 1, 1, self.block[0],
               self.block[1], 1, 0, None, args, None)
        driver("cuCtxSynchronize")
        driver("cuModuleUnload", module)


def windows(executed, blocks, count, reach):
    """Ranges of positions around what those iterations have in hand."""
    out = []
    for block in executed:
        middle = block * count // blocks
        lo, hi = max(middle - reach, 0), min(middle + reach, count)
        if out and lo <= out[-1][1]:
            out[-1] = (out[-1][0], max(hi, out[-1][1]))
        else:
            out.append((lo, hi))
    return out


def run_map(driver, name, source, dims, count, place):
    """y at p is 2 * (x at place(p)) + 1; both have `count` elements."""
    kernel = Kernel(source, dims)
    stride = max((kernel.blocks - kernel.workers) // STEPS, 1)
    executed = [w + s * stride for s in range(STEPS + 1)
                for w in range(kernel.workers)]
    spans = windows(executed, kernel.blocks, count, 2500)
    x, y = driver.alloc(4 * count), driver.alloc(4 * count)
    for lo, hi in spans:
        driver.put(y + 4 * lo, array.array("f", [MARK] * (hi - lo)))
        sources = sorted({place(p) for p in range(lo, hi)})
        start = last = sources[0]
        for at in sources[1:] + [None]:     # runs of neighbours at once
            if at is None or at != last + 1:
                driver.put(x + 4 * start, array.array(
                    "f", [code(i) for i in range(start, last + 1)]))
                start = at
            last = at
    kernel.launch(driver, [x, y], dims)
    wrong, done = [], 0
    for lo, hi in spans:
        got = driver.get(y + 4 * lo, hi - lo)
        mine = [p for p in range(lo, hi) if got[p - lo] != MARK]
        done += bool(mine)
        wrong += [(p, got[p - lo], 2 * code(place(p)) + 1) for p in mine
                  if got[p - lo] != 2 * code(place(p)) + 1]
    expect(name, not wrong and done == len(spans) and done >= STEPS,
           "%d of %d places computed, wrong %r\n%s" % (
               done, len(spans), wrong[:5], kernel.text))
    driver("cuMemFree_v2", ctypes.c_uint64(x))
    driver("cuMemFree_v2", ctypes.c_uint64(y))


def main():
    need("nvrtc")
    if environment.Environment(os.path.dirname(TESTS), BUILD).slow():
        skip("a library with sanitizers cannot be opened by Python")
    driver = Driver()
    rows, columns = 60013, 49999
    count, dims = rows * columns, {"R": rows, "C": columns}
    head = "dyn R <= 100000, C <= 100000\n"

    run_map(driver, "a map of 3e9 elements",
            head + "export fn f(x: f32[R, C]) -> y: f32[R, C] {\n"
            "  y[i, j] = 2 * x[i, j] + 1\n}\n", dims, count, lambda p: p)
    run_map(driver, "rows backwards, of 3e9 elements",
            head + "export fn f(x: f32[R, C]) -> y: f32[R, C] {\n"
            "  y[i, j] = 2 * x[i, C - 1 - j] + 1\n}\n", dims, count,
            lambda p: p - p % columns + columns - 1 - p % columns)
    run_map(driver, "3e9 elements transposed",
            head + "export fn f(x: f32[C, R]) -> y: f32[R, C] {\n"
            "  y[i, j] = 2 * x[j, i] + 1\n}\n", dims, count,
            lambda p: p % columns * rows + p // columns)
    finish()


if __name__ == "__main__":
    main()
