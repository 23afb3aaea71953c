/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_value.h"

#include <math.h>
#include <stdlib.h>

/* Objects with more members than this are sorted to find duplicate keys. */
enum { FEW_MEMBERS = 16 };

const tv_json_value *tv_json_get(const tv_json_value *object, const char *key)
{
    if (!tv_json_is(object, TV_JSON_OBJECT))
        return NULL;
    const tv_json_value *v = object->first;
    while (v && strcmp(v->key, key) != 0)
        v = v->next;
    return v;
}

const tv_json_value *tv_json_at(const tv_json_value *array, unsigned index)
{
    const tv_json_value *v = tv_json_is(array, TV_JSON_ARRAY) ? array->first : NULL;
    while (v && index--)
        v = v->next;
    return v;
}

unsigned tv_json_line(tv_sv text, uint64_t offset)
{
    unsigned line = 1;
    for (uint64_t i = 0; i < offset && i < text.len; i++)
        line += text.ptr[i] == '\n';
    return line;
}

/* ---- Building ---- */

void tv_json_builder_init(tv_json_builder *b, tv_arena *arena, size_t max_size)
{
    b->arena = arena;
    b->max_size = max_size;
    b->size = 0;
    b->error = TV_JSON_OK;
    b->key = NULL;
    b->reader = NULL;
    b->root = NULL;
    b->depth = 0;
}

const char *tv_json_error_text(tv_json_error_kind kind)
{
    switch (kind) {
    case TV_JSON_OK:
        return "";
    case TV_JSON_SYNTAX:
        return "it cannot be parsed";
    case TV_JSON_UTF8:
        return "the string is not UTF-8";
    case TV_JSON_DEPTH:
        return "nested too deeply";
    case TV_JSON_TOKEN:
        return "a string or number is too long";
    case TV_JSON_SIZE:
        return "the value is too large";
    case TV_JSON_DUPLICATE:
        return "a key is given twice in one object";
    case TV_JSON_VALUE:
        return "a string contains a NUL, or a number is out of range";
    case TV_JSON_STOPPED:
        return "stopped";
    case TV_JSON_MEMORY:
        return "out of memory";
    }
    return "unknown error";
}

static bool fail(tv_json_builder *b, tv_json_error_kind kind)
{
    if (b->error == TV_JSON_OK)
        b->error = kind;
    return false;
}

static void *allocate(tv_json_builder *b, size_t size)
{
    if (b->error != TV_JSON_OK)
        return NULL;
    if (size > b->max_size - b->size) {
        fail(b, TV_JSON_SIZE);
        return NULL;
    }
    void *p = tv_arena_alloc(b->arena, size);
    if (!p)
        fail(b, TV_JSON_MEMORY);
    else
        b->size += size;
    return p;
}

static const char *copy_text(tv_json_builder *b, tv_sv text)
{
    if (text.len && memchr(text.ptr, '\0', text.len)) {
        fail(b, TV_JSON_VALUE);
        return NULL;
    }
    char *copy = allocate(b, text.len + 1);
    if (copy && text.len)
        memcpy(copy, text.ptr, text.len);
    return copy;
}

/* A new value, linked to the array or object that is open. NULL: `error` is set. */
static tv_json_value *add_value(tv_json_builder *b, tv_json_type type)
{
    tv_json_value *v = allocate(b, sizeof *v);
    if (!v)
        return NULL;
    v->type = type;
    v->key = b->key;
    v->end = !b->reader ? 0 : b->key ? b->key_end : tv_json_reader_offset(b->reader);
    b->key = NULL;
    if (b->depth == 0) {
        assert(!b->root);
        b->root = v;
        return v;
    }
    tv_json_value *parent = b->open[b->depth - 1];
    assert((parent->type == TV_JSON_OBJECT) == (v->key != NULL));
    *b->end[b->depth - 1] = v;
    b->end[b->depth - 1] = &v->next;
    parent->count++;
    return v;
}

bool tv_json_build_null(tv_json_builder *b) { return add_value(b, TV_JSON_NULL) != NULL; }

bool tv_json_build_boolean(tv_json_builder *b, bool value)
{
    tv_json_value *v = add_value(b, TV_JSON_BOOLEAN);
    if (!v)
        return false;
    v->boolean = value;
    return true;
}

bool tv_json_build_number(tv_json_builder *b, tv_sv text)
{
    tv_json_value *v = add_value(b, TV_JSON_INTEGER);
    if (!v || !(v->text = copy_text(b, text)))
        return false;
    v->length = text.len;
    if (tv_json_number_integer(text, &v->integer)) {
        v->real = (double)v->integer;
        return true;
    }
    v->type = TV_JSON_REAL;
    if (!tv_json_number_value(text, &v->real))
        return fail(b, TV_JSON_MEMORY);
    return isfinite(v->real) || fail(b, TV_JSON_VALUE);
}

bool tv_json_build_integer(tv_json_builder *b, int64_t value)
{
    tv_json_value *v = add_value(b, TV_JSON_INTEGER);
    if (!v)
        return false;
    v->integer = value;
    v->real = (double)value;
    return true;
}

bool tv_json_build_real(tv_json_builder *b, double value)
{
    tv_json_value *v = add_value(b, isfinite(value) ? TV_JSON_REAL : TV_JSON_NULL);
    if (!v)
        return false;
    v->real = value;
    return true;
}

bool tv_json_build_string(tv_json_builder *b, tv_sv text)
{
    tv_json_value *v = add_value(b, TV_JSON_STRING);
    if (!v || !(v->text = copy_text(b, text)))
        return false;
    v->length = text.len;
    return true;
}

bool tv_json_build_key(tv_json_builder *b, tv_sv text)
{
    b->key = copy_text(b, text);
    b->key_end = b->reader ? tv_json_reader_offset(b->reader) : 0;
    return b->key != NULL;
}

static bool begin(tv_json_builder *b, tv_json_type type)
{
    if (b->depth == TV_JSON_BUILD_DEPTH)
        return fail(b, TV_JSON_DEPTH);
    tv_json_value *v = add_value(b, type);
    if (!v)
        return false;
    b->open[b->depth] = v;
    b->end[b->depth] = &v->first;
    b->depth++;
    return true;
}

bool tv_json_build_begin_object(tv_json_builder *b) { return begin(b, TV_JSON_OBJECT); }

bool tv_json_build_begin_array(tv_json_builder *b) { return begin(b, TV_JSON_ARRAY); }

static int compare_keys(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool has_duplicate_sorted(tv_json_builder *b, const tv_json_value *object)
{
    const char **keys = malloc(object->count * sizeof *keys);
    unsigned n = 0;
    bool found = false;
    if (!keys) {
        fail(b, TV_JSON_MEMORY);
        return false;
    }
    for (const tv_json_value *v = object->first; v; v = v->next)
        keys[n++] = v->key;
    qsort(keys, n, sizeof *keys, compare_keys);
    for (unsigned i = 1; i < n && !found; i++)
        found = strcmp(keys[i - 1], keys[i]) == 0;
    free(keys);
    return found;
}

static bool has_duplicate(const tv_json_value *object)
{
    for (const tv_json_value *v = object->first; v; v = v->next)
        for (const tv_json_value *w = v->next; w; w = w->next)
            if (strcmp(v->key, w->key) == 0)
                return true;
    return false;
}

bool tv_json_build_end_object(tv_json_builder *b)
{
    if (b->error != TV_JSON_OK)
        return false;
    const tv_json_value *object = b->open[--b->depth];
    if (object->count > FEW_MEMBERS ? has_duplicate_sorted(b, object) : has_duplicate(object))
        return fail(b, TV_JSON_DUPLICATE);
    return b->error == TV_JSON_OK;
}

bool tv_json_build_end_array(tv_json_builder *b)
{
    if (b->error != TV_JSON_OK)
        return false;
    b->depth--;
    return true;
}

/* ---- Parsing ---- */

static bool on_null(void *user) { return tv_json_build_null(user); }

static bool on_boolean(void *user, bool value) { return tv_json_build_boolean(user, value); }

static bool on_number(void *user, tv_sv text) { return tv_json_build_number(user, text); }

static bool on_string(void *user, tv_sv text) { return tv_json_build_string(user, text); }

static bool on_key(void *user, tv_sv text) { return tv_json_build_key(user, text); }

static bool on_begin_object(void *user) { return tv_json_build_begin_object(user); }

static bool on_end_object(void *user) { return tv_json_build_end_object(user); }

static bool on_begin_array(void *user) { return tv_json_build_begin_array(user); }

static bool on_end_array(void *user) { return tv_json_build_end_array(user); }

const tv_json_value *tv_json_parse(tv_arena *arena, tv_sv text, size_t max_size, tv_json_error *error)
{
    static const tv_json_handler handler = {.null = on_null,
                                            .boolean = on_boolean,
                                            .number = on_number,
                                            .string = on_string,
                                            .key = on_key,
                                            .begin_object = on_begin_object,
                                            .end_object = on_end_object,
                                            .begin_array = on_begin_array,
                                            .end_array = on_end_array};
    tv_json_reader reader;
    tv_json_builder builder;
    *error = (tv_json_error){.kind = TV_JSON_OK};
    if (text.len > max_size) {
        *error = (tv_json_error){.kind = TV_JSON_SIZE};
        memcpy(error->message, "the document is too large", sizeof "the document is too large");
        return NULL;
    }
    /* The tree of a text is a multiple of its size, so this bounds both. */
    tv_json_builder_init(&builder, arena, SIZE_MAX);
    builder.reader = &reader;
    tv_json_reader_init(&reader, &handler, &builder, (tv_json_limits){.depth = 64, .token = UINT64_MAX});
    tv_json_reader_feed(&reader, text.ptr, text.len);
    tv_json_reader_finish(&reader);
    *error = reader.error;
    tv_json_reader_fini(&reader);
    if (error->kind == TV_JSON_STOPPED) {
        const char *message = tv_json_error_text(builder.error);
        error->kind = builder.error;
        memcpy(error->message, message, strlen(message) + 1);
    }
    return error->kind == TV_JSON_OK ? builder.root : NULL;
}
