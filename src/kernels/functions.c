/* SPDX-License-Identifier: Apache-2.0 */
/* Vectorized elementary functions with exact results. A chunk is approximated in binary64, or in binary32 for
 * exponentials that become BF16 or are added to it, and rounded at both ends of the error interval; where the two
 * roundings differ, the element is computed again by num/func.c. The loops have no branches, so that the compiler
 * vectorizes them, one clone per level of the host. */
#include "kernels/functions.h"

#include <math.h>

#include "kernels/bf16.h"
#include "kernels/clones.h"
#include "num/float.h"

enum { CHUNK = 256 };

/* ---- Exponential ---- */

/* exp x = 2^k exp r with |r| <= ln 2 / 2, by the series of exp r up to r^12, whose next term is below 2^-52 of the sum.
 * The total rounding error is below 2^-48. The result is unspecified for |x| > LIMIT and NaN. */
static const float LIMIT = 86, UNDERFLOW = -104; /* exp x rounds to 0 in binary32 for x < UNDERFLOW */

TV_INLINE double approximate_exp(double x)
{
    const double magic = 0x1.8p52, ln2_high = 0x1.62e42feep-1,
                 ln2_low = 0x1.a39ef35793c76p-33; /* ln2_high * k is exact */
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

/* exp x minus and plus `bound` * exp x, rounded to binary32: the rounding of the exact value is one of these or between
 * them. */
TV_CLONES static void exp_bounds(const float *x, size_t n, float *low, float *high)
{
    const double bound = 0x1p-42;
    for (size_t i = 0; i < n; i++) {
        double y = approximate_exp((double)x[i]);
        low[i] = x[i] < UNDERFLOW ? 0 : (float)(y - y * bound);
        high[i] = x[i] < UNDERFLOW ? 0 : (float)(y + y * bound);
    }
}

/* True when the bounds do not determine the result: they differ, or the result is a zero, whose sign they lose. Below
 * `underflow` they are always right. */
TV_INLINE int needs_exact(float x, float low, float high, float underflow)
{
    return (!(low == high) | !(fabsf(x) < LIMIT) | (low == 0)) & !(x < underflow);
}

TV_CLONES static bool all_determined(const float *x, size_t n, const float *low, const float *high, float underflow)
{
    int doubtful = 0;
    for (size_t i = 0; i < n; i++)
        doubtful |= needs_exact(x[i], low[i], high[i], underflow);
    return !doubtful;
}

/* Takes the results that the bounds determine and computes the others with the exact function. */
static void resolve_results(tv_func func, const float *x, size_t n, const float *low, const float *high,
                            float underflow, float *y)
{
    if (all_determined(x, n, low, high, underflow)) {
        memcpy(y, low, n * sizeof *y);
        return;
    }
    for (size_t i = 0; i < n; i++)
        y[i] = needs_exact(x[i], low[i], high[i], underflow) ? tv_func_f32(func, x[i]) : low[i];
}

static void exp_f32(const float *x, size_t n, float *y)
{
    float low[CHUNK], high[CHUNK];
    exp_bounds(x, n, low, high);
    resolve_results(TV_FUNC_EXP, x, n, low, high, UNDERFLOW, y);
}

/* The same bounds for SiLU, x / (1 + exp -x). */
TV_CLONES static void silu_bounds(const float *x, size_t n, float *low, float *high)
{
    const double bound = 0x1p-42;
    for (size_t i = 0; i < n; i++) {
        double y = (double)x[i] / (1 + approximate_exp(-(double)x[i]));
        low[i] = (float)(y - y * bound);
        high[i] = (float)(y + y * bound);
    }
}

static void silu_f32(const float *x, size_t n, float *y)
{
    float low[CHUNK], high[CHUNK];
    silu_bounds(x, n, low, high);
    resolve_results(TV_FUNC_SILU, x, n, low, high, -INFINITY, y);
}

/* exp x in binary32, by the series up to r^7. k * ln2_high and its difference from x are exact. Relative to the sum,
 * the last addition has an error of at most 2^-24, the product before it 2^-25.5, r and the addition before 2^-26 each,
 * all earlier ones together and the next term less: in all below 2^-22. Unspecified for |x| >= LIMIT and NaN. */
TV_INLINE float approximate_exp_f32(float x)
{
    const float magic = 0x1.8p23f, ln2_high = 0x1.62e4p-1f, ln2_low = 0x1.7f7d1cp-20f;
    float t = x * 0x1.715476p+0f + magic, k = t - magic, r = (x - k * ln2_high) - k * ln2_low;
    float p = 1.0f / 5040;
    p = p * r + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1;
    p = p * r + 1;
    return p * tv_f32_power_of_two(tv_f32_bits(t));
}

/* Bounds of exp x for BF16, both 0 where it rounds to 0 in binary32. Others differ by several units of binary32, so
 * that they cannot both be the same rounding boundary of BF16, which is a binary32 number. */
TV_CLONES static void exp_bounds_bf16(const float *x, size_t n, float *low, float *high)
{
    const float bound = 0x1p-21f;
    for (size_t i = 0; i < n; i++) {
        float y = approximate_exp_f32(x[i]);
        low[i] = x[i] < UNDERFLOW ? 0 : y - y * bound;
        high[i] = x[i] < UNDERFLOW ? 0 : y + y * bound;
    }
}

TV_INLINE int needs_exact_bf16(float x, uint16_t low, uint16_t high)
{
    return ((low != high) | !(fabsf(x) < LIMIT)) & !(x < UNDERFLOW);
}

TV_CLONES static bool all_determined_bf16(const float *x, size_t n, const uint16_t *low, const uint16_t *high)
{
    int doubtful = 0;
    for (size_t i = 0; i < n; i++)
        doubtful |= needs_exact_bf16(x[i], low[i], high[i]);
    return !doubtful;
}

/* As tv_func_sum_row. */
static uint16_t exact_sum(float x, uint16_t addend)
{
    float y = tv_func_f32(TV_FUNC_EXP, x);
    tv_bf16_add(&y, 1, &addend);
    return tv_bf16_flushed_from_f32(y);
}

/* With `addend` as tv_func_sum_row, otherwise as tv_func_bf16_row. Rounding is monotonic and the bounds are binary32
 * numbers: the rounded exponential is between them, too, and so is its rounded sum between their rounded sums. Where
 * both of these become the same BF16 number, sign of zero included, that is the result. */
static void exp_bf16(const float *x, size_t n, const uint16_t *addend, uint16_t *y)
{
    float low[CHUNK], high[CHUNK];
    uint16_t first[CHUNK], second[CHUNK];
    exp_bounds_bf16(x, n, low, high);
    if (addend) {
        tv_bf16_add(low, n, addend);
        tv_bf16_add(high, n, addend);
    }
    tv_bf16_narrow(low, n, first);
    tv_bf16_narrow(high, n, second);
    if (!all_determined_bf16(x, n, first, second))
        for (size_t i = 0; i < n; i++)
            if (needs_exact_bf16(x[i], first[i], second[i]))
                first[i] = addend ? exact_sum(x[i], addend[i]) : tv_func_bf16(TV_FUNC_EXP, x[i]);
    memcpy(y, first, n * sizeof *y);
}

/* ---- Reciprocal ---- */

/* A quotient of two BF16 numbers either is a rounding boundary of BF16 or differs from one by more than 2^-17 of it,
 * also from TV_BF16_NORMAL_FROM. Rounding it to binary32 first changes it by at most 2^-22, which does not cross a
 * boundary. */
static bool all_bf16(const float *x, size_t n)
{
    uint32_t low_bits = 0;
    for (size_t i = 0; i < n; i++)
        low_bits |= tv_f32_bits(x[i]);
    return (low_bits & 0xFFFF) == 0;
}

TV_CLONES static void reciprocals(const float *x, size_t n, float *y)
{
    for (size_t i = 0; i < n; i++)
        y[i] = tv_f32_of_bits(tv_f32_canonical(1 / x[i]));
}

/* ---- Arrays ---- */

static void eval_f32_chunk(tv_func func, const float *x, size_t n, float *y)
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

static void eval_bf16_chunk(tv_func func, const float *x, size_t n, uint16_t *y)
{
    float wide[CHUNK];
    if (func == TV_FUNC_EXP) {
        exp_bf16(x, n, NULL, y);
    } else if (func == TV_FUNC_RECIP && all_bf16(x, n)) {
        reciprocals(x, n, wide);
        tv_bf16_narrow(wide, n, y);
    } else {
        for (size_t i = 0; i < n; i++)
            y[i] = tv_func_bf16(func, x[i]);
    }
}

static void eval_sum_chunk(tv_func func, const float *x, size_t n, const uint16_t *addend, uint16_t *y)
{
    if (func == TV_FUNC_EXP) {
        exp_bf16(x, n, addend, y);
        return;
    }
    float wide[CHUNK];
    eval_f32_chunk(func, x, n, wide);
    tv_bf16_add(wide, n, addend);
    tv_bf16_narrow(wide, n, y);
}

void tv_func_f32_row(tv_func func, const float *x, size_t n, float *y)
{
    for (size_t at = 0; at < n; at += CHUNK)
        eval_f32_chunk(func, x + at, n - at < CHUNK ? n - at : CHUNK, y + at);
}

void tv_func_bf16_row(tv_func func, const float *x, size_t n, uint16_t *y)
{
    for (size_t at = 0; at < n; at += CHUNK)
        eval_bf16_chunk(func, x + at, n - at < CHUNK ? n - at : CHUNK, y + at);
}

void tv_func_sum_row(tv_func func, const float *x, size_t n, const uint16_t *addend, uint16_t *y)
{
    for (size_t at = 0; at < n; at += CHUNK)
        eval_sum_chunk(func, x + at, n - at < CHUNK ? n - at : CHUNK, addend + at, y + at);
}

/* ---- Scaling ---- */

/* A product of two BF16 numbers is exact in binary32 from 2^-134 on; BF16 flushes what is smaller. For quotients see
 * above. */
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
