/* SPDX-License-Identifier: Apache-2.0 */
/* The assembler's diagnostics, with the source location and the macros and includes that lead to it; the limit on their
 * number; the limit on memory. */
#include <inttypes.h>
#include <stdlib.h>

#include "asm/job.h"

static const char *copy_line(tv_asm_job *job, tv_sv line)
{
    enum { MAX_LENGTH = 400 };
    char *copy = tv_arena_str(&job->arena, (tv_sv){line.ptr, line.len < MAX_LENGTH ? line.len : MAX_LENGTH});
    job->out_of_memory |= !copy;
    for (char *p = copy; p && *p; p++)
        if ((unsigned char)*p < ' ' && *p != '\t')
            *p = ' ';
    return copy;
}

tv_source_loc tv_asm_loc(const tv_asm_job *job, unsigned column, unsigned length)
{
    tv_source_loc loc = {.column = column, .length = length, .index = -1};
    if (job->frame) {
        loc.file = job->files.data[job->frame->file].path;
        loc.line = job->frame->line;
        if (job->frame->kind == TV_FRAME_MACRO)
            loc.column = loc.length = 0; /* columns of an expansion are not columns of the file */
    }
    return loc;
}

/* Notes the macro calls and includes that lead to the current line, innermost first. */
static void report_origin(tv_asm_job *job)
{
    unsigned shown = 0;
    for (tv_frame *f = job->frame; f && f->parent && shown < 4; f = f->parent) {
        tv_source_loc loc = {.file = job->files.data[f->parent->file].path, .line = f->parent->line, .index = -1};
        if (f->kind == TV_FRAME_MACRO) {
            tv_report(job->sink, TV_NOTE, TV_CODE(ASM_ORIGIN), &loc, NULL, "in the expansion of '%.*s' called here",
                      TV_SV_ARG(f->macro->name));
            shown++;
        } else if (f->kind == TV_FRAME_FILE) {
            tv_report(job->sink, TV_NOTE, TV_CODE(ASM_ORIGIN), &loc, NULL, "included from here");
            shown++;
        }
    }
}

/* Errors after those that stopped the job are not reported; without memory, what seems to be an error may be none. */
static bool is_silent(const tv_asm_job *job) { return job->errors > TV_ASM_ERRORS_MAX || job->out_of_memory; }

static void count_error(tv_asm_job *job)
{
    if (++job->errors <= TV_ASM_ERRORS_MAX || job->stop)
        return;
    job->stop = true;
    tv_fail(job->sink, TV_ERR_INPUT, TV_CODE(ASM_TOO_MANY), "fix these first", "more than %d errors",
            TV_ASM_ERRORS_MAX);
}

/* True when an earlier iteration of a .rept reported the same error at the same source location. */
static bool is_repeated(tv_asm_job *job, const tv_source_loc *loc, const tv_code *code, tv_sv text)
{
    const tv_frame *f = job->frame;
    while (f && f->kind != TV_FRAME_REPEAT)
        f = f->parent;
    if (!f || !loc->file || !job->sink) /* no sink: diagnostics are suppressed */
        return false;
    uint64_t hash = tv_sv_hash(text) ^ tv_sv_hash(tv_sv_of(code->code)) * 31 ^ tv_sv_hash(tv_sv_of(loc->file)) * 127 ^
                    ((uint64_t)loc->line << 20 ^ loc->column) * UINT64_C(0x9E3779B97F4A7C15);
    for (unsigned i = 0; i < job->reported_count; i++)
        if (job->reported_hashes[i] == hash)
            return true;
    if (job->reported_count < TV_ASM_ERRORS_MAX)
        job->reported_hashes[job->reported_count++] = hash;
    return false;
}

/* Warnings above the limit are not shown, and a last one says so. */
static bool count_warning(tv_asm_job *job)
{
    if (job->warnings++ == TV_ASM_WARNINGS_MAX)
        tv_report(job->sink, TV_WARNING, TV_CODE(ASM_TOO_MANY), &TV_NO_SOURCE_LOC, NULL,
                  "more than %d warnings; the others are not shown", TV_ASM_WARNINGS_MAX);
    return job->warnings <= TV_ASM_WARNINGS_MAX;
}

/* Removes the middle of a long message: a name of the source may have millions of characters. */
static void shorten(tv_buf *text)
{
    enum { MAX = 600, HEAD = 400, TAIL = 150 };
    static const char gap[] = "[...]";
    if (text->failed || text->len <= MAX)
        return;
    size_t head = HEAD, tail = text->len - TAIL;
    while ((text->data[head] & 0xC0) == 0x80)
        head--;
    while (tail < text->len && (text->data[tail] & 0xC0) == 0x80)
        tail++;
    size_t kept = text->len - tail;
    memmove(text->data + head + sizeof gap - 1, text->data + tail, kept);
    memcpy(text->data + head, gap, sizeof gap - 1);
    text->len = head + sizeof gap - 1 + kept;
}

/* Formats a message. False: out of memory. */
static bool format_message(tv_asm_job *job, tv_buf *text, const char *format, va_list args) TV_PRINTF(3, 0);

static bool format_message(tv_asm_job *job, tv_buf *text, const char *format, va_list args)
{
    tv_buf_vprintf(text, format, args);
    shorten(text);
    tv_asm_cstr(job, text);
    return !job->out_of_memory;
}

static void report_at(tv_asm_job *job, tv_severity severity, unsigned column, unsigned length, const tv_code *code,
                      const char *hint, const char *format, va_list args)
{
    if (is_silent(job))
        return;
    tv_source_loc loc = tv_asm_loc(job, column, length);
    if (column > job->line.len + 1) /* a column of an earlier line */
        column = length = 0;
    loc.column = column;
    loc.length = length;
    loc.source_line = copy_line(job, job->line);
    tv_buf text = {0};
    if (!format_message(job, &text, format, args)) {
        tv_buf_fini(&text);
        return;
    }
    bool repeated = is_repeated(job, &loc, code, (tv_sv){tv_buf_cstr(&text), text.len});
    if (!repeated && (severity != TV_WARNING || count_warning(job))) {
        tv_report(job->sink, severity, code, &loc, hint, "%s", tv_buf_cstr(&text));
        report_origin(job);
    }
    tv_buf_fini(&text);
    if (severity == TV_ERROR && !repeated)
        count_error(job);
    else if (severity == TV_ERROR)
        job->stop |= ++job->repeated_errors > 100 * TV_ASM_ERRORS_MAX;
}

void tv_asm_error(tv_asm_job *job, const tv_code *code, const char *hint, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    bool in_line = job->lexer.line.ptr == job->line.ptr && job->lexer.token.text.ptr;
    report_at(job, TV_ERROR, in_line ? tv_lex_column(job) : 1, (unsigned)job->lexer.token.text.len, code, hint, format,
              args);
    va_end(args);
}

void tv_asm_error_at(tv_asm_job *job, unsigned column, unsigned length, const tv_code *code, const char *hint,
                     const char *format, ...)
{
    va_list args;
    va_start(args, format);
    report_at(job, TV_ERROR, column, length, code, hint, format, args);
    va_end(args);
}

void tv_asm_warning(tv_asm_job *job, unsigned column, unsigned length, const tv_code *code, const char *hint,
                    const char *format, ...)
{
    va_list args;
    va_start(args, format);
    report_at(job, TV_WARNING, column, length, code, hint, format, args);
    va_end(args);
}

/* The text of a line of an open file; NULL: its file is not open. */
static const char *find_stored_line(tv_asm_job *job, const tv_source_loc *loc)
{
    for (unsigned i = 0; i < job->files.count; i++) {
        if (job->files.data[i].path != loc->file || !job->files.data[i].input.data)
            continue;
        const char *p = (const char *)job->files.data[i].input.data, *end = p + job->files.data[i].input.size;
        for (unsigned line = 1; line < loc->line && p < end; line++) {
            const char *newline = memchr(p, '\n', (size_t)(end - p));
            p = newline ? newline + 1 : end;
        }
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        return copy_line(job, (tv_sv){p, (size_t)((newline ? newline : end) - p)});
    }
    return NULL;
}

void tv_asm_error_loc(tv_asm_job *job, const tv_source_loc *loc, const tv_code *code, const char *hint,
                      const char *format, ...)
{
    va_list args;
    va_start(args, format);
    bool current = job->frame && loc->file == job->files.data[job->frame->file].path && loc->line == job->frame->line;
    if (current && job->line.ptr) {
        report_at(job, TV_ERROR, loc->column, loc->length, code, hint, format, args);
    } else if (!is_silent(job)) {
        tv_source_loc whole = *loc;
        whole.source_line = find_stored_line(job, loc);
        tv_buf text = {0};
        if (format_message(job, &text, format, args)) {
            tv_report(job->sink, TV_ERROR, code, &whole, hint, "%s", tv_buf_cstr(&text));
            count_error(job);
        }
        tv_buf_fini(&text);
    }
    va_end(args);
}

const char *tv_asm_cstr(tv_asm_job *job, tv_buf *text)
{
    const char *contents = tv_buf_cstr(text);
    job->out_of_memory |= text->failed;
    return contents;
}

void *tv_asm_alloc(tv_asm_job *job, size_t size)
{
    if (!tv_asm_reserve_output(job, size))
        return NULL;
    void *p = tv_arena_alloc(&job->arena, size);
    if (!p)
        job->out_of_memory = true;
    return p;
}

bool tv_asm_may_suggest(tv_asm_job *job)
{
    if (job->suggestion_budget == 0)
        return false;
    job->suggestion_budget--;
    return true;
}

bool tv_asm_reserve_output(tv_asm_job *job, uint64_t n)
{
    if (n > job->output_budget) {
        if (!job->stop)
            tv_asm_error(job, TV_CODE(ASM_LIMIT), "load large data from files with --load",
                         "the program has more than %" PRIu64 " bytes of words, data and unresolved references",
                         job->options && job->options->output_limit ? job->options->output_limit : TV_ASM_OUTPUT_MAX);
        job->stop = true;
        return false;
    }
    job->output_budget -= n;
    return true;
}
