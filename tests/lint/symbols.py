"""What the built libraries export. libtdsl.so exports exactly tdsl.map and
the simulated GPU only the drivers' names and its own; in the static
library every external symbol starts with the prefix of its folder, so that
a host can link it beside anything."""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from _tree import BUILD, ROOT, Report  # noqa: E402

# Registered prefixes by target. tdsl_ is the public API.
PREFIXES = {
    "runtime_base": ("td_", "tdsl_"),
    "runtime_io": ("io_",),
    "runtime_plan": ("plan_",),
    "runtime_hal": ("hal_",),
    "runtime_null": ("rnull_",),
    "runtime_cpu": ("rcpu_",),
    "ir": ("ix_", "tir_", "kir_", "led_", "ir_"),
    "frontend": ("ast_", "sem_", "fmt_", "lower_", "lo_", "bind_"),
    "passes": ("pass_", "planner_", "contraction_", "group_", "tensor_",
               "tile_", "flat_", "cascade_"),
    "codegen": ("cg_",),
    "codegen_llvm": ("cgl_",),
    "codegen_cuda": ("cgc_",),
    "runtime_cuda": ("rcuda_",),
    "driver": ("tdsl_", "drv_"),
}
# The sanitizers add their own.
FOREIGN = re.compile(r"^(__?asan|__?ubsan|__?tsan|__odr_asan|__sanitizer|"
                     r"__start_|__stop_|_init$|_fini$|__llvm|__sancov|"
                     r"__covrec|__gcov|\.str|___asan)")


def nm(*arguments):
    out = subprocess.run(["nm"] + list(arguments), capture_output=True,
                         text=True, check=True).stdout
    return [line.split() for line in out.split("\n") if line.strip()]


def map_symbols():
    with open(os.path.join(ROOT, "include", "tdsl", "tdsl.map")) as f:
        text = re.sub(r"/\*.*?\*/|#[^\n]*", "", f.read(), flags=re.S)
    shown = text.split("local:")[0]
    return set(re.findall(r"\b(tdsl_\w+)\s*;", shown))


def main():
    report = Report("exports", "simgpu", "prefixes")
    shared = os.path.join(BUILD, "libtdsl.so")
    if not os.path.exists(shared):
        print("libtdsl.so was not built")
        sys.exit(1)
    exported = {row[-1].split("@")[0]
                for row in nm("-D", "--defined-only", shared)
                if row[-2] != "A"}      # the version node itself
    exported = {s for s in exported if not FOREIGN.match(s)}
    wanted = map_symbols()
    if not wanted:
        report.add("exports", "tdsl.map names no symbol")
    for symbol in sorted(exported - wanted):
        report.add("exports", symbol + " is exported, tdsl.map lacks it")
    for symbol in sorted(wanted - exported):
        report.add("exports", symbol + " is in tdsl.map and not exported")
    driver = os.path.join(BUILD, "libtdsl_simgpu.so")
    if os.path.exists(driver):
        exported = {row[-1].split("@")[0]
                    for row in nm("-D", "--defined-only", driver)}
        for symbol in sorted(s for s in exported if not FOREIGN.match(s)):
            if not re.match(r"cu[A-Z]|p?nccl[A-Z]|simgpu_", symbol):
                report.add("simgpu", symbol + " is exported")
        if len(exported) < 600:
            report.add("simgpu", "only %d names" % len(exported))
    for target, prefixes in PREFIXES.items():
        for folder in (BUILD, os.path.join(BUILD, "driver")):
            library = os.path.join(folder, "libtdsl_%s.a" % target)
            if not os.path.exists(library):
                continue
            for row in nm("-g", "--defined-only", library):
                if len(row) != 3:
                    continue
                symbol = row[2]
                if not FOREIGN.match(symbol) and not symbol.startswith(
                        prefixes):
                    report.add("prefixes", "%s: %s starts with none of %s"
                               % (target, symbol, ", ".join(prefixes)))
    report.finish()


if __name__ == "__main__":
    main()
