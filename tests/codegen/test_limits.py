"""Formulas that are too long for one kernel: parameters and text of each
kernel stay bounded however long the formula is, answers stay right, and what
is too long altogether is refused at its statement, by its limit."""
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "harness"))
from report import expect, finish, lacks  # noqa: E402

TDSLC = os.environ["TDSLC"]
PARAM_BYTES = 4096     # of a kernel, on every architecture and any NVRTC
N = 3


def tdslc(folder, *arguments):
    done = subprocess.run((TDSLC,) + arguments, cwd=folder,
                          stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=500)
    return done.returncode, done.stdout, done.stderr


def program(folder, params, formula):
    with open(os.path.join(folder, "f.tdsl"), "w") as f:
        f.write("dyn N <= 64\nexport fn f(%s) -> y: f32[N] {\n  y[i] = %s\n}\n"
                % (", ".join("%s: f32[N]" % p for p in params), formula))


def kernels(text):
    """The parameters and the lines of each kernel of CUDA C."""
    for part in text.split('extern "C"')[1:]:
        head = part[part.index("("):part.index("{")]
        # 8 bytes each is the most that one takes
        yield head.count(",") + 1, part.count("\n")


def check_answer(folder, name, args, want):
    with open(os.path.join(folder, "case.json"), "w") as f:
        json.dump({k: {"dtype": "f32", "shape": [N], "data": v}
                   for k, v in args.items()}, f)
    devices = ["interp", "sim"]
    if lacks("nvrtc"):
        devices = ["interp"]
    for device in devices:
        code, _, err = tdslc(folder, "run", "f.tdsl", "--in", "@=case.json",
                             "--device", device, "--out", "out.json")
        got = err
        if code == 0:
            with open(os.path.join(folder, "out.json")) as f:
                got = json.load(f)["results"]["y"]["data"]
        expect("%s_%s" % (name, device), got == want, got)


def parameters(folder):
    """A sum of 1,100 tensors: their addresses alone are 8,800 bytes."""
    names = ["a%d" % i for i in range(1100)]
    program(folder, names, " + ".join(n + "[i]" for n in names))
    code, text, err = tdslc(folder, "dump", "cuda", "f.tdsl", "--device",
                            "sim:a100")
    sizes = [8 * n for n, _ in kernels(text)]
    expect("parameters", code == 0 and len(sizes) > 1 and
           max(sizes) <= PARAM_BYTES, "%r\n%s" % (sizes, err))
    # whole numbers: exact in any order
    args = {n: [(7 * k + 3 * i) % 13 - 6 for i in range(N)]
            for k, n in enumerate(names)}
    check_answer(folder, "parameters", args,
                 [sum(v[i] for v in args.values()) for i in range(N)])


def text(folder):
    """Chains of n terms: the longest kernel is no longer for a longer chain,
    and there are in proportion as many, so that compiling is linear."""
    longest, count = {}, {}
    for n in (4000, 1000):
        program(folder, ["x"], " + ".join(
            "(x[i] + %d) * %d" % (k % 17, k % 5 - 2) for k in range(n)))
        code, out, err = tdslc(folder, "dump", "cuda", "f.tdsl", "--device",
                               "sim:a100")
        lines = [n for _, n in kernels(out)]
        expect("text_%d" % n, code == 0 and len(lines) > 1, err)
        longest[n], count[n] = max(lines), len(lines)
    expect("text_longest", longest[4000] <= longest[1000] * 1.1, longest)
    expect("text_count", count[4000] <= 5 * count[1000], count)
    args = {"x": [2, -3, 5]}
    check_answer(folder, "text", args,
                 [sum((x + k % 17) * (k % 5 - 2) for k in range(1000))
                  for x in args["x"]])


def refusal(folder):
    program(folder, ["x"], " + ".join(["x[i] * 3"] * 30000))
    for device, form in (("sim:a100", "cuda"), ("interp:kir", "kir")):
        code, _, err = tdslc(folder, "dump", form, "f.tdsl", "--device",
                             device)
        expect("refused_" + form, code == 4 and re.search(
            r"^f\.tdsl:3:3: error\[B01\]: this version cannot compile a "
            r"formula of 59999 operations; the limit is 50000", err), err)


def main():
    with tempfile.TemporaryDirectory() as folder:
        parameters(folder)
        text(folder)
        refusal(folder)
    finish()


if __name__ == "__main__":
    main()
