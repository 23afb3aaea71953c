#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The JSON Schema of queues against the reader.

    schema_test.py TRIVET [-k WORD]

What the reader accepts validates; of a wrong queue the validator names the field at fault, as the reader does.
"""

import copy
import glob
import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
for folder in ("tests", "tests/commands", "tests/oracle"):
    sys.path.insert(0, os.path.join(ROOT, folder))
import schema  # noqa: E402
from cmdq_random import KINDS, gen  # noqa: E402
from suite import Suite, parse_arguments, sample  # noqa: E402

RANDOM_QUEUES = 150
LAYOUT = {"id": 0, "k_base": 0, "v_base": 4096, "t_max": 4, "d_head": 8, "heads": 1}
META = {"version": "1.2", "kv_layouts": [LAYOUT]}
WRONG_VALUES = {"integer": ("1", 1.5, True, None, [], {}, -1, 2 ** 64), "number": ("1", True, None, [], {}), "boolean": (0, "true", None, [], {}),
                "word": ("nonsense", 0, True, None, [], {}), "text": (1.5, True, [], {}), "ids": (0, "0", None, True, {}, ["0"], [1.5], [-1], [[0]]),
                "object": (0, None, True, [])}


class Schema(Suite):
    def __init__(self, trivet, options):
        super().__init__(trivet, options)
        self.rules = json.loads(self.output("isa", "cmdq", "--json-schema"))
        self.opcodes = json.loads(self.output("isa", "cmdq", "--json"))["result"]["instructions"]

    def output(self, *arguments):
        return subprocess.run([self.trivet, *arguments], stdout=subprocess.PIPE, check=True, text=True).stdout

    def errors(self, queue):
        return schema.errors(queue, self.rules, self.rules)

    def read(self, queue):
        """The errors of the reader: index of the entry or None, message."""
        self.write("q.json", json.dumps(queue))
        p = subprocess.run([self.trivet, "dis", os.path.join(self.folder, "q.json"), "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                           check=False, text=True)
        return [(d["index"], d["message"]) for d in json.loads(p.stdout)["diagnostics"] if d["severity"] == "error"]


def value_of(p):
    """A legal value of a parameter of `trivet isa cmdq --json`."""
    if p["type"] == "word":
        return re.split(r", | or ", p["values"])[0]
    if p["type"] == "integer":
        return int(re.match(r"\d+", p["values"]).group())
    return {"number": 0.5, "boolean": True, "text": "1.0", "ids": [], "object": {}}[p["type"]]


def minimal(opcode):
    """An entry with the required fields alone."""
    out = {"opcode": opcode["id"]}
    for p in opcode["parameters"]:
        if p["required"] and not p["common"]:
            where = out["kv_range_desc"] if p["member"] else out
            where[p["name"]] = value_of(p)
    if opcode["id"] == "KV_LOAD_TILE":
        out["kv_range_desc"] = {p["name"]: value_of(p) for p in opcode["parameters"] if p["member"] and p["required"]} or {"t_start": 0, "t_len": 1}
    return out


def whole(entry, meta=None):
    entries = [entry] if entry.get("opcode") == "END" else [entry, {"opcode": "END"}]
    return {"metadata": copy.deepcopy(meta or META), "cmdq": entries}


def accepted_queues_validate(t):
    for path in sorted(glob.glob(os.path.join(ROOT, "examples/cmdq/*.json")) + glob.glob(os.path.join(ROOT, "tests/queue/*.json"))):
        if not path.endswith(".expect.json") and not os.path.basename(path).startswith("wrong"):
            with open(path, encoding="utf-8") as f:
                t.equal(os.path.relpath(path, ROOT), t.errors(json.load(f)), [])
    for seed in sample(range(RANDOM_QUEUES)):
        t.equal("random queue %d" % seed, t.errors(gen(seed, KINDS[seed % len(KINDS)])[0]), [])
    for opcode in t.opcodes:
        base = minimal(opcode)
        variants = [base] + [dict(base, **{p["name"]: value_of(p)}) for p in opcode["parameters"]
                             if not p["common"] and not p["member"] and p["name"] != "kv_range_desc"]
        for entry in sample(variants):
            t.equal("%s of %s" % (sorted(set(entry) - set(base)), opcode["id"]), t.errors(whole(entry)), [])


def forms_that_the_reader_accepts_validate(t):
    nop = {"opcode": "NOP"}
    load = {"opcode": "DMA_LOAD_TILE", "tensor_role": "aux", "qbits": 8, "dram_addr": 0, "spm_bank": 0, "spm_offset": 0, "num_elements": 8}
    kv = {"opcode": "KV_LOAD_TILE", "head_id": 0, "kv_kind": "k", "spm_bank": 0, "spm_offset": 0, "qbits_kv": 8, "kv_range_desc": {"t_start": 0, "t_len": 1}}
    ranges = dict(META, kv_ranges=[{"name": "r", "t_start": 0, "t_len": 1, "d_start": 0, "d_len": 8, "reserved_x": 1, "debug": 2}])
    for name, queue in (
            ("no metadata", {"cmdq": [nop, {"opcode": "END"}]}), ("other keys", dict(whole(nop), generator=1, notes={})), ("layer_id null", whole(dict(nop, layer_id=None))),
            ("layer_id integer", whole(dict(nop, layer_id=-7))), ("stride_bytes null", whole(dict(load, stride_bytes=None))),
            ("reserved and debug", whole(dict(nop, reserved_1=[{}], debug=None))), ("a range by name", whole(dict(kv, kv_range_desc="r"), ranges)),
            ("reserved fields of the metadata", whole(nop, dict(META, reserved_a=1, debug=[], dram_init=[{"addr": 0, "hex": "00", "reserved_b": None}]))),
            ("texts that are null", whole(nop, {"version": "1.1", "graph_name": None, "generated_by": "x", "created_at": None, "continues": True})),
            ("versions", whole(nop, {"version": "001.9"})), ("real numbers", whole({"opcode": "VE_CAST_TILE", "ve_id": 0, "in_bank": 0, "in_offset": 0, "out_bank": 1,
                                                                                  "out_offset": 0, "length": 4, "qbits_activation": 8, "scale_in": -3, "scale_out": 1e-30})),
            ("zero", whole(nop, {"version": "1.2", "spm_init": [{"bank": 0, "offset": 0, "zero": True, "bytes": 4}], "outputs": []}))):
        t.equal(name + ": the reader", t.read(queue), [])
        t.equal(name + ": the schema", t.errors(queue), [])


def wrong_entries(opcode):
    """(entry, name of the field at fault) of an opcode."""
    base = minimal(opcode)
    for p in opcode["parameters"]:
        name = p["name"]
        if p["member"] or name in ("debug", "opcode"):
            continue
        if p["required"]:
            yield {k: v for k, v in base.items() if k != name}, name
        for value in WRONG_VALUES[p["type"]]:
            if name == "layer_id" or (name == "stride_bytes" and value is None) or (name == "id" and value == 2 ** 64):
                continue
            yield dict(base, **{name: value}), name
    yield dict(base, nonsense=1), "nonsense"
    for member, value in (("t_start", -1), ("t_len", 0), ("t_len", "1"), ("d_len", 1.5), ("nonsense", 1)):
        if opcode["id"] == "KV_LOAD_TILE":
            yield dict(base, kv_range_desc=dict(base["kv_range_desc"], **{member: value})), member


def wrong_fields_are_named(t):
    """Every field of every opcode, missing and of a wrong type or range; the reader reports the same entries."""
    for opcode in sample(t.opcodes):
        wrong = list(wrong_entries(opcode))
        for entry, name in wrong:
            found = t.errors(whole(entry))
            t.expect("%s, %s: the schema" % (json.dumps(entry)[:100], name), found and all(re.search(r"\.%s\b" % name, e) for e in found), found)
        for first in range(0, len(wrong), 40):
            part = wrong[first:first + 40]
            found = t.read({"metadata": META, "cmdq": [e for e, _ in part] + [{"opcode": "END"}]})
            for i, (entry, name) in enumerate(part):
                t.expect("%s: the reader" % json.dumps(entry)[:100], any(index == i for index, _ in found), (i, name, found[:3]))


def wrong_metadata_is_named(t):
    nop = {"opcode": "NOP"}
    for name, queue in (
            ("version", whole(nop, {"version": 1.2})), ("version", whole(nop, {"version": "2.0"})), ("version", whole(nop, {"version": "1.x"})),
            ("version", whole(nop, {"graph_name": "g"})), ("graph_name", whole(nop, dict(META, graph_name=1))), ("continues", whole(nop, dict(META, continues=1))),
            ("nonsense", whole(nop, dict(META, nonsense=1))), ("outputs", whole(nop, dict(META, outputs={}))),
            ("qbits", whole(nop, dict(META, outputs=[{"name": "y", "dram_addr": 0, "num_elements": 1, "qbits": 3}]))),
            ("dram_addr", whole(nop, dict(META, outputs=[{"name": "y", "num_elements": 1, "qbits": 8}]))),
            ("addr", whole(nop, dict(META, dram_init=[{"addr": -1, "hex": "00"}]))), ("zero", whole(nop, dict(META, dram_init=[{"addr": 0, "zero": 1, "bytes": 1}]))),
            ("t_max", whole(nop, {"version": "1.2", "kv_layouts": [{k: v for k, v in LAYOUT.items() if k != "t_max"}]})),
            ("scale_ifm", whole(dict({"opcode": "TE_GEMM_TILE", "te_id": 0, "ifm_bank": 0, "ifm_offset": 0, "wgt_bank": 1, "wgt_offset": 0, "ofm_bank": 2, "ofm_offset": 0,
                                      "m": 1, "n": 1, "k": 1, "qbits_weight": 8, "qbits_activation": 8}, scale_ifm=0))),
            ("opcode", whole({"opcode": "NOPE"})), ("opcode", whole({"layer_id": "x"})), ("cmdq", {"metadata": META})):
        found = t.errors(queue)
        t.expect("%s: the schema" % name, found and all(re.search(r"\.%s\b" % name, e) for e in found), found)
        t.expect("%s: the reader" % name, t.read(queue), name)


def main():
    options = parse_arguments(__doc__, "trivet")
    t = Schema(options.trivet, options)
    t.run_tests([accepted_queues_validate, forms_that_the_reader_accepts_validate, wrong_fields_are_named, wrong_metadata_is_named], t)
    return t.finish()


sys.exit(main())
