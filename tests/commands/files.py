#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory and programs as files of other tools: --dump and --compare of `trivet run`, formats and --data of `trivet asm`.

    files.py TRIVET

Expected bytes are computed here; words are read by Icarus Verilog's $readmemh, if it is installed.
"""

import ast
import glob
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from suite import ROOT, Suite, parse_arguments, sample  # noqa: E402

# Bits and NumPy's type of each element type.
TYPES = {"i2": (2, "|i1"), "i4": (4, "|i1"), "s8": (8, "|i1"), "u8": (8, "|u1"), "s16": (16, "<i2"), "u16": (16, "<u2"), "s32": (32, "<i4"), "u32": (32, "<u4"),
         "f32": (32, "<f4"), "f16": (16, "<f2"), "bf16": (16, "<u2"), "hex8": (8, "|u1"), "hex16": (16, "<u2"), "hex32": (32, "<u4"), "hex64": (64, "<u8")}
NOTHING = ".target opennpu\n bcast.imm vx0, 0\n"
# vx1 is 1 and vx2 is 2 in each of 8 lanes; they are bytes 1 and 2 of each lane of vr0.
LANES = ".target opennpu\n bcast.imm vx1, 1\n bcast.imm vx2, 2\n"


class Files(Suite):
    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, data):
        with open(self.path(name), "wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
        return self.path(name)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def call(self, *arguments):
        p = subprocess.run([self.trivet, *arguments], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
        return p.returncode, p.stdout, p.stderr

    def good(self, *arguments):
        code, out, err = self.call(*arguments)
        self.equal(" ".join(arguments).replace(self.folder, "…"), (code, err), (0, ""))
        return out


def elements_of(data, bits, count):
    """The bits of each element, the first one in the lowest bits."""
    number = int.from_bytes(data, "little")
    return [number >> i * bits & (1 << bits) - 1 for i in range(count)]


def readmemh(t, name, bits, count):
    """The words of a file as Icarus Verilog reads them."""
    t.write("read.v", """module read; reg [%d:0] memory [0:%d]; integer i; initial begin $readmemh("%s", memory);
        for (i = 0; i < %d; i = i + 1) $display("%%h", memory[i]); end endmodule""" % (bits - 1, count - 1, name, count))
    subprocess.run(["iverilog", "-g2012", "-o", "read.vvp", "read.v"], cwd=t.folder, check=True)
    p = subprocess.run(["vvp", "-n", "read.vvp"], cwd=t.folder, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    t.expect(name + " is read without warnings", "WARNING" not in p.stdout and "ERROR" not in p.stdout, p.stdout[:300])
    return [line.strip() for line in p.stdout.splitlines() if re.fullmatch(r"[0-9a-fxz]+", line.strip())]


def parse_npy(data):
    """Type, shape and bytes of a .npy file of version 1.0."""
    length = struct.unpack_from("<H", data, 8)[0]
    header = ast.literal_eval(data[10:10 + length].decode())
    return header["descr"], header["shape"], data[10 + length:]


def dumps_have_the_bytes_of_the_memory(t):
    memory = bytes(random.Random(1).randrange(256) for _ in range(96))
    t.write("memory.bin", memory)
    t.write("nothing.s", NOTHING)
    for name, (bits, numpy) in sample(TYPES.items()):
        files = ["%s.%s" % (name, ending) for ending in ("dat", "npy", "memh")]
        words = [word for file in files for word in ("--dump", "mem:0x40:3x4:%s=%s" % (name, file))]
        t.good("run", "-q", "nothing.s", "-c", "test", "--load", "mem:64=memory.bin", *words)
        expected = elements_of(memory, bits, 12)
        t.equal(name + ": bytes", t.read(files[0]), memory[:12 * bits // 8])
        descr, shape, data = parse_npy(t.read(files[1]))
        t.equal(name + ": array", (descr, shape), (numpy, (3, 4)))
        size = max(bits, 8)
        signed = [x - (1 << bits) if bits < 8 and x >> bits - 1 else x for x in expected]
        t.equal(name + ": elements", elements_of(data, size, 12), [x & (1 << size) - 1 for x in signed])
        if shutil.which("iverilog"):
            digits = (bits + 3) // 4
            t.equal(name + ": $readmemh", readmemh(t, files[2], bits, 12), ["%0*x" % (digits, x) for x in expected])
        same = [word for file in files for word in ("--compare", "mem:0x40:3x4:%s=%s" % (name, file))]
        out = t.good("run", "nothing.s", "-c", "test", "--load", "mem:64=memory.bin", *same)
        t.equal(name + ": equal", out.count("12 elements equal"), 3)


def npy(descr, shape, data):
    """A .npy file of version 1.0, without NumPy."""
    header = repr({"descr": descr, "fortran_order": False, "shape": shape})
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header.encode() + data


def memory_is_filled_from_every_form(t):
    """--load takes what --dump writes, and arrays and words of others; what a file leaves out stays."""
    memory = bytes(random.Random(2).randrange(256) for _ in range(48))
    t.write("nothing.s", NOTHING)
    t.write("old.bin", bytes(range(1, 97)))
    old = ("--load", "mem:0x40=old.bin")
    for name, (bits, numpy) in sample(TYPES.items()):
        count = 48 * 8 // max(bits, 8) if bits >= 8 else 24
        values = elements_of(memory, bits, count)
        size = max(bits, 8) // 8
        signed = [x - (1 << bits) if bits < 8 and x >> bits - 1 else x for x in values]
        t.write("a.npy", npy(numpy, (2, count // 2), b"".join((x & (1 << 8 * size) - 1).to_bytes(size, "little") for x in signed)))
        t.write("a.memh", "".join("%0*X " % ((bits + 3) // 4, x) for x in values))
        t.write("a.dat", memory[:count * bits // 8])
        for ending in ("npy", "memh", "dat"):
            where = "mem:0x40:%d:%s=a.%s" % (count, name, ending)
            t.good("run", "-q", "nothing.s", "-c", "test", *old, "--load", where, "--dump", "mem:0x40:96:hex8=out.bin")
            t.equal("%s from .%s" % (name, ending), t.read("out.bin"), memory[:count * bits // 8] + bytes(range(1, 97))[count * bits // 8:])
            if ending == "npy" and bits >= 8 or ending == "memh" and bits in (8, 16, 32, 64):
                t.good("run", "-q", "nothing.s", "-c", "test", "--load", "mem:0x40=a." + ending, "--dump", "mem:0x40:48:hex8=out.bin")
                t.equal("%s from .%s without a range" % (name, ending), t.read("out.bin"), memory)
    t.write("a.memh", "1234 x5 // two\n@3 c\n")
    t.good("run", "-q", "nothing.s", "-c", "test", *old, "--load", "mem:0x40=a.memh", "--dump", "mem:0x40:10:hex8=out.bin")
    t.equal("gaps and unknown digits stay", t.read("out.bin"), bytes([0x34, 0x12, 0x05, 4, 5, 6, 0x0c, 0, 9, 10]))
    t.write("wide.memh", "123\n")
    t.write("deep.memh", "@7fffffff 12\n")
    t.write("i64.npy", npy("<i8", (1,), bytes(8)))
    for option, says in (("mem:0=wide.memh", "3 digits, expected 2, 4, 8 or 16"), ("mem:0=deep.memh", "do not fit"), ("mem:0=i64.npy", "no elements of type int64"),
                         ("mem:0:4:hex8=a.npy", "expected uint8"), ("mem:0:4:hex8=old.bin", "96 bytes, expected 4")):
        for command in ("run", "debug"):
            code, _, err = t.call(command, "-q", "nothing.s", "-c", "test", "--load", option)
            t.expect("%s --load %s" % (command, option), code == 2 and says in err, err)


def debuggers_fill_memory_like_runs(t):
    """debug --load takes every form of run --load; going back does not lose what it has written."""
    t.write("nothing.s", NOTHING)
    t.write("a.npy", npy("<u2", (2, 2), bytes(range(8))))
    t.write("a.memh", "1234 x5 // two\n@3 c\n")
    t.write("a.dat", bytes(range(8)))
    for option in ("mem:0=a.npy", "mem:0=a.memh", "mem:0=a.dat", "mem:2:2x2:hex16=a.npy", "mem:2:4:hex32=a.memh"):
        t.good("run", "-q", "nothing.s", "-c", "test", "--load", option, "--dump", "mem:0:16:hex8=out.bin")
        for script in ("x mem:0:16:hex8\n", "step\nrestart\nx mem:0:16:hex8\n"):
            result = subprocess.run([t.trivet, "debug", "-q", "nothing.s", "-c", "test", "--json", "--load", option], cwd=t.folder, input=script,
                                    capture_output=True, text=True)
            answer = json.loads(result.stdout.splitlines()[-1])
            t.equal("debug --load " + option, answer["memory"]["values"], ["0x%02x" % b for b in t.read("out.bin")])


def differences_name_the_writer(t):
    """One element of each kind of writer: an instruction, data, --load, none."""
    t.write("lanes.s", LANES)
    want = [0x00020100] * 8
    want[5] = 0x01020100
    t.write("want.memh", "".join("%08x\n" % x for x in want))
    code, _, err = t.call("run", "-q", "lanes.s", "-c", "test", "--compare", "vr:0:8:hex32=want.memh")
    t.equal("exit status", code, 1)
    t.expect("source line of the last writer", err.startswith("lanes.s:3:2: error: 1 of 8 elements of vr:0x0 hex32 differ from want.memh; "
                                                              "the first one is element 5: 0x00020100, expected 0x01020100 [TV-U012]"), err)
    t.write("want.memh", "@9 03\n")
    code, _, err = t.call("run", "-q", "lanes.s", "-c", "test", "--compare", "vx:0:24:s8=want.memh")
    t.expect("another register", code == 1 and err.startswith("lanes.s:2:2: ") and "element 9: 1, expected 3" in err, err)
    t.write("data.s", ".target opennpu\n.data\nd: .byte 1, 2, 3, 4\n.text\n bcast.imm vx0, 0\n")
    t.write("one.bin", b"\7")
    t.write("want.bin", b"\0\0")
    for where, says in (("d+1:2", "it is data of data.s"), ("0x900:2", "loaded with --load"), ("0xa00:2", None)):
        code, _, err = t.call("run", "-q", "data.s", "-c", "test", "--load", "mem:0x900=one.bin", "--compare", "mem:%s:hex8=want.bin" % where)
        t.expect("writer of " + where, code == (1 if says else 0) and (not says or says in err), err)
    t.write("want.bin", b"\1\0")
    code, _, err = t.call("run", "-q", "data.s", "-c", "test", "--compare", "mem:0xa00:2:hex8=want.bin")
    t.expect("no writer", code == 1 and "it has its initial value" in err, err)


def words_that_verilog_writes_are_compared(t):
    """A file of $writememh, with a word that the design left undefined, against vx2, which is 2 in each of 8 lanes."""
    if not shutil.which("iverilog"):
        return
    t.write("lanes.s", LANES)
    for value, expected in (("8'h02", 0), ("8'hx2", 0), ("8'h12", 1)):
        t.write("write.v", """module write; reg [7:0] memory [0:7]; integer i; initial begin for (i = 0; i < 8; i = i + 1) if (i != 3) memory[i] = 2;
            memory[6] = %s; $writememh("design.memh", memory); end endmodule""" % value)
        subprocess.run(["iverilog", "-g2012", "-o", "write.vvp", "write.v"], cwd=t.folder, check=True)
        subprocess.run(["vvp", "-n", "write.vvp"], cwd=t.folder, check=True, stdout=subprocess.DEVNULL)
        code, _, err = t.call("run", "-q", "lanes.s", "-c", "test", "--compare", "vx:2:8:hex8=design.memh")
        t.expect("a word of " + value, code == expected and (code == 0 or "element 6: 0x02, expected 0x12" in err), err)


def differences_are_counted_in_json(t):
    t.write("first.s", LANES)
    t.write("second.s", ".target opennpu\n\n bcast.imm vx2, 9\n bcast.imm vx7, 9\n")
    t.write("want.npy", b"\x93NUMPY\1\0\x46\0" + b"{'descr': '|i1', 'fortran_order': False, 'shape': (3, 8), }".ljust(69) + b"\n" + bytes(8) + b"\1" * 8 + b"\2" * 8)
    code, out, _ = t.call("run", "first.s", "second.s", "-c", "test", "--json", "--compare", "vx:0:3x8:s8=want.npy", "--dump", "vx:0:2:s8=two.bin",
                          "--commit-log", "run.log")
    got = json.loads(out)
    t.equal("status", (code, got["status"]), (1, "findings"))
    t.equal("comparison", got["result"]["comparisons"], [
        {"space": "vx", "addr": 0, "type": "s8", "file": "want.npy", "elements": 24, "differences": 8,
         "first": {"element": 16, "actual": "9", "expected": "2", "program": "second.s", "index": 0, "source": "second.s", "line": 3}}])
    t.equal("dump", got["result"]["dumps"], [{"space": "vx", "addr": 0, "type": "s8", "file": "two.bin"}])
    t.equal("the dump is written", t.read("two.bin"), bytes(2))
    t.expect("the log is whole", t.read("run.log").count(b'"kind":"instruction"') == 4)


def outputs_have_names(t):
    queue = os.path.join(ROOT, "examples", "cmdq", "prefetch.json")
    with open(queue, encoding="utf-8") as file:
        count = next(x for x in json.load(file)["metadata"]["outputs"] if x["name"] == "y")["num_elements"]
    os.mkdir(t.path("out"))
    t.good("run", "-q", queue, "--save-outputs", "out", "--dump", "y=y.npy")
    t.equal("y", parse_npy(t.read("y.npy"))[1:], ((count,), t.read("out/y.bin")))
    t.good("run", "-q", queue, "--compare", "y=y.npy")


def options_are_checked(t):
    t.write("a.s", LANES)
    t.write("a.bin", bytes(2))
    for options, code in (
            (("--compare", "vx:0:2:s8"), "TV-U004"), (("--compare", "vx:0:2:s8="), "TV-U004"), (("--compare", "vx:0:3:s8=a.bin"), "TV-M006"),
            (("--compare", "vx:0:2:s8=none.bin"), "TV-F001"), (("--compare", "vx:0:2:s8=a.bin", "--timing-only"), "TV-U006"),
            (("--dump", "vx:0:2:s8=-"), "TV-U004"), (("--dump", "vx:0:2:s8=a.s"), "TV-U007"),
            (("--compare", "vx:0:2:s8=a.bin", "--dump", "vx:0:2:s8=a.bin"), "TV-U007"), (("--dump", "vx:0:2:s8=b", "--dump", "vx:0:2:s8=./b"), "TV-U007"),
            (("--dump", "vx:0:2:s8=b", "--trace", "b"), "TV-U007"), (("--dump", "vx:0:2:s8=b", "--commit-log", "b"), "TV-U007"),
            (("--dump", "y=b"), "TV-M004"), (("--dump", "vx:0:2y2:s8=b"), "TV-M004")):
        status, out, err = t.call("run", "a.s", "-c", "test", *options)
        t.expect(" ".join(options), (status, out) == (2, "") and "[%s]" % code in err, err)
    t.expect("no file", not os.path.exists(t.path("b")))
    status, _, err = t.call("run", "-q", "a.s", "-c", "test", "--dump", "vx:0:2:s8=none/b")
    t.expect("a file that cannot be written", status == 3 and "TV-F002" in err, err)


def programs_are_read_by_verilog(t):
    """Every example of the machines with words, in both forms; the expected words are those of the .bin file."""
    for machine, size in (("pccx", 8), ("opennpu", 4)):
        for source in sample(sorted(glob.glob(os.path.join(ROOT, "examples", machine, "*.s")))[:4]):
            name = os.path.basename(source)
            t.good("asm", source, "-o", "program.bin")
            data = t.read("program.bin")
            words = ["%0*x" % (2 * size, int.from_bytes(data[i:i + size], "little")) for i in range(0, len(data), size)]
            for ending in ("hex", "memh"):
                file = "program." + ending
                t.good("asm", source, "-o", file)
                t.equal(file + ": words", t.read(file).decode().split("\n")[1:-1], words)
                if shutil.which("iverilog"):
                    t.equal(name + ": $readmemh of " + file, readmemh(t, file, 8 * size, len(words)), words)
                t.good("asm", file, "-t", machine, "-o", "again.bin")
                t.equal(name + ": read again from " + file, t.read("again.bin"), data)
    t.write("named.s", NOTHING)
    t.good("asm", "named.s", "--format", "memh")
    t.expect("the name follows the format", os.path.exists(t.path("named.memh")))


DATA = """.target pccx
        memset fmap_shape[0], 1, 1, 1
.data 0x13
        .byte 0x11, 0x22, 0x33
.data 0x18
        .byte 0x44
        .space 20
        .byte 0x55
.data 0x100
        .byte 0x66
"""
DATA_BYTES = {0x13: 0x11, 0x14: 0x22, 0x15: 0x33, 0x18: 0x44, **{0x19 + i: 0 for i in range(20)}, 0x2d: 0x55, 0x100: 0x66}


def data_are_read_by_verilog(t):
    t.write("data.s", DATA)
    for size in sample((1, 2, 4, 8, 16, 32, 64)):
        t.good("asm", "data.s", "--data", "data.memh", "--data-word", str(size))
        words = {}
        for address, byte in DATA_BYTES.items():
            words[address // size] = words.get(address // size, 0) | byte << 8 * (address % size)
        found, at = {}, 0
        for line in t.read("data.memh").decode().splitlines()[1:]:
            if line[0] == "@":
                at = int(line[1:], 16)
                continue
            t.equal("digits", len(line), 2 * size)
            found[at], at = int(line, 16), at + 1
        t.equal("words of %d bytes" % size, found, words)
        count = max(words) + 1
        if shutil.which("iverilog"):
            memory = readmemh(t, "data.memh", 8 * size, count)
            t.equal("$readmemh of words of %d bytes" % size, memory, ["%0*x" % (2 * size, words[i]) if i in words else "x" * 2 * size for i in range(count)])
    result = json.loads(t.good("asm", "data.s", "--data", "data.bin", "--json"))["result"]["data"]
    t.equal("where it begins", result, {"output": "data.bin", "addr": 0x13, "bytes": len(DATA_BYTES), "segments": 3})
    t.equal("bytes", t.read("data.bin"), bytes(DATA_BYTES.get(0x13 + i, 0) for i in range(0x101 - 0x13)))
    t.good("asm", "data.s", "-o", "data.elf")
    t.good("asm", "data.elf", "-o", "again.memh", "--data", "data.hex")
    t.equal("of a program file", t.read("data.hex").split(b"\n")[1:3], [b"@13", b"11"])
    t.write("none.s", ".target pccx\n memset fmap_shape[0], 1, 1, 1\n")
    t.good("asm", "none.s", "--data", "none.memh")
    t.good("asm", "none.s", "--data", "none.bin")
    t.equal("no data", (t.read("none.memh").count(b"\n"), t.read("none.bin")), (1, b""))


def options_of_asm_are_checked(t):
    t.write("big.s", ".target pccx\n memset fmap_shape[0], 1, 1, 1\n.data 0\n .byte 1\n.data 0x80000000\n .byte 1\n")
    t.write("space.s", ".target pccx\n memset fmap_shape[0], 1, 1, 1\n.data 0\n .space 0x48000000\n")
    t.good("asm", "big.s", "--data", "big.memh")
    for arguments, code in (
            (("big.s", "--data-word", "2"), "TV-U006"), (("big.s", "--data", "d.memh", "--data-word", "3"), "TV-U004"),
            (("big.s", "--data", "d.memh", "--data-word", "128"), "TV-U004"), (("big.s", "--data", "d.memh", "--data-word", "0"), "TV-U004"),
            (("big.s", "--data", "d.bin", "--data-word", "2"), "TV-O001"), (("big.s", "--data", "d.bin"), "TV-F003"),
            (("space.s", "--data", "d.memh"), "TV-F003"), (("big.s", "--data", "big.s"), "TV-U007"), (("big.s", "-o", "d", "--data", "./d"), "TV-U007"),
            (("big.s", "-l", "d", "--data", "d"), "TV-U007"), (("big.s", "--data", "-", "--json"), "TV-U006"), (("big.s", "--data", "-", "-o", "-"), "TV-U007"),
            ((os.path.join(ROOT, "examples", "cmdq", "prefetch.json"), "-o", "d.json", "--data", "d.memh"), "TV-O001")):
        status, _, err = t.call("asm", *arguments)
        t.expect(" ".join(arguments), status == 2 and "[%s]" % code in (err or _), err)
    t.expect("no file", not any(os.path.exists(t.path(name)) for name in ("d", "d.memh", "d.bin", "d.json")))


def damaged_words_are_rejected(t):
    """Programs in .memh files: (text, code, line, column)."""
    word = "3000000000000010"
    for text, code, line, column in (
            ("0x" + word, "TV-F008", 1, 1), ("@1 " + word, "TV-O004", 1, 4), (word + "\n@0 " + word, "TV-O004", 2, 4), (word + " x", "TV-O004", 1, 18),
            (word + "\n" + word[:-1] + "X", "TV-O004", 2, 1), (word + "0", "TV-F008", 1, 1), ("# " + word, "TV-F008", 1, 1), ("/* " + word, "TV-F008", 1, 1),
            ("@" + "f" * 16 + " " + word, "TV-O004", 1, 19)):
        t.write("bad.memh", text)
        status, _, err = t.call("dis", "-t", "pccx", "bad.memh")
        t.expect(text, status == 2 and "bad.memh:%d:%d: error: " % (line, column) in err and "[%s]" % code in err, err)
    t.write("good.memh", "// two\n%s /* and */ @1 %s" % (word, word.replace("0000", "00_00")))
    t.equal("comments, addresses and _", t.good("dis", "-t", "pccx", "good.memh").count("memset"), 2)
    t.write("good.hex", "// two\n%s # one\n%s//\n" % (word, word))
    t.equal("both comments", t.good("dis", "-t", "pccx", "good.hex").count("memset"), 2)
    t.write("empty.memh", "")
    t.good("dis", "-t", "opennpu", "empty.memh")


def words_take_weights_from_host_memory(t):
    """A program with a descriptor, and its words with --stream, give the same results in the same cycles."""
    product = " memset weight_shape[0], 1, 64, 32\n memset fmap_shape[0], 64, 1, 1\n memcpy l2[0], host[0], shape=0\n" \
              " gemv l2[16], l2[0], size=0, shape=0, lanes=4\n memcpy host[4096], l2[16], shape=0\n"
    program = t.write("product.s", ".target pccx\n wstream gemv, 128, 1024\n" + product)
    t.write("words.s", ".target pccx\n" + product)
    t.good("asm", "words.s", "-o", "words.bin")
    memory = t.write("memory.bin", bytes((i * 7) & 255 if i >= 128 else (0x3f if i % 2 else i) for i in range(2048)))
    runs = []
    for i, arguments in enumerate(((program,), ("words.bin", "-t", "pccx", "--stream", "gemv=128:1024"),
                                   ("words.bin", "-t", "pccx", "--stream", "gemv=128:24", "--stream", "gemv=0x98:1000"))):
        out = t.path("out%d.bin" % i)
        result = json.loads(t.good("run", *arguments, "--load", "host:0=" + memory, "--dump", "host:4096:128=" + out, "--json"))
        runs.append((t.read("out%d.bin" % i), result["result"]["cycles"]))
    t.equal("results and cycles", runs[1], runs[0])
    t.equal("two descriptors", runs[2], runs[0])
    t.check("results are not zero", not any(runs[0][0]))
    for text in ("gemv", "gemv=", "gemv=1", "gemv=1:", "gemv=1:x", "gemz=1:2", "=1:2", "gemv=0x1%s:2" % ("0" * 40), "gemv=4Gi:1", "gemv=0:4294967297"):
        code, _, err = t.call("run", "words.bin", "-t", "pccx", "--stream", text)
        t.check("--stream " + text, (code != 2 or "--stream" not in err) and err)
    lanes = t.write("lanes.s", LANES)
    code, _, err = t.call("run", lanes, "--stream", "gemv=0:1")
    t.check("other machines", code != 2 or "opennpu has no weight streams" not in err)


def main():
    options = parse_arguments(__doc__, "trivet")
    suite = Files(options.trivet, options)
    suite.run_tests([words_take_weights_from_host_memory, dumps_have_the_bytes_of_the_memory, memory_is_filled_from_every_form, debuggers_fill_memory_like_runs, differences_name_the_writer, words_that_verilog_writes_are_compared,
                     differences_are_counted_in_json, outputs_have_names, options_are_checked, programs_are_read_by_verilog, data_are_read_by_verilog,
                     options_of_asm_are_checked, damaged_words_are_rejected], suite)
    return suite.finish()


if __name__ == "__main__":
    sys.exit(main())
