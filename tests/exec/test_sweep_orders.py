"""Places and the k largest as states of a sweep, over what is hard: ties, NaN,
infinities, all elements equal or masked, lengths around tiles and splits. The
expected places are sorted here, by the rule of the language: NaN before
numbers, larger before smaller, lower place first among equals."""
import json
import math
import os
import subprocess
import sys
import tempfile

BUILD = os.environ["TDSL_TEST_BUILD"]
TDSLC = os.path.join(BUILD, "tdslc")
# `bound` decides whether the axis may be longer than a split, so that there
# is a kernel of splits and one that merges them, or one kernel.
TEXT = """
dyn N <= %(bound)d
export fn orders(x: f32[N], y: f32[N]) -> (hi: i32, lo: i32, m: f32, p: f32,
                                           w: f32[3], to: i32[3],
                                           top: f32[2], at: i32[2], s: f32) {
  require N >= 3
  hi = argmax[i] x[i]
  lo = argmin[i] x[i]
  m = max[i] x[i]
  z = sum[i] exp(x[i] - m)
  p = 1 / z
  e[i] = exp(x[i] - m) / 2.0
  w, to = topk(e, 3)
  top, at = topk(x, 2)
  s = sum[i] exp(x[i] - m) * y[i]
}
export fn guarded(x: f32[N], c: i32[N]) -> (hi: i32, m: f32, p: f32) {
  require N >= 1
  hi = argmax[i where c[i] > 0] x[i]
  m = max[i where c[i] > 0] x[i]
  p = sum[i where c[i] > 0] exp(x[i] - m)
}
"""
NAN, INF = math.nan, math.inf


def before(x):
    """Sort key of a place."""
    return lambda i: (x[i] == x[i], -x[i] if x[i] == x[i] else 0, i)


def ranked(x):
    return sorted(range(len(x)), key=before(x))


def wave(n):
    return [round(math.sin(1.7 * i) * 4096) / 4096 for i in range(n)]


def at(n, **places):
    """0 but at some places, counted from the end if negative."""
    x = [0.0] * n
    for name, v in places.items():
        x[int(name.replace("_", "-").strip("p"))] = v
    return x


def cases():
    for n in (3, 16, 17, 64, 65, 130, 1023, 1024, 1025, 2049, 3000):
        yield "wave", wave(n)
    n = 2100
    yield "equal", [1.5] * n
    yield "masked", [-INF] * n
    yield "ties", [float(i % 7 == 3) for i in range(n)]
    yield "late", at(n, p2099=2.0)
    yield "late_tie", at(n, p1024=2.0, p2099=2.0, p1025=2.0)
    yield "one_live", [-INF] * 2047 + [-5.0] + [-INF] * 52
    yield "up", [i / 128 for i in range(n)]
    yield "down", [-i / 128 for i in range(n)]
    yield "nan", at(n, p1500=NAN)
    yield "nans", at(n, p70=NAN, p1024=NAN, p2099=NAN, p5=9.0)
    yield "nan_last", at(n, p2099=NAN, p0=4.0)
    yield "inf", at(n, p1100=INF)
    yield "zeros", [(-0.0 if i % 2 == 0 else 0.0) for i in range(n)]


class Lab:
    def __init__(self, folder):
        self.folder, self.failed, self.can_sim = folder, 0, True
        self.paths = {}
        for name, bound in (("cut", 100000), ("whole", 1024)):
            self.paths[name] = os.path.join(folder, name + ".tdsl")
            with open(self.paths[name], "w") as f:
                f.write(TEXT % {"bound": bound})

    def run(self, form, entry, device, inputs):
        case = os.path.join(self.folder, "case.json")
        out = os.path.join(self.folder, "out.json")
        with open(case, "w") as f:
            json.dump(inputs, f)
        done = subprocess.run(
            [TDSLC, "run", self.paths[form], "--entry", entry, "--device",
             device, "--in", "@=" + case, "--out", out, "-q"],
            capture_output=True, text=True,
            env=dict(os.environ, TDSL_CACHE="on",
                     TDSL_CACHE_DIR=os.path.join(BUILD, "test-cache")))
        if "error[B05]: NVRTC" in done.stderr:
            self.can_sim = False
            return None
        if done.returncode != 0:
            return done.stderr[:400]
        with open(out) as f:
            got = json.load(f)["results"]
        return {k: number_list(v["data"]) for k, v in got.items()}

    def check(self, name, good, why=""):
        print("%s %s" % ("ok" if good else "not ok", name))
        if not good:
            print("  " + str(why)[:600])
            self.failed += 1


def number_list(data):
    data = data if isinstance(data, list) else [data]
    words = {"nan": NAN, "inf": INF, "-inf": -INF}
    return [words.get(str(v).lower(), v) for v in data]


def words_of(x):
    return ["nan" if v != v else "inf" if v == INF else
            "-inf" if v == -INF else v for v in x]


def tensor(dtype, x):
    return {"dtype": dtype, "shape": [len(x)], "data": words_of(x)}


def wanted(x):
    up = ranked(x)
    low = sorted(range(len(x)), key=before([-v for v in x]))[0]
    return {"hi": [up[0]], "lo": [low], "to": up[:3], "at": up[:2],
            "top": [x[i] for i in up[:2]], "m": [x[up[0]]]}


def same(a, b):
    return len(a) == len(b) and all(
        u == v or (u != u and v != v) for u, v in zip(a, b))


def has_weights(x):
    """Whether exp(x - max) orders as x does, rounded as it is."""
    top = max(v if v == v else INF for v in x)
    return abs(top) != INF


def main():
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(folder)
        for name, x in cases():
            form = "whole" if len(x) <= 1024 else "cut"
            for device in ("cpu", "sim:h100"):
                if device != "cpu" and (not lab.can_sim or len(x) < 65 or
                                        name in ("up", "down", "zeros")):
                    continue
                got = lab.run(form, "orders", device,
                              {"x": tensor("f32", x),
                               "y": tensor("f32", [1.0] * len(x))})
                if got is None:
                    continue
                label = "%s.%d.%s" % (name, len(x), device.split(":")[0])
                if isinstance(got, str):
                    lab.check(label, False, got)
                    continue
                want = wanted(x)
                if not has_weights(x):
                    want.pop("to")  # weights are all NaN, or all tie
                bad = ["%s is %r, not %r" % (k, got[k], v)
                       for k, v in want.items() if not same(got[k], v)]
                lab.check(label, not bad, "\n  ".join(bad))
        guards(lab)
        sys.exit(lab.failed > 0)


def guards(lab):
    """Places where not all elements count; 0 where none does."""
    n = 2100
    x = wave(n)
    x[1030] = 50.0
    rows = {"every_third": [int(i % 3 == 0) for i in range(n)],
            "none": [0] * n, "last": [0] * (n - 1) + [1],
            "second_split": [int(i >= 1024) for i in range(n)]}
    for name, c in rows.items():
        for low in (False, True):
            y = [-INF] * n if low else x
            live = [i for i in range(n) if c[i]]
            want = sorted(live, key=before(y))[0] if live else 0
            got = lab.run("cut", "guarded", "cpu",
                          {"x": tensor("f32", y),
                           "c": tensor("i32", c)})
            good = isinstance(got, dict) and same(got["hi"], [want])
            lab.check("guard.%s%s" % (name, ".low" if low else ""), good,
                      "%r, not %r" % (got if isinstance(got, str)
                                      else got["hi"], want))


main()
