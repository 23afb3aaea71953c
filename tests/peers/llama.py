#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a GGUF file in llama.cpp, as the peer that Trivet's own results are compared with.

    llama.py BUILD MODEL [--tokens 1,2,3 | --text TEXT] [--probs OUT.f32] [--logits OUT.f32] [--greedy N]
                         [--tokenize STRINGS.json] [--add-special] [--parse-special] [--cpu VARIANT]

BUILD is a build folder; the npm package of package.json is installed there first (peer.py). The result is one JSON object on
standard output:

    vocabulary   number of tokens of the model
    tokens       the ids of --tokens, or of --text (with --add-special and --parse-special)
    greedy       of --greedy N: N objects {"token": id, "best": [[id, probability], [id, probability]]}; the text after `tokens`,
                 the most probable token each time. End-of-text tokens do not end it.
    text         the bytes of the greedy tokens, as UTF-8 where that is possible (others as surrogate escapes)
    tokenized    of --tokenize: one list of ids for each string of the JSON array. llama.cpp ends the process at some bytes that
                 are not UTF-8, so strings are Unicode without surrogates.

--probs and --logits write an array of binary32, [positions][vocabulary]: row i is the distribution of the token after tokens[0..i]
(every position is teacher-forced, in one batch). The weights are used as stored, not repacked; the cache is binary32; no flash
attention; one thread; the CPU variant of ggml is `x64`, which gives the same bits on every host.

Exit status: 0; 77 with "skipped: REASON" where the package cannot be installed; 1 with llama.cpp's messages on standard error where it
rejects the model. Note that ggml multiplies quantized weights with rounded activations, and takes GELU from a table of binary16.

From Python: `with Llama(BUILD) as llama, llama.open(MODEL) as model:` and the methods of `Model`.
"""

import argparse
import array
import contextlib
import ctypes
import json
import math
import os
import sys

import peer

F32 = 0                  # ggml's number of the type
FLASH_ATTENTION_OFF = 0
LOG_ERROR = 4

Pointer = ctypes.c_void_p
LogCallback = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, Pointer)


class ModelParams(ctypes.Structure):
    """llama_model_params of the version that package.json names."""
    _fields_ = [("devices", Pointer), ("tensor_buft_overrides", Pointer), ("n_gpu_layers", ctypes.c_int32), ("split_mode", ctypes.c_int),
                ("load_mode", ctypes.c_int), ("lazy_mode", ctypes.c_int), ("main_gpu", ctypes.c_int32), ("tensor_split", Pointer),
                ("progress_callback", Pointer), ("progress_callback_user_data", Pointer), ("kv_overrides", Pointer),
                ("vocab_only", ctypes.c_bool), ("check_tensors", ctypes.c_bool), ("use_extra_bufts", ctypes.c_bool),
                ("no_host", ctypes.c_bool), ("no_alloc", ctypes.c_bool), ("load_mtp", ctypes.c_bool)]


class ContextParams(ctypes.Structure):
    """llama_context_params of that version."""
    _fields_ = [(name, ctypes.c_uint32) for name in ("n_ctx", "n_batch", "n_ubatch", "n_seq_max", "n_rs_seq", "n_outputs_max",
                                                     "n_outputs_max_per_seq")] + \
               [(name, ctypes.c_int32) for name in ("n_threads", "n_threads_batch", "ctx_type", "rope_scaling_type", "pooling_type",
                                                    "attention_type", "flash_attn_type")] + \
               [(name, ctypes.c_float) for name in ("rope_freq_base", "rope_freq_scale", "yarn_ext_factor", "yarn_attn_factor",
                                                    "yarn_beta_fast", "yarn_beta_slow")] + \
               [("yarn_orig_ctx", ctypes.c_uint32), ("defrag_thold", ctypes.c_float), ("cb_eval", Pointer), ("cb_eval_user_data", Pointer),
                ("type_k", ctypes.c_int), ("type_v", ctypes.c_int), ("abort_callback", Pointer), ("abort_callback_data", Pointer)] + \
               [(name, ctypes.c_bool) for name in ("embeddings", "offload_kqv", "no_perf", "op_offload", "swa_full", "kv_unified")] + \
               [("samplers", Pointer), ("n_samplers", ctypes.c_size_t), ("ctx_other", Pointer)]


class Batch(ctypes.Structure):
    """llama_batch"""
    _fields_ = [("n_tokens", ctypes.c_int32), ("token", Pointer), ("embd", Pointer), ("pos", Pointer), ("n_seq_id", Pointer),
                ("seq_id", Pointer), ("logits", Pointer)]


# What the default parameters of that version are: other values mean that the structures have another layout.
MODEL_DEFAULTS = {"n_gpu_layers": -1, "main_gpu": 0, "kv_overrides": None, "vocab_only": False, "use_extra_bufts": True}
CONTEXT_DEFAULTS = {"n_ctx": 512, "n_batch": 2048, "n_ubatch": 512, "n_seq_max": 1, "flash_attn_type": -1, "type_k": 1, "type_v": 1,
                    "offload_kqv": True, "samplers": None, "n_samplers": 0}

SIGNATURES = {
    "llama_backend_init": (None, []),
    "llama_log_set": (None, [LogCallback, Pointer]),
    "llama_model_default_params": (ModelParams, []),
    "llama_context_default_params": (ContextParams, []),
    "llama_model_load_from_file": (Pointer, [ctypes.c_char_p, ModelParams]),
    "llama_model_free": (None, [Pointer]),
    "llama_model_get_vocab": (Pointer, [Pointer]),
    "llama_vocab_n_tokens": (ctypes.c_int32, [Pointer]),
    "llama_init_from_model": (Pointer, [Pointer, ContextParams]),
    "llama_free": (None, [Pointer]),
    "llama_decode": (ctypes.c_int32, [Pointer, Batch]),
    "llama_get_logits_ith": (ctypes.POINTER(ctypes.c_float), [Pointer, ctypes.c_int32]),
    "llama_tokenize": (ctypes.c_int32, [Pointer, ctypes.c_char_p, ctypes.c_int32, Pointer, ctypes.c_int32, ctypes.c_bool, ctypes.c_bool]),
    "llama_token_to_piece": (ctypes.c_int32, [Pointer, ctypes.c_int32, ctypes.c_char_p, ctypes.c_int32, ctypes.c_int32, ctypes.c_bool]),
}


class Rejected(Exception):
    """llama.cpp rejects a model; the text is its messages."""


def probabilities(logits):
    """Softmax in binary64, as binary32."""
    top = max(logits)
    exponentials = [math.exp(x - top) for x in logits]
    total = math.fsum(exponentials)
    return array.array("f", (e / total for e in exponentials))


class Llama:
    """The libraries of the package in the build folder `build`."""

    def __init__(self, build, cpu="x64"):
        os.environ.setdefault("GGML_NO_BACKTRACE", "1")  # a failed assertion starts no debugger
        libraries = peer.install(build)
        peer.load(libraries, "libggml-base")
        self.ggml = peer.load(libraries, "libggml")
        self.library = peer.load(libraries, "libllama")
        for name, (result, arguments) in SIGNATURES.items():
            function = getattr(self.library, name)
            function.restype, function.argtypes = result, arguments
        self.messages = []
        self.callback = LogCallback(self._log)
        self.library.llama_log_set(self.callback, None)
        self.ggml.ggml_backend_load.restype = Pointer
        backend = os.path.join(libraries, f"libggml-cpu-{cpu}.so")
        if not self.ggml.ggml_backend_load(backend.encode()):
            raise peer.Unavailable(f"ggml cannot load {backend}")
        self.library.llama_backend_init()
        for params, defaults in ((self.library.llama_model_default_params(), MODEL_DEFAULTS),
                                 (self.library.llama_context_default_params(), CONTEXT_DEFAULTS)):
            for name, value in defaults.items():
                assert getattr(params, name) == value, f"{name} is {getattr(params, name)}: the structures have changed"

    def _log(self, level, text, _data):
        if level == LOG_ERROR:
            self.messages.append(text.decode("utf-8", "replace"))

    def open(self, path, vocabulary_only=False):
        params = self.library.llama_model_default_params()
        params.n_gpu_layers = 0
        params.use_extra_bufts = False
        params.vocab_only = vocabulary_only
        self.messages.clear()
        handle = self.library.llama_model_load_from_file(os.fsencode(path), params)
        if not handle:
            raise Rejected("".join(self.messages) or f"'{path}' cannot be loaded")
        return contextlib.closing(Model(self, handle))


class Model:
    """A model that llama.cpp has loaded."""

    def __init__(self, llama, handle):
        self.llama, self.library, self.handle = llama, llama.library, handle
        self.vocab = self.library.llama_model_get_vocab(handle)
        self.vocabulary = self.library.llama_vocab_n_tokens(self.vocab)

    def close(self):
        self.library.llama_model_free(self.handle)

    def tokenize(self, text, add_special=False, parse_special=False):
        """Ids of a string."""
        data = text.encode()
        ids = (ctypes.c_int32 * (4 * len(data) + 16))()  # an inserted space may take three byte tokens
        count = self.library.llama_tokenize(self.vocab, data, len(data), ids, len(ids), add_special, parse_special)
        assert count >= 0, f"{-count} tokens from {len(data)} bytes"
        return list(ids[:count])

    def piece(self, token, special=False):
        """Bytes of a token."""
        buffer = ctypes.create_string_buffer(4096)
        count = self.library.llama_token_to_piece(self.vocab, token, buffer, len(buffer), 0, special)
        assert count >= 0
        return buffer.raw[:count]

    @contextlib.contextmanager
    def context(self, positions):
        params = self.library.llama_context_default_params()
        params.n_ctx = params.n_batch = params.n_ubatch = (positions + 255) // 256 * 256
        params.n_outputs_max_per_seq = 0  # every position
        params.n_threads = params.n_threads_batch = 1
        params.flash_attn_type = FLASH_ATTENTION_OFF
        params.type_k = params.type_v = F32
        params.swa_full = True
        params.offload_kqv = params.op_offload = False
        self.llama.messages.clear()
        context = self.library.llama_init_from_model(self.handle, params)
        if not context:
            raise Rejected("".join(self.llama.messages) or "no context")
        try:
            yield context
        finally:
            self.library.llama_free(context)

    def decode(self, context, tokens, start):
        """Appends `tokens` at position `start`; returns the logits after each."""
        n = len(tokens)
        ids = (ctypes.c_int32 * n)(*tokens)
        positions = (ctypes.c_int32 * n)(*range(start, start + n))
        counts = (ctypes.c_int32 * n)(*[1] * n)
        sequence = (ctypes.c_int32 * 1)(0)
        sequences = (Pointer * n)(*[ctypes.addressof(sequence)] * n)
        outputs = (ctypes.c_int8 * n)(*[1] * n)
        batch = Batch(n, *(ctypes.cast(p, Pointer) if p is not None else None for p in (ids, None, positions, counts, sequences, outputs)))
        status = self.library.llama_decode(context, batch)
        if status:
            raise Rejected(f"llama_decode: {status}: " + "".join(self.llama.messages))
        return [array.array("f", self.library.llama_get_logits_ith(context, i)[:self.vocabulary]) for i in range(n)]

    def logits(self, tokens):
        """[positions][vocabulary]"""
        with self.context(len(tokens)) as context:
            return self.decode(context, tokens, 0)

    def greedy(self, tokens, count):
        """[(token, [(id, probability), (id, probability)])] of `count` tokens after `tokens`."""
        result = []
        with self.context(len(tokens) + count) as context:
            last = self.decode(context, tokens, 0)[-1]
            for i in range(count):
                probs = probabilities(last)
                best = sorted(range(len(probs)), key=lambda id: (-last[id], id))[:2]
                result.append((best[0], [(id, probs[id]) for id in best]))
                if i + 1 < count:
                    last = self.decode(context, [best[0]], len(tokens) + i)[0]
        return result


def write_rows(path, rows):
    with open(path, "wb") as file:
        for row in rows:
            row.tofile(file)


def parse_arguments():
    parser = argparse.ArgumentParser(description="Runs a GGUF file in llama.cpp.")
    parser.add_argument("build")
    parser.add_argument("model")
    parser.add_argument("--tokens", type=lambda text: [int(id) for id in text.split(",")])
    parser.add_argument("--text")
    parser.add_argument("--probs")
    parser.add_argument("--logits")
    parser.add_argument("--greedy", type=int, default=0)
    parser.add_argument("--tokenize")
    parser.add_argument("--add-special", action="store_true")
    parser.add_argument("--parse-special", action="store_true")
    parser.add_argument("--cpu", default="x64")
    return parser.parse_args()


def run(model, options):
    result = {"vocabulary": model.vocabulary}
    if options.tokens or options.text is not None:
        tokens = options.tokens or model.tokenize(options.text, options.add_special, options.parse_special)
        result["tokens"] = tokens
        rows = model.logits(tokens) if options.probs or options.logits else []
        if options.logits:
            write_rows(options.logits, rows)
        if options.probs:
            write_rows(options.probs, [probabilities(row) for row in rows])
        if options.greedy:
            greedy = model.greedy(tokens, options.greedy)
            result["greedy"] = [{"token": token, "best": best} for token, best in greedy]
            result["text"] = b"".join(model.piece(token) for token, _ in greedy).decode("utf-8", "surrogateescape")
    if options.tokenize:
        with open(options.tokenize, encoding="utf-8") as file:
            result["tokenized"] = [model.tokenize(text, options.add_special, options.parse_special) for text in json.load(file)]
    return result


def main():
    options = parse_arguments()
    needs_weights = options.tokens or options.text is not None
    try:
        with Llama(options.build, options.cpu).open(options.model, not needs_weights) as model:
            print(json.dumps(run(model, options)))
    except peer.Unavailable as reason:
        peer.skip(reason)
    except Rejected as error:
        sys.exit(f"llama.cpp rejects '{options.model}': {error}")


if __name__ == "__main__":
    main()
