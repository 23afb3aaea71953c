#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes published networks, and one block of a small vision transformer, as ONNX files with random weights: their shapes alone, or with data.

    networks.py NAME OUT.onnx [--shapes] [--seed N] [--opset N]
    networks.py --list

NAME is resnet50, mobilenetv2, bert-base, vit-b16, opt-125m, unet or vit-block. With --shapes the weights are graph inputs, which have a type and
dimensions but no data; otherwise they are initializers. Weights are scaled so that activations keep their size. The same arguments give the same file.
From Python: build(name, shapes=False, seed=1, opset=13) returns a ModelProto; PARAMETERS has the published number of each network's parameters.
"""

import argparse
import math

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64

# As published: torchvision (ResNet-50, MobileNetV2, ViT-B/16), transformers (BERT-base with pooler, OPT-125M), and for the U-Net of 64 to 1024
# channels, with batch normalization and one class, and the block of a transformer, the sum of their layers by hand. Without statistics of batch normalization, which are no parameters.
PARAMETERS = {"resnet50": 25557032, "mobilenetv2": 3504872, "bert-base": 109482240, "vit-b16": 86567656, "opt-125m": 125239296,
              "unet": 31037633, "vit-block": 55050}


class Network:
    """A graph under construction. Values are names; weights are counted."""

    def __init__(self, name, shapes, seed):
        self.name, self.shapes, self.random = name, shapes, numpy.random.default_rng(seed)
        self.nodes, self.initializers, self.inputs, self.outputs = [], [], [], []
        self.parameters = self.count = 0

    def node(self, op, *inputs, name=None, **attributes):
        self.count += 1
        out = name or f"{op.lower()}_{self.count}"
        self.nodes.append(helper.make_node(op, list(inputs), [out], name=out, **attributes))
        return out

    def input(self, name, dims, kind=FLOAT):
        self.inputs.append(helper.make_tensor_value_info(name, kind, dims))
        return name

    def output(self, value, dims):
        self.outputs.append(helper.make_tensor_value_info(value, FLOAT, dims))

    def constant(self, name, array):
        """Shapes, axes and other constants that are no weights."""
        self.initializers.append(numpy_helper.from_array(numpy.asarray(array), name))
        return name

    def weight(self, name, dims, scale=0.0, mean=0.0, counted=True):
        self.parameters += math.prod(dims) if counted else 0
        if self.shapes:
            return self.input(name, dims)
        values = numpy.full(dims, mean, numpy.float32)
        if scale:
            values += self.random.standard_normal(dims, numpy.float32) * numpy.float32(scale)
        return self.constant(name, values)

    # ---- Layers ----

    def conv(self, x, name, out_channels, in_channels, kernel, stride=1, pad=None, groups=1, bias=False):
        fan_in = in_channels // groups * kernel * kernel
        inputs = [x, self.weight(name + ".weight", [out_channels, in_channels // groups, kernel, kernel], math.sqrt(2 / fan_in))]
        if bias:
            inputs.append(self.weight(name + ".bias", [out_channels], 0.01))
        pad = kernel // 2 if pad is None else pad
        return self.node("Conv", *inputs, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4, group=groups)

    def batch_norm(self, x, name, channels, gain=1.0):
        parts = [self.weight(name + ".weight", [channels], 0.1 * gain, gain), self.weight(name + ".bias", [channels], 0.1),
                 self.weight(name + ".running_mean", [channels], 0.1, counted=False),
                 self.weight(name + ".running_var", [channels], 0.0, 1.0, counted=False)]
        return self.node("BatchNormalization", x, *parts, epsilon=1e-5)

    def linear(self, x, name, rows, columns, gain=1.0):
        """x W + b for an x of any rank, as exporters write it."""
        product = self.node("MatMul", x, self.weight(name + ".weight", [columns, rows], gain / math.sqrt(columns)))
        return self.node("Add", product, self.weight(name + ".bias", [rows], 0.02))

    def layer_norm(self, x, name, size, epsilon):
        """By the operators of opset 13, which has no LayerNormalization."""
        mean = self.node("ReduceMean", x, axes=[-1], keepdims=1)
        centered = self.node("Sub", x, mean)
        variance = self.node("ReduceMean", self.node("Mul", centered, centered), axes=[-1], keepdims=1)
        deviation = self.node("Sqrt", self.node("Add", variance, self.constant(f"{name}.epsilon", numpy.float32(epsilon))))
        scaled = self.node("Mul", self.node("Div", centered, deviation), self.weight(name + ".weight", [size], 0.1, 1.0))
        return self.node("Add", scaled, self.weight(name + ".bias", [size], 0.02))

    def gelu(self, x, name):
        """x (1 + erf(x / sqrt 2)) / 2."""
        erf = self.node("Erf", self.node("Div", x, self.constant(f"{name}.root", numpy.float32(math.sqrt(2)))))
        one = self.node("Add", erf, self.constant(f"{name}.one", numpy.float32(1)))
        return self.node("Mul", self.node("Mul", x, one), self.constant(f"{name}.half", numpy.float32(0.5)))

    def attention(self, x, names, heads, tokens, size, mask=None):
        """Attention of all heads. `names` are of the projections of queries, keys, values and the output."""
        def split(y, name):
            y = self.node("Reshape", y, self.constant(f"{name}.split", numpy.array([1, tokens, heads, size // heads])))
            return self.node("Transpose", y, perm=[0, 2, 1, 3])

        q, k, v = (split(self.linear(x, name, size, size), name) for name in names[:3])
        scores = self.node("MatMul", q, self.node("Transpose", k, perm=[0, 1, 3, 2]))
        scores = self.node("Mul", scores, self.constant(f"{names[0]}.scale", numpy.float32(math.sqrt(heads / size))))
        if mask:
            scores = self.node("Add", scores, mask)
        y = self.node("Transpose", self.node("MatMul", self.node("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
        y = self.node("Reshape", y, self.constant(f"{names[3]}.join", numpy.array([1, tokens, size])))
        return self.linear(y, names[3], size, size)

    def model(self, opset):
        graph = helper.make_graph(self.nodes, self.name, self.inputs, self.outputs, self.initializers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], producer_name="networks.py")
        model.ir_version = 8
        return model


# ---- Convolutional networks ----

def resnet50(n):
    """He et al. 2015, with the stride in the 3 x 3 convolution."""
    x = n.input("input", [1, 3, 224, 224])
    x = n.node("Relu", n.batch_norm(n.conv(x, "conv1", 64, 3, 7, 2), "bn1", 64))
    x = n.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = 64
    for stage, (blocks, width) in enumerate(((3, 64), (4, 128), (6, 256), (3, 512)), 1):
        for block in range(blocks):
            name, stride = f"layer{stage}.{block}", 2 if stage > 1 and block == 0 else 1
            y = n.node("Relu", n.batch_norm(n.conv(x, name + ".conv1", width, channels, 1), name + ".bn1", width))
            y = n.node("Relu", n.batch_norm(n.conv(y, name + ".conv2", width, width, 3, stride), name + ".bn2", width))
            y = n.batch_norm(n.conv(y, name + ".conv3", 4 * width, width, 1), name + ".bn3", 4 * width, 0.2)
            if block == 0:
                x = n.batch_norm(n.conv(x, name + ".downsample.0", 4 * width, channels, 1, stride), name + ".downsample.1", 4 * width)
            channels = 4 * width
            x = n.node("Relu", n.node("Add", y, x))
    x = n.node("Flatten", n.node("GlobalAveragePool", x), axis=1)
    weights = n.weight("fc.weight", [1000, 2048], 1 / math.sqrt(2048)), n.weight("fc.bias", [1000], 0.02)
    n.output(n.node("Gemm", x, *weights, transB=1, name="output"), [1, 1000])


def mobilenetv2(n):
    """Sandler et al. 2018, width 1."""
    def clip(x):
        return n.node("Clip", x, "clip.min", "clip.max")

    x = n.input("input", [1, 3, 224, 224])
    n.constant("clip.min", numpy.float32(0))
    n.constant("clip.max", numpy.float32(6))
    x = clip(n.batch_norm(n.conv(x, "features.0.0", 32, 3, 3, 2), "features.0.1", 32))
    channels, at = 32, 1
    for expansion, out, repeats, first_stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
                                                  (6, 320, 1, 1)):
        for block in range(repeats):
            name, stride, wide, y = f"features.{at}", first_stride if block == 0 else 1, channels * expansion, x
            if expansion > 1:
                y = clip(n.batch_norm(n.conv(y, name + ".expand", wide, channels, 1), name + ".expand_bn", wide))
            y = clip(n.batch_norm(n.conv(y, name + ".depthwise", wide, wide, 3, stride, groups=wide), name + ".depthwise_bn", wide))
            y = n.batch_norm(n.conv(y, name + ".project", out, wide, 1), name + ".project_bn", out)
            x = n.node("Add", x, y) if stride == 1 and channels == out else y
            channels, at = out, at + 1
    x = clip(n.batch_norm(n.conv(x, "features.18.0", 1280, channels, 1), "features.18.1", 1280))
    x = n.node("Flatten", n.node("GlobalAveragePool", x), axis=1)
    weights = n.weight("classifier.weight", [1000, 1280], 1 / math.sqrt(1280)), n.weight("classifier.bias", [1000], 0.02)
    n.output(n.node("Gemm", x, *weights, transB=1, name="output"), [1, 1000])


def unet(n):
    """Ronneberger et al. 2015 with padded convolutions and batch normalization; one input channel more than there: three."""
    def double(x, name, out, channels):
        x = n.node("Relu", n.batch_norm(n.conv(x, name + ".0", out, channels, 3), name + ".1", out))
        return n.node("Relu", n.batch_norm(n.conv(x, name + ".3", out, out, 3), name + ".4", out))

    x, channels, skips = n.input("input", [1, 3, 224, 224]), 3, []
    for level, out in enumerate((64, 128, 256, 512)):
        x = double(x, f"down{level}", out, channels)
        skips.append((x, out))
        x, channels = n.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]), out
    x, channels = double(x, "middle", 1024, channels), 1024
    for level, (skip, out) in reversed(list(enumerate(skips))):
        weights = n.weight(f"up{level}.weight", [channels, out, 2, 2], math.sqrt(1 / channels)), n.weight(f"up{level}.bias", [out], 0.01)
        x = n.node("ConvTranspose", x, *weights, kernel_shape=[2, 2], strides=[2, 2])
        x, channels = double(n.node("Concat", skip, x, axis=1), f"up{level}.conv", out, 2 * out), out
    weights = n.weight("head.weight", [1, 64, 1, 1], 1 / 8), n.weight("head.bias", [1], 0.01)
    n.output(n.node("Conv", x, *weights, kernel_shape=[1, 1], name="output"), [1, 1, 224, 224])


# ---- Transformers ----

def bert_base(n, tokens=128, size=768, heads=12):
    """Devlin et al. 2018: the last hidden state and the pooled output."""
    ids, segments = n.input("input_ids", [1, tokens], INT64), n.input("token_type_ids", [1, tokens], INT64)
    keep = n.input("attention_mask", [1, tokens])
    words = n.node("Gather", n.weight("embeddings.word", [30522, size], 0.5), ids)
    places = n.node("Gather", n.weight("embeddings.position", [512, size], 0.5), n.constant("positions", numpy.arange(tokens).reshape(1, -1)))
    x = n.node("Add", n.node("Add", words, n.node("Gather", n.weight("embeddings.type", [2, size], 0.5), segments)), places)
    x = n.layer_norm(x, "embeddings.norm", size, 1e-12)
    mask = n.node("Mul", n.node("Sub", n.constant("one", numpy.float32(1)), keep), n.constant("far", numpy.float32(-10000)))
    mask = n.node("Reshape", mask, n.constant("mask.shape", numpy.array([1, 1, 1, tokens])))
    for layer in range(12):
        name = f"layer.{layer}"
        y = n.attention(x, [f"{name}.{part}" for part in ("query", "key", "value", "output")], heads, tokens, size, mask)
        x = n.layer_norm(n.node("Add", x, y), name + ".norm1", size, 1e-12)
        y = n.linear(n.gelu(n.linear(x, name + ".up", 4 * size, size), name), name + ".down", size, 4 * size)
        x = n.layer_norm(n.node("Add", x, y), name + ".norm2", size, 1e-12)
    hidden = n.node("Identity", x, name="last_hidden_state")
    n.output(hidden, [1, tokens, size])
    first = n.node("Gather", hidden, n.constant("first", numpy.int64(0)), axis=1)
    n.output(n.node("Tanh", n.linear(first, "pooler", size, size), name="pooler_output"), [1, size])


def vision_transformer(n, size, heads, pixels, patch, layers, classes):
    """Patches of an image and a class token, whose output is classified."""
    patches = (pixels // patch) ** 2
    tokens = patches + 1
    x = n.conv(n.input("input", [1, 3, pixels, pixels]), "patches", size, 3, patch, patch, 0, bias=True)
    x = n.node("Transpose", n.node("Reshape", x, n.constant("patches.shape", numpy.array([1, size, patches]))), perm=[0, 2, 1])
    x = n.node("Concat", n.weight("class_token", [1, 1, size], 0.02), x, axis=1)
    x = n.node("Add", x, n.weight("position", [1, tokens, size], 0.02))
    for layer in range(layers):
        name = f"layer.{layer}"
        y = n.attention(n.layer_norm(x, name + ".norm1", size, 1e-6), [f"{name}.{part}" for part in ("query", "key", "value", "output")],
                        heads, tokens, size)
        x = n.node("Add", x, y)
        y = n.linear(n.layer_norm(x, name + ".norm2", size, 1e-6), name + ".up", 4 * size, size)
        x = n.node("Add", x, n.linear(n.gelu(y, name), name + ".down", size, 4 * size))
    x = n.node("Gather", n.layer_norm(x, "norm", size, 1e-6), n.constant("first", numpy.int64(0)), axis=1)
    n.output(n.node("Identity", n.linear(x, "head", classes, size), name="output"), [1, classes])


def vit_b16(n):
    """Dosovitskiy et al. 2020: 196 patches of 16 x 16."""
    vision_transformer(n, 768, 12, 224, 16, 12, 1000)


def vit_block(n):
    """One layer of a small vision transformer, an example of the manual: 16 patches of 4 x 4."""
    vision_transformer(n, 64, 2, 16, 4, 1, 10)


def opt_125m(n, tokens=128, size=768, heads=12):
    """Zhang et al. 2022: the logits of all tokens of a prompt. The classifier is the embedding."""
    ids = n.input("input_ids", [1, tokens], INT64)
    table = n.weight("embed_tokens", [50272, size], 0.05)
    places = n.node("Gather", n.weight("embed_positions", [2050, size], 0.05), n.constant("positions", numpy.arange(2, tokens + 2).reshape(1, -1)))
    x = n.node("Add", n.node("Gather", table, ids), places)
    causal = numpy.triu(numpy.full((tokens, tokens), -3e38, numpy.float32), 1).reshape(1, 1, tokens, tokens)
    mask = n.constant("causal", causal)
    for layer in range(12):
        name = f"layer.{layer}"
        y = n.attention(n.layer_norm(x, name + ".norm1", size, 1e-5), [f"{name}.{part}" for part in ("query", "key", "value", "output")],
                        heads, tokens, size, mask)
        x = n.node("Add", x, y)
        y = n.node("Relu", n.linear(n.layer_norm(x, name + ".norm2", size, 1e-5), name + ".up", 4 * size, size))
        x = n.node("Add", x, n.linear(y, name + ".down", size, 4 * size))
    x = n.layer_norm(x, "norm", size, 1e-5)
    n.output(n.node("MatMul", x, n.node("Transpose", table, perm=[1, 0]), name="logits"), [1, tokens, 50272])


NETWORKS = {"resnet50": resnet50, "mobilenetv2": mobilenetv2, "bert-base": bert_base, "vit-b16": vit_b16, "opt-125m": opt_125m, "unet": unet,
            "vit-block": vit_block}


def build(name, shapes=False, seed=1, opset=13):
    """(ModelProto, number of parameters)"""
    network = Network(name, shapes, seed)
    NETWORKS[name](network)
    return network.model(opset), network.parameters


def main():
    parser = argparse.ArgumentParser(description="Writes a network with random weights as an ONNX file.")
    parser.add_argument("name", nargs="?", choices=NETWORKS)
    parser.add_argument("out", nargs="?")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--shapes", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--opset", type=int, default=13)
    options = parser.parse_args()
    if options.list:
        print("\n".join(NETWORKS))
    elif options.out:
        onnx.save(build(options.name, options.shapes, options.seed, options.opset)[0], options.out)
    else:
        parser.error("NAME and OUT.onnx are needed")


if __name__ == "__main__":
    main()
