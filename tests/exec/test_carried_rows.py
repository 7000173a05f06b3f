"""Rows of a group on a CPU whose first pass goes beside the last one over the
row before: results by the formulas in doubles, NaN and zeros of both signs in
some rows, whole blocks of rows and a part of one, the same bits on one thread
and on two and in the interpreter of kernels."""
import json
import math
import os
import random
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "harness"))
from report import expect, finish  # noqa: E402

BUILD = os.environ["TDSL_TEST_BUILD"]
TDSLC = os.path.join(BUILD, "tdslc")
C = 192
TEXT = """
import softmax (softmax)
dim R = %d, C = 192
export fn soft(x: f32[R, C]) -> y: f32[R, C] {
  y[r, :] = softmax(x[r, :])
}
export fn loss(x: f32[R, C], k: i32[R] in C) -> l: f32[R] {
  m[r] = max[v] x[r, v]
  s[r] = sum[v] exp(x[r, v] - m[r])
  l[r] = m[r] + log(s[r]) - x[r, k[r]]
}
// A zero's sign is seen by a division.
export fn most(x: f32[R, C]) -> y: f32[R, C] {
  m[r] = max[c] x[r, c]
  y[r, c] = exp(x[r, c]) / m[r]
}
export fn least(x: f32[R, C]) -> y: f32[R, C] {
  m[r] = min[c] x[r, c]
  s[r] = sum[c] exp(x[r, c])
  y[r, c] = (exp(x[r, c]) + s[r]) / m[r]
}
export fn norm(x: f32[R, C], w: f32[C]) -> y: f32[R, C] {
  m[r] = (sum[c] x[r, c]) / f32(C)
  v[r] = (sum[c] (x[r, c] - m[r]) * (x[r, c] - m[r])) / f32(C)
  z[r, c] = (x[r, c] - m[r]) * rsqrt(v[r] + 1e-3) * w[c]
  y[r, c] = 0.5 * z[r, c] * (1 + erf(z[r, c] * 0.70710678))
}
"""
NAN = float("nan")


def f32(v):
    return struct.unpack("<f", struct.pack("<f", v))[0]


def rows(count, specials):
    r = random.Random(count)
    x = [[f32(r.uniform(-4, 4)) for _ in range(C)] for _ in range(count)]
    if specials:
        x[3][77] = NAN
        x[16] = [-0.0] * C          # the first row of a block
        x[17] = [-0.0] * C
        x[17][191] = 0.0
        x[31] = [-abs(v) for v in x[31]]
        x[31][64] = 0.0             # the last row of one
        x[40] = [abs(v) for v in x[40]]
        x[40][5] = -0.0
        x[41] = [abs(v) for v in x[41]]
        x[41][5], x[41][100] = 0.0, -0.0
        x[count - 1][0] = NAN
    return x


def largest(row, sign):
    if any(math.isnan(v) for v in row):
        return NAN
    # -0 is below +0
    return max(row, key=lambda v: (sign * v, sign * math.copysign(1, v)))


def over(a, b):
    if b == 0:
        return math.copysign(math.inf, b) if a > 0 else NAN
    return a / b


def expected(fn, x, k, w):
    out = []
    for i, row in enumerate(x):
        if fn in ("most", "least"):
            m = largest(row, 1 if fn == "most" else -1)
            e = [math.exp(v) for v in row]
            s = sum(e) if fn == "least" else 0
            out += [over(v + s, m) for v in e]
            continue
        if any(math.isnan(v) for v in row):
            out += [NAN] if fn == "loss" else [NAN] * C
            continue
        m = max(row)
        e = [math.exp(v - m) for v in row]
        if fn == "soft":
            out += [v / sum(e) for v in e]
        elif fn == "loss":
            out.append(m + math.log(sum(e)) - row[k[i]])
        else:
            mean = sum(row) / C
            var = sum((v - mean) ** 2 for v in row) / C
            z = [(v - mean) / math.sqrt(var + 1e-3) * w[c]
                 for c, v in enumerate(row)]
            out += [0.5 * v * (1 + math.erf(v * 0.70710678)) for v in z]
    return out


def npy(path, kind, shape, data):
    head = "{'descr': '<%s4', 'fortran_order': False, 'shape': %r, }" % (
        kind, tuple(shape))
    head += " " * (63 - (10 + len(head)) % 64) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)))
        f.write(head.encode())
        f.write(struct.pack("<%d%s" % (len(data), kind), *data))


def is_close(a, b):
    if math.isnan(b) or math.isinf(b):
        return a == b or (math.isnan(a) and math.isnan(b))
    return abs(a - b) <= 2e-5 * abs(b) + 2e-6


class Lab:
    def __init__(self, folder):
        self.folder = folder

    def call(self, *args, **env):
        env = dict(os.environ, TDSL_CACHE="on",
                   TDSL_CACHE_DIR=os.path.join(BUILD, "test-cache"), **env)
        return subprocess.run([TDSLC] + list(args), capture_output=True,
                              text=True, env=env)

    def run(self, path, fn, device, inputs, threads):
        out = os.path.join(self.folder, "out.json")
        args = ["run", path, "--entry", fn, "--device", device, "-q",
                "--out", out]
        for item in inputs:
            args += ["--in", item]
        done = self.call(*args, TDSL_THREADS=str(threads))
        if done.returncode != 0:
            return None, done.stderr
        with open(out) as f:
            results = json.load(f)
        results = results.get("results", results)
        return [float(v) for v in list(results.values())[0]["data"]], ""


def main():
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(folder)
        host = lab.call("doctor").stdout
        targets = ["cpu"]
        if "x86-64-v4" in host:
            targets += ["cpu:x86-64-v3"]
        for count, specials in ((144, True), (130, False)):
            path = os.path.join(folder, "rows%d.tdsl" % count)
            with open(path, "w") as f:
                f.write(TEXT % count)
            x = rows(count, specials)
            r = random.Random(1)
            k = [r.randrange(C) for _ in range(count)]
            w = [f32(r.uniform(-1, 1)) for _ in range(C)]
            files = {n: os.path.join(folder, n + ".npy") for n in "xkw"}
            npy(files["x"], "f", (count, C), [v for row in x for v in row])
            npy(files["k"], "i", (count,), k)
            npy(files["w"], "f", (C,), w)
            for fn, names in (("soft", "x"), ("loss", "xk"), ("most", "x"),
                              ("least", "x"), ("norm", "xw")):
                if not specials and fn not in ("soft", "norm"):
                    continue
                inputs = ["%s=%s" % (n, files[n]) for n in names]
                want = expected(fn, x, k, w)
                for target in targets:
                    one, why = lab.run(path, fn, target, inputs, 1)
                    name = "%s %d %s" % (fn, count, target)
                    bad = [] if one is None else [
                        (i, a, b) for i, (a, b) in enumerate(zip(one, want))
                        if not is_close(a, b)]
                    expect(name, one is not None and
                           len(one) == len(want) and not bad,
                           why or bad[:5])
                    two, why = lab.run(path, fn, target, inputs, 2)
                    expect(name + ", two threads",
                           repr(one) == repr(two), why)
                kernels, why = lab.run(path, fn, "interp:kir", inputs, 1)
                bad = [] if kernels is None else [
                    (i, a, b) for i, (a, b) in enumerate(zip(kernels, want))
                    if not is_close(a, b)]
                expect("%s %d interp:kir" % (fn, count),
                       kernels is not None and not bad, why or bad[:5])
                if targets == ["cpu"]:
                    continue
                kir = lab.call("dump", "kir", path, "--entry", fn, "--device",
                               "cpu:x86-64-v4", "-q").stdout
                expect("%s %d goes beside" % (fn, count),
                       "goes beside the last one" in kir, kir)
    finish()


main()
