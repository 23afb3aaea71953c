#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generated programs: the same seed gives the same program; all run without a fault, on the independent models too, which
have the same memory at the end.

    generated.py TRIVET
"""

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
        for seed in range(5):
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
    changed = 0
    for target, space, model in (("pccx", "host", run_pccx_model), ("opennpu", "mem", run_opennpu_model)):
        for seed in range(10, 14):
            options = ("-n", "150", "--seed", str(seed))
            source = read(generate(t, "m.s", target, *options))
            words = words_of(generate(t, "m.hex", target, *options))
            t.equal("instructions", len(words), 150)
            code, _, err = t.call("run", t.path("m.s"), *MACHINES[target], "-q", "--dump", "%s:0:%d:hex8=%s" % (space, DATA_BYTES, t.path("m.bin")))
            t.expect("run", code == 0, err)
            memory = model(source, words)
            t.expect("%s memory, seed %d" % (target, seed), memory == read(t.path("m.bin"), "rb"))
            changed += memory != data_of(source)
    t.expect("programs that change memory", changed >= 6, changed)


def options_are_checked(t):
    for arguments, error in ((("cmdq",), "TV-V008"), (("pccx", "-n", "0"), "TV-V008"), (("pccx", "-n", "10000001"), "TV-V008"),
                             (("pccx", "-n", "x"), "TV-U004"), (("pccx", "--seed", "x"), "TV-U004"), (("none",), "TV-")):
        code, _, err = t.call("gen", *arguments)
        t.expect(" ".join(arguments), code == 2 and error in err, err)


def main():
    options = suites.parse_arguments(__doc__, "trivet")
    suite = suites.Suite(options.trivet, options)
    suite.run_tests([the_same_seed_gives_the_same_program, programs_run_without_faults, the_independent_models_agree, options_are_checked], suite)
    return suite.finish()


if __name__ == "__main__":
    sys.exit(main())
