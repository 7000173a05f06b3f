"""A row has the same bits whether a block walks its whole axis or splits of
the axis are blocks of their own, which a second kernel merges: prefill and
decode, each number of threads, lengths around the ends of splits, and with
what masks empty (docs/language.md 9.3 and 9.4)."""
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "harness"))
from report import drawn  # noqa: E402

BUILD = os.environ["TDSL_TEST_BUILD"]
TDSLC = os.path.join(BUILD, "tdslc")
TEXT = """
dim H = 3, D = 16
dyn T <= 64, S <= 16384
fn rows[N, M](q: f32[N, H, D], k: f32[M, H, D], v: f32[M, H, D], n: i32)
    -> (o: f32[N, H, D], z: f32[N, H]) {
  s[t, h, u] = if u < n then (sum[i] q[t, h, i] * k[u, h, i]) / sqrt(f32(D))
               else -inf
  m[t, h] = max[u] s[t, h, u]
  e[t, h, u] = if m[t, h] == -inf then 0 else exp(s[t, h, u] - m[t, h])
  l[t, h] = sum[u] e[t, h, u]
  o[t, h, d] = if l[t, h] == 0 then 0
               else (sum[u] e[t, h, u] * v[u, h, d]) / l[t, h]
  z[t, h] = if l[t, h] == 0 then 0
            else (sum[u] e[t, h, u] * k[u, h, 0]) / l[t, h]
}
fn make_q[N](x: f32[N]) -> q: f32[N, H, D] {
  q[t in N, h in H, i in D] = 6 * uniform(1, t, h, i) - 3
}
fn make_k[M](y: f32[M]) -> k: f32[M, H, D] {
  k[u in M, h in H, i in D] = 6 * uniform(2, u, h, i) - 3
}
fn make_v[M](y: f32[M]) -> v: f32[M, H, D] {
  v[u in M, h in H, i in D] = 2 * uniform(3, u, h, i) - 1
}
export fn prefill(x: f32[T], y: f32[S], n: i32)
    -> (o: f32[T, H, D], z: f32[T, H]) {
  o, z = rows(make_q(x), make_k(y), make_v(y), n)
}
export fn decode(x: f32[1], y: f32[S], n: i32)
    -> (o: f32[1, H, D], z: f32[1, H]) {
  o, z = rows(make_q(x), make_k(y), make_v(y), n)
}
export fn moments(y: f32[S]) -> (mean: f32, va: f32, lse: f32) {
  x[u in S] = 9 * uniform(4, u) + 100
  mean = (sum[u] x[u]) / S
  va = (sum[u] (x[u] - mean) ^ 2) / S
  m = max[u] x[u]
  lse = m + log(sum[u] exp(x[u] - m))
}
"""


class Lab:
    def __init__(self, folder):
        self.folder, self.failed = folder, 0
        self.path = os.path.join(folder, "splits.tdsl")
        with open(self.path, "w") as f:
            f.write(TEXT)

    def say(self, name, good, detail=""):
        print("%s %s" % ("ok" if good else "not ok", name))
        if not good:
            print("  " + str(detail)[:500])
            self.failed = 1

    def dump(self, entry):
        return subprocess.run([TDSLC, "dump", "kir", self.path, "--entry",
                               entry], capture_output=True, text=True).stdout

    def run(self, entry, n=None, device="cpu", dims=None, blocks=None, **env):
        out = os.path.join(self.folder, "out.json")
        args = ["--in", "*=random:1"]
        args += ["--counters"] if blocks is not None else []
        args += ["--in", "n=%d" % n] if n is not None else []
        if blocks is None:
            for item in (dims or {}).items():
                args += ["--dim", "%s=%d" % item]
        else: # dims of the arguments: the program knows their bounds alone
            args += ["--in", "x=" + numbers(dims["T"]),
                     "--in", "y=" + numbers(dims["S"])]
        env = dict(os.environ, TDSL_CACHE="on",
                   TDSL_CACHE_DIR=os.path.join(BUILD, "test-cache"), **env)
        done = subprocess.run([TDSLC, "run", self.path, "--entry", entry,
                               "--device", device, "--out", out, "-q"] + args,
                              capture_output=True, text=True, env=env)
        if done.returncode != 0:
            return None, done.stderr
        if blocks is not None:
            found = re.findall(r"^(k\w+[.\w]*) \(.*\)\n  grid +(\d+)",
                               done.stdout, re.M)
            blocks.update((name, int(count)) for name, count in found)
        with open(out) as f:
            got = json.load(f)["results"]
        return {k: v["data"] for k, v in got.items()}, ""


def numbers(*shape):
    return json.dumps({"dtype": "f32", "shape": shape,
                       "uniform": {"seed": 3, "lo": -1, "hi": 1}})


def first(got):
    """The first of the rows."""
    return {"o": got["o"][:48], "z": got["z"][:3]}


def lazy(lab, one, text):
    """A maximum that moves by leaps: other bits, and the same ones for a row
    of many, whatever follows it, and of any number of threads."""
    env = {"TDSL_CASCADES": "lazy"}
    some, why = lab.run("decode", 2500, dims={"S": 4100}, **env)
    rows, more = lab.run("prefill", 2500, dims={"T": 7, "S": 4100}, **env)
    lab.say("lazy.rows", some and rows and first(rows) == some, why + more)
    lab.say("lazy.other", some != one, "nothing is lazy")
    longer, why = lab.run("decode", 2500, dims={"S": 2500}, **env)
    lab.say("lazy.length", longer == some, why)
    thread, why = lab.run("decode", 2500, dims={"S": 4100},
                          TDSL_THREADS="1", **env)
    lab.say("lazy.threads", thread == some, why)
    worst = max(abs(a - b) for k in text for a, b in zip(some[k], text[k]))
    lab.say("lazy.text", worst < 5e-6, "off by %g" % worst)


def main():
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(folder)
        lab.say("form.decode", "merge of splits" in lab.dump("decode"),
                "decode has no kernel that merges")
        lab.say("form.prefill", "merge of splits" not in lab.dump("prefill"))
        long, why = lab.run("prefill", 2500, dims={"T": 7, "S": 4100})
        one, more = lab.run("decode", 2500, dims={"S": 4100})
        lab.say("decode", long and one and first(long) == one, why + more)
        thread, _ = lab.run("decode", 2500, dims={"S": 4100},
                            TDSL_THREADS="1")
        lab.say("threads", thread == one)
        for n in (0, 1, 1023, 1024, 1025, 2048, 2049):
            if not drawn("split_bits.length.%d" % n):
                continue
            short, why = lab.run("decode", n, dims={"S": max(n, 1)})
            cache, more = lab.run("prefill", n, dims={"T": 2, "S": 3000})
            lab.say("length.%d" % n,
                    short and cache and short == first(cache), why + more)
        want, _ = lab.run("decode", 2500, "interp:f64", {"S": 4100})
        text, _ = lab.run("decode", 2500, dims={"S": 4100},
                          TDSL_DISABLE_PASS="find-cascades")
        for name, other in (("oracle", want), ("text", text)):
            worst = max(abs(a - b) for k in one
                        for a, b in zip(one[k], other[k]))
            lab.say(name, worst < 5e-6, "off by %g" % worst)
        lazy(lab, one, text)
        want, _ = lab.run("moments", None, "interp:f64", {"S": 5000})
        got, _ = lab.run("moments", None, dims={"S": 5000})
        worst = max(abs(want[k][0] - got[k][0]) / abs(want[k][0])
                    for k in want)
        lab.say("moments", worst < 2e-6, "off by %g" % worst)
        sim, why = lab.run("decode", 1500, "sim:h100", {"S": 2100})
        if sim is None and "NVRTC" in why:
            sys.exit(lab.failed)
        rows, more = lab.run("prefill", 1500, "sim:h100",
                             {"T": 2, "S": 2100})
        lab.say("sim", sim and rows and sim == first(rows), why + more)
        # of 3 * T rows, 132 and more fill the machine: dims choose at launch
        for t, s, is_cut in ((1, 2100, True), (43, 1025, True),
                             (44, 2100, False), (1, 1024, False)):
            if not drawn("split_bits.launch.%d.%d" % (t, s)):
                continue
            dims, blocks = {"T": t, "S": s}, {}
            whole, why = lab.run("prefill", s - 50, "sim:h100", dims, {},
                                 TDSL_SPLITS="off")
            rows, more = lab.run("prefill", s - 50, "sim:h100", dims, blocks)
            name = "launch.%d.%d" % (t, s)
            lab.say(name + ".bits", whole and whole == rows, why + more)
            parts = [n for k, n in blocks.items() if k.endswith(".split")]
            lab.say(name + ".blocks",
                    len(parts) == is_cut and
                    all(n > t * 3 // 8 for n in parts), blocks)
    sys.exit(lab.failed)


main()
