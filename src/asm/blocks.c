/* SPDX-License-Identifier: Apache-2.0 */
/* Directives that span lines: macros, repeats, conditionals. */
#include <inttypes.h>
#include <stdlib.h>

#include "asm/job.h"

/* ---- Macros ---- */

static tv_macro *find_macro(const tv_asm_job *job, tv_sv name)
{
    for (tv_macro *m = job->macros; m; m = m->next)
        if (tv_sv_eq(m->name, name))
            return m;
    return NULL;
}

/* A view that outlives the frame it was read from: macro text made by another macro is freed with it. */
static tv_sv keep(tv_asm_job *job, tv_sv text)
{
    char *copy = tv_arena_str(&job->arena, text);
    if (!copy) {
        job->out_of_memory = true;
        return (tv_sv){"", 0};
    }
    return (tv_sv){copy, text.len};
}

/* name [, name[=default]] …; raw text up to the next comma is the default. */
static bool read_params(tv_asm_job *job, tv_macro *macro)
{
    while (job->lexer.token.kind != TV_TOK_END) {
        if (job->lexer.token.kind != TV_TOK_NAME || macro->param_count == TV_ASM_ARGS_MAX) {
            tv_asm_error(job, TV_CODE(ASM_DIRECTIVE), "write .macro NAME first, second=default", "expected a parameter's name");
            return false;
        }
        unsigned i = macro->param_count++;
        macro->params[i] = keep(job, job->lexer.token.text);
        tv_lex_next(job);
        if (tv_lex_accept(job, '=')) {
            const char *start = job->lexer.line.ptr + tv_lex_column(job) - 1, *end = start;
            while (job->lexer.token.kind != TV_TOK_END && !tv_lex_is(job, ',')) {
                end = job->lexer.token.text.ptr + job->lexer.token.text.len;
                tv_lex_next(job);
            }
            macro->has_default[i] = true;
            macro->defaults[i] = keep(job, (tv_sv){start, (size_t)(end - start)});
        }
        tv_lex_accept(job, ',');
    }
    return true;
}

void tv_block_macro(tv_asm_job *job, unsigned column)
{
    static const char *const begin[] = {".macro", NULL};
    tv_macro *macro = tv_asm_alloc(job, sizeof *macro);
    if (!macro)
        return;
    tv_token name = job->lexer.token;
    bool good = name.kind == TV_TOK_NAME;
    tv_sv line = job->lexer.line;
    if (!good)
        tv_asm_error(job, TV_CODE(ASM_DIRECTIVE), NULL, ".macro takes a name");
    else if (find_macro(job, name.text)) {
        tv_asm_error(job, TV_CODE(ASM_REDEFINED), NULL, "there is a macro '%.*s' already", TV_SV_ARG(name.text));
        good = false;
    } else if (tv_operands_is_mnemonic(job, name.text)) {
        tv_asm_error(job, TV_CODE(ASM_REDEFINED), NULL, "'%.*s' is an instruction", TV_SV_ARG(name.text));
        good = false;
    }
    if (good) {
        macro->name = keep(job, name.text);
        tv_lex_next(job);
        tv_lex_accept(job, ',');
        good = read_params(job, macro);
    }
    (void)line;
    tv_sv body;
    if (!tv_source_block(job, begin, ".endm", &body, &macro->line)) {
        tv_asm_error_at(job, column, 6, TV_CODE(ASM_NESTING), NULL, ".macro without .endm");
        good = false;
    }
    macro->file = job->frame->file;
    if (good) {
        macro->body = keep(job, body);
        macro->next = job->macros;
        job->macros = macro;
    }
    tv_lex_begin(job, (tv_sv){"", 0});
}

/* Arguments are raw text between the commas that stand outside brackets and quotes. */
static unsigned read_args(tv_asm_job *job, tv_sv args[TV_ASM_ARGS_MAX])
{
    tv_sv rest;
    tv_lex_rest(job, &rest);
    unsigned count = 0, depth = 0;
    size_t start = 0;
    bool quoted = false;
    for (size_t i = 0; i <= rest.len; i++) {
        char c = i < rest.len ? rest.ptr[i] : ',';
        if (c == '\\' && quoted && i + 1 < rest.len) {
            i++;
            continue;
        }
        if (c == '"')
            quoted = !quoted;
        if (!quoted && (c == '(' || c == '['))
            depth++;
        if (!quoted && depth && (c == ')' || c == ']'))
            depth--;
        if (i < rest.len && (c != ',' || quoted || depth))
            continue;
        size_t a = start, b = i;
        while (a < b && (rest.ptr[a] == ' ' || rest.ptr[a] == '\t'))
            a++;
        while (b > a && (rest.ptr[b - 1] == ' ' || rest.ptr[b - 1] == '\t'))
            b--;
        if (count < TV_ASM_ARGS_MAX && !(i >= rest.len && count == 0 && a == b))
            args[count++] = (tv_sv){rest.ptr + a, b - a};
        start = i + 1;
    }
    return count;
}

bool tv_macro_call(tv_asm_job *job, tv_sv name, unsigned column)
{
    const tv_macro *macro = find_macro(job, name);
    if (!macro)
        return false;
    tv_sv args[TV_ASM_ARGS_MAX];
    unsigned count = read_args(job, args);
    if (count > macro->param_count) {
        tv_asm_error_at(job, column, (unsigned)name.len, TV_CODE(ASM_OPERAND_COUNT), NULL, "macro '%.*s' takes %u arguments, not %u",
                        TV_SV_ARG(name), macro->param_count, count);
    } else {
        unsigned missing = count;
        while (missing < macro->param_count && macro->has_default[missing])
            missing++;
        if (missing < macro->param_count)
            tv_asm_error_at(job, column, (unsigned)name.len, TV_CODE(ASM_OPERAND_COUNT), NULL, "macro '%.*s' lacks its argument '%.*s'",
                            TV_SV_ARG(name), TV_SV_ARG(macro->params[missing]));
        else
            tv_source_push_macro(job, macro, args, count);
    }
    tv_lex_begin(job, (tv_sv){"", 0});
    return true;
}

/* ---- Repeats ---- */

void tv_block_repeat(tv_asm_job *job, unsigned column)
{
    static const char *const begin[] = {".rept", NULL};
    int64_t count = 0;
    bool good = tv_expr_constant(job, &count);
    if (good && count < 0) {
        tv_asm_error_at(job, column, 5, TV_CODE(ASM_RANGE), NULL, ".rept takes a count from 0 up, not %" PRId64, count);
        good = false;
    }
    if (good && job->lexer.token.kind != TV_TOK_END)
        tv_asm_error(job, TV_CODE(ASM_SYNTAX), NULL, "unexpected text after the count");
    tv_sv body;
    unsigned first_line;
    if (!tv_source_block(job, begin, ".endr", &body, &first_line))
        tv_asm_error_at(job, column, 5, TV_CODE(ASM_NESTING), NULL, ".rept without .endr");
    else if (good)
        tv_source_push_repeat(job, body, first_line, (uint64_t)count);
    tv_lex_begin(job, (tv_sv){"", 0});
}

/* ---- Conditionals ---- */

static tv_condition *top(const tv_asm_job *job)
{
    size_t count = job->conditions.len / sizeof(tv_condition);
    size_t floor = job->frame ? job->frame->if_depth : 0;
    return count > floor ? (tv_condition *)(void *)job->conditions.data + count - 1 : NULL;
}

bool tv_conditions_active(const tv_asm_job *job)
{
    size_t count = job->conditions.len / sizeof(tv_condition);
    return count == 0 || ((const tv_condition *)(const void *)job->conditions.data)[count - 1].active;
}

void tv_conditions_close(tv_asm_job *job, unsigned depth)
{
    while (job->conditions.len / sizeof(tv_condition) > depth) {
        const tv_condition *c = (const tv_condition *)(const void *)(job->conditions.data + job->conditions.len) - 1;
        tv_asm_error_place(job, &c->place, TV_CODE(ASM_NESTING), NULL, ".if without .endif");
        job->conditions.len -= sizeof(tv_condition);
    }
}

static bool test(tv_asm_job *job, tv_sv name)
{
    if (tv_sv_is(name, ".ifdef") || tv_sv_is(name, ".ifndef")) {
        if (job->lexer.token.kind != TV_TOK_NAME) {
            tv_asm_error(job, TV_CODE(ASM_DIRECTIVE), NULL, "%.*s takes a name", TV_SV_ARG(name));
            return false;
        }
        const tv_asm_symbol *s = tv_symbol_find(job, job->lexer.token.text);
        bool defined = s && s->state != TV_SYM_UNDEFINED;
        tv_lex_next(job);
        return defined == tv_sv_is(name, ".ifdef");
    }
    int64_t value;
    return tv_expr_constant(job, &value) && value != 0;
}

static void open_condition(tv_asm_job *job, tv_sv name, unsigned column)
{
    bool outer = tv_conditions_active(job);
    if (job->conditions.len / sizeof(tv_condition) >= 256) {
        tv_asm_error_at(job, column, (unsigned)name.len, TV_CODE(ASM_NESTING), NULL, "conditionals nest deeper than 256");
        job->stop = true;
        return;
    }
    tv_condition c = {.place = tv_asm_place(job, column, (unsigned)name.len)};
    if (outer)
        c.active = c.taken = test(job, name);
    else
        c.taken = true;
    tv_buf_append(&job->conditions, &c, sizeof c);
    if (job->conditions.failed)
        job->out_of_memory = true;
}

static void next_branch(tv_asm_job *job, tv_sv name, unsigned column)
{
    tv_condition *c = top(job);
    bool plain_else = tv_sv_is(name, ".else");
    if (!c || c->seen_else) {
        tv_asm_error_at(job, column, (unsigned)name.len, TV_CODE(ASM_NESTING), NULL, c ? "%.*s after .else" : "%.*s without .if",
                        TV_SV_ARG(name));
        return;
    }
    c->seen_else = plain_else;
    c->active = false;
    if (c->taken)
        return;
    bool holds = plain_else || test(job, tv_sv_of(".if"));
    c = top(job);
    c->active = c->taken = holds;
}

bool tv_directive_condition(tv_asm_job *job, tv_sv name, unsigned column)
{
    if (name.len < 3 || name.ptr[0] != '.' || (name.ptr[1] != 'i' && name.ptr[1] != 'e'))
        return false;
    bool was_active = tv_conditions_active(job);
    if (tv_sv_is(name, ".if") || tv_sv_is(name, ".ifdef") || tv_sv_is(name, ".ifndef")) {
        open_condition(job, name, column);
    } else if (tv_sv_is(name, ".elseif") || tv_sv_is(name, ".else")) {
        next_branch(job, name, column);
    } else if (tv_sv_is(name, ".endif")) {
        if (top(job))
            job->conditions.len -= sizeof(tv_condition);
        else
            tv_asm_error_at(job, column, 6, TV_CODE(ASM_NESTING), NULL, ".endif without .if");
    } else {
        return false;
    }
    if (!was_active || !tv_conditions_active(job))
        tv_lex_begin(job, (tv_sv){"", 0}); /* what stands there was not read */
    return true;
}
