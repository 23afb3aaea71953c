#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The command `trivet llm`: reproducible texts, written programs that reproduce the session, timing without data.

usage: run.py TRIVET MODEL RANDOM_MODEL SIZES...: also runs models of these published sizes"""
import glob
import json
import os
import re
import shutil
import struct
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "..", "oracle")]

import random_model  # noqa: E402
from launch import HostSets  # noqa: E402
from small_model import count, flag, numbers, real, string, write_small_model  # noqa: E402
from suite import SAMPLE, Suite, parse_arguments, sample  # noqa: E402

OPTIONS = parse_arguments(__doc__, "trivet", "model", "random_model", rest="sizes")
TRIVET, MODEL, RANDOM_MODEL = os.path.abspath(OPTIONS.trivet), OPTIONS.model, OPTIONS.random_model
SUITE = Suite(TRIVET, OPTIONS)
expect = SUITE.expect
PROMPT = ["-p", "ROMEO:", "--temperature", "0"]
MACHINES = ("pccx", "opennpu", "cmdq")
# Dimensions of two published models with 32,000 tokens and without grouped-query attention.
SIZES = {
    "15M": dict(hidden_size=288, intermediate_size=768, num_hidden_layers=6, num_attention_heads=6, vocab_size=32000,
                max_position_embeddings=256),
    "110M": dict(hidden_size=768, intermediate_size=2048, num_hidden_layers=12, num_attention_heads=12,
                 vocab_size=32000, max_position_embeddings=1024),
}
KERNELS = HostSets(TRIVET).names


def run(*args, status=0):
    done = subprocess.run([TRIVET, *args], capture_output=True, text=True)
    expect(" ".join(args[:6]), done.returncode == status, f"exit {done.returncode}: {done.stderr.strip()}")
    return done


def peak_of(*args):
    """Peak resident bytes of a command; 0: it failed."""
    child = subprocess.Popen([TRIVET, *args], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_maxrss << 10 if child.returncode == 0 else 0


def as_json(*args):
    done = run(*args, "--json")
    return json.loads(done.stdout)["result"] if done.returncode == 0 else {"targets": [{}], "cycles": None}


def text_of(*args):
    return run("llm", MODEL, *args, "-q").stdout


def texts_repeat(_folder):
    for target in ("host",) + sample(MACHINES):
        sampled = ["-t", target, "-p", "ROMEO:", "-n", "12", "--seed", "7"]
        first = text_of(*sampled, "--threads", "1")
        expect(f"{target}: same seed, same text", first == text_of(*sampled, "--threads", "1"), first)
        expect(f"{target}: same text with any number of threads", first == text_of(*sampled, "--threads", "3"), first)
        expect(f"{target}: the prompt begins the text", first.startswith("ROMEO:"), first)
    for target in sample(MACHINES):
        kernels = {text_of("-t", target, *PROMPT, "-n", "6", "--kernels", name) for name in KERNELS}
        expect(f"{target}: same text with any kernels", len(kernels) == 1, kernels)
    seeds = [text_of("-p", "ROMEO:", "-n", "30", "--seed", seed) for seed in ("1", "2")]
    expect("another seed, another text", seeds[0] != seeds[1], seeds)


def emitted_programs_reproduce_the_session(folder):
    for target in sample(MACHINES):
        out = os.path.join(folder, target)
        session = as_json("llm", MODEL, "-t", target, *PROMPT, "-n", "3", "--emit", out)["targets"][0]
        steps = sorted(glob.glob(os.path.join(out, "step_*")))
        again = as_json("run", *steps)
        expect(f"{target}: emitted programs take the cycles of the session",
               again["cycles"] == session.get("prompt_cycles", 0) + session.get("cycles", 0),
               f"{again['cycles']} {session}")
        for path in steps:
            run("check", path)
    again = run("llm", MODEL, "-t", target, "-n", "1", "--emit", out, status=2)
    expect("a folder with another session's steps", "TV-L041" in again.stderr and "another session" in again.stderr,
           again.stderr)
    run("llm", MODEL, "-t", "cmdq", "--eval", __file__, "-n", "2", "--emit", os.path.join(folder, "evaluated"))
    every = os.path.join(folder, "every")
    run("llm", MODEL, "-t", "all", "-n", "1", "-q", "--emit", every)
    expect("-t all has a folder for each machine", sorted(os.listdir(every)) == sorted(MACHINES)
           and all(os.listdir(os.path.join(every, t)) for t in MACHINES), os.listdir(every))


def emitted_queues_of_families_are_free_of_warnings(folder):
    """Soft caps and windows; small operators; experts, which the host chooses between two queues of a step."""
    for family in sample(("gemma2", "gemma3n", "mixtral")):
        model, out = os.path.join(folder, family + ".gguf"), os.path.join(folder, family)
        random_model.write(family, model)
        session = as_json("llm", model, "-t", "cmdq", "-p", "the cat", "--temperature", "0", "-n", "2", "--emit", out)["targets"][0]
        steps = sorted(glob.glob(os.path.join(out, "step_*")))
        again = as_json("run", *steps)
        expect(f"{family}: emitted queues take the cycles of the session",
               again["cycles"] == session.get("prompt_cycles", 0) + session.get("cycles", 0), f"{again['cycles']} {session}")
        timed = as_json("llm", model, "-t", "cmdq", "--timing-only", "--prompt-tokens", str(session["prompt_tokens"]), "-n",
                        str(session["tokens"]))["targets"][0]
        expect(f"{family}: as many cycles without data", timed.get("cycles") == session["cycles"], f"{timed} {session}")
        expect(f"{family}: the host's part", [op["name"] for op in session["host_ops"]]
               == (["route to experts"] if family == "mixtral" else []), session["host_ops"])
        for path in steps:
            done = run("check", path)
            expect(f"{family}: {os.path.basename(path)}", ", 0 errors, 0 warnings" in done.stdout, done.stdout + done.stderr)


def segments_of_a_program_are_one_program(folder):
    """OpenNPU runs the program of a block of tokens in segments; one that is written is whole."""
    prompt = ["llm", MODEL, "-t", "opennpu", "-p", "ROMEO: Now is the winter of our discontent", "-n", "2",
              "--temperature", "0"]
    whole = as_json(*prompt, "--emit", os.path.join(folder, "whole"))["targets"][0]
    segments = as_json(*prompt)["targets"][0]
    for key in ("prompt_cycles", "cycles", "read_bytes", "written_bytes"):
        expect(f"segments do not change {key}", whole.get(key) == segments.get(key), f"{whole} {segments}")
    expect("segments do not change the text", whole.get("text") == segments.get("text"), f"{whole} {segments}")


def timing_needs_no_data(_folder):
    """`ROMEO:` is seven tokens. The token after the last is timed, too: -n 4 has as many as a text of -n 5."""
    for target in MACHINES:
        full = as_json("llm", MODEL, "-t", target, *PROMPT, "-n", "5")["targets"][0]
        timed = as_json("llm", MODEL, "-t", target, "--timing-only", "--prompt-tokens", "7", "-n", "4")["targets"][0]
        for key in ("prompt_tokens", "tokens", "prompt_cycles", "cycles", "read_bytes", "written_bytes"):
            expect(f"{target}: --timing-only and a text have the same {key}", full.get(key) == timed.get(key),
                   f"{full} {timed}")


def dimensions_without_weights(folder):
    """The bytes read per token on CMDQ: the 8-bit weights with a 32-bit scale per group, gains, a row of the embedding, and one byte
    per key and value element of all previous positions."""
    for name, s in sample(SIZES.items()):
        path = os.path.join(folder, name + ".json")
        with open(path, "w") as f:
            json.dump(s, f)
        dim, layers = s["hidden_size"], s["num_hidden_layers"]
        inner, vocabulary = s["intermediate_size"], s["vocab_size"]
        gains = (2 * layers + 1) * dim
        head = dim // s["num_attention_heads"]

        def scaled(weights, *multiples):
            """Bytes of weights with a scale for each group, which divides the columns and, of what attention gives, the heads."""
            return weights + weights // next(g for g in (32, 16, 8) if all(m % g == 0 for m in multiples)) * 4

        weights = (vocabulary + layers * (4 * dim + 3 * inner)) * dim
        stored = scaled((vocabulary + layers * (3 * dim + 2 * inner)) * dim, dim)
        stored += layers * (scaled(dim * dim, dim, head) + scaled(dim * inner, inner))
        tokens, prompt = 3, 5
        expected = 0
        for t in range(tokens):
            expected += stored + gains * 4 + dim * 4 + 2 * layers * dim * (prompt + t + 1)
        got = as_json("llm", path, "-t", "cmdq", "--timing-only", "--prompt-tokens", str(prompt), "-n",
                      str(tokens))["targets"][0]
        expect(f"{name}: bytes of {tokens} tokens", got.get("read_bytes") == expected,
               f"{got.get('read_bytes')} not {expected}")
        expect(f"{name}: at least one cycle per 32 bytes", got.get("cycles", 0) >= expected / 32, got)
        # OpenNPU also loads the inputs of each product
        for target, options, factor_max in (("pccx", [], 1.15), ("opennpu", ["-D", "mem.bytes=1Gi"], 2.2)):
            got = as_json("llm", path, "-t", target, *options, "--timing-only", "--prompt-tokens", str(prompt), "-n",
                          str(tokens))["targets"][0]
            bytes_min = tokens * weights * (4 if target == "pccx" else 8) // 8
            expect(f"{name} on {target}: at least its weights, and not much more",
                   bytes_min <= got.get("read_bytes", 0) <= bytes_min * factor_max, f"{got} {bytes_min}")
        rejected = run("llm", path, "-t", "opennpu", "-D", "mem.bytes=1Mi", "--timing-only", status=2)
        expect("opennpu reports the memory that a model needs",
               "mem.bytes" in rejected.stderr and "hint" in rejected.stderr, rejected.stderr)
        machines = as_json("llm", path, "-t", "all", "-D", "mem.bytes=1Gi", "--timing-only", "--prompt-tokens", "2",
                           "-n", "1")["targets"]
        expect(f"{name}: -t all runs all machines", [t.get("target") for t in machines] == list(MACHINES), machines)
        rejected = run("llm", path, "-t", "cmdq", "-p", "a", status=2)
        expect("generating text requires weights", "--timing-only" in rejected.stderr, rejected.stderr)


def odd_sizes(folder):
    """Groups of two weights with four bits each, whose scales are larger than the weights."""
    path = os.path.join(folder, "odd.json")
    for dim, hidden, heads in ((66, 78, 3), (96, 100, 2)):
        with open(path, "w") as f:
            json.dump(dict(hidden_size=dim, intermediate_size=hidden, num_hidden_layers=2, num_attention_heads=heads,
                           vocab_size=300, max_position_embeddings=64), f)
        for bits in ("4", "8"):
            got = as_json("llm", path, "-t", "cmdq", "--weight-bits", bits, "--timing-only", "-n", "2")["targets"][0]
            expect(f"cmdq fits {dim} dimensions of {bits} bits", got.get("cycles", 0) > 0, got)
    # buffers share memory by their lifetimes
    for banks, runs in (("2Ki", False), ("12Ki", True), ("20Ki", True)):
        with open(path, "w") as f:
            json.dump(dict(hidden_size=64, intermediate_size=4096, num_hidden_layers=1, num_attention_heads=2,
                           vocab_size=300, max_position_embeddings=64), f)
        done = run("llm", path, "-t", "cmdq", "--timing-only", "--weight-bits", "4", "--prompt-tokens", "8", "-n", "2",
                   "--context", "16", "-D", "spm.bank_bytes=" + banks,
                   status=0 if runs else 2)
        expect(f"cmdq in banks of {banks} {'runs' if runs else 'is rejected'}",
               runs == (done.stderr == "") and runs != ("TV-C008" in done.stderr), done.stderr)
    for target, dims, words in (("cmdq", dict(intermediate_size=77), "odd number of columns"),
                                ("cmdq", dict(num_hidden_layers=80, hidden_size=8192), "dram.bytes"),
                                 ("opennpu", dict(hidden_size=4096, num_attention_heads=32, num_hidden_layers=32),
                                  "weights alone"), ("pccx", dict(hidden_size=68), "multiple of 8")):
        with open(path, "w") as f:
            json.dump(dict(hidden_size=64, intermediate_size=22528, num_hidden_layers=2, num_attention_heads=2,
                           vocab_size=32000) | dims, f)
        done = run("llm", path, "-t", target,
                   *(["-D", "dram.bytes=1Gi", "-D", "spm.bank_bytes=64Mi"] if target == "cmdq" else []),
                   "--timing-only", "-n", "1", status=2)
        expect(f"{target} rejects {dims}", words in done.stderr and "hint" in done.stderr
               and done.stderr.count("\n") < 4, done.stderr)


def gains_of_any_size_run(folder):
    """Tiny or huge gains of norms produce activations without a usable range."""
    with open(MODEL, "rb") as f:
        data = bytearray(f.read())
    name = b"blk.0.attn_norm.weight"
    at = data.index(struct.pack("<Q", len(name)) + name) + 8 + len(name)
    dimensions, count, kind, offset = struct.unpack_from("<IQIQ", data, at)
    expect("the gains of the model are one row of binary32", dimensions == 1 and kind == 0)
    last = max(data.index(struct.pack("<Q", len(n)) + n) + 8 + len(n)
               for n in (b"output_norm.weight", b"blk.5.ffn_down.weight", b"token_embd.weight", b"output.weight")
               if struct.pack("<Q", len(n)) + n in data)
    end = last + 4 + 8 * struct.unpack_from("<I", data, last)[0] + 12
    start = (end + 31) // 32 * 32 + offset
    path = os.path.join(folder, "gains.gguf")
    for gain in (0.0, 1e-44, 5e37):
        struct.pack_into(f"<{count}f", data, start, *[gain] * count)
        with open(path, "wb") as f:
            f.write(data)
        done = run("llm", path, "-t", "cmdq", "-p", "A", "-n", "2", "-q")
        expect(f"cmdq: gains of {gain}", done.stderr == "", done.stderr)


def vocabularies_smaller_than_a_tile_are_evaluated(folder):
    path, text_path = os.path.join(folder, "few.gguf"), os.path.join(folder, "few.txt")
    write_small_model(path, 28)
    with open(text_path, "w", encoding="utf-8") as out:
        out.write("abcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabc")
    for target in sample(MACHINES):
        host, machine = (as_json("llm", path, "-t", target, "--eval", text_path, "-n", "70")["targets"] + [{}])[:2]
        nats = host.get("nats", 9)
        expect(f"{target}: a vocabulary of 28 is evaluated", abs(machine.get("nats", 0) - nats) < 0.1 * nats,
               (host, machine))


def unsupported_features_are_rejected(folder):
    """A key of a feature, an unknown key of the architecture, a key of the wrong type, a tensor without a use: each is
    an error that names it. Keys without effect, and features that are switched off, are accepted."""
    path = os.path.join(folder, "feature.gguf")
    rejected = [("llama.rope.scaling.type", string("mrope"), "TV-L011", "mrope"),
                ("llama.rope.scaling.type", string("yarn"), "TV-L006", "original length of the context"),
                ("llama.rope.scaling.type", string("longrope"), "TV-L007", "rope_factors_long"),
                ("llama.rope.scale_linear", real(4.0), "TV-L011", "scaling of the rotation"),
                ("llama.rope.freq_base_swa", real(10000), "TV-L011", "does not have"),
                ("llama.rope.dimension_sections", numbers(1, 2), "TV-L011", "several positions"),
                ("llama.attention.key_length", count(64), "TV-L008", "attn_q.weight"),
                ("llama.attention.value_length", count(8), "TV-L008", "attn_v.weight"),
                ("llama.attention.scale", real(0.5), "TV-L011", "root of the head size"),
                ("llama.attention.clamp_kqv", real(8), "TV-L011", "limits of queries"),
                ("llama.attention.max_alibi_bias", real(8), "TV-L011", "linear biases"),
                ("llama.attention.causal", flag(False), "TV-L011", "later positions"),
                ("llama.attention.layer_norm_epsilon", real(1e-5), "TV-L011", "does not have"),
                ("llama.expert_count", count(8), "TV-L006", "0 of 8 experts"),
                ("llama.logit_scale", real(0.25), "TV-L011", "scaling of the logits"),
                ("llama.embedding_scale", real(12), "TV-L011", "scaling of the embedding"),
                ("llama.residual_scale", real(0.5), "TV-L011", "scaling of the residuals"),
                ("llama.use_parallel_residual", flag(True), "TV-L011", "in parallel"),
                ("general.type", string("adapter"), "TV-L011", "not a whole model"),
                ("split.count", count(3), "TV-L015", "split.count 3"),
                ("tokenizer.ggml.remove_extra_whitespaces", flag(True), "TV-L011", "repeated spaces"),
                ("llama.attention.new_kind", count(1), "TV-L012", "llama.attention.new_kind"),
                ("llama.rope.\x1bfactor", count(1), "TV-L012", "llama.rope.?factor"),
                ("llama.context_length", string("96"), "TV-L006", "not a whole number"),
                ("llama.attention.head_count_kv", numbers(1, 2), "TV-L006", "differs between layers"),
                ("llama.rope.freq_base", real(float("inf")), "TV-L006", "not a finite number"),
                ("llama.attention.layer_norm_rms_epsilon", real(float("nan")), "TV-L006", "not a finite number"),
                ("llama.attention.sliding_window_pattern", numbers(1, 0), "TV-L006", "1 flags"),
                ("llama.attention.sliding_window_pattern", real(2), "TV-L006", "1 flags"),
                ("llama.attention.sliding_window_pattern", string("LG"), "TV-L006", "1 flags"),
                ("llama.vocab_size", count(30), "TV-L008", "28 rows")]
    for key, (kind, value), code, words in sample(rejected):
        write_small_model(path, 28, keys=[(key, kind, value)])
        for target in ("host", "cmdq"):
            done = run("llm", path, "-t", target, "-n", "1", status=2)
            expect(f"{key} is rejected", code in done.stderr and words in done.stderr and not done.stdout
                   and done.stderr.count("error") == 1 and "\x1b" not in done.stderr, done.stderr)
    for tensor, words in (("blk.0.ffn_gate_inp.weight", "mixture of experts"),
                          ("blk.1.attn_norm.weight", "used by no operation"), ("thing", "used by no operation")):
        write_small_model(path, 28, tensors=[tensor])
        done = run("llm", path, "-n", "1", status=2)
        expect(f"{tensor} is rejected", "TV-L013" in done.stderr and f"'{tensor}'" in done.stderr
               and words in done.stderr, done.stderr)
    write_small_model(path, 28, tensors=["blk.0.attn_sinks.weight", "thing", "other"])
    expect("other unused tensors are counted", "2 others" in run("llm", path, "-n", "1", status=2).stderr)
    write_small_model(path, 28)
    plain = run("llm", path, "-p", "abc", "-n", "8", "-q")
    neutral = [("llama.expert_count", *count(0)), ("llama.rope.scaling.type", *string("none")),
               ("llama.rope.scaling.factor", *real(1)), ("llama.attention.key_length", *count(16)),
               ("llama.attention.value_length", *count(16)), ("llama.rope.dimension_count", *count(16)),
               ("llama.attention.causal", *flag(True)), ("llama.vocab_size", *count(28)),
               ("general.name", *string("small")), ("general.file_type", *count(0)), ("other.key", *count(1)),
               ("split.count", *count(1)), ("tokenizer.chat_template", *string("{{ x }}"))]
    write_small_model(path, 28, keys=neutral)
    same = run("llm", path, "-p", "abc", "-n", "8", "-q")
    expect("features that are switched off change nothing", (same.stdout, same.stderr) == (plain.stdout, ""),
           (plain.stdout, same.stdout, same.stderr))


def weights_that_are_no_numbers_are_rejected(folder):
    """The tensor and the row are named, on the host and by every lowering."""
    path = os.path.join(folder, "nan.gguf")
    for tensor, index, row in (("blk.0.attn_k.weight", 5 * 32 + 7, 5), ("blk.0.ffn_norm.weight", 3, 0),
                               ("token_embd.weight", 27 * 32, 27), ("output_norm.weight", 31, 0),
                               ("blk.0.ffn_down.weight", 31 * 64 + 63, 31)):
        for value in sample((float("nan"), float("inf"), float("-inf"))):
            write_small_model(path, 28, values=[(tensor, index, value)])
            for target in ("host",) + MACHINES:
                for threads in sample(("1", "2")):
                    done = run("llm", path, "-t", target, "-p", "a", "-n", "2", "--threads", threads, status=2)
                    expect(f"{target}: {value} in {tensor} is rejected",
                           "TV-L014" in done.stderr and f"'{tensor}', row {row}:" in done.stderr
                           and done.stderr.count("error") == 1, done.stderr)


def unsupported_dimensions_files_are_rejected(folder):
    path = os.path.join(folder, "config.json")
    base = dict(hidden_size=64, intermediate_size=128, num_hidden_layers=1, num_attention_heads=4, vocab_size=300)

    def timed(status=0, **keys):
        with open(path, "w") as f:
            json.dump(base | keys, f)
        return run("llm", path, "-t", "cmdq", "--timing-only", "-n", "1", "--json", status=status)

    for key, value, code in (("num_local_experts", 8, "TV-L006"), ("model_type", "gemma", "TV-L006"),
                             ("mlp_bias", True, "TV-L011"), ("hidden_act", "gelu", "TV-L011"),
                             ("logits_scaling", 8.0, "TV-L011"), ("attention_bias", 0, "TV-L006"),
                             ("head_dim", "16", "TV-L006"), ("rms_norm_eps", "1e-5", "TV-L006"),
                             ("tie_word_embeddings", "yes", "TV-L006")):
        done = timed(2, **{key: value})
        expect(f"{key} {value} is rejected", code in done.stderr + done.stdout and (key.split("_")[-1] in done.stderr or str(value) in done.stderr),
               done.stderr + done.stdout)
    plain = json.loads(timed().stdout)["result"]["targets"][0]["cycles"]
    done = timed(head_dim=16, model_type="llama", architectures=["LlamaForCausalLM"], sliding_window=None,
                 rope_scaling=None, rope_parameters={"rope_type": "default", "rope_theta": 5e5}, attention_bias=False,
                 hidden_act="silu", torch_dtype="bfloat16", use_cache=True, num_key_value_heads=None)
    expect("a file of the same dimensions takes the same cycles without a warning",
           done.stderr == "" and json.loads(done.stdout)["result"]["targets"][0]["cycles"] == plain, done.stderr)
    done = timed(new_setting=1)
    expect("an unknown key is warned about", "TV-L012" in done.stderr and "'new_setting'" in done.stderr, done.stderr)


def models_of_published_sizes_run(folder):
    """Random weights in the dimensions of published models: the logits of a few tokens are close to the host's, and
    timing-only sessions take the same number of cycles."""
    for name in OPTIONS.sizes:
        s = SIZES[name]
        path = os.path.join(folder, name + ".gguf")
        heads = str(s["num_attention_heads"])
        dims = [str(s[key]) for key in ("hidden_size", "intermediate_size", "num_hidden_layers")]
        done = subprocess.run([RANDOM_MODEL, path, *dims, heads, heads, str(s["vocab_size"]), "64"])
        expect(f"{name}: written", done.returncode == 0)
        for target, min_cosine, options in (("pccx", 0.9, []), ("opennpu", 0.99, ["-D", "mem.bytes=1Gi"]),
                                            ("cmdq", 0.99, [])):
            similarity = as_json("llm", path, "-t", target, *options, "--verify", "-p", "a", "-n", "2")["targets"][0]
            expect(f"{name} on {target}: logits are close to the host's",
                   similarity.get("logits", {}).get("cosine", 0) >= min_cosine, similarity)
            text = as_json("llm", path, "-t", target, *options, "-p", "a", "-n", "3")["targets"][0]
            timed = as_json("llm", path, "-t", target, *options, "--timing-only", "--prompt-tokens",
                            str(text.get("prompt_tokens")), "-n", "2")["targets"][0]
            expect(f"{name} on {target}: same cycles without data", text.get("cycles") == timed.get("cycles"),
                   f"{text} {timed}")
        if name == "110M": # in smaller ones other memory dominates
            for target in ("pccx", "cmdq"):
                peak, size = peak_of("llm", path, "-t", target, "-p", "a", "-n", "1", "--threads",
                                     "1"), os.path.getsize(path)
                expect(f"{name} on {target}: the model is in memory only once", 0 < peak < 2.5 * size,
                       f"{peak} bytes of memory, {size} in the file")
        os.unlink(path)


def tiles_of_a_prompt_match_single_tokens(_folder):
    """A token must not attend to later tokens of its tile; smaller banks have smaller tiles."""
    text = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "data", "tinyshakespeare.txt")
    cycles, nats = [], []
    tokens = "100" if SAMPLE == 1 else "18"
    for bank in (256, 32, 10)[SAMPLE > 1:]: # tiles of 64, 16 and 2 tokens
        done = as_json("llm", MODEL, "-t", "cmdq", "--eval", text, "-n", tokens, "-D",
                       f"spm.bank_bytes={bank}Ki")["targets"][-1]
        cycles.append(done.get("prompt_cycles", 0))
        nats.append(done.get("nats", 0))
    expect("cmdq: smaller banks have smaller tiles", cycles == sorted(set(cycles)), cycles)
    expect("cmdq: tiles of any size give the same evaluation", nats[0] > 0 and max(nats) == min(nats), nats)


def machines_are_close_to_the_host(_folder):
    for target, min_cosine, options in (("pccx", 0.97, []), ("opennpu", 0.999, []), ("cmdq", 0.98, []),
                                        ("cmdq", 0.999, ["--activation-bits", "16"])):
        similarity = as_json("llm", MODEL, "-t", target, *options, "--verify", "-n", "12")["targets"][0]
        layers = similarity.get("layers", [])
        expect(f"{target}: six layers", len(layers) == 6, similarity)
        for layer in layers:
            expect(f"{target}: layer {layer['layer']} is close to the host's",
                   min_cosine <= layer["cosine"] <= 1.000001, layer)
        expect(f"{target}: logits are close to the host's", similarity.get("logits", {}).get("cosine", 0) >= 0.995,
               similarity)


def machines_of_other_sizes_run_or_are_rejected(_folder):
    same = text_of("-t", "pccx", *PROMPT, "-n", "3")
    expect("pccx without GEMM of 64 columns processes row by row",
           text_of("-t", "pccx", "-D", "gemm.k_max=32", *PROMPT, "-n", "3")[:6] == same[:6])
    for target, parameter, words in (("pccx", "host.bytes=65536", "host.bytes"), ("pccx", "l2.words=64", "l2.words"),
                                     ("opennpu", "mem.bytes=65536", "mem.bytes"),
                                     ("opennpu", "vector.l=4", "vector.l"), ("cmdq", "spm.banks=4", "banks"),
                                     ("cmdq", "spm.bank_bytes=512", "spm.bank_bytes"),
                                     ("cmdq", "spm.bank_bytes=640", "spm.bank_bytes")):
        rejected = run("llm", MODEL, "-t", target, "-D", parameter, "-n", "1", status=2)
        expect(f"{target} with {parameter} is rejected with a reason",
               "TV-C008" in rejected.stderr and words in rejected.stderr, rejected.stderr)
    required = int(re.search(r"SPM banks of 640 bytes: they require banks of (\d+) bytes", rejected.stderr).group(1))
    for size, status in ((required, 0), (required - max(128, required // 32), 2)):
        run("llm", MODEL, "-t", "cmdq", "-D", f"spm.bank_bytes={size // 64 * 64}", "-p", "a", "-n", "1", status=status)


def unsupported_widths_are_warned_about(_folder):
    done = run("llm", MODEL, "-t", "opennpu", "--weight-bits", "4", "-n", "1")
    expect("opennpu: --weight-bits 4 is warned about", "TV-L040" in done.stderr, done.stderr)
    for target, bits, warned in (("pccx", "16", True), ("opennpu", "8", True), ("cmdq", "16", False),
                                 ("pccx", "8", False)):
        done = run("llm", MODEL, "-t", target, "--activation-bits", bits, "-n", "1")
        expect(f"{target}: --activation-bits {bits} is {'' if warned else 'not '}warned about",
               ("TV-L040" in done.stderr) == warned, done.stderr)
    for target, bits in (("opennpu", "8"), ("cmdq", "4"), ("pccx", "8")):
        done = run("llm", MODEL, "-t", target, "--weight-bits", bits, "-n", "1")
        expect(f"{target}: --weight-bits {bits} is not", done.stderr == "", done.stderr)


def contexts_above_the_maximum_are_warned_about(_folder):
    done = run("llm", MODEL, "--context", "100000", "-n", "1")
    expect("--context above the model's is warned about", "TV-L042" in done.stderr, done.stderr)


def traces_and_reports_cover_the_session(folder):
    """With -t all each machine has its own files, the host none; the steps in a trace have the session's cycles."""
    names = {"report": "w.html", "trace": "w.json.zst", "perfetto": "w.perfetto.json"}
    paths = {option: os.path.join(folder, name) for option, name in names.items()}
    files = [word for option, path in paths.items() for word in ("--" + option, path)]
    sessions = {t["target"]: t for t in as_json("llm", MODEL, "-t", "all", *PROMPT, "-n", "3", *files)["targets"]}
    made = sorted(os.path.basename(p) for p in glob.glob(os.path.join(folder, "w.*")))
    expect("-t all: files of each machine, none of the host",
           made == sorted(n for t in MACHINES for n in (f"w.{t}.html", f"w.{t}.json.zst", f"w.perfetto.{t}.json")),
           made)
    for target in sample(MACHINES):
        session = sessions.get(target, {})
        for name in sample((f"w.{target}.json.zst", f"w.perfetto.{target}.json")):
            trace = json.loads(run("trace", os.path.join(folder, name), "--json").stdout or '{"result": {}}')["result"]
            cycles = {op: sum(s["end_cycle"] - s["start_cycle"] for s in trace.get("steps", []) if s["op"] == op)
                      for op in ("prefill", "decode")}
            expect(f"{name}: the steps' cycles",
                   (cycles["prefill"], cycles["decode"]) == (session.get("prompt_cycles"), session.get("cycles")),
                   f"{cycles} {session}")
            expect(f"{name}: the steps' tokens",
                   [(s["position"], s["tokens"]) for s in trace.get("steps", [])] == [(0, 7), (7, 1), (8, 1)],
                   trace.get("steps"))
            expect(f"{name}: the layers",
                   {r["name"] for r in trace.get("layers", [])} >= {f"blk.{i}" for i in range(6)}, trace.get("layers"))
    report_path = os.path.join(folder, "alone.html")
    run("llm", MODEL, "-t", "cmdq", "--timing-only", "-n", "1", "--report", report_path)
    expect("--timing-only has a report, under the name given", os.path.exists(report_path))
    own = os.path.join(folder, "m.cmdq.gguf")
    shutil.copy(MODEL, own)
    done = run("llm", own, "-t", "all", "-n", "1", "--report", os.path.join(folder, "m.gguf"), status=2)
    expect("the model is not overwritten", "would overwrite" in done.stderr and open(own, "rb").read(4) == b"GGUF",
           done.stderr)


def traces_and_reports_reject_arguments(folder):
    path = os.path.join(folder, "rejected.html")
    for option in ("--report", "--trace", "--perfetto"):
        for args, words in ((["--eval", MODEL], "write no trace and no report"),
                            (["--verify"], "write no trace and no report"), (["--info"], "do not run the model"),
                            (["--dump-graph"], "do not run the model")):
            expect(f"{option} {args[0]}",
                   words in run("llm", MODEL, "-t", "cmdq", *args, option, path, status=2).stderr)
        expect(f"{option} -", "standard output" in run("llm", MODEL, "-t", "cmdq", "-n", "1", option, "-",
                                                       status=2).stderr)
        for host in ([], ["-t", "host"]):
            done = run("llm", MODEL, *host, "-n", "1", option, path, status=2)
            expect(f"{option} of the host", "host has no cycles" in done.stderr and not done.stdout, done.stderr)
        expect(f"{option} over the model",
               "would overwrite" in run("llm", MODEL, "-t", "cmdq", "-n", "1", option, MODEL, status=2).stderr)
    expect("two to one file",
           "cannot both go" in run("llm", MODEL, "-t", "cmdq", "-n", "1", "--report", path, "--trace", path,
                                   status=2).stderr)
    expect("a rejected file is not created", not os.path.exists(path))


def invalid_arguments_are_rejected(folder):
    for a, b in ((["--timing-only"], ["--verify"]), (["--timing-only"], ["--eval", MODEL]),
                 (["--verify"], ["--eval", MODEL]), (["--timing-only"], ["-p", "a"]), (["--host-ops"], ["--verify"])):
        expect(f"{a} and {b}", "mutually exclusive" in run("llm", MODEL, "-t", "cmdq", *a, *b, status=2).stderr)
    for name in ('a"b', "a\nb", "x" * 5000):
        expect("a folder's name that programs cannot hold",
               "TV-F002" in run("llm", MODEL, "-t", "pccx", "-n", "1", "--emit", name, status=2).stderr)
    done = subprocess.run([TRIVET, "llm", MODEL, "-n", "1"], capture_output=True, text=True,
                          env=dict(os.environ, TRIVET_KERNELS="mmx"))
    expect("kernels of no host, by TRIVET_KERNELS", done.returncode == 2 and "this host has scalar" in done.stderr,
           done.stderr)
    for args, words in ((["-t", "host", "--emit", folder], "TV-L041"),
                        (["-t", "cmdq", "--timing-only", "--emit", folder], "TV-L041"), (["-t", "nothing"], "TV-"),
                        (["-n", "0"], "--tokens"), (["--weight-bits", "5"], "weight-bits"),
                        (["--kernels", "mmx"], "this host has scalar"), (["--temperature", "hot"], "temperature"),
                        (["--timing-only"], "host has no cycles"),
                        (["--eval", os.path.join(folder, "missing.txt")], "missing.txt")):
        done = subprocess.run([TRIVET, "llm", MODEL, *args], capture_output=True, text=True)
        expect(f"rejected: {args}", done.returncode != 0 and words in done.stderr,
               f"exit {done.returncode}: {done.stderr}")


SUITE.run_tests((texts_repeat, emitted_programs_reproduce_the_session, segments_of_a_program_are_one_program,
                 emitted_queues_of_families_are_free_of_warnings,
                 timing_needs_no_data, dimensions_without_weights,
                 odd_sizes, gains_of_any_size_run, vocabularies_smaller_than_a_tile_are_evaluated,
                 unsupported_features_are_rejected, weights_that_are_no_numbers_are_rejected,
                 unsupported_dimensions_files_are_rejected,
                 models_of_published_sizes_run, tiles_of_a_prompt_match_single_tokens, machines_are_close_to_the_host,
                 machines_of_other_sizes_run_or_are_rejected, unsupported_widths_are_warned_about,
                 contexts_above_the_maximum_are_warned_about, traces_and_reports_cover_the_session,
                 traces_and_reports_reject_arguments, invalid_arguments_are_rejected), SUITE.folder)
sys.exit(SUITE.finish())
