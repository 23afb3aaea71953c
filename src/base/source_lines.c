/* SPDX-License-Identifier: Apache-2.0 */
/* Source lines of diagnostics about a text in memory. */
#include "base/source_lines.h"

#include <ctype.h>
#include <string.h>

bool tv_line_cursor_seek(tv_line_cursor *c, unsigned line)
{
    const uint8_t *newline;
    while (c->line < line) {
        if (!(newline = memchr(c->data + c->start, '\n', c->size - c->start)))
            return false;
        c->start = (uint64_t)(newline - c->data) + 1;
        c->line++;
    }
    while (c->line > line && c->line > 1) {
        c->start--; /* the newline before the line */
        while (c->start && c->data[c->start - 1] != '\n')
            c->start--;
        c->line--;
    }
    return c->line == line;
}

unsigned tv_token_length(const uint8_t *data, uint64_t size, uint64_t at)
{
    uint64_t end = at;
    if (at < size && data[at] == '"') {
        for (end++; end < size && data[end] != '"' && data[end] != '\n'; end++)
            end += data[end] == '\\';
        end += end < size && data[end] == '"';
    } else {
        while (end < size && (isalnum(data[end]) || strchr("_+-.", data[end] ? data[end] : ' ')))
            end++;
    }
    return end > at && end <= size && end - at <= TV_SOURCE_LINE_MAX ? (unsigned)(end - at) : 1;
}

static bool is_continuation(uint8_t byte) { return (byte & 0xC0) == 0x80; }

/* Sets *from and *to to the shown bytes of a line of `length` bytes: all, or those around byte `at`. Characters stay
 * whole. */
static void select_window(const uint8_t *line, uint64_t length, uint64_t at, uint64_t *from, uint64_t *to)
{
    *from = 0;
    *to = length;
    if (length <= TV_SOURCE_LINE_MAX)
        return;
    *from = at > TV_SOURCE_WINDOW / 2 ? tv_min_u64(at, length) - TV_SOURCE_WINDOW / 2 : 0;
    *to = tv_min_u64(*from + TV_SOURCE_WINDOW, length);
    while (*from && *from < *to && is_continuation(line[*from]))
        ++*from;
    while (*to<length && * to> * from && is_continuation(line[*to]))
        --*to;
}

/* Copies the line at the cursor, or the part of it around `column`, to `lines->text`. Returns the number of bytes of
 * the line that come before those of the text; an ellipsis takes the place of three. */
static unsigned copy_line(tv_source_lines *lines, unsigned column)
{
    static const char ellipsis[] = "…";
    enum { ELLIPSIS = sizeof ellipsis - 1 };
    const uint8_t *line = lines->cursor.data + lines->cursor.start;
    uint64_t rest = lines->cursor.size - lines->cursor.start, from, to;
    const uint8_t *newline = memchr(line, '\n', rest);
    uint64_t length = newline ? (uint64_t)(newline - line) : rest;
    length -= length && line[length - 1] == '\r';
    select_window(line, length, column - 1, &from, &to);
    char *out = lines->text;
    if (from) {
        memcpy(out, ellipsis, ELLIPSIS);
        out += ELLIPSIS;
    }
    for (uint64_t i = from; i < to; i++)
        *out++ = line[i] ? (char)line[i] : ' ';
    if (to < length) {
        memcpy(out, ellipsis, ELLIPSIS);
        out += ELLIPSIS;
    }
    *out = '\0';
    return from > UINT32_MAX ? UINT32_MAX : (unsigned)(from - (from ? ELLIPSIS : 0));
}

static void emit_with_line(void *user, const tv_diag *diag)
{
    tv_source_lines *lines = user;
    tv_diag copy = *diag;
    bool lacks = diag->line && diag->column && !diag->source_line && diag->file && strcmp(diag->file, lines->path) == 0;
    if (!lines->next || !lines->next->emit)
        return;
    if (lacks && tv_line_cursor_seek(&lines->cursor, diag->line)) {
        copy.source_offset = copy_line(lines, diag->column);
        copy.source_line = lines->text;
        if (!copy.length)
            copy.length =
                tv_token_length(lines->cursor.data, lines->cursor.size, lines->cursor.start + copy.column - 1);
    }
    lines->next->emit(lines->next->user, &copy);
}

void tv_source_lines_init(tv_source_lines *lines, const char *path, const uint8_t *data, uint64_t size,
                          const tv_diag_sink *next)
{
    lines->sink = (tv_diag_sink){emit_with_line, lines};
    lines->next = next;
    lines->path = path;
    lines->cursor = tv_line_cursor_at_start(data, size);
}
