/* SPDX-License-Identifier: Apache-2.0 */
/* Values of keys of GGUF metadata or a config.json. */
#include "import/param_source.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/codes.h"

void tv_param_key(const tv_param_source *s, const char *key, char out[TV_PARAM_KEY_MAX])
{
    snprintf(out, TV_PARAM_KEY_MAX, "%s.%s", s->family->architecture, key);
}

const tv_json_value *tv_param_member(const tv_param_source *s, const char *names)
{
    for (tv_sv name; tv_family_next_name(&names, &name);)
        for (const tv_json_value *v = tv_json_first(s->root); v; v = v->next)
            if (tv_sv_is(name, v->key) && v->type != TV_JSON_NULL)
                return v;
    return NULL;
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
static bool find_number(const tv_param_source *s, const char *key, const char *names, double *out,
                        char name[TV_PARAM_KEY_MAX])
{
    if (s->gguf) {
        const tv_gguf_meta *meta;
        tv_param_key(s, key, name);
        if (!*key || !(meta = tv_gguf_meta_find(s->gguf, name)))
            return s->family->pattern && (strstr(names, "softcapping") || strstr(names, "sliding_window")) &&
                   tv_family_default(s->family, names, out);
        if (meta->kind == TV_GGUF_KIND_ARRAY)
            return read_list(s->gguf, name, out) || (*out = -1, true);
        *out = meta->kind == TV_GGUF_KIND_F32 || meta->kind == TV_GGUF_KIND_F64
                   ? (double)tv_gguf_f32(s->gguf, name, -1)
                   : (double)tv_gguf_u64(s->gguf, name, UINT64_MAX);
        return true;
    }
    const tv_json_value *v = tv_param_member(s, names);
    snprintf(name, TV_PARAM_KEY_MAX, "%.*s", (int)strcspn(names, "|"), names);
    if (!v)
        return tv_family_default(s->family, names, out);
    return read_number(v, out) || (*out = -1, true);
}

tv_status tv_param_count(const tv_param_source *s, const char *key, const char *names, uint32_t fallback, uint32_t min,
                         uint32_t max, uint32_t *out)
{
    char name[TV_PARAM_KEY_MAX] = "";
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

tv_status tv_param_real(const tv_param_source *s, const char *key, const char *names, float fallback, float *out)
{
    char name[TV_PARAM_KEY_MAX] = "";
    double value = (double)fallback;
    find_number(s, key, names, &value, name);
    if (!(value >= 0) || !isfinite((float)value))
        return tv_fail(s->sink, TV_ERR_INPUT, TV_LLM_CODE(KEY), NULL, "%s is not a finite number from 0", name);
    *out = (float)value;
    return TV_OK;
}
