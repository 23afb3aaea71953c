#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Networks that are invalid or not supported are errors, with the code, the node and what is wrong with it.

    hostile.py ONNX_IMPORT
"""

import os
import resource
import subprocess
import sys
import tempfile

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from suite import is_left_out, sample  # noqa: E402

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
MEMORY = 1 << 30


def model(nodes, inputs=(("x", [2, 3]),), outputs=("y",), tensors=(), opset=13, domain=""):
    """A network; tensors are pairs of a name and an array."""
    given = [helper.make_tensor_value_info(i[0], i[2] if len(i) > 2 else FLOAT, i[1]) for i in inputs]
    results = [helper.make_tensor_value_info(o, FLOAT, None) for o in outputs]
    initializers = [numpy_helper.from_array(numpy.asarray(a), name) for name, a in tensors]
    graph = helper.make_graph(list(nodes), "g", given, results, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(domain, opset)])


def node(op, inputs="x", outputs="y", **attributes):
    return helper.make_node(op, inputs.split(","), outputs.split(","), name="n", **attributes)


def node_test(op, expected, inputs="x", tensors=(), shape=(2, 3), opset=13, code="TV-L065", outputs="y", **attributes):
    return (model([node(op, inputs, outputs, **attributes)], [("x", list(shape))], tensors=tensors, opset=opset), code, expected)


def ints(name, *values):
    return name, numpy.array(values, numpy.int64)


def wrong_kind(name, value):
    """An attribute that is a text instead of a number."""
    made = node("Softmax")
    made.attribute.append(helper.make_attribute(name, value))
    return made


def cases():
    """Pairs of names and (model, code, part of the message)."""
    yield "cycle", (model([node("Add", "x,b", "a"), node("Relu", "a", "b"), node("Relu", "b", "y")]), "TV-L065", "node 0 'n' (Add")
    yield "itself", (model([node("Add", "x,y", "y")]), "TV-L065", "depends on this one")
    yield "missing", (model([node("Add", "x,nothing")]), "TV-L065", "nothing computes the input 'nothing'")
    yield "twice", (model([node("Relu"), node("Relu")]), "TV-L064", "the name is used twice")
    yield "output", (model([node("Relu", "x", "z")]), "TV-L064", "nothing computes it")
    yield "input twice", (model([node("Relu")], [("x", [2]), ("x", [2])]), "TV-L064", "the name is used twice")
    yield "no outputs", (model([node("Relu")], outputs=()), "TV-L064", "it has no outputs")
    yield "optional output of a missing input", (model([node("Relu", "")]), "TV-L065", "an input is missing")
    yield "attribute type", (model([wrong_kind("axis", "one")]), "TV-L065", "the attribute 'axis' is not an integer")
    yield "attribute list", (model([wrong_kind("axis", [1, 2])]), "TV-L065", "the attribute 'axis' is not an integer")
    yield "operator", (model([node("Relo")]), "TV-L066", "did you mean 'Relu'?")
    yield "known operator", (model([node("Compress")]), "TV-L066", "Gather takes known indices")
    yield "opset", (model([node("Relu")], opset=22), "TV-L066", "from opset 1 to 21")
    yield "new operator in an old set", (model([node("Gelu")]), "TV-L066", "from opset 20 to 21")
    yield "domain", (model([helper.make_node("Relu", ["x"], ["y"], domain="elsewhere")]), "TV-L066", "domain 'elsewhere'")
    yield "text", (model([node("Identity")], [("x", [2], TensorProto.STRING)]), "TV-L064", "element type")
    yield "dimension", (model([node("Relu")], [("x", ["batch", 3])]), "TV-L067", "dimension 'batch' has no number")
    yield "huge input", (model([node("Relu")], [("x", [1 << 40, 1 << 40])]), "TV-L064", "does not fit|more elements than fit")
    yield "empty and huge", (model([node("Flatten")], [("x", [0, 1 << 40, 1 << 40])]), "TV-L064", "more elements than fit")
    yield "axis", node_test("Softmax", "the axis 2 is not one of 2", axis=2)
    yield "negative axis", node_test("Softmax", "the axis -3 is not one of 2", axis=-3)
    yield "far axis", node_test("Concat", "the axis %d is not one of 2" % -2**63, "x,x", axis=-2**63)
    yield "permutation", node_test("Transpose", "twice", perm=[0, 0])
    yield "long permutation", node_test("Transpose", "the permutation has 3 axes", perm=[0, 1, 2])
    yield "reshape", node_test("Reshape", "number of elements", "x,s", [ints("s", 7)])
    yield "two rests", node_test("Reshape", "more than one extent is -1", "x,s", [ints("s", -1, -1)])
    yield "negative extent", node_test("Reshape", "negative", "x,s", [ints("s", -2, 3)])
    yield "shape of data", (model([node("Reshape", "x,s")], [("x", [2, 3]), ("s", [2], INT64)]), "TV-L067", "'s' must be a constant")
    yield "huge expansion", node_test("Expand", "", "x,s", [ints("s", 1 << 31, 1 << 31, 2, 3)])
    yield "huge constant", node_test("ConstantOfShape", "2^31", "s", [ints("s", 1 << 40, 1 << 20)])
    yield "huge range", node_test("Range", "too long", "a,b,c", [ints("a", 0), ints("b", 1 << 60), ints("c", 1)])
    yield "no step", node_test("Range", "the step is 0", "a,b,c", [ints("a", 0), ints("b", 1), ints("c", 0)])
    yield "no repetitions", node_test("Tile", "its input 2 is missing")
    yield "tile", node_test("Tile", "repetitions", "x,r", [ints("r", 1, 1 << 62)])
    yield "tiles", node_test("Tile", "", "x,r", [ints("r", 2**31 - 1, 2**31 - 1)])
    yield "pads", node_test("Pad", "", "x,p", [ints("p", 0, 0, 2**63 - 1, 2**63 - 1)])
    yield "pad rank", node_test("Pad", "two numbers for each axis", "x,p", [ints("p", 0, 0)])
    yield "slice step", node_test("Slice", "a step is 0", "x,a,b,c,d", [ints("a", 0), ints("b", 1), ints("c", 0), ints("d", 0)])
    yield "slice lists", node_test("Slice", "differ in number", "x,a,b", [ints("a", 0), ints("b", 1, 1)])
    yield "split", node_test("Split", "cannot be split into 2", axis=1, outputs="y,z", opset=11)
    yield "split sizes", node_test("Split", "more elements", axis=1, outputs="y,z", opset=11, split=[2, 2])
    yield "squeeze", node_test("Squeeze", "axis 0 has 2 elements", "x,a", [ints("a", 0)])
    yield "unsqueeze", node_test("Unsqueeze", "twice", "x,a", [ints("a", 0, 0)])
    yield "many axes", node_test("Unsqueeze", "more than 8 axes", "x,a", [ints("a", *range(7))], code="TV-L066")
    yield "gemm", node_test("Gemm", "", "x,w", [("w", numpy.zeros((4, 5), numpy.float32))])
    yield "matmul", node_test("MatMul", "", "x,w", [("w", numpy.zeros((4, 5), numpy.float32))])
    yield "operands", node_test("MatMulInteger", "nothing computes the input 'z'", "x,w,z", [ints("w", 1)])
    yield "add", node_test("Add", "do not fit each other", "x,w", [("w", numpy.zeros(2, numpy.float32))])
    yield "types", node_test("Add", "different element types", "x,w", [ints("w", 1)])
    weights = [("w", numpy.zeros((4, 3, 3, 3), numpy.float32))]
    picture = {"shape": (1, 3, 8, 8), "inputs": "x,w", "tensors": weights}
    yield "groups", node_test("Conv", "groups", group=2, **picture)
    yield "no groups", node_test("Conv", "0 groups are not possible", group=0, **picture)
    yield "stride", node_test("Conv", "less than 1", strides=[0, 1], **picture)
    yield "strides", node_test("Conv", "has 1 numbers for 2 spatial axes", strides=[1], **picture)
    yield "negative pads", node_test("Conv", "negative", code="TV-L066", pads=[-1, 0, 0, 0], **picture)
    yield "dilation", node_test("Conv", "larger than the input", dilations=[2**31 - 2, 1], **picture)
    yield "pool", node_test("MaxPool", "larger than the input", shape=(1, 3, 8, 8), kernel_shape=[9, 9])
    yield "pool without kernel", node_test("MaxPool", "less than 1", shape=(1, 3, 8, 8))
    yield "no planes", node_test("MaxPool", "axes after batch and channels", code="TV-L066", kernel_shape=[2])
    yield "outputs", node_test("Softmax", "its output 2, 'i', is not supported", code="TV-L066", outputs="y,i")
    yield "equation", node_test("Einsum", "does not fit the inputs", equation="ijk->i")
    yield "label", node_test("Einsum", "axes of the same label differ", equation="ii->i")
    yield "unknown label", node_test("Einsum", "the equation is not valid", equation="ij->k")
    yield "odd label", node_test("Einsum", "the equation is not valid", equation="i1->i")
    yield "labels", node_test("Einsum", "axes of the same label differ", "x,x", equation="ij,ji->i")
    yield "top", node_test("TopK", "4 elements are not in the axis", "x,k", [ints("k", 4)])
    yield "training", node_test("Dropout", "training", "x,r,t", [("r", numpy.float32(0.5)), ("t", numpy.bool_(True))], code="TV-L066")
    yield "block", node_test("DepthToSpace", "no multiple of the block", shape=(1, 3, 8, 8), blocksize=2**40)
    yield "cast", node_test("Cast", "element type 99", code="TV-L066", to=99)
    yield "inner graph", (model([helper.make_node("If", ["x"], ["y"], then_branch=model([node("Relu")]).graph)]), "TV-L066", "inner graphs")


def many_nodes():
    """A chain of 100,000 nodes and a tower of constants that doubles at each step; both end."""
    chain = [helper.make_node("Relu", ["x" if i == 0 else "v%d" % i], ["v%d" % (i + 1)]) for i in range(100000)]
    yield "long", model(chain, outputs=("v100000",)), None
    tower = [helper.make_node("Concat", [("a%d" % i)] * 8, ["a%d" % (i + 1)], axis=0) for i in range(60)]
    yield "tower", model(tower, outputs=("a60",), tensors=[("a0", numpy.zeros(1000, numpy.float32))]), "TV-L065"
    heavy = [helper.make_node("MatMul", ["w", "w" if i == 0 else "v%d" % i], ["v%d" % (i + 1)]) for i in range(2000)]
    far = [helper.make_node("ScatterND", ["w", "i", "u"], ["a"]), helper.make_node("Gather", ["w", "i"], ["b"])]
    yield "far indices", model(far, outputs=("a", "b"), tensors=[("w", numpy.zeros((4, 4), numpy.float32)), ints("i", 2**62, -5)[:1] + (
        numpy.array([[2**62], [-5]]),), ("u", numpy.zeros((2, 4), numpy.float32))]), None
    yield "heavy", model(heavy, outputs=("v2000",), tensors=[("w", numpy.zeros((500, 500), numpy.float32))]), None


def absent_weights(folder):
    """A network whose weights are in a file that does not exist."""
    made = model([node("Gemm", "x,w")], tensors=[("w", numpy.zeros((3, 4), numpy.float32))])
    onnx.save(made, os.path.join(folder, "e.onnx"), save_as_external_data=True, location="e.bin", size_threshold=0)
    os.remove(os.path.join(folder, "e.bin"))
    return onnx.load(os.path.join(folder, "e.onnx"), load_external_data=False)


def run(program, made, folder, *options):
    path = os.path.join(folder, "m.onnx")
    with open(path, "wb") as file:
        file.write(made if isinstance(made, bytes) else made.SerializeToString())
    done = subprocess.run([program, path, *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False,
                          timeout=60)
    return done.returncode, done.stdout


def corpus():
    """Inputs that a fuzzer found: each is a network, or one error."""
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "fuzz", "corpus", "onnx")
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), "rb") as file:
            yield name, file.read()


def main():
    program, passed, failed = sys.argv[1], 0, 0
    if "--sanitized" not in sys.argv:
        resource.setrlimit(resource.RLIMIT_AS, (2 * MEMORY, 2 * MEMORY))
    with tempfile.TemporaryDirectory() as folder:
        for name, (made, code, expected) in cases():
            if is_left_out(name):
                continue
            status, text = run(program, made, folder)
            good = status == 1 and code in text and any(e in text for e in expected.split("|")) and text.count("error:") == 1
            passed, failed = passed + good, failed + (not good)
            if not good:
                print("%s: status %d: %.300s (expected %s, %s)" % (name, status, text, code, expected))
        for name, made, code in many_nodes():
            status, text = run(program, made, folder)
            good = status == 1 and code in text if code else status == 0
            passed, failed = passed + good, failed + (not good)
            if not good:
                print("%s: status %d: %.300s" % (name, status, text))
        for name, made in sample(corpus(), 4):
            for options in ([], ["--timing"]):
                status, text = run(program, made, folder, *options)
                good = status in (0, 1) and text.count("error:") == status
                passed, failed = passed + good, failed + (not good)
                if not good:
                    print("%s %s: status %d: %.300s" % (name, options, status, text))
        absent = absent_weights(folder)
        good = "TV-F001" in run(program, absent, folder)[1] and run(program, absent, folder, "--timing")[0] == 0
        passed, failed = passed + good, failed + (not good)
        if not good:
            print("absent weights: %s %s" % (run(program, absent, folder), run(program, absent, folder, "--timing")))
    print("%d passed, %d failed" % (passed, failed))
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
