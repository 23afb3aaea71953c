/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that compute each element from those at its position, in any element type: real numbers in binary64, which
 * is rounded once, and integers in 64 bits. The functions that language models use are correctly rounded. */
#include <math.h>

#include "graph/operator_table.h"
#include "graph/strides.h"
#include "num/func.h"

/* ---- One operand ---- */

typedef double real_function(const tv_graph_attrs *a, double x);
typedef int64_t integer_function(const tv_graph_attrs *a, int64_t x);

typedef struct unary {
    real_function *real;
    integer_function *integer; /* NULL: of real numbers only, integers are converted */
} unary;

/* A function of each element of a node. */
typedef struct unary_task {
    const tv_operator_row *r;
    unary f;
    tv_func func; /* of compute_function */
} unary_task;

static void compute_elements(void *user, uint64_t from, uint64_t to)
{
    const unary_task *t = user;
    const tv_operator_row *r = t->r;
    tv_tensor x = tv_input_tensor(r, 0), y = tv_output_tensor(r);
    bool integers = t->f.integer && !tv_is_real_element(x.element);
    for (uint64_t i = from; i < to; i++) {
        if (tv_output_is_f32(r))
            tv_output_f32(r)[i] = (float)t->f.real(tv_attrs_of(r), (double)tv_input_f32(r, 0)[i]);
        else if (integers)
            tv_tensor_set_integer(&y, i, t->f.integer(tv_attrs_of(r), tv_tensor_integer(&x, i)));
        else
            tv_tensor_set_real(&y, i, t->f.real(tv_attrs_of(r), tv_tensor_real(&x, i)));
    }
}

static bool compute_unary(const tv_operator_row *r, unary f)
{
    tv_operator_share(r, tv_output_elements(r), compute_elements, &(unary_task){.r = r, .f = f});
    return true;
}

static void compute_rounded(void *user, uint64_t from, uint64_t to)
{
    const unary_task *t = user;
    for (uint64_t i = from; i < to; i++)
        tv_output_f32(t->r)[i] = tv_func_f32(t->func, tv_input_f32(t->r, 0)[i]);
}

/* A correctly rounded function of binary32; other types by `real`. */
static bool compute_function(const tv_operator_row *r, tv_func func, real_function *real)
{
    if (!tv_output_is_f32(r))
        return compute_unary(r, (unary){real, NULL});
    tv_operator_share(r, tv_output_elements(r), compute_rounded, &(unary_task){.r = r, .func = func});
    return true;
}

static double real_relu(const tv_graph_attrs *a, double x) { return (void)a, x > 0 || isnan(x) ? x : 0; }
static int64_t integer_relu(const tv_graph_attrs *a, int64_t x) { return (void)a, x > 0 ? x : 0; }
static double real_sigmoid(const tv_graph_attrs *a, double x) { return (void)a, 1 / (1 + exp(-x)); }
static double real_tanh(const tv_graph_attrs *a, double x) { return (void)a, tanh(x); }
static double real_swish(const tv_graph_attrs *a, double x) { return (void)a, x / (1 + exp(-x)); }
static double real_exp(const tv_graph_attrs *a, double x) { return (void)a, exp(x); }
static double real_sqrt(const tv_graph_attrs *a, double x) { return (void)a, sqrt(x); }
static double real_log(const tv_graph_attrs *a, double x) { return (void)a, log(x); }
static double real_erf(const tv_graph_attrs *a, double x) { return (void)a, erf(x); }
static double real_sin(const tv_graph_attrs *a, double x) { return (void)a, sin(x); }
static double real_cos(const tv_graph_attrs *a, double x) { return (void)a, cos(x); }
static double real_reciprocal(const tv_graph_attrs *a, double x) { return (void)a, 1 / x; }
static double real_tan(const tv_graph_attrs *a, double x) { return (void)a, tan(x); }
static double real_asin(const tv_graph_attrs *a, double x) { return (void)a, asin(x); }
static double real_acos(const tv_graph_attrs *a, double x) { return (void)a, acos(x); }
static double real_atan(const tv_graph_attrs *a, double x) { return (void)a, atan(x); }
static double real_sinh(const tv_graph_attrs *a, double x) { return (void)a, sinh(x); }
static double real_cosh(const tv_graph_attrs *a, double x) { return (void)a, cosh(x); }
static double real_asinh(const tv_graph_attrs *a, double x) { return (void)a, asinh(x); }
static double real_acosh(const tv_graph_attrs *a, double x) { return (void)a, acosh(x); }
static double real_atanh(const tv_graph_attrs *a, double x) { return (void)a, atanh(x); }
static double real_abs(const tv_graph_attrs *a, double x) { return (void)a, fabs(x); }
static int64_t integer_abs(const tv_graph_attrs *a, int64_t x)
{
    return (void)a, x < 0 ? (int64_t)(0 - (uint64_t)x) : x;
}
static double real_neg(const tv_graph_attrs *a, double x) { return (void)a, -x; }
static int64_t integer_neg(const tv_graph_attrs *a, int64_t x) { return (void)a, (int64_t)(0 - (uint64_t)x); }
static double real_sign(const tv_graph_attrs *a, double x) { return (void)a, x > 0 ? 1 : x < 0 ? -1 : x; }
static int64_t integer_sign(const tv_graph_attrs *a, int64_t x) { return (void)a, (x > 0) - (x < 0); }
static double real_floor(const tv_graph_attrs *a, double x) { return (void)a, floor(x); }
static double real_ceil(const tv_graph_attrs *a, double x) { return (void)a, ceil(x); }
static double real_round(const tv_graph_attrs *a, double x) { return (void)a, nearbyint(x); }
static int64_t integer_same(const tv_graph_attrs *a, int64_t x) { return (void)a, x; }

static double clamp(double x, double low, double high)
{
    x = x < low ? low : x;
    return x > high ? high : x;
}

static double real_clip(const tv_graph_attrs *a, double x) { return clamp(x, (double)a->alpha, (double)a->beta); }
static double real_leaky(const tv_graph_attrs *a, double x) { return x < 0 ? (double)a->alpha * x : x; }
static double real_hard_sigmoid(const tv_graph_attrs *a, double x)
{
    return clamp((double)a->alpha * x + (double)a->beta, 0, 1);
}
static double real_hard_swish(const tv_graph_attrs *a, double x) { return (void)a, x * clamp(x / 6 + 0.5, 0, 1); }
static double real_elu(const tv_graph_attrs *a, double x)
{
    return x < 0 ? (double)a->alpha * expm1(x / (double)a->beta) : x;
}
static double real_selu(const tv_graph_attrs *a, double x)
{
    return (double)a->beta * (x > 0 ? x : (double)a->alpha * expm1(x));
}
static double real_threshold(const tv_graph_attrs *a, double x) { return x > (double)a->alpha ? x : 0; }
static double real_softplus(const tv_graph_attrs *a, double x)
{
    return (void)a, x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}
static double real_softsign(const tv_graph_attrs *a, double x) { return (void)a, x / (1 + fabs(x)); }
static double real_shrink(const tv_graph_attrs *a, double x)
{
    double bias = (double)a->alpha, bound = (double)a->beta;
    return x < -bound ? x + bias : x > bound ? x - bias : 0;
}
static double real_gelu(const tv_graph_attrs *a, double x)
{
    if (!a->approximate)
        return x * (1 + erf(x * M_SQRT1_2)) / 2;
    return x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))) / 2;
}

bool tv_compute_RELU(const tv_operator_row *r) { return compute_unary(r, (unary){real_relu, integer_relu}); }
bool tv_compute_SIGMOID(const tv_operator_row *r) { return compute_function(r, TV_FUNC_SIGMOID, real_sigmoid); }
bool tv_compute_TANH(const tv_operator_row *r) { return compute_function(r, TV_FUNC_TANH, real_tanh); }
bool tv_compute_SWISH(const tv_operator_row *r) { return compute_function(r, TV_FUNC_SILU, real_swish); }
bool tv_compute_EXP(const tv_operator_row *r) { return compute_function(r, TV_FUNC_EXP, real_exp); }
bool tv_compute_SQRT(const tv_operator_row *r) { return compute_function(r, TV_FUNC_SQRT, real_sqrt); }
bool tv_compute_LOG(const tv_operator_row *r) { return compute_function(r, TV_FUNC_LOG, real_log); }
bool tv_compute_ERF(const tv_operator_row *r) { return compute_function(r, TV_FUNC_ERF, real_erf); }
bool tv_compute_SIN(const tv_operator_row *r) { return compute_function(r, TV_FUNC_SIN, real_sin); }
bool tv_compute_COS(const tv_operator_row *r) { return compute_function(r, TV_FUNC_COS, real_cos); }
bool tv_compute_RECIPROCAL(const tv_operator_row *r) { return compute_function(r, TV_FUNC_RECIP, real_reciprocal); }
bool tv_compute_GELU(const tv_operator_row *r)
{
    return compute_function(r, tv_attrs_of(r)->approximate ? TV_FUNC_GELU_TANH : TV_FUNC_GELU, real_gelu);
}
bool tv_compute_TAN(const tv_operator_row *r) { return compute_unary(r, (unary){real_tan, NULL}); }
bool tv_compute_ASIN(const tv_operator_row *r) { return compute_unary(r, (unary){real_asin, NULL}); }
bool tv_compute_ACOS(const tv_operator_row *r) { return compute_unary(r, (unary){real_acos, NULL}); }
bool tv_compute_ATAN(const tv_operator_row *r) { return compute_unary(r, (unary){real_atan, NULL}); }
bool tv_compute_SINH(const tv_operator_row *r) { return compute_unary(r, (unary){real_sinh, NULL}); }
bool tv_compute_COSH(const tv_operator_row *r) { return compute_unary(r, (unary){real_cosh, NULL}); }
bool tv_compute_ASINH(const tv_operator_row *r) { return compute_unary(r, (unary){real_asinh, NULL}); }
bool tv_compute_ACOSH(const tv_operator_row *r) { return compute_unary(r, (unary){real_acosh, NULL}); }
bool tv_compute_ATANH(const tv_operator_row *r) { return compute_unary(r, (unary){real_atanh, NULL}); }
bool tv_compute_ABS(const tv_operator_row *r) { return compute_unary(r, (unary){real_abs, integer_abs}); }
bool tv_compute_NEG(const tv_operator_row *r) { return compute_unary(r, (unary){real_neg, integer_neg}); }
bool tv_compute_SIGN(const tv_operator_row *r) { return compute_unary(r, (unary){real_sign, integer_sign}); }
bool tv_compute_FLOOR(const tv_operator_row *r) { return compute_unary(r, (unary){real_floor, integer_same}); }
bool tv_compute_CEIL(const tv_operator_row *r) { return compute_unary(r, (unary){real_ceil, integer_same}); }
bool tv_compute_ROUND(const tv_operator_row *r) { return compute_unary(r, (unary){real_round, integer_same}); }
bool tv_compute_CLIP(const tv_operator_row *r) { return compute_unary(r, (unary){real_clip, NULL}); }
bool tv_compute_LEAKY_RELU(const tv_operator_row *r) { return compute_unary(r, (unary){real_leaky, NULL}); }
bool tv_compute_HARD_SIGMOID(const tv_operator_row *r) { return compute_unary(r, (unary){real_hard_sigmoid, NULL}); }
bool tv_compute_HARD_SWISH(const tv_operator_row *r) { return compute_unary(r, (unary){real_hard_swish, NULL}); }
bool tv_compute_ELU(const tv_operator_row *r) { return compute_unary(r, (unary){real_elu, NULL}); }
bool tv_compute_SELU(const tv_operator_row *r) { return compute_unary(r, (unary){real_selu, NULL}); }
bool tv_compute_THRESHOLDED_RELU(const tv_operator_row *r) { return compute_unary(r, (unary){real_threshold, NULL}); }
bool tv_compute_SOFTPLUS(const tv_operator_row *r) { return compute_unary(r, (unary){real_softplus, NULL}); }
bool tv_compute_SOFTSIGN(const tv_operator_row *r) { return compute_unary(r, (unary){real_softsign, NULL}); }
bool tv_compute_SHRINK(const tv_operator_row *r) { return compute_unary(r, (unary){real_shrink, NULL}); }

/* ---- Types and flags ---- */

bool tv_compute_CAST(const tv_operator_row *r)
{
    tv_tensor x = tv_input_tensor(r, 0), y = tv_output_tensor(r);
    bool real = tv_is_real_element(x.element) || tv_is_real_element(y.element);
    for (uint64_t i = 0, n = tv_output_elements(r); i < n; i++) {
        if (real)
            tv_tensor_set_real(&y, i, tv_tensor_real(&x, i));
        else
            tv_tensor_set_integer(&y, i, tv_tensor_integer(&x, i));
    }
    return true;
}

bool tv_compute_NOT(const tv_operator_row *r)
{
    tv_tensor x = tv_input_tensor(r, 0), y = tv_output_tensor(r);
    bool flags = x.element == TV_ELEMENT_BOOL;
    for (uint64_t i = 0, n = tv_output_elements(r); i < n; i++) {
        int64_t bits = tv_tensor_integer(&x, i);
        tv_tensor_set_integer(&y, i, flags ? !bits : ~bits);
    }
    return true;
}

bool tv_compute_IS_NAN(const tv_operator_row *r)
{
    tv_tensor x = tv_input_tensor(r, 0), y = tv_output_tensor(r);
    for (uint64_t i = 0, n = tv_output_elements(r); i < n; i++)
        tv_tensor_set_integer(&y, i, isnan(tv_tensor_real(&x, i)));
    return true;
}

bool tv_compute_IS_INF(const tv_operator_row *r)
{
    tv_tensor x = tv_input_tensor(r, 0), y = tv_output_tensor(r);
    bool negative = tv_attrs_of(r)->alpha != 0, positive = tv_attrs_of(r)->beta != 0;
    for (uint64_t i = 0, n = tv_output_elements(r); i < n; i++) {
        double value = tv_tensor_real(&x, i);
        tv_tensor_set_integer(&y, i, isinf(value) && (value > 0 ? positive : negative));
    }
    return true;
}

/* ---- Two operands ---- */

typedef double real_pair(const tv_graph_attrs *a, double x, double y);
typedef int64_t integer_pair(const tv_graph_attrs *a, int64_t x, int64_t y, bool wide); /* wide: of uint64 */

typedef struct binary {
    real_pair *real;
    integer_pair *integer; /* NULL: of real numbers only */
} binary;

static void combine_f32(const tv_operator_row *r, const tv_walk *w, real_pair *f)
{
    const float *a = tv_input_f32(r, 0) + w->at[0], *b = tv_input_f32(r, 1) + w->at[1];
    float *y = tv_output_f32(r) + w->at[2];
    for (int64_t i = 0; i < w->count; i++)
        y[i] = (float)f(tv_attrs_of(r), (double)a[i * w->step[0]], (double)b[i * w->step[1]]);
}

static void combine(const tv_operator_row *r, const tv_walk *w, tv_tensor t[3], binary f)
{
    bool integers = f.integer && !tv_is_real_element(t[0].element), wide = t[0].element == TV_ELEMENT_U64;
    for (int64_t i = 0; i < w->count; i++) {
        uint64_t a = (uint64_t)(w->at[0] + i * w->step[0]), b = (uint64_t)(w->at[1] + i * w->step[1]),
                 y = (uint64_t)(w->at[2] + i);
        if (integers)
            tv_tensor_set_integer(
                &t[2], y, f.integer(tv_attrs_of(r), tv_tensor_integer(&t[0], a), tv_tensor_integer(&t[1], b), wide));
        else
            tv_tensor_set_real(&t[2], y, f.real(tv_attrs_of(r), tv_tensor_real(&t[0], a), tv_tensor_real(&t[1], b)));
    }
}

static bool compute_binary(const tv_operator_row *r, binary f)
{
    tv_tensor t[3] = {tv_input_tensor(r, 0), tv_input_tensor(r, 1), tv_output_tensor(r)};
    bool f32 = t[0].element == TV_ELEMENT_F32 && t[1].element == TV_ELEMENT_F32 && t[2].element == TV_ELEMENT_F32;
    if (tv_output_elements(r) == 0)
        return true;
    tv_walk w = tv_walk_over(&t[2]);
    for (unsigned k = 0; k < 3; k++)
        tv_walk_repeat(&w, k, &t[k]);
    do {
        if (f32)
            combine_f32(r, &w, f.real);
        else
            combine(r, &w, t, f);
    } while (tv_walk_next(&w));
    return true;
}

static double real_add(const tv_graph_attrs *a, double x, double y) { return (void)a, x + y; }
static double real_sub(const tv_graph_attrs *a, double x, double y) { return (void)a, x - y; }
static double real_mul(const tv_graph_attrs *a, double x, double y) { return (void)a, x * y; }
static double real_div(const tv_graph_attrs *a, double x, double y) { return (void)a, x / y; }
static double real_min(const tv_graph_attrs *a, double x, double y) { return (void)a, isnan(x) || x < y ? x : y; }
static double real_max(const tv_graph_attrs *a, double x, double y) { return (void)a, isnan(x) || x > y ? x : y; }
static double real_pow(const tv_graph_attrs *a, double x, double y) { return (void)a, pow(x, y); }
static double real_prelu(const tv_graph_attrs *a, double x, double y) { return (void)a, x < 0 ? x * y : x; }
static double real_equal(const tv_graph_attrs *a, double x, double y) { return (void)a, x == y; }
static double real_less(const tv_graph_attrs *a, double x, double y) { return (void)a, x < y; }
static double real_less_equal(const tv_graph_attrs *a, double x, double y) { return (void)a, x <= y; }

static double real_mod(const tv_graph_attrs *a, double x, double y)
{
    double rest = fmod(x, y);
    return !a->mode && rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

static int64_t integer_add(const tv_graph_attrs *a, int64_t x, int64_t y, bool wide)
{
    return (void)a, (void)wide, (int64_t)((uint64_t)x + (uint64_t)y);
}

static int64_t integer_sub(const tv_graph_attrs *a, int64_t x, int64_t y, bool wide)
{
    return (void)a, (void)wide, (int64_t)((uint64_t)x - (uint64_t)y);
}

static int64_t integer_mul(const tv_graph_attrs *a, int64_t x, int64_t y, bool wide)
{
    return (void)a, (void)wide, (int64_t)((uint64_t)x * (uint64_t)y);
}

/* A quotient by zero is 0. */
static int64_t integer_div(const tv_graph_attrs *a, int64_t x, int64_t y, bool wide)
{
    (void)a;
    if (y == 0)
        return 0;
    if (wide)
        return (int64_t)((uint64_t)x / (uint64_t)y);
    return y == -1 ? (int64_t)(0 - (uint64_t)x) : x / y;
}

static bool integer_below(int64_t x, int64_t y, bool wide) { return wide ? (uint64_t)x < (uint64_t)y : x < y; }

static int64_t integer_min(const tv_graph_attrs *a, int64_t x, int64_t y, bool wide)
{
    return (void)a, integer_below(x, y, wide) ? x : y;
}

static int64_t integer_max(const tv_graph_attrs *a, int64_t x, int64_t y, bool wide)
{
    return (void)a, integer_below(x, y, wide) ? y : x;
}

/* By squaring; negative exponents truncate to 0 but for 1 and -1. */
static int64_t integer_pow(const tv_graph_attrs *a, int64_t x, int64_t y, bool wide)
{
    uint64_t power = 1, base = (uint64_t)x;
    (void)a;
    if (y < 0 && !wide)
        return x == 1 ? 1 : x == -1 ? (y % 2 ? -1 : 1) : 0;
    for (uint64_t e = (uint64_t)y; e; e >>= 1, base *= base)
        power *= e & 1 ? base : 1;
    return (int64_t)power;
}

static int64_t integer_mod(const tv_graph_attrs *a, int64_t x, int64_t y, bool wide)
{
    if (y == 0 || (y == -1 && !wide))
        return 0;
    if (wide)
        return (int64_t)((uint64_t)x % (uint64_t)y);
    int64_t rest = x % y;
    return !a->mode && rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

static int64_t integer_equal(const tv_graph_attrs *a, int64_t x, int64_t y, bool wide)
{
    return (void)a, (void)wide, x == y;
}

static int64_t integer_less(const tv_graph_attrs *a, int64_t x, int64_t y, bool wide)
{
    return (void)a, integer_below(x, y, wide);
}

static int64_t integer_less_equal(const tv_graph_attrs *a, int64_t x, int64_t y, bool wide)
{
    return (void)a, !integer_below(y, x, wide);
}

static int64_t integer_and(const tv_graph_attrs *a, int64_t x, int64_t y, bool wide)
{
    return (void)a, (void)wide, x & y;
}

static int64_t integer_or(const tv_graph_attrs *a, int64_t x, int64_t y, bool wide)
{
    return (void)a, (void)wide, x | y;
}

static int64_t integer_xor(const tv_graph_attrs *a, int64_t x, int64_t y, bool wide)
{
    return (void)a, (void)wide, x ^ y;
}

static int64_t integer_shift(const tv_graph_attrs *a, int64_t x, int64_t y, bool wide)
{
    (void)wide;
    if (y < 0 || y > 63)
        return 0;
    return (int64_t)(a->mode ? (uint64_t)x >> y : (uint64_t)x << y);
}

bool tv_compute_ADD(const tv_operator_row *r) { return compute_binary(r, (binary){real_add, integer_add}); }
bool tv_compute_SUB(const tv_operator_row *r) { return compute_binary(r, (binary){real_sub, integer_sub}); }
bool tv_compute_MUL(const tv_operator_row *r) { return compute_binary(r, (binary){real_mul, integer_mul}); }
bool tv_compute_DIV(const tv_operator_row *r) { return compute_binary(r, (binary){real_div, integer_div}); }
bool tv_compute_MIN(const tv_operator_row *r) { return compute_binary(r, (binary){real_min, integer_min}); }
bool tv_compute_MAX(const tv_operator_row *r) { return compute_binary(r, (binary){real_max, integer_max}); }
bool tv_compute_MOD(const tv_operator_row *r) { return compute_binary(r, (binary){real_mod, integer_mod}); }
bool tv_compute_PRELU(const tv_operator_row *r) { return compute_binary(r, (binary){real_prelu, NULL}); }
bool tv_compute_EQUAL(const tv_operator_row *r) { return compute_binary(r, (binary){real_equal, integer_equal}); }
bool tv_compute_LESS(const tv_operator_row *r) { return compute_binary(r, (binary){real_less, integer_less}); }
bool tv_compute_LESS_OR_EQUAL(const tv_operator_row *r)
{
    return compute_binary(r, (binary){real_less_equal, integer_less_equal});
}
bool tv_compute_AND(const tv_operator_row *r) { return compute_binary(r, (binary){NULL, integer_and}); }
bool tv_compute_OR(const tv_operator_row *r) { return compute_binary(r, (binary){NULL, integer_or}); }
bool tv_compute_XOR(const tv_operator_row *r) { return compute_binary(r, (binary){NULL, integer_xor}); }
bool tv_compute_SHIFT(const tv_operator_row *r) { return compute_binary(r, (binary){NULL, integer_shift}); }

/* Integers to an integer power stay integers. */
bool tv_compute_POW(const tv_operator_row *r)
{
    bool integers = !tv_is_real_element(tv_input_tensor(r, 1).element);
    return compute_binary(r, (binary){real_pow, integers ? integer_pow : NULL});
}

float tv_activation_f32(tv_activation activation, float x)
{
    switch (activation) {
    case TV_ACTIVATION_RELU:
        return x > 0 ? x : 0;
    case TV_ACTIVATION_SWISH:
        return tv_func_f32(TV_FUNC_SILU, x);
    case TV_ACTIVATION_GELU:
        return tv_func_f32(TV_FUNC_GELU, x);
    case TV_ACTIVATION_GELU_TANH:
        return tv_func_f32(TV_FUNC_GELU_TANH, x);
    case TV_ACTIVATION_SIGMOID:
        return tv_func_f32(TV_FUNC_SIGMOID, x);
    case TV_ACTIVATION_TANH:
        return tv_func_f32(TV_FUNC_TANH, x);
    case TV_ACTIVATION_NONE:
    case TV_ACTIVATION_CLIP: /* tv_activate has the bounds */
    case TV_ACTIVATIONS:
        break;
    }
    return x;
}

float tv_activate(const tv_graph_attrs *attrs, float x)
{
    if (attrs->activation == TV_ACTIVATION_CLIP)
        return (float)real_clip(attrs, (double)x);
    return tv_activation_f32(attrs->activation, x);
}
