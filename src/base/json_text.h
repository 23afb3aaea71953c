/* SPDX-License-Identifier: Apache-2.0 */
/* Integers and strings as JSON, for the writers. */
#ifndef TV_BASE_JSON_TEXT_H
#define TV_BASE_JSON_TEXT_H

#include <string.h>

#include "base/base.h"
#include "base/sv.h"

enum { TV_JSON_DIGITS = 20 }; /* of an unsigned number, at most */

extern const char tv_json_pairs[201];     /* 00 to 99 */
extern const uint64_t tv_json_powers[20]; /* of ten */

/* Writes `value` in decimal, and returns the end. */
static inline char *tv_json_put_digits(char to[TV_JSON_DIGITS], uint64_t value)
{
    enum { PAIR = 100, LOG10_2 = 1233, LOG10_2_SHIFT = 12 };
    /* bits * log10(2) is the number of digits or one less, which the power of ten decides */
    unsigned count = ((64 - (unsigned)__builtin_clzll(value | 1)) * LOG10_2) >> LOG10_2_SHIFT;
    count += value >= tv_json_powers[count];
    char *end = to + count + (count == 0), *at = end;
    for (; value >= PAIR; value /= PAIR)
        memcpy(at -= 2, tv_json_pairs + 2 * (value % PAIR), 2);
    if (value >= 10)
        memcpy(at - 2, tv_json_pairs + 2 * value, 2);
    else
        at[-1] = (char)('0' + value);
    return end;
}

/* Whether a byte of these eight is not printable ASCII, a quotation mark or a backslash. */
static inline bool tv_json_has_special(uint64_t eight)
{
    const uint64_t ones = UINT64_MAX / 255;
    uint64_t below = eight - ones * ' ', above = eight | (eight + ones);
    uint64_t quote = (eight ^ ones * '"') - ones, backslash = (eight ^ ones * '\\') - ones;
    return ((below | above | quote | backslash) & ones << 7) != 0;
}

/* Copies the text, unless something in it must be escaped: then it returns false. */
static inline bool tv_json_copy_unescaped(char *to, tv_sv text)
{
    enum { EIGHT = 8 };
    uint64_t eight = UINT64_MAX / 255 * ' ';
    if (text.len < EIGHT) {
        for (size_t i = 0; i < text.len; i++) {
            to[i] = text.ptr[i];
            eight = eight << 8 | (unsigned char)text.ptr[i];
        }
        return !tv_json_has_special(eight);
    }
    for (size_t i = 0; i < text.len - EIGHT; i += EIGHT) {
        memcpy(&eight, text.ptr + i, EIGHT);
        if (tv_json_has_special(eight))
            return false;
        memcpy(to + i, &eight, EIGHT);
    }
    memcpy(&eight, text.ptr + text.len - EIGHT, EIGHT);
    memcpy(to + text.len - EIGHT, &eight, EIGHT);
    return !tv_json_has_special(eight);
}

#endif
