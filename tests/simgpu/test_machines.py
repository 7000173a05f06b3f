"""The simulator's machines and the compiler's targets are two tables, written
apart; what both say of an architecture must be the same, and each must say
what NVIDIA's programming guide does (compute capabilities, technical
specifications)."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "harness"))
from report import expect, finish  # noqa: E402

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
# by compute capability: warps, blocks, registers, shared KiB of a
# multiprocessor, shared KiB of a block
GUIDE = {75: (32, 16, 65536, 64, 64), 80: (64, 32, 65536, 164, 163),
         86: (48, 16, 65536, 100, 99), 89: (48, 24, 65536, 100, 99),
         90: (64, 32, 65536, 228, 227), 100: (64, 32, 65536, 228, 227)}


def rows(path, macro):
    """The arguments of each use of the macro, outside comments."""
    with open(os.path.join(ROOT, path)) as f:
        text = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
    for body in re.findall(r"\b%s\(([^)]*)\)" % macro, text):
        yield [a.strip().strip('"').rstrip("ul") if a.strip()[:1].isdigit()
               else a.strip().strip('"') for a in body.split(",")]


def machines():
    """compute capability: [(key, limits, multiprocessors)]"""
    out = {}
    for r in rows("runtime/simgpu/sim_device.def", "SIM_DEVICE"):
        limits = tuple(int(v) for v in (r[6], r[7], r[8], r[9], r[10]))
        out.setdefault(int(r[2]), []).append((r[0], limits, int(r[5])))
    return out


def targets():
    out, numbers = {}, {}
    for r in rows("ir/target.def", "GPU"):
        numbers[r[0]] = int(r[2]), int(r[6]), int(r[5])
    for r in rows("ir/target.def", "RESIDENT"):
        cc, most, sms = numbers[r[0]]
        out[cc] = (r[0], tuple(int(v) for v in r[1:5]) + (most,),
                   int(r[5]), sms)
    return out


def main():
    ours, theirs = machines(), targets()
    expect("architectures", set(ours) == set(theirs) == set(GUIDE),
           (sorted(ours), sorted(theirs)))
    for cc, guide in sorted(GUIDE.items()):
        want = guide[:3] + (guide[3] * 1024, guide[4] * 1024)
        name, limits, reserve, sms = theirs[cc]
        expect("target_" + name, limits == want and
               reserve == (1024 if cc >= 80 else 0), (limits, want, reserve))
        for key, limits, count in ours[cc]:
            expect("machine_" + key, limits == want, (limits, want))
        # a usual device of the architecture is no smaller than ours
        expect("size_" + name, sms in [m[2] for m in ours[cc]] or
               sms > max(m[2] for m in ours[cc]), (sms, ours[cc]))
    finish()


if __name__ == "__main__":
    main()
