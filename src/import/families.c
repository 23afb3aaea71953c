/* SPDX-License-Identifier: Apache-2.0 */
/* The table of families, and their parameters from GGUF metadata or a config.json. */
#include "import/families.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "graph/codes.h"
#include "import/features.h"

/* ---- Families ---- */

#define ROPE_HALVES TV_TRAIT_ROPE_HALVES
#define LEARNED_POSITIONS TV_TRAIT_LEARNED_POSITIONS
#define LAYER_NORM TV_TRAIT_LAYER_NORM
#define QK_NORM TV_TRAIT_QK_NORM
#define POST_NORMS TV_TRAIT_POST_NORMS
#define QKV_BIAS TV_TRAIT_QKV_BIAS
#define OTHER_BIASES TV_TRAIT_OTHER_BIASES
#define JOINED_QKV TV_TRAIT_JOINED_QKV
#define JOINED_GATE TV_TRAIT_JOINED_GATE
#define NO_GATE TV_TRAIT_NO_GATE
#define SCALED_EMBEDDING TV_TRAIT_SCALED_EMBEDDING
#define LOCAL_THETA TV_TRAIT_LOCAL_THETA
#define TIED TV_TRAIT_TIED
#define EXPERTS TV_TRAIT_EXPERTS
#define NORMALIZED_EXPERTS TV_TRAIT_NORMALIZED_EXPERTS
#define ALTUP TV_TRAIT_ALTUP

static const tv_family families[] = {
#define FAMILY(architecture, types, pattern, activation, traits)                                                       \
    {architecture, types, pattern, TV_ACTIVATION_##activation, traits},
#include "import/families.def"
};

enum { FAMILIES = sizeof families / sizeof families[0] };

static const struct {
    const char *architecture, *name;
    double value;
} defaults[] = {
#define DEFAULT(architecture, name, value) {architecture, name, value},
#include "import/families.def"
};

const tv_family *tv_family_find(tv_sv architecture)
{
    for (size_t i = 0; i < FAMILIES; i++)
        if (tv_sv_is(architecture, families[i].architecture))
            return &families[i];
    return NULL;
}

/* Takes the next of the names separated by '|' from *names; false at the end. */
static bool next_name(const char **names, tv_sv *name)
{
    if (!**names)
        return false;
    size_t length = strcspn(*names, "|");
    *name = (tv_sv){*names, length};
    *names += length + ((*names)[length] == '|');
    return true;
}

const tv_family *tv_family_find_type(tv_sv type)
{
    for (size_t i = 0; i < FAMILIES; i++) {
        const char *names = families[i].types;
        for (tv_sv name; next_name(&names, &name);)
            if (name.len == type.len && memcmp(name.ptr, type.ptr, type.len) == 0)
                return &families[i];
    }
    return NULL;
}

void tv_family_list(tv_buf *out)
{
    for (size_t i = 0; i < FAMILIES; i++)
        tv_buf_printf(out, "%s%s", i ? ", " : "", families[i].architecture);
}

/* ---- Reading ---- */

/* A file's metadata. */
typedef struct param_source {
    const tv_family *family;
    const tv_gguf *gguf;       /* or NULL */
    const tv_json_value *root; /* or NULL */
    const tv_diag_sink *sink;
} param_source;

enum { KEY_LENGTH = 128 };

static void full_key(const param_source *s, const char *key, char out[KEY_LENGTH])
{
    snprintf(out, KEY_LENGTH, "%s.%s", s->family->architecture, key);
}

/* The member of a config.json that has one of the names and is not null. */
static const tv_json_value *find_member(const param_source *s, const char *names)
{
    for (tv_sv name; next_name(&names, &name);)
        for (const tv_json_value *v = tv_json_first(s->root); v; v = v->next)
            if (tv_sv_is(name, v->key) && v->type != TV_JSON_NULL)
                return v;
    return NULL;
}

/* The value that a config.json means where it leaves out all of the names. */
static bool find_default(const param_source *s, const char *names, double *out)
{
    for (tv_sv name; next_name(&names, &name);)
        for (size_t i = 0; i < sizeof defaults / sizeof defaults[0]; i++)
            if (strcmp(defaults[i].architecture, s->family->architecture) == 0 && tv_sv_is(name, defaults[i].name)) {
                *out = defaults[i].value;
                return true;
            }
    return false;
}

/* A number, or a list of numbers that are all the same. */
static bool read_number(const tv_json_value *v, double *out)
{
    const tv_json_value *first = tv_json_is(v, TV_JSON_ARRAY) ? tv_json_first(v) : v;
    if (!tv_json_is_number(first))
        return false;
    for (const tv_json_value *e = first; e && v->type == TV_JSON_ARRAY; e = e->next)
        if (!tv_json_is_number(e) || tv_json_number(e) != tv_json_number(first))
            return false;
    *out = tv_json_number(first);
    return true;
}

/* The same for an entry of a GGUF file. */
static bool read_list(const tv_gguf *gguf, const char *key, double *out)
{
    tv_gguf_list list;
    if (!tv_gguf_array(gguf, key, &list) || !list.count || list.strings)
        return false;
    for (uint64_t i = 1; i < list.count; i++)
        if (tv_gguf_list_i64(&list, i) != tv_gguf_list_i64(&list, 0))
            return false;
    *out = (double)tv_gguf_list_i64(&list, 0);
    return true;
}

/* Looks up a parameter; false when the file has none. The kind of values was checked with the features. */
static bool find_number(const param_source *s, const char *key, const char *names, double *out, char name[KEY_LENGTH])
{
    if (s->gguf) {
        const tv_gguf_meta *meta;
        full_key(s, key, name);
        if (!*key || !(meta = tv_gguf_meta_find(s->gguf, name)))
            return s->family->pattern && (strstr(names, "softcapping") || strstr(names, "sliding_window")) &&
                   find_default(s, names, out);
        if (meta->kind == TV_GGUF_KIND_ARRAY)
            return read_list(s->gguf, name, out) || (*out = -1, true);
        *out = meta->kind == TV_GGUF_KIND_F32 || meta->kind == TV_GGUF_KIND_F64
                   ? (double)tv_gguf_f32(s->gguf, name, -1)
                   : (double)tv_gguf_u64(s->gguf, name, UINT64_MAX);
        return true;
    }
    const tv_json_value *v = find_member(s, names);
    snprintf(name, KEY_LENGTH, "%.*s", (int)strcspn(names, "|"), names);
    if (!v)
        return find_default(s, names, out);
    return read_number(v, out) || (*out = -1, true);
}

static tv_status read_count(const param_source *s, const char *key, const char *names, uint32_t fallback, uint32_t min,
                            uint32_t max, uint32_t *out)
{
    char name[KEY_LENGTH] = "";
    double value = fallback;
    bool found = find_number(s, key, names, &value, name);
    if ((found || (min && !fallback)) && (value < min || value > max || value != floor(value)))
        return tv_fail(s->sink, TV_ERR_INPUT, TV_LLM_CODE(KEY), NULL,
                       found ? "%s is not a whole number from %" PRIu32 " to %" PRIu32 ", or differs between layers"
                             : "%s is missing; it is a whole number from %" PRIu32 " to %" PRIu32,
                       name, min, max);
    *out = (uint32_t)value;
    return TV_OK;
}

static tv_status read_real(const param_source *s, const char *key, const char *names, float fallback, float *out)
{
    char name[KEY_LENGTH] = "";
    double value = (double)fallback;
    find_number(s, key, names, &value, name);
    if (!(value >= 0) || !isfinite((float)value))
        return tv_fail(s->sink, TV_ERR_INPUT, TV_LLM_CODE(KEY), NULL, "%s is not a finite number from 0", name);
    *out = (float)value;
    return TV_OK;
}

static tv_status read_numbers(const param_source *s, tv_model_params *p)
{
#define COUNT(member, key, names, fallback, min, max) TV_TRY(read_count(s, key, names, fallback, min, max, &p->member));
#define REAL(member, key, names, fallback) TV_TRY(read_real(s, key, names, fallback, &p->member));
#include "import/params.def"
    return TV_OK;
}

/* ---- Layers ---- */

/* Which layers see only the window: all, those that the family's or the file's pattern says, or a list. */
static void set_pattern(tv_model_params *p, uint32_t pattern)
{
    for (uint32_t i = 0; i < p->layers; i++)
        p->local[i] = p->window && (!pattern || i % pattern < pattern - 1);
}

static void read_gguf_layers(const param_source *s, tv_model_params *p)
{
    char key[KEY_LENGTH];
    tv_gguf_list list;
    full_key(s, "attention.sliding_window_pattern", key);
    set_pattern(p, (uint32_t)tv_gguf_u64(s->gguf, key, s->family->pattern));
    if (tv_gguf_array(s->gguf, key, &list))
        for (uint32_t i = 0; i < p->layers && i < list.count; i++)
            p->local[i] = p->window && tv_gguf_list_i64(&list, i);
    full_key(s, "activation_sparsity_scale", key);
    if (tv_gguf_array(s->gguf, key, &list))
        for (uint32_t i = 0; i < p->layers && i < list.count; i++)
            p->sparsity[i] = tv_gguf_list_f32(&list, i) > 0 ? tv_gguf_list_f32(&list, i) : 0;
}

/* Of activation_sparsity_pattern, timing only needs to know which layers cut at all. */
static void read_config_layers(const param_source *s, tv_model_params *p)
{
    const tv_json_value *types = find_member(s, "layer_types"), *pattern = find_member(s, "sliding_window_pattern"),
                        *sparsity = find_member(s, "activation_sparsity_pattern"),
                        *use = find_member(s, "use_sliding_window");
    if (use && !tv_json_is_true(use))
        p->window = 0;
    set_pattern(p, pattern ? (uint32_t)tv_json_integer(pattern) : s->family->pattern);
    uint32_t i = 0;
    for (const tv_json_value *v = tv_json_first(types); v && i < p->layers; v = v->next, i++)
        p->local[i] = p->window && tv_json_string(v) && strcmp(v->text, "sliding_attention") == 0;
    i = 0;
    for (const tv_json_value *v = tv_json_first(sparsity); v && i < p->layers; v = v->next, i++)
        p->sparsity[i] = (float)tv_json_number(v);
}

/* ---- Completion ---- */

static tv_status check_params(const tv_model_params *p, const param_source *s)
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
    return TV_OK;
}

/* What follows from other parameters where the file does not say it. */
static tv_status complete_params(const param_source *s, tv_model_params *p)
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
    p->epsilon = traits & TV_TRAIT_LAYER_NORM ? p->layer_epsilon : p->rms_epsilon;
    p->normalize_experts = p->normalize_experts || (traits & TV_TRAIT_NORMALIZED_EXPERTS);
    p->qkv_bias = p->qkv_bias || (traits & TV_TRAIT_QKV_BIAS);
    p->other_biases = p->other_biases || (traits & TV_TRAIT_OTHER_BIASES);
    p->output_bias = p->output_bias || p->other_biases;
    return check_params(p, s);
}

/* Rejects keys of computations that the family does not have, which would be ignored otherwise. */
static tv_status check_foreign_keys(const param_source *s, const char *path)
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
        char key[KEY_LENGTH];
        full_key(s, keys[i].key, key);
        if (tv_gguf_meta_find(s->gguf, key) && ((s->family->traits & keys[i].traits) != 0) == keys[i].absent)
            return tv_fail(s->sink, TV_ERR_INPUT, TV_LLM_CODE(FEATURE), "use a model without it",
                           "'%s': the key '%s' is of a computation that the family does not have", path, key);
    }
    return TV_OK;
}

tv_status tv_params_read_gguf(const tv_family *family, const tv_gguf *gguf, const char *path, const tv_diag_sink *sink,
                              tv_model_params *out)
{
    param_source s = {.family = family, .gguf = gguf, .sink = sink};
    uint32_t stated;
    memset(out, 0, sizeof *out);
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
    char type[KEY_LENGTH];
    full_key(&s, "rope.scaling.type", type);
    if (tv_sv_is(tv_gguf_string(gguf, type, tv_sv_of("linear")), "none"))
        out->rope_factor = 1;
    /* the largest of the family divide their scores by the root of the average head instead */
    if ((family->pattern == 2 && out->layers == 46) || (family->pattern == 6 && out->layers == 62))
        out->query_scalar = (float)out->dim / (float)out->heads;
    read_gguf_layers(&s, out);
    return complete_params(&s, out);
}

tv_status tv_params_read_config(const tv_family *family, const tv_json_value *root, const char *path,
                                const tv_diag_sink *sink, tv_model_params *out)
{
    param_source s = {.family = family, .root = root, .sink = sink};
    const tv_json_value *tied = tv_json_get(root, "tie_word_embeddings"), *bias = tv_json_get(root, "attention_bias"),
                        *rope = tv_json_get(root, "rope_parameters");
    memset(out, 0, sizeof *out);
    TV_TRY(tv_features_check_config(root, family->activation, path, sink));
    TV_TRY(read_numbers(&s, out));
    if (!out->vocab)
        return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(KEY), NULL, "vocab_size is missing");
    if (tv_json_is_number(tv_json_get(rope, "rope_theta")))
        out->theta = (float)tv_json_number(tv_json_get(rope, "rope_theta"));
    out->tied = tied ? tv_json_is_true(tied) : (family->traits & TV_TRAIT_TIED) != 0;
    out->qkv_bias = out->output_bias = tv_json_is_true(bias);
    out->normalize_experts = tv_json_is_true(tv_json_get(root, "norm_topk_prob"));
    read_config_layers(&s, out);
    return complete_params(&s, out);
}
