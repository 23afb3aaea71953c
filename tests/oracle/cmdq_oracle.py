# SPDX-License-Identifier: Apache-2.0
"""Reference implementation ("oracle") of the CMDQ machine.

Written from the notes on the opcode set and the decisions alone and used to
test the simulator.  It favours the obvious over the fast: time is exact
fractions that go from event to event, functions are decimals of 110 digits
rounded once, and hazards are all pairs against the transitive closure.

    queue = load(doc)                  # doc: the parsed JSON
    machine = Machine({"te.init": 3})
    result = machine.run(queue)        # data in machine.spm, machine.dram
    pairs = hazards(queue, machine.params)

Where the text allows two readings the one taken is an entry of CHOICES, so
that a difference can be tried against the other reading.
"""

import decimal
import math
import struct
from fractions import Fraction

DEFAULTS = {
    "npu.te": 2,
    "npu.ve": 2,
    "dma.count": 1,
    "dma.kv_channels": 0,
    "spm.banks": 8,
    "spm.bank_bytes": 262144,
    "dram.bytes": 16 << 30,
    "dma.bus_width_bytes": 32,
    "dma.dram_burst_cycles": 1,
    "dma.peak_bw": 64,
    "dma.alignment": 32,
    "dma.spm_conflict_cycles": 4,
    "dma.weight_weight": 1,
    "dma.weight_activation": 1,
    "dma.weight_kv": 1,
    "dma.weight_embedding": 1,
    "dma.weight_aux": 1,
    "te.macs_per_cycle_base": 4096,
    "te.init": 8,
    "te.finalize": 4,
    "te.weight4": Fraction(3, 2),
    "te.weight2": 2,
    "te.activation4": Fraction(11, 10),
    "te.float16": Fraction(1, 2),
    "te.float32": Fraction(1, 4),
    "ve.lanes": 64,
    "ve.ops_per_lane_factor": 1,
    "ve.init": 8,
    "ve.finalize": 4,
    "ve.reduction_pipeline": 8,
    "ve.sfu": 16,
    "ve.activation8": Fraction(11, 10),
    "ve.activation4": Fraction(6, 5),
}

CHOICES = {
    # The bits past the last element of a DMA transfer become 0, in SPM and in
    # DRAM; True: the whole last byte is copied.
    "dma_keeps_padding": False,
    # The partial sums of the canonical order start at +0; True: at their
    # first term (which matters for terms that are all -0).
    "sum_starts_with_term": False,
    # Without wgt_group the value of the one group is the value of the row;
    # True: it goes through a canonical sum of one term (-0 becomes +0).
    "single_group_summed": False,
    # DRAM traffic is the bytes of the elements; True: the aligned bytes.
    "bytes_aligned": False,
    # The quotient by the output's scale is rounded to binary32 before it is
    # rounded to the type; True: rounded to the type only.
    "quotient_exact": False,
    # The MACs of a sparse GEMM are m n k * sparse_n / sparse_m; True: m n k.
    "sparse_macs_dense": False,
    # An operand that is read and written (accumulate) is one operand of the
    # conflict count; True: two.
    "accumulate_conflicts_twice": False,
}

QBITS = (2, 4, 8, 16, 32)
COMPUTE_ROLES = ("weight", "activation", "kv", "embedding", "aux", "q", "k",
                 "v")
ROLES = ("weight", "activation", "kv", "embedding", "aux")

# -- the table of fields -------------------------------------------------------

REAL, INT, STR, BOOL, IDS, OBJ, ANY = ("real", "integer", "string", "boolean",
                                       "ids", "object", "any")
REQUIRED = object()

COMMON = {"opcode": (STR, REQUIRED), "id": (INT, None),
          "layer_id": (ANY, None), "deps_before": (IDS, ()),
          "deps_after": (IDS, ()), "debug": (ANY, None),
          "wait_group": (STR, None)}
DMA = {"dma_id": (INT, None), "tensor_role": (STR, "weight"),
       "qbits": (INT, REQUIRED), "dram_addr": (INT, REQUIRED),
       "spm_bank": (INT, REQUIRED), "spm_offset": (INT, REQUIRED),
       "num_elements": (INT, REQUIRED), "stride_bytes": (ANY, 0),
       "direction": (STR, None), "deprecated_since": (STR, None),
       "row_elements": (INT, None)}
TE = {"te_id": (INT, REQUIRED), "ifm_bank": (INT, REQUIRED),
      "ifm_offset": (INT, REQUIRED), "wgt_bank": (INT, REQUIRED),
      "wgt_offset": (INT, REQUIRED), "ofm_bank": (INT, REQUIRED),
      "ofm_offset": (INT, REQUIRED), "qbits_weight": (INT, REQUIRED),
      "qbits_activation": (INT, REQUIRED), "qbits_ofm": (INT, 32),
      "accumulate": (BOOL, False), "bias_bank": (INT, None),
      "bias_offset": (INT, None), "scale_ifm": (REAL, 1.0),
      "scale_wgt": (REAL, 1.0), "wgt_scale_bank": (INT, None),
      "wgt_scale_offset": (INT, None), "wgt_group": (INT, None),
      "scale_ofm": (REAL, 1.0), "tensor_role": (STR, None),
      "op_mode": (STR, None), "deprecated_since": (STR, None),
      "activation": (STR, "none"), "clip_min": (REAL, None),
      "clip_max": (REAL, None)}
RESIDUAL = {"residual_bank": (INT, None), "residual_offset": (INT, None),
            "scale_residual": (REAL, 1.0), "qbits_residual": (INT, 32)}
OFM_STRIDE = {"ofm_stride_bytes": (INT, 0)}
STRIDES = dict(OFM_STRIDE, ifm_stride_bytes=(INT, 0), wgt_stride_bytes=(INT, 0))
RESIDUAL["residual_stride_bytes"] = (INT, 0)
GEMM = dict(TE, m=(INT, REQUIRED), n=(INT, REQUIRED), k=(INT, REQUIRED))
CONV = dict(TE, **RESIDUAL, **OFM_STRIDE, in_h=(INT, REQUIRED), in_w=(INT, REQUIRED),
            in_c=(INT, REQUIRED), out_c=(INT, REQUIRED),
            kernel_h=(INT, REQUIRED), kernel_w=(INT, REQUIRED),
            stride_h=(INT, 1), stride_w=(INT, 1), pad_h=(INT, 0),
            pad_w=(INT, 0), dil_h=(INT, 1), dil_w=(INT, 1),
            pad_bottom=(INT, None), pad_right=(INT, None), groups=(INT, 1))
SPARSE = dict(GEMM, sparse_n=(INT, REQUIRED), sparse_m=(INT, REQUIRED))
VE = {"ve_id": (INT, REQUIRED), "in_bank": (INT, REQUIRED),
      "in_offset": (INT, REQUIRED), "out_bank": (INT, REQUIRED),
      "out_offset": (INT, REQUIRED), "length": (INT, REQUIRED),
      "rows": (INT, 1), "qbits_activation": (INT, REQUIRED),
      "qbits_out": (INT, None), "scale_in": (REAL, 1.0),
      "scale_out": (REAL, 1.0), "tensor_role": (STR, None),
      "op_mode": (STR, None), "deprecated_since": (STR, None)}
NORM = dict(VE, eps=(REAL, 1e-5), gamma_bank=(INT, None),
            gamma_offset=(INT, None))
IMAGE = {k: v for k, v in VE.items() if k not in ("length", "rows")}
IMAGE.update(in_h=(INT, REQUIRED), in_w=(INT, REQUIRED), in_c=(INT, REQUIRED))
TWO = dict(VE, in2_bank=(INT, REQUIRED), in2_offset=(INT, REQUIRED),
           qbits_in2=(INT, None), scale_in2=(REAL, 1.0),
           broadcast=(STR, "none"))
KV = {"dma_id": (INT, None), "head_id": (INT, REQUIRED),
      "kv_kind": (STR, REQUIRED), "spm_bank": (INT, REQUIRED),
      "spm_offset": (INT, REQUIRED), "qbits_kv": (INT, REQUIRED),
      "kv_layout_id": (ANY, None), "direction": (STR, None),
      "tensor_role": (STR, None), "deprecated_since": (STR, None)}

OPCODES = {
    "DMA_LOAD_TILE": ("DMA", DMA),
    "DMA_STORE_TILE": ("DMA", DMA),
    "DMA_PREFETCH_TILE": ("DMA", DMA),
    "TE_GEMM_TILE": ("TE", dict(GEMM, **RESIDUAL, **STRIDES, soft_cap=(REAL, None))),
    "TE_QKT_TILE": ("TE", dict(GEMM, **STRIDES, soft_cap=(REAL, None))),
    "TE_AV_TILE": ("TE", dict(GEMM, **STRIDES)),
    "TE_CONV_TILE": ("TE", CONV),
    "TE_SPARSE_GEMM_TILE": ("TE", SPARSE),
    "VE_LAYERNORM_TILE": ("VE", dict(NORM, beta_bank=(INT, None),
                                     beta_offset=(INT, None))),
    "VE_RMSNORM_TILE": ("VE", NORM),
    "VE_SOFTMAX_TILE": ("VE", dict(VE, temperature=(REAL, 1.0),
                                   valid_length=(INT, None),
                                   valid_step=(INT, 0),
                                   valid_rows=(INT, None), window=(INT, None),
                                   approximation=(STR, "exact"))),
    "VE_GELU_TILE": ("VE", dict(VE, approximation=(STR, "erf"))),
    "VE_SILU_TILE": ("VE", VE),
    "VE_ROPE_TILE": ("VE", dict(VE, head_dim=(INT, REQUIRED),
                                position=(INT, 0), theta=(REAL, 10000.0),
                                pairing=(STR, "adjacent"),
                                rotary_dim=(INT, None),
                                frequency_scale=(REAL, 1.0),
                                factors_bank=(INT, None),
                                factors_offset=(INT, None))),
    "VE_ADD_TILE": ("VE", TWO),
    "VE_MUL_TILE": ("VE", TWO),
    "VE_CAST_TILE": ("VE", VE),
    "VE_UNARY_TILE": ("VE", dict(VE, function=(STR, REQUIRED),
                                 alpha=(REAL, None), beta=(REAL, 0.5),
                                 clip_min=(REAL, None),
                                 clip_max=(REAL, None))),
    "VE_BINARY_TILE": ("VE", dict(TWO, function=(STR, REQUIRED))),
    "VE_REDUCE_TILE": ("VE", dict(VE, function=(STR, REQUIRED))),
    "VE_POOL_TILE": ("VE", dict(
        IMAGE, function=(STR, REQUIRED), kernel_h=(INT, REQUIRED),
        kernel_w=(INT, REQUIRED), stride_h=(INT, 1), stride_w=(INT, 1),
        pad_h=(INT, 0), pad_w=(INT, 0), dil_h=(INT, 1), dil_w=(INT, 1),
        pad_bottom=(INT, None), pad_right=(INT, None),
        count_include_pad=(BOOL, False))),
    "VE_TRANSPOSE_TILE": ("VE", VE),
    "VE_RESIZE_TILE": ("VE", dict(
        IMAGE, out_h=(INT, REQUIRED), out_w=(INT, REQUIRED),
        mode=(STR, REQUIRED), coordinate_mode=(STR, "half_pixel"),
        nearest_mode=(STR, "round_prefer_floor"))),
    "KV_STORE_TILE": ("DMA", dict(KV, dram_base_addr=(INT, REQUIRED),
                                  t_start=(INT, REQUIRED),
                                  t_len=(INT, REQUIRED), d_start=(INT, None),
                                  d_len=(INT, None))),
    "KV_LOAD_TILE": ("DMA", dict(KV, dram_base_addr=(INT, None),
                                 kv_range_desc=(ANY, REQUIRED))),
    "BARRIER": (None, {"wait_for": (IDS, REQUIRED)}),
    "SYNC_GROUP": (None, {"group": (IDS, REQUIRED), "name": (STR, REQUIRED)}),
    "NOP": (None, {}),
    "END": (None, {}),
}

NAN = float("nan")
INF = float("inf")


class Bad(Exception):
    """The queue is not valid, or reaches outside a memory."""


def need(condition, text, *args):
    if not condition:
        raise Bad(text % args)


# -- arithmetic ----------------------------------------------------------------
#
# A binary32 value is a Python float (binary64) that binary32 can represent.
# The product of two is exact in binary64.  A sum, a difference or a quotient
# is rounded to 53 bits and then to 24: as 53 >= 2 * 24 + 2 the first rounding
# never changes the result of the second ("innocuous double rounding"); results
# in binary32's subnormal range have still fewer bits, and sums there are exact.


def f32(x):
    """x rounded to nearest even in binary32."""
    try:
        return struct.unpack("<f", struct.pack("<f", x))[0]
    except OverflowError:               # it rounds to a magnitude of 2^128
        return math.copysign(INF, x)


def add(a, b):
    return f32(a + b)


def sub(a, b):
    return f32(a - b)


def mul(a, b):
    return f32(a * b)


def divide(a, b):
    """The quotient in binary64."""
    if b == 0:
        if a == 0 or a != a:
            return NAN
        return math.copysign(INF, math.copysign(1, a) * math.copysign(1, b))
    return a / b


def div(a, b):
    return f32(divide(a, b))


def f32_exact(v):
    """A fraction rounded once to binary32."""
    v = Fraction(v)
    if v == 0:
        return 0.0
    a = abs(v)
    e = a.numerator.bit_length() - a.denominator.bit_length()
    if Fraction(2) ** e > a:
        e -= 1
    q = max(e - 23, -149)
    n = round(a / Fraction(2) ** q)     # half to even
    r = INF if n * Fraction(2) ** q >= 2 ** 128 else math.ldexp(n, q)
    return -r if v < 0 else r


def canonical(terms, choices=CHOICES):
    """The sum of section 6."""
    p = [None] * 8
    for i, t in enumerate(terms):
        j = i % 8
        if p[j] is None:
            p[j] = t if choices["sum_starts_with_term"] else add(0.0, t)
        else:
            p[j] = add(p[j], t)
    p = [0.0 if x is None else x for x in p]
    return add(add(add(p[0], p[4]), add(p[2], p[6])),
               add(add(p[1], p[5]), add(p[3], p[7])))


D = decimal.Decimal
PREC = decimal.Context(prec=110)


def exp32(t):
    if t != t:
        return t
    if t > 89:
        return INF                      # e^88.73 > 2^128
    if t < -104:
        return 0.0                      # e^-103.98 < 2^-150
    with decimal.localcontext(PREC):
        return f32_exact(Fraction(D(t).exp()))


def rsqrt32(v):
    if v != v or v < 0:
        return NAN
    if v == 0:
        return math.copysign(INF, v)
    if v == INF:
        return 0.0
    with decimal.localcontext(PREC):
        return f32_exact(Fraction(1 / D(v).sqrt()))


def make_pi():
    """Machin: pi = 16 atan(1/5) - 4 atan(1/239), 240 digits."""
    unit = 10 ** 250

    def atan_inverse(n):
        total, term, i, sign = 0, unit // n, 1, 1
        while term:
            total += sign * (term // i)
            term //= n * n
            i += 2
            sign = -sign
        return total

    with decimal.localcontext(decimal.Context(prec=240)):
        return (D(16 * atan_inverse(5) - 4 * atan_inverse(239))
                / D(unit))


PI = make_pi()


def erf(z):
    """erf of a Decimal: 2/sqrt(pi) e^(-z^2) sum 2^n z^(2n+1) / (2n+1)!!"""
    term = total = z
    n = 0
    while abs(term) > abs(total) * D(10) ** -115:
        n += 1
        term = term * 2 * z * z / (2 * n + 1)
        total += term
    return 2 / PI.sqrt() * (-z * z).exp() * total


def gate32(x, function):
    """A function that is x for large x and goes to -0 for small ones."""
    if x != x or x == 0:
        return x
    if x == INF:
        return INF
    if x > 130:
        return x
    if x < -130:
        return -0.0
    with decimal.localcontext(PREC):
        return f32_exact(Fraction(function(D(x))))


def gelu_erf32(x):
    # 16 * (1 - erf(16 / sqrt 2)) < 1e-50, far below 2^-150.
    if x > 16:
        return x
    if x < -16:
        return -0.0
    return gate32(x, lambda d: d * (1 + erf(d / D(2).sqrt())) / 2)


def gelu_tanh32(x):
    # (1 + tanh u) / 2 = 1 / (1 + e^(-2u))
    if x > 16:
        return x
    if x < -16:
        return -0.0
    return gate32(x, lambda d: d / (1 + (
        -2 * (2 / PI).sqrt() * (d + D("0.044715") * d * d * d)).exp()))


def silu32(x):
    return gate32(x, lambda d: d / (1 + (-d).exp()))


# Special functions of VE_UNARY_TILE, of numbers and infinities.

def root32(x):
    if x < 0:
        return NAN
    if x == 0 or x == INF:
        return x
    with decimal.localcontext(PREC):
        return f32_exact(Fraction(D(x).sqrt()))


def log32(x):
    if x < 0:
        return NAN
    if x == 0:
        return -INF
    if x == INF:
        return INF
    with decimal.localcontext(PREC):
        return f32_exact(Fraction(D(x).ln()))


def sigmoid32(x):
    if abs(x) > 200:                    # e^-200 < 2^-150
        return 1.0 if x > 0 else 0.0
    with decimal.localcontext(PREC):
        return f32_exact(Fraction(1 / (1 + (-D(x)).exp())))


def tanh32(x):
    if x == 0:
        return x
    if abs(x) > 20:                     # 1 - tanh 20 < 2^-56
        return math.copysign(1.0, x)
    with decimal.localcontext(PREC):
        e = (-2 * D(x)).exp()
        return f32_exact(Fraction((1 - e) / (1 + e)))


def erf32(x):
    if x == 0:
        return x
    if abs(x) > 6:                      # 1 - erf 6 < 2^-55
        return math.copysign(1.0, x)
    with decimal.localcontext(PREC):
        return f32_exact(Fraction(erf(D(x))))


SPECIAL = {"sigmoid": sigmoid32, "tanh": tanh32, "exp": exp32, "log": log32,
           "sqrt": root32, "recip": lambda x: div(1.0, x), "erf": erf32}
UNARY = ("relu", "leaky_relu", "clip", "abs", "neg", "hardswish",
         "hardsigmoid") + tuple(SPECIAL)
BINARY = ("sub", "div", "min", "max", "pow")
REDUCE = ("sum", "mean", "max", "min", "argmax")
BROADCAST = ("none", "row", "column", "scalar")


def cut(x, low, high):
    if x < low:
        return low
    return high if x > high else x      # a NaN is neither


def hard(x, alpha, beta):
    return cut(add(mul(x, alpha), beta), 0.0, 1.0)


def unary(e, x):
    f = e.function
    if f in SPECIAL:
        return x if x != x else SPECIAL[f](x)
    if f == "relu":
        return 0.0 if x <= 0 else x
    if f == "leaky_relu":
        a = f32(0.01) if e.alpha is None else e.alpha
        return mul(x, a) if x < 0 else x
    if f == "clip":
        return cut(x, -INF if e.clip_min is None else e.clip_min,
                   INF if e.clip_max is None else e.clip_max)
    if f == "abs":
        return abs(x)
    if f == "neg":
        return -x
    if f == "hardswish":
        return mul(x, hard(x, f32(1 / 6), 0.5))
    return hard(x, f32(0.2) if e.alpha is None else e.alpha, e.beta)


ACTIVATIONS = {"relu": lambda x: 0.0 if x <= 0 else x, "silu": silu32,
               "gelu": gelu_erf32, "gelu_tanh": gelu_tanh32,
               "sigmoid": sigmoid32, "tanh": tanh32}


def activate(e, x):
    """Soft cap and activation of a result of the tensor engine."""
    if getattr(e, "soft_cap", None) is not None:
        x = div(x, e.soft_cap)
        x = mul(x if x != x else tanh32(x), e.soft_cap)
    if e.activation == "clip":
        return cut(x, -INF if e.clip_min is None else e.clip_min,
                   INF if e.clip_max is None else e.clip_max)
    if e.activation == "none" or x != x:
        return x
    return ACTIVATIONS[e.activation](x)


def exact_power(x, y):
    """x > 0 to the power y where that is rational, else None."""
    for j in range(8):
        k = y * 2 ** j
        if k == int(k) and abs(k) <= 64:
            with decimal.localcontext(PREC):
                r = D(x)
                for _ in range(j):
                    r = r.sqrt()
            r = Fraction(r)
            if r ** (2 ** j) == Fraction(x):
                return r ** int(k)
            return None
    return None


def pow32(x, y):
    if y == 0 or x == 1:
        return 1.0
    if x != x or y != y:
        return NAN
    whole = math.isinf(y) or y == int(y)
    odd = not math.isinf(y) and whole and int(y) % 2 == 1
    negative = math.copysign(1, x) < 0
    a = abs(x)
    if a == 0 or a == INF or math.isinf(y) or a == 1:
        if a == 1:
            v = 1.0
        else:
            v = INF if (a > 1) == (y > 0) else 0.0
        if negative and a == 1 and not whole:
            return NAN
        if negative and a not in (0, INF) and math.isinf(y):
            return v
        return -v if negative and odd else v
    if negative and not whole:
        return NAN
    v = exact_power(a, y)
    if v is None:
        with decimal.localcontext(PREC):
            t = D(y) * D(a).ln()
            v = (2 ** 200 if t > 200 else Fraction(0) if t < -200
                 else Fraction(t.exp()))
    v = f32_exact(v)
    return -v if negative and odd else v


def larger(a, b):
    if a != a or b != b:
        return NAN
    if a == b:
        return a if math.copysign(1, a) > 0 else b
    return a if a > b else b


def binary(e, a, b):
    f = e.function
    if f == "sub":
        return sub(a, b)
    if f == "div":
        return div(a, b)
    if f == "max":
        return larger(a, b)
    if f == "min":
        return -larger(-a, -b)
    return pow32(a, b)


def cos_sin32(angle):
    """Cosine and sine of a binary64 angle, each rounded once."""
    if not math.isfinite(angle):
        return NAN, NAN
    with decimal.localcontext(decimal.Context(prec=200)):
        a = D(angle)
        turns = (a / (PI / 2)).to_integral_value()
        r = a - turns * PI / 2
        c, s, term, n = D(0), D(0), D(1), 0
        while n < 4 or abs(term) > D(10) ** -180:
            if n % 2:
                s += term if n % 4 == 1 else -term
            else:
                c += term if n % 4 == 0 else -term
            n += 1
            term = term * r / n
        c, s = ((c, s), (-s, c), (-c, -s), (s, -c))[int(turns) % 4]
        return f32_exact(Fraction(c)), f32_exact(Fraction(s))


# -- elements ------------------------------------------------------------------


def size(n, qbits):
    return (n * qbits + 7) // 8


def unpack(data, n, qbits):
    """n elements: ints, or binary32 values as floats."""
    if qbits == 32:
        return list(struct.unpack("<%df" % n, data[:4 * n]))
    if qbits == 16:
        return list(struct.unpack("<%de" % n, data[:2 * n]))
    out = []
    per = 8 // qbits
    half, full = 1 << (qbits - 1), 1 << qbits
    for i in range(n):
        v = data[i // per] >> (i % per * qbits) & (full - 1)
        out.append(v - full if v >= half else v)
    return out


def encode(y, qbits):
    """The bits of a real value."""
    if qbits == 32:
        if y != y:
            return 0x7fc00000
        return struct.unpack("<I", struct.pack("<f", y))[0]
    if qbits == 16:
        if y != y:
            return 0x7e00
        try:
            return struct.unpack("<H", struct.pack("<e", y))[0]
        except OverflowError:
            return 0x7c00 if y > 0 else 0xfc00
    low, high = -(1 << (qbits - 1)), (1 << (qbits - 1)) - 1
    if y != y:
        v = 0
    elif y >= high:
        v = high
    elif y <= low:
        v = low
    else:
        v = round(y)                    # half to even
    return v & ((1 << qbits) - 1)


def pack(bits, qbits):
    """Bit patterns to bytes, the padding 0."""
    total = 0
    for i, b in enumerate(bits):
        total |= b << (i * qbits)
    return total.to_bytes(size(len(bits), qbits), "little")


# -- the queue -----------------------------------------------------------------


class Entry:
    """One entry: its fields as attributes, absent ones at their default."""

    def __init__(self, fields):
        self.__dict__.update(fields)

    def __repr__(self):
        return "%d %s" % (self.id, self.opcode)


class Queue:
    """The entries, the layouts and the initial memory."""

    def derived(self, entry):
        """Without kv_layouts: what the entries of the same base need."""
        def base_of(e):
            if e.dram_base_addr is not None:
                return e.dram_base_addr
            bases = {o.dram_base_addr for o in cache
                     if o.kv_kind == e.kv_kind} - {None}
            need(len(bases) == 1, "%s: no base", e)
            return bases.pop()

        def range_of(e):
            r = getattr(e, "kv_range_desc", e.__dict__)
            return self.kv_ranges[r] if isinstance(r, str) else r

        cache = [e for e in self.entries if e.opcode.startswith("KV_")
                 and e.kv_layout_id is None]
        base = base_of(entry)
        same = [e for e in cache if base_of(e) == base]
        ranges = [range_of(e) for e in same]
        d_head = max((r.get("d_start") or 0) + r["d_len"] if r.get("d_len")
                     else 0 for r in ranges)
        need(d_head, "%s: no d_len", entry)
        return {"heads": 1 + max(e.head_id for e in same),
                "t_max": max(r["t_start"] + r["t_len"] for r in ranges),
                "d_head": d_head, "k_base": base, "v_base": base}


def typed(value, kind, where):
    if kind == INT:
        ok = isinstance(value, int) and not isinstance(value, bool)
        ok = ok and abs(value) < 1 << 63
    elif kind == REAL:
        ok = isinstance(value, (int, float)) and not isinstance(value, bool)
        ok = ok and math.isfinite(value)
    elif kind == STR:
        ok = isinstance(value, str)
    elif kind == BOOL:
        ok = isinstance(value, bool)
    elif kind == IDS:
        ok = isinstance(value, list) and all(type(v) is int for v in value)
    elif kind == OBJ:
        ok = isinstance(value, dict)
    else:
        ok = True
    need(ok, "%s: not of type %s", where, kind)
    return value


def read_entry(raw, position):
    need("opcode" in raw, "%d: no opcode", position)
    need(raw["opcode"] in OPCODES, "%d: no opcode %s", position, raw["opcode"])
    cls, own = OPCODES[raw["opcode"]]
    table = dict(COMMON, **own)
    for name in raw:
        need(name in table or name.startswith("reserved_"),
             "%d: unknown field %s", position, name)
    fields = {"cls": cls}
    for name, (kind, default) in table.items():
        if name in raw:
            where = "%d: %s" % (position, name)
            fields[name] = typed(raw[name], kind, where)
            if kind == REAL:
                fields[name] = f32(float(raw[name]))
            if name.startswith("qbits"):
                need(raw[name] in QBITS, "%s", where)
        else:
            need(default is not REQUIRED, "%d: no %s", position, name)
            fields[name] = (f32(default) if kind == REAL
                            and default is not None else default)
    need(fields["id"] in (None, position), "%d: id %s", position,
         fields["id"])
    fields["id"] = position
    return Entry(fields)


def both(e, a, b):
    need((getattr(e, a) is None) == (getattr(e, b) is None),
         "%s: %s without %s", e, a, b)


def positions(e):
    """The size of the output of a kernel that moves over an image."""
    if e.pad_bottom is None:
        e.pad_bottom = e.pad_h
    if e.pad_right is None:
        e.pad_right = e.pad_w
    span_h = (e.in_h + e.pad_h + e.pad_bottom
              - e.dil_h * (e.kernel_h - 1) - 1)
    span_w = (e.in_w + e.pad_w + e.pad_right
              - e.dil_w * (e.kernel_w - 1) - 1)
    need(span_h >= 0 and span_w >= 0 and e.pad_h >= 0
         and e.pad_w >= 0, "%s: no output", e)
    e.out_h = span_h // e.stride_h + 1
    e.out_w = span_w // e.stride_w + 1


def check_entry(e, q):
    """Checks within one entry; sets derived fields."""
    op = e.opcode
    if op.startswith("DMA_"):
        need(e.tensor_role in ROLES, "%s: tensor_role", e)
        need(e.num_elements >= 1, "%s: num_elements", e)
        e.role = e.tensor_role
        e.rows_list = [(e.dram_addr, size(e.num_elements, e.qbits))]
        if e.stride_bytes:
            need(e.row_elements and e.row_elements > 0, "%s: row_elements", e)
            need(e.num_elements % e.row_elements == 0, "%s: rows", e)
            need(e.row_elements * e.qbits % 8 == 0, "%s: row bytes", e)
            n = e.num_elements // e.row_elements
            e.rows_list = [(e.dram_addr + i * e.stride_bytes,
                            e.row_elements * e.qbits // 8) for i in range(n)]
        e.store = op == "DMA_STORE_TILE"
        e.padded = not e.stride_bytes
        e.dma_qbits, e.dma_elements = e.qbits, e.num_elements
    elif op.startswith("KV_"):
        e.role = "kv"
        e.store = op == "KV_STORE_TILE"
        r = e.__dict__
        if not e.store:
            r = e.kv_range_desc
            if isinstance(r, str):
                r = q.kv_ranges[r]
            r = dict(r)
            for name in ("t_start", "t_len"):
                need(name in r, "%s: kv_range_desc without %s", e, name)
        layout = None
        if e.kv_layout_id is not None:
            for one in q.kv_layouts:
                if one["id"] == e.kv_layout_id:
                    layout = one
        elif len(q.kv_layouts) == 1:
            layout = q.kv_layouts[0]
        elif not q.kv_layouts:
            layout = q.derived(e)
        need(layout is not None, "%s: no layout", e)
        need(layout["d_head"] * e.qbits_kv % 8 == 0, "%s: row", e)
        need(e.kv_kind in ("k", "v"), "%s: kv_kind", e)
        d_start = r.get("d_start") or 0
        d_len = r.get("d_len")
        if d_len is None:
            d_len = layout["d_head"] - d_start
        need(0 <= e.head_id < layout["heads"], "%s: head_id", e)
        need(r["t_start"] >= 0 and r["t_len"] >= 1
             and r["t_start"] + r["t_len"] <= layout["t_max"], "%s: t", e)
        need(d_start >= 0 and d_len >= 1
             and d_start + d_len <= layout["d_head"], "%s: d", e)
        base = e.dram_base_addr
        if base is None:
            base = layout[e.kv_kind + "_base"]
        e.rows_list = []
        for t in range(r["t_start"], r["t_start"] + r["t_len"]):
            element = ((e.head_id * layout["t_max"] + t) * layout["d_head"]
                       + d_start)
            need(element * e.qbits_kv % 8 == 0, "%s: slice", e)
            need(d_len * e.qbits_kv % 8 == 0, "%s: slice", e)
            e.rows_list.append((base + element * e.qbits_kv // 8,
                                d_len * e.qbits_kv // 8))
        e.padded = False
        e.dma_qbits, e.dma_elements = e.qbits_kv, r["t_len"] * d_len
    elif e.cls == "TE":
        both(e, "bias_bank", "bias_offset")
        both(e, "wgt_scale_bank", "wgt_scale_offset")
        e.ifm_elements = e.wgt_bytes = None
        if op == "TE_CONV_TILE":
            for name in ("in_h", "in_w", "in_c", "out_c", "kernel_h",
                         "kernel_w", "stride_h", "stride_w", "dil_h",
                         "dil_w"):
                need(getattr(e, name) >= 1, "%s: %s", e, name)
            positions(e)
            e.channel_groups = e.groups     # `groups` is of SYNC_GROUPs, too
            need(e.in_c % e.groups == 0 and e.out_c % e.groups == 0,
                 "%s: groups", e)
            e.m, e.n = e.out_h * e.out_w, e.out_c
            e.k = e.kernel_h * e.kernel_w * (e.in_c // e.groups)
            e.ifm_elements = e.in_h * e.in_w * e.in_c
        else:
            need(e.m >= 1 and e.n >= 1 and e.k >= 1, "%s: m, n, k", e)
            e.ifm_elements = e.m * e.k
        e.wgt_bytes = size(e.n * e.k, e.qbits_weight)
        e.macs = e.m * e.n * e.k
        need(e.activation in ("none", "clip") or e.activation in ACTIVATIONS,
             "%s: activation", e)
        need(e.activation != "clip" or e.clip_min is not None
             or e.clip_max is not None, "%s: no limit", e)
        if hasattr(e, "residual_bank"):
            both(e, "residual_bank", "residual_offset")
        if op == "TE_SPARSE_GEMM_TILE":
            need(1 <= e.sparse_n <= e.sparse_m, "%s: sparse_n", e)
            need(e.k % e.sparse_m == 0, "%s: k", e)
            e.kept = e.n * e.k // e.sparse_m * e.sparse_n
            e.index_bits = (e.sparse_m - 1).bit_length()
            e.wgt_bytes = (size(e.kept, e.qbits_weight)
                           + size(e.kept, e.index_bits))
            e.macs = e.m * e.n * e.k * e.sparse_n // e.sparse_m
            if e.wgt_group is not None:
                need(e.wgt_group % e.sparse_m == 0, "%s: wgt_group", e)
        if e.wgt_group is not None:
            need(e.wgt_group >= 1 and e.k % e.wgt_group == 0
                 and e.wgt_scale_bank is not None, "%s: wgt_group", e)
    elif op in ("VE_POOL_TILE", "VE_RESIZE_TILE"):
        if op == "VE_POOL_TILE":
            positions(e)
            need(e.function in ("max", "avg"), "%s: function", e)
            need(e.function == "avg" or not e.count_include_pad,
                 "%s: count_include_pad", e)
            e.each = e.kernel_h * e.kernel_w
        else:
            need(e.mode in ("nearest", "linear"), "%s: mode", e)
            need(e.coordinate_mode in ("half_pixel", "align_corners",
                                       "asymmetric"), "%s: mode", e)
            need(e.nearest_mode in ("floor", "ceil", "round_prefer_floor",
                                    "round_prefer_ceil"), "%s: mode", e)
            e.each = 1 if e.mode == "nearest" else 4
        if e.qbits_out is None:
            e.qbits_out = e.qbits_activation
        e.rows, e.length = 1, e.in_h * e.in_w * e.in_c
        e.results = e.out_h * e.out_w * e.in_c
    elif e.cls == "VE":
        need(e.length >= 1 and e.rows >= 1, "%s: length, rows", e)
        if e.qbits_out is None:
            e.qbits_out = e.qbits_activation
        e.results = e.length
        if hasattr(e, "in2_bank"):
            if e.qbits_in2 is None:
                e.qbits_in2 = e.qbits_activation
            need(e.broadcast in BROADCAST, "%s: broadcast", e)
            e.in2_elements = {"none": e.rows * e.length, "row": e.length,
                              "column": e.rows, "scalar": 1}[e.broadcast]
        if op == "VE_UNARY_TILE":
            need(e.function in UNARY, "%s: function", e)
            need(e.function != "clip" or e.clip_min is not None
                 or e.clip_max is not None, "%s: no limit", e)
            need(None in (e.clip_min, e.clip_max)
                 or e.clip_min <= e.clip_max, "%s: limits", e)
        if op == "VE_BINARY_TILE":
            need(e.function in BINARY, "%s: function", e)
        if op == "VE_REDUCE_TILE":
            need(e.function in REDUCE, "%s: function", e)
            e.results = 1
            if e.function == "argmax":
                e.qbits_out = 32
        if op == "VE_SOFTMAX_TILE":
            need(e.valid_length is not None or not e.valid_step,
                 "%s: valid_step", e)
            if e.valid_length is None:
                e.valid_length = e.length
            need(0 <= e.valid_length <= e.length, "%s: valid_length", e)
        if op == "VE_ROPE_TILE":
            need(e.head_dim >= 2 and e.length % e.head_dim == 0,
                 "%s: head_dim", e)
            need(e.pairing in ("adjacent", "half"), "%s: pairing", e)
            both(e, "factors_bank", "factors_offset")
            if e.rotary_dim is None:
                e.rotary_dim = e.head_dim
            need(2 <= e.rotary_dim <= e.head_dim and e.rotary_dim % 2 == 0,
                 "%s: rotary_dim", e)
        if op == "VE_GELU_TILE":
            need(e.approximation in ("erf", "tanh"), "%s: approximation", e)
        if op in ("VE_LAYERNORM_TILE", "VE_RMSNORM_TILE"):
            both(e, "gamma_bank", "gamma_offset")
        if op == "VE_LAYERNORM_TILE":
            both(e, "beta_bank", "beta_offset")


def load(doc):
    """A queue of the parsed JSON; raises Bad."""
    q = Queue()
    meta = doc.get("metadata", {})
    q.version = meta.get("version", "1.1")
    need(q.version.split(".")[0] == "1", "version %s", q.version)
    q.kv_layouts = meta.get("kv_layouts", [])
    q.kv_ranges = {r["name"]: r for r in meta.get("kv_ranges", [])}
    q.spm_init = meta.get("spm_init", [])
    q.dram_init = meta.get("dram_init", [])
    q.entries = [read_entry(raw, i) for i, raw in enumerate(doc["cmdq"])]
    ids = range(len(q.entries))
    need(q.entries and q.entries[-1].opcode == "END"
         and sum(e.opcode == "END" for e in q.entries) == 1, "END")
    for e in q.entries:
        e.deps = set(e.deps_before)
    for e in q.entries:
        for name in ("deps_before", "deps_after", "wait_for", "group"):
            for i in getattr(e, name, ()):
                need(i in ids, "%s: %s names %d", e, name, i)
                need(i != e.id, "%s: %s names itself", e, name)
        for i in e.deps_after:
            q.entries[i].deps.add(e.id)
        check_entry(e, q)
    for e in q.entries:
        e.groups = [g.id for g in q.entries[:e.id]
                    if g.opcode == "SYNC_GROUP" and g.name == e.wait_group]
        need(e.wait_group is None or e.groups, "%s: wait_group", e)
        e.barriers = [b.id for b in q.entries[:e.id] if b.opcode == "BARRIER"]
        e.members = list(getattr(e, "wait_for", ()))
        e.members += getattr(e, "group", ())
        if e.opcode == "END":
            e.members = list(range(e.id))
    return q


def place(q, params):
    """The engine of each entry, None for those of no engine."""
    counts = {"DMA": params["dma.count"], "TE": params["npu.te"],
              "VE": params["npu.ve"]}
    out, turn = [], 0
    for e in q.entries:
        if e.cls is None:
            out.append(None)
            continue
        n = getattr(e, e.cls.lower() + "_id")
        if n is None and params["dma.kv_channels"] \
                and e.opcode.startswith("KV_"):
            out.append(e.opcode[:-5].lower())       # kv_store, kv_load
            continue
        if n is None:
            n = turn % counts["DMA"]
            turn += 1
        need(0 <= n < counts[e.cls], "%s: engine %d", e, n)
        out.append(e.cls + str(n))
    return out


def predecessors(q, params):
    """For each entry the set of ids that must complete before it."""
    last, out = {}, []
    for e, engine in zip(q.entries, place(q, params)):
        p = set(e.deps) | set(e.groups) | set(e.barriers) | set(e.members)
        if engine is not None:
            if engine in last:
                p.add(last[engine])
            last[engine] = e.id
        out.append(p)
    return out


def data_order(q, params):
    """Of all entries whose predecessors are done, the least id is next."""
    preds = predecessors(q, params)
    done, order = set(), []
    while len(order) < len(preds):
        ready = [i for i in range(len(preds))
                 if i not in done and preds[i] <= done]
        need(ready, "the dependencies form a circle")
        order.append(ready[0])
        done.add(ready[0])
    return order


def closure(q, params):
    """Per entry, the bits of all entries with a path to it."""
    preds = predecessors(q, params)
    reach = [0] * len(preds)
    for i in data_order(q, params):
        for p in preds[i]:
            reach[i] |= reach[p] | 1 << p
    return reach


# -- what an entry touches -----------------------------------------------------


class Operand:
    """Byte ranges of one space (a bank number, or "dram")."""

    def __init__(self, name, space, ranges, writes):
        self.name, self.space, self.ranges = name, space, ranges
        self.writes = writes


def ifm_form(e):
    """Rows, elements of a row, qbits, distance of the rows; 0: packed."""
    stride = getattr(e, "ifm_stride_bytes", 0)
    return ((e.m, e.k, e.qbits_activation, stride) if stride
            else (1, e.ifm_elements, e.qbits_activation, 0))


def wgt_form(e):
    stride = getattr(e, "wgt_stride_bytes", 0)
    if not stride:
        return (1, 8 * e.wgt_bytes // e.qbits_weight, e.qbits_weight, 0)
    rows, length = (e.k, e.n) if e.opcode == "TE_AV_TILE" else (e.n, e.k)
    return (rows, length, e.qbits_weight, stride)


def ofm_form(e):
    return (e.m, e.n, e.qbits_ofm, getattr(e, "ofm_stride_bytes", 0))


def spans(offset, form):
    """The ranges of bytes of a matrix."""
    rows, length, qbits, stride = form
    if not stride:
        return [(offset, offset + size(rows * length, qbits))]
    return [(offset + i * stride, offset + i * stride + size(length, qbits))
            for i in range(rows)]


def operands(e):
    out = []

    def spm(name, bank, offset, count, writes=False):
        out.append(Operand(name, bank, [(offset, offset + count)], writes))

    def matrix(name, bank, offset, form, writes=False):
        out.append(Operand(name, bank, spans(offset, form), writes))

    if e.cls == "DMA":
        total = sum(n for _, n in e.rows_list)
        spm("spm", e.spm_bank, e.spm_offset, total, not e.store)
        out.append(Operand("dram", "dram", [(a, a + n) for a, n
                                            in e.rows_list], e.store))
    elif e.cls == "TE":
        matrix("ifm", e.ifm_bank, e.ifm_offset, ifm_form(e))
        matrix("wgt", e.wgt_bank, e.wgt_offset, wgt_form(e))
        if e.bias_bank is not None:
            spm("bias", e.bias_bank, e.bias_offset, 4 * e.n)
        if getattr(e, "residual_bank", None) is not None:
            matrix("residual", e.residual_bank, e.residual_offset,
                   (e.m, e.n, e.qbits_residual, e.residual_stride_bytes))
        if e.wgt_scale_bank is not None:
            groups = e.k // e.wgt_group if e.wgt_group else 1
            spm("wgt_scale", e.wgt_scale_bank, e.wgt_scale_offset,
                4 * e.n * groups)
        matrix("ofm", e.ofm_bank, e.ofm_offset, ofm_form(e), True)
    elif e.cls == "VE":
        n = e.rows * e.length
        spm("in", e.in_bank, e.in_offset, size(n, e.qbits_activation))
        if getattr(e, "in2_bank", None) is not None:
            spm("in2", e.in2_bank, e.in2_offset,
                size(e.in2_elements, e.qbits_in2))
        if getattr(e, "factors_bank", None) is not None:
            spm("factors", e.factors_bank, e.factors_offset,
                2 * e.rotary_dim)
        for name in ("gamma", "beta"):
            if getattr(e, name + "_bank", None) is not None:
                spm(name, getattr(e, name + "_bank"),
                    getattr(e, name + "_offset"), 4 * e.length)
        spm("out", e.out_bank, e.out_offset,
            size(e.rows * e.results, e.qbits_out), True)
    return out


def clash(a, b):
    """Whether two lists of operands touch a byte that one of them writes."""
    for x in a:
        for y in b:
            if x.space == y.space and (x.writes or y.writes):
                for lo, hi in x.ranges:
                    for lo2, hi2 in y.ranges:
                        if lo < hi2 and lo2 < hi:
                            return True
    return False


def hazards(q, params=None):
    """The pairs (a, b), a < b, of conflicting entries without a path."""
    params = dict(DEFAULTS, **(params or {}))
    reach = closure(q, params)
    touched = [operands(e) for e in q.entries]
    out = set()
    for b in range(len(touched)):
        for a in range(b):
            if (not reach[b] >> a & 1 and not reach[a] >> b & 1
                    and clash(touched[a], touched[b])):
                out.add((a, b))
    return out


# -- the machine ---------------------------------------------------------------


def ceil(x):
    return -((-x) // 1)


PAGE = 4096


class Machine:
    def __init__(self, params=None, choices=None):
        self.params = dict(DEFAULTS)
        for key, value in (params or {}).items():
            assert key in DEFAULTS, key
            self.params[key] = (value if isinstance(value, int)
                                else Fraction(str(value)))
        self.choices = dict(CHOICES, **(choices or {}))
        self.spm = {}                   # bank -> bytearray
        self.dram = {}                  # page number -> bytearray
        self.written = []               # (space, first, end), in order

    # memory

    def check(self, space, addr, n):
        if space == "dram":
            limit = self.params["dram.bytes"]
        else:
            need(0 <= space < self.params["spm.banks"], "bank %d", space)
            limit = self.params["spm.bank_bytes"]
        need(addr >= 0 and addr + n <= limit, "%s: %d + %d past %d", space,
             addr, n, limit)

    def read(self, space, addr, n):
        self.check(space, addr, n)
        if space != "dram":
            bank = self.spm.get(space)
            return bytes(bank[addr:addr + n]) if bank else bytes(n)
        out = b""
        while n:
            page, at = divmod(addr, PAGE)
            part = min(n, PAGE - at)
            data = self.dram.get(page)
            out += bytes(data[at:at + part]) if data else bytes(part)
            addr, n = addr + part, n - part
        return out

    def poke(self, space, addr, data):
        self.check(space, addr, len(data))
        if space != "dram":
            if space not in self.spm:
                self.spm[space] = bytearray(self.params["spm.bank_bytes"])
            self.spm[space][addr:addr + len(data)] = data
            return
        while data:
            page, at = divmod(addr, PAGE)
            part = min(len(data), PAGE - at)
            if page not in self.dram:
                self.dram[page] = bytearray(PAGE)
            self.dram[page][at:at + part] = data[:part]
            addr, data = addr + part, data[part:]

    def write(self, space, addr, data):
        self.poke(space, addr, data)
        self.written.append((space, addr, addr + len(data)))

    def initialize(self, q):
        for items, dram in ((q.spm_init, False), (q.dram_init, True)):
            for item in items:
                data = bytes.fromhex(item["hex"]) if "hex" in item else b""
                if "zero" in item:
                    data = bytes(item["bytes"])
                if "bytes" in item:
                    need(item["bytes"] <= len(data), "init: bytes")
                    data = data[:item["bytes"]]
                if dram:
                    self.poke("dram", item["addr"], data)
                else:
                    self.poke(item["bank"], item["offset"], data)

    def written_ranges(self, gap=0):
        """Merged (space, first, end) of all that entries wrote."""
        out = []
        for space, lo, hi in sorted(self.written, key=lambda w: (
                str(w[0]), w[1], w[2])):
            if out and out[-1][0] == space and lo <= out[-1][2] + gap:
                out[-1] = (space, out[-1][1], max(out[-1][2], hi))
            else:
                out.append((space, lo, hi))
        return out

    # data

    def execute(self, e):
        if e.cls == "DMA":
            self.dma(e)
        elif e.cls == "TE":
            self.tensor(e)
        elif e.cls == "VE":
            self.vector(e)

    def dma(self, e):
        total = sum(n for _, n in e.rows_list)
        if e.store:
            data = self.read(e.spm_bank, e.spm_offset, total)
        else:
            data = b"".join(self.read("dram", a, n) for a, n in e.rows_list)
        spare = -e.dma_elements * e.dma_qbits % 8
        if e.padded and spare and not self.choices["dma_keeps_padding"]:
            data = data[:-1] + bytes([data[-1] & (0xff >> spare)])
        if not e.store:
            self.write(e.spm_bank, e.spm_offset, data)
            return
        for a, n in e.rows_list:
            self.write("dram", a, data[:n])
            data = data[n:]

    def matrix(self, bank, offset, form):
        """The elements of a matrix, row by row."""
        out = []
        ranges = spans(offset, form)
        count = form[0] * form[1] // len(ranges)
        for lo, hi in ranges:
            out += unpack(self.read(bank, lo, hi - lo), count, form[2])
        return out

    def tensor_operands(self, e):
        """rows(i) and columns(j): the factors of output i, j, in order."""
        ifm = self.matrix(e.ifm_bank, e.ifm_offset, ifm_form(e))
        data = self.read(e.wgt_bank, e.wgt_offset, e.wgt_bytes) \
            if e.opcode == "TE_SPARSE_GEMM_TILE" else None
        if e.opcode == "TE_SPARSE_GEMM_TILE":
            values = unpack(data, e.kept, e.qbits_weight)
            bits = int.from_bytes(data[size(e.kept, e.qbits_weight):],
                                  "little")
            index = [bits >> (i * e.index_bits) & ((1 << e.index_bits) - 1)
                     for i in range(e.kept)]
            need(all(i < e.sparse_m for i in index), "%s: index", e)
            per_row = e.k // e.sparse_m * e.sparse_n

            def pairs(i, j):
                out = []
                for p in range(per_row):
                    at = j * per_row + p
                    group = p // e.sparse_n
                    k = group * e.sparse_m + index[at]
                    out.append((group * e.sparse_m, ifm[i * e.k + k],
                                values[at]))
                return out
            return pairs
        wgt = self.matrix(e.wgt_bank, e.wgt_offset, wgt_form(e))
        if e.opcode == "TE_CONV_TILE":
            zero = 0 if e.qbits_activation < 16 else 0.0

            def pairs(i, j):
                y, x = divmod(i, e.out_w)
                out = []
                for kh in range(e.kernel_h):
                    for kw in range(e.kernel_w):
                        h = y * e.stride_h - e.pad_h + kh * e.dil_h
                        w = x * e.stride_w - e.pad_w + kw * e.dil_w
                        inside = 0 <= h < e.in_h and 0 <= w < e.in_w
                        count = e.in_c // e.channel_groups
                        first = j // (e.out_c // e.channel_groups) * count
                        for c in range(first, first + count):
                            a = (ifm[(h * e.in_w + w) * e.in_c + c]
                                 if inside else zero)
                            p = len(out)
                            out.append((p, a, wgt[j * e.k + p]))
                return out
        elif e.opcode == "TE_AV_TILE":
            def pairs(i, j):
                return [(p, ifm[i * e.k + p], wgt[p * e.n + j])
                        for p in range(e.k)]
        else:
            def pairs(i, j):
                return [(p, ifm[i * e.k + p], wgt[j * e.k + p])
                        for p in range(e.k)]
        return pairs

    def tensor(self, e):
        pairs = self.tensor_operands(e)
        integers = e.qbits_weight < 16 and e.qbits_activation < 16
        group = e.wgt_group or e.k
        groups = e.k // group
        bias = scales = None
        if e.bias_bank is not None:
            bias = unpack(self.read(e.bias_bank, e.bias_offset, 4 * e.n),
                          e.n, 32)
        if e.wgt_scale_bank is not None:
            count = e.n * groups
            scales = unpack(self.read(e.wgt_scale_bank, e.wgt_scale_offset,
                                      4 * count), count, 32)
        old = self.matrix(e.ofm_bank, e.ofm_offset, ofm_form(e))
        residual = None
        if getattr(e, "residual_bank", None) is not None:
            residual = self.matrix(
                e.residual_bank, e.residual_offset,
                (e.m, e.n, e.qbits_residual, e.residual_stride_bytes))
        bits = []
        for i in range(e.m):
            for j in range(e.n):
                parts = [[] for _ in range(groups)]
                for p, a, b in pairs(i, j):
                    parts[p // group].append((a, b))
                values = []
                for g, part in enumerate(parts):
                    if integers:
                        s = f32_exact(sum(a * b for a, b in part))
                    else:
                        s = canonical([mul(a, b) for a, b in part],
                                      self.choices)
                    w = scales[j * groups + g] if scales else e.scale_wgt
                    values.append(mul(mul(s, e.scale_ifm), w))
                if e.wgt_group or self.choices["single_group_summed"]:
                    v = canonical(values, self.choices)
                else:
                    v = values[0]
                if bias:
                    v = add(v, bias[j])
                if e.accumulate:
                    v = add(v, mul(old[i * e.n + j], e.scale_ofm))
                if residual:
                    v = add(v, mul(float(residual[i * e.n + j]),
                                   e.scale_residual))
                v = activate(e, v)
                bits.append(self.store_value(v, e.scale_ofm, e.qbits_ofm))
        ranges = spans(e.ofm_offset, ofm_form(e))
        count = len(bits) // len(ranges)
        for i, (lo, _) in enumerate(ranges):
            self.write(e.ofm_bank, lo,
                       pack(bits[i * count:i * count + count], e.qbits_ofm))

    def store_value(self, v, scale, qbits):
        if self.choices["quotient_exact"] and qbits != 32:
            y = divide(v, scale)
            if qbits < 16 and math.isfinite(y) and math.isfinite(scale):
                y = round(Fraction(v) / Fraction(scale))
            return encode(y, qbits)
        return encode(div(v, scale), qbits)

    def vector(self, e):
        n, count = e.length, e.rows * e.length
        op = e.opcode

        def fetch(bank, offset, number, qbits, scale):
            q = unpack(self.read(bank, offset, size(number, qbits)), number,
                       qbits)
            return [mul(float(v), scale) for v in q]

        x = fetch(e.in_bank, e.in_offset, count, e.qbits_activation,
                  e.scale_in)
        x2 = gamma = beta = factors = None
        if getattr(e, "factors_bank", None) is not None:
            factors = fetch(e.factors_bank, e.factors_offset,
                            e.rotary_dim // 2, 32, 1.0)
        if getattr(e, "in2_bank", None) is not None:
            x2 = fetch(e.in2_bank, e.in2_offset, e.in2_elements, e.qbits_in2,
                       e.scale_in2)
            if e.broadcast == "row":
                x2 *= e.rows
            elif e.broadcast == "column":
                x2 = [v for v in x2 for _ in range(n)]
            elif e.broadcast == "scalar":
                x2 *= count
        if getattr(e, "gamma_bank", None) is not None:
            gamma = fetch(e.gamma_bank, e.gamma_offset, n, 32, 1.0)
        if getattr(e, "beta_bank", None) is not None:
            beta = fetch(e.beta_bank, e.beta_offset, n, 32, 1.0)
        y = []
        for r in range(e.rows):
            row = x[r * n:r * n + n]
            if op == "VE_LAYERNORM_TILE":
                mean = div(canonical(row, self.choices), float(n))
                d = [sub(v, mean) for v in row]
                var = div(canonical([mul(v, v) for v in d], self.choices),
                          float(n))
                k = rsqrt32(add(var, e.eps))
                out = [mul(v, k) for v in d]
            elif op == "VE_RMSNORM_TILE":
                var = div(canonical([mul(v, v) for v in row], self.choices),
                          float(n))
                k = rsqrt32(add(var, e.eps))
                out = [mul(v, k) for v in row]
            elif op == "VE_SOFTMAX_TILE":
                out = self.softmax(e, row, r)
            elif op == "VE_GELU_TILE":
                out = [(gelu_erf32 if e.approximation == "erf"
                        else gelu_tanh32)(v) for v in row]
            elif op == "VE_SILU_TILE":
                out = [silu32(v) for v in row]
            elif op == "VE_ROPE_TILE":
                out = self.rope(e, row, e.position + r, factors)
            elif op == "VE_ADD_TILE":
                out = [add(a, b) for a, b in zip(row, x2[r * n:])]
            elif op == "VE_MUL_TILE":
                out = [mul(a, b) for a, b in zip(row, x2[r * n:])]
            elif op == "VE_UNARY_TILE":
                out = [unary(e, v) for v in row]
            elif op == "VE_BINARY_TILE":
                out = [binary(e, a, b) for a, b in zip(row, x2[r * n:])]
            elif op == "VE_REDUCE_TILE":
                out = [self.reduce(e, row)]
            elif op == "VE_POOL_TILE":
                out = self.pool(e, row)
            elif op == "VE_RESIZE_TILE":
                out = self.resize(e, row)
            else:
                out = row
            if gamma:
                out = [mul(a, b) for a, b in zip(out, gamma)]
            if beta:
                out = [add(a, b) for a, b in zip(out, beta)]
            y += out
        if op == "VE_TRANSPOSE_TILE":
            y = [y[i * n + j] for j in range(n) for i in range(e.rows)]
        if getattr(e, "function", None) == "argmax":
            self.write(e.out_bank, e.out_offset, pack(y, 32))
            return
        self.write(e.out_bank, e.out_offset,
                   pack([self.store_value(v, e.scale_out, e.qbits_out)
                         for v in y], e.qbits_out))

    def pool(self, e, image):
        out = []
        for y in range(e.out_h):
            for x in range(e.out_w):
                for c in range(e.in_c):
                    terms, best, inside = [], -INF, 0
                    for kh in range(e.kernel_h):
                        for kw in range(e.kernel_w):
                            h = y * e.stride_h - e.pad_h + kh * e.dil_h
                            w = x * e.stride_w - e.pad_w + kw * e.dil_w
                            v = 0.0
                            if 0 <= h < e.in_h and 0 <= w < e.in_w:
                                inside += 1
                                v = image[(h * e.in_w + w) * e.in_c + c]
                                best = larger(best, v)
                            terms.append(v)
                    if e.count_include_pad:
                        inside = e.each
                    out.append(best if e.function == "max" else div(
                        canonical(terms, self.choices), float(inside)))
        return out

    def resize(self, e, image):
        def place_of(i, size_in, size_out):
            if e.coordinate_mode == "half_pixel":
                at = Fraction((2 * i + 1) * size_in, 2 * size_out) - Fraction(
                    1, 2)
            elif e.coordinate_mode == "asymmetric":
                at = Fraction(i * size_in, size_out)
            else:
                at = (Fraction(i * (size_in - 1), size_out - 1)
                      if size_out > 1 else Fraction(0))
            return min(max(at, Fraction(0)), Fraction(size_in - 1))

        def nearest(at):
            low = at.numerator // at.denominator
            rest = at - low
            if e.nearest_mode == "floor":
                return low
            if e.nearest_mode == "ceil":
                return low + (rest > 0)
            half = Fraction(1, 2)
            return low + (rest > half or rest == half
                          and e.nearest_mode == "round_prefer_ceil")

        def mix(a, b, f):
            return a if f == 0 else add(mul(a, sub(1.0, f)), mul(b, f))

        out = []
        for y in range(e.out_h):
            at_y = place_of(y, e.in_h, e.out_h)
            for x in range(e.out_w):
                at_x = place_of(x, e.in_w, e.out_w)

                def pixel(h, w, c):
                    h, w = min(h, e.in_h - 1), min(w, e.in_w - 1)
                    return image[(h * e.in_w + w) * e.in_c + c]
                for c in range(e.in_c):
                    if e.mode == "nearest":
                        out.append(pixel(nearest(at_y), nearest(at_x), c))
                        continue
                    h, w = int(at_y), int(at_x)
                    fy, fx = f32(float(at_y - h)), f32(float(at_x - w))
                    top = mix(pixel(h, w, c), pixel(h, w + 1, c), fx)
                    low = mix(pixel(h + 1, w, c), pixel(h + 1, w + 1, c), fx)
                    out.append(mix(top, low, fy))
        return out

    def reduce(self, e, row):
        f = e.function
        if f == "argmax":
            for i, v in enumerate(row):
                if v != v:
                    return i
            return row.index(max(row))
        if f in ("sum", "mean"):
            s = canonical(row, self.choices)
            return s if f == "sum" else div(s, float(len(row)))
        sign = 1 if f == "max" else -1
        best = sign * row[0]
        for v in row[1:]:
            best = larger(best, sign * v)
        return sign * best

    def softmax(self, e, row, number):
        if e.valid_rows:
            number %= e.valid_rows
        end = min(len(row), e.valid_length + number * e.valid_step)
        start = max(0, end - e.window) if e.window else 0
        part = row[start:end]
        if not part:
            return [0.0] * len(row)
        top = NAN if any(v != v for v in part) else max(part)
        if e.approximation == "no_max":
            top = 0.0
        exps = [exp32(div(sub(v, top), e.temperature)) for v in part]
        total = canonical(exps, self.choices)
        return ([0.0] * start + [div(v, total) for v in exps]
                + [0.0] * (len(row) - end))

    def rope(self, e, row, p, factors):
        out = list(row)
        half = e.rotary_dim // 2
        for i in range(half):
            angle = float(p) * math.pow(e.theta, -2.0 * i / e.rotary_dim)
            angle *= e.frequency_scale
            if factors:
                angle = divide(angle, factors[i])
            c, s = cos_sin32(angle)
            for base in range(0, len(row), e.head_dim):
                a, b = ((base + 2 * i, base + 2 * i + 1)
                        if e.pairing == "adjacent"
                        else (base + i, base + i + half))
                out[a] = sub(mul(row[a], c), mul(row[b], s))
                out[b] = add(mul(row[a], s), mul(row[b], c))
        return out

    # time

    def te_cycles(self, e):
        p = self.params
        weight = {2: p["te.weight2"], 4: p["te.weight4"], 8: 1,
                  16: p["te.float16"], 32: p["te.float32"]}[e.qbits_weight]
        activation = {2: p["te.activation4"], 4: p["te.activation4"], 8: 1,
                      16: p["te.float16"],
                      32: p["te.float32"]}[e.qbits_activation]
        rate = Fraction(p["te.macs_per_cycle_base"]) * weight * activation
        macs = e.macs
        if e.opcode == "TE_CONV_TILE" and e.channel_groups > 1:
            macs = (e.m * e.n * e.kernel_h * e.kernel_w
                    * max(32, e.in_c // e.channel_groups))
        results = ceil(Fraction(e.m * e.n)
                       / (Fraction(p["ve.lanes"])
                          * p["ve.ops_per_lane_factor"]))
        after = 0
        if getattr(e, "residual_bank", None) is not None:
            after += results
        if e.activation not in ("none", "relu", "clip"):
            after += p["ve.sfu"] + results
        if getattr(e, "soft_cap", None) is not None:
            after += p["ve.sfu"] + results
        return (p["te.init"] + ceil(Fraction(macs) / rate) + after
                + p["te.finalize"])

    def ve_cycles(self, e):
        p = self.params
        factor = {2: p["ve.activation4"], 4: p["ve.activation4"],
                  8: p["ve.activation8"], 16: 1, 32: 1}[e.qbits_activation]
        ops = Fraction(p["ve.lanes"]) * p["ve.ops_per_lane_factor"] * factor
        if hasattr(e, "each"):
            return (p["ve.init"] + ceil(Fraction(e.results * e.each) / ops)
                    + p["ve.finalize"])
        one = ceil(Fraction(e.length) / ops)
        red = p["ve.reduction_pipeline"] + (e.length - 1).bit_length()
        sfu = p["ve.sfu"]
        row = {"VE_LAYERNORM_TILE": red + one, "VE_RMSNORM_TILE": red + one,
               "VE_SOFTMAX_TILE": red + one + red + one,
               "VE_GELU_TILE": one + sfu, "VE_SILU_TILE": one + sfu,
               "VE_REDUCE_TILE": red + one, "VE_TRANSPOSE_TILE": 2 * one,
               "VE_ROPE_TILE": 2 * one + sfu}.get(e.opcode, one)
        if e.opcode == "VE_UNARY_TILE" and e.function in SPECIAL:
            row += sfu
        if e.opcode == "VE_BINARY_TILE" and e.function in ("div", "pow"):
            row += sfu
        return p["ve.init"] + e.rows * row + p["ve.finalize"]

    def aligned_bytes(self, e):
        """The aligned bytes of the rows, those that touch taken together."""
        a = self.params["dma.alignment"]
        merged = []
        for addr, n in e.rows_list:
            if merged and merged[-1][1] == addr:
                merged[-1][1] = addr + n
            else:
                merged.append([addr, addr + n])
        return sum(-(-hi // a) * a - lo // a * a for lo, hi in merged)

    def dma_work(self, e):
        p = self.params
        n = Fraction(self.aligned_bytes(e))
        return max(ceil(n / p["dma.bus_width_bytes"])
                   * p["dma.dram_burst_cycles"], ceil(n / p["dma.peak_bw"]))

    def schedule(self, q):
        """Start, end and the engines' cycles, event by event."""
        p = self.params
        entries = q.entries
        engine_of = place(q, p)
        data_order(q, p)                # no circle
        names = (["DMA%d" % i for i in range(p["dma.count"])]
                 + ["kv_store", "kv_load"] * p["dma.kv_channels"]
                 + ["TE%d" % i for i in range(p["npu.te"])]
                 + ["VE%d" % i for i in range(p["npu.ve"])])
        waiting = {n: [e for e in entries if engine_of[e.id] == n]
                   for n in names}
        running = dict.fromkeys(names)
        touched = [operands(e) for e in entries]
        start, end = {}, {}
        done = set()
        sharing = {}                    # id -> work left, a fraction
        after = {}                      # id -> conflict cycles
        stats = {n: {"busy": 0, "idle": 0,
                     "stalled": {"barrier": 0, "group": 0, "dependency": 0}}
                 for n in names}
        roles = {}                      # role -> cycles

        def role_of(e):
            return roles.setdefault((e.role if e.cls == "DMA" else e.tensor_role)
                                    or "none", {"active": 0, "stalled": 0})

        weight = {e.id: Fraction(p["dma.weight_" + e.role])
                  for e in entries if e.cls == "DMA"}

        def open_reason(e):
            """Why e may not start, None when it may."""
            if any(b not in done for b in e.barriers):
                return "barrier"
            if any(g not in done for g in e.groups):
                return "group"
            if any(d not in done for d in list(e.deps) + e.members):
                return "dependency"
            return None

        def conflicts(e):
            return sum(1 for other in running.values() if other is not None
                       for o in touched[other.id] if o.space == e.spm_bank
                       for _ in range(2 if o.name == "ofm" and other.accumulate
                                      and self.choices[
                                          "accumulate_conflicts_twice"]
                                      else 1))

        now = 0                         # the cycle
        exact = Fraction(0)             # how far sharing has been simulated
        while True:
            # What completes in this cycle.
            for name in names:
                e = running[name]
                if e is not None and end.get(e.id) == now:
                    done.add(e.id)
                    running[name] = None
            # Entries of no engine, until none follows from another.
            again = True
            while again:
                again = False
                for e in entries:
                    if (e.cls is None and e.id not in done
                            and open_reason(e) is None):
                        start[e.id] = end[e.id] = now
                        done.add(e.id)
                        again = True
            # Starts, by id.
            heads = sorted((waiting[n][0].id, n) for n in names
                           if waiting[n] and running[n] is None)
            for i, name in heads:
                e = entries[i]
                if open_reason(e) is not None:
                    continue
                waiting[name].pop(0)
                start[i] = now
                if e.cls == "TE":
                    end[i] = now + self.te_cycles(e)
                elif e.cls == "VE":
                    end[i] = now + self.ve_cycles(e)
                else:
                    after[i] = conflicts(e) * p["dma.spm_conflict_cycles"]
                    sharing[i] = Fraction(self.dma_work(e))
                running[name] = e
            if len(done) == len(entries):
                break
            # The next cycle in which something completes.
            while True:
                target = min((end[e.id] for e in running.values()
                              if e is not None and e.id in end), default=None)
                if not sharing:
                    break
                total = sum(weight[i] for i in sharing)
                leave = exact + min(sharing[i] * total / weight[i]
                                    for i in sharing)
                if target is not None and target <= leave:
                    leave = Fraction(target)
                for i in sharing:
                    sharing[i] -= (leave - exact) * weight[i] / total
                exact = leave
                for i in [i for i in sharing if sharing[i] == 0]:
                    del sharing[i]
                    end[i] = ceil(exact) + after[i]
                if target is not None and exact == target:
                    break
            assert target is not None and target > now
            for name in names:
                s = stats[name]
                if running[name] is not None:
                    s["busy"] += target - now
                    role_of(running[name])["active"] += target - now
                elif waiting[name]:
                    role_of(waiting[name][0])["stalled"] += target - now
                    s["stalled"][open_reason(waiting[name][0])] += target - now
                else:
                    s["idle"] += target - now
            now = target
            exact = max(exact, Fraction(now))
        return start, end, now, stats, roles

    def role_counts(self, q, cycles):
        """The counts of each role that has any."""
        out = {}

        def counts(role):
            return out.setdefault(role, {"bytes": 0, "active_cycles": 0,
                                         "stalled_cycles": 0})
        for e in q.entries:
            if e.cls == "DMA":
                counts(e.role)["bytes"] += sum(n for _, n in e.rows_list)
        for role, c in cycles.items():
            counts(role)["active_cycles"] = c["active"]
            counts(role)["stalled_cycles"] = c["stalled"]
        return {role: c for role, c in out.items() if any(c.values())}

    def run(self, q):
        """Initial memory, data and timing of a queue."""
        self.initialize(q)
        for e in q.entries:
            for o in operands(e):
                for lo, hi in o.ranges:
                    self.check(o.space, lo, hi - lo)
        for i in data_order(q, self.params):
            self.execute(q.entries[i])
        start, end, cycles, stats, roles = self.schedule(q)
        traffic = {False: 0, True: 0}
        for e in q.entries:
            if e.cls == "DMA":
                traffic[e.store] += (self.aligned_bytes(e)
                                     if self.choices["bytes_aligned"]
                                     else sum(n for _, n in e.rows_list))
        macs = sum(e.m * e.n * e.k if self.choices["sparse_macs_dense"]
                   else e.macs for e in q.entries if e.cls == "TE")
        return {"cycles": cycles,
                "start": [start[i] for i in range(len(q.entries))],
                "end": [end[i] for i in range(len(q.entries))],
                "engines": stats, "macs": macs,
                "roles": self.role_counts(q, roles),
                "dram read": traffic[False], "dram write": traffic[True]}
