#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The config.json files of published models: their keys are understood, and their parameters are as many as published; one is timed.

    configs.py TRIVET

Each has the keys and values of the file that its publisher distributes, without those of no effect on the network; COMMON has those keys
with usual values. `parameters` is the publisher's number for the language model; models whose rotation has a table of factors have as many more as
the table, which GGUF files store as a tensor.
"""

import json
import os
import re
import subprocess
import sys
import tempfile

COMMON = dict(attention_dropout=0.0, bos_token_id=1, eos_token_id=[1, 106], initializer_range=0.02, pad_token_id=0, torch_dtype="bfloat16",
              transformers_version="4.53.0", use_cache=True, architectures=["AnyForCausalLM"])
LLAMA = dict(model_type="llama", hidden_act="silu", attention_bias=False, mlp_bias=False, pretraining_tp=1, rms_norm_eps=1e-5, rope_scaling=None)
QWEN = dict(hidden_act="silu", rms_norm_eps=1e-6, rope_theta=1000000.0, use_sliding_window=False)
GEMMA = dict(head_dim=256, hidden_activation="gelu_pytorch_tanh", query_pre_attn_scalar=256, rms_norm_eps=1e-6, attention_bias=False,
             cache_implementation="hybrid")
PHI = dict(model_type="phi3", hidden_act="silu", hidden_size=3072, intermediate_size=8192, num_attention_heads=32, num_hidden_layers=32,
           num_key_value_heads=32, original_max_position_embeddings=4096, embd_pdrop=0.0, resid_pdrop=0.0, rms_norm_eps=1e-5,
           rope_theta=10000.0, tie_word_embeddings=False, attention_bias=False, vocab_size=32064)

# name: (parameters, layers that see a window, keys)
MODELS = {
    "Llama-2-7B": (6738415616, 0, LLAMA | dict(
        hidden_size=4096, intermediate_size=11008, max_position_embeddings=4096, num_attention_heads=32, num_hidden_layers=32,
        num_key_value_heads=32, tie_word_embeddings=False, vocab_size=32000)),
    "Llama-3.2-1B": (1235814400 + 32, 0, LLAMA | dict(
        head_dim=64, hidden_size=2048, intermediate_size=8192, max_position_embeddings=131072, num_attention_heads=32, num_hidden_layers=16,
        num_key_value_heads=8, rope_theta=500000.0, tie_word_embeddings=True, vocab_size=128256,
        rope_scaling=dict(factor=32.0, high_freq_factor=4.0, low_freq_factor=1.0, original_max_position_embeddings=8192, rope_type="llama3"))),
    "Mistral-7B-v0.1": (7241732096, 32, dict(
        model_type="mistral", hidden_act="silu", hidden_size=4096, intermediate_size=14336, max_position_embeddings=32768,
        num_attention_heads=32, num_hidden_layers=32, num_key_value_heads=8, rms_norm_eps=1e-5, rope_theta=10000.0, sliding_window=4096,
        tie_word_embeddings=False, vocab_size=32000)),
    "Mixtral-8x7B-v0.1": (46702792704, 0, dict(
        model_type="mixtral", hidden_act="silu", hidden_size=4096, intermediate_size=14336, max_position_embeddings=32768,
        num_attention_heads=32, num_experts_per_tok=2, num_hidden_layers=32, num_key_value_heads=8, num_local_experts=8,
        output_router_logits=False, rms_norm_eps=1e-5, rope_theta=1000000.0, router_aux_loss_coef=0.02, sliding_window=None,
        tie_word_embeddings=False, vocab_size=32000)),
    "Qwen2-0.5B": (494032768, 0, QWEN | dict(
        model_type="qwen2", hidden_size=896, intermediate_size=4864, max_position_embeddings=131072, max_window_layers=24,
        num_attention_heads=14, num_hidden_layers=24, num_key_value_heads=2, sliding_window=131072, tie_word_embeddings=True, vocab_size=151936)),
    "Qwen2.5-7B": (7615616512, 0, QWEN | dict(
        model_type="qwen2", hidden_size=3584, intermediate_size=18944, max_position_embeddings=131072, max_window_layers=28,
        num_attention_heads=28, num_hidden_layers=28, num_key_value_heads=4, sliding_window=131072, tie_word_embeddings=False, use_mrope=False,
        vocab_size=152064)),
    "Qwen3-0.6B": (596049920, 0, QWEN | dict(
        model_type="qwen3", attention_bias=False, head_dim=128, hidden_size=1024, intermediate_size=3072, max_position_embeddings=40960,
        max_window_layers=28, num_attention_heads=16, num_hidden_layers=28, num_key_value_heads=8, rope_scaling=None, sliding_window=None,
        tie_word_embeddings=True, vocab_size=151936)),
    "Qwen3-30B-A3B": (30532122624, 0, QWEN | dict(
        model_type="qwen3_moe", attention_bias=False, decoder_sparse_step=1, head_dim=128, hidden_size=2048, intermediate_size=6144,
        max_position_embeddings=40960, max_window_layers=48, mlp_only_layers=[], moe_intermediate_size=768, norm_topk_prob=True,
        num_attention_heads=32, num_experts=128, num_experts_per_tok=8, num_hidden_layers=48, num_key_value_heads=4, rope_scaling=None,
        router_aux_loss_coef=0.001, sliding_window=None, tie_word_embeddings=False, vocab_size=151936)),
    "gemma-2-2b": (2614341888, 13, GEMMA | dict(
        model_type="gemma2", attn_logit_softcapping=50.0, final_logit_softcapping=30.0, hidden_act="gelu_pytorch_tanh", hidden_size=2304,
        intermediate_size=9216, max_position_embeddings=8192, num_attention_heads=8, num_hidden_layers=26, num_key_value_heads=4,
        rope_theta=10000.0, sliding_window=4096, vocab_size=256000)),
    "gemma-3-1b": (999885952, 22, GEMMA | dict(
        model_type="gemma3_text", attn_logit_softcapping=None, final_logit_softcapping=None, hidden_size=1152, intermediate_size=6912,
        max_position_embeddings=32768, num_attention_heads=4, num_hidden_layers=26, num_key_value_heads=1, rope_local_base_freq=10000,
        rope_scaling=None, rope_theta=1000000, sliding_window=512, sliding_window_pattern=6, vocab_size=262144)),
    "gemma-3-4b": (3880263168, 29, dict(
        model_type="gemma3", boi_token_index=255999, mm_tokens_per_image=256, vision_config=dict(model_type="siglip_vision_model"),
        text_config=dict(hidden_size=2560, intermediate_size=10240, model_type="gemma3_text", num_hidden_layers=34,
                         rope_scaling=dict(factor=8.0, rope_type="linear"), sliding_window=1024))),
    "gemma-3n-E4B": (None, 28, dict(
        model_type="gemma3n", audio_config=dict(model_type="gemma3n_audio"), vision_config=dict(model_type="gemma3n_vision"),
        text_config=GEMMA | dict(
            model_type="gemma3n_text", activation_sparsity_pattern=[0.95] * 10 + [0.0] * 25, altup_active_idx=0, altup_coef_clip=120.0,
            altup_correct_scale=True, altup_lr_multiplier=1.0, altup_num_inputs=4, final_logit_softcapping=30.0, hidden_size=2048,
            hidden_size_per_layer_input=256, intermediate_size=[16384] * 35, laurel_rank=64,
            layer_types=["full_attention" if i % 5 == 4 else "sliding_attention" for i in range(35)], max_position_embeddings=32768,
            num_attention_heads=8, num_hidden_layers=35, num_key_value_heads=2, num_kv_shared_layers=15, rope_local_base_freq=10000.0,
            rope_scaling=None, rope_theta=1000000.0, sliding_window=512, vocab_size=262400, vocab_size_per_layer_input=262144))),
    "Phi-3-mini-4k": (3821079552, 32, PHI | dict(max_position_embeddings=4096, rope_scaling=None, sliding_window=2047)),
    "Phi-3-mini-128k": (3821079552 + 48, 32, PHI | dict(
        max_position_embeddings=131072, sliding_window=262144,
        rope_scaling=dict(type="longrope", long_factor=[1.5] * 48, short_factor=[1.0] * 48))),
    "gpt2": (124439808, 0, dict(
        model_type="gpt2", activation_function="gelu_new", attn_pdrop=0.1, embd_pdrop=0.1, layer_norm_epsilon=1e-5, n_ctx=1024, n_embd=768,
        n_head=12, n_layer=12, n_positions=1024, resid_pdrop=0.1, summary_activation=None, summary_first_dropout=0.1,
        summary_proj_to_labels=True, summary_type="cls_index", summary_use_proj=True, task_specific_params={}, vocab_size=50257)),
}

SMALL = dict(model_type="qwen2", hidden_size=64, intermediate_size=128, num_hidden_layers=4, num_attention_heads=4, vocab_size=300)
SMALL_3N = dict(model_type="gemma3n_text", hidden_size=64, intermediate_size=128, num_hidden_layers=4, num_attention_heads=4,
                num_key_value_heads=2, head_dim=16, hidden_size_per_layer_input=16, vocab_size=300, num_kv_shared_layers=2, sliding_window=16)
FULL, LOCAL = "full_attention", "sliding_attention"

# (keys, texts of the message)
REJECTED = [
    (SMALL | dict(model_type="unheard_of"), ("unheard_of", "known: llama")),
    (SMALL | dict(layer_types=[FULL] * 3), ("TV-L006", "layer_types", "4 strings")),
    (SMALL | dict(layer_types=[FULL, LOCAL, LOCAL, "linear_attention"]), ("TV-L006", "layer_types")),
    (SMALL | dict(layer_types=FULL), ("TV-L006", "layer_types")),
    (SMALL | dict(sliding_window_pattern=-2), ("TV-L006", "sliding_window_pattern")),
    (SMALL | dict(sliding_window_pattern="LLLG"), ("TV-L006", "sliding_window_pattern")),
    (SMALL | dict(mlp_only_layers=[0]), ("TV-L011", "mlp_only_layers")),
    (SMALL | dict(use_mrope=True), ("TV-L011", "use_mrope")),
    (SMALL | dict(rope_scaling="linear"), ("TV-L006", "rope_scaling")),
    (SMALL | dict(rope_scaling=dict(rope_type="linear")), ("TV-L006", "factor of the linear scaling")),
    (SMALL | dict(rope_scaling=dict(rope_type="linear", factor=0)), ("TV-L006", "factor of the linear scaling")),
    (SMALL | dict(rope_scaling=dict(type="mrope", mrope_section=[16, 24, 24])), ("TV-L011", "'mrope'")),
    (SMALL | dict(num_key_value_heads=3), ("TV-L006", "4 heads, 3 of the cache")),
    (SMALL | dict(hidden_size=0), ("TV-L006", "hidden_size")),
    (SMALL_3N | dict(layer_types=[LOCAL, LOCAL, LOCAL, FULL]), ("TV-L006", "layer 3 has no keys of its own")),
    (SMALL_3N | dict(activation_sparsity_pattern=[0.95]), ("TV-L006", "activation_sparsity_pattern")),
    (SMALL_3N | dict(activation_sparsity_pattern=[0.95, 0, 0, 1.0]), ("TV-L006", "activation_sparsity_pattern")),
    (SMALL_3N | dict(activation_sparsity_pattern=[0.95, 0, "0", 0]), ("TV-L006", "activation_sparsity_pattern")),
]

# (keys, layers that see a window)
WINDOWS = [
    (SMALL | dict(sliding_window=16), []),
    (SMALL | dict(sliding_window=16, use_sliding_window=True, max_window_layers=3), [3]),
    (SMALL | dict(sliding_window=16, use_sliding_window=True, max_window_layers=0), [0, 1, 2, 3]),
    (SMALL | dict(sliding_window=16, use_sliding_window=True), []),
    (SMALL | dict(sliding_window=16, use_sliding_window=True, layer_types=[FULL, LOCAL, FULL, LOCAL]), [1, 3]),
    (SMALL | dict(model_type="mistral", sliding_window=16), [0, 1, 2, 3]),
    (SMALL | dict(model_type="mistral", sliding_window=None), []),
    (SMALL | dict(model_type="gemma2", head_dim=16, sliding_window=16), [0, 2]),
    (SMALL | dict(model_type="gemma3_text", head_dim=16, sliding_window=16, _sliding_window_pattern=3), [0, 1, 3]),
    (SMALL_3N | dict(layer_types=[FULL, LOCAL, LOCAL, FULL]), [1, 2]),
]


def run(folder, keys, *options):
    path = os.path.join(folder, "config.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump(COMMON | keys, f)
    return subprocess.run([sys.argv[1], "llm", path, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)


def windows(folder, keys):
    """The layers whose attention has a window."""
    graph = run(folder, keys, "--dump-graph").stdout
    return [int(layer) for layer in re.findall(r"^%blk\.(\d+)\.attn_out = Attention\(.*window=", graph, re.M)]


def main():
    failures = 0

    def expect(what, good, seen):
        nonlocal failures
        if not good:
            failures += 1
            print("%s\n    %s" % (what, seen))

    with tempfile.TemporaryDirectory() as folder:
        for name, (parameters, window_layers, keys) in MODELS.items():
            done = run(folder, keys, "--info", "--json")
            expect(f"{name}: is understood without a message", done.returncode == 0 and not done.stderr, done.stderr)
            found = json.loads(done.stdout)["result"]["parameters"] if done.returncode == 0 else 0
            expect(f"{name}: has {parameters} parameters", parameters in (None, found), found)
            layers = windows(folder, keys)
            expect(f"{name}: {window_layers} layers see a window", len(layers) == window_layers, layers)
        for keys, texts in REJECTED:
            done = run(folder, keys, "--info")
            expect(f"{keys} is rejected", done.returncode == 2 and all(text in done.stderr for text in texts), done.stderr)
        for keys, layers in WINDOWS:
            expect(f"{keys}: layers {layers} see a window", windows(folder, keys) == layers, windows(folder, keys))
        done = run(folder, MODELS["gemma-3n-E4B"][2], "-t", "pccx", "-c", "pccx-kv260", "--timing-only", "--prompt-tokens", "2", "-n", "1", "--json")
        read = json.loads(done.stdout)["result"]["targets"][0]["read_bytes"] if done.returncode == 0 else 0
        expect("gemma-3n-E4B fits the KV260 and reads 4.5 billion weights of 4.25 bits a token", 2.38e9 < read < 2.5e9,
               done.stderr or read)
        graph = run(folder, SMALL | dict(rope_parameters={FULL: dict(rope_theta=5e5, rope_type="linear", factor=4), LOCAL: dict(rope_theta=7e3)}),
                    "--dump-graph").stdout
        expect("rope_parameters of a kind of layers are read", "theta=500000" in graph and "frequency_scale=0.25" in graph, graph)
    print("%d failed" % failures)
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
