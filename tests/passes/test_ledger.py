"""Bytes that the plan says of a kernel: elements touched, each once, counted
here by hand. A layer of a stack, the rows that tokens pick, the rows of a cache
that a step writes; and everything where no subscript tells less."""
import os
import re
import subprocess
import sys
import tempfile

TDSLC = os.path.join(os.environ["TDSL_TEST_BUILD"], "tdslc")
CASES = [
    # name, text, reads, writes of each kernel in order
    ("whole", """export fn f(x: f32[6, 8]) -> y: f32[6, 8] {
  y[i, j] = x[i, j] + 1
}""", [192], [192]),
    ("layer of a stack", """export fn f(w: f32[5, 6, 8]) -> y: f32[8] {
  var a: f32[8] = 0
  for l in 0..5 { a[j] := a[j] + w[l, 0, j] * w[l, 0, j] }
  y = a
}""", [0, 2 * 8 * 4], [8 * 4, 8 * 4]),
    ("rows that tokens pick", """
export fn f(e: f32[100, 8], t: i32[3] in 100) -> y: f32[3, 8] {
  y[i, j] = e[t[i], j]
}""", [3 * 4 + 3 * 8 * 4], [3 * 8 * 4]),
    ("more tokens than rows", """
export fn f(e: f32[4, 8], t: i32[9] in 4) -> y: f32[9, 8] {
  y[i, j] = e[t[i], j]
}""", [9 * 4 + 4 * 8 * 4], [9 * 8 * 4]),
    ("neighbours", """export fn f(x: f32[9, 8]) -> y: f32[8, 8] {
  y[i, j] = x[i, j] + x[i + 1, j]
}""", [9 * 8 * 4], [8 * 8 * 4]),
    ("a part", """export fn f(x: f32[9, 8]) -> y: f32[4, 8] {
  y[i, j] = x[2 * i, j]
}""", [4 * 8 * 4], [4 * 8 * 4]),
    ("a diagonal", """export fn f(x: f32[9, 9]) -> y: f32[9] {
  y[i] = x[i, i]
}""", [9 * 4], [9 * 4]),
    ("rows of a cache", """
export fn f(c: inout f32[2, 50, 8], p: i32[2] in 0..48, r: f32[2, 3, 8]) {
  c[b, p[b] + t, d] := r[b, t, d]
}""", [2 * 4 + 2 * 3 * 8 * 4], [2 * 3 * 8 * 4]),
    ("one row twice", """
export fn f(x: f32[7, 8], k: i32 in 7) -> y: f32[8] {
  y[j] = x[k, j] * x[k, j] + x[k, 0]
}""", [4 + 8 * 4], [8 * 4]),
]


def amounts(plan, word):
    return re.findall(r"^  %s (.*)$" % word, plan, re.M)


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, text, reads, writes in CASES:
            path = os.path.join(folder, "f.tdsl")
            with open(path, "w", encoding="utf-8") as f:
                f.write(text + "\n")
            p = subprocess.run([TDSLC, "dump", "plan", path],
                               capture_output=True, text=True)
            got = [amounts(p.stdout, "reads"), amounts(p.stdout, "writes")]
            want = [[str(n) for n in reads], [str(n) for n in writes]]
            print("%s %s" % ("ok" if got == want else "not ok",
                             name.replace(" ", "_")))
            if got != want:
                print("  %s, not %s\n%s" % (got, want, p.stderr))
                failed += 1
    sys.exit(failed > 0)


main()
