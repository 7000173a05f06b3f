"""tdslc bench: every kernel that ran has its times and a bound; --tune leaves a
file that later compiles use and that changes no bit; a file that is damaged is
a warning; where there is no clock nothing is measured."""
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile

TDSLC = os.environ["TDSLC"]
PROGRAM = """dyn M <= 300, N <= 300, K <= 300
export fn f(a: f32[M, K], b: f32[N, K], s: inout f32[N]) -> c: f32[M, N] {
  c[m, n] = sum[k] a[m, k] * b[n, k] + s[n]
  s[n] := s[n] + max[m] c[m, n]
}
"""
DIMS = ["--in", "*=random:1", "--dim", "M=93", "--dim", "N=117", "--dim",
        "K=131"]
failed = []


def expect(name, truth, detail=""):
    print(("ok " if truth else "not ok ") + name
          + ("" if truth else "\n%s" % (detail,)))
    if not truth:
        failed.append(name)


def tdslc(folder, *args, **extra):
    env = {k: v for k, v in os.environ.items() if k != "TDSL_TUNING"}
    env.update(extra)
    done = subprocess.run([TDSLC] + list(args), cwd=folder, env=env,
                          stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=100)
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


def simulated(folder):
    version = tdslc(folder, "version")[1]
    if re.search(r"nvrtc +not found", version):
        return
    for more in ([], ["--tune", "--tuning", "s.tuning"]):
        code, out, err = tdslc(folder, "bench", "f.tdsl", *DIMS, "--device",
                               "sim:a100", *more)
        expect("sim_has_no_clock" + "_".join(more[:1]), code == 4 and
               "the simulated GPU has no clock" in err and
               not os.path.exists(os.path.join(folder, "s.tuning")),
               out + err)


def main():
    if re.search(r"llvm +not built in", tdslc(".", "version")[1]):
        print("needs llvm")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "f.tdsl"), "w") as f:
            f.write(PROGRAM)
        measures(folder)
        tunes(folder)
        simulated(folder)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
