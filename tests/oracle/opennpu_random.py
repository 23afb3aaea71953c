# SPDX-License-Identifier: Apache-2.0
"""Seeded generator of random OpenNPU programs for testing a simulator.

gen(seed) returns the words, the initial memory and the initial registers.  A
shadow machine executes the program while it is made, so that every
instruction is valid, except one in a program meant to fault.  asm(word) gives
the assembly line of a word that has no don't-care bits set.
"""

import random
import struct

from opennpu_oracle import (CONVERSIONS, FORMAT_CLASS, FUNCT3, OP_ARITH,
                            OP_BCAST, OP_CVT, OP_FMA, OP_FP, OP_LD, OP_LOGIC,
                            OP_LUT, OP_MMA, OP_MOV, OP_NOP, OP_REDUCE, OP_ST,
                            VE, VR, VX, Fault, Machine, decode)

# -- encoder, from section 2 -------------------------------------------------


def put(fields):
    word = 0
    for value, high, low in fields:
        width = high - low + 1
        assert 0 <= value < 1 << width, (value, high, low)
        word |= value << low
    return word


def enc_r(op, f3, rd=0, rs1=0, rs2=0, f7=0):
    return put([(op, 6, 0), (rd, 11, 7), (f3, 14, 12), (rs1, 19, 15),
                (rs2, 24, 20), (f7, 31, 25)])


def enc_i(op, f3, rd=0, rs1=0, imm=0):
    assert -2048 <= imm < 4096
    return put([(op, 6, 0), (rd, 11, 7), (f3, 14, 12), (rs1, 19, 15),
                (imm & 0xFFF, 31, 20)])


def enc_s(op, f3, rd, rs1, rs2, rs3, rnd=0):
    return put([(op, 6, 0), (rd, 11, 7), (f3, 14, 12), (rs1, 19, 15),
                (rs2, 24, 20), (rnd, 26, 25), (rs3, 31, 27)])


def attr(width=0, rnd=0, sat=0, dtype=0):
    return put([(width, 1, 0), (rnd, 3, 2), (sat, 4, 4), (dtype, 6, 5)])


def cvt_attr(src, sat=0, rnd=0, e5m2=0):
    return put([(src, 2, 0), (sat, 3, 3), (rnd, 5, 4), (e5m2, 6, 6)])


def arith(f3, width, rd, rs1, rs2=0, sat=0):
    return enc_r(OP_ARITH, f3, rd, rs1, rs2, attr(width, sat=sat))


def logic(f3, width, rd, rs1, rs2=0):
    return enc_r(OP_LOGIC, f3, rd, rs1, rs2, attr(width))


def red(f3, width, rd, rs1):
    return enc_r(OP_REDUCE, f3, rd, rs1, 0, attr(width))


def vlut(bank, rd, rs1):
    return enc_r(OP_LUT, bank, rd, rs1)


def vsetlut(bank, rs1, segment):
    return enc_i(OP_LUT, 4 + bank, 0, rs1, segment)


def cvt(dst, src, rd, rs1, sat=0, rnd=0, e5m2=0):
    return enc_r(OP_CVT, dst, rd, rs1, 0, cvt_attr(src, sat, rnd, e5m2))


def bcast(width, rd, rs1):
    return enc_r(OP_BCAST, 0, rd, rs1, 0, attr(width))


def bcast_imm(rd, imm):
    return enc_i(OP_BCAST, 1, rd, 0, imm)


def fp(f3, rd, rs1, rs2=0, rnd=0):
    return enc_r(OP_FP, f3, rd, rs1, rs2, attr(rnd=rnd))


def fma(f3, rd, rs1, rs2, rs3, rnd=0):
    return enc_s(OP_FMA, f3, rd, rs1, rs2, rs3, rnd)


def mov(width, rd, rs1):
    return enc_r(OP_MOV, 0, rd, rs1, 0, attr(width))


def movi(rd, imm):
    return enc_i(OP_MOV, 1, rd, 0, imm)


def movh(rd, imm):
    return enc_i(OP_MOV, 2, rd, 0, imm)


def ld(f3, rd, rs1, imm=0):
    return enc_i(OP_LD, f3, rd, rs1, imm)


def st(f3, rd, rs1, imm=0):
    return enc_i(OP_ST, f3, rd, rs1, imm)


def mma(rs1, rs2, keep=0):
    return enc_r(OP_MMA, 0, 0, rs1, rs2, attr(sat=keep))


def mma_last(rd, rs1=0, rs2=0, keep=0):
    return enc_r(OP_MMA, 1, rd, rs1, rs2, attr(sat=keep))


def mma_reset():
    return enc_r(OP_MMA, 2)


# -- assembly lines, section 5 -----------------------------------------------

REG = ["vx%d", "ve%d", "vr%d"]
ROUND = ["", ".rtz", ".floor", ".ceil"]
FORMAT = ["s8", "s16", "s32", "f32", "bf16", "bf8"]
MEM = ["b", "h", "w", "vx", "ve", "vr"]
NAMES = {
    OP_ARITH: "vadd vsub vmul vneg vabs vmax vmin vrsub".split(),
    OP_LOGIC: "vsll vsrl vsra vrol vxor vnot vor vand".split(),
    OP_REDUCE: "vsum vrmax vrmin vrand vror vrxor".split(),
    OP_FP: "vfadd vfsub vfmul vfneg vfabs vfmax vfmin".split(),
    OP_FMA: "vfma vfms vnfma vnfms".split(),
}


def asm(word, L=32):
    """The line of a legal word, or None: illegal, or don't-care bits set."""
    try:
        i = decode(word, L)
    except Fault:
        return None
    op, f3, w = i.opcode, i.f3, i.width
    regs = [REG[c] % n for c, n in ([i.dest] if i.dest else []) + i.sources]
    name = NAMES[op][f3] if op in NAMES else None
    two = len(i.sources) == 2
    rs2 = i.rs2 if two else 0
    if op == OP_NOP:
        back, name = 0, "nop"
    elif op in (OP_LD, OP_ST):
        base = "%d(vr%d)" % (i.imm, i.rs1)
        # The register of the rd field comes first, the base last.
        name = "%s.%s" % ("ld" if op == OP_LD else "st", MEM[f3])
        regs = [REG[f3 % 3] % i.rd, base]
        back = word
    elif op == OP_MMA:
        name = ["mma", "mma.last", "mma.reset"][f3]
        if i.sources:
            back = enc_r(op, f3, i.rd if f3 else 0, i.rs1, i.rs2,
                         attr(sat=i.keep))
            name += ".keep" if i.keep else ""
        else:
            back = enc_r(op, f3, i.rd if f3 == 1 else 0)
    elif op == OP_ARITH:
        sat = i.sat and f3 not in (5, 6)
        name += ".sat" if sat else ""
        back = arith(f3, w, i.rd, i.rs1, rs2, int(sat))
    elif op == OP_LOGIC:
        back = logic(f3, w, i.rd, i.rs1, rs2)
    elif op == OP_REDUCE:
        back = red(f3, w, i.rd, i.rs1)
    elif op == OP_LUT:
        bank = "ab"[f3 & 1]
        if f3 < 4:
            name, back = "vlut." + bank, vlut(f3, i.rd, i.rs1)
        else:
            name, back = "vsetlut." + bank, vsetlut(f3 & 1, i.rs1, i.imm)
            regs.append(str(i.imm))
    elif op == OP_CVT:
        src, dst = i.cvt_src, f3
        # Bits count as attributes only where they change the result.
        sat = i.cvt_sat and (dst, src) in ((0, 2), (1, 2), (0, 3), (2, 3))
        rnd = i.cvt_round if (dst, src) in ((3, 2), (2, 3), (0, 3), (4, 3),
                                            (5, 3)) else 0
        e5m2 = i.cvt_e5m2 and 5 in (dst, src)
        back = cvt(dst, src, i.rd, i.rs1, int(sat), rnd, int(e5m2))
        name = "vcvt_%s_%s%s%s%s" % (FORMAT[dst], FORMAT[src],
                                     ".sat" if sat else "", ROUND[rnd],
                                     ".e5m2" if e5m2 else "")
    elif op == OP_BCAST:
        if f3 == 0:
            name, back = "bcast.reg", bcast(w, i.rd, i.rs1)
        else:
            name, back = "bcast.imm", bcast_imm(i.rd, i.imm)
            regs.append(str(i.imm))
    elif op == OP_FP:
        rnd = i.round if f3 < 3 else 0
        name += ROUND[rnd]
        back = fp(f3, i.rd, i.rs1, rs2, rnd)
    elif op == OP_FMA:
        name += ROUND[i.rnd]
        back = word
    elif op == OP_MOV:
        name = ["mov", "movi", "movh"][f3]
        if f3 == 0:
            back = mov(w, i.rd, i.rs1)
        else:
            back = [None, movi, movh][f3](i.rd, i.imm)
            regs.append(str(i.imm))
    if back != word:
        return None
    return name + (" " + ", ".join(regs) if regs else "")


# -- data ----------------------------------------------------------------------

F32_SPECIALS = [
    0x00000000, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00001,
    0x7F800001, 0x00000001, 0x807FFFFF, 0x00800000, 0x80800000, 0x00800001,
    0x7F7FFFFF, 0xFF7FFFFF, 0x3F800000, 0xBF800000, 0x3F800001, 0x3F7FFFFF,
    0x3F000000, 0xBF000000, 0x3FC00000, 0xC0200000, 0x40600000, 0x4F000000,
    0xCF000000, 0xCF000001, 0x4EFFFFFF, 0x4F800000, 0x42FE0000, 0x42FF0000,
    0x43000000, 0xC3000000, 0xC3008000, 0xC3010000, 0x4B7FFFFF, 0x4B800001,
    0x7F7F8000, 0x7F7F7FFF, 0x3F808000, 0x3F818000, 0x3F80C000, 0x5F000000,
    0x20000000, 0x1FFFFFFF, 0x43E00000, 0x43E80000, 0x43F00000, 0x47600000,
    0x47680000, 0x47700000, 0x3C800000, 0x3C780000, 0x3C7FFFFF, 0x38800000,
    0x38700000, 0x387FFFFF, 0xBC7E0000, 0x3E100000, 0x3F880000, 0x3F980000,
]
INT_SPECIALS = [0, 1, -1, 2, -2, 0x7F, 0x80, -0x80, -0x81, 0x7FFF, 0x8000,
                -0x8000, -0x8001, 0x7FFFFFFF, -0x80000000, 0x01000001,
                0x01000003, -0x01000001, 0x7FFFFFBF, 0x7FFFFFC0, 0x7FFFFF40]


def float_word(rng):
    """A binary32 pattern of some interesting kind."""
    kind = rng.random()
    if kind < 0.25:
        return rng.choice(F32_SPECIALS)
    if kind < 0.35:
        return rng.getrandbits(32)
    if kind < 0.5:                                  # halves of integers
        return struct.unpack("<I", struct.pack(
            "<f", rng.randint(-600, 600) / rng.choice([1, 2, 4])))[0]
    if kind < 0.53:                                 # just under BF8 normals
        return (rng.getrandbits(1) << 31 | rng.choice([120, 112]) << 23
                | 0x600000 | rng.getrandbits(21))
    if kind < 0.65:                                 # near one another
        e = rng.choice([126, 127, 128, 129])
    elif kind < 0.75:                               # near the bottom
        e = rng.choice([1, 1, 2, 3, 12, 24, 25, 26, 63, 64])
    elif kind < 0.82:                               # near the top
        e = rng.choice([252, 253, 254, 254, 190, 191])
    elif kind < 0.9:                                # around the BF8 ranges
        e = rng.choice(list(range(108, 124)) + list(range(133, 145)))
    else:
        e = rng.randint(100, 158)
    m = rng.getrandbits(23)
    style = rng.random()
    if style < 0.3:
        m &= ~((1 << rng.randint(1, 23)) - 1)
    elif style < 0.4:
        m |= (1 << rng.randint(1, 23)) - 1
    elif style < 0.5:                               # ties of narrow formats
        n = rng.choice([16, 20, 21])
        m = m >> n << n | 1 << (n - 1)
        m = (m + rng.choice([0, 0, 1, -1])) & 0x7FFFFF
    return rng.getrandbits(1) << 31 | e << 23 | m


def vr_lanes(rng, K):
    """The 32-bit lanes of one VR, in one of several styles."""
    style = rng.randrange(-2, 6)
    if style == -2:                     # least normals; times the next style
        return [rng.getrandbits(1) << 31 | rng.choice([1, 1, 2]) << 23
                | rng.choice([0, 1, 2, 0x400000, 0x7FFFFF])
                for _ in range(K)]
    if style == -1:                     # just under one
        return [(rng.getrandbits(1) << 31 | 0x3F800000) - rng.randint(0, 6)
                for _ in range(K)]
    if style < 3:
        return [float_word(rng) for _ in range(K)]
    if style == 3:
        return [rng.choice(INT_SPECIALS) & 0xFFFFFFFF if rng.random() < 0.5
                else rng.getrandbits(32) for _ in range(K)]
    if style == 4:
        return [rng.randint(-300, 300) & 0xFFFFFFFF for _ in range(K)]
    return [rng.getrandbits(32) for _ in range(K)]


def vr_bytes(lanes):
    """The four VX rows of a VR."""
    return b"".join(bytes(v >> 8 * b & 0xFF for v in lanes) for b in range(4))


def memory_bytes(rng, n):
    if rng.random() < 0.5:
        return bytes(rng.getrandbits(8) for _ in range(n))
    return b"".join(struct.pack("<I", float_word(rng))
                    for _ in range(n // 4 + 1))[:n]


# -- programs --------------------------------------------------------------------

# Weights of the families by profile.
PROFILES = {
    "mixed": {OP_NOP: 1, OP_LD: 4, OP_ST: 3, OP_MMA: 4, OP_ARITH: 4,
              OP_LOGIC: 4, OP_REDUCE: 3, OP_LUT: 4, OP_CVT: 5, OP_BCAST: 2,
              OP_FP: 4, OP_FMA: 4, OP_MOV: 3},
    "float": {OP_LD: 2, OP_ST: 1, OP_CVT: 6, OP_FP: 8, OP_FMA: 8,
              OP_BCAST: 1},
    "integer": {OP_LD: 1, OP_ST: 1, OP_ARITH: 8, OP_LOGIC: 6, OP_REDUCE: 4,
                OP_LUT: 3, OP_CVT: 2, OP_BCAST: 2, OP_MOV: 2},
    "matrix": {OP_LD: 2, OP_ST: 1, OP_MMA: 14, OP_CVT: 2, OP_FMA: 1,
               OP_ARITH: 1, OP_BCAST: 1},
    "memory": {OP_LD: 8, OP_ST: 8, OP_ARITH: 2, OP_REDUCE: 1, OP_LUT: 1,
               OP_FMA: 2, OP_CVT: 2, OP_BCAST: 1, OP_MOV: 2, OP_NOP: 1},
    "hazard": {OP_LD: 6, OP_ST: 1, OP_FMA: 6, OP_CVT: 5, OP_ARITH: 4,
               OP_BCAST: 3, OP_MOV: 4, OP_LUT: 2, OP_MMA: 3, OP_REDUCE: 2},
}
FAULTS = ["reserved-opcode", "reserved-funct3", "reserved-width",
          "reserved-dtype", "cvt-same", "cvt-format", "cvt-pair",
          "register-bits", "register-range", "lut-segment", "memory-range"]


class Generator:
    def __init__(self, seed, params, fault):
        self.rng = random.Random("opennpu %r" % (seed,))
        rng = self.rng
        self.K = params.get("K") or rng.choice([4, 8, 8, 16, 32, 64])
        self.L = params.get("L") or rng.choice([4, 8, 12, 16, 20, 24, 28, 32,
                                                32, 32])
        self.machine = Machine(dict(params, K=self.K, L=self.L))
        self.mem_bytes = self.machine.params["mem.bytes"]
        self.profile = rng.choice(sorted(PROFILES))
        self.weights = PROFILES[self.profile]
        # With few registers dependences are frequent.
        self.few = self.profile == "hazard" or rng.random() < 0.3
        self.words = []
        self.fault = fault

    def reg(self, cls):
        n = self.L >> cls
        if self.few:
            n = min(n, 8 >> cls)
        return self.rng.randrange(n)

    def prepare(self):
        rng, K = self.rng, self.K
        self.mem = {}
        regions = []
        for _ in range(rng.randint(1, 3)):
            size = rng.choice([64, 256, 1024])
            where = rng.random()
            if where < 0.25:
                addr = 0
            elif where < 0.45:
                addr = self.mem_bytes - size
            else:
                addr = rng.randrange(self.mem_bytes - size)
            if all(addr + size <= a or a + n <= addr for a, n in regions):
                regions.append((addr, size))
                self.mem[addr] = memory_bytes(rng, size)
        self.regions = regions
        regs = b""
        for r in range(self.L // 4):
            lanes = vr_lanes(rng, K)
            if r == 0 or rng.random() < 0.4:
                lanes[0] = self.address()
            regs += vr_bytes(lanes)
        self.regs = regs
        for addr, data in self.mem.items():
            self.machine.load_mem(addr, data)
        self.machine.load_regs(regs)

    def address(self):
        addr, size = self.rng.choice(self.regions)
        return (addr + self.rng.randrange(-16, size + 16)) & 0xFFFFFFFF

    def noise(self, bits, share=0.25):
        """Now and then, bits for a field that does not matter."""
        return self.rng.getrandbits(bits) if self.rng.random() < share else 0

    def attrs(self, width):
        rng = self.rng
        return attr(width, self.noise(2), rng.getrandbits(1),
                    rng.choice([0, 0, 0, 1, 2]))

    def memory(self, op):
        """An LD or ST whose address is near the data, or None."""
        rng = self.rng
        f3 = rng.randrange(6)
        candidates = []
        for r in range(self.L // 4):
            lane = self.machine.get(VR, r)[0]
            for addr, size in self.regions:
                # The sum is modulo 2^32, so a base may also be negative.
                for base in (lane, lane - (1 << 32)):
                    lo = max(-2048, addr - 16 - base)
                    hi = min(2047, addr + size + 16 - base)
                    if lo <= hi:
                        candidates.append((r, lo, hi))
        if not candidates:
            return None
        r, lo, hi = rng.choice(candidates)
        imm = rng.randint(lo, hi) if rng.random() < 0.9 else rng.choice(
            [lo, hi, max(lo, min(hi, 0))])
        return enc_i(op, f3, self.reg(f3 % 3), r, imm)

    def instruction(self, op):
        rng = self.rng
        w = rng.randrange(3)
        f3 = rng.choice(list(FUNCT3[op])) if op in FUNCT3 else 0
        if op == OP_NOP:
            return rng.getrandbits(25) << 7 if rng.random() < 0.3 else 0
        if op in (OP_LD, OP_ST):
            return self.memory(op)
        if op == OP_MMA:
            f3 = rng.choice([0] * 6 + [1] * 8 + [2])
            keep = rng.random() < (0.7 if f3 == 0 else 0.15)
            f7 = attr(self.noise(1), self.noise(2), int(keep),
                      self.noise(1))
            if f3 == 0 or (f3 == 1 and keep):
                rs1, rs2 = self.reg(VX), self.reg(VX)
            else:
                rs1, rs2 = self.noise(5), self.noise(5)
            rd = self.reg(VR) if f3 == 1 else self.noise(5)
            return enc_r(op, f3, rd, rs1, rs2, f7)
        if op in (OP_ARITH, OP_LOGIC):
            unary = f3 in (3, 4) if op == OP_ARITH else f3 == 5
            return enc_r(op, f3, self.reg(w), self.reg(w),
                         self.noise(5) if unary else self.reg(w),
                         self.attrs(w))
        if op == OP_REDUCE:
            return enc_r(op, f3, self.reg(VR), self.reg(w), self.noise(5),
                         self.attrs(w))
        if op == OP_LUT:
            if f3 < 4:
                return enc_r(op, f3, self.reg(VX), self.reg(VX),
                             self.noise(5), self.attrs(rng.choice([0, 0, w])))
            return enc_i(op, f3, self.noise(5), self.reg(VR),
                         rng.randrange(max(1, 64 // self.K)))
        if op == OP_CVT:
            dst, src = rng.choice(sorted(CONVERSIONS))
            return enc_r(op, dst, self.reg(FORMAT_CLASS[dst]),
                         self.reg(FORMAT_CLASS[src]), self.noise(5),
                         cvt_attr(src, rng.getrandbits(1),
                                  rng.getrandbits(2), rng.getrandbits(1)))
        if op == OP_BCAST:
            if f3 == 0:
                # Seldom, so that the registers keep different lanes.
                return enc_r(op, f3, self.reg(w), self.reg(w), self.noise(5),
                             self.attrs(w))
            return enc_i(op, f3, self.reg(VX), self.noise(5),
                         rng.randint(-2048, 2047))
        if op == OP_FP:
            unary = f3 in (3, 4)
            f7 = attr(self.noise(1), rng.getrandbits(2), self.noise(1),
                      self.noise(1))
            return enc_r(op, f3, self.reg(VR), self.reg(VR),
                         self.noise(5) if unary else self.reg(VR), f7)
        if op == OP_FMA:
            return enc_s(op, f3, self.reg(VR), self.reg(VR), self.reg(VR),
                         self.reg(VR), rng.getrandbits(2))
        if f3 == 0:
            return enc_r(op, f3, self.reg(w), self.reg(w), self.noise(5),
                         self.attrs(w))
        return enc_i(op, f3, self.reg(VX if f3 == 1 else VE), self.noise(5),
                     rng.randint(-2048, 2047))

    # A word that has exactly one reason to fault, of the kind asked for.

    def faulty(self, kind):
        rng = self.rng
        for _ in range(20000):
            word = self.faulty_candidate(kind)
            if word is None:
                continue
            try:
                self.machine.check(word)
            except Fault as f:
                if f.kind == kind:
                    return word
        return None

    def faulty_candidate(self, kind):
        rng = self.rng
        if kind == "reserved-opcode":
            op = rng.choice(list(range(0x04, 0x10)) + list(range(0x19, 0x80)))
            return rng.getrandbits(25) << 7 | op
        ops = sorted(FUNCT3)
        if kind == "reserved-funct3":
            op = rng.choice(ops)
            bad = [f for f in range(8) if f not in FUNCT3[op]]
            if not bad:
                return None
            word = self.instruction(op)
            return word and word & ~0x7000 | rng.choice(bad) << 12
        if kind == "lut-segment":
            return vsetlut(rng.getrandbits(1), self.reg(VR), rng.choice(
                [64 // self.K, 64 // self.K + 1, 2047, -1, -2048,
                 rng.randint(-2048, 2047)]))
        if kind == "memory-range":
            return enc_i(rng.choice([OP_LD, OP_ST]), rng.randrange(6), 0,
                         self.reg(VR), rng.choice(
                             [0, 2047, -2048, rng.randint(-2048, 2047)]))
        if kind.startswith("cvt"):
            word = self.instruction(OP_CVT)
            return (word & ~0x0E007000 | rng.randrange(6) << 12
                    | rng.randrange(8) << 25)
        word = self.instruction(rng.choice(ops))
        if word is None:
            return None
        if kind == "reserved-width":
            return word | 3 << 25
        if kind == "reserved-dtype":
            return word | 3 << 30
        field = rng.choice([7, 15, 20, 27])
        return word & ~(31 << field) | rng.getrandbits(5) << field

    def emit(self, word):
        """Take a word if it is legal now."""
        if word is None:
            return
        try:
            self.machine.step(word)
        except Fault:
            return
        self.words.append(word)

    def phrase(self):
        """Sequences that single random instructions seldom make."""
        rng, K = self.rng, self.K
        kind = rng.randrange(6)
        if kind == 0:                   # fill part of a table and use it
            for s in range(rng.randint(1, max(1, 64 // K))):
                self.emit(vsetlut(rng.getrandbits(1), self.reg(VR), s))
            self.emit(vlut(rng.getrandbits(1), self.reg(VX), self.reg(VX)))
        elif kind == 1:                 # accumulate, drain some columns
            n = min(K, rng.choice([1, 2, K]))
            for i in range(n):
                self.emit(mma(self.reg(VX), self.reg(VX), int(i > 0)))
            for _ in range(rng.choice([1, 2, n, K + 1 if K <= 16 else 3])):
                self.emit(mma_last(self.reg(VR)))
        elif kind == 2:                 # through a narrow format and back
            a, b = rng.choice([(4, 3), (5, 3), (5, 3), (0, 3), (2, 3)])
            r = self.reg(FORMAT_CLASS[a])
            v = rng.getrandbits(1)
            self.emit(cvt(a, b, r, self.reg(FORMAT_CLASS[b]),
                          rng.getrandbits(1), rng.getrandbits(2), v))
            self.emit(cvt(b, a, self.reg(VR), r, 0, rng.getrandbits(2), v))
        elif kind == 3:                 # a slow write, then writes beside it
            self.emit(self.memory(OP_LD) if rng.random() < 0.7 else
                      self.instruction(OP_FMA))
            if self.words:
                rd = self.words[-1] >> 7 & 31
                for r in {rd, rd // 2, rd * 2, rd * 2 + 1}:
                    if r < self.L // 2 and rng.random() < 0.5:
                        self.emit(movh(r, rng.randint(-128, 127)))
                    elif r < self.L and rng.random() < 0.5:
                        self.emit(movi(r, rng.randint(-128, 127)))
        elif kind == 4:                 # products about the least normal
            a, b = self.reg(VR), self.reg(VR)
            for _ in range(2):
                self.emit(fp(rng.choice([0, 1, 2]), self.reg(VR), a, b,
                             rng.getrandbits(2)))
                self.emit(fma(rng.randrange(4), self.reg(VR), a, b,
                              self.reg(VR), rng.getrandbits(2)))
        else:                           # loads, then a consumer of one
            for _ in range(rng.randint(1, 3)):
                self.emit(self.memory(OP_LD))
            self.emit(self.instruction(rng.choice([OP_FMA, OP_CVT, OP_ARITH,
                                                   OP_MOV])))

    def make(self):
        rng = self.rng
        self.prepare()
        ops = sorted(self.weights)
        weights = [self.weights[o] for o in ops]
        length = rng.choice([1, 3, 8, 20, 40, 60])
        while len(self.words) < length:
            if rng.random() < 0.08 and self.profile != "memory":
                self.phrase()
                continue
            self.emit(self.instruction(rng.choices(ops, weights)[0]))
        if self.fault:
            word = self.faulty(self.fault)
            if word is None:
                self.fault = None
            else:
                # The rest shows that nothing after the fault has an effect.
                self.words.append(word)
                for _ in range(rng.choice([0, 0, 3])):
                    word = self.instruction(OP_BCAST)
                    self.words.append(word)


def gen(seed, params=None, fault=None):
    """A random program; `fault` names the kind it ends with, None: chance."""
    pick = random.Random("opennpu fault %r" % (seed,))
    if fault is None and pick.random() < 0.3:
        fault = pick.choice(FAULTS)
    g = Generator(seed, params or {}, fault)
    g.make()
    # What to compare in memory: the data and everything that was stored to.
    spans = sorted([(a, a + len(d)) for a, d in g.mem.items()]
                   + [(max(0, a - 8), min(g.mem_bytes, a + n + 8))
                      for a, n in g.machine.written])
    merged = []
    for lo, hi in spans:
        if merged and lo <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], hi)
        else:
            merged.append([lo, hi])
    return {"words": g.words, "mem": g.mem, "regs": g.regs, "K": g.K,
            "L": g.L, "profile": g.profile, "fault": g.fault,
            "memory_dumps": [(lo, hi - lo) for lo, hi in merged]}
