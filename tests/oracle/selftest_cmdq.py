#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks of the CMDQ oracle against values worked out by hand.

Each expected number is derived in the comment beside it from the notes and the
decisions, not from a run of the oracle.
"""

import math
import os
import random
import struct
import sys
import unittest
from fractions import Fraction

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from cmdq_oracle import (INF, NAN, Bad, Machine, add, canonical,  # noqa: E402
                         closure, cos_sin32, data_order, div, encode, exp32,
                         erf32, f32, f32_exact, gelu_erf32, gelu_tanh32,
                         hazards, load, log32, mul, pack, pow32, rsqrt32,
                         sigmoid32, silu32, tanh32, unpack)
from cmdq_random import KINDS, gen  # noqa: E402


def queue(*entries, **metadata):
    return load({"metadata": metadata,
                 "cmdq": list(entries) + [{"opcode": "END"}]})


def run(*entries, params=None, **metadata):
    m = Machine(params)
    return m, m.run(queue(*entries, **metadata))


def bits(v):
    return struct.unpack("<I", struct.pack("<f", v))[0]


def floats(*v):
    return struct.pack("<%df" % len(v), *v)


def spm(bank, offset, data):
    return {"bank": bank, "offset": offset, "hex": data.hex()}


def dma(n, addr=0, bank=0, offset=0, q=8, **more):
    return dict({"opcode": "DMA_LOAD_TILE", "tensor_role": "weight",
                 "qbits": q, "dram_addr": addr, "spm_bank": bank,
                 "spm_offset": offset, "num_elements": n}, **more)


def gemm(m=1, n=1, k=1, qa=8, qw=8, ifm=(0, 0), wgt=(1, 0), ofm=(2, 0),
         **more):
    return dict({"opcode": "TE_GEMM_TILE", "te_id": 0, "m": m, "n": n, "k": k,
                 "qbits_activation": qa, "qbits_weight": qw,
                 "ifm_bank": ifm[0], "ifm_offset": ifm[1], "wgt_bank": wgt[0],
                 "wgt_offset": wgt[1], "ofm_bank": ofm[0],
                 "ofm_offset": ofm[1]}, **more)


def ve(op, length, q=32, src=(3, 0), dst=(4, 0), **more):
    return dict({"opcode": "VE_%s_TILE" % op, "ve_id": 0, "length": length,
                 "qbits_activation": q, "in_bank": src[0],
                 "in_offset": src[1], "out_bank": dst[0],
                 "out_offset": dst[1]}, **more)


def te16(**more):
    """A GEMM of 8 + ceil(16^3 / 4096) + 4 = 13 cycles, banks 5, 6, 7."""
    return gemm(16, 16, 16, ifm=(5, 0), wgt=(6, 0), ofm=(7, 0), **more)


class Arithmetic(unittest.TestCase):
    def test_round(self):
        # 1 + 2^-24 is a tie: to even, down; 1 + 3 * 2^-24: up.
        self.assertEqual(f32(1 + 2.0 ** -24), 1.0)
        self.assertEqual(f32(1 + 3 * 2.0 ** -24), 1 + 2.0 ** -22)
        # The greatest finite number is 2^128 - 2^104; half a unit past it
        # rounds to infinity.
        self.assertEqual(f32(2.0 ** 128 - 2.0 ** 103), INF)
        self.assertEqual(f32(-(2.0 ** 128 - 2.0 ** 103)), -INF)
        self.assertEqual(f32(2.0 ** 128 - 2.0 ** 103 - 2.0 ** 80),
                         2.0 ** 128 - 2.0 ** 104)
        for v in (Fraction(1, 3), Fraction(2) ** 128, Fraction(7, 5) / 2**140,
                  Fraction(3, 2 ** 150), Fraction(1, 2 ** 150),
                  Fraction(10 ** 20 + 1)):
            self.assertEqual(f32_exact(v), f32(float(v)), v)
        # Just above the tie 2^24 + 1 (2^-60 more): binary64 would lose it.
        self.assertEqual(f32_exact(2 ** 24 + 1 + Fraction(1, 2 ** 60)),
                         2.0 ** 24 + 2)
        self.assertEqual(f32_exact(Fraction(2 ** 24 + 1)), 2.0 ** 24)

    def test_double_rounding_is_innocuous(self):
        # Against exact fractions, subnormal results and near ties included.
        r = random.Random(5)
        for _ in range(400):
            a = f32(r.choice((-1, 1)) * r.uniform(1, 2)
                    * 2.0 ** r.randint(-149, 20))
            b = f32(r.uniform(1, 2) * 2.0 ** r.randint(-30, 30))
            if r.random() < 0.3:
                b = f32(a * 2.0 ** -24) or b
            x, y = Fraction(a), Fraction(b)
            self.assertEqual(add(a, b), f32_exact(x + y), (a, b))
            self.assertEqual(mul(a, b), f32_exact(x * y), (a, b))
            self.assertEqual(div(a, b), f32_exact(x / y), (a, b))

    def test_canonical(self):
        t = [1e8, 1.0, -1e8, 3.0, 0.5, 7.25, 2e7, -1.0, 3.0, 1e-3, 1e8]
        p = [f32(t[0] + t[8]), f32(t[1] + f32(t[9])), f32(t[2] + t[10]),
             t[3], t[4], t[5], t[6], t[7]]
        want = f32(f32(f32(p[0] + p[4]) + f32(p[2] + p[6]))
                   + f32(f32(p[1] + p[5]) + f32(p[3] + p[7])))
        self.assertEqual(canonical([f32(v) for v in t]), want)
        # In plain order 2^24 + 1 + 1 stays 2^24; here the ones meet first
        # only where the tree says so: p0 + p4 = 2^24 + 1 = 2^24 (a tie),
        # p1 + p5 = 2, so 2^24 + 2.
        self.assertEqual(canonical([2.0 ** 24, 1, 0, 0, 1, 1]),
                         2.0 ** 24 + 2)
        self.assertEqual(canonical([]), 0.0)
        self.assertEqual(math.copysign(1, canonical([-0.0] * 8)), 1)

    def test_encode(self):
        for v, q, want in ((2.5, 8, 2), (3.5, 8, 4), (-2.5, 8, 0xfe),
                           (127.5, 8, 0x7f), (-128.5, 8, 0x80),
                           (1e30, 4, 7), (-INF, 4, 8), (INF, 2, 1),
                           (-1.5, 2, 2), (NAN, 8, 0), (-0.5, 8, 0),
                           (1.0, 16, 0x3c00), (65519.0, 16, 0x7bff),
                           (65520.0, 16, 0x7c00), (-1e9, 16, 0xfc00),
                           (2.0 ** -25, 16, 0), (3 * 2.0 ** -25, 16, 2),
                           (NAN, 16, 0x7e00), (-NAN, 32, 0x7fc00000),
                           (-0.0, 32, 0x80000000)):
            self.assertEqual(encode(v, q), want, (v, q))

    def test_pack(self):
        # -1, 1, 0, -2 and 1 in 2 bits: 11, 01, 00, 10 and 01.
        self.assertEqual(pack([3, 1, 0, 2, 1], 2), bytes([0b10000111, 1]))
        self.assertEqual(unpack(bytes([0b10000111, 0xfd]), 5, 2),
                         [-1, 1, 0, -2, 1])
        self.assertEqual(unpack(b"\x8f\x07", 3, 4), [-1, -8, 7])

    def test_functions(self):
        # Known decimals: e = 2.718281828459045, erf(1/sqrt 2) = 0.6826894921,
        # tanh, 1/(1 + 1/e) = 0.7310585786300049.
        self.assertEqual(exp32(1.0), f32(2.718281828459045))
        self.assertEqual(exp32(-1.0), f32(0.36787944117144233))
        self.assertEqual(exp32(0.0), 1.0)
        self.assertEqual(exp32(100.0), INF)
        self.assertEqual(exp32(-INF), 0.0)
        # ln(2^-149) = -103.2789; half of that number is at -103.972.
        self.assertEqual(exp32(-103.9), 2.0 ** -149)
        self.assertEqual(exp32(-103.98), 0.0)
        # gelu(1) = Phi(1) = 0.8413447460685429, gelu(-1) = -0.15865525393146
        self.assertEqual(gelu_erf32(1.0), f32(0.8413447460685429))
        self.assertEqual(gelu_erf32(-1.0), f32(-0.15865525393145705))
        # gelu(2) = 2 * 0.9772498680518208
        self.assertEqual(gelu_erf32(2.0), f32(1.9544997361036416))
        # The tanh form at 1: (1 + tanh(0.7978845608 * 1.044715)) / 2
        # = (1 + tanh 0.8335619687...) / 2 = 0.8411919906...
        self.assertAlmostEqual(gelu_tanh32(1.0), 0.8411919906, 7)
        self.assertEqual(silu32(1.0), f32(0.7310585786300049))
        self.assertEqual(silu32(-1.0), f32(-0.2689414213699951))
        for fn in (gelu_erf32, gelu_tanh32, silu32):
            self.assertEqual(bits(fn(-INF)), 0x80000000)
            self.assertEqual(bits(fn(-0.0)), 0x80000000)
            self.assertEqual(fn(INF), INF)
            self.assertEqual(fn(1e30), 1e30)
            self.assertEqual(bits(fn(-1e30)), 0x80000000)
            self.assertTrue(math.isnan(fn(NAN)))
            # 3 * 2^-149 halved is a tie; the exact value is just above it.
            self.assertEqual(fn(3 * 2.0 ** -149), 2.0 ** -148)
            # Of -3 * 2^-149 it is just above the tie too: -1 unit.
            self.assertEqual(fn(-3 * 2.0 ** -149), -2.0 ** -149)
        self.assertEqual(rsqrt32(4.0), 0.5)
        self.assertEqual(rsqrt32(2.0), f32(0.7071067811865476))
        self.assertEqual(rsqrt32(0.0), INF)
        self.assertEqual(rsqrt32(2.0 ** -148), 2.0 ** 74)
        self.assertEqual(cos_sin32(0.0), (1.0, 0.0))
        for a in (0.5, 1.0, 2.0, 3.0, 4.5, 6.0, 1234.5):
            self.assertEqual(cos_sin32(a), (f32(math.cos(a)),
                                            f32(math.sin(a))), a)


class Timing(unittest.TestCase):
    def cycles(self, entry, **params):
        q = queue(entry)
        return Machine(params).schedule(q)[2]

    def test_te(self):
        # 64*128*256 = 2097152; / (4096 * 1.5) = 341.33 -> 342; + 12.
        self.assertEqual(self.cycles(gemm(64, 128, 256, qa=8, qw=4)), 354)
        # 2^24 / (8192 * 2) = 1024; + 12.
        self.assertEqual(self.cycles(gemm(256, 256, 256, qw=2), **{
            "te.macs_per_cycle_base": 8192}), 1036)
        self.assertEqual(self.cycles(te16()), 13)
        # A4: 2^20 / (4096 * 1.1) = 232.7 -> 233; A16 W16: 2^20 / 1024 = 1024.
        self.assertEqual(self.cycles(gemm(64, 64, 256, qa=4)), 245)
        self.assertEqual(self.cycles(gemm(64, 64, 256, qa=2)), 245)
        self.assertEqual(self.cycles(gemm(64, 64, 256, qa=16, qw=16)), 1036)
        # A32 W8: 2^20 / 1024.
        self.assertEqual(self.cycles(gemm(64, 64, 256, qa=32)), 1036)
        # 11/10 is exact: 45056 = 4096 * 1.1 * 10 takes 10 cycles, not 11.
        self.assertEqual(self.cycles(gemm(11, 16, 256, qa=4)), 22)

    def test_sparse_conv(self):
        # 2 of 4: 64*64*256 / 2 / 4096 = 128.
        e = gemm(64, 64, 256, sparse_n=2, sparse_m=4)
        e["opcode"] = "TE_SPARSE_GEMM_TILE"
        self.assertEqual(self.cycles(e), 140)
        # 5x5 input, 3x3 kernel, pad 1, stride 2: 3x3 outputs of 8 channels
        # and 9 * 16 products: 9 * 8 * 144 = 10368 MACs, 2.53 -> 3.
        e = gemm(in_h=5, in_w=5, in_c=16, out_c=8, kernel_h=3, kernel_w=3,
                 stride_h=2, stride_w=2, pad_h=1, pad_w=1, dil_h=1, dil_w=1)
        for name in "mnk":
            del e[name]
        e["opcode"] = "TE_CONV_TILE"
        self.assertEqual(self.cycles(e), 15)
        self.assertEqual(queue(e).entries[0].macs, 10368)

    def test_ve(self):
        # 4096 / 64 = 64; red = 8 + 12 = 20.
        self.assertEqual(self.cycles(ve("LAYERNORM", 4096)), 96)
        self.assertEqual(self.cycles(ve("SOFTMAX", 4096)), 180)
        self.assertEqual(self.cycles(ve("RMSNORM", 4096, rows=3)), 264)
        self.assertEqual(self.cycles(ve("GELU", 4096)), 92)
        self.assertEqual(self.cycles(ve("SILU", 65, rows=2)), 48)
        # 2 * 64 + 16 + 12
        self.assertEqual(self.cycles(ve("ROPE", 4096, head_dim=64)), 156)
        # red + 64; special functions 64 + 16.
        self.assertEqual(self.cycles(ve("REDUCE", 4096, function="max")), 96)
        for function, sfu in (("relu", 0), ("erf", 16), ("hardswish", 0)):
            self.assertEqual(self.cycles(ve("UNARY", 4096, rows=2,
                                            function=function)), 140 + 2 * sfu)
        for function, sfu in (("sub", 0), ("div", 16)):
            self.assertEqual(self.cycles(
                ve("BINARY", 4096, in2_bank=5, in2_offset=0,
                   function=function, broadcast="row")), 76 + sfu)
        # 4096 / (64 * 1.1) = 58.2 -> 59; / (64 * 1.2) = 53.3 -> 54
        self.assertEqual(self.cycles(ve("CAST", 4096, q=8)), 71)
        self.assertEqual(self.cycles(ve("CAST", 4096, q=4)), 66)
        self.assertEqual(self.cycles(ve("CAST", 4096, q=2)), 66)
        # length 1: log2 is 0: 8 + (8 + 1) + 4; length 5: ceil(log2 5) = 3.
        self.assertEqual(self.cycles(ve("LAYERNORM", 1)), 21)
        self.assertEqual(self.cycles(ve("LAYERNORM", 5)), 24)

    def test_dma_alone(self):
        # 320 bytes: max(ceil(320 / 32), ceil(320 / 64)) = 10.
        self.assertEqual(self.cycles(dma(320)), 10)
        # At 31, 2 bytes: [0, 64): 2.
        self.assertEqual(self.cycles(dma(2, addr=31)), 2)
        # 16 bytes a cycle of peak: ceil(320 / 16) = 20.
        self.assertEqual(self.cycles(dma(320), **{"dma.peak_bw": 16}), 20)
        self.assertEqual(self.cycles(dma(320), **{
            "dma.dram_burst_cycles": 3}), 30)
        # 3 rows of 4 bytes, 40 apart: [0,32), [32,64), [64,96) at 0, 40, 80:
        # 96 bytes.  40 apart from 30: rows 30-34 (64), 70-74 (32), 110-114
        # (32): 128 bytes, 4.
        self.assertEqual(self.cycles(dma(12, stride_bytes=40,
                                         row_elements=4)), 3)
        self.assertEqual(self.cycles(dma(12, addr=30, stride_bytes=40,
                                         row_elements=4)), 4)
        # Rows that touch are one: 12 bytes at 30 are [0, 64).
        self.assertEqual(self.cycles(dma(12, addr=30, stride_bytes=4,
                                         row_elements=4)), 2)

    def check(self, entries, params, times):
        m = Machine(params)
        q = queue(*entries)
        start, end, total, stats, _ = m.schedule(q)
        self.assertEqual([(start[i], end[i]) for i in range(len(entries))],
                         times)
        self.assertEqual(total, max(t[1] for t in times))
        for name, s in stats.items():
            self.assertEqual(s["busy"] + s["idle"] + sum(s["stalled"].values()),
                             total, name)
        return stats

    def test_two_dmas(self):
        # Works 10 and 20 at half rate: A leaves at 20, B has 10 left: 30.
        # Without dma_id they take channels 0 and 1.
        s = self.check([dma(320, bank=0), dma(640, bank=1)],
                       {"dma.count": 2}, [(0, 20), (0, 30)])
        self.assertEqual(s["DMA0"]["busy"], 20)
        self.assertEqual(s["DMA0"]["idle"], 10)
        self.assertEqual(s["DMA1"]["busy"], 30)
        self.assertEqual(s["TE0"]["idle"], 30)
        # In one bank: B starts second and meets A: 4 more at its end.
        self.check([dma(320), dma(640, offset=999)], {"dma.count": 2},
                   [(0, 20), (0, 34)])
        # On one channel: one after the other, at the full rate.
        self.check([dma(320), dma(640)], {}, [(0, 10), (10, 30)])

    def test_conflict_uses_no_bandwidth(self):
        # A 10, B 10, C 10 on channels 0, 1, 2; A and B in bank 0.
        # 0-30: a third each, all leave at 30; B ends at 34, A and C at 30.
        self.check([dma(320), dma(320), dma(320, bank=1)],
                   {"dma.count": 3}, [(0, 30), (0, 34), (0, 30)])
        # B's successor on its channel waits for the 4 cycles; D on channel 0
        # starts at 30 when B is in them: it has the full rate, and meets B
        # (bank 0): 30 + 10 + 4.
        self.check([dma(320, dma_id=0), dma(320, dma_id=1),
                    dma(320, bank=1, dma_id=2), dma(320, bank=0, dma_id=0),
                    dma(32, bank=3, dma_id=1)],
                   {"dma.count": 3},
                   # E starts at 34: D has 6 left, E 1: E leaves at 36,
                   # D has 5 left: 41, and 4.
                   [(0, 30), (0, 34), (0, 30), (30, 45), (34, 36)])

    def test_three_dmas_in_fractions(self):
        # A, B (10 each) from 0; C (10) when the GEMM is done, at 13.
        # 0-13 at 1/2: 6.5 done, 3.5 left.  At 1/3: A and B leave at
        # 13 + 10.5 = 23.5 and complete at 24; C has 6.5 left and the full
        # rate: 6 left at 24.  D (10) after A on channel 0 starts at 24: at
        # 1/2 C leaves at 36, D has 4 left: 40.
        s = self.check([te16(), dma(320, bank=0, dma_id=0),
                        dma(320, bank=1, dma_id=1),
                        dma(320, bank=2, dma_id=2, deps_before=[0]),
                        dma(320, bank=3, dma_id=0)], {"dma.count": 3},
                       [(0, 13), (0, 24), (0, 24), (13, 36), (24, 40)])
        self.assertEqual(s["DMA2"]["stalled"]["dependency"], 13)
        self.assertEqual(s["DMA2"]["idle"], 4)

    def test_weights(self):
        # A 2 of 3, B 1 of 3: A leaves at 15, B has 5 left: 20.
        self.check([dma(320), dma(320, bank=1, tensor_role="kv")],
                   {"dma.count": 2, "dma.weight_weight": 2},
                   [(0, 15), (0, 20)])

    def test_roles(self):
        # Two loads of 320 bytes take 10 cycles each, one after the other; a
        # KV slice of 2 x 16 bytes without gaps is 32 bytes: 1 cycle.
        # The GEMM of role q waits for the first load, takes 13, and the one
        # without a role follows it.
        q = load({"metadata": {"version": "1.2"}, "cmdq": [
            dma(320), dma(320, bank=1, tensor_role="activation"),
            {"opcode": "KV_STORE_TILE", "head_id": 0, "kv_kind": "k",
             "spm_bank": 3, "spm_offset": 0, "dram_base_addr": 4096,
             "t_start": 0, "t_len": 2, "d_len": 16, "qbits_kv": 8,
             "dma_id": 0},
            gemm(16, 16, 16, tensor_role="q", deps_before=[0]),
            gemm(16, 16, 16, ofm=(4, 0), deps_before=[3]),
            {"opcode": "END"}]})
        roles = Machine({"spm.banks": 8}).run(q)["roles"]
        self.assertEqual(roles, {
            "weight": {"bytes": 320, "active_cycles": 10, "stalled_cycles": 0},
            "activation": {"bytes": 320, "active_cycles": 10,
                           "stalled_cycles": 0},
            "kv": {"bytes": 32, "active_cycles": 1, "stalled_cycles": 0},
            "q": {"bytes": 0, "active_cycles": 13, "stalled_cycles": 10},
            "none": {"bytes": 0, "active_cycles": 13, "stalled_cycles": 0}})

    def test_conflict_operands(self):
        # The GEMM's three operands in bank 0 and the DMA there: 3 conflicts.
        # The GEMM starts first (its id), so does not wait.
        e = gemm(16, 16, 16, ifm=(0, 0), wgt=(0, 4096), ofm=(0, 8192))
        self.check([e, dma(320, offset=20000)], {}, [(0, 13), (0, 22)])
        # The other way round the GEMM is not yet running.
        self.check([dma(320, offset=20000), e], {}, [(0, 10), (0, 13)])
        # A DMA that starts as the GEMM completes meets nothing.
        self.check([e, dma(320, offset=20000, deps_before=[0])], {},
                   [(0, 13), (13, 23)])
        # Bias and scales count too: 5.
        e.update(bias_bank=0, bias_offset=16384, wgt_scale_bank=0,
                 wgt_scale_offset=17000)
        self.check([e, dma(320, offset=20000)], {}, [(0, 13), (0, 30)])

    def test_barrier_and_group(self):
        # The barrier opens at 13; its DMA is stalled by it, the ADD by its
        # group (entry 3 -> 23).
        s = self.check([te16(), {"opcode": "BARRIER", "wait_for": [0]},
                        {"opcode": "NOP"}, dma(320),
                        {"opcode": "SYNC_GROUP", "name": "g", "group": [3]},
                        ve("CAST", 64, wait_group="g")], {},
                       [(0, 13), (13, 13), (13, 13), (13, 23), (23, 23),
                        (23, 36)])
        self.assertEqual(s["DMA0"], {"busy": 10, "idle": 13, "stalled": {
            "barrier": 13, "group": 0, "dependency": 0}})
        self.assertEqual(s["VE0"], {"busy": 13, "idle": 0, "stalled": {
            "barrier": 13, "group": 10, "dependency": 0}})
        # A barrier that names nothing late holds nothing.
        self.check([te16(), {"opcode": "BARRIER", "wait_for": []}, dma(320)],
                   {}, [(0, 13), (0, 0), (0, 10)])

    def test_forward_dependency(self):
        q = queue(dma(32, deps_before=[2]), dma(32, bank=1),
                  te16(), dma(32, bank=2, deps_after=[1]))
        # Channel 0 holds 0, 1, 3 in order and 1 waits for 3: a circle.
        self.assertRaises(Bad, data_order, q, Machine().params)
        q = queue(dma(32, deps_before=[1]), te16(), ve("CAST", 64))
        self.assertEqual(data_order(q, Machine().params), [1, 0, 2, 3])
        start, end, total = Machine().schedule(q)[:3]
        self.assertEqual((start[0], end[0], total), (13, 14, 14))


class Data(unittest.TestCase):
    def test_gemm_int(self):
        # [1 2; -3 4] times rows [5 6], [7 -8]: 17, -9; 9, -53.
        m, r = run(gemm(2, 2, 2), spm_init=[
            spm(0, 0, bytes([1, 2, 253, 4])), spm(1, 0, bytes([5, 6, 7, 248]))
        ])
        self.assertEqual(m.read(2, 0, 16), floats(17, -9, 9, -53))
        self.assertEqual(r["macs"], 8)

    def test_gemm_groups(self):
        # k 4 in groups of 2: sums 1*1+2*1 = 3 and 3*1+4*(-2) = -5; scales
        # 0.5 and 4; scale_ifm 2: 3*2*0.5 = 3, -5*2*4 = -40: -37; + bias 1.25
        # = -35.75; + old 3 * 0.25 = -35; / 0.25 = -140 -> -128.
        e = gemm(1, 1, 4, qw=4, qbits_ofm=8, scale_ofm=0.25, accumulate=True,
                 scale_ifm=2, wgt_group=2, wgt_scale_bank=3,
                 wgt_scale_offset=5, bias_bank=3, bias_offset=1)
        init = [spm(0, 0, bytes([1, 2, 3, 4])), spm(1, 0, bytes([0x11, 0xe1])),
                spm(3, 1, floats(1.25, 0.5, 4)), spm(2, 0, b"\x03")]
        m, _ = run(e, spm_init=init)
        self.assertEqual(m.read(2, 0, 1), b"\x80")
        # The same without a narrow scale: -37 + 1.25 + 3 = -32.75 -> -33.
        m, _ = run(dict(e, scale_ofm=1), spm_init=init)
        self.assertEqual(m.read(2, 0, 2), b"\xdf\x00")

    def test_gemm_float(self):
        # 2^24 * 1 + 1 * 1 + 1 * 1 in the canonical order: p0 = 2^24,
        # p1 = p2 = 1: (p0 + p2) = 2^24, + p1 = 2^24.
        m, _ = run(gemm(1, 1, 3, qa=32, qw=32), spm_init=[
            spm(0, 0, floats(2 ** 24, 1, 1)), spm(1, 0, floats(1, 1, 1))])
        self.assertEqual(m.read(2, 0, 4), floats(2 ** 24))
        # int4 -3 times binary16 0.5, to binary16: -1.5.
        m, _ = run(gemm(1, 1, 1, qa=16, qw=4, qbits_ofm=16), spm_init=[
            spm(0, 0, b"\x00\x38"), spm(1, 0, b"\x0d")])
        self.assertEqual(m.read(2, 0, 2), b"\x00\xbe")
        # A NaN of any kind is stored as 0x7fc00000.
        m, _ = run(gemm(1, 1, 1, qa=32, qw=8), spm_init=[
            spm(0, 0, b"\x01\x00\x80\xff"), spm(1, 0, b"\x01")])
        self.assertEqual(m.read(2, 0, 4), b"\x00\x00\xc0\x7f")

    def test_av(self):
        # [1 2] times V [[3 4 5] [6 7 8]]: 15, 18, 21.
        e = gemm(1, 3, 2)
        e["opcode"] = "TE_AV_TILE"
        m, _ = run(e, spm_init=[spm(0, 0, bytes([1, 2])),
                                spm(1, 0, bytes([3, 4, 5, 6, 7, 8]))])
        self.assertEqual(m.read(2, 0, 12), floats(15, 18, 21))

    def test_conv(self):
        # 2x2 input [1 2; 3 4], kernel 2x2 [1 10; 100 127], pad 1, stride 2:
        # corners: 127*1, 100*2; 10*3, 1*4.
        e = gemm(in_h=2, in_w=2, in_c=1, out_c=1, kernel_h=2, kernel_w=2,
                 stride_h=2, stride_w=2, pad_h=1, pad_w=1)
        e["opcode"] = "TE_CONV_TILE"
        for name in "mnk":
            del e[name]
        m, _ = run(e, spm_init=[spm(0, 0, bytes([1, 2, 3, 4])),
                                spm(1, 0, bytes([1, 10, 100, 127]))])
        self.assertEqual(m.read(2, 0, 16), floats(127, 200, 30, 4))

    def test_sparse(self):
        # k 8, 1 of 4, weights 4 bit: values 3, -2; indices 2 (10), 1 (01):
        # bits 01 10 -> 0b0110.  ifm 1..8: 3*3 + -2*6 = -3.
        e = gemm(1, 1, 8, qw=4, sparse_n=1, sparse_m=4)
        e["opcode"] = "TE_SPARSE_GEMM_TILE"
        m, r = run(e, spm_init=[spm(0, 0, bytes(range(1, 9))),
                                spm(1, 0, bytes([0xe3, 0b0110]))])
        self.assertEqual(m.read(2, 0, 4), floats(-3))
        self.assertEqual(r["macs"], 2)

    def test_layernorm(self):
        # 1, 3: mean 2, d -1, 1, var 1, eps 3: r = 1/2; gamma 4, 8; beta 1.
        m, _ = run(ve("LAYERNORM", 2, eps=3, gamma_bank=5, gamma_offset=0,
                      beta_bank=5, beta_offset=8),
                   spm_init=[spm(3, 0, floats(1, 3)),
                             spm(5, 0, floats(4, 8, 1, 1))])
        self.assertEqual(m.read(4, 0, 8), floats(-1, 5))
        # RMSNORM 1, 7: 50 / 2 = 25, eps 0... r = 1/5 in binary32.
        m, _ = run(ve("RMSNORM", 2, eps=0), spm_init=[
            spm(3, 0, floats(1, 7))])
        fifth = f32(0.2)
        self.assertEqual(m.read(4, 0, 8), floats(fifth, f32(7 * fifth)))

    def test_softmax(self):
        # Equal elements: a half each; past valid_length 0; ints at 1/64.
        m, _ = run(ve("SOFTMAX", 3, q=8, valid_length=2, scale_out=1 / 64),
                   spm_init=[spm(3, 0, bytes([5, 5, 9]))])
        self.assertEqual(m.read(4, 0, 3), bytes([32, 32, 0]))
        # 0 and 2 with temperature 2: e^-1 and 1 over their sum.
        m, _ = run(ve("SOFTMAX", 2, temperature=2), spm_init=[
            spm(3, 0, floats(0, 2))])
        a = f32(math.exp(-1))
        s = f32(a + 1)
        self.assertEqual(m.read(4, 0, 8), floats(f32(a / s), f32(1 / s)))

    def test_rope(self):
        # Position 1, head_dim 4: angles 1 and 1 * 10000^(-1/2) = 0.01.
        c, s = f32(math.cos(1)), f32(math.sin(1))
        c2, s2 = f32(math.cos(0.01)), f32(math.sin(0.01))
        m, _ = run(ve("ROPE", 4, head_dim=4, position=1), spm_init=[
            spm(3, 0, floats(1, 2, 3, 4))])
        self.assertEqual(m.read(4, 0, 16), floats(
            f32(c - f32(2 * s)), f32(s + f32(2 * c)),
            f32(f32(3 * c2) - f32(4 * s2)), f32(f32(3 * s2) + f32(4 * c2))))
        m, _ = run(ve("ROPE", 4, head_dim=4, position=1, pairing="half"),
                   spm_init=[spm(3, 0, floats(1, 2, 3, 4))])
        self.assertEqual(m.read(4, 0, 16), floats(
            f32(c - f32(3 * s)), f32(f32(2 * c2) - f32(4 * s2)),
            f32(s + f32(3 * c)), f32(f32(2 * s2) + f32(4 * c2))))
        # Row 0 at position 0 is the input; row 1 turns by 1.
        m, _ = run(ve("ROPE", 2, head_dim=2, position=0, rows=2), spm_init=[
            spm(3, 0, floats(1, 2, 1, 2))])
        self.assertEqual(m.read(4, 0, 16), floats(
            1, 2, f32(c - f32(2 * s)), f32(s + f32(2 * c))))

    def test_elementwise(self):
        m, _ = run(ve("ADD", 3, q=8, in2_bank=5, in2_offset=0, qbits_in2=32,
                      scale_in=0.5, scale_out=2),
                   spm_init=[spm(3, 0, bytes([1, 254, 100])),
                             spm(5, 0, floats(4.5, 0, 500))])
        # 0.5 + 4.5 = 5 / 2 -> 2 (even); -1 / 2 -> 0; 550 / 2 -> 127.
        self.assertEqual(m.read(4, 0, 3), bytes([2, 0, 127]))
        m, _ = run(ve("CAST", 3, q=4, qbits_out=2), spm_init=[
            spm(3, 0, bytes([0x81, 0xff])), spm(4, 0, b"\xff")])
        # 1, -8 -> -2, -1: 01, 10, 11; the padding becomes 0.
        self.assertEqual(m.read(4, 0, 1), bytes([0b111001]))

    def test_epilogue(self):
        # 2 * 3 - 1 (bias) + 4 * 0.5 (residual) = 7; relu; / 2 = 3.5 -> 4.
        e = gemm(bias_bank=3, bias_offset=0, residual_bank=4,
                 residual_offset=0, qbits_residual=8, scale_residual=0.5,
                 activation="relu", scale_ofm=2, qbits_ofm=8)
        init = [spm(0, 0, bytes([2])), spm(1, 0, bytes([3])),
                spm(3, 0, floats(-1)), spm(4, 0, bytes([4]))]
        m, _ = run(e, spm_init=init)
        self.assertEqual(m.read(2, 0, 1), bytes([4]))
        # The same with -7: 0; clipped at 1.5: 3 of scale 0.5.
        init[0] = spm(0, 0, bytes([254]))
        m, _ = run(dict(e, scale_residual=-2), spm_init=init)
        self.assertEqual(m.read(2, 0, 1), bytes([0]))
        m, _ = run(dict(e, activation="clip", clip_max=1.5, scale_ofm=0.5,
                        scale_residual=9), spm_init=init)
        self.assertEqual(m.read(2, 0, 1), bytes([3]))
        # 6 capped at 4: 4 tanh 1.5 = 3.62.
        m, _ = run(gemm(soft_cap=4), spm_init=[
            spm(0, 0, bytes([2])), spm(1, 0, bytes([3]))])
        self.assertEqual(m.read(2, 0, 4),
                         floats(f32(4 * f32(0.90514825364486644))))

    def test_groups(self):
        # Two channels, each with its own weight: 2 * 3 and 5 * 7.
        e = gemm(in_h=1, in_w=1, in_c=2, out_c=2, kernel_h=1, kernel_w=1)
        for name in "mnk":
            del e[name]
        e["opcode"] = "TE_CONV_TILE"
        m, _ = run(dict(e, groups=2), spm_init=[
            spm(0, 0, bytes([2, 5])), spm(1, 0, bytes([3, 7]))])
        self.assertEqual(m.read(2, 0, 8), floats(6, 35))
        # One channel of two pixels, a zero on the right: 2 and 5 times 3,
        # plus the right neighbour times 7.
        m, _ = run(dict(e, in_w=2, in_c=1, out_c=1, kernel_w=2, pad_right=1),
                   spm_init=[spm(0, 0, bytes([2, 5])),
                             spm(1, 0, bytes([3, 7]))])
        self.assertEqual(m.read(2, 0, 8), floats(41, 15))

    def test_added_functions(self):
        # Values of tables, to more digits than binary32 has.
        for got, want in ((log32(2.0), 0.69314718055994531),
                          (log32(0.5), -0.69314718055994531),
                          (erf32(1.0), 0.84270079294971487),
                          (erf32(-0.5), -0.52049987781304654),
                          (tanh32(0.5), 0.46211715726000976),
                          (tanh32(-1.0), -0.76159415595576489),
                          (sigmoid32(1.0), 0.73105857863000488),
                          (sigmoid32(-4.0), 0.017986209962091558),
                          (pow32(2.0, 0.5), 1.4142135623730951),
                          (pow32(3.0, -2.0), 1 / 9)):
            self.assertEqual(got, f32(want))
        # 4097^2 = 16785409 has 25 bits and ends in 1: the tie goes to even.
        self.assertEqual(pow32(4097.0, 2.0), 16785408.0)
        self.assertEqual(pow32(-2.0, 3.0), -8.0)
        self.assertTrue(math.isnan(pow32(-2.0, 0.5)))
        self.assertEqual((pow32(NAN, 0.0), pow32(1.0, NAN)), (1.0, 1.0))
        self.assertEqual((pow32(0.0, -1.0), pow32(2.0, -INF)), (INF, 0.0))
        m, _ = run(ve("UNARY", 4, q=8, function="leaky_relu", alpha=0.5),
                   spm_init=[spm(3, 0, bytes([4, 0, 252, 253]))])
        # -4 / 2 and -3 / 2, which is a tie: -2.
        self.assertEqual(m.read(4, 0, 4), bytes([4, 0, 254, 254]))

    def test_broadcast_and_reduce(self):
        data = floats(1, 2, 3, 10, 20, 30)
        for kind, second, want in (("row", (1, 2, 3), (0, 0, 0, 9, 18, 27)),
                                   ("column", (1, 2), (0, 1, 2, 8, 18, 28)),
                                   ("scalar", (5,), (-4, -3, -2, 5, 15, 25))):
            m, _ = run(ve("BINARY", 3, rows=2, function="sub", broadcast=kind,
                          in2_bank=5, in2_offset=0), spm_init=[
                spm(3, 0, data), spm(5, 0, floats(*second))])
            self.assertEqual(m.read(4, 0, 24), floats(*want))
        for function, want in (("sum", (6, 60)), ("mean", (2, 20)),
                               ("max", (3, 30)), ("min", (1, 10))):
            m, _ = run(ve("REDUCE", 3, rows=2, function=function),
                       spm_init=[spm(3, 0, data)])
            self.assertEqual(m.read(4, 0, 12), floats(*want, 0))
        m, _ = run(ve("REDUCE", 3, q=8, rows=2, function="argmax"),
                   spm_init=[spm(3, 0, bytes([1, 3, 3, 255, 128, 0]))])
        self.assertEqual(m.read(4, 0, 8), struct.pack("<2i", 1, 2))

    def test_images(self):
        def image(op, h, w, **more):
            e = ve(op, 1, in_h=h, in_w=w, in_c=1, **more)
            del e["length"]
            return e
        init = [spm(3, 0, floats(1, 2, 3, 4, 5, 6))]
        # 1 2 3 / 4 5 6: pairs of columns.
        m, r = run(image("POOL", 2, 3, function="max", kernel_h=2,
                         kernel_w=2), spm_init=init)
        self.assertEqual(m.read(4, 0, 8), floats(5, 6))
        self.assertEqual(r["cycles"], 8 + 1 + 4)
        # A column of padding on the left: (1 + 4) / 2, or / 4; then
        # (1 + 2 + 4 + 5) / 4.
        for whole, first in ((False, 2.5), (True, 1.25)):
            m, _ = run(image("POOL", 2, 3, function="avg", kernel_h=2,
                             kernel_w=2, pad_w=1, pad_right=0,
                             count_include_pad=whole), spm_init=init)
            self.assertEqual(m.read(4, 0, 12), floats(first, 3, 4))
        m, _ = run(ve("TRANSPOSE", 3, rows=2), spm_init=init)
        self.assertEqual(m.read(4, 0, 24), floats(1, 4, 2, 5, 3, 6))
        # 2 to 4 elements: -0.25, 0.25, 0.75, 1.25 of a row 1 2.
        m, r = run(image("RESIZE", 1, 2, mode="linear", out_h=1, out_w=4),
                   spm_init=init)
        self.assertEqual(m.read(4, 0, 16), floats(1, 1.25, 1.75, 2))
        m, r = run(image("RESIZE", 1, 2, mode="nearest", out_h=1, out_w=4),
                   spm_init=init)
        self.assertEqual(m.read(4, 0, 16), floats(1, 1, 2, 2))
        # 2 * 4096 / 64 for the transposition; 64 * 64 * 4 / 64.
        m, r = run(ve("TRANSPOSE", 4096, rows=2, q=16))
        self.assertEqual(r["cycles"], 12 + 2 * 128)
        m, r = run(image("RESIZE", 4, 4, mode="linear", out_h=64, out_w=64,
                         q=16))
        self.assertEqual(r["cycles"], 12 + 256)

    def test_causal_softmax(self):
        # Equal elements; row 0 has 1 valid element, row 1 has 3, the last
        # two of which count.
        m, _ = run(ve("SOFTMAX", 4, rows=2, valid_length=1, valid_step=2,
                      window=2), spm_init=[spm(3, 0, floats(*[1] * 8))])
        self.assertEqual(m.read(4, 0, 32),
                         floats(1, 0, 0, 0, 0, 0.5, 0.5, 0))

    def test_partial_rope(self):
        # Only the first two of four elements, by 2 * 0.5 / 4.
        c, s = f32(math.cos(0.25)), f32(math.sin(0.25))
        m, _ = run(ve("ROPE", 4, head_dim=4, rotary_dim=2, position=2,
                      frequency_scale=0.5, factors_bank=5, factors_offset=0),
                   spm_init=[spm(3, 0, floats(1, 2, 3, 4)),
                             spm(5, 0, floats(4))])
        self.assertEqual(m.read(4, 0, 16), floats(
            f32(c - f32(2 * s)), f32(s + f32(2 * c)), 3, 4))

    def test_dma_stride(self):
        m, r = run(dma(6, addr=100, stride_bytes=10, row_elements=2),
                   dict(dma(6, addr=500, stride_bytes=4, row_elements=3,
                            deps_before=[0]), opcode="DMA_STORE_TILE"),
                   dram_init=[{"addr": 100, "hex": bytes(range(30)).hex()}])
        self.assertEqual(m.read(0, 0, 6), bytes([0, 1, 10, 11, 20, 21]))
        self.assertEqual(m.read("dram", 500, 7),
                         bytes([0, 1, 10, 0, 11, 20, 21]))
        self.assertEqual((r["dram read"], r["dram write"]), (6, 6))
        self.assertEqual(m.written_ranges(), [
            (0, 0, 6), ("dram", 500, 503), ("dram", 504, 507)])

    def test_dma_padding(self):
        m, _ = run(dma(3, q=4, addr=PAGE_EDGE), dram_init=[
            {"addr": PAGE_EDGE, "hex": "abcdef"}])
        self.assertEqual(m.read(0, 0, 3), b"\xab\x0d\x00")

    def test_kv(self):
        layout = {"id": 7, "k_base": 0x1000, "v_base": 0x8000, "t_max": 10,
                  "d_head": 8, "heads": 3}
        kv = {"head_id": 2, "spm_bank": 0, "spm_offset": 0, "qbits_kv": 4,
              "kv_layout_id": 7}
        store = dict(kv, opcode="KV_STORE_TILE", kv_kind="v",
                     dram_base_addr=0x8000, t_start=3, t_len=2, d_start=2,
                     d_len=4)
        # (2*10 + 3) * 8 + 2 = 186 elements, 93 bytes; the next row 4 later.
        # Load at t 4, all of d: (24 * 8) / 2 = 96 bytes, 4 of them.
        fetch = dict(kv, opcode="KV_LOAD_TILE", kv_kind="v", spm_bank=1,
                     kv_range_desc={"t_start": 4, "t_len": 1},
                     deps_before=[0])
        m, r = run(store, fetch, kv_layouts=[layout],
                   spm_init=[spm(0, 0, b"\x12\x34\x56\x78")])
        self.assertEqual(m.read("dram", 0x8000 + 93, 6),
                         b"\x12\x34\0\0\x56\x78")
        self.assertEqual(m.read(1, 0, 4), b"\0\x56\x78\0")
        self.assertEqual((r["dram write"], r["dram read"]), (4, 4))
        self.assertRaises(Bad, queue, dict(store, t_start=9),
                          kv_layouts=[layout])


PAGE_EDGE = 4095


class Hazards(unittest.TestCase):
    def test_tiny(self):
        load0, use = dma(4), gemm(1, 1, 4, ifm=(0, 0))
        # The load writes what the GEMM reads.
        self.assertEqual(hazards(queue(load0, use)), {(0, 1)})
        self.assertEqual(hazards(queue(load0, dict(use, deps_before=[0]))),
                         set())
        self.assertEqual(hazards(queue(dict(load0, deps_after=[1]), use)),
                         set())
        # In the other order along the path too.
        self.assertEqual(hazards(queue(dict(load0, deps_before=[1]), use)),
                         set())
        # One byte further they do not meet; two readers do not matter.
        self.assertEqual(hazards(queue(dma(4, offset=4), use)), set())
        self.assertEqual(hazards(queue(use, dict(use, te_id=1,
                                                 ofm_bank=3))), set())
        self.assertEqual(hazards(queue(use, dict(use, te_id=1))), {(0, 1)})
        # Queue order: both on TE0.
        self.assertEqual(hazards(queue(use, use)), set())

    def test_paths(self):
        use = gemm(1, 1, 4, ifm=(0, 0))
        self.assertEqual(hazards(queue(
            dma(4), {"opcode": "BARRIER", "wait_for": [0]}, use)), set())
        self.assertEqual(hazards(queue(
            dma(4), {"opcode": "BARRIER", "wait_for": []}, use)), {(0, 2)})
        group = {"opcode": "SYNC_GROUP", "name": "a", "group": [0]}
        self.assertEqual(hazards(queue(dma(4), group, use)), {(0, 2)})
        self.assertEqual(hazards(queue(
            dma(4), group, dict(use, wait_group="a"))), set())
        # A path of two steps: DMA 0, DMA 1 (queue), dep.
        q = queue(dma(4), dma(4, bank=5), dict(use, deps_before=[1]))
        self.assertEqual(hazards(q), set())
        self.assertEqual(closure(q, Machine().params)[2], 3)
        # With two channels no longer.
        self.assertEqual(hazards(q, {"dma.count": 2}), {(0, 2)})

    def test_strides(self):
        two = {"dma.count": 2}
        rows = dict(dma(4, stride_bytes=8, row_elements=2),
                    opcode="DMA_STORE_TILE")
        self.assertEqual(hazards(queue(rows, dma(6, addr=2, bank=1)), two),
                         set())
        self.assertEqual(hazards(queue(rows, dma(7, addr=2, bank=1)), two),
                         {(0, 1)})

    def test_operands(self):
        # An odd number of 4-bit elements reaches into the shared byte.
        self.assertEqual(hazards(queue(
            dma(3, q=4), gemm(1, 1, 1, ifm=(0, 1)))), {(0, 1)})
        e = gemm(1, 2, 2, bias_bank=0, bias_offset=0)
        e["ifm_bank"] = 3
        self.assertEqual(hazards(queue(dma(1, offset=7), e)), {(0, 1)})
        self.assertEqual(hazards(queue(dma(1, offset=8), e)), set())
        e = ve("LAYERNORM", 2, gamma_bank=0, gamma_offset=0, beta_bank=0,
               beta_offset=8)
        self.assertEqual(hazards(queue(dma(1, offset=15), e)), {(0, 1)})
        self.assertEqual(hazards(queue(dma(1, offset=16), e)), set())


class Reader(unittest.TestCase):
    def test_bad(self):
        for change in ({"id": 1}, {"nonsense": 1}, {"qbits": 3},
                       {"deps_before": [0]}, {"deps_before": [9]},
                       {"num_elements": 0}, {"num_elements": 4.0}):
            self.assertRaises(Bad, queue, dict(dma(4), **change))
        queue(dict(dma(4), id=0, reserved_x=[], debug={"a": 1}))
        self.assertRaises(Bad, run, dma(4, offset=262141))
        self.assertRaises(Bad, run, dma(4, bank=8))

    def test_scale_is_rounded_once(self):
        e = queue(gemm(scale_ifm=0.1)).entries[0]
        self.assertEqual(e.scale_ifm, f32(0.1))


class Generator(unittest.TestCase):
    def test_valid(self):
        for kind in KINDS:
            for seed in range(4):
                doc, params = gen(seed, kind)
                q = load(doc)
                m = Machine(params)
                r = m.run(q)
                for s in r["engines"].values():
                    self.assertEqual(s["busy"] + s["idle"]
                                     + sum(s["stalled"].values()), r["cycles"])
                if kind == "data":
                    self.assertEqual(hazards(q, m.params), set())
                self.assertEqual(gen(seed, kind), (doc, params))


def main():
    suite = unittest.defaultTestLoader.loadTestsFromModule(
        sys.modules[__name__])
    result = unittest.TextTestRunner(verbosity=1).run(suite)
    failed = len(result.failures) + len(result.errors)
    print("%d passed, %d failed" % (result.testsRun - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
