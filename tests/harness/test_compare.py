"""The comparator and the CHECK matcher against inputs that are wrong in one
place: a judge that accepts everything would pass every other test."""
import copy
import math
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from compare import compare, equal_bits, index_text  # noqa: E402
import filetest  # noqa: E402
from report import expect, finish, is_drawn  # noqa: E402


def tensor(data, shape=None, dtype="f32"):
    return {"dtype": dtype, "shape": [len(data)] if shape is None else shape,
            "data": data}


def wrong(name, got, want, tol=None, exact=False):
    expect("refuses " + name, bool(compare(
        {"y": got}, {"y": want}, {"y": tol} if tol else {}, exact)))


def right(name, got, want, tol=None, exact=False):
    expect("accepts " + name, not compare(
        {"y": got}, {"y": want}, {"y": tol} if tol else {}, exact))


want = tensor([1.0, -2.0, 3.0, 0.0, 5.0, 7.0], [2, 3])
tol = [1e-6, 1e-6]
right("itself", copy.deepcopy(want), want, tol)
for value, name in ((math.nan, "NaN"), ("nan", "nan as text"),
                    (math.inf, "inf"), ("-inf", "-inf"), (3.1, "a value")):
    for position in (0, 5):
        bad = copy.deepcopy(want)
        bad["data"][position] = value
        wrong("%s at %d" % (name, position), bad, want, tol)
shifted = copy.deepcopy(want)
shifted["data"] = shifted["data"][1:] + shifted["data"][:1]
wrong("shifted data", shifted, want, tol)
short = copy.deepcopy(want)
short["data"].pop()
wrong("truncated data", short, want, tol)
wrong("no data", {"dtype": "f32", "shape": [2, 3]}, want, tol)
wrong("empty data", dict(want, data=[]), want, tol)
wrong("another shape", dict(want, shape=[3, 2]), want, tol)
wrong("another dtype", dict(want, dtype="f64"), want, tol)
wrong("a struct for a tensor", {"a": want}, want, tol)
expect("refuses a missing name", bool(compare({}, {"y": want}, {"y": tol})))
expect("refuses a missing field", bool(compare(
    {"y": {"a": want}}, {"y": {"a": want, "b": want}}, {})))

one_ulp = 1.0 + 2.0 ** -23
wrong("one ulp without a bound", tensor([one_ulp]), tensor([1.0]))
right("one ulp within its bound", tensor([one_ulp]), tensor([1.0]),
      [2.0 ** -23, 0])
wrong("just above the bound", tensor([1.0 + 3e-6]), tensor([1.0]), tol)
right("just below the bound", tensor([1.0 + 1.9e-6]), tensor([1.0]), tol)
right("NaN for NaN", tensor(["nan"]), tensor(["nan"]), tol)
wrong("a number for NaN", tensor([0.0]), tensor(["nan"]), tol)
right("inf for inf", tensor(["inf"]), tensor(["inf"]), tol)
wrong("-inf for inf", tensor(["-inf"]), tensor(["inf"]), tol)
wrong("a huge number for inf", tensor([3e38]), tensor(["inf"]), [1e38, 1])
right("zero size", tensor([], [0, 3]), tensor([], [0, 3]), tol)
wrong("another zero size", tensor([], [3, 0]), tensor([], [0, 3]), tol)
right("bool", tensor([True], [], "bool"), tensor([True], [], "bool"))
wrong("1 for true", tensor([1], [], "bool"), tensor([True], [], "bool"))
wrong("false for true", tensor([False], [], "bool"),
      tensor([True], [], "bool"))
wrong("an integer off by one", tensor([7], [], "i64"), tensor([8], [], "i64"))
right("f64 mode at 1e-9", tensor([1.0 + 5e-9]), tensor([1.0]), None, True)
wrong("f64 mode at 1e-7", tensor([1.0 + 1e-7]), tensor([1.0]), None, True)
wrong("bf16 off by one ulp in f64 mode", tensor([1.0078125], [1], "bf16"),
      tensor([1.0], [1], "bf16"), [1, 1], True)
expect("equal_bits sees the sign of zero",
       bool(equal_bits({"y": tensor([-0.0])}, {"y": tensor([0.0])})))
expect("equal_bits accepts itself",
       not equal_bits({"y": want}, {"y": copy.deepcopy(want)}))
expect("an index is row-major", index_text(4, [2, 3]) == "[1, 1]")


# --- CHECK ----------------------------------------------------------------
def matches(text, output):
    try:
        filetest.check_output(text, output, "CHECK")
    except filetest.Failure:
        return False
    return True


OUT = "alpha 1\nbeta   2\ngamma 3\nbeta 4\n"
for name, text, good in (
        ("in order", "// CHECK: alpha\n// CHECK: gamma", True),
        ("out of order", "// CHECK: gamma\n// CHECK: alpha", False),
        ("absent text", "// CHECK: delta", False),
        ("blanks are equal", "// CHECK: beta 2", True),
        ("next line", "// CHECK: alpha\n// CHECK-NEXT: beta", True),
        ("not the next line", "// CHECK: alpha\n// CHECK-NEXT: gamma", False),
        ("same line", "// CHECK: beta\n// CHECK-SAME: 2", True),
        ("not the same line", "// CHECK: alpha\n// CHECK-SAME: 2", False),
        ("forbidden between",
         "// CHECK: alpha\n// CHECK-NOT: beta\n// CHECK: gamma", False),
        ("absent between",
         "// CHECK: alpha\n// CHECK-NOT: delta\n// CHECK: gamma", True),
        ("forbidden to the end", "// CHECK: gamma\n// CHECK-NOT: beta",
         False),
        ("a regular expression", "// CHECK: alpha {{[0-9]+}}", True),
        ("a capture", "// CHECK: alpha [[N:\\d]]\n// CHECK-NOT: beta [[N]]",
         True),
        ("a capture that recurs", "// CHECK: beta [[N:\\d]]\n"
         "// CHECK: gamma [[N]]", False),
        ("metacharacters are text", "// CHECK: alph.", False)):
    expect("CHECK " + name, matches(text, OUT) == good)


def announced(text, output):
    try:
        filetest.check_expectations(filetest.expectations(text),
                                    filetest.reports(output))
    except filetest.Failure:
        return False
    return True


REPORT = "a.tdsl:2:5: error[E06]: dims do not match\n"
for name, text, good in (
        ("the right line", "x\ny //! error[E06]", True),
        ("the wrong line", "x //! error[E06]\ny", False),
        ("another id", "x\ny //! error[E08]", False),
        ("nothing expected", "x\ny", False),
        ("one too many", "x\ny //! error[E06]\n//! error[E06]", False),
        ("part of the text", "x\ny //! error[E06] dims do not", True),
        ("another text", "x\ny //! error[E06] shapes", False),
        ("a relative line", "x\ny\n//! error[E06]@-1", True)):
    expect("error line: " + name, announced(text, REPORT) == good)

for half in (0, 1, 6):
    expect("half %d is about a half" % half, 400 < sum(
        is_drawn("case %d" % i, half) for i in range(1000)) < 600)
expect("two halves are all", all(
    is_drawn("case %d" % i, 0) != is_drawn("case %d" % i, "1")
    for i in range(99)))
expect("none is everything", all(
    is_drawn("case %d" % i, None) for i in range(99)))
finish()
