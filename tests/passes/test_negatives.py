"""What must not become one sweep, each beside a twin that differs in what the
refusal names and does become one. So a rule that refuses too much fails here as
one that refuses too little does. Code, reason, expression and the place in the
source are typed from the design and the text, not from what came out.

The chains are those of find_cascades/negatives.tdsl."""
import os
import re
import subprocess
import sys
import tempfile

TDSLC = os.path.join(os.environ["TDSL_TEST_BUILD"], "tdslc")
FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                    "find_cascades", "negatives.tdsl")
U, CLASS = "unsplittable", "class"
# entry: code, reason, what the remark names, where its text begins in the
# source, and the edits that make the twin
ROWS = {
    "x01": (U, "function", "log(add(exp(", "log(exp(a[i] - la) + exp(b",
            [("+ exp(b[i] - lb)", "* exp(b[i] - lb)")]),
    "x02": (U, "axis", "c[i]", "c[i] < 0.9",
            [("c[i] = sum[k where p[k] > p[i]]", "c = sum[k where p[k] > 0]"),
             ("c[i] < 0.9", "c < 0.9")]),
    "x03": (U, "predicate", "gt(x[i], mu)", "x[i] > mu",
            [("[i where x[i] > mu] 1.0", "[i where x[i] > 0] x[i] * mu")]),
    "x04": (U, "function", "max(sub(x[i], mu), ", "max(x[i] - mu",
            [("max(x[i] - mu, mu - x[i])", "(x[i] - mu) * (mu - x[i])")]),
    "x05": (U, "function", "tanh(sub(x[i], m))", "tanh(x[i] - m)",
            [("tanh(", "exp(")]),
    "x06": (U, "function", "div(x[i], add(", "x[i] / (1 + exp(mu",
            [("exp(mu - x[i])", "exp(mu)")]),
    "x07": (U, "rounding", "cast(div(", "i32(127.0 * x[i]",
            [("f32(i32(127.0 * x[i] / a))", "(127.0 * x[i] / a)")]),
    "x08": (U, "axis", "m of line", "m[t]) / l[t] * v[t]",
            [("v: f32[N]) -> y: f32[M]", "v: f32[M]) -> y: f32[N]"),
             ("y[u] = sum[t]", "y[t] = sum[u]"), ("v[t]", "v[u]")]),
    "x09": ("sign-unknown", "sign-unknown", "mul(x[i], mu)", "x[i] * mu",
            [("x[i] * mu", "x[i] * exp(mu)")]),
    "x10": ("other-consumer", "escape", "for p, which is a result",
            "p[u] = exp(s[u] - l)", [("(p: f32[N], y: f32)", "y: f32")]),
    "x11": (U, "axis", "m[i]", "m[i])",
            [("m[i in N] = max[k where k <= i]", "m = max[k]"),
             ("- m[i]", "- m")]),
    "x12": (U, "function", "max(sub(x[i], mu), 0", "max(x[i] - mu, 0)",
            [("max(x[i] - mu, 0)", "(x[i] - mu)")]),
    "x13": (U, "exponent", "exp(div(sub(x[i], m), s))", "exp((x[i] - m) / s)",
            [("exp((x[i] - m) / s)", "exp(x[i] - m) / s")]),
    "x14": (U, "function", "min(x[i], mul(", "min(x[i], 3.0 * s)",
            [("min(x[i], 3.0 * s)", "min(x[i], 3.0) * s")]),
    "x15": (U, "update", "exp(sub(x[i], m))", "exp(x[i] - m)",
            [("x[0] := 0.0; y = sum[i] exp(x[i] - m)",
              "y = sum[i] exp(x[i] - m); x[0] := 0.0")]),
    "x16": (CLASS, "class", "cast(exp(sub(s[u], l)))", "exp(s[u] - l)",
            [("p[u]: f8e4m3", "p[u]: bf16")]),
    "x17": (U, "axis", "m[u]", "m[u])", [("- m[u]", "- m[t]")]),
    "x18": (U, "exponent", "exp(exp(sub(x[i], l)))", "exp(exp(x[i] - l))",
            [("exp(exp(x[i] - l))", "exp(x[i] - l)")]),
    "x19": (U, "function", "log(add(exp(", "log(exp(x[i] - l) + 1e-6)",
            [("+ 1e-6", "* 1e-6")]),
}
APART = r"sweep of its own|second sweep"


def remarks(path, entry):
    done = subprocess.run([TDSLC, "dump", "remarks", path, "--entry", entry],
                          capture_output=True, text=True)
    if done.returncode != 0:
        return None, done.stderr
    return done.stdout, ""


def has_one_sweep(text):
    """Whether a chain with y, or what y is made of, is one sweep."""
    return any(re.search(r"\by(_\w+)?\b", names) for names in re.findall(
        r"remark\[fuse\.cascade\]: one sweep over \w+ for (.*?): state", text))


def negative(entry, lines):
    """Complaints of the text as it stands."""
    code, reason, what, start, _ = ROWS[entry]
    text, why = remarks(FILE, entry)
    if text is None:
        return [why[:300]]
    out = []
    m = re.search(r"negatives\.tdsl:(\d+):(\d+): remark\[fuse\.refused\.%s\]"
                  r": (.*(?:%s).*)\(reason: ([\w-]+)\)" % (code, APART), text)
    if m is None:
        return ["no refusal with the code " + code]
    line, column = int(m.group(1)), int(m.group(2))
    if m.group(4) != reason:
        out.append("the reason is %s, wanted %s" % (m.group(4), reason))
    if what not in m.group(3):
        out.append("%r does not name %s" % (m.group(3), what))
    at = lines[line - 1][column - 1:]
    if not at.startswith(start):
        out.append("stands at %r, wanted %r" % (at[:40], start))
    if entry != "x10" and has_one_sweep(text):
        out.append("it is one sweep")  # x10 is, and has a second one
    return out


def twin(entry, head, body, path):
    """Complaints of the text with the edits."""
    for old, new in ROWS[entry][4]:
        if body.count(old) != 1:
            return ["%r is not there once" % old]
        body = body.replace(old, new)
    with open(path, "w") as f:
        f.write(head + body)
    text, why = remarks(path, entry)
    if text is None:
        return ["twin: " + why[:300]]
    if not has_one_sweep(text) or re.search(APART, text):
        return ["twin: it is not one sweep\n" + text[:600]]
    return []


def main():
    failed = 0
    with open(FILE) as f:
        text = f.read()
    body = {m.group(1): m.group(0) for m in re.finditer(
        r"^fn (\w+)\b.*?(?=^fn |\Z)", text, re.S | re.M)}
    if sorted(e for e in body if e.startswith("x")) != sorted(ROWS):
        print("not ok all")
        failed = 1
    with tempfile.TemporaryDirectory() as folder:
        for entry in ROWS:
            lines = negative(entry, text.split("\n"))
            lines += twin(entry, body["lse"], body[entry],
                          os.path.join(folder, "twin.tdsl"))
            print("%s %s" % ("not ok" if lines else "ok", entry))
            for line in lines:
                print("  " + line)
            failed += bool(lines)
    sys.exit(failed > 0)


main()
