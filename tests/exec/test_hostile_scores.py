"""Scores that break attention elsewhere, in one sweep and in the sweeps of the
text, on every engine: rows without keys, -inf, +inf and NaN among the scores,
scores at +-1e5, ties, unequal lengths, windows at the edge, head ratios, tails
of one element, no keys at all. What must come out is computed here, in f64."""
import json
import math
import os
import random
import subprocess
import sys
import tempfile

BUILD = os.environ["TDSL_TEST_BUILD"]
TDSLC = os.path.join(BUILD, "tdslc")
D = 16
TEXT = """
dim D = 16, H = 4, G = 2
dyn T <= 512, S <= 512
export fn attend(q: f32[T, D], k: f32[S, D], v: f32[S, D], b: f32[T, S],
                 off: i32, w: i32) -> (o: f32[T, D], lse: f32[T]) {
  s[t, u] = if u <= t + off and t + off - u < w
            then (sum[i] q[t, i] * k[u, i]) + b[t, u] else -inf
  m[t] = max[u] s[t, u]
  e[t, u] = if m[t] == -inf then 0 else exp(s[t, u] - m[t])
  l[t] = sum[u] e[t, u]
  o[t, d] = if l[t] == 0 then 0 else (sum[u] e[t, u] * v[u, d]) / l[t]
  lse[t] = if l[t] == 0 then -inf else m[t] + log(l[t])
}
export fn heads(q: f32[T, H, D], k: f32[S, G, D], v: f32[S, G, D])
    -> o: f32[T, H, D] {
  s[t, h, u] = (sum[i] q[t, h, i] * k[u, h / (H / G), i]) / 4.0
  m[t, h] = max[u] s[t, h, u]
  e[t, h, u] = exp(s[t, h, u] - m[t, h])
  o[t, h, d] = (sum[u] e[t, h, u] * v[u, h / (H / G), d])
               / (sum[u] e[t, h, u])
}
"""
BIG = 10 ** 6
RNG = random.Random(7)


def drawn(count):
    return [RNG.randint(-64, 64) / 64 for _ in range(count)]


def tensor(shape, data):
    said = ["nan" if x != x else "inf" if x == math.inf else
            "-inf" if x == -math.inf else x for x in data]
    return {"dtype": "f32", "shape": shape, "data": said}


def case(T, S, off=0, w=BIG, bias=None):
    b = [0.0] * (T * S)
    for t, u, x in bias or []:
        for row in range(T) if t is None else [t]:
            b[row * S + u] = x
    return {"q": tensor([T, D], drawn(T * D)),
            "k": tensor([S, D], drawn(S * D)),
            "v": tensor([S, D], drawn(S * D)), "b": tensor([T, S], b),
            "off": {"dtype": "i32", "shape": [], "data": [off]},
            "w": {"dtype": "i32", "shape": [], "data": [w]}}


INF, NAN = math.inf, math.nan
CASES = {
    "empty_rows": case(9, 70, off=-4),
    "all_empty": case(5, 66, off=-100),
    "no_keys": case(4, 0),
    "one_key": case(3, 1),
    "tail_of_one": case(7, 65, off=60),
    "tail_of_one_row": case(65, 129, off=64),
    "longer_keys": case(6, 200, off=194),
    "longer_rows": case(140, 30),
    "window_edge": case(130, 130, w=64),
    "window_of_one": case(70, 70, w=1),
    "window_of_none": case(66, 66, w=0),
    "low_scores": case(8, 80, BIG, bias=[(2, u, -INF) for u in range(80)] +
                       [(3, u, -INF) for u in range(64)] +
                       [(4, 79, -INF)]),
    "nan_score": case(8, 80, BIG, bias=[(1, 0, NAN), (5, 70, NAN)]),
    "nan_masked": case(70, 70, bias=[(1, 9, NAN), (3, 69, NAN)]),
    "inf_score": case(8, 80, BIG, bias=[(1, 3, INF), (6, 77, INF)]),
    "huge": case(8, 150, BIG, bias=[(None, u, 1e5) for u in range(150)]),
    "huge_down": case(8, 150, BIG, bias=[(None, u, -1e5)
                                         for u in range(150)]),
    "huge_late": case(8, 150, BIG, bias=[(None, 149, 1e5), (2, 70, 3e4)]),
    "ties": case(4, 90, BIG, bias=[(None, u, 500.0) for u in (3, 70, 89)]),
}


def f32(x):
    return NAN if x != x else float(x)


def attend(a):
    """The text, in f64, of scores rounded as f32 rounds them."""
    T, S = a["b"]["shape"]
    off, w = a["off"]["data"][0], a["w"]["data"][0]
    num = [[float(x) for x in a[n]["data"]] for n in ("q", "k", "v", "b")]
    q, k, v, b = num
    out, lses = [], []
    for t in range(T):
        s = [sum(q[t * D + i] * k[u * D + i] for i in range(D)) +
             b[t * S + u] if u <= t + off and t + off - u < w else -INF
             for u in range(S)]
        bad = any(x != x for x in s) or INF in s
        m = max([x for x in s if x == x], default=-INF)
        if bad:
            out += [NAN] * D
            lses.append(NAN)
            continue
        if m == -INF:
            out += [0.0] * D
            lses.append(-INF)
            continue
        e = [math.exp(x - m) for x in s]
        total = sum(e)
        out += [sum(x * v[u * D + d] for u, x in enumerate(e)) / total
                for d in range(D)]
        lses.append(m + math.log(total))
    return {"o": out, "lse": lses}


def heads(a):
    T, S = a["q"]["shape"][0], a["k"]["shape"][0]
    q, k, v = [a[n]["data"] for n in ("q", "k", "v")]
    out = []
    for t in range(T):
        for h in range(4):
            g = h // 2
            s = [sum(q[(t * 4 + h) * D + i] * k[(u * 2 + g) * D + i]
                     for i in range(D)) / 4 for u in range(S)]
            e = [math.exp(x - max(s)) for x in s]
            out += [sum(x * v[(u * 2 + g) * D + d]
                        for u, x in enumerate(e)) / sum(e)
                    for d in range(D)]
    return {"o": out}


def run(folder, entry, args, device, **env):
    path, out = (os.path.join(folder, n) for n in ("in.json", "out.json"))
    with open(path, "w") as f:
        json.dump(args, f)
    env = dict(os.environ, TDSL_CACHE="on",
               TDSL_CACHE_DIR=os.path.join(BUILD, "test-cache"), **env)
    done = subprocess.run(
        [TDSLC, "run", os.path.join(folder, "hostile.tdsl"), "--entry", entry,
         "--device", device, "--in", "@=" + path, "--out", out, "-q"],
        env=env, capture_output=True, text=True)
    if done.returncode != 0:
        return None, done.stderr
    with open(out) as f:
        got = json.load(f)["results"]
    return {n: [float(x) for x in v["data"]] for n, v in got.items()}, ""


def wrong(want, got):
    for name, data in want.items():
        if len(data) != len(got[name]):
            return "%s has %d elements" % (name, len(got[name]))
        for i, (a, b) in enumerate(zip(data, got[name])):
            # scores of 1e5 are rounded to 2^-7 before they are compared
            same = a == b or (a != a and b != b)
            if not same and not abs(a - b) <= 2e-2 * (abs(a) > 1e3) + \
                    (2e-2 if HUGE else 2e-5) * (1 + abs(a)):
                return "%s[%d] is %r, wanted %r" % (name, i, b, a)
    return None


HUGE = False
DEVICES = {"text": "cpu", "all": "cpu", "lazy": "cpu",
           "lazy:sim": "sim:h100"}
# what engines that share their arithmetic with another one are asked
FEW = ("empty_rows", "no_keys", "tail_of_one", "nan_score", "inf_score",
       "huge_late", "window_of_none")


def main():
    global HUGE
    failed = 0
    engines = [("cpu", {}), ("interp:kir", {}), ("interp", {}),
               ("text", {"TDSL_DISABLE_PASS": "find-cascades"}),
               ("all", {"TDSL_DISABLE_PASS": "all"}), ("sim:h100", {}),
               ("lazy", {"TDSL_CASCADES": "lazy"}),
               ("lazy:sim", {"TDSL_CASCADES": "lazy"})]
    heads_args = {"q": tensor([5, 4, D], drawn(20 * D)),
                  "k": tensor([67, 2, D], drawn(134 * D)),
                  "v": tensor([67, 2, D], drawn(134 * D))}
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "hostile.tdsl"), "w") as f:
            f.write(TEXT)
        for engine, env in engines:
            device = DEVICES.get(engine, engine)
            lines = []
            for name, args in CASES.items():
                if engine in ("text", "all", "lazy:sim") and \
                        name not in FEW:
                    continue
                HUGE = name.startswith("huge")
                got, why = run(folder, "attend", args, device, **env)
                if got is None and "error[B05]: NVRTC" in why:
                    break
                bad = why[:400] if got is None else wrong(attend(args), got)
                if bad:
                    lines.append("%s: %s" % (name, bad))
            HUGE = False
            got, why = run(folder, "heads", heads_args, device, **env)
            if got is not None:
                bad = wrong(heads(heads_args), got)
                lines += ["heads: " + bad] if bad else []
            elif "error[B05]: NVRTC" not in why:
                lines.append("heads: " + why[:400])
            print("%s %s" % ("not ok" if lines else "ok",
                             engine.replace(":", "_")))
            for line in lines:
                print("  " + line)
            failed += bool(lines)
    sys.exit(failed > 0)


main()
