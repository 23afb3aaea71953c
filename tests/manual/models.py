# SPDX-License-Identifier: Apache-2.0
"""The model files that examples of `trivet explain` name: each has one fault, which the example's first line states."""

import os
import struct

from small_model import count, string, write_small_model

I8 = 24


def strings(*items):
    return 9, struct.pack("<IQ", 8, len(items)) + b"".join(string(t)[1] for t in items)


def reals(*items):
    return 9, struct.pack("<IQ", 6, len(items)) + struct.pack("<%df" % len(items), *items)


def write_models(folder):
    def write(name, vocabulary=28, keys=(), **options):
        write_small_model(os.path.join(folder, name), vocabulary, keys=[(key, *value) for key, value in keys], **options)

    write("letters.gguf")
    write("large.gguf", values=[("blk.0.attn_q.weight", 0, 1e5)])
    write("nan.gguf", values=[("blk.0.attn_q.weight", 0, float("nan"))])
    write("overflow.gguf", values=[("blk.0.attn_q.weight", 0, 1e37), ("blk.0.attn_norm.weight", 0, 100.0)])
    write("sinks.gguf", tensors=["blk.0.attn_sinks.weight"])
    write("part.gguf", keys=[("split.count", count(3)), ("split.no", count(0)), ("split.tensors.count", count(30))])
    write("uneven.gguf", keys=[("tokenizer.ggml.scores", reals(0, 1))])
    gpt2 = [("tokenizer.ggml.model", string("gpt2"))]
    write("gpt2.gguf", keys=gpt2 + [("tokenizer.ggml.merges", strings("a b"))])
    write("unsplit.gguf", keys=gpt2 + [("tokenizer.ggml.pre", string("other")), ("tokenizer.ggml.merges", strings("a b"))])
    write("merges.gguf", keys=gpt2 + [("tokenizer.ggml.pre", string("gpt-2")), ("tokenizer.ggml.merges", strings("x yz"))])
    with open(os.path.join(folder, "letters.gguf"), "rb") as f:
        data = f.read()
    info = string("blk.0.attn_q.weight")[1] + struct.pack("<IQQ", 2, 32, 32)
    with open(os.path.join(folder, "i8.gguf"), "wb") as f:
        f.write(data.replace(info + struct.pack("<I", 0), info + struct.pack("<I", I8)))
