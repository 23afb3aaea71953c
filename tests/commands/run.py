#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The command line as its users see it: the JSON envelope of every command against docs/json.schema.json.

run.py TRIVET MODEL
"""

import glob
import json
import math
import os
import pty
import re
import shutil
import select
import signal
import statistics
import struct
import subprocess
import sys

TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path[:0] = [TESTS, os.path.join(TESTS, "report")]
from suite import ROOT, Suite, parse_arguments, sample  # noqa: E402
import report_data  # noqa: E402
import schema  # noqa: E402

STATUS = {0: ("ok",), 1: ("fault", "findings"), 2: ("invalid",), 3: ("failed",)}


class Commands(Suite):
    def __init__(self, trivet, model, options):
        super().__init__(trivet, options)
        self.model = os.path.abspath(model)
        with open(os.path.join(ROOT, "docs", "json.schema.json"), encoding="utf-8") as f:
            self.schema = json.load(f)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as f:
            f.write(text)
        return self.path(name)

    def call(self, *arguments, data=None, env=None):
        """The exit status, standard output and standard error, as texts."""
        p = subprocess.run([self.trivet, *arguments], input=data, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           timeout=120, check=False, text=True, env=env and dict(os.environ, **env))
        return p.returncode, p.stdout, p.stderr

    def envelope(self, want, *arguments):
        """Checks the envelope of a command that ends with exit status `want`; returns it."""
        name = " ".join(arguments).replace(self.folder, "…")
        code, out, err = self.call(*arguments, "--json")
        try:
            found = json.loads(out)
        except ValueError:
            self.check(name, "no JSON: %.200r %.200r" % (out, err))
            return {"status": None, "diagnostics": [], "result": None}
        self.equal(name + ": exit status", code, want)
        self.expect(name + ": status", found["status"] in STATUS[want], found["status"])
        self.equal(name + ": command", found["command"], arguments[0])
        self.equal(name + ": schema", schema.errors(found, self.schema, self.schema), [])
        self.expect(name + ": the way out", code < 2 or any(d["severity"] == "error" for d in found["diagnostics"]), err)
        return found


# ---- The envelope

HAZARD = "examples/cmdq/missing_dependency.json"


def envelopes_of_results(t):
    """Every command, in every form of its result."""
    source, trace = "examples/pccx/softmax.s", t.path("t.json")
    for machine, file, other in (("pccx", source, "elf"), ("cmdq", "examples/cmdq/ffn.json", "jsonl")):
        t.envelope(0, "asm", file, "-o", t.path("p." + other))
        t.envelope(0, "dis", file)
        t.envelope(0, "check", file)
        t.envelope(0, "run", file, "--trace", trace)
        t.envelope(0, "trace", trace)
        t.envelope(0, "trace", "diff", trace, trace)
        t.envelope(0, "config", machine + {"pccx": "-kv260", "cmdq": "-mobile"}[machine])
        t.envelope(0, "isa", machine)
    t.envelope(0, "dis", source, "--explain", "--uops")
    t.envelope(0, "dis", "-t", "pccx", "--word", "0xf000000000000000", "--explain")
    t.envelope(0, "run", source, "--dump", "l2:0x10:4:bf16", "--dump", "emax:0:1")
    t.envelope(0, "run", source, "--dump", "l2:0x10:4:bf16=" + t.path("d.memh"))
    t.envelope(0, "run", source, "--compare", "l2:0x10:4:bf16=" + t.path("d.memh"))
    t.envelope(1, "run", source, "--compare", "l2:0x10:4:bf16=" + t.write("w.memh", "@1 1234"))
    t.envelope(0, "isa")
    t.envelope(0, "config")
    table = t.write("m.csv", "program,time_us,bytes\n" + 2 * (os.path.join(ROOT, source) + ",0.5,\n") + os.path.join(ROOT, source) + ",0.7,64\n")
    t.envelope(0, "validate", table)
    t.envelope(0, "validate", table, "--fit", "acp.setup,gemv.setup", "-o", t.path("m.ini"))
    t.envelope(1, "validate", table, "--limit", "1e-3", "--consistency")
    t.envelope(0, "config", t.path("m.ini"), "-D", "acp.setup=65")
    t.envelope(0, "run", source, "-c", t.path("m.ini"), "-D", "acp.setup=65")
    t.envelope(0, "targets")
    t.envelope(0, "version")
    info = t.envelope(0, "llm", t.model, "--info")["result"]
    t.equal("--info: layers", info["dims"]["layers"], sum("attn_q.weight" in x["name"] for x in info["tensors"]))
    t.expect("--dump-graph", len(t.envelope(0, "llm", t.model, "--dump-graph")["result"]["graph"]) > 10)
    text = t.call("llm", t.model, "-p", "ROMEO:", "-n", "5", "-q")[1]
    got = t.envelope(0, "llm", t.model, "-p", "ROMEO:", "-n", "5")["result"]
    t.equal("llm has the text", got["targets"][0]["text"], text)
    t.equal("llm was not interrupted", got["interrupted"], False)
    t.envelope(0, "llm", t.model, "-t", "cmdq", "-n", "2", "--verify")
    t.envelope(0, "llm", t.model, "-t", "cmdq", "-n", "2", "--timing-only")
    t.envelope(0, "llm", t.model, "--eval", t.write("e.txt", "To be, or not to be"), "-n", "10")


def envelopes_of_failures(t):
    """Nothing ends without an envelope; what the text forms print as warnings and errors is in it."""
    strict = t.envelope(1, "run", HAZARD, "--strict")
    t.equal("hazards with --strict", (strict["status"], strict["result"], strict["diagnostics"][0]["code"]), ("findings", None, "TV-Q040"))
    run = t.envelope(0, "run", HAZARD)
    t.equal("a warning of a successful run", [d["code"] for d in run["diagnostics"]], ["TV-Q040"])
    t.equal("errors of check", t.envelope(1, "check", HAZARD)["status"], "findings")
    fault = t.write("fault.s", ".target pccx\n memset fmap_shape[0], 16, 1, 1\n cvo.exp l2[0x1fff0], l2[0], len=16\n")
    t.equal("a fault", t.envelope(1, "run", fault, "-D", "l2.words=1024")["status"], "fault")
    wrong = t.write("wrong.s", ".target pccx\n frobnicate\n")
    for arguments in (("asm", wrong), ("dis", wrong), ("check", wrong), ("run", wrong), ("debug", wrong)):
        t.equal(arguments[0] + " of a wrong source", t.envelope(2, *arguments)["diagnostics"][0]["code"], "TV-A002")
    for arguments in (("trace", wrong), ("llm", wrong), ("config", "nowhere"), ("isa", "vax"), ("isa", "pccx", "frob"), ("asm",), ("run",),
                      ("run", wrong, "--frobnicate"), ("run", "--color", "pink", wrong), ("dis",), ("trace", "convert", "a"), ("debug",),
                      ("llm", t.model, "-n", "x"), ("targets", "x"), ("frobnicate", "x"), ("asm", wrong, "-o", "-"),
                      ("run", wrong, "--trace", "-")):
        t.envelope(2, *arguments)
    t.envelope(3, "asm", "examples/pccx/softmax.s", "-o", t.path("nowhere/x.elf"))


# ---- Values

# bits and values; 0.1 in binary32 is 0x3dcccccd, exactly 13421773 / 2^27
ELEMENTS = (("bf16", "H", [(0x411F, 9.9375), (0x0001, 2.0 ** -133), (0x8000, -0.0), (0x7F7F, 255 * 2.0 ** 120), (0x7FC0, "nan")]),
            ("f16", "H", [(0x0001, 2.0 ** -24), (0x3555, 1365 / 4096), (0x7BFF, 65504.0), (0xFC00, "-inf")]),
            ("f32", "I", [(0x3DCCCCCD, 13421773 / 2 ** 27), (0x00000001, 2.0 ** -149), (0x7F7FFFFF, 16777215 * 2.0 ** 104)]))


def values_are_exact(t):
    for name, code, rows in ELEMENTS:
        with open(t.path("e.bin"), "wb") as f:
            f.write(struct.pack("<%d%s" % (len(rows), code), *(bits for bits, _ in rows)))
        want = [repr(value) for _, value in rows]
        where = "host:0:%d:%s" % (len(rows), name)
        got = t.envelope(0, "run", "examples/pccx/softmax.s", "--until", "0", "--load", "host:0=" + t.path("e.bin"), "--dump", where)
        t.equal("run --dump " + name, [repr(v) for v in got["result"]["dumps"][0]["values"]], want)
        out = t.call("debug", "examples/pccx/softmax.s", "-q", "--json", "--load", "host:0=" + t.path("e.bin"), data="x %s\n" % where)[1]
        t.equal("debug x " + name, [repr(v) for v in json.loads(out)["memory"]["values"]], want)


# ---- Profiles

def profiles_name_their_machine(t):
    ini = t.write("my.ini", "[gemv]\ncores = 8\n\n[profile]\ntarget = pccx\n")
    want = t.call("config", "-t", "pccx", "-D", "gemv.cores=8")[1].replace("[override]", "[%s:2]" % ini)
    for arguments in ((ini,), ("-c", ini), ("-t", "pccx", "-c", ini), ("-c", ini, "-t", "pccx")):
        t.equal("config " + " ".join(arguments), t.call("config", *arguments)[:2], (0, want))
    t.equal("a short name", t.call("config", "mobile"), t.call("config", "cmdq-mobile"))
    t.equal("a short name by -c", t.call("config", "-c", "kv260"), t.call("config", "pccx-kv260"))
    for name, hint in (("kv26", "did you mean 'kv260'?"), ("pccx-kv26", "did you mean 'pccx-kv260'?"), ("zzzzzz", "`trivet config` lists")):
        got = t.envelope(2, "config", name)["diagnostics"][0]
        t.expect("no such profile: " + name, got["code"] == "TV-C004" and hint in got["hint"], got)
    bare = t.write("bare.ini", "[gemv]\ncores = 8\n")
    t.equal("a file without a machine", t.envelope(2, "config", bare)["diagnostics"][0]["code"], "TV-U008")
    other = t.envelope(2, "run", "examples/pccx/softmax.s", "-c", "mobile")["diagnostics"]
    t.equal("a profile of another machine", [(d["code"], d["hint"]) for d in other], [("TV-C004", "'cmdq-mobile' is a profile of cmdq")])


def first_errors_stand_alone(t):
    """A wrong -t and a profile of another machine are one error each; -q hides no warning."""
    ini = t.write("cmdq.ini", "[npu]\nte = 2\nve = 2\n[profile]\ntarget = cmdq\n")
    for code, arguments in (("TV-A016", ("-t", "opennpu", "examples/pccx/softmax.s")), ("TV-A016", ("-t", "vax", "examples/pccx/softmax.s")),
                            ("TV-C006", ("examples/pccx/softmax.s", "-c", ini))):
        t.equal("run " + " ".join(arguments), [d["code"] for d in t.envelope(2, "run", *arguments)["diagnostics"]], [code])
    wrong = t.write("vax.s", ".target vax\n frob\n frob\n")
    t.equal("an unknown target", [d["code"] for d in t.envelope(2, "run", wrong)["diagnostics"]], ["TV-A016"])
    t.expect("run -q reports hazards", "[TV-Q040]" in t.call("run", "-q", HAZARD)[2])


def saved_outputs_exist(t):
    folder = t.path("out")
    got = t.envelope(2, "run", "examples/pccx/softmax.s", "--save-outputs", folder)
    t.equal("no outputs are declared", [d["code"] for d in got["diagnostics"]], ["TV-U011"])
    os.mkdir(folder)
    got = t.envelope(0, "run", "examples/cmdq/prefetch.json", "--until", "3", "--save-outputs", folder)
    t.equal("the run stops early", ([d["code"] for d in got["diagnostics"]], os.listdir(folder)), (["TV-U011"], []))
    got = t.envelope(0, "run", "examples/cmdq/prefetch.json", "--save-outputs", folder)
    t.equal("outputs", sorted(os.listdir(folder)), sorted(name + ".bin" for name in got["result"]["outputs"]))


# ---- Examples of the help texts

def help_files(t):
    """The files that the examples name."""
    folder = t.path("help")
    os.makedirs(os.path.join(folder, "common"))
    os.symlink(os.path.join(ROOT, "models"), os.path.join(folder, "models"))
    for name, source in (("softmax.s", "pccx/softmax.s"), ("gemm.s", "pccx/softmax.s"), ("decode.s", "pccx/softmax.s"), ("random.s", "pccx/softmax.s"), ("generated.s", "pccx/softmax.s"), ("ffn.json", "cmdq/ffn.json")):
        with open(os.path.join(ROOT, "examples", source), encoding="utf-8") as f:
            t.write("help/" + name, f.read())
    t.write("help/my.ini", "[profile]\ntarget = pccx\n[gemv]\ncores = 8\n")
    t.write("help/known.ini", "; no mismatch is known\n")
    t.write("help/commands.txt", "step\nwhy\n")
    t.write("help/measured.csv", "program,cycles\nsoftmax.s,240\ngemm.s,250\ndecode.s,260\n")
    t.write("help/space.ini", "[workload softmax]\nprogram = softmax.s\n[target pccx]\ngemv.cores = 1, 2\ncvo.tail = 1..8\n")
    os.makedirs(os.path.join(folder, "results"))
    # a design that rejects each program, or retires no instruction
    os.chmod(t.write("help/bench", '#!/bin/sh\n[ "$2" = --log ] || exit 3\nhead -1 design.log > "$3"\n'), 0o755)
    t.write("help/text.txt", "To be, or not to be: that is the question.")
    t.write("help/weights.bin", "weights!" * 8)
    for arguments in (("asm", "softmax.s", "-o", "gemv.elf"), ("asm", "softmax.s", "-o", "model.elf"), ("asm", "softmax.s", "-o", "random.elf"), ("asm", "softmax.s"),
                      ("run", "-q", "softmax.s", "--trace", "run.json"), ("run", "-q", "softmax.s", "--trace", "run.json.zst"),
                      ("run", "-q", "softmax.s", "--dump", "l2:0x20:64:bf16=want.memh"), ("run", "-q", "softmax.s", "--commit-log", "design.log"),
                      ("run", "-q", "softmax.s", "--trace", "before.json"), ("run", "-q", "softmax.s", "--trace", "after.json")):
        subprocess.run([t.trivet, *arguments], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return folder


def protobuf(*fields):
    """A message: (number, integer or bytes) pairs."""
    def varint(n):
        return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)
    return b"".join(varint(number << 3 | (0 if isinstance(value, int) else 2)) +
                    (varint(value) if isinstance(value, int) else varint(len(value)) + value) for number, value in fields)


def write_network(path, name, dims, output):
    """An ONNX file: Softmax of an input of these extents, of which texts are names."""
    def value(what):
        extents = [(1, protobuf((2, d.encode()) if isinstance(d, str) else (1, d))) for d in dims]
        return protobuf((1, what.encode()), (2, protobuf((1, protobuf((1, 1), (2, protobuf(*extents)))))))
    node = protobuf((1, name.encode()), (2, output.encode()), (4, b"Softmax"))
    graph = protobuf((1, node), (2, b"g"), (11, value(name)), (12, value(output)))
    with open(path, "wb") as f:
        f.write(protobuf((1, 7), (7, graph), (8, protobuf((2, 13)))))


def write_npy(path, dims):
    """A .npy file of zeros of binary32."""
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': %s, }" % (tuple(dims),)
    header = header.ljust(117) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + bytes(4 * math.prod(dims)))


def network_files(t):
    """The networks that the examples name, of one operator each."""
    write_network(t.path("help/digits.onnx"), "image", [1, 64], "scores")
    write_network(t.path("help/resnet50.onnx"), "input", [1, 128], "output")
    write_network(t.path("help/bert.onnx"), "input", ["batch", "sequence"], "output")
    write_npy(t.path("help/three.npy"), [1, 64])
    os.makedirs(t.path("help/samples"))
    write_npy(t.path("help/samples/image.npy"), [1, 64])
    folder = t.path("help")
    subprocess.run([t.trivet, "compile", "digits.onnx", "-t", "cmdq", "-o", "compiled"], cwd=folder, check=True, stdout=subprocess.DEVNULL)


def examples_of_help_texts_work(t):
    folder = help_files(t)
    network_files(t)
    path = os.path.dirname(t.trivet) + os.pathsep + os.environ["PATH"]
    commands = re.findall(r"^  ([a-z]+) ", t.call("help")[1], re.M)
    t.expect("trivet help lists the commands", len(commands) >= 13, commands)
    for command in sample(commands):
        text = t.call(command, "--help")[1]
        examples = re.findall(r"^  (.*\btrivet .*?)(?:  +#.*)?$", text[text.index("\nexamples:\n"):], re.M)
        t.expect(command + " has examples", examples)
        for example in examples:
            p = subprocess.run(["bash", "-c", "set -o pipefail; " + example], cwd=folder, env=dict(os.environ, PATH=path), stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300, check=False, text=True)
            t.check(example, p.returncode and "exit status %d: %s" % (p.returncode, p.stdout[-400:]))


def codes_are_explained(t):
    """A code is found by its number and its name, in text and JSON; tests/manual checks every explanation."""
    code, out, _ = t.call("explain", "tv-p010")
    parts = re.findall(r"^(?:TV-P010 l2-range: |usual cause:|example:|what to do:)", out, re.M)
    t.equal("by code", (code, len(parts), parts[-1:]), (0, 4, ["what to do:"]))
    t.equal("by name", t.call("explain", "l2-range")[1], out)
    t.equal("as JSON", t.envelope(0, "explain", "TV-P010")["result"]["name"], "l2-range")
    t.expect("all", len(t.envelope(0, "explain")["result"]) > 170)
    t.expect("unknown", "did you mean 'TV-P010'" in t.envelope(2, "explain", "TV-P01O")["diagnostics"][0]["hint"])


def manual_page_names_the_environment(t):
    page = t.call("completion", "man")[1]
    section = page[page.index(".SH ENVIRONMENT"):page.index('.SH "EXIT STATUS"')]
    for name in ("TRIVET_KERNELS", "NO_COLOR", "LC_ALL, LC_CTYPE, LANG"):
        t.expect(name, "\n.B %s\n" % name in section, section)


def options_are_checked(t):
    """Values, combinations and names that a command rejects, before anything runs."""
    source, queue, other = "examples/pccx/softmax.s", "examples/cmdq/ffn.json", "examples/pccx/chained.s"
    trace = t.path("options.json")
    t.envelope(0, "run", source, "--trace", trace)
    hot = t.write("hot.s", ".target pccx\n memset fmap_shape[0], 16, 1, 1\n")
    for arguments in sample((
            ("asm", source, "--format", "coff"), ("asm", queue, "--format", "elf"), ("asm", source, "-o", t.path("a.elf"), "-l", t.path("a.elf")),
            ("asm", source, "-D", "=1"), ("asm", source, source),
            ("dis", "--word", "0x0"), ("dis", source, "--word", "0x0"), ("dis", "-t", "cmdq", "--word", "0x0"), ("dis", "-t", "opennpu", "--word", "0x100000000"),
            ("dis", "-t", "pccx", "--word", "word"), ("dis", "-t", "vax", "--word", "0"),
            ("run", source, "--threads", "0"), ("run", source, "--threads", "257"), ("run", source, "--threads", "x"), ("run", source, "--load", "l2:0"),
            ("run", source, "--load", "l2:0:bf16:4=" + hot), ("run", source, "--load", "nowhere:0=" + hot), ("run", source, "--load", "l2:0=" + t.path("none")),
            ("run", source, "--dump", "l2:0"), ("run", source, "--dump", "l2:0:9999999999"), ("run", source, "--dump", "l2:0:4:x"), ("run", source, "--dump", "nowhere:0:4"),
            ("run", source, "--until", "nowhere"), ("run", source, "--until", "nowhere+x"), ("run", source, "--until", "x" * 300), ("run", source, "--max-cycles", "many"),
            ("run", source, "--max-cycles", ""), ("run", source, "--timing-only", "--save-outputs", t.path("saved")), ("run", source, "--timing-only", "--functional"),
            ("run", source, "--functional", "--trace", t.path("x.json")), ("run", source, "--functional", "--report", t.path("x.html")), ("run", source, queue),
            ("run", source, "-D", "gemv.cores"), ("run", source, "-D", "k" * 300 + "=1"), ("run", source, "--trace", t.path("x.json"), "--perfetto", t.path("x.json")),
            ("run", source, "--dump", "l2:0:4", "--trace", "-"), ("run", source, "--save-outputs", t.path("saved")),
            ("run", source, other, "--save-outputs", t.path("saved")), ("run", source, "--line-limit", "0"),
            ("debug", source, "--snapshot-memory", "0"), ("debug", source, "--snapshot-memory", "x"), ("debug", source, "--snapshot-memory", "99999999999Gi"),
            ("debug", source, "--snapshot-memory", "1Xi"), ("debug", source, "--timing-only", "--functional"), ("debug", source, "--threads", "0"), ("debug", source, "--threads", "257"),
            ("debug", source, "--threads", "x"), ("debug", source, "--load", "l2:0"), ("debug", source, "--load", "l2" * 300 + "=x"), ("debug", source, "--script", t.path("none")),
            ("debug", source, "--script", t.folder), ("debug", source, "--dap"),
            ("trace", trace, "--top", "x"), ("trace", trace, "--top", "1000001"), ("trace", trace, "-o", t.path("x.csv")), ("trace", "convert", trace, "--to", "csv"),
            ("trace", "convert", trace, trace, "-o", t.path("x.csv")), ("trace", "convert", trace, "--to", "gif", "-o", t.path("x.gif")), ("trace", "diff", trace),
            ("trace", "diff", trace, trace, "--fail-above", "x"), ("trace", "diff", trace, trace, "--fail-above", "-1"), ("trace", "diff", trace, trace, "--fail-above", "1e9"),
            ("trace", "diff", trace, trace, "--fail-above", "5x"), ("trace", "diff", "-", "-"),
            ("config", "--set", "gemv.cores=8"), ("config", "-t", "vax"), ("config", "-t", "x" * 300), ("config", "kv260", "-t", "opennpu"),
            ("isa", "pccx", "--json-schema"), ("explain", "TV-X999"), ("explain", "nothing at all"), ("explain", "TV-P012", "x"),
            ("completion", "tcsh"), ("completion", "bash", "x"), ("help", "frobnicate"), ("help", "rnu"),
            ("llm", t.model, "--temperature", "x"), ("llm", t.model, "--temperature", "-1"), ("llm", t.model, "--top-p", "2"), ("llm", t.model, "--top-p", "0.5x"),
            ("llm", t.model, "--context", "0"), ("llm", t.model, "--prompt-tokens", "x"), ("llm", t.model, "--threads", "300"), ("llm", t.model, "--weight-bits", "5"),
            ("llm", t.model, "--weight-bits", "9"), ("llm", t.model, "--activation-bits", "9"), ("llm", t.model, "--activation-bits", "17"), ("llm", t.model, "--seed", "x"),
            ("llm", t.model, "--system", "x"), ("llm", t.model, "--quantization"), ("llm", t.model, "--info", "--quantization"),
            ("llm", t.model, "--info", "--quantization", "-t", "host"), ("x" * 70,), ("run", source, "--" + "x" * 70), ("run", source, "--r"), ("run", source, "-Z"))):
        code, out, err = t.call(*arguments, data="")
        t.expect("%.100s is rejected" % " ".join(arguments).replace(t.folder, "…"), code == 2 and "error: " in err and "TV-" in err, (code, out[:200], err[:300]))
    t.equal("nothing was written", [f for f in ("a.elf", "x.json", "x.html", "x.csv", "x.gif", "saved") if os.path.exists(t.path(f))], [])


def colors_add_escapes_only(t):
    """--color always prints what --color never prints, with escape sequences; NO_COLOR and auto print none into a pipe."""
    fault = t.write("fault_color.s", ".target pccx\n memset fmap_shape[0], 16, 1, 1\n cvo.exp l2[0x1fff0], l2[0], len=16\n")
    for arguments in (("run", "examples/pccx/softmax.s"), ("run", fault, "-D", "l2.words=1024"), ("run", "examples/pccx/softmax.s", "--timing-only"),
                      ("run", "examples/pccx/softmax.s", "--until", "3"), ("run", "examples/pccx/softmax.s", "--max-cycles", "50"),
                      ("check", HAZARD), ("asm", t.write("wrong_color.s", ".target pccx\n frobnicate\n"))):
        plain, colored = t.call(*arguments, "--color", "never"), t.call(*arguments, "--color", "always")
        t.equal(" ".join(arguments[:2]) + " without its escapes", tuple(re.sub("\033\\[[0-9;]*m", "", str(c)) for c in colored), tuple(map(str, plain)))
        t.expect(" ".join(arguments[:2]) + " has escapes", "\033[" in colored[1] + colored[2], colored)
        t.equal(" ".join(arguments[:2]) + " in a pipe", t.call(*arguments), plain)
        t.equal(" ".join(arguments[:2]) + " with NO_COLOR", t.call(*arguments, env={"NO_COLOR": "1"}), plain)


def model_options_are_checked(t):
    got = t.envelope(2, "llm", t.model, "--eval", t.write("empty.txt", ""))["diagnostics"][0]
    t.expect("--eval of an empty file", got["code"] == "TV-U004" and "is empty" in got["message"], got)
    text = t.write("text.txt", "To be, or not to be")
    got = t.envelope(2, "llm", t.model, "-n", "0")["diagnostics"][0]
    t.equal("-n 0 has the range", got["hint"], "1 to 4294967295")
    for arguments, message, hint in ((("-n", "300"), "a prompt of 16 tokens and 300 tokens after it need 316 positions; the context holds 256",
                                      "at most 240 tokens after the prompt fit"),
                                     (("-n", "5", "--prompt-tokens", "260"),
                                      "a prompt of 260 tokens and 5 tokens after it need 265 positions; the context holds 256",
                                      "a prompt of at most 256 tokens fits"),
                                     (("-n", "30", "--context", "40"), "a prompt of 16 tokens and 30 tokens after it need 46 positions; the context holds 40",
                                      "at most 24 tokens after the prompt fit; the context can be up to 256, the positions of the model")):
        got = t.envelope(2, "llm", t.model, "-t", "cmdq", "--timing-only", *arguments)["diagnostics"][0]
        t.equal("--timing-only " + " ".join(arguments), (got["code"], got["message"], got["hint"]), ("TV-L004", message, hint))
    for arguments in (("-D", "gemv.cores=8"), ("-t", "host", "-D", "gemv.cores=8"), ("-c", "kv260"), ("-t", "host", "--eval", text, "-c", "kv260")):
        got = t.envelope(2, "llm", t.model, "-n", "2", *arguments)["diagnostics"][0]
        t.expect("parameters of the host: " + " ".join(arguments), got["code"] == "TV-U006" and "the host has none" in got["message"], got)
    for arguments, code in ((("-t", "all", "-D", "gemv.core=8"), "TV-C001"), (("-t", "cmdq", "--eval", text, "-c", "nowhere"), "TV-C004"),
                            (("-t", "vax", "--eval", text), "TV-U008")):
        got = t.envelope(2, "llm", t.model, "-n", "2", *arguments)
        t.equal("nothing runs before an error: " + " ".join(arguments), ([d["code"] for d in got["diagnostics"]], got["result"]), ([code], None))
    t.envelope(0, "llm", t.model, "-t", "all", "-n", "2", "-D", "gemv.cores=8")
    for n, warnings in (("12", []), ("13", ["TV-L042"])):
        got = t.envelope(0, "llm", t.model, "-p", "ROMEO:", "--context", "18", "-n", n, "--temperature", "0")
        t.equal("a text of %s tokens in a context of 18" % n, [d["code"] for d in got["diagnostics"]], warnings)
    full = t.envelope(0, "llm", t.model, "-t", "cmdq", "--timing-only", "-n", "24", "--context", "40")["result"]["targets"][0]
    t.equal("a full context", (full["prompt_tokens"], full["tokens"]), (16, 24))


def evaluations_have_standard_errors(t):
    """The likelihood of each token follows from the means of growing texts."""
    text, means = t.write("e.txt", "To be, or not to be: that is the question."), [0]
    for n in range(1, 11):
        got = t.envelope(0, "llm", t.model, "--eval", text, "-n", str(n))["result"]["targets"][0]
        t.equal("evaluated", got["evaluated"], n)
        means.append(got["nats"])
        nats = [k * means[k] - (k - 1) * means[k - 1] for k in range(1, n + 1)]
        want = n > 1 and statistics.stdev(nats) / math.sqrt(n)
        if n == 1:
            t.equal("one token has no error", (got["nats_error"], got["perplexity_error"]), (None, None))
        else:
            t.expect("standard error of %d tokens" % n, math.isclose(got["nats_error"], want, rel_tol=1e-5), (got, want))
            t.expect("of the perplexity", math.isclose(got["perplexity_error"], want * math.exp(got["nats"]), rel_tol=1e-5), got)
        t.expect("perplexity", math.isclose(got["perplexity"], math.exp(got["nats"]), rel_tol=1e-7), got)
    row = t.call("llm", t.model, "--eval", text, "-n", "10")[1].splitlines()[1]
    t.expect("the table has them, too", "%.4f ± %.4f" % (got["perplexity"], got["perplexity_error"]) in row, row)


def on_terminal(t, arguments, shown):
    """Runs a command with standard error on a terminal, presses Ctrl-C when `shown` is there. Returns the exit status, standard
    output, the terminal's text."""
    master, slave = pty.openpty()
    child = subprocess.Popen([t.trivet, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=slave, text=True)
    os.close(slave)
    text, sent = b"", False
    while select.select([master], [], [], 60)[0]:
        try:
            text += os.read(master, 4096)
        except OSError: # the terminal's other side is closed
            break
        if not sent and shown in text.decode("utf-8", "replace"):
            sent = True
            child.send_signal(signal.SIGINT)
    os.close(master)
    if not sent:
        child.kill()
    return child.wait(60), child.stdout.read(), text.decode("utf-8", "replace")


def interrupted_work_is_reported(t):
    dims = t.write("dims.json", json.dumps(dict(hidden_size=288, intermediate_size=768, num_hidden_layers=6, num_attention_heads=6,
                                                vocab_size=32000, max_position_embeddings=32000)))
    for name, arguments in (("timing [", (dims, "--timing-only", "-n", "31000")),
                            ("evaluating [", (t.model, "--eval", os.path.join(ROOT, "data", "tinyshakespeare.txt"), "-n", "600000"))):
        code, out, shown = on_terminal(t, ("llm", *arguments, "-t", "cmdq", "-D", "spm.bank_bytes=64Mi"), name)
        t.expect(name + " progress", name in shown and " %" in shown, shown)
        t.equal(name + ": exit status", code, 0)
        rows = re.findall(r"^  (cmdq|host) +([0-9,]+) ", out, re.M)
        t.expect(name + ": the table has what is done", len(rows) == 1 and int(rows[0][1].replace(",", "")) < 600000 and "nan" not in out, out)


def tables_are_for_people(t):
    """Thousands separators, layers by number, and only ASCII where the locale has no UTF-8."""
    dims = t.write("layers.json", json.dumps(dict(hidden_size=64, intermediate_size=128, num_hidden_layers=12, num_attention_heads=2,
                                                  vocab_size=300, max_position_embeddings=64)))
    timed = ("llm", dims, "-t", "cmdq", "--timing-only", "-n", "3", "--prompt-tokens", "5", "--trace", t.path("layers.trace"))
    session = t.envelope(0, *timed)["result"]["targets"][0]
    t.expect("llm: cycles a token", "{:,.0f}".format(session["cycles"] / 3) in t.call(*timed)[1].split(), session)
    got = t.envelope(0, "trace", t.path("layers.trace"))["result"]
    numbered = [row["name"] for row in got["layers"] if row["name"].startswith("blk.")]
    t.equal("layers by number", numbered, ["blk.%d" % i for i in range(12)])
    out = t.call("trace", t.path("layers.trace"), "-n", "40")[1]
    t.equal("the table, too", re.findall(r"^  (blk\.\d+) ", out, re.M), numbered)
    t.expect("trace: cycles", ", {:,} cycles,".format(got["cycles"]) in out and got["cycles"] > 1000, out)
    program = "examples/cmdq/prefetch.json"
    cycles = t.envelope(0, "run", program)["result"]["cycles"]
    for locale, utf8 in (("C.UTF-8", True), ("C", False), ("POSIX", False), ("xx_YY.UTF-8", True), ("xx_YY.ISO-8859-1", False)):
        for arguments in (("run", program), ("trace", t.path("layers.trace"), "-n", "2"), ("llm", t.model, "--eval", t.write("e.txt", "To be"))):
            out = t.call(*arguments, env={"LC_ALL": locale})[1]
            t.equal("%s in %s" % (arguments[0], locale), out.isascii(), not utf8)
        bars = re.findall(r"^  (\w+) +(#*) +([0-9.]+) %", t.call("run", program, env={"LC_ALL": "C"})[1], re.M)
        t.expect("bars of 20 columns", bars and all(len(bar) == round(float(busy) / 5) for _, bar, busy in bars), bars)
    t.equal("LANG counts without LC_ALL", t.call("run", program, env={"LC_ALL": "", "LC_CTYPE": "", "LANG": "C"})[1].isascii(), True)
    t.equal("no locale is C", t.call("run", program, env={"LC_ALL": "", "LC_CTYPE": "", "LANG": ""})[1].isascii(), True)
    t.expect("run: cycles", " {:,} cycle".format(cycles) in t.call("run", program)[1], cycles)


def statistics_are_the_same_everywhere(t):
    """`run --json`, the head of a report, and where it has the same members the summary of a trace."""
    for program, options in (("examples/pccx/softmax.s", ()), ("examples/opennpu/tanh.s", ("-c", "test")), ("examples/cmdq/ffn.json", ())):
        run = t.envelope(0, "run", program, *options, "--report", t.path("r.html"), "--trace", t.path("r.json"))["result"]
        head = report_data.Report(t.path("r.html")).head
        stats = head["stats"]
        t.equal(program + ": energy of a report", head["energy"], run["energy"])
        t.equal(program + ": a report", stats, {key: run.get(key) for key in stats})
        t.expect(program + ": every figure", set(run) - set(stats) <= {"target", "stop", "fault", "dumps", "outputs", "energy"}, set(run) - set(stats))
        trace = t.envelope(0, "trace", t.path("r.json"))["result"]
        for key in ("cycles", "clock_hz", "seconds", "instructions", "macs", "peak_macs_per_cycle", "engines", "bound_by"):
            t.equal("%s: %s of a trace" % (program, key), trace[key] or run[key], run[key])
        sums = {reason: sum(e["stalled"].get(reason, 0) for e in run["engines"].values()) for reason in run["stall_reasons"]}
        t.equal(program + ": stall reasons", run["stall_reasons"], sums)
        t.equal(program + ": bytes", run["bytes"], {name: path["bytes"] for name, path in run["paths"].items()})


MASKED = """        .target pccx
        memset  fmap_shape[0], 35000, 2, 1
        memcpy  l2[0], host[0], shape=0
        cvo.exp l2[0x4000], l2[0], len=4464
"""


def masked_values_of_a_driver(t):
    """Before a run, in its report, and as errors with --strict."""
    with open(t.path("masked.s"), "w", encoding="utf-8") as f:
        f.write(MASKED)
    run = t.envelope(0, "run", t.path("masked.s"), "--report", t.path("masked.html"))
    t.equal("run reports a masked length", [(d["code"], d["severity"], d["index"], d["line"]) for d in run["diagnostics"]], [("TV-P037", "warning", 2, 4)])
    head = report_data.Report(t.path("masked.html")).head
    t.equal("the head of a report has it", (head["finding_count"], [(f["code"], f["index"], f["source"]) for f in head["findings"]]),
            (1, [("TV-P037", 2, t.path("masked.s") + ":4")]))
    t.expect("with its message", "4464, which is 70000 modulo 2^16" in head["findings"][0]["message"], head["findings"])
    strict = t.envelope(1, "run", t.path("masked.s"), "--strict")
    t.equal("masked values with --strict", (strict["status"], strict["diagnostics"][0]["severity"]), ("findings", "error"))
    t.equal("without the check", t.envelope(0, "run", t.path("masked.s"), "--no-hazards")["diagnostics"], [])
    hazards = t.envelope(0, "run", HAZARD, "--report", t.path("hazard.html"))["diagnostics"]
    head = report_data.Report(t.path("hazard.html")).head
    t.equal("hazards in a report", [f["code"] for f in head["findings"]], [d["code"] for d in hazards if d["severity"] != "note"][:100])


def examples_run_alone(t):
    """`trivet run FILE` and `trivet check FILE` of every example, without options; a run on another machine is an error."""
    skipped = (".expect.json", "/digits/pccx.s", "/digits/opennpu.s", "/digits/cmdq.json")  # the digits have generated files beside them
    files = [f for f in sorted(glob.glob(os.path.join(ROOT, "examples/*/*.s")) + glob.glob(os.path.join(ROOT, "examples/*/*.json")))
             if not f.endswith(skipped)]
    t.expect("there are examples of each machine", len(files) > 15, files)
    for path in sample(files):
        name = os.path.relpath(path, ROOT)
        t.envelope(0, "run", name)
        t.envelope(1 if name == HAZARD else 0, "check", name)
        if "/opennpu/" in name:
            text = open(path, encoding="utf-8").read()
            own, other = ("test", "top") if ".profile test" in text else ("top", "test")
            t.expect(name + " names its profile", "\n        .profile %s\n" % own in text)
            t.equal(name + " on another machine", t.envelope(2, "run", name, "-c", other)["diagnostics"][0]["code"], "TV-C009")
            elf = t.path("x.elf")
            t.envelope(0, "asm", name, "-o", elf)
            t.envelope(0, "run", elf)


def inputs_are_not_overwritten(t):
    """No output replaces an input, however its path is spelled."""
    os.makedirs(t.path("way"), exist_ok=True)
    trace = t.path("way/t.json")
    with open(os.path.join(ROOT, "examples/cmdq/ffn.json"), encoding="utf-8") as f:
        queue = t.write("way/q.json", f.read())
    source = t.write("way/s.s", ".target pccx\n memset fmap_shape[0], 16, 1, 1\n")
    profile = t.write("way/p.ini", "dma.count = 1\n")
    data = t.write("way/y.bin", "0123456789abcdef")
    t.write("way/b.bin", "0123456789abcdef" * 4)
    t.write("way/i.inc", " memset fmap_shape[0], 16, 1, 1\n")
    t.write("way/w.bin", "0123456789abcdef")
    names = t.write("way/names.s", '.target pccx\n .include "i.inc"\n .data\n .org 0\n .incbin "b.bin"\n')
    filled = t.write("way/filled.json", json.dumps({"metadata": {"version": "1.2", "dram_init": [{"addr": 0, "file": "w.bin"}]},
                                                    "cmdq": [{"opcode": "END"}]}))
    t.envelope(0, "run", queue, "--trace", trace)
    spellings = []
    for name in ("t.json", "q.json", "s.s", "p.ini", "y.bin", "b.bin", "i.inc", "w.bin", "m.gguf"):
        if name == "m.gguf":
            os.link(shutil.copy(t.model, t.path("way/copy.gguf")), t.path("way/m.gguf"))
        os.symlink(name, t.path("way/soft-" + name))
        os.link(t.path("way/" + name), t.path("way/hard-" + name))
        spellings += [name, "./" + name, "../way/" + name, "soft-" + name, "hard-" + name]
    model = t.path("way/m.gguf")
    commands = (("t.json", ("trace", "diff", trace, trace, "--report")), ("t.json", ("trace", "convert", trace, "--to", "csv", "-o")),
                ("s.s", ("asm", source, "-o")), ("s.s", ("asm", source, "-o", t.path("way/o.elf"), "-l")), ("q.json", ("asm", queue, "-o")),
                ("q.json", ("run", queue, "--trace")), ("q.json", ("run", queue, "--perfetto")), ("q.json", ("run", queue, "--report")),
                ("p.ini", ("run", queue, "-c", profile, "--trace")), ("y.bin", ("run", queue, "--load", "dram:0=" + data, "--report")),
                ("b.bin", ("asm", names, "-o")), ("i.inc", ("asm", names, "-o", t.path("way/o.elf"), "-l")), ("b.bin", ("run", names, "--trace")),
                ("w.bin", ("run", filled, "--report")), ("w.bin", ("asm", filled, "-o")),
                ("m.gguf", ("llm", model, "-t", "cmdq", "-n", "1", "--trace")), ("m.gguf", ("llm", model, "-t", "all", "-n", "1", "--report")))
    for name, arguments in commands:
        for spelling in sample(s for s in spellings if s.endswith(name) and "." in s):
            before = open(t.path("way/" + name), "rb").read()
            code, _, err = t.call(*arguments, t.path("way/") + spelling)
            t.expect("%s … %s" % (" ".join(arguments[:2]).replace(t.folder, "…"), spelling), code == 2 and "[TV-U007]" in err, (code, err))
            t.expect(spelling + " is as before", open(t.path("way/" + name), "rb").read() == before and not os.path.islink(t.path("way/" + name)))
    outputs = {"metadata": {"version": "1.2", "outputs": [{"name": "y", "dram_addr": 0, "num_elements": 16, "qbits": 8}]}, "cmdq": [{"opcode": "END"}]}
    code, _, err = t.call("run", t.write("way/out.json", json.dumps(outputs)), "--load", "dram:0=" + data, "--save-outputs", t.path("way/../way"))
    t.expect("--save-outputs", code == 2 and "[TV-U007]" in err, (code, err))


def main():
    options = parse_arguments(__doc__, "trivet", "model")
    t = Commands(options.trivet, options.model, options)
    t.run_tests([envelopes_of_results, envelopes_of_failures, values_are_exact, profiles_name_their_machine,
                 first_errors_stand_alone, saved_outputs_exist, examples_of_help_texts_work,
                 codes_are_explained, manual_page_names_the_environment, options_are_checked, colors_add_escapes_only, model_options_are_checked,
                 evaluations_have_standard_errors, interrupted_work_is_reported, tables_are_for_people,
                 statistics_are_the_same_everywhere, masked_values_of_a_driver, inputs_are_not_overwritten, examples_run_alone], t)
    sys.exit(t.finish())


if __name__ == "__main__":
    main()
