#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures llama.cpp, as the npm package of tests/peers/package.json ships it, on the model files of the benchmarks.

    llama_cpp.py BUILD VARIANT

BUILD is a build folder, where the package is installed first (tests/peers/peer.py). VARIANT is one of ggml's sets of
kernels (`haswell`: AVX2; `icelake`: AVX-512 with VNNI; ...), or `best`: the one that ggml itself prefers on this host.
First one line of JSON: {"variant": NAME, "simd": "AVX2 AVX512 ..."}; then a line with a task on standard input is
answered with a line of JSON on standard output:

    decode MODEL THREADS TOKENS     seconds per token, of TOKENS tokens after a prompt of PROMPT
    prefill MODEL THREADS TOKENS    seconds of a prompt of TOKENS tokens, with the logits of the last

Parameters are llama.cpp's defaults: weights are repacked for the processor, keys and values are binary16. Files stay
open. Exit status 77 with "skipped: REASON" where the package cannot be installed.
"""

import ctypes
import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "peers"))

import llama  # noqa: E402
import peer  # noqa: E402

PROMPT = 5      # of the rows of decoding: "a" after BOS and the three bytes of the leading space
CONTEXT = 512
TOKEN = 100     # any


def best_variant(libraries):
    """The name of the set of kernels with the highest score of ggml for this host."""
    best = ("x64", 0)
    for name in sorted(os.listdir(libraries)):
        if not name.startswith("libggml-cpu-"):
            continue
        library = ctypes.CDLL(os.path.join(libraries, name))
        score = library.ggml_backend_score() if hasattr(library, "ggml_backend_score") else 0
        if score > best[1]:
            best = (name[len("libggml-cpu-"):-len(".so")], score)
    return best[0]


class Peer(llama.Llama):
    def __init__(self, build, variant):
        libraries = peer.install(build)
        for stem in ("libggml-base", "libggml"):
            peer.load(libraries, stem)
        self.variant = best_variant(libraries) if variant == "best" else variant
        super().__init__(build, self.variant)
        self.library.llama_print_system_info.restype = ctypes.c_char_p
        self.library.llama_synchronize.argtypes = [llama.Pointer]
        self.models = {}

    def simd(self):
        """The vector instructions that the loaded kernels use, as llama.cpp states them."""
        parts = self.library.llama_print_system_info().decode().replace("CPU :", "").split("|")
        on = [part.split("=")[0].strip() for part in parts if part.strip().endswith("= 1")]
        return " ".join(name for name in on if name.startswith(("SSE3", "AVX", "FMA", "AMX")))

    def model(self, path):
        if path not in self.models:
            params = self.library.llama_model_default_params()
            params.n_gpu_layers = 0
            handle = self.library.llama_model_load_from_file(os.fsencode(path), params)
            if not handle:
                raise llama.Rejected("".join(self.messages) or "'%s' cannot be loaded" % path)
            self.models[path] = handle
        return self.models[path]

    def decode(self, context, count, start, logits):
        """Appends `count` tokens at position `start`; with the logits of the last if `logits`."""
        sequence = (ctypes.c_int32 * 1)(0)
        positions = range(start, start + count)
        arrays = [(ctypes.c_int32 * count)(*[TOKEN] * count), None, (ctypes.c_int32 * count)(*positions),
                  (ctypes.c_int32 * count)(*[1] * count),
                  (llama.Pointer * count)(*[ctypes.addressof(sequence)] * count),
                  (ctypes.c_int8 * count)(*[0] * (count - 1) + [logits])]
        batch = llama.Batch(count, *(ctypes.cast(a, llama.Pointer) if a is not None else None for a in arrays))
        begin = time.perf_counter()
        if self.library.llama_decode(context, batch):
            raise llama.Rejected("llama_decode: " + "".join(self.messages))
        self.library.llama_synchronize(context)
        return time.perf_counter() - begin

    def run(self, kind, path, threads, tokens):
        params = self.library.llama_context_default_params()
        params.n_ctx = CONTEXT
        params.n_threads = params.n_threads_batch = threads
        context = self.library.llama_init_from_model(self.model(path), params)
        if not context:
            raise llama.Rejected("".join(self.messages) or "no context")
        try:
            self.decode(context, PROMPT, 0, 1)  # also allocates, and starts threads
            if kind == "decode":
                return sum(self.decode(context, 1, PROMPT + i, 1) for i in range(tokens)) / tokens
            memory = self.library.llama_get_memory(context)
            self.library.llama_memory_clear(memory, True)
            return self.decode(context, tokens, 0, 1)
        finally:
            self.library.llama_free(context)


def main(build, variant):
    with_peer = Peer(build, variant)
    with_peer.library.llama_get_memory.restype = llama.Pointer
    with_peer.library.llama_get_memory.argtypes = [llama.Pointer]
    with_peer.library.llama_memory_clear.argtypes = [llama.Pointer, ctypes.c_bool]
    print(json.dumps({"variant": with_peer.variant, "simd": with_peer.simd()}), flush=True)
    for line in sys.stdin:
        kind, path, threads, tokens = line.rstrip("\n").split("\t")
        print(json.dumps({"seconds": with_peer.run(kind, path, int(threads), int(tokens))}), flush=True)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:3])
    except peer.Unavailable as error:
        peer.skip(error)
    except llama.Rejected as error:
        print(error, file=sys.stderr)
        sys.exit(1)
