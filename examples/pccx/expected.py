#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Computes the expected results of the pccx examples from the machine's rules, without the simulator.

    expected.py             writes NAME.expect.json for each example
    expected.py --check     reports those that are not up to date

Values are exact fractions and are rounded where the machine rounds (docs/isa/pccx.md): activations to INT8 with a
power-of-two scale, dot products exactly, three FP32 roundings behind them, then BF16. exp and erf are computed to 80
digits. The cycles are those of the comments in the examples.
"""

import decimal
import os
import sys
from decimal import Decimal
from fractions import Fraction

HERE = os.path.dirname(os.path.abspath(__file__))
decimal.getcontext().prec = 80


def rounded(x, bits, least):
    """Nearest value with `bits` significant bits, ties to even; no finer than 2**least."""
    x = Fraction(x)
    if x == 0:
        return x
    exponent = 0
    while abs(x) >= Fraction(2) ** (exponent + 1):
        exponent += 1
    while abs(x) < Fraction(2) ** exponent:
        exponent -= 1
    unit = Fraction(2) ** max(exponent - bits + 1, least)
    return round(x / unit) * unit


def fp32(x):
    return rounded(x, 24, -149)


def bf16(x):
    """BF16; results below the smallest normal number become zero."""
    r = rounded(x, 8, -133)
    return r if abs(r) >= Fraction(2) ** -126 else Fraction(0)


# ---- The instructions ----

def quantized(x):
    """Dynamic quantization: (INT8 values, scale), the scale from the largest exponent among the activations."""
    largest = max(abs(v) for v in x)
    if largest == 0:
        return [0] * len(x), Fraction(1)
    scale = Fraction(1, 2 ** 200)
    while scale * 128 <= largest:               # 2**(E - 6), where 2**E <= largest < 2**(E + 1)
        scale *= 2
    return [max(-127, min(127, round(v / scale))) for v in x], scale


def gemv(x, rows, scales=None, onto=None):
    q, s = quantized(x)
    out = []
    for n, row in enumerate(rows):
        r = fp32(fp32(sum(a * b for a, b in zip(q, row))) * s)
        if scales:
            r = fp32(r * scales[n])
        if onto:
            r = fp32(r + onto[n])
        out.append(bf16(r))
    return out


def exp(x):
    return Fraction((Decimal(x.numerator) / Decimal(x.denominator)).exp())


def pi():
    """Machin's formula."""
    def arctan_inverse(n):
        term, total, k = Decimal(1) / n, Decimal(0), 0
        while abs(term) > Decimal(10) ** -79:
            total += term / (2 * k + 1)
            term /= -n * n
            k += 1
        return total
    return 4 * (4 * arctan_inverse(5) - arctan_inverse(239))


TWO_OVER_ROOT_PI = 2 / pi().sqrt()


def gelu(x):
    """x (1 + erf(x / sqrt 2)) / 2, erf by its Taylor series."""
    z = Decimal(x.numerator) / Decimal(x.denominator) / Decimal(2).sqrt()
    term, total, n = z, Decimal(0), 0
    while abs(term) > Decimal(10) ** -78:
        total += term / (2 * n + 1)
        n += 1
        term *= -z * z / n
    return x * Fraction(1 + TWO_OVER_ROOT_PI * total) / 2


def softmax(z):
    """The three passes of the SFU after findemax."""
    top = max(z)
    e = [bf16(exp(fp32(v - top))) for v in z]
    total = Fraction(0)
    for v in e:
        total = fp32(total + v)
    total = bf16(total)
    return e, total, [bf16(v / total) for v in e]


# ---- The examples: the same formulas for the data as in their .data sections ----

def matrix(rows, columns, a, b, modulus=15, shift=7):
    return [[(a * n + b * k) % modulus - shift for k in range(columns)] for n in range(rows)]


def example_softmax():
    x = [Fraction(k % 7 - 3, 4) for k in range(32)]
    z = gemv(x, matrix(16, 32, 3, 5), [Fraction(1, 16)] * 16)
    e, total, p = softmax(z)
    return 238, {"l2:4:16:bf16": z, "emax:0:1:bf16": [max(z)], "l2:8:24:bf16": [total] + [0] * 7 + e,
                 "host:p:16:bf16": p}


def example_ffn():
    x = [Fraction(k % 9 - 4, 2) for k in range(32)]
    hidden = gemv(x, matrix(64, 32, 7, 4), [bf16(Fraction(1 + n % 4, 64)) for n in range(64)])
    active = [bf16(gelu(v)) for v in hidden]
    y = gemv(active, matrix(32, 64, 2, 11), [bf16(Fraction(1 + n % 4, 128)) for n in range(32)], onto=x)
    return 272, {"l2:4:64:bf16": active, "host:y:32:bf16": y}


def example_attention():
    q = [Fraction(k % 5 - 2, 2) for k in range(32)]
    s = gemv(q, matrix(16, 32, 1, 8), [bf16(Fraction(Decimal("0.25") / Decimal(32).sqrt()))] * 16)
    e, total, p = softmax(s)
    o = gemv(p, matrix(32, 16, 4, 13), [Fraction(1, 8)] * 32)
    return 261, {"l2:4:16:bf16": s, "l2:9:16:bf16": p, "host:o:32:bf16": o}


def example_chained():
    x = [bf16((k % 6 - Fraction(5, 2)) / 16) for k in range(32)]
    hidden = [bf16(gelu(v)) for v in gemv(x, matrix(64, 32, 3, 5, 16, 8))]
    return 262, {"host:y:16:bf16": gemv(hidden, matrix(16, 64, 7, 9, 16, 8)), "l2:6:8:bf16": [0] * 8}


def example_pipeline():
    out = []
    for tile in range(4):
        out += [bf16(gelu(Fraction(k % 64 - 32, 8))) for k in range(128 * tile, 128 * tile + 128)]
        out += range(1, 9)
    return 963, {"host:output:544:bf16": out}


def text_of(cycles, dumps):
    lines = ['  "%s": [%s]' % (key, ", ".join("%.9g" % float(v) for v in values)) for key, values in dumps.items()]
    return '{\n "cycles": %d,\n "dumps": {\n%s\n }\n}\n' % (cycles, ",\n".join(lines))


if __name__ == "__main__":
    sys.path.insert(0, os.path.join(HERE, ".."))
    from written import expectations
    sys.exit(expectations(__file__, globals(), text_of))
