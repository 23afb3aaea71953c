/* SPDX-License-Identifier: Apache-2.0 */
/* A streaming JSON writer to a tv_buf or a FILE. Allocates nothing itself; a failure of the buffer or the file sticks
 * and is reported once, by tv_json_writer_finish. The calls must be well-formed, which is asserted. The functions for
 * keys, values and brackets are in trivet/json.h, those for objects whose keys are literals in json_members.h.
 *
 * Written here, and not taken from a library, because the three styles below cannot be had from yajl_gen, which also
 * aborts when memory is short. */
#ifndef TV_BASE_JSON_WRITER_H
#define TV_BASE_JSON_WRITER_H

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/json_value.h"
#include "trivet/json.h"

enum { TV_JSON_WRITE_DEPTH = 128, TV_JSON_STAGE = 4096 };

/* Storage of the caller. Members are private. */
struct tv_json_writer {
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
};

/* The sink stays the caller's. Nothing may be written to it by others before tv_json_writer_flush or _finish. */
void tv_json_writer_init_buf(tv_json_writer *writer, tv_buf *buf, tv_json_style style);
void tv_json_writer_init_file(tv_json_writer *writer, FILE *file, tv_json_style style);

/* Passes what is staged to the sink. */
void tv_json_writer_flush(tv_json_writer *writer);

/* Writes `value` to `text` as tv_json_write_real does with `digits`, or as tv_json_write_number without `is_real`.
 * Returns the length; there may be no NUL. */
enum { TV_JSON_NUMBER = 48 };
size_t tv_json_format_double(double value, int digits, bool is_real, char text[TV_JSON_NUMBER]);

/* tv_json_write_real, but whole values have no fraction: 1. */
void tv_json_write_number(tv_json_writer *writer, double value, int digits);

/* tv_json_write_string of a view. */
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

#endif
