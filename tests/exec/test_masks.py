"""Masks of a sweep as classes of tiles: what is empty is not visited (counted
by the simulated GPU: f32 operations and bytes), and no class moves a value.
What lies behind a length may be no numbers at all."""
import json
import os
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "harness"))
from report import drawn  # noqa: E402

BUILD = os.environ["TDSL_TEST_BUILD"]
TDSLC = os.path.join(BUILD, "tdslc")
D = 16
MASKS = {
    "full": "true",
    "causal": "u <= t",
    "late": "u <= t - 100",
    "window": "u <= t and t - u < 64",
    "centred": "u - t <= 40 and t - u <= 40",
    "sinks": "u <= t and (t - u < 64 or u < 4)",
    "prefix": "u <= t or u < n",
    "padded": "u < n",
    "empty": "u < n - 200",
    "shifted": "u + n >= t and u < t + 3",
    "documents": "u <= t and seg[u] == seg[t]",
    "both": "seg[u] == seg[t] and not (u > t)",
    "lengths": "u < seg[t] * 50",
    "kept": "keep[u] == 1",
}
TEXT = """
dim D = 16
dyn T <= 2048
fn attend[N](s: f32[N, N], v: f32[N, D]) -> o: f32[N, D] {
  m[t] = max[u] s[t, u]
  e[t, u] = if m[t] == -inf then 0 else exp(s[t, u] - m[t])
  l[t] = sum[u] e[t, u]
  o[t, d] = if l[t] == 0 then 0 else (sum[u] e[t, u] * v[u, d]) / l[t]
}
""" + "".join("""
export fn %s(q: f32[T, D], k: f32[T, D], v: f32[T, D], seg: i32[T],
              keep: i32[T], n: i32) -> o: f32[T, D] {
  s[t, u] = if %s then sum[i] q[t, i] * k[u, i] else -inf
  o = attend(s, v)
}
""" % item for item in MASKS.items())


def inputs(rows, length, bad=None):
    """Documents of 64 rows. bad: what keys and values are that masks by
    length, or by `keep`, leave out."""
    rng = random.Random(rows)
    keep = [int(i < length and i % 9 != 4) for i in range(rows)]

    def matrix(has_bad):
        data = [rng.randint(-64, 64) / 64 for i in range(rows * D)]
        if has_bad and bad:
            for i in range(rows):
                if not keep[i]:
                    data[i * D:i * D + D] = [bad] * D
        return {"dtype": "f32", "shape": [rows, D], "data": data}
    return {"q": matrix(False), "k": matrix(True), "v": matrix(True),
            "seg": {"dtype": "i32", "shape": [rows],
                    "data": [i // 64 for i in range(rows)]},
            "keep": {"dtype": "i32", "shape": [rows], "data": keep},
            "n": {"dtype": "i32", "shape": [], "data": [length]}}


class Lab:
    def __init__(self, folder):
        self.folder, self.failed = folder, 0
        self.path = os.path.join(folder, "masks.tdsl")
        with open(self.path, "w") as f:
            f.write(TEXT)

    def say(self, name, good, detail=""):
        print("%s %s" % ("ok" if good else "not ok", name))
        if not good:
            print("  " + detail)
            self.failed = 1

    def run(self, entry, args, device="cpu", **env):
        case = os.path.join(self.folder, "in.json")
        out = os.path.join(self.folder, "out.json")
        report = os.path.join(self.folder, "sim.jsonl")
        if os.path.exists(report):
            os.remove(report)
        with open(case, "w") as f:
            json.dump(args, f)
        env = dict(os.environ, TDSL_SIM_REPORT=report, TDSL_CACHE="on",
                   TDSL_CACHE_DIR=os.path.join(BUILD, "test-cache"), **env)
        done = subprocess.run(
            [TDSLC, "run", self.path, "--entry", entry, "--device", device,
             "--in", "@=" + case, "--out", out, "-q"], env=env,
            capture_output=True, text=True)
        if done.returncode != 0:
            return None, done.stderr
        with open(out) as f:
            got = json.load(f)["results"]["o"]["data"]
        count = {}
        if device.startswith("sim"):
            with open(report) as f:
                for line in f:
                    row = json.loads(line)
                    for key, v in row.get("counters", {}).items():
                        count[key] = count.get(key, 0) + v
                    count["peak"] = max(count.get("peak", 0),
                                        row.get("device.peak", 0))
        return got, count


def close(a, b):
    return max(abs(float(x) - float(y)) for x, y in zip(a, b))


def values(lab):
    """Every mask against the sweeps of the text, in f64."""
    for entry in MASKS:
        if not drawn("masks." + entry):
            continue
        args = inputs(230, 201)
        want, why = lab.run(entry, args, "interp:f64")
        got, more = lab.run(entry, args)
        good = want is not None and got is not None
        worst = close(want, got) if good else 0
        lab.say("value." + entry, good and worst < 2e-6,
                "off by %g %s %s" % (worst, why, more))
    for bad in ("nan", "inf"):
        clean, _ = lab.run("kept", inputs(230, 201))
        got, _ = lab.run("kept", inputs(230, 201, bad))
        lab.say("behind." + bad, got == clean, "what is masked is read")


def counts(lab):
    """Operations of 512 rows, of the whole product as 1."""
    got, full = lab.run("full", inputs(512, 300), "sim:h100")
    if got is None and "NVRTC" in full:
        print("needs nvrtc")
        sys.exit(lab.failed or 77)
    # tiles of 64 x 64: a causal mask has 36 of 64, a window of one tile and
    # documents 15 and 8, a centred band of 81 at most 22, and a prefix of 300
    # five columns and what is causal of three
    for entry, tiles in (("causal", 36), ("window", 15), ("centred", 22),
                         ("sinks", 21), ("documents", 8), ("padded", 40),
                         ("prefix", 46)):
        if not drawn("masks.work." + entry):
            continue
        got, count = lab.run(entry, inputs(512, 300), "sim:h100")
        if got is None:
            lab.say("count." + entry, False, count)
            continue
        # arguments and result; scores alone would be 8 times as much
        least = 512 * (4 * D + 2) * 4
        lab.say("peak." + entry, least <= count["peak"] < 1.5 * least,
                "%d bytes of the device at a time" % count["peak"])
        part = {k: count[k] / full[k] for k in ("flop.f32",
                                                "global.bytes_read")}
        lab.say("count." + entry,
                part["flop.f32"] < tiles / 64 + 0.06 and
                part["global.bytes_read"] < tiles / 64 + 0.12,
                "of all: %r, wanted %g" % (part, tiles / 64))
    _, short = lab.run("window", inputs(512, 300), "sim:h100")
    _, long = lab.run("window", inputs(1024, 300), "sim:h100")
    lab.say("count.linear", long["flop.f32"] < 2.2 * short["flop.f32"],
            "a window costs %g times as much for twice the rows" %
            (long["flop.f32"] / short["flop.f32"]))


def main():
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(folder)
        values(lab)
        counts(lab)
    sys.exit(lab.failed)


main()
