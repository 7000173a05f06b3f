"""Machines that lack a part, or have an old or a broken one: what tdslc says
and does there. The vendor's libraries are played by tests/runtime/standin."""
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "harness"))
from report import expect, finish, lacks  # noqa: E402

TDSLC = os.environ["TDSLC"]
BUILD = os.path.join(os.environ["TDSL_TEST_BUILD"], "tests")
PROGRAM = "dyn N <= 64\nexport fn f(x: f32[N]) -> y: f32[N] {\n" \
          "  y[i] = 2 * x[i]\n}\n"
DRIVER = {"TDSL_LIBCUDA": os.path.join(BUILD, "stand_driver.so")}
NVRTC = {"TDSL_LIBNVRTC": os.path.join(BUILD, "stand_nvrtc.so")}
BOTH = dict(DRIVER, **NVRTC)
NOWHERE = {"TDSL_LIBCUDA": "/nonexistent/libcuda.so.1",
           "TDSL_LIBNVRTC": "/nonexistent/libnvrtc.so.13"}


def tdslc(arguments, folder, extra=None):
    env = dict(os.environ, TDSL_CACHE="off")
    env.update(extra or {})
    done = subprocess.run([TDSLC] + arguments, cwd=folder, env=env,
                          stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, errors="replace", timeout=500)
    return done.returncode, done.stdout + done.stderr


def run(folder, extra, *more, size=5):
    return tdslc(["run", "f.tdsl", "--in", "x=random:1", "--dim",
                  "N=%d" % size, "--device", "cuda"] + list(more), folder,
                 extra)


def lines_of(folder, name):
    try:
        with open(os.path.join(folder, name)) as f:
            return f.read().split("\n")[:-1]
    except FileNotFoundError:
        return []


def check(name, result, code, *wanted, without=()):
    got, text = result
    missing = [w for w in wanted if not re.search(w, text)]
    unwanted = [w for w in without if re.search(w, text)]
    expect(name, got == code and not missing and not unwanted,
           "exit status %d, wanted %d; missing %r; unwanted %r\n%s"
           % (got, code, missing, unwanted, text))


# --- parts that are missing -------------------------------------------------

def missing(folder):
    check("no_driver", run(folder, {"TDSL_LIBCUDA": NOWHERE["TDSL_LIBCUDA"]}),
          4, r"error\[B05\]: the CUDA driver's library cannot be loaded",
          "/nonexistent/libcuda.so.1: cannot open", "--device sim")
    sim = ["run", "f.tdsl", "--in", "x=random:1", "--dim", "N=5",
           "--device", "sim"]
    check("no_nvrtc", tdslc(sim, folder, NOWHERE), 4,
          r"error\[B05\]: NVRTC", "/nonexistent/libnvrtc.so.13: cannot open",
          "CUDA toolkit or the Python package")
    check("text_without_parts",
          tdslc(["dump", "cuda", "f.tdsl"], folder, NOWHERE), 0,
          "__global__", without=("error",))
    check("doctor_without_parts", tdslc(["doctor"], folder, NOWHERE), 0,
          r"(?m)^nvrtc +not found", r"(?m)^driver +not found",
          r"(?m)^  /nonexistent/libcuda.so.1: cannot open",
          "cannot run without NVRTC", r"(?m)^devices .*null$")
    check("version_without_parts", tdslc(["version"], folder, NOWHERE), 0,
          r"(?m)^nvrtc +not found", r"(?m)^driver +not found",
          without=("nonexistent",))
    old = {"TDSL_LIBCUDA": os.path.join(BUILD, "stand_driver_old.so")}
    check("old_driver", run(folder, old), 4,
          r"error\[B05\]: .*stand_driver_old.so has no function "
          "cuLaunchKernel", "--device sim")
    check("old_driver_doctor", tdslc(["doctor"], folder, old), 0,
          r"driver +too old, has no cuLaunchKernel")
    check("no_library_at_all",
          run(folder, {"TDSL_LIBCUDA": os.path.join(BUILD,
                                                    "stand_nvrtc.so")}),
          4, "has no cuInit")


# --- drivers that refuse ----------------------------------------------------

def refusing(folder):
    check("no_gpu", run(folder, dict(BOTH, STAND_FAIL="cuInit=100")), 4,
          r"error\[B04\]: cuda: .*there is no GPU here \(100\)",
          "--device sim")
    check("link_library", run(folder, dict(BOTH, STAND_FAIL="cuInit=34")), 4,
          "there is no GPU here", "for linking only")
    check("no_gpus", run(folder, dict(BOTH, STAND_DEVICES="0")), 4,
          "there is no GPU here")
    check("ordinal", tdslc(["run", "f.tdsl", "--in", "x=random:1", "--dim",
                            "N=5", "--device", "cuda:3"], folder, BOTH), 4,
          "there is no device 3, the last one is 0")
    check("old_gpu", run(folder, dict(BOTH, STAND_SM="61")), 4,
          r"compute capability 6\.1; 7\.5 is the least")
    check("no_context", run(folder, dict(
        BOTH, STAND_FAIL="cuDevicePrimaryCtxRetain=2")), 4,
        "making a context: out of memory")
    check("doctor_gpu", tdslc(["doctor"], folder, BOTH), 0,
          r"driver +CUDA 13\.0 \(.*stand_driver.so\)",
          r"gpu +0: Stand-in, compute capability 9\.0, 8 GiB",
          r"(?m)^devices .* cuda")
    check("doctor_no_gpu",
          tdslc(["doctor"], folder, dict(BOTH, STAND_FAIL="cuInit=100")), 0,
          r"gpu +none: no CUDA-capable device")
    json = tdslc(["doctor", "--json"], folder, BOTH)
    check("doctor_json", json, 0, r'"gpus": \["0: Stand-in')
    # Memory that ends at any request, once or for good: an error that says
    # so, or a run that did without; never a crash.
    ended = 0
    for n in range(1, 20):
        once = run(folder, dict(BOTH, STAND_FAIL="cuMemAlloc_v2@%d=2" % n))
        got = run(folder, dict(BOTH, STAND_FAIL="cuMemAlloc_v2@%d+=2" % n))
        expect("memory_once_%d" % n, once[0] in (0, 5), once)
        if got[0] == 0:
            break
        ended += 1
        check("memory_%d" % n, got, 5, "memory")
    expect("memory_ends", 2 <= ended < 19, ended)
    for call in ("cuStreamCreate", "cuModuleGetFunction", "cuLaunchKernel",
                 "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2",
                 "cuStreamSynchronize"):
        got = run(folder, dict(BOTH, STAND_FAIL=call + "@1=719"))
        expect("fails_" + call, got[0] in (4, 70), got)


def limits(folder):
    check("too_many_threads", run(folder, dict(BOTH, STAND_MAX_THREADS="16")),
          4, r"f\.tdsl:3:\d+: error\[B06\]: cuda: kernel k00_f_y has \d+ "
          r"threads a block; with its 255 registers .* takes 16")
    check("resources", run(folder, BOTH, "--verbose"), 0,
          r"cuda: kernel k00_f_y: \d+ threads, 255 registers, .* 2 blocks")
    check("unknown_resources", run(folder, dict(
        BOTH, STAND_FAIL="cuFuncGetAttribute=1")), 0)
    check("remarks", run(folder, dict(
        BOTH, STAND_NVRTC_LOG="m0(7): warning: odd")), 0,
        r"nvrtc: m0\(7\): warning: odd")


def simulated(folder):
    """The simulated driver, told to fail."""
    if lacks("nvrtc"):
        return
    cache = {"TDSL_CACHE": "on", "TDSL_CACHE_DIR": os.path.join(folder, "c")}

    def sim(mode, **more):
        return tdslc(["run", "f.tdsl", "--in", "x=random:1", "--dim", "N=5",
                      "--device", "sim"], folder,
                     dict(cache, TDSL_SIM_MODE=mode, **more))

    for n in range(1, 9):
        got = sim("fail:cuMemAlloc_v2@%d=2" % n)
        if n > 5 and got[0] == 0:
            break
        expect("sim_memory_%d" % n, got[0] in (0, 5), got)
    check("sim_little_memory", sim("mem:100"), 5, "memory")
    # what is in the cache is compiled once more before it is an error
    load = "fail:cuModuleLoadDataEx@2=218"
    check("sim_load_cached", sim(load), 0, "it cannot be loaded")
    check("sim_load", sim(load, TDSL_CACHE_DIR=os.path.join(folder, "d")), 4,
          r"error\[B06\]: sim: module m0", r"as PTX: .*\(218\)")
    # words that nobody knows: which one, and no advice to use what is in use
    check("sim_word", sim("order:sideways"), 4, r"error\[B04\]: sim: starting",
          r"= not an option: TDSL_SIM_MODE: order:sideways",
          without=("--device sim runs",))
    check("sim_fail_word", sim("fail:cuMemAllok@1=2"), 4,
          "= no call is named cuMemAllok")
    check("sim_report", sim("", TDSL_SIM_REPORT="/nonexistent/a/b"), 4,
          "= cannot write /nonexistent/a/b")
    # each intermediate in memory of its own, from its first step to its last
    apart = {"TDSL_PLAN_ALLOC": "separate"}
    queued = "fail:cuMemAllocAsync@1=2"
    with open(os.path.join(folder, "g.tdsl"), "w") as f:
        f.write("dyn N <= 64\nexport fn g(x: f32[N, 8]) -> y: f32[N] {\n"
                "  s[i] = sum[k](x[i, k])\n  m = max[i](s[i])\n"
                "  y[i] = s[N - 1 - i] - m\n}\n")

    def whole(device, more):
        return tdslc(["run", "g.tdsl", "--in", "x=random:1", "--dim", "N=21",
                      "--device", device], folder, dict(cache, **more))

    def sums(device, more):
        got = whole(device, more)
        return got[0], got[1].split("compiled")[0]

    want = sums("cpu", {})
    for device in ("cpu", "sim"):
        got = sums(device, apart)
        expect("separate_" + device, got[0] == 0 and got == want, got)
    failing = dict(apart, TDSL_SIM_MODE=queued)
    expect("arena_asks_once", sums("sim", {"TDSL_SIM_MODE": queued}) == want)
    check("separate_asks", whole("sim", failing), 5,
          "no memory on sim for s", without=("order.lifetime",))
    failing = dict(apart, TDSL_SIM_MODE="fail:cuMemFreeAsync@1=1")
    check("separate_freed", whole("sim", failing), 0, "mem.leak")
    check("sim_launch", sim("fail:cuLaunchKernel@1=719"), 70, "k00_f_y")


# --- which code the driver gets ----------------------------------------------

def choices(folder):
    def loads(extra):
        log = os.path.join(folder, "calls")
        if os.path.exists(log):
            os.remove(log)
        got = run(folder, dict(BOTH, STAND_LOG=log, **extra), "--verbose")
        kinds = [l.split()[0] for l in lines_of(folder, "calls")
                 if l.startswith("load.")]
        return got, kinds

    got, kinds = loads({})
    check("same_version", got, 0, "cuda: module m0, made for sm_90.*: "
          "machine code; .*of one version")
    expect("machine_code_first", kinds == ["load.cubin"], kinds)
    got, kinds = loads({"STAND_CUBIN": "209"})
    check("ptx_second", got, 0, "module m0, made for sm_90.*: PTX")
    expect("ptx_after_machine_code", kinds == ["load.cubin", "load.ptx"],
           kinds)
    newer = {"STAND_VERSION": "12040", "STAND_NVRTC_VERSION": "12090"}
    check("newer_nvrtc", loads(newer)[0], 0,
          "NVRTC 12.9 is newer than the driver .CUDA 12.4. within one major")
    older = {"STAND_VERSION": "13000", "STAND_NVRTC_VERSION": "12040"}
    check("older_nvrtc", loads(older)[0], 0,
          "PTX of the newest one that it knows")
    ahead = {"STAND_VERSION": "12040", "STAND_CUBIN": "209",
             "STAND_PTX": "222"}
    check("nvrtc_ahead", loads(ahead)[0], 4,
          r"error\[B06\]: cuda: module m0, made for sm_90.*, is refused",
          r"as machine code: .*\(209\)", r"as PTX: .*\(222\)",
          "a major version ahead", "take a newer driver")
    check("new_gpu", loads({"STAND_SM": "100",
                            "STAND_NVRTC_ARCHS": "75,80"})[0], 0,
          "made for sm_80")
    check("ahead_doctor", tdslc(["doctor"], folder, dict(BOTH, **ahead)), 0,
          r"(?m)^gpu code +NVRTC 13.0 is a major version ahead")


# --- memory, graphs, time --------------------------------------------------

def steps(folder):
    def calls(*more, size=5, **extra):
        log = os.path.join(folder, "calls")
        if os.path.exists(log):
            os.remove(log)
        got = run(folder, dict(BOTH, STAND_LOG=log, **extra), *more,
                  size=size)
        return got, [l.split() for l in lines_of(folder, "calls")]

    def count(list_, name):
        return sum(c[0] == name for c in list_)

    got, plain = calls("--repeat", "5", TDSL_GRAPHS="off")
    expect("plain_steps", got[0] == 0 and
           count(plain, "cuLaunchKernel") == 5 and
           count(plain, "cuGraphLaunch") == 0, plain)
    got, kept = calls("--repeat", "5")
    nodes = {c[1] for c in kept if c[0] == "cuGraphLaunch"}
    expect("graph", got[0] == 0 and count(kept, "cuLaunchKernel") == 1 and
           count(kept, "captured.cuLaunchKernel") == 1 and
           count(kept, "cuGraphLaunch") == 4 and nodes == {"1"} and
           count(kept, "cuGraphExecDestroy") == 1, kept)
    for name in ("cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2"):
        # what nobody asks for in between goes over once
        expect("once_" + name, count(kept, name) == 1, kept)
    balance = [("cuMemAlloc_v2", "cuMemFree_v2"),
               ("cuMemHostAlloc", "cuMemFreeHost"),
               ("cuStreamCreate", "cuStreamDestroy_v2"),
               ("cuEventCreate", "cuEventDestroy_v2")]
    for a, b in balance:
        expect("balance_" + a, count(kept, a) == count(kept, b), kept)
    without = {"TDSL_LIBCUDA": os.path.join(BUILD, "stand_driver_plain.so")}
    got, kept = calls("--repeat", "3", **without)
    expect("no_graphs", got[0] == 0 and count(kept, "cuLaunchKernel") == 3,
           kept)
    # a graph that cannot be had: the step is run as before
    for call in ("cuStreamBeginCapture_v2", "captured.cuLaunchKernel",
                 "cuStreamEndCapture", "cuGraphInstantiateWithFlags"):
        got, kept = calls("--repeat", "3", STAND_FAIL=call + "=900")
        expect("without_" + call, got[0] == 0 and
               count(kept, "cuLaunchKernel") == 3 and
               count(kept, "cuGraphLaunch") == 0, (got, kept))
    got, kept = calls("--repeat", "3", STAND_FAIL="cuGraphLaunch@2=719")
    expect("graph_fails", got[0] == 70, got)
    # pinned memory is a convenience
    got, kept = calls(size=64)
    expect("stage", count(kept, "cuMemHostAlloc") == 2 and
           count(kept, "cuMemFreeHost") == 2, kept)
    for call in ("cuMemHostAlloc", "cuEventCreate"):
        got, kept = calls(size=64, STAND_FAIL=call + "=2")
        expect("no_stage_" + call, got[0] == 0 and
               count(kept, "cuMemcpyHtoDAsync_v2") == 1, (got, kept))
    # every launch takes 1.25 ms of the stand-in's clock
    got, kept = calls("--repeat", "4", "--profile")
    expect("device_clock", got[0] == 0 and
           count(kept, "cuLaunchKernel") == 4 and
           re.search(r"4 +5\.000 +1250\.000", got[1]), got)


# --- NVRTC that has something to say ------------------------------------------

def complaints(folder):
    broken = dict(BOTH, STAND_NVRTC_CODE="6", STAND_NVRTC_LOG=(
        "/tdsl/f.tdsl(3): error: expected a ';'"))
    check("our_fault", run(folder, broken), 70,
          r"f\.tdsl:3:1: error\[B06\]: NVRTC refuses module m0",
          "fault of the compiler; tdsl-reproducer holds")
    names = sorted(os.listdir(os.path.join(folder, "tdsl-reproducer")))
    expect("reproducer", names == ["README", "before.tir", "f.tdsl",
                                   "m0.cu"], names)
    with open(os.path.join(folder, "tdsl-reproducer", "README")) as f:
        text = f.read()
    expect("reproducer_says", "expected a ';'" in text and
           "-arch=sm_90" in text, text)
    check("builtins", run(folder, dict(BOTH, STAND_NVRTC_CODE="7")), 4,
          r"error\[B06\]: NVRTC refuses", "libnvrtc-builtins", "LD_LIBRARY")
    check("nvrtc_memory", run(folder, dict(BOTH, STAND_NVRTC_CODE="1")), 5,
          "no memory for NVRTC")


# --- disassembly ------------------------------------------------------------

def disassembly(folder):
    tools = os.path.join(folder, "bin")
    os.mkdir(tools)
    plain = dict(NVRTC, PATH=tools, CUDA_HOME="/nonexistent",
                 CUDA_PATH="/nonexistent")
    dump = ["dump", "sass", "f.tdsl"]
    # a machine that has a toolkit under /usr/local has the real thing
    none = tdslc(dump, folder, plain)
    if none[0] != 0:
        check("no_disassembler", none, 4,
              r"error\[B05\]: no disassembler of GPU code",
              "nvdisasm in PATH: not there",
              "/nonexistent/bin/cuobjdump: not there", "dump ptx")

    def program(name, text):
        path = os.path.join(tools, name)
        with open(path, "w") as f:
            f.write("#!/bin/sh\n" + text)
        os.chmod(path, 0o755)

    program("cuobjdump", "echo other $1\n")
    if none[0] != 0:
        check("cuobjdump", tdslc(dump, folder, plain), 0, "other -sass")
    program("nvdisasm", "echo option $1; IFS= read -r a < \"$2\"; "
            "echo \"$a\"\n")
    check("nvdisasm", tdslc(dump, folder, plain), 0, "option -c",
          "ELF stand-in")
    program("nvdisasm", "echo broken; exit 3\n")
    check("nvdisasm_fails", tdslc(dump, folder, plain), 4,
          r"error\[B06\]: .*nvdisasm ends with status 3", "broken")
    program("nvdisasm", "kill -9 $$\n")
    check("nvdisasm_dies", tdslc(dump, folder, plain), 4, "status 137")
    left = [n for n in os.listdir(folder) if n.startswith("tdsl-")
            and n != "tdsl-reproducer"]
    expect("no_file_is_left", not left, left)
    check("cubin", tdslc(["dump", "cubin", "f.tdsl"], folder, NVRTC), 0,
          "ELF stand-in")


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TMPDIR"] = folder
        with open(os.path.join(folder, "f.tdsl"), "w") as f:
            f.write(PROGRAM)
        for part in (missing, refusing, limits, simulated, choices,
                     steps, complaints,
                     disassembly):
            part(folder)
    finish()


if __name__ == "__main__":
    main()
