/* SPDX-License-Identifier: Apache-2.0 */
/* The reduction of the partial sums of the canonical order (dot.h), eight sums at a time, with AVX2. */
#ifndef TV_KERNELS_X86_TOTALS_H
#define TV_KERNELS_X86_TOTALS_H

#include <immintrin.h>

#include "kernels/clones.h"

/* Lane u: ((p0+p4)+(p2+p6))+((p1+p5)+(p3+p7)) of the partial sums p[u]. */
__attribute__((target("avx2"))) TV_INLINE __m256 tv_sums_avx2(const __m256 p[8])
{
    __m256 h[4], q[2];
    for (unsigned i = 0; i < 4; i++) /* p[i] in the low half, p[i + 4] in the high one */
        h[i] =
            _mm256_add_ps(_mm256_permute2f128_ps(p[i], p[i + 4], 0x20), _mm256_permute2f128_ps(p[i], p[i + 4], 0x31));
    for (unsigned i = 0; i < 2; i++) /* h[i] in lanes 0 and 1 of a half, h[i + 2] in 2 and 3 */
        q[i] = _mm256_add_ps(_mm256_shuffle_ps(h[i], h[i + 2], 0x44), _mm256_shuffle_ps(h[i], h[i + 2], 0xEE));
    __m256 even = _mm256_shuffle_ps(q[0], q[1], 0x88), odd = _mm256_shuffle_ps(q[0], q[1], 0xDD);
    return _mm256_permutevar8x32_ps(_mm256_add_ps(even, odd), _mm256_setr_epi32(0, 2, 1, 3, 4, 6, 5, 7));
}

#endif
