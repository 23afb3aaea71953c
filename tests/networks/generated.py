#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Operators that ONNX's backend suite has few cases of, with many attributes and shapes, against NumPy.

    generated.py ONNX_CONFORMANCE

Einsum of one to three terms, with sums, diagonals and ellipses; TopK along each axis; scattering with each reduction; the reversal of sequences.
"""

import os
import subprocess
import sys
import tempfile

import numpy
import onnx
from onnx import helper, numpy_helper

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


def write(folder, op, attributes, inputs, outputs):
    """A folder as the backend suite has them."""
    infos = [[helper.make_tensor_value_info("%s%d" % (kind, i), onnx.helper.mapping.NP_TYPE_TO_TENSOR_TYPE[v.dtype], v.shape) for i, v in enumerate(list_)]
             for kind, list_ in (("x", inputs), ("y", outputs))]
    node = helper.make_node(op, [i.name for i in infos[0]], [i.name for i in infos[1]], **attributes)
    model = helper.make_model(helper.make_graph([node], "case", *infos), opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    os.makedirs(os.path.join(folder, "test_data_set_0"))
    with open(os.path.join(folder, "model.onnx"), "wb") as file:
        file.write(model.SerializeToString())
    for kind, values in (("input", inputs), ("output", outputs)):
        for i, v in enumerate(values):
            with open(os.path.join(folder, "test_data_set_0", "%s_%d.pb" % (kind, i)), "wb") as file:
                file.write(numpy_helper.from_array(numpy.ascontiguousarray(v) if v.ndim else v).SerializeToString())


def main():
    random = numpy.random.default_rng(1)
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        cases = [c for generator in (einsums, top_ks, scatters, reversals) for c in generator(random)]
        folders = [os.path.join(folder, str(i)) for i in range(len(cases))]
        for path, case in zip(folders, cases):
            write(path, *case)
        result = subprocess.run([sys.argv[1]], input="".join(p + "\n" for p in folders), stdout=subprocess.PIPE, text=True, check=True)
        for case, line in zip(cases, result.stdout.strip().split("\n")):
            if line.split(" ")[0] not in ("passed", "bound"):
                failed += 1
                print(case[0], case[1], [v.shape for v in case[2]], line)
    print("%d passed, %d failed" % (len(cases) - failed, failed))
    sys.exit(failed > 0 or len(cases) < 100)


if __name__ == "__main__":
    main()
