#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small networks in which convolutions, whose images have their channels last on CMDQ, meet operators on rows: batches, signals of one axis, slices,
transposed convolutions. Results of each machine agree with NumPy.

    orders.py TRIVET

NumPy computes convolutions from their definition (conv, transposed). A network that a machine does not execute is listed with the operator it names.
"""

import os
import subprocess
import sys
import tempfile

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from suite import sample  # noqa: E402

RNG = numpy.random.default_rng(7)
COSINE = {"cmdq": 0.999, "opennpu": 0.999, "pccx": 0.99}

# Networks that machines reject by name, and what their message says.
REJECTED = {("opennpu", "resize_1"): "interpolations", ("opennpu", "resize_3"): "interpolations", ("pccx", "resize_1"): "interpolation",
            ("pccx", "resize_3"): "interpolation", ("pccx", "log_softmax"): "LogSoftmax", ("pccx", "gates_3"): "repeated",
            ("pccx", "mean_pool_1d_1"): "padding", ("pccx", "mean_pool_1d_3"): "padding"}


def array(*dims):
    return (RNG.standard_normal(dims) * 0.5).astype(numpy.float32)


def conv(x, w, stride=1, pad=0, dilation=1):
    """x[n][c][h][w], w[o][c][kh][kw]; likewise without the last axis."""
    if x.ndim == 3:
        return conv(x[..., None], w[..., None], (stride, 1), (pad, 0), (dilation, 1))[..., 0]
    (sh, sw), (ph, pw), (dh, dw) = (v if isinstance(v, tuple) else (v, v) for v in (stride, pad, dilation))
    x = numpy.pad(x.astype(numpy.float64), ((0, 0), (0, 0), (ph, ph), (pw, pw)))
    kh, kw = w.shape[2:]
    rows, columns = (x.shape[2] - (kh - 1) * dh - 1) // sh + 1, (x.shape[3] - (kw - 1) * dw - 1) // sw + 1
    y = numpy.zeros((x.shape[0], w.shape[0], rows, columns))
    for i in range(kh):
        for k in range(kw):
            part = x[:, :, i * dh:i * dh + (rows - 1) * sh + 1:sh, k * dw:k * dw + (columns - 1) * sw + 1:sw]
            y += numpy.einsum("ncij,oc->noij", part, w[:, :, i, k].astype(numpy.float64))
    return y


def transposed(x, w, stride, begin, end, more, dilation=1, groups=1):
    """Adds each element times the kernel where its window is; w[c][o / groups][kh][kw]."""
    kh, kw = w.shape[2:]
    per_group, outputs = x.shape[1] // groups, w.shape[1]
    y = numpy.zeros((x.shape[0], outputs * groups, (x.shape[2] - 1) * stride + (kh - 1) * dilation + 1 + more,
                     (x.shape[3] - 1) * stride + (kw - 1) * dilation + 1 + more))
    for i in range(x.shape[2]):
        for k in range(x.shape[3]):
            for c in range(x.shape[1]):
                o = c // per_group * outputs
                window = y[:, o:o + outputs, i * stride:i * stride + (kh - 1) * dilation + 1:dilation, k * stride:k * stride + (kw - 1) * dilation + 1:dilation]
                window += x[:, c, i, k].reshape(-1, 1, 1, 1).astype(numpy.float64) * w[c]
    return y[:, :, begin:y.shape[2] - end, begin:y.shape[3] - end]


def softmax(x, axis):
    e = numpy.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def sigmoid(x):
    return 1 / (1 + numpy.exp(-x))


def cases():
    """(name, nodes, constants, x, y)"""
    node = helper.make_node
    w = array(6, 4, 3, 3)
    first = node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1])
    for images in (1, 3):
        x = array(images, 4, 8, 10)
        c = conv(x, w, 1, 1)
        n = "_%d" % images
        yield "softmax_width" + n, [first, node("Softmax", ["c"], ["y"], axis=3)], {"w": w}, x, softmax(c, 3)
        yield "softmax_channels" + n, [first, node("Softmax", ["c"], ["y"], axis=1)], {"w": w}, x, softmax(c, 1)
        yield "mean_width" + n, [first, node("ReduceMean", ["c"], ["y"], axes=[3])], {"w": w}, x, c.mean(3, keepdims=True)
        yield "split" + n, [first, node("Split", ["c"], ["d", "e"], axis=1), node("Sub", ["d", "e"], ["y"])], {"w": w}, x, c[:, :3] - c[:, 3:]
        cut = {"w": w, "b": numpy.array([1, 2]), "e": numpy.array([7, 9]), "a": numpy.array([2, 3]), "s": numpy.array([2, 3])}
        yield "slice" + n, [first, node("Slice", ["c", "b", "e", "a", "s"], ["y"])], cut, x, c[:, :, 1:7:2, 2:9:3]
        means = c.mean((2, 3), keepdims=True)
        yield ("gates" + n, [first, node("GlobalAveragePool", ["c"], ["g"]), node("Sigmoid", ["g"], ["s"]), node("Mul", ["c", "s"], ["y"])], {"w": w}, x,
               c * sigmoid(means))
        pooled = numpy.maximum(c.reshape(images, 6, 4, 2, 5, 2).max((3, 5)), 0)
        m = array(120, 5)
        yield ("classifier" + n, [first, node("MaxPool", ["c"], ["p"], kernel_shape=[2, 2], strides=[2, 2]), node("Relu", ["p"], ["r"]),
                                  node("Flatten", ["r"], ["f"]), node("MatMul", ["f", "m"], ["y"])], {"w": w, "m": m}, x, pooled.reshape(images, -1) @ m)
        joined = numpy.concatenate([x, c], 1)
        mean = (joined[:, :, :-1, :-1] + joined[:, :, 1:, :-1] + joined[:, :, :-1, 1:] + joined[:, :, 1:, 1:]) / 4
        yield ("concat" + n, [first, node("Concat", ["x", "c"], ["d"], axis=1), node("AveragePool", ["d"], ["y"], kernel_shape=[2, 2])], {"w": w}, x, mean)
        bias = array(6, 8, 10)
        yield "image_constant" + n, [first, node("Add", ["c", "b"], ["y"])], {"w": w, "b": bias}, x, c + bias
        rows = softmax(x, 3)
        yield "rows_to_image" + n, [node("Softmax", ["x"], ["s"], axis=3), node("Conv", ["s", "w"], ["y"], pads=[1, 1, 1, 1])], {"w": w}, x, conv(rows, w, 1, 1)
        kernel = array(4, 6, 3, 3)
        yield ("transposed" + n, [node("ConvTranspose", ["x", "k"], ["y"], strides=[2, 2], pads=[1, 1, 1, 1])], {"k": kernel}, x,
               transposed(x, kernel, 2, 1, 1, 0))
        yield ("transposed_more" + n, [node("ConvTranspose", ["x", "k"], ["y"], strides=[3, 3], pads=[0, 0, 1, 1], output_padding=[2, 2])],
               {"k": kernel[:, :, :2, :2].copy()}, x, transposed(x, kernel[:, :, :2, :2], 3, 0, 1, 2))
        yield ("transposed_wide" + n, [node("ConvTranspose", ["x", "k"], ["y"], strides=[2, 2], dilations=[2, 2], group=2)], {"k": kernel[:, :3].copy()}, x,
               transposed(x, kernel[:, :3], 2, 0, 0, 0, 2, 2))
        signal, taps = array(images, 4, 40), array(6, 4, 5)
        y = conv(signal, taps, 2, 2)
        yield "conv_1d" + n, [node("Conv", ["x", "w"], ["y"], pads=[2, 2], strides=[2])], {"w": taps}, signal, y
        m = array(6, 7)
        yield ("conv_1d_transpose" + n, [node("Conv", ["x", "w"], ["c"], pads=[2, 2], strides=[2]), node("Transpose", ["c"], ["t"], perm=[0, 2, 1]),
                                         node("MatMul", ["t", "m"], ["y"])], {"w": taps, "m": m}, signal, y.transpose(0, 2, 1) @ m)
        yield "conv_1d_flatten" + n, [node("Conv", ["x", "w"], ["c"], pads=[2, 2], strides=[2]), node("Flatten", ["c"], ["y"])], {"w": taps}, signal, y.reshape(images, -1)
        counts = numpy.convolve(numpy.ones(40), numpy.ones(3), "same")[::2]
        sums = numpy.pad(signal, ((0, 0), (0, 0), (1, 1)))
        yield ("mean_pool_1d" + n, [node("AveragePool", ["x"], ["y"], kernel_shape=[3], strides=[2], pads=[1, 1])], {}, signal,
               (sums[:, :, 0:40:2] + sums[:, :, 1:41:2] + sums[:, :, 2:42:2]) / counts)
        yield ("resize" + n, [node("Resize", ["x", "", "s"], ["y"], mode="linear", coordinate_transformation_mode="asymmetric")],
               {"s": numpy.array([1, 1, 2, 1], numpy.float32)}, x,
               numpy.stack([x, (x + numpy.concatenate([x[:, :, 1:], x[:, :, -1:]], 2)) / 2], 3).reshape(images, 4, 16, 10))
    x = array(3, 4, 20)
    yield "log_softmax", [node("LogSoftmax", ["x"], ["y"], axis=-1)], {}, x, numpy.log(softmax(x, -1))
    slopes = array(4, 1)
    yield "prelu", [node("PRelu", ["x", "s"], ["y"])], {"s": slopes}, x, numpy.where(x < 0, x * slopes, x)
    yield "expand", [node("Expand", ["x", "s"], ["y"])], {"s": numpy.array([2, 3, 4, 20])}, x, numpy.broadcast_to(x, (2, 3, 4, 20))
    yield "pad", [node("Pad", ["x", "p"], ["y"])], {"p": numpy.array([0, 1, 2, 1, 0, 3])}, x, numpy.pad(x, ((0, 1), (1, 0), (2, 3)))
    yield "reflect", [node("Pad", ["x", "p"], ["y"], mode="reflect")], {"p": numpy.array([0, 1, 2, 1, 0, 3])}, x, numpy.pad(x, ((0, 1), (1, 0), (2, 3)), "reflect")
    yield "gather", [node("Gather", ["x", "i"], ["y"], axis=1)], {"i": numpy.array([3, 0, 2, 2, -1])}, x, x[:, [3, 0, 2, 2, 3]]
    where = RNG.random((3, 4, 20)) > 0.5
    yield "where", [node("Where", ["c", "x", "z"], ["y"])], {"c": where, "z": numpy.float32(-2)}, x, numpy.where(where, x, -2)
    yield "transpose", [node("Transpose", ["x"], ["y"], perm=[2, 0, 1])], {}, x, x.transpose(2, 0, 1)
    middle = array(3, 1, 20)
    yield "middle_axis", [node("Mul", ["x", "m"], ["y"])], {"m": middle}, x, x * middle


def write(folder, nodes, constants, x, y):
    model = helper.make_model(helper.make_graph(
        nodes, "network", [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)], [helper.make_tensor_value_info("y", TensorProto.FLOAT, y.shape)],
        [numpy_helper.from_array(v, k) for k, v in constants.items()]), opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 7
    onnx.save(model, os.path.join(folder, "network.onnx"))
    numpy.save(os.path.join(folder, "x.npy"), x)


def compare(trivet, folder, target, name, y):
    """A problem, or None."""
    out = os.path.join(folder, target + ".npy")
    done = subprocess.run([trivet, "infer", os.path.join(folder, "network.onnx"), "-t", target, "--input", "x=" + os.path.join(folder, "x.npy"),
                           "--output", "y=" + out], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    expected = REJECTED.get((target, name))
    if done.returncode:
        return None if expected and expected in done.stderr and "cannot execute" in done.stderr else done.stderr.strip()
    if expected:
        return "is not rejected"
    found = numpy.load(out).astype(numpy.float64)
    if found.shape != y.shape:
        return "shape %s instead of %s" % (found.shape, y.shape)
    cosine = (found * y).sum() / numpy.sqrt((found * found).sum() * (y * y).sum())
    return None if cosine >= COSINE[target] else "cosine %.6f" % cosine


def main():
    trivet, failures, count = sys.argv[1], 0, 0
    for name, nodes, constants, x, y in cases():
        with tempfile.TemporaryDirectory() as folder:
            write(folder, nodes, constants, x, y)
            for target in sample(COSINE):
                count += 1
                problem = compare(trivet, folder, target, name, y)
                if problem:
                    failures += 1
                    print("%s on %s: %s" % (name, target, problem))
    print("%d passed, %d failed" % (count - failures, failures))
    return failures != 0


sys.exit(main())
