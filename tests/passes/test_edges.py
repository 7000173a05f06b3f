"""What explain says of the values between operations, over all programs of the
tests: each edge of the tensor program has exactly one remark with a code of
the closed list, its bytes are those of the value's type, and both ways have a
price.  What a kernel keeps has no place in the plan, and what crosses memory
is a tensor of the plan of as many bytes.  What the pass that fuses formulas
says explains all that it changed: edges before it, less what moved, are the
edges behind it.  All of this is read from the text of dumps."""
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
TDSLC = os.environ["TDSLC"]
STDLIB = os.path.join(ROOT, "stdlib")
sys.path.insert(0, os.path.join(ROOT, "tests", "lint"))
from _tree import rows  # noqa: E402

SIZES = {"f64": 8, "i64": 8, "f32": 4, "i32": 4, "f16": 2, "bf16": 2,
         "f8e4m3": 1, "f8e5m2": 1, "i8": 1, "u8": 1, "bool": 1}
CODES = {row[1] for row in rows("passes/remarks.def", "REMARK")}
DIM = 37  # of every dynamic dim; a prime, so that products tell them apart
AT = {"fuse-elementwise": ("bytes_not_loaded", "price_ns_if_apart"),
      True: (("bytes_kept", "bytes_not_loaded"), "price_ns_if_apart"),
      False: (("bytes_crossing",), "price_ns_if_fused")}


def tool(*args):
    done = subprocess.run([TDSLC, *args], capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else None


def number(text):
    """A polynomial of dims as dumps print it."""
    text = re.sub(r"[A-Za-z_][\w.]*", lambda m: m.group(0)
                  if m.group(0) in ("max", "min") else str(DIM), text)
    return eval(text.replace("/", "//"), {"max": max, "min": min}, {})


def bytes_of(dtype, dims):
    size = SIZES[dtype]
    for dim in (d for d in dims.split(",") if d.strip()):
        size *= number(dim)
    return size


# ---- tensor programs

VALUE = re.compile(r"%([\w.]+): (\w+)(?:\[([^\]]*)\])?")
NAME = re.compile(r"%([\w.]+)")


class Node:
    def __init__(self, kind, group, depth):
        self.kind, self.group, self.depth = kind, group, depth
        self.outs, self.reads = [], []

    @property
    def name(self):
        return self.outs[0] if self.outs else "an assertion"


def statements(text):
    """Lines of a dump, those that a statement goes on in joined to it."""
    depth, out = 1, []
    for line in text.splitlines():
        if re.match(r"(test )?func ", line):
            depth = 1
        space = len(line) - len(line.lstrip())
        if out and space == 2 * depth + 4 and depth == out[-1][0]:
            out[-1][1] += " " + line.strip()
        else:
            out.append([depth, line.strip()])
        if out[-1][1].endswith("{") and space >= 2 * depth and \
                not re.match(r"  dims\(|\)", line):
            depth += 1
        if line.strip() == "}" and space > 0:
            depth -= 1
            out[-1][0] = depth
    return [line for _, line in out]


class Function:
    """Of a dump: its nodes in order; bytes and maker of a value."""
    def __init__(self):
        self.nodes, self.sizes, self.makers = [], {}, {}
        self.results = set()


def functions(text):
    found, at, loops = {}, None, []
    for line in statements(text):
        head = re.match(r'(?:test )?func @"?([^"(]+)"?\(', line)
        if head:
            at, loops = found.setdefault(head.group(1), Function()), []
        elif at is None:
            continue
        elif line == "}" and loops:
            loops.pop()
        elif line.startswith("yield "):
            loops[-1].reads += NAME.findall(line)
        elif line.startswith("return "):
            at.results.update(NAME.findall(line))
        elif re.match(r"%\S+: |assert|loop ", line):
            add_node(at, loops, line)
    return found


def add_node(at, loops, line):
    left, right = line.split(" = ", 1) if line.startswith("%") else ("", line)
    group = re.search(r" group (\d+)", right)
    node = Node(right.split(None, 1)[0], int(group.group(1)) if group else 0,
                1 + len(loops))
    for name, dtype, dims in VALUE.findall(left):
        node.outs.append(name)
        at.sizes[name] = bytes_of(dtype, dims or "")
        at.makers[name] = node
    if node.kind == "loop":
        loops.append(node)
        right = re.sub(r"%[\w.]+: \w+(\[[^\]]*\])? = ", "", right)
    node.reads = NAME.findall(right)
    at.nodes.append(node)


def edges(function):
    """[(node, reader)] by value, each once."""
    return [(value, node) for node in function.nodes
            for value in dict.fromkeys(node.reads)
            if function.makers.get(value, node) is not node]


# ---- checks

def remarks_of(text, passname):
    found = {}
    for line in text.splitlines():
        r = json.loads(line)
        if r["pass"] != passname or "edge" not in r:
            continue
        e = r["edge"]
        found.setdefault((e["function"], e["from"], e["to"]), []).append(r)
    return found


def judge_numbers(where, r, names, other, size, faults):
    numbers = r["numbers"]
    given = [n for n in names if n in numbers]
    if len(given) != 1:
        faults.append("%s: bytes are given as %s" % (where, sorted(numbers)))
    elif number(numbers[given[0]]["value"].replace("*", " * ")) != size:
        faults.append("%s: %s for %d bytes"
                      % (where, numbers[given[0]], size))
    for name in ("price_ns", other):
        if name not in numbers or numbers[name]["most"] < 0:
            faults.append("%s: no %s" % (where, name))
    if r["code"] not in CODES:
        faults.append("%s: code %s" % (where, r["code"]))
    if r["code"] == "fuse.refused.costs-more" and not faults and \
            numbers[other]["most"] + 2 < numbers["price_ns"]["most"]:
        faults.append("%s: costs more, at %s" % (where, numbers))


def buffers_of(plan, fname):
    """[(name, bytes)] of the tensors of an entry."""
    out, inside = [], False
    for line in (plan or "").splitlines():
        if line.startswith("entry "):
            inside = line.startswith('entry "%s"' % fname)
        m = re.match(r'  buffer \d+ "([^"]+)" \w+(?:\[.*?\])? bytes (.*?)'
                     r'(?: (?:slot|offset|life|scratch|stage|alias|of) .*)?$',
                     line)
        if inside and m:
            out.append((m.group(1), number(m.group(2))))
    return out


def stem(name):
    return re.sub(r"(\.\d+)+$", "", name)


def homes(f, value):
    """Whose place a value may take: its own, or that of an equally large one
    that it is made from, element by element."""
    found = [value]
    for v in found:
        maker = f.makers.get(v)
        if maker is None or maker.kind != "map":
            continue
        found += [r for r in maker.reads if r not in found and
                  f.sizes.get(r) == f.sizes[value]]
    return {stem(v) for v in found}


def check_joined(name, text, said, plan, faults):
    """Every edge of the last tensor program."""
    count = 0
    for fname, f in functions(text).items():
        buffers = buffers_of(plan, fname)
        stems = [stem(value) for value in f.sizes]
        outside = {value for value, reader in edges(f) if not reader.group or
                   reader.group != f.makers[value].group} | f.results
        for value, reader in edges(f):
            count += 1
            maker = f.makers[value]
            where = "%s %s: %s -> %s" % (name, fname, value, reader.name)
            got = said.pop((fname, value, reader.name), [])
            if len(got) != 1:
                faults.append("%s: %d remarks" % (where, len(got)))
                continue
            r = got[0]
            is_one = reader.group != 0 and reader.group == maker.group
            if is_one != (r["code"] == "fuse.done"):
                faults.append("%s: %s" % (where, r["code"]))
            judge_numbers(where, r, *AT[is_one], f.sizes[value], faults)
            is_kept = "bytes_kept" in r["numbers"]
            if is_one and is_kept == (value in outside):
                faults.append("%s: %s" % (where, r["numbers"]))
            if not buffers or maker.kind in ("update", "loop"):
                continue
            if is_kept and stems.count(stem(value)) == 1 and \
                    stem(value) in [stem(b[0]) for b in buffers]:
                faults.append("%s: has a place in the plan" % where)
            # in a loop what is carried may be written early
            names = [b[0] if maker.depth == 1 else value for b in buffers
                     if b[1] == f.sizes[value]]
            if not is_one and reader.kind != "loop" and \
                    not homes(f, value) & set(map(stem, names)):
                faults.append("%s: no tensor of %d bytes in the plan"
                              % (where, f.sizes[value]))
    for key in said:
        faults.append("%s: a remark on %s, which is no edge" % (name, key))
    return count


def check_moved(name, before, after, said, faults):
    """What moved explains the difference of two tensor programs."""
    count = 0
    behind = functions(after)
    for fname, f in functions(before).items():
        reads, gone = {}, set()
        for node in f.nodes:
            now = []
            for value in dict.fromkeys(node.reads):
                if value not in f.makers:
                    continue
                got = said.pop((fname, value, node.name), [])
                where = "%s %s: %s into %s" % (name, fname, value, node.name)
                if len(got) > 1:
                    faults.append("%s: %d remarks" % (where, len(got)))
                for r in got[:1]:
                    count += 1
                    judge_numbers(where, r, ("bytes_not_loaded",),
                                  "price_ns_if_apart", f.sizes[value], faults)
                    if r["code"] == "fuse.done":
                        gone.add(value)
                    elif r["code"] != "recompute.done":
                        faults.append("%s: %s" % (where, r["code"]))
                    now += reads[f.makers[value]]
                if not got and f.makers[value] is not node:
                    now.append(value)
            reads[node] = set(now)
        left = [n for n in f.nodes if not n.outs or n.outs[0] not in gone]
        now = behind[fname]
        if [stem(n.name) for n in left] != [stem(n.name) for n in now.nodes]:
            faults.append("%s %s: other nodes are gone than remarks say"
                          % (name, fname))
            continue
        called = {}
        for old, new in zip(left, now.nodes):
            called.update(zip(old.outs, new.outs))
        for old, new in zip(left, now.nodes):
            want = {called.get(v) for v in reads[old]}
            got = {v for v in new.reads
                   if now.makers.get(v, new) is not new}
            if want != got:
                faults.append("%s %s %s: reads %s, by remarks %s"
                              % (name, fname, new.name, sorted(got),
                                 sorted(map(str, want))))
    for key in said:
        faults.append("%s: a remark on %s, which was no edge" % (name, key))
    return count


def check(name, words, device="cpu:x86-64-v3"):
    """(edges, faults); None where the program cannot be compiled alone."""
    words = [*words, "-q", "--device", device, "--lib", STDLIB]
    said = tool("explain", *words, "--json")
    if said is None:
        return None
    stages = re.split(r"^// (?:after )?", tool("dump", "tir-all", *words),
                      flags=re.M)[1:]
    names = [stage.split("\n", 1)[0] for stage in stages]
    at = names.index("fuse-elementwise") \
        if "fuse-elementwise" in names else 0
    before, after = stages[max(at - 1, 0)], stages[at]
    plan = tool("dump", "plan", *words) if device.startswith("cpu") else None
    faults = []
    count = check_moved(name, before, after,
                        remarks_of(said, "fuse-elementwise"), faults)
    count += check_joined(name, stages[-1], remarks_of(said, "join-kernels"),
                          plan, faults)
    return count, faults


def corpus(folder):
    """[(name, words)]"""
    out = []
    for part in ("tests/exec", "tests/passes", "tests/codegen", "examples"):
        for at, _, names in sorted(os.walk(os.path.join(ROOT, part))):
            for name in sorted(names):
                if name.endswith(".tdsl"):
                    path = os.path.join(at, name)
                    out.append((os.path.relpath(path, ROOT), [path]))
    vectors = os.path.join(ROOT, "tests", "vectors")
    for program in sorted(os.listdir(vectors)):
        with open(os.path.join(vectors, program), encoding="utf-8") as f:
            cases = json.load(f).get("cases", []) \
                if program.endswith(".json") else []
        stem = program[:-5]
        path = os.path.join(STDLIB, stem + ".tdsl")
        if not os.path.exists(path):
            path = os.path.join(ROOT, "examples", stem, stem + ".tdsl")
        seen = set()
        for case in cases:
            key = case.get("fn"), json.dumps(case.get("config"))
            if key in seen or not os.path.exists(path) or key[0] is None:
                continue
            seen.add(key)
            words = [path, "--entry", case["fn"], "--mesh", "none"]
            for dim, value in (case.get("dims") or {}).items():
                words += ["--dim", "%s=%s" % (dim, value)]
            if case.get("config"):
                config = os.path.join(folder, "%s%d.json" % (stem, len(seen)))
                with open(config, "w", encoding="utf-8") as f:
                    json.dump(case["config"], f)
                words += ["--config", config]
            out.append(("%s %s %d" % (stem, case["fn"], len(seen)), words))
    return out


def main():
    total, programs, failed = 0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for name, words in corpus(folder):
            devices = ["cpu:x86-64-v3"]
            if name.startswith("tests/passes/join_kernels"):
                devices.append("sim:h100") # other kernels, as few are enough
            for device in devices:
                found = check(name, words, device)
                if found is None:
                    continue
                programs += 1
                total += found[0]
                failed += len(found[1]) > 0
                for line in found[1][:5]:
                    print(line)
    print("%s edges: %d of %d programs"
          % ("not ok" if failed else "ok", total, programs))
    return failed > 0 or programs < 60 or total < 500


if __name__ == "__main__":
    sys.exit(main())
