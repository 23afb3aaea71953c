#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Networks on CMDQ: cycles against the bound of bound.py, no hazards, and results against the host.

    cmdq.py TRIVET [NETWORK...]

The networks are those of networks.py. Cycles come from the shapes; results are those of MobileNetV2 with data.
"""

import json
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]
import networks  # noqa: E402
from suite import sample  # noqa: E402

# Of the bound: what each network reaches at least, in percent.
REACHED = {"resnet50": 95, "mobilenetv2": 61, "bert-base": 84, "vit-b16": 76, "opt-125m": 77, "unet": 63}
BOUNDS = {"resnet50": 981990, "mobilenetv2": 124467, "bert-base": 2718780, "vit-b16": 2788696, "opt-125m": 4101776, "unet": 4922296}


class Checks:
    def __init__(self):
        self.passed = self.failed = 0

    def check(self, name, good, detail=""):
        if good:
            self.passed += 1
        else:
            self.failed += 1
            print(f"FAIL {name}: {detail}")


def infer(trivet, model, *options):
    done = subprocess.run([trivet, "infer", model, "-t", "cmdq", "--json", *options], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"infer {model}: {done.stderr}{done.stdout[-2000:]}")
    return json.loads(done.stdout)["result"]["targets"][0]


def save(name, folder, shapes):
    path = os.path.join(folder, name + ".onnx")
    with open(path, "wb") as file:
        file.write(networks.build(name, shapes=shapes)[0].SerializeToString())
    return path


def main():
    trivet, checks = os.path.abspath(sys.argv[1]), Checks()
    with tempfile.TemporaryDirectory() as folder:
        for name, percent in REACHED.items():
            if sys.argv[2:] and name not in sys.argv[2:]:
                continue
            path = save(name, folder, True)
            target = infer(trivet, path, "--timing-only", "--explain-plan")
            silent = [layer["name"] for layer in target["layers"] if layer["tiles"] and "busy: " not in (layer["plan"] or "")]
            checks.check(f"{name}: plans are explained", not silent and "fewest cycles" in target["layers"][0]["plan"], silent)
            share = 100 * BOUNDS[name] / target["cycles"]
            checks.check(f"{name}: cycles", share >= percent, f"{target['cycles']} are {share:.1f} % of the bound, not {percent}")
            for options in sample((("--weight-bits", "4"), ("-D", "spm.bank_bytes=131072"), ("-D", "npu.te=3", "-D", "npu.ve=1", "-D", "dma.count=2"))):
                other = infer(trivet, path, "--timing-only", *options)
                checks.check(f"{name}: {' '.join(options)}", 0.4 * target["cycles"] < other["cycles"] < 3 * target["cycles"], other["cycles"])
            checks.check(f"{name}: host operations", target["host_ops"] == [], target["host_ops"])
        path = save("mobilenetv2", folder, False)
        compiled = os.path.join(folder, "compiled")
        subprocess.run([trivet, "compile", path, "-t", "cmdq", "-o", compiled, "-q"], check=True)
        done = subprocess.run([trivet, "check", "--strict", os.path.join(compiled, "network.json")], capture_output=True, text=True, check=False)
        checks.check("mobilenetv2: no hazards, no needless dependencies", "TV-Q050" not in done.stdout + done.stderr and ", 0 errors" in done.stdout,
                     done.stdout[-300:] + done.stderr[-300:])
        target = infer(trivet, path, "--verify")
        similarities = [layer["cosine"] for layer in target["layers"] if layer.get("cosine") is not None]
        checks.check("mobilenetv2: layers are compared", len(similarities) > 50, len(similarities))
        checks.check("mobilenetv2: the result is that of the host", similarities and similarities[-1] > 0.99, similarities[-1:])
    print(f"{checks.passed} passed, {checks.failed} failed")
    return checks.failed > 0


if __name__ == "__main__":
    sys.exit(main())
