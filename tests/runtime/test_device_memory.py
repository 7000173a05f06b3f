"""What a plan says that a run needs of a device's memory, beside what the
simulated GPU saw allocated: the same number of bytes."""
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
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
ROWS = """dyn N <= 1000, M <= 1000
export fn norm(x: f32[N, M]) -> y: f16[N, M] {
  s[i] = sum[j] x[i, j] * x[i, j]
  y[i, j] = f16(x[i, j] / sqrt(s[i]))
}
"""
# intermediates in the arena, state, scalars both ways, a loop
STEPS = """dyn N <= 300
struct W { a: f32[N, N]; b: f32 }
export fn f(w: W, s: inout f32[N], k: f32, n: i32 in 0 .. 8)
    -> (y: f32[N], t: f32) {
  var z[i] = s[i] + w.b
  for l in 0 .. n {
    q[i] = sum[j] w.a[i, j] * z[j]
    z[i] := k * q[i] + w.b
  }
  y[i] = z[i]
  t = sum[i] z[i]
  s[i] := z[i]
}
"""


def tdslc(folder, *args):
    done = subprocess.run([TDSLC] + list(args), cwd=folder,
                          stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=500)
    return done.returncode, done.stdout, done.stderr


def compare(name, folder, path, dims, *more):
    """(bytes, of them scratch) of a run, which are what was allocated."""
    args = ["run", path, "--in", "*=random:1", "--device", "sim:h100",
            "--counters", "--json"] + list(more)
    for dim in dims.items():
        args += ["--dim", "%s=%d" % dim]
    code, out, err = tdslc(folder, *args)
    if code != 0:
        expect(name, False, out + err)
        return 0, 0
    told = json.loads(out)
    peak = max(launch["device.peak"] for launch in told["launches"])
    expect(name, told["predicted_device_bytes"] == peak,
           "%d by the plan, %d seen" % (told["predicted_device_bytes"], peak))
    return told["predicted_device_bytes"], told["scratch_bytes"]


def main():
    need("nvrtc")
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("rows", ROWS), ("steps", STEPS)):
            with open(os.path.join(folder, name + ".tdsl"), "w") as f:
                f.write(text)
        for n, m in ((1, 1), (37, 991), (3, 0)):
            compare("rows %d x %d" % (n, m), folder, "rows.tdsl",
                    {"N": n, "M": m})
        for n in (1, 97, 300):
            compare("steps of %d" % n, folder, "steps.tdsl", {"N": n})
        compare("the same again", folder, "steps.tdsl", {"N": 97},
                "--repeat", "3")
        # every worker has a share of the scratch, and there are as many as
        # the device holds at a time
        path = os.path.join(ROOT, "examples", "attention", "attention.tdsl")
        found = [compare("attention, %d rows" % t, folder, path,
                         {"B": 2, "T": t, "S": t + 3}, "--entry",
                         "attention")
                 for t in (70, 150)]
        expect("scratch is a part of it", 0 < found[0][1] < found[1][1],
               found)
        # dims at their bounds are what dump tells
        whole = compare("rows at their bounds", folder, "rows.tdsl",
                        {"N": 1000, "M": 1000})
        code, out, err = tdslc(folder, "dump", "memory", "rows.tdsl",
                               "--device", "sim:h100")
        told = re.search(r"on the device: .* at most (\d+) bytes", out)
        expect("dump memory", told and int(told[1]) == whole[0] and
               whole[0] == 1000 * 1000 * 6 + 64 + (2 * 16 + 64), out + err)
        code, out, err = tdslc(folder, "dump", "memory", "rows.tdsl")
        expect("nothing is copied on the CPU", "on the device" not in out,
               out)
    finish()


if __name__ == "__main__":
    main()
