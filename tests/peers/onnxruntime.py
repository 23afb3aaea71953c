#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Operators of newer operator sets than ONNX's backend suite knows give ONNX Runtime's results on the host.

    onnxruntime.py ONNX_CONFORMANCE FOLDER [--network NAME]... [--layers]

FOLDER has node_modules with onnxruntime-node (npm install --ignore-scripts --prefix FOLDER onnxruntime-node@1.20.1). Cases are made here, over attributes
and shapes, with random inputs; ONNX Runtime computes their outputs, and ONNX_CONFORMANCE (tests/networks/conformance.c) compares. Integers are exact,
real numbers have the tolerances of ONNX's backend suite. --network compares a network of tests/networks/networks.py instead, or that of a file with the
extents of its input, for example net.onnx:1,3,320,320, to 1e-4 of the absmax of each output and 1e-6, which is
more than ONNX Runtime's Sigmoid is off; with --layers the result of every node, of which the first that differs is named.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "networks"))
import networks  # noqa: E402

KINDS = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64, "uint8": TensorProto.UINT8, "int8": TensorProto.INT8, "int32": TensorProto.INT32,
         "bool": TensorProto.BOOL}
# Runs all cases of a file: each a folder with model.onnx and inputs as raw bytes; writes outputs as raw bytes and their types.
SCRIPT = """
const ort = require(process.argv[2]), fs = require('fs'), cases = JSON.parse(fs.readFileSync(process.argv[3]));
const arrays = {float32: Float32Array, int64: BigInt64Array, uint8: Uint8Array, int8: Int8Array, int32: Int32Array, bool: Uint8Array};
(async () => {
  for (const c of cases) {
    const found = [];
    try {
      const session = await ort.InferenceSession.create(c.folder + '/model.onnx', {graphOptimizationLevel: 'disabled', intraOpNumThreads: 1, logSeverityLevel: 4});
      const feeds = {};
      c.inputs.forEach((input, i) => {
        const bytes = fs.readFileSync(c.folder + '/in' + i), copy = new Uint8Array(bytes).buffer;
        feeds[input.name] = new ort.Tensor(input.type, new arrays[input.type](copy), input.dims);
      });
      const results = await session.run(feeds);
      c.outputs.forEach((name, i) => {
        const t = results[name];
        fs.writeFileSync(c.folder + '/out' + i, Buffer.from(t.data.buffer, t.data.byteOffset, t.data.byteLength));
        found.push({type: t.type, dims: t.dims});
      });
      await session.release();
    } catch (e) { found.length = 0; found.push({error: String(e.message || e).slice(0, 300)}); }
    fs.writeFileSync(c.folder + '/found.json', JSON.stringify(found));
  }
})();
"""


class Cases:
    def __init__(self, folder):
        self.folder, self.list, self.random = folder, [], numpy.random.default_rng(7)

    def real(self, *dims):
        return self.random.standard_normal(dims).astype(numpy.float32)

    def add(self, op, inputs, constants=(), opset=21, domain="", outputs=1, **attributes):
        """A model of one node. Inputs are arrays or None; those in `constants` are initializers."""
        path = os.path.join(self.folder, "%d" % len(self.list))
        os.makedirs(os.path.join(path, "test_data_set_0"))
        names = ["" if a is None else "x%d" % i for i, a in enumerate(inputs)]
        results = ["y%d" % i for i in range(outputs)]
        node = helper.make_node(op, names, results, domain=domain, **attributes)
        given = [(i, numpy.asarray(a)) for i, a in enumerate(inputs) if a is not None]
        tensors = [numpy_helper.from_array(a, names[i]) for i, a in given if i in constants]
        free = [(names[i], a) for i, a in given if i not in constants]
        graph = helper.make_graph([node], "g", [helper.make_tensor_value_info(n, KINDS[str(a.dtype)], a.shape) for n, a in free],
                                  [onnx.ValueInfoProto(name=r) for r in results], tensors)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)])
        model.ir_version = 8
        self.save(path, model, free, results, "%s %d %s" % (op, opset, attributes))

    def save(self, path, model, free, results, name):
        onnx.save(model, os.path.join(path, "model.onnx"))
        for k, (n, a) in enumerate(free):
            with open(os.path.join(path, "in%d" % k), "wb") as file:
                file.write(a.tobytes())
            onnx.save_tensor(numpy_helper.from_array(a, n), os.path.join(path, "test_data_set_0", "input_%d.pb" % k))
        self.list.append({"name": name, "folder": path, "outputs": results,
                          "inputs": [{"name": n, "type": str(a.dtype), "dims": list(a.shape)} for n, a in free]})


def add_elements(c):
    x = c.real(2, 3, 5) * 3
    for approximate in ("none", "tanh"):  # where 1 + tanh does not cancel, which ONNX Runtime computes in binary32
        c.add("Gelu", [numpy.maximum(x, -2)], opset=20, approximate=approximate)
    c.add("Gelu", [x], domain="com.microsoft")
    c.add("Mish", [x], opset=18)
    for opset in (13, 18, 21):
        for op in ("Relu", "Sigmoid", "HardSwish", "Erf", "Softplus", "Tanh"):
            c.add(op, [x], opset=max(opset, 14))
        c.add("Clip", [x, numpy.float32(-1), numpy.float32(2)], (1, 2), opset=opset)
    bits = [c.random.integers(-100, 100, (2, 3)).astype(numpy.int32), c.random.integers(-100, 100, (3,)).astype(numpy.int32)]
    for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        c.add(op, bits, opset=18)
    c.add("BitwiseNot", bits[:1], opset=18)


def add_reductions(c):
    x = c.real(2, 3, 4, 5)
    for op in ("ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceSumSquare", "ReduceSum"):
        for axes in ([1], [-1], [0, 2], [1, 2, 3]):
            for keep in (0, 1):
                c.add(op, [x, numpy.array(axes)], (1,), opset=18, keepdims=keep)
        c.add(op, [x], opset=18, noop_with_empty_axes=0)
    for axis in range(-4, 4):
        c.add("Softmax", [x], opset=13, axis=axis)
        c.add("LogSoftmax", [x], opset=11, axis=axis if axis >= 0 else 1)


def add_norms(c):
    for dims in ((2, 6, 5), (1, 6, 4, 3), (3, 6, 2, 2, 2)):
        x, gain, bias = c.real(*dims), c.real(6), c.real(6)
        for groups in (1, 2, 6):
            c.add("GroupNormalization", [x, gain, bias], (1, 2), opset=21, num_groups=groups)
        c.add("InstanceNormalization", [x, gain, bias], (1, 2), opset=17, epsilon=1e-3)
        for axis in (-1, 1, -2):
            rest = c.real(*dims[axis:]), c.real(*dims[axis:])
            c.add("LayerNormalization", [x, *rest], (1, 2), opset=17, axis=axis)
            c.add("LayerNormalization", [x, rest[0]], opset=17, axis=axis)
        c.add("LpNormalization", [x], opset=17, axis=1, p=1)
        c.add("LRN", [x], opset=13, size=3) if len(dims) == 4 else None
        c.add("BatchNormalization", [x, gain, bias, c.real(6), numpy.abs(c.real(6))], (1, 2, 3, 4), opset=15)


def add_shapes(c):
    x = c.real(2, 7, 5)
    for outputs in (2, 3, 4):
        c.add("Split", [x], opset=18, outputs=outputs, axis=1, num_outputs=outputs)
    for mode in ("constant", "edge", "reflect", "wrap"):
        c.add("Pad", [x, numpy.array([1, 2, 0, 3]), None, numpy.array([1, -1])], (1, 3), opset=19, mode=mode)
        c.add("Pad", [x, numpy.array([0, 1, 2, 1, 0, 2]), numpy.float32(4) if mode == "constant" else None], (1, 2), opset=19, mode=mode)
    c.add("Pad", [x, numpy.array([0, -1, 2, 0, -2, -1])], (1,), opset=18)
    c.add("Trilu", [c.real(3, 4, 5), numpy.int64(-1)], (1,), opset=14, upper=0)
    for allowzero in (0, 1):
        c.add("Reshape", [c.real(0, 3) if allowzero else c.real(2, 3), numpy.array([0, 3])], (1,), opset=21, allowzero=allowzero)
    for size in ((2, 4, 3, 3), (1, 8, 2, 5)):
        for mode in ("DCR", "CRD"):
            c.add("DepthToSpace", [c.real(*size)], opset=13, blocksize=2, mode=mode)
    c.add("Gather", [x, numpy.array([[0, -1], [3, 2]])], opset=13, axis=1)
    c.add("GatherElements", [x, c.random.integers(-7, 7, (2, 3, 5))], opset=13, axis=1)
    c.add("GatherND", [x, c.random.integers(-5, 5, (2, 4, 1))], opset=13, batch_dims=1)
    c.add("Slice", [x, numpy.array([6, -1]), numpy.array([-100, 0]), numpy.array([1, 2]), numpy.array([-2, -1])], (1, 2, 3, 4), opset=13)
    c.add("OneHot", [c.random.integers(-4, 4, (2, 3)), numpy.int64(4), c.real(2)], (1,), opset=11, axis=1)


def add_resize(c):
    x, pads = c.real(1, 2, 4, 6), numpy.array([], numpy.float32)
    for mode in ("nearest", "linear", "cubic"):
        for coordinates in ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"):
            for size in ((8, 12), (7, 5), (3, 3)):
                extra = {"nearest_mode": "floor"} if mode == "nearest" else {}
                c.add("Resize", [x, None, None, numpy.array([1, 2, *size])], (3,), opset=18, mode=mode, coordinate_transformation_mode=coordinates, **extra)
        c.add("Resize", [x, pads, numpy.array([1, 1, 2.5, 1.5], numpy.float32)], (1, 2), opset=13, mode=mode)
    for rounding in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
        c.add("Resize", [x, None, numpy.array([1, 1, 1.7, 0.6], numpy.float32)], (2,), opset=18, nearest_mode=rounding)
    for mode in ("linear", "cubic"):
        c.add("Resize", [x, None, None, numpy.array([1, 2, 3, 4])], (3,), opset=18, mode=mode, antialias=1)
    for policy in ("not_larger", "not_smaller"):
        c.add("Resize", [x, None, None, numpy.array([7, 8])], (3,), opset=18, axes=[2, 3], keep_aspect_ratio_policy=policy)


def add_products(c):
    for groups, pads, stride in ((1, [1, 1, 1, 1], 1), (2, [0, 1, 2, 1], 2), (4, [0, 0, 0, 0], 1)):
        x, w = c.real(2, 4, 9, 8), c.real(8, 4 // groups, 3, 3)
        c.add("Conv", [x, w, c.real(8)], (1, 2), group=groups, pads=pads, strides=[stride, stride], dilations=[1, 2])
        t = c.real(4, 6 // groups if 6 % groups == 0 else 2, 3, 3)
        c.add("ConvTranspose", [x, t], (1,), group=groups, pads=pads, strides=[stride + 1, stride + 1], output_padding=[1, 0])
    for auto in ("SAME_UPPER", "SAME_LOWER", "VALID"):
        c.add("Conv", [c.real(1, 2, 7, 9), c.real(3, 2, 4, 2)], (1,), auto_pad=auto, strides=[2, 3])
        c.add("MaxPool", [c.real(1, 2, 7, 9)], auto_pad=auto, strides=[2, 3], kernel_shape=[3, 4])
        c.add("AveragePool", [c.real(1, 2, 7, 9)], opset=19, auto_pad=auto, strides=[2, 3], kernel_shape=[3, 4])
    for ceil in (0, 1):
        for pad in (0, 1):
            c.add("AveragePool", [c.real(1, 2, 8, 9)], opset=19, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 0, 1], ceil_mode=ceil,
                  count_include_pad=pad)
            c.add("AveragePool", [c.real(1, 2, 8, 9)], opset=19, kernel_shape=[3, 3], dilations=[1, 2], ceil_mode=ceil, count_include_pad=pad)
        c.add("MaxPool", [c.real(1, 2, 8, 9)], opset=12, kernel_shape=[3, 2], strides=[2, 2], dilations=[2, 1], ceil_mode=ceil)
    c.add("LpPool", [c.real(1, 2, 8, 9)], opset=18, kernel_shape=[3, 2], p=3)
    for a, b in (((2, 3, 4), (4, 5)), ((4,), (4, 5)), ((2, 1, 3, 4), (5, 4, 2)), ((3, 4), (4,)), ((4,), (4,))):
        for constants in ((), (1,)):
            c.add("MatMul", [c.real(*a), c.real(*b)], constants, opset=13)
    for ta in (0, 1):
        for tb in (0, 1):
            for constants in ((), (1, 2)):
                c.add("Gemm", [c.real(*((4, 3) if ta else (3, 4))), c.real(*((5, 4) if tb else (4, 5))), c.real(5)], constants, opset=13, transA=ta,
                      transB=tb, alpha=0.5, beta=2.0)
    c.add("FusedMatMul", [c.real(2, 4, 3), c.real(2, 5, 4)], domain="com.microsoft", transA=1, transB=1, alpha=0.25)


def add_quantized(c):
    x = c.real(3, 8) * 4
    scale, zero = numpy.array([0.05, 0.03, 0.1], numpy.float32), numpy.array([3, -4, 0], numpy.int8)
    c.add("QuantizeLinear", [x, scale, zero], (1, 2), opset=13, axis=0)
    c.add("DequantizeLinear", [c.random.integers(-128, 128, (3, 8)).astype(numpy.int8), scale, zero], (1, 2), opset=13, axis=0)
    blocks = numpy.abs(c.real(3, 2)) / 10
    c.add("QuantizeLinear", [x, blocks, numpy.zeros((3, 2), numpy.int8)], (1, 2), opset=21, axis=1, block_size=4)
    c.add("DequantizeLinear", [c.random.integers(0, 256, (3, 8)).astype(numpy.uint8), blocks], (1,), opset=21, axis=1, block_size=4)
    c.add("DynamicQuantizeLinear", [x], opset=11, outputs=3)
    q = [c.random.integers(0, 256, (1, 2, 6, 6)).astype(numpy.uint8), numpy.float32(0.02), numpy.uint8(120),
         c.random.integers(-128, 128, (4, 2, 3, 3)).astype(numpy.int8), numpy.array([0.01, 0.02, 0.03, 0.015], numpy.float32), numpy.zeros(4, numpy.int8),
         numpy.float32(0.04), numpy.uint8(100), c.random.integers(-500, 500, 4).astype(numpy.int32)]
    c.add("QLinearConv", q, range(1, 9), opset=10, pads=[1, 1, 1, 1])
    c.add("ConvInteger", [q[0], q[3].astype(numpy.uint8), q[2]], (1, 2), opset=10, pads=[1, 1, 1, 1])
    a, b = c.random.integers(0, 256, (2, 3, 5)).astype(numpy.uint8), c.random.integers(0, 256, (5, 4)).astype(numpy.uint8)
    c.add("MatMulInteger", [a, b, numpy.uint8(11), numpy.uint8(100)], (1, 2, 3), opset=10)
    c.add("QLinearMatMul", [a, numpy.float32(0.02), numpy.uint8(100), b, numpy.float32(0.01), numpy.uint8(90), numpy.float32(0.05), numpy.uint8(110)],
          range(1, 8), opset=10)
    for op in ("QLinearAdd", "QLinearMul"):
        c.add(op, [a, numpy.float32(0.02), numpy.uint8(100), a[::-1].copy(), numpy.float32(0.01), numpy.uint8(90), numpy.float32(0.05), numpy.uint8(110)],
              (1, 2, 4, 5, 6, 7), domain="com.microsoft")
    for columns, block in ((32, 16), (48, 32), (40, 16)):
        count = (columns + block - 1) // block
        packed = c.random.integers(0, 256, (6, count, block // 2)).astype(numpy.uint8)
        inputs = [c.real(3, columns), packed, numpy.abs(c.real(6 * count)) / 8]
        c.add("MatMulNBits", inputs, (1, 2), domain="com.microsoft", N=6, K=columns, bits=4, block_size=block)
        zeros = c.random.integers(0, 256, 6 * ((count + 1) // 2)).astype(numpy.uint8)
        c.add("MatMulNBits", inputs + [zeros], (1, 2, 3), domain="com.microsoft", N=6, K=columns, bits=4, block_size=block)


LAYERS_AT_ONCE = 15  # outputs of a case


def models_of_layers(model):
    """The model with the results of its nodes as outputs, LAYERS_AT_ONCE at a time, in the order of the nodes."""
    names = [name for node in model.graph.node if node.op_type != "Constant" for name in node.output if name]
    for first in range(0, len(names), LAYERS_AT_ONCE):
        piece = onnx.ModelProto()
        piece.CopyFrom(model)
        del piece.graph.output[:]
        piece.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names[first:first + LAYERS_AT_ONCE])
        yield "%d to %d" % (first, min(first + LAYERS_AT_ONCE, len(names)) - 1), piece


def add_network(c, name, layers=False):
    file, _, extents = name.partition(":")
    model = onnx.load(file) if extents else networks.build(name)[0]
    known, free = {t.name for t in model.graph.initializer}, []
    for value in model.graph.input:
        kind, dims = value.type.tensor_type.elem_type, [d.dim_value for d in value.type.tensor_type.shape.dim]
        dims = [int(d) for d in extents.split(",")] if extents else dims
        if value.name in known:
            continue
        if kind == TensorProto.INT64:
            array = c.random.integers(0, 2 if "type" in value.name else 1000, dims)
        else:
            array = numpy.ones(dims, numpy.float32) if "mask" in value.name else c.real(*dims)
        free.append((value.name, array))
    for which, one in models_of_layers(model) if layers else [("", model)]:
        path = os.path.join(c.folder, "network%d" % len(c.list))
        os.makedirs(os.path.join(path, "test_data_set_0"))
        c.save(path, one, free, [o.name for o in one.graph.output], "%s%s" % (name, which and ", layers " + which))


def write_outputs(case):
    """ONNX Runtime's outputs as tensors; the error, if there is one."""
    with open(os.path.join(case["folder"], "found.json"), encoding="utf-8") as file:
        found = json.load(file)
    if found and "error" in found[0]:
        return found[0]["error"]
    for i, output in enumerate(found):
        array = numpy.fromfile(os.path.join(case["folder"], "out%d" % i), dtype=output["type"]).reshape(output["dims"])
        onnx.save_tensor(numpy_helper.from_array(array, "y"), os.path.join(case["folder"], "test_data_set_0", "output_%d.pb" % i))
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("modules")
    parser.add_argument("--network", action="append", default=[])
    parser.add_argument("--layers", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        c = Cases(folder)
        for name in options.network:
            add_network(c, name, options.layers)
        for add in () if options.network else (add_elements, add_reductions, add_norms, add_shapes, add_resize, add_products, add_quantized):
            add(c)
        with open(os.path.join(folder, "cases.json"), "w", encoding="utf-8") as file:
            json.dump(c.list, file)
        with open(os.path.join(folder, "run.js"), "w", encoding="utf-8") as file:
            file.write(SCRIPT)
        module = os.path.abspath(os.path.join(options.modules, "node_modules", "onnxruntime-node"))
        subprocess.run(["node", os.path.join(folder, "run.js"), module, os.path.join(folder, "cases.json")], check=True)
        unknown = [(case["name"], error) for case in c.list for error in [write_outputs(case)] if error]
        ran = [case for case in c.list if case["name"] not in {name for name, _ in unknown}]
        done = subprocess.run([options.program] + (["1e-4"] if options.network else []), input="\n".join(case["folder"] for case in ran) + "\n",
                              stdout=subprocess.PIPE, text=True, check=True)
    failed = 0
    for case, line in zip(ran, done.stdout.split("\n")):
        if line not in ("passed", "bound"):
            failed += 1
            print("%s: %s" % (case["name"], line[:200]))
    for name, error in unknown:
        print("not run by ONNX Runtime: %s: %s" % (name, error[:160]))
    print("%d passed, %d failed, %d not run by ONNX Runtime" % (len(ran) - failed, failed, len(unknown)))
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
