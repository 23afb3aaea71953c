/* SPDX-License-Identifier: Apache-2.0 */
/* Opens models of the llama architecture: GGUF files, or the dimensions in a config.json. */
#include "import/model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json_value.h"
#include "graph/codes.h"
#include "import/features.h"
#include "import/gguf.h"

enum { DIM_MAX = 1 << 20, LAYERS_MAX = 4096, CONTEXT_MAX = 1 << 20 };

/* Reads the dimension llama.KEY, which must be in [1, max]. */
static tv_status read_size(const tv_gguf *gguf, const char *key, uint64_t fallback, uint64_t max,
                           const tv_diag_sink *sink, uint32_t *out)
{
    char name[64];
    snprintf(name, sizeof name, "llama.%s", key);
    uint64_t value = tv_gguf_u64(gguf, name, fallback);
    if (value < 1 || value > max)
        return tv_fail(sink, TV_ERR_INPUT, &tv_llm_codes[TV_LLM_CODE_KEY], NULL,
                       "%s is %" PRIu64 ", which is not from 1 to %" PRIu64, name, value, max);
    *out = (uint32_t)value;
    return TV_OK;
}

static tv_status check_dims(const tv_model_dims *s, const tv_diag_sink *sink)
{
    if (s->dim % s->heads || s->head_dim != s->dim / s->heads || s->head_dim % 2 || s->heads % s->kv_heads)
        return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(KEY), NULL,
                       "%u heads, %u of the cache and %u dimensions of rotation do not go with %u dimensions", s->heads,
                       s->kv_heads, s->head_dim, s->dim);
    if (!(s->eps >= 0) || !(s->theta > 0))
        return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(KEY), NULL,
                       "epsilon or the base of rotation is not a positive number");
    return TV_OK;
}

static tv_status read_dims(const tv_gguf *gguf, const char *path, const tv_diag_sink *sink, tv_model_dims *s)
{
    tv_sv architecture = tv_gguf_string(gguf, "general.architecture", tv_sv_of(""));
    if (!tv_sv_is(architecture, "llama"))
        return tv_fail(sink, TV_ERR_INPUT, &tv_llm_codes[TV_LLM_CODE_KEY],
                       "models of the architecture llama can be run", "the architecture is '%.*s'",
                       (int)tv_min_u64(architecture.len, 60), architecture.ptr);
    TV_TRY(tv_features_check_gguf(gguf, path, sink));
    TV_TRY(read_size(gguf, "embedding_length", 0, DIM_MAX, sink, &s->dim));
    TV_TRY(read_size(gguf, "feed_forward_length", 0, DIM_MAX, sink, &s->hidden));
    TV_TRY(read_size(gguf, "block_count", 0, LAYERS_MAX, sink, &s->layers));
    TV_TRY(read_size(gguf, "attention.head_count", 0, s->dim, sink, &s->heads));
    TV_TRY(read_size(gguf, "attention.head_count_kv", s->heads, s->heads, sink, &s->kv_heads));
    TV_TRY(read_size(gguf, "context_length", 2048, CONTEXT_MAX, sink, &s->context));
    TV_TRY(read_size(gguf, "rope.dimension_count", s->dim / s->heads, DIM_MAX, sink, &s->head_dim));
    s->eps = tv_gguf_f32(gguf, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    s->theta = tv_gguf_f32(gguf, "llama.rope.freq_base", 10000.0f);
    return check_dims(s, sink);
}

/* Expected rows and columns of a weight; the vocabulary is known from the embedding. */
static void get_matrix_dims(const tv_model_dims *s, tv_weight weight, uint32_t *rows, uint32_t *columns)
{
    uint32_t q_rows = s->heads * s->head_dim, kv_rows = s->kv_heads * s->head_dim;
    *columns = weight == TV_WEIGHT_O ? q_rows : weight == TV_WEIGHT_DOWN ? s->hidden : s->dim;
    switch (weight) {
    case TV_WEIGHT_EMBEDDING:
    case TV_WEIGHT_CLASSIFIER:
        *rows = s->vocab;
        break;
    case TV_WEIGHT_Q:
        *rows = q_rows;
        break;
    case TV_WEIGHT_K:
    case TV_WEIGHT_V:
        *rows = kv_rows;
        break;
    case TV_WEIGHT_O:
    case TV_WEIGHT_DOWN:
        *rows = s->dim;
        break;
    case TV_WEIGHT_GATE:
    case TV_WEIGHT_UP:
        *rows = s->hidden;
        break;
    case TV_WEIGHT_NORM_ATTENTION:
    case TV_WEIGHT_NORM_FFN:
    case TV_WEIGHT_NORM_FINAL:
        *rows = 1;
        break;
    case TV_WEIGHTS:
        *rows = 0;
        break;
    }
}

static tv_status find_matrix(tv_model *model, tv_weight weight, uint32_t layer, const tv_diag_sink *sink)
{
    tv_matrix *m = &model->matrices[(size_t)layer * TV_WEIGHTS + weight];
    char name[64], full[80];
    get_matrix_dims(&model->dims, weight, &m->rows, &m->columns);
    tv_model_matrix_name(weight == TV_WEIGHT_CLASSIFIER && model->dims.tied ? TV_WEIGHT_EMBEDDING : weight, layer,
                         name);
    snprintf(full, sizeof full, "%s.weight", name);
    m->read_row = tv_gguf_row_f32;
    return tv_gguf_tensor_require(model->gguf, full, m->columns, m->rows, sink, &m->tensor);
}

/* ---- Dimensions without weights ---- */

static tv_status read_json_size(const tv_json_value *root, const char *key, uint64_t fallback, uint64_t max,
                                const tv_diag_sink *sink, uint32_t *out)
{
    const tv_json_value *value = tv_json_get(root, key);
    bool missing = !value || value->type == TV_JSON_NULL;
    int64_t n = missing ? (int64_t)fallback : tv_json_integer(value);
    if (n < 1 || (uint64_t)n > max)
        return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(KEY), NULL, "%s is not from 1 to %" PRIu64, key, max);
    *out = (uint32_t)n;
    return TV_OK;
}

/* The number `key` of an object, or `fallback` when it is missing or null. */
static float read_json_real(const tv_json_value *root, const char *key, float fallback)
{
    const tv_json_value *value = tv_json_get(root, key);
    return tv_json_is_number(value) ? (float)tv_json_number(value) : fallback;
}

static tv_status read_json_dims(const tv_json_value *root, const char *path, const tv_diag_sink *sink, tv_model_dims *s)
{
    TV_TRY(tv_features_check_config(root, path, sink));
    TV_TRY(read_json_size(root, "hidden_size", 0, DIM_MAX, sink, &s->dim));
    TV_TRY(read_json_size(root, "intermediate_size", 0, DIM_MAX, sink, &s->hidden));
    TV_TRY(read_json_size(root, "num_hidden_layers", 0, LAYERS_MAX, sink, &s->layers));
    TV_TRY(read_json_size(root, "num_attention_heads", 0, s->dim, sink, &s->heads));
    TV_TRY(read_json_size(root, "num_key_value_heads", s->heads, s->heads, sink, &s->kv_heads));
    TV_TRY(read_json_size(root, "vocab_size", 0, DIM_MAX, sink, &s->vocab));
    TV_TRY(read_json_size(root, "max_position_embeddings", 2048, CONTEXT_MAX, sink, &s->context));
    s->head_dim = s->dim / s->heads;
    s->eps = read_json_real(root, "rms_norm_eps", 1e-5f);
    s->theta = read_json_real(root, "rope_theta",
                              read_json_real(tv_json_get(root, "rope_parameters"), "rope_theta", 10000.0f));
    s->tied = tv_json_is_true(tv_json_get(root, "tie_word_embeddings"));
    return check_dims(s, sink);
}

/* A JSON file states the dimensions of a model without weights. */
static tv_status read_dims_file(tv_model *model, const char *path, const tv_input *input, const tv_diag_sink *sink)
{
    enum { DIMS_FILE_MAX = 1 << 20 };
    tv_arena arena = {0};
    tv_json_error error;
    const tv_json_value *root =
        tv_json_parse(&arena, (tv_sv){(const char *)input->data, input->size}, DIMS_FILE_MAX, &error);
    tv_status status = TV_OK;
    if (error.kind == TV_JSON_MEMORY)
        status = tv_fail_memory(sink);
    else if (!tv_json_is(root, TV_JSON_OBJECT))
        status = tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(FORMAT), NULL,
                         "'%s' is not an object with the sizes of a model", path);
    else
        status = read_json_dims(root, path, sink, &model->dims);
    tv_arena_fini(&arena);
    if (status != TV_OK)
        return status;
    model->matrices = calloc((size_t)model->dims.layers * TV_WEIGHTS, sizeof *model->matrices);
    if (!model->matrices)
        return tv_fail_memory(sink);
    for (uint32_t layer = 0; layer < model->dims.layers; layer++)
        for (unsigned w = 0; w < TV_WEIGHTS; w++) {
            tv_matrix *m = &model->matrices[(size_t)layer * TV_WEIGHTS + w];
            if (tv_weight_in_layer((tv_weight)w) || layer == 0)
                get_matrix_dims(&model->dims, (tv_weight)w, &m->rows, &m->columns);
        }
    return TV_OK;
}

static tv_status find_matrices(tv_model *model, const char *path, const tv_diag_sink *sink)
{
    tv_model_dims *s = &model->dims;
    const tv_gguf_tensor *embedding = tv_gguf_tensor_find(model->gguf, "token_embd.weight");
    if (!embedding || embedding->dims[1] < 1 || embedding->dims[1] > DIM_MAX)
        return tv_fail(sink, TV_ERR_INPUT, &tv_llm_codes[TV_LLM_CODE_KEY], NULL,
                       "token_embd.weight is missing, or has no rows");
    s->vocab = (uint32_t)embedding->dims[1];
    if (tv_gguf_u64(model->gguf, "llama.vocab_size", s->vocab) != s->vocab)
        return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(TENSOR_DIMS), NULL,
                       "'%s': llama.vocab_size is %" PRIu64 ", but token_embd.weight has %u rows", path,
                       tv_gguf_u64(model->gguf, "llama.vocab_size", 0), s->vocab);
    s->tied = !tv_gguf_tensor_find(model->gguf, "output.weight");
    for (uint32_t layer = 0; layer < s->layers; layer++)
        for (unsigned w = 0; w < TV_WEIGHTS; w++)
            if (tv_weight_in_layer((tv_weight)w) || layer == 0)
                TV_TRY(find_matrix(model, (tv_weight)w, layer, sink));
    return tv_features_check_tensors(model, path, sink);
}

tv_status tv_model_open(const char *path, const tv_diag_sink *sink, tv_model **out)
{
    tv_model *model = calloc(1, sizeof *model);
    if (!model)
        return tv_fail_memory(sink);
    model->close = tv_gguf_free;
    tv_input input;
    tv_status status = tv_input_open(path, sink, &input);
    if (status == TV_OK && input.size && input.data[0] == '{') {
        status = read_dims_file(model, path, &input, sink);
        tv_input_close(&input);
        if (status == TV_OK)
            *out = model;
        else
            tv_model_free(model);
        return status;
    }
    if (status == TV_OK) {
        status = tv_gguf_read(path, &input, sink, &model->gguf);
        if (status != TV_OK)
            tv_input_close(&input);
    }
    if (status == TV_OK)
        status = read_dims(model->gguf, path, sink, &model->dims);
    if (status == TV_OK &&
        !(model->matrices = calloc((size_t)model->dims.layers * TV_WEIGHTS, sizeof *model->matrices)))
        status = tv_fail_memory(sink);
    if (status == TV_OK)
        status = find_matrices(model, path, sink);
    if (status != TV_OK) {
        tv_model_free(model);
        return status;
    }
    *out = model;
    return TV_OK;
}
