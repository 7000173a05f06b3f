"""tdslc bench: every kernel that ran has its times and a bound; --tune leaves a
file that later compiles use and that changes no bit; a file that is damaged is
a warning; where there is no clock nothing is measured. A GPU is played by
tests/runtime/standin, whose clock says which of the forms is fast."""
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "harness"))
from report import expect, finish, lacks, need  # noqa: E402

TDSLC = os.environ["TDSLC"]
PROGRAM = """dyn M <= 300, N <= 300, K <= 300
export fn f(a: f32[M, K], b: f32[N, K], s: inout f32[N]) -> c: f32[M, N] {
  c[m, n] = sum[k] a[m, k] * b[n, k] + s[n]
  s[n] := s[n] + max[m] c[m, n]
}
"""
DIMS = ["--in", "*=random:1", "--dim", "M=93", "--dim", "N=117", "--dim",
        "K=131"]
# a depth of four splits, which two tiles of 64 x 64 may share out
LONG = """dyn M <= 200
export fn g(a: f32[M, 4096], b: f32[128, 4096]) -> c: f32[M, 128] {
  c[m, n] = sum[k] a[m, k] * b[n, k]
}
"""
BUILD = os.path.join(os.environ["TDSL_TEST_BUILD"], "tests")
STAND = {"TDSL_LIBCUDA": os.path.join(BUILD, "stand_driver.so"),
         "TDSL_LIBNVRTC": os.path.join(BUILD, "stand_nvrtc.so"),
         "TDSL_CACHE": "off", "STAND_SM": "80"}


def tdslc(folder, *args, **extra):
    env = {k: v for k, v in os.environ.items() if k != "TDSL_TUNING"}
    env.update(extra)
    done = subprocess.run([TDSLC] + list(args), cwd=folder, env=env,
                          stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=500)
    return done.returncode, done.stdout, done.stderr


def answer(folder, *more, **extra):
    """(digest of the results, what was said)"""
    got = tdslc(folder, "run", "f.tdsl", *DIMS, "--out", "out.json", *more,
                **extra)
    if got[0] != 0:
        return None, got[2]
    with open(os.path.join(folder, "out.json"), "rb") as f:
        return hashlib.sha256(f.read()).hexdigest(), got[2]


def measures(folder):
    code, out, err = tdslc(folder, "bench", "f.tdsl", *DIMS, "--repeat", "5")
    expect("table", code == 0 and out.startswith("5 runs; the machine now: ")
           and len(re.findall(r"(?m)  (arithmetic|memory) +k\d\d_f_\w+$",
                              out)) >= 2, out + err)
    code, out, err = tdslc(folder, "bench", "f.tdsl", *DIMS, "--json",
                           "--repeat", "3")
    told = json.loads(out) if code == 0 else {"kernels": [], "runs": 0}
    rows = told["kernels"]
    # the product is 2 M N K operations, whatever carries it
    expect("json", told["runs"] == 3 and max(
        [r["flops"] for r in rows] + [0]) >= 2 * 93 * 117 * 131 and all(
        0 < r["least"] <= r["p10"] <= r["median"] <= r["p90"] and
        r["bound"] > 0 for r in rows) and rows == sorted(
            rows, key=lambda r: -r["median"]) and
        told["ceiling_bytes"] > 1e8, out + err)
    for device in ("interp", "interp:kir", "null"):
        code, out, err = tdslc(folder, "bench", "f.tdsl", *DIMS, "--device",
                               device)
        expect("no_clock_" + device, code == 4 and "error[B04]" in err, err)
    for bad in (["--tune"], ["--tune", "--json", "--tuning", "t"], ["f.tdsl"],
                ["--repeat", "0"]):
        code, out, err = tdslc(folder, "bench", "f.tdsl", *DIMS, *bad)
        expect("usage_" + bad[-1].strip("-"), code == 2, out + err)


def tunes(folder):
    path = os.path.join(folder, "t.tuning")
    plain, _ = answer(folder)
    code, out, err = tdslc(folder, "bench", "f.tdsl", *DIMS, "--tune",
                           "--tuning", path, "--repeat", "2")
    expect("tunes", code == 0 and re.search(
        r"\d+ forms tried, \d+ kernels of \d+ faster", out) and
        os.path.exists(path), out + err)
    expect("the_file_is_taken", answer(folder, TDSL_TUNING=path) ==
           (plain, ""), path)
    with open(path, "r+b") as f:
        text = f.read()
        f.seek(len(text) // 2)
        f.write(bytes([text[len(text) // 2] ^ 1]))
    same, told = answer(folder, "--tuning", path)
    expect("damaged_is_a_warning", same == plain and re.search(
        r"warning\[W07\]: \S+t.tuning is not used: it is damaged", told),
        told)
    with open(path, "w") as f:
        f.write("tdsl tuning 9\n")
    same, told = answer(folder, "--tuning", path)
    expect("of_another_version", same == plain and "another version" in told,
           told)
    same, told = answer(folder, "--tuning", "nowhere")
    expect("missing_is_a_warning", same == plain and
           "warning[W07]: nowhere is not used: there is no such file" in told,
           told)


# --- a GPU -------------------------------------------------------------------

def made(folder, program, dims, times, path, sm="80"):
    """The search where launches of so many thread blocks take so long."""
    return tdslc(folder, "bench", program, "--in", "*=random:1", *dims,
                 "--device", "cuda", "--tune", "--tuning", path, "--repeat",
                 "2", **dict(STAND, STAND_TIMES=times, STAND_SM=sm))


def tile_of(folder, program, dims, *more):
    code, out, err = tdslc(folder, "dump", "cuda", program, "--device",
                           "cuda", *dims, *more)
    return re.findall(r"a block makes (\d+ x \d+)", out), err


def on_gpu(folder):
    dims = ["--dim", "M=192", "--dim", "N=288", "--dim", "K=131"]
    path = os.path.join(folder, "g.tuning")
    # 192 x 288 has 15 tiles of 64 x 64, which is the choice without a file,
    # 54 of 32 x 32 and 18 of 128 x 32; no other tiles are so many
    code, out, err = made(folder, "f.tdsl", dims, "54=0.5", path)
    expect("gpu_tile", code == 0 and "k00_f_c: by rule -> 32x32, x2.500\n"
           in out and out.count("as it is") == 2, out + err)
    with open(path) as f:
        text = f.read()
    expect("gpu_row", re.search(r"(?m)^sm_80 [0-9a-f]{32} mc 32 nc 32 kc 0 "
                                r"stages 0 splits rule gain 2500 k00_f_c$",
                                text) and text.count("sm_80") == 1, text)
    was = tile_of(folder, "f.tdsl", dims)
    now = tile_of(folder, "f.tdsl", dims, "--tuning", path)
    expect("gpu_compile_takes_it", (was, now) ==
           ((["64 x 64"], ""), (["32 x 32"], "")), (was, now))
    # a row serves its machine, and a kernel of its content
    other = dims[:5] + ["K=132"]
    expect("gpu_other_kernel", tile_of(folder, "f.tdsl", other) ==
           tile_of(folder, "f.tdsl", other, "--tuning", path))
    # of two machines in one file each has its own
    code, out, err = made(folder, "f.tdsl", dims, "18=0.5", path, sm="90")
    with open(path) as f:
        text = f.read()
    expect("gpu_two_machines", code == 0 and re.search(
        r"(?m)^sm_80 .* mc 32 nc 32 ", text) and re.search(
        r"(?m)^sm_90a .* mc 128 nc 32 ", text) and
        tile_of(folder, "f.tdsl", dims, "--tuning", path) == now, text)
    # nothing is faster: the file has no row
    code, out, err = made(folder, "f.tdsl", dims, "", path + "0")
    with open(path + "0") as f:
        expect("gpu_nothing_faster", code == 0 and "0 kernels of 3" in out
               and len(f.read().split("\n")) == 3, out + err)
    refused(folder, dims, path, was, text)


def refused(folder, dims, path, was, text):
    """Rows that were edited, or are for something else."""
    for name, a, b, why in (
            ("edited", "mc 32 nc 32", "mc 64 nc 32", "damaged, or was edited"),
            ("foreign", "sm_80 ", "sm_33 ", "damaged, or was edited")):
        with open(path + "1", "w") as f:
            f.write(text.replace(a, b, 1))
        tile, told = tile_of(folder, "f.tdsl", dims, "--tuning", path + "1")
        expect("gpu_" + name, a in text and tile == was[0] and re.search(
            r"warning\[W07\]: \S+ is not used: it is " + why, told), told)


def splits(folder):
    dims = ["--dim", "M=100"]
    path = os.path.join(folder, "l.tuning")
    dump = ["dump", "cuda", "l.tdsl", "--device", "cuda"] + dims
    plain = tdslc(folder, *dump)[1]
    # 4 tiles of 64 x 64 of 4 splits each, and a merge: two launches. One
    # launch of those 4 tiles takes half of their time.
    code, out, err = made(folder, "l.tdsl", dims, "", path)
    expect("gpu_splits_off", code == 0 and re.search(
        r"k00_g_c\S*: by rule -> splits off, x2\.000", out), out + err)
    tuned = tdslc(folder, *dump, "--tuning", path)[1]
    expect("gpu_one_kernel", (plain.count("__global__"),
                              tuned.count("__global__")) == (2, 1), tuned)


def simulated(folder):
    if lacks("nvrtc"):
        return
    for more in ([], ["--tune", "--tuning", "s.tuning"]):
        code, out, err = tdslc(folder, "bench", "f.tdsl", *DIMS, "--device",
                               "sim:a100", *more)
        expect("sim_has_no_clock" + "_".join(more[:1]), code == 4 and
               "the simulated GPU has no clock" in err and
               not os.path.exists(os.path.join(folder, "s.tuning")),
               out + err)
    # a file that was made on a GPU: other kernels, equal bits
    on_sim = ["run", "l.tdsl", "--in", "*=random:1", "--dim", "M=37",
              "--device", "sim:a100", "--counters", "--json"]
    path = os.path.join(folder, "m.tuning")
    # 37 x 128 has 8 tiles of 32 x 32
    code, out, err = made(folder, "l.tdsl", ["--dim", "M=37"], "8=0.5", path)
    expect("gpu_two_changes", ": by rule -> 32x32, splits off, x3.500" in out,
           out + err)
    texts, seen = [], []
    for more in ([], ["--tuning", path]):
        got = tdslc(folder, *on_sim, "--out", "o.json", *more)
        with open(os.path.join(folder, "o.json"), "rb") as f:
            texts.append(f.read())
        seen.append(got)
    expect("sim_equal_bits", texts[0] == texts[1] and
           seen[0][:1] == seen[1][:1] == (0,) and
           seen[0][1] != seen[1][1], (out, err, seen))


def main():
    need("llvm")
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "f.tdsl"), "w") as f:
            f.write(PROGRAM)
        measures(folder)
        tunes(folder)
        with open(os.path.join(folder, "l.tdsl"), "w") as f:
            f.write(LONG)
        on_gpu(folder)
        splits(folder)
        simulated(folder)
    finish()


if __name__ == "__main__":
    main()
