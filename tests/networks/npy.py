#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Array files of NumPy are read, and NumPy reads what is written.

    npy.py NPY_TENSORS

Every element type, byte order, order of dimensions and version of the format that numpy.lib.format writes, of ranks 0 to 8, with extents of 0; arrays of
other types are rejected.
"""

import os
import subprocess
import sys
import tempfile

import numpy

TYPES = ("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")
SHAPES = ((), (5,), (0,), (2, 3), (3, 0, 2), (2, 3, 4), (1, 2, 1, 3), (2, 1, 3, 2, 2), (2, 1, 2, 1, 2, 1, 2, 2))


def arrays():
    """(array, version of the format)"""
    random = numpy.random.default_rng(1)
    for kind in TYPES:
        for i, shape in enumerate(SHAPES):
            bits = random.bytes(int(kind[1]) * int(numpy.prod(shape)))
            base = numpy.frombuffer(bits, "<" + kind).reshape(shape) if kind != "b1" else numpy.frombuffer(bits, "u1").reshape(shape) > 99
            layouts = ("<C", ">C", "<F", ">F")
            for order, columns in layouts if shape == (2, 3, 4) else layouts[i % 4:i % 4 + 1]:
                yield numpy.array(base.astype(base.dtype.newbyteorder(order)), order=columns), (1 + i % 3, 0)


def rejected():
    """(array, code)"""
    for kind in ("c8", "c16", "g", "S3", "U2", "M8[s]", "m8[s]", "V2"):
        yield numpy.zeros(3, kind), "TV-L081"
    yield numpy.zeros(2, [("a", "<f4"), ("b", "<i2")]), "TV-L081"
    yield numpy.array([None, {}], object), "TV-L081"
    yield numpy.zeros((1,) * 9), "TV-L082"


def write(path, array, version):
    with open(path, "wb") as file:
        numpy.lib.format.write_array(file, array, version)


def check_written(path, array, dtype):
    """The problem of a file that was written from an array, or None."""
    again = numpy.load(path + ".npy", allow_pickle=False)
    with open(path + ".npy", "rb") as file:
        start = len(file.read()) - array.nbytes
    with open(path + ".raw", "rb") as file:
        raw = file.read()
    data = array.astype(dtype.newbyteorder("<")).tobytes()
    if again.dtype != dtype or again.shape != array.shape:
        return "%s of %s instead of %s of %s" % (again.shape, again.dtype, array.shape, dtype)
    if not again.flags["C_CONTIGUOUS"] or start % 64:
        return "the elements are not in rows, or not aligned"
    return None if again.tobytes() == data and raw == data else "the elements differ"


def main():
    program, failed = sys.argv[1], 0
    cases = [(array, version, "-", None) for array, version in arrays()]
    cases += [(array, (1, 0), "-", code) for array, code in rejected()]
    cases += [(numpy.arange(-8, 8, dtype="i1"), (1, 0), "int4", None), (numpy.arange(16, dtype="u1"), (1, 0), "uint4", None),
              (numpy.arange(65536, dtype=">u2"), (1, 0), "bfloat16", None), (numpy.arange(17, dtype="u1"), (1, 0), "uint4", "not restored"),
              (numpy.arange(4, dtype="i2"), (1, 0), "bfloat16", "not restored")]
    with tempfile.TemporaryDirectory() as folder:
        lines = []
        for i, (array, version, kind, _) in enumerate(cases):
            path = os.path.join(folder, "%d.npy" % i)
            write(path, array, version)
            lines.append("%s %s %s" % (path, os.path.join(folder, "out%d" % i), kind))
        done = subprocess.run([program], input="\n".join(lines) + "\n", stdout=subprocess.PIPE, text=True, check=True)
        printed = done.stdout.splitlines()
        failed += len(printed) != len(cases)
        for i, (line, (array, version, _, code)) in enumerate(zip(printed, cases)):
            problem = None if line.startswith(code or "ok") else line
            if not code and not problem:
                problem = check_written(os.path.join(folder, "out%d" % i), array, array.dtype.newbyteorder("="))
            elif not problem and os.path.exists(os.path.join(folder, "out%d.npy" % i)):
                problem = "a file was written"
            if problem:
                failed += 1
                print("%s %s, version %d.%d: %s" % (array.dtype, array.shape, *version, problem))
    print("%d passed, %d failed" % (len(cases) - failed, failed))
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
