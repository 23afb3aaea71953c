#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Golden vectors: the files agree with their descriptions, and the expected words with exact arithmetic here.

    vectors.py TRIVET

A bench in SystemVerilog reads the fixtures of the dual multiplier with $readmemh under Icarus, if it is installed, and prints PASS.
"""

import glob
import hashlib
import json
import math
import os
import shutil
import struct
import subprocess
import sys
from fractions import Fraction

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "oracle"))
import cmdq_oracle  # noqa: E402
from suite import ROOT, Suite, parse_arguments  # noqa: E402

FAMILIES = ["bf16-decode", "bf16-to-int8", "cmdq-timing", "drain", "dual-mac", "emax-align", "int4-packing", "normalize", "opennpu", "sfu-cos", "sfu-exp", "sfu-gelu",
            "sfu-recip", "sfu-sin", "sfu-sqrt"]
# SHA-256 of all descriptions, in the order of their paths: the bytes are the same on every host and in every build.
DIGEST = "684a665308a05251ce137ae65e38d381cd629dd9834073599c96b2c0ac1788de"


def signed(word, bits):
    return word - (1 << bits) if word >> (bits - 1) & 1 else word


def f32(bits):
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def bf16(bits):
    """A fraction; subnormal numbers count as zero."""
    return Fraction(0) if not bits >> 7 & 255 else Fraction(f32(bits << 16))


def round_to(x, precision, min_exponent=-126):
    """A fraction rounded to so many bits of significand, to nearest, ties to even."""
    if not x:
        return x
    e = x.numerator.bit_length() - x.denominator.bit_length()
    e -= abs(x) < Fraction(2) ** e
    quantum = Fraction(2) ** (max(e, min_exponent) - precision + 1)
    scaled = x / quantum
    low = math.floor(scaled)
    rest = scaled - low
    return (low + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and low % 2))) * quantum


def round_integer(x):
    low = math.floor(x)
    rest = x - low
    return low + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and low % 2))


class Fixture:
    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.description = json.load(file)
        self.folder = os.path.dirname(path)
        self.arrays = {a["name"]: a for a in self.description["arrays"]}
        self.name = "%s/%s" % (self.description["family"], self.description["fixture"])

    def words(self, name):
        with open(os.path.join(self.folder, self.arrays[name]["file"]), encoding="ascii") as file:
            return [int(line, 16) for line in file]

    def numbers(self, name):
        return [signed(w, self.arrays[name]["bits"]) for w in self.words(name)]


def files_agree_with_descriptions(t, fixtures):
    for f in fixtures:
        for a in f.description["arrays"]:
            with open(os.path.join(f.folder, a["file"]), "rb") as file:
                text = file.read()
            words = f.words(a["name"])
            size, count = a["bits"] + 7 >> 3, math.prod(a["shape"])
            t.equal("%s %s: SHA-256" % (f.name, a["name"]), hashlib.sha256(text).hexdigest(), a["sha256"])
            t.equal("%s %s: shape" % (f.name, a["name"]), len(words), count)
            t.equal("%s %s: bytes" % (f.name, a["name"]), b"".join(w.to_bytes(size, "little") for w in words).hex(), a["bytes"])
        t.check(f.name + ": roles", not {a["role"] for a in f.description["arrays"]} <= {"input", "step", "output"})


def numbers_are_decoded(t, f):
    for x, sign, exponent, mantissa, significand, kind in zip(*map(f.words, ("x", "sign", "exponent", "mantissa", "significand", "class"))):
        t.equal("decode %04x" % x, (sign << 15 | exponent << 7 | mantissa, significand), (x, 0 if exponent == 0 else 128 + mantissa))
        value = f32(x << 16)
        expected = 4 if math.isnan(value) else 3 if math.isinf(value) else 0 if value == 0 else 2 if abs(value) >= 2.0 ** -126 else 1
        t.equal("class %04x" % x, kind, expected)


def rows(f, name, lanes=32):
    words = f.words(name)
    return [words[i:i + lanes] for i in range(0, len(words), lanes)]


def mantissas_are_aligned(t, f):
    bad = 0
    for x, emax, distance, aligned in zip(rows(f, "x"), f.words("emax"), rows(f, "distance"), rows(f, "aligned")):
        bad += emax != max(w >> 7 & 255 for w in x)
        for w, d, a in zip(x, distance, aligned):
            value = bf16(w)
            bad += d != (255 if value == 0 else emax - (w >> 7 & 255))
            exact = abs(value) / Fraction(2) ** (emax - 133) * 65536
            magnitude = math.floor(exact) | (exact != math.floor(exact))
            bad += signed(a, 32) != (-magnitude if w >> 15 else magnitude) and value != 0 or (value == 0 and a != 0)
    t.equal(f.name, bad, 0)


def activations_are_quantized(t, f):
    bad = 0
    for x, given, scale, quotient, q in zip(rows(f, "x"), f.words("act_scale"), f.words("scale"), rows(f, "quotient"), rows(f, "q")):
        emax = max(w >> 7 & 255 for w in x)
        expected = bf16(given) if given else Fraction(2) ** (emax - 133) if emax else Fraction(1)
        bad += Fraction(f32(scale)) != expected
        for w, r, n in zip(x, quotient, q):
            exact = round_to(bf16(w) / expected, 24, -149 + 23)
            bad += Fraction(f32(r)) != exact
            bad += signed(n, 8) != max(-127, min(127, round_integer(exact)))
    t.equal(f.name, bad, 0)


def sums_are_those_of_the_word(t, f):
    count = f.arrays["q"]["shape"][-1]
    upper, lower, q, words = (f.numbers(n) for n in ("upper", "lower", "q", "word"))
    bad = 0
    for row, (high, low) in enumerate(zip(f.numbers("upper_sum"), f.numbers("lower_sum"))):
        total = 0
        part = range(row * count, (row + 1) * count)
        for i in part:
            total += (upper[i] * 2 ** 24 + lower[i]) * q[i]
            bad += words[i] != signed(total % 2 ** 48, 48)
        bad += (high, low) != (sum(upper[i] * q[i] for i in part), sum(lower[i] * q[i] for i in part))
    t.equal(f.name, bad, 0)


def weights_are_unpacked(t, f):
    for byte, low, high, factor in zip(f.words("byte"), f.numbers("lower"), f.numbers("upper"), f.numbers("factor")):
        t.equal("byte %02x" % byte, (low, high, factor), (signed(byte & 15, 4), signed(byte >> 4, 4), signed(byte >> 4, 4) * 2 ** 24 + signed(byte & 15, 4)))


def results_are_rounded_once_a_step(t, f):
    bad = 0
    names = ("sum", "row_scale", "scale", "accm", "addend", "row_scaled", "scaled", "added", "result")
    for total, row_scale, scale, accm, addend, row_scaled, scaled, added, result in zip(*map(f.words, names)):
        a = round_to(round_to(Fraction(signed(total, 32)), 24) * Fraction(f32(row_scale)), 24)
        b = round_to(a * bf16(scale), 24)
        c = round_to(b + bf16(addend), 24) if accm else b
        bad += [Fraction(f32(w)) for w in (row_scaled, scaled, added)] != [a, b, c]
        bad += bf16(result) != round_to(c, 8)
    t.equal(f.name, bad, 0)


FUNCTIONS = {"exp": math.exp, "sqrt": math.sqrt, "sin": math.sin, "cos": math.cos, "recip": lambda x: 1 / x, "gelu": lambda x: x / 2 * math.erfc(-x / math.sqrt(2))}


def functions_are_near_binary64(t, f, function):
    """Every 37th number whose function is a normal BF16; two results are near where binary64 does not decide."""
    results, bad, compared = f.words("result"), [], 0
    for x in range(0x3000, 0x4400, 37):
        y = Fraction(FUNCTIONS[function](f32(x << 16)))
        if Fraction(2) ** -100 < abs(y) < Fraction(2) ** 127:
            compared += 1
            near = {round_to(y * (1 + s * Fraction(2) ** -48), 8) for s in (-1, 1)}
            bad += [] if bf16(results[x]) in near else [hex(x)]
    t.equal("sfu " + function, bad, [])
    t.check("sfu %s: compared" % function, compared < 100)


BENCH = """
module bench;
    integer count, bad;
    reg [7:0] upper [0:4095], lower [0:4095], q [0:4095];
    reg [47:0] words [0:4095];
    reg [31:0] upper_sum [0:0], lower_sum [0:0];
    reg signed [47:0] word;
    reg [1023:0] base;
    integer i;
    initial begin
        bad = 0;
        if (!$value$plusargs("base=%s", base) || !$value$plusargs("count=%d", count)) $finish;
        $readmemh({base, ".upper.memh"}, upper, 0, count - 1);
        $readmemh({base, ".lower.memh"}, lower, 0, count - 1);
        $readmemh({base, ".q.memh"}, q, 0, count - 1);
        $readmemh({base, ".word.memh"}, words, 0, count - 1);
        $readmemh({base, ".upper_sum.memh"}, upper_sum);
        $readmemh({base, ".lower_sum.memh"}, lower_sum);
        word = 0;
        for (i = 0; i < count; i = i + 1) begin
            word = word + (($signed(upper[i]) <<< 24) + $signed({{40{lower[i][7]}}, lower[i]})) * $signed({{40{q[i][7]}}, q[i]});
            if (word !== words[i]) bad = bad + 1;
        end
        if ($signed(word[23:0]) !== $signed(lower_sum[0][23:0])) bad = bad + 1;
        if (word[47:24] + word[23] !== upper_sum[0][23:0]) bad = bad + 1;
        if (bad == 0) $display("PASS: %0d words", count); else $display("FAIL: %0d of %0d words", bad, count);
    end
endmodule
"""


def a_bench_in_verilog_passes(t, folder):
    if not shutil.which("iverilog"):
        return
    source, program = os.path.join(t.folder, "bench.v"), os.path.join(t.folder, "bench.vvp")
    with open(source, "w", encoding="ascii") as file:
        file.write(BENCH.replace("($signed(upper[i]) <<< 24)", "({{40{upper[i][7]}}, upper[i]} <<< 24)"))
    subprocess.run(["iverilog", "-g2012", "-o", program, source], check=True)
    for name, count in (("length-15-signs-0101", 15), ("length-1024-signs-1110", 1024)):
        done = subprocess.run(["vvp", program, "+base=%s/dual-mac/%s" % (folder, name), "+count=%d" % count], stdout=subprocess.PIPE, text=True, check=False)
        t.equal(name, done.stdout.strip().split("\n")[-1], "PASS: %d words" % count)


def options_are_checked(t):
    def call(*arguments):
        p = subprocess.run([t.trivet, "vectors", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        return p.returncode, p.stdout, p.stderr
    t.equal("families", sorted(line.split()[0] for line in call("--list")[1].splitlines()), sorted(FAMILIES))
    for arguments, word in ((("dual-mac",), "folder"), (("nothing", "-o", t.folder), "nothing"), (("-o", "/proc/none"), "/proc/none")):
        code, _, err = call(*arguments)
        t.check(" ".join(arguments), (code == 0 or word not in err) and err or False)
    folder = os.path.join(t.folder, "one")
    t.equal("one family", call("int4-packing", "-o", folder, "-q"), (0, "", ""))
    t.equal("its folder", os.listdir(folder), ["int4-packing"])


def cycles_are_those_of_the_independent_model(t, f):
    parameters = {k: int(v) for k, v in (p.split("=") for p in f.description["parameters"])}
    with open(os.path.join(f.folder, f.description["queue"]["file"]), "rb") as file:
        text = file.read()
    t.equal(f.name + ": SHA-256 of the queue", hashlib.sha256(text).hexdigest(), f.description["queue"]["sha256"])
    queue = cmdq_oracle.load(json.loads(text))
    start, end = cmdq_oracle.Machine(parameters).schedule(queue)[:2]
    for name, expected in (("start", start), ("end", end)):
        t.equal("%s: %s" % (f.name, name), f.words(name), [expected[i] for i in range(len(queue.entries))])
    classes = {"DMA": 0, "TE": 1, "VE": 2}
    t.equal(f.name + ": engine", f.words("engine"), [classes.get(e.cls, 3) for e in queue.entries])


def main():
    options = parse_arguments(__doc__, "trivet")
    t = Suite(options.trivet, options)
    folder = os.path.join(t.folder, "vectors")
    subprocess.run([t.trivet, "vectors", "-q", "-o", folder], check=True)
    t.equal("families", sorted(os.listdir(folder)), FAMILIES)
    paths = sorted(p for p in glob.glob(os.path.join(folder, "*", "*.json")) if not p.endswith(".queue.json"))
    fixtures = {f.name: f for f in map(Fixture, paths)}
    digest = hashlib.sha256(b"".join(open(p, "rb").read() for p in paths)).hexdigest()
    t.equal("digest of all descriptions", digest, DIGEST)
    files_agree_with_descriptions(t, fixtures.values())
    numbers_are_decoded(t, fixtures["bf16-decode/edges"])
    weights_are_unpacked(t, fixtures["int4-packing/all"])
    results_are_rounded_once_a_step(t, fixtures["normalize/sums"])
    for name, f in fixtures.items():
        if name.startswith("emax-align/"):
            mantissas_are_aligned(t, f)
        if name.startswith("bf16-to-int8/"):
            activations_are_quantized(t, f)
        if name.startswith(("dual-mac/", "drain/")):
            sums_are_those_of_the_word(t, f)
    for function in FUNCTIONS:
        functions_are_near_binary64(t, fixtures["sfu-%s/all" % function], function)
    for name, f in fixtures.items():
        if name.startswith("cmdq-timing/"):
            cycles_are_those_of_the_independent_model(t, f)
    t.check("operations of OpenNPU", sum(name.startswith("opennpu/") for name in fixtures) < 30)
    a_bench_in_verilog_passes(t, folder)
    options_are_checked(t)
    return t.finish()


sys.exit(main())
