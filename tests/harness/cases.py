"""Runs tests/exec/cases.py on every engine. A case without results is
computed by the oracle, in f64 and in f32 for its tolerance."""
import importlib.util
import os
import re
import sys

import gpu
from compare import compare
from vectors import (Refused, Reported, answer_of, run_once,
                     same_as_cpu)


def load(env):
    path = os.path.join(env.tests, "exec", "cases.py")
    spec = importlib.util.spec_from_file_location("exec_cases", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.cases()


CASES = {}      # one list a process: building it takes a while
JUDGED = {}     # the last case: its engines are one group of jobs


def all_cases(env):
    if env.tests not in CASES:
        CASES[env.tests] = load(env)
    return CASES[env.tests]


def discover(env):
    for index, case in enumerate(all_cases(env)):
        for engine in case.engines:
            if engine == "sim" and not env.draws(case.name):
                continue
            yield ("exec", "exec.%s@%s" % (case.name, engine), run_case,
                   (index, engine), 2, "exec.%d" % index)


def source_of(env, case, folder):
    if case.source is None:
        return os.path.join(env.tests, "exec", case.file + ".tdsl")
    path = os.path.join(folder, case.file + ".tdsl")
    with open(path, "w", encoding="utf-8") as f:
        f.write(case.source)
    return path


def judged(env, path, case):
    """(results, tol) by the oracle."""
    oracle = os.path.join(env.tests, "oracle")
    if oracle not in sys.path:
        sys.path.insert(0, oracle)
    from tdsl_eval import Program
    from tdsl_oracle import run_function
    from tdsl_random import tolerance
    from tdsl_values import FLOATS

    def run(f32):
        program = Program(path, [env.stdlib], dict(case.dims))
        return run_function(program, case.fn, dict(case.args), f32)[0]
    want, one = run(False), run(True)
    return want, {n: tolerance(want[n], one[n]) for n in want
                  if want[n]["dtype"] in FLOATS}


def run_case(env, index, engine):
    case = all_cases(env)[index]
    name = "exec.%s@%s" % (case.name, engine)
    row = {"fn": case.fn, "dims": case.dims}
    engine = gpu.place(engine, name, None if env.draw is None else
                       "%s.%s" % (case.file, case.fn))
    with env.scratch() as folder:
        path = source_of(env, case, folder)
        try:
            run = answer_of if engine == "cpu" else run_once
            got, state = run(env, path, row, case.args, engine, folder,
                             case.more)
        except Refused as refused:
            return [(name, "skip", str(refused))]
        except Reported as reported:
            return [(name, "fail", gpu.told(engine, str(reported)))]
        except RuntimeError as error:
            return [(name,) + refusal(case, gpu.told(engine, str(error)))]
        if case.error:
            return [(name, "fail", "accepted; %s was expected: %r"
                     % (case.error, got))]
        results, tol = case.results, case.tol
        if results is None:
            if index not in JUDGED:
                JUDGED.clear()
                JUDGED[index] = judged(env, path, case)
            results, tol = JUDGED[index]
        out = compare(got, results, tol, False)
        out += compare(state, case.state or {}, tol, False)
        if case.check:
            out += case.check(got, state)
        elif not results and not case.state:
            out.append("the case expects nothing")
        if engine.startswith("sim") and "cpu" in case.engines:
            out += same_as_cpu(env, path, row, case.args, got, state, folder,
                               case.more)
    return [(name, "fail" if out else "pass",
             gpu.told(engine, "\n".join(out)))]


def refusal(case, text):
    """What a run that ended with an error is worth."""
    if not case.error:
        return "fail", text
    m = re.search(r"error\[(\w+)\]", text)
    status = 3 if case.error[0] == "F" else 1
    if not m or m.group(1) != case.error or not text.startswith(
            "exit status %d\n" % status):
        return "fail", "%s was expected\n%s" % (case.error, text)
    missing = [p for p in case.parts if p not in text]
    if missing:
        return "fail", "the message lacks %s\n%s" % (missing, text)
    return "pass", ""
