"""The reference vectors: every case of tests/vectors through `tdslc run`, on
each engine; the programs of errors.json through `tdslc check`. The format is
tests/vectors/README.md."""
import json
import os
import re

import gpu
from compare import compare, equal_bits, leaves, number
from filetest import reports

PROGRAMS = ("softmax", "nn", "attention", "variants", "llama", "bert",
            "gpt_train", "moe", "conv", "tp_mlp", "ring_attention",
            "pipeline", "quant", "losses")
DEVICES = ("interp", "interp:f64", "interp:kir", "cpu", "sim")
# Programs whose results are judged by computed bounds too (bound.py), once, on
# BOUND_DEVICE: interp:kir and sim have its bits.
BOUND = ("softmax", "nn", "attention", "variants", "moe", "quant",
         "ring_attention")
BOUND_DEVICE = "cpu"


def program_path(env, name):
    path = os.path.join(env.stdlib, name + ".tdsl")
    if os.path.exists(path):
        return path
    return os.path.join(env.root, "examples", name, name + ".tdsl")


def load(env, name):
    path = os.path.join(env.tests, "vectors", name + ".json")
    with open(path, encoding="utf-8") as f:
        return json.load(f)


class Refused(Exception):
    """The program is fine and this version or this machine says that it
    cannot compile it."""


class Reported(RuntimeError):
    """The simulator's checks had something to report."""


def write_case(path, args):
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"format": 1, "args": args}, f)


def command(env, source, case, given, device, folder):
    """The arguments of tdslc for one call."""
    out = ["run", source, "--entry", case["fn"], "--in", "@=" + given,
           "--device", device, "--mesh", "none", "--lib", env.stdlib]
    for dim, value in (case.get("dims") or {}).items():
        out += ["--dim", "%s=%s" % (dim, value)]
    if case.get("config"):
        config = os.path.join(folder, "config.json")
        with open(config, "w", encoding="utf-8") as f:
            json.dump(case["config"], f)
        out += ["--config", config]
    return out


def run_once(env, source, case, args, device, folder, more=(), extra=None):
    """(results, state) of one call; Refused with B01 or without NVRTC;
    RuntimeError else, Reported if the simulator's checks say something."""
    given = os.path.join(folder, "case.json")
    result = os.path.join(folder, "out.json")
    write_case(given, args)
    if os.path.exists(result):
        os.remove(result)
    extra, report = gpu.environment(env, device, folder, extra)
    words = command(env, source, case, given, device, folder)
    code, out = env.tdslc(words + ["--out", result] + list(more), folder,
                          extra=extra)
    if code in (1, 4) and "error[B01]" in out:
        raise Refused(re.search(r"error\[B01\]: (.*)", out).group(1))
    if code != 0 and gpu.is_missing(out):
        raise Refused(gpu.is_missing(out))
    found = gpu.findings(report)
    if found:
        raise Reported("exit status %d, and the checks report\n%s" % (
            code, "\n".join(found + [out[-4000:]])))
    if code != 0:
        raise RuntimeError("exit status %d\n%s" % (code, out[-4000:]))
    with open(result, encoding="utf-8") as f:
        answer = json.load(f)
    results, state = answer.get("results", {}), answer.get("state", {})
    if report and not gpu.rows(report, "launch") and not has_empty(args):
        raise RuntimeError("no kernel ran on the simulated GPU")
    return results, state


def has_empty(args):
    """Whether an argument has no element, so that there may be no work."""
    return any(0 in leaf["shape"] for name, value in args.items()
               for _, leaf in leaves(value, name))


def check_sequence(env, source, case, device, folder, more):
    """Calls once per element; the state of a call feeds the next."""
    args = dict(case["args"])
    want = case["sequence"]
    out = []
    bound = 1e-8 if device == "interp:f64" else 1e-4
    for step in range(len(next(iter(want.values())))):
        got, state = run_once(env, source, case, args, device, folder, more)
        args.update(state)
        for name, values in want.items():
            if isinstance(values[step], dict):
                out += compare({name: got.get(name)}, {name: values[step]},
                               case.get("tol", {}))
                continue
            data = (got.get(name) or {}).get("data", [])
            if len(data) != 1 or not (
                    abs(number(data[0]) - values[step]) <= bound):
                out.append("call %d: %s is %s, not %r"
                           % (step, name, data, values[step]))
    return out


KEPT_ANSWERS = 16
ANSWERS = {}    # of the CPU, to the last calls: a group's jobs share them


def answer_of(env, source, case, args, device, folder, more=()):
    """run_once for a CPU, where a call that was made before need not be made
    again."""
    with open(source, "rb") as f:
        key = json.dumps((f.read().decode("utf-8", "replace"), case["fn"],
                          case.get("dims"), case.get("config"), args, device,
                          list(more)), sort_keys=True)
    if key not in ANSWERS:
        answer = run_once(env, source, case, args, device, folder, more)
        while len(ANSWERS) >= KEPT_ANSWERS:
            del ANSWERS[next(iter(ANSWERS))]
        ANSWERS[key] = answer
    return ANSWERS[key]


def same_as_cpu(env, source, case, args, got, state, folder, more=()):
    """Where the GPU's answer is not the CPU's to the last bit. Both run the
    same accumulation plan (docs/language.md 9.3), and the text of a kernel
    defines its arithmetic."""
    if not env.has("llvm"):
        return []
    want, after = answer_of(env, source, case, args, gpu.like_a_gpu(source),
                            folder, more)
    out = equal_bits(got, want) + equal_bits(state, after)
    return ["not the bits of cpu:"] + out if out else []


def beyond_bounds(env, source, case, got):
    """Lines for elements beyond what any order of operations allows."""
    import bound
    with bound.bounds():
        want = bound.evaluate(bound.tdsl_eval.Program(
            source, [env.stdlib], dims=case.get("dims"),
            config=case.get("config")), case["fn"], case["args"])
    return bound.judge(got, want)


def run_case(env, program, case, device, more=()):
    """(status, detail)"""
    source = program_path(env, program)
    with env.scratch() as folder:
        try:
            if "sequence" in case:
                out = check_sequence(env, source, case, device, folder, more)
            else:
                run = answer_of if device == "cpu" else run_once
                got, state = run(env, source, case, case["args"], device,
                                 folder, more)
                exact = device == "interp:f64"
                tol = case.get("tol", {})
                out = compare(got, case.get("results", {}), tol, exact)
                out += compare(state, case.get("state", {}), tol, exact)
                if (device == BOUND_DEVICE and program in BOUND
                        and case.get("results") and not out):
                    out += beyond_bounds(env, source, case, got)
                if not case.get("results") and not case.get("state"):
                    out.append("the case expects nothing")
                if device.startswith("sim"):
                    out += same_as_cpu(env, source, case, case["args"], got,
                                       state, folder, more)
        except Refused as refused:
            return "skip", str(refused)
        except Exception as error:
            return "fail", "%s: %s" % (type(error).__name__, error)
    return ("fail", "\n".join(out)) if out else ("pass", "")


def run_vector(env, program, index, device, more=()):
    case = load(env, program)["cases"][index]
    name = "vectors.%s.%s@%s" % (program, case["name"], device)
    device = gpu.place(device, name, None if env.draw is None else
                       "%s.%s" % (program, case["fn"]))
    status, detail = run_case(env, program, case, device, more)
    if status == "fail":
        detail = gpu.told(device, detail)
    return [(name, status, detail)]


def discover(env):
    for program in PROGRAMS:
        for index, case in enumerate(load(env, program)["cases"]):
            for device in DEVICES:
                if device == "sim" and not env.draws(
                        "%s.%s" % (program, case["name"])):
                    continue
                yield program, index, device


def run_error(env, kind, index):
    """One program of errors.json."""
    row = load(env, "errors")[kind][index]
    source = row["source"] if kind == "reject" else row
    if isinstance(source, dict):
        source = source["source"]
    name = "vectors.errors.%s.%d" % (kind, index)
    with env.scratch() as folder:
        path = os.path.join(folder, "p.tdsl")
        with open(path, "w", encoding="utf-8", newline="") as f:
            f.write(source)
        code, out = env.tdslc(["check", path, "--lib", env.stdlib], folder)
    found = [(line, ident) for _, line, sort, ident, _ in reports(out)
             if sort == "error"]
    if kind == "accept":
        good = code == 0 and not found
        return [(name, "pass" if good else "fail", source + "\n" + out)]
    name += "." + row["id"]
    good = code == 1 and found == [(row["line"], row["id"])]
    return [(name, "pass" if good else "fail",
             "want only %s on line %d of\n%s\ngot (exit status %d)\n%s"
             % (row["id"], row["line"], source, code, out))]


# --- the language's own tests ---------------------------------------------
def has_tests(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        return re.search(r"\bwith\b[^\n{]*\btest\b", f.read()) is not None


def run_language_tests(env, path, device):
    """`tdslc run --tests`: one line a function, `ok NAME` or what failed."""
    short = os.path.relpath(path, env.root)
    where = gpu.place(device, "tests.%s@%s" % (short, device))
    with env.scratch() as folder:
        extra, report = gpu.environment(env, where, folder)
        code, out = env.tdslc(["run", "--tests", path, "--device", where,
                               "--mesh", "none", "--lib", env.stdlib],
                              timeout=900, extra=extra)
        found = gpu.findings(report)
    if code != 0 and gpu.is_missing(out):
        return [("tests.%s@%s" % (short, device), "skip",
                 gpu.is_missing(out))]
    out = gpu.told(where, "\n".join([out] + found))
    results = [("tests.%s.checks@%s" % (short, device), "fail", out)
               ] if found else []
    for line in out.split("\n"):
        m = re.match(r"^\s*(ok|pass(?:ed)?|FAIL(?:ED)?|fail(?:ed)?)"
                     r"[:\s]+([A-Za-z_]\w*)\b(.*)$", line)
        if m:
            good = m.group(1) in ("ok", "pass", "passed")
            results.append(("tests.%s.%s@%s" % (short, m.group(2), device),
                            "pass" if good else "fail", out))
    if code != 0 and not any(r[1] == "fail" for r in results):
        status = "skip" if "error[B01]" in out else "fail"
        detail = "exit status %d\n%s" % (code, out)
        if status == "skip":
            detail = re.search(r"error\[B01\]: (.*)", out).group(1)
        results.append(("tests.%s@%s" % (short, device), status, detail))
    if not results:
        results.append(("tests.%s@%s" % (short, device), "fail",
                        "no test function was run\n" + out))
    return results
