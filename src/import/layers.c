/* SPDX-License-Identifier: Apache-2.0 */
/* Which layers see only the sliding window: all, all but each n-th, those from some layer on, or those of a list. */
#include "import/layers.h"

#include <inttypes.h>
#include <string.h>

#include "graph/codes.h"

/* Of every `pattern` layers the last one sees all positions; 0: all layers see the window. */
static void set_pattern(tv_model_params *p, uint32_t pattern)
{
    for (uint32_t i = 0; i < p->layers; i++)
        p->local[i] = p->window && (!pattern || i % pattern < pattern - 1);
}

static tv_status reject_list(const tv_param_source *s, const char *key, const char *kind, uint32_t layers)
{
    return tv_fail(s->sink, TV_ERR_INPUT, TV_LLM_CODE(KEY), NULL, "'%s': the key '%s' is not a list of %" PRIu32 " %s",
                   s->path, key, layers, kind);
}

/* ---- GGUF ---- */

static bool is_real(tv_gguf_kind kind) { return kind == TV_GGUF_KIND_F32 || kind == TV_GGUF_KIND_F64; }

static tv_status read_gguf_pattern(const tv_param_source *s, tv_model_params *p)
{
    char key[TV_PARAM_KEY_MAX];
    tv_gguf_list list;
    tv_param_key(s, "attention.sliding_window_pattern", key);
    if (!tv_gguf_array(s->gguf, key, &list)) {
        uint64_t pattern = tv_gguf_u64(s->gguf, key, tv_gguf_meta_find(s->gguf, key) ? UINT64_MAX : s->family->pattern);
        if (pattern > TV_LAYERS_MAX)
            return reject_list(s, key, "flags, or a small number", p->layers);
        set_pattern(p, (uint32_t)pattern);
        return TV_OK;
    }
    if (list.count != p->layers || list.strings || is_real(list.kind))
        return reject_list(s, key, "flags, or a small number", p->layers);
    for (uint32_t i = 0; i < p->layers; i++)
        p->local[i] = p->window && tv_gguf_list_i64(&list, i);
    return TV_OK;
}

/* Multiples of the deviation; not above 0 where nothing is cut. */
static tv_status read_gguf_sparsity(const tv_param_source *s, tv_model_params *p)
{
    char key[TV_PARAM_KEY_MAX];
    tv_gguf_list list;
    tv_param_key(s, "activation_sparsity_scale", key);
    if (!tv_gguf_meta_find(s->gguf, key))
        return TV_OK;
    if (!tv_gguf_array(s->gguf, key, &list) || list.count != p->layers || !is_real(list.kind))
        return reject_list(s, key, "real numbers", p->layers);
    for (uint32_t i = 0; i < p->layers; i++)
        p->sparsity[i] = tv_gguf_list_f32(&list, i) > 0 ? tv_gguf_list_f32(&list, i) : 0;
    return TV_OK;
}

/* ---- config.json ---- */

/* qwen2 and its kin have a window that is used only if a flag says so, from layer max_window_layers on. */
static void use_window(const tv_param_source *s, tv_model_params *p)
{
    double use = 1;
    const tv_json_value *flag = tv_param_member(s, "use_sliding_window");
    tv_family_default(s->family, "use_sliding_window", &use);
    if (flag ? !tv_json_is_true(flag) : use == 0)
        p->window = 0;
    for (uint32_t i = 0; i < p->layers; i++)
        p->local[i] = p->local[i] && p->window && i >= p->window_layer;
}

static tv_status read_config_pattern(const tv_param_source *s, tv_model_params *p)
{
    const tv_json_value *types = tv_param_member(s, "layer_types"),
                        *pattern = tv_param_member(s, "sliding_window_pattern|_sliding_window_pattern");
    if (pattern && (!tv_json_is(pattern, TV_JSON_INTEGER) || tv_json_integer(pattern) < 0 ||
                    tv_json_integer(pattern) > TV_LAYERS_MAX))
        return tv_fail(s->sink, TV_ERR_INPUT, TV_LLM_CODE(KEY), NULL, "'%s': the key '%s' is not a number from 0 to %d",
                       s->path, pattern->key, TV_LAYERS_MAX);
    set_pattern(p, pattern ? (uint32_t)tv_json_integer(pattern) : s->family->pattern);
    use_window(s, p);
    if (!types)
        return TV_OK;
    if (!tv_json_is(types, TV_JSON_ARRAY) || tv_json_count(types) != p->layers)
        return reject_list(s, "layer_types", "strings", p->layers);
    uint32_t i = 0;
    for (const tv_json_value *v = tv_json_first(types); v; v = v->next, i++) {
        const char *type = tv_json_string(v);
        if (!type || (strcmp(type, "sliding_attention") != 0 && strcmp(type, "full_attention") != 0))
            return reject_list(s, "layer_types", "strings \"sliding_attention\" or \"full_attention\"", p->layers);
        p->local[i] = p->window && strcmp(type, "sliding_attention") == 0;
    }
    return TV_OK;
}

/* A share of the elements for each layer, or one for all. Timing only needs to know which layers cut at all. */
static tv_status read_config_sparsity(const tv_param_source *s, tv_model_params *p)
{
    const tv_json_value *sparsity = tv_param_member(s, "activation_sparsity_pattern");
    bool one = tv_json_is_number(sparsity);
    if (sparsity && !one && (!tv_json_is(sparsity, TV_JSON_ARRAY) || tv_json_count(sparsity) != p->layers))
        return reject_list(s, sparsity->key, "numbers from 0 to 1", p->layers);
    const tv_json_value *v = one ? sparsity : tv_json_first(sparsity);
    for (uint32_t i = 0; v && i < p->layers; i++, v = one ? v : v->next) {
        double share = tv_json_number(v);
        if (!tv_json_is_number(v) || share < 0 || share >= 1)
            return reject_list(s, sparsity->key, "numbers from 0 to 1", p->layers);
        p->sparsity[i] = (float)share;
    }
    return TV_OK;
}

tv_status tv_params_read_layers(const tv_param_source *s, tv_model_params *p)
{
    TV_TRY(s->gguf ? read_gguf_pattern(s, p) : read_config_pattern(s, p));
    return s->gguf ? read_gguf_sparsity(s, p) : read_config_sparsity(s, p);
}
