#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models of every family on every machine: close to the host, or rejected with the operation that the machine lacks.

    families.py SESSION_LOGITS [--markdown]

Random models with F32 weights, which are quantized to 8 bits, and to 4 where the machine has them. The median over positions of the
cosine similarity of the logits to the host's is at least MEDIAN. The models for 8 bits magnify errors; those for 4 bits are conditioned (random_model.py).
--markdown prints the tables of the manual.
"""

import array
import math
import os
import random
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import random_model  # noqa: E402

MEDIAN, POSITIONS, VOCABULARY, RING = {8: 0.99, 4: 0.97}, 24, 512, 150
MACHINES = ("pccx", "opennpu", "cmdq")
LACKS = {}  # what a family lacks on a machine: a text of the message
FAMILIES = ("llama", "llama3", "llama-linear", "qwen2", "qwen3", "qwen3-yarn", "gemma2", "gemma3", "gemma3n", "phi3", "phi3-long", "gpt2",
            "mixtral", "qwen3moe")


# (family, machine, positions, tokens of a step; 0: all): other lengths of steps, and windows that begin in an earlier block of a cache.
STEPS = (("gemma3", "opennpu", 80, 0), ("gemma2", "opennpu", 20, 1), ("gpt2", "opennpu", 12, 1), ("gemma3n", "opennpu", 6, 1), ("mixtral", "opennpu", 12, 1))


def logits(program, path, tokens, target, bits=8, step=0):
    """Rows of logits, or the first line of the error."""
    done = subprocess.run([program, path, target, str(bits), str(step)], input="\n".join(map(str, tokens)).encode(), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False)
    if done.returncode:
        return done.stderr.decode("utf-8", "replace").split("\n")[0]
    numbers = array.array("f")
    numbers.frombytes(done.stdout)
    return [numbers[i:i + VOCABULARY] for i in range(0, len(numbers), VOCABULARY)]


def cosine(x, y):
    return sum(a * b for a, b in zip(x, y)) / math.sqrt(sum(a * a for a in x) * sum(b * b for b in y))


def compare(program, path, tokens, family, machine, host, bits):
    """(good, cell of the table)"""
    rows = logits(program, path, tokens, machine, bits)
    lacks = LACKS.get((family, machine))
    if isinstance(rows, str):
        return lacks is not None and lacks in rows and "TV-L044" in rows, rows if not lacks else "lacks " + lacks
    values = sorted(cosine(a, b) for a, b in zip(host, rows))
    median = values[len(values) // 2]
    return lacks is None and median >= MEDIAN[bits], "%.4f (%.4f)" % (median, values[0])


def write_biased(path):
    """A model whose gate is no GatedLinear: `up` has a bias."""
    model = random_model.FAMILIES["llama"]({"kind": "F32", "seed": 1, "layers": None, "vocabulary": VOCABULARY, "pre": None, "conditioned": False})
    for layer in range(model.d["layers"]):
        model.bias(f"blk.{layer}.ffn_up", model.d["ff"])
    model.w.save(path)


def measure(program, folder, tokens, bits):
    """Prints the table for a width of weights; returns the number of failures."""
    machines, failed = [m for m in MACHINES if bits == 8 or m != "opennpu"], 0
    print("| %d-bit weights | %s |\n|---|%s" % (bits, " | ".join(machines), "---|" * len(machines)))
    for family in FAMILIES:
        path = os.path.join(folder, family + ".gguf")
        random_model.write(family, path, "F32", 1, conditioned=bits == 4)
        host = logits(program, path, tokens, "host")
        results = [compare(program, path, tokens, family, machine, host, bits) for machine in machines]
        print("| %s | %s |" % (family, " | ".join(cell for _, cell in results)), flush=True)
        failed += sum(not good for good, _ in results)
    print()
    return failed


def measure_steps(program, folder, tokens):
    """Returns the number of failures with STEPS."""
    failed = 0
    for family, machine, positions, step in STEPS:
        path = os.path.join(folder, family + ".gguf")
        random_model.write(family, path, "F32", 1)
        host = logits(program, path, tokens[:positions], "host")
        rows = logits(program, path, tokens[:positions], machine, 8, step)
        median = 0.0 if isinstance(rows, str) else sorted(cosine(a, b) for a, b in zip(host, rows))[positions // 2]
        if median < MEDIAN[8]:
            failed += 1
            print("FAILED: %s on %s, %d positions, steps of %d: %s" % (family, machine, positions, step, rows if isinstance(rows, str) else median))
    return failed


def measure_ring(program, folder, rng):
    """Windows of 16 positions in a longer text: pccx stores them as a ring of 128 positions. Returns the number of failures."""
    path, tokens = os.path.join(folder, "ring.gguf"), [rng.randrange(VOCABULARY) for _ in range(RING)]
    random_model.write("gemma2", path, "F32", 1, conditioned=True)
    host, rows = logits(program, path, tokens, "host"), logits(program, path, tokens, "pccx")
    return isinstance(rows, str) or min(cosine(a, b) for a, b in zip(host[128:], rows[128:])) < MEDIAN[8]


def main():
    program = sys.argv[1]
    rng = random.Random(3)
    everything = [rng.randrange(VOCABULARY) for _ in range(100)]
    tokens = everything[:POSITIONS]
    with tempfile.TemporaryDirectory() as folder:
        failed = sum(measure(program, folder, tokens, bits) for bits in (8, 4))
        failed += measure_ring(program, folder, rng)
        path = os.path.join(folder, "biased.gguf")
        write_biased(path)
        failed += measure_steps(program, folder, everything)
        host = logits(program, path, tokens, "host")
        failed += sum(not compare(program, path, tokens, "biased", machine, host, 8)[0] for machine in MACHINES)
    if "--markdown" not in sys.argv:
        print("%d failed" % failed)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
