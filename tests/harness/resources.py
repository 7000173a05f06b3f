"""What the device's assembler makes of the main forms of kernels: no spills,
no stack, no more shared memory than the card says and a block can have."""
import os
import re

import nvrtc

LIMIT = 48 * 1024      # bytes that a block declares, on every architecture
VERBOSE = ("--ptxas-options=-v",)


def functions(path):
    with open(path, encoding="utf-8") as f:
        return re.findall(r"^export fn (\w+)", f.read(), re.M)


def discover(env):
    path = os.path.join(env.tests, "codegen", "cuda", "templates.tdsl")
    for fn in functions(path):
        yield ("codegen", "nvrtc.resources.%s" % fn, run_function,
               (path, fn), 5)


def planned(text):
    """Shared bytes of a block by kernel, from the cards."""
    out, shared, blocks = {}, 0, 1
    for line in text.splitlines():
        m = re.match(r"//   blocks: .*?(?:, (\d+) in a thread block)?$", line)
        if m:
            blocks = int(m.group(1) or 1)
        m = re.match(r"//   shared (\d+) B", line)
        if m:
            shared = int(m.group(1)) * blocks
        m = re.search(r"__global__ .* (tk_\w+)\(", line)
        if m:
            out[m.group(1)] = shared
    return out


def used(log):
    """(kernel, stack, spilled, shared) of each kernel in a log."""
    parts = re.split(r"Compiling entry function '(\w+)'", log)
    for name, part in zip(parts[1::2], parts[2::2]):
        m = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, "
                      r"(\d+) bytes spill loads", part)
        shared = re.search(r"(\d+) bytes smem", part)
        yield (name, int(m.group(1)), int(m.group(2)) + int(m.group(3)),
               int(shared.group(1)) if shared else 0)


def complaints(text, log):
    plan, seen = planned(text), 0
    for name, stack, spilled, shared in used(log):
        seen += 1
        if stack or spilled:
            yield "%s: %d bytes of stack, %d spilled" % (name, stack, spilled)
        if shared > min(plan[name], LIMIT):
            yield "%s: %d bytes shared, planned %d" % (name, shared,
                                                       plan[name])
    if seen != len(plan):
        yield "%d kernels of %d in the log\n%s" % (seen, len(plan), log)


def run_function(env, path, fn):
    name = "nvrtc.resources.%s" % fn
    library = nvrtc.library()
    if library.handle is None:
        return [(name, "skip", "needs nvrtc")]
    out = []
    for arch, machine in nvrtc.ROWS:
        title = "%s@%s" % (name, arch)
        if not library.knows(arch):
            out.append((title, "skip", "NVRTC does not know " + arch))
            continue
        program = nvrtc.Program(title, path, None, fn)
        with env.scratch() as folder:
            code, text = nvrtc.dump(env, program, machine, folder)
        if code == 0:
            code, log, _ = library.compile(text, arch, VERBOSE)
            found = list(complaints(text, log)) if code == 0 else [log]
        else:
            found = [text]
        out.append((title, "fail" if found else "pass", "\n".join(found)))
    return out
