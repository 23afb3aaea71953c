/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/weight_error.h"

#include <math.h>
#include <stdlib.h>

void tv_weight_error_add(tv_weight_error *sum, const float *weights, const float *errors, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        float weight = fabsf(weights[i]), error = fabsf(errors[i]);
        sum->squares += (double)weight * (double)weight;
        sum->errors += (double)error * (double)error;
        sum->max = weight > sum->max ? weight : sum->max;
        sum->error_max = error > sum->error_max ? error : sum->error_max;
    }
    sum->count += n;
}

void tv_weight_error_sum(tv_weight_error *sum, const tv_weight_error *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        sum->count += rows[i].count;
        sum->squares += rows[i].squares;
        sum->errors += rows[i].errors;
        sum->max = rows[i].max > sum->max ? rows[i].max : sum->max;
        sum->error_max = rows[i].error_max > sum->error_max ? rows[i].error_max : sum->error_max;
    }
}

tv_status tv_weight_report_rounded(const tv_weight_report *report, const tv_matrix *matrix, const char *format,
                                   tv_weight_round_fn *round, float unit, const tv_diag_sink *sink)
{
    if (!report->report || !tv_matrix_has_data(matrix))
        return TV_OK;
    tv_weight_error sum = {0};
    uint32_t n = matrix->columns;
    float *row = malloc(2 * (size_t)n * sizeof *row), *errors = row ? row + n : NULL;
    tv_status status = row ? TV_OK : tv_fail_memory(sink);
    for (uint64_t r = 0; r < (uint64_t)matrix->rows * matrix->count && status == TV_OK; r++) {
        if (tv_matrix_row_f32(matrix, r, row) != TV_OK)
            status = tv_matrix_fail(matrix, sink);
        for (uint32_t i = 0; i < n && status == TV_OK; i++)
            errors[i] = round ? row[i] - round(row[i], unit) : 0;
        if (status == TV_OK)
            tv_weight_error_add(&sum, row, errors, n);
    }
    free(row);
    tv_matrix_drop(matrix);
    if (status == TV_OK)
        report->report(report->user, matrix, format, &sum);
    return status;
}
