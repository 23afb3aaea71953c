/* SPDX-License-Identifier: Apache-2.0 */
/* Constant matrices of a graph: weights of a model file, or values that the graph itself states. */
#ifndef TV_GRAPH_MATRIX_H
#define TV_GRAPH_MATRIX_H

#include "base/diag.h"

/* `count` matrices of [rows][columns], one after the other; vectors have one row. Data comes from a tensor of a model
 * file, of which it may be a part, or from `values`; a model for timing has neither. */
typedef struct tv_matrix {
    const char *name;                    /* of the tensor, as in the file, for messages */
    const struct tv_gguf_tensor *tensor; /* the importer's, or NULL */
    tv_status (*read_row)(const struct tv_gguf_tensor *tensor, uint64_t row, float *out);   /* decodes one row */
    void (*drop_rows)(const struct tv_gguf_tensor *tensor, uint64_t first, uint64_t count); /* with read_row */
    const float *values; /* [count * rows][columns], or NULL */
    uint64_t first;      /* row of the tensor that is row 0 */
    uint32_t rows, columns, count;
} tv_matrix;

static inline bool tv_matrix_has_data(const tv_matrix *matrix) { return matrix->tensor || matrix->values; }

/* Decodes row `row` < count * rows to out[columns]. The matrix must have data. TV_ERR_INPUT: a value of the row is not
 * finite, and `out` is undefined. Reports nothing, so that threads can call it; tv_matrix_fail does. */
tv_status tv_matrix_row_f32(const tv_matrix *matrix, uint64_t row, float *out);

/* Row `row` of a matrix that may be kept as binary32 in `values`; otherwise decoded to `scratch`. NULL: not finite. */
const float *tv_matrix_row_or(const tv_matrix *matrix, const float *values, uint64_t row, float *scratch);

/* The rows are not needed soon: their pages of the mapped file need not stay in memory. */
void tv_matrix_drop(const tv_matrix *matrix);

/* Reports why rows of a matrix could not be converted: its first row with a value that is not finite (TV_ERR_INPUT,
 * TV-L014), or if there is none, lack of memory (TV_ERR_MEMORY). Reads the whole matrix. */
tv_status tv_matrix_fail(const tv_matrix *matrix, const tv_diag_sink *sink);

#endif
