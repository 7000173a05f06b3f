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
sys.path.insert(0, HERE)
from _tree import rows  # noqa: E402
import sim_words  # noqa: E402

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


def worded(source, macro, column, words):
    """Rows of a table in its order, each with its sentence."""
    found = rows(source, macro)
    names = [row[column] for row in found]
    wrong = ["%s has no sentence in docs/sim_words.py" % n for n in names
             if n not in words]
    wrong += ["docs/sim_words.py: %s has no row in %s" % (n, source)
              for n in words if n not in names]
    if wrong:
        raise SystemExit("\n".join(wrong))
    return [(row, words[row[column]]) for row in found]


def power(number, unit):
    return "%g %s" % (int(number.rstrip("ul")) / {"KiB": 2 ** 10,
                      "MiB": 2 ** 20, "GiB": 2 ** 30}[unit], unit)


def simulated_gpu():
    folder = "runtime/simgpu/"
    machines = [(
        "`sim:%s`" % key, "%.1f" % (int(cc) / 10),
        "sm_%s%s" % (top, ", sm_%sa" % a if a != "0" else ""), sms, warps,
        ctas, regs, power(shared, "KiB"), power(block, "KiB"),
        power(l2, "MiB"), "%.0f GiB" % (int(memory.rstrip("ul")) / 2 ** 30),
        cluster if cluster != "0" else "none")
        for key, _, cc, top, a, sms, warps, ctas, regs, shared, block, l2,
        memory, cluster, *_ in rows(folder + "sim_device.def", "SIM_DEVICE")]
    checks = [("`%s`" % row[1], row[2] if row[2] != "0" else "-",
               row[3].replace("SIM_CHECK_", "").lower().replace("0", "-"),
               words) for row, words in worded(
                   folder + "checks.def", "SIM_CHECK", 1, sim_words.CHECKS)]
    counters = [("`%s`" % row[1], trust, words)
                for row, (trust, words) in worded(
                    folder + "counters.def", "SIM_COUNTER", 1,
                    sim_words.COUNTERS)]
    classes = ["`%s`" % row[1]
               for row in rows(folder + "counters.def", "SIM_CLASS")]
    forms = rows(folder + "ptx_ops.def", "SIM_OP")
    bases = sorted({row[0] for row in forms})
    calls = [row[1] for row in rows(folder + "sim_cuda.def", "SIM_CU")]
    absent = rows(folder + "sim_missing.def", "SIM_CU_MISSING")
    return NOTE % folder + """
# The simulated GPU: machines, checks, counters

`../simulated-gpu.md` explains them.

## Machines

Limits of one SM, if not said otherwise; a block's shared memory is what it may
ask for. A module's target may be the one named or any lower one.

%s
## Checks

`result` is what the driver returns for the launch (700 illegal address, 702
time-out, 715 illegal instruction, 716 misaligned, 717 wrong space, 719 launch
failed), `family` the word of `TDSL_SIM_CHECK`.

%s
## Counters

%s
Classes of the instruction mix: %s.

## Instructions

%d forms of %d instructions: %s.

## Driver functions

%d are simulated: %s. %d further ones are exported, say their name once and
return 801.
""" % (table(("machine", "capability", "PTX targets", "SMs", "warps", "blocks",
              "registers", "shared", "of a block", "L2", "memory",
              "largest cluster"), machines),
       table(("check", "result", "family", "reports"), checks),
       table(("counter", "trust", "is"), counters), ", ".join(classes),
       len(forms), len(bases), " ".join("`%s`" % b for b in bases),
       len(calls), " ".join("`%s`" % c for c in calls), len(absent))


PAGES = {"simulated-gpu.md": simulated_gpu,
         "errors.md": errors, "knobs.md": knobs, "operations.md": operations,
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
