#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A lower bound on the cycles of a network on CMDQ or pccx, from its shapes alone.

    bound.py MODEL [--target cmdq|pccx] [--profile NAME --trivet TRIVET] [-D KEY=VALUE]... [--weight-bits N] [--activation-bits N]
             [--partial] [--array-groups] [--inputs NAMES] [--layers] [--json]

MODEL is an .onnx file or a name of networks.py. Nothing of Trivet is used but the parameters that `trivet config PROFILE --json` prints; without --profile they
are those of DEFAULTS. The bound is the sum over the layers of the larger of (multiply-adds at peak rate) and (compulsory bytes at attainable bandwidth):
a perfect schedule overlaps the transfers of a layer with its own products, and not with those of other layers.

Layers are Conv, ConvTranspose, Gemm and MatMul nodes, and their quantized forms, that read an activation, in the order of the file. A layer takes the other nodes that follow it with it:
a node is executed with the last layer that it depends on, in no time and without storage of its own; nodes before the first layer form the layer "(input)".
An activation is stored when a later layer reads it. Nodes that only move data (MOVES) are views: who reads their output reads what they read. Nodes that depend
on weights and constants alone are folded.

Multiply-adds: Conv: outputs x kernel x input channels of a group; ConvTranspose: inputs x kernel x output channels of a group; Gemm, MatMul: m n k of all
matrices of the batch.
    cmdq: MACs / (npu.te * te.macs_per_cycle_base * fw * fa); fw: weights of 8 bits 1, of 4 te.weight4, of 2 te.weight2; fa: activations of 8 bits 1, of 4 and 2
    te.activation4; 16 bits te.float16, 32 bits te.float32, for either operand. The second operand of a product of two activations has their bits. With
    --array-groups the input channels of a group of a grouped convolution count as 32 at least, which is what the array does; the peak rate does not know of it.
    pccx: products only. MACs / (gemm.tile_k * gemm.tile_n * min(m, gemm.min_rows) / gemm.min_rows), or at the rate of GEMV, gemv.cores * gemv.tile_k, where that
    is larger (m is the number of rows, for a convolution of output pixels). Weights have 4 bits, activations 16.

Compulsory bytes of a layer:
 1. its weights, once: the constant operand of its product at --weight-bits. Biases, norms, scales and tables that are added are left out, of the tables of a
    Gather only the rows taken are read. pccx streams the second operand of a product of two activations as weights.
 2. inputs of the network at their first use, integers with 4 bytes, others at --activation-bits; outputs of the network;
 3. what cannot stay in SPM (pccx: L2). Going through the layers in order, live at a layer are the stored activations that this or a later layer reads, the
    ones that the layer makes included, without those in DRAM and without outputs of the network that no layer reads. When their bytes exceed SPM, the one whose
    next reader is the latest (on ties the largest) is moved to DRAM, whole, until the rest fits. It is written once, in that layer, unless DRAM already has it,
    and read once by its next reader, after which it is live again if there are others. So every activation that does not fit together with everything live at
    that time is written once and read once. Weights take no SPM. With --partial only the bytes that do not fit are moved, which is less.
    cmdq: bytes / min(dma.bus_width_bytes / dma.dram_burst_cycles, dma.peak_bw), which all channels share.
    pccx: the largest of weights / stream.bytes_per_cycle, others / acp.bytes_per_cycle, and all / memory.bytes_per_cycle.
"""

import argparse
import collections
import json
import math
import os
import subprocess
import sys
from fractions import Fraction

import onnx
from onnx import TensorProto, shape_inference

sys.dont_write_bytecode = True

DEFAULTS = {
    "cmdq": {"npu.te": 2, "spm.banks": 8, "spm.bank_bytes": 262144, "dma.bus_width_bytes": 32, "dma.dram_burst_cycles": 1, "dma.peak_bw": 64,
             "te.macs_per_cycle_base": 4096, "te.weight4": Fraction("1.5"), "te.weight2": 2, "te.activation4": Fraction("1.1"),
             "te.float16": Fraction("0.5"), "te.float32": Fraction("0.25"), "core.hz": 10 ** 9},
    "pccx": {"l2.words": 114688, "gemm.tile_k": 32, "gemm.tile_n": 64, "gemm.min_rows": 32, "gemv.cores": 4, "gemv.tile_k": 32, "stream.bytes_per_cycle": 20,
             "acp.bytes_per_cycle": 10, "memory.bytes_per_cycle": 48, "core.hz": 400 * 10 ** 6}}
BITS = {"cmdq": (8, 8), "pccx": (4, 16)}  # of weights, of activations
# The operators of layers: the index of their second operand.
LAYERS = {"Conv": 1, "ConvTranspose": 1, "Gemm": 1, "MatMul": 1, "ConvInteger": 1, "MatMulInteger": 1, "QLinearConv": 3, "QLinearMatMul": 3}
# Products that the bound does not count, which is reported.
UNCOUNTED = ("Einsum", "MatMulNBits", "LSTM", "GRU", "RNN", "DeformConv", "Attention", "Loop", "If", "Scan")
MOVES = ("Concat", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Identity", "Cast", "Split", "Slice", "Dropout", "Expand", "Pad")
EXTENTS = ("Shape", "Size")  # known without the activation
# Inputs of the network, where the weights are inputs of the graph, too; without any of these names the first one.
INPUTS = ("input", "input_ids", "token_type_ids", "attention_mask")
ARRAY_CHANNELS = 32  # of a group of a convolution
INPUT = "(input)"


class Layer:
    def __init__(self, name, op):
        self.name, self.op = name, op
        self.macs = self.rows = self.weights = self.streamed = 0  # numbers; `weights` and `streamed` are elements
        self.weight_bytes = self.read_bytes = self.written_bytes = Fraction(0)
        self.compute = self.transfer = self.cycles = Fraction(0)
        self.products = "weights"  # or "activations": the second operand


class Network:
    """The layers of a graph, and the activations between them."""

    def __init__(self, model, options):
        graph = shape_inference.infer_shapes(model, strict_mode=True, data_prop=True).graph
        values = [*graph.value_info, *graph.output, *graph.input]
        self.dims = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in values}
        self.types = {v.name: v.type.tensor_type.elem_type for v in values}
        self.dims.update({t.name: list(t.dims) for t in graph.initializer})
        self.options = options
        constants = {t.name for t in graph.initializer}
        inputs = [v.name for v in graph.input if v.name not in constants]
        given = options.inputs.split(",") if options.inputs else [i for i in inputs if i in INPUTS] or inputs[:1]
        operands = {n.input[LAYERS[n.op_type]] for n in graph.node if n.op_type in LAYERS}
        weights_are_inputs = bool(operands & (set(inputs) - set(given)))
        self.inputs = [i for i in inputs if i in given or not (weights_are_inputs or options.inputs)]
        self.constants = constants | (set(inputs) - set(self.inputs))
        self.layers = [Layer(INPUT, INPUT)]
        self.sources = {name: {name} for name in self.inputs}  # of a value: the activations that it is a view of
        self.made = dict.fromkeys(self.inputs, 0)  # the layer of a value
        self.readers = collections.defaultdict(set)  # of an activation: layers
        self.outputs = set()
        for node in graph.node:
            self.add(node)
        for v in graph.output:
            self.outputs |= self.sources.get(v.name, set())

    def count(self, value):
        dims = self.dims[value]
        if any(d <= 0 for d in dims):
            raise SystemExit(f"the value '{value}' has no known dimensions: {dims}")
        return math.prod(dims)

    def bits(self, value):
        return 32 if self.types.get(value) in (TensorProto.INT32, TensorProto.INT64) else self.options.activation_bits

    def bytes(self, value):
        return Fraction(self.count(value) * self.bits(value), 8)

    def add(self, node):
        reads = [i for i in node.input if i and i not in self.constants]
        if not reads or node.op_type in EXTENTS:
            self.constants.update(node.output)
            return
        if node.op_type in UNCOUNTED:
            print(f"{node.name or node.output[0]}: the products of {node.op_type} are not counted", file=sys.stderr)
        if node.op_type in LAYERS:
            self.layers.append(self.layer(node))
            at = len(self.layers) - 1
        else:
            at = max(self.made[i] for i in reads)
        if node.op_type == "Gather" and node.input[0] in self.constants:
            self.layers[at].weights += self.count(node.output[0])
        sources = set().union(*(self.sources[i] for i in reads))
        for output in filter(None, node.output):
            self.made[output] = at
            self.sources[output] = sources if node.op_type in MOVES else {output}
        if node.op_type not in MOVES:
            for source in sources:
                self.readers[source].add(at)

    def layer(self, node):
        layer = Layer(node.name or node.output[0], node.op_type)
        a, b, out = node.input[0], node.input[LAYERS[node.op_type]], node.output[0]
        attributes = {x.name: onnx.helper.get_attribute_value(x) for x in node.attribute}
        groups, dims, weights = attributes.get("group", 1), self.dims[out], self.dims[b]
        if node.op_type in ("Conv", "ConvInteger", "QLinearConv"):
            channels = weights[1]
            if groups > 1 and self.options.array_groups:
                channels = max(channels, ARRAY_CHANNELS)
            layer.macs = self.count(out) * channels * math.prod(weights[2:])
            layer.rows = dims[0] * math.prod(dims[2:])
        elif node.op_type == "ConvTranspose":
            layer.macs = self.count(a) * math.prod(weights[1:])
            layer.rows = self.dims[a][0] * math.prod(self.dims[a][2:])
        else:
            inner = self.dims[a][0 if attributes.get("transA") else -1]
            layer.macs = self.count(out) * inner
            batched = node.op_type != "Gemm" and math.prod(weights[:-2]) > 1  # every matrix has weights of its own
            layer.rows = (dims[-2] if len(dims) > 1 else 1) if batched else math.prod(dims[:-1])
        if b in self.constants:
            layer.weights = self.count(b)
        else:
            layer.products = "activations"
            layer.streamed = self.count(b)
        return layer


def spill(network, capacity, partial):
    """Adds to the layers what cannot stay in SPM, and the inputs and outputs of the network."""
    makes = collections.defaultdict(list)
    last = {value: max(at) for value, at in network.readers.items()}
    for value, at in network.made.items():
        if network.sources[value] == {value} and value not in network.inputs and last.get(value, 0) > at:
            makes[at].append(value)
    live, outside, stored = {}, collections.Counter(), set(network.inputs)  # bytes in SPM, bytes in DRAM alone, values that DRAM has
    for value in network.inputs:
        outside[value] = network.bytes(value)
    for value in network.outputs:
        network.layers[network.made[value]].written_bytes += network.bytes(value)
        stored.add(value)
    for at, layer in enumerate(network.layers):
        for value in [v for v in outside if outside[v] and at in network.readers[v]]:
            layer.read_bytes += outside[value]
            if last[value] > at:
                live[value] = live.get(value, 0) + outside[value]
            del outside[value]
        for value in makes[at]:
            live[value] = network.bytes(value)
        while sum(live.values()) > capacity:
            def next_reader(value):
                return min((r for r in network.readers[value] if r > at), default=at)
            value = max(live, key=lambda v: (next_reader(v), live[v], v))
            assert next_reader(value) > at
            moved = min(live[value], sum(live.values()) - capacity) if partial else live[value]
            if value not in stored:
                layer.written_bytes += moved
                if not partial:
                    stored.add(value)
            outside[value] += moved
            live[value] -= moved
            if not live[value]:
                del live[value]
        for value in [v for v in live if last[v] <= at]:
            del live[value]


def rate_factor(p, bits, is_weight):
    if bits in (16, 32):
        return Fraction(p[f"te.float{bits}"])
    if is_weight:
        return {8: Fraction(1), 4: Fraction(p["te.weight4"]), 2: Fraction(p["te.weight2"])}[bits]
    return Fraction(1) if bits == 8 else Fraction(p["te.activation4"])


def time_cmdq(layer, p, options):
    bits = options.weight_bits if layer.products == "weights" else options.activation_bits
    rate = p["npu.te"] * p["te.macs_per_cycle_base"] * rate_factor(p, bits, True) * rate_factor(p, options.activation_bits, False)
    bandwidth = min(Fraction(p["dma.bus_width_bytes"], p["dma.dram_burst_cycles"]), p["dma.peak_bw"])
    layer.compute = layer.macs / rate
    layer.transfer = (layer.weight_bytes + layer.read_bytes + layer.written_bytes) / bandwidth


def time_pccx(layer, p, options):
    layer.weight_bytes += Fraction(layer.streamed * options.weight_bits, 8)
    rows = Fraction(min(layer.rows, p["gemm.min_rows"]), p["gemm.min_rows"])
    rate = max(p["gemm.tile_k"] * p["gemm.tile_n"] * rows, p["gemv.cores"] * p["gemv.tile_k"])
    others = layer.read_bytes + layer.written_bytes
    layer.compute = layer.macs / Fraction(rate)
    layer.transfer = max(layer.weight_bytes / Fraction(p["stream.bytes_per_cycle"]), others / Fraction(p["acp.bytes_per_cycle"]),
                         (layer.weight_bytes + others) / Fraction(p["memory.bytes_per_cycle"]))


def compute_bound(model, options, p):
    """The layers with their cycles."""
    network = Network(model, options)
    spill(network, p["l2.words"] * 16 if options.target == "pccx" else p["spm.banks"] * p["spm.bank_bytes"], options.partial)
    for layer in network.layers:
        layer.weight_bytes = Fraction(layer.weights * options.weight_bits, 8)
        (time_pccx if options.target == "pccx" else time_cmdq)(layer, p, options)
        layer.cycles = max(layer.compute, layer.transfer)
    return network.layers


def number(text):
    for i, suffix in enumerate(("Ki", "Mi", "Gi", "Ti"), 1):
        if text.endswith(suffix):
            return int(text[:-2]) << 10 * i
    value = Fraction(text)
    return int(value) if value.denominator == 1 else value


def parameters(options):
    """(name of the machine, parameters)"""
    p = dict(DEFAULTS[options.target])
    if options.profile:
        done = subprocess.run([options.trivet, "config", options.profile, "--json"], stdout=subprocess.PIPE, check=True)
        result = json.loads(done.stdout)["result"]
        if result["target"] != options.target:
            raise SystemExit(f"the profile {options.profile} is of {result['target']}, not of {options.target}")
        p.update({row["key"]: number(row["value"]) for row in result["parameters"] if row["key"] in p})
    for text in options.define:
        key, _, value = text.partition("=")
        if key not in p:
            raise SystemExit(f"the bound has no parameter '{key}': it depends on {', '.join(p)}")
        p[key] = number(value)
    return p


def load(name):
    if os.path.exists(name):
        return onnx.load(name, load_external_data=False)
    import networks
    if name not in networks.NETWORKS:
        raise SystemExit(f"there is no file '{name}', and no network of that name")
    return networks.build(name, shapes=True)[0]


def row(layer):
    return {"layer": layer.name, "operator": layer.op, "macs": layer.macs, "weight_bytes": math.ceil(layer.weight_bytes),
            "read_bytes": math.ceil(layer.read_bytes), "written_bytes": math.ceil(layer.written_bytes), "compute_cycles": math.ceil(layer.compute),
            "transfer_cycles": math.ceil(layer.transfer), "cycles": math.ceil(layer.cycles),
            "bound_by": "compute" if layer.compute >= layer.transfer else "transfer"}


def summary(layers, p):
    cycles = sum(layer.cycles for layer in layers)
    total = {key: sum(row(layer)[key] for layer in layers) for key in ("macs", "weight_bytes", "read_bytes", "written_bytes")}
    return {"layers": sum(layer.op != INPUT for layer in layers), **total, "compute_cycles": math.ceil(sum(layer.compute for layer in layers)),
            "transfer_cycles": math.ceil(sum(layer.transfer for layer in layers)), "cycles": math.ceil(cycles), "milliseconds": float(cycles * 1000 / p["core.hz"])}


def print_table(layers):
    columns = ("macs", "weight_bytes", "read_bytes", "written_bytes", "compute_cycles", "transfer_cycles", "cycles")
    print("%-28s %-13s" % ("layer", "operator") + "".join("%16s" % c for c in columns) + "  bound by")
    for layer in layers:
        cells = row(layer)
        print("%-28.28s %-13s" % (layer.name, layer.op) + "".join("%16s" % format(cells[c], ",") for c in columns) + "  " + cells["bound_by"])


def arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("model", help="an .onnx file or a name of networks.py")
    parser.add_argument("--target", choices=DEFAULTS, default="cmdq")
    parser.add_argument("--profile", help="read the parameters from this profile")
    parser.add_argument("--trivet", default="trivet", help="the command that prints profiles")
    parser.add_argument("-D", dest="define", action="append", default=[], metavar="KEY=VALUE", help="a parameter of the machine")
    parser.add_argument("--weight-bits", type=int, choices=(2, 4, 8, 16, 32), help="cmdq: 8; pccx: 4")
    parser.add_argument("--activation-bits", type=int, choices=(2, 4, 8, 16, 32), help="cmdq: 8; pccx: 16")
    parser.add_argument("--partial", action="store_true", help="move only the bytes of an activation that do not fit")
    parser.add_argument("--array-groups", action="store_true", help="groups of a convolution have at least 32 input channels")
    parser.add_argument("--inputs", help="the graph inputs that are no weights, separated by commas")
    parser.add_argument("--layers", action="store_true", help="print a table of the layers")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    weight_bits, activation_bits = BITS[options.target]
    options.weight_bits = options.weight_bits or weight_bits
    options.activation_bits = options.activation_bits or activation_bits
    return options


def main():
    options = arguments(sys.argv[1:])
    p = parameters(options)
    layers = compute_bound(load(options.model), options, p)
    total = summary(layers, p)
    if options.json:
        print(json.dumps({"target": options.target, "weight_bits": options.weight_bits, "activation_bits": options.activation_bits,
                          "parameters": {key: float(value) for key, value in p.items()}, "layers": [row(layer) for layer in layers], "total": total}, indent=1))
        return
    if options.layers:
        print_table(layers)
    print("%s on %s, weights of %d bits, activations of %d: %s cycles, %.3f ms" % (
        options.model, options.target, options.weight_bits, options.activation_bits, format(total["cycles"], ","), total["milliseconds"]))
    print("  %d layers, %s MACs; bytes: %s weights, %s read, %s written; compute alone %s cycles, transfers alone %s" % (
        total["layers"], *(format(total[key], ",") for key in ("macs", "weight_bytes", "read_bytes", "written_bytes", "compute_cycles", "transfer_cycles"))))


if __name__ == "__main__":
    main()
