/* SPDX-License-Identifier: Apache-2.0 */
/* The search for a scale. An error is a sum of squares, each rounded upwards or downwards alike: it is never below one of its terms,
 * so that the term of the extreme value tells which scales cannot be the best. */
#include "kernels/scales.h"

#include <math.h>

#include "kernels/clones.h"
#include "kernels/quantize.h"
#include "kernels/scales_x86.h"
#include "num/int.h"

static void errors_scalar(const float *x, size_t n, const float scales[TV_SCALES_BATCH], int low, int high, float errors[TV_SCALES_BATCH])
{
    for (unsigned c = 0; c < TV_SCALES_BATCH; c++)
        errors[c] = tv_quantize_error(x, n, scales[c], low, high);
}

tv_scale_errors_fn tv_scale_errors(tv_cpu_level level)
{
#if defined(__x86_64__)
    static const tv_scale_errors_fn versions[TV_CPU_LEVELS] = {errors_scalar, tv_scale_errors_avx2, tv_scale_errors_avx512};
    return versions[level];
#else
    (void)level;
    return errors_scalar;
#endif
}

/* What the error of each scale is at least; `count` is a whole number of batches. */
TV_CLONES static void find_bounds(float x, const float *scales, unsigned count, float low, float high, float *bounds)
{
    for (unsigned c = 0; c < count; c++) {
        float q = x * (1 / scales[c]);
        float d = x - scales[c] * tv_round_small(q > high ? high : q < low ? low : q);
        bounds[c] = d * d;
    }
}

typedef struct best {
    float error;
    unsigned index;
} best;

/* Tries the scales of `which`, at most a batch. `none` is the best's index before there is one. */
static void try_batch(const tv_scale_search *s, const float *x, size_t n, const float *scales, const unsigned *which, unsigned count, unsigned none, best *b)
{
    float batch[TV_SCALES_BATCH], errors[TV_SCALES_BATCH];
    for (unsigned i = 0; i < TV_SCALES_BATCH; i++)
        batch[i] = scales[which[i < count ? i : 0]];
    s->errors(x, n, batch, s->low, s->high, errors);
    for (unsigned i = 0; i < count; i++)
        if (errors[i] < b->error || (errors[i] == b->error && b->index < none && which[i] < b->index)) {
            b->error = errors[i];
            b->index = which[i];
        }
}

unsigned tv_least_scale(const tv_scale_search *s, const float *x, size_t n, float extreme, const float *scales, unsigned count)
{
    float all[TV_SCALES_MAX], bounds[TV_SCALES_MAX];
    unsigned which[TV_SCALES_BATCH], taken = 0, whole = (count + TV_SCALES_BATCH - 1) / TV_SCALES_BATCH * TV_SCALES_BATCH;
    best b = {INFINITY, count};
    memcpy(all, scales, count * sizeof *all);
    for (unsigned c = count; c < whole; c++)
        all[c] = scales[0];
    find_bounds(extreme, all, whole, (float)s->low, (float)s->high, bounds);
    for (unsigned i = 0; i < count; i++) {
        unsigned c = s->first + i < count ? s->first + i : s->first + i - count;
        if (!(bounds[c] <= b.error))
            continue;
        which[taken++] = c;
        if (taken == TV_SCALES_BATCH) {
            try_batch(s, x, n, scales, which, taken, count, &b);
            taken = 0;
        }
    }
    if (taken)
        try_batch(s, x, n, scales, which, taken, count, &b);
    return b.index;
}
