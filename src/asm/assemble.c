/* SPDX-License-Identifier: Apache-2.0 */
/* The pass over the statements, the reporting of errors, and the finished program. */
#include <inttypes.h>
#include <stdlib.h>

#include "asm/job.h"
#include "asm/assemble.h"

/* ---- Errors ---- */

static const char *line_copy(tv_asm_job *job, tv_sv line)
{
    enum { LONGEST = 400 };
    char *copy = tv_arena_str(&job->arena, (tv_sv){line.ptr, line.len < LONGEST ? line.len : LONGEST});
    for (char *p = copy; p && *p; p++)
        if ((unsigned char)*p < ' ' && *p != '\t')
            *p = ' ';
    return copy;
}

tv_place tv_asm_place(const tv_asm_job *job, unsigned column, unsigned length)
{
    tv_place place = {.column = column, .length = length, .index = -1};
    if (job->frame) {
        place.file = job->files[job->frame->file].path;
        place.line = job->frame->line;
        if (job->frame->kind == TV_FRAME_MACRO)
            place.column = place.length = 0; /* columns of the expanded text say nothing about the file */
    }
    return place;
}

/* Says where the macros and repeats that led here were called. */
static void report_callers(tv_asm_job *job)
{
    unsigned shown = 0;
    for (tv_frame *f = job->frame; f && f->up && shown < 4; f = f->up) {
        tv_place place = {.file = job->files[f->up->file].path, .line = f->up->line, .index = -1};
        if (f->kind == TV_FRAME_MACRO) {
            tv_report(job->sink, TV_NOTE, TV_CODE(ASM_USER), &place, NULL, "in the expansion of '%.*s' called here", TV_SV_ARG(f->macro->name));
            shown++;
        } else if (f->kind == TV_FRAME_FILE) {
            tv_report(job->sink, TV_NOTE, TV_CODE(ASM_USER), &place, NULL, "included from here");
            shown++;
        }
    }
}

static void count_error(tv_asm_job *job)
{
    if (++job->errors < TV_ASM_ERRORS_MAX || job->stop)
        return;
    job->stop = true;
    tv_fail(job->sink, TV_ERR_INPUT, TV_CODE(ASM_TOO_MANY), "mend these first", "more than %d errors", TV_ASM_ERRORS_MAX);
}

/* Whether the same was said at the same place in an earlier round of a .rept. */
static bool said_before(tv_asm_job *job, const tv_place *place, const tv_code *code, tv_sv text)
{
    const tv_frame *f = job->frame;
    while (f && f->kind != TV_FRAME_REPEAT)
        f = f->up;
    if (!f || !place->file || !job->sink) /* without a sink nothing is said: a look ahead, a branch not taken */
        return false;
    uint64_t hash = tv_sv_hash(text) ^ tv_sv_hash(tv_sv_of(code->code)) * 31 ^ tv_sv_hash(tv_sv_of(place->file)) * 127 ^
                    ((uint64_t)place->line << 20 ^ place->column) * UINT64_C(0x9E3779B97F4A7C15);
    for (unsigned i = 0; i < job->said_count; i++)
        if (job->said[i] == hash)
            return true;
    if (job->said_count < TV_ASM_ERRORS_MAX)
        job->said[job->said_count++] = hash;
    return false;
}

static void say(tv_asm_job *job, tv_severity severity, unsigned column, unsigned length, const tv_code *code, const char *hint,
                const char *format, va_list args)
{
    tv_place place = tv_asm_place(job, column, length);
    place.column = column;
    place.length = length;
    place.source_line = line_copy(job, job->line);
    tv_buf text = {0};
    tv_buf_vprintf(&text, format, args);
    bool repeated = said_before(job, &place, code, (tv_sv){tv_buf_cstr(&text), text.len});
    if (!repeated) {
        tv_report(job->sink, severity, code, &place, hint, "%s", tv_buf_cstr(&text));
        report_callers(job);
    }
    tv_buf_fini(&text);
    if (severity == TV_ERROR && !repeated)
        count_error(job);
    else if (severity == TV_ERROR)
        job->stop |= ++job->unsaid > 100 * TV_ASM_ERRORS_MAX;
}

void tv_asm_error(tv_asm_job *job, const tv_code *code, const char *hint, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    bool in_line = job->lexer.line.ptr == job->line.ptr && job->lexer.token.text.ptr;
    say(job, TV_ERROR, in_line ? tv_lex_column(job) : 1, (unsigned)job->lexer.token.text.len, code, hint, format, args);
    va_end(args);
}

void tv_asm_error_at(tv_asm_job *job, unsigned column, unsigned length, const tv_code *code, const char *hint, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(job, TV_ERROR, column, length, code, hint, format, args);
    va_end(args);
}

void tv_asm_warning(tv_asm_job *job, unsigned column, unsigned length, const tv_code *code, const char *hint, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(job, TV_WARNING, column, length, code, hint, format, args);
    va_end(args);
}

/* The text of a line of a file that is still open. */
static const char *stored_line(tv_asm_job *job, const tv_place *place)
{
    for (unsigned i = 0; i < job->file_count; i++) {
        if (job->files[i].path != place->file || !job->files[i].input.data)
            continue;
        const char *p = (const char *)job->files[i].input.data, *end = p + job->files[i].input.size;
        for (unsigned line = 1; line < place->line && p < end; line++) {
            const char *newline = memchr(p, '\n', (size_t)(end - p));
            p = newline ? newline + 1 : end;
        }
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        return line_copy(job, (tv_sv){p, (size_t)((newline ? newline : end) - p)});
    }
    return NULL;
}

void tv_asm_error_place(tv_asm_job *job, const tv_place *place, const tv_code *code, const char *hint, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    bool current = job->frame && place->file == job->files[job->frame->file].path && place->line == job->frame->line;
    if (current && job->line.ptr) {
        say(job, TV_ERROR, place->column, place->length, code, hint, format, args);
    } else {
        tv_place whole = *place;
        whole.source_line = stored_line(job, place);
        tv_buf text = {0};
        tv_buf_vprintf(&text, format, args);
        tv_report(job->sink, TV_ERROR, code, &whole, hint, "%s", tv_buf_cstr(&text));
        tv_buf_fini(&text);
        count_error(job);
    }
    va_end(args);
}

void *tv_asm_alloc(tv_asm_job *job, size_t size)
{
    if (!tv_emit_take(job, size))
        return NULL;
    void *p = tv_arena_alloc(&job->arena, size);
    if (!p)
        job->out_of_memory = true;
    return p;
}

/* ---- Statements ---- */

bool tv_asm_set_target(tv_asm_job *job, tv_sv name, unsigned column)
{
    const tv_isa *isa = tv_isa_find(name);
    if (!isa) {
        tv_nearest nearest = tv_nearest_to(name);
        for (unsigned i = 0; tv_isa_at(i); i++)
            tv_nearest_offer(&nearest, tv_isa_at(i)->target);
        char hint[80];
        snprintf(hint, sizeof hint, nearest.best ? "did you mean '%s'?" : "`trivet targets` lists the machines%s", nearest.best ? nearest.best : "");
        tv_asm_error_at(job, column, (unsigned)name.len, TV_CODE(ASM_TARGET), hint, "there is no target '%.*s'", TV_SV_ARG(name));
        return false;
    }
    if (job->isa && job->isa != isa) {
        tv_asm_error_at(job, column, (unsigned)name.len, TV_CODE(ASM_TARGET), "a program is for one machine", "the target is %s already",
                        job->isa->target);
        return false;
    }
    if (job->isa)
        return true;
    job->isa = isa;
    job->word_bytes = isa->word_bits / 8;
    return tv_operands_index(job);
}

static void unknown_statement(tv_asm_job *job, tv_sv name, unsigned column)
{
    tv_nearest nearest = tv_nearest_to(name);
    tv_operands_suggest(job, &nearest);
    tv_directive_suggest(&nearest);
    char hint[96];
    if (nearest.best)
        snprintf(hint, sizeof hint, "did you mean '%.60s'?", nearest.best);
    else if (!job->isa)
        snprintf(hint, sizeof hint, "write `.target NAME` first or give -t");
    else
        snprintf(hint, sizeof hint, "`trivet isa %.40s` lists the instructions", job->isa->target);
    tv_asm_error_at(job, column, (unsigned)name.len, TV_CODE(ASM_MNEMONIC), hint, "unknown instruction or directive '%.*s'", TV_SV_ARG(name));
}

static void define_label(tv_asm_job *job, tv_sv name, unsigned column)
{
    tv_expr here = {.known = true, .value = {.i = (int64_t)tv_emit_here(job)}};
    tv_symbol_define(job, name, column, TV_SYM_LABEL, job->in_data ? TV_SYMBOL_DATA : TV_SYMBOL_TEXT, here);
}

static void skipped_statement(tv_asm_job *job)
{
    while (job->lexer.token.kind == TV_TOK_NAME && tv_lex_peek(job).op == ':') {
        tv_lex_next(job);
        tv_lex_next(job);
    }
    if (job->lexer.token.kind != TV_TOK_NAME)
        return;
    tv_sv name = job->lexer.token.text;
    unsigned column = tv_lex_column(job);
    if (name.ptr[0] != '.')
        return;
    tv_lex_next(job);
    tv_directive_condition(job, name, column);
}

void tv_asm_statement(tv_asm_job *job, tv_sv line)
{
    job->line = line;
    const tv_diag_sink *sink = job->sink;
    bool active = tv_conditions_active(job);
    unsigned errors = job->errors + job->unsaid;
    if (!active)
        job->sink = NULL; /* literals in a branch not taken may be anything */
    tv_lex_begin(job, line);
    if (!active) {
        job->sink = sink;
        job->errors = errors - job->unsaid;
        skipped_statement(job);
        return;
    }
    while (job->lexer.token.kind == TV_TOK_NAME) {
        tv_token next = tv_lex_peek(job);
        if (next.kind != TV_TOK_PUNCT || next.op != ':')
            break;
        define_label(job, job->lexer.token.text, tv_lex_column(job));
        tv_lex_next(job);
        tv_lex_next(job);
    }
    if (job->lexer.token.kind == TV_TOK_END || job->lexer.token.kind == TV_TOK_BAD)
        return;
    if (job->lexer.token.kind != TV_TOK_NAME) {
        tv_asm_error(job, TV_CODE(ASM_SYNTAX), NULL, "expected an instruction, a directive or a label, found '%.*s'",
                     TV_SV_ARG(job->lexer.token.text));
        return;
    }
    tv_sv name = job->lexer.token.text;
    unsigned column = tv_lex_column(job);
    tv_lex_next(job);
    if (tv_operands_is_mnemonic(job, name)) {
        if (job->in_data)
            tv_asm_error_at(job, column, (unsigned)name.len, TV_CODE(ASM_SECTION), "put a .text line before it",
                            "'%.*s' stands in .data, which holds no instructions", TV_SV_ARG(name));
        else
            tv_operands_assemble(job, name, column);
        return;
    }
    bool known = tv_directive_condition(job, name, column) || tv_directive(job, name, column) || tv_macro_call(job, name, column);
    if (!known)
        unknown_statement(job, name, column);
    else if (job->errors + job->unsaid == errors && job->lexer.token.kind != TV_TOK_END && job->lexer.token.kind != TV_TOK_BAD)
        tv_asm_error(job, TV_CODE(ASM_SYNTAX), NULL, "unexpected '%.*s' at the end of %.*s", TV_SV_ARG(job->lexer.token.text),
                     TV_SV_ARG(name));
}

/* ---- Listing ---- */

static void list_line(tv_asm_job *job, tv_sv line, uint64_t text_before, uint64_t data_before, bool was_data)
{
    FILE *out = job->listing;
    const uint8_t *p = NULL;
    uint64_t n = 0;
    if (!job->in_data && !was_data && job->text.len > text_before) {
        fprintf(out, "%08" PRIx64 "  ", text_before / (job->word_bytes ? job->word_bytes : 1));
        for (unsigned i = job->word_bytes; i-- > 0;)
            fprintf(out, "%02x", job->text.data[text_before + i]);
        fputs("  ", out);
    } else if (job->in_data && was_data && tv_emit_here(job) > data_before) {
        const tv_chunk *c = (const tv_chunk *)(const void *)(job->chunks.data + job->chunks.len) - 1;
        n = tv_emit_here(job) - data_before;
        p = c->zeros || n > c->bytes.len ? NULL : c->bytes.data + c->bytes.len - n;
        fprintf(out, "%08" PRIx64 "  ", data_before);
        for (uint64_t i = 0; i < 8; i++)
            fprintf(out, i < n ? "%02x" : "  ", i < n && p ? p[i] : 0);
        fputs(n > 8 ? "+ " : "  ", out);
    } else {
        fprintf(out, "%28s", "");
    }
    fprintf(out, "%5u%c %.*s\n", job->frame ? job->frame->line : 0,
            job->frame && job->frame->kind == TV_FRAME_MACRO ? '+' : ' ', TV_SV_ARG(line));
}

/* ---- The job ---- */

static bool define_constants(tv_asm_job *job)
{
    for (unsigned i = 0; job->options && i < job->options->define_count; i++) {
        const char *text = job->options->defines[i], *equals = strchr(text, '=');
        tv_buf line = {0};
        tv_buf_printf(&line, ".equ %.*s, %s", equals ? (int)(equals - text) : (int)strlen(text), text, equals ? equals + 1 : "1");
        char *copy = tv_arena_str(&job->arena, (tv_sv){tv_buf_cstr(&line), line.len});
        tv_buf_fini(&line);
        if (!copy || !tv_source_push_text(job, "<command line>", copy, strlen(copy)))
            return false;
    }
    return true;
}

static void run_pass(tv_asm_job *job)
{
    tv_sv line;
    while (!job->stop && !job->out_of_memory && tv_source_next(job, &line)) {
        if (job->lines_left-- == 0) {
            job->line = line;
            tv_asm_error_at(job, 1, 1, TV_CODE(ASM_LIMIT), "does a .rept repeat too often?", "the program has too many lines after expansion");
            job->stop = true;
            return;
        }
        uint64_t text = job->text.len, data = job->in_data ? tv_emit_here(job) : 0;
        bool was_data = job->in_data;
        unsigned number = job->frame->line;
        const tv_frame *frame = job->frame;
        tv_asm_statement(job, line);
        if (job->listing && frame == job->frame && number <= job->frame->line)
            list_line(job, line, text, data, was_data);
    }
}

static void list_symbols(tv_asm_job *job)
{
    fprintf(job->listing, "\nsymbols\n");
    for (const tv_asm_symbol *s = job->first_symbol; s; s = s->next)
        if (s->state != TV_SYM_UNDEFINED && !s->value.real)
            fprintf(job->listing, "%016" PRIx64 "  %-8s %.*s\n", (uint64_t)s->value.i,
                    s->kind == TV_SYMBOL_TEXT ? "text" : s->kind == TV_SYMBOL_DATA ? "data" : "constant", TV_SV_ARG(s->name));
}

static void job_fini(tv_asm_job *job)
{
    tv_source_fini(job);
    tv_operands_fini(job);
    free(job->buckets);
    tv_chunk *chunks = (tv_chunk *)(void *)job->chunks.data;
    for (size_t i = 0; i < job->chunks.len / sizeof *chunks; i++)
        tv_buf_fini(&chunks[i].bytes);
    tv_buf *bufs[] = {&job->conditions, &job->text, &job->lines, &job->chunks, &job->fixups};
    for (size_t i = 0; i < TV_COUNTOF(bufs); i++)
        tv_buf_fini(bufs[i]);
    for (unsigned k = 0; k < TV_STREAMS_MAX; k++)
        tv_buf_fini(&job->streams[k]);
    tv_arena_fini(&job->arena);
}

static tv_status finish(tv_asm_job *job, tv_program **out)
{
    if (!job->stop && !job->out_of_memory)
        tv_emit_fixups(job);
    if (!job->isa && !job->errors)
        tv_fail(job->sink, TV_ERR_INPUT, TV_CODE(ASM_TARGET), "begin the source with `.target NAME`, or give -t NAME",
                "'%s' does not say which machine it is for", job->name);
    if (job->out_of_memory)
        return tv_fail_memory(job->sink);
    if (job->errors || job->stop || !job->isa)
        return TV_ERR_INPUT;
    TV_TRY(tv_program_make(job->isa, job->sink, &job->program));
    tv_status status = tv_emit_finish(job);
    if (status == TV_ERR_MEMORY)
        tv_fail_memory(job->sink);
    if (status == TV_OK && job->errors)
        status = TV_ERR_INPUT;
    if (status == TV_OK)
        status = tv_program_seal(job->program, job->sink);
    if (status != TV_OK) {
        tv_program_free(job->program);
        return status;
    }
    if (job->listing)
        list_symbols(job);
    *out = job->program;
    return TV_OK;
}

static tv_status assemble(const char *name, tv_input *input, const char *text, size_t size, const tv_program_options *options,
                          const tv_diag_sink *sink, tv_program **out)
{
    tv_asm_job job = {.name = name,
                      .options = options,
                      .sink = sink,
                      .lines_left = options && options->line_limit ? options->line_limit : 100000000,
                      .output_left = options && options->output_limit ? options->output_limit : TV_ASM_OUTPUT_MAX,
                      .listing = options ? options->listing : NULL};
    tv_status status = TV_ERR_INPUT;
    bool ready = tv_source_push_text(&job, name, text, size);
    if (ready) /* the messages of the end need the text, too */
        job.files[0].input = (tv_input){.data = (const uint8_t *)text, .size = size};
    if (ready && options && options->target) {
        job.line = (tv_sv){"", 0};
        ready = tv_asm_set_target(&job, tv_sv_of(options->target), 1);
    }
    if (ready && define_constants(&job))
        run_pass(&job);
    while (job.frame && !job.stop) { /* only when a limit stopped the pass */
        tv_conditions_close(&job, 0);
        break;
    }
    status = finish(&job, out);
    job_fini(&job);
    if (input)
        tv_input_close(input);
    return status;
}

tv_status tv_program_assemble(const char *name, const char *text, size_t size, const tv_program_options *options,
                              const tv_diag_sink *sink, tv_program **out)
{
    return assemble(name, NULL, text, size, options, sink, out);
}

tv_status tv_asm_input(const char *name, tv_input *input, const tv_program_options *options, const tv_diag_sink *sink, tv_program **out)
{
    return assemble(name, input, (const char *)input->data, input->size, options, sink, out);
}
