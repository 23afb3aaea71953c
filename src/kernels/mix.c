/* SPDX-License-Identifier: Apache-2.0 */
/* Sixteen columns are the lanes of a vector; of each there are the eight partial sums of the canonical order, which need not wait
 * for each other. They are variables of their own, so that compilers keep them in registers. */
#include "kernels/mix.h"

#include "kernels/clones.h"

enum { COLUMNS = 16, PARTIALS = 8 };

typedef float columns __attribute__((vector_size(4 * COLUMNS), aligned(4), may_alias));

#define ROW(i) (*(const columns *)(const void *)(v + (t + (i)) * step))
#define ADD(i) p##i += a[t + (i)] * ROW(i)
#define ADD_LAST(i)  \
    if (t + (i) < k) \
    ADD(i)

TV_INLINE void mix(const float *a, size_t k, const float *v, size_t step, float *out)
{
    columns p0 = {0}, p1 = {0}, p2 = {0}, p3 = {0}, p4 = {0}, p5 = {0}, p6 = {0}, p7 = {0};
    size_t t = 0;
    for (; t + PARTIALS <= k; t += PARTIALS) {
        ADD(0);
        ADD(1);
        ADD(2);
        ADD(3);
        ADD(4);
        ADD(5);
        ADD(6);
        ADD(7);
    }
    ADD_LAST(0);
    ADD_LAST(1);
    ADD_LAST(2);
    ADD_LAST(3);
    ADD_LAST(4);
    ADD_LAST(5);
    ADD_LAST(6);
    columns total = ((p0 + p4) + (p2 + p6)) + ((p1 + p5) + (p3 + p7));
    memcpy(out, &total, sizeof total);
}

TV_CLONES void tv_mix_f32(const float *a, size_t k, const float *v, size_t step, size_t count, float *out)
{
    size_t c = 0;
    for (; c + COLUMNS <= count; c += COLUMNS)
        mix(a, k, v + c, step, out + c);
    for (; c < count; c++) {
        float p[PARTIALS] = {0};
        for (size_t t = 0; t < k; t++)
            p[t % PARTIALS] += a[t] * v[t * step + c];
        out[c] = ((p[0] + p[4]) + (p[2] + p[6])) + ((p[1] + p[5]) + (p[3] + p[7]));
    }
}
