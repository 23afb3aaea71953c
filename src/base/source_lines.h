/* SPDX-License-Identifier: Apache-2.0 */
/* Source lines of diagnostics about a text in memory. Of a line of any length at most TV_SOURCE_LINE_MAX bytes are
 * shown: those around the column. */
#ifndef TV_BASE_SOURCE_LINES_H
#define TV_BASE_SOURCE_LINES_H

#include "base/diag.h"

enum { TV_SOURCE_LINE_MAX = 400, TV_SOURCE_WINDOW = 120 };

/* A position at the first byte of a line of a text. It moves forward and back; the time is that of the bytes between.
 */
typedef struct tv_line_cursor {
    const uint8_t *data;
    uint64_t size, start;
    unsigned line; /* from 1 */
} tv_line_cursor;

static inline tv_line_cursor tv_line_cursor_at_start(const uint8_t *data, uint64_t size)
{
    return (tv_line_cursor){data, size, 0, 1};
}

/* Moves to a line. Returns false if the text has no such line; the cursor is then at another one. */
bool tv_line_cursor_seek(tv_line_cursor *cursor, unsigned line);

/* The bytes of the token at byte `at` of a text: a string with its quotation marks, a name or a number; otherwise 1. */
unsigned tv_token_length(const uint8_t *data, uint64_t size, uint64_t at);

/* A sink that adds the source line, and the length of the token at the column, to diagnostics about `path` that lack
 * them, and passes all diagnostics on. The caller's storage; there is nothing to free. */
typedef struct tv_source_lines {
    tv_diag_sink sink;
    const tv_diag_sink *next; /* may be NULL */
    const char *path;
    tv_line_cursor cursor;
    char text[TV_SOURCE_LINE_MAX + 1];
} tv_source_lines;

/* Does not copy its arguments. `lines` must not be moved. */
void tv_source_lines_init(tv_source_lines *lines, const char *path, const uint8_t *data, uint64_t size,
                          const tv_diag_sink *next);

#endif
