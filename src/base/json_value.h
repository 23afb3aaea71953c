/* SPDX-License-Identifier: Apache-2.0 */
/* JSON documents as trees: for small ones that are looked at in any order (configurations, requests, the parts of a
 * trace around its events). A tree is read-only once built and lives in an arena of the caller. An object with a key
 * twice, a string that contains a NUL and a number too large for a double are errors. */
#ifndef TV_BASE_JSON_VALUE_H
#define TV_BASE_JSON_VALUE_H

#include "base/arena.h"
#include "base/json_reader.h"

typedef enum tv_json_type {
    TV_JSON_NULL,
    TV_JSON_BOOLEAN,
    TV_JSON_INTEGER, /* without fraction and exponent, from INT64_MIN to INT64_MAX */
    TV_JSON_REAL,
    TV_JSON_STRING,
    TV_JSON_ARRAY,
    TV_JSON_OBJECT
} tv_json_type;

typedef struct tv_json_value {
    tv_json_type type;
    bool boolean;                /* BOOLEAN */
    int64_t integer;             /* INTEGER */
    double real;                 /* REAL and INTEGER */
    const char *text;            /* STRING: unescaped UTF-8; numbers: as in the document, NULL if built from a value */
    size_t length;               /* of `text`, in bytes */
    const char *key;             /* of a member of an object, otherwise NULL */
    unsigned count;              /* ARRAY, OBJECT: elements or members */
    struct tv_json_value *first; /* … the first of them, in document order */
    struct tv_json_value *next;  /* the element or member after this one */
    uint64_t end; /* parsed: offset of the end of its key, or of its first token without a key; built: 0 */
} tv_json_value;

/* Every accessor below takes NULL and values of any type, so that calls can be nested; the answer is then NULL, 0 or
 * false. */

/* The member `key` of an object. */
const tv_json_value *tv_json_get(const tv_json_value *object, const char *key);

/* The element of an array with this index; linear in `index`. */
const tv_json_value *tv_json_at(const tv_json_value *array, unsigned index);

/* The elements or members one by one: for (v = tv_json_first(list); v; v = v->next). */
static inline const tv_json_value *tv_json_first(const tv_json_value *v) { return v ? v->first : NULL; }

static inline unsigned tv_json_count(const tv_json_value *v) { return v ? v->count : 0; }

static inline bool tv_json_is(const tv_json_value *v, tv_json_type type) { return v && v->type == type; }

static inline bool tv_json_is_number(const tv_json_value *v)
{
    return tv_json_is(v, TV_JSON_INTEGER) || tv_json_is(v, TV_JSON_REAL);
}

static inline bool tv_json_is_true(const tv_json_value *v) { return tv_json_is(v, TV_JSON_BOOLEAN) && v->boolean; }

static inline const char *tv_json_string(const tv_json_value *v)
{
    return tv_json_is(v, TV_JSON_STRING) ? v->text : NULL;
}

static inline int64_t tv_json_integer(const tv_json_value *v)
{
    return tv_json_is(v, TV_JSON_INTEGER) ? v->integer : 0;
}

static inline double tv_json_number(const tv_json_value *v) { return tv_json_is_number(v) ? v->real : 0; }

/* Parses one document of at most `max_size` bytes. NULL: *error (not NULL) says what and where. The tree does not refer
 * to `text`. */
const tv_json_value *tv_json_parse(tv_arena *arena, tv_sv text, size_t max_size, tv_json_error *error);

/* The number of the line, from 1, that `offset` is in. */
unsigned tv_json_line(tv_sv text, uint64_t offset);

/* ---- Building ---- */

enum { TV_JSON_BUILD_DEPTH = 128 };

/* Builds a tree from events: those of a reader, or calls. The events must be well-formed: keys in objects only, one
 * for each member, brackets in pairs, one value at the top. Storage of the caller, without fini: all memory is the
 * arena's. The first failure sticks; `error` says what it is, and later calls do nothing. */
typedef struct tv_json_builder {
    tv_arena *arena;
    size_t max_size, size; /* bytes of tree */
    tv_json_error_kind error;
    const char *key;                          /* of the next value */
    uint64_t key_end;                         /* parsed: offset of the end of `key` */
    const tv_json_reader *reader;             /* whose events these are, or NULL */
    tv_json_value *root;                      /* the top-level value, once it has begun */
    tv_json_value *open[TV_JSON_BUILD_DEPTH]; /* arrays and objects; the innermost last */
    tv_json_value **end[TV_JSON_BUILD_DEPTH]; /* where their next element is linked */
    unsigned depth;
} tv_json_builder;

void tv_json_builder_init(tv_json_builder *builder, tv_arena *arena, size_t max_size);

/* Each returns false once something has failed. Texts are copied. */
bool tv_json_build_null(tv_json_builder *builder);
bool tv_json_build_boolean(tv_json_builder *builder, bool value);
bool tv_json_build_number(tv_json_builder *builder, tv_sv text); /* a JSON number */
bool tv_json_build_integer(tv_json_builder *builder, int64_t value);
bool tv_json_build_real(tv_json_builder *builder, double value); /* null when not finite */
bool tv_json_build_string(tv_json_builder *builder, tv_sv text);
bool tv_json_build_key(tv_json_builder *builder, tv_sv text);
bool tv_json_build_begin_object(tv_json_builder *builder);
bool tv_json_build_end_object(tv_json_builder *builder);
bool tv_json_build_begin_array(tv_json_builder *builder);
bool tv_json_build_end_array(tv_json_builder *builder);

/* A whole value was built. */
static inline bool tv_json_builder_done(const tv_json_builder *b)
{
    return b->error == TV_JSON_OK && b->root && b->depth == 0;
}

/* A message for TV_JSON_SIZE, TV_JSON_DUPLICATE, TV_JSON_VALUE, … */
const char *tv_json_error_text(tv_json_error_kind kind);

#endif
