"""The one comparator of the suite: tensors in the JSON form of
tests/vectors/README.md. It shares nothing with the engines it judges."""
import math

TEXTS = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
FLOATS = ("f64", "f32", "f16", "bf16", "f8e4m3", "f8e5m2")


def number(value):
    return TEXTS[value] if isinstance(value, str) else value


def is_tensor(value):
    return isinstance(value, dict) and "dtype" in value and "shape" in value


def leaves(value, path):
    """(path, tensor) of a tensor or of a struct of them."""
    if is_tensor(value):
        yield path, value
        return
    if not isinstance(value, dict):
        raise ValueError("%s is neither a tensor nor a struct" % path)
    for key in value:
        yield from leaves(value[key], path + "." + key)


def element_error(got, want, absolute, relative):
    """None where got passes, else the distance (nan for a class that
    differs). Written so that a NaN distance fails."""
    got, want = number(got), number(want)
    if isinstance(want, bool) or isinstance(got, bool):
        return None if got is want else math.nan
    if math.isnan(want):
        return None if math.isnan(got) else math.nan
    if math.isinf(want) or math.isinf(got):
        return None if got == want else math.nan
    distance = abs(got - want)
    if distance <= absolute + relative * abs(want):
        return None
    return distance


def index_text(position, shape):
    out = []
    for extent in reversed(shape):
        out.append(position % extent)
        position //= extent
    return "[" + ", ".join(str(i) for i in reversed(out)) + "]"


def compare_tensor(path, got, want, bound):
    """A list of lines, empty when everything agrees."""
    if not is_tensor(got):
        return ["%s: no tensor" % path]
    for key in ("dtype", "shape"):
        if got[key] != want[key]:
            return ["%s: %s is %s, not %s" % (path, key, got[key], want[key])]
    count = math.prod(want["shape"])
    if "data" not in got or len(got["data"]) != count:
        return ["%s: %s elements, not %d"
                % (path, len(got.get("data", [])), count)]
    if len(want["data"]) != count:
        return ["%s: the expected data have the wrong length" % path]
    absolute, relative = bound
    wrong, worst = [], (-1.0, 0)
    for position, (g, w) in enumerate(zip(got["data"], want["data"])):
        distance = element_error(g, w, absolute, relative)
        if distance is None:
            continue
        wrong.append(position)
        size = math.inf if math.isnan(distance) else distance
        if size > worst[0]:
            worst = (size, position)
    if not wrong:
        return []
    out = ["%s: %d of %d elements differ (abs %.3g, rel %.3g)"
           % (path, len(wrong), count, absolute, relative)]
    shown = [worst[1]] + [p for p in wrong if p != worst[1]][:9]
    for position in shown:
        out.append("  %s got %r want %r%s" % (
            index_text(position, want["shape"]), got["data"][position],
            want["data"][position],
            "  (the worst)" if position == worst[1] else ""))
    return out


def compare(got, want, tol, exact=False, path=""):
    """Compares {name: value}. tol maps dotted paths to [ABS, REL]; what has
    no entry must be equal. exact is the f64 mode: f32 to 1e-8 relative,
    everything narrower to the last bit. Nothing compared is a failure."""
    out, compared = [], 0
    for name in want:
        if name not in got:
            out.append("%s: missing" % name)
            continue
        mine = dict(leaves(got[name], name))
        for leaf, tensor in leaves(want[name], name):
            compared += 1
            if leaf not in mine:
                out.append("%s: missing" % leaf)
                continue
            bound = tol.get(leaf, [0, 0])
            if exact and tensor["dtype"] in FLOATS:
                wide = tensor["dtype"] in ("f32", "f64")
                # nine digits identify a narrow value, they do not spell it
                bound = [1e-9, 1e-8] if wide else [0, 6e-9]
            out += compare_tensor(leaf, mine[leaf], tensor, bound)
    if want and not compared:
        out.append("nothing was compared")
    return out


def equal_bits(got, want):
    """The same values, classes and signs of zero, for runs of one program
    that must agree to the last bit. Lines that say where they do not."""
    out = []
    for name in sorted(set(got) | set(want)):
        if name not in got or name not in want:
            out.append("%s: only on one side" % name)
            continue
        mine = dict(leaves(got[name], name))
        theirs = dict(leaves(want[name], name))
        if list(mine) != list(theirs):
            out.append("%s: other fields" % name)
            continue
        for leaf in theirs:
            a, b = mine[leaf], theirs[leaf]
            if (a["dtype"], a["shape"]) != (b["dtype"], b["shape"]):
                out.append("%s: other type" % leaf)
            elif [repr(x) for x in a["data"]] != [repr(x) for x in b["data"]]:
                at = [i for i, (x, y) in enumerate(zip(a["data"], b["data"]))
                      if repr(x) != repr(y)]
                out.append("%s: %d elements differ, first %s: %r and %r" % (
                    leaf, len(at), index_text(at[0], b["shape"]),
                    a["data"][at[0]], b["data"][at[0]]))
    return out
