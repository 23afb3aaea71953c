/* SPDX-License-Identifier: Apache-2.0 */
/* The pass over the statements, and the entry points of the assembler. */
#include <inttypes.h>
#include <stdlib.h>

#include "asm/assemble.h"
#include "asm/job.h"

/* ---- Statements ---- */

static void report_unknown_statement(tv_asm_job *job, tv_sv name, unsigned column)
{
    tv_nearest nearest = tv_nearest_to(name);
    tv_operands_suggest(job, &nearest);
    tv_directive_suggest(&nearest);
    tv_macro_suggest(job, &nearest);
    const char *elsewhere = tv_directive_elsewhere(name);
    const char *dot = memchr(name.ptr + 1, '.', name.len - 1);
    if (!nearest.best && dot) { /* a misspelt mnemonic with suffixes */
        nearest = tv_nearest_to((tv_sv){name.ptr, (size_t)(dot - name.ptr)});
        tv_operands_suggest(job, &nearest);
    }
    char hint[96];
    if (elsewhere)
        snprintf(hint, sizeof hint, "write '%s'", elsewhere);
    else if (nearest.best)
        snprintf(hint, sizeof hint, "did you mean '%.60s'?", nearest.best);
    else if (name.ptr[0] == '.')
        snprintf(hint, sizeof hint, "the assembler's manual lists the directives");
    else if (!job->isa)
        snprintf(hint, sizeof hint, "write `.target NAME` before it or give -t");
    else
        snprintf(hint, sizeof hint, "`trivet isa %.40s` lists the instructions", job->isa->target);
    tv_asm_error_at(job, column, (unsigned)name.len, TV_CODE(ASM_MNEMONIC), hint,
                    "unknown instruction or directive '%.*s'", TV_SV_ARG(name));
}

static void define_label(tv_asm_job *job, tv_sv name, unsigned column)
{
    tv_expr here = {.known = true, .value = {.i = (int64_t)tv_emit_location(job)}};
    tv_symbol_define(job, name, column, TV_SYM_LABEL, job->in_data ? TV_SYMBOL_DATA : TV_SYMBOL_TEXT, here);
}

/* A line of a branch that is not assembled: only the directives of conditions take effect. */
static void skip_statement(tv_asm_job *job)
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

static void assemble_statement(tv_asm_job *job, tv_sv line)
{
    job->line = line;
    const tv_diag_sink *sink = job->sink;
    bool active = tv_conditions_active(job);
    unsigned errors = job->errors + job->repeated_errors;
    if (!active)
        job->sink = NULL; /* a skipped branch may contain malformed literals */
    tv_lex_begin(job, line);
    if (!active) {
        job->sink = sink;
        job->errors = errors - job->repeated_errors;
        skip_statement(job);
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
                            "'%.*s' is in .data, which has no instructions", TV_SV_ARG(name));
        else
            tv_operands_assemble(job, name, column);
        return;
    }
    bool known = tv_directive_condition(job, name, column) || tv_directive(job, name, column) ||
                 tv_macro_call(job, name, column);
    if (!known)
        report_unknown_statement(job, name, column);
    else if (job->errors + job->repeated_errors == errors && job->lexer.token.kind != TV_TOK_END &&
             job->lexer.token.kind != TV_TOK_BAD)
        tv_asm_error(job, TV_CODE(ASM_SYNTAX), NULL, "unexpected '%.*s' at the end of %.*s",
                     TV_SV_ARG(job->lexer.token.text), TV_SV_ARG(name));
}

/* ---- The job ---- */

/* The -D options, as .equ lines in front of the source. */
static bool push_definitions(tv_asm_job *job)
{
    /* Frames are read last in, first out, so push the definitions in reverse order. */
    for (unsigned i = job->options ? job->options->define_count : 0; i-- > 0;) {
        const char *text = job->options->defines[i], *equals = strchr(text, '=');
        tv_buf line = {0};
        tv_buf_printf(&line, ".equ %.*s, %s", equals ? (int)(equals - text) : (int)strlen(text), text,
                      equals ? equals + 1 : "1");
        char *copy = tv_arena_str(&job->arena, (tv_sv){tv_asm_cstr(job, &line), line.len});
        tv_buf_fini(&line);
        if (!copy || !tv_source_push_text(job, "<command line>", copy, strlen(copy)))
            return false;
    }
    return true;
}

static void assemble_lines(tv_asm_job *job)
{
    tv_sv line;
    while (!job->stop && !job->out_of_memory && tv_source_next_line(job, &line)) {
        tv_listing_line listed = tv_listing_begin(job, line);
        assemble_statement(job, line);
        tv_listing_end(job, &listed);
    }
}

static void job_fini(tv_asm_job *job)
{
    tv_source_fini(job);
    tv_operands_fini(job);
    tv_macros_fini(job);
    free(job->buckets);
    for (size_t i = 0; i < job->chunks.count; i++)
        tv_buf_fini(&job->chunks.data[i].bytes);
    for (size_t i = 0; i < job->file_copies.count; i++)
        tv_input_close(&job->file_copies.data[i].input);
    for (unsigned k = 0; k < TV_STREAMS_MAX; k++)
        TV_VEC_FINI(&job->streams[k]);
    TV_VEC_FINI(&job->conditions);
    TV_VEC_FINI(&job->lines);
    TV_VEC_FINI(&job->chunks);
    TV_VEC_FINI(&job->file_copies);
    TV_VEC_FINI(&job->fixups);
    TV_VEC_FINI(&job->listing_lines);
    TV_VEC_FINI(&job->requirements);
    TV_VEC_FINI(&job->inputs);
    tv_buf_fini(&job->text);
    tv_buf_fini(&job->listing_text);
    tv_arena_fini(&job->arena);
}

/* Copies the requirements to the program. Returns false when out of memory. */
static bool copy_requirements(tv_asm_job *job)
{
    tv_program *program = job->program;
    size_t count = job->requirements.count;
    if (count == 0)
        return true;
    program->requirements = tv_arena_alloc(&program->arena, count * sizeof *program->requirements);
    for (size_t i = 0; program->requirements && i < count; i++) {
        size_t size = strlen(job->requirements.data[i]) + 1;
        char *text = tv_arena_alloc(&program->arena, size);
        if (!text)
            return false;
        memcpy(text, job->requirements.data[i], size);
        program->requirements[program->requirement_count++] = text;
    }
    return program->requirements;
}

static bool copy_inputs(const tv_asm_job *job)
{
    for (size_t i = 0; i < job->inputs.count; i++)
        if (!tv_program_note_input(job->program, job->inputs.data[i]))
            return false;
    return true;
}

static tv_status finish_program(tv_asm_job *job, tv_program **out)
{
    if (!job->stop && !job->out_of_memory)
        tv_fixups_apply(job);
    if (job->out_of_memory)
        return tv_fail_memory(job->sink);
    if (job->host_error)
        return TV_ERR_IO;
    if (!job->isa && !job->errors)
        tv_fail(job->sink, TV_ERR_INPUT, TV_CODE(ASM_TARGET), "begin the source with `.target NAME` or give -t NAME",
                "'%s' does not name its target", job->name);
    if (job->errors || job->stop || !job->isa)
        return TV_ERR_INPUT;
    tv_emit_copy_files(job);
    tv_listing_write(job);
    TV_TRY(tv_program_new(job->isa, job->sink, &job->program));
    job->program->proposed = job->allows_proposed;
    job->program->warned_proposed = job->warned_proposed;
    if (!copy_requirements(job) || !copy_inputs(job)) {
        tv_program_free(job->program);
        return tv_fail_memory(job->sink);
    }
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
    *out = job->program;
    return TV_OK;
}

tv_status tv_asm_text(const char *name, tv_sv text, const tv_isa_list *isas, const tv_program_options *options,
                      const tv_diag_sink *sink, tv_program **out)
{
    tv_asm_job job = {.name = name,
                      .isas = isas,
                      .options = options,
                      .sink = sink,
                      .line_budget = options && options->line_limit ? options->line_limit : TV_ASM_LINES_MAX,
                      .source_budget = TV_ASM_SOURCE_MAX,
                      .suggestion_budget = TV_ASM_SUGGESTIONS_MAX,
                      .output_budget = options && options->output_limit ? options->output_limit : TV_ASM_OUTPUT_MAX,
                      .listing = options ? options->listing : NULL};
    job.byte_budget =
        job.line_budget > UINT64_MAX / TV_ASM_LINE_BYTES ? UINT64_MAX : job.line_budget * TV_ASM_LINE_BYTES;
    bool started = tv_source_push_text(&job, name, text.ptr, text.len);
    if (started) /* for the source lines of errors that fixups report */
        job.files.data[0].input = (tv_input){.data = (const uint8_t *)text.ptr, .size = text.len};
    if (started && options && options->target) {
        job.line = (tv_sv){"", 0};
        started = tv_operands_set_target(&job, tv_sv_of(options->target), 1);
    }
    if (started && push_definitions(&job))
        assemble_lines(&job);
    tv_status status = finish_program(&job, out);
    job_fini(&job);
    return status;
}

tv_status tv_asm_input(const char *name, tv_input *input, const tv_isa_list *isas, const tv_program_options *options,
                       const tv_diag_sink *sink, tv_program **out)
{
    tv_sv text = {(const char *)input->data, input->size};
    tv_status status = tv_asm_text(name, text, isas, options, sink, out);
    tv_input_close(input);
    return status;
}
