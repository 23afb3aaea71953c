#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Extensions: the examples, built against an installed copy, and what is rejected.

    run.py BUILD

Results are computed here with exact rationals, cycles by hand. Every command must know the instructions.
"""

import fractions
import json
import os
import random
import re
import shlex
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import suite as suites  # noqa: E402  pylint: disable=wrong-import-position

LINES_MAX = 40
EXAMPLES = os.path.join(suites.ROOT, "examples", "extensions")
MODEL = os.path.join(suites.ROOT, "models", "shakespeare.gguf")

MULTIPLY = """        .target pccx
        memset  fmap_shape[0], 16, 1, 1
        memcpy  l2[0], host[x], shape=0
        cvo.mul l2[0], l2[1], len=8
        cvo.mul l2[1], l2[0], len=8, accm
        memcpy  host[y], l2[0], shape=0
        .data
x:      .bf16   0, 1, 2, 3, -1, -2, -3, 0.5, 1, 2, 3, 4, 5, 6, 7, 8
y:      .zero   32
"""

TILE = """        .target opennpu
        .profile test
        ld.w    vr1, p(vr7)
        ld.w    vr2, q(vr7)
        ld.tile vr3, vr1, vr2
        ld.tile vr4, vr2, vr1
        st.vr   vr3, y(vr7)
        .data
x:      .byte   0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27
        .byte   28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40
p:      .word   3
q:      .word   10
y:      .zero   32
"""

ROUND = {"cmdq": [
    {"opcode": "DMA_LOAD_TILE", "tensor_role": "activation", "qbits": 32, "dram_addr": 0, "spm_bank": 0, "spm_offset": 0, "num_elements": 8},
    {"opcode": "VE_ROUND_TILE", "deps_before": [0], "ve_id": 0, "in_bank": 0, "in_offset": 0, "out_bank": 1, "out_offset": 0, "length": 8,
     "qbits_activation": 32, "scale_out": 0.5},
    {"opcode": "END", "deps_before": [1]}]}

# An instruction of each other form, and one whose ranges change from call to call.
MANY = """#include <trivet/extension.h>
static uint64_t field(const tv_operation *op, const char *name) { return tv_operation_field(op, name); }
static void one(const tv_operation *op, tv_operation_cost *cost) { (void)op; cost->latency = 1; }
static void slow(const tv_operation *op, tv_operation_cost *cost) { (void)op; cost->latency = 100; }
static void reverse(tv_operation *op)
{
    const uint8_t *in = tv_operation_input(op, 0);
    uint8_t *out = tv_operation_output(op, 0);
    for (int i = 0; i < 64; i++) { out[i] = in[63 - i]; tv_operation_value(op, "byte", (uint64_t)i, in[63 - i]); }
}
static int from_host(tv_operation *op)
{
    tv_operation_reads(op, "host", 16 * field(op, "src_addr"), 64);
    tv_operation_writes(op, "l2", field(op, "dst_addr"), 64);
    return 1;
}
static int within_spm(tv_operation *op)
{
    uint64_t bank = tv_operation_parameter(op, "spm.bank_bytes");
    tv_operation_reads(op, "spm", field(op, "in_bank") * bank + field(op, "in_offset"), 64);
    tv_operation_writes(op, "spm", field(op, "out_bank") * bank + field(op, "out_offset"), 64);
    return 1;
}
static int unsteady(tv_operation *op)
{
    static int calls;
    tv_operation_writes(op, "l2", (uint64_t)calls++, 64);
    return 1;
}
static int store(tv_operation *op)
{
    uint32_t address = 0;
    tv_operation_load(op, "vr", field(op, "rs1"), &address, 4);
    tv_operation_reads(op, "vx", 4 * field(op, "rs2"), 32);
    tv_operation_writes(op, "mem", address, 32);
    return 1;
}
static void copy(tv_operation *op)
{
    for (int i = 0; i < 32; i++) ((uint8_t *)tv_operation_output(op, 0))[i] = ((const uint8_t *)tv_operation_input(op, 0))[i];
}
static void port(const tv_operation *op, tv_operation_cost *cost) { (void)op; cost->latency = 1; cost->occupancy = 4; cost->bytes = 32; }
static void add(const tv_operation *op, const float *x, const float *y, float *out, uint64_t n)
{
    (void)op;
    for (uint64_t i = 0; i < n; i++) out[i] = x[i] + 10 * y[i];
}
#define ROW(...) {.size = sizeof(tv_extension_insn), .meaning = "a test", __VA_ARGS__}
static const tv_extension_insn rows[] = {
    ROW(.target = "pccx", .id = "X_HOST", .mnemonic = "x.host", .format = "CVO", .fixed = "opcode=5", .operands = "dst_addr, src_addr, [async]",
        .unit = "ACP", .resolve = from_host, .execute = reverse, .cost = slow),
    ROW(.target = "pccx", .id = "X_UNSTEADY", .mnemonic = "x.unsteady", .format = "CVO", .fixed = "opcode=6", .operands = "",
        .unit = "SFU", .resolve = unsteady, .execute = reverse, .cost = slow),
    ROW(.target = "opennpu", .id = "V_ADD10", .mnemonic = "v.add10", .format = "R", .fixed = "opcode=4, funct3=0",
        .operands = "rd:vr, rs1:vr, rs2:vr", .unit = "VALU", .elements = add, .inputs = 2, .cost = one),
    ROW(.target = "opennpu", .id = "ST_PLANES", .mnemonic = "st.planes", .format = "R", .fixed = "opcode=4, funct3=1",
        .operands = "rs2:vr, rs1:vr", .unit = "PORT", .resolve = store, .execute = copy, .cost = port),
    ROW(.target = "cmdq", .id = "VE_REVERSE_TILE", .operands = "ve_id, in_bank, in_offset, out_bank, out_offset", .unit = "VE",
        .resolve = within_spm, .execute = reverse, .cost = slow),
    ROW(.target = "cmdq", .id = "VE_ADD10_TILE", .operands = "as VE_MUL_TILE", .unit = "VE", .elements = add, .inputs = 2, .cost = slow)};
TV_EXTENSION("many", rows);
"""

ROW = """#include <trivet/extension.h>
static void f(const tv_operation *op, const float *x, const float *y, float *out, uint64_t n)
{ (void)op, (void)x, (void)y; for (uint64_t i = 0; i < n; i++) out[i] = 0; }
static void cost(const tv_operation *op, tv_operation_cost *cost) { (void)op; cost->latency = 1; }
static int resolve(tv_operation *op) { %(resolve)s }
static void execute(tv_operation *op) { (void)op; }
static const tv_extension_insn rows[] = {{.size = sizeof(tv_extension_insn), .target = "pccx", .id = "CVO_F", .mnemonic = "cvo.f",
    .format = "CVO", .fixed = "opcode=4, cvo_func=9", .operands = "as CVO_EXP", .unit = "SFU", .meaning = "f",
    .elements = f, .inputs = 1, .cost = cost, %(more)s}};
%(define)s
static int unused(tv_operation *op) { (void)unused; (void)execute; return resolve(op); }
"""
DEFINE = 'TV_EXTENSION("bad", rows);'

# (name, replaced text, new text or members that override, the code, what the message must have)
REJECTED = [
    ("another version", DEFINE, "#undef TV_EXTENSION_VERSION\nconst tv_extension trivet_extension = {99, 1, \"bad\", rows};", "TV-X002",
     "version 99"),
    ("a row of another size", "", ".size = 8", "TV-X002", "8 bytes"),
    ("no symbol", DEFINE, "", "TV-X001", "trivet_extension"),
    ("words of another instruction", "", '.fixed = "opcode=4, cvo_func=0"', "TV-X003", "CVO_EXP"),
    ("words of several instructions", "", '.fixed = "opcode=4"', "TV-X003", "CVO_EXP"),
    ("an id that exists", "", '.id = "CVO_EXP"', "TV-X003", "already"),
    ("a mnemonic that exists", "", '.mnemonic = "gemv"', "TV-X003", "already"),
    ("an unknown machine", "", '.target = "tpu"', "TV-X003", "tpu"),
    ("an unknown format", "", '.format = "VLIW"', "TV-X003", "VLIW"),
    ("an unknown fixed field", "", '.fixed = "opcode=4, func=9"', "TV-X003", "func"),
    ("a value that does not fit", "", '.fixed = "opcode=4, cvo_func=16"', "TV-X003", "16"),
    ("fixed fields without an opcode", "", '.fixed = "cvo_func=9"', "TV-X003", "opcode"),
    ("an unknown operand", "", '.operands = "dst, src_addr"', "TV-X003", "dst"),
    ("a flag as a keyword", "", '.operands = "dst_addr, src_addr, len=length, accm"', "TV-X003", "accm"),
    ("an operand that is fixed", "", '.operands = "dst_addr, src_addr, len=cvo_func"', "TV-X003", "cvo_func"),
    ("a field in two operands", "", '.operands = "dst_addr, dst_addr"', "TV-X003", "two operands"),
    ("operands of an unknown instruction", "", '.operands = "as CVO_LOG"', "TV-X003", "CVO_LOG"),
    ("an unknown unit", "", '.unit = "FPU"', "TV-X003", "unit"),
    ("elements on another unit", "", '.unit = "GEMV"', "TV-X003", "SFU"),
    ("no meaning", "", ".meaning = 0", "TV-X003", "meaning"),
    ("no function", "", ".elements = 0", "TV-X003", "elements"),
    ("three inputs", "", ".inputs = 3", "TV-X003", "inputs"),
    ("no cost", "", ".cost = 0", "TV-X003", "cost"),
    ("an id with a space", "", '.id = "CVO F"', "TV-X003", "name"),
    ("an empty mnemonic", "", '.mnemonic = ""', "TV-X003", "name"),
    ("two values of a fixed field", "", '.fixed = "opcode=4, cvo_func=8, cvo_func=9"', "TV-X003", "two fixed values"),
    ("two operands with one key", "", '.operands = "a=dst_addr, a=src_addr"', "TV-X003", "key"),
    ("a class of what is no register", "", '.operands = "dst_addr:vr, src_addr"', "TV-X003", "dst_addr"),
    ("an operator without its operands", "", '.operands = "dst_addr, src_addr, len=length", .operator_name = "Mul"', "TV-X003", "CVO_EXP"),
]


def bf16(x):
    """The bits of `x`, a Fraction, rounded to nearest even; numbers below the smallest normal one become zero."""
    sign, x = (0x8000, -x) if x < 0 else (0, x)
    if x == 0:
        return sign
    e = 0
    while x >= fractions.Fraction(2) ** (e + 1):
        e += 1
    while x < fractions.Fraction(2) ** e:
        e -= 1
    mantissa = x / fractions.Fraction(2) ** (e - 7)
    n = mantissa.numerator // mantissa.denominator
    rest = mantissa - n
    n += rest > fractions.Fraction(1, 2) or (rest == fractions.Fraction(1, 2) and n % 2 == 1)
    e, n = (e + 1, n // 2) if n == 256 else (e, n)
    if e > 127:
        return sign | 0x7F80
    return sign | ((e + 127) << 7 | (n - 128) if e >= -126 else 0)


def value(bits):
    """A BF16 number as a Fraction; subnormal ones are zero."""
    if bits >> 7 & 255 == 0:
        return fractions.Fraction(0)
    return fractions.Fraction(-1 if bits >> 15 else 1) * (128 + (bits & 127)) * fractions.Fraction(2) ** ((bits >> 7 & 255) - 134)


class Extensions(suites.Suite):
    def __init__(self, build, options):
        super().__init__(None, options)
        self.root = os.path.join(self.folder, "installed")
        subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--quiet"], env={**os.environ, "DESTDIR": self.root}, check=True,
                       stdout=subprocess.DEVNULL)
        found = {name: os.path.join(d, name) for d, _, names in os.walk(self.root) for name in names}
        prefix = re.search(r"^prefix=(.*)$", open(found["trivet.pc"], encoding="utf-8").read(), re.M)[1]
        self.trivet = self.root + prefix + "/bin/trivet"
        self.env = {**os.environ, "LD_LIBRARY_PATH": os.path.dirname(found["libtrivet.so"])}
        flags = subprocess.run(["pkg-config", "--cflags", "trivet"], check=True, stdout=subprocess.PIPE, text=True,
                               env={**os.environ, "PKG_CONFIG_SYSROOT_DIR": self.root, "PKG_CONFIG_PATH": os.path.dirname(found["trivet.pc"])})
        self.flags = shlex.split(flags.stdout)
        self.examples = {name: self.compile(os.path.join(EXAMPLES, name + ".c"), name) for name in ("multiply", "tile", "round")}

    def compile(self, source, name, warnings=("-Wall", "-Wextra", "-Wpedantic", "-Werror")):
        out = os.path.join(self.folder, name + ".so")
        subprocess.run(["cc", "-std=c17", "-O2", *warnings, "-shared", "-fPIC", "-o", out, source, *self.flags], check=True)
        return out

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w" if isinstance(text, str) else "wb") as f:
            f.write(text)
        return path

    def start(self, *arguments, extension=None):
        return subprocess.run([self.trivet, *arguments] + (["--extension", self.examples.get(extension, extension)] if extension else []),
                              env=self.env, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False, timeout=300)

    def output(self, *arguments, extension=None, status=0):
        p = self.start(*arguments, extension=extension)
        assert p.returncode == status, "%s: %d\n%s" % (arguments, p.returncode, p.stderr)
        return p.stdout

    def dump(self, file, spec, extension, *more):
        out = json.loads(self.output("run", file, "--dump", spec, "--json", *more, extension=extension))
        return out["result"]


def engine(result, name):
    return result["engines"][name]


def examples_are_short(t):
    for name in t.examples:
        with open(os.path.join(EXAMPLES, name + ".c"), encoding="utf-8") as f:
            t.expect(name + ": lines", len(f.readlines()) <= LINES_MAX)


def the_product_is_exact(t):
    source = t.write("multiply.s", MULTIPLY)
    t.output("run", source, "--dump", "host:y:16:bf16=y.bin", extension="multiply")
    got = struct.unpack("<16H", open(os.path.join(t.folder, "y.bin"), "rb").read())
    x = [0, 1, 2, 3, -1, -2, -3, 0.5]
    y = [a * b for a, b in zip(x, range(1, 9))]
    z = [b * p + b for b, p in zip(range(1, 9), y)]
    t.equal("products", [float(value(v)) for v in got], [float(v) for v in y + z])


def random_products_are_rounded_once(t):
    rng = random.Random(1)
    n = 4096
    pairs = [[rng.randrange(65536) for _ in range(n)] for _ in range(2)]
    for row in pairs:
        for i, bits in enumerate(row):
            if bits >> 7 & 255 == 255: # no infinities and NaNs
                row[i] = bits & 0x3FFF
    t.write("a.bin", struct.pack("<%dH" % n, *pairs[0]))
    t.write("b.bin", struct.pack("<%dH" % n, *pairs[1]))
    source = t.write("many.s", "        .target pccx\n        cvo.mul l2[0], l2[0x1000], len=4096\n")
    t.output("run", source, "--load", "l2:0=a.bin", "--load", "l2:0x1000=b.bin", "--dump", "l2:0:4096:bf16=c.bin", extension="multiply")
    got = struct.unpack("<%dH" % n, open(os.path.join(t.folder, "c.bin"), "rb").read())
    want = []
    for a, b in zip(*pairs):
        product = bf16(value(a) * value(b))
        want.append(product if product & 0x7FFF else (a ^ b) & 0x8000)
    t.equal("rounded products", [i for i in range(n) if got[i] != want[i]][:4], [])


def every_command_knows_pccx(t):
    source = t.write("multiply.s", MULTIPLY)
    t.expect("isa", "dst times src" in t.output("isa", "pccx", "cvo.mul", extension="multiply"))
    t.expect("isa without it", t.start("isa", "pccx", "cvo.mul").returncode == 2)
    t.output("asm", source, "-o", "m.elf", extension="multiply")
    t.expect("dis", "cvo.mul l2[0x1], l2[0x0], len=8, accm" in t.output("dis", "m.elf", extension="multiply"))
    t.expect("uops", "from_L2_to_CVO" in t.output("dis", "-t", "pccx", "--word", "0x4800000000800200", "--uops", extension="multiply"))
    t.equal("a fault without it", t.start("run", "m.elf").returncode, 1)
    t.expect("check", "never" not in t.output("check", source, extension="multiply"))
    lone = t.write("lone.s", "        .target pccx\n        cvo.mul l2[0], l2[1], len=8\n")
    found = t.start("check", lone, extension="multiply").stderr
    t.expect("check sees both inputs", found.count("TV-P030") == 2, found)
    t.output("run", source, "-q", "--trace", "m.json", "--report", "m.html", "--commit-log", "m.log", "--commit-contents", "all", extension="multiply")
    events = open(os.path.join(t.folder, "m.json"), encoding="utf-8").read()
    t.expect("trace", events.count('"CVO_MUL"') >= 4)
    t.expect("report", os.path.getsize(os.path.join(t.folder, "m.html")) > 10000)
    records = [json.loads(line) for line in open(os.path.join(t.folder, "m.log"), encoding="utf-8")]
    second = [r for r in records if r.get("insn") == "CVO_MUL"][1]
    t.equal("reads and writes", sorted((e["addr"], e["write"]) for e in second["effects"]), [(0, False), (1, False), (1, True)])
    t.equal("arguments", [v["real"] for v in second["values"] if v["name"] == "argument"], [0, 2, 6, 12, -5, -12, -21, 4])
    t.expect("replay", "3 records" not in t.output("cosim", "replay", "m.log", "--dump", "l2:1:8:bf16", extension="multiply"))
    made = t.output("gen", "pccx", "-n", "200", "--seed", "3", "--weight", "CVO_MUL=50", "-q", extension="multiply")
    t.expect("gen", made.count("cvo.mul") > 50)
    t.output("run", t.write("made.s", made), "-q", extension="multiply")
    t.expect("cover", "CVO_MUL" in t.output("cover", source, "--list=all", extension="multiply"))
    t.expect("explain", "extension" in t.output("explain", "TV-X003"))


def pccx_takes_the_stated_cycles(t):
    result = t.dump(t.write("multiply.s", MULTIPLY), "host:y:1:bf16", "multiply")
    fill, tail = 3, 6 # cvo.fill.scale, cvo.tail
    t.equal("SFU", engine(result, "SFU")["busy"], 2 * (fill + 8 + tail))
    slower = t.dump(t.write("multiply.s", MULTIPLY), "host:y:1:bf16", "multiply", "-D", "cvo.tail=26")
    t.equal("SFU, another parameter", engine(slower, "SFU")["busy"], 2 * (fill + 8 + 26))
    t.equal("MACs", result["macs"], 16)
    fj = 2 * 8 * 340 # two vectors of 8, 0.34 pJ each
    t.equal("energy", result["energy"]["actions"]["extension"]["count"], fj)


def a_language_model_uses_the_product(t):
    def cycles(extension):
        out = json.loads(t.output("llm", MODEL, "-t", "pccx", "-p", "ROMEO:", "-n", "8", "--json", extension=extension))
        return out["result"]["targets"][0]

    before, after = cycles(None), cycles("multiply")
    t.expect("fewer cycles", after["cycles"] < 0.9 * before["cycles"], "%r, %r" % (before["cycles"], after["cycles"]))
    t.output("llm", MODEL, "-t", "pccx", "-p", "ROMEO:", "-n", "2", "--emit", "emitted", "-q", extension="multiply")
    programs = sorted(os.path.join(t.folder, "emitted", name) for name in os.listdir(os.path.join(t.folder, "emitted")) if name.endswith(".elf"))
    t.expect("emitted", any("cvo.mul" in t.output("dis", p, extension="multiply") for p in programs))
    text = t.start("llm", MODEL, "-t", "pccx", "--eval", os.path.join(suites.ROOT, "data", "tinyshakespeare.txt"), "-n", "60", "--json", extension="multiply")
    result = json.loads(text.stdout)["result"]
    nats = {x["target"]: x["nats"] for x in result["targets"]}
    t.expect("quality", abs(nats["pccx"] - nats["host"]) < 0.15 * nats["host"], str(nats))


def a_tile_is_loaded(t):
    source = t.write("tile.s", TILE)
    result = t.dump(source, "mem:y:32:u8", "tile")
    t.output("run", source, "--dump", "mem:y:32:hex8=y.bin", "--commit-log", "t.log", extension="tile")
    # The four VX of vr3 have rows of 8 bytes at 3, 13, 23 and 33; lane i of VR takes byte i of each.
    rows = [range(a, a + 8) for a in (3, 13, 23, 33)]
    t.equal("lanes", list(open(os.path.join(t.folder, "y.bin"), "rb").read()), [row[i] for i in range(8) for row in rows])
    records = [json.loads(line) for line in open(os.path.join(t.folder, "t.log"), encoding="utf-8")]
    tile = [r for r in records if r.get("insn") == "LD_TILE"][0]
    t.equal("its write", [(e["space"], e["addr"]) for e in tile["effects"] if e["write"]], [("vx", 12)])
    # ld.w in ticks 0 and 1 are ready in 4 and 5; the first tile issues in 5 and has the port for 4 ticks, the second in 9 for 4,
    # the store in 13, which is the last tick of the run.
    t.equal("port", engine(result, "PORT")["busy"], 1 + 1 + 4 + 4 + 1)
    t.equal("ticks", result["cycles"], 14)
    far = t.write("far.s", TILE.replace(".word   3", ".word   0x7fffffff"))
    p = t.start("run", far, extension="tile")
    t.expect("outside of memory", p.returncode == 1 and "TV-N011" in p.stderr, p.stderr)
    made = t.output("gen", "opennpu", "-n", "200", "--seed", "3", "--weight", "LD_TILE=50", "-q", extension="tile")
    t.expect("gen", "ld.tile" in made)
    t.output("run", t.write("made.s", made), "-q", extension="tile")


def an_opcode_rounds(t):
    queue = t.write("round.json", json.dumps(ROUND))
    t.write("x.bin", struct.pack("<8f", -1.5, 0.5, 1.5, 2.5, -0.25, 3.75, 100.5, 7))
    t.output("run", queue, "--load", "dram:0=x.bin", "--dump", "spm:1:0:8:f32=y.bin", extension="round")
    got = struct.unpack("<8f", open(os.path.join(t.folder, "y.bin"), "rb").read())
    t.equal("rounded, divided by scale_out", list(got), [-4, 0, 4, 4, 0, 8, 200, 14])
    result = t.dump(queue, "spm:1:0:1:f32", "round", "-D", "ve.lanes=4")
    t.equal("VE0", engine(result, "VE0")["busy"], 8 + 2 + 4) # ve.init, two passes, ve.finalize
    t.expect("isa", "nearest integer" in t.output("isa", "cmdq", "VE_ROUND_TILE", extension="round"))
    p = t.start("run", queue)
    t.expect("unknown without it", p.returncode == 2 and "VE_ROUND_TILE" in p.stderr, p.stderr)
    made = t.output("gen", "cmdq", "-n", "200", "--seed", "3", "--weight", "VE_ROUND_TILE=50", "-q", extension="round")
    t.expect("gen", made.count("VE_ROUND_TILE") > 20)
    t.output("run", t.write("made.json", made), "-q", extension="round")
    t.expect("the schema has it", "VE_ROUND_TILE" in t.output("isa", "cmdq", "--json-schema", extension="round"))


def a_network_uses_the_opcode(t):
    try:
        import onnx # pylint: disable=import-outside-toplevel
        from onnx import helper # pylint: disable=import-outside-toplevel
    except ImportError:
        print("skipped: no python3-onnx")
        return
    info = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4, 16]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Round", ["x"], ["y"])], "g", info[:1], info[1:])
    path = os.path.join(t.folder, "round.onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    t.expect("rejected without it", "TV-L044" in t.start("infer", path, "-t", "cmdq").stderr)
    t.expect("executed", "Round" in t.output("infer", path, "-t", "cmdq", "--verify", extension="round"))


def other_forms_execute(t):
    many = t.compile(t.write("many.c", MANY), "many")
    data = bytes(range(64))
    t.write("in.bin", data)
    # pccx: 64 bytes from host memory, reversed; ACP has 64 cycles of setup, and 64 bytes at 10 a cycle, which 100 cycles cover.
    source = t.write("x.s", "        .target pccx\n        x.host l2[2], l2[4], async\n        cvo.exp l2[20], l2[2], len=8\n")
    t.output("run", source, "--load", "host:64=in.bin", "--dump", "l2:2:64:u8=out.bin", "--commit-log", "x.log", "--commit-contents", "all", extension=many)
    t.equal("host to L2", open(os.path.join(t.folder, "out.bin"), "rb").read(), data[::-1])
    log = [json.loads(line) for line in open(os.path.join(t.folder, "x.log"), encoding="utf-8")]
    host = [r for r in log if r.get("insn") == "X_HOST"][0]
    t.expect("asynchronous, with inner values", host.get("asynchronous") and len(host["values"]) == 64, str(host)[:200])
    full = t.dump(source, "l2:2:1:u8", many, "--load", "host:64=in.bin")
    t.equal("its latency, then the CVO that needs it", engine(full, "ACP")["busy"], 100)
    t.expect("a hazard", engine(full, "SFU")["stalls"]["raw"] > 90 if "stalls" in engine(full, "SFU") else full["cycles"] > 110, str(full)[:300])
    for mode in ("--timing-only", "--functional"):
        other = json.loads(t.output("run", source, mode, "--json", extension=many))["result"]
        t.equal(mode, other["cycles"], full["cycles"] if mode == "--timing-only" else 0)
    # The first byte of l2[2] is 63 (0x3f), then l2[2] is as before, then again.
    script = t.write("steps.txt", "continue\nprint l2:2:1:u8\nback 2\nprint l2:2:1:u8\nstep\nprint l2:2:1:u8\nquit\n")
    shown = re.findall(r"(?m)^l2:0x2 +(\d+)$", t.output("debug", source, "--load", "host:64=in.bin", "-q", "-x", script, extension=many))
    t.equal("back and forth", shown, ["63", "0", "63"])
    p = t.start("run", t.write("u.s", "        .target pccx\n        x.unsteady\n"), extension=many)
    t.expect("ranges that change", p.returncode == 1 and "other ranges" in p.stderr, p.stderr)
    # OpenNPU: x + 10 y on binary32 lanes, and a store of four planes.
    source = t.write("v.s", "        .target opennpu\n        .profile test\n        ld.vr vr1, a(vr7)\n        ld.vr vr2, b(vr7)\n"
                     "        v.add10 vr3, vr1, vr2\n        st.vr vr3, c(vr7)\n        st.planes vr3, vr6\n        .data\n"
                     "z:      .zero 32\na:      .f32 1, 2, 3, 4, 5, 6, 7, 0\nb:      .f32 0.5, -1, 0, 2, 1, 1, 1, 1e-39\nc:      .zero 32\n")
    t.output("run", source, "--dump", "mem:c:8:f32=c.bin", "--dump", "mem:z:32:u8=z.bin", extension=many)
    got = open(os.path.join(t.folder, "c.bin"), "rb").read()
    t.equal("lanes", struct.unpack("<8f", got), (6, -8, 3, 24, 15, 16, 17, 0)) # the last one is subnormal
    t.equal("planes", open(os.path.join(t.folder, "z.bin"), "rb").read(), bytes(got[4 * lane + plane] for plane in range(4) for lane in range(8)))
    stored = t.dump(source, "mem:z:1:u8", many)
    t.equal("store path", stored["paths"]["store"]["bytes"] if isinstance(stored["paths"], dict) else 64, 64)
    # CMDQ: 64 bytes of SPM reversed, behind a load that is deferred; then x + 10 y.
    load = lambda address, bank: {"opcode": "DMA_LOAD_TILE", "tensor_role": "activation", "qbits": 8, "dram_addr": address, "spm_bank": bank, "spm_offset": 0, "num_elements": 64}
    queue = {"cmdq": [
        load(0, 0), {"opcode": "VE_REVERSE_TILE", "deps_before": [0], "ve_id": 0, "in_bank": 0, "in_offset": 0, "out_bank": 1, "out_offset": 16},
        {"opcode": "VE_ADD10_TILE", "deps_before": [1], "ve_id": 1, "in_bank": 0, "in_offset": 0, "in2_bank": 1, "in2_offset": 16, "out_bank": 2,
         "out_offset": 0, "length": 64, "qbits_activation": 8, "qbits_out": 32}, {"opcode": "END", "deps_before": [2]}]}
    path = t.write("q.json", json.dumps(queue))
    t.output("run", path, "--load", "dram:0=in.bin", "--dump", "spm:1:16:64:u8=r.bin", "--dump", "spm:2:0:64:f32=s.bin", extension=many)
    t.equal("reversed", open(os.path.join(t.folder, "r.bin"), "rb").read(), data[::-1])
    t.equal("sums", struct.unpack("<64f", open(os.path.join(t.folder, "s.bin"), "rb").read()), tuple(i + 10 * (63 - i) for i in range(64)))
    two = json.loads(t.output("run", path, "--load", "dram:0=in.bin", "--dump", "spm:2:0:64:f32", "--json", "--threads", "2", extension=many))
    one = json.loads(t.output("run", path, "--load", "dram:0=in.bin", "--dump", "spm:2:0:64:f32", "--json", extension=many))
    t.expect("two threads", two["result"]["dumps"] == one["result"]["dumps"] and two["result"]["cycles"] == one["result"]["cycles"])
    queue["cmdq"][2]["deps_before"] = []
    p = t.start("check", t.write("h.json", json.dumps(queue)), extension=many)
    t.expect("a missing dependency", p.returncode == 1 and "TV-Q040" in p.stderr, p.stderr)


def a_sweep_does_not_mix_results(t):
    t.write("multiply.s", MULTIPLY.replace("cvo.mul l2[0], l2[1]", "cvo.exp l2[0], l2[1]").replace("cvo.mul l2[1], l2[0], len=8, accm", ""))
    spec = t.write("space.ini", "[sweep]\nobjectives = cycles\n[workload w]\nprogram = multiply.s\n[target pccx]\ncvo.tail = 2, 4\n")
    computed = lambda extension: re.search(r"(\d+) results computed", t.output("sweep", spec, "-o", "space.db", extension=extension))[1]
    t.equal("results computed", [computed(None), computed(None), computed("multiply"), computed("multiply")], ["2", "0", "2", "0"])


def bad_extensions_are_rejected(t):
    for name, old, new, code, text in REJECTED:
        more, define = ("", DEFINE.replace(old, new)) if old else (new, DEFINE)
        source = t.write("bad.c", ROW % {"more": more, "define": define, "resolve": "return tv_operation_reject(op, \"no\");"})
        p = t.start("isa", "pccx", extension=t.compile(source, "bad", ("-w",)))
        t.expect(name, p.returncode == 2 and "[%s]" % code in p.stderr and text in p.stderr and not p.stdout, p.stderr)
    p = t.start("isa", "pccx", extension=t.write("text.so", "no shared object"))
    t.expect("another file", p.returncode == 2 and "TV-X001" in p.stderr, p.stderr)
    p = t.start("isa", "pccx", extension=os.path.join(t.folder, "missing.so"))
    t.expect("a missing file", p.returncode == 2 and "TV-F001" in p.stderr, p.stderr)
    p = t.start("isa", "pccx", "--extension", t.examples["multiply"], extension="multiply")
    t.expect("twice", p.returncode == 2 and "already" in p.stderr, p.stderr)
    p = t.start("isa", "pccx", "--extension", t.examples["multiply"], "--extension", t.examples["tile"], extension="round")
    t.expect("several", p.returncode == 0 and "cvo.mul" in p.stdout, p.stderr)


def an_instruction_that_rejects_is_a_fault(t):
    cases = [("return tv_operation_reject(op, \"no %d\", 7);", "no 7"), ("return 0;", "rejects"),
             ("tv_operation_reads(op, \"l2\", 1u << 20, 16); return 1;", "TV-P010"),
             ("tv_operation_writes(op, \"host\", 0, 16); return 1;", "ACP"),
             ("tv_operation_writes(op, \"spm\", 0, 16); return 1;", "spm"),
             ("return (int)tv_operation_field(op, \"len\");", "no field 'len'"),
             ("return (int)tv_operation_parameter(op, \"len\");", "no parameter 'len'"),
             ("tv_operation_reads(op, \"l2\", 0, 0); return 1;", "0 bytes"),
             ("for (int i = 0; i < 9; i++) tv_operation_reads(op, \"l2\", 0, 16); return 1;", "ranges")]
    program = t.write("f.s", "        .target pccx\n        cvo.f l2[0], l2[1], len=8\n")
    for body, text in cases:
        source = t.write("bad.c", ROW % {"more": ".elements = 0, .resolve = resolve, .execute = execute", "define": DEFINE, "resolve": body})
        p = t.start("run", program, extension=t.compile(source, "bad", ("-w",)))
        t.expect(body, p.returncode == 1 and text in p.stderr, p.stderr)
        p = t.start("check", program, extension=os.path.join(t.folder, "bad.so"))
        t.expect("check: " + body, p.returncode == 1 and text in p.stderr, p.stderr)


def main():
    options = suites.parse_arguments(__doc__, "build")
    t = Extensions(options.build, options)
    t.run_tests([examples_are_short, the_product_is_exact, random_products_are_rounded_once, every_command_knows_pccx, pccx_takes_the_stated_cycles,
                 a_language_model_uses_the_product, a_tile_is_loaded, an_opcode_rounds, a_network_uses_the_opcode, other_forms_execute, a_sweep_does_not_mix_results, bad_extensions_are_rejected,
                 an_instruction_that_rejects_is_a_fault], t)
    sys.exit(t.finish())


if __name__ == "__main__":
    main()
