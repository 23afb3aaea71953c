#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of traces in Perfetto's packets.

    packets.py TRIVET [--sanitized] [-k WORD]

A file of packets has what the JSON trace has, so that conversions there and back give the same bytes; what viewers show
of it is compared with the JSON trace by a decoder of its own, with the numbers of Perfetto's reference. Damaged and
hostile files must be rejected, or read, in bounded time and memory.  tests/peers/perfetto.py asks Perfetto itself.
"""

import json
import os
import random
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from run import Runner, event, examples, trace  # noqa: E402
from suite import SAMPLE, is_left_out, parse_arguments, sample  # noqa: E402

# ---- Protocol Buffers


def number(value):
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + bytes([value]))


def field(name, value):
    """A field with a number, a text, or fields; a real number is one of 8 bytes."""
    if isinstance(value, int):
        return number(name << 3) + number(value)
    if isinstance(value, float):
        return number(name << 3 | 1) + struct.pack("<d", value)
    value = value.encode() if isinstance(value, str) else value
    return number(name << 3 | 2) + number(len(value)) + value


def read_number(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def fields(data):
    """Pairs of a number and a value: an int, or bytes."""
    at = 0
    while at < len(data):
        tag, at = read_number(data, at)
        kind, name = tag & 7, tag >> 3
        if kind == 0:
            value, at = read_number(data, at)
        elif kind == 1:
            value, at = data[at:at + 8], at + 8
        else:
            assert kind == 2, kind
            size, at = read_number(data, at)
            value, at = data[at:at + size], at + size
            assert len(value) == size
        yield name, value


def one(message, name, default=None):
    found = [v for n, v in fields(message) if n == name]
    assert len(found) <= 1
    return found[0] if found else default


# ---- Perfetto's messages

def decode(data):
    """Tracks by id, and the slices, instants and counters in the order of the file."""
    tracks, maps, out = {}, {}, []
    for name, packet in fields(data):
        assert name == 1 and one(packet, 10) == 1, "a packet of the one sequence"
        if one(packet, 13, 0) & 1:
            maps = {}
        interned = one(packet, 12, b"")
        for kind, entry in fields(interned):
            ids = maps.setdefault(kind, {})
            assert one(entry, 1) not in ids, "a number has one meaning until the state is cleared"
            ids[one(entry, 1)] = (one(entry, 2, b"").decode(), one(entry, 4))
        track = one(packet, 60)
        if track is not None:
            thread, process, counter = one(track, 4), one(track, 3), one(track, 8)
            described = thread and one(thread, 5) or process and one(process, 6) or one(track, 2)
            assert thread or process or counter
            tracks[one(track, 1)] = described.decode()
        e = one(packet, 11)
        if e is not None:
            out.append(decode_event(e, one(packet, 8), maps, one(packet, 13, 0)))
    return tracks, out


def decode_event(e, time, maps, flags):
    uses = [n for n, _ in fields(e) if n in (3, 10, 34)]
    assert not uses or flags & 2, "interned data are used"
    annotations = {}
    for a in [v for n, v in fields(e) if n == 4]:
        pairs = dict(fields(a))
        name = maps[3][pairs.pop(1)][0] if 1 in pairs else pairs.pop(10).decode()
        (kind, value), = pairs.items()
        annotations[name] = (maps[29][value][0] if kind == 17 else value.decode() if kind == 6 else json.loads(value) if kind == 9
                             else struct.unpack("<d", value)[0] if kind == 5 else value)
    named = one(e, 10)
    return {"type": one(e, 9), "track": one(e, 11), "time": time, "category": maps[1][one(e, 3)][0] if one(e, 3) else None,
            "name": maps[2][named][0] if named else one(e, 23, b"").decode() or None, "args": annotations,
            "source": maps[4][one(e, 34)] if one(e, 34) else None, "value": one(e, 44) and struct.unpack("<d", one(e, 44))[0]}


BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4


def slices(events):
    """What a viewer shows: (track, name, begin, end), of begins and ends in the order of time."""
    found, open_ones = [], {}
    for e in sorted((e for e in events if e["type"] in (BEGIN, END)), key=lambda e: e["time"]):
        stack = open_ones.setdefault(e["track"], [])
        if e["type"] == BEGIN:
            stack.append(e)
        else:
            begun = stack.pop()
            found.append((e["track"], begun["name"], begun["time"], e["time"]))
    assert not any(open_ones.values()), "each slice ends"
    return sorted(found, key=str)


# ---- Groups

def read(t, name):
    with open(t.path(name), "rb") as f:
        return f.read()


def conversions_lose_nothing(t):
    for name, arguments in examples(t):
        t.call("run", *arguments, "--no-hazards", "--trace", "a.json", "--perfetto", "a.pftrace")
        t.good("trace", "convert", "a.pftrace", "-o", "b.json")
        t.equal(name + " to JSON", read(t, "b.json"), read(t, "a.json"))
        t.good("trace", "convert", "a.json", "-o", "b.pftrace.zst")
        t.good("trace", "convert", "b.pftrace.zst", "--to", "pftrace", "-o", "c")
        t.equal(name + " from JSON", read(t, "c"), read(t, "a.pftrace"))
        t.equal(name + " summary", t.good("trace", "a.pftrace"), t.good("trace", "a.json"))
        for other in ("csv", "vcd", "perfetto"):
            t.equal("%s to %s" % (name, other), t.good("trace", "convert", "a.pftrace", "--to", other, "-o", "-"),
                    t.good("trace", "convert", "a.json", "--to", other, "-o", "-"))
        compare(t, name)


def compare(t, name):
    """What viewers show of a.pftrace against a.json."""
    whole = json.loads(read(t, "a.json"))
    tracks, events = decode(read(t, "a.pftrace"))
    ns = 1e9 / whole["run_metadata"]["clock_hz"]
    time = lambda cycle: int(cycle * ns + 0.5)
    ids = {v: k for k, v in tracks.items()}
    t.equal(name + " tracks", [n for n in whole["run_metadata"]["engines"] if n not in ids], [])
    lane = lambda e: e["engine"] if e["engine"] in ids else "%s%d" % (e["engine"], e["engine_id"])
    want = []
    for e in whole["timeline_events"]:
        if e["type"] in ("ENGINE_EVENT", "STALL_EVENT"):
            shown = e["op"] if e["type"] == "ENGINE_EVENT" else "stall: " + e["details"]["reason"]
            want.append((ids[lane(e)], shown, time(e["start_cycle"]), time(e["end_cycle"])))
    t.equal(name + " slices", slices(events), sorted(want, key=str))
    instants = [(e["category"], e["args"].get("instruction"), e["time"]) for e in events if e["type"] == INSTANT and e["category"] != "document"]
    t.equal(name + " instants", instants, [(e["type"], e["cmdq_id"], time(e["start_cycle"])) for e in whole["timeline_events"]
                                           if e["type"] in ("CMD_EVENT", "STAT_OUT", "MARKER_EVENT")])
    t.equal(name + " document", {e["name"]: e["args"][e["name"]] for e in events if e["category"] == "document"},
            {k: v for k, v in whole.items() if k not in ("timeline_events", "bandwidth_samples")})
    values = [(tracks[e["track"]], e["value"]) for e in events if e["type"] == COUNTER and e["args"]]
    t.equal(name + " counters", values, [("memory read", s["dram_read_bytes"] / s["window_cycles"]) for s in whole["bandwidth_samples"]])
    sources = {(e["source"][0], e["source"][1]) for e in events if e["source"]}
    t.equal(name + " sources", sources, {(e["details"]["file"], e["details"]["line"]) for e in whole["timeline_events"] if "file" in e["details"]})


def awkward_events_stay(t):
    """Long and strange texts, more texts and source lines than tables hold, kinds without engines, late cycles."""
    many = max(5000, 70000 // SAMPLE)
    awkward = 'a "quoted", \\ back/slash\n\u00e9\u4e2d\U0001f600'
    events = [event(index=3, layer=awkward, op=awkward, bytes=5, macs=2 ** 61, route_in="0x100", route_out="0x00ff", tensor_role="kv", op_mode="decode",
                    file=awkward, line=7),
              event("MARKER_EVENT", engine=None, index=None, op=awkward * 100), event("MARKER_EVENT", engine=None, index=None, op=None),
              event("TOKEN_EVENT", engine=None, op="decode", index=None, position=4, tokens=0, start=2, end=9),
              event("STALL_EVENT", op="A", index=5, reason=awkward), event("STALL_EVENT", op=None, index=5, reason="long " * 1000, waits_for=3),
              event("STALL_EVENT", index=None, reason="stall: twice"), event("STAT_OUT", op=None, start=5, end=5), event("STAT_OUT", op="x", start=5, end=7),
              event("CMD_EVENT", start=5, end=6), event("CMD_EVENT", start=5, end=5), event("CMD_EVENT", start=5, end=90), event(op="", layer="", file="", line=0),
              event(engine="VE", engine_id=65535, op="long" * 16000, start=2 ** 62 - 2, end=2 ** 62 - 1)]
    for e in events:
        e["details"].pop("position", None) if e["type"] != "TOKEN_EVENT" else None
    events[0]["details"]["route_out"] = "0xff"
    events += [event(engine="engine %d" % i, op="B", start=i, end=i + 2) for i in range(300)] + [event("MARKER_EVENT", engine=None, engine_id=3, index=None, op="m")]
    events += [event(engine="long" * 20 + str(i % 3), engine_id=i % 2, start=i, end=i + 1) for i in range(9)] + [event(engine="TE", engine_id=i % 2) for i in range(5)]
    events += [event("TOKEN_EVENT", engine=e, op="decode", index=None, position=i, tokens=1, start=i, end=i + 1) for i, e in enumerate(("TE", None, "TE"))]
    events += [event("STAT_OUT", engine=None, op=None, index=None, start=3, end=3), event(engine="")]
    events += [event(op="op %d" % (i % 1500), layer="layer %d" % (i % 700), file="file %d" % (i % 3), line=i, start=i, end=i + 1) for i in range(many)]
    samples = [{"cycle": 3, "window_cycles": 0, "dram_read_bytes": 1.5, "dram_write_bytes": 0, "stall_cycles": 0}] + [{"cycle": 64 * i, "window_cycles": 64, "dram_read_bytes": i / 3, "dram_write_bytes": 0.1, "stall_cycles": 12345678.9} for i in (1, 2, 5)] + [
               {"cycle": 1000 + 64 * i, "window_cycles": 64, "dram_read_bytes": i, "dram_write_bytes": 0, "stall_cycles": 0} for i in range(many)]
    file = trace(*events, samples=samples, summary={"cycles_total": 10, "engines": {}, "own": 1.25e-300}, note=[1, {"a": awkward}], other=None)
    t.write("a.json", json.dumps(file))
    t.good("trace", "convert", "a.json", "-o", "b.json")
    t.good("trace", "convert", "b.json", "-o", "a.pftrace")
    t.good("trace", "convert", "a.pftrace", "-o", "c.json")
    before, after = (json.loads(read(t, n)) for n in ("b.json", "c.json"))
    for i, (a, b) in enumerate(zip(before["timeline_events"], after["timeline_events"])):
        if a != b:
            t.equal("event %d" % i, b, a)
            break
    t.equal("there and back", read(t, "c.json"), read(t, "b.json"))
    decode(read(t, "a.pftrace"))


def live_texts_outlive_the_state(t):
    """Runs whose labels or layers fill the table of texts, so that the state is cleared again and again, each time before other instructions."""
    for target in ("pccx", "opennpu", "cmdq"):
        name = target + (".json" if target == "cmdq" else ".s")
        t.good("gen", "-q", target, "-n", "6000", "-o", name)
        program = read(t, name).decode()
        if target == "cmdq":
            queue = json.loads(program)
            queue["cmdq"] = [{**entry, "layer_id": "layer %d" % i} for i, entry in enumerate(queue["cmdq"])]
            t.write(name, json.dumps(queue))
        else:
            is_instruction = lambda line: line.startswith("        ") and line.strip()[0] != "."
            t.write(name, "".join("label%d: %s\n" % (i, line) if is_instruction(line) else line + "\n" for i, line in enumerate(program.splitlines())))
        trace, packets, chrome = ("live-%s.%s" % (target, form) for form in ("json", "pftrace", "perfetto"))
        for option, file in (("--trace", trace), ("--trace", packets), ("--perfetto", chrome)):
            status, _, text = t.call("run", "-q", name, "--no-hazards", option, file)  # warnings of deprecated entries
            t.equal("run of " + name, (status, " error: " in text), (0, False))
        t.good("trace", "convert", trace, "-o", "converted.pftrace")
        t.equal(target, read(t, packets), read(t, "converted.pftrace"))
        t.good("trace", "convert", trace, "--to", "perfetto", "-o", "converted.perfetto")
        t.equal(target + " as Chrome trace events", read(t, chrome), read(t, "converted.perfetto"))
        clears = sum(1 for _, packet in fields(read(t, packets)) if one(packet, 13, 0) & 1)
        t.check(target + " cleared", clears < 8 and "%d times" % clears)


def pipes_and_zstd(t):
    example = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "cmdq", "prefetch.json")
    t.good("run", "-q", example, "--trace", "p.pftrace")
    t.good("run", "-q", example, "--trace", "p.pftrace.zst")
    plain, packed, want = read(t, "p.pftrace"), read(t, "p.pftrace.zst"), t.good("trace", "p.pftrace")
    t.equal("is zstd", packed[:4], b"\x28\xb5\x2f\xfd")
    for title, data in (("zstd", packed), ("plain", plain)):
        t.equal(title + " from a pipe", t.good("trace", "-", data=data), want)
    t.write("strange.json", plain)
    t.equal("known by its contents", t.good("trace", "strange.json"), want)
    t.equal("no white space and no bracket", plain[0] == 10 and plain[1] not in b" \t\r\n{", True)
    t.equal("--perfetto too", (t.good("run", "-q", example, "--perfetto", "q.pftrace"), read(t, "q.pftrace")), (t.good("run", "-q", example, "--trace", "p.pftrace"), plain))


def rejected(t, name, data, codes, says=""):
    if is_left_out(name):
        return
    t.write("bad.pftrace", data)
    status, text, wrong = t.run_bounded(["trace", "bad.pftrace"])
    found = [line for line in text.splitlines() if " error: " in line]
    if not wrong and (status != 2 or len(found) != 1 or not any("[%s]" % c in found[0] for c in codes) or says not in found[0]):
        wrong = "exit status %s: %s" % (status, text[:300])
    t.check(name, wrong)


def small():
    """A trace by hand, and where each packet begins."""
    run = {"tool": "t", "target": "cmdq", "clock_hz": 1e9, "engines": ["TE0"]}
    member = lambda name, value: packet(event_of(3, 1, field(3, 9) + field(4, field(10, name) + field(9, json.dumps(value)))))
    interned = field(12, field(1, field(1, 1) + field(2, "ENGINE_EVENT")) + field(1, field(1, 9) + field(2, "document")) +
                     b"".join(field(3, field(1, i + 1) + field(2, n)) for i, n in enumerate(("engine", "start_cycle", "end_cycle", "engine_id", "instruction"))))
    return [field(1, field(10, 1) + field(13, 1) + field(87, 1)), packet(field(13, 1) + interned), member("run_metadata", run), member("config_snapshot", {}),
            packet(field(12, field(2, field(1, 4) + field(2, "A"))) + event_of(1, 101, field(3, 1) + field(10, 4) + annotation(1, 6, "TE") + annotation(2, 3, 1) + annotation(3, 3, 5))),
            packet(event_of(2, 101, b"")), member("summary_metrics", {"cycles_total": 10, "engines": {}})]


def packet(content):
    return field(1, field(8, 1) + field(10, 1) + content)


def event_of(kind, track, content):
    return field(11, field(9, kind) + field(11, track) + content)


def annotation(name, kind, value):
    return field(4, field(1, name) + field(kind, value))


def texts_are_utf8(t):
    """The name of a source that is not, as JSON has it."""
    name = t.path("").encode() + b"a\xe2\x82.json"
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "cmdq", "prefetch.json"), "rb") as f, open(name, "wb") as out:
        out.write(f.read())
    t.good("run", "-q", os.fsdecode(name), "--trace", "a.json")
    t.good("run", "-q", os.fsdecode(name), "--trace", "a.pftrace")
    t.good("trace", "convert", "a.pftrace", "-o", "b.json")
    t.equal("the same in JSON", read(t, "b.json"), read(t, "a.json"))
    t.check("replaced", b"a??.json" not in read(t, "b.json"))


def damaged(t):
    parts = small()
    whole = b"".join(parts)
    t.write("small.pftrace", whole)
    t.good("trace", "convert", "small.pftrace", "-o", "small.json")
    got = json.loads(read(t, "small.json"))["timeline_events"]
    t.equal("by hand", got, [event(index=None, start=1, end=5)])
    ends = {len(b"".join(parts[:i])) for i in range(len(parts) + 1)}
    for size in sample(range(2, len(whole)), 4):
        rejected(t, "cut at %d" % size, whole[:size], ("TV-T002",) if size in ends else ("TV-T007",))
    rejected(t, "more behind", whole + b"x", ("TV-T007",))
    rejected(t, "something else behind", whole + b"xx", ("TV-T007",))
    rejected(t, "no document", parts[0] + parts[1] + parts[4], ("TV-T002",), "does not name its machine")
    rejected(t, "no summary", b"".join(parts[:-1]), ("TV-T002",), "no summary")
    rejected(t, "twice", whole + parts[2], ("TV-T002",), "given twice")
    random.seed(1)
    for i in sample(range(400)):
        changed = bytearray(whole)
        for _ in range(random.randint(1, 3)):
            changed[random.randrange(2, len(changed))] = random.randrange(256)
        t.write("bad.pftrace", bytes(changed))
        status, text, wrong = t.run_bounded(["trace", "bad.pftrace"])
        t.check("change %d" % i, wrong or (status not in (0, 2) or (status == 2 and "error: " not in text)) and "exit status %s: %s" % (status, text[:300]))


def hostile(t):
    parts = small()
    head, tail, texts = b"".join(parts[:4]), parts[-1], parts[4]
    engine = lambda content: head + packet(event_of(1, 101, field(3, 1) + annotation(1, 6, "TE") + content)) + tail
    times = annotation(2, 3, 1) + annotation(3, 3, 5)
    t.write("good.pftrace", engine(times))
    t.good("trace", "good.pftrace")
    for name, data, code, says in (
            ("a packet of 2^60 bytes", head + field(1, b"")[:1] + number(2 ** 60), "TV-T003", "MiB"),
            ("a length of 11 bytes", head + b"\x0a" + b"\xff" * 11, "TV-T007", "ten bytes"),
            ("an id of 2^60", head + packet(field(12, field(2, field(1, 2 ** 60) + field(2, "x")))) + tail, "TV-T003", "interned"),
            ("a text of 70,000 bytes", head + packet(field(12, field(2, field(1, 1) + field(2, "x" * 70000)))) + tail, "TV-T003", "interned"),
            ("texts of 80 MB", head + b"".join(packet(field(12, field(2, field(1, i) + field(2, "x" * 65000)))) for i in range(1300)) + tail, "TV-T003", "interned"),
            ("a NUL", head + packet(field(12, field(2, field(1, 1) + field(2, "x\0y")))) + tail, "TV-T002", "NUL"),
            ("a NUL in an annotation", head + packet(event_of(1, 101, field(3, 1) + annotation(1, 6, "x\0") + times)) + tail, "TV-T003", "NUL"),
            ("an annotation twice", engine(times + annotation(1, 6, "x")), "TV-T002", "given twice"),
            ("a text that is not UTF-8", head + packet(event_of(1, 101, field(3, 1) + annotation(1, 6, b"a\xe2\x82A") + times)) + tail, "TV-T007", "UTF-8"),
            ("the last cycle", head + packet(event_of(3, 101, field(3, 2) + annotation(1, 6, "TE") + annotation(2, 3, 2 ** 62 - 1))) + tail, "TV-T002", ""),
            ("an event after the samples", head + packet(event_of(4, 2, annotation(2, 3, 1) + field(4, field(10, "window_cycles") + field(3, 64)))) + parts[4] + tail,
             "TV-T002", "after the bandwidth samples"),
            ("nothing at the end", head, "TV-T002", "the trace has no summary_metrics [TV-T002]"),
            ("no such category", head + packet(event_of(1, 101, field(3, 77))) + tail, "TV-T002", "no packet before defines"),
            ("no category", head + packet(event_of(1, 101, b"")) + tail, "TV-T002", "no category"),
            ("no such name", engine(times + field(10, 1000)), "TV-T002", "no packet before defines"),
            ("no such text", head + packet(event_of(1, 101, field(3, 1) + annotation(1, 17, 5) + times)) + tail, "TV-T002", "no packet before defines"),
            ("no times", engine(b""), "TV-T002", "start_cycle"),
            ("times in the wrong order", engine(annotation(2, 3, 5) + annotation(3, 3, 1)), "TV-T002", "from cycle 5 to 1"),
            ("2^62 cycles", engine(annotation(2, 3, 1) + annotation(3, 3, 2 ** 62)), "TV-T002", "whole number"),
            ("a real number of cycles", engine(annotation(2, 5, 1.0) + annotation(3, 3, 2)), "TV-T002", "whole number"),
            ("a number as a text", head + packet(event_of(1, 101, field(3, 1) + annotation(1, 3, 5) + times)) + tail, "TV-T002", "a text is expected"),
            ("an engine of 2^20", engine(times + annotation(4, 3, 2 ** 20)), "TV-T002", "engine_id"),
            ("no engine", head + packet(event_of(1, 101, field(3, 1) + times)) + tail, "TV-T002", "engine"),
            ("many annotations", engine(times + annotation(5, 3, 1) * 100), "TV-T003", "annotations"),
            ("a member that is not JSON", head + packet(event_of(3, 1, field(3, 9) + field(4, field(10, "note") + field(9, "{")))) + tail, "TV-T001", "note"),
            ("a member that is deep", head + packet(event_of(3, 1, field(3, 9) + field(4, field(10, "note") + field(9, "[" * 5000)))) + tail, "TV-T001", "note"),
            ("a member without a value", head + packet(event_of(3, 1, field(3, 9))) + tail, "TV-T002", "one value"),
            ("a list of events", head + packet(event_of(3, 1, field(3, 9) + field(4, field(10, "timeline_events") + field(9, "[]")))) + tail, "TV-T002", "not among packets"),
            ("a track of 2^40", head + packet(event_of(1, 2 ** 40, field(3, 1) + annotation(1, 6, "TE") + times)) + tail, "TV-T003", "track"),
            ("cleared", head + parts[0] + texts + tail, "TV-T002", "no packet before defines"),
            ("other tools' packets", parts[0] + packet(event_of(1, 7, field(22, "c") + field(23, "f"))), "TV-T002", "")):
        rejected(t, name, data, (code,), says)
    cleared = packet(field(13, 1) + field(12, field(2, field(1, 131071) + field(2, "x"))))
    rejected(t, "a state that is cleared often", parts[0] + cleared * 50000 + packet(event_of(1, 101, field(3, 1))), ("TV-T002",))
    engines = b"".join(packet(event_of(1, 100 + i, field(3, 1) + annotation(1, 17, 1) + times)) for i in range(30000))
    rejected(t, "a long engine on many tracks", head + packet(field(12, field(29, field(1, 1) + field(2, "x" * 65000)))) + engines + tail, ("TV-T003",))
    many = head + packet(event_of(1, 101, field(3, 1) + annotation(1, 6, "TE") + times)) * (200000 // SAMPLE) + tail
    t.write("many.pftrace", many)
    status, text, wrong = t.run_bounded(["trace", "many.pftrace"])
    t.check("many packets", wrong or (status and "exit status %s: %s" % (status, text[:200])))


def fields_come_in_any_order(t):
    """As other programs write them: by number; with fields that are not known."""
    parts = small()
    turned = [field(1, b"".join(field(n, v) for n, v in sorted(fields(one(p, 1)), key=lambda f: f[0]))) for p in parts]
    t.check("another order", turned[1] == parts[1])
    unknown = packet(event_of(1, 101, field(3, 1) + annotation(1, 6, "TE") + field(4, field(1, 2) + field(3, 1) + field(99, 7)) + annotation(3, 3, 5) + field(98, 1)))
    for name, data in (("by number", turned), ("unknown fields", parts[:4] + [unknown] + parts[-1:])):
        t.write("small.pftrace", b"".join(data))
        t.good("trace", "convert", "small.pftrace", "-o", "small.json")
        t.equal(name, len(json.loads(read(t, "small.json"))["timeline_events"]), 1)


def long_paths_stay_small(t):
    """Paths of sources are interned, and a file that is written can be read."""
    for length, ratio in ((72, 0.35), (2000, 1.0)):
        events = [event("CMD_EVENT", file="x" * length, line=i % 7, start=i, end=i + 1) for i in range(40000 // SAMPLE)]
        t.write("a.json", json.dumps(trace(*events)))
        t.good("trace", "convert", "a.json", "-o", "b.json")
        t.good("trace", "convert", "b.json", "-o", "a.pftrace")
        t.good("trace", "convert", "a.pftrace", "-o", "c.json")
        t.equal("a path of %d" % length, read(t, "c.json") == read(t, "b.json"), True)
        t.check("size with a path of %d" % length, len(read(t, "a.pftrace")) > ratio * len(read(t, "b.json")) and "%d" % len(read(t, "a.pftrace")))


def the_place_of_an_error_is_its_packet(t):
    parts = small()
    at = len(b"".join(parts[:4]))
    t.write("bad.pftrace", b"".join(parts[:4]) + packet(event_of(1, 101, b"")) + parts[-1])
    _, _, text = t.call("trace", "bad.pftrace")
    t.check("its byte", "in the packet at byte %d [TV-T002]" % at not in text and text)
    t.check("no line", not text.startswith("bad.pftrace: error: ") and text)


GROUPS = [conversions_lose_nothing, awkward_events_stay, live_texts_outlive_the_state, pipes_and_zstd, texts_are_utf8, damaged, hostile, fields_come_in_any_order, long_paths_stay_small, the_place_of_an_error_is_its_packet]


def main():
    t = Runner(parse_arguments(__doc__, "trivet"))
    t.run_tests(GROUPS, t)
    return t.finish()


if __name__ == "__main__":
    sys.exit(main())
