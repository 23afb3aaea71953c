/* SPDX-License-Identifier: Apache-2.0 */
/* How GPT-2 cuts a text before it merges bytes: the language of the regular expression
 *   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 * where the first alternative that fits is taken. Letters and numbers are those of unicode.def, white space is
 * Unicode's White_Space. A byte that belongs to no well-formed UTF-8 sequence counts as a character that is none of the
 * three. */
#ifndef TV_IMPORT_GPT2_SPLIT_H
#define TV_IMPORT_GPT2_SPLIT_H

#include "base/sv.h"

/* Bytes of the first word of `text`; at least 1 unless the text is empty. Linear in the word's length, plus the next
 * character. */
size_t tv_gpt2_word(tv_sv text);

/* One character of UTF-8 at the start of `text`, which is not empty: its bytes, 1 to 4, and its code point; 1 and -1
 * where the bytes are not well-formed (overlong, a surrogate, above U+10FFFF, cut short). */
size_t tv_utf8_take(tv_sv text, int32_t *code);

#endif
