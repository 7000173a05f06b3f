"""Relations over the whole corpus that need no expected value: passes on and
off, the same text twice, accepted by check."""
import json
import os
import re
import sys

import vectors
from compare import equal_bits

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "lint"))
from _tree import rows  # noqa: E402


def optional_passes():
    """[(name, numerics class)]"""
    return [(row[1], row[3]) for row in rows("passes/passes.def", "PASS")
            if row[4] == "true"]


def discover(env):
    """[(label, name, function, args, weight)]"""
    out = []
    for folder in sorted(os.listdir(os.path.join(env.root, "examples"))):
        path = os.path.join(env.root, "examples", folder, folder + ".tdsl")
        if os.path.exists(path):
            out.append(("frontend", "check.%s" % folder, run_check,
                        ("check.%s" % folder, path), 1))
    for name in sorted(os.listdir(env.stdlib)):
        path = os.path.join(env.stdlib, name)
        if not name.endswith(".tdsl"):
            continue
        out.append(("frontend", "check.%s" % name, run_check,
                    ("check.%s" % name, path), 1))
    for program in vectors.PROGRAMS:
        cases = vectors.load(env, program)["cases"]
        for index, case in enumerate(cases):
            name = "passes.%s.%s" % (program, case["name"])
            is_single = index == len(cases) // 2
            if "sequence" in case or not (is_single or env.draws(name)):
                continue
            out.append(("passes", name, run_passes,
                        (name, program, index, is_single), 8))
        out.append(("exec", "same.%s" % program, run_same_text,
                    ("same.%s" % program, program), 4))
    return out


def run_check(env, name, path):
    code, out = env.tdslc(["check", path, "--lib", env.stdlib])
    good = code == 0 and "error[" not in out
    return [(name, "pass" if good else "fail",
             "exit status %d\n%s" % (code, out))]


def run_passes(env, name, program, index, singly):
    """The same bits with every optional pass off, and, for one case of a
    program, with each of them off alone. Passes of class reassociated are
    off throughout: the vectors judge them within their bounds."""
    source = vectors.program_path(env, program)
    case = vectors.load(env, program)["cases"][index]
    passes = optional_passes()
    others = [p[0] for p in passes if p[1] == "REASSOCIATED"]
    bitwise = [p[0] for p in passes if p[1] == "BITWISE"]
    if not bitwise or len(others) + len(bitwise) != len(passes):
        return [(name, "fail", "passes.def: %r" % passes)]
    sets = [bitwise]
    if singly:
        sets += [[p] for p in bitwise]
    results = []

    def call(folder, off):
        extra = {"TDSL_DISABLE_PASS": ",".join(others + off)}
        got, state = vectors.run_once(env, source, case, case["args"], "cpu",
                                      folder, extra=extra)
        return dict(got, **{"state." + k: v for k, v in state.items()})

    with env.scratch() as folder:
        try:
            plain = call(folder, [])
        except vectors.Refused as refused:
            return [(name, "skip", str(refused))]
        except (RuntimeError, ValueError, OSError) as error:
            return [(name, "fail", str(error))]
        for off in sets:
            title = "%s-%s" % (name, off[0] if len(off) == 1 else "all")
            try:
                out = equal_bits(call(folder, off), plain)
                if not plain:
                    out = ["nothing was compared"]
            except (vectors.Refused, RuntimeError, ValueError,
                    OSError) as error:
                out = [str(error)]
            results.append((title, "fail" if out else "pass",
                            "\n".join(out)))
    return results


STAGES = ("tokens", "ast", "tir", "kir", "llvm", "plan")


def run_same_text(env, name, program):
    """Every text stage is the same bytes from another folder, in another
    locale and time zone. Taken is the first case that compiles."""
    source = vectors.program_path(env, program)
    with env.scratch() as folder:
        for case in vectors.load(env, program)["cases"]:
            command = [source, "--lib", env.stdlib, "--mesh", "none",
                       "--entry", case["fn"]]
            for dim, value in (case.get("dims") or {}).items():
                command += ["--dim", "%s=%s" % (dim, value)]
            if case.get("config"):
                config = os.path.join(folder, "config.json")
                with open(config, "w", encoding="utf-8") as f:
                    json.dump(case["config"], f)
                command += ["--config", config]
            refused = re.search(r"error\[B01\]: (.*)", env.tdslc(
                ["dump", "tir"] + command)[1])
            if not refused:
                return [same_stage(env, name, folder, stage, command)
                        for stage in STAGES]
    return [(name, "skip", refused.group(1))]


def same_stage(env, name, folder, stage, command):
    first = env.tdslc(["dump", stage] + command, env.root)
    second = env.tdslc(["dump", stage] + command, folder, extra={
        "LC_ALL": "C", "TZ": "Asia/Kolkata", "HOME": folder})
    good = first == second and first[0] == 0 and first[1]
    return ("%s.%s" % (name, stage), "pass" if good else "fail",
            "exit statuses %d, %d\n%s" % (
                first[0], second[0],
                first[1][:2000] if first[0] else "the texts differ"))
