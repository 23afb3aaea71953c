#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the convolutional network of the digits and writes it as an ONNX file.

    convnet.py data/digits.csv OUT [--seed N] [--epochs N]
    convnet.py data/digits.csv --fold F [--seed N] [--epochs N]

Of the images in the file the first TRAIN train, the others are the test set. OUT gets digits.onnx; digits/test.npy and
digits/labels.npy, the images of the test set and their digits; and digits/calibration/image.npy, training images for `trivet infer --calibrate`. With --fold F the network trains on four fifths of the training
images and is evaluated on the remaining fifth; nothing is written, and the test set is not used.

The network has operators that every machine of Trivet has: convolutions of 3 x 3, depthwise of 3 x 3, of 1 x 1 and of
the whole plane, Relu, MaxPool, Gemm. An image has pixels
from 0 to 16, as in the file. The same seed gives the same network with the same numpy and BLAS; another BLAS rounds differently.
"""

import argparse
import os
import sys

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

TRAIN, FOLDS, CALIBRATION = 1197, 5, 200
CHANNELS, WIDE, HIDDEN, CLASSES = 32, 64, 64, 10
BATCH, RATE, MOMENTS, SMOOTHING, DECAY = 32, 3e-3, (0.9, 0.999), 0.05, 1e-4


# ---- Data ----

def read_images(path):
    """Images [n, 1, 8, 8] with pixels of 0 to 1, and digits [n]."""
    rows = np.loadtxt(path, delimiter=",", dtype=np.float32)
    return rows[:, :64].reshape(-1, 1, 8, 8) / 16, rows[:, 64].astype(np.int64)


def augment(images, random):
    """Each image slightly rotated, scaled, sheared and shifted, with another intensity and noise on the stroke."""
    n = len(images)

    def uniform(limit):
        return random.uniform(-limit, limit, (n, 1, 1)).astype(np.float32)

    angle, zoom_x, zoom_y, slant = uniform(0.12), 1 + uniform(0.1), 1 + uniform(0.1), uniform(0.15)
    v, u = np.mgrid[0:8, 0:8].astype(np.float32) - 3.5
    x = zoom_x * (np.cos(angle) * u - np.sin(angle) * v) + slant * v + 3.5 + uniform(0.7)
    y = zoom_y * (np.sin(angle) * u + np.cos(angle) * v) + 3.5 + uniform(0.7)
    padded = np.pad(images[:, 0], ((0, 0), (2, 2), (2, 2)))  # pixel (y, x) is at [y + 2, x + 2]
    x, y = np.clip(x, -2, 8.99) + 2, np.clip(y, -2, 8.99) + 2
    left, top = x.astype(np.int64), y.astype(np.int64)
    fx, fy, which = x - left, y - top, np.arange(n).reshape(-1, 1, 1)
    upper = (1 - fx) * padded[which, top, left] + fx * padded[which, top, left + 1]
    lower = (1 - fx) * padded[which, top + 1, left] + fx * padded[which, top + 1, left + 1]
    out = (1 + uniform(0.1)) * ((1 - fy) * upper + fy * lower)
    out = np.where(out > 0, out + 0.05 * random.standard_normal(out.shape, np.float32), 0)
    return np.clip(out, 0, 1).astype(np.float32).reshape(images.shape)


# ---- The network ----
# Activations are [n][channels][rows][columns] as in ONNX. Each layer is a function that returns its output and the function from the gradient of the
# output to the gradient of the input, which adds the gradients of the weights to `grads`.

def windows(x):
    """Windows of 3 x 3 with padding 1: [n, c, h, w, 3, 3]."""
    return sliding_window_view(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), (3, 3), axis=(2, 3))


def conv(x, p, name, grads):
    """3 x 3 with padding 1, from one channel."""
    w, taps = p[name + ".weight"], windows(x)[:, 0].reshape(-1, 9)
    y = taps @ w.reshape(len(w), 9).T + p[name + ".bias"]

    def back(g):
        g = g.transpose(0, 2, 3, 1).reshape(-1, len(w))
        grads[name + ".weight"] = (g.T @ taps).reshape(w.shape)
        grads[name + ".bias"] = g.sum(0)

    return y.reshape(len(x), *x.shape[2:], len(w)).transpose(0, 3, 1, 2), back


def depthwise(x, p, name, grads):
    """3 x 3 with padding 1, each channel by itself."""
    w, taps = p[name + ".weight"][:, 0], windows(x)
    y = np.einsum("nchwij,cij->nchw", taps, w, optimize=True) + p[name + ".bias"].reshape(1, -1, 1, 1)

    def back(g):
        grads[name + ".weight"] = np.einsum("nchwij,nchw->cij", taps, g, optimize=True)[:, None]
        grads[name + ".bias"] = g.sum((0, 2, 3))
        return np.einsum("nchwij,cij->nchw", windows(g), w[:, ::-1, ::-1], optimize=True)

    return y, back


def linear(x, p, name, grads):
    """x W^T + b along axis 1: a convolution of 1 x 1, one of the whole plane after flatten, or a Gemm."""
    w = p[name + ".weight"].reshape(len(p[name + ".weight"]), -1)
    rows = np.moveaxis(x, 1, -1).reshape(-1, x.shape[1])
    y = rows @ w.T + p[name + ".bias"]

    def back(g):
        g = np.moveaxis(g, 1, -1).reshape(-1, len(w))
        grads[name + ".weight"] = (g.T @ rows).reshape(p[name + ".weight"].shape)
        grads[name + ".bias"] = g.sum(0)
        return np.moveaxis((g @ w).reshape(len(x), *x.shape[2:], x.shape[1]), -1, 1)

    return np.moveaxis(y.reshape(len(x), *x.shape[2:], len(w)), -1, 1), back


def relu(x):
    return np.maximum(x, 0), lambda g: g * (x > 0)


def max_pool(x):
    """2 x 2. The gradient goes to the first of the largest pixels."""
    n, c, h, w = x.shape
    blocks = x.reshape(n, c, h // 2, 2, w // 2, 2).transpose(0, 1, 2, 4, 3, 5).reshape(n, c, h // 2, w // 2, 4)
    first = blocks.argmax(-1)[..., None]

    def back(g):
        out = np.zeros_like(blocks)
        np.put_along_axis(out, first, g[..., None], -1)
        return out.reshape(n, c, h // 2, w // 2, 2, 2).transpose(0, 1, 2, 4, 3, 5).reshape(x.shape)

    return np.take_along_axis(blocks, first, -1)[..., 0], back


def flatten(x):
    return x.reshape(len(x), -1), lambda g: g.reshape(x.shape)


def forward(p, x, grads):
    """Logits [n, CLASSES] of images with pixels of 0 to 1, and the functions of the gradients in the order of the layers."""
    steps = []
    for layer in (lambda x: conv(x, p, "conv1", grads), relu, max_pool, lambda x: depthwise(x, p, "conv2", grads), relu,
                  lambda x: linear(x, p, "conv3", grads), relu, max_pool, flatten, lambda x: linear(x, p, "conv4", grads), relu,
                  lambda x: linear(x, p, "classifier", grads)):
        x, back = layer(x)
        steps.append(back)
    return x, steps


def gradients(p, x, digits):
    """Cross entropy with smoothed labels, and the gradient of each weight."""
    grads = {}
    logits, steps = forward(p, x, grads)
    probs = np.exp(logits - logits.max(1, keepdims=True))
    probs /= probs.sum(1, keepdims=True)
    target = np.full_like(probs, SMOOTHING / CLASSES)
    target[np.arange(len(x)), digits] += 1 - SMOOTHING
    g = (probs - target) / len(x)
    for back in reversed(steps):
        g = back(g)
    return -(target * np.log(probs + 1e-12)).sum() / len(x), grads


def initial_weights(random):
    def normal(name, *dims):
        fan_in = int(np.prod(dims[1:]))
        return {name + ".weight": random.standard_normal(dims, np.float32) * np.float32(np.sqrt(2 / fan_in)),
                name + ".bias": np.zeros(dims[0], np.float32)}

    return {**normal("conv1", CHANNELS, 1, 3, 3), **normal("conv2", CHANNELS, 1, 3, 3), **normal("conv3", WIDE, CHANNELS, 1, 1),
            **normal("conv4", HIDDEN, WIDE, 2, 2), **normal("classifier", CLASSES, HIDDEN)}


def train(images, digits, epochs, seed):
    """Adam with cosine decay of the rate."""
    random = np.random.default_rng(seed)
    p = initial_weights(random)
    moments = {name: [np.zeros_like(w), np.zeros_like(w)] for name, w in p.items()}
    step, steps = 0, epochs * (len(images) // BATCH)
    for epoch in range(epochs):
        order, total = random.permutation(len(images)), 0.0
        for at in range(0, len(images) - BATCH + 1, BATCH):
            batch = order[at:at + BATCH]
            loss, grads = gradients(p, augment(images[batch], random), digits[batch])
            step, total = step + 1, total + loss
            rate = RATE * (0.01 + 0.99 * 0.5 * (1 + np.cos(np.pi * step / steps)))
            for name, w in p.items():
                m, v = moments[name]
                m += (1 - MOMENTS[0]) * (grads[name] - m)
                v += (1 - MOMENTS[1]) * (grads[name] ** 2 - v)
                change = m / (1 - MOMENTS[0] ** step) / (np.sqrt(v / (1 - MOMENTS[1] ** step)) + 1e-8)
                w -= (rate * (change + DECAY * w)).astype(np.float32)
        if (epoch + 1) % 20 == 0:
            print(f"epoch {epoch + 1}: loss {total * BATCH / len(images):.4f}", file=sys.stderr)
    return p


def count_right(p, images, digits):
    return int((forward(p, images, {})[0].argmax(1) == digits).sum())


# ---- Output ----

def model(p):
    """The network as an ONNX model whose input has pixels of 0 to 16: conv1 has the factor 1/16."""
    from onnx import TensorProto, helper, numpy_helper
    p = dict(p)
    p["conv1.weight"] = p["conv1.weight"] / 16
    conv3x3, pool = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}, {"kernel_shape": [2, 2], "strides": [2, 2]}
    chain = (("Conv", "conv1", conv3x3), ("Relu", "relu1", {}), ("MaxPool", "pool1", pool), ("Conv", "conv2", {**conv3x3, "group": CHANNELS}),
             ("Relu", "relu2", {}), ("Conv", "conv3", {"kernel_shape": [1, 1]}), ("Relu", "relu3", {}), ("MaxPool", "pool2", pool),
             ("Conv", "conv4", {"kernel_shape": [2, 2]}), ("Relu", "relu4", {}), ("Flatten", "flatten", {"axis": 1}), ("Gemm", "classifier", {"transB": 1}))
    nodes, value = [], "image"
    for op, name, attributes in chain:
        out = "logits" if op == "Gemm" else name + ".out"
        weights = [name + ".weight", name + ".bias"] if name + ".weight" in p else []
        nodes.append(helper.make_node(op, [value, *weights], [out], name=name, **attributes))
        value = out
    graph = helper.make_graph(nodes, "digits", [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 8, 8])],
                              [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, CLASSES])],
                              [numpy_helper.from_array(w, name) for name, w in p.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], producer_name="convnet.py", ir_version=7)


def save(p, images, digits, out):
    import onnx
    folder = os.path.join(out, "digits")
    os.makedirs(os.path.join(folder, "calibration"), exist_ok=True)
    onnx.save(model(p), os.path.join(out, "digits.onnx"))
    pixels = np.rint(images * 16).astype(np.uint8)
    np.save(os.path.join(folder, "test.npy"), pixels[TRAIN:])
    np.save(os.path.join(folder, "labels.npy"), digits[TRAIN:].astype(np.uint8))
    np.save(os.path.join(folder, "calibration", "image.npy"), pixels[:CALIBRATION])


def main():
    parser = argparse.ArgumentParser(description="Trains the convolutional network of the digits and writes it as an ONNX file.")
    parser.add_argument("data")
    parser.add_argument("out", nargs="?")
    parser.add_argument("--fold", type=int, choices=range(FOLDS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=200)
    options = parser.parse_args()
    if (options.out is None) == (options.fold is None):
        parser.error("OUT or --fold F is needed")
    images, digits = read_images(options.data)
    if options.fold is not None:
        held_out = np.arange(TRAIN) * FOLDS // TRAIN == options.fold  # in succession: mostly of other writers
        p = train(images[:TRAIN][~held_out], digits[:TRAIN][~held_out], options.epochs, options.seed)
        print(f"held-out images {count_right(p, images[:TRAIN][held_out], digits[:TRAIN][held_out])} of {held_out.sum()}")
        return
    p = train(images[:TRAIN], digits[:TRAIN], options.epochs, options.seed)
    right, count = count_right(p, images[TRAIN:], digits[TRAIN:]), len(images) - TRAIN
    print(f"training images {count_right(p, images[:TRAIN], digits[:TRAIN])} of {TRAIN}, test images {right} of {count}, {100 * right / count:.2f} %")
    save(p, images, digits, options.out)


if __name__ == "__main__":
    main()
