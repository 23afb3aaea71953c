/* SPDX-License-Identifier: Apache-2.0 */
/* The tokens of simple entries, which the fast path and its templates read without the JSON reader. Functions return
 * false at what is not simple; then a slower path reads the entry from its first byte on. */
#ifndef TV_QUEUE_TOKENS_H
#define TV_QUEUE_TOKENS_H

#include "queue/reader.h"

/* SLACK: bytes that may be read from the start of a token without a check for the end of the file. */
enum { SLACK = 32, DIGITS_MAX = 18 };

typedef struct cursor {
    reader *r;
    const uint8_t *at;
    const uint8_t *limit; /* SLACK bytes before the end of the file: tokens begin before it */
} cursor;

static inline bool is_space(uint8_t byte) { return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t'; }

static inline bool is_digit(uint8_t byte) { return byte >= '0' && byte <= '9'; }

/* A byte that ends a number or a literal. */
static inline bool is_delimiter(uint8_t byte) { return byte == ',' || byte == '}' || byte == ']' || is_space(byte); }

/* White space between tokens. */
static inline bool skip_space(cursor *s)
{
    if (s->at[0] == ' ') /* mostly there is one space, or none */
        s->at++;
    if (s->at[0] > ' ')
        return s->at < s->limit;
    while (s->at < s->limit && is_space(*s->at))
        s->at++;
    return s->at < s->limit;
}

/* The byte, with space before and after it. */
static inline bool take_byte(cursor *s, uint8_t byte)
{
    if (*s->at != byte && (!skip_space(s) || *s->at != byte))
        return false;
    s->at++;
    return skip_space(s);
}

/* A string of printable ASCII without escapes, after its opening quotation mark. Eight bytes at a time: the lowest top
 * bit that is set in `special` belongs to a byte that ends the run; higher ones may be carries. */
static inline bool take_text(cursor *s, tv_sv *text)
{
    const uint8_t *start = s->at;
    const uint64_t ones = UINT64_C(0x0101010101010101), tops = ones << 7;
    for (; s->at < s->limit && s->at - start <= STRING_MAX; s->at += 8) {
        uint64_t w = tv_load_le64(s->at), quote = w ^ ones * '"', slash = w ^ ones * '\\';
        uint64_t special = ((quote - ones) & ~quote) | ((slash - ones) & ~slash) | (w - ones * ' ') | w;
        if (!(special & tops))
            continue;
        s->at += (unsigned)__builtin_ctzll(special & tops) / 8;
        *text = (tv_sv){(const char *)start, (size_t)(s->at - start)};
        return *s->at++ == '"' && text->len <= STRING_MAX;
    }
    return false;
}

/* The number of digits that the eight bytes begin with: a digit is 0 to 9 after the exclusive or. Carries only reach
 * bytes after the first that is none. */
static inline unsigned count_digits(uint64_t bytes)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    uint64_t digits = bytes ^ ones * '0', others = ((digits + ones * 0x76) | digits) & ones << 7;
    return others ? (unsigned)__builtin_ctzll(others) / 8 : 8;
}

/* The number that `count` digits are, 1 to 8 of them: neighbours are combined to numbers of two, four and eight. */
static inline uint64_t digits_value(uint64_t bytes, unsigned count)
{
    const uint64_t low = UINT64_C(0x000000FF000000FF);
    uint64_t v = (bytes & UINT64_C(0x0F0F0F0F0F0F0F0F)) << (64 - 8 * count);
    v = v * 10 + (v >> 8);
    return ((v & low) * (100 + (UINT64_C(1000000) << 32)) + ((v >> 16 & low) * (1 + (UINT64_C(10000) << 32)))) >> 32;
}

/* A number of up to 18 digits without sign. What ends it is not checked: the text of a template that follows begins
 * with a delimiter. */
static inline bool take_number_digits(cursor *s, int64_t *value)
{
    const uint8_t *p = s->at;
    if (p >= s->limit)
        return false;
    uint64_t bytes = tv_load_le64(p);
    unsigned count = count_digits(bytes);
    if (count == 0 || (count > 1 && *p == '0'))
        return false;
    uint64_t x = digits_value(bytes, count);
    p += count;
    if (count == 8)
        while (is_digit(*p) && p - s->at <= DIGITS_MAX)
            x = x * 10 + (*p++ - (unsigned)'0');
    if (p - s->at > DIGITS_MAX)
        return false;
    s->at = p;
    *value = (int64_t)x;
    return true;
}

static inline bool take_digits(cursor *s, int64_t *value)
{
    const uint8_t *start = s->at;
    if (take_number_digits(s, value) && is_delimiter(*s->at))
        return true;
    s->at = start;
    return false;
}

/* Any other number: checks its form, converts it as the slow path does. */
bool cmdq_take_number(cursor *s, field_value *v);

/* Appends the ids of a list, after its opening bracket, to those of the reader. */
bool cmdq_take_ids(cursor *s, uint32_t *count);

/* The number of a string that is the value of field `name`, which mostly has the string that it had before. */
static inline uint32_t intern_text(reader *r, unsigned name, tv_sv text)
{
    uint32_t *last = &r->last_string[name];
    const char *known = r->queue->strings[*last];
    if (strncmp(known, text.ptr, text.len) != 0 || known[text.len] != '\0')
        *last = cmdq_reader_intern(r, text);
    return *last;
}

#endif
