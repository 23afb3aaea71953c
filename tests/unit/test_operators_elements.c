/* SPDX-License-Identifier: Apache-2.0 */
/* Operators element by element and along the last axis, of every element type and with operands that are repeated.
 * Expected values come from the C library in binary64, or are worked by hand. */
#include <math.h>

#include "operator_case.h"

enum { ELEMENTS_MAX = 4096 };

static int64_t span(unit_rng *rng, int64_t low, int64_t high)
{
    return low + (int64_t)unit_below(rng, (uint64_t)(high - low + 1));
}

/* ---- One operand ---- */

static double relu(double x) { return x > 0 ? x : 0; }
static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double swish(double x) { return x / (1 + exp(-x)); }
static double gelu(double x) { return x * erfc(-x / sqrt(2)) / 2; }
static double gelu_tanh(double x) { return x / 2 * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * pow(x, 3)))); }
static double leaky(double x) { return x < 0 ? x / 4 : x; }
static double clip(double x) { return fmin(fmax(x, -1), 2); }
static double hard_sigmoid(double x) { return fmin(fmax(x / 4 + 0.5, 0), 1); }
static double hard_swish(double x) { return x * fmin(fmax(x + 3, 0), 6) / 6; }
static double elu(double x) { return x < 0 ? 2 * (exp(x) - 1) : x; }
static double celu(double x) { return fmax(0, x) + fmin(0, 2 * (exp(x / 2) - 1)); }
static double selu(double x) { return 3 * (fmax(x, 0) + fmin(2 * (exp(x) - 1), 0)); }
static double threshold(double x) { return x > 0.5 ? x : 0; }
static double softplus(double x) { return log(exp(x) + 1); }
static double softsign(double x) { return x / (1 + fabs(x)); }
static double shrink(double x) { return x < -1 ? x + 0.5 : x > 1 ? x - 0.5 : 0; }
static double negate(double x) { return -x; }
static double reciprocal(double x) { return 1 / x; }
static double sign(double x) { return (x > 0) - (x < 0); }

typedef struct unary_case {
    tv_graph_op op;
    double (*function)(double x);
    double low, high; /* the domain */
    float alpha, beta;
    bool approximate;
} unary_case;

static const unary_case unary_cases[] = {
    {TV_OP_RELU, relu, -5, 5, 0, 0, false},
    {TV_OP_SIGMOID, sigmoid, -5, 5, 0, 0, false},
    {TV_OP_TANH, tanh, -5, 5, 0, 0, false},
    {TV_OP_SWISH, swish, -5, 5, 0, 0, false},
    {TV_OP_GELU, gelu, -5, 5, 0, 0, false},
    {TV_OP_GELU, gelu_tanh, -5, 5, 0, 0, true},
    {TV_OP_EXP, exp, -5, 5, 0, 0, false},
    {TV_OP_SQRT, sqrt, 0, 5, 0, 0, false},
    {TV_OP_CLIP, clip, -5, 5, -1, 2, false},
    {TV_OP_LEAKY_RELU, leaky, -5, 5, 0.25f, 0, false},
    {TV_OP_HARD_SIGMOID, hard_sigmoid, -5, 5, 0.25f, 0.5f, false},
    {TV_OP_HARD_SWISH, hard_swish, -5, 5, 0, 0, false},
    {TV_OP_ELU, elu, -5, 5, 2, 1, false},
    {TV_OP_ELU, celu, -5, 5, 2, 2, false},
    {TV_OP_SELU, selu, -5, 5, 2, 3, false},
    {TV_OP_THRESHOLDED_RELU, threshold, -5, 5, 0.5f, 0, false},
    {TV_OP_SOFTPLUS, softplus, -5, 5, 0, 0, false},
    {TV_OP_SOFTSIGN, softsign, -5, 5, 0, 0, false},
    {TV_OP_SHRINK, shrink, -5, 5, 0.5f, 1, false},
    {TV_OP_ABS, fabs, -5, 5, 0, 0, false},
    {TV_OP_NEG, negate, -5, 5, 0, 0, false},
    {TV_OP_LOG, log, 0.125, 5, 0, 0, false},
    {TV_OP_ERF, erf, -5, 5, 0, 0, false},
    {TV_OP_RECIPROCAL, reciprocal, 0.125, 5, 0, 0, false},
    {TV_OP_FLOOR, floor, -5, 5, 0, 0, false},
    {TV_OP_CEIL, ceil, -5, 5, 0, 0, false},
    {TV_OP_ROUND, rint, -5, 5, 0, 0, false},
    {TV_OP_SIGN, sign, -5, 5, 0, 0, false},
    {TV_OP_SIN, sin, -5, 5, 0, 0, false},
    {TV_OP_COS, cos, -5, 5, 0, 0, false},
    {TV_OP_TAN, tan, -1, 1, 0, 0, false},
    {TV_OP_ASIN, asin, -1, 1, 0, 0, false},
    {TV_OP_ACOS, acos, -1, 1, 0, 0, false},
    {TV_OP_ATAN, atan, -5, 5, 0, 0, false},
    {TV_OP_SINH, sinh, -5, 5, 0, 0, false},
    {TV_OP_COSH, cosh, -5, 5, 0, 0, false},
    {TV_OP_ASINH, asinh, -5, 5, 0, 0, false},
    {TV_OP_ACOSH, acosh, 1, 5, 0, 0, false},
    {TV_OP_ATANH, atanh, -0.875, 0.875, 0, 0, false},
};

static void functions_of_all_real_types(void **state)
{
    static const struct {
        tv_element type;
        double tolerance;
    } types[] = {{TV_ELEMENT_F32, 3e-7}, {TV_ELEMENT_F64, 1e-14}, {TV_ELEMENT_F16, 0x1p-11}, {TV_ELEMENT_BF16, 0x1p-8}};
    (void)state;
    for (size_t i = 0; i < sizeof unary_cases / sizeof unary_cases[0]; i++)
        for (size_t t = 0; t < 4; t++) {
            const unary_case *u = &unary_cases[i];
            tv_graph_attrs attrs = {.alpha = u->alpha, .beta = u->beta, .approximate = u->approximate};
            double x[ELEMENTS_MAX], y[ELEMENTS_MAX];
            size_t n = 0;
            for (double at = u->low; at <= u->high; at += 0.125, n++) /* exact in every type */
                x[n] = at;
            for (size_t k = 0; k < n; k++)
                y[k] = u->function(x[k]);
            operand a = {types[t].type, 2, {(int64_t)n, 1}, x, n, false, false}, out = a;
            out.values = y;
            expect(u->op, INPUTS(a), &attrs, out, types[t].tolerance);
        }
}

static void functions_of_integers_are_exact(void **state)
{
    (void)state;
    const operand x = TENSOR(I8, DIMS(4), -128, -1, 0, 127);
    expect(TV_OP_RELU, INPUTS(x), NULL, TENSOR(I8, DIMS(4), 0, 0, 0, 127), 0);
    expect(TV_OP_ABS, INPUTS(x), NULL, TENSOR(I8, DIMS(4), -128, 1, 0, 127), 0);
    expect(TV_OP_NEG, INPUTS(x), NULL, TENSOR(I8, DIMS(4), -128, 1, 0, -127), 0);
    expect(TV_OP_SIGN, INPUTS(x), NULL, TENSOR(I8, DIMS(4), -1, -1, 0, 1), 0);
    expect(TV_OP_FLOOR, INPUTS(x), NULL, x, 0);
    expect(TV_OP_CEIL, INPUTS(x), NULL, x, 0);
    expect(TV_OP_ROUND, INPUTS(x), NULL, x, 0);
    expect(TV_OP_NOT, INPUTS(x), NULL, TENSOR(I8, DIMS(4), 127, 0, -1, -128), 0);
    expect(TV_OP_NOT, INPUTS(TENSOR(BOOL, DIMS(2), 0, 1)), NULL, TENSOR(BOOL, DIMS(2), 1, 0), 0);
    expect(TV_OP_CLIP, INPUTS(x), &(tv_graph_attrs){.alpha = -2, .beta = 5}, TENSOR(I8, DIMS(4), -2, -1, 0, 5), 0);
}

static void special_numbers_are_kept_and_found(void **state)
{
    (void)state;
    const operand x = TENSOR(F32, DIMS(4), NAN, -INFINITY, INFINITY, 0);
    expect(TV_OP_RELU, INPUTS(x), NULL, TENSOR(F32, DIMS(4), NAN, 0, INFINITY, 0), 0);
    expect(TV_OP_SIGN, INPUTS(x), NULL, TENSOR(F32, DIMS(4), NAN, -1, 1, 0), 0);
    expect(TV_OP_IS_NAN, INPUTS(x), NULL, TENSOR(BOOL, DIMS(4), 1, 0, 0, 0), 0);
    expect(TV_OP_IS_INF, INPUTS(x), &(tv_graph_attrs){.alpha = 1, .beta = 1}, TENSOR(BOOL, DIMS(4), 0, 1, 1, 0), 0);
    expect(TV_OP_IS_INF, INPUTS(x), &(tv_graph_attrs){.alpha = 1}, TENSOR(BOOL, DIMS(4), 0, 1, 0, 0), 0);
    expect(TV_OP_IS_INF, INPUTS(x), &(tv_graph_attrs){.beta = 1}, TENSOR(BOOL, DIMS(4), 0, 0, 1, 0), 0);
    expect(TV_OP_MAX, INPUTS(x, TENSOR(F32, SCALAR, 1)), NULL, TENSOR(F32, DIMS(4), NAN, 1, INFINITY, 1), 0);
    expect(TV_OP_MIN, INPUTS(x, TENSOR(F32, SCALAR, 1)), NULL, TENSOR(F32, DIMS(4), NAN, -INFINITY, 1, 0), 0);
    expect(TV_OP_DIV, INPUTS(TENSOR(F32, DIMS(2), 1, -1), TENSOR(F32, DIMS(1), 0)), NULL,
           TENSOR(F32, DIMS(2), INFINITY, -INFINITY), 0);
}

static void casts_round_truncate_and_wrap(void **state)
{
    (void)state;
#define CAST(type, x, result) expect(TV_OP_CAST, INPUTS(x), &(tv_graph_attrs){.to = TV_ELEMENT_##type}, result, 0)
    CAST(I32, TENSOR(F32, DIMS(4), 1.9, -1.9, NAN, 0.5), TENSOR(I32, DIMS(4), 1, -1, 0, 0));
    CAST(U8, TENSOR(I32, DIMS(3), 256, -1, 255), TENSOR(U8, DIMS(3), 0, 255, 255));
    CAST(I8, TENSOR(U8, DIMS(2), 128, 127), TENSOR(I8, DIMS(2), -128, 127));
    CAST(I4, TENSOR(I8, DIMS(3), 7, 8, -9), TENSOR(I4, DIMS(3), 7, -8, 7));
    CAST(U4, TENSOR(I8, DIMS(3), 15, 16, -1), TENSOR(U4, DIMS(3), 15, 0, 15));
    CAST(BOOL, TENSOR(F32, DIMS(3), 0, 0.5, NAN), TENSOR(BOOL, DIMS(3), 0, 1, 1));
    CAST(BOOL, TENSOR(I64, DIMS(2), 0, 256), TENSOR(BOOL, DIMS(2), 0, 1));
    CAST(F32, TENSOR(BOOL, DIMS(2), 0, 1), TENSOR(F32, DIMS(2), 0, 1));
    CAST(F16, TENSOR(F32, DIMS(3), 1 + 0x1p-11, 1 + 3 * 0x1p-11, 65520), TENSOR(F16, DIMS(3), 1, 1 + 0x1p-9, INFINITY));
    CAST(BF16, TENSOR(I32, DIMS(2), 257, 259), TENSOR(BF16, DIMS(2), 256, 260));
    CAST(U64, TENSOR(F64, DIMS(2), 0x1p63, 1e30), TENSOR(U64, DIMS(2), 0x1p63, 0x1p64));
    CAST(I64, TENSOR(F64, DIMS(3), 1e30, -1e30, 3), TENSOR(I64, DIMS(3), 1e30, -1e30, 3));
    CAST(U16, TENSOR(I64, DIMS(1), 65537), TENSOR(U16, DIMS(1), 1));
    CAST(I16, TENSOR(U32, DIMS(1), 32768), TENSOR(I16, DIMS(1), -32768));
    CAST(F64, TENSOR(F16, SCALAR, 0.5), TENSOR(F64, SCALAR, 0.5));
#undef CAST
}

static void small_numbers_are_the_same_in_every_type(void **state)
{
    (void)state;
    for (unsigned from = 0; from < TV_ELEMENTS; from++)
        for (unsigned to = 0; to < TV_ELEMENTS; to++) {
            bool flags = from == TV_ELEMENT_BOOL || to == TV_ELEMENT_BOOL;
            operand x = TENSOR(F32, DIMS(3), 0, 1, from == TV_ELEMENT_BOOL ? 1 : 5),
                    y = TENSOR(F32, DIMS(3), 0, 1, flags ? 1 : 5);
            x.element = (tv_element)from;
            y.element = (tv_element)to;
            expect(TV_OP_CAST, INPUTS(x), &(tv_graph_attrs){.to = (tv_element)to}, y, 0);
        }
}

/* ---- Two operands ---- */

static double add(double a, double b) { return a + b; }
static double subtract(double a, double b) { return a - b; }
static double multiply(double a, double b) { return a * b; }
static double quotient(double a, double b) { return trunc(a / b); }
static double power(double a, double b) { return pow(a, b); }
static double signed_mod(double a, double b) { return a - b * floor(a / b); }
static double prelu(double a, double b) { return a < 0 ? a * b : a; }
static double equal(double a, double b) { return a == b; }
static double less(double a, double b) { return a < b; }
static double less_or_equal(double a, double b) { return a <= b; }
static double both(double a, double b) { return (double)((int)a & (int)b); }
static double either(double a, double b) { return (double)((int)a | (int)b); }
static double one(double a, double b) { return (double)((int)a ^ (int)b); }
static double left(double a, double b) { return a * exp2(b); }
static double right(double a, double b) { return floor(a / exp2(b)); }

typedef struct binary_case {
    tv_graph_op op;
    double (*function)(double a, double b);
    uint32_t mode;
    bool integers, reals; /* that it has */
} binary_case;

static const binary_case binary_cases[] = {
    {TV_OP_ADD, add, 0, true, true},
    {TV_OP_SUB, subtract, 0, true, true},
    {TV_OP_MUL, multiply, 0, true, true},
    {TV_OP_DIV, quotient, 0, true, false},
    {TV_OP_MIN, fmin, 0, true, true},
    {TV_OP_MAX, fmax, 0, true, true},
    {TV_OP_POW, power, 0, true, true},
    {TV_OP_MOD, signed_mod, 0, true, true},
    {TV_OP_MOD, fmod, 1, true, true},
    {TV_OP_PRELU, prelu, 0, true, true},
    {TV_OP_EQUAL, equal, 0, true, true},
    {TV_OP_LESS, less, 0, true, true},
    {TV_OP_LESS_OR_EQUAL, less_or_equal, 0, true, true},
    {TV_OP_AND, both, 0, true, false},
    {TV_OP_OR, either, 0, true, false},
    {TV_OP_XOR, one, 0, true, false},
    {TV_OP_SHIFT, left, 0, true, false},
    {TV_OP_SHIFT, right, 1, true, false},
};

/* The index in an operand of element i of a shape that it is repeated to. */
static size_t source_index(const operand *from, const int64_t *dims, uint32_t rank, size_t i)
{
    size_t at = 0, inner = 1, stride = 1;
    for (uint32_t k = rank; k-- > 0;) {
        size_t index = i / inner % (size_t)dims[k];
        inner *= (size_t)dims[k];
        if (k + from->rank < rank)
            continue;
        int64_t own = from->dims[k + from->rank - rank];
        at += own == 1 ? 0 : index * stride;
        stride *= (size_t)own;
    }
    return at;
}

static size_t count_of(const int64_t *dims, uint32_t rank)
{
    size_t n = 1;
    for (uint32_t i = 0; i < rank; i++)
        n *= (size_t)dims[i];
    return n;
}

/* An operand that is repeated to `dims`: it lacks leading axes, and has extents of 1. */
static operand draw_repeated(unit_rng *rng, tv_element type, const int64_t *dims, uint32_t rank, const double *values)
{
    operand o = {.element = type, .rank = (uint32_t)span(rng, 0, rank), .values = values};
    for (uint32_t i = 0; i < o.rank; i++)
        o.dims[i] = unit_below(rng, 3) ? dims[rank - o.rank + i] : 1;
    o.count = count_of(o.dims, o.rank);
    return o;
}

static void pairs_of_operands_are_repeated_to_each_other(void **state)
{
    static const tv_element types[] = {TV_ELEMENT_F32, TV_ELEMENT_I32, TV_ELEMENT_F64, TV_ELEMENT_I64, TV_ELEMENT_F16,
                                       TV_ELEMENT_U8,  TV_ELEMENT_U64, TV_ELEMENT_I16, TV_ELEMENT_U32};
    static double a[ELEMENTS_MAX], b[ELEMENTS_MAX], y[ELEMENTS_MAX];
    unit_rng rng = {1};
    (void)state;
    for (unsigned n = 0; n < 3000; n++) {
        const binary_case *c = &binary_cases[n % (sizeof binary_cases / sizeof binary_cases[0])];
        tv_element type = types[unit_below(&rng, 9)];
        bool real = tv_is_real_element(type), negative = tv_element_infos[type].kind != TV_KIND_UNSIGNED;
        if (real ? !c->reals : !c->integers)
            continue;
        bool small = c->op == TV_OP_SHIFT || c->op == TV_OP_POW || c->op == TV_OP_SUB;
        for (size_t i = 0; i < ELEMENTS_MAX; i++) {
            a[i] = (double)span(&rng, negative && c->op != TV_OP_SHIFT ? -6 : 4, 6);
            b[i] = (double)span(&rng, 1, small ? 3 : 6) * (negative && !small && unit_below(&rng, 2) ? -1 : 1);
        }
        int64_t dims[TV_GRAPH_RANK_MAX], out[TV_GRAPH_RANK_MAX] = {0};
        uint32_t rank = (uint32_t)span(&rng, 0, TV_GRAPH_RANK_MAX);
        for (uint32_t i = 0; i < rank; i++)
            dims[i] = unit_below(&rng, 20) ? span(&rng, 1, rank > 5 ? 2 : 4) : 0;
        operand x = draw_repeated(&rng, type, dims, rank, a), z = draw_repeated(&rng, type, dims, rank, b);
        uint32_t common = x.rank > z.rank ? x.rank : z.rank;
        for (uint32_t i = 0; i < common; i++) {
            int64_t p = i + x.rank < common ? 1 : x.dims[i + x.rank - common],
                    q = i + z.rank < common ? 1 : z.dims[i + z.rank - common];
            out[i] = p == 1 ? q : p;
        }
        bool flag = c->op == TV_OP_EQUAL || c->op == TV_OP_LESS || c->op == TV_OP_LESS_OR_EQUAL;
        operand r = {.element = flag ? TV_ELEMENT_BOOL : type, .rank = common, .values = y};
        memcpy(r.dims, out, sizeof out);
        r.count = count_of(out, common);
        for (size_t i = 0; i < r.count; i++)
            y[i] = c->function(a[source_index(&x, out, common, i)], b[source_index(&z, out, common, i)]);
        expect(c->op, INPUTS(x, z), &(tv_graph_attrs){.mode = c->mode}, r, type == TV_ELEMENT_F16 ? 0x1p-10 : 1e-6);
    }
}

static void integers_wrap_and_have_no_undefined_quotients(void **state)
{
    (void)state;
    const operand a = TENSOR(I8, DIMS(4), 127, -128, 100, -7), b = TENSOR(I8, DIMS(4), 1, -1, 3, 0);
    expect(TV_OP_ADD, INPUTS(a, b), NULL, TENSOR(I8, DIMS(4), -128, 127, 103, -7), 0);
    expect(TV_OP_MUL, INPUTS(a, b), NULL, TENSOR(I8, DIMS(4), 127, -128, 44, 0), 0);
    expect(TV_OP_DIV, INPUTS(a, b), NULL, TENSOR(I8, DIMS(4), 127, -128, 33, 0), 0);
    expect(TV_OP_MOD, INPUTS(a, b), NULL, TENSOR(I8, DIMS(4), 0, 0, 1, 0), 0);
    /* Above 2^63: 2^64 - 2^40 and 2^63. */
    const operand big = TENSOR(U64, DIMS(2), 0x1p64 - 0x1p40, 0x1p63), two = TENSOR(U64, SCALAR, 0x1p62);
    expect(TV_OP_DIV, INPUTS(big, two), NULL, TENSOR(U64, DIMS(2), 3, 2), 0);
    expect(TV_OP_MOD, INPUTS(big, two), NULL, TENSOR(U64, DIMS(2), 0x1p62 - 0x1p40, 0), 0);
    expect(TV_OP_MAX, INPUTS(big, two), NULL, big, 0);
    expect(TV_OP_LESS, INPUTS(two, big), NULL, TENSOR(BOOL, DIMS(2), 1, 1), 0);
    expect(TV_OP_POW, INPUTS(TENSOR(I32, DIMS(5), 1, -1, -1, 2, 0), TENSOR(I32, DIMS(5), -3, -3, -2, -1, 0)), NULL,
           TENSOR(I32, DIMS(5), 1, -1, 1, 0, 1), 0);
    expect(TV_OP_POW, INPUTS(TENSOR(I32, DIMS(2), 9, 2), TENSOR(F32, DIMS(2), 0.5, 3)), NULL,
           TENSOR(I32, DIMS(2), 3, 8), 0);
    expect(TV_OP_POW, INPUTS(TENSOR(F32, DIMS(2), 2, 3), TENSOR(I64, SCALAR, 2)), NULL, TENSOR(F32, DIMS(2), 4, 9), 0);
    expect(TV_OP_SHIFT, INPUTS(TENSOR(U8, DIMS(2), 255, 1), TENSOR(U8, SCALAR, 64)), NULL, TENSOR(U8, DIMS(2), 0, 0),
           0);
    expect(TV_OP_AND, INPUTS(TENSOR(BOOL, DIMS(2), 1, 0), TENSOR(BOOL, SCALAR, 1)), NULL, TENSOR(BOOL, DIMS(2), 1, 0),
           0);
}

/* ---- Along the last axis ---- */

static double take_sum(const double *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i];
    return sum;
}

static double take_mean(const double *x, size_t n) { return take_sum(x, n) / (double)n; }

static double take_max(const double *x, size_t n)
{
    double max = x[0];
    for (size_t i = 1; i < n; i++)
        max = fmax(max, x[i]);
    return max;
}

static double take_min(const double *x, size_t n)
{
    double min = x[0];
    for (size_t i = 1; i < n; i++)
        min = fmin(min, x[i]);
    return min;
}

static double take_product(const double *x, size_t n)
{
    double value = 1;
    for (size_t i = 0; i < n; i++)
        value *= x[i];
    return value;
}

static void reductions_of_all_types(void **state)
{
    static const struct {
        tv_graph_op op;
        double (*function)(const double *x, size_t n);
    } cases[] = {{TV_OP_REDUCE_SUM, take_sum},
                 {TV_OP_REDUCE_MEAN, take_mean},
                 {TV_OP_REDUCE_MAX, take_max},
                 {TV_OP_REDUCE_MIN, take_min},
                 {TV_OP_REDUCE_PROD, take_product}};
    static const tv_element types[] = {TV_ELEMENT_F32, TV_ELEMENT_F16, TV_ELEMENT_BF16, TV_ELEMENT_F64,
                                       TV_ELEMENT_I32, TV_ELEMENT_I8,  TV_ELEMENT_I64};
    unit_rng rng = {2};
    (void)state;
    for (unsigned n = 0; n < 500; n++) {
        tv_element type = types[n % 7];
        double x[64], y[8];
        size_t rows = unit_below(&rng, 8), columns = 1 + unit_below(&rng, 8), at = n % 5;
        for (size_t i = 0; i < 64; i++)
            x[i] = (double)span(&rng, 1, 2) * (unit_below(&rng, 2) && at != 4 ? -1 : 1);
        for (size_t i = 0; i < rows; i++) {
            y[i] = cases[at].function(x + i * columns, columns);
            y[i] = tv_is_real_element(type) ? y[i] : trunc(y[i]);
        }
        operand a = {type, 3, {1, (int64_t)rows, (int64_t)columns}, x, rows * columns, false, false};
        operand r = {type, 3, {1, (int64_t)rows, 1}, y, rows, false, false};
        if (type == TV_ELEMENT_I8 && at == 4)
            continue; /* products of eight factors of 2 wrap */
        expect(cases[at].op, INPUTS(a), NULL, r, type == TV_ELEMENT_BF16 ? 0x1p-8 : 0x1p-11);
    }
}

static void reductions_of_nothing_have_their_neutral_element(void **state)
{
    (void)state;
    const operand x = ZEROS(F32, DIMS(2, 0));
    expect(TV_OP_REDUCE_SUM, INPUTS(x), NULL, TENSOR(F32, DIMS(2, 1), 0, 0), 0);
    expect(TV_OP_REDUCE_PROD, INPUTS(x), NULL, TENSOR(F32, DIMS(2, 1), 1, 1), 0);
    expect(TV_OP_REDUCE_MEAN, INPUTS(x), NULL, TENSOR(F32, DIMS(2, 1), NAN, NAN), 0);
    expect(TV_OP_REDUCE_MEAN, INPUTS(ZEROS(I32, DIMS(1, 0))), NULL, TENSOR(I32, DIMS(1, 1), 0), 0);
    expect(TV_OP_REDUCE_MEAN, INPUTS(TENSOR(F16, DIMS(1, 2), 60000, 60000)), NULL, TENSOR(F16, DIMS(1, 1), 60000),
           1e-3);
    expect(TV_OP_REDUCE_MAX, INPUTS(TENSOR(F32, DIMS(1, 3), 1, NAN, 2)), NULL, TENSOR(F32, DIMS(1, 1), NAN), 0);
    expect_rejection(TV_OP_REDUCE_SUM, INPUTS(TENSOR(F32, SCALAR, 1)), NULL, "the input has no axis to reduce");
    expect_rejection(TV_OP_ARG_MAX, INPUTS(x), NULL, "the input has no element along the last axis");
    expect_rejection(TV_OP_ARG_MIN, INPUTS(TENSOR(F32, SCALAR, 1)), NULL, "the input has no axis to reduce");
}

static void indices_of_extremes_are_the_first_or_last(void **state)
{
    (void)state;
    const operand x = TENSOR(F32, DIMS(2, 4), 1, 3, 3, 2, 0, 0, 0, 0), i = TENSOR(I32, DIMS(4), 5, -1, -1, 5);
    const tv_graph_attrs last = {.mode = 1};
    expect(TV_OP_ARG_MAX, INPUTS(x), NULL, TENSOR(I64, DIMS(2, 1), 1, 0), 0);
    expect(TV_OP_ARG_MAX, INPUTS(x), &last, TENSOR(I64, DIMS(2, 1), 2, 3), 0);
    expect(TV_OP_ARG_MIN, INPUTS(i), NULL, TENSOR(I64, DIMS(1), 1), 0);
    expect(TV_OP_ARG_MIN, INPUTS(i), &last, TENSOR(I64, DIMS(1), 2), 0);
}

static void cumulative_sums_go_both_directions(void **state)
{
    (void)state;
    const operand x = TENSOR(F32, DIMS(2, 3), 1, 2, 3, 4, 5, 6), i = TENSOR(I8, DIMS(3), 100, 100, 100);
    static const double sums[4][6] = {
        {1, 3, 6, 4, 9, 15}, {0, 1, 3, 0, 4, 9}, {6, 5, 3, 15, 11, 6}, {5, 3, 0, 11, 6, 0}};
    for (uint32_t mode = 0; mode < 4; mode++) {
        operand y = x;
        y.values = sums[mode];
        expect(TV_OP_CUM_SUM, INPUTS(x), &(tv_graph_attrs){.mode = mode}, y, 0);
    }
    expect(TV_OP_CUM_SUM, INPUTS(i), NULL, TENSOR(I8, DIMS(3), 100, -56, 44), 0);
}

static void operands_that_do_not_fit_are_rejected(void **state)
{
    (void)state;
    static const char fit[] = "the shapes do not fit each other", type[] = "the inputs have different element types";
    const operand x = ZEROS(F32, DIMS(2, 3)), y = ZEROS(F32, DIMS(2)), i = ZEROS(I32, DIMS(2, 3));
    expect_rejection(TV_OP_ADD, INPUTS(x, y), NULL, fit);
    expect_rejection(TV_OP_POW, INPUTS(x, y), NULL, fit);
    expect_rejection(TV_OP_LESS, INPUTS(x, y), NULL, fit);
    expect_rejection(TV_OP_ADD, INPUTS(x, ZEROS(F32, DIMS(0, 3))), NULL, fit);
    expect_rejection(TV_OP_ADD, INPUTS(x, i), NULL, type);
    expect_rejection(TV_OP_AND, INPUTS(x, x), NULL, "the inputs are real numbers");
    expect_rejection(TV_OP_NOT, INPUTS(x), NULL, "the inputs are real numbers");
    expect_rejection(TV_OP_OR, INPUTS(i, y), NULL, fit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_of_all_real_types),
        cmocka_unit_test(functions_of_integers_are_exact),
        cmocka_unit_test(special_numbers_are_kept_and_found),
        cmocka_unit_test(casts_round_truncate_and_wrap),
        cmocka_unit_test(small_numbers_are_the_same_in_every_type),
        cmocka_unit_test(pairs_of_operands_are_repeated_to_each_other),
        cmocka_unit_test(integers_wrap_and_have_no_undefined_quotients),
        cmocka_unit_test(reductions_of_all_types),
        cmocka_unit_test(reductions_of_nothing_have_their_neutral_element),
        cmocka_unit_test(indices_of_extremes_are_the_first_or_last),
        cmocka_unit_test(cumulative_sums_go_both_directions),
        cmocka_unit_test(operands_that_do_not_fit_are_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
