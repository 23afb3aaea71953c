# SPDX-License-Identifier: Apache-2.0
"""Small GGUF models for tests, and values of their metadata: pairs of the kind and the bytes."""

import struct


def count(n):
    return 4, struct.pack("<I", n)


def real(x):
    return 6, struct.pack("<f", x)


def flag(x):
    return 7, struct.pack("<B", x)


def string(t):
    return 8, struct.pack("<Q", len(t)) + t.encode()


def numbers(*items):
    return 9, struct.pack("<IQ", 4, len(items)) + b"".join(struct.pack("<I", i) for i in items)


def write_small_model(path, vocabulary, keys=(), tensors=(), values=()):
    """Writes a model with a layer of 32 dimensions and `vocabulary` tokens, which are letters. `keys` are (key, kind,
    bytes of the value) and replace those of the same name, `tensors` names of additional tensors of 32 values, `values`
    are (tensor, index, value) and replace weights."""
    def text(t):
        return struct.pack("<Q", len(t)) + t.encode()

    def array(key, kind, items):
        return text(key) + struct.pack("<IIQ", 9, kind, len(items)) + b"".join(items)

    sizes = dict(embedding_length=32, feed_forward_length=64, block_count=1, context_length=96,
                 **{"attention.head_count": 2, "attention.head_count_kv": 1})
    pieces = ["<unk>", "<s>", "</s>"] + [chr(97 + i) for i in range(vocabulary - 3)]
    pairs = [text("general.architecture") + struct.pack("<I", 8) + text("llama"),
             text("tokenizer.ggml.model") + struct.pack("<I", 8) + text("llama")]
    pairs += [text("llama." + k) + struct.pack("<II", 4, v) for k, v in sizes.items()]
    pairs += [text(f"tokenizer.ggml.{k}_token_id") + struct.pack("<II", 4, v) for k, v in (("bos", 1), ("eos", 2))]
    pairs += [array("tokenizer.ggml.tokens", 8, [text(t) for t in pieces]),
              array("tokenizer.ggml.scores", 6, [struct.pack("<f", -i) for i in range(vocabulary)]),
              array("tokenizer.ggml.token_type", 5,
                    [struct.pack("<i", (2, 3, 3)[i] if i < 3 else 1) for i in range(vocabulary)])]
    added = [(text(k), struct.pack("<I", kind) + v) for k, kind, v in keys]
    pairs = [p for p in pairs if not any(p.startswith(k) for k, _ in added)] + [k + v for k, v in added]
    shapes = {"attn_norm": [32], "ffn_norm": [32], "attn_q": [32, 32], "attn_k": [32, 16], "attn_v": [32, 16],
              "attn_output": [32, 32], "ffn_gate": [32, 64], "ffn_up": [32, 64],
              "ffn_down": [64, 32]}
    shapes = {"token_embd": [32, vocabulary], "output_norm": [32], **{"blk.0." + k: v for k, v in shapes.items()}}
    shapes = {**{name + ".weight": dims for name, dims in shapes.items()}, **{name: [32] for name in tensors}}
    data, infos, random = b"", b"", 1
    for name, dims in shapes.items():
        infos += text(name) + struct.pack("<I", len(dims)) + b"".join(struct.pack("<Q", d) for d in dims)
        infos += struct.pack("<IQ", 0, len(data))
        for i in range(dims[0] * dims[-1] if len(dims) > 1 else dims[0]): # multiples of 32 bytes
            random = random * 1103515245 + 12345 & 0x7FFFFFFF
            x = (random >> 8) / (1 << 22) - 1 if len(dims) > 1 else 1
            data += struct.pack("<f", next((v for t, at, v in values if (t, at) == (name, i)), x))
    head = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(pairs)) + b"".join(pairs) + infos
    with open(path, "wb") as out:
        out.write(head + bytes(-len(head) % 32) + data)
