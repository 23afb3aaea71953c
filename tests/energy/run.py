#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Energies of the command line against figures and counts that are worked out here, from the literature and by hand.

    run.py TRIVET
"""

import json
import math
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from suite import ROOT, Suite, parse_arguments  # noqa: E402

try:
    import yaml
except ImportError:
    yaml = None

# Picojoules at 45 nm (Horowitz 2014) and at 7 nm (Jouppi et al. 2021); of SRAM by bytes, for 64 bits.
LOGIC = {"int8_add": (0.03, 0.007), "int32_add": (0.1, 0.03), "int8_mul": (0.2, 0.07), "int32_mul": (3.1, 1.48),
         "fp16_mul": (1.1, 0.34), "fp32_add": (0.9, 0.38), "fp32_mul": (3.7, 1.31)}
SRAM = [(8 << 10, 10, 7.5), (32 << 10, 20, 8.5), (1 << 20, 100, 14)]
DRAM = {"ddr": (975, 1300, 2600), "hbm2": (249.9, 350, 450.1), "gddr6": (349.845, 415, 480.155)}
CONTROL = 70 - 25 - 6 - 0.1


def at(pair, nm):
    """A power of the feature size through both points."""
    return pair[0] * (nm / 45) ** (math.log(pair[1] / pair[0]) / math.log(7 / 45))


class Chip:
    """The energies of a configuration: (low, nominal, high) in picojoules."""

    def __init__(self, nm=7, fpga=False, supply=100, memory="ddr"):
        self.nm, self.fpga, self.volts, self.memory = nm, fpga, (supply / 100) ** 2, memory

    def interval(self, pj, low=0.5, high=2.0):
        pj *= self.volts
        return (pj * low, pj * math.sqrt(14), pj * high * 14) if self.fpga else (pj * low, pj, pj * high)

    def logic(self, name):
        return self.interval(at(LOGIC[name], self.nm))

    def sram(self, size):
        points = [(b, at((old, new), self.nm)) for b, old, new in SRAM]
        if size <= points[0][0]:
            pj = points[0][1] * math.sqrt(size / points[0][0])
        elif size >= points[-1][0]:
            pj = points[-1][1] * math.sqrt(size / points[-1][0])
        else:
            (b0, e0), (b1, e1) = next(p for p in zip(points, points[1:]) if p[0][0] <= size < p[1][0])
            pj = e0 * (size / b0) ** (math.log(e1 / e0) / math.log(b1 / b0))
        return self.interval(pj / 8)

    def table(self, sizes):
        """By action; `sizes` are the bytes of the memories."""
        add = lambda *parts: tuple(map(sum, zip(*parts)))  # noqa: E731
        times = lambda e, f: tuple(x * f for x in e)  # noqa: E731
        fma = add(self.logic("fp32_mul"), self.logic("fp32_add"))
        rows = {"mac_fp16": add(self.logic("fp16_mul"), self.logic("fp32_add")), "mac_fp32": fma, "lane_fp_fma": fma,
                "lane_fp_add": self.logic("fp32_add"), "lane_fp_mul": self.logic("fp32_mul"), "lane_convert": self.logic("fp32_add")}
        for w in (2, 4, 8):
            for a in (2, 4, 8):
                rows["mac_int%d_int%d" % (w, a)] = add(times(self.logic("int8_mul"), w * a / 64), self.logic("int32_add"))
        for bits in (8, 16, 32):
            f, g = (bits - 8) / 24, (bits * bits - 64) / 960
            rows["lane_int%d" % bits] = add(times(self.logic("int8_add"), 1 - f), times(self.logic("int32_add"), f))
            rows["lane_mul%d" % bits] = add(times(self.logic("int8_mul"), 1 - g), times(self.logic("int32_mul"), g))
        for name, steps in (("exp", 3), ("log", 3), ("sqrt", 3), ("recip", 3), ("trig", 3), ("activation", 6), ("pow", 6)):
            low, nominal, high = times(fma, steps)
            rows["sfu_" + name] = (low / 3, nominal, high * 3)
        for name, size in sizes.items():
            e = self.sram(size)
            if name == "memory" and self.memory != "sram":
                e = times(DRAM[self.memory], 1 / 8)
            for action in ("fetch",) if name == "fetch" else (name + "_read", name + "_write"):
                rows[action] = e
        rows["decode"] = self.interval(CONTROL * at(LOGIC["int32_add"], self.nm) / 0.1, 0.1, 1.5)
        return rows


SIZES = {
    "pccx": {"l1": 65536, "l2": 131072 * 16, "accumulator": 4 * 64 * 32, "stream": 131072, "fifo": 4096, "constant": 768,
             "fetch": 1024, "memory": 4 << 30},
    "opennpu": {"register": 32 * 64, "accumulator": 4 * 64 * 64, "lut": 256, "fetch": 4096, "memory": 64 << 20},
    "cmdq": {"spm": 256 << 10, "accumulator": 4 * 4096, "fetch": 4096, "memory": 16 << 30},
}


def energies(t, target, *sets):
    status, out, err = t.call("config", "-t", target, "--energy", "--json", *[a for s in sets for a in ("-D", s)])
    t.equal("exit status of %s %s" % (target, sets), (status, err), (0, ""))
    return {row["name"]: row for row in json.loads(out)["result"]["energies"]}


def the_table_follows_from_the_literature(t):
    settings = [({}, []), ({"nm": 45}, ["energy.process_nm=45"]), ({"nm": 16, "fpga": True}, ["energy.process_nm=16", "energy.fabric=fpga"]),
                ({"nm": 28, "supply": 80}, ["energy.process_nm=28", "energy.supply_percent=80"]), ({"memory": "hbm2"}, ["energy.memory=hbm2"]),
                ({"memory": "gddr6"}, ["energy.memory=gddr6"]), ({"memory": "sram"}, ["energy.memory=sram"])]
    for target, sizes in SIZES.items():
        for chip, sets in settings:
            rows, expected = energies(t, target, *sets), Chip(**chip).table(sizes)
            for name, row in rows.items():
                if row["component"] == "chip":
                    continue
                found = [row["low_aj"], row["nominal_aj"], row["high_aj"]]
                want = [e * 1e6 for e in expected[name]]
                good = all(abs(f - w) <= 0.51 + 1e-6 * w for f, w in zip(found, want))
                t.expect("%s of %s %s" % (name, target, sets), good, (found, want))
                t.expect("source of " + name, row["source"] and row["rule"], row)
            t.equal("static power is not part of it", rows["cycle"]["high_aj"], 0)


PCCX = """
        .target pccx
        memset  weight_shape[0], 1, 8, 64
        memset  fmap_shape[0], 0, 0, 0
        memset  fmap_shape[1], 8, 1, 1
        wstream gemv, w, 272
        gemv    l2[0x10], l2[0], size=0, shape=0, w_scale, findemax
        cvo.exp l2[0x20], l2[0x10], len=8, sub_emax
        memcpy  host[out], l2[0x20], shape=1
        .data
        .balign 16
w:      .zero 272
        .balign 16
out:    .zero 16
"""
# 8 outputs of 64: the stream has 16 bytes of scales and 8 * 2 beats of 16; two groups of four cores; two beats a row.
PCCX_COUNTS = {"mac_int4_int8": 8 * 64, "memory_read": 16 + 8 * 2 * 16, "stream_read": 272, "stream_write": 272,
               "l2_read": 128 + 16 + 16, "l2_write": 16 + 16, "memory_write": 16, "lane_fp_mul": 64 + 8 + 8,
               "lane_fp_add": 64 + 8 + 8, "lane_convert": 64 + 8 + 8, "sfu_exp": 8, "l1_write": 64, "l1_read": 64 * 2,
               "accumulator_read": 4 * 8 * 2, "accumulator_write": 4 * 8 * 2, "constant_write": 3 * 6, "constant_read": 3 * 6,
               "fetch": 6 * 8, "decode": 6}

OPENNPU = """
        .target opennpu
        mma          vx0, vx8
        mma.keep     vx0, vx8
        mma.last     vr2
        vadd.sat     ve4, ve5, ve6
        vfma         vr3, vr2, vr0, vr1
        vlut.b       vx2, vx1
        ld.vx        vx3, 16(vr7)
        st.b         vx3, 0(vr7)
        vcvt_s8_f32.sat vx31, vr2
"""
# K = 8: a VX has 8 bytes, a VE 16, a VR 32; an address is lane 0 of a VR; ACC has 256 bytes, a column of it 32.
OPENNPU_COUNTS = {"mac_int8_int8": 2 * 64, "accumulator_write": 256 + 256, "accumulator_read": 256 + 32,
                  "register_read": 16 + 16 + 2 * 16 + 3 * 32 + 8 + 4 + (4 + 1) + 32, "register_write": 32 + 16 + 32 + 8 + 8 + 8,
                  "lane_int16": 8, "lane_fp_fma": 8, "lut_read": 8, "memory_read": 8, "memory_write": 1, "lane_convert": 8,
                  "fetch": 9 * 4, "decode": 9}

# The published example: 4,096 bytes and 16,384 weights of 4 bits are loaded, then a product of 64 x 256 x 256 with binary32
# results, layer normalisation of 256 bytes, a store of 4,096 bytes.
CMDQ_COUNTS = {"memory_read": 4096 + 8192, "memory_write": 4096, "spm_write": 4096 + 8192 + 64 * 256 * 4 + 256,
               "spm_read": 64 * 256 + 256 * 256 // 2 + 256 + 4096, "mac_int4_int8": 64 * 256 * 256, "lane_fp_mul": 3 * 64 * 256,
               "lane_convert": 64 * 256 + 2 * 256, "accumulator_read": 4 * 64 * 256 * 4, "accumulator_write": 4 * 64 * 256 * 4,
               "lane_fp_add": 2 * 256, "lane_fp_fma": 2 * 256, "sfu_sqrt": 1, "sfu_recip": 1, "fetch": 6 * 64, "decode": 6}


def counts_are_those_worked_by_hand(t):
    cases = [("pccx", write(t, "hand.s", PCCX), [], PCCX_COUNTS), ("opennpu", write(t, "hand8.s", OPENNPU), ["-c", "test"], OPENNPU_COUNTS),
             ("cmdq", os.path.join(ROOT, "examples/cmdq/published.json"), [], CMDQ_COUNTS)]
    for target, path, more, expected in cases:
        for mode in ([], ["--timing-only"], ["--functional"]):
            result = json.loads(t.call("run", path, "--json", *more, *mode)[1])["result"]
            found = {n: a["count"] for n, a in result["energy"]["actions"].items() if n not in ("cycle", "idle")}
            t.equal("%s %s" % (target, mode), found, expected)
            if not mode:
                time = {n: result["energy"]["actions"][n]["count"] for n in ("cycle", "idle")}
                idle = sum(result["cycles"] - e["busy"] for e in result["engines"].values())
                t.equal("time of " + target, time, {"cycle": result["cycles"], "idle": idle})


def write(t, name, text):
    path = os.path.join(t.folder, name)
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
    return path


def totals_are_counts_times_energies(t):
    """In whole attojoules, of every example."""
    for target in SIZES:
        folder = os.path.join(ROOT, "examples", target)
        for name in sorted(os.listdir(folder)):
            if not re.search(r"\.s$|(?<!expect)\.json$", name):
                continue
            more = ["-D", "energy.static_uw=5000", "-D", "energy.process_nm=12"]
            status, out, _ = t.call("run", os.path.join(folder, name), "--json", "--no-hazards", *more)
            result = json.loads(out)["result"]
            if status or not result:
                continue
            energy, sums = result["energy"], [0, 0, 0]
            config = {row["name"]: row for row in json.loads(
                t.call("config", "-t", target, "--energy", "--json", *more)[1])["result"]["energies"]}
            profile = open(os.path.join(folder, name), encoding="utf-8").read()
            if ".profile" in profile or ".require" in profile:
                continue
            for action, a in energy["actions"].items():
                each = [config[action][k] for k in ("low_aj", "nominal_aj", "high_aj")]
                t.equal("%s of %s" % (action, name), [int(x) for x in a["energy"]["attojoules"]], [a["count"] * e for e in each])
                sums = [s + a["count"] * e for s, e in zip(sums, each)]
            t.equal("total of " + name, [int(x) for x in energy["total"]["attojoules"]], sums)
            parts = list(energy["engines"].values()) + [energy["static"]]
            t.equal("parts of " + name, [sum(int(p["attojoules"][i]) for p in parts) for i in range(3)], sums)
            t.expect("static energy of " + name, int(energy["static"]["attojoules"][1]) > 0 or not result["cycles"])
            joules = [energy["total"][k] for k in ("low", "nominal", "high")]
            t.expect("joules of " + name, all(abs(j * 1e18 - s) <= 1e-8 * s for j, s in zip(joules, sums)), joules)


def a_trace_has_the_energy(t):
    path, trace = os.path.join(ROOT, "examples/pccx/softmax.s"), os.path.join(t.folder, "t.json")
    run = json.loads(t.call("run", path, "--trace", trace, "--json")[1])["result"]["energy"]["total"]
    t.equal("summary", json.loads(t.call("trace", trace, "--json")[1])["result"]["energy"], run)
    t.expect("as text", "energy 64.85 (47.95 to 130) nJ" in t.call("trace", trace)[1])
    perfetto = os.path.join(t.folder, "p.json")
    t.call("trace", "convert", trace, "-o", perfetto, "--to", "perfetto")
    if os.path.exists(perfetto):
        t.equal("converted", json.loads(t.call("trace", perfetto, "--json")[1])["result"]["energy"], run)


def accelergy_reads_the_tables(t):
    if yaml is None:
        return
    for target in SIZES:
        ert, art = os.path.join(t.folder, "ert.yaml"), os.path.join(t.folder, "art.yaml")
        t.equal("exit status", t.call("config", "-t", target, "--accelergy-ert", ert, "--accelergy-art", art)[0], 0)
        with open(ert, encoding="utf-8") as file:
            table = yaml.safe_load(file)["ERT"]
        rows, count = energies(t, target), 0
        t.equal("version", str(table["version"]), "0.4")
        t.equal("components are unique", len({c["name"] for c in table["tables"]}), len(table["tables"]))
        for component in table["tables"]:
            machine, name = component["name"].split(".")
            t.equal("machine", machine, target)
            for action in component["actions"]:
                row = next(r for r in rows.values() if r["component"] == name and
                           (r["name"].split("_", 1)[1] if "_" in r["name"] else r["name"]) == action["name"])
                t.expect("energy of %s.%s" % (name, action["name"]), abs(action["energy"] * 1e6 - row["nominal_aj"]) < 0.5, action)
                t.expect("arguments", action["arguments"] is None)
                count += 1
        t.equal("all rows", count, len(rows))
        with open(art, encoding="utf-8") as file:
            t.equal("no areas", yaml.safe_load(file)["ART"]["tables"], [])


class Energy(Suite):
    def call(self, *arguments):
        done = subprocess.run([self.trivet, *arguments], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr


def main():
    options = parse_arguments(__doc__, "trivet")
    t = Energy(options.trivet, options)
    for test in (the_table_follows_from_the_literature, counts_are_those_worked_by_hand, totals_are_counts_times_energies,
                 a_trace_has_the_energy, accelergy_reads_the_tables):
        if t.word in test.__name__:
            test(t)
    sys.exit(t.finish())


if __name__ == "__main__":
    main()
