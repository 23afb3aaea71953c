/* SPDX-License-Identifier: Apache-2.0 */
/* Text from files made safe for terminals and text files.
 *
 * A name, a key or a line of a file may contain anything: escape sequences that a terminal obeys, marks that reverse
 * the direction of text, bytes that are not UTF-8. These are shown instead of being sent:
 *
 * \xHH            control characters (0x00 to 0x1F, 0x7F) and bytes that are not UTF-8
 * \uHHHH          control characters from U+0080 to U+009F, marks of direction (U+061C, U+200E, U+200F, U+202A to
 *                 U+202E, U+2066 to U+2069), separators of lines and paragraphs (U+2028, U+2029), the byte-order mark
 *                 (U+FEFF), annotations (U+FFF9 to U+FFFB)
 * \UHHHHHHHH      tags (U+E0000 to U+E007F)
 *
 * All other characters are unchanged, backslashes as well: the text is for reading, JSON output is exact. */
#ifndef TRIVET_TEXT_H
#define TRIVET_TEXT_H

#include <stddef.h>
#include <stdio.h>

#include "trivet/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Control characters that are left as they are. */
typedef enum tv_text_keep {
    TV_TEXT_KEEP_NONE,
    TV_TEXT_KEEP_TABS,
    TV_TEXT_KEEP_LINES /* tabs and newlines */
} tv_text_keep;

/* Prints `size` bytes of `text` to `out`, made safe. `keep` selects characters that are left as they are. Write errors
 * are left to ferror(out). */
TV_API void tv_text_print(FILE *out, const char *text, size_t size, tv_text_keep keep);

/* Makes `text` safe in `out`, which has `capacity` bytes (at least 1): as many whole characters as fit, then a NUL.
 * Returns `out`. Allocates nothing, and may be called in a signal handler. */
TV_API const char *tv_text_escape(const char *text, char *out, size_t capacity);

#ifdef __cplusplus
}
#endif
#endif
