#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the conformance suite of a machine: programs that hit all bins of its coverage model, the memory that each leaves,
its commit log, and the coverage.

    suite.py TRIVET TARGET FOLDER [SEED]
"""

import json
import os
import shutil
import subprocess
import sys

SEEDS = {"pccx": "3", "opennpu": "5", "cmdq": "1"}  # of the release: their suites are short
HOST_BYTES = 1 << 20  # of host memory, as far as it is compared
ELEMENTS = {"l2": ("hex16", 2), "const": ("hex16", 2), "emax": ("hex16", 2), "host": ("hex8", 1), "vx": ("hex8", 1),
            "acc": ("hex32", 4), "lut_a": ("hex8", 1), "lut_b": ("hex8", 1), "mem": ("hex8", 1), "spm": ("hex8", 1), "dram": ("hex8", 1)}


class Failed(Exception):
    pass


def call(arguments, folder, statuses=(0,)):
    done = subprocess.run(arguments, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode not in statuses:
        raise Failed("%s: status %d: %s" % (" ".join(arguments), done.returncode, done.stderr[-500:]))
    return done


def written_memory(log):
    """The bytes that the writes of a log leave: {space: {address in bytes: byte}}."""
    memory = {}
    with open(log, encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            for effect in record.get("effects", ()):
                if not effect["write"] or effect.get("queue") or record.get("fault"):
                    continue
                first = effect["addr"] * effect["unit_bytes"]
                data = bytes.fromhex(effect["after"]) if effect.get("after") else bytes(effect["bytes"])
                memory.setdefault(effect["space"], {}).update(zip(range(first, first + len(data)), data))
    return memory


def write_expected(path, memory, size):
    """The elements that are written, whole ones, as $readmemh reads them. Returns the number of elements up to the last."""
    last = None
    with open(path, "w", encoding="ascii") as out:
        for element in sorted({at // size for at in memory}):
            values = [memory.get(element * size + i) for i in range(size)]
            if None in values:
                continue
            if last is None or element != last + 1:
                out.write("@%x\n" % element)
            out.write("%0*x\n" % (2 * size, int.from_bytes(bytes(values), "little")))
            last = element
    return 0 if last is None else last + 1


def split_banks(memory, bank_bytes):
    """The SPM of CMDQ, whose addresses are BANK:OFFSET, as a space for each bank."""
    for at, byte in memory.pop("spm", {}).items():
        memory.setdefault("spm:%d" % (at // bank_bytes), {})[at % bank_bytes] = byte


def bank_bytes_of(log):
    with open(log, encoding="utf-8") as lines:
        text = json.loads(lines.readline())["config"].get("spm.bank_bytes", "1")
    units = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}
    return int(text[:-2]) * units[text[-2:]] if text[-2:] in units else int(text)


def expect_memory(folder, name):
    found, log = [], os.path.join(folder, name + ".jsonl")
    memory = written_memory(log)
    split_banks(memory, bank_bytes_of(log))
    memory["host"] = {at: byte for at, byte in memory.get("host", {}).items() if at < HOST_BYTES}
    for space in sorted(memory):
        kind, size = ELEMENTS[space.split(":")[0]]
        file = "%s.%s.memh" % (name, space.replace(":", ""))
        count = write_expected(os.path.join(folder, file), memory[space], size)
        if count:
            found.append({"range": "%s:0:%d:%s" % (space, count, kind), "file": file})
        else:
            os.unlink(os.path.join(folder, file))
    return found


def add_program(trivet, folder, source):
    name, ending = os.path.splitext(source)
    is_queue = ending == ".json"
    program = source if is_queue else name + ".elf"
    if not is_queue:
        call([trivet, "asm", source, "-q", "-o", program], folder)
        call([trivet, "asm", source, "-q", "-o", name + ".memh"], folder)
    run = call([trivet, "run", program, "-q", "--json", "--commit-log", name + ".jsonl"], folder, (0, 1))
    result = json.loads(run.stdout)["result"]
    call([trivet, "run", program, "-q", "--commit-log", name + ".log.zst"], folder, (0, 1))
    expected = expect_memory(folder, name)
    os.unlink(os.path.join(folder, name + ".jsonl"))
    fault = result["fault"]
    return {"name": name, "source": source, "program": program, "words": None if is_queue else name + ".memh",
            "log": name + ".log.zst", "instructions": result["instructions"], "cycles": result["cycles"], "fault": fault and fault["name"],
            "memory": expected}


def make_suite(trivet, target, seed, folder):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    done = call([trivet, "cover", "-t", target, "--seed", seed, "--close", ".", "-o", "coverage.jsonl", "--html",
                 "coverage.html", "--json"], folder)
    covered = json.loads(done.stdout)["result"]
    sources = sorted(name for name in os.listdir(folder) if name.endswith((".s", ".json")) and name != "suite.json")
    programs = [add_program(trivet, folder, source) for source in sources]
    version = call([trivet, "version"], folder).stdout.split("\n")[0]
    suite = {"suite": 1, "target": target, "made_by": version, "seed": int(seed),
             "coverage": {key: covered[key] for key in ("bins", "covered", "open", "unreachable")}, "programs": programs}
    with open(os.path.join(folder, "suite.json"), "w", encoding="utf-8") as out:
        json.dump(suite, out, indent=1)
        out.write("\n")
    return suite


def main():
    trivet, target, folder = sys.argv[1:4]
    seed = sys.argv[4] if len(sys.argv) > 4 else SEEDS[target]
    try:
        make_suite(os.path.abspath(trivet), target, seed, folder)
    except Failed as error:
        print("suite.py: %s" % error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
