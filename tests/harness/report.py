"""What script tests (scripts.py) share: their lines of results, their ends, and
what the built tdslc says of its parts."""
import os
import re
import subprocess
import sys
import zlib

DRAW = os.environ.get("TDSL_TEST_DRAW")    # by tdtest.py, for scripts
IS_QUICK = DRAW is not None
FAILED = []
LONGEST = 8000      # characters of a failure's detail
VERSION = []        # what `tdslc version` prints, once a process


def expect(name, truth, detail=""):
    """One result."""
    if truth:
        print("ok " + name)
        return
    FAILED.append(name)
    print("not ok %s\n%s" % (name, str(detail)[-LONGEST:]))


def is_drawn(name, draw):
    """One half of all names for an even number, the other one for an odd
    number; for None every name."""
    return draw is None or (zlib.crc32(name.encode()) ^ int(draw)) % 2 == 0


def drawn(name):
    """Whether a test runs its case of this name. Every case runs with --full,
    with -k, and where a script is started by hand."""
    return is_drawn(name, DRAW)


def finish():
    """The end of a test."""
    sys.exit(1 if FAILED else 0)


def skip(reason):
    """The end of a test that cannot run here."""
    print(reason)
    sys.exit(77)


def lacks(part):
    """Whether tdslc says that this part is not here: nvrtc, llvm, driver."""
    if not VERSION:
        VERSION.append(subprocess.run(
            [os.environ["TDSLC"], "version"], stdin=subprocess.DEVNULL,
            capture_output=True, text=True, check=True).stdout)
    row = re.search(r"(?m)^%s +(.*)$" % part, VERSION[0])
    if not row:
        raise ValueError("tdslc version has no row %r\n%s" % (part,
                                                              VERSION[0]))
    return re.match("not (found|built in)", row.group(1)) is not None


def need(*parts):
    """Skips the test unless all parts are here."""
    for part in parts:
        if lacks(part):
            skip("needs " + part)
