"""Many processes that compile one program into one folder, some of them with
other settings, while entries are pruned and processes killed: results stay
equal, every entry verifies afterwards, and no temporary file stays. Two rounds
of sixteen processes each; fifty with --full."""
import hashlib
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "harness"))
from report import expect, finish, need  # noqa: E402

TDSLC = os.environ["TDSLC"]
FULL = os.environ.get("TDSL_TEST_FULL") == "1"
ROUNDS = 50 if FULL else 2
PROCESSES = 16
SEED = 19
# Integer data: sums are exact, whatever the order and the tiles.
PROGRAM = """dyn M <= 64, N <= 64
export fn f(x: f32[M, N], w: f32[N, N]) -> (y: f32[M, N], s: f32[M]) {
  y[i, j] = sum[k] x[i, k] * w[k, j]
  s[i] = max[j] y[i, j]
}
"""
DATA = """{"format": 1, "args": {"x": {"dtype": "f32", "shape": [5, 9],
  "data": [%s]}, "w": {"dtype": "f32", "shape": [9, 9], "data": [%s]}}}
""" % (",".join(str(i % 7 - 3) for i in range(45)),
       ",".join(str(i % 5 - 2) for i in range(81)))
# Two of the sixteen: other accumulation plans and passes, so other kernels.
OTHERS = {3: ["--plan", "serial"], 11: ["--disable-pass", "all"]}


def variables(folder, cache):
    env = {k: v for k, v in os.environ.items()
           if k not in ("TDSL_CACHE", "XDG_CACHE_HOME")}
    env.update(HOME=folder, TDSL_CACHE_DIR=cache)
    return env


def command(folder, number, out):
    return [TDSLC, "run", os.path.join(folder, "f.tdsl"), "--in",
            "@=" + os.path.join(folder, "case.json"), "--out", out,
            *OTHERS.get(number, [])]


def worker(folder, cache, number, digests, errors):
    """Each round on its own; one in eight is killed on its way."""
    draw = random.Random(SEED * 1000 + number)
    env = variables(folder, cache)
    for n in range(ROUNDS):
        out = os.path.join(folder, "out-%d.json" % number)
        child = subprocess.Popen(
            command(folder, number, out), env=env, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if draw.randrange(8) == 0 and n + 1 < ROUNDS:
            try:
                child.wait(draw.random() * 0.2)
            except subprocess.TimeoutExpired:
                child.send_signal(signal.SIGKILL)
        text = child.communicate(timeout=500)[0]
        if child.returncode == -signal.SIGKILL:
            continue
        # a warning names an entry that was not whole
        if child.returncode != 0 or "warning" in text:
            errors.append("%d, round %d: %s" % (number, n, text))
            continue
        with open(out, "rb") as f:
            digests.add(hashlib.sha256(f.read()).hexdigest())


def pruner(folder, cache, stop, errors):
    """Entries go away under their readers; those that are left are whole."""
    env = variables(folder, cache)
    draw = random.Random(SEED)
    while not stop.wait(0.2):
        names = [n for n in os.listdir(cache) if n.endswith(".tdk")] \
            if os.path.exists(cache) else []
        if names:
            try:
                os.remove(os.path.join(cache, draw.choice(sorted(names))))
            except FileNotFoundError:
                pass
        done = subprocess.run([TDSLC, "cache", "verify"], env=env,
                              capture_output=True, text=True, timeout=500)
        if done.returncode != 0:
            errors.append(done.stdout + done.stderr)


def main():
    need("llvm")
    with tempfile.TemporaryDirectory() as folder:
        cache = os.path.join(folder, "cache")
        with open(os.path.join(folder, "f.tdsl"), "w") as f:
            f.write(PROGRAM)
        with open(os.path.join(folder, "case.json"), "w") as f:
            f.write(DATA)
        digests, errors, stop = set(), [], threading.Event()
        threads = [threading.Thread(target=worker, args=(
            folder, cache, n, digests, errors)) for n in range(PROCESSES)]
        helper = threading.Thread(target=pruner,
                                  args=(folder, cache, stop, errors))
        for t in threads + [helper]:
            t.start()
        for t in threads:
            t.join()
        stop.set()
        helper.join()
        expect("no_process_failed", not errors, "\n".join(errors[:5]))
        plain = os.path.join(folder, "plain.json")
        subprocess.run(command(folder, 0, plain) + ["--device", "interp"],
                       timeout=500, check=True, capture_output=True)
        with open(plain, "rb") as f:
            want = hashlib.sha256(f.read()).hexdigest()
        expect("all_outputs_are_the_interpreters", digests == {want}, digests)
        env = variables(folder, cache)
        for n in range(PROCESSES):
            subprocess.run(command(folder, n, plain), env=env, timeout=500,
                           check=True, capture_output=True)
        done = subprocess.run([TDSLC, "cache", "verify"], env=env,
                              capture_output=True, text=True, timeout=500)
        expect("every_entry_verifies", done.returncode == 0 and re.match(
            r"[1-9]\d* entries, 0 damaged\n", done.stdout),
            done.stdout + done.stderr)
        # what killed processes left in the middle goes once it is old
        for name in os.listdir(cache):
            if not name.endswith(".tdk"):
                os.utime(os.path.join(cache, name), (1, 1))
        done = subprocess.run([TDSLC, "cache", "prune"], env=env,
                              capture_output=True, text=True, timeout=500)
        left = [n for n in os.listdir(cache) if not n.endswith(".tdk")]
        expect("nothing_else_stays", done.returncode == 0 and not left,
               "%s %s" % (left, done.stdout + done.stderr))
    finish()


if __name__ == "__main__":
    main()
