"""What a chain keeps in memory between its kernels: of the order of rows times
width, never of rows times axis. The arena of the plan, at sizes where a matrix
of scores would be a hundred times the bound."""
import os
import re
import subprocess
import sys

TDSLC = os.path.join(os.environ["TDSL_TEST_BUILD"], "tdslc")
ZOO = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                   "find_cascades", "zoo.tdsl")
T, S, N, M, V = 8192, 8192, 4096, 4096, 50000
# entry: (dims, bytes that may be kept, bytes of the scores)
ROWS = {
    "p04": ({"N": N, "M": M}, 0, 4 * N * M),
    "p05": ({"T": T, "S": S}, 0, 4 * T * S * 8),
    "p06": ({"T": T}, 0, 4 * T * T),
    "p07": ({"T": T, "S": S}, 0, 4 * T * S),
    "p08": ({"T": T}, 0, 4 * T * T * 8),
    "p09": ({"T": T}, 0, 4 * T * T),
    # eight rows over pages: the states of splits, if it is cut at all
    "p11": ({"NP": 8192, "MP": 8192}, 4 * 128 * 8 * 70, 4 * 8 * 131072),
    "p12": ({"T": T, "S": S, "C": 64, "R": 32}, 0, 4 * T * S * 8),
    "p15": ({"T": T}, 0, 4 * T * T * 8),
    # a number a row, and what the mean is made of
    "p17": ({"N": N, "V": V}, 4 * 4 * N, 4 * N * V),
    # the normalised rows
    "p18": ({"N": N}, 4 * N * (2 * 64 + 8), 4 * N * N),
}


def number(text):
    return eval(text.replace("/", "//"), {"max": max, "min": min}, {})


def main():
    failed = 0
    for entry, (dims, most, scores) in ROWS.items():
        for device in ("cpu", "sim:h100"):
            command = [TDSLC, "dump", "plan", ZOO, "--entry", entry,
                       "--device", device, "-q"]
            for item in dims.items():
                command += ["--dim", "%s=%d" % item]
            done = subprocess.run(command, capture_output=True, text=True)
            if "error[B05]: NVRTC" in done.stderr:
                continue
            m = re.search(r"^  arena (.*)$", done.stdout, re.M)
            kept = number(m.group(1)) if m else None
            good = kept is not None and kept <= most + 4096 and \
                kept < scores / 10
            name = "%s.%s" % (entry, device.split(":")[0])
            print("%s %s" % ("ok" if good else "not ok", name))
            if not good:
                print("  keeps %s bytes, may keep %d\n%s" %
                      (kept, most, done.stderr[:300]))
            failed += not good
    sys.exit(failed > 0)


main()
