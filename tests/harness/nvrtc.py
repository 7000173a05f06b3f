"""NVRTC over the CUDA C of the whole corpus: for our own text its log has to
say nothing but what a kernel takes, which must not be spilled (resources.py),
and its PTX has to round every sum and product. The library is opened here, by
its public functions, apart from the run time's own use of it. A text once
found clean is not compiled again: its hash is kept in the build folder.
"""
import ctypes
import glob
import hashlib
import json
import os
import re
import zlib

import accepted
import cases
import programs
import resources
import vectors

# A machine of the simulator for each architecture that we write code for.
ROWS = (("sm_75", "t4"), ("sm_80", "a100"), ("sm_86", "a10"),
        ("sm_89", "l4"), ("sm_90a", "h100"), ("sm_100", "b200"))
FLAGS = ("-std=c++17", "--fmad=false", "-lineinfo")
VERBOSE = ("--ptxas-options=-v",)
# Part of the key of what was found clean: one more with each new rule.
RULES = "3"
# Sums and products without a rounding, which ptxas may fuse into one step.
LOOSE = re.compile(r"\b(?:add|sub|mul)(?:\.ftz|\.sat)*\.f(?:32|64)\b")
CHUNK = 12             # programs of one job
RANDOM_PROGRAMS = 24


class Nvrtc:
    """The library; None in `handle` if there is none."""

    def __init__(self):
        self.handle = None
        for path in self.candidates():
            try:
                self.handle = ctypes.CDLL(path)
                break
            except OSError:
                continue

    @staticmethod
    def candidates():
        if "TDSL_LIBNVRTC" in os.environ:
            return [os.environ["TDSL_LIBNVRTC"]]
        names = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"]
        for pattern in ("/usr/local/cuda*/lib64/libnvrtc.so",
                        "/usr/local/cuda*/lib/libnvrtc.so",
                        "/usr/lib/python3*/*-packages/nvidia/*/lib/"
                        "libnvrtc.so.1?",
                        "/usr/local/lib/python3*/*-packages/nvidia/*/lib/"
                        "libnvrtc.so.1?"):
            names += sorted(glob.glob(pattern), reverse=True)
        return names

    def version(self):
        major, minor = ctypes.c_int(), ctypes.c_int()
        self.handle.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
        return "%d.%d" % (major.value, minor.value)

    def knows(self, arch):
        count = ctypes.c_int()
        if self.handle.nvrtcGetNumSupportedArchs(ctypes.byref(count)):
            return True
        list_ = (ctypes.c_int * count.value)()
        self.handle.nvrtcGetSupportedArchs(list_)
        return int(re.sub(r"\D", "", arch)) in list(list_)

    def compile(self, text, arch, more=()):
        """(result code, log, PTX)"""
        program = ctypes.c_void_p()
        self.handle.nvrtcCreateProgram(ctypes.byref(program), text.encode(),
                                       b"corpus", 0, None, None)
        flags = [("-arch=" + arch).encode()] + [f.encode() for f in FLAGS]
        flags += [f.encode() for f in more]
        code = self.handle.nvrtcCompileProgram(
            program, len(flags), (ctypes.c_char_p * len(flags))(*flags))
        size = ctypes.c_size_t()
        self.handle.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value + 1)
        self.handle.nvrtcGetProgramLog(program, log)
        self.handle.nvrtcGetPTXSize(program, ctypes.byref(size))
        ptx = ctypes.create_string_buffer(size.value + 1)
        if code == 0:
            self.handle.nvrtcGetPTX(program, ptx)
        self.handle.nvrtcDestroyProgram(ctypes.byref(program))
        return (code, log.value.decode("utf-8", "replace").strip(),
                ptx.value.decode("utf-8", "replace"))


LIBRARY = []    # one a process


def library():
    if not LIBRARY:
        LIBRARY.append(Nvrtc())
    return LIBRARY[0]


class Program:
    def __init__(self, title, path, text, fn, dims=None, config=None):
        self.title, self.path, self.text = title, path, text
        self.fn, self.dims, self.config = fn, dims or {}, config


def corpus(env, count):
    """Programs of the corpus, each once."""
    out = {}

    def add(title, path, text, fn, dims=None, config=None):
        key = (path or text, fn, json.dumps(dims, sort_keys=True),
               json.dumps(config, sort_keys=True))
        out.setdefault(key, Program(title, path, text, fn, dims, config))

    for name in vectors.PROGRAMS:
        path = vectors.program_path(env, name)
        for case in vectors.load(env, name)["cases"]:
            add("%s.%s" % (name, case["name"]), path, None, case["fn"],
                case.get("dims"), case.get("config"))
    for case in cases.all_cases(env):
        if "sim" not in case.engines:
            continue
        path = os.path.join(env.tests, "exec", case.file + ".tdsl")
        add(case.name, None if case.source else path, case.source, case.fn,
            case.dims)
    for title, text, fn in accepted.programs(env):
        add(title, None, text, fn, accepted.dims_of(title, text))
    for seed in range(count):
        case = programs.draw(env, seed, programs.store(env))
        add("seed.%d" % seed, None, case["source_text"], case["fn"],
            case.get("dims"))
    return list(out.values())


def discover(env, is_full):
    """Every program for every architecture, or a quarter of the programs
    for one each."""
    count = len(corpus(env, 0)) + RANDOM_PROGRAMS
    for first in range(0, count, CHUNK):
        yield ("codegen", "nvrtc.%d" % first, run_chunk,
               (first, is_full), 20)


def run_chunk(env, first, is_full):
    if library().handle is None:
        return [("nvrtc.%d" % first, "skip", "needs nvrtc")]
    out = []
    for program in corpus(env, RANDOM_PROGRAMS)[first:first + CHUNK]:
        draw = zlib.crc32(program.title.encode())
        rows = [ROWS[draw // 4 % len(ROWS)]] if draw % 4 == 0 else []
        for arch, machine in ROWS if is_full else rows:
            name = "nvrtc.%s.%s@%s" % (program.title, program.fn, arch)
            out.append((name,) + run_one(env, program, arch, machine))
    return out


def dump(env, program, machine, folder):
    """(exit status, CUDA C or messages)"""
    path = program.path
    if path is None:
        path = os.path.join(folder, "p.tdsl")
        with open(path, "w", encoding="utf-8") as f:
            f.write(program.text)
    text = os.path.join(folder, "p.cu")
    command = ["dump", "cuda", path, "--entry", program.fn, "--device",
               "sim:" + machine, "--mesh", "none", "--lib", env.stdlib, "-o",
               text]
    for dim, value in program.dims.items():
        command += ["--dim", "%s=%s" % (dim, value)]
    if program.config:
        config = os.path.join(folder, "config.json")
        with open(config, "w", encoding="utf-8") as f:
            json.dump(program.config, f)
        command += ["--config", config]
    code, out = env.tdslc(command, folder)
    if code != 0:
        return code, out
    with open(text, encoding="utf-8") as f:
        return 0, f.read()


def run_one(env, program, arch, machine):
    """(status, detail)"""
    if not library().knows(arch):
        return "skip", "NVRTC does not know " + arch
    with env.scratch() as folder:
        code, text = dump(env, program, machine, folder)
    if code != 0:
        refused = re.search(r"error\[(?:B01|E36)\]: (.*)", text)
        if refused and "error[E36]" in text:
            return "pass", ""       # a case about this very error
        if refused:
            return "skip", refused.group(1)
        return "fail", "exit status %d\n%s" % (code, text)
    if "__global__" not in text:
        return "pass", ""           # nothing to compute
    key = hashlib.sha256("\0".join(
        (library().version(), arch, LOOSE.pattern, RULES) + FLAGS + VERBOSE +
        (text,)).encode()).hexdigest()
    clean = os.path.join(env.build, "nvrtc-clean", key[:2], key)
    if os.path.exists(clean):
        return "pass", ""
    code, log, ptx = library().compile(text, arch, VERBOSE)
    if code != 0:
        return "fail", "NVRTC's code is %d, its log\n%s" % (code, log[:4000])
    found = list(resources.complaints(text, log))
    if found:
        return "fail", "\n".join(found)[:4000]
    loose = LOOSE.findall(ptx)
    if loose or "\nret;" not in ptx.replace("\t", ""):
        return "fail", "the assembler may fuse %r" % loose[:9]
    os.makedirs(os.path.dirname(clean), exist_ok=True)
    with open(clean, "w"):
        pass
    return "pass", ""
