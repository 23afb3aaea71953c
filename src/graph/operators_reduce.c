/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions and normalizations of the last axis. */
#include <math.h>

#include "graph/operator_table.h"
#include "kernels/dot.h"
#include "num/func.h"

/* ---- Reductions ---- */

static uint64_t vectors_of(const tv_operator_row *r, uint64_t length)
{
    return length ? tv_input_elements(r, 0) / length : tv_output_elements(r);
}

static uint64_t length_of(const tv_operator_row *r)
{
    tv_tensor x = tv_input_tensor(r, 0);
    return (uint64_t)x.dims[x.rank - 1];
}

typedef double fold_real(double x, double y);
typedef int64_t fold_integer(int64_t x, int64_t y);

/* How a type is reduced: from `start`, by functions of two elements. Without a `start` it is the first element. With
 * `mean` the result is divided by the number of elements; that of no integers is 0. */
typedef struct reduction {
    fold_real *real;
    fold_integer *integer;
    bool has_start;
    int64_t start;
    bool mean;
} reduction;

static void reduce_vector(const reduction *f, const tv_tensor *x, uint64_t at, uint64_t n, tv_tensor *y, uint64_t to)
{
    uint64_t first = f->has_start || n == 0 ? 0 : 1;
    if (tv_is_real_element(x->element)) {
        double value = first ? tv_tensor_real(x, at) : (double)f->start;
        for (uint64_t i = first; i < n; i++)
            value = f->real(value, tv_tensor_real(x, at + i));
        tv_tensor_set_real(y, to, f->mean ? value / (double)n : value);
        return;
    }
    int64_t value = first ? tv_tensor_integer(x, at) : f->start;
    for (uint64_t i = first; i < n; i++)
        value = f->integer(value, tv_tensor_integer(x, at + i));
    tv_tensor_set_integer(y, to, f->mean && n ? value / (int64_t)n : value);
}

static bool reduce(const tv_operator_row *r, reduction f)
{
    tv_tensor x = tv_input_tensor(r, 0), y = tv_output_tensor(r);
    uint64_t n = length_of(r);
    for (uint64_t i = 0, count = vectors_of(r, n); i < count; i++)
        reduce_vector(&f, &x, i * n, n, &y, i);
    return true;
}

static double add_real(double x, double y) { return x + y; }
static int64_t add_integer(int64_t x, int64_t y) { return (int64_t)((uint64_t)x + (uint64_t)y); }
static double multiply_real(double x, double y) { return x * y; }
static int64_t multiply_integer(int64_t x, int64_t y) { return (int64_t)((uint64_t)x * (uint64_t)y); }
static double max_real(double x, double y) { return isnan(x) || x > y ? x : y; }
static int64_t max_integer(int64_t x, int64_t y) { return x > y ? x : y; }
static double min_real(double x, double y) { return isnan(x) || x < y ? x : y; }
static int64_t min_integer(int64_t x, int64_t y) { return x < y ? x : y; }

/* Binary32 in the canonical order. */
bool tv_compute_REDUCE_SUM(const tv_operator_row *r)
{
    if (!tv_output_is_f32(r))
        return reduce(r, (reduction){add_real, add_integer, true, 0, false});
    uint64_t n = length_of(r);
    for (uint64_t i = 0, count = vectors_of(r, n); i < count; i++)
        tv_output_f32(r)[i] = tv_sum_f32(tv_input_f32(r, 0) + i * n, n);
    return true;
}

bool tv_compute_REDUCE_MEAN(const tv_operator_row *r)
{
    if (!tv_output_is_f32(r))
        return reduce(r, (reduction){add_real, add_integer, true, 0, true});
    tv_compute_REDUCE_SUM(r);
    for (uint64_t i = 0, n = length_of(r), count = tv_output_elements(r); i < count; i++)
        tv_output_f32(r)[i] /= (float)n;
    return true;
}

bool tv_compute_REDUCE_PROD(const tv_operator_row *r)
{
    return reduce(r, (reduction){multiply_real, multiply_integer, true, 1, false});
}
bool tv_compute_REDUCE_MAX(const tv_operator_row *r)
{
    return reduce(r, (reduction){max_real, max_integer, false, 0, false});
}
bool tv_compute_REDUCE_MIN(const tv_operator_row *r)
{
    return reduce(r, (reduction){min_real, min_integer, false, 0, false});
}

/* The index of the first or last extreme element. */
static bool find_index(const tv_operator_row *r, bool max)
{
    tv_tensor x = tv_input_tensor(r, 0), y = tv_output_tensor(r);
    uint64_t n = length_of(r);
    bool last = tv_attrs_of(r)->mode;
    for (uint64_t i = 0, count = vectors_of(r, n); i < count; i++) {
        uint64_t best = 0;
        for (uint64_t k = 1; k < n; k++) {
            double a = tv_tensor_real(&x, i * n + k), b = tv_tensor_real(&x, i * n + best);
            best = a == b ? (last ? k : best) : (a > b) == max ? k : best;
        }
        tv_tensor_set_integer(&y, i, (int64_t)best);
    }
    return true;
}

bool tv_compute_ARG_MAX(const tv_operator_row *r) { return find_index(r, true); }
bool tv_compute_ARG_MIN(const tv_operator_row *r) { return find_index(r, false); }

bool tv_compute_CUM_SUM(const tv_operator_row *r)
{
    tv_tensor x = tv_input_tensor(r, 0), y = tv_output_tensor(r);
    bool exclusive = tv_attrs_of(r)->mode & 1, reverse = tv_attrs_of(r)->mode & 2;
    uint64_t n = length_of(r);
    for (uint64_t i = 0, count = vectors_of(r, n); i < count; i++) {
        double real = 0;
        int64_t integer = 0;
        for (uint64_t k = 0; k < n; k++) {
            uint64_t at = i * n + (reverse ? n - 1 - k : k);
            double next_real = real + tv_tensor_real(&x, at);
            int64_t next_integer = add_integer(integer, tv_tensor_integer(&x, at));
            if (tv_is_real_element(x.element))
                tv_tensor_set_real(&y, at, exclusive ? real : next_real);
            else
                tv_tensor_set_integer(&y, at, exclusive ? integer : next_integer);
            real = next_real;
            integer = next_integer;
        }
    }
    return true;
}

/* ---- Normalizations ---- */

void tv_softmax_f32(const float *x, float *y, uint32_t n)
{
    float max = n ? x[0] : 0;
    for (uint32_t i = 1; i < n; i++)
        max = x[i] > max ? x[i] : max;
    for (uint32_t i = 0; i < n; i++)
        y[i] = tv_func_f32(TV_FUNC_EXP, x[i] - max);
    float sum = tv_sum_f32(y, n);
    for (uint32_t i = 0; i < n; i++)
        y[i] = y[i] / sum;
}

static void compute_softmax(void *user, uint64_t from, uint64_t to)
{
    const tv_operator_row *r = user;
    uint32_t n = tv_output_columns(r);
    for (uint64_t i = from; i < to; i++)
        tv_softmax_f32(tv_input_f32(r, 0) + i * n, tv_output_f32(r) + i * n, n);
}

static void compute_log_softmax(void *user, uint64_t from, uint64_t to)
{
    const tv_operator_row *r = user;
    uint32_t n = tv_output_columns(r);
    for (uint64_t v = from; v < to; v++) {
        const float *x = tv_input_f32(r, 0) + v * n;
        float *y = tv_output_f32(r) + v * n, max = x[0];
        for (uint32_t i = 1; i < n; i++)
            max = x[i] > max ? x[i] : max;
        for (uint32_t i = 0; i < n; i++)
            y[i] = tv_func_f32(TV_FUNC_EXP, x[i] - max);
        float log_sum = tv_func_f32(TV_FUNC_LOG, tv_sum_f32(y, n));
        for (uint32_t i = 0; i < n; i++)
            y[i] = x[i] - max - log_sum;
    }
}

/* Shares the vectors of the output, of `length` elements each. */
static bool share_vectors(const tv_operator_row *r, uint32_t length, tv_pool_work *work, void *user)
{
    tv_operator_share(r, length ? tv_output_elements(r) / length : 0, work, user);
    return true;
}

bool tv_compute_SOFTMAX(const tv_operator_row *r)
{
    tv_operator_row row = *r;
    return share_vectors(r, tv_output_columns(r), compute_softmax, &row);
}

bool tv_compute_LOG_SOFTMAX(const tv_operator_row *r)
{
    tv_operator_row row = *r;
    return share_vectors(r, tv_output_columns(r), compute_log_softmax, &row);
}

/* Normalizes x[n]; gains and bias may be NULL. */
static void normalize(const tv_operator_row *r, const float *x, float *y, uint32_t n, bool subtract_mean)
{
    const float *gains = r->inputs[1], *bias = r->inputs[2];
    float mean = subtract_mean ? tv_sum_f32(x, n) / (float)n : 0;
    for (uint32_t i = 0; i < n && subtract_mean; i++)
        y[i] = x[i] - mean;
    if (subtract_mean)
        x = y;
    float scale = tv_func_f32(TV_FUNC_RSQRT, tv_dot_f32(x, x, n) / (float)n + tv_attrs_of(r)->epsilon);
    for (uint32_t i = 0; i < n; i++) {
        y[i] = x[i] * scale;
        if (gains)
            y[i] *= gains[i];
        if (bias)
            y[i] += bias[i];
    }
}

typedef struct norm_task {
    const tv_operator_row *r;
    uint32_t length;
    bool subtract_mean;
} norm_task;

static void normalize_vectors(void *user, uint64_t from, uint64_t to)
{
    const norm_task *t = user;
    for (uint64_t i = from; i < to; i++)
        normalize(t->r, tv_input_f32(t->r, 0) + i * t->length, tv_output_f32(t->r) + i * t->length, t->length,
                  t->subtract_mean);
}

static bool compute_normalization(const tv_operator_row *r, uint32_t length, bool subtract_mean)
{
    return share_vectors(r, length, normalize_vectors, &(norm_task){r, length, subtract_mean});
}

bool tv_compute_RMS_NORMALIZATION(const tv_operator_row *r)
{
    return compute_normalization(r, tv_output_columns(r), false);
}

bool tv_compute_LAYER_NORMALIZATION(const tv_operator_row *r)
{
    return compute_normalization(r, tv_output_columns(r), true);
}

bool tv_compute_NORM(const tv_operator_row *r)
{
    return compute_normalization(r, tv_output_columns(r) / tv_attrs_of(r)->groups, tv_attrs_of(r)->subtract_mean);
}
