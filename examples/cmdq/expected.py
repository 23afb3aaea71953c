#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Computes the expected results of the CMDQ examples from the machine's rules, without the simulator.

    expected.py             writes NAME.expect.json for each example
    expected.py --check     reports those that are not up to date

Integers are Python's; binary32 is Python's double rounded after each operation, which is exact for + - * / and the
square root. The inputs are those of make.py. The cycles are added up as in docs/examples.md.
"""

import json
import math
import os
import struct
import sys

import make as given

HERE = os.path.dirname(os.path.abspath(__file__))

# ---- Arithmetic
# ---------------------------------------------------------------------------------------------------------


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def f16(x):
    return struct.unpack("<e", struct.pack("<e", x))[0]


def total(terms):
    """The canonical sum: eight partial sums, then a tree."""
    p = [0.0] * 8
    for i, t in enumerate(terms):
        p[i % 8] = f32(p[i % 8] + t)
    half = [f32(p[i] + p[i + 4]) for i in range(4)]
    return f32(f32(half[0] + half[2]) + f32(half[1] + half[3]))


def to_integer(x, qbits):
    top = 1 << qbits - 1
    return max(-top, min(top - 1, round(x)))       # round() takes ties to even


def rows_of(flat, length):
    return [flat[i:i + length] for i in range(0, len(flat), length)]


def gemm(x, w, x_scale, scales, group):
    """x[m][k] times w[n][k], exact sums of `group` products, each with its scale."""
    def element(row, weights, own):
        parts = [f32(f32(f32(sum(a * b for a, b in zip(row[g:g + group], weights[g:g + group]))) * x_scale) * s)
                 for g, s in zip(range(0, len(row), group), own)]
        return parts[0] if len(parts) == 1 else total(parts)
    return [element(row, weights, own) for row in x for weights, own in zip(w, scales)]


def silu(x):
    return f32(x / (1.0 + math.exp(-x)))


# ---- Cycles
# -------------------------------------------------------------------------------------------------------------


def ceil_div(a, b):
    return -(-a // b)


def dma(count):
    """Bytes that begin at a multiple of 32."""
    return ceil_div(count, 32)


def te(macs, rate=4096):
    return 8 + ceil_div(macs, rate) + 4


def ve(work, rows=1):
    return 8 + rows * work + 4


REDUCTION, SFU = 8, 16

# ---- The examples
# -------------------------------------------------------------------------------------------------------


def example_ffn():
    m, d, h, group = given.FFN_TOKENS, given.FFN_D, given.FFN_H, given.FFN_GROUP
    x = rows_of(given.FFN_X, d)
    normed = []
    for row in x:
        square = f32(total([f32(v * v) for v in row]) / d)
        r = f32(1.0 / math.sqrt(f32(square + f32(1e-5))))
        normed.append([to_integer(f32(f32(f32(v * r) * g) / given.FFN_NORM_SCALE), 8) for v,
                       g in zip(row, given.FFN_GAMMA)])
    gate = gemm(normed, rows_of(given.FFN_GATE, d), given.FFN_NORM_SCALE, rows_of(given.FFN_GATE_SCALES, d // group),
                group)
    up = gemm(normed, rows_of(given.FFN_UP, d), given.FFN_NORM_SCALE, rows_of(given.FFN_UP_SCALES, d // group), group)
    hidden = [to_integer(f32(f32(silu(g) * u) / given.FFN_ACT_SCALE), 8) for g, u in zip(gate, up)]
    down = gemm(rows_of(hidden, h), rows_of(given.FFN_DOWN, h), given.FFN_ACT_SCALE,
                rows_of(given.FFN_DOWN_SCALES, h // (2 * group)), 2 * group)
    y = [f32(a + b) for a, b in zip(down, given.FFN_X)]
    inputs = dma(2 * m * d) + dma(4 * d)            # x and gamma; the weights are loaded during the norm
    norm = ve(REDUCTION + 3 + 1, rows=m)            # 3: the logarithm of d; 1: d fits the lanes
    products = te(m * h * d, 6144) + te(m * h * d)  # two in parallel, then one
    vectors = ve(1 + SFU) + ve(1) + ve(1)
    return inputs + norm + products + vectors + dma(4 * m * d), {"y": y}


def example_attention():
    d, keys, valid = given.ATT_D, given.ATT_KEYS, given.ATT_VALID
    y = []
    for head in range(given.ATT_HEADS):
        q = rows_of(given.ATT_Q, d)[head * given.ATT_QUERIES:][:given.ATT_QUERIES]
        k = rows_of(given.ATT_K, d)[head * keys:][:keys]
        v = rows_of(given.ATT_V, d)[head * keys:][:keys]
        for row in q:
            scores = gemm([row], k, given.ATT_SCALE, [[given.ATT_SCALE]] * keys, d)[:valid]
            e = [f32(math.exp(f32(f32(s - max(scores)) / f32(given.ATT_TEMPERATURE)))) for s in scores]
            p = [f16(f32(t / total(e))) for t in e] + [0.0] * (keys - valid)
            y += [f32(total([f32(p[t] * v[t][i]) for t in range(keys)]) * given.ATT_SCALE) for i in range(d)]
    # the second head's keys are loaded before, its values meanwhile
    loads = 2 * (dma(16) + dma(64) + dma(64)) - dma(64)
    softmax = ve(2 * (REDUCTION + 3 + 1), rows=given.ATT_QUERIES)
    return loads + te(128) + softmax + te(128, 2048) + dma(64), {"y": y}


def example_kv():
    d, heads, steps = given.KV_D, given.KV_HEADS, given.KV_STEPS
    keys, queries = rows_of(given.KV_K, d), rows_of(given.KV_Q, d)
    scores = [float(sum(a * b for a, b in zip(queries[t], keys[u * heads]))) for t in range(steps)
              for u in range(t + 1)]
    part = [keys[u * heads + 1][i] for u in range(steps) for i in range(2, 6)]
    loads = dma(steps * heads * d) + dma(steps * d)
    # appends, fetch, product; later appends overlap the previous product
    first = heads * dma(d) + dma(d) + te(d)
    later = [dma((t + 1) * d) + te((t + 1) * d) for t in range(1, steps)]
    end = dma(4 * len(scores)) + steps * dma(4) + dma(len(part))    # one transfer per row of the slice
    return loads + first + sum(later) + end, {"scores": scores, "slice": part}


def example_strided():
    w, h, top, left = given.STRIDED_W, given.STRIDED_H, given.STRIDED_TOP, given.STRIDED_LEFT
    image = rows_of(given.STRIDED_IMAGE, given.STRIDED_IMAGE_W)
    window = [[-v for v in row[left:left + w]] for row in image[top:top + h]]
    for to, row in zip(image, window):
        to[:w] = row
    flat = [v for row in window for v in row]
    cycles = h * dma(w) + ve(1) + dma(len(flat)) + h * dma(w)
    return cycles, {"packed": flat, "image": [v for row in image for v in row]}


def tile_values():
    x, k = rows_of(given.TILE_X, given.TILE_K), given.TILE_K
    return [to_integer(v / given.TILE_SCALE, 8) for w in given.TILE_W
            for v in gemm(x, rows_of(w, k), 1.0, [[1.0]] * given.TILE_N, k)]


TILE = (dma(given.TILE_N * given.TILE_K), te(given.TILE_M * given.TILE_N * given.TILE_K),
        dma(given.TILE_M * given.TILE_N))


def example_no_prefetch():
    return dma(len(given.TILE_X)) + given.TILES * sum(TILE), {"y": tile_values()}


def example_prefetch():
    load, product, store = TILE
    assert load + store <= product                  # so the products are back to back
    return dma(len(given.TILE_X)) + load + given.TILES * product + store, {"y": tile_values()}


def example_missing_dependency():
    """Data changes in the order of the ids, so the error has no effect."""
    return example_prefetch() + ([[8, 12]],)


def example_conv():
    x = lambda i, j, c: given.CONV_X[(i * given.CONV_W + j) * given.CONV_C +
                                     c] if 0 <= i < given.CONV_H and 0 <= j < given.CONV_W else 0
    w = lambda o, i, j, c: given.CONV_WEIGHTS[((o * given.CONV_KERNEL + i) * given.CONV_KERNEL + j) * given.CONV_C + c]
    window = [(i, j, c) for i in range(given.CONV_KERNEL) for j in range(given.CONV_KERNEL)
              for c in range(given.CONV_C)]
    steps = lambda size: range(-given.CONV_PAD, size + given.CONV_PAD - given.CONV_KERNEL + 1, given.CONV_STRIDE)
    y = [to_integer((sum(x(top + i, left + j, c) * w(o, i, j, c) for i, j, c in window) +
                     given.CONV_BIAS[o]) / given.CONV_SCALE, 8)
         for top in steps(given.CONV_H) for left in steps(given.CONV_W) for o in range(given.CONV_OUT)]
    loads = dma(len(given.CONV_X)) + dma(len(given.CONV_WEIGHTS) // 2) + dma(4 * given.CONV_OUT)
    return loads + te(len(y) * len(window), 6144) + dma(len(y)), {"y": y}


def example_sparse():
    n, k = given.SPARSE_COLUMNS, given.SPARSE_DEPTH
    dense = [[0] * k for _ in range(n)]
    for g, pair in enumerate(given.SPARSE_PAIRS):
        for i, at in enumerate(pair):
            dense[4 * g // k][4 * g % k + at] = given.SPARSE_VALUES[2 * g + i]
    y = [float(sum(a * b for a, b in zip(row, w))) for row in rows_of(given.SPARSE_X, k) for w in dense]
    weights = n * k // 2 + n * k // 2 // 4          # values, and four indices per byte
    return dma(given.SPARSE_ROWS * k) + dma(weights) + te(given.SPARSE_ROWS * n * k // 2) + dma(4 * len(y)), {"y": y}


def example_published():
    """The worked example of the format page. Everything is zero; addresses are multiples of 32."""
    loads = dma(4096) + dma(16384 // 2)             # one channel
    norm = ve(REDUCTION + 8 + ceil_div(256 * 10, 64 * 11))  # 8: the logarithm of 256; 8-bit lanes are 1.1 times as fast
    findings = [["TV-Q046", 2, 1], ["TV-Q046", 2, 0], ["TV-Q044", 3, 2], ["TV-Q045", 4]]
    return loads + te(64 * 256 * 256, 6144) + norm + dma(4096), {}, (), findings


def text_of(cycles, outputs, hazards=(), findings=()):
    lines = ['  "%s": [%s]' % (name, ", ".join("%.9g" % v for v in values)) for name, values in outputs.items()]
    found = ' "hazards": %s,\n' % json.dumps(hazards) if hazards else ""
    found += ' "findings": %s,\n' % json.dumps(findings) if findings else ""
    return '{\n "cycles": %d,\n%s "outputs": {\n%s\n }\n}\n' % (cycles, found, ",\n".join(lines))


if __name__ == "__main__":
    sys.path.insert(0, os.path.join(HERE, ".."))
    from written import expectations
    sys.exit(expectations(__file__, globals(), text_of))
