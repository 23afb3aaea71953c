/* SPDX-License-Identifier: Apache-2.0 */
/* GGUF metadata values: numeric conversion and printing. */
#include "import/gguf.h"
#include "num/float.h"

static const char *const kind_names[TV_GGUF_KINDS] = {"u8",   "i8",      "u16",    "i16", "u32", "i32", "f32",
                                                      "bool", "strings", "arrays", "u64", "i64", "f64"};

/* A number of any kind. */
typedef struct number {
    enum { NONE, UNSIGNED, SIGNED, REAL } is;
    uint64_t u;
    int64_t i;
    double f;
} number;

static number load_number(tv_gguf_kind kind, const uint8_t *p)
{
    switch (kind) {
    case TV_GGUF_KIND_U8:
    case TV_GGUF_KIND_BOOL:
        return (number){.is = UNSIGNED, .u = *p};
    case TV_GGUF_KIND_U16:
        return (number){.is = UNSIGNED, .u = tv_load_le16(p)};
    case TV_GGUF_KIND_U32:
        return (number){.is = UNSIGNED, .u = tv_load_le32(p)};
    case TV_GGUF_KIND_U64:
        return (number){.is = UNSIGNED, .u = tv_load_le64(p)};
    case TV_GGUF_KIND_I8:
        return (number){.is = SIGNED, .i = (int8_t)*p};
    case TV_GGUF_KIND_I16:
        return (number){.is = SIGNED, .i = (int16_t)tv_load_le16(p)};
    case TV_GGUF_KIND_I32:
        return (number){.is = SIGNED, .i = (int32_t)tv_load_le32(p)};
    case TV_GGUF_KIND_I64:
        return (number){.is = SIGNED, .i = (int64_t)tv_load_le64(p)};
    case TV_GGUF_KIND_F32:
        return (number){.is = REAL, .f = (double)tv_f32_of_bits(tv_load_le32(p))};
    case TV_GGUF_KIND_F64:
        return (number){.is = REAL, .f = tv_f64_of_bits(tv_load_le64(p))};
    case TV_GGUF_KIND_STRING:
    case TV_GGUF_KIND_ARRAY:
    case TV_GGUF_KINDS:
        break;
    }
    return (number){.is = NONE};
}

static number meta_number(const tv_gguf_meta *meta)
{
    return meta ? load_number(meta->kind, (const uint8_t *)meta->value.ptr) : (number){.is = NONE};
}

int64_t tv_gguf_list_i64(const tv_gguf_list *list, uint64_t i)
{
    number n = load_number(list->kind, list->data + i * tv_gguf_kind_bytes[list->kind]);
    if (n.is == SIGNED)
        return n.i;
    return n.is == UNSIGNED ? (int64_t)tv_min_u64(n.u, INT64_MAX) : 0;
}

/* IEEE 754 conversion to F32: large numbers become infinite. */
static float round_to_f32(double x) { return (float)x; }

float tv_gguf_list_f32(const tv_gguf_list *list, uint64_t i)
{
    number n = load_number(list->kind, list->data + i * tv_gguf_kind_bytes[list->kind]);
    return n.is == REAL ? round_to_f32(n.f) : 0.0f;
}

tv_sv tv_gguf_string(const tv_gguf *gguf, const char *key, tv_sv fallback)
{
    const tv_gguf_meta *meta = tv_gguf_meta_find(gguf, key);
    return meta && meta->kind == TV_GGUF_KIND_STRING ? meta->value : fallback;
}

uint64_t tv_gguf_u64(const tv_gguf *gguf, const char *key, uint64_t fallback)
{
    const tv_gguf_meta *meta = tv_gguf_meta_find(gguf, key);
    if (!meta || meta->kind == TV_GGUF_KIND_BOOL)
        return fallback;
    number n = meta_number(meta);
    if (n.is == SIGNED && n.i >= 0)
        return (uint64_t)n.i;
    return n.is == UNSIGNED ? n.u : fallback;
}

float tv_gguf_f32(const tv_gguf *gguf, const char *key, float fallback)
{
    number n = meta_number(tv_gguf_meta_find(gguf, key));
    return n.is == REAL ? round_to_f32(n.f) : fallback;
}

bool tv_gguf_bool(const tv_gguf *gguf, const char *key, bool fallback)
{
    const tv_gguf_meta *meta = tv_gguf_meta_find(gguf, key);
    return meta && meta->kind == TV_GGUF_KIND_BOOL ? meta->value.ptr[0] != 0 : fallback;
}

bool tv_gguf_array(const tv_gguf *gguf, const char *key, tv_gguf_list *out)
{
    const tv_gguf_meta *meta = tv_gguf_meta_find(gguf, key);
    if (!meta || meta->kind != TV_GGUF_KIND_ARRAY)
        return false;
    *out = meta->list;
    return true;
}

void tv_gguf_meta_print(const tv_gguf_meta *meta, size_t width, tv_buf *buf)
{
    if (meta->kind == TV_GGUF_KIND_ARRAY) {
        tv_buf_printf(buf, "[%llu %s]", (unsigned long long)meta->list.count, kind_names[meta->list.kind]);
        return;
    }
    if (meta->kind == TV_GGUF_KIND_STRING) {
        for (size_t i = 0; i < meta->value.len && i < width; i++) {
            char c = meta->value.ptr[i];
            tv_buf_append(buf, c >= ' ' && c <= '~' ? &c : "?", 1);
        }
        tv_buf_str(buf, meta->value.len > width ? "…" : "");
        return;
    }
    number n = meta_number(meta);
    if (meta->kind == TV_GGUF_KIND_BOOL)
        tv_buf_str(buf, n.u ? "true" : "false");
    else if (n.is == UNSIGNED)
        tv_buf_printf(buf, "%llu", (unsigned long long)n.u);
    else if (n.is == SIGNED)
        tv_buf_printf(buf, "%lld", (long long)n.i);
    else
        tv_buf_printf(buf, "%g", n.f);
}
