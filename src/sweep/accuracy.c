/* SPDX-License-Identifier: Apache-2.0 */
/* Errors and rank correlation of modelled values. */
#include <math.h>
#include <stdlib.h>

#include "base/diag.h"
#include "trivet/validate.h"

static int compare_values(const void *a, const void *b)
{
    double x = **(const double *const *)a, y = **(const double *const *)b;
    return (x > y) - (x < y);
}

/* ranks[i] = rank of values[i] from 1 on; equal values have the mean of their ranks. `order` is scratch of `count`. */
static void compute_ranks(const double *values, size_t count, const double **order, double *ranks)
{
    for (size_t i = 0; i < count; i++)
        order[i] = &values[i];
    qsort(order, count, sizeof *order, compare_values);
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && !(*order[end] > *order[i]);)
            end++;
        for (size_t k = i; k < end; k++)
            ranks[order[k] - values] = (double)(i + 1 + end) / 2;
    }
}

/* Pearson's correlation of ranks 1 to count; NaN where all ranks of one side are equal. */
static double correlate_ranks(const double *a, const double *b, size_t count)
{
    double middle = (double)(count + 1) / 2, covariance = 0, variance_a = 0, variance_b = 0;
    for (size_t i = 0; i < count; i++) {
        covariance += (a[i] - middle) * (b[i] - middle);
        variance_a += (a[i] - middle) * (a[i] - middle);
        variance_b += (b[i] - middle) * (b[i] - middle);
    }
    return variance_a > 0 && variance_b > 0 ? covariance / sqrt(variance_a * variance_b) : (double)NAN;
}

static void compute_errors(const double *measured, const double *modelled, size_t count, tv_accuracy *out)
{
    static const double limits[] = {5, 10, 15};
    double sum = 0, absolute = 0;
    *out = (tv_accuracy){.count = count};
    for (size_t i = 0; i < count; i++) {
        double error = 100 * (modelled[i] - measured[i]) / measured[i];
        sum += error;
        absolute += fabs(error);
        if (fabs(error) > fabs(out->worst)) {
            out->worst = error;
            out->worst_index = i;
        }
        for (size_t k = 0; k < TV_COUNTOF(limits); k++)
            out->within[k] += fabs(error) <= limits[k];
    }
    out->mean = sum / (double)count;
    out->mean_absolute = absolute / (double)count;
}

tv_status tv_accuracy_compute(const double *measured, const double *modelled, uint64_t count, const tv_diag_sink *sink,
                              tv_accuracy *out)
{
    if (count == 0) {
        *out =
            (tv_accuracy){.mean = NAN, .mean_absolute = NAN, .worst = NAN, .worst_index = 0, .rank_correlation = NAN};
        return TV_OK;
    }
    size_t n = (size_t)count;
    const double **order = calloc(n, sizeof *order);
    double *ranks = calloc(n, 2 * sizeof *ranks);
    tv_status status = order && ranks ? TV_OK : tv_fail_memory(sink);
    if (status == TV_OK) {
        compute_errors(measured, modelled, n, out);
        compute_ranks(measured, n, order, ranks);
        compute_ranks(modelled, n, order, ranks + n);
        out->rank_correlation = correlate_ranks(ranks, ranks + n, n);
    }
    free(order);
    free(ranks);
    return status;
}
