/* SPDX-License-Identifier: Apache-2.0 */
/* Splits a text into words as GPT-2 does before it merges bytes, according to the regular expression
 *   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 * whose first matching alternative is taken. Letters and numbers are those of unicode.def; white space is the Unicode
 * property White_Space. A byte outside of well-formed UTF-8 is a character that is none of the three. */
#ifndef TV_IMPORT_GPT2_SPLIT_H
#define TV_IMPORT_GPT2_SPLIT_H

#include "base/sv.h"

/* Length in bytes of the first word of `text`: at least 1 unless the text is empty. Linear in the length of the
 * word. */
size_t tv_gpt2_word(tv_sv text);

/* Decodes the UTF-8 character at the start of the non-empty `text`: returns its length, 1 to 4, and its code point.
 * Returns 1 with *code = -1 when it is not well-formed (overlong, surrogate, above U+10FFFF, truncated). */
size_t tv_utf8_decode(tv_sv text, int32_t *code);

#endif
