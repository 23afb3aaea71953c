/* SPDX-License-Identifier: Apache-2.0 */
/* Weights as integers with a scale for each group of a row. */
#ifndef TV_GRAPH_QUANTIZE_H
#define TV_GRAPH_QUANTIZE_H

#include "base/base.h"
#include "graph/model.h"
#include "sim/pool.h"

/* Quantizes a row of `n` weights in groups of `group`, which divides n, to signed `bits` (4 or 8): q * scale is near
 * the weight. The scale of 8 bits maps the largest magnitude to 127; that of 4 bits is the one, of some between 0.6 and
 * 1 of the largest magnitude over 7, whose squared error is least. `packed` gets n * bits / 8 bytes, the first element
 * in the lowest bits; `scales` n / group values. A group of zeros, or with a value that is not finite, has scale 1 and
 * zeros. */
void tv_quantize_row(const float *weights, uint32_t n, uint32_t group, unsigned bits, uint8_t *packed, float *scales);

/* The same for `count` rows of a matrix, by the threads of `pool`: rows `first` on, or where `sources` is not NULL row
 * sources[i], or, where that is negative, none: its place in `packed` and `scales`, row after row, stays as it is. */
typedef struct tv_quantize_job {
    const tv_matrix *matrix;
    uint64_t first;
    const int64_t *sources;
    uint32_t count, columns, group;
    unsigned bits;
    uint8_t *packed;
    float *scales;
} tv_quantize_job;

/* False: no memory, or a row that cannot be read. */
bool tv_quantize_rows(const tv_quantize_job *job, tv_pool *pool);

#endif
