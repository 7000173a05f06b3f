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


# name, text, kernels before and after, bytes saved at N = 24. A value that
# stays inside saves one write and one read for each kernel that read it.
TABLE = [
    ("bias", """
export fn f(x: f32[N, D], w: f32[F, D], b: f32[F]) -> y: f32[N, F] {
  y[n, f] = b[f] + sum[d] x[n, d] * w[f, d]
}""", 2, 1, 2 * f32(N, F)),
    ("activation", """
export fn f(x: f32[N, D], w: f32[F, D]) -> y: f32[N, F] {
  s[n, f] = sum[d] x[n, d] * w[f, d]
  y[n, f] = s[n, f] / (1.0 + exp(-s[n, f]))
}""", 2, 1, 2 * f32(N, F)),
    ("residual", """
export fn f(x: f32[N, D], w: f32[F, D], r: f32[N, F])
    -> (y: f32[N, F], m: f32[N]) {
  y[n, f] = r[n, f] + sum[d] x[n, d] * w[f, d]
  m[n] = max[f] y[n, f]
}""", 3, 2, 2 * f32(N, F)),
    ("cast", """
export fn f(x: f32[N, D], w: f32[F, D]) -> y: bf16[N, F] {
  s[n, f] = sum[d] x[n, d] * w[f, d]
  y[n, f] = s[n, f]
}""", 2, 1, 2 * f32(N, F)),
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


def check(name, text, before, after, saved, folder):
    path = os.path.join(folder, "p.tdsl")
    with open(path, "w", encoding="utf-8") as f:
        f.write(HEAD + text + "\n")
    faults = []
    for device in DEVICES:
        off, on = ledger(path, device, *OFF), ledger(path, device)
        if (off[0], on[0]) != (before, after):
            faults.append("%s: %d kernels become %d, not %d and %d"
                          % (device, off[0], on[0], before, after))
        if off[1] - on[1] != saved:
            faults.append("%s: %d bytes of %d are saved, not %d"
                          % (device, off[1] - on[1], off[1], saved))
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
