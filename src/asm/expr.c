/* SPDX-License-Identifier: Apache-2.0 */
/* Expressions with C's operators and precedence, over 64-bit integers (wrapping) and doubles.
 *
 * The parser folds constants: a subexpression whose symbols are all defined becomes a value at once, and so does a
 * constant that a later .set changes. Only what refers to undefined symbols becomes a tree (tv_node), which
 * tv_expr_eval evaluates at the end. Depth is limited in both, so that neither overflows the stack. */
#include <math.h>
#include <stdlib.h>

#include "asm/job.h"
#include "num/float.h"

static tv_expr const_int(int64_t i) { return (tv_expr){.known = true, .value = {.i = i}}; }

static tv_expr const_real(double f) { return (tv_expr){.known = true, .value = {.real = true, .f = f}}; }

static double as_real(tv_value v) { return v.real ? v.f : (double)v.i; }

/* ---- Functions ---- */

typedef enum function {
    FN_EXP,
    FN_LOG,
    FN_SQRT,
    FN_SIN,
    FN_COS,
    FN_TANH,
    FN_ERF,
    FN_ABS,
    FN_ROUND,
    FN_FLOOR,
    FN_CEIL,
    FN_INT,
    FN_FLOAT,
    FN_BF16,
    FN_F16,
    FN_F32,
    FN_MIN,
    FN_MAX,
    FN_POW,
    FN_COUNT
} function;

static const struct {
    const char *name;
    unsigned args;
} functions[FN_COUNT] = {
    [FN_EXP] = {"exp", 1},     [FN_LOG] = {"log", 1},     [FN_SQRT] = {"sqrt", 1}, [FN_SIN] = {"sin", 1},
    [FN_COS] = {"cos", 1},     [FN_TANH] = {"tanh", 1},   [FN_ERF] = {"erf", 1},   [FN_ABS] = {"abs", 1},
    [FN_ROUND] = {"round", 1}, [FN_FLOOR] = {"floor", 1}, [FN_CEIL] = {"ceil", 1}, [FN_INT] = {"int", 1},
    [FN_FLOAT] = {"float", 1}, [FN_BF16] = {"bf16", 1},   [FN_F16] = {"f16", 1},   [FN_F32] = {"f32", 1},
    [FN_MIN] = {"min", 2},     [FN_MAX] = {"max", 2},     [FN_POW] = {"pow", 2},
};

const char *tv_expr_function(unsigned i) { return i < FN_COUNT ? functions[i].name : NULL; }

static bool real_to_int(double f, int64_t *out)
{
    if (!(f >= -0x1p63 && f < 0x1p63))
        return false;
    *out = (int64_t)f;
    return true;
}

static bool eval_call(unsigned fn, tv_value a, tv_value b, tv_value *out, const char **why)
{
    double x = as_real(a), y = as_real(b), r = 0;
    *out = (tv_value){0};
    switch ((function)fn) {
    case FN_BF16:
        out->i = tv_bf16_from_f64(x);
        return true;
    case FN_F16:
        out->i = tv_f16_from_f64(x);
        return true;
    case FN_F32:
        out->i = tv_f32_bits((float)x);
        return true;
    case FN_INT:
        *why = "the value does not fit 64 bits";
        return a.real ? real_to_int(a.f, &out->i) : (*out = a, true);
    case FN_ABS:
        if (!a.real) {
            *out = (tv_value){.i = a.i < 0 ? (int64_t)(0 - (uint64_t)a.i) : a.i};
            return true;
        }
        r = fabs(x);
        break;
    case FN_MIN:
    case FN_MAX: {
        bool less = a.real || b.real ? x < y : a.i < b.i; /* large integers differ where doubles do not */
        *out = less == (fn == FN_MIN) ? a : b;
        return true;
    }
    case FN_EXP:
        r = exp(x);
        break;
    case FN_LOG:
        r = log(x);
        break;
    case FN_SQRT:
        r = sqrt(x);
        break;
    case FN_SIN:
        r = sin(x);
        break;
    case FN_COS:
        r = cos(x);
        break;
    case FN_TANH:
        r = tanh(x);
        break;
    case FN_ERF:
        r = erf(x);
        break;
    case FN_ROUND:
        r = rint(x);
        break;
    case FN_FLOOR:
        r = floor(x);
        break;
    case FN_CEIL:
        r = ceil(x);
        break;
    case FN_POW:
        r = pow(x, y);
        break;
    case FN_FLOAT:
        r = x;
        break;
    case FN_COUNT:
        break;
    }
    *out = (tv_value){.real = true, .f = r};
    return true;
}

/* ---- Operators ---- */

static bool eval_unary(unsigned op, tv_value a, tv_value *out, const char **why)
{
    *out = (tv_value){0};
    *why = "'~' requires an integer";
    switch (op) {
    case '-':
        *out = a.real ? (tv_value){.real = true, .f = -a.f} : (tv_value){.i = (int64_t)(0 - (uint64_t)a.i)};
        return true;
    case '+':
        *out = a;
        return true;
    case '!':
        out->i = a.real ? a.f == 0 : a.i == 0;
        return true;
    case '~':
        out->i = ~a.i;
        return !a.real;
    default:
        assert(false && "no such operator");
        return false;
    }
}

static bool eval_real_binary(unsigned op, double a, double b, tv_value *out)
{
    *out = (tv_value){.real = true};
    switch (op) {
    case '+':
        out->f = a + b;
        return true;
    case '-':
        out->f = a - b;
        return true;
    case '*':
        out->f = a * b;
        return true;
    case '/':
        out->f = a / b;
        return true;
    case '%':
        out->f = fmod(a, b);
        return true;
    default:
        break;
    }
    *out = (tv_value){0};
    switch (op) {
    case '<':
        out->i = a < b;
        return true;
    case '>':
        out->i = a > b;
        return true;
    case TV_OP2('<', '='):
        out->i = a <= b;
        return true;
    case TV_OP2('>', '='):
        out->i = a >= b;
        return true;
    case TV_OP2('=', '='):
        out->i = a == b;
        return true;
    case TV_OP2('!', '='):
        out->i = a != b;
        return true;
    case TV_OP2('&', '&'):
        out->i = a != 0 && b != 0;
        return true;
    case TV_OP2('|', '|'):
        out->i = a != 0 || b != 0;
        return true;
    default:
        return false;
    }
}

static bool eval_int_binary(unsigned op, int64_t a, int64_t b, int64_t *out, const char **why)
{
    uint64_t ua = (uint64_t)a, ub = (uint64_t)b;
    switch (op) {
    case '+':
        *out = (int64_t)(ua + ub);
        return true;
    case '-':
        *out = (int64_t)(ua - ub);
        return true;
    case '*':
        *out = (int64_t)(ua * ub);
        return true;
    case '/':
    case '%':
        *why = "division by zero";
        if (b == 0)
            return false;
        if (b == -1) /* INT64_MIN / -1 overflows */
            *out = op == '/' ? (int64_t)(0 - ua) : 0;
        else
            *out = op == '/' ? a / b : a % b;
        return true;
    case TV_OP2('<', '<'):
    case TV_OP2('>', '>'):
        *why = "a shift count must be 0 to 63";
        if (ub > 63)
            return false;
        *out = op == TV_OP2('<', '<') ? (int64_t)(ua << ub) : a >> b;
        return true;
    case '&':
        *out = a & b;
        return true;
    case '|':
        *out = a | b;
        return true;
    case '^':
        *out = a ^ b;
        return true;
    case '<':
        *out = a < b;
        return true;
    case '>':
        *out = a > b;
        return true;
    case TV_OP2('<', '='):
        *out = a <= b;
        return true;
    case TV_OP2('>', '='):
        *out = a >= b;
        return true;
    case TV_OP2('=', '='):
        *out = a == b;
        return true;
    case TV_OP2('!', '='):
        *out = a != b;
        return true;
    case TV_OP2('&', '&'):
        *out = a && b;
        return true;
    case TV_OP2('|', '|'):
        *out = a || b;
        return true;
    default:
        assert(false && "no such operator");
        return false;
    }
}

static bool eval_binary(unsigned op, tv_value a, tv_value b, tv_value *out, const char **why)
{
    *why = "this operator requires integers; convert with int() or round()";
    if (a.real || b.real)
        return eval_real_binary(op, as_real(a), as_real(b), out);
    *out = (tv_value){0};
    return eval_int_binary(op, a.i, b.i, &out->i, why);
}

/* ---- Trees ---- */

static tv_node *to_node(tv_asm_job *job, const tv_expr *e)
{
    if (!e->known)
        return e->node;
    tv_node *n = tv_asm_alloc(job, sizeof *n);
    if (n)
        *n = (tv_node){.kind = TV_NODE_VALUE, .value = e->value};
    return n;
}

static void set_node_loc(tv_node *n, unsigned column, unsigned length)
{
    if (column <= UINT16_MAX && length <= UINT16_MAX) {
        n->column = (uint16_t)column;
        n->length = (uint16_t)length;
    }
}

static uint16_t node_depth(const tv_node *n) { return n ? n->depth : 0; }

static tv_expr new_node(tv_asm_job *job, int kind, unsigned op, const tv_expr *a, const tv_expr *b, const tv_expr *c,
                        bool *ok)
{
    tv_node *n = tv_asm_alloc(job, sizeof *n);
    if (!n)
        return const_int(0);
    *n = (tv_node){.op = op, .a = to_node(job, a), .b = b ? to_node(job, b) : NULL, .c = c ? to_node(job, c) : NULL};
    n->kind = kind == TV_NODE_UNARY     ? TV_NODE_UNARY
              : kind == TV_NODE_BINARY  ? TV_NODE_BINARY
              : kind == TV_NODE_TERNARY ? TV_NODE_TERNARY
                                        : TV_NODE_CALL;
    unsigned depth = node_depth(n->a);
    depth = node_depth(n->b) > depth ? node_depth(n->b) : depth;
    depth = node_depth(n->c) > depth ? node_depth(n->c) : depth;
    n->depth = (uint16_t)(depth + 1);
    if (n->depth > TV_ASM_TREE_DEPTH) {
        tv_asm_error(job, TV_CODE(ASM_EXPR), "define the symbols it uses above this line",
                     "the expression has more than %d operators on symbols that are defined later", TV_ASM_TREE_DEPTH);
        *ok = false;
        return const_int(0);
    }
    return (tv_expr){.node = n};
}

static tv_expr report_expr_error(tv_asm_job *job, unsigned column, const char *why)
{
    tv_asm_error_at(job, column, 1, TV_CODE(ASM_EXPR), NULL, "%s", why);
    return const_int(0);
}

/* ---- Parsing ---- */

/* Each function advances past what it parses. On an error it reports it and sets *ok to false. */

static tv_expr parse_ternary(tv_asm_job *job, unsigned depth, bool *ok);

static tv_expr parse_symbol(tv_asm_job *job, tv_sv name, unsigned column)
{
    tv_asm_symbol *s = tv_symbol_intern(job, name);
    if (!s)
        return const_int(0);
    if (s->state != TV_SYM_UNDEFINED && !s->node)
        return (tv_expr){.known = true, .value = s->value};
    tv_node *n = tv_asm_alloc(job, sizeof *n);
    if (!n)
        return const_int(0);
    *n = (tv_node){.kind = TV_NODE_SYMBOL, .symbol = s};
    set_node_loc(n, column, (unsigned)name.len);
    return (tv_expr){.node = n};
}

/* The kind of the target's operands of the form offset(register); NULL: it has none. */
static const tv_operand_kind *address_kind(const tv_asm_job *job)
{
    for (unsigned i = 0; job->isa && i < job->isa->field_count; i++)
        if (job->isa->fields[i].kind->syntax == TV_SYNTAX_ADDRESS)
            return job->isa->fields[i].kind;
    return NULL;
}

/* True when "(register)" follows and the target has addresses of that form. */
static bool register_follows(tv_asm_job *job)
{
    const tv_operand_kind *kind = address_kind(job);
    if (!kind)
        return false;
    tv_token token = tv_lex_peek(job);
    const char *name = kind->names[kind->reg_class];
    size_t n = strlen(name);
    return token.kind == TV_TOK_NAME && token.text.len > n && memcmp(token.text.ptr, name, n) == 0 &&
           token.text.ptr[n] >= '0' && token.text.ptr[n] <= '9';
}

/* `name` is written like a function: it may be misspelt, or a symbol before a wrong register or without an operator. */
static void report_unknown_function(tv_asm_job *job, tv_sv name, unsigned column)
{
    const tv_operand_kind *kind = address_kind(job);
    const tv_asm_symbol *symbol = tv_symbol_find(job, name);
    tv_token next = tv_lex_peek(job);
    tv_nearest nearest = tv_nearest_to(name);
    char hint[120] = "write an operator before the parenthesis";
    for (unsigned i = 0; i < FN_COUNT; i++)
        tv_nearest_offer(&nearest, functions[i].name);
    if (kind)
        snprintf(hint, sizeof hint, "an address is written like %.60s(%s1)", symbol ? symbol->name.ptr : "offset",
                 kind->names[kind->reg_class]);
    if (symbol && kind && next.kind == TV_TOK_NAME)
        tv_asm_error_at(job, (unsigned)(next.text.ptr - job->lexer.line.ptr) + 1, (unsigned)next.text.len,
                        TV_CODE(ASM_EXPR), hint, "'%.*s' is not a register that an address can have",
                        TV_SV_ARG(next.text));
    else if (symbol)
        tv_asm_error_at(job, column, (unsigned)name.len, TV_CODE(ASM_EXPR), hint, "'%.*s' is a symbol, not a function",
                        TV_SV_ARG(name));
    else {
        if (nearest.best)
            snprintf(hint, sizeof hint, "did you mean '%s'?", nearest.best);
        tv_asm_error_at(job, column, (unsigned)name.len, TV_CODE(ASM_EXPR), nearest.best || kind ? hint : NULL,
                        "unknown function '%.*s'", TV_SV_ARG(name));
    }
}

static tv_expr parse_call(tv_asm_job *job, tv_sv name, unsigned column, unsigned depth, bool *ok)
{
    unsigned fn = 0;
    while (fn < FN_COUNT && !tv_sv_is(name, functions[fn].name))
        fn++;
    if (fn == FN_COUNT && register_follows(job)) /* label(vr1) is an address, not a call */
        return parse_symbol(job, name, column);
    if (fn == FN_COUNT) {
        report_unknown_function(job, name, column);
        *ok = false;
        return const_int(0);
    }
    tv_lex_next(job);
    tv_expr a = parse_ternary(job, depth + 1, ok), b = const_int(0);
    if (*ok && functions[fn].args == 2) {
        if (!tv_lex_accept(job, ',')) {
            tv_asm_error(job, TV_CODE(ASM_EXPR), NULL, "%s() requires two arguments", functions[fn].name);
            *ok = false;
        } else {
            b = parse_ternary(job, depth + 1, ok);
        }
    }
    if (*ok && !tv_lex_accept(job, ')')) {
        tv_asm_error(job, TV_CODE(ASM_EXPR), NULL, "expected ')' after the arguments of %s()", functions[fn].name);
        *ok = false;
    }
    if (!*ok)
        return const_int(0);
    if (!a.known || !b.known)
        return new_node(job, TV_NODE_CALL, fn, &a, &b, NULL, ok);
    tv_value v;
    const char *why = NULL;
    if (!eval_call(fn, a.value, b.value, &v, &why)) {
        *ok = false;
        return report_expr_error(job, column, why);
    }
    return (tv_expr){.known = true, .value = v};
}

static tv_expr parse_primary(tv_asm_job *job, unsigned depth, bool *ok)
{
    tv_token token = job->lexer.token;
    unsigned column = tv_lex_column(job);
    switch (token.kind) {
    case TV_TOK_INT:
        tv_lex_next(job);
        return const_int((int64_t)token.integer);
    case TV_TOK_FLOAT:
        tv_lex_next(job);
        return const_real(token.real);
    case TV_TOK_NAME:
        tv_lex_next(job);
        if (tv_sv_is(token.text, "."))
            return const_int((int64_t)tv_emit_location(job));
        if (tv_lex_is(job, '('))
            return parse_call(job, token.text, column, depth, ok);
        return parse_symbol(job, token.text, column);
    case TV_TOK_PUNCT:
        if (token.op == '(') {
            tv_lex_next(job);
            tv_expr e = parse_ternary(job, depth + 1, ok);
            if (*ok && !tv_lex_accept(job, ')')) {
                tv_asm_error(job, TV_CODE(ASM_EXPR), NULL, "expected ')'");
                *ok = false;
            }
            return e;
        }
        break;
    case TV_TOK_BAD:
        *ok = false;
        return const_int(0);
    default:
        break;
    }
    if (token.kind == TV_TOK_END)
        tv_asm_error_at(job, column, 1, TV_CODE(ASM_EXPR), NULL, "expected a value, found the end of the line");
    else
        tv_asm_error_at(job, column, (unsigned)token.text.len, TV_CODE(ASM_EXPR), NULL,
                        "expected a value, found '%.*s'", TV_SV_ARG(token.text));
    *ok = false;
    return const_int(0);
}

static tv_expr parse_unary(tv_asm_job *job, unsigned depth, bool *ok)
{
    unsigned op = job->lexer.token.op, column = tv_lex_column(job);
    if (depth > TV_ASM_EXPR_DEPTH) {
        *ok = false;
        tv_asm_error_at(job, column, 1, TV_CODE(ASM_EXPR), "give a part of it a name with .equ",
                        "the expression is nested deeper than %d", TV_ASM_EXPR_DEPTH);
        return const_int(0);
    }
    if (job->lexer.token.kind != TV_TOK_PUNCT || (op != '-' && op != '+' && op != '~' && op != '!'))
        return parse_primary(job, depth, ok);
    tv_lex_next(job);
    tv_expr a = parse_unary(job, depth + 1, ok);
    if (!*ok)
        return a;
    if (!a.known)
        return new_node(job, TV_NODE_UNARY, op, &a, NULL, NULL, ok);
    tv_value v;
    const char *why;
    if (!eval_unary(op, a.value, &v, &why)) {
        *ok = false;
        return report_expr_error(job, column, why);
    }
    return (tv_expr){.known = true, .value = v};
}

/* C's precedence, highest binds tightest; 0: not a binary operator. */
static unsigned precedence(const tv_token *token)
{
    if (token->kind != TV_TOK_PUNCT)
        return 0;
    switch (token->op) {
    case '*':
    case '/':
    case '%':
        return 10;
    case '+':
    case '-':
        return 9;
    case TV_OP2('<', '<'):
    case TV_OP2('>', '>'):
        return 8;
    case '<':
    case '>':
    case TV_OP2('<', '='):
    case TV_OP2('>', '='):
        return 7;
    case TV_OP2('=', '='):
    case TV_OP2('!', '='):
        return 6;
    case '&':
        return 5;
    case '^':
        return 4;
    case '|':
        return 3;
    case TV_OP2('&', '&'):
        return 2;
    case TV_OP2('|', '|'):
        return 1;
    default:
        return 0;
    }
}

static tv_expr parse_binary(tv_asm_job *job, unsigned min_precedence, unsigned depth, bool *ok)
{
    tv_expr a = parse_unary(job, depth, ok);
    while (*ok) {
        unsigned p = precedence(&job->lexer.token), op = job->lexer.token.op, column = tv_lex_column(job);
        if (p < min_precedence || p == 0)
            break;
        tv_lex_next(job);
        tv_expr b = parse_binary(job, p + 1, depth + 1, ok);
        if (!*ok)
            break;
        if (!a.known || !b.known) {
            a = new_node(job, TV_NODE_BINARY, op, &a, &b, NULL, ok);
            if (!a.known)
                set_node_loc(a.node, column, op > 255 ? 2 : 1);
            continue;
        }
        tv_value v;
        const char *why;
        if (!eval_binary(op, a.value, b.value, &v, &why)) {
            *ok = false;
            return report_expr_error(job, column, why);
        }
        a = (tv_expr){.known = true, .value = v};
    }
    return a;
}

static tv_expr parse_ternary(tv_asm_job *job, unsigned depth, bool *ok)
{
    tv_expr a = parse_binary(job, 1, depth, ok);
    if (!*ok || !tv_lex_is(job, '?'))
        return a;
    tv_lex_next(job);
    tv_expr b = parse_ternary(job, depth + 1, ok);
    if (*ok && !tv_lex_accept(job, ':')) {
        tv_asm_error(job, TV_CODE(ASM_EXPR), NULL, "expected ':' after '?'");
        *ok = false;
    }
    tv_expr c = *ok ? parse_ternary(job, depth + 1, ok) : b;
    if (!*ok)
        return a;
    if (!a.known)
        return new_node(job, TV_NODE_TERNARY, 0, &a, &b, &c, ok);
    return (a.value.real ? a.value.f != 0 : a.value.i != 0) ? b : c;
}

bool tv_expr_parse(tv_asm_job *job, tv_expr *out)
{
    bool ok = true;
    unsigned column = tv_lex_column(job);
    tv_expr e = parse_ternary(job, 0, &ok);
    e.column = column;
    unsigned end = tv_lex_column(job);
    e.length = end > column ? end - column : 1;
    if (e.length > 1 && job->lexer.token.kind == TV_TOK_END)
        while (e.length > 1 && strchr(" \t\r", job->lexer.line.ptr[column + e.length - 2]))
            e.length--;
    *out = e;
    return ok && !job->out_of_memory;
}

bool tv_expr_constant(tv_asm_job *job, int64_t *out, tv_expr *where)
{
    tv_expr e;
    if (!tv_expr_parse(job, &e))
        return false;
    if (where)
        *where = e;
    if (!e.known) {
        tv_asm_error_at(job, e.column, e.length, TV_CODE(ASM_NOT_CONSTANT),
                        "define the symbols it uses above this line", "the value must be known here");
        return false;
    }
    if (e.value.real) {
        tv_asm_error_at(job, e.column, e.length, TV_CODE(ASM_EXPR), "convert it with int() or round()",
                        "expected an integer");
        return false;
    }
    *out = e.value.i;
    return true;
}

/* ---- Evaluation at the end ---- */

static bool eval_symbol(tv_asm_job *job, const tv_source_loc *loc, tv_asm_symbol *s, tv_value *out)
{
    if (s->state == TV_SYM_UNDEFINED) {
        if (!s->reported) {
            tv_nearest nearest = tv_nearest_to(s->name);
            for (tv_asm_symbol *other = job->first_symbol; other && tv_asm_may_suggest(job); other = other->next)
                if (other->state != TV_SYM_UNDEFINED)
                    tv_nearest_offer(&nearest, other->name.ptr);
            char hint[96];
            snprintf(hint, sizeof hint, "did you mean '%.64s'?", nearest.best ? nearest.best : "");
            tv_asm_error_loc(job, loc, TV_CODE(ASM_SYMBOL), nearest.best ? hint : NULL, "'%.*s' is not defined",
                             TV_SV_ARG(s->name));
        }
        s->reported = true;
        job->errors += job->errors == 0;
        return false;
    }
    if (!s->node) {
        *out = s->value;
        return true;
    }
    if (s->evaluating) {
        if (!s->reported)
            tv_asm_error_loc(job, &s->loc, TV_CODE(ASM_EXPR), NULL, "the definition of '%.*s' depends on itself",
                             TV_SV_ARG(s->name));
        s->reported = true;
        return false;
    }
    s->evaluating = true;
    bool ok = tv_expr_eval(job, &s->loc, s->node, out);
    s->evaluating = false;
    s->node = NULL; /* report it once */
    s->value = ok ? *out : (tv_value){0};
    return ok;
}

/* The location of a node: the column of its symbol or operator, where that is known. */
static tv_source_loc node_loc(const tv_source_loc *loc, const tv_node *node)
{
    tv_source_loc own = *loc;
    if (loc->column && node->column) {
        own.column = node->column;
        own.length = node->length;
    }
    return own;
}

static bool eval_node(tv_asm_job *job, const tv_source_loc *loc, tv_node *node, tv_value *out)
{
    tv_source_loc own = node_loc(loc, node);
    tv_value a = {0}, b = {0};
    const char *why = NULL;
    bool ok;
    switch (node->kind) {
    case TV_NODE_VALUE:
        *out = node->value;
        return true;
    case TV_NODE_SYMBOL:
        return eval_symbol(job, &own, node->symbol, out);
    case TV_NODE_TERNARY:
        if (!tv_expr_eval(job, loc, node->a, &a))
            return false;
        return tv_expr_eval(job, loc, (a.real ? a.f != 0 : a.i != 0) ? node->b : node->c, out);
    default:
        break;
    }
    if (!tv_expr_eval(job, loc, node->a, &a) || (node->b && !tv_expr_eval(job, loc, node->b, &b)))
        return false;
    if (node->kind == TV_NODE_UNARY)
        ok = eval_unary(node->op, a, out, &why);
    else if (node->kind == TV_NODE_BINARY)
        ok = eval_binary(node->op, a, b, out, &why);
    else
        ok = eval_call(node->op, a, b, out, &why);
    if (!ok)
        tv_asm_error_loc(job, &own, TV_CODE(ASM_EXPR), NULL, "%s", why);
    return ok;
}

bool tv_expr_eval(tv_asm_job *job, const tv_source_loc *loc, tv_node *node, tv_value *out)
{
    if (job->eval_depth >= TV_ASM_EVAL_DEPTH) {
        tv_asm_error_loc(job, loc, TV_CODE(ASM_EXPR), "define the symbols it uses above it",
                         "constants depend on each other more than %d levels deep", TV_ASM_EVAL_DEPTH);
        job->stop = true;
        return false;
    }
    job->eval_depth++;
    bool ok = eval_node(job, loc, node, out);
    job->eval_depth--;
    return ok;
}

bool tv_expr_string(tv_asm_job *job, tv_buf *out)
{
    if (job->lexer.token.kind != TV_TOK_STRING) {
        if (job->lexer.token.kind != TV_TOK_BAD)
            tv_asm_error(job, TV_CODE(ASM_DIRECTIVE), NULL, "expected a string in double quotes");
        return false;
    }
    tv_sv text = job->lexer.token.text;
    for (size_t i = 1; i + 1 < text.len; i++) {
        char c = text.ptr[i];
        if (c == '\\') {
            static const char from[] = "nrt0\\\"'", to[] = "\n\r\t\0\\\"'";
            const char *found = strchr(from, text.ptr[++i]);
            if (!found || !*found) {
                tv_asm_error_at(job, tv_lex_column(job) + (unsigned)i - 1, 2, TV_CODE(ASM_NUMBER),
                                "the escapes are \\n \\r \\t \\0 \\\\ \\\" \\'", "unknown escape");
                return false;
            }
            c = to[found - from];
        }
        tv_buf_append(out, &c, 1);
    }
    job->out_of_memory |= out->failed;
    tv_lex_next(job);
    return true;
}
