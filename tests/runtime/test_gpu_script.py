"""tests/gpu/run.sh: what it says without a GPU, and that its second half works,
by two simulated machines side by side."""
import os
import re
import subprocess
import sys

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(TESTS, "harness"))
import environment  # noqa: E402
from report import IS_QUICK, expect, finish, lacks, skip  # noqa: E402

BUILD = os.environ["TDSL_TEST_BUILD"]


def start(command, **extra):
    done = subprocess.run(command, env=dict(os.environ, **extra),
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=1200)
    return done.returncode, done.stdout


def main():
    if environment.Environment(os.path.dirname(TESTS), BUILD).slow():
        skip("a library with sanitizers cannot be opened by Python")
    script = ["sh", os.path.join(TESTS, "gpu", "run.sh")]
    code, out = start(script, TDSL_LIBCUDA="/nowhere/libcuda.so.1")
    expect("no_gpu_is_a_skip", code == 0 and re.fullmatch(
        r"skipped: no GPU \(/nowhere/libcuda.so.1: .*\)\n", out), out)
    stub = os.path.join(BUILD, "tests", "stand_driver.so")
    code, out = start(script, TDSL_LIBCUDA=stub,
                      STAND_FAIL="cuInit=34")
    expect("a_library_for_linking_is_no_gpu", code == 0 and
           out.startswith("skipped: no GPU ("), out)
    for bad in (["--device"], ["--wrong"]):
        code, out = start(script + bad)
        expect("usage" + "_".join(bad).replace("-", "_"), code == 2, out)
    if lacks("nvrtc"):
        print("the rest needs NVRTC")
        finish()
    if IS_QUICK:    # the rest compares two machines
        finish()
    agree = [sys.executable, "-B", os.path.join(TESTS, "gpu", "agree.py"),
             "--device", "sim:h100", "--beside", "a100", "--build", BUILD,
             "--seconds", "400", "--groups", "refusals"]
    code, out = start(agree)
    expect("agrees", code == 0 and re.search(
        r"(?m)^refusals +(\d+) +\1 +0 +0 +0 +0 +0 +0 ", out) and re.search(
            r"(?m)^agreement: yes; \d+ items compared; \d+ s$", out), out)
    # blocks follow from the program; four rows for each of six programs
    rows = re.findall(r"(?m)^\S+\.\S+ +(\S+) +(\d+) +(\d+)  (?:equal|x\S+)$",
                      out)
    expect("counters_are_compared", len(rows) == 24 and all(
        a == b != "0" for name, a, b in rows if name == "ctas"), out)
    # a GPU that computes nothing: the stand-in
    agree[agree.index("sim:h100")] = "cuda"
    agree[agree.index("refusals")] = "random"
    code, out = start(agree + ["--seeds", "3"], TDSL_LIBCUDA=stub)
    expect("a_wrong_answer_is_told", code == 1 and re.search(
        r"(?m)^wrong random seed \d$", out) and re.search(
            r"(?m)^agreement: NO, [123] items do not agree", out), out)
    finish()


if __name__ == "__main__":
    main()
