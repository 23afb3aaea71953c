# SPDX-License-Identifier: Apache-2.0
"""Runs one libFuzzer target for some seconds, with seeds from the project's examples.

usage: run.py TARGET SOURCE_ROOT TRIVET SECONDS"""
import glob
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import models  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# The longest input of each target, in bytes.
LENGTHS = {"asm": 512, "codec": 8, "config": 1024, "debug": 1024, "elf": 8192, "gguf": 16384, "json": 2048, "npy": 512, "onnx": 2048, "queue": 4096,
           "run_cmdq": 1024, "run_opennpu": 512, "run_pccx": 512, "tokenizer": 1024, "trace": 4096, "commit_log": 2048, "memory_file": 512, "measurements": 512, "rules": 1024, "coverage": 2048,
           "sweep": 2048}
WORDS = re.compile(r'"\.?[a-z][a-z0-9_.]*"')


def gguf_string(text):
    return struct.pack("<Q", len(text)) + text


def gguf_seeds():
    """A model with every type that is read, with either tokenizer, and llama2.c checkpoints."""
    tensors = [(0, 1, 4), (1, 1, 2), (30, 1, 2), (2, 32, 18), (3, 32, 20), (6, 32, 22), (7, 32, 24), (8, 32, 34), (20, 32, 18), (10, 256, 84),
               (11, 256, 110), (12, 256, 144), (13, 256, 176), (14, 256, 210), (23, 256, 136), (21, 256, 110)]  # the last one is not read
    for model in (b"llama", b"gpt2"):
        tokens = [b"<unk>", b"<s>", b"</s>", b"<0x0A>", b"\xe2\x96\x81", b"a", b"b", b"ab", "\u0120".encode()]
        key = lambda name, kind: gguf_string(b"tokenizer.ggml." + name) + struct.pack("<I", kind)
        metas = [key(b"model", 8) + gguf_string(model), key(b"tokens", 9) + struct.pack("<IQ", 8, len(tokens)) + b"".join(map(gguf_string, tokens)),
                 key(b"scores", 9) + struct.pack("<IQ9f", 6, 9, *range(9)), key(b"token_type", 9) + struct.pack("<IQ9i", 5, 9, 2, 3, 3, 6, 1, 1, 1, 1, 1),
                 key(b"merges", 9) + struct.pack("<IQ", 8, 1) + gguf_string(b"a b"), gguf_string(b"general.alignment") + struct.pack("<II", 4, 32),
                 gguf_string(b"a") + struct.pack("<IQ", 10, 7), gguf_string(b"b") + struct.pack("<Id", 12, 1.5), gguf_string(b"c") + struct.pack("<I?", 7, True)]
        head, data = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(metas)) + b"".join(metas), b""
        for kind, weights, size in tensors:
            head += gguf_string(b"t%d" % kind) + struct.pack("<IQIQ", 1, weights, kind, len(data))
            data += bytes(i * 37 % 256 for i in range(size)) + bytes(-size % 32)
        yield head + bytes(-len(head) % 32) + data
    yield struct.pack("<7i", 4, 2, 1, 2, 1, 3, 1) + bytes(4 * (12 + 4 + 16 + 8 + 8 + 16 + 4 + 24 + 4 + 2))
    yield from models.seeds()
    yield struct.pack("<4sI7iBI", b"24ka", 2, 4, 4, 1, 2, 1, 3, 1, 1, 2).ljust(256, b"\0") + bytes(4 * 12 + 3 * (12 + 16 + 8 + 8 + 16 + 48))


def tokenizer_seeds():
    yield b"\1" + b"\1a\n\2ab\n\1\xe2\x96\x81a\n\n" + b"ab a\xc3\xa9"
    yield b"\x19" + b"\4<x>\n\4aa\n\3<|end|>\n\1a\n\n" + b"aa<x>a <|end|> a<s>"
    for pre in range(70):
        yield b"\2" + bytes([pre]) + b"a\nb\nab\n\xc4\xa0\na b\n\xc4\xa0 ab\n\n" + b"ab  ab's 12\n\xe6\x97\xa5"


def trace_seeds(root, trivet, folder):
    """Runs of every machine in both forms, and one compressed."""
    for name in ("pccx/attention.s", "opennpu/clamp.s", "cmdq/prefetch.json"):
        machine = os.path.dirname(name)
        subprocess.run([trivet, "run", "-q", os.path.join(root, "examples", name), "--trace", os.path.join(folder, machine + ".json"), "--perfetto", os.path.join(folder, machine + ".perfetto.json")],
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        subprocess.run([trivet, "trace", "convert", os.path.join(folder, machine + ".json"), "-o", os.path.join(folder, machine + ".pftrace")], check=False)
    subprocess.run([trivet, "trace", "convert", os.path.join(folder, "pccx.json"), "-o", os.path.join(folder, "pccx.json.zst")], check=False)
    with open(os.path.join(folder, "members.json"), "w") as file:
        file.write('{"version":"2.0","run_metadata":{"target":"cmdq","clock_hz":1e9,"engines":["TE0"]},"config_snapshot":{"npu.te":"3"},"timeline_events":[\n'
                   '{"type":"STALL_EVENT","engine":"TE","engine_id":1,"cmdq_id":2,"layer_id":"l","op":"A","start_cycle":0,"end_cycle":9,'
                   '"details":{"reason":"raw","waits_for":1,"x":[1.5]},"y":null},\n'
                   '{"type":"TOKEN_EVENT","engine":null,"cmdq_id":0,"op":"decode","start_cycle":0,"end_cycle":3,"details":{"tokens":1}}],'
                   '"bandwidth_samples":[{"cycle":0,"window_cycles":64,"dram_read_bytes":1.5}],"summary_metrics":{"cycles_total":9,"engines":{"TE0":{'
                   '"active_cycles":1,"idle_cycles":1,"stalled_cycles":{"raw":7}}},"paths":{"p":{"bytes":3}}},"z":{}}')


def onnx_seeds():
    """A model with nodes, attributes that are a tensor, numbers and a graph, and initializers of several types."""
    def field(number, value):
        if isinstance(value, int):
            return bytes([number << 3, value])
        value = value.encode() if isinstance(value, str) else value
        return bytes([number << 3 & 127 | 2 | 128 * (number > 15)]) + (b"\1" if number > 15 else b"") + bytes([len(value)]) + value

    def tensor(kind, number, data):
        return field(1, 2) + field(1, 2) + field(2, kind) + field(8, "w") + field(number, data)

    initializers = [tensor(1, 4, bytes(16)), tensor(1, 9, bytes(16)), tensor(7, 7, bytes(4)), tensor(22, 5, bytes(2)), tensor(10, 9, bytes(8)),
                    tensor(3, 13, field(1, "location") + field(2, "w.bin")) + field(14, 1)]
    inner = field(1, field(1, "x") + field(2, "y") + field(4, "Relu"))
    attributes = [field(1, "axis") + field(3, 1) + field(20, 2), field(1, "value") + field(5, initializers[0]), field(1, "body") + field(6, inner)]
    node = field(1, "x") + field(1, "w") + field(2, "z") + field(4, "MatMul") + b"".join(field(5, a) for a in attributes)
    value = field(1, "x") + field(2, field(1, field(1, 1) + field(2, field(1, field(1, 2)) + field(1, field(2, "n")))))
    graph = [field(1, node[:127]), field(1, inner), field(11, value), field(12, value)]
    yield field(1, 8) + field(8, field(2, 13)) + field(7, b"".join(graph[1:])) + field(2, "a")
    for data in initializers:
        yield field(7, field(5, data))
    yield field(7, field(1, field(4, "Constant") + field(5, attributes[1])))
    yield field(7, field(1, field(4, "If") + field(5, attributes[2])))


def npy_seeds():
    """Arrays of every element type in the three versions, and headers with other spacing and order."""
    def npy(version, header, data):
        head = header.encode() + b" " * (-len(header) % 16) + b"\n"
        return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(head)) + head + data

    for i, kind in enumerate(("|b1", "|i1", "<i2", ">i4", "<i8", "|u1", ">u2", "<u4", ">u8", "<f2", ">f4", "<f8")):
        for order in (False, True):
            yield npy(1 + i % 3, "{'descr': '%s', 'fortran_order': %s, 'shape': (2, 3, 1), }" % (kind, order), bytes(range(6 * int(kind[2]))))
    yield npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (), }", bytes(4))
    yield npy(3, '{"shape":(0,),"fortran_order":True,"descr":"=f8"}', b"")
    yield npy(2, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3L,), }", bytes(12))


def json_seeds(root):
    """Documents in chunks of several sizes (fuzz_json.c)."""
    for chunk, path in enumerate(sorted(glob.glob(os.path.join(root, "examples", "cmdq", "*.json")))):
        with open(path, "rb") as file:
            yield bytes([chunk]) + file.read(3000)
    yield b'\4{"a": [1, -2.5e3, 18446744073709551616, true, false, null, "\\u00e9\\n"], "b": {}, "c": []}'


def debug_seeds(root):
    """What people type, and what editors send; the first byte says which (fuzz_debug.c)."""
    for kind, name in enumerate(("pccx", "opennpu", "cmdq")):
        for path in glob.glob(os.path.join(root, "tests", "debug", "*.cmd")):
            with open(path, "rb") as file:
                yield bytes([kind]) + file.read()
    requests = [("setBreakpoints", {"source": {"path": "fuzz.s"}, "breakpoints": [{"line": 3, "condition": "l2:0 == 0"}]}), ("threads", {}),
                ("setFunctionBreakpoints", {"breakpoints": [{"name": "copy+1"}]}), ("setInstructionBreakpoints", {"breakpoints": [{"instructionReference": "0x2", "offset": 1}]}),
                ("dataBreakpointInfo", {"name": "l2:8"}), ("setDataBreakpoints", {"breakpoints": [{"dataId": "l2 8 16", "accessType": "readWrite"}]}),
                ("continue", {"threadId": 1}), ("stackTrace", {"threadId": 1}), ("scopes", {"frameId": 1}), ("variables", {"variablesReference": 6, "start": 2, "count": 3}),
                ("variables", {"variablesReference": 1}), ("next", {"threadId": 1, "granularity": "instruction"}), ("stepBack", {}), ("reverseContinue", {}), ("pause", {}),
                ("readMemory", {"memoryReference": "l2 3", "offset": -2, "count": 40}), ("writeMemory", {"memoryReference": "host:8", "offset": 1, "data": "AQIDBA=="}),
                ("disassemble", {"memoryReference": "0x1", "instructionOffset": -2, "instructionCount": 9}), ("completions", {"text": "inf", "column": 4}),
                ("evaluate", {"expression": "info regi", "context": "repl"}), ("restart", {}), ("disconnect", {})]
    messages = [json.dumps({"seq": i, "type": "request", "command": command, "arguments": arguments}).encode() for i, (command, arguments) in enumerate(requests)]
    framed = [b"Content-Length: %d\r\n\r\n" % len(m) + m for m in messages]
    yield b"\3" + b"".join(framed)
    for m in framed:
        yield b"\3" + m


def memory_file_seeds():
    """Words of every width, with addresses, comments and undefined digits; arrays; bytes."""
    texts = [b"// a\n1 2 /* b\n*/ 3\n", b"@1 7 @0 5", b"xZ 1_2 @2 F", b"0 1\n2 3"]
    for kind in range(15):
        for text in texts:
            yield bytes([kind, 3, 0]) + text
        yield bytes([kind, 3, 2]) + bytes(24)
    for data in npy_seeds():
        yield bytes([1, 6, 1]) + data


def sweep_seeds():
    """Specifications of sweeps in both syntaxes."""
    for name in sorted(glob.glob(os.path.join(ROOT, "examples", "sweeps", "*.ini"))):
        with open(name, "rb") as file:
            yield file.read()
    yield (b"[sweep]\nobjectives = tokens/s, max cost\n[workload a]\nmodel = a.json\nposition = 3\ntokens = 1\n[workload b]\nnetwork = b.onnx\n"
           b"dim.n = 2\n[target pccx]\nprofile = kv260\ngemv.parallel_lane = cores, lanes\nacp.bytes_per_cycle = 8, 32/3\n"
           b"constraint = (gemv.cores + 1) * 2 <= 1Ki and l2.words % 8 == 0\n[expressions]\ncost = cycles / gemv.cores\n")
    yield (b'{"objectives": ["cycles", "c"], "search": "nsga2", "budget": 9, "expressions": {"c": "l2.words / 2"}, "workloads": {"a": {"program": "a.s"}},'
           b' "targets": {"pccx": {"profile": "kv260", "parameters": {"l2.words": [64, "1Ki..64Ki * 2"]}, "constraints": ["l2.words > 3"]}}}')


def measurements_seeds():
    """Tables of measurements: every column, quotation marks, comments, line ends, damage."""
    yield b"program,cycles,bytes\na.s,100,64\nb.s,1.5e3,\n"
    yield b"\xef\xbb\xbfname,time_us,program,bytes:dram read+dram write\r\n\"a \"\"b\"\"\",2.5,\"c,\nd\",7\r\n# end"
    yield b"program,cycles,time_ns\na,,3\nb,0,x\n\"c"


def rules_seeds():
    """Rules of a comparison: every key, waivers, damage."""
    yield (b"[rule CVO_* l2]\ntype = bf16\nsteps = 1\nnan = yes\nzero = yes\nflush = yes\nmask = 0xfff0\n"
           b"[rule * emax]\nignore = yes\n[rule GEMV sum]\nrequired = yes\nrelative = 1e-3\nabsolute = 0.5\n")
    yield b"[waive wrong-data/CVO_SIN/l2]\nreason = the table of the design ends at pi\n"
    yield b"[rule CVO_*]\nsteps = -1\n; no\n[other]\nx\n"


def coverage_seeds():
    """Coverages: hits, reasons, another target, damage."""
    header = b'{"coverage":1,"target":"pccx","instructions":5}\n'
    yield header + b'{"group":"instruction","bin":"GEMV","hits":3,"goal":1}\n{"group":"fault","bin":"l2-range","hits":0,"goal":1}\n'
    yield header + b'{"group":"instruction","bin":"GEMV","hits":-3}\n'
    yield b'{"coverage":1,"target":"cmdq","instructions":5}\n'


def seed(kind, root, trivet, folder):
    for path in glob.glob(os.path.join(root, "fuzz", "corpus", kind, "*")):
        shutil.copy(path, folder)
    sources = sorted(glob.glob(os.path.join(root, "examples", "*", "*.s")) + glob.glob(os.path.join(root, "tests", "golden", "**", "*.s"), recursive=True))
    if kind == "queue":
        for path in glob.glob(os.path.join(root, "tests", "queue", "*.json*")):
            shutil.copy(path, folder)
    elif kind == "config":
        for path in glob.glob(os.path.join(root, "configs", "*.ini")):
            shutil.copy(path, folder)
    elif kind == "asm":
        for i, path in enumerate(sources):
            shutil.copy(path, os.path.join(folder, "%d.s" % i))
    elif kind == "trace":
        trace_seeds(root, trivet, folder)
    elif kind in ("gguf", "tokenizer", "debug", "json", "memory_file", "measurements", "rules", "coverage", "npy", "onnx", "sweep"):
        for i, data in enumerate({"gguf": gguf_seeds, "tokenizer": tokenizer_seeds, "debug": lambda: debug_seeds(root), "onnx": onnx_seeds, "npy": npy_seeds, "memory_file": memory_file_seeds, "measurements": measurements_seeds, "rules": rules_seeds, "coverage": coverage_seeds, "sweep": sweep_seeds,
                                   "json": lambda: json_seeds(root)}[kind]()):
            with open(os.path.join(folder, "%d.seed" % i), "wb") as file:
                file.write(data)
    elif kind in ("elf", "run_pccx", "run_opennpu"):
        ending = "elf" if kind == "elf" else "bin"
        # A quarter is enough for the three seconds of ./test. Looking for leaks would double the time of a short command.
        for i, path in enumerate(sources[::4] if "TRIVET_SAMPLE" in os.environ else sources):
            subprocess.run([trivet, "asm", "-q", path, "-o", os.path.join(folder, "%d.%s" % (i, ending))],
                           env=dict(os.environ, ASAN_OPTIONS="detect_leaks=0"), stderr=subprocess.DEVNULL, check=False)


def assembly_words(root):
    """Mnemonics, operands and directives, from the tables of the instruction sets and of the assembler."""
    words = set()
    for name in ("isa/pccx/insns.def", "isa/opennpu/insns.def", "isa/pccx/fields.def", "isa/opennpu/fields.def", "asm/directives.c", "asm/expr.c"):
        with open(os.path.join(root, "src", name), encoding="utf-8") as f:
            words.update(word.strip('"') for word in WORDS.findall(f.read()))
    return words


def dictionary(kind, root, folder):
    """libFuzzer's option for the words of a source, a queue or a trace, which it would not guess."""
    if kind not in ("asm", "npy", "queue", "trace"):
        return []
    words = set()
    path = os.path.join(folder, "words.dict")
    if kind == "asm":
        with open(path, "w") as f:
            f.writelines('"%s"\n' % word for word in sorted(assembly_words(root)))
        return ["-dict=" + path]
    if kind == "npy":
        with open(path, "w") as f:
            f.writelines('"%s"\n' % word for word in ("'descr'", "'fortran_order'", "'shape'", "False", "True", "'<f4'", "'>u2'", "'|b1'", "(2, 3)", "\\x93NUMPY"))
        return ["-dict=" + path]
    if kind == "trace":
        with open(os.path.join(root, "src", "trace", "fields.def")) as f:
            words.update((word, "") for word in re.findall(r'"(\w+)"', f.read()))
    for name in ("fields.def", "opcodes.def", "isa.c") if kind == "queue" else ():
        with open(os.path.join(root, "src", "isa", "cmdq", name)) as f:
            words.update(re.findall(r'"([a-z][a-z0-9_]+)"|TV_OPCODE\((\w+)', f.read()))
    with open(path, "w") as f:
        f.writelines('"\\"%s\\""\n' % (a or b) for a, b in sorted(words))
    return ["-dict=" + path]


def main():
    target, root, trivet = (os.path.abspath(path) for path in sys.argv[1:4])
    seconds = sys.argv[4]
    kind = os.path.basename(target).replace("fuzz_", "", 1)
    corpus, artifacts = tempfile.mkdtemp(prefix="trivet-fuzz-"), tempfile.mkdtemp(prefix="trivet-fuzz-found-")
    seed(kind, root, trivet, corpus)
    seconds = os.environ.get("TRIVET_FUZZ_SECONDS", seconds)
    result = subprocess.run([target, "-max_total_time=" + seconds, "-timeout=20", "-rss_limit_mb=4096", "-max_len=%d" % LENGTHS[kind], "-print_final_stats=1",
                             "-artifact_prefix=" + artifacts + "/"] + dictionary(kind, root, artifacts) + [corpus],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=corpus)
    text = result.stdout.decode("utf-8", "replace")
    print(text[-6000:] if result.returncode else "\n".join(line for line in text.splitlines() if line.startswith("stat::")))
    shutil.rmtree(corpus, ignore_errors=True)
    if result.returncode:
        print("the input is in", artifacts)
    else:
        shutil.rmtree(artifacts, ignore_errors=True)
    return 1 if result.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
