/* SPDX-License-Identifier: Apache-2.0 */
/* Weight quantization to integers with one scale per group of a row. */
#ifndef TV_GRAPH_QUANTIZE_H
#define TV_GRAPH_QUANTIZE_H

#include "base/base.h"
#include "graph/model.h"
#include "graph/weight_error.h"
#include "sim/pool.h"

/* Quantizes w[n] in groups of `group` elements (a divisor of n) to signed integers of `bits` (4 or 8) bits, such that q
 * * scale approximates w. With 8 bits the scale is absmax / 127. With 4 bits it is the candidate between 0.6 and 1
 * times absmax / 7 with the smallest squared error. `packed` receives n * bits / 8 bytes, first element in the lowest
 * bits; `scales` receives n / group values. All-zero groups and groups with a non-finite element get scale 1 and
 * zeros. */
void tv_quantize_row(const float *weights, uint32_t n, uint32_t group, unsigned bits, uint8_t *packed, float *scales);

/* Quantizes `count` rows of a matrix on the threads of a pool. Row i of the output is row first + i of the matrix, or,
 * when `sources` is not NULL, row sources[i]; rows with a negative source are left unchanged in `packed` and
 * `scales`. */
typedef struct tv_quantize_job {
    const tv_matrix *matrix;
    uint64_t first;
    const int64_t *sources;
    uint32_t count, columns, group;
    unsigned bits;
    uint8_t *packed;
    float *scales;
    tv_weight_error *errors; /* of each row, [count], zeros; NULL: not measured */
} tv_quantize_job;

/* Returns false when out of memory or when a row has a value that is not finite; tv_model_fail_matrix reports which. */
bool tv_quantize_rows(const tv_quantize_job *job, tv_pool *pool);

#endif
