#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The network of the digits with QuantizeLinear and DequantizeLinear around its products, as quantizing tools write networks: the machines take its
ranges, and its accuracy is that of binary32 to a point.

    qdq.py CLASSIFY TRIVET
    qdq.py FROM.onnx TO.onnx RANGE     all activations from -RANGE to RANGE; those after Clip from 0 to 6

The quantized network has INT8 weights with a scale for each output channel, and UINT8 activations with a zero point of 128.
"""

import os
import re
import subprocess
import sys
import tempfile

import numpy
import onnx
from onnx import helper, numpy_helper

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import cmdq  # noqa: E402
from suite import SAMPLE  # noqa: E402

ROOT = os.path.abspath(os.path.join(HERE, "..", ".."))
MODEL, FOLDER = os.path.join(ROOT, "models", "digits.onnx"), os.path.join(ROOT, "models", "digits")
ROW = re.compile(r"^(\w+) +(\d+) +([\d.]+) %(?: +(\d+))?", re.M)


def fold_batch_normalization(model):
    """Makes each BatchNormalization after a Conv part of it."""
    graph, constants = model.graph, {t.name: t for t in model.graph.initializer}
    makers, nodes = {name: node for node in graph.node for name in node.output}, []
    for node in graph.node:
        conv = makers.get(node.input[0]) if node.op_type == "BatchNormalization" else None
        if conv is None or conv.op_type != "Conv":
            nodes.append(node)
            continue
        gain, bias, mean, variance = (numpy_helper.to_array(constants[name]) for name in node.input[1:])
        epsilon = next((a.f for a in node.attribute if a.name == "epsilon"), 1e-5)
        factor = gain / numpy.sqrt(variance + epsilon)
        weights = numpy_helper.to_array(constants[conv.input[1]])
        constants[conv.input[1]].CopyFrom(numpy_helper.from_array((weights * factor.reshape(-1, 1, 1, 1)).astype(numpy.float32), conv.input[1]))
        had = numpy_helper.to_array(constants[conv.input[2]]) if len(conv.input) > 2 else 0
        graph.initializer.append(numpy_helper.from_array((bias + (had - mean) * factor).astype(numpy.float32), conv.output[0] + ".bias"))
        del conv.input[2:]
        conv.input.append(conv.output[0] + ".bias")
        conv.output[0] = node.output[0]
    del graph.node[:]
    graph.node.extend(nodes)


class Quantizer:
    """Puts pairs around the operands of products. `range_of` gives the magnitude that the integers reach, by name of a value."""

    def __init__(self, model, range_of):
        self.model, self.range_of, self.nodes, self.pairs = model, range_of, [], {}
        self.constants = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}

    def constant(self, name, array):
        self.model.graph.initializer.append(numpy_helper.from_array(array, name))
        return name

    def activation(self, value):
        if value not in self.pairs:
            scale = [self.constant(value + ".scale", numpy.float32(self.range_of(value) / 127)), self.constant(value + ".zero", numpy.uint8(128))]
            self.nodes += [helper.make_node("QuantizeLinear", [value, *scale], [value + ".q"]),
                           helper.make_node("DequantizeLinear", [value + ".q", *scale], [value + ".dq"])]
            self.pairs[value] = value + ".dq"
        return self.pairs[value]

    def weights(self, value):
        w = self.constants[value]
        scale = numpy.maximum(numpy.abs(w).reshape(len(w), -1).max(1), 1e-8).astype(numpy.float32) / 127
        q = numpy.clip(numpy.rint(w / scale.reshape(-1, *[1] * (w.ndim - 1))), -127, 127).astype(numpy.int8)
        names = [self.constant(value + ".q", q), self.constant(value + ".scales", scale), self.constant(value + ".zeros", numpy.zeros(len(w), numpy.int8))]
        self.nodes.append(helper.make_node("DequantizeLinear", names, [value + ".dq"], axis=0))
        return value + ".dq"

    def run(self):
        graph = self.model.graph
        for node in graph.node:
            rows = next((a.i for a in node.attribute if a.name == "transB"), 0) if node.op_type == "Gemm" else 1
            if node.op_type in ("Conv", "Gemm") and node.input[1] in self.constants and rows:
                node.input[0], node.input[1] = self.activation(node.input[0]), self.weights(node.input[1])
            self.nodes.append(node)
        del graph.node[:]
        graph.node.extend(self.nodes)
        used = {name for node in graph.node for name in node.input}
        kept = [t for t in graph.initializer if t.name in used]
        del graph.initializer[:]
        graph.initializer.extend(kept)
        self.model.opset_import[0].version = max(13, self.model.opset_import[0].version)


def measure_ranges(trivet, folder):
    """The largest magnitude of each value of the digits' network over some images, on the host."""
    model, ranges = onnx.load(MODEL), {}
    names = [node.output[0] for node in model.graph.node]
    del model.graph.output[:]
    model.graph.output.extend(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in names)
    path = os.path.join(folder, "open.onnx")
    onnx.save(model, path)
    image = model.graph.input[0].name
    for sample in numpy.load(os.path.join(FOLDER, "calibration", "image.npy")).reshape(-1, 1, 1, 8, 8)[:40].astype(numpy.float32):
        numpy.save(os.path.join(folder, "x.npy"), sample)
        outputs = [argument for i, name in enumerate(names) for argument in ("--output", "%s=%s" % (name, os.path.join(folder, "y%d.npy" % i)))]
        subprocess.run([trivet, "infer", path, "-t", "host", "-q", "--input", "%s=%s" % (image, os.path.join(folder, "x.npy")), *outputs], check=True,
                       capture_output=True)
        for name, array in [(image, sample)] + [(name, numpy.load(os.path.join(folder, "y%d.npy" % i))) for i, name in enumerate(names)]:
            ranges[name] = max(ranges.get(name, 0), float(numpy.abs(array).max()))
    return ranges


def check_small_ranges(checks, classify, ranges, files, max_right):
    """A range that is far too small must show: the machine takes the stated ones."""
    path, data = files
    small = onnx.load(MODEL)
    Quantizer(small, lambda value: ranges[value] / 20).run()
    onnx.save(small, path)
    done = subprocess.run([classify, path, *data], capture_output=True, text=True, check=True)
    right = int(dict((row[0], row[1]) for row in ROW.findall(done.stdout))["cmdq"])
    checks.check("stated ranges are used", right < max_right, right)


def check_digits(classify, trivet):
    checks = cmdq.Checks()
    with tempfile.TemporaryDirectory() as folder:
        ranges, model = measure_ranges(trivet, folder), onnx.load(MODEL)
        Quantizer(model, ranges.get).run()
        path = os.path.join(folder, "digits-qdq.onnx")
        onnx.save(model, path)
        data = [os.path.join(FOLDER, name) for name in ("test.npy", "labels.npy", "calibration")]
        found = [{target: int(right) for target, right, _, _ in ROW.findall(subprocess.run([classify, name, *data], capture_output=True, text=True,
                                                                                             check=True).stdout)} for name in (MODEL, path)]
        images = len(numpy.load(data[1]))
        for target in ("host", "cmdq", "opennpu", "pccx"):
            checks.check(f"{target}: accuracy", target in found[1] and abs(found[1][target] - found[0]["host"]) <= images / 100, found)
        said = [subprocess.run([trivet, "infer", name, "-t", "cmdq", "--timing-only"], capture_output=True, text=True, check=True).stdout for name in (MODEL, path)]
        cycles = [re.search(r"^cmdq: ([\d,]+) cycles", text, re.M)[1] for text in said]
        checks.check("the pairs take no cycles", cycles[0] == cycles[1], cycles)
        if SAMPLE == 1:
            check_small_ranges(checks, classify, ranges, (path, data), found[1]["cmdq"] - images / 20)
    print(f"{checks.passed} passed, {checks.failed} failed")
    return checks.failed > 0


def main():
    if len(sys.argv) == 3:
        return check_digits(sys.argv[1], os.path.abspath(sys.argv[2]))
    model = onnx.load(sys.argv[1])
    fold_batch_normalization(model)
    clipped = {node.output[0] for node in model.graph.node if node.op_type == "Clip"}
    Quantizer(model, lambda value: 6 if value in clipped else float(sys.argv[3])).run()
    onnx.save(model, sys.argv[2])
    return 0


if __name__ == "__main__":
    sys.exit(main())
