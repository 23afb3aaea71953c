#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of `trivet trace`.

    run.py TRIVET [--sanitized] [-k WORD]

Summaries against the run's own statistics on every example, conversions there and back, Chrome trace events against a
schema, comparisons, compressed files, pipes, and damaged and hostile files, each of which must be rejected with the right
code, at the right line and column, in bounded time and memory.  -k runs the groups whose names contain WORD.
"""

import copy
import csv
import glob
import io
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from suite import ROOT, Suite, is_left_out, parse_arguments, sample  # noqa: E402

ERROR = re.compile(r"(?P<file>[^:\n]+):(?:(?P<line>\d+):(?P<column>\d+):)? error: (?P<message>.*) \[(?P<code>TV-\w+)\]$", re.M)


class Runner(Suite):
    def __init__(self, options):
        super().__init__(options.trivet, options, (60, 1200) if options.sanitized else (10, 120))

    def read(self, name):
        with open(self.path(name), encoding="utf-8", newline="") as f:
            return f.read()

    def good(self, *arguments, data=None):
        status, out, err = self.call(*arguments, data=data)
        self.check(" ".join(arguments), (status or err) and "exit status %s: %s" % (status, err[:300]))
        return out

    def summary(self, name):
        return json.loads(self.good("trace", name, "--json") or '{"result": null}')["result"]

    def reject(self, name, data, code, place=None, says=""):
        """`place`: line and column, or only the line."""
        if is_left_out(name):
            return
        self.write("bad.json", data)
        status, text, wrong = self.run_bounded(["trace", "bad.json"])
        found = ERROR.search(text)
        if wrong:
            pass
        elif status != 2:
            wrong = "exit status %s: %s" % (status, text[:300])
        elif not found or found["code"] != code:
            wrong = "no %s: %s" % (code, text[:300])
        elif place and (int(found["line"]), int(found["column"]))[:len(place)] != place:
            wrong = "at %s:%s, expected %s" % (found["line"], found["column"], place)
        elif says not in found["message"]:
            wrong = "does not say %r: %s" % (says, text[:300])
        self.check(name, wrong)


# ---- Traces to begin with

def event(kind="ENGINE_EVENT", engine="TE", engine_id=0, index=0, layer=None, op="A", start=0, end=1, **details):
    return {"type": kind, "engine": engine, "engine_id": engine_id, "cmdq_id": index, "layer_id": layer, "op": op, "start_cycle": start, "end_cycle": end,
            "details": details}


def trace(*events, samples=(), summary=None, config=None, **more):
    return dict({"version": "2.0", "run_metadata": {"tool": "t", "tool_version": "1", "target": "cmdq", "clock_hz": 1e9, "engines": ["TE0", "TE1"]},
                 "config_snapshot": config or {}, "timeline_events": list(events), "bandwidth_samples": list(samples),
                 "summary_metrics": summary or {"cycles_total": 10, "engines": {}}}, **more)


def examples(t):
    """Name and arguments of the examples that run. Traces with steps of a model are in the unit tests."""
    return sample(every_example())


def every_example():
    for machine, ending in (("pccx", "*.s"), ("opennpu", "*.s"), ("cmdq", "*.json")):
        for path in sorted(glob.glob(os.path.join(ROOT, "examples", machine, ending))):
            if path.endswith(".expect.json"):
                continue
            extra = []
            with open(path, encoding="utf-8") as f:
                for line in f.read().splitlines()[:12]:
                    given = re.match(r"[;#]\s*(run|profile):\s*(.*)", line)
                    if given:
                        words = given[2].split()
                        extra += words if given[1] == "run" else ["-c"] + words
            yield machine + "-" + os.path.splitext(os.path.basename(path))[0], [path] + extra


# ---- Groups

def summaries_equal_statistics(t):
    """`trivet trace` of a run has the statistics that the run reports."""
    for name, arguments in examples(t):
        status, out, err = t.call("run", *arguments, "--json", "--no-hazards", "--trace", "run.json", "--perfetto", "run.perfetto.json")
        if status not in (0, 1):
            t.check(name, "exit status %d: %s" % (status, err))
            continue
        want = json.loads(out)["result"]
        for file in ("run.json", "run.perfetto.json"):
            got = t.summary(file)
            for key in ("target", "cycles", "instructions", "macs", "engines", "bound_by"):
                t.equal("%s %s %s" % (name, file, key), got[key], want[key])
            t.equal("%s %s bytes" % (name, file), {p: v["bytes"] for p, v in got["paths"].items()}, want["bytes"])
            t.check("%s %s seconds" % (name, file), abs(got["seconds"] - want["seconds"]) > 1e-9 * want["seconds"] and "seconds differ")
            causes = {}
            for engine in want["engines"].values():
                for cause, cycles in engine["stalled"].items():
                    causes[cause] = causes.get(cause, 0) + cycles
            t.equal("%s %s stall reasons" % (name, file), got["stall_reasons"], causes)
        with open(t.path("run.json"), encoding="utf-8") as f:
            whole = json.load(f)
        by_hand(t, name, whole, t.summary("run.json"))


def by_hand(t, name, whole, got):
    """The totals over the events, computed from the file."""
    events = whole["timeline_events"]
    t.equal(name + " events", got["events"], len(events))
    ops = {}
    for e in events:
        row = ops.setdefault(e["op"], dict(engine=0, command=0, cycles=0, bytes=0, macs=0))
        if e["type"] == "ENGINE_EVENT":
            row["engine"] += 1
            row["cycles"] += e["end_cycle"] - e["start_cycle"]
            row["bytes"] += e["details"].get("bytes", 0)
            row["macs"] += e["details"].get("macs", 0)
        row["command"] += e["type"] == "CMD_EVENT"
    want = {op: [max(r["engine"], r["command"]), r["cycles"], r["bytes"], r["macs"]] for op, r in ops.items() if r["engine"] or r["command"]}
    t.equal(name + " classes", {r["name"]: [r["count"], r["cycles"], r["bytes"], r["macs"]] for r in got["ops"]}, want)
    cycles = [r["cycles"] for r in got["ops"]]
    t.equal(name + " order", cycles, sorted(cycles, reverse=True))
    stalls = {(e["start_cycle"], e["end_cycle"], e["cmdq_id"], e["details"]["reason"], e["details"].get("waits_for"))
              for e in events if e["type"] == "STALL_EVENT" and e["end_cycle"] > e["start_cycle"]}
    lengths = sorted((e[1] - e[0] for e in stalls), reverse=True)[:10]
    t.equal(name + " stalls", [s["end_cycle"] - s["start_cycle"] for s in got["stalls"]], lengths)


def meaning(path):
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def conversions(t):
    for name, arguments in examples(t):
        t.call("run", *arguments, "--no-hazards", "--trace", "a.json", "--perfetto", "a.perfetto.json")
        t.good("trace", "convert", "a.json", "-o", "b.json")
        t.equal(name + " JSON to JSON", meaning(t.path("b.json")), meaning(t.path("a.json")))
        t.good("trace", "convert", "a.json", "-o", "b.perfetto.json.zst")
        t.good("trace", "convert", "b.perfetto.json.zst", "-o", "c.perfetto.json")
        for file in ("a.perfetto.json", "c.perfetto.json"):
            check_chrome(t, "%s %s" % (name, file), meaning(t.path(file)))
        t.write("sorted.json", json.dumps(meaning(t.path("a.perfetto.json")), sort_keys=True))
        turned, straight = t.summary("sorted.json"), t.summary("a.perfetto.json")
        t.equal(name + " with members in another order", turned, straight)
        t.equal(name + " JSON to Perfetto", meaning(t.path("c.perfetto.json")), meaning(t.path("a.perfetto.json")))
        t.good("trace", "convert", "a.perfetto.json", "-o", "back.json")
        want = meaning(t.path("a.json"))
        want["timeline_events"] = [e for e in want["timeline_events"] if e["type"] != "CMD_EVENT"]
        t.equal(name + " Perfetto to JSON", close(meaning(t.path("back.json"))), close(want))
        t.good("trace", "convert", "a.json", "--to", "csv", "-o", "rows")
        t.equal(name + " CSV", list(csv.DictReader(io.StringIO(t.read("rows")))), csv_rows(meaning(t.path("a.json"))["timeline_events"]))


def close(value):
    """Rounds amounts of samples: Chrome trace events have bytes per cycle."""
    for sample in value["bandwidth_samples"]:
        for key in ("dram_read_bytes", "dram_write_bytes", "stall_cycles"):
            sample[key] = round(sample[key], 6)
    return value


def csv_rows(events):
    rows = []
    for e in events:
        d = e["details"]
        row = {"type": e["type"], "engine": e["engine"], "engine_id": e["engine_id"] if e["engine"] else None, "index": e["cmdq_id"], "layer": e["layer_id"],
               "op": e["op"], "start_cycle": e["start_cycle"], "end_cycle": e["end_cycle"], "cycles": e["end_cycle"] - e["start_cycle"]}
        for key in ("bytes", "macs", "route_in", "route_out", "tokens", "reason", "waits_for", "file", "line"):
            row[key] = d.get(key)
        rows.append({k: "" if v is None else str(v) for k, v in row.items()})
    return rows


NUMBER = (int, float)
PHASES = {  # required members of the trace event format, by phase, with their types; optional ones behind
    "X": ({"name": str, "cat": str, "ph": str, "ts": NUMBER, "dur": NUMBER, "pid": int, "tid": int}, {"args": dict, "cname": str}),
    "i": ({"name": str, "cat": str, "ph": str, "ts": NUMBER, "pid": int, "tid": int, "s": str}, {"args": dict}),
    "C": ({"name": str, "ph": str, "ts": NUMBER, "pid": int, "args": dict}, {"cycle": int, "window_cycles": int, "stall_cycles": NUMBER}),
    "M": ({"name": str, "ph": str, "pid": int, "args": dict}, {"tid": int}),
}


MEMBERS = ("version", "run_metadata", "config_snapshot", "summary_metrics")


def check_chrome(t, name, file):
    """The trace event format, object form: `traceEvents`, events by phase; the members that viewers require. Perfetto stops at
    other members of the object."""
    wrong = []
    if list(file) != ["traceEvents"]:
        wrong.append("the object has %s" % list(file))
    if not isinstance(file.get("traceEvents"), list):
        wrong.append("no traceEvents")
    tracks, counter = {}, -1.0
    for i, e in enumerate(file.get("traceEvents", [])):
        phase = e.get("ph")
        if phase not in PHASES:
            wrong.append("event %d has the phase %r" % (i, phase))
            continue
        required, optional = PHASES[phase]
        for key, kind in required.items():
            if not isinstance(e.get(key), kind) or isinstance(e.get(key), bool):
                wrong.append("event %d: %s is %r" % (i, key, e.get(key)))
        for key in set(e) - set(required):
            if key not in optional or not isinstance(e[key], optional[key]):
                wrong.append("event %d has %s" % (i, key))
        if e.get("ts", 0) < 0 or e.get("dur", 0) < 0:
            wrong.append("event %d is before the beginning" % i)
        if phase == "i" and e.get("s") not in ("g", "p", "t"):
            wrong.append("event %d has the scope %r" % (i, e.get("s")))
        if phase == "M" and e["name"] in MEMBERS and list(e["args"]) == ["value"]:
            continue
        if phase == "M" and (e["name"] not in ("process_name", "thread_name") or not isinstance(e["args"].get("name"), str)):
            wrong.append("event %d names %r" % (i, e))
        if phase == "M" and e["name"] == "thread_name":
            if e["tid"] in tracks:
                wrong.append("track %d is named twice" % e["tid"])
            tracks[e["tid"]] = e["args"]["name"]
        if phase in "X" and e["tid"] not in tracks:
            wrong.append("event %d is on a track without a name" % i)
        if phase == "C":
            if e["ts"] <= counter or not all(isinstance(v, NUMBER) for v in e["args"].values()):
                wrong.append("counter %d goes back, or has another value than numbers" % i)
            counter = e["ts"]
    if sorted(tracks) != list(range(1, len(tracks) + 1)):
        wrong.append("tracks %s" % sorted(tracks))
    t.check(name + ", the trace event format", "; ".join(wrong[:5]))


def unknown_members_stay(t):
    """Conversion from JSON to JSON keeps unknown members and special characters."""
    awkward = 'a "quoted", \\ back/slash\n\u00e9\u4e2d\U0001f600'
    e = event(index=3, layer=awkward, op=awkward, bytes=5, file=awkward, line=7, vendor={"x": [1, -2.5e-7, None, True, "\u00e9"]})
    e["color"] = [{"deep": {}}]
    file = trace(e, event("MARKER_EVENT", engine=None, index=None, op=awkward), event("TOKEN_EVENT", engine=None, op="decode", index=None, position=4, tokens=1, start=2, end=9),
                 event(index=1, position=7),
                 samples=[{"cycle": 0, "window_cycles": 64, "dram_read_bytes": 1 / 3, "dram_write_bytes": 0.1, "stall_cycles": 12345678.9}],
                 summary={"cycles_total": 10, "engines": {}, "own": 1.25e-300, "big": 2 ** 62}, note=[1, {"a": awkward}], other=None)
    t.write("a.json", json.dumps(file))
    t.good("trace", "convert", "a.json", "-o", "b.json")
    t.equal("unknown members", meaning(t.path("b.json")), file)
    t.write("a.json", json.dumps(file, indent=2, ensure_ascii=False))
    t.good("trace", "convert", "a.json", "-o", "b.json")
    t.equal("unknown members, written otherwise", meaning(t.path("b.json")), file)
    t.good("trace", "convert", "a.json", "-o", "b.csv")
    shown = awkward.replace("\n", "\\x0a")  # tables show control characters escaped
    t.equal("awkward CSV", list(csv.DictReader(io.StringIO(t.read("b.csv"), newline="")))[0]["op"], shown)
    t.equal("CSV line ends", t.read("b.csv").replace(shown.replace('"', '""'), "").count("\r\n"), 5)
    t.equal("CSV text", t.read("b.csv").split("\r\n")[2].split(",")[0], "MARKER_EVENT")


def pipes_and_zstd(t):
    example = os.path.join(ROOT, "examples", "cmdq", "prefetch.json")
    for option, name in (("--trace", "p.json"), ("--perfetto", "p.perfetto.json")):
        t.good("run", "-q", example, option, name)
        t.good("run", "-q", example, option, name + ".zst")
        with open(t.path(name + ".zst"), "rb") as f:
            packed = f.read()
        with open(t.path(name), "rb") as f:
            plain = f.read()
        t.equal(name + " is zstd", packed[:4], b"\x28\xb5\x2f\xfd")
        t.check(name + " is smaller", len(packed) >= len(plain) and "%d bytes of %d" % (len(packed), len(plain)))
        want = t.good("trace", name)
        for title, data in (("zstd", packed), ("plain", plain)):
            t.equal("%s %s from a pipe" % (name, title), t.good("trace", "-", data=data), want)
        t.write("strange.name", packed)
        t.equal(name + " is known by its contents", t.good("trace", "strange.name"), want)
        t.write("two.zst", packed + packed[:0])
        for size in (5, len(packed) // 2, len(packed) - 1):
            t.reject("%s cut at %d" % (name, size), packed[:size], "TV-F005")
        damaged = bytearray(packed)
        damaged[len(damaged) // 2] ^= 0x55
        t.reject(name + " damaged", bytes(damaged), "TV-F005")
        t.equal(name + " to standard output", t.good("trace", "convert", name, "--to", "json" if option == "--trace" else "perfetto", "-o", "-"), plain)
    status, _, _ = t.call("trace", "convert", "p.json", "-o", "missing/x.json.zst")
    t.equal("no such folder", status, 3)
    t.write("keep.json.zst", "old")
    status, _, _ = t.call("trace", "convert", "strange.name.gone", "-o", "keep.json.zst")
    t.equal("a failed conversion leaves the old file", (status, t.read("keep.json.zst")), (2, "old"))


def a_negative_zero_is_written_as_zero(t):
    sample = {"cycle": 0, "window_cycles": 64, "dram_read_bytes": 8, "dram_write_bytes": -0.0, "stall_cycles": -0.0}
    t.write("zero.json", json.dumps(trace(event(), samples=[sample])))
    t.good("trace", "convert", "zero.json", "-o", "zero.1.json")
    t.good("trace", "convert", "zero.1.json", "-o", "zero.2.json")
    t.equal("the second conversion", t.read("zero.2.json"), t.read("zero.1.json"))
    t.check("no sign", "-0" in t.read("zero.1.json") and t.read("zero.1.json"))


def figures_have_no_exponents(t):
    for tokens, cycles, rate in ((7, 50420, "138834"), (1, 3, "333333333"), (1, 106952, "9350"), (2, 3000000000, "0.6667"), (9, 10000000000, "0.9")):
        step = dict(event("TOKEN_EVENT", op="decode", end=cycles, position=0, tokens=tokens), engine=None)
        t.write("step.json", json.dumps(trace(step, summary={"cycles_total": cycles, "engines": {}})))
        text = t.good("trace", "step.json").decode()
        t.check("%d tokens in %d cycles" % (tokens, cycles), ", %s tokens/s\n" % rate not in text and text)


def comparisons(t):
    def both(a, b, *options):
        t.write("a.json", json.dumps(a))
        t.write("b.json", json.dumps(b))
        status, out, err = t.call("trace", "diff", "a.json", "b.json", "--json", *options)
        return status, json.loads(out)["result"], err

    def summary(cycles, busy, held):
        return {"cycles_total": cycles, "engines": {"TE0": {"active_cycles": busy, "idle_cycles": cycles - busy - held, "stalled_cycles": {"dependency": held}}}}

    before = trace(event(layer="a", op="GEMM", end=40), event(layer="b", op="GEMM", start=40, end=60), event(op="COPY", start=70, end=80),
                   summary=summary(100, 70, 10), config={"npu.te": "2"})
    after = trace(event(layer="a", op="GEMM", end=30), event(layer="c", op="GEMM", start=30, end=35), event(op="COPY", start=70, end=80),
                  summary=summary(102, 45, 30), config={"npu.te": "4"})
    status, got, _ = both(before, after)
    t.equal("diff status", status, 0)
    t.equal("diff cycles", got["cycles"], {"before": 100, "after": 102, "change": 2, "percent": 2.0})
    rows = lambda key: [(r["name"], r["before"], r["after"]) for r in got[key]]
    t.equal("diff engines", rows("engines"), [("TE0 busy", 70, 45), ("TE0 stalled", 10, 30), ("TE0 idle", 20, 27)])
    t.equal("diff stall reasons", rows("stall_reasons"), [("dependency", 10, 30)])
    t.equal("diff layers", rows("layers"), [("b", 20, 0), ("a", 40, 30), ("c", 0, 5)])
    t.equal("diff classes", rows("ops"), [("GEMM", 60, 35)])
    t.equal("diff settings", got["settings"], {"npu.te": {"before": "2", "after": "4"}})
    for limit, want in (("2%", 0), ("1.99%", 1), ("1.9", 1), ("0", 1), ("50 %", 0)):
        status, got, err = both(before, after, "--fail-above", limit)
        t.equal("--fail-above " + limit, (status, got["failed"]), (want, bool(want)))
    t.equal("faster is never too slow", both(after, before, "--fail-above", "0")[0], 0)
    status, got, _ = both(before, before)
    t.equal("equal", (status, got["equal"], got["engines"]), (0, True, []))
    t.equal("equal in words", t.good("trace", "diff", "a.json", "b.json"), b"no difference: both take 100 cycles\n")
    other = copy.deepcopy(after)
    other["run_metadata"]["target"] = "pccx"
    status, got, err = both(before, other)
    t.equal("other machine", (status, "TV-T004" in err), (2, True))
    for arguments in (["diff", "a.json"], ["diff", "-", "-"], ["diff", "a.json", "b.json", "--fail-above", "x"], ["diff", "a.json", "b.json", "--fail-above", "-1"],
                      ["a.json", "b.json"], ["convert", "a.json"], ["convert", "a.json", "-o", "x.txt"], ["convert", "a.json", "-o", "a.json"],
                      ["convert", "a.json", "-o", "x", "--to", "xml"], ["a.json", "-o", "x.json"], ["a.json", "--fail-above", "1"], ["a.json", "-n", "x"],
                      ["a.json", "--report", "x.html"], ["diff", "a.json", "b.json", "--report", "b.json"], ["diff", "a.json", "b.json", "--report", "-"]):
        t.equal("wrong use: " + " ".join(arguments), t.call("trace", *arguments)[0], 2)
    t.equal("no such file", t.call("trace", "gone.json")[0], 2)
    t.equal("a folder", t.call("trace", ".")[0], 2)


def cycles_up_to_the_limit_are_read(t):
    for last in (2 ** 62 - 1, 2 ** 62 - 3, 4611686018427387899, 461168601842738790):
        t.write("late.json", json.dumps(trace(event(start=last - 1, end=last)), indent=1))
        t.good("trace", "convert", "late.json", "-o", "late2.json")
        with open(t.path("late2.json"), encoding="utf-8") as file:
            t.equal("it stays", json.load(file)["timeline_events"][0]["end_cycle"], last)


def damaged(t):
    """A complete trace is accepted; each of these is rejected."""
    whole = json.dumps(trace(event(bytes=3, file="a.s", line=1), event("STALL_EVENT", reason="raw", waits_for=0)))
    t.write("a.json", whole)
    t.good("trace", "a.json")
    for size in sample(range(len(whole) - 1), 4):
        t.reject("cut at %d" % size, whole[:size], "TV-T001")
    t.reject("more behind", whole + "x", "TV-T001")
    t.reject("another object", whole + "{}", "TV-T001")
    t.reject("a list", "[]", "TV-T002", (1, 1))
    t.reject("null", "null", "TV-T002")
    t.reject("nothing", "", "TV-T001", says="empty")
    t.reject("no trace", "{}", "TV-T002", says="no trace")
    t.reject("a queue", json.dumps({"metadata": {"version": "1.2"}, "cmdq": [{"opcode": "END"}]}), "TV-T002")
    t.reject("binary", bytes(range(256)), "TV-T001")
    t.reject("not UTF-8", whole.encode().replace(b'"A"', b'"\xff"'), "TV-T001")
    t.reject("overlong", whole.encode().replace(b'"A"', b'"\xc0\xaf"'), "TV-T001")
    t.reject("a NUL", whole.replace('"A"', '"a\\u0000b"'), "TV-T003")


def versions(t):
    """Files of version 1 have the same meaning with their old names; later versions are rejected."""
    new = trace(event(), event("STALL_EVENT", reason="raw", waits_for=0), summary={"cycles_total": 9, "bound_by": "TE0", "bottleneck": "bound by TE0",
                "engines": {"TE0": {"active_cycles": 4, "idle_cycles": 3, "stalled_cycles": {"raw": 2}}}})
    old = json.loads(json.dumps(new).replace('"reason"', '"cause"').replace("stalled_cycles", "held_cycles").replace('"bottleneck"', '"verdict"'))
    t.write("new.json", json.dumps(new))
    for version in ("1.0", "1.1", None):
        old["version"] = version
        t.write("old.json", json.dumps({k: v for k, v in old.items() if k != "version" or v}))
        t.equal("summary of version %s" % version, t.summary("old.json"), t.summary("new.json"))
        for name, form in (("old", "json"), ("old.perfetto", "perfetto")):
            t.good("trace", "convert", "old.json", "--to", form, "-o", name + ".2.json")
            t.good("trace", "convert", "new.json", "--to", form, "-o", "new.2.json")
            t.equal("version %s to %s" % (version, form), t.read(name + ".2.json"), t.read("new.2.json"))
    new["version"] = "2.17"
    t.write("minor.json", json.dumps(new))
    t.equal("a later minor version", t.summary("minor.json"), t.summary("new.json"))
    for version, code in (("3.0", "TV-T006"), ("10.2", "TV-T006"), ("x", "TV-T002"), ("2", "TV-T002"), ("", "TV-T002"), (2, "TV-T002"), (None, "TV-T002")):
        t.reject("version %r" % version, json.dumps(dict(new, version=version)), code, says="version")


def wrong_members(t):
    def one(name, change, code="TV-T002", says="", **options):
        file = trace(event(bytes=3), event("STALL_EVENT", reason="raw"))
        change(file)
        t.reject(name, json.dumps(file, indent=1), code, says=says, **options)

    def member(key, value):
        return lambda f: f["timeline_events"][0].__setitem__(key, value)

    def detail(key, value, which=0):
        return lambda f: f["timeline_events"][which]["details"].__setitem__(key, value)

    for key in ("start_cycle", "end_cycle", "engine_id"):
        for value in ("1", -1, 1.0, 1.5, None, True, [], {}, 2 ** 62, 10 ** 30):
            one("%s %r" % (key, value), member(key, value), says=key)
    for key in ("type", "engine", "op", "layer_id"):
        for value in (1, True, [], {}):
            one("%s %r" % (key, value), member(key, value), says=key)
    for key in ("type", "engine", "start_cycle", "end_cycle"):
        one("no " + key, lambda f, key=key: f["timeline_events"][0].pop(key), says=key)
    one("a kind that is none", member("type", "ENGINE"), says="'ENGINE'")
    one("ends before it starts", member("start_cycle", 5), says="5")
    one("details is a list", member("details", []), says="details")
    one("route", detail("route_in", "12"), says="route")
    one("route of words", detail("route_in", "0xzz"), says="route")
    one("bytes", detail("bytes", "3"), says="bytes")
    one("stall without reason", lambda f: f["timeline_events"][1]["details"].pop("reason"), says="reason")
    one("engine_id too large", member("engine_id", 1 << 17))
    for key, value in (("target", None), ("target", 1), ("clock_hz", 0), ("clock_hz", "1"), ("clock_hz", -1)):
        one("run_metadata %s %r" % (key, value), lambda f, key=key, value=value: f["run_metadata"].__setitem__(key, value))
    for part in ("run_metadata", "timeline_events", "summary_metrics"):
        one("no " + part, lambda f, part=part: f.pop(part))
    for part in ("run_metadata", "timeline_events", "summary_metrics", "config_snapshot", "bandwidth_samples"):
        for value in (1, "x", None, {} if part in ("timeline_events", "bandwidth_samples") else []):
            one("%s is %r" % (part, value), lambda f, part=part, value=value: f.__setitem__(part, value))
    for value in (1, [], {}, {"cycle": 1}, {"cycle": -1, "window_cycles": 1}, {"cycle": 1, "window_cycles": 1, "stall_cycles": "x"}):
        one("sample %r" % (value,), lambda f, value=value: f["bandwidth_samples"].append(value))
    text = json.dumps(trace(event()))
    t.reject("given twice", text.replace('"op": "A"', '"op": "A", "op": "B"'), "TV-T002", says="twice")
    t.reject("events given twice", text[:-1] + ', "timeline_events": []}', "TV-T002", says="twice")
    t.reject("the line is right", "{\n\n" + text[1:].replace('"start_cycle": 0', '\n"start_cycle":\n\n  "x"'), "TV-T002", (6, 5), says="start_cycle")
    chrome = {"run_metadata": trace()["run_metadata"], "traceEvents": [{"ph": "X", "name": "a", "cat": "ENGINE_EVENT", "pid": 1, "tid": 1, "ts": 0, "dur": 1, "args": {}}],
              "otherData": {}}
    t.reject("Chrome events of others", json.dumps(chrome), "TV-T002", says="start_cycle")
    t.reject("a Chrome trace of others", json.dumps({"traceEvents": []}), "TV-T002")


def hostile(t):
    head = json.dumps(trace())
    head = head[:head.index("[]", head.index("timeline_events")) + 1]
    one = json.dumps(event())
    t.reject("deep", head + one[:-1] + ', "x": ' + "[" * 5000, "TV-T003", says="deeper")
    t.reject("deep objects", '{"x": ' + '{"a":' * 100000, "TV-T003", says="deeper")
    t.reject("a long name", head + one.replace('"A"', '"' + "a" * 70000 + '"'), "TV-T003")
    t.reject("an endless string", head + one.replace('"A"', '"' + "a" * (40 << 20)), "TV-T003", says="without a value")
    t.reject("an endless number", head + one.replace('"start_cycle": 0', '"start_cycle": ' + "1" * (40 << 20)), "TV-T003")
    t.reject("a large part", '{"x": [' + "1," * (4 << 20), "TV-T003", says="larger")
    t.reject("many parts", "{" + ",".join('"x%d": 1' % i for i in range(100000)), "TV-T003", says="more than")
    t.reject("a large extra", head + one[:-1] + ', "x": [' + "1," * (4 << 20), "TV-T003", says="larger")
    t.reject("many extras", head + one[:-1] + "".join(', "x%d": 1' % i for i in range(400000)) + "}", "TV-T003", says="larger")
    t.reject("white space", head + " " * (20 << 20), "TV-T003", says="without a value")
    if is_left_out("many names"):
        return
    many = [event(op="op%d" % i, layer="l" * 200 + str(i), index=i, engine="E%d" % i) for i in range(150000)]
    t.write("many.json", json.dumps(trace(*many)))
    status, text, wrong = t.run_bounded(["trace", "many.json"])
    t.check("many names", wrong or (status and "exit status %s: %s" % (status, text[:200])))
    got = t.summary("many.json")
    t.equal("the rest is summed up", (len(got["ops"]), got["ops"][-1]["name"], sum(r["cycles"] for r in got["ops"])), (100000, "(others)", 150000))


def routes_are_those_of_the_instruction(t):
    """The routes in and out of pccx, section 5 of the instruction encoding, also where a direct FIFO replaces one."""
    t.write("routes.s", """        .target pccx
        memset  fmap_shape[0], 32, 1, 1
        memset  weight_shape[0], 1, 32, 32
        memcpy  l2[0], host[0], shape=0
        memcpy  l2[8], l2[0], shape=0
        wstream gemv, 0x1000, 4 * 512
        wstream gemm, 0x1000, 512
        gemv    l2[16], l2[0], size=1, shape=0
        gemv    fifo, l2[0], size=1, shape=0
        cvo.exp fifo, fifo, len=32
        gemv    fifo, fifo, size=1, shape=0
        cvo.exp l2[24], fifo, len=32
        gemv    l2[16], l2[0], size=1, shape=0
        cvo.exp l2[24], l2[16], len=32
        gemm    l2[32], l2[0], size=1, shape=0
        memcpy  host[0x4000], l2[0], shape=0
""")
    t.good("run", "routes.s", "-q", "--trace", "routes.json")
    events = [e for e in json.loads(t.read("routes.json"))["timeline_events"] if e["type"] == "ENGINE_EVENT"]
    got = [(e["op"], e["details"].get("route_in"), e["details"].get("route_out")) for e in sorted(events, key=lambda e: e["cmdq_id"])]
    gemv, exp = ("GEMV", "0x13", "0x31"), ("CVO_EXP", "0x14", "0x41")
    t.equal("routes", got, [("MEMCPY_LOAD", "0x01", None), ("MEMCPY_MOVE", "0x11", None), gemv, gemv, exp, gemv, exp, gemv, exp,
                            ("GEMM", "0x12", "0x21"), ("MEMCPY_STORE", "0x10", None)])


GROUPS = [routes_are_those_of_the_instruction, summaries_equal_statistics, conversions, unknown_members_stay, pipes_and_zstd, a_negative_zero_is_written_as_zero, figures_have_no_exponents, comparisons, cycles_up_to_the_limit_are_read, damaged, versions, wrong_members, hostile]


def main():
    t = Runner(parse_arguments(__doc__, "trivet"))
    t.run_tests(GROUPS, t)
    return t.finish()


if __name__ == "__main__":
    sys.exit(main())
