/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of constant matrices. */
#include "graph/matrix.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "graph/codes.h"
#include "kernels/quantize.h"

tv_status tv_matrix_row_f32(const tv_matrix *matrix, uint64_t row, float *out)
{
    bool finite = true;
    if (matrix->values)
        memcpy(out, matrix->values + row * matrix->columns, matrix->columns * sizeof *out);
    else
        TV_TRY(matrix->read_row(matrix->tensor, matrix->first + row, out));
    tv_absmax(out, matrix->columns, &finite);
    return finite ? TV_OK : TV_ERR_INPUT;
}

void tv_matrix_drop(const tv_matrix *matrix)
{
    if (matrix->tensor)
        matrix->drop_rows(matrix->tensor, matrix->first, (uint64_t)matrix->count * matrix->rows);
}

tv_status tv_matrix_fail(const tv_matrix *matrix, const tv_diag_sink *sink)
{
    uint64_t row = 0, rows = (uint64_t)matrix->count * matrix->rows;
    float *values = malloc(matrix->columns * sizeof *values);
    while (values && row < rows && tv_matrix_row_f32(matrix, row, values) == TV_OK)
        row++;
    free(values);
    if (!values || row == rows)
        return tv_fail_memory(sink);
    return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(WEIGHT_VALUE), "correct the weights",
                   "tensor '%s', row %" PRIu64 ": a value is infinite or not a number", matrix->name,
                   matrix->first + row);
}

const float *tv_matrix_row_or(const tv_matrix *matrix, const float *values, uint64_t row, float *scratch)
{
    if (values)
        return values + row * matrix->columns;
    return tv_matrix_row_f32(matrix, row, scratch) == TV_OK ? scratch : NULL;
}
