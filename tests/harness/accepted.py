"""Programs that only have to be accepted, those of errors.json and of
tests/frontend/ok: where they can run, they run, on random inputs, and the
engines must agree."""
import os
import re
import sys

import gpu
import vectors
from compare import FLOATS, compare, equal_bits, leaves

FUNCTION = re.compile(r"^[^/\n]*?(\bexport\s+)?\bfn\s+(\w+)\s*\(", re.M)
DYNAMIC = re.compile(r"^[ \t]*dyn\b([^\n/]*)", re.M)
SIZES = (3, 5, 2, 7, 1, 4)
# Static dims that a text leaves open, and dynamic ones that it ties.
DIMS = {"facts.tdsl": {"H": 6, "G": 3, "K": 4, "T": 9, "S": 9}}
SEED = "*=random:1"


def programs(env):
    """[(title, text, function)]: what a text exports, or all it has."""
    texts = []
    for index, row in enumerate(vectors.load(env, "errors")["accept"]):
        texts.append(("accept.%d" % index,
                      row["source"] if isinstance(row, dict) else row))
    folder = os.path.join(env.tests, "frontend", "ok")
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), encoding="utf-8") as f:
            texts.append((name, f.read()))
    out = []
    for title, text in texts:
        found = FUNCTION.findall(text)
        chosen = [fn for word, fn in found if word] or [
            fn for _, fn in found]
        out += [(title, text, fn) for fn in chosen]
    return out


def discover(env):
    for index, (title, _, fn) in enumerate(programs(env)):
        yield ("exec", "accepted.%s.%s" % (title, fn), run_program,
               (index,), 3)


def dims_of(title, text):
    names = re.findall(r"\b([A-Z]\w*)\b", " ".join(DYNAMIC.findall(text)))
    out = {name: SIZES[i % len(SIZES)]
           for i, name in enumerate(dict.fromkeys(names))}
    out.update(DIMS.get(title, {}))
    return out


def tolerances(env, exact, single):
    """From how far the interpreter in f32 is from itself in f64."""
    oracle = os.path.join(env.tests, "oracle")
    if oracle not in sys.path:
        sys.path.insert(0, oracle)
    from tdsl_random import tolerance
    mine = {path: leaf for name in single
            for path, leaf in leaves(single[name], name)}
    return {path: tolerance(leaf, mine[path]) for name in exact
            for path, leaf in leaves(exact[name], name)
            if leaf["dtype"] in FLOATS}


def run_program(env, index):
    title, text, fn = programs(env)[index]
    name = "accepted.%s.%s" % (title, fn)
    case = {"fn": fn, "dims": dims_of(title, text)}
    engines = ["interp:f64", "interp", "interp:kir", "sim"]
    got, out, like_sim = {}, [], None
    with env.scratch() as folder:
        path = os.path.join(folder, "p.tdsl")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        if env.has("llvm"):
            like_sim = gpu.like_a_gpu(path)
            engines[2:2] = ["cpu"] if like_sim == "cpu" else ["cpu", like_sim]
        for engine in engines:
            where = gpu.place(engine, name)
            try:
                results, state = vectors.run_once(
                    env, path, case, {}, where, folder, ("--in", SEED))
            except vectors.Refused as refused:
                if engine == "sim" and str(refused) == "needs nvrtc":
                    out.append((name + "@sim", "skip", str(refused)))
                    continue
                return [(name, "skip", str(refused))]
            except RuntimeError as error:
                return [(name, "fail", gpu.told(where, str(error)))]
            got[engine] = dict(results, **{
                "state." + key: value for key, value in state.items()})
    tol = tolerances(env, got["interp:f64"], got["interp"])
    for engine in engines[1:]:
        if engine not in got:
            continue
        wrong = compare(got[engine], got["interp:f64"], tol)
        if engine == "sim" and like_sim in got:
            wrong += equal_bits(got["sim"], got[like_sim])
        if not got[engine]:
            wrong.append("no result")
        out.append(("%s@%s" % (name, engine), "fail" if wrong else "pass",
                    gpu.told(gpu.place(engine, name), "\n".join(wrong))))
    return out
