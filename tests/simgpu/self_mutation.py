"""Flips one handler, check or counter of the simulated GPU at a time; the
tests of this folder must notice each.

    self_mutation.py --build BUILD [--sample N] [--seed S] [--jobs N]
                     [--work FOLDER] [KIND[:NAME] ...]

A second library is linked from the build's objects and four files that are
patched in a temporary folder; what it flips is said by a variable. A flipped
handler turns the lowest bit of its first result in every lane, or does
nothing at all if it has no result; a flipped check stays silent; a flipped
counter is one off. Test programs that use the handler, or name the check or
counter, run first, then all others. Takes about an hour of one CPU; FOLDER
keeps the library and what the programs use.

Exit: 0 all noticed, 1 some were not, 77 nothing to link."""
import argparse
import concurrent.futures
import os
import random
import re
import shlex
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SIM = os.path.join(ROOT, "runtime", "simgpu")
# programs that open the library by themselves, or damage texts at random
LEFT_OUT = {"test_driver.c", "test_hostile.c"}

FLIP_H = """
#include "runtime/simgpu/warp.h"
sim_fn_t sim_flip_fn(uint16_t handler, sim_fn_t fn);
bool sim_flip_check(unsigned id);
void sim_flip_counters(uint64_t *counters);
"""
FLIP_C = """
#include "flip.h"
#include <stdio.h>
#include <stdlib.h>

static sim_fn_t original;

static const char *behind(const char *kind) {
  const char *e = getenv("TDSL_SIM_FLIP");
  size_t n = strlen(kind);
  return e && strncmp(e, kind, n) == 0 ? e + n : NULL;
}

static void turn(sim_warp_t *w, uint32_t row, uint32_t m) {
  uint32_t at = row & ~3u;
  if ((row & 3u) == SIM_ROW_PRED) *sim_row(w, at) ^= m;
  for (uint32_t l = 0; l < 32; l++) {
    if (!(m >> l & 1)) continue;
    if ((row & 3u) == SIM_ROW_32) sim_row(w, at)[l] ^= 1;
    if ((row & 3u) == SIM_ROW_64) sim_row64(w, at)[l] ^= 1;
  }
}

static const sim_ins_t *flipped(sim_warp_t *w, const sim_ins_t *i,
                                uint32_t m) {
  if (i->cls == SIM_CLASS_CONTROL ||
      (!(i->writes & SIM_WRITES_D) && !i->list_writes))
    return i + 1;
  const sim_ins_t *next = original(w, i, m);
  if (i->writes & SIM_WRITES_D)
    turn(w, i->d | sim_kind(i, 0), m);
  else
    turn(w, sim_list(w, i, 0), m);
  return next;
}

sim_fn_t sim_flip_fn(uint16_t handler, sim_fn_t fn) {
  const char *note = behind("note:"), *name = behind("handler:");
  if (note) {
    FILE *f = fopen(note, "a");
    if (f) fprintf(f, "%s\\n", sim_handler_name(handler));
    if (f) fclose(f);
  }
  if (!name || strcmp(name, sim_handler_name(handler)) != 0) return fn;
  original = fn;
  return flipped;
}

bool sim_flip_check(unsigned id) {
  const char *name = behind("check:");
  return name && strcmp(name, sim_check_row((sim_check_t)id)->text) == 0;
}

void sim_flip_counters(uint64_t *counters) {
  const char *name = behind("counter:");
  for (unsigned n = 0; name && n < SIM_COUNTER_COUNT; n++)
    if (strcmp(name, sim_counter_name(n)) == 0) counters[n] ^= 1;
}
"""
PATCHES = {
    "decode.c": [("d->ins.fn = d->variant[handler];",
                  "d->ins.fn = sim_flip_fn(handler, d->variant[handler]);"),
                 (".fn = d->variant[handler],",
                  ".fn = sim_flip_fn(handler, d->variant[handler]),")],
    "check.c": [("  sim_launch_t *launch = w->worker->launch;\n",
                 "  if (sim_flip_check(id)) return true;\n"
                 "  sim_launch_t *launch = w->worker->launch;\n"),
                ("const sim_finding_t *f) {\n  td_mutex_lock",
                 "const sim_finding_t *f) {\n"
                 "  if (sim_flip_check(f->id)) return;\n  td_mutex_lock")],
    "grid.c": [("  sim_sectors_end(launch);\n",
                "  sim_sectors_end(launch);\n"
                "  sim_flip_counters(out->counters);\n")]}


def link(build, work):
    """The library that can be flipped; None if the build has none."""
    shown = subprocess.run(
        ["ninja", "-C", build, "-t", "commands", "libtdsl_simgpu.so"],
        capture_output=True, text=True, check=False).stdout
    lines = [x for x in shown.split("\n") if x]
    if not lines:
        return None
    with open(os.path.join(work, "flip.h"), "w") as f:
        f.write(FLIP_H)
    with open(os.path.join(work, "flip.c"), "w") as f:
        f.write(FLIP_C)
    objects, last = {}, lines[-1]
    for name, patches in list(PATCHES.items()) + [("flip.c", [])]:
        model = "check.c" if name == "flip.c" else name
        line = next(x for x in lines
                    if " -c " in x and x.split(" -c ")[1].strip().endswith(
                        "/runtime/simgpu/" + model))
        source = os.path.join(work, name)
        if name != "flip.c":
            with open(os.path.join(SIM, name)) as f:
                text = f.read()
            for old, new in patches:
                if old not in text:
                    raise SystemExit("%s has no place to patch" % name)
                text = text.replace(old, new, 1)
            with open(source, "w") as f:
                f.write('#include "flip.h"\n' + text)
        words = shlex.split(line)
        words[words.index("-c") + 1] = source
        out = words[words.index("-o") + 1]
        words[words.index("-o") + 1] = source[:-1] + "o"
        words = [w for w in words if w not in ("-Werror", "-MD")]
        for flag in ("-MT", "-MF"):
            if flag in words:
                at = words.index(flag)
                del words[at:at + 2]
        subprocess.run(words[:1] + words[1:] + ["-I" + work, "-w"],
                       cwd=build, check=True)
        if name != "flip.c":
            objects[out] = source[:-1] + "o"
    command = last[last.index(" && ") + 4:last.rindex(" && ")] \
        if last.startswith(":") else last
    words = [objects.get(w, w) for w in shlex.split(command)]
    library = os.path.join(work, "libtdsl_simgpu.so")
    words[words.index("-o") + 1] = library
    words.append(os.path.join(work, "flip.o"))
    subprocess.run(words, cwd=build, check=True)
    return library


def run(build, library, program, flip, timeout):
    env = dict(os.environ, TDSL_LAB_SIMULATOR=library, TDSL_SIM_FLIP=flip,
               TDSL_SIM_REPORT="/dev/null", TDSL_CACHE="off")
    try:
        return subprocess.run([os.path.join(build, "tests", program)],
                              env=env, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, timeout=timeout,
                              check=False).returncode
    except subprocess.TimeoutExpired:
        return -1


def names(path, pattern):
    with open(os.path.join(SIM, path)) as f:
        return re.findall(pattern, f.read())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--work")
    parser.add_argument("only", nargs="*")
    args = parser.parse_args()
    build = os.path.abspath(args.build)
    work = args.work or tempfile.mkdtemp(prefix="tdsl-flip-")
    os.makedirs(work, exist_ok=True)
    library = os.path.join(work, "libtdsl_simgpu.so")
    if not os.path.exists(library):
        library = link(build, work)
    if not library:
        print("no library to flip")
        sys.exit(77)
    programs, texts, uses, took = [], {}, {}, {}
    for name in sorted(os.listdir(HERE)):
        if not re.match(r"test_.*\.c$", name) or name in LEFT_OUT:
            continue
        with open(os.path.join(HERE, name)) as f:
            text = f.read()
        program = name[:-2].replace("test_", "simgpu_", 1)
        if not os.path.exists(os.path.join(build, "tests", program)):
            continue
        note = os.path.join(work, program + ".txt")
        if not os.path.exists(note + ".done"):
            start = time.time()
            if run(build, library, program, "note:" + note, 600) != 0:
                raise SystemExit("%s fails without a flip" % program)
            with open(note + ".done", "w") as f:
                f.write("%g" % (time.time() - start))
        with open(note + ".done") as f:
            took[program] = float(f.read())
        programs.append(program)
        texts[program] = text
        uses[program] = set()
        if os.path.exists(note):
            with open(note) as f:
                uses[program] = set(f.read().split())
    programs.sort(key=lambda p: took[p])
    sites = ["handler:" + n for n in
             names("handlers.def", r"(?m)^SIM_HANDLER\((\w+),")
             # one does nothing either way, the other goes before its like
             if n not in ("nop", "watch")]
    sites += ["check:" + n for n in
              names("checks.def", r'SIM_CHECK\(\w+,\s*"([\w.]+)"')]
    sites += ["counter:" + n for n in
              names("counters.def", r'SIM_COUNTER\(\w+,\s*"([\w.]+)"')]
    if args.only:
        sites = [s for s in sites
                 if any(s == o or s.startswith(o + ":") for o in args.only)]
    if args.sample:
        sites = random.Random(args.seed).sample(sites, min(args.sample,
                                                           len(sites)))

    def judge(site):
        kind, name = site.split(":", 1)
        first = [p for p in programs
                 if (name in uses[p] if kind == "handler"
                     else '"%s' % name in texts[p] or name + '"' in texts[p])]
        for p in first + [p for p in programs if p not in first]:
            if run(build, library, p, site, 30 + 20 * took[p]) != 0:
                return site, p
        return site, None

    missed = []
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for site, program in pool.map(judge, sites):
            if not program:
                missed.append(site)
            print("%-32s %s" % (site, program or "NOT NOTICED"), flush=True)
    print("%d of %d noticed" % (len(sites) - len(missed), len(sites)))
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
