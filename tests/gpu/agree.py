#!/usr/bin/env python3
"""The second half of run.sh: the corpus on a GPU and on the simulated one.

  agree.py --device NAME --build DIR --seconds N [--beside MACHINE]
           [--groups A,B] [--seeds N]

An item passes if both answers are right, by the bounds of the suite, and are
the same bits. Where a kernel's PTX asks for an approximate function the bits
may differ; those items are counted apart."""
import argparse
import glob
import multiprocessing
import os
import re
import resource
import sys
import time
import traceback

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "tests", "harness")]

import accepted                            # noqa: E402
import card as cards                       # noqa: E402
import cases                               # noqa: E402
import gpu                                 # noqa: E402
import nvrtc                               # noqa: E402
import profiler                            # noqa: E402
import programs                            # noqa: E402
import scripts                             # noqa: E402
import vectors                             # noqa: E402
from compare import compare, equal_bits    # noqa: E402
from environment import Environment        # noqa: E402

SEEDS = 120
GROUPS = ("vectors", "exec", "refusals", "accepted", "random", "examples",
          "conformance")
# Tests that judge results alone and can open any driver; the rest of
# tests/simgpu is about what the simulator says.
CONFORMANCE = ("simgpu_cu_scalar", "simgpu_cu_memory", "simgpu_cu_parallel",
               "simgpu_float", "simgpu_int", "simgpu_convert", "simgpu_warp",
               "unit_cuda", "unit_cuda_large")
BAD = ("wrong", "failed", "differs")
MOST_TOLD = 20              # failures that are printed whole
LARGE_BYTES = 12 << 30      # what unit_cuda_large allocates, and some


class Item:
    def __init__(self, group, name, run, judge, index):
        self.group, self.name, self.index = group, name, index
        self.run, self.judge = run, judge


class Outcome:
    def __init__(self, item):
        self.group, self.name = item.group, item.name
        self.status, self.detail = "not run", ""
        self.seconds = [0.0, 0.0]    # on the device, on the simulator
        self.cpu = [0.0, 0.0]        # of this machine's processors


# --- items ----------------------------------------------------------------
def run_vector(env, index, device, folder):
    program, number = index
    case = vectors.load(env, program)["cases"][number]
    return vectors.run_once(env, vectors.program_path(env, program), case,
                            case["args"], device, folder)


def judge_vector(env, index, got, state, folder):
    program, number = index
    case = vectors.load(env, program)["cases"][number]
    tol = case.get("tol", {})
    return (compare(got, case.get("results", {}), tol)
            + compare(state, case.get("state", {}), tol))


def run_case(env, index, device, folder):
    case = cases.all_cases(env)[index]
    return vectors.run_once(env, cases.source_of(env, case, folder),
                            {"fn": case.fn, "dims": case.dims}, case.args,
                            device, folder, case.more)


def judge_case(env, index, got, state, folder):
    case = cases.all_cases(env)[index]
    results, tol = case.results, case.tol
    if results is None:
        results, tol = cases.judged(env, cases.source_of(env, case, folder),
                                    case)
    out = compare(got, results, tol) + compare(state, case.state or {}, tol)
    return out + (case.check(got, state) if case.check else [])


def run_refused(env, index, device, folder):
    case = cases.all_cases(env)[index]
    try:
        run_case(env, index, device, folder)
    except vectors.Reported:
        raise
    except RuntimeError as error:
        status, detail = cases.refusal(case, str(error))
        if status == "pass":
            return {}, {}
        raise RuntimeError(detail) from error
    raise RuntimeError("accepted; %s was expected" % case.error)


def run_accepted(env, index, device, folder):
    title, text, fn = accepted.programs(env)[index]
    path = os.path.join(folder, "p.tdsl")
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    case = {"fn": fn, "dims": accepted.dims_of(title, text)}
    return vectors.run_once(env, path, case, {}, device, folder,
                            ("--in", accepted.SEED))


def run_seed(env, index, device, folder):
    case = programs.draw(env, index, programs.store(env))
    path = os.path.join(folder, "f.tdsl")
    with open(path, "w", encoding="utf-8") as f:
        f.write(case["source_text"])
    try:
        return vectors.run_once(env, path, case, case["args"], device, folder)
    except RuntimeError as error:
        if "error[E08]" in str(error):      # the checker proves less
            raise vectors.Refused("not provable") from error
        raise


def judge_seed(env, index, got, state, folder):
    case = programs.draw(env, index, programs.store(env))
    return compare(got, case["results"], case["tol"])


def run_example(env, index, device, folder):
    path = os.path.join(env.root, "examples", index, "run.sh")
    code, out = env.start(["sh", path, env.build, "--device", device],
                          folder, timeout=240, extra=extra_of(device))
    if code != 0:
        raise RuntimeError("exit status %d\n%s" % (code, out))
    text = re.sub(r"\bcuda(:\d+)?\b", "sim", out)
    return {"text": scripts.plain(text)}, {}


def run_conformance(env, index, device, folder):
    """A compiled test against the driver; on the simulator it is part of the
    suite, so that it runs here only for the device."""
    if device.startswith("sim"):
        return {}, {}
    path = os.path.join(env.build, "tests", index)
    extra = extra_of(device)
    driver = extra.get("TDSL_LIBCUDA", "libcuda.so.1")
    extra["TDSL_LIBCUDA"] = driver
    extra["TDSL_LAB_DRIVER"] = driver
    code, out = env.start([path], folder, timeout=200, extra=extra)
    if code != 0:
        raise RuntimeError("exit status %d\n%s" % (code, out[-3000:]))
    return {}, {}


def nothing(env, index, got, state, folder):
    return []


def items(env, card, seeds):
    """What takes longest comes first."""
    for name in ("llama", "digits"):
        yield Item("examples", name, run_example, nothing, name)
    for program in vectors.PROGRAMS:
        listed = vectors.load(env, program)["cases"]
        for number, case in enumerate(listed):
            if "sequence" not in case:
                yield Item("vectors", "%s.%s" % (program, case["name"]),
                           run_vector, judge_vector, (program, number))
    for name in CONFORMANCE:
        if name != "unit_cuda_large" or card.memory >= LARGE_BYTES:
            yield Item("conformance", name, run_conformance, nothing, name)
    for index, case in enumerate(cases.all_cases(env)):
        if "sim" not in case.engines:
            continue
        if case.error:
            yield Item("refusals", case.name, run_refused, nothing, index)
        else:
            yield Item("exec", case.name, run_case, judge_case, index)
    for index, (title, _, fn) in enumerate(accepted.programs(env)):
        yield Item("accepted", "%s.%s" % (title, fn), run_accepted, nothing,
                   index)
    for seed in range(seeds):
        yield Item("random", "seed %d" % seed, run_seed, judge_seed, seed)


# --- one item -------------------------------------------------------------
def cpu_seconds():
    """Of the children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def extra_of(device):
    """The runner takes TDSL_ variables away; these say where libraries are,
    or belong to the simulated machine."""
    extra = {k: v for k, v in os.environ.items()
             if k in ("TDSL_LIBCUDA", "TDSL_LIBNVRTC")}
    extra.update(getattr(device, "extra", {}))
    return extra


def asks_for_less(env, item, machine):
    """Whether some kernel of the item says .approx in its PTX, so that the
    ISA leaves the last bits to the hardware."""
    with env.scratch() as folder:
        path = os.path.join(folder, "trace")
        where = gpu.Place(machine, {"TDSL_DUMP_DIR": path})
        try:
            item.run(env, item.index, where, folder)
        except (RuntimeError, vectors.Refused):
            return False
        for name in glob.glob(os.path.join(path, "kernels", "*.cu")):
            with open(name, encoding="utf-8") as f:
                code, _, ptx = nvrtc.library().compile(f.read(), "sm_80")
            if code == 0 and ".approx" in ptx:
                return True
    return False


def work(task):
    env, item, device, machine, stop = task
    out = Outcome(item)
    if time.time() > stop:
        return out
    answers = []
    try:
        for number, where in enumerate((device, machine)):
            with env.scratch() as folder:
                started, used = time.monotonic(), cpu_seconds()
                got, state = item.run(env, item.index, where, folder)
                out.seconds[number] = time.monotonic() - started
                out.cpu[number] = cpu_seconds() - used
                wrong = item.judge(env, item.index, got, state, folder)
            if wrong:
                out.status = "wrong"
                out.detail += "on %s:\n%s\n" % (where, "\n".join(wrong))
            answers.append((got, state))
    except vectors.Refused as refused:
        out.status, out.detail = "refused", str(refused)
        return out
    except Exception:
        out.status = "failed"
        out.detail += traceback.format_exc(limit=1)
        return out
    if out.status == "wrong":
        return out
    (got, state), (other, after) = answers
    if "text" in got:
        lines = [] if got == other else ["%s\nand\n%s" % (got["text"],
                                                          other["text"])]
    else:
        lines = equal_bits(got, other) + equal_bits(state, after)
    out.status, out.detail = "same", "\n".join(lines)
    if lines:
        close = asks_for_less(env, item, str(machine))
        out.status = "close" if close else "differs"
    return out


# --- all of them ----------------------------------------------------------
def table(outcomes):
    head = ("group", "items", "same bits", "close", "differ", "wrong",
            "failed", "refused", "not run", "device s", "sim s", "CPU s")
    rows = []
    for group in GROUPS:
        mine = [o for o in outcomes if o.group == group]
        if not mine:
            continue
        row = [group, len(mine)] + [
            sum(o.status == s for o in mine) for s in (
                "same", "close", "differs", "wrong", "failed", "refused",
                "not run")]
        row += ["%.1f" % sum(o.seconds[k] for o in mine) for k in (0, 1)]
        row.append("%.1f" % sum(sum(o.cpu) for o in mine))
        rows.append([str(cell) for cell in row])
    widths = [max(len(r[i]) for r in rows + [head]) for i in range(len(head))]
    return ["  ".join(c.ljust(w) if i == 0 else c.rjust(w)
                      for i, (c, w) in enumerate(zip(r, widths))).rstrip()
            for r in [head] + rows]


def run_all(tasks, stop):
    """The outcomes in the order in which they came; what is not there 15 s
    after the end is given up."""
    outcomes = []
    workers = min(8, len(os.sched_getaffinity(0)))
    context = multiprocessing.get_context("fork")
    with context.Pool(workers) as pool:
        coming = pool.imap_unordered(work, tasks)
        while len(outcomes) < len(tasks):
            try:
                outcome = coming.next(timeout=max(stop + 15 - time.time(), 1))
            except multiprocessing.TimeoutError:
                break
            outcomes.append(outcome)
            bad = sum(o.status in BAD for o in outcomes)
            if outcome.status in BAD and bad > MOST_TOLD:
                continue        # the report has them by name
            if outcome.status in BAD:
                print("%s %s %s\n    %s" % (
                    outcome.status, outcome.group, outcome.name,
                    outcome.detail.strip().replace("\n", "\n    ")),
                    flush=True)
    reached = {(o.group, o.name) for o in outcomes}
    return outcomes + [Outcome(task[1]) for task in tasks if (
        task[1].group, task[1].name) not in reached]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--build", required=True)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--beside")
    parser.add_argument("--groups", default=",".join(GROUPS))
    parser.add_argument("--seeds", type=int, default=SEEDS)
    options = parser.parse_args()
    started = time.time()
    env = Environment(ROOT, options.build)
    env.has("llvm")                 # asked once, before processes are made
    card = cards.find(options.device)
    beside = options.beside or card.machine
    if beside not in cards.SIMULATED:
        parser.error("no simulated machine is called " + beside)
    # The stand-in runs under another schedule than the simulator beside it.
    device = options.device
    if device.startswith("sim"):
        device = gpu.Place(device, {"TDSL_SIM_MODE": "order:reverse"})
    else:
        device = gpu.Place(device, extra_of(device))
    machine = gpu.Place("sim:" + beside, {"TDSL_SIM_CHECK": "all"})
    lines = [card.told(), "beside sim:%s, %s" % (
        beside, time.strftime("%Y-%m-%d", time.gmtime()))]
    print("\n".join(lines), flush=True)
    stop = started + options.seconds - 20
    groups = options.groups.split(",")
    tasks = [(env, item, device, machine, stop) for item in
             items(env, card, options.seeds) if item.group in groups]
    outcomes = run_all(tasks, stop)
    lines += [""] + table(outcomes) + [""]
    lines += profiler.table(env, device, machine, started + options.seconds)
    bad = [o for o in outcomes if o.status in BAD]
    late = sum(o.status == "not run" for o in outcomes)
    compared = sum(o.status in ("same", "close") for o in outcomes)
    lines.append("")
    lines.append("agreement: %s; %d items compared%s; %.0f s" % (
        "NO, %d items do not agree" % len(bad) if bad else "yes", compared,
        ", %d not reached in the time given" % late if late else "",
        time.time() - started))
    print("\n".join(lines[2:]), flush=True)
    folder = os.path.join(env.build, "gpu")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "report.txt"), "w",
              encoding="utf-8") as f:
        f.write("\n".join(lines + ["%s %s %s" % (o.status, o.group, o.name)
                                   for o in bad]) + "\n")
    return 1 if bad or not compared else 0


if __name__ == "__main__":
    sys.exit(main())
