"""The form of hand-written text: 80 columns, blanks, file length, and words
that have no place in it."""
import os
import re
import sys
import unicodedata

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from _tree import ROOT, Report, files, read  # noqa: E402

CODE = (".c", ".h", ".l", ".y", ".def", ".py", ".sh", ".cmake", ".tdsl",
        ".map", "CMakeLists.txt")
SCRIPTS = ("dev", ".ci/run")
COLUMNS, HARD_CAP = 80, 1200
# Sample programs that are kept as their authors wrote them.
SAMPLES = {"nn", "softmax", "attention", "bert", "conv", "gpt_train", "llama",
           "llama_f32",
           "losses", "moe", "pipeline", "quant", "ring_attention",
           "semantics", "tp_mlp", "variants",
           "gpt2", "llama_i8"}  # after llama
# Written in two halves, so that this file does not find itself.
WORDS = [a + b for a, b in (
    (r"\bTO", r"DO\b"), (r"\bFIX", r"ME\b"), (r"\bXX", r"X\b"),
    (r"\bHA", r"CK\b"), (r"(?i)\bplace", r"holder\b"),
    (r"(?i)\bnot yet imple", r"mented\b"), (r"(?i)\bunimple", r"mented\b"),
    (r"/wo", r"rk/"), (r"(?i)\bissue ", r"#?\d+"),
    (r"(?i)\bmile", r"stone\b"), (r"(?i)\bco-auth", r"ored"),
    (r"(?i)\bpypi\.", r"org"), (r"(?i)files\.python", r"hosted"))]
STUB = re.compile(r"(?i)\bst" + r"ub(s|bed)?\b")
# Inputs whose very point is an odd byte or a long line.
ODD = re.compile(r"^tests/(frontend|ir|formats|cli|exec|passes|codegen)/")


def width(line):
    return sum(0 if unicodedata.combining(c) else
               2 if unicodedata.east_asian_width(c) in "WF" else 1
               for c in line)


def is_sample(path):
    name = os.path.splitext(os.path.basename(path))[0]
    return path.endswith(".tdsl") and name in SAMPLES


def main():
    report = Report("columns", "blanks", "length", "words")
    lengths = []
    for path in files():
        if not (path.endswith(CODE) or path in SCRIPTS
                or path.endswith(".md")):
            continue
        text = read(path)
        lines = text.split("\n")
        prose = path.endswith(".md")
        generated = path.startswith("docs/") and "Written by" in text[:400]
        input_file = ODD.match(path) and not path.endswith((".c", ".py",
                                                            ".sh"))
        if not input_file:
            for number, line in enumerate(lines, 1):
                where = "%s:%d" % (path, number)
                if width(line) > COLUMNS and not (
                        prose or is_sample(path) or generated):
                    report.add("columns", "%s: %d columns"
                               % (where, width(line)))
                if (line.endswith((" ", "\t", "\r")) or "\t" in line) and (
                        not prose):
                    report.add("blanks", where)
            if text and not text.endswith("\n"):
                report.add("blanks", path + ": no newline at the end")
        for rx in WORDS:
            for m in re.finditer(rx, text):
                report.add("words", "%s:%d: %s" % (
                    path, text.count("\n", 0, m.start()) + 1, m.group(0)))
        if path.endswith((".c", ".h", ".l", ".y")):
            lengths.append((len(lines), path))
            for m in STUB.finditer(text):
                report.add("words", "%s:%d: %s" % (
                    path, text.count("\n", 0, m.start()) + 1, m.group(0)))
        if len(lines) > HARD_CAP and not (
                path.endswith((".def", ".md")) or input_file):
            report.add("length", "%s: %d lines" % (path, len(lines)))
    lengths.sort()
    if lengths:
        print("median %d lines; above 600: %s" % (
            lengths[len(lengths) // 2][0], ", ".join(
                "%s %d" % (p, n) for n, p in lengths if n > 600) or "none"))
    if not os.path.exists(os.path.join(ROOT, "LICENSE")):
        report.add("words", "LICENSE is missing")
    report.finish()


if __name__ == "__main__":
    main()
