#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Computes the expected results of the OpenNPU examples from the machine's rules, without the simulator.

    expected.py             writes NAME.expect.json for each example
    expected.py --check     reports those that are not up to date

Integers throughout, except for the functions in the tables, which are rounded to integers. The ticks are added up as
the comments in the examples do.
"""

import math
import os
import sys
from fractions import Fraction

HERE = os.path.dirname(os.path.abspath(__file__))

# A load of a VX register is ready after 4 ticks; a VR register occupies the port for 4.
LOAD, VR_PORT = 4, 4
# Eight times: a load, and the segment of the table that it fills. The port is free for the next load when the previous
# one
# is ready, but that load writes the register that the vsetlut reads in this tick: 5 ticks each.
TABLE = 8 * (LOAD + 1)


def byte(v):
    return (v + 128) % 256 - 128


def rounded(x):
    """To the nearest integer, ties to even, as Python's round() does for fractions."""
    return round(x)


def example_relu():
    x = [-128, -64, -1, 0, 1, 2, 64, 127]
    compute = 2
    return LOAD - 1 + compute + 1, {"mem:y:8:s8": [max(v, 0) for v in x]}   # bcast.imm in the load's last tick


def example_clamp():
    x = [-128, -21, -20, 0, 49, 50, 51, 127]
    return LOAD + 2 + 1, {"mem:y:8:s8": [max(min(v, 50), -20) for v in x]}


def example_tanh():
    x = [-128, -64, -32, -1, 0, 1, 64, 127]
    return TABLE + LOAD + 1 + 1, {"mem:y:8:s8": [rounded(64 * math.tanh(v / 64)) for v in x]}


def example_gelu():
    x = [-128, -64, -32, -1, 0, 32, 64, 127]
    y = [v * (64 + rounded(64 * math.erf((v >> 1) / 32 / math.sqrt(2)))) >> 7 for v in x]
    constants = 5                               # after the load, which is ready before the last of them
    return TABLE + 1 + max(constants, LOAD - 1) + 5 + 1, {"mem:y:8:s16": y}


def example_softmax():
    x = [-40, 10, 32, 0, 64, 50, -100, 64]
    e = [rounded(32 * math.exp(max(v - max(x), -128) / 64)) for v in x]
    r = min(rounded(Fraction(8192, sum(e))), 255)
    return 2 * TABLE + LOAD + 6 + 1, {"mem:p:8:u16": [v * r for v in e]}


def example_quantize():
    column = [sum(((5 * k + 3 * m) % 17 - 8) * ((7 * k + 2 * 7) % 13 - 6) for k in range(8)) for m in range(8)]
    y = [max(-128, min(127, rounded(v * Fraction(3, 4) + Fraction(3, 2)))) for v in column]
    loads = 2 * VR_PORT + 16 + 3
    return loads + (3 * 8 + 5) + 1, {"mem:y:8:s8": y}


def example_gemm64():
    blocks, k64 = range(4), range(64)
    a = [[(5 * k + 3 * m) % 251 - 125 for k in k64] for m in range(256)]
    b = [[(11 * k + 7 * n) % 241 - 120 for k in k64] for n in k64]
    c = [sum(x * y for x, y in zip(a[64 * block + m], b[n])) for block in blocks for n in k64 for m in k64]
    start = LOAD + 2 * 4                        # three bases and a constant, the loads of the first four k
    last_mma = 64 + 2 * 60                      # from a block's mma.reset; the loads of all but four k are in between
    last_store = last_mma + 64 + 2 + 63 * VR_PORT   # the first column is ready 2 ticks after it is taken
    return start + len(blocks) * (last_store + 1), {"mem:c:%d:s32" % len(c): c}


def text_of(cycles, dumps):
    lines = ['  "%s": %s' % (key, values) for key, values in dumps.items()]
    return '{\n "cycles": %d,\n "dumps": {\n%s\n }\n}\n' % (cycles, ",\n".join(lines))


if __name__ == "__main__":
    sys.path.insert(0, os.path.join(HERE, ".."))
    from written import expectations
    sys.exit(expectations(__file__, globals(), text_of))
