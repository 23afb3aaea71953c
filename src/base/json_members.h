/* SPDX-License-Identifier: Apache-2.0 */
/* Objects whose keys are literals, for writers of millions of them: room is checked once for each text, and separators
 * need no state. In compact style only.
 *
 *     tv_json_members m = tv_json_begin_members(&writer);
 *     TV_JSON_MEMBER(&m, "op", text, "GEMV");
 *     TV_JSON_MEMBER(&m, "start", unsigned, 17);
 *     tv_json_end_members(&m);
 *
 * The writer is used for nothing else in between. */
#ifndef TV_BASE_JSON_MEMBERS_H
#define TV_BASE_JSON_MEMBERS_H

#include "base/json_text.h"
#include "base/json_writer.h"

/* Bytes of all keys, brackets, numbers and copied values between two texts, at most. */
enum { TV_JSON_MEMBERS_ROOM = 1024 };

/* Storage of the caller. */
typedef struct tv_json_members {
    tv_json_writer *writer;
    char *at; /* in its stage: after a bracket, or the comma that each member ends with */
} tv_json_members;

/* An object as the writer's next value, and its end. It must have a member. */
tv_json_members tv_json_begin_members(tv_json_writer *writer);
void tv_json_end_members(tv_json_members *members);

/* A member with a value of tv_json_put_TYPE. No character of the key is one that JSON escapes. */
#define TV_JSON_MEMBER(members, name, type, ...)                                                                       \
    (TV_JSON_PUT(members, "\"" name "\":"), tv_json_put_##type(members, __VA_ARGS__))

/* A member that is an object, until tv_json_put_end. It may be empty. */
#define TV_JSON_BEGIN_MEMBER(members, name) TV_JSON_PUT(members, "\"" name "\":{")

#define TV_JSON_PUT(members, text) tv_json_put_bytes(members, text, sizeof text - 1)

/* Asserts that the stage has room for `count` bytes more. */
static inline void tv_json_check_room(const tv_json_members *m, size_t count)
{
    assert(count <= (size_t)(m->writer->stage + TV_JSON_STAGE - m->at));
    (void)m;
    (void)count;
}

static inline void tv_json_put_bytes(tv_json_members *m, const char *bytes, size_t count)
{
    tv_json_check_room(m, count);
    memcpy(m->at, bytes, count);
    m->at += count;
}

/* A value that was put before, and its comma: `length` bytes, of the `size` that are copied. A constant size is faster
 * than a call. */
static inline void tv_json_put_copy(tv_json_members *m, const char *value, size_t size, size_t length)
{
    tv_json_check_room(m, size);
    memcpy(m->at, value, size);
    m->at += length;
}

static inline void tv_json_put_end(tv_json_members *m)
{
    m->at -= m->at[-1] == ',';
    TV_JSON_PUT(m, "},");
}

static inline void tv_json_put_unsigned(tv_json_members *m, uint64_t value)
{
    tv_json_check_room(m, TV_JSON_DIGITS + 1);
    m->at = tv_json_put_digits(m->at, value);
    *m->at++ = ',';
}

static inline void tv_json_put_integer(tv_json_members *m, int64_t value)
{
    if (value < 0)
        *m->at++ = '-';
    tv_json_put_unsigned(m, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

/* As tv_json_write_number. */
static inline void tv_json_put_number(tv_json_members *m, double value, int digits)
{
    tv_json_check_room(m, TV_JSON_NUMBER + 1);
    m->at += tv_json_format_double(value, digits, false, m->at);
    *m->at++ = ',';
}

/* A text that is long, or has characters to escape. */
void tv_json_put_long_text(tv_json_members *members, const char *text);

/* NULL: null. */
static inline void tv_json_put_text(tv_json_members *m, const char *text)
{
    if (!text) {
        TV_JSON_PUT(m, "null,");
        return;
    }
    enum { MARKS = 3 };
    size_t length = strlen(text), room = (size_t)(m->writer->stage + TV_JSON_STAGE - m->at);
    if (room < TV_JSON_MEMBERS_ROOM + MARKS || length > room - TV_JSON_MEMBERS_ROOM - MARKS ||
        !tv_json_copy_unescaped(m->at + 1, (tv_sv){text, length})) {
        tv_json_put_long_text(m, text);
        return;
    }
    m->at[0] = m->at[length + 1] = '"';
    m->at[length + 2] = ',';
    m->at += length + MARKS;
}

/* The members of `object`, which may be NULL, as tv_json_write_members writes them exactly. */
void tv_json_put_members(tv_json_members *members, const tv_json_value *object);

#endif
