"""A finding of the simulated GPU names the tensor of the program and its
element, wherever the run time put it: each case is one fault put into the
CUDA C of a program by TDSL_OVERRIDE_DIR, which replaces kernels (.kir) too."""
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "harness"))
from report import expect, finish, need  # noqa: E402

TDSLC = os.environ["TDSLC"]
PROGRAM = """dyn N <= 64
export fn f(x: f32[N, 8]) -> y: f32[N] {
  s[i] = sum[k](x[i, k])
  m = max[i](s[i])
  y[i] = s[N - 1 - i] - m
}
"""
N = 21  # three thread blocks
X = [[(7 * i + 3 * k) % 11 for k in range(8)] for i in range(N)]
S = [sum(row) for row in X]
Y = [S[N - 1 - i] - max(S) for i in range(N)]
# text of ours, the faulty text, what the run says, exit status; the arena goes
# on behind a tensor, so what leaves one there is not out of bounds
FAULTS = (
    ("past_the_end", "p0_s[20 - t0]", "p0_s[21 + t0]",
     r"mem.bounds: element 21 of s, which has 21\n", 70, ("separate",)),
    ("far_past_the_end", "p0_s[20 - t0]", "p0_s[5000 + t0]",
     r"mem.bounds: element 5000 of s, which has 21\n", 70,
     ("separate",)),
    ("which_of_the_arena", "p0_s[20 - t0]", "p0_s[5000 + t0]",
     r"mem.bounds: element 4968 of m, which has 1, or element 5000 of s, "
     r"which has 21\n", 70, ("arena",)),
    ("past_an_argument", "p0_x[v0_i * 8 + lane]", "p0_x[v0_i * 8 + lane + 8]",
     r"mem.bounds: element 168 of x, which has 168\n", 70,
     ("arena", "separate")),
    ("before_an_argument", "p0_x[v0_i * 8 + lane]",
     "p0_x[v0_i * 8 + lane - 3]",
     r"mem.bounds: 12 bytes before the first element of x\n", 70, ("arena",)),
    ("misaligned", "p0_x[v0_i * 8 + lane]",
     "*(const float *)((const char *)(p0_x + (v0_i == 3 ? 29 : v0_i)) + "
     "(v0_i == 3 ? 2 : 0))",
     r"mem.align: element 29 of x, x\[3, 5\]\n", 70, ("arena",)),
    ("race", "p1_s[v0_i] = t0", "p1_s[v0_i / 3 + 1] = t0",
     r"race.global: element [36] of s\n", 70, ("arena", "separate")),
    ("no_result", "p2_y[t0] =", "if (t0 != 3) p2_y[t0] =",
     r"init.use: element 3 of y\n", 70, ("arena", "separate")),
)


def run(folder, device, extra):
    env = dict(os.environ, TDSL_CACHE="off", TDSL_SIM_CHECK="all",
               TDSL_SIM_MODE="", **extra)
    done = subprocess.run(
        [TDSLC, "run", "f.tdsl", "--in", "@=case.json", "--dim", "N=%d" % N,
         "--device", device, "--out", "out.json"], cwd=folder, env=env,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=500)
    return done.returncode, done.stdout + done.stderr


def result(folder):
    with open(os.path.join(folder, "out.json")) as f:
        return json.load(f)["results"]["y"]["data"]


def override(folder, name, text):
    os.makedirs(os.path.join(folder, "edited"), exist_ok=True)
    for old in os.listdir(os.path.join(folder, "edited")):
        os.remove(os.path.join(folder, "edited", old))
    with open(os.path.join(folder, "edited", name), "w") as f:
        f.write(text)


def read(folder, name):
    with open(os.path.join(folder, "made", "kernels", name)) as f:
        return f.read()


def findings(folder):
    text = read(folder, "m0.cu")
    for name, ours, faulty, wanted, status, places in FAULTS:
        edited = text.replace(ours, faulty, 1)
        expect(name + "_edit", edited != text, text)
        override(folder, "m0.cu", edited)
        for place in places:
            code, said = run(folder, "sim", {"TDSL_OVERRIDE_DIR": "edited",
                                             "TDSL_PLAN_ALLOC": place})
            expect("%s_%s" % (name, place),
                   code == status and re.search(wanted, said),
                   "exit status %d, wanted %d and %r\n%s"
                   % (code, status, wanted, said))


def kernels(folder, made):
    """An edited kernel changes the answer on every back end alike."""
    text = read(folder, "k00_f_s.kir")
    edited = text.replace("acc[l] + x[i, l]", "acc[l] - x[i, l]")
    expect("kernel_edit", edited != text, text)
    override(folder, "k00_f_s.kir", edited)
    less = [-v for v in S]
    want = [less[N - 1 - i] - max(less) for i in range(N)]
    for device in made:
        code, said = run(folder, device, {"TDSL_OVERRIDE_DIR": "edited"})
        got = result(folder) if code == 0 else said
        expect("kernel_" + device, got == want, "%r, wanted %r" % (got, want))
    override(folder, "k00_f_s.kir", "kernel k00_f_s(in x: f32[5, 8]) {\n}\n")
    for device in made:
        code, said = run(folder, device, {"TDSL_OVERRIDE_DIR": "edited"})
        expect("kernel_misfit_" + device, code == 3 and
               "error[F70]: the edited kernel has other" in said,
               "%d\n%s" % (code, said))


def main():
    need("nvrtc")
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "f.tdsl"), "w") as f:
            f.write(PROGRAM)
        with open(os.path.join(folder, "case.json"), "w") as f:
            json.dump({"x": {"dtype": "f32", "shape": [N, 8],
                             "data": sum(X, [])}}, f)
        code, said = run(folder, "sim", {"TDSL_DUMP_DIR": "made"})
        expect("ours", code == 0 and
               result(folder) == Y, said)
        findings(folder)
        kernels(folder, ("cpu", "sim"))
    finish()


if __name__ == "__main__":
    main()
