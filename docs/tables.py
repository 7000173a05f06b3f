#!/usr/bin/env python3
"""Writes the reference tables of docs/reference from the .def files.

  python3 docs/tables.py            write them
  python3 docs/tables.py --check    say which are not current, exit status 1
"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "tests", "lint"))
from _tree import rows  # noqa: E402

OUT = os.path.join(HERE, "reference")
NOTE = "<!-- Written by docs/tables.py from %s; do not edit. -->\n"


def cell(text):
    return str(text).replace("|", "\\|").replace("\n", " ")


def table(head, body):
    lines = ["| " + " | ".join(head) + " |",
             "|" + "|".join("---" for _ in head) + "|"]
    lines += ["| " + " | ".join(cell(c) for c in row) + " |" for row in body]
    return "\n".join(lines) + "\n"


def errors():
    source = "runtime/base/diag.def"
    text = NOTE % source + """
# Error index

`tdslc explain ID` prints a page of this index. `P` is syntax, `E` names,
ranges, dims, dtypes, binding and layouts, `L` limits, `R` run time, `W`
warnings, `B` back ends and environment, `F` file formats. Ids are stable.
"""
    for ident, title, page in rows(source, "TD_DIAG"):
        text += "\n## %s: %s\n" % (ident, title)
        if page:
            text += "\n%s\n" % page.strip()
    return text


def knobs():
    source = "runtime/base/env.def"
    body = [("`TDSL_%s`" % i, kind.lower(), "`%s`" % value if value else "",
             level, "yes" if int(effect) else "no", sentence)
            for i, kind, value, level, effect, sentence
            in rows(source, "TD_ENV")]
    return NOTE % source + """
# Knobs

Environment variables, each with an equivalent flag and API setting;
`tdslc doctor` lists them with their values.

""" + table(("variable", "type", "default", "for", "changes output",
             "meaning"), body)


def operations():
    text = NOTE % "ir/tir_ops.def and ir/kir_ops.def" + "\n# Operations\n"
    for title, source, macros in (
            ("Tensor IR: nodes", "ir/tir_ops.def", ("TIR_NODE",)),
            ("Tensor IR: scalars", "ir/tir_ops.def", ("TIR_SCALAR",)),
            ("Kernel IR: statements", "ir/kir_ops.def", ("KIR_STMT",)),
            ("Kernel IR: scalars", "ir/kir_ops.def", ("KIR_SCALAR",))):
        body = [("`%s`" % row[1], row[-1])
                for macro in macros for row in rows(source, macro)]
        text += "\n## %s\n\n" % title + table(("text", "meaning"), body)
    return text


def passes():
    source = "passes/passes.def"
    found = rows(source, "PASS")
    if not found:
        return None
    body = [("`%s`" % name, level, numerics.lower(),
             "yes" if optional == "true" else "no", sentence)
            for _, name, level, numerics, optional, sentence in found]
    return NOTE % source + """
# Passes

`TDSL_DISABLE_PASS=NAME,NAME` leaves out optional ones; the answer may change
only within the numerics class.

""" + table(("pass", "level", "numerics", "optional", "does"), body)


def remarks():
    source = "passes/remarks.def"
    body = [("`%s`" % name, kind.lower(), sentence)
            for _, name, kind, sentence in rows(source, "REMARK")]
    return NOTE % source + """
# Remarks

What `tdslc explain FILE` says of the passes' decisions: `done` was made,
`refused` was looked at and not made, `note` is a choice among equals.

""" + table(("code", "kind", "meaning"), body)


PAGES = {"errors.md": errors, "knobs.md": knobs, "operations.md": operations,
         "passes.md": passes, "remarks.md": remarks}


def main():
    stale = []
    for name, make in PAGES.items():
        text = make()
        path = os.path.join(OUT, name)
        if text is None:
            continue
        try:
            with open(path, encoding="utf-8") as f:
                same = f.read() == text
        except OSError:
            same = False
        if same:
            continue
        stale.append(name)
        if "--check" not in sys.argv[1:]:
            os.makedirs(OUT, exist_ok=True)
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
            print("wrote docs/reference/" + name)
    if "--check" in sys.argv[1:] and stale:
        print("not current: %s; run python3 docs/tables.py"
              % ", ".join(stale))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
