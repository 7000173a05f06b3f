"""Deep and long sources: each either works or is refused by one located
error, never by a signal, whatever the stack; in check, fmt, dumps and runs."""
import os
import re
import resource
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "harness"))
from report import IS_QUICK, expect, finish  # noqa: E402

TDSLC = os.environ["TDSLC"]
SANITIZED = b"__asan_init" in open(TDSLC, "rb").read()

PARENS = "export fn f(a: f32) -> y: f32 { y = %s }\n"
SOURCES = {
    "parens_200": PARENS % ("(" * 200 + "a" + ")" * 200),
    "parens_20000": PARENS % ("(" * 20000 + "a" + ")" * 20000),
    "terms_1000": PARENS % " + ".join(["a"] * 1000),
    "terms_200000": PARENS % " + ".join(["a"] * 200000),
    "terms_1000000": PARENS % " + ".join(["a"] * 1000000),
    "products_200000": PARENS % " * ".join(["a"] * 200000),
    "minus_20000": PARENS % ("-" * 20000 + "a"),
    "power_20000": PARENS % " ^ ".join(["a"] * 20000),
    "ifs_20000": PARENS % ("if a > 0 then a else " * 20000 + "a"),
    "calls_20000": PARENS % ("exp(" * 20000 + "a" + ")" * 20000),
    "brackets_10000": PARENS % ("a" + "[" * 10000 + "0" + "]" * 10000),
    "blocks_10000": "fn f() { %s }\n" % (
        "checkpoint { " * 10000 + "}" * 10000),
    "statements_5000": "export fn f(a: f32) -> y: f32 {\n  x0 = a\n%s"
                       "  y = x5000\n}\n" % "".join(
                           "  x%d = x%d + 1\n" % (i + 1, i)
                           for i in range(5000)),
    "and_200000": "export fn f(a: bool) -> y: bool { y = %s }\n"
                  % " and ".join(["a"] * 200000),
    "calls_doubled": "fn g0(x: f32) -> f32 = x\n%s"
                     "export fn f(a: f32) -> y: f32 { y = g40(a) }\n"
                     % "".join("fn g%d(x: f32) -> f32 = g%d(x) + g%d(2 * x)\n"
                               % (i + 1, i, i) for i in range(40)),
    "open_brackets": "(" * 100000,
    "open_braces": "{" * 100000,
}
LONGEST = ("terms_1000000",)
# What must be accepted; anything else may be refused, by these alone.
ACCEPTED = {"parens_200", "terms_1000", "statements_5000", "calls_doubled"}
LIMITS = {"L04", "P02", "P04", "E16", "E40", "L02", "L03", "B01"}
RUNS = {"terms_1000": 1000.0, "terms_200000": 200000.0,
        "statements_5000": 5001.0, "parens_200": 1.0}


def run(arguments, stack, seconds=300):
    def limit():
        if stack:
            resource.setrlimit(resource.RLIMIT_STACK, (stack, stack))
    try:
        done = subprocess.run([TDSLC] + arguments, capture_output=True,
                              preexec_fn=limit, timeout=seconds,
                              stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return None, "no end after %d s" % seconds
    return done.returncode, (done.stdout + done.stderr).decode(
        "utf-8", "replace")


def main():
    stacks = [8 << 20] if SANITIZED else [8 << 20, 256 << 10]
    with tempfile.TemporaryDirectory() as folder:
        for name, source in SOURCES.items():
            path = os.path.join(folder, name + ".tdsl")
            with open(path, "w") as f:
                f.write(source)
            for stack in stacks:
                if IS_QUICK and name in LONGEST and stack != min(stacks):
                    continue
                title = "%s.stack_%dk" % (name, stack >> 10)
                code, out = run(["check", path], stack)
                ids = set(re.findall(r"error\[(\w+)\]", out))
                located = re.search(r"\.tdsl:\d+:\d+: error\[", out)
                if name in ACCEPTED:
                    good = code == 0
                else:
                    good = code == 0 or (code in (1, 5) and ids <= LIMITS
                                         and bool(located))
                expect("check." + title, good, "status %s\n%s" % (code, out))
                if IS_QUICK and stack != min(stacks):
                    continue
                code, out = run(["fmt", path, "-o", path + ".out"], stack)
                expect("fmt." + title, code in (0, 1, 5),
                       "status %s\n%s" % (code, out))
                code, out = run(["dump", "ast", path], stack)
                expect("dump_ast." + title, code in (0, 1, 5),
                       "status %s\n%s" % (code, out[-600:]))
        for device in ("interp", "cpu"):
            code, out = run(["run", os.path.join(folder, "calls_doubled.tdsl"),
                             "--device", device, "--in", "a=1"], 8 << 20)
            expect("run.calls_doubled@" + device,
                   code == 4 and "error[B01]" in out,
                   "status %s\n%s" % (code, out))
        for name, want in RUNS.items():
            path = os.path.join(folder, name + ".tdsl")
            for device in ("interp", "cpu"):
                code, out = run(["run", path, "--device", device, "--in",
                                 "a=1", "--out", path + ".json"], 8 << 20,
                                300)
                good = code in (4, 5) and name not in ACCEPTED and bool(
                    re.search(r"error\[(L04|B01|B\d\d)\]", out))
                if code == 0:
                    with open(path + ".json") as f:
                        data = re.search(r'"data":\s*\[([^\]]*)\]', f.read())
                    good = data and float(data.group(1)) == want
                expect("run.%s@%s" % (name, device), good,
                       "status %s\n%s" % (code, out))
    finish()


if __name__ == "__main__":
    main()
