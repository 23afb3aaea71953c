#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The conformance suites: their programs leave the memory that the suites expect, on the machines and on the independent
models; a wrong machine is noticed.

    suites.py TRIVET [--sanitized]
"""

import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "..", "oracle"), HERE]
import generated  # noqa: E402  pylint: disable=wrong-import-position
import opennpu_oracle  # noqa: E402  pylint: disable=wrong-import-position
import pccx_oracle  # noqa: E402  pylint: disable=wrong-import-position
import suite as suites  # noqa: E402  pylint: disable=wrong-import-position

TOOL = os.path.join(HERE, "..", "..", "tools", "suite.py")
TARGETS = ("pccx", "opennpu", "cmdq")
MODELS = ("pccx", "opennpu")  # which have an independent one that reads their words


def folder_of(t, target):
    return t.path("suite-" + target)


def suite_of(t, target):
    with open(os.path.join(folder_of(t, target), "suite.json"), encoding="utf-8") as file:
        return json.load(file)


def suites_are_made(t):
    for target in t.targets:
        done = subprocess.run([sys.executable, TOOL, t.trivet, target, folder_of(t, target)], check=False,
                              stderr=subprocess.PIPE, text=True)
        t.equal(target, (done.returncode, done.stderr), (0, ""))
        suite = suite_of(t, target)
        t.equal(target + ": open bins", suite["coverage"]["open"], 0)
        t.expect(target + ": programs", len(suite["programs"]) > 10, len(suite["programs"]))
        t.expect(target + ": memory", all(program["memory"] for program in suite["programs"]))


def run_program(t, folder, program, *options):
    compared = [option for memory in program["memory"] for option in ("--compare", memory["range"] + "=" + memory["file"])]
    return t.call("run", program["program"], "-q", *compared, *options, cwd=folder)


def machines_pass(t):
    for target in t.targets:
        for program in suite_of(t, target)["programs"]:
            code, _, err = run_program(t, folder_of(t, target), program)
            fault = program["fault"]
            t.expect("%s %s" % (target, program["name"]),
                     code == (1 if fault else 0) and "TV-U012" not in err and (not fault or fault + "]" in err), err)


def other_machines_fail(t):
    folder, programs = folder_of(t, "pccx"), {p["name"]: p for p in suite_of(t, "pccx")["programs"]}
    code, _, err = run_program(t, folder, programs["program-1"], "-D", "gemv.cores=2")
    t.expect("two cores", code == 1 and "parallel-lane" in err, err)
    code, _, err = run_program(t, folder, programs["program-1"], "-D", "gemm.setup=99")
    t.expect("other cycles, same data", code == 0, err)
    expected = os.path.join(folder, next(m["file"] for m in programs["program-1"]["memory"] if m["range"].startswith("l2")))
    with open(expected, encoding="ascii") as file:
        lines = file.read().split("\n")
    lines[100] = "%04x" % (int(lines[100], 16) ^ 1) if not lines[100].startswith("@") else lines[100]
    lines[101] = "%04x" % (int(lines[101], 16) ^ 1) if not lines[101].startswith("@") else lines[101]
    with open(expected, "w", encoding="ascii") as file:
        file.write("\n".join(lines))
    code, _, err = run_program(t, folder, programs["program-1"])
    t.expect("a wrong bit", code == 1 and "TV-U012" in err, err)


def model_of(target, folder, program):
    with open(os.path.join(folder, program["source"]), encoding="utf-8") as file:
        source = file.read()
    if target == "pccx":
        model = pccx_oracle.Machine()
        model.load_host(0, generated.data_of(source))
        model.streams = generated.streams_of(source)
        execute = model.execute
    else:
        model = opennpu_oracle.Machine({"K": 64})
        model.load_mem(0, generated.data_of(source))
        execute = model.step
    words = generated.words_of(os.path.join(folder, program["words"]))
    for word in words[:-1] if program["fault"] else words:
        execute(word)
    return model


def element_of(model, space, element, bits):
    """An element of the memory of an independent model."""
    if space in ("l2", "const", "emax"):
        return model.dump(space, 0, element + 1)[element] if space != "l2" else int.from_bytes(model.l2[2 * element:2 * element + 2], "little")
    if space == "host":
        return model.host.read(element, 1)[0]
    if space == "mem":
        return model.mem.read(element, 1)[0]
    if space == "vx":
        return model.vx[element // model.K][element % model.K]
    if space == "acc":
        return model.acc[element // model.K][element % model.K] & ((1 << bits) - 1)
    return model.lut[("lut_a", "lut_b").index(space)][element]


def expected_elements(path):
    at = 0
    with open(path, encoding="ascii") as lines:
        for line in lines:
            if line.startswith("@"):
                at = int(line[1:], 16)
            else:
                yield at, int(line, 16)
                at += 1


def independent_models_leave_the_same_memory(t):
    for target in (name for name in MODELS if name in t.targets):
        folder = folder_of(t, target)
        for program in suite_of(t, target)["programs"]:
            model, wrong, count = model_of(target, folder, program), [], 0
            for memory in program["memory"]:
                space, bits = memory["range"].split(":")[0], int(memory["range"].split("hex")[1])
                for element, value in expected_elements(os.path.join(folder, memory["file"])):
                    count += 1
                    found = element_of(model, space, element, bits)
                    if found != value:
                        wrong.append((memory["file"], element, value, found))
            t.expect("%s %s: %d elements" % (target, program["name"], count), count and not wrong, wrong[:4])


def main():
    options = suites.parse_arguments(__doc__, "trivet")
    suite = suites.Suite(options.trivet, options)
    suite.targets = sorted({"pccx", *suites.sample(TARGETS)})  # other_machines_fail reads the one of pccx
    # The independent models are in Python: a sanitizer of the program has nothing to find in them.
    models = [] if options.sanitized else [independent_models_leave_the_same_memory]
    suite.run_tests([suites_are_made, machines_pass, *models, other_machines_fail], suite)
    return suite.finish()


if __name__ == "__main__":
    sys.exit(main())
