#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Networks on OpenNPU: cycles from shapes are those of the manual and above the bound, the host does nothing, results with data are near the host's,
and a compiled network gives the same.

    opennpu.py TRIVET MANUAL [NETWORK...]
"""

import json
import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cmdq  # noqa: E402

# Multiply-adds in millions (bound.py); a tick has two loads for K * K = 4096 of them at most.
MACS = {"resnet50": 4089, "mobilenetv2": 301, "bert-base": 11174, "vit-b16": 17564, "opt-125m": 16116, "unet": 36878}
PEAK = 64 * 64 / 2
MEMORY = ("-D", "mem.bytes=512Mi")


def run(trivet, *arguments):
    done = subprocess.run([trivet, *arguments, "--json"], capture_output=True, text=True, check=False)
    return json.loads(done.stdout)["result"]["targets"][0] if done.returncode == 0 else None


def cycles_of(manual):
    """The table of the section of OpenNPU."""
    with open(manual, encoding="utf-8") as file:
        section = file.read().split("## Networks on OpenNPU")[1].split("\n## ")[0]
    return {name: int(cycles.replace(",", "")) for name, cycles in re.findall(r"^\| ([\w-]+) \| ([\d,]+) \|", section, re.M)}


def check_compiled(trivet, model, folder, checks):
    outputs = [os.path.join(folder, name) for name in ("a.npy", "b.npy")]
    program = os.path.join(folder, "program")
    first = run(trivet, "infer", model, "-t", "opennpu", "--output", "output=" + outputs[0])
    subprocess.run([trivet, "compile", model, "-t", "opennpu", "-o", program], stdout=subprocess.DEVNULL, check=False)
    second = run(trivet, "run", program, "--output", "output=" + outputs[1])
    checks.check("compiled: cycles", first and second and first["cycles"] == second["cycles"], (first and first["cycles"], second and second["cycles"]))
    with open(outputs[0], "rb") as a, open(outputs[1], "rb") as b:
        checks.check("compiled: results", a.read() == b.read())


def main():
    trivet, manual, checks = os.path.abspath(sys.argv[1]), cycles_of(sys.argv[2]), cmdq.Checks()
    with tempfile.TemporaryDirectory() as folder:
        for name, macs in MACS.items():
            if sys.argv[3:] and name not in sys.argv[3:]:
                continue
            target = run(trivet, "infer", cmdq.save(name, folder, True), "-t", "opennpu", "--timing-only", "--explain-plan", *MEMORY)
            checks.check(f"{name}: runs", target is not None)
            if target:
                checks.check(f"{name}: cycles", target["cycles"] == manual.get(name), f"{target['cycles']}, {manual.get(name)} in the manual")
                checks.check(f"{name}: bound", target["cycles"] >= macs * 1e6 / PEAK, target["cycles"])
                checks.check(f"{name}: host operations", target["host_ops"] == [], target["host_ops"])
        small = run(trivet, "infer", cmdq.save("bert-base", folder, True), "-t", "opennpu", "--timing-only")
        checks.check("too large for the memory", small is None)
        model = cmdq.save("mobilenetv2", folder, False)
        target = run(trivet, "infer", model, "-t", "opennpu", "--verify")
        noise = [layer["own_noise_db"] for layer in target["layers"] if layer.get("own_noise_db") is not None]
        checks.check("mobilenetv2: own noise of layers", len(noise) > 50 and min(noise) > 30, min(noise))
        checks.check("mobilenetv2: similarity", target["layers"][-1]["cosine"] > 0.99, target["layers"][-1]["cosine"])
        check_compiled(trivet, model, folder, checks)
    print(f"{checks.passed} passed, {checks.failed} failed")
    return checks.failed > 0


if __name__ == "__main__":
    sys.exit(main())
