"""What a chain keeps in memory between its kernels: of the order of rows times
width, never of rows times axis. The arena of the plan is a formula in the
dims. It stays under the sizes of the design at two sizes of each dim, where a
matrix of scores would be a hundred times the bound; with all dims twice as
large it is at most twice as large, and scratch is what it was."""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import zoo_sizes  # noqa: E402

TDSLC = os.path.join(os.environ["TDSL_TEST_BUILD"], "tdslc")
ZOO = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                   "find_cascades", "zoo.tdsl")
DIMS = {"T": 8192, "S": 8192, "N": 4096, "M": 4096, "V": 50000, "NP": 8192,
        "MP": 8192, "C": 256, "Y": 64, "X": 64}
ALONE = 1 << 20  # N where it is the axis and there are no rows
SCRATCH = 1 << 20  # bytes a thread, or shared by a block


def value_of(text, dims):
    return eval(text.replace("/", "//").replace("$", "_"),
                {"max": max, "min": min}, dims)


def plan_of(entry, device):
    command = [TDSLC, "dump", "plan", ZOO, "--entry", entry, "--device",
               device, "-q"]
    for item in zoo_sizes.WIDE.get(entry, {}).items():
        command += ["--dim", "%s=%d" % item]
    return subprocess.run(command, capture_output=True, text=True)


def scratch_of(plan, dims):
    """Bytes of the largest, with every scalar of a kernel as the largest."""
    most = max(dims.values())
    names = {"_%d" % i: most for i in range(16)}
    return max(value_of(x, names)
               for x in re.findall(r"^ +scratch (.*)$", plan, re.M))


def check(entry, plan):
    dims = dict(DIMS)
    if entry in zoo_sizes.STATE:
        dims["N"] = ALONE
    double = {name: 2 * v for name, v in dims.items()}
    arena = re.search(r"^  arena (.*)$", plan, re.M).group(1)
    lines = []
    for name, d in [("", dims), (" doubled", double)] + [
            (" with %s doubled" % n, dict(dims, **{n: 2 * dims[n]}))
            for n in dims if re.search(r"\b%s\b" % n, arena)]:
        d = dict(d, **zoo_sizes.WIDE.get(entry, {}))
        is_kept, most = value_of(arena, d), zoo_sizes.kept(entry, d)
        if is_kept > most:
            lines.append("keeps %d bytes%s, may keep %d" %
                         (is_kept, name, most))
    once, twice = (value_of(arena, dict(d, **zoo_sizes.WIDE.get(entry, {})))
                   for d in (dims, double))
    # three dims of one axis are eight times as many elements
    growth = 8 if entry == "p27" else 2
    if twice > growth * once:
        lines.append("%d bytes become %d" % (once, twice))
    small, large = scratch_of(plan, dims), scratch_of(plan, double)
    if small != large or large > SCRATCH:
        lines.append("scratch of %d bytes becomes %d" % (small, large))
    return lines


def main():
    failed = 0
    for entry in zoo_sizes.ENTRIES:
        for device in ("cpu", "sim:h100"):
            done = plan_of(entry, device)
            if "error[B05]: NVRTC" in done.stderr:
                continue
            lines = check(entry, done.stdout) if done.returncode == 0 else [
                done.stderr[:300]]
            print("%s %s.%s" % ("not ok" if lines else "ok", entry,
                                device.split(":")[0]))
            for line in lines:
                print("  " + line)
            failed += bool(lines)
    sys.exit(failed > 0)


main()
