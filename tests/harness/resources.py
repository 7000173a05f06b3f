"""What the device's assembler makes of kernels: no spills, no stack, no more
shared memory than the card says and a block can have. Of the main forms and
of shapes that programs are measured with here; of the corpus in nvrtc.py,
which looks at each text once for everything."""
import os
import re

import nvrtc

LIMIT = 48 * 1024      # bytes that a block declares, on every architecture
# Architectures whose kernels differ; all of them with --full.
USUAL = ("sm_80", "sm_90a")
# CUDA's own sine and cosine index an array to reduce what is large.
TURNS = re.compile(r"\b(?:sin|cos)\(|\btd_(?:sin|cos)_f32\(")
TURN_STACK = 40
ROUGHLY = 8            # times more or fewer registers than a card says
# What the assembler says of each kernel of its own accord.
USUAL_LINE = re.compile(
    r"ptxas info +: (?:Compiling entry|Function properties|Compile time|"
    r"Used \d+ registers|\d+ bytes gmem)|"
    r"ptxas +\. +\d+ bytes stack frame")
LLAMA = {"hidden_size": 2048, "intermediate_size": 8192,
         "num_attention_heads": 32, "num_key_value_heads": 8,
         "num_hidden_layers": 4, "vocab_size": 128256, "head_dim": 64,
         "rms_norm_eps": 1e-05, "rope_theta": 500000.0}
GPT2 = {"n_layer": 12, "n_embd": 768, "n_head": 12, "vocab_size": 50257,
        "n_positions": 1024}


def functions(path):
    with open(path, encoding="utf-8") as f:
        return re.findall(r"^export fn (\w+)", f.read(), re.M)


def programs(env, is_full):
    path = os.path.join(env.tests, "codegen", "cuda", "templates.tdsl")
    for fn in functions(path):
        yield nvrtc.Program("resources." + fn, path, None, fn)
    if not is_full:
        return
    for path, config in (("examples/llama/llama_f32.tdsl", LLAMA),
                         ("examples/llama/llama.tdsl", LLAMA),
                         ("bench/matrix/models/llama_i8.tdsl", LLAMA),
                         ("bench/matrix/models/gpt2.tdsl", GPT2),
                         ("examples/moe/moe.tdsl", None),
                         ("examples/quant/quant.tdsl", None),
                         ("examples/attention/attention.tdsl", None)):
        path = os.path.join(env.root, path)
        title = os.path.splitext(os.path.basename(path))[0]
        for fn in functions(path):
            yield nvrtc.Program("resources.%s.%s" % (title, fn), path, None,
                                fn, None, config)


def discover(env, is_full):
    for program in programs(env, is_full):
        yield ("codegen", "nvrtc." + program.title, run_program,
               (program, is_full), 5)


def planned(text):
    """Shared bytes of a block and the text by kernel, from the cards."""
    out = {}
    for card in re.split(r"(?m)^\n(?=// )", text):
        name = re.search(r"__global__ .* (tk_\w+)\(", card)
        if not name:
            continue
        blocks = re.search(r"(\d+) in a thread block$", card, re.M)
        shared = int(re.search(r"^//   shared (\d+) B", card, re.M).group(1))
        shared *= int(blocks.group(1)) if blocks else 1
        out[name.group(1)] = shared, card
    return out


def used(log):
    """(kernel, stack, spilled, shared, registers) of each kernel in a log;
    functions of CUDA's own that it calls have a stack of their own."""
    parts = re.split(r"Compiling entry function '(\w+)'", log)
    for name, part in zip(parts[1::2], parts[2::2]):
        frames = re.findall(r"Function properties for (\w+)\n.*?(\d+) bytes "
                            r"stack frame, (\d+) bytes spill stores, (\d+)",
                            part)
        stack = sum(int(f[1]) for f in frames if f[0] == name)
        spilled = sum(int(f[2]) + int(f[3]) for f in frames)
        shared = re.search(r"(\d+) bytes smem", part)
        registers = re.search(r"Used (\d+) registers", part)
        yield (name, stack, spilled, int(shared.group(1)) if shared else 0,
               int(registers.group(1)))


def complaints(text, log):
    plan, seen = planned(text), 0
    # the assembler rounds every kernel of a module up to the widest of it
    unit = max([int(n) for n in re.findall(r"__align__\((\d+)\)", text)] +
               [16])
    for line in log.splitlines():
        if line.strip() and not USUAL_LINE.match(line):
            yield line
    for name, stack, spilled, shared, registers in used(log):
        seen += 1
        room, card = plan[name]
        room = (room + unit - 1) // unit * unit
        has_turns = stack <= TURN_STACK and TURNS.search(card)
        if spilled or (stack and not has_turns):
            yield "%s: %d bytes of stack, %d spilled" % (name, stack, spilled)
        said = int(re.search(r"about (\d+) registers", card).group(1))
        if not said / ROUGHLY <= registers <= said * ROUGHLY:
            yield "%s: %d registers, about %d planned" % (name, registers,
                                                          said)
        if shared > min(room, LIMIT):
            yield "%s: %d bytes shared, planned %d" % (name, shared, room)
    if seen != len(plan):
        yield "%d kernels of %d in the log\n%s" % (seen, len(plan), log)


def run_program(env, program, is_full):
    name = "nvrtc." + program.title
    if nvrtc.library().handle is None:
        return [(name, "skip", "needs nvrtc")]
    out = []
    for arch, machine in nvrtc.ROWS:
        if is_full or arch in USUAL:
            out.append(("%s@%s" % (name, arch),) +
                       nvrtc.run_one(env, program, arch, machine))
    return out
