/* SPDX-License-Identifier: Apache-2.0 */
/* Characters of UTF-8 text and their kinds. */
#ifndef TV_IMPORT_CHARACTERS_H
#define TV_IMPORT_CHARACTERS_H

#include "base/sv.h"

/* Unicode's general categories L, N, M, P and S, and the property White_Space; all others are OTHER. */
typedef enum tv_char_kind {
    TV_CHAR_OTHER,
    TV_CHAR_LETTER,
    TV_CHAR_NUMBER,
    TV_CHAR_MARK,
    TV_CHAR_PUNCTUATION,
    TV_CHAR_SYMBOL,
    TV_CHAR_SPACE,
} tv_char_kind;

/* Decodes the UTF-8 character at the start of the non-empty `text`: returns its length, 1 to 4, and its code point.
 * Returns 1 with *code = -1 when it is not well-formed (overlong, surrogate, above U+10FFFF, truncated). */
size_t tv_utf8_decode(tv_sv text, int32_t *code);

/* The kind of a code point. -1, a byte that is not well-formed, is a SYMBOL, like U+FFFD. */
tv_char_kind tv_char_kind_of(int32_t code);

#endif
