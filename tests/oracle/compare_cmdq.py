#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run random CMDQ queues on the simulator and on the oracle and compare.

    compare_cmdq.py TRIVET --count N [--seed S] [--kind KIND] [-v]
                    [--keep DIR] [--choice NAME]... [--no-check] [--damage]
                    [--file QUEUE.json [--param KEY=VALUE]...] [--generated]

Compared: cycles, the engines' busy, idle and stalled cycles, the counts of each
tensor role, MACs, DRAM traffic,
every byte of SPM and DRAM that an entry wrote, and the hazards of `check`.
The kinds take turns; every fourth queue is JSON Lines.  One block per failing
seed, a count at the end; the exit status is 1 when any failed.  --choice takes
the other reading of a point the text leaves open.  --file compares one queue
of your own, --generated queues that `trivet gen` makes.  --damage spoils one expected value of each seed: all must fail.
"""

import json
import os
import random
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import launch  # noqa: E402
from launch import Outcome, flatten  # noqa: E402
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
        stalled = g.get("stalled") or {}
        for reason in sorted(set(stalled) | set(w["stalled"])):
            same("%s stalled by %s" % (name, reason), stalled.get(reason, 0),
                 w["stalled"].get(reason, 0))
    roles = got.get("roles") or {}
    for role in sorted(set(roles) | set(want["roles"])):
        same("role %s" % role, roles.get(role), want["roles"].get(role))
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
    what = r.randrange(5)
    if what == 0:
        want["cycles"] += 1
    elif what == 1:
        want["macs"] += 1
    elif what == 2:
        role = want["roles"].setdefault("none", {"bytes": 0})
        role["active_cycles"] = role.get("active_cycles", 0) + 1
    elif what == 3:
        want["engines"]["DMA0"]["stalled"]["barrier"] += 1
    else:
        pairs ^= {(0, 1)}


def compare_seed(options, seed):
    if options.file:
        with open(options.file) as f:
            doc = json.load(f)
        kind, params = "file", launch.parameters(options)
    elif options.generated:
        made = subprocess.run([options.trivet, "gen", "cmdq", "--seed", str(seed), "--instructions", "400", "-o", "-"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
        kind, doc, params = "generated", json.loads(made.stdout), {}
    else:
        kind = options.kind or KINDS[seed % len(KINDS)]
        doc, params = gen(seed, kind)
    queue = load(doc)
    machine = Machine(params, launch.other_readings(options, CHOICES))
    want = machine.run(queue)
    pairs = hazards(queue, machine.params)
    if options.damage:
        spoil(want, pairs, seed)
    with launch.scratch_folder() as folder:
        path = options.file or write_queue(doc, folder, seed % 4 == 3)
        target = ["-t", "cmdq"]
        for key, value in sorted(params.items()):
            target += ["-D", "%s=%s" % (key, value)]
        asked = memory_dumps(machine)
        command = [options.trivet, "run", path, "--json"] + target
        if not options.file:
            command += options.sets.arguments(seed)
        command += options.arg
        for space, lo, hi in asked:
            command += ["--dump", dump_name(space, lo, hi)]
        got, status, problem = launch.call(command)
        if problem:
            diffs = [problem]
        elif status:
            diffs = ["run: exit status %s: %s" % (status, [d.get("message") for d in got.get("diagnostics") or []][:3]
                                                  or got.get("fault"))]
        else:
            diffs = compare_run(queue, machine, want, got, asked)
        if not options.no_check:
            got, status, problem = launch.call([options.trivet, "check", path, "--json"] + target + options.arg)
            diffs += [problem] if problem else compare_check(queue, pairs, got, status)
        if diffs:
            launch.keep(options, "%s%d" % (kind, seed), folder, command, {"want.txt": explain(queue, machine, want)})
    title = "%s, %d entries: %s" % (kind, len(queue.entries), " ".join("%s=%s" % item for item in sorted(params.items())))
    return Outcome(title, diffs, explain(queue, machine, want) if diffs else "", [])


def explain(queue, machine, want):
    """The oracle's times, one line per entry."""
    from cmdq_oracle import place
    engines = place(queue, machine.params)
    return "".join("  %3d %-19s %-5s %6d %6d\n" % (
        e.id, e.opcode, engines[e.id] or "-", want["start"][e.id],
        want["end"][e.id]) for e in queue.entries)


def main():
    ap = launch.parser(__doc__, CHOICES)
    ap.add_argument("--kind", choices=KINDS, help="only this kind")
    ap.add_argument("--no-check", action="store_true", help="do not compare the hazards")
    ap.add_argument("--damage", action="store_true", help="spoil an expected value of each seed")
    ap.add_argument("--generated", action="store_true", help="compare queues of `trivet gen`")
    ap.add_argument("--file", help="compare this queue only")
    options = ap.parse_args()
    return launch.run_seeds(options, compare_seed, 1 if options.file else None)


if __name__ == "__main__":
    sys.exit(main())
