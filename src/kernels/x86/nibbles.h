/* SPDX-License-Identifier: Apache-2.0 */
/* Packed INT4 as unsigned bytes, with AVX-512. */
#ifndef TV_KERNELS_X86_NIBBLES_H
#define TV_KERNELS_X86_NIBBLES_H

#include <immintrin.h>

#include "kernels/clones.h"

/* The low nibble of each byte, as the weight plus 8: (x ^ 8) & 15 in one instruction. */
__attribute__((target("avx512f"))) TV_INLINE __m512i tv_low_weights_avx512(__m512i x)
{
    enum { XOR_THEN_AND = 0x28 };
    return _mm512_ternarylogic_epi32(x, _mm512_set1_epi8(8), _mm512_set1_epi8(15), XOR_THEN_AND);
}

/* The high nibble of each byte, likewise. */
__attribute__((target("avx512f,avx512bw"))) TV_INLINE __m512i tv_high_weights_avx512(__m512i x)
{
    return tv_low_weights_avx512(_mm512_srli_epi16(x, 4));
}

#endif
