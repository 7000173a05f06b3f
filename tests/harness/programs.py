"""Random programs of tests/oracle against the engines. A seed is drawn once
and kept in the build folder, keyed by the text of the oracle."""
import hashlib
import json
import os
import re
import sys

import gpu
from compare import compare
from vectors import Refused, answer_of, run_once, same_as_cpu

DEVICES = ("interp", "cpu")
NIGHT_DEVICES = ("interp", "interp:f64", "interp:kir", "cpu", "sim")


def store(env):
    """The folder of drawn cases; another oracle gets another folder."""
    digest = hashlib.sha256()
    for folder in (os.path.join(env.tests, "oracle"), env.stdlib):
        for name in sorted(os.listdir(folder)):
            if name.endswith((".py", ".tdsl")):
                with open(os.path.join(folder, name), "rb") as f:
                    digest.update(name.encode() + b"\0" + f.read())
    path = os.path.join(env.build, "oracle-cases", digest.hexdigest()[:16])
    os.makedirs(path, exist_ok=True)
    return path


def draw(env, seed, folder):
    path = os.path.join(folder, "%d.json" % seed)
    try:
        with open(path, encoding="utf-8") as f:
            return json.load(f)
    except (OSError, ValueError):
        pass
    oracle = os.path.join(env.tests, "oracle")
    if oracle not in sys.path:
        sys.dont_write_bytecode = True
        sys.path.insert(0, oracle)
    from tdsl_random import random_case
    case = random_case(seed, env.stdlib)
    temporary = "%s.%d" % (path, os.getpid())
    with open(temporary, "w", encoding="utf-8") as f:
        json.dump(case, f)
    os.replace(temporary, path)
    return case


def uses_grad(case):
    return re.search(r"\bgrad\b", case["source_text"]) is not None


def bounds_of(env, seed, case, folder):
    """Bounds of the case's results (bound.py), kept beside it; None where a
    choice is too close to call."""
    import bound
    digest = hashlib.sha256()
    for path in (bound.__file__, bound.TABLE):
        with open(path, "rb") as f:
            digest.update(f.read())
    path = os.path.join(folder, "%d-%s.json" % (seed,
                                                digest.hexdigest()[:12]))
    try:
        with open(path, encoding="utf-8") as f:
            return json.load(f)
    except (OSError, ValueError):
        pass
    try:
        with bound.bounds():
            found = bound.evaluate(bound.tdsl_eval.Program(
                "random.tdsl", [env.stdlib], text=case["source_text"]),
                case["fn"], case["args"])
    except bound.Undecided:
        found = None
    temporary = "%s.%d" % (path, os.getpid())
    with open(temporary, "w", encoding="utf-8") as f:
        json.dump(found, f)
    os.replace(temporary, path)
    return found


def judge(env, case, device, folder, bounds=None):
    """(status, detail) of one case on one engine."""
    source = os.path.join(folder, "f.tdsl")
    with open(source, "w", encoding="utf-8") as f:
        f.write(case["source_text"])
    try:
        run = answer_of if device == "cpu" else run_once
        got, state = run(env, source, case, case["args"], device, folder)
        other = same_as_cpu(env, source, case, case["args"], got, state,
                            folder) if device.startswith("sim") else []
    except Refused as refused:
        if uses_grad(case):
            return "skip", "grad"
        if str(refused) == "needs nvrtc":
            return "skip", str(refused)
        return "fail", str(refused)
    except RuntimeError as error:
        text = str(error)
        first = re.search(r"error\[(\w+)\]", text)
        if first and first.group(1) == "E08":
            return "skip", "not provable"
        return "fail", text
    except (ValueError, OSError, KeyError) as error:
        return "fail", "%s: %s" % (type(error).__name__, error)
    exact = device == "interp:f64"
    out = compare(got, case["results"], case["tol"], exact) + other
    if not out and bounds is not None:
        import bound
        out = bound.judge(got, bounds)
    return ("fail", "\n".join(out)) if out else ("pass", "")


def keep_failure(env, seed, case, device, detail):
    folder = os.path.join(env.build, "failed", "oracle-%d" % seed)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "f.tdsl"), "w", encoding="utf-8") as f:
        f.write(case["source_text"])
    with open(os.path.join(folder, "case.json"), "w", encoding="utf-8") as f:
        json.dump(case, f)
    with open(os.path.join(folder, "report.txt"), "a", encoding="utf-8") as f:
        f.write("%s\n%s\n" % (device, detail))
    return folder


def run_seeds(env, first, count, devices):
    folder = store(env)
    results = []
    for seed in range(first, first + count):
        case = draw(env, seed, folder)
        # one in eight every day, since the evaluator takes its time
        is_bound = (env.full or seed % 8 == 0) and not uses_grad(case)
        bounds = bounds_of(env, seed, case, folder) if is_bound else None
        for device in devices:
            name = "oracle.seed.%d@%s" % (seed, device)
            where = gpu.place(device, name)
            with env.scratch() as scratch:
                status, detail = judge(env, case, where, scratch, bounds)
            if status == "fail":
                detail = gpu.told(where, detail)
                kept = keep_failure(env, seed, case, device, detail)
                detail = ("%s\n%s\nkept in %s\nagain: tests/tdtest.py --build"
                          " %s --seed %d" % (case["source_text"], detail,
                                             kept, env.build, seed))
            results.append((name, status, detail))
    return results
