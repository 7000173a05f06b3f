"""./dev quality [NAME]: measures a figure, appends it to
tests/quality.jsonl and writes docs/quality.md from that file. Without NAME
only the page is written. No figure is typed by hand.

  cases      distinct tests and results of a whole run
  programs   random programs compared, disagreements, by engine
  bounds     how much of its computed bound the worst element takes, by type
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


def bounds(seeds=400):
    """Scores |got - v| / e of the CPU over random programs: of each result
    its worst element, then the worst and the median of these, by type."""
    sys.path.insert(0, HERE)
    import bound
    import programs as random_programs
    import vectors
    from environment import Environment
    env = Environment(ROOT, RUNNER[4])
    folder = random_programs.store(env)
    found, undecided = {}, 0
    for seed in range(seeds):
        case = random_programs.draw(env, seed, folder)
        if random_programs.uses_grad(case):
            continue
        want = random_programs.bounds_of(env, seed, case, folder)
        if want is None:
            undecided += 1
            continue
        with env.scratch() as scratch:
            source = os.path.join(scratch, "f.tdsl")
            with open(source, "w", encoding="utf-8") as f:
                f.write(case["source_text"])
            try:
                got, _ = vectors.run_once(env, source, case, case["args"],
                                          "cpu", scratch)
            except RuntimeError:        # not provable
                continue
        for name in want:
            scores = []
            lines = bound.judge(got, {name: want[name]}, scores)
            if lines:
                raise SystemExit("seed %d: %s" % (seed, "\n".join(lines)))
            if any(len(p) > 1 and p[1] for p in want[name]):
                found.setdefault(got[name]["dtype"], []).append(scores[0])
    out = {"seeds": "0..%d" % (seeds - 1), "undecided": undecided}
    for dtype in sorted(found):
        scores = sorted(found[dtype])
        out[dtype] = "worst %.2f, median %.2f of %d" % (
            scores[-1], scores[len(scores) // 2], len(scores))
    return out


FIGURES = {"cases": cases, "programs": programs, "lines": lines,
           "bounds": bounds}


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
