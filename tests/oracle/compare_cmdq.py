#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run random CMDQ queues on the simulator and on the oracle and compare.

    compare_cmdq.py TRIVET --count N [--seed S] [--kind KIND] [-v]
                    [--keep DIR] [--choice NAME]... [--no-check] [--damage]
                    [--file QUEUE.json [--param KEY=VALUE]...]

Compared: cycles, the engines' busy, idle and held cycles, MACs, DRAM traffic,
every byte of SPM and DRAM that an entry wrote, and the hazards of `check`.
The kinds take turns; every fourth queue is JSON Lines.  One block per failing
seed, a count at the end; the exit status is 1 when any failed.  --choice takes
the other reading of a point the text leaves open.  --file compares one queue
of your own.  --damage spoils one expected value of each seed: all must fail.
"""

import argparse
import functools
import json
import multiprocessing
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from host_sets import HostSets  # noqa: E402
from cmdq_oracle import CHOICES, Machine, hazards, load  # noqa: E402
from cmdq_random import KINDS, gen  # noqa: E402

HAZARD = re.compile(r"entries (\d+) \((\w+)\) and (\d+) \((\w+)\) ")


def write_queue(doc, directory, lines):
    if not lines:
        path = os.path.join(directory, "queue.json")
        with open(path, "w") as f:
            json.dump(doc, f, indent=1)
        return path
    path = os.path.join(directory, "queue.jsonl")
    with open(path, "w") as f:
        for item in [doc["metadata"]] + doc["cmdq"]:
            f.write(json.dumps(item) + "\n")
            if "wait_for" in item:
                f.write("\n")           # blank lines are allowed
    return path


def number(v):
    return int(v, 0) if isinstance(v, str) else v


def flatten(values):
    for v in values:
        if isinstance(v, list):
            yield from flatten(v)
        else:
            yield number(v)


def call(command):
    """The parsed JSON, the exit status and the complaint, if any."""
    try:
        p = subprocess.run(command, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, timeout=120)
    except subprocess.TimeoutExpired:
        return None, None, "timed out"
    except OSError as e:
        return None, None, str(e)
    try:
        got = json.loads(p.stdout)
    except ValueError:
        err = p.stderr.decode("utf-8", "replace").strip().splitlines()
        return None, p.returncode, "exit %d, no JSON: %s" % (p.returncode,
                                                             err[:3])
    return got, p.returncode, None


def memory_dumps(machine):
    """(space, first, end) of everything written, near ranges together."""
    out = []
    for space, lo, hi in machine.written_ranges(64):
        for at in range(lo, hi, 1 << 16):
            out.append((space, at, min(hi, at + (1 << 16))))
    return out


def dump_name(space, lo, hi):
    if space == "dram":
        return "dram:0x%x:%d:hex8" % (lo, hi - lo)
    return "spm:%d:0x%x:%d:hex8" % (space, lo, hi - lo)


def writers(queue, machine, space, address):
    """The entries that wrote an address, in the order of the ids."""
    from cmdq_oracle import operands
    return [repr(e) for e in queue.entries for o in operands(e)
            if o.writes and o.space == space
            and any(lo <= address < hi for lo, hi in o.ranges)]


def compare_run(queue, machine, want, got, asked):
    out = []

    def same(name, g, w):
        if g != w:
            out.append("%s %s, want %s" % (name, g, w))

    same("status", got.get("status"), "ok")
    same("cycles", got.get("cycles"), want["cycles"])
    same("macs", got.get("macs"), want["macs"])
    for key in ("dram read", "dram write"):
        same(key, (got.get("bytes") or {}).get(key, 0), want[key])
    engines = got.get("engines") or {}
    same("engines", sorted(engines), sorted(want["engines"]))
    for name, w in want["engines"].items():
        g = engines.get(name)
        if g is None:
            continue
        for key in ("busy", "idle"):
            same("%s %s" % (name, key), g.get(key), w[key])
        held = g.get("held") or {}
        for cause in sorted(set(held) | set(w["held"])):
            same("%s stalled by %s" % (name, cause), held.get(cause, 0),
                 w["held"].get(cause, 0))
    dumps = got.get("dumps") or []
    same("dumps", len(dumps), len(asked))
    for (space, lo, hi), dump in zip(asked, dumps):
        w = list(machine.read(space, lo, hi - lo))
        g = list(flatten(dump.get("values", [])))
        if len(g) != len(w):
            out.append("%s 0x%x has %d values, want %d" % (space, lo, len(g),
                                                           len(w)))
            continue
        bad = [i for i in range(len(w)) if g[i] != w[i]]
        if bad:
            first = lo + bad[0]
            at = first & ~3
            a, b = max(at, lo), min(at + 8, hi)
            out.append("%s 0x%x: %s, want %s (0x%x on; %d differ; written by "
                       "%s)" % (
                           space if space == "dram" else "spm %d" % space,
                           first, bytes(g[a - lo:b - lo]).hex(),
                           bytes(w[a - lo:b - lo]).hex(), a, len(bad),
                           ", ".join(writers(queue, machine, space, first))))
    return out


def compare_check(queue, want, got, status):
    found, out = set(), []
    for d in got.get("diagnostics") or []:
        if d.get("code") != "TV-Q040":
            if d.get("severity") == "error":
                out.append("check: %s %s" % (d.get("code"), d.get("message")))
            continue
        m = HAZARD.match(d.get("message", ""))
        if not m:
            out.append("check: message %r" % d.get("message"))
            continue
        a, b = int(m[1]), int(m[3])
        if (a >= b or queue.entries[a].opcode != m[2]
                or queue.entries[b].opcode != m[4]):
            out.append("check: names in %r" % d["message"])
        found.add((a, b))
    for text, pairs in (("not found", want - found),
                        ("not expected", found - want)):
        if pairs:
            out.append("hazards %s: %s" % (text, ", ".join(
                "%r and %r" % (queue.entries[a], queue.entries[b])
                for a, b in sorted(pairs)[:4]))
                + (" ... %d" % len(pairs) if len(pairs) > 4 else ""))
    if status != (1 if want else 0):
        out.append("check: exit status %s" % status)
    return out


def spoil(want, pairs, seed):
    """One wrong expectation."""
    r = random.Random(seed)
    what = r.randrange(4)
    if what == 0:
        want["cycles"] += 1
    elif what == 1:
        want["macs"] += 1
    elif what == 2:
        want["engines"]["DMA0"]["held"]["barrier"] += 1
    else:
        pairs ^= {(0, 1)}


def one(opts, seed):
    choices = {name: not CHOICES[name] for name in opts.choice}
    if opts.file:
        with open(opts.file) as f:
            doc = json.load(f)
        kind = "file"
        params = dict(item.split("=", 1) for item in opts.param)
        params = {k: int(v) if v.isdigit() else v for k, v in params.items()}
    else:
        kind = opts.kind or KINDS[seed % len(KINDS)]
        doc, params = gen(seed, kind)
    queue = load(doc)
    machine = Machine(params, choices)
    want = machine.run(queue)
    pairs = hazards(queue, machine.params)
    if opts.damage:
        spoil(want, pairs, seed)
    directory = tempfile.mkdtemp(prefix="cmdq-oracle-")
    try:
        path = opts.file or write_queue(doc, directory, seed % 4 == 3)
        target = ["-t", "cmdq"]
        for key, value in sorted(params.items()):
            target += ["-D", "%s=%s" % (key, value)]
        asked = memory_dumps(machine)
        command = [opts.trivet, "run", path, "--json"] + target
        if not opts.file:
            command += opts.sets.arguments(seed)
        command += opts.arg
        for space, lo, hi in asked:
            command += ["--dump", dump_name(space, lo, hi)]
        got, status, complaint = call(command)
        if complaint:
            diffs = [complaint]
        elif status:
            diffs = ["run: exit status %s: %s" % (status, [
                d.get("message") for d in got.get("diagnostics") or []][:3]
                or got.get("fault"))]
        else:
            diffs = compare_run(queue, machine, want, got, asked)
        if not opts.no_check:
            check = [opts.trivet, "check", path, "--json"] + target + opts.arg
            got, status, complaint = call(check)
            diffs += ([complaint] if complaint else
                      compare_check(queue, pairs, got, status))
        if diffs and opts.keep:
            kept = os.path.join(opts.keep, "%s%d" % (kind, seed))
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(directory, kept)
            with open(os.path.join(kept, "command.txt"), "w") as f:
                f.write(" ".join(command).replace(directory, kept) + "\n")
            with open(os.path.join(kept, "want.txt"), "w") as f:
                f.write(explain(queue, machine, want))
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    text = explain(queue, machine, want) if diffs and opts.verbose else ""
    return seed, kind, params, len(queue.entries), diffs, text


def explain(queue, machine, want):
    """The oracle's times, one line per entry."""
    from cmdq_oracle import place
    engines = place(queue, machine.params)
    return "".join("  %3d %-19s %-5s %6d %6d\n" % (
        e.id, e.opcode, engines[e.id] or "-", want["start"][e.id],
        want["end"][e.id]) for e in queue.entries)


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("trivet")
    ap.add_argument("--seed", type=int, default=0, help="first seed")
    ap.add_argument("--count", type=int, default=100)
    ap.add_argument("--kind", choices=KINDS, help="only this kind")
    ap.add_argument("--keep", help="keep the files of failing seeds here")
    ap.add_argument("--choice", action="append", default=[], metavar="NAME",
                    help="take the other reading of: "
                         + ", ".join(sorted(CHOICES)))
    ap.add_argument("--no-check", action="store_true",
                    help="do not compare the hazards")
    ap.add_argument("--damage", action="store_true",
                    help="spoil an expected value of each seed")
    ap.add_argument("--file", help="compare this queue only")
    ap.add_argument("--param", action="append", default=[],
                    metavar="KEY=VALUE", help="parameter, with --file")
    ap.add_argument("--arg", action="append", default=[],
                    help="further argument of the tool")
    ap.add_argument("--jobs", type=int, default=2)
    ap.add_argument("-v", "--verbose", action="store_true",
                    help="show all differences and the oracle's times")
    opts = ap.parse_args()
    opts.sets = HostSets(opts.trivet)
    for name in opts.choice:
        if name not in CHOICES:
            ap.error("no choice %s" % name)
    seeds = range(opts.seed, opts.seed + (1 if opts.file else opts.count))
    passed = failed = 0
    with multiprocessing.Pool(opts.jobs) as pool:
        for seed, kind, params, n, diffs, text in pool.imap(
                functools.partial(one, opts), seeds):
            if not diffs:
                passed += 1
                continue
            failed += 1
            print("seed %d (%s, %d entries): %s" % (seed, kind, n, " ".join(
                "%s=%s" % item for item in sorted(params.items()))))
            shown = diffs if opts.verbose else diffs[:6]
            for d in shown:
                print("    " + d)
            if len(diffs) > len(shown):
                print("    and %d more" % (len(diffs) - len(shown)))
            print(text, end="", flush=True)
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
