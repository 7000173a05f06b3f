"""The chains of find_cascades/zoo.tdsl: kernels, floats of state and gauge,
typed from the design and not from what came out; values on each engine against
the formulas in f64. On the simulated GPU no more bytes of the device are in
use at a time than arguments, results and what zoo_sizes.py lets a chain keep:
what it sweeps over is nowhere as a whole.

K counts kernels without the one that merges a split axis. W is what the sweep
adds up besides that is one for all rows: sums of weights alone. `own` says
where a number differs from the design's, and why."""
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "harness")]
import zoo_sizes  # noqa: E402
from report import expect, finish  # noqa: E402

BUILD = os.environ["TDSL_TEST_BUILD"]
TDSLC = os.path.join(BUILD, "tdslc")
ZOO = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                   "find_cascades", "zoo.tdsl")
# name: K, S, gauge, {W; K, S, gauge of ours where they differ}
ROWS = {
    "p01": (1, "2", "running", {}),
    "p02": (1, "2", "running", {}),
    "p03": (1, "3", "running", {}),
    "p04": (1, "2 + 64", "running", {}),
    "p05": (1, "2 + 64", "running", {}),
    "p06": (1, "2 + 64", "running", {}),
    "p07": (1, "1 + 64", "constant", {}),
    "p08": (1, "2 + 64", "running", {}),
    "p09": (1, "2 + 64", "running", {}),
    "p10": (1, "2 + 64", "running", {}),
    "p11": (1, "2 + 64", "running", {}),
    "p12": (1, "2 + 64", "running", {}),
    "p13": (1, "4 + 64 + 64", "running", {}),
    "p14": (1, "2 + 64", "running", {}),
    "p15": (1, "2 + 64", "running", {}),
    "p16": (1, "3", "running", {}),
    "p17": (2, "3", "running", {}),
    "p18": (4, "2", "constant", {}),
    "p19": (1, "3", "running", {}),
    "p20": (1, "5", "running", {}),
    "p21": (1, "3", "running", {}),
    "p22": (1, "4", "running", {}),
    "p23": (1, "3 + 64 + 64", "running", {}),
    "p24": (1, "2", "running", {}),
    "p25": (1, "3 + 8", "pivot", {"W": "8 + 8"}),
    "p26": (1, "1 + 8", "none", {}),
    "p27": (1, "2", "running", {}),
    "p28": (1, "3", "running", {}),
    "p29": (1, "7", "pivot", {}),
    "p30": (1, "2", "scale", {}),
    "p31": (1, "3", "none", {}),
    "p32": (1, "3", "running", {}),
    "p33": (1, "6", "running", {}),
    "p34": (1, "2 + 8", "none", {"W": "8"}),
    "p35": (1, "1 + 8", "none", {}),
    "p36": (1, "2", "none", {}),
    "p37": (1, "7", "pivot", {}),
    "p38": (1, "3", "running", {}),
}
DIMS = {"T": 70, "S": 90, "N": 75, "M": 83, "V": 66, "C": 64, "R": 32,
        "O": 8, "Y": 5, "X": 6, "NP": 7, "MP": 5}
# no rows: an axis so long that keeping one number for each element shows
LONG = dict({"p%02d" % i: 1500 for i in (1, 2, 3, 10, 13, 14, 16)},
            **{"p%02d" % i: 1500 for i in range(19, 39)})
SIM = ("p01", "p02", "p05", "p06", "p11", "p17", "p20", "p24", "p25", "p27",
       "p30", "p32", "p33", "p34")
FULL = os.environ.get("TDSL_TEST_FULL") == "1"
GRAIN = 256  # what allocations of a device are rounded to


def run(*args, **env):
    env = dict(os.environ, TDSL_CACHE="on",
               TDSL_CACHE_DIR=os.path.join(BUILD, "test-cache"), **env)
    done = subprocess.run([TDSLC] + list(args), capture_output=True,
                          text=True, env=env)
    return done.returncode, done.stdout + done.stderr


def sizes_of(entry):
    return dict(DIMS, N=LONG.get(entry, DIMS["N"]))


def dims_of(entry):
    """--dim for the names that the function's own text mentions."""
    with open(ZOO) as f:
        text = f.read()
    body = re.search(r"^fn %s\b.*?^(?=fn |\Z)" % entry, text,
                     re.S | re.M).group(0)
    return [x for name, v in sorted(sizes_of(entry).items())
            if re.search(r"\b%s\b" % name, body)
            for x in ("--dim", "%s=%d" % (name, v))]


def flat(data):
    if isinstance(data, list):
        for x in data:
            yield from flat(x)
    else:
        yield float(data)


def values(entry, device, folder):
    out = os.path.join(folder, "out.json")
    report = os.path.join(folder, "sim.jsonl")
    if os.path.exists(report):
        os.remove(report)
    code, text = run("run", ZOO, "--entry", entry, "--device", device,
                     *dims_of(entry), "--in", "*=random:3", "--out", out,
                     "-q", TDSL_SIM_REPORT=report)
    if code != 0:
        return None, text
    with open(out) as f:
        got = json.load(f)["results"]
    return [x for name in sorted(got) for x in flat(got[name]["data"])], ""


def table(entry):
    """What the plan and the remarks say; a list of complaints."""
    K, S, gauge, own = ROWS[entry]
    K, S, gauge = own.get("K", K), own.get("S", S), own.get("gauge", gauge)
    wide = [x for item in zoo_sizes.WIDE.get(entry, {}).items()
            for x in ("--dim", "%s=%d" % item)]
    code, plan = run("dump", "plan", ZOO, "--entry", entry, *wide)
    if code != 0:
        return [plan]
    launches = len(re.findall(r"^ *launch ", plan, re.M))
    merges = len(re.findall(r'card "merge', plan))
    _, remarks = run("dump", "remarks", ZOO, "--entry", entry, *wide)
    m = re.search(r"state of (.*?) floats a row(?: and (.*?) of weights)?, "
                  r"gauge (\w+), plan stream", remarks)
    found = (launches - merges,) + (m.groups() if m else (None,) * 3)
    want = (K, S, own.get("W"), gauge)
    return [] if found == want else [
        "K, S, W, gauge are %r, wanted %r" % (found, want)]


def peak(entry, folder):
    """After a run on the simulated GPU: complaints of its bytes in use."""
    _, plan = run("dump", "plan", ZOO, "--entry", entry, "--device",
                  "sim:h100", *dims_of(entry))
    size = [int(eval(x.replace("/", "//"))) for x in re.findall(
        r"^  buffer .* bytes (.*?) slot ", plan, re.M)]
    may = zoo_sizes.kept(entry, sizes_of(entry))
    with open(os.path.join(folder, "sim.jsonl")) as f:
        most = max(json.loads(line).get("device.peak", 0) for line in f)
    least = sum(size)
    if least <= most <= least + may + GRAIN * (len(size) + 1):
        return []
    return ["%d bytes of the device at a time; arguments and results are %d, "
            "what may be kept %d" % (most, least, may)]


def worst_of(want, got):
    worst = 0
    for a, b in zip(want, got):
        if a != b and not (a != a and b != b):
            worst = max(worst, abs(a - b) / (1 + abs(a)))
    return worst if len(want) == len(got) else float("inf")


def main():
    with tempfile.TemporaryDirectory() as folder:
        for entry in ROWS:
            lines = table(entry)
            want, why = values(entry, "interp:f64", folder)
            for device in ("cpu", "sim:h100"):
                if want is None or (device != "cpu" and entry not in SIM
                                    and not FULL):
                    continue
                got, text = values(entry, device, folder)
                if got is None and "error[B05]: NVRTC" in text:
                    continue
                if got is None:
                    lines.append(device + ": " + text[:600])
                elif worst_of(want, got) > 3e-5:
                    lines.append("%s: off by %g" %
                                 (device, worst_of(want, got)))
                if got is not None and device != "cpu":
                    lines += peak(entry, folder)
            if want is None:
                lines.append(why[:300])
            expect(entry, not lines, "\n".join(lines))
    finish()


main()
