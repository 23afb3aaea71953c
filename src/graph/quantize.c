/* SPDX-License-Identifier: Apache-2.0 */
/* Weight quantization, round to nearest. */
#include "graph/quantize.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "kernels/gemm.h"
#include "kernels/quantize.h"
#include "kernels/scale_search.h"
#include "num/int.h"

/* Scale of a group: absmax / qmax for 8 bits; for 4 bits the candidate with the smallest squared error. */
static float choose_scale(tv_scale_search_fn *search, const float *w, uint32_t n, unsigned bits)
{
    enum { CANDIDATES = 17 };
    int qmax = TV_INT_MAX(bits);
    bool finite;
    float absmax = tv_absmax(w, n, &finite), scales[CANDIDATES] = {absmax / (float)qmax};
    if (!(absmax > 0) || !finite)
        return 0;
    if (bits == 8)
        return scales[0];
    for (int i = 1; i < CANDIDATES; i++) {
        scales[i] = absmax / (float)qmax * (1 - 0.025f * (float)i);
        if (!(scales[i] > 0))
            return scales[0];
    }
    unsigned best = search(w, n, absmax, scales, CANDIDATES, -qmax, qmax);
    return scales[best < CANDIDATES ? best : 0];
}

static void quantize_row(tv_scale_search_fn *search, const float *weights, uint32_t n, uint32_t group, unsigned bits,
                         uint8_t *packed, float *scales)
{
    enum { CHUNK = 256 };
    int8_t q[CHUNK];
    int qmax = TV_INT_MAX(bits);
    memset(packed, 0, (size_t)n * bits / 8);
    for (uint32_t g = 0; g < n / group; g++) {
        float scale = choose_scale(search, weights + g * group, group, bits);
        scales[g] = scale > 0 ? scale : 1;
        for (uint32_t i = g * group, count; i < (g + 1) * group && scale > 0; i += count) {
            count = (g + 1) * group - i < CHUNK ? (g + 1) * group - i : CHUNK;
            tv_quantize_s8(weights + i, count, scale, -qmax, qmax, bits == 8 ? (int8_t *)packed + i : q);
            if (bits == 4)
                tv_pack_s4(q, count, packed + i / 2);
        }
    }
}

void tv_quantize_row(const float *weights, uint32_t n, uint32_t group, unsigned bits, uint8_t *packed, float *scales)
{
    quantize_row(tv_scale_search(tv_cpu()), weights, n, group, bits, packed, scales);
}

/* Adds the errors of a quantized row to the sums. */
static void measure_row(const tv_quantize_job *j, const float *row, uint64_t at, tv_weight_error *sum)
{
    enum { CHUNK = 256 };
    int8_t q[CHUNK];
    float errors[CHUNK];
    const uint8_t *packed = j->packed + at * j->columns * j->bits / 8;
    const float *scales = j->scales + at * (j->columns / j->group);
    for (uint32_t i = 0, count; i < j->columns; i += count) {
        count = j->columns - i < CHUNK ? j->columns - i : CHUNK;
        if (j->bits == 8)
            memcpy(q, packed + i, count);
        else
            tv_unpack_s4(packed + i / 2, count, q);
        for (uint32_t k = 0; k < count; k++)
            errors[k] = row[i + k] - scales[(i + k) / j->group] * (float)q[k];
        tv_weight_error_add(sum, row + i, errors, count);
    }
}

typedef struct row_task {
    const tv_quantize_job *job;
    atomic_bool failed;
} row_task;

static void quantize_chunk(void *user, uint64_t from, uint64_t to)
{
    row_task *s = user;
    const tv_quantize_job *j = s->job;
    tv_scale_search_fn *search = tv_scale_search(tv_cpu());
    float *row = malloc(j->columns * sizeof *row);
    bool ok = row != NULL;
    for (uint64_t i = from; i < to && ok; i++) {
        int64_t source = j->sources ? j->sources[i] : (int64_t)(j->first + i);
        if (source < 0)
            continue;
        ok = tv_matrix_row_f32(j->matrix, (uint64_t)source, row) == TV_OK;
        if (ok)
            quantize_row(search, row, j->columns, j->group, j->bits, j->packed + i * j->columns * j->bits / 8,
                         j->scales + i * (j->columns / j->group));
        if (ok && j->errors)
            measure_row(j, row, i, &j->errors[i]);
    }
    if (!ok)
        s->failed = true;
    free(row);
}

bool tv_quantize_rows(const tv_quantize_job *job, tv_pool *pool)
{
    row_task s = {.job = job};
    tv_pool_run(pool, job->count, quantize_chunk, &s);
    return !s.failed;
}
