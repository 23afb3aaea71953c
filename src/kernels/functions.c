/* SPDX-License-Identifier: Apache-2.0 */
/* Functions in vectors, as far as that is certain: a result that lies too near to a rounding boundary for the error of
 * its approximation is found again by num/func.c. Loops are plain; a compiler turns them into vectors of what the host
 * has. */
#include "kernels/functions.h"

#include <math.h>

#include "kernels/bf16.h"
#include "kernels/clones.h"
#include "num/float.h"

enum { PIECE = 256 };

/* ---- Exponential ---- */

/* exp x = 2^k exp r with |r| at most half of ln 2, by its series up to r^12; the next term is below 2^-52 of the sum.
 * All rounding adds less than 2^-48. An x beyond LIMIT, or NaN, gives something. */
static const float LIMIT = 86, NOTHING = -104; /* exp of less is below half of binary32's least number */

TV_INLINE double exp_near(double x)
{
    const double magic = 0x1.8p52, ln2_high = 0x1.62e42feep-1,
                 ln2_low = 0x1.a39ef35793c76p-33; /* the high part times k is exact */
    double t = x * 0x1.71547652b82fep+0 + magic, k = t - magic, r = (x - k * ln2_high) - k * ln2_low;
    double p = 1.0 / 479001600;
    p = p * r + 1.0 / 39916800;
    p = p * r + 1.0 / 3628800;
    p = p * r + 1.0 / 362880;
    p = p * r + 1.0 / 40320;
    p = p * r + 1.0 / 5040;
    p = p * r + 1.0 / 720;
    p = p * r + 1.0 / 120;
    p = p * r + 1.0 / 24;
    p = p * r + 1.0 / 6;
    p = p * r + 0.5;
    p = p * r + 1;
    p = p * r + 1;
    return p * tv_f64_power_of_two(tv_f64_bits(t));
}

/* Numbers on both sides of exp x, `bound` of it away and rounded to binary32: the exact value's rounding is not
 * outside. */
TV_CLONES static void exp_bounds(const float *x, size_t n, double bound, float *low, float *high)
{
    for (size_t i = 0; i < n; i++) {
        double y = exp_near((double)x[i]);
        low[i] = x[i] < NOTHING ? 0 : (float)(y - y * bound);
        high[i] = x[i] < NOTHING ? 0 : (float)(y + y * bound);
    }
}

/* Whether the bounds decide; of a zero they have lost its sign. Below `nothing` they are right in any case. */
TV_INLINE int is_doubtful(float x, float low, float high, float nothing)
{
    return (!(low == high) | !(fabsf(x) < LIMIT) | (low == 0)) & !(x < nothing);
}

TV_CLONES static bool all_certain(const float *x, size_t n, const float *low, const float *high, float nothing)
{
    int doubts = 0;
    for (size_t i = 0; i < n; i++)
        doubts |= is_doubtful(x[i], low[i], high[i], nothing);
    return !doubts;
}

/* Results that the bounds decide, and the others by the exact function. */
static void settle(tv_func func, const float *x, size_t n, const float *low, const float *high, float nothing, float *y)
{
    if (all_certain(x, n, low, high, nothing)) {
        memcpy(y, low, n * sizeof *y);
        return;
    }
    for (size_t i = 0; i < n; i++)
        y[i] = is_doubtful(x[i], low[i], high[i], nothing) ? tv_func_f32(func, x[i]) : low[i];
}

static void exp_f32(const float *x, size_t n, float *y)
{
    float low[PIECE], high[PIECE];
    exp_bounds(x, n, 0x1p-42, low, high);
    settle(TV_FUNC_EXP, x, n, low, high, NOTHING, y);
}

/* The same of SiLU, x / (1 + exp -x). */
TV_CLONES static void silu_bounds(const float *x, size_t n, double bound, float *low, float *high)
{
    for (size_t i = 0; i < n; i++) {
        double y = (double)x[i] / (1 + exp_near(-(double)x[i]));
        low[i] = (float)(y - y * bound);
        high[i] = (float)(y + y * bound);
    }
}

static void silu_f32(const float *x, size_t n, float *y)
{
    float low[PIECE], high[PIECE];
    silu_bounds(x, n, 0x1p-42, low, high);
    settle(TV_FUNC_SILU, x, n, low, high, -INFINITY, y);
}

/* The bounds are some places of binary32 apart, so that a boundary of BF16, which is a number of binary32, cannot be
 * both of them. */
static void exp_bf16(const float *x, size_t n, uint16_t *y)
{
    float low[PIECE], high[PIECE];
    uint16_t other[PIECE];
    exp_bounds(x, n, 0x1p-21, low, high);
    tv_bf16_narrow(low, n, y);
    tv_bf16_narrow(high, n, other);
    for (size_t i = 0; i < n; i++)
        if (y[i] != other[i] || !(fabsf(x[i]) < LIMIT))
            y[i] = tv_bf16_flush(tv_func_bf16(TV_FUNC_EXP, x[i]));
}

/* ---- Reciprocal ---- */

/* A quotient of two BF16 numbers is a boundary of BF16, or further than 2^-17 of it away from one: rounding it to
 * binary32 first, which moves it by 2^-22 where it is smallest, changes nothing. */
static bool all_bf16(const float *x, size_t n)
{
    uint32_t rest = 0;
    for (size_t i = 0; i < n; i++)
        rest |= tv_f32_bits(x[i]);
    return (rest & 0xFFFF) == 0;
}

TV_CLONES static void reciprocals(const float *x, size_t n, float *y)
{
    for (size_t i = 0; i < n; i++)
        y[i] = tv_f32_of_bits(tv_f32_canonical(1 / x[i]));
}

/* ---- Rows ---- */

static void f32_piece(tv_func func, const float *x, size_t n, float *y)
{
    if (func == TV_FUNC_EXP)
        exp_f32(x, n, y);
    else if (func == TV_FUNC_SILU)
        silu_f32(x, n, y);
    else if (func == TV_FUNC_RECIP)
        reciprocals(x, n, y);
    else
        for (size_t i = 0; i < n; i++)
            y[i] = tv_func_f32(func, x[i]);
}

static void bf16_piece(tv_func func, const float *x, size_t n, uint16_t *y)
{
    float wide[PIECE];
    if (func == TV_FUNC_EXP) {
        exp_bf16(x, n, y);
    } else if (func == TV_FUNC_RECIP && all_bf16(x, n)) {
        reciprocals(x, n, wide);
        tv_bf16_narrow(wide, n, y);
    } else {
        for (size_t i = 0; i < n; i++)
            y[i] = tv_bf16_flush(tv_func_bf16(func, x[i]));
    }
}

void tv_func_f32_row(tv_func func, const float *x, size_t n, float *y)
{
    for (size_t at = 0; at < n; at += PIECE)
        f32_piece(func, x + at, n - at < PIECE ? n - at : PIECE, y + at);
}

void tv_func_bf16_row(tv_func func, const float *x, size_t n, uint16_t *y)
{
    for (size_t at = 0; at < n; at += PIECE)
        bf16_piece(func, x + at, n - at < PIECE ? n - at : PIECE, y + at);
}

/* ---- Scaling ---- */

/* A product of two BF16 numbers fits binary32 where it is not below its least normal number, and near that one; of a
 * quotient see above. */
TV_CLONES void tv_scale_f32(const float *x, size_t n, float scalar, bool divide, float *y)
{
    if (!divide)
        for (size_t i = 0; i < n; i++)
            y[i] = x[i] * scalar;
    else if (scalar == 0)
        memset(y, 0, n * sizeof *y);
    else
        for (size_t i = 0; i < n; i++)
            y[i] = x[i] / scalar;
}
