"""The example of docs/cuda.md is what the compiler makes of its program: every
line of its texts stands in the dump, in this order; `...` leaves some out."""
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))


def lines(text):
    return [" ".join(line.split()) for line in text.split("\n")
            if line.strip()]


def missing(example, dump):
    """The first line of the example that the dump lacks, or None."""
    at, whole = 0, lines(dump)
    is_free = True
    for line in lines(example):
        if line == "...":
            is_free = True
            continue
        if is_free and line in whole[at:]:
            at = whole.index(line, at) + 1
        elif not is_free and at < len(whole) and whole[at] == line:
            at += 1
        else:
            return line
        is_free = False
    return None


def main():
    with open(os.path.join(ROOT, "docs", "cuda.md"), encoding="utf-8") as f:
        page = f.read()
    program, kir, cuda = re.findall(r"^```\w*\n(.*?)^```", page,
                                    re.S | re.M)[:3]
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "norm.tdsl")
        with open(path, "w", encoding="utf-8") as f:
            f.write(program)
        for name, words, text in (
                ("kir", ["kir", path, "--device", "sim:a100"], kir),
                ("cuda", ["cuda", path], cuda)):
            dump = subprocess.run([os.environ["TDSLC"], "dump"] + words,
                                  capture_output=True, text=True, check=True)
            line = missing(text, dump.stdout)
            print("%s %s" % ("ok" if line is None else "not ok", name))
            if line is not None:
                failed = 1
                print("docs/cuda.md has\n%s\nwhich is not at its place in\n%s"
                      % (line, dump.stdout))
    return failed


if __name__ == "__main__":
    sys.exit(main())
