"""./dev quality [NAME]: measures a figure, appends it to
tests/quality.jsonl and writes docs/quality.md from that file. Without NAME
only the page is written. No figure is typed by hand.

  cases      distinct tests and results of a whole run
  programs   random programs compared, disagreements, by engine
  lines      lines of tests and of the product, skips"""
import datetime
import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
STORE = os.path.join(ROOT, "tests", "quality.jsonl")
PAGE = os.path.join(ROOT, "docs", "quality.md")
RUNNER = [sys.executable, "-B", os.path.join(ROOT, "tests", "tdtest.py"),
          "--build", os.environ.get("DEV_BUILD_DIR",
                                    os.path.join(ROOT, "build"))]
PRODUCT = ("include", "runtime", "ir", "frontend", "passes", "codegen",
           "driver", "stdlib")


def last_line(arguments):
    """(passed, failed, skipped) of one run of the suite."""
    done = subprocess.run(RUNNER + arguments, stdout=subprocess.PIPE,
                          text=True)
    line = done.stdout.strip().split("\n")[-1]
    return [int(n) for n in re.findall(r"\d+", line)]


def count_lines(folders, endings):
    total = 0
    for top in folders:
        for folder, below, names in os.walk(os.path.join(ROOT, top)):
            below[:] = [b for b in below if b not in ("data", "vectors",
                                                      "oracle")]
            for name in names:
                if name.endswith(endings):
                    with open(os.path.join(folder, name), "rb") as f:
                        total += f.read().count(b"\n")
    return total


def cases():
    passed, failed, skipped = last_line([])
    return {"passed": passed, "failed": failed, "skipped": skipped}


def programs():
    passed, failed, skipped = last_line(["oracle", "--seeds", "2000"])
    return {"seeds": "0..1999", "agreements": passed,
            "disagreements": failed, "counted apart": skipped}


def lines():
    code = count_lines(PRODUCT, (".c", ".h", ".l", ".y", ".def", ".tdsl"))
    tests = count_lines(("tests",), (".c", ".h", ".py", ".tdsl", ".tir",
                                     ".kir", ".plan", ".txt"))
    return {"product": code, "tests": tests,
            "ratio": round(tests / max(code, 1), 2)}


FIGURES = {"cases": cases, "programs": programs, "lines": lines}


def measure(name):
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short=12",
                             "HEAD"], capture_output=True,
                            text=True).stdout.strip()
    row = {"name": name, "date": datetime.date.today().isoformat(),
           "commit": commit, "value": FIGURES[name]()}
    with open(STORE, "a") as f:
        f.write(json.dumps(row) + "\n")
    print(json.dumps(row))


def write_page():
    rows = {}
    if os.path.exists(STORE):
        with open(STORE) as f:
            for line in f:
                row = json.loads(line)
                rows[row["name"]] = row
    text = ("<!-- Written by tests/harness/quality.py; do not edit. -->\n\n"
            "# Figures\n\n`./dev quality NAME` measures one.\n\n"
            "| figure | value | date | commit |\n|---|---|---|---|\n")
    today = datetime.date.today()
    for name in sorted(rows):
        row = rows[name]
        age = (today - datetime.date.fromisoformat(row["date"])).days
        value = ", ".join("%s %s" % (v, k) for k, v in row["value"].items())
        text += "| %s | %s | %s%s | %s |\n" % (
            name, value, row["date"], " (stale)" if age > 30 else "",
            row["commit"])
    with open(PAGE, "w") as f:
        f.write(text)


def main():
    names = sys.argv[1:]
    for name in names:
        if name not in FIGURES:
            print("no figure %s; there are %s"
                  % (name, ", ".join(sorted(FIGURES))), file=sys.stderr)
            return 2
        measure(name)
    write_page()
    return 0


if __name__ == "__main__":
    sys.exit(main())
