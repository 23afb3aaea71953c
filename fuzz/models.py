# SPDX-License-Identifier: Apache-2.0
"""Seeds for fuzz_gguf.c: the header of a small model of every family, and every published config.json that the tests know.

The models are those of tests/llm/random_model.py with smaller dimensions and a vocabulary of a few tokens. Only the header is kept, because
fuzz_gguf.c appends zeros to a file whose tensors are past its end; the tensors have several types."""
import json
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests", "llm"))
import configs  # noqa: E402
import gguf_writer  # noqa: E402
import random_model  # noqa: E402

TOKENS = ["<unk>", "<s>", "</s>", "<0x0A>", "a", "b", "ab", "c"]
LAYERS = 2
ZEROS = 1 << 21  # as in fuzz_gguf.c


class HeaderWriter(gguf_writer.Writer):
    """Records tensors without contents."""

    def weights(self, name, dimensions, kind, scale):
        number, block, make = gguf_writer.TYPES[kind]
        size = len(make(self.rng, scale))
        for d in dimensions:
            size *= d
        self.tensors.append((name, dimensions, number, size // block))

    def numbers(self, name, values):
        self.tensors.append((name, (len(values),), 0, 4 * len(values)))

    def header(self):
        metas = [(gguf_writer.encode_string(key), gguf_writer.encode_value(value)) for key, value in self.metadata.items()]
        out = struct.pack("<4sIQQ", b"GGUF", 3, len(self.tensors), len(metas))
        out += b"".join(key + struct.pack("<I", kind) + data for key, (kind, data) in metas)
        offset = 0
        for name, dimensions, number, size in self.tensors:
            out += gguf_writer.encode_string(name) + struct.pack("<I%dQIQ" % len(dimensions), len(dimensions), *dimensions, number, offset)
            offset += -(-size // gguf_writer.ALIGNMENT) * gguf_writer.ALIGNMENT
        assert offset < ZEROS
        return out + bytes(-len(out) % gguf_writer.ALIGNMENT)


class SmallModel(random_model.Model):
    def __init__(self, arch, options, **dims):
        smaller = {"embedding": 32, "heads": 2, "kv_heads": min(2, dims.get("kv_heads", 1)), "head": dims.get("head", 16), "ff": 32,
                   "layers": LAYERS, "vocabulary": len(TOKENS)}
        super().__init__(arch, options, **(dims | smaller))

    def key(self, name, value):
        if not name:
            self.w = HeaderWriter(1)
        super().key(name, 1 if name == "attention.shared_kv_layers" else value)

    def tokenizer(self, metadata):
        super().tokenizer(metadata | {"tokens": TOKENS, "bos_token_id": 1, "eos_token_id": 2})


class SmallVocabularies:
    """In the place of the module `vocabularies`."""

    @staticmethod
    def byte_vocabulary(_, pre):
        return {"model": "gpt2", "pre": pre, "merges": ["a b"]}

    @staticmethod
    def piece_vocabulary(_, files):
        return {"model": "llama", "pre": "default", "scores": [float(-i) for i in range(len(TOKENS))], "token_type": [2, 3, 3, 6, 1, 1, 1, 1]}


def seeds():
    options = {"seed": 1, "layers": None, "vocabulary": len(TOKENS), "pre": None, "conditioned": False}
    random_model.Model, random_model.vocabularies = SmallModel, SmallVocabularies
    for make in random_model.FAMILIES.values():
        for kind in ("F32", "mixed"):
            yield make(options | {"kind": kind}).w.header()
    for _, _, keys in configs.MODELS.values():
        yield json.dumps(configs.COMMON | keys).encode()
