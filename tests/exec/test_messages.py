"""Refusals that come after checking. Each must show the author's text: file,
line, column, excerpt and a cure, and no text of the compiler's inside."""
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "harness"))
from report import expect, finish  # noqa: E402

TDSLC = os.environ["TDSLC"]
# What belongs to the compiler: its files, its texts' mnemonics, the tools it
# calls, and printed addresses.
INTERNAL = re.compile(r"\w+\.[ch]\b|%\d|\btir\b|\bkir\b|LLVM|NVRTC|ptxas|"
                      r"\bNULL\b|0x[0-9a-f]{6,}|assert", re.I)


def chain(count, body="k%d(x)"):
    text = "fn k0(x: f32) -> y: f32 { y = x + 1 }\n"
    for i in range(1, count + 1):
        text += "fn k%d(x: f32) -> y: f32 { y = %s }\n" % (
            i, body.replace("%d", str(i - 1)))
    return text + "export fn g(x: f32) -> y: f32 { y = k%d(x) }\n" % count


def structs(count):
    text = "struct S0 { w: f32[2] }\n"
    for i in range(1, count + 1):
        text += "struct S%d { a: S%d }\n" % (i, i - 1)
    return text + ("export fn g(m: S%d) -> y: f32 { y = 1.0 }\n" % count)


# name: (text, id, word of the first line of the message)
CASES = {
    "mesh": ("mesh (dp = 2)\nexport fn g(x: f32[4]) -> y: f32[4] "
             "{ y[i] = x[i] }\n", "B01", "mesh"),
    "grad": ("fn h(x: f32) -> y: f32 { y = x * x }\n"
             "export fn g(x: f32) -> y: f32 { y = grad(h(x), x) }\n",
             "B01", "grad"),
    "call_depth": (chain(300), "L04", "calls nest deeper"),
    "call_count": (chain(40, "k%d(x) + k%d(x)"), "B01", "calls"),
    "nesting": (chain(200, "(1 + " * 100 + "k%d(x)" + ")" * 100),
                "L04", "nest"),
    "struct_depth": (structs(300), "L04", "structs nest deeper"),
    "operations": ("dim N = 8\nexport fn g(a: f32[N]) -> y: f32[N] "
                   "{ y[i] = %s }\n" % " + ".join(["a[i]"] * 60000),
                   "B01", "operations"),
    "topk": ("dyn N <= 8\n"
             "fn h[K](x: f32[K]) -> v: f32[K] { v, p = topk(x, K) }\n"
             "export fn g(x: f32[N]) -> y: f32[N] { y = h(x) }\n",
             "B01", "topk"),
}


def main():
    with tempfile.TemporaryDirectory() as folder:
        for name, (text, want, word) in CASES.items():
            path = os.path.join(folder, name + ".tdsl")
            with open(path, "w") as f:
                f.write(text)
            done = subprocess.run(
                [TDSLC, "run", path, "--entry", "g", "--device", "null",
                 "--in", "*=random:1"], capture_output=True, timeout=300,
                stdin=subprocess.DEVNULL)
            out = done.stderr.decode("utf-8", "replace")
            head = re.search(r"^\S+%s\.tdsl:\d+:\d+: error\[(\w+)\]: (.*)$"
                             % name, out, re.M)
            expect("id." + name, head and head.group(1) == want
                   and word in head.group(2),
                   "want %s\n%s" % (want, out))
            if not head:
                continue
            expect("excerpt." + name,
                   re.search(r"^ *\d+ \| .*\n +\| *\^", out, re.M), out)
            expect("cure." + name, re.search(r"^help: \S", out, re.M), out)
            told = re.sub(r"^ *\d+ \|.*$", "", out, flags=re.M)
            told = told.replace(path, "")
            expect("words." + name, not INTERNAL.search(told), out)
            expect("status." + name, done.returncode == (4 if want[0] == "B"
                                                         else 1),
                   "status %d\n%s" % (done.returncode, out))
    finish()


if __name__ == "__main__":
    main()
