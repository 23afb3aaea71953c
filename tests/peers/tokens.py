#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tokenizers against llama.cpp: random and hostile texts have the same tokens, for SentencePiece vocabularies and for
every pre-tokenizer of byte-level BPE.

    tokens.py BUILD TOKENIZE ROOT [--count N]

N texts for each list of rules, a tenth for each further name of it. llama.cpp ends the process at some bytes that are
not UTF-8, so the texts are valid. In every third one the special tokens are parsed.
"""

import argparse
import os
import re
import struct
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import llama  # noqa: E402
import peer  # noqa: E402
import vocabularies  # noqa: E402

SPECIAL = 4
UNKNOWN_TO_PEER = ("gpt2",)  # another spelling of gpt-2


def encode(records):
    return b"".join(struct.pack("<II", flags, len(data)) + data for flags, data in records)


def decode(data):
    out, at = [], 0
    while at < len(data):
        count, = struct.unpack_from("<I", data, at)
        out.append(struct.unpack_from(f"<{count}i", data, at + 4))
        at += 4 + 4 * count
    return out


def our_tokens(program, path, texts):
    records = encode((SPECIAL * special, text.encode()) for text, special in texts)
    done = subprocess.run([program, path], input=records, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if done.returncode != 0:
        message = done.stderr.decode(errors="replace")[-800:]
        raise RuntimeError("%s: status %d\n%s" % (program, done.returncode, message))
    return decode(done.stdout)


def cases(root, folder, count):
    """(name, file, number of texts)"""
    with open(os.path.join(root, "src/import/pre.def"), encoding="utf-8") as f:
        names = re.findall(r'TV_PRE_NAME\("([^"]+)", (\w+)', f.read())
    with open(os.path.join(root, "data/tinyshakespeare.txt"), encoding="utf-8") as f:
        words = [" " + w for w in sorted(set(re.findall(r"[A-Za-z']+", f.read(200000))))[:1500]]
    pieces = vocabularies.sentencepiece_vocabulary(3, words)
    for prefix, name in ((True, "llama"), (False, "gemma"), (True, "Phi-3 mini")):
        path = os.path.join(folder, name.replace(" ", "") + ".gguf")
        vocabularies.write_sentencepiece(path, pieces, prefix, name)
        yield name, path, count
    tokens, seen = vocabularies.bpe_vocabulary(1, words), set()
    for name, rules in names:
        if name not in UNKNOWN_TO_PEER:
            path = os.path.join(folder, name + ".gguf")
            vocabularies.write_bpe(path, name, tokens)
            yield name, path, count if rules not in seen else count // 10
            seen.add(rules)


def compare(program, library, name, path, texts):
    """The number of texts with other tokens; prints the first ones."""
    ours = our_tokens(program, path, texts)
    if len(ours) != len(texts):
        raise RuntimeError("tokens of %d texts, of %d" % (len(ours), len(texts)))
    failed = 0
    with library.open(path, vocabulary_only=True) as model:
        for (text, special), our in zip(texts, ours):
            their = model.tokenize(text, parse_special=special)
            if list(our) != their:
                failed += 1
                if failed <= 3:
                    print("FAIL %s: %r: %s, llama.cpp has %s" % (name, text[:80], our[:20], their[:20]))
    return failed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("tokenize")
    parser.add_argument("root")
    parser.add_argument("--count", type=int, default=200)
    options = parser.parse_args()
    try:
        library = llama.Llama(options.build)
    except peer.Unavailable as reason:
        peer.skip(reason)
    texts = [(text, i % 3 == 1) for i, text in enumerate(vocabularies.random_texts(7, options.count))]
    failed = total = 0
    with tempfile.TemporaryDirectory(prefix="trivet-tokens-") as folder:
        for name, path, count in cases(options.root, folder, options.count):
            try:
                failed += compare(options.tokenize, library, name, path, texts[:count])
            except (RuntimeError, llama.Rejected) as error:
                print("FAIL %s: %s" % (name, error))
                failed += 1
            total += len(texts[:count])
            os.remove(path)
    print("%d texts, %d with other tokens" % (total, failed))
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
