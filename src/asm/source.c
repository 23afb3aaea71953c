/* SPDX-License-Identifier: Apache-2.0 */
/* The source of lines: a stack of frames, each a file, a macro expansion or a repeated block. Files stay open until the
 * job ends, because symbols, macro bodies and diagnostics point into them. */
#include <stdlib.h>
#include <sys/stat.h>

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
    frame->kind = TV_FRAME_FILE;
    frame->text = (tv_sv){text, size};
    frame->file = file;
    return true;
}

static void ignore_diag(void *user, const tv_diag *diag)
{
    (void)user;
    (void)diag;
}

/* Pipes and devices are rejected: reading them may block or not end. */
static bool is_regular(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* Looks for a relative path in the folder of the including file, then in the include folders. */
bool tv_source_open_input(tv_asm_job *job, tv_sv path, unsigned column, tv_input *input, const char **found)
{
    tv_diag_sink quiet = {.emit = ignore_diag};
    unsigned count = job->options ? job->options->include_count : 0;
    const char *own = job->frame ? job->files.data[job->frame->file].path : "";
    const char *slash = strrchr(own, '/');
    for (int i = -1; i < (int)count; i++) {
        tv_buf full = {0};
        if (path.len && path.ptr[0] != '/') {
            if (i < 0 && slash)
                tv_buf_append(&full, own, (size_t)(slash - own) + 1);
            else if (i >= 0)
                tv_buf_printf(&full, "%s/", job->options->include_dirs[i]);
        }
        tv_buf_append(&full, path.ptr, path.len);
        const char *name = tv_buf_cstr(&full);
        bool open = is_regular(name) && strlen(name) == full.len && tv_input_open(name, &quiet, input) == TV_OK;
        if (open && found)
            *found = tv_arena_str(&job->arena, tv_sv_of(name));
        tv_buf_fini(&full);
        if (open)
            return true;
    }
    tv_asm_error_at(job, column, (unsigned)path.len + 2, TV_CODE(ASM_INCLUDE),
                    "it must be a regular file in the folder of this file or in an -I folder", "cannot read '%.*s'",
                    TV_SV_ARG(path));
    return false;
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
    if (job->files.data[file].open)
        tv_input_close(&input); /* included before: use the same text */
    else
        job->files.data[file] = (tv_asm_file){.path = job->files.data[file].path, .input = input, .open = true};
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
        while (p < macro->param_count && !tv_sv_eq(macro->params[p], name))
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
        values[i] = i < arg_count ? args[i] : macro->defaults[i];
    tv_buf text = {0};
    if (!expand_macro(job, macro, values, &text)) {
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
    frame->expansion = tv_buf_take(&text);
    frame->text = (tv_sv){frame->expansion ? frame->expansion : "", frame->expansion ? size : 0};
    frame->file = macro->file;
    frame->line = macro->line - 1;
    frame->macro = macro;
    return true;
}

bool tv_source_push_repeat(tv_asm_job *job, tv_sv body, unsigned first_line, uint64_t count)
{
    uint32_t file = job->frame->file;
    if (count == 0 || body.len == 0)
        return true;
    tv_frame *frame = push_frame(job);
    if (!frame)
        return false;
    frame->kind = TV_FRAME_REPEAT;
    frame->text = body;
    frame->file = file;
    frame->first_line = first_line - 1;
    frame->line = first_line - 1;
    frame->repeats_left = count - 1;
    return true;
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
            return true;
        }
        if (frame->kind == TV_FRAME_REPEAT && frame->repeats_left) {
            frame->repeats_left--;
            frame->pos = 0;
            frame->line = frame->first_line;
            if (job->line_budget)
                job->line_budget--; /* limits the repetition of an empty body */
            else
                job->stop = true;
            if (job->stop)
                return false;
            continue;
        }
        pop_frame(job);
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
