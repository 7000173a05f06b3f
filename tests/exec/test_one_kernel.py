"""examples/one_kernel at T = 8192, 16 heads of 64: one launch, nothing kept
between kernels, and what threads need beside it is far under 64 MiB. A matrix
of scores would be 4 GiB."""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
TDSLC = os.path.join(os.environ["TDSL_TEST_BUILD"], "tdslc")
MOST_THREADS = 64


def say(name, good, detail=""):
    print("%s %s" % ("ok" if good else "not ok", name))
    if not good:
        print("  " + str(detail))
    return not good


def main():
    path = os.path.join(ROOT, "examples", "one_kernel", "one_kernel.tdsl")
    plan = subprocess.run([TDSLC, "dump", "plan", path, "--dim", "T=8192"],
                          check=True, capture_output=True, text=True).stdout
    launches = re.findall(r"^ *launch \d+ ", plan, re.M)
    arena = re.findall(r"^ *arena (\d+)$", plan, re.M)
    scratch = re.findall(r"^ *scratch (\d+)$", plan, re.M)
    failed = say("one_launch", len(launches) == 1, plan)
    failed += say("nothing_kept", arena == ["0"], arena)
    failed += say("scratch", len(scratch) == 1 and
                  0 < int(scratch[0]) * MOST_THREADS < 64 << 20, scratch)
    sys.exit(failed > 0)


main()
