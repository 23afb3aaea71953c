#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Operators that ONNX's backend suite has few cases of, with many attributes and shapes, against NumPy.

    generated.py ONNX_CONFORMANCE

Einsum of one to three terms, with sums, diagonals and ellipses; TopK along each axis; scattering with each reduction; the reversal of sequences;
Resize with each method and mode of coordinates, from the formulas of its description; MatMulNBits of 2, 4 and 8 bits; those of newer.py.
"""

import os
import subprocess
import sys
import tempfile

import numpy
import onnx
from onnx import helper, numpy_helper

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import newer  # noqa: E402

EQUATIONS = (
    ("ij->ji", (2, 3)), ("ij->", (2, 3)), ("ij", (2, 3)), ("ji", (2, 3)), ("ii->i", (3, 3)), ("ii", (3, 3)), ("...ii->...i", (2, 3, 4, 4)),
    ("iji->j", (2, 3, 2)), ("...ij->...", (2, 3, 4)), ("iij -> ji", (2, 2, 3)), ("...->...", (2, 3)),
    ("i,i", (4,), (4,)), ("i,j->ij", (3,), (4,)), ("ij,jk->ik", (2, 3), (3, 4)), ("ij,jk", (2, 3), (3, 4)), ("ij,kj->ki", (2, 3), (4, 3)),
    ("bij,bjk->bik", (5, 2, 3), (5, 3, 4)), ("bhid,bhjd->bhij", (2, 3, 4, 5), (2, 3, 6, 5)), ("bhij,bjhd->bihd", (2, 3, 4, 5), (2, 5, 3, 6)),
    ("bid,dhe->bhie", (2, 3, 4), (4, 5, 6)), ("ij,ij->ij", (2, 3), (2, 3)), ("ij,ij->i", (2, 3), (2, 3)), ("ijk,l->i", (2, 3, 4), (5,)),
    ("...ij,...jk->...ik", (2, 3, 4), (2, 4, 5)), ("...ij,...jk->...ik", (3, 4), (2, 4, 5)), ("...i,...i->...", (2, 3), (1, 3)),
    ("...i,...i", (2, 1, 3), (4, 3)), ("i...,i...->i...", (3, 2), (3, 2)), ("iij,jk->ik", (2, 2, 3), (3, 4)), ("ab,cd->dbca", (2, 3), (4, 5)),
    ("i,ij,j", (2,), (2, 3), (3,)), ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)), ("ai,bi,ci->abc", (2, 5), (3, 5), (4, 5)), ("ij,,jk->ik", (2, 3), (), (3, 4)),
    ("...,...->...", (), (2, 3)), ("ij,jk->ik", (0, 3), (3, 4)), ("ij,jk->ik", (2, 0), (0, 4)),
)


def einsums(random):
    for equation, *shapes in EQUATIONS:
        values = [random.standard_normal(s) for s in shapes]
        yield "Einsum", {"equation": equation}, values, [numpy.array(numpy.einsum(equation, *values))]


def top_ks(random):
    for shape in ((7,), (3, 5), (2, 3, 4)):
        for axis in range(-len(shape), len(shape)):
            for largest in (0, 1):
                x = random.integers(0, 5, shape).astype("f4")
                k = int(random.integers(0, shape[axis] + 1))
                order = numpy.argsort(-x if largest else x, axis=axis, kind="stable").take(range(k), axis=axis)
                yield "TopK", {"axis": axis, "largest": largest}, [x, numpy.array([k])], [numpy.take_along_axis(x, order, axis), order]


def scatters(random):
    functions = {"none": lambda a, b: b, "add": lambda a, b: a + b, "mul": lambda a, b: a * b, "max": max, "min": min}
    for reduction, function in functions.items():
        for kind in ("f4", "i4", "f8"):
            x = random.integers(-9, 9, (4, 3, 2)).astype(kind)
            for axes in (1, 2, 3):  # tuples that are all different
                tuples = random.permutation(list(numpy.ndindex(x.shape[:axes])))[:3]
                updates = random.integers(-9, 9, (3,) + x.shape[axes:]).astype(kind)
                y = x.copy()
                for at, update in zip(tuples, updates):
                    at = tuple(at)
                    y[at] = numpy.vectorize(function, otypes=[kind])(y[at], update)
                yield "ScatterND", {"reduction": reduction}, [x, tuples - numpy.array(x.shape[:axes]) * (axes % 2), updates], [y]
            for axis in range(-3, 3):
                shape = list(x.shape)
                shape[axis] = 1
                indices = random.integers(-x.shape[axis], x.shape[axis], shape)
                updates = random.integers(-9, 9, shape).astype(kind)
                y = x.copy()
                for at in numpy.ndindex(*shape):
                    to = list(at)
                    to[axis] = indices[at]
                    y[tuple(to)] = function(y[tuple(to)], updates[at])
                yield "ScatterElements", {"axis": axis, "reduction": reduction}, [x, indices, updates], [y]


def reversals(random):
    for time, batch in ((0, 1), (1, 0)):
        x = random.standard_normal((4, 4, 2)).astype("f4")
        lengths = random.integers(1, 5, 4)
        y = numpy.moveaxis(x.copy(), (batch, time), (0, 1))
        for i, length in enumerate(lengths):
            y[i, :length] = y[i, :length][::-1]
        yield "ReverseSequence", {"time_axis": time, "batch_axis": batch}, [x, lengths], [numpy.moveaxis(y, (0, 1), (batch, time))]


def filter_weights(method, a, distances):
    d = numpy.abs(distances)
    if method == "linear":
        return numpy.maximum(1 - d, 0)
    inner, outer = (a + 2) * d**3 - (a + 3) * d**2 + 1, a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a
    return numpy.where(d <= 1, inner, numpy.where(d < 2, outer, 0))


def resize_axis(attributes, size, scale, roi):
    """The matrix [out][in] of one axis, the positions that are extrapolated, and whether rounding decides which element is nearest."""
    out = int(size * scale) if attributes["coordinate_transformation_mode"] != "tf_crop_and_resize" else int(size * (roi[1] - roi[0]) * scale)
    x, length, mode = numpy.arange(out), size * scale, attributes["coordinate_transformation_mode"]
    half = (x + 0.5) / scale - 0.5
    u = {"half_pixel": half, "half_pixel_symmetric": size / 2 * (1 - out / length) + half, "pytorch_half_pixel": half if out > 1 else 0 * half,
         "align_corners": x * (size - 1) / (length - 1) if out > 1 else 0 * half, "asymmetric": x / scale,
         "tf_crop_and_resize": (size - 1) * (roi[0] + (roi[1] - roi[0]) * (x / (out - 1) if out > 1 else x + 0.5))}[mode]
    weights = numpy.zeros((out, size))
    wide = min(scale, 1) if attributes.get("antialias") else 1
    for i, at in enumerate(u):
        if attributes["mode"] == "nearest":
            down = {"round_prefer_floor": numpy.ceil(at - 0.5), "round_prefer_ceil": numpy.floor(at + 0.5), "floor": numpy.floor(at), "ceil": numpy.ceil(at)}
            weights[i, int(numpy.clip(down[attributes["nearest_mode"]], 0, size - 1))] = 1
            continue
        near = numpy.arange(int(numpy.floor(at - 2 / wide)) - 1, int(numpy.ceil(at + 2 / wide)) + 2)
        w = filter_weights(attributes["mode"], attributes.get("cubic_coeff_a", -0.75), (near - at) * wide)
        if attributes.get("exclude_outside"):
            w = numpy.where((near >= 0) & (near < size), w, 0)
        numpy.add.at(weights[i], numpy.clip(near, 0, size - 1), w / (w.sum() or 1))
    outside = (u < 0) | (u > size - 1) if mode == "tf_crop_and_resize" else numpy.zeros(out, bool)
    return weights, outside, bool((numpy.abs(2 * u - numpy.rint(2 * u)) < 1e-4).any()) and scale not in (0.5, 1, 2, 4)


def resizes(random):
    for mode in ("nearest", "linear", "cubic"):
        for coordinates in ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize"):
            for case in range(6):
                size = (int(random.integers(2, 6)), int(random.integers(2, 6)))
                scales = ((0.5, 1.5), (2, 1), (0.625, 2.75), (3, 0.375), (1.25, 0.875), (1, 4))[case]
                attributes = {"mode": mode, "coordinate_transformation_mode": coordinates, "extrapolation_value": 7.0}
                attributes["nearest_mode"] = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")[case % 4]
                if mode != "nearest":
                    attributes["exclude_outside"] = case % 2
                    attributes["antialias"] = int(case > 2 and coordinates != "tf_crop_and_resize")
                if mode == "cubic":
                    attributes["cubic_coeff_a"] = (-0.75, -0.5)[case % 2]
                roi = numpy.array([0, 0, 0.25, -0.25, 1, 1, 1, 1.25] if case % 2 else [0, 0, 0, 0.25, 1, 1, 0.75, 1], "f4")
                x = random.standard_normal((1, 2) + size).astype("f4")
                rows, no_row, row_tie = resize_axis(attributes, size[0], scales[0], (roi[2], roi[6]))
                columns, no_column, column_tie = resize_axis(attributes, size[1], scales[1], (roi[3], roi[7]))
                y = numpy.einsum("nchw,ih,jw->ncij", x.astype("f8"), rows, columns)
                y[:, :, no_row[:, None] | no_column[None, :]] = 7
                if mode == "nearest" and (row_tie or column_tie):
                    continue
                yield "Resize", attributes, [x, roi, numpy.array((1, 1) + scales, "f4")], [y.astype("f4")]


def packed(values, bits):
    """Numbers of the last axis, the first in the lowest bits; a row ends with a whole byte."""
    per_byte = 8 // bits
    padded = numpy.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, -values.shape[-1] % per_byte)])
    groups = padded.reshape(*padded.shape[:-1], -1, per_byte).astype("u4")
    return sum(groups[..., i] << (bits * i) for i in range(per_byte)).astype("u1")


def block_quantized(random):
    """Matrices [rows][columns] in blocks, each with a scale and a zero point: y = x W^T + bias."""
    for bits in (2, 4, 8):
        for size, columns in ((16, 48), (32, 40), (16, 7)):
            rows, count = 5, -(-columns // size)
            q, scales = random.integers(0, 1 << bits, (rows, count, size)), random.uniform(0.1, 1, (rows, count)).astype("f4")
            zeros, bias = random.integers(0, 1 << bits, (rows, count)), random.standard_normal(rows).astype("f4")
            x = random.standard_normal((2, 3, columns)).astype("f4")
            for form in ("none", "packed", "real", "bias"):
                zero = numpy.full((rows, count), 1 << (bits - 1)) if form == "none" else zeros
                w = ((q - zero[..., None]) * scales[..., None]).reshape(rows, -1)[:, :columns]
                inputs = [x, packed(q, bits), scales.reshape(-1)]
                if form != "none":
                    inputs.append(zeros.astype("f4").reshape(-1) if form == "real" else packed(zeros, bits).reshape(-1))
                y = x.astype("f8") @ w.T
                attributes = {"domain": "com.microsoft", "N": rows, "K": columns, "bits": bits, "block_size": size}
                if form == "bias":
                    yield "MatMulNBits", attributes, inputs + [None, bias], [(y + bias).astype("f4")]
                else:
                    yield "MatMulNBits", attributes, inputs, [y.astype("f4")]


def write(folder, op, attributes, inputs, outputs):
    """A folder as the backend suite has them."""
    names = ["x%d" % i if v is not None else "" for i, v in enumerate(inputs)]
    inputs = [v for v in inputs if v is not None]
    infos = [[helper.make_tensor_value_info(name, onnx.helper.mapping.NP_TYPE_TO_TENSOR_TYPE[v.dtype], v.shape) for name, v in zip(names_, list_)]
             for names_, list_ in (([n for n in names if n], inputs), (["y%d" % i for i in range(len(outputs))], outputs))]
    own = {name: value for name, value in attributes.items() if name != "opset"}
    node = helper.make_node(op, names, [i.name for i in infos[1]], **own)
    versions = [helper.make_opsetid("", attributes.get("opset", 18)), helper.make_opsetid("com.microsoft", 1)]
    constants = []
    if op == "MatMulNBits":  # weights are constants
        constants = [numpy_helper.from_array(v, info.name) for v, info in zip(inputs[1:], infos[0][1:])]
        inputs, infos[0] = inputs[:1], infos[0][:1]
    model = helper.make_model(helper.make_graph([node], "case", *infos, constants), opset_imports=versions, ir_version=8)
    os.makedirs(os.path.join(folder, "test_data_set_0"))
    with open(os.path.join(folder, "model.onnx"), "wb") as file:
        file.write(model.SerializeToString())
    for kind, values in (("input", inputs), ("output", outputs)):
        for i, v in enumerate(values):
            with open(os.path.join(folder, "test_data_set_0", "%s_%d.pb" % (kind, i)), "wb") as file:
                file.write(numpy_helper.from_array(numpy.ascontiguousarray(v) if v.ndim else v).SerializeToString())


def all_cases():
    random = numpy.random.default_rng(1)
    for generator in (einsums, top_ks, scatters, reversals, resizes, block_quantized, newer.all_cases):
        yield from generator(random)


def write_all(folder, cases):
    """A folder for each case, by operator and number."""
    folders = [os.path.join(folder, "%s_%d" % (case[0], i)) for i, case in enumerate(cases)]
    for path, case in zip(folders, cases):
        write(path, *case)
    return folders


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        cases = list(all_cases())
        folders = write_all(folder, cases)
        result = subprocess.run([sys.argv[1]], input="".join(p + "\n" for p in folders), stdout=subprocess.PIPE, text=True, check=True)
        for case, line in zip(cases, result.stdout.strip().split("\n")):
            if line.split(" ")[0] not in ("passed", "bound"):
                failed += 1
                print(case[0], case[1], [None if v is None else v.shape for v in case[2]], line)
    print("%d passed, %d failed" % (len(cases) - failed, failed))
    sys.exit(failed > 0 or len(cases) < 100)


if __name__ == "__main__":
    main()
