#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`trivet infer`, and `trivet run` of compiled networks, as a user runs them. The folder of the compiled network has a program for
OpenNPU of this test's own, so that its results are known; damaged manifests are rejected.

    infer.py TRIVET
"""

import copy
import json
import os
import shutil
import sys

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "..", "commands")]
from suite import ROOT, Suite, parse_arguments  # noqa: E402
import schema  # noqa: E402

RELU = """
        .target opennpu
        .profile test
        ld.vx   vx0, x(vr7)
        .rept   2
        nop
        .endr
        bcast.imm vx1, 0
        vmax    vx2, vx0, vx1
        st.vx   vx2, y(vr7)
        .data
x:      .zero   8
y:      .zero   8
"""


class Infer(Suite):
    def __init__(self, options):
        super().__init__(options.trivet, options)
        with open(os.path.join(ROOT, "docs", "json.schema.json"), encoding="utf-8") as f:
            self.schema = json.load(f)

    def result(self, name, *arguments, status=0):
        """The envelope of a command with --json, checked against the schema; its result."""
        code, out, err = self.text(*arguments, "--json")
        self.equal(name + ": exit status", code, status)
        found = json.loads(out)
        self.equal(name + ": schema", schema.errors(found, self.schema, self.schema), [])
        return found["result"] if status == 0 else found["diagnostics"]

    def text(self, *arguments):
        code, out, err = self.call(*arguments)
        return code, out.decode(), err.decode() if isinstance(err, bytes) else err

    def reject(self, name, words, *arguments, status=2):
        code, _, err = self.text(*arguments)
        self.check(name, (code != status or words not in err) and "%d, %s" % (code, err))


def save(path, nodes, inputs, outputs, constants=()):
    """A model of opset 13; inputs and outputs are (name, type, dims)."""
    def info(values):
        return [helper.make_tensor_value_info(*v) for v in values]
    graph = helper.make_graph(nodes, "g", info(inputs), info(outputs), [numpy_helper.from_array(a, n) for n, a in constants])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7), path)
    return path


def affine_model(t):
    """y = Relu(x W + b) with x [batch, 3]."""
    w = numpy.array([[1, -1], [2, 0.5], [0, 3]], numpy.float32)
    b = numpy.array([0.25, -2], numpy.float32)
    nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    save(t.path("affine.onnx"), nodes, [("x", TensorProto.FLOAT, ["batch", 3])], [("y", TensorProto.FLOAT, ["batch", 2])],
         [("w", w), ("b", b)])
    return t.path("affine.onnx"), w, b


def outputs_are_those_of_numpy(t):
    model, w, b = affine_model(t)
    x = numpy.array([[1, 2, 3], [-1, 0.5, 2]], numpy.float32)
    numpy.save(t.path("x.npy"), x)
    y = numpy.maximum(x @ w + b, 0)
    files = ("--input", "x=" + t.path("x.npy"), "--output", "y=" + t.path("y.npy"), "--output", "y=" + t.path("y.raw") + ":float64")
    found = t.result("infer", "infer", model, "--dim", "batch=2", *files)
    t.expect("y.npy", numpy.array_equal(numpy.load(t.path("y.npy")), y), numpy.load(t.path("y.npy")))
    t.expect("y.raw", numpy.array_equal(numpy.fromfile(t.path("y.raw")).reshape(2, 2), y))
    t.equal("inputs", found["inputs"], [{"name": "x", "type": "float32", "shape": [2, 3], "random": False}])
    t.equal("one layer", [(l["operator"], l["activation"], l["macs"]) for l in found["targets"][0]["layers"]], [("Linear", "Relu", 12)])
    t.write("x.f64", x.astype(numpy.float64).tobytes())
    t.result("raw input", "infer", model, "--dim", "batch=2", "--input", "x=" + t.path("x.f64") + ":float64", "--output", "y=" + t.path("z.npy"))
    t.expect("z.npy", numpy.array_equal(numpy.load(t.path("z.npy")), y))


def random_inputs_are_the_same_in_each_run(t):
    model, _, _ = affine_model(t)
    first = t.text("infer", model, "--dim", "batch=1")[1]
    t.expect("it says so", "random, the same in each run" in first, first)
    for name in ("a", "b"):
        t.text("infer", model, "--dim", "batch=1", "--output", "y=" + t.path(name + ".npy"))
    t.expect("outputs", numpy.array_equal(numpy.load(t.path("a.npy")), numpy.load(t.path("b.npy"))))
    found = t.result("host", "infer", model, "--dim", "batch=1", "--verify")["targets"][0]["layers"]
    t.equal("the host against itself", [l["cosine"] for l in found], [1.0])


def wrong_options_are_rejected(t):
    model, _, _ = affine_model(t)
    numpy.save(t.path("bad.npy"), numpy.zeros((2, 4), numpy.float32))
    dims = ("--dim", "batch=2")
    t.reject("no number of a dimension", "TV-L067", "infer", model)
    t.reject("unknown input", "the inputs are x", "infer", model, *dims, "--input", "z=" + t.path("bad.npy"))
    t.reject("shape", "float32[2 x 4]; the input 'x' needs float32[2 x 3] [TV-L071]", "infer", model, *dims, "--input", "x=" + t.path("bad.npy"))
    t.reject("unknown output", "no output 'z'", "infer", model, *dims, "--output", "z=z.npy")
    t.reject("no type", "--input cannot be 'x=x.bin'", "infer", model, *dims, "--input", "x=x.bin")
    t.reject("unknown target", "TV-U008", "infer", model, *dims, "-t", "vax")
    t.reject("the host has no cycles", "TV-U006", "infer", model, *dims, "--timing-only")
    t.reject("--ranges", "max, percentile or mse", "infer", model, *dims, "--ranges", "all")
    t.reject("over the input", "TV-U007", "infer", model, *dims, "--input", "x=" + t.path("x.npy"), "--output", "y=" + t.path("x.npy"))
    t.reject("compile without a machine", "TV-U008", "compile", model, "-o", t.path("c"))
    said = t.text("compile", model, *dims, "-t", "cmdq", "-o", t.path("c"))
    t.expect("the --output of compile is a folder", "--output" not in str(said), str(said))
    t.reject("not a network", "TV-L060", "infer", os.path.abspath(__file__))
    t.reject("--input of a program", "TV-U006", "run", t.write("r.s", RELU), "--input", "x=x.npy")
    t.reject("-D on the host", "-D sets parameters of a machine", "infer", model, *dims, "-D", "dma.count=2")
    t.reject("-c on the host", "-c sets parameters of a machine", "infer", model, *dims, "-c", "cmdq-mobile")
    t.reject("a trace of the host", "the host has no cycles", "infer", model, *dims, "--trace", t.path("t.json"))
    for bits in ("5", "x", "16"):
        t.reject("--weight-bits " + bits, "--weight-bits", "infer", model, *dims, "-t", "cmdq", "--weight-bits", bits)
    code, _, err = t.call("infer", model, *dims, "-t", "opennpu", "-q", "--timing-only", "--weight-bits", "4")
    t.expect("weights of 8 bits only", code == 0 and "weights of 8 bits only" in err, (code, err))
    t.reject("--threads", "--threads", "infer", model, *dims, "--threads", "0")
    for dim in ("batch", "batch=", "batch=-1", "batch=x", "batch=2147483648", "b" * 300 + "=1"):
        t.reject("--dim " + dim[:20], "NAME=N", "infer", model, "--dim", dim)
    for binding in ("x", "=x.npy", "x=", "b" * 300 + "=x.npy", "x=" + "d" * 5000 + ".npy", "x=x.npz"):
        t.reject("--input " + binding[:20], "--input", "infer", model, *dims, "--input", binding)
    t.reject("no type after the colon", "is not an element type", "infer", model, *dims, "--input", "x=x.bin:")
    t.reject("--output", "--output", "infer", model, *dims, "--output", "y")


def tables_show_what_was_asked_for(t):
    """Types of outputs, plans, operations of the host, targets side by side; an output file for each target."""
    long = "layer_" + "\u00e9" * 60
    nodes = [helper.make_node("Gemm", ["x", "w"], [long]), helper.make_node("Erf", [long], ["e"]), helper.make_node("Gemm", ["e", "v"], ["y"]),
             helper.make_node("ArgMax", ["y"], ["i"], axis=1), helper.make_node("Cast", ["i"], ["j"], to=TensorProto.INT32),
             helper.make_node("Less", ["y", "zero"], ["l"]), helper.make_node("Cast", ["l"], ["u"], to=TensorProto.UINT8),
             helper.make_node("Cast", ["y"], ["d"], to=TensorProto.DOUBLE)]
    w = numpy.eye(3, dtype=numpy.float32)
    outputs = [("y", TensorProto.FLOAT, [2, 3]), ("i", TensorProto.INT64, [2, 1]), ("j", TensorProto.INT32, [2, 1]), ("l", TensorProto.BOOL, [2, 3]),
               ("u", TensorProto.UINT8, [2, 3]), ("d", TensorProto.DOUBLE, [2, 3])]
    model = save(t.path("types.onnx"), nodes, [("x", TensorProto.FLOAT, [2, 3])], outputs,
                 [("w", w), ("v", 2 * w), ("zero", numpy.zeros(1, numpy.float32))])
    numpy.save(t.path("t.npy"), numpy.array([[0, 9, -9], [-9, 0, 9]], numpy.float32))
    code, text, err = t.text("infer", model, "--input", "x=" + t.path("t.npy"), "-v")
    t.equal("host: exit status", (code, err), (0, ""))
    for line in ("output y float32[2 x 3]: -2 to 2, the largest is element 1", "output i int64[2 x 1]: 1 to 2, the largest is element 1",
                 "output j int32[2 x 1]: 1 to 2, the largest is element 1", "output l bool[2 x 3]: 0 to 1, the largest is element 2",
                 "output u uint8[2 x 3]: 0 to 1, the largest is element 2"):
        t.expect(line, line in text, text)
    t.expect("names are cut between characters", "\ufffd" not in text and "\u00e9\u00e9" in text, text)


def targets_are_compared_side_by_side(t):
    model, w, b = affine_model(t)
    x = numpy.array([[1, 2, 3], [-1, 0.5, 2]], numpy.float32)
    y = numpy.maximum(x @ w + b, 0)
    numpy.save(t.path("x.npy"), x)
    for name in ("all", "all.npy"):
        code, text, err = t.text("infer", model, "--dim", "batch=2", "-t", "all", "--verify", "--explain-plan", "--host-ops", "--input",
                                 "x=" + t.path("x.npy"), "--output", "y=" + t.path(name) + (":float32" if name == "all" else ""))
        t.equal(name + ": exit status", code, 0)
        for target in ("cmdq", "opennpu", "pccx"):
            t.expect(name + ": " + target, target + " runs no operations on the host" in text and target + ":" in text, text + err)
            file = t.path("all.%s%s" % (target, name[3:]))
            found = numpy.load(file) if name == "all.npy" else numpy.fromfile(file, numpy.float32).reshape(2, 2)
            t.expect(file, numpy.abs(found - y).max() < 0.05 * y.max(), found)
        t.expect(name + ": cosines", "cosine" in text, text)
    plain = t.text("infer", model, "--dim", "batch=2", "-t", "all")[1]
    t.expect("shares", "share" in plain and "cosine" not in plain, plain)
    t.reject("a path for all targets", "--output", "infer", model, "--dim", "batch=2", "-t", "all", "--output", "y=" + "d" * 4093 + ".npy")


def work_of_the_host_is_named(t):
    nodes = [helper.make_node("Gemm", ["x", "w"], ["h"]), helper.make_node("Erf", ["h"], ["e"]), helper.make_node("Exp", ["e"], ["y"])]
    model = save(t.path("erf.onnx"), nodes, [("x", TensorProto.FLOAT, [2, 3])], [("y", TensorProto.FLOAT, [2, 3])], [("w", numpy.eye(3, dtype=numpy.float32))])
    for options, words in (((), "left to the host: "), (("--host-ops",), "operations of the host:")):
        code, text, err = t.text("infer", model, "-t", "pccx", *options)
        if code == 2:
            t.expect("the node is named", "(Erf)" in err, err)
        else:
            t.expect(words, words in text and "Erf" in text, text)
    code, text, err = t.text("infer", model, "-t", "all")
    t.expect("the others run", code == 0 and "cmdq:" in text and "opennpu:" in text and "Erf" in text, text + err)


# ---- Compiled networks ----

def configuration_hash(target, entries):
    """As docs/json.md says."""
    value = 0xCBF29CE484222325
    for byte in "".join(text + "\0" for text in [target] + [text for entry in entries for text in entry]).encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return "%016x" % value


def port(name, shape, address, scale, terms):
    return {"name": name, "type": "float32", "shape": shape, "space": "mem", "address": address, "storage": "s8", "scale": scale,
            "terms": [dict(zip(("axis", "divisor", "extent", "stride"), term)) for term in terms]}


def compiled(t):
    """The folder of a network that is Relu. Input and output are [2, 4]; the machine has the output transposed."""
    parameters = json.loads(t.text("config", "opennpu-test", "--json")[1])["result"]["parameters"]
    entries = [(p["key"], str(p["value"])) for p in parameters]
    return {"manifest_version": 1, "trivet_version": "0", "target": "opennpu", "configuration": dict(entries),
            "configuration_hash": configuration_hash("opennpu", entries),
            "inputs": [port("x", [2, 4], 0, 0.5, [(0, 1, 2, 4), (1, 1, 4, 1)])],
            "outputs": [port("y", [4, 2], 8, 0.25, [(0, 1, 4, 1), (1, 1, 2, 4)])],
            "programs": [{"file": "relu.s", "first_layer": 0, "layer_count": 1}],
            "layers": [{"name": "y", "operator": "Relu", "activation": None, "residual": False, "tiles": 1, "cycles": 6, "macs": 0, "bytes": 16,
                        "bound": "ISSUE"}]}


def folder_of(t, manifest, name="net"):
    shutil.rmtree(t.path(name), ignore_errors=True)
    os.mkdir(t.path(name))
    t.write(name + "/relu.s", RELU)
    t.write(name + "/manifest.json", manifest if isinstance(manifest, (str, bytes)) else json.dumps(manifest))
    return t.path(name)


def compiled_networks_are_run(t):
    net = folder_of(t, compiled(t))
    x = numpy.array([[0.5, -1, 1.25, 100], [0.75, -100, 3, 0]], numpy.float32)
    numpy.save(t.path("x.npy"), x)
    found = t.result("run", "run", net, "--input", "x=" + t.path("x.npy"), "--output", "y=" + t.path("y.npy"))
    stored = numpy.clip(numpy.rint(x / 0.5), -128, 127)  # ties to even: 1.25 is 2 steps, 0.75 is 2
    t.expect("y", numpy.array_equal(numpy.load(t.path("y.npy")), numpy.maximum(stored, 0).T * 0.25), numpy.load(t.path("y.npy")))
    target = found["targets"][0]
    t.equal("cycles", (target["target"], target["cycles"]), ("opennpu", 6))
    t.equal("layers", [(l["name"], l["operator"], l["cycles"]) for l in target["layers"]], [("y", "Relu", 6)])
    code, text, _ = t.text("run", net)
    t.expect("table", code == 0 and "Relu" in text and "6 cycles" in text, text)
    t.text("run", net, "--trace", t.path("r.json"))
    t.expect("trace", os.path.getsize(t.path("r.json")) > 100)
    t.reject("parameters", "TV-U006", "run", net, "-D", "vector.k=16")
    t.reject("another target", "compiled for 'opennpu'", "infer", net, "-t", "cmdq")
    t.equal("infer runs it, too", t.text("infer", net)[0], 0)


def convolution_model(t):
    """Two convolutions with Relu, and a product, with random weights."""
    random = numpy.random.default_rng(1)
    w1, w2, w3 = (random.normal(size=size).astype(numpy.float32) / 4 for size in ((8, 3, 3, 3), (8, 8, 3, 3), (10, 8 * 36)))
    nodes = [helper.make_node("Conv", ["x", "w1"], ["c1"], pads=[1, 1, 1, 1]), helper.make_node("Relu", ["c1"], ["r1"]),
             helper.make_node("Conv", ["r1", "w2"], ["c2"]), helper.make_node("Relu", ["c2"], ["r2"]),
             helper.make_node("Flatten", ["r2"], ["f"]), helper.make_node("Gemm", ["f", "w3"], ["y"], transB=1)]
    return save(t.path("conv.onnx"), nodes, [("x", TensorProto.FLOAT, [1, 3, 8, 8])], [("y", TensorProto.FLOAT, [1, 10])],
                [("w1", w1), ("w2", w2), ("w3", w3)])


def compiled_programs_repeat_the_session(t):
    model = convolution_model(t)
    x = numpy.random.default_rng(2).uniform(-1, 1, (1, 3, 8, 8)).astype(numpy.float32)
    os.makedirs(t.path("samples"), exist_ok=True)
    numpy.save(t.path("samples/x.npy"), x)
    data = ("--input", "x=" + t.path("samples/x.npy"), "--output")
    for options in ((), ("--calibrate", t.path("samples"), "--ranges", "mse", "--equalize", "--correct-bias"),
                    ("--calibrate", t.path("samples"), "--ranges", "percentile")):
        name = " ".join(options[2:])
        shutil.rmtree(t.path("program"), ignore_errors=True)
        found = t.result("infer " + name, "infer", model, "-t", "cmdq", *options, *data, "y=" + t.path("a.npy"))["targets"][0]
        compiled_result = t.result("compile " + name, "compile", model, "-t", "cmdq", "-o", t.path("program"), *options, "--input",
                                   "x=" + t.path("samples/x.npy"))["targets"][0]
        ran = t.result("run " + name, "run", t.path("program"), *data, "y=" + t.path("b.npy"))["targets"][0]
        t.equal("cycles " + name, [r["cycles"] for r in (compiled_result, ran)], [found["cycles"]] * 2)
        t.equal("layers " + name, [[(l["operator"], l["cycles"]) for l in r["layers"]] for r in (compiled_result, ran)],
                [[(l["operator"], l["cycles"]) for l in found["layers"]]] * 2)
        t.expect("outputs " + name, numpy.array_equal(numpy.load(t.path("a.npy")), numpy.load(t.path("b.npy"))))
        t.text("infer", model, *data, "y=" + t.path("h.npy"))
        a, h = numpy.load(t.path("a.npy")).ravel(), numpy.load(t.path("h.npy")).ravel()
        t.expect("similarity to the host " + name, a @ h / numpy.sqrt(a @ a * (h @ h)) > 0.999, a @ h / numpy.sqrt(a @ a * (h @ h)))
    t.reject("a folder with files", "TV-L041", "compile", model, "-t", "cmdq", "-o", t.path("program"))


def a_file_for_calibration_has_several_samples(t):
    """NAME.npy with all samples along its first axis gives the ranges that a file for each sample gives."""
    model = convolution_model(t)
    samples = numpy.random.default_rng(4).uniform(-3, 3, (6, 3, 8, 8)).astype(numpy.float32)
    os.makedirs(t.path("stack"), exist_ok=True)
    os.makedirs(t.path("files"), exist_ok=True)
    numpy.save(t.path("stack/x.npy"), samples)
    for i in range(6):
        numpy.save(t.path("files/x-%d.npy" % (i + 1)), samples[i:i + 1])
    for method in ("max", "mse"):
        found = [t.result(folder, "infer", model, "-t", "cmdq", "--calibrate", t.path(folder), "--ranges", method, "--output",
                          "y=" + t.path(folder + ".npy"))["targets"][0]["calibration_samples"] for folder in ("stack", "files")]
        t.equal("samples " + method, found, [6, 6])
        t.expect("outputs " + method, numpy.array_equal(numpy.load(t.path("stack.npy")), numpy.load(t.path("files.npy"))))
    # Of two inputs both files have as many samples.
    save(t.path("sum.onnx"), [helper.make_node("Add", ["a", "b"], ["y"])], [(n, TensorProto.FLOAT, [2, 3]) for n in "ab"],
         [("y", TensorProto.FLOAT, [2, 3])])
    os.makedirs(t.path("pair"), exist_ok=True)
    numpy.save(t.path("pair/a.npy"), numpy.ones((8, 3), numpy.float32))
    numpy.save(t.path("pair/b.npy"), numpy.ones((8, 3), numpy.uint8))
    options = ("infer", t.path("sum.onnx"), "-t", "cmdq", "--calibrate", t.path("pair"))
    t.equal("two inputs", t.result("pair", *options)["targets"][0]["calibration_samples"], 4)
    numpy.save(t.path("pair/b.npy"), numpy.ones((6, 3), numpy.float32))
    t.reject("numbers of samples differ", "the input 'b', with 4 samples, needs float32[8 x 3]", *options)
    numpy.save(t.path("pair/a.npy"), numpy.ones((7, 3), numpy.float32))
    t.reject("no multiple", "the input 'a' needs float32[2 x 3]", *options)
    save(t.path("scaled.onnx"), [helper.make_node("Mul", ["a", "b"], ["y"])],
         [("a", TensorProto.FLOAT, [2, 3]), ("b", TensorProto.FLOAT, [])], [("y", TensorProto.FLOAT, [2, 3])])
    numpy.save(t.path("pair/a.npy"), numpy.ones((8, 3), numpy.float32))
    t.reject("an input without axes", "the file of the input 'b' cannot have 4 samples", "infer", t.path("scaled.onnx"), *options[2:])


def programs_of_pccx_repeat_the_session(t):
    """Product of two computed values: a second program streams what the first one stored."""
    random = numpy.random.default_rng(3)
    w1, w2 = (random.normal(size=size).astype(numpy.float32) / 4 for size in ((16, 3, 3, 3), (16, 3, 1, 1)))
    nodes = [helper.make_node("Conv", ["x", "w1"], ["a"], pads=[1, 1, 1, 1]), helper.make_node("Conv", ["x", "w2"], ["b"]),
             helper.make_node("Mul", ["a", "b"], ["p"]), helper.make_node("Transpose", ["p"], ["y"], perm=[0, 2, 3, 1]),
             helper.make_node("Relu", ["a"], ["r"])]
    model = save(t.path("product.onnx"), nodes, [("x", TensorProto.FLOAT, [1, 3, 5, 7])],
                 [("r", TensorProto.FLOAT, [1, 16, 5, 7]), ("y", TensorProto.FLOAT, [1, 5, 7, 16])], [("w1", w1), ("w2", w2)])
    x = random.uniform(-1, 1, (1, 3, 5, 7)).astype(numpy.float32)
    x[0, 0, 0, :2] = [1e-40, -1e-39]  # BF16 on pccx has no subnormal numbers
    numpy.save(t.path("x.npy"), x)
    data = ("--input", "x=" + t.path("x.npy"))
    for options in ((), ("--weight-bits", "8")):
        shutil.rmtree(t.path("program"), ignore_errors=True)
        found, ran = (t.result(name, *arguments, *data, "--output", "y=" + t.path(name + "y.npy"), "--output", "r=" + t.path(name + "r.npy"))
                      ["targets"][0] for name, arguments in (("infer", ("infer", model, "-t", "pccx", *options)),
                                                             ("run", compile_for(t, "pccx", model, *options, *data))))
        t.equal("cycles", ran["cycles"], found["cycles"])
        t.equal("layers", [(l["operator"], l["cycles"]) for l in ran["layers"]], [(l["operator"], l["cycles"]) for l in found["layers"]])
        for output in "yr":
            t.expect("output " + output, numpy.array_equal(numpy.load(t.path("infer%s.npy" % output)), numpy.load(t.path("run%s.npy" % output))))
    programs = json.load(open(t.path("program/manifest.json"), encoding="utf-8"))["programs"]
    t.equal("files", sorted(p["file"] for p in programs), sorted(f for f in os.listdir(t.path("program")) if f != "manifest.json"))


def compile_for(t, target, model, *options):
    """Arguments of a run of the compiled network."""
    t.result("compile", "compile", model, "-t", target, "-o", t.path("program"), *options)
    return "run", t.path("program")


def attention_model(t):
    """Rows of a table, two heads with scores and a mask, and a product of an input as it is."""
    random = numpy.random.default_rng(5)
    table, w = random.normal(size=(20, 48)).astype(numpy.float32), random.normal(size=(48, 48)).astype(numpy.float32) / 7
    nodes = [helper.make_node("Gather", ["table", "ids"], ["e"]), helper.make_node("MatMul", ["e", "w"], ["q"])]
    for name, perm in (("q", [0, 2, 1, 3]), ("e", [0, 2, 3, 1]), ("x", [0, 2, 1, 3])):
        nodes += [helper.make_node("Reshape", [name, "split"], [name + "r"]), helper.make_node("Transpose", [name + "r"], [name + "h"], perm=perm)]
    nodes += [helper.make_node("MatMul", ["qh", "eh"], ["s"]), helper.make_node("Softmax", ["s"], ["p"], axis=-1), helper.make_node("MatMul", ["p", "xh"], ["o"]),
              helper.make_node("MatMul", ["o", "z"], ["y"])]
    return save(t.path("attention.onnx"), nodes, [("ids", TensorProto.INT64, [1, 9]), ("x", TensorProto.FLOAT, [1, 9, 48]), ("z", TensorProto.FLOAT, [24, 7])],
                [("y", TensorProto.FLOAT, [1, 2, 9, 7])], [("table", table), ("w", w), ("split", numpy.int64([1, 9, 2, 24]))])


def steps_of_the_host_are_compiled_for_pccx(t):
    model, random = attention_model(t), numpy.random.default_rng(6)
    numpy.save(t.path("ids.npy"), numpy.int64([[3, 19, 0, -1, 7, 7, 12, 1, 5]]))
    numpy.save(t.path("x.npy"), random.normal(size=(1, 9, 48)).astype(numpy.float32))
    numpy.save(t.path("z.npy"), random.normal(size=(24, 7)).astype(numpy.float32))
    data = [argument for name in ("ids", "x", "z") for argument in ("--input", "%s=%s" % (name, t.path(name + ".npy")))]
    for options in ((), ("--weight-bits", "8")):
        shutil.rmtree(t.path("program"), ignore_errors=True)
        run = compile_for(t, "pccx", model, *options)  # for other indices and operands
        found, ran = (t.result(name, *arguments, *data, "--output", "y=" + t.path(name + "y.npy"))["targets"][0]
                      for name, arguments in (("infer", ("infer", model, "-t", "pccx", *options)), ("run", run)))
        t.equal("cycles", ran["cycles"], found["cycles"])
        t.expect("output", numpy.array_equal(numpy.load(t.path("infery.npy")), numpy.load(t.path("runy.npy"))))
    t.text("infer", model, *data, "--output", "y=" + t.path("h.npy"))
    a, h = numpy.load(t.path("runy.npy")).ravel(), numpy.load(t.path("h.npy")).ravel()
    t.expect("similarity to the host", a @ h / numpy.sqrt(a @ a * (h @ h)) > 0.999, a @ h / numpy.sqrt(a @ a * (h @ h)))
    with open(t.path("program/manifest.json"), encoding="utf-8") as f:
        good = json.load(f)
    t.equal("steps", [s["kind"] for s in good["steps"]], ["select", "pack", "pack", "pack"])

    def damage(words, step, key, value, **others):
        manifest = copy.deepcopy(good)
        manifest["steps"][step].update(others, **{key: value})
        t.write("program/manifest.json", json.dumps(manifest))
        t.reject(words, words, "run", t.path("program"), *data)

    damage("the step 'x' is not one of pccx", 0, "kind", "x")
    damage("'program' is not an integer from 0", 0, "program", 10**6)
    damage("'numbers' is not a list of 3 numbers", 0, "numbers", [1])
    damage("a number of a step is not an integer", 0, "numbers", [1, -1, 1])
    damage("fit no table", 0, "numbers", [0, 0, 1])
    damage("TV-M002", 0, "numbers", [2**47, 96, 20])
    damage("TV-M002", 0, "result", 2**47)
    damage("fit no matrix", 1, "numbers", [10**6, 1, 4096])
    damage("fit no matrix", 1, "numbers", [16, 1, 3])
    damage("has no such tensor", 1, "shape", [9], terms=[])
    damage("has no such tensor", 1, "shape", [2, 0, 9], terms=[])
    damage("TV-M002", 1, "address", 2**47)


def rows_that_inputs_select_are_compiled_for_cmdq(t):
    model, random = attention_model(t), numpy.random.default_rng(8)
    numpy.save(t.path("ids.npy"), numpy.int64([[3, 19, 0, -1, 7, 7, 12, 1, 5]]))
    numpy.save(t.path("x.npy"), random.normal(size=(1, 9, 48)).astype(numpy.float32))
    numpy.save(t.path("z.npy"), random.normal(size=(24, 7)).astype(numpy.float32))
    data = [argument for name in ("ids", "x", "z") for argument in ("--input", "%s=%s" % (name, t.path(name + ".npy")))]
    shutil.rmtree(t.path("program"), ignore_errors=True)
    run = compile_for(t, "cmdq", model, *data)  # the ranges are those of these inputs
    found, ran = (t.result(name, *arguments, *data, "--output", "y=" + t.path(name + "y.npy"))["targets"][0]
                  for name, arguments in (("infer", ("infer", model, "-t", "cmdq")), ("run", run)))
    t.equal("cycles", ran["cycles"], found["cycles"])
    t.expect("output", numpy.array_equal(numpy.load(t.path("infery.npy")), numpy.load(t.path("runy.npy"))))
    with open(t.path("program/manifest.json"), encoding="utf-8") as f:
        good = json.load(f)
    t.equal("steps", [s["kind"] for s in good["steps"]], ["select"])
    weights = os.path.getsize(t.path("program/weights.bin"))
    t.expect("weights.bin has the table, the weights and their scales, no values", 20 * 48 + 48 * 48 <= weights < 20 * 48 + 48 * 48 + 4 * 48 + 256, weights)
    numpy.save(t.path("ids.npy"), numpy.int64([[3, 19, 0, 19, 7, 7, 12, 1, 5]]))
    t.result("the last row", *run, *data, "--output", "y=" + t.path("runy.npy"))
    t.expect("index -1 is the last row", numpy.array_equal(numpy.load(t.path("infery.npy")), numpy.load(t.path("runy.npy"))))
    good["steps"][0]["kind"] = "pack"
    t.write("program/manifest.json", json.dumps(good))
    t.reject("a step of another machine", "the step 'pack' is not one of cmdq", *run, *data)


def layers_keep_binary16(t):
    """At most the percentage, those that lose most; the results are closer to the host's."""
    model = convolution_model(t)
    with_option = t.result("some", "infer", model, "-t", "cmdq", "--binary16", "50", "--verify")["targets"][0]
    plain = t.result("none", "infer", model, "-t", "cmdq", "--verify")["targets"][0]
    wide = [layer["name"] for layer in with_option["layers"] if layer["binary16"]]
    t.expect("some layers", 0 < len(wide) <= len(with_option["layers"]) / 2, wide)
    t.expect("they are named", "inputs in binary16: " + wide[0] in t.text("infer", model, "-t", "cmdq", "--binary16", "50")[1])
    t.expect("no key without the option", all("binary16" not in layer for layer in plain["layers"]))
    noise = lambda target: [layer["own_noise_db"] for layer in target["layers"] if layer["name"] in wide and layer["own_noise_db"] is not None]
    t.expect("less noise", sum(noise(with_option)) >= sum(noise(plain)), (noise(with_option), noise(plain)))
    for words, arguments in (("1 to 100 percent", ("-t", "cmdq", "--binary16", "101")), ("no 8-bit inputs", ("-t", "pccx", "--binary16", "10")),
                             ("mutually exclusive", ("-t", "cmdq", "--binary16", "10", "--timing-only"))):
        t.reject(words, words, "infer", model, *arguments)


def networks_that_need_the_host_are_not_compiled(t):
    random = numpy.random.default_rng(4)
    nodes = [helper.make_node("Mod", ["x", "m"], ["h"], fmod=1), helper.make_node("MatMul", ["h", "w"], ["y"])]
    model = save(t.path("host.onnx"), nodes, [("x", TensorProto.FLOAT, [4, 8])], [("y", TensorProto.FLOAT, [4, 8])],
                 [("w", random.normal(size=(8, 8)).astype(numpy.float32)), ("m", numpy.float32([0.5]))])
    t.reject("an operator", "TV-L044", "compile", model, "-t", "pccx", "-o", t.path("none"))
    t.reject("the host computes it", "which computes 'Mod'", "compile", model, "-t", "pccx", "--allow-host-ops", "-o", t.path("none"))
    t.reject("the way out", "trivet infer", "compile", model, "-t", "pccx", "--allow-host-ops", "-o", t.path("none"))
    t.expect("nothing is written", not os.path.exists(t.path("none")))


def layers_are_compared(t):
    """The own noise of a layer is that of 8-bit numbers; --verify changes neither cycles nor results."""
    model = convolution_model(t)
    plain = t.result("plain", "infer", model, "-t", "cmdq", "--output", "y=" + t.path("p.npy"))["targets"][0]
    found = t.result("verify", "infer", model, "-t", "cmdq", "--verify", "--output", "y=" + t.path("v.npy"))["targets"][0]
    t.equal("cycles", found["cycles"], plain["cycles"])
    t.expect("outputs", numpy.array_equal(numpy.load(t.path("p.npy")), numpy.load(t.path("v.npy"))))
    noise = {l["name"]: l["own_noise_db"] for l in found["layers"] if l["own_noise_db"] is not None}
    t.expect("noise", len(noise) >= 3 and all(25 < db < 70 for db in noise.values()), noise)
    t.equal("loses most", found["loses_most"], min(noise, key=noise.get))
    every = t.result("all", "infer", model, "-t", "all")["targets"]
    t.equal("targets", [r["target"] for r in every], ["host", "cmdq", "pccx", "opennpu"])
    t.expect("reason", all((r["reason"] is None) == ("cycles" in r) for r in every), every)
    timed = t.result("timing", "infer", model, "-t", "cmdq", "--timing-only")["targets"][0]
    t.equal("timing without data", timed["cycles"], plain["cycles"])
    for name in ("r.html", "r.json"):
        t.text("infer", model, "-t", "cmdq", "--report" if name == "r.html" else "--trace", t.path(name))
        t.expect(name, os.path.getsize(t.path(name)) > 5000)


def damaged_manifests_are_rejected(t):
    good = compiled(t)

    def damage(words, change, status=2):
        manifest = copy.deepcopy(good)
        change(manifest)
        net = folder_of(t, manifest, "damaged")
        t.reject(words, words, "run", net, status=status)

    def setting(key, value, *path):
        def change(manifest):
            for step in path:
                manifest = manifest[step]
            if value is None:
                del manifest[key]
            else:
                manifest[key] = value
        return change

    damage("version 2 of the format", setting("manifest_version", 2))
    damage("'target' is missing", setting("target", None))
    damage("no network runs on 'vax'", setting("target", "vax"))
    damage("no parameter 'x.y'", setting("x.y", "1", "configuration"))
    damage("the configuration has the hash", setting("vector.k", "16", "configuration"))
    damage("not the name of a file in the folder", setting("file", "../relu.s", "programs", 0))
    damage("TV-F001", setting("file", "none.s", "programs", 0))
    damage("there are no programs", setting("programs", []))
    damage("there are no outputs", setting("outputs", []))
    damage("is not a list of at most 8 extents", setting("shape", [1] * 9, "inputs", 0))
    damage("larger than", setting("shape", [2**40, 2**40], "inputs", 0))
    damage("larger than", setting("shape", [2**33], "outputs", 0))
    damage("an extent is not an integer", setting("shape", [-1], "inputs", 0))
    damage("is not an element type", setting("type", "float3", "inputs", 0))
    damage("'storage' cannot be 'i4'", setting("storage", "i4", "inputs", 0))
    damage("'scale' is not a positive number", setting("scale", 0, "inputs", 0))
    damage("'divisor' and 'extent' are at least 1", setting("divisor", 0, "inputs", 0, "terms", 0))
    damage("'axis' is not an integer from 0 to 1", setting("axis", 2, "inputs", 0, "terms", 0))
    damage("TV-M002", setting("address", 2**47, "inputs", 0))
    damage("TV-M001", setting("space", "moon", "inputs", 0))
    damage("'first_layer' is not an integer from 0 to 1", setting("first_layer", 2, "programs", 0))
    for text, words in (("", "not JSON"), ("[]", "is not an integer"), ("{" * 1000, "not JSON"), (b"\xff", "not JSON"), ('{"a": 1, "a": 2}', "not JSON")):
        t.reject("text %r" % text[:5], words, "run", folder_of(t, text, "damaged"))
    os.remove(os.path.join(t.path("damaged"), "manifest.json"))
    t.reject("no manifest", "TV-F001", "run", t.path("damaged"))


def main():
    options = parse_arguments(__doc__, "trivet")
    t = Infer(options)
    t.run_tests([outputs_are_those_of_numpy, random_inputs_are_the_same_in_each_run, wrong_options_are_rejected, tables_show_what_was_asked_for, targets_are_compared_side_by_side,
                 work_of_the_host_is_named, compiled_networks_are_run, compiled_programs_repeat_the_session,
                 a_file_for_calibration_has_several_samples, programs_of_pccx_repeat_the_session, steps_of_the_host_are_compiled_for_pccx,
                 rows_that_inputs_select_are_compiled_for_cmdq, layers_keep_binary16,
                 networks_that_need_the_host_are_not_compiled, layers_are_compared,
                 damaged_manifests_are_rejected], t)
    sys.exit(t.finish())


if __name__ == "__main__":
    main()
