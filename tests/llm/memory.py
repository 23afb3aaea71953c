#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Host memory of a session: at most 1.1 times the machine's weights, the KV cache that is touched at the beginning and a fixed
part, on pccx and CMDQ; on OpenNPU no growth with the program.

usage: memory.py TRIVET [-k WORD] [--shape SHAPE]: SHAPE is one of random_model.py, 36M by default

The memory of a session is its anonymous memory (RssAnon in /proc/PID/status), sampled every 2 ms from the start to the end of the
command: the simulated memory and everything that is allocated. Pages of the mapped model file (RssFile) are not counted, since the
kernel drops them when it needs memory; the peak of both together (VmHWM) is printed beside it.

The weights of a machine are computed from the dimensions alone: what its memory holds in the format of its own.
"""
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..")]

from random_model import SHAPES, write_shape  # noqa: E402
from suite import Suite, parse_arguments  # noqa: E402

OPTIONS = parse_arguments(__doc__, "trivet", extra=(("--shape", "36M"), ))
SUITE = Suite(OPTIONS.trivet, OPTIONS)
RATIO = 1.1
FIXED = 8e6  # code that is relocated, threads, vocabulary, scratchpad, queues and buffers of a step: independent of the weights
BIG = ["-D", "host.bytes=16Gi"], ["-D", "dram.bytes=16Gi", "-D", "spm.bank_bytes=512Ki"]


def weights_of(shape, target, bits):
    """Bytes: matrices with their scales, and the tables of embeddings that pccx and OpenNPU keep."""
    d = SHAPES[shape]
    heads = (d["heads"] + d["kv_heads"]) * d["head"]
    table = d["vocabulary"] * d["embedding"]
    weights = d["layers"] * (2 * d["embedding"] * heads + 3 * d["embedding"] * d["ff"]) + table
    if target == "pccx":  # a BF16 scale for 64 weights, twice with a plane for each four bits; BF16 embeddings
        return weights * bits / 8 + weights / 64 * 2 * (bits // 4) + table * 2
    if target == "cmdq":  # an FP32 scale for 32 weights
        return weights * bits / 8 + weights / 32 * 4
    return weights + table * 4  # OpenNPU: a scale for each row, FP32 embeddings


def touched_cache(shape, context, model):
    """Bytes of the KV cache that a session of pccx or CMDQ touches when it begins: one of 64 MiB and a quarter of the model at most. A
    value has 8 bits; on pccx twice four, and their scales."""
    d = SHAPES[shape]
    cache = d["layers"] * 2 * d["kv_heads"] * d["head"] * context
    return cache if cache <= min(model / 4, 64 << 20) else 0


def peak_of(*args):
    """(exit status, largest RssAnon, largest RssFile, VmHWM in bytes, output) of a command."""
    plain = {key: value for key, value in os.environ.items() if key != "MALLOC_PERTURB_"}  # it writes to untouched memory
    child = subprocess.Popen([OPTIONS.trivet, *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=plain)
    peaks = {"RssAnon": 0, "RssFile": 0, "VmHWM": 0}
    while child.poll() is None:
        with open(f"/proc/{child.pid}/status") as status:
            for line in status:
                key, _, value = line.partition(":")
                if key in peaks:
                    peaks[key] = max(peaks[key], int(value.split()[0]) << 10)
        time.sleep(0.002)
    return child.returncode, peaks["RssAnon"], peaks["RssFile"], peaks["VmHWM"], child.stdout.read()


def measure(path, target, bits, *options):
    """Runs two tokens; returns the largest anonymous memory, and prints what the manual shows."""
    status, anonymous, file, both, output = peak_of("llm", path, "-t", target, "-n", "2", *options)
    SUITE.expect(f"{target}, {bits} bits: the session runs", status == 0, output)
    weights = weights_of(OPTIONS.shape, target, bits)
    print(f"{target:8} {bits} bits: weights {weights / 1e6:7.1f} MB, anonymous {anonymous / 1e6:7.1f} MB ({anonymous / weights:.3f}), "
          f"mapped file {file / 1e6:6.1f} MB, both {both / 1e6:7.1f} MB ({both / weights:.3f})", flush=True)
    return anonymous, weights


def weights_are_in_memory_once(path):
    for target, bits in (("pccx", 4), ("pccx", 8), ("cmdq", 4), ("cmdq", 8)):
        memory, weights = measure(path, target, bits, "--weight-bits", str(bits), *BIG[target == "cmdq"], "--context", "512")
        cache = touched_cache(OPTIONS.shape, 512, weights)
        SUITE.expect(f"{target}, {bits} bits: at most {RATIO} times the weights, and the KV cache", memory <= RATIO * weights + cache + FIXED,
                     f"{memory} bytes; weights {weights:.0f}, KV cache {cache}")


def a_long_context_is_not_touched(path):
    """With the context of the model, which in the shapes of few weights and in those of many is too long to be touched."""
    memory, weights = measure(path, "cmdq", 4, "--weight-bits", "4", *BIG[1])
    cache = touched_cache(OPTIONS.shape, SHAPES[OPTIONS.shape]["context"], weights)
    SUITE.expect("cmdq: a KV cache of more than a quarter of the weights takes memory by position", memory <= RATIO * weights + cache + FIXED,
                 f"{memory} bytes; weights {weights:.0f}, KV cache that is touched {cache}")


def opennpu_runs_in_segments(path):
    """The program of a token has an instruction of 4 bytes for every 30 weights; a session holds a small part of it."""
    memory, weights = measure(path, "opennpu", 8, "-D", "mem.bytes=4Gi", "--context", "512")
    SUITE.expect(f"opennpu: at most {RATIO} times the weights", memory <= RATIO * weights + FIXED,
                 f"{memory} bytes; weights {weights:.0f}")


def main():
    path = os.path.join(SUITE.folder, "model.gguf")
    write_shape(OPTIONS.shape, path)
    SUITE.run_tests([weights_are_in_memory_once, a_long_context_is_not_touched, opennpu_runs_in_segments], path)
    sys.exit(SUITE.finish())


main()
