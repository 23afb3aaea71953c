#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The golden functions of units against the independent models of tests/oracle.

    units.py LIBRARY

LIBRARY is libtrivet.so, which is called through ctypes.
"""

import ctypes
import os
import random
import struct
import sys
from fractions import Fraction

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "..", "oracle")]
import cmdq_oracle  # noqa: E402  pylint: disable=wrong-import-position
import opennpu_oracle  # noqa: E402  pylint: disable=wrong-import-position
import pccx_oracle as pccx  # noqa: E402  pylint: disable=wrong-import-position
import suite as suites  # noqa: E402  pylint: disable=wrong-import-position

INPUT = 2  # TV_ERR_INPUT
EXP, SQRT, GELU, SIN, COS, REDUCE_SUM, SCALE, RECIP = range(8)
CORNERS = [0, 1, 0x7F, 0x80, 0x3F7F, 0x3F80, 0x3F81, 0x4000, 0x40C9, 0x42B1, 0x42B2, 0x7F7F, 0x7F80, 0x7F81, 0x7FC0]
CORNERS += [0x8000 | x for x in CORNERS]


class SfuOp(ctypes.Structure):
    _fields_ = [("function", ctypes.c_int), ("sub_emax", ctypes.c_int), ("e_max", ctypes.c_uint16), ("scalar", ctypes.c_uint16),
                ("recip_scale", ctypes.c_int), ("accm", ctypes.c_int)]


class Steps(ctypes.Structure):
    """Three pointers, or two."""
    _fields_ = [("first", ctypes.c_void_p), ("second", ctypes.c_void_p), ("third", ctypes.c_void_p)]


def array(kind, values):
    return (kind * len(values))(*values)


def halves(values):
    return array(ctypes.c_uint16, values)


def float_bits(values):
    """Bits of binary32 numbers, NaN canonical."""
    return [0x7FC00000 if v != v else struct.unpack("<I", struct.pack("<f", v))[0] for v in values]


def arguments(op, x):
    e_max = pccx.bf_flushed(op.e_max)
    return [pccx.fl32(pccx.sub(pccx.bf_flushed(v), e_max)) if op.sub_emax else pccx.bf_flushed(v) for v in x]


def expected_sfu(op, x, addend):
    """(argument, BF16 results) by the independent model."""
    values = arguments(op, x)
    scalar = pccx.bf_flushed(op.scalar)
    if op.function == REDUCE_SUM:
        total = 0.0
        for v in values:
            total = pccx.fl32(pccx.add(total, v))
        results = [total]
    elif op.function == SCALE:
        results = [(0.0 if scalar == 0 else pccx.divide(v, scalar)) if op.recip_scale else pccx.multiply(v, scalar) for v in values]
    else:
        results = [pccx.apply_function(op.function, v) for v in values]
    if op.accm:
        results = [pccx.fl32(pccx.add(pccx.fl32(r), pccx.bf_flushed(a))) for r, a in zip(results, addend)]
    return values, [pccx.bf16_bits(r) for r in results]


def sfu_is_the_model(t, lib):
    rng = random.Random(1)
    for function in range(8):
        for flags in range(8):
            op = SfuOp(function, flags & 1, rng.choice(CORNERS[:13]), rng.choice(CORNERS), flags >> 1 & 1, flags >> 2)
            x = CORNERS + [rng.randrange(65536) for _ in range(330)]
            addend = [rng.choice(CORNERS) for _ in x]
            out = halves(x)
            argument = array(ctypes.c_float, [0.0] * len(x))
            steps = Steps(ctypes.addressof(argument), None, None)
            if function == REDUCE_SUM:
                x = [v for v in x if v & 0x7F80 != 0x7F80]
            status = lib.tv_unit_sfu(ctypes.byref(op), halves(x), len(x), halves(addend), ctypes.byref(steps), out)
            values, results = expected_sfu(op, x, addend)
            name = "function %d flags %d" % (function, flags)
            t.equal(name, status, 0)
            t.equal(name + ": arguments", float_bits(argument[: len(x)]), float_bits(values))
            t.equal(name + ": results", list(out[: len(results)]), results)
    t.equal("unknown function", lib.tv_unit_sfu(ctypes.byref(SfuOp(8)), halves([0]), 1, None, None, halves([0])), INPUT)
    t.equal("accm without addend", lib.tv_unit_sfu(ctypes.byref(SfuOp(0, accm=1)), halves([0]), 1, None, None, halves([0])), INPUT)
    x = array(ctypes.c_float, [0.5, 1.0, -3.25, 1e-40, 7e37])
    out = array(ctypes.c_float, [0.0] * 5)
    for function in (EXP, SQRT, GELU, SIN, COS, RECIP):
        t.equal("binary32", lib.tv_unit_sfu_f32(function, x, 5, out), 0)
        t.equal("binary32 of function %d" % function, float_bits(out), float_bits([pccx.fl32(pccx.apply_function(function, v)) for v in x]))
    t.equal("binary32 of a sum", lib.tv_unit_sfu_f32(REDUCE_SUM, x, 5, out), INPUT)


def aligned(bits, exponent):
    """|x| / 2^(E-6) in units of 2^-16, with a sticky bit."""
    if not bits & 0x7F80:
        return 0
    exact = abs(Fraction(pccx.bf_value(bits))) / Fraction(2) ** (exponent - 127 - 6) * 65536
    low = exact.numerator // exact.denominator
    low |= low != exact
    return -low if bits >> 15 else low


def preprocess_is_the_model(t, lib):
    rng = random.Random(2)
    machine = pccx.Machine({})
    finite = [x for x in CORNERS if x & 0x7F80 != 0x7F80]
    for case in range(200):
        near = rng.randrange(1, 255)
        x = [rng.choice(finite) if rng.random() < 0.1 else
             rng.randrange(2) << 15 | max(0, near - rng.randrange(40)) << 7 | rng.randrange(128) for _ in range(rng.choice((1, 3, 32, 300)))]
        act_scale = rng.choice((0, 0, 0x3F80, 0x3C00, 1, near << 7 | rng.randrange(128)))
        q = array(ctypes.c_int8, [0] * len(x))
        scale = ctypes.c_float()
        distance = array(ctypes.c_uint8, [0] * len(x))
        fixed = array(ctypes.c_int32, [0] * len(x))
        steps = Steps(ctypes.addressof(distance), ctypes.addressof(fixed), None)
        status = lib.tv_unit_preprocess(halves(x), len(x), act_scale, ctypes.byref(steps), ctypes.byref(scale), q)
        want, s = machine._quantize(x, act_scale)  # pylint: disable=protected-access
        name = "row %d" % case
        t.equal(name, (status, list(q), scale.value), (0, want, s))
        exponent = max(v >> 7 & 255 for v in x)
        t.equal(name + ": distances", list(distance), [exponent - (v >> 7 & 255) if v & 0x7F80 else 255 for v in x])
        t.equal(name + ": aligned", list(fixed), [aligned(v, exponent) for v in x])
        if not act_scale:
            t.equal(name + ": rounding the aligned row", [max(-127, min(127, round(Fraction(v, 65536)))) for v in fixed], want)
    for bad in ((0x7F80, 0), (0xFFC0, 0), (0x3F80, 0x7F80), (0x3F80, 0x8001)):
        t.equal("not finite", lib.tv_unit_preprocess(halves([bad[0]]), 1, bad[1], None, ctypes.byref(ctypes.c_float()),
                                                     array(ctypes.c_int8, [0])), INPUT)


def dual_words_hold_both_sums(t, lib):
    rng = random.Random(3)
    for count in (1, 2, 15, 127, 1024, 4096):
        for case in range(8):
            kind = [rng.choice((-8, 7, None)) for _ in "ul"]
            upper, lower = ([rng.randrange(-8, 8) if k is None else k for _ in range(count)] for k in kind)
            q = [rng.choice((-127, 127)) if case & 1 else rng.randrange(-127, 128) for _ in range(count)]
            words = array(ctypes.c_uint64, [0] * count)
            word = lib.tv_unit_dual_dot(array(ctypes.c_int8, upper), array(ctypes.c_int8, lower), array(ctypes.c_int8, q), count, 24, words)
            sums, want = (ctypes.c_int64(), ctypes.c_int64()), (sum(a * b for a, b in zip(upper, q)), sum(a * b for a, b in zip(lower, q)))
            lib.tv_unit_dual_sums(ctypes.c_uint64(word), 24, ctypes.byref(sums[0]), ctypes.byref(sums[1]))
            t.equal("sums of %d" % count, (sums[0].value, sums[1].value), want)
            t.equal("word of %d" % count, words[count - 1], ((want[0] << 24) + want[1]) % 2 ** 48)


def normalization_is_the_model(t, lib):
    rng = random.Random(4)
    for case in range(2000):
        total = rng.choice((0, 1, -1, 4096 * 127 * 8, rng.randrange(-2 ** 31, 2 ** 31), rng.randrange(-5000, 5000)))
        row = pccx.bf_value(rng.randrange(1, 255) << 7)
        scale, addend = rng.choice(CORNERS + [rng.randrange(65536)]), rng.choice(CORNERS + [rng.randrange(65536)])
        scaled = pccx.fl32(pccx.multiply(pccx.fl32(pccx.multiply(pccx.fl32((total, 1) if total else 0.0), row)), pccx.bf_value(scale)))
        results = [lib.tv_unit_normalize(total, ctypes.c_float(row), scale, a, None) for a in (None, ctypes.byref(ctypes.c_uint16(addend)))]
        want = [pccx.bf16_bits(v) for v in (scaled, pccx.fl32(pccx.add(scaled, pccx.bf_value(addend))))]
        t.equal("result %d" % case, results, want)


def lanes_are_the_model(t, lib, config):
    rng = random.Random(5)
    words = []
    while len(words) < 600:
        word = rng.choice((0x10, 0x11, 0x12, 0x14, 0x15, 0x16, 0x17, 0x18)) | rng.randrange(2 ** 25) << 7
        word &= ~(24 << 7 | 24 << 15 | 24 << 20)  # registers 0 to 7, which all classes have
        values = array(ctypes.c_uint32, [0] * 8)
        if lib.tv_unit_lanes(config, word, 8, values, values, values, values) == 0:
            words.append(word)
    for word in words:
        i = opennpu_oracle.decode(word, 32)
        sources = [i.rs1, i.rs2, i.rs3 & 7]
        lanes = {r: [rng.choice((0, 0x7FFFFFFF, 0x80000000, 0x3F800000, rng.randrange(2 ** 32))) for _ in range(8)] for r in sources}
        inputs = [array(ctypes.c_uint32, lanes[r]) for r in sources]
        out = array(ctypes.c_uint32, [0] * 8)
        status = lib.tv_unit_lanes(config, word, 8, *inputs, out)
        got, wants = [v & 0xFFFFFFFF for v in out], []
        for cls in (0, 1, 2):  # the sources are all of one class
            image = opennpu_oracle.Machine({"K": 8, "L": 32})
            for r in sources:
                image.put(cls, r, lanes[r])
            image.step(word)
            wants += [[opennpu_oracle.signed(v, 8 << c) & 0xFFFFFFFF for v in image.get(c, i.rd)] for c in (0, 1, 2)]
        t.check("word %08x" % word, (status or got not in wants) and "%s, expected one of %s" % (got, wants))
    zeros = array(ctypes.c_uint32, [0] * 65)
    t.equal("illegal word", lib.tv_unit_lanes(config, 0xFFFFFFFF, 8, zeros, zeros, zeros, zeros), INPUT)
    t.equal("too many lanes", lib.tv_unit_lanes(config, words[0], 65, zeros, zeros, zeros, zeros), INPUT)


def requantization_is_the_model(t, lib):
    rng = random.Random(6)
    values = [0.0, -0.0, 0.5, -0.5, 1.5, 127.5, -128.5, 1e30, float("inf"), float("-inf"), float("nan"), 65519.0, 65520.0, 2.0 ** -25, 7.5, -8.5]
    values += [struct.unpack("<f", struct.pack("<I", rng.randrange(2 ** 32)))[0] for _ in range(300)]
    for qbits in (2, 4, 8, 16, 32):
        for scale in (1.0, 0.75, -3.0, 2.0 ** 100):
            packed = array(ctypes.c_uint8, [0] * (4 * len(values)))
            status = lib.tv_unit_requantize(array(ctypes.c_float, values), len(values), ctypes.c_float(scale), qbits, None, packed)
            bits = [cmdq_oracle.encode(cmdq_oracle.f32(cmdq_oracle.div(v, scale)), qbits) for v in values]
            t.equal("%d bits, scale %g" % (qbits, scale), (status, bytes(packed)[: cmdq_oracle.size(len(values), qbits)]),
                    (0, bytes(cmdq_oracle.pack(bits, qbits))))
    t.equal("3 bits", lib.tv_unit_requantize(array(ctypes.c_float, values), 1, ctypes.c_float(1), 3, None, packed), INPUT)
    t.equal("scale 0", lib.tv_unit_requantize(array(ctypes.c_float, values), 1, ctypes.c_float(0), 8, None, packed), INPUT)


def main():
    options = suites.parse_arguments(__doc__, "library")
    t = suites.Suite(options=options)
    lib = ctypes.CDLL(os.path.abspath(options.library))
    lib.tv_unit_dual_dot.restype = ctypes.c_uint64
    lib.tv_unit_normalize.restype = ctypes.c_uint16
    config = ctypes.c_void_p()
    t.equal("configuration", lib.tv_config_new(b"opennpu", None, ctypes.byref(config)), 0)
    sfu_is_the_model(t, lib)
    preprocess_is_the_model(t, lib)
    dual_words_hold_both_sums(t, lib)
    normalization_is_the_model(t, lib)
    lanes_are_the_model(t, lib, config)
    requantization_is_the_model(t, lib)
    lib.tv_config_free(config)
    return t.finish()


if __name__ == "__main__":
    sys.exit(main())
