/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens of one line. `;`, `#` and `//` begin a comment. */
#include <stdlib.h>

#include "asm/job.h"
#include "base/c_locale.h"

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool is_name_start(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.' || c == '$';
}

static bool is_name(char c) { return is_name_start(c) || is_digit(c); }

/* The character at a position of the line; NUL past the end. */
static char at(const tv_lexer *lexer, size_t pos) { return pos < lexer->line.len ? lexer->line.ptr[pos] : '\0'; }

static unsigned digit_value(char c)
{
    if (is_digit(c))
        return (unsigned)(c - '0');
    c |= 0x20;
    return c >= 'a' && c <= 'z' ? (unsigned)(c - 'a') + 10 : 99;
}

static void report_literal(tv_asm_job *job, size_t start, size_t end, const char *what)
{
    tv_asm_error_at(job, (unsigned)start + 1, (unsigned)(end - start), TV_CODE(ASM_NUMBER), NULL, "%s", what);
    job->lexer.token.kind = TV_TOK_BAD;
}

/* A decimal with a point or an exponent. Parses a copy, because strtod requires a terminating NUL. */
static void lex_float(tv_asm_job *job, size_t start, size_t end)
{
    char copy[64];
    size_t n = 0;
    for (size_t i = start; i < end && n < sizeof copy - 1; i++)
        if (job->lexer.line.ptr[i] != '_')
            copy[n++] = job->lexer.line.ptr[i];
    copy[n] = '\0';
    char *rest;
    job->lexer.token.kind = TV_TOK_FLOAT;
    tv_c_locale locale = tv_c_locale_begin();
    job->lexer.token.real = strtod(copy, &rest);
    tv_c_locale_end(locale);
    if (*rest || end - start >= sizeof copy)
        report_literal(job, start, end, "malformed number");
}

static size_t float_end(const tv_lexer *lexer, size_t pos)
{
    while (is_digit(at(lexer, pos)) || at(lexer, pos) == '_')
        pos++;
    if (at(lexer, pos) == '.' && is_digit(at(lexer, pos + 1)))
        for (pos++; is_digit(at(lexer, pos)) || at(lexer, pos) == '_';)
            pos++;
    if ((at(lexer, pos) | 0x20) == 'e') {
        size_t digits = pos + 1 + (at(lexer, pos + 1) == '+' || at(lexer, pos + 1) == '-');
        if (is_digit(at(lexer, digits)))
            for (pos = digits; is_digit(at(lexer, pos));)
                pos++;
    }
    return pos;
}

static void lex_number(tv_asm_job *job)
{
    tv_lexer *lexer = &job->lexer;
    size_t start = lexer->pos, pos = start;
    unsigned base = 10;
    if (at(lexer, pos) == '0') {
        char letter = (char)(at(lexer, pos + 1) | 0x20);
        base = letter == 'x' ? 16 : letter == 'b' ? 2 : letter == 'o' ? 8 : 10;
        pos += base == 10 ? 0 : 2;
    }
    uint64_t value = 0;
    bool overflow = false;
    size_t digits = pos;
    for (;; pos++) {
        char c = at(lexer, pos);
        if (c == '_')
            continue;
        unsigned d = digit_value(c);
        if (d >= base)
            break;
        overflow |= value > (UINT64_MAX - d) / base;
        value = value * base + d;
    }
    if (base == 10) {
        size_t end = float_end(lexer, start);
        if (end > pos) {
            lexer->pos = end;
            lex_float(job, start, end);
            return;
        }
    }
    size_t end = pos;
    while (is_name(at(lexer, end)))
        end++;
    lexer->pos = end;
    lexer->token.kind = TV_TOK_INT;
    lexer->token.integer = value;
    if (end > pos || pos == digits)
        report_literal(job, start, end, "malformed number");
    else if (overflow)
        report_literal(job, start, end, "number does not fit 64 bits");
}

static void lex_char(tv_asm_job *job)
{
    tv_lexer *lexer = &job->lexer;
    size_t start = lexer->pos, pos = start + 1;
    char c = at(lexer, pos++);
    if (c == '\\') {
        static const char from[] = "nrt0\\'\"", to[] = "\n\r\t\0\\'\"";
        const char *found = at(lexer, pos) ? strchr(from, at(lexer, pos)) : NULL;
        c = found ? to[found - from] : '\0';
        pos = found ? pos + 1 : lexer->line.len;
    }
    bool closed = at(lexer, pos) == '\'';
    lexer->pos = closed ? pos + 1 : lexer->line.len;
    lexer->token.kind = TV_TOK_INT;
    lexer->token.integer = (uint8_t)c;
    if (!closed)
        report_literal(job, start, lexer->line.len, "malformed character literal");
}

static void lex_string(tv_asm_job *job)
{
    tv_lexer *lexer = &job->lexer;
    size_t start = lexer->pos, pos = start + 1;
    while (pos < lexer->line.len && lexer->line.ptr[pos] != '"')
        pos += lexer->line.ptr[pos] == '\\' ? 2 : 1;
    bool closed = pos < lexer->line.len;
    lexer->token.kind = TV_TOK_STRING;
    lexer->pos = closed ? pos + 1 : lexer->line.len;
    if (!closed)
        report_literal(job, start, lexer->line.len, "the string is not closed");
}

static void lex_punct(tv_lexer *lexer)
{
    static const char *const pairs[] = {"<<", ">>", "<=", ">=", "==", "!=", "&&", "||"};
    char a = at(lexer, lexer->pos), b = at(lexer, lexer->pos + 1);
    lexer->token.kind = TV_TOK_PUNCT;
    lexer->token.op = (unsigned char)a;
    for (size_t i = 0; i < TV_COUNTOF(pairs); i++)
        if (a == pairs[i][0] && b == pairs[i][1]) {
            lexer->token.op = TV_OP2(a, b);
            lexer->pos++;
            break;
        }
    lexer->pos++;
    while ((at(lexer, lexer->pos) & 0xC0) == 0x80 && a & 0x80) /* a whole UTF-8 sequence, for messages */
        lexer->pos++;
}

void tv_lex_next(tv_asm_job *job)
{
    tv_lexer *lexer = &job->lexer;
    lexer->prev_end = lexer->pos;
    while (at(lexer, lexer->pos) == ' ' || at(lexer, lexer->pos) == '\t' || at(lexer, lexer->pos) == '\r')
        lexer->pos++;
    size_t start = lexer->pos;
    char c = at(lexer, start);
    lexer->token = (tv_token){.kind = TV_TOK_END};
    if (start >= lexer->line.len || c == ';' || c == '#' || (c == '/' && at(lexer, start + 1) == '/'))
        ;
    else if (is_digit(c) || (c == '.' && is_digit(at(lexer, start + 1))))
        lex_number(job);
    else if (is_name_start(c)) {
        while (is_name(at(lexer, lexer->pos)))
            lexer->pos++;
        lexer->token.kind = TV_TOK_NAME;
    } else if (c == '\'')
        lex_char(job);
    else if (c == '"')
        lex_string(job);
    else
        lex_punct(lexer);
    lexer->token.text = (tv_sv){lexer->line.ptr + start, lexer->pos - start};
}

void tv_lex_begin(tv_asm_job *job, tv_sv line)
{
    job->lexer = (tv_lexer){.line = line};
    tv_lex_next(job);
}

tv_token tv_lex_peek(tv_asm_job *job)
{
    tv_lexer saved = job->lexer;
    unsigned errors = job->errors;
    const tv_diag_sink *sink = job->sink;
    job->sink = NULL; /* its errors are reported when it becomes the current token */
    tv_lex_next(job);
    tv_token token = job->lexer.token;
    job->sink = sink;
    job->errors = errors;
    job->lexer = saved;
    return token;
}

bool tv_lex_is(const tv_asm_job *job, unsigned op)
{
    return job->lexer.token.kind == TV_TOK_PUNCT && job->lexer.token.op == op;
}

bool tv_lex_accept(tv_asm_job *job, unsigned op)
{
    if (!tv_lex_is(job, op))
        return false;
    tv_lex_next(job);
    return true;
}

size_t tv_lex_skip_literal(tv_sv text, size_t pos)
{
    char quote = text.ptr[pos];
    if (quote != '"' && quote != '\'')
        return pos + 1;
    size_t end = pos + 1;
    while (end < text.len && text.ptr[end] != quote)
        end += text.ptr[end] == '\\' ? 2 : 1;
    return end < text.len ? end + 1 : pos + 1; /* a quote without its partner is an ordinary character */
}

void tv_lex_rest(tv_asm_job *job, tv_sv *rest)
{
    const tv_lexer *lexer = &job->lexer;
    size_t start = lexer->token.kind == TV_TOK_END ? lexer->line.len : tv_lex_column(job) - 1, end = start;
    while (end < lexer->line.len) {
        char c = lexer->line.ptr[end];
        if (c == ';' || c == '#' || (c == '/' && at(lexer, end + 1) == '/'))
            break;
        end = tv_lex_skip_literal(lexer->line, end);
    }
    while (end > start &&
           (lexer->line.ptr[end - 1] == ' ' || lexer->line.ptr[end - 1] == '\t' || lexer->line.ptr[end - 1] == '\r'))
        end--;
    *rest = (tv_sv){lexer->line.ptr + start, end - start};
}
