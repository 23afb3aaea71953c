#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of a million and of ten million instructions of pccx, and the debugger and traces on them.

    large.py TRIVET [--runs N]

Prints processor time (medians), rates of the larger against the smaller program, and memory an instruction. Ratios of
times are between commands that alternate in one run.
"""

import argparse
import os
import statistics
import subprocess
import tempfile

SMALL, LARGE, STEPS = 1000000, 10000000, 40
TRACES = {"packets": "trace.pftrace", "JSON": "trace.json"}
SOURCE = """        .target pccx
        .rept %d
        memset fmap_shape[1], 8, 1, 1
        cvo.exp l2[0x10], l2[0], len=8
        .endr
"""


def measure(command):
    """Processor seconds and peak bytes of a command, which may report findings."""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as p:
        _, status, usage = os.wait4(p.pid, 0)
        p.returncode = os.waitstatus_to_exitcode(status)
    if p.returncode not in (0, 1):
        raise SystemExit("%s: exit status %d" % (" ".join(command), p.returncode))
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def main():
    ap = argparse.ArgumentParser(description=__doc__.strip().split("\n", maxsplit=1)[0])
    ap.add_argument("trivet")
    ap.add_argument("--runs", type=int, default=5)
    options = ap.parse_args()
    trivet = os.path.abspath(options.trivet)
    with tempfile.TemporaryDirectory() as folder:
        path = lambda name: os.path.join(folder, name)
        for n in (SMALL, LARGE):
            with open(path("%d.s" % n), "w", encoding="utf-8") as f:
                f.write(SOURCE % (n // 2))
        for name, steps in (("run", 0), ("back", STEPS)):
            with open(path(name), "w", encoding="utf-8") as f:
                f.write("continue\n" + "back\n" * steps + "quit\n")
        elf = lambda n: path("%d.elf" % n)
        work = {"asm %d" % n: [trivet, "asm", path("%d.s" % n), "-o", elf(n), "--line-limit", "100000000", "-q"] for n in (SMALL, LARGE)}
        work.update({"check %d" % n: [trivet, "check", "-q", elf(n)] for n in (SMALL, LARGE)})
        work.update({"run %d" % n: [trivet, "run", "-q", elf(n)] for n in (SMALL, LARGE)})
        for name, file in TRACES.items():
            work[name] = [trivet, "run", "-q", elf(SMALL), "--trace", path(file)]
        for name in ("run", "back"):
            work["debug " + name] = [trivet, "debug", elf(LARGE), "-q", "-x", path(name)]
        found, sizes = {name: [] for name in work}, {}
        for _ in range(options.runs):
            for name, command in work.items():
                found[name].append(measure(command))
                if name in TRACES:  # so that the next run does not replace it
                    sizes[name] = os.path.getsize(path(TRACES[name]))
                    os.unlink(path(TRACES[name]))
    seconds = {name: statistics.median(s for s, _ in runs) for name, runs in found.items()}
    peak = {name: max(b for _, b in runs) for name, runs in found.items()}
    for name in ("asm", "check", "run"):
        small, large = seconds["%s %d" % (name, SMALL)], seconds["%s %d" % (name, LARGE)]
        print("%-6s %6.2f and %6.2f s, rate of the larger one %.2f (goal 0.9), %.0f bytes an instruction (goal 64)" %
              (name, small, large, LARGE / SMALL * small / large, peak["%s %d" % (name, LARGE)] / LARGE))
    for name, file in TRACES.items():
        print("trace  %.1f times the run without it (goal 2), %d bytes an instruction: %s" % (seconds[name] / seconds["run %d" % SMALL], sizes[name] / SMALL, name))
    back = statistics.median((b - a) / STEPS / a for (a, _), (b, _) in zip(found["debug run"], found["debug back"]))
    print("back   %.1f %% of the run for a step at its end (goal 2)" % (100 * back))


if __name__ == "__main__":
    main()
