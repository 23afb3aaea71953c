#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run random OpenNPU programs on the simulator and on the oracle and compare.

    compare_opennpu.py TRIVET [--seed S] [--count N] [--fault KIND]
                              [--keep DIR] [--asm] [--choice NAME]...
                              [--param KEY=VALUE]... [--arg ARGUMENT]...

Compared: status, index of the fault, ticks, the registers, both tables, the
accumulators and everything the program stored.  One line per failing seed, a
count at the end; the exit status is 1 when any failed.  --choice takes the
other reading of a point the specification leaves open.  --asm also assembles
the line of every word that has one and compares the words.
"""

import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import launch  # noqa: E402
from launch import Outcome, flatten  # noqa: E402
from opennpu_oracle import CHOICES, FAULT_CODES, Machine  # noqa: E402
from opennpu_random import asm, gen  # noqa: E402


def dump_list(case):
    """(space, first, elements, values) of everything to compare."""
    K, L = case["K"], case["L"]
    return ([("vx", 0, L * K, "hex8"), ("lut_a", 0, 256, "hex8"),
             ("lut_b", 0, 256, "hex8"), ("acc", 0, K * K, "hex32")]
            + [("mem", a, n, "hex8") for a, n in case["memory_dumps"]])


def write_program(case, directory):
    """Write the program and the data; returns the tool's arguments."""
    program = os.path.join(directory, "prog.hex")
    with open(program, "w") as f:
        f.write("".join("%08x\n" % w for w in case["words"]))
    regs = os.path.join(directory, "regs.bin")
    with open(regs, "wb") as f:
        f.write(case["regs"])
    args = ["-t", "opennpu", program, "--json",
            "-D", "vector.k=%d" % case["K"], "-D", "vector.l=%d" % case["L"],
            "--load", "vx:0=" + regs]
    for n, (addr, data) in enumerate(sorted(case["mem"].items())):
        path = os.path.join(directory, "mem%d.bin" % n)
        with open(path, "wb") as f:
            f.write(data)
        args += ["--load", "mem:0x%x=%s" % (addr, path)]
    for space, addr, count, kind in dump_list(case):
        args += ["--dump", "%s:0x%x:%d:%s" % (space, addr, count, kind)]
    return args


def location(space, addr, i, K):
    if space == "vx":
        return "vx%d[%d]" % (i // K, i % K)
    if space == "acc":
        return "acc[%d][%d]" % (i // K, i % K)
    return "%s[0x%x]" % (space, addr + i)


def differences(case, want, machine, got, kinds):
    out = []
    if got.get("status") != want["status"]:
        out.append("status %s, want %s" % (got.get("status"), want["status"]))
    gf, wf = got.get("fault"), want["fault"]
    if gf:
        kinds.append((wf["kind"] if wf else None, gf.get("code")))
    code = wf and FAULT_CODES[wf["kind"]]
    if (gf or {}).get("index") != (wf or {}).get("index") or (gf or {}).get("code") != code:
        out.append("fault %s, want %s" % (
            "%s@%s (%s)" % (gf.get("code"), gf.get("index"),
                            gf.get("message")) if gf else "none",
            "%s@%d (%s)" % (wf["kind"], wf["index"], wf["detail"])
            if wf else "none"))
    if got.get("cycles") != want["ticks"]:
        out.append("ticks %s, want %d" % (got.get("cycles"), want["ticks"]))
    dumps = got.get("dumps", [])
    asked = dump_list(case)
    if len(dumps) != len(asked):
        out.append("%d dumps, want %d" % (len(dumps), len(asked)))
    for (space, addr, count, _), d in zip(asked, dumps):
        w = machine.dump(space, addr, count)
        g = list(flatten(d.get("values", [])))
        if g == w:
            continue
        if len(g) != len(w):
            out.append("%s has %d values, want %d" % (space, len(g), len(w)))
            continue
        bad = [i for i in range(len(w)) if g[i] != w[i]]
        out.append("%s 0x%x, want 0x%x (%d differ)" % (
            location(space, addr, bad[0], case["K"]), g[bad[0]], w[bad[0]],
            len(bad)))
    return out


def explain(case, want):
    """The program with the oracle's ticks, one line per instruction."""
    lines = []
    for n, word in enumerate(case["words"]):
        when = ("%3d-%-3d" % (want["issue"][n], want["ready"][n])
                if n < len(want["issue"]) else "   -   ")
        lines.append("  %3d %s %08x %s" % (n, when, word,
                                           asm(word, case["L"]) or ""))
    return "\n".join(lines)


def assembly(case, trivet, directory):
    """Differences between the words and what their lines assemble to."""
    pairs = [(w, asm(w, case["L"])) for w in case["words"]]
    pairs = [(w, a) for w, a in pairs if a]
    if not pairs:
        return []
    source = os.path.join(directory, "lines.s")
    with open(source, "w") as f:
        f.write("        .target opennpu\n        .option proposed\n")
        f.write("".join("        %s\n" % a for _, a in pairs))
    target = os.path.join(directory, "lines.hex")
    p = subprocess.run([trivet, "asm", source, "-o", target],
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if p.returncode:
        return ["asm: " + p.stderr.decode("utf-8", "replace").strip()
                .splitlines()[0]]
    with open(target) as f:
        text = [line.split("//")[0].split(";")[0].strip() for line in f]
    words = [int(t, 16) for line in text for t in line.split()]
    if len(words) != len(pairs):
        return ["asm: %d words, want %d" % (len(words), len(pairs))]
    return ["asm: %08x, want %08x: %s" % (g, w, a)
            for g, (w, a) in zip(words, pairs) if g != w]


def compare_seed(options, seed):
    params, kinds = launch.parameters(options), []
    case = gen(seed, params, options.fault)
    machine = Machine(dict(params, K=case["K"], L=case["L"]), launch.other_readings(options, CHOICES))
    for addr, data in case["mem"].items():
        machine.load_mem(addr, data)
    machine.load_regs(case["regs"])
    want = machine.run(case["words"])
    with launch.scratch_folder() as folder:
        command = [options.trivet, "run"] + write_program(case, folder) + options.sets.arguments(seed) + options.arg
        got, _, problem = launch.call(command)
        diffs = [problem] if problem else differences(case, want, machine, got, kinds)
        if options.asm:
            diffs += assembly(case, options.trivet, folder)
        if diffs:
            launch.keep(options, "seed%d" % seed, folder, command)
    title = "%s, K=%d L=%d, %d instructions" % (case["profile"], case["K"], case["L"], len(case["words"]))
    return Outcome(title, diffs, explain(case, want), kinds)


def main():
    ap = launch.parser(__doc__, CHOICES)
    ap.add_argument("--fault", help="end every program with this fault")
    ap.add_argument("--asm", action="store_true", help="compare the assembler too")
    return launch.run_seeds(ap.parse_args(), compare_seed)


if __name__ == "__main__":
    sys.exit(main())
