/* SPDX-License-Identifier: Apache-2.0 */
/* A streaming JSON writer to a tv_buf or a FILE. Allocates nothing itself; a failure of the buffer or the file sticks
 * and is reported once, by tv_json_writer_finish. The calls must be well-formed, as in json_value.h: this is
 * asserted.
 *
 * Written here, and not taken from a library, because the three styles below cannot be had from yajl_gen, which also
 * aborts when memory is short. */
#ifndef TV_BASE_JSON_WRITER_H
#define TV_BASE_JSON_WRITER_H

#include <stdio.h>

#include "base/buf.h"
#include "base/json_value.h"

typedef enum tv_json_style {
    TV_JSON_COMPACT, /* {"a":1,"b":[2,3]} */
    TV_JSON_SPACED,  /* {"a": 1, "b": [2, 3]} */
    TV_JSON_INDENTED /* every member and element on a line of its own, indented by one space a level */
} tv_json_style;

enum { TV_JSON_WRITE_DEPTH = 128, TV_JSON_STAGE = 4096 };

/* Storage of the caller. Members are private. */
typedef struct tv_json_writer {
    tv_buf *buf; /* or NULL */
    FILE *file;  /* or NULL */
    tv_json_style style;
    bool failed;
    bool after_key;                             /* the next value is a member's */
    bool newline;                               /* tv_json_newline was called */
    bool is_first;                              /* of its array or object; or at the top */
    unsigned depth;                             /* open arrays and objects */
    size_t staged;                              /* bytes in `stage` */
    uint64_t objects[TV_JSON_WRITE_DEPTH / 64]; /* bit d: level d is an object */
    char stage[TV_JSON_STAGE];
} tv_json_writer;

/* The sink stays the caller's. Nothing may be written to it by others before tv_json_writer_flush or _finish. */
void tv_json_writer_init_buf(tv_json_writer *writer, tv_buf *buf, tv_json_style style);
void tv_json_writer_init_file(tv_json_writer *writer, FILE *file, tv_json_style style);

/* Passes what is staged to the sink. */
void tv_json_writer_flush(tv_json_writer *writer);

/* Flushes; all values must be complete. false: something could not be written. There is no fini. */
bool tv_json_writer_finish(tv_json_writer *writer);

void tv_json_begin_object(tv_json_writer *writer);
void tv_json_end_object(tv_json_writer *writer);
void tv_json_begin_array(tv_json_writer *writer);
void tv_json_end_array(tv_json_writer *writer);
void tv_json_key(tv_json_writer *writer, const char *key);
void tv_json_write_null(tv_json_writer *writer);
void tv_json_write_boolean(tv_json_writer *writer, bool value);
void tv_json_write_integer(tv_json_writer *writer, int64_t value);
void tv_json_write_unsigned(tv_json_writer *writer, uint64_t value);

/* At most `digits` significant digits, or, if 0, as many as it takes to read the same number back (15 to 17, without
 * trailing zeros). With a fraction or an exponent, so that it reads back as a real: 1.0. Not finite: null. */
void tv_json_write_real(tv_json_writer *writer, double value, int digits);

/* Likewise, but whole values have no fraction: 1. */
void tv_json_write_number(tv_json_writer *writer, double value, int digits);

/* Control characters, quotation marks and backslashes are escaped. `text` NULL is written as null. In a text that is
 * not UTF-8 every byte past ASCII becomes '?'. */
void tv_json_write_string(tv_json_writer *writer, const char *text);
void tv_json_write_text(tv_json_writer *writer, tv_sv text);

/* A tree, or null for NULL. Numbers that were read are written as they were read, others as tv_json_write_real does
 * with `digits`. */
void tv_json_write_value(tv_json_writer *writer, const tv_json_value *value, int digits);

/* The members of `object` (NULL: none), into the object that is open. */
void tv_json_write_members(tv_json_writer *writer, const tv_json_value *object, int digits);

/* `text` is a whole JSON value from a file, and is copied as it is. */
void tv_json_write_raw(tv_json_writer *writer, tv_sv text);

/* The next key, value or closing bracket begins on a new line, in any style; after the last value, the text ends with a
 * newline. */
void tv_json_newline(tv_json_writer *writer);

/* A key and a value. */
static inline void tv_json_string_member(tv_json_writer *w, const char *key, const char *text)
{
    tv_json_key(w, key);
    tv_json_write_string(w, text);
}

static inline void tv_json_integer_member(tv_json_writer *w, const char *key, int64_t value)
{
    tv_json_key(w, key);
    tv_json_write_integer(w, value);
}

static inline void tv_json_unsigned_member(tv_json_writer *w, const char *key, uint64_t value)
{
    tv_json_key(w, key);
    tv_json_write_unsigned(w, value);
}

static inline void tv_json_real_member(tv_json_writer *w, const char *key, double value, int digits)
{
    tv_json_key(w, key);
    tv_json_write_real(w, value, digits);
}

static inline void tv_json_boolean_member(tv_json_writer *w, const char *key, bool value)
{
    tv_json_key(w, key);
    tv_json_write_boolean(w, value);
}

static inline void tv_json_null_member(tv_json_writer *w, const char *key)
{
    tv_json_key(w, key);
    tv_json_write_null(w);
}

#endif
