"""tdslc run --counters: numbers that follow from the program, summed over
launches, and an error where nothing is counted."""
import json
import os
import re
import subprocess
import sys
import tempfile

TDSLC = os.environ["TDSLC"]
PROGRAM = """dyn N <= 4096
export fn f(x: f32[N]) -> y: f32[N] {
  y[i] = 2 * x[i]
}
"""
failed = []


def run(folder, *more):
    done = subprocess.run(
        [TDSLC, "run", "f.tdsl", "--in", "x=random:1", "--dim", "N=1000"]
        + list(more), cwd=folder, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=100)
    return done.returncode, done.stdout, done.stderr


def expect(name, truth, detail=""):
    if truth:
        print("ok " + name)
    else:
        failed.append(name)
        print("not ok %s\n%s" % (name, detail))


def main():
    version = subprocess.run([TDSLC, "version"], capture_output=True,
                             text=True).stdout
    if re.search(r"nvrtc +not found", version):
        print("needs nvrtc")
        sys.exit(77)
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
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
