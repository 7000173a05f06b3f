"""Compiled tests: every program that CTest knows. cmocka's TAP output gives
one result for each test function; any other program is one test by its exit
status (77 means skipped, the last line says why)."""
import json
import os
import re
import subprocess

import gpu

LINE = re.compile(r"^(not ok|ok) (\d+)(?: - (.*)| # SKIP ?(.*))?$")
PLAN = re.compile(r"^\s*1\.\.(\d+)$")


def discover(build):
    """[(label, name, command, folder)]"""
    listing = subprocess.run(
        ["ctest", "--test-dir", build, "--show-only=json-v1"],
        capture_output=True, text=True, check=True).stdout
    out = []
    for test in json.loads(listing)["tests"]:
        properties = {p["name"]: p["value"] for p in test["properties"]}
        label = (properties.get("LABELS") or ["unit"])[0]
        if "command" not in test or label == "examples":
            continue        # scripts.py runs the examples
        out.append((label, test["name"], test["command"],
                    properties.get("WORKING_DIRECTORY", build)))
    return out


def loads_nvrtc(env, name):
    """Whether the source of this test, or a header of its folder that it
    includes, calls NVRTC or runs what does."""
    label, _, short = name.partition(".")
    folder = os.path.join(env.tests, label)

    def text_of(path):
        try:
            with open(os.path.join(folder, path), encoding="utf-8") as f:
                return f.read()
        except OSError:
            return ""
    text = text_of("test_%s.c" % short)
    text += "".join(map(text_of, re.findall(
        r'(?m)^#include "([a-z0-9_]+\.h)"', text)))
    return re.search(r'\bnvrtcCompile|\brcuda_nvrtc_open|"sim[":]',
                     text) is not None


def run_compiled(env, label, name, command, folder):
    """[(test name, status, detail)]"""
    if not os.path.exists(command[0]):
        return [(name, "fail", "%s was not built" % command[0])]
    extra = {"CMOCKA_MESSAGE_OUTPUT": "tap"}
    if env.slow() and loads_nvrtc(env, name):
        extra.update(gpu.WITH_NVRTC)
    code, out = env.start(command, folder, timeout=900, extra=extra)
    plans = [int(m.group(1)) for m in map(PLAN.match, out.split("\n")) if m]
    if not plans:
        if code == 77:
            return [(name, "skip", out.strip().split("\n")[-1])]
        return [(name, "pass" if code == 0 else "fail",
                 "" if code == 0 else "exit status %d\n%s" % (code, out))]
    results, notes = [], []
    for line in out.split("\n"):
        m = LINE.match(line)
        if not m:
            # what a failing test says comes after its own line
            if results and results[-1][1] == "fail":
                results[-1][2] += line + "\n"
            else:
                notes.append(line)
            continue
        if m.group(4) is not None:
            results.append(["%s.%s" % (name, m.group(4)), "skip",
                            "skip() in the test"])
        else:
            status = "pass" if m.group(1) == "ok" else "fail"
            results.append(["%s.%s" % (name, m.group(3) or m.group(2)),
                            status, ""])
    failed = any(r[1] == "fail" for r in results)
    if len(results) < sum(plans):
        results.append([name, "fail", "ended after %d of %d tests with %d\n%s"
                        % (len(results), sum(plans), code, out[-4000:])])
    elif code != 0 and not failed:
        results.append([name, "fail", "exit status %d\n%s"
                        % (code, "\n".join(notes)[-4000:])])
    return [tuple(r) for r in results]
