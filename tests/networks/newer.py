# SPDX-License-Identifier: Apache-2.0
"""Cases for generated.py of operators of the newer operator sets, which ONNX's backend suite lacks, and of convolutions and norms over their attributes, with
results of NumPy: (operator, attributes, inputs, outputs). The attribute "opset" is the operator set."""

import itertools
import math

import numpy


def functions(random):
    x = random.standard_normal((3, 4, 5)).astype("f4")
    y = x.astype("f8")
    erf = numpy.vectorize(math.erf)
    yield "Gelu", {"opset": 20}, [x], [(y * (1 + erf(y / math.sqrt(2))) / 2).astype("f4")]
    tanh = numpy.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y**3))
    yield "Gelu", {"opset": 20, "approximate": "tanh"}, [x], [(y * (1 + tanh) / 2).astype("f4")]
    yield "Mish", {"opset": 18}, [x], [(y * numpy.tanh(numpy.log1p(numpy.exp(y)))).astype("f4")]
    yield "HardSwish", {"opset": 14}, [x], [(y * numpy.clip(y / 6 + 0.5, 0, 1)).astype("f4")]
    for axis in range(-3, 3):
        e = numpy.exp(y - y.max(axis, keepdims=True))
        yield "Softmax", {"opset": 13, "axis": axis}, [x], [(e / e.sum(axis, keepdims=True)).astype("f4")]


def norms(random):
    for groups, (version, count) in itertools.product((1, 2, 3, 6), ((18, "groups"), (21, "channels"))):
        x = random.standard_normal((2, 6, 4, 5)).astype("f4")
        sizes = groups if count == "groups" else 6
        scale, bias = (random.standard_normal(sizes).astype("f4") for _ in range(2))
        y = x.astype("f8").reshape(2, groups, -1)
        y = ((y - y.mean(2, keepdims=True)) / numpy.sqrt(y.var(2, keepdims=True) + 1e-5)).reshape(x.shape)
        every = [numpy.repeat(v, 6 // sizes).reshape(1, 6, 1, 1) for v in (scale, bias)]
        yield "GroupNormalization", {"opset": version, "num_groups": groups}, [x, scale, bias], [(y * every[0] + every[1]).astype("f4")]
    for axis, shape in itertools.product((-1, -2, 1), ((2, 3, 8), (2, 5, 17))):
        x = random.standard_normal(shape).astype("f4")
        scale, bias = (random.standard_normal(shape[axis:]).astype("f4") for _ in range(2))
        over = tuple(range(axis % 3, 3))
        y = x.astype("f8")
        y = (y - y.mean(over, keepdims=True)) / numpy.sqrt(y.var(over, keepdims=True) + 1e-5)
        yield "LayerNormalization", {"opset": 17, "axis": axis}, [x, scale, bias], [(y * scale + bias).astype("f4")]


def reductions(random):
    reduce = {"Mean": numpy.mean, "Sum": numpy.sum, "Max": numpy.max, "Min": numpy.min, "Prod": numpy.prod,
              "L1": lambda x, a, keepdims: numpy.abs(x).sum(a, keepdims=keepdims), "L2": lambda x, a, keepdims: numpy.sqrt((x * x).sum(a, keepdims=keepdims)),
              "SumSquare": lambda x, a, keepdims: (x * x).sum(a, keepdims=keepdims)}
    for (name, function), axes, keep in itertools.product(reduce.items(), ((1,), (-1,), (0, 2)), (0, 1)):
        x = random.standard_normal((3, 4, 5)).astype("f4")
        y = function(x.astype("f8"), axes, keepdims=bool(keep))
        yield "Reduce" + name, {"opset": 18, "keepdims": keep}, [x, numpy.array(axes, "i8")], [numpy.asarray(y).astype("f4")]


def moves(random):
    for axis, count in ((0, 2), (1, 3), (-1, 4)):
        x = random.standard_normal((4, 5, 7)).astype("f4")
        size = -(-x.shape[axis] // count)
        parts = numpy.split(x, range(size, x.shape[axis], size), axis)
        if len(parts) == count:
            yield "Split", {"opset": 18, "axis": axis, "num_outputs": count}, [x], parts
    for axes in ((0,), (2,), (1, -1)):
        x = random.standard_normal((3, 4, 5)).astype("f4")
        widths = [(0, 0)] * 3
        for i, axis in enumerate(axes):
            widths[axis] = (i + 1, 2)
        pads = [widths[a][0] for a in axes] + [widths[a][1] for a in axes]
        yield "Pad", {"opset": 18}, [x, numpy.array(pads, "i8"), numpy.array(0, "f4"), numpy.array(axes, "i8")], [numpy.pad(x, widths)]
    for perm in itertools.permutations(range(3)):
        x = random.standard_normal((3, 4, 9)).astype("f4")
        yield "Transpose", {"opset": 21, "perm": list(perm)}, [x], [numpy.transpose(x, perm)]


def convolve(x, w, bias, stride, pad, dilation, groups):
    images, channels, height, width = x.shape
    outputs, per_group, kh, kw = w.shape
    padded = numpy.pad(x.astype("f8"), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    out = [(n + 2 * pad - dilation * (k - 1) - 1) // stride + 1 for n, k in ((height, kh), (width, kw))]
    y = numpy.zeros((images, outputs, *out))
    for o in range(outputs):
        first = o // (outputs // groups) * per_group
        for i, j in itertools.product(range(kh), range(kw)):
            top, left = i * dilation, j * dilation
            window = padded[:, first:first + per_group, top:top + (out[0] - 1) * stride + 1:stride, left:left + (out[1] - 1) * stride + 1:stride]
            y[:, o] += numpy.einsum("nchw,c->nhw", window, w[o, :, i, j].astype("f8"))
    return (y + bias.reshape(1, -1, 1, 1)).astype("f4")


def convolutions(random):
    for kernel, stride, pad, dilation, (channels, outputs, groups) in itertools.product((1, 2, 3), (1, 2), (0, 1), (1, 2), ((3, 5, 1), (8, 8, 8), (6, 4, 2))):
        x = random.standard_normal((1, channels, 9, 11)).astype("f4")
        w = random.standard_normal((outputs, channels // groups, kernel, kernel)).astype("f4")
        bias = random.standard_normal(outputs).astype("f4")
        attributes = {"opset": 11, "strides": [stride] * 2, "pads": [pad] * 4, "dilations": [dilation] * 2, "group": groups}
        yield "Conv", attributes, [x, w, bias], [convolve(x, w, bias, stride, pad, dilation, groups)]


def products(random):
    for m, k, n in ((1, 8, 8), (3, 17, 5), (7, 64, 33), (5, 100, 3)):
        a, b, bias = (random.standard_normal(s).astype("f4") for s in ((m, k), (n, k), (n,)))
        yield "Gemm", {"opset": 13, "transB": 1}, [a, b, bias], [(a.astype("f8") @ b.T + bias).astype("f4")]
        yield "MatMul", {"opset": 13}, [a, b.T.copy()], [(a.astype("f8") @ b.T).astype("f4")]


def all_cases(random):
    for generator in (functions, norms, reductions, moves, convolutions, products):
        yield from generator(random)
