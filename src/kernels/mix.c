/* SPDX-License-Identifier: Apache-2.0 */
/* Sixteen columns are the lanes of a vector; of each there are the eight partial sums of the canonical order, which need not wait
 * for each other. */
#include "kernels/mix.h"

#include "kernels/clones.h"

enum { COLUMNS = 16, PARTIALS = 8 };

typedef float columns __attribute__((vector_size(4 * COLUMNS)));
typedef int8_t bytes __attribute__((vector_size(COLUMNS)));
typedef int16_t halves __attribute__((vector_size(2 * COLUMNS)));
typedef int32_t words __attribute__((vector_size(4 * COLUMNS)));

/* sum += a * v[0 to count]; by pointer, since how vectors are returned depends on the host's. */
TV_INLINE void add(columns *sum, float a, const int8_t *v, size_t count)
{
    bytes x = {0};
    memcpy(&x, v, count);
    *sum += a * __builtin_convertvector(__builtin_convertvector(__builtin_convertvector(x, halves), words), columns); /* by steps: at once is one by one */
}

/* `count` is known to the compiler where it is COLUMNS. */
TV_INLINE void mix(const float *a, size_t k, const int8_t *v, size_t step, size_t count, float *out)
{
    columns p[PARTIALS] = {{0}};
    size_t t = 0;
    for (; t + PARTIALS <= k; t += PARTIALS)
        for (size_t i = 0; i < PARTIALS; i++)
            add(&p[i], a[t + i], v + (t + i) * step, count);
    for (size_t i = 0; t + i < k; i++)
        add(&p[i], a[t + i], v + (t + i) * step, count);
    columns total = ((p[0] + p[4]) + (p[2] + p[6])) + ((p[1] + p[5]) + (p[3] + p[7]));
    memcpy(out, &total, count * sizeof *out);
}

TV_CLONES void tv_mix_f32_s8(const float *a, size_t k, const int8_t *v, size_t step, size_t count, float *out)
{
    size_t c = 0;
    for (; c + COLUMNS <= count; c += COLUMNS)
        mix(a, k, v + c, step, COLUMNS, out + c);
    if (c < count)
        mix(a, k, v + c, step, count - c, out + c);
}
