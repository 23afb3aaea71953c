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

import argparse
import collections
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from host_sets import HostSets  # noqa: E402
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


def number(v):
    return int(v, 0) if isinstance(v, str) else v


def flatten(values):
    for v in values:
        if isinstance(v, list):
            yield from flatten(v)
        else:
            yield number(v)


def place(space, addr, i, K):
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
        kinds[wf["kind"] if wf else None, gf.get("code")] += 1
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
            place(space, addr, bad[0], case["K"]), g[bad[0]], w[bad[0]],
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
        text = [line.split("#")[0].split(";")[0].strip() for line in f]
    words = [int(t, 16) for line in text for t in line.split()]
    if len(words) != len(pairs):
        return ["asm: %d words, want %d" % (len(words), len(pairs))]
    return ["asm: %08x, want %08x: %s" % (g, w, a)
            for g, (w, a) in zip(words, pairs) if g != w]


def run_seed(seed, opts, params, choices, kinds):
    case = gen(seed, params, opts.fault)
    machine = Machine(dict(params, K=case["K"], L=case["L"]), choices)
    for addr, data in case["mem"].items():
        machine.load_mem(addr, data)
    machine.load_regs(case["regs"])
    want = machine.run(case["words"])
    directory = tempfile.mkdtemp(prefix="opennpu-oracle-")
    try:
        command = [opts.trivet, "run"] + write_program(case, directory)
        command += opts.sets.arguments(seed) + opts.arg
        try:
            p = subprocess.run(command, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, timeout=120)
        except subprocess.TimeoutExpired:
            diffs = ["timed out"]
        else:
            try:
                got = json.loads(p.stdout)
            except ValueError:
                err = p.stderr.decode("utf-8", "replace").strip()
                diffs = ["exit %d, no JSON: %s" % (p.returncode,
                                                   err.splitlines()[:3])]
            else:
                diffs = differences(case, want, machine, got, kinds)
        if opts.asm:
            diffs += assembly(case, opts.trivet, directory)
        if diffs and opts.keep:
            kept = os.path.join(opts.keep, "seed%d" % seed)
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(directory, kept)
            with open(os.path.join(kept, "command.txt"), "w") as f:
                f.write(" ".join(command).replace(directory, kept) + "\n")
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return case, want, diffs


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("trivet")
    ap.add_argument("--seed", type=int, default=0, help="first seed")
    ap.add_argument("--count", type=int, default=100)
    ap.add_argument("--fault", help="end every program with this fault")
    ap.add_argument("--keep", help="keep the files of failing seeds here")
    ap.add_argument("--asm", action="store_true",
                    help="compare the assembler too")
    ap.add_argument("--choice", action="append", default=[], metavar="NAME",
                    help="take the other reading of: "
                         + ", ".join(sorted(CHOICES)))
    ap.add_argument("--param", action="append", default=[],
                    metavar="KEY=VALUE", help="parameter of the oracle "
                    "(K, L, mem.bytes, ld.latency)")
    ap.add_argument("--arg", action="append", default=[],
                    help="further argument of the simulator")
    ap.add_argument("-v", "--verbose", action="store_true",
                    help="show the program with a difference, and the fault "
                         "codes met")
    opts = ap.parse_args()
    opts.sets = HostSets(opts.trivet)
    params = {}
    for item in opts.param:
        key, value = item.split("=", 1)
        params[key] = int(value, 0)
    for name in opts.choice:
        if name not in CHOICES:
            ap.error("no choice %s" % name)
    choices = {name: not CHOICES[name] for name in opts.choice}
    passed = failed = 0
    kinds = collections.Counter()
    for seed in range(opts.seed, opts.seed + opts.count):
        case, want, diffs = run_seed(seed, opts, params, choices, kinds)
        if diffs:
            failed += 1
            shown = diffs if opts.verbose else diffs[:6]
            more = len(diffs) - len(shown)
            print("seed %d (%s, K=%d L=%d, %d instructions): %s%s" % (
                seed, case["profile"], case["K"], case["L"],
                len(case["words"]), "; ".join(shown),
                "; and %d more" % more if more else ""), flush=True)
            if opts.verbose:
                print(explain(case, want), flush=True)
        else:
            passed += 1
    if opts.verbose:
        for (kind, code), n in sorted(kinds.items(), key=str):
            print("fault %s -> %s: %d" % (kind, code, n))
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
