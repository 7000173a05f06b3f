"""Relations over the whole corpus that need no expected value: passes on and
off, the same text twice, accepted by check."""
import os

import vectors


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
        out.append(("frontend", "check.%s" % name, run_check,
                    ("check.%s" % name, path), 1))
    return out


def run_check(env, name, path):
    code, out = env.tdslc(["check", path, "--lib", env.stdlib])
    good = code == 0 and "error[" not in out
    return [(name, "pass" if good else "fail",
             "exit status %d\n%s" % (code, out))]
