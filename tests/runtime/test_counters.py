"""tdslc run --counters: numbers that follow from the program, summed over
launches, and an error where nothing is counted."""
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
PROGRAM = """dyn N <= 4096
export fn f(x: f32[N]) -> y: f32[N] {
  y[i] = 2 * x[i]
}
"""


def run(folder, *more):
    done = subprocess.run(
        [TDSLC, "run", "f.tdsl", "--in", "x=random:1", "--dim", "N=1000"]
        + list(more), cwd=folder, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=500)
    return done.returncode, done.stdout, done.stderr


def main():
    need("nvrtc")
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "f.tdsl"), "w") as f:
            f.write(PROGRAM)
        code, out, err = run(folder, "--device", "sim", "--counters",
                             "--repeat", "3")
        expect("table", code == 0 and re.search(
            r"(?m)^3 launches, at most \d+ bytes", out), out + err)
        # 1000 floats in, 1000 out, one product each, three times; whole
        # sectors of 32 bytes
        row = re.search(r"(?m)^k00_f_y +3 +\d+ +3000 +0 +12000 +12000 +x1\.00"
                        r" +-$", out)
        expect("sums", row, out)
        expect("place", "k00_f_y (f.tdsl:3)" in out, out)
        expect("resources", re.search(r"resident +blocks \d+ warps \d+, "
                                      r"limited by \w+", out), out)
        code, out, err = run(folder, "--device", "sim:a100", "--counters",
                             "--json", "--repeat", "2")
        launches = json.loads(out)["launches"] if code == 0 else []
        expect("json", len(launches) == 2 and
               launches[0]["counters"]["flop.f32"] == 1000 and
               launches[0]["counters"] == launches[1]["counters"],
               out + err)
        for device in ("interp", "interp:kir", "null"):
            code, out, err = run(folder, "--device", device, "--counters")
            expect("none_on_" + device, code == 4 and re.search(
                r"error\[B04\]: this device has no counters", err) and
                "--device sim" in err, out + err)
    finish()


if __name__ == "__main__":
    main()
