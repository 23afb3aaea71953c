/* SPDX-License-Identifier: Apache-2.0 */
/* Lane kernels for hosts with AVX-512.
 *
 * A vector holds a row of bytes (64 lanes of VX), half of a register of 16-bit lanes, or a quarter of one of 32-bit
 * lanes. 16-bit lanes are kept in the order that unpacking gives and packing undoes: lane-wise operations do not see
 * it. Invariant: every kernel gives the bits of the scalar loop that ops.def generates, for every input. K = 64 only;
 * other K use the scalar loops. */
#include "kernels/variants.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels/lanes_table.h"
#include "num/float.h"

#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")))
#define TARGET_INLINE static inline __attribute__((always_inline)) TARGET
#define KERNEL(name)                                                                                                   \
    TARGET static void lanes_##name(uint8_t *y, const uint8_t *a, const uint8_t *b, const uint8_t *c, int imm)
#define UNUSED(x) (void)(x)

typedef __m512i vec;

enum { ROW = 64 };

TARGET_INLINE vec load(const uint8_t *p) { return _mm512_loadu_si512(p); }
TARGET_INLINE void store(uint8_t *p, vec x) { _mm512_storeu_si512(p, x); }
TARGET_INLINE vec zero(void) { return _mm512_setzero_si512(); }
TARGET_INLINE vec splat_8(int x) { return _mm512_set1_epi8((char)x); }
TARGET_INLINE vec splat_16(int x) { return _mm512_set1_epi16((short)x); }
TARGET_INLINE vec splat_32(int x) { return _mm512_set1_epi32(x); }

/* ---- Bytes. Operations that the host has for 16-bit lanes only are done on the even and on the odd bytes. ---- */

TARGET_INLINE vec even_bytes(vec x) { return _mm512_and_si512(x, splat_16(0xFF)); }
TARGET_INLINE vec odd_bytes(vec x) { return _mm512_srli_epi16(x, 8); }
/* The odd bytes, with the even ones zero. */
TARGET_INLINE vec high_bytes(vec x) { return _mm512_andnot_si512(splat_16(0xFF), x); }
TARGET_INLINE vec blend_bytes(vec even, vec odd)
{
    return _mm512_mask_blend_epi8(UINT64_C(0xAAAAAAAAAAAAAAAA), even, odd);
}
TARGET_INLINE vec even_shifts(vec b) { return _mm512_and_si512(b, splat_16(7)); }
TARGET_INLINE vec odd_shifts(vec b) { return _mm512_and_si512(odd_bytes(b), splat_16(7)); }

TARGET_INLINE vec add_8(vec a, vec b) { return _mm512_add_epi8(a, b); }
TARGET_INLINE vec sub_8(vec a, vec b) { return _mm512_sub_epi8(a, b); }
TARGET_INLINE vec rsub_8(vec a, vec b) { return _mm512_sub_epi8(b, a); }
TARGET_INLINE vec mul_8(vec a, vec b)
{
    return blend_bytes(_mm512_mullo_epi16(a, b), _mm512_mullo_epi16(odd_bytes(a), high_bytes(b)));
}
TARGET_INLINE vec neg_8(vec a, vec b)
{
    UNUSED(b);
    return _mm512_sub_epi8(zero(), a);
}
TARGET_INLINE vec abs_8(vec a, vec b)
{
    UNUSED(b);
    return _mm512_abs_epi8(a);
}
TARGET_INLINE vec max_8(vec a, vec b) { return _mm512_max_epi8(a, b); }
TARGET_INLINE vec min_8(vec a, vec b) { return _mm512_min_epi8(a, b); }
TARGET_INLINE vec sll_8(vec a, vec b)
{
    return blend_bytes(_mm512_sllv_epi16(a, even_shifts(b)), _mm512_sllv_epi16(high_bytes(a), odd_shifts(b)));
}
TARGET_INLINE vec srl_8(vec a, vec b)
{
    return blend_bytes(_mm512_srlv_epi16(even_bytes(a), even_shifts(b)), _mm512_srlv_epi16(a, odd_shifts(b)));
}
TARGET_INLINE vec sra_8(vec a, vec b)
{
    vec even = _mm512_srav_epi16(_mm512_slli_epi16(a, 8), even_shifts(b));
    return blend_bytes(odd_bytes(even), _mm512_srav_epi16(a, odd_shifts(b)));
}
TARGET_INLINE vec rotate_16(vec low, vec n)
{
    return _mm512_or_si512(_mm512_sllv_epi16(low, n), _mm512_srlv_epi16(low, _mm512_sub_epi16(splat_16(8), n)));
}
TARGET_INLINE vec rol_8(vec a, vec b)
{
    return blend_bytes(rotate_16(even_bytes(a), even_shifts(b)),
                       _mm512_slli_epi16(rotate_16(odd_bytes(a), odd_shifts(b)), 8));
}
TARGET_INLINE vec adds_8(vec a, vec b) { return _mm512_adds_epi8(a, b); }
TARGET_INLINE vec subs_8(vec a, vec b) { return _mm512_subs_epi8(a, b); }
TARGET_INLINE vec rsubs_8(vec a, vec b) { return _mm512_subs_epi8(b, a); }
TARGET_INLINE vec negs_8(vec a, vec b)
{
    UNUSED(b);
    return _mm512_subs_epi8(zero(), a);
}
TARGET_INLINE vec abss_8(vec a, vec b)
{
    UNUSED(b);
    return _mm512_min_epu8(_mm512_abs_epi8(a), splat_8(127));
}
TARGET_INLINE vec clamp_s8(vec x) { return _mm512_max_epi16(_mm512_min_epi16(x, splat_16(127)), splat_16(-128)); }
TARGET_INLINE vec muls_8(vec a, vec b)
{
    vec even = _mm512_mullo_epi16(_mm512_srai_epi16(_mm512_slli_epi16(a, 8), 8),
                                  _mm512_srai_epi16(_mm512_slli_epi16(b, 8), 8));
    vec odd = _mm512_mullo_epi16(_mm512_srai_epi16(a, 8), _mm512_srai_epi16(b, 8));
    return blend_bytes(clamp_s8(even), _mm512_slli_epi16(clamp_s8(odd), 8));
}

/* ---- 16-bit lanes ---- */

TARGET_INLINE vec shifts_16(vec b) { return _mm512_and_si512(b, splat_16(15)); }
TARGET_INLINE vec add_16(vec a, vec b) { return _mm512_add_epi16(a, b); }
TARGET_INLINE vec sub_16(vec a, vec b) { return _mm512_sub_epi16(a, b); }
TARGET_INLINE vec rsub_16(vec a, vec b) { return _mm512_sub_epi16(b, a); }
TARGET_INLINE vec mul_16(vec a, vec b) { return _mm512_mullo_epi16(a, b); }
TARGET_INLINE vec neg_16(vec a, vec b)
{
    UNUSED(b);
    return _mm512_sub_epi16(zero(), a);
}
TARGET_INLINE vec abs_16(vec a, vec b)
{
    UNUSED(b);
    return _mm512_abs_epi16(a);
}
TARGET_INLINE vec max_16(vec a, vec b) { return _mm512_max_epi16(a, b); }
TARGET_INLINE vec min_16(vec a, vec b) { return _mm512_min_epi16(a, b); }
TARGET_INLINE vec sll_16(vec a, vec b) { return _mm512_sllv_epi16(a, shifts_16(b)); }
TARGET_INLINE vec srl_16(vec a, vec b) { return _mm512_srlv_epi16(a, shifts_16(b)); }
TARGET_INLINE vec sra_16(vec a, vec b) { return _mm512_srav_epi16(a, shifts_16(b)); }
TARGET_INLINE vec rol_16(vec a, vec b)
{
    vec n = shifts_16(b);
    return _mm512_or_si512(_mm512_sllv_epi16(a, n), _mm512_srlv_epi16(a, _mm512_sub_epi16(splat_16(16), n)));
}
TARGET_INLINE vec adds_16(vec a, vec b) { return _mm512_adds_epi16(a, b); }
TARGET_INLINE vec subs_16(vec a, vec b) { return _mm512_subs_epi16(a, b); }
TARGET_INLINE vec rsubs_16(vec a, vec b) { return _mm512_subs_epi16(b, a); }
TARGET_INLINE vec negs_16(vec a, vec b)
{
    UNUSED(b);
    return _mm512_subs_epi16(zero(), a);
}
TARGET_INLINE vec abss_16(vec a, vec b)
{
    UNUSED(b);
    return _mm512_min_epu16(_mm512_abs_epi16(a), splat_16(INT16_MAX));
}
TARGET_INLINE vec muls_16(vec a, vec b)
{
    vec low = _mm512_mullo_epi16(a, b), high = _mm512_mulhi_epi16(a, b);
    __mmask32 over = _mm512_cmpneq_epi16_mask(high, _mm512_srai_epi16(low, 15));
    return _mm512_mask_blend_epi16(over, low, _mm512_xor_si512(_mm512_srai_epi16(high, 15), splat_16(INT16_MAX)));
}

/* ---- 32-bit lanes ---- */

TARGET_INLINE vec shifts_32(vec b) { return _mm512_and_si512(b, splat_32(31)); }
/* INT32_MIN for negative x, otherwise INT32_MAX. */
TARGET_INLINE vec range_end_32(vec x) { return _mm512_xor_si512(_mm512_srai_epi32(x, 31), splat_32(INT32_MAX)); }
TARGET_INLINE vec add_32(vec a, vec b) { return _mm512_add_epi32(a, b); }
TARGET_INLINE vec sub_32(vec a, vec b) { return _mm512_sub_epi32(a, b); }
TARGET_INLINE vec rsub_32(vec a, vec b) { return _mm512_sub_epi32(b, a); }
TARGET_INLINE vec mul_32(vec a, vec b) { return _mm512_mullo_epi32(a, b); }
TARGET_INLINE vec neg_32(vec a, vec b)
{
    UNUSED(b);
    return _mm512_sub_epi32(zero(), a);
}
TARGET_INLINE vec abs_32(vec a, vec b)
{
    UNUSED(b);
    return _mm512_abs_epi32(a);
}
TARGET_INLINE vec max_32(vec a, vec b) { return _mm512_max_epi32(a, b); }
TARGET_INLINE vec min_32(vec a, vec b) { return _mm512_min_epi32(a, b); }
TARGET_INLINE vec sll_32(vec a, vec b) { return _mm512_sllv_epi32(a, shifts_32(b)); }
TARGET_INLINE vec srl_32(vec a, vec b) { return _mm512_srlv_epi32(a, shifts_32(b)); }
TARGET_INLINE vec sra_32(vec a, vec b) { return _mm512_srav_epi32(a, shifts_32(b)); }
TARGET_INLINE vec rol_32(vec a, vec b) { return _mm512_rolv_epi32(a, b); }
TARGET_INLINE vec bit_xor_32(vec a, vec b) { return _mm512_xor_si512(a, b); }
TARGET_INLINE vec bit_not_32(vec a, vec b)
{
    UNUSED(b);
    return _mm512_xor_si512(a, splat_32(-1));
}
TARGET_INLINE vec bit_or_32(vec a, vec b) { return _mm512_or_si512(a, b); }
TARGET_INLINE vec bit_and_32(vec a, vec b) { return _mm512_and_si512(a, b); }
TARGET_INLINE vec adds_32(vec a, vec b)
{
    vec sum = _mm512_add_epi32(a, b), over = _mm512_and_si512(_mm512_xor_si512(a, sum), _mm512_xor_si512(b, sum));
    return _mm512_mask_mov_epi32(sum, _mm512_movepi32_mask(over), range_end_32(a));
}
TARGET_INLINE vec subs_32(vec a, vec b)
{
    vec rest = _mm512_sub_epi32(a, b), over = _mm512_and_si512(_mm512_xor_si512(a, b), _mm512_xor_si512(a, rest));
    return _mm512_mask_mov_epi32(rest, _mm512_movepi32_mask(over), range_end_32(a));
}
TARGET_INLINE vec rsubs_32(vec a, vec b) { return subs_32(b, a); }
TARGET_INLINE vec negs_32(vec a, vec b)
{
    UNUSED(b);
    return subs_32(zero(), a);
}
TARGET_INLINE vec abss_32(vec a, vec b)
{
    UNUSED(b);
    return _mm512_min_epu32(_mm512_abs_epi32(a), splat_32(INT32_MAX));
}
TARGET_INLINE vec muls_32(vec a, vec b)
{
    vec even = _mm512_mul_epi32(a, b), odd = _mm512_mul_epi32(_mm512_srli_epi64(a, 32), _mm512_srli_epi64(b, 32));
    vec low = _mm512_mask_blend_epi32(0xAAAA, even, _mm512_slli_epi64(odd, 32));
    vec high = _mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64(even, 32), odd);
    return _mm512_mask_mov_epi32(low, _mm512_cmpneq_epi32_mask(high, _mm512_srai_epi32(low, 31)), range_end_32(high));
}

/* ---- Registers of each width ---- */

typedef struct halves {
    vec low, high;
} halves;

TARGET_INLINE halves load_16(const uint8_t *p)
{
    vec p0 = load(p), p1 = load(p + ROW);
    return (halves){_mm512_unpacklo_epi8(p0, p1), _mm512_unpackhi_epi8(p0, p1)};
}

TARGET_INLINE void store_16(uint8_t *p, halves x)
{
    store(p, _mm512_packus_epi16(even_bytes(x.low), even_bytes(x.high)));
    store(p + ROW, _mm512_packus_epi16(odd_bytes(x.low), odd_bytes(x.high)));
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
/* Registers of 32-bit lanes are the same or disjoint, so storing a vector before loading the next is safe. */
#define KERNEL_32(name, f)                                                                                             \
    KERNEL(name)                                                                                                       \
    {                                                                                                                  \
        UNUSED(c), UNUSED(imm);                                                                                        \
        for (unsigned i = 0; i < 4 * ROW; i += ROW)                                                                    \
            store(y + i, f(load(a + i), load(b + i)));                                                                 \
    }

#define FOR_EACH_SATURATING(X) X(add) X(sub) X(rsub) X(mul) X(neg) X(abs)
#define FOR_EACH_WRAPPING(X) X(max) X(min) X(sll) X(srl) X(sra) X(rol)
#define FOR_EACH_BITWISE(X) X(bit_xor) X(bit_not) X(bit_or) X(bit_and)

#define KERNELS(f) KERNEL_8(f##_8, f##_8) KERNEL_16(f##_16, f##_16) KERNEL_32(f##_32, f##_32)
#define KERNELS_SAT(f) KERNELS(f##s)
#define KERNELS_BITWISE(f)                                                                                             \
    KERNEL_8(f##_8, f##_32) KERNEL_32(f##_32, f##_32) KERNEL(f##_16)                                                   \
    {                                                                                                                  \
        UNUSED(c), UNUSED(imm);                                                                                        \
        vec low = f##_32(load(a), load(b)), high = f##_32(load(a + ROW), load(b + ROW));                               \
        store(y, low);                                                                                                 \
        store(y + ROW, high);                                                                                          \
    }
FOR_EACH_SATURATING(KERNELS)
FOR_EACH_SATURATING(KERNELS_SAT)
FOR_EACH_WRAPPING(KERNELS)
FOR_EACH_BITWISE(KERNELS_BITWISE)

#define UNUSED_EXCEPT_A UNUSED(b), UNUSED(c), UNUSED(imm)

TARGET_INLINE void copy(uint8_t *y, const uint8_t *a, unsigned rows)
{
    for (unsigned i = 0; i < rows * ROW; i += ROW)
        store(y + i, load(a + i));
}
KERNEL(move_8)
{
    UNUSED_EXCEPT_A;
    copy(y, a, 1);
}
KERNEL(move_16)
{
    UNUSED_EXCEPT_A;
    copy(y, a, 2);
}
KERNEL(move_32)
{
    UNUSED_EXCEPT_A;
    copy(y, a, 4);
}

TARGET_INLINE void store_splat_32(uint8_t *y, int x)
{
    for (unsigned i = 0; i < 4 * ROW; i += ROW)
        store(y + i, splat_32(x));
}
KERNEL(first_8)
{
    UNUSED_EXCEPT_A;
    store(y, splat_8(a[0]));
}
KERNEL(first_16)
{
    UNUSED_EXCEPT_A;
    vec low = splat_8(a[0]), high = splat_8(a[ROW]);
    store(y, low);
    store(y + ROW, high);
}
KERNEL(first_32)
{
    UNUSED_EXCEPT_A;
    store_splat_32(y, (int)tv_load_le32(a));
}
KERNEL(fill_8)
{
    UNUSED(a), UNUSED(b), UNUSED(c);
    store(y, splat_8(imm));
}

/* ---- Reductions ---- */

typedef struct quarters {
    vec at[4];
} quarters;

TARGET_INLINE quarters load_32(const uint8_t *p)
{
    return (quarters){{load(p), load(p + ROW), load(p + 2 * ROW), load(p + 3 * ROW)}};
}

TARGET_INLINE void store_32(uint8_t *p, quarters x)
{
    for (unsigned i = 0; i < 4; i++)
        store(p + (size_t)i * ROW, x.at[i]);
}

TARGET_INLINE __m128i load_128(const uint8_t *p, unsigned i)
{
    return _mm_loadu_si128((const __m128i *)(const void *)(p + 16 * (size_t)i));
}

/* Lanes of 8 or 16 bits, sign extended, in order. */
TARGET_INLINE quarters widen_8(const uint8_t *p)
{
    quarters q;
    for (unsigned i = 0; i < 4; i++)
        q.at[i] = _mm512_cvtepi8_epi32(load_128(p, i));
    return q;
}
TARGET_INLINE quarters widen_16(const uint8_t *p)
{
    quarters q;
    for (unsigned i = 0; i < 4; i++)
        q.at[i] = _mm512_or_si512(_mm512_cvtepu8_epi32(load_128(p, i)),
                                  _mm512_slli_epi32(_mm512_cvtepi8_epi32(load_128(p + ROW, i)), 8));
    return q;
}

#define REDUCE_ONE(name, load_lanes, combine, reduce)                                                                  \
    KERNEL(name)                                                                                                       \
    {                                                                                                                  \
        UNUSED_EXCEPT_A;                                                                                               \
        quarters q = load_lanes(a);                                                                                    \
        store_splat_32(y, (int)reduce(combine(combine(q.at[0], q.at[1]), combine(q.at[2], q.at[3]))));                 \
    }
TARGET_INLINE int reduce_xor(vec x)
{
    x = _mm512_xor_si512(x, _mm512_shuffle_i64x2(x, x, 0x4E));
    x = _mm512_xor_si512(x, _mm512_shuffle_i64x2(x, x, 0xB1));
    x = _mm512_xor_si512(x, _mm512_shuffle_epi32(x, (_MM_PERM_ENUM)0x4E));
    x = _mm512_xor_si512(x, _mm512_shuffle_epi32(x, (_MM_PERM_ENUM)0xB1));
    return _mm_cvtsi128_si32(_mm512_castsi512_si128(x));
}
#define REDUCE(name, combine, reduce)                                                                                  \
    REDUCE_ONE(name##_8, widen_8, combine, reduce)                                                                     \
    REDUCE_ONE(name##_16, widen_16, combine, reduce)                                                                   \
    REDUCE_ONE(name##_32, load_32, combine, reduce)
REDUCE(sum, _mm512_add_epi32, _mm512_reduce_add_epi32)
REDUCE(rmax, _mm512_max_epi32, _mm512_reduce_max_epi32)
REDUCE(rmin, _mm512_min_epi32, _mm512_reduce_min_epi32)
REDUCE(rand, _mm512_and_si512, _mm512_reduce_and_epi32)
REDUCE(ror, _mm512_or_si512, _mm512_reduce_or_epi32)
REDUCE(rxor, _mm512_xor_si512, reduce_xor)

/* ---- FP32: the host rounds as Tier 2 does; NaN, infinity, subnormals and overflow are replaced ---- */

enum { QUIET_NAN = 0x01, INFINITE = 0x08 | 0x10, SUBNORMAL = 0x20, SIGNALING_NAN = 0x80 };

/* The zero of its sign for the lanes in `which`. */
TARGET_INLINE vec flush_to_zero(vec x, __mmask16 which)
{
    return _mm512_mask_and_epi32(x, which, x, splat_32(INT32_MIN));
}

TARGET_INLINE __m512 flush_input(vec x)
{
    __mmask16 special =
        _mm512_fpclass_ps_mask(_mm512_castsi512_ps(x), QUIET_NAN | INFINITE | SUBNORMAL | SIGNALING_NAN);
    return _mm512_castsi512_ps(flush_to_zero(x, special));
}

/* The range operation takes the minimum of the magnitudes and the sign of x. */
TARGET_INLINE __m512 clamp_to_finite(__m512 x)
{
    return _mm512_range_ps(x, _mm512_castsi512_ps(splat_32(TV_F32_MAX)), 0x02);
}

TARGET_INLINE vec flush_output(__m512 x)
{
    return flush_to_zero(_mm512_castps_si512(clamp_to_finite(x)), _mm512_fpclass_ps_mask(x, SUBNORMAL));
}

#define FP_LOOP(name, expression)                                                                                      \
    KERNEL(name)                                                                                                       \
    {                                                                                                                  \
        UNUSED(b), UNUSED(c), UNUSED(imm);                                                                             \
        for (unsigned i = 0; i < 4 * ROW; i += ROW)                                                                    \
            store(y + i, expression);                                                                                  \
    }
#define IN(p) flush_input(load(p + i))
#define ROUNDED_KERNELS(name, f, ...)                                                                                  \
    FP_LOOP(name##_0, flush_output(f(__VA_ARGS__, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)))                     \
    FP_LOOP(name##_1, flush_output(f(__VA_ARGS__, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC)))                            \
    FP_LOOP(name##_2, flush_output(f(__VA_ARGS__, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)))                         \
    FP_LOOP(name##_3, flush_output(f(__VA_ARGS__, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC)))
ROUNDED_KERNELS(fadd, _mm512_add_round_ps, IN(a), IN(b))
ROUNDED_KERNELS(fsub, _mm512_sub_round_ps, IN(a), IN(b))

/* The lanes that hold the smallest normal number, of either sign; few results are. */
TARGET_INLINE __mmask16 find_smallest(vec x)
{
    return _mm512_cmpeq_epi32_mask(_mm512_and_si512(x, splat_32(INT32_MAX)), splat_32(TV_F32_HIDDEN));
}

/* Replaces results that the host rounded up to the smallest normal number on the grid of subnormals by zero, if they
 * round to a smaller number with unbounded exponent: `scaled` is the result times 2^64, where that grid is far away. An
 * addend of 2^-90 or more makes the sum a multiple of that grid, hence exact. */
TARGET_INLINE vec flush_tiny(vec result, __m512 scaled, __m512 addend)
{
    __mmask16 tiny = find_smallest(result) &
                     _mm512_cmp_ps_mask(_mm512_abs_ps(scaled), _mm512_set1_ps(0x1p-62f), _CMP_LT_OQ) &
                     _mm512_cmp_ps_mask(_mm512_abs_ps(addend), _mm512_set1_ps(0x1p-90f), _CMP_LT_OQ);
    return flush_to_zero(result, tiny);
}
TARGET_INLINE __m512 scale_up(__m512 x) { return _mm512_mul_ps(x, _mm512_set1_ps(0x1p64f)); }
#define FLUSH_TINY(result, scaled, addend) (find_smallest(result) ? flush_tiny(result, scaled, addend) : (result))
#define PRODUCT(f, a, b, mode) FLUSH_TINY(flush_output(f(a, b, mode)), f(scale_up(a), b, mode), _mm512_setzero_ps())
#define FUSED(f, a, b, c, mode) FLUSH_TINY(flush_output(f(a, b, c, mode)), f(scale_up(a), b, scale_up(c), mode), c)
#define PRODUCT_KERNELS(name, EXACT, ...)                                                                              \
    FP_LOOP(name##_0, EXACT(__VA_ARGS__, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC))                               \
    FP_LOOP(name##_1, EXACT(__VA_ARGS__, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC))                                      \
    FP_LOOP(name##_2, EXACT(__VA_ARGS__, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC))                                   \
    FP_LOOP(name##_3, EXACT(__VA_ARGS__, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC))
PRODUCT_KERNELS(fmul, PRODUCT, _mm512_mul_round_ps, IN(a), IN(b))
PRODUCT_KERNELS(fma, FUSED, _mm512_fmadd_round_ps, IN(a), IN(b), IN(c))
PRODUCT_KERNELS(fms, FUSED, _mm512_fmsub_round_ps, IN(a), IN(b), IN(c))
PRODUCT_KERNELS(nfma, FUSED, _mm512_fnmadd_round_ps, IN(a), IN(b), IN(c))
PRODUCT_KERNELS(nfms, FUSED, _mm512_fnmsub_round_ps, IN(a), IN(b), IN(c))
FP_LOOP(fneg, _mm512_xor_si512(load(a + i), splat_32(INT32_MIN)))
FP_LOOP(fabs, _mm512_and_si512(load(a + i), splat_32(INT32_MAX)))
/* Maps finite numbers to integers of the same order, with +0 above -0, and back: inverts the magnitude bits of negative
 * ones. */
TARGET_INLINE vec to_ordered(vec x) { return _mm512_xor_si512(x, _mm512_srli_epi32(_mm512_srai_epi32(x, 31), 1)); }
FP_LOOP(fmax,
        to_ordered(_mm512_max_epi32(to_ordered(_mm512_castps_si512(IN(a))), to_ordered(_mm512_castps_si512(IN(b))))))
FP_LOOP(fmin,
        to_ordered(_mm512_min_epi32(to_ordered(_mm512_castps_si512(IN(a))), to_ordered(_mm512_castps_si512(IN(b))))))

/* ---- Conversions ---- */

TARGET_INLINE void store_low_8(uint8_t *y, quarters q)
{
    for (unsigned i = 0; i < 4; i++)
        _mm_storeu_si128((__m128i *)(void *)(y + 16 * (size_t)i), _mm512_cvtepi32_epi8(q.at[i]));
}

TARGET_INLINE void store_low_16(uint8_t *y, quarters q)
{
    store_low_8(y, q);
    for (unsigned i = 0; i < 4; i++)
        q.at[i] = _mm512_srli_epi32(q.at[i], 8);
    store_low_8(y + ROW, q);
}

#define CONVERT(name, load_lanes, store_lanes, expression)                                                             \
    KERNEL(name)                                                                                                       \
    {                                                                                                                  \
        UNUSED_EXCEPT_A;                                                                                               \
        quarters q = load_lanes(a);                                                                                    \
        for (unsigned i = 0; i < 4; i++) {                                                                             \
            vec x = q.at[i];                                                                                           \
            q.at[i] = (expression);                                                                                    \
        }                                                                                                              \
        store_lanes(y, q);                                                                                             \
    }
TARGET_INLINE vec clamp(vec x, int low, int high)
{
    return _mm512_max_epi32(_mm512_min_epi32(x, splat_32(high)), splat_32(low));
}

CONVERT(s8_s32, load_32, store_low_8, x)
CONVERT(s8_s32_sat, load_32, store_low_8, clamp(x, INT8_MIN, INT8_MAX))
CONVERT(s16_s32, load_32, store_low_16, x)
CONVERT(s16_s32_sat, load_32, store_low_16, clamp(x, INT16_MIN, INT16_MAX))
CONVERT(s32_s8, widen_8, store_32, x)
CONVERT(s32_s16, widen_16, store_32, x)
CONVERT(f32_s8, widen_8, store_32, _mm512_castps_si512(_mm512_cvtepi32_ps(x)))
CONVERT(f32_bf16, widen_16, store_32, _mm512_castps_si512(flush_input(_mm512_slli_epi32(x, 16))))

/* Magnitudes of 2^31 and more, which the host does not convert: they have no fraction, and their low bits are those of
 * the shifted significand. */
TARGET_INLINE __mmask16 exceeds_s32(vec x)
{
    return _mm512_cmpge_epu32_mask(_mm512_and_si512(x, splat_32(INT32_MAX)), splat_32((int)tv_f32_bits(0x1p31f)));
}

TARGET_INLINE vec low_bits_of_large(vec x)
{
    vec exponent = _mm512_and_si512(_mm512_srli_epi32(x, TV_F32_FRACTION_BITS), splat_32(0xFF));
    vec significand = _mm512_or_si512(_mm512_and_si512(x, splat_32(TV_F32_FRACTION)), splat_32(TV_F32_HIDDEN));
    vec bits = _mm512_sllv_epi32(significand, _mm512_sub_epi32(exponent, splat_32(TV_F32_BIAS + TV_F32_FRACTION_BITS)));
    return _mm512_mask_sub_epi32(bits, _mm512_movepi32_mask(x), zero(), bits);
}

#define TO_INTEGER(suffix, mode)                                                                                       \
    TARGET_INLINE vec round_to_s32_##suffix(__m512 x)                                                                  \
    {                                                                                                                  \
        return _mm512_cvt_roundps_epi32(x, (mode) | _MM_FROUND_NO_EXC);                                                \
    }                                                                                                                  \
    TARGET_INLINE vec to_s32_wrapped_##suffix(vec bits)                                                                \
    {                                                                                                                  \
        vec x = _mm512_castps_si512(flush_input(bits));                                                                \
        return _mm512_mask_mov_epi32(round_to_s32_##suffix(_mm512_castsi512_ps(x)), exceeds_s32(x),                    \
                                     low_bits_of_large(x));                                                            \
    }                                                                                                                  \
    TARGET_INLINE vec to_s32_saturated_##suffix(vec bits)                                                              \
    {                                                                                                                  \
        vec x = _mm512_castps_si512(flush_input(bits));                                                                \
        return _mm512_mask_mov_epi32(round_to_s32_##suffix(_mm512_castsi512_ps(x)), exceeds_s32(x), range_end_32(x));  \
    }                                                                                                                  \
    CONVERT(s32_f32_##suffix, load_32, store_32, to_s32_wrapped_##suffix(x))                                           \
    CONVERT(s32_f32_sat_##suffix, load_32, store_32, to_s32_saturated_##suffix(x))                                     \
    CONVERT(s8_f32_##suffix, load_32, store_low_8, to_s32_wrapped_##suffix(x))                                         \
    CONVERT(s8_f32_sat_##suffix, load_32, store_low_8, clamp(to_s32_saturated_##suffix(x), INT8_MIN, INT8_MAX))        \
    CONVERT(f32_s32_##suffix, load_32, store_32,                                                                       \
            _mm512_castps_si512(_mm512_cvt_roundepi32_ps(x, (mode) | _MM_FROUND_NO_EXC)))
TO_INTEGER(0, _MM_FROUND_TO_NEAREST_INT)
TO_INTEGER(1, _MM_FROUND_TO_ZERO)
TO_INTEGER(2, _MM_FROUND_TO_NEG_INF)
TO_INTEGER(3, _MM_FROUND_TO_POS_INF)

/* Rounds by adding to the magnitude before truncating it to 16 bits: half a unit (to even), nothing, or just below one
 * unit for one sign. */
TARGET_INLINE vec to_bf16(vec bits, unsigned round)
{
    vec x = _mm512_castps_si512(flush_input(bits)), magnitude = _mm512_and_si512(x, splat_32(INT32_MAX)),
        negative = _mm512_srai_epi32(x, 31), up = zero();
    if (round == 0)
        up = _mm512_add_epi32(splat_32(TV_BF16_TIE), _mm512_and_si512(_mm512_srli_epi32(magnitude, 16), splat_32(1)));
    else if (round == 2)
        up = _mm512_and_si512(negative, splat_32(0xFFFF));
    else if (round == 3)
        up = _mm512_andnot_si512(negative, splat_32(0xFFFF));
    vec rounded = _mm512_min_epu32(_mm512_srli_epi32(_mm512_add_epi32(magnitude, up), 16), splat_32(TV_BF16_MAX));
    return _mm512_or_si512(rounded, _mm512_and_si512(negative, splat_32(TV_BF16_SIGN)));
}
CONVERT(bf16_f32_0, load_32, store_low_16, to_bf16(x, 0))
CONVERT(bf16_f32_1, load_32, store_low_16, to_bf16(x, 1))
CONVERT(bf16_f32_2, load_32, store_low_16, to_bf16(x, 2))
CONVERT(bf16_f32_3, load_32, store_low_16, to_bf16(x, 3))

/* ---- Lanes and byte planes: a transposition of 4 x 4 bytes, and one of 4 x 4 words ---- */

/* Moves word 4 i + j to position 4 j + i; its own inverse. */
TARGET_INLINE vec transpose_words(vec x)
{
    return _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), x);
}

KERNEL(to_planes)
{
    UNUSED_EXCEPT_A;
    const vec bytes = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    quarters q = load_32(a);
    for (unsigned i = 0; i < 4; i++)
        q.at[i] = _mm512_shuffle_epi8(q.at[i], bytes);
    vec low01 = _mm512_unpacklo_epi32(q.at[0], q.at[1]), low23 = _mm512_unpacklo_epi32(q.at[2], q.at[3]);
    vec high01 = _mm512_unpackhi_epi32(q.at[0], q.at[1]), high23 = _mm512_unpackhi_epi32(q.at[2], q.at[3]);
    store(y, transpose_words(_mm512_unpacklo_epi64(low01, low23)));
    store(y + ROW, transpose_words(_mm512_unpackhi_epi64(low01, low23)));
    store(y + 2 * ROW, transpose_words(_mm512_unpacklo_epi64(high01, high23)));
    store(y + 3 * ROW, transpose_words(_mm512_unpackhi_epi64(high01, high23)));
}

KERNEL(to_lanes)
{
    UNUSED_EXCEPT_A;
    quarters q = load_32(a);
    for (unsigned i = 0; i < 4; i++)
        q.at[i] = transpose_words(q.at[i]);
    vec low01 = _mm512_unpacklo_epi8(q.at[0], q.at[1]), low23 = _mm512_unpacklo_epi8(q.at[2], q.at[3]);
    vec high01 = _mm512_unpackhi_epi8(q.at[0], q.at[1]), high23 = _mm512_unpackhi_epi8(q.at[2], q.at[3]);
    store(y, _mm512_unpacklo_epi16(low01, low23));
    store(y + ROW, _mm512_unpackhi_epi16(low01, low23));
    store(y + 2 * ROW, _mm512_unpacklo_epi16(high01, high23));
    store(y + 3 * ROW, _mm512_unpackhi_epi16(high01, high23));
}

KERNEL(deinterleave)
{
    UNUSED_EXCEPT_A;
    vec low = load(a), high = load(a + ROW);
    _mm256_storeu_si256((__m256i *)(void *)y, _mm512_cvtepi16_epi8(low));
    _mm256_storeu_si256((__m256i *)(void *)(y + ROW / 2), _mm512_cvtepi16_epi8(high));
    _mm256_storeu_si256((__m256i *)(void *)(y + ROW), _mm512_cvtepi16_epi8(odd_bytes(low)));
    _mm256_storeu_si256((__m256i *)(void *)(y + ROW + ROW / 2), _mm512_cvtepi16_epi8(odd_bytes(high)));
}

TARGET_INLINE vec load_bytes_as_u16(const uint8_t *p)
{
    return _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)p));
}

KERNEL(interleave)
{
    UNUSED_EXCEPT_A;
    vec low = _mm512_or_si512(load_bytes_as_u16(a), _mm512_slli_epi16(load_bytes_as_u16(a + ROW), 8));
    vec high =
        _mm512_or_si512(load_bytes_as_u16(a + ROW / 2), _mm512_slli_epi16(load_bytes_as_u16(a + ROW + ROW / 2), 8));
    store(y, low);
    store(y + ROW, high);
}

/* Sixteen entries at a time, for the lanes whose upper nibble selects them. */
KERNEL(lookup)
{
    UNUSED(c), UNUSED(imm);
    const vec nibble = splat_8(15);
    vec index = load(a), low = _mm512_and_si512(index, nibble),
        high = _mm512_and_si512(_mm512_srli_epi16(index, 4), nibble), found = zero();
    for (unsigned i = 0; i < 16; i++)
        found = _mm512_mask_shuffle_epi8(found, _mm512_cmpeq_epi8_mask(high, splat_8((int)i)),
                                         _mm512_broadcast_i32x4(load_128(b, i)), low);
    store(y, found);
}

const tv_lanes_set tv_lanes_avx512 = {{
#define TV_LANE(id, selection, avx2, avx512, neon) [TV_LANE_##id] = avx512,
#include "kernels/lanes.def"
#undef TV_LANE
}};
#endif
