#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks of the oracle against values worked out by hand.

Each expected number is derived in the comment beside it from the rules of the
specification, not from a run of the oracle.
"""

import os
import random
import struct
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from opennpu_oracle import (BF16, BF8, CEIL, F32, FLOOR, RNE, RTZ, S16, S32,  # noqa: E402
                            S8, VE, VR, VX, BFLOAT16, E4M3, E5M2, FP32, Fault,
                            Machine, convert, decode)
from opennpu_random import (FAULTS, arith, asm, bcast, bcast_imm, cvt,  # noqa: E402
                            enc_r, fma, fp, gen, ld, logic, mma, mma_last,
                            mma_reset, mov, movh, movi, red, st, vlut,
                            vsetlut)

ADD, SUB, MUL, NEG, ABS, MAX, MIN, RSUB = range(8)
SLL, SRL, SRA, ROL, XOR, NOT, OR, AND = range(8)
SUM, RMAX, RMIN, RAND, ROR, RXOR = range(6)
FADD, FSUB, FMUL, FNEG, FABS, FMAX, FMIN = range(7)
B, H, W, LVX, LVE, LVR = range(6)
MODES = (RNE, RTZ, FLOOR, CEIL)


def f32(v):
    return struct.unpack("<I", struct.pack("<f", v))[0]


class Case(unittest.TestCase):
    def ok(self, m, words):
        r = m.run(words)
        self.assertEqual(r["status"], "ok", r["fault"])
        return r

    def lane(self, word, a, b=0, c=0, cls=VR, out=None):
        """Lane 0 of a word reading registers 1, 2, 3 and writing 0."""
        m = Machine()
        for n, v in ((1, a), (2, b), (3, c)):
            m.put(cls, n, [v & 0xFFFFFFFF] * 8)
        self.ok(m, [word])
        return m.get(cls if out is None else out, 0)[0]


class SeedTimes(Case):
    """The tick counts of the original document, for K = 8 and 64."""

    def ticks(self, words, want):
        for K in (8, 64):
            m = Machine({"K": K})
            w = words(K) if callable(words) else words
            n = want(K) if callable(want) else want
            self.assertEqual(self.ok(m, w)["ticks"], n)

    def test_relu(self):
        # The zero at 0, the maximum at 1, ready at 2.
        self.ticks([bcast_imm(2, 0), arith(MAX, VX, 3, 1, 2)], 2)

    def test_clamp(self):
        # The bounds are there before: 0, 1, ready at 2.
        self.ticks([arith(MIN, VX, 3, 1, 4), arith(MAX, VX, 3, 3, 5)], 2)

    def test_tanh(self):
        # The table is there before.
        self.ticks([vlut(0, 2, 1)], 1)

    def test_gelu(self):
        # 1, 64 and 7 are there before (vx8, vx9, vx10): five dependent
        # instructions of latency 1.
        self.ticks([logic(SRA, VX, 2, 1, 8), vlut(0, 3, 2),
                    arith(ADD, VX, 4, 3, 9), arith(MUL, VX, 5, 4, 1),
                    logic(SRA, VX, 6, 5, 10)], 5)

    def test_softmax(self):
        # vr1 is vx4..vx7, so vx4 is the low plane of the maximum; the sum
        # goes to vr2, whose low plane is vx8.
        self.ticks([red(RMAX, VX, 1, 1), arith(SUB, VX, 2, 1, 4, sat=1),
                    vlut(0, 3, 2), red(SUM, VX, 2, 3), vlut(1, 12, 8),
                    arith(MUL, VX, 13, 3, 12)], 6)

    def quantize(self, K):
        return ([mma(0, 1, int(i > 0)) for i in range(K)]
                + [mma_last(2) for _ in range(K)]
                + [cvt(F32, S32, 2, 2), fma(0, 2, 2, 3, 4),
                   cvt(S8, F32, 31, 2, sat=1)])

    def test_quantize(self):
        # mma 0..K-1; mma.last of column c at (K-1)+K+c, so 2K-1..3K-2; the
        # last VR at 3K; vcvt 3K (1), vfma 3K+1 (2), vcvt 3K+3 (2): 3K+5.
        self.ticks(self.quantize, lambda K: 3 * K + 5)
        m = Machine({"K": 8})
        r = self.ok(m, self.quantize(8))
        self.assertEqual(r["issue"][8:], list(range(15, 23)) + [24, 25, 27])
        self.assertEqual(r["ready"][16:], [25, 27, 29])


class Times(Case):
    def check(self, words, issue, ready, params=None, choices=None):
        m = Machine(params, choices)
        m.put(VR, 0, [0x100] * m.K)
        r = self.ok(m, words)
        self.assertEqual((r["issue"], r["ready"]), (issue, ready))

    def test_source(self):
        # vr1 is ready at 2; vx4 is one of its rows, vx8 is not.
        self.check([fma(0, 1, 2, 2, 2), arith(ADD, VX, 9, 8, 8),
                    arith(ADD, VX, 10, 4, 8)], [0, 1, 2], [2, 2, 3])
        self.check([fma(0, 1, 2, 2, 2), arith(ADD, VX, 9, 7, 8)],
                   [0, 2], [2, 3])

    def test_write_after_write(self):
        # ld ready at 4; a VALU result may come at 4: issue 3.
        self.check([ld(LVX, 5, 0), bcast_imm(5, 1)], [0, 3], [4, 4])
        # An FMA result at 4: issue 2.  vx5 is a row of vr1.
        self.check([ld(LVX, 5, 0), fma(0, 1, 2, 2, 2)], [0, 2], [4, 4])
        # One row beside it: no wait.
        self.check([ld(LVX, 12, 0), fma(0, 1, 2, 2, 2)], [0, 1], [4, 3])
        # movi and movh count as writes of their whole register.
        self.check([ld(LVX, 4, 0), movh(2, 1)], [0, 3], [4, 4])
        self.check([ld(LVX, 4, 0), movh(2, 1)], [0, 1], [4, 2], None,
                   {"movh_both_rows": False})
        self.check([ld(LVX, 4, 0), movi(4, 1)], [0, 3], [4, 4])

    def test_write_after_read(self):
        self.check([fma(0, 1, 2, 2, 2), bcast_imm(8, 1)], [0, 1], [2, 2])

    def test_port(self):
        # VR 0..3, VE 4..5, scalar 6, VX 7.
        self.check([ld(LVR, 1, 0), ld(LVE, 4, 0), ld(W, 3, 0),
                    st(LVX, 0, 0), 0],
                   [0, 4, 6, 7, 8], [4, 8, 10, 8, 9])
        # The port alone is held, not the issue.
        self.check([st(LVR, 1, 0), bcast_imm(16, 0), ld(B, 17, 0)],
                   [0, 1, 4], [1, 2, 8])
        self.check([ld(B, 4, 0)], [0], [9], {"ld.latency": 9})

    def test_store_waits(self):
        # Its data and its base are sources.
        self.check([ld(LVX, 8, 0), st(LVX, 8, 0)], [0, 4], [4, 5])
        self.check([ld(LVX, 3, 0, 4), st(LVX, 8, 0)], [0, 4], [4, 5])

    def test_conversions(self):
        for dst, src, want in ((S8, F32, 2), (S32, F32, 2), (F32, S32, 1),
                               (F32, S8, 1), (S8, S32, 1), (S32, S8, 1),
                               (S16, S32, 1), (S32, S16, 1), (BF16, F32, 1),
                               (F32, BF16, 1), (BF8, F32, 1), (F32, BF8, 1)):
            r = self.ok(Machine(), [cvt(dst, src, 0, 1)])
            self.assertEqual(r["ticks"], want)

    def test_table(self):
        self.check([vsetlut(0, 0, 0), vlut(0, 4, 5)], [0, 1], [1, 2])

    def test_last(self):
        # Nothing to wait for without an accumulation.
        self.check([mma_last(1)], [0], [2])
        # Columns 0, 1 at 8 and 9; then 2 is long there.
        self.check([mma(0, 1), mma_last(1), mma_last(2), 0, mma_last(3)],
                   [0, 8, 9, 10, 11], [1, 10, 11, 11, 13])
        # keep=1: waits for what came before it, and holds up the next: the
        # second column is one more than K after it.
        self.check([mma(0, 1), mma_last(1, 0, 1, 1), mma_last(2)],
                   [0, 8, 17], [1, 10, 19])
        self.check([mma_last(1, 0, 1, 1), mma_last(2)], [0, 9], [2, 11])
        self.check([mma(0, 1), mma_reset(), mma_last(1)], [0, 1, 8],
                   [1, 2, 10])

    def test_empty_and_nop(self):
        self.assertEqual(Machine().run([])["ticks"], 0)
        self.check([0, 0x12345 << 7], [0, 1], [1, 2])

    def test_fault_time(self):
        r = Machine().run([fma(0, 1, 2, 2, 2), 4, 0])
        self.assertEqual((r["fault"]["index"], r["ticks"]), (1, 2))


class Integers(Case):
    def test_arith(self):
        for f3, w, sat, a, b, want in (
                (ADD, VX, 1, 100, 100, 127), (ADD, VX, 0, 100, 100, 0xC8),
                (SUB, VX, 1, -100, 100, 0x80), (RSUB, VX, 0, 3, 10, 7),
                (RSUB, VX, 1, 127, -128, 0x80),
                (MUL, VX, 0, 100, 3, 0x2C),         # 300 = 0x12C
                (MUL, VX, 1, 100, -3, 0x80),
                (MUL, VE, 1, 0x4000, 4, 0x7FFF),
                (MUL, VR, 0, 0x10001, 0x10001, 0x20001),
                (MUL, VR, 1, -0x80000000, -1, 0x7FFFFFFF),
                (NEG, VX, 0, -128, 0, 0x80), (NEG, VX, 1, -128, 0, 0x7F),
                (ABS, VE, 0, -0x8000, 0, 0x8000),
                (ABS, VE, 1, -0x8000, 0, 0x7FFF), (ABS, VR, 0, -5, 0, 5),
                (MAX, VX, 1, -1, 1, 1), (MIN, VX, 0, -1, 1, 0xFF)):
            self.assertEqual(self.lane(arith(f3, w, 0, 1, 2, sat), a, b,
                                       cls=w), want)

    def test_logic(self):
        for f3, w, a, b, want in (
                (SLL, VX, 0x81, 9, 0x02),           # amount 9 mod 8
                (SRL, VX, 0x81, 1, 0x40), (SRA, VX, 0x81, 1, 0xC0),
                (ROL, VX, 0x81, 1, 0x03), (ROL, VX, 0x81, 8, 0x81),
                (ROL, VE, 0x8001, 4, 0x0018),
                (SRA, VR, 0x80000000, 63, 0xFFFFFFFF),
                (SRL, VR, 0x80000000, 31, 1), (SLL, VE, 1, 31, 0x8000),
                (XOR, VX, 0x0F, 0x3C, 0x33), (NOT, VE, 0x00FF, 0, 0xFF00),
                (OR, VX, 0x0F, 0x30, 0x3F), (AND, VX, 0x0F, 0x3C, 0x0C)):
            self.assertEqual(self.lane(logic(f3, w, 0, 1, 2), a, b, cls=w),
                             want)

    def test_reduce(self):
        m = Machine({"K": 4})
        m.put(VX, 0, [0x80, 1, 2, 0xFF])
        for f3, want in ((SUM, -126), (RMAX, 2), (RMIN, -128), (RAND, 0),
                         (ROR, -1), (RXOR, 0x80 ^ 1 ^ 2 ^ 0xFF)):
            # The sign extensions of two negative lanes cancel in rxor.
            self.ok(m, [red(f3, VX, 1, 0)])
            self.assertEqual(m.get(VR, 1), [want & 0xFFFFFFFF] * 4)
        m.put(VR, 0, [0x7FFFFFFF, 1, 1, 0])
        self.ok(m, [red(SUM, VR, 1, 0)])
        self.assertEqual(m.get(VR, 1), [0x80000001] * 4)

    def test_alias(self):
        m = Machine({"K": 4})
        m.put(VR, 1, [0x04030201] * 4)
        self.assertEqual([m.vx[r][0] for r in range(4, 8)], [1, 2, 3, 4])
        self.assertEqual(m.get(VE, 3)[2], 0x0403)

    def test_bcast_mov(self):
        m = Machine({"K": 4})
        m.put(VE, 1, [0x1234, 5, 6, 7])
        self.ok(m, [bcast(VE, 2, 1), bcast_imm(8, -7), bcast_imm(9, 0x1FE),
                    mov(VE, 5, 1), movi(10, 0x7FF), movh(5, -2)])
        self.assertEqual(m.get(VE, 2), [0x1234] * 4)
        self.assertEqual(m.get(VX, 8), [0xF9] * 4)
        self.assertEqual(m.get(VX, 9), [0xFE] * 4)
        # ve5 is vx10, vx11: movi sets the low byte of lane 0, movh the high.
        self.assertEqual(m.get(VE, 5), [0xFEFF, 5, 6, 7])

    def test_lut(self):
        m = Machine({"K": 4})
        m.put(VR, 0, [0x03020100, 0x07060504, 0x0B0A0908, 0x0F0E0D0C])
        m.put(VX, 8, [0xF3, 0xFF, 0, 0xEF])
        self.ok(m, [vsetlut(1, 0, 15), vlut(1, 9, 8), vlut(0, 10, 8)])
        self.assertEqual(m.get(VX, 9), [3, 15, 0, 0])
        self.assertEqual(m.get(VX, 10), [0] * 4)


class Floats(Case):
    def fp(self, f3, a, b, mode=RNE):
        return self.lane(fp(f3, 0, 1, 2, mode), a, b)

    def fma(self, f3, a, b, c, mode=RNE):
        return self.lane(fma(f3, 0, 1, 2, 3, mode), a, b, c)

    def test_rounding(self):
        # 1 + 2^-24 is half way to the next number, whose mantissa is odd.
        one, half = f32(1.0), f32(2.0 ** -24)
        for mode, want in zip(MODES, (0, 0, 0, 1)):
            self.assertEqual(self.fp(FADD, one, half, mode), one + want)
        for mode, want in zip(MODES, (0, 0, 1, 0)):
            self.assertEqual(self.fp(FADD, f32(-1.0), half ^ 0x80000000,
                                     mode), f32(-1.0) + want)
        self.assertEqual(self.fp(FADD, one + 1, half), one + 2)

    def test_zero(self):
        zero, minus = 0, 0x80000000
        one = f32(1.0)
        for mode in MODES:
            want = minus if mode == FLOOR else zero
            self.assertEqual(self.fp(FSUB, one, one, mode), want)
            self.assertEqual(self.fp(FADD, zero, minus, mode), want)
            self.assertEqual(self.fp(FADD, minus, minus, mode), minus)
            self.assertEqual(self.fp(FMUL, minus, one, mode), minus)
            self.assertEqual(self.fma(0, one, one, f32(-1.0), mode), want)
            # -(1*0) + -0 = -0 + -0
            self.assertEqual(self.fma(2, one, zero, minus, mode), minus)

    def test_specials_are_zero(self):
        inf, nan, sub = 0x7F800000, 0xFFC00000, 0x807FFFFF
        self.assertEqual(self.fp(FADD, inf, f32(2.0)), f32(2.0))
        self.assertEqual(self.fp(FMUL, nan, f32(2.0)), 0x80000000)
        self.assertEqual(self.fp(FADD, sub, sub), 0x80000000)
        self.assertEqual(self.fp(FNEG, inf, 0), 0xFF800000)
        self.assertEqual(self.fp(FABS, nan, 0), 0x7FC00000)
        self.assertEqual(self.fp(FMAX, nan, f32(-1.0)), 0x80000000)
        self.assertEqual(self.fp(FMAX, 0x80000000, 0), 0)
        self.assertEqual(self.fp(FMAX, 0, 0x80000000), 0)
        self.assertEqual(self.fp(FMIN, 0, 0x80000000), 0x80000000)
        self.assertEqual(self.fp(FMIN, 0x80000000, 0), 0x80000000)

    def test_limits(self):
        big = 0x7F7FFFFF
        for mode in MODES:
            self.assertEqual(self.fp(FADD, big, big, mode), big)
            self.assertEqual(self.fp(FMUL, big, f32(-2.0), mode),
                             big | 0x80000000)
        # 2^-126 * (1 - 2^-24) has 24 significant bits: no mode rounds it,
        # and it is below 2^-126, so it is zero. (1 - 2^-46) times 2^-126
        # rounds to 2^-126 to nearest and up.
        low, near = 0x00800000, 0x3F7FFFFF
        for mode in MODES:
            self.assertEqual(self.fp(FMUL, low, near, mode), 0)
        for mode, want in zip(MODES, (low, 0, 0, low)):
            self.assertEqual(self.fp(FMUL, low + 1, near - 1, mode), want)
        self.assertEqual(self.fp(FMUL, low, f32(-0.5), FLOOR), 0x80000000)

    def test_fused(self):
        # (1 + 2^-12)^2 - (1 + 2^-11) = 2^-24, lost by two roundings.
        a, c = f32(1 + 2.0 ** -12), f32(1 + 2.0 ** -11)
        self.assertEqual(self.fma(1, a, a, c), f32(2.0 ** -24))
        self.assertEqual(self.fma(2, a, a, c), f32(-2.0 ** -24))
        two, three, five = f32(2.0), f32(3.0), f32(5.0)
        for f3, want in enumerate((11.0, 1.0, -1.0, -11.0)):
            self.assertEqual(self.fma(f3, two, three, five), f32(want))
        # -(1*1) - 2^-24 rounded down is the next number away from zero.
        one, eps = f32(1.0), f32(2.0 ** -24)
        for mode, want in zip(MODES, (0, 0, 1, 0)):
            self.assertEqual(self.fma(3, one, one, eps, mode),
                             f32(-1.0) + want)

    def test_against_doubles(self):
        """RNE sums and products: a double holds or rounds them harmlessly."""
        rng = random.Random(3)
        for _ in range(1500):
            a, b = rng.getrandbits(32), rng.getrandbits(32)
            if rng.random() < 0.7:
                b = (a & 0x7F800000) + (rng.randint(-2, 2) << 23)
                b = (b & 0x7F800000) | rng.getrandbits(23) | (
                    rng.getrandbits(1) << 31)
            x, y = [struct.unpack("<f", struct.pack("<I", v))[0]
                    if 1 <= v >> 23 & 255 <= 254
                    else (-0.0 if v >> 31 else 0.0) for v in (a, b)]
            for f3, r in ((FADD, x + y), (FSUB, x - y), (FMUL, x * y)):
                try:
                    want = f32(r)
                except OverflowError:
                    want = f32(-1.0 if r < 0 else 1.0) & 0x80000000 | (
                        0x7F7FFFFF)
                if want & 0x7F800000 == 0:
                    want &= 0x80000000
                ops = {FADD: 0, FSUB: 1, FMUL: 2}
                m = Machine({"K": 4})
                m.put(VR, 1, [a] * 4)
                m.put(VR, 2, [b] * 4)
                m.step(fp(ops[f3], 0, 1, 2))
                self.assertEqual(m.get(VR, 0)[0], want, (hex(a), hex(b), f3))


class Conversions(Case):
    def modes(self, v, dst, src, want, sat=0, e5m2=0):
        got = [convert(v, dst, src, sat, mode, e5m2) for mode in MODES]
        self.assertEqual([hex(g) for g in got], [hex(w) for w in want])

    def test_float_to_integer(self):
        self.modes(f32(2.5), S8, F32, [2, 2, 2, 3])
        self.modes(f32(3.5), S8, F32, [4, 3, 3, 4])
        self.modes(f32(-2.5), S8, F32, [0xFE, 0xFE, 0xFD, 0xFE])
        self.modes(f32(300.0), S8, F32, [0x2C] * 4)
        self.modes(f32(300.0), S8, F32, [0x7F] * 4, sat=1)
        self.modes(f32(-128.5), S8, F32, [0x80, 0x80, 0x80, 0x80], sat=1)
        self.modes(f32(2.0 ** 31), S32, F32, [0x7FFFFFFF] * 4, sat=1)
        self.modes(f32(2.0 ** 31), S32, F32, [0x80000000] * 4)
        self.modes(f32(2.0 ** 40), S32, F32, [0] * 4)
        self.modes(0x7F800000, S32, F32, [0] * 4, sat=1)

    def test_integer(self):
        self.modes(0x80, S32, S8, [0xFFFFFF80] * 4)
        self.modes(0x8000, S32, S16, [0xFFFF8000] * 4)
        self.modes(0x12345, S16, S32, [0x2345] * 4)
        self.modes(0x12345, S16, S32, [0x7FFF] * 4, sat=1)
        self.modes(0xFFFFFF00, S8, S32, [0] * 4)
        self.modes(0xFFFFFF00, S8, S32, [0x80] * 4, sat=1)

    def test_integer_to_float(self):
        # 2^24 + 1 is half way between two numbers.
        self.modes(0x01000001, F32, S32, [0x4B800000] * 3 + [0x4B800001])
        self.modes(-0x01000001 & 0xFFFFFFFF, F32, S32,
                   [0xCB800000, 0xCB800000, 0xCB800001, 0xCB800000])
        self.modes(0x7FFFFFFF, F32, S32,
                   [0x4F000000, 0x4EFFFFFF, 0x4EFFFFFF, 0x4F000000])
        self.modes(0x80, F32, S8, [f32(-128.0)] * 4)
        self.modes(0, F32, S8, [0] * 4)

    def test_bf16(self):
        self.modes(0x3F808000, BF16, F32, [0x3F80, 0x3F80, 0x3F80, 0x3F81])
        self.modes(0x3F818000, BF16, F32, [0x3F82, 0x3F81, 0x3F81, 0x3F82])
        self.modes(0xFF7FFFFF, BF16, F32, [0xFF7F] * 4)
        self.modes(0x7FC0, F32, BF16, [0] * 4)
        self.modes(0x8001, F32, BF16, [0x80000000] * 4)
        self.modes(0x4049, F32, BF16, [0x40490000] * 4)

    def test_e4m3(self):
        self.modes(f32(448.0), BF8, F32, [0x7E] * 4)
        self.modes(f32(1e9), BF8, F32, [0x7E] * 4)
        self.modes(f32(-465.0), BF8, F32, [0xFE] * 4)
        # 1 + 1/16 is half way between 1 (0x38) and 1 + 1/8.
        self.modes(f32(1.0625), BF8, F32, [0x38, 0x38, 0x38, 0x39])
        # The smallest normal is 2^-6; half of it is a subnormal: zero.
        self.modes(f32(2.0 ** -6), BF8, F32, [0x08] * 4)
        self.modes(f32(-2.0 ** -7), BF8, F32, [0x80] * 4)
        # 31/32 of it: half way between 7.5 and 8 eighths of the grid.
        self.modes(f32(31 / 32 * 2.0 ** -6), BF8, F32, [8, 0, 0, 8])
        # 15/16 of it has the four significant bits of the format: it is
        # below the smallest normal in every mode, although it is half way
        # between 7 and 8 eighths.
        self.modes(f32(15 / 16 * 2.0 ** -6), BF8, F32, [0] * 4)
        self.modes(f32(61 / 64 * 2.0 ** -6), BF8, F32, [0, 0, 0, 8])
        self.modes(0x7F, F32, BF8, [0] * 4)
        self.modes(0xFF, F32, BF8, [0x80000000] * 4)
        self.modes(0x7E, F32, BF8, [f32(448.0)] * 4)
        self.modes(0x07, F32, BF8, [0] * 4)
        self.modes(0x08, F32, BF8, [f32(2.0 ** -6)] * 4)

    def test_e5m2(self):
        self.modes(f32(57344.0), BF8, F32, [0x7B] * 4, e5m2=1)
        self.modes(f32(61440.0), BF8, F32, [0x7B] * 4, e5m2=1)
        self.modes(f32(1.125), BF8, F32, [0x3C, 0x3C, 0x3C, 0x3D], e5m2=1)
        self.modes(f32(2.0 ** -14), BF8, F32, [0x04] * 4, e5m2=1)
        self.modes(f32(2.0 ** -15), BF8, F32, [0] * 4, e5m2=1)
        self.modes(0x7C, F32, BF8, [0] * 4, e5m2=1)
        self.modes(0xFD, F32, BF8, [0x80000000] * 4, e5m2=1)
        self.modes(0x7B, F32, BF8, [f32(57344.0)] * 4, e5m2=1)

    def test_round_trip(self):
        for fmt in (E4M3, E5M2, BFLOAT16, FP32):
            step = 1 if fmt.bits == 8 else 37
            for p in range(0, 1 << min(fmt.bits, 16), step):
                p <<= max(0, fmt.bits - 16)
                x = fmt.decode(p)
                if x[1]:
                    for mode in MODES:
                        self.assertEqual(fmt.encode(x, mode), p)


class Matrix(Case):
    def test_drain(self):
        m = Machine({"K": 4})
        m.put(VX, 0, [1, 2, 3, 0x80])
        m.put(VX, 1, [1, 0xFF, 5, 0x80])
        self.ok(m, [mma(0, 1), mma(0, 1, 1)] + [mma_last(r)
                                                for r in (1, 2, 3, 4)])
        a, b = [1, 2, 3, -128], [1, -1, 5, -128]
        for c in range(4):
            self.assertEqual(m.get(VR, 1 + c),
                             [2 * x * b[c] & 0xFFFFFFFF for x in a])
        self.assertEqual(m.col, 0)

    def test_keep(self):
        m = Machine({"K": 4})
        m.put(VX, 0, [1, 2, 3, 4])
        # keep=0 starts afresh; mma.last.keep adds and takes column 0, then
        # column 1 of the sum of three.
        self.ok(m, [mma(0, 0, 1), mma(0, 0), mma_last(1, 0, 0, 1),
                    mma_last(2, 0, 0, 1)])
        self.assertEqual(m.get(VR, 1), [2, 4, 6, 8])
        self.assertEqual(m.get(VR, 2), [6, 12, 18, 24])
        self.assertEqual(m.col, 2)
        self.ok(m, [mma_reset(), mma_last(3)])
        self.assertEqual((m.get(VR, 3), m.col), ([0] * 4, 1))


class MemoryAccess(Case):
    def test_forms(self):
        m = Machine({"K": 4})
        m.load_mem(0x100, bytes(range(1, 33)))
        m.put(VR, 0, [0x110, 0, 0, 0])
        m.put(VE, 8, [0x1111] * 4)
        self.ok(m, [ld(LVR, 1, 0, -16), ld(LVE, 4, 0, -8), ld(H, 8, 0),
                    ld(LVX, 20, 0, -15), st(LVR, 1, 0, 16), st(H, 8, 0, 0),
                    st(B, 16, 0, 2)])
        self.assertEqual(m.get(VR, 1), [0x04030201, 0x08070605, 0x0C0B0A09,
                                        0x100F0E0D])
        self.assertEqual(m.get(VE, 4), [0x0A09, 0x0C0B, 0x0E0D, 0x100F])
        self.assertEqual(m.get(VE, 8), [0x1211, 0x1111, 0x1111, 0x1111])
        self.assertEqual(m.get(VX, 20), [2, 3, 4, 5])
        self.assertEqual(m.mem.read(0x120, 17), bytes(range(1, 17)) + b"\0")
        self.assertEqual(m.mem.read(0x110, 4), bytes([0x11, 0x12, 0x11, 20]))

    def test_range(self):
        m = Machine({"K": 4, "mem.bytes": 64})
        m.put(VR, 0, [0xFFFFFFFF] * 4)
        self.ok(m, [ld(LVX, 8, 0, 61), ld(B, 8, 0, 1)])     # 60 and 0
        for word in (ld(LVX, 8, 0, 62), st(W, 2, 0, 62), ld(B, 8, 0, 0),
                     ld(LVR, 2, 0, 50)):
            r = m.run([0, word])
            self.assertEqual((r["fault"]["kind"], r["fault"]["index"]),
                             ("memory-range", 1))


class Decoding(Case):
    def kind(self, word, L=32):
        try:
            decode(word, L)
        except Fault as f:
            return f.kind
        return None

    def test_legality(self):
        k = self.kind
        for op in range(128):
            want = None if op < 4 or 0x10 <= op <= 0x18 else "reserved-opcode"
            if op != 0x14:
                self.assertEqual(k(op), want)
        self.assertEqual(k(0xFFFFFF80), None)                   # NOP
        self.assertEqual(k(0x14), "cvt-same")
        self.assertEqual(k(cvt(S8, 6, 0, 0)), "cvt-format")
        self.assertEqual(k(cvt(S8, S16, 0, 0)), "cvt-pair")
        self.assertEqual(k(cvt(BF8, S8, 0, 0)), "cvt-pair")
        self.assertEqual(k(enc_r(0x14, 6)), "reserved-funct3")
        self.assertEqual(k(arith(ADD, VE, 15, 15, 15)), None)
        self.assertEqual(k(arith(ADD, VE, 16, 0, 0)), "register-bits")
        self.assertEqual(k(arith(ADD, VR, 0, 8, 0)), "register-bits")
        self.assertEqual(k(arith(NEG, VR, 0, 0, 31)), None)     # unused rs2
        self.assertEqual(k(arith(ADD, VX, 0, 4, 0), 4), "register-range")
        self.assertEqual(k(arith(ADD, VE, 0, 2, 0), 4), "register-range")
        self.assertEqual(k(arith(ADD, VR, 1, 0, 0), 4), "register-range")
        for op, f3, checked in ((0x03, 2, 1), (0x10, 0, 1), (0x11, 0, 1),
                                (0x12, 0, 1), (0x13, 0, 1), (0x13, 4, 0),
                                (0x15, 0, 1), (0x15, 1, 0), (0x16, 0, 1),
                                (0x17, 0, 0), (0x18, 0, 1), (0x18, 1, 0),
                                (0x01, 0, 0)):
            self.assertEqual(k(enc_r(op, f3, f7=3)),
                             "reserved-width" if checked else None)
            if op != 0x17:                      # there it is part of rs3
                self.assertEqual(k(enc_r(op, f3, f7=0x60)),
                                 "reserved-dtype" if checked else None)
        bad = {1: (6, 7), 2: (6, 7), 3: range(3, 8), 0x12: (6, 7),
               0x13: (2, 3, 6, 7), 0x15: range(2, 8), 0x16: (7,),
               0x17: range(4, 8), 0x18: range(3, 8), 0x10: (), 0x11: ()}
        for op, reserved in bad.items():
            for f3 in range(8):
                self.assertEqual(k(enc_r(op, f3)) == "reserved-funct3",
                                 f3 in reserved)

    def test_segment(self):
        for K in (4, 8, 16, 32, 64):
            m = Machine({"K": K})
            self.ok(m, [vsetlut(0, 0, 64 // K - 1)])
            for seg in (64 // K, -1):
                self.assertEqual(m.run([vsetlut(0, 0, seg)])["fault"]["kind"],
                                 "lut-segment")

    def test_words(self):
        """Words put together by hand from the field table."""
        for word, line in (
                # funct7 0010001, rs2 6, rs1 5, funct3 0, rd 4, opcode 0x10
                (0b0010001_00110_00101_000_00100_0010000,
                 "vadd.sat ve4, ve5, ve6"),
                # rs3 1, rnd 01, rs2 0, rs1 2, funct3 0, rd 2, opcode 0x17
                (0b00001_01_00000_00010_000_00010_0010111,
                 "vfma.rtz vr2, vr2, vr0, vr1"),
                # E4M3, RNE, sat, source 011; rs1 2, destination 000, rd 31
                (0b0001011_00000_00010_000_11111_0010100,
                 "vcvt_s8_f32.sat vx31, vr2"),
                (0b0000000_00000_00001_001_00010_0010011, "vlut.b vx2, vx1"),
                (0b000000000000_00100_100_00000_0010011, "vsetlut.a vr4, 0"),
                (0b0000010_00000_00000_000_00000_0010101,
                 "bcast.reg vr0, vr0"),
                (0b111111111001_00000_001_00011_0010101,
                 "bcast.imm vx3, -7"),
                (0b0000000_00000_00010_000_00100_0010010, "vsum vr4, vx2"),
                (0b0010000_01000_00000_000_00000_0000011,
                 "mma.keep vx0, vx8"),
                (0b0000000_00000_00000_001_00010_0000011, "mma.last vr2"),
                (0b0010000_01000_00000_001_00010_0000011,
                 "mma.last.keep vr2, vx0, vx8"),
                (0b000000010000_00001_011_00011_0000001,
                 "ld.vx vx3, 16(vr1)"),
                (0b111111111111_00001_000_00011_0000010,
                 "st.b vx3, -1(vr1)"),
                (0, "nop"), (0x2003, "mma.reset")):
            self.assertEqual(asm(word), line)
        self.assertEqual(asm(0x80), None)                   # NOP with rd
        self.assertEqual(asm(arith(NEG, VX, 0, 1, 2)), None)


class Generator(Case):
    def test_faults(self):
        for kind in FAULTS:
            seen = 0
            for seed in range(6):
                g = gen(seed, {"K": 8, "L": 16}, kind)
                m = Machine({"K": 8, "L": 16})
                for a, d in g["mem"].items():
                    m.load_mem(a, d)
                m.load_regs(g["regs"])
                r = m.run(g["words"])
                if g["fault"]:
                    self.assertEqual(r["fault"]["kind"], kind)
                    seen += 1
            self.assertGreater(seen, 0, kind)

    def test_same_seed(self):
        self.assertEqual(gen(11), gen(11))


if __name__ == "__main__":
    unittest.main()
