"""A product of a long depth on the simulated GPU: the same bits whether blocks
go through the depth or each split of it is a block of its own, the choice by
tiles at compile time or by dims at launch, what the counters say of blocks,
and what explain says of it (docs/fusion.md)."""
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "harness"))
from report import drawn, expect, finish  # noqa: E402

BUILD = os.environ["TDSL_TEST_BUILD"]
TDSLC = os.path.join(BUILD, "tdslc")
TEXT = """
dim H = 4, D = 600, N = 200, L = 2100
dyn T <= 4000, K <= 4096, M <= 4000
export fn decode(x: f32[2, H, D], w: bf16[N, H, D], b: f32[N], r: f32[2, N])
    -> y: f32[2, N] {
  y[t, n] = r[t, n] + max((sum[h, d] x[t, h, d] * f32(w[n, h, d])) + b[n], 0)
}
export fn rows(x: f32[T, K], w: f32[L, K], v: f32[32, K])
    -> (y: f32[T, L], z: f32[T, 32]) {
  y[t, n] = sum[k] x[t, k] * w[n, k]
  z[t, n] = sum[k] x[t, k] * v[n, k]
}
export fn large(x: f32[T, K], w: f32[M, K]) -> y: f32[T, M] {
  y[t, n] = sum[k] x[t, k] * w[n, k]
}
export fn gate(x: f32[T, K], w: f32[M, K], v: f32[M, K]) -> y: f32[T, M] {
  g[t, n] = sum[k] x[t, k] * w[n, k]
  u[t, n] = sum[k] x[t, k] * v[n, k]
  y[t, n] = max(g[t, n], 0) * u[t, n]
}
"""


class Lab:
    def __init__(self, folder):
        self.folder = folder
        self.path = os.path.join(folder, "depth.tdsl")
        with open(self.path, "w") as f:
            f.write(TEXT)

    def call(self, *args, **env):
        env = dict(os.environ, TDSL_CACHE="on",
                   TDSL_CACHE_DIR=os.path.join(BUILD, "test-cache"), **env)
        return subprocess.run([TDSLC] + list(args), capture_output=True,
                              text=True, env=env)

    def run(self, entry, dims=None, device="sim:h100", **env):
        """Results, and blocks of each kernel that ran."""
        out = os.path.join(self.folder, "out.json")
        args = ["run", self.path, "--entry", entry, "--device", device,
                "--in", "*=random:5", "--out", out, "-q"]
        if device.startswith("sim"):
            args += ["--counters"]
        for name, shape in (dims or {}).items(): # nothing is static
            args += ["--in", name + "=" + numbers(*shape)]
        done = self.call(*args, **env)
        if done.returncode != 0:
            if "NVRTC" in done.stderr:
                print("skip depth: NVRTC is not here")
                finish()
            expect("run." + entry, False, done.stderr)
            sys.exit(1)
        with open(out) as f:
            got = json.load(f)["results"]
        blocks = re.findall(r"^(k\w+[.\w]*) \(.*\)\n  grid +(\d+) x (\d+)",
                            done.stdout, re.M)
        return ({k: v["data"] for k, v in got.items()},
                {name: int(x) * int(y) for name, x, y in blocks})


def numbers(*shape):
    return json.dumps({"dtype": "f32", "shape": shape,
                       "uniform": {"seed": sum(shape), "lo": -1, "hi": 1}})


def off_by(got, want):
    return max(abs(a - b) for k in want for a, b in zip(got[k], want[k]))


def main():
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(folder)
        one, whole = lab.run("decode", TDSL_SPLITS="off")
        got, parts = lab.run("decode", TDSL_PLAN_ALLOC="separate")
        want, _ = lab.run("decode", device="interp:f64")
        expect("decode.bits", one == got)
        expect("decode.near", off_by(got, want) < 1e-4, off_by(got, want))
        expect("decode.blocks", list(whole.values()) == [4] and
               list(parts.values())[0] == 3 * 4, (whole, parts))
        for t, k, is_cut in ((1, 2500, True), (65, 2049, False)):
            dims = {"x": (t, k)}
            one, _ = lab.run("rows", dims, TDSL_SPLITS="off")
            got, blocks = lab.run("rows", dims)
            name = "rows.%d.%d" % (t, k)
            expect(name + ".bits", one == got)
            expect(name + ".form",
                   any(".parts" in n for n in blocks) == is_cut and
                   len(blocks) == (2 if is_cut else 1), blocks)
        # sums of a lane and totals beside them: twice the warps, and so the
        # bits of blocks that have one split each, without totals
        for entry, warps in (("large", "2 x 4 warps of 8 x 4 lanes, 8 x 8"),
                             ("gate", "2 x 4 warps of 8 x 4 lanes, 8 x 4")):
            if not drawn("depth_bits." + entry):
                continue
            text = lab.call("dump", "cuda", lab.path, "--entry", entry,
                            "--device", "sim:a100").stdout
            expect(entry + ".warps", warps + " sums each" in text,
                   re.findall(r"warps of.*", text))
            dims = {"x": (67, 2051), "w": (35, 2051), "v": (35, 2051)}
            if entry == "large":
                del dims["v"]
            one, whole = lab.run(entry, dims, "sim:a100", TDSL_SPLITS="off")
            got, parts = lab.run(entry, dims, "sim:a100")
            want, _ = lab.run(entry, dims, "interp:f64")
            expect(entry + ".bits", one == got)
            # terms below 1, and the gate's product of two sums below 200
            expect(entry + ".near", off_by(got, want) < 1e-2,
                   off_by(got, want))
            expect(entry + ".blocks", list(whole.values()) == [1] and
                   list(parts.values())[0] ==
                   3 * (1 if entry == "large" else 2),
                   (whole, parts))
        done = lab.call("explain", lab.path, "--device", "sim:h100")
        expect("remark.decode", re.search(
           r"remark\[split.done\]: .*own\n   = tiles: 4\n"
           r"   = multiprocessors: 132\n   = splits: 3\n"
           r"   = bytes of workspace: %d\n" % (3 * 2 * 200 * 4),
           done.stdout), done.stdout)
        expect("remark.rows", re.search(
           r"remark\[split.done\]: .*by dims at launch\n   = tiles: .*T",
           done.stdout), done.stdout)
        full = lab.call("explain", lab.path, "--device", "sim:h100",
                        "--entry", "rows", "--dim", "T=4000", "--dim",
                        "K=4096")
        expect("remark.refused", re.search(
           r"remark\[split.refused\]: .*\n   = tiles: \d+\n", full.stdout),
           full.stdout + full.stderr)
    finish()


main()
