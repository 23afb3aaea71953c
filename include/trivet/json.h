/* SPDX-License-Identifier: Apache-2.0 */
/* A streaming JSON writer, for programs that report results as JSON.
 *
 * Values, keys and brackets are written in document order: in an object each value is preceded by its key; brackets
 * come in pairs; there is one value at the top. A call that violates this is a bug of the caller and may abort. Write
 * errors are kept and reported by tv_json_writer_finish. A writer belongs to one thread at a time. */
#ifndef TRIVET_JSON_H
#define TRIVET_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "trivet/diag.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tv_json_style {
    TV_JSON_COMPACT, /* {"a":1,"b":[2,3]} */
    TV_JSON_SPACED,  /* {"a": 1, "b": [2, 3]} */
    TV_JSON_INDENTED /* every member and element on a line of its own, indented by one space a level */
} tv_json_style;

typedef struct tv_json_writer tv_json_writer;

/* Creates a writer to `file` with the layout `style`. `file` stays the caller's; nothing else may write to it before
 * tv_json_writer_finish. The caller frees the writer with tv_json_writer_free. Returns NULL when out of memory. */
TV_API tv_json_writer *tv_json_writer_new(FILE *file, tv_json_style style);

/* Frees `writer`, which may be NULL. Text that tv_json_writer_finish has not written is lost. */
TV_API void tv_json_writer_free(tv_json_writer *writer);

/* Writes all remaining text to the file; the document must be complete. Returns false when anything could not be
 * written since the writer was created. */
TV_API bool tv_json_writer_finish(tv_json_writer *writer);

/* Begins an object. */
TV_API void tv_json_begin_object(tv_json_writer *writer);

/* Ends the innermost object. */
TV_API void tv_json_end_object(tv_json_writer *writer);

/* Begins an array. */
TV_API void tv_json_begin_array(tv_json_writer *writer);

/* Ends the innermost array. */
TV_API void tv_json_end_array(tv_json_writer *writer);

/* Writes `key`, escaped as by tv_json_write_string, before the value of a member. */
TV_API void tv_json_key(tv_json_writer *writer, const char *key);

/* Writes null. */
TV_API void tv_json_write_null(tv_json_writer *writer);

/* Writes `value` as true or false. */
TV_API void tv_json_write_boolean(tv_json_writer *writer, bool value);

/* Writes the integer `value`. */
TV_API void tv_json_write_integer(tv_json_writer *writer, int64_t value);

/* Writes the integer `value`. */
TV_API void tv_json_write_unsigned(tv_json_writer *writer, uint64_t value);

/* Writes `value` with at most `digits` significant digits, or, if 0, with as many as it takes to read the same number
 * back (15 to 17, without trailing zeros). There is a fraction or an exponent, so that it reads back as a real: 1.0.
 * Values that are not finite are written as null. */
TV_API void tv_json_write_real(tv_json_writer *writer, double value, int digits);

/* Writes `text` as a string, or null: `text` may be NULL. Control characters, quotation marks and backslashes are
 * escaped. In a text that is not UTF-8 every byte above 127 becomes '?'. */
TV_API void tv_json_write_string(tv_json_writer *writer, const char *text);

/* Writes `diag` as an object, as tv_diag_json formats it. */
TV_API void tv_diag_write_json(tv_json_writer *writer, const tv_diag *diag);

/* A key and its value. */
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

#ifdef __cplusplus
}
#endif
#endif
