#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a small random model of a family as a GGUF file, with the metadata and tensors of published files.

    random_model.py FAMILY OUT.gguf [--type TYPE] [--seed N] [--layers N] [--vocabulary N] [--pre NAME] [--conditioned]
    random_model.py OUT.gguf --shape 7B [--type TYPE] [--seed N]
    random_model.py --list

SHAPES below are the dimensions of published llama models: --shape writes a model of that size, whose weights are random blocks.
TYPE is a tensor type, F32 by default, or `mixed`: the matrices take each type in turn. Vectors and the tables that files keep in F32
stay in F32, as do matrices whose rows are not whole blocks. NAME is the pre-tokenizer of a byte vocabulary. The same arguments give the
same file. From Python: write(family, path, kind="F32", seed=1, layers=None, vocabulary=512, pre=None, conditioned=False).

Weights are scaled so that activations keep their size and that one token in some has most of the probability. llama.cpp fixes some
dimensions of gemma3n: 4 AltUp inputs, LAuReL rank 64, per-layer embeddings of 256, layers from 20 on share keys and values, the first 10
have sparse activations; so that family has 25 layers here. Of `mistral` files it ignores the sliding window, which is wider here than
the positions that the tests compare.

These models magnify errors from layer to layer, which is good for finding mistakes, but says little about quantization. `conditioned`
ones are as training begins: embeddings of unit size, and each layer adds little to them, because the matrices that end its two branches are
divided by the root of the number of branches. Scores of attention are of unit size.
"""

import argparse
import itertools
import math
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import gguf_writer  # noqa: E402
import vocabularies  # noqa: E402

CONTEXT = 256
ATTENTION_GAIN = 1.6  # of queries and keys: scores far from uniform
LOGIT_SCALE = 3.0     # standard deviation of logits


class Model:
    """A model under construction: dimensions, metadata and tensors by their names in files."""

    def __init__(self, arch, options, **dims):
        self.arch, self.w = arch, gguf_writer.Writer(options["seed"])
        self.d = {"embedding": 256, "heads": 4, "kv_heads": 2, "head": 64, "ff": 512, "layers": 3, "vocabulary": options["vocabulary"]} | dims
        if options["layers"]:
            self.d["layers"] = options["layers"]
        kinds = list(gguf_writer.TYPES) if options["kind"] == "mixed" else [options["kind"]]
        self.kinds = itertools.cycle(kinds)
        self.tied, self.conditioned = False, options["conditioned"]
        self.key("", None)

    def key(self, name, value):
        """ARCH.NAME; the general keys come first."""
        if not name:
            self.w.meta("general.architecture", self.arch)
            self.w.meta("general.type", "model")
            self.w.meta("general.name", "random")
            self.w.meta("general.quantization_version", 2)
            for key, dim in (("block_count", "layers"), ("embedding_length", "embedding"), ("feed_forward_length", "ff"),
                             ("attention.head_count", "heads")):
                self.w.meta(f"{self.arch}.{key}", self.d[dim])
            self.w.meta(f"{self.arch}.context_length", CONTEXT)
        else:
            self.w.meta(f"{self.arch}.{name}", value)

    def keys(self, **values):
        """Several keys, with `__` for the dot."""
        for name, value in values.items():
            self.key(name.replace("__", "."), value)

    def matrix(self, name, columns, *rows, gain=1.0):
        """[…rows][columns]: products keep the size of their input, times `gain`."""
        kind = next(self.kinds)
        kind = kind if columns % gguf_writer.TYPES[kind][1] == 0 else "F32"
        self.w.weights(name + ".weight", (columns, *rows), kind, gain / math.sqrt(columns))

    def branch(self, name, columns):
        """A matrix that ends a branch whose result is added to the residual."""
        self.matrix(name, columns, self.d["embedding"], gain=self.branch_gain())

    def branch_gain(self):
        return 1 / math.sqrt(2 * self.d["layers"]) if self.conditioned else 1.0

    def attention_gain(self):
        return 1.0 if self.conditioned else ATTENTION_GAIN

    def table(self, name, columns, *rows, gain=1.0):
        """A matrix that stays in F32."""
        self.w.weights(name + ".weight", (columns, *rows), "F32", gain / math.sqrt(columns))

    def norm(self, name, count=None, mean=1.0):
        self.w.vector(name + ".weight", count or self.d["embedding"], mean, 0.2)

    def bias(self, name, count, scale=0.1):
        self.w.vector(name + ".bias", count, 0.0, scale)

    def embeddings(self, tied=False, gain=LOGIT_SCALE):
        self.tied = tied
        if self.conditioned and gain == LOGIT_SCALE:  # otherwise the family scales them itself
            gain = math.sqrt(self.d["embedding"])
        self.matrix("token_embd", self.d["embedding"], self.d["vocabulary"], gain=gain)

    def output(self, norm=1.0):
        if self.conditioned and self.tied and norm == 1.0:
            norm = LOGIT_SCALE / math.sqrt(self.d["embedding"])
        self.w.vector("output_norm.weight", self.d["embedding"], norm, 0.2 * norm if self.conditioned else 0.2)
        if not self.tied:
            self.matrix("output", self.d["embedding"], self.d["vocabulary"], gain=LOGIT_SCALE)

    def attention(self, layer, bias=False, head_norms=0.0):
        d = self.d
        for part, heads in (("q", d["heads"]), ("k", d["kv_heads"]), ("v", d["kv_heads"])):
            self.matrix(f"{layer}attn_{part}", d["embedding"], heads * d["head"], gain=1.0 if part == "v" else self.attention_gain())
            if bias:
                self.bias(f"{layer}attn_{part}", heads * d["head"], 0.5)
        if head_norms:
            self.norm(f"{layer}attn_q_norm", d["head"], mean=head_norms)
            self.norm(f"{layer}attn_k_norm", d["head"], mean=head_norms)
        self.branch(f"{layer}attn_output", d["heads"] * d["head"])

    def feed_forward(self, layer):
        d = self.d
        self.matrix(f"{layer}ffn_gate", d["embedding"], d["ff"], gain=1.4)
        self.matrix(f"{layer}ffn_up", d["embedding"], d["ff"], gain=1.4)
        self.branch(f"{layer}ffn_down", d["ff"])

    def experts(self, layer, count, ff):
        d = self.d
        self.table(f"{layer}ffn_gate_inp", d["embedding"], count, gain=2.0)
        self.matrix(f"{layer}ffn_gate_exps", d["embedding"], ff, count, gain=1.4)
        self.matrix(f"{layer}ffn_up_exps", d["embedding"], ff, count, gain=1.4)
        self.matrix(f"{layer}ffn_down_exps", ff, d["embedding"], count, gain=self.branch_gain())

    def layers(self):
        return [f"blk.{i}." for i in range(self.d["layers"])]

    def tokenizer(self, metadata):
        for key, value in metadata.items():
            self.w.meta(f"tokenizer.ggml.{key}", value)


def llama_like(m, tied=False, head_norms=False, bias=False, experts=0, expert_ff=None):
    """Two norms a layer, SwiGLU."""
    d = m.d
    m.keys(attention__head_count_kv=d["kv_heads"], attention__layer_norm_rms_epsilon=1e-5)
    m.embeddings(tied)
    for layer in m.layers():
        m.norm(f"{layer}attn_norm")
        m.attention(layer, bias, head_norms)
        m.norm(f"{layer}ffn_norm")
        if experts:
            m.experts(layer, experts, expert_ff or d["ff"])
        else:
            m.feed_forward(layer)
    m.output()
    return m


def llama(options, **extra):
    m = Model("llama", options)
    m.keys(vocab_size=m.d["vocabulary"], rope__dimension_count=m.d["head"], rope__freq_base=10000.0)
    m.keys(**extra)
    m.tokenizer(vocabularies.piece_vocabulary(m.d["vocabulary"], "llama"))
    return llama_like(m)


def llama3(options):
    m = Model("llama", options)
    m.keys(vocab_size=m.d["vocabulary"], rope__dimension_count=m.d["head"], rope__freq_base=500000.0)
    m.tokenizer(vocabularies.byte_vocabulary(m.d["vocabulary"], options["pre"] or "llama-bpe"))
    half = m.d["head"] // 2
    m.w.numbers("rope_freqs.weight", [1.0 if i < half // 2 else min(8.0, 1 + (i - half // 2) * 7 / 8) for i in range(half)])
    return llama_like(m, tied=True)


def mixtral(options):
    m = Model("llama", options, layers=2)
    m.keys(vocab_size=m.d["vocabulary"], rope__dimension_count=m.d["head"], rope__freq_base=1000000.0, expert_count=4, expert_used_count=2)
    m.tokenizer(vocabularies.piece_vocabulary(m.d["vocabulary"], "llama"))
    return llama_like(m, experts=4)


def qwen2(options):
    m = Model("qwen2", options)
    m.keys(rope__freq_base=1000000.0)
    m.tokenizer(vocabularies.byte_vocabulary(m.d["vocabulary"], options["pre"] or "qwen2"))
    return llama_like(m, bias=True)


def qwen3(options, **extra):
    m = Model("qwen3", options, head=128)
    m.keys(rope__freq_base=1000000.0, attention__key_length=128, attention__value_length=128, **extra)
    m.tokenizer(vocabularies.byte_vocabulary(m.d["vocabulary"], options["pre"] or "qwen2"))
    return llama_like(m, tied=True, head_norms=1.0)


def qwen3moe(options):
    m = Model("qwen3moe", options, head=128, layers=2)
    m.keys(rope__freq_base=1000000.0, attention__key_length=128, attention__value_length=128, expert_count=8, expert_used_count=3,
           expert_feed_forward_length=256)
    m.tokenizer(vocabularies.byte_vocabulary(m.d["vocabulary"], options["pre"] or "qwen2"))
    return llama_like(m, head_norms=1.0, experts=8, expert_ff=256)


def gemma(arch, options, layers, head_norms, **extra):
    """Four norms a layer, GeGLU, embeddings scaled and tied, local and global layers."""
    m = Model(arch, options, layers=layers, head=128)
    m.keys(attention__head_count_kv=m.d["kv_heads"], attention__layer_norm_rms_epsilon=1e-6, attention__key_length=m.d["head"],
           attention__value_length=m.d["head"], attention__sliding_window=16, **extra)
    m.tokenizer(vocabularies.piece_vocabulary(m.d["vocabulary"], "gemma"))
    m.embeddings(tied=True, gain=1.0)  # they are scaled: the layers must outweigh them, or each token predicts itself
    for layer in m.layers():
        m.norm(f"{layer}attn_norm")
        m.attention(layer, head_norms=head_norms)
        m.norm(f"{layer}post_attention_norm", mean=m.branch_gain() if m.conditioned else 2.0)
        m.norm(f"{layer}ffn_norm")
        m.feed_forward(layer)
        m.norm(f"{layer}post_ffw_norm", mean=m.branch_gain() if m.conditioned else 2.0)
    m.output(norm=LOGIT_SCALE)
    return m


def gemma2(options):
    return gemma("gemma2", options, 4, False, attn_logit_softcapping=5.0, final_logit_softcapping=8.0)


def gemma3(options):
    return gemma("gemma3", options, 7, True, rope__freq_base=1000000.0)


def gemma3n(options):
    altup, rank, per_layer, shared_from = 4, 64, 256, 20
    m = Model("gemma3n", options, layers=25, ff=256)
    d = m.d
    e, n = d["embedding"], d["layers"]
    local = [i % 5 != 4 for i in range(n)]
    m.keys(attention__head_count_kv=d["kv_heads"], attention__layer_norm_rms_epsilon=1e-6, attention__key_length=d["head"],
           attention__value_length=d["head"], attention__sliding_window=16, rope__freq_base=1000000.0, altup__active_idx=0,
           altup__num_inputs=altup, embedding_length_per_layer_input=per_layer, attention__shared_kv_layers=n - shared_from,
           activation_sparsity_scale=[1.6448534 if i < 10 else float("-inf") for i in range(n)], attention__sliding_window_pattern=local,
           final_logit_softcapping=30.0)
    m.tokenizer(vocabularies.piece_vocabulary(d["vocabulary"], "gemma"))
    m.embeddings(tied=True)
    m.matrix("altup_proj", e, e, altup - 1)
    m.matrix("altup_unembd_proj", e, e, altup - 1)
    m.matrix("per_layer_token_embd", per_layer * n, d["vocabulary"], gain=math.sqrt(n))
    m.matrix("per_layer_model_proj", e, per_layer * n)
    m.norm("per_layer_proj_norm", per_layer)
    branch = m.branch_gain() if m.conditioned else 0.5
    for layer in m.layers():
        m.norm(f"{layer}attn_norm")
        m.attention(layer, head_norms=0.2)  # scores are not divided by the root of the size: larger ones make the model chaotic
        m.norm(f"{layer}post_attention_norm", mean=branch)
        m.norm(f"{layer}ffn_norm")
        m.feed_forward(layer)
        m.norm(f"{layer}post_ffw_norm", mean=branch)
        m.matrix(f"{layer}inp_gate", e, per_layer)
        m.matrix(f"{layer}proj", per_layer, e)
        m.norm(f"{layer}post_norm", mean=branch)
        m.table(f"{layer}altup_correct_coef", altup, altup, gain=0.25)
        m.norm(f"{layer}altup_correct_scale")
        m.table(f"{layer}altup_predict_coef", altup, altup * altup, gain=0.15)
        m.table(f"{layer}altup_router", e, altup, gain=e)  # the router's input is divided by e
        m.norm(f"{layer}altup_router_norm")
        m.matrix(f"{layer}laurel_l", e, rank)
        m.matrix(f"{layer}laurel_r", rank, e)
        m.norm(f"{layer}laurel_post_norm", mean=branch)
    m.output()
    return m


def phi3(options, original=CONTEXT, tables=False):
    m = Model("phi3", options, kv_heads=2)
    d = m.d
    m.keys(attention__head_count_kv=d["kv_heads"], attention__layer_norm_rms_epsilon=1e-5, rope__dimension_count=d["head"],
           rope__freq_base=10000.0, rope__scaling__original_context_length=original, attention__sliding_window=0)
    if tables:
        m.key("rope.scaling.attn_factor", 1.19)
        for name, step in (("long", 0.25), ("short", 0.03)):
            m.w.numbers(f"rope_factors_{name}.weight", [1 + step * i for i in range(d["head"] // 2)])
    m.tokenizer(vocabularies.piece_vocabulary(d["vocabulary"], "phi3"))
    m.embeddings()
    for layer in m.layers():
        m.norm(f"{layer}attn_norm")
        m.matrix(f"{layer}attn_qkv", d["embedding"], (d["heads"] + 2 * d["kv_heads"]) * d["head"], gain=1.0 if m.conditioned else 1.4)
        m.branch(f"{layer}attn_output", d["heads"] * d["head"])
        m.norm(f"{layer}ffn_norm")
        m.matrix(f"{layer}ffn_up", d["embedding"], 2 * d["ff"], gain=1.4)
        m.branch(f"{layer}ffn_down", d["ff"])
    m.output()
    return m


def gpt2(options):
    m = Model("gpt2", options, kv_heads=4)
    e, ff = m.d["embedding"], m.d["ff"]
    m.keys(attention__layer_norm_epsilon=1e-5)
    m.tokenizer(vocabularies.byte_vocabulary(m.d["vocabulary"], options["pre"] or "gpt-2"))
    m.embeddings(tied=True)
    m.table("position_embd", e, CONTEXT, gain=6.0)
    for layer in m.layers():
        for name, columns, rows, gain in (("attn_norm", e, None, 0), ("attn_qkv", e, 3 * e, 1.4), ("attn_output", e, e, m.branch_gain()),
                                          ("ffn_norm", e, None, 0), ("ffn_up", e, ff, 1.4), ("ffn_down", ff, e, m.branch_gain())):
            if rows:
                m.matrix(layer + name, columns, rows, gain=gain)
            else:
                m.norm(layer + name)
            m.bias(layer + name, rows or columns)
    m.output()
    m.bias("output_norm", e)
    return m


FAMILIES = {
    "llama": llama,
    "llama-linear": lambda options: llama(options, rope__scaling__type="linear", rope__scaling__factor=4.0),
    "llama-unscaled": lambda options: llama(options, rope__scaling__type="none"),
    "llama3": llama3,
    "mistral": lambda options: llama(options, attention__sliding_window=CONTEXT),
    "qwen2": qwen2,
    "qwen3": qwen3,
    "qwen3-yarn": lambda options: qwen3(options, rope__scaling__type="yarn", rope__scaling__factor=4.0, rope__scaling__original_context_length=64),
    "gemma2": gemma2,
    "gemma3": gemma3,
    "gemma3n": gemma3n,
    "phi3": phi3,
    "phi3-short": lambda options: phi3(options, tables=True),
    "phi3-long": lambda options: phi3(options, original=64, tables=True),
    "gpt2": gpt2,
    "mixtral": mixtral,
    "qwen3moe": qwen3moe,
}


# Dimensions of llama models, as published but for the smallest one.
SHAPES = {
    "36M": dict(embedding=512, ff=1408, layers=8, heads=8, kv_heads=8, head=64, vocabulary=8192, context=4096),
    "1.1B": dict(embedding=2048, ff=5632, layers=22, heads=32, kv_heads=4, head=64, vocabulary=32000, context=2048),
    "3B": dict(embedding=3200, ff=8640, layers=26, heads=32, kv_heads=32, head=100, vocabulary=32000, context=2048),
    "7B": dict(embedding=4096, ff=11008, layers=32, heads=32, kv_heads=32, head=128, vocabulary=32000, context=4096),
}


def write_shape(shape, path, kind="Q4_0", seed=1):
    m = Model("llama", {"kind": kind, "seed": seed, "layers": None, "vocabulary": SHAPES[shape]["vocabulary"], "conditioned": False}, **SHAPES[shape])
    m.keys(vocab_size=m.d["vocabulary"], context_length=m.d["context"], rope__dimension_count=m.d["head"], rope__freq_base=10000.0)
    m.tokenizer(vocabularies.piece_vocabulary(m.d["vocabulary"], "llama"))
    llama_like(m).w.save(path)


def write(family, path, kind="F32", seed=1, layers=None, vocabulary=512, pre=None, conditioned=False):
    options = {"kind": kind, "seed": seed, "layers": layers, "vocabulary": vocabulary, "pre": pre, "conditioned": conditioned}
    FAMILIES[family](options).w.save(path)


def main():
    parser = argparse.ArgumentParser(description="Writes a small random model as a GGUF file.")
    parser.add_argument("family", nargs="?", help="a family of --list, except with --shape")
    parser.add_argument("out", nargs="?")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--shape", choices=SHAPES)
    parser.add_argument("--type", choices=[*gguf_writer.TYPES, "mixed"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--layers", type=int)
    parser.add_argument("--vocabulary", type=int, default=512)
    parser.add_argument("--pre")
    parser.add_argument("--conditioned", action="store_true")
    options = parser.parse_args()
    if options.list:
        print("\n".join(FAMILIES))
    elif options.shape and options.family and not options.out:
        write_shape(options.shape, options.family, options.type or "Q4_0", options.seed)
    elif options.family in FAMILIES and options.out and not options.shape:
        write(options.family, options.out, options.type or "F32", options.seed, options.layers, options.vocabulary, options.pre,
              options.conditioned)
    else:
        parser.error("FAMILY of --list and OUT.gguf, or OUT.gguf and --shape are needed")


if __name__ == "__main__":
    main()
