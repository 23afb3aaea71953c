#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The six published networks are imported from shapes alone: inputs and outputs are theirs, weights are constants, and every product is found.

    import.py ONNX_IMPORT
"""

import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

import networks  # noqa: E402
import onnx  # noqa: E402

PICTURE = ["input input float32[1 x 3 x 224 x 224]"]
TOKENS = ["input input_ids int64[1 x 128]"]
WIDTH = 768
# Inputs, outputs, numbers of products, and elements of constants that differ from the published number of parameters: rows of position tables that no
# token reads, and masks. Scalars are not counted here; there are fewer than 100.
EXPECTED = {
    "resnet50": (PICTURE, ["output output float32[1 x 1000]"], {"Conv": 53, "Gemm": 1}, 0),
    "mobilenetv2": (PICTURE, ["output output float32[1 x 1000]"], {"Conv": 52, "Gemm": 1}, 0),
    "unet": (PICTURE, ["output output float32[1 x 1 x 224 x 224]"], {"Conv": 19, "ConvTranspose": 4}, 0),
    "vit-b16": (PICTURE, ["output output float32[1 x 1000]"], {"Conv": 1, "Gemm": 12 * 6 + 1, "MatMul": 24}, 0),
    "vit-block": (["input input float32[1 x 3 x 16 x 16]"], ["output output float32[1 x 10]"], {"Conv": 1, "Gemm": 6 + 1, "MatMul": 2}, 0),
    "bert-base": (TOKENS + ["input token_type_ids int64[1 x 128]", "input attention_mask float32[1 x 128]"],
                  ["output last_hidden_state float32[1 x 128 x 768]", "output pooler_output float32[1 x 768]"], {"Gemm": 12 * 6 + 1, "MatMul": 24},
                  -(512 - 128) * WIDTH),
    "opt-125m": (TOKENS, ["output logits float32[1 x 128 x 50272]"], {"Gemm": 12 * 6 + 1, "MatMul": 24}, -(2050 - 128) * WIDTH + 128 * 128),
}


def check(program, name, opset):
    """The problems of a network."""
    inputs, outputs, products, extra = EXPECTED[name]
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        onnx.save(networks.build(name, shapes=True, opset=opset)[0], file.name)
        done = subprocess.run([program, file.name, "--timing"], stdout=subprocess.PIPE, text=True, check=False, timeout=60)
    lines = done.stdout.split("\n")
    if done.returncode:
        yield lines[0]
    for kind, expected in (("input ", inputs), ("output ", outputs)):
        found = [line for line in lines if line.startswith(kind)]
        if found != expected:
            yield "%s instead of %s" % (found, expected)
    counts = {line.split()[1]: int(line.split()[2]) for line in lines if line.startswith("op ")}
    for op in ("Conv", "ConvTranspose", "Gemm", "MatMul"):
        if counts.get(op, 0) != products.get(op, 0):
            yield "%d %s instead of %d" % (counts.get(op, 0), op, products.get(op, 0))
    parameters = sum(int(line.split()[1]) for line in lines if line.startswith("parameters "))
    if not 0 <= parameters - networks.PARAMETERS[name] - extra < 100:
        yield "%d elements of constants" % parameters


def main():
    failed, cases = 0, [(name, opset) for name in networks.NETWORKS for opset in (13, 17)]
    for name, opset in cases:
        problems = list(check(sys.argv[1], name, opset))
        failed += bool(problems)
        for problem in problems:
            print("%s, opset %d: %s" % (name, opset, problem))
    print("%d passed, %d failed" % (len(cases) - failed, failed))
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
