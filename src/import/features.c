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
    const char *key; /* of a config.json: names separated by '|' */
    tv_feature_kind kind;
    tv_feature_rule rule;
    const char *name; /* of the feature */
} feature;

static const feature gguf_features[] = {
#define COUNT(member, key, names, fallback, min, max) {"." key, TV_FEATURE_ANY, TV_FEATURE_READ, ""},
#define REAL(member, key, names, fallback) {"." key, TV_FEATURE_REAL, TV_FEATURE_READ, ""},
#include "import/params.def"
#define KEY(key, kind, rule, feature) {key, TV_FEATURE_##kind, TV_FEATURE_##rule, feature},
#include "import/features.def"
};

static const feature config_features[] = {
#define COUNT(member, key, names, fallback, min, max) {names, TV_FEATURE_ANY, TV_FEATURE_READ, ""},
#define REAL(member, key, names, fallback) {names, TV_FEATURE_REAL, TV_FEATURE_READ, ""},
#include "import/params.def"
#define CONFIG(key, kind, rule, feature) {key, TV_FEATURE_##kind, TV_FEATURE_##rule, feature},
#include "import/features.def"
};

/* A value of a key: what rules compare, and its text in messages. */
typedef struct value {
    enum { COUNT, REAL, TEXT, FLAG, LIST, OTHER } kind;
    double number; /* COUNT, REAL; FLAG: 0 or 1; LIST: of elements */
    tv_sv text;    /* TEXT */
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

/* True when `key` is one of the names. */
static bool is_one_of(tv_sv key, const char *names)
{
    for (size_t length; *names; names += length + (names[length] == '|')) {
        length = strcspn(names, "|");
        if (key.len == length && memcmp(key.ptr, names, length) == 0)
            return true;
    }
    return false;
}

static const feature *find_feature(const feature *rows, size_t count, tv_sv key)
{
    for (size_t i = 0; i < count; i++)
        if (is_one_of(key, rows[i].key))
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

static bool is_activation(tv_sv name, tv_activation activation)
{
    if (activation == TV_ACTIVATION_GELU_TANH)
        return tv_sv_is(name, "gelu_pytorch_tanh") || tv_sv_is(name, "gelu_new") || tv_sv_is(name, "gelu_tanh");
    return tv_sv_is(name, "silu") || tv_sv_is(name, "swish");
}

static bool is_accepted(const feature *row, const value *v, tv_activation activation)
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
    case TV_FEATURE_EMPTY:
        return v->kind == LIST && v->number == 0;
    case TV_FEATURE_ROPE_TYPE:
        return tv_sv_is(v->text, "none") || tv_sv_is(v->text, "linear") || tv_sv_is(v->text, "yarn") ||
               tv_sv_is(v->text, "longrope");
    case TV_FEATURE_MODEL:
        return tv_sv_is(v->text, "model");
    case TV_FEATURE_ACTIVATION:
        return is_activation(v->text, activation);
    }
    return false;
}

static tv_status check_value(const feature *row, value *v, tv_activation activation, const char *path,
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
    if (is_accepted(row, v, activation))
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

/* The part of a key from the period after the architecture on, or else the whole key. */
static tv_sv strip_architecture(tv_sv key, const char *architecture)
{
    size_t n = strlen(architecture);
    bool own = key.len > n && memcmp(key.ptr, architecture, n) == 0 && key.ptr[n] == '.';
    return own ? (tv_sv){key.ptr + n, key.len - n} : key;
}

tv_status tv_features_check_gguf(const tv_gguf *gguf, const char *architecture, const char *path,
                                 const tv_diag_sink *sink)
{
    const tv_gguf_meta *meta;
    tv_status status = TV_OK;
    for (uint64_t i = 0; status == TV_OK && (meta = tv_gguf_meta_at(gguf, i)); i++) {
        tv_sv key = strip_architecture(meta->key, architecture);
        const feature *row = find_feature(gguf_features, sizeof gguf_features / sizeof gguf_features[0], key);
        char text[SHOWN + 1], full[128];
        if (row) {
            snprintf(full, sizeof full, "%s%s", *row->key == '.' ? architecture : "", row->key);
            value v = value_of_meta(gguf, meta, full);
            feature named = *row;
            named.key = full;
            status = check_value(&named, &v, TV_ACTIVATION_NONE, path, sink);
            tv_buf_fini(&v.shown);
        } else if (key.len != meta->key.len) {
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

tv_status tv_features_check_tensors(const tv_gguf *gguf, const bool *used, const char *path, const tv_diag_sink *sink)
{
    const tv_gguf_tensor *tensor, *first = NULL;
    uint64_t unused = 0;
    for (uint64_t i = 0; (tensor = tv_gguf_tensor_at(gguf, i)); i++)
        if (!used[i]) {
            first = first ? first : tensor;
            unused++;
        }
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
    value v = {.kind = OTHER};
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
        v.kind = LIST;
        v.number = json->count;
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

tv_status tv_features_check_config(const tv_json_value *root, tv_activation activation, const char *path,
                                   const tv_diag_sink *sink)
{
    tv_status status = TV_OK;
    for (const tv_json_value *member = tv_json_first(root); member && status == TV_OK; member = member->next) {
        const feature *row =
            find_feature(config_features, sizeof config_features / sizeof config_features[0], tv_sv_of(member->key));
        char text[SHOWN + 1];
        if (member->type == TV_JSON_NULL) /* as if it were missing */
            continue;
        if (row) {
            value v = value_of_json(member);
            feature named = *row;
            named.key = member->key;
            status = check_value(&named, &v, activation, path, sink);
            tv_buf_fini(&v.shown);
        } else {
            tv_report(sink, TV_WARNING, TV_LLM_CODE(KEY_UNKNOWN), &TV_NO_SOURCE_LOC, NULL,
                      "'%s': the key '%s' is unknown; it has no effect on the timing", path,
                      copy_printable(tv_sv_of(member->key), text));
        }
    }
    return status;
}
