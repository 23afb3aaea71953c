#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Waveforms of `trivet trace convert`: a parser of Value Change Dumps against the events of the trace.

    vcd.py TRIVET [--sanitized] [-k WORD]

Each signal of each engine must have, in each cycle in which an event begins or ends, the value that the events of the JSON
trace give.  Where GTKWave's vcd2fst is installed, it must read the waveform, and fst2vcd must give the same values.
"""

import glob
import json
import os
import random
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from suite import ROOT, Suite, parse_arguments  # noqa: E402

SIGNALS = {"busy": ("wire", 1), "op": ("string", 1), "insn": ("wire", 64), "stall": ("string", 1), "queue": ("wire", 32), "issue": ("wire", 64), "status": ("wire", 64)}


class Waveforms(Suite):
    def path(self, name):
        return os.path.join(self.folder, name)

    def good(self, *arguments):
        status, out, err = self.call(*arguments)
        self.check(" ".join(arguments), (status or err) and "exit status %s: %s" % (status, err[:300]))
        return out

    def write(self, name, events, engines=("TE0",)):
        with open(self.path(name), "w", encoding="utf-8") as f:
            json.dump({"version": "2.0", "run_metadata": {"tool": "t", "target": "cmdq", "clock_hz": 1e9, "engines": list(engines)}, "config_snapshot": {},
                       "timeline_events": events, "bandwidth_samples": [], "summary_metrics": {"cycles_total": 10, "engines": {}}}, f)

    def convert(self, name):
        self.good("trace", "convert", name, "-o", "out.vcd")
        with open(self.path("out.vcd"), encoding="ascii") as f:
            return parse_vcd(f.read())


def parse_vcd(text):
    """{(scope, signal): [(time, value)]}, and {(scope, signal): (type, bits)}.  Raises on anything that is not a waveform."""
    head, body = text.split("$enddefinitions $end\n")
    scope, names, kinds = [], {}, {}
    for words in (x.split() for x in re.findall(r"\$(?!end\b)(.*?)\$end", head, re.S)):
        if words[0] == "scope":
            assert words[1] == "module" and re.fullmatch(r"[A-Za-z_]\w*", words[2]), words
            scope.append(words[2])
        elif words[0] == "upscope":
            scope.pop()
        elif words[0] == "var":
            assert words[3] not in names and len(scope) == 2, words
            names[words[3]] = (scope[1], words[4])
            kinds[names[words[3]]] = (words[1], int(words[2]))
        else:
            assert words[0] in ("version", "comment", "timescale", "date"), words
    assert not scope
    changes, time = {name: [] for name in names.values()}, -1
    for line in body.splitlines():
        if line.startswith("#"):
            assert int(line[1:]) > time, line
            time = int(line[1:])
        elif line not in ("$dumpvars", "$end"):
            value, name = line.split(" ") if line[0] in "bs" else (line[0], line[1:])
            if value[0] == "b":
                value = None if set(value[1:]) == {"z"} else int(value[1:], 2)
            changes[names[name]].append((time, int(value) if value in ("0", "1") else value[1:] if isinstance(value, str) else value))
    return changes, kinds


def expected_signals(events, engine, time):
    """The values of an engine in cycle `time`; `events` are its own, in the order of the file."""
    def at(kind):
        found = [e for e in events if e["type"] == kind and e["start_cycle"] <= time < e["end_cycle"]]
        return sorted(found, key=lambda e: e["start_cycle"])  # stable

    def pulse(kind):
        found = [e["cmdq_id"] for e in events if e["type"] == kind and e["start_cycle"] == time]
        return found[-1] if found else None

    work, stall = at("ENGINE_EVENT"), at("STALL_EVENT")
    waits = bool(stall) and stall[-1]["cmdq_id"] is not None and stall[-1]["cmdq_id"] not in [e["cmdq_id"] for e in work]
    return {"busy": int(bool(work)), "op": work[-1]["op"] if work else "-", "insn": work[-1]["cmdq_id"] if work else None,
            "stall": stall[-1]["details"]["reason"] if stall else "-", "queue": len(work) + waits, "issue": pulse("CMD_EVENT"), "status": pulse("STAT_OUT")}


def lane_of(event, engines):
    numbered = "%s%d" % (event["engine"], event["engine_id"])
    return numbered if numbered in engines else event["engine"]


def check_waveform(t, name, changes, trace):
    engines = trace["run_metadata"]["engines"]
    events = [e for e in trace["timeline_events"] if e["engine"]]
    lanes = set(engines) | {lane_of(e, engines) for e in events}
    t.equal(name + ": engines", {engine for engine, _ in changes}, lanes)
    for engine in sorted(lanes):
        own = [e for e in events if lane_of(e, engines) == engine]
        times = sorted({0} | {x for e in own for x in (e["start_cycle"], e["end_cycle"], e["start_cycle"] + 1)})
        want = {signal: [] for signal in SIGNALS}
        for time in times:
            for signal, value in expected_signals(own, engine, time).items():
                if not want[signal] or want[signal][-1][1] != value:
                    want[signal].append((time, value))
        for signal in SIGNALS:
            t.equal("%s: %s.%s" % (name, engine, signal), changes.get((engine, signal)), want[signal])


def waveforms_equal_the_events(t):
    count = 0
    for machine, ending, options in (("pccx", "*.s", []), ("opennpu", "*.s", ["-c", "test"]), ("cmdq", "*.json", [])):
        for path in sorted(glob.glob(os.path.join(ROOT, "examples", machine, ending)))[:9]:
            if path.endswith(".expect.json") or t.call("run", path, *options, "--no-hazards", "--trace", "a.json")[0] == 2:
                continue
            with open(t.path("a.json"), encoding="utf-8") as f:
                trace = json.load(f)
            if len(trace["timeline_events"]) > 4000:
                continue
            count += 1
            changes, kinds = t.convert("a.json")
            t.equal(path + ": types", set(kinds.values()), set(SIGNALS.values()))
            check_waveform(t, os.path.basename(path), changes, trace)
    t.expect("examples", count >= 12, count)


def event(start, end, index=0, op="A", kind="ENGINE_EVENT", engine="TE", engine_id=0, **details):
    return {"type": kind, "engine": engine, "engine_id": engine_id, "cmdq_id": index, "layer_id": None, "op": op, "start_cycle": start, "end_cycle": end, "details": details}


def events_may_overlap_and_come_in_any_order(t):
    rng = random.Random(3)
    for _ in range(20):
        events = []
        for i in range(30):
            start = rng.randrange(40)
            kind = rng.choice(("ENGINE_EVENT", "ENGINE_EVENT", "STALL_EVENT", "CMD_EVENT", "STAT_OUT"))
            events.append(event(start, start + (1 if kind in ("CMD_EVENT", "STAT_OUT") else rng.randrange(6)), i, "OP%d" % i, kind, engine_id=rng.randrange(2),
                                **({"reason": "raw"} if kind == "STALL_EVENT" else {})))
        t.write("random.json", events, ("TE0", "TE1"))
        with open(t.path("random.json"), encoding="utf-8") as f:
            check_waveform(t, "random", t.convert("random.json")[0], json.load(f))


def names_cannot_break_the_file(t):
    t.write("names.json", [event(0, 2, op="a $end b\n#7\\x\u00e9"), event(2, 3, op="x" * 5000), event(0, 1, engine="$end 1 !"), event(0, 1, engine="9.b"), event(0, 1, engine="")])
    changes, _ = t.convert("names.json")
    t.equal("operations", [v for _, v in changes[("TE0", "op")]], ["a_$end_b_#7_x__", "x" * 47, "-"])
    t.equal("engines", {e for e, _ in changes}, {"TE0", "_end_1__", "_9_b", "_"})


def waveforms_stay_bounded(t):
    t.write("wide.json", [event(i, i + 1, engine="E%d" % i, op="OP%d" % i) for i in range(250)])
    changes, _ = t.convert("wide.json")
    t.expect("engines", len({e for e, _ in changes}) >= 250, len(changes))
    t.write("texts.json", [event(i, i + 1, i, op="OP%d" % i) for i in range(20000)])
    found = [v for _, v in t.convert("texts.json")[0][("TE0", "op")]]
    t.equal("the first operations have names, later ones do not", (found[0], found[5000], found[-2:]), ("OP0", "OP5000", ["others", "-"]))
    t.write("deep.json", [event(0, 100 + i, i) for i in range(1000)])
    changes, _ = t.convert("deep.json")
    t.equal("depth", changes[("TE0", "queue")][:3] + changes[("TE0", "queue")][-1:], [(0, 1000), (100, 999), (101, 998), (1099, 0)])
    last = (1 << 53) - 1
    t.write("late.json", [event(last - 1, last)])
    t.equal("late", t.convert("late.json")[0][("TE0", "busy")], [(0, 0), (last - 1, 1), (last, 0)])
    t.write("none.json", [], ())
    t.equal("no engine", t.convert("none.json"), ({}, {}))


def other_forms_and_options(t):
    t.good("run", "-q", os.path.join(ROOT, "examples", "pccx", "softmax.s"), "--trace", "a.json", "--perfetto", "p.json")
    full = t.convert("a.json")[0]
    events = t.convert("p.json")[0]
    t.equal("of Chrome trace events, which have no issues", {k: v for k, v in events.items() if k[1] != "issue"}, {k: v for k, v in full.items() if k[1] != "issue"})
    t.good("trace", "convert", "a.json", "--to", "vcd", "-o", "same")
    with open(t.path("same"), "rb") as a, open(t.path("out.vcd"), "rb") as b:
        t.expect("--to", a.read().startswith(b.read(100)))
    t.good("trace", "convert", "a.json", "-o", "z.vcd.zst")
    with open(t.path("z.vcd.zst"), "rb") as f:
        t.equal("compressed", f.read(4), b"\x28\xb5\x2f\xfd")
    status, _, err = t.call("trace", "out.vcd")
    t.expect("a waveform is no trace", status == 2 and "TV-T001" in err, err)
    with open(t.path("a.json"), "rb") as f:
        whole = f.read()
    for cut in (0, 10, len(whole) // 2):
        with open(t.path("cut.json"), "wb") as f:
            f.write(whole[:cut])
        status, _, err = t.call("trace", "convert", "cut.json", "-o", "cut.vcd")
        t.expect("cut", status == 2 and not os.path.exists(t.path("cut.vcd")), err)


def gtkwave_reads_waveforms(t):
    if not shutil.which("vcd2fst") or not shutil.which("fst2vcd"):
        return
    t.good("run", "-q", os.path.join(ROOT, "examples", "pccx", "attention.s"), "--trace", "a.json")
    want, _ = t.convert("a.json")
    subprocess.run(["vcd2fst", "out.vcd", "out.fst"], cwd=t.folder, check=True, stdout=subprocess.DEVNULL)
    text = subprocess.run(["fst2vcd", "out.fst"], cwd=t.folder, check=True, stdout=subprocess.PIPE).stdout.decode()
    t.equal("values", parse_vcd(re.sub(r"^b(z+) ", "bz ", text, flags=re.M))[0], want)


def main():
    options = parse_arguments(__doc__, "trivet")
    t = Waveforms(options.trivet, options, (60, 1200) if options.sanitized else (10, 120))
    t.run_tests([waveforms_equal_the_events, events_may_overlap_and_come_in_any_order, names_cannot_break_the_file, waveforms_stay_bounded,
                 other_forms_and_options, gtkwave_reads_waveforms], t)
    return t.finish()


if __name__ == "__main__":
    sys.exit(main())
