"""Matrix products: an element has the same bits however many rows and columns
are computed with it, on every CPU target, with each number of threads, and
those of the interpreter, which adds from left to right (docs/language.md
9.4)."""
import json
import math
import os
import struct
import subprocess
import sys
import tempfile

TDSLC = os.path.join(os.environ["TDSL_TEST_BUILD"], "tdslc")
# rows, columns, depth, weights, turned: w[n, k] rather than w[k, n]
SHAPES = [(37, 70, 41, "f32", True), (5, 33, 530, "f32", True),
          (29, 16, 16, "f16", True), (16, 47, 300, "bf16", True),
          (130, 129, 37, "i8", True), (9, 18, 23, "f64", True),
          (190, 45, 260, "f32", False), (15, 31, 19, "f16", False),
          (3, 200, 77, "f64", False), (500, 17, 5, "f32", True),
          (5, 40, 64, "f16", True), (3, 33, 48, "f16", True),
          (40, 20, "J", "f32", True)] # J: known only at run time
PARTS = (1, 2, 6, 13)  # rows of products that are made again by themselves


def program():
    lines, params, results, body = ["dyn J <= 600"], [], [], []
    for i, (m, n, k, dtype, turned) in enumerate(SHAPES):
        kind = "f64" if dtype == "f64" else "f32"
        w = "w%d[n, k]" if turned else "w%d[k, n]"
        w = ("%s(" % kind if dtype != kind else "(") + w % i + ")"
        params.append("x%d: %s[%d, %s]" % (i, kind, m, k))
        shape = (n, k) if turned else (k, n)
        params.append("w%d: %s[%s, %s]" % ((i, dtype) + shape))
        results.append("y%d: %s[%d, %d]" % (i, kind, m, n))
        body.append("y%d[m, n] = sum[k] x%d[m, k] * %s" % (i, i, w))
        for rows in PARTS:
            if rows >= m:
                continue
            name = "p%d_%d" % (i, rows)
            results.append("%s: %s[%d, %d]" % (name, kind, rows, n))
            body.append("%s[m in %d, n] = sum[k] x%d[m + %d, k] * %s"
                        % (name, rows, i, m - rows, w))
    lines.append("export fn products(%s) -> (%s) {" % (", ".join(params),
                                                       ", ".join(results)))
    return "\n".join(lines + ["  " + b for b in body] + ["}", ""])


# Weights from a file, which products read as panels: name, dtype, shape.
WEIGHTS = [("a", "F32", (70, 66)), ("b", "F16", (80, 96)),
           ("c", "BF16", (3, 30, 64)), ("d", "I8", (70, 100)),
           ("e", "F32", (64, 100)), ("f", "F64", (65, 67)),
           ("h", "I8", (165, 128)), ("hs", "F16", (165, 4)),
           ("q", "U8", (165, 64)),
           ("g.0", "F32", (64, 64)), ("g.1", "F32", (64, 64))]
PANELS = """
struct Layer { w: f32[64, 64] from "" }
struct Net {
  a: f32[70, 66] from "a"
  b: f16[80, 96] from "b"
  c: bf16[3, 30, 64] from "c"
  d: i8[70, 100] from "d"
  e: f32[64, 100] from "e"
  f: f64[65, 67] from "f"
  h: i8[165, 128] from "h"
  hs: f16[165, 4] from "hs"
  q: u8[165, 64] from "q"
  g: [2] Layer from "g.{}"
}
dyn T <= 300
export fn panels(p: Net, x: f32[40, 100], t: f32[T, 66], u: f64[20, 67],
                 v: f32[40, 128]) ->
    (a: f32[T, 70], b: f32[40, 80], c: f32[40, 3, 30], d: f32[5, 70],
     d1: f32[1, 70], e: f32[40, 100], f: f64[20, 65], g: f32[40, 64],
     z: f32[40, 165], z1: f32[1, 165], z3: f32[3, 165], q: f32[40, 165],
     q1: f32[1, 165]) {
  a[m, n] = sum[k] t[m, k] * p.a[n, k]
  b[m, n] = sum[k in 96] x[m, k] * f32(p.b[n, k])
  c[m, h, i] = sum[k in 64] x[m, k] * f32(p.c[h, i, k])
  d[m in 5, n] = sum[k] x[m, k] * f32(p.d[n, k])
  d1[m in 1, n] = sum[k] x[m + 2, k] * f32(p.d[n, k])
  e[m, n] = max(sum[k in 64] x[m, k] * p.e[k, n], 0)
  f[m, n] = sum[k] u[m, k] * p.f[n, k]
  z[m, n] = sum[k] v[m, k] * (f32(p.h[n, k]) * f32(p.hs[n, k / 32]))
  z1[m in 1, n] = sum[k] v[m + 2, k] * (f32(p.h[n, k]) * f32(p.hs[n, k / 32]))
  z3[m in 3, n] = sum[k] v[m, k] * (f32(p.h[n, k]) * f32(p.hs[n, k / 32]))
  q[m, n] = sum[k in 128] v[m, k]
    * (f32((if k % 2 == 0 then p.q[n, k / 2] % 16 else p.q[n, k / 2] / 16) - 8)
       * f32(p.hs[n, k / 32]))
  q1[m in 1, n] = sum[k in 128] v[m, k]
    * (f32((if k % 2 == 0 then p.q[n, k / 2] % 16 else p.q[n, k / 2] / 16) - 8)
       * f32(p.hs[n, k / 32]))
  var s[m in 40, n in 64] = x[m, n]
  for l in 2 {
    y[m in 40, n in 64] = sum[k in 64] s[m, k] * p.g[l].w[n, k]
    s[m, n] := y[m, n] * 0.25
  }
  g = s
}
"""


# Large enough that the whole operand is packed before the product.
LARGE = """
export fn large(x: f32[520, 1010], w: f32[1010, 1030]) ->
    (r: f32[520], t: f32[520]) {
  y[m, n] = sum[k] x[m, k] * w[k, n]
  r[m] = sum[n] y[m, n] * (1 + f32(n % 7))
  t[m] = max[n] y[m, n]
}
"""


def write_weights(path):
    head, data = {}, b""
    for name, dtype, shape in WEIGHTS:
        count = math.prod(shape)
        ints = [(i * 7919 + len(data)) % 251 - 125 for i in range(count)]
        if dtype == "U8":
            raw = bytes(i % 256 for i in ints)
        elif dtype == "I8":
            raw = struct.pack("%db" % count, *ints)
        elif dtype == "BF16":
            raw = b"".join(struct.pack("<f", i / 128.0)[2:] for i in ints)
        else:
            code = {"F32": "f", "F16": "e", "F64": "d"}[dtype]
            raw = struct.pack("<%d%s" % (count, code),
                              *(i / 128.0 for i in ints))
        head[name] = {"dtype": dtype, "shape": list(shape),
                      "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def run(path, device, *more, **env):
    out = path + ".json"
    subprocess.run([TDSLC, "run", path, "--device", device, "--in",
                    "*=random:3", "--out", out, "-q"] + list(more),
                   check=True, env=dict(os.environ, **env))
    with open(out) as f:
        got = json.load(f)
    return {name: r["data"] for name, r in got["results"].items()}


def say(name, good, detail=""):
    print("%s %s" % ("ok" if good else "not ok", name))
    if not good:
        print("  " + detail)
    return not good


def differing(got, want):
    return [name for name in want if got[name] != want[name]]


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "products.tdsl")
        with open(path, "w") as f:
            f.write(program())
        rows = ("--dim", "J=91")
        want = run(path, "interp", *rows)
        failed += say("filled", all(any(v != 0 for v in want["y%d" % i])
                                    for i in range(len(SHAPES))))
        for i, (m, n, _, _, _) in enumerate(SHAPES):
            for count in PARTS:
                if count < m:
                    part = want["p%d_%d" % (i, count)]
                    if part != want["y%d" % i][-count * n:]:
                        failed += say("interp.%d.%d" % (i, count), False)
        runs = [("cpu", {}), ("cpu", {"TDSL_THREADS": "1"}),
                ("interp:kir", {})]
        with open("/proc/cpuinfo") as f:
            flags = f.read()
        if " avx2" in flags:
            runs += [("cpu:x86-64-v3", {}), ("cpu:x86-64-v2", {})]
        for device, env in runs:
            wrong = differing(run(path, device, *rows, **env), want)
            failed += say("%s%s" % (device, ".one" if env else ""),
                          not wrong, "other bits: %s" % " ".join(wrong))
        path = os.path.join(folder, "panels.tdsl")
        file = os.path.join(folder, "panels.safetensors")
        write_weights(file)
        with open(path, "w") as f:
            f.write(PANELS)
        more = ("--dim", "T=57", "--weights", file)
        want = run(path, "interp", *more)
        plan = subprocess.run([TDSLC, "dump", "plan", path, "--weights", file],
                              check=True, stdout=subprocess.PIPE, text=True)
        made = plan.stdout.count("launch once")
        failed += say("panels.once", made == 10, "%d of 10" % made)
        for device, env in runs:
            wrong = differing(run(path, device, *more, **env), want)
            failed += say("panels.%s%s" % (device, ".one" if env else ""),
                          not wrong, "other bits: %s" % " ".join(wrong))
        path = os.path.join(folder, "large.tdsl")
        with open(path, "w") as f:
            f.write(LARGE)
        more = ("--disable-pass", "pack-operands")
        wrong = differing(run(path, "cpu"), run(path, "cpu", *more))
        failed += say("large", not wrong, "other bits: %s" % " ".join(wrong))
    return failed


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
