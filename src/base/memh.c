/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memh.h"

enum { SHOWN_MAX = 40 }; /* characters of a word in a message */

void tv_memh_init(tv_memh_reader *reader, const char *name, tv_sv text, unsigned bits, const tv_diag_sink *sink)
{
    *reader = (tv_memh_reader){.name = name, .sink = sink, .line = 1, .bits = bits};
    reader->at = reader->line_start = text.ptr;
    reader->end = text.ptr + text.len;
}

TV_PRINTF(4, 5)
static tv_status reject(const tv_memh_reader *r, const char *at, const char *hint, const char *format, ...)
{
    tv_source_loc loc = {.file = r->name, .line = r->line, .index = -1};
    loc.column = (unsigned)(at - r->line_start) + 1;
    va_list args;
    va_start(args, format);
    tv_vreport(r->sink, TV_ERROR, TV_CODE(FILE_MEMH), &loc, hint, format, args);
    va_end(args);
    return TV_ERR_INPUT;
}

static void skip_character(tv_memh_reader *r)
{
    if (*r->at++ == '\n') {
        r->line++;
        r->line_start = r->at;
    }
}

static tv_status skip_block_comment(tv_memh_reader *r)
{
    tv_memh_reader start = *r;
    for (r->at += 2; r->end - r->at >= 2; skip_character(r))
        if (r->at[0] == '*' && r->at[1] == '/') {
            r->at += 2;
            return TV_OK;
        }
    return reject(&start, start.at, NULL, "the comment does not end");
}

/* Skips white space and comments. */
static tv_status skip_space(tv_memh_reader *r)
{
    while (r->at < r->end) {
        bool comment = *r->at == '/' && r->end - r->at >= 2;
        if (comment && r->at[1] == '*') {
            TV_TRY(skip_block_comment(r));
        } else if (comment && r->at[1] == '/') {
            const char *newline = memchr(r->at, '\n', (size_t)(r->end - r->at));
            r->at = newline ? newline : r->end;
        } else if (*r->at && strchr(" \t\r\n\f\v", *r->at)) {
            skip_character(r);
        } else {
            break;
        }
    }
    return TV_OK;
}

/* The value of a hexadecimal digit; 16 for one that is undefined; -1: no digit. */
static int digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'))
        return (c | 0x20) - 'a' + 10;
    return c && strchr("xXzZ?", c) ? 16 : -1;
}

/* Reads the digits of one number, up to white space or a comment. */
static tv_status read_digits(tv_memh_reader *r, unsigned bits, const char *what, tv_memh_word *word)
{
    const char *start = r->at;
    uint64_t value = 0, unknown = 0;
    unsigned digits = 0;
    bool overflow = false;
    for (; r->at < r->end && !strchr(" \t\r\n\f\v/", *r->at); r->at++) {
        int digit = digit_value(*r->at);
        if (*r->at == '_' && digits)
            continue;
        if (digit < 0)
            return reject(r, r->at, "words are hexadecimal, without 0x; comments begin with //",
                          "expected a hexadecimal digit of %s", what);
        overflow = overflow || (value | unknown) >> 60;
        value = value << 4 | (digit < 16 ? (uint64_t)digit : 0);
        unknown = unknown << 4 | (digit < 16 ? 0 : 15);
        digits++;
    }
    if (!digits)
        return reject(r, start, NULL, "expected %s", what);
    /* A word of full width may begin with the digits 0 and x; a shorter or longer one has the prefix of C. */
    if (*start == '0' && digits > 1 && (start[1] | 0x20) == 'x' && digits != (bits + 3) / 4)
        return reject(r, start, "omit 0x", "a word has no prefix");
    int shown = r->at - start < SHOWN_MAX ? (int)(r->at - start) : SHOWN_MAX;
    uint64_t mask = bits < 64 ? (UINT64_C(1) << bits) - 1 : UINT64_MAX;
    unsigned width = (bits + 3) / 4 * 4; /* an undefined digit may exceed the word in its digit */
    if (overflow || value & ~mask || (width < 64 && unknown >> width))
        return reject(r, start, NULL, "%s '%.*s' has more than %u bits", what, shown, start, bits);
    if (digit_value(*start) == 16 && digits < 16) /* extended on the left, as in a literal */
        unknown |= UINT64_MAX << digits * 4;
    word->value = value;
    word->known = ~unknown & mask;
    return TV_OK;
}

static tv_status read_address(tv_memh_reader *r)
{
    const char *start = r->at++;
    tv_memh_word word;
    if (r->at == r->end)
        return reject(r, start, NULL, "expected an address after '@'");
    TV_TRY(read_digits(r, 64, "an address", &word));
    if (word.known != UINT64_MAX)
        return reject(r, start, NULL, "an address has undefined digits");
    r->addr = word.value;
    return TV_OK;
}

tv_status tv_memh_next(tv_memh_reader *reader, tv_memh_word *word, bool *found)
{
    TV_TRY(skip_space(reader));
    while (reader->at < reader->end && *reader->at == '@') {
        TV_TRY(read_address(reader));
        TV_TRY(skip_space(reader));
    }
    *found = reader->at < reader->end;
    if (!*found)
        return TV_OK;
    word->line = reader->line;
    word->column = (unsigned)(reader->at - reader->line_start) + 1;
    TV_TRY(read_digits(reader, reader->bits, "a word", word));
    word->addr = reader->addr++;
    return TV_OK;
}
