#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The block of a vision transformer in examples/networks: results of the host against NumPy, and of each machine against the host, layer by layer.

    vit.py TRIVET
"""

import json
import math
import os
import subprocess
import sys
import tempfile

import numpy
import onnx
from onnx import numpy_helper

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, HERE)
import cmdq  # noqa: E402
import networks  # noqa: E402

MODEL = os.path.join(HERE, "..", "..", "examples", "networks", "vit-block.onnx")
SIZE, HEADS, PATCH = 64, 2, 4
# Own noise of each layer with weights of 8 bits, in decibels: a rounding to INT8 errs by up to 1/254 of the largest number, which is three to ten times the
# root mean square: 36 to 46 for each of two operands. Ten products and norms with 30 dB, a thousandth, lower a similarity by half of their sum.
SIMILARITY, NOISE = 0.995, 30
# Whether the host may pack the operands of products.
MACHINES = {"cmdq": False, "opennpu": False, "pccx": True}


def evaluate(image):
    """The network by the definition of its layers, in binary64."""
    w = {t.name: numpy_helper.to_array(t).astype(numpy.float64) for t in onnx.load(MODEL).graph.initializer}

    def linear(x, name):
        return x @ w[name + ".weight"] + w[name + ".bias"]

    def norm(x, name):
        x = x - x.mean(-1, keepdims=True)
        return x / numpy.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * w[name + ".weight"] + w[name + ".bias"]

    side = image.shape[2] // PATCH
    patches = image.reshape(3, side, PATCH, side, PATCH).transpose(1, 3, 0, 2, 4).reshape(side * side, -1)
    x = patches @ w["patches.weight"].reshape(SIZE, -1).T + w["patches.bias"]
    x = numpy.concatenate([w["class_token"][0], x]) + w["position"][0]
    y, out = norm(x, "layer.0.norm1"), []
    q, k, v = (linear(y, "layer.0." + part).reshape(len(x), HEADS, -1).transpose(1, 0, 2) for part in ("query", "key", "value"))
    for head in range(HEADS):
        probs = numpy.exp(q[head] @ k[head].T / math.sqrt(SIZE // HEADS))
        out.append(probs / probs.sum(-1, keepdims=True) @ v[head])
    x = x + linear(numpy.concatenate(out, -1), "layer.0.output")
    y = linear(norm(x, "layer.0.norm2"), "layer.0.up")
    y = y * (1 + numpy.vectorize(math.erf)(y / math.sqrt(2))) / 2
    x = x + linear(y, "layer.0.down")
    return linear(norm(x, "norm")[0], "head")


def infer(trivet, *options):
    done = subprocess.run([trivet, "infer", MODEL, "--json", *options], capture_output=True, text=True, check=False)
    return json.loads(done.stdout)["result"]["targets"][0] if done.returncode == 0 else {"reason": done.stderr + done.stdout}


def main():
    trivet, checks = os.path.abspath(sys.argv[1]), cmdq.Checks()
    with tempfile.TemporaryDirectory() as folder:
        made = networks.build("vit-block")[0]
        weights = [{t.name: numpy_helper.to_array(t) for t in m.graph.initializer} for m in (made, onnx.load(MODEL))]
        checks.check("the file is what networks.py writes", weights[0].keys() == weights[1].keys() and
                     all(numpy.allclose(a, weights[1][name]) for name, a in weights[0].items()))
        image = numpy.random.default_rng(7).uniform(-1, 1, (1, 3, 16, 16)).astype(numpy.float32)
        files = {name: os.path.join(folder, name + ".npy") for name in ("image", "host", *MACHINES)}
        numpy.save(files["image"], image)
        data = ("--input", "input=" + files["image"], "--output")
        expected = evaluate(image[0].astype(numpy.float64))
        infer(trivet, "-t", "host", *data, "output=" + files["host"])
        found = numpy.load(files["host"])[0]
        checks.check("the host against NumPy", numpy.allclose(found, expected, rtol=1e-4, atol=1e-5), f"{found} {expected}")
        for target in MACHINES:
            result = infer(trivet, "-t", target, "--verify", "--weight-bits", "8", *data, "output=" + os.path.join(folder, target + ".npy"))
            layers = result.get("layers", [])
            checks.check(f"{target}: layers", len(layers) > 20, result.get("reason"))
            for layer in layers:
                similarity, noise = layer["cosine"], layer["own_noise_db"]
                checks.check(f"{target}: {layer['name']} ({layer['operator']})",
                             (similarity is None or similarity >= SIMILARITY) and (noise is None or noise >= NOISE), f"{similarity}, {noise} dB")
            checks.check(f"{target}: host operations", bool(result.get("host_ops")) == MACHINES[target], result.get("host_ops"))
            y = numpy.load(files[target])[0]
            checks.check(f"{target}: result", y @ expected / math.sqrt(y @ y * (expected @ expected)) >= SIMILARITY, f"{y} {expected}")
    print(f"{checks.passed} passed, {checks.failed} failed")
    return checks.failed > 0


if __name__ == "__main__":
    sys.exit(main())
