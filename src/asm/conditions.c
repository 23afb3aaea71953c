/* SPDX-License-Identifier: Apache-2.0 */
/* Conditional assembly: .if, .ifdef, .ifndef, .elseif, .else, .endif. */
#include "asm/job.h"

/* The innermost condition that was opened in the current frame; NULL: there is none. */
static tv_condition *current_condition(const tv_asm_job *job)
{
    size_t outer = job->frame ? job->frame->condition_depth : 0;
    return job->conditions.count > outer ? TV_VEC_LAST(&job->conditions) : NULL;
}

bool tv_conditions_active(const tv_asm_job *job)
{
    return job->conditions.count == 0 || TV_VEC_LAST(&job->conditions)->active;
}

void tv_conditions_close(tv_asm_job *job, unsigned depth)
{
    while (job->conditions.count > depth) {
        const tv_condition *c = TV_VEC_LAST(&job->conditions);
        tv_asm_error_loc(job, &c->loc, TV_CODE(ASM_NESTING), "close it in the same file or macro",
                         ".if without .endif");
        job->conditions.count--;
    }
}

static bool eval_condition(tv_asm_job *job, tv_sv name)
{
    if (tv_sv_is(name, ".ifdef") || tv_sv_is(name, ".ifndef")) {
        if (job->lexer.token.kind != TV_TOK_NAME) {
            tv_asm_error(job, TV_CODE(ASM_DIRECTIVE), NULL, "%.*s requires a name", TV_SV_ARG(name));
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

static void begin_condition(tv_asm_job *job, tv_sv name, unsigned column)
{
    bool outer = tv_conditions_active(job);
    if (job->conditions.count >= TV_ASM_CONDITIONS_MAX) {
        tv_asm_error_at(job, column, (unsigned)name.len, TV_CODE(ASM_NESTING), NULL,
                        "conditions are nested deeper than %d", TV_ASM_CONDITIONS_MAX);
        job->stop = true;
        return;
    }
    tv_condition c = {.loc = tv_asm_loc(job, column, (unsigned)name.len)};
    if (outer)
        c.active = c.branch_taken = eval_condition(job, name);
    else
        c.branch_taken = true;
    if (!TV_VEC_PUSH(&job->conditions, c))
        job->out_of_memory = true;
}

static void begin_branch(tv_asm_job *job, tv_sv name, unsigned column)
{
    tv_condition *c = current_condition(job);
    bool is_else = tv_sv_is(name, ".else");
    if (!c || c->has_else) {
        tv_asm_error_at(job, column, (unsigned)name.len, TV_CODE(ASM_NESTING), NULL,
                        c ? "%.*s after .else" : "%.*s without .if", TV_SV_ARG(name));
        return;
    }
    c->has_else = is_else;
    c->active = false;
    if (c->branch_taken)
        return;
    bool taken = is_else || eval_condition(job, tv_sv_of(".if"));
    c = current_condition(job);
    c->active = c->branch_taken = taken;
}

bool tv_directive_condition(tv_asm_job *job, tv_sv name, unsigned column)
{
    if (name.len < 3 || name.ptr[0] != '.' || (name.ptr[1] != 'i' && name.ptr[1] != 'e'))
        return false;
    bool was_active = tv_conditions_active(job);
    if (tv_sv_is(name, ".if") || tv_sv_is(name, ".ifdef") || tv_sv_is(name, ".ifndef")) {
        begin_condition(job, name, column);
    } else if (tv_sv_is(name, ".elseif") || tv_sv_is(name, ".else")) {
        begin_branch(job, name, column);
    } else if (tv_sv_is(name, ".endif")) {
        if (current_condition(job))
            job->conditions.count--;
        else
            tv_asm_error_at(job, column, 6, TV_CODE(ASM_NESTING), NULL, ".endif without .if");
    } else {
        return false;
    }
    if (!was_active || !tv_conditions_active(job))
        tv_lex_begin(job, (tv_sv){"", 0}); /* skip the rest of the line: it was not parsed */
    return true;
}
