/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on registers of 64 lanes for hosts with AVX-512: a vector holds a row of bytes, half of a register of 16
 * bit (in the order that unpacking gives; packing undoes it), a quarter of one of 32 bit. */
#include "kernels/x86/lanes.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels/lanes_table.h"
#include "num/float.h"

#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")))
#define INNER static inline __attribute__((always_inline)) TARGET
#define KERNEL(name) TARGET static void name(uint8_t *y, const uint8_t *a, const uint8_t *b, const uint8_t *c, int imm)
#define UNUSED(x) (void)(x)

typedef __m512i vec;

enum { ROW = 64 };

INNER vec load(const uint8_t *p) { return _mm512_loadu_si512(p); }
INNER void store(uint8_t *p, vec x) { _mm512_storeu_si512(p, x); }
INNER vec zero(void) { return _mm512_setzero_si512(); }
INNER vec all8(int x) { return _mm512_set1_epi8((char)x); }
INNER vec all16(int x) { return _mm512_set1_epi16((short)x); }
INNER vec all32(int x) { return _mm512_set1_epi32(x); }

/* ---- Bytes. What the host does to 16 bit only is done to the even and to the odd bytes. ---- */

INNER vec evens(vec x) { return _mm512_and_si512(x, all16(0xFF)); }
INNER vec odds(vec x) { return _mm512_srli_epi16(x, 8); }
INNER vec tops(vec x) { return _mm512_andnot_si512(all16(0xFF), x); } /* the odd bytes where they stand */
INNER vec merge(vec even, vec odd) { return _mm512_mask_blend_epi8(UINT64_C(0xAAAAAAAAAAAAAAAA), even, odd); }
INNER vec even_counts(vec b) { return _mm512_and_si512(b, all16(7)); }
INNER vec odd_counts(vec b) { return _mm512_and_si512(odds(b), all16(7)); }

INNER vec add_8(vec a, vec b) { return _mm512_add_epi8(a, b); }
INNER vec sub_8(vec a, vec b) { return _mm512_sub_epi8(a, b); }
INNER vec rsub_8(vec a, vec b) { return _mm512_sub_epi8(b, a); }
INNER vec mul_8(vec a, vec b) { return merge(_mm512_mullo_epi16(a, b), _mm512_mullo_epi16(odds(a), tops(b))); }
INNER vec neg_8(vec a, vec b)
{
    UNUSED(b);
    return _mm512_sub_epi8(zero(), a);
}
INNER vec abs_8(vec a, vec b)
{
    UNUSED(b);
    return _mm512_abs_epi8(a);
}
INNER vec max_8(vec a, vec b) { return _mm512_max_epi8(a, b); }
INNER vec min_8(vec a, vec b) { return _mm512_min_epi8(a, b); }
INNER vec sll_8(vec a, vec b)
{
    return merge(_mm512_sllv_epi16(a, even_counts(b)), _mm512_sllv_epi16(tops(a), odd_counts(b)));
}
INNER vec srl_8(vec a, vec b)
{
    return merge(_mm512_srlv_epi16(evens(a), even_counts(b)), _mm512_srlv_epi16(a, odd_counts(b)));
}
INNER vec sra_8(vec a, vec b)
{
    vec even = _mm512_srav_epi16(_mm512_slli_epi16(a, 8), even_counts(b));
    return merge(odds(even), _mm512_srav_epi16(a, odd_counts(b)));
}
INNER vec rotate(vec low, vec n)
{
    return _mm512_or_si512(_mm512_sllv_epi16(low, n), _mm512_srlv_epi16(low, _mm512_sub_epi16(all16(8), n)));
}
INNER vec rol_8(vec a, vec b)
{
    return merge(rotate(evens(a), even_counts(b)), _mm512_slli_epi16(rotate(odds(a), odd_counts(b)), 8));
}
INNER vec adds_8(vec a, vec b) { return _mm512_adds_epi8(a, b); }
INNER vec subs_8(vec a, vec b) { return _mm512_subs_epi8(a, b); }
INNER vec rsubs_8(vec a, vec b) { return _mm512_subs_epi8(b, a); }
INNER vec negs_8(vec a, vec b)
{
    UNUSED(b);
    return _mm512_subs_epi8(zero(), a);
}
INNER vec abss_8(vec a, vec b)
{
    UNUSED(b);
    return _mm512_min_epu8(_mm512_abs_epi8(a), all8(127));
}
INNER vec clamp_byte(vec x) { return _mm512_max_epi16(_mm512_min_epi16(x, all16(127)), all16(-128)); }
INNER vec muls_8(vec a, vec b)
{
    vec even = _mm512_mullo_epi16(_mm512_srai_epi16(_mm512_slli_epi16(a, 8), 8),
                                  _mm512_srai_epi16(_mm512_slli_epi16(b, 8), 8));
    vec odd = _mm512_mullo_epi16(_mm512_srai_epi16(a, 8), _mm512_srai_epi16(b, 8));
    return merge(clamp_byte(even), _mm512_slli_epi16(clamp_byte(odd), 8));
}

/* ---- 16 bit ---- */

INNER vec counts_16(vec b) { return _mm512_and_si512(b, all16(15)); }
INNER vec add_16(vec a, vec b) { return _mm512_add_epi16(a, b); }
INNER vec sub_16(vec a, vec b) { return _mm512_sub_epi16(a, b); }
INNER vec rsub_16(vec a, vec b) { return _mm512_sub_epi16(b, a); }
INNER vec mul_16(vec a, vec b) { return _mm512_mullo_epi16(a, b); }
INNER vec neg_16(vec a, vec b)
{
    UNUSED(b);
    return _mm512_sub_epi16(zero(), a);
}
INNER vec abs_16(vec a, vec b)
{
    UNUSED(b);
    return _mm512_abs_epi16(a);
}
INNER vec max_16(vec a, vec b) { return _mm512_max_epi16(a, b); }
INNER vec min_16(vec a, vec b) { return _mm512_min_epi16(a, b); }
INNER vec sll_16(vec a, vec b) { return _mm512_sllv_epi16(a, counts_16(b)); }
INNER vec srl_16(vec a, vec b) { return _mm512_srlv_epi16(a, counts_16(b)); }
INNER vec sra_16(vec a, vec b) { return _mm512_srav_epi16(a, counts_16(b)); }
INNER vec rol_16(vec a, vec b)
{
    vec n = counts_16(b);
    return _mm512_or_si512(_mm512_sllv_epi16(a, n), _mm512_srlv_epi16(a, _mm512_sub_epi16(all16(16), n)));
}
INNER vec adds_16(vec a, vec b) { return _mm512_adds_epi16(a, b); }
INNER vec subs_16(vec a, vec b) { return _mm512_subs_epi16(a, b); }
INNER vec rsubs_16(vec a, vec b) { return _mm512_subs_epi16(b, a); }
INNER vec negs_16(vec a, vec b)
{
    UNUSED(b);
    return _mm512_subs_epi16(zero(), a);
}
INNER vec abss_16(vec a, vec b)
{
    UNUSED(b);
    return _mm512_min_epu16(_mm512_abs_epi16(a), all16(INT16_MAX));
}
INNER vec muls_16(vec a, vec b)
{
    vec low = _mm512_mullo_epi16(a, b), high = _mm512_mulhi_epi16(a, b);
    __mmask32 over = _mm512_cmpneq_epi16_mask(high, _mm512_srai_epi16(low, 15));
    return _mm512_mask_blend_epi16(over, low, _mm512_xor_si512(_mm512_srai_epi16(high, 15), all16(INT16_MAX)));
}

/* ---- 32 bit ---- */

INNER vec counts_32(vec b) { return _mm512_and_si512(b, all32(31)); }
/* The end of the range on the side of x's sign. */
INNER vec limit_32(vec x) { return _mm512_xor_si512(_mm512_srai_epi32(x, 31), all32(INT32_MAX)); }
INNER vec add_32(vec a, vec b) { return _mm512_add_epi32(a, b); }
INNER vec sub_32(vec a, vec b) { return _mm512_sub_epi32(a, b); }
INNER vec rsub_32(vec a, vec b) { return _mm512_sub_epi32(b, a); }
INNER vec mul_32(vec a, vec b) { return _mm512_mullo_epi32(a, b); }
INNER vec neg_32(vec a, vec b)
{
    UNUSED(b);
    return _mm512_sub_epi32(zero(), a);
}
INNER vec abs_32(vec a, vec b)
{
    UNUSED(b);
    return _mm512_abs_epi32(a);
}
INNER vec max_32(vec a, vec b) { return _mm512_max_epi32(a, b); }
INNER vec min_32(vec a, vec b) { return _mm512_min_epi32(a, b); }
INNER vec sll_32(vec a, vec b) { return _mm512_sllv_epi32(a, counts_32(b)); }
INNER vec srl_32(vec a, vec b) { return _mm512_srlv_epi32(a, counts_32(b)); }
INNER vec sra_32(vec a, vec b) { return _mm512_srav_epi32(a, counts_32(b)); }
INNER vec rol_32(vec a, vec b) { return _mm512_rolv_epi32(a, b); }
INNER vec xor_32(vec a, vec b) { return _mm512_xor_si512(a, b); }
INNER vec not_32(vec a, vec b)
{
    UNUSED(b);
    return _mm512_xor_si512(a, all32(-1));
}
INNER vec or_32(vec a, vec b) { return _mm512_or_si512(a, b); }
INNER vec and_32(vec a, vec b) { return _mm512_and_si512(a, b); }
INNER vec adds_32(vec a, vec b)
{
    vec sum = _mm512_add_epi32(a, b), over = _mm512_and_si512(_mm512_xor_si512(a, sum), _mm512_xor_si512(b, sum));
    return _mm512_mask_mov_epi32(sum, _mm512_movepi32_mask(over), limit_32(a));
}
INNER vec subs_32(vec a, vec b)
{
    vec rest = _mm512_sub_epi32(a, b), over = _mm512_and_si512(_mm512_xor_si512(a, b), _mm512_xor_si512(a, rest));
    return _mm512_mask_mov_epi32(rest, _mm512_movepi32_mask(over), limit_32(a));
}
INNER vec rsubs_32(vec a, vec b) { return subs_32(b, a); }
INNER vec negs_32(vec a, vec b)
{
    UNUSED(b);
    return subs_32(zero(), a);
}
INNER vec abss_32(vec a, vec b)
{
    UNUSED(b);
    return _mm512_min_epu32(_mm512_abs_epi32(a), all32(INT32_MAX));
}
INNER vec muls_32(vec a, vec b)
{
    vec even = _mm512_mul_epi32(a, b), odd = _mm512_mul_epi32(_mm512_srli_epi64(a, 32), _mm512_srli_epi64(b, 32));
    vec low = _mm512_mask_blend_epi32(0xAAAA, even, _mm512_slli_epi64(odd, 32));
    vec high = _mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64(even, 32), odd);
    return _mm512_mask_mov_epi32(low, _mm512_cmpneq_epi32_mask(high, _mm512_srai_epi32(low, 31)), limit_32(high));
}

/* ---- Registers of each width ---- */

typedef struct halves {
    vec low, high;
} halves;

INNER halves load_16(const uint8_t *p)
{
    vec p0 = load(p), p1 = load(p + ROW);
    return (halves){_mm512_unpacklo_epi8(p0, p1), _mm512_unpackhi_epi8(p0, p1)};
}

INNER void store_16(uint8_t *p, halves x)
{
    store(p, _mm512_packus_epi16(evens(x.low), evens(x.high)));
    store(p + ROW, _mm512_packus_epi16(odds(x.low), odds(x.high)));
}

#define KERNEL_8(name, f)                                                                                              \
    KERNEL(name)                                                                                                       \
    {                                                                                                                  \
        UNUSED(c), UNUSED(imm);                                                                                        \
        store(y, f(load(a), load(b)));                                                                                 \
    }
#define KERNEL_16(name, f)                                                                                             \
    KERNEL(name)                                                                                                       \
    {                                                                                                                  \
        UNUSED(c), UNUSED(imm);                                                                                        \
        halves s = load_16(a), t = load_16(b);                                                                         \
        store_16(y, (halves){f(s.low, t.low), f(s.high, t.high)});                                                     \
    }
/* Registers of 32 bit are the same or apart: lane by lane is no harm. */
#define KERNEL_32(name, f)                                                                                             \
    KERNEL(name)                                                                                                       \
    {                                                                                                                  \
        UNUSED(c), UNUSED(imm);                                                                                        \
        for (unsigned i = 0; i < 4 * ROW; i += ROW)                                                                    \
            store(y + i, f(load(a + i), load(b + i)));                                                                 \
    }

#define ARITHMETIC(X) X(add) X(sub) X(rsub) X(mul) X(neg) X(abs)
#define PLAIN(X) X(max) X(min) X(sll) X(srl) X(sra) X(rol)
#define BITWISE(X) X(xor) X(not ) X(or) X(and)

#define KERNELS(f) KERNEL_8(k_##f##_8, f##_8) KERNEL_16(k_##f##_16, f##_16) KERNEL_32(k_##f##_32, f##_32)
#define KERNELS_SAT(f) KERNELS(f##s)
#define KERNELS_BITWISE(f)                                                                                             \
    KERNEL_8(k_##f##_8, f##_32) KERNEL_32(k_##f##_32, f##_32) KERNEL(k_##f##_16)                                       \
    {                                                                                                                  \
        UNUSED(c), UNUSED(imm);                                                                                        \
        vec low = f##_32(load(a), load(b)), high = f##_32(load(a + ROW), load(b + ROW));                               \
        store(y, low);                                                                                                 \
        store(y + ROW, high);                                                                                          \
    }
ARITHMETIC(KERNELS)
ARITHMETIC(KERNELS_SAT)
PLAIN(KERNELS)
BITWISE(KERNELS_BITWISE)

#define UNUSED_BUT_A UNUSED(b), UNUSED(c), UNUSED(imm)

INNER void copy(uint8_t *y, const uint8_t *a, unsigned rows)
{
    for (unsigned i = 0; i < rows * ROW; i += ROW)
        store(y + i, load(a + i));
}
KERNEL(move_8)
{
    UNUSED_BUT_A;
    copy(y, a, 1);
}
KERNEL(move_16)
{
    UNUSED_BUT_A;
    copy(y, a, 2);
}
KERNEL(move_32)
{
    UNUSED_BUT_A;
    copy(y, a, 4);
}

INNER void fill_32(uint8_t *y, int x)
{
    for (unsigned i = 0; i < 4 * ROW; i += ROW)
        store(y + i, all32(x));
}
KERNEL(first_8)
{
    UNUSED_BUT_A;
    store(y, all8(a[0]));
}
KERNEL(first_16)
{
    UNUSED_BUT_A;
    vec low = all8(a[0]), high = all8(a[ROW]);
    store(y, low);
    store(y + ROW, high);
}
KERNEL(first_32)
{
    UNUSED_BUT_A;
    fill_32(y, (int)tv_load_le32(a));
}
KERNEL(fill_8)
{
    UNUSED(a), UNUSED(b), UNUSED(c);
    store(y, all8(imm));
}

/* ---- Reductions ---- */

typedef struct quarters {
    vec at[4];
} quarters;

INNER quarters load_32(const uint8_t *p)
{
    return (quarters){{load(p), load(p + ROW), load(p + 2 * ROW), load(p + 3 * ROW)}};
}

INNER void store_32(uint8_t *p, quarters x)
{
    for (unsigned i = 0; i < 4; i++)
        store(p + (size_t)i * ROW, x.at[i]);
}

INNER __m128i part(const uint8_t *p, unsigned i)
{
    return _mm_loadu_si128((const __m128i *)(const void *)(p + 16 * (size_t)i));
}

/* Lanes of 8 or 16 bit, sign extended, in order. */
INNER quarters widen_8(const uint8_t *p)
{
    quarters q;
    for (unsigned i = 0; i < 4; i++)
        q.at[i] = _mm512_cvtepi8_epi32(part(p, i));
    return q;
}
INNER quarters widen_16(const uint8_t *p)
{
    quarters q;
    for (unsigned i = 0; i < 4; i++)
        q.at[i] = _mm512_or_si512(_mm512_cvtepu8_epi32(part(p, i)),
                                  _mm512_slli_epi32(_mm512_cvtepi8_epi32(part(p + ROW, i)), 8));
    return q;
}

#define REDUCE_ONE(name, load_lanes, join, reduce)                                                                     \
    KERNEL(name)                                                                                                       \
    {                                                                                                                  \
        UNUSED_BUT_A;                                                                                                  \
        quarters q = load_lanes(a);                                                                                    \
        fill_32(y, (int)reduce(join(join(q.at[0], q.at[1]), join(q.at[2], q.at[3]))));                                 \
    }
INNER int reduce_xor(vec x)
{
    x = _mm512_xor_si512(x, _mm512_shuffle_i64x2(x, x, 0x4E));
    x = _mm512_xor_si512(x, _mm512_shuffle_i64x2(x, x, 0xB1));
    x = _mm512_xor_si512(x, _mm512_shuffle_epi32(x, (_MM_PERM_ENUM)0x4E));
    x = _mm512_xor_si512(x, _mm512_shuffle_epi32(x, (_MM_PERM_ENUM)0xB1));
    return _mm_cvtsi128_si32(_mm512_castsi512_si128(x));
}
#define REDUCE(name, join, reduce)                                                                                     \
    REDUCE_ONE(name##_8, widen_8, join, reduce)                                                                        \
    REDUCE_ONE(name##_16, widen_16, join, reduce)                                                                      \
    REDUCE_ONE(name##_32, load_32, join, reduce)
REDUCE(sum, _mm512_add_epi32, _mm512_reduce_add_epi32)
REDUCE(rmax, _mm512_max_epi32, _mm512_reduce_max_epi32)
REDUCE(rmin, _mm512_min_epi32, _mm512_reduce_min_epi32)
REDUCE(rand, _mm512_and_si512, _mm512_reduce_and_epi32)
REDUCE(ror, _mm512_or_si512, _mm512_reduce_or_epi32)
REDUCE(rxor, _mm512_xor_si512, reduce_xor)

/* ---- FP32. The host rounds as Tier 2 does; what is NaN, infinite, subnormal or too large is mended before and after.
 * ---- */

enum { QUIET = 0x01, INFINITE = 0x08 | 0x10, SUBNORMAL = 0x20, SIGNALLING = 0x80 };

INNER vec sign_of_zero(vec x, __mmask16 which) { return _mm512_mask_and_epi32(x, which, x, all32(INT32_MIN)); }

INNER __m512 input(vec x)
{
    __mmask16 odd = _mm512_fpclass_ps_mask(_mm512_castsi512_ps(x), QUIET | INFINITE | SUBNORMAL | SIGNALLING);
    return _mm512_castsi512_ps(sign_of_zero(x, odd));
}

/* Absolute minimum, the sign of the first. */
INNER __m512 clamped_to_finite(__m512 x)
{
    return _mm512_range_ps(x, _mm512_castsi512_ps(all32(TV_F32_LARGEST)), 0x02);
}

INNER vec output(__m512 x)
{
    return sign_of_zero(_mm512_castps_si512(clamped_to_finite(x)), _mm512_fpclass_ps_mask(x, SUBNORMAL));
}

#define FP_LOOP(name, expression)                                                                                      \
    KERNEL(name)                                                                                                       \
    {                                                                                                                  \
        UNUSED(b), UNUSED(c), UNUSED(imm);                                                                             \
        for (unsigned i = 0; i < 4 * ROW; i += ROW)                                                                    \
            store(y + i, expression);                                                                                  \
    }
#define IN(p) input(load(p + i))
#define ROUNDED_KERNELS(name, f, ...)                                                                                  \
    FP_LOOP(name##_0, output(f(__VA_ARGS__, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)))                           \
    FP_LOOP(name##_1, output(f(__VA_ARGS__, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC)))                                  \
    FP_LOOP(name##_2, output(f(__VA_ARGS__, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)))                               \
    FP_LOOP(name##_3, output(f(__VA_ARGS__, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC)))
ROUNDED_KERNELS(fadd, _mm512_add_round_ps, IN(a), IN(b))
ROUNDED_KERNELS(fsub, _mm512_sub_round_ps, IN(a), IN(b))
ROUNDED_KERNELS(fmul, _mm512_mul_round_ps, IN(a), IN(b))
ROUNDED_KERNELS(fma, _mm512_fmadd_round_ps, IN(a), IN(b), IN(c))
ROUNDED_KERNELS(fms, _mm512_fmsub_round_ps, IN(a), IN(b), IN(c))
ROUNDED_KERNELS(nfma, _mm512_fnmadd_round_ps, IN(a), IN(b), IN(c))
ROUNDED_KERNELS(nfms, _mm512_fnmsub_round_ps, IN(a), IN(b), IN(c))
FP_LOOP(fneg, _mm512_xor_si512(load(a + i), all32(INT32_MIN)))
FP_LOOP(fabs_, _mm512_and_si512(load(a + i), all32(INT32_MAX)))
/* Finite numbers are in the order of their bits once those of negative ones are turned over; +0 is above -0 so, too. */
INNER vec ordered(vec x) { return _mm512_xor_si512(x, _mm512_srli_epi32(_mm512_srai_epi32(x, 31), 1)); }
FP_LOOP(fmax_, ordered(_mm512_max_epi32(ordered(_mm512_castps_si512(IN(a))), ordered(_mm512_castps_si512(IN(b))))))
FP_LOOP(fmin_, ordered(_mm512_min_epi32(ordered(_mm512_castps_si512(IN(a))), ordered(_mm512_castps_si512(IN(b))))))

/* ---- Conversions ---- */

INNER void store_narrow(uint8_t *y, quarters q)
{
    for (unsigned i = 0; i < 4; i++)
        _mm_storeu_si128((__m128i *)(void *)(y + 16 * (size_t)i), _mm512_cvtepi32_epi8(q.at[i]));
}

INNER void store_narrow_16(uint8_t *y, quarters q)
{
    store_narrow(y, q);
    for (unsigned i = 0; i < 4; i++)
        q.at[i] = _mm512_srli_epi32(q.at[i], 8);
    store_narrow(y + ROW, q);
}

#define MAP(q, expression)                                                                                             \
    for (unsigned i = 0; i < 4; i++) {                                                                                 \
        vec x = (q).at[i];                                                                                             \
        (q).at[i] = (expression);                                                                                      \
    }
#define CONVERT(name, load_lanes, store_lanes, expression)                                                             \
    KERNEL(name)                                                                                                       \
    {                                                                                                                  \
        UNUSED_BUT_A;                                                                                                  \
        quarters q = load_lanes(a);                                                                                    \
        MAP(q, expression)                                                                                             \
        store_lanes(y, q);                                                                                             \
    }
INNER vec clamp(vec x, int low, int high) { return _mm512_max_epi32(_mm512_min_epi32(x, all32(high)), all32(low)); }

CONVERT(s8_s32, load_32, store_narrow, x)
CONVERT(s8_s32_sat, load_32, store_narrow, clamp(x, INT8_MIN, INT8_MAX))
CONVERT(s16_s32, load_32, store_narrow_16, x)
CONVERT(s16_s32_sat, load_32, store_narrow_16, clamp(x, INT16_MIN, INT16_MAX))
CONVERT(s32_s8, widen_8, store_32, x)
CONVERT(s32_s16, widen_16, store_32, x)
CONVERT(f32_s8, widen_8, store_32, _mm512_castps_si512(_mm512_cvtepi32_ps(x)))
CONVERT(f32_bf16, widen_16, store_32, _mm512_castps_si512(input(_mm512_slli_epi32(x, 16))))

/* Numbers of 2^31 and more: none is a fraction, and their low bits are the significand's. */
INNER __mmask16 is_far(vec x)
{
    return _mm512_cmpge_epu32_mask(_mm512_and_si512(x, all32(INT32_MAX)), all32((int)tv_f32_bits(0x1p31f)));
}

INNER vec far_bits(vec x)
{
    vec exponent = _mm512_and_si512(_mm512_srli_epi32(x, TV_F32_FRACTION_BITS), all32(0xFF));
    vec significand = _mm512_or_si512(_mm512_and_si512(x, all32(TV_F32_FRACTION)), all32(TV_F32_HIDDEN));
    vec bits = _mm512_sllv_epi32(significand, _mm512_sub_epi32(exponent, all32(TV_F32_BIAS + TV_F32_FRACTION_BITS)));
    return _mm512_mask_sub_epi32(bits, _mm512_movepi32_mask(x), zero(), bits);
}

#define TO_INTEGER(suffix, mode)                                                                                       \
    INNER vec integer_##suffix(__m512 x) { return _mm512_cvt_roundps_epi32(x, (mode) | _MM_FROUND_NO_EXC); }           \
    INNER vec wrapped_##suffix(vec bits)                                                                               \
    {                                                                                                                  \
        vec x = _mm512_castps_si512(input(bits));                                                                      \
        return _mm512_mask_mov_epi32(integer_##suffix(_mm512_castsi512_ps(x)), is_far(x), far_bits(x));                \
    }                                                                                                                  \
    INNER vec limited_##suffix(vec bits)                                                                               \
    {                                                                                                                  \
        vec x = _mm512_castps_si512(input(bits));                                                                      \
        return _mm512_mask_mov_epi32(integer_##suffix(_mm512_castsi512_ps(x)), is_far(x), limit_32(x));                \
    }                                                                                                                  \
    CONVERT(s32_f32_##suffix, load_32, store_32, wrapped_##suffix(x))                                                  \
    CONVERT(s32_f32_sat_##suffix, load_32, store_32, limited_##suffix(x))                                              \
    CONVERT(s8_f32_##suffix, load_32, store_narrow, wrapped_##suffix(x))                                               \
    CONVERT(s8_f32_sat_##suffix, load_32, store_narrow, clamp(limited_##suffix(x), INT8_MIN, INT8_MAX))                \
    CONVERT(f32_s32_##suffix, load_32, store_32,                                                                       \
            _mm512_castps_si512(_mm512_cvt_roundepi32_ps(x, (mode) | _MM_FROUND_NO_EXC)))
TO_INTEGER(0, _MM_FROUND_TO_NEAREST_INT)
TO_INTEGER(1, _MM_FROUND_TO_ZERO)
TO_INTEGER(2, _MM_FROUND_TO_NEG_INF)
TO_INTEGER(3, _MM_FROUND_TO_POS_INF)

/* Adds what makes cutting off 16 bits round: half a unit less the tie's bit, nothing, or all but a unit for one sign.
 */
INNER vec to_bf16(vec bits, unsigned round)
{
    vec x = _mm512_castps_si512(input(bits)), magnitude = _mm512_and_si512(x, all32(INT32_MAX)),
        negative = _mm512_srai_epi32(x, 31), up = zero();
    if (round == 0)
        up = _mm512_add_epi32(all32(TV_BF16_TIE), _mm512_and_si512(_mm512_srli_epi32(magnitude, 16), all32(1)));
    else if (round == 2)
        up = _mm512_and_si512(negative, all32(0xFFFF));
    else if (round == 3)
        up = _mm512_andnot_si512(negative, all32(0xFFFF));
    vec rounded = _mm512_min_epu32(_mm512_srli_epi32(_mm512_add_epi32(magnitude, up), 16), all32(TV_BF16_LARGEST));
    return _mm512_or_si512(rounded, _mm512_and_si512(negative, all32(TV_BF16_SIGN)));
}
CONVERT(bf16_f32_0, load_32, store_narrow_16, to_bf16(x, 0))
CONVERT(bf16_f32_1, load_32, store_narrow_16, to_bf16(x, 1))
CONVERT(bf16_f32_2, load_32, store_narrow_16, to_bf16(x, 2))
CONVERT(bf16_f32_3, load_32, store_narrow_16, to_bf16(x, 3))

/* ---- Lanes of 32 bit and byte planes: rows or columns of 4 by 4 bytes, then of 4 by 4 words ---- */

/* Word 4 i + j of a row goes to place 4 j + i, and back. */
INNER vec turn_words(vec x)
{
    return _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), x);
}

KERNEL(split)
{
    UNUSED_BUT_A;
    const vec bytes = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    quarters q = load_32(a);
    MAP(q, _mm512_shuffle_epi8(x, bytes))
    vec low01 = _mm512_unpacklo_epi32(q.at[0], q.at[1]), low23 = _mm512_unpacklo_epi32(q.at[2], q.at[3]);
    vec high01 = _mm512_unpackhi_epi32(q.at[0], q.at[1]), high23 = _mm512_unpackhi_epi32(q.at[2], q.at[3]);
    store(y, turn_words(_mm512_unpacklo_epi64(low01, low23)));
    store(y + ROW, turn_words(_mm512_unpackhi_epi64(low01, low23)));
    store(y + 2 * ROW, turn_words(_mm512_unpacklo_epi64(high01, high23)));
    store(y + 3 * ROW, turn_words(_mm512_unpackhi_epi64(high01, high23)));
}

KERNEL(join)
{
    UNUSED_BUT_A;
    quarters q = load_32(a);
    MAP(q, turn_words(x))
    vec low01 = _mm512_unpacklo_epi8(q.at[0], q.at[1]), low23 = _mm512_unpacklo_epi8(q.at[2], q.at[3]);
    vec high01 = _mm512_unpackhi_epi8(q.at[0], q.at[1]), high23 = _mm512_unpackhi_epi8(q.at[2], q.at[3]);
    store(y, _mm512_unpacklo_epi16(low01, low23));
    store(y + ROW, _mm512_unpackhi_epi16(low01, low23));
    store(y + 2 * ROW, _mm512_unpacklo_epi16(high01, high23));
    store(y + 3 * ROW, _mm512_unpackhi_epi16(high01, high23));
}

KERNEL(unzip)
{
    UNUSED_BUT_A;
    vec low = load(a), high = load(a + ROW);
    _mm256_storeu_si256((__m256i *)(void *)y, _mm512_cvtepi16_epi8(low));
    _mm256_storeu_si256((__m256i *)(void *)(y + ROW / 2), _mm512_cvtepi16_epi8(high));
    _mm256_storeu_si256((__m256i *)(void *)(y + ROW), _mm512_cvtepi16_epi8(odds(low)));
    _mm256_storeu_si256((__m256i *)(void *)(y + ROW + ROW / 2), _mm512_cvtepi16_epi8(odds(high)));
}

INNER vec half(const uint8_t *p) { return _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)p)); }

KERNEL(zip)
{
    UNUSED_BUT_A;
    vec low = _mm512_or_si512(half(a), _mm512_slli_epi16(half(a + ROW), 8));
    vec high = _mm512_or_si512(half(a + ROW / 2), _mm512_slli_epi16(half(a + ROW + ROW / 2), 8));
    store(y, low);
    store(y + ROW, high);
}

/* Sixteen entries at a time, for the lanes whose upper half says so. */
KERNEL(lookup)
{
    UNUSED(c), UNUSED(imm);
    const vec nibble = all8(15);
    vec index = load(a), low = _mm512_and_si512(index, nibble),
        high = _mm512_and_si512(_mm512_srli_epi16(index, 4), nibble), found = zero();
    for (unsigned i = 0; i < 16; i++)
        found = _mm512_mask_shuffle_epi8(found, _mm512_cmpeq_epi8_mask(high, all8((int)i)),
                                         _mm512_broadcast_i32x4(part(b, i)), low);
    store(y, found);
}

const tv_lanes_fn tv_lanes_avx512[TV_LANE_OPS][TV_LANE_VARIANTS] = {[TV_LANE_MOVE] = OF_CLASS(move), ALL_BUT_MOVES};
#endif
