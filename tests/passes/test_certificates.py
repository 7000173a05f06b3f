"""Certificates of cascades: every chain of find_cascades/zoo.tdsl, computed in
parts by random merge trees, against the formulas as they were lowered.

Both texts are read and evaluated here, in f64. A part is lifted from the
identities; two parts are merged by their transports; the states that come out
are what the maps behind the cascade read. Parts may be empty or masked."""
import math
import os
import random
import re
import subprocess
import sys

TDSLC = os.path.join(os.environ["TDSL_TEST_BUILD"], "tdslc")
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                      "find_cascades")
ZOO = os.path.join(FOLDER, "zoo.tdsl")
# weights that are rounded: entry, and the error of one rounding
ROUNDED = {"bf": 2 ** -8, "same": 2 ** -8, "low": 2 ** -10}
DIMS = {"T": 7, "S": 9, "N": 11, "M": 8, "O": 3, "V": 6, "C": 4, "R": 5,
        "Y": 3, "X": 4, "NP": 3, "MP": 2}
TOKEN = re.compile(r'\s*(%[\w.?]+|\$\d+|[A-Za-z_][\w.]*|'
                   r'-?(?:inf|nan|\d+(?:\.\d+)?(?:e[-+]?\d+)?)(?::f64)?|'
                   r'[\[\](),;=+*/-])')
MARGIN = 5.5  # by which a part exceeds what is lazy before that moves
# chains whose maximum is only what sums are relative to
LAZY = ("p01", "p04", "p13", "p14", "p21", "bf")
NONE = 2 ** 63 - 1  # place of what has seen nothing
REDUCE = {"sum": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}


class Node:
    """One line of TIR: name, kind, indices, guard, transport, body."""


def tokens_of(text):
    out, at = [], 0
    while at < len(text.rstrip()):
        m = TOKEN.match(text, at)
        assert m, text[at:at + 40]
        out.append(m.group(1))
        at = m.end()
    return out


class Reader:
    def __init__(self, text):
        self.tokens, self.at, self.lets = tokens_of(text), 0, {}

    def peek(self):
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def take(self, *want):
        token = self.peek()
        assert not want or token in want, (want, token)
        self.at += 1
        return token

    def args(self, close):
        out = []
        while self.peek() != close:
            out.append(self.expr())
            if self.peek() == ",":
                self.take()
        self.take(close)
        return tuple(out)

    def poly(self):
        """Up to the comma, semicolon or bracket that ends it."""
        depth, text = 0, ""
        while depth or self.peek() not in (",", ";", "]", ")"):
            token = self.take()
            depth += (token == "(") - (token == ")")
            text += token.replace("/", "//")
        return text

    def expr(self):
        token = self.take()
        if token.startswith("%"):
            if self.peek() == "[":
                self.take()
                return ("load", token[1:]) + self.args("]")
            return ("load", token[1:])
        if token.startswith("$"):
            return self.lets[token]
        if token in ("true", "false"):
            return ("num", token == "true")
        if re.match(r"-?(inf|nan|\d)", token):
            token = token.replace(":f64", "")
            return ("num", int(token) if re.fullmatch(r"-?\d+", token)
                    else float(token))
        if token == "dim" and self.peek() == "(":
            self.take()
            text = self.poly()
            self.take(")")
            return ("dim", text)
        if self.peek() == "(":
            self.take()
            return (token,) + self.args(")")
        return ("index", token)


def parse(text):
    """The nodes of a function, in order."""
    text = re.sub(r"\n {6,}", " ", text[text.index("{\n") + 2:])
    nodes = []
    for line in text.split("\n"):
        m = re.match(r"  %([\w.]+): (\w+)(?:\[[^\]]*\])?[^=]*"
                     r"= (map|reduce\.\w+)([^\[]*)\[", line)
        if not m:
            if " = topk" in line:
                nodes.append(parse_topk(line))
            continue
        n = Node()
        n.name, n.dtype, n.kind, words = m.groups()
        n.words = words.split()
        c = re.search(r"cascade (\d+)", words)
        n.cascade = int(c.group(1)) if c else 0
        n.is_tile = "tile" in n.words
        if "first" in n.words:
            n.cascade = 0  # known before the first part
        w = re.search(r"was %([\w.]+)", words)
        n.was = w.group(1) if w else None
        body = line[line.index(" = " + m.group(3)):]
        r = Reader(body[body.index("["):])
        r.take("[")
        n.parallel, n.reduced, into = [], [], None
        into = n.parallel
        while r.peek() != "]":
            if r.peek() in (";", ","):
                if r.take() == ";":
                    into = n.reduced
                continue
            name = r.take()
            r.take("in")
            into.append((name, r.poly()))
        r.take("]")
        while r.peek() == "let":
            r.take()
            name = r.take()
            r.take("=")
            r.lets[name] = r.expr()
        n.guard = n.transport = None
        if r.peek() == "where":
            r.take()
            n.guard = r.expr()
        if r.peek() == "transport":
            r.take()
            n.transport = r.expr()
        n.body = r.expr()
        nodes.append(n)
    return nodes


def parse_topk(line):
    """%values: f32[.., k], %places: i64[.., k] = topk cascade N k %x"""
    m = re.match(r"  %([\w.]+): \w+\[(.*?)\][^,]*, %([\w.]+): .*"
                 r"= topk( .*)? (\d+) %([\w.]+)$", line)
    n = Node()
    n.name, dims, n.places, words, k, n.operand = m.groups()
    n.kind, n.k, n.dtype = "topk", int(k), ""
    n.words = (words or "").split()
    c = re.search(r"cascade (\d+)", words or "")
    n.cascade = int(c.group(1)) if c else 0
    n.is_tile, n.was, n.transport, n.guard = False, None, None, None
    n.parallel = [("r%d" % i, d) for i, d in
                  enumerate(dims.split(", ")[:-1])]
    n.reduced = []
    return n


def before(pair):
    """NaN first, then larger values, then lower places."""
    v, place = pair
    return (v == v, -v if v == v else 0, place)


# ---- evaluation -------------------------------------------------------------

def power(base, x):
    try:
        return base ** x
    except OverflowError:
        return math.inf


def divide(a, b):
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    if b == 0:
        return math.nan if a == 0 or a != a else math.copysign(math.inf, a)
    return a / b


def pick(a, b, choose):
    return math.nan if a != a or b != b else choose(a, b)


def narrowed(a, digits, least):
    """Rounded to so many binary digits; fewer below 2^least."""
    if a == 0 or a != a or math.isinf(a):
        return a
    power = max(math.frexp(a)[1] - 1, least) - digits + 1
    return round(math.ldexp(a, -power)) * 2.0 ** power


SIMPLE = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b, "div": divide, "mod": lambda a, b: a % b,
    "neg": lambda a: -a, "not": lambda a: not a, "abs": abs,
    "exp": lambda a: power(math.e, a) if abs(a) > 700 else math.exp(a),
    "log": lambda a: math.log(a) if a > 0 else
    (-math.inf if a == 0 else math.nan),
    "sqrt": lambda a: math.sqrt(a) if a >= 0 else math.nan,
    "rsqrt": lambda a: 1 / math.sqrt(a) if a > 0 else math.inf,
    "tanh": math.tanh, "max": lambda a, b: pick(a, b, max),
    "min": lambda a, b: pick(a, b, min), "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b, "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b, "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "cast.f32": float, "cast.f64": float,
    "cast.bf16": lambda a: narrowed(a, 8, -126),
    "cast.f16": lambda a: narrowed(a, 11, -14),
}


def is_gauge(n):
    """Known of a part before what is relative to it is: a maximum, or a sum
    that names what it was and has no transport."""
    return n.kind in ("reduce.max", "reduce.min") or (
        n.kind == "reduce.sum" and n.was and n.transport is None)


class Program:
    """Values by name and indices, on demand. `rng`: cascades are computed in
    parts; None: every node as it stands."""

    def __init__(self, nodes, inputs, rng=None):
        self.nodes = {n.name: n for n in nodes}
        self.nodes.update((n.places, n) for n in nodes if n.kind == "topk")
        self.order, self.inputs, self.rng = nodes, inputs, rng
        self.memo, self.over = {}, {}

    def size(self, text):
        return int(eval(text, {"min": min, "max": max}, dict(DIMS)))

    def space(self, indices):
        out = [{}]
        for name, extent in indices:
            out = [dict(e, **{name: i}) for e in out
                   for i in range(self.size(extent))]
        return out

    def eval(self, e, env):
        op = e[0]
        if op == "num":
            return e[1]
        if op == "dim":
            return self.size(e[1])
        if op == "index":
            return env[e[1]] if e[1] in env else DIMS[e[1]]
        if op == "load":
            return self.value(e[1], tuple(self.eval(a, env) for a in e[2:]))
        if op == "select":
            return self.eval(e[2 if self.eval(e[1], env) else 3], env)
        if op == "and":
            return all(self.eval(a, env) for a in e[1:])
        if op == "or":
            return any(self.eval(a, env) for a in e[1:])
        return SIMPLE[op](*[self.eval(a, env) for a in e[1:]])

    def value(self, name, at):
        if (name, at) in self.over:
            return self.over[name, at]
        n = self.nodes.get(name)
        if n is None:
            return self.inputs(name, at)
        env = dict(zip([i[0] for i in n.parallel], at))
        if n.is_tile and n.kind == "map":
            return self.eval(n.body, env)  # sees the gauge of its part
        if (name, at) not in self.memo:
            if n.cascade and not n.is_tile and self.rng:
                self.sweep(n, at)
            elif n.kind == "map":
                self.memo[name, at] = self.eval(n.body, env)
            elif n.kind == "topk":
                size = self.extent_of(n)
                self.put_pairs(n, at[:-1], self.best(n, at[:-1], range(size)))
            else:
                self.memo[name, at] = self.reduce(
                    n, env, self.space(n.reduced))
        return self.memo[name, at]

    # -- topk

    def extent_of(self, n):
        """Of what a topk ranks: of its operand, or of the only axis."""
        if n.operand in self.nodes:
            return self.size(self.nodes[n.operand].parallel[-1][1])
        return DIMS["N"]

    def best(self, n, row, places):
        return sorted(((self.value(n.operand, row + (i,)), i)
                       for i in places), key=before)[:n.k]

    def put_pairs(self, n, row, pairs):
        for j, (v, i) in enumerate(pairs):
            self.memo[n.name, row + (j,)] = v
            self.memo[n.places, row + (j,)] = i

    def reduce(self, n, env, tuples):
        op = n.kind[7:]
        if op.startswith("arg"):
            pairs = []
            for t in tuples:
                e = dict(env, **t)
                if n.guard is None or self.eval(n.guard, e):
                    v = self.eval(n.body, e)
                    pairs.append((-v if op == "argmin" else v,
                                  t[n.reduced[0][0]]))
            return min(pairs, key=before)[1] if pairs else NONE
        total = REDUCE[op]
        for t in tuples:
            e = dict(env, **t)
            if n.guard is not None and not self.eval(n.guard, e):
                continue
            v = self.eval(n.body, e)
            total = total + v if op == "sum" else SIMPLE[op](total, v)
        return total

    # -- parts

    def states(self, number):
        return [n for n in self.order if n.cascade == number
                and not n.is_tile]

    def places(self, n, row):
        extras = n.parallel[len(row):]
        return [row + tuple(e[i[0]] for i in extras)
                for e in self.space(extras)]

    def lift(self, states, row, tuples):
        """The states of one part; maxima first, and seen by the others."""
        out = {}
        self.over, outer = dict(self.over), self.over
        for n in states:
            if n.kind == "topk":
                out[n.name, row] = self.best(n, row, [t[-1] for t in tuples])
                continue
            for at in self.places(n, row):
                env = dict(zip([i[0] for i in n.parallel], at))
                named = [dict(zip([i[0] for i in n.reduced], t))
                         for t in tuples]
                out[n.name, at] = self.reduce(n, env, named)
                self.over[n.name, at] = out[n.name, at]
        self.over = outer
        return out

    def merge(self, states, row, a, b):
        out = {}
        for n in states:
            if n.kind == "topk":
                key = n.name, row
                out[key] = sorted(a[key] + b[key], key=before)[:n.k]
            elif is_gauge(n):
                for at in self.places(n, row):
                    key = n.name, at
                    op = SIMPLE["add" if n.kind == "reduce.sum"
                                else n.kind[7:]]
                    stays = "lazy" in n.words and b[key] <= a[key] + MARGIN
                    out[key] = a[key] if stays else op(a[key], b[key])
        for part in (a, b):
            self.over, outer = dict(self.over), self.over
            self.over.update(out)
            for n in states:
                for at in self.places(n, row):
                    if n.was:
                        self.over[n.was, at] = part[n.name, at]
            moved = {}
            for n in states:
                for at in self.places(n, row):
                    env = dict(zip([i[0] for i in n.parallel], at))
                    if n.kind != "topk" and not is_gauge(n):
                        moved[n.name, at] = (
                            part[n.name, at] if n.transport is None
                            else self.eval(n.transport, env))
            self.over = outer
            for key, v in moved.items():
                part[key] = v
        for n in states:
            for at in self.places(n, row):
                if n.kind == "reduce.sum" and not is_gauge(n):
                    out[n.name, at] = a[n.name, at] + b[n.name, at]
                elif n.kind.startswith("reduce.arg"):
                    out[n.name, at] = min(a[n.name, at], b[n.name, at])
        return out

    def sweep(self, n, at):
        states = self.states(n.cascade)
        rows = min(len(s.parallel) for s in states)
        row = at[:rows]
        over = next(s for s in states if s.reduced).reduced
        axis = [tuple(t.values()) for t in self.space(over)]
        cuts = sorted(self.rng.randrange(len(axis) + 1)
                      for _ in range(self.rng.randrange(5)))
        ends = [0] + cuts + [len(axis)]
        parts = [self.lift(states, row, axis[i:j])
                 for i, j in zip(ends, ends[1:])]
        while len(parts) > 1:
            i = self.rng.randrange(len(parts) - 1)
            parts[i:i + 2] = [self.merge(states, row, parts[i],
                                         parts[i + 1])]
        for n in states:
            if n.kind == "topk":
                self.put_pairs(n, row, parts[0].pop((n.name, row)))
        self.memo.update((key, 0 if v == NONE else v)
                         for key, v in parts[0].items())


# ---- the zoo ----------------------------------------------------------------

def dump(stage, entry, **env):
    path = os.path.join(FOLDER, "rounded.tdsl") if entry in ROUNDED else ZOO
    command = [TDSLC, "dump", stage, path, "--entry", entry, "-q"]
    with open(path) as f:
        body = re.search(r"^(?:export )?fn %s\b.*?^(?=fn |export |\Z)" % entry,
                         f.read(), re.S | re.M).group(0)
    for name in "NOCRYX":  # of known length: one split
        if re.search(r"\b%s\b" % name, body):
            command += ["--dim", "%s=%d" % (name, DIMS[name])]
    done = subprocess.run(command, capture_output=True, text=True,
                          env=dict(os.environ, **env))
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return done.stdout


def inputs_of(seed, style):
    """Numbers by name and place: plain, far off, or with -inf among them."""
    def value(name, at):
        rng = random.Random("%d %s %r" % (seed, name, at))
        if name in ("y",) and style.get("y") == "index":
            return rng.randrange(DIMS["V"])
        if name in style.get("ints", ()):
            return rng.randrange(style["ints"][name])
        x = rng.uniform(-2, 2)
        if style["kind"] == "far":
            return x + 300 if name in ("s", "x", "a") else x
        if style["kind"] == "masked" and name in ("s", "a", "x"):
            return -math.inf if rng.random() < 0.4 else x
        return x
    return value


INTS = {"p09": {"seg": 3}, "p11": {"page": 3, "n": 20}, "p16": {"t": 11},
        "p28": {"n": 12}}
# -inf is a value of the text there, and not a mask.
MASKED = ("p01", "p02", "p04", "p10", "p13", "p14", "p19", "p21", "p32",
          "p33", "p36")


def close(a, b, near=1e-8):
    if a != a or b != b:
        return a != a and b != b
    return a == b or abs(a - b) <= near * (1 + abs(a) + abs(b))


def filled(e):
    """A masked score that is a large negative number, and no -inf."""
    if not isinstance(e, tuple):
        return e
    e = tuple(filled(a) for a in e)
    if e[0] != "select":
        return e
    return e[:2] + tuple(("num", -1e4) if a == ("num", -math.inf) else a
                         for a in e[2:])


def check(entry, mutate=None, fill=False, ints=None, cascades="all"):
    near = ROUNDED.get(entry, 1e-8)
    before = parse(dump("tir", entry))
    text = dump("tir-after=find-cascades", entry,
                TDSL_CASCADES=cascades)
    after = parse(text)
    for n in after:
        if mutate and n.transport:
            n.transport = mutate(n)
        if fill and n.cascade:
            n.body = filled(n.body)
    if not any(n.cascade for n in after):
        return ["nothing is a cascade"]
    if (cascades != "all") != any("lazy" in n.words for n in after):
        return ["nothing, or something, is lazy"]
    results = [w for w in re.findall(r"= %([\w.]+)",
                                     text[text.rindex("return"):])]
    kinds = ["plain", "far"] + (["masked"] if entry in MASKED else [])
    for kind in kinds:
        for seed in range(3):
            style = {"kind": kind, "ints": ints or INTS.get(entry, {}),
                     "y": "index" if entry == "p17" else ""}
            inputs = inputs_of(seed, style)
            want = Program(before, inputs)
            got = Program(after, inputs, random.Random(seed))
            for name in results:
                node = want.nodes.get(name)
                if node is None:
                    return ["no result %s" % name]
                places = want.space(node.parallel)
                # rows of the zoo take long, and two of them say enough
                step = len(places) // 20 + 1 if entry in ROUNDED else 1
                for e in places[::step][:20]:
                    at = tuple(e.values())
                    a, b = want.value(name, at), got.value(name, at)
                    # where the text has no number a cascade may have one
                    if not close(a, b, near) and a == a:
                        return ["%s%r of %s, seed %d: %r, not %r"
                                % (name, at, kind, seed, b, a)]
    return []


def flipped(e):
    """Every difference the other way round."""
    if not isinstance(e, tuple):
        return e
    e = tuple(flipped(a) for a in e)
    return (e[0], e[2], e[1]) if e[0] == "sub" else e


def unguarded(e):
    """The arm of a select that a guard keeps from empty parts."""
    if not isinstance(e, tuple):
        return e
    e = tuple(unguarded(a) for a in e)
    return e[3] if e[0] == "select" else e


# What must be caught, in which chain.
MUTANTS = {
    "still": (lambda n: None, ("p01", "p04", "p21", "p22")),
    "stale": (lambda n: ("load", n.was) if n.kind == "reduce.argmax"
              else n.transport, ("p32",)),
    "flipped": (lambda n: flipped(n.transport), ("p01", "p04", "bf", "low")),
    "unguarded": (lambda n: unguarded(n.transport), ("p19",)),
    "short": (lambda n: n.transport[2] if n.transport[0] == "add"
              else n.transport, ("p22",)),
}


def main():
    failed = 0
    for name, (mutate, entries) in MUTANTS.items():
        for entry in entries:
            caught = bool(check(entry, mutate))
            print("%s mutant.%s.%s" % ("ok" if caught else "not ok", name,
                                       entry))
            failed += not caught
    empty = {"page": 3, "n": 1}  # no key is live
    for fill in (True, False):
        out = check("p11", fill=fill, ints=empty)
        print("%s mutant.filled.p11%s" % ("ok" if bool(out) == fill
                                          else "not ok",
                                          "" if fill else ".not"))
        failed += bool(out) != fill
    for entry in LAZY:
        out = check(entry, cascades="all,lazy")
        print("%s lazy.%s" % ("not ok" if out else "ok", entry))
        for line in out:
            print("  " + line)
        failed += bool(out)
    for entry in ["p%02d" % i for i in range(1, 39)] + list(ROUNDED):
        out = check(entry)
        print("%s %s" % ("not ok" if out else "ok", entry))
        for line in out:
            print("  " + line)
        failed += bool(out)
    sys.exit(failed > 0)


main()
