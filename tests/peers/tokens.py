#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tokenizers against llama.cpp: random and hostile texts have the same tokens, for SentencePiece vocabularies and for
every pre-tokenizer of byte-level BPE.

usage: tokens.py TOKENIZE ROOT [--count N] [--peers FOLDER]

N texts for each list of rules, a tenth for each further name of it. FOLDER, or the environment's TRIVET_PEERS, has
node_modules/node-llama-cpp, made by `npm install --ignore-scripts`; without it the test is skipped."""
import argparse
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

import vocabularies

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


def run(command, data=b""):
    done = subprocess.run(command, input=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if done.returncode != 0:
        sys.exit("%s: status %d\n%s" % (command[0], done.returncode, done.stderr.decode(errors="replace")[-800:]))
    return done.stdout


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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tokenize")
    parser.add_argument("root")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--peers", default=os.environ.get("TRIVET_PEERS", ""))
    options = parser.parse_args()
    node = shutil.which("node")
    if not node or not os.path.isdir(os.path.join(options.peers, "node_modules", "node-llama-cpp")):
        print("skipped: no node-llama-cpp; --peers names a folder that has it")
        sys.exit(77)
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tokenize.mjs")
    failed = total = 0
    with tempfile.TemporaryDirectory(prefix="trivet-tokens-") as folder:
        models, files = list(cases(options.root, folder, options.count)), []
        for _, path, count in models:
            with open(path + ".texts", "wb") as f:
                f.write(encode((SPECIAL * (i % 3 == 1), text.encode())
                               for i, text in enumerate(vocabularies.random_texts(7, count))))
            files += [path, path + ".texts", path + ".tokens"]
        run([node, script, options.peers, *files])
        for name, path, count in models:
            texts = vocabularies.random_texts(7, count)
            with open(path + ".texts", "rb") as f:
                ours = decode(run([options.tokenize, path], f.read()))
            with open(path + ".tokens", "rb") as f:
                peers = decode(f.read())
            wrong = [i for i, pair in enumerate(zip(ours, peers)) if pair[0] != pair[1]]
            failed += len(wrong) + (len(ours) != len(texts) or len(peers) != len(texts))
            total += len(texts)
            for i in wrong[:3]:
                print("FAIL %s: %r: %s, llama.cpp has %s" % (name, texts[i][:80], ours[i][:20], peers[i][:20]))
    print("%d texts, %d with other tokens" % (total, failed))
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
