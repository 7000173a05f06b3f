"""The bounds themselves: an engine that keeps the language is within them,
however it orders its sums, and what is off by a little more is not."""
import math
import os
import random
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import bound                                           # noqa: E402
from tdsl_eval import Program                          # noqa: E402
from tdsl_values import round32, round_narrow          # noqa: E402
from report import expect, finish  # noqa: E402

U = 2.0 ** -24
DRAW = random.Random(5)


def tensor(data, dtype="f32"):
    return {"dtype": dtype, "shape": [len(data)], "data": data}


def of(body, **args):
    """[[v, e], ...] of the result y."""
    head = ", ".join("%s: %s[N]" % (n, a["dtype"])
                     for n, a in sorted(args.items()))
    text = "dyn N <= 4096\nexport fn f(%s) -> y: %s\n" % (head, body)
    with bound.bounds():
        return bound.evaluate(Program("b.tdsl", [], text=text), "f",
                              args)["y"]


def within(values, pairs):
    return not bound.judge({"y": {"data": values}}, {"y": pairs})


def f32s(n, scale=1.0):
    return [round32(DRAW.uniform(-scale, scale)) for _ in range(n)]


# --- sums -----------------------------------------------------------------
X, Y = f32s(257, 3), f32s(257, 3)
DOT = of("f32 { y = sum[i] x[i] * z[i] }", x=tensor(X), z=tensor(Y))
EXACT = math.fsum(x * y for x, y in zip(X, Y))
expect("a sum's value is the exact one", abs(DOT[0][0] - EXACT) < 1e-12)
SIZE = math.fsum(abs(x * y) for x, y in zip(X, Y))
expect("its bound is n u sum |x|", 0.99 * 257 * U * SIZE <= DOT[0][1]
       <= 1.01 * 257 * U * SIZE, DOT)


def folded(order, lanes):
    """In f32, in `lanes` chains that are folded by halves."""
    acc = [0.0] * lanes
    for at, i in enumerate(order):
        acc[at % lanes] = round32(acc[at % lanes] + X[i] * Y[i])
    while len(acc) > 1:
        half = len(acc) // 2
        acc = [round32(a + b) for a, b in zip(acc[:half], acc[half:])]
    return acc[0]


ORDERS = [list(range(257)), list(range(256, -1, -1)),
          sorted(range(257), key=lambda i: X[i] * Y[i])]
expect("any order of its terms is within", all(
    within([folded(o, n)], DOT) for o in ORDERS for n in (1, 4, 16, 64)))
expect("a term less is not", not within(
    [EXACT - X[3] * Y[3]], DOT) and not within([EXACT * 1.001], DOT))
expect("operands rounded to bf16 are not", not within(
    [math.fsum(round_narrow(x, "bf16") * y for x, y in zip(X, Y))], DOT))
expect("NaN is not", not within([math.nan], DOT))

# --- single operations ----------------------------------------------------
ONE = of("f32[N] { y[i] = x[i] / z[i] }", x=tensor(X[:50]), z=tensor(Y[:50]))
RIGHT = [round32(x / y) for x, y in zip(X, Y)][:50]
expect("one rounding is within", within(RIGHT, ONE))
expect("two units are not", not within(
    [r * (1 + 4 * U) for r in RIGHT], ONE))
EXP = of("f32[N] { y[i] = exp(x[i]) }", x=tensor(X))
expect("a function is within its row of the table", within(
    [math.exp(x) * (1 + 1.7 * U) for x in X], EXP) and not within(
         [math.exp(x) * (1 + 1.9 * U) for x in X], EXP))
POISONED = of("f32[N] { y[i] = exp(x[i] + z[i]) }", x=tensor(X[:9]),
              z=tensor(Y[:9]))
expect("errors of operands count", within(
    [math.exp(round32(x + y)) for x, y in zip(X[:9], Y[:9])], POISONED))
NARROW = of("bf16[N] { y[i] = bf16(x[i] * z[i]) }", x=tensor(X[:60]),
            z=tensor(Y[:60]))
STORED = [round_narrow(round32(x * y), "bf16") for x, y in zip(X, Y)][:60]
expect("a store into bf16 is within", within(STORED, NARROW))
expect("the next bf16 but one is not", not within(
    [v * (1 + 2.0 ** -6) for v in STORED], NARROW))
expect("what is exact has no room", of(
    "f32[N] { y[i] = x[i] }", x=tensor([1.5, -2.0])) ==
    [[1.5, 0.0], [-2.0, 0.0]])
HUGE = of("f32[N] { y[i] = 1 / (x[i] - z[i] * z[i]) }",
          x=tensor([round32(Y[0] * Y[0])]), z=tensor(Y[:1]))
expect("a divisor that may be 0 has no bound", HUGE[0][1] == math.inf)

# --- choices --------------------------------------------------------------
TOP = of("f32 { y = max[i] x[i] * z[i] }", x=tensor(X), z=tensor(Y))
expect("a maximum is within", within(
    [max(round32(x * y) for x, y in zip(X, Y))], TOP))
try:
    of("f32[N] { y[i] = if x[i] * z[i] < 0.3 then 1 else 0 }",
       x=tensor([0.1]), z=tensor([round32(3.0)]))
    expect("a comparison too close to call is told", False)
except bound.Undecided:
    expect("a comparison too close to call is told", True)
expect("one that is clear is not", of(
    "f32[N] { y[i] = if x[i] * z[i] < 0.3 then 1 else 0 }",
    x=tensor([0.1]), z=tensor([2.0])) == [[1.0, 0.0]])

# --- the evaluator afterwards ---------------------------------------------
PLAIN = Program("b.tdsl", [], text="export fn f(x: f32[2]) -> y: f32 "
                "{ y = sum[i] x[i] }\n")
expect("it is as before", type(bound.tdsl_values.Var) is type and
       bound.tdsl_values.Var is not bound.Bound and
       bound.tdsl_oracle.run_function(
           PLAIN, "f", {"x": tensor([1.0, 2.0])})[0]["y"]["data"] == [3.0])
finish()
