"""Programs of this folder with their inputs and the properties that must
hold on every engine. Where a case gives no results, the oracle computes them
when the test runs. Most are reports from users of other systems, recast."""
import itertools
import math
import random
import struct

ENGINES = ("interp", "interp:f64", "interp:kir", "cpu", "sim")
F32_ENGINES = ("interp", "interp:kir", "cpu", "sim")


def tensor(dtype, shape, data):
    data = [text(x) if isinstance(x, float) else x for x in data]
    return {"dtype": dtype, "shape": list(shape), "data": data}


def text(x):
    if math.isnan(x):
        return "nan"
    if math.isinf(x):
        return "inf" if x > 0 else "-inf"
    return x


def scalar(dtype, value):
    return tensor(dtype, [], [value])


def drawn(seed, dtype, *shape):
    """Multiples of 1/64 in [-1, 1], so that every dtype holds them."""
    r = random.Random(seed)
    count = math.prod(shape)
    return tensor(dtype, shape, [r.randint(-64, 64) / 64
                                 for _ in range(count)])


def whole(seed, dtype, limit, *shape):
    r = random.Random(seed)
    return tensor(dtype, shape, [float(r.randint(-limit, limit))
                                 for _ in range(math.prod(shape))])


class Case:
    """One run. results: exact unless tol has a bound; check: a function of
    (results, state) that gives lines; error: the id that must be reported,
    parts: texts that its message must hold."""

    def __init__(self, file, fn, args, name="", dims=None, results=None,
                 state=None, tol=None, check=None, error=None, parts=(),
                 engines=ENGINES, source=None, more=()):
        self.file, self.fn, self.args = file, fn, args
        self.name = "%s.%s%s" % (file, fn, "." + name if name else "")
        self.dims, self.results, self.state = dims or {}, results, state
        self.tol, self.check, self.error = tol or {}, check, error
        self.parts, self.engines, self.source = parts, engines, source
        self.more = more


def f32_bits(value):
    value = {"nan": math.nan, "inf": math.inf,
             "-inf": -math.inf}.get(value, value)
    return struct.unpack("<I", struct.pack("<f", value))[0]


# --- masks ----------------------------------------------------------------
def masked_rows():
    def dead(row):
        def check(results, _):
            o, l = results["o"]["data"], results["l"]["data"]
            out = []
            if any(x != 0 for x in o[2 * row:2 * row + 2]):
                out.append("row %d is not zero: %r" % (row, o))
            if l[row] != "-inf":
                out.append("l[%d] is %r, not -inf" % (row, l[row]))
            return out
        return check
    args = {"q": drawn(1, "f32", 4, 2), "k": drawn(2, "f32", 4, 2),
            "v": drawn(3, "f32", 4, 2)}
    keep = [0 if i // 4 == 1 else 1 for i in range(16)]
    yield Case("c01_masked_row", "f",
               dict(args, keep=tensor("i32", [4, 4], keep)), check=dead(1))
    pad = [0 if i % 4 == 0 else 1 for i in range(16)]
    yield Case("c01_masked_row", "causal",
               dict(args, keep=tensor("i32", [4, 4], pad)), check=dead(0))


def masked_tiles():
    def zeros(results, _):
        return [] if not any(results["o"]["data"]) else ["o is not zero"]
    args = {"q": drawn(4, "f32", 64), "k": drawn(5, "f32", 192, 64),
            "v": drawn(6, "f32", 192, 64)}
    for lo, hi in ((0, 0), (1, 0), (63, 0), (64, 0), (65, 0), (128, 0),
                   (191, 0), (192, 0), (0, 128), (0, 192)):
        yield Case("c02_masked_tile", "f",
                   dict(args, lo=scalar("i32", lo), hi=scalar("i32", hi)),
                   name="%d_%d" % (lo, hi),
                   check=zeros if lo == 192 else None)


def windows():
    yield Case("c03_window", "count", {}, results={
        "n": tensor("i32", [8], [1, 2, 3, 4, 4, 4, 4, 4])})


# --- shapes and indexing --------------------------------------------------
def heads():
    for h, g in ((4, 2), (6, 2), (8, 8), (8, 1), (12, 4)):
        value = [float(i // 4 % g) for i in range(5 * g * 4)]
        want = [float(i // 4 // (h // g)) for i in range(h * 4)]
        yield Case("c04_heads", "f",
                   {"q": drawn(7, "f32", h, 4), "k": drawn(8, "f32", 5, g, 4),
                    "v": tensor("f32", [5, g, 4], value)},
                   name="%d_%d" % (h, g), dims={"H": h, "G": g},
                   results={"o": tensor("f32", [h, 4], want)},
                   tol={"o": [1e-6, 1e-6]})
    yield Case("c04_heads", "f",
               {"q": drawn(7, "f32", 5, 4), "k": drawn(8, "f32", 5, 2, 4),
                "v": drawn(9, "f32", 5, 2, 4)}, name="5_2",
               dims={"H": 5, "G": 2}, error="E36",
               parts=("H", "G", "5", "2"))


def empty():
    yield Case("c05_empty", "f", {"x": tensor("f32", [3, 4, 0, 5], [])},
               results={"y": tensor("f32", [3, 0, 5], [])})
    yield Case("c05_empty", "g", {"x": tensor("f32", [3, 0], []),
                                  "w": tensor("f32", [0, 4], [])},
               results={"y": tensor("f32", [3, 4], [0.0] * 12)})
    yield Case("c05_empty", "h", {"x": tensor("f32", [3, 0], [])},
               results={"m": tensor("f32", [3], ["-inf"] * 3),
                        "p": tensor("f32", [3], [1.0] * 3)})


    none = tensor("f32", [0], [])
    for dims in ({}, {"N": 0}):
        name = "static" if dims else "dynamic"
        yield Case("static_empty", "place",
                   {"x": none, "s": scalar("i64", 21)}, name=name, dims=dims,
                   results={"y": none, "t": scalar("i64", 42)})
        yield Case("static_empty", "sums", {"x": none}, name=name, dims=dims,
                   results={"y": none, "n": scalar("f32", 1.0)})


def empty_sweeps():
    for shape in ((0, 3), (3, 0)):
        yield Case("empty_sweeps", "expected",
                   {"x": tensor("f32", shape, [])}, name="%d_%d" % shape,
                   results={"e": scalar("f32", 0.0), "z": scalar("f32", 0.0)})
    yield Case("empty_sweeps", "expected", {"x": drawn(70, "f32", 7, 9)})
    keep = [1, 0, 1, 1, 1] + [0] * 5 + [0, 0, 1, 0, 0]
    args = {"q": drawn(71, "f32", 3, 4), "k": drawn(72, "f32", 5, 4),
            "keep": tensor("i32", [3, 5], keep)}

    def zero(results, _):
        return [] if results["e"]["data"][1] == 0 else [
            "row 1 has no elements: %r" % results["e"]["data"]]
    for fn in ("rows", "powers"):
        yield Case("empty_sweeps", fn, args)
        yield Case("empty_sweeps", fn, args, name="zero", check=zero)


def likeliest(e, a, steps):
    """(path, score) by trying every path; the scores are exact."""
    best, path = None, None
    for p in itertools.product(range(4), repeat=steps):
        score = sum(e[4 * t + p[t]] for t in range(steps)) + sum(
            a[4 * p[t - 1] + p[t]] for t in range(1, steps))
        if best is None or score > best:
            best, path = score, p
    return list(path), best


def edits(x, y):
    """By the definition: the last elements are dropped, added or changed."""
    if not x or not y:
        return len(x) + len(y)
    return min(edits(x[:-1], y) + 1, edits(x, y[:-1]) + 1,
               edits(x[:-1], y[:-1]) + (x[-1] != y[-1]))


def tables():
    for steps in (1, 2, 5):
        e, a = drawn(80, "f32", steps, 4), drawn(81, "f32", 4, 4)
        path, best = likeliest(e["data"], a["data"], steps)
        yield Case("tables", "viterbi", {"e": e, "a": a}, name=str(steps),
                   results={"path": tensor("i32", [steps], path),
                            "best": scalar("f32", best)})
    for x, y in (([], []), ([1], []), ([], [2, 1]), ([3, 1, 2], [1, 2, 2, 3])):
        yield Case("tables", "edits", {"x": tensor("i32", [len(x)], x),
                                       "y": tensor("i32", [len(y)], y)},
                   name="%d_%d" % (len(x), len(y)),
                   results={"d": scalar("i32", edits(x, y))})


def tails():
    sizes = [(64, 64, k) for k in (1, 8, 15, 16, 17, 24, 40, 56)]
    sizes += [(1, 1, 1), (100, 99, 101), (129, 33, 300), (5, 7, 0)]
    for m, n, k in sizes:
        a = whole(10, "bf16", 4, m, k)
        b = whole(11, "bf16", 4, n, k)
        rows = [a["data"][i * k:i * k + k] for i in range(m)]
        columns = [b["data"][i * k:i * k + k] for i in range(n)]
        want = tensor("f32", [m, n], [
            float(sum(x * y for x, y in zip(row, column)))
            for row in rows for column in columns])
        name = "%d_%d_%d" % (m, n, k)
        yield Case("c10_tails", "mm", {"a": a, "b": b}, name=name,
                   results={"c": want})
        turned = {
            "a": tensor("bf16", [k, m], [row[j] for j in range(k)
                                         for row in rows]),
            "b": tensor("bf16", [k, n], [column[j] for j in range(k)
                                         for column in columns])}
        yield Case("c10_tails", "mt", turned, name=name,
                   results={"c": want})


def long_tails():
    """Rows and columns that are multiples of one row, so that the sums are
    known without forming them; K ends inside of a tile of any size."""
    for m, n, k in ((257, 199, 1001), (3, 511, 1024)):
        row = [i % 3 - 1 for i in range(k)]
        column = [(i * i) % 5 - 2 for i in range(k)]
        dot = sum(x * y for x, y in zip(row, column))
        left = [i % 5 - 2 for i in range(m)]
        right = [i % 7 - 3 for i in range(n)]
        yield Case("c10_tails", "mm", {
            "a": tensor("bf16", [m, k], [float(c * x) for c in left
                                         for x in row]),
            "b": tensor("bf16", [n, k], [float(c * x) for c in right
                                         for x in column])},
            name="long_%d_%d_%d" % (m, n, k), engines=("cpu", "sim"),
            results={"c": tensor("f32", [m, n], [float(c * d * dot)
                                                 for c in left
                                                 for d in right])})


def gathers():
    w = tensor("f32", [5, 2], [float(i) for i in range(10)])
    for ids in ([2, -2, 4], [5], [2147483647], [-2147483648]):
        bad = [i for i in ids if not 0 <= i < 5][0]
        yield Case("c12_gather", "f",
                   {"w": w, "id": tensor("i32", [len(ids)], ids)},
                   name=str(bad), error="R04", parts=("id", str(bad), "5"))
    yield Case("c12_gather", "f",
               {"w": w, "id": tensor("i32", [3], [4, 0, 4])}, name="good",
               results={"y": tensor("f32", [3, 2], [8.0, 9.0, 0.0, 1.0, 8.0,
                                                    9.0])})


def entry_checks():
    file = "entry_checks"
    x, y = whole(20, "f32", 9, 2, 3), whole(21, "f32", 9, 2, 3)
    want = [a + b for a, b in zip(x["data"], y["data"])]
    yield Case(file, "add", {"x": x, "y": y}, name="good",
               results={"z": tensor("f32", [2, 3], want)})
    yield Case(file, "add", {"x": x, "y": whole(1, "f32", 9, 4, 3)},
               name="shape", error="R01", parts=("y", "N", "4", "2", "x"))
    yield Case(file, "add", {"x": x, "y": whole(1, "f32", 9, 2, 4)},
               name="static", error="R01", parts=("y", "K", "4", "3"))
    yield Case(file, "add", {"x": whole(1, "f32", 9, 9, 3), "y": y},
               name="bound", error="R02", parts=("N", "9", "8"))
    yield Case(file, "add", {"x": x}, name="missing", error="R07",
               parts=("y",))
    yield Case(file, "add", {"x": x, "y": y, "q": y}, name="unknown",
               error="R07", parts=("q",))
    yield Case(file, "add", {"x": x, "y": whole(1, "f32", 9, 6)},
               name="rank", error="R08", parts=("y",))
    yield Case(file, "add", {"x": x, "y": whole(1, "f64", 9, 2, 3)},
               name="exact_f64", results={"z": tensor("f32", [2, 3], [
                   a + b for a, b in zip(x["data"],
                                         whole(1, "f64", 9, 2, 3)["data"])])})
    yield Case(file, "add", {"x": x, "y": tensor("f64", [2, 3], [0.1] * 6)},
               name="inexact_f64", error="F62", parts=("y", "0.1"))
    state = {"x": tensor("f32", [2], [5.0, 6.0]),
             "o": tensor("f32", [3], [0.0, 0.0, 0.0])}
    yield Case(file, "put", dict(state, to=tensor("i32", [2], [2, 0])),
               name="distinct", results={}, more=("--checks", "all"),
               state={"o": tensor("f32", [3], [6.0, 0.0, 5.0])})
    yield Case(file, "put", dict(state, to=tensor("i32", [2], [1, 1])),
               name="twice", error="R05", more=("--checks", "all"),
               parts=("o", "1"))
    large = tensor("f32", [3], [1.0, 4.0, 2.0])
    yield Case(file, "gain", {"x": large}, name="entry",
               results={"y": tensor("f32", [3], [2.0, 8.0, 4.0])})
    yield Case(file, "gain", {"x": large}, name="assert", error="R06",
               more=("--checks", "all"), parts=("large",))


# --- numerics -------------------------------------------------------------
def narrow_sums():
    yield Case("c06_narrow_sum", "a", {"x": tensor("f16", [2000],
                                                   [3.0] * 2000)},
               results={"y": scalar("f16", 6000.0)})
    yield Case("c06_narrow_sum", "b", {"x": tensor("bf16", [70000],
                                                   [1.0] * 70000)},
               results={"s": scalar("bf16", 70144.0),
                        "m": scalar("bf16", 1.0)})
    yield Case("c06_narrow_sum", "c", {"x": tensor("bf16", [512],
                                                   [0.3125] * 512)},
               results={"y": tensor("bf16", [512], [1 / 512] * 512)})


def half(pattern):
    return struct.unpack("<e", struct.pack("<H", pattern))[0]


def to_half(value):
    """Round to nearest even by Python's own packing; overflow is inf."""
    try:
        return struct.unpack("<e", struct.pack("<e", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def bfloat(pattern):
    return struct.unpack("<f", struct.pack("<I", pattern << 16))[0]


def single(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def conversions():
    odd = [single(x) for x in (
        0.49990, 0.5, 0.5 - 2.0 ** -12, 0.5 + 2.0 ** -11, 65504.0, 65519.996,
        65520.0, -65520.0, 6e-8, 2.9e-8, 2.0 ** -25, 2.0 ** -25 * 1.0000001,
        3e-6, 1e-7, 0.0, -0.0, math.inf, -math.inf, math.nan)]
    yield Case("c07_f16", "f", {"x": tensor("f32", [len(odd)], odd)},
               name="odd", results={"y": tensor("f16", [len(odd)], [
                   to_half(x) for x in odd])})
    every = [half(p) for p in range(65536)]
    yield Case("c07_f16", "g", {"x": tensor("f16", [65536], every)},
               name="every", results={"y": tensor("f32", [65536], every)})
    yield Case("c07_f16", "f", {"x": tensor("f32", [65536], every)},
               name="every", results={"y": tensor("f16", [65536], every)})
    brain = [bfloat(p) for p in range(65536)]
    yield Case("c07_f16", "gb", {"x": tensor("bf16", [65536], brain)},
               name="every", results={"y": tensor("f32", [65536], brain)})
    yield Case("c07_f16", "fb", {"x": tensor("f32", [65536], brain)},
               name="every", results={"y": tensor("bf16", [65536], brain)})
    yield Case("c08_bf16", "f", {"x": tensor("bf16", [4], [
        1.0, 0.0078125, 255.0, -1.0])}, results={"y": tensor("bf16", [4], [
            2.0, 1.0078125, 256.0, 0.0])})
    yield Case("c08_bf16", "g", {"x": tensor("f64", [3], [
        1 + 2.0 ** -8 + 2.0 ** -40, 1 + 2.0 ** -8, 1e39])},
        results={"y": tensor("bf16", [3], [1.0078125, 1.0, math.inf])})


def literals():
    bits = (0x3dcccccd, 0x4b800000, 0x7f7fffff, 0x00800000, 0x00000001, 0,
            0x80000000, 0x7f800000, 0xff800000)

    def check(results, _):
        got = results["y"]["data"]
        out = ["y[%d] is %r, not bits %08x" % (i, got[i], b)
               for i, b in enumerate(bits) if f32_bits(got[i]) != b]
        return out if got[9] == "nan" else out + ["y[9] is %r" % got[9]]
    yield Case("c09_literals", "f", {}, results={}, check=check,
               engines=F32_ENGINES)


# --- limits, names --------------------------------------------------------
def many_arguments():
    for n in (2, 511, 600, 4095):
        names = ["x%d" % i for i in range(n)]
        source = "dyn N <= 4096\nexport fn f(%s) -> y: f32[N] {\n" \
            "  y[i] = %s\n}\n" % (
                ", ".join("%s: f32[N]" % x for x in names),
                " + ".join(x + "[i]" for x in names))
        args = {x: tensor("f32", [3], [float(i % 7), 1.0, float(-i)])
                for i, x in enumerate(names)}
        want = [float(sum(i % 7 for i in range(n))), float(n),
                float(-sum(range(n)))]
        yield Case("c14_many_arguments", "f", args, name=str(n),
                   source=source, results={"y": tensor("f32", [3], want)},
                   engines=("interp", "cpu", "sim"))


def equal_dims():
    for n, m in ((1, 1), (2, 2), (1, 2), (3, 1), (2, 3), (64, 64)):
        args = {"x": whole(12, "f32", 9, n), "y": whole(13, "f32", 9, m)}
        if n != m:
            yield Case("c15_equal_dims", "f", args, name="%d_%d" % (n, m),
                       error="R03", parts=("N", "M", str(n), str(m)))
            continue
        want = [a * b for a, b in zip(args["x"]["data"], args["y"]["data"])]
        yield Case("c15_equal_dims", "f", args, name="%d_%d" % (n, m),
                   results={"z": tensor("f32", [n], want)})


WORDS = """auto break case char continue default do double enum extern
float goto int long register return short signed sizeof static switch typedef
union unsigned void volatile while inline restrict class delete friend new
operator private protected public template this throw try typename using
virtual namespace bool_ asm main memcpy free printf NULL INFINITY fmaxf expf
tanhf warpSize threadIdx blockIdx __syncthreads __global__ kernel errno
stdout abs_ llvm entry alloca phi br ret""".split()


def names():
    source = (
        "dim free = 4, warpSize = 2\n"
        "struct main { double: f32[free] from \"layer1.weight\"\n"
        "  asm: f32[free] from \"1234\" }\n"
        "export fn memcpy(w: main, blockIdx: f32[free]) -> int: f32[free] {\n"
        "  int[threadIdx] = w.double[threadIdx] * blockIdx[threadIdx]\n"
        "    + w.asm[threadIdx]\n}\n")
    a, b, c = (whole(s, "f32", 9, 4) for s in (14, 15, 16))
    want = [x * y + z for x, y, z in zip(a["data"], b["data"], c["data"])]
    yield Case("c17_names", "memcpy", {"w": {"double": a, "asm": c},
                                       "blockIdx": b}, source=source,
               results={"int": tensor("f32", [4], want)})
    for word in WORDS:
        source = ("export fn %(w)s(%(w)s_: f32[3]) -> r: f32[3] {\n"
                  "  %(w)s[i] = %(w)s_[i] + 1\n  r[%(w)s__] = %(w)s[%(w)s__]"
                  " * 2\n}\n" % {"w": word})
        yield Case("c17_names", word,
                   {word + "_": tensor("f32", [3], [1.0, 2.0, 3.0])},
                   source=source, engines=("interp", "cpu", "sim"),
                   results={"r": tensor("f32", [3], [4.0, 6.0, 8.0])})


# --- aliasing -------------------------------------------------------------
def in_place():
    n = 33
    square = whole(17, "f32", 50, n, n)
    d = square["data"]
    yield Case("c18_in_place", "f", {"x": square}, results={}, state={
        "x": tensor("f32", [n, n], [d[i * n + j] + d[j * n + i]
                                    for i in range(n) for j in range(n)])})
    row = whole(18, "f32", 50, n)
    total = sum(row["data"])
    yield Case("c18_in_place", "g", {"x": row}, results={}, state={
        "x": tensor("f32", [n], [x + total for x in row["data"]])})
    yield Case("c18_in_place", "reverse", {"x": row}, results={}, state={
        "x": tensor("f32", [n], row["data"][::-1])})


def product_ends():
    for r, n in ((3, 5), (17, 100), (64, 128)):
        x, c = drawn(60, "f32", r, n), drawn(61, "f32", r, n)
        yield Case("product_ends", "f", {
            "x": x, "u": drawn(62, "f32", r, 40),
            "w": drawn(63, "f32", n, 40), "c": c}, name="%d_%d" % (r, n),
            tol={"v": [1e-6, 1e-6]})
        yield Case("product_ends", "rows", {"x": x, "y": c},
                   name="%d_%d" % (r, n), tol={"z": [1e-6, 1e-6]})


def product_rest():
    """Whole numbers: each sum is one that every order gives exactly."""
    m, n, k = 30, 129, 280
    r = random.Random(66)
    a, b, d = ([r.randint(-8, 8) for _ in range(count)]
               for count in (m * k, k * n, n))
    columns = [b[j::n] for j in range(n)]
    sums = [sum(x * y for x, y in zip(a[i * k:i * k + k], column))
            for i in range(m) for column in columns]
    ends = [max(s + d[i % n], 0) for i, s in enumerate(sums)]
    args = {name: tensor("f32", shape, [float(x) for x in data])
            for name, shape, data in (("a", [m, k], a), ("b", [k, n], b),
                                      ("d", [n], d))}
    for fn, names, want in (("f", "ab", sums), ("g", "abd", ends)):
        yield Case("product_rest", fn, {name: args[name] for name in names},
                   results={"c": tensor("f32", [m, n],
                                        [float(x) for x in want])},
                   engines=("cpu",))


def update_ends():
    for r, at in ((1, 0), (5, 63), (64, 17)):
        args = {"x": drawn(64, "f32", r, 32), "w": drawn(65, "f32", 64, 32),
                "at": scalar("i32", at)}
        yield Case("update_ends", "f", dict(
            args, b=drawn(66, "f32", 64), c=drawn(67, "bf16", 128, 64),
            d=drawn(68, "f32", 128, 64)), name="%d_%d" % (r, at))
        yield Case("update_ends", "around", dict(
            args, c=drawn(68, "f32", 128, 64)), name="%d_%d" % (r, at),
            tol={"old": [1e-5, 1e-5], "new": [1e-5, 1e-5]})


def sides():
    for b, t in ((1, 1), (2, 7), (1, 37), (0, 3)):
        name = "%d_%d" % (b, t)
        x = drawn(70, "f32", b, t, 20)
        yield Case("sides", "qkv", {
            "x": x, "n": drawn(71, "f32", 20),
            "wq": drawn(72, "bf16", 6, 4, 20),
            "wk": drawn(73, "f16", 2, 4, 20),
            "wv": drawn(74, "f32", 2, 4, 20), "bq": drawn(75, "f32", 6, 4),
            "cache": drawn(76, "bf16", b, 256, 2, 4)}, name=name,
            tol={"q": [1e-5, 1e-5], "k": [1e-2, 1e-2],
                 "cache": [1e-2, 1e-2]})
        yield Case("sides", "deep", {
            "x": drawn(77, "f32", b, t, 280), "u": drawn(78, "f32", b, 17, 280),
            "v": drawn(79, "f32", b, 17, 280)}, name=name)
        x = drawn(80, "f32", t, 20)
        yield Case("sides", "gated", {
            "x": x, "wg": drawn(81, "f32", 40, 20),
            "wu": drawn(82, "f32", 40, 20)}, name=name)
        yield Case("sides", "five", {
            "x": x, "a": drawn(83, "f32", 20, 33),
            "b": drawn(84, "f32", 20, 16), "c": drawn(85, "f32", 20, 50),
            "e": drawn(86, "f32", 20, 33),
            "f": drawn(87, "f32", 20, 20)}, name=name)
    yield Case("sides", "thin", {
        "x": drawn(88, "f32", 2, 64), "wq": drawn(89, "f32", 48, 64),
        "wk": drawn(90, "f32", 40, 64), "wg": drawn(91, "f32", 48, 64)})


def grouped():
    """Rows that choose: at random, all the same, never the middle one."""
    def choice(kind, dtype, *shape):
        r = random.Random(98)
        pick = {"any": lambda: r.randint(0, 4), "same": lambda: 3,
                "some": lambda: r.choice((0, 1, 4))}[kind]
        return tensor(dtype, shape,
                      [pick() for _ in range(math.prod(shape))])
    w = drawn(93, "f32", 5, 21, 13)
    for t, kind in ((0, "any"), (1, "same"), (7, "some"), (29, "any")):
        name = "%d_%s" % (t, kind)
        x = drawn(92, "f32", t, 13)
        yield Case("grouped", "one", {
            "x": x, "w": w, "to": choice(kind, "i32", t)}, name=name)
        yield Case("grouped", "gated", {
            "x": x, "wg": w, "wu": drawn(94, "f32", 5, 21, 13),
            "wd": drawn(95, "f32", 5, 13, 21),
            "to": choice(kind, "i32", t, 2), "p": drawn(96, "f32", t, 2)},
            name=name, tol={"y": [1e-4, 1e-4]})
    yield Case("grouped", "wide", {
        "x": drawn(97, "f32", 29, 8), "w": drawn(98, "f32", 5, 8, 36),
        "b": drawn(99, "f32", 5, 36), "to": choice("some", "i64", 29)},
        tol={"y": [1e-2, 1e-2]})
    yield Case("grouped", "heads", {
        "x": drawn(100, "f32", 7, 2, 13),
        "w": drawn(101, "bf16", 5, 2, 21, 13),
        "to": choice("any", "i32", 7)})
    for k in (0, 290):
        yield Case("grouped", "deep", {
            "x": drawn(102, "f32", 4, k), "w": drawn(103, "f32", 5, 21, k),
            "to": choice("any", "i32", 4)}, name=str(k))
    bad = choice("any", "i32", 9)
    bad["data"][6] = 5
    yield Case("grouped", "one", {
        "x": drawn(104, "f32", 9, 13), "w": w, "to": bad}, name="bad",
        error="R04", parts=("to[6]", "5"))


def picked_keys():
    """Slots that follow each other, repeat and go back."""
    k, v = drawn(120, "f32", 5, 70, 16), drawn(121, "f32", 5, 70, 16)
    slot = tensor("i32", [4], [3, 3, 0, 4])
    near, engines = {"o": [1e-5, 1e-5]}, ("cpu", "sim")
    yield Case("picked_keys", "pick", {
        "q": drawn(122, "f32", 4, 16), "k": k, "v": v, "slot": slot,
        "n": tensor("i32", [4], [70, 0, 65, 7])}, tol=near, engines=engines)
    yield Case("picked_keys", "bare", {
        "q": drawn(123, "f32", 4, 16), "k": drawn(124, "bf16", 5, 16, 70),
        "v": v, "slot": slot}, tol=near, engines=engines)
    for fn, more in (("heads", [4, 3, 0, 4]), ("crossed", [4, 1, 4])):
        count = 4 if fn == "heads" else 2
        yield Case("picked_keys", fn, {
            "q": drawn(125, "f32", count, 3, 16), "k": k, "v": v,
            "slot": tensor("i32", [len(more)], more)}, tol=near,
            engines=engines)


def column_ways():
    """Reductions whose terms lie in columns, some of them in groups."""
    odd = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0]

    def strange(seed, *shape):
        r = random.Random(seed)
        return tensor("f32", shape, [r.choice(odd) for _ in
                                     range(math.prod(shape))])
    def keys(seed, *shape):
        r = random.Random(seed)
        return tensor("i32", shape, [r.randint(-2, 2) for _ in
                                     range(math.prod(shape))])
    near = dict.fromkeys("pmvlrcg", [1e-5, 1e-5])
    near["lo"] = [1e-5, 1e-5]
    for b, s, c in ((1, 1, 1), (2, 37, 17), (1, 3, 129), (1, 130, 3),
                    (2, 5, 0), (0, 5, 3)):
        size = "%dx%dx%d" % (b, s, c)
        yield Case("columns", "f", {"x": drawn(b + s + c, "f32", b, s, c)},
                   name=size, tol=near)
        yield Case("columns", "places", {
            "x": whole(s + c, "f32", 3, b, s, c),
            "k": keys(s + c, b, s, c)}, name=size)
    yield Case("columns", "places", {
        "x": strange(7, 2, 9, 40), "k": keys(3, 2, 9, 40)},
        name="odd")
    for n in (1, 33, 70):
        yield Case("columns", "both", {"x": drawn(n, "f32", n, 5),
                                       "y": drawn(n + 1, "f32", n, 5)},
                   name=str(n), tol=near)


def tops():
    odd = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0]
    r = random.Random(12)
    for rows, n in ((2, 3), (3, 16), (2, 17), (1, 129), (0, 5), (2, 700)):
        x = [r.choice(odd) for _ in range(rows * n)]
        yield Case("tops", "three", {"x": tensor("f32", [rows, n], x)},
                   name=str(n))
        yield Case("tops", "of_columns", {"x": tensor("f32", [n, rows], x)},
                   name=str(n))
        least = tensor("f32", [rows, n], [-math.inf] * (rows * n))
        yield Case("tops", "three", {"x": least}, name="least%d" % n)
    for n in (17, 33, 130):
        yield Case("tops", "halves", {"x": whole(n, "f16", 9, 2, n)},
                   name=str(n))


def row_ends():
    near = [1e-5, 1e-5]
    for b, t in ((1, 1), (2, 37), (0, 3)):
        name = "%d_%d" % (b, t)
        a = drawn(92, "f32", t, 48)
        yield Case("row_ends", "stats", {
            "x": drawn(93, "f32", t, 70), "a": a,
            "w": drawn(94, "f32", 70, 48)}, name=name,
            tol={"y": near, "r": near, "m": near, "s": [1e-4, 1e-4]})
        x = drawn(95, "f32", b, t, 48)
        yield Case("row_ends", "norm", {
            "a": x, "w": drawn(96, "f64", 70, 48), "g": drawn(97, "f32", 70),
            "c": drawn(98, "f32", 70)}, name=name, tol={"y": [2e-2, 2e-2]})
        yield Case("row_ends", "turned", {
            "x": x, "wq": drawn(99, "bf16", 3, 6, 48),
            "wk": drawn(100, "bf16", 2, 6, 48),
            "pos": tensor("i32", [b], [7 * i for i in range(b)]),
            "cache": drawn(101, "f32", b, 400, 2, 6)}, name=name,
            tol={"q": [2e-2, 2e-2], "cache": near})
        yield Case("row_ends", "heads", {
            "x": drawn(102, "f32", t, 700),
            "w": drawn(103, "f32", 3, 6, 700)}, name=name,
            tol={"y": [1e-4, 1e-4], "z": [1e-3, 1e-3]})
        yield Case("row_ends", "doubles", {
            "x": drawn(104, "f64", t, 70), "a": drawn(105, "f64", t, 48),
            "w": drawn(106, "f64", 70, 48)}, name=name)


def lower_terms():
    """A maximum that moves late, and more splits than one."""
    for n in (1, 70, 1300):
        x = drawn(107, "f32", n)
        x["data"][n - 1] = 40.0
        tol = {"l": [1e-5, 1e-5], "y": [1e-2, 1e-5]}
        yield Case("lower_terms", "count", {"x": x}, name=str(n), tol=tol)
        yield Case("lower_terms", "weights", {
            "x": x, "w": drawn(108, "f32", 3, n)}, name=str(n), tol=tol)


def attended(q, k, v, score, row):
    """A row of attention, in f64 and with no rounding."""
    keys = range(len(k["data"]) // 16)
    s = [score(row, u, sum(q["data"][row * 16 + i] * k["data"][u * 16 + i]
                           for i in range(16))) for u in keys]
    e = [math.exp(x - max(s)) for x in s]
    return [sum(e[u] * v["data"][u * 16 + d] for u in keys) / sum(e)
            for d in range(16)]


def rounded_weights():
    """One rounding of 2^-9 a weight, whatever it is relative to. The sum of
    weights is rounded as well, or not; where it is not, that is a second
    error of the quotient."""
    scores = {"bf": lambda t, u, x: 9 * x if u <= t else -math.inf,
              "low": lambda t, u, x: 30 * math.tanh(x)}
    for n in (1, 67, 130):
        q, k = drawn(109, "f32", n, 16), drawn(110, "f32", n, 16)
        for fn, dtype in (("bf", "bf16"), ("low", "f16")):
            v = drawn(111, dtype, n, 16)

            def check(results, state, v=v, q=q, k=k, fn=fn, n=n):
                got = results["o"]["data"]
                for row in range(0, n, 13):
                    want = attended(q, k, v, scores[fn], row)
                    far = max(abs(float(a) - b) for a, b in
                              zip(got[row * 16:], want))
                    if not far <= 2 ** -8:
                        yield "row %d is off by %g" % (row, far)
            yield Case("rounded_weights", fn, {"q": q, "k": k, "v": v},
                       name=str(n), results={}, check=check)


def few_values():
    """Integers that are one of sixteen, whatever they are a part of."""
    b = [(i * 37 + 11) % 256 for i in range(70)]
    c = [(i * 53) % 256 - 128 for i in range(70)]
    d = [(i * 7919 - 200000) * (1 if i % 2 else -1) for i in range(70)]

    def want(f, of):
        return tensor("f32", [70], [float(f(v)) for v in of])
    yield Case("few_values", "f", {
        "b": tensor("u8", [70], b), "c": tensor("i8", [70], c),
        "d": tensor("i32", [70], d)}, results={
        "lower": want(lambda v: v % 16 - 8, b),
        "upper": want(lambda v: v // 16 + 100, b),
        "part": want(lambda v: v % 16, c),
        "signed": want(lambda v: v // 16 - 3, c),
        "far": want(lambda v: v % 8 - 200, d),
        "from_left": want(lambda v: 5 - v % 4, b),
        "turns": tensor("f32", [35, 2], [
            float(v % 16 - 8 if i % 2 == 0 else v // 16 - 7)
            for i, v in enumerate(b)])})


# --- loops and routing ----------------------------------------------------
def loops():
    tol = {"a": [1e-5, 1e-5], "b": [1e-5, 1e-5], "g": [1e-5, 1e-5]}
    for n, m, count in ((7, 3, 5), (0, 2, -1), (17, 1, 9)):
        yield Case("loops", "carried", {
            "x": drawn(30, "f32", 3), "y": drawn(31, "f32", n),
            "z": drawn(32, "f32", m, n), "n": scalar("i32", count),
            "q": tensor("i32", [3], [4, 6, 0])},
            name="%d_%d_%d" % (n, m, count), tol=tol)
        near = {"y": [1e-5, 1e-5], "h": [1e-5, 1e-5]}
        yield Case("loops", "routed", {
            "m": {"gate": drawn(33, "f32", 4, 6),
                  "ex": {"w1": drawn(34, "f32", 4, 5, 6),
                         "w2": drawn(35, "f32", 4, 6, 5)}},
            "x": drawn(36, "f32", n, 6)}, name=str(n), tol=near)
        yield Case("loops", "recurrent", {
            "x": drawn(37, "f32", n, 6), "b": drawn(38, "f32", n, 4),
            "c": drawn(39, "f32", n, 4), "h": drawn(40, "f32", 6, 4)},
            name=str(n), tol=near)
        yield Case("loops", "ordered", {"x": drawn(41, "f32", n)},
                   name=str(n))


def columns():
    x = whole(19, "f32", 20, 5, 7)
    want = [float(sum(x["data"][m * 7 + i] * (i + 1) for i in range(7)))
            for m in range(5)]
    yield Case("c11_columns", "f", {"x": x},
               results={"y": tensor("f32", [5], want)})


def cases():
    out = []
    for make in (masked_rows, masked_tiles, windows, heads, empty,
                 empty_sweeps, tables, tails, long_tails, gathers,
                 entry_checks, narrow_sums, conversions, literals,
                 many_arguments, equal_dims, names, in_place, loops,
                 columns, product_ends, product_rest, update_ends, sides,
                 grouped, picked_keys, column_ways, tops, row_ends,
                 lower_terms, rounded_weights, few_values):
        out += list(make())
    return out
