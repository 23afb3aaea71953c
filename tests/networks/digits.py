#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The trainer of the digits: its gradients, and a short training. Its network: the accuracy on each machine is within half a point of binary32,
whose answers NumPy computes here from the weights in the file.

    digits.py CLASSIFY TRIVET
"""

import os
import re
import subprocess
import sys
import tempfile

import numpy
import onnx
from onnx import numpy_helper

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "tools", "digits")]
import cmdq  # noqa: E402
import convnet  # noqa: E402

ROOT = os.path.abspath(os.path.join(HERE, "..", ".."))
MODEL, FOLDER = os.path.join(ROOT, "models", "digits.onnx"), os.path.join(ROOT, "models", "digits")
MACHINES = ("cmdq", "opennpu", "pccx")
POINTS, ROW = 0.5, re.compile(r"^(\w+) +(\d+) +([\d.]+) %(?: +(\d+))?", re.M)


def right_of_numpy(images, labels):
    """In binary64. The file's weights are for pixels of 0 to 16, as the images have."""
    weights = {t.name: numpy_helper.to_array(t).astype(numpy.float64) for t in onnx.load(MODEL).graph.initializer}
    return convnet.count_right(weights, images.astype(numpy.float64), labels)


def check_gradients(checks):
    """The gradients of the trainer against quotients of differences."""
    images, digits = convnet.read_images(os.path.join(ROOT, "data", "digits.csv"))
    p = {name: w.astype(numpy.float64) for name, w in convnet.initial_weights(numpy.random.default_rng(1)).items()}
    images, digits, step = images[:8].astype(numpy.float64), digits[:8], 1e-6
    grads = convnet.gradients(p, images, digits)[1]
    for name, w in p.items():
        at, losses = numpy.unravel_index(numpy.abs(grads[name]).argmax(), w.shape), []
        if name == "conv1.bias":
            w += 1e-3  # of a pixel whose neighbourhood is empty Relu has no derivative where the bias is 0
            grads = convnet.gradients(p, images, digits)[1]
        for sign in (1, -1):
            w[at] += sign * step
            losses.append(convnet.gradients(p, images, digits)[0])
            w[at] -= sign * step
        quotient = (losses[0] - losses[1]) / (2 * step)
        checks.check(f"gradient of {name}", abs(quotient - grads[name][at]) <= 1e-4 * abs(quotient), f"{grads[name][at]} instead of {quotient}")


def check_training(classify, checks):
    """The trainer writes a network and a test set that the host classifies as the trainer does."""
    with tempfile.TemporaryDirectory() as folder:
        tool = [sys.executable, os.path.join(ROOT, "tools", "digits", "convnet.py"), os.path.join(ROOT, "data", "digits.csv"), folder, "--epochs", "2"]
        said = subprocess.run(tool, capture_output=True, text=True, check=False)
        right = re.search(r"test images (\d+) of 600", said.stdout)
        files = [os.path.join(folder, name) for name in ("digits.onnx", "digits/test.npy", "digits/labels.npy", "digits/calibration")]
        done = subprocess.run([classify, *files, "none"], capture_output=True, text=True, check=False)
        found = ROW.search(done.stdout)
        checks.check("two epochs of training", right and found and found[1] == "host" and abs(int(found[2]) - int(right[1])) <= 1, said.stdout + done.stdout)


def main():
    classify, trivet, checks = sys.argv[1], sys.argv[2], cmdq.Checks()
    check_gradients(checks)
    check_training(classify, checks)
    images, labels = numpy.load(os.path.join(FOLDER, "test.npy")), numpy.load(os.path.join(FOLDER, "labels.npy"))
    rows = numpy.loadtxt(os.path.join(ROOT, "data", "digits.csv"), delimiter=",", dtype=numpy.int64)[convnet.TRAIN:]
    checks.check("test set", len(labels) >= 500 and numpy.array_equal(images.reshape(-1, 64), rows[:, :64]) and numpy.array_equal(labels, rows[:, 64]))
    calibration = numpy.load(os.path.join(FOLDER, "calibration", "image.npy")).reshape(-1, 64)
    checks.check("calibration has no image of the test set", not {a.tobytes() for a in calibration} & {a.tobytes() for a in images.reshape(-1, 64)})

    done = subprocess.run([classify, MODEL, *(os.path.join(FOLDER, name) for name in ("test.npy", "labels.npy", "calibration"))], capture_output=True,
                          text=True, check=False)
    checks.check("exit status", done.returncode == 0, done.stderr)
    found = {target: (int(right), float(percent), cycles) for target, right, percent, cycles in ROW.findall(done.stdout)}
    right = right_of_numpy(images, labels)
    checks.check("the host has NumPy's answers", "host" in found and found["host"][0] == right, f"{right}: {done.stdout}")
    checks.check("accuracy", right >= 0.98 * len(labels), right)
    for target in MACHINES:
        checks.check(f"{target}: accuracy", target in found and abs(found[target][0] - right) <= POINTS / 100 * len(labels), done.stdout)
    for target in MACHINES:
        one = subprocess.run([trivet, "infer", MODEL, "-t", target, "--timing-only"], capture_output=True, text=True, check=False).stdout
        cycles = re.search(rf"^{target}: ([\d,]+) cycles", one, re.M)
        checks.check(f"{target}: cycles of the first image are those of the shapes", cycles and cycles[1].replace(",", "") == found[target][2], one)
    print(f"{checks.passed} passed, {checks.failed} failed")
    return checks.failed > 0


if __name__ == "__main__":
    sys.exit(main())
