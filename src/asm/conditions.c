/* SPDX-License-Identifier: Apache-2.0 */
/* Conditional assembly: .if, .ifdef, .ifndef, .elseif, .else, .endif. */
#include "asm/job.h"

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
        tv_asm_error_loc(job, &c->loc, TV_CODE(ASM_NESTING), "close it in the same file or macro",
                         ".if without .endif");
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
    return tv_expr_constant(job, &value, NULL) && value != 0;
}

static void open_condition(tv_asm_job *job, tv_sv name, unsigned column)
{
    bool outer = tv_conditions_active(job);
    if (job->conditions.len / sizeof(tv_condition) >= 256) {
        tv_asm_error_at(job, column, (unsigned)name.len, TV_CODE(ASM_NESTING), NULL,
                        "conditionals nest deeper than 256");
        job->stop = true;
        return;
    }
    tv_condition c = {.loc = tv_asm_loc(job, column, (unsigned)name.len)};
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
        tv_asm_error_at(job, column, (unsigned)name.len, TV_CODE(ASM_NESTING), NULL,
                        c ? "%.*s after .else" : "%.*s without .if", TV_SV_ARG(name));
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
