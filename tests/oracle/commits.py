#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run random programs with commit records, replay the writes, and compare state and cycles.

    commits.py TRIVET REPLAY TARGET [--seed S] [--count N] [--keep DIR]

REPLAY is tests/oracle/commit_replay. The replayed state must be the machine's in all that the independent model says the program writes; issue and end of each
instruction must be the model's. Every second pccx program is followed by words through the register window, and every third one executes word by word.
"""

import os
import struct
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import cmdq_oracle  # noqa: E402
import cmdq_random  # noqa: E402
import compare_cmdq  # noqa: E402
import compare_opennpu  # noqa: E402
import launch  # noqa: E402
import opennpu_oracle  # noqa: E402
import opennpu_random  # noqa: E402
import pccx_oracle  # noqa: E402
import pccx_random  # noqa: E402
from compare import write_program  # noqa: E402
from launch import Outcome  # noqa: E402


def words_file(folder, name, words):
    path = os.path.join(folder, name)
    with open(path, "wb") as f:
        f.write(b"".join(struct.pack("<Q", w) for w in words))
    return path


def pccx(seed, folder):
    """Arguments, the times that the model has or None, and a title."""
    case = pccx_random.gen(seed)
    machine = pccx_oracle.Machine({})
    for addr, data in sorted(case["host"].items()):
        machine.load_host(addr, data)
    want = machine.run(case["words"], case["streams"])
    arguments = [a for a in write_program(case, folder) if a != "--json"]
    if seed % 2:
        arguments += ["--window", words_file(folder, "window.bin", pccx_random.gen(seed + 1)["words"])]
    elif seed % 3 == 0 and not any(case["streams"].values()):
        arguments += ["--execute"]
    return arguments, list(zip(want["issue"], want["end"])), case["profile"]


def opennpu(seed, folder):
    case = opennpu_random.gen(seed)
    machine = opennpu_oracle.Machine({"K": case["K"], "L": case["L"]})
    for addr, data in case["mem"].items():
        machine.load_mem(addr, data)
    machine.load_regs(case["regs"])
    want = machine.run(case["words"])
    arguments = [a for a in compare_opennpu.write_program(case, folder) if a not in ("--json", "-t", "opennpu")]
    if seed % 3 == 0:
        arguments += ["--execute"]
    return arguments, [(issue,) for issue in want["issue"]], case["profile"]


def cmdq(seed, folder):
    kind = cmdq_random.KINDS[seed % len(cmdq_random.KINDS)]
    doc, params = cmdq_random.gen(seed, kind)
    machine = cmdq_oracle.Machine(params)
    arguments = [compare_cmdq.write_queue(doc, folder, seed % 4 == 3)]
    for key, value in sorted(params.items()):
        arguments += ["-D", "%s=%s" % (key, value)]
    try:
        want = machine.run(cmdq_oracle.load(doc))
    except cmdq_oracle.Bad:  # one in thousands: an address at the end of DRAM
        return arguments, REJECTED, kind
    for space, lo, hi in compare_cmdq.memory_dumps(machine):
        arguments += ["--dump", compare_cmdq.dump_name(space, lo, hi)]
    return arguments, [(None, start, end) for start, end in zip(want["start"], want["end"])], kind


REJECTED = "rejected"  # by the independent model, instead of times
CASES = {"pccx": pccx, "opennpu": opennpu, "cmdq": cmdq}


def compare_times(lines, want):
    """Lines are index, issue, start, end; -1: not known, of an instruction without an engine."""
    out = []
    for line in lines:
        index, issue, start, end = map(int, line.split())
        model = want[index]
        if len(model) == 1 and issue != model[0]:
            out.append("instruction %d issues at %d, want %d" % (index, issue, model[0]))
        if len(model) == 2 and (issue, end) != tuple(model):
            out.append("instruction %d issues at %d and ends at %d, want %s" % (index, issue, end, model))
        if len(model) == 3 and end != -1 and (start, end) != tuple(model[1:]):
            out.append("entry %d is executed from %d to %d, want %s" % (index, start, end, model[1:]))
    return out


def compare_seed(options, seed):
    with launch.scratch_folder() as folder:
        arguments, want, title = CASES[options.target](seed, folder)
        command = [options.replay, options.target] + arguments
        p = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, check=False)
        lines = p.stdout.decode().splitlines()
        diffs = [line for line in lines if line.startswith("difference")]
        if want == REJECTED:
            diffs = [] if p.returncode > 0 else ["exit status %d for what the model rejects" % p.returncode]
        elif p.returncode and not diffs:
            diffs = ["exit status %d: %s" % (p.returncode, p.stderr.decode("utf-8", "replace")[:300])]
        elif want:
            diffs += compare_times([line for line in lines if not line.startswith("difference")], want)
        if diffs:
            launch.keep(options, "commits%d" % seed, folder, command)
    return Outcome(title, diffs, "", [])


def main():
    ap = launch.parser(__doc__)
    ap.add_argument("replay")
    ap.add_argument("target", choices=sorted(CASES))
    return launch.run_seeds(ap.parse_args(), compare_seed)


if __name__ == "__main__":
    sys.exit(main())
