#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `trivet llm` reports beside its text: the work of the host, the error of quantized weights, progress.

    reports.py TRIVET MODEL"""

import array
import json
import math
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..")]

import random_model  # noqa: E402
from suite import Suite, parse_arguments  # noqa: E402

OPTIONS = parse_arguments(__doc__, "trivet", "model")
SUITE, MODEL = Suite(OPTIONS.trivet, OPTIONS), OPTIONS.model
expect, equal = SUITE.expect, SUITE.equal


def run(*args, status=0):
    done = subprocess.run([SUITE.trivet, "llm", *args], capture_output=True, text=True, check=False)
    expect(" ".join(args), done.returncode == status, f"exit {done.returncode}: {done.stderr}")
    return done


def as_json(*args):
    return json.loads(run(*args, "--json").stdout)["result"]


def work_of_the_host_is_named():
    """A line in every mode, a table with --host-ops, and JSON name the same operations; a machine without any has no line."""
    names = [op["name"] for op in as_json(MODEL, "-t", "pccx", "-n", "2")["targets"][0]["host_ops"]]
    expect("pccx leaves work to the host", names)
    for args in (["-n", "2"], ["--timing-only", "-n", "2"], ["--verify", "-n", "2"], ["--eval", __file__, "-n", "2"]):
        expect(f"the work of the host with {args}", f"pccx leaves to the host: {', '.join(names)};" in run(MODEL, "-t", "pccx", *args).stdout)
    table = run(MODEL, "-t", "pccx", "-n", "2", "--host-ops").stdout
    expect("the table has each operation", all(name in table for name in names) and "leaves" not in table, table)
    equal("--verify has the same in JSON", [op["name"] for op in as_json(MODEL, "-t", "pccx", "--verify", "-n", "2")["targets"][0]["host_ops"]],
          names)
    for target in ("opennpu", "cmdq"):
        expect(f"{target} leaves nothing to the host", "the host" not in run(MODEL, "-t", target, "-n", "2", "--allow-host-ops").stdout)


def quantize(row, group, top):
    """(sum of squares of the errors, of the weights, largest error, largest weight) of a row in groups with a scale of absmax / top."""
    errors = []
    for at in range(0, len(row), group):
        part = row[at:at + group]
        scale = max(map(abs, part)) / top or 1.0
        errors += [x - scale * round(x / scale) for x in part]
    return sum(e * e for e in errors), sum(x * x for x in row), max(map(abs, errors)), max(map(abs, row))


def errors_of_quantization_are_measured():
    """Of 8 bits, against the same rounding in Python: groups of 32 on cmdq, rows on opennpu."""
    path = os.path.join(SUITE.folder, "random.gguf")
    model = random_model.FAMILIES["llama"]({"kind": "F32", "seed": 1, "layers": 1, "vocabulary": 512, "pre": None, "conditioned": False})
    model.w.save(path)
    tensors = {name: (dims, b"".join(chunks())) for name, dims, _, _, chunks in model.w.tensors}
    for target, group in (("cmdq", 32), ("opennpu", None)):
        report = as_json(path, "--info", "--quantization", "-t", target)["quantization"][0]
        found = {(t["name"], t["format"][:4]): t for t in report["tensors"]}
        for name in ("blk.0.attn_q.weight", "blk.0.ffn_down.weight", "output.weight"):
            (columns, rows), data = tensors[name]
            values = array.array("f", data)
            sums = [quantize(values[r * columns:(r + 1) * columns], group or columns, 127) for r in range(rows)]
            rms = math.sqrt(sum(s[0] for s in sums) / sum(s[1] for s in sums))
            largest = max(s[2] for s in sums) / max(s[3] for s in sums)
            t = found[name, "INT8"]
            expect(f"{target}: RMS error of {name}", abs(t["rms_error"] / rms - 1) < 1e-4, (t, rms))
            expect(f"{target}: largest error of {name}", abs(t["max_error"] / largest - 1) < 1e-3, (t, largest))
            equal(f"{target}: weights of {name}", (t["weights"], t["type"]), (rows * columns, "F32"))
        expect(f"{target}: embeddings are not rounded", found["token_embd.weight", "FP32"]["rms_error"] < 1e-6, report)
        expect(f"{target}: the total", report["total"]["weights"] == sum(t["weights"] for t in report["tensors"])
               and report["total"]["max_error"] == max(t["max_error"] for t in report["tensors"]), report["total"])
    for name, options, low, high in (("pccx", [], 0.05, 0.15), ("pccx", ["--weight-bits", "8"], 0.001, 0.02), ("cmdq", ["--weight-bits", "4"], 0.05, 0.15)):
        one, three = (as_json(path, "--info", "--quantization", "-t", name, *options, "--threads", n)["quantization"] for n in "13")
        equal(f"{name} {options}: with any number of threads", one, three)
        expect(f"{name} {options}: the error has the size of its bits", low < one[0]["total"]["rms_error"] < high, one[0]["total"])
    random_model.write("mixtral", path, layers=1)
    for name in ("pccx", "opennpu", "cmdq"):
        counts = {t["name"]: t["weights"] for t in as_json(path, "--info", "--quantization", "-t", name)["quantization"][0]["tensors"]}
        equal(f"{name}: all experts are counted", counts.get("blk.0.ffn_down_exps.weight"), 8 * counts["blk.0.attn_q.weight"])
    expect("-t all has every machine", [q["target"] for q in as_json(path, "--info", "--quantization", "-t", "all")["quantization"]]
           == ["pccx", "opennpu", "cmdq"])
    expect("the total ends the table", run(path, "--info", "--quantization", "-t", "pccx").stdout.splitlines()[-1].startswith("  total"))
    for args, words in ((["--quantization", "-t", "cmdq"], "add --info"), (["--info", "--quantization"], "weights of the file"),
                        (["--info", "--quantization", "-t", "host"], "weights of the file")):
        expect(f"rejected: {args}", words in run(path, *args, status=2).stderr)


SUITE.run_tests((work_of_the_host_is_named, errors_of_quantization_are_measured))
sys.exit(SUITE.finish())
