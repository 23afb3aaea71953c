#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The test cases of ONNX's backend suite, as Debian's libonnx-testdata has them, and what they use.

    cases.py [--data FOLDER] [--operators] [--list] [--json]

Prints the number of cases of each folder by kind; with --operators how many cases use each operator, with --list a line for each case, with --json both as JSON.
From Python: cases(folder) yields a Case for each folder with a model, in the order of their names, and describe(case) tells its operators, operator sets and types.
"""

import argparse
import collections
import glob
import json
import os
import re
import sys

import onnx
from onnx import TensorProto

DATA = "/usr/share/libonnx-testdata/data"
FOLDERS = ("node", "pytorch-converted", "pytorch-operator", "simple", "light")

# A name, the path of the model, and data sets: pairs of the lists of input and of output files, in the order of the graph's inputs and outputs.
Case = collections.namedtuple("Case", "name model data_sets")
# operators: a Counter with those of subgraphs, "domain.Name" outside of ONNX's own domain; opset: of ONNX's own domain, or None; inputs, outputs: of the graph
# without initializers, as texts like "float[2 x 3]"; kinds: "tensor", "sequence", "optional", "text", ...: every kind that an input or output has.
Description = collections.namedtuple("Description", "operators opset inputs outputs kinds subgraphs")


def numbered(folder, kind):
    paths = glob.glob(os.path.join(folder, kind + "_*.pb"))
    return sorted(paths, key=lambda path: int(re.search(r"_(\d+)\.pb$", path)[1]))


def cases(folder):
    """The cases in a folder of the suite: a path, or a name below DATA."""
    folder = os.path.join(DATA, folder)
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        model = os.path.join(folder, name, "model.onnx")
        if os.path.exists(model):
            sets = sorted(glob.glob(os.path.join(folder, name, "test_data_set_*")), key=lambda path: int(path.rsplit("_", 1)[1]))
            yield Case(name, model, [(numbered(path, "input"), numbered(path, "output")) for path in sets])


def nodes(graph):
    """The nodes of a graph and of the graphs in it."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in [attribute.g] * attribute.HasField("g") + list(attribute.graphs):
                yield from nodes(inner)


def operator(node):
    return node.op_type if node.domain in ("", "ai.onnx") else node.domain + "." + node.op_type


def type_text(kind):
    """(text, kinds) of a TypeProto."""
    which = kind.WhichOneof("value")
    if which in ("tensor_type", "sparse_tensor_type"):
        tensor = getattr(kind, which)
        name = TensorProto.DataType.Name(tensor.elem_type).lower()
        dims = " x ".join(str(d.dim_value if d.HasField("dim_value") else d.dim_param or "?") for d in tensor.shape.dim)
        kinds = {"text"} if name == "string" else {"tensor"} if which == "tensor_type" else {"sparse"}
        return name + ("[%s]" % dims if tensor.HasField("shape") else ""), kinds
    if which in ("sequence_type", "optional_type"):
        text, kinds = type_text(getattr(kind, which).elem_type)
        return "%s(%s)" % (which[:-5], text), kinds | {which[:-5]}
    return str(which), {str(which)}


def describe(case):
    model = onnx.load(case.model, load_external_data=False)
    given = {t.name for t in model.graph.initializer}
    inputs = [type_text(v.type) for v in model.graph.input if v.name not in given]
    outputs = [type_text(v.type) for v in model.graph.output]
    opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), None)
    every = list(nodes(model.graph))
    return Description(collections.Counter(map(operator, every)), opset, [t for t, _ in inputs], [t for t, _ in outputs],
                       set().union(*(k for _, k in inputs + outputs)), len(every) > len(model.graph.node))


def element_types(texts):
    """The element types in texts of type_text."""
    return {t for text in texts for t in re.findall(r"[a-z]+[0-9]*", re.sub(r"\[[^\]]*\]", "", text)) if t not in ("sequence", "optional")}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--data", help="one folder of cases instead of the suite's")
    parser.add_argument("--operators", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows, using, kinds, types = [], collections.defaultdict(collections.Counter), collections.defaultdict(collections.Counter), collections.Counter()
    for folder in [options.data] if options.data else FOLDERS:
        for case in cases(folder):
            d = describe(case)
            rows.append({"folder": folder, "name": case.name, "operators": dict(d.operators), "opset": d.opset, "inputs": d.inputs, "outputs": d.outputs,
                         "kinds": sorted(d.kinds), "subgraphs": d.subgraphs, "data_sets": len(case.data_sets)})
            kinds[folder].update(["cases", *d.kinds, *["subgraphs"] * d.subgraphs, *["no data"] * (not case.data_sets)])
            types.update(element_types(d.inputs + d.outputs))
            for name in d.operators:
                using[name][folder] += 1
    if options.json:
        print(json.dumps({"cases": rows, "operators": {name: dict(using[name]) for name in sorted(using)}}, indent=1))
        return
    for row in rows if options.list else ():
        print("%s/%s: opset %s; %s; %s -> %s" % (row["folder"], row["name"], row["opset"], " ".join("%s*%d" % item for item in row["operators"].items()),
                                                  ", ".join(row["inputs"]), ", ".join(row["outputs"])))
    for name in sorted(using, key=lambda n: (-sum(using[n].values()), n)) if options.operators else ():
        print("%5d %-28s %s" % (sum(using[name].values()), name, ", ".join("%s %d" % item for item in using[name].items())))
    for folder, counts in kinds.items():
        print("%s: %s" % (folder, ", ".join("%d %s" % (counts[k], k) for k in ["cases", *sorted(set(counts) - {"cases"})])))
    print("element types: " + ", ".join("%s %d" % item for item in types.most_common()))
    print("operator sets: " + ", ".join("%s: %d" % item for item in sorted(collections.Counter(r["opset"] or 0 for r in rows).items())))
    print("%d cases, %d operators" % (len(rows), len(using)))


if __name__ == "__main__":
    sys.exit(main())
