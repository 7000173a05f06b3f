"""How far a correct engine may be from the exact value, element by element.

The evaluator of tests/oracle runs in f64 with a number in place of every float
that carries (v, e): the value, and a bound on the distance of any engine that
follows the language from it. The bounds are those of one rounding an
operation, of any order of a sum's terms (its longest path is all of them, one
after another), of the function table ir/tolerance.def, and of the stores into
narrow types. Comparisons and roundings to integers whose operands are too near
to tell are counted: such a case decides nothing.

The evaluator itself knows numbers with derivatives; these take their place."""
import contextlib
import math
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ORACLE = os.path.join(os.path.dirname(HERE), "oracle")
TABLE = os.path.join(os.path.dirname(os.path.dirname(HERE)), "ir",
                     "tolerance.def")
if ORACLE not in sys.path:
    sys.dont_write_bytecode = True
    sys.path.insert(0, ORACLE)
import tdsl_eval                                   # noqa: E402
import tdsl_oracle                                 # noqa: E402
import tdsl_values                                 # noqa: E402
from tdsl_values import FUNCTIONS, Tensor, kind, round32  # noqa: E402

UNIT = {"f": 2.0 ** -24, "d": 2.0 ** -53}
# one rounding, and half the smallest number above zero
STORE = {"f32": (2.0 ** -24, 2.0 ** -150), "f16": (2.0 ** -11, 2.0 ** -25),
         "bf16": (2.0 ** -8, 2.0 ** -134), "f8e4m3": (2.0 ** -4, 2.0 ** -10),
         "f8e5m2": (2.0 ** -3, 2.0 ** -17)}
EXACT = ("abs", "floor", "ceil", "round")
TINY = 2.0 ** -126      # a function's subnormal result may be 0


def function_table():
    """{name: {"f": k, "d": k}}: errors in units of one rounding."""
    with open(TABLE, encoding="utf-8") as f:
        rows = re.findall(r"TOLERANCE_FUNCTION\((\w+), ([\d.]+), ([\d.]+)\)",
                          f.read())
    return {name.lower(): {"f": float(a), "d": float(b)}
            for name, a, b in rows}


FACTOR = function_table()


class Undecided(Exception):
    """A choice between values that an engine may see the other way round."""


class Bound:
    """v, with e >= |engine - v|. A sum remembers the bounds of its terms
    (base), their magnitudes (s) and their number (n); what was stored, the
    type (dt), in which it is stored again as it is."""
    __slots__ = ("v", "e", "base", "s", "n", "dt", "parents", "g")

    def __init__(self, v, parents=()):
        self.v, self.parents, self.g = v, (), 0.0
        self.base = self.s = 0.0
        self.n, self.dt = 0, None
        self.e = sum(abs(d) * p.e for p, d in parents if p.e)

    def history(self):
        if self.n:
            return self.base, self.s, self.n
        return self.e, abs(self.v) + self.e, 0


def raw(x):
    return x.v if type(x) is Bound else x


def error(x, k):
    """Of an operand in arithmetic of kind k; constants are rounded to f32."""
    if type(x) is Bound:
        return x.e
    if k == "f" and isinstance(x, float) and math.isfinite(x):
        return abs(x - round32(x))
    return 0.0


def history(x, k):
    if type(x) is Bound:
        return x.history()
    e = error(x, k)
    return e, abs(float(x)) + e, 0


def loose(v, e):
    """A number that is v up to e; as it is where that is nothing."""
    if not e or not math.isfinite(v):
        return v
    b = Bound(v)
    b.e = e
    return b


def is_float(k):
    return k in UNIT


def set_error(r, e):
    """NaN and the infinities are a class of their own; no bound is known
    where one of infinity met a zero."""
    r.e = 0.0 if not math.isfinite(raw(r)) else e if e == e else math.inf
    return r


def added(r, acc, term, size):
    """r = acc + a term whose own error is `term` and whose size `size`."""
    k = kind(r)
    base, s, n = history(acc, k)
    r.base, r.s, r.n = base + term, s + size, n + 1
    return set_error(r, r.base + r.n * UNIT[k] * r.s)


def make(old):
    """The operations of the evaluator, with bounds; old: as they were."""
    def arith(op, a, b):
        r = old["arith"](op, a, b)
        k = kind(r)
        if not is_float(k):
            return r
        if type(r) is not Bound:
            return loose(r, error(r, k))
        x, y = float(raw(a)), float(raw(b))
        ea, eb, unit = error(a, k), error(b, k), UNIT[k]
        if op in "+-":
            return added(r, a, eb, abs(y) + eb)
        if op == "*":
            return set_error(r, abs(x) * eb + abs(y) * ea + ea * eb
                             + unit * abs(r.v))
        if not abs(y) > eb:
            return set_error(r, math.inf)
        return set_error(r, (ea + abs(r.v) * eb) / (abs(y) - eb)
                         + unit * abs(r.v))

    def multiply_add(acc, a, b):
        r = old["multiply_add"](acc, a, b)
        k = kind(r)
        if k != "f":
            return r            # made of the two operations above
        if type(r) is not Bound:
            return loose(r, error(r, k))
        x, y = float(raw(a)), float(raw(b))
        ea, eb = error(a, k), error(b, k)
        term = abs(x) * eb + abs(y) * ea + ea * eb
        return added(r, acc, term, abs(x * y) + term)

    def function1(name, a):
        r = old["function1"](name, a)
        k = kind(r)
        if not is_float(k):
            return r
        v, e = float(raw(a)), error(a, k)
        unit = UNIT[k] * FACTOR.get(name, {"f": 1, "d": 1})[k]
        own = 0.0 if name in EXACT else unit * abs(raw(r)) + TINY
        if type(r) is not Bound:
            return loose(r, own)
        if name in ("sin", "cos"):
            return set_error(r, e + own)
        far = 0.0
        for at in (v - e, v + e) if e else ():
            try:
                d = abs(FUNCTIONS[name][0](at) - r.v)
            except (ValueError, OverflowError):
                d = math.inf
            far = max(far, d if d == d else math.inf)
        return set_error(r, far * (1 + 2.0 ** -40) + own)

    def power(a, n, const_exponent):
        r = old["power"](a, n, const_exponent)
        k, e = kind(r), raw(n)
        whole = isinstance(e, int) and not isinstance(e, bool)
        if not is_float(k) or const_exponent and whole and -8 <= e <= 8:
            return r            # products
        own = UNIT[k] * FACTOR["pow"][k] * abs(raw(r)) + TINY
        if type(r) is not Bound:
            return loose(r, own)
        far, ea, en = 0.0, error(a, k), error(n, k)
        for x in (float(raw(a)) - ea, float(raw(a)) + ea):
            for y in {e} if whole else {e - en, e + en}:
                d = abs(tdsl_values.fpow(x, y, whole) - r.v)
                far = max(far, d if d == d else math.inf)
        return set_error(r, far * (1 + 2.0 ** -40) + own)

    def cast(x, dt):
        r = old["cast"](x, dt)
        if type(x) is not Bound:
            return r
        if type(r) is not Bound:        # an integer
            if x.e and old["cast"](x.v - x.e, dt) != old["cast"](
                    x.v + x.e, dt):
                raise Undecided("a cast to " + dt)
            return r
        unit, least = STORE.get(dt, (0.0, 0.0))
        r.dt = dt
        if x.dt == dt:
            return set_error(r, x.e)
        if not x.e and dt not in ("f32",) or dt == "f32" and kind(
                x.v) != "d":
            return set_error(r, x.e)    # the evaluator has rounded it
        # both sides of the bound are rounded
        return set_error(r, x.e + 2 * (unit * abs(r.v) + least))

    def choose(op, a, b):
        r = old["choose"](op, a, b)
        k = kind(r)
        ea, eb = error(a, k), error(b, k)
        apart = abs(float(raw(a)) - float(raw(b)))
        if not is_float(k) or not ea + eb or not apart <= ea + eb:
            return r
        return loose(raw(r), apart + max(ea, eb))

    def compare(op, a, b):
        ka, kb = kind(a), kind(b)
        if "b" not in (ka, kb) and not ka == kb == "i":
            k = "d" if "d" in (ka, kb) else "f"
            e = error(a, k) + error(b, k)
            if e and abs(float(raw(a)) - float(raw(b))) <= e:
                raise Undecided("a comparison")
        return old["compare"](op, a, b)

    return {"arith": arith, "multiply_add": multiply_add, "power": power,
            "function1": function1, "cast": cast, "choose": choose,
            "compare": compare, "Var": Bound}


@contextlib.contextmanager
def bounds():
    """The evaluator with bounds, while it lasts."""
    modules = (tdsl_values, tdsl_eval, tdsl_oracle)
    kept = [(m, name, getattr(m, name)) for m in modules
            for name in ("arith", "multiply_add", "power", "function1",
                         "cast", "choose", "compare", "Var")
            if hasattr(m, name)]
    old = {name: value for m, name, value in kept if m is tdsl_values}
    new = make(old)
    try:
        for m, name, _ in kept:
            setattr(m, name, new[name])
        yield
    finally:
        for m, name, value in kept:
            setattr(m, name, value)


def evaluate(program, fn, args):
    """{result: [[v, e], ...]} of a call with arguments as JSON, in row-major
    order; integers and bools have no e. Undecided where a choice is too close
    to call. Results are tensors and numbers."""
    m, d = program.main.fns[fn]
    env = tdsl_eval.Env(m)
    env.dtgens = {n for k, n in d.a[2] if k == "dtype"}
    program.reset()
    given = {}
    for p, t, default, inout in d.a[3]:
        if p not in args:
            continue
        x = tdsl_oracle.load(args[p], t, env, p)
        is_scalar = isinstance(x, Tensor) and not x.shape and not inout
        given[p] = tdsl_eval.wrap_floats(x.get() if is_scalar else x)
    out = {}
    for name, value in program.call(fn, given).items():
        leaves = value.values() if hasattr(value, "values") else [value]
        out[name] = [
            [plain(leaf), error(leaf, "f")] if isinstance(raw(leaf), float)
            else [raw(leaf)] for leaf in leaves]
    return out


def plain(x):
    v = float(raw(x))
    return v if math.isfinite(v) else str(v)


def judge(got, want, worst=None):
    """Lines for elements that are farther off than their bound; worst: a list
    that gets the largest |got - v| / e of each result."""
    lines = []
    for name in sorted(want):
        data, top, bad = got[name]["data"], 0.0, []
        if len(data) != len(want[name]):
            return ["%s: %d elements, not %d" % (name, len(data),
                                                 len(want[name]))]
        for i, (x, pair) in enumerate(zip(data, want[name])):
            v = float(pair[0])
            e = pair[1] if len(pair) > 1 else 0.0
            x = float(x)
            if not math.isfinite(v) or not math.isfinite(x):
                if not (x == v or x != x and v != v) and e != math.inf:
                    bad.append((i, x, v, e))
                continue
            off = abs(x - v)
            if not off <= e:
                bad.append((i, x, v, e))
            elif e:
                top = max(top, off / e)
        if worst is not None:
            worst.append(top)
        if bad:
            lines.append("%s: %d of %d elements beyond their bound" % (
                name, len(bad), len(data)))
            lines += ["  element %d: %r, exactly %r, bound %.3g" % b
                      for b in bad[:10]]
    return lines
