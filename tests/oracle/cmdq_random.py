# SPDX-License-Identifier: Apache-2.0
"""Seeded generator of random valid CMDQ queues for testing a simulator.

gen(seed, kind) returns the document (as for json.dump) and the parameters (as
for -D).  The kinds: `data`, every opcode and type with all dependencies that
the bytes ask for; `timing`, many small entries; `hazard`, with some of the
dependencies missing.  Everything a queue needs is in the document.
"""

import random
import struct

from cmdq_oracle import (DEFAULTS, Bad, Machine, clash, closure, data_order,
                         encode, f32, load, operands, pack, size, BINARY,
                         ACTIVATIONS, BROADCAST, REDUCE, SPECIAL, UNARY)

KINDS = ("data", "timing", "hazard")
QBITS = (2, 4, 8, 16, 32)
ROLES = ("weight", "activation", "kv", "embedding", "aux")
SPECIALS = (0.0, -0.0, float("inf"), float("-inf"), float("nan"),
            2.0 ** -149, -3 * 2.0 ** -149, 2.0 ** -130, 3.4e38, -3.4e38, 1e20,
            65504.0, 65520.0, 2.0 ** -24, 2.0 ** -25, 2.0 ** 127, 0.5, -1.5)
ADDED = ("RMSNORM", "ROPE", "SILU", "ADD", "MUL", "CAST")
ADDED_LATER = ("UNARY", "BINARY", "REDUCE", "TRANSPOSE")


class TooLarge(Exception):
    """A tile has more bytes than a bank."""


class Maker:
    def __init__(self, seed, kind):
        self.r = random.Random("%s %s" % (kind, seed))
        self.kind = kind
        self.entries = []
        self.spm_init, self.dram_init, self.layouts = [], [], []
        self.kv_ranges = []
        self.used = []                  # (space, first, end, qbits, elements)
        self.groups = []                # (name, position)
        self.added = self.added_later = False
        self.has_layouts = not self.chance(0.3)
        self.make_params()

    def chance(self, p):
        return self.r.random() < p

    # -- parameters

    def make_params(self):
        r = self.r
        p = {"npu.te": r.randint(1, 3), "npu.ve": r.randint(1, 3),
             "dma.count": r.randint(1, 3),
            "dma.kv_channels": r.choice((0, 0, 1))}
        p["spm.banks"] = r.choice((1, 2, 3, 8))
        p["spm.bank_bytes"] = r.choice((8192, 20000, 65536, 262144))
        pool = {
            "dma.bus_width_bytes": (1, 4, 8, 16, 32, 48, 64),
            "dma.dram_burst_cycles": (1, 2, 3),
            "dma.peak_bw": (1, 3, 10, 16, 64, 100),
            "dma.alignment": (1, 4, 32, 64),
            "dma.spm_conflict_cycles": (0, 1, 3, 4, 7),
            "dma.weight_weight": (1, 2, 3), "dma.weight_activation": (1, 2, 5),
            "dma.weight_kv": (1, 3), "dma.weight_embedding": (1, 4, 7), "dma.weight_aux": (1, 2),
            "te.macs_per_cycle_base": (1, 7, 64, 100, 4096, 8192),
            "te.init": (0, 1, 8), "te.finalize": (0, 2, 4),
            "te.weight4": (1, "1.5", "1.25"), "te.weight2": (2, 3, "2.5"),
            "te.activation4": ("1.1", "1.2", 1),
            "te.float16": ("0.5", "0.75"), "te.float32": ("0.25", "0.3"),
            "ve.lanes": (1, 3, 8, 16, 64), "ve.ops_per_lane_factor": (1, 2),
            "ve.init": (0, 3, 8), "ve.finalize": (0, 4, 5),
            "ve.reduction_pipeline": (0, 5, 8), "ve.sfu": (0, 9, 16),
            "ve.activation8": ("1.1", "1.25"),
            "ve.activation4": ("1.2", "1.5"),
        }
        share = {"data": 0.15, "hazard": 0.05, "timing": 0.5}[self.kind]
        for key, values in pool.items():
            if self.chance(share):
                p[key] = r.choice(values)
        if self.kind == "timing" and self.chance(0.3):
            for key in ("npu.te", "npu.ve", "dma.count"):
                p[key] = 3
        self.params = p
        for key in p:
            assert key in DEFAULTS

    def param(self, key):
        return self.params.get(key, DEFAULTS[key])

    # -- data

    def real(self, wild=0.0):
        r = self.r
        if self.chance(wild):
            return f32(r.choice(SPECIALS))
        if self.chance(0.02):
            return float(r.randint(-9, 9)) / 2
        return f32(r.gauss(0, 1) * 2.0 ** r.randint(-3, 3))

    def content(self, qbits, n):
        """Bytes of n elements."""
        r = self.r
        style = r.random()
        if qbits < 16:
            if style < 0.03:
                return bytes(size(n, qbits))
            return r.randbytes(size(n, qbits))
        if style < 0.06:
            return r.randbytes(size(n, qbits))
        wild = 0.05 if style < 0.2 else 0.0
        if style > 0.97:                # signed zeros
            pool = r.choice(((-0.0,), (0.0, -0.0), (0.0,), (-1.0, 2.0)))
            return pack([encode(r.choice(pool), qbits) for _ in range(n)],
                        qbits)
        if 0.8 < style < 0.86:          # halves: ties of integers
            return pack([encode(r.randint(-40, 40) / 2, qbits)
                         for _ in range(n)], qbits)
        if style > 0.93:                # few values: ties, equal elements
            pool = [self.real() for _ in range(3)]
            return pack([encode(r.choice(pool), qbits) for _ in range(n)],
                        qbits)
        return pack([encode(self.real(wild), qbits) for _ in range(n)], qbits)

    def scales(self, n):
        r = self.r
        vals = [f32(r.uniform(0.001, 2)) for _ in range(n)]
        if self.chance(0.1):
            vals[r.randrange(n)] = self.real(0.5)
        return struct.pack("<%df" % n, *vals)

    def overlaps(self, space, lo, hi):
        return any(s == space and lo < b and a < hi
                   for s, a, b, _, _ in self.used)

    def note(self, space, lo, hi, qbits, n):
        self.used.append((space, lo, hi, qbits, n))

    def fresh(self, count):
        """A bank and an offset that nothing used yet, when there is one."""
        r = self.r
        banks, limit = self.param("spm.banks"), self.param("spm.bank_bytes")
        if count > limit:
            raise TooLarge
        for _ in range(20):
            bank = r.randrange(banks)
            at = r.randrange(limit - count + 1)
            if self.chance(0.5):
                at = min(at & ~3, limit - count)
            if self.chance(0.03):
                at = limit - count      # up to the bank's last byte
            if not self.overlaps(bank, at, at + count):
                break
        return bank, at

    def old(self, count, qbits):
        """A place used before that holds count bytes, or None."""
        r = self.r
        where = [u for u in self.used if isinstance(u[0], int) and u[2] - u[1]
                 >= count]
        same = [u for u in where if u[3] == qbits]
        if not where:
            return None
        u = r.choice(same if same and self.chance(0.8) else where)
        at = u[1]
        if self.chance(0.2):
            at = r.randint(u[1], u[2] - count)
        return u[0], at

    def source(self, qbits, n, data=None):
        """Where n elements are to be read."""
        count = size(n, qbits)
        reuse = {"data": 0.4, "hazard": 0.5, "timing": 0.6}[self.kind]
        if data is None and self.chance(reuse):
            found = self.old(count, qbits)
            if found:
                return found
        bank, at = self.fresh(count)
        if not self.overlaps(bank, at, at + count) and not self.chance(0.03):
            if data is None:
                data = self.content(qbits, n)
            self.init_spm(bank, at, data)
        self.note(bank, at, at + count, qbits, n)
        return bank, at

    def target(self, qbits, n):
        """Where n elements are to be written."""
        count = size(n, qbits)
        if self.chance(0.25 if self.kind != "hazard" else 0.5):
            found = self.old(count, qbits)
            if found:
                return found
        bank, at = self.fresh(count)
        if self.chance(0.2) and not self.overlaps(bank, at, at + count):
            self.init_spm(bank, at, self.content(qbits, n))
        self.note(bank, at, at + count, qbits, n)
        return bank, at

    def init_spm(self, bank, at, data):
        self.spm_init.append(self.item({"bank": bank, "offset": at}, data))

    def item(self, where, data):
        if not any(data) and data:
            where["zero"] = True
            where["bytes"] = len(data)
        else:
            text = data.hex()
            where["hex"] = text.upper() if self.chance(0.2) else text
            if self.chance(0.3):
                where["bytes"] = len(data)
        return where

    # -- entries

    def engine(self, kind):
        return self.r.randrange(self.param(kind))

    def dma(self):
        r = self.r
        op = r.choice(("LOAD", "LOAD", "STORE", "PREFETCH"))
        q = r.choice(QBITS)
        top = 70 if self.kind == "data" else 600
        n = r.randint(1, top)
        e = {"opcode": "DMA_%s_TILE" % op, "tensor_role": r.choice(ROLES),
             "qbits": q}
        if self.chance(0.1):
            e["direction"] = "write" if op == "STORE" else "read"
            e["stride_bytes"] = None
        span = size(n, q)
        if self.chance(0.3):
            row = r.randint(1, 12)
            if row * q % 8:
                row *= 8 // q
            rows = r.randint(1, 6)
            n = row * rows
            stride = row * q // 8 + r.choice((0, 0, 1, 5, 32, 100, 4096))
            e["stride_bytes"] = stride
            e["row_elements"] = row
            span = stride * (rows - 1) + row * q // 8
        elif self.chance(0.1):
            e["stride_bytes"] = 0
        e["num_elements"] = n
        seen = [u for u in self.used if u[0] == "dram"
                and u[2] - u[1] >= span]
        if seen and self.chance(0.5):
            at = r.choice(seen)[1]
        else:
            at = self.address(span)
            if not self.overlaps("dram", at, at + span):
                if op != "STORE" or self.chance(0.2):
                    self.dram_init.append(self.item(
                        {"addr": at}, self.content(q, n)
                        if span == size(n, q) else r.randbytes(span)))
            self.note("dram", at, at + span, q, n)
        e["dram_addr"] = at
        e["spm_bank"], e["spm_offset"] = (self.source(q, n) if op == "STORE"
                                          else self.target(q, n))
        return e

    def address(self, span):
        r = self.r
        top = (16 << 30) - span
        at = r.choice((r.randrange(1 << 14), r.randrange(1 << 20),
                       r.randint(0, top)))
        if self.chance(0.05):
            at = top
        return min(at & ~31 if self.chance(0.4) else at, top)

    def kv_room(self, span):
        """Bytes behind the base of a cache. Without layouts its size follows
        from all KV entries: at most 3 heads, 10 tokens and 16 elements."""
        return span if self.has_layouts else 3 * 10 * 16 * 4

    def kv(self):
        r = self.r
        if len(self.layouts) < 2 and self.chance(0.6) or not self.layouts:
            heads, t_max, d = (r.randint(1, 3), r.randint(1, 10),
                               r.choice((4, 8, 16, 16, 3, 5, 12)))
            span = heads * t_max * d * 4
            room = self.kv_room(span)
            one = {"id": len(self.layouts) + r.choice((0, 10)),
                   "t_max": t_max, "d_head": d, "heads": heads,
                   "k_base": self.address(room), "v_base": self.address(room)}
            if one["id"] not in [x["id"] for x in self.layouts]:
                self.layouts.append(one)
                for name in ("k_base", "v_base"):
                    self.dram_init.append(self.item({"addr": one[name]},
                                                    r.randbytes(span // 2)))
                    self.note("dram", one[name], one[name] + span, 8, span)
        lay = r.choice(self.layouts)
        t_start = r.randrange(lay["t_max"])
        t_len = r.randint(1, lay["t_max"] - t_start)
        d = lay["d_head"]
        q = r.choice([q for q in QBITS if d * q % 8 == 0])
        unit = max(1, 8 // q)
        rng = {"t_start": t_start, "t_len": t_len}
        d_len = d
        if self.chance(0.5):
            rng["d_start"] = r.randrange(0, d, unit)
            d_len = r.randrange(unit, d - rng["d_start"] + 1, unit)
            rng["d_len"] = d_len
        n = t_len * d_len
        e = {"head_id": r.randrange(lay["heads"]),
             "kv_kind": r.choice(("k", "v")), "qbits_kv": q,
             "kv_layout_id": lay["id"]}
        base = lay[e["kv_kind"] + "_base"]
        if self.chance(0.5):
            e.update(opcode="KV_STORE_TILE", dram_base_addr=base, **rng)
            e["spm_bank"], e["spm_offset"] = self.source(q, n)
        else:
            if self.chance(0.3):
                name = "r%d" % len(self.kv_ranges)
                self.kv_ranges.append(dict(rng, name=name))
                rng = name
            e.update(opcode="KV_LOAD_TILE", kv_range_desc=rng)
            e["spm_bank"], e["spm_offset"] = self.target(q, n)
        if self.chance(0.2):
            e["dram_base_addr"] = self.address(self.kv_room(
                lay["heads"] * lay["t_max"] * d * 4))
        if not self.has_layouts:
            del e["kv_layout_id"]
            if self.chance(0.8):
                e.setdefault("dram_base_addr", base)
        return e

    def scale(self, e, name, wide=False):
        r = self.r
        if self.chance(0.4):
            e[name] = r.choice((1, 1.0, 0.5, 2, 0.1, 0.037, 1.7e-3,
                                r.uniform(0.01, 4),
                                r.uniform(1, 300) if wide else 0.25))

    def te(self):
        r = self.r
        op = r.choice(("GEMM", "GEMM", "GEMM", "QKT", "AV", "CONV",
                       "SPARSE_GEMM"))
        qa, qw = r.choice(QBITS), r.choice(QBITS)
        e = {"opcode": "TE_%s_TILE" % op, "te_id": self.engine("npu.te"),
             "qbits_activation": qa, "qbits_weight": qw}
        small = self.kind != "data"
        m, n = r.randint(1, 3 if small else 9), r.randint(1, 3 if small else 9)
        k = r.randint(1, 12 if small else 70)
        if not small and self.chance(0.08):
            m, n, k = r.randint(1, 2), r.randint(1, 40), r.randint(1, 40)
            if self.chance(0.6):
                n, k = r.randint(1, 3), r.randint(70, 700)
        unit = 1
        if op in ("QKT", "AV") or self.chance(0.2):
            e["tensor_role"] = r.choice(("q", "k", "v") + ROLES)
        if self.chance(0.1):
            e["op_mode"] = r.choice(("projection", "attention_score",
                                     "attention_value", "ffn"))
        weights = None
        if op == "CONV":
            while True:
                f = {"in_h": r.randint(1, 5), "in_w": r.randint(1, 5),
                     "in_c": r.randint(1, 4), "out_c": r.randint(1, 4),
                     "kernel_h": r.randint(1, 3), "kernel_w": r.randint(1, 3),
                     "stride_h": r.randint(1, 3), "stride_w": r.randint(1, 3),
                     "pad_h": r.randint(0, 2), "pad_w": r.randint(0, 2),
                     "dil_h": r.randint(1, 2), "dil_w": r.randint(1, 2)}
                if self.chance(0.3):
                    f["pad_bottom"] = r.randint(0, 2)
                if self.chance(0.3):
                    f["pad_right"] = r.randint(0, 2)
                if self.chance(0.4):
                    f["groups"] = r.choice((1, 2, 3, f["in_c"]))
                    f["in_c"] = f["groups"] * r.choice((1, 1, 2))
                    f["out_c"] = f["groups"] * r.choice((1, 2))
                h = (f["in_h"] + f["pad_h"] + f.get("pad_bottom", f["pad_h"])
                     - f["dil_h"] * (f["kernel_h"] - 1) - 1)
                w = (f["in_w"] + f["pad_w"] + f.get("pad_right", f["pad_w"])
                     - f["dil_w"] * (f["kernel_w"] - 1) - 1)
                if h >= 0 and w >= 0:
                    break
            e.update(f)
            m = (h // f["stride_h"] + 1) * (w // f["stride_w"] + 1)
            n = f["out_c"]
            k = f["kernel_h"] * f["kernel_w"] * (f["in_c"]
                                                 // f.get("groups", 1))
            ifm = f["in_h"] * f["in_w"] * f["in_c"]
        elif op == "SPARSE_GEMM":
            unit = r.choice((1, 2, 4, 4, 8, 3, 5, 16))
            keep = r.randint(1, unit)
            k = max(1, k // unit) * unit
            e.update(sparse_n=keep, sparse_m=unit, m=m, n=n, k=k)
            ifm = m * k
            kept = n * k // unit * keep
            index = []
            for _ in range(n * k // unit):
                if self.chance(0.9):
                    index += sorted(r.sample(range(unit), keep))
                else:
                    index += [r.randrange(unit) for _ in range(keep)]
            weights = self.content(qw, kept)
            tail = -kept * qw % 8
            if tail and self.chance(0.5):
                weights = weights[:-1] + bytes([weights[-1] & 255 >> tail])
            weights += pack(index, (unit - 1).bit_length()) if unit > 1 else b""
        else:
            e.update(m=m, n=n, k=k)
            ifm = m * k
        groups = 1
        if self.chance(0.3):
            sizes = [g for g in range(unit, k + 1, unit) if k % g == 0]
            e["wgt_group"] = r.choice(sizes)
            groups = k // e["wgt_group"]
        if "wgt_group" in e or self.chance(0.3):
            e["wgt_scale_bank"], e["wgt_scale_offset"] = self.source(
                32, n * groups, self.scales(n * groups))
        else:
            self.scale(e, "scale_wgt")
        if self.chance(0.3):
            e["bias_bank"], e["bias_offset"] = self.source(32, n)
        self.scale(e, "scale_ifm")
        if self.chance(0.03):
            e["scale_ifm"] = -0.75
        self.scale(e, "scale_ofm", True)
        qo = r.choice(QBITS)
        if qo != 32 or self.chance(0.3):
            e["qbits_ofm"] = qo
        if qo < 16 and self.chance(0.5):
            e["scale_ofm"] = r.uniform(1, 40) * (4 if qa < 16 > qw else 1)
        if self.chance(0.3):
            e["accumulate"] = self.chance(0.9)
        if self.chance(0.4):
            e["activation"] = r.choice(["none", "clip"] + list(ACTIVATIONS))
            if e["activation"] == "clip":
                e[r.choice(("clip_min", "clip_max"))] = r.uniform(-2, 2)
        if op in ("GEMM", "QKT") and self.chance(0.15):
            e["soft_cap"] = r.choice((30, 0.5, 50.0))
        if op in ("GEMM", "CONV") and self.chance(0.3):
            qr = r.choice(QBITS)
            if qr != 32 or self.chance(0.5):
                e["qbits_residual"] = qr
            self.scale(e, "scale_residual")
            e["residual_bank"], e["residual_offset"] = self.source(qr, m * n)
        e["ifm_bank"], e["ifm_offset"] = self.source(qa, ifm)
        if weights is None:
            e["wgt_bank"], e["wgt_offset"] = self.source(qw, n * k)
        else:
            count = len(weights)
            bank, at = self.fresh(count)
            if self.overlaps(bank, at, at + count):
                return None
            self.init_spm(bank, at, weights)
            # Kept from all others, whose writes would make bad indices.
            self.note("kept %d" % bank, at, at + count, 8, count)
            self.note(bank, at, at + count, -1, count)
            e["wgt_bank"], e["wgt_offset"] = bank, at
        e["ofm_bank"], e["ofm_offset"] = self.target(qo, m * n)
        return e

    def ve(self):
        r = self.r
        op = r.choice(("LAYERNORM", "RMSNORM", "SOFTMAX", "GELU", "SILU",
                       "ROPE", "ADD", "MUL", "CAST", "UNARY", "UNARY",
                       "BINARY", "REDUCE", "TRANSPOSE", "image"))
        if op == "image":
            return self.image()
        function = r.choice({"UNARY": UNARY, "BINARY": BINARY,
                             "REDUCE": REDUCE}.get(op, (None,)))
        slow = (op in ("SOFTMAX", "GELU", "SILU", "ROPE") or function == "pow"
                or op == "UNARY" and function in SPECIAL)
        if self.kind != "data" and slow and self.chance(0.6):
            op, function = r.choice(("ADD", "CAST", "MUL", "RMSNORM")), None
        small = self.kind != "data"
        n = r.randint(1, 12 if small else 70)
        if not small and not slow and self.chance(0.1):
            n = r.randint(70, 500)
        rows = r.choice((1, 1, 1, 2, 3))
        q = r.choice(QBITS + (32, 16, 32))
        qo = r.choice((q, q, r.choice(QBITS)))
        e = {"opcode": "VE_%s_TILE" % op, "ve_id": self.engine("npu.ve"),
             "qbits_activation": q}
        self.added |= op in ADDED
        self.added_later |= op in ADDED_LATER
        if function:
            e["function"] = function
        if function in ("leaky_relu", "hardsigmoid") and self.chance(0.6):
            e["alpha"] = r.choice((0.2, -0.5, 0, 0.01, 1.5))
        if function == "hardsigmoid" and self.chance(0.5):
            e["beta"] = r.choice((0, 0.5, 0.25))
        if function == "clip":
            limits = sorted((r.uniform(-3, 3), r.uniform(-3, 3)))
            which = r.choice((("clip_min",), ("clip_max",),
                              ("clip_min", "clip_max")))
            e.update(zip(which, limits))
        if op == "ROPE":
            e["head_dim"] = r.choice((2, 4, 6, 8, 16))
            n = e["head_dim"] * r.randint(1, 2 if small else 4)
            e["position"] = r.choice((0, 1, r.randrange(100),
                                      r.randrange(5000)))
            if self.chance(0.4):
                e["theta"] = r.choice((10000, 500000, 100.0, 1e6, 37.5))
            if self.chance(0.6):
                e["pairing"] = r.choice(("adjacent", "half"))
            rotary = e["head_dim"]
            if self.chance(0.3):
                rotary = e["rotary_dim"] = r.randrange(2, rotary + 1, 2)
            if self.chance(0.2):
                e["frequency_scale"] = r.choice((0.25, 0.5, 8, 1))
            if self.chance(0.3):
                data = [encode(r.uniform(0.5, 40), 32)
                        for _ in range(rotary // 2)]
                e["factors_bank"], e["factors_offset"] = self.source(
                    32, rotary // 2, pack(data, 32))
        if op == "SOFTMAX":
            if self.chance(0.4):
                e["valid_length"] = r.randint(0, n)
                if self.chance(0.5):
                    e["valid_step"] = r.randint(0, 3)
                    if self.chance(0.5):
                        e["valid_rows"] = r.randint(1, 3)
            if self.chance(0.2):
                e["window"] = r.randint(1, n + 2)
            if self.chance(0.4):
                e["temperature"] = r.choice((1, 0.5, 2, 0.7, 8.0))
            if r.random() < 0.3:
                e["approximation"] = r.choice(("exact", "no_max"))
        if op == "GELU" and self.chance(0.7):
            e["approximation"] = r.choice(("erf", "tanh"))
        if op in ("LAYERNORM", "RMSNORM"):
            if self.chance(0.4):
                e["eps"] = r.choice((1e-5, 1e-6, 1, 0.001))
            if self.chance(0.5):
                e["gamma_bank"], e["gamma_offset"] = self.source(32, n)
        if op == "LAYERNORM" and self.chance(0.5):
            e["beta_bank"], e["beta_offset"] = self.source(32, n)
        e["length"] = n
        if rows > 1 or self.chance(0.2):
            e["rows"] = rows
        if function == "argmax":
            qo = 32
        elif qo != q or self.chance(0.2):
            e["qbits_out"] = qo
        self.scale(e, "scale_in")
        if function != "argmax":
            self.scale(e, "scale_out", True)
            if qo < 16 and self.chance(0.4):
                e["scale_out"] = 1 / 100
        e["in_bank"], e["in_offset"] = self.source(q, n * rows)
        if op in ("ADD", "MUL", "BINARY"):
            q2, n2 = q, n * rows
            if self.chance(0.5):
                e["broadcast"] = r.choice(BROADCAST)
                n2 = {"none": n * rows, "row": n, "column": rows,
                      "scalar": 1}[e["broadcast"]]
            if self.chance(0.5):
                q2 = e["qbits_in2"] = r.choice(QBITS)
            self.scale(e, "scale_in2")
            e["in2_bank"], e["in2_offset"] = self.source(q2, n2)
        results = rows if op == "REDUCE" else n * rows
        if qo == q and op not in ("REDUCE", "TRANSPOSE") and self.chance(0.2):
            e["out_bank"], e["out_offset"] = e["in_bank"], e["in_offset"]
            return e
        # Apart from being in place, outputs do not meet inputs.
        for _ in range(5):
            e["out_bank"], e["out_offset"] = self.target(qo, results)
            if not self.self_overlap(e):
                return e
        return None

    def image(self):
        """An operation on an image."""
        r = self.r
        self.added_later = True
        q = r.choice(QBITS + (32, 16, 32))
        f = {"ve_id": self.engine("npu.ve"), "qbits_activation": q,
             "in_h": r.randint(1, 6), "in_w": r.randint(1, 6),
             "in_c": r.randint(1, 4)}
        if self.chance(0.5):
            f.update(opcode="VE_POOL_TILE", kernel_h=r.randint(1, 4),
                     kernel_w=r.randint(1, 4), function=r.choice(("max",
                                                                  "avg")))
            for name, top in (("stride_h", 3), ("stride_w", 3), ("dil_h", 2),
                              ("dil_w", 2)):
                if self.chance(0.5):
                    f[name] = r.randint(1, top)
            for name in ("pad_h", "pad_w", "pad_bottom", "pad_right"):
                if self.chance(0.4):
                    f[name] = r.randint(0, 3)
            if f["function"] == "avg" and self.chance(0.5):
                f["count_include_pad"] = self.chance(0.8)
        else:
            f.update(opcode="VE_RESIZE_TILE", out_h=r.randint(1, 9),
                     out_w=r.randint(1, 9),
                     mode=r.choice(("nearest", "linear")))
            if self.chance(0.7):
                f["coordinate_mode"] = r.choice(("half_pixel", "asymmetric",
                                                 "align_corners"))
            if f["mode"] == "nearest" and self.chance(0.7):
                f["nearest_mode"] = r.choice((
                    "floor", "ceil", "round_prefer_floor",
                    "round_prefer_ceil"))
        qo = r.choice((q, q, r.choice(QBITS)))
        if qo != q or self.chance(0.2):
            f["qbits_out"] = qo
        self.scale(f, "scale_in")
        self.scale(f, "scale_out", True)
        f.update(in_bank=0, in_offset=0, out_bank=0, out_offset=0)
        try:
            doc = {"cmdq": [dict(f), {"opcode": "END"}]}
            results = load(doc).entries[0].results
        except Bad:                     # the kernel does not fit
            return None
        f["in_bank"], f["in_offset"] = self.source(
            q, f["in_h"] * f["in_w"] * f["in_c"])
        for _ in range(5):
            f["out_bank"], f["out_offset"] = self.target(qo, results)
            if not self.self_overlap(f):
                return f
        return None

    def self_overlap(self, e):
        doc = {"metadata": {"version": "1.2"},
               "cmdq": [{k: v for k, v in e.items()}, {"opcode": "END"}]}
        ops = operands(load(doc).entries[0])
        return clash([o for o in ops if o.writes],
                     [o for o in ops if not o.writes])

    def sync(self):
        r = self.r
        here = len(self.entries)

        def some(top):
            return sorted(r.sample(range(here), min(here, r.randint(0, top))),
                          key=lambda _: r.random())
        what = r.random()
        if what < 0.35:
            return {"opcode": "BARRIER", "wait_for": some(3)}
        if what < 0.75:
            name = "group %d" % len(self.groups)
            self.groups.append((name, here))
            return {"opcode": "SYNC_GROUP", "name": name, "group": some(3)}
        return {"opcode": "NOP"}

    # -- the queue

    def broken(self):
        """Whether an entry writes to kept sparse weights, or the layouts
        that are derived from the entries are not defined."""
        try:
            entries = load(self.document(False)).entries
        except Bad:
            if self.has_layouts:
                raise
            return True
        for e in entries:
            for o in operands(e):
                if o.writes and o.space != "dram":
                    for lo, hi in o.ranges:
                        if self.overlaps("kept %d" % o.space, lo, hi):
                            return True
        return False

    def document(self, end=True):
        meta = {"version": "1.3" if self.added_later or not end else
                "1.2" if self.added else
                self.r.choice(("1.0", "1.1", "1.2"))}
        if self.layouts and self.has_layouts:
            meta["kv_layouts"] = self.layouts
        if self.kv_ranges:
            meta["kv_ranges"] = self.kv_ranges
        if end and self.chance(0.5):
            meta["graph_name"] = "random %s" % self.kind
        if self.spm_init:
            meta["spm_init"] = self.spm_init
        if self.dram_init:
            meta["dram_init"] = self.dram_init
        return {"metadata": meta, "cmdq": self.entries + [{"opcode": "END"}]}

    def full(self):
        return dict(DEFAULTS, **Machine(self.params).params)

    def depend(self, first, then):
        """`then` waits for `first`, said in one of the two ways."""
        if self.chance(0.25):
            self.entries[first].setdefault("deps_after", []).append(then)
        else:
            self.entries[then].setdefault("deps_before", []).append(first)

    def retract(self, saved):
        for e, (before, after) in zip(self.entries, saved):
            for name, old in (("deps_before", before), ("deps_after", after)):
                e.pop(name, None)
                if old is not None:
                    e[name] = list(old)

    def state(self):
        return [(list(e["deps_before"]) if "deps_before" in e else None,
                 list(e["deps_after"]) if "deps_after" in e else None)
                for e in self.entries]

    def sound(self):
        try:
            data_order(load(self.document(False)), self.full())
        except Bad:
            return False
        return True

    def make(self):
        r = self.r
        count = {"data": r.randint(4, 16), "hazard": r.randint(5, 40),
                 "timing": r.randint(20, 90)}[self.kind]
        mix = {"data": (3, 1, 6, 6, 1), "hazard": (5, 2, 4, 4, 2),
               "timing": (8, 2, 4, 4, 3)}[self.kind]
        while len(self.entries) < count:
            make = r.choices((self.dma, self.kv, self.te, self.ve, self.sync),
                             mix)[0]
            try:
                e = make()
            except TooLarge:
                continue
            if e is None:
                continue
            if e["opcode"].startswith(("DMA", "KV")) and self.chance(0.6):
                e["dma_id"] = self.engine("dma.count")
            earlier = [g for g in self.groups if g[1] < len(self.entries)]
            if earlier and self.chance(0.15):
                e["wait_group"] = r.choice(earlier)[0]
            self.entries.append(e)
            if self.broken():
                self.entries.pop()
                if e["opcode"] == "SYNC_GROUP":
                    self.groups.pop()
        n = len(self.entries)
        # A few dependencies on later entries, also of groups.
        for _ in range(r.choice((0, 0, 1, 2))):
            a, b = sorted(r.sample(range(n), 2))
            saved = self.state()
            self.depend(b, a)
            if not self.sound():
                self.retract(saved)
        for e in self.entries:
            if e["opcode"] == "SYNC_GROUP" and self.chance(0.1):
                e["group"].append(n - 1)
                if e is self.entries[-1] or not self.sound():
                    e["group"].pop()
        # Random dependencies on earlier ones.
        extra = {"data": 0.1, "hazard": 0.15, "timing": 0.5}[self.kind]
        for b in range(1, n):
            if self.chance(extra):
                a = r.randrange(max(0, b - 12), b)
                saved = self.state()
                self.depend(a, b)
                if not self.sound():
                    self.retract(saved)
        self.plant()
        if self.chance(0.6):
            some = self.chance(0.5)
            for i, e in enumerate(self.entries):
                if not some or self.chance(0.5):
                    e["id"] = i
        for e in self.entries:
            if self.chance(0.1):
                e["layer_id"] = "layer_%d" % r.randrange(5)
            if self.chance(0.05):
                e["debug"] = {"note": "a \u00e9 \"quoted\" note", "list": [1]}
            if self.chance(0.03):
                e["reserved_%d" % r.randrange(9)] = r.choice((0, "x", [], {}))
            if self.chance(0.1):
                e.setdefault("deps_before", [])
        return self.document(), self.params

    def plant(self):
        """The dependencies that the bytes ask for."""
        keep = {"data": 1.0, "timing": 0.9,
                "hazard": self.r.choice((0.3, 0.8, 0.95))}[self.kind]
        q = load(self.document(False))
        params = self.full()
        touched = [operands(e) for e in q.entries]
        for b in range(len(self.entries)):
            for a in range(b):
                if not clash(touched[a], touched[b]):
                    continue
                reach = closure(q, params)
                if reach[b] >> a & 1 or reach[a] >> b & 1:
                    continue
                if self.chance(keep):
                    self.depend(a, b)
                    q.entries[b].deps.add(a)


def gen(seed, kind):
    return Maker(seed, kind).make()
