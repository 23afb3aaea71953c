#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiling and running networks, against ONNX Runtime on one thread in the same run.

    onnx_networks.py TRIVET FOLDER [--runs N]

TRIVET is a release build. FOLDER has node_modules with onnxruntime-node (npm install --ignore-scripts --prefix FOLDER, with tests/peers/networks.json as its
package.json). The networks are those of tests/networks/networks.py with random weights. For each, and for CMDQ and pccx: the time of `trivet infer
--timing-only`, a whole command that imports, plans and times the network from its shapes, in inferences of ONNX Runtime (goal: 30), and that of `trivet
compile` with its weights (goal: 300). Then the rate of MobileNetV2 with data on CMDQ, as the command measures it, by the rate of ONNX Runtime's INT8 (goal:
0.25). Runs of the two take turns; medians.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "networks"))
import networks  # noqa: E402

NAMES = ("resnet50", "mobilenetv2", "bert-base", "vit-b16", "opt-125m", "unet")
QDQ = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "networks", "qdq.py")
# Prints the seconds of an inference, the median of some.
SCRIPT = """
const ort = require(process.argv[2]), inputs = JSON.parse(process.argv[4]);
(async () => {
  const session = await ort.InferenceSession.create(process.argv[3], {intraOpNumThreads: 1, graphOptimizationLevel: 'all', logSeverityLevel: 4});
  const feeds = {};
  for (const [name, type, dims] of inputs) {
    const count = dims.reduce((a, b) => a * b, 1);
    const data = type === 'int64' ? BigInt64Array.from({length: count}, (_, i) => BigInt(i % 2)) : Float32Array.from({length: count}, (_, i) => Math.sin(i));
    feeds[name] = new ort.Tensor(type, data, dims);
  }
  await session.run(feeds);
  const times = [];
  for (let i = 0; i < 5; i++) { const start = performance.now(); await session.run(feeds); times.push(performance.now() - start); }
  console.log(times.sort((a, b) => a - b)[2] / 1000);
})();
"""


def inputs_of(model):
    known, kinds = {t.name for t in model.graph.initializer}, {1: "float32", 7: "int64"}
    return [(v.name, kinds[v.type.tensor_type.elem_type], [d.dim_value for d in v.type.tensor_type.shape.dim]) for v in model.graph.input if v.name not in known]


def command_time(*command):
    start = time.monotonic()
    subprocess.run(command, check=True, capture_output=True)
    return time.monotonic() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("trivet")
    parser.add_argument("folder")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    trivet, module = os.path.abspath(options.trivet), os.path.abspath(os.path.join(options.folder, "node_modules", "onnxruntime-node"))
    print("| network | ONNX Runtime, ms | from shapes, CMDQ | pccx | compiled, CMDQ | pccx |\n|---|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        script, out = os.path.join(folder, "run.js"), os.path.join(folder, "out")
        with open(script, "w", encoding="utf-8") as file:
            file.write(SCRIPT)
        for name in NAMES:
            model, path = networks.build(name)[0], os.path.join(folder, "%s.onnx" % name)
            with open(path, "wb") as file:
                file.write(model.SerializeToString())
            inputs, peer, own = json.dumps(inputs_of(model)), [], {}
            for _ in range(options.runs):
                peer.append(float(subprocess.run(["node", script, module, path, inputs], check=True, capture_output=True, text=True).stdout))
                for target in ("cmdq", "pccx"):
                    own.setdefault((target, 30), []).append(command_time(trivet, "infer", path, "-t", target, "--timing-only", "-q"))
                    shutil.rmtree(out, ignore_errors=True)
                    own.setdefault((target, 300), []).append(command_time(trivet, "compile", path, "-t", target, "-o", out, "-q"))
            one = statistics.median(peer)
            print("| %s | %.1f | %s |" % (name, one * 1000, " | ".join("%.1f" % (statistics.median(own[key]) / one)
                                                                      for key in (("cmdq", 30), ("pccx", 30), ("cmdq", 300), ("pccx", 300)))), flush=True)
            if name == "mobilenetv2":
                quantized = os.path.join(folder, "int8.onnx")
                subprocess.run([sys.executable, QDQ, path, quantized, "8"], check=True)
            else:
                os.remove(path)
        peer, own, path = [], [], os.path.join(folder, "mobilenetv2.onnx")
        inputs = json.dumps([("input", "float32", [1, 3, 224, 224])])
        for _ in range(options.runs + 2):
            peer.append(float(subprocess.run(["node", script, module, quantized, inputs], check=True, capture_output=True, text=True).stdout))
            said = subprocess.run([trivet, "infer", path, "-t", "cmdq", "--threads", "1"], check=True, capture_output=True, text=True).stdout
            value, unit = re.search(r"simulated in ([\d.]+) (\S+)", said).groups()
            own.append(float(value) * {"s": 1, "ms": 1e-3, "µs": 1e-6}[unit])
        print("\nMobileNetV2 with data, CMDQ %.1f ms, ONNX Runtime INT8 %.1f ms: %.2f of its rate" % (
            statistics.median(own) * 1000, statistics.median(peer) * 1000, statistics.median(peer) / statistics.median(own)))


if __name__ == "__main__":
    main()
