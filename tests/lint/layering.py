"""Who may include whom: every include of the tree against one table. The
build hides other folders' headers as well; this also covers what a compiler
cannot see, such as files left out of a configuration."""
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from _tree import ROOT, Report, files, read, without_comments  # noqa: E402

BASE, PLAN, HAL = "runtime/base", "runtime/plan", "runtime/hal"
DEVICE = [BASE, PLAN, HAL, "runtime/coll/coll.h"]
SIM = ["runtime/cuda/cuda_types.h", "runtime/coll/nccl_types.h"]
ALL = [""]

# Longest folder first; entries are folders or single headers. <tdsl/...> is
# open to everybody.
TABLE = (
    ("include/tdsl", []),
    ("runtime/base", []),
    ("runtime/io", [BASE]),
    ("runtime/plan", [BASE]),
    ("runtime/hal", DEVICE),
    ("runtime/null", DEVICE),
    ("runtime/cpu", DEVICE),
    ("runtime/cuda", DEVICE),
    ("runtime/coll", DEVICE),
    ("runtime/mpi", DEVICE),
    ("runtime/simgpu", [BASE] + SIM),
    ("runtime/serve", [BASE, PLAN, HAL, "runtime/io"]),
    ("ir", [BASE]),
    ("frontend", ["ir", BASE]),
    ("passes", ["ir", BASE, PLAN]),
    ("codegen", ["ir", BASE, PLAN]),
    ("driver/api", ALL),
    ("driver/cmd_opt", ALL),
    ("driver/cmd_replay", ALL),
    ("driver", []),
    ("examples", []),
    ("tests/api", []),
    ("tests/simgpu", SIM),
    ("tests", ALL),
    ("bench", ALL),
)

# Foreign headers and the only places for them.
FOREIGN = (
    (r"llvm-c/|llvm/", ("codegen/llvm/", "runtime/cpu/cpu_orc")),
    (r"jansson\.h|pcre2", ("runtime/io/",)),
    (r"mpi\.h", ("runtime/mpi/",)),
    (r"hwloc", ("runtime/cpu/cpu_pool.c",)),
    (r"xxhash\.h", ("runtime/hal/cache_file.c", "codegen/kernel_key.c",
                    "runtime/plan/bundle.c")),
    (r"cuda(_runtime)?\.h|nvrtc|nccl\.h|cublas|cudnn", ()),
    (r"cmocka\.h", ("tests/",)),
    (r"cblas|openblas|mpfr", ("bench/", "tests/")),
)

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)
GENERATED = ("frontend/tdsl.tab.h", "frontend/tdsl.lex.h",
             "driver/build_info.h", "driver/emitter_id.h")


def row_of(path):
    """The table row of a file, by the longest prefix."""
    best = None
    for folder, allowed in TABLE:
        exact = folder.startswith("driver/")
        inside = path.startswith(folder if exact else folder + "/")
        if inside and (best is None or len(folder) > len(best[0])):
            best = (folder, allowed)
    return best


def allowed(path, target):
    row = row_of(path)
    if row is None:
        return False
    folder, entries = row
    # driver's own headers: everything in driver/ may read them
    own = "driver/" if folder.startswith("driver") else folder + "/"
    if target.startswith(own):
        return True
    for entry in entries:
        if entry == "" or target == entry or target.startswith(entry + "/"):
            return True
    return False


def main():
    report = Report("folders", "foreign", "form")
    sources = files((".c", ".h", ".def", ".l", ".y"))
    for path in sources:
        text = without_comments(read(path))
        for m in INCLUDE.finditer(text):
            line = text.count("\n", 0, m.start()) + 1
            where = "%s:%d: %s" % (path, line, m.group(2))
            target = m.group(2)
            if m.group(1) == "<" or not os.path.exists(
                    os.path.join(ROOT, target)):
                for rx, places in FOREIGN:
                    if re.match(rx, target) and not path.startswith(places):
                        report.add("foreign", where + " is not for this file")
            if m.group(1) == "<":
                continue
            if not os.path.exists(os.path.join(ROOT, target)):
                beside = os.path.join(ROOT, os.path.dirname(path), target)
                fixture = path.startswith(("tests/", "bench/"))
                if target not in GENERATED and not (
                        fixture and os.path.exists(beside)):
                    report.add("form", where + " is not written from the root")
                continue
            if target.startswith("include/"):
                report.add("form", where + " is written <tdsl/...>")
            elif not allowed(path, target):
                report.add("folders", where + " is no business of "
                           + os.path.dirname(path))
    for path in sources:
        top = path.split("/")[0]
        if row_of(path) is None and top not in ("docs", "cmake"):
            report.add("folders", path + " is in no row of the table")
    report.finish()


if __name__ == "__main__":
    main()
