#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Commit logs of the command line: replays give the final state of the run; options; damaged logs.

    run.py TRIVET
"""

import glob
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import suite as suites  # noqa: E402  pylint: disable=wrong-import-position

ROOT = suites.ROOT
# What each machine has: the range that is compared after a run, and options.
MACHINES = {
    "pccx": (("l2:0:8192:hex16", "host:0:32768:hex16", "const:0:512:hex8"), ("-D", "l2.words=4096", "-D", "host.bytes=1Mi")),
    "opennpu": (("vx:0:256:hex8", "mem:0:32768:hex8"), ("-c", "test")),
    "cmdq": (("spm:0:0:32768:hex8", "dram:0:32768:hex8"), ("-c", "mobile")),
}


class Runner(suites.Suite):
    def call(self, *arguments):
        p = subprocess.run([self.trivet, *arguments], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
        return p.returncode, p.stdout, p.stderr

    def path(self, name):
        return os.path.join(self.folder, name)


def dumps_of(text):
    result = json.loads(text)["result"]
    return result and result["dumps"]


def replays_write_the_files_of_runs(t, path, options, ranges, log):
    """--dump RANGE=FILE of a replay gives the bytes of that of the run."""
    for ending in suites.sample(("dat", "npy", "memh")):
        files = [[word for i, r in enumerate(ranges) for word in ("--dump", "%s=%s" % (r, t.path("%s%d.%s" % (side, i, ending))))] for side in ("run", "replay")]
        t.equal("run", t.call("run", "-q", path, *options, *files[0], "--no-hazards")[0], 0)
        t.equal("replay", t.call("cosim", "replay", log, *files[1])[0], 0)
        for i in range(len(ranges)):
            contents = []
            for side in ("run", "replay"):
                with open(t.path("%s%d.%s" % (side, i, ending)), "rb") as f:
                    contents.append(f.read())
            t.expect("%s: %s as .%s" % (path, ranges[i], ending), contents[0] == contents[1] and contents[0])
    code, _, err = t.call("cosim", "replay", log, "--dump", "%s=%s" % (ranges[0], log))
    t.expect("the log is not overwritten", code == 2 and "[TV-U007]" in err, err)


def replays_give_the_final_state(t):
    endings = ("log", "bin", "log.zst", "bin.zst")
    for machine, (ranges, options) in suites.sample(MACHINES.items()):
        count = 0
        dumps = [word for r in ranges for word in ("--dump", r)]
        for path in sorted(glob.glob(os.path.join(ROOT, "examples", machine, "*.s")) + glob.glob(os.path.join(ROOT, "examples", machine, "*[a-z].json"))):
            if "expect" in path:
                continue
            log = t.path("run." + endings[count % 4])
            code, out, _ = t.call("run", path, *options, *dumps, "--commit-log", log, "--json", "--no-hazards")
            if code == 2:  # not a program of this profile
                continue
            count += 1
            replayed, again, err = t.call("cosim", "replay", log, *dumps, "--json")
            t.equal(path, (replayed, err), (0, ""))
            t.expect(path + " has the state", dumps_of(again) == dumps_of(out) and dumps_of(out))
            if count == 1:
                replays_write_the_files_of_runs(t, path, options, ranges, log)
        t.expect("programs of " + machine, count >= 4, count)


def contents_are_chosen(t):
    log, source = t.path("chosen.log"), "examples/pccx/softmax.s"

    def records(*options):
        t.equal("run", t.call("run", "-q", source, "--commit-log", log, *options)[0], 0)
        with open(log, encoding="utf-8") as file:
            return [json.loads(line) for line in file][1:]
    plain = records()
    t.expect("writes and cycles", any("end" in r for r in plain) and all(e["write"] and "before" not in e for r in plain for e in r.get("effects", ())))
    t.expect("no cycles", not any("end" in r for r in records("--functional")))
    t.expect("reads", any(not e["write"] for r in records("--commit-contents", "reads") for e in r.get("effects", ())))
    full = records("--commit-contents", "before,reads")
    t.expect("before", all("before" in e for r in full if r["kind"] == "instruction" for e in r.get("effects", ()) if e["write"]))
    t.equal("words", [r["word"] for r in plain if r["kind"] == "instruction"], [r["word"] for r in full if r["kind"] == "instruction"])


def options_are_checked(t):
    log, source = t.path("options.log"), "examples/pccx/softmax.s"
    for arguments, code in (
            (("run", source, "--commit-log", "-"), "TV-U004"), (("run", source, "--commit-contents", "reads"), "TV-U006"),
            (("run", source, "--commit-log", log, "--commit-contents", "writes"), "TV-U004"),
            (("run", source, "--commit-log", log, "--commit-contents", "reads,"), "TV-U004"),
            (("run", source, "--commit-log", source), "TV-U007"), (("run", source, "--commit-log", log, "--trace", log), "TV-U007"),
            (("cosim", "replay"), "TV-U005"), (("cosim", "repeat", log), "TV-U004"), (("cosim", "replay", t.path("none")), "TV-F001"),
            (("cosim", "replay", source), "TV-V001")):
        result, _, err = t.call(*arguments)
        t.expect(" ".join(arguments), result == 2 and code in err, err)
        t.expect("no file is left", not os.path.exists(log))


def logs_that_do_not_fit_are_rejected(t):
    path = t.path("damaged.log")
    head = {"commit_log": 1, "target": "pccx", "config": {"l2.words": "64"}}
    write = {"effects": [{"space": "l2", "addr": 63, "after": "00" * 16}]}
    for change, code in (({}, None), ({"target": "vax"}, "TV-C007"), ({"config": {"l2.word": "64"}}, "TV-C001"), ({"config": {"l2.words": 64}}, "TV-C002")):
        with open(path, "w", encoding="utf-8") as file:
            file.write("%s\n%s\n" % (json.dumps({**head, **change}), json.dumps(write)))
        result, _, err = t.call("cosim", "replay", path)
        t.expect(str(change), result == (2 if code else 0) and (not code or code in err), err)
    for effect, code in (({"addr": 64}, "TV-M002"), ({"space": "l3"}, "TV-M001")):
        with open(path, "w", encoding="utf-8") as file:
            file.write("%s\n%s\n" % (json.dumps(head), json.dumps({"effects": [{**write["effects"][0], **effect}]})))
        result, _, err = t.call("cosim", "replay", path)
        t.expect(str(effect), result == 2 and code in err, err)


def write_log(path, records):
    with open(path, "w", encoding="utf-8") as file:
        file.write("".join(json.dumps(r) + "\n" for r in records))


def logs_are_compared(t):
    model, design, rules, known = (t.path(n) for n in ("model.bin.zst", "design.log", "rules.ini", "known.ini"))
    t.equal("run", t.call("run", "-q", "examples/pccx/softmax.s", "--commit-log", model)[0], 0)
    t.equal("the same run", t.call("run", "-q", "examples/pccx/softmax.s", "--commit-log", design)[0], 0)
    with open(design, encoding="utf-8") as file:
        records = [json.loads(line) for line in file]
    count = sum(r.get("kind") == "instruction" for r in records)
    code, out, err = t.call("cosim", "compare", model, design, "--cycle-slack", "0")
    t.expect("equal", code == 0 and out.startswith("PASS: %d instructions" % count), out + err)
    code, out, err = t.call("cosim", "compare", model, design, "--self-test")
    t.expect("the planted bug is found", code == 0 and "MISMATCH: wrong-data/" in out, out + err)
    number = next(i for i, r in enumerate(records) if r.get("insn") == "CVO_EXP")
    after = records[number]["effects"][0]["after"]
    low = (int(after[:2], 16) ^ 1) & 255
    changed = [dict(r) for r in records]
    changed[number]["effects"] = [{**records[number]["effects"][0], "after": "%02x%s" % (low, after[2:])}]
    write_log(design, changed)
    code, out, err = t.call("cosim", "compare", model, design, "--json")
    result = json.loads(out)["result"]
    found = result["mismatches"][0]
    t.expect("a changed bit", code == 1 and result["mismatch_count"] == 1 and found["class"] == "wrong-data/CVO_EXP/l2", out + err)
    expected = int(after[2:4] + after[:2], 16)
    t.equal("its element", [found[k] for k in ("element", "lane", "bits", "expected", "actual", "line", "file")],
            [0, 0, 16, expected, expected ^ 1, records[number]["line"], records[number]["file"]])
    with open(rules, "w", encoding="utf-8") as file:
        file.write("[rule CVO_* l2]\nsteps = 1\n")
    t.equal("one step", t.call("cosim", "compare", model, design, "--rules", rules)[0], 0)
    with open(known, "w", encoding="utf-8") as file:
        file.write("[waive wrong-data/CVO_EXP/*]\nreason = a coarse table\n")
    code, out, _ = t.call("cosim", "compare", model, design, "--rules", known)
    t.expect("waived", code == 0 and "waived: a coarse table" in out and "0 mismatches, 1 waived" in out, out)
    t.expect("no waiver is unused", "no mismatch needs" not in out, out)
    with open(known, "a", encoding="utf-8") as file:
        file.write("[waive hang/*]\nreason = corrected\n")
    code, out, _ = t.call("cosim", "compare", model, design, "--rules", known)
    t.expect("a waiver is unused", code == 0 and "no mismatch needs the waiver hang/*: corrected" in out, out)
    code, out, _ = t.call("cosim", "compare", model, design, "--rules", known, "--json")
    t.equal("unused waivers", json.loads(out)["result"]["unused_waivers"], [{"class": "hang/*", "reason": "corrected"}])
    write_log(design, records[:number] + records[number + 1:])
    code, out, _ = t.call("cosim", "compare", model, design)
    t.expect("a record is missing", code == 1 and "hang/CVO_EXP" in out, out)
    with open(rules, "w", encoding="utf-8") as file:
        file.write("[rule CVO_* l2]\nstep = 1\n")
    for arguments, error in ((("--rules", rules), "TV-V004"), (("--cycle-slack", "x"), "TV-U004"), (("--dump", "l2:0:1"), "TV-U006"),
                             (("--rules", t.path("none")), "TV-F001")):
        code, _, err = t.call("cosim", "compare", model, design, *arguments)
        t.expect(" ".join(arguments), code == 2 and error in err, err)
    write_log(design, records[:1])
    code, _, err = t.call("cosim", "compare", design, design)
    t.expect("logs without an instruction do not pass", code == 2 and "nothing is compared" in err, err)
    t.expect("two logs", t.call("cosim", "compare", model)[0] == 2)
    t.expect("options of compare", t.call("cosim", "replay", model, "--self-test")[0] == 2)


def programs_are_reduced(t):
    source, out = t.path("long.s"), t.path("short.s")
    lines = ["        memset fmap_shape[%d], 8, 1, 1" % (i % 7) if i % 3 else "        cvo.%s l2[%d], l2[0], len=40" % (("exp", "sin", "cos")[i % 9 // 3], 16 * i)
             for i in range(60)]
    with open(source, "w", encoding="utf-8") as file:
        file.write("        .target pccx\n" + "\n".join(lines) + "\n        .data 0x40\n        .byte 1,2,3\n")
    # A sine fails after entry 5 of the shapes has been set.
    code, _, err = t.call("reduce", source, "-x", "awk '/fmap_shape.5/ {a = 1} /cvo.sin/ && a {b = 7} END {exit b}' {}", "-o", out)
    with open(out, encoding="utf-8") as file:
        text = file.read()
    t.expect("by a status", code == 0 and text.split("\n")[1:] == [
        "; exit status 7", "        .target pccx", "        memset fmap_shape[5], 0, 0, 0", "        cvo.sin l2[0x0], l2[0x0], len=0", ""], text + err)
    play = "%s run -q {} --functional --commit-log {log}; sed -i '/CVO_COS/s/\"after\":\"..../\"after\":\"1234/' {log}" % t.trivet
    code, _, err = t.call("reduce", source, "-x", play, "-o", out)
    with open(out, encoding="utf-8") as file:
        text = file.read()
    t.expect("by a mismatch", code == 0 and text.startswith("; 1 of 60 instructions") and "; wrong-data/CVO_COS/l2: l2[0x0] lane 0" in text and
             text.endswith("        .target pccx\n        cvo.cos l2[0x0], l2[0x0], len=8\n"), text + err)
    code, out_text, err = t.call("reduce", source, "-x", "case $(cat {}) in *cos*) sleep 9;; esac", "--timeout", "0.2")
    t.expect("by a time-out", code == 0 and "exit status 124" in out_text and "; 1 of 60" in out_text, out_text + err)
    for arguments, error in (((source, "-x", "test -s {}"), "TV-V006"), (("examples/cmdq/ffn.json", "-x", "false {}"), "TV-V007"), ((source,), "TV-U004"),
                             ((source, "-x", "false"), "TV-U004"), ((source, "-x", "false {}", "--rules", source), "TV-U006"),
                             ((source, "-x", "false {}", "-o", source), "TV-U007"), ((source, "-x", "true {} {log}"), "TV-F001"),
                             ((source, "-x", "true {log}"), "TV-U004"), ((source, "-x", "false {file}"), "TV-U004"), ((source, "-x", "/none/bench {}"), "TV-U004")):
        code, _, err = t.call("reduce", *arguments)
        t.expect(" ".join(arguments), code == 2 and error in err, err)


def main():
    options = suites.parse_arguments(__doc__, "trivet")
    suite = Runner(options.trivet, options)
    suite.run_tests([replays_give_the_final_state, contents_are_chosen, options_are_checked, logs_are_compared, programs_are_reduced, logs_that_do_not_fit_are_rejected], suite)
    return suite.finish()


if __name__ == "__main__":
    sys.exit(main())
