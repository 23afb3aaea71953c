#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run random pccx programs on the simulator and on the oracle and compare.

    compare.py TRIVET [--seed S] [--count N] [--keep DIR] [--no-tiles]
                      [--param KEY=VALUE]... [--arg ARGUMENT]...

Compared: status, index of the fault, cycles, the busy, idle and stalled cycles
of every engine, and everything the program wrote (L2, host memory, Constant
Cache, e_max).  One line per failing seed, a count at the end; the exit status
is 1 when any failed.  --param changes a parameter of the oracle, --arg adds
an argument to the simulator's command line (to change the same one there).
Without --param, every fourth program runs with the other reading of
parallel_lane and with a preload rate.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import launch  # noqa: E402
from launch import Outcome, number  # noqa: E402
from pccx_oracle import STALL_REASONS, ENGINES, Machine  # noqa: E402
from pccx_random import gen  # noqa: E402


def write_program(case, directory):
    """Write the source and the host data; returns the tool's arguments."""
    source = os.path.join(directory, "prog.s")
    with open(source, "w") as f:
        f.write(case["asm"])
    args = [source, "--json"]
    for i, (addr, data) in enumerate(sorted(case["host"].items())):
        path = os.path.join(directory, "host%d.bin" % i)
        with open(path, "wb") as f:
            f.write(data)
        args += ["--load", "host:0x%x=%s" % (addr, path)]
    for space, addr, count in case["dumps"]:
        args += ["--dump", "%s:0x%x:%d:hex16" % (space, addr, count)]
    return args


def differences(case, want, machine, got, kinds):
    out = []
    if got.get("status") != want["status"]:
        out.append("status %s, want %s" % (got.get("status"), want["status"]))
    gf, wf = got.get("fault"), want["fault"]
    if gf:
        kinds.append((wf["kind"] if wf else None, gf.get("code")))
    if (gf or {}).get("index") != (wf or {}).get("index"):
        out.append("fault %s, want %s" % (
            "%s@%s (%s)" % (gf.get("code"), gf.get("index"),
                            gf.get("message")) if gf else "none",
            "%s@%d" % (wf["kind"], wf["index"]) if wf else "none"))
    if got.get("cycles") != want["cycles"]:
        out.append("cycles %s, want %d" % (got.get("cycles"), want["cycles"]))
    engines = got.get("engines", {})
    for e in ENGINES:
        ge, we = engines.get(e), want["engines"][e]
        if ge is None:
            out.append("no engine %s" % e)
            continue
        for part in ("busy", "idle"):
            if ge.get(part) != we[part]:
                out.append("%s.%s %s, want %d" % (e, part, ge.get(part),
                                                  we[part]))
        stalled = ge.get("stalled", {})
        for reason in sorted(set(stalled) | set(STALL_REASONS)):
            g, w = stalled.get(reason, 0), we["stalled"].get(reason, 0)
            if g != w:
                out.append("%s.stalled.%s %s, want %d" % (e, reason, g, w))
    dumps = got.get("dumps", [])
    if len(dumps) != len(case["dumps"]):
        out.append("%d dumps, want %d" % (len(dumps), len(case["dumps"])))
    for (space, addr, count), d in zip(case["dumps"], dumps):
        w = machine.dump(space, addr, count)
        g = [number(v) for v in d.get("values", [])]
        if g == w:
            continue
        if len(g) != len(w):
            out.append("%s:0x%x has %d values, want %d" % (space, addr, len(g),
                                                           len(w)))
            continue
        bad = [i for i in range(len(w)) if g[i] != w[i]]
        i = bad[0]
        if space == "l2":
            where = "l2[0x%x] lane %d" % (addr + i // 8, i % 8)
        elif space == "host":
            where = "host[0x%x]" % (addr + 2 * i)
        elif space == "const":
            where = "const bank %d entry %d %s" % (i // 192, i // 3 % 64,
                                                   "abc"[i % 3])
        else:
            where = space
        out.append("%s 0x%04x, want 0x%04x (%d differ)" % (where, g[i], w[i],
                                                           len(bad)))
    return out


def times(want):
    """The model's issue and end of each instruction."""
    return "issue/end: " + " ".join(
        "%d:%d-%d" % (i, s, e) for i, (s, e) in enumerate(
            zip(want["issue"], want["end"])))


# Parameters that every fourth program is run with; model and simulator have the same names for them.
OTHER_READING = {"gemv.parallel_lane": "lanes", "gemv.tile_k": 24, "gemv.preload_bytes_per_cycle": 48}


def compare_seed(options, seed):
    params, kinds = launch.parameters(options), []
    other = OTHER_READING if seed % 4 == 3 and not params else {}
    params.update(other)
    case = gen(seed, params, tiles=not options.no_tiles)
    machine = Machine(params)
    for addr, data in sorted(case["host"].items()):
        machine.load_host(addr, data)
    want = machine.run(case["words"], case["streams"])
    with launch.scratch_folder() as folder:
        command = [options.trivet, "run"] + write_program(case, folder) + options.sets.arguments(seed) + options.arg
        command += [a for key, value in other.items() for a in ("-D", "%s=%s" % (key, value))]
        got, _, problem = launch.call(command)
        diffs = [problem] if problem else differences(case, want, machine, got, kinds)
        if diffs:
            launch.keep(options, "seed%d" % seed, folder, command)
    return Outcome("%s, %d instructions" % (case["profile"], len(case["words"])), diffs, times(want), kinds)


def main():
    ap = launch.parser(__doc__)
    ap.add_argument("--no-tiles", action="store_true", help="leave tile_n and tile_k zero")
    return launch.run_seeds(ap.parse_args(), compare_seed)


if __name__ == "__main__":
    sys.exit(main())
