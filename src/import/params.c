/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of models: the rows of params.def, what follows from them, and what does not go together. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "graph/codes.h"
#include "import/features.h"
#include "import/layers.h"

static tv_status read_numbers(const tv_param_source *s, tv_model_params *p)
{
#define COUNT(member, key, names, fallback, min, max)                                                                  \
    TV_TRY(tv_param_count(s, key, names, fallback, min, max, &p->member));
#define REAL(member, key, names, fallback) TV_TRY(tv_param_real(s, key, names, fallback, &p->member));
#include "import/params.def"
    return TV_OK;
}

/* ---- Completion ---- */

/* A layer without keys of its own uses those of the last earlier one with the same window. */
static tv_status check_shared_caches(const tv_model_params *p, const tv_param_source *s)
{
    bool have[2] = {false, false};
    uint32_t own = p->layers - p->shared_kv_layers;
    for (uint32_t i = 0; i < own; i++)
        have[p->local[i]] = true;
    for (uint32_t i = own; i < p->layers; i++)
        if (!have[p->local[i]])
            return tv_fail(
                s->sink, TV_ERR_INPUT, TV_LLM_CODE(KEY), NULL,
                "layer %" PRIu32 " has no keys of its own, and no earlier layer with keys has the same window", i);
    return TV_OK;
}

static tv_status check_params(const tv_model_params *p, const tv_param_source *s)
{
    enum { HEADS_MAX = 1 << 22 }; /* elements of all heads */
    if ((uint64_t)p->heads * p->key_length > HEADS_MAX || (uint64_t)p->heads * p->value_length > HEADS_MAX)
        return tv_fail(s->sink, TV_ERR_INPUT, TV_LLM_CODE(KEY), NULL,
                       "%u heads of %u and %u elements are more than %d elements", p->heads, p->key_length,
                       p->value_length, HEADS_MAX);
    if (p->heads % p->kv_heads || !p->key_length || !p->value_length || p->rotary_dim % 2 ||
        p->rotary_dim > p->key_length)
        return tv_fail(s->sink, TV_ERR_INPUT, TV_LLM_CODE(KEY), NULL,
                       "%u heads, %u of the cache, heads of %u and %u dimensions of rotation do not go with %u "
                       "dimensions",
                       p->heads, p->kv_heads, p->key_length, p->rotary_dim, p->dim);
    if (p->rope_magnitude != 1 && p->rotary_dim != p->key_length)
        return tv_fail(s->sink, TV_ERR_INPUT, TV_LLM_CODE(FEATURE), "use a model without it",
                       "a rotation that changes the magnitude of some dimensions of a head is not supported");
    if (!(p->theta > 0) || !(p->local_theta > 0))
        return tv_fail(s->sink, TV_ERR_INPUT, TV_LLM_CODE(KEY), NULL, "the base of rotation is not a positive number");
    if (p->experts ? p->experts_used < 1 || p->experts_used > p->experts || !p->expert_hidden : !p->hidden)
        return tv_fail(s->sink, TV_ERR_INPUT, TV_LLM_CODE(KEY), NULL,
                       "%u of %u experts and a feed-forward of %u do not go together", p->experts_used, p->experts,
                       p->experts ? p->expert_hidden : p->hidden);
    bool altup = (s->family->traits & TV_TRAIT_ALTUP) != 0, experts = (s->family->traits & TV_TRAIT_EXPERTS) != 0;
    if ((altup && (p->experts || !p->per_layer_dim)) || (experts && !p->experts) || (!altup && p->shared_kv_layers))
        return tv_fail(s->sink, TV_ERR_INPUT, TV_LLM_CODE(FEATURE), "use a model without it",
                       "%u experts, inputs of %u for each layer and %u layers without keys are not of the family %s",
                       p->experts, p->per_layer_dim, p->shared_kv_layers, s->family->architecture);
    if (p->shared_kv_layers >= p->layers || p->active_stream >= p->streams)
        return tv_fail(s->sink, TV_ERR_INPUT, TV_LLM_CODE(KEY), NULL,
                       "%u of %u layers without keys of their own, or stream %u of %u", p->shared_kv_layers, p->layers,
                       p->active_stream, p->streams);
    return check_shared_caches(p, s);
}

/* What follows from other parameters where the file does not say it. */
static tv_status complete_params(const tv_param_source *s, tv_model_params *p)
{
    unsigned traits = s->family->traits;
    uint32_t even = p->dim % p->heads ? 0 : p->dim / p->heads;
    p->kv_heads = p->kv_heads ? p->kv_heads : p->heads;
    p->key_length = p->key_length ? p->key_length : even;
    p->value_length = p->value_length ? p->value_length : p->key_length;
    p->hidden = p->hidden || !(traits & TV_TRAIT_NO_GATE) ? p->hidden : 4 * p->dim;
    p->expert_hidden = p->expert_hidden ? p->expert_hidden : p->hidden;
    if (p->partial_rotary > 1)
        return tv_fail(s->sink, TV_ERR_INPUT, TV_LLM_CODE(KEY), NULL, "partial_rotary_factor is above 1");
    if (!p->rotary_dim)
        p->rotary_dim = (uint32_t)((float)p->key_length * p->partial_rotary) & ~1u;
    p->rope_factor = p->rope_factor > 0 ? p->rope_factor : 1;
    p->rope_magnitude = p->rope_magnitude > 0 ? p->rope_magnitude : 1;
    if (p->yarn)
        p->rope_magnitude *= 1 + 0.1f * logf(p->rope_factor);
    if (p->yarn && (!p->rope_original || !(p->beta_fast > 0) || !(p->beta_slow > 0)))
        return tv_fail(s->sink, TV_ERR_INPUT, TV_LLM_CODE(KEY), NULL,
                       "a rotation of the kind yarn needs the original length of the context");
    p->epsilon = traits & TV_TRAIT_LAYER_NORM ? p->layer_epsilon : p->rms_epsilon;
    p->normalize_experts = p->normalize_experts || (traits & TV_TRAIT_NORMALIZED_EXPERTS);
    p->qkv_bias = p->qkv_bias || (traits & TV_TRAIT_QKV_BIAS);
    p->other_biases = p->other_biases || (traits & TV_TRAIT_OTHER_BIASES);
    p->output_bias = p->output_bias || p->other_biases;
    p->positions = p->positions && p->positions < p->context ? p->positions : p->context;
    return check_params(p, s);
}

/* Rejects keys of computations that the family does not have, which would be ignored otherwise. */
static tv_status check_foreign_keys(const tv_param_source *s, const char *path)
{
    static const struct {
        const char *key;
        unsigned traits; /* of the families that read the key */
        bool absent;     /* read by those without the trait */
    } keys[] = {
        {"attention.layer_norm_epsilon", TV_TRAIT_LAYER_NORM, false},
        {"attention.layer_norm_rms_epsilon", TV_TRAIT_LAYER_NORM, true},
        {"rope.freq_base_swa", TV_TRAIT_LOCAL_THETA, false},
        {"embedding_length_per_layer_input", TV_TRAIT_ALTUP, false},
        {"altup.num_inputs", TV_TRAIT_ALTUP, false},
        {"altup.active_idx", TV_TRAIT_ALTUP, false},
        {"activation_sparsity_scale", TV_TRAIT_ALTUP, false},
    };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        char key[TV_PARAM_KEY_MAX];
        tv_param_key(s, keys[i].key, key);
        if (tv_gguf_meta_find(s->gguf, key) && ((s->family->traits & keys[i].traits) != 0) == keys[i].absent)
            return tv_fail(s->sink, TV_ERR_INPUT, TV_LLM_CODE(FEATURE), "use a model without it",
                           "'%s': the key '%s' is of a computation that the family does not have", path, key);
    }
    return TV_OK;
}

/* ---- Rotation of a config.json ---- */

/* Changes of the frequencies of rotation. Timing does not depend on their values, only on whether there is a table. */
static tv_status read_rope_type(const tv_param_source *s, const tv_json_value *rope, tv_model_params *p)
{
    static const char *const tables[] = {"llama3", "longrope", "su", "yarn", "dynamic"};
    const char *type = tv_json_string(tv_json_get(rope, "rope_type"));
    type = type ? type : tv_json_string(tv_json_get(rope, "type"));
    if (!type || strcmp(type, "default") == 0 || strcmp(type, "none") == 0)
        return TV_OK;
    if (strcmp(type, "linear") == 0) {
        const tv_json_value *factor = tv_json_get(rope, "factor");
        p->rope_factor = (float)tv_json_number(factor);
        if (p->rope_factor > 0 && isfinite(p->rope_factor))
            return TV_OK;
        return tv_fail(s->sink, TV_ERR_INPUT, TV_LLM_CODE(KEY), NULL,
                       "'%s': the factor of the linear scaling of the rotation is not a positive number", s->path);
    }
    for (size_t i = 0; i < TV_COUNTOF(tables); i++)
        p->rope_table = p->rope_table || strcmp(type, tables[i]) == 0;
    if (p->rope_table)
        return TV_OK;
    return tv_fail(s->sink, TV_ERR_INPUT, TV_LLM_CODE(FEATURE), "use a model without it",
                   "'%s': the scaling of the rotation '%.60s' is not supported", s->path, type);
}

static void read_theta(const tv_json_value *rope, float *theta)
{
    if (tv_json_is_number(tv_json_get(rope, "rope_theta")))
        *theta = (float)tv_json_number(tv_json_get(rope, "rope_theta"));
}

/* One object for all layers, or one for those that see all positions and one for the others. */
static tv_status read_rope(const tv_param_source *s, tv_model_params *p)
{
    const tv_json_value *rope = tv_param_member(s, "rope_parameters|rope_scaling"),
                        *full = tv_json_get(rope, "full_attention");
    if (rope && !tv_json_is(rope, TV_JSON_OBJECT))
        return tv_fail(s->sink, TV_ERR_INPUT, TV_LLM_CODE(KEY), NULL, "'%s': the key '%s' is not an object", s->path,
                       rope->key);
    read_theta(full ? full : rope, &p->theta);
    read_theta(tv_json_get(rope, "sliding_attention"), &p->local_theta);
    return read_rope_type(s, full ? full : rope, p);
}

tv_status tv_params_read_gguf(const tv_family *family, const tv_gguf *gguf, const char *path, const tv_diag_sink *sink,
                              tv_model_params *out)
{
    tv_param_source s = {.family = family, .path = path, .gguf = gguf, .sink = sink};
    uint32_t stated;
    *out = (tv_model_params){.positions = out->positions};
    TV_TRY(tv_features_check_gguf(gguf, family->architecture, path, sink));
    TV_TRY(check_foreign_keys(&s, path));
    TV_TRY(read_numbers(&s, out));
    const tv_gguf_tensor *embedding = tv_gguf_tensor_find(gguf, "token_embd.weight");
    if (!embedding || embedding->dims[1] < 1 || embedding->dims[1] > 1 << 22)
        return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(KEY), NULL, "token_embd.weight is missing, or has no rows");
    stated = out->vocab;
    out->vocab = (uint32_t)embedding->dims[1];
    if (stated && stated != out->vocab)
        return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(TENSOR_DIMS), NULL,
                       "'%s': %s.vocab_size is %u, but token_embd.weight has %u rows", path, family->architecture,
                       stated, out->vocab);
    const tv_gguf_tensor *low = tv_gguf_tensor_find(gguf, "blk.0.laurel_l.weight");
    out->laurel_rank = low ? (uint32_t)tv_min_u64(low->dims[1], 1 << 16) : out->laurel_rank;
    out->tied = !tv_gguf_tensor_find(gguf, "output.weight");
    char type[TV_PARAM_KEY_MAX];
    tv_param_key(&s, "rope.scaling.type", type);
    tv_sv scaling = tv_gguf_string(gguf, type, tv_sv_of("linear"));
    out->yarn = tv_sv_is(scaling, "yarn");
    out->longrope = tv_sv_is(scaling, "longrope");
    if (!tv_sv_is(scaling, "linear") && !out->yarn)
        out->rope_factor = 1;
    /* the largest of the family divide their scores by the root of the average head instead */
    if ((family->pattern == 2 && out->layers == 46) || (family->pattern == 6 && out->layers == 62))
        out->query_scalar = (float)out->dim / (float)out->heads;
    TV_TRY(tv_params_read_layers(&s, out));
    return complete_params(&s, out);
}

tv_status tv_params_read_config(const tv_family *family, const tv_json_value *root, const char *path,
                                const tv_diag_sink *sink, tv_model_params *out)
{
    tv_param_source s = {.family = family, .path = path, .root = root, .sink = sink};
    const tv_json_value *tied = tv_json_get(root, "tie_word_embeddings"), *bias = tv_json_get(root, "attention_bias");
    *out = (tv_model_params){.positions = out->positions};
    TV_TRY(tv_features_check_config(root, family->activation, path, sink));
    TV_TRY(read_numbers(&s, out));
    if (!out->vocab)
        return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(KEY), NULL, "vocab_size is missing");
    out->tied = tied ? tv_json_is_true(tied) : (family->traits & TV_TRAIT_TIED) != 0;
    out->qkv_bias = out->output_bias = tv_json_is_true(bias);
    out->normalize_experts = tv_json_is_true(tv_json_get(root, "norm_topk_prob"));
    TV_TRY(read_rope(&s, out));
    TV_TRY(tv_params_read_layers(&s, out));
    return complete_params(&s, out);
}
