#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A fuzz campaign: each target for a number of executions, with a corpus that is kept and minimized.

    campaign.py BUILD [--asan BUILD] [--trivet TRIVET] [--seconds N] [--jobs N] [--target NAME]... [--keep] [--markdown] [--report]

BUILD is a build folder with -Dfuzz=true, of which only the target fuzz-targets is needed; CONTRIBUTING.md has its options. With
--asan, one execution of SHARE is done by the targets of that folder, which is built with the address sanitizer. A target starts
from fuzz/corpus/NAME, and from the seeds and dictionaries of run.py, which are made from the examples and the instruction tables;
TRIVET makes the seeds. The targets run in slices of SLICE seconds in turn until each has the executions of RUNS; --seconds bounds
the whole. Three slices of four have inputs of an eighth of the length, which are several times faster and reach most edges. The counts and the inputs found are in BUILD/fuzz/work, so that a campaign that was interrupted is continued. A target is started again after a crash, up to CRASHES_MAX; crashing inputs and reports are in
BUILD/fuzz/found/NAME. --keep merges the MERGED smallest inputs found into fuzz/corpus/NAME, the smallest first, at most CORPUS_BYTES and CORPUS_FILES, and
--report only prints the table of the counts so far; with --markdown as it is in the manual. The exit status is 1 when a crash
was found.
"""

import argparse
import concurrent.futures
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import run  # noqa: E402

ROOT = run.ROOT
TEN_MILLION, MILLION = 10000000, 1000000
# Parsers of text: 10^7 executions; loaders of binary files and machines: 10^6; the word codec is fast and gets the most.
RUNS = {"codec": 5 * TEN_MILLION, "json": TEN_MILLION, "config": TEN_MILLION, "asm": TEN_MILLION, "queue": TEN_MILLION,
        "trace": TEN_MILLION, "commit_log": TEN_MILLION, "tokenizer": TEN_MILLION, "elf": MILLION, "gguf": MILLION, "onnx": MILLION, "npy": MILLION, "memory_file": MILLION, "measurements": TEN_MILLION, "rules": TEN_MILLION, "coverage": TEN_MILLION, "sweep": MILLION, "run_pccx": MILLION, "run_opennpu": MILLION,
        "run_cmdq": MILLION, "debug": MILLION}
SLICE = 60
SHORT, SHORTEST = 8, 96  # short inputs have a SHORT-th of the length, but at least so many bytes
SHARE = 10
CRASHES_MAX = 10
CORPUS_BYTES, CORPUS_FILES = 100000, 290
MERGED = 4000  # the smallest inputs found, of which those to keep are taken
FLAGS = ["-timeout=20", "-entropic=0", "-rss_limit_mb=4096", "-print_final_stats=1"]
COLUMNS = ("executions", "seconds", "asan_executions", "asan_seconds", "edges", "features", "crashes", "slices")


class State:
    """The counts of each target, in a file of its own that is written after each slice."""

    def __init__(self, build):
        self.folder, self.counts = os.path.join(build, "fuzz", "work"), {}

    def of(self, name):
        path = os.path.join(self.folder, name + ".json")
        if name not in self.counts:
            self.counts[name] = dict.fromkeys(COLUMNS, 0)
            if os.path.exists(path):
                with open(path, encoding="utf-8") as file:
                    self.counts[name].update(json.load(file))
        return self.counts[name]

    def save(self, name):
        path = os.path.join(self.folder, name + ".json")
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump(self.counts[name], file, indent=1)
        os.replace(path + ".new", path)


def total(counts):
    return counts["executions"] + counts["asan_executions"]


def prepare(name, options):
    """Makes the seeds and the dictionary of the target once; returns the corpus and the option of the dictionary."""
    work = os.path.join(options.build, "fuzz", "work", name)
    corpus = os.path.join(work, "corpus")
    if not os.path.exists(corpus):
        fresh = corpus + ".new"
        shutil.rmtree(fresh, ignore_errors=True)
        os.makedirs(fresh)
        run.seed(name, ROOT, options.trivet, fresh)
        os.rename(fresh, corpus)
    return corpus, run.dictionary(name, ROOT, work)


def longest_input(name, counts):
    """The length of the inputs of a slice."""
    longest = run.LENGTHS[name]
    return longest if counts["slices"] % 4 == 0 else min(longest, max(longest // SHORT, SHORTEST))


def execute(name, options, folder, runs, seconds, counts, prefix):
    """Runs the target of a build folder up to `runs` times or `seconds`; adds to the counts whose names begin with `prefix`."""
    corpus, dictionary = prepare(name, options)
    found = os.path.join(options.build, "fuzz", "found", name)
    os.makedirs(found, exist_ok=True)
    start = time.monotonic()
    done = subprocess.run([os.path.join(folder, "fuzz", "fuzz_" + name), "-runs=%d" % runs, "-max_total_time=%d" % max(seconds, 1), *FLAGS,
                           "-max_len=%d" % longest_input(name, counts), "-seed=%d" % (total(counts) + 1), "-artifact_prefix=" + found + "/",
                           *dictionary, corpus], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=corpus, check=False)
    text = done.stderr.decode("utf-8", "replace")
    executed = re.findall(r"stat::number_of_executed_units:\s*(\d+)|^#(\d+)", text, re.M)
    counts[prefix + "executions"] += max((int(a or b) for a, b in executed), default=0)
    counts[prefix + "seconds"] += time.monotonic() - start
    if not prefix and longest_input(name, counts) == run.LENGTHS[name]:
        for edges, features in re.findall(r"cov: (\d+) ft: (\d+)", text)[-1:]:
            counts["edges"], counts["features"] = int(edges), int(features)
    counts["slices"] += not prefix
    if done.returncode:
        counts["crashes"] += 1
        with open(os.path.join(found, "report-%d.txt" % counts["crashes"]), "w", encoding="utf-8") as file:
            file.write(text)


def missing_share(counts, options):
    """Executions that the build with the address sanitizer has still to do."""
    return max(counts["executions"] // (SHARE - 1) - counts["asan_executions"], 0) if options.asan else 0


def run_slice(name, options, state, end):
    """A slice of the fast build, then its share of the build with the address sanitizer."""
    counts = state.of(name)
    left = RUNS[name] - total(counts)
    seconds = min(SLICE, int(end - time.monotonic()))
    if left > 0 and seconds > 0:
        execute(name, options, options.build, left, seconds, counts, "")
        state.save(name)
    owed = missing_share(counts, options)
    seconds = min(SLICE, int(end - time.monotonic()))
    if owed > 0 and seconds > 0:
        execute(name, options, options.asan, owed, seconds, counts, "asan_")
        state.save(name)


def keep(name, options):
    """Keeps inputs that reach every edge found, the smallest first."""
    corpus, dictionary = prepare(name, options)
    target = os.path.join(options.build, "fuzz", "fuzz_" + name)
    with tempfile.TemporaryDirectory(prefix="trivet-fuzz-") as merged, tempfile.TemporaryDirectory(prefix="trivet-fuzz-") as small:
        for path in sorted(glob.glob(os.path.join(corpus, "*")), key=os.path.getsize)[:MERGED]:
            shutil.copy(path, small)
        subprocess.run([target, "-set_cover_merge=1", "-use_counters=0", *FLAGS, "-max_len=%d" % run.LENGTHS[name], *dictionary, merged, small],
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        kept = os.path.join(ROOT, "fuzz", "corpus", name)
        inputs = sorted(glob.glob(os.path.join(merged, "*")), key=lambda path: (os.path.getsize(path), path))
        if not inputs:
            return
        os.makedirs(kept, exist_ok=True)
        for path in glob.glob(os.path.join(kept, "*")):
            if not os.path.basename(path).startswith("crash-"):  # the inputs of fixed crashes stay
                os.unlink(path)
        size = 0
        for path in inputs[:CORPUS_FILES]:
            size += os.path.getsize(path)
            if size > CORPUS_BYTES:
                break
            shutil.copy(path, kept)


def row(name, counts):
    rate = counts["executions"] / counts["seconds"] if counts["seconds"] else 0
    missing = RUNS[name] > total(counts)
    return (name, "{:,}".format(total(counts)), "{:,}".format(counts["asan_executions"]), "{:,.0f}".format(rate), "{:,}".format(counts["edges"]),
            "{:,}".format(counts["features"]), str(counts["crashes"]), "of {:,}".format(RUNS[name]) if missing else "reached")


def print_table(names, state, markdown):
    head = ("target", "executions", "with ASan", "per second", "edges", "features", "crashes", "goal")
    rows = [row(name, state.of(name)) for name in names]
    counts = [state.of(name) for name in names]
    rows.append(("all", "{:,}".format(sum(map(total, counts))), "{:,}".format(sum(c["asan_executions"] for c in counts)), "", "", "",
                 str(sum(c["crashes"] for c in counts)), ""))
    if markdown:
        print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
        print("\n".join("| " + " | ".join(cells) + " |" for cells in rows))
    else:
        print("\n".join("%-12s %13s %12s %10s %7s %9s %8s  %s" % cells for cells in [head, *rows]))


def campaign(names, options, state):
    """Slices of all targets in turn."""
    end = time.monotonic() + (options.seconds or 10 ** 9)
    before = {name: state.of(name)["crashes"] for name in names}
    done = set()
    while len(done) < len(names) and time.monotonic() < end - 1:
        waiting = sorted((name for name in names if name not in done), key=lambda name: state.of(name)["seconds"])
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            list(pool.map(lambda name: run_slice(name, options, state, end), waiting))
        for name in names:
            counts = state.of(name)
            crashed = counts["crashes"] - before[name] >= CRASHES_MAX
            if crashed or (total(counts) >= RUNS[name] and not missing_share(counts, options)) or not total(counts):
                done.add(name)


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    ap.add_argument("build")
    ap.add_argument("--asan", help="build folder with the address sanitizer")
    ap.add_argument("--trivet", help="the command that makes the seeds; BUILD/src/trivet otherwise")
    ap.add_argument("--seconds", type=int, help="bound on the time")
    ap.add_argument("--jobs", type=int, default=1, help="targets side by side")
    ap.add_argument("--target", action="append", choices=sorted(RUNS), help="only this target; may be repeated")
    ap.add_argument("--keep", action="store_true", help="merge what was found into fuzz/corpus")
    ap.add_argument("--report", action="store_true", help="run nothing")
    ap.add_argument("--markdown", action="store_true", help="print the table for the manual")
    options = ap.parse_args()
    options.build = os.path.abspath(options.build)
    options.asan = os.path.abspath(options.asan) if options.asan else None
    options.trivet = os.path.abspath(options.trivet or os.path.join(options.build, "src", "trivet"))
    names = options.target or list(RUNS)
    state = State(options.build)
    if not options.report:
        campaign(names, options, state)
    for name in names if options.keep else ():
        keep(name, options)
    print_table(names, state, options.markdown)
    return 1 if any(state.of(name)["crashes"] for name in names) else 0


if __name__ == "__main__":
    sys.exit(main())
