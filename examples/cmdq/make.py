#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generates the queues of this directory, and ../digits/cmdq.json.

    make.py             writes them
    make.py --check     reports those that are not up to date

A Queue collects metadata and entries and writes one entry per line. Its methods return the ids of the added entries,
for `after`, the ids that an entry depends on. The inputs are functions of this file, which expected.py shares.
"""

import json
import os
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
FORMATS = {8: "b", 16: "e", 32: "f"}


def packed(values, qbits):
    """The bytes of a tensor: 2-bit and 4-bit integers start in the low bits of each byte; others are little endian."""
    if qbits >= 8:
        return struct.pack("<%d%s" % (len(values), FORMATS[qbits]), *values)
    per = 8 // qbits
    padded = list(values) + [0] * (-len(values) % per)
    return bytes(sum((v & (1 << qbits) - 1) << qbits * i for i, v in enumerate(padded[at:at + per]))
                 for at in range(0, len(padded), per))


class Queue:
    def __init__(self, graph_name, **metadata):
        self.metadata = dict({"version": "1.2", "graph_name": graph_name}, **metadata)
        self.entries = []

    def data(self, addr, values, qbits):
        """Adds initial values of DRAM; returns the address after them."""
        raw = packed(values, qbits)
        self.metadata.setdefault("dram_init", []).append({"addr": addr, "hex": raw.hex()})
        return addr + len(raw)

    def output(self, name, addr, count, qbits):
        self.metadata.setdefault("outputs",
                                 []).append({"name": name, "dram_addr": addr, "num_elements": count, "qbits": qbits})

    def add(self, opcode, after=(), **fields):
        entry = {"opcode": opcode, "id": len(self.entries)}
        if after:
            entry["deps_before"] = sorted(set(after))
        entry.update(fields)
        self.entries.append(entry)
        return entry["id"]

    def move(self, opcode, role, addr, spm, count, qbits, after=(), **fields):
        """Adds a transfer; `spm` is (bank, offset), like `at`, `a` and others below."""
        return self.add(opcode, after, tensor_role=role, qbits=qbits, dram_addr=addr, spm_bank=spm[0],
                        spm_offset=spm[1], num_elements=count, **fields)

    def load(self, role, addr, spm, count, qbits, after=(), **fields):
        return self.move("DMA_LOAD_TILE", role, addr, spm, count, qbits, after, **fields)

    def prefetch(self, role, addr, spm, count, qbits, after=(), **fields):
        return self.move("DMA_PREFETCH_TILE", role, addr, spm, count, qbits, after, **fields)

    def store(self, role, addr, spm, count, qbits, after=(), **fields):
        return self.move("DMA_STORE_TILE", role, addr, spm, count, qbits, after, **fields)

    def tensor(self, opcode, engine, a, b, out, after=(), **fields):
        return self.add(opcode, after, te_id=engine, ifm_bank=a[0], ifm_offset=a[1], wgt_bank=b[0], wgt_offset=b[1],
                        ofm_bank=out[0],
                        ofm_offset=out[1], **fields)

    def vector(self, opcode, engine, x, out, length, qbits, after=(), second=None, **fields):
        if second:
            fields = dict({"in2_bank": second[0], "in2_offset": second[1]}, **fields)
        return self.add(opcode, after, ve_id=engine, in_bank=x[0], in_offset=x[1], out_bank=out[0], out_offset=out[1],
                        length=length,
                        qbits_activation=qbits, **fields)

    def text(self):
        """Prints one metadata value, list item or entry per line."""
        lines = []
        for key, value in self.metadata.items():
            if isinstance(value, list):
                lines.append('    "%s": [\n%s\n    ]' % (key, ",\n".join("      " + json.dumps(v) for v in value)))
            else:
                lines.append('    "%s": %s' % (key, json.dumps(value)))
        entries = ",\n".join("    " + json.dumps(e) for e in self.entries +
                             [{"opcode": "END", "id": len(self.entries)}])
        return '{\n  "metadata": {\n%s\n  },\n  "cmdq": [\n%s\n  ]\n}\n' % (",\n".join(lines), entries)


# ---- The inputs of the examples
# -----------------------------------------------------------------------------------------


def wave(count, a, b, modulus, low):
    """`count` integers from `low` on that look like data."""
    return [(a * i + b) % modulus + low for i in range(count)]


FFN_TOKENS, FFN_D, FFN_H, FFN_GROUP = 2, 8, 16, 4
FFN_X = [v / 8 for v in wave(FFN_TOKENS * FFN_D, 7, 3, 23, -11)]
FFN_GAMMA = [1 + v / 16 for v in range(FFN_D)]
FFN_GATE = wave(FFN_H * FFN_D, 5, 2, 16, -8)
FFN_GATE_SCALES = [(1 + v % 5) / 64 for v in range(FFN_H * FFN_D // FFN_GROUP)]
FFN_UP = wave(FFN_H * FFN_D, 11, 7, 16, -8)
FFN_UP_SCALES = [(1 + v % 3) / 64 for v in range(FFN_H * FFN_D // FFN_GROUP)]
FFN_DOWN = wave(FFN_D * FFN_H, 37, 11, 255, -127)
FFN_DOWN_SCALES = [(2 + v % 7) / 1024 for v in range(FFN_D * FFN_H // (2 * FFN_GROUP))]
FFN_NORM_SCALE, FFN_ACT_SCALE = 1 / 32, 1 / 64

ATT_HEADS, ATT_QUERIES, ATT_KEYS, ATT_VALID, ATT_D = 2, 2, 8, 6, 8
ATT_Q = wave(ATT_HEADS * ATT_QUERIES * ATT_D, 29, 5, 127, -63)
ATT_K = wave(ATT_HEADS * ATT_KEYS * ATT_D, 41, 17, 127, -63)
ATT_V = wave(ATT_HEADS * ATT_KEYS * ATT_D, 53, 23, 255, -127)
ATT_SCALE, ATT_TEMPERATURE = 1 / 32, 2.8284271247461903      # the square root of ATT_D

KV_HEADS, KV_STEPS, KV_T_MAX, KV_D = 2, 3, 8, 8
KV_K = wave(KV_STEPS * KV_HEADS * KV_D, 19, 4, 61, -30)
KV_Q = wave(KV_STEPS * KV_D, 23, 9, 61, -30)

STRIDED_IMAGE_W, STRIDED_IMAGE_H, STRIDED_W, STRIDED_H, STRIDED_TOP, STRIDED_LEFT = 32, 8, 8, 4, 2, 5
STRIDED_IMAGE = wave(STRIDED_IMAGE_W * STRIDED_IMAGE_H, 1, 0, 256, -128)

TILES, TILE_M, TILE_N, TILE_K = 6, 8, 16, 16
TILE_X = wave(TILE_M * TILE_K, 13, 1, 31, -15)
TILE_W = [wave(TILE_N * TILE_K, 17, 3 * t, 255, -127) for t in range(TILES)]
TILE_SCALE = 64.0

CONV_H, CONV_W, CONV_C, CONV_OUT, CONV_KERNEL, CONV_STRIDE, CONV_PAD = 6, 5, 2, 4, 3, 2, 1
CONV_X = wave(CONV_H * CONV_W * CONV_C, 9, 4, 41, -20)
CONV_WEIGHTS = wave(CONV_OUT * CONV_KERNEL * CONV_KERNEL * CONV_C, 7, 1, 15, -7)
CONV_BIAS = [100.0, -50.0, 0.5, 0.0]
CONV_SCALE = 4.0

SPARSE_ROWS, SPARSE_COLUMNS, SPARSE_DEPTH = 2, 4, 16
SPARSE_X = wave(SPARSE_ROWS * SPARSE_DEPTH, 31, 2, 201, -100)
SPARSE_VALUES = wave(SPARSE_COLUMNS * SPARSE_DEPTH // 2, 43, 8, 255, -127)
# Which two of four values are kept: all six pairs in turn.
SPARSE_PAIRS = [((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))[g % 6]
                for g in range(SPARSE_COLUMNS * SPARSE_DEPTH // 4)]

# ---- The queues
# ---------------------------------------------------------------------------------------------------------


def ffn():
    """y = x + down(silu(gate(h)) * up(h)), h = rmsnorm(x), for two tokens."""
    q, m, d, h = Queue("ffn"), FFN_TOKENS, FFN_D, FFN_H
    x, gamma, gate, gate_s, up, up_s, down, down_s, y = range(0x1000, 0xA000, 0x1000)
    q.data(x, FFN_X, 16)
    q.data(gamma, FFN_GAMMA, 32)
    q.data(gate, FFN_GATE, 4)
    q.data(gate_s, FFN_GATE_SCALES, 32)
    q.data(up, FFN_UP, 4)
    q.data(up_s, FFN_UP_SCALES, 32)
    q.data(down, FFN_DOWN, 8)
    q.data(down_s, FFN_DOWN_SCALES, 32)
    q.output("y", y, m * d, 32)
    lx = q.load("activation", x, (0, 0), m * d, 16)
    lgamma = q.load("weight", gamma, (0, 64), d, 32)
    lgate = q.load("weight", gate, (1, 0), h * d, 4)
    lgate_s = q.load("weight", gate_s, (1, 64), len(FFN_GATE_SCALES), 32)
    lup = q.load("weight", up, (2, 0), h * d, 4)
    lup_s = q.load("weight", up_s, (2, 64), len(FFN_UP_SCALES), 32)
    ldown = q.load("weight", down, (3, 0), d * h, 8)
    ldown_s = q.load("weight", down_s, (3, 128), len(FFN_DOWN_SCALES), 32)
    norm = q.vector("VE_RMSNORM_TILE", 0, (0, 0), (4, 0), d, 16, [lx, lgamma], rows=m, gamma_bank=0, gamma_offset=64,
                    qbits_out=8,
                    scale_out=FFN_NORM_SCALE)
    # The two engines run in parallel.
    g = q.tensor("TE_GEMM_TILE", 0, (4, 0), (1, 0), (5, 0), [norm, lgate, lgate_s], m=m, n=h, k=d, qbits_weight=4,
                 qbits_activation=8,
                 scale_ifm=FFN_NORM_SCALE, wgt_scale_bank=1, wgt_scale_offset=64, wgt_group=FFN_GROUP)
    u = q.tensor("TE_GEMM_TILE", 1, (4, 0), (2, 0), (6, 0), [norm, lup, lup_s], m=m, n=h, k=d, qbits_weight=4,
                 qbits_activation=8,
                 scale_ifm=FFN_NORM_SCALE, wgt_scale_bank=2, wgt_scale_offset=64, wgt_group=FFN_GROUP)
    silu = q.vector("VE_SILU_TILE", 0, (5, 0), (5, 256), m * h, 32, [g])
    mul = q.vector("VE_MUL_TILE", 0, (5, 256), (6, 256), m * h, 32, [silu, u], second=(6, 0), qbits_out=8,
                   scale_out=FFN_ACT_SCALE)
    dn = q.tensor("TE_GEMM_TILE", 0, (6, 256), (3, 0), (7, 0), [mul, ldown, ldown_s], m=m, n=d, k=h, qbits_weight=8,
                  qbits_activation=8,
                  scale_ifm=FFN_ACT_SCALE, wgt_scale_bank=3, wgt_scale_offset=128, wgt_group=2 * FFN_GROUP)
    add = q.vector("VE_ADD_TILE", 0, (7, 0), (7, 256), m * d, 32, [dn, lx], second=(0, 0), qbits_in2=16)
    q.store("activation", y, (7, 256), m * d, 32, [add])
    return q


def attention():
    """Two heads at once: scores, softmax over the valid keys, weighted values."""
    q = Queue("attention")
    rows, keys, d = ATT_QUERIES, ATT_KEYS, ATT_D
    qs, ks, vs, y = range(0x1000, 0x5000, 0x1000)
    q.data(qs, ATT_Q, 8)
    q.data(ks, ATT_K, 8)
    q.data(vs, ATT_V, 8)
    q.output("y", y, ATT_HEADS * rows * d, 32)
    last = []
    for head in range(ATT_HEADS):
        bank = 4 * head
        lq = q.load("activation", qs + head * rows * d, (bank, 0), rows * d, 8)
        lk = q.load("kv", ks + head * keys * d, (bank + 1, 0), keys * d, 8)
        lv = q.load("kv", vs + head * keys * d, (bank + 2, 0), keys * d, 8)
        s = q.tensor("TE_QKT_TILE", head, (bank, 0), (bank + 1, 0), (bank + 3, 0), [lq, lk], m=rows, n=keys, k=d,
                     qbits_weight=8,
                     qbits_activation=8, scale_ifm=ATT_SCALE, scale_wgt=ATT_SCALE, tensor_role="q")
        p = q.vector("VE_SOFTMAX_TILE", head, (bank + 3, 0), (bank + 3, 64), keys, 32, [s], rows=rows,
                     temperature=ATT_TEMPERATURE,
                     valid_length=ATT_VALID, qbits_out=16)
        last.append(q.tensor("TE_AV_TILE", head, (bank + 3, 64), (bank + 2, 0), (bank + 3, 128), [p, lv], m=rows, n=d,
                             k=keys,
                             qbits_weight=8, qbits_activation=16, scale_wgt=ATT_SCALE, tensor_role="v"))
    for head in range(ATT_HEADS):
        q.store("activation", y + 4 * head * rows * d, (4 * head + 3, 128), rows * d, 32, [last[head]])
    return q


def kv():
    """Three tokens: append the keys of both heads, fetch all keys of head 0 so far, score them."""
    k_base, v_base, keys, queries, scores, slice_ = 0x10000, 0x20000, 0x1000, 0x2000, 0x3000, 0x4000
    q = Queue("kv", kv_layouts=[{"id": 0, "k_base": k_base, "v_base": v_base, "t_max": KV_T_MAX, "d_head": KV_D,
                                 "heads": KV_HEADS}])
    q.data(keys, KV_K, 8)
    q.data(queries, KV_Q, 8)
    q.output("scores", scores, sum(range(1, KV_STEPS + 1)), 32)
    q.output("slice", slice_, KV_STEPS * 4, 8)
    lk = q.load("kv", keys, (0, 0), len(KV_K), 8)      # as the projection of all tokens writes them: [token][head][d]
    lq = q.load("activation", queries, (1, 0), len(KV_Q), 8)
    before, at = None, 0
    for t in range(KV_STEPS):
        for head in range(KV_HEADS):
            q.add("KV_STORE_TILE", [lk], head_id=head, kv_kind="k", spm_bank=0, spm_offset=(t * KV_HEADS + head) * KV_D,
                  dram_base_addr=k_base,
                  t_start=t, t_len=1, qbits_kv=8)
        # The fetch overwrites the keys of the previous step.
        fetch = q.add("KV_LOAD_TILE", [before] if before is not None else [], head_id=0, kv_kind="k", spm_bank=2,
                      spm_offset=0,
                      kv_range_desc={"t_start": 0, "t_len": t + 1}, qbits_kv=8, kv_layout_id=0)
        before = q.tensor("TE_QKT_TILE", 0, (1, t * KV_D), (2, 0), (3, 4 * at), [fetch, lq], m=1, n=t + 1, k=KV_D,
                          qbits_weight=8,
                          qbits_activation=8, tensor_role="q")
        at += t + 1
    q.store("activation", scores, (3, 0), at, 32, [before])
    part = q.add("KV_LOAD_TILE", head_id=1, kv_kind="k", spm_bank=4, spm_offset=0,
                 kv_range_desc={"t_start": 0, "t_len": KV_STEPS, "d_start": 2, "d_len": 4}, qbits_kv=8)
    q.store("kv", slice_, (4, 0), KV_STEPS * 4, 8, [part])
    return q


def strided():
    """A window of an image: cut out, negated, and put back elsewhere."""
    q, w, h = Queue("strided"), STRIDED_IMAGE_W, STRIDED_IMAGE_H
    image, window = 0x1000, 0x1000 + STRIDED_TOP * w + STRIDED_LEFT
    to, count = 0x2000, STRIDED_W * STRIDED_H
    q.data(image, STRIDED_IMAGE, 8)
    q.output("packed", to, count, 8)
    q.output("image", image, w * h, 8)
    cut = q.load("activation", window, (0, 0), count, 8, stride_bytes=w, row_elements=STRIDED_W)
    cast = q.vector("VE_CAST_TILE", 0, (0, 0), (1, 0), count, 8, [cut], scale_out=-1.0)
    q.store("activation", to, (1, 0), count, 8, [cast])
    q.store("activation", image, (1, 0), count, 8, stride_bytes=w, row_elements=STRIDED_W)
    return q


def tiles(name, buffers, missing=False):
    """y = x W for six tiles of W, with `buffers` buffers for weights."""
    q = Queue(name)
    x, w, y, weights, results = 0x1000, 0x2000, 0x4000, TILE_N * TILE_K, TILE_M * TILE_N
    q.data(x, TILE_X, 8)
    for t in range(TILES):
        q.data(w + t * weights, TILE_W[t], 8)
    q.output("y", y, TILES * results, 8)
    lx = q.load("activation", x, (0, 0), len(TILE_X), 8)
    loads, gemms = [], []

    def load(t):
        after = [gemms[t - buffers]] if t >= buffers else []      # it reads the buffer that the load overwrites
        bring = q.load if t == 0 or buffers == 1 else q.prefetch
        # Each buffer has its own bank: a load does not conflict with the product that reads the other buffer.
        loads.append(bring("weight", w + t * weights, (1 + t % buffers, 0), weights, 8, after))

    for t in range(TILES):
        while len(loads) < min(t + buffers, TILES):
            load(len(loads))
        out = (3, t * results)
        after = [lx] if missing and t == 3 else [lx, loads[t]]
        gemms.append(q.tensor("TE_GEMM_TILE", 0, (0, 0), (1 + t % buffers, 0), out, after, m=TILE_M, n=TILE_N, k=TILE_K,
                              qbits_weight=8,
                              qbits_activation=8, qbits_ofm=8, scale_ofm=TILE_SCALE))
        q.store("activation", y + t * results, out, results, 8, [gemms[t]])
    return q


def prefetch():
    return tiles("prefetch", 2)


def no_prefetch():
    return tiles("no_prefetch", 1)


def missing_dependency():
    return tiles("missing_dependency", 2, missing=True)


def conv():
    """3 x 3, stride 2, a border of zeros, with bias, to INT8."""
    q = Queue("conv")
    x, w, bias, y = range(0x1000, 0x5000, 0x1000)
    out = ((CONV_H + 2 * CONV_PAD - CONV_KERNEL) // CONV_STRIDE +
           1) * ((CONV_W + 2 * CONV_PAD - CONV_KERNEL) // CONV_STRIDE + 1) * CONV_OUT
    q.data(x, CONV_X, 8)
    q.data(w, CONV_WEIGHTS, 4)
    q.data(bias, CONV_BIAS, 32)
    q.output("y", y, out, 8)
    lx = q.load("activation", x, (0, 0), len(CONV_X), 8)
    lw = q.load("weight", w, (1, 0), len(CONV_WEIGHTS), 4)
    lb = q.load("weight", bias, (1, 256), CONV_OUT, 32)
    c = q.tensor("TE_CONV_TILE", 0, (0, 0), (1, 0), (2, 0), [lx, lw, lb], in_h=CONV_H, in_w=CONV_W, in_c=CONV_C,
                 out_c=CONV_OUT,
                 kernel_h=CONV_KERNEL, kernel_w=CONV_KERNEL, stride_h=CONV_STRIDE, stride_w=CONV_STRIDE, pad_h=CONV_PAD,
                 pad_w=CONV_PAD,
                 qbits_weight=4, qbits_activation=8, bias_bank=1, bias_offset=256, scale_ofm=CONV_SCALE, qbits_ofm=8)
    q.store("activation", y, (2, 0), out, 8, [c])
    return q


def sparse():
    """Weights with 2:4 sparsity: all values, then all 2-bit indices."""
    q = Queue("sparse")
    x, w, y = range(0x1000, 0x4000, 0x1000)
    indices = [i for pair in SPARSE_PAIRS for i in pair]
    q.data(x, SPARSE_X, 8)
    behind = q.data(w, SPARSE_VALUES, 8)
    size = q.data(behind, [i - 4 if i > 1 else i for i in indices], 2) - w      # two bits, any sign
    q.output("y", y, SPARSE_ROWS * SPARSE_COLUMNS, 32)
    lx = q.load("activation", x, (0, 0), len(SPARSE_X), 8)
    lw = q.load("weight", w, (1, 0), size, 8)
    g = q.tensor("TE_SPARSE_GEMM_TILE", 0, (0, 0), (1, 0), (2, 0), [lx, lw], m=SPARSE_ROWS, n=SPARSE_COLUMNS,
                 k=SPARSE_DEPTH, qbits_weight=8,
                 qbits_activation=8, sparse_n=2, sparse_m=4)
    q.store("activation", y, (2, 0), SPARSE_ROWS * SPARSE_COLUMNS, 32, [g])
    return q


QUEUES = (ffn, attention, kv, strided, prefetch, no_prefetch, missing_dependency, conv, sparse)

# ---- The digits
# ---------------------------------------------------------------------------------------------------------

# The INT8 range of the hidden layer is 127 / 28 = 4.5; its maximum over the training images is 4.3.
DIGITS_IMAGES, DIGITS_TILE, DIGITS_HIDDEN_SCALE = 360, 45, 1 / 28


def digits():
    """360 digits in tiles of 45. The files are in the same build directory as the queue, written by digits-train:
    cmdq.x.s8 has the images, cmdq.layer1.bin and cmdq.layer2.bin the weights of a layer, then scales and biases."""
    pixels, hidden, classes = 64, 128, 10
    x, layer1, layer2, logits = 0x10000, 0x20000, 0x30000, 0x40000
    q = Queue("digits", dram_init=[{"addr": x, "file": "cmdq.x.s8"}, {"addr": layer1, "file": "cmdq.layer1.bin"},
                                   {"addr": layer2, "file": "cmdq.layer2.bin"}])
    q.output("logits", logits, DIGITS_IMAGES * classes, 32)
    w1, w2 = hidden * pixels, classes * hidden

    def layer(addr, bank, weights, outputs):
        """Loads the weights, then the scales and biases."""
        return [q.load("weight", addr, (bank, 0), weights, 8), q.load("weight", addr + weights, (bank, weights), 2 * outputs, 32)]

    l1 = layer(layer1, 0, w1, hidden)
    n, loads = DIGITS_TILE, []
    count = DIGITS_IMAGES // n
    for t in range(count):
        # All images fit. Three banks alternate, so a load does not conflict with the product that reads an earlier
        # tile.
        loads.append(q.prefetch("activation", x + t * n * pixels, (1 + t % 3, t * n * pixels), n * pixels, 8))
        if t == 0:
            l2 = layer(layer2, 7, w2, classes)
    gelus, seconds = [], []
    for t in range(count):
        z, h, y = (4 + t % 2, 0), (4 + t % 2, 65536), (6, t * n * classes * 4)
        # Reuses the buffers of tile t - 2.
        first = q.tensor("TE_GEMM_TILE", 0, (1 + t % 3, t * n * pixels), (0, 0), z,
                         l1 + [loads[t]] + gelus[t - 2:t - 1] * (t > 1), m=n, n=hidden,
                         k=pixels, qbits_weight=8, qbits_activation=8, scale_ifm=1 / 16, wgt_scale_bank=0,
                         wgt_scale_offset=w1, bias_bank=0,
                         bias_offset=w1 + 4 * hidden)
        gelus.append(q.vector("VE_GELU_TILE", t % 2, z, h, n * hidden, 32, [first] + seconds[t - 2:t - 1] * (t > 1),
                              qbits_out=8,
                              scale_out=DIGITS_HIDDEN_SCALE))
        seconds.append(q.tensor("TE_GEMM_TILE", 1, h, (7, 0), y, [gelus[t]] + l2, m=n, n=classes, k=hidden,
                                qbits_weight=8, qbits_activation=8,
                                scale_ifm=DIGITS_HIDDEN_SCALE, wgt_scale_bank=7, wgt_scale_offset=w2, bias_bank=7,
                                bias_offset=w2 + 4 * classes))
        q.store("activation", logits + t * n * classes * 4, y, n * classes, 32, [seconds[t]])
    return q


if __name__ == "__main__":
    sys.path.insert(0, os.path.join(HERE, ".."))
    from written import write_all
    made = [(os.path.join(HERE, queue.__name__ + ".json"), queue)
            for queue in QUEUES] + [(os.path.join(HERE, "..", "digits", "cmdq.json"), digits)]
    sys.exit(write_all(__file__, [(path, queue().text()) for path, queue in made]))
