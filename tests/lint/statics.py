"""No mutable state at file scope: nothing of the library lies in a writable
section. Tables of pointers lie in .data.rel.ro, which the loader makes
read-only, and are fine. The simulated GPU has one root, since the driver's
interface has no handle to hang it on."""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from _tree import BUILD, Report  # noqa: E402

WRITABLE = re.compile(r"^(\.data|\.bss|\.tdata|\.tbss|\*COM\*|\.sdata)")
# Bookkeeping of the sanitizers and of coverage, not ours.
FOREIGN = re.compile(r"asan|ubsan|tsan|sancov|gcov|^\.L|^\.|llvm|__profc")
# The root as gcc and as clang name an object of a function.
ROOT_OBJECT = re.compile(r"^(sim_state\.)?root(\.\d+)?$|^completed\.\d+$"
                         r"|^__dso_handle$|^__TMC_END__$"
                         r"|^__cpu_(model|features2)$")


def look(report, rule, library, allowed):
    """Adds the writable objects of a library; the symbols seen."""
    out = subprocess.run(["objdump", "-t", library], capture_output=True,
                         text=True, check=True).stdout
    member, symbols = "", 0
    for line in out.split("\n"):
        if ":     file format" in line:
            member = line.split(":")[0]
        m = re.match(r"^[0-9a-f]{8,16} (.{7}) (\S+)\s+([0-9a-f]+) (.*)$",
                     line)
        if not m:
            continue
        symbols += 1
        flags, section, size, name = m.groups()
        name = name.replace(".hidden ", "").strip()
        if "O" not in flags and section != "*COM*":
            continue
        if section.startswith(".data.rel.ro") or int(size, 16) == 0:
            continue
        if WRITABLE.match(section) and not FOREIGN.search(name) and not (
                allowed and allowed.match(name)):
            report.add(rule, "%s: %s is writable (%s)"
                       % (member, name, section))
    if symbols < 50:
        report.add(rule, "only %d symbols were seen" % symbols)


def main():
    report = Report("statics", "simgpu")
    library = os.path.join(BUILD, "libtdsl.a")
    if not os.path.exists(library):
        print("libtdsl.a was not built")
        sys.exit(1)
    look(report, "statics", library, None)
    driver = os.path.join(BUILD, "libtdsl_simgpu.so")
    if os.path.exists(driver):
        look(report, "simgpu", driver, ROOT_OBJECT)
    report.finish()


if __name__ == "__main__":
    main()
