"""Makes a random program that an engine gets wrong small. The oracle decides
which candidates are programs at all, so candidates may be crude: lines and
token ranges are dropped, dims lowered, inputs replaced by small integers, as
long as the same kind of failure remains. At most two minutes."""
import json
import os
import re
import sys
import time

import programs
from vectors import Refused, run_once
from compare import compare

TOKEN = re.compile(r"\s+|[A-Za-z_]\w*|[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?"
                   r"|->|:=|\+=|[<>=!]=|\.\.|.", re.S)
SIGNATURE = re.compile(r"export fn f\((.*)\) -> \((.*)\) \{")


class Shrinker:
    def __init__(self, env, case, device, seconds=120):
        self.env, self.device = env, device
        self.stop = time.monotonic() + seconds
        self.best = case
        oracle = os.path.join(env.tests, "oracle")
        if oracle not in sys.path:
            sys.path.insert(0, oracle)
        self.kind = self.failure(case)

    def failure(self, case):
        """The kind of failure of the engine on a case, None if it passes."""
        with self.env.scratch() as folder:
            source = os.path.join(folder, "f.tdsl")
            with open(source, "w", encoding="utf-8") as f:
                f.write(case["source_text"])
            try:
                got, _ = run_once(self.env, source, case, case["args"],
                                  self.device, folder)
            except Refused:
                return "refused"
            except RuntimeError as error:
                first = re.search(r"error\[(\w+)\]", str(error))
                if first:
                    return first.group(1)
                return str(error).split("\n")[0]
            except (ValueError, OSError, KeyError) as error:
                return type(error).__name__
        wrong = compare(got, case["results"], case["tol"],
                        self.device == "interp:f64")
        return "values" if wrong else None

    def judged(self, source, args):
        """A whole case from a text and inputs, None if it is no program."""
        from tdsl_eval import Program
        from tdsl_oracle import run_function
        from tdsl_random import tolerance
        from tdsl_values import FLOATS

        def run(f32):
            program = Program(os.path.join(self.env.stdlib, "r.tdsl"),
                              [self.env.stdlib], text=source)
            return run_function(program, "f", dict(args), f32)[0]
        try:
            want, single = run(False), run(True)
        except Exception:   # any refusal of the oracle
            return None
        return dict(self.best, source_text=source, args=args, results=want,
                    tol={n: tolerance(want[n], single[n]) for n in want
                         if want[n]["dtype"] in FLOATS})

    def attempt(self, source, args):
        if time.monotonic() > self.stop or (
                source == self.best["source_text"]
                and args == self.best["args"]):
            return False
        case = self.judged(source, args)
        if case is None or not case["results"]:
            return False
        if self.failure(case) != self.kind:
            return False
        self.best = case
        return True

    # --- steps ------------------------------------------------------------
    def drop_lines(self):
        changed, at = False, 0
        while at < len(self.best["source_text"].split("\n")):
            lines = self.best["source_text"].split("\n")
            rest = lines[:at] + lines[at + 1:]
            if self.attempt("\n".join(rest), self.best["args"]):
                changed = True
            else:
                at += 1
        return changed

    def split(self):
        return TOKEN.findall(self.best["source_text"])

    def simplify_groups(self):
        """Each bracketed part by a constant, by its content, or by one arm
        of the choice that it is."""
        changed, at = False, 0
        while time.monotonic() < self.stop:
            tokens = self.split()
            while at < len(tokens) and tokens[at] not in "([":
                at += 1
            if at >= len(tokens):
                break
            end, depth, marks = at, 0, {}
            while end < len(tokens):
                depth += (tokens[end] in "([") - (tokens[end] in ")]")
                if depth == 1 and tokens[end] in ("then", "else"):
                    marks.setdefault(tokens[end], end)
                if depth == 0:
                    break
                end += 1
            before, after = tokens[:at], tokens[end + 1:]
            inside = tokens[at + 1:end]
            tries = [["1.0"], ["1"], [], inside]
            if "then" in marks and "else" in marks:
                tries += [tokens[marks["then"] + 1:marks["else"]],
                          tokens[marks["else"] + 1:end]]
            for middle in tries:
                if len(middle) < end + 1 - at and self.attempt(
                        "".join(before + middle + after),
                        self.best["args"]):
                    changed = True
                    break
            else:
                at += 1
        return changed

    def drop_tokens(self):
        changed, size = False, 16
        while size:
            at = 0
            while True:
                tokens = self.split()
                if at >= len(tokens) or time.monotonic() > self.stop:
                    break
                gone = "".join(tokens[at:at + size])
                text = "".join(tokens[:at] + tokens[at + size:])
                if gone.strip() not in ("", "export") and self.attempt(
                        text, self.best["args"]):
                    changed = True
                else:
                    at += 1
            size //= 2
        return changed

    def drop_results(self):
        """A result with every line that mentions its name first."""
        changed = False
        for name in list(self.best["results"]):
            text = self.best["source_text"]
            m = re.search(r"-> \((.*)\) \{", text)
            if not m or "," not in m.group(1):
                continue
            inside = re.sub(r"(, )?\b%s: \w+(\[[^\]]*\])?" % re.escape(name),
                            "", m.group(1), 1)
            inside = re.sub("^, ", "", inside)
            lines = (text[:m.start(1)] + inside + text[m.end(1):]).split("\n")
            lines = [x for x in lines
                     if not re.match(r"\s*(var )?%s\b" % re.escape(name), x)]
            changed |= self.attempt("\n".join(lines), self.best["args"])
        return changed

    def drop_arguments(self):
        changed = False
        for name in list(self.best["args"]):
            args = {k: v for k, v in self.best["args"].items() if k != name}
            rx = re.compile(r"(, )?\b%s: \w+(\[[^\]]*\])?( in [^,)]*)?"
                            % re.escape(name))
            text = rx.sub("", self.best["source_text"], 1)
            text = text.replace("f(, ", "f(")
            changed |= self.attempt(text, args)
        return changed

    def lower_dims(self):
        changed = False
        for name, value in list(self.best["bound"].items()):
            for smaller in sorted({0, 1, 2, value // 2, value - 1}):
                if 0 <= smaller < value and self.resize(name, smaller):
                    changed = True
                    break
        return changed

    def resize(self, name, value):
        text = self.best["source_text"]
        text = re.sub(r"(?m)^dim %s = \d+$" % name,
                      "dim %s = %d" % (name, value), text)
        bound = dict(self.best["bound"], **{name: value})
        m = SIGNATURE.search(text)
        if not m:
            return False
        args = {}
        for p, tensor in self.best["args"].items():
            d = re.search(r"\b%s: \w+\[([^\]]*)\]" % re.escape(p), m.group(1))
            try:
                shape = [eval(x, {}, dict(bound)) for x in
                         d.group(1).split(",")] if d else []
            except (NameError, SyntaxError):
                return False
            count = 1
            for extent in shape:
                count *= extent
            data = tensor["data"] or [0]
            args[p] = dict(tensor, shape=shape,
                           data=[data[i % len(data)] for i in range(count)])
        before = self.best["bound"]
        self.best = dict(self.best, bound=bound)
        if self.attempt(text, args):
            return True
        self.best = dict(self.best, bound=before)
        return False

    def plain_inputs(self):
        changed = False
        for name, tensor in self.best["args"].items():
            for make in (lambda i: 0, lambda i: 1, lambda i: i % 3):
                data = [make(i) for i in range(len(tensor["data"]))]
                if tensor["dtype"] == "bool":
                    data = [bool(x) for x in data]
                elif tensor["dtype"][0] in "fb":
                    data = [float(x) for x in data]
                args = dict(self.best["args"],
                            **{name: dict(tensor, data=data)})
                if self.attempt(self.best["source_text"], args):
                    changed = True
                    break
        return changed

    def run(self):
        if self.kind is None:
            return None
        changed = True
        while changed and time.monotonic() < self.stop:
            changed = self.drop_results()
            changed |= self.drop_lines()
            changed |= self.lower_dims()
            changed |= self.drop_arguments()
            changed |= self.simplify_groups()
            changed |= self.drop_tokens()
        self.plain_inputs()
        return self.best


def shrink_seed(env, seed, device, seconds=120):
    """Prints the small program; keeps it beside the whole one."""
    case = programs.draw(env, seed, programs.store(env))
    shrinker = Shrinker(env, case, device, seconds)
    best = shrinker.run()
    if best is None:
        print("seed %d passes on %s" % (seed, device))
        return 1
    folder = os.path.join(env.build, "failed", "oracle-%d" % seed)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "small.tdsl"), "w",
              encoding="utf-8") as f:
        f.write(best["source_text"])
    with open(os.path.join(folder, "small.json"), "w",
              encoding="utf-8") as f:
        json.dump(best, f)
    print("seed %d on %s: %s" % (seed, device, shrinker.kind))
    print(best["source_text"])
    print(json.dumps({k: best[k] for k in ("args", "results", "tol")}))
    print("kept in " + folder)
    return 0
