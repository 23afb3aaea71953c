/* SPDX-License-Identifier: Apache-2.0 */
/* A recursive-descent evaluator: binary operators by precedence, then unary ones, then operands. The first error is
 * reported and ends the evaluation. */
#include "debug/console/expression.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum { WORD_BYTES = 160, NESTING_MAX = 64 };

typedef struct parser {
    debug_call *call;
    const char *at;
    unsigned depth;
} parser;

static const char usage[] = "for example: print l2:4:bf16 * 2, or print vx1[3] + 1";

static debug_value integer_value(int64_t x) { return (debug_value){.integer = x, .real = (double)x}; }

static debug_value real_value(double x) { return (debug_value){.is_real = true, .real = x}; }

static bool is_true(const debug_value *v) { return v->is_real ? v->real != 0 : v->integer != 0; }

/* ---- Names ---- */

bool tv_debug_find_symbol(const tv_debug *d, const char *name, tv_symbol *out)
{
    for (unsigned i = 0; i < d->count; i++)
        if (tv_program_symbol(d->programs[(d->program + i) % d->count], name, out))
            return true;
    return false;
}

bool tv_debug_find_register(const tv_debug *d, const char *name, tv_range *out)
{
    size_t n = strlen(name);
    uint64_t unit;
    tv_space space;
    while (n && isdigit((unsigned char)name[n - 1]))
        n--;
    if (!n || !name[n] || !tv_debug_parse_number(name + n, &unit))
        return false;
    for (unsigned i = 0; tv_machine_space_at(d->machine, i, &space); i++)
        if (strlen(space.name) == n && strncmp(space.name, name, n) == 0 && unit < space.size && !space.bank_size) {
            *out = (tv_range){.space = space,
                              .addr = unit,
                              .count = space.unit_bytes * 8 / tv_dtype_bits(space.type),
                              .type = space.type};
            return true;
        }
    return false;
}

bool tv_debug_find_state(const tv_debug *d, const char *name, tv_state_value *out)
{
    for (unsigned i = 0; tv_machine_state_at(d->machine, i, out); i++)
        if (strcmp(out->name, name) == 0)
            return true;
    return false;
}

tv_status tv_debug_fail_name(debug_call *call, const char *name)
{
    tv_nearest nearest = tv_nearest_to(tv_sv_of(name));
    tv_symbol symbol;
    tv_space space;
    char hint[128];
    for (unsigned i = 0; tv_machine_space_at(call->d->machine, i, &space); i++)
        if (strcmp(space.name, name) == 0) {
            snprintf(hint, sizeof hint, "write %.60s:%s0", name, space.bank_size ? "0:" : "");
            return tv_debug_fail_argument(call, hint, "'%.60s' is an address space, not a value", name);
        }
    for (uint64_t i = 0; tv_program_symbol_at(call->d->programs[call->d->program], i, &symbol); i++)
        tv_nearest_offer(&nearest, symbol.name);
    snprintf(hint, sizeof hint, "did you mean '%.80s'?", nearest.best ? nearest.best : "");
    return tv_debug_fail_argument(call, nearest.best ? hint : NULL, "there is no symbol or register '%.60s'", name);
}

/* ---- Operands ---- */

static void skip_space(parser *p) { p->at += strspn(p->at, " \t\r\n"); }

static tv_status evaluate_binary(parser *p, unsigned min_precedence, debug_value *out);

static bool is_integer_type(tv_dtype type) { return type != TV_F32 && type != TV_F16 && type != TV_BF16; }

/* Reads element `index` of a range. */
static tv_status read_element(parser *p, const tv_range *r, uint64_t index, debug_value *out)
{
    uint64_t count = r->count;
    if (index >= count)
        return tv_debug_fail_argument(p->call, NULL, "element %" PRIu64 " is outside of the %" PRIu64 " elements of %s",
                                      index, count, r->space.name);
    uint64_t bit = index * tv_dtype_bits(r->type), unit_bits = r->space.unit_bytes * 8;
    uint64_t unit = bit / unit_bits, first = bit % unit_bits / tv_dtype_bits(r->type);
    size_t size = (size_t)tv_dtype_bytes(r->type, first + 1);
    uint8_t *bytes = calloc(size + 16, 1);
    if (!bytes)
        return tv_fail_memory(p->call->sink);
    tv_status status = tv_machine_read(p->call->d->machine, r->space.name, r->addr + unit, bytes, size, p->call->sink);
    if (status == TV_OK) {
        double x = tv_dtype_value(r->type, bytes, first);
        *out = is_integer_type(r->type) ? integer_value((int64_t)x) : real_value(x);
    }
    free(bytes);
    return status;
}

/* The operand "[INDEX]" after an address or register; 0 when there is none. */
static tv_status parse_index(parser *p, uint64_t *out)
{
    debug_value v;
    *out = 0;
    skip_space(p);
    if (*p->at != '[')
        return TV_OK;
    p->at++;
    TV_TRY(evaluate_binary(p, 1, &v));
    skip_space(p);
    if (*p->at != ']')
        return tv_debug_fail_argument(p->call, usage, "']' is missing");
    p->at++;
    if (v.is_real || v.integer < 0)
        return tv_debug_fail_argument(p->call, usage, "the index of an element is an integer from 0");
    *out = (uint64_t)v.integer;
    return TV_OK;
}

static tv_status read_range_element(parser *p, const tv_range *r, debug_value *out)
{
    uint64_t index;
    TV_TRY(parse_index(p, &index));
    return read_element(p, r, index, out);
}

static tv_status read_address(parser *p, const char *word, debug_value *out)
{
    const tv_debug *d = p->call->d;
    tv_range r;
    const char *rest;
    TV_TRY(tv_machine_parse_address(d->machine, d->programs, d->count, word, p->call->sink, &r.space, &r.addr, &rest));
    TV_TRY(tv_dtype_parse(rest ? rest : tv_dtype_name(r.space.type), p->call->sink, &r.type));
    r.count =
        r.addr < r.space.size ? (r.space.size - r.addr) * r.space.unit_bytes * 8 / tv_dtype_bits(r.type) : UINT64_MAX;
    return read_range_element(p, &r, out);
}

/* The number that the text of a state value begins with. */
static tv_status read_state(parser *p, const tv_state_value *state, debug_value *out)
{
    char *end;
    if (!state->text)
        return tv_fail_memory(p->call->sink);
    double real = strtod(state->text, &end);
    if (end == state->text || (*end && *end != ' '))
        return tv_debug_fail_argument(p->call, "`print` shows it", "'%s' is not one number", state->name);
    bool is_integer = strcspn(state->text, ".") >= (size_t)(end - state->text) && fabs(real) < 0x1p62;
    *out = is_integer ? integer_value(strtoll(state->text, NULL, 0)) : real_value(real);
    return TV_OK;
}

static tv_status read_name(parser *p, const char *word, debug_value *out)
{
    const tv_debug *d = p->call->d;
    tv_symbol symbol;
    tv_range r;
    tv_state_value state;
    tv_space space;
    if (strchr(word, ':'))
        return read_address(p, word, out);
    if (tv_debug_find_symbol(d, word, &symbol)) {
        *out = integer_value((int64_t)symbol.value);
        return TV_OK;
    }
    if (tv_debug_find_register(d, word, &r))
        return read_range_element(p, &r, out);
    if (!tv_debug_find_space(d, word, &space) && tv_debug_find_state(d, word, &state))
        return read_state(p, &state, out);
    return tv_debug_fail_name(p->call, word);
}

static tv_status read_number(parser *p, const char *word, debug_value *out)
{
    char *end;
    uint64_t value;
    if (tv_debug_parse_number(word, &value)) {
        *out = integer_value((int64_t)value);
        return TV_OK;
    }
    double real = strtod(word, &end);
    if (*end || strncmp(word, "0x", 2) == 0)
        return tv_debug_fail_argument(p->call, usage, "'%.60s' is not a number", word);
    *out = real_value(real);
    return TV_OK;
}

static tv_status evaluate_operand(parser *p, debug_value *out)
{
    char word[WORD_BYTES];
    skip_space(p);
    if (*p->at == '(') {
        p->at++;
        TV_TRY(evaluate_binary(p, 1, out));
        skip_space(p);
        if (*p->at != ')')
            return tv_debug_fail_argument(p->call, usage, "')' is missing");
        p->at++;
        return TV_OK;
    }
    bool number = isdigit((unsigned char)*p->at) || *p->at == '.', hex = strncmp(p->at, "0x", 2) == 0;
    size_t n = 0;
    while (isalnum((unsigned char)p->at[n]) || (p->at[n] && strchr("_.$:", p->at[n])) ||
           (number && !hex && n && tolower((unsigned char)p->at[n - 1]) == 'e' && p->at[n] && strchr("+-", p->at[n])))
        n++;
    if (n == 0 && *p->at)
        return tv_debug_fail_argument(p->call, usage, "an operand is missing before '%.20s'", p->at);
    if (n == 0)
        return tv_debug_fail_argument(p->call, usage, "an operand is missing at the end");
    if (n >= sizeof word)
        return tv_debug_fail_argument(p->call, NULL, "a name has more than %d characters", WORD_BYTES - 1);
    snprintf(word, sizeof word, "%.*s", (int)n, p->at);
    p->at += n;
    return number ? read_number(p, word, out) : read_name(p, word, out);
}

static tv_status evaluate_unary(parser *p, debug_value *out)
{
    skip_space(p);
    char op = *p->at;
    if (op != '-' && op != '+' && op != '!' && op != '~')
        return evaluate_operand(p, out);
    if (p->depth >= NESTING_MAX)
        return tv_debug_fail_argument(p->call, NULL, "the expression is nested deeper than %d", NESTING_MAX);
    p->at++;
    p->depth++;
    TV_TRY(evaluate_unary(p, out));
    p->depth--;
    if (op == '!')
        *out = integer_value(!is_true(out));
    else if (op == '~' && out->is_real)
        return tv_debug_fail_argument(p->call, NULL, "'~' needs an integer");
    else if (op == '~')
        *out = integer_value(~out->integer);
    else if (op == '-')
        *out = out->is_real ? real_value(-out->real) : integer_value((int64_t)(0 - (uint64_t)out->integer));
    return TV_OK;
}

/* ---- Operators ---- */

typedef enum operator_id {
    OP_OR,
    OP_AND,
    OP_BIT_OR,
    OP_BIT_XOR,
    OP_BIT_AND,
    OP_EQ,
    OP_NE,
    OP_LE,
    OP_GE,
    OP_SHL,
    OP_SHR,
    OP_LT,
    OP_GT,
    OP_ADD,
    OP_SUB,
    OP_MUL,
    OP_DIV,
    OP_REM
} operator_id;

/* Longer operators precede their prefixes. */
static const struct {
    const char *text;
    operator_id id;
    unsigned precedence;
} operators[] = {{"||", OP_OR, 1},    {"&&", OP_AND, 2},    {"==", OP_EQ, 6},    {"!=", OP_NE, 6},  {"<=", OP_LE, 7},
                 {">=", OP_GE, 7},    {"<<", OP_SHL, 8},    {">>", OP_SHR, 8},   {"<", OP_LT, 7},   {">", OP_GT, 7},
                 {"+", OP_ADD, 9},    {"-", OP_SUB, 9},     {"*", OP_MUL, 10},   {"/", OP_DIV, 10}, {"%", OP_REM, 10},
                 {"|", OP_BIT_OR, 3}, {"^", OP_BIT_XOR, 4}, {"&", OP_BIT_AND, 5}};

static tv_status apply_real(parser *p, operator_id id, double a, double b, debug_value *out)
{
    switch (id) {
    case OP_ADD:
        *out = real_value(a + b);
        return TV_OK;
    case OP_SUB:
        *out = real_value(a - b);
        return TV_OK;
    case OP_MUL:
        *out = real_value(a * b);
        return TV_OK;
    case OP_DIV:
        *out = real_value(a / b);
        return TV_OK;
    case OP_EQ:
        *out = integer_value(a == b);
        return TV_OK;
    case OP_NE:
        *out = integer_value(a != b);
        return TV_OK;
    case OP_LE:
        *out = integer_value(a <= b);
        return TV_OK;
    case OP_GE:
        *out = integer_value(a >= b);
        return TV_OK;
    case OP_LT:
        *out = integer_value(a < b);
        return TV_OK;
    case OP_GT:
        *out = integer_value(a > b);
        return TV_OK;
    case OP_OR:
    case OP_AND:
    case OP_BIT_OR:
    case OP_BIT_XOR:
    case OP_BIT_AND:
    case OP_SHL:
    case OP_SHR:
    case OP_REM:
        break;
    }
    return tv_debug_fail_argument(p->call, NULL, "this operator needs integers");
}

static int64_t apply_integer(operator_id id, int64_t a, int64_t b)
{
    uint64_t x = (uint64_t)a, y = (uint64_t)b;
    switch (id) {
    case OP_OR:
        return a || b;
    case OP_AND:
        return a && b;
    case OP_BIT_OR:
        return (int64_t)(x | y);
    case OP_BIT_XOR:
        return (int64_t)(x ^ y);
    case OP_BIT_AND:
        return (int64_t)(x & y);
    case OP_EQ:
        return a == b;
    case OP_NE:
        return a != b;
    case OP_LE:
        return a <= b;
    case OP_GE:
        return a >= b;
    case OP_SHL:
        return y < 64 ? (int64_t)(x << y) : 0;
    case OP_SHR:
        return y < 64 ? (int64_t)(x >> y) : 0;
    case OP_LT:
        return a < b;
    case OP_GT:
        return a > b;
    case OP_ADD:
        return (int64_t)(x + y);
    case OP_SUB:
        return (int64_t)(x - y);
    case OP_MUL:
        return (int64_t)(x * y);
    case OP_DIV:
        return b == -1 ? (int64_t)(0 - x) : a / b;
    case OP_REM:
        return b == -1 ? 0 : a % b;
    }
    return 0;
}

static tv_status apply(parser *p, operator_id id, const debug_value *a, const debug_value *b, debug_value *out)
{
    if (id == OP_AND || id == OP_OR) {
        *out = integer_value(apply_integer(id, is_true(a), is_true(b)));
        return TV_OK;
    }
    if (a->is_real || b->is_real)
        return apply_real(p, id, a->real, b->real, out);
    if ((id == OP_DIV || id == OP_REM) && b->integer == 0)
        return tv_debug_fail_argument(p->call, NULL, "division by zero");
    *out = integer_value(apply_integer(id, a->integer, b->integer));
    return TV_OK;
}

/* The operator at the current position, or -1. */
static int find_operator(parser *p)
{
    skip_space(p);
    for (size_t i = 0; i < TV_COUNTOF(operators); i++)
        if (strncmp(p->at, operators[i].text, strlen(operators[i].text)) == 0)
            return (int)i;
    return -1;
}

/* Operators of at least `min_precedence`; all associate to the left. */
static tv_status evaluate_binary(parser *p, unsigned min_precedence, debug_value *out)
{
    int op;
    if (p->depth++ >= NESTING_MAX)
        return tv_debug_fail_argument(p->call, NULL, "the expression is nested deeper than %d", NESTING_MAX);
    TV_TRY(evaluate_unary(p, out));
    while ((op = find_operator(p)) >= 0 && operators[op].precedence >= min_precedence) {
        debug_value left = *out, right;
        p->at += strlen(operators[op].text);
        TV_TRY(evaluate_binary(p, operators[op].precedence + 1, &right));
        TV_TRY(apply(p, operators[op].id, &left, &right, out));
    }
    p->depth--;
    return TV_OK;
}

tv_status tv_debug_evaluate(debug_call *call, const char *text, debug_value *out)
{
    parser p = {.call = call, .at = text};
    TV_TRY(evaluate_binary(&p, 1, out));
    skip_space(&p);
    return *p.at ? tv_debug_fail_argument(call, usage, "'%.20s' is not an operator", p.at) : TV_OK;
}
