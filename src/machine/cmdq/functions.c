/* SPDX-License-Identifier: Apache-2.0 */
/* VE_UNARY_TILE, VE_BINARY_TILE and VE_REDUCE_TILE: one row each, in binary32; every operation is rounded. */
#include "machine/cmdq/functions.h"

#include <math.h>

#include "kernels/dot.h"
#include "kernels/functions.h"
#include "machine/cmdq/ops.h"

/* ---- One input ---- */

cmdq_limits cmdq_exec_limits(const cmdq_exec *x)
{
    bool has_min = cmdq_has_field(x->queue, x->entry, CMDQ_F_clip_min),
         has_max = cmdq_has_field(x->queue, x->entry, CMDQ_F_clip_max);
    return (cmdq_limits){has_min ? cmdq_exec_real(x, CMDQ_F_clip_min) : -INFINITY,
                         has_max ? cmdq_exec_real(x, CMDQ_F_clip_max) : INFINITY};
}

void cmdq_clip(const float *x, uint64_t n, cmdq_limits limits, float *y)
{
    for (uint64_t i = 0; i < n; i++) {
        float low = x[i] < limits.min ? limits.min : x[i];
        y[i] = low > limits.max ? limits.max : low;
    }
}

void cmdq_relu(const float *x, uint64_t n, float *y)
{
    for (uint64_t i = 0; i < n; i++)
        y[i] = x[i] <= 0 ? 0 : x[i];
}

static void leaky_relu(const float *x, uint64_t n, float alpha, float *y)
{
    for (uint64_t i = 0; i < n; i++)
        y[i] = x[i] < 0 ? x[i] * alpha : x[i];
}

/* y = x * alpha + beta, cut to [0, 1]. */
static void hard_sigmoid(const float *x, uint64_t n, float alpha, float beta, float *y)
{
    for (uint64_t i = 0; i < n; i++)
        y[i] = x[i] * alpha + beta;
    cmdq_clip(y, n, (cmdq_limits){0, 1}, y);
}

static void hard_swish(const float *x, uint64_t n, float *y)
{
    hard_sigmoid(x, n, 1.0f / 6, 0.5f, y);
    for (uint64_t i = 0; i < n; i++)
        y[i] = x[i] * y[i];
}

static float alpha_or(const cmdq_exec *x, float fallback)
{
    return cmdq_has_field(x->queue, x->entry, CMDQ_F_alpha) ? cmdq_exec_real(x, CMDQ_F_alpha) : fallback;
}

void cmdq_compute_unary(const cmdq_exec *x, const cmdq_row *row)
{
    static const tv_func special[] = {
        [CMDQ_UNARY_SIGMOID] = TV_FUNC_SIGMOID, [CMDQ_UNARY_TANH] = TV_FUNC_TANH, [CMDQ_UNARY_EXP] = TV_FUNC_EXP,
        [CMDQ_UNARY_LOG] = TV_FUNC_LOG,         [CMDQ_UNARY_SQRT] = TV_FUNC_SQRT, [CMDQ_UNARY_RECIP] = TV_FUNC_RECIP,
        [CMDQ_UNARY_ERF] = TV_FUNC_ERF};
    uint64_t function = cmdq_exec_integer(x, CMDQ_F_unary_function);
    switch (function) {
    case CMDQ_UNARY_RELU:
        cmdq_relu(row->x, row->n, row->y);
        break;
    case CMDQ_UNARY_LEAKY_RELU:
        leaky_relu(row->x, row->n, alpha_or(x, 0.01f), row->y);
        break;
    case CMDQ_UNARY_CLIP:
        cmdq_clip(row->x, row->n, cmdq_exec_limits(x), row->y);
        break;
    case CMDQ_UNARY_ABS:
        for (uint64_t i = 0; i < row->n; i++)
            row->y[i] = fabsf(row->x[i]);
        break;
    case CMDQ_UNARY_NEG:
        for (uint64_t i = 0; i < row->n; i++)
            row->y[i] = -row->x[i];
        break;
    case CMDQ_UNARY_HARDSWISH:
        hard_swish(row->x, row->n, row->y);
        break;
    case CMDQ_UNARY_HARDSIGMOID:
        hard_sigmoid(row->x, row->n, alpha_or(x, 0.2f), cmdq_exec_real(x, CMDQ_F_beta), row->y);
        break;
    default:
        tv_func_f32_row(special[function], row->x, row->n, row->y);
    }
}

/* ---- Two inputs ---- */

float cmdq_maximum(float a, float b)
{
    if (isnan(a) || isnan(b))
        return NAN;
    return a > b || (a == b && !signbit(a)) ? a : b;
}

float cmdq_minimum(float a, float b)
{
    if (isnan(a) || isnan(b))
        return NAN;
    return a < b || (a == b && signbit(a)) ? a : b;
}

void cmdq_compute_binary(const cmdq_exec *x, const cmdq_row *row)
{
    const float *a = row->x, *b = row->second;
    float *y = row->y;
    switch (cmdq_exec_integer(x, CMDQ_F_binary_function)) {
    case CMDQ_BINARY_SUB:
        for (uint64_t i = 0; i < row->n; i++)
            y[i] = a[i] - b[i];
        break;
    case CMDQ_BINARY_DIV:
        for (uint64_t i = 0; i < row->n; i++)
            y[i] = a[i] / b[i];
        break;
    case CMDQ_BINARY_MIN:
        for (uint64_t i = 0; i < row->n; i++)
            y[i] = cmdq_minimum(a[i], b[i]);
        break;
    case CMDQ_BINARY_MAX:
        for (uint64_t i = 0; i < row->n; i++)
            y[i] = cmdq_maximum(a[i], b[i]);
        break;
    case CMDQ_BINARY_POW:
        for (uint64_t i = 0; i < row->n; i++)
            y[i] = tv_func_pow_f32(a[i], b[i]);
        break;
    }
}

/* ---- Reductions ---- */

/* The index of the first of the largest elements; a NaN counts as larger than any number. */
static uint64_t argmax(const float *x, uint64_t n)
{
    uint64_t best = 0;
    for (uint64_t i = 1; i < n && !isnan(x[best]); i++)
        if (x[i] > x[best] || isnan(x[i]))
            best = i;
    return best;
}

void cmdq_compute_reduce(const cmdq_exec *x, const cmdq_row *row)
{
    float y = row->x[0];
    switch (cmdq_exec_integer(x, CMDQ_F_reduce_function)) {
    case CMDQ_REDUCE_SUM:
        y = tv_sum_f32(row->x, row->n);
        break;
    case CMDQ_REDUCE_MEAN:
        y = tv_sum_f32(row->x, row->n) / (float)row->n;
        break;
    case CMDQ_REDUCE_MAX:
        for (uint64_t i = 1; i < row->n; i++)
            y = cmdq_maximum(y, row->x[i]);
        break;
    case CMDQ_REDUCE_MIN:
        for (uint64_t i = 1; i < row->n; i++)
            y = cmdq_minimum(y, row->x[i]);
        break;
    case CMDQ_REDUCE_ARGMAX:
        y = (float)argmax(row->x, row->n);
        break;
    }
    row->y[0] = y;
}
