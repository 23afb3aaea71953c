# SPDX-License-Identifier: Apache-2.0
"""Writes GGUF files with random weights, with Python's standard library alone.

Weights of a tensor are rows of blocks taken from a pool of random blocks at random offsets, so that a model of many million weights
takes seconds; data is made when it is written, so that files may be larger than memory. The values of a block have mean zero and about the asked standard deviation in every tensor type.
"""

import array
import math
import random
import struct

ALIGNMENT = 32
U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9


def half(x):
    return struct.pack("<e", x)


def weights_f32(rng, scale):
    return struct.pack("<f", rng.gauss(0, scale))


def weights_f16(rng, scale):
    return half(rng.gauss(0, scale))


def weights_bf16(rng, scale):
    return struct.pack("<f", rng.gauss(0, scale))[2:]


def signed(rng, d):
    """A scale of random sign makes the mean zero where quants have no symmetric range."""
    return half(d if rng.getrandbits(1) else -d)


def symmetric(quant_bytes, unit):
    """Formats d, quants: `unit` is the standard deviation of random quants."""
    return lambda rng, scale: signed(rng, scale / unit) + rng.randbytes(quant_bytes)


def with_offset(quant_bytes, unit, middle):
    """Formats d, m, quants with values q d + m, m = -middle d."""
    return lambda rng, scale: half(scale / unit) + half(-middle * scale / unit) + rng.randbytes(quant_bytes)


def weights_q2_k(rng, scale):
    d = scale / 10.3
    return bytes(s | s << 4 for s in (rng.randint(1, 15) for _ in range(16))) + rng.randbytes(64) + half(d) + half(1.5 * d)


def weights_q3_k(rng, scale):
    return rng.randbytes(32 + 64 + 12) + signed(rng, scale / 43)


def scales_and_offsets(rng):
    """The 12 bytes of 8 scales and 8 offsets of 6 bits in Q4_K and Q5_K; each offset is near its scale."""
    s = [rng.randint(1, 63) for _ in range(8)]
    o = [min(63, max(0, x + rng.randint(-2, 2))) for x in s]
    low = [s[r] | s[r + 4] >> 4 << 6 for r in range(4)] + [o[r] | o[r + 4] >> 4 << 6 for r in range(4)]
    return bytes(low + [s[r] & 15 | (o[r] & 15) << 4 for r in range(4, 8)])


def weights_q4_k(rng, scale):
    d = scale / 170
    return half(d) + half(7.5 * d) + scales_and_offsets(rng) + rng.randbytes(128)


def weights_q5_k(rng, scale):
    d = scale / 341
    return half(d) + half(15.5 * d) + scales_and_offsets(rng) + rng.randbytes(32 + 128)


def weights_q6_k(rng, scale):
    return rng.randbytes(128 + 64 + 16) + signed(rng, scale / 1366)


# name: (number in the file, weights per block, random block of a standard deviation)
TYPES = {
    "F32": (0, 1, weights_f32),
    "F16": (1, 1, weights_f16),
    "Q4_0": (2, 32, symmetric(16, 4.6)),
    "Q4_1": (3, 32, with_offset(16, 4.6, 7.5)),
    "Q5_0": (6, 32, symmetric(20, 9.2)),
    "Q5_1": (7, 32, with_offset(20, 9.2, 15.5)),
    "Q8_0": (8, 32, symmetric(32, 74)),
    "Q2_K": (10, 256, weights_q2_k),
    "Q3_K": (11, 256, weights_q3_k),
    "Q4_K": (12, 256, weights_q4_k),
    "Q5_K": (13, 256, weights_q5_k),
    "Q6_K": (14, 256, weights_q6_k),
    "IQ4_NL": (20, 32, symmetric(16, 69)),
    "IQ4_XS": (23, 256, symmetric(134, 1277)),
    "BF16": (30, 1, weights_bf16),
}


def encode_value(value):
    """(kind, bytes) of a metadata value: the kind follows from the Python type."""
    if isinstance(value, bool):
        return BOOL, struct.pack("<B", value)
    if isinstance(value, int):
        return (U32, struct.pack("<I", value)) if value >= 0 else (I32, struct.pack("<i", value))
    if isinstance(value, float):
        return F32, struct.pack("<f", value)
    if isinstance(value, (str, bytes)):
        data = value if isinstance(value, bytes) else value.encode()
        return STRING, struct.pack("<Q", len(data)) + data
    kind = I32 if isinstance(value[0], int) and not isinstance(value[0], bool) else encode_value(value[0])[0]
    items = [struct.pack("<i", x) if kind == I32 else encode_value(x)[1] for x in value]
    return ARRAY, struct.pack("<IQ", kind, len(value)) + b"".join(items)


def encode_string(text):
    return encode_value(text)[1]


class Writer:
    """Collects metadata and tensors; `save` writes the file."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.metadata = {}
        self.tensors = []  # (name, dimensions, number of the type, bytes of data, function that returns its chunks)
        self.pools = {}

    def meta(self, key, value):
        self.metadata[key] = value

    def pool(self, kind, scale, blocks):
        """(bytes, bytes of a block) of at least `blocks` random blocks"""
        key = kind, scale
        data, size = self.pools.get(key, (b"", 1))
        if len(data) < blocks * size or not data:
            make = TYPES[kind][2]
            count = 1 << max(11 if TYPES[kind][1] > 1 else 15, (blocks - 1).bit_length())
            made = [make(self.rng, scale) for _ in range(count)]
            data, size = b"".join(made), len(made[0])
            self.pools[key] = data, size
        return data, size

    def weights(self, name, dimensions, kind, scale):
        """A random tensor [… rows][columns] of `kind`: dimensions[0] columns, in whole blocks."""
        number, block, _ = TYPES[kind]
        assert dimensions[0] % block == 0, name
        blocks, rows = dimensions[0] // block, math.prod(dimensions[1:])
        data, size = self.pool(kind, scale, blocks + 2 * rows)
        offsets = self.rng.sample(range(len(data) // size - blocks + 1), rows)  # no two rows are the same
        self.tensors.append((name, dimensions, number, rows * blocks * size,
                             lambda: (data[at * size:(at + blocks) * size] for at in offsets)))

    def numbers(self, name, values):
        """A vector of binary32."""
        data = array.array("f", values).tobytes()
        self.tensors.append((name, (len(values),), 0, len(data), lambda: [data]))

    def vector(self, name, count, mean, scale):
        self.numbers(name, [self.rng.gauss(mean, scale) for _ in range(count)])

    def save(self, path):
        header = bytearray(struct.pack("<4sIQQ", b"GGUF", 3, len(self.tensors), len(self.metadata)))
        for key, value in self.metadata.items():
            kind, data = encode_value(value)
            header += encode_string(key) + struct.pack("<I", kind) + data
        offset = 0
        for name, dimensions, number, size, _ in self.tensors:
            header += encode_string(name) + struct.pack("<I", len(dimensions)) + struct.pack(f"<{len(dimensions)}Q", *dimensions)
            header += struct.pack("<IQ", number, offset)
            offset += (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
        with open(path, "wb") as file:
            file.write(header + bytes(-len(header) % ALIGNMENT))
            for _, _, _, size, chunks in self.tensors:
                file.writelines(chunks())
                file.write(bytes(-size % ALIGNMENT))
