# SPDX-License-Identifier: Apache-2.0
"""Small vocabularies of both kinds of tokenizers: pieces with scores (SentencePiece) and bytes with merges.

The merges are learned from a short text that has what tells pre-tokenizers apart: contractions in both cases, runs of digits, spaces,
line ends and punctuation, letters of several scripts with and without marks.
"""

import collections
import re

TEXT = """The quick brown fox jumps over the lazy dog, and the dog doesn't mind. I'll say it's what they're after; we've seen that
they'd go there, won't they? HE'S SURE THAT IT'LL BE THERE, THEY'RE NOT. Once upon a time there was a machine that read words.
In 2024 there were 1234 words, 12345 tokens, 100 000 bytes and 3.14159 of something: 00, 007, 999999. for (int i = 0; i < 100; i++) {
    sum += values[i] * weights[i];
        return sum;
}\n\n\nThe end...\r\n\r\nSome    spaces  here,\ttabs\t\tthere. !!! ??? --- === ((())) "quoted" 'single' #tag @name a_b c-d e/f
über Äpfel naïve café œuvre façade mañana São Paulo. Привет, мир! Это пример. こんにちは世界。 日本語のテキスト 中文文本，这是一个例子。
안녕하세요 세계 مرحبا بالعالم नमस्ते दुनिया שלום עולם Γειά σου Κόσμε. 😀 👍🏽 👨‍👩‍👧 🇩🇪 ½ ² Ⅷ ٣٤ e\u0301a\u0308 """ * 2


def byte_characters():
    """The character that stands for each byte in byte vocabularies: itself if it is visible, otherwise one from U+0100."""
    visible = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    result, extra = {}, 0
    for byte in range(256):
        if byte in visible:
            result[byte] = chr(byte)
        else:
            result[byte] = chr(0x100 + extra)
            extra += 1
    return result


def learn_merges(words, count):
    """[(left, right)] of the most frequent neighbours, as byte pair encoding does."""
    pieces = collections.Counter(tuple(word) for word in words)
    merges = []
    while len(merges) < count:
        pairs = collections.Counter()
        for word, times in pieces.items():
            for pair in zip(word, word[1:]):
                pairs[pair] += times
        if not pairs:
            break
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        merges.append(best)
        merged = collections.Counter()
        for word, times in pieces.items():
            out, i = [], 0
            while i < len(word):
                joined = i + 1 < len(word) and (word[i], word[i + 1]) == best
                out.append(word[i] + word[i + 1] if joined else word[i])
                i += 2 if joined else 1
            merged[tuple(out)] += times
        pieces = merged
    return merges


NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)

# pre-tokenizer: (token that starts a text or None, token that ends it, other control tokens)
BYTE_SPECIALS = {
    "gpt-2": (None, "<|endoftext|>", []),
    "llama-bpe": ("<|begin_of_text|>", "<|eot_id|>", ["<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>"]),
    "qwen2": (None, "<|im_end|>", ["<|endoftext|>", "<|im_start|>"]),
    "smollm": (None, "<|im_end|>", ["<|endoftext|>", "<|im_start|>"]),
}


def byte_vocabulary(size, pre):
    """Metadata of a byte vocabulary of `size` tokens for the pre-tokenizer `pre`."""
    characters = byte_characters()
    start, end, others = BYTE_SPECIALS.get(pre, BYTE_SPECIALS["gpt-2"])
    control = [token for token in (start, end, *others) if token]
    user = ["<think>", "</think>"]
    # Wider than any pre-tokenizer's words, so that merges exist which some of them must not apply.
    words = re.findall(r"\s*[^\s]+|\s+", TEXT)
    words = ["".join(characters[byte] for byte in word.encode()) for word in words]
    merges = learn_merges(words, size - 256 - len(control) - len(user))
    tokens = [characters[byte] for byte in range(256)] + ["".join(pair) for pair in merges]
    tokens = list(dict.fromkeys(tokens))  # two merges may give the same token
    types = [NORMAL] * len(tokens) + [CONTROL] * len(control) + [USER_DEFINED] * len(user)
    tokens += control + user
    while len(tokens) < size:
        types.append(UNUSED)
        tokens.append(f"[UNUSED{len(tokens)}]")
    metadata = {"model": "gpt2", "pre": pre, "tokens": tokens, "token_type": types, "merges": [" ".join(pair) for pair in merges],
                "eos_token_id": tokens.index(end), "padding_token_id": tokens.index(end), "add_bos_token": start is not None}
    metadata["bos_token_id"] = tokens.index(start or end)
    return metadata


# files: (special tokens, user-defined tokens, token that starts a text, token that ends it)
PIECE_SPECIALS = {
    "llama": (["<unk>", "<s>", "</s>"], [], "<s>", "</s>"),
    "gemma": (["<pad>", "<eos>", "<bos>", "<unk>"], ["<start_of_turn>", "<end_of_turn>", "\n\n"], "<bos>", "<eos>"),
    "phi3": (["<unk>", "<s>", "</s>", "<|endoftext|>", "<|user|>", "<|assistant|>", "<|end|>"], [], "<s>", "<|endoftext|>"),
}


def piece_vocabulary(size, files):
    """Metadata of a SentencePiece vocabulary of `size` tokens, with the special tokens of `files` (PIECE_SPECIALS)."""
    special, user, start, end = PIECE_SPECIALS[files]
    tokens = special + user + [f"<0x{byte:02X}>" for byte in range(256)]
    types = [UNKNOWN if token == "<unk>" else CONTROL for token in special] + [USER_DEFINED] * len(user) + [BYTE] * 256
    scores = [0.0] * len(tokens)
    words = re.findall("▁*[^▁\n]+|▁+", TEXT.replace(" ", "▁"))
    characters = [c for c, _ in collections.Counter(c for word in words for c in word).most_common() if c not in "\r\t"]
    room = size - len(tokens)
    merges = learn_merges(words, room)
    # Half of the room for pieces of several characters, the rest for the most frequent characters.
    pieces = list(dict.fromkeys("".join(pair) for pair in merges))[:room - min(len(characters), room // 2)]
    pieces += characters[:room - len(pieces)]
    for rank, piece in enumerate(pieces):
        tokens.append(piece)
        types.append(NORMAL)
        scores.append(-float(rank))
    while len(tokens) < size:
        tokens.append(f"<unused{len(tokens)}>")
        types.append(UNUSED)
        scores.append(-1e6)
    metadata = {"model": "llama", "pre": "default", "tokens": tokens, "scores": scores, "token_type": types,
                "bos_token_id": tokens.index(start), "eos_token_id": tokens.index(end),
                "unknown_token_id": tokens.index("<unk>"), "add_bos_token": True, "add_eos_token": False}
    if files == "gemma":
        metadata["padding_token_id"] = 0
        metadata["add_space_prefix"] = False
    return metadata
