"""Every diagnostic id has a title, a page, a place that reports it and a
test that names it."""
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from _tree import COPIES, ROOT, Report, files, read, rows  # noqa: E402

# Reserved ids: layouts of more than one rank, and caches and files that no
# code of this version opens. Nothing may report them.
RESERVED = {"E20", "E21", "E22", "E24", "E25", "E27", "E28", "E29", "B08",
            "B10", "F71"}


def main():
    report = Report("rows", "reported", "tested", "explained")
    table = rows("runtime/base/diag.def", "TD_DIAG")
    if len(table) < 60:
        report.add("rows", "only %d rows were read" % len(table))
    seen = set()
    product = set()
    rx = re.compile(r"\bTD_([A-Z]\d\d)\b")
    for path in files((".c", ".h", ".l", ".y", ".def"),
                      ("runtime/", "ir/", "frontend/", "passes/", "codegen/",
                       "driver/")):
        if not path.endswith(("diag.def", "diag.h")):
            product.update(rx.findall(read(path)))
    tests = set()
    rx = re.compile(r"\b(?:TD_)?([A-Z]\d\d)\b")
    for path in files(under=("tests/",)):
        if not path.startswith("tests/lint/") and os.path.getsize(
                os.path.join(ROOT, path)) < 1 << 20:
            tests.update(rx.findall(read(path)))
    tests.update(rx.findall(read(COPIES[0] + "errors.json")))
    for row in table:
        if len(row) != 3:
            report.add("rows", "%s: %d fields" % (row[0], len(row)))
            continue
        ident, title, page = row
        if ident in seen or not re.match(r"^[A-Z]\d\d$", ident):
            report.add("rows", ident + " is repeated or no id")
        seen.add(ident)
        if not title or title.endswith(".") or title[:2].istitle():
            report.add("rows", "%s: title %r" % (ident, title))
        if len(page) < 25:
            report.add("explained", "%s has no page" % ident)
        used = ident in product
        if ident in RESERVED:
            if used:
                report.add("reported", ident + " is reserved and reported")
            continue
        if not used:
            report.add("reported", ident + " is never reported")
        if ident not in tests:
            report.add("tested", ident + " occurs in no test")
    report.finish()


if __name__ == "__main__":
    main()
