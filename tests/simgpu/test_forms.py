"""Every row of ptx_ops.def is loaded by some test of this folder. The test
programs leave behind which forms their kernels used; those that have not run
since the library was built are run here."""
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(HERE)
sys.path.insert(0, os.path.join(TESTS, "lint"))
sys.path.insert(0, os.path.join(TESTS, "harness"))
import environment  # noqa: E402
from _tree import BUILD  # noqa: E402
from report import skip  # noqa: E402

LIBRARY = os.path.join(BUILD, "libtdsl_simgpu.so")


# Texts that are damaged at random prove nothing about a form; those of NVRTC
# that run in children which end at once leave no list.
NOT_COUNTED = ("simgpu_hostile", "simgpu_cu_async", "simgpu_cu_gemm",
               "simgpu_cu_library")
# What tests calls of the driver or of NCCL leaves none either.
CALLS = re.compile(r'#include "(driver|nccl(_procs)?)_lab\.h"')


def all_forms():
    """Every row, as the library writes it."""
    import ctypes
    library = ctypes.CDLL(LIBRARY)
    library.simgpu_forms_count.restype = ctypes.c_size_t
    out, text = [], ctypes.create_string_buffer(256)
    for i in range(library.simgpu_forms_count()):
        library.simgpu_forms_get(ctypes.c_size_t(i), text,
                                 ctypes.c_size_t(256))
        out.append(text.value.decode()[2:])
    return out


def leaves_forms(program):
    """Whether the program is one that leaves its list behind."""
    path = os.path.join(HERE, program.replace("simgpu_", "test_", 1) + ".c")
    with open(path, encoding="utf-8") as f:
        text = f.read()
    return program not in NOT_COUNTED and not CALLS.search(text)


def main():
    if environment.Environment(os.path.dirname(TESTS), BUILD).slow():
        skip("a library with sanitizers cannot be opened by Python")
    programs = [os.path.splitext(n)[0].replace("test_", "simgpu_", 1)
                for n in sorted(os.listdir(HERE))
                if n.startswith("test_") and n.endswith(".c")]
    programs = [p for p in programs if leaves_forms(p)]
    used, skipped = set(), False
    built = os.path.getmtime(LIBRARY)
    for program in programs:
        left = os.path.join(BUILD, "tests", "forms", program + ".txt")
        if not os.path.exists(left) or os.path.getmtime(left) < built:
            if os.path.exists(left):
                os.remove(left)
            run = subprocess.run([os.path.join(BUILD, "tests", program)],
                                 capture_output=True, text=True, check=False)
            skipped |= "SKIPPED" in run.stdout + run.stderr
        if os.path.exists(left):
            with open(left, encoding="utf-8") as f:
                used |= set(f.read().split("\n"))
    forms = all_forms()
    if len(forms) < 300:
        print("only %d forms" % len(forms))
        sys.exit(1)
    missing = [f for f in forms if f not in used]
    if missing and skipped:
        skip("needs nvrtc for %d forms" % len(missing))
    if missing:
        print("not used by any test:\n  " + "\n  ".join(missing))
        sys.exit(1)


if __name__ == "__main__":
    main()
