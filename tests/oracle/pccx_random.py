# SPDX-License-Identifier: Apache-2.0
"""Seeded generator of random pccx v002 programs for testing a simulator.

gen(seed) returns the program as assembler text and as words, the descriptors
of the weight streams, the initial host memory and the ranges to compare.  A
shadow machine executes the program while it is made, so that every
instruction is valid, except the last one of a program meant to fault.
"""

import random
import struct

from pccx_oracle import CVO_NAMES, FIFO_TAG, Fault, Machine, cdiv

FMAP, WEIGHT = 0, 1
BANKS = ["fmap_shape", "weight_shape"]


# -- encoder, from section 2 -------------------------------------------------

def put(fields):
    word = 0
    for value, high, low in fields:
        width = high - low + 1
        assert 0 <= value < 1 << width, (value, high, low)
        word |= value << low
    return word


def enc_matmul(op, dest, src, size, shape, lanes=0, findemax=0, accm=0,
               w_scale=0):
    return put([(op, 63, 60), (dest, 59, 43), (src, 42, 26),
                (findemax, 25, 25), (accm, 24, 24), (w_scale, 23, 23),
                (size, 19, 14), (shape, 13, 8), (lanes, 7, 3)])


def enc_memcpy(from_device, to_device, dest, src, aux, shape, asyn):
    return put([(2, 63, 60), (from_device, 59, 59), (to_device, 58, 58),
                (dest, 57, 41), (src, 40, 24), (aux, 23, 7), (shape, 6, 1),
                (asyn, 0, 0)])


def enc_memset(bank, entry, a, b, c):
    return put([(3, 63, 60), (bank, 59, 58), (entry, 57, 52), (a, 51, 36),
                (b, 35, 20), (c, 19, 4)])


def enc_cvo(func, src, dest, length, sub_emax=0, recip=0, accm=0, asyn=0):
    return put([(4, 63, 60), (func, 59, 56), (src, 55, 39), (dest, 38, 22),
                (length, 21, 6), (sub_emax, 5, 5), (recip, 4, 4),
                (accm, 3, 3), (asyn, 0, 0)])


# -- data ----------------------------------------------------------------------

SPECIALS = [0x0000, 0x8000, 0x3F80, 0xBF80, 0x7F80, 0xFF80, 0x7FC0, 0x7F81,
            0xFFFF, 0x0001, 0x8001, 0x007F, 0x0080, 0x8080, 0x7F7F, 0xFF7F,
            0x3F00, 0x4000, 0x3F7F, 0x3F81, 0x4049, 0x3FC9, 0x42B1, 0xC2AF,
            0xC2AE, 0x4120, 0xC150, 0x5F00, 0x1F80]


def values(rng, mode, count):
    """`count` BF16 bit patterns of a flavour."""
    out = []
    for _ in range(count):
        sign = rng.getrandbits(1) << 15
        man = rng.getrandbits(7)
        if mode == "norm":
            e = rng.randint(120, 130)
        elif mode == "wide":
            e = rng.randint(1, 254)
        elif mode == "tiny":
            e = rng.randint(0, 12)
        elif mode == "huge":
            e = rng.randint(240, 254)
        elif mode == "zero":
            if rng.random() < 0.9:
                out.append(rng.choice([0, 0, 0x8000, 0x0003]))
                continue
            e = 127
        elif mode == "round":           # short mantissas: ties are common
            e = rng.randint(122, 130)
            man &= 0x70
        elif mode == "special":
            if rng.random() < 0.5:
                out.append(rng.choice(SPECIALS))
                continue
            e = rng.randint(100, 150)
        else:                           # any pattern at all
            out.append(rng.getrandbits(16))
            continue
        out.append(sign | e << 7 | man)
    return out


FINITE = ["norm", "norm", "norm", "round", "wide", "tiny", "huge", "zero"]
ANY = FINITE + ["special", "special", "any"]


def pack(vals):
    return struct.pack("<%dH" % len(vals), *vals)


# -- generator -----------------------------------------------------------------

class Gen:
    def __init__(self, seed, params=None, tiles=True):
        self.rng = rng = random.Random("pccx-%d" % seed)
        self.m = Machine(params)
        self.words = []
        self.lines = []
        self.records = []
        self.host = {}                  # address -> bytes, loaded before the run
        self.macs = 0
        self.profile = rng.choices(["small", "stream", "cvo", "hazard"],
                                   [42, 25, 13, 20])[0]
        self.use_tiles = tiles and rng.random() < 0.15
        self.odd_descriptors = rng.random() < 0.06
        self.wstreams_first = rng.random() < 0.3
        self.wlines = []
        big = self.profile == "stream"
        # L2 slots: few, so that ranges collide
        self.slot_words = 1200 if big else rng.choice([16, 48, 130])
        count = rng.randint(4, 9)
        base = rng.choice([0, 0, rng.randrange(0, 3000), 60000])
        self.slots = [base + i * self.slot_words for i in range(count)]
        if rng.random() < 0.1:          # a slot ending at the last usable word
            top = min(self.m.p["l2.words"], FIFO_TAG)
            self.slots[-1] = top - self.slot_words
        # Host data slots
        self.hslots = []
        hbase = rng.choice([0x1000, 0x200000 - 0x800, 0x7F000010,
                            0xF0000000])
        for i in range(3):
            addr = hbase + i * 16 * self.slot_words
            mode = rng.choice(ANY)
            data = pack(values(rng, mode, 8 * self.slot_words))
            self.hslots.append(addr)
            self.put_host(addr, data)
        self.wnext = rng.choice([0x40000000, 0x01000040, 0xE0000000])

    def put_host(self, addr, data):
        self.host[addr] = data
        self.m.load_host(addr, data)

    # -- emission ------------------------------------------------------------

    def emit(self, word, text):
        """Append a valid instruction; False when it would fault."""
        try:
            rec = self.m.execute(word)
        except Fault:
            return False
        self.records.append(rec)
        self.words.append(word)
        if self.rng.random() < 0.25:
            self.lines.append("        .word64 0x%016x" % word)
        else:
            self.lines.append("        " + text)
        return True

    def addr(self, a):
        if a == FIFO_TAG:
            return "fifo"
        return "l2[%s]" % (hex(a) if self.rng.random() < 0.7 else a)

    def memset(self, bank, entry, a, b, c):
        self.emit(enc_memset(bank, entry, a, b, c),
                  "memset  %s[%d], %d, %d, %d" % (BANKS[bank], entry, a, b, c))

    def const(self, bank, a, b, c):
        """Index of an entry holding (a, b, c), set now or before."""
        have = [i for i, e in enumerate(self.m.const[bank]) if e == (a, b, c)]
        if have and self.rng.random() < 0.8:
            return self.rng.choice(have)
        entry = self.rng.randrange(64)
        self.memset(bank, entry, a, b, c)
        return entry

    def slot(self, words, exact=None):
        """An L2 address where `words` fit, mostly the start of a slot."""
        rng = self.rng
        a = rng.choice(self.slots)
        if (self.slot_words > words and rng.random() < (0.25 if exact is None
                                                        else exact)):
            a += rng.randint(0, self.slot_words - words)
        return a

    def elements_shape(self, words):
        """An (a, b, c) whose product makes `words` L2 words."""
        rng = self.rng
        n = 8 * words - rng.choice([0, 0, 0, rng.randint(0, 7)])
        for _ in range(20):
            a = rng.choice([1, 1, 2, 3, 4, 5, 8])
            b = rng.choice([1, 1, 2, 3, 7])
            if n % (a * b) == 0 and n // (a * b) < 65536:
                t = [a, b, n // (a * b)]
                rng.shuffle(t)
                return t
        return [n, 1, 1] if n < 65536 else [8, words, 1]

    # -- instructions ----------------------------------------------------------

    def memcpy(self, kind=None, words=None, l2=None, host=None, asyn=None):
        rng = self.rng
        kind = kind or rng.choices(["in", "out", "move"], [45, 30, 25])[0]
        if words is None:
            top = self.slot_words
            words = rng.randint(1, top if rng.random() < 0.3 else
                                max(1, top // 4))
        shape = self.const(FMAP, *self.elements_shape(words))
        asyn = int(rng.random() < 0.6) if asyn is None else asyn
        tail = ", async" if asyn else ""
        l2 = self.slot(words) if l2 is None else l2
        if host is None:
            host = rng.choice(self.hslots)
            if rng.random() < 0.3:
                host += 16 * rng.randint(0, max(0, self.slot_words - words))
        hw = host // 16
        if kind == "in":
            word = enc_memcpy(1, 0, l2, hw & 0x1FFFF, hw >> 17, shape, asyn)
            ops = "%s, host[%s]" % (self.addr(l2), hex(host))
        elif kind == "out":
            if rng.random() < 0.1 and self.wnext_used():
                host = rng.choice(self.wnext_used())     # over weights
                hw = host // 16
                # later weights go elsewhere: they are loaded before the run
                self.wnext = max(self.wnext, host + 16 * words)
            word = enc_memcpy(0, 1, hw & 0x1FFFF, l2, hw >> 17, shape, asyn)
            ops = "host[%s], %s" % (hex(host), self.addr(l2))
        else:
            dst = self.slot(words, 0.6)
            if rng.random() < 0.3:                       # overlapping move
                dst = max(0, l2 + rng.randint(-3, 3))
            word = enc_memcpy(0, 0, dst, l2, 0, shape, asyn)
            ops = "%s, %s" % (self.addr(dst), self.addr(l2))
        return self.emit(word, "memcpy  %s, shape=%d%s" % (ops, shape, tail))

    def wnext_used(self):
        return [a for s in self.m.streams.values() for a, n in s
                if n and a % 16 == 0]

    def feed(self, name, need, scales):
        """Give a stream what the next consumer lacks; returns an undo list."""
        rng, m = self.rng, self.m
        total = sum(n for _, n in m.streams[name])
        lack = need - (total - m.taken[name])
        if lack <= 0:
            return []
        fresh = total == m.taken[name]
        surplus = 0
        if rng.random() < 0.1:
            surplus = 16 * rng.randint(1, 40)
        size = lack + surplus
        data = bytearray(rng.randbytes(size))
        if fresh and scales:
            mode = rng.choice(["norm", "norm", "norm", "round", "special",
                               "tiny", "wide", "zero"])
            data[:2 * scales] = pack(values(rng, mode, scales))
        pieces = []
        if rng.random() < 0.12 and size <= 16 * self.slot_words:
            # weights from a data slot, which MEMCPY may be writing
            pieces.append((rng.choice(self.hslots), size))
        else:
            left = size
            while left:
                n = left
                if len(pieces) < 3 and rng.random() < 0.3:
                    unit = 1 if self.odd_descriptors else 16
                    n = unit * rng.randint(1, max(1, left // unit))
                    n = min(n, left)
                piece = bytes(data[:n])
                del data[:n]
                self.put_host(self.wnext, piece)
                pieces.append((self.wnext, n))
                self.wnext += n + 16 * rng.randint(0, 3)
                self.wnext += -self.wnext % 16
                left -= n
        out = []
        for a, n in pieces:
            m.streams[name].append((a, n))
            out.append("        wstream %s, %s, %d" % (name, hex(a), n))
        return out

    def matmul(self, op, shape=None, dest=None, src=None, **flags):
        """GEMV (op 0) or GEMM (op 1); shape is (M, N, K)."""
        rng = self.rng
        name = ["gemv", "gemm"][op]
        rows, n, k = shape or self.matmul_shape(op)
        if self.macs + rows * n * k > 2_500_000:
            return False
        src = self.slot(rows * cdiv(k, 8), 0.15) if src is None else src
        dest = self.slot(rows * cdiv(n, 8), 0.15) if dest is None else dest
        act = 0
        if rng.random() < 0.3:
            act = rng.choice([0x3F80, 0x3C00, 0x3D23, 0x4049, 0x0001, 0x0041,
                              0x7F7F, 0x3A01, 0x3E80])
        tn = tk = 0
        if self.use_tiles and rng.random() < 0.5:
            tn, tk = rng.randint(0, 96), rng.randint(0, 96)
        f = dict(findemax=int(rng.random() < 0.3),
                 accm=int(rng.random() < 0.25),
                 w_scale=int(rng.random() < 0.5))
        f.update(flags)
        lanes = 0
        if op == 0:
            counts_cores = self.m.p["gemv.parallel_lane"] == "cores"
            lanes = rng.choice([0, 0, 1, 2, 3, 4] if counts_cores else [0, 1, 2, 7, 16, self.m.p["gemv.tile_k"]])
        wi = self.const(WEIGHT, rows, n, k)
        fi = self.const(FMAP, tn, tk, act)
        need = n * cdiv(k, 32) * 16 + (16 * cdiv(n, 8) if f["w_scale"] else 0)
        word = enc_matmul(op, dest, src, fi, wi, lanes, **f)
        text = "%s    %s, %s, size=%d, shape=%d" % (
            name, self.addr(dest), self.addr(src), fi, wi)
        if lanes or rng.random() < 0.2:
            text += ", lanes=%d" % lanes
        on = [x for x in ("w_scale", "findemax", "accm") if f[x]]
        rng.shuffle(on)
        text += "".join(", " + x for x in on)
        before = list(self.m.streams[name])
        host_before = dict(self.host)
        wl = self.feed(name, need, n if f["w_scale"] else 0)
        mark = len(self.lines)
        if not self.emit(word, text):
            self.m.streams[name] = before
            self.host = host_before
            return False
        if self.wstreams_first:
            self.wlines += wl
        else:
            self.lines[mark:mark] = wl
        self.macs += rows * n * k
        return True

    def matmul_shape(self, op):
        rng = self.rng
        room = 8 * self.slot_words
        if self.profile == "stream":
            k = rng.choice([rng.randint(32, 2048), 512, 1024, 2048])
            n = rng.randint(16, 300)
            rows = 1 if op == 0 else rng.choice([1, 1, 2, 4])
            if op == 1 and rng.random() < 0.6:
                n = rng.randint(64, 600)
            return rows, n, k
        k = rng.choice([1, 7, 8, 31, 32, 33, 64, rng.randint(1, 200)])
        n = rng.choice([1, 2, 7, 8, 9, 33, 64, 65, rng.randint(1, 100)])
        k, n = min(k, room), min(n, room)
        rows = 1
        if op == 1:
            rows = rng.choice([1, 2, 3, rng.randint(1, 12), 33])
            while rows > 1 and rows * max(cdiv(k, 8), cdiv(n, 8)) > self.slot_words:
                rows -= 1
        return rows, n, k

    def cvo(self, func=None, src=None, dest=None, length=None, **flags):
        rng = self.rng
        func = rng.randrange(8) if func is None else func
        if length is None:
            room = 8 * self.slot_words
            length = rng.choice([1, 7, 8, 9, rng.randint(1, 60),
                                 rng.randint(1, 300)])
            if self.profile == "stream" and rng.random() < 0.3:
                length = rng.randint(1, 6000)
                func = rng.choice([1, 5, 6, 7])
            length = min(length, room - 8)
        f = dict(sub_emax=int(rng.random() < 0.3),
                 recip=int(rng.random() < (0.4 if func == 6 else 0.03)),
                 accm=int(rng.random() < 0.25), asyn=int(rng.random() < 0.6))
        f.update(flags)
        words = cdiv(length, 8)
        src = self.slot(words + (func == 6)) if src is None else src
        dest = self.slot(words) if dest is None else dest
        word = enc_cvo(func, src, dest, length, **f)
        text = "cvo.%s %s, %s, len=%d" % (
            CVO_NAMES[func].lower(), self.addr(dest), self.addr(src), length)
        names = dict(sub_emax="sub_emax", recip="recip_scale", accm="accm",
                     asyn="async")
        text += "".join(", " + names[x] for x in
                        ("sub_emax", "recip", "accm", "asyn") if f[x])
        return self.emit(word, text)

    def forward_pair(self):
        """A GEMV and the CVO that takes its result at once."""
        rng = self.rng
        rows, n, k = self.matmul_shape(0)
        via_fifo = rng.random() < 0.4
        dest = FIFO_TAG if via_fifo else self.slot(cdiv(n, 8) + 1, 0.1)
        if via_fifo and n > 2048:
            n = 2048
        if not self.matmul(0, (1, n, k), dest=dest,
                           findemax=int(rng.random() < 0.3)):
            return
        length = n if rng.random() < 0.7 else rng.randint(1, n)
        func = rng.choice([0, 1, 2, 3, 4, 5, 7] if via_fifo else list(range(8)))
        kw = {}
        if rng.random() < 0.2:
            kw["dest"] = dest if not via_fifo else FIFO_TAG
        if via_fifo and kw.get("dest") == FIFO_TAG and rng.random() < 0.5:
            kw["dest"] = self.slot(cdiv(length, 8))
        self.cvo(func, src=dest, length=length, **kw)

    def fifo_op(self):
        """Use of a direct FIFO, whatever it holds."""
        rng, m = self.rng, self.m
        to_sfu, to_gemv = len(m.fifo_to_sfu), len(m.fifo_to_gemv)
        choice = rng.random()
        if to_sfu and choice < 0.4:
            n = to_sfu if rng.random() < 0.6 else rng.randint(1, to_sfu)
            dest = FIFO_TAG if rng.random() < 0.3 else None
            func = rng.choice([0, 1, 2, 3, 4, 5, 7])
            if dest is None and cdiv(n, 8) > self.slot_words:
                n = 8 * self.slot_words
            self.cvo(func, src=FIFO_TAG, dest=dest, length=n)
        elif to_gemv and choice < 0.8:
            k = to_gemv if rng.random() < 0.6 else rng.randint(1, to_gemv)
            dest = FIFO_TAG if rng.random() < 0.3 else None
            self.matmul(0, (1, rng.randint(1, 40), k), src=FIFO_TAG, dest=dest)
        elif choice < 0.6:
            self.matmul(0, (1,) + self.matmul_shape(0)[1:], dest=FIFO_TAG)
        else:
            self.cvo(dest=FIFO_TAG, length=rng.choice([1, 8, 32,
                                                       rng.randint(1, 120)]))

    def softmax(self):
        """findemax, sub_emax exponentials, sum and division."""
        rng = self.rng
        n = rng.randint(1, min(120, 8 * (self.slot_words - 2)))
        a, b = rng.sample(self.slots, 2)
        if not self.matmul(rng.choice([0, 1]), (1, n, rng.randint(1, 64)),
                           dest=a, findemax=1, accm=0):
            return
        self.cvo(0, src=a, dest=b + 1, length=n, sub_emax=1, accm=0)
        self.cvo(5, src=b + 1, dest=b, length=n, sub_emax=0, accm=0)
        self.cvo(6, src=b, dest=a, length=n, sub_emax=0, recip=1)

    # -- faults ------------------------------------------------------------------

    def fault_word(self):
        """(word, kind) of an instruction that faults here."""
        rng, m = self.rng, self.m
        top = min(m.p["l2.words"], FIFO_TAG)
        kind = rng.choice([
            "reserved opcode", "reserved bits", "dest_cache", "cvo_func",
            "memcpy direction", "memcpy aux", "l2 range", "host range",
            "zero dimension", "gemv rows", "parallel_lane", "gemm k_max",
            "stream underrun", "fifo overflow", "fifo length", "cvo length",
            "non-finite activation", "act_scale", "scale from fifo"])
        s = self.slots[0]
        if kind == "reserved opcode":
            return rng.randint(5, 15) << 60 | rng.getrandbits(60), kind
        if kind == "reserved bits":
            pick = rng.randrange(4)
            wi, fi = self.const(WEIGHT, 1, 1, 1), self.const(FMAP, 0, 0, 0)
            if pick == 0:
                return (enc_matmul(rng.randint(0, 1), s, s, fi, wi)
                        | 1 << rng.choice([0, 1, 2, 20, 21, 22])), kind
            if pick == 1:
                return enc_memset(0, 1, 2, 3, 4) | 1 << rng.randrange(4), kind
            return (enc_cvo(rng.randrange(8), s, s, 1)
                    | 1 << rng.choice([1, 2])), kind
        if kind == "dest_cache":
            return enc_memset(rng.randint(2, 3), rng.randrange(64), 1, 2, 3), kind
        if kind == "cvo_func":
            return enc_cvo(rng.randint(8, 15), s, s, 8), kind
        if kind == "memcpy direction":
            fi = self.const(FMAP, 1, 1, 1)
            return enc_memcpy(1, 1, s, s, 0, fi, 0), kind
        if kind == "memcpy aux":
            fi = self.const(FMAP, 1, 1, 1)
            return enc_memcpy(0, 0, s, s, rng.randint(1, 0x1FFFF), fi, 0), kind
        if kind == "l2 range":
            pick = rng.randrange(6)
            if pick < 3:
                w = rng.randint(1, 9)
                fi = self.const(FMAP, w, 8, 1)
                bad = top - w + rng.randint(1, w)
                if pick == 0:
                    return enc_memcpy(1, 0, bad, 0, 0, fi, 1), kind
                if pick == 1:
                    return enc_memcpy(0, 1, 0, bad, 1, fi, 0), kind
                return enc_memcpy(0, 0, *rng.choice([(bad, s), (s, bad)]), 0,
                                  fi, 0), kind
            if pick == 3:
                n = rng.randint(9, 60)
                bad = top - cdiv(n, 8) + 1
                return enc_cvo(0, *rng.choice([(bad, s), (s, bad)]), n), kind
            if pick == 4:                # the extra word of SCALE
                return enc_cvo(6, top - 2, s, 16), kind
            wi, fi = self.const(WEIGHT, 1, 9, 9), self.const(FMAP, 0, 0, 0)
            op = rng.randint(0, 1)
            self.ensure(op, 9 * 16)
            return enc_matmul(op, *rng.choice([(top - 1, s), (s, top - 1)]),
                              fi, wi), kind
        if kind == "host range":
            w = rng.randint(1, 9)
            fi = self.const(FMAP, 1, w, 8)
            hw = m.p["host.bytes"] // 16 - w + rng.randint(1, 9)
            if rng.random() < 0.3:
                hw = rng.randint(m.p["host.bytes"] // 16, (1 << 34) - 1)
            if rng.random() < 0.5:
                return enc_memcpy(1, 0, s, hw & 0x1FFFF, hw >> 17, fi, 0), kind
            return enc_memcpy(0, 1, hw & 0x1FFFF, s, hw >> 17, fi, 1), kind
        if kind == "zero dimension":
            t = [rng.randint(1, 9), rng.randint(1, 9), rng.randint(1, 9)]
            op = rng.randint(0, 2)
            if op == 0:
                t[0] = 1
            t[rng.randint(0 if op else 1, 2)] = 0
            if op == 2:
                return enc_memcpy(0, 0, s, s, 0, self.const(FMAP, *t), 0), kind
            return enc_matmul(op, s, s, self.const(FMAP, 0, 0, 0),
                              self.const(WEIGHT, *t)), kind
        if kind == "gemv rows":
            wi = self.const(WEIGHT, rng.randint(2, 5), 1, 1)
            fi = self.const(FMAP, 0, 0, 0)
            self.ensure(0, 256)
            return enc_matmul(0, s, s, fi, wi), kind
        if kind == "parallel_lane":
            wi, fi = self.const(WEIGHT, 1, 1, 1), self.const(FMAP, 0, 0, 0x3F80)
            self.ensure(0, 16)
            counts_cores = m.p["gemv.parallel_lane"] == "cores"
            first = m.p["gemv.cores" if counts_cores else "gemv.tile_k"] + 1
            return enc_matmul(0, s, s, fi, wi, lanes=rng.randint(first, 31)), kind
        if kind == "gemm k_max":
            k = rng.choice([m.p["gemm.k_max"] + 1, rng.randint(4097, 6000)])
            wi, fi = self.const(WEIGHT, 1, 1, k), self.const(FMAP, 0, 0, 0)
            self.ensure(1, 16 * cdiv(k, 32))
            return enc_matmul(1, s, 2000, fi, wi), kind
        if kind == "stream underrun":
            op = rng.randint(0, 1)
            name = ["gemv", "gemm"][op]
            free = sum(n for _, n in m.streams[name]) - m.taken[name]
            n = free // 16 + 1
            if n > 800:
                return None, kind
            self.memset(WEIGHT, 7, 1, n, 1)
            fi = self.const(FMAP, 0, 0, 0)
            a = self.clean()
            return enc_matmul(op, 0x8000, a, fi, 7), kind
        if kind == "fifo overflow":
            if rng.random() < 0.5:
                n = m.p["fifo.elements"] - len(m.fifo_to_gemv) + 1
                return enc_cvo(1, 0x9000, FIFO_TAG, n), kind
            n = m.p["fifo.elements"] - len(m.fifo_to_sfu) + 1
            self.memset(WEIGHT, 7, 1, n, 1)
            fi = self.const(FMAP, 0, 0, 0)
            a = self.clean()
            self.ensure(0, 16 * n)
            return enc_matmul(0, FIFO_TAG, a, fi, 7), kind
        if kind == "fifo length":
            if rng.random() < 0.5:
                n = len(m.fifo_to_sfu) + rng.randint(1, 9)
                return enc_cvo(0, FIFO_TAG, s, n), kind
            k = len(m.fifo_to_gemv) + rng.randint(1, 9)
            wi, fi = self.const(WEIGHT, 1, 1, k), self.const(FMAP, 0, 0, 0)
            self.ensure(0, 16 * cdiv(k, 32))
            return enc_matmul(0, s, FIFO_TAG, fi, wi), kind
        if kind == "cvo length":
            return enc_cvo(rng.randrange(8), s, s, 0), kind
        if kind == "non-finite activation":
            k = rng.randint(1, 12)
            data = values(rng, "norm", 16)
            data[rng.randrange(k)] = rng.choice([0x7F80, 0xFF80, 0x7FC0, 0xFFFF,
                                                 0x7F81])
            self.put_host(self.wnext, pack(data))
            self.memcpy("in", 2, l2=s, host=self.wnext, asyn=0)
            op = rng.randint(0, 1)
            wi = self.const(WEIGHT, 1, 1, k)
            fi = self.const(FMAP, 0, 0, rng.choice([0, 0x3F80]))
            self.wnext += 64
            self.ensure(op, 16)
            return enc_matmul(op, s + 1, s, fi, wi), kind
        if kind == "act_scale":
            op = rng.randint(0, 1)
            bad = rng.choice([0x8000, 0xBF80, 0x7F80, 0xFF80, 0x7FC0, 0x8001])
            wi, fi = self.const(WEIGHT, 1, 1, 1), self.const(FMAP, 0, 0, bad)
            a = self.clean()
            self.ensure(op, 16)
            return enc_matmul(op, 0x8000, a, fi, wi), kind
        # SCALE from the FIFO, which holds enough
        if not m.fifo_to_sfu:
            a = self.clean()
            self.matmul(0, (1, 3, 1), src=a, dest=FIFO_TAG)
        return enc_cvo(6, FIFO_TAG, s, 1), "scale from fifo"

    def clean(self):
        """Address of a never written, zero L2 word."""
        return 0x9800

    def ensure(self, op, count):
        """Let the stream of GEMV/GEMM hold at least `count` more bytes."""
        name = ["gemv", "gemm"][op]
        wl = self.feed(name, count, 0)
        (self.wlines if self.wstreams_first else self.lines).extend(wl)

    # -- program -------------------------------------------------------------------

    def make(self):
        rng = self.rng
        big = self.profile == "stream"
        if rng.random() < 0.12:         # an engine waits for the front end
            self.cvo(func=rng.randrange(8))
        if not big or rng.random() < 0.8:
            for a in self.slots:
                if rng.random() < 0.75:
                    w = self.slot_words if rng.random() < 0.5 else max(
                        1, self.slot_words // 3)
                    if big:
                        w = rng.randint(100, 500)
                    host = rng.choice(self.hslots)
                    self.memcpy("in", w, l2=a, host=host)
        if big and rng.random() < 0.6:
            # a long wait in front: the streams run ahead to their limit
            self.memcpy("in", rng.choice([1000, rng.randint(3000, 6000)]),
                        l2=0x4000, host=self.hslots[0], asyn=0)
        mix = {
            "small": [14, 22, 9, 28, 12, 8, 4, 3],
            "stream": [24, 28, 24, 8, 10, 3, 0, 1],
            "cvo": [8, 4, 2, 60, 10, 5, 8, 2],
            "hazard": [25, 18, 8, 25, 12, 5, 2, 2],
        }[self.profile]
        steps = rng.randint(3, 12) if big else rng.randint(2, 28)
        actions = [
            self.memcpy,
            lambda: self.matmul(0),
            lambda: self.matmul(1),
            self.cvo,
            self.forward_pair,
            self.fifo_op,
            self.softmax,
            lambda: self.memset(rng.randrange(2), rng.randrange(64),
                                rng.getrandbits(16), rng.getrandbits(16),
                                rng.getrandbits(16)),
        ]
        for _ in range(steps):
            rng.choices(actions, mix)[0]()
        expected = None
        if rng.random() < 0.22:
            word = None
            while word is None:
                word, expected = self.fault_word()
            try:
                self.m.execute(word)
            except Fault as f:
                assert f.kind == expected, (f.kind, expected)
            else:
                raise AssertionError("no fault: %s" % expected)
            self.words.append(word)
            self.lines.append("        .word64 0x%016x  ; %s" % (word, expected))
            for _ in range(rng.randint(0, 4)):          # never reached
                w = enc_memset(rng.randrange(2), rng.randrange(64), 1, 2, 3)
                self.words.append(w)
                self.lines.append("        .word64 0x%016x" % w)
        return expected

    def dumps(self):
        """Everything the program may have written."""
        l2, host = [], []
        for r in self.records:
            for space, lo, hi in r["writes"]:
                if space == "l2":
                    l2.append((lo, hi))
                elif space == "host":
                    host.append((lo, hi))

        def merge(ranges):
            out = []
            for lo, hi in sorted(ranges):
                if out and lo <= out[-1][1]:
                    out[-1][1] = max(out[-1][1], hi)
                else:
                    out.append([lo, hi])
            return out

        d = [("l2", lo, 8 * (hi - lo)) for lo, hi in merge(l2)]
        d += [("host", lo, (hi - lo) // 2) for lo, hi in merge(host)]
        d.append(("const", 0, 384))
        d.append(("emax", 0, 1))
        return d


def gen(seed, params=None, tiles=True):
    g = Gen(seed, params, tiles)
    expected = g.make()
    asm = ["; seed %d, %s" % (seed, g.profile), "        .target pccx"]
    asm += g.wlines + g.lines
    return {
        "asm": "\n".join(asm) + "\n",
        "words": g.words,
        "streams": {k: list(v) for k, v in g.m.streams.items()},
        "host": g.host,
        "dumps": g.dumps(),
        "fault": expected,
        "profile": g.profile,
    }


if __name__ == "__main__":
    import sys
    print(gen(int(sys.argv[1]) if len(sys.argv) > 1 else 0)["asm"], end="")
