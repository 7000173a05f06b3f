"""Attention with few queries to each key: heads of a group are rows of one
tile.  A row has the bits that it has alone, however many go with it, whatever
the dtype of keys and values, in one piece or in pages, and is close to what
the interpreter makes of the text."""
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
dim G = 2, R = %(rows)d, D = %(depth)d, S = %(keys)d
export fn f(k: %(type)s[G, S, D], v: %(type)s[G, S, D], r0: i32, n: i32)
    -> o: f32[G, R, D] {
  q[g in G, r in R, i in D] = 4 * uniform(1, g, i64(r) + i64(r0), i) - 2
  s[g, r, u] = if u < n then
      (sum[i] q[g, r, i] * f32(k[g, u, i])) * 0.25 else -inf
  m[g, r] = max[u] s[g, r, u]
  e[g, r, u] = if m[g, r] == -inf then 0 else exp(s[g, r, u] - m[g, r])
  l[g, r] = sum[u] e[g, r, u]
  o[g, r, d] = if l[g, r] == 0 then 0
               else (sum[u] e[g, r, u] * f32(v[g, u, d])) / l[g, r]
}
"""
# the same, with a number for each head, and the keys of a head's group
HEADS = """
dim R = %(rows)d, H = 2 * R, D = %(depth)d, S = %(keys)d
export fn f(k: %(type)s[H / R, S, D], v: %(type)s[H / R, S, D], r0: i32,
            n: i32) -> o: f32[H, D] {
  q[h in H, i in D] =
      4 * uniform(1, i64(h / R), i64(h %% R) + i64(r0), i) - 2
  s[h, u] = if u < n then
      (sum[i] q[h, i] * f32(k[h / R, u, i])) * 0.25 else -inf
  m[h] = max[u] s[h, u]
  e[h, u] = if m[h] == -inf then 0 else exp(s[h, u] - m[h])
  l[h] = sum[u] e[h, u]
  o[h, d] = if l[h] == 0 then 0
            else (sum[u] e[h, u] * f32(v[h / R, u, d])) / l[h]
}
"""
PAGED = """
dim G = 2, R = %(rows)d, D = %(depth)d, S = %(keys)d, P = S / 16
export fn f(k: %(type)s[P, 16, G, D], v: %(type)s[P, 16, G, D],
            page: i32[P] in P, r0: i32, n: i32) -> o: f32[G, R, D] {
  q[g in G, r in R, i in D] = 4 * uniform(1, g, i64(r) + i64(r0), i) - 2
  s[g, r, u in S] = if u < n then
      (sum[i] q[g, r, i] * f32(k[page[u / 16], u %% 16, g, i])) * 0.25
      else -inf
  m[g, r] = max[u] s[g, r, u]
  e[g, r, u] = if m[g, r] == -inf then 0 else exp(s[g, r, u] - m[g, r])
  l[g, r] = sum[u] e[g, r, u]
  o[g, r, d] = if l[g, r] == 0 then 0
               else (sum[u] e[g, r, u] * f32(v[page[u / 16], u %% 16, g, d]))
                    / l[g, r]
}
"""


def run(folder, text, first, length, device="cpu", **sizes):
    path = os.path.join(folder, "few.tdsl")
    with open(path, "w") as f:
        f.write(text % sizes)
    out = path + ".json"
    subprocess.run([TDSLC, "run", path, "--device", device, "--in",
                    "*=random:1", "--in", "r0=%d" % first, "--in",
                    "n=%d" % length, "--out", out, "-q"], check=True)
    with open(out) as f:
        data = json.load(f)["results"]["o"]["data"]
    rows, depth = sizes["rows"], sizes["depth"]
    return [[data[(g * rows + r) * depth:][:depth] for r in range(rows)]
            for g in range(2)]


def main():
    failed = 0
    cases = [("plain", TEXT, rows, 64, 192, "f32", 192)
             for rows in (2, 3, 4, 5, 6, 7, 8, 9)]
    cases += [("heads", HEADS, rows, 64, 192, "f32", 190)
              for rows in (2, 3, 4, 8, 11)]
    cases += [("tail", TEXT, 4, 128, 100, "f32", 100),
              ("masked", TEXT, 8, 32, 256, "f32", 131),
              ("nothing", TEXT, 4, 32, 128, "f32", 0),
              ("splits", TEXT, 4, 16, 2112, "f32", 2100),
              ("odd", TEXT, 4, 24, 130, "f32", 130),
              ("f16", TEXT, 4, 64, 192, "f16", 192),
              ("bf16", TEXT, 6, 64, 192, "bf16", 190),
              ("paged", PAGED, 4, 64, 192, "f32", 192),
              ("paged_f16", PAGED, 4, 128, 1600, "f16", 1500)]
    with tempfile.TemporaryDirectory() as folder:
        for name, text, rows, depth, keys, dtype, length in cases:
            if not drawn("few_rows.%s.%d" % (name, rows)):
                continue
            sizes = {"depth": depth, "keys": keys, "type": dtype}
            got = run(folder, text, 0, length, rows=rows, **sizes)
            alone = run(folder, text, rows - 1, length, rows=1, **sizes)
            exact = run(folder, text, 0, length, device="interp", rows=rows,
                        **sizes)
            worst = max(abs(a - b) for g in range(2) for r in range(rows)
                        for a, b in zip(got[g][r], exact[g][r]))
            is_same = all(got[g][rows - 1] == alone[g][0] for g in range(2))
            good = is_same and worst < 2e-6
            print("%s %s.%d" % ("ok" if good else "not ok", name, rows))
            if not good:
                print("  same bits: %s, worst %g" % (is_same, worst))
            failed += not good
    sys.exit(failed > 0)


main()
