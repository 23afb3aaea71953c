#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every family of models gives llama.cpp's probabilities and texts.

    families.py BUILD SESSION_LOGITS [--family NAME]... [--positions N] [--greedy N]

Random models with F32 weights, since llama.cpp rounds activations where weights are quantized. At each position of a random
text, where the same tokens come before, no probability differs by more than TOLERANCE. A text of the most probable tokens is
the same, except after a position where llama.cpp's two best probabilities are within NEAR.
"""

import argparse
import array
import os
import random
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "llm"))
import llama  # noqa: E402
import peer  # noqa: E402
import random_model  # noqa: E402

TOLERANCE, NEAR = 2e-3, 0.02
CONDITIONED = ("gemma3n",)  # 25 layers at least, which magnify the difference of llama.cpp's table of GELU
FAMILIES = ("llama", "llama-linear", "llama-unscaled", "llama3", "mistral", "qwen2", "qwen3", "qwen3-yarn", "gemma2", "gemma3", "gemma3n", "phi3",
            "phi3-short", "phi3-long", "gpt2", "mixtral", "qwen3moe")


def our_logits(program, path, tokens, vocabulary):
    done = subprocess.run([program, path, "host"], input="\n".join(map(str, tokens)).encode(), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.decode("utf-8", "replace"))
    numbers = array.array("f")
    numbers.frombytes(done.stdout)
    return [numbers[i:i + vocabulary] for i in range(0, len(numbers), vocabulary)]


def compare(program, path, model, options):
    """The absmax difference of probabilities, and the first token of the greedy text that differs without reason, or None."""
    rng = random.Random(7)
    tokens = [rng.randrange(model.vocabulary) for _ in range(options.positions)]
    theirs = [llama.probabilities(row) for row in model.logits(tokens)]
    ours = [llama.probabilities(row) for row in our_logits(program, path, tokens, model.vocabulary)]
    worst = max(abs(a - b) for x, y in zip(theirs, ours) for a, b in zip(x, y))
    prompt = tokens[:8]
    greedy = model.greedy(prompt, options.greedy)
    text = prompt + [token for token, _ in greedy]
    rows = our_logits(program, path, text, model.vocabulary)
    for i, (token, ((_, first), (_, second))) in enumerate(greedy):
        row = rows[len(prompt) - 1 + i]
        best = max(range(len(row)), key=row.__getitem__)
        if best != token and first - second > NEAR * first:
            return worst, i
    return worst, None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("program")
    parser.add_argument("--family", action="append")
    parser.add_argument("--positions", type=int, default=64)
    parser.add_argument("--greedy", type=int, default=48)
    options = parser.parse_args()
    failed = 0
    try:
        library = llama.Llama(options.build)
        with tempfile.TemporaryDirectory() as folder:
            for family in options.family or FAMILIES:
                path = os.path.join(folder, "model.gguf")
                random_model.write(family, path, "F32", 1, conditioned=family in CONDITIONED)
                try:
                    with library.open(path) as model:
                        worst, at = compare(options.program, path, model, options)
                    good = worst <= TOLERANCE and at is None
                    print("%-15s %s  probabilities within %.2g%s" % (family, "ok" if good else "FAILED", worst,
                                                                     "" if at is None else ", text differs at %d" % at), flush=True)
                except (RuntimeError, llama.Rejected) as error:
                    good = False
                    print("%-15s FAILED %s" % (family, error), flush=True)
                failed += not good
    except peer.Unavailable as reason:
        peer.skip(reason)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
