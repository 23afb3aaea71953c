# SPDX-License-Identifier: Apache-2.0
"""Reference implementation ("oracle") of the pccx v002 machine.

Written from the specification alone and used to test the simulator.  It
favours the obvious over the fast: values are exact integers and fractions,
rounded once where the specification rounds, and time is counted cycle by
cycle, with the positions of the weight streams and of the host transfer kept
as exact rationals inside each cycle.
"""

import math
import struct
from fractions import Fraction
from operator import mul
import decimal

# --------------------------------------------------------------------------
# Parameters (state sizes, then the timing numbers of section 5)
# --------------------------------------------------------------------------

DEFAULTS = {
    "l2.words": 131072,
    "host.bytes": 2 ** 32,
    "fifo.elements": 2048,
    "gemm.k_max": 4096,
    "gemv.cores": 4,
    # front end
    "decode.latency": 3,
    # memory
    "mem.bytes_per_cycle": 48,
    "port.bytes_per_cycle": 20,
    "stream.fifo_bytes": 131072,
    "acp.bytes_per_cycle": 10,
    "acp.setup": 64,
    # MEMCPY inside L2
    "l2copy.setup": 8,
    # MEMSET
    "memset.latency": 1,
    # GEMV
    "gemv.fill": 12,
    "gemv.beat_elements": 32,
    "gemv.tile_k": 32,
    "gemv.parallel_lane": "cores",
    "gemv.preload_bytes_per_cycle": 0,
    # GEMM
    "gemm.fill": 64,
    "gemm.tile_k": 32,
    "gemm.tile_n": 64,
    "gemm.min_rows": 32,
    # CVO
    "cvo.drain": 6,
    "cvo.fill.EXP": 4,
    "cvo.fill.SQRT": 3,
    "cvo.fill.GELU": 12,
    "cvo.fill.SIN": 16,
    "cvo.fill.COS": 16,
    "cvo.fill.REDUCE_SUM": 3,
    "cvo.fill.SCALE": 3,
    "cvo.fill.RECIP": 4,
    "forward.drain": 6,
}

OP_GEMV, OP_GEMM, OP_MEMCPY, OP_MEMSET, OP_CVO = range(5)
CVO_NAMES = ["EXP", "SQRT", "GELU", "SIN", "COS", "REDUCE_SUM", "SCALE",
             "RECIP"]
FIFO_TAG = 0x1FFFF
FMAP, WEIGHT = 0, 1
ENGINES = ["GEMM", "GEMV", "SFU", "ACP", "DISP"]
STALL_REASONS = ["sync", "raw", "war", "waw", "frontend", "resource", "stream"]
NAN_BITS = 0x7FC0


class Fault(Exception):
    """A fault; `kind` is the oracle's own name of its cause."""

    def __init__(self, kind, detail=""):
        super().__init__(kind + (": " + detail if detail else ""))
        self.kind = kind
        self.detail = detail


def cdiv(a, b):
    return -(-a // b)


# --------------------------------------------------------------------------
# Numbers
#
# A machine value (BF16 or FP32) is a Python float holding it exactly (every
# FP32 value is a double).  An exact real that is not yet rounded is a pair
# (numerator, denominator) of integers, denominator > 0, numerator != 0, or
# one of the floats 0.0, -0.0, inf, -inf, nan.  Python's float arithmetic is
# used on those special floats only, never to compute a finite result.
# --------------------------------------------------------------------------

def bits_to_float(bits):
    return struct.unpack("<f", struct.pack("<I", bits << 16))[0]


_BF = [bits_to_float(b) for b in range(65536)]
# The same with subnormals replaced by a zero of their sign.
_BF_FLUSH = [(math.copysign(0.0, v) if (b & 0x7F80) == 0 else v)
             for b, v in enumerate(_BF)]


def bf_value(bits):
    """The value of a BF16, subnormals kept."""
    return _BF[bits]


def bf_flushed(bits):
    """The value of a BF16, a subnormal counting as signed zero."""
    return _BF_FLUSH[bits]


def special(v):
    """True for a float that is zero, infinite or NaN."""
    return v == 0.0 or v != v or v in (math.inf, -math.inf)


def exact(v):
    """A machine value as an exact real."""
    if isinstance(v, tuple) or special(v):
        return v
    return v.as_integer_ratio()


def round_real(r, precision, emin=-126, emax=127):
    """RNE of an exact real to a binary format with gradual underflow."""
    if not isinstance(r, tuple):
        if special(r):
            return r
        r = r.as_integer_ratio()
    num, den = r
    negative = num < 0
    num = abs(num)
    # e = floor(log2(num / den))
    e = num.bit_length() - den.bit_length()
    if (num << max(0, -e)) < (den << max(0, e)):
        e -= 1
    e = max(e, emin)
    shift = e - (precision - 1)             # exponent of one unit
    if shift >= 0:
        den <<= shift
    else:
        num <<= -shift
    q, rem = divmod(num, den)
    if 2 * rem > den or (2 * rem == den and q & 1):
        q += 1
    if shift > emax or q >= 1 << (emax + 1 - shift):
        v = math.inf
    else:
        v = math.ldexp(q, shift)            # exact: at most 24 bits
    return -v if negative else v


def fl32(r):
    return round_real(r, 24)


def bf16_bits(r):
    """Exact real (or machine value) to BF16 bits: RNE, NaN canonical.  A result
    below 2**-126 after rounding with an unbounded exponent is a signed zero."""
    v = round_real(r, 8, emin=-900)
    if v != v:
        return NAN_BITS
    if abs(v) < 2.0 ** -126:
        v = math.copysign(0.0, v)
    bits = struct.unpack("<I", struct.pack("<f", v))[0]
    assert bits & 0xFFFF == 0
    return bits >> 16


def add(a, b):
    """Exact sum of two machine values."""
    if special(a) or special(b):
        if a != a or b != b or math.isinf(a) or math.isinf(b):
            return a + b
        if a == 0.0 and b == 0.0:
            return a + b                    # IEEE signed zeros
        return exact(b if a == 0.0 else a)
    na, da = a.as_integer_ratio()
    nb, db = b.as_integer_ratio()
    n = na * db + nb * da
    return (n, da * db) if n else 0.0


def sub(a, b):
    return add(a, -b)


def multiply(a, b):
    """Exact product of two machine values."""
    if special(a) or special(b):
        return a * b
    na, da = a.as_integer_ratio()
    nb, db = b.as_integer_ratio()
    return (na * nb, da * db)


def divide(a, b):
    """Exact quotient of two machine values, b not zero."""
    if a != a or b != b:
        return math.nan
    if math.isinf(b):
        if math.isinf(a):
            return math.nan
        return math.copysign(0.0, a) * math.copysign(1.0, b)
    if math.isinf(a) or a == 0.0:
        return a * math.copysign(1.0, b)
    na, da = a.as_integer_ratio()
    nb, db = b.as_integer_ratio()
    if nb < 0:
        na, nb = -na, -nb
    return (na * db, da * nb)


# --------------------------------------------------------------------------
# Elementary functions.  Each core takes a finite non-zero FP32 value and
# returns an exact real that rounds as the true value does, to 24 bits or
# fewer.  Where the true value can come arbitrarily close to a rounding
# boundary (near an exact value), a stand-in on the proper side is returned:
# the boundaries are multiples of a unit not finer than 2**-26 of the value.
# --------------------------------------------------------------------------

FIX = 640                                   # fraction bits of fixed point


def _pi_fixed(bits):
    """floor-ish pi * 2**bits by Machin's formula, with 64 guard bits."""
    guard = bits + 64
    one = 1 << guard

    def arctan_inverse(n):
        total, term, k, sign = 0, one // n, 1, 1
        while term:
            total += sign * (term // k)
            term //= n * n
            k += 2
            sign = -sign
        return total

    return (4 * (4 * arctan_inverse(5) - arctan_inverse(239))) >> 64


PI_BITS = FIX + 256
PI = _pi_fixed(PI_BITS)
_CTX = decimal.Context(prec=260, Emax=10 ** 6, Emin=-10 ** 6)


def _decimal(num, den):
    return _CTX.divide(decimal.Decimal(num), decimal.Decimal(den))


def f_exp(v):
    if v > 200:
        return (1 << 280, 1)                # beyond every format
    if v < -200:
        return (1, 1 << 280)                # below every format
    n, d = v.as_integer_ratio()
    ctx = decimal.Context(prec=90, Emax=10 ** 6, Emin=-10 ** 6)
    return ctx.exp(_decimal(n, d)).as_integer_ratio()


def f_sqrt(v):
    if v < 0:
        return math.nan
    n, d = v.as_integer_ratio()
    # sqrt(n/d) = sqrt(n*d)/d
    scaled = (n * d) << 400
    root = math.isqrt(scaled)
    inexact = root * root != scaled
    return (2 * root + (1 if inexact else 0), d << 201)


def f_recip(v):
    n, d = v.as_integer_ratio()
    return (d, n) if n > 0 else (-d, -n)


def _sin_cos_fixed(v):
    """(sin, cos) of a finite value, fixed point with FIX fraction bits."""
    n, d = abs(v).as_integer_ratio()
    x = (n << PI_BITS) // d                 # exact for the values met here
    half_pi = PI >> 1
    quadrant = x // half_pi
    # half_pi carries an error below one unit; multiply before halving.
    r2 = 2 * x - quadrant * PI              # 2 * remainder
    r = r2 >> (1 + PI_BITS - FIX)
    rr = (r * r) >> FIX
    s, term, k = 0, r, 1
    while term:
        s += term
        term = -((term * rr) >> FIX) // ((k + 1) * (k + 2))
        k += 2
        if abs(term) <= 1:
            break
    c, term, k = 0, 1 << FIX, 0
    while term:
        c += term
        term = -((term * rr) >> FIX) // ((k + 1) * (k + 2))
        k += 2
        if abs(term) <= 1:
            break
    quadrant &= 3
    s, c = [(s, c), (c, -s), (-s, -c), (-c, s)][quadrant]
    return (-s if v < 0 else s), c


TINY = 2.0 ** -40


def f_sin(v):
    if abs(v) < TINY:                       # x - x**3/6 + ...: just inside x
        n, d = v.as_integer_ratio()
        return (n * ((1 << 100) - 1), d << 100)
    return (_sin_cos_fixed(v)[0], 1 << FIX)


def f_cos(v):
    if abs(v) < TINY:                       # just below 1
        return ((1 << 80) - 1, 1 << 80)
    return (_sin_cos_fixed(v)[1], 1 << FIX)


# 1/sqrt(2*pi) in fixed point
_INV_SQRT_2PI = math.isqrt((1 << (2 * FIX + PI_BITS)) // (2 * PI))


def f_gelu(v):
    """x * Phi(x), Phi the standard normal distribution (exact erf form)."""
    n, d = v.as_integer_ratio()
    if abs(v) < TINY:                       # x/2 + x**2/sqrt(2 pi): above x/2
        return (n * (1 << 100) + abs(n), d << 101)
    if v > 15:                              # just below x: 1-Phi < 2**-166
        return (n * ((1 << 100) - 1), d << 100)
    if v < -15:                             # a negative value below every format
        return (-1, 1 << 280)
    # Phi(|x|) = 1/2 + phi(x) * (x + x**3/3 + x**5/(3*5) + ...)
    x = (abs(n) << FIX) // d
    xx = (x * x) >> FIX
    total, term, k = 0, x, 1
    while term:
        total += term
        k += 2
        term = ((term * xx) >> FIX) // k
    dn = _decimal(-n * n, 2 * d * d)
    en, ed = _CTX.exp(dn).as_integer_ratio()
    density = (((en << FIX) // ed) * _INV_SQRT_2PI) >> FIX
    upper = (density * total) >> FIX        # Phi(|x|) - 1/2
    half = 1 << (FIX - 1)
    phi = half + upper if v > 0 else half - upper
    return (n * phi, d << FIX)


_CORES = [f_exp, f_sqrt, f_gelu, f_sin, f_cos, None, None, f_recip]
_cache = {}


def apply_function(func, v):
    """Exact (or safely stand-in) real value of an elementwise function."""
    if v != v:
        return v
    if v == 0.0:
        if func in (0, 4):                  # EXP, COS
            return (1, 1)
        if func == 7:                       # RECIP
            return math.copysign(math.inf, v)
        return v                            # SQRT, GELU, SIN keep the zero
    if math.isinf(v):
        if func == 0:
            return v if v > 0 else 0.0
        if func == 1:
            return v if v > 0 else math.nan
        if func == 2:
            return v if v > 0 else -0.0
        if func in (3, 4):
            return math.nan
        return math.copysign(0.0, v)
    key = (func, v)
    r = _cache.get(key)
    if r is None:
        r = _cache[key] = _CORES[func](v)
    return r


# --------------------------------------------------------------------------
# Decoding
# --------------------------------------------------------------------------

def field(word, high, low):
    return (word >> low) & ((1 << (high - low + 1)) - 1)


def decode(word):
    """A 64-bit word to a dictionary of fields; raises a decode Fault."""
    op = field(word, 63, 60)
    if op in (OP_GEMV, OP_GEMM):
        flags = field(word, 25, 20)
        if flags & 7 or field(word, 2, 0):
            raise Fault("reserved bits")
        return dict(op=op, dest=field(word, 59, 43), src=field(word, 42, 26),
                    findemax=bool(flags & 32), accm=bool(flags & 16),
                    w_scale=bool(flags & 8), size=field(word, 19, 14),
                    shape=field(word, 13, 8), lanes=field(word, 7, 3))
    if op == OP_MEMCPY:
        f, t = field(word, 59, 59), field(word, 58, 58)
        aux = field(word, 23, 7)
        if f and t:
            raise Fault("memcpy direction")
        if not f and not t and aux:
            raise Fault("memcpy aux")
        return dict(op=op, from_device=f, to_device=t,
                    dest=field(word, 57, 41), src=field(word, 40, 24),
                    aux=aux, shape=field(word, 6, 1),
                    asyn=bool(field(word, 0, 0)))
    if op == OP_MEMSET:
        if field(word, 3, 0):
            raise Fault("reserved bits")
        cache = field(word, 59, 58)
        if cache > 1:
            raise Fault("dest_cache")
        return dict(op=op, cache=cache, dest=field(word, 57, 52),
                    a=field(word, 51, 36), b=field(word, 35, 20),
                    c=field(word, 19, 4))
    if op == OP_CVO:
        flags = field(word, 5, 1)
        func = field(word, 59, 56)
        if func > 7:
            raise Fault("cvo_func")
        if flags & 3:
            raise Fault("reserved bits")
        return dict(op=op, func=func, src=field(word, 55, 39),
                    dest=field(word, 38, 22), length=field(word, 21, 6),
                    sub_emax=bool(flags & 16), recip=bool(flags & 8),
                    accm=bool(flags & 4), asyn=bool(field(word, 0, 0)))
    raise Fault("reserved opcode")


# --------------------------------------------------------------------------
# Host memory
# --------------------------------------------------------------------------

class HostMemory:
    """Sparse bytes, zero where never written."""
    PAGE = 4096

    def __init__(self):
        self.pages = {}

    def read(self, addr, count):
        out = bytearray()
        while count:
            page, off = divmod(addr, self.PAGE)
            n = min(count, self.PAGE - off)
            p = self.pages.get(page)
            out += p[off:off + n] if p is not None else bytes(n)
            addr += n
            count -= n
        return bytes(out)

    def write(self, addr, data):
        i = 0
        while i < len(data):
            page, off = divmod(addr + i, self.PAGE)
            n = min(len(data) - i, self.PAGE - off)
            p = self.pages.get(page)
            if p is None:
                p = self.pages[page] = bytearray(self.PAGE)
            p[off:off + n] = data[i:i + n]
            i += n


_LO = [((b & 15) ^ 8) - 8 for b in range(256)]
_HI = [((b >> 4) ^ 8) - 8 for b in range(256)]


# --------------------------------------------------------------------------
# The machine
# --------------------------------------------------------------------------

def tiled(length, tile, unit):
    """Steps of `unit` over a length cut into tiles (0: not cut), tile by tile."""
    total = 0
    while length > 0:
        part = min(tile or length, length)
        total += cdiv(part, unit)
        length -= part
    return total


class Machine:
    def __init__(self, params=None):
        self.p = dict(DEFAULTS)
        for k, v in (params or {}).items():
            if k not in self.p:
                raise KeyError(k)
            self.p[k] = v
        self.l2 = bytearray(16 * self.p["l2.words"])
        self.const = [[(0, 0, 0)] * 64, [(0, 0, 0)] * 64]
        self.e_max = 0
        self.host = HostMemory()
        self.streams = {"gemm": [], "gemv": []}
        self.taken = {"gemm": 0, "gemv": 0}
        self.fifo_to_sfu = []
        self.fifo_to_gemv = []

    # -- access helpers ----------------------------------------------------

    def load_host(self, addr, data):
        self.host.write(addr, data)

    def dump(self, space, addr, count):
        """`count` 16-bit values of a space, addressed as a dump option is."""
        if space == "l2":
            raw = self.l2[16 * addr:16 * addr + 2 * count]
            return list(struct.unpack("<%dH" % count, bytes(raw)))
        if space == "host":
            return list(struct.unpack("<%dH" % count,
                                      self.host.read(addr, 2 * count)))
        if space == "const":
            flat = [v for bank in self.const for e in bank for v in e]
            return flat[3 * addr:3 * addr + count]
        if space == "emax":
            return [self.e_max][:count]
        raise ValueError(space)

    def l2_range(self, addr, words):
        """Check a range of L2 words and return it as a hazard range."""
        if addr + words > min(self.p["l2.words"], FIFO_TAG):
            raise Fault("l2 range", "%d words at 0x%x" % (words, addr))
        return ("l2", addr, addr + words)

    def host_range(self, addr, count):
        if addr + count > self.p["host.bytes"]:
            raise Fault("host range", "%d bytes at 0x%x" % (count, addr))
        return ("host", addr, addr + count)

    def l2_get(self, addr, elements):
        raw = bytes(self.l2[16 * addr:16 * addr + 2 * elements])
        return list(struct.unpack("<%dH" % elements, raw))

    def l2_put(self, addr, values):
        """Write BF16 values from a word boundary, zero filling the last word."""
        values = list(values)
        values += [0] * (-len(values) % 8)
        self.l2[16 * addr:16 * addr + 2 * len(values)] = struct.pack(
            "<%dH" % len(values), *values)

    def stream_slices(self, name, start, count):
        """Host (address, bytes) pieces of a stretch of a weight stream."""
        out = []
        pos = 0
        for addr, size in self.streams[name]:
            lo, hi = max(pos, start), min(pos + size, start + count)
            if lo < hi:
                out.append((addr + lo - pos, hi - lo))
            pos += size
        return out

    # -- one instruction, functionally ---------------------------------------

    def execute(self, word):
        """Execute one word; returns its timing record.  On a Fault nothing
        has changed."""
        ins = decode(word)
        op = ins["op"]
        if op == OP_MEMSET:
            self.const[ins["cache"]][ins["dest"]] = (ins["a"], ins["b"],
                                                     ins["c"])
            return dict(ins=ins, engine=None, reads=[], writes=[], sync=False,
                        own=self.p["memset.latency"])
        if op == OP_MEMCPY:
            return self._memcpy(ins)
        if op == OP_CVO:
            return self._cvo(ins)
        return self._matmul(ins)

    def _memcpy(self, ins):
        a, b, c = self.const[FMAP][ins["shape"]]
        if a == 0 or b == 0 or c == 0:
            raise Fault("zero dimension")
        words = cdiv(a * b * c, 8)
        rec = dict(ins=ins, engine="ACP", sync=not ins["asyn"], words=words)
        if ins["from_device"]:
            host = 16 * ((ins["aux"] << 17) + ins["src"])
            hr = self.host_range(host, 16 * words)
            lr = self.l2_range(ins["dest"], words)
            data = self.host.read(host, 16 * words)
            self.l2[16 * ins["dest"]:16 * (ins["dest"] + words)] = data
            rec.update(reads=[hr], writes=[lr], host_bytes=16 * words)
        elif ins["to_device"]:
            host = 16 * ((ins["aux"] << 17) + ins["dest"])
            lr = self.l2_range(ins["src"], words)
            hr = self.host_range(host, 16 * words)
            self.host.write(host, bytes(
                self.l2[16 * ins["src"]:16 * (ins["src"] + words)]))
            rec.update(reads=[lr], writes=[hr], host_bytes=16 * words)
        else:
            sr = self.l2_range(ins["src"], words)
            dr = self.l2_range(ins["dest"], words)
            data = bytes(self.l2[16 * ins["src"]:16 * (ins["src"] + words)])
            self.l2[16 * ins["dest"]:16 * (ins["dest"] + words)] = data
            rec.update(reads=[sr], writes=[dr],
                       own=self.p["l2copy.setup"] + words)
        return rec

    def _quantize(self, row, act_scale):
        """One row of BF16 bits to (list of INT8, scale)."""
        for b in row:
            if (b & 0x7F80) == 0x7F80:
                raise Fault("non-finite activation")
        if act_scale:
            s = Fraction(bf_value(act_scale))
        else:
            exponents = [((b >> 7) & 0xFF) - 127 for b in row if b & 0x7F80]
            if not exponents:
                return [0] * len(row), 1.0
            s = Fraction(2) ** (max(exponents) - 6)
        seen = {}
        for b in row:
            if b not in seen:
                # round() of a Fraction is round half to even
                seen[b] = max(-127, min(127, round(Fraction(bf_flushed(b)) / s)))
        return [seen[b] for b in row], float(s)

    def _matmul(self, ins):
        gemv = ins["op"] == OP_GEMV
        name = "gemv" if gemv else "gemm"
        m, n, k = self.const[WEIGHT][ins["shape"]]
        user_n, user_k, act_scale = self.const[FMAP][ins["size"]]
        if m == 0 or n == 0 or k == 0:
            raise Fault("zero dimension")
        if gemv and m != 1:
            raise Fault("gemv rows")
        # parallel_lane counts cores, or lanes of every core; 0 is all
        cores, core_lanes = self.p["gemv.cores"], self.p["gemv.tile_k"]
        if self.p["gemv.parallel_lane"] == "cores":
            if gemv and ins["lanes"] > cores:
                raise Fault("parallel_lane")
            cores = ins["lanes"] or cores
        else:
            if gemv and ins["lanes"] > core_lanes:
                raise Fault("parallel_lane")
            core_lanes = ins["lanes"] or core_lanes
        if not gemv and k > self.p["gemm.k_max"]:
            raise Fault("gemm k_max")
        if act_scale:
            v = bf_value(act_scale)
            if not (v > 0 and v < math.inf):
                raise Fault("act_scale")
        reads, writes = [], []
        src_fifo = gemv and ins["src"] == FIFO_TAG
        dst_fifo = gemv and ins["dest"] == FIFO_TAG
        kw, nw = cdiv(k, 8), cdiv(n, 8)
        if src_fifo:
            if len(self.fifo_to_gemv) < k:
                raise Fault("fifo length")
            rows = [self.fifo_to_gemv[:k]]
            reads.append(("fifo to gemv", 0, 1))
        else:
            reads.append(self.l2_range(ins["src"], m * kw))
            rows = [self.l2_get(ins["src"] + i * kw, k) for i in range(m)]
        accm = ins["accm"] and not dst_fifo
        if dst_fifo:
            if len(self.fifo_to_sfu) + n > self.p["fifo.elements"]:
                raise Fault("fifo overflow")
            writes.append(("fifo to sfu", 0, 1))
        else:
            r = self.l2_range(ins["dest"], m * nw)
            writes.append(r)
            if accm:
                reads.append(r)
        # weights
        beats = cdiv(k, self.p["gemv.beat_elements"])
        need = n * beats * 16
        if ins["w_scale"]:
            need += nw * 16
        start = self.taken[name]
        if start + need > sum(size for _, size in self.streams[name]):
            raise Fault("stream underrun")
        data = b""
        for addr, size in self.stream_slices(name, start, need):
            reads.append(self.host_range(addr, size))
            data += self.host.read(addr, size)
        scales = None
        if ins["w_scale"]:
            scales = [bf_value(b) for b in
                      struct.unpack("<%dH" % n, data[:2 * n])]
            data = data[nw * 16:]
        quantized = []
        for row in rows:
            q, s = self._quantize(row, act_scale)
            q = q + [0] * (beats * 32 - k)
            quantized.append((q[0::2], q[1::2], s))
        # products
        outputs = [[0] * n for _ in range(m)]
        for j in range(n):
            raw = data[j * beats * 16:(j + 1) * beats * 16]
            lo = [_LO[b] for b in raw]
            hi = [_HI[b] for b in raw]
            for i in range(m):
                qe, qo, s = quantized[i]
                acc = sum(map(mul, qe, lo)) + sum(map(mul, qo, hi))
                r = fl32((acc, 1)) if acc else 0.0
                r = fl32(multiply(r, s))
                if scales is not None:
                    r = fl32(multiply(r, scales[j]))
                outputs[i][j] = r
        for i in range(m):
            if accm:
                old = self.l2_get(ins["dest"] + i * nw, n)
                outputs[i] = [bf16_bits(fl32(add(r, bf_value(o))))
                              for r, o in zip(outputs[i], old)]
            else:
                outputs[i] = [bf16_bits(r) for r in outputs[i]]
        # everything checked: commit
        self.taken[name] = start + need
        if src_fifo:
            del self.fifo_to_gemv[:k]
        if dst_fifo:
            self.fifo_to_sfu += outputs[0]
        else:
            for i in range(m):
                self.l2_put(ins["dest"] + i * nw, outputs[i])
        if ins["findemax"]:
            writes.append(("e_max", 0, 1))
            best = None
            for row in outputs:
                for b in row:
                    v = bf_value(b)
                    if v != v:
                        continue
                    key = (v, math.copysign(1.0, v))    # +0 above -0
                    if best is None or key > best[0]:
                        best = (key, b)
            self.e_max = NAN_BITS if best is None else best[1]
        if gemv:
            fill = self.p["gemv.fill"]
            preload = self.p["gemv.preload_bytes_per_cycle"]
            if preload and not src_fifo:    # K BF16 from L2 before the first step
                fill += cdiv(2 * k, preload)
            own = fill + (tiled(k, user_k, core_lanes)
                          * tiled(n, user_n, cores))
            first = fill + cdiv(k, core_lanes)
        else:
            first = None
            own = self.p["gemm.fill"]
            tile_k, tile_n = self.p["gemm.tile_k"], self.p["gemm.tile_n"]
            own += (tiled(k, user_k, tile_k) * tiled(n, user_n, tile_n)
                    * max(m, self.p["gemm.min_rows"]))
        return dict(ins=ins, engine="GEMV" if gemv else "GEMM", reads=reads,
                    writes=writes, sync=False, own=own, stream=name,
                    stream_end=start + need, first=first, macs=m * n * k)

    def _cvo(self, ins):
        func, length = ins["func"], ins["length"]
        name = CVO_NAMES[func]
        if length == 0:
            raise Fault("cvo length")
        reads, writes = [], []
        words = cdiv(length, 8)
        src_fifo = ins["src"] == FIFO_TAG
        dst_fifo = ins["dest"] == FIFO_TAG
        scalar = None
        if src_fifo:
            if name == "SCALE":
                raise Fault("scale from fifo")
            if len(self.fifo_to_sfu) < length:
                raise Fault("fifo length")
            xs = self.fifo_to_sfu[:length]
            reads.append(("fifo to sfu", 0, 1))
        elif name == "SCALE":
            reads.append(self.l2_range(ins["src"], 1 + words))
            scalar = bf_flushed(self.l2_get(ins["src"], 1)[0])
            xs = self.l2_get(ins["src"] + 1, length)
        else:
            reads.append(self.l2_range(ins["src"], words))
            xs = self.l2_get(ins["src"], length)
        produced = 1 if name == "REDUCE_SUM" else length
        accm = ins["accm"] and not dst_fifo
        old = None
        if dst_fifo:
            if len(self.fifo_to_gemv) + produced > self.p["fifo.elements"]:
                raise Fault("fifo overflow")
            writes.append(("fifo to gemv", 0, 1))
        else:
            r = self.l2_range(ins["dest"], cdiv(produced, 8))
            writes.append(r)
            if accm:
                reads.append(r)
                old = [bf_flushed(b) for b in
                       self.l2_get(ins["dest"], produced)]
        values = [bf_flushed(b) for b in xs]
        if ins["sub_emax"]:
            reads.append(("e_max", 0, 1))
            m = bf_flushed(self.e_max)
            values = [fl32(sub(v, m)) for v in values]
        if name == "REDUCE_SUM":
            total = 0.0
            for v in values:
                total = fl32(add(total, v))
            results = [total]
        elif name == "SCALE":
            if not ins["recip"]:
                results = [multiply(v, scalar) for v in values]
            elif scalar == 0.0:
                results = [0.0] * length
            else:
                results = [divide(v, scalar) for v in values]
        else:
            results = [apply_function(func, v) for v in values]
        if accm:
            results = [fl32(add(fl32(r), o)) for r, o in zip(results, old)]
        out = [bf16_bits(r) for r in results]
        if src_fifo:
            del self.fifo_to_sfu[:length]
        if dst_fifo:
            self.fifo_to_gemv += out
        else:
            self.l2_put(ins["dest"], out)
        return dict(ins=ins, engine="SFU", reads=reads, writes=writes,
                    sync=not ins["asyn"],
                    own=self.p["cvo.fill." + name] + length
                    + self.p["cvo.drain"])

    # -- the whole program ---------------------------------------------------

    def run(self, words, streams):
        for name in ("gemm", "gemv"):
            self.streams[name] = list((streams or {}).get(name, []))
            self.taken[name] = 0
        records = []
        fault = None
        for index, word in enumerate(words):
            try:
                records.append(self.execute(word))
            except Fault as f:
                fault = {"kind": f.kind, "index": index, "detail": f.detail}
                break
        totals = {n: sum(size for _, size in self.streams[n])
                  for n in self.streams}
        result = Timing(self.p, records, totals).run()
        result["status"] = "fault" if fault else "ok"
        result["fault"] = fault
        result["records"] = records
        return result


# --------------------------------------------------------------------------
# Time, cycle by cycle
# --------------------------------------------------------------------------

def overlap(xs, ys):
    return any(a[0] == b[0] and a[1] < b[2] and b[1] < a[2]
               for a in xs for b in ys)


def tidy(v):
    """An integral Fraction as an int."""
    return int(v) if isinstance(v, Fraction) and v.denominator == 1 else v


def max_min_fair(capacity, demands):
    """Rates of the demands (name -> cap) sharing a capacity."""
    rates = {}
    left = Fraction(capacity)
    todo = dict(demands)
    while todo:
        share = left / len(todo)
        satisfied = [n for n in todo if todo[n] <= share]
        if not satisfied:
            for n in todo:
                rates[n] = share
            break
        for n in satisfied:
            rates[n] = Fraction(todo.pop(n))
            left -= rates[n]
    return {n: tidy(r) for n, r in rates.items()}


class Timing:
    def __init__(self, params, records, totals):
        self.p = params
        self.recs = records
        self.totals = totals
        n = len(records)
        self.issue = [None] * n
        self.end = [None] * n               # None until it is known
        self.own_end = [None] * n           # end by the engine's own formula
        # memory clients: position reached and position allowed, in bytes
        self.pos = {"gemm": 0, "gemv": 0, "acp": 0}
        self.granted = {"gemm": 0, "gemv": 0}
        self.acp = None                     # (instruction, bytes, first cycle)
        self.waiting = {"gemm": [], "gemv": []}     # issued, weights to come
        self.rate_cache = {}

    # (b) of the issue rule: which hazards hold head `i` because of `j`
    def hazards(self, i, j):
        a, b = self.recs[i], self.recs[j]
        out = set()
        if overlap(a["reads"], b["writes"]):
            out.add("raw")
        if overlap(a["writes"], b["reads"]):
            out.add("war")
        if overlap(a["writes"], b["writes"]):
            out.add("waw")
        return out

    def forwarded(self, i):
        """True when CVO `i` is forwarded from the GEMV right before it."""
        if i == 0:
            return False
        a, g = self.recs[i]["ins"], self.recs[i - 1]["ins"]
        return (a["op"] == OP_CVO and g["op"] == OP_GEMV
                and a["src"] == g["dest"]
                and not (g["findemax"] and a["sub_emax"]))

    def limit(self, client):
        """The byte position a memory client may reach for now."""
        if client == "acp":
            return self.acp[1]
        return min(self.totals[client],
                   self.granted[client] + self.p["stream.fifo_bytes"])

    def advance_memory(self, c):
        """Move bytes over the cycle [c, c+1)."""
        t, stop = c, c + 1
        while t < stop:
            active = []
            for s in ("gemm", "gemv"):
                if self.pos[s] < self.limit(s):
                    active.append(s)
            if self.acp and c >= self.acp[2]:
                active.append("acp")
            if not active:
                return
            key = tuple(active)
            rates = self.rate_cache.get(key)
            if rates is None:
                caps = {s: (self.p["acp.bytes_per_cycle"] if s == "acp"
                            else self.p["port.bytes_per_cycle"])
                        for s in active}
                rates = self.rate_cache[key] = max_min_fair(
                    self.p["mem.bytes_per_cycle"], caps)
            # up to the end of the cycle, or the first client that stops
            dt = stop - t
            for s in active:
                room = self.limit(s) - self.pos[s]
                if room < rates[s] * dt:
                    dt = tidy(Fraction(room) / rates[s])
            for s in active:
                old = self.pos[s]
                new = tidy(old + rates[s] * dt)
                self.pos[s] = new
                if s == "acp":
                    continue
                while self.waiting[s]:
                    i = self.waiting[s][0]
                    goal = self.recs[i]["stream_end"]
                    if goal > new:
                        break
                    arrival = math.ceil(t + Fraction(goal - old) / rates[s])
                    fill = self.p["gemv.fill" if s == "gemv" else "gemm.fill"]
                    self.end[i] = max(self.own_end[i], arrival + fill)
                    self.waiting[s].pop(0)
            t = tidy(t + dt)
            if self.acp and self.pos["acp"] == self.acp[1]:
                self.end[self.acp[0]] = math.ceil(t)
                self.acp = None

    def do_issue(self, i, c):
        rec = self.recs[i]
        self.issue[i] = c
        if "host_bytes" in rec:
            self.acp = (i, rec["host_bytes"], c + self.p["acp.setup"])
            self.pos["acp"] = 0
            return
        self.own_end[i] = c + rec["own"]
        if "stream" in rec:
            s = rec["stream"]
            self.granted[s] = rec["stream_end"]
            if self.pos[s] >= rec["stream_end"]:
                self.end[i] = self.own_end[i]   # all arrived by now
            else:
                self.waiting[s].append(i)
        elif self.forwarded(i):
            self.late = i                   # end needs the GEMV's end
        else:
            self.end[i] = self.own_end[i]

    def run(self):
        n = len(self.recs)
        account = {e: {"busy": 0, "idle": 0, "stalled": dict.fromkeys(STALL_REASONS, 0)}
                   for e in ENGINES}
        self.late = None
        head = 0
        head_hazards = None
        active = []                         # issued and not ended
        c = 0
        while True:
            if self.late is not None and self.end[self.late - 1] is not None:
                i, self.late = self.late, None
                self.end[i] = max(self.own_end[i], self.end[i - 1]
                                  + self.p["forward.drain"])
            active = [j for j in active
                      if self.end[j] is None or self.end[j] > c]
            if head == n and not active:
                break
            owner = {self.recs[j]["engine"]: j for j in active}
            # the head of the dispatcher in this cycle
            reason = None
            needs = None
            issued = None
            if head < n:
                rec = self.recs[head]
                needs = rec["engine"]
                if head_hazards is None:
                    head_hazards = {j: self.hazards(head, j) for j in active}
                found = set()
                for j in active:
                    if self.recs[j]["sync"]:
                        found.add("sync")
                    if j == head - 1 and self.forwarded(head):
                        if c < self.issue[j] + self.recs[j]["first"]:
                            found.add("raw")
                    else:
                        found |= head_hazards[j]
                if c < self.p["decode.latency"] + head:
                    found.add("frontend")
                if needs is not None and needs in owner:
                    found.add("resource")
                for x in ("sync", "raw", "war", "waw", "frontend", "resource"):
                    if x in found:
                        reason = x
                        break
                if reason is None:
                    issued = head
                    self.do_issue(head, c)
                    active.append(head)
                    owner[needs] = head
                    head += 1
                    head_hazards = None
            # accounting of this cycle
            disp = account["DISP"]
            if issued is not None:
                disp["busy"] += 1
            elif reason is not None:
                disp["stalled"][reason] += 1
            else:
                disp["idle"] += 1
            for e in ENGINES[:4]:
                a = account[e]
                if e in owner:
                    j = owner[e]
                    if e in ("GEMM", "GEMV") and c >= self.own_end[j]:
                        a["stalled"]["stream"] += 1
                    else:
                        a["busy"] += 1
                elif reason is not None and needs == e:
                    a["stalled"][reason] += 1
                else:
                    a["idle"] += 1
            self.advance_memory(c)
            c += 1
        for e in ENGINES:
            a = account[e]
            assert a["busy"] + a["idle"] + sum(a["stalled"].values()) == c
        return {"cycles": c, "issue": self.issue, "end": self.end,
                "engines": account}
