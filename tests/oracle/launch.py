# SPDX-License-Identifier: Apache-2.0
"""What the comparisons with the independent models share: arguments, the command as JSON, seeds on several processes, kept
files of failing seeds.

A comparison has one function of a seed that returns an Outcome. Programs run with each of the host's sets of kernels in turn,
and with one thread and two: what the model says holds for all of them.
"""

import argparse
import collections
import contextlib
import functools
import json
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from suite import ROOT, Suite  # noqa: E402

PROGRAM = os.path.join(ROOT, "examples", "pccx", "softmax.s")
SHOWN = 8  # differences of a seed, without -v

# title: what the seed is; differences: texts; details: the program with the model's times; kinds: counted for -v.
Outcome = collections.namedtuple("Outcome", "title differences details kinds")


class HostSets:
    """The sets of kernels that this host can run."""

    def __init__(self, trivet):
        p = subprocess.run([trivet, "run", PROGRAM, "--kernels", "?"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        found = re.search(r"this host has ([a-z0-9 ]+)", p.stderr.decode("utf-8", "replace"))
        if not found:
            raise SystemExit("%s run --kernels ? does not name the kernels" % trivet)
        self.names = found.group(1).split()

    def arguments(self, seed):
        return ["--kernels", self.names[seed % len(self.names)], "--threads", str(1 + seed // len(self.names) % 2)]


def parser(doc, choices=None):
    """The options of every comparison. `choices`: names of the readings that the specification leaves open."""
    ap = argparse.ArgumentParser(description=doc.splitlines()[0])
    ap.add_argument("trivet")
    ap.add_argument("--seed", type=int, default=0, help="first seed")
    ap.add_argument("--count", type=int, default=100)
    ap.add_argument("--keep", help="keep the files of failing seeds here")
    ap.add_argument("--param", action="append", default=[], metavar="KEY=VALUE", help="parameter of the model")
    ap.add_argument("--arg", action="append", default=[], help="further argument of the simulator")
    ap.add_argument("--jobs", type=int, default=2, help="processes")
    ap.add_argument("-v", "--verbose", action="store_true", help="show all differences, the model's times and the faults met")
    if choices:
        ap.add_argument("--choice", action="append", default=[], metavar="NAME", choices=sorted(choices),
                        help="take the other reading of: " + ", ".join(sorted(choices)))
    return ap


def parameters(options):
    pairs = (item.split("=", 1) for item in options.param)
    return {key: int(value, 0) if re.fullmatch(r"0x[0-9a-fA-F]+|\d+", value) else value for key, value in pairs}


def other_readings(options, choices):
    return {name: not choices[name] for name in options.choice}


def number(value):
    return int(value, 0) if isinstance(value, str) else value


def flatten(values):
    for value in values:
        if isinstance(value, list):
            yield from flatten(value)
        else:
            yield number(value)


def call(command):
    """The result with the envelope's status and diagnostics, the exit status and what kept it from being read, if anything."""
    try:
        p = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, check=False)
    except subprocess.TimeoutExpired:
        return None, None, "timed out"
    except OSError as error:
        return None, None, str(error)
    try:
        found = json.loads(p.stdout)
        got = dict(found["result"] or {}, status=found["status"], diagnostics=found["diagnostics"])
        return got, p.returncode, None
    except ValueError:
        lines = p.stderr.decode("utf-8", "replace").strip().splitlines()
        return None, p.returncode, "exit %d, no JSON: %s" % (p.returncode, lines[:3])


@contextlib.contextmanager
def scratch_folder():
    folder = tempfile.mkdtemp(prefix="trivet-oracle-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def keep(options, name, folder, command, texts=None):
    """Copies the files of a failing seed to --keep, with the command that ran and further texts by name."""
    if not options.keep:
        return
    kept = os.path.join(options.keep, name)
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(folder, kept)
    for file, text in dict(texts or {}, **{"command.txt": " ".join(command).replace(folder, kept) + "\n"}).items():
        with open(os.path.join(kept, file), "w", encoding="utf-8") as out:
            out.write(text)


def run_seeds(options, compare, count=None):
    """Calls compare(options, seed) for every seed, prints what differs, and returns the exit status."""
    options.sets = HostSets(options.trivet)
    suite, kinds = Suite(), collections.Counter()
    seeds = range(options.seed, options.seed + (count or options.count))
    with multiprocessing.Pool(options.jobs) as pool:
        for seed, outcome in zip(seeds, pool.imap(functools.partial(compare, options), seeds, chunksize=4)):
            kinds.update(outcome.kinds)
            shown = outcome.differences if options.verbose else outcome.differences[:SHOWN]
            more = len(outcome.differences) - len(shown)
            problem = "; ".join(shown) + ("; and %d more" % more if more else "")
            if problem and options.verbose:
                problem += "\n" + outcome.details
            suite.check("seed %d (%s)" % (seed, outcome.title), problem)
    if options.verbose:
        for kind, n in sorted(kinds.items(), key=str):
            print("fault %s: %d" % (" -> ".join(map(str, kind)), n))
    return suite.finish()
