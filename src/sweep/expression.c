/* SPDX-License-Identifier: Apache-2.0 */
/* Expressions: a parser by recursive descent, with bounded depth, and the evaluation of its tree. */
#include "sweep/expression.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/c_locale.h"

enum { DEPTH_MAX = 64, TEXT_MAX = 4000 };

typedef enum operation {
    OP_NUMBER,
    OP_PARAMETER,
    OP_ADD,
    OP_SUBTRACT,
    OP_MULTIPLY,
    OP_DIVIDE,
    OP_REMAINDER,
    OP_LESS,
    OP_LESS_EQUAL,
    OP_GREATER,
    OP_GREATER_EQUAL,
    OP_EQUAL,
    OP_NOT_EQUAL,
    OP_AND,
} operation;

struct expression {
    operation op;
    double number;
    unsigned parameter;
    expression *left, *right;
};

typedef struct parser {
    tv_arena *arena;
    const expression_names *names;
    const char *text, *at;
    char *error; /* empty: none so far */
    unsigned column, depth;
    bool failed;
} parser;

static expression *fail(parser *p, const char *message, tv_sv subject)
{
    if (!p->failed) {
        p->failed = true;
        p->column = (unsigned)(p->at - p->text) + 1;
        snprintf(p->error, EXPRESSION_ERROR, "%s%.*s", message, (int)(subject.len < 60 ? subject.len : 60),
                 subject.ptr);
    }
    return NULL;
}

static expression *new_node(parser *p, operation op, expression *left, expression *right)
{
    if (p->failed)
        return NULL;
    expression *c = tv_arena_alloc(p->arena, sizeof *c);
    if (!c) {
        p->failed = true; /* without a message: out of memory */
        return NULL;
    }
    *c = (expression){.op = op, .left = left, .right = right};
    return c;
}

static void skip_blanks(parser *p)
{
    while (*p->at == ' ' || *p->at == '\t')
        p->at++;
}

/* Takes `symbol` if it is next. */
static bool take(parser *p, const char *symbol)
{
    size_t n = strlen(symbol);
    skip_blanks(p);
    if (strncmp(p->at, symbol, n) != 0)
        return false;
    p->at += n;
    return true;
}

static bool is_name_character(char c) { return isalnum((unsigned char)c) || c == '_' || c == '.'; }

static expression *parse_number(parser *p)
{
    static const struct {
        const char *text;
        double factor;
    } suffixes[] = {{"Ki", 0x1p10}, {"Mi", 0x1p20}, {"Gi", 0x1p30}};
    char *end;
    tv_c_locale locale = tv_c_locale_begin();
    double value = strtod(p->at, &end);
    tv_c_locale_end(locale);
    for (size_t i = 0; i < TV_COUNTOF(suffixes); i++)
        if (strncmp(end, suffixes[i].text, 2) == 0) {
            value *= suffixes[i].factor;
            end += 2;
            break;
        }
    if (is_name_character(*end) || !isfinite(value))
        return fail(p, "not a number: ", (tv_sv){p->at, strcspn(p->at, " \t")});
    p->at = end;
    expression *c = new_node(p, OP_NUMBER, NULL, NULL);
    if (c)
        c->number = value;
    return c;
}

static expression *take_name(parser *p, tv_sv name, unsigned index)
{
    p->at += name.len;
    expression *c = new_node(p, OP_PARAMETER, NULL, NULL);
    if (c)
        c->parameter = index;
    return c;
}

static expression *parse_parameter(parser *p)
{
    tv_sv name = {p->at, 0};
    while (is_name_character(p->at[name.len]))
        name.len++;
    const tv_schema *schema = p->names->schema;
    for (unsigned i = 0; p->names->names && p->names->names[i]; i++)
        if (tv_sv_is(name, p->names->names[i]))
            return take_name(p, name, schema->count + i);
    for (unsigned i = 0; i < schema->count; i++) {
        const tv_param *param = &schema->params[i];
        if (!tv_sv_is(name, param->key))
            continue;
        if (param->type == TV_PARAM_ENUM)
            return fail(p, "an expression has numbers, which this parameter is not: ", name);
        return take_name(p, name, i);
    }
    return fail(p, name.len ? "the machine has no parameter " : "expected a number, a parameter or '('", name);
}

static expression *parse_sum(parser *p);

static expression *parse_factor(parser *p)
{
    skip_blanks(p);
    if (isdigit((unsigned char)*p->at))
        return parse_number(p);
    if (!take(p, "("))
        return parse_parameter(p);
    if (p->depth++ == DEPTH_MAX)
        return fail(p, "parentheses are nested too deeply", (tv_sv){"", 0});
    expression *c = parse_sum(p);
    p->depth--;
    return p->failed || take(p, ")") ? c : fail(p, "expected ')'", (tv_sv){"", 0});
}

static expression *parse_product(parser *p)
{
    expression *left = parse_factor(p);
    for (;;) {
        operation op = take(p, "*") ? OP_MULTIPLY : take(p, "/") ? OP_DIVIDE : take(p, "%") ? OP_REMAINDER : OP_NUMBER;
        if (op == OP_NUMBER || p->failed)
            return left;
        expression *right = parse_factor(p);
        left = new_node(p, op, left, right);
    }
}

static expression *parse_sum(parser *p)
{
    expression *left = parse_product(p);
    for (;;) {
        operation op = take(p, "+") ? OP_ADD : take(p, "-") ? OP_SUBTRACT : OP_NUMBER;
        if (op == OP_NUMBER || p->failed)
            return left;
        expression *right = parse_product(p);
        left = new_node(p, op, left, right);
    }
}

static expression *parse_comparison(parser *p)
{
    static const struct {
        const char *text;
        operation op;
    } operators[] = {{"<=", OP_LESS_EQUAL}, {">=", OP_GREATER_EQUAL}, {"==", OP_EQUAL},
                     {"!=", OP_NOT_EQUAL},  {"<", OP_LESS},           {">", OP_GREATER}};
    expression *left = parse_sum(p);
    for (size_t i = 0; i < TV_COUNTOF(operators) && !p->failed; i++)
        if (take(p, operators[i].text)) {
            expression *right = parse_sum(p);
            return new_node(p, operators[i].op, left, right);
        }
    return fail(p, "expected <, <=, >, >=, == or !=", (tv_sv){"", 0});
}

expression *tv_expression_parse(tv_arena *arena, const expression_names *names, bool is_constraint, const char *text,
                                unsigned *column, char error[EXPRESSION_ERROR])
{
    parser p = {.arena = arena, .names = names, .text = text, .at = text, .error = error};
    error[0] = '\0';
    if (strlen(text) > TEXT_MAX) {
        fail(&p, "the expression is too long", (tv_sv){"", 0});
        *column = p.column;
        return NULL;
    }
    expression *c = is_constraint ? parse_comparison(&p) : parse_sum(&p);
    while (is_constraint && !p.failed && take(&p, "and ")) {
        expression *right = parse_comparison(&p);
        c = new_node(&p, OP_AND, c, right);
    }
    skip_blanks(&p);
    if (!p.failed && *p.at)
        fail(&p, is_constraint ? "expected 'and' or the end, not " : "expected an operator or the end, not ",
             tv_sv_of(p.at));
    *column = p.column;
    return p.failed ? NULL : c;
}

/* The tree is as deep as the constraint is long, which TEXT_MAX bounds. */
double tv_expression_value(const expression *e, const double *values)
{
    if (e->op == OP_NUMBER)
        return e->number;
    if (e->op == OP_PARAMETER)
        return values[e->parameter];
    double a = tv_expression_value(e->left, values), b = tv_expression_value(e->right, values);
    switch (e->op) {
    case OP_ADD:
        return a + b;
    case OP_SUBTRACT:
        return a - b;
    case OP_MULTIPLY:
        return a * b;
    case OP_DIVIDE:
        return b == 0 ? NAN : a / b;
    case OP_REMAINDER:
        return b == 0 ? NAN : fmod(a, b);
    case OP_LESS:
        return a < b;
    case OP_LESS_EQUAL:
        return a <= b;
    case OP_GREATER:
        return a > b;
    case OP_GREATER_EQUAL:
        return a >= b;
    case OP_EQUAL:
        return a == b;
    case OP_NOT_EQUAL:
        return a < b || a > b;
    case OP_AND:
        return a != 0 && b != 0;
    case OP_NUMBER:
    case OP_PARAMETER:
        break;
    }
    return NAN;
}

bool tv_expression_is_true(const expression *e, const double *values) { return tv_expression_value(e, values) == 1; }
