#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tensors of ONNX files are read as the module onnx reads them.

    tensors.py ONNX_TENSORS

The inputs and outputs of the test cases that Debian's libonnx-testdata has, and tensors of every element type that the module can write, with raw bytes
and with lists.
"""

import glob
import os
import subprocess
import sys
import tempfile

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

DATA = "/usr/share/libonnx-testdata/data"
TYPES = ("FLOAT", "UINT8", "INT8", "UINT16", "INT16", "INT32", "INT64", "BOOL", "FLOAT16", "DOUBLE", "UINT32", "UINT64")
NAMES = {TensorProto.BFLOAT16: "bfloat16"}


def expected(path):
    """The line of a tensor, None for an element type that Trivet does not read, or for another kind of value."""
    proto = onnx.load_tensor(path)
    name = TensorProto.DataType.Name(proto.data_type)
    if name == "BFLOAT16":
        return None
    if name not in TYPES:
        return "error:"
    array = numpy_helper.to_array(proto)
    return " ".join([str(array.dtype), *map(str, array.shape)]) + ":" + array.tobytes().hex()


def write_own(folder):
    """Tensors of all types as lists and as bytes."""
    random = numpy.random.default_rng(1)
    for name in TYPES:
        kind = getattr(TensorProto, name)
        dtype = onnx.mapping.TENSOR_TYPE_TO_NP_TYPE[kind]
        for dims in ((), (5,), (2, 0, 3), (3, 4)):
            array = (random.standard_normal(dims) * 50).astype(dtype)
            yield numpy_helper.from_array(array, "raw")
            yield helper.make_tensor("list", kind, dims, array.flatten().tolist() if dims else [array.item()])


def main():
    program, failed = sys.argv[1], 0
    with tempfile.TemporaryDirectory() as folder:
        paths = sorted(glob.glob(DATA + "/*/*/test_data_set_0/*.pb"))
        for i, proto in enumerate(write_own(folder)):
            paths.append(os.path.join(folder, "%d.pb" % i))
            onnx.save_tensor(proto, paths[-1])
        done = subprocess.run([program], input="\n".join(paths) + "\n", stdout=subprocess.PIPE, text=True, check=True)
        lines, compared = done.stdout.split("\n"), 0
        failed += len(lines) != len(paths) + 1
        for path, line in zip(paths, lines):
            try:
                want = expected(path)
            except Exception:  # a sequence, an optional value: no tensor
                want = None
            if want is None:
                continue
            compared += 1
            if line != want and not (want == "error:" and line.startswith(want)):
                failed += 1
                print("%s: %.100s instead of %.100s" % (path, line, want))
    print("%d passed, %d failed" % (compared - failed, failed))
    sys.exit(failed > 0 or compared < 90)


if __name__ == "__main__":
    main()
