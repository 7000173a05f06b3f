"""What the lints share: the files of the tree and how results are printed."""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
BUILD = os.environ.get("TDSL_TEST_BUILD", os.path.join(ROOT, "build"))

# Copies that are kept unchanged, and folders that are not source text.
COPIES = ("tests/vectors/", "tests/oracle/")
FOLDERS = ("include", "runtime", "ir", "frontend", "passes", "codegen",
           "driver", "stdlib", "examples", "bench", "tests", "docs", "cmake",
           ".ci")
TOP = ("CMakeLists.txt", "CMakePresets.json", "README.md", "dev",
       ".clang-format", ".editorconfig", ".gitignore")
PRODUCT = ("include/", "runtime/", "ir/", "frontend/", "passes/", "codegen/",
           "driver/", "stdlib/")


def files(extensions=None, under=None):
    """Paths relative to the root, sorted; without the unchanged copies."""
    out = [name for name in TOP if os.path.exists(os.path.join(ROOT, name))]
    for top in FOLDERS:
        for folder, below, names in os.walk(os.path.join(ROOT, top)):
            below[:] = sorted(b for b in below
                              if b not in ("__pycache__", "data", "weights"))
            for name in names:
                path = os.path.relpath(os.path.join(folder, name), ROOT)
                out.append(path.replace(os.sep, "/"))
    out = sorted(p for p in out if not p.startswith(COPIES))
    if extensions:
        out = [p for p in out if p.endswith(tuple(extensions))]
    if under:
        out = [p for p in out if p.startswith(tuple(under))]
    return out


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8",
              errors="surrogateescape", newline="") as f:
        return f.read()


def without_comments(text):
    """C text with comments blanked; strings and line numbers stay."""
    rx = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
                    r"|/\*.*?\*/|//[^\n]*", re.S)

    def keep(m):
        piece = m.group(0)
        if piece.startswith("/"):
            return "\n" * piece.count("\n") + " "
        return piece
    return rx.sub(keep, text)


def rows(path, macro):
    """The argument texts of every MACRO(...) row of a .def file."""
    if not os.path.exists(os.path.join(ROOT, path)):
        return []
    text = without_comments(read(path))
    out = []
    for m in re.finditer(r"^%s\(" % macro, text, re.M):
        depth, at, quoted, piece, args = 1, m.end(), False, "", []
        while depth and at < len(text):
            c = text[at]
            if quoted:
                if c == "\\":
                    piece += c
                    at += 1
                    c = text[at]
                elif c == '"':
                    quoted = False
            elif c == '"':
                quoted = True
            elif c in "([{":
                depth += 1
            elif c in ")]}":
                depth -= 1
            if c == "," and depth == 1 and not quoted:
                args.append(piece)
                piece = ""
            elif depth:
                piece += c
            at += 1
        args.append(piece)
        out.append([string(a.strip()) for a in args])
    return out


def string(text):
    """A C string literal, or several beside each other, as its value."""
    parts = re.findall(r'"((?:\\.|[^"\\])*)"', text)
    if not parts:
        return text
    escapes = {"n": "\n", "t": "\t", '"': '"', "\\": "\\"}
    return re.sub(r"\\(.)", lambda m: escapes.get(m.group(1), m.group(0)),
                  "".join(parts))


class Report:
    """Collects findings by rule; one result line a rule."""

    def __init__(self, *rules):
        self.found = {rule: [] for rule in rules}

    def add(self, rule, text):
        self.found[rule].append(text)

    def finish(self):
        failed = False
        for rule, lines in self.found.items():
            print("%s %s" % ("not ok" if lines else "ok", rule))
            for line in lines[:60]:
                print("  " + line)
            if len(lines) > 60:
                print("  ... and %d more" % (len(lines) - 60))
            failed |= bool(lines)
        sys.exit(1 if failed else 0)
