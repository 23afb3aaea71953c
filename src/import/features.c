/* SPDX-License-Identifier: Apache-2.0 */
/* Checks keys against the rows of features.def, and that every tensor is used. A value of either kind of file becomes a
 * `value`, so that a rule is written once. */
#include "import/features.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "graph/codes.h"

enum { SHOWN = 60 };

typedef struct feature {
    const char *key;
    tv_feature_kind kind;
    tv_feature_rule rule;
    const char *name; /* of the feature */
} feature;

static const feature gguf_features[] = {
#define KEY(key, kind, rule, feature) {key, TV_FEATURE_##kind, TV_FEATURE_##rule, feature},
#include "import/features.def"
};

static const feature config_features[] = {
#define CONFIG(key, kind, rule, feature) {key, TV_FEATURE_##kind, TV_FEATURE_##rule, feature},
#include "import/features.def"
};

/* A value of a key: what rules compare, and its text in messages. */
typedef struct value {
    enum { COUNT, REAL, TEXT, FLAG, OTHER } kind;
    double number; /* COUNT, REAL; FLAG: 0 or 1 */
    tv_sv text;    /* TEXT */
    const tv_json_value *json;
    tv_buf shown;
} value;

/* A prefix of a name for messages; unprintable bytes become '?'. */
static const char *copy_printable(tv_sv name, char text[SHOWN + 1])
{
    size_t n = name.len < SHOWN ? name.len : SHOWN;
    for (size_t i = 0; i < n; i++)
        text[i] = name.ptr[i] >= ' ' && name.ptr[i] <= '~' ? name.ptr[i] : '?';
    text[n] = '\0';
    return text;
}

static const feature *find_feature(const feature *rows, size_t count, tv_sv key)
{
    for (size_t i = 0; i < count; i++)
        if (tv_sv_is(key, rows[i].key))
            return &rows[i];
    return NULL;
}

static bool has_kind(const feature *row, const value *v)
{
    switch (row->kind) {
    case TV_FEATURE_COUNT:
        return v->kind == COUNT;
    case TV_FEATURE_REAL:
        return (v->kind == REAL || v->kind == COUNT) && isfinite(v->number);
    case TV_FEATURE_TEXT:
        return v->kind == TEXT;
    case TV_FEATURE_FLAG:
        return v->kind == FLAG;
    case TV_FEATURE_ANY:
        break;
    }
    return true;
}

static bool is_list_of(const tv_json_value *list, const char *text)
{
    if (!tv_json_is(list, TV_JSON_ARRAY))
        return false;
    for (const tv_json_value *v = tv_json_first(list); v; v = v->next)
        if (!tv_json_string(v) || strcmp(v->text, text) != 0)
            return false;
    return true;
}

static bool is_default_rope(const tv_json_value *rope)
{
    if (!tv_json_is(rope, TV_JSON_OBJECT))
        return false;
    for (const tv_json_value *v = tv_json_first(rope); v; v = v->next) {
        bool type = strcmp(v->key, "type") == 0 || strcmp(v->key, "rope_type") == 0;
        if (type && (!tv_json_string(v) || strcmp(v->text, "default") != 0))
            return false;
        if (!type && (strcmp(v->key, "rope_theta") != 0 || !tv_json_is_number(v)))
            return false;
    }
    return true;
}

static bool is_accepted(const feature *row, const value *v, uint64_t head_size)
{
    switch (row->rule) {
    case TV_FEATURE_READ:
    case TV_FEATURE_DESCRIPTIVE:
        return true;
    case TV_FEATURE_UNSUPPORTED:
        return false;
    case TV_FEATURE_ZERO:
    case TV_FEATURE_NO:
        return v->number == 0;
    case TV_FEATURE_SINGLE:
    case TV_FEATURE_NEUTRAL:
        return v->number == 0 || v->number == 1;
    case TV_FEATURE_YES:
        return v->number == 1;
    case TV_FEATURE_HEAD_SIZE:
        return v->number == (double)head_size;
    case TV_FEATURE_NONE:
        return tv_sv_is(v->text, "none");
    case TV_FEATURE_MODEL:
        return tv_sv_is(v->text, "model");
    case TV_FEATURE_LLAMA:
        return tv_sv_is(v->text, "llama");
    case TV_FEATURE_SILU:
        return tv_sv_is(v->text, "silu") || tv_sv_is(v->text, "swish");
    case TV_FEATURE_LLAMA_CLASS:
        return is_list_of(v->json, "LlamaForCausalLM");
    case TV_FEATURE_FULL_ATTENTION:
        return is_list_of(v->json, "full_attention");
    case TV_FEATURE_ROPE:
        return is_default_rope(v->json);
    }
    return false;
}

/* The dimensions of a head; 0 when the embedding is not a multiple of the heads, which the reader reports. */
static uint64_t divide_heads(uint64_t dim, uint64_t heads) { return heads && dim % heads == 0 ? dim / heads : 0; }

static tv_status check_value(const feature *row, value *v, uint64_t head_size, const char *path,
                             const tv_diag_sink *sink)
{
    static const char *const kinds[] = {[TV_FEATURE_COUNT] = "a number from 0",
                                        [TV_FEATURE_REAL] = "a finite number",
                                        [TV_FEATURE_TEXT] = "a string",
                                        [TV_FEATURE_FLAG] = "true or false",
                                        [TV_FEATURE_ANY] = ""};
    const char *shown = tv_buf_cstr(&v->shown);
    if (v->shown.failed)
        return tv_fail_memory(sink);
    if (!has_kind(row, v))
        return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(KEY), NULL, "'%s': the key '%s' is %s, not %s", path, row->key,
                       shown, kinds[row->kind]);
    if ((row->rule == TV_FEATURE_HEAD_SIZE && !head_size) || is_accepted(row, v, head_size))
        return TV_OK;
    return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(FEATURE), "use a model without it",
                   "'%s': the key '%s' is %s: %s is not supported", path, row->key, shown, row->name);
}

/* ---- GGUF ---- */

static value value_of_meta(const tv_gguf *gguf, const tv_gguf_meta *meta, const char *key)
{
    value v = {.kind = OTHER};
    tv_gguf_meta_print(meta, SHOWN, &v.shown);
    switch (meta->kind) {
    case TV_GGUF_KIND_F32:
    case TV_GGUF_KIND_F64:
        v.kind = REAL;
        v.number = (double)tv_gguf_f32(gguf, key, 0);
        break;
    case TV_GGUF_KIND_BOOL:
        v.kind = FLAG;
        v.number = tv_gguf_bool(gguf, key, false);
        break;
    case TV_GGUF_KIND_STRING:
        v.kind = TEXT;
        v.text = meta->value;
        break;
    case TV_GGUF_KIND_U8:
    case TV_GGUF_KIND_I8:
    case TV_GGUF_KIND_U16:
    case TV_GGUF_KIND_I16:
    case TV_GGUF_KIND_U32:
    case TV_GGUF_KIND_I32:
    case TV_GGUF_KIND_U64:
    case TV_GGUF_KIND_I64: {
        uint64_t n = tv_gguf_u64(gguf, key, UINT64_MAX); /* UINT64_MAX: negative */
        v.kind = n == UINT64_MAX ? OTHER : COUNT;
        v.number = (double)n;
        break;
    }
    case TV_GGUF_KIND_ARRAY:
    case TV_GGUF_KINDS:
        break;
    }
    return v;
}

tv_status tv_features_check_gguf(const tv_gguf *gguf, const char *path, const tv_diag_sink *sink)
{
    static const char prefix[] = "llama.";
    uint64_t head_size = divide_heads(tv_gguf_u64(gguf, "llama.embedding_length", 0),
                                      tv_gguf_u64(gguf, "llama.attention.head_count", 0));
    const tv_gguf_meta *meta;
    tv_status status = TV_OK;
    for (uint64_t i = 0; status == TV_OK && (meta = tv_gguf_meta_at(gguf, i)); i++) {
        const feature *row = find_feature(gguf_features, sizeof gguf_features / sizeof gguf_features[0], meta->key);
        char text[SHOWN + 1];
        if (row) {
            value v = value_of_meta(gguf, meta, row->key);
            status = check_value(row, &v, head_size, path, sink);
            tv_buf_fini(&v.shown);
        } else if (meta->key.len >= sizeof prefix - 1 && memcmp(meta->key.ptr, prefix, sizeof prefix - 1) == 0) {
            status = tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(KEY_UNKNOWN),
                             "if it has no effect on results, remove the key from the file",
                             "'%s': the key '%s' is unknown; it may change what the model computes", path,
                             copy_printable(meta->key, text));
        }
    }
    return status;
}

/* The layer-independent part of a tensor's name, to say what the tensor is. */
static const char *explain_tensor(tv_sv name)
{
    static const struct {
        const char *fragment, *text;
    } known[] = {
        {"rope_freqs", "frequencies of the rotation"},
        {"rope_factors", "factors of the rotation"},
        {".bias", "a bias"},
        {"_exp", "a mixture of experts"},
        {"gate_inp", "a mixture of experts"},
        {"attn_q_norm", "a norm of queries"},
        {"attn_k_norm", "a norm of keys"},
        {"post_", "a norm after a block"},
        {"attn_sinks", "attention sinks"},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (memmem(name.ptr, name.len, known[i].fragment, strlen(known[i].fragment)))
            return known[i].text;
    return "such a tensor";
}

static int compare_pointers(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t) * (void *const *)a, y = (uintptr_t) * (void *const *)b;
    return (x > y) - (x < y);
}

tv_status tv_features_check_tensors(const tv_model *model, const char *path, const tv_diag_sink *sink)
{
    size_t count = (size_t)model->dims.layers * TV_WEIGHTS;
    const void **used = malloc(count * sizeof *used);
    if (!used)
        return tv_fail_memory(sink);
    for (size_t i = 0; i < count; i++)
        used[i] = model->matrices[i].tensor;
    qsort(used, count, sizeof *used, compare_pointers);
    const tv_gguf_tensor *tensor, *first = NULL;
    uint64_t unused = 0;
    for (uint64_t i = 0; (tensor = tv_gguf_tensor_at(model->gguf, i)); i++) {
        const void *key = tensor;
        if (bsearch(&key, used, count, sizeof *used, compare_pointers))
            continue;
        first = first ? first : tensor;
        unused++;
    }
    free(used);
    if (!first)
        return TV_OK;
    char text[SHOWN + 1], others[64] = "";
    if (unused > 1)
        snprintf(others, sizeof others, ", nor are %" PRIu64 " other%s", unused - 1, unused > 2 ? "s" : "");
    return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(TENSOR_UNUSED), "use a model without it",
                   "'%s': the tensor '%s' is used by no operation%s: %s is not supported", path,
                   copy_printable(first->name, text), others, explain_tensor(first->name));
}

/* ---- config.json ---- */

static value value_of_json(const tv_json_value *json)
{
    value v = {.kind = OTHER, .json = json};
    char text[SHOWN + 1];
    switch (json->type) {
    case TV_JSON_BOOLEAN:
        v.kind = FLAG;
        v.number = json->boolean;
        tv_buf_str(&v.shown, json->boolean ? "true" : "false");
        break;
    case TV_JSON_INTEGER:
        v.kind = json->integer >= 0 ? COUNT : REAL;
        v.number = json->real;
        tv_buf_printf(&v.shown, "%" PRId64, json->integer);
        break;
    case TV_JSON_REAL:
        v.kind = REAL;
        v.number = json->real;
        tv_buf_printf(&v.shown, "%g", json->real);
        break;
    case TV_JSON_STRING:
        v.kind = TEXT;
        v.text = (tv_sv){json->text, json->length};
        tv_buf_printf(&v.shown, "\"%s\"", copy_printable(v.text, text));
        break;
    case TV_JSON_ARRAY:
        tv_buf_printf(&v.shown, "a list of %u", json->count);
        break;
    case TV_JSON_OBJECT:
        tv_buf_printf(&v.shown, "an object with %u member%s", json->count, json->count == 1 ? "" : "s");
        break;
    case TV_JSON_NULL:
        break;
    }
    return v;
}

tv_status tv_features_check_config(const tv_json_value *root, const char *path, const tv_diag_sink *sink)
{
    int64_t dim = tv_json_integer(tv_json_get(root, "hidden_size")),
            heads = tv_json_integer(tv_json_get(root, "num_attention_heads"));
    uint64_t head_size = dim > 0 && heads > 0 ? divide_heads((uint64_t)dim, (uint64_t)heads) : 0;
    tv_status status = TV_OK;
    for (const tv_json_value *member = tv_json_first(root); member && status == TV_OK; member = member->next) {
        const feature *row =
            find_feature(config_features, sizeof config_features / sizeof config_features[0], tv_sv_of(member->key));
        char text[SHOWN + 1];
        if (member->type == TV_JSON_NULL) /* as if it were missing */
            continue;
        if (row) {
            value v = value_of_json(member);
            status = check_value(row, &v, head_size, path, sink);
            tv_buf_fini(&v.shown);
        } else {
            tv_report(sink, TV_WARNING, TV_LLM_CODE(KEY_UNKNOWN), &TV_NO_SOURCE_LOC, NULL,
                      "'%s': the key '%s' is unknown; it has no effect on the timing", path,
                      copy_printable(tv_sv_of(member->key), text));
        }
    }
    return status;
}
