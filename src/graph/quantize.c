/* SPDX-License-Identifier: Apache-2.0 */
/* Quantization by rounding to nearest. */
#include "graph/quantize.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "kernels/quantize.h"
#include "kernels/scales.h"
#include "num/int.h"

/* Of the scales that map the largest magnitude to `most` or a little above. */
static float choose_scale(tv_scale_search_fn search, const float *w, uint32_t n, unsigned bits)
{
    enum { SCALES = 17 };
    int most = TV_INT_MAX(bits);
    bool finite;
    float largest = tv_absmax(w, n, &finite), scales[SCALES] = {largest / (float)most};
    if (!(largest > 0) || !finite)
        return 0;
    if (bits == 8)
        return scales[0];
    for (int i = 1; i < SCALES; i++) {
        scales[i] = largest / (float)most * (1 - 0.025f * (float)i);
        if (!(scales[i] > 0))
            return scales[0];
    }
    unsigned best = search(w, n, largest, scales, SCALES, -most, most);
    return scales[best < SCALES ? best : 0];
}

static void quantize_row(tv_scale_search_fn search, const float *weights, uint32_t n, uint32_t group, unsigned bits,
                         uint8_t *packed, float *scales)
{
    enum { PIECE = 256 };
    int8_t q[PIECE];
    int most = TV_INT_MAX(bits);
    memset(packed, 0, (size_t)n * bits / 8);
    for (uint32_t g = 0; g < n / group; g++) {
        float scale = choose_scale(search, weights + g * group, group, bits);
        scales[g] = scale > 0 ? scale : 1;
        for (uint32_t i = g * group, count; i < (g + 1) * group && scale > 0; i += count) {
            count = (g + 1) * group - i < PIECE ? (g + 1) * group - i : PIECE;
            tv_quantize_s8(weights + i, count, scale, -most, most, bits == 8 ? (int8_t *)packed + i : q);
            if (bits == 4)
                tv_pack_s4(q, count, packed + i / 2);
        }
    }
}

void tv_quantize_row(const float *weights, uint32_t n, uint32_t group, unsigned bits, uint8_t *packed, float *scales)
{
    quantize_row(tv_scale_search(tv_cpu()), weights, n, group, bits, packed, scales);
}

typedef struct sharing {
    const tv_quantize_job *job;
    atomic_bool failed;
} sharing;

static void quantize_part(void *user, uint64_t from, uint64_t to)
{
    sharing *s = user;
    const tv_quantize_job *j = s->job;
    tv_scale_search_fn search = tv_scale_search(tv_cpu());
    float *row = malloc(j->columns * sizeof *row);
    bool well = row != NULL;
    for (uint64_t i = from; i < to && well; i++) {
        int64_t source = j->sources ? j->sources[i] : (int64_t)(j->first + i);
        if (source < 0)
            continue;
        well = tv_matrix_row_f32(j->matrix, (uint64_t)source, row) == TV_OK;
        if (well)
            quantize_row(search, row, j->columns, j->group, j->bits, j->packed + i * j->columns * j->bits / 8,
                         j->scales + i * (j->columns / j->group));
    }
    if (!well)
        s->failed = true;
    free(row);
}

bool tv_quantize_rows(const tv_quantize_job *job, tv_pool *pool)
{
    sharing s = {.job = job};
    tv_pool_run(pool, job->count, quantize_part, &s);
    return !s.failed;
}
