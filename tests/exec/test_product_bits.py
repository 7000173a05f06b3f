"""Matrix products: an element has the same bits however many rows and columns
are computed with it, on every CPU target, with each number of threads, and
those of the interpreter, which adds from left to right (docs/language.md
9.4)."""
import json
import os
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


def run(path, device, **env):
    out = path + ".json"
    subprocess.run([TDSLC, "run", path, "--device", device, "--in",
                    "*=random:3", "--dim", "J=91", "--out", out, "-q"],
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
        want = run(path, "interp")
        failed += say("filled", all(any(v != 0 for v in want["y%d" % i])
                                    for i in range(len(SHAPES))))
        for i, (m, n, _, _, _) in enumerate(SHAPES):
            for rows in PARTS:
                if rows < m:
                    part = want["p%d_%d" % (i, rows)]
                    want_part = want["y%d" % i][-rows * n:]
                    if part != want_part:
                        failed += say("interp.%d.%d" % (i, rows), False)
        runs = [("cpu", {}), ("cpu", {"TDSL_THREADS": "1"}),
                ("interp:kir", {})]
        with open("/proc/cpuinfo") as f:
            flags = f.read()
        if " avx2" in flags:
            runs += [("cpu:x86-64-v3", {}), ("cpu:x86-64-v2", {})]
        for device, env in runs:
            wrong = differing(run(path, device, **env), want)
            failed += say("%s%s" % (device, ".one" if env else ""),
                          not wrong, "other bits: %s" % " ".join(wrong))
    return failed


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
