#!/usr/bin/env python3
"""Runs the tests of this tree; standard library only.

  tests/tdtest.py [--build DIR] [LABEL ...] [-k PATTERN] [--seed N]

LABEL is a folder of tests/ (unit, frontend, vectors, oracle, lint, ...), or
fast (everything under a minute), or night (many random programs; resumable
with --minutes N). Without one the whole suite runs, night excepted; what takes
long, by half unless --full is given (docs/testing.md says what). The last
line is `N passed, N failed, N skipped`; the exit status is 0 if none failed.
tests/skips.txt lists the skips that are allowed; any other one is a failure.
"""
import argparse
import fnmatch
import itertools
import json
import multiprocessing
import os
import resource
import sys
import time
import traceback

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "harness"))

import accepted        # noqa: E402
import cases           # noqa: E402
import corpus          # noqa: E402
import cunit           # noqa: E402
import filetest        # noqa: E402
import nvrtc           # noqa: E402
import resources       # noqa: E402
import programs        # noqa: E402
import scripts         # noqa: E402
import shrink          # noqa: E402
import vectors         # noqa: E402
from environment import Environment  # noqa: E402

FAST = ("unit", "frontend", "ir", "passes", "codegen", "lint", "harness")
FILE_LABELS = ("frontend", "ir", "passes", "codegen", "exec", "formats",
               "cli")
SEEDS = 280            # of which some 250 use no grad
FULL_SEEDS = 560
SIM_SEEDS = 40         # of these, those that run on the simulated GPU too
FULL_SIM_SEEDS = 340   # some 300 use no grad
CHUNK = 8              # seeds of one job


class Job:
    """One unit of work for one process: it gives one result or many. Jobs of
    one group follow each other in one process, so that they share what they
    have computed."""

    def __init__(self, label, name, function, args, weight=1, group=None):
        self.label, self.name = label, name
        self.function, self.args, self.weight = function, args, weight
        self.group = group or self


def file_job(env, name, path):
    return [(name,) + filetest.run_file(env, path)]


def find_files(env, label):
    for folder, folders, names in os.walk(os.path.join(env.tests, label)):
        folders.sort()
        for name in sorted(names):
            if name.endswith((".tdsl", ".tir", ".kir", ".plan", ".txt")):
                path = os.path.join(folder, name)
                with open(path, encoding="utf-8", errors="replace") as f:
                    if filetest.is_file_test(path, f.read()):
                        yield path


def language_files(env):
    folders = [env.stdlib, os.path.join(env.root, "examples"),
               os.path.join(env.tests, "exec")]
    for top in folders:
        for folder, below, names in os.walk(top):
            below.sort()
            for name in sorted(names):
                if name.endswith(".tdsl"):
                    yield os.path.join(folder, name)


def collect(env, seeds, sim_seeds, is_full):
    jobs = []
    for label, name, command, folder in cunit.discover(env.build):
        jobs.append(Job(label, name, cunit.run_compiled,
                        (label, name, command, folder), 20))
    for label in FILE_LABELS:
        for path in find_files(env, label):
            name = os.path.relpath(path, env.tests)
            jobs.append(Job(label, name, file_job, (name, path)))
    for program, index, device in vectors.discover(env):
        jobs.append(Job("vectors", "vectors.%s@%s" % (program, device),
                        vectors.run_vector, (program, index, device), 1,
                        "vectors.%s.%d" % (program, index)))
    errors = vectors.load(env, "errors")
    for kind in ("reject", "accept"):
        for index in range(len(errors[kind])):
            jobs.append(Job("frontend", "vectors.errors.%s" % kind,
                            vectors.run_error, (kind, index)))
    for path in language_files(env):
        if vectors.has_tests(path):
            for device in vectors.DEVICES:
                short = os.path.relpath(path, env.root)
                jobs.append(Job("exec", "tests.%s@%s" % (short, device),
                                vectors.run_language_tests, (path, device),
                                5))
    for first, count in seeds:
        jobs.append(Job("oracle", "oracle.seed.%d" % first,
                        programs.run_seeds,
                        (first, count, programs.DEVICES), 15,
                        "oracle.%d" % first))
    for first in range(0, sim_seeds, CHUNK):
        jobs.append(Job("oracle", "oracle.sim.%d" % first,
                        programs.run_seeds,
                        (first, min(CHUNK, sim_seeds - first), ("sim",)), 15,
                        "oracle.%d" % first))
    jobs += [Job(*row) for row in cases.discover(env)]
    jobs += [Job(*row) for row in corpus.discover(env)]
    jobs += [Job(*row) for row in accepted.discover(env)]
    jobs += [Job(*row) for row in nvrtc.discover(env, is_full)]
    jobs += [Job(*row) for row in resources.discover(env, is_full)]
    jobs += [Job(*row) for row in scripts.discover(env)]
    return jobs


# --- running --------------------------------------------------------------
ENV = None


def start_process(env):
    global ENV
    ENV = env


def cpu_seconds():
    """What this process and those it waited for have used."""
    return sum(use.ru_utime + use.ru_stime for use in map(
        resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def execute(jobs):
    """What each job of a group gave, in order."""
    return [execute_one(job) for job in jobs]


def execute_one(job):
    started, used = time.monotonic(), cpu_seconds()
    try:
        results = job.function(ENV, *job.args)
    except Exception:
        results = [(job.name, "fail", traceback.format_exc())]
    return (job, results, time.monotonic() - started,
            cpu_seconds() - used)


class Skips:
    """tests/skips.txt: rows `COUNT PATTERN` over `NAME: REASON`."""

    def __init__(self, path):
        self.rows = []
        with open(path, encoding="utf-8") as f:
            for line in f:
                line = line.split("#")[0].strip()
                if line:
                    count, pattern = line.split(None, 1)
                    self.rows.append([int(count), pattern])

    def allows(self, name, reason):
        for row in self.rows:
            if row[0] > 0 and fnmatch.fnmatchcase(
                    "%s: %s" % (name, reason), row[1]):
                row[0] -= 1
                return True
        return False


def run_jobs(env, jobs, workers, verbose, skips):
    """Counts by status; prints failures as they come."""
    counts = {"pass": 0, "fail": 0, "skip": 0}
    labels, reasons, times = {}, {}, []
    live = sys.stderr.isatty()
    groups = {}
    for job in sorted(jobs, key=lambda job: -job.weight):
        groups.setdefault(job.group, []).append(job)
    context = multiprocessing.get_context("fork")
    with context.Pool(workers, start_process, (env,)) as pool:
        done = 0
        for job, results, seconds, used in itertools.chain.from_iterable(
                pool.imap_unordered(execute, groups.values())):
            done += 1
            times.append((used, seconds, job))
            for name, status, detail in results:
                if status == "skip":
                    if skips.allows(name, detail):
                        reasons.setdefault(detail, []).append(name)
                    else:
                        status = "fail"
                        detail = ("skipped, and tests/skips.txt does not "
                                  "list it: " + detail)
                counts[status] += 1
                row = labels.setdefault(job.label, dict.fromkeys(counts, 0))
                row[status] += 1
                if status == "fail":
                    print("FAIL %s\n    %s" % (
                        name, detail.strip().replace("\n", "\n    ")),
                        flush=True)
                elif verbose:
                    print("%s %s %s" % (status, name,
                                        detail if status == "skip" else ""),
                          flush=True)
            if live:
                sys.stderr.write("\r%d of %d jobs, %d failed " % (
                    done, len(jobs), counts["fail"]))
                sys.stderr.flush()
    if live:
        sys.stderr.write("\r\033[K")
    for reason in sorted(reasons):
        names = sorted(reasons[reason])
        print("skipped %d: %s  (%s%s)" % (len(names), reason, names[0],
              ", ..." if len(names) > 1 else ""))
    for label in sorted(labels):
        row = labels[label]
        print("%-10s %5d passed, %d failed, %d skipped" % (
            label, row["pass"], row["fail"], row["skip"]))
    return counts, times


def print_times(times):
    """Processor seconds, since other work does not change them much, by
    label and engine and of the jobs that take most."""
    sums = {}
    for used, _, job in times:
        where = job.name.rpartition("@")[2] if "@" in job.name else "-"
        for key in ((job.label, ""), (job.label, where)):
            row = sums.setdefault(key, [0, 0.0])
            row[0] += 1
            row[1] += used
    print("jobs  processor")
    for (label, where), (count, used) in sorted(sums.items()):
        print("%4d %8.2f s  %s" % (count, used, "  " + where if where
                                   else label))
    print("processor, wall")
    for used, seconds, job in sorted(
            times, key=lambda row: row[:2], reverse=True)[:40]:
        print("%7.2f s %7.2f s  %s" % (used, seconds, job.name))
    print("%7.2f s of processor time, this process included" %
          cpu_seconds())


def finish(counts):
    print("%d passed, %d failed, %d skipped" % (
        counts["pass"], counts["fail"], counts["skip"]), flush=True)
    return 1 if counts["fail"] or not counts["pass"] else 0


def night(env, options, skips):
    """Random programs beyond those of every day, in slices: the next seed
    is kept in the build folder, so that --minutes N goes on where the last
    slice ended."""
    state = os.path.join(env.build, "night.json")
    try:
        with open(state) as f:
            at = json.load(f)["next"]
    except (OSError, ValueError, KeyError):
        at = FULL_SEEDS
    end = at + options.programs
    stop = time.monotonic() + 60 * options.minutes if options.minutes else None
    total = {"pass": 0, "fail": 0, "skip": 0}
    slice_size = CHUNK * options.jobs * 8
    while at < end and (stop is None or time.monotonic() < stop):
        count = min(slice_size, end - at)
        jobs = [Job("oracle", "oracle.seed.%d" % first, programs.run_seeds,
                    (first, min(CHUNK, at + count - first),
                     programs.NIGHT_DEVICES))
                for first in range(at, at + count, CHUNK)]
        counts, _ = run_jobs(env, jobs, options.jobs, options.verbose, skips)
        for key in total:
            total[key] += counts[key]
        at += count
        with open(state, "w") as f:
            json.dump({"next": at}, f)
    return finish(total)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    root = os.path.dirname(HERE)
    parser.add_argument("labels", nargs="*", metavar="LABEL")
    parser.add_argument("--build", default=os.path.join(root, "build"))
    parser.add_argument("-k", dest="pattern", help="names that match only")
    parser.add_argument("--seed", type=int, help="one random program")
    parser.add_argument("--shrink", metavar="DEVICE",
                        help="make the program of --seed small")
    parser.add_argument("--seeds", type=int, help="random programs")
    parser.add_argument("--sim-seeds", type=int,
                        help="random programs on the simulated GPU")
    parser.add_argument("--full", action="store_true",
                        help="every program for every GPU, 340 random ones, "
                        "long races")
    parser.add_argument("--draw", type=int, default=0, metavar="N",
                        help="the other half of what is drawn for odd N; "
                        "with --full and -k everything runs")
    parser.add_argument("--programs", type=int, default=20000,
                        help="random programs of a night")
    parser.add_argument("--minutes", type=float, help="length of a slice")
    parser.add_argument("--times", action="store_true",
                        help="processor time of the labels and engines, and "
                        "the jobs that take most")
    parser.add_argument("-j", dest="jobs", type=int,
                        default=len(os.sched_getaffinity(0)))
    parser.add_argument("-v", dest="verbose", action="store_true")
    options = parser.parse_args()
    if options.seeds is None:
        options.seeds = FULL_SEEDS if options.full else SEEDS
    if options.sim_seeds is None:
        options.sim_seeds = FULL_SIM_SEEDS if options.full else SIM_SEEDS
    env = Environment(root, options.build)
    env.full = options.full
    if not (options.full or options.pattern):
        env.draw = options.draw
    skips = Skips(os.path.join(HERE, "skips.txt"))
    if "night" in options.labels:
        return night(env, options, Skips(os.path.join(HERE,
                                                      "skips-night.txt")))
    if options.seed is not None and options.shrink:
        return shrink.shrink_seed(env, options.seed, options.shrink)
    if options.seed is not None:
        jobs = [Job("oracle", "oracle.seed.%d" % options.seed,
                    programs.run_seeds,
                    (options.seed, 1, programs.NIGHT_DEVICES))]
    else:
        seeds = [(first, min(CHUNK, options.seeds - first))
                 for first in range(0, options.seeds, CHUNK)]
        jobs = collect(env, seeds, options.sim_seeds, options.full)
        wanted = set()
        for label in options.labels:
            wanted.update(FAST if label == "fast" else [label])
        if wanted:
            unknown = wanted - {job.label for job in jobs}
            if unknown - set(FAST):
                parser.error("no test has the label "
                             + ", ".join(sorted(unknown)))
            jobs = [job for job in jobs if job.label in wanted]
    if options.pattern:
        wild = "*%s*" % options.pattern
        jobs = [job for job in jobs
                if fnmatch.fnmatchcase(job.name, wild)]
        if not jobs:
            parser.error("no test's name is like " + wild)
    counts, times = run_jobs(env, jobs, options.jobs, options.verbose, skips)
    if options.times:
        print_times(times)
    return finish(counts)


if __name__ == "__main__":
    sys.exit(main())
