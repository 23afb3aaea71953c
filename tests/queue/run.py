#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Damaged, hostile and large queue files, and files written again.

    run.py TRIVET [--sanitized] [-k WORD]

Each damaged file must be rejected with the right code, at the right location, in
bounded time and memory.  -k runs the groups whose names hold WORD.  With
--sanitized the bounds are wider: a sanitizer takes more of both.
"""

import glob
import json
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from suite import SAMPLE, Suite, is_left_out, parse_arguments, sample  # noqa: E402

LINE = re.compile(r"(?P<file>[^:\n]+):(?:(?P<line>\d+):(?P<column>\d+):)? (?:instruction (?P<index>\d+): )?"
                  r"(?P<severity>error|warning|note): (?P<message>.*) \[(?P<code>TV-\w+)\]$")
META = '"metadata": {"version": "1.2"}'
LOAD = {"opcode": "DMA_LOAD_TILE", "tensor_role": "kv", "qbits": 8, "dram_addr": 0, "spm_bank": 0, "spm_offset": 0, "num_elements": 8}
GEMM = {"opcode": "TE_GEMM_TILE", "te_id": 0, "ifm_bank": 0, "ifm_offset": 0, "wgt_bank": 1, "wgt_offset": 0, "ofm_bank": 2, "ofm_offset": 0,
        "m": 2, "n": 2, "k": 2, "qbits_weight": 8, "qbits_activation": 8}
GELU = {"opcode": "VE_GELU_TILE", "ve_id": 0, "in_bank": 0, "in_offset": 0, "out_bank": 1, "out_offset": 0, "length": 4, "qbits_activation": 8}
KV_LOAD = {"opcode": "KV_LOAD_TILE", "head_id": 0, "kv_kind": "k", "spm_bank": 0, "spm_offset": 0, "qbits_kv": 8,
           "kv_range_desc": {"t_start": 0, "t_len": 1}}
NOP, END = {"opcode": "NOP"}, {"opcode": "END"}
BARRIER, GROUP = {"opcode": "BARRIER", "wait_for": []}, {"opcode": "SYNC_GROUP", "group": [], "name": "g"}


def entry(base, text=None, **fields):
    """An entry's text; `text` is put in as it is."""
    out = json.dumps(dict(base, **fields))
    return out if text is None else out[:-1] + ", " + text + "}"


def queue(*entries, meta=META, end=True):
    texts = [e if isinstance(e, str) else json.dumps(e) for e in entries] + ([json.dumps(END)] if end else [])
    return "{" + meta + ', "cmdq": [\n' + ",\n".join(texts) + "\n]}\n"


def as_lines(text):
    """The same queue as JSON Lines, where each entry has a line of its own."""
    rows = text.strip().splitlines()
    meta = re.search(r'"metadata": (.*), "cmdq": \[', rows[0]).group(1)
    return meta + "\n" + "\n".join(row.rstrip(",") for row in rows[1:-1]) + "\n"


class Runner(Suite):
    def __init__(self, options):
        super().__init__(options.trivet, options, (60, 1500) if options.sanitized else (5, 200))

    def look(self, data, command="check", file="q.json"):
        self.write(file, data)
        status, text, wrong = self.run_bounded([*([command] if isinstance(command, str) else command), "-t", "cmdq", file])
        found = [m.groupdict() for m in map(LINE.match, text.splitlines()) if m]
        return status, text, [d for d in found if d["severity"] == "error"], wrong

    def reject(self, name, data, codes, location=None, index=None, message="", status=2, **options):
        """`codes`: of the first error, one or several; `location`: (line, column) of it, column 0 for any. `data`: text, or a function
        that makes a long one."""
        if is_left_out(name):
            return
        got, text, errors, wrong = self.look(data() if callable(data) else data, **options)
        codes = (codes,) if isinstance(codes, str) else codes
        first = errors[0] if errors else None
        if not wrong and got != status:
            wrong = "exit status %s: %s" % (got, text[:300])
        elif not wrong and (not first or first["code"] not in codes):
            wrong = "no %s first: %s" % ("/".join(codes), text[:300])
        elif not wrong and location and (int(first["line"] or 0), int(first["column"] or 0) if location[1] else 0) != location:
            wrong = "at %s:%s, expected %d:%d" % (first["line"], first["column"], *location)
        elif not wrong and index is not None and first["index"] != str(index):
            wrong = "instruction %s, expected %d: %s" % (first["index"], index, text[:200])
        elif not wrong and message not in text:
            wrong = "no %r in: %s" % (message, text[:300])
        self.check(name, wrong)

    def accept(self, name, data, message="", **options):
        if is_left_out(name):
            return
        status, text, errors, wrong = self.look(data, **options)
        if not wrong and (status != 0 or message not in text):
            wrong = "exit status %s: %s" % (status, text[:300])
        self.check(name, wrong)


# ---- Groups


def truncated(t):
    """Every proper prefix is rejected."""
    text = queue(entry(NOP, layer_id="l\u00e9", debug={"a": [1.5, True]}), entry(BARRIER, wait_for=[0]),
                 entry(GELU, scale_in=0.5), meta='"metadata": {"version": "1.2", "outputs": []}')
    for name, data in (("q.json", text.encode()), ("q.jsonl", as_lines(text).encode())):
        for size in sample(range(len(data.rstrip())), 4):
            t.reject("%s cut at %d" % (name, size), data[:size], ("TV-Q001", "TV-Q002", "TV-Q004", "TV-Q020"), file=name)


WRONG = {  # TYPE: (value, codes)
    "INTEGER": [(v, "Q014") for v in ('"1"', "1.0", "16.0", "1e0", "1e999", "true", "null", "[]", "[1]", "{}", '{"a": 1}')]
    + [(v, "Q015") for v in ("-1", str(2 ** 63), str(2 ** 64), "-" + str(2 ** 64), "9" * 400, "9" * 4000)],
    "REAL": [(v, "Q014") for v in ('"1"', "true", "null", "[1]", "{}")] + [(v, "Q015") for v in ("1e999", "-1e999", "9" * 400)],
    "BOOLEAN": [(v, "Q014") for v in ("0", "1", '"true"', "null", "[]", "{}")],
    "WORD": [(v, "Q014") for v in ("0", "null", "true", "[]", "{}")] + [(v, "Q015") for v in ('"nonsense"', '""', '"K"')],
    "TEXT": [(v, "Q014") for v in ("0", "1.5", "true", "[]", "{}")] + [('"%s"' % ("x" * 5000), "Q015"), ('"a\\u0000b"', "Q015")],
    "LAYER": [(v, "Q014") for v in ("1.5", "1e0", "9223372036854775808", "true", "[]", "{}")],
    "IDS": [(v, "Q014") for v in ("0", '"0"', "null", "true", "{}", '["0"]', "[1.5]", "[0.0]", "[null]", "[true]", "[[0]]", '[{"a": 0}]',
                                  "[1e999]")] + [("[-1]", "Q015")],
    "OBJECT": [('"@1000"', "Q015")] + [(v, "Q014") for v in ("0", "null", "true", "[]", "[[]]")],
}
FIELDS = [("INTEGER", LOAD, ("spm_bank", "dram_addr", "num_elements", "row_elements", "dma_id")), ("INTEGER", GEMM, ("m", "wgt_group")),
          ("REAL", GEMM, ("scale_ifm", "scale_ofm")), ("BOOLEAN", GEMM, ("accumulate",)), ("WORD", GELU, ("approximation",)),
          ("WORD", KV_LOAD, ("kv_kind",)), ("WORD", LOAD, ("tensor_role",)), ("TEXT", NOP, ("wait_group",)), ("LAYER", NOP, ("layer_id",)), ("TEXT", GROUP, ("name",)),
          ("IDS", NOP, ("deps_before", "deps_after")), ("IDS", BARRIER, ("wait_for",)), ("IDS", GROUP, ("group",)),
          ("OBJECT", KV_LOAD, ("kv_range_desc",))]


def damaged_field(base, field, value):
    rest = {k: v for k, v in base.items() if k != field}
    return entry(rest, '"%s": %s' % (field, value))


def wrong_types(t):
    """Each entry has one wrong field, and each is reported with its number."""
    for kind, base, fields in FIELDS:
        for field in fields:
            cases = WRONG[kind]
            text = queue(*(damaged_field(base, field, value) for value, _ in cases))
            for name, data in (("q.json", text), ("q.jsonl", as_lines(text))):
                status, out, errors, wrong = t.look(data, file=name)
                first = {}
                for d in errors:
                    first.setdefault(d["index"], d["code"])
                for i, (value, code) in enumerate(cases):
                    if not wrong and first.get(str(i)) != "TV-" + code:
                        wrong = "%s gives %s, expected %s" % (value[:40], first.get(str(i)), code)
                t.check("%s %s, %s" % (base["opcode"], field, name), wrong or (status != 2 and "exit status %s" % status))
    for value in ("3", "5", "7", "64", "0"):
        t.reject("qbits " + value, queue(damaged_field(LOAD, "qbits", value)), "TV-Q015", index=0, message="2, 4, 8, 16 or 32")
    for member in ('"t_start": 0', '"t_start": 0, "t_len": 1, "t_lne": 2', '"t_start": 0, "t_len": 1.0', '"t_start": 0, "t_len": 1, "t_len": 1',
                   '"t_start": 0, "t_len": {}'):
        t.reject("kv_range_desc " + member, queue(damaged_field(KV_LOAD, "kv_range_desc", "{%s}" % member)),
                 ("TV-Q011", "TV-Q012", "TV-Q013", "TV-Q014"), index=0)


def fields(t):
    t.reject("unknown field", queue(NOP, entry(LOAD, '"spm_bnak": 0')), "TV-Q011", index=1, message="did you mean 'spm_bank'?")
    t.reject("field of another opcode", queue(entry(NOP, '"spm_bank": 0')), "TV-Q011", index=0)
    t.reject("unknown opcode", queue({"opcode": "TE_GEM_TILE"}), "TV-Q010", index=0, message="did you mean 'TE_GEMM_TILE'?")
    t.reject("empty opcode", queue({"opcode": ""}), "TV-Q010", index=0)
    t.reject("no opcode", queue({"layer_id": "x"}), "TV-Q012", index=0)
    t.reject("opcode is a number", queue({"opcode": 48}), "TV-Q014", index=0)
    t.reject("empty entry", queue(NOP, {}), "TV-Q012", index=1)
    for field in sorted(set(GEMM) - {"opcode"}):
        t.reject("GEMM without " + field, queue({k: v for k, v in GEMM.items() if k != field}), "TV-Q012", index=0, message="'%s'" % field)
    t.reject("a field twice", queue(entry(LOAD, '"spm_bank": 1')), "TV-Q013", index=0)
    t.reject("a list twice", queue(entry(NOP, '"deps_before": [], "deps_before": []')), "TV-Q013", index=0)
    t.reject("opcode twice", queue('{"opcode": "NOP", "opcode": "END"}', end=False), "TV-Q013", index=0)
    t.reject("half a pair", queue(entry(GEMM, bias_bank=3)), "TV-Q016", index=0, message="bias_offset")
    t.reject("groups without scales", queue(entry(GEMM, wgt_group=2)), "TV-Q016", index=0)
    t.reject("stride without rows", queue(entry(LOAD, stride_bytes=64)), "TV-Q016", index=0)
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "wrong_fields.json")) as f:
        t.reject("every field of the set in one entry", f.read(), ("TV-Q014", "TV-Q011"), index=0)
    t.accept("reserved fields and debug", queue(entry(NOP, '"reserved_x": {"opcode": [1e999]}, "debug": null, "reserved_": ""')))


def ids(t):
    t.accept("ids are the positions", queue(entry(NOP, id=0), NOP, entry(NOP, id=2)))
    for name, values in (("out of order", (1, 0)), ("given twice", (0, 0)), ("left out", (0, 2)), ("huge", (0, 2 ** 32 + 1))):
        t.reject("ids " + name, queue(*(entry(NOP, id=i) for i in values)), ("TV-Q017", "TV-Q015"))
    t.reject("negative id", queue(entry(NOP, id=-1)), ("TV-Q017", "TV-Q015"), index=0)
    for field in ("deps_before", "deps_after"):
        t.reject(field + " of no entry", queue(NOP, entry(NOP, **{field: [3]})), "TV-Q018", index=1, message="3")
        t.reject(field + " far away", queue(NOP, entry(NOP, **{field: [2 ** 32 - 2]})), "TV-Q018", index=1)
        t.reject(field + " too far away", queue(NOP, entry(NOP, **{field: [2 ** 40]})), ("TV-Q014", "TV-Q015", "TV-Q018"), index=1)
        t.reject(field + " of itself", queue(NOP, entry(NOP, **{field: [1]})), "TV-Q018", index=1, message="itself")
    t.reject("wait_for of itself", queue(entry(BARRIER, wait_for=[0])), "TV-Q018", index=0)
    t.reject("group of itself", queue(entry(GROUP, group=[0])), "TV-Q018", index=0)
    t.reject("no such group", queue(GROUP, entry(NOP, wait_group="h")), "TV-Q018", index=1, message="'h'")
    t.reject("a group of a later entry", queue(entry(NOP, wait_group="g"), GROUP), "TV-Q018", index=0)
    t.reject("two groups of one name", queue(GROUP, GROUP), "TV-Q016", index=1)
    t.reject("empty name of a group", queue(entry(GROUP, name="")), ("TV-Q015", "TV-Q016"), index=0)


def cycles(t):
    def cycle(name, *entries, message=(), **options):
        for lines in (False, True):
            text = queue(*entries)
            t.reject("cycle %s%s" % (name, " in lines" * lines), as_lines(text) if lines else text, "TV-Q019", file="q.jsonl" if lines else "q.json",
                     message=message or "wait for each other", **options)
    cycle("of two", entry(NOP, deps_before=[1]), entry(NOP, deps_before=[0]), message="0 (NOP) waits for 1, 1 (NOP) waits for 0")
    cycle("of two, after", entry(NOP, deps_after=[1]), entry(NOP, deps_after=[0]))
    cycle("of three", entry(NOP, deps_before=[2]), entry(NOP, deps_before=[0]), entry(NOP, deps_before=[1]), message="2 (NOP) waits for 1")
    cycle("through a barrier", entry(NOP, deps_before=[2]), entry(BARRIER, wait_for=[0]), NOP)
    cycle("of a barrier with what follows", entry(BARRIER, wait_for=[1]), NOP)
    cycle("through a group", entry(NOP, deps_before=[2]), entry(GROUP, group=[0]), entry(NOP, wait_group="g"))
    cycle("through END", entry(NOP, deps_before=[1]), message="END waits for every entry")
    cycle("of a group with END", entry(GROUP, group=[1]), message="END waits for every entry")
    cycle("through queue order", entry(LOAD, deps_before=[1]), LOAD, status=1)
    cycle("through queue order and a dependency", entry(LOAD, deps_before=[1]), entry(NOP, deps_before=[2]), LOAD, status=1)
    long_cycle = queue(*(entry(NOP, deps_before=[(i + 1) % 20000]) for i in range(20000)))
    t.reject("cycle of 20000", long_cycle, "TV-Q019")
    t.reject("cycle of 20000 in a run", long_cycle, "TV-Q019", command="run")


def ends(t):
    t.reject("no END", queue(NOP, end=False), "TV-Q020", index=0)
    t.reject("two ENDs", queue(NOP, END), "TV-Q020", index=1)
    t.reject("entries after END", queue(END, NOP, end=False), "TV-Q020", index=0)
    t.reject("END first and last", queue(END, NOP), "TV-Q020", index=0)
    t.reject("no entries", queue(end=False), "TV-Q020")
    t.reject("no entries in lines", '{"version": "1.2"}\n', ("TV-Q020", "TV-Q002"), file="q.jsonl")


def versions(t):
    for version, code in (('"2.0"', "Q003"), ('"0.9"', "Q003"), ('"x"', "Q003"), ('"1"', "Q003"), ('"1."', "Q003"), ('"1.1.1"', "Q003"),
                          ('"1.1 "', "Q003"),
                          ('" 1.1"', "Q003"), ('"1. 1"', "Q003"), ('"1.-1"', "Q003"), ('"+1.1"', "Q003"), ('""', "Q003"), ("1.2", "Q003"),
                          ("null", "Q003"),
                          ('"1.99999999999999999999"', "Q003")):
        text = queue(NOP, meta='"metadata": {"version": %s}' % version)
        t.reject("version " + version, text, "TV-" + code, location=(1, 15))
        t.reject("version %s in lines" % version, as_lines(text), "TV-" + code, location=(1, 2), file="q.jsonl")
    t.reject("no version", queue(NOP, meta='"metadata": {}'), "TV-Q003")
    for version in ("1.0", "1.1", "1.2"):
        t.accept("version " + version, queue(NOP, meta='"metadata": {"version": "%s"}' % version))
    t.accept("version 1.9 warns", queue(NOP, meta='"metadata": {"version": "1.9"}'), message="[TV-Q042]")


def metadata(t):
    def wrong(name, body, code="TV-Q004", **options):
        text = queue(NOP, meta='"metadata": {"version": "1.2", %s}' % body)
        t.reject("metadata: " + name, text, code, **options)
        t.reject("metadata in lines: " + name, as_lines(text), code, file="q.jsonl", **options)
    init = '"dram_init": [{"addr": %s}]'
    os.makedirs(os.path.join(t.folder, "inside"), exist_ok=True)
    t.write("inside/data.bin", b"12345678")
    outside = tempfile.NamedTemporaryFile(prefix="trivet-outside-")
    outside.write(b"12345678")
    outside.flush()
    os.symlink(outside.name, os.path.join(t.folder, "link.bin"))
    os.symlink(os.path.dirname(outside.name), os.path.join(t.folder, "folder"))
    t.accept("a file in a folder below", queue(NOP, meta='"metadata": {"version": "1.2", %s}' % (init % '0, "file": "inside/../inside/data.bin"')))
    upward = "../" + os.path.basename(outside.name)
    for path in (upward, "inside/../" + upward, "/etc/passwd", "//etc/passwd", outside.name, "link.bin", "folder/" + os.path.basename(outside.name),
                 ".."):
        wrong("path " + path, init % ('0, "file": "%s"' % path), "TV-Q005")
    wrong("no such file", init % '0, "file": "inside/none.bin"')
    wrong("no such file above", init % '0, "file": "../no-such-trivet-file.bin"', ("TV-Q004", "TV-Q005"))
    wrong("a folder as a file", init % '0, "file": "inside"', ("TV-Q004", "TV-F001", "TV-Q005", "TV-IO01", "TV-F002"))
    for value in ("-1", "1.0", "1e3", '"0"', "null", "true", "[]", str(2 ** 63), "1e999", "9" * 400):
        wrong("addr " + value[:20], init % (value + ', "hex": "00"'))
    for body in ('0, "hex": "0"', '0, "hex": "0g"', '0, "hex": 1', '0, "zero": true', '0, "zero": false, "bytes": 1', '0, "zero": 1, "bytes": 1', "0",
                 '0, "hex": "00", "zero": true, "bytes": 1', '0, "hex": "00", "bytes": 2', '0, "hex": "00", "bytes": -1', '0, "hex": "00", "byte": 1',
                 '0, "hex": "00", "addr": 1'):
        wrong("dram_init " + body, init % body)
    for body in ('"dram_init": {}', '"dram_init": 1', '"dram_init": [1]', '"dram_init": [[]]', '"dram_init": [null]', '"dram_inti": []',
                 '"spm_init": [{"addr": 0}]',
                 '"outputs": [{"name": "a/b", "dram_addr": 0, "num_elements": 1, "qbits": 8}]',
                 '"outputs": [{"name": "", "dram_addr": 0, "num_elements": 1, "qbits": 8}]',
                 '"outputs": [{"name": "a", "dram_addr": 0, "num_elements": 1, "qbits": 3}]', '"outputs": [{}]',
                 '"kv_layouts": [{"id": 0, "k_base": 0, "v_base": 0, "t_max": 1, "d_head": 1}]',
                 '"kv_layouts": [%s, %s]' % ((json.dumps({"id": 0, "k_base": 0, "v_base": 0, "t_max": 1, "d_head": 1, "heads": 1}),) * 2),
                 '"kv_layouts": [{"id": 0, "other": 1}]', '"kv_ranges": [{"name": "r", "other": 1}]', '"kv_ranges": [1]',
                 '"kv_ranges": [{"t_start": 0, "t_len": 1}]', '"kv_ranges": [{"name": "", "t_start": 0, "t_len": 1}]',
                 '"kv_ranges": [{"name": 1, "t_start": 0, "t_len": 1}]', '"kv_ranges": [{"name": "r", "t_start": 0, "t_len": 0}]',
                 '"kv_ranges": [{"name": "r", "t_start": 0, "t_len": 1, "d_len": 0}]',
                 '"kv_ranges": [{"name": "r", "t_start": -1, "t_len": 1}]', '"kv_ranges": [{"name": "r", "t_start": 0, "t_len": 16777217}]',
                 '"kv_ranges": [%s, %s]' % ((json.dumps({"name": "r", "t_start": 0, "t_len": 1}),) * 2),
                 '"outputs": [%s, %s]' % ((json.dumps({"name": "y", "dram_addr": 0, "num_elements": 1, "qbits": 8}),) * 2),
                 '"outputs": [{"name": "y", "dram_addr": 0, "num_elements": 1, "qbits": 8, "other": 1}]',
                 '"graph_name": 1', '"generated_by": []', '"created_at": {}', '"continues": 1', '"continues": "true"',
                 '"version": "1.2"', '"debug": "a\\u0000b"'):
        wrong(body[:60], body)
    for key, element in (("kv_layouts", '{"id": %d, "k_base": 0, "v_base": 0, "t_max": 1, "d_head": 1, "heads": 1}'),
                         ("kv_ranges", '{"name": "r%d", "t_start": 0, "t_len": 1}'),
                         ("outputs", '{"name": "y%d", "dram_addr": 0, "num_elements": 1, "qbits": 8}')):
        wrong("too many " + key, '"%s": [%s]' % (key, ", ".join(element % i for i in range(4097))), "TV-Q006")
    wrong("past DRAM", init % (str(2 ** 34) + ', "hex": "00"'), "TV-Q032", status=1)
    wrong("huge zeros", init % ('0, "zero": true, "bytes": %d' % (2 ** 63 - 1)), "TV-Q032", status=1)
    wrong("no such bank", '"spm_init": [{"bank": 8, "offset": 0, "hex": "00"}]', "TV-Q031", status=1)
    wrong("past its bank", '"spm_init": [{"bank": 7, "offset": 262143, "hex": "0000"}]', "TV-Q031", status=1)


def structure(t):
    text = queue(NOP)
    for name, data, codes in (
            ("nothing", "", ("TV-Q001", "TV-Q002")), ("white space", " \n\t\r\n ", ("TV-Q001", "TV-Q002")), ("null", "null", "TV-Q002"),
            ("a number", "1", "TV-Q002"),
            ("a list", "[]", "TV-Q002"), ("a list of entries", json.dumps([NOP, END]), "TV-Q002"), ("an empty object", "{}", ("TV-Q002", "TV-Q003")),
            ("no entries", "{" + META + "}", "TV-Q002"),
            ("metadata is a list", text.replace('{"version": "1.2"}', "[]"), "TV-Q002"),
            ("metadata is a string", text.replace('{"version": "1.2"}', '""'), "TV-Q002"),
            ("entries are an object", "{" + META + ', "cmdq": {"opcode": "END"}}', "TV-Q002"), ("an entry is a list", queue("[]"), "TV-Q002"),
            ("an entry is a number", queue("7"), "TV-Q002"), ("an entry is a string", queue('"NOP"'), "TV-Q002"),
            ("metadata twice", "{" + META + "," + text[1:], "TV-Q002"),
            ("entries twice", text.rstrip()[:-1] + ', "cmdq": []}', "TV-Q002"),
            ("a trace", '{"version": "1", "run_metadata": {}, "timeline_events": []}', "TV-Q002"), ("a Chrome trace", '{"traceEvents": []}', "TV-Q002"),
            ("a misspelt list", "{" + META + ', "cmdp": []}', "TV-Q002"),
            ("two documents", text + text, "TV-Q002"), ("two documents in a line", text.strip() + text, "TV-Q002"),
            ("a number behind", text + "1", "TV-Q002"),
            ("garbage behind", text + "garbage", ("TV-Q001", "TV-Q002")), ("a bracket behind", text + "]", ("TV-Q001", "TV-Q002")),
            ("a comment", "/* queue */" + text, "TV-Q001"), ("a comma too many", text.replace("}\n]", "},\n]"), "TV-Q001"),
            ("a comma too few", text.replace("},", "}"), "TV-Q001"), ("single quotes", text.replace('"', "'"), "TV-Q001"),
            ("NaN", queue('{"opcode": NaN}'), "TV-Q001"),
            ("a leading zero", queue(damaged_field(LOAD, "spm_bank", "00")), "TV-Q001"),
            ("a plus", queue(damaged_field(LOAD, "spm_bank", "+1")), "TV-Q001"),
            ("hexadecimal", queue(damaged_field(LOAD, "spm_bank", "0x10")), "TV-Q001"), ("a wrong escape", queue(r'{"opcode": "NO\P"}'), "TV-Q001"),
            ("a raw newline in a string", queue('{"opcode": "NO\nP"}'), "TV-Q001")):
        t.reject("structure: " + name, data, codes)
    lines = as_lines(text)
    for name, data, codes in (
            ("metadata twice", lines.replace("\n", '\n{"version": "1.2"}\n', 1), ("TV-Q011", "TV-Q012")),
            ("an entry is a list", lines + "[]", "TV-Q002"),
            ("an entry is a number", lines.replace("\n", "\n5\n", 1), "TV-Q002"),
            ("a whole queue behind", lines + text.replace("\n", ""), ("TV-Q011", "TV-Q012")),
            ("garbage behind", lines + "}", ("TV-Q001", "TV-Q002"))):
        t.reject("structure in lines: " + name, data, codes, file="q.jsonl")


def syntax(t):
    """The usual errors are named, at the byte that a person would point at."""
    text = lambda value: '{"cmdq": [\n{"opcode": "NOP", "debug": %s},\n{"opcode": "END"}]}' % value
    for value, message in (("NaN", "JSON has no NaN"), ("Infinity", "JSON has no infinity"), ("-Infinity", "JSON has no infinity"),
                           ("True", "in lower case"), ("None", "JSON writes null"), ("'x'", "double quotation marks"), ("/* x */ 1", "no comments"),
                           ("# x", "no comments")):
        t.reject("syntax: " + value, text(value), "TV-Q001", location=(2, 28), message=message)
    t.reject("syntax: a comma in an object", '{"cmdq": [\n{"opcode": "NOP" , },\n{"opcode": "END"}]}', "TV-Q001", location=(2, 18), message="remove the comma")
    t.reject("syntax: a comma in a list", '{"cmdq": [\n{"opcode": "END"},\n ]}', "TV-Q001", location=(2, 18), message="remove the comma")
    t.reject("syntax: a byte order mark", "\ufeff" + text("1"), "TV-Q001", location=(1, 1), message="byte order mark")
    t.reject("syntax: single quotes", "{'cmdq': []}", "TV-Q001", location=(1, 2), message="double quotation marks")
    for value, column, message in (("+1", 28, "begin with a digit or '-'"), (".5", 28, "write 0 before the point"), ("01", 28, "no leading zeros"),
                                   ("0x10", 29, "decimal"), ("undefined", 28, "values are objects"), ("\u201cx\u201d", 28, "typographic"),
                                   ('"a\tb"', 30, "no control characters"), ('[1 "x"]', 31, "a comma is missing"),
                                   ('{"a": 1 "\\"b": 2}', 36, "a comma is missing"), ("{a: 1}", 29, "keys of JSON"), ('{"a" 1}', 33, "a colon is missing"),
                                   ('{"a" = 1}', 33, "replace the = by :"), ("[1; 2]", 30, "replace the ; by ,"), ("[1,]", 30, "remove the comma")):
        t.reject("syntax: " + value, text(value), "TV-Q001", location=(2, column), message=message)
        t.reject("syntax in the metadata: " + value, '{"metadata": {"version": "1.2",\n"debug": %s}}' % value, "TV-Q001", location=(2, column - 18),
                 message=message)


def source_lines(t):
    """An error shows its line, and marks the key or the entry that it is about."""
    def shown(name, data, line, marks, file="q.json", command="check"):
        _, text, _, wrong = t.look(data, file=file, command=command)
        rows = [row.split("| ", 1)[1] for row in text.splitlines() if re.match(r" *\d* \| ", row)]
        t.check("source line: " + name, wrong or (rows[:2] != [line, marks] and text[:400]))
    row = lambda key: " " * queue(key).splitlines()[1].index('"x') + "^"
    for name, base, key, value in (
            ("a type", LOAD, "spm_bank", "x"), ("a range", GEMM, "m", 0), ("an engine", GEMM, "te_id", 5), ("a bank", LOAD, "spm_bank", 99),
            ("past the bank", LOAD, "spm_offset", 2 ** 30), ("past DRAM", LOAD, "dram_addr", 2 ** 40), ("a missing entry", NOP, "deps_before", [9]),
            ("a missing group", NOP, "wait_group", "g"), ("half a pair", GEMM, "bias_bank", 3), ("rows", dict(LOAD, stride_bytes=64), "row_elements", 3),
            ("a layout", KV_LOAD, "kv_layout_id", 7), ("a range of the file", KV_LOAD, "kv_range_desc", "r")):
        text = json.dumps(dict(base, **{key: value}))
        at = text.index('"%s"' % key)
        if name == "rows":
            at = text.index('"num_elements"')
            key = "num_elements"
        for lines in (False, True):
            data = queue(NOP, text)
            data, file, number = (as_lines(data), "q.jsonl", 2) if lines else (data, "q.json", 2)
            line = data.splitlines()[number]
            shown(name + ", " + file, data, line, " " * at + "^" + "~" * (len(key) + 1), file=file)
    member = dict(KV_LOAD, kv_range_desc={"t_start": 5, "t_len": 1})
    layout = '"metadata": {"version": "1.2", "kv_layouts": [{"id": 0, "k_base": 0, "v_base": 0, "t_max": 4, "d_head": 8, "heads": 1}]}'
    text = json.dumps(member)
    shown("a member of the range", queue(text, meta=layout), text + ",", " " * text.index('"t_start"') + "^~~~~~~~~")
    text = json.dumps(LOAD)
    shown("a missing field", queue({"opcode": "TE_GEMM_TILE"}), '{"opcode": "TE_GEMM_TILE"},', "^")
    shown("a finding", queue(text), text + ",", "^")
    shown("a hazard of a run", queue(entry(LOAD, dma_id=0), entry(LOAD, dma_id=1)),
          entry(LOAD, dma_id=1) + ",", "^", command=["run", "-D", "dma.count=2"])
    lines = json.dumps(dict(LOAD, dma_id=1, deps_before=[]), indent=2)
    shown("a finding in an entry of several lines", queue(lines.replace("\"dma_id\": 1", "\"dma_id\": 0")), '  "opcode": "DMA_LOAD_TILE",', "  ^~~~~~~~")
    shown("a hazard in an entry of several lines", queue(entry(LOAD, dma_id=0), lines), '  "deps_before": []', "  ^~~~~~~~~~~~~",
          command=["run", "-D", "dma.count=2"])
    shown("a hazard of an entry of several lines without dependencies", queue(entry(LOAD, dma_id=0), lines.replace(',\n  "deps_before": []', "")),
          '  "opcode": "DMA_LOAD_TILE",', "  ^~~~~~~~", command=["run", "-D", "dma.count=2"])
    shown("the metadata", queue(NOP, meta='"metadata": {"version": "1.2",\n  "outputs": [{"name": 1, "bytes": 4}]}'),
          '  "outputs": [{"name": 1, "bytes": 4}]}, "cmdq": [', " " * 26 + "^~~~~~~")
    shown("JSON", '{"cmdq": [\n\t{"opcode": NaN}]}', '\t{"opcode": NaN}]}', "\t" + " " * 11 + "^~~")
    shown("a CR before the newline", '{"cmdq": [\r\n{"opcode": NaN}\r\n]}', '{"opcode": NaN}', " " * 11 + "^~~")
    long = queue(entry(NOP, '"debug": "%s", "bad": 1, "reserved_1": "%s"' % ("\u00e9" * 300, "\u00e9" * 300)))
    cut = long.splitlines()[1]
    at = len(cut[:cut.index('"bad"')].encode())
    raw = cut.encode()
    before, after = raw[at - 60:at], raw[at:at + 60]
    before = before.decode(errors="ignore")
    after = after.decode(errors="ignore")
    shown("a part of a long line", long, "\u2026" + before + after + "\u2026", " " * (len(before) + 1) + "^~~~~")
    _, out, _, wrong = t.look(queue(entry(NOP, '"debug": "%s"' % ("x" * 1200000)), entry(LOAD, spm_bank=99)).replace("\n", ""))
    t.check("source line: a column that is not stored", wrong or ("q.json:1: instruction 1: error: " not in out or "^" in out) and out[:300])


def additions(t):
    """--strict warns about what the published format does not have, at its first use; version 1.2 declares those of 1.2."""
    lines = [entry(LOAD, tensor_role="embedding", dma_id=0), entry(GEMM, scale_ofm=0.5, deps_before=[0]), entry(GEMM, scale_ofm=0.5, bias_bank=3, bias_offset=0),
             {"opcode": "SYNC_GROUP", "group": [0], "name": "g"}, entry(NOP, wait_group="g"),
             entry(KV_LOAD, dram_base_addr=0, kv_range_desc={"t_start": 0, "t_len": 1, "d_len": 8})]
    text = lambda version: queue(*lines, meta='"metadata": {"version": "%s",\n "outputs": []}' % version)
    want = [("outputs", 2), ("dma_id", 3), ("scale_ofm", 4), ("bias_bank", 5), ("bias_offset", 5), ("name", 6), ("wait_group", 7), ("tensor_role", 3)]
    names = [name for name, _ in want[1:-1]] + ["tensor_role embedding", "outputs"]
    for command in ("check", "run"):
        for version in ("1.0", "1.1", "1.2"):
            for strict in (False, True):
                status, out, _, wrong = t.look(text(version), command=[command, "-q", *["--no-hazards"][:command == "run"], *["--strict"][:strict]])
                found = [d for d in map(re.Match.groupdict, filter(None, map(LINE.match, out.splitlines()))) if d["code"] == "TV-Q049"]
                name = "%s of version %s%s" % (command, version, ", strict" * strict)
                if not strict or version == "1.2":
                    t.check(name, wrong or (found and "%s" % found))
                    continue
                got = [(re.search("'(.*?)'", d["message"]).group(1), int(d["line"])) for d in found]
                t.check(name, wrong or (sorted(got) != sorted(want) and "%s, expected %s" % (got, want)))
                t.check(name + ": warnings", any(d["severity"] != "warning" for d in found) and "%s" % found)
                t.check(name + ": others", [d for d in found if ("1 more entry has it" in d["message"]) != ("scale_ofm" in d["message"])])
                t.check(name + ": exit status", (status != (1 if command == "check" else 0)) and "exit status %s: %s" % (status, out[-300:]))
    _, out, _, wrong = t.look(text("1.2"), command=["check", "--strict"])
    note = [m.groupdict() for m in map(LINE.match, out.splitlines()) if m and m["code"] == "TV-Q049"]
    t.check("a note of version 1.2", wrong or ([d["severity"] for d in note] != ["note"] or [n for n in names if n not in note[0]["message"]]) and "%s" % note)
    t.accept("no metadata, published fields", json.dumps({"cmdq": [LOAD, END]}), command=["check"])
    _, out, _, wrong = t.look(open(PUBLISHED).read(), command=["check", "--strict"])
    t.check("the worked example has no additions", wrong or ("TV-Q049" in out and out[:300]))


def implied(t):
    """--strict counts the dependencies that the order of an engine, or another dependency, implies."""
    load = lambda bank, *deps: entry(LOAD, spm_bank=bank, deps_before=list(deps))
    gemm = lambda te, *deps: entry(GEMM, te_id=te, deps_before=list(deps))
    gelu = lambda *deps: entry(GELU, deps_before=list(deps))
    for name, lines, count in (("none", [load(0), gemm(0, 0), gelu(1)], 0),
                               ("on the entry before on the engine", [load(0), load(1, 0)], 1),
                               ("on an earlier entry of the engine", [load(0), load(1), load(2, 0)], 1),
                               ("on what another dependency waits for", [load(0), gemm(0, 0), gelu(0, 1)], 1),
                               ("through three engines", [load(0), gemm(0, 0), gelu(0, 1), gemm(1, 0, 1, 2)], 3),
                               ("of END", [load(0), load(1), entry(END, deps_before=[0, 1])], 0)):
        text = queue(*lines, end=name != "of END")
        for strict in (False, True):
            _, out, _, wrong = t.look(text, command=["check", *["--strict"][:strict]])
            found = re.search(r"(\d+) of \d+ dependencies are implied", out)
            got = int(found[1]) if found else 0
            t.check("implied dependencies, %s%s" % (name, ", strict" * strict), wrong or (got != strict * count and "%d, expected %d: %s" % (got, strict * count, out[-300:])))


def functions(t):
    """Version 1.3: fields that a function takes, and warnings in a file of an earlier version."""
    rows = {"ve_id": 0, "in_bank": 0, "in_offset": 0, "out_bank": 1, "out_offset": 0, "length": 4, "qbits_activation": 32}
    second = {"in2_bank": 2, "in2_offset": 0}
    unary = lambda function, **f: queue(entry(dict(rows, opcode="VE_UNARY_TILE", function=function), **f))
    reduce = lambda function, **f: queue(entry(dict(rows, opcode="VE_REDUCE_TILE", function=function), **f))
    rope = lambda **f: queue(entry(dict(rows, opcode="VE_ROPE_TILE", length=12, head_dim=6, position=0), **f))
    softmax = lambda **f: queue(entry(dict(rows, opcode="VE_SOFTMAX_TILE"), **f))
    for function, fields in (("relu", {}), ("clip", {"clip_min": 0}), ("clip", {"clip_min": -1, "clip_max": -1}), ("leaky_relu", {"alpha": -0.5}),
                             ("hardsigmoid", {"alpha": 0, "beta": 1})):
        t.accept("functions: %s %s" % (function, sorted(fields)), unary(function, **fields))
    for function, fields in (("relu", {"alpha": 0.5}), ("leaky_relu", {"beta": 0.5}), ("abs", {"clip_max": 1}), ("clip", {}),
                             ("clip", {"clip_min": 1, "clip_max": 0})):
        t.reject("functions: %s %s" % (function, sorted(fields)), unary(function, **fields), "TV-Q016", index=0)
    t.reject("functions: no such function", unary("cube"), "TV-Q015", index=0)
    t.reject("functions: of another opcode", reduce("relu"), "TV-Q015", index=0)
    t.reject("functions: a bank of factors alone", rope(factors_bank=0), "TV-Q016", index=0)
    t.reject("functions: argmax of 8 bits", reduce("argmax", qbits_out=8), "TV-Q016", index=0)
    t.reject("functions: argmax with a scale", reduce("argmax", scale_out=0.5), "TV-Q016", index=0)
    t.reject("functions: a step without a length", softmax(valid_step=1), "TV-Q016", index=0)
    t.reject("functions: a period without a step", softmax(valid_length=1, valid_rows=2), "TV-Q016", index=0)
    t.reject("functions: a period of no rows", softmax(valid_length=1, valid_step=1, valid_rows=0), "TV-Q015", index=0)
    for rotary, legal in ((2, True), (6, True), (3, False), (8, False)):
        (t.accept if legal else lambda name, text: t.reject(name, text, "TV-Q016", index=0, status=1, command=["check"]))("functions: rotary_dim %d" % rotary, rope(rotary_dim=rotary))
    for broadcast, count in (("none", 12), ("row", 4), ("column", 3), ("scalar", 1)):  # binary32: bytes of the second input that fit the bank
        at = 262144 - 4 * count
        text = lambda offset: queue(entry(dict(rows, **second), opcode="VE_BINARY_TILE", function="sub", rows=3, broadcast=broadcast, in2_offset=offset))
        t.accept("functions: the last place of a second input, " + broadcast, text(at), command=["check"])
        t.reject("functions: past the bank, " + broadcast, text(at + 1), "TV-Q031", index=0, status=1, command=["check"])
    t.accept("functions: the last place of a reduction", queue(entry(dict(rows, opcode="VE_REDUCE_TILE", function="sum"), rows=3, out_offset=262132)),
             command=["check"])
    t.reject("functions: a reduction past the bank", queue(entry(dict(rows, opcode="VE_REDUCE_TILE", function="sum"), rows=3, out_offset=262136)),
             "TV-Q031", index=0, status=1, command=["check"])
    order = [entry(dict(rows, **second), opcode="VE_BINARY_TILE", function="sub", broadcast="row", rows=3),
             entry(LOAD, num_elements=16, qbits=8, spm_bank=2, spm_offset=0)]
    t.reject("functions: a hazard of the second input", queue(*order), "TV-Q040", index=1, status=1, command=["check"])
    order[1] = entry(LOAD, num_elements=16, qbits=8, spm_bank=2, spm_offset=16)
    t.accept("functions: beside the second input", queue(*order), command=["check"])
    gemm = lambda **f: queue(entry(GEMM, **f))
    residual = {"residual_bank": 3, "residual_offset": 0}
    for fields in ({"activation": "relu"}, {"activation": "clip", "clip_max": 6}, {"soft_cap": 30}, residual, dict(residual, qbits_residual=8, scale_residual=0.5)):
        t.accept("functions: GEMM %s" % sorted(fields), gemm(**fields))
    for fields in ({"activation": "clip"}, {"clip_max": 6}, {"activation": "relu", "clip_min": 0}, {"residual_bank": 3}, {"residual_offset": 0},
                   {"scale_residual": 2}, {"qbits_residual": 8}):
        t.reject("functions: GEMM %s" % sorted(fields), gemm(**fields), "TV-Q016", index=0)
    for fields in ({"soft_cap": 0}, {"soft_cap": -1}, {"activation": "mish"}):
        t.reject("functions: GEMM %s" % fields, gemm(**fields), "TV-Q015", index=0)
    t.reject("functions: a residual past its bank", gemm(residual_bank=3, residual_offset=262144), "TV-Q031", index=0, status=1, command=["check"])
    t.reject("functions: a hazard of a residual", queue(entry(GEMM, **residual), entry(LOAD, num_elements=4, spm_bank=3, spm_offset=0)),
             "TV-Q040", index=1, status=1, command=["check"])
    conv = {"opcode": "TE_CONV_TILE", "te_id": 0, "ifm_bank": 0, "ifm_offset": 0, "wgt_bank": 1, "wgt_offset": 0, "ofm_bank": 2, "ofm_offset": 0, "in_h": 4,
            "in_w": 4, "in_c": 6, "out_c": 4, "kernel_h": 3, "kernel_w": 3, "qbits_weight": 8, "qbits_activation": 8}
    for groups, legal in ((1, True), (2, True), (3, False), (4, False), (6, False)):
        (t.accept if legal else lambda name, text, **o: t.reject(name, text, "TV-Q016", index=0, status=1, **o))(
            "functions: %d groups of 6 and 4 channels" % groups, queue(entry(conv, groups=groups)), command=["check"])
    t.accept("functions: a kernel that fits with zeros at one side", queue(entry(conv, kernel_h=5, pad_bottom=1)), command=["check"])
    t.reject("functions: a kernel that does not", queue(entry(conv, kernel_h=5, pad_right=1)), "TV-Q016", index=0, status=1, command=["check"])
    image = {"ve_id": 0, "in_bank": 0, "in_offset": 0, "out_bank": 1, "out_offset": 0, "in_h": 4, "in_w": 4, "in_c": 2, "qbits_activation": 32}
    pool = lambda **f: queue(entry(dict(image, opcode="VE_POOL_TILE", function="max", kernel_h=2, kernel_w=2), **f))
    resize = lambda **f: queue(entry(dict(image, opcode="VE_RESIZE_TILE", mode="nearest", out_h=8, out_w=8), **f))
    t.accept("images: pooling", pool(stride_h=2, pad_right=1, dil_h=2), command=["check"])
    t.accept("images: average with padding", pool(function="avg", count_include_pad=True), command=["check"])
    t.accept("images: resizing", resize(nearest_mode="floor", coordinate_mode="asymmetric"), command=["check"])
    t.reject("images: maximum with padding", pool(count_include_pad=True), "TV-Q016", index=0)
    t.reject("images: rounding of a mean", resize(mode="linear", nearest_mode="floor"), "TV-Q016", index=0)
    t.reject("images: another coordinate mode", resize(coordinate_mode="cubic"), "TV-Q015", index=0)
    t.reject("images: a kernel that does not fit", pool(kernel_h=5), "TV-Q016", index=0, status=1, command=["check"])
    t.reject("images: no such engine", pool(ve_id=9), "TV-Q030", index=0, status=1, command=["check"])
    t.reject("images: length is no field", pool(length=4), "TV-Q011", index=0)
    t.reject("images: a kernel of 2^48 elements", pool(kernel_h=1 << 24, kernel_w=1 << 24, pad_h=1 << 24, pad_w=1 << 24, in_w=1, in_h=1),
             ("TV-Q031", "TV-Q035"), index=0, status=1, command=["check"])
    t.accept("images: a kernel far larger than the image ends soon", pool(kernel_h=1 << 20, kernel_w=1 << 20, pad_h=1 << 19, pad_w=1 << 19, function="avg"))
    for name, fits, wide in (("pooling", pool(in_offset=262144 - 128), pool(in_offset=262144 - 127)),
                             ("resizing", resize(out_offset=262144 - 512), resize(out_offset=262144 - 511)),
                             ("pooled", pool(out_offset=262144 - 72), pool(out_offset=262144 - 71))):
        t.accept("images: the last place of a tile, " + name, fits, command=["check"])
        t.reject("images: past the bank, " + name, wide, "TV-Q031", index=0, status=1, command=["check"])
    for version, warned in (("1.1", True), ("1.2", True), ("1.3", False)):
        text = queue(entry(dict(rows, **second), opcode="VE_ADD_TILE", broadcast="row"), meta='"metadata": {"version": "%s"}' % version)
        _, out, _, wrong = t.look(text, command=["check", "--strict"])
        found = [m["message"] for m in map(LINE.match, out.splitlines()) if m and m["code"] == "TV-Q049" and m["severity"] == "warning"]
        t.check("functions: a field of version 1.3 in a file of %s" % version,
                wrong or any("'broadcast'" in message for message in found) != warned and out[:400])


def types(t):
    """Reads that do not meet the writes before them: what a person finds who draws the memories on paper."""
    load = lambda bank, count, qbits=8, **f: entry(LOAD, tensor_role="weight", spm_bank=bank, num_elements=count, qbits=qbits, **f)
    store = lambda bank, count, qbits=8, addr=4096: entry(LOAD, opcode="DMA_STORE_TILE", spm_bank=bank, num_elements=count, qbits=qbits, dram_addr=addr)
    gelu = lambda qbits=8, **f: entry(dict(GELU, length=16, qbits_activation=qbits, deps_before=[0]), **f)
    gemm = entry(GEMM, m=2, n=4, k=8, deps_before=[0, 1])
    dram = '"dram_init": [{"addr": 0, "zero": true, "bytes": 4096}]'

    def found(name, entries, want, meta="", command="check", version="1.2"):
        status, text, _, wrong = t.look(queue(*entries, meta='"metadata": {"version": "%s"%s}' % (version, meta and ", " + meta)), command=command)
        got = [(d["code"][3:], int(d["index"] or -1)) + tuple(int(i) for i in re.findall(r"entry (\d+) \(", d["message"]))
               for d in map(re.Match.groupdict, filter(None, map(LINE.match, text.splitlines())))
               if d["severity"] == "warning" and d["code"] in ("TV-Q044", "TV-Q045", "TV-Q046", "TV-Q047", "TV-Q048")]
        t.check("types: " + name, wrong or (status != 0 and text[:300]) or (got != want and "%s, expected %s: %s" % (got, want, text[:400])))
    fit = [load(0, 16), load(1, 32), gemm]
    for command in ("check", "run"):
        found("all meets, " + command, [load(0, 16), gelu()], [], command=command)
        found("another width, " + command, [load(0, 16, 16), gelu()], [("Q044", 1, 1, 0)], command=command)
        found("nothing written, " + command, [gelu(deps_before=[])], [("Q045", 0, 0)], command=command)
        found("a short input, " + command, [load(0, 8), load(1, 32), gemm], [("Q046", 2, 2, 0)], command=command)
    found("a product that meets", fit, [])
    argmax = entry(dict(GELU, opcode="VE_REDUCE_TILE", function="argmax", length=8, rows=2, out_bank=2, deps_before=[0]))
    for name, reader, want in (("stored", entry(json.loads(store(2, 2, 32)), deps_before=[1]), []), ("computed with", entry(dict(GELU, length=2, qbits_activation=32, in_bank=2, deps_before=[1])), [("Q044", 2, 2, 1)])):
        found("indices that are " + name, [load(0, 16), argmax, reader], want, version="1.3")
    found("short weights", [load(0, 16), load(1, 31), gemm], [("Q046", 2, 2, 1)])
    found("weights in two pieces", [load(0, 16), load(1, 16), load(1, 16, spm_offset=16), entry(json.loads(gemm), deps_before=[0, 1, 2])], [])
    found("rows of another length", [load(0, 16, row_elements=4, stride_bytes=64), load(1, 32), gemm], [("Q046", 2, 2, 0)])
    found("rows of the length", [load(0, 16, row_elements=8, stride_bytes=64), load(1, 32), gemm], [])
    found("part of a load", [load(0, 64), load(1, 64), gemm], [])
    found("the last writer counts", [load(0, 16, 16), load(0, 16), gelu(deps_before=[1])], [])
    found("the last writer of a part", [load(0, 16), load(0, 2, 16, spm_offset=4), gelu(deps_before=[1])], [("Q044", 2, 2, 1)])
    found("a gap in the middle", [load(0, 7), load(0, 8, spm_offset=8), gelu(deps_before=[1])], [("Q045", 2, 2)])
    found("initial contents of SPM", [gelu(deps_before=[])], [], '"spm_init": [{"bank": 0, "offset": 0, "zero": true, "bytes": 16}]')
    found("initial contents that overlap", [NOP], [("Q047", -1)],
          '"dram_init": [{"addr": 0, "hex": "0011"}, {"addr": 4, "hex": "00"}, {"addr": 1, "hex": "0011"}]')
    found("initial contents side by side", [NOP], [], '"dram_init": [{"addr": 2, "hex": "0011"}, {"addr": 0, "hex": "0011"}, {"addr": 4, "hex": "00"}]')
    found("DRAM without contents", [load(0, 16, dram_addr=4090), gelu()], [("Q045", 0, 0)], dram)
    found("DRAM with contents", [load(0, 16, dram_addr=4080), gelu()], [], dram)
    found("DRAM of an earlier queue", [load(0, 16, dram_addr=4090), gelu()], [], dram + ', "continues": true')
    found("SPM of an earlier queue", [gelu(deps_before=[])], [], '"continues": true')
    found("a cache that outlives the queue", [entry(LOAD, num_elements=16, dram_addr=8192), gelu()], [], dram)
    found("stored, then loaded as another type", [load(0, 16), store(0, 16), load(1, 8, 16, dram_addr=4096, deps_before=[1])], [("Q044", 2, 2, 1)])
    out = '"outputs": [{"name": "y", "dram_addr": 4096, "num_elements": %d, "qbits": %d}]'
    found("an output", [load(0, 16), store(0, 16)], [], out % (16, 8))
    found("an output that nothing writes", [load(0, 16), store(0, 16, addr=8192)], [("Q048", -1)], out % (16, 8))
    found("an output that is longer", [load(0, 16), store(0, 16)], [("Q048", -1)], out % (17, 8))
    found("an output of another type", [load(0, 16), store(0, 16)], [("Q044", -1, 1)], out % (8, 16))
    t.reject("types: with --strict a run does not start", queue(gelu(deps_before=[])), "TV-Q045", index=0, status=1, command=["run", "--strict"])
    many = []
    for i in range(60000):  # tiles of 1 to 7 bytes at scattered offsets: as many segments as fit, replaced again and again
        many.append(load(i % 8, 1 + i % 7, spm_offset=i * 7919 % 262000))
    t.accept("types: 60000 scattered tiles", queue(*many))


def kv_caches(t):
    store = {"opcode": "KV_STORE_TILE", "head_id": 0, "kv_kind": "k", "spm_bank": 0, "spm_offset": 0, "dram_base_addr": 4096,
             "t_start": 0, "t_len": 2, "d_len": 4, "qbits_kv": 8}
    ranges = '"metadata": {"version": "1.2", "kv_ranges": [{"name": "all", "t_start": 0, "t_len": 2, "d_len": 4}]}'
    t.accept("kv: the set's fields alone", queue(store, entry(KV_LOAD, deps_before=[0])))
    t.accept("kv: a named range", queue(store, entry(KV_LOAD, kv_range_desc="all", deps_before=[0]), meta=ranges))
    t.reject("kv: no such range", queue(store, entry(KV_LOAD, kv_range_desc="al"), meta=ranges), "TV-Q015", index=1, message="did you mean 'all'?")
    t.reject("kv: no length of a head", queue({k: v for k, v in store.items() if k != "d_len"}), "TV-Q016", index=0, status=1, message="give 'd_len'")
    t.reject("kv: no base", queue(KV_LOAD), "TV-Q016", index=0, status=1, message="give 'dram_base_addr'")
    t.reject("kv: two bases", queue(store, entry(store, dram_base_addr=8192), KV_LOAD), "TV-Q016", index=2, status=1, message="several base addresses")
    t.reject("kv: two ranges of a name", queue(NOP, meta=ranges.replace("[{", '[{"name": "all", "t_start": 0, "t_len": 1}, {')), "TV-Q004", location=(1, 90))


PUBLISHED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "cmdq", "published.json")


def published_form(t):
    """What the format page of the document set shows is accepted."""
    body, meta = '"cmdq": [\n%s,\n%s]' % (json.dumps(NOP), json.dumps(END)), '"metadata": {"version": "1.1", "generated_by": "g", "created_at": "d"}'
    t.accept("no metadata", "{%s}" % body)
    t.accept("metadata last", "{%s, %s}" % (body, meta))
    t.accept("keys beside them", '{"$schema": "s", "generator": {"cmdq": [1]}, %s, %s, "reserved_x": null}' % (body, meta))
    t.reject("metadata last, a wrong entry before", '{"cmdq": [{"opcode": "NOPE"}, {"opcode": "END"}],\n "metadata": {"version": "1.1"}}',
             "TV-Q010", location=(1, 12), index=0)
    t.reject("metadata last, wrong", '{%s,\n "metadata": {"version": "1.1",\n   "outputs": [{"name": 1}]}}' % body, "TV-Q004", location=(5, 16))
    for name, key, message in (("another key", "notes", "'notes' is not interpreted"), ("a misspelt key", "metdata", "did you mean 'metadata'?"),
                               ("a key first", "notes", "q.json:1:2: note")):
        text = '{"%s": [{"a": "}"}], %s}' % (key, body) if name.endswith("first") else '{%s, "%s": 7}' % (body, key)
        t.accept(name, text, message=message)
    _, text, _, wrong = t.look('{"metadata": {"version": {}}, "cmdq": {}}')
    t.check("a wrong value is no key of the file", wrong or ("not interpreted" in text and text))
    rows = [json.dumps(NOP), json.dumps({"layer_id": None, "opcode": "NOP"}), json.dumps(END)]
    t.accept("lines without metadata", "\n".join(rows), file="q.jsonl")
    t.accept("lines without metadata, by content", "\n".join(rows) + "\n", file="q.json")
    t.accept("one line without metadata", rows[2], file="q.jsonl")
    t.accept("lines whose metadata have other keys first", '{"debug": 1, "graph_name": "g", "version": "1.0"}\n' + "\n".join(rows), file="q.jsonl")
    t.reject("a wrong entry in lines without metadata", rows[0] + '\n {"opcode": "NOPE"}\n' + rows[2], "TV-Q010", location=(2, 3), index=1, file="q.jsonl")
    t.reject("a trace is named", '{"version": "1",\n "timeline_events": [{"a": 1}]}', "TV-Q002", location=(2, 2), message="this is a trace file")
    t.accept("layer_id as a number", queue(entry(NOP, layer_id=12)))
    t.reject("layer_id with a fraction", queue(entry(NOP, layer_id=1.5)), "TV-Q014", index=0)
    t.accept("stride_bytes null", queue(entry(LOAD, stride_bytes=None)))
    t.reject("stride_bytes null elsewhere", queue(entry(NOP, stride_bytes=None)), "TV-Q011", index=0)
    t.accept("stride_bytes 0", queue(entry(LOAD, stride_bytes=0)))
    t.accept("deprecated_since", queue(entry(NOP, deprecated_since="1.1")), message="[TV-Q043]")
    t.accept("direction", queue(entry(LOAD, direction="read")))
    t.reject("the other direction", queue(entry(LOAD, direction="write")), "TV-Q016", index=0)
    t.accept("role aux", queue(entry(LOAD, tensor_role="aux")))
    t.accept("the worked example", open(PUBLISHED).read())
    located = queue(NOP, meta='"metadata": {\n "version": "1.2",\n "dram_init": [{"addr": 0, "hex": "00"},\n  {"addr": %s, "hex": "00"}]}')
    t.reject("an entry of the metadata", located % '"x"', "TV-Q004", location=(4, 4))
    t.reject("an entry of the metadata past DRAM", located % 2 ** 40, "TV-Q032", location=(4, 3), status=1)
    t.reject("an output past DRAM", queue(NOP, meta='"metadata": {"version": "1.2",\n "outputs": [\n  {"name": "y", "dram_addr": %d,'
                                          ' "num_elements": 1, "qbits": 8}]}' % 2 ** 40), "TV-Q032", location=(3, 3), status=1)
    t.reject("a version that is a number", queue(NOP, meta='"metadata": {"version": 1.2}'), "TV-Q003", message='"version": "1.2"')


def bytes_of_text(t):
    text = queue(entry(NOP, layer_id="LAYER")).encode()
    for name, data, codes in (("a byte order mark", b"\xef\xbb\xbf" + text, "TV-Q001"), ("UTF-16", text.decode().encode("utf-16"), "TV-Q001"),
                              ("UTF-16 without a mark", text.decode().encode("utf-16-le"), "TV-Q001"), ("only NULs", bytes(1000), "TV-Q001"),
                              ("no UTF-8 in a string", text.replace(b"LAYER", b"\xff\xfe"), "TV-Q001"),
                              ("half a character", text.replace(b"LAYER", b"\xc3"), "TV-Q001"),
                              ("an overlong character", text.replace(b"LAYER", b"\xc0\xaf"), ("TV-Q001", "TV-Q015")),
                              ("a raw NUL in a string", text.replace(b"LAYER", b"a\0b"), "TV-Q001"),
                              ("a raw NUL between", text.replace(b"\n", b"\0"), "TV-Q001"),
                              ("an escaped NUL in a string", text.replace(b"LAYER", rb"a\u0000b"), "TV-Q015"),
                              ("an escaped NUL in a key", text.replace(b"layer_id", rb"layer_id\u0000"), "TV-Q011"),
                              ("an escaped NUL in an opcode", text.replace(b"NOP", rb"NOP\u0000"), ("TV-Q010", "TV-Q015")),
                              ("a lone surrogate", text.replace(b"LAYER", rb"\udc00"), ("TV-Q001", "TV-Q015")),
                              ("a surrogate as a character", text.replace(b"LAYER", b"\xed\xa0\x80"), ("TV-Q001", "TV-Q015")),
                              ("past U+10FFFF", text.replace(b"LAYER", b"\xf5\x80\x80\x80"), ("TV-Q001", "TV-Q015")),
                              ("random bytes", bytes(i * i * 7 % 251 for i in range(5000)), "TV-Q001")):
        t.reject("bytes: " + name, data, codes)
    for count in (1, 64, 100000):
        for ending in ("", "\n"):
            t.accept("%d spaces after the last entry%s" % (count, " and a line end" if ending else ""),
                     '{"opcode": "NOP"}\n{"opcode": "END"}\n' + " " * count + ending, file="q.jsonl")
    t.accept("escapes in keys and words", queue(r'{"\u006fpcode": "NO\u0050"}'))


def deep_and_long(t):
    deep = 10 ** 7 // SAMPLE
    lists, objects = "[" * deep + "]" * deep, '{"a":' * (deep // 4) + "1" + "}" * (deep // 4)
    for name, value in (("lists", lists), ("open lists", lists[:deep]), ("objects", objects)):
        for where, text in sample((
                            ("in debug", lambda v: queue(entry(NOP, '"debug": ' + v))),
                            ("in a reserved field", lambda v: queue(entry(NOP, '"reserved_1": ' + v))),
                            ("in a field", lambda v: queue(damaged_field(LOAD, "spm_bank", v))),
                            ("in a list of ids", lambda v: queue(damaged_field(NOP, "deps_before", v))),
                            ("in an unknown field", lambda v: queue(entry(NOP, '"unknown": ' + v))),
                            ("in metadata", lambda v: queue(NOP, meta='"metadata": {"debug": %s}' % v)),
                            ("as an entry", queue), ("as a key of the file", lambda v: "{" + META + ', "x": ' + v + "}"),
                            ("as the file", lambda v: v)), 4):
            t.reject("deep %s %s" % (name, where), lambda: text(value), ("TV-Q006", "TV-Q014", "TV-Q011", "TV-Q002", "TV-Q004"))  # pylint: disable=cell-var-from-loop
    t.reject("deep lists in a line", as_lines(queue(entry(NOP, '"debug": ' + lists))), "TV-Q006", file="q.jsonl")
    t.accept("nested 60 deep", queue(entry(NOP, '"debug": ' + "[" * 60 + "]" * 60)))
    long = "x" * 10 ** 8  # more than the longest string
    for where, text in sample((
                        ("string in a field", lambda: queue(entry(NOP, '"layer_id": "%s"' % long))),
                        ("opcode", lambda: queue('{"opcode": "%s"}' % long)),
                        ("key", lambda: queue(entry(NOP, '"%s": 1' % long))), ("string in debug", lambda: queue(entry(NOP, '"debug": "%s"' % long))),
                        ("string in metadata", lambda: queue(NOP, meta='"metadata": {"version": "%s"}' % long)),
                        ("number", lambda: queue(damaged_field(LOAD, "spm_bank", "1" * len(long)))),
                        ("open string", lambda: '{"metadata": {"version": "' + long)), 4):
        t.reject("many bytes of " + where, text, ("TV-Q006", "TV-Q015", "TV-Q010", "TV-Q011", "TV-Q003", "TV-Q001"))
    t.reject("many spaces", lambda: " " * len(long), ("TV-Q001", "TV-Q002", "TV-Q006"))
    t.reject("long lists of ids", lambda: queue(entry(NOP, deps_before=[7] * 10 ** 6)), "TV-Q018", index=0)


def many_errors(t):
    def cut_off(name, data, status, code):
        got, text, errors, wrong = t.look(data)
        if not wrong and (got != status or len(errors) != 100 or any(d["code"] != code for d in errors)):
            wrong = "exit status %d, %d errors: %s" % (got, len(errors), text[:200])
        if not wrong and ": note: " not in text:
            wrong = "no note says that there are more"
        if not wrong and [int(d["index"] or -1) for d in errors] != sorted(int(d["index"] or -1) for d in errors):
            wrong = "not in the order of the entries"
        t.check("150 errors: " + name, wrong)
    cut_off("opcodes", queue(*[{"opcode": "NIP"}] * 150), 2, "TV-Q010")
    cut_off("dependencies", queue(*[entry(NOP, deps_before=[999])] * 150), 2, "TV-Q018")
    cut_off("ranges of the machine", queue(*[entry(LOAD, spm_bank=99)] * 150), 1, "TV-Q031")
    cut_off("metadata", queue(NOP, meta='"metadata": {"version": "1.2", "outputs": [%s]}' % ", ".join(["1"] * 150)), 2, "TV-Q004")
    t.reject("a million errors", queue(*['{"opcode":1}'] * 10 ** 6), "TV-Q014", index=0)
    t.reject("a million errors of a machine", queue(*[entry(LOAD, spm_bank=99)] * 10 ** 5), "TV-Q031", index=0, status=1)


SEVERAL = """{
  "metadata": {"version": "1.2"},
  "cmdq": [
    {"opcode": "NOP", "id": 7},
    {"opcode": "DMA_LOAD_TILE", "tensor_role": "kv", "qbits": 3,
     "dram_addr": -5, "spm_bank": 0, "spm_ofset": 0,
\t"num_elements": "8"},
    {"opcode": "NOPE"},
    [1, 2], {"layer_id": "é", "debug": {"opcode": 1}},
    {"opcode": "BARRIER", "wait_for": [0, "1", 2], "wait_for": [0]},
    {"opcode": "END"}
  ]
}
"""
# What a person finds who counts lines and bytes: a field's error is at its key, an entry's at its brace.
SEVERAL_ERRORS = [(4, 23, "TV-Q017", 0), (5, 54, "TV-Q015", 1), (6, 6, "TV-Q015", 1), (6, 38, "TV-Q011", 1), (7, 2, "TV-Q014", 1),
                  (5, 5, "TV-Q012", 1),
                  (8, 6, "TV-Q010", 2), (9, 5, "TV-Q002", 3), (9, 13, "TV-Q012", 3), (10, 43, "TV-Q014", 4), (10, 52, "TV-Q013", 4)]


def several_errors(t):
    """All of them, once, each at its location."""
    status, text, errors, wrong = t.look(SEVERAL)
    got = [(int(d["line"] or 0), int(d["column"] or 0), d["code"], int(d["index"]) if d["index"] else None) for d in errors]
    if not wrong and sorted(got) != sorted(SEVERAL_ERRORS):
        wrong = "not expected: %s; not found: %s" % (sorted(set(got) - set(SEVERAL_ERRORS)), sorted(set(SEVERAL_ERRORS) - set(got)))
    t.check("several errors", wrong or (status != 2 and "exit status %d" % status))
    entries = [d["index"] for d in errors]
    t.check("several errors, entry by entry", entries != sorted(entries) and "%s" % got)
    t.reject("location after a long entry", queue(entry(NOP, '"debug": "%s"' % ("x" * 3000000)), '{"opcode": "NOPE"}'), "TV-Q010", location=(3, 2), index=1)
    t.reject("location of an escaped key", queue(r'{"opcode": "NOP", "sp\u006d_bank": 1}'), "TV-Q011", location=(2, 19), index=0)
    t.reject("location of an error of the machine", queue(NOP, " " * 7 + entry(GEMM, te_id=5)), "TV-Q030", location=(3, 35), index=1, status=1)
    t.reject("location of wrong JSON", queue(NOP, '{"opcode" "NOP"}'), "TV-Q001", location=(3, 0))
    for size in range((1 << 20) - 300, (1 << 20) + 20, 7):  # the parser takes the file in chunks of a mebibyte
        padded = queue(entry(NOP, '"debug": "%s"' % ("x" * (size - 90))), entry(LOAD, spm_bank=-1, num_elements=12345678))
        column = padded.splitlines()[2].index('"spm_bank"') + 1
        t.reject("location across chunks, %d" % size, padded, "TV-Q015", location=(3, column), index=1)


# ---- Writing


AGAIN = r"""{"metadata": {"version": "1.1", "graph_name": "té\u0073t",
  "debug": {"a": [1,
 2, 1e300, 1234567890123456789]}, "reserved_\u0041": null},
 "cmdq": [
{"opcode": "NOP", "layer_id": null, "deps_before": [], "de\u0062ug": {"x": "}\n{\"", "y": [
 1, 2,	-0.0]}, "reserved_\u0041": "\u00e9é\ud83d\ude00\\", "reserved_0": 1e400, "reserved_1": {}, "reserved_2": [[], false]},
{"opcode": "TE_GEMM_TILE", "te_id": 0, "ifm_bank": 0, "ifm_offset": 0, "wgt_bank": 1, "wgt_offset": 0, "ofm_bank": 2, "ofm_offset": 0,
 "m": 2, "n": 2, "k": 2, "qbits_weight": 8, "qbits_activation": 8, "scale_ifm": 0.1, "scale_wgt": -1E-45, "scale_ofm": 123456789.123456789,
 "accumulate": false,
 "layer_id": "a \"quoted\" \\ layer\té\u0001", "deps_after": [3], "wait_group": "\"g\"", "deps_before": [4]},
{"opcode": "NOP"}, {"opcode": "NOP", "layer_id": ""},
{"opcode": "NOP", "debug": 1}, {"opcode": "END"}]}
"""


def meaning(text):
    """The document, with ids, without members that have no effect; JSON Lines as the others."""
    try:
        doc = json.loads(text)
    except ValueError:
        doc = None
    if doc is None or "cmdq" not in doc:
        rows = [json.loads(row) for row in text.splitlines() if row.strip()]
        doc = {"metadata": rows[0], "cmdq": rows[1:]}
    for i, e in enumerate(doc["cmdq"]):
        e.setdefault("id", i)
        for name in ("deps_before", "deps_after"):
            if e.get(name) == []:
                del e[name]
        if e.get("layer_id") in (None, ""):
            e.pop("layer_id", None)
    return doc


def written(t, source, kind):
    """The bytes of the file that `asm` makes of `source`."""
    out = os.path.join(t.folder, "out." + kind)
    status, text, wrong = t.run_bounded(["asm", "-t", "cmdq", source, "-o", out, "--format", kind])
    if wrong or status != 0:
        return None, wrong or "exit status %d: %s" % (status, text[:300])
    with open(out, "rb") as f:
        return f.read(), None


def write_again(t, name, source):
    with open(source, encoding="utf-8") as f:
        want = meaning(f.read())
    for kind in ("json", "jsonl"):
        first, wrong = written(t, source, kind)
        second, _ = written(t, source, kind)
        if not wrong and first != second:
            wrong = "two writings differ"
        if not wrong:
            try:
                if meaning(first.decode()) != want:
                    wrong = "it means something else: %s" % first.decode()[:300]
            except ValueError as e:
                wrong = "it is no JSON: %s" % e
        if not wrong and kind == "jsonl" and len(first.splitlines()) != len(want["cmdq"]) + 1:
            wrong = "%d lines" % len(first.splitlines())
        if not wrong:
            t.write("again." + kind, first)
            third, wrong = written(t, os.path.join(t.folder, "again." + kind), kind)
            if not wrong and third != first:
                wrong = "what was written is written differently"
        t.check("written as %s: %s" % (kind, name), wrong)


def writing(t):
    _, text, _ = t.run_bounded(["asm", "--help"])
    if "jsonl" not in text:
        print("writing: left out, since `asm` does not write queues")
        return
    folder = os.path.dirname(os.path.abspath(__file__))
    for path in sorted(glob.glob(os.path.join(folder, "*.json*"))):
        if not os.path.basename(path).startswith("wrong"):
            write_again(t, os.path.basename(path), path)
    source = os.path.join(t.folder, "source.json")
    group = '{"opcode": "SYNC_GROUP", "name": "\\"g\\"", "group": []},\n{"opcode": "TE_GEMM_TILE"'
    t.write("source.json", AGAIN.replace('{"opcode": "TE_GEMM_TILE"', group))
    write_again(t, "texts, notes and numbers", source)
    t.write("source.json", queue({"opcode": "VE_RMSNORM_TILE", "ve_id": 0, "in_bank": 0, "in_offset": 0, "out_bank": 1, "out_offset": 0, "length": 4,
                                  "qbits_activation": 32, "eps": -0.0}))
    write_again(t, "minus zero", source)


GROUPS = (truncated, wrong_types, fields, ids, cycles, ends, versions, metadata, structure, published_form, syntax, source_lines, additions, implied, functions, types, kv_caches, bytes_of_text, deep_and_long, many_errors,
          several_errors, writing)


def main():
    t = Runner(parse_arguments(__doc__, "trivet"))
    t.run_tests(GROUPS, t)
    return t.finish()


sys.exit(main())
