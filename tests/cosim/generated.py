#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generated programs: the same seed gives the same program; all run without a fault, on the independent models too, which
have the same memory at the end.

    generated.py TRIVET
"""

import hashlib
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "oracle"))
import opennpu_oracle  # noqa: E402  pylint: disable=wrong-import-position
import pccx_oracle  # noqa: E402  pylint: disable=wrong-import-position
import suite as suites  # noqa: E402  pylint: disable=wrong-import-position

DATA_BYTES = 4096
MACHINES = {"pccx": ("-c", "pccx-kv260"), "opennpu": ("-c", "opennpu-test")}


# SHA-256 of the source of 3,000 instructions with seed 5: the bytes are the same on every host and in every build.
DIGESTS = {"pccx": "55aeb1b3a4eee790f17eb59012ec0f5ef762dc419df8e047fe063204e0c17fcc",
           "opennpu": "44f6c284824ab12fd7d77c3d942c2be3b9e32ab326942bffb8ba012ee5d7b080",
           "cmdq": "682576a549a38f9445a58efc5849dc4a2d183c9a3ec8b493bc5db47cacbd723d"}
PCCX = ("gemv", "gemm", "memcpy", "memset", "cvo.exp", "cvo.sqrt", "cvo.gelu", "cvo.sin", "cvo.cos", "cvo.reduce_sum", "cvo.scale", "cvo.recip")


def read(path, mode="r"):
    with open(path, mode) as file:  # pylint: disable=unspecified-encoding
        return file.read()


def generate(t, name, target, *options):
    path = t.path(name)
    code, _, err = t.call("gen", target, *MACHINES[target], *options, "-o", path)
    t.expect("gen %s %s" % (target, name), code == 0, err)
    return path


def data_of(source):
    numbers = re.findall("0x([0-9a-f]{2})\\b", source[source.index(".data"):source.index(".text")])
    return bytes(int(n, 16) for n in numbers)


def words_of(path):
    return [int(word, 16) for word in re.sub("//.*", "", read(path)).split()]


def the_same_seed_gives_the_same_program(t):
    for target in MACHINES:
        first, again, other = (read(generate(t, name, target, "-n", "500", "--seed", seed))
                               for name, seed in (("a.s", "3"), ("b.s", "3"), ("c.s", "4")))
        t.expect("same", first == again)
        t.expect("other seed", first.split("\n")[1:] != other.split("\n")[1:])


def programs_run_without_faults(t):
    for target, config in MACHINES.items():
        for seed in suites.sample(range(5)):
            path = generate(t, "run.elf", target, "-n", "1000", "--seed", str(seed))
            code, _, err = t.call("run", path, *config, "-q")
            t.expect("%s seed %d" % (target, seed), code == 0 and not err, err)


def streams_of(source):
    streams = {"gemm": [], "gemv": []}
    for name, addr, size in re.findall(r"wstream (\w+), (\w+), (\w+)", source):
        streams[name].append((int(addr, 16), int(size, 16)))
    return streams


def run_pccx_model(source, words):
    m = pccx_oracle.Machine()
    m.load_host(0, data_of(source))
    m.streams = streams_of(source)
    for word in words:
        m.execute(word)
    return m.host.read(0, DATA_BYTES)


def run_opennpu_model(source, words):
    m = opennpu_oracle.Machine({"K": 8})
    m.load_mem(0, data_of(source))
    for word in words:
        m.step(word)
    return bytes(m.mem.read(0, DATA_BYTES))


def the_independent_models_agree(t):
    changed, seeds = 0, suites.sample(range(10, 14))
    for target, space, model in (("pccx", "host", run_pccx_model), ("opennpu", "mem", run_opennpu_model)):
        for seed in seeds:
            options = ("-n", "150", "--seed", str(seed))
            source = read(generate(t, "m.s", target, *options))
            words = words_of(generate(t, "m.hex", target, *options))
            t.equal("instructions", len(words), 150)
            code, _, err = t.call("run", t.path("m.s"), *MACHINES[target], "-q", "--dump", "%s:0:%d:hex8=%s" % (space, DATA_BYTES, t.path("m.bin")))
            t.expect("run", code == 0, err)
            memory = model(source, words)
            t.expect("%s memory, seed %d" % (target, seed), memory == read(t.path("m.bin"), "rb"))
            changed += memory != data_of(source)
    t.expect("programs that change memory", changed >= 6 * len(seeds) // 4, changed)


def counts_of(t, target, *options):
    code, out, err = t.call("gen", target, *MACHINES[target], "-n", "2000", "--json", *options)
    t.expect("gen " + " ".join(options), code == 0, err)
    return json.loads(out)["result"]


def weights_choose_the_instructions(t):
    counts = counts_of(t, "pccx", "-w", "CVO_EXP=0", "-w", "memcpy=0", "-w", "gemv=30")["counts"]
    t.equal("without", [counts[i] for i in ("CVO_EXP", "MEMCPY_LOAD", "MEMCPY_STORE", "MEMCPY_MOVE")], [0] * 4)
    t.expect("often", counts["GEMV"] > 500 > counts["GEMM"] > 0, counts)
    t.equal("only one", counts_of(t, "opennpu", *(w for i in counts_of(t, "opennpu")["counts"] if i != "VADD" for w in ("-w", i + "=0")))["counts"]["VADD"], 2000)
    result = counts_of(t, "pccx")
    lines = re.findall(r"^ {8}(\w+)", result["source"], re.M)
    t.equal("counts are those of the program", [result["counts"][i] for i in ("GEMV", "GEMM", "MEMSET")], [lines.count(i) for i in ("gemv", "gemm", "memset")])
    t.expect("matrix instructions", result["counts"]["GEMV"] > 50 and result["counts"]["GEMM"] > 50, result["counts"])


def raw_share(source):
    """Sources that are registers written by one of the two instructions before."""
    rows = [re.findall(r"\b(v[xer]\d+)", line) for line in source[source.index(".text"):].split("\n")[1:] if not re.match(r" *st\.", line)]
    hits = [any(s == w[0] for s in r[1:] for w in rows[max(i - 2, 0):i] if w) for i, r in enumerate(rows) if len(r) > 1]
    return sum(hits) / len(hits)


def hazards_are_as_often_as_the_options_say(t):
    shares = [raw_share(counts_of(t, "opennpu", "--raw", n)["source"]) for n in ("0", "900")]
    t.expect("reads of what was written last", shares[1] > 2 * shares[0], shares)
    for seed in ("1", "2"):
        path = generate(t, "h.elf", "pccx", "-n", "1000", "--seed", seed, "--raw", "300", "--war", "300", "--waw", "300")
        code, _, err = t.call("run", path, *MACHINES["pccx"], "-q")
        t.expect("runs", code == 0 and not err, err)


def illegal_words_are_as_often_as_the_option_says(t):
    for target in MACHINES:
        result = counts_of(t, target, "--illegal", "200")
        t.expect("illegal words", 200 < result["illegal"] < 500 and result["instructions"] == 2000, result["illegal"])
        t.equal("the others are counted", sum(result["counts"].values()), 2000 - result["illegal"])
        with open(t.path("i.s"), "w", encoding="ascii") as file:
            file.write(result["source"])
        code, _, err = t.call("asm", "i.s", "-o", "i.elf")
        t.expect("assembles", code == 0, err)
        code, _, err = t.call("run", "i.elf", *MACHINES[target], "-q")
        t.expect("the first one faults", code == 1, err)


def queues_have_every_opcode_and_no_hazards(t):
    for seed in ("1", "2"):
        code, out, err = t.call("gen", "cmdq", "-D", "dma.count=2", "-n", "2000", "--seed", seed, "--json", "-o", "q.json")
        t.expect("gen cmdq", code == 0, err)
        counts = json.loads(out)["result"]["counts"]
        t.expect("every opcode", len(counts) == 29 and all(n > 20 for i, n in counts.items() if i != "END"), counts)
        queue = json.loads(read(t.path("q.json")))["cmdq"]
        t.equal("entries", [len(queue), queue[-1]["opcode"], sum(counts.values())], [2000, "END", 2000])
        fields = set(f for e in queue for f in e)
        t.expect("fields", fields >= {"dma_id", "stride_bytes", "residual_offset", "activation", "wait_group", "kv_range_desc", "broadcast"}, sorted(fields))
        t.equal("DMA channels", {e.get("dma_id") for e in queue if "DMA" in e["opcode"] or "KV" in e["opcode"]}, {None, 0, 1})
        code, out, _ = t.call("check", "q.json", "-D", "dma.count=2", "--json")
        t.equal("errors", [code, json.loads(out)["result"]["errors"]], [0, 0])
        code, out, err = t.call("run", "q.json", "-D", "dma.count=2", "--json")
        t.equal("runs", code, 0)
        hazards = [d["message"] for d in json.loads(out)["diagnostics"] if d["code"] == "TV-Q040"]
        t.equal("hazards", hazards, [])
        t.expect("some wait", 0.1 < sum("deps_before" in e for e in queue) / len(queue) < 0.9, len(queue))


def the_bytes_are_the_same_on_every_host(t):
    for target, digest in DIGESTS.items():
        source = t.call("gen", target, "-n", "3000", "--seed", "5")[1]
        t.equal("SHA-256 of " + target, hashlib.sha256(source).hexdigest(), digest)


def signatures_are_what_programs_computed(t):
    """The signature has the bytes of L2, or of all VR but the last, whose lanes the stores write in order."""
    for target, signature, own in (("pccx", "host:0x10000:262144:hex8", "l2:0:131072:hex16"),
                                   ("opennpu", "mem:0x0:224:hex8", "vr:0:56:hex32")):
        path = generate(t, "signed.s", target, "-n", "1500", "--seed", "8", "--signature")
        first, second = t.path("signature.bin"), t.path("own.bin")
        code, _, err = t.call("run", path, *MACHINES[target], "-q", "--dump", signature + "=" + first, "--dump", own + "=" + second)
        t.expect(target + " runs", code == 0, err)
        t.expect(target + " signature", read(first, "rb") == read(second, "rb") and any(read(first, "rb")))
    code, _, err = t.call("gen", "cmdq", "--signature")
    t.expect("queues", code == 2 and "TV-V008" in err, err)


def options_are_checked(t):
    for arguments, error in ((("cmdq", "--raw", "1"), "TV-V008"), (("cmdq", "-o", "q.elf"), "TV-U004"), (("pccx", "-n", "0"), "TV-V008"), (("pccx", "-n", "10000001"), "TV-V008"),
                             (("pccx", "-n", "x"), "TV-U004"), (("pccx", "--seed", "x"), "TV-U004"), (("pccx", "-w", "vadd=1"), "TV-V008"), (("pccx", "-w", "gemv"), "TV-U004"),
                             (("pccx", "-w", "gemv=1000001"), "TV-U004"), (("pccx", "--raw", "1001"), "TV-U004"), (("pccx", "--war", "600", "--waw", "600"), "TV-V008"),
                             (("pccx", *(w for i in PCCX for w in ("-w", i + "=0"))), "TV-V008"), (("none",), "TV-")):
        code, _, err = t.call("gen", *arguments)
        t.expect(" ".join(arguments), code == 2 and error in err, err)


def main():
    options = suites.parse_arguments(__doc__, "trivet")
    suite = suites.Suite(options.trivet, options)
    suite.run_tests([the_same_seed_gives_the_same_program, programs_run_without_faults, the_independent_models_agree, weights_choose_the_instructions,
                     hazards_are_as_often_as_the_options_say, illegal_words_are_as_often_as_the_option_says, queues_have_every_opcode_and_no_hazards,
                     the_bytes_are_the_same_on_every_host, signatures_are_what_programs_computed, options_are_checked], suite)
    return suite.finish()


if __name__ == "__main__":
    sys.exit(main())
