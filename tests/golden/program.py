# SPDX-License-Identifier: Apache-2.0
"""Read a program that `trivet asm` wrote, and run it on the independent model of the machine (tests/oracle).

Only what that needs is read from the ELF file: the words of .text, the data segments with their addresses, and the
descriptors of the two weight streams.
"""

import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "oracle"))

import pccx_oracle  # noqa: E402

# The oracle's name of a fault and the tool's code for it.
FAULT_CODES = {
    "reserved opcode": "TV-P001", "reserved bits": "TV-P002", "dest_cache": "TV-P003", "cvo_func": "TV-P004",
    "memcpy direction": "TV-P005", "memcpy aux": "TV-P006", "l2 range": "TV-P010", "host range": "TV-P011",
    "zero dimension": "TV-P012", "gemv rows": "TV-P013", "parallel_lane": "TV-P014", "gemm k_max": "TV-P015",
    "stream underrun": "TV-P016", "fifo overflow": "TV-P017", "fifo length": "TV-P018", "cvo length": "TV-P019",
    "scale from fifo": "TV-P020", "non-finite activation": "TV-P021", "act_scale": "TV-P022",
}

SHT_PROGBITS, SHT_SYMTAB, SHF_ALLOC = 1, 2, 2


class Program:
    def __init__(self, path):
        with open(path, "rb") as f:
            image = f.read()
        table, = struct.unpack_from("<Q", image, 0x28)
        size, count, names = struct.unpack_from("<HHH", image, 0x3A)
        headers = [struct.unpack_from("<IIQQQQIIQQ", image, table + i * size) for i in range(count)]

        def text(offset):
            return image[offset:image.index(b"\0", offset)].decode()

        self.words, self.data, self.symbols = [], [], {}
        self.streams = {"gemm": [], "gemv": []}
        for name, kind, flags, addr, offset, length, link, _, _, _ in headers:
            name = text(headers[names][4] + name)
            body = image[offset:offset + length]
            if name == ".text":
                self.words = list(struct.unpack("<%dQ" % (length // 8), body))
            elif name.startswith(".wstream."):
                pairs = struct.unpack("<%dQ" % (length // 8), body)
                self.streams[name[9:]] = list(zip(pairs[0::2], pairs[1::2]))
            elif kind == SHT_PROGBITS and flags & SHF_ALLOC:
                self.data.append((addr, body))
            elif kind == SHT_SYMTAB:
                for i in range(0, length, 24):
                    symbol, _, _, _, value, _ = struct.unpack_from("<IBBHQQ", body, i)
                    self.symbols[text(headers[link][4] + symbol)] = value

    def address(self, text):
        """A number, or a symbol with an optional +offset, as --dump takes it."""
        name, _, offset = text.partition("+")
        base = self.symbols[name] if name in self.symbols else int(name, 0)
        return base + (int(offset, 0) if offset else 0)

    def run(self, params):
        """(the oracle's result, the machine after the run)"""
        machine = pccx_oracle.Machine(params)
        for addr, body in self.data:
            machine.load_host(addr, body)
        return machine.run(self.words, self.streams), machine
