/* SPDX-License-Identifier: Apache-2.0 */
/* The source of lines: a stack of frames, each a file, a macro expansion or a repeated block. Files stay open until the
 * job ends, because symbols, macro bodies and diagnostics point into them.
 *
 * A few lines can expand to any number of lines. What macros, repeats and files included again deliver is therefore
 * counted, in lines and in bytes, and the job stops with an error when a budget is spent. */
#include <inttypes.h>
#include <stdlib.h>

#include "asm/job.h"

static tv_frame *push_frame(tv_asm_job *job)
{
    if (job->frame_depth >= TV_ASM_DEPTH_MAX) {
        tv_asm_error(job, TV_CODE(ASM_NESTING), "check for recursive includes and macros",
                     "includes, macros and repeats are nested deeper than %d", TV_ASM_DEPTH_MAX);
        return NULL;
    }
    tv_frame *frame = calloc(1, sizeof *frame);
    if (!frame) {
        job->out_of_memory = true;
        return NULL;
    }
    frame->parent = job->frame;
    frame->expanded = job->frame && job->frame->expanded;
    frame->condition_depth = (unsigned)job->conditions.count;
    job->frame = frame;
    job->frame_depth++;
    return frame;
}

static void pop_frame(tv_asm_job *job)
{
    tv_frame *frame = job->frame;
    tv_conditions_close(job, frame->condition_depth);
    job->frame = frame->parent;
    job->frame_depth--;
    free(frame->expansion);
    free(frame);
}

/* ---- Budgets ---- */

static uint64_t line_limit(const tv_asm_job *job)
{
    return job->options && job->options->line_limit ? job->options->line_limit : TV_ASM_LINES_MAX;
}

static void report_too_long(tv_asm_job *job, const tv_source_loc *loc, bool lines)
{
    if (!job->stop)
        tv_asm_error_loc(job, loc, TV_CODE(ASM_LIMIT),
                         "check the counts of .rept and the depth of macros; --line-limit sets another limit",
                         "macros, repeats and files included again expand to more than %" PRIu64 " %s", line_limit(job),
                         lines ? "lines" : "lines of 64 bytes");
    job->stop = true;
}

/* Counts lines that come from an expansion. False: over the limit, which is reported. */
static bool count_lines(tv_asm_job *job, uint64_t lines)
{
    if (lines <= job->line_budget) {
        job->line_budget -= lines;
        return true;
    }
    tv_source_loc loc = tv_asm_loc(job, 1, 1);
    report_too_long(job, &loc, true);
    return false;
}

static bool count_bytes(tv_asm_job *job, uint64_t bytes)
{
    if (bytes <= job->byte_budget) {
        job->byte_budget -= bytes;
        return true;
    }
    tv_source_loc loc = tv_asm_loc(job, 1, 1);
    report_too_long(job, &loc, false);
    return false;
}

/* Counts the text of an included file. */
static bool count_source(tv_asm_job *job, uint64_t bytes)
{
    if (bytes <= job->source_budget) {
        job->source_budget -= bytes;
        return true;
    }
    if (!job->stop)
        tv_asm_error_at(job, 1, 1, TV_CODE(ASM_LIMIT), "load large data with .incbin or --load",
                        "the included files have more than %" PRIu64 " bytes", TV_ASM_SOURCE_MAX);
    job->stop = true;
    return false;
}

/* ---- Frames ---- */

static bool add_file(tv_asm_job *job, const char *path, uint32_t *index)
{
    for (uint32_t i = 0; i < job->files.count; i++)
        if (strcmp(job->files.data[i].path, path) == 0) {
            *index = i;
            return true;
        }
    if (job->files.count == TV_LINE_FILES_MAX) {
        tv_asm_error(job, TV_CODE(ASM_LIMIT), NULL, "more than %d files are included", TV_LINE_FILES_MAX);
        return false;
    }
    char *copy = tv_arena_str(&job->arena, tv_sv_of(path));
    if (!copy || !TV_VEC_PUSH(&job->files, (tv_asm_file){.path = copy})) {
        job->out_of_memory = true;
        return false;
    }
    *index = (uint32_t)job->files.count - 1;
    return true;
}

bool tv_source_push_text(tv_asm_job *job, const char *name, const char *text, size_t size)
{
    uint32_t file;
    if (!add_file(job, name, &file))
        return false;
    tv_frame *frame = push_frame(job);
    if (!frame)
        return false;
    frame->expanded |= job->files.data[file].read;
    job->files.data[file].read = true;
    frame->kind = TV_FRAME_FILE;
    frame->text = (tv_sv){text, size};
    frame->file = file;
    return true;
}

bool tv_source_push_file(tv_asm_job *job, tv_sv path, unsigned column)
{
    tv_input input;
    const char *name = NULL;
    if (!tv_source_open_input(job, path, column, &input, &name))
        return false;
    uint32_t file;
    if (!name || !add_file(job, name, &file)) {
        tv_input_close(&input);
        return false;
    }
    if (job->files.data[file].open) {
        tv_input_close(&input); /* included before: use the same text */
    } else {
        job->files.data[file].input = input;
        job->files.data[file].open = true;
    }
    uint64_t size = job->files.data[file].input.size;
    bool expanded = job->frame->expanded || job->files.data[file].read;
    if (!(expanded ? count_bytes(job, size) : count_source(job, size)))
        return false;
    return tv_source_push_text(job, job->files.data[file].path, (const char *)job->files.data[file].input.data,
                               job->files.data[file].input.size);
}

static bool is_param_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* Appends the macro's body with \name replaced by the argument, \@ by the number of this expansion, and \() by
 * nothing. */
static bool expand_macro(tv_asm_job *job, const tv_macro *macro, const tv_sv *args, tv_buf *out)
{
    tv_sv body = macro->body;
    for (size_t i = 0; i < body.len; i++) {
        if (body.ptr[i] != '\\') {
            size_t run = i;
            while (run < body.len && body.ptr[run] != '\\')
                run++;
            tv_buf_append(out, body.ptr + i, run - i);
            i = run - 1;
            continue;
        }
        size_t end = i + 1;
        while (end < body.len && is_param_char(body.ptr[end]))
            end++;
        tv_sv name = {body.ptr + i + 1, end - i - 1};
        unsigned p = 0;
        while (p < macro->param_count && !tv_sv_eq(macro->params[p].name, name))
            p++;
        if (name.len && p < macro->param_count) {
            tv_buf_append(out, args[p].ptr, args[p].len);
            i = end - 1;
        } else if (name.len == 0 && end < body.len && body.ptr[end] == '@') {
            tv_buf_printf(out, "%u", job->expansion_count);
            i = end;
        } else if (name.len == 0 && end + 1 < body.len && body.ptr[end] == '(' && body.ptr[end + 1] == ')') {
            i = end + 1;
        } else {
            tv_buf_append(out, "\\", 1);
        }
        if (out->len > TV_ASM_EXPANSION_MAX) {
            tv_asm_error(job, TV_CODE(ASM_LIMIT), "check for an argument that grows with each call",
                         "the expansion of '%.*s' has more than %zu bytes", TV_SV_ARG(macro->name),
                         TV_ASM_EXPANSION_MAX);
            return false;
        }
    }
    if (out->failed)
        job->out_of_memory = true;
    return !out->failed;
}

bool tv_source_push_macro(tv_asm_job *job, const tv_macro *macro, const tv_sv *args, unsigned arg_count)
{
    tv_sv values[TV_ASM_ARGS_MAX];
    for (unsigned i = 0; i < macro->param_count; i++)
        values[i] = i < arg_count ? args[i] : macro->params[i].default_value;
    tv_buf text = {0};
    if (!expand_macro(job, macro, values, &text) || !count_bytes(job, text.len)) {
        tv_buf_fini(&text);
        return false;
    }
    job->expansion_count++;
    tv_frame *frame = push_frame(job);
    if (!frame) {
        tv_buf_fini(&text);
        return false;
    }
    size_t size = text.len;
    frame->kind = TV_FRAME_MACRO;
    frame->expanded = true;
    frame->expansion = tv_buf_take(&text);
    frame->text = (tv_sv){frame->expansion ? frame->expansion : "", frame->expansion ? size : 0};
    frame->file = macro->file;
    frame->line = macro->line - 1;
    frame->macro = macro;
    return true;
}

static uint64_t line_count(tv_sv text)
{
    uint64_t lines = 0;
    for (const char *p = text.ptr, *end = p + text.len; p < end; lines++) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        p = newline ? newline + 1 : end;
    }
    return lines;
}

/* A repeat that cannot end within the budgets is rejected before its first line. */
bool tv_source_push_repeat(tv_asm_job *job, tv_sv body, unsigned first_line, uint64_t count, const tv_source_loc *loc)
{
    uint32_t file = job->frame->file;
    if (count == 0 || body.len == 0)
        return true;
    bool lines = count > job->line_budget / line_count(body);
    if (lines || count > job->byte_budget / body.len) {
        report_too_long(job, loc, lines);
        return false;
    }
    tv_frame *frame = push_frame(job);
    if (!frame)
        return false;
    frame->kind = TV_FRAME_REPEAT;
    frame->expanded = true;
    frame->text = body;
    frame->file = file;
    frame->first_line = first_line - 1;
    frame->line = first_line - 1;
    frame->repeats_left = count - 1;
    return count_bytes(job, body.len);
}

static tv_sv next_line(tv_frame *frame)
{
    const char *start = frame->text.ptr + frame->pos;
    size_t left = frame->text.len - frame->pos;
    const char *newline = memchr(start, '\n', left);
    size_t n = newline ? (size_t)(newline - start) : left;
    frame->pos += newline ? n + 1 : n;
    frame->line++;
    return (tv_sv){start, n};
}

bool tv_source_next_line(tv_asm_job *job, tv_sv *line)
{
    while (job->frame) {
        tv_frame *frame = job->frame;
        if (frame->pos < frame->text.len) {
            *line = next_line(frame);
            job->line = *line;
            return !frame->expanded || count_lines(job, 1);
        }
        if (frame->kind != TV_FRAME_REPEAT || !frame->repeats_left) {
            pop_frame(job);
            continue;
        }
        frame->repeats_left--;
        frame->pos = 0;
        frame->line = frame->first_line;
        if (!count_bytes(job, frame->text.len))
            return false;
    }
    return false;
}

/* The first name of a raw line after its labels; empty if there is none. */
static tv_sv leading_name(tv_sv line)
{
    size_t i = 0;
    for (;;) {
        while (i < line.len && (line.ptr[i] == ' ' || line.ptr[i] == '\t'))
            i++;
        size_t start = i;
        while (i < line.len && (is_param_char(line.ptr[i]) || line.ptr[i] == '.' || line.ptr[i] == '$'))
            i++;
        if (i < line.len && line.ptr[i] == ':' && i > start) {
            i++;
            continue;
        }
        return (tv_sv){line.ptr + start, i - start};
    }
}

bool tv_source_read_block(tv_asm_job *job, const char *const *begin, const char *end, tv_sv *body, unsigned *first_line)
{
    tv_frame *frame = job->frame;
    size_t start = frame->pos;
    unsigned depth = 1;
    *first_line = frame->line + 1;
    while (frame->pos < frame->text.len) {
        size_t line_start = frame->pos;
        tv_sv name = leading_name(next_line(frame));
        if (frame->expanded && !count_lines(job, 1))
            return false;
        if (tv_sv_is(name, end) && --depth == 0) {
            *body = (tv_sv){frame->text.ptr + start, line_start - start};
            return true;
        }
        for (const char *const *b = begin; *b; b++)
            depth += tv_sv_is(name, *b);
    }
    return false;
}

void tv_source_fini(tv_asm_job *job)
{
    while (job->frame) {
        tv_frame *frame = job->frame;
        job->frame = frame->parent;
        free(frame->expansion);
        free(frame);
    }
    for (size_t i = 0; i < job->files.count; i++)
        if (job->files.data[i].open)
            tv_input_close(&job->files.data[i].input);
    TV_VEC_FINI(&job->files);
}
