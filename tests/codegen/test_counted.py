"""What generated kernels do to memory, as the simulated GPU counts it: no two
lanes of a phase meet in a bank of shared memory, in products of all layouts
and in rows; rows are read once, masked ones and long ones too; rows are
finished by a product; an order of tiles that saves memory traffic changes no
result; a convolution is a product whose operand exists nowhere; rows that
choose their weights read each weight once; a gate reads its rows once and
stores one tensor; keys of a sweep come along their rows. What is said of a
kernel before it is compiled is what it turns out to take.

An access of 4 bytes a lane takes one wavefront for 128 bytes, one of 16 bytes
four; so wavefronts * 128 = bytes says that there was no conflict, where all
lanes take part, and wavefronts = ideal where no two lanes want one word."""
import json
import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(TESTS, "harness"))
import nvrtc  # noqa: E402
from report import drawn, expect, finish, need  # noqa: E402

PRODUCT = """export fn f(x: T[X], w: T[W]) -> y: T[M, N] {
  y[i, j] = sum[k] E
}
"""
LONG = """dyn R <= 8, N <= %d
export fn softmax(x: f32[R, N]) -> (y: f32[R, N], m: f32[R]) {
  m[i] = max[j] x[i, j]
  e[i, j] = exp(x[i, j] - m[i])
  s[i] = sum[j] e[i, j]
  y[i, j] = e[i, j] / s[i]
}
export fn norm(x: f32[R, N]) -> (y: f32[R, N], q: f32[R]) {
  m[i] = (sum[j] x[i, j]) / f32(N)
  v[i] = (sum[j] (x[i, j] - m[i]) * (x[i, j] - m[i])) / f32(N)
  q[i] = rsqrt(v[i] + 1e-5)
  y[i, j] = (x[i, j] - m[i]) * q[i]
}
export fn turned(x: f32[R, N]) -> (y: f32[R, N], s: f32[R]) {
  a[i, j] = x[i, j] * 0.5
  s[i] = sum[j] a[i, j] * x[i, j]
  y[i, j] = a[i, N - 1 - j] + a[i, j] * s[i]
}
export fn halves(x: f32[R, N]) -> (y: f16[R, N]) {
  h[i, j]: f16 = x[i, j]
  s[i] = sum[j] f32(h[i, j]) * f32(h[i, j])
  m[i] = max[j] abs(f32(h[i, j]) - s[i])
  y[i, j] = f32(h[i, j]) / m[i]
}
"""
ENDS = """dyn R <= 20000
dim N = %d, K = 24
export fn f(x: f32[R, K], w: f32[N, K], r: f32[R, N]) -> (h: f32[R, N],
                                                          y: f32[R, N]) {
  h[i, j] = r[i, j] + sum[k] x[i, k] * w[j, k]
  m[i] = (sum[j] h[i, j]) / f32(N)
  v[i] = (sum[j] (h[i, j] - m[i]) * (h[i, j] - m[i])) / f32(N)
  y[i, j] = (h[i, j] - m[i]) * rsqrt(v[i] + 1e-5)
}
"""
ROWS = """dyn M <= 1000
export fn softmax(x: f32[M, 512]) -> y: f32[M, 512] {
  m[i] = max[j] x[i, j]
  e[i, j] = exp(x[i, j] - m[i])
  s[i] = sum[j] e[i, j]
  y[i, j] = e[i, j] / s[i]
}
export fn masked(x: f32[M, 512], n: i32[M] in 0..513) -> y: f32[M, 512] {
  z[i, j] = if j < n[i] then x[i, j] else -inf
  m[i] = max[j] z[i, j]
  s[i] = sum[j] exp(z[i, j] - m[i])
  y[i, j] = exp(z[i, j] - m[i]) / s[i]
}
export fn long(x: f32[M, 4096]) -> y: f32[M, 4096] {
  m[i] = max[j] x[i, j]
  s[i] = sum[j] exp(x[i, j] - m[i])
  y[i, j] = exp(x[i, j] - m[i]) / s[i]
}
export fn narrow(x: bf16[M, 768]) -> y: bf16[M, 768] {
  q[i] = sum[j] f32(x[i, j]) * f32(x[i, j])
  y[i, j] = bf16(f32(x[i, j]) / sqrt(q[i] / 768 + 0.00001))
}
"""


def run(folder, text, device, *more):
    path = os.path.join(folder, "t.tdsl")
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    done = subprocess.run(
        [os.environ["TDSLC"], "run", path, "--device", device, "--in",
         "*=random:3", "-q"] + list(more), capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stdout + done.stderr)
    return done.stdout


def counted(folder, text, *more):
    out = run(folder, text, "sim:h100", "--counters", "--json", *more)
    launches = json.loads(out)["launches"]
    if len(launches) != 1:
        raise RuntimeError("%d launches" % len(launches))
    return launches[0]


def products(folder):
    for e, x, w in (("x[i, k] * w[k, j]", "M, K", "K, N"),
                    ("x[i, k] * w[j, k]", "M, K", "N, K"),
                    ("x[k, i] * w[k, j]", "K, M", "K, N"),
                    ("x[k, i] * w[j, k]", "K, M", "N, K")):
        for t, m, n, k in (("f32", 128, 256, 64), ("f64", 64, 64, 32),
                           ("f32", 16, 256, 64)):
            text = PRODUCT.replace("E", e).replace("X", x).replace("W", w)
            for a, b in (("T[", t + "["), ("M", str(m)), ("N", str(n)),
                         ("K", str(k))):
                text = text.replace(a, b)
            got = counted(folder, text)
            c = got["counters"]
            size = c["shared.bytes_read"] + c["shared.bytes_written"]
            expect("banks of %s, %s %d x %d x %d" % (e, t, m, n, k),
                   c["shared.wavefronts"] * 128 <= size * 1.01 and
                   c["async.bytes"] > 0, got)


def rows(folder):
    # of `masked` each node looks at its n, in sectors that rows share
    for entry, row, extra in (("softmax", 4 * 512, 0), ("masked", 4 * 512, 64),
                              ("long", 4 * 4096, 0), ("narrow", 2 * 768, 0)):
        got = counted(folder, ROWS, "--entry", entry, "--dim", "M=64")
        c = got["counters"]
        expect("banks of rows, " + entry,
               c["shared.wavefronts"] == c["shared.ideal"] > 0, got)
        expect("rows read once, " + entry,
               64 * row <= c["global.bytes_read"] <= 64 * (row + extra) and
               c["global.unique_read"] <= 64 * (row + 4), got)


def long_rows(folder):
    """A block a row: read once, written once, no bit other than where the
    bound of the row leaves no room to keep it, which reads it again."""
    def one(entry, n, bound, device):
        out = os.path.join(folder, "long.json")
        given = os.path.join(folder, "given.json")
        x = [i * 101 % 997 / 128 - 3 for i in range(3 * n)]
        with open(given, "w") as f:
            json.dump({"x": {"dtype": "f32", "shape": [3, n], "data": x}}, f)
        said = run(folder, LONG % bound, device, "--entry", entry, "--in",
                   "@=" + given, "--out", out, "--counters", "--json")
        with open(out) as f:
            results = json.load(f)["results"]
        return json.loads(said)["launches"], results

    for entry, n, bound, device in (
            ("softmax", 4097, 12288, "sim:a100"),
            ("softmax", 12288, 12288, "sim:h100"),
            ("norm", 8192, 8192, "sim:a100"), ("norm", 100, 12288, "sim:h100"),
            ("turned", 8191, 8191, "sim:a100"),
            ("halves", 8192, 12288, "sim:h100")):
        launches, got = one(entry, n, bound, device)
        size = 2 if entry == "halves" else 4
        numbers = 0 if entry == "halves" else 3 * 4
        c = launches[0]["counters"]
        _, again = one(entry, n, 1 << 20, device)
        expect("one pass over rows, %s of %d" % (entry, n),
               len(launches) == 1 and launches[0]["grid"][0] == 3 and
               c["global.bytes_read"] == 3 * n * 4 and
               c["global.bytes_written"] == 3 * n * size + numbers and
               got == again, (c, got == again))


def row_ends(folder):
    """A norm behind a product, where a tile has whole rows: what the norm
    reads is nowhere in memory, and no bit tells."""
    out = os.path.join(folder, "ends.json")
    given = os.path.join(folder, "given.json")
    for n, m, device in ((100, 70, "sim:a100"), (384, 45, "sim:h100"),
                         (60, 65, "sim:t4")):
        data = {}
        for name, shape in (("x", (m, 24)), ("w", (n, 24)), ("r", (m, n))):
            count = shape[0] * shape[1]
            data[name] = {"dtype": "f32", "shape": list(shape), "data": [
                i * 101 % 509 / 128 - 2 for i in range(count)]}
        with open(given, "w") as f:
            json.dump(data, f)
        got = []
        for more in ((), ("--disable-pass", "join-kernels")):
            said = run(folder, ENDS % n, device, "--in", "@=" + given, "--out",
                       out, "--counters", "--json", *more)
            with open(out) as f:
                got.append((json.loads(said)["launches"],
                            json.load(f)["results"]))
        launches = got[0][0]
        c = launches[0]["counters"]
        need = 4 * (m * n + 24 * (m + n)) # in sectors of 32 bytes
        expect("rows behind a product, %d x %d" % (m, n),
               len(launches) == 1 and len(got[1][0]) > 3 and
               c["global.bytes_written"] == 2 * 4 * m * n and
               0 <= c["global.unique_read"] - need < 3 * 32 and
               got[0][1] == got[1][1], (len(launches), c))


def order(folder):
    """17 rows of tiles, 16 of them at a time, of 20 columns."""
    text = PRODUCT.replace("E", "x[i, k] * w[k, j]").replace(
        "X", "1100, 12").replace("W", "12, 1280").replace(
        "T", "f32").replace("M", "1100").replace("N", "1280")
    names = []
    for device in ("sim:h100", "cpu"):
        name = os.path.join(folder, device.replace(":", "_") + ".npy")
        run(folder, text, device, "--out", "y=" + name)
        with open(name, "rb") as f:
            names.append(f.read())
    expect("order of tiles", names[0] == names[1])


PICTURES = """dyn N <= 16
export fn conv(x: f32[N, 32, 30, 30], w: f32[64, 32, 3, 3])
    -> y: f32[N, 64, 30, 30] {
  y[n, o, h, v] = sum[c, r, s] x[n, c, h + r - 1, v + s - 1 | 0] * w[o, c, r, s]
}
"""
ROUTED = """dyn T <= 64
export fn f(x: f32[T, 512], w: f32[8, 256, 512], to: i32[T] in 8)
    -> y: f32[T, 256] {
  y[t, n] = sum[k] x[t, k] * w[to[t], n, k]
}
"""


GATE = """dyn N <= 4096
export fn f(x: f32[N, 36], g: f32[1024, 36], u: f32[1024, 36])
    -> y: f32[N, 1024] {
  a[n, i] = sum[k] x[n, k] * g[i, k]
  b[n, i] = sum[k] x[n, k] * u[i, k]
  y[n, i] = max(a[n, i], 0.0) * b[n, i]
}
"""


SWEEPS = """dim H = 2, D = 64
dyn T <= 8192, S <= 256
export fn decode(q: f32[H, D], k: f32[H, T, D], v: f32[H, T, D])
    -> y: f32[H, D] {
  s[h, t] = sum[d] q[h, d] * k[h, t, d]
  m[h] = max[t] s[h, t]
  p[h, t] = exp(s[h, t] - m[h])
  z[h] = sum[t] p[h, t]
  y[h, d] = (sum[t] p[h, t] * v[h, t, d]) / z[h]
}
export fn attend(q: f32[S, D], k: f32[S, D], v: f32[S, D]) -> y: f32[S, D] {
  s[i, t] = sum[d] q[i, d] * k[t, d]
  m[i] = max[t] s[i, t]
  p[i, t] = exp(s[i, t] - m[i])
  z[i] = sum[t] p[i, t]
  y[i, d] = (sum[t] p[i, t] * v[t, d]) / z[i]
}
"""


def same(folder, text, *more):
    """Results of a simulated GPU and of the CPU, bit by bit."""
    got = []
    for device in ("sim:h100", "cpu"):
        name = os.path.join(folder, device.replace(":", "_") + ".npy")
        run(folder, text, device, "--out", "y=" + name, *more)
        with open(name, "rb") as f:
            got.append(f.read())
    return got[0] == got[1]


def implicit(folder):
    """Pictures and weights are all that is read, a whole row of a picture at
    a time, and nothing is made besides the result."""
    got = counted(folder, PICTURES, "--dim", "N=2")
    c = got["counters"]
    size = 4 * (2 * 32 * 900 + 64 * 32 * 9)
    expect("convolution", c["global.unique_read"] == size and
           c["global.unique_written"] == 4 * 2 * 64 * 900 and
           c["global.sectors"] <= c["global.sectors_ideal"] * 1.15, got)
    plan = subprocess.run(
        [os.environ["TDSLC"], "dump", "plan", os.path.join(folder, "t.tdsl"),
         "--device", "sim:h100"], capture_output=True, text=True, check=True)
    expect("convolution, arena", "arena 0\n" in plan.stdout, plan.stdout)
    expect("convolution, bits", same(folder, PICTURES, "--dim", "N=1"))


def grouped(folder):
    """One by one the 64 rows would read 64 matrices, of which there are 8."""
    got = counted(folder, ROUTED, "--dim", "T=64")
    c = got["counters"]
    size = 4 * (8 * 256 * 512 + 64 * 512 + 64)
    tail = c["global.sectors"] - c["global.unique_written"] // 32
    expect("rows that choose", c["global.unique_read"] <= size and
           tail * 32 <= size * 1.1 and
           c["global.sectors"] == c["global.sectors_ideal"], got)
    size = c["shared.bytes_read"] + c["shared.bytes_written"]
    expect("banks of rows that choose",
           c["shared.wavefronts"] * 128 <= size * 1.03, got)
    expect("rows that choose, bits", same(folder, ROUTED, "--dim", "T=49"))


def gate(folder):
    """A block of 128 rows and 64 columns brings its rows once for two."""
    got = counted(folder, GATE, "--dim", "N=1152")
    c = got["counters"]
    tiles = 9 * 16
    expect("a gate", c["global.bytes_written"] == 4 * 1152 * 1024 and
           c["global.bytes_read"] == tiles * 4 * 36 * (128 + 2 * 64), got)
    size = c["shared.bytes_read"] + c["shared.bytes_written"]
    expect("banks of a gate", c["shared.wavefronts"] * 128 <= size * 1.01, got)
    expect("a gate, bits", same(folder, GATE, "--dim", "N=1101"))


def sweeps(folder):
    """Keys lie along the depth, and come so: whole, cut into splits, and for
    64 rows at once. Nothing of what a block keeps goes to memory."""
    for entry, dim, size, kernels in (("decode", "T=300", 2 * 300 * 64, 1),
                                      ("decode", "T=2100", 2 * 2100 * 64, 2),
                                      ("attend", "S=150", 150 * 64, 1)):
        out = run(folder, SWEEPS, "sim:h100", "--counters", "--json",
                  "--entry", entry, "--dim", dim)
        launches = json.loads(out)["launches"]
        c = launches[0]["counters"]
        expect("sweep, %s %s" % (entry, dim), len(launches) == kernels and
               c["global.unique_read"] >= 2 * 4 * size and
               c["global.sectors"] <= c["global.sectors_ideal"] * 1.02 and
               c["shared.wavefronts"] <= c["shared.ideal"] * 1.02 and
               c["global.bytes_written"] <= 4 * size, launches)
        expect("sweep, %s %s, bits" % (entry, dim),
               same(folder, SWEEPS, "--entry", entry, "--dim", dim))


def taken(folder):
    """Threads, shared memory and grid are exact. Registers are about what the
    compiler takes, so blocks that fit are equal where they do not decide."""
    for text, entry, dim in ((GATE, "f", "N=1152"), (ROUTED, "f", "T=64"),
                             (ROWS, "softmax", "M=64"),
                             (SWEEPS, "attend", "S=150")):
        got = counted(folder, text, "--entry", entry, "--dim", dim)
        done = subprocess.run(
            [os.environ["TDSLC"], "explain", os.path.join(folder, "t.tdsl"),
             "--json", "--entry", entry, "--dim", dim, "--device",
             "sim:h100"], capture_output=True, text=True, check=True)
        said = [m for m in map(json.loads, done.stdout.splitlines())
                if m["code"] == "kernel.occupancy"]
        n = {k: v["most"] for k, v in said[0]["numbers"].items()}
        fits = got["occupancy"]
        # as many as the assembler says
        dump = subprocess.run(
            [os.environ["TDSLC"], "dump", "cuda",
             os.path.join(folder, "t.tdsl"), "--entry", entry, "--dim", dim,
             "--device", "sim:h100"], capture_output=True, text=True,
            check=True)
        _, log, _ = nvrtc.library().compile(dump.stdout, "sm_90a",
                                            nvrtc.VERBOSE)
        used = re.search(r"Used (\d+) registers", log)
        expect("registers, " + entry, used and
               got["registers"] == int(used.group(1)), (log, got))
        expect("what is taken, " + entry, len(said) == 1 and
               n["blocks"] == got["grid"][0] and
               n["shared_bytes"] == got["shared_static"] +
               got["shared_dynamic"] and
               n["waves"] == -(-n["blocks"] // (132 * n["blocks_resident"])) and
               1 / 3 < n["registers"] / got["registers"] < 3 and
               (fits["limiter"] == "registers" or
                "limited by registers" in said[0]["text"] or
                n["blocks_resident"] == fits["ctas"]), (said, got))


def main():
    need("nvrtc")
    with tempfile.TemporaryDirectory() as folder:
        for part in (products, rows, long_rows, row_ends, order, implicit,
                     grouped, gate, sweeps, taken):
            if drawn("counted." + part.__name__):
                part(folder)
    finish()


if __name__ == "__main__":
    main()
