"""Attention in one sweep: a row has the same bits whatever the number of rows
and however many masked elements follow (docs/language.md 9.4, B2 and B3), with
each number of threads, and close to the sweeps of the text."""
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "harness"))
from report import drawn  # noqa: E402

TDSLC = os.path.join(os.environ["TDSL_TEST_BUILD"], "tdslc")
TEXT = """
dim H = 3, D = 16
dyn T <= 1024
fn attend[N](x: f32[N], off: i32) -> o: f32[N, H, D] {
  q[t in N, h in H, i in D] = 4 * uniform(1, t, h, i) - 2
  k[u in N, h in H, i in D] = 4 * uniform(2, u, h, i) - 2
  v[u in N, h in H, i in D] = 2 * uniform(3, u, h, i) - 1
  s[t in N, h in H, u in N] = if u <= t + off
      then (sum[i] q[t, h, i] * k[u, h, i]) / sqrt(f32(D)) else -inf
  m[t, h] = max[u] s[t, h, u]
  e[t, h, u] = if m[t, h] == -inf then 0 else exp(s[t, h, u] - m[t, h])
  l[t, h] = sum[u] e[t, h, u]
  o[t, h, d] = if l[t, h] == 0 then 0
               else (sum[u] e[t, h, u] * v[u, h, d]) / l[t, h]
}
export fn causal(x: f32[T]) -> o: f32[T, H, D] { o = attend(x, 0) }
export fn late(x: f32[T]) -> o: f32[T, H, D] { o = attend(x, -70) }
"""

# Queries that share keys of memory: few of them take keys and values in turns.
SHARED = """
dim D = %d
dyn R <= 64, S <= 4096
export fn full(q: f32[R, D], k: f32[S, D], v: f32[S, D]) -> o: f32[R, D] {
  s[r, j] = (sum[d] q[r, d] * k[j, d]) * 0.3
  m[r] = max[j] s[r, j]
  e[r, j] = exp(s[r, j] - m[r])
  l[r] = sum[j] e[r, j]
  o[r, d] = (sum[j] e[r, j] * v[j, d]) / l[r]
}
export fn until(q: f32[R, D], k: f32[S, D], v: f32[S, D]) -> o: f32[R, D] {
  s[r, j] = if j < S - 20 - 70 * (r %% 2)
            then (sum[d] q[r, d] * k[j, d]) * 0.3 else -inf
  m[r] = max[j] s[r, j]
  e[r, j] = exp(s[r, j] - m[r])
  l[r] = sum[j] e[r, j]
  o[r, d] = (sum[j] e[r, j] * v[j, d]) / l[r]
}
export fn later(q: f32[R, D], k: f32[S, D], v: f32[S, D]) -> o: f32[R, D] {
  s[r, j in S] = if j + 5 < S
                 then (sum[d] q[r, d] * k[j + 5, d]) * 0.3 else -inf
  m[r] = max[j] s[r, j]
  e[r, j] = exp(s[r, j] - m[r])
  l[r] = sum[j] e[r, j]
  o[r, d] = (sum[j] e[r, j] * v[j, d]) / l[r]
}
export fn zeros(q: f32[R, D], k: f32[S, D], v: f32[S, D]) -> o: f32[R, D] {
  p[r, j] = sum[d where j < S - 20] q[r, d] * k[j, d]
  s[r, j] = if j < S - 30 then p[r, j] * 0.3 else p[r, j] + 0.1
  m[r] = max[j] s[r, j]
  e[r, j] = exp(s[r, j] - m[r])
  l[r] = sum[j] e[r, j]
  o[r, d] = (sum[j] e[r, j] * v[j, d]) / l[r]
}
"""

# Two queries a head of keys, which pages hold: blocks are of more than one
# head. With the pages side by side they are of one.
PAGED = """
dim H = 16, G = 8, D = 64
dyn S <= 4096, P <= 256
require P >= (S + 15) / 16
fn weigh[N](q: f32[H, D], k: f32[G, N, D], v: f32[G, N, D]) -> o: f32[H, D] {
  s[h, j in N] = (sum[d] q[h, d] * k[h / 2, j, d]) * 0.3
  m[h] = max[j] s[h, j]
  e[h, j] = exp(s[h, j] - m[h])
  l[h] = sum[j] e[h, j]
  o[h, d] = (sum[j] e[h, j] * v[h / 2, j, d]) / l[h]
}
export fn paged(q: f32[H, D], k: f32[P, 16, G, D], v: f32[P, 16, G, D],
                page: i32[P] in P, x: f32[S]) -> o: f32[H, D] {
  s[h, j in S] = (sum[d] q[h, d] * k[page[j / 16], j % 16, h / 2, d]) * 0.3
  m[h] = max[j] s[h, j]
  e[h, j] = exp(s[h, j] - m[h])
  l[h] = sum[j] e[h, j]
  o[h, d] = (sum[j] e[h, j] * v[page[j / 16], j % 16, h / 2, d]) / l[h]
}
export fn flat(q: f32[H, D], k: f32[P, 16, G, D], v: f32[P, 16, G, D],
               page: i32[P] in P, x: f32[S])
    -> (o: f32[H, D], kc: f32[G, S, D], vc: f32[G, S, D]) {
  kc[g, j, d] = k[page[j / 16], j % 16, g, d]
  vc[g, j, d] = v[page[j / 16], j % 16, g, d]
  o = weigh(q, kc, vc)
}
"""


def attend(path, entry, rows, keys):
    out = path + ".json"
    subprocess.run([TDSLC, "run", path, "--entry", entry, "--dim",
                    "R=%d" % rows, "--dim", "S=%d" % keys, "--in",
                    "*=random:1", "--out", out, "-q"], check=True)
    with open(out) as f:
        return json.load(f)["results"]["o"]["data"]


def check_shared(folder):
    """Three queries, and six, with the bits that they have among forty."""
    failed = 0
    for width, lengths in ((64, (192,)), (128, (95, 170, 1100))):
        path = os.path.join(folder, "shared%d.tdsl" % width)
        with open(path, "w") as f:
            f.write(SHARED % width)
        # a condition can wait if it says nothing of memory and nobody has a
        # use for what it leaves out
        for entry, in_turns in (("full", True), ("until", True),
                                ("later", False), ("zeros", False)):
            if width == 64 and entry != "until":
                continue
            kernel = subprocess.run(
                [TDSLC, "dump", "kir", path, "--entry", entry, "--device",
                 "cpu:x86-64-v4", "--dim", "R=6"],
                capture_output=True, text=True, check=True).stdout
            failed += say("shared.%d.%s" % (width, entry),
                          ("this one in turns" in kernel) == in_turns,
                          kernel[:400])
            for keys in lengths if in_turns else lengths[:1]:
                many = attend(path, entry, 40, keys)
                for rows in (3, 6):
                    if not drawn("sweep_bits.%s.%d.%d" % (entry, keys, rows)):
                        continue
                    few = attend(path, entry, rows, keys)
                    failed += say(
                        "shared.%d.%s.%d.%d" % (width, entry, rows, keys),
                        few == many[:rows * width],
                        "rows change with their number")
    return failed


def check_paged(folder):
    path = os.path.join(folder, "paged.tdsl")
    with open(path, "w") as f:
        f.write(PAGED)
    failed = 0
    for entry, rows in (("paged", 4), ("flat", 2)):
        kernels = subprocess.run(
            [TDSLC, "dump", "kir", path, "--entry", entry, "--device", "cpu"],
            capture_output=True, text=True, check=True).stdout
        failed += say("paged." + entry, "blocks of %d rows" % rows in kernels,
                      kernels[:400])
    for keys in (200, 1100):
        got = []
        for entry in ("paged", "flat"):
            out = path + ".json"
            subprocess.run([TDSLC, "run", path, "--entry", entry, "--dim",
                            "S=%d" % keys, "--dim", "P=80", "--in",
                            "*=random:1", "--out", out, "-q"], check=True)
            with open(out) as f:
                got.append(json.load(f)["results"]["o"]["data"])
        failed += say("paged.%d" % keys, got[0] == got[1],
                      "pages change a bit")
    return failed


def run(path, entry, rows, device="cpu", **env):
    out = path + ".json"
    subprocess.run([TDSLC, "run", path, "--entry", entry, "--device", device,
                    "--dim", "T=%d" % rows, "--in", "*=random:1", "--out",
                    out, "-q"], check=True, env=dict(os.environ, **env))
    with open(out) as f:
        got = json.load(f)
    return got["results"]["o"]["data"]


def say(name, good, detail=""):
    print("%s %s" % ("ok" if good else "not ok", name))
    if not good:
        print("  " + detail)
    return not good


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "sweep.tdsl")
        with open(path, "w") as f:
            f.write(TEXT)
        for entry in ("causal", "late"):
            long = run(path, entry, 300)
            for rows in (1, 37, 64, 65, 131, 299):
                if not drawn("sweep_bits.%s.%d" % (entry, rows)):
                    continue
                short = run(path, entry, rows)
                failed += say("%s.%d" % (entry, rows),
                              len(short) == rows * 48 and
                              short == long[:rows * 48],
                              "a row changes with the number of rows")
            one = run(path, entry, 300, TDSL_THREADS="1")
            failed += say(entry + ".threads", one == long)
            text = run(path, entry, 300,
                       TDSL_DISABLE_PASS="find-cascades")
            worst = max(abs(a - b) for a, b in zip(text, long))
            failed += say(entry + ".text", 0 < worst < 2e-6,
                          "differs by %g" % worst)
        # two hundred rows share what they read, one is read for itself, and
        # rows of 128 are as many lanes as the registers hold
        wide = os.path.join(folder, "wide.tdsl")
        with open(wide, "w") as f:
            f.write(TEXT.replace("D = 16", "D = 128"))
        long = run(wide, "causal", 200)
        for rows in (1, 2, 64, 199):
            failed += say("wide.%d" % rows,
                          run(wide, "causal", rows) == long[:rows * 384],
                          "a row changes with the number of rows")
        failed += check_shared(folder)
        failed += check_paged(folder)
        empty = run(path, "late", 70)
        failed += say("empty", set(empty) == {0}, "a masked row is not 0")
    sys.exit(failed > 0)


main()
