#!/usr/bin/env python3
"""One peer of bench_matrix, in a process of its own.

    peer.py ENGINE THREADS

ENGINE is a module beside this file: engine_ENGINE.py. The process says
"ready VERSION" or "absent REASON" and then answers a line with a line:

    open SETS DIR TASK...   operands are DIR/0.bin, DIR/1.bin, ...; what the
                            task computes is written to DIR/ENGINE.out as f32
                            -> ok, no REASON, or failed ERROR
    run SECONDS             runs for so long, at least once, then once more
                            -> seconds of the last run
    close                   -> ok

An engine has VERSION, start(threads) and open(task, load, sets), which
returns a list of calls, one for each operand set, and a function that gives
the result of the first call as an array. It raises Refused for a task that
it has no good way to compute.
"""
import importlib
import os
import sys
import time

import numpy

TYPES = {"f32": numpy.float32, "f16": numpy.float16, "i8": numpy.int8,
         "u8": numpy.uint8, "i32": numpy.int32}


class Refused(Exception):
    pass


class Operands:
    """The files of one row, read once; each set is a copy of its own."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, number, dtype, *shape):
        data = numpy.fromfile(f"{self.folder}/{number}.bin", TYPES[dtype])
        return data.reshape(shape)


class Peer:
    def __init__(self, name, engine):
        self.name, self.engine = name, engine
        self.calls, self.turn = [], 0
        self.result = None  # holds memory that the calls work with

    def open(self, sets, folder, *task):
        self.close()
        self.calls, self.result = self.engine.open(
            list(task), Operands(folder), int(sets))
        self.calls[0]()
        out = numpy.asarray(self.result(), numpy.float32)
        numpy.ascontiguousarray(out).tofile(f"{folder}/{self.name}.out")
        return "ok"

    def run(self, warm):
        clock = time.perf_counter
        calls, end = self.calls, clock() + float(warm)
        while True:
            self.turn = (self.turn + 1) % len(calls)
            calls[self.turn]()
            if clock() >= end:
                break
        self.turn = (self.turn + 1) % len(calls)
        call = calls[self.turn]
        start = clock()
        call()
        return repr(clock() - start)

    def close(self):
        self.calls, self.turn, self.result = [], 0, None
        return "ok"


def main():
    name, threads = sys.argv[1], int(sys.argv[2])
    # what an engine prints must not come between the answers
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    sys.modules["peer"] = sys.modules["__main__"]
    try:
        engine = importlib.import_module("engine_" + name)
        engine.start(threads)
    except Exception as e:
        answers.write(f"absent {type(e).__name__}: {e}\n".replace("\n", " "))
        answers.write("\n")
        return
    answers.write(f"ready {engine.VERSION}\n")
    peer = Peer(name, engine)
    verbs = {"open": peer.open, "run": peer.run, "close": peer.close}
    for line in sys.stdin:
        words = line.split()
        try:
            answer = verbs[words[0]](*words[1:])
        except Refused as e:
            answer = f"no {e}"
        except Exception as e:
            answer = f"failed {type(e).__name__}: {e}"
        answers.write(answer.replace("\n", " ")[:400] + "\n")


if __name__ == "__main__":
    main()
