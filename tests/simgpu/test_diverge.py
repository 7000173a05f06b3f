"""The test programs of this folder once more with lanes on their own
(diverge:its): what is right stays right, and every mutant is still caught. A
few cheap ones; all that keep to one schedule under --full."""
import concurrent.futures
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ.get("TDSL_TEST_BUILD") or os.path.join(
    os.path.dirname(os.path.dirname(HERE)), "build")
CHEAP = ("async", "bulk", "cluster", "counters", "float", "int", "ldmatrix",
         "mbar", "races", "tensor", "warp", "wgmma")
# They choose the mode themselves, or launch nothing.
LEFT_OUT = ("its", "checks", "tricky", "hostile", "driver", "nccl",
            "nccl_checks", "trace", "surface", "cache")


def run(name):
    env = dict(os.environ, TDSL_SIM_MODE="diverge:its", TDSL_CACHE="off")
    done = subprocess.run([os.path.join(BUILD, "tests", "simgpu_" + name)],
                          env=env, capture_output=True, text=True,
                          check=False)
    return name, done.returncode, done.stdout + done.stderr


def main():
    names = [n[5:-2] for n in sorted(os.listdir(HERE))
             if n.startswith("test_") and n.endswith(".c")]
    names = [n for n in names if n not in LEFT_OUT and
             (n in CHEAP or os.environ.get("TDSL_TEST_FULL"))]
    missing = [n for n in CHEAP if n not in names]
    if missing:
        print("no program for " + " ".join(missing))
        sys.exit(1)
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for name, code, text in pool.map(run, names):
            print("%s %s" % ("not ok" if code else "ok", name))
            if code:
                failed += 1
                print(text)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
