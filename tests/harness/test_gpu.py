"""How tests are laid out over simulated machines, how the simulator's report
and a profiler's table are read."""
import os
import pickle
import subprocess
import sys
import tempfile
import types

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "gpu")]
import card  # noqa: E402
import cunit  # noqa: E402
import gpu  # noqa: E402
import profiler  # noqa: E402
from report import expect, finish  # noqa: E402


# --- places ---------------------------------------------------------------
expect("other engines stay themselves", gpu.place("cpu", "a") == "cpu")
places = [gpu.place("sim", "test %d" % i) for i in range(400)]
expect("every machine has its turn",
       {str(p) for p in places} == {"sim:" + m for m in gpu.MACHINES})
expect("every schedule has its turn",
       {p.extra.get("TDSL_SIM_MODE", "") for p in places} == set(gpu.MODES))
expect("a name keeps its place", all(
    gpu.place("sim", "test %d" % i) == p and
    gpu.place("sim", "test %d" % i).extra == p.extra
    for i, p in enumerate(places)))
expect("a program may choose the machine", len({
    str(gpu.place("sim", "test %d" % i, "program")) for i in range(50)}) == 1)
expect("checks are on", all(p.extra["TDSL_SIM_CHECK"] == "all"
                            for p in places))
again = pickle.loads(pickle.dumps(places[7]))
expect("another process gets it whole",
       again == places[7] and again.extra == places[7].extra)
# these load NVRTC into their own process: no leak checker beside its threads
TREE = types.SimpleNamespace(tests=os.path.dirname(HERE))
for name, does in (("unit.cuda", True), ("unit.tuning", True),
                   ("api.gpu", True), ("simgpu.tricky", True),
                   ("unit.parse", False), ("api.memory", False),
                   ("simgpu.warp", False)):
    expect("%s and NVRTC" % name, cunit.loads_nvrtc(TREE, name) == does)

# --- reports --------------------------------------------------------------
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "r")
    expect("no report, no finding", gpu.findings(path) == [])
    with open(path, "w") as f:
        f.write('{"kind":"launch","kernel":"k"}\n'
                '{"kind":"finding","id":"race.shared","kernel":"k",'
                '"place":"a.tdsl:4","instruction":"st.shared.f32",'
                '"text":"a write"}\n\n'
                '{"kind":"launch","kernel":"l"}\n')
    found = gpu.findings(path)
    expect("a finding is seen", len(found) == 1 and
           "race.shared in k at a.tdsl:4" in found[0])
    expect("launches are counted", len(gpu.rows(path, "launch")) == 2)
expect("a missing NVRTC is known", gpu.is_missing(
    "error[B05]: NVRTC, the compiler of CUDA C, cannot be loaded\n") ==
    "needs nvrtc")
expect("another error is not one", gpu.is_missing(
    "error[B05]: the CUDA driver's library cannot be loaded") is None)

# --- a profiler's table ---------------------------------------------------
METRICS = [m for _, metrics in profiler.METRICS for m in metrics]
TABLE = "\n".join((
    "==PROF== Connected to process 1",
    "p  f32[5]  min 0  max 1",
    ",".join('"%s"' % c for c in
             ["ID", "Process ID", "Kernel Name", "Grid Size"] + METRICS),
    ",".join('"%s"' % c for c in
             ["", "", "", ""] + ["request", "request", "sector", "sector",
                                 "", ""]),
    '"0","1","tk_a","(2, 1, 1)","1,024","5","4,096","20","7","2"',
    '"1","1","tk_b","(1, 1, 1)","3","1","12","4","","1"', ""))
rows = profiler.parse(TABLE)
expect("launches of a table", [r["kernel"] for r in rows] == ["tk_a", "tk_b"])
expect("thousands have commas", rows[0][METRICS[0]] == 1024.0)
expect("an empty cell is no number", rows[1][METRICS[4]] is None)
expect("no table, no launches", profiler.parse("==ERROR== no\n") == [])

# --- counters side by side ------------------------------------------------
ENV = types.SimpleNamespace(tests=os.path.dirname(HERE))
expect("every program that is counted is there", all(
    profiler.case_of(ENV, program, name)["fn"]
    for program, name in profiler.CASES))
SIDES = [{("tk_a", name): 10, ("tk_b", name): 2 + n}
         for n, name in ((0, "ctas"), (1, "ctas"))]
LINES = profiler.compared("p.c", *SIDES)
expect("a counter is summed over kernels and compared", len(LINES) == len(
    profiler.METRICS) and LINES[-1].split() == ["p.c", "ctas", "12", "13",
                                                 "x1.083"])
expect("equal sums say so", LINES[0].split()[-3:] == ["0", "0", "equal"])
FAKE = """#!%s
import sys
args = sys.argv[1:]
assert args[:3] == ["--csv", "--page", "raw"] and args[3] == "--metrics"
assert args[5].endswith("tdslc") and args[6] == "run", args
print(open(sys.argv[0] + ".out").read())
""" % sys.executable
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "ncu")
    with open(path, "w") as f:
        f.write(FAKE)
    os.chmod(path, 0o755)
    with open(path + ".out", "w") as f:
        f.write(TABLE)
    ENV.binary = "/somewhere/tdslc"

    def start(command, cwd, timeout=0, extra=None):
        done = subprocess.run(command, cwd=cwd, capture_output=True,
                              text=True, timeout=300)
        return done.returncode, done.stdout + done.stderr

    ENV.start = start
    device = gpu.Place("cuda", {})
    before = os.environ["PATH"]
    os.environ["PATH"] = folder
    found = profiler.of_profiler(ENV, device, ["run", "f.tdsl"], folder)
    expect("the profiler's launches are summed by kernel",
           found == {("tk_a", "global.requests"): 1029,
                     ("tk_a", "global.sectors"): 4116,
                     ("tk_a", "shared.wavefronts"): 7, ("tk_a", "ctas"): 2,
                     ("tk_b", "global.requests"): 4,
                     ("tk_b", "global.sectors"): 16, ("tk_b", "ctas"): 1})
    with open(path + ".out", "w") as f:
        f.write("==ERROR== ERR_NVGPUCTRPERM: no permission")
    expect("a user without the right is told", "ERR_NVGPUCTRPERM" in
           profiler.of_profiler(ENV, device, ["run", "f.tdsl"], folder))
    os.environ["PATH"] = os.path.join(folder, "none")
    expect("no profiler is no failure", "not on the path" in
           profiler.of_profiler(ENV, device, ["run", "f.tdsl"], folder))
    os.environ["PATH"] = before

# --- cards ----------------------------------------------------------------
for cc, name, machine in ((75, "T4", "t4"), (87, "Orin", "a10"),
                          (90, "NVIDIA H100", "h100"),
                          (90, "NVIDIA H200", "h200"), (120, "RTX", "b200")):
    expect("%s stands beside %s" % (machine, name),
           card.Card(name, cc, 13000, 1 << 34).machine == machine)
try:
    card.Card("P100", 60, 12000, 1 << 34)
    expect("an old card is refused", False)
except card.NoCard:
    expect("an old card is refused", True)
finish()
