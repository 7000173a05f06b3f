"""The simulated GPU as an engine of the suite. A test that names `sim` runs
on one machine of MACHINES under one schedule of MODES, with its tensors in one
arena or each in memory of its own; all follow from the test's name, so that
they are the same every day and spread over the suite. Where only a part of the
suite runs, the machine follows from the program's name: then one compilation
serves all its cases.
TDSL_TEST_SIM_MODE names one schedule for all instead.
All checks are on, and whatever they report fails the test."""
import json
import os
import re
import zlib

# Every row of the simulator's table: the four that people ask for by name
# come twice as often as the three that stand for older architectures.
MACHINES = ("a100", "h100", "h200", "b200", "t4", "a100", "h100", "h200",
            "b200", "a10", "l4")
MODES = ("", "order:reverse", "order:random,preempt:40", "poison:00",
         "poison:random", "async:immediate", "async:random,order:random",
         "threads:1", "diverge:its",
         "diverge:its,order:random,async:random,preempt:40")


class Place(str):
    """A value of --device with the environment that goes with it."""

    def __new__(cls, device, extra):
        self = super().__new__(cls, device)
        self.extra = extra
        return self

    def __getnewargs__(self):
        return str(self), self.extra

    def told(self):
        words = ["%s=%s" % item for item in sorted(self.extra.items())]
        return "on " + " ".join(words + [str(self)])


def place(engine, name, program=None):
    """Where the test called `name` runs: for sim a Place, for any other
    engine the engine. `program` chooses the machine."""
    if engine != "sim":
        return engine
    draw = zlib.crc32(name.encode())
    extra = {"TDSL_SIM_CHECK": "all", "TDSL_SIM_SEED": str(draw % 1000)}
    mode = os.environ.get("TDSL_TEST_SIM_MODE") or \
        MODES[draw // 16 % len(MODES)]
    if mode:
        extra["TDSL_SIM_MODE"] = mode
    # a tensor on its own has bounds and a life that the arena hides
    if draw // 8192 % 2:
        extra["TDSL_PLAN_ALLOC"] = "separate"
    machine = zlib.crc32((program or name).encode()) // 512 % len(MACHINES)
    return Place("sim:" + MACHINES[machine], extra)


def like_a_gpu(source):
    """The CPU whose bits are those of a GPU for the program in this file: with
    AVX-512 erf is another function (codegen/llvm/llvm_wide.c)."""
    with open(source, encoding="utf-8") as f:
        has_erf = re.search(r"\b(erf|gelu)\b", f.read())
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        has_avx512 = "avx512dq" in f.read()
    return "cpu:x86-64-v3" if has_erf and has_avx512 else "cpu"


# Under a sanitizer: the leak checker's tracer dies of NVRTC's threads now and
# then; leaks of the simulator are seen by tests/simgpu.
WITH_NVRTC = {
    "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1"}


def told(device, detail):
    """A failure's text, with what is needed to see it again."""
    if isinstance(device, Place) and detail:
        return "%s\n%s" % (detail, device.told())
    return detail


def environment(env, device, folder, extra=None):
    """(variables of the run, path of the simulator's report or None). What
    NVRTC makes is kept by its content in the build folder: compiling takes
    longer than running."""
    extra = dict(getattr(device, "extra", {}), **(extra or {}))
    if not device.startswith("sim"):
        return extra or None, None
    path = os.path.join(folder, "sim.jsonl")
    if os.path.exists(path):
        os.remove(path)
    extra.update(TDSL_SIM_REPORT=path, TDSL_CACHE="on",
                 TDSL_CACHE_DIR=os.path.join(env.build, "test-cache"))
    if env.slow():
        extra.update(WITH_NVRTC)
    return extra, path


def of_script(env, path):
    """Variables of a test script that may compile for a GPU, or None."""
    with open(path, encoding="utf-8") as f:
        names_gpu = re.search(r"\bsim(:|\")|nvrtc|\bcuda", f.read())
    return WITH_NVRTC if names_gpu and env.slow() else None


def rows(path, kind):
    """The lines of one kind in a report: finding or launch."""
    if path is None or not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as f:
        found = [json.loads(line) for line in f if line.strip()]
    return [row for row in found if row["kind"] == kind]


def findings(path):
    """One line for each thing that the checks reported."""
    return ["simgpu %s in %s at %s, %s: %s" % (
        row["id"], row["kernel"] or "the run time", row["place"] or "-",
        row["instruction"], row["text"]) for row in rows(path, "finding")]


def is_missing(out):
    """Why this machine cannot compile for a GPU, or None."""
    if "error[B05]: NVRTC" in out:
        return "needs nvrtc"
    return None
