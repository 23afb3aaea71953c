#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Networks on pccx from their shapes: they take at least the cycles of the bound of bound.py, and the host only what the manual says.

    pccx.py TRIVET [NETWORK...]
"""

import json
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cmdq  # noqa: E402

# Cycles of bound.py with weights of 4 bits, and what the host may do (docs/networks.md).
BOUNDS = {"resnet50": 3027890, "mobilenetv2": 442725, "bert-base": 5475533, "opt-125m": 7871386, "unet": 20233831}
HOST = {"resnet50": False, "mobilenetv2": False, "bert-base": True, "opt-125m": True, "unet": False}


def infer(trivet, model, *options):
    done = subprocess.run([trivet, "infer", model, "-t", "pccx", "--timing-only", "--json", *options], capture_output=True, text=True, check=False)
    return json.loads(done.stdout)["result"]["targets"][0] if done.returncode == 0 else None


def main():
    trivet, checks = os.path.abspath(sys.argv[1]), cmdq.Checks()
    with tempfile.TemporaryDirectory() as folder:
        for name, bound in BOUNDS.items():
            if sys.argv[2:] and name not in sys.argv[2:]:
                continue
            target = infer(trivet, cmdq.save(name, folder, True), *(["--allow-host-ops"] if HOST[name] else []), "--explain-plan")
            checks.check(f"{name}: runs", target is not None)
            if target:
                checks.check(f"{name}: cycles", target["cycles"] >= bound, f"{target['cycles']} are less than the bound {bound}")
                checks.check(f"{name}: host operations", bool(target["host_ops"]) == HOST[name], target["host_ops"])
    print(f"{checks.passed} passed, {checks.failed} failed")
    return checks.failed > 0


if __name__ == "__main__":
    sys.exit(main())
