#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""llama.cpp loads and runs the random models of every family and tensor type, with distributions that can tell results apart.

    models.py BUILD
"""

import math
import os
import sys
import tempfile

import llama
import peer

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "llm"))
import gguf_writer  # noqa: E402
import random_model  # noqa: E402

TEXT = "The quick brown fox jumps over 12 lazy dogs; that's it."


def entropy(probs):
    return -sum(p * math.log2(p) for p in probs if p > 0)


def check(model, name):
    """Finite distributions, neither uniform nor certain, that depend on the position."""
    assert model.vocabulary == 512, name
    tokens = model.tokenize(TEXT, add_special=True)
    assert b"".join(map(model.piece, tokens)).decode().strip().endswith(TEXT), f"{name}: the tokens are not the text"
    rows = model.logits(tokens)
    assert all(math.isfinite(x) for row in rows for x in row), f"{name}: logits that are not finite"
    bits = sum(entropy(llama.probabilities(row)) for row in rows) / len(rows)
    assert 1 < bits < 8.5, f"{name}: {bits:.2f} bits per token, of 9"
    best = {max(range(512), key=row.__getitem__) for row in rows}
    assert len(best) > len(rows) // 4, f"{name}: {len(best)} predictions at {len(rows)} positions"
    return bits


def main():
    try:
        peers = llama.Llama(sys.argv[1])
    except peer.Unavailable as reason:
        peer.skip(reason)
    cases = [(family, "F32") for family in random_model.FAMILIES] + [(family, "mixed") for family in random_model.FAMILIES]
    cases += [("llama", kind) for kind in gguf_writer.TYPES if kind != "F32"]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.gguf")
        for family, kind in cases:
            random_model.write(family, path, kind, layers=None if family == "gemma3n" or kind == "F32" else 2)
            with peers.open(path) as model:
                print(f"{family} {kind}: {check(model, f'{family} {kind}'):.2f} bits per token")
    print(f"{len(cases)} models")


if __name__ == "__main__":
    main()
