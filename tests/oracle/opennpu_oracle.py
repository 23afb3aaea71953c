# SPDX-License-Identifier: Apache-2.0
"""Reference implementation ("oracle") of the OpenNPU vector machine.

Written from the specification alone and used to test the simulator.  It
favours the obvious over the fast: floating-point values are exact fractions,
rounded once where the specification rounds, and the time of an instruction
is the first tick that meets every condition of section 4.

Where the specification allows two readings the one taken is an entry of
CHOICES, so that a difference can be tried against the other reading.
"""

import operator
from fractions import Fraction
from functools import reduce

DEFAULTS = {
    "K": 8,
    "L": 32,
    "mem.bytes": 64 << 20,
    "ld.latency": 4,
}

CHOICES = {
    # mma.last with keep=1 accumulates and leaves `col` alone; True: it also
    # sets col = 0 first, as mma does.
    "last_keep_col0": False,
    # An mma.last with keep=1 is timed against the accumulating instructions
    # before it, and is one itself for those after it; False: the latter not.
    "last_keep_accumulates": True,
    # A wide LD is ready ld.latency after issue; True: plus the further ticks
    # of its transfer.
    "ld_adds_port": False,
    # The same for the end of a wide ST.
    "st_adds_port": False,
    # The destination rows of movh are both planes of VE[rd]; False: only the
    # plane it writes.
    "movh_both_rows": True,
    # mma.reset leaves the wait for the array as it is; True: no wait after.
    "reset_clears_wait": False,
    # A result is rounded to the precision of the format with unbounded
    # exponent and flushed if it is then below the smallest normal number;
    # False: rounded on the grid of the format, subnormals included.
    "flush_unbounded": True,
}

RNE, RTZ, FLOOR, CEIL = range(4)
VX, VE, VR = range(3)
CLASS_NAMES = ["vx", "ve", "vr"]

OP_NOP, OP_LD, OP_ST, OP_MMA = range(4)
(OP_ARITH, OP_LOGIC, OP_REDUCE, OP_LUT, OP_CVT, OP_BCAST, OP_FP, OP_FMA,
 OP_MOV) = range(0x10, 0x19)

# The funct3 values each family defines.
FUNCT3 = {
    OP_LD: range(6), OP_ST: range(6), OP_MMA: range(3), OP_ARITH: range(8),
    OP_LOGIC: range(8), OP_REDUCE: range(6), OP_LUT: (0, 1, 4, 5),
    OP_CVT: range(6), OP_BCAST: (0, 1), OP_FP: range(7), OP_FMA: range(4),
    OP_MOV: range(3),
}

S8, S16, S32, F32, BF16, BF8 = range(6)
FORMAT_CLASS = [VX, VE, VR, VR, VE, VX]
INT_BITS = {S8: 8, S16: 16, S32: 32}
# The twelve conversions, (destination, source).
CONVERSIONS = {
    (S8, S32), (S32, S8), (F32, S32), (S32, F32), (F32, S8), (S8, F32),
    (F32, BF16), (BF16, F32), (F32, BF8), (BF8, F32), (S16, S32), (S32, S16),
}

# Fault kinds, one for each illegal class of section 2, then the two that
# only an execution can find.
KINDS = [
    "reserved-opcode", "reserved-funct3", "reserved-width", "reserved-dtype",
    "cvt-same", "cvt-format", "cvt-pair", "register-bits", "register-range",
    "lut-segment", "memory-range",
]


# The tool's code for each kind of fault.
FAULT_CODES = {
    "reserved-opcode": "TV-N001", "reserved-funct3": "TV-N002", "reserved-width": "TV-N003", "reserved-dtype": "TV-N004",
    "cvt-same": "TV-N005", "cvt-format": "TV-N006", "cvt-pair": "TV-N007", "register-bits": "TV-N008",
    "register-range": "TV-N008", "lut-segment": "TV-N010", "memory-range": "TV-N011",
}


class Fault(Exception):
    """A fault; `kind` is the oracle's own name of its cause."""

    def __init__(self, kind, detail=""):
        super().__init__(kind + (": " + detail if detail else ""))
        self.kind = kind
        self.detail = detail


# --------------------------------------------------------------------------
# Numbers
#
# A floating-point value is a pair (negative, magnitude) with an exact
# Fraction >= 0, so that zero has a sign.
# --------------------------------------------------------------------------

def signed(v, bits):
    v &= (1 << bits) - 1
    return v - (1 << bits) if v >> (bits - 1) else v


def clamp(v, bits):
    return max(-(1 << (bits - 1)), min((1 << (bits - 1)) - 1, v))


def fit(v, bits, sat):
    """An exact integer as the unsigned pattern of a lane."""
    return (clamp(v, bits) if sat else v) & ((1 << bits) - 1)


def round_integer(x, mode):
    """An exact rational as an integer."""
    low = x.numerator // x.denominator
    rest = x - low
    if rest == 0 or mode == FLOOR:
        return low
    if mode == CEIL:
        return low + 1
    if mode == RTZ:
        return low if x > 0 else low + 1
    half = Fraction(1, 2)
    if rest != half:
        return low + (rest > half)
    return low + (low & 1)


def exponent(m):
    """floor(log2(m)) of an exact m > 0."""
    e = m.numerator.bit_length() - m.denominator.bit_length()
    if m < Fraction(2) ** e:
        e -= 1
    assert Fraction(2) ** e <= m < Fraction(2) ** (e + 1)
    return e


class Format:
    """A binary format: 1 sign bit, `ebits` of exponent, `mbits` of mantissa.

    `top` is the magnitude pattern of the largest finite value.
    """

    def __init__(self, ebits, mbits, top):
        self.ebits, self.mbits, self.top = ebits, mbits, top
        self.bits = 1 + ebits + mbits
        self.bias = (1 << (ebits - 1)) - 1
        self.emin = 1 - self.bias
        self.largest = self.magnitude(top)

    def magnitude(self, pattern):
        e = pattern >> self.mbits
        m = pattern & ((1 << self.mbits) - 1)
        return ((1 << self.mbits) + m) * Fraction(2) ** (
            e - self.bias - self.mbits)

    def decode(self, pattern):
        """NaN, infinite and subnormal patterns count as signed zero."""
        negative = bool(pattern >> (self.bits - 1) & 1)
        pattern &= (1 << (self.bits - 1)) - 1
        if pattern > self.top or pattern >> self.mbits == 0:
            return negative, Fraction(0)
        return negative, self.magnitude(pattern)

    def encode(self, value, mode, unbounded=True):
        """Round once; above the largest: the largest; subnormal: zero."""
        negative, m = value
        sign = int(negative) << (self.bits - 1)
        if m == 0:
            return sign
        e = exponent(m)
        if not unbounded:
            e = max(e, self.emin)
        unit = Fraction(2) ** (e - self.mbits)
        n = round_integer((-m if negative else m) / unit, mode)
        m = abs(n) * unit
        if m < Fraction(2) ** self.emin:
            return sign
        if m > self.largest:
            return sign | self.top
        e = exponent(m)
        n = m / Fraction(2) ** (e - self.mbits)
        assert n.denominator == 1
        return sign | (e + self.bias - 1 << self.mbits) + int(n)


FP32 = Format(8, 23, 0x7F7FFFFF)
BFLOAT16 = Format(8, 7, 0x7F7F)
E4M3 = Format(4, 3, 0x7E)       # exponent 15 is finite up to mantissa 6
E5M2 = Format(5, 2, 0x7B)       # exponent 31 is not finite


def negate(x):
    return not x[0], x[1]


def exact(x):
    return -x[1] if x[0] else x[1]


def real(v, negative_zero=False):
    """The pair of an exact rational."""
    return (v < 0 or (v == 0 and negative_zero), abs(v))


def product(x, y):
    return x[0] != y[0], x[1] * y[1]


def total(x, y, mode):
    """Exact sum; the sign of a zero sum as IEEE 754 has it."""
    s = exact(x) + exact(y)
    if s != 0:
        return real(s)
    if x[1] == 0 and x[0] == y[0]:
        return x
    return mode == FLOOR, Fraction(0)


def larger(x, y):
    """The greater by value, +0 above -0."""
    if exact(x) != exact(y):
        return x if exact(x) > exact(y) else y
    return y if x[0] else x


def smaller(x, y):
    return negate(larger(negate(x), negate(y)))


def convert(v, dst, src, sat, mode, e5m2, unbounded=True):
    """One lane of a CVT: pattern to pattern."""
    bf8 = E5M2 if e5m2 else E4M3
    if src in INT_BITS:
        x = real(Fraction(signed(v, INT_BITS[src])))
    else:
        x = {F32: FP32, BF16: BFLOAT16, BF8: bf8}[src].decode(v)
    if dst in INT_BITS:
        return fit(round_integer(exact(x), mode), INT_BITS[dst], sat)
    return {F32: FP32, BF16: BFLOAT16, BF8: bf8}[dst].encode(x, mode,
                                                            unbounded)


def arith(f3, a, b, bits, sat):
    """One lane of ARITH: patterns to pattern."""
    a, b = signed(a, bits), signed(b, bits)
    r = [a + b, a - b, a * b, -a, abs(a), max(a, b), min(a, b), b - a][f3]
    return fit(r, bits, sat)


def logic(f3, a, b, bits):
    """One lane of LOGIC."""
    mask = (1 << bits) - 1
    n = b & (bits - 1)
    return [a << n, a >> n, signed(a, bits) >> n, a << n | a >> (bits - n),
            a ^ b, ~a, a | b, a & b][f3] & mask


REDUCTIONS = [operator.add, max, min, operator.and_, operator.or_,
              operator.xor]


# --------------------------------------------------------------------------
# Memory
# --------------------------------------------------------------------------

class Memory:
    """Sparse byte memory; what was never written reads as zero."""

    def __init__(self):
        self.data = {}

    def read(self, addr, count):
        get = self.data.get
        return bytes(get(a, 0) for a in range(addr, addr + count))

    def write(self, addr, data):
        for i, b in enumerate(data):
            self.data[addr + i] = b


# --------------------------------------------------------------------------
# Decoding
# --------------------------------------------------------------------------

class Instruction:
    """The fields of a word, and the registers it reads and writes."""

    def __init__(self, word):
        self.word = word
        self.opcode = word & 0x7F
        self.rd = word >> 7 & 31
        self.f3 = word >> 12 & 7
        self.rs1 = word >> 15 & 31
        self.rs2 = word >> 20 & 31
        self.rs3 = word >> 27 & 31
        self.f7 = word >> 25 & 127
        self.rnd = word >> 25 & 3
        self.imm = signed(word >> 20, 12)
        self.width = self.f7 & 3
        self.round = self.f7 >> 2 & 3
        self.sat = self.keep = bool(self.f7 >> 4 & 1)
        self.dtype = self.f7 >> 5 & 3
        self.cvt_src = self.f7 & 7
        self.cvt_sat = bool(self.f7 >> 3 & 1)
        self.cvt_round = self.f7 >> 4 & 3
        self.cvt_e5m2 = bool(self.f7 >> 6 & 1)
        self.sources = []       # (class, index)
        self.dest = None        # (class, index)


def is_r_type(op, f3):
    """R-type words whose funct7 has the ordinary layout."""
    if op in (OP_MMA, OP_ARITH, OP_LOGIC, OP_REDUCE, OP_FP):
        return True
    return (op == OP_LUT and f3 < 4) or (op in (OP_BCAST, OP_MOV) and f3 == 0)


def decode(word, L):
    """The Instruction of a word; raises Fault where it is illegal."""
    i = Instruction(word)
    op, f3 = i.opcode, i.f3
    if op == OP_NOP:
        return i
    if op not in FUNCT3:
        raise Fault("reserved-opcode", "0x%02x" % op)
    if f3 not in FUNCT3[op]:
        # A destination format that does not exist is a reserved funct3.
        raise Fault("reserved-funct3", "%d of family 0x%02x" % (f3, op))
    if is_r_type(op, f3):
        if i.width == 3:
            raise Fault("reserved-width")
        if i.dtype == 3:
            raise Fault("reserved-dtype")
    rd, rs1, rs2, w = i.rd, i.rs1, i.rs2, i.width
    if op == OP_LD:
        i.sources, i.dest = [(VR, rs1)], (f3 % 3, rd)
    elif op == OP_ST:
        i.sources = [(VR, rs1), (f3 % 3, rd)]
    elif op == OP_MMA:
        if f3 == 0 or (f3 == 1 and i.keep):
            i.sources = [(VX, rs1), (VX, rs2)]
        if f3 == 1:
            i.dest = (VR, rd)
    elif op == OP_ARITH:
        i.sources = [(w, rs1)] if f3 in (3, 4) else [(w, rs1), (w, rs2)]
        i.dest = (w, rd)
    elif op == OP_LOGIC:
        i.sources = [(w, rs1)] if f3 == 5 else [(w, rs1), (w, rs2)]
        i.dest = (w, rd)
    elif op == OP_REDUCE:
        i.sources, i.dest = [(w, rs1)], (VR, rd)
    elif op == OP_LUT:
        if f3 < 4:
            i.sources, i.dest = [(VX, rs1)], (VX, rd)
        else:
            i.sources = [(VR, rs1)]
    elif op == OP_CVT:
        if i.cvt_src > BF8:
            raise Fault("cvt-format", "source %d" % i.cvt_src)
        if i.cvt_src == f3:
            raise Fault("cvt-same")
        if (f3, i.cvt_src) not in CONVERSIONS:
            raise Fault("cvt-pair", "%d from %d" % (f3, i.cvt_src))
        i.sources = [(FORMAT_CLASS[i.cvt_src], rs1)]
        i.dest = (FORMAT_CLASS[f3], rd)
    elif op == OP_BCAST:
        if f3 == 0:
            i.sources, i.dest = [(w, rs1)], (w, rd)
        else:
            i.dest = (VX, rd)
    elif op == OP_FP:
        i.sources = [(VR, rs1)] if f3 in (3, 4) else [(VR, rs1), (VR, rs2)]
        i.dest = (VR, rd)
    elif op == OP_FMA:
        i.sources = [(VR, rs1), (VR, rs2), (VR, i.rs3)]
        i.dest = (VR, rd)
    elif op == OP_MOV:
        if f3 == 0:
            i.sources, i.dest = [(w, rs1)], (w, rd)
        else:
            i.dest = (VX if f3 == 1 else VE, rd)
    for cls, index in i.sources + ([i.dest] if i.dest else []):
        if index >= 32 >> cls:
            raise Fault("register-bits", "%s%d" % (CLASS_NAMES[cls], index))
        if index >= L >> cls:
            raise Fault("register-range", "%s%d" % (CLASS_NAMES[cls], index))
    return i


# --------------------------------------------------------------------------
# The machine
# --------------------------------------------------------------------------

class Machine:
    def __init__(self, params=None, choices=None):
        self.params = dict(DEFAULTS)
        for key, value in (params or {}).items():
            if key not in DEFAULTS:
                raise ValueError("unknown parameter %s" % key)
            self.params[key] = value
        self.choices = dict(CHOICES)
        for key, value in (choices or {}).items():
            if key not in CHOICES:
                raise ValueError("unknown choice %s" % key)
            self.choices[key] = value
        K, L = self.params["K"], self.params["L"]
        if K not in (4, 8, 16, 32, 64):
            raise ValueError("K must be a power of two from 4 to 64")
        if L not in range(4, 33, 4):
            raise ValueError("L must be a multiple of 4 from 4 to 32")
        self.K, self.L = K, L
        self.vx = [bytearray(K) for _ in range(L)]
        self.lut = [bytearray(256), bytearray(256)]
        self.acc = [[0] * K for _ in range(K)]      # unsigned patterns
        self.col = 0
        self.mem = Memory()
        self.written = []                           # (address, bytes) of ST
        self.reset_time()

    # -- registers ---------------------------------------------------------

    def rows(self, cls, index):
        """The VX rows of a register, low byte plane first."""
        n = 1 << cls
        return range(n * index, n * index + n)

    def get(self, cls, index):
        """The lanes of a register as unsigned patterns."""
        planes = [self.vx[r] for r in self.rows(cls, index)]
        return [sum(p[j] << 8 * b for b, p in enumerate(planes))
                for j in range(self.K)]

    def put(self, cls, index, lanes):
        for b, r in enumerate(self.rows(cls, index)):
            for j, v in enumerate(lanes):
                self.vx[r][j] = v >> 8 * b & 0xFF

    def load_regs(self, data):
        for r in range(len(data) // self.K):
            self.vx[r][:] = data[r * self.K:(r + 1) * self.K]

    def load_mem(self, addr, data):
        self.mem.write(addr, data)

    def dump(self, space, addr, count):
        """Values of a space, flat, addressed as a dump option is."""
        if space == "vx":
            return [b for r in self.vx[addr:addr + count] for b in r]
        if space in ("lut_a", "lut_b"):
            return list(self.lut[space == "lut_b"][addr:addr + count])
        if space == "acc":
            return [v for r in self.acc for v in r][addr:addr + count]
        if space == "mem":
            return list(self.mem.read(addr, count))
        raise ValueError(space)

    # -- execution -----------------------------------------------------------

    def memory_range(self, i):
        """Address and length of an LD or ST."""
        addr = (self.get(VR, i.rs1)[0] + i.imm) & 0xFFFFFFFF
        n = (1 << i.f3 % 3) * (1 if i.f3 < 3 else self.K)
        if addr + n > self.params["mem.bytes"]:
            raise Fault("memory-range", "0x%x, %d bytes" % (addr, n))
        return addr, n

    def accumulate(self, i):
        a = [signed(v, 8) for v in self.vx[i.rs1]]
        b = [signed(v, 8) for v in self.vx[i.rs2]]
        for row, x in zip(self.acc, a):
            for j, y in enumerate(b):
                row[j] = ((row[j] if i.keep else 0) + x * y) & 0xFFFFFFFF

    def execute(self, i):
        """The effect of one decoded instruction."""
        op, f3, K = i.opcode, i.f3, self.K
        unbounded = self.choices["flush_unbounded"]
        src = [self.get(*s) for s in i.sources]
        out = None
        if op == OP_LD:
            addr, n = self.memory_range(i)
            size = 1 << f3 % 3
            data = self.mem.read(addr, n)
            values = [int.from_bytes(data[o:o + size], "little")
                      for o in range(0, n, size)]
            out = self.get(*i.dest)
            out[:len(values)] = values
        elif op == OP_ST:
            addr, n = self.memory_range(i)
            size = 1 << f3 % 3
            data = b"".join(v.to_bytes(size, "little") for v in src[1])[:n]
            self.mem.write(addr, data)
            self.written.append((addr, n))
        elif op == OP_MMA:
            if f3 == 0:
                self.accumulate(i)
                self.col = 0
            elif f3 == 1:
                if i.keep:
                    if self.choices["last_keep_col0"]:
                        self.col = 0
                    self.accumulate(i)
                out = [row[self.col] for row in self.acc]
                self.col = (self.col + 1) % K
            else:
                self.acc = [[0] * K for _ in range(K)]
                self.col = 0
        elif op in (OP_ARITH, OP_LOGIC):
            bits = 8 << i.width
            a = src[0]
            b = src[1] if len(src) > 1 else [0] * K
            if op == OP_ARITH:
                out = [arith(f3, x, y, bits, i.sat) for x, y in zip(a, b)]
            else:
                out = [logic(f3, x, y, bits) for x, y in zip(a, b)]
        elif op == OP_REDUCE:
            lanes = [signed(v, 8 << i.width) for v in src[0]]
            out = [reduce(REDUCTIONS[f3], lanes) & 0xFFFFFFFF] * K
        elif op == OP_LUT:
            bank = self.lut[f3 & 1]
            if f3 < 4:
                out = [bank[v] for v in src[0]]
            else:
                start = i.imm * 4 * K
                if not 0 <= start < 256:
                    raise Fault("lut-segment", "%d" % i.imm)
                for k, v in enumerate(src[0]):
                    bank[start + 4 * k:start + 4 * k + 4] = v.to_bytes(
                        4, "little")
        elif op == OP_CVT:
            out = [convert(v, f3, i.cvt_src, i.cvt_sat, i.cvt_round,
                           i.cvt_e5m2, unbounded) for v in src[0]]
        elif op == OP_BCAST:
            out = [src[0][0] if f3 == 0 else i.imm & 0xFF] * K
        elif op == OP_FP:
            if f3 == 3:
                out = [v ^ 0x80000000 for v in src[0]]
            elif f3 == 4:
                out = [v & 0x7FFFFFFF for v in src[0]]
            else:
                mode = i.round
                f = [lambda x, y: total(x, y, mode),
                     lambda x, y: total(x, negate(y), mode),
                     product, None, None, larger, smaller][f3]
                out = [FP32.encode(f(FP32.decode(x), FP32.decode(y)), mode,
                                   unbounded)
                       for x, y in zip(src[0], src[1])]
        elif op == OP_FMA:
            out = []
            for x, y, z in zip(*src):
                p = product(FP32.decode(x), FP32.decode(y))
                c = FP32.decode(z)
                if f3 & 2:
                    p = negate(p)
                if f3 & 1:
                    c = negate(c)
                out.append(FP32.encode(total(p, c, i.rnd), i.rnd, unbounded))
        elif op == OP_MOV:
            if f3 == 0:
                out = src[0]
            else:
                out = self.get(*i.dest)
                if f3 == 1:
                    out[0] = i.imm & 0xFF
                else:
                    out[0] = out[0] & 0xFF | (i.imm & 0xFF) << 8
        if out is not None:
            self.put(i.dest[0], i.dest[1], out)

    # -- time ------------------------------------------------------------------

    def reset_time(self):
        self.row_ready = [0] * self.L
        self.port_free = 0
        self.last_accumulate = None
        self.issues, self.readies = [], []

    def latency(self, i):
        op = i.opcode
        beats = (1 << i.f3 % 3) if i.f3 >= 3 else 1
        if op == OP_LD:
            return self.params["ld.latency"] + (
                beats - 1 if self.choices["ld_adds_port"] else 0)
        if op == OP_ST:
            return beats if self.choices["st_adds_port"] else 1
        if op == OP_FMA or (op == OP_MMA and i.f3 == 1):
            return 2
        if op == OP_CVT and i.cvt_src == F32 and i.f3 in INT_BITS:
            return 2
        return 1

    def dest_rows(self, i):
        if i.dest is None:
            return []
        rows = list(self.rows(*i.dest))
        if (i.opcode == OP_MOV and i.f3 == 2
                and not self.choices["movh_both_rows"]):
            return rows[1:]
        return rows

    def issue(self, i):
        """Give an instruction its ticks; called before it executes."""
        op = i.opcode
        latency = self.latency(i)
        tick = self.issues[-1] + 1 if self.issues else 0
        for s in i.sources:
            for r in self.rows(*s):
                tick = max(tick, self.row_ready[r])
        for r in self.dest_rows(i):
            tick = max(tick, self.row_ready[r] - latency)
        if op in (OP_LD, OP_ST):
            tick = max(tick, self.port_free)
            self.port_free = tick + (1 << i.f3 % 3 if i.f3 >= 3 else 1)
        if op == OP_MMA:
            if i.f3 == 1 and self.last_accumulate is not None:
                col = self.col
                if i.keep and self.choices["last_keep_col0"]:
                    col = 0
                tick = max(tick, self.last_accumulate + self.K + col)
            if i.f3 == 0 or (i.f3 == 1 and i.keep
                             and self.choices["last_keep_accumulates"]):
                self.last_accumulate = tick
            elif i.f3 == 2 and self.choices["reset_clears_wait"]:
                self.last_accumulate = None
        for r in self.dest_rows(i):
            self.row_ready[r] = tick + latency
        self.issues.append(tick)
        self.readies.append(tick + latency)

    def ticks(self):
        """From the first issue to the last result ready."""
        return max(self.readies) - self.issues[0] if self.issues else 0

    def check(self, word):
        """Decode, and make every check an execution would make."""
        i = decode(word, self.L)
        if i.opcode in (OP_LD, OP_ST):
            self.memory_range(i)
        if i.opcode == OP_LUT and i.f3 >= 4:
            if not 0 <= i.imm * 4 * self.K < 256:
                raise Fault("lut-segment", "%d" % i.imm)
        return i

    def step(self, word):
        """One instruction; one that faults has no effect and no ticks."""
        i = self.check(word)
        self.issue(i)
        self.execute(i)

    def run(self, words):
        """Execute a program from the present state, time from zero."""
        self.reset_time()
        fault = None
        for index, word in enumerate(words):
            try:
                self.step(word)
            except Fault as f:
                fault = {"kind": f.kind, "index": index, "detail": f.detail}
                break
        return {"status": "fault" if fault else "ok", "fault": fault,
                "issue": list(self.issues), "ready": list(self.readies),
                "ticks": self.ticks()}
