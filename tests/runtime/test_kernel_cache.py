"""The kernel cache as a user meets it: equal results with and without it,
nothing compiled twice, damage repaired, and `tdslc cache`."""
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
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
BUILD = os.path.join(os.environ["TDSL_TEST_BUILD"], "tests")
SOFTMAX = os.path.join(ROOT, "stdlib", "softmax.tdsl")
PROGRAM = """dyn N <= 64
export fn f(x: f32[N]) -> (y: f32[N], s: f32) {
  y[i] = exp(2 * x[i])
  s = sum[i] y[i]
}
"""
STAND = {"TDSL_LIBCUDA": os.path.join(BUILD, "stand_driver.so"),
         "TDSL_LIBNVRTC": os.path.join(BUILD, "stand_nvrtc.so")}


def tdslc(arguments, folder, **extra):
    env = {k: v for k, v in os.environ.items()
           if k not in ("TDSL_CACHE", "XDG_CACHE_HOME")}
    env.update(HOME=os.path.join(folder, "home"), **extra)
    done = subprocess.run([TDSLC] + arguments, cwd=folder, env=env,
                          stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, errors="replace", timeout=500)
    return done.returncode, done.stdout + done.stderr


def run(folder, device, *more, **extra):
    return tdslc(["run", "f.tdsl", "--in", "x=random:3", "--dim", "N=37",
                  "--device", device, "--out", "out.json"] + list(more),
                 folder, **extra)


def result(folder):
    with open(os.path.join(folder, "out.json")) as f:
        return json.load(f)["results"]


def entries(path):
    return sorted(n for n in os.listdir(path) if n.endswith(".tdk"))


def damage(path, name):
    with open(os.path.join(path, name), "r+b") as f:
        f.seek(200)
        byte = f.read(1)
        f.seek(200)
        f.write(bytes([byte[0] ^ 64]))


def has(text, *patterns):
    return all(re.search(p, text) for p in patterns)


# --- with and without ---------------------------------------------------------

def same_results(folder, devices):
    home = os.path.join(folder, "home", ".cache", "tdsl")
    run(folder, "interp")
    expect("interp_uses_none", not os.path.exists(home))
    for device in devices:
        got = run(folder, device, TDSL_CACHE="off")
        want = result(folder)
        first = len(entries(home)) if os.path.exists(home) else 0
        expect(device + "_off", got[0] == 0, got)
        got = run(folder, device)
        expect(device + "_cold", got[0] == 0 and result(folder) == want, got)
        expect(device + "_entry", len(entries(home)) == first + 1,
               os.listdir(home))
        got = run(folder, device, "--cache", "require")
        expect(device + "_warm", got[0] == 0 and result(folder) == want and
               "warning" not in got[1], got)
        for name in entries(home):
            damage(home, name)
        got = run(folder, device)
        expect(device + "_repaired", got[0] == 0 and
               result(folder) == want and
               has(got[1], r"warning\[W06\]: entry \w+.tdk of the kernel "
                   "cache is made anew: its hash"), got)
        got = run(folder, device)
        expect(device + "_whole_again", got[0] == 0 and
               result(folder) == want and "warning" not in got[1], got)
    expect("owner_only", os.stat(home).st_mode & 0o777 == 0o700)


def compiled_once(folder):
    """A line a compilation, by the stand-in for NVRTC."""
    count = os.path.join(folder, "compiled")
    extra = dict(STAND, STAND_NVRTC_COUNT=count)

    def lines():
        with open(count) as f:
            return len(f.readlines())

    for n in range(3):
        run(folder, "cuda", **extra)
    expect("compiled_once", lines() == 1, lines())
    # another version of the compiler, or another machine, is another entry
    run(folder, "cuda", STAND_NVRTC_VERSION="12090", **extra)
    run(folder, "cuda", STAND_NVRTC_VERSION="12090", **extra)
    expect("version_counts", lines() == 2, lines())
    run(folder, "cuda", STAND_SM="80", **extra)
    run(folder, "cuda", STAND_SM="80", **extra)
    expect("machine_counts", lines() == 3, lines())
    # what the driver refuses of the cache is compiled once more; what it
    # refuses then is an error
    got = run(folder, "cuda", STAND_CUBIN="200", STAND_PTX="218", **extra)
    expect("refused", got[0] == 4 and lines() == 4 and
           has(got[1], "cannot be loaded", r"error\[B06\]"), got)
    got = run(folder, "cuda", STAND_NVRTC_LOG="m0(1): warning: x",
              STAND_NVRTC_VERSION="12080", **extra)
    run(folder, "cuda", STAND_NVRTC_VERSION="12080", **extra)
    expect("remarks_are_not_kept", lines() == 6, lines())
    got = run(folder, "cuda", "--cache", "require", STAND_SM="75", **extra)
    expect("require", got[0] == 4 and lines() == 6 and
           has(got[1], r"error\[B12\]", "nearest entry differs in arch: "
               "'sm_90a?' there, 'sm_75' wanted|'sm_80' there"), got)


# --- what a key is made of ----------------------------------------------------

KEYED = """import helper (twice)
const C = 3
dim N = %(n)s
export fn f(x: %(dtype)s[N]) -> y: %(dtype)s[N] { y[i] = twice(C * x[i]) }
export fn g(x: f32[N]) -> y: f32 { y = sum[i] x[i] }
"""
MOVED = """// the same once more
import helper (twice)
export fn g(x: f32[N]) -> y: f32 { y = sum[i] x[i] }


dim N = 8      // eight
export fn f(x: f32[N]) -> y: f32[N] {
  // thrice, and twice
  y[i] = twice(C * x[i])
}
const C = 3
"""
HELPER = "fn twice(x: f32) -> y: f32 { y = x + x }\n"


def keys(folder, device):
    """Entries that are added by a change, and by what is none."""
    home = os.path.join(folder, "keys-" + device)
    lib = os.path.join(folder, "lib")
    os.makedirs(os.path.join(folder, "elsewhere"), exist_ok=True)
    os.makedirs(lib, exist_ok=True)

    def write(name, text):
        with open(os.path.join(folder, name), "w") as f:
            f.write(text)

    def added(name, *more, **extra):
        before = len(entries(home)) if os.path.exists(home) else 0
        if device == "cuda":
            extra = dict(STAND, **extra)
        got = tdslc(["run", name, "--entry", "f", "--in", "x=random:1",
                     "--lib", "lib", "--device", device] + list(more), folder,
                    TDSL_CACHE_DIR=home, **extra)
        if got[0] != 0:
            expect("%s_key_run" % device, False, got)
        return len(entries(home)) - before

    plain = {"n": "8", "dtype": "f32"}
    write("lib/helper.tdsl", HELPER)
    write("k.tdsl", KEYED % plain)
    expect(device + "_key_first", added("k.tdsl") == 1)
    write("other.tdsl", KEYED % plain)
    write("elsewhere/k.tdsl", KEYED % plain)
    write("moved.tdsl", MOVED)
    for name in ("k.tdsl", "other.tdsl", "elsewhere/k.tdsl", "moved.tdsl"):
        expect("%s_key_stays_%s" % (device, name), added(name) == 0)
    os.utime(os.path.join(folder, "k.tdsl"), (1, 1))
    expect(device + "_key_has_no_time", added("k.tdsl") == 0)
    write("dim.tdsl", KEYED % dict(plain, n="9"))
    expect(device + "_key_has_dims", added("dim.tdsl") == 1)
    write("dtype.tdsl", KEYED % dict(plain, dtype="f16"))
    expect(device + "_key_has_dtypes", added("dtype.tdsl") == 1)
    write("lib/helper.tdsl", HELPER.replace("x + x", "x + x + x"))
    expect(device + "_key_has_imports", added("k.tdsl") == 1)
    write("lib/helper.tdsl", HELPER)
    if device == "cpu":
        expect("cpu_key_has_the_machine",
               added("k.tdsl", "--device", "cpu:x86-64-v2") == 1)
    else:
        expect("cuda_key_has_the_machine", added("k.tdsl", STAND_SM="80") == 1)
        expect("cuda_key_has_the_version",
               added("k.tdsl", STAND_NVRTC_VERSION="12090") == 1)
    expect(device + "_key_is_found_again", added("k.tdsl") == 0)


# --- folders ------------------------------------------------------------------

def folders(folder):
    def at(path, **extra):
        return run(folder, "cpu", TDSL_CACHE_DIR=path, **extra)

    shared = os.path.join(folder, "shared")
    os.mkdir(shared)
    os.chmod(shared, 0o777)
    got = at(shared)
    expect("shared_folder", got[0] == 0 and
           has(got[1], r"warning\[W06\]: .*others may write to it") and
           not entries(shared), got)
    got = at(shared, TDSL_CACHE="require")
    expect("shared_folder_required", got[0] == 4 and
           has(got[1], r"error\[B09\]"), got)
    got = tdslc(["cache", "ls"], folder, TDSL_CACHE_DIR=shared)
    expect("shared_folder_listed", got[0] == 4 and
           has(got[1], r"error\[B09\]"), got)
    xdg = os.path.join(folder, "xdg")
    got = run(folder, "cpu", XDG_CACHE_HOME=xdg)
    expect("xdg", got[0] == 0 and len(entries(xdg + "/tdsl")) == 1, got)
    got = at("/proc/nowhere")
    expect("no_folder", got[0] == 0 and has(got[1], r"warning\[W06\]"), got)
    got = run(folder, "cpu", TDSL_CACHE="sometimes")
    expect("odd_mode", got[0] == 0 and
           has(got[1], "on, off or require, not 'sometimes'"), got)
    got = run(folder, "cpu", "--cache", "sometimes")
    expect("odd_option", got[0] == 2, got)


# --- tdslc cache --------------------------------------------------------------

def command(folder):
    path = os.path.join(folder, "kept")

    def cache(*arguments, **extra):
        return tdslc(["cache"] + list(arguments), folder,
                     TDSL_CACHE_DIR=path, **extra)

    got = cache("stat")
    expect("stat_of_nothing", got[0] == 0 and has(got[1], "entries  0 ") and
           not os.path.exists(path), got)
    run(folder, "cpu", TDSL_CACHE_DIR=path)
    run(folder, "cuda", TDSL_CACHE_DIR=path, **STAND)
    got = cache("ls")
    lines = got[1].split("\n")
    expect("ls", got[0] == 0 and len(lines) == 3 and
           has(lines[0], r"^\w{32} +\d+  kind=cuda, nvrtc=13.0 \S+, "
               r"arch=sm_90a?, .* of \S") and
           has(lines[1], r"^\w{32} +\d+  kind=cpu, compiler=llvm"), got)
    listed = json.loads(cache("ls", "--json")[1])
    expect("ls_json", [e["fields"]["kind"] for e in listed["entries"]] ==
           ["cuda", "cpu"] and listed["entries"][0]["defect"] is None and
           "ptx" in listed["entries"][0]["parts"], listed)
    got = cache("stat")
    expect("stat", has(got[1], re.escape(path), r"2 \(1 cpu, 1 cuda, 0 dam",
                       "limit    1073741824"), got)
    expect("stat_json", json.loads(cache("stat", "--json")[1])["entries"]
           == 2)
    got = cache("verify")
    expect("verify", got == (0, "2 entries, 0 damaged\n"), got)
    name = entries(path)[0]
    damage(path, name)
    got = cache("verify")
    expect("verify_damaged", got[0] == 3 and
           has(got[1], name + r": error\[F72\]: .*hash", "1 damaged"), got)
    got = cache("prune")
    expect("prune_damaged", got == (0, "1 files removed\n") and
           name not in entries(path), got)
    for i in range(40):     # 1 MiB is the least limit: entries of 30 KiB
        with open(os.path.join(path, "%032x.tdk" % i), "wb") as f:
            f.write(b"x" * 30000)
        os.utime(f.name, (i + 1, i + 1))
    run(folder, "cpu", "--plan", "serial", TDSL_CACHE_DIR=path,
        TDSL_CACHE_LIMIT="1")
    left = entries(path)
    expect("limit_is_kept", sum(os.path.getsize(os.path.join(path, n))
                                for n in left) <= 1 << 20 and
           len(left) > 30 and "%032x.tdk" % 0 not in left and
           "%032x.tdk" % 39 in left, left)
    got = cache("prune", "--limit", "1")
    expect("prune", got[0] == 0 and len(entries(path)) < 5, entries(path))
    got = cache("clear")
    expect("clear", got[0] == 0 and not entries(path), got)
    for bad in (["lss"], [], ["prune", "--limit", "0"], ["ls", "stat"]):
        expect("usage_" + "_".join(bad), cache(*bad)[0] == 2, bad)


def main():
    need("llvm")
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "f.tdsl"), "w") as f:
            f.write(PROGRAM)
        same_results(folder, ["cpu"] if lacks("nvrtc") else ["cpu", "sim"])
        compiled_once(folder)
        keys(folder, "cpu")
        keys(folder, "cuda")
        folders(folder)
        command(folder)
    finish()


if __name__ == "__main__":
    main()
