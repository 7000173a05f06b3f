"""What becomes one kernel, by a table: the number of kernels of each program
with and without the passes that join, and the bytes that joining saves, which
are those of the values that stay inside and of operands that are read once
instead of several times. Results have the same bits either way. The example
of docs/fusion.md is checked as well."""
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "codegen"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "harness"))
import nvrtc  # noqa: E402
import test_docs  # noqa: E402

TDSLC = os.environ["TDSLC"]
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
N, D, F = 24, 64, 96
HEAD = "dim D = 64, F = 96\ndyn N <= 64\n"
DEVICES = ["cpu:x86-64-v3"]
if nvrtc.library().handle is not None:
    DEVICES.append("sim:h100")
OFF = ["--disable-pass", "fuse-elementwise,join-kernels"]


def f32(*shape):
    size = 4
    for n in shape:
        size *= n
    return size


# name, text, kernels without these passes and with them, bytes saved at N = 24,
# and the last two on a GPU where they differ. A value that stays inside saves
# one write and one read for each kernel that read it.
TABLE = [
    ("bias as epilogue", """
export fn f(x: f32[N, D], w: f32[F, D], b: f32[F]) -> y: f32[N, F] {
  y[n, f] = b[f] + sum[d] x[n, d] * w[f, d]
}""", 2, 1, 2 * f32(N, F)),
    ("activation as epilogue", """
export fn f(x: f32[N, D], w: f32[F, D]) -> y: f32[N, F] {
  s[n, f] = sum[d] x[n, d] * w[f, d]
  y[n, f] = s[n, f] / (1.0 + exp(-s[n, f]))
}""", 2, 1, 2 * f32(N, F)),
    ("residual as epilogue", """
export fn f(x: f32[N, D], w: f32[F, D], r: f32[N, F]) -> y: f32[N, F] {
  y[n, f] = r[n, f] + sum[d] x[n, d] * w[f, d]
}""", 2, 1, 2 * f32(N, F)),
    ("cast as epilogue", """
export fn f(x: f32[N, D], w: f32[F, D]) -> y: bf16[N, F] {
  s[n, f] = sum[d] x[n, d] * w[f, d]
  y[n, f] = s[n, f]
}""", 2, 1, 2 * f32(N, F)),
    ("gather as epilogue", """
export fn f(x: f32[N, D], w: f32[F, D], e: f32[100, F], at: i32[N] in 100)
    -> y: f32[N, F] {
  y[n, f] = e[at[n], f] + sum[d] x[n, d] * w[f, d]
}""", 2, 1, 2 * f32(N, F)),
    # a GPU's tile has a part of a row: its rows are a kernel of their own
    ("rotary as epilogue", """
export fn f(x: f32[N, D], w: f32[F, D], c: f32[N, F], s: f32[N, F])
    -> y: f32[N, F] {
  q[n, f] = sum[d] x[n, d] * w[f, d]
  z[n, f in F] = if f < F / 2 then q[n, f + F / 2] else q[n, f - F / 2]
  y[n, f] = q[n, f] * c[n, f] + z[n, f] * s[n, f]
}""", 3, 1, 5 * f32(N, F), 2, 3 * f32(N, F)),
    ("norm as epilogue", """
export fn f(x: f32[N, D], w: f32[F, D], r: f32[N, F]) -> y: f32[N, F] {
  h[n, f] = r[n, f] + sum[d] x[n, d] * w[f, d]
  s[n] = sum[f] h[n, f] * h[n, f]
  i[n] = rsqrt(s[n] / f32(F) + 1e-5)
  y[n, f] = h[n, f] * i[n]
}""", 5, 1, 5 * f32(N, F) + 4 * f32(N), 2, 3 * f32(N, F) + 4 * f32(N)),
    ("what a norm needs, as epilogue", """
export fn f(x: f32[N, D], w: f32[F, D], r: f32[N, F])
    -> (y: f32[N, F], s: f32[N]) {
  y[n, f] = r[n, f] + sum[d] x[n, d] * w[f, d]
  s[n] = sum[f] y[n, f] * y[n, f]
}""", 3, 1, 3 * f32(N, F), 2, 2 * f32(N, F)),
    ("row maximum as epilogue", """
export fn f(x: f32[N, D], w: f32[F, D]) -> m: f32[N] {
  y[n, f] = sum[d] x[n, d] * w[f, d]
  m[n] = max[f] y[n, f]
}""", 2, 1, 2 * f32(N, F), 2, 0),
    ("largest as epilogue", """
export fn f(x: f32[N, D], w: f32[F, D]) -> m: i32[N] {
  y[n, f] = sum[d] x[n, d] * w[f, d]
  m[n] = argmax[f] y[n, f]
}""", 2, 1, 2 * f32(N, F), 2, 0),
    ("bias as prologue", """
export fn f(x: f32[N, D], b: f32[D], w: f32[F, D]) -> y: f32[N, F] {
  h[n, d] = x[n, d] + b[d]
  y[n, f] = sum[d] h[n, d] * w[f, d]
}""", 2, 1, 2 * f32(N, D)),
    ("activation as prologue", """
export fn f(x: f32[N, D], w: f32[F, D]) -> y: f32[N, F] {
  h[n, d] = max(x[n, d], 0.0)
  y[n, f] = sum[d] h[n, d] * w[f, d]
}""", 2, 1, 2 * f32(N, D)),
    # not again for each block of columns
    ("dear activation as prologue", """
export fn f(x: f32[N, D], w: f32[F, D]) -> y: f32[N, F] {
  h[n, d] = x[n, d] / (1.0 + exp(-x[n, d]))
  y[n, f] = sum[d] h[n, d] * w[f, d]
}""", 2, 2, 0),
    ("residual as prologue", """
export fn f(x: f32[N, D], r: f32[N, D], w: f32[F, D]) -> y: f32[N, F] {
  h[n, d] = x[n, d] + r[n, d]
  y[n, f] = sum[d] h[n, d] * w[f, d]
}""", 2, 1, 2 * f32(N, D)),
    ("cast as prologue", """
export fn f(x: f32[N, D], w: f32[F, D]) -> y: f32[N, F] {
  h[n, d]: bf16 = x[n, d]
  y[n, f] = sum[d] h[n, d] * w[f, d]
}""", 2, 1, f32(N, D)),
    ("norm as prologue", """
export fn f(x: f32[N, D], g: f32[D], r: f32[N], w: f32[F, D]) -> y: f32[N, F] {
  h[n, d] = x[n, d] * r[n] * g[d]
  y[n, f] = sum[d] h[n, d] * w[f, d]
}""", 2, 1, 2 * f32(N, D)),
    ("gather as prologue", """
export fn f(e: f32[100, D], at: i32[N] in 100, w: f32[F, D]) -> y: f32[N, F] {
  h[n, d] = e[at[n], d]
  y[n, f] = sum[d] h[n, d] * w[f, d]
}""", 2, 1, 2 * f32(N, D)),
    ("rotary as prologue", """
export fn f(x: f32[N, D], c: f32[N, D], s: f32[N, D], w: f32[F, D])
    -> y: f32[N, F] {
  z[n, d in D] = if d < D / 2 then x[n, d + D / 2] else x[n, d - D / 2]
  h[n, d] = x[n, d] * c[n, d] + z[n, d] * s[n, d]
  y[n, f] = sum[d] h[n, d] * w[f, d]
}""", 3, 1, 5 * f32(N, D)),
    ("rows", """
export fn f(x: f32[N, D]) -> y: f32[N, D] {
  m[n] = max[d] x[n, d]
  e[n, d] = exp(x[n, d] - m[n])
  z[n] = sum[d] e[n, d]
  y[n, d] = e[n, d] / z[n]
}""", 4, 1, 2 * f32(N) + 3 * f32(N, D) + 2 * f32(N) + f32(N, D)),
    ("several results", """
export fn f(x: f32[N, D], w: f32[F, D]) -> (y: f32[N, F], z: f32[N, F]) {
  s[n, f] = sum[d] x[n, d] * w[f, d]
  y[n, f] = max(s[n, f], 0.0)
  z[n, f] = exp(s[n, f])
}""", 3, 1, 3 * f32(N, F)),
    ("a cache", """
export fn f(x: f32[N, D], w: f32[F, D], c: inout f32[200, F], at: i32 in 100) {
  v[n, f] = sum[d] x[n, d] * w[f, d]
  c[at + n, f] := v[n, f]
}""", 2, 1, 2 * f32(N, F)),
    ("queries, keys, values", """
export fn f(x: f32[N, D], wq: f32[F, D], wk: f32[32, D], wv: f32[32, D])
    -> (q: f32[N, F], k: f32[N, 32], v: f32[N, 32]) {
  q[n, f] = sum[d] x[n, d] * wq[f, d]
  k[n, f] = sum[d] x[n, d] * wk[f, d]
  v[n, f] = sum[d] x[n, d] * wv[f, d]
}""", 3, 1, 2 * f32(N, D)),
    ("a gate", """
export fn f(x: f32[N, D], wg: f32[F, D], wu: f32[F, D]) -> y: f32[N, F] {
  g[n, f] = sum[d] x[n, d] * wg[f, d]
  u[n, f] = sum[d] x[n, d] * wu[f, d]
  y[n, f] = g[n, f] / (1.0 + exp(-g[n, f])) * u[n, f]
}""", 3, 1, f32(N, D) + 4 * f32(N, F)),
]


def dump(stage, path, device, *more):
    done = subprocess.run([TDSLC, "dump", stage, path, "--dim", "N=%d" % N,
                           "--device", device, *more],
                          capture_output=True, text=True, check=True)
    return done.stdout


def ledger(path, device, *more):
    """Kernels of the plan, and all bytes that they read and write."""
    plan = dump("plan", path, device, *more)
    bytes_of = [int(n) for n in re.findall(r"^  (?:reads|writes) (\d+)$",
                                           plan, re.M)]
    return len(re.findall(r"^kernel ", plan, re.M)), sum(bytes_of)


def results(path, folder, *more):
    out = os.path.join(folder, "out.json")
    subprocess.run([TDSLC, "run", path, "--device", "cpu", "--in",
                    "*=random:7", "--dim", "N=%d" % N, "--out", out, *more],
                   capture_output=True, text=True, check=True)
    with open(out, encoding="utf-8") as f:
        return f.read()


def check(name, text, before, after, saved, *rest):
    folder = rest[-1]
    path = os.path.join(folder, "p.tdsl")
    with open(path, "w", encoding="utf-8") as f:
        f.write(HEAD + text + "\n")
    faults = []
    for device in DEVICES:
        off, on = ledger(path, device, *OFF), ledger(path, device)
        kernels, less = after, saved
        if device.startswith("sim") and len(rest) > 1:
            kernels, less = rest[:2]
        if (off[0], on[0]) != (before, kernels):
            faults.append("%s: %d kernels become %d, not %d and %d"
                          % (device, off[0], on[0], before, kernels))
        if off[1] - on[1] != less:
            faults.append("%s: %d bytes of %d are saved, not %d"
                          % (device, off[1] - on[1], off[1], less))
    if results(path, folder) != results(path, folder, *OFF):
        faults.append("results differ")
    print("%s %s" % ("not ok" if faults else "ok", name))
    for line in faults:
        print("  " + line)
    return not faults


def check_page(folder):
    """Program, kernel and remarks of the page, in this order."""
    with open(os.path.join(ROOT, "docs", "fusion.md"), encoding="utf-8") as f:
        blocks = re.findall(r"^```\w*\n(.*?)^```", f.read(), re.S | re.M)
    path = os.path.join(folder, "layer.tdsl")
    with open(path, "w", encoding="utf-8") as f:
        f.write(blocks[0])

    def words(*args):
        done = subprocess.run([TDSLC, *args, "--device", "cpu:x86-64-v3"],
                              capture_output=True, text=True, check=True,
                              cwd=folder)
        return done.stdout
    good = True
    for name, block, text in (
            ("tir", blocks[1], words("dump", "tir-after=join-kernels",
                                     "layer.tdsl")),
            ("kir", blocks[2], words("dump", "kir", "layer.tdsl")),
            ("explain", blocks[3], words("explain", "layer.tdsl"))):
        line = test_docs.missing(block, text)
        print("%s page %s" % ("ok" if line is None else "not ok", name))
        if line is not None:
            good = False
            print("docs/fusion.md has\n%s\nwhich is not at its place in\n%s"
                  % (line, text))
    return good


def main():
    with tempfile.TemporaryDirectory() as folder:
        good = [check(*row, folder) for row in TABLE]
        good.append(check_page(folder))
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
