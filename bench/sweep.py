#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The rate of `trivet sweep` with one thread and with two, by turns.

    sweep.py TRIVET [--runs N]

1,008 configurations of all three machines, 336 each: a step of decoding of a language model of 1.1 billion parameters
(22 layers of 2048 and 5632, 4 heads of keys) at position 128, without a database, so nothing is kept between points.
Prints the seconds of each pair of runs and the median of their ratios, and checks that all exports are the same bytes.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

SHAPE = {"model_type": "llama", "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 22,
         "num_attention_heads": 32, "num_key_value_heads": 4, "vocab_size": 32000, "max_position_embeddings": 2048}
SPEC = """[sweep]
objectives = cycles, bytes
[workload pccx]
target = pccx
model = shape.json
position = 128
tokens = 1
[workload opennpu]
target = opennpu
model = shape.json
position = 128
tokens = 1
[workload cmdq]
target = cmdq
model = shape.json
position = 128
tokens = 1
weight_bits = 4
[target pccx]
gemv.cores = 1..8 * 2
stream.bytes_per_cycle = 10, 20, 40, 80
acp.bytes_per_cycle = 5, 10, 20
cvo.tail = 2..8
[target opennpu]
mem.bytes = 4Gi
core.hz = 100000000..4800000000 step 100000000
ld.latency = 1..7
[target cmdq]
te.macs_per_cycle_base = 1024..8192 * 2
dma.bus_width_bytes = 16..128 * 2
ve.lanes = 16, 32, 64
te.init = 2..14 step 2
"""


def main():
    ap = argparse.ArgumentParser(description=__doc__.strip().split("\n", maxsplit=1)[0])
    ap.add_argument("trivet")
    ap.add_argument("--runs", type=int, default=5)
    options = ap.parse_args()
    trivet, ratios, exports = os.path.abspath(options.trivet), [], set()
    with tempfile.TemporaryDirectory() as folder:
        path = lambda name: os.path.join(folder, name)
        with open(path("shape.json"), "w", encoding="utf-8") as f:
            json.dump(SHAPE, f)
        with open(path("space.ini"), "w", encoding="utf-8") as f:
            f.write(SPEC)
        for _ in range(options.runs):
            seconds = {}
            for threads in (1, 2):
                begin = time.monotonic()
                subprocess.run([trivet, "sweep", path("space.ini"), "-q", "--threads", str(threads), "--csv", path("points.csv")],
                               check=True, stdout=subprocess.DEVNULL)
                seconds[threads] = time.monotonic() - begin
                with open(path("points.csv"), "rb") as f:
                    exports.add(f.read())
            ratios.append(seconds[1] / seconds[2])
            print("%.1f s with one thread, %.1f s with two, %.2f times the rate" % (seconds[1], seconds[2], ratios[-1]), flush=True)
    lines = exports.pop().decode().splitlines()
    print("%d points; two threads: %.2f times the rate of one (%.2f to %.2f; goal 1.8)" %
          (len(lines) - 1, statistics.median(ratios), min(ratios), max(ratios)))
    if exports:
        sys.exit("the exports differ")


if __name__ == "__main__":
    main()
