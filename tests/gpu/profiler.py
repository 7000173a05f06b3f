"""Counters of a real GPU by the toolkit's profiler (ncu), beside those of
the simulated one. Requests, sectors and blocks are what the instruction
stream does to memory and should be equal, unless ptxas merged or dropped
accesses; bytes of device memory and cycles depend on caches and on the
machine, and are no part of this."""
import csv
import os
import shutil
import time

import gpu
import vectors

# (what the simulator calls it, what the profiler adds up)
METRICS = (
    ("global.requests", (
        "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
        "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum")),
    ("global.sectors", (
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
        "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum")),
    ("shared.wavefronts", (
        "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",)),
    ("ctas", ("launch__grid_size",)),
)
# What is counted: (program, case of its vectors).
CASES = (("softmax", "softmax"), ("attention", "causal_gqa"),
         ("attention", "long_odd_301"), ("conv", None), ("moe", None),
         ("bert", "encode"))


def parse(text):
    """[{metric: value, "kernel": name}] of `ncu --csv --page raw`: a line of
    names, one of units, then a line for each launch."""
    lines = text.split("\n")
    start = next((i for i, line in enumerate(lines)
                  if line.startswith('"ID"')), None)
    if start is None:
        return []
    rows = list(csv.reader(lines[start:]))
    out = []
    for row in rows[2:]:
        if len(row) != len(rows[0]):
            continue
        named = dict(zip(rows[0], row))
        launch = {"kernel": named.get("Kernel Name", "")}
        for _, metrics in METRICS:
            for metric in metrics:
                value = named.get(metric, "").replace(",", "")
                launch[metric] = float(value) if value else None
        out.append(launch)
    return out


def of_profiler(env, device, command, folder):
    """{(kernel, counter): value} or a reason."""
    ncu = shutil.which("ncu")
    if ncu is None:
        return "the profiler (ncu) is not on the path"
    names = ",".join(m for _, metrics in METRICS for m in metrics)
    code, out = env.start(
        [ncu, "--csv", "--page", "raw", "--metrics", names, env.binary]
        + command, folder, timeout=60, extra=dict(device.extra))
    if "ERR_NVGPUCTRPERM" in out:
        return "this user may not read the GPU's counters (ERR_NVGPUCTRPERM)"
    launches = parse(out)
    if code != 0 or not launches:
        return "ncu: exit status %d, %s" % (code, out.strip()[-300:])
    found = {}
    for launch in launches:
        for name, metrics in METRICS:
            values = [launch[m] for m in metrics]
            if None not in values:
                key = (launch["kernel"], name)
                found[key] = found.get(key, 0) + int(sum(values))
    return found


def of_simulator(env, device, command, folder):
    extra, report = gpu.environment(env, device, folder)
    code, out = env.start([env.binary] + command, folder, extra=extra)
    if code != 0:
        return "exit status %d, %s" % (code, out.strip()[-300:])
    found = {}
    for launch in gpu.rows(report, "launch"):
        for name, _ in METRICS:
            key = (launch["kernel"], name)
            found[key] = found.get(key, 0) + launch["counters"][name]
    return found


def case_of(env, program, name):
    """The case of that name; without one the first with arguments."""
    listed = vectors.load(env, program)["cases"]
    return next(c for c in listed if "sequence" not in c and (
        c["name"] == name if name else c["args"]))


def command_of(env, program, name, device, folder):
    """The arguments of a run of one reference vector."""
    case = case_of(env, program, name)
    given = os.path.join(folder, "case.json")
    vectors.write_case(given, case["args"])
    return vectors.command(env, vectors.program_path(env, program), case,
                           given, device, folder)


def compared(program, mine, theirs):
    """Lines of one program: a row for each counter, summed over kernels."""
    out = []
    for name, _ in METRICS:
        pair = [sum(v for (_, n), v in side.items() if n == name)
                for side in (mine, theirs)]
        if pair[0] == pair[1]:
            told = "equal"
        elif pair[0]:
            told = "x%.3f" % (pair[1] / pair[0])
        else:
            told = "differ"
        out.append("%-24s %-18s %12d %12d  %s" % (program, name, pair[0],
                                                  pair[1], told))
    return out


def table(env, device, machine, stop):
    """Lines for all programs, or as far as the time and the tools go."""
    out = []
    for program, name in CASES:
        told = "%s.%s" % (program, case_of(env, program, name)["name"])
        if time.time() > stop - 10:
            out.append("counters: no time left for %s" % told)
            continue
        with env.scratch() as folder:
            real = of_simulator if device.startswith("sim") else of_profiler
            mine = real(env, device, command_of(
                env, program, name, device, folder), folder)
            theirs = of_simulator(env, machine, command_of(
                env, program, name, machine, folder), folder)
        for answer in (mine, theirs):
            if isinstance(answer, str):
                return out + ["counters: " + answer]
        out += compared(told, mine, theirs)
    return ["%-24s %-18s %12s %12s" % ("counters of", "", str(device),
                                       str(machine))] + out
