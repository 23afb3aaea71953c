#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A fuzz campaign: each target for a number of executions, with a corpus that is kept and minimized.

    campaign.py BUILD [--runs N] [--seconds N] [--jobs N] [--target NAME]... [--keep] [--markdown]

BUILD is a build folder with -Dfuzz=true. Without --runs each target gets the executions of RUNS. A target starts from
fuzz/corpus/NAME, and from the seeds and dictionaries of run.py, which are made from the examples and the instruction tables. It
is started again after a crash, up to CRASHES_MAX; the inputs are left in BUILD/fuzz/found/NAME. --keep then merges what was
found into fuzz/corpus/NAME, the smallest inputs first, at most CORPUS_BYTES. --seconds bounds the time of a target, for a trial;
--jobs runs several targets side by side. The table at the end has a row for each target; --markdown prints it for the manual.
The exit status is 1 when there is a crash.
"""

import argparse
import concurrent.futures
import glob
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
RUNS = {"asm": TEN_MILLION, "config": TEN_MILLION, "queue": TEN_MILLION, "json": TEN_MILLION, "trace": TEN_MILLION,
        "tokenizer": TEN_MILLION, "codec": 5 * TEN_MILLION, "elf": MILLION, "gguf": MILLION, "run": MILLION, "debug": MILLION}
CRASHES_MAX = 10
CORPUS_BYTES = 100000
FLAGS = ["-timeout=20", "-rss_limit_mb=4096", "-max_len=65536", "-print_final_stats=1"]


def execute(target, name, options, corpus, artifacts, dictionary):
    """Runs the target up to its number of executions; (executions, seconds, crashes)."""
    runs, executions, crashes, start = options.runs or RUNS[name], 0, 0, time.monotonic()
    while executions < runs and crashes < CRASHES_MAX:
        limits = ["-runs=%d" % (runs - executions)]
        if options.seconds:
            left = options.seconds - int(time.monotonic() - start)
            if left <= 0:
                break
            limits.append("-max_total_time=%d" % left)
        done = subprocess.run([target, *limits, *FLAGS, "-seed=%d" % (executions + 1), "-artifact_prefix=" + artifacts + "/", *dictionary, corpus],
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=corpus, check=False)
        text = done.stderr.decode("utf-8", "replace")
        counts = re.findall(r"stat::number_of_executed_units:\s*(\d+)|^#(\d+)", text, re.M)
        executions += max((int(a or b) for a, b in counts), default=0)
        if done.returncode == 0:
            break
        crashes += 1
        with open(os.path.join(artifacts, "report-%d.txt" % crashes), "w", encoding="utf-8") as file:
            file.write(text)
        if not counts:
            break
    return executions, time.monotonic() - start, crashes


def keep(target, name, corpus, dictionary):
    """Minimizes the corpus by coverage and keeps the smallest inputs."""
    with tempfile.TemporaryDirectory(prefix="trivet-fuzz-") as merged:
        subprocess.run([target, "-merge=1", *FLAGS, *dictionary, merged, corpus], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        kept = os.path.join(ROOT, "fuzz", "corpus", name)
        inputs = sorted(glob.glob(os.path.join(merged, "*")), key=lambda path: (os.path.getsize(path), path))
        if not inputs:
            return
        shutil.rmtree(kept, ignore_errors=True)
        os.makedirs(kept)
        size = 0
        for path in inputs:
            size += os.path.getsize(path)
            if size > CORPUS_BYTES:
                break
            shutil.copy(path, kept)


def campaign(name, options):
    target = os.path.join(options.build, "fuzz", "fuzz_" + name)
    artifacts = os.path.join(options.build, "fuzz", "found", name)
    os.makedirs(artifacts, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="trivet-fuzz-") as folder:
        corpus = os.path.join(folder, "corpus")
        os.mkdir(corpus)
        trivet = os.path.join(options.build, "src", "trivet")
        run.seed(name, ROOT, trivet, corpus)
        dictionary = run.dictionary(name, ROOT, folder)
        executions, seconds, crashes = execute(target, name, options, corpus, artifacts, dictionary)
        if options.keep:
            keep(target, name, corpus, dictionary)
    return name, executions, executions / max(seconds, 1e-9), crashes


def print_table(rows, markdown):
    total = sum(row[1] for row in rows)
    if markdown:
        print("| target | executions | per second | crashes |\n|---|---|---|---|")
    for name, executions, rate, crashes in rows + [("all", total, None, sum(row[3] for row in rows))]:
        cells = (name, "{:,}".format(executions), "" if rate is None else "{:,.0f}".format(rate), str(crashes))
        print("| %s | %s | %s | %s |" % cells if markdown else "%-10s %14s %12s %8s" % cells, flush=True)


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    ap.add_argument("build")
    ap.add_argument("--runs", type=int, help="executions of each target")
    ap.add_argument("--seconds", type=int, help="bound on the time of each target")
    ap.add_argument("--jobs", type=int, default=1, help="targets side by side")
    ap.add_argument("--target", action="append", choices=sorted(RUNS), help="only this target; may be repeated")
    ap.add_argument("--keep", action="store_true", help="merge what was found into fuzz/corpus")
    ap.add_argument("--markdown", action="store_true", help="print the table for the manual")
    options = ap.parse_args()
    options.build = os.path.abspath(options.build)
    names = options.target or sorted(RUNS)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        rows = list(pool.map(lambda name: campaign(name, options), names))
    print_table(rows, options.markdown)
    return 1 if any(row[3] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
