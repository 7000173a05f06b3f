"""Kernels for Arm, which this machine need not be: the code of each plan is
assembled by a cross compiler, linked with a caller that does what the plan
says, and run by qemu's user mode. Results must be those that the interpreter
of kernels gives: to the bit where no function of libm is called, and else near
them. Where this machine multiplies and adds with one rounding, as Arm does, all
results of f32 have the bits of x86-64-v3's code as well.

Skipped where there is no aarch64-linux-gnu-gcc or qemu-aarch64."""
import json
import math
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "harness"))
from report import expect, finish, need, skip  # noqa: E402

BUILD = os.environ["TDSL_TEST_BUILD"]
TDSLC = os.path.join(BUILD, "tdslc")
FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "arm64.tdsl")
HAS_FMA = re.search("x86-64-v[34]", subprocess.run(
    [TDSLC, "version"], capture_output=True, text=True).stdout)
CC, QEMU = "aarch64-linux-gnu-gcc", "qemu-aarch64"
# entry: dims of each call, and how far from the interpreter results may be
ROWS = {
    "softmax": ([{"M": 5, "N": 70}, {"M": 1, "N": 1}, {"M": 3, "N": 1027}],
                3e-7),
    "product": ([{"M": 37, "N": 29, "K": 53}, {"M": 1, "N": 35, "K": 130},
                 {"M": 9, "N": 65, "K": 1}, {"M": 4, "N": 3, "K": 0}], 0),
    "attend": ([{"M": 1}, {"M": 70}, {"M": 197}], 3e-7),
    "halves": ([{"M": 13, "N": 21, "K": 37}, {"M": 1, "N": 1, "K": 1}], 0),
    "codes": ([{"M": 3, "N": 19, "K": 45}, {"M": 17, "N": 33, "K": 64}], 0),
    "whole": ([{"M": 41}], 0),
    "order": ([{"M": 6, "N": 83}, {"M": 2, "N": 3}], 0),
    "functions": ([{"M": 59}], 1e-6),
}
FORMS = {"f32": ("f", 4), "f64": ("d", 8), "f16": ("e", 2), "bf16": ("H", 2),
         "i8": ("b", 1), "i32": ("i", 4), "i64": ("q", 8)}
CALLER = """
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
typedef void kernel_t(void *const *, const int64_t *, void *, int64_t,
                      int64_t);
#define F(name) double rcpu_##name(double x) { return name(x); }
F(exp) F(exp2) F(log) F(log2) F(sin) F(cos) F(tanh) F(erf)
double rcpu_pow(double x, double y) {
  return x < 0 && y != 0 ? NAN : pow(x, y);
}
double rcpu_powi(double x, int64_t n) { return pow(x, (double)n); }
static void *room(size_t bytes) {
  char *p = aligned_alloc(64, (bytes + 127) / 64 * 64);
  for (size_t i = 0; i < (bytes + 127) / 64 * 64; i++) p[i] = (char)0xA5;
  return p;
}
static void take(FILE *f, void *p, size_t bytes) {
  if (fread(p, 1, bytes, f) != bytes) exit(3);
}
/* in three pieces, as of a team of threads, each with scratch of its own */
static void launch(kernel_t *k, void *const *b, const int64_t *s,
                   int64_t blocks, size_t scratch) {
  for (int64_t i = 0, at = 0; i < 3; i++) {
    int64_t end = blocks * (i + 1) / 3;
    void *p = room(scratch);
    if (end > at) k(b, s, p, at, end);
    free(p);
    at = end;
  }
}
"""


def run(*args, **kw):
    return subprocess.run(list(args), capture_output=True, **kw)


def value_of(text, names):
    return eval(text.replace("/", "//").replace("&&", " and ")
                .replace("$", "_"), {"max": max, "min": min}, names)


# ---- data -------------------------------------------------------------------

def pack(dtype, data):
    if dtype == "bf16":
        return b"".join(struct.pack("<f", x)[2:] for x in data)
    form = FORMS[dtype][0]
    return struct.pack("<%d%s" % (len(data), form), *data)


def unpack(dtype, raw):
    if dtype == "bf16":
        return [struct.unpack("<f", b"\0\0" + raw[i:i + 2])[0]
                for i in range(0, len(raw), 2)]
    form, size = FORMS[dtype]
    return list(struct.unpack("<%d%s" % (len(raw) // size, form), raw))


def drawn(name, dtype, count):
    r = random.Random(name + dtype)
    if dtype == "i32":
        return [r.randint(-99, 99) for _ in range(count)]
    if dtype == "i8":
        return [r.randint(-128, 127) for _ in range(count)]
    return [r.randint(-128, 128) / 64 for _ in range(count)]


def is_same(a, b, near):
    if a != a or b != b:
        return a != a and b != b
    if near:
        return a == b or abs(a - b) <= near * (1 + abs(a))
    return a == b and math.copysign(1, a) == math.copysign(1, b)


# ---- a plan as C -------------------------------------------------------------

class Plan:
    def __init__(self, text):
        self.kernels = [
            (m.group(1), m.group(2), m.group(3)) for m in re.finditer(
                r'^kernel .*? symbol "(.*?)".*?^ +blocks (.*?)$'
                r'.*?^ +scratch (.*?)$', text, re.S | re.M)]
        entry = text[text.index("\nentry "):]
        self.slots = re.findall(
            r'^  slot \d+ (in|out) "(\w+)" (\w+)\[(.*?)\].* buffer (\d+)',
            entry, re.M)
        self.buffers = re.findall(
            r'^  buffer \d+ .*? bytes (.*?) (?:slot \d+|offset (.*?)) life',
            entry, re.M)
        self.arena = re.search(r"^  arena (.*)$", entry, re.M).group(1)
        self.launches = re.findall(
            r"^  launch (\d+) \(([\d, ]*)\)(?: \[(.*?)\])? at", entry, re.M)
        steps = re.findall(r"^  (launch|copy|fill|loop|assert|check)\b",
                           entry, re.M)
        assert len(steps) == len(self.launches), steps

    def symbol(self, k):
        return "tk_" + re.sub(r"[^A-Za-z0-9_]", "_", self.kernels[k][0])

    def call(self, number, d):
        """A C function that makes one call with the dims d."""
        out = ["static void call%d(FILE *in, FILE *out) {" % number,
               "char *arena = room(%d);" % value_of(self.arena, d),
               "void *b[%d];" % len(self.buffers)]
        for i, (size, offset) in enumerate(self.buffers):
            out.append("b[%d] = %s;" % (
                i, "arena + %d" % value_of(offset, d) if offset
                else "room(%d)" % value_of(size, d)))
        for way, _, _, _, b in self.slots:
            if way == "in":
                out.append("take(in, b[%s], %d);" % (
                    b, value_of(self.buffers[int(b)][0], d)))
        for k, buffers, scalars in self.launches:
            values = [value_of(x, d) for x in scalars.split(", ")
                      ] if scalars else []
            names = {"_%d" % i: v for i, v in enumerate(values)}
            _, blocks, scratch = self.kernels[int(k)]
            out.append("{ void *p[] = {%s}; int64_t s[] = {%s}; "
                       "launch(%s, p, s, %d, %d); }" % (
                           ", ".join("b[%s]" % x
                                     for x in buffers.split(", ")),
                           ", ".join(map(str, values + [0])),
                           self.symbol(int(k)), value_of(blocks, names),
                           value_of(scratch, names)))
        for way, _, _, _, b in self.slots:
            if way == "out":
                out.append("fwrite(b[%s], 1, %d, out);" % (
                    b, value_of(self.buffers[int(b)][0], d)))
        return "\n".join(out + ["}"])

    def program(self, calls):
        head = "".join("kernel_t %s;\n" % self.symbol(k)
                       for k in range(len(self.kernels)))
        body = "".join(self.call(i, d) + "\n" for i, d in enumerate(calls))
        return CALLER + head + body + "int main(void) {\n" + "".join(
            "call%d(stdin, stdout);\n" % i for i in range(len(calls))
        ) + "return 0; }\n"


def shape_of(dims, d):
    return [value_of(x, d) for x in re.findall(r"= (.*?) max", dims)]


# ---- an entry ---------------------------------------------------------------

def want_of(entry, case, folder, device):
    path, out = (os.path.join(folder, n) for n in ("in.json", "out.json"))
    with open(path, "w") as f:
        json.dump(case, f)
    done = run(TDSLC, "run", FILE, "--entry", entry, "--device", device,
               "--in", "@=" + path, "--out", out, "-q", text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    with open(out) as f:
        return json.load(f)["results"]


def check(entry, folder):
    calls, loose = ROWS[entry]
    text = run(TDSLC, "dump", "plan", FILE, "--entry", entry, "--device",
               "cpu:arm64", "-q", text=True).stdout
    code = os.path.join(folder, entry + ".s")
    done = run(TDSLC, "dump", "asm", FILE, "--entry", entry, "--device",
               "cpu:arm64", "-o", code, "-q", text=True)
    if done.returncode != 0 or done.stderr:
        return ["no code: " + done.stderr[:400]]
    plan = Plan(text)
    source, binary = (os.path.join(folder, entry + x) for x in (".c", ""))
    with open(source, "w") as f:
        f.write(plan.program(calls))
    done = run(CC, "-O1", "-static", "-o", binary, source, code, "-lm",
               text=True)
    if done.returncode != 0:
        return ["does not link: " + done.stderr[:600]]
    given, wants = b"", []
    for d in calls:
        case = {}
        for way, name, dtype, dims, _ in plan.slots:
            shape = shape_of(dims, d)
            if way == "in":
                data = drawn(name, dtype, math.prod(shape))
                case[name] = {"dtype": dtype, "shape": shape, "data": data}
                given += pack(dtype, data)
        wants.append((d, loose, want_of(entry, case, folder, "interp:kir")))
        if HAS_FMA:
            wants.append((d, 0, want_of(entry, case, folder,
                                           "cpu:x86-64-v3")))
    done = run(QEMU, binary, input=given)
    if done.returncode != 0:
        return ["ends with %d: %r" % (done.returncode, done.stderr[:300])]
    lines, raw, at = [], done.stdout, 0
    for i, (d, near, want) in enumerate(wants):
        if i == 0 or wants[i - 1][0] is not d:
            begin = at
        at = begin
        for way, name, dtype, dims, _ in plan.slots:
            if way == "in":
                continue
            size = math.prod(shape_of(dims, d)) * FORMS[dtype][1]
            got = unpack(dtype, raw[at:at + size])
            at += size
            # f64 is libm's, of which there are two
            is_near = 1e-15 if dtype == "f64" and near == 0 else near
            lines += differences("%s of %r" % (name, d), got,
                                 flatten(want[name]["data"]), is_near)
    return lines + (["%d bytes, wanted %d" % (len(raw), at)]
                    if len(raw) != at else [])


def differences(name, got, want, near):
    if len(got) != len(want):
        return ["%s has %d elements, wanted %d" % (name, len(got), len(want))]
    for i, (a, b) in enumerate(zip(want, got)):
        if not is_same(a, b, near):
            return ["%s: [%d] is %r, wanted %r" % (name, i, b, a)]
    return []


def flatten(data):
    if not isinstance(data, list):
        return [float(data)]
    return [x for part in data for x in flatten(part)]


def main():
    need("llvm")
    if not shutil.which(CC) or not shutil.which(QEMU):
        skip("needs %s and %s" % (CC, QEMU))
    with tempfile.TemporaryDirectory() as folder:
        for entry in ROWS:
            lines = check(entry, folder)
            expect(entry, not lines, "\n".join(lines))
    finish()


main()
