/* SPDX-License-Identifier: Apache-2.0 */
/* Diagnostics: formatting, printing with a caret line, writing as JSON. Messages are formatted on the stack, so that
 * they are complete when the host is out of memory. */
#include "base/diag.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/text.h"

const tv_code tv_codes[TV_CODE_COUNT] = {
#define TV_CODE_ROW(id, code_, name_, text_) {.code = (code_), .name = (name_), .text = (text_)},
#include "base/codes.def"
#undef TV_CODE_ROW
};

static const char *const severity_text[] = {"note", "warning", "error"};

/* The length of `text`, of `length` bytes, without half a UTF-8 character at its end. */
static size_t drop_half_character(const char *text, size_t length)
{
    size_t start = length; /* after the lead byte of the last character */
    while (start > 0 && ((unsigned char)text[start - 1] & 0xC0) == 0x80)
        start--;
    unsigned lead = start > 0 ? (unsigned char)text[start - 1] : 0;
    size_t bytes = lead < 0xC0 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    return length + 1 < start + bytes ? start - 1 : length;
}

void tv_vreport(const tv_diag_sink *sink, tv_severity severity, const tv_code *code, const tv_source_loc *loc,
                const char *hint, const char *format, va_list args)
{
    static const char more[] = " ...";
    char message[TV_DIAG_MESSAGE + sizeof more];
    if (!sink || !sink->emit)
        return;
    int length = vsnprintf(message, TV_DIAG_MESSAGE, format, args);
    if (length >= TV_DIAG_MESSAGE)
        memcpy(message + drop_half_character(message, TV_DIAG_MESSAGE - 1), more, sizeof more);
    tv_diag diag = {.severity = severity,
                    .code = code->code,
                    .name = code->name,
                    .file = loc->file,
                    .line = loc->line,
                    .column = loc->column,
                    .length = loc->length,
                    .index = loc->index,
                    .message = length < 0 ? "" : message,
                    .hint = hint,
                    .source_line = loc->source_line};
    sink->emit(sink->user, &diag);
}

void tv_report(const tv_diag_sink *sink, tv_severity severity, const tv_code *code, const tv_source_loc *loc,
               const char *hint, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    tv_vreport(sink, severity, code, loc, hint, format, args);
    va_end(args);
}

tv_status tv_fail(const tv_diag_sink *sink, tv_status status, const tv_code *code, const char *hint, const char *format,
                  ...)
{
    va_list args;
    va_start(args, format);
    tv_vreport(sink, TV_ERROR, code, &TV_NO_SOURCE_LOC, hint, format, args);
    va_end(args);
    return status;
}

tv_status tv_fail_size(const tv_diag_sink *sink, const char *type)
{
    return tv_fail(sink, TV_ERR_INPUT, TV_CODE(STRUCT_SIZE), "set its member `size` to sizeof of the struct",
                   "the size of a %s is smaller than that of its first version", type);
}

tv_status tv_fail_memory(const tv_diag_sink *sink)
{
    return tv_fail(sink, TV_ERR_MEMORY, TV_CODE(NO_MEMORY), "close other programs or use a smaller machine",
                   "out of memory");
}

static void print_safe(FILE *out, const char *text, tv_text_keep keep) { tv_text_print(out, text, strlen(text), keep); }

/* Prints `mark` below each column of `text` from byte `begin` to `end` but the first `skip` ones; tabs are repeated. */
static void print_marks(FILE *out, const char *text, size_t begin, size_t end, size_t skip, char mark)
{
    char escape[TV_TEXT_ESCAPE];
    size_t size = strlen(text);
    for (size_t i = begin, n; i < end && i < size; i += n) {
        n = tv_text_next(text + i, size - i, TV_TEXT_KEEP_TABS, escape);
        for (size_t columns = escape[0] ? strlen(escape) : 1; columns > 0; columns--)
            if (skip > 0)
                skip--;
            else
                fputc(mark == ' ' && text[i] == '\t' ? '\t' : mark, out);
    }
}

/* Prints the source line and a caret line. The caret line repeats the tabs of the source line, so that the caret is
 * below its column at any tab width. */
static void print_caret(FILE *out, const tv_diag *diag, const char *on, const char *off)
{
    size_t line_length = strlen(diag->source_line);
    unsigned column = diag->column > diag->source_offset ? diag->column - diag->source_offset : 0;
    fprintf(out, "  %5u | ", diag->line);
    print_safe(out, diag->source_line, TV_TEXT_KEEP_TABS);
    fputc('\n', out);
    if (column == 0 || column > line_length + 1)
        return;
    fputs("        | ", out);
    size_t begin = column - 1;
    print_marks(out, diag->source_line, 0, begin, 0, ' ');
    fprintf(out, "%s^", on);
    print_marks(out, diag->source_line, begin, begin + (diag->length ? diag->length : 1), 1, '~');
    fprintf(out, "%s\n", off);
}

void tv_diag_print(FILE *out, const tv_diag *diag, int color)
{
    static const char *const severity_color[] = {"\033[1;36m", "\033[1;35m", "\033[1;31m"};
    const char *bold = color ? "\033[1m" : "", *off = color ? "\033[0m" : "";
    fputs(bold, out);
    if (diag->file) {
        print_safe(out, diag->file, TV_TEXT_KEEP_NONE);
        if (diag->line)
            fprintf(out, ":%u", diag->line);
        if (diag->line && diag->column)
            fprintf(out, ":%u", diag->column);
        fputs(": ", out);
    } else if (diag->index < 0) {
        fputs("trivet: ", out);
    }
    if (diag->index >= 0)
        fprintf(out, "instruction %lld: ", (long long)diag->index);
    fprintf(out, "%s%s%s: %s%s", off, color ? severity_color[diag->severity] : "", severity_text[diag->severity], off,
            bold);
    print_safe(out, diag->message, TV_TEXT_KEEP_NONE);
    fprintf(out, " [%s]%s\n", diag->code, off);
    if (diag->source_line && diag->line)
        print_caret(out, diag, color ? "\033[1;32m" : "", off);
    if (diag->hint) {
        fprintf(out, "        = %shint%s: ", bold, off);
        print_safe(out, diag->hint, TV_TEXT_KEEP_NONE);
        fputc('\n', out);
    }
}

void tv_diag_write_json(tv_json_writer *w, const tv_diag *diag)
{
    tv_json_begin_object(w);
    tv_json_string_member(w, "severity", severity_text[diag->severity]);
    tv_json_string_member(w, "code", diag->code);
    tv_json_string_member(w, "name", diag->name);
    tv_json_string_member(w, "file", diag->file);
    tv_json_unsigned_member(w, "line", diag->line);
    tv_json_unsigned_member(w, "column", diag->column);
    tv_json_unsigned_member(w, "length", diag->length);
    tv_json_key(w, "index");
    if (diag->index < 0)
        tv_json_write_null(w);
    else
        tv_json_write_integer(w, diag->index);
    tv_json_string_member(w, "message", diag->message);
    tv_json_string_member(w, "hint", diag->hint);
    tv_json_end_object(w);
}

char *tv_diag_json(const tv_diag *diag)
{
    tv_buf text = {0};
    tv_json_writer w;
    tv_json_writer_init_buf(&w, &text, TV_JSON_COMPACT);
    tv_diag_write_json(&w, diag);
    if (tv_json_writer_finish(&w))
        return tv_buf_take(&text);
    tv_buf_fini(&text);
    return NULL;
}

const char *tv_status_text(tv_status status)
{
    switch (status) {
    case TV_OK:
        return "ok";
    case TV_FAULT:
        return "fault";
    case TV_ERR_INPUT:
        return "invalid input";
    case TV_ERR_IO:
        return "host I/O failure";
    case TV_ERR_MEMORY:
        return "out of memory";
    }
    return "unknown status";
}

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

const char *tv_version(void) { return TEXT(TV_VERSION_MAJOR) "." TEXT(TV_VERSION_MINOR) "." TEXT(TV_VERSION_PATCH); }
