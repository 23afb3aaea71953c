# SPDX-License-Identifier: Apache-2.0
"""Small GGUF files with a vocabulary and no tensors, and texts that try every rule of a tokenizer."""
import random
import struct

NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
SPACE = "\u2581"

WORDS = ("the and of to in was that his with as he for at is it on not be had by I you are this from which their said"
         " so all one we they know king queen sword night light water Hello World don't we're it's I'll they've He'd"
         " CamelCase iPhone XMLHttpRequest naïve café Straße Ελλάδα Привет мир 日本語 中文字符 한국어 สวัสดี नमस्ते"
         " مرحبا שלום 你好 ひらがな カタカナ Đặng ﬁne ǅungla ʼn ªº").split(" ")
SPECIALS = ["<s>", "</s>", "<unk>", "<|im_start|>", "<|im_end|>", "<|eot_id|>", "<|end|>", "<|endoftext|>", "[INST]", "[/INST]",
            "<|user|>", "<|im_", "|>", "<start_of_turn>", "<end_of_turn>", "<|tool|>", "    ", "<|t", "ool|><|tool"]
SPACES = [" ", "  ", "\n", "\r\n", "\t", "\n\n", " \n", "\u00A0", "\u3000", "\u2028", "\u0085", "\v", "\f", "\u1680",
          "\u200B", "\u00AD"]
POOLS = [range(0x20, 0x7F), range(0, 0x20), range(0x80, 0x100), range(0x100, 0x250), range(0x300, 0x370),
         range(0x370, 0x530), range(0x590, 0x700), range(0x900, 0xE80), range(0x1E00, 0x2070), range(0x2070, 0x2C00),
         range(0x2C00, 0x3400), range(0x4E00, 0xA000), range(0xAC00, 0xD7FF), range(0xE000, 0xE010),
         range(0xF900, 0x10000), range(0x10000, 0x10500), range(0x11000, 0x12000), range(0x1D400, 0x1D800),
         range(0x1F300, 0x1FB00), range(0x20000, 0x32000), range(0xE0000, 0x110000)]


# ---- Texts ----

def random_part(rng):
    kind = rng.randrange(16)
    if kind < 4:
        word = rng.choice(WORDS)
        return rng.choice((word, word.upper(), word.capitalize(), word + rng.choice(WORDS)))
    if kind < 7:
        return "".join(rng.choice(SPACES) for _ in range(rng.choice((1, 1, 1, 2, 3, 7))))
    if kind == 7:
        return str(rng.randrange(10 ** rng.randrange(1, 12)))
    if kind == 8:
        return "".join(rng.choice("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~") for _ in range(rng.randrange(1, 5)))
    if kind == 9:
        return rng.choice(("'s", "'T", "'re", "'VE", "'m", "'lL", "'D", "'", "''", "\u2019s", "'\u017F"))
    if kind == 10:
        return rng.choice(SPECIALS)
    if kind == 11:
        return chr(rng.choice((0xD7FF, 0xE000, 0xFFFD, 0xFFFE, 0xFFFF, 0x10FFFF, 0x1FFFE, 0xFEFF, 0x200D, 0x202E, 0)))
    if kind == 12:
        return rng.choice("e\u0301 \U0001F468\u200D\U0001F469 \u0E01\u0E34 \u0661\u0662 \u2167 \u00B2 \u0300 \u3042".split())
    if kind == 13:
        return rng.choice("aA \n\r\u00e9\u0301 1") * rng.choice((2, 3, 5, 17))
    pool = rng.choice(POOLS)
    return "".join(chr(rng.choice(pool)) for _ in range(rng.choice((1, 1, 2, 3, 6))))


def random_texts(seed, count):
    """Texts of valid UTF-8. The first ones are fixed: empty, single characters, long words and long spaces."""
    rng = random.Random(seed)
    texts = ["", " ", "  ", "\n", "a", "\0", "a" * 700, " " * 700 + "x", "\n" * 300 + " ", "é" * 300, "1" * 333,
             "'" * 100, "\u0301" * 200, "Ab" * 200, "日" * 300, "<|im_start|>" * 40, "Hello, World! It's 12345.6 o'clock\n"]
    while len(texts) < count:
        texts.append("".join(random_part(rng) for _ in range(rng.choice((1, 2, 3, 5, 8, 13)))))
    return [t for t in texts[:count] if not any(0xD800 <= ord(c) < 0xE000 for c in t)]


# ---- Vocabularies ----

def byte_names():
    """The characters in which files of byte-level BPE write the 256 bytes."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in printable]
    return {b: chr(b) if b in printable else chr(0x100 + others.index(b)) for b in range(256)}


NAMES = byte_names()


def byte_name(data):
    return "".join(NAMES[b] for b in data)


def trained_merges(words, count):
    """Byte-pair encoding of the words, each counted once: the most frequent pair is merged, `count` times."""
    split = [[bytes([b]) for b in w.encode()] for w in words]
    merges = []
    for _ in range(count):
        pairs = {}
        for w in split:
            for pair in zip(w, w[1:]):
                pairs[pair] = pairs.get(pair, 0) + 1
        if not pairs:
            break
        best = max(pairs, key=lambda p: (pairs[p], p))
        merges.append(best)
        for i, w in enumerate(split):
            if best[0] not in w:
                continue
            out, k = [], 0
            while k < len(w):
                both = k + 1 < len(w) and (w[k], w[k + 1]) == best
                out.append(w[k] + w[k + 1] if both else w[k])
                k += 2 if both else 1
            split[i] = out
    return merges


def bpe_vocabulary(seed, words):
    """(tokens, types, merges): trained merges, then pairs of all printable characters and of what random texts have, so
    that a wrong cut between two words shows in the tokens."""
    rng = random.Random(seed)
    merges = trained_merges(words, 250)
    chars = [bytes([b]) for b in [*range(0x20, 0x7F), 0x0A, 0x0D, 0x09]]
    dense = [(a, b) for a in chars for b in chars]
    rng.shuffle(dense)
    merges += dense[:6000]
    for text in random_texts(seed + 1, 400):
        data = text.encode()
        cut = rng.randrange(len(data) + 1)
        for k in range(cut, min(cut + 12, len(data) - 1)):
            merges.append((data[k:k + 1], data[k + 1:k + 2]))
    known = [a + b for a, b in merges]
    for _ in range(1500):
        a, b = rng.choice(known), rng.choice(known)
        if len(a + b) < 12:
            merges.append((a, b))
    tokens = {bytes([b]): None for b in range(256)}
    tokens.update({m: None for a, b in merges for m in (a, b, a + b)})
    names = [byte_name(t) for t in tokens]
    merges = list(dict.fromkeys(f"{byte_name(a)} {byte_name(b)}" for a, b in merges))
    return names, [NORMAL] * len(names), merges


def add_specials(tokens, types, scores=None):
    """Adds special tokens that are not pieces yet; the last ones are user-defined. Returns the ids of BOS and EOS."""
    for text in SPECIALS:
        if text in tokens or text in ("<|im_", "|>", "<|t", "ool|><|tool"):
            continue
        tokens.append(text)
        types.append({"<unk>": UNKNOWN, "<|tool|>": USER, "    ": USER, "[INST]": USER}.get(text, CONTROL))
        if scores is not None:
            scores.append(0.0)
    return tokens.index("<s>"), tokens.index("</s>")


def sentencepiece_vocabulary(seed, words):
    """(tokens, types, scores): bytes, then pieces of the words and of random texts with random scores, many equal."""
    rng = random.Random(seed)
    tokens, types, scores = ["<unk>", "<s>", "</s>"], [UNKNOWN, CONTROL, CONTROL], [0.0] * 3
    for b in range(256):
        tokens.append(f"<0x{b:02X}>")
        types.append(BYTE)
        scores.append(0.0)
    pieces = {}
    for text in words + random_texts(seed + 1, 600):
        text = (SPACE + text).replace(" ", SPACE)
        for _ in range(6):
            start = rng.randrange(len(text))
            size = rng.choice((1, 2, 2, 3, 4, 6))
            for n in range(1, size + 1):
                pieces[text[start:start + n]] = None
    for piece in pieces: # a piece with NUL would be cut by programs in C
        if "\0" in piece or any(piece in s or s in piece for s in SPECIALS if len(piece) > 1):
            continue
        tokens.append(piece)
        types.append(NORMAL)
        scores.append(-float(rng.randrange(60)))
    return tokens, types, scores


# ---- Files ----

def write_gguf(path, entries):
    """`entries`: (key, kind, value) with kind in "s", "u", "b", or "S", "F", "I" for lists."""
    def text(t):
        data = t.encode()
        return struct.pack("<Q", len(data)) + data

    out = b""
    for key, kind, value in entries:
        out += text(key)
        if kind == "s":
            out += struct.pack("<I", 8) + text(value)
        elif kind == "u":
            out += struct.pack("<II", 4, value)
        elif kind == "b":
            out += struct.pack("<IB", 7, value)
        elif kind == "S":
            out += struct.pack("<IIQ", 9, 8, len(value)) + b"".join(text(v) for v in value)
        else:
            code, letter = {"F": (6, "f"), "I": (5, "i")}[kind]
            out += struct.pack("<IIQ", 9, code, len(value)) + struct.pack(f"<{len(value)}{letter}", *value)
    out = b"GGUF" + struct.pack("<IQQ", 3, 0, len(entries)) + out
    with open(path, "wb") as f:
        f.write(out + bytes(-len(out) % 32))


def write_bpe(path, pre, vocabulary):
    tokens, types, merges = (list(x) for x in vocabulary)
    bos, eos = add_specials(tokens, types)
    write_gguf(path, [("general.architecture", "s", "llama"), ("tokenizer.ggml.model", "s", "gpt2"),
                      ("tokenizer.ggml.pre", "s", pre), ("tokenizer.ggml.tokens", "S", tokens),
                      ("tokenizer.ggml.token_type", "I", types), ("tokenizer.ggml.merges", "S", merges),
                      ("tokenizer.ggml.bos_token_id", "u", bos), ("tokenizer.ggml.eos_token_id", "u", eos)])


def write_sentencepiece(path, vocabulary, prefix=True, name="test"):
    tokens, types, scores = (list(x) for x in vocabulary)
    bos, eos = add_specials(tokens, types, scores)
    write_gguf(path, [("general.architecture", "s", "llama"), ("general.name", "s", name),
                      ("tokenizer.ggml.model", "s", "llama"), ("tokenizer.ggml.tokens", "S", tokens),
                      ("tokenizer.ggml.scores", "F", scores), ("tokenizer.ggml.token_type", "I", types),
                      ("tokenizer.ggml.bos_token_id", "u", bos), ("tokenizer.ggml.eos_token_id", "u", eos),
                      ("tokenizer.ggml.unknown_token_id", "u", 0), ("tokenizer.ggml.add_space_prefix", "b", prefix)])
