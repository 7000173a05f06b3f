"""Script tests: tests/LABEL/test_NAME.{py,sh}, tests/lint/NAME.py,
examples/NAME/test.{py,sh}, and examples/NAME/run.sh BUILD [OPTIONS] on the
engines of RUN_DEVICES; on sim it must say what it says on cpu. A script finds
the built programs through TDSLC and TDSL_TEST_BUILD; exit status 0 passes, 77
skips (the last line says why), anything else fails. A script may print
`ok NAME` or `not ok NAME` lines for several results of its own."""
import os
import re
import sys

import gpu

# Where an example's own run.sh is run. The interpreter takes minutes for a
# published encoder, and the simulator one; .ci/run has it there.
RUN_DEVICES = {"minilm": ("cpu",)}
DEFAULT_DEVICES = ("cpu", "interp", "sim")

# With --full and -k alone: the programs of vectors have its kernels.
LONG = ("examples.llama@sim",)

# Labels whose scripts run one program many times: each script has a folder of
# kernels of its own, empty at first.
CACHED = ("codegen", "exec", "passes")

# Tests that judge what the others leave behind come last.
LATE = ("simgpu.forms",)

LINE = re.compile(r"^(ok|not ok) (\S.*)$")


def discover(env):
    """[(label, name, function, args, weight)]"""
    out = []
    for label in sorted(os.listdir(env.tests)):
        folder = os.path.join(env.tests, label)
        if label == "oracle" or not os.path.isdir(folder):
            continue
        for name in sorted(os.listdir(folder)):
            stem, ext = os.path.splitext(name)
            if ext not in (".py", ".sh"):
                continue
            if stem.startswith("test_") or label == "lint":
                if stem.startswith("_"):
                    continue
                path = os.path.join(folder, name)
                title = "%s.%s" % (label, re.sub("^test_", "", stem))
                out.append((label, title, run_script, (title, path),
                            0 if title in LATE else 30))
    examples = os.path.join(env.root, "examples")
    for name in sorted(os.listdir(examples)):
        for ext in (".py", ".sh"):
            path = os.path.join(examples, name, "test" + ext)
            if os.path.exists(path):
                title = "examples.%s" % name
                out.append(("examples", title, run_script, (title, path), 40))
        path = os.path.join(examples, name, "run.sh")
        if os.path.exists(path):
            for device in RUN_DEVICES.get(name, DEFAULT_DEVICES):
                title = "examples.%s@%s" % (name, device)
                if title in LONG and env.draw is not None:
                    continue
                if device == "sim":
                    out.append(("examples", title, run_simulated,
                                (title, path), 80))
                    continue
                out.append(("examples", title, run_script,
                            (title, path, env.build, "--device", device),
                            60))
    return out


def run_script(env, title, path, *arguments):
    shell = [sys.executable, "-B"] if path.endswith(".py") else ["sh"]
    extra = gpu.of_script(env, path) or {}
    with env.scratch() as cache:
        if title.split(".")[0] in CACHED:
            extra = dict(extra, TDSL_CACHE="on", TDSL_CACHE_DIR=cache)
        code, out = env.start(shell + [path] + list(arguments),
                              os.path.dirname(path), timeout=1500, extra=extra)
    if code == 77:
        return [(title, "skip", out.strip().split("\n")[-1])]
    results = []
    for line in out.split("\n"):
        m = LINE.match(line)
        if m:
            good = m.group(1) == "ok"
            results.append(("%s.%s" % (title, m.group(2)),
                            "pass" if good else "fail",
                            "" if good else out))
    if code != 0 and not any(r[1] == "fail" for r in results):
        results.append((title, "fail", "exit status %d\n%s" % (code, out)))
    if not results:
        results.append((title, "pass", ""))
    return results


def plain(out):
    """The output of an example without its device and its times."""
    out = re.sub(r"\b(cpu|sim(:\w+)*)\b", "DEVICE", out)
    return re.sub(r"[0-9.]+ ms\b", "MS", out)


def run_simulated(env, title, path):
    """An example on the simulated GPU, where its numbers must be those of
    the CPU and no check may report."""
    where = gpu.place("sim", title)
    with env.scratch() as folder:
        extra, report = gpu.environment(env, where, folder)
        code, out = env.start(["sh", path, env.build, "--device", where],
                              os.path.dirname(path), timeout=1500,
                              extra=extra)
        found = gpu.findings(report)
        launches = len(gpu.rows(report, "launch"))
    if code == 77:
        return [(title, "skip", out.strip().split("\n")[-1])]
    if code != 0 and gpu.is_missing(out):
        return [(title, "skip", gpu.is_missing(out))]
    if code != 0 or found or not launches:
        found.append("%d launches, exit status %d" % (launches, code))
        return [(title, "fail", gpu.told(where, "\n".join(found + [out])))]
    if not env.has("llvm"):
        return [(title, "pass", "")]
    same, want = env.start(["sh", path, env.build, "--device", "cpu"],
                           os.path.dirname(path), timeout=1500)
    good = same == 0 and plain(out) == plain(want)
    return [(title, "pass" if good else "fail", gpu.told(
        where, "cpu says\n%s\nand the simulated GPU\n%s" % (want, out)))]
