/* SPDX-License-Identifier: Apache-2.0 */
/* Directives that span lines: macros and repeats. A block is stored as text and assembled when it is expanded. */
#include <inttypes.h>
#include <stdlib.h>

#include "asm/job.h"

/* ---- The table of macros: a hash table with chaining, and a list ---- */

static tv_macro *find_macro(const tv_asm_job *job, tv_sv name)
{
    uint64_t hash = tv_sv_hash(name);
    tv_macro *m = job->macro_bucket_count ? job->macro_buckets[hash & (job->macro_bucket_count - 1)] : NULL;
    while (m && !(m->hash == hash && tv_sv_eq(m->name, name)))
        m = m->next_in_bucket;
    return m;
}

static bool grow_buckets(tv_asm_job *job)
{
    size_t count = job->macro_bucket_count ? job->macro_bucket_count * 2 : 64;
    tv_macro **buckets = calloc(count, sizeof *buckets);
    if (!buckets) {
        job->out_of_memory = true;
        return false;
    }
    for (tv_macro *m = job->macros; m; m = m->next) {
        m->next_in_bucket = buckets[m->hash & (count - 1)];
        buckets[m->hash & (count - 1)] = m;
    }
    free(job->macro_buckets);
    job->macro_buckets = buckets;
    job->macro_bucket_count = count;
    return true;
}

static void add_macro(tv_asm_job *job, tv_macro *macro)
{
    if (job->macro_count >= job->macro_bucket_count && !grow_buckets(job))
        return;
    macro->hash = tv_sv_hash(macro->name);
    tv_macro **bucket = &job->macro_buckets[macro->hash & (job->macro_bucket_count - 1)];
    macro->next_in_bucket = *bucket;
    *bucket = macro;
    macro->next = job->macros;
    job->macros = macro;
    job->macro_count++;
}

void tv_macros_fini(tv_asm_job *job) { free(job->macro_buckets); }

/* ---- Macros ---- */

/* Copies text to the arena, because it may be part of a macro expansion, which is freed with its frame. */
static tv_sv copy_text(tv_asm_job *job, tv_sv text)
{
    char *copy = tv_arena_str(&job->arena, text);
    if (!copy) {
        job->out_of_memory = true;
        return (tv_sv){"", 0};
    }
    return (tv_sv){copy, text.len};
}

/* Parses `name [, name[=default]] …` into `params`. A default is raw text up to the next comma. */
static bool read_params(tv_asm_job *job, tv_macro_param params[TV_ASM_ARGS_MAX], unsigned *count)
{
    while (job->lexer.token.kind != TV_TOK_END) {
        if (job->lexer.token.kind != TV_TOK_NAME) {
            tv_asm_error(job, TV_CODE(ASM_DIRECTIVE), "write .macro NAME first, second=default",
                         "expected the name of a parameter");
            return false;
        }
        if (*count == TV_ASM_ARGS_MAX) {
            tv_asm_error(job, TV_CODE(ASM_LIMIT), NULL, "a macro has at most %d parameters", TV_ASM_ARGS_MAX);
            return false;
        }
        tv_macro_param *param = &params[(*count)++];
        *param = (tv_macro_param){.name = copy_text(job, job->lexer.token.text)};
        tv_lex_next(job);
        if (tv_lex_accept(job, '=')) {
            const char *start = job->lexer.line.ptr + tv_lex_column(job) - 1, *end = start;
            while (job->lexer.token.kind != TV_TOK_END && !tv_lex_is(job, ',')) {
                end = job->lexer.token.text.ptr + job->lexer.token.text.len;
                tv_lex_next(job);
            }
            param->has_default = true;
            param->default_value = copy_text(job, (tv_sv){start, (size_t)(end - start)});
        }
        tv_lex_accept(job, ',');
    }
    return true;
}

/* Parses the name and the parameters of a macro. NULL: there is an error, which is reported. */
static tv_macro *read_macro_head(tv_asm_job *job)
{
    tv_macro_param params[TV_ASM_ARGS_MAX];
    unsigned count = 0;
    tv_token name = job->lexer.token;
    if (name.kind != TV_TOK_NAME) {
        tv_asm_error(job, TV_CODE(ASM_DIRECTIVE), NULL, ".macro requires a name");
        return NULL;
    }
    if (find_macro(job, name.text)) {
        tv_asm_error(job, TV_CODE(ASM_REDEFINED), NULL, "macro '%.*s' is already defined", TV_SV_ARG(name.text));
        return NULL;
    }
    if (tv_operands_is_mnemonic(job, name.text)) {
        tv_asm_error(job, TV_CODE(ASM_REDEFINED), NULL, "'%.*s' is an instruction", TV_SV_ARG(name.text));
        return NULL;
    }
    tv_lex_next(job);
    tv_lex_accept(job, ',');
    if (!read_params(job, params, &count))
        return NULL;
    tv_macro *macro = tv_asm_alloc(job, sizeof *macro);
    tv_macro_param *copy = macro ? tv_asm_alloc(job, (count + 1) * sizeof *copy) : NULL;
    if (!copy)
        return NULL;
    memcpy(copy, params, count * sizeof *copy);
    *macro = (tv_macro){.name = copy_text(job, name.text), .params = copy, .param_count = count};
    return macro;
}

void tv_block_macro(tv_asm_job *job, unsigned column)
{
    static const char *const begin[] = {".macro", NULL};
    tv_macro *macro = read_macro_head(job);
    tv_sv body;
    unsigned line;
    if (!tv_source_read_block(job, begin, ".endm", &body, &line)) {
        if (!job->stop)
            tv_asm_error_at(job, column, 6, TV_CODE(ASM_NESTING), "close it in the same file", ".macro without .endm");
    } else if (macro) {
        macro->file = job->frame->file;
        macro->line = line;
        macro->body = copy_text(job, body);
        add_macro(job, macro);
    }
    tv_lex_begin(job, (tv_sv){"", 0});
}

/* Splits the rest of the line into arguments: raw text between commas that are outside brackets and quotes. Returns
 * their number, of which the first TV_ASM_ARGS_MAX are stored. */
static unsigned read_args(tv_asm_job *job, tv_sv args[TV_ASM_ARGS_MAX])
{
    tv_sv rest;
    tv_lex_rest(job, &rest);
    unsigned count = 0, depth = 0;
    size_t start = 0;
    for (size_t i = 0, next; i <= rest.len; i = next) {
        char c = i < rest.len ? rest.ptr[i] : ',';
        next = i < rest.len ? tv_lex_skip_literal(rest, i) : i + 1;
        if (c == '(' || c == '[')
            depth++;
        if (depth && (c == ')' || c == ']'))
            depth--;
        if (i < rest.len && (c != ',' || depth))
            continue;
        size_t a = start, b = i;
        while (a < b && (rest.ptr[a] == ' ' || rest.ptr[a] == '\t'))
            a++;
        while (b > a && (rest.ptr[b - 1] == ' ' || rest.ptr[b - 1] == '\t'))
            b--;
        bool none = i >= rest.len && count == 0 && a == b;
        if (count < TV_ASM_ARGS_MAX && !none)
            args[count] = (tv_sv){rest.ptr + a, b - a};
        count += !none;
        start = i + 1;
    }
    return count;
}

void tv_macro_suggest(tv_asm_job *job, tv_nearest *nearest)
{
    for (const tv_macro *m = job->macros; m && tv_asm_may_suggest(job); m = m->next)
        tv_nearest_offer(nearest, m->name.ptr);
}

bool tv_macro_call(tv_asm_job *job, tv_sv name, unsigned column)
{
    const tv_macro *macro = find_macro(job, name);
    if (!macro)
        return false;
    tv_sv args[TV_ASM_ARGS_MAX];
    unsigned count = read_args(job, args);
    if (count > macro->param_count) {
        tv_asm_error_at(job, column, (unsigned)name.len, TV_CODE(ASM_OPERAND_COUNT), NULL,
                        "macro '%.*s' takes %u arguments, not %u", TV_SV_ARG(name), macro->param_count, count);
    } else {
        unsigned missing = count;
        while (missing < macro->param_count && macro->params[missing].has_default)
            missing++;
        if (missing < macro->param_count)
            tv_asm_error_at(job, column, (unsigned)name.len, TV_CODE(ASM_OPERAND_COUNT), NULL,
                            "macro '%.*s' is missing its argument '%.*s'", TV_SV_ARG(name),
                            TV_SV_ARG(macro->params[missing].name));
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
    tv_expr where = {0};
    bool good = tv_expr_constant(job, &count, &where);
    if (good && count < 0) {
        tv_asm_error_at(job, where.column, where.length, TV_CODE(ASM_RANGE), NULL,
                        ".rept takes a count from 0 up, not %" PRId64, count);
        good = false;
    }
    if (good && job->lexer.token.kind != TV_TOK_END)
        tv_asm_error(job, TV_CODE(ASM_SYNTAX), NULL, "unexpected text after the count");
    tv_sv body;
    unsigned first_line;
    tv_source_loc loc = tv_asm_loc(job, where.column, where.length);
    bool closed = tv_source_read_block(job, begin, ".endr", &body, &first_line);
    if (!closed && !job->stop)
        tv_asm_error_at(job, column, 5, TV_CODE(ASM_NESTING), "close it in the same file or macro",
                        ".rept without .endr");
    else if (closed && good)
        tv_source_push_repeat(job, body, first_line, (uint64_t)count, &loc);
    tv_lex_begin(job, (tv_sv){"", 0});
}
