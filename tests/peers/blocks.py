#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every readable tensor type decodes to the bits that ggml gives.

    blocks.py BUILD DECODE_BLOCKS

Blocks are random, with every finite F16 scale (each 16th in blocks of 256) and with quants of all zeros and all ones;
blocks with infinite or NaN scales are compared with NaN equal to NaN. F32 is compared without a decoder.
"""

import array
import ctypes
import math
import random
import subprocess
import sys

import peer

# Offsets of the F16 scales in a block; for F16 and BF16 the block is the number.
SCALES = {"Q4_0": (0,), "Q4_1": (0, 2), "Q5_0": (0,), "Q5_1": (0, 2), "Q8_0": (0,), "Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2),
          "Q5_K": (0, 2), "Q6_K": (208,), "IQ4_NL": (0,), "IQ4_XS": (0,), "F16": (0,), "BF16": (0,)}
INFINITY = 0x7C00


def is_finite(scale):
    return scale & INFINITY != INFINITY


def blocks_of(rng, name, size, weights):
    """(blocks with finite scales, blocks with others)"""
    step = 16 if weights == 256 else 1
    groups = bytearray(), bytearray()
    for start in range(step):
        if start and start != step // 2 + 1:
            continue
        for scale in range(start, 1 << 16, step):
            at = SCALES[name][scale // step % len(SCALES[name])]
            block = bytearray(rng.randbytes(size) if scale % 64 else bytes([scale // 64 % 2 * 255]) * size)
            for other in SCALES[name]:
                value = scale if other == at else rng.randrange(INFINITY) | rng.getrandbits(1) << 15
                block[other:other + 2] = value.to_bytes(2, "little")
            groups[name != "BF16" and not is_finite(scale)].extend(block)
    return groups


def ours(program, number, blocks):
    return subprocess.run([program, str(number)], input=bytes(blocks), stdout=subprocess.PIPE, check=True).stdout


def ggml_decoder(base, name):
    if name in ("F16", "BF16"):
        return getattr(base, f"ggml_{'fp' if name == 'F16' else 'bf'}16_to_fp32_row")
    return getattr(base, "dequantize_row_" + name.lower().replace("_k", "_K"))


def theirs(base, name, blocks, count):
    out = (ctypes.c_float * count)()
    ggml_decoder(base, name)(ctypes.c_char_p(bytes(blocks)), out, ctypes.c_int64(count))
    return bytes(out)


def same(name, a, b):
    """The same bits, or NaN in both."""
    if a == b:
        return
    x, y = array.array("f", a), array.array("f", b)
    assert len(x) == len(y), f"{name}: {len(x)} and {len(y)} weights"
    for i, (p, q) in enumerate(zip(x, y)):
        if math.isnan(p) and math.isnan(q):
            continue
        assert a[4 * i:4 * i + 4] == b[4 * i:4 * i + 4], f"{name}: weight {i} is {p!r}, ggml's is {q!r}"


def main():
    build, program = sys.argv[1:3]
    try:
        base = peer.load(peer.install(build), "libggml-base")
    except peer.Unavailable as reason:
        peer.skip(reason)
    base.ggml_type_size.restype = ctypes.c_size_t
    base.ggml_blck_size.restype = ctypes.c_int64
    base.ggml_type_name.restype = ctypes.c_char_p
    rows = [line.split() for line in subprocess.run([program], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()]
    compared = []
    for number, name, weights, size in rows:
        number, weights, size = int(number), int(weights), int(size)
        assert base.ggml_type_name(number).decode().lower() == name.lower(), f"type {number} is ggml's {base.ggml_type_name(number)}"
        assert (base.ggml_blck_size(number), base.ggml_type_size(number)) == (weights, size), f"{name}: the sizes of a block differ"
        rng = random.Random(number)
        if name == "F32":
            numbers = bytes(rng.randbytes(1 << 16))
            same(name, ours(program, number, numbers), numbers)
            compared.append(name)
            continue
        finite, others = blocks_of(rng, name, size, weights)
        for blocks in filter(None, (finite, others)):
            same(name, ours(program, number, blocks), theirs(base, name, blocks, len(blocks) // size * weights))
        compared.append(name)
    expected = {"F32", *SCALES}
    assert set(compared) == expected, f"compared {sorted(compared)}, expected {sorted(expected)}"
    print(f"{len(compared)} tensor types decode to ggml's bits")


if __name__ == "__main__":
    main()
