"""Generated pages are current, and every operation of the tensor and kernel
IR is spelled in some text under tests/."""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from _tree import ROOT, Report, files, read, rows  # noqa: E402

# The kernel IR writes these between their operands.
INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "mod": "%",
         "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">",
         "ge": ">="}


def main():
    report = Report("generated", "operations")
    done = subprocess.run(
        [sys.executable, "-B", os.path.join(ROOT, "docs", "tables.py"),
         "--check"], capture_output=True, text=True)
    if done.returncode != 0:
        report.add("generated", done.stdout + done.stderr)
    for source, macros, endings in (
            ("ir/tir_ops.def", ("TIR_NODE", "TIR_SCALAR"), (".tir",)),
            ("ir/kir_ops.def", ("KIR_STMT", "KIR_SCALAR"), (".kir",))):
        text = "".join(read(p) for p in files(endings, ("tests/",)))
        for path in files((".c",), ("tests/unit/",)):
            text += read(path)
        found = [row for macro in macros for row in rows(source, macro)]
        if len(found) < 20:
            report.add("operations", "%s: only %d rows" % (source,
                                                           len(found)))
        for row in found:
            spelled = r"(?<![\w.])%s(?![\w])" % re.escape(row[1])
            infix = INFIX.get(row[1]) if endings == (".kir",) else None
            if infix and re.search(r"[\w\])] %s [\w(]" % re.escape(infix),
                                   text):
                continue
            if not re.search(spelled, text) and not re.search(
                    r"\b(TIR|KIR)_(OP_|S_|N_|)%s\b" % row[0], text):
                report.add("operations", "%s: %s is in no test"
                           % (source, row[1]))
    report.finish()


if __name__ == "__main__":
    main()
