/* SPDX-License-Identifier: Apache-2.0 */
/* GGUF models of given dimensions with random weights and a byte vocabulary, for tests of the lowerings. */
#ifndef TV_TESTS_RANDOM_MODEL_H
#define TV_TESTS_RANDOM_MODEL_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "import/gguf.h"
#include "import/tokenizer.h"

typedef struct random_dims {
    uint32_t dim, hidden, layers, heads, kv_heads, vocab, context;
    bool tied;
    bool halves; /* Qwen3, which rotates halves of heads, instead of Llama, which rotates neighbours */
} random_dims;

enum { RANDOM_FIRST_BYTE_TOKEN = 3 };

static inline tv_status generate_row(void *user, uint64_t row, uint64_t length, float *out)
{
    uint64_t *state = user;
    float unit = 1 / sqrtf((float)length) / 1000;
    (void)row;
    for (uint64_t i = 0; i < length; i++) {
        *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        out[i] = (float)((int32_t)((*state >> 33) % 2001) - 1000) * unit;
    }
    return TV_OK;
}

static inline tv_status generate_gains(void *user, uint64_t row, uint64_t length, float *out)
{
    (void)user;
    (void)row;
    for (uint64_t i = 0; i < length; i++)
        out[i] = 1 + (float)(i % 5) / 8;
    return TV_OK;
}

/* A tensor [rows][columns] of random weights, or with one row a vector of gains. `layer` UINT32_MAX: outside layers. */
static inline void add_random_tensor(tv_gguf_writer *w, const char *name, uint32_t layer, tv_gguf_type type,
                                     uint32_t rows, uint32_t columns, uint64_t *state)
{
    char full[64];
    if (layer == UINT32_MAX)
        snprintf(full, sizeof full, "%s.weight", name);
    else
        snprintf(full, sizeof full, "blk.%u.%s.weight", layer, name);
    tv_gguf_writer_tensor(w, full, rows == 1 ? TV_GGUF_F32 : type, (const uint64_t[]){columns, rows}, rows == 1 ? 1 : 2,
                          rows == 1 ? generate_gains : generate_row, state);
}

/* Byte tokens, which encode any text, then unused pieces. Returns false when out of memory. */
static inline bool write_random_vocabulary(tv_gguf_writer *w, uint32_t count)
{
    char(*texts)[16] = calloc(count, sizeof *texts);
    tv_sv *pieces = calloc(count, sizeof *pieces);
    float *scores = calloc(count, sizeof *scores);
    int32_t *types = calloc(count, sizeof *types);
    bool ok = texts && pieces && scores && types;
    for (uint32_t i = 0; i < count && ok; i++) {
        bool byte = i >= RANDOM_FIRST_BYTE_TOKEN && i < RANDOM_FIRST_BYTE_TOKEN + 256;
        if (byte)
            snprintf(texts[i], sizeof texts[i], "<0x%02X>", i - RANDOM_FIRST_BYTE_TOKEN);
        else
            snprintf(texts[i], sizeof texts[i], i < RANDOM_FIRST_BYTE_TOKEN ? "<s%u>" : "q%u", i);
        pieces[i] = tv_sv_of(texts[i]);
        scores[i] = -(float)i;
        types[i] = i == 0                        ? TV_TOKEN_UNKNOWN
                   : i < RANDOM_FIRST_BYTE_TOKEN ? TV_TOKEN_CONTROL
                   : byte                        ? TV_TOKEN_BYTE
                                                 : TV_TOKEN_NORMAL;
    }
    if (ok) {
        tv_gguf_writer_string(w, "tokenizer.ggml.model", tv_sv_of("llama"));
        tv_gguf_writer_strings(w, "tokenizer.ggml.tokens", pieces, count);
        tv_gguf_writer_f32s(w, "tokenizer.ggml.scores", scores, count);
        tv_gguf_writer_i32s(w, "tokenizer.ggml.token_type", types, count);
        tv_gguf_writer_u32(w, "tokenizer.ggml.bos_token_id", 1);
        tv_gguf_writer_u32(w, "tokenizer.ggml.eos_token_id", 2);
    }
    free(texts);
    free(pieces);
    free(scores);
    free(types);
    return ok;
}

static inline void write_random_dims(tv_gguf_writer *w, const random_dims *s)
{
    const char *arch = s->halves ? "qwen3" : "llama";
    const struct {
        const char *name;
        uint32_t value;
    } keys[] = {{"embedding_length", s->dim},
                {"feed_forward_length", s->hidden},
                {"block_count", s->layers},
                {"attention.head_count", s->heads},
                {"context_length", s->context},
                {"attention.head_count_kv", s->kv_heads},
                {"attention.key_length", s->dim / s->heads},
                {"attention.value_length", s->dim / s->heads}};
    char full[64];
    tv_gguf_writer_string(w, "general.architecture", tv_sv_of(arch));
    for (unsigned i = 0; i < TV_COUNTOF(keys); i++) {
        snprintf(full, sizeof full, "%s.%s", arch, keys[i].name);
        tv_gguf_writer_u32(w, full, keys[i].value);
    }
    snprintf(full, sizeof full, "%s.attention.layer_norm_rms_epsilon", arch);
    tv_gguf_writer_f32(w, full, 1e-5f);
}

/* Returns false when the file cannot be written. */
static inline bool random_model_write(const random_dims *s, tv_gguf_type type, const char *path)
{
    tv_gguf_writer *w = tv_gguf_writer_new();
    uint64_t state = s->dim;
    uint32_t kv_dim = s->dim / s->heads * s->kv_heads, model = UINT32_MAX;
    write_random_dims(w, s);
    bool ok = write_random_vocabulary(w, s->vocab);
    add_random_tensor(w, "token_embd", model, type, s->vocab, s->dim, &state);
    add_random_tensor(w, "output_norm", model, type, 1, s->dim, &state);
    if (!s->tied)
        add_random_tensor(w, "output", model, type, s->vocab, s->dim, &state);
    for (uint32_t l = 0; l < s->layers; l++) {
        add_random_tensor(w, "attn_norm", l, type, 1, s->dim, &state);
        add_random_tensor(w, "ffn_norm", l, type, 1, s->dim, &state);
        add_random_tensor(w, "attn_q", l, type, s->dim, s->dim, &state);
        add_random_tensor(w, "attn_k", l, type, kv_dim, s->dim, &state);
        add_random_tensor(w, "attn_v", l, type, kv_dim, s->dim, &state);
        if (s->halves) {
            add_random_tensor(w, "attn_q_norm", l, type, 1, s->dim / s->heads, &state);
            add_random_tensor(w, "attn_k_norm", l, type, 1, s->dim / s->heads, &state);
        }
        add_random_tensor(w, "attn_output", l, type, s->dim, s->dim, &state);
        add_random_tensor(w, "ffn_gate", l, type, s->hidden, s->dim, &state);
        add_random_tensor(w, "ffn_up", l, type, s->hidden, s->dim, &state);
        add_random_tensor(w, "ffn_down", l, type, s->dim, s->hidden, &state);
    }
    ok = ok && tv_gguf_writer_save(w, path, NULL) == TV_OK;
    tv_gguf_writer_free(w);
    return ok;
}

#endif
