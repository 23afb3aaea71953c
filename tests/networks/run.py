#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The random networks are valid ONNX files of the published numbers of parameters, with known dimensions everywhere.

    run.py

Files with data are checked for the small ones only: the others differ from those without data in nothing but where the weights are.
"""

import sys

sys.dont_write_bytecode = True

import networks  # noqa: E402
import onnx  # noqa: E402
from onnx import shape_inference  # noqa: E402


def check(name, shapes, opset):
    """The problems of a network."""
    model, parameters = networks.build(name, shapes, opset=opset)
    onnx.checker.check_model(model, full_check=True)
    inferred = shape_inference.infer_shapes(model, strict_mode=True).graph
    known = {v.name for v in [*inferred.value_info, *inferred.output]
             if all(d.dim_value for d in v.type.tensor_type.shape.dim)}
    if parameters != networks.PARAMETERS[name]:
        yield "%d parameters instead of %d" % (parameters, networks.PARAMETERS[name])
    yield from ("%s has no known dimensions" % output for node in model.graph.node for output in node.output if output not in known)
    given = {v.name for v in model.graph.input} | {t.name for t in model.graph.initializer}
    read = {i for node in model.graph.node for i in node.input}
    yield from ("%s is not read" % value for value in given - read)


def main():
    failed = 0
    cases = [(name, True, 13) for name in networks.NETWORKS] + [("mobilenetv2", False, 13), ("vit-b16", True, 17)]
    for name, shapes, opset in cases:
        problems = list(check(name, shapes, opset))
        failed += bool(problems)
        for problem in problems:
            print("%s, opset %d: %s" % (name, opset, problem))
    print("%d passed, %d failed" % (len(cases) - failed, failed))
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
