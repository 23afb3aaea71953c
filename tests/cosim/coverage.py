#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Directed closure: programs that cover the models of the machines, and the same hits when they run.

    coverage.py TRIVET [--sanitized]
"""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import suite as suites  # noqa: E402  pylint: disable=wrong-import-position

BINS = {"pccx": 680, "opennpu": 680}
INSTRUCTIONS = 50000


def result_of(t, *arguments):
    code, out, err = t.call("cover", *arguments, "--json")
    t.expect("cover " + " ".join(arguments), code == 0, err)
    return json.loads(out)["result"]


def all_bins_are_covered_or_have_a_reason(t):
    for target, least in BINS.items():
        for seed in ("1",) if t.sanitized else ("1", "2"):
            folder = t.path("%s-%s" % (target, seed))
            found = result_of(t, "-t", target, "--seed", seed, "--close", folder, "--list", "unreachable", "-o",
                              t.path("%s.jsonl" % target))
            t.expect("%s has enough bins" % target, found["bins"] >= least, found["bins"])
            t.equal("%s: open" % target, found["open"], 0)
            t.expect("%s: instructions" % target, found["instructions"] <= INSTRUCTIONS, found["instructions"])
            t.expect("%s: at most 2 %% are unreachable" % target, found["unreachable"] * 50 <= found["bins"],
                     found["unreachable"])
            t.expect("%s: reasons" % target, all(bin["reason"] for bin in found["list"]))


def programs_hit_the_same_bins_again(t):
    for target in suites.sample(BINS):
        folder = t.path("%s-1" % target)
        programs = sorted(os.path.join(folder, name) for name in os.listdir(folder))
        again = result_of(t, *programs, "-t", target)
        t.equal("%s: open" % target, again["open"], 0)
        merged = t.path("%s-merged.jsonl" % target)
        half = len(programs) // 2
        result_of(t, *programs[:half], "-o", t.path("first.jsonl"))
        result_of(t, *programs[half:], "-m", t.path("first.jsonl"), "-o", merged)
        whole = t.path("%s-whole.jsonl" % target)
        result_of(t, *programs, "-o", whole)
        with open(merged, encoding="utf-8") as a, open(whole, encoding="utf-8") as b:
            t.equal("%s: merged" % target, [json.loads(line) for line in a], [json.loads(line) for line in b])


def queues_cover_all_bins(t):
    folder, entries = t.path("cmdq"), 3000 if t.sanitized else INSTRUCTIONS
    found = result_of(t, "-t", "cmdq", "--close", folder, "-n", str(entries))
    t.expect("cmdq: enough bins", found["bins"] >= 680, found["bins"])
    t.expect("cmdq: entries", found["instructions"] <= entries, found["instructions"])
    t.expect("cmdq: at most 2 % are unreachable", found["unreachable"] * 50 <= found["bins"], found["unreachable"])
    t.expect("cmdq: open", t.sanitized or found["open"] == 0, found["open"])
    queues = sorted(os.listdir(folder))
    t.expect("cmdq: queues", queues and all(name.endswith(".json") for name in queues), queues)
    code, _, err = t.call("run", os.path.join(folder, queues[0]), "-q")
    t.expect("cmdq: runs without a hazard", code == 0 and "TV-Q040" not in err, err[-300:])


def each_fault_has_a_program(t):
    for target in BINS:
        folder = t.path("%s-1" % target)
        faults = [name[:-2] for name in os.listdir(folder) if not name.startswith("program-")]
        t.expect("%s: faults" % target, len(faults) >= 10, faults)
        for name in faults:
            code, _, err = t.call("run", os.path.join(folder, name + ".s"), "-q")
            t.expect(name, code == 1 and name + "]" in err, (code, err))


def the_same_seed_gives_the_same_programs(t):
    for target in suites.sample(BINS):
        folder, again = t.path("%s-1" % target), t.path("%s-again" % target)
        result_of(t, "-t", target, "--seed", "1", "--close", again)
        t.equal("%s: names" % target, sorted(os.listdir(again)), sorted(os.listdir(folder)))
        for name in os.listdir(folder):
            with open(os.path.join(folder, name), "rb") as a, open(os.path.join(again, name), "rb") as b:
                t.expect(name, a.read() == b.read())


def mistakes_are_errors(t):
    source = t.write("nothing.s", "        .target pccx\n        memset fmap_shape[0], 1, 1, 1\n")
    for arguments, code, text in (
            ((), 2, "nothing is covered"), (("-t", "none"), 2, "none"),
            ((source, "--fail-below", "50"), 1, "TV-V011"), ((source, "--fail-below", "x"), 2, "--fail-below"),
            ((source, "--list", "some"), 2, "--list"), ((source, "-o", source), 2, "TV-U007"),
            ((source, "-m", t.write("bad.jsonl", "{}\n")), 2, "TV-V010"),
            ((source, "-o", t.path("both"), "--html", t.path("both")), 2, "TV-U007"),
            (("-t", "pccx", "--close", t.path("no"), "-n", "0"), 2, "--instructions")):
        status, _, err = t.call("cover", *arguments)
        t.expect(" ".join(arguments), status == code and text in err, (status, err))


def main():
    options = suites.parse_arguments(__doc__, "trivet")
    suite = suites.Suite(options.trivet, options)
    suite.sanitized = options.sanitized
    suite.run_tests([all_bins_are_covered_or_have_a_reason, programs_hit_the_same_bins_again, queues_cover_all_bins, each_fault_has_a_program,
                     the_same_seed_gives_the_same_programs, mistakes_are_errors], suite)
    return suite.finish()


if __name__ == "__main__":
    sys.exit(main())
