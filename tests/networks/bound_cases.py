#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The bounds of small networks, computed by hand, and the manual's table of bounds.

    bound_cases.py TRIVET [--rebase]
"""

import os
import sys

sys.dont_write_bytecode = True

import bound  # noqa: E402
import networks  # noqa: E402
import numpy  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

MIB = 1 << 20
PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "networks.md")
MARK, END = "<!-- bounds -->\n", "<!-- end of bounds -->\n"
COLUMNS = (("--target", "cmdq"), ("--target", "cmdq", "--weight-bits", "4"), ("--target", "pccx"))


def network(dims, *nodes, output="y", **weights):
    """Nodes are (operator, inputs, output, attributes); the input is x."""
    made = [helper.make_node(op, inputs.split(), [out], **attributes) for op, inputs, out, attributes in nodes]
    tensors = [numpy_helper.from_array(numpy.zeros(shape, numpy.float32), name) for name, shape in weights.items()]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(made, "n", [value("x", TensorProto.FLOAT, dims)], [value(output, TensorProto.FLOAT, None)], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])


def conv(inputs, out, **attributes):
    return "Conv", inputs, out, attributes


def cells(model, *arguments):
    """A row of each layer: macs, weight, read and written bytes, cycles of compute, of transfers and of the bound."""
    options = bound.arguments(["model", *arguments])
    rows = map(bound.row, bound.compute_bound(model, options, bound.parameters(options)))
    return [(r["macs"], r["weight_bytes"], r["read_bytes"], r["written_bytes"], r["compute_cycles"], r["transfer_cycles"], r["cycles"])
            for r in rows if r["operator"] != bound.INPUT or r["cycles"]]


def cases(trivet):
    """(name, found, expected)"""
    small = network([1, 64, 8, 8], conv("x w", "y"), w=[32, 64, 1, 1])
    macs = 32 * 64 * 64
    yield "transfers bound", cells(small), [(macs, 2048, 4096, 2048, 16, 256, 256)]
    yield "weights of 4 bits", cells(small, "--weight-bits", "4"), [(macs, 1024, 4096, 2048, 11, 224, 224)]
    yield "operands of 16 bits", cells(small, "--weight-bits", "16", "--activation-bits", "16"), [(macs, 4096, 8192, 4096, 64, 512, 512)]
    yield "another bus", cells(small, "-D", "dma.bus_width_bytes=16"), [(macs, 2048, 4096, 2048, 16, 512, 512)]
    yield "the bus is wider than DRAM", cells(small, "-D", "dma.bus_width_bytes=128"), [(macs, 2048, 4096, 2048, 16, 128, 128)]
    yield "profile edge", cells(small, "--profile", "cmdq-edge", "--trivet", trivet), [(macs, 2048, 4096, 2048, 32, 256, 256)]
    yield "profile mobile", cells(small, "--profile", "cmdq-mobile", "--trivet", trivet), cells(small)
    large = network([1, 512, 56, 56], conv("x w", "y", pads=[1] * 4), w=[512, 512, 3, 3])
    yield "compute bound", cells(large), [(512 * 512 * 9 * 3136, 2359296, 1605632, 1605632, 903168, 174080, 903168)]
    depthwise = network([1, 64, 8, 8], conv("x w", "y", group=64, pads=[1] * 4), w=[64, 1, 3, 3])
    yield "depthwise", cells(depthwise), [(36864, 576, 4096, 4096, 5, 274, 274)]
    yield "depthwise as the array does it", cells(depthwise, "--array-groups"), [(36864 * 32, 576, 4096, 4096, 144, 274, 274)]
    up = network([1, 64, 8, 8], ("ConvTranspose", "x w", "y", {"strides": [2, 2]}), w=[64, 32, 2, 2])
    yield "transposed convolution", cells(up), [(64 * 64 * 32 * 4, 8192, 4096, 8192, 64, 640, 640)]

    pair = {"w": [64, 64, 1, 1], "v": [64, 64, 1, 1]}
    compute = 64 * 64 * 65536 // 8192
    wide = network([1, 64, 256, 256], conv("x w", "a"), ("Relu", "a", "b", {}), conv("b v", "y"), **pair)
    yield "an activation larger than SPM", [c[2:4] for c in cells(wide)], [(4 * MIB, 4 * MIB), (4 * MIB, 4 * MIB)]
    yield "its compute", [c[4] for c in cells(wide)], [compute, compute]
    yield "the part that does not fit", [c[2:4] for c in cells(wide, "--partial")], [(4 * MIB, 2 * MIB), (2 * MIB, 4 * MIB)]
    skip = network([1, 16, 256, 256], conv("x a", "p"), conv("p b", "q"), conv("q c", "r"), ("Add", "r p", "s", {}), conv("s d", "y"),
                   **{name: [16, 16, 1, 1] for name in "abcd"})
    yield "a residual", [c[2:4] for c in cells(skip)], [(MIB, 0), (0, 0), (0, MIB), (MIB, MIB)]
    join = network([1, 16, 256, 256], conv("x a", "p"), ("MaxPool", "p", "h", {"kernel_shape": [2, 2], "strides": [2, 2]}), conv("h b", "q"),
                   conv("q c", "r"), ("Resize", "r  k", "u", {"mode": "nearest"}), ("Concat", "u p", "t", {"axis": 1}), conv("t d", "y"),
                   a=[24, 16, 1, 1], b=[24, 24, 1, 1], c=[24, 24, 1, 1], d=[16, 48, 1, 1])
    join.graph.node[4].input[:] = ["r", "", "k"]
    join.graph.initializer.append(numpy_helper.from_array(numpy.array([1, 1, 2, 2], numpy.float32), "k"))
    # p has 1.5 MiB, h and q have 0.375: at the second layer they are live together with 2.25 MiB, and p is read last. At the third q and u have 1.875 MiB.
    most = 3 * MIB // 2
    yield "a branch that is joined later", [c[2:4] for c in cells(join)], [(MIB, 0), (0, most), (0, 0), (most, MIB)]

    product = network([128, 768], ("MatMul", "x w", "y", {}), w=[768, 3072])
    yield "pccx", cells(product, "--target", "pccx"), [(301989888, 1179648, 196608, 786432, 147456, 98304, 147456)]
    yield "pccx, one row", cells(network([1, 768], ("MatMul", "x w", "y", {}), w=[768, 3072]), "--target", "pccx"), [
        (2359296, 1179648, 1536, 6144, 18432, 58983, 58983)]
    scores = network([2, 128, 64], ("Transpose", "x", "t", {"perm": [0, 2, 1]}), ("MatMul", "x t", "y", {}))
    yield "two activations", cells(scores), [(2 * 128 * 128 * 64, 0, 16384, 32768, 256, 1536, 1536)]
    yield "two activations on pccx", cells(scores, "--target", "pccx"), [(2097152, 8192, 32768, 65536, 1024, 9831, 9831)]
    quantized = network([4, 64], ("QLinearMatMul", "x s z w s z s z", "y", {}), w=[64, 32])
    quantized.graph.input[0].type.tensor_type.elem_type = TensorProto.UINT8
    quantized.graph.output[0].type.tensor_type.elem_type = TensorProto.UINT8
    quantized.graph.initializer[0].CopyFrom(numpy_helper.from_array(numpy.zeros((64, 32), numpy.uint8), "w"))
    quantized.graph.initializer.extend([numpy_helper.from_array(numpy.float32(1), "s"), numpy_helper.from_array(numpy.uint8(0), "z")])
    yield "quantized operands", cells(quantized), [(4 * 32 * 64, 2048, 256, 128, 1, 76, 76)]
    folded = network([4, 64], ("Transpose", "w", "t", {"perm": [1, 0]}), ("MatMul", "x t", "y", {}), w=[32, 64])
    yield "folded weights", cells(folded), [(4 * 32 * 64, 2048, 256, 128, 1, 76, 76)]


def table():
    """The rows of the manual: the bounds of the networks of networks.py on the default machines."""
    text = "\n| network | layers | MACs, millions | CMDQ, 8 bits | weights of 4 bits | pccx |\n|---|---:|---:|---:|---:|---:|\n"
    for name in networks.NETWORKS:
        model, row = networks.build(name, shapes=True)[0], []
        for arguments in COLUMNS:
            options = bound.arguments([name, *arguments])
            p = bound.parameters(options)
            total = bound.summary(bound.compute_bound(model, options, p), p)
            row.append(format(total["cycles"], ","))
        text += "| %s | %d | %s | %s |\n" % (name, total["layers"], format(round(total["macs"] / 1e6), ","), " | ".join(row))
    return text + "\n"


def check_page(rebase):
    """1 when the manual has another table."""
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    start, end = page.index(MARK) + len(MARK), page.index(END)
    rows = table()
    if rebase:
        with open(PAGE, "w", encoding="utf-8") as file:
            file.write(page[:start] + rows + page[end:])
    elif page[start:end] != rows:
        print("docs/networks.md has other bounds than\n" + rows)
        return 1
    return 0


def main():
    failed, count = check_page("--rebase" in sys.argv), 1
    for name, found, expected in cases(sys.argv[1]):
        count += 1
        if found != expected:
            failed += 1
            print("%s: %s instead of %s" % (name, found, expected))
    print("%d passed, %d failed" % (count - failed, failed))
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
